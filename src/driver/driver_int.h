/* Inside driver: one compile from text to program. */
#ifndef TN_DRIVER_INT_H
#define TN_DRIVER_INT_H
#include "base/base.h"
#include "ir/ir.h"
#include "lower/lower.h"
#include "passes/passes.h"
#include "runtime/runtime.h"
#include "target/target.h"
#include "tenon/compile.h"

typedef struct tn_object { const void *p; size_t n; } tn_object;

typedef struct tn_stage {
  const char *name;
  uint32_t n_in, n_out;
  uint64_t ns;
  bool skipped;
} tn_stage;
#define TN_N_STAGES 7

/* Constants of all plans of a compile, each once, 64-byte aligned. Counted: models outlive the compile that made them. */
typedef struct tn_const_store tn_const_store;
tn_const_store *tn_const_store_create(void);
void tn_const_store_retain(tn_const_store *s);
void tn_const_store_release(void *s);
const void *tn_const_store_keep(void *store, const void *p, size_t bytes); /* tn_lower_options.keep */

/* One target of a model: its module, or the model that has taken it over. */
typedef struct tn_target_set {
  tn_target target;
  tn_module *module;
  tn_model *model;
} tn_target_set;
enum { TN_MAX_TARGETS = 8 };

struct tn_compiled {
  tn_arena keep; /* everything of the compile: graph, kernels, texts */
  tn_dims *dims;
  tn_graph *graph; /* of a single graph; NULL for models */
  tn_lowered low; /* the plan itself belongs to the program */
  tn_kernel_pool pool; /* kernels of all plans */
  const tn_plan *plan;
  tn_program *program;
  tn_unit *unit; /* of a model */
  const void *portable; /* the ONNX model, when the package is to hold it; in keep */
  size_t portable_n;
  tn_const_store *store;
  tn_target_set set[TN_MAX_TARGETS];
  uint32_t n_set;
  uint32_t n_plan; /* of the first target */
  tn_diag diag;
  tn_stage stage[TN_N_STAGES];
  char *report; /* JSON, malloc'ed by jansson; made on first demand */
  const char *profile;
  const tn_profile *prof;
  tn_target target;
  /* dumps */
  const char *dump;
  uint32_t dump_no;
  uint64_t pass_ns;
  uint32_t decomposed_nodes;
  uint64_t decompose_ns;
};

/* ---- compile.c: what single graphs and models share ---- */
tn_status tn_compiled_create(tn_compiled **out);
/* Options, profile, dump folder, c->target. */
tn_status tn_compiled_setup(tn_compiled *c, const tn_compile_options *o);
void tn_compiled_stage(tn_compiled *c, int i, uint32_t n_in, uint32_t n_out, uint64_t ns, bool skipped);
/* Runs the passes on g. */
tn_status tn_compiled_passes(tn_compiled *c, tn_graph *g, const tn_target *t, const char *list);
/* Objects of c->pool for t: [c->pool.n_kernel] in `keep`. */
tn_status tn_compiled_codegen(tn_compiled *c, const tn_target *t, const tn_compile_options *o, tn_arena *keep, tn_object **out);
void tn_compiled_attach(const tn_object *object, const tn_lowered *low); /* objects to the kernels of a plan */
/* An outcome without text gets one. */
tn_status tn_compiled_end(tn_compiled *c, tn_status s);
/* model.c */
/* Is "portable" among the targets? */
bool tn_wants_portable(const char *targets);
/* rebuild.c: a model from the portable form of a package, for this machine (tn_model_rebuilder of runtime.h). */
tn_status tn_rebuild(tn_diag *d, const tn_package_section *s, const char *isa, tn_model **out);
void tn_sign_introduce(void); /* sign.c */
tn_status tn_compile_unit(tn_compiled *c, tn_unit *u, const tn_compile_options *o);
void tn_compiled_free_sets(tn_compiled *c);

/* Writes dump_dir/NN.name; failures are logged, never fatal. */
void tn_dump(tn_compiled *c, const char *name, const char *text, size_t n);
void tn_dump_graph(tn_compiled *c, const char *name, const tn_graph *g);
void tn_dump_plan(tn_compiled *c, const tn_plan *p);
void tn_dump_kernels(tn_compiled *c);
char *tn_report_json(tn_compiled *c); /* NULL = out of memory */
/* Objects of the kernels of a pool, on up to `threads` threads, in memory of `keep`: out[n_kernel]. ir: NULL or [n_kernel] texts. */
tn_status tn_objects(tn_diag *d, const tn_kernel_pool *pool, const tn_target *target, int threads, const tn_compile_options *o, tn_arena *keep, tn_object *out,
                     tn_str *ir);
#endif

/* Inside driver: one compile from text to program. */
#ifndef TN_DRIVER_INT_H
#define TN_DRIVER_INT_H
#include "base/base.h"
#include "ir/ir.h"
#include "lower/lower.h"
#include "target/target.h"
#include "tenon/compile.h"

typedef struct tn_stage {
  const char *name;
  uint32_t n_in, n_out;
  uint64_t ns;
  bool skipped;
} tn_stage;
#define TN_N_STAGES 7

struct tn_compiled {
  tn_arena keep; /* everything of the compile: graph, kernels, texts */
  tn_dims *dims;
  tn_graph *graph;
  tn_lowered low; /* kernels; the plan itself belongs to the program */
  const tn_plan *plan;
  tn_program *program;
  tn_diag diag;
  tn_stage stage[TN_N_STAGES];
  char *report; /* JSON, malloc'ed by jansson; made on first demand */
  const char *profile;
  tn_target target;
  /* dumps */
  const char *dump;
  uint32_t dump_no;
  uint64_t pass_ns;
  uint32_t decomposed_nodes;
  uint64_t decompose_ns;
};

/* Writes dump_dir/NN.name; failures are logged, never fatal. */
void tn_dump(tn_compiled *c, const char *name, const char *text, size_t n);
void tn_dump_graph(tn_compiled *c, const char *name, const tn_graph *g);
void tn_dump_kernels(tn_compiled *c);
char *tn_report_json(tn_compiled *c); /* NULL = out of memory */
/* Objects of all kernels, on up to `threads` threads; ir: NULL or [n_kernel] texts. */
tn_status tn_objects(tn_compiled *c, int threads, tn_str *ir);
#endif

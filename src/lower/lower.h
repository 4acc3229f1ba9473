/* lower: graph with FUSED nodes -> kernels (kir) + plan. Views, layout of buffers, concat in place, schedules by rule, memory life times.
 */
#ifndef TN_LOWER_H
#define TN_LOWER_H
#include "ir/ir.h"
#include "ops/ops.h"
#include "kir/def.h"
#include "kir/sched.h"
#include "kir/nest.h"
#include "plan/module.h"
#include "plan/plan.h"
#include "target/target.h"

/* One generated kernel: the three forms, for dumps and codegen. Objects are filled in by the driver. */
typedef struct tn_lowered_kernel {
  tn_kdef *def;
  tn_ksched *sched;
  tn_nest *nest;
  uint32_t uses;
} tn_lowered_kernel;

/* Kernels of all plans of one module: equal ones are one, names are unique. Zeroed at the start; everything in it lives in the arena that tn_lower is given,
 * which must be the same each time. */
typedef struct tn_kernel_pool {
  tn_map keys; /* definition + schedule text -> kernel */
  tn_lowered_kernel *kernel;
  uint32_t n_kernel, cap_kernel;
} tn_kernel_pool;
void tn_kernel_pool_deinit(tn_kernel_pool *p);

typedef struct tn_lower_options {
  const tn_target *target;
  int threads;          /* blocks are cut for this many workers; any count works */
  tn_kernel_pool *pool; /* shared by plans, or NULL */
  /* Where constants of plans lie: the 64-byte aligned place of `p`, which stays as long as the plan; NULL = out of memory. Without it they are copied into the
   * plan. */
  const void *(*keep)(void *user, const void *p, size_t bytes);
  void *user;
} tn_lower_options;
typedef struct tn_lowered {
  tn_plan *plan;
  uint32_t *kernel; /* [plan->n_kernel] number in the pool of each kernel of the plan */
  tn_kernel_pool pool; /* when the options name none: to be deinited */
  uint32_t *host_node;
  uint32_t n_host; /* graph nodes behind host calls, by call number */
} tn_lowered;

/* g: after the fuse pass. The plan is the caller's (tn_plan_destroy); the rest lives in `arena`. Fates of source nodes (g->prov) are
 * completed. TN_E_UNSUPPORTED names node and reason. */
tn_status tn_lower(tn_diag *d, tn_arena *arena, tn_graph *g, const tn_lower_options *o, tn_lowered *out);

/* ---- split.c: a unit cut at its DYN nodes. graph[i] becomes plan i of the module, whose plan[] is an empty table for all of them (n_plan 0). ---- */
typedef struct tn_split {
  tn_module *module;   /* the caller's */
  tn_graph **graph;    /* in the unit's arena, before any pass; constants are shared with the unit by pointer, provenance records too */
  uint32_t n_graph;
} tn_split;
/* The unit is only read, so it can be split again for another target. TN_E_UNSUPPORTED: a size that nothing defines, an operator that is no row of
 * plan/dyn.def; TN_E_VERIFY: broken structure, a function that contains itself. */
tn_status tn_split_unit(tn_diag *d, tn_arena *arena, const tn_unit *u, tn_split *out);

/* ---- parts, each testable alone ---- */
/* Strided view of memory as the graph level sees it. */
typedef struct tn_lview {
  tn_dtype dtype;
  uint32_t rank;
  tn_dim dim[TN_MAX_RANK], stride[TN_MAX_RANK], offset;
} tn_lview;
/* Definition of one FUSED node: parameters are its inputs, then its outputs, with the given strides. */
tn_status tn_lower_def(tn_diag *d, tn_arena *arena, tn_graph *g, uint32_t fused_node, const tn_lview *in, const tn_lview *out,
                       const bool *frozen, const char *name, tn_kdef **out_def);
/* Schedule by rules over axis roles. */
tn_status tn_sched_choose(tn_diag *d, tn_arena *arena, const tn_kdef *k, const tn_target *t, int threads, tn_ksched **out);
/* Loops. The size slots used (a->size) are listed as dims in order. *out_blocks: number of blocks. Pack plans for weights: see sched.h. */
typedef struct tn_nest_info {
  tn_dim size[64];
  uint32_t n_size;
  tn_dim blocks;
} tn_nest_info;
tn_status tn_nest_build(tn_diag *d, tn_arena *arena, tn_kdef *k, const tn_ksched *s, const tn_target *t, tn_nest **out, tn_nest_info *info);
#endif

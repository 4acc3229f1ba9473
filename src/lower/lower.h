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

typedef struct tn_lower_options {
  const tn_target *target;
  int threads; /* blocks are cut for this many workers; any count works */
} tn_lower_options;

/* One generated kernel of a plan: the three forms, for dumps and codegen. plan->kernel[i] belongs to kernel[i]; objects are filled in by
 * the driver. */
typedef struct tn_lowered_kernel {
  tn_kdef *def;
  tn_ksched *sched;
  tn_nest *nest;
  uint32_t uses;
} tn_lowered_kernel;
typedef struct tn_lowered {
  tn_plan *plan;
  tn_lowered_kernel *kernel;
  uint32_t n_kernel;
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

/* Inside lower: state of building one plan. */
#ifndef TN_LOWER_PLAN_H
#define TN_LOWER_PLAN_H
#include "lower/lower_int.h"

/* Where a value of the graph lies: a strided view of a plan buffer. */
typedef struct tn_loc {
  bool set, claimed;
  uint32_t buf;
  tn_lview v;
  uint32_t plan_view; /* + 1; 0 = not made yet */
} tn_loc;

typedef struct tn_pb {
  tn_diag *d;
  tn_arena *a;
  tn_graph *g;
  tn_dims *dims;
  const tn_lower_options *o;
  tn_plan *p;
  tn_loc *loc;
  uint32_t n_loc;
  uint32_t *uses;
  bool *frozen;          /* [n_nodes] depends on parameters and constants only, so it is made once: see freeze.c */
  uint32_t cap_buf, cap_view, cap_step, cap_kernel, cap_out_kernel;
  tn_lowered *out;
  tn_kernel_pool *pool;
  tn_map of_pool; /* kernel of the pool -> kernel of the plan */
  struct tn_packed {
    uint32_t view, buf;
    const char *key;
  } * packed;
  uint32_t n_packed, cap_packed;
} tn_pb;

/* freeze.c: fills b->frozen; the parameters behind a frozen node as sources of packed buffer `buf`. */
tn_status tn_pb_freeze(tn_pb *b);
tn_status tn_pb_sources(tn_pb *b, uint32_t node, uint32_t buf);

/* lviews */
void tn_lview_dense(tn_dims *ds, const tn_type *t, tn_lview *v);
bool tn_lview_is_dense(tn_dims *ds, const tn_lview *v);
/* View of node n's result in operand 0's view; false when it is no view (then a copy is needed). */
bool tn_lview_apply(const tn_graph *g, tn_dims *ds, const tn_node *n, const tn_lview *x, tn_lview *out);

tn_status tn_pb_kernel(tn_pb *b, uint32_t fused_node);                            /* definition, schedule, nest, launch step (and packs) */
uint32_t tn_pb_buf(tn_pb *b, tn_pbuf_kind kind, tn_dim bytes);                    /* UINT32_MAX = out of memory */
uint32_t tn_pb_view(tn_pb *b, uint32_t buf, const tn_lview *v, const char *name); /* plan view, UINT32_MAX = out of memory */
tn_status tn_pb_step(tn_pb *b, tn_pstep s);
tn_status tn_pb_copy(tn_pb *b, uint32_t src_view, uint32_t dst_view, bool pack);
tn_status tn_pb_view_of(tn_pb *b, tn_ref r, uint32_t *out); /* plan view of a placed value */
#endif

/* passes, inside: what the passes share. Reading graphs that are half rewritten, and building into them. */
#ifndef TN_PASSES_INT_H
#define TN_PASSES_INT_H
#include "passes/passes.h"

#define TN_PASS(fn, text, needs, gives, breaks, doc) tn_status tn_pass_##fn(tn_pass_ctx *p, tn_graph *g);
#include "passes/passes.def"
#undef TN_PASS
/* Same passes, saying also how many changes they made. */
tn_status tn_fold_run(tn_pass_ctx *p, tn_graph *g, uint32_t *out_changes);
tn_status tn_simplify_run(tn_pass_ctx *p, tn_graph *g, uint32_t *out_changes);
tn_status tn_cse_run(tn_pass_ctx *p, tn_graph *g, uint32_t *out_changes);

/* ---- gates (gates.c) ---- */
typedef struct tn_verdict {
  uint8_t gate[4];             /* tn_gate */
  const char *code;            /* NULL: goes on; else one of "dtype", "not-in-list", "no-emitter", "rule" */
  const char *text;            /* with code: the words, in the graph's arena */
  bool split;                  /* a product was refused, the others were not: take the call apart first (addmm -> mm, add) */
} tn_verdict;
/* What the profile says about CALL `node`. TN_E_NOMEM, else TN_OK with the verdict filled. */
tn_status tn_gates_judge(const tn_profile *p, tn_graph *g, uint32_t node, tn_verdict *out);

/* ---- reading (util.c) ---- */
/* Reader's view of operand k: forwarding resolved, and written back into the node. */
tn_ref tn_px_in(tn_graph *g, uint32_t node, uint32_t k);
static inline uint32_t tn_px_def(const tn_graph *g, tn_ref r) { return g->value[r.id].node; }
static inline tn_op tn_px_op(const tn_graph *g, tn_ref r) { return g->node[g->value[r.id].node].op; }
static inline bool tn_px_const_dim(tn_dim d, int64_t v) { return d == v; }
bool tn_px_same_dims(uint32_t ra, const tn_dim *a, uint32_t rb, const tn_dim *b);
bool tn_px_same_shape(const tn_type *a, const tn_type *b);
tn_dim tn_px_numel(tn_graph *g, const tn_type *t);               /* TN_DIM_BAD on overflow */
bool tn_px_static(const tn_type *t, int64_t *out_numel);         /* all dims constant; numel below 2^40 */
bool tn_px_unit_map(const tn_type *from, const tn_type *to, int *at); /* equal but for dims of 1: at[j] = dim of `from` that dim j of `to` is, -1 for a 1 */
bool tn_px_broadcasts_to(const tn_type *a, uint32_t rank, const tn_dim *dim); /* a stretches to that shape, provably */
/* The one value of a fill: FULL with a number, a one-element CONST, or a view of such a thing. In the value's dtype. */
bool tn_px_fill(const tn_graph *g, tn_ref r, tn_num *out);
bool tn_px_fill_is(const tn_graph *g, tn_ref r, double v);
bool tn_px_is_view(tn_op op);                                    /* reshape, permute, broadcast, slice */
bool tn_px_is_pw(tn_op op);                                      /* scalar functions, cast, copy */
bool tn_px_is_dear(tn_op op);                                    /* costs as much as a dozen additions: exp, tanh, pow, ... */
/* Strides (elements) of a view of a row-major value of shape `t`, or of what `stride` says: see view.c. */
typedef struct tn_px_strides { uint32_t rank; tn_dim dim[TN_MAX_RANK], stride[TN_MAX_RANK]; } tn_px_strides;
bool tn_px_strides_of(tn_graph *g, tn_ref base, tn_px_strides *out);
bool tn_px_strides_view(tn_graph *g, uint32_t view_node, tn_px_strides *s); /* false: no strides say it, data must move */

/* ---- building: sticky status in b->st; refs are 0 after a failure ---- */
typedef struct tn_px { tn_diag *d; tn_graph *g; uint32_t prov; tn_status st; } tn_px;
tn_ref tn_px_add(tn_px *b, tn_op op, const tn_ref *in, uint32_t n_in, const tn_attr *attr, uint32_t n_attr);
tn_ref tn_px_1(tn_px *b, tn_op op, tn_ref a);
tn_ref tn_px_2(tn_px *b, tn_op op, tn_ref x, tn_ref y);
tn_ref tn_px_fill_of(tn_px *b, tn_dtype t, uint32_t rank, const tn_dim *dim, tn_num v);
tn_ref tn_px_reshape(tn_px *b, tn_ref a, uint32_t rank, const tn_dim *dim);     /* nothing when the shape is the same */
tn_ref tn_px_broadcast(tn_px *b, tn_ref a, uint32_t rank, const tn_dim *dim);
tn_ref tn_px_permute(tn_px *b, tn_ref a, const int *perm);
tn_ref tn_px_contract(tn_px *b, const char *labels, tn_ref x, tn_ref y);
#endif

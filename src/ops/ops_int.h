/* ops, inside: what a shape rule and an evaluator see, and the helpers they share. One pair of functions per row of
 * ir/ops.def, tn_infer_<ID> and tn_eval_<ID>, declared here from the table itself: a row without them does not link. */
#ifndef TN_OPS_INT_H
#define TN_OPS_INT_H
#include "ops/ops.h"

/* ---- shape rules ---- */
#define TN_MAX_RESULTS 8
typedef struct tn_infer_ctx {
  tn_diag *d;
  tn_graph *g;
  const char *name;            /* of the op, for messages */
  tn_op op;
  const tn_ref *in; uint32_t n_in;
  tn_node attrs;               /* carries the attributes only */
  tn_type *out; uint32_t n_out;/* filled by tn_infer_result */
} tn_infer_ctx;
typedef tn_status tn_infer_fn(tn_infer_ctx *c);

/* ---- evaluators ---- */
typedef struct tn_eval_ctx {
  tn_diag *d;
  const tn_graph *g;
  const tn_node *n;
  const int64_t *sym;          /* [tn_dims_n_syms] */
  const tn_tensor *in;         /* row-major */
  tn_tensor *out;              /* row-major, shape set, data allocated */
} tn_eval_ctx;
typedef tn_status tn_eval_fn(tn_eval_ctx *c);

tn_infer_fn tn_infer_scalar;
tn_eval_fn tn_eval_scalar;
#define TN_OP(id, text, cls, lo, hi, out, attrs) tn_infer_fn tn_infer_##id; tn_eval_fn tn_eval_##id;
#include "ir/ops.def"
#undef TN_OP
tn_eval_fn *tn_ops_evaluator(tn_op op);

/* ---- helpers of shape rules (rule.c). All record what is wrong and return TN_E_ARG. ----
 * Attributes are those of the op's row, all there except booleans (absent = false): tn_rule_attrs has seen to it. */
tn_status tn_rule_attrs(tn_infer_ctx *c);
#define tn_rule_fail(c, fmt, ...) tn_fail((c)->d, TN_E_ARG, "%s: " fmt, (c)->name, __VA_ARGS__)
static inline const tn_type *tn_rule_in(const tn_infer_ctx *c, uint32_t k) { return tn_typeof(c->g, c->in[k]); }
/* Appends a result type; dims are copied. */
tn_status tn_rule_result(tn_infer_ctx *c, tn_dtype t, uint32_t rank, const tn_dim *dim);
/* A required integer; an integer that must lie in [0, rank). */
tn_status tn_rule_int(tn_infer_ctx *c, const char *name, int64_t *out);
tn_status tn_rule_axis(tn_infer_ctx *c, const char *name, uint32_t rank, uint32_t *out);
tn_status tn_rule_dtype(tn_infer_ctx *c, const char *name, tn_dtype *out);
tn_status tn_rule_combiner(tn_infer_ctx *c, tn_combiner *out);
/* A required number (int, float or bool). */
tn_status tn_rule_number(tn_infer_ctx *c, const char *name);
/* A required dim list without provably negative items; n_want < 0: any length up to TN_MAX_RANK. */
tn_status tn_rule_dims(tn_infer_ctx *c, const char *name, int n_want, tn_dim *out, uint32_t *out_n);
/* Same with every item a constant >= lo. */
tn_status tn_rule_ints(tn_infer_ctx *c, const char *name, int n_want, int64_t lo, int64_t *out, uint32_t *out_n);
/* Distinct constants in [0, rank). */
tn_status tn_rule_axes(tn_infer_ctx *c, const char *name, uint32_t rank, int64_t *out, uint32_t *out_n);
/* Fails unless d is a usable size: no overflow, not provably negative. `what` goes into the message. */
tn_status tn_rule_size(tn_infer_ctx *c, tn_dim d, const char *what);
tn_status tn_rule_equal(tn_infer_ctx *c, tn_dim a, tn_dim b, const char *what);
tn_status tn_rule_same_dtype(tn_infer_ctx *c, uint32_t a, uint32_t b);
tn_status tn_rule_index_dtype(tn_infer_ctx *c, uint32_t k);
/* Joins shape b into shape a (numpy broadcasting, aligned at the right). a[] has room for TN_MAX_RANK. */
tn_status tn_rule_broadcast(tn_infer_ctx *c, tn_dim *a, uint32_t *a_rank, const tn_dim *b, uint32_t b_rank);
/* True when a > b for every value of the symbols. */
bool tn_rule_exceeds(tn_infer_ctx *c, tn_dim a, tn_dim b);
/* Text of a dim and of a shape for messages, by value: tn_dim_text(t, d).s */
typedef struct tn_text { char s[160]; } tn_text;
tn_text tn_dim_text(const tn_dims *t, tn_dim d);
tn_text tn_shape_text(const tn_dims *t, uint32_t rank, const tn_dim *dim);

/* ---- helpers of evaluators (eval.c) ---- */
#define tn_eval_fail(c, code, fmt, ...) tn_fail((c)->d, (code), "%s: " fmt, tn_op_name((c)->n->op), __VA_ARGS__)
/* Values of a dim list. Count in *out_n (may be NULL). */
tn_status tn_eval_dims(tn_eval_ctx *c, const char *name, int64_t *out, uint32_t *out_n);
/* The number in attribute `name` (int, float, bool or dim) as a value of dtype t. */
tn_status tn_eval_number(const tn_eval_ctx *c, const char *name, tn_dtype t, tn_num *out);
tn_status tn_eval_status(tn_eval_ctx *c, tn_status s);   /* puts words to a kernel's status */
/* Value of a dim, >= 0. */
tn_status tn_eval_dim(tn_diag *d, const tn_graph *g, tn_dim dim, const int64_t *sym, int64_t *out);
int64_t tn_tensor_numel(const tn_tensor *t);
/* Runs the nodes of g, bodies included; see eval.c. */
tn_status tn_eval_nodes(tn_diag *d, const tn_graph *g, const int64_t *sym, const tn_tensor *in, tn_tensor *out, tn_tensor *mutated);
#endif

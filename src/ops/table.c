/* The table of meanings: one row per op, expanded from scalar.def and ops.def, and the two calls that read it first,
 * tn_ops_infer and tn_ops_add.
 *
 * Scalar functions share one rule and one evaluator, because scalar.def already says all there is to know about them.
 * Nothing here knows a single op: rules are in the files named after the classes. */
#include "ops/ops_int.h"

typedef struct op_row {
  tn_infer_fn *infer;
  tn_eval_fn *eval;
} op_row;
static const op_row rows[TN_N_OPS] = {
#define TN_SCALAR(id, text, arity, result, domain) [TN_OP_##id] = {tn_infer_scalar, tn_eval_scalar},
#include "base/scalar.def"
#undef TN_SCALAR
#define TN_OP(id, text, cls, lo, hi, out, attrs) [TN_OP_##id] = {tn_infer_##id, tn_eval_##id},
#include "ir/ops.def"
#undef TN_OP
};

tn_eval_fn *tn_ops_evaluator(tn_op op) { return rows[op].eval; }

tn_status tn_ops_infer(tn_diag *d, tn_graph *g, tn_op op, const tn_ref *in, uint32_t n_in, const tn_attr *attr, uint32_t n_attr,
                       tn_type *out_type, uint32_t *out_n) {
  *out_n = 0;
  if ((int)op < 0 || op >= TN_N_OPS) return tn_fail(d, TN_E_ARG, "op number %d of %d", (int)op, (int)TN_N_OPS);
  tn_infer_ctx c = {.d = d, .g = g, .name = tn_op_name(op), .op = op, .in = in, .n_in = n_in, .out = out_type};
  int lo = tn_op_in_min(op), hi = tn_op_in_max(op);
  if ((int64_t)n_in < lo || (hi >= 0 && (int64_t)n_in > hi)) return tn_rule_fail(&c, "%u operands, takes %d to %d", n_in, lo, hi);
  if (n_attr > UINT16_MAX) return tn_rule_fail(&c, "%u attributes", n_attr);
  for (uint32_t k = 0; k < n_in; k++)
    if (in[k].id == 0 || in[k].id >= g->n_values) return tn_rule_fail(&c, "operand %u is not a value", k);
  c.attrs.op = op;
  c.attrs.attr = (tn_attr *)(uintptr_t)attr; /* read only: tn_attr_get takes a const node */
  c.attrs.n_attr = (uint16_t)n_attr;
  if (tn_op_cls(op) != TN_CLS_STRUCT) TN_TRY(tn_rule_attrs(&c));
  TN_TRY(rows[op].infer(&c));
  *out_n = c.n_out;
  return TN_OK;
}

tn_status tn_ops_add(tn_diag *d, tn_graph *g, tn_op op, const tn_ref *in, uint32_t n_in, const tn_attr *attr, uint32_t n_attr,
                     uint32_t prov, tn_ref *out) {
  tn_type type[TN_MAX_RESULTS];
  uint32_t n = 0, node = 0;
  TN_TRY(tn_ops_infer(d, g, op, in, n_in, attr, n_attr, type, &n));
  tn_status s = tn_graph_add(g, op, in, n_in, attr, n_attr, type, n, prov, &node);
  if (s != TN_OK) return tn_fail(d, s, "adding a node '%s' to graph '%s'", tn_op_name(op), g->name ? g->name : "");
  *out = tn_out(&g->node[node], 0);
  return TN_OK;
}

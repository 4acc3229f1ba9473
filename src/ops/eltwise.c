/* Elementwise ops: all scalar functions through one rule, cast and copy.
 *
 * Operands broadcast like numpy's and have one dtype; conversions are explicit `cast` nodes. scalar.def says which dtypes a
 * function takes and whether it answers bool. */
#include "ops/ops_int.h"

tn_status tn_infer_scalar(tn_infer_ctx *c) {
  tn_scalar_op op = (tn_scalar_op)c->op; /* scalar ops come first in tn_op, in the same order */
  uint32_t first = op == TN_S_SELECT ? 1 : 0, rank = 0;
  tn_dim dim[TN_MAX_RANK];
  tn_dtype t = tn_rule_in(c, first)->dtype;
  if (first && tn_rule_in(c, 0)->dtype != TN_BOOL)
    return tn_rule_fail(c, "condition is %s, wants bool", tn_dtype_name(tn_rule_in(c, 0)->dtype));
  for (uint32_t k = first + 1; k < c->n_in; k++) TN_TRY(tn_rule_same_dtype(c, first, k));
  if (!tn_scalar_accepts(op, t)) return tn_rule_fail(c, "does not take %s", tn_dtype_name(t));
  for (uint32_t k = 0; k < c->n_in; k++) TN_TRY(tn_rule_broadcast(c, dim, &rank, tn_rule_in(c, k)->dim, tn_rule_in(c, k)->rank));
  return tn_rule_result(c, tn_scalar_is_bool(op) ? TN_BOOL : t, rank, dim);
}
tn_status tn_eval_scalar(tn_eval_ctx *c) {
  return tn_eval_status(c, tn_k_eltwise_ref((tn_scalar_op)c->n->op, c->in, c->n->n_in, c->out));
}

tn_status tn_infer_CAST(tn_infer_ctx *c) {
  tn_dtype t;
  TN_TRY(tn_rule_dtype(c, "dtype", &t));
  return tn_rule_result(c, t, tn_rule_in(c, 0)->rank, tn_rule_in(c, 0)->dim);
}
tn_status tn_eval_CAST(tn_eval_ctx *c) {
  tn_k_cast_ref(c->in, c->out);
  return TN_OK;
}

tn_status tn_infer_COPY(tn_infer_ctx *c) {
  return tn_rule_result(c, tn_rule_in(c, 0)->dtype, tn_rule_in(c, 0)->rank, tn_rule_in(c, 0)->dim);
}
tn_status tn_eval_COPY(tn_eval_ctx *c) {
  tn_k_strided_copy_ref(c->in, c->out);
  return TN_OK;
}

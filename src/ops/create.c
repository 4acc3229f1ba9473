/* Ops that make tensors from attributes: full (torch.full) and iota (torch.arange with a known length).
 * A float value given for an integer dtype is converted like a cast; an iota of integers wants integer start and step. */
#include "ops/ops_int.h"

tn_status tn_infer_FULL(tn_infer_ctx *c) {
  tn_dim dim[TN_MAX_RANK];
  uint32_t rank;
  tn_dtype t;
  TN_TRY(tn_rule_dims(c, "shape", -1, dim, &rank));
  TN_TRY(tn_rule_number(c, "value"));
  TN_TRY(tn_rule_dtype(c, "dtype", &t));
  return tn_rule_result(c, t, rank, dim);
}
tn_status tn_eval_FULL(tn_eval_ctx *c) {
  tn_num v;
  TN_TRY(tn_eval_number(c, "value", (tn_dtype)c->out->dtype, &v));
  tn_k_full_ref(v, c->out);
  return TN_OK;
}

/* A number that suits the dtype. */
static tn_status check_step(tn_infer_ctx *c, const char *name, tn_dtype t) {
  const tn_attr_val *v = tn_attr_get(&c->attrs, name);
  if (!tn_dtype_is_float(t) && v && v->kind != TN_AT_INT && v->kind != TN_AT_DIM)
    return tn_rule_fail(c, "attribute '%s' is not an integer", name);
  return tn_rule_number(c, name);
}
tn_status tn_infer_IOTA(tn_infer_ctx *c) {
  tn_dim size;
  tn_dtype t;
  TN_TRY(tn_rule_dims(c, "size", 1, &size, NULL));
  TN_TRY(tn_rule_dtype(c, "dtype", &t));
  if (t == TN_BOOL) return tn_rule_fail(c, "does not make %s", tn_dtype_name(t));
  TN_TRY(check_step(c, "start", t));
  TN_TRY(check_step(c, "step", t));
  return tn_rule_result(c, t, 1, &size);
}
tn_status tn_eval_IOTA(tn_eval_ctx *c) {
  bool is_float = tn_dtype_is_float((tn_dtype)c->out->dtype);
  tn_num start, step;
  TN_TRY(tn_eval_number(c, "start", is_float ? TN_F64 : TN_I64, &start));
  TN_TRY(tn_eval_number(c, "step", is_float ? TN_F64 : TN_I64, &step));
  if (is_float)
    tn_k_iota_ref(start.f, step.f, 0, 0, c->out);
  else
    tn_k_iota_ref(0, 0, start.i, step.i, c->out);
  return TN_OK;
}

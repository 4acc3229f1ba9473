/* Ops with a combiner: reduce, scan and window.
 *
 * They keep their operand's dtype, argmax and argmin excepted (i64): decompositions cast first where a framework accumulates
 * in another type. `any` and `all` are for bool; sum and prod are not. A window's output dims are what its `size` says:
 * frameworks round them in several ways, and elements outside the operand count as the combiner's identity anyway. */
#include "ops/ops_int.h"
#include <string.h>

_Static_assert(TN_C_MIN == 3 && TN_C_ANY == 4 && TN_C_ALL == 5 && TN_C_ARGMAX == 6, "ranges of combiners below");

static tn_status check_dtype(tn_infer_ctx *c, tn_combiner k, tn_dtype t) {
  bool boolean = k == TN_C_ANY || k == TN_C_ALL, arithmetic = k == TN_C_SUM || k == TN_C_PROD;
  if ((boolean && t != TN_BOOL) || (arithmetic && t == TN_BOOL))
    return tn_rule_fail(c, "%s does not take %s", tn_combiner_name(k), tn_dtype_name(t));
  return TN_OK;
}

tn_status tn_infer_REDUCE(tn_infer_ctx *c) {
  const tn_type *x = tn_rule_in(c, 0);
  bool keep = tn_attr_bool(&c->attrs, "keepdim", false), reduced[TN_MAX_RANK] = {false};
  int64_t dims[TN_MAX_RANK];
  tn_dim dim[TN_MAX_RANK];
  uint32_t n, rank = 0;
  tn_combiner k;
  TN_TRY(tn_rule_combiner(c, &k));
  TN_TRY(check_dtype(c, k, x->dtype));
  TN_TRY(tn_rule_axes(c, "dims", x->rank, dims, &n));
  bool arg = k == TN_C_ARGMAX || k == TN_C_ARGMIN;
  if (arg && n != 1) return tn_rule_fail(c, "%s over %u dims, wants one", tn_combiner_name(k), n);
  if (arg && x->dim[dims[0]] == 0) return tn_rule_fail(c, "%s of no elements", tn_combiner_name(k));
  for (uint32_t i = 0; i < n; i++) reduced[dims[i]] = true;
  for (uint32_t i = 0; i < x->rank; i++)
    if (!reduced[i])
      dim[rank++] = x->dim[i];
    else if (keep)
      dim[rank++] = 1;
  return tn_rule_result(c, arg ? TN_I64 : x->dtype, rank, dim);
}
static tn_combiner combiner_of(const tn_node *n) {
  const char *s = tn_attr_str(n, "combiner", "");
  tn_combiner k = TN_C_SUM;
  (void)tn_combiner_find(s, strlen(s), &k); /* the shape rule has found it once */
  return k;
}
tn_status tn_eval_REDUCE(tn_eval_ctx *c) {
  bool reduced[TN_MAX_RANK] = {false};
  int64_t dims[TN_MAX_RANK];
  uint32_t n;
  TN_TRY(tn_eval_dims(c, "dims", dims, &n));
  for (uint32_t i = 0; i < n; i++) reduced[dims[i]] = true;
  tn_k_reduce_ref(combiner_of(c->n), c->in, reduced, c->out);
  return TN_OK;
}

tn_status tn_infer_SCAN(tn_infer_ctx *c) {
  const tn_type *x = tn_rule_in(c, 0);
  uint32_t axis;
  tn_combiner k;
  TN_TRY(tn_rule_combiner(c, &k));
  if (k > TN_C_MIN) return tn_rule_fail(c, "no scan with %s", tn_combiner_name(k));
  TN_TRY(check_dtype(c, k, x->dtype));
  TN_TRY(tn_rule_axis(c, "dim", x->rank, &axis));
  return tn_rule_result(c, x->dtype, x->rank, x->dim);
}
tn_status tn_eval_SCAN(tn_eval_ctx *c) {
  tn_k_scan_ref(combiner_of(c->n), c->in, (int)tn_attr_int(c->n, "dim", 0), c->out);
  return TN_OK;
}

tn_status tn_infer_WINDOW(tn_infer_ctx *c) {
  const tn_type *x = tn_rule_in(c, 0);
  int64_t kernel[TN_MAX_RANK], v[2 * TN_MAX_RANK];
  tn_dim dim[TN_MAX_RANK], size[TN_MAX_RANK], pad[2 * TN_MAX_RANK];
  uint32_t n;
  tn_combiner k;
  TN_TRY(tn_rule_combiner(c, &k));
  if (k >= TN_C_ARGMAX) return tn_rule_fail(c, "no window with %s", tn_combiner_name(k));
  TN_TRY(check_dtype(c, k, x->dtype));
  TN_TRY(tn_rule_ints(c, "kernel", -1, 1, kernel, &n));
  if (n == 0 || n > x->rank) return tn_rule_fail(c, "kernel of %u dims over rank %u", n, x->rank);
  TN_TRY(tn_rule_ints(c, "stride", (int)n, 1, v, NULL));
  TN_TRY(tn_rule_dims(c, "padding", 2 * (int)n, pad, NULL));
  TN_TRY(tn_rule_ints(c, "dilation", (int)n, 1, v, NULL));
  TN_TRY(tn_rule_dims(c, "size", (int)n, size, NULL));
  for (uint32_t i = 0; i < x->rank; i++) dim[i] = i < x->rank - n ? x->dim[i] : size[i - (x->rank - n)];
  return tn_rule_result(c, x->dtype, x->rank, dim);
}
tn_status tn_eval_WINDOW(tn_eval_ctx *c) {
  int64_t kernel[TN_MAX_RANK], stride[TN_MAX_RANK], dilation[TN_MAX_RANK], pad[2 * TN_MAX_RANK], lo[TN_MAX_RANK];
  uint32_t n;
  TN_TRY(tn_eval_dims(c, "kernel", kernel, &n));
  TN_TRY(tn_eval_dims(c, "stride", stride, NULL));
  TN_TRY(tn_eval_dims(c, "padding", pad, NULL));
  TN_TRY(tn_eval_dims(c, "dilation", dilation, NULL));
  for (uint32_t i = 0; i < n; i++) lo[i] = pad[2 * i];
  tn_k_window_ref(combiner_of(c->n), c->in, (int)n, kernel, stride, lo, dilation, c->out);
  return TN_OK;
}

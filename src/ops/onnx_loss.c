/* onnx_loss: NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss. Scores [N, C, *], targets [N, *]. A target equal to ignore_index gives 0 and carries no
 * weight in the mean; without that attribute nothing is ignored. f16 and bf16 in f32. */
#include "ops/onnx_math_int.h"

static tn_ref total(tn_ox *c, tn_ref x) {
  int ax[TN_MAX_RANK], n = mx_all_axes(c, x, ax);
  return tn_b_reduce(&c->b, TN_C_SUM, x, ax, n, false);
}

/* The loss of log-probabilities x, in x's dtype. */
static tn_ref nll(tn_ox *c, tn_ref x, tn_ref t, tn_ref w) {
  const char *how = tn_ox_str_attr(c, "reduction", "mean");
  bool ignores = tn_ox_attr_get(c, "ignore_index") != NULL;
  int64_t ignored = tn_ox_int(c, "ignore_index", 0);
  if (!mx_ok(c)) return x;
  if (mx_rank(c, x) < 2 || mx_rank(c, t) + 1 != mx_rank(c, x)) { tn_ox_bad(c, "scores of rank %d, targets of rank %d", mx_rank(c, x), mx_rank(c, t)); return x; }
  tn_dtype it = mx_dtype(c, t);
  tn_ref valid = {0}, weight = {0};
  if (ignores) {
    valid = mx_2(c, TN_OP_NE, t, tn_b_int(&c->b, ignored, it));
    t = mx_sel(c, valid, t, tn_b_int(&c->b, 0, it));
  }
  tn_ref in[2] = {x, tn_b_unsq(&c->b, t, 1)};
  tn_attr at = tn_mk_int("dim", 1);
  tn_ref y = mx_1(c, TN_OP_NEG, tn_b_sq(&c->b, tn_b_op(&c->b, TN_OP_GATHER, in, 2, &at, 1), 1));
  if (w.id) weight = tn_b_take(&c->b, mx_cast(c, w, mx_dtype(c, x)), t, 0);
  if (ignores) weight = mx_sel(c, valid, w.id ? weight : mx_num(c, x, 1), mx_num(c, x, 0));
  if (w.id) y = mx_mul(c, y, weight);
  if (ignores) y = mx_sel(c, valid, y, mx_num(c, y, 0));       /* an ignored score may be inf */
  if (!mx_ok(c) || !strcmp(how, "none")) return y;
  if (!strcmp(how, "sum")) return total(c, y);
  if (strcmp(how, "mean")) { tn_ox_bad(c, "reduction is \"%s\"", how); return y; }
  int ax[TN_MAX_RANK], n = mx_all_axes(c, y, ax);
  return weight.id ? mx_div(c, total(c, y), total(c, weight)) : tn_b_mean(&c->b, y, ax, n, false);
}
tn_status tn_ox_nll_loss(tn_ox *c) {
  tn_ref x = tn_b_up(&c->b, tn_ox_in(c, 0)), t = tn_ox_in(c, 1), w = tn_ox_opt(c, 2);
  return mx_ret_as(c, 0, nll(c, x, t, w), mx_dtype(c, c->in[0]));
}
tn_status tn_ox_softmax_cross_entropy_loss(tn_ox *c) {
  tn_ref x = tn_b_up(&c->b, tn_ox_in(c, 0)), t = tn_ox_in(c, 1), w = tn_ox_opt(c, 2);
  int axis = 1;
  if (!mx_ok(c)) return c->b.st;
  if (mx_rank(c, x) < 2) return tn_ox_bad(c, "scores of rank %d", mx_rank(c, x));
  tn_ref p = tn_ox_log_softmax_of(c, x, &axis, 1);
  if (c->n_out > 1 && c->wanted[1]) mx_ret_as(c, 1, p, mx_dtype(c, c->in[0]));
  return mx_ret_as(c, 0, nll(c, p, t, w), mx_dtype(c, c->in[0]));
}

/* aten_loss: losses and their derivatives. reduction: 0 none, 1 mean, 2 sum. f16/bf16 in f32. */
#include "aten_int.h"

static tn_ref mul(tn_decomp_ctx *c, tn_ref a, tn_ref b) { return tn_b_2(c, TN_OP_MUL, a, b); }
static tn_ref sub(tn_decomp_ctx *c, tn_ref a, tn_ref b) { return tn_b_2(c, TN_OP_SUB, a, b); }
static tn_ref num(tn_decomp_ctx *c, tn_ref like, double v) { return tn_b_num(c, v, tn_b_dtype(c, like)); }
static tn_ref wide(tn_decomp_ctx *c, const char *name) { return tn_b_up(c, tn_b_cast(c, tn_at_t(c, name), tn_at_dtype(c, 0))); }

static int all_axes(tn_decomp_ctx *c, tn_ref x, int *ax) {
  int n = tn_b_rank(c, x);
  for (int i = 0; i < n; i++) ax[i] = i;
  return n;
}
static tn_ref total(tn_decomp_ctx *c, tn_ref x) {
  int ax[TN_MAX_RANK], n = all_axes(c, x, ax);
  return tn_b_reduce(c, TN_C_SUM, x, ax, n, false);
}
static tn_ref reduced(tn_decomp_ctx *c, tn_ref x) {
  int64_t r = tn_at_i(c, "reduction", 1);
  int ax[TN_MAX_RANK], n = all_axes(c, x, ax);
  return r == 0 ? x : r == 1 ? tn_b_mean(c, x, ax, n, false) : total(c, x);
}
/* 1 / number of elements for the mean, else nothing */
static tn_ref over_count(tn_decomp_ctx *c, tn_ref g, tn_ref like) {
  tn_dim d[TN_MAX_RANK];
  int n = tn_b_shape(c, like, d);
  return tn_at_i(c, "reduction", 1) == 1 ? tn_b_2(c, TN_OP_DIV, g, tn_b_dimval(c, tn_b_numel(c, d, n), tn_b_dtype(c, g))) : g;
}

tn_status tn_d_mse_loss(tn_decomp_ctx *c) {
  tn_ref d = sub(c, wide(c, "self"), wide(c, "target"));
  return tn_at_ret(c, 0, reduced(c, mul(c, d, d)));
}
tn_status tn_d_mse_loss_backward(tn_decomp_ctx *c) {
  tn_ref d = sub(c, wide(c, "self"), wide(c, "target"));
  return tn_at_ret(c, 0, over_count(c, mul(c, tn_b_muln(c, d, 2), wide(c, "grad_output")), d));
}
/* |d| < k: square part a * d^2, else linear part b * |d| - off */
static tn_status huberish(tn_decomp_ctx *c, double k, double a, double b, double off) {
  tn_ref d = sub(c, wide(c, "self"), wide(c, "target")), m = tn_b_1(c, TN_OP_ABS, d);
  tn_ref lin = tn_b_addn(c, b == 1 ? m : tn_b_muln(c, m, b), -off);
  tn_ref y = k > 0 ? tn_b_sel(c, tn_b_2(c, TN_OP_LT, m, num(c, m, k)), tn_b_muln(c, mul(c, d, d), a), lin) : m;
  return tn_at_ret(c, 0, reduced(c, y));
}
tn_status tn_d_smooth_l1_loss(tn_decomp_ctx *c) {
  double b = tn_at_f(c, "beta", 1);
  return huberish(c, b, b > 0 ? 0.5 / b : 0, 1, 0.5 * b);
}
tn_status tn_d_huber_loss(tn_decomp_ctx *c) {
  double k = tn_at_f(c, "delta", 1);
  return huberish(c, k, 0.5, k, 0.5 * k * k);
}
static tn_status huberish_backward(tn_decomp_ctx *c, double k, double scale) {   /* slope clamp(d, -k, k) * scale */
  tn_ref d = sub(c, wide(c, "self"), wide(c, "target"));
  tn_ref s = k > 0 ? tn_b_2(c, TN_OP_MIN, tn_b_2(c, TN_OP_MAX, d, num(c, d, -k)), num(c, d, k)) : tn_b_1(c, TN_OP_SIGN, d);
  if (k > 0 && scale != 1) s = tn_b_muln(c, s, scale);
  return tn_at_ret(c, 0, over_count(c, mul(c, s, wide(c, "grad_output")), d));
}
tn_status tn_d_smooth_l1_loss_backward(tn_decomp_ctx *c) {
  double b = tn_at_f(c, "beta", 1);
  return huberish_backward(c, b, b > 0 ? 1 / b : 1);
}
tn_status tn_d_huber_loss_backward(tn_decomp_ctx *c) { return huberish_backward(c, tn_at_f(c, "delta", 1), 1); }

tn_status tn_d_binary_cross_entropy(tn_decomp_ctx *c) {   /* logs are cut at -100, as in torch */
  tn_ref x = wide(c, "self"), t = wide(c, "target"), w = tn_at_opt(c, "weight"), one = num(c, x, 1), cut = num(c, x, -100);
  tn_ref lx = tn_b_2(c, TN_OP_MAX, tn_b_1(c, TN_OP_LOG, x), cut), l1 = tn_b_2(c, TN_OP_MAX, tn_b_1(c, TN_OP_LOG1P, tn_b_1(c, TN_OP_NEG, x)), cut);
  tn_ref y = sub(c, mul(c, sub(c, t, one), l1), mul(c, t, lx));
  if (w.id) y = mul(c, y, tn_b_cast(c, w, tn_b_dtype(c, y)));
  return tn_at_ret(c, 0, reduced(c, y));
}
tn_status tn_d_binary_cross_entropy_backward(tn_decomp_ctx *c) {
  tn_ref g = wide(c, "grad_output"), x = wide(c, "self"), t = wide(c, "target"), w = tn_at_opt(c, "weight");
  tn_ref den = tn_b_2(c, TN_OP_MAX, mul(c, sub(c, num(c, x, 1), x), x), num(c, x, 1e-12));
  tn_ref y = tn_b_2(c, TN_OP_DIV, mul(c, g, sub(c, x, t)), den);
  if (w.id) y = mul(c, y, tn_b_cast(c, w, tn_b_dtype(c, y)));
  return tn_at_ret(c, 0, over_count(c, y, x));
}
tn_status tn_d_bce_with_logits(tn_decomp_ctx *c) {        /* (1 - t) x - (1 + (p - 1) t) log sigmoid(x) */
  tn_ref x = wide(c, "self"), t = wide(c, "target"), w = tn_at_opt(c, "weight"), p = tn_at_opt(c, "pos_weight"), one = num(c, x, 1);
  tn_ref l = sub(c, tn_b_2(c, TN_OP_MIN, x, num(c, x, 0)), tn_b_1(c, TN_OP_LOG1P, tn_b_1(c, TN_OP_EXP, tn_b_1(c, TN_OP_NEG, tn_b_1(c, TN_OP_ABS, x)))));
  if (p.id) l = mul(c, l, tn_b_addn(c, mul(c, tn_b_addn(c, tn_b_cast(c, p, tn_b_dtype(c, x)), -1), t), 1));
  tn_ref y = sub(c, mul(c, sub(c, one, t), x), l);
  if (w.id) y = mul(c, y, tn_b_cast(c, w, tn_b_dtype(c, y)));
  return tn_at_ret(c, 0, reduced(c, y));
}
tn_status tn_d_soft_margin_loss(tn_decomp_ctx *c) {
  tn_ref z = mul(c, tn_b_1(c, TN_OP_NEG, wide(c, "target")), wide(c, "self"));
  return tn_at_ret(c, 0, reduced(c, tn_b_1(c, TN_OP_LOG1P, tn_b_1(c, TN_OP_EXP, z))));
}

/* ---- negative log likelihood: scores [N, C, *] (or [C]), targets [N, *] (or []) ---- */

typedef struct nll { tn_ref safe, valid, weight; int d; } nll;   /* weight 0 where the target is to be ignored */
static void read_nll(tn_decomp_ctx *c, tn_ref x, nll *p) {
  tn_ref t = tn_at_t(c, "target"), w = tn_at_opt(c, "weight");
  p->d = tn_b_rank(c, x) > 1;
  if (c->st != TN_OK) return;
  if (tn_b_rank(c, t) + 1 != tn_b_rank(c, x)) { tn_at_unsup(c, "targets of rank %d", tn_b_rank(c, t)); return; }
  tn_dtype it = tn_b_dtype(c, t), ct = tn_b_dtype(c, x);
  if (it != TN_I64 && it != TN_I32) t = tn_b_cast(c, t, it = TN_I64);
  p->valid = tn_b_2(c, TN_OP_NE, t, tn_b_int(c, tn_at_i(c, "ignore_index", -100), it));
  p->safe = tn_b_sel(c, p->valid, t, tn_b_int(c, 0, it));
  tn_ref one = w.id ? tn_b_take(c, tn_b_cast(c, w, ct), p->safe, 0) : tn_b_num(c, 1, ct);
  p->weight = tn_b_sel(c, p->valid, one, tn_b_num(c, 0, ct));
}
tn_status tn_d_nll_loss_forward(tn_decomp_ctx *c) {
  tn_ref x = tn_b_up(c, tn_at_t(c, "self"));
  int64_t r = tn_at_i(c, "reduction", 1);
  nll p;
  read_nll(c, x, &p);
  if (c->st != TN_OK) return c->st;
  tn_ref in[2] = {x, tn_b_unsq(c, p.safe, p.d)};
  tn_attr at = tn_mk_int("dim", p.d);
  tn_ref y = mul(c, tn_b_1(c, TN_OP_NEG, tn_b_sq(c, tn_b_op(c, TN_OP_GATHER, in, 2, &at, 1), p.d)), p.weight);
  y = tn_b_sel(c, p.valid, y, num(c, y, 0));               /* an ignored score may be inf */
  tn_ref tw = total(c, p.weight);
  if (c->n_out > 1) tn_at_ret(c, 1, r == 0 ? num(c, y, 0) : tw);
  return tn_at_ret(c, 0, r == 0 ? y : r == 1 ? tn_b_2(c, TN_OP_DIV, total(c, y), tw) : total(c, y));
}
tn_status tn_d_nll_loss_backward(tn_decomp_ctx *c) {
  tn_ref x = tn_b_up(c, tn_at_t(c, "self")), g = tn_b_cast(c, tn_at_t(c, "grad_output"), tn_b_dtype(c, x));
  int rank = tn_b_rank(c, x);
  nll p;
  read_nll(c, x, &p);
  if (c->st != TN_OK) return c->st;
  tn_ref k = mul(c, tn_b_1(c, TN_OP_NEG, p.weight), g);
  if (tn_at_i(c, "reduction", 1) == 1) k = tn_b_2(c, TN_OP_DIV, k, tn_b_cast(c, tn_at_t(c, "total_weight"), tn_b_dtype(c, x)));
  tn_ref classes = tn_b_along(c, tn_b_iota(c, tn_b_dim(c, x, p.d), tn_b_dtype(c, p.safe)), p.d, rank);
  tn_ref hit = tn_b_2(c, TN_OP_AND, tn_b_2(c, TN_OP_EQ, classes, tn_b_unsq(c, p.safe, p.d)), tn_b_unsq(c, p.valid, p.d));
  return tn_at_ret(c, 0, tn_b_sel(c, hit, tn_b_unsq(c, k, p.d), num(c, x, 0)));
}

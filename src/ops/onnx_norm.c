/* onnx_norm: batch, instance, group, layer, RMS and local response normalisation. Statistics in f32 for f16 and bf16 (stash_type where there is one),
 * in two passes. Batch norm at inference becomes one multiply and one add with per-channel factors (aten_norm.c), so that constant statistics fold.
 * (https://onnx.ai/onnx/operators/onnx__BatchNormalization.html and so on) */
#include "onnx_nn.h"

#define N TN_MAX_RANK

static tn_ref along1(tn_decomp_ctx *b, tn_ref v, tn_dtype t, int rank) {     /* [C] to meet x[N, C, *] */
  v = tn_b_cast(b, v, t);
  return rank < 2 ? v : tn_b_along(b, v, 1, rank);
}
static tn_ref affine(tn_decomp_ctx *b, tn_ref y, tn_ref w, tn_ref bias) {    /* both of a shape that broadcasts to y's */
  y = tn_nn_mul(b, y, w);
  return bias.id ? tn_nn_add(b, y, bias) : y;
}

/* ---- batch norm ---- */

/* statistics of this batch; results 1 and 2 are the running ones, updated */
static tn_status bn_train(tn_ox *c, const tn_ref in[5], double eps) {
  tn_decomp_ctx *b = &c->b;
  tn_ref x = tn_b_up(b, in[0]), mean, diff, rstd;
  tn_dtype t = tn_b_dtype(b, x);
  tn_dim ch;
  int ax[N], n = 0, rank = tn_b_rank(b, x);
  double keep = tn_ox_float(c, "momentum", 0.9);
  if (b->st == TN_OK && rank < 2) return tn_ox_bad(c, "X has rank %d", rank);
  for (int i = 0; i < rank; i++)
    if (i != 1) ax[n++] = i;
  ch = tn_b_dim(b, x, 1);
  tn_b_centre(b, x, ax, n, eps, &mean, &diff, &rstd);
  tn_ref var = tn_b_mean(b, tn_nn_mul(b, diff, diff), ax, n, true), now[2] = {mean, var};
  for (uint32_t k = 1; k < c->n_out && k < 3; k++) {
    if (!c->wanted[k]) continue;
    tn_ref old = in[k + 2], r = tn_nn_add(b, tn_b_muln(b, tn_b_cast(b, old, t), keep), tn_b_muln(b, tn_b_reshape(b, now[k - 1], &ch, 1), 1 - keep));
    tn_ox_ret(c, k, tn_b_cast(b, r, tn_b_dtype(b, old)));
  }
  tn_ref y = affine(b, tn_nn_mul(b, diff, rstd), along1(b, in[1], t, rank), along1(b, in[2], t, rank));
  return tn_ox_ret(c, 0, tn_b_cast(b, y, tn_b_dtype(b, in[0])));
}

tn_status tn_ox_batch_normalization(tn_ox *c) {
  tn_decomp_ctx *b = &c->b;
  tn_ref in[5];
  tn_dim d[N];
  double eps = tn_ox_float(c, "epsilon", 1e-5);
  for (uint32_t i = 0; i < 5; i++) in[i] = tn_ox_in(c, i);
  int rank = tn_nn_shape(c, in[0], 1, N, "X", d);
  if (!tn_nn_float(c, in[0], "X")) return b->st;
  bool train = c->opset >= 14 && tn_ox_int(c, "training_mode", 0);
  if (train) {
    for (uint32_t k = 3; k < c->n_out; k++)
      if (c->wanted[k]) return tn_ox_bad(c, "result %u is asked for", k);
    return bn_train(c, in, eps);
  }
  for (uint32_t k = 1; k < c->n_out; k++)
    if (c->wanted[k]) return c->opset < 14 ? tn_ox_unsup(c, "training form of opset %d", c->opset) : tn_ox_bad(c, "statistics asked for without training_mode");
  tn_ref x = in[0];
  if (c->opset < 9 && !tn_ox_int(c, "spatial", 1)) {   /* a statistic per activation: N x (everything else) */
    tn_dim s[2] = {d[0], tn_b_numel(b, d + 1, rank - 1)};
    x = tn_b_reshape(b, x, s, 2);
    for (int i = 1; i < 5; i++) in[i] = tn_b_reshape(b, in[i], &s[1], 1);
  }
  tn_ref y = tn_b_bn_fixed(b, x, in[3], in[4], in[1], in[2], eps);
  return tn_ox_ret(c, 0, tn_b_cast(b, tn_b_reshape(b, y, d, rank), tn_b_dtype(b, in[0])));
}

/* ---- instance and group norm ---- */

tn_status tn_ox_instance_normalization(tn_ox *c) {
  tn_decomp_ctx *b = &c->b;
  tn_ref x0 = tn_ox_in(c, 0), w = tn_ox_in(c, 1), bias = tn_ox_in(c, 2), mean, diff, rstd;
  tn_dim d[N];
  int ax[N], rank = tn_nn_shape(c, x0, 3, N, "input", d);
  double eps = tn_ox_float(c, "epsilon", 1e-5);
  if (!tn_nn_float(c, x0, "input")) return b->st;
  for (int i = 2; i < rank; i++) ax[i - 2] = i;
  tn_ref x = tn_b_up(b, x0);
  tn_dtype t = tn_b_dtype(b, x);
  tn_b_centre(b, x, ax, rank - 2, eps, &mean, &diff, &rstd);
  tn_ref y = affine(b, tn_nn_mul(b, diff, rstd), along1(b, w, t, rank), along1(b, bias, t, rank));
  return tn_ox_ret(c, 0, tn_b_cast(b, y, tn_b_dtype(b, x0)));
}

/* Opset 18 has a scale and a bias per group, 21 per channel. */
tn_status tn_ox_group_normalization(tn_ox *c) {
  tn_decomp_ctx *b = &c->b;
  tn_dims *dt = b->g->dims;
  tn_ref x0 = tn_ox_in(c, 0), p[2] = {tn_ox_in(c, 1), tn_ox_in(c, 2)}, mean, diff, rstd;
  tn_dim d[N];
  int64_t groups = tn_ox_int(c, "num_groups", 0);
  int ax[2] = {2, 3}, rank = tn_nn_shape(c, x0, 3, N, "X", d);
  double eps = tn_ox_float(c, "epsilon", 1e-5);
  if (!tn_nn_float(c, x0, "X")) return b->st;
  if (groups < 1 || groups > INT32_MAX || (tn_dim_is_const(d[1]) && d[1] % groups)) return tn_ox_bad(c, "num_groups is %lld", (long long)groups);
  tn_ref x = tn_b_up(b, x0);
  tn_dtype t = tn_b_dtype(b, x);
  tn_dim per = tn_dim_floordiv(dt, d[1], groups), s[4] = {d[0], groups, per, tn_b_numel(b, d + 2, rank - 2)}, sp[4] = {1, groups, c->opset < 21 ? 1 : per, 1};
  tn_b_centre(b, tn_b_reshape(b, x, s, 4), ax, 2, eps, &mean, &diff, &rstd);
  for (int i = 0; i < 2; i++) p[i] = tn_b_reshape(b, tn_b_cast(b, p[i], t), sp, 4);
  tn_ref y = affine(b, tn_nn_mul(b, diff, rstd), p[0], p[1]);
  return tn_ox_ret(c, 0, tn_b_cast(b, tn_b_reshape(b, y, d, rank), tn_b_dtype(b, x0)));
}

/* ---- layer and RMS norm: over axis .. rank-1 ---- */

/* dtype the first stage computes in */
static tn_dtype stash(tn_ox *c, tn_dtype t) {
  int64_t k = tn_ox_int(c, "stash_type", 1);
  int st = tn_ox_dtype_of((int)k);
  if (c->b.st == TN_OK && (k < 0 || k > 64 || st < 0 || !tn_dtype_is_float((tn_dtype)st))) { tn_ox_unsup(c, "stash_type %lld", (long long)k); return t; }
  return t == TN_F64 ? t : tn_b_wide((tn_dtype)st);
}

tn_status tn_ox_layer_normalization(tn_ox *c) {
  tn_decomp_ctx *b = &c->b;
  tn_ref x0 = tn_ox_in(c, 0), w = tn_ox_in(c, 1), bias = tn_ox_opt(c, 2), r[3];
  tn_dim d[N];
  int ax[N], rank = tn_nn_shape(c, x0, 1, N, "X", d), n = 0;
  if (!tn_nn_float(c, x0, "X")) return b->st;
  tn_dtype t = tn_b_dtype(b, x0), st = stash(c, t);
  for (int i = tn_ox_axis(c, "axis", -1, rank); i < rank; i++) ax[n++] = i;
  double eps = tn_ox_float(c, "epsilon", 1e-5);
  if (b->st != TN_OK) return b->st;
  tn_b_centre(b, tn_b_cast(b, x0, st), ax, n, eps, &r[1], &r[0], &r[2]);
  tn_ref y = tn_b_cast(b, tn_nn_mul(b, r[0], r[2]), t);
  tn_ox_ret(c, 0, affine(b, y, tn_b_cast(b, w, t), bias.id ? tn_b_cast(b, bias, t) : bias));
  for (uint32_t k = 1; k < c->n_out && k < 3; k++) tn_ox_ret(c, k, r[k]);
  return b->st;
}

tn_status tn_ox_rms_normalization(tn_ox *c) {
  tn_decomp_ctx *b = &c->b;
  tn_ref x0 = tn_ox_in(c, 0), w = tn_ox_in(c, 1);
  tn_dim d[N];
  int ax[N], rank = tn_nn_shape(c, x0, 1, N, "X", d), n = 0;
  if (!tn_nn_float(c, x0, "X")) return b->st;
  tn_dtype t = tn_b_dtype(b, x0), st = stash(c, t), tw = tn_b_dtype(b, w);
  for (int i = tn_ox_axis(c, "axis", -1, rank); i < rank; i++) ax[n++] = i;
  double eps = tn_ox_float(c, "epsilon", 1e-5);
  if (b->st != TN_OK) return b->st;
  tn_ref x = tn_b_cast(b, x0, st), ms = tn_b_mean(b, tn_nn_mul(b, x, x), ax, n, true);
  tn_ref y = tn_nn_mul(b, x, tn_b_1(b, TN_OP_RSQRT, tn_b_addn(b, ms, eps)));
  return tn_ox_ret(c, 0, tn_nn_mul(b, tn_b_cast(b, tn_b_cast(b, y, t), tw), w));
}

/* ---- local response: x / (bias + alpha / size * sum of squares over a window of channels)^beta ---- */

tn_status tn_ox_lrn(tn_ox *c) {
  tn_decomp_ctx *b = &c->b;
  tn_ref x0 = tn_ox_in(c, 0);
  tn_dim d[N], lo[N] = {0}, hi[N] = {0};
  int64_t one[N], kernel[N], size = tn_ox_int(c, "size", 0);
  double alpha = tn_ox_float(c, "alpha", 1e-4), beta = tn_ox_float(c, "beta", 0.75), bias = tn_ox_float(c, "bias", 1);
  int rank = tn_nn_shape(c, x0, 2, N, "X", d);
  if (!tn_nn_float(c, x0, "X")) return b->st;
  if (size < 1 || size > INT32_MAX) return tn_ox_bad(c, "size is %lld", (long long)size);
  for (int i = 0; i < rank; i++) one[i] = kernel[i] = 1;
  kernel[0] = size;
  lo[0] = (size - 1) / 2;
  hi[0] = size - 1 - lo[0];
  tn_ref x = tn_b_up(b, x0), s = tn_b_window(b, TN_C_SUM, tn_nn_mul(b, x, x), rank - 1, kernel, one, lo, hi, one, d + 1);
  s = tn_b_addn(b, tn_b_muln(b, s, alpha / (double)size), bias);
  tn_ref y = tn_nn_div(b, x, tn_b_2(b, TN_OP_POW, s, tn_b_num(b, beta, tn_b_dtype(b, s))));
  return tn_ox_ret(c, 0, tn_b_cast(b, y, tn_b_dtype(b, x0)));
}

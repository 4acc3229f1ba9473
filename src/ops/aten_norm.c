/* aten_norm: layer, group, instance, batch and RMS normalisation, forward and backward. Statistics in f32 for f16/bf16, two passes
 * (mean, then squared differences). Batch norm at inference becomes one multiply and one add per element with per-channel factors
 * (alpha = weight / sqrt(var + eps), beta = bias - mean * alpha), the form torch's CPU kernel uses; folding makes the factors constant
 * where the statistics are. */
#include "aten_int.h"

static tn_ref mul(tn_decomp_ctx *c, tn_ref a, tn_ref b) { return tn_b_2(c, TN_OP_MUL, a, b); }
static tn_ref add(tn_decomp_ctx *c, tn_ref a, tn_ref b) { return tn_b_2(c, TN_OP_ADD, a, b); }
static tn_ref sub(tn_decomp_ctx *c, tn_ref a, tn_ref b) { return tn_b_2(c, TN_OP_SUB, a, b); }

/* x - mean, and 1 / sqrt(var + eps), both with the axes kept at size 1 */
void tn_b_centre(tn_decomp_ctx *c, tn_ref x, const int *ax, int n, double eps, tn_ref *mean, tn_ref *diff, tn_ref *rstd) {
  *mean = tn_b_mean(c, x, ax, n, true);
  *diff = sub(c, x, *mean);
  tn_ref var = tn_b_mean(c, mul(c, *diff, *diff), ax, n, true);
  *rstd = tn_b_1(c, TN_OP_RSQRT, tn_b_addn(c, var, eps));
}

/* result k is a per-group statistic: reshaped to its recorded type */
static void ret_stat(tn_decomp_ctx *c, uint32_t k, tn_ref r) {
  if (k >= c->n_out) return;
  const tn_type *o = tn_at_type(c, k);
  tn_at_ret(c, k, tn_b_reshape(c, r, o->dim, o->rank));
}
static void ret_zeros(tn_decomp_ctx *c, uint32_t k) {
  if (k >= c->n_out) return;
  const tn_type *o = tn_at_type(c, k);
  tn_at_ret(c, k, tn_b_zeros(c, o->dim, o->rank, (tn_dtype)o->dtype));
}

static int last_axes(tn_decomp_ctx *c, int rank, int *ax) {          /* the dims of normalized_shape: the last ones */
  tn_dim d[TN_MAX_RANK];
  int n = tn_at_dims(c, "normalized_shape", d, TN_MAX_RANK);
  if (n < 1 || n > rank) { tn_at_unsup(c, "normalized_shape of rank %d for an input of rank %d", n, rank); return 0; }
  for (int i = 0; i < n; i++) ax[i] = rank - n + i;
  return n;
}

static tn_ref affine(tn_decomp_ctx *c, tn_ref y) {                   /* * weight + bias, aligned at the right */
  tn_ref w = tn_at_opt(c, "weight"), b = tn_at_opt(c, "bias");
  if (w.id) y = mul(c, y, tn_b_cast(c, w, tn_b_dtype(c, y)));
  if (b.id) y = add(c, y, tn_b_cast(c, b, tn_b_dtype(c, y)));
  return y;
}

tn_status tn_d_layer_norm(tn_decomp_ctx *c) {
  tn_ref x = tn_b_up(c, tn_at_t(c, "input")), mean, diff, rstd;
  int ax[TN_MAX_RANK], n = last_axes(c, tn_b_rank(c, x), ax);
  tn_b_centre(c, x, ax, n, tn_at_f(c, "eps", 1e-5), &mean, &diff, &rstd);
  ret_stat(c, 1, mean);
  ret_stat(c, 2, rstd);
  return tn_at_ret(c, 0, affine(c, mul(c, diff, rstd)));
}

tn_status tn_d_rms_norm(tn_decomp_ctx *c) {
  tn_ref x0 = tn_at_t(c, "input"), x = tn_b_up(c, x0);
  int ax[TN_MAX_RANK], n = last_axes(c, tn_b_rank(c, x), ax);
  double eps = tn_at_f(c, "eps", tn_b_dtype(c, x) == TN_F64 ? 2.220446049250313e-16 : 1.1920928955078125e-07);
  tn_ref rstd = tn_b_1(c, TN_OP_RSQRT, tn_b_addn(c, tn_b_mean(c, mul(c, x, x), ax, n, true), eps));
  ret_stat(c, 1, rstd);
  return tn_at_ret(c, 0, affine(c, mul(c, x, rstd)));
}

/* ---- group norm: [N, C, *] as [N, groups, C/groups, HW] ---- */

static tn_ref grouped(tn_decomp_ctx *c, tn_ref x, int64_t groups) {
  tn_dim d[TN_MAX_RANK];
  int rank = tn_b_shape(c, x, d);
  if (c->st != TN_OK) return x;
  if (rank < 2 || groups < 1) { tn_at_unsup(c, "input of rank %d in %lld groups", rank, (long long)groups); return x; }
  tn_dim hw = tn_b_numel(c, d + 2, rank - 2), per = tn_dim_floordiv(c->g->dims, d[1], groups);
  tn_dim s[4] = {d[0], groups, per, hw};
  return tn_b_reshape(c, x, s, 4);
}
static tn_ref channels(tn_decomp_ctx *c, tn_ref v, int64_t groups) { /* [C] as [1, groups, C/groups, 1] */
  tn_dim s[4] = {1, groups, tn_dim_floordiv(c->g->dims, tn_b_dim(c, v, 0), groups), 1};
  return tn_b_reshape(c, v, s, 4);
}
static tn_status group_norm(tn_decomp_ctx *c, int64_t groups) {
  tn_ref x = tn_at_t(c, "input"), mean, diff, rstd, w = tn_at_opt(c, "weight"), b = tn_at_opt(c, "bias");
  tn_dim d[TN_MAX_RANK];
  int rank = tn_b_shape(c, x, d), ax[2] = {2, 3};
  tn_ref y = grouped(c, tn_b_up(c, x), groups);
  tn_dtype t = tn_b_dtype(c, y);
  tn_b_centre(c, y, ax, 2, tn_at_f(c, "eps", 1e-5), &mean, &diff, &rstd);
  ret_stat(c, 1, mean);
  ret_stat(c, 2, rstd);
  y = mul(c, diff, rstd);
  if (w.id) y = mul(c, y, channels(c, tn_b_cast(c, w, t), groups));
  if (b.id) y = add(c, y, channels(c, tn_b_cast(c, b, t), groups));
  return tn_at_ret(c, 0, tn_b_reshape(c, y, d, rank));
}
tn_status tn_d_native_group_norm(tn_decomp_ctx *c) { return group_norm(c, tn_at_i(c, "group", 1)); }
tn_status tn_d_group_norm(tn_decomp_ctx *c) { return group_norm(c, tn_at_i(c, "num_groups", 1)); }

/* ---- batch norm ---- */

static tn_ref per_channel(tn_decomp_ctx *c, tn_ref v, int rank) { return rank < 2 ? v : tn_b_along(c, v, 1, rank); }

tn_ref tn_b_bn_fixed(tn_decomp_ctx *c, tn_ref x, tn_ref mean, tn_ref var, tn_ref w, tn_ref b, double eps) {
  x = tn_b_up(c, x);
  tn_dtype t = tn_b_dtype(c, x);
  int rank = tn_b_rank(c, x);
  tn_ref alpha = tn_b_1(c, TN_OP_RECIPROCAL, tn_b_1(c, TN_OP_SQRT, tn_b_addn(c, tn_b_cast(c, var, t), eps)));
  if (w.id) alpha = mul(c, alpha, tn_b_cast(c, w, t));
  tn_ref shift = mul(c, tn_b_cast(c, mean, t), alpha);
  tn_ref beta = b.id ? sub(c, tn_b_cast(c, b, t), shift) : tn_b_1(c, TN_OP_NEG, shift);
  return add(c, mul(c, x, per_channel(c, alpha, rank)), per_channel(c, beta, rank));
}
static tn_status bn_fixed(tn_decomp_ctx *c, double eps) {             /* given statistics */
  for (uint32_t k = 1; k < c->n_out && k < 4; k++) ret_zeros(c, k);   /* torch returns empty statistics here */
  return tn_at_ret(c, 0, tn_b_bn_fixed(c, tn_at_t(c, "input"), tn_at_t(c, "running_mean"), tn_at_t(c, "running_var"), tn_at_opt(c, "weight"), tn_at_opt(c, "bias"), eps));
}

static int other_axes(int rank, int *ax) {                            /* all but dim 1 */
  int n = 0;
  for (int i = 0; i < rank; i++)
    if (i != 1) ax[n++] = i;
  return n;
}

/* statistics of this batch; results 1, 2 are mean and 1/sqrt(var + eps), `run_at` the updated running ones (0 = none) */
static tn_status bn_batch(tn_decomp_ctx *c, double eps, uint32_t run_at) {
  tn_ref x = tn_b_up(c, tn_at_t(c, "input")), w = tn_at_opt(c, "weight"), b = tn_at_opt(c, "bias"), mean, diff, rstd;
  tn_dtype t = tn_b_dtype(c, x);
  int rank = tn_b_rank(c, x), ax[TN_MAX_RANK], n = other_axes(rank, ax);
  if (rank < 2) return tn_at_unsup(c, "input of rank %d", rank);
  mean = tn_b_mean(c, x, ax, n, true);
  diff = sub(c, x, mean);
  tn_ref var = tn_b_mean(c, mul(c, diff, diff), ax, n, true);
  rstd = tn_b_1(c, TN_OP_RSQRT, tn_b_addn(c, var, eps));
  tn_ref y = mul(c, diff, rstd);
  if (w.id) y = mul(c, y, per_channel(c, tn_b_cast(c, w, t), rank));
  if (b.id) y = add(c, y, per_channel(c, tn_b_cast(c, b, t), rank));
  tn_ref rm = tn_at_opt(c, "running_mean"), rv = tn_at_opt(c, "running_var");
  if (run_at && rm.id && rv.id) {
    double mom = tn_at_f(c, "momentum", 0.1);
    tn_dim count = 1, ch = tn_b_dim(c, x, 1);
    for (int i = 0; i < n; i++) count = tn_dim_mul(c->g->dims, count, tn_b_dim(c, x, ax[i]));
    tn_ref cnt = tn_b_dimval(c, count, t), unb = mul(c, var, tn_b_2(c, TN_OP_DIV, cnt, tn_b_addn(c, cnt, -1)));
    rm = add(c, tn_b_muln(c, tn_b_cast(c, rm, t), 1 - mom), tn_b_reshape(c, tn_b_muln(c, mean, mom), &ch, 1));
    rv = add(c, tn_b_muln(c, tn_b_cast(c, rv, t), 1 - mom), tn_b_reshape(c, tn_b_muln(c, unb, mom), &ch, 1));
    tn_at_ret(c, run_at, rm);
    tn_at_ret(c, run_at + 1, rv);
  }
  ret_stat(c, 1, mean);
  ret_stat(c, 2, rstd);
  return tn_at_ret(c, 0, y);
}

tn_status tn_d_batch_norm_inference(tn_decomp_ctx *c) { return bn_fixed(c, tn_at_f(c, "eps", 1e-5)); }
tn_status tn_d_batch_norm(tn_decomp_ctx *c) {                         /* native_batch_norm, batch_norm, cudnn_batch_norm */
  double eps = tn_at_f(c, "eps", tn_at_f(c, "epsilon", 1e-5));
  bool training = tn_at_b(c, "training", false) || !tn_at_val(c, "running_mean");
  if (!training) return bn_fixed(c, eps);
  if (tn_at_val(c, "running_mean")) return tn_at_unsup(c, "running statistics are updated in place here");
  return bn_batch(c, eps, 0);
}
tn_status tn_d_batch_norm_functional(tn_decomp_ctx *c) {              /* results 3, 4: new running mean and variance */
  double eps = tn_at_f(c, "eps", 1e-5);
  if (tn_at_b(c, "training", true)) return bn_batch(c, eps, 3);
  bn_fixed(c, eps);
  tn_at_ret(c, 3, tn_at_t(c, "running_mean"));
  return tn_at_ret(c, 4, tn_at_t(c, "running_var"));
}
tn_status tn_d_batch_norm_update_functional(tn_decomp_ctx *c) {       /* results 4, 5; result 3 is a reserve buffer */
  ret_zeros(c, 3);
  return bn_batch(c, tn_at_f(c, "eps", 1e-5), 4);
}

/* ---- derivatives ---- */

static bool wanted(tn_decomp_ctx *c, int k) {
  int64_t m[TN_MAX_RANK];
  int n = tn_at_ints(c, "output_mask", m, TN_MAX_RANK);
  return n < 0 || (k < n && m[k]);
}

/* dx = rstd * (h - mean(h) - xhat * mean(h * xhat)) over the normalised axes, h = g * weight */
static tn_ref norm_dx(tn_decomp_ctx *c, tn_ref h, tn_ref xhat, tn_ref rstd, const int *ax, int n) {
  tn_ref a = tn_b_mean(c, h, ax, n, true), b = tn_b_mean(c, mul(c, h, xhat), ax, n, true);
  return mul(c, rstd, sub(c, sub(c, h, a), mul(c, xhat, b)));
}

tn_status tn_d_layer_norm_backward(tn_decomp_ctx *c) {
  tn_ref g = tn_b_up(c, tn_at_t(c, "grad_out")), x = tn_b_up(c, tn_at_t(c, "input")), w = tn_at_opt(c, "weight");
  tn_dtype t = tn_b_dtype(c, x);
  tn_ref mean = tn_b_cast(c, tn_at_t(c, "mean"), t), rstd = tn_b_cast(c, tn_at_t(c, "rstd"), t);
  int rank = tn_b_rank(c, x), ax[TN_MAX_RANK], out[TN_MAX_RANK], n = last_axes(c, rank, ax), m = rank - n;
  for (int i = 0; i < m; i++) out[i] = i;
  tn_ref xhat = mul(c, sub(c, x, mean), rstd), h = w.id ? mul(c, g, tn_b_cast(c, w, t)) : g;
  if (wanted(c, 0)) tn_at_ret(c, 0, norm_dx(c, h, xhat, rstd, ax, n));
  if (wanted(c, 1) && w.id) tn_at_ret(c, 1, tn_b_reduce(c, TN_C_SUM, mul(c, g, xhat), out, m, false));
  if (wanted(c, 2) && tn_at_val(c, "bias")) tn_at_ret(c, 2, tn_b_reduce(c, TN_C_SUM, g, out, m, false));
  return c->st;
}

tn_status tn_d_rms_norm_backward(tn_decomp_ctx *c) {
  tn_ref g = tn_b_up(c, tn_at_t(c, "grad_out")), x = tn_b_up(c, tn_at_t(c, "input")), w = tn_at_opt(c, "weight");
  tn_dtype t = tn_b_dtype(c, x);
  tn_ref rstd = tn_b_cast(c, tn_at_t(c, "rstd"), t);
  int rank = tn_b_rank(c, x), ax[TN_MAX_RANK], out[TN_MAX_RANK], n = last_axes(c, rank, ax), m = rank - n;
  for (int i = 0; i < m; i++) out[i] = i;
  tn_ref xhat = mul(c, x, rstd), h = w.id ? mul(c, g, tn_b_cast(c, w, t)) : g;
  if (wanted(c, 0)) tn_at_ret(c, 0, mul(c, rstd, sub(c, h, mul(c, xhat, tn_b_mean(c, mul(c, h, xhat), ax, n, true)))));
  if (wanted(c, 1) && w.id) tn_at_ret(c, 1, tn_b_reduce(c, TN_C_SUM, mul(c, g, xhat), out, m, false));
  return c->st;
}

tn_status tn_d_batch_norm_backward(tn_decomp_ctx *c) {
  tn_ref g = tn_b_up(c, tn_at_t(c, "grad_out")), x = tn_b_up(c, tn_at_t(c, "input")), w = tn_at_opt(c, "weight"), mean, rstd;
  tn_dtype t = tn_b_dtype(c, x);
  int rank = tn_b_rank(c, x), ax[TN_MAX_RANK], n = other_axes(rank, ax);
  bool train = tn_at_b(c, "train", true);
  if (rank < 2) return tn_at_unsup(c, "input of rank %d", rank);
  if (train) {
    mean = per_channel(c, tn_b_cast(c, tn_at_t(c, "save_mean"), t), rank);
    rstd = per_channel(c, tn_b_cast(c, tn_at_t(c, "save_invstd"), t), rank);
  } else {
    mean = per_channel(c, tn_b_cast(c, tn_at_t(c, "running_mean"), t), rank);
    tn_ref v = tn_b_addn(c, tn_b_cast(c, tn_at_t(c, "running_var"), t), tn_at_f(c, "eps", 1e-5));
    rstd = per_channel(c, tn_b_1(c, TN_OP_RSQRT, v), rank);
  }
  tn_ref xhat = mul(c, sub(c, x, mean), rstd), h = w.id ? mul(c, g, per_channel(c, tn_b_cast(c, w, t), rank)) : g;
  if (wanted(c, 0)) tn_at_ret(c, 0, train ? norm_dx(c, h, xhat, rstd, ax, n) : mul(c, h, rstd));
  if (wanted(c, 1)) tn_at_ret(c, 1, tn_b_reduce(c, TN_C_SUM, mul(c, g, xhat), ax, n, false));
  if (wanted(c, 2)) tn_at_ret(c, 2, tn_b_reduce(c, TN_C_SUM, g, ax, n, false));
  return c->st;
}

tn_status tn_d_group_norm_backward(tn_decomp_ctx *c) {
  int64_t groups = tn_at_i(c, "group", 1);
  tn_ref x0 = tn_at_t(c, "input"), w = tn_at_opt(c, "weight");
  tn_dim d[TN_MAX_RANK];
  int rank = tn_b_shape(c, x0, d), ax[2] = {2, 3}, out[2] = {0, 3};
  tn_ref x = grouped(c, tn_b_up(c, x0), groups), g = grouped(c, tn_b_up(c, tn_at_t(c, "grad_out")), groups);
  tn_dtype t = tn_b_dtype(c, x);
  tn_dim s[4] = {d[0], groups, 1, 1}, ch = d[1];
  tn_ref mean = tn_b_reshape(c, tn_b_cast(c, tn_at_t(c, "mean"), t), s, 4), rstd = tn_b_reshape(c, tn_b_cast(c, tn_at_t(c, "rstd"), t), s, 4);
  tn_ref xhat = mul(c, sub(c, x, mean), rstd), h = w.id ? mul(c, g, channels(c, tn_b_cast(c, w, t), groups)) : g;
  if (wanted(c, 0)) tn_at_ret(c, 0, tn_b_reshape(c, norm_dx(c, h, xhat, rstd, ax, 2), d, rank));
  if (wanted(c, 1) && w.id) tn_at_ret(c, 1, tn_b_reshape(c, tn_b_reduce(c, TN_C_SUM, mul(c, g, xhat), out, 2, false), &ch, 1));
  if (wanted(c, 2)) tn_at_ret(c, 2, tn_b_reshape(c, tn_b_reduce(c, TN_C_SUM, g, out, 2, false), &ch, 1));
  return c->st;
}

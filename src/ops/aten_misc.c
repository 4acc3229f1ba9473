/* aten_misc: ops too small for a file of their own: special functions, distances, sampling, and dropout that is switched off. */
#include "aten_int.h"

static tn_ref mul(tn_decomp_ctx *c, tn_ref a, tn_ref b) { return tn_b_2(c, TN_OP_MUL, a, b); }
static tn_ref add(tn_decomp_ctx *c, tn_ref a, tn_ref b) { return tn_b_2(c, TN_OP_ADD, a, b); }
static tn_ref sub(tn_decomp_ctx *c, tn_ref a, tn_ref b) { return tn_b_2(c, TN_OP_SUB, a, b); }
static tn_ref num(tn_decomp_ctx *c, tn_ref like, double v) { return tn_b_num(c, v, tn_b_dtype(c, like)); }
static tn_ref wide(tn_decomp_ctx *c, const char *name) { return tn_b_up(c, tn_at_as(c, tn_at_opd(c, name), tn_at_dtype(c, 0))); }

/* ---- dropout: only the form that does nothing ---- */

tn_status tn_d_dropout(tn_decomp_ctx *c) {
  tn_ref x = tn_at_t(c, "input");
  bool train = tn_at_b(c, "train", true);
  double p = tn_at_f(c, "p", 0.5);
  if (train && p != 0) return tn_at_unsup(c, "random numbers");
  if (c->n_out > 1) {                                  /* the mask */
    const tn_type *o = tn_at_type(c, 1);
    tn_attr_val one = {.kind = TN_AT_INT};
    one.u.i = 1;
    tn_at_ret(c, 1, tn_b_full(c, o->dim, o->rank, &one, (tn_dtype)o->dtype));
  }
  return tn_at_ret(c, 0, x);
}
tn_status tn_d_native_dropout_backward(tn_decomp_ctx *c) {
  tn_ref g = wide(c, "grad_output");
  return tn_at_ret(c, 0, tn_b_muln(c, mul(c, g, tn_b_cast(c, tn_at_t(c, "mask"), tn_b_dtype(c, g))), tn_at_f(c, "scale", 1)));
}

/* ---- functions ---- */

tn_status tn_d_xlog1py(tn_decomp_ctx *c) {
  tn_ref x = wide(c, "self"), y = wide(c, "other"), zero = num(c, x, 0);
  tn_ref p = tn_b_sel(c, tn_b_2(c, TN_OP_EQ, x, zero), zero, mul(c, x, tn_b_1(c, TN_OP_LOG1P, y)));
  return tn_at_ret(c, 0, tn_b_sel(c, tn_b_1(c, TN_OP_ISNAN, y), y, p));
}
tn_status tn_d_entr(tn_decomp_ctx *c) {                /* -x log x; 0 at 0, -inf below */
  tn_ref x = wide(c, "self"), zero = num(c, x, 0);
  tn_ref y = tn_b_sel(c, tn_b_2(c, TN_OP_LT, x, zero), num(c, x, -INFINITY), tn_b_1(c, TN_OP_NEG, mul(c, x, tn_b_1(c, TN_OP_LOG, x))));
  return tn_at_ret(c, 0, tn_b_sel(c, tn_b_2(c, TN_OP_EQ, x, zero), zero, y));
}
tn_status tn_d_ndtr(tn_decomp_ctx *c) {                /* erfc(-x / sqrt 2) / 2: small tails keep their digits */
  tn_ref x = wide(c, "self");
  return tn_at_ret(c, 0, tn_b_muln(c, tn_b_1(c, TN_OP_ERFC, tn_b_muln(c, x, -0.70710678118654752440)), 0.5));
}
tn_status tn_d_ldexp(tn_decomp_ctx *c) { return tn_at_ret(c, 0, mul(c, wide(c, "self"), tn_b_1(c, TN_OP_EXP2, wide(c, "other")))); }
tn_status tn_d_angle(tn_decomp_ctx *c) {
  tn_ref x = wide(c, "self");
  tn_ref y = tn_b_sel(c, tn_b_2(c, TN_OP_LT, x, num(c, x, 0)), num(c, x, 3.14159265358979323846), num(c, x, 0));
  return tn_at_ret(c, 0, tn_b_sel(c, tn_b_1(c, TN_OP_ISNAN, x), x, y));
}
tn_status tn_d_softshrink_backward(tn_decomp_ctx *c) { /* hardshrink too: no gradient where the result is 0 */
  tn_ref g = wide(c, tn_at_val(c, "grad_out") ? "grad_out" : "grad_output"), x = wide(c, "self");
  tn_ref in = tn_b_2(c, TN_OP_LE, tn_b_1(c, TN_OP_ABS, x), num(c, x, tn_at_f(c, "lambd", 0.5)));
  return tn_at_ret(c, 0, tn_b_sel(c, in, num(c, g, 0), g));
}
tn_status tn_d_prelu_backward(tn_decomp_ctx *c) {
  tn_ref g = wide(c, "grad_output"), x = wide(c, "self"), w = wide(c, "weight"), pos = tn_b_2(c, TN_OP_GT, x, num(c, x, 0));
  tn_at_ret(c, 0, tn_b_sel(c, pos, g, mul(c, w, g)));
  return tn_at_ret(c, 1, tn_b_sel(c, pos, num(c, g, 0), mul(c, x, g)));
}

/* ---- sums of products ---- */

tn_status tn_d_trace(tn_decomp_ctx *c) {
  tn_ref x = tn_at_t(c, "self");
  tn_dtype t = tn_at_dtype(c, 0);
  int ax[2] = {0, 1};
  if (c->st == TN_OK && tn_b_rank(c, x) != 2) return tn_at_unsup(c, "rank %d", tn_b_rank(c, x));
  tn_ref r = tn_b_along(c, tn_b_iota(c, tn_b_dim(c, x, 0), TN_I64), 0, 2), q = tn_b_along(c, tn_b_iota(c, tn_b_dim(c, x, 1), TN_I64), 1, 2);
  x = tn_b_cast(c, x, tn_b_wide(t));
  return tn_at_ret(c, 0, tn_b_reduce(c, TN_C_SUM, tn_b_sel(c, tn_b_2(c, TN_OP_EQ, r, q), x, num(c, x, 0)), ax, 2, false));
}
tn_status tn_d_linalg_cross(tn_decomp_ctx *c) {        /* a[i+1] b[i+2] - a[i+2] b[i+1] along a dim of 3 */
  const tn_type *o = tn_at_type(c, 0);
  tn_ref a = wide(c, "self"), b = wide(c, "other"), part[3];
  int d = tn_at_axis(c, "dim", o->rank);
  if (c->st != TN_OK) return c->st;
  if (tn_at_odim(c, 0, d) != 3) return tn_at_unsup(c, "a dim that is not 3");
  a = tn_b_broadcast(c, a, o->dim, o->rank);
  b = tn_b_broadcast(c, b, o->dim, o->rank);
  for (int i = 0; i < 3; i++) {
    int p = (i + 1) % 3, q = (i + 2) % 3;
    part[i] = sub(c, mul(c, tn_b_slice(c, a, d, p, 1, 1), tn_b_slice(c, b, d, q, 1, 1)), mul(c, tn_b_slice(c, a, d, q, 1, 1), tn_b_slice(c, b, d, p, 1, 1)));
  }
  return c->st != TN_OK ? c->st : tn_at_ret(c, 0, tn_b_concat(c, part, 3, d));
}

/* p-norm of x over its last dim (all dims: whole) */
static tn_ref pnorm(tn_decomp_ctx *c, tn_ref x, double p, const int *ax, int n) {
  tn_ref a = tn_b_1(c, TN_OP_ABS, x);
  tn_dtype t = tn_b_dtype(c, x);
  if (p == 2) return tn_b_1(c, TN_OP_SQRT, tn_b_reduce(c, TN_C_SUM, mul(c, x, x), ax, n, false));
  if (p == 1) return tn_b_reduce(c, TN_C_SUM, a, ax, n, false);
  if (p == INFINITY) return tn_b_reduce(c, TN_C_MAX, a, ax, n, false);
  if (p == 0) return tn_b_reduce(c, TN_C_SUM, tn_b_cast(c, tn_b_bool(c, x), t), ax, n, false);
  return tn_b_2(c, TN_OP_POW, tn_b_reduce(c, TN_C_SUM, tn_b_2(c, TN_OP_POW, a, tn_b_num(c, p, t)), ax, n, false), tn_b_num(c, 1 / p, t));
}
tn_status tn_d_dist(tn_decomp_ctx *c) {
  tn_ref x = sub(c, wide(c, "self"), wide(c, "other"));
  int ax[TN_MAX_RANK], n = tn_b_rank(c, x);
  for (int i = 0; i < n; i++) ax[i] = i;
  return tn_at_ret(c, 0, pnorm(c, x, tn_at_f(c, "p", 2), ax, n));
}
tn_status tn_d_cdist(tn_decomp_ctx *c) {               /* [.., P, M], [.., R, M] -> [.., P, R] */
  tn_ref a = wide(c, "x1"), b = wide(c, "x2");
  int ra = tn_b_rank(c, a), rb = tn_b_rank(c, b);
  if (c->st == TN_OK && (ra < 2 || rb < 2 || ra >= TN_MAX_RANK || rb >= TN_MAX_RANK)) return tn_at_unsup(c, "ranks %d and %d", ra, rb);
  tn_ref d = sub(c, tn_b_unsq(c, a, ra - 1), tn_b_unsq(c, b, rb - 2));
  int last = tn_b_rank(c, d) - 1;
  return tn_at_ret(c, 0, pnorm(c, d, tn_at_f(c, "p", 2), &last, 1));
}
tn_status tn_d_weight_norm(tn_decomp_ctx *c) {         /* v * (g / |v|), the norm over all dims but `dim` */
  tn_ref v = wide(c, "v"), g = tn_b_cast(c, tn_at_t(c, "g"), tn_b_dtype(c, v));
  int rank = tn_b_rank(c, v), d = tn_at_axis(c, "dim", rank), ax[TN_MAX_RANK], n = 0;
  for (int i = 0; i < rank; i++) if (i != d) ax[n++] = i;
  tn_ref norm = tn_b_1(c, TN_OP_SQRT, tn_b_reduce(c, TN_C_SUM, mul(c, v, v), ax, n, true));
  if (c->n_out > 1) tn_at_ret(c, 1, norm);
  return tn_at_ret(c, 0, mul(c, v, tn_b_2(c, TN_OP_DIV, g, norm)));
}
tn_status tn_d_isin(tn_decomp_ctx *c) {
  tn_opd e = tn_at_opd(c, tn_at_val(c, "elements") ? "elements" : "element"), t = tn_at_opd(c, tn_at_val(c, "test_elements") ? "test_elements" : "test_element");
  if (c->st != TN_OK) return c->st;
  tn_opd both[2] = {e, t};
  tn_dtype ct = tn_at_promote(c, both, 2);
  tn_ref x = tn_at_as(c, e, ct), y = tn_at_as(c, t, ct);
  tn_dim d[TN_MAX_RANK], n = tn_b_numel(c, d, tn_b_shape(c, y, d));
  int rank = tn_b_rank(c, x);
  if (c->st == TN_OK && rank >= TN_MAX_RANK) return tn_at_unsup(c, "rank %d", rank);
  tn_ref hit = tn_b_reduce(c, TN_C_ANY, tn_b_2(c, TN_OP_EQ, tn_b_unsq(c, x, rank), tn_b_reshape(c, y, &n, 1)), &rank, 1, false);
  return tn_at_ret(c, 0, tn_at_b(c, "invert", false) ? tn_b_1(c, TN_OP_NOT, hit) : hit);
}

/* ---- masked_scatter: the k-th true place takes the k-th source element; k is a running count ---- */

tn_status tn_d_masked_scatter(tn_decomp_ctx *c) {
  const tn_type *o = tn_at_type(c, 0);
  tn_ref x = tn_b_broadcast(c, tn_at_t(c, "self"), o->dim, o->rank), m = tn_b_broadcast(c, tn_b_bool(c, tn_at_t(c, "mask")), o->dim, o->rank), s = tn_at_t(c, "source");
  tn_dim n = tn_b_numel(c, o->dim, o->rank), d[TN_MAX_RANK], k = tn_b_numel(c, d, tn_b_shape(c, s, d));
  if (c->st == TN_OK && k == 0) return tn_at_ret(c, 0, x);
  tn_ref order = tn_b_scan(c, TN_C_SUM, tn_b_cast(c, tn_b_reshape(c, m, &n, 1), TN_I64), 0), zero = tn_b_int(c, 0, TN_I64);
  tn_ref last = tn_b_dimval(c, tn_dim_sub(c->g->dims, k, 1), TN_I64);
  order = tn_b_2(c, TN_OP_MIN, tn_b_2(c, TN_OP_MAX, add(c, order, tn_b_int(c, -1, TN_I64)), zero), last);
  tn_ref v = tn_b_take(c, tn_b_reshape(c, tn_b_cast(c, s, tn_b_dtype(c, x)), &k, 1), order, 0);
  return tn_at_ret(c, 0, tn_b_sel(c, m, tn_b_reshape(c, v, o->dim, o->rank), x));
}

/* ---- medians: the lower of two middles, in the order of a sort ---- */

tn_status tn_d_median(tn_decomp_ctx *c) {
  tn_ref x = tn_at_t(c, "self");
  tn_dtype t = tn_b_dtype(c, x);
  int rank = tn_b_rank(c, x), d = 0;
  bool whole = !tn_at_val(c, "dim"), keep = tn_at_b(c, "keepdim", false);
  tn_dim s[TN_MAX_RANK];
  tn_b_shape(c, x, s);
  if (c->st != TN_OK) return c->st;
  if (rank == 0) {
    if (!whole) tn_at_ret(c, 1, tn_b_int(c, 0, TN_I64));
    return tn_at_ret(c, 0, x);
  }
  if (whole) { s[0] = tn_b_numel(c, s, rank); x = tn_b_reshape(c, x, s, 1); }
  else d = tn_at_axis(c, "dim", rank);
  tn_attr at[3] = {tn_mk_int("dim", d), tn_mk_bool("descending", false), tn_mk_bool("stable", true)};
  tn_dim place = tn_dim_floordiv(c->g->dims, tn_dim_sub(c->g->dims, tn_b_dim(c, x, d), 1), 2);
  tn_ref v = tn_b_op(c, TN_OP_SORT, &x, 1, at, 3), nan = {0};
  if (c->st != TN_OK) return c->st;
  tn_ref r[2] = {v, {v.id + 1}};
  for (int i = 0; i < 2; i++) {
    tn_ref mid = tn_b_slice(c, r[i], d, place, 1, 1);
    if (tn_dtype_is_float(t)) {                        /* a NaN sorts last and wins */
      tn_ref end = tn_b_slice(c, r[i], d, tn_dim_sub(c->g->dims, tn_b_dim(c, x, d), 1), 1, 1);
      if (i == 0) nan = tn_b_1(c, TN_OP_ISNAN, end);
      mid = tn_b_sel(c, nan, end, mid);
    }
    r[i] = keep ? mid : tn_b_sq(c, mid, d);
  }
  if (!whole) tn_at_ret(c, 1, r[1]);
  return tn_at_ret(c, 0, r[0]);
}

/* ---- grid_sample, 2-D: bilinear and nearest; zeros, border, reflection ---- */

/* -1..1 to pixels; then clipped or reflected as asked */
static tn_ref grid_pixels(tn_decomp_ctx *c, tn_ref g, tn_ref size, bool corners, int64_t padding) {
  tn_ref one = num(c, g, 1), half = num(c, g, 0.5);
  tn_ref p = corners ? mul(c, mul(c, add(c, g, one), half), sub(c, size, one)) : mul(c, sub(c, mul(c, add(c, g, one), size), one), half);
  if (padding == 2) {                                  /* distance into a triangle wave of period 2 * span */
    tn_ref low = corners ? num(c, g, 0) : num(c, g, -0.5), span = corners ? sub(c, size, one) : size;
    tn_ref q = tn_b_1(c, TN_OP_ABS, sub(c, p, low)), extra = tn_b_2(c, TN_OP_FMOD, q, span), flips = tn_b_1(c, TN_OP_FLOOR, tn_b_2(c, TN_OP_DIV, q, span));
    tn_ref odd = tn_b_2(c, TN_OP_NE, tn_b_2(c, TN_OP_REMAINDER, flips, num(c, g, 2)), num(c, g, 0));
    p = add(c, tn_b_sel(c, odd, sub(c, span, extra), extra), low);
    p = tn_b_sel(c, tn_b_2(c, TN_OP_LE, span, num(c, g, 0)), num(c, g, 0), p);
  }
  if (padding) p = tn_b_2(c, TN_OP_MIN, tn_b_2(c, TN_OP_MAX, p, num(c, g, 0)), sub(c, size, one));
  return p;
}
tn_status tn_d_grid_sampler_2d(tn_decomp_ctx *c) {
  tn_ref x = tn_b_up(c, tn_at_t(c, "input")), g = tn_b_cast(c, tn_at_t(c, "grid"), tn_b_dtype(c, x));
  int64_t mode = tn_at_i(c, "interpolation_mode", 0), padding = tn_at_i(c, "padding_mode", 0);
  bool corners = tn_at_b(c, "align_corners", false);
  tn_dim d[TN_MAX_RANK], o[TN_MAX_RANK];
  tn_dtype t = tn_b_dtype(c, x);
  if (c->st != TN_OK) return c->st;
  if (tn_b_shape(c, x, d) != 4 || tn_b_shape(c, g, o) != 4 || mode > 1) return tn_at_unsup(c, "mode %lld", (long long)mode);
  tn_ref h = tn_b_dimval(c, d[2], t), w = tn_b_dimval(c, d[3], t);
  tn_ref px = grid_pixels(c, tn_b_sq(c, tn_b_slice(c, g, 3, 0, 1, 1), 3), w, corners, padding);
  tn_ref py = grid_pixels(c, tn_b_sq(c, tn_b_slice(c, g, 3, 1, 1, 1), 3), h, corners, padding);
  tn_ref fx = tn_b_1(c, mode == 1 ? TN_OP_ROUND : TN_OP_FLOOR, px), fy = tn_b_1(c, mode == 1 ? TN_OP_ROUND : TN_OP_FLOOR, py);
  tn_dim s[3] = {d[0], d[1], tn_dim_mul(c->g->dims, d[2], d[3])}, so[3] = {d[0], d[1], tn_dim_mul(c->g->dims, o[1], o[2])}, full[4] = {d[0], d[1], o[1], o[2]};
  tn_ref flat = tn_b_reshape(c, x, s, 3), y = {0}, zero = tn_b_num(c, 0, t), one = tn_b_num(c, 1, t);
  for (int k = 0; k < (mode == 1 ? 1 : 4); k++) {      /* the four corners, or the nearest one */
    tn_ref qx = k & 1 ? add(c, fx, one) : fx, qy = k & 2 ? add(c, fy, one) : fy;
    tn_ref in = tn_b_2(c, TN_OP_AND, tn_b_2(c, TN_OP_AND, tn_b_2(c, TN_OP_GE, qx, zero), tn_b_2(c, TN_OP_LT, qx, w)), tn_b_2(c, TN_OP_AND, tn_b_2(c, TN_OP_GE, qy, zero), tn_b_2(c, TN_OP_LT, qy, h)));
    tn_ref ix = tn_b_cast(c, tn_b_sel(c, in, qx, zero), TN_I64), iy = tn_b_cast(c, tn_b_sel(c, in, qy, zero), TN_I64);
    tn_ref at = add(c, mul(c, iy, tn_b_dimval(c, d[3], TN_I64)), ix);
    tn_dim si[3] = {o[0], 1, so[2]};
    tn_ref gi[2] = {flat, tn_b_broadcast(c, tn_b_reshape(c, at, si, 3), so, 3)};
    tn_attr a = tn_mk_int("dim", 2);
    tn_ref v = tn_b_reshape(c, tn_b_op(c, TN_OP_GATHER, gi, 2, &a, 1), full, 4);
    tn_ref wt = in;
    if (mode == 0) {
      tn_ref rx = sub(c, px, fx), ry = sub(c, py, fy);
      tn_ref wk = mul(c, k & 1 ? rx : sub(c, one, rx), k & 2 ? ry : sub(c, one, ry));
      wt = tn_b_sel(c, in, wk, zero);
      v = mul(c, v, tn_b_unsq(c, wt, 1));
    } else v = tn_b_sel(c, tn_b_unsq(c, in, 1), v, zero);
    y = y.id ? add(c, y, v) : v;
  }
  return tn_at_ret(c, 0, y);
}

/* ---- im2col: columns [N, C*kh*kw, L] of sliding blocks ---- */

tn_status tn_d_im2col(tn_decomp_ctx *c) {
  tn_ref x = tn_at_t(c, "self");
  int64_t k[2], dil[2], pad[2], st[2];
  tn_at_spread(c, "kernel_size", k, 2, 1);
  tn_at_spread(c, "dilation", dil, 2, 1);
  tn_at_spread(c, "padding", pad, 2, 0);
  tn_at_spread(c, "stride", st, 2, 1);
  const tn_type *o = tn_at_type(c, 0);
  tn_dims *t = c->g->dims;
  int rank = tn_b_rank(c, x), b = rank - 2;
  if (c->st != TN_OK) return c->st;
  if (rank < 3 || rank + 2 > TN_MAX_RANK) return tn_at_unsup(c, "rank %d", rank);
  tn_dim lo[TN_MAX_RANK] = {0}, hi[TN_MAX_RANK] = {0};
  tn_attr_val zero = {.kind = TN_AT_INT};
  for (int i = 0; i < 2; i++) lo[b + i] = hi[b + i] = pad[i];
  x = tn_b_pad(c, x, lo, hi, &zero);
  for (int i = 0; i < 2; i++) {                        /* dim b + 2i becomes [k, blocks] */
    int d = b + 2 * i;
    tn_dim n = tn_dim_add(t, tn_dim_floordiv(t, tn_dim_sub(t, tn_b_dim(c, x, d), dil[i] * (k[i] - 1) + 1), st[i]), 1);
    tn_ref at = mul(c, tn_b_iota(c, n, TN_I64), tn_b_int(c, st[i], TN_I64)), in = mul(c, tn_b_iota(c, k[i], TN_I64), tn_b_int(c, dil[i], TN_I64));
    x = tn_b_take(c, x, add(c, tn_b_along(c, in, 0, 2), tn_b_along(c, at, 1, 2)), d);
  }
  int perm[TN_MAX_RANK];                               /* [.., kh, oh, kw, ow] -> [.., kh, kw, oh, ow] */
  for (int i = 0; i < rank + 2; i++) perm[i] = i;
  perm[b + 1] = b + 2; perm[b + 2] = b + 1;
  return tn_at_ret(c, 0, tn_b_reshape(c, tn_b_permute(c, x, perm), o->dim, o->rank));
}

/* onnx_pool: pools as windows, or as reductions where they take in everything. Elements outside count as the combiner's identity; what an average
 * divides by comes from a window over ones where edges make it vary (aten_conv.c). MaxRoiPool is two masked maxima, over columns and then rows.
 * (https://onnx.ai/onnx/operators/onnx__MaxPool.html and so on) */
#include "onnx_nn.h"

#define N TN_MAX_RANK

static tn_ref window(tn_decomp_ctx *b, tn_combiner k, tn_ref x, const tn_pool_form *p) {
  return tn_b_window(b, k, x, p->n, p->kernel, p->stride, p->lo, p->hi, p->dilation, p->size);
}

/* Indices count through the whole tensor [N, C, *]; storage_order 1: the spatial part column by column. */
static tn_ref indices(tn_ox *c, tn_ref x, const tn_pool_form *p) {
  tn_decomp_ctx *b = &c->b;
  tn_dims *t = b->g->dims;
  tn_ref pos[N] = {{0}}, flat = {0};
  tn_dim d[N], area = 1;
  int rank = tn_b_shape(b, x, d);
  bool columns = tn_ox_int(c, "storage_order", 0) != 0;
  tn_b_max_places(b, x, p, pos);
  for (int i = 0; i < p->n && b->st == TN_OK; i++) {
    int k = columns ? p->n - 1 - i : i;
    flat = flat.id ? tn_nn_add(b, tn_nn_mul(b, flat, tn_b_dimval(b, p->in[k], TN_I64)), pos[k]) : pos[k];
    area = tn_dim_mul(t, area, p->in[i]);
  }
  tn_ref ch = tn_b_along(b, tn_b_iota(b, d[1], TN_I64), 1, rank), im = tn_b_along(b, tn_b_iota(b, d[0], TN_I64), 0, rank);
  ch = tn_nn_add(b, tn_nn_mul(b, im, tn_b_dimval(b, d[1], TN_I64)), ch);
  return tn_nn_add(b, flat, tn_nn_mul(b, ch, tn_b_dimval(b, area, TN_I64)));
}

tn_status tn_ox_max_pool(tn_ox *c) {
  tn_pool_form p = {0};
  bool ceil;
  tn_ref x = tn_ox_in(c, 0);
  if (!tn_nn_window(c, x, NULL, &p, &ceil)) return c->b.st;
  if (c->n_out > 1 && c->wanted[1]) tn_ox_ret(c, 1, indices(c, x, &p));
  return tn_ox_ret(c, 0, window(&c->b, TN_C_MAX, x, &p));
}

tn_status tn_ox_average_pool(tn_ox *c) {
  tn_decomp_ctx *b = &c->b;
  tn_pool_form p = {0};
  bool ceil;
  tn_ref x0 = tn_ox_in(c, 0);
  if (!tn_nn_float(c, x0, "X")) return b->st;
  tn_ref x = tn_b_up(b, x0);
  if (!tn_nn_window(c, x, NULL, &p, &ceil)) return b->st;
  tn_ref n = tn_b_pool_count(b, &p, tn_ox_int(c, "count_include_pad", 0) != 0, ceil, tn_b_dtype(b, x));
  return tn_ox_ret(c, 0, tn_b_cast(b, tn_nn_div(b, window(b, TN_C_SUM, x, &p), n), tn_b_dtype(b, x0)));
}

/* ---- Lp: the p-th root of the sum of |x|^p ---- */

static double read_p(tn_ox *c) {
  const tn_ox_attr *a = tn_ox_attr_get(c, "p");
  double p = a && a->kind == TN_OX_FLOAT ? tn_ox_float(c, "p", 2) : (double)tn_ox_int(c, "p", 2);
  if (c->b.st == TN_OK && !(p > 0)) tn_ox_bad(c, "p is %g", p);
  return p;
}
static tn_ref powers(tn_decomp_ctx *b, tn_ref x, double p) {
  if (p == 2) return tn_nn_mul(b, x, x);
  x = tn_b_1(b, TN_OP_ABS, x);
  return p == 1 ? x : tn_b_2(b, TN_OP_POW, x, tn_b_num(b, p, tn_b_dtype(b, x)));
}
static tn_ref root(tn_decomp_ctx *b, tn_ref s, double p) {
  if (p == 1) return s;
  return p == 2 ? tn_b_1(b, TN_OP_SQRT, s) : tn_b_2(b, TN_OP_POW, s, tn_b_num(b, 1 / p, tn_b_dtype(b, s)));
}

tn_status tn_ox_lp_pool(tn_ox *c) {
  tn_decomp_ctx *b = &c->b;
  tn_pool_form f = {0};
  bool ceil;
  tn_ref x0 = tn_ox_in(c, 0);
  double p = read_p(c);
  if (!tn_nn_float(c, x0, "X")) return b->st;
  tn_ref x = tn_b_up(b, x0);
  if (!tn_nn_window(c, x, NULL, &f, &ceil)) return b->st;
  return tn_ox_ret(c, 0, tn_b_cast(b, root(b, window(b, TN_C_SUM, powers(b, x, p), &f), p), tn_b_dtype(b, x0)));
}

/* ---- over all spatial dims ---- */

typedef enum global_kind { GLOBAL_MEAN, GLOBAL_MAX, GLOBAL_LP } global_kind;
static tn_status global_pool(tn_ox *c, global_kind kind) {
  tn_decomp_ctx *b = &c->b;
  tn_ref x0 = tn_ox_in(c, 0);
  tn_dim d[N];
  int ax[N], rank = tn_nn_shape(c, x0, 2, N, "X", d);
  if (!tn_nn_float(c, x0, "X")) return b->st;
  for (int i = 2; i < rank; i++) ax[i - 2] = i;
  tn_ref x = tn_b_up(b, x0), y;
  if (kind == GLOBAL_MEAN) y = tn_b_mean(b, x, ax, rank - 2, true);
  else if (kind == GLOBAL_MAX) y = tn_b_reduce(b, TN_C_MAX, x, ax, rank - 2, true);
  else {
    double p = read_p(c);
    y = root(b, tn_b_reduce(b, TN_C_SUM, powers(b, x, p), ax, rank - 2, true), p);
  }
  return tn_ox_ret(c, 0, tn_b_cast(b, y, tn_b_dtype(b, x0)));
}
tn_status tn_ox_global_average_pool(tn_ox *c) { return global_pool(c, GLOBAL_MEAN); }
tn_status tn_ox_global_max_pool(tn_ox *c) { return global_pool(c, GLOBAL_MAX); }
tn_status tn_ox_global_lp_pool(tn_ox *c) { return global_pool(c, GLOBAL_LP); }

/* ---- MaxUnpool: indices count in a tensor of the size the pool must have had; with output_shape the same places of that shape. The rest is 0. ---- */

tn_status tn_ox_max_unpool(tn_ox *c) {
  tn_decomp_ctx *b = &c->b;
  tn_dims *t = b->g->dims;
  tn_ref x = tn_ox_in(c, 0), idx = tn_ox_in(c, 1), rs = tn_ox_opt(c, 2);
  tn_dim d[N], s[N], want[N];
  int64_t kernel[N], stride[N], pads[2 * N];
  int rank = tn_nn_shape(c, x, 3, N - 1, "X", d), n = rank - 2;
  if (b->st != TN_OK) return b->st;
  tn_nn_spread(c, "kernel_shape", n, 1, INT32_MAX, 0, kernel);
  tn_nn_spread(c, "strides", n, 1, INT32_MAX, 1, stride);
  tn_nn_spread(c, "pads", 2 * n, 0, INT32_MAX, 0, pads);
  if (b->st == TN_OK && kernel[0] == 0) tn_ox_bad(c, "kernel_shape is missing");
  s[0] = d[0]; s[1] = d[1];
  for (int i = 0; i < n; i++) s[i + 2] = tn_dim_add(t, tn_dim_mul(t, tn_dim_sub(t, d[i + 2], 1), stride[i]), tn_dim_int(t, kernel[i] - pads[i] - pads[n + i]));
  memcpy(want, s, sizeof want);
  if (rs.id && tn_ox_sizes(c, rs, want, N, 0) != rank) return b->st != TN_OK ? b->st : tn_ox_bad(c, "output_shape is not of %d values", rank);
  tn_dim total = tn_b_numel(b, want, rank), count = tn_b_numel(b, d, rank);
  tn_ref at = idx, step = {0}, rest = idx;
  for (int i = rank; rs.id && i-- > 0;) {              /* digits in the one size become digits in the other, the last first */
    tn_ref size = tn_b_dimval(b, s[i], TN_I64), digit = i ? tn_b_2(b, TN_OP_REMAINDER, rest, size) : rest;
    at = step.id ? tn_nn_add(b, at, tn_nn_mul(b, digit, step)) : digit;
    step = step.id ? tn_nn_mul(b, step, tn_b_dimval(b, want[i], TN_I64)) : tn_b_dimval(b, want[i], TN_I64);
    rest = tn_b_2(b, TN_OP_FLOORDIV, rest, size);
  }
  tn_ref in[3] = {tn_b_zeros(b, &total, 1, tn_b_dtype(b, x)), tn_b_reshape(b, at, &count, 1), tn_b_reshape(b, x, &count, 1)};
  tn_attr a[2] = {tn_mk_int("dim", 0), tn_mk_str("combiner", "set")};
  return tn_ox_ret(c, 0, tn_b_reshape(b, tn_b_op(b, TN_OP_SCATTER, in, 3, a, 2), want, rank));
}

/* ---- MaxRoiPool: roi = [image, x1, y1, x2, y2], rounded; bin p of P covers floor(p * size / P) .. ceil((p + 1) * size / P) - 1 ---- */

/* [R, P, len] of bool: whether element k of a dim is in bin p of a roi's span; from, to: [R] */
static tn_ref bins(tn_decomp_ctx *b, tn_ref from, tn_ref to, double scale, int64_t count, tn_dim len) {
  tn_dtype t = tn_b_dtype(b, from);
  tn_ref half = tn_b_num(b, 0.5, t), one = tn_b_num(b, 1, t);
  tn_ref r[2] = {tn_b_muln(b, from, scale), tn_b_muln(b, to, scale)};
  for (int i = 0; i < 2; i++) {                        /* half away from zero */
    tn_ref a = tn_b_1(b, TN_OP_FLOOR, tn_nn_add(b, tn_b_1(b, TN_OP_ABS, r[i]), half));
    r[i] = tn_b_along(b, tn_nn_mul(b, a, tn_b_1(b, TN_OP_SIGN, r[i])), 0, 3);
  }
  tn_ref size = tn_nn_div(b, tn_nn_max(b, tn_nn_add(b, tn_nn_sub(b, r[1], r[0]), one), one), tn_b_num(b, (double)count, t));
  tn_ref p = tn_b_along(b, tn_b_iota(b, count, t), 1, 3), k = tn_b_along(b, tn_b_iota(b, len, t), 2, 3);
  tn_ref lo = tn_nn_add(b, tn_b_1(b, TN_OP_FLOOR, tn_nn_mul(b, p, size)), r[0]);
  tn_ref hi = tn_nn_add(b, tn_b_1(b, TN_OP_CEIL, tn_nn_mul(b, tn_nn_add(b, p, one), size)), r[0]);
  return tn_nn_and(b, tn_b_2(b, TN_OP_GE, k, lo), tn_b_2(b, TN_OP_LT, k, hi));
}

tn_status tn_ox_max_roi_pool(tn_ox *c) {
  tn_decomp_ctx *b = &c->b;
  tn_ref x0 = tn_ox_in(c, 0), rois = tn_ox_in(c, 1), col[5];
  tn_dim d[N], dr[N];
  int64_t pooled[2];
  double scale = tn_ox_float(c, "spatial_scale", 1);
  if (!tn_nn_float(c, x0, "X")) return b->st;
  tn_nn_shape(c, x0, 4, 4, "X", d);
  tn_nn_shape(c, rois, 2, 2, "rois", dr);
  rois = tn_nn_fixed(c, rois, 1, 5);
  tn_nn_spread(c, "pooled_shape", 2, 1, INT32_MAX, 0, pooled);
  if (b->st == TN_OK && pooled[0] < 1) tn_ox_bad(c, "pooled_shape is missing");
  if (b->st != TN_OK) return b->st;
  tn_ref x = tn_b_up(b, x0);
  rois = tn_b_cast(b, rois, tn_b_dtype(b, x));
  for (int i = 0; i < 5; i++) col[i] = tn_b_sq(b, tn_b_slice(b, rois, 1, i, 1, 1), 1);
  tn_ref low = tn_b_num(b, -INFINITY, tn_b_dtype(b, x)), mask[2];
  mask[0] = bins(b, col[2], col[4], scale, pooled[0], d[2]);
  mask[1] = bins(b, col[1], col[3], scale, pooled[1], d[3]);
  tn_ref y = tn_b_take(b, x, tn_b_cast(b, col[0], TN_I64), 0);                  /* [R, C, H, W] */
  tn_dim mw[5] = {dr[0], 1, 1, pooled[1], d[3]}, mh[5] = {dr[0], 1, pooled[0], d[2], 1};
  y = tn_b_reduce1(b, TN_C_MAX, tn_b_sel(b, tn_b_reshape(b, mask[1], mw, 5), tn_b_unsq(b, y, 3), low), 4, false);   /* [R, C, H, pw] */
  y = tn_b_reduce1(b, TN_C_MAX, tn_b_sel(b, tn_b_reshape(b, mask[0], mh, 5), tn_b_unsq(b, y, 2), low), 3, false);   /* [R, C, ph, pw] */
  y = tn_b_sel(b, tn_b_2(b, TN_OP_EQ, y, low), tn_b_num(b, 0, tn_b_dtype(b, x)), y);                               /* an empty bin */
  return tn_ox_ret(c, 0, tn_b_cast(b, y, tn_b_dtype(b, x0)));
}

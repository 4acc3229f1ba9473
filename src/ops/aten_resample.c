/* aten_resample: upsampling. One dim after the other: source positions from an iota in f32 as torch computes them, then takes along the
 * dim and a weighted sum. Sizes may be symbolic. (https://docs.pytorch.org/docs/stable/generated/torch.nn.Upsample.html) */
#include "aten_int.h"

static tn_ref mul(tn_decomp_ctx *c, tn_ref a, tn_ref b) { return tn_b_2(c, TN_OP_MUL, a, b); }
static tn_ref add(tn_decomp_ctx *c, tn_ref a, tn_ref b) { return tn_b_2(c, TN_OP_ADD, a, b); }

static tn_ref image(tn_decomp_ctx *c) { return tn_at_val(c, "input") ? tn_at_t(c, "input") : tn_at_t(c, "self"); }

/* The scale given for spatial dim i of n, or 0: scales_d/h/w, scales, or scale_factors */
static double given_scale(tn_decomp_ctx *c, int i, int n) {
  static const char *const names[3] = {"scales_d", "scales_h", "scales_w"};
  const tn_attr_val *v = tn_at_val(c, "scale_factors");
  if (v && v->kind == TN_AT_LIST && (int)v->u.list.n == n) {
    const tn_attr_val *k = &v->u.list.item[i];
    return k->kind == TN_AT_FLOAT ? k->u.f : k->kind == TN_AT_INT ? (double)k->u.i : 0;
  }
  return n == 1 ? tn_at_f(c, "scales", 0) : tn_at_f(c, names[3 - n + i], 0);
}

/* in / out, or 1 / scale, as a scalar of dtype t */
static tn_ref ratio(tn_decomp_ctx *c, double scale, tn_dim in, tn_dim out, tn_dtype t) {
  if (scale > 0) return tn_b_num(c, t == TN_F64 ? 1 / scale : (double)(float)(1 / scale), t);
  return tn_b_2(c, TN_OP_DIV, tn_b_dimval(c, in, t), tn_b_dimval(c, out, t));
}

/* Spatial dims of x: all after [N, C]. `small` and `large` of dim i are the image's size and the upsampled one. */
static int spatial(tn_decomp_ctx *c, tn_ref x) {
  int n = tn_b_rank(c, x) - 2;
  if (c->st == TN_OK && (n < 1 || n > 3 || tn_at_type(c, 0)->rank != n + 2)) tn_at_unsup(c, "input of rank %d", n + 2);
  if (c->st == TN_OK && !tn_dtype_is_float(tn_b_dtype(c, x)) && !strstr(c->g->node[c->node].target, "nearest"))
    tn_at_unsup(c, "%s input", tn_dtype_name(tn_b_dtype(c, x)));
  return c->st == TN_OK ? n : 0;
}

/* ---- nearest: floor((o + shift) * in / out) ---- */

static tn_ref nearest_places(tn_decomp_ctx *c, tn_dim in, tn_dim out, double scale, double shift) {
  tn_ref o = tn_b_iota(c, out, TN_F32);
  if (shift != 0) o = tn_b_addn(c, o, shift);
  tn_ref p = tn_b_cast(c, tn_b_1(c, TN_OP_FLOOR, mul(c, o, ratio(c, scale, in, out, TN_F32))), TN_I64);
  return tn_b_2(c, TN_OP_MIN, p, tn_b_dimval(c, tn_dim_sub(c->g->dims, in, 1), TN_I64));
}
static tn_status nearest(tn_decomp_ctx *c, double shift) {
  tn_ref x = image(c);
  int n = spatial(c, x);
  for (int i = 0; i < n; i++) {
    tn_dim in = tn_b_dim(c, x, i + 2), out = tn_at_odim(c, 0, i + 2);
    double scale = given_scale(c, i, n);
    if (in == out && (scale == 0 || scale == 1)) continue;
    x = tn_b_take(c, x, nearest_places(c, in, out, scale, shift), i + 2);
  }
  return tn_at_ret(c, 0, x);
}
tn_status tn_d_upsample_nearest(tn_decomp_ctx *c) { return nearest(c, 0); }
tn_status tn_d_upsample_nearest_exact(tn_decomp_ctx *c) { return nearest(c, 0.5); }

static tn_status nearest_backward(tn_decomp_ctx *c, double shift) {
  tn_ref g = tn_b_up(c, tn_at_t(c, "grad_output"));
  int n = spatial(c, g);
  for (int i = 0; i < n; i++) {
    tn_dim in = tn_at_odim(c, 0, i + 2), out = tn_b_dim(c, g, i + 2);
    g = tn_b_untake(c, g, nearest_places(c, in, out, given_scale(c, i, n), shift), i + 2, in);
  }
  return tn_at_ret(c, 0, g);
}
tn_status tn_d_upsample_nearest_backward(tn_decomp_ctx *c) { return nearest_backward(c, 0); }
tn_status tn_d_upsample_nearest_exact_backward(tn_decomp_ctx *c) { return nearest_backward(c, 0.5); }

/* ---- linear and cubic: taps, each a position and a weight per output ---- */

typedef struct taps { int n; tn_ref at[4], weight[4]; } taps;

/* positions in the source, dtype t, for outputs 0..out-1 */
static tn_ref source(tn_decomp_ctx *c, tn_dim in, tn_dim out, double scale, bool corners, tn_dtype t) {
  tn_ref o = tn_b_iota(c, out, t);
  if (corners) {
    if (out == 1) return mul(c, o, tn_b_num(c, 0, t));
    tn_dims *d = c->g->dims;
    return mul(c, o, tn_b_2(c, TN_OP_DIV, tn_b_dimval(c, tn_dim_sub(d, in, 1), t), tn_b_dimval(c, tn_dim_sub(d, out, 1), t)));
  }
  return tn_b_addn(c, mul(c, tn_b_addn(c, o, 0.5), ratio(c, scale, in, out, t)), -0.5);
}

static void linear_taps(tn_decomp_ctx *c, tn_dim in, tn_dim out, double scale, bool corners, tn_dtype t, taps *r) {
  tn_ref p = source(c, in, out, scale, corners, t);
  if (!corners) p = tn_b_2(c, TN_OP_MAX, p, tn_b_num(c, 0, t));
  tn_ref last = tn_b_dimval(c, tn_dim_sub(c->g->dims, in, 1), TN_I64), one = tn_b_num(c, 1, t);
  r->n = 2;
  r->at[0] = tn_b_2(c, TN_OP_MIN, tn_b_cast(c, tn_b_1(c, TN_OP_FLOOR, p), TN_I64), last);
  r->at[1] = tn_b_2(c, TN_OP_MIN, add(c, r->at[0], tn_b_int(c, 1, TN_I64)), last);
  r->weight[1] = tn_b_2(c, TN_OP_MIN, tn_b_2(c, TN_OP_SUB, p, tn_b_cast(c, r->at[0], t)), one);
  r->weight[0] = tn_b_2(c, TN_OP_SUB, one, r->weight[1]);
}

/* Keys' cubic with a = -0.75: near (|d| <= 1) and far (1 < |d| < 2) branches */
static tn_ref cubic(tn_decomp_ctx *c, tn_ref d, bool far) {
  const double a = -0.75;
  if (!far) return tn_b_addn(c, mul(c, mul(c, tn_b_addn(c, tn_b_muln(c, d, a + 2), -(a + 3)), d), d), 1);
  tn_ref y = tn_b_addn(c, tn_b_muln(c, d, a), -5 * a);
  y = tn_b_addn(c, mul(c, y, d), 8 * a);
  return tn_b_addn(c, mul(c, y, d), -4 * a);
}
static void cubic_taps(tn_decomp_ctx *c, tn_dim in, tn_dim out, double scale, bool corners, tn_dtype t, taps *r) {
  tn_ref p = source(c, in, out, scale, corners, t), base = tn_b_1(c, TN_OP_FLOOR, p), f = tn_b_2(c, TN_OP_SUB, p, base);
  tn_ref i0 = tn_b_cast(c, base, TN_I64), last = tn_b_dimval(c, tn_dim_sub(c->g->dims, in, 1), TN_I64), zero = tn_b_int(c, 0, TN_I64);
  tn_ref g = tn_b_2(c, TN_OP_SUB, tn_b_num(c, 1, t), f);
  r->n = 4;
  for (int k = 0; k < 4; k++) {
    tn_ref d = k == 0 ? tn_b_addn(c, f, 1) : k == 1 ? f : k == 2 ? g : tn_b_addn(c, g, 1);
    r->weight[k] = cubic(c, d, k == 0 || k == 3);
    r->at[k] = tn_b_2(c, TN_OP_MIN, tn_b_2(c, TN_OP_MAX, add(c, i0, tn_b_int(c, k - 1, TN_I64)), zero), last);
  }
}

typedef void (*taps_fn)(tn_decomp_ctx *c, tn_dim in, tn_dim out, double scale, bool corners, tn_dtype t, taps *r);

static tn_status resample(tn_decomp_ctx *c, taps_fn fn) {
  tn_ref x = tn_b_up(c, image(c));
  bool corners = tn_at_b(c, "align_corners", false);
  int n = spatial(c, x);
  for (int i = 0; i < n; i++) {
    tn_dim in = tn_b_dim(c, x, i + 2), out = tn_at_odim(c, 0, i + 2);
    double scale = given_scale(c, i, n);
    taps r;
    tn_ref y = {0};
    if (in == out && (corners || scale == 0 || scale == 1)) continue;
    fn(c, in, out, scale, corners, tn_b_dtype(c, x), &r);
    for (int k = 0; k < r.n; k++) {
      tn_ref part = mul(c, tn_b_take(c, x, r.at[k], i + 2), tn_b_along(c, r.weight[k], i + 2, n + 2));
      y = k ? add(c, y, part) : part;
    }
    x = y;
  }
  return tn_at_ret(c, 0, x);
}
static tn_status resample_backward(tn_decomp_ctx *c, taps_fn fn) {
  tn_ref g = tn_b_up(c, tn_at_t(c, "grad_output"));
  bool corners = tn_at_b(c, "align_corners", false);
  int n = spatial(c, g);
  for (int i = 0; i < n; i++) {
    tn_dim in = tn_at_odim(c, 0, i + 2), out = tn_b_dim(c, g, i + 2);
    taps r;
    tn_ref y = {0};
    fn(c, in, out, given_scale(c, i, n), corners, tn_b_dtype(c, g), &r);
    for (int k = 0; k < r.n; k++) {
      tn_ref part = tn_b_untake(c, mul(c, g, tn_b_along(c, r.weight[k], i + 2, n + 2)), r.at[k], i + 2, in);
      y = k ? add(c, y, part) : part;
    }
    g = y;
  }
  return tn_at_ret(c, 0, g);
}
tn_status tn_d_upsample_linear(tn_decomp_ctx *c) { return resample(c, linear_taps); }     /* linear1d, bilinear2d, trilinear3d */
tn_status tn_d_upsample_bicubic2d(tn_decomp_ctx *c) { return resample(c, cubic_taps); }
tn_status tn_d_upsample_linear_backward(tn_decomp_ctx *c) { return resample_backward(c, linear_taps); }
tn_status tn_d_upsample_bicubic2d_backward(tn_decomp_ctx *c) { return resample_backward(c, cubic_taps); }

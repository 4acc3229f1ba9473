/* onnx_resize: Resize (10, 11, 13, 18, 19), Upsample (1, 7, 9) and CenterCropPad. One axis after the other: positions in the source from an iota, in f64
 * (they fold to constants where sizes are known), then takes along the axis and a weighted sum, or for an antialiasing filter a product with the
 * matrix of its weights. Beyond the edges the edge's value counts, unless exclude_outside drops it. When sizes are asked for, positions are computed as
 * x * in / out, one rounding, so that nearest never falls on the wrong side; when scales are, sizes are floor(in * scale) in f32 as the operands are.
 * (https://onnx.ai/onnx/operators/onnx__Resize.html) */
#include "onnx_nn.h"

#define N TN_MAX_RANK

typedef enum coords { HALF_PIXEL, HALF_PIXEL_SYMMETRIC, PYTORCH_HALF_PIXEL, ALIGN_CORNERS, ASYMMETRIC, TF_CROP } coords;
typedef enum rounding { PREFER_FLOOR, PREFER_CEIL, FLOOR, CEIL, OLD } rounding; /* OLD: before opset 11, down when growing and up when shrinking */
typedef enum resize_mode { NEAREST, LINEAR, CUBIC } resize_mode;

typedef struct axis_form {
  tn_dim in, out;
  bool exact;                  /* scale is out / in */
  double scale;                /* when constant and not exact; else 0 */
  tn_ref scale_ref, start, end; /* f64 scalars; start, end: the region of TF_CROP */
} axis_form;
typedef struct resize {
  resize_mode mode;
  coords how;
  rounding round;
  bool antialias, exclude;
  double a, outside;
  axis_form axis[N];
} resize;

static tn_ref f64(tn_decomp_ctx *b, double v) { return tn_b_num(b, v, TN_F64); }
static int choose(tn_ox *c, const char *attr, const char *def, const char *const *name, int n) {
  const char *s = tn_ox_str_attr(c, attr, def);
  if (c->b.st != TN_OK) return 0;
  for (int i = 0; i < n; i++)
    if (!strcmp(s, name[i])) return i;
  tn_ox_unsup(c, "%s is '%s'", attr, s);
  return 0;
}

/* ---- where outputs come from: f64 [out] ---- */

static tn_ref scale_of(tn_decomp_ctx *b, const axis_form *a) {
  return a->exact ? tn_nn_div(b, tn_b_dimval(b, a->out, TN_F64), tn_b_dimval(b, a->in, TN_F64)) : a->scale_ref;
}
static tn_ref unscaled(tn_decomp_ctx *b, const axis_form *a, tn_ref x) {
  if (a->exact) return tn_nn_div(b, tn_nn_mul(b, x, tn_b_dimval(b, a->in, TN_F64)), tn_b_dimval(b, a->out, TN_F64));
  return tn_nn_div(b, x, a->scale_ref);
}
static tn_ref positions(tn_decomp_ctx *b, const resize *r, const axis_form *a) {
  tn_ref x = tn_b_iota(b, a->out, TN_F64), one = f64(b, 1), in = tn_b_dimval(b, a->in, TN_F64), whole = tn_b_dimval(b, a->out, TN_F64);
  tn_ref width = a->exact ? whole : tn_nn_mul(b, a->scale_ref, in), single = tn_b_2(b, TN_OP_EQ, width, one);   /* width may be a fraction */
  tn_ref steps = tn_b_sel(b, single, one, tn_nn_sub(b, width, one)), last = tn_nn_sub(b, in, one);
  tn_ref mid = tn_b_addn(b, unscaled(b, a, tn_b_addn(b, x, 0.5)), -0.5);
  switch (r->how) {
  case ASYMMETRIC: return unscaled(b, a, x);
  case ALIGN_CORNERS: return tn_b_sel(b, single, tn_nn_mul(b, x, f64(b, 0)), tn_nn_div(b, tn_nn_mul(b, x, last), steps));
  case PYTORCH_HALF_PIXEL: return tn_b_sel(b, single, tn_nn_mul(b, x, f64(b, 0)), mid);
  case HALF_PIXEL_SYMMETRIC: return tn_nn_add(b, mid, tn_nn_mul(b, tn_b_muln(b, in, 0.5), tn_nn_sub(b, one, tn_nn_div(b, whole, width))));
  case TF_CROP: {
    tn_ref span = tn_nn_sub(b, a->end, a->start);
    tn_ref many = tn_nn_div(b, tn_nn_mul(b, tn_nn_mul(b, x, span), last), steps), lone = tn_nn_mul(b, tn_b_muln(b, span, 0.5), last);
    return tn_nn_add(b, tn_b_sel(b, single, lone, many), tn_nn_mul(b, a->start, last));
  }
  default: return mid;
  }
}

/* ---- one axis ---- */

static tn_ref clamp(tn_decomp_ctx *b, tn_ref i, tn_dim in) {
  return tn_nn_min(b, tn_nn_max(b, i, tn_b_int(b, 0, TN_I64)), tn_b_dimval(b, tn_dim_sub(b->g->dims, in, 1), TN_I64));
}

static tn_ref nearest(tn_decomp_ctx *b, const resize *r, const axis_form *a, tn_ref x, int axis, tn_ref p) {
  tn_ref i;
  rounding how = r->round;
  if (how == PREFER_FLOOR) i = tn_b_1(b, TN_OP_CEIL, tn_b_addn(b, p, -0.5));
  else if (how == PREFER_CEIL) i = tn_b_1(b, TN_OP_FLOOR, tn_b_addn(b, p, 0.5));
  else if (how == OLD) i = tn_b_sel(b, tn_b_2(b, TN_OP_LT, scale_of(b, a), f64(b, 1)), tn_b_1(b, TN_OP_CEIL, p), tn_b_1(b, TN_OP_FLOOR, p));
  else i = tn_b_1(b, how == CEIL ? TN_OP_CEIL : TN_OP_FLOOR, p);
  return tn_b_take(b, x, clamp(b, tn_b_cast(b, i, TN_I64), a->in), axis);
}

/* Keys' cubic of distance d >= 0: near (d <= 1) or far (1 < d < 2) branch */
static tn_ref keys(tn_decomp_ctx *b, tn_ref d, double a, bool far) {
  if (!far) return tn_b_addn(b, tn_nn_mul(b, tn_nn_mul(b, tn_b_addn(b, tn_b_muln(b, d, a + 2), -(a + 3)), d), d), 1);
  tn_ref y = tn_b_addn(b, tn_b_muln(b, d, a), -5 * a);
  y = tn_b_addn(b, tn_nn_mul(b, y, d), 8 * a);
  return tn_b_addn(b, tn_nn_mul(b, y, d), -4 * a);
}

static tn_ref by_taps(tn_decomp_ctx *b, const resize *r, const axis_form *a, tn_ref x, int axis, tn_ref p) {
  tn_ref at[4], w[4], base = tn_b_1(b, TN_OP_FLOOR, p), f = tn_nn_sub(b, p, base), g = tn_nn_sub(b, f64(b, 1), f), i0 = tn_b_cast(b, base, TN_I64), y = {0}, sum = {0};
  int n = r->mode == CUBIC ? 4 : 2, first = r->mode == CUBIC ? -1 : 0, rank = tn_b_rank(b, x);
  for (int k = 0; k < n; k++) at[k] = tn_nn_add(b, i0, tn_b_int(b, k + first, TN_I64));
  if (n == 2) { w[0] = g; w[1] = f; }
  else {
    w[0] = keys(b, tn_b_addn(b, f, 1), r->a, true); w[1] = keys(b, f, r->a, false);
    w[2] = keys(b, g, r->a, false); w[3] = keys(b, tn_b_addn(b, g, 1), r->a, true);
  }
  for (int k = 0; k < n && r->exclude; k++) {
    w[k] = tn_b_sel(b, tn_b_2(b, TN_OP_EQ, at[k], clamp(b, at[k], a->in)), w[k], f64(b, 0));
    sum = k ? tn_nn_add(b, sum, w[k]) : w[k];
  }
  for (int k = 0; k < n; k++) {
    if (r->exclude) w[k] = tn_nn_div(b, w[k], tn_b_sel(b, tn_b_2(b, TN_OP_EQ, sum, f64(b, 0)), f64(b, 1), sum));
    tn_ref part = tn_nn_mul(b, tn_b_take(b, x, clamp(b, at[k], a->in), axis), tn_b_along(b, tn_b_cast(b, w[k], tn_b_dtype(b, x)), axis, rank));
    y = k ? tn_nn_add(b, y, part) : part;
  }
  return y;
}

/* Weights [out, in + 2 * edge] over places -edge .. in + edge - 1, then those beyond the edges added to the edges. */
static tn_ref by_filter(tn_ox *c, const resize *r, const axis_form *a, tn_ref x, int axis, tn_ref p) {
  tn_decomp_ctx *b = &c->b;
  tn_dims *t = b->g->dims;
  tn_dim edge = a->exact ? tn_dim_add(t, tn_dim_ceildiv(t, tn_dim_mul(t, a->in, 2), tn_dim_max(t, a->out, 1)), 2) : 0;
  if (!a->exact && a->scale > 1e-6) edge = (tn_dim)(2 / a->scale) + 3;
  else if (!a->exact) {                                /* the filter's reach is data */
    tn_dim single = 1;
    tn_ref far = tn_b_addn(b, tn_b_1(b, TN_OP_CEIL, tn_nn_div(b, f64(b, 2), a->scale_ref)), 3);
    if (tn_ox_sizes(c, tn_b_cast(b, tn_b_reshape(b, far, &single, 1), TN_I64), &edge, 1, 1) != 1) return x;
  }
  tn_dim wide = tn_dim_add(t, a->in, tn_dim_mul(t, edge, 2));
  tn_ref one = f64(b, 1), nil = f64(b, 0), in = tn_b_dimval(b, a->in, TN_F64), s = tn_nn_min(b, scale_of(b, a), one);
  tn_ref j = tn_nn_sub(b, tn_b_along(b, tn_b_iota(b, wide, TN_F64), 1, 2), tn_b_dimval(b, edge, TN_F64));
  tn_ref d = tn_b_1(b, TN_OP_ABS, tn_nn_mul(b, tn_nn_sub(b, j, tn_b_along(b, p, 0, 2)), s)), w;
  if (r->mode == LINEAR) w = tn_nn_max(b, tn_nn_sub(b, one, d), nil);
  else {
    w = tn_b_sel(b, tn_b_2(b, TN_OP_LT, d, f64(b, 2)), keys(b, d, r->a, true), nil);
    w = tn_b_sel(b, tn_b_2(b, TN_OP_LE, d, one), keys(b, d, r->a, false), w);
  }
  tn_ref before = tn_b_2(b, TN_OP_LT, j, nil), behind = tn_b_2(b, TN_OP_GE, j, in);
  if (r->exclude) w = tn_b_sel(b, before, nil, tn_b_sel(b, behind, nil, w));
  w = tn_nn_div(b, w, tn_b_reduce1(b, TN_C_SUM, w, 1, true));
  tn_ref m = tn_b_slice(b, w, 1, edge, a->in, 1), i = tn_b_along(b, tn_b_iota(b, a->in, TN_F64), 1, 2);
  if (!r->exclude) {
    tn_ref left = tn_b_reduce1(b, TN_C_SUM, tn_b_sel(b, before, w, nil), 1, true), right = tn_b_reduce1(b, TN_C_SUM, tn_b_sel(b, behind, w, nil), 1, true);
    m = tn_nn_add(b, m, tn_b_sel(b, tn_b_2(b, TN_OP_EQ, i, nil), left, nil));
    m = tn_nn_add(b, m, tn_b_sel(b, tn_b_2(b, TN_OP_EQ, i, tn_nn_sub(b, in, one)), right, nil));
  }
  char l[3 * N + 8], u[N + 1] = {0}, o[N + 1] = {0};
  int rank = tn_b_rank(b, x);
  for (int k = 0; k < rank; k++) u[k] = o[k] = (char)('A' + k);
  u[axis] = 'i'; o[axis] = 'o';
  snprintf(l, sizeof l, "%s,oi->%s", u, o);
  return tn_b_contract(b, l, x, tn_b_cast(b, m, tn_b_dtype(b, x)));
}

/* ---- forms of the node ---- */

/* floor(in * scale) in f32; of a symbolic dim as an expression where the scale is a fraction over a power of two, else known at run time only */
static tn_dim scaled_dim(tn_ox *c, tn_dim in, float scale, tn_ref scale_ref) {
  tn_decomp_ctx *b = &c->b;
  tn_dim r = 0;
  if (scale > 0 && scale < 65536) {
    if (tn_dim_is_const(in)) return (tn_dim)floorf((float)in * scale);
    for (int64_t q = 1; q <= 256; q *= 2)
      if (scale * (float)q == floorf(scale * (float)q)) return tn_dim_floordiv(b->g->dims, tn_dim_mul(b->g->dims, in, (int64_t)(scale * (float)q)), q);
  }
  tn_dim one = 1;
  tn_ref v = tn_b_1(b, TN_OP_FLOOR, tn_nn_mul(b, tn_b_dimval(b, in, TN_F32), tn_b_cast(b, scale_ref, TN_F32)));
  tn_ox_sizes(c, tn_b_reshape(b, tn_b_cast(b, v, TN_I64), &one, 1), &r, 1, 0);
  return r;
}
static tn_ref element(tn_decomp_ctx *b, tn_ref v, int i) { return tn_b_cast(b, tn_b_sq(b, tn_b_slice(b, v, 0, i, 1, 1), 0), TN_F64); }

static void by_scales(tn_ox *c, resize *r, tn_ref scales, const int *axes, int n) {
  tn_decomp_ctx *b = &c->b;
  tn_tensor t;
  bool known = tn_ox_data(c, scales, &t);
  if (b->st != TN_OK) return;
  if (tn_b_rank(b, scales) != 1 || tn_b_dim(b, scales, 0) != n || tn_b_dtype(b, scales) != TN_F32) { tn_ox_bad(c, "scales are not %d numbers", n); return; }
  for (int i = 0; i < n; i++) {
    axis_form *a = &r->axis[axes[i]];
    float s = known ? ((const float *)t.data)[i] : 0;
    if (known && !(s > 0 && s < 65536)) { tn_ox_bad(c, "scales[%d] is %g", i, (double)s); return; }
    a->scale = s;
    a->scale_ref = known ? f64(b, s) : element(b, scales, i);
    a->out = scaled_dim(c, a->in, s, a->scale_ref);
    a->exact = known && s == 1;
  }
}
static void by_sizes(tn_ox *c, resize *r, tn_ref sizes, const int *axes, int n) {
  static const char *const policy[] = {"stretch", "not_larger", "not_smaller"};
  tn_decomp_ctx *b = &c->b;
  int keep = c->opset >= 18 ? choose(c, "keep_aspect_ratio_policy", "stretch", policy, 3) : 0;
  tn_dim v[N], one = 1;
  tn_ref scale = {0};
  int k = tn_ox_sizes(c, sizes, v, N, 0);
  if (b->st != TN_OK) return;
  if (k != n) { tn_ox_bad(c, "%d sizes for %d axes", k, n); return; }
  for (int i = 0; i < n; i++) {
    axis_form *a = &r->axis[axes[i]];
    a->out = v[i];
    a->exact = true;
    tn_ref s = keep ? scale_of(b, a) : scale;          /* one scale for all axes: the least or the largest */
    scale = i == 0 || !keep ? s : keep == 1 ? tn_nn_min(b, scale, s) : tn_nn_max(b, scale, s);
  }
  for (int i = 0; keep && i < n; i++) {                /* sizes follow from it, halves up */
    axis_form *a = &r->axis[axes[i]];
    tn_ref size = tn_b_1(b, TN_OP_FLOOR, tn_b_addn(b, tn_nn_mul(b, scale, tn_b_dimval(b, a->in, TN_F64)), 0.5));
    a->exact = false;
    a->scale = 0;
    a->scale_ref = scale;
    if (tn_ox_sizes(c, tn_b_reshape(b, tn_b_cast(b, size, TN_I64), &one, 1), &a->out, 1, 0) != 1) return;
  }
}

static tn_ref whole_number(tn_decomp_ctx *b, tn_ref y, tn_dtype t) {         /* rounded into the range of t */
  double lo = t == TN_U8 || t == TN_U16 || t == TN_U32 || t == TN_U64 ? 0 : t == TN_I8 ? INT8_MIN : t == TN_I16 ? INT16_MIN : t == TN_I32 ? INT32_MIN : -0x1p63;
  double hi = t == TN_U8 ? UINT8_MAX : t == TN_I8 ? INT8_MAX : t == TN_I16 ? INT16_MAX : t == TN_U16 ? UINT16_MAX : t == TN_I32 ? INT32_MAX : t == TN_U32 ? UINT32_MAX : 0x1p62;
  tn_dtype f = tn_b_dtype(b, y);
  y = tn_nn_min(b, tn_nn_max(b, tn_b_1(b, TN_OP_ROUND, y), tn_b_num(b, lo, f)), tn_b_num(b, hi, f));
  return tn_b_cast(b, y, t);
}

static tn_status run(tn_ox *c, resize *r, tn_ref x0) {
  tn_decomp_ctx *b = &c->b;
  tn_dtype t = tn_b_dtype(b, x0);
  int rank = tn_b_rank(b, x0);
  bool number = tn_dtype_is_float(t);
  tn_ref x = x0;
  if (r->mode != NEAREST) {
    if (t == TN_BOOL) return tn_ox_unsup(c, "bool input");
    x = number ? tn_b_up(b, x0) : tn_b_cast(b, x0, tn_dtype_size(t) <= 2 ? TN_F32 : TN_F64);
  }
  for (int i = 0; i < rank && b->st == TN_OK; i++) {
    axis_form *a = &r->axis[i];
    if (a->in == a->out && (a->exact || a->scale == 1) && r->how != TF_CROP) continue;
    if (r->how == TF_CROP && !a->start.id) continue;
    if (a->in == 0 && a->out != 0) return tn_ox_bad(c, "axis %d is empty", i);
    tn_ref p = positions(b, r, a), y;
    if (r->mode == NEAREST) y = nearest(b, r, a, x, i, p);
    else y = r->antialias ? by_filter(c, r, a, x, i, p) : by_taps(b, r, a, x, i, p);
    if (r->how == TF_CROP && b->st == TN_OK) {
      tn_ref last = tn_nn_sub(b, tn_b_dimval(b, a->in, TN_F64), f64(b, 1));
      tn_ref off = tn_b_2(b, TN_OP_OR, tn_b_2(b, TN_OP_LT, p, f64(b, 0)), tn_b_2(b, TN_OP_GT, p, last));
      y = tn_b_sel(b, tn_b_along(b, off, i, rank), tn_b_num(b, r->outside, tn_b_dtype(b, y)), y);
    }
    x = y;
  }
  return tn_ox_ret(c, 0, number || r->mode == NEAREST ? tn_b_cast(b, x, t) : whole_number(b, x, t));
}

static bool begin(tn_ox *c, resize *r, tn_ref x, int *rank) {
  static const char *const mode[] = {"nearest", "linear", "cubic", "bilinear"};
  tn_dim d[N];
  *rank = tn_nn_shape(c, x, 1, N, "X", d);
  int m = choose(c, "mode", "nearest", mode, 4);
  r->mode = m == 3 ? LINEAR : (resize_mode)m;
  for (int i = 0; i < *rank; i++) r->axis[i] = (axis_form){.in = d[i], .out = d[i], .exact = true};
  return c->b.st == TN_OK;
}
static bool filled(tn_ox *c, tn_ref r) { return r.id && !(tn_b_rank(&c->b, r) == 1 && tn_b_dim(&c->b, r, 0) == 0); }

tn_status tn_ox_resize(tn_ox *c) {
  static const char *const how[] = {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize"};
  static const char *const round[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
  tn_decomp_ctx *b = &c->b;
  resize r = {.how = ASYMMETRIC, .round = OLD};
  tn_ref x = tn_ox_in(c, 0), roi = {0}, scales, sizes = {0};
  int rank, axes[N], n;
  int64_t ax[N];
  if (!begin(c, &r, x, &rank)) return b->st;
  if (c->opset >= 11) {
    r.how = (coords)choose(c, "coordinate_transformation_mode", "half_pixel", how, 6);
    r.round = (rounding)choose(c, "nearest_mode", "round_prefer_floor", round, 4);
    r.exclude = tn_ox_int(c, "exclude_outside", 0) != 0;
    r.a = tn_ox_float(c, "cubic_coeff_a", -0.75);
    r.outside = tn_ox_float(c, "extrapolation_value", 0);
    r.antialias = c->opset >= 18 && tn_ox_int(c, "antialias", 0) && r.mode != NEAREST;
    roi = tn_ox_opt(c, 1);
    scales = tn_ox_opt(c, 2);
    sizes = tn_ox_opt(c, 3);
  } else scales = tn_ox_in(c, 1);
  n = c->opset >= 18 ? tn_ox_ints_attr(c, "axes", ax, N) : -1;
  for (int i = 0; i < n; i++) axes[i] = tn_ox_wrap(c, ax[i], rank);
  for (int i = 0; n < 0 && i < rank; i++) axes[i] = i;
  if (n < 0) n = rank;
  if (b->st != TN_OK) return b->st;
  bool by_size = filled(c, sizes), by_scale = filled(c, scales);
  if (by_size == by_scale) return tn_ox_bad(c, "%s of scales and sizes", by_size ? "both" : "none");
  if (by_size) by_sizes(c, &r, sizes, axes, n);
  else by_scales(c, &r, scales, axes, n);
  if (r.how == TF_CROP && b->st == TN_OK) {
    if (!filled(c, roi) || tn_b_rank(b, roi) != 1 || tn_b_dim(b, roi, 0) != 2 * n) return tn_ox_bad(c, "roi is not of %d values", 2 * n);
    for (int i = 0; i < n; i++) { r.axis[axes[i]].start = element(b, roi, i); r.axis[axes[i]].end = element(b, roi, n + i); }
  }
  return b->st == TN_OK ? run(c, &r, x) : b->st;
}

tn_status tn_ox_upsample(tn_ox *c) {
  tn_decomp_ctx *b = &c->b;
  resize r = {.how = ASYMMETRIC, .round = FLOOR};
  tn_ref x = tn_ox_in(c, 0);
  int rank, axes[N];
  if (!begin(c, &r, x, &rank)) return b->st;
  for (int i = 0; i < rank; i++) axes[i] = i;
  if (c->opset >= 9) by_scales(c, &r, tn_ox_in(c, 1), axes, rank);
  else {
    const tn_ox_attr *a = tn_ox_attr_get(c, "scales");
    double hw[2] = {tn_ox_float(c, "height_scale", 0), tn_ox_float(c, "width_scale", 0)};
    if (a && (a->kind != TN_OX_FLOATS || (int)a->n != rank)) return tn_ox_bad(c, "scales are not %d numbers", rank);
    if (!a && rank != 4) return tn_ox_bad(c, "X has rank %d", rank);
    for (int i = 0; i < rank && b->st == TN_OK; i++) {
      float s = a ? a->u.f[i] : i < 2 ? 1 : (float)hw[i - 2];
      axis_form *f = &r.axis[i];
      if (!(s >= 1 && s < 65536)) return tn_ox_bad(c, "scale %g of axis %d", (double)s, i);
      f->scale = s;
      f->scale_ref = f64(b, s);
      f->out = scaled_dim(c, f->in, s, f->scale_ref);
      f->exact = s == 1;
    }
  }
  return b->st == TN_OK ? run(c, &r, x) : b->st;
}

/* ---- CenterCropPad ---- */

tn_status tn_ox_center_crop_pad(tn_ox *c) {
  tn_decomp_ctx *b = &c->b;
  tn_dims *t = b->g->dims;
  tn_ref x = tn_ox_in(c, 0), shape = tn_ox_in(c, 1);
  tn_dim d[N], want[N], lo[N] = {0}, hi[N] = {0};
  int64_t ax[N];
  int rank = tn_nn_shape(c, x, 1, N, "input", d), n = tn_ox_ints_attr(c, "axes", ax, N), k = tn_ox_sizes(c, shape, want, N, 0);
  if (b->st != TN_OK) return b->st;
  for (int i = 0; n < 0 && i < rank; i++) ax[i] = i;
  if (n < 0) n = rank;
  if (k != n) return tn_ox_bad(c, "shape of %d values for %d axes", k, n);
  for (int i = 0; i < n; i++) {
    int a = tn_ox_wrap(c, ax[i], rank);
    if (b->st != TN_OK) return b->st;
    tn_dim more = tn_dim_max(t, 0, tn_dim_sub(t, want[i], d[a])), less = tn_dim_max(t, 0, tn_dim_sub(t, d[a], want[i]));
    x = tn_b_slice(b, x, a, tn_dim_floordiv(t, less, 2), tn_dim_sub(t, d[a], less), 1);
    lo[a] = tn_dim_floordiv(t, more, 2);
    hi[a] = tn_dim_sub(t, more, lo[a]);
  }
  tn_attr_val nil = {.kind = TN_AT_INT};
  return tn_ox_ret(c, 0, tn_b_pad(b, x, lo, hi, &nil));
}

/* onnx_sample: values of an image at positions that are data: GridSample, AffineGrid, DeformConv, RoiAlign.
 *
 * One routine fetches: image[M, C, d1..dr] at positions[M, L] per spatial dim; every place of the stencil is a gather from the flattened spatial dims,
 * weighted. RoiAlign's average of bilinear samples is separable: two products with matrices of weights per roi; its maximum is not, and fetches.
 * Where RoiAlign counts samples by the size of each roi, the largest count is a size that only the run knows (DYN "sizes").
 * (https://onnx.ai/onnx/operators/onnx__GridSample.html and so on) */
#include "onnx_nn.h"

#define N TN_MAX_RANK

typedef enum sampling { LINEAR, NEAREST, CUBIC } sampling;
typedef enum padding { ZEROS, BORDER, REFLECTION } padding;

/* Distance into a triangle wave between lo and lo + span; a span of 0 is the point lo. */
static tn_ref reflect(tn_decomp_ctx *b, tn_ref p, tn_ref lo, tn_ref span) {
  tn_dtype t = tn_b_dtype(b, p);
  tn_ref nil = tn_b_num(b, 0, t), none = tn_b_2(b, TN_OP_LE, span, nil), s = tn_b_sel(b, none, tn_b_num(b, 1, t), span);
  tn_ref q = tn_b_1(b, TN_OP_ABS, tn_nn_sub(b, p, lo)), turns = tn_b_1(b, TN_OP_FLOOR, tn_nn_div(b, q, s)), rest = tn_nn_sub(b, q, tn_nn_mul(b, turns, s));
  tn_ref odd = tn_b_2(b, TN_OP_NE, tn_b_2(b, TN_OP_REMAINDER, turns, tn_b_num(b, 2, t)), nil);
  return tn_b_sel(b, none, lo, tn_nn_add(b, lo, tn_b_sel(b, odd, tn_nn_sub(b, s, rest), rest)));
}
static tn_ref within(tn_decomp_ctx *b, tn_ref p, tn_ref lo, tn_ref hi) { return tn_nn_min(b, tn_nn_max(b, p, lo), hi); }

/* The stencil along one dim: places (float, whole numbers inside the dim), whether each counts, weights (id 0 = 1) */
typedef struct stencil { int n; tn_ref at[4], in[4], w[4]; } stencil;

static tn_ref keys(tn_decomp_ctx *b, tn_ref d, bool far) {
  const double a = -0.75;
  if (!far) return tn_b_addn(b, tn_nn_mul(b, tn_nn_mul(b, tn_b_addn(b, tn_b_muln(b, d, a + 2), -(a + 3)), d), d), 1);
  tn_ref y = tn_b_addn(b, tn_b_muln(b, d, a), -5 * a);
  y = tn_b_addn(b, tn_nn_mul(b, y, d), 8 * a);
  return tn_b_addn(b, tn_nn_mul(b, y, d), -4 * a);
}
static void make_stencil(tn_decomp_ctx *b, tn_ref p, tn_dim size, sampling how, padding pad, bool corners, stencil *s) {
  tn_dtype t = tn_b_dtype(b, p);
  tn_ref nil = tn_b_num(b, 0, t), one = tn_b_num(b, 1, t), len = tn_b_dimval(b, size, t), last = tn_nn_sub(b, len, one);
  tn_ref lo = corners ? nil : tn_b_num(b, -0.5, t), span = corners ? last : len;
  if (how == NEAREST) p = tn_b_1(b, TN_OP_ROUND, p);
  if (pad == BORDER && how != CUBIC) p = within(b, p, nil, last);   /* cubic: only the places are; as PyTorch and run times do */
  if (pad == REFLECTION) p = reflect(b, p, lo, span);
  tn_ref base = how == NEAREST && pad != REFLECTION ? p : tn_b_1(b, TN_OP_FLOOR, p), f = tn_nn_sub(b, p, base), g = tn_nn_sub(b, one, f);
  s->n = how == NEAREST ? 1 : how == LINEAR ? 2 : 4;
  for (int k = 0; k < s->n; k++) {
    tn_ref q = tn_b_addn(b, base, how == CUBIC ? k - 1 : k);
    s->w[k] = (tn_ref){0};
    if (how == LINEAR) s->w[k] = k ? f : g;
    if (how == CUBIC) s->w[k] = keys(b, k == 0 ? tn_b_addn(b, f, 1) : k == 1 ? f : k == 2 ? g : tn_b_addn(b, g, 1), k == 0 || k == 3);
    s->in[k] = (tn_ref){0};
    if (pad == ZEROS) s->in[k] = tn_nn_and(b, tn_b_2(b, TN_OP_GE, q, nil), tn_b_2(b, TN_OP_LE, q, last));
    if (pad == REFLECTION) q = reflect(b, q, lo, span);
    q = pad == ZEROS ? tn_b_sel(b, s->in[k], q, nil) : within(b, q, nil, last);
    s->at[k] = tn_b_sel(b, tn_b_1(b, TN_OP_ISNAN, q), nil, q);
  }
}

/* image[M, C, d1..dn], pos[i]: [M, L] -> [M, C, L] */
static tn_ref sample(tn_decomp_ctx *b, tn_ref image, int n, const tn_ref *pos, sampling how, padding pad, bool corners) {
  tn_dim d[N], s[3], so[3];
  stencil st[3] = {{0}};
  int total = 1, k[3] = {0};
  tn_b_shape(b, image, d);
  tn_dtype t = tn_b_dtype(b, image);
  if (b->st != TN_OK) return image;
  for (int i = 0; i < n; i++) { make_stencil(b, pos[i], d[i + 2], how, pad, corners, &st[i]); total *= st[i].n; }
  s[0] = d[0]; s[1] = d[1]; s[2] = tn_b_numel(b, d + 2, n);
  so[0] = d[0]; so[1] = d[1]; so[2] = tn_b_dim(b, pos[0], 1);
  tn_ref flat = tn_b_reshape(b, image, s, 3), y = {0}, nil = tn_b_num(b, 0, t);
  for (int j = 0; j < total && b->st == TN_OK; j++) {
    tn_ref at = {0}, in = {0}, w = {0};
    for (int i = 0; i < n; i++) {
      const stencil *e = &st[i];
      tn_ref q = tn_b_cast(b, e->at[k[i]], TN_I64);
      at = at.id ? tn_nn_add(b, tn_nn_mul(b, at, tn_b_dimval(b, d[i + 2], TN_I64)), q) : q;
      if (e->in[k[i]].id) in = in.id ? tn_nn_and(b, in, e->in[k[i]]) : e->in[k[i]];
      if (e->w[k[i]].id) w = w.id ? tn_nn_mul(b, w, e->w[k[i]]) : e->w[k[i]];
    }
    tn_ref gi[2] = {flat, tn_b_broadcast(b, tn_b_unsq(b, at, 1), so, 3)};
    tn_attr a = tn_mk_int("dim", 2);
    tn_ref v = tn_b_op(b, TN_OP_GATHER, gi, 2, &a, 1);
    if (w.id) v = tn_nn_mul(b, v, tn_b_unsq(b, tn_b_cast(b, w, t), 1));
    if (in.id) v = tn_b_sel(b, tn_b_unsq(b, in, 1), v, nil);
    y = y.id ? tn_nn_add(b, y, v) : v;
    for (int i = n - 1; i >= 0 && ++k[i] == st[i].n; i--) k[i] = 0;
  }
  return y;
}

tn_status tn_ox_grid_sample(tn_ox *c) {
  static const char *const modes[] = {"linear", "nearest", "cubic", "bilinear", "nearest", "bicubic"}, *const pads[] = {"zeros", "border", "reflection"};
  tn_decomp_ctx *b = &c->b;
  tn_ref x0 = tn_ox_in(c, 0), g = tn_ox_in(c, 1), pos[3];
  tn_dim d[N], dg[N], flat[2], out[N];
  const char *mode = tn_ox_str_attr(c, "mode", c->opset >= 20 ? "linear" : "bilinear"), *pad = tn_ox_str_attr(c, "padding_mode", "zeros");
  bool corners = tn_ox_int(c, "align_corners", 0) != 0;
  int m = 0, p = 0, rank = tn_nn_shape(c, x0, 3, N, "X", d), n = rank - 2;
  tn_nn_shape(c, g, 3, N, "grid", dg);
  if (!tn_nn_float(c, g, "grid")) return b->st;
  if (tn_b_rank(b, g) == rank) g = tn_nn_fixed(c, g, rank - 1, n);
  if (b->st == TN_OK) tn_b_shape(b, g, dg);
  if (b->st != TN_OK || tn_b_rank(b, g) != rank || dg[rank - 1] != n) return tn_ox_bad(c, "grid does not hold %d coordinates for every output", n);
  if (n > 3) return tn_ox_unsup(c, "%d spatial dims", n);
  while (m < 6 && strcmp(mode, modes[m])) m++;
  while (p < 3 && strcmp(pad, pads[p])) p++;
  if (m == 6 || p == 3) return tn_ox_bad(c, "mode '%s', padding_mode '%s'", mode, pad);
  tn_dtype t = tn_b_dtype(b, x0);
  tn_ref x = tn_dtype_is_float(t) ? tn_b_up(b, x0) : x0;
  if (!tn_dtype_is_float(t) && m % 3 != NEAREST) return tn_ox_unsup(c, "%s input with mode '%s'", tn_dtype_name(t), mode);
  g = tn_b_up(b, g);
  tn_dtype tg = tn_b_dtype(b, g);
  flat[0] = dg[0];
  flat[1] = tn_b_numel(b, dg + 1, n);
  for (int i = 0; i < n; i++) {                        /* the last coordinate is that of the first spatial dim; -1 .. 1 to pixels */
    tn_ref q = tn_b_reshape(b, tn_b_slice(b, g, rank - 1, n - 1 - i, 1, 1), flat, 2), len = tn_b_dimval(b, d[i + 2], tg), one = tn_b_num(b, 1, tg);
    q = tn_nn_add(b, q, one);
    pos[i] = tn_b_muln(b, corners ? tn_nn_mul(b, q, tn_nn_sub(b, len, one)) : tn_nn_sub(b, tn_nn_mul(b, q, len), one), 0.5);
  }
  out[0] = d[0]; out[1] = d[1];
  for (int i = 0; i < n; i++) out[i + 2] = dg[i + 1];
  tn_ref y = sample(b, x, n, pos, (sampling)(m % 3), (padding)p, corners);
  return tn_ox_ret(c, 0, tn_b_cast(b, tn_b_reshape(b, y, out, rank), t));
}

/* theta[N, r, r+1] times (x, y, .., 1) of a regular grid over -1 .. 1 */
tn_status tn_ox_affine_grid(tn_ox *c) {
  tn_decomp_ctx *b = &c->b;
  tn_ref theta = tn_ox_in(c, 0), size = tn_ox_in(c, 1);
  tn_dim d[N], s[N], f[N];
  bool corners = tn_ox_int(c, "align_corners", 0) != 0;
  int k = tn_ox_sizes(c, size, s, N, 0), n = k - 2;
  tn_nn_shape(c, theta, 3, 3, "theta", d);
  if (!tn_nn_float(c, theta, "theta")) return b->st;
  if (n != 2 && n != 3) return tn_ox_bad(c, "size of %d values", k);
  theta = tn_nn_fixed(c, tn_nn_fixed(c, theta, 1, n), 2, n + 1);
  if (b->st == TN_OK) tn_b_shape(b, theta, d);
  if (b->st != TN_OK || d[1] != n || d[2] != n + 1) return tn_ox_bad(c, "theta does not fit %d spatial dims", n);
  tn_dtype t = tn_b_wide(tn_b_dtype(b, theta));
  tn_ref th = tn_b_cast(b, theta, t), y = {0};
  f[0] = d[0]; f[n + 1] = n;
  for (int i = 1; i <= n; i++) f[i] = 1;
  for (int j = 0; j <= n; j++) {                       /* column j of theta goes with the j-th coordinate: of spatial dim n-1-j; column n stands alone */
    tn_ref part = tn_b_reshape(b, tn_b_slice(b, th, 2, j, 1, 1), f, n + 2);
    if (j < n) {
      tn_dim len = s[n + 1 - j];
      tn_ref i = tn_b_iota(b, len, TN_F64), l = tn_b_dimval(b, len, TN_F64), one = tn_b_num(b, 1, TN_F64), q;
      if (corners) q = tn_nn_sub(b, tn_nn_div(b, tn_b_muln(b, i, 2), tn_nn_max(b, tn_nn_sub(b, l, one), one)), one);
      else q = tn_nn_sub(b, tn_nn_div(b, tn_nn_add(b, tn_b_muln(b, i, 2), one), l), one);
      part = tn_nn_mul(b, part, tn_b_along(b, tn_b_cast(b, q, t), n - j, n + 2));
    }
    y = y.id ? tn_nn_add(b, y, part) : part;
  }
  f[0] = s[0];
  for (int i = 1; i <= n; i++) f[i] = s[i + 1];
  return tn_ox_ret(c, 0, tn_b_cast(b, tn_b_broadcast(b, y, f, n + 2), tn_b_dtype(b, theta)));
}

/* ---- DeformConv: x[N, C, *], w[O, C/g, k*], offset[N, og * K * n, o*], mask[N, og * K, o*] ---- */

tn_status tn_ox_deform_conv(tn_ox *c) {
  tn_decomp_ctx *b = &c->b;
  tn_dims *t = b->g->dims;
  tn_ref x0 = tn_ox_in(c, 0), w = tn_ox_in(c, 1), off = tn_ox_in(c, 2), bias = tn_ox_opt(c, 3), mask = tn_ox_opt(c, 4), pos[3];
  tn_dim d[N], dw[N], s[N], K = 1;
  int64_t kernel[N], groups = tn_ox_int(c, "group", 1), og = tn_ox_int(c, "offset_group", 1);
  tn_pool_form p = {0};
  bool ceil;
  int rank = tn_nn_shape(c, x0, 3, 5, "X", d), n = rank - 2;
  tn_nn_shape(c, w, rank, rank, "W", dw);
  for (int i = 0; i < n; i++) {
    kernel[i] = tn_nn_const_dim(c, dw[i + 2], "a kernel size");
    K = K > INT32_MAX ? K : K * kernel[i];
  }
  if (!tn_nn_float(c, x0, "X")) return b->st;
  if (groups < 1 || og < 1 || groups > INT32_MAX || og > INT32_MAX || K < 1 || K > INT32_MAX) return tn_ox_bad(c, "group %lld, offset_group %lld, kernel of %lld", (long long)groups, (long long)og, (long long)K);
  if (!tn_nn_window(c, x0, kernel, &p, &ceil)) return b->st;
  tn_ref x = tn_b_up(b, x0);
  tn_dtype dt = tn_b_dtype(b, x);
  tn_dim area = tn_b_numel(b, p.size, n), per = tn_dim_floordiv(t, d[1], og), lot = tn_dim_mul(t, K, area);
  s[0] = d[0]; s[1] = og; s[2] = K; s[3] = n;
  for (int i = 0; i < n; i++) s[i + 4] = p.size[i];
  off = tn_b_reshape(b, tn_b_cast(b, off, dt), s, n + 4);
  tn_dim m = tn_dim_mul(t, d[0], og), flat[2] = {m, lot};
  int64_t inner = K;
  for (int i = 0; i < n && b->st == TN_OK; i++) {      /* out * stride - pad + place * dilation + offset */
    inner /= kernel[i];
    tn_ref k = tn_b_2(b, TN_OP_REMAINDER, tn_b_2(b, TN_OP_FLOORDIV, tn_b_iota(b, K, TN_I64), tn_b_int(b, inner, TN_I64)), tn_b_int(b, kernel[i], TN_I64));
    tn_ref o = tn_b_muln(b, tn_b_iota(b, p.size[i], dt), (double)p.stride[i]);
    o = tn_nn_sub(b, o, tn_b_dimval(b, p.lo[i], dt));
    tn_ref q = tn_b_sq(b, tn_b_slice(b, off, 3, i, 1, 1), 3);                 /* [N, og, K, o*] */
    q = tn_nn_add(b, q, tn_b_along(b, tn_b_muln(b, tn_b_cast(b, k, dt), (double)p.dilation[i]), 2, n + 3));
    pos[i] = tn_b_reshape(b, tn_nn_add(b, q, tn_b_along(b, o, i + 3, n + 3)), flat, 2);
  }
  s[0] = m; s[1] = per;
  for (int i = 0; i < n; i++) s[i + 2] = d[i + 2];
  tn_ref v = sample(b, tn_b_reshape(b, x, s, rank), n, pos, LINEAR, ZEROS, true);   /* [N*og, C/og, K*area] */
  if (mask.id) {
    tn_dim sm[3] = {m, 1, lot};
    v = tn_nn_mul(b, v, tn_b_reshape(b, tn_b_cast(b, mask, dt), sm, 3));
  }
  tn_dim sv[4] = {d[0], groups, tn_dim_mul(t, tn_dim_floordiv(t, d[1], groups), K), area}, sw[3] = {groups, tn_dim_floordiv(t, dw[0], groups), sv[2]};
  tn_ref y = tn_b_contract(b, "ngko,gmk->ngmo", tn_b_reshape(b, v, sv, 4), tn_b_reshape(b, tn_b_cast(b, w, dt), sw, 3));
  s[0] = d[0]; s[1] = dw[0];
  for (int i = 0; i < n; i++) s[i + 2] = p.size[i];
  y = tn_b_reshape(b, y, s, rank);
  if (bias.id) y = tn_nn_add(b, y, tn_b_along(b, tn_b_cast(b, bias, dt), 1, rank));
  return tn_ox_ret(c, 0, tn_b_cast(b, y, tn_b_dtype(b, x0)));
}

/* ---- RoiAlign ---- */

/* Samples along one dim: at [R, P * G] clipped positions, in [R, P * G] inside the image, live the same below the roi's count (id 0 = all), count [R] of
 * samples a bin (float) */
typedef struct roi_axis { tn_ref at, in, live, count; tn_dim G; } roi_axis;

static void roi_samples(tn_ox *c, tn_ref from, tn_ref to, tn_dim len, int64_t P, int64_t ratio, double scale, bool half, roi_axis *r) {
  tn_decomp_ctx *b = &c->b;
  tn_dtype t = tn_b_dtype(b, from);
  tn_ref one = tn_b_num(b, 1, t), nil = tn_b_num(b, 0, t);
  from = tn_b_addn(b, tn_b_muln(b, from, scale), half ? -0.5 : 0);
  to = tn_b_addn(b, tn_b_muln(b, to, scale), half ? -0.5 : 0);
  tn_ref size = tn_nn_sub(b, to, from);
  if (!half) size = tn_nn_max(b, size, one);
  tn_ref bin = tn_nn_div(b, size, tn_b_num(b, (double)P, t));
  tn_dim R = tn_b_dim(b, from, 0), flat[2] = {R, 0}, single = 1;
  r->G = ratio;
  r->count = tn_b_num(b, (double)ratio, t);
  if (ratio == 0) {
    r->count = tn_nn_max(b, tn_b_1(b, TN_OP_CEIL, bin), nil);
    tn_ref most = tn_nn_max(b, tn_b_reduce1(b, TN_C_MAX, r->count, 0, true), one);
    if (tn_ox_sizes(c, tn_b_cast(b, tn_b_reshape(b, most, &single, 1), TN_I64), &r->G, 1, 1) != 1) return;
  }
  flat[1] = tn_dim_mul(b->g->dims, P, r->G);
  tn_ref n = ratio ? r->count : tn_b_along(b, r->count, 0, 3), b3 = tn_b_along(b, bin, 0, 3), g = tn_b_along(b, tn_b_iota(b, r->G, t), 2, 3);
  tn_ref q = tn_nn_add(b, tn_b_along(b, from, 0, 3), tn_nn_mul(b, tn_b_along(b, tn_b_iota(b, P, t), 1, 3), b3));
  tn_ref y = tn_nn_add(b, q, tn_nn_div(b, tn_nn_mul(b, tn_b_addn(b, g, 0.5), b3), tn_nn_max(b, n, one)));
  tn_ref l = tn_b_dimval(b, len, t), in = tn_nn_and(b, tn_b_2(b, TN_OP_GE, y, tn_b_num(b, -1, t)), tn_b_2(b, TN_OP_LE, y, l));
  r->at = tn_b_reshape(b, within(b, y, nil, tn_nn_sub(b, l, one)), flat, 2);
  r->live = (tn_ref){0};
  if (!ratio) {
    tn_dim all[3] = {R, P, r->G};
    r->live = tn_b_reshape(b, tn_b_broadcast(b, tn_b_2(b, TN_OP_LT, g, n), all, 3), flat, 2);
  }
  r->in = tn_b_reshape(b, in, flat, 2);
}
/* [R, P, len]: the share of element k of the dim in the sum over bin p's samples */
static tn_ref roi_weights(tn_decomp_ctx *b, const roi_axis *r, int64_t P, tn_dim len) {
  tn_dtype t = tn_b_dtype(b, r->at);
  tn_dim s[4] = {tn_b_dim(b, r->at, 0), P, r->G, 1};
  tn_ref k = tn_b_along(b, tn_b_iota(b, len, t), 3, 4), d = tn_b_1(b, TN_OP_ABS, tn_nn_sub(b, tn_b_reshape(b, r->at, s, 4), k)), nil = tn_b_num(b, 0, t);
  tn_ref w = tn_nn_max(b, tn_nn_sub(b, tn_b_num(b, 1, t), d), nil);
  tn_ref in = r->live.id ? tn_nn_and(b, r->in, r->live) : r->in;
  return tn_b_reduce1(b, TN_C_SUM, tn_b_sel(b, tn_b_reshape(b, in, s, 4), w, nil), 2, false);
}
/* Maximum over samples and their four corners of weight times value; x[N, C, H, W], roi images [R] */
static tn_ref roi_max(tn_decomp_ctx *b, tn_ref x, tn_ref image, const roi_axis r[2], const int64_t P[2]) {
  tn_dtype t = tn_b_dtype(b, x);
  tn_dim d[N], R = tn_b_dim(b, image, 0), s[6];
  tn_b_shape(b, x, d);
  tn_ref one = tn_b_num(b, 1, t), nil = tn_b_num(b, 0, t), at[2][2], w[2][2], in[2], live[2], y = {0}, low = tn_b_num(b, -INFINITY, t);
  for (int a = 0; a < 2; a++) {
    tn_ref lo = tn_b_1(b, TN_OP_FLOOR, r[a].at), f = tn_nn_sub(b, r[a].at, lo), hi = tn_nn_min(b, tn_nn_add(b, lo, one), tn_nn_sub(b, tn_b_dimval(b, d[2 + a], t), one));
    tn_dim sh[4] = {R, 1, a ? 1 : tn_b_dim(b, r[a].at, 1), a ? tn_b_dim(b, r[a].at, 1) : 1};
    at[a][0] = tn_b_reshape(b, tn_b_cast(b, lo, TN_I64), sh, 4);
    at[a][1] = tn_b_reshape(b, tn_b_cast(b, hi, TN_I64), sh, 4);
    w[a][0] = tn_b_reshape(b, tn_nn_sub(b, one, f), sh, 4);
    w[a][1] = tn_b_reshape(b, f, sh, 4);
    in[a] = tn_b_reshape(b, r[a].in, sh, 4);
    live[a] = r[a].live.id ? tn_b_reshape(b, r[a].live, sh, 4) : r[a].live;
  }
  tn_ref ch = tn_b_along(b, tn_b_iota(b, d[1], TN_I64), 1, 4), im = tn_b_along(b, image, 0, 4), inside = tn_nn_and(b, in[0], in[1]);
  for (int k = 0; k < 4; k++) {
    tn_ref idx[5] = {x, im, ch, at[0][k & 1], at[1][k >> 1]};
    tn_dim all[4] = {0, 1, 2, 3};
    tn_attr a = tn_mk_dims(b->g, "dims", all, 4);
    tn_ref v = tn_nn_mul(b, tn_b_op(b, TN_OP_INDEX, idx, 5, &a, 1), tn_nn_mul(b, w[0][k & 1], w[1][k >> 1]));
    y = y.id ? tn_nn_max(b, y, v) : v;
  }
  y = tn_b_sel(b, inside, y, nil);                     /* a sample outside counts as 0, one beyond the roi's number of them not at all */
  if (live[0].id) y = tn_b_sel(b, tn_nn_and(b, live[0], live[1]), y, low);
  s[0] = R; s[1] = d[1]; s[2] = P[0]; s[3] = r[0].G; s[4] = P[1]; s[5] = r[1].G;
  int ax[2] = {3, 5};
  y = tn_b_reduce(b, TN_C_MAX, tn_b_reshape(b, y, s, 6), ax, 2, false);
  return live[0].id ? tn_b_sel(b, tn_b_2(b, TN_OP_EQ, y, low), nil, y) : y;
}

tn_status tn_ox_roi_align(tn_ox *c) {
  tn_decomp_ctx *b = &c->b;
  tn_ref x0 = tn_ox_in(c, 0), rois = tn_ox_in(c, 1), image = tn_ox_in(c, 2), col[4];
  tn_dim d[N], dr[N];
  int64_t P[2] = {tn_ox_int(c, "output_height", 1), tn_ox_int(c, "output_width", 1)}, ratio = tn_ox_int(c, "sampling_ratio", 0);
  double scale = tn_ox_float(c, "spatial_scale", 1);
  const char *mode = tn_ox_str_attr(c, "mode", "avg"), *how = tn_ox_str_attr(c, "coordinate_transformation_mode", "half_pixel");
  tn_nn_shape(c, x0, 4, 4, "X", d);
  tn_nn_shape(c, rois, 2, 2, "rois", dr);
  rois = tn_nn_fixed(c, rois, 1, 4);
  if (!tn_nn_float(c, x0, "X")) return b->st;
  tn_b_shape(b, rois, dr);
  image = tn_b_reshape(b, image, dr, 1);
  bool half = c->opset >= 16 && !strcmp(how, "half_pixel"), max = !strcmp(mode, "max");
  if (dr[1] != 4 || P[0] < 1 || P[1] < 1 || P[0] > 65536 || P[1] > 65536 || ratio < 0 || ratio > 65536) return tn_ox_bad(c, "output %lld x %lld, sampling_ratio %lld, or rois not of 4 columns", (long long)P[0], (long long)P[1], (long long)ratio);
  if ((!half && c->opset >= 16 && strcmp(how, "output_half_pixel")) || (!max && strcmp(mode, "avg"))) return tn_ox_bad(c, "mode '%s', coordinate_transformation_mode '%s'", mode, how);
  tn_ref x = tn_b_up(b, x0);
  tn_dtype t = tn_b_dtype(b, x);
  rois = tn_b_cast(b, rois, t);
  for (int i = 0; i < 4; i++) col[i] = tn_b_sq(b, tn_b_slice(b, rois, 1, i, 1, 1), 1);
  roi_axis r[2];
  for (int a = 0; a < 2 && b->st == TN_OK; a++) roi_samples(c, col[1 - a], col[3 - a], d[2 + a], P[a], ratio, scale, half, &r[a]);
  if (b->st != TN_OK) return b->st;
  image = tn_b_cast(b, image, TN_I64);
  tn_ref y;
  if (max) y = roi_max(b, x, image, r, P);
  else {
    y = tn_b_contract(b, "rph,rchw->rcpw", roi_weights(b, &r[0], P[0], d[2]), tn_b_take(b, x, image, 0));
    y = tn_b_contract(b, "rqw,rcpw->rcpq", roi_weights(b, &r[1], P[1], d[3]), y);
    tn_ref n = tn_nn_max(b, tn_nn_mul(b, r[0].count, r[1].count), tn_b_num(b, 1, t));
    y = tn_nn_div(b, y, ratio ? n : tn_b_along(b, n, 0, 4));
  }
  return tn_ox_ret(c, 0, tn_b_cast(b, y, tn_b_dtype(b, x0)));
}

/* ---- NonMaxSuppression: which boxes stay is data. Operands left out get their defaults; no score threshold is -inf. ---- */

tn_status tn_ox_non_max_suppression(tn_ox *c) {
  tn_decomp_ctx *b = &c->b;
  tn_ref in[5] = {tn_ox_in(c, 0), tn_ox_in(c, 1)};
  tn_dim d[N], ds[N], one = 1, out[2];
  tn_nn_shape(c, in[0], 3, 3, "boxes", d);
  tn_nn_shape(c, in[1], 3, 3, "scores", ds);
  tn_attr at = tn_mk_int("center_point_box", tn_ox_int(c, "center_point_box", 0) != 0);
  for (uint32_t k = 2; k < 5; k++) {
    tn_ref r = tn_ox_opt(c, k);
    if (r.id) in[k] = tn_b_reshape(b, tn_b_cast(b, r, k == 2 ? TN_I64 : TN_F32), &one, 1);
    else in[k] = tn_b_reshape(b, k == 2 ? tn_b_int(b, 0, TN_I64) : tn_b_num(b, k == 3 ? 0 : -INFINITY, TN_F32), &one, 1);
  }
  for (int k = 0; k < 2; k++) in[k] = tn_b_cast(b, in[k], TN_F32);
  if (b->st != TN_OK) return b->st;
  out[0] = tn_ox_fresh(c, 0, INT64_MAX);
  out[1] = 3;
  tn_type ty = tn_ox_type(c, TN_I64, 2, out);
  return tn_ox_ret(c, 0, tn_ox_dyn(c, "nms", in, 5, &at, 1, &ty, 1));
}

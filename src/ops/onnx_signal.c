/* onnx_signal: windows, MelWeightMatrix, DFT, STFT. A transform is a contraction with a matrix of cosines and sines built by prims: angles are reduced
 * exactly (k * n mod length, in integers) and taken in f64, then rounded to the operand's type. That is O(n * length) work for each row, which suits the frame
 * lengths of audio models; no fast transform is attempted. Lengths, steps and the axis may be values that are only known while running. */
#include "ops/onnx_math_int.h"

#define B (&c->b)
#define PI 3.14159265358979323846

/* A size from a scalar operand: constant or a symbol. */
static tn_dim size_of(tn_ox *c, uint32_t k, int64_t lo) {
  tn_dim d = 0;
  tn_ref x = tn_ox_in(c, k);
  if (mx_ok(c) && tn_ox_sizes(c, x, &d, 1, lo) != 1 && mx_ok(c)) tn_ox_bad(c, "operand %u is no scalar", k);
  int64_t v;
  if (mx_ok(c) && tn_dim_as_int(c->b.g->dims, d, &v) && v < lo) tn_ox_bad(c, "operand %u is %lld, wants at least %lld", k, (long long)v, (long long)lo);
  return mx_ok(c) ? d : 1;
}
static tn_dtype datatype(tn_ox *c) {
  int64_t v = tn_ox_int(c, "output_datatype", 1);
  int t = v > 0 && v <= 28 ? tn_ox_dtype_of((int)v) : -1;
  if (mx_ok(c) && (t < 0 || tn_ox_elem_of((tn_dtype)t) != v)) tn_ox_unsup(c, "output_datatype %lld", (long long)v);
  return mx_ok(c) ? (tn_dtype)t : TN_F32;
}

/* ---- windows: a0 - a1 cos(2 pi n / N) + a2 cos(4 pi n / N), N = size, or size - 1 when not periodic ---- */
static tn_status window(tn_ox *c, double a0, double a1, double a2) {
  tn_dtype t = datatype(c);
  tn_dim n = size_of(c, 0, 0);
  bool periodic = tn_ox_int(c, "periodic", 1) != 0;
  if (!mx_ok(c)) return c->b.st;
  tn_dim span = periodic ? n : tn_dim_max(c->b.g->dims, 1, tn_dim_sub(c->b.g->dims, n, 1));
  tn_ref x = mx_div(c, tn_b_muln(B, tn_b_iota(B, n, TN_F64), 2 * PI), tn_b_dimval(B, span, TN_F64));
  tn_ref y = mx_sub(c, tn_b_num(B, a0, TN_F64), tn_b_muln(B, mx_1(c, TN_OP_COS, x), a1));
  if (a2 != 0) y = mx_add(c, y, tn_b_muln(B, mx_1(c, TN_OP_COS, tn_b_muln(B, x, 2)), a2));
  return mx_ret_as(c, 0, y, t);
}
tn_status tn_ox_hann_window(tn_ox *c) { return window(c, 0.5, 0.5, 0); }
tn_status tn_ox_hamming_window(tn_ox *c) { return window(c, 25.0 / 46, 21.0 / 46, 0); }
tn_status tn_ox_blackman_window(tn_ox *c) { return window(c, 0.42, 0.5, 0.08); }

/* ---- MelWeightMatrix: triangles over spectrogram bins; bin edges evenly spaced on the mel scale ---- */
static tn_ref mel(tn_ox *c, uint32_t k) {            /* 2595 log10(1 + f / 700) */
  tn_ref f = mx_cast(c, tn_ox_scalar(c, tn_ox_in(c, k)), TN_F64);
  return tn_b_muln(B, mx_1(c, TN_OP_LOG10, tn_b_addn(B, mx_2n(c, TN_OP_DIV, f, 700), 1)), 2595);
}
tn_status tn_ox_mel_weight_matrix(tn_ox *c) {
  tn_dtype t = datatype(c);
  tn_dims *dims = c->b.g->dims;
  tn_dim m = size_of(c, 0, 0), len = size_of(c, 1, 0);
  tn_ref rate = mx_cast(c, tn_ox_scalar(c, tn_ox_in(c, 2)), TN_F64), low = mel(c, 3), high = mel(c, 4);
  if (!mx_ok(c)) return c->b.st;
  tn_dim edges = tn_dim_add(dims, m, 2), bins = tn_dim_add(dims, tn_dim_floordiv(dims, len, 2), 1);
  tn_ref step = mx_div(c, mx_sub(c, high, low), tn_b_dimval(B, edges, TN_F64));
  tn_ref at = mx_add(c, mx_mul(c, tn_b_iota(B, edges, TN_F64), step), low);
  tn_ref hz = tn_b_muln(B, mx_1(c, TN_OP_EXPM1, tn_b_muln(B, at, 2.30258509299404568402 / 2595)), 700);
  tn_ref e = mx_1(c, TN_OP_FLOOR, mx_div(c, mx_mul(c, hz, tn_b_dimval(B, tn_dim_add(dims, len, 1), TN_F64)), rate));
  tn_ref a = tn_b_unsq(B, tn_b_slice(B, e, 0, 0, m, 1), 0), b = tn_b_unsq(B, tn_b_slice(B, e, 0, 1, m, 1), 0), d = tn_b_unsq(B, tn_b_slice(B, e, 0, 2, m, 1), 0);
  tn_ref j = tn_b_unsq(B, tn_b_iota(B, bins, TN_F64), 1), zero = tn_b_num(B, 0, TN_F64), one = tn_b_num(B, 1, TN_F64);
  tn_ref flat = mx_2(c, TN_OP_EQ, a, b);
  tn_ref rise = mx_sel(c, flat, one, mx_div(c, mx_sub(c, j, a), mx_sel(c, flat, one, mx_sub(c, b, a))));
  tn_ref up = mx_2(c, TN_OP_AND, mx_2(c, TN_OP_GE, j, a), mx_2(c, TN_OP_LE, j, b));
  tn_ref down = mx_2(c, TN_OP_AND, mx_2(c, TN_OP_GE, j, b), mx_2(c, TN_OP_LT, j, d));      /* empty when the right side has no width */
  tn_ref fall = mx_div(c, mx_sub(c, d, j), mx_sel(c, mx_2(c, TN_OP_EQ, b, d), one, mx_sub(c, d, b)));
  return mx_ret_as(c, 0, mx_sel(c, down, fall, mx_sel(c, up, rise, zero)), t);
}

/* ---- Fourier transforms ---- */

typedef struct fourier {
  tn_dim len, out;           /* length of the transform; how many results */
  bool inverse, to_real;     /* to_real: operand is one half of a spectrum, the result real */
} fourier;
typedef struct cplx { tn_ref re, im; } cplx; /* im 0: real */

/* cos and sin of 2 pi k n / len, [rows, f.out]; rows at len and beyond count as 0 (a longer signal is cut); scaled as the transform wants. */
static void matrices(tn_ox *c, tn_dim rows, const fourier *f, tn_dtype t, tn_ref *cos, tn_ref *sin) {
  tn_dims *dims = c->b.g->dims;
  tn_ref n = tn_b_unsq(B, tn_b_iota(B, rows, TN_I64), 1), k = tn_b_unsq(B, tn_b_iota(B, f->out, TN_I64), 0), len = tn_b_dimval(B, f->len, TN_I64);
  tn_ref flen = tn_b_dimval(B, f->len, TN_F64);
  tn_ref angle = mx_div(c, tn_b_muln(B, mx_cast(c, mx_2(c, TN_OP_REMAINDER, mx_mul(c, n, k), len), TN_F64), 2 * PI), flen);
  tn_ref w = {0}, zero = tn_b_num(B, 0, TN_F64);
  if (f->to_real) {          /* the other half mirrors this one: all but the first and the middle count twice */
    tn_ref twice = mx_2(c, TN_OP_AND, mx_2(c, TN_OP_GT, n, tn_b_int(B, 0, TN_I64)), mx_2(c, TN_OP_LT, mx_add(c, n, n), len));
    w = mx_sel(c, twice, tn_b_num(B, 2, TN_F64), tn_b_num(B, 1, TN_F64));
    w = mx_sel(c, mx_2(c, TN_OP_LE, mx_add(c, n, n), len), w, zero);
  } else if (f->len != rows) {
    int64_t lo, hi;
    tn_dim_bounds(dims, tn_dim_sub(dims, f->len, rows), &lo, &hi);
    if (lo < 0) w = mx_sel(c, mx_2(c, TN_OP_LT, n, len), tn_b_num(B, 1, TN_F64), zero);
  }
  if (f->inverse) w = mx_div(c, w.id ? w : tn_b_num(B, 1, TN_F64), flen);
  tn_ref co = mx_1(c, TN_OP_COS, angle), si = mx_1(c, TN_OP_SIN, angle);
  if (w.id) { co = mx_mul(c, co, w); si = mx_mul(c, si, w); }
  if (f->inverse) si = mx_1(c, TN_OP_NEG, si);
  *cos = mx_cast(c, co, t);
  *sin = mx_cast(c, si, t);
}
/* x transformed along `axis`: sum of x[n] (cos - i sin). */
static cplx transform(tn_ox *c, cplx x, int axis, const fourier *f) {
  tn_dim d[TN_MAX_RANK], flat[3];
  tn_ref co, si;
  int rank = tn_b_shape(B, x.re, d);
  if (!mx_ok(c)) return x;
  matrices(c, d[axis], f, mx_dtype(c, x.re), &co, &si);
  flat[0] = tn_b_numel(B, d, axis);
  flat[1] = d[axis];
  flat[2] = tn_b_numel(B, d + axis + 1, rank - axis - 1);
  tn_ref re = tn_b_reshape(B, x.re, flat, 3), im = x.im.id ? tn_b_reshape(B, x.im, flat, 3) : x.im;
  cplx y = {tn_b_contract(B, "anb,nk->akb", re, co), {0}};
  if (im.id) y.re = mx_add(c, y.re, tn_b_contract(B, "anb,nk->akb", im, si));
  d[axis] = f->out;
  if (!f->to_real) {
    y.im = mx_1(c, TN_OP_NEG, tn_b_contract(B, "anb,nk->akb", re, si));
    if (im.id) y.im = mx_add(c, y.im, tn_b_contract(B, "anb,nk->akb", im, co));
    y.im = tn_b_reshape(B, y.im, d, rank);
  }
  y.re = tn_b_reshape(B, y.re, d, rank);
  return y;
}

static cplx unpack(tn_ox *c, tn_ref x) {             /* [.., 1] or [.., 2] */
  int last = mx_rank(c, x) - 1;
  cplx y = {x, {0}};
  if (!mx_ok(c)) return y;
  tn_dim n = last >= 1 ? tn_b_dim(B, x, last) : 0;
  if (n != 1 && n != 2) { tn_ox_bad(c, "operand of rank %d whose last dim is not 1 or 2", last + 1); return y; }
  if (n == 2) y.im = tn_b_sq(B, tn_b_slice(B, x, last, 1, 1, 1), last);
  y.re = tn_b_sq(B, tn_b_slice(B, x, last, 0, 1, 1), last);
  return y;
}
static tn_ref pack(tn_ox *c, cplx y) {
  int at = mx_rank(c, y.re);
  tn_ref p[2] = {tn_b_unsq(B, y.re, at), {0}};
  if (!y.im.id) return p[0];
  p[1] = tn_b_unsq(B, y.im, at);
  return tn_b_concat(B, p, 2, at);
}

/* Length and number of results along a dim of n elements. given: dft_length or 0 (its dim when there). */
static fourier form_of(tn_ox *c, tn_dim n, bool has_len, tn_dim len, bool inverse, bool onesided) {
  tn_dims *dims = c->b.g->dims;
  fourier f = {.inverse = inverse, .to_real = inverse && onesided};
  f.len = has_len ? len : f.to_real ? tn_dim_mul(dims, 2, tn_dim_sub(dims, n, 1)) : n;
  f.out = onesided && !inverse ? tn_dim_add(dims, tn_dim_floordiv(dims, f.len, 2), 1) : f.len;
  return f;
}

/* An axis that is only known while running: along every dim in turn the transform is made too, and taken where the axis says so. */
static cplx transform_at(tn_ox *c, cplx x, tn_ref axis, bool has_len, tn_dim len, bool inverse, bool onesided) {
  int rank = mx_rank(c, x.re);
  tn_ref is[TN_MAX_RANK];
  tn_dim d[TN_MAX_RANK], size[TN_MAX_RANK];
  axis = mx_cast(c, tn_ox_scalar(c, axis), TN_I64);
  axis = mx_sel(c, mx_2n(c, TN_OP_LT, axis, 0), tn_b_addn(B, axis, rank + 1), axis);
  tn_b_shape(B, x.re, d);
  fourier f[TN_MAX_RANK];
  for (int i = 0; i < rank && mx_ok(c); i++) {
    is[i] = mx_2(c, TN_OP_EQ, axis, tn_b_int(B, i, TN_I64));
    f[i] = form_of(c, d[i], has_len, len, inverse, onesided);
    size[i] = f[i].out;
  }
  if (!mx_ok(c) || !tn_ox_sizes_if(c, is, d, size, rank)) return x;
  if (!x.im.id) x.im = mx_sub(c, x.re, x.re);
  for (int i = 0; i < rank && mx_ok(c); i++) {
    cplx y = transform(c, x, i, &f[i]);
    if (!y.im.id) y.im = mx_sub(c, y.re, y.re);
    x.re = tn_ox_along_if(c, is[i], y.re, x.re, i, size[i]);
    x.im = tn_ox_along_if(c, is[i], y.im, x.im, i, size[i]);
  }
  if (inverse && onesided) x.im.id = 0;
  return x;
}

tn_status tn_ox_dft(tn_ox *c) {                      /* axis: attribute before opset 20, then operand */
  tn_ref x0 = tn_ox_in(c, 0), x = tn_b_up(B, x0);
  bool inverse = tn_ox_int(c, "inverse", 0) != 0, onesided = tn_ox_int(c, "onesided", 0) != 0, has_len = tn_ox_has(c, 1);
  if (!mx_ok(c)) return c->b.st;
  int rank = mx_rank(c, x), axis;
  tn_dim len = has_len ? size_of(c, 1, 1) : 0;
  cplx v = unpack(c, x), y;
  if (!mx_ok(c)) return c->b.st;
  int64_t a = c->opset < 20 ? tn_ox_int(c, "axis", 1) : -2;
  if (c->opset >= 20 && tn_ox_has(c, 2) && tn_ox_consts(c, c->in[2], &a, 1) != 1) {
    if (!mx_ok(c)) return c->b.st;
    y = transform_at(c, v, tn_ox_in(c, 2), has_len, len, inverse, onesided);
  } else {
    axis = tn_ox_wrap(c, a, rank);
    if (mx_ok(c) && axis == rank - 1) return tn_ox_bad(c, "axis %d is the one of real and imaginary parts", axis);
    if (!mx_ok(c)) return c->b.st;
    fourier f = form_of(c, tn_b_dim(B, v.re, axis), has_len, len, inverse, onesided);
    y = transform(c, v, axis, &f);
  }
  return mx_ret_as(c, 0, pack(c, y), mx_dtype(c, x0));
}

tn_status tn_ox_stft(tn_ox *c) {                     /* x[N, signal, 1 or 2] -> [N, frames, results, 2] */
  tn_ref x0 = tn_ox_in(c, 0), x = tn_b_up(B, x0), w = tn_ox_opt(c, 2);
  tn_dims *dims = c->b.g->dims;
  bool onesided = tn_ox_int(c, "onesided", 1) != 0;
  tn_dim step = size_of(c, 1, 1);
  if (!mx_ok(c)) return c->b.st;
  if (mx_rank(c, x) == 2) x = tn_b_unsq(B, x, 2);
  if (mx_rank(c, x) != 3) return tn_ox_bad(c, "signal of rank %d", mx_rank(c, x));
  tn_dim n = tn_b_dim(B, x, 1), len = tn_ox_has(c, 3) ? size_of(c, 3, 1) : w.id ? tn_b_dim(B, w, 0) : n;
  cplx v = unpack(c, x);
  if (!mx_ok(c)) return c->b.st;
  tn_dim frames = tn_dim_add(dims, tn_dim_floordiv(dims, tn_dim_sub(dims, n, len), step), 1);
  tn_ref from = mx_mul(c, tn_b_unsq(B, tn_b_iota(B, frames, TN_I64), 1), tn_b_dimval(B, step, TN_I64));
  tn_ref at = mx_add(c, from, tn_b_unsq(B, tn_b_iota(B, len, TN_I64), 0));                 /* [frames, len] */
  for (int k = 0; k < 2; k++) {
    tn_ref *p = k ? &v.im : &v.re;
    if (!p->id) continue;
    *p = tn_b_take(B, *p, at, 1);
    if (w.id) *p = mx_mul(c, *p, mx_cast(c, w, mx_dtype(c, *p)));
  }
  fourier f = form_of(c, len, false, 0, false, onesided);
  return mx_ret_as(c, 0, pack(c, transform(c, v, 2, &f)), mx_dtype(c, x0));
}

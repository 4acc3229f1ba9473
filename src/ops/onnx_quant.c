/* onnx_quant: linear quantisation and integer arithmetic.
 *
 * QuantizeLinear divides in the scale's type (or `precision`), rounds half to even, adds the zero point, saturates; small float targets go through the
 * saturating cast instead. Granularity: a scalar; a vector along `axis`; blocks of block_size along `axis` (each scale repeated by a broadcast).
 * Integer products are exact. Requantising multiplies the i32 result with the quotient of the scales in f32
 * and rounds once, as run times do. (https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html and so on) */
#include "ops/onnx_math_int.h"
#include "ops/onnx_nn.h"

enum { E_U8 = 2, E_I8 = 3, E_U16 = 4, E_I16 = 5, E_I32 = 6, E_U4 = 21, E_I4 = 22, E_F4 = 23, E_U2 = 25, E_I2 = 26, E_F6A = 27, E_F6B = 28 };

/* Range of an integer target; false: not one. */
static bool int_range(int elem, double *lo, double *hi) {
  switch (elem) {
  case E_U8: *lo = 0; *hi = 255; return true;
  case E_I8: *lo = -128; *hi = 127; return true;
  case E_U16: *lo = 0; *hi = 65535; return true;
  case E_I16: *lo = -32768; *hi = 32767; return true;
  case E_I32: *lo = -2147483648.0; *hi = 2147483647.0; return true;
  case E_U4: *lo = 0; *hi = 15; return true;
  case E_I4: *lo = -8; *hi = 7; return true;
  case E_U2: *lo = 0; *hi = 3; return true;
  case E_I2: *lo = -2; *hi = 1; return true;
  default: return false;
  }
}

/* Scale or zero point s against x: broadcastable to it. */
static tn_ref spread(tn_ox *c, tn_ref s, tn_ref x) {
  if (!mx_ok(c)) return s;
  tn_decomp_ctx *b = &c->b;
  tn_dim d[TN_MAX_RANK + 1], sd[TN_MAX_RANK];
  int rs = tn_b_shape(b, s, sd), rank = mx_rank(c, x);
  int64_t block = tn_ox_int(c, "block_size", 0);
  bool one = true;
  for (int i = 0; i < rs; i++) one = one && sd[i] == 1;
  if (one && (rs <= 1 || block == 0)) return tn_b_reshape(b, s, NULL, 0);
  int64_t a = tn_ox_int(c, "axis", 1);
  int axis = tn_ox_wrap(c, a, rank);
  if (!mx_ok(c)) return s;
  if (rs == 1 && block == 0) return tn_b_along(b, s, axis, rank);
  if (block <= 0 || rs != rank) { tn_ox_bad(c, "scale of rank %d for rank %d with block_size %lld", rs, rank, (long long)block); return s; }
  if (rank + 1 > TN_MAX_RANK) { tn_ox_unsup(c, "rank %d in blocks", rank); return s; }
  for (int i = 0, k = 0; i < rank; i++) {            /* [.., S, ..] -> [.., S, block, ..] -> [.., S * block, ..] -> cut to x's dim */
    d[k++] = sd[i];
    if (i == axis) d[k++] = block;
  }
  s = tn_b_broadcast(b, tn_b_unsq(b, s, axis + 1), d, rank + 1);
  sd[axis] = tn_dim_mul(b->g->dims, sd[axis], block);
  s = tn_b_reshape(b, s, sd, rank);
  tn_dim want = tn_b_dim(b, x, axis);
  int64_t lo, hi;
  tn_dim_bounds(b->g->dims, tn_dim_sub(b->g->dims, sd[axis], want), &lo, &hi);
  if (hi < 0) { tn_ox_bad(c, "blocks of %lld do not cover dim %d", (long long)block, axis); return s; }
  return tn_b_slice(b, s, axis, 0, want, 1);
}

/* Element type number of attribute `name`; 0 = not given. */
static int elem_attr(tn_ox *c, const char *name) {
  int64_t v = tn_ox_int(c, name, 0);
  if (v < 0 || v > 28) { tn_ox_bad(c, "%s is %lld", name, (long long)v); return 0; }
  return (int)v;
}

tn_status tn_ox_quantize_linear(tn_ox *c) {
  tn_ref x = tn_ox_in(c, 0), s = tn_ox_plain(c, tn_ox_in(c, 1)), z = tn_ox_opt(c, 2);
  bool saturate = tn_ox_int(c, "saturate", 1) != 0;
  int to = elem_attr(c, "output_dtype"), precision = elem_attr(c, "precision");
  double lo, hi;
  if (!mx_ok(c)) return c->b.st;
  if (z.id) {
    int ze = tn_ox_elem(c, z);
    if (to && to != ze) return tn_ox_bad(c, "output_dtype %s and a zero point of %s", tn_ox_elem_name(to), tn_ox_elem_name(ze));
    to = ze;
  }
  if (!to) to = E_U8;
  tn_dtype t = precision ? (tn_dtype)tn_ox_dtype_of(precision) : mx_dtype(c, s);
  if (!tn_dtype_is_float(t)) t = TN_F32;
  tn_ref y = mx_div(c, mx_cast(c, x, t), spread(c, mx_cast(c, s, t), x));   /* one rounding to t */
  if (!int_range(to, &lo, &hi)) {
    y = tn_b_up(&c->b, y);
    if (z.id && (to == E_F4 || to == E_F6A || to == E_F6B)) y = mx_add(c, y, spread(c, mx_cast(c, tn_ox_plain(c, z), mx_dtype(c, y)), x));
    return tn_ox_ret(c, 0, tn_ox_cast(c, y, to, saturate, "up"));
  }
  y = tn_b_up(&c->b, mx_1(c, TN_OP_ROUND, y));
  if (z.id) y = mx_add(c, y, spread(c, mx_cast(c, z, mx_dtype(c, y)), x));
  y = mx_2n(c, TN_OP_MIN, mx_2n(c, TN_OP_MAX, y, lo), hi);
  return tn_ox_ret(c, 0, tn_ox_cast(c, y, to, true, "up"));
}

tn_status tn_ox_dequantize_linear(tn_ox *c) {
  tn_ref x = tn_ox_in(c, 0), s = tn_ox_plain(c, tn_ox_in(c, 1)), z = tn_ox_opt(c, 2);
  int to = elem_attr(c, "output_dtype");
  if (!mx_ok(c)) return c->b.st;
  tn_dtype t = to ? (tn_dtype)tn_ox_dtype_of(to) : mx_dtype(c, s), w = mx_dtype(c, s) == TN_F64 ? TN_F64 : TN_F32;
  tn_ref y = mx_cast(c, tn_ox_plain(c, x), w);
  if (z.id) y = mx_sub(c, y, spread(c, mx_cast(c, tn_ox_plain(c, z), w), x));
  return mx_ret_as(c, 0, mx_mul(c, y, spread(c, mx_cast(c, s, w), x)), t);
}

void tn_ox_dynamic_u8(tn_ox *c, tn_ref x, tn_ref *y, tn_ref *scale, tn_ref *zero) {
  int ax[TN_MAX_RANK];
  if (!mx_ok(c)) return;
  int n = mx_all_axes(c, x, ax);
  tn_ref hi = mx_2n(c, TN_OP_MAX, tn_b_reduce(&c->b, TN_C_MAX, x, ax, n, false), 0), lo = mx_2n(c, TN_OP_MIN, tn_b_reduce(&c->b, TN_C_MIN, x, ax, n, false), 0);
  tn_ref range = mx_sub(c, hi, lo);
  range = mx_sel(c, mx_2n(c, TN_OP_EQ, range, 0), mx_num(c, x, 1), range);
  *scale = mx_2n(c, TN_OP_DIV, range, 255);
  *zero = mx_1(c, TN_OP_ROUND, mx_2n(c, TN_OP_MIN, mx_2n(c, TN_OP_MAX, mx_1(c, TN_OP_NEG, mx_div(c, lo, *scale)), 0), 255));
  *y = mx_2n(c, TN_OP_MIN, mx_2n(c, TN_OP_MAX, mx_add(c, mx_1(c, TN_OP_ROUND, mx_div(c, x, *scale)), *zero), 0), 255);
}
tn_status tn_ox_dynamic_quantize_linear(tn_ox *c) {
  tn_ref x = tn_ox_in(c, 0), y = {0}, scale = {0}, zero = {0};
  tn_ox_dynamic_u8(c, x, &y, &scale, &zero);
  if (!mx_ok(c)) return c->b.st;
  tn_ox_ret(c, 0, mx_cast(c, y, TN_U8));
  if (c->n_out > 1) tn_ox_ret(c, 1, scale);
  if (c->n_out > 2) tn_ox_ret(c, 2, mx_cast(c, zero, TN_U8));
  return c->b.st;
}

/* ---- integer products ----
 *
 * Whole numbers whose sums of magnitudes stay below 2^24 are exact in f32, in any order of summation, and float units are several times as fast as those
 * for 32-bit products. So a product is made in f32 where that can be shown: from the types, zero points that are known, and the very values of
 * constant weights. Else in i32. Either way the result is cast to i32 at once, which also tells later passes that it is meant exactly. */

typedef struct part { tn_ref x, z; double most; } part; /* operand, zero point (id 0: none), largest magnitude of x - z */

static double known(const tn_tensor *t, int64_t i) {
  tn_dtype e = (tn_dtype)t->dtype;
  tn_num v = tn_num_load(e, (const char *)t->data + (size_t)i * tn_dtype_size(e));
  return tn_dtype_is_float(e) ? v.f : (double)v.i;
}
static part part_of(tn_ox *c, tn_ref x, tn_ref zero) {
  part p = {x, zero, 0};
  tn_tensor z;
  double lo, hi;
  if (!mx_ok(c) || !int_range(tn_ox_elem(c, p.x), &lo, &hi)) return p;
  p.most = hi - lo;
  if (!p.z.id) p.most = fmax(-lo, hi);
  if (p.z.id && tn_ox_data(c, p.z, &z)) {
    int64_t n = tn_type_numel(tn_typeof(c->b.g, p.z));
    bool none = true;
    p.most = 0;
    for (int64_t i = 0; i < n; i++) {
      p.most = fmax(p.most, fmax(known(&z, i) - lo, hi - known(&z, i)));
      none = none && known(&z, i) == 0;
    }
    if (none) p.z.id = 0;                            /* zero points that are 0 cost nothing */
  }
  return p;
}

/* The largest sum of |w - z| over one of the rows of a constant w (transposed: columns), one zero point or one for each row; -1: w is not known. */
static double row_sum(tn_ox *c, const part *w, int64_t rows, int64_t row, bool transposed) {
  tn_tensor t, z;
  double best = 0, zero = 0;
  int64_t nz = 1;
  bool zs = w->z.id != 0;
  if (!tn_ox_data(c, w->x, &t) || (zs && !tn_ox_data(c, w->z, &z))) return -1;
  if (zs) nz = tn_type_numel(tn_typeof(c->b.g, w->z));
  if (zs && nz != 1 && nz != rows) return -1;
  for (int64_t r = 0; r < rows; r++) {
    double sum = 0;
    if (zs) zero = known(&z, nz == 1 ? 0 : r);
    for (int64_t i = 0; i < row; i++) sum += fabs(known(&t, transposed ? i * rows + r : r * row + i) - zero);
    best = fmax(best, sum);
  }
  return best;
}

/* In dtype t, less the zero point, whose vectors run along dim `axis` (-1: as they are). */
static tn_ref centred(tn_ox *c, const part *p, tn_dtype t, int axis) {
  if (!mx_ok(c)) return p->x;
  tn_ref x = mx_cast(c, tn_ox_plain(c, p->x), t);
  if (!p->z.id) return x;
  tn_ref z = mx_cast(c, tn_ox_plain(c, tn_ox_scalar(c, p->z)), t);
  if (mx_ok(c) && mx_rank(c, z) == 1 && axis >= 0) z = tn_b_along(&c->b, z, axis, mx_rank(c, x));
  return mx_sub(c, x, z);
}
/* The dtype for products whose sums of `n` terms (-1: not known) go over w: small floats f32. sum: the largest sum of magnitudes of w, -1 = not known. */
static tn_dtype product_type(tn_ox *c, const part *x, const part *w, tn_dim n, double sum) {
  if (x->most == 0 || w->most == 0) return mx_ok(c) && tn_dtype_is_float(mx_dtype(c, tn_ox_plain(c, x->x))) ? TN_F32 : TN_I32;
  double worst = sum >= 0 ? sum * x->most : tn_dim_is_const(n) ? (double)n * x->most * w->most : INFINITY;
  return worst < 0x1p24 ? TN_F32 : TN_I32;
}
static tn_ref exact(tn_ox *c, tn_ref y, bool small_floats) { return small_floats ? y : mx_cast(c, y, TN_I32); }

tn_ref tn_ox_whole_matmul(tn_ox *c, tn_ref x, tn_ref zx, int axis, tn_ref w, tn_ref zw) {
  part a = part_of(c, x, zx), b = part_of(c, w, zw);
  tn_ref z = a.z, y;
  if (!mx_ok(c)) return a.x;
  if (z.id && b.most > 0) {
    z = mx_cast(c, tn_ox_scalar(c, z), TN_I32);
    if (mx_ok(c) && mx_rank(c, z) == 1 && axis >= 0) z = tn_b_along(&c->b, z, axis, mx_rank(c, a.x));
  }
  if (a.most > 0 && tn_ox_byte_matmul(c, a.x, z, b.x, b.z, &y)) return y;
  if (!mx_ok(c)) return a.x;
  int rb = mx_rank(c, b.x);
  tn_dim k = rb ? tn_b_dim(&c->b, b.x, rb >= 2 ? rb - 2 : 0) : 1, n = rb >= 2 ? tn_b_dim(&c->b, b.x, rb - 1) : 1;
  double sum = rb <= 2 && tn_dim_is_const(k) && tn_dim_is_const(n) ? row_sum(c, &b, n, k, true) : -1;
  tn_dtype t = product_type(c, &a, &b, k, sum);
  return exact(c, tn_ox_matmul_of(c, centred(c, &a, t, axis), centred(c, &b, t, -1)), a.most == 0);
}
static tn_ref whole_conv(tn_ox *c, uint32_t kx, uint32_t kzx, uint32_t kw, uint32_t kzw, tn_ref bias) {
  part x = part_of(c, tn_ox_in(c, kx), tn_ox_opt(c, kzx)), w = part_of(c, tn_ox_in(c, kw), tn_ox_opt(c, kzw));
  if (!mx_ok(c)) return x.x;
  tn_dim d[TN_MAX_RANK];
  int rank = tn_b_shape(&c->b, w.x, d);
  tn_dim n = rank >= 2 ? tn_b_numel(&c->b, d + 1, rank - 1) : 1;
  double sum = rank >= 1 && tn_dim_is_const(n) && tn_dim_is_const(d[0]) ? row_sum(c, &w, d[0], n, false) : -1;
  tn_dtype t = product_type(c, &x, &w, n, sum);
  tn_ref y = exact(c, tn_nn_conv(c, centred(c, &x, t, -1), centred(c, &w, t, 0), (tn_ref){0}, false), x.most == 0);
  if (bias.id && mx_ok(c)) y = mx_add(c, y, mx_cast(c, tn_b_along(&c->b, bias, 1, mx_rank(c, y)), mx_dtype(c, y)));
  return y;
}

tn_status tn_ox_matmul_integer(tn_ox *c) {
  tn_ref a = tn_ox_in(c, 0), b = tn_ox_in(c, 1);
  return tn_ox_ret(c, 0, tn_ox_whole_matmul(c, a, tn_ox_opt(c, 2), mx_rank(c, a) - 2, b, tn_ox_opt(c, 3)));
}
tn_status tn_ox_conv_integer(tn_ox *c) { return tn_ox_ret(c, 0, whole_conv(c, 0, 2, 1, 3, (tn_ref){0})); }

/* acc * (sa * sb / sy), rounded, plus zero point, saturated to z's type. */
tn_status tn_ox_requantised(tn_ox *c, tn_ref acc, tn_ref sa, tn_ref sb, tn_ref sy, tn_ref z, int to) {
  double lo, hi;
  tn_ref k = mx_div(c, mx_mul(c, tn_b_up(&c->b, sa), tn_b_up(&c->b, sb)), tn_b_up(&c->b, sy));
  tn_ref y = mx_mul(c, mx_cast(c, acc, TN_F32), mx_cast(c, k, TN_F32));
  if (!mx_ok(c)) return c->b.st;
  if (!int_range(to, &lo, &hi)) {
    if (z.id) y = mx_add(c, y, mx_cast(c, tn_ox_plain(c, z), TN_F32));
    return tn_ox_ret(c, 0, tn_ox_cast(c, y, to, true, "up"));
  }
  y = mx_1(c, TN_OP_ROUND, y);
  if (z.id) y = mx_add(c, y, mx_cast(c, z, TN_F32));
  return tn_ox_ret(c, 0, tn_ox_cast(c, mx_2n(c, TN_OP_MIN, mx_2n(c, TN_OP_MAX, y, lo), hi), to, true, "up"));
}
tn_status tn_ox_qlinear_matmul(tn_ox *c) {
  tn_ref a = tn_ox_in(c, 0), acc = tn_ox_whole_matmul(c, a, tn_ox_opt(c, 2), mx_rank(c, a) - 2, tn_ox_in(c, 3), tn_ox_opt(c, 5)), sa = tn_ox_scalar(c, tn_ox_in(c, 1)), sb = tn_ox_in(c, 4), sy = tn_ox_in(c, 6), z = tn_ox_opt(c, 7);
  if (!mx_ok(c)) return c->b.st;
  int ra = mx_rank(c, a);
  if (mx_rank(c, sa) == 1 && ra >= 2) sa = tn_b_along(&c->b, sa, ra - 2, ra);              /* one for each row of a */
  return tn_ox_requantised(c, acc, sa, tn_ox_scalar(c, sb), tn_ox_scalar(c, sy), z.id ? tn_ox_scalar(c, z) : z, tn_ox_elem(c, z.id ? z : a));
}
tn_status tn_ox_qlinear_conv(tn_ox *c) {
  tn_ref acc = whole_conv(c, 0, 2, 3, 5, tn_ox_opt(c, 8)), x = tn_ox_in(c, 0), sx = tn_ox_in(c, 1), sw = tn_ox_scalar(c, tn_ox_in(c, 4)), sy = tn_ox_in(c, 6), z = tn_ox_opt(c, 7);
  if (!mx_ok(c)) return c->b.st;
  if (mx_rank(c, sw) == 1) sw = tn_b_along(&c->b, sw, 1, mx_rank(c, acc));                  /* one for each output channel */
  return tn_ox_requantised(c, acc, tn_ox_scalar(c, sx), sw, tn_ox_scalar(c, sy), z.id ? tn_ox_scalar(c, z) : z, tn_ox_elem(c, z.id ? z : x));
}

/* onnx_lowp: conversion between all element types, also those without a tn_dtype: float8, float6, float4, e8m0, 4- and 2-bit integers. They are stored
 * one element a byte (U8, signed integers I8).
 *
 * From a small float: a look-up in its table of 256 values. To one: exact arithmetic in f32 (f64 from f64). With m mantissa bits and emin the
 * exponent of the least normal number, |x| * 2^(m-emin) is scaled down by 2^k, the least k that leaves it under 2^(m+1), found by halving the exponent
 * range; scaling by powers of two is exact, so rounding to an integer r (half to even) is the one rounding, and k * 2^m + r is the code, carry and
 * subnormals included. What is over the largest code saturates, or becomes the type's infinity or NaN. The sign of a NaN is not kept.
 *
 * Integers drop high bits; floats are truncated to an integer first. Tables: https://onnx.ai/onnx/technical/float8.html and float4.html, OCP MX v1.0. */
#include "ops/onnx_math_int.h"

typedef struct lowp {
  int elem, m, emin, emax; /* mantissa bits, exponents of the least normal and of the largest number */
  int max, over, nan, sign; /* codes: largest finite; what lies beyond when not saturating; NaN; the sign bit */
  bool fn_zero;            /* no negative zero */
} lowp;
static const lowp formats[] = {
    {17, 3, -6, 8, 0x7e, 0x7f, 0x7f, 0x80, false},  {18, 3, -7, 7, 0x7f, 0x80, 0x80, 0x80, true},  {19, 2, -14, 15, 0x7b, 0x7c, 0x7e, 0x80, false},
    {20, 2, -15, 15, 0x7f, 0x80, 0x80, 0x80, true}, {23, 1, 0, 2, 0x07, 0x07, 0x08, 0x08, false}, {27, 3, 0, 2, 0x1f, 0x1f, 0x20, 0x20, false},
    {28, 2, -2, 4, 0x1f, 0x1f, 0x20, 0x20, false},
};
enum { E8M0 = 24 };
static const lowp *format_of(int elem) {
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
    if (formats[i].elem == elem) return &formats[i];
  return NULL;
}

/* Value of one code. */
static float decode(int elem, int code) {
  if (elem == E8M0) return code == 255 ? NAN : ldexpf(1, code - 127);
  const lowp *f = format_of(elem);
  int mag = code & (f->sign - 1), e = mag >> f->m, frac = mag & ((1 << f->m) - 1);
  float v = e == 0 ? ldexpf((float)frac, f->emin - f->m) : ldexpf((float)(frac + (1 << f->m)), e - 1 + f->emin - f->m);
  bool neg = code & f->sign;
  if (f->fn_zero && neg && mag == 0) return NAN;
  if (elem == 17 && mag == 0x7f) return NAN;
  if (elem == 19 && mag >= 0x7c) return mag == 0x7c ? (neg ? -INFINITY : INFINITY) : NAN;
  return neg ? -v : v;
}

static tn_ref from_small_float(tn_ox *c, tn_ref x, int elem) {
  float table[256];
  tn_dim n = 256;
  tn_ref t = {0};
  for (int i = 0; i < 256; i++) table[i] = decode(elem, i);
  if (!mx_ok(c)) return t;
  c->b.st = tn_graph_add_const(c->b.g, tn_type_make(c->b.g, TN_F32, 1, &n), table, sizeof table, c->b.prov, &t);
  return tn_b_take(&c->b, t, mx_cast(c, x, TN_I32), 0);
}

/* |x| (never NaN here) as a code without sign. */
static tn_ref magnitude(tn_ox *c, tn_ref ax, const lowp *f, bool saturate) {
  tn_ref z = tn_b_muln(&c->b, mx_2n(c, TN_OP_MIN, ax, ldexp(1, f->emax + 1)), ldexp(1, f->m - f->emin)), acc = mx_num(c, ax, 0);
  int step = 1;
  while (2 * step <= f->emax + 1 - f->emin) step *= 2;
  for (; step; step /= 2) {
    tn_ref big = mx_2n(c, TN_OP_GE, z, ldexp(1, f->m + step));
    acc = mx_sel(c, big, tn_b_addn(&c->b, acc, step << f->m), acc);
    z = mx_sel(c, big, tn_b_muln(&c->b, z, ldexp(1, -step)), z);
  }
  tn_ref code = mx_add(c, acc, mx_1(c, TN_OP_ROUND, z));
  return mx_sel(c, mx_2n(c, TN_OP_GT, code, f->max), mx_num(c, code, saturate ? f->max : f->over), code);
}
static tn_ref to_small_float(tn_ox *c, tn_ref x, const lowp *f, bool saturate) {
  tn_ref nan = mx_1(c, TN_OP_ISNAN, x), zero = mx_num(c, x, 0);
  tn_ref neg = mx_2(c, TN_OP_OR, mx_2(c, TN_OP_LT, x, zero), mx_2(c, TN_OP_LT, mx_1(c, TN_OP_RECIPROCAL, x), zero));   /* -0 has -inf */
  tn_ref code = magnitude(c, mx_sel(c, nan, zero, mx_1(c, TN_OP_ABS, x)), f, saturate);
  if (f->fn_zero) neg = mx_2(c, TN_OP_AND, neg, mx_2(c, TN_OP_NE, code, zero));
  tn_ref with_sign = mx_sel(c, neg, tn_b_addn(&c->b, code, f->sign), code);
  if (f->over == f->nan && f->nan == f->sign) with_sign = mx_sel(c, mx_2n(c, TN_OP_EQ, code, f->nan), code, with_sign);   /* one NaN, without sign */
  return mx_cast(c, mx_sel(c, nan, mx_num(c, x, f->nan), with_sign), TN_U8);
}

/* Powers of two: the exponent field of an f32 (subnormals: 0), raised by the rounding mode. */
static tn_ref to_e8m0(tn_ox *c, tn_ref x, bool saturate, const char *mode) {
  tn_ref a = mx_1(c, TN_OP_ABS, mx_cast(c, mx_cast(c, x, TN_F32), TN_F64));
  tn_ref odd = mx_2(c, TN_OP_OR, mx_1(c, TN_OP_ISNAN, a), mx_1(c, TN_OP_ISINF, a)), zero = mx_num(c, a, 0);
  tn_ref z = tn_b_muln(&c->b, mx_sel(c, odd, zero, a), ldexp(1, 126)), z0 = z;
  tn_ref normal = mx_2n(c, TN_OP_GE, z, 1), k = mx_sel(c, normal, mx_num(c, a, 1), zero);
  for (int step = 128; step; step /= 2) {
    tn_ref big = mx_2n(c, TN_OP_GE, z, ldexp(1, step));
    k = mx_sel(c, big, tn_b_addn(&c->b, k, step), k);
    z = mx_sel(c, big, tn_b_muln(&c->b, z, ldexp(1, -step)), z);
  }
  tn_ref raise = {0};
  if (!strcmp(mode, "up")) raise = mx_2(c, TN_OP_GT, z, mx_sel(c, normal, mx_num(c, a, 1), zero));
  else if (!strcmp(mode, "nearest")) raise = mx_sel(c, normal, mx_2n(c, TN_OP_GE, z, 1.5), mx_2n(c, TN_OP_GT, z, 0.5));
  else if (strcmp(mode, "down")) { tn_ox_bad(c, "round_mode is \"%s\"", mode); return x; }
  if (raise.id) k = mx_sel(c, raise, tn_b_addn(&c->b, k, 1), k);
  if (saturate) {
    k = mx_2n(c, TN_OP_MIN, k, 254);
    k = mx_sel(c, mx_1(c, TN_OP_ISINF, a), mx_num(c, a, 254), k);
    k = mx_sel(c, mx_1(c, TN_OP_ISNAN, a), mx_num(c, a, 255), k);
  } else {
    tn_ref none = mx_2(c, TN_OP_OR, odd, mx_2n(c, TN_OP_LT, z0, 0.5));   /* under 2^-127 */
    k = mx_sel(c, none, mx_num(c, a, 255), k);
  }
  return mx_cast(c, k, TN_U8);
}

static tn_ref to_small_int(tn_ox *c, tn_ref x, int bits, bool is_signed) {
  tn_dtype t = mx_dtype(c, x);
  if (tn_dtype_is_float(t)) x = mx_cast(c, x, t == TN_F64 ? TN_I64 : TN_I32);
  else if (t == TN_BOOL) x = mx_cast(c, x, TN_U8);
  int64_t half = (int64_t)1 << (bits - 1);
  x = mx_2(c, TN_OP_AND, x, tn_b_int(&c->b, 2 * half - 1, mx_dtype(c, x)));
  if (!is_signed) return mx_cast(c, x, TN_U8);
  tn_ref h = tn_b_int(&c->b, half, TN_I8);
  return mx_sub(c, mx_2(c, TN_OP_XOR, mx_cast(c, x, TN_I8), h), h);
}

/* To the storage dtype of `to`. */
static tn_ref convert(tn_ox *c, tn_ref x, int to, bool saturate, const char *mode) {
  tn_dtype t = mx_dtype(c, x);
  const lowp *f = format_of(to);
  if (f || to == E8M0) {
    x = tn_dtype_is_float(t) ? tn_b_up(&c->b, x) : mx_cast(c, x, t == TN_I64 || t == TN_U64 || t == TN_I32 || t == TN_U32 ? TN_F64 : TN_F32);
    return f ? to_small_float(c, x, f, saturate) : to_e8m0(c, x, saturate, mode);
  }
  switch (to) {
  case 21: return to_small_int(c, x, 4, false);
  case 22: return to_small_int(c, x, 4, true);
  case 25: return to_small_int(c, x, 2, false);
  case 26: return to_small_int(c, x, 2, true);
  default: return mx_cast(c, x, (tn_dtype)tn_ox_dtype_of(to));
  }
}

tn_ref tn_ox_cast(tn_ox *c, tn_ref x, int to, bool saturate, const char *round_mode) {
  if (!mx_ok(c)) return x;
  int from = tn_ox_elem(c, x), st = tn_ox_dtype_of(to);
  if (st < 0) { tn_ox_unsup(c, "cast to element type %d", to); return x; }
  if (from == to) return x;
  if (from == 8 || to == 8) return tn_ox_cast_string(c, x, to);
  if (format_of(from) || from == E8M0) x = from_small_float(c, x, from);
  tn_ref y = convert(c, x, to, saturate, round_mode);
  if (mx_ok(c) && y.id == x.id) y = mx_1(c, TN_OP_COPY, x);   /* uint4 to uint8: the same bytes, but the element type belongs to the value */
  x = y;
  if (mx_ok(c) && tn_ox_elem_of((tn_dtype)st) != to) tn_ox_set_elem(c, x, to);
  return x;
}

/* Exponentials: exp, exp2, expm1, and what is built on them: sigmoid, tanh, sinh, cosh.
 *
 * Range reduction after Cody and Waite (Software Manual for the Elementary Functions, 1980): x = n ln2 + r with |r| <= ln2/2,
 * ln2 in two parts, each product exact inside an FMA. Adding 1.5 * 2^23 rounds x * log2(e) to the integer n and leaves n in
 * the low bits of the sum, so 2^n is made by a shift and an integer add to the exponent of the polynomial's value. No
 * rounding instruction, no conversion, no table. Results below the least normal number become 0; selects come last, where
 * AVX-512 folds them into masked adds. f32: exp is 15 instructions. */
#include "kir/vmath_int.h"
#include "kir/vmath_tables.h"

#define LOG2E 0x1.71547652b82fep+0
/* ln2 in two parts for each type */
#define LN2_HI32 0x1.62e43p-1
#define LN2_LO32 -0x1.05c610ca86c39p-29
#define LN2_HI64 0x1.62e42fefa39efp-1
#define LN2_LO64 0x1.abc9e3b39803fp-56

/* x = n ln2 + r: yields a value with n in its low bits */
static tn_nv reduce(const tn_vm *m, tn_nv x, tn_nv *out_r) {
  tn_nv t = vm_fma(m, x, vm_c(m, LOG2E), vm_magic(m)), n = vm_sub(m, t, vm_magic(m));
  tn_nv r = vm_fma(m, n, vm_c2(m, -LN2_HI32, -LN2_HI64), x);
  *out_r = vm_fma(m, n, vm_c2(m, -LN2_LO32, -LN2_LO64), r);
  return t;
}

/* 2^n as an addend to the exponent field, n from the low bits of t */
static tn_nv exponent(const tn_vm *m, tn_nv t) { return vm_shl(m, vm_bits(m, t), vm_ci(m, vm_mantissa_bits(m))); }

static tn_nv scale(const tn_vm *m, tn_nv p, tn_nv t) { return vm_float(m, vm_add(m, vm_bits(m, p), exponent(m, t))); }

static tn_nv one_plus(const tn_vm *m, tn_nv r, tn_nv p) { return vm_fma(m, vm_fma(m, p, r, vm_c(m, 1)), r, vm_c(m, 1)); }

tn_nv vm_exp_core(const tn_vm *m, tn_nv x) {
  tn_nv r, t = reduce(m, x, &r);
  return scale(m, one_plus(m, r, VM_POLY(m, r, expm1_p)), t);
}

/* v where lo <= x <= hi; below 0, above inf, NaN stays */
static tn_nv limit(const tn_vm *m, tn_nv x, tn_nv v, tn_nv lo, tn_nv hi) {
  v = vm_sel(m, vm_lt(m, x, lo), vm_c(m, 0), v);
  return vm_sel(m, vm_le(m, x, hi), v, vm_add(m, x, vm_inf(m)));
}

static tn_nv exp_max(const tn_vm *m) { return vm_c2(m, 0x1.62e42ep+6, 0x1.62e42fefa39efp+9); }

tn_nv vm_exp(const tn_vm *m, tn_nv x) {
  return limit(m, x, vm_exp_core(m, x), vm_c2(m, -0x1.5d589ep+6, -0x1.6232bdd7abcd2p+9), exp_max(m));
}

tn_nv vm_exp2_sum(const tn_vm *m, tn_nv hi, tn_nv lo) {
  tn_nv t = vm_add(m, hi, vm_magic(m)), r = vm_sub(m, hi, vm_sub(m, t, vm_magic(m)));
  if (lo) r = vm_add(m, r, lo);
  tn_nv v = scale(m, vm_fma(m, r, VM_POLY(m, r, exp2_p), vm_c(m, 1)), t);
  /* 1 - 2^-24 before the end: 2^x itself must be finite */
  return limit(m, hi, v, vm_c2(m, -126, -1022), vm_c2(m, 0x1.fffffep+6, 0x1.fffffffffffffp+9));
}

tn_nv vm_exp2(const tn_vm *m, tn_nv x) { return vm_exp2_sum(m, x, 0); }

/* e^r - 1 of the reduced argument, to full relative precision */
static tn_nv small_expm1(const tn_vm *m, tn_nv r) { return vm_fma(m, vm_mul(m, r, r), VM_POLY(m, r, expm1_p), r); }

/* 2^n (q + 1) - 1 = q 2^n + (2^n - 1), in halves so that n = 128 does not overflow. Tiny x, which includes -0, is its own result. */
tn_nv vm_expm1(const tn_vm *m, tn_nv x) {
  tn_nv r, t = reduce(m, vm_max(m, vm_c2(m, -17.5, -38), x), &r);
  tn_nv half = vm_float(m, vm_add(m, exponent(m, t), vm_bits(m, vm_c(m, 0.5))));
  tn_nv h = vm_fma(m, small_expm1(m, r), half, vm_sub(m, half, vm_c(m, 0.5)));
  tn_nv v = vm_sel(m, vm_le(m, x, exp_max(m)), vm_add(m, h, h), vm_add(m, x, vm_inf(m)));
  return vm_sel(m, vm_lt(m, vm_abs(m, x), vm_c2(m, 0x1p-25, 0x1p-54)), x, v);
}

/* 1 / (1 + e^-x) with 1 + e^-x = 2^n + (q 2^n + 1). Clamped only where e^-x no longer counts. */
tn_nv vm_sigmoid(const tn_vm *m, tn_nv x) {
  tn_nv one = vm_c(m, 1), z = vm_max(m, vm_c2(m, -87, -708), vm_neg(m, x)), r, t = reduce(m, z, &r);
  tn_nv two_n = vm_float(m, vm_add(m, exponent(m, t), vm_bits(m, one)));
  tn_nv d = vm_add(m, two_n, vm_fma(m, small_expm1(m, r), two_n, one));
  d = vm_sel(m, vm_le(m, z, vm_c2(m, 88.37, 709.43)), d, vm_add(m, z, vm_inf(m))); /* n <= 127 (1023) */
  return vm_div(m, one, d);
}

/* e / (e + 2) with e = expm1(2|x|); a polynomial where that would lose an ULP; beyond the clamp the result rounds to 1. */
tn_nv vm_tanh(const tn_vm *m, tn_nv x) {
  tn_nv a = vm_min(m, vm_c2(m, 9.25, 20), vm_abs(m, x)), one = vm_c(m, 1), y = vm_mul(m, a, a), r, t = reduce(m, vm_add(m, a, a), &r);
  tn_nv two_n = vm_float(m, vm_add(m, exponent(m, t), vm_bits(m, one)));
  tn_nv e = vm_fma(m, small_expm1(m, r), two_n, vm_sub(m, two_n, one));
  tn_nv big = vm_div(m, e, vm_add(m, e, vm_c(m, 2))), small = vm_fma(m, vm_mul(m, a, y), VM_POLY(m, y, tanh_p), a);
  return vm_copysign(m, vm_sel(m, vm_lt(m, a, vm_c(m, 0.3)), small, big), x);
}

/* H = e^a / 4, which is finite for every a whose cosh is */
static tn_nv quarter_exp(const tn_vm *m, tn_nv a) {
  tn_nv r, t = reduce(m, vm_min(m, vm_c2(m, 90, 711), a), &r);
  tn_nv p = one_plus(m, r, VM_POLY(m, r, expm1_p));
  tn_nv two = vm_ci(m, (int64_t)2 << vm_mantissa_bits(m));
  return vm_float(m, vm_add(m, vm_bits(m, p), vm_sub(m, exponent(m, t), two)));
}

tn_nv vm_cosh(const tn_vm *m, tn_nv x) {
  tn_nv h = quarter_exp(m, vm_abs(m, x)), v = vm_add(m, h, vm_div(m, vm_c(m, 0.0625), h));
  v = vm_sel(m, vm_gt(m, vm_abs(m, x), vm_c2(m, 89.5, 710.5)), vm_inf(m), vm_add(m, v, v));
  return vm_sel(m, vm_is_nan(m, x), x, v);
}

tn_nv vm_sinh(const tn_vm *m, tn_nv x) {
  tn_nv a = vm_abs(m, x), y = vm_mul(m, a, a), h = quarter_exp(m, a);
  tn_nv big = vm_sub(m, h, vm_div(m, vm_c(m, 0.0625), h));
  big = vm_sel(m, vm_gt(m, a, vm_c2(m, 89.5, 710.5)), vm_inf(m), vm_add(m, big, big));
  tn_nv small = vm_fma(m, vm_mul(m, a, y), VM_POLY(m, y, sinh_p), a);
  return vm_copysign(m, vm_sel(m, vm_gt(m, a, vm_c(m, 1)), big, small), x); /* NaN takes the small way */
}

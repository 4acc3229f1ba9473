/* Trigonometric functions and their inverses.
 *
 * sin, cos, tan: |x| = n pi/2 + r, |r| <= pi/4. Cody and Waite's reduction in three parts, made exact by FMA: the first part
 * leaves a remainder that is a multiple of the last bit of the constant and so is representable, the others correct it; good for
 * every n that the rounding step can hold. Lanes beyond 2^17 (f64: 2^48) take a branch to vmath_reduce.c.
 *
 * asin: polynomial up to 1/2, beyond pi/2 - 2 asin(sqrt((1-x)/2)). atan: one division brings the argument below tan(pi/8). */
#include "kir/vmath_int.h"
#include "kir/vmath_tables.h"

#define PIO2_HI 0x1.921fb54442d18p+0
#define PIO2_LO 0x1.1a62633145c07p-54

/* a = |x| */
static vm_reduced reduce(const tn_vm *m, tn_nv a) {
  tn_nv t = vm_fma(m, a, vm_c(m, 0x1.45f306dc9c883p-1), vm_magic(m)), n = vm_sub(m, t, vm_magic(m));
  tn_nv r = vm_fma(m, n, vm_c2(m, -0x1.921fb6p+0, -PIO2_HI), a);
  r = vm_fma(m, n, vm_c2(m, 0x1.777a5cp-25, -0x1.1a62633145c07p-54), r);
  r = vm_fma(m, n, vm_c2(m, 0x1.ee59dap-50, 0x1.f1976b7ed8fbcp-110), r);
  tn_nv q = vm_bits(m, t), huge = vm_and(m, vm_gt(m, a, vm_c2(m, 0x1p17, 0x1p48)), vm_lt(m, a, vm_inf(m)));
  tn_nv vr = tn_n_var(m->n, r), vq = tn_n_var(m->n, q);
  tn_n_if(m->n, vm_any(m, huge));
  vm_reduced slow = vm_reduce_huge(m, a);
  tn_n_set(m->n, vr, vm_sel(m, huge, slow.r, r));
  tn_n_set(m->n, vq, vm_sel(m, huge, slow.q, q));
  tn_n_end(m->n);
  return (vm_reduced){tn_n_get(m->n, vr), tn_n_get(m->n, vq)};
}

static tn_nv sin_poly(const tn_vm *m, tn_nv r, tn_nv y) { return vm_fma(m, vm_mul(m, r, y), VM_POLY(m, y, sin_p), r); }

static tn_nv cos_poly(const tn_vm *m, tn_nv y) {
  tn_nv half = vm_mul(m, y, vm_c(m, 0.5)), one = vm_c(m, 1);
  if (!m->d) return vm_fma(m, vm_mul(m, y, y), VM_POLY(m, y, cos_p), vm_sub(m, one, half));
  tn_nv w = vm_sub(m, one, half), lost = vm_sub(m, vm_sub(m, one, w), half); /* what 1 - y/2 rounded off */
  return vm_add(m, w, vm_fma(m, vm_mul(m, y, y), VM_POLY(m, y, cos_p), lost));
}

static tn_nv is_odd(const tn_vm *m, tn_nv q) { return vm_ne(m, vm_and(m, q, vm_ci(m, 1)), vm_ci(m, 0)); }
/* bit 1 of q, moved to the sign */
static tn_nv half_turn(const tn_vm *m, tn_nv q) { return vm_and(m, vm_shl(m, q, vm_ci2(m, 30, 62)), vm_sign_mask(m)); }

tn_nv vm_sin(const tn_vm *m, tn_nv x) {
  vm_reduced d = reduce(m, vm_abs(m, x));
  tn_nv y = vm_mul(m, d.r, d.r), v = vm_sel(m, is_odd(m, d.q), cos_poly(m, y), sin_poly(m, d.r, y));
  return vm_flip(m, v, vm_xor(m, half_turn(m, d.q), vm_sign_bit(m, x)));
}

tn_nv vm_cos(const tn_vm *m, tn_nv x) {
  vm_reduced d = reduce(m, vm_abs(m, x));
  tn_nv y = vm_mul(m, d.r, d.r), v = vm_sel(m, is_odd(m, d.q), sin_poly(m, d.r, y), cos_poly(m, y));
  return vm_flip(m, v, half_turn(m, vm_add(m, d.q, vm_ci(m, 1)))); /* minus in quadrants 1 and 2 */
}

tn_nv vm_tan(const tn_vm *m, tn_nv x) {
  vm_reduced d = reduce(m, vm_abs(m, x));
  tn_nv y = vm_mul(m, d.r, d.r), s = sin_poly(m, d.r, y), c = cos_poly(m, y), odd = is_odd(m, d.q);
  tn_nv v = vm_div(m, vm_sel(m, odd, vm_neg(m, c), s), vm_sel(m, odd, s, c));
  return vm_flip(m, v, vm_sign_bit(m, x));
}

/* ---- inverse functions ---- */

/* asin(z) for 0 <= z <= 1/2, y = z^2 */
static tn_nv small_asin(const tn_vm *m, tn_nv z, tn_nv y) { return vm_fma(m, vm_mul(m, z, y), VM_POLY(m, y, asin_p), z); }

static tn_nv pio2_minus(const tn_vm *m, tn_nv v) {
  return vm_sub(m, vm_c2(m, 0x1.921fb6p+0, PIO2_HI), vm_sub(m, v, vm_c2(m, -0x1.777a5cp-25, PIO2_LO)));
}

tn_nv vm_asin(const tn_vm *m, tn_nv x) {
  tn_nv a = vm_abs(m, x), upper = vm_gt(m, a, vm_c(m, 0.5));
  tn_nv y = vm_sel(m, upper, vm_mul(m, vm_sub(m, vm_c(m, 1), a), vm_c(m, 0.5)), vm_mul(m, a, a));
  tn_nv v = small_asin(m, vm_sel(m, upper, vm_sqrt(m, y), a), y);
  return vm_copysign(m, vm_sel(m, upper, pio2_minus(m, vm_add(m, v, v)), v), x);
}

tn_nv vm_acos(const tn_vm *m, tn_nv x) {
  tn_nv a = vm_abs(m, x), upper = vm_gt(m, a, vm_c(m, 0.5)), negative = vm_lt(m, x, vm_c(m, 0));
  tn_nv y = vm_sel(m, upper, vm_mul(m, vm_sub(m, vm_c(m, 1), a), vm_c(m, 0.5)), vm_mul(m, a, a));
  tn_nv v = small_asin(m, vm_sel(m, upper, vm_sqrt(m, y), a), y), two = vm_add(m, v, v);
  tn_nv pi_minus = vm_sub(m, vm_c2(m, 0x1.921fb6p+1, 0x1.921fb54442d18p+1), vm_sub(m, two, vm_c2(m, -0x1.777a5cp-24, 0x1.1a62633145c07p-53)));
  tn_nv inner = pio2_minus(m, vm_flip(m, v, vm_sign_bit(m, x)));
  return vm_sel(m, upper, vm_sel(m, negative, pi_minus, two), inner);
}

/* atan(top / bottom) for 0 <= top <= bottom; 0/0 is 0, inf/inf is 1 */
static tn_nv atan_ratio(const tn_vm *m, tn_nv top, tn_nv bottom) {
  tn_nv turn = vm_gt(m, top, vm_mul(m, bottom, vm_c(m, 0x1.a827999fcef32p-2)));
  tn_nv z = vm_div(m, vm_sel(m, turn, vm_sub(m, top, bottom), top), vm_sel(m, turn, vm_add(m, top, bottom), bottom));
  tn_nv y = vm_mul(m, z, z), p = vm_mul(m, vm_mul(m, z, y), VM_POLY(m, y, atan_p));
  tn_nv low = vm_sel(m, turn, vm_c2(m, -0x1.777a5cp-26, PIO2_LO / 2), vm_c(m, 0));
  tn_nv high = vm_sel(m, turn, vm_c2(m, 0x1.921fb6p-1, PIO2_HI / 2), vm_c(m, 0));
  return vm_add(m, high, vm_add(m, z, vm_add(m, p, low)));
}

tn_nv vm_atan(const tn_vm *m, tn_nv x) {
  tn_nv a = vm_abs(m, x), one = vm_c(m, 1), inverse = vm_gt(m, a, one);
  tn_nv v = atan_ratio(m, vm_sel(m, inverse, one, a), vm_sel(m, inverse, vm_min(m, vm_c2(m, 0x1p100, 0x1p900), a), one));
  return vm_copysign(m, vm_sel(m, inverse, pio2_minus(m, v), v), x);
}

tn_nv vm_atan2(const tn_vm *m, tn_nv y, tn_nv x) {
  tn_nv zero = vm_c(m, 0), ax = vm_abs(m, x), ay = vm_abs(m, y), steep = vm_gt(m, ay, ax);
  tn_nv big = vm_sel(m, steep, ay, ax), small = vm_sel(m, steep, ax, ay), inf = vm_inf(m);
  tn_nv both_inf = vm_eq(m, small, inf), big_inf = vm_eq(m, big, inf), both_zero = vm_eq(m, big, zero);
  /* a quarter keeps top + bottom finite; limits are put in by hand */
  tn_nv factor = vm_sel(m, vm_gt(m, big, vm_c2(m, 0x1p100, 0x1p1000)), vm_c(m, 0.25), vm_sel(m, vm_lt(m, big, vm_c2(m, 0x1p-100, 0x1p-900)), vm_c2(m, 0x1p24, 0x1p60), vm_c(m, 1)));
  tn_nv top = vm_sel(m, both_inf, vm_c(m, 1), vm_sel(m, vm_or(m, big_inf, both_zero), zero, vm_mul(m, small, factor)));
  tn_nv bottom = vm_sel(m, vm_or(m, big_inf, both_zero), vm_c(m, 1), vm_mul(m, big, factor));
  tn_nv v = atan_ratio(m, top, bottom);
  v = vm_sel(m, steep, pio2_minus(m, v), v);
  tn_nv pi_minus = vm_sub(m, vm_c2(m, 0x1.921fb6p+1, 0x1.921fb54442d18p+1), vm_sub(m, v, vm_c2(m, -0x1.777a5cp-24, 0x1.1a62633145c07p-53)));
  v = vm_sel(m, vm_lt(m, vm_bits(m, x), vm_ci(m, 0)), pi_minus, v);
  v = vm_copysign(m, v, y);
  return vm_sel(m, vm_or(m, vm_is_nan(m, x), vm_is_nan(m, y)), vm_add(m, x, y), v);
}

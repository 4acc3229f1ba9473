/* erf and erfc.
 *
 * erf in f32 is two polynomials and a select: an odd one in x^2 up to 1.25, and one around the middle of the rest, which
 * ends where erf and the polynomial both round to 1 (at 3.921875; 1 ulp less would be a large error in GELU of -1e6). No
 * division, no exponential: it sits in the loops of GELU. In f64 the upper part is 1 - erfc.
 * erfc(x) = e^(-x^2) P(t) / (1 + 2x) with t = (x - k) / (x + k), which maps half a line to an interval, as in Shepherd and
 * Laframboise (Math. Comp. 36, 1981). e^(-x^2) gets the rounding error of x^2 back as a factor. */
#include "kir/vmath_int.h"
#include "kir/vmath_tables.h"

/* |x| <= 1.25 (f64: 1) */
static tn_nv small_erf(const tn_vm *m, tn_nv a) { return vm_fma(m, a, VM_POLY(m, vm_mul(m, a, a), erf_p), a); }

/* erfc for a >= 0.5 */
static tn_nv large_erfc(const tn_vm *m, tn_nv a) {
  tn_nv k = vm_c2(m, 2, 3), top = vm_c2(m, 10.06, 27.3);
  tn_nv x = vm_min(m, top, a);
  tn_nv t = vm_div(m, vm_sub(m, x, k), vm_add(m, x, k));
  tn_nv p = vm_div(m, VM_POLY(m, t, erfc_p), vm_fma(m, x, vm_c(m, 2), vm_c(m, 1)));
  tn_nv s = vm_mul(m, x, x), low = vm_fma(m, x, x, vm_neg(m, s));
  tn_nv e = vm_exp(m, vm_neg(m, s));
  p = vm_fma(m, p, vm_neg(m, low), p);
  return vm_mul(m, e, p);
}

tn_nv vm_erf(const tn_vm *m, tn_nv x) {
  tn_nv a = vm_abs(m, x), small = small_erf(m, a), large;
  if (m->d) {
    large = vm_sub(m, vm_c(m, 1), large_erfc(m, a));
  } else {
    tn_nv t = vm_sub(m, vm_min(m, vm_c(m, 3.921875), a), vm_c(m, 2.59375));
    large = VM_POLY1(m, t, erf_q_f32);
  }
  return vm_copysign(m, vm_sel(m, vm_lt(m, a, vm_c2(m, 1.25, 1)), small, large), x);
}

tn_nv vm_erfc(const tn_vm *m, tn_nv x) {
  tn_nv a = vm_abs(m, x), half = vm_c(m, 0.5);
  tn_nv big = large_erfc(m, vm_max(m, half, a));
  tn_nv far = vm_sel(m, vm_lt(m, x, vm_c(m, 0)), vm_sub(m, vm_c(m, 2), big), big);
  tn_nv near = vm_sub(m, vm_c(m, 1), vm_flip(m, small_erf(m, a), vm_sign_bit(m, x)));
  return vm_sel(m, vm_lt(m, a, half), near, far);
}

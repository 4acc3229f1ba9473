/* Logarithms: log, log2, log10, log1p, the inverse hyperbolic functions, and pow.
 *
 * x = 2^e m with 2/3 <= m < 4/3, found by integer arithmetic on the bits, so that e is 0 around 1 and nothing cancels there.
 * f = m - 1 is exact. f32: log(1+f) = f - f^2/2 + f^3 P(f). f64: s = f / (2 + f), log(1+f) = 2 atanh(s) = 2s + s^3 P(s^2).
 * e ln2 is added in two parts. log1p keeps what 1 + x rounded off (two-sum) and adds it to f.
 *
 * pow(x, y) = 2^(y log2 x). In f32 it is computed in f64 lanes, which needs no tricks. In f64 log2 x is a sum of two doubles:
 * s and the leading term of the series are kept with their rounding errors (Dekker's arithmetic, by FMA). */
#include "kir/vmath_int.h"
#include "kir/vmath_tables.h"

#define LOG2E_HI 0x1.71547652b82fep+0
#define LOG2E_LO 0x1.777d0ffda0d24p-56
#define LN2_HI32 0x1.62e43p-1
#define LN2_LO32 -0x1.05c610ca86c39p-29
#define LN2_HI64 0x1.62e42fefa39efp-1
#define LN2_LO64 0x1.abc9e3b39803fp-56

typedef struct parts { tn_nv e_int, e, f; } parts; /* x = 2^e (1 + f) for normal x > 0 */

static parts split(const tn_vm *m, tn_nv x) {
  tn_nv tiny = vm_lt(m, x, vm_c2(m, 0x1p-126, 0x1p-1022)), bits = vm_ci(m, vm_mantissa_bits(m));
  tn_nv two_thirds = vm_bits(m, vm_c2(m, 0x1.555556p-1, 0x1.5555555555555p-1));
  x = vm_sel(m, tiny, vm_mul(m, x, vm_c2(m, 0x1p24, 0x1p54)), x);
  tn_nv shifted = vm_sub(m, vm_bits(m, x), two_thirds);
  tn_nv mant = vm_and(m, shifted, vm_ci2(m, (1 << 23) - 1, ((int64_t)1 << 52) - 1));
  parts p;
  p.e_int = vm_add(m, vm_shr(m, shifted, bits), vm_sel(m, tiny, vm_ci2(m, -24, -54), vm_ci(m, 0)));
  /* int to float by way of the magic number: cheap for 64 bits too */
  p.e = vm_sub(m, vm_float(m, vm_add(m, p.e_int, vm_bits(m, vm_magic(m)))), vm_magic(m));
  p.f = vm_sub(m, vm_float(m, vm_add(m, mant, two_thirds)), vm_c(m, 1));
  return p;
}

/* log(1 + f) = f + r, r + add */
static tn_nv rest_of_log(const tn_vm *m, tn_nv f, tn_nv add) {
  tn_nv y = vm_mul(m, f, f);
  if (m->d) { /* f - s f + s^3 P = 2s + s^3 P, because 2s = f - s f */
    tn_nv s = vm_div(m, f, vm_add(m, f, vm_c(m, 2))), s2 = vm_mul(m, s, s);
    /* 2s = f - f^2/2 + s f^2/2: the rounding error of s is scaled down by f^2/2 */
    tn_nv half = vm_mul(m, y, vm_c(m, 0.5));
    tn_nv t = vm_mul(m, s, vm_fma(m, s2, VM_POLY1(m, s2, log_s_f64), half));
    return vm_sub(m, vm_add(m, t, add), half);
  }
  tn_nv r = vm_fma(m, vm_mul(m, f, y), VM_POLY1(m, f, log_p_f32), add);
  return vm_fma(m, y, vm_c(m, -0.5), r);
}

/* v for positive finite x; log's limits elsewhere */
static tn_nv limits(const tn_vm *m, tn_nv x, tn_nv v) {
  tn_nv zero = vm_c(m, 0);
  v = vm_sel(m, vm_gt(m, x, zero), v, vm_sel(m, vm_eq(m, x, zero), vm_c(m, -INFINITY), vm_nan(m)));
  return vm_sel(m, vm_eq(m, x, vm_inf(m)), vm_inf(m), v);
}

static tn_nv log_of(const tn_vm *m, parts p) {
  tn_nv r = rest_of_log(m, p.f, vm_mul(m, p.e, vm_c2(m, LN2_LO32, LN2_LO64)));
  return vm_fma(m, p.e, vm_c2(m, LN2_HI32, LN2_HI64), vm_add(m, p.f, r));
}

tn_nv vm_log(const tn_vm *m, tn_nv x) { return limits(m, x, log_of(m, split(m, x))); }

tn_nv vm_log2(const tn_vm *m, tn_nv x) {
  parts p = split(m, x);
  tn_nv l = vm_add(m, p.f, rest_of_log(m, p.f, vm_c(m, 0)));
  return limits(m, x, vm_fma(m, l, vm_c(m, LOG2E_HI), p.e));
}

tn_nv vm_log10(const tn_vm *m, tn_nv x) {
  parts p = split(m, x);
  tn_nv l = vm_mul(m, vm_add(m, p.f, rest_of_log(m, p.f, vm_c(m, 0))), vm_c(m, 0x1.bcb7b1526e50ep-2));
  l = vm_fma(m, p.e, vm_c2(m, -0x1.ec10c0219dc1ep-27, -0x1.9dc1da994fd21p-59), l);
  return limits(m, x, vm_fma(m, p.e, vm_c2(m, 0x1.344136p-2, 0x1.34413509f79ffp-2), l));
}

tn_nv vm_log1p(const tn_vm *m, tn_nv x) {
  tn_nv one = vm_c(m, 1), u = vm_add(m, x, one), b = vm_sub(m, u, one);
  tn_nv low = vm_add(m, vm_sub(m, x, b), vm_sub(m, one, vm_sub(m, u, b)));
  parts p = split(m, u);
  tn_nv e = tn_n_op2(m->n, TN_S_MIN, p.e_int, vm_ci(m, 100)); /* beyond, `low` no longer counts */
  tn_nv scale = vm_float(m, vm_sub(m, vm_bits(m, one), vm_shl(m, e, vm_ci(m, vm_mantissa_bits(m)))));
  p.f = vm_fma(m, low, scale, p.f);
  tn_nv v = limits(m, u, log_of(m, p));
  return vm_sel(m, vm_lt(m, vm_abs(m, x), vm_c2(m, 0x1p-25, 0x1p-54)), x, v);
}

/* log(2a) for a so big that a^2 counts for nothing beside it */
static tn_nv log_2a(const tn_vm *m, tn_nv a) {
  parts p = split(m, a);
  p.e = vm_add(m, p.e, vm_c(m, 1));
  return limits(m, a, log_of(m, p));
}

static tn_nv big_argument(const tn_vm *m) { return vm_c2(m, 0x1p14, 0x1p28); }

/* log1p(a + a^2 / (1 + sqrt(1 + a^2))) */
tn_nv vm_asinh(const tn_vm *m, tn_nv x) {
  tn_nv a = vm_abs(m, x), y = vm_mul(m, a, a), one = vm_c(m, 1);
  tn_nv big = vm_gt(m, a, big_argument(m));
  tn_nv t = vm_div(m, y, vm_add(m, one, vm_sqrt(m, vm_add(m, y, one))));
  tn_nv v = vm_sel(m, big, log_2a(m, a), vm_log1p(m, vm_add(m, a, t)));
  return vm_copysign(m, v, x);
}

/* log1p(t + sqrt(t (t + 2))) with t = x - 1 */
tn_nv vm_acosh(const tn_vm *m, tn_nv x) {
  tn_nv t = vm_sub(m, x, vm_c(m, 1));
  tn_nv v = vm_log1p(m, vm_add(m, t, vm_sqrt(m, vm_mul(m, t, vm_add(m, t, vm_c(m, 2))))));
  v = vm_sel(m, vm_gt(m, x, big_argument(m)), log_2a(m, x), v);
  return vm_sel(m, vm_ge(m, x, vm_c(m, 1)), v, vm_nan(m));
}

tn_nv vm_atanh(const tn_vm *m, tn_nv x) {
  tn_nv a = vm_abs(m, x), one = vm_c(m, 1);
  tn_nv v = vm_log1p(m, vm_div(m, vm_add(m, a, a), vm_sub(m, one, a)));
  v = vm_sel(m, vm_gt(m, a, one), vm_nan(m), vm_mul(m, v, vm_c(m, 0.5)));
  v = vm_sel(m, vm_lt(m, a, vm_c2(m, 0x1p-14, 0x1p-28)), a, v);
  return vm_copysign(m, v, x);
}

/* ---- pow ---- */

typedef struct pair { tn_nv hi, lo; } pair; /* an unevaluated sum */

static pair product(const tn_vm *m, tn_nv a, tn_nv b) {
  tn_nv p = vm_mul(m, a, b);
  return (pair){p, vm_fma(m, a, b, vm_neg(m, p))};
}

/* |a| >= |b| or a = 0 */
static pair fast_sum(const tn_vm *m, tn_nv a, tn_nv b) {
  tn_nv s = vm_add(m, a, b);
  return (pair){s, vm_sub(m, b, vm_sub(m, s, a))};
}

/* log2 of positive x in f64 to about 2^-65, without log's limits */
static pair log2_pair(const tn_vm *m, tn_nv x) {
  parts p = split(m, x);
  tn_nv two = vm_c(m, 2), g = vm_add(m, p.f, two), g_low = vm_sub(m, p.f, vm_sub(m, g, two)); /* g + g_low = 2 + f */
  tn_nv s = vm_div(m, p.f, g);
  tn_nv rest = vm_fma(m, vm_neg(m, s), g_low, vm_fma(m, vm_neg(m, s), g, p.f)); /* f - s (2 + f) */
  tn_nv s_low = vm_div(m, rest, g);
  pair y = product(m, s, s);
  y.lo = vm_fma(m, vm_add(m, s, s), s_low, y.lo);
  /* 2 + y (2/3 + y P2): the 2/3 with its own low part */
  tn_nv tail = vm_mul(m, y.hi, vm_horner(m, y.hi, log_s_f64 + 1, (int)(sizeof log_s_f64 / sizeof *log_s_f64) - 1));
  pair c = fast_sum(m, vm_c(m, 0x1.5555555555555p-1), vm_add(m, tail, vm_c(m, 0x1.5555555555555p-55)));
  pair q = product(m, y.hi, c.hi);
  q.lo = vm_fma(m, y.hi, c.lo, vm_fma(m, y.lo, c.hi, q.lo));
  pair w = fast_sum(m, two, q.hi);
  w.lo = vm_add(m, w.lo, q.lo);
  pair l = product(m, s, w.hi); /* log(1 + f) = s w */
  l.lo = vm_fma(m, s, w.lo, vm_fma(m, s_low, w.hi, l.lo));
  pair b = product(m, l.hi, vm_c(m, LOG2E_HI));
  b.lo = vm_fma(m, l.hi, vm_c(m, LOG2E_LO), vm_fma(m, l.lo, vm_c(m, LOG2E_HI), b.lo));
  pair r = fast_sum(m, p.e, b.hi); /* |e| >= 1 > |log2 m|, or e = 0 */
  r.lo = vm_add(m, r.lo, b.lo);
  return fast_sum(m, r.hi, r.lo);
}

/* 2^(y log2 a) for a >= 0, f64 */
static tn_nv pow_positive(const tn_vm *m, tn_nv a, tn_nv y, bool exact) {
  if (!exact) return vm_exp2(m, vm_mul(m, y, vm_log2(m, a)));
  pair l = log2_pair(m, a), t = product(m, y, l.hi);
  tn_nv low = vm_fma(m, y, l.lo, t.lo);
  tn_nv v = vm_exp2_sum(m, t.hi, low), edge = vm_mul(m, y, limits(m, a, l.hi)); /* 0, inf: the plain product knows */
  tn_nv inner = vm_and(m, vm_gt(m, a, vm_c(m, 0)), vm_lt(m, vm_abs(m, edge), vm_c(m, 1100)));
  return vm_sel(m, inner, v, vm_exp2(m, edge));
}

tn_nv vm_pow(const tn_vm *m, tn_nv x, tn_nv y) {
  tn_nv zero = vm_c(m, 0), one = vm_c(m, 1), half = vm_mul(m, y, vm_c(m, 0.5)), a = vm_abs(m, x), v;
  if (m->d) {
    v = pow_positive(m, a, y, true);
  } else {
    tn_vm wide = vm_of(m->n, TN_F64, m->f.lanes);
    v = tn_n_cast(m->n, pow_positive(&wide, tn_n_cast(m->n, a, TN_F64), tn_n_cast(m->n, y, TN_F64), false), TN_F32);
  }
  tn_nv whole = vm_eq(m, y, vm_trunc(m, y)), odd = vm_and(m, whole, vm_ne(m, half, vm_trunc(m, half)));
  v = vm_flip(m, v, vm_sel(m, odd, vm_sign_bit(m, x), vm_ci(m, 0)));
  tn_nv no_root = vm_and(m, vm_and(m, vm_lt(m, x, zero), vm_not(m, whole)), vm_ne(m, a, vm_inf(m)));
  v = vm_sel(m, no_root, vm_nan(m), v);
  tn_nv is_one = vm_or(m, vm_or(m, vm_eq(m, y, zero), vm_eq(m, x, one)), vm_and(m, vm_eq(m, a, one), vm_eq(m, vm_abs(m, y), vm_inf(m))));
  return vm_sel(m, is_one, one, v);
}

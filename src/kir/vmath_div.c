/* The division family on floats and integers, and integer powers.
 *
 * Integers: everything comes from the emitter's truncating division, which is defined for every operand.
 * Floats: fmod is exact. q = trunc(a/b) and a - q b by FMA, in f64: the remainder of a rounded quotient is representable, so one
 * step is exact while q fits 53 bits, and repeating it takes away 53 bits of the quotient each time; the repetition is a loop
 * behind a branch. floordiv and remainder follow Python, as torch does. truncdiv rounds the quotient, then truncates, as torch does. */
#include "kir/vmath_int.h"

static tn_nv op(tn_nest *n, tn_scalar_op o, tn_nv a, tn_nv b) { return tn_n_op2(n, o, a, b); }

/* ---- integers ---- */

static tn_nv int_const(tn_nest *n, tn_nv like, int64_t v) {
  if (!like) return 0;
  tn_vt vt = tn_n_type(n, like);
  return tn_n_const(n, vt, tn_num_cast((tn_num){.i = v}, TN_I64, (tn_dtype)vt.dtype));
}

/* a - b trunc(a/b); 0 when b is 0 */
static tn_nv int_fmod(tn_nest *n, tn_nv a, tn_nv b) {
  tn_nv r = op(n, TN_S_SUB, a, op(n, TN_S_MUL, op(n, TN_S_TRUNCDIV, a, b), b)), zero = int_const(n, a, 0);
  return tn_n_select(n, op(n, TN_S_EQ, b, zero), zero, r);
}

tn_nv vm_int_division(tn_nest *n, tn_scalar_op o, tn_nv a, tn_nv b) {
  if (!a || !b) return 0;
  int64_t c;
  bool is_const = tn_n_is_const(n, b, &c), is_unsigned = tn_dtype_is_unsigned((tn_dtype)tn_n_type(n, a).dtype);
  if (o == TN_S_TRUNCDIV || (is_const && c > 0 && (c & (c - 1)) == 0 && o != TN_S_FMOD)) return op(n, o, a, b); /* powers of two fold */
  if (o == TN_S_FLOORDIV && is_unsigned) return op(n, TN_S_TRUNCDIV, a, b);
  tn_nv m = int_fmod(n, a, b), zero = int_const(n, a, 0);
  if (o == TN_S_FMOD || is_unsigned) return m;
  /* m has the sign of a: where it is the other than b's, one step more */
  tn_nv apart = op(n, TN_S_LT, op(n, TN_S_XOR, m, b), zero);
  apart = op(n, TN_S_AND, apart, op(n, TN_S_NE, m, zero));
  if (o == TN_S_REMAINDER) return op(n, TN_S_ADD, m, tn_n_select(n, apart, b, zero));
  return op(n, TN_S_SUB, op(n, TN_S_TRUNCDIV, a, b), tn_n_select(n, apart, int_const(n, a, 1), zero));
}

/* a^e for a known e >= 0 */
static tn_nv power_by_squaring(tn_nest *n, tn_nv a, int64_t e) {
  tn_nv r = 0;
  for (tn_nv base = a; e; e >>= 1) {
    if (e & 1) r = r ? op(n, TN_S_MUL, r, base) : base;
    if (e > 1) base = op(n, TN_S_MUL, base, base);
  }
  return r ? r : int_const(n, a, 1);
}

/* Wraps. Negative exponents: 1 and -1 stay what they are (by parity), others give 0. */
tn_nv vm_int_pow(tn_nest *n, tn_nv a, tn_nv e) {
  if (!a || !e) return 0;
  int64_t c;
  tn_nv zero = int_const(n, a, 0), one = int_const(n, a, 1);
  if (tn_n_is_const(n, e, &c) && c >= 0) return power_by_squaring(n, a, c);
  int64_t bits = (int64_t)tn_dtype_size(tn_n_type(n, a).dtype) * 8;
  tn_nv r = tn_n_var(n, one), base = tn_n_var(n, a), left = tn_n_var(n, e);
  tn_n_for(n, tn_n_i64(n, 0), tn_n_i64(n, bits), tn_n_i64(n, 1));
  tn_nv b = tn_n_get(n, base), l = tn_n_get(n, left), now = tn_n_get(n, r);
  tn_nv bit = op(n, TN_S_NE, op(n, TN_S_AND, l, one), zero);
  tn_n_set(n, r, tn_n_select(n, bit, op(n, TN_S_MUL, now, b), now));
  tn_n_set(n, base, op(n, TN_S_MUL, b, b));
  tn_n_set(n, left, op(n, TN_S_SHR, l, one));
  tn_n_end(n);
  tn_nv v = tn_n_get(n, r);
  if (tn_dtype_is_unsigned((tn_dtype)tn_n_type(n, a).dtype)) return v;
  tn_nv odd = op(n, TN_S_NE, op(n, TN_S_AND, e, one), zero), minus = int_const(n, a, -1);
  tn_nv of_minus = tn_n_select(n, odd, minus, one);
  tn_nv negative = tn_n_select(n, op(n, TN_S_EQ, a, one), one, tn_n_select(n, op(n, TN_S_EQ, a, minus), of_minus, zero));
  return tn_n_select(n, op(n, TN_S_LT, e, zero), negative, v);
}

/* ---- floats ---- */

/* One step of the remainder: r - d trunc(r/d). */
static tn_nv step(const tn_vm *m, tn_nv r, tn_nv d) { return vm_fma(m, vm_neg(m, vm_trunc(m, vm_div(m, r, d))), d, r); }

/* The rest of the remainder for quotients that do not fit 53 bits. Those of f32 reach 2^277: six steps. Those of f64 reach 2^2098 and
 * overflow, so the divisor is first d 2^1074, then d 2^537, as long as that is finite. */
static void long_fmod(const tn_vm *m, tn_nv var, tn_nv d, bool wide) {
  tn_nv huge = vm_c(m, 0x1p537), scaled[3] = {d, vm_mul(m, d, huge), vm_mul(m, vm_mul(m, d, huge), huge)};
  for (int k = wide ? 2 : 0; k >= 0; k--) {
    tn_n_for(m->n, tn_n_i64(m->n, 0), tn_n_i64(m->n, wide ? 21 : 6), tn_n_i64(m->n, 1));
    tn_nv r = tn_n_get(m->n, var), next = step(m, r, scaled[k]);
    tn_n_set(m->n, var, k ? vm_sel(m, vm_lt(m, scaled[k], vm_inf(m)), next, r) : next);
    tn_n_end(m->n);
  }
}

/* fmod in f64 lanes; wide: of f64 values, else of f32 ones */
static tn_nv float_fmod(const tn_vm *m, tn_nv a, tn_nv b, bool wide) {
  tn_nv r0 = vm_abs(m, a), d = vm_abs(m, b), zero = vm_c(m, 0), inf = vm_inf(m), first = step(m, r0, d);
  tn_nv far = vm_and(m, vm_ge(m, vm_div(m, r0, d), vm_c(m, 0x1p52)), vm_and(m, vm_gt(m, d, zero), vm_lt(m, r0, inf)));
  tn_nv var = tn_n_var(m->n, vm_sel(m, far, r0, first));
  tn_n_if(m->n, vm_any(m, far));
  long_fmod(m, var, d, wide);
  tn_n_end(m->n);
  tn_nv r = tn_n_get(m->n, var);
  r = vm_sel(m, vm_lt(m, r, zero), vm_add(m, r, d), r); /* the quotient was rounded up */
  r = vm_sel(m, vm_lt(m, r, d), r, vm_sub(m, r, d));
  r = vm_sel(m, vm_and(m, vm_eq(m, d, inf), vm_lt(m, r0, inf)), r0, r);
  return vm_copysign(m, vm_abs(m, r), a);
}

static tn_nv apart(const tn_vm *m, tn_nv mod, tn_nv b) {
  tn_nv zero = vm_c(m, 0);
  return vm_and(m, vm_ne(m, mod, zero), vm_xor(m, vm_lt(m, b, zero), vm_lt(m, mod, zero)));
}

static tn_nv float_floordiv(const tn_vm *m, tn_nv a, tn_nv b, bool wide) {
  tn_nv zero = vm_c(m, 0), one = vm_c(m, 1), mod = float_fmod(m, a, b, wide), plain = vm_div(m, a, b);
  tn_nv d = vm_div(m, vm_sub(m, a, mod), b);
  d = vm_sub(m, d, vm_sel(m, apart(m, mod, b), one, zero));
  tn_nv f = vm_floor(m, d);
  f = vm_sel(m, vm_gt(m, vm_sub(m, d, f), vm_c(m, 0.5)), vm_add(m, f, one), f);
  f = vm_sel(m, vm_eq(m, d, zero), vm_float(m, vm_sign_bit(m, plain)), f);
  return vm_sel(m, vm_eq(m, b, zero), plain, f);
}

tn_nv vm_float_division(tn_nest *n, tn_scalar_op o, tn_nv a, tn_nv b) {
  if (!a || !b) return 0;
  tn_dtype t = (tn_dtype)tn_n_type(n, a).dtype;
  if (o == TN_S_TRUNCDIV) return tn_n_op1(n, TN_S_TRUNC, op(n, TN_S_DIV, a, b));
  tn_vm m = vm_of(n, TN_F64, tn_n_type(n, a).lanes);
  a = tn_n_cast(n, a, TN_F64);
  b = tn_n_cast(n, b, TN_F64);
  tn_nv v;
  if (o == TN_S_FLOORDIV) {
    v = float_floordiv(&m, a, b, t == TN_F64);
  } else {
    v = float_fmod(&m, a, b, t == TN_F64);
    if (o == TN_S_REMAINDER) v = vm_sel(&m, apart(&m, v, b), vm_add(&m, v, b), v);
  }
  return tn_n_cast(n, v, t);
}

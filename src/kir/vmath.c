/* Vector maths: every scalar function becomes basic ones (tn_n_is_basic) on values of any dtype and any number of lanes.
 *
 * f16 and bf16 are computed in f32 and rounded once. f32 and f64 share one expansion each, with their own constants and
 * polynomials (vmath_tables.h, derived by tools/vmath_coeffs.py). The hard functions live in vmath_{exp,log,trig,erf,div}.c;
 * here are the dispatch and what is one line. Constant operands are evaluated here and now. docs/numerics.md has the measured
 * errors, tests/kernels/test_vmath.c the bounds. */
#include "kir/vmath_int.h"

bool tn_n_is_basic(tn_scalar_op op) {
  switch (op) {
    case TN_S_NEG: case TN_S_ABS: case TN_S_CEIL: case TN_S_FLOOR: case TN_S_ROUND: case TN_S_TRUNC: case TN_S_SQRT: case TN_S_NOT: case TN_S_ADD:
    case TN_S_SUB: case TN_S_MUL: case TN_S_DIV: case TN_S_TRUNCDIV: case TN_S_MAX: case TN_S_MIN: case TN_S_FMAX: case TN_S_FMIN: case TN_S_AND:
    case TN_S_OR: case TN_S_XOR: case TN_S_SHL: case TN_S_SHR: case TN_S_EQ: case TN_S_NE: case TN_S_LT: case TN_S_LE: case TN_S_GT: case TN_S_GE:
    case TN_S_SELECT: return true;
    default: return false;
  }
}

static tn_nv float_sign(const tn_vm *m, tn_nv x) {
  tn_nv zero = vm_c(m, 0);
  return vm_sel(m, vm_gt(m, x, zero), vm_c(m, 1), vm_sel(m, vm_lt(m, x, zero), vm_c(m, -1), zero));
}

/* Powers that have a cheaper and no less exact form. */
static tn_nv pow_by_constant(const tn_vm *m, tn_nv x, double y) {
  tn_nv one = vm_c(m, 1);
  if (y == 0) return one;
  if (y == 1) return x;
  if (y == 2) return vm_mul(m, x, x);
  if (y == -1) return vm_div(m, one, x);
  if (y == -2) return vm_div(m, one, vm_mul(m, x, x));
  if (y == 3) return vm_mul(m, vm_mul(m, x, x), x);
  if (y == 0.5) { /* -0 becomes 0, -inf becomes inf */
    tn_nv root = vm_sqrt(m, vm_add(m, x, vm_c(m, 0)));
    return vm_sel(m, vm_eq(m, x, vm_c(m, -INFINITY)), vm_inf(m), root);
  }
  return 0;
}

static tn_nv float_pow(const tn_vm *m, tn_nv x, tn_nv y) {
  const tn_ninst *i = &m->n->inst[y];
  tn_nv v = i->op == TN_N_CONST ? pow_by_constant(m, x, i->imm.f) : 0;
  return v || m->n->oom ? v : vm_pow(m, x, y);
}

/* x is f32 or f64 */
static tn_nv float_function(const tn_vm *m, tn_scalar_op op, tn_nv x, tn_nv y) {
  switch (op) {
    case TN_S_SIGN: return float_sign(m, x);
    case TN_S_RELU: return vm_max(m, vm_c(m, 0), x);
    case TN_S_ISNAN: return vm_is_nan(m, x);
    case TN_S_ISINF: return vm_eq(m, vm_abs(m, x), vm_inf(m));
    case TN_S_RECIPROCAL: return vm_div(m, vm_c(m, 1), x);
    case TN_S_RSQRT: return vm_div(m, vm_c(m, 1), vm_sqrt(m, x));
    case TN_S_EXP: return vm_exp(m, x);
    case TN_S_EXP2: return vm_exp2(m, x);
    case TN_S_EXPM1: return vm_expm1(m, x);
    case TN_S_SIGMOID: return vm_sigmoid(m, x);
    case TN_S_TANH: return vm_tanh(m, x);
    case TN_S_SINH: return vm_sinh(m, x);
    case TN_S_COSH: return vm_cosh(m, x);
    case TN_S_ERF: return vm_erf(m, x);
    case TN_S_ERFC: return vm_erfc(m, x);
    case TN_S_LOG: return vm_log(m, x);
    case TN_S_LOG2: return vm_log2(m, x);
    case TN_S_LOG10: return vm_log10(m, x);
    case TN_S_LOG1P: return vm_log1p(m, x);
    case TN_S_ASINH: return vm_asinh(m, x);
    case TN_S_ACOSH: return vm_acosh(m, x);
    case TN_S_ATANH: return vm_atanh(m, x);
    case TN_S_SIN: return vm_sin(m, x);
    case TN_S_COS: return vm_cos(m, x);
    case TN_S_TAN: return vm_tan(m, x);
    case TN_S_ASIN: return vm_asin(m, x);
    case TN_S_ACOS: return vm_acos(m, x);
    case TN_S_ATAN: return vm_atan(m, x);
    case TN_S_ATAN2: return vm_atan2(m, x, y);
    case TN_S_POW: return float_pow(m, x, y);
    case TN_S_FLOORDIV: case TN_S_TRUNCDIV: case TN_S_REMAINDER: case TN_S_FMOD: return vm_float_division(m->n, op, x, y);
    default: return tn_scalar_arity(op) == 1 ? tn_n_op1(m->n, op, x) : tn_n_op2(m->n, op, x, y);
  }
}

static tn_nv int_function(tn_nest *n, tn_scalar_op op, tn_nv x, tn_nv y) {
  tn_vt vt = tn_n_type(n, x);
  tn_nv zero = tn_n_const(n, vt, (tn_num){.i = 0}), one = tn_n_const(n, vt, (tn_num){.i = 1});
  switch (op) {
    case TN_S_DIVISOR: return x; /* its error is zero_error's business */
    case TN_S_RELU: return tn_dtype_is_unsigned((tn_dtype)vt.dtype) ? x : tn_n_op2(n, TN_S_MAX, x, zero);
    case TN_S_SIGN: {
      tn_nv up = tn_n_select(n, tn_n_op2(n, TN_S_GT, x, zero), one, zero);
      if (tn_dtype_is_unsigned((tn_dtype)vt.dtype)) return up;
      return tn_n_select(n, tn_n_op2(n, TN_S_LT, x, zero), tn_n_const(n, vt, (tn_num){.i = -1}), up);
    }
    case TN_S_FLOORDIV: case TN_S_TRUNCDIV: case TN_S_REMAINDER: case TN_S_FMOD: return vm_int_division(n, op, x, y);
    case TN_S_POW: return vm_int_pow(n, x, y);
    default: return tn_scalar_arity(op) == 1 ? tn_n_op1(n, op, x) : tn_n_op2(n, op, x, y);
  }
}

/* A scalar next to a vector becomes as wide. */
static bool widen(tn_nest *n, tn_nv *a, tn_nv *b) {
  int la = tn_n_type(n, *a).lanes, lb = tn_n_type(n, *b).lanes;
  if (la < lb) *a = tn_n_splat(n, *a, lb);
  if (lb < la) *b = tn_n_splat(n, *b, la);
  return *a && *b;
}

static bool all_const(const tn_nest *n, const tn_nv *v, int count) {
  for (int k = 0; k < count; k++)
    if (n->inst[v[k]].op != TN_N_CONST) return false;
  return true;
}

tn_nv tn_n_scalar(tn_nest *n, tn_scalar_op op, tn_nv a, tn_nv b, tn_nv c) {
  int arity = tn_scalar_arity(op);
  if (n->oom || !a || (arity > 1 && !b) || (arity > 2 && !c)) {
    n->oom = true;
    return 0;
  }
  if (op == TN_S_SELECT) return tn_n_select(n, a, b, c);
  if (arity == 2 && !widen(n, &a, &b)) return 0;
  tn_vt vt = tn_n_type(n, a);
  tn_dtype t = (tn_dtype)vt.dtype;
  tn_nv v[2] = {a, b};
  if (tn_scalar_accepts(op, t) && all_const(n, v, arity)) {
    tn_num arg[2] = {n->inst[a].imm, arity > 1 ? n->inst[b].imm : (tn_num){.i = 0}};
    return tn_n_const(n, (tn_vt){tn_scalar_is_bool(op) ? TN_BOOL : vt.dtype, vt.lanes}, tn_scalar_eval(op, t, arg));
  }
  if (!tn_dtype_is_float(t)) return int_function(n, op, a, b);
  bool small = t == TN_F16 || t == TN_BF16;
  if (small) {
    a = tn_n_cast(n, a, TN_F32);
    b = arity > 1 ? tn_n_cast(n, b, TN_F32) : 0;
  }
  tn_vm m = vm_of(n, small ? TN_F32 : t, vt.lanes);
  tn_nv r = a && (b || arity < 2) ? float_function(&m, op, a, b) : 0;
  if (r && small && !tn_scalar_is_bool(op)) r = tn_n_cast(n, r, t);
  return r;
}

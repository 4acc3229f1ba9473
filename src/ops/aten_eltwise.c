/* aten_eltwise: pointwise ATen ops that are one scalar function, or a few: arithmetic, comparison, logic, rounding, clamp, where.
 * The compute dtype of arithmetic is the recorded result dtype (FX has run torch's promotion); comparisons promote their operands
 * among themselves. f16/bf16: one scalar function rounds once by itself; where an operand or a second step carries more bits than
 * the dtype (x * 0.1, x + alpha * y) the work is done in f32 and rounded at the end, as torch's kernels do. */
#include "aten_int.h"

/* ---- one operand ---- */

static tn_status unary(tn_decomp_ctx *c, tn_op op) {
  tn_ref x = tn_at_t(c, "self");
  tn_dtype t = tn_scalar_is_bool((tn_scalar_op)op) ? tn_b_dtype(c, x) : tn_at_dtype(c, 0);
  return tn_at_ret(c, 0, tn_b_1(c, op, tn_b_cast(c, x, t)));
}
#define UNARY(fn, op) tn_status tn_d_##fn(tn_decomp_ctx *c) { return unary(c, TN_OP_##op); }
UNARY(neg, NEG) UNARY(sqrt, SQRT) UNARY(rsqrt, RSQRT) UNARY(reciprocal, RECIPROCAL)
UNARY(exp, EXP) UNARY(exp2, EXP2) UNARY(expm1, EXPM1) UNARY(log, LOG) UNARY(log2, LOG2) UNARY(log10, LOG10) UNARY(log1p, LOG1P)
UNARY(sin, SIN) UNARY(cos, COS) UNARY(tan, TAN) UNARY(asin, ASIN) UNARY(acos, ACOS) UNARY(atan, ATAN)
UNARY(sinh, SINH) UNARY(cosh, COSH) UNARY(tanh, TANH) UNARY(asinh, ASINH) UNARY(acosh, ACOSH) UNARY(atanh, ATANH)
UNARY(erf, ERF) UNARY(erfc, ERFC) UNARY(sigmoid, SIGMOID) UNARY(relu, RELU) UNARY(bitwise_not, NOT)

/* Functions that leave a dtype outside their domain as it is: ceil of an integer, sign of a bool. */
static tn_status unary_or_same(tn_decomp_ctx *c, tn_op op) {
  tn_ref x = tn_at_t(c, "self");
  if (c->st == TN_OK && !tn_scalar_accepts((tn_scalar_op)op, tn_b_dtype(c, x))) return tn_at_ret(c, 0, x);
  return tn_at_ret(c, 0, tn_b_1(c, op, x));
}
#define UNARY_OR_SAME(fn, op) tn_status tn_d_##fn(tn_decomp_ctx *c) { return unary_or_same(c, TN_OP_##op); }
UNARY_OR_SAME(abs, ABS) UNARY_OR_SAME(sign, SIGN) UNARY_OR_SAME(ceil, CEIL) UNARY_OR_SAME(floor, FLOOR) UNARY_OR_SAME(round, ROUND) UNARY_OR_SAME(trunc, TRUNC)

tn_status tn_d_same(tn_decomp_ctx *c) { return tn_at_ret(c, 0, tn_at_t(c, "self")); }

static tn_ref filled_like(tn_decomp_ctx *c, double v, tn_dtype t) {
  const tn_type *o = tn_at_type(c, 0);
  tn_attr_val n = {.kind = TN_AT_FLOAT};
  n.u.f = v;
  return tn_b_full(c, o->dim, o->rank, &n, t);
}

tn_status tn_d_isnan(tn_decomp_ctx *c) {
  tn_ref x = tn_at_t(c, "self");
  return tn_at_ret(c, 0, tn_dtype_is_float(tn_b_dtype(c, x)) ? tn_b_1(c, TN_OP_ISNAN, x) : filled_like(c, 0, TN_BOOL));
}
tn_status tn_d_isinf(tn_decomp_ctx *c) {
  tn_ref x = tn_at_t(c, "self");
  return tn_at_ret(c, 0, tn_dtype_is_float(tn_b_dtype(c, x)) ? tn_b_1(c, TN_OP_ISINF, x) : filled_like(c, 0, TN_BOOL));
}
tn_status tn_d_isfinite(tn_decomp_ctx *c) {          /* |x| < inf is false for NaN too */
  tn_ref x = tn_at_t(c, "self");
  if (!tn_dtype_is_float(tn_b_dtype(c, x))) return tn_at_ret(c, 0, filled_like(c, 1, TN_BOOL));
  return tn_at_ret(c, 0, tn_b_2(c, TN_OP_LT, tn_b_1(c, TN_OP_ABS, x), tn_b_num(c, INFINITY, tn_b_dtype(c, x))));
}
static tn_status is_value(tn_decomp_ctx *c, double v) {
  tn_ref x = tn_at_t(c, "self");
  if (!tn_dtype_is_float(tn_b_dtype(c, x))) return tn_at_ret(c, 0, filled_like(c, 0, TN_BOOL));
  return tn_at_ret(c, 0, tn_b_2(c, TN_OP_EQ, x, tn_b_num(c, v, tn_b_dtype(c, x))));
}
tn_status tn_d_isposinf(tn_decomp_ctx *c) { return is_value(c, INFINITY); }
tn_status tn_d_isneginf(tn_decomp_ctx *c) { return is_value(c, -INFINITY); }

tn_status tn_d_square(tn_decomp_ctx *c) {
  tn_ref x = tn_b_cast(c, tn_at_t(c, "self"), tn_at_dtype(c, 0));
  return tn_at_ret(c, 0, tn_b_2(c, TN_OP_MUL, x, x));
}
tn_status tn_d_frac(tn_decomp_ctx *c) {
  tn_ref x = tn_at_t(c, "self");
  return tn_at_ret(c, 0, tn_b_2(c, TN_OP_SUB, x, tn_b_1(c, TN_OP_TRUNC, x)));
}
static tn_status scaled(tn_decomp_ctx *c, double k) {
  tn_ref x = tn_b_up(c, tn_b_cast(c, tn_at_t(c, "self"), tn_at_dtype(c, 0)));
  return tn_at_ret(c, 0, tn_b_muln(c, x, k));
}
tn_status tn_d_deg2rad(tn_decomp_ctx *c) { return scaled(c, 3.14159265358979323846 / 180); }
tn_status tn_d_rad2deg(tn_decomp_ctx *c) { return scaled(c, 180 / 3.14159265358979323846); }

tn_status tn_d_round_decimals(tn_decomp_ctx *c) {
  tn_ref x = tn_at_t(c, "self");
  int64_t k = tn_at_i(c, "decimals", 0);
  if (!tn_dtype_is_float(tn_b_dtype(c, x))) return tn_at_ret(c, 0, x);
  if (k == 0) return tn_at_ret(c, 0, tn_b_1(c, TN_OP_ROUND, x));
  tn_ref w = tn_b_up(c, x), p = tn_b_num(c, pow(10, (double)(k < 0 ? -k : k)), tn_b_dtype(c, w));
  tn_op fwd = k > 0 ? TN_OP_MUL : TN_OP_DIV, bwd = k > 0 ? TN_OP_DIV : TN_OP_MUL;
  return tn_at_ret(c, 0, tn_b_2(c, bwd, tn_b_1(c, TN_OP_ROUND, tn_b_2(c, fwd, w, p)), p));
}

tn_status tn_d_logical_not(tn_decomp_ctx *c) { return tn_at_ret(c, 0, tn_b_1(c, TN_OP_NOT, tn_b_bool(c, tn_at_t(c, "self")))); }

tn_status tn_d_signbit(tn_decomp_ctx *c) {           /* -0 counts: its reciprocal is -inf */
  tn_ref x = tn_at_t(c, "self");
  tn_dtype t = tn_b_dtype(c, x);
  if (t == TN_BOOL || t == TN_U8) return tn_at_ret(c, 0, filled_like(c, 0, TN_BOOL));
  tn_ref zero = tn_b_num(c, 0, t), neg = tn_b_2(c, TN_OP_LT, x, zero);
  if (!tn_dtype_is_float(t)) return tn_at_ret(c, 0, neg);
  tn_ref minus0 = tn_b_2(c, TN_OP_AND, tn_b_2(c, TN_OP_EQ, x, zero), tn_b_2(c, TN_OP_LT, tn_b_1(c, TN_OP_RECIPROCAL, x), zero));
  return tn_at_ret(c, 0, tn_b_2(c, TN_OP_OR, neg, minus0));
}

tn_status tn_d_nan_to_num(tn_decomp_ctx *c) {
  tn_ref x = tn_at_t(c, "self");
  tn_dtype t = tn_b_dtype(c, x);
  if (!tn_dtype_is_float(t)) return tn_at_ret(c, 0, x);
  double big = t == TN_F16 ? 65504.0 : t == TN_BF16 ? 3.3895313892515355e38 : t == TN_F32 ? 3.4028234663852886e38 : 1.7976931348623157e308;
  tn_ref y = tn_b_sel(c, tn_b_1(c, TN_OP_ISNAN, x), tn_b_num(c, tn_at_f(c, "nan", 0), t), x);
  y = tn_b_sel(c, tn_b_2(c, TN_OP_EQ, x, tn_b_num(c, INFINITY, t)), tn_b_num(c, tn_at_f(c, "posinf", big), t), y);
  return tn_at_ret(c, 0, tn_b_sel(c, tn_b_2(c, TN_OP_EQ, x, tn_b_num(c, -INFINITY, t)), tn_b_num(c, tn_at_f(c, "neginf", -big), t), y));
}

/* ---- two operands, arithmetic ---- */

/* The dtype to work in: the recorded one, or f32 when it is f16/bf16 and an operand is wider. */
static tn_dtype work(tn_decomp_ctx *c, const tn_opd *o, int n) {
  tn_dtype t = tn_at_dtype(c, 0);
  for (int i = 0; i < n; i++)
    if (tn_at_wider(c, o[i], t)) return TN_F32;
  return t;
}

static tn_status arith_named(tn_decomp_ctx *c, tn_op op, const char *a, const char *b) {
  tn_opd o[2] = {tn_at_opd(c, a), tn_at_opd(c, b)};
  tn_dtype t = work(c, o, 2);
  if (t == TN_BOOL) {                                /* torch's + and * of bools are or and and */
    if (op == TN_OP_ADD) op = TN_OP_OR;
    else if (op == TN_OP_MUL) op = TN_OP_AND;
  }
  tn_ref x = tn_at_as(c, o[0], t), y = tn_at_as(c, o[1], t);
  if (op == TN_OP_FLOORDIV || op == TN_OP_TRUNCDIV || op == TN_OP_REMAINDER || op == TN_OP_FMOD) y = tn_b_divisor(c, y);
  return tn_at_ret(c, 0, tn_b_2(c, op, x, y));
}
#define ARITH(fn, op) tn_status tn_d_##fn(tn_decomp_ctx *c) { return arith_named(c, TN_OP_##op, "self", "other"); }
ARITH(mul, MUL) ARITH(div, DIV) ARITH(floor_divide, FLOORDIV) ARITH(remainder, REMAINDER) ARITH(fmod, FMOD) ARITH(atan2, ATAN2)
ARITH(maximum, MAX) ARITH(minimum, MIN)
ARITH(bitwise_and, AND) ARITH(bitwise_or, OR) ARITH(bitwise_xor, XOR) ARITH(shl, SHL) ARITH(shr, SHR)

static tn_status fminmax(tn_decomp_ctx *c, tn_op f, tn_op i) {
  return arith_named(c, tn_dtype_is_float(tn_at_dtype(c, 0)) ? f : i, "self", "other");
}
tn_status tn_d_fmax(tn_decomp_ctx *c) { return fminmax(c, TN_OP_FMAX, TN_OP_MAX); }
tn_status tn_d_fmin(tn_decomp_ctx *c) { return fminmax(c, TN_OP_FMIN, TN_OP_MIN); }

static bool num_is(const tn_attr_val *v, double x) {
  return !v || (v->kind == TN_AT_INT && (double)v->u.i == x) || (v->kind == TN_AT_FLOAT && v->u.f == x) || (v->kind == TN_AT_BOOL && (double)v->u.b == x);
}

/* a + alpha * b, a - alpha * b */
static tn_status add_sub(tn_decomp_ctx *c, tn_op op, const char *a, const char *b) {
  const tn_attr_val *alpha = tn_at_val(c, "alpha");
  if (num_is(alpha, 1)) return arith_named(c, op, a, b);
  tn_dtype t = tn_b_wide(tn_at_dtype(c, 0));
  if (t == TN_BOOL) return tn_at_unsup(c, "alpha with bool operands");
  tn_ref x = tn_at_as(c, tn_at_opd(c, a), t), y = tn_at_as(c, tn_at_opd(c, b), t);
  return tn_at_ret(c, 0, tn_b_2(c, op, x, tn_b_2(c, TN_OP_MUL, y, tn_b_val(c, alpha, t))));
}
tn_status tn_d_add(tn_decomp_ctx *c) { return add_sub(c, TN_OP_ADD, "self", "other"); }
tn_status tn_d_sub(tn_decomp_ctx *c) { return add_sub(c, TN_OP_SUB, "self", "other"); }
tn_status tn_d_rsub(tn_decomp_ctx *c) { return add_sub(c, TN_OP_SUB, "other", "self"); }

tn_status tn_d_div_mode(tn_decomp_ctx *c) {
  const char *m = tn_at_s(c, "rounding_mode", "");
  if (!strcmp(m, "floor")) return arith_named(c, TN_OP_FLOORDIV, "self", "other");
  if (!strcmp(m, "trunc") && tn_dtype_is_float(tn_at_dtype(c, 0))) {   /* the quotient is rounded to its dtype first */
    tn_opd o[2] = {tn_at_opd(c, "self"), tn_at_opd(c, "other")};
    tn_dtype t = work(c, o, 2);
    return tn_at_ret(c, 0, tn_b_1(c, TN_OP_TRUNC, tn_b_2(c, TN_OP_DIV, tn_at_as(c, o[0], t), tn_at_as(c, o[1], t))));
  }
  if (!strcmp(m, "trunc")) return arith_named(c, TN_OP_TRUNCDIV, "self", "other");
  return *m ? tn_at_unsup(c, "rounding_mode %s", m) : arith_named(c, TN_OP_DIV, "self", "other");
}

tn_status tn_d_pow(tn_decomp_ctx *c) {
  const tn_attr_val *e = tn_at_val(c, "exponent");
  tn_opd o[2] = {tn_at_opd(c, "self"), tn_at_opd(c, "exponent")};
  tn_dtype t = work(c, o, 2);
  if (t == TN_BOOL) return tn_at_unsup(c, "pow of bools");
  if (e && e->kind != TN_AT_REF && !o[0].num) {      /* the exponents torch's kernel treats by themselves, exact and cheap */
    bool f = tn_dtype_is_float(t);
    tn_ref x = tn_at_as(c, o[0], t);
    if (num_is(e, 1)) return tn_at_ret(c, 0, x);
    if (num_is(e, 2)) return tn_at_ret(c, 0, tn_b_2(c, TN_OP_MUL, x, x));
    if (num_is(e, 3)) {
      x = tn_b_up(c, x);
      return tn_at_ret(c, 0, tn_b_2(c, TN_OP_MUL, tn_b_2(c, TN_OP_MUL, x, x), x));
    }
    if (f && num_is(e, 0.5)) return tn_at_ret(c, 0, tn_b_1(c, TN_OP_SQRT, x));
    if (f && num_is(e, -0.5)) return tn_at_ret(c, 0, tn_b_1(c, TN_OP_RSQRT, x));
    if (f && num_is(e, -1)) return tn_at_ret(c, 0, tn_b_1(c, TN_OP_RECIPROCAL, x));
  }
  return tn_at_ret(c, 0, tn_b_2(c, TN_OP_POW, tn_at_as(c, o[0], t), tn_at_as(c, o[1], t)));
}

static tn_status muladd(tn_decomp_ctx *c, tn_op inner) {
  tn_dtype t = tn_b_wide(tn_at_dtype(c, 0));
  tn_ref x = tn_b_cast(c, tn_at_t(c, "self"), t), a = tn_b_cast(c, tn_at_t(c, "tensor1"), t), b = tn_b_cast(c, tn_at_t(c, "tensor2"), t);
  const tn_attr_val *v = tn_at_val(c, "value");
  if (!num_is(v, 1)) a = tn_b_2(c, TN_OP_MUL, a, tn_b_val(c, v, t));
  return tn_at_ret(c, 0, tn_b_2(c, TN_OP_ADD, x, tn_b_2(c, inner, a, b)));
}
tn_status tn_d_addcmul(tn_decomp_ctx *c) { return muladd(c, TN_OP_MUL); }
tn_status tn_d_addcdiv(tn_decomp_ctx *c) { return muladd(c, TN_OP_DIV); }

/* weight < 0.5: self + weight * (end - self), else end - (end - self) * (1 - weight): exact at both ends */
tn_status tn_d_lerp(tn_decomp_ctx *c) {
  tn_dtype t = tn_b_wide(tn_at_dtype(c, 0));
  tn_ref a = tn_b_cast(c, tn_at_t(c, "self"), t), b = tn_b_cast(c, tn_at_t(c, "end"), t), w = tn_at_as(c, tn_at_opd(c, "weight"), t);
  tn_ref d = tn_b_2(c, TN_OP_SUB, b, a);
  tn_ref lo = tn_b_2(c, TN_OP_ADD, a, tn_b_2(c, TN_OP_MUL, w, d));
  tn_ref hi = tn_b_2(c, TN_OP_SUB, b, tn_b_2(c, TN_OP_MUL, d, tn_b_2(c, TN_OP_SUB, tn_b_num(c, 1, t), w)));
  const tn_attr_val *v = tn_at_val(c, "weight");
  if (v && v->kind != TN_AT_REF) return tn_at_ret(c, 0, fabs(tn_at_f(c, "weight", 0)) < 0.5 ? lo : hi);
  return tn_at_ret(c, 0, tn_b_sel(c, tn_b_2(c, TN_OP_LT, tn_b_1(c, TN_OP_ABS, w), tn_b_num(c, 0.5, t)), lo, hi));
}

tn_status tn_d_copysign(tn_decomp_ctx *c) {
  tn_dtype t = tn_at_dtype(c, 0);
  tn_ref x = tn_b_1(c, TN_OP_ABS, tn_at_as(c, tn_at_opd(c, "self"), t)), y = tn_at_as(c, tn_at_opd(c, "other"), t), zero = tn_b_num(c, 0, t);
  tn_ref minus0 = tn_b_2(c, TN_OP_AND, tn_b_2(c, TN_OP_EQ, y, zero), tn_b_2(c, TN_OP_LT, tn_b_1(c, TN_OP_RECIPROCAL, y), zero));
  tn_ref neg = tn_b_2(c, TN_OP_OR, tn_b_2(c, TN_OP_LT, y, zero), minus0);
  return tn_at_ret(c, 0, tn_b_sel(c, neg, tn_b_1(c, TN_OP_NEG, x), x));
}

tn_status tn_d_heaviside(tn_decomp_ctx *c) {
  tn_dtype t = tn_at_dtype(c, 0);
  tn_ref x = tn_b_cast(c, tn_at_t(c, "self"), t), v = tn_b_cast(c, tn_at_t(c, "values"), t), zero = tn_b_num(c, 0, t);
  return tn_at_ret(c, 0, tn_b_sel(c, tn_b_2(c, TN_OP_EQ, x, zero), v, tn_b_cast(c, tn_b_2(c, TN_OP_GT, x, zero), t)));
}

tn_status tn_d_hypot(tn_decomp_ctx *c) {             /* scaled by the larger side so that squares do not overflow */
  tn_dtype t = tn_b_wide(tn_at_dtype(c, 0));
  tn_ref a = tn_b_1(c, TN_OP_ABS, tn_b_cast(c, tn_at_t(c, "self"), t)), b = tn_b_1(c, TN_OP_ABS, tn_b_cast(c, tn_at_t(c, "other"), t));
  tn_ref hi = tn_b_2(c, TN_OP_MAX, a, b), lo = tn_b_2(c, TN_OP_MIN, a, b), zero = tn_b_num(c, 0, t), inf = tn_b_num(c, INFINITY, t);
  tn_ref r = tn_b_2(c, TN_OP_DIV, lo, hi);
  tn_ref y = tn_b_2(c, TN_OP_MUL, hi, tn_b_1(c, TN_OP_SQRT, tn_b_addn(c, tn_b_2(c, TN_OP_MUL, r, r), 1)));
  y = tn_b_sel(c, tn_b_2(c, TN_OP_EQ, hi, zero), zero, y);
  tn_ref any_inf = tn_b_2(c, TN_OP_OR, tn_b_2(c, TN_OP_EQ, a, inf), tn_b_2(c, TN_OP_EQ, b, inf));
  return tn_at_ret(c, 0, tn_b_sel(c, any_inf, inf, y));
}

static tn_status log_add(tn_decomp_ctx *c, tn_op e, double scale) {   /* m + log(1 + exp(-|a - b|)), and equal infinities give themselves */
  tn_dtype t = tn_b_wide(tn_at_dtype(c, 0));
  tn_ref a = tn_b_cast(c, tn_at_t(c, "self"), t), b = tn_b_cast(c, tn_at_t(c, "other"), t), m = tn_b_2(c, TN_OP_MAX, a, b);
  tn_ref d = tn_b_1(c, TN_OP_NEG, tn_b_1(c, TN_OP_ABS, tn_b_2(c, TN_OP_SUB, a, b)));
  tn_ref l = tn_b_1(c, TN_OP_LOG1P, tn_b_1(c, e, d));
  tn_ref y = tn_b_2(c, TN_OP_ADD, m, scale == 1 ? l : tn_b_muln(c, l, scale));
  tn_ref same_inf = tn_b_2(c, TN_OP_AND, tn_b_2(c, TN_OP_EQ, a, b), tn_b_1(c, TN_OP_ISINF, a));
  return tn_at_ret(c, 0, tn_b_sel(c, same_inf, a, y));
}
tn_status tn_d_logaddexp(tn_decomp_ctx *c) { return log_add(c, TN_OP_EXP, 1); }
tn_status tn_d_logaddexp2(tn_decomp_ctx *c) { return log_add(c, TN_OP_EXP2, 1.4426950408889634); }

tn_status tn_d_xlogy(tn_decomp_ctx *c) {
  tn_dtype t = tn_b_wide(tn_at_dtype(c, 0));
  tn_ref x = tn_at_as(c, tn_at_opd(c, "self"), t), y = tn_at_as(c, tn_at_opd(c, "other"), t), zero = tn_b_num(c, 0, t);
  tn_ref p = tn_b_sel(c, tn_b_2(c, TN_OP_EQ, x, zero), zero, tn_b_2(c, TN_OP_MUL, x, tn_b_1(c, TN_OP_LOG, y)));
  return tn_at_ret(c, 0, tn_b_sel(c, tn_b_1(c, TN_OP_ISNAN, y), y, p));
}

/* ---- comparison and logic ---- */

static tn_status compare(tn_decomp_ctx *c, tn_op op) {
  tn_opd o[2] = {tn_at_opd(c, "self"), tn_at_opd(c, "other")};
  if (c->st != TN_OK) return c->st;
  tn_dtype t = tn_at_promote(c, o, 2);
  return tn_at_ret(c, 0, tn_b_2(c, op, tn_at_as(c, o[0], t), tn_at_as(c, o[1], t)));
}
#define COMPARE(fn, op) tn_status tn_d_##fn(tn_decomp_ctx *c) { return compare(c, TN_OP_##op); }
COMPARE(eq, EQ) COMPARE(ne, NE) COMPARE(lt, LT) COMPARE(le, LE) COMPARE(gt, GT) COMPARE(ge, GE)

static tn_status logical(tn_decomp_ctx *c, tn_op op) {
  tn_ref a = tn_b_bool(c, tn_at_t(c, "self")), b = tn_b_bool(c, tn_at_t(c, "other"));
  return tn_at_ret(c, 0, tn_b_2(c, op, a, b));
}
tn_status tn_d_logical_and(tn_decomp_ctx *c) { return logical(c, TN_OP_AND); }
tn_status tn_d_logical_or(tn_decomp_ctx *c) { return logical(c, TN_OP_OR); }
tn_status tn_d_logical_xor(tn_decomp_ctx *c) { return logical(c, TN_OP_XOR); }

/* ---- three operands ---- */

tn_status tn_d_where(tn_decomp_ctx *c) {
  tn_dtype t = tn_at_dtype(c, 0);
  tn_ref cond = tn_b_bool(c, tn_at_t(c, "condition"));
  return tn_at_ret(c, 0, tn_b_sel(c, cond, tn_at_as(c, tn_at_opd(c, "self"), t), tn_at_as(c, tn_at_opd(c, "other"), t)));
}

tn_status tn_d_masked_fill(tn_decomp_ctx *c) {
  tn_dtype t = tn_at_dtype(c, 0);
  tn_ref m = tn_b_bool(c, tn_at_t(c, "mask"));
  return tn_at_ret(c, 0, tn_b_sel(c, m, tn_at_as(c, tn_at_opd(c, "value"), t), tn_b_cast(c, tn_at_t(c, "self"), t)));
}

tn_status tn_d_clamp(tn_decomp_ctx *c) {
  tn_dtype t = tn_at_dtype(c, 0);
  tn_ref x = tn_b_cast(c, tn_at_t(c, "self"), t);
  if (tn_at_val(c, "min")) x = tn_b_2(c, TN_OP_MAX, x, tn_at_as(c, tn_at_opd(c, "min"), t));
  if (tn_at_val(c, "max")) x = tn_b_2(c, TN_OP_MIN, x, tn_at_as(c, tn_at_opd(c, "max"), t));
  return tn_at_ret(c, 0, x);
}

tn_status tn_d_sinc(tn_decomp_ctx *c) {
  tn_dtype t = tn_b_wide(tn_at_dtype(c, 0));
  tn_ref x = tn_b_cast(c, tn_at_t(c, "self"), t), p = tn_b_muln(c, x, 3.14159265358979323846);
  tn_ref y = tn_b_2(c, TN_OP_DIV, tn_b_1(c, TN_OP_SIN, p), p);
  return tn_at_ret(c, 0, tn_b_sel(c, tn_b_2(c, TN_OP_EQ, x, tn_b_num(c, 0, t)), tn_b_num(c, 1, t), y));
}

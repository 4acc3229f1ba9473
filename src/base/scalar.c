/* The meaning of every row of scalar.def in plain C: the specification that reference kernels use and generated code is
 * compared with.
 *
 * Floats are computed in double and rounded to their type, 16-bit floats by way of float, which is what hardware that
 * computes in float32 and stores narrow does. Integers are computed in 64 bits and wrapped to their width, so add, sub, mul
 * and shifts wrap. A tn_num holds a u64 as the int64_t of the same bits; all narrower integers fit. Integer division by zero
 * gives 0, and INT_MIN / -1 wraps. Shifts by a negative count or by the width or more give 0, except that shr of a signed
 * value gives 0 or -1. pow of integers wraps; a negative exponent gives 0, or +-1 for the bases 1 and -1. Casts between
 * integers wrap, from floats they saturate and NaN gives 0. No speed is attempted here. */
#include "scalar.h"
#include <math.h>
#include <string.h>

static const struct {
  const char *name, *domain;
  uint8_t arity;
  char result;
} rows[TN_N_SCALARS] = {
#define TN_SCALAR(id, text, arity, result, domain) {text, domain, arity, #result[0]},
#include "scalar.def"
#undef TN_SCALAR
};

const char *tn_scalar_name(tn_scalar_op op) { return (unsigned)op < TN_N_SCALARS ? rows[op].name : "?"; }

int tn_scalar_arity(tn_scalar_op op) { return (unsigned)op < TN_N_SCALARS ? rows[op].arity : 0; }

bool tn_scalar_is_bool(tn_scalar_op op) { return (unsigned)op < TN_N_SCALARS && rows[op].result == 'B'; }

bool tn_scalar_accepts(tn_scalar_op op, tn_dtype t) {
  if ((unsigned)op >= TN_N_SCALARS) return false;
  char want = tn_dtype_is_float(t) ? 'f' : tn_dtype_is_int(t) ? 'i' : t == TN_BOOL ? 'b' : '?';
  return strchr(rows[op].domain, want) != NULL;
}

bool tn_scalar_find(const char *s, size_t n, tn_scalar_op *out) {
  for (int i = 0; i < TN_N_SCALARS; i++) {
    if (strlen(rows[i].name) == n && memcmp(rows[i].name, s, n) == 0) {
      *out = (tn_scalar_op)i;
      return true;
    }
  }
  return false;
}

/* ---- rounding to a type ---- */
static double round_to(tn_dtype t, double v) {
  switch (t) {
    case TN_F32: return (float)v;
    case TN_F16: return tn_f16_to_f32(tn_f32_to_f16((float)v));
    case TN_BF16: return tn_bf16_to_f32(tn_f32_to_bf16((float)v));
    default: return v;
  }
}

static int64_t wrap_to(tn_dtype t, uint64_t v) {
  switch (t) {
    case TN_I32: return (int32_t)(uint32_t)v;
    case TN_I16: return (int16_t)(uint16_t)v;
    case TN_I8: return (int8_t)(uint8_t)v;
    case TN_U32: return (uint32_t)v;
    case TN_U16: return (uint16_t)v;
    case TN_U8: return (uint8_t)v;
    case TN_BOOL: return v != 0;
    default: return (int64_t)v;
  }
}

static unsigned width_of(tn_dtype t) { return (unsigned)tn_dtype_size(t) * 8; }

/* ---- integers and bools ---- */
static int64_t int_floordiv(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return (int64_t)(0 - (uint64_t)a);
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t int_truncdiv(int64_t a, int64_t b) { return b == 0 ? 0 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b; }

static int64_t int_fmod(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }

static int64_t int_remainder(int64_t a, int64_t b) {
  int64_t r = int_fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static uint64_t uint_pow(uint64_t base, uint64_t e) {
  uint64_t r = 1;
  for (; e; e >>= 1, base *= base)
    if (e & 1) r *= base;
  return r;
}

static uint64_t int_pow(int64_t a, int64_t e) {
  if (e < 0) return a == 1 ? 1 : a == -1 ? (e % 2 ? UINT64_MAX : 1) : 0;
  return uint_pow((uint64_t)a, (uint64_t)e);
}

static int64_t int_shr(tn_dtype t, int64_t a, int64_t n) {
  return n < 0 || n >= (int64_t)width_of(t) ? (a < 0 ? -1 : 0) : a >> n;
}

/* The functions that see the difference between the two readings of 64 bits; the others are eval_int's. */
static bool eval_u64(tn_scalar_op op, uint64_t a, uint64_t b, uint64_t *out) {
  switch (op) {
    case TN_S_ABS:
    case TN_S_RELU: *out = a; return true;
    case TN_S_SIGN: *out = a != 0; return true;
    case TN_S_FLOORDIV:
    case TN_S_TRUNCDIV: *out = b ? a / b : 0; return true;
    case TN_S_REMAINDER:
    case TN_S_FMOD: *out = b ? a % b : 0; return true;
    case TN_S_POW: *out = uint_pow(a, b); return true;
    case TN_S_MAX: *out = a > b ? a : b; return true;
    case TN_S_MIN: *out = a < b ? a : b; return true;
    case TN_S_SHR: *out = b < 64 ? a >> b : 0; return true;
    case TN_S_LT: *out = a < b; return true;
    case TN_S_LE: *out = a <= b; return true;
    case TN_S_GT: *out = a > b; return true;
    case TN_S_GE: *out = a >= b; return true;
    default: return false;
  }
}

static int64_t eval_int(tn_scalar_op op, tn_dtype t, const tn_num *x) {
  int64_t a = x[0].i, b = tn_scalar_arity(op) > 1 ? x[1].i : 0;
  uint64_t ua = (uint64_t)a, ub = (uint64_t)b, r;
  if (t == TN_U64 && eval_u64(op, ua, ub, &r)) return (int64_t)r;
  switch (op) {
    case TN_S_NEG: return (int64_t)(0 - ua);
    case TN_S_ABS: return a < 0 ? (int64_t)(0 - ua) : a;
    case TN_S_SIGN: return (a > 0) - (a < 0);
    case TN_S_RELU: return a > 0 ? a : 0;
    case TN_S_NOT: return t == TN_BOOL ? !a : ~a;
    case TN_S_DIVISOR: return a; /* who applies it to elements looks for zeros */
    case TN_S_ADD: return (int64_t)(ua + ub);
    case TN_S_SUB: return (int64_t)(ua - ub);
    case TN_S_MUL: return (int64_t)(ua * ub);
    case TN_S_FLOORDIV: return int_floordiv(a, b);
    case TN_S_TRUNCDIV: return int_truncdiv(a, b);
    case TN_S_REMAINDER: return int_remainder(a, b);
    case TN_S_FMOD: return int_fmod(a, b);
    case TN_S_POW: return (int64_t)int_pow(a, b);
    case TN_S_MAX: return a > b ? a : b;
    case TN_S_MIN: return a < b ? a : b;
    case TN_S_AND: return a & b;
    case TN_S_OR: return a | b;
    case TN_S_XOR: return a ^ b;
    case TN_S_SHL: return b < 0 || b >= (int64_t)width_of(t) ? 0 : (int64_t)(ua << b);
    case TN_S_SHR: return int_shr(t, a, b);
    case TN_S_EQ: return a == b;
    case TN_S_NE: return a != b;
    case TN_S_LT: return a < b;
    case TN_S_LE: return a <= b;
    case TN_S_GT: return a > b;
    case TN_S_GE: return a >= b;
    default: return 0;
  }
}

/* ---- floats ---- */

/* Python's float floor division, corrected for the rounding of the quotient. */
static double float_floordiv(double a, double b) {
  if (b == 0) return a / b;
  double m = fmod(a, b), d = (a - m) / b;
  if (m != 0 && (b < 0) != (m < 0)) d -= 1;
  if (d == 0) return copysign(0, a / b);
  double f = floor(d);
  return d - f > 0.5 ? f + 1 : f;
}

static double float_remainder(double a, double b) {
  double m = fmod(a, b);
  return m != 0 && (b < 0) != (m < 0) ? m + b : m;
}

static double eval_float(tn_scalar_op op, const tn_num *x) {
  double a = x[0].f, b = tn_scalar_arity(op) > 1 ? x[1].f : 0;
  switch (op) {
    case TN_S_NEG: return -a;
    case TN_S_ABS: return fabs(a);
    case TN_S_SIGN: return (a > 0) - (a < 0);
    case TN_S_CEIL: return ceil(a);
    case TN_S_FLOOR: return floor(a);
    case TN_S_ROUND: return nearbyint(a);
    case TN_S_TRUNC: return trunc(a);
    case TN_S_SQRT: return sqrt(a);
    case TN_S_RSQRT: return 1 / sqrt(a);
    case TN_S_RECIPROCAL: return 1 / a;
    case TN_S_EXP: return exp(a);
    case TN_S_EXP2: return exp2(a);
    case TN_S_EXPM1: return expm1(a);
    case TN_S_LOG: return log(a);
    case TN_S_LOG2: return log2(a);
    case TN_S_LOG10: return log10(a);
    case TN_S_LOG1P: return log1p(a);
    case TN_S_SIN: return sin(a);
    case TN_S_COS: return cos(a);
    case TN_S_TAN: return tan(a);
    case TN_S_ASIN: return asin(a);
    case TN_S_ACOS: return acos(a);
    case TN_S_ATAN: return atan(a);
    case TN_S_SINH: return sinh(a);
    case TN_S_COSH: return cosh(a);
    case TN_S_TANH: return tanh(a);
    case TN_S_ASINH: return asinh(a);
    case TN_S_ACOSH: return acosh(a);
    case TN_S_ATANH: return atanh(a);
    case TN_S_ERF: return erf(a);
    case TN_S_ERFC: return erfc(a);
    case TN_S_SIGMOID: return 1 / (1 + exp(-a));
    case TN_S_RELU: return a < 0 ? 0 : a; /* keeps NaN and -0, as torch does */
    case TN_S_ADD: return a + b;
    case TN_S_SUB: return a - b;
    case TN_S_MUL: return a * b;
    case TN_S_DIV: return a / b;
    case TN_S_FLOORDIV: return float_floordiv(a, b);
    case TN_S_TRUNCDIV: return trunc(a / b);
    case TN_S_REMAINDER: return float_remainder(a, b);
    case TN_S_FMOD: return fmod(a, b);
    case TN_S_POW: return pow(a, b);
    case TN_S_ATAN2: return atan2(a, b);
    case TN_S_MAX: return isnan(a) || isnan(b) ? a + b : a > b ? a : b;
    case TN_S_MIN: return isnan(a) || isnan(b) ? a + b : a < b ? a : b;
    case TN_S_FMAX: return fmax(a, b);
    case TN_S_FMIN: return fmin(a, b);
    default: return 0;
  }
}

static bool eval_float_bool(tn_scalar_op op, const tn_num *x) {
  double a = x[0].f, b = tn_scalar_arity(op) > 1 ? x[1].f : 0;
  switch (op) {
    case TN_S_ISNAN: return isnan(a);
    case TN_S_ISINF: return isinf(a);
    case TN_S_EQ: return a == b;
    case TN_S_NE: return a != b;
    case TN_S_LT: return a < b;
    case TN_S_LE: return a <= b;
    case TN_S_GT: return a > b;
    case TN_S_GE: return a >= b;
    default: return false;
  }
}

tn_num tn_scalar_eval(tn_scalar_op op, tn_dtype t, const tn_num *arg) {
  if (op == TN_S_SELECT) return arg[0].i ? arg[1] : arg[2];
  bool is_bool = tn_scalar_is_bool(op);
  if (!tn_dtype_is_float(t)) return (tn_num){.i = wrap_to(is_bool ? TN_BOOL : t, (uint64_t)eval_int(op, t, arg))};
  if (is_bool) return (tn_num){.i = eval_float_bool(op, arg)};
  return (tn_num){.f = round_to(t, eval_float(op, arg))};
}

/* ---- conversion, memory ---- */
static int64_t saturate(tn_dtype to, double v) {
  if (isnan(v)) return 0;
  unsigned w = width_of(to);
  if (tn_dtype_is_unsigned(to)) {
    if (v <= 0) return 0;
    return (int64_t)(v >= ldexp(1, (int)w) ? UINT64_MAX >> (64 - w) : (uint64_t)v);
  }
  double end = ldexp(1, (int)w - 1);
  if (v <= -end) return (int64_t)(UINT64_MAX << (w - 1));
  if (v >= end) return (int64_t)(UINT64_MAX >> (65 - w));
  return (int64_t)v;
}

tn_num tn_num_cast(tn_num v, tn_dtype from, tn_dtype to) {
  bool from_float = tn_dtype_is_float(from);
  if (to == TN_BOOL) return (tn_num){.i = from_float ? v.f != 0 : v.i != 0};
  if (tn_dtype_is_float(to)) {
    if (from_float) return (tn_num){.f = round_to(to, v.f)};
    bool u64 = from == TN_U64;
    if (to == TN_F64) return (tn_num){.f = u64 ? (double)(uint64_t)v.i : (double)v.i};
    return (tn_num){.f = round_to(to, u64 ? (float)(uint64_t)v.i : (float)v.i)}; /* not through double: it would round twice */
  }
  return (tn_num){.i = from_float ? saturate(to, v.f) : wrap_to(to, (uint64_t)v.i)};
}

tn_num tn_num_load(tn_dtype t, const void *p) {
  uint8_t raw[8] = {0};
  memcpy(raw, p, tn_dtype_size(t));
  float f32;
  double f64;
  uint16_t u16;
  int64_t i64;
  int32_t i32;
  memcpy(&f32, raw, sizeof f32);
  memcpy(&f64, raw, sizeof f64);
  memcpy(&u16, raw, sizeof u16);
  memcpy(&i64, raw, sizeof i64);
  memcpy(&i32, raw, sizeof i32);
  switch (t) {
    case TN_F32: return (tn_num){.f = f32};
    case TN_F64: return (tn_num){.f = f64};
    case TN_F16: return (tn_num){.f = tn_f16_to_f32(u16)};
    case TN_BF16: return (tn_num){.f = tn_bf16_to_f32(u16)};
    case TN_I64:
    case TN_U64: return (tn_num){.i = i64};
    case TN_I32: return (tn_num){.i = i32};
    case TN_U32: return (tn_num){.i = (uint32_t)i32};
    case TN_U16: return (tn_num){.i = u16};
    case TN_I16: return (tn_num){.i = (int16_t)u16};
    case TN_I8: return (tn_num){.i = (int8_t)raw[0]};
    case TN_BOOL: return (tn_num){.i = raw[0] != 0};
    default: return (tn_num){.i = raw[0]};
  }
}

void tn_num_store(tn_dtype t, void *p, tn_num v) {
  float f32 = tn_dtype_is_float(t) && t != TN_F64 ? (float)v.f : 0;
  uint16_t u16 = t == TN_F16 ? tn_f32_to_f16(f32) : t == TN_BF16 ? tn_f32_to_bf16(f32) : 0;
  int64_t i64 = t == TN_BOOL ? v.i != 0 : v.i;
  switch (t) {
    case TN_F32: memcpy(p, &f32, sizeof f32); break;
    case TN_F64: memcpy(p, &v.f, sizeof v.f); break;
    case TN_F16:
    case TN_BF16: memcpy(p, &u16, sizeof u16); break;
    case TN_I64:
    case TN_U64: memcpy(p, &i64, sizeof i64); break;
    case TN_I32:
    case TN_U32: memcpy(p, &(int32_t){(int32_t)i64}, 4); break;
    case TN_U16:
    case TN_I16: memcpy(p, &(int16_t){(int16_t)i64}, 2); break;
    default: *(uint8_t *)p = (uint8_t)i64; break;
  }
}

/* ---- combiners ---- */
static const char *const combiner_names[TN_N_COMBINERS] = {
    [TN_C_SUM] = "sum", [TN_C_PROD] = "prod", [TN_C_MAX] = "max",       [TN_C_MIN] = "min",
    [TN_C_ANY] = "any", [TN_C_ALL] = "all",   [TN_C_ARGMAX] = "argmax", [TN_C_ARGMIN] = "argmin",
};

const char *tn_combiner_name(tn_combiner c) { return (unsigned)c < TN_N_COMBINERS ? combiner_names[c] : "?"; }

bool tn_combiner_find(const char *s, size_t n, tn_combiner *out) {
  for (int i = 0; i < TN_N_COMBINERS; i++) {
    if (strlen(combiner_names[i]) == n && memcmp(combiner_names[i], s, n) == 0) {
      *out = (tn_combiner)i;
      return true;
    }
  }
  return false;
}

tn_num tn_combiner_identity(tn_combiner c, tn_dtype t) {
  bool is_float = tn_dtype_is_float(t);
  double f = 0;
  int64_t i = 0;
  switch (c) {
    case TN_C_PROD:
    case TN_C_ALL: f = 1, i = 1; break;
    case TN_C_MAX:
    case TN_C_ARGMAX: f = -INFINITY, i = t == TN_BOOL ? 0 : saturate(t, -INFINITY); break;
    case TN_C_MIN:
    case TN_C_ARGMIN: f = INFINITY, i = t == TN_BOOL ? 1 : saturate(t, INFINITY); break;
    default: break;
  }
  return is_float ? (tn_num){.f = f} : (tn_num){.i = i};
}

tn_num tn_combiner_step(tn_combiner c, tn_dtype t, tn_num acc, tn_num v) {
  tn_num arg[2] = {acc, v};
  bool is_float = tn_dtype_is_float(t);
  bool x = is_float ? acc.f != 0 : acc.i != 0, y = is_float ? v.f != 0 : v.i != 0;
  switch (c) {
    case TN_C_SUM: return tn_scalar_eval(TN_S_ADD, t, arg);
    case TN_C_PROD: return tn_scalar_eval(TN_S_MUL, t, arg);
    case TN_C_MAX:
    case TN_C_ARGMAX: return tn_scalar_eval(TN_S_MAX, t, arg);
    case TN_C_MIN:
    case TN_C_ARGMIN: return tn_scalar_eval(TN_S_MIN, t, arg);
    case TN_C_ANY: return is_float ? (tn_num){.f = x || y} : (tn_num){.i = x || y};
    case TN_C_ALL: return is_float ? (tn_num){.f = x && y} : (tn_num){.i = x && y};
    default: return acc;
  }
}

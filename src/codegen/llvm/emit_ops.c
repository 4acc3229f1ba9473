/* Spelling arithmetic: constants, basic scalar functions, casts, masks, horizontal reductions.
 *
 * No fast-math flag is ever set: what the nest says is what is computed. max and min are comparisons and selects, because
 * llvm.maximum costs twice as much on x86: select(a > b, a, b) is one vmaxps, which yields b when either is NaN, so only a
 * NaN in `a` needs a blend, and none when `a` is known to be a number (relu: the constant goes first).
 * Conversions from float to int saturate by clamping first, because LLVM's plain conversion is poison out of range. 16-bit
 * floats are i16 until cast: f16 by the hardware's conversion, bf16 by integer rounding. */
#include <math.h>
#include <string.h>
#include "llvm_int.h"

static LLVMValueRef num_const(tn_ll *e, tn_dtype t, tn_num v) {
  switch (t) {
    case TN_F32: return LLVMConstReal(e->f32, v.f);
    case TN_F64: return LLVMConstReal(e->f64, v.f);
    case TN_F16: return LLVMConstInt(e->i16, tn_f32_to_f16((float)v.f), 0);
    case TN_BF16: return LLVMConstInt(e->i16, tn_f32_to_bf16((float)v.f), 0);
    default: return LLVMConstInt(tn_ll_scalar_type(e, t), (uint64_t)v.i, 1);
  }
}

LLVMValueRef tn_ll_const(tn_ll *e, tn_vt vt, tn_num v) { return tn_ll_splat_const(num_const(e, (tn_dtype)vt.dtype, v), vt.lanes); }

static LLVMValueRef int_const(tn_ll *e, tn_vt vt, int64_t v) { return tn_ll_const(e, vt, (tn_num){.i = v}); }

static LLVMValueRef select_(tn_ll *e, LLVMValueRef c, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildSelect(e->b, c, a, b, ""); }

LLVMValueRef tn_ll_slice(tn_ll *e, LLVMValueRef v, unsigned first, unsigned n) {
  LLVMValueRef at[64];
  if (n == 1) return LLVMBuildExtractElement(e->b, v, LLVMConstInt(e->i64, first, 0), "");
  for (unsigned k = 0; k < n; k++) at[k] = LLVMConstInt(e->i32, first + k, 0);
  return LLVMBuildShuffleVector(e->b, v, LLVMGetPoison(LLVMTypeOf(v)), LLVMConstVector(at, n), "");
}

LLVMValueRef tn_ll_any(tn_ll *e, LLVMValueRef mask, unsigned lanes) {
  if (lanes == 1) return mask;
  LLVMTypeRef t = LLVMIntTypeInContext(e->ctx, lanes);
  return LLVMBuildICmp(e->b, LLVMIntNE, LLVMBuildBitCast(e->b, mask, t, ""), LLVMConstNull(t), "");
}

static LLVMValueRef call1(tn_ll *e, const char *name, LLVMValueRef a) {
  LLVMTypeRef t = LLVMTypeOf(a);
  return tn_ll_intrinsic(e, name, &t, 1, &a, 1);
}

static LLVMValueRef call2(tn_ll *e, const char *name, LLVMValueRef a, LLVMValueRef b) {
  LLVMTypeRef t = LLVMTypeOf(a);
  LLVMValueRef args[2] = {a, b};
  return tn_ll_intrinsic(e, name, &t, 1, args, 2);
}

/* ---- max and min ---- */

/* Is the value surely a number? Enough for constants and integers that became floats. */
static bool is_number(const tn_nest *n, tn_nv v) {
  const tn_ninst *i = &n->inst[v];
  if (i->op == TN_N_CONST) return !isnan(i->imm.f);
  return i->op == TN_N_CAST && !tn_dtype_is_float(tn_n_type(n, i->a).dtype);
}

static LLVMValueRef pick(tn_ll *e, bool max, LLVMValueRef a, LLVMValueRef b) {
  return select_(e, LLVMBuildFCmp(e->b, max ? LLVMRealOGT : LLVMRealOLT, a, b, ""), a, b);
}

/* NaN in either operand is the result. */
static LLVMValueRef float_extreme(tn_ll *e, bool max, LLVMValueRef a, LLVMValueRef b, bool a_number, bool b_number) {
  if (a_number) return pick(e, max, a, b);
  if (b_number) return pick(e, max, b, a);
  return select_(e, LLVMBuildFCmp(e->b, LLVMRealUNO, a, a, ""), a, pick(e, max, a, b));
}

/* NaN in one operand yields the other. */
static LLVMValueRef float_extreme_ignoring_nan(tn_ll *e, bool max, LLVMValueRef a, LLVMValueRef b) {
  return select_(e, LLVMBuildFCmp(e->b, LLVMRealUNO, b, b, ""), a, pick(e, max, a, b));
}

static LLVMValueRef int_extreme(tn_ll *e, tn_dtype t, bool max, LLVMValueRef a, LLVMValueRef b) {
  if (t == TN_BOOL) return max ? LLVMBuildOr(e->b, a, b, "") : LLVMBuildAnd(e->b, a, b, "");
  return call2(e, tn_dtype_is_unsigned(t) ? (max ? "llvm.umax" : "llvm.umin") : (max ? "llvm.smax" : "llvm.smin"), a, b);
}

/* ---- integer division and shifts: defined for every operand ---- */

static LLVMValueRef raw_divide(tn_ll *e, tn_dtype t, LLVMValueRef a, LLVMValueRef b) {
  return tn_dtype_is_unsigned(t) ? LLVMBuildUDiv(e->b, a, b, "") : LLVMBuildSDiv(e->b, a, b, "");
}

/* x / 0 = 0, x / -1 = -x (wraps). Vectors of narrow integers divide in f64, which is exact: a quotient of 32-bit integers that
 * is no integer is further from the next one than 2^-32 of itself. */
static LLVMValueRef int_truncdiv(tn_ll *e, const tn_ninst *i, LLVMValueRef a, LLVMValueRef b) {
  tn_dtype t = (tn_dtype)i->vt.dtype;
  int64_t c;
  LLVMValueRef zero = int_const(e, i->vt, 0), one = int_const(e, i->vt, 1), is_zero, is_minus, safe, q;
  if (tn_n_is_const(e->n, i->b, &c)) {
    if (c == 0) return zero;
    return c == -1 && !tn_dtype_is_unsigned(t) ? LLVMBuildNeg(e->b, a, "") : raw_divide(e, t, a, b);
  }
  is_zero = LLVMBuildICmp(e->b, LLVMIntEQ, b, zero, "");
  if (i->vt.lanes > 1 && tn_dtype_size(t) < 8) {
    LLVMValueRef x = tn_ll_op_cast(e, a, i->vt, TN_F64), y = tn_ll_op_cast(e, select_(e, is_zero, one, b), i->vt, TN_F64);
    q = LLVMBuildFDiv(e->b, x, y, "");
    if (t == TN_I32) { /* INT_MIN / -1 */
      tn_vt f64 = {TN_F64, i->vt.lanes};
      LLVMValueRef end = tn_ll_const(e, f64, (tn_num){.f = 0x1p31}), low = tn_ll_const(e, f64, (tn_num){.f = -0x1p31});
      q = select_(e, LLVMBuildFCmp(e->b, LLVMRealOEQ, q, end, ""), low, q);
    }
    LLVMTypeRef i32 = LLVMVectorType(e->i32, i->vt.lanes);
    q = t == TN_U32 ? LLVMBuildFPToUI(e->b, q, i32, "") : LLVMBuildFPToSI(e->b, q, i32, "");
    if (tn_dtype_size(t) < 4) q = LLVMBuildTrunc(e->b, q, tn_ll_type(e, i->vt), "");
    return select_(e, is_zero, zero, q);
  }
  if (tn_dtype_is_unsigned(t)) {
    q = raw_divide(e, t, a, select_(e, is_zero, one, b));
    return select_(e, is_zero, zero, q);
  }
  is_minus = LLVMBuildICmp(e->b, LLVMIntEQ, b, int_const(e, i->vt, -1), "");
  safe = select_(e, LLVMBuildOr(e->b, is_zero, is_minus, ""), one, b);
  q = select_(e, is_minus, LLVMBuildNeg(e->b, a, ""), raw_divide(e, t, a, safe));
  return select_(e, is_zero, zero, q);
}

/* Counts outside 0 .. width-1 shift everything out. */
static LLVMValueRef shift(tn_ll *e, const tn_ninst *i, LLVMValueRef a, LLVMValueRef b) {
  tn_dtype t = (tn_dtype)i->vt.dtype;
  int64_t width = (int64_t)tn_dtype_size(t) * 8, c;
  bool left = i->sop == TN_S_SHL, arithmetic = !left && !tn_dtype_is_unsigned(t);
  bool known = tn_n_is_const(e->n, i->b, &c) && c >= 0 && c < width;
  LLVMValueRef top = int_const(e, i->vt, width - 1), in_range = NULL;
  if (!known) {
    in_range = LLVMBuildICmp(e->b, LLVMIntULE, b, top, "");
    b = select_(e, in_range, b, top);
  }
  LLVMValueRef r = left ? LLVMBuildShl(e->b, a, b, "") : arithmetic ? LLVMBuildAShr(e->b, a, b, "") : LLVMBuildLShr(e->b, a, b, "");
  return known || arithmetic ? r : select_(e, in_range, r, int_const(e, i->vt, 0));
}

/* ---- scalar functions ---- */

static LLVMValueRef compare(tn_ll *e, tn_scalar_op op, tn_dtype t, LLVMValueRef a, LLVMValueRef b) {
  static const LLVMRealPredicate real[] = {LLVMRealOEQ, LLVMRealUNE, LLVMRealOLT, LLVMRealOLE, LLVMRealOGT, LLVMRealOGE};
  static const LLVMIntPredicate sint[] = {LLVMIntEQ, LLVMIntNE, LLVMIntSLT, LLVMIntSLE, LLVMIntSGT, LLVMIntSGE};
  static const LLVMIntPredicate uint[] = {LLVMIntEQ, LLVMIntNE, LLVMIntULT, LLVMIntULE, LLVMIntUGT, LLVMIntUGE};
  _Static_assert(TN_S_GE - TN_S_EQ == 5 && TN_S_LT - TN_S_EQ == 2, "order of comparisons in scalar.def");
  int k = (int)op - TN_S_EQ;
  if (tn_dtype_is_float(t)) return LLVMBuildFCmp(e->b, real[k], a, b, "");
  return LLVMBuildICmp(e->b, tn_dtype_is_unsigned(t) || t == TN_BOOL ? uint[k] : sint[k], a, b, "");
}

static LLVMValueRef unary(tn_ll *e, tn_scalar_op op, tn_vt vt, LLVMValueRef a) {
  bool f = tn_dtype_is_float(vt.dtype);
  switch (op) {
    case TN_S_NEG: return f ? LLVMBuildFNeg(e->b, a, "") : LLVMBuildNeg(e->b, a, "");
    case TN_S_ABS:
      if (f) return call1(e, "llvm.fabs", a);
      if (tn_dtype_is_unsigned((tn_dtype)vt.dtype)) return a;
      return call2(e, "llvm.abs", a, LLVMConstInt(e->i1, 0, 0));
    case TN_S_CEIL: return call1(e, "llvm.ceil", a);
    case TN_S_FLOOR: return call1(e, "llvm.floor", a);
    case TN_S_ROUND: return call1(e, "llvm.roundeven", a);
    case TN_S_TRUNC: return call1(e, "llvm.trunc", a);
    case TN_S_SQRT: return call1(e, "llvm.sqrt", a);
    case TN_S_NOT: return LLVMBuildNot(e->b, a, "");
    default: return NULL;
  }
}

static LLVMValueRef binary(tn_ll *e, const tn_ninst *i, LLVMValueRef a, LLVMValueRef b) {
  tn_dtype t = (tn_dtype)tn_n_type(e->n, i->a).dtype;
  tn_scalar_op op = (tn_scalar_op)i->sop;
  bool f = tn_dtype_is_float(t);
  switch (op) {
    case TN_S_ADD: return f ? LLVMBuildFAdd(e->b, a, b, "") : LLVMBuildAdd(e->b, a, b, "");
    case TN_S_SUB: return f ? LLVMBuildFSub(e->b, a, b, "") : LLVMBuildSub(e->b, a, b, "");
    case TN_S_MUL: return f ? LLVMBuildFMul(e->b, a, b, "") : LLVMBuildMul(e->b, a, b, "");
    case TN_S_DIV: return LLVMBuildFDiv(e->b, a, b, "");
    case TN_S_TRUNCDIV: return f ? NULL : int_truncdiv(e, i, a, b);
    case TN_S_MAX: case TN_S_MIN:
      if (f) return float_extreme(e, op == TN_S_MAX, a, b, is_number(e->n, i->a), is_number(e->n, i->b));
      return int_extreme(e, t, op == TN_S_MAX, a, b);
    case TN_S_FMAX: case TN_S_FMIN: return float_extreme_ignoring_nan(e, op == TN_S_FMAX, a, b);
    case TN_S_AND: return LLVMBuildAnd(e->b, a, b, "");
    case TN_S_OR: return LLVMBuildOr(e->b, a, b, "");
    case TN_S_XOR: return LLVMBuildXor(e->b, a, b, "");
    case TN_S_SHL: case TN_S_SHR: return shift(e, i, a, b);
    case TN_S_EQ: case TN_S_NE: case TN_S_LT: case TN_S_LE: case TN_S_GT: case TN_S_GE: return compare(e, op, t, a, b);
    default: return NULL;
  }
}

tn_status tn_ll_op_scalar(tn_ll *e, const tn_ninst *i, LLVMValueRef *out) {
  tn_scalar_op op = (tn_scalar_op)i->sop;
  LLVMValueRef *v = e->val;
  if (op == TN_S_SELECT) *out = select_(e, v[i->a], v[i->b], v[i->c]);
  else if (tn_scalar_arity(op) == 1) *out = unary(e, op, i->vt, v[i->a]);
  else *out = binary(e, i, v[i->a], v[i->b]);
  if (*out) return TN_OK;
  return tn_fail(e->d, TN_E_INTERNAL, "nest @%s: %s of %s reached the emitter; only basic functions may (tn_n_scalar expands the others)", e->n->name,
                 tn_scalar_name(op), tn_dtype_name(tn_n_type(e->n, i->a).dtype));
}

/* ---- casts ---- */

static tn_vt with(tn_vt vt, tn_dtype t) { return (tn_vt){(uint8_t)t, vt.lanes}; }

/* f32 -> bf16 bits, to nearest even; NaN keeps its upper payload and becomes quiet. */
static LLVMValueRef to_bf16(tn_ll *e, LLVMValueRef v, uint8_t lanes) {
  tn_vt vt = {TN_I32, lanes};
  LLVMValueRef u = LLVMBuildBitCast(e->b, v, tn_ll_type(e, vt), ""), sixteen = int_const(e, vt, 16);
  LLVMValueRef high = LLVMBuildLShr(e->b, u, sixteen, "");
  LLVMValueRef odd = LLVMBuildAnd(e->b, high, int_const(e, vt, 1), "");
  LLVMValueRef r = LLVMBuildAdd(e->b, u, LLVMBuildAdd(e->b, odd, int_const(e, vt, 0x7fff), ""), "");
  r = LLVMBuildLShr(e->b, r, sixteen, "");
  r = select_(e, LLVMBuildFCmp(e->b, LLVMRealUNO, v, v, ""), LLVMBuildOr(e->b, high, int_const(e, vt, 0x40), ""), r);
  return LLVMBuildTrunc(e->b, r, tn_ll_type(e, with(vt, TN_I16)), "");
}

static LLVMValueRef from_small_float(tn_ll *e, LLVMValueRef v, tn_vt from) {
  LLVMTypeRef f32 = tn_ll_type(e, with(from, TN_F32)), i32 = tn_ll_type(e, with(from, TN_I32));
  if (from.dtype == TN_F16) {
    LLVMTypeRef half = from.lanes == 1 ? e->f16 : LLVMVectorType(e->f16, from.lanes);
    return LLVMBuildFPExt(e->b, LLVMBuildBitCast(e->b, v, half, ""), f32, "");
  }
  v = LLVMBuildShl(e->b, LLVMBuildZExt(e->b, v, i32, ""), int_const(e, with(from, TN_I32), 16), "");
  return LLVMBuildBitCast(e->b, v, f32, "");
}

static LLVMValueRef to_small_float(tn_ll *e, LLVMValueRef v, uint8_t lanes, tn_dtype to) {
  if (to == TN_BF16) return to_bf16(e, v, lanes);
  LLVMTypeRef half = lanes == 1 ? e->f16 : LLVMVectorType(e->f16, lanes);
  return LLVMBuildBitCast(e->b, LLVMBuildFPTrunc(e->b, v, half, ""), lanes == 1 ? e->i16 : LLVMVectorType(e->i16, lanes), "");
}

/* f32 or f64 to an integer: NaN is 0, values outside go to the nearest end. */
static LLVMValueRef float_to_int(tn_ll *e, LLVMValueRef v, tn_vt from, tn_dtype to) {
  unsigned bits = (unsigned)tn_dtype_size(to) * 8;
  tn_vt vt = with(from, to);
  bool is_unsigned = tn_dtype_is_unsigned(to);
  double end = ldexp(1, (int)bits - !is_unsigned), low = is_unsigned ? 0 : -end;
  LLVMValueRef low_v = tn_ll_const(e, from, (tn_num){.f = low}), is_num = LLVMBuildFCmp(e->b, LLVMRealORD, v, v, "");
  bool exact_top = from.dtype == TN_F64 ? bits < 64 : bits < 32; /* the largest integer is a value of the float type: clamp there */
  LLVMValueRef zero = LLVMConstNull(tn_ll_type(e, from));
  if (exact_top) {
    v = pick(e, true, v, low_v);
    v = pick(e, false, v, tn_ll_const(e, from, (tn_num){.f = end - 1}));
    v = select_(e, is_num, v, zero);
    LLVMTypeRef i32 = tn_ll_type(e, with(from, TN_I32));
    LLVMValueRef r = to == TN_U32 ? LLVMBuildFPToUI(e->b, v, i32, "") : LLVMBuildFPToSI(e->b, v, i32, "");
    return bits < 32 ? LLVMBuildTrunc(e->b, r, tn_ll_type(e, vt), "") : r;
  }
  LLVMValueRef above = LLVMBuildFCmp(e->b, LLVMRealOGE, v, tn_ll_const(e, from, (tn_num){.f = end}), "");
  LLVMValueRef top = tn_ll_const(e, vt, tn_num_cast((tn_num){.f = INFINITY}, TN_F64, to)), r;
  if (is_unsigned) { /* no max(v, 0): of a widened half LLVM makes one of halves, and that calls a library */
    LLVMValueRef inside = LLVMBuildFCmp(e->b, LLVMRealOGT, v, tn_ll_const(e, from, (tn_num){.f = -1}), "");
    r = select_(e, inside, LLVMBuildFPToUI(e->b, v, tn_ll_type(e, vt), ""), int_const(e, vt, 0));
  } else {
    LLVMValueRef safe = select_(e, LLVMBuildAnd(e->b, is_num, LLVMBuildNot(e->b, above, ""), ""), pick(e, true, v, low_v), zero);
    r = LLVMBuildFPToSI(e->b, safe, tn_ll_type(e, vt), "");
  }
  return select_(e, above, top, r);
}

static LLVMValueRef int_to_int(tn_ll *e, LLVMValueRef v, tn_vt from, tn_dtype to) {
  size_t a = tn_dtype_size(from.dtype), b = tn_dtype_size(to);
  LLVMTypeRef t = tn_ll_type(e, with(from, to));
  if (from.dtype == TN_BOOL || (tn_dtype_is_unsigned((tn_dtype)from.dtype) && b > a)) return LLVMBuildZExt(e->b, v, t, "");
  return a == b ? v : a > b ? LLVMBuildTrunc(e->b, v, t, "") : LLVMBuildSExt(e->b, v, t, "");
}

LLVMValueRef tn_ll_op_cast(tn_ll *e, LLVMValueRef v, tn_vt from, tn_dtype to) {
  tn_dtype t = (tn_dtype)from.dtype;
  if (t == to) return v;
  if (t == TN_F16 || t == TN_BF16) return tn_ll_op_cast(e, from_small_float(e, v, from), with(from, TN_F32), to);
  if (to == TN_F16 || to == TN_BF16) return to_small_float(e, tn_ll_op_cast(e, v, from, TN_F32), from.lanes, to);
  LLVMTypeRef target = tn_ll_type(e, with(from, to));
  bool f = tn_dtype_is_float(t);
  if (to == TN_BOOL) {
    LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(v));
    return f ? LLVMBuildFCmp(e->b, LLVMRealUNE, v, zero, "") : LLVMBuildICmp(e->b, LLVMIntNE, v, zero, "");
  }
  if (f && tn_dtype_is_float(to)) return to == TN_F64 ? LLVMBuildFPExt(e->b, v, target, "") : LLVMBuildFPTrunc(e->b, v, target, "");
  if (f) return float_to_int(e, v, from, to);
  if (!tn_dtype_is_float(to)) return int_to_int(e, v, from, to);
  return t == TN_BOOL || tn_dtype_is_unsigned(t) ? LLVMBuildUIToFP(e->b, v, target, "") : LLVMBuildSIToFP(e->b, v, target, "");
}

/* ---- masks and reductions ---- */

/* lane < count. The comparison is made in the integer width that fills one register, so that the mask needs no conversion. */
LLVMValueRef tn_ll_op_mask(tn_ll *e, const tn_ninst *i) {
  unsigned lanes = i->vt.lanes;
  LLVMValueRef count = e->val[i->a], at[64];
  if (lanes == 1) return LLVMBuildICmp(e->b, LLVMIntSGT, count, LLVMConstInt(e->i64, 0, 0), "");
  count = call2(e, "llvm.smax", count, LLVMConstInt(e->i64, 0, 0));
  count = call2(e, "llvm.smin", count, LLVMConstInt(e->i64, lanes, 0));
  unsigned bits = e->t->vector_bits / lanes;
  LLVMTypeRef t = bits >= 64 ? e->i64 : bits >= 32 ? e->i32 : bits >= 16 ? e->i16 : e->i8;
  if (t != e->i64) count = LLVMBuildTrunc(e->b, count, t, "");
  for (unsigned k = 0; k < lanes; k++) at[k] = LLVMConstInt(t, k, 0);
  return LLVMBuildICmp(e->b, LLVMIntSGT, tn_ll_splat(e, count, lanes), LLVMConstVector(at, lanes), "");
}

static LLVMValueRef combine(tn_ll *e, tn_combiner c, tn_dtype t, LLVMValueRef a, LLVMValueRef b) {
  bool f = tn_dtype_is_float(t);
  switch (c) {
    case TN_C_SUM: return f ? LLVMBuildFAdd(e->b, a, b, "") : LLVMBuildAdd(e->b, a, b, "");
    case TN_C_PROD: return f ? LLVMBuildFMul(e->b, a, b, "") : LLVMBuildMul(e->b, a, b, "");
    case TN_C_MAX: case TN_C_MIN: return f ? float_extreme(e, c == TN_C_MAX, a, b, false, false) : int_extreme(e, t, c == TN_C_MAX, a, b);
    default: return NULL;
  }
}

/* Folds the upper half onto the lower until one lane is left: the order the interpreter uses, and what x86 does best. */
LLVMValueRef tn_ll_op_hreduce(tn_ll *e, const tn_ninst *i) {
  tn_vt vt = tn_n_type(e->n, i->a);
  LLVMValueRef v = e->val[i->a];
  tn_combiner c = (tn_combiner)i->imm.i;
  if (vt.lanes == 1) return v;
  if (c == TN_C_ANY) return tn_ll_any(e, v, vt.lanes);
  if (c == TN_C_ALL) return LLVMBuildNot(e->b, tn_ll_any(e, LLVMBuildNot(e->b, v, ""), vt.lanes), "");
  for (unsigned half = vt.lanes / 2; half >= 1; half /= 2) v = combine(e, c, (tn_dtype)vt.dtype, tn_ll_slice(e, v, 0, half), tn_ll_slice(e, v, half, half));
  return v;
}

/* vmath, private to src/kir: short names for appending the arithmetic of expansions, and the functions that use each other.
 * A `tn_vm` says where to append (nest) and on what type: f is f32 or f64 with its lanes, i the integers of the same width. */
#ifndef TN_VMATH_INT_H
#define TN_VMATH_INT_H
#include <math.h>
#include "kir/nest.h"

typedef struct tn_vm { tn_nest *n; tn_vt f, i; bool d; /* f64 */ } tn_vm;

static inline tn_vm vm_of(tn_nest *n, tn_dtype t, int lanes) {
  bool d = t == TN_F64;
  return (tn_vm){n, {d ? TN_F64 : TN_F32, (uint8_t)lanes}, {d ? TN_I64 : TN_I32, (uint8_t)lanes}, d};
}

/* constants: float, one per type, integer */
static inline tn_nv vm_c(const tn_vm *m, double v) { return tn_n_f(m->n, (tn_dtype)m->f.dtype, m->f.lanes, v); }
static inline tn_nv vm_c2(const tn_vm *m, double if_f32, double if_f64) { return vm_c(m, m->d ? if_f64 : if_f32); }
static inline tn_nv vm_ci(const tn_vm *m, int64_t v) { return tn_n_const(m->n, m->i, tn_num_cast((tn_num){.i = v}, TN_I64, (tn_dtype)m->i.dtype)); }
static inline tn_nv vm_ci2(const tn_vm *m, int64_t if_f32, int64_t if_f64) { return vm_ci(m, m->d ? if_f64 : if_f32); }

#define VM_OP2(name, op) static inline tn_nv vm_##name(const tn_vm *m, tn_nv a, tn_nv b) { return tn_n_op2(m->n, op, a, b); }
VM_OP2(add, TN_S_ADD) VM_OP2(sub, TN_S_SUB) VM_OP2(mul, TN_S_MUL) VM_OP2(div, TN_S_DIV)
VM_OP2(and, TN_S_AND) VM_OP2(or, TN_S_OR) VM_OP2(xor, TN_S_XOR) VM_OP2(shl, TN_S_SHL) VM_OP2(shr, TN_S_SHR)
VM_OP2(eq, TN_S_EQ) VM_OP2(ne, TN_S_NE) VM_OP2(lt, TN_S_LT) VM_OP2(le, TN_S_LE) VM_OP2(gt, TN_S_GT) VM_OP2(ge, TN_S_GE)
VM_OP2(max, TN_S_MAX) VM_OP2(min, TN_S_MIN)
#undef VM_OP2
#define VM_OP1(name, op) static inline tn_nv vm_##name(const tn_vm *m, tn_nv a) { return tn_n_op1(m->n, op, a); }
VM_OP1(abs, TN_S_ABS) VM_OP1(neg, TN_S_NEG) VM_OP1(not, TN_S_NOT) VM_OP1(sqrt, TN_S_SQRT) VM_OP1(trunc, TN_S_TRUNC) VM_OP1(floor, TN_S_FLOOR)
#undef VM_OP1
static inline tn_nv vm_fma(const tn_vm *m, tn_nv a, tn_nv b, tn_nv c) { return tn_n_fma(m->n, a, b, c); }
static inline tn_nv vm_sel(const tn_vm *m, tn_nv c, tn_nv a, tn_nv b) { return tn_n_select(m->n, c, a, b); }

/* the same bits as integer or float */
static inline tn_nv vm_bits(const tn_vm *m, tn_nv a) { return a ? tn_n_add(m->n, (tn_ninst){.op = TN_N_BITCAST, .vt = m->i, .a = a}) : 0; }
static inline tn_nv vm_float(const tn_vm *m, tn_nv a) { return a ? tn_n_add(m->n, (tn_ninst){.op = TN_N_BITCAST, .vt = m->f, .a = a}) : 0; }
static inline tn_nv vm_sign_mask(const tn_vm *m) { return vm_ci2(m, INT32_MIN, INT64_MIN); }
static inline tn_nv vm_sign_bit(const tn_vm *m, tn_nv a) { return vm_and(m, vm_bits(m, a), vm_sign_mask(m)); }
/* v with the sign bits flipped where `bit` (integer) has them */
static inline tn_nv vm_flip(const tn_vm *m, tn_nv v, tn_nv bit) { return vm_float(m, vm_xor(m, vm_bits(m, v), bit)); }
/* v >= 0 with the sign of s */
static inline tn_nv vm_copysign(const tn_vm *m, tn_nv v, tn_nv s) { return vm_float(m, vm_or(m, vm_bits(m, v), vm_sign_bit(m, s))); }
static inline tn_nv vm_is_nan(const tn_vm *m, tn_nv a) { return vm_ne(m, a, a); }
static inline tn_nv vm_nan(const tn_vm *m) { return vm_c(m, NAN); }
static inline tn_nv vm_inf(const tn_vm *m) { return vm_c(m, INFINITY); }
static inline int64_t vm_mantissa_bits(const tn_vm *m) { return m->d ? 52 : 23; }
/* Adding this number rounds to an integer, which is then also in the low bits. */
static inline tn_nv vm_magic(const tn_vm *m) { return vm_c2(m, 0x1.8p23, 0x1.8p52); }
/* any lane */
static inline tn_nv vm_any(const tn_vm *m, tn_nv mask) { return tn_n_hreduce(m->n, TN_C_ANY, mask); }

/* c[0] + c[1] x + ... by Horner */
static inline tn_nv vm_horner(const tn_vm *m, tn_nv x, const double *c, int n) {
  tn_nv p = vm_c(m, c[n - 1]);
  for (int k = n - 2; k >= 0; k--) p = vm_fma(m, p, x, vm_c(m, c[k]));
  return p;
}
#define VM_POLY1(m, x, table) vm_horner((m), (x), table, (int)(sizeof(table) / sizeof *(table)))
#define VM_POLY(m, x, name) ((m)->d ? VM_POLY1(m, x, name##_f64) : VM_POLY1(m, x, name##_f32))

/* vmath_exp.c */
tn_nv vm_exp(const tn_vm *m, tn_nv x);
tn_nv vm_exp2(const tn_vm *m, tn_nv x);
tn_nv vm_expm1(const tn_vm *m, tn_nv x);
tn_nv vm_sigmoid(const tn_vm *m, tn_nv x);
tn_nv vm_tanh(const tn_vm *m, tn_nv x);
tn_nv vm_sinh(const tn_vm *m, tn_nv x);
tn_nv vm_cosh(const tn_vm *m, tn_nv x);
/* exp(x) for x in the range where the result is a normal number */
tn_nv vm_exp_core(const tn_vm *m, tn_nv x);
/* 2^(hi + lo), |lo| small; 0 and inf out of range, NaN kept */
tn_nv vm_exp2_sum(const tn_vm *m, tn_nv hi, tn_nv lo);
/* vmath_erf.c */
tn_nv vm_erf(const tn_vm *m, tn_nv x);
tn_nv vm_erfc(const tn_vm *m, tn_nv x);
/* vmath_log.c */
tn_nv vm_log(const tn_vm *m, tn_nv x);
tn_nv vm_log2(const tn_vm *m, tn_nv x);
tn_nv vm_log10(const tn_vm *m, tn_nv x);
tn_nv vm_log1p(const tn_vm *m, tn_nv x);
tn_nv vm_asinh(const tn_vm *m, tn_nv x);
tn_nv vm_acosh(const tn_vm *m, tn_nv x);
tn_nv vm_atanh(const tn_vm *m, tn_nv x);
tn_nv vm_pow(const tn_vm *m, tn_nv x, tn_nv y);
/* vmath_reduce.c: n in the two low bits of q, x = n pi/2 + r */
typedef struct vm_reduced { tn_nv r, q; } vm_reduced;
vm_reduced vm_reduce_huge(const tn_vm *m, tn_nv a);
/* vmath_trig.c */
tn_nv vm_sin(const tn_vm *m, tn_nv x);
tn_nv vm_cos(const tn_vm *m, tn_nv x);
tn_nv vm_tan(const tn_vm *m, tn_nv x);
tn_nv vm_asin(const tn_vm *m, tn_nv x);
tn_nv vm_acos(const tn_vm *m, tn_nv x);
tn_nv vm_atan(const tn_vm *m, tn_nv x);
tn_nv vm_atan2(const tn_vm *m, tn_nv y, tn_nv x);
/* vmath_div.c: division families, integer powers */
tn_nv vm_float_division(tn_nest *n, tn_scalar_op op, tn_nv a, tn_nv b);
tn_nv vm_int_division(tn_nest *n, tn_scalar_op op, tn_nv a, tn_nv b);
tn_nv vm_int_pow(tn_nest *n, tn_nv a, tn_nv e);
#endif

/* Scalar functions as data (scalar.def) and their plain-C evaluation, which is their specification. */
#ifndef TN_SCALAR_H
#define TN_SCALAR_H
#include "base.h"
typedef enum tn_scalar_op {
#define TN_SCALAR(id, text, arity, result, domain) TN_S_##id,
#include "scalar.def"
#undef TN_SCALAR
  TN_N_SCALARS
} tn_scalar_op;
typedef enum tn_combiner { TN_C_SUM, TN_C_PROD, TN_C_MAX, TN_C_MIN, TN_C_ANY, TN_C_ALL, TN_C_ARGMAX, TN_C_ARGMIN, TN_N_COMBINERS } tn_combiner;
/* A scalar of any dtype: floats in f (f16/bf16/f32 already rounded to their type), ints and bools in i. */
typedef union tn_num { double f; int64_t i; } tn_num;
const char *tn_scalar_name(tn_scalar_op op);
int tn_scalar_arity(tn_scalar_op op);
bool tn_scalar_is_bool(tn_scalar_op op);               /* result is bool */
bool tn_scalar_accepts(tn_scalar_op op, tn_dtype t);
bool tn_scalar_find(const char *s, size_t n, tn_scalar_op *out);
/* Evaluates in double / int64, rounds the result to `t` (the operands' dtype; for SELECT that of arguments 1 and 2). */
tn_num tn_scalar_eval(tn_scalar_op op, tn_dtype t, const tn_num *arg);
tn_num tn_num_cast(tn_num v, tn_dtype from, tn_dtype to);   /* torch's conversion; float to int saturates, NaN gives 0 */
tn_num tn_num_load(tn_dtype t, const void *p);
void tn_num_store(tn_dtype t, void *p, tn_num v);
const char *tn_combiner_name(tn_combiner c);
bool tn_combiner_find(const char *s, size_t n, tn_combiner *out);
tn_num tn_combiner_identity(tn_combiner c, tn_dtype t);
tn_num tn_combiner_step(tn_combiner c, tn_dtype t, tn_num acc, tn_num v);  /* not for ARGMAX/ARGMIN: they carry an index too */
#endif

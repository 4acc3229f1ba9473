/* onnx_ml: what the rows of ai.onnx.ml share. */
#ifndef TN_ONNX_ML_H
#define TN_ONNX_ML_H
#include "onnx_text.h"

/* A list of keys or values of one kind, from attributes: s, i or f is set (none: n = 0, all NULL). elem: ONNX number. */
typedef struct tn_ox_list { const tn_ox_str *s; const int64_t *i; const double *f; uint32_t n; int elem; } tn_ox_list;
/* From the attributes <name>_strings, <name>_int64s, <name>_floats, <name>_tensor, whichever is there. suffix of the integer one may be "ints". */
tn_ox_list tn_ox_list_get(tn_ox *c, const char *name);
tn_ox_list tn_ox_list_attr(tn_ox *c, const char *name);                 /* one attribute by its full name; absent: n = 0 */
/* Float attributes as doubles; absent: NULL and 0. name_as_tensor is taken when name is not there. */
const double *tn_ox_floats(tn_ox *c, const char *name, uint32_t *n);
const int64_t *tn_ox_ints(tn_ox *c, const char *name, uint32_t *n);
/* 1-D constants. */
tn_ref tn_ox_const_list(tn_ox *c, const tn_ox_list *l, int elem);       /* numbers, stored as elem */
tn_ref tn_ox_const_f32(tn_ox *c, const double *v, int rank, const int64_t *dim);
tn_ref tn_ox_const_i64(tn_ox *c, const int64_t *v, int64_t n);
tn_ref tn_ox_const_strs(tn_ox *c, const tn_ox_str *s, uint32_t n);
/* Place of each element of x (strings or numbers) in keys as given, keys.n where it is none of them; of equal keys the last. i64 in x's shape. */
tn_ref tn_ox_lookup(tn_ox *c, tn_ref x, const tn_ox_list *keys);
/* Element idx[...] of l; idx may be l->n where `other` (a list of one) is given. */
tn_ref tn_ox_pick(tn_ox *c, const tn_ox_list *l, const tn_ox_list *other, tn_ref idx);
/* Operand k as f32 or f64 (other numbers become f32). */
tn_ref tn_ox_features(tn_ox *c, uint32_t k);
/* Scores [N, E] through "NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO" or "PROBIT". */
tn_ref tn_ox_post(tn_ox *c, tn_ref scores, const char *how);
#endif

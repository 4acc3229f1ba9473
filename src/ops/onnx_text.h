/* onnx_text: string tensors and lists of attributes, for onnx_string.c and onnx_ml*.c. Like onnx_int.h, all do nothing after a failure. */
#ifndef TN_ONNX_TEXT_H
#define TN_ONNX_TEXT_H
#include "onnx_int.h"

/* Notes what an OBJ value is (o.rank dims from dim, NULL: o's own). */
tn_status tn_ox_obj_note(tn_ox *c, tn_ref r, tn_ox_obj o, const tn_dim *dim);
tn_ref tn_ox_str_is(tn_ox *c, tn_ref r, int rank, const tn_dim *dim);   /* r, noted as a string tensor; dims TN_DIM_BAD: not known */
int tn_ox_str_dims(tn_ox *c, tn_ref r, tn_dim *dim);                    /* its rank and dims, all of them known or symbols */
tn_ref tn_ox_str_in(tn_ox *c, uint32_t k);                              /* operand k, which must be strings */
tn_ref tn_ox_str_numbers(tn_ox *c, tn_ref r);
tn_ref tn_ox_str_take(tn_ox *c, tn_ref numbers, const tn_ref *str, uint32_t n);
tn_ref tn_ox_str_parse(tn_ox *c, tn_ref x, int elem);                   /* text to numbers */
tn_ref tn_ox_str_print(tn_ox *c, tn_ref x);                             /* numbers to text */

tn_attr tn_ox_mk_ints(tn_ox *c, const char *name, const int64_t *v, uint32_t n);
tn_attr tn_ox_mk_floats(tn_ox *c, const char *name, const double *v, uint32_t n);
tn_attr tn_ox_mk_strs(tn_ox *c, const char *name, const tn_ox_str *v, uint32_t n);
#endif

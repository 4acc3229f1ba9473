/* onnx_nn: what the rows for networks share (onnx_conv.c, onnx_pool.c, onnx_norm.c, onnx_resize.c, onnx_sample.c, onnx_rnn.c, onnx_attention.c,
 * onnx_ms*.c). Private to room ops. */
#ifndef TN_ONNX_NN_H
#define TN_ONNX_NN_H
#include "onnx_int.h"

static inline tn_ref tn_nn_mul(tn_decomp_ctx *b, tn_ref x, tn_ref y) { return tn_b_2(b, TN_OP_MUL, x, y); }
static inline tn_ref tn_nn_add(tn_decomp_ctx *b, tn_ref x, tn_ref y) { return tn_b_2(b, TN_OP_ADD, x, y); }
static inline tn_ref tn_nn_sub(tn_decomp_ctx *b, tn_ref x, tn_ref y) { return tn_b_2(b, TN_OP_SUB, x, y); }
static inline tn_ref tn_nn_div(tn_decomp_ctx *b, tn_ref x, tn_ref y) { return tn_b_2(b, TN_OP_DIV, x, y); }
static inline tn_ref tn_nn_min(tn_decomp_ctx *b, tn_ref x, tn_ref y) { return tn_b_2(b, TN_OP_MIN, x, y); }
static inline tn_ref tn_nn_max(tn_decomp_ctx *b, tn_ref x, tn_ref y) { return tn_b_2(b, TN_OP_MAX, x, y); }
static inline tn_ref tn_nn_and(tn_decomp_ctx *b, tn_ref x, tn_ref y) { return tn_b_2(b, TN_OP_AND, x, y); }

/* Rank and dims of an operand; -1 and an error unless lo <= rank <= hi. */
int tn_nn_shape(tn_ox *c, tn_ref x, int lo, int hi, const char *what, tn_dim *d);
/* A float operand's dtype, else an error. */
bool tn_nn_float(tn_ox *c, tn_ref x, const char *what);
/* An attribute of n integers in [lo, hi]; absent: all def. */
void tn_nn_spread(tn_ox *c, const char *name, int n, int64_t lo, int64_t hi, int64_t def, int64_t *out);
/* A constant dim, else unsupported; 0 then. */
int64_t tn_nn_const_dim(tn_ox *c, tn_dim d, const char *what);
/* Kernel from attribute kernel_shape for an x[N, C, *]; strides, dilations, pads, auto_pad, ceil_mode; sizes of the result. */
bool tn_nn_window(tn_ox *c, tn_ref x, const int64_t *kernel, tn_pool_form *w, bool *ceil);
/* Convolution or its transpose by the attributes of the node (Conv, ConvTranspose, ConvInteger, QLinearConv, FusedConv): x[N, C, *], w, and a bias (id 0 = none)
 * added in the dtype computed in: f32 for f16 and bf16, else x's. */
tn_ref tn_nn_conv(tn_ox *c, tn_ref x, tn_ref w, tn_ref bias, bool transposed);
/* x[:, start:start+size] of the last dim and the like, dims from the end */
static inline tn_ref tn_nn_last(tn_decomp_ctx *b, tn_ref x, tn_dim start, tn_dim size) { return tn_b_slice(b, x, tn_b_rank(b, x) - 1, start, size, 1); }
#endif

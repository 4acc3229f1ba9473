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
/* x with `size` in dim k: what is spelled otherwise must be equal, which the run checks. */
tn_ref tn_nn_fixed(tn_ox *c, tn_ref x, int k, tn_dim size);
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
/* ---- attention (onnx_attention.c) ---- */
typedef struct tn_nn_attn {
  tn_ref q, k, v;               /* [B, Hq, S, D], [B, Hk, T, D], [B, Hk, T, Dv]; Hq a multiple of Hk */
  double scale;                 /* of q k' */
  double softcap;               /* 0 = none */
  tn_ref allow;                 /* bool, broadcasts to [B, Hq, S, T]: who may attend; id 0 = all */
  tn_ref bias;                  /* added to the scores, same shapes; id 0 = none */
  tn_ref sink;                  /* [Hq]: one more score of every row, which takes its share and gives nothing; id 0 = none */
  tn_dtype soft;                /* rounded to this before softmax and after; 0 = TN_F32: not rounded */
  bool soft_given;
  int want;                     /* which scores go to `scores`: 0 raw, 1 capped, 2 with bias, 3 probabilities; -1 none. [B, Hq, S, T] */
  tn_ref scores;
} tn_nn_attn;
/* [B, Hq, S, Dv], f32 for f16 and bf16. */
tn_ref tn_nn_attention(tn_ox *c, tn_nn_attn *a);
tn_ref tn_nn_heads(tn_ox *c, tn_ref x, int64_t n);                            /* [B, S, n*D] -> [B, n, S, D] */
tn_ref tn_nn_unheads(tn_ox *c, tn_ref x);                                     /* [B, n, S, D] -> [B, S, n*D] */
tn_ref tn_nn_allow_both(tn_decomp_ctx *b, tn_ref x, tn_ref y);                /* and; either may be id 0 */
/* j <= i + offset of shape [S, T] ([B, 1, S, T] when offset is [B]); and the window i + offset - left <= j <= i + offset + right (-1: no bound). offset: i64, rank 0 or 1 */
tn_ref tn_nn_causal(tn_ox *c, tn_dim S, tn_dim T, tn_ref offset, bool causal, int64_t left, int64_t right);
/* Rotates the first 2 * half elements of x[B, H, S, D]'s last dim by angles cos, sin [B or 1, S, half]. */
tn_ref tn_nn_rotate(tn_ox *c, tn_ref x, tn_ref cos, tn_ref sin, bool interleaved);
#endif

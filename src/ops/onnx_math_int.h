/* onnx_math_int: short words for the files of arithmetic rows (onnx_math.c, onnx_reduce.c, onnx_contract.c, onnx_lowp.c, onnx_quant.c, onnx_loss.c,
 * onnx_random.c, onnx_signal.c, onnx_training.c). Sticky like the builders they call. */
#ifndef TN_ONNX_MATH_INT_H
#define TN_ONNX_MATH_INT_H
#include "ops/onnx_int.h"

static inline tn_ref mx_num(tn_ox *c, tn_ref like, double v) { return tn_b_num(&c->b, v, tn_b_dtype(&c->b, like)); }
static inline tn_ref mx_1(tn_ox *c, tn_op op, tn_ref a) { return tn_b_1(&c->b, op, a); }
static inline tn_ref mx_2(tn_ox *c, tn_op op, tn_ref a, tn_ref b) { return tn_b_2(&c->b, op, a, b); }
static inline tn_ref mx_2n(tn_ox *c, tn_op op, tn_ref a, double v) { return tn_b_2(&c->b, op, a, mx_num(c, a, v)); }   /* with a number of a's dtype */
static inline tn_ref mx_add(tn_ox *c, tn_ref a, tn_ref b) { return mx_2(c, TN_OP_ADD, a, b); }
static inline tn_ref mx_sub(tn_ox *c, tn_ref a, tn_ref b) { return mx_2(c, TN_OP_SUB, a, b); }
static inline tn_ref mx_mul(tn_ox *c, tn_ref a, tn_ref b) { return mx_2(c, TN_OP_MUL, a, b); }
static inline tn_ref mx_div(tn_ox *c, tn_ref a, tn_ref b) { return mx_2(c, TN_OP_DIV, a, b); }
static inline tn_ref mx_sel(tn_ox *c, tn_ref k, tn_ref a, tn_ref b) { return tn_b_sel(&c->b, k, a, b); }
static inline tn_ref mx_cast(tn_ox *c, tn_ref a, tn_dtype t) { return tn_b_cast(&c->b, a, t); }
static inline tn_dtype mx_dtype(const tn_ox *c, tn_ref a) { return tn_b_dtype(&c->b, a); }
static inline int mx_rank(const tn_ox *c, tn_ref a) { return tn_b_rank(&c->b, a); }
static inline bool mx_ok(const tn_ox *c) { return c->b.st == TN_OK; }
static inline tn_status mx_ret_as(tn_ox *c, uint32_t k, tn_ref y, tn_dtype t) { return tn_ox_ret(c, k, mx_cast(c, y, t)); }
static inline int mx_all_axes(const tn_ox *c, tn_ref x, int *ax) {
  int n = mx_rank(c, x);
  for (int i = 0; i < n; i++) ax[i] = i;
  return n;
}

/* The operand as numbers a kernel can compute with: float8, float6 and float4 become f32, others stay. */
tn_ref tn_ox_plain(tn_ox *c, tn_ref x);
/* Operands of the binary operators before opset 7: attribute broadcast, and axis says where b's dims stand among a's. Later opsets: b as it is. */
tn_ref tn_ox_old_broadcast(tn_ox *c, tn_ref a, tn_ref b);
/* A constant operand of one element, as a number. false: absent, not constant, or not one element. */
bool tn_ox_scalar_const(tn_ox *c, uint32_t k, double *out);
/* A scalar of one element as rank 0 (a [1] tensor loses its dim); others as they are. */
tn_ref tn_ox_scalar(tn_ox *c, tn_ref x);

/* ---- dims that a value decides: `is[i]` (bool[]) says whether along dim i the changed form is wanted ---- */
/* size[i], the size of the changed form, becomes the size of what is chosen: d[i] where both are equal, else a symbol. false: failed. */
bool tn_ox_sizes_if(tn_ox *c, const tn_ref *is, const tn_dim *d, tn_dim *size, int n);
/* is ? yes : no, which differ in the size of `axis` only; that of the result is `size`. */
tn_ref tn_ox_along_if(tn_ox *c, tn_ref is, tn_ref yes, tn_ref no, int axis, tn_dim size);

/* ---- used across the files ---- */
tn_ref tn_ox_matmul_of(tn_ox *c, tn_ref a, tn_ref b);                   /* numpy's matmul; f16, bf16 give f32 */
tn_ref tn_ox_log_softmax_of(tn_ox *c, tn_ref x, const int *ax, int n);
/* onnx_quant.c: (x - zx) times (w - zw), exact, as i32 (small floats: f32); vectors of zero points run along x's dim `axis` (-1: as they are), and along the columns
 * of w. acc * (sa * sb / sy), rounded, plus zero point z, saturated to element type `to`, as result 0. x as whole numbers 0..255 (f32) by its own range, with scale
 * and zero point (f32 scalars). */
tn_ref tn_ox_whole_matmul(tn_ox *c, tn_ref x, tn_ref zx, int axis, tn_ref w, tn_ref zw);
/* onnx_qdot.c: the first of these with a constant weight w[K, N] on the byte units, when that suits; zx as i32 (scalar, or broadcast over the result), zw constant.
 * false: nothing is built. And MatMul of two operands that DequantizeLinear made of bytes. */
bool tn_ox_byte_matmul(tn_ox *c, tn_ref x, tn_ref zx, tn_ref w, tn_ref zw, tn_ref *out);
bool tn_ox_dequantised_matmul(tn_ox *c, tn_ref a, tn_ref b, tn_ref *out);
tn_status tn_ox_requantised(tn_ox *c, tn_ref acc, tn_ref sa, tn_ref sb, tn_ref sy, tn_ref z, int to);
void tn_ox_dynamic_u8(tn_ox *c, tn_ref x, tn_ref *y, tn_ref *scale, tn_ref *zero);
tn_ref tn_ox_cast_string(tn_ox *c, tn_ref x, int to);                   /* from strings, or to them (8) */
tn_ref tn_ox_text_equal(tn_ox *c, tn_ref a, tn_ref b);                  /* bool, broadcast */
#endif

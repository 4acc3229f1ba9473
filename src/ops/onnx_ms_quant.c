/* onnx_ms_quant: the quantised operators of com.microsoft. Elementwise ones and pools compute on real values: (q - zero) * scale, then round half to
 * even(y / scale) + zero, saturated. Products are exact in i32. DynamicQuantizeLSTM quantises x as documented for DynamicQuantizeMatMul and dequantises the
 * weights; the state stays f32 between steps, which is what its quantised product approximates.
 * (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md) */
#include "onnx_math_int.h"
#include "onnx_nn.h"

#define N TN_MAX_RANK

static tn_ref real(tn_ox *c, tn_ref q, tn_ref scale, tn_ref zero) {
  tn_decomp_ctx *b = &c->b;
  if (b->st != TN_OK) return q;
  q = tn_b_cast(b, q, TN_F32);
  if (zero.id) q = tn_nn_sub(b, q, tn_b_cast(b, tn_ox_scalar(c, zero), TN_F32));
  return tn_nn_mul(b, q, tn_b_cast(b, tn_ox_scalar(c, scale), TN_F32));
}
static tn_status quantised(tn_ox *c, tn_ref y, tn_ref scale, tn_ref zero, tn_dtype t) {
  tn_decomp_ctx *b = &c->b;
  if (b->st != TN_OK) return b->st;
  if (t != TN_U8 && t != TN_I8) return tn_ox_unsup(c, "%s operands", tn_dtype_name(t));
  y = tn_b_1(b, TN_OP_ROUND, tn_nn_div(b, y, tn_b_cast(b, tn_ox_scalar(c, scale), TN_F32)));
  if (zero.id) y = tn_nn_add(b, y, tn_b_cast(b, tn_ox_scalar(c, zero), TN_F32));
  y = tn_nn_min(b, tn_nn_max(b, y, tn_b_num(b, t == TN_U8 ? 0 : -128, TN_F32)), tn_b_num(b, t == TN_U8 ? 255 : 127, TN_F32));
  return tn_ox_ret(c, 0, tn_b_cast(b, y, t));
}
static tn_dtype type_of(tn_ox *c, tn_ref x) { return c->b.st == TN_OK ? tn_b_dtype(&c->b, x) : TN_U8; }

/* ---- two operands: a, scale, zero, b, scale, zero, result's scale, zero ---- */

static tn_status binary(tn_ox *c, tn_op op) {
  tn_ref a = tn_ox_in(c, 0), x = real(c, a, tn_ox_in(c, 1), tn_ox_opt(c, 2)), y = real(c, tn_ox_in(c, 3), tn_ox_in(c, 4), tn_ox_opt(c, 5));
  return quantised(c, tn_b_2(&c->b, op, x, y), tn_ox_in(c, 6), tn_ox_opt(c, 7), type_of(c, a));
}
tn_status tn_ox_ms_qlinear_add(tn_ox *c) { return binary(c, TN_OP_ADD); }
tn_status tn_ox_ms_qlinear_mul(tn_ox *c) { return binary(c, TN_OP_MUL); }
tn_status tn_ox_ms_qlinear_where(tn_ox *c) {
  tn_ref k = tn_ox_in(c, 0), a = tn_ox_in(c, 1), x = real(c, a, tn_ox_in(c, 2), tn_ox_opt(c, 3)), y = real(c, tn_ox_in(c, 4), tn_ox_in(c, 5), tn_ox_opt(c, 6));
  return quantised(c, tn_b_sel(&c->b, tn_b_bool(&c->b, k), x, y), tn_ox_in(c, 7), tn_ox_opt(c, 8), type_of(c, a));
}

/* ---- one operand: x, scale, zero, result's scale, zero ---- */

static tn_ref operand(tn_ox *c) { return real(c, tn_ox_in(c, 0), tn_ox_in(c, 1), tn_ox_opt(c, 2)); }
static tn_status result(tn_ox *c, tn_ref y) { return quantised(c, y, tn_ox_in(c, 3), tn_ox_opt(c, 4), type_of(c, tn_ox_in(c, 0))); }
tn_status tn_ox_ms_qlinear_sigmoid(tn_ox *c) { return result(c, tn_b_1(&c->b, TN_OP_SIGMOID, operand(c))); }
tn_status tn_ox_ms_qlinear_leaky_relu(tn_ox *c) {
  tn_ref x = operand(c);
  double a = tn_ox_float(c, "alpha", 0.01);
  if (c->b.st != TN_OK) return c->b.st;
  return result(c, tn_b_sel(&c->b, tn_b_2(&c->b, TN_OP_GE, x, tn_b_num(&c->b, 0, TN_F32)), x, tn_b_muln(&c->b, x, a)));
}
tn_status tn_ox_ms_qlinear_softmax(tn_ox *c) {         /* before opset 13: over all dims from axis on together */
  tn_decomp_ctx *b = &c->b;
  tn_ref x = operand(c);
  tn_dim d[N], s[2];
  int rank = tn_nn_shape(c, x, 1, N, "X", d), axis = tn_ox_axis(c, "axis", -1, rank);
  if (b->st != TN_OK) return b->st;
  if (tn_ox_int(c, "opset", 13) >= 13) return result(c, tn_b_softmax(b, x, axis, false));
  s[0] = tn_b_numel(b, d, axis);
  s[1] = tn_b_numel(b, d + axis, rank - axis);
  return result(c, tn_b_reshape(b, tn_b_softmax(b, tn_b_reshape(b, x, s, 2), 1, false), d, rank));
}
tn_status tn_ox_ms_qlinear_reduce_mean(tn_ox *c) {
  tn_decomp_ctx *b = &c->b;
  tn_ref x = operand(c);
  int64_t v[N];
  int ax[N], rank = b->st == TN_OK ? tn_b_rank(b, x) : 0, n = tn_ox_ints_attr(c, "axes", v, N);
  for (int i = 0; i < n; i++) ax[i] = tn_ox_wrap(c, v[i], rank);
  for (int i = 0; n < 0 && i < rank; i++) ax[i] = i;
  if (b->st != TN_OK) return b->st;
  return result(c, tn_b_mean(b, x, ax, n < 0 ? rank : n, tn_ox_int(c, "keepdims", 1) != 0));
}

/* channels_last: [N, *, C] -> [N, C, *] and back */
static tn_ref channels(tn_ox *c, tn_ref x, bool forth) {
  int rank = c->b.st == TN_OK ? tn_b_rank(&c->b, x) : 0, perm[N];
  if (!tn_ox_int(c, "channels_last", 0) || rank < 3) return x;
  for (int i = 0; i < rank; i++) perm[i] = i == 0 ? 0 : forth ? (i == 1 ? rank - 1 : i - 1) : (i == rank - 1 ? 1 : i + 1);
  return tn_b_permute(&c->b, x, perm);
}
tn_status tn_ox_ms_qlinear_global_average_pool(tn_ox *c) {
  tn_decomp_ctx *b = &c->b;
  tn_dim d[N];
  int ax[N];
  tn_ref x = channels(c, operand(c), true);
  int rank = tn_nn_shape(c, x, 3, N, "X", d);
  if (b->st != TN_OK) return b->st;
  for (int i = 2; i < rank; i++) ax[i - 2] = i;
  return result(c, channels(c, tn_b_mean(b, x, ax, rank - 2, true), false));
}
tn_status tn_ox_ms_qlinear_average_pool(tn_ox *c) {
  tn_decomp_ctx *b = &c->b;
  tn_pool_form p = {0};
  bool ceil;
  tn_ref x = channels(c, operand(c), true);
  if (b->st != TN_OK || !tn_nn_window(c, x, NULL, &p, &ceil)) return b->st;
  tn_ref n = tn_b_pool_count(b, &p, tn_ox_int(c, "count_include_pad", 0) != 0, ceil, TN_F32);
  tn_ref s = tn_b_window(b, TN_C_SUM, x, p.n, p.kernel, p.stride, p.lo, p.hi, p.dilation, p.size);
  return result(c, channels(c, tn_nn_div(b, s, n), false));
}

tn_status tn_ox_ms_qlinear_concat(tn_ox *c) {          /* scale, zero, then (x, scale, zero) each */
  tn_decomp_ctx *b = &c->b;
  tn_ref scale = tn_ox_in(c, 0), zero = tn_ox_in(c, 1);
  uint32_t n = c->n_in > 2 ? (c->n_in - 2) / 3 : 0;
  if (n == 0 || c->n_in != 2 + 3 * n) return tn_ox_bad(c, "%u operands", c->n_in);
  tn_ref *part = TN_NEW(b->g->arena, tn_ref, n);
  if (!part) return b->st = tn_fail(b->d, TN_E_NOMEM, "%u operands", n);
  for (uint32_t i = 0; i < n; i++) part[i] = real(c, tn_ox_in(c, 2 + 3 * i), tn_ox_in(c, 3 + 3 * i), tn_ox_opt(c, 4 + 3 * i));
  if (b->st != TN_OK) return b->st;
  int axis = tn_ox_axis(c, "axis", 0, tn_b_rank(b, part[0]));
  if (b->st != TN_OK) return b->st;
  return quantised(c, tn_b_concat(b, part, n, axis), scale, zero, type_of(c, zero));
}

/* ---- products ---- */

/* acc (i32) times the scales (scalars, or one per column) plus bias, in f32 */
static tn_ref scaled(tn_ox *c, tn_ref acc, tn_ref sa, tn_ref sb, tn_ref bias) {
  tn_decomp_ctx *b = &c->b;
  tn_ref k = tn_nn_mul(b, tn_b_cast(b, tn_ox_scalar(c, sa), TN_F32), tn_b_cast(b, tn_ox_scalar(c, sb), TN_F32));
  tn_ref y = tn_nn_mul(b, tn_b_cast(b, acc, TN_F32), k);
  return bias.id ? tn_nn_add(b, y, tn_b_cast(b, bias, TN_F32)) : y;
}

tn_status tn_ox_ms_matmul_integer_to_float(tn_ox *c) {
  tn_ref a = tn_ox_in(c, 0), w = tn_ox_in(c, 1), sa = tn_ox_in(c, 2), sb = tn_ox_in(c, 3);
  if (c->b.st != TN_OK) return c->b.st;
  tn_ref acc = tn_ox_whole_matmul(c, a, tn_ox_opt(c, 4), -1, w, tn_ox_opt(c, 5));
  if (c->b.st == TN_OK && tn_type_numel(tn_typeof(c->b.g, sa)) != 1) return tn_ox_unsup(c, "more than one scale of A");
  return tn_ox_ret(c, 0, tn_b_cast(&c->b, scaled(c, acc, sa, sb, tn_ox_opt(c, 6)), type_of(c, sa)));
}
tn_status tn_ox_ms_dynamic_quantize_matmul(tn_ox *c) {
  tn_ref a = tn_ox_in(c, 0), w = tn_ox_in(c, 1), sb = tn_ox_in(c, 2), q = {0}, scale = {0}, zero = {0};
  tn_ox_dynamic_u8(c, tn_b_up(&c->b, a), &q, &scale, &zero);
  if (c->b.st != TN_OK) return c->b.st;
  tn_ref acc = tn_ox_whole_matmul(c, tn_b_cast(&c->b, q, TN_U8), tn_b_cast(&c->b, zero, TN_U8), -1, w, tn_ox_opt(c, 3));
  return tn_ox_ret(c, 0, tn_b_cast(&c->b, scaled(c, acc, scale, sb, tn_ox_opt(c, 4)), type_of(c, a)));
}
tn_status tn_ox_ms_qgemm(tn_ox *c) {
  tn_decomp_ctx *b = &c->b;
  tn_ref a = tn_ox_in(c, 0), sa = tn_ox_in(c, 1), w = tn_ox_in(c, 3), sb = tn_ox_in(c, 4), bias = tn_ox_opt(c, 6), sy = tn_ox_opt(c, 7), zy = tn_ox_opt(c, 8);
  double alpha = tn_ox_float(c, "alpha", 1);
  if (b->st != TN_OK) return b->st;
  if (tn_b_rank(b, a) != 2 || tn_b_rank(b, w) != 2) return tn_ox_bad(c, "operands of rank %d and %d", tn_b_rank(b, a), tn_b_rank(b, w));
  if (tn_ox_int(c, "transA", 0)) a = tn_b_swap(b, a, 0, 1);
  if (tn_ox_int(c, "transB", 0)) w = tn_b_swap(b, w, 0, 1);
  tn_ref acc = tn_ox_whole_matmul(c, a, tn_ox_opt(c, 2), -1, w, tn_ox_opt(c, 5));
  if (bias.id) acc = tn_nn_add(b, acc, tn_b_cast(b, bias, TN_I32));
  if (alpha != 1) sa = tn_b_muln(b, sa, alpha);
  if (sy.id && zy.id) return tn_ox_requantised(c, acc, tn_ox_scalar(c, sa), tn_ox_scalar(c, sb), tn_ox_scalar(c, sy), tn_ox_scalar(c, zy), tn_ox_elem(c, zy));
  return tn_ox_ret(c, 0, scaled(c, acc, sa, sb, (tn_ref){0}));
}

/* ---- DynamicQuantizeLSTM: LSTM with W[D, I, 4H], R[D, H, 4H] quantised per direction or per column; scales and zero points are operands 8..11 ---- */

static tn_ref weight(tn_ox *c, uint32_t k, uint32_t scale_at) {
  tn_decomp_ctx *b = &c->b;
  tn_ref w = tn_ox_in(c, k), s = tn_ox_in(c, scale_at), z = tn_ox_in(c, scale_at + 1);
  tn_dim d[N], p[3];
  if (tn_nn_shape(c, w, 3, 3, "a weight", d) < 0) return w;
  tn_ref par[2] = {tn_b_cast(b, s, TN_F32), tn_b_cast(b, z, TN_F32)};
  for (int i = 0; i < 2 && b->st == TN_OK; i++) {
    p[0] = d[0]; p[1] = 1; p[2] = tn_b_rank(b, par[i]) == 2 ? tn_b_dim(b, par[i], 1) : 1;
    par[i] = tn_b_reshape(b, par[i], p, 3);
  }
  return tn_b_swap(b, tn_nn_mul(b, tn_nn_sub(b, tn_b_cast(b, w, TN_F32), par[1]), par[0]), 1, 2);
}
tn_status tn_ox_ms_dynamic_quantize_lstm(tn_ox *c) {
  tn_decomp_ctx *b = &c->b;
  tn_ref in[8] = {{0}}, q = {0}, scale = {0}, zero = {0};
  for (uint32_t k = 3; k < 8 && k < c->n_in; k++) in[k] = c->in[k];
  tn_ox_dynamic_u8(c, tn_ox_in(c, 0), &q, &scale, &zero);
  if (b->st != TN_OK) return b->st;
  in[0] = tn_nn_mul(b, tn_nn_sub(b, q, zero), scale);
  in[1] = weight(c, 1, 8);
  in[2] = weight(c, 2, 10);
  if (b->st != TN_OK) return b->st;
  tn_ox plain = *c;
  plain.in = in;
  plain.n_in = 8;
  plain.opset = 7;                                     /* of ai.onnx: no layout yet */
  tn_status s = tn_ox_lstm(&plain);
  c->b.st = plain.b.st;
  return s;
}

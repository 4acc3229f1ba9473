/* onnx_ms: operators of domain com.microsoft that onnxruntime's transformations leave in models, as its schemas document them: norms with the sum before
 * them, gelus with the bias before them, products and convolutions with an activation behind them, weights of few bits. Quantised ones: onnx_ms_quant.c;
 * attention: onnx_ms_attention.c. SimplifiedLayerNormalization stands here too, though its domain is ai.onnx.
 * (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md) */
#include "onnx_math_int.h"
#include "onnx_nn.h"

#define N TN_MAX_RANK

/* ---- norms over the last dim ---- */

/* y = (s - mean) * rstd * w + bias, or without the mean; r: mean (id 0) and rstd */
static tn_ref norm(tn_decomp_ctx *b, tn_ref s, int axis, bool mean, double eps, tn_ref w, tn_ref bias, tn_ref r[2]) {
  int ax[N], n = 0, rank = tn_b_rank(b, s);
  tn_dtype t = tn_b_dtype(b, s);
  tn_ref d = s;
  for (int i = axis; i < rank; i++) ax[n++] = i;
  r[0] = (tn_ref){0};
  if (mean) tn_b_centre(b, s, ax, n, eps, &r[0], &d, &r[1]);
  else r[1] = tn_b_1(b, TN_OP_RSQRT, tn_b_addn(b, tn_b_mean(b, tn_nn_mul(b, s, s), ax, n, true), eps));
  tn_ref y = tn_nn_mul(b, d, r[1]);
  if (w.id) y = tn_nn_mul(b, y, tn_b_cast(b, w, t));
  if (bias.id) y = tn_nn_add(b, y, tn_b_cast(b, bias, t));
  return y;
}

static tn_status skip_norm(tn_ox *c, bool mean) {
  tn_decomp_ctx *b = &c->b;
  tn_ref x = tn_ox_in(c, 0), skip = tn_ox_in(c, 1), w = tn_ox_in(c, 2), beta = mean ? tn_ox_opt(c, 3) : (tn_ref){0}, bias = tn_ox_opt(c, mean ? 4 : 3), r[2];
  double eps = tn_ox_float(c, "epsilon", 1e-12);
  tn_dim d[N];
  int rank = tn_nn_shape(c, x, 1, N, "input", d);
  if (!tn_nn_float(c, x, "input")) return b->st;
  tn_dtype t = tn_b_dtype(b, x);
  tn_ref s = tn_nn_add(b, tn_b_up(b, x), tn_b_up(b, skip));
  if (bias.id) s = tn_nn_add(b, s, tn_b_up(b, bias));
  tn_ref y = norm(b, s, rank - 1, mean, eps, w, beta, r);
  if (c->n_out > 1 && mean) tn_ox_ret(c, 1, r[0]);
  if (c->n_out > 2) tn_ox_ret(c, 2, r[1]);
  if (c->n_out > 3) tn_ox_ret(c, 3, tn_b_cast(b, s, t));
  return tn_ox_ret(c, 0, tn_b_cast(b, y, t));
}
tn_status tn_ox_ms_skip_layer_normalization(tn_ox *c) { return skip_norm(c, true); }
tn_status tn_ox_ms_skip_rms_normalization(tn_ox *c) { return skip_norm(c, false); }

tn_status tn_ox_simplified_layer_normalization(tn_ox *c) {
  tn_decomp_ctx *b = &c->b;
  tn_ref x = tn_ox_in(c, 0), w = tn_ox_in(c, 1), r[2];
  double eps = tn_ox_float(c, "epsilon", 1e-5);
  tn_dim d[N];
  int rank = tn_nn_shape(c, x, 1, N, "X", d), axis = tn_ox_axis(c, "axis", -1, rank);
  if (!tn_nn_float(c, x, "X")) return b->st;
  tn_ref y = norm(b, tn_b_up(b, x), axis, false, eps, w, (tn_ref){0}, r);
  if (c->n_out > 1) tn_ox_ret(c, 1, r[1]);
  return tn_ox_ret(c, 0, tn_b_cast(b, y, tn_b_dtype(b, w)));
}

/* words + positions + segments, normalised; mask_index: where the first 0 of each row of the mask stands, 0 without a mask */
tn_status tn_ox_ms_embed_layer_normalization(tn_ox *c) {
  tn_decomp_ctx *b = &c->b;
  tn_ref ids = tn_ox_in(c, 0), seg = tn_ox_opt(c, 1), words = tn_ox_in(c, 2), places = tn_ox_in(c, 3), segs = tn_ox_opt(c, 4), w = tn_ox_in(c, 5), beta = tn_ox_in(c, 6);
  tn_ref mask = tn_ox_opt(c, 7), at = tn_ox_opt(c, 8), r[2];
  double eps = tn_ox_float(c, "epsilon", 1e-12);
  tn_dim d[N];
  tn_nn_shape(c, ids, 2, 2, "input_ids", d);
  if (!tn_nn_float(c, words, "word_embedding")) return b->st;
  tn_dtype t = tn_b_dtype(b, words);
  tn_ref s = tn_b_up(b, tn_b_take(b, words, tn_b_cast(b, ids, TN_I64), 0));
  if (at.id) s = tn_nn_add(b, s, tn_b_up(b, tn_b_take(b, places, tn_b_cast(b, at, TN_I64), 0)));
  else s = tn_nn_add(b, s, tn_b_up(b, tn_b_slice(b, places, 0, 0, d[1], 1)));
  if (seg.id && segs.id) s = tn_nn_add(b, s, tn_b_up(b, tn_b_take(b, segs, tn_b_cast(b, seg, TN_I64), 0)));
  tn_ref y = norm(b, s, 2, true, eps, w, beta, r);
  if (c->n_out > 1 && c->wanted[1]) {
    tn_ref end = tn_b_dimval(b, d[1], TN_I64), k = tn_b_along(b, tn_b_iota(b, d[1], TN_I64), 1, 2);
    if (mask.id) tn_ox_ret(c, 1, tn_b_cast(b, tn_b_reduce1(b, TN_C_MIN, tn_b_sel(b, tn_b_bool(b, mask), end, k), 1, false), TN_I32));
    else tn_ox_ret(c, 1, tn_b_zeros(b, d, 1, TN_I32));
  }
  if (c->n_out > 2) tn_ox_ret(c, 2, tn_b_cast(b, s, t));
  return tn_ox_ret(c, 0, tn_b_cast(b, y, t));
}

/* GroupNorm, SkipGroupNorm: x (+ skip + bias) in [N, .., C] or [N, C, ..], SiLU behind it if asked */
static tn_status group_norm(tn_ox *c, bool skips) {
  tn_decomp_ctx *b = &c->b;
  tn_ref x = tn_ox_in(c, 0), w = tn_ox_in(c, 1), beta = tn_ox_in(c, 2), mean, diff, rstd;
  int64_t groups = tn_ox_int(c, "groups", 0), act = tn_ox_int(c, "activation", 0);
  bool last = tn_ox_int(c, "channels_last", 1) != 0;
  double eps = tn_ox_float(c, "epsilon", 1e-5);
  tn_dim d[N], s[5], sw[5];
  tn_nn_shape(c, x, 4, 4, "X", d);
  if (!tn_nn_float(c, x, "X")) return b->st;
  tn_dim ch = d[last ? 3 : 1], hw = last ? tn_b_numel(b, d + 1, 2) : tn_b_numel(b, d + 2, 2);
  if (groups < 1 || groups > INT32_MAX || (tn_dim_is_const(ch) && ch % groups) || act < 0 || act > 1) return tn_ox_bad(c, "groups %lld, activation %lld", (long long)groups, (long long)act);
  tn_dtype t = tn_b_dtype(b, x), ct = tn_b_wide(t);
  tn_ref v = tn_b_up(b, x);
  if (skips) {
    tn_ref skip = tn_b_cast(b, tn_ox_in(c, 3), ct), bias = tn_ox_opt(c, 4);
    if (b->st != TN_OK) return b->st;
    if (!last) return tn_ox_unsup(c, "channels_last 0");
    if (tn_b_rank(b, skip) == 2) skip = tn_b_unsq(b, tn_b_unsq(b, skip, 1), 1);
    v = tn_nn_add(b, v, skip);
    if (bias.id) v = tn_nn_add(b, v, tn_b_cast(b, bias, ct));
    if (c->n_out > 1) tn_ox_ret(c, 1, tn_b_cast(b, v, t));
  }
  tn_dim per = tn_dim_floordiv(b->g->dims, ch, groups);
  int ax[2] = {last ? 1 : 2, 3}, n = 4;
  s[0] = d[0];
  if (last) { s[1] = hw; s[2] = groups; s[3] = per; sw[0] = sw[1] = 1; sw[2] = groups; sw[3] = per; }
  else { s[1] = groups; s[2] = per; s[3] = hw; sw[0] = 1; sw[1] = groups; sw[2] = per; sw[3] = 1; }
  tn_b_centre(b, tn_b_reshape(b, v, s, n), ax, 2, eps, &mean, &diff, &rstd);
  tn_ref y = tn_nn_mul(b, tn_nn_mul(b, diff, rstd), tn_b_reshape(b, tn_b_cast(b, w, ct), sw, n));
  y = tn_b_reshape(b, tn_nn_add(b, y, tn_b_reshape(b, tn_b_cast(b, beta, ct), sw, n)), d, 4);
  if (act) y = tn_nn_mul(b, y, tn_b_1(b, TN_OP_SIGMOID, y));
  return tn_ox_ret(c, 0, tn_b_cast(b, y, t));
}
tn_status tn_ox_ms_group_norm(tn_ox *c) { return group_norm(c, false); }
tn_status tn_ox_ms_skip_group_norm(tn_ox *c) { return group_norm(c, true); }

/* ---- gelus and sums ---- */

static tn_ref gelu(tn_decomp_ctx *b, tn_ref x) {
  tn_ref t = tn_b_1(b, TN_OP_ERF, tn_b_muln(b, x, 0.70710678118654752440));
  return tn_nn_mul(b, tn_b_muln(b, x, 0.5), tn_b_addn(b, t, 1));
}
static tn_ref sum2(tn_ox *c) {                         /* operand 0 + operand 1 where there is one, wide */
  tn_decomp_ctx *b = &c->b;
  tn_ref x = tn_ox_in(c, 0), bias = tn_ox_opt(c, 1);
  if (!tn_nn_float(c, x, "X")) return x;
  x = tn_b_up(b, x);
  return bias.id ? tn_nn_add(b, x, tn_b_up(b, bias)) : x;
}
static tn_status back(tn_ox *c, tn_ref y) { return tn_ox_ret(c, 0, tn_b_cast(&c->b, y, tn_b_dtype(&c->b, tn_ox_in(c, 0)))); }
tn_status tn_ox_ms_gelu(tn_ox *c) { return back(c, gelu(&c->b, sum2(c))); }   /* Gelu, BiasGelu */
tn_status tn_ox_ms_fast_gelu(tn_ox *c) {
  tn_decomp_ctx *b = &c->b;
  tn_ref x = sum2(c), x3 = tn_nn_mul(b, tn_nn_mul(b, x, x), x);
  tn_ref t = tn_b_1(b, TN_OP_TANH, tn_b_muln(b, tn_nn_add(b, x, tn_b_muln(b, x3, 0.044715)), 0.79788456080286535588));
  return back(c, tn_nn_mul(b, tn_b_muln(b, x, 0.5), tn_b_addn(b, t, 1)));
}
tn_status tn_ox_ms_quick_gelu(tn_ox *c) {
  tn_decomp_ctx *b = &c->b;
  tn_ref x = tn_ox_in(c, 0);
  double a = tn_ox_float(c, "alpha", 1.702);
  if (!tn_nn_float(c, x, "X")) return b->st;
  x = tn_b_up(b, x);
  return back(c, tn_nn_mul(b, x, tn_b_1(b, TN_OP_SIGMOID, tn_b_muln(b, x, a))));
}
tn_status tn_ox_ms_bias_split_gelu(tn_ox *c) {
  tn_decomp_ctx *b = &c->b;
  tn_ref x = sum2(c);
  if (b->st != TN_OK) return b->st;
  if (tn_b_rank(b, x) < 1) return tn_ox_bad(c, "X of rank 0");
  tn_dim half = tn_dim_floordiv(b->g->dims, tn_b_dim(b, x, tn_b_rank(b, x) - 1), 2);
  return back(c, tn_nn_mul(b, tn_nn_last(b, x, 0, half), gelu(b, tn_nn_last(b, x, half, half))));
}
tn_status tn_ox_ms_bias_add(tn_ox *c) {
  tn_ref skip = tn_ox_in(c, 2), x = sum2(c);
  return back(c, tn_nn_add(&c->b, x, tn_b_up(&c->b, skip)));
}

/* ---- activations behind a product; p: alpha, beta (of Clip: least and largest) ---- */

static tn_ref activate(tn_ox *c, tn_ref x, const double p[2], const bool given[2]) {
  tn_decomp_ctx *b = &c->b;
  const char *s = tn_ox_str_attr(c, "activation", "");
  if (b->st != TN_OK || !*s) return x;
  tn_dtype t = tn_b_dtype(b, x);
  tn_ref nil = tn_b_num(b, 0, t);
  if (!strcmp(s, "Relu")) return tn_b_1(b, TN_OP_RELU, x);
  if (!strcmp(s, "Tanh")) return tn_b_1(b, TN_OP_TANH, x);
  if (!strcmp(s, "Sigmoid")) return tn_b_1(b, TN_OP_SIGMOID, x);
  if (!strcmp(s, "LeakyRelu")) return tn_b_sel(b, tn_b_2(b, TN_OP_GE, x, nil), x, tn_b_muln(b, x, given[0] ? p[0] : 0.01));
  if (!strcmp(s, "HardSigmoid")) return tn_nn_min(b, tn_nn_max(b, tn_b_addn(b, tn_b_muln(b, x, given[0] ? p[0] : 0.2), given[1] ? p[1] : 0.5), nil), tn_b_num(b, 1, t));
  if (!strcmp(s, "Clip") && given[0] && given[1]) return tn_nn_min(b, tn_nn_max(b, x, tn_b_num(b, p[0], t)), tn_b_num(b, p[1], t));
  tn_ox_unsup(c, "activation '%s'", s);
  return x;
}
static tn_ref activate_by_list(tn_ox *c, tn_ref x) {
  const tn_ox_attr *a = tn_ox_attr_get(c, "activation_params");
  double p[2] = {0};
  bool given[2] = {false};
  for (uint32_t i = 0; i < 2 && a && a->kind == TN_OX_FLOATS && i < a->n; i++) { p[i] = a->u.f[i]; given[i] = true; }
  return activate(c, x, p, given);
}
static tn_ref activate_by_names(tn_ox *c, tn_ref x) {
  double p[2] = {tn_ox_float(c, "activation_alpha", 0), tn_ox_float(c, "activation_beta", 0)};
  bool given[2] = {tn_ox_attr_get(c, "activation_alpha") != NULL, tn_ox_attr_get(c, "activation_beta") != NULL};
  return activate(c, x, p, given);
}

tn_status tn_ox_ms_fused_gemm(tn_ox *c) {
  if (tn_ox_gemm(c) != TN_OK) return c->b.st;
  tn_dtype t = tn_b_dtype(&c->b, c->out[0]);
  return tn_ox_ret(c, 0, tn_b_cast(&c->b, activate_by_names(c, tn_b_up(&c->b, c->out[0])), t));
}

/* A with its batch dims behind the rows ([1st, batch.., n-1st] becomes [batch.., 1st, last]), then with the last two dims swapped */
static tn_ref turn(tn_ox *c, tn_ref x, const char *batch, const char *last_two) {
  int rank = c->b.st == TN_OK ? tn_b_rank(&c->b, x) : 0, perm[N];
  if (tn_ox_int(c, batch, 0) && rank > 2) {
    for (int i = 0; i + 2 < rank; i++) perm[i] = i + 1;
    perm[rank - 2] = 0;
    perm[rank - 1] = rank - 1;
    x = tn_b_permute(&c->b, x, perm);
  }
  return tn_ox_int(c, last_two, 0) && rank > 1 ? tn_b_swap(&c->b, x, rank - 2, rank - 1) : x;
}
tn_status tn_ox_ms_fused_matmul(tn_ox *c) {            /* FusedMatMul, TransposeMatMul, FusedMatMulActivation */
  tn_ref x = tn_ox_in(c, 0), w = tn_ox_in(c, 1);
  double alpha = tn_ox_float(c, "alpha", 1);
  x = turn(c, x, "transBatchA", "transA");
  w = turn(c, w, "transBatchB", "transB");
  tn_ref y = tn_ox_matmul_of(c, x, w);
  if (alpha != 1 && c->b.st == TN_OK) y = tn_b_muln(&c->b, y, alpha);
  return back(c, activate_by_names(c, y));
}

static tn_ref channels_first(tn_ox *c, tn_ref x, bool forth) {
  int rank = c->b.st == TN_OK ? tn_b_rank(&c->b, x) : 0, perm[N];
  if (rank < 3) { tn_ox_bad(c, "X has rank %d", rank); return x; }
  for (int i = 0; i < rank; i++) perm[i] = i == 0 ? 0 : forth ? (i == 1 ? rank - 1 : i - 1) : (i == rank - 1 ? 1 : i + 1);
  return tn_b_permute(&c->b, x, perm);
}
static tn_status fused_conv(tn_ox *c, bool last) {
  tn_decomp_ctx *b = &c->b;
  tn_ref x = tn_ox_in(c, 0), w = tn_ox_in(c, 1), bias = tn_ox_opt(c, 2), z = tn_ox_opt(c, 3);
  if (!tn_nn_float(c, x, "X")) return b->st;
  tn_ref y = tn_nn_conv(c, last ? channels_first(c, x, true) : x, w, bias, false);
  if (last) y = channels_first(c, y, false);
  if (z.id) y = tn_nn_add(b, y, tn_b_up(b, z));
  return back(c, activate_by_list(c, y));
}
tn_status tn_ox_ms_fused_conv(tn_ox *c) { return fused_conv(c, false); }
tn_status tn_ox_ms_nhwc_conv(tn_ox *c) { return fused_conv(c, true); }        /* NhwcConv, NhwcFusedConv */
tn_status tn_ox_ms_nhwc_max_pool(tn_ox *c) {
  tn_pool_form p = {0};
  bool ceil;
  tn_ref x = channels_first(c, tn_ox_in(c, 0), true);
  if (c->b.st != TN_OK || !tn_nn_window(c, x, NULL, &p, &ceil)) return c->b.st;
  tn_ref y = tn_b_window(&c->b, TN_C_MAX, x, p.n, p.kernel, p.stride, p.lo, p.hi, p.dilation, p.size);
  return tn_ox_ret(c, 0, channels_first(c, y, false));
}

/* ---- MatMulNBits: B[N, blocks, bytes] holds block_size weights of `bits` bits per block, the low bits first ---- */

/* [.., bytes] of u8 as [.., bytes * 8 / bits] of i32 */
static tn_ref unpacked(tn_decomp_ctx *b, tn_ref x, int64_t bits) {
  tn_dim d[N];
  int64_t per = 8 / bits;
  int rank = tn_b_shape(b, x, d);
  x = tn_b_cast(b, x, TN_I32);
  if (per == 1 || b->st != TN_OK) return x;
  tn_ref part[4];
  for (int64_t i = 0; i < per; i++) {
    tn_ref v = i ? tn_b_2(b, TN_OP_SHR, x, tn_b_int(b, i * bits, TN_I32)) : x;
    part[i] = tn_b_unsq(b, tn_nn_and(b, v, tn_b_int(b, (1 << bits) - 1, TN_I32)), rank);
  }
  d[rank - 1] = tn_dim_mul(b->g->dims, d[rank - 1], per);
  return tn_b_reshape(b, tn_b_concat(b, part, (uint32_t)per, rank), d, rank);
}
tn_status tn_ox_ms_matmul_nbits(tn_ox *c) {
  tn_decomp_ctx *b = &c->b;
  tn_ref x = tn_ox_in(c, 0), w = tn_ox_in(c, 1), scale = tn_ox_in(c, 2), zero = tn_ox_opt(c, 3), bias = tn_ox_opt(c, 5);
  int64_t K = tn_ox_int(c, "K", 0), n = tn_ox_int(c, "N", 0), bits = tn_ox_int(c, "bits", 4), block = tn_ox_int(c, "block_size", 0);
  tn_dim d[N];
  tn_nn_shape(c, w, 3, 3, "B", d);
  if (!tn_nn_float(c, x, "A")) return b->st;
  if (tn_ox_int(c, "weight_prepacked", 0)) return tn_ox_unsup(c, "prepacked weights");
  if (tn_ox_has(c, 4)) return tn_ox_unsup(c, "g_idx");
  if (bits != 2 && bits != 4 && bits != 8) return tn_ox_unsup(c, "%lld bits", (long long)bits);
  if (K < 1 || n < 1 || K > INT32_MAX || n > INT32_MAX || block < 16 || block > 65536) return tn_ox_bad(c, "K %lld, N %lld, block_size %lld", (long long)K, (long long)n, (long long)block);
  int64_t blocks = (K + block - 1) / block, zcols = (blocks * bits + 7) / 8;
  if (d[0] != n || d[1] != blocks || d[2] != block * bits / 8) return tn_ox_unsup(c, "B of other than %lld x %lld x %lld", (long long)n, (long long)blocks, (long long)(block * bits / 8));
  tn_dim sb[3] = {n, blocks, 1}, sz[2] = {n, zcols}, sw[2] = {n, blocks * block}, wide[3] = {n, blocks, block};
  tn_ref q = tn_b_cast(b, unpacked(b, w, bits), TN_F32), z = tn_b_num(b, (double)(1 << (bits - 1)), TN_F32);
  if (zero.id && b->st == TN_OK) {
    if (tn_b_dtype(b, zero) == TN_U8) z = tn_b_slice(b, unpacked(b, tn_b_reshape(b, zero, sz, 2), bits), 1, 0, blocks, 1);
    else z = zero;
    z = tn_b_reshape(b, tn_b_cast(b, z, TN_F32), sb, 3);
  }
  q = tn_nn_mul(b, tn_nn_sub(b, tn_b_reshape(b, q, wide, 3), z), tn_b_reshape(b, tn_b_cast(b, scale, TN_F32), sb, 3));
  q = tn_b_slice(b, tn_b_reshape(b, q, sw, 2), 1, 0, K, 1);
  tn_ref y = tn_ox_matmul_of(c, tn_b_up(b, x), tn_b_swap(b, q, 0, 1));
  if (bias.id) y = tn_nn_add(b, y, tn_b_cast(b, bias, tn_b_dtype(b, y)));
  return back(c, y);
}

/* ---- RotaryEmbedding: position_ids [1] is where the first token stands ---- */

tn_status tn_ox_ms_rotary_embedding(tn_ox *c) {
  tn_decomp_ctx *b = &c->b;
  tn_ref x0 = tn_ox_in(c, 0), ids = tn_ox_in(c, 1), cos = tn_ox_in(c, 2), sin = tn_ox_in(c, 3);
  int64_t heads = tn_ox_int(c, "num_heads", 0), part = tn_ox_int(c, "rotary_embedding_dim", 0);
  tn_dim d[N], dc[N];
  int rank = tn_nn_shape(c, x0, 3, 4, "input", d);
  tn_nn_shape(c, cos, 2, 2, "cos_cache", dc);
  tn_nn_shape(c, sin, 2, 2, "sin_cache", dc);
  if (!tn_nn_float(c, x0, "input")) return b->st;
  if (tn_ox_int(c, "is_packed_batching", 0) || tn_ox_float(c, "scale", 1) != 1) return tn_ox_unsup(c, "packed batching or a scale");
  if (part < 0 || (part && !heads && rank == 3)) return tn_ox_bad(c, "rotary_embedding_dim %lld without num_heads", (long long)part);
  if (rank == 3 && !heads) {
    int64_t hidden = tn_nn_const_dim(c, d[2], "the hidden size"), half = tn_nn_const_dim(c, dc[1], "the width of cos_cache");
    if (b->st != TN_OK) return b->st;
    if (half < 1 || hidden % (2 * half)) return tn_ox_bad(c, "a hidden size of %lld for angles of %lld", (long long)hidden, (long long)half);
    heads = hidden / (2 * half);
  }
  tn_ref x = tn_b_up(b, x0);
  if (rank == 3) x = tn_nn_heads(c, x, heads);
  if (b->st != TN_OK) return b->st;
  tn_dim S = tn_b_dim(b, x, 2);
  ids = tn_b_cast(b, ids, TN_I64);
  if (tn_b_rank(b, ids) < 2) ids = tn_b_unsq(b, tn_nn_add(b, tn_b_iota(b, S, TN_I64), ids), 0);
  tn_ref y = tn_nn_rotate(c, x, tn_b_up(b, tn_b_take(b, cos, ids, 0)), tn_b_up(b, tn_b_take(b, sin, ids, 0)), tn_ox_int(c, "interleaved", 0) != 0);
  return back(c, rank == 3 ? tn_nn_unheads(c, y) : y);
}

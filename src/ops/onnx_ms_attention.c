/* onnx_ms_attention: Attention, MultiHeadAttention and GroupQueryAttention of com.microsoft, on the common core of onnx_attention.c.
 *
 * Padding masks add mask_filter_value (so a row of padding only still averages, as documented); causal masks exclude. GroupQueryAttention keeps its cache
 * in tensors whose rows behind a sequence's end mean nothing: where every sequence has its full length the new keys are just appended, else each row of
 * the new cache is fetched from the old one or from the new keys by position. Not here: caches shared between past and present with a length of their own
 * (past_present_share_buffer, past_sequence_length), beam indirection, quantised and windowed caches, packed sequences.
 * (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md) */
#include "onnx_math_int.h"
#include "onnx_nn.h"

#define N TN_MAX_RANK

static double scale_of(tn_ox *c, tn_dim head) {
  double s = tn_ox_attr_get(c, "scale") ? tn_ox_float(c, "scale", 0) : 0;
  if (s != 0) return s;
  int64_t d = tn_nn_const_dim(c, head, "the head size");
  return d > 0 ? 1 / sqrt((double)d) : 1;
}
/* 0 where keep, else the filter value, as a score to add */
static tn_ref filtered(tn_ox *c, tn_ref keep) {
  return tn_b_sel(&c->b, keep, tn_b_num(&c->b, 0, TN_F32), tn_b_num(&c->b, tn_ox_float(c, "mask_filter_value", -10000), TN_F32));
}
static tn_ref positions(tn_decomp_ctx *b, tn_dim T) { return tn_b_along(b, tn_b_iota(b, T, TN_I64), 3, 4); }

/* A padding mask as something to add to the scores [B, H, S, T]: [B, T] or [B, S, T] of 0 and 1, lengths [B], ends and starts [2 * B]. */
static tn_ref padding(tn_ox *c, tn_ref m, tn_dim B, tn_dim T) {
  tn_decomp_ctx *b = &c->b;
  if (b->st != TN_OK) return m;
  int rank = tn_b_rank(b, m);
  if (rank == 2) return filtered(c, tn_b_bool(b, tn_b_unsq(b, tn_b_unsq(b, m, 1), 1)));
  if (rank == 3) return filtered(c, tn_b_bool(b, tn_b_unsq(b, m, 1)));
  tn_dim n = rank == 1 ? tn_b_dim(b, m, 0) : -1;
  tn_ref j = positions(b, T);
  m = tn_b_cast(b, m, TN_I64);
  if (rank == 1 && n == B) return filtered(c, tn_b_2(b, TN_OP_LT, j, tn_b_along(b, m, 0, 4)));
  if (rank == 1 && n == tn_dim_mul(b->g->dims, B, 2)) {
    tn_ref end = tn_b_along(b, tn_b_slice(b, m, 0, 0, B, 1), 0, 4), start = tn_b_along(b, tn_b_slice(b, m, 0, B, B, 1), 0, 4);
    return filtered(c, tn_nn_and(b, tn_b_2(b, TN_OP_LT, j, end), tn_b_2(b, TN_OP_GE, j, start)));
  }
  tn_ox_unsup(c, "a mask of rank %d that is neither lengths nor ends and starts", rank);
  return m;
}
static tn_ref add_opt(tn_decomp_ctx *b, tn_ref x, tn_ref y) { return !x.id ? y : !y.id ? x : tn_nn_add(b, x, tn_b_cast(b, y, tn_b_dtype(b, x))); }
static bool zero_attr(tn_ox *c, const char *name) {
  if (tn_ox_int(c, name, 0)) tn_ox_unsup(c, "%s", name);
  return c->b.st == TN_OK;
}

/* ---- Attention: x[B, S, I] times w[I, hq + hk + hv] ---- */

tn_status tn_ox_ms_attention(tn_ox *c) {
  tn_decomp_ctx *b = &c->b;
  tn_dims *t = b->g->dims;
  tn_ref x = tn_ox_in(c, 0), w = tn_ox_in(c, 1), bias = tn_ox_opt(c, 2), mask = tn_ox_opt(c, 3), past = tn_ox_opt(c, 4), extra = tn_ox_opt(c, 5);
  int64_t heads = tn_ox_int(c, "num_heads", 0), sizes[3];
  tn_dim d[N], dw[N], part[3];
  tn_nn_shape(c, x, 3, 3, "input", d);
  tn_nn_shape(c, w, 2, 2, "weights", dw);
  if (!tn_nn_float(c, x, "input") || !zero_attr(c, "do_rotary") || !zero_attr(c, "past_present_share_buffer")) return b->st;
  int given = tn_ox_ints_attr(c, "qkv_hidden_sizes", sizes, 3);
  for (int i = 0; i < 3; i++) part[i] = given == 3 ? sizes[i] : tn_dim_floordiv(t, dw[1], 3);
  if (given == 3 && (sizes[0] < 1 || sizes[1] != sizes[0] || sizes[2] < 1)) return tn_ox_bad(c, "qkv_hidden_sizes %lld, %lld, %lld", (long long)sizes[0], (long long)sizes[1], (long long)sizes[2]);
  tn_ref y = tn_ox_matmul_of(c, x, w), r[3];
  if (bias.id) y = tn_nn_add(b, y, tn_b_cast(b, bias, tn_b_dtype(b, y)));
  tn_dtype dt = tn_b_dtype(b, x);
  tn_dim from = 0;
  for (int i = 0; i < 3; i++) {
    r[i] = tn_nn_heads(c, tn_b_cast(b, tn_nn_last(b, y, from, part[i]), dt), heads);
    from = tn_dim_add(t, from, part[i]);
  }
  tn_ref offset = {0};
  if (past.id) {                                       /* [2, B, H, P, D] */
    if (tn_nn_shape(c, past, 5, 5, "past", dw) < 0) return b->st;
    for (int i = 1; i < 3; i++) {
      tn_ref both[2] = {tn_b_sq(b, tn_b_slice(b, past, 0, i - 1, 1, 1), 0), r[i]};
      r[i] = tn_b_concat(b, both, 2, 2);
    }
    offset = tn_b_dimval(b, dw[3], TN_I64);
  }
  if (b->st != TN_OK) return b->st;
  tn_nn_attn a = {.q = r[0], .k = r[1], .v = r[2], .want = -1, .scale = scale_of(c, tn_b_dim(b, r[0], 3))};
  tn_dim T = tn_b_dim(b, r[1], 2);
  if (mask.id) a.bias = padding(c, mask, d[0], T);
  if (extra.id) a.bias = add_opt(b, a.bias, extra);
  if (tn_ox_int(c, "unidirectional", 0)) a.allow = tn_nn_causal(c, d[1], T, offset, true, -1, -1);
  y = tn_b_cast(b, tn_nn_unheads(c, tn_nn_attention(c, &a)), dt);
  if (c->n_out > 1) {
    tn_ref both[2] = {tn_b_unsq(b, r[1], 0), tn_b_unsq(b, r[2], 0)};
    tn_ox_ret(c, 1, tn_b_concat(b, both, 2, 0));
  }
  return tn_ox_ret(c, 0, y);
}

/* ---- MultiHeadAttention ---- */

/* element i of the last but one dim of x[B, S, H, n, D], as [B, H, S, D] */
static tn_ref of_packed(tn_decomp_ctx *b, tn_ref x, int i) { return tn_b_swap(b, tn_b_sq(b, tn_b_slice(b, x, 3, i, 1, 1), 3), 1, 2); }

tn_status tn_ox_ms_multi_head_attention(tn_ox *c) {
  tn_decomp_ctx *b = &c->b;
  tn_dims *t = b->g->dims;
  tn_ref q = tn_ox_in(c, 0), k = tn_ox_opt(c, 1), v = tn_ox_opt(c, 2), bias = tn_ox_opt(c, 3), mask = tn_ox_opt(c, 4), extra = tn_ox_opt(c, 5), pk = tn_ox_opt(c, 6), pv = tn_ox_opt(c, 7), r[3];
  int64_t heads = tn_ox_int(c, "num_heads", 0);
  tn_dim d[N], from = 0;
  if (!tn_nn_float(c, q, "query")) return b->st;
  if (tn_ox_has(c, 8) || tn_ox_has(c, 9)) return tn_ox_unsup(c, "past_sequence_length and cache_indirection");
  if (c->n_out > 3 && c->wanted[3]) return tn_ox_unsup(c, "result qk");
  tn_dtype dt = tn_b_dtype(b, q);
  int rank = tn_nn_shape(c, q, 3, 5, "query", d);
  bool whole = false;                                  /* key and value are heads already, without bias */
  if (rank == 5) for (int i = 0; i < 3; i++) r[i] = of_packed(b, q, i);
  else {
    if (rank != 3 || !k.id) return b->st != TN_OK ? b->st : tn_ox_bad(c, "query of rank %d, or no key", rank);
    r[0] = tn_nn_heads(c, q, heads);
    int rk = tn_b_rank(b, k);
    whole = rk == 4;
    if (rk == 5) { r[1] = of_packed(b, k, 0); r[2] = of_packed(b, k, 1); }
    else if (!v.id || (rk != 3 && rk != 4)) return tn_ox_bad(c, "key of rank %d, or no value", rk);
    else { r[1] = whole ? k : tn_nn_heads(c, k, heads); r[2] = whole ? v : tn_nn_heads(c, v, heads); }
  }
  if (b->st != TN_OK) return b->st;
  for (int i = 0; bias.id && i < 3; i++) {             /* [H * D] as [1, H, 1, D] */
    tn_dim dh[N], s[4];
    if (tn_nn_shape(c, r[i], 4, 4, "heads", dh) < 0) return b->st;
    s[0] = s[2] = 1; s[1] = dh[1]; s[3] = dh[3];
    tn_dim n = tn_dim_mul(t, dh[1], dh[3]);
    if (i == 0 || !whole) r[i] = tn_b_cast(b, tn_nn_add(b, tn_b_up(b, r[i]), tn_b_up(b, tn_b_reshape(b, tn_b_slice(b, bias, 0, from, n, 1), s, 4))), dt);
    from = tn_dim_add(t, from, n);
  }
  tn_ref offset = {0}, ks[2] = {pk, r[1]}, vs[2] = {pv, r[2]};
  if (pk.id && pv.id) {
    r[1] = tn_b_concat(b, ks, 2, 2);
    r[2] = tn_b_concat(b, vs, 2, 2);
    offset = tn_b_dimval(b, tn_b_dim(b, pk, 2), TN_I64);
  }
  if (b->st != TN_OK) return b->st;
  tn_nn_attn a = {.q = r[0], .k = r[1], .v = r[2], .want = -1, .scale = scale_of(c, tn_b_dim(b, r[0], 3))};
  tn_dim T = tn_b_dim(b, r[1], 2);
  if (mask.id) a.bias = padding(c, mask, d[0], T);
  if (extra.id) a.bias = add_opt(b, a.bias, extra);
  if (tn_ox_int(c, "unidirectional", 0)) a.allow = tn_nn_causal(c, tn_b_dim(b, r[0], 2), T, offset, true, -1, -1);
  tn_ref y = tn_b_cast(b, tn_nn_unheads(c, tn_nn_attention(c, &a)), dt);
  if (c->n_out > 1) tn_ox_ret(c, 1, r[1]);
  if (c->n_out > 2) tn_ox_ret(c, 2, r[2]);
  return tn_ox_ret(c, 0, y);
}

/* ---- GroupQueryAttention ---- */

typedef struct gqa {
  tn_dim B, S, P, T;           /* new tokens; rows of the past; rows of the present */
  tn_ref total, before;        /* [B] i64: tokens of each sequence with and without the new ones */
  bool full;                   /* every sequence has P tokens before and P + S = T after */
} gqa;

/* Cache rows: position j of sequence b comes from the past when j < before[b], else it is new token j - before[b]. */
static tn_ref appended(tn_decomp_ctx *b, const gqa *g, tn_ref past, tn_ref fresh) {
  tn_ref both[2] = {past, fresh};
  if (!past.id && g->full) return fresh;
  tn_ref all = past.id ? tn_b_concat(b, both, 2, 2) : fresh;
  if (g->full || b->st != TN_OK) return all;
  tn_dim d[N], s[4];
  tn_b_shape(b, all, d);
  tn_ref j = tn_b_along(b, tn_b_iota(b, g->T, TN_I64), 1, 2), before = tn_b_along(b, g->before, 0, 2), rows = tn_b_dimval(b, d[2], TN_I64), one = tn_b_int(b, 1, TN_I64);
  tn_ref later = tn_nn_add(b, tn_nn_sub(b, j, before), tn_b_dimval(b, g->P, TN_I64));
  tn_ref at = tn_nn_min(b, tn_b_sel(b, tn_b_2(b, TN_OP_LT, j, before), j, later), tn_nn_sub(b, rows, one));
  tn_ref live = tn_b_2(b, TN_OP_LT, j, tn_b_along(b, g->total, 0, 2));
  s[0] = d[0]; s[1] = d[1]; s[2] = g->T; s[3] = d[3];
  tn_ref in[2] = {all, tn_b_broadcast(b, tn_b_unsq(b, tn_b_unsq(b, at, 1), 3), s, 4)};
  tn_attr a = tn_mk_int("dim", 2);
  return tn_b_sel(b, tn_b_unsq(b, tn_b_unsq(b, live, 1), 3), tn_b_op(b, TN_OP_GATHER, in, 2, &a, 1), tn_b_num(b, 0, tn_b_dtype(b, all)));
}
static tn_ref turned(tn_ox *c, tn_ref x, tn_ref cos, tn_ref sin, tn_ref ids) {
  tn_decomp_ctx *b = &c->b;
  tn_dtype t = tn_b_dtype(b, x);
  cos = tn_b_up(b, tn_b_take(b, cos, ids, 0));
  sin = tn_b_up(b, tn_b_take(b, sin, ids, 0));
  return tn_b_cast(b, tn_nn_rotate(c, tn_b_up(b, x), cos, sin, tn_ox_int(c, "rotary_interleaved", 0) != 0), t);
}
static bool gqa_forms(tn_ox *c) {
  static const char *const quant[] = {"k_quant_type", "v_quant_type"};
  for (int i = 0; i < 2; i++)
    if (strcmp(tn_ox_str_attr(c, quant[i], "NONE"), "NONE")) tn_ox_unsup(c, "%s", quant[i]);
  for (uint32_t k = 12; k < 17; k++)
    if (tn_ox_has(c, k)) tn_ox_unsup(c, "operand %u", k);
  if (tn_ox_int(c, "qk_output", 0)) tn_ox_unsup(c, "qk_output");
  return zero_attr(c, "sliding_window_cache");
}

tn_status tn_ox_ms_group_query_attention(tn_ox *c) {
  tn_decomp_ctx *b = &c->b;
  tn_dims *t = b->g->dims;
  tn_ref q = tn_ox_in(c, 0), k = tn_ox_opt(c, 1), v = tn_ox_opt(c, 2), pk = tn_ox_opt(c, 3), pv = tn_ox_opt(c, 4), lens = tn_ox_in(c, 5), most = tn_ox_in(c, 6);
  tn_ref cos = tn_ox_opt(c, 7), sin = tn_ox_opt(c, 8), ids = tn_ox_opt(c, 9), extra = tn_ox_opt(c, 10), sink = tn_ox_opt(c, 11);
  int64_t hq = tn_ox_int(c, "num_heads", 0), hk = tn_ox_int(c, "kv_num_heads", 0), window = tn_ox_int(c, "local_window_size", -1);
  bool causal = tn_ox_int(c, "causal", 1) != 0;
  tn_dim d[N], dp[N], one = 1, total;
  gqa g = {.P = 0};
  tn_nn_shape(c, q, 3, 3, "query", d);
  if (!tn_nn_float(c, q, "query") || !gqa_forms(c)) return b->st;
  if (hq < 1 || hk < 1 || hq > INT32_MAX || hk > INT32_MAX || hq % hk || window < -1 || window > INT32_MAX || !!k.id != !!v.id || !!pk.id != !!pv.id)
    return tn_ox_bad(c, "%lld query heads for %lld key heads, a window of %lld, or a key without a value", (long long)hq, (long long)hk, (long long)window);
  if (!k.id) {                                         /* packed: [B, S, (hq + 2 hk) * D] */
    tn_dim D = tn_dim_floordiv(t, d[2], hq + 2 * hk), nq = tn_dim_mul(t, D, hq), nk = tn_dim_mul(t, D, hk);
    k = tn_nn_last(b, q, nq, nk);
    v = tn_nn_last(b, q, tn_dim_add(t, nq, nk), nk);
    q = tn_nn_last(b, q, 0, nq);
  }
  q = tn_nn_heads(c, q, hq);
  k = tn_nn_heads(c, k, hk);
  v = tn_nn_heads(c, v, hk);
  if (b->st != TN_OK) return b->st;
  g.B = d[0];
  g.S = d[1];
  if (tn_b_dim(b, k, 2) != g.S) return tn_ox_unsup(c, "keys of another length than the query");
  if (pk.id && tn_nn_shape(c, pk, 4, 4, "past_key", dp) > 0) g.P = dp[2];
  if (tn_ox_sizes(c, tn_b_reshape(b, most, &one, 1), &total, 1, 0) != 1) return b->st;
  tn_dim grown = tn_dim_add(t, g.P, g.S);
  g.full = g.B == 1 && total == grown;
  g.T = g.full ? total : tn_dim_max(t, g.P, total);
  g.total = tn_nn_add(b, tn_b_cast(b, tn_b_reshape(b, lens, &g.B, 1), TN_I64), tn_b_int(b, 1, TN_I64));
  g.before = tn_nn_sub(b, g.total, tn_nn_min(b, g.total, tn_b_dimval(b, g.S, TN_I64)));
  if (tn_ox_int(c, "do_rotary", 0)) {
    if (!cos.id || !sin.id) return tn_ox_bad(c, "do_rotary without caches");
    ids = ids.id ? tn_b_cast(b, ids, TN_I64) : tn_nn_add(b, tn_b_along(b, g.before, 0, 2), tn_b_along(b, tn_b_iota(b, g.S, TN_I64), 1, 2));
    q = turned(c, q, cos, sin, ids);
    k = turned(c, k, cos, sin, ids);
  }
  k = appended(b, &g, pk, k);
  v = appended(b, &g, pv, v);
  if (b->st != TN_OK) return b->st;
  tn_nn_attn a = {.q = q, .k = k, .v = v, .want = -1, .scale = scale_of(c, tn_b_dim(b, q, 3)), .softcap = tn_ox_float(c, "softcap", 0), .sink = sink};
  if (!sink.id && tn_ox_int(c, "smooth_softmax", -1) > 0) a.sink = tn_b_zeros(b, (tn_dim[]){hq}, 1, TN_F32);
  tn_ref offset = g.full ? tn_b_dimval(b, g.P, TN_I64) : g.before;
  a.allow = tn_nn_causal(c, g.S, tn_b_dim(b, k, 2), offset, causal, window > 0 ? window - 1 : -1, -1);
  if (!g.full) a.allow = tn_nn_allow_both(b, a.allow, tn_b_2(b, TN_OP_LT, positions(b, g.T), tn_b_along(b, g.total, 0, 4)));
  if (extra.id) {
    a.bias = extra;
    if (!g.full && g.T != total) {                     /* the bias has total columns, the cache may have more: those are masked */
      tn_dim lo[4] = {0}, hi[4] = {0, 0, 0, tn_dim_sub(t, g.T, total)};
      tn_attr_val nil = {.kind = TN_AT_FLOAT};
      a.bias = tn_b_pad(b, extra, lo, hi, &nil);
    }
  }
  tn_ref y = tn_b_cast(b, tn_nn_unheads(c, tn_nn_attention(c, &a)), tn_b_dtype(b, q));
  if (c->n_out > 1) tn_ox_ret(c, 1, k);
  if (c->n_out > 2) tn_ox_ret(c, 2, v);
  return tn_ox_ret(c, 0, y);
}

/* onnx_attention: Attention (23, 24, 25), FlexAttention, RotaryEmbedding, LinearAttention.
 *
 * Attention is contract, scale, mask, softmax, contract: the form passes/fuse_attention.c makes one kernel of. Heads that share a key head get a dim of
 * their own, so nothing is repeated. f16 and bf16 are computed in f32 and rounded where a product takes them. A row in which nobody may be attended gives
 * zeros. LinearAttention's recurrence is written out for up to 64 steps, and a loop otherwise.
 * (https://onnx.ai/onnx/operators/onnx__Attention.html and so on) */
#include "onnx_nn.h"

#define N TN_MAX_RANK

tn_ref tn_nn_heads(tn_ox *c, tn_ref x, int64_t n) {
  tn_dim d[N], s[4];
  static const int perm[4] = {0, 2, 1, 3};
  if (tn_nn_shape(c, x, 3, 3, "an operand with heads side by side", d) < 0) return x;
  if (n < 1 || n > INT32_MAX || (tn_dim_is_const(d[2]) && d[2] % n)) { tn_ox_bad(c, "%lld heads in a last dim of %lld", (long long)n, (long long)d[2]); return x; }
  s[0] = d[0]; s[1] = d[1]; s[2] = n; s[3] = tn_dim_floordiv(c->b.g->dims, d[2], n);
  return tn_b_permute(&c->b, tn_b_reshape(&c->b, x, s, 4), perm);
}
tn_ref tn_nn_unheads(tn_ox *c, tn_ref x) {
  static const int perm[4] = {0, 2, 1, 3};
  tn_dim d[N], s[3];
  if (tn_nn_shape(c, x, 4, 4, "heads", d) < 0) return x;
  s[0] = d[0]; s[1] = d[2]; s[2] = tn_dim_mul(c->b.g->dims, d[1], d[3]);
  return tn_b_reshape(&c->b, tn_b_permute(&c->b, x, perm), s, 3);
}
tn_ref tn_nn_allow_both(tn_decomp_ctx *b, tn_ref x, tn_ref y) { return !x.id ? y : !y.id ? x : tn_nn_and(b, x, y); }

tn_ref tn_nn_causal(tn_ox *c, tn_dim S, tn_dim T, tn_ref offset, bool causal, int64_t left, int64_t right) {
  tn_decomp_ctx *b = &c->b;
  tn_ref i = tn_b_along(b, tn_b_iota(b, S, TN_I64), 0, 2), j = tn_b_along(b, tn_b_iota(b, T, TN_I64), 1, 2), allow = {0};
  if (offset.id) i = tn_nn_add(b, i, tn_b_rank(b, offset) == 1 ? tn_b_along(b, offset, 0, 4) : offset);
  if (causal) allow = tn_b_2(b, TN_OP_LE, j, i);
  if (left >= 0) allow = tn_nn_allow_both(b, allow, tn_b_2(b, TN_OP_GE, j, tn_nn_sub(b, i, tn_b_int(b, left, TN_I64))));
  if (right >= 0) allow = tn_nn_allow_both(b, allow, tn_b_2(b, TN_OP_LE, j, tn_nn_add(b, i, tn_b_int(b, right, TN_I64))));
  return allow;
}

/* [.., Hq or 1, S, T] with the heads split in [Hk, rep]; ranks below 3 broadcast as they are */
static tn_ref by_groups(tn_decomp_ctx *b, tn_ref m, tn_dim hk, tn_dim rep) {
  tn_dim s[N];
  if (!m.id || b->st != TN_OK) return m;
  int r = tn_b_shape(b, m, s);
  if (r < 3) return m;
  bool all = s[r - 3] == 1;
  s[r] = s[r - 1]; s[r - 1] = s[r - 2];
  s[r - 3] = all ? 1 : hk; s[r - 2] = all ? 1 : rep;
  return tn_b_reshape(b, m, s, r + 1);
}
static tn_ref softmax(tn_decomp_ctx *b, tn_ref x, tn_ref sink, bool safe) {
  int last = tn_b_rank(b, x) - 1;
  if (!sink.id) return tn_b_softmax(b, x, last, safe);
  tn_ref m = tn_nn_max(b, tn_b_reduce1(b, TN_C_MAX, x, last, true), sink), e = tn_b_1(b, TN_OP_EXP, tn_nn_sub(b, x, m));
  return tn_nn_div(b, e, tn_nn_add(b, tn_b_reduce1(b, TN_C_SUM, e, last, true), tn_b_1(b, TN_OP_EXP, tn_nn_sub(b, sink, m))));
}
static tn_ref rounded(tn_decomp_ctx *b, tn_ref x, tn_dtype t) {
  tn_dtype was = tn_b_dtype(b, x);
  return tn_b_cast(b, tn_b_cast(b, x, t), t == TN_F64 ? TN_F64 : was);
}

tn_ref tn_nn_attention(tn_ox *c, tn_nn_attn *a) {
  tn_decomp_ctx *b = &c->b;
  tn_dim d[N], dk[N], dv[N], s[5], out[4];
  if (tn_nn_shape(c, a->q, 4, 4, "query", d) < 0 || tn_nn_shape(c, a->k, 4, 4, "key", dk) < 0 || tn_nn_shape(c, a->v, 4, 4, "value", dv) < 0) return (tn_ref){0};
  tn_dtype t = tn_b_dtype(b, a->q);
  bool grouped = d[1] != dk[1];
  if (grouped && (!tn_dim_is_const(d[1]) || !tn_dim_is_const(dk[1]) || dk[1] < 1 || d[1] % dk[1])) { tn_ox_bad(c, "%lld query heads for %lld key heads", (long long)d[1], (long long)dk[1]); return (tn_ref){0}; }
  tn_dim rep = grouped ? d[1] / dk[1] : 1, full[4] = {d[0], d[1], d[2], dk[2]};
  tn_ref q = tn_b_up(b, a->q), k = tn_b_up(b, a->k), v = tn_b_up(b, a->v), allow = a->allow, bias = a->bias, sink = a->sink;
  if (grouped) {
    s[0] = d[0]; s[1] = dk[1]; s[2] = rep; s[3] = d[2]; s[4] = d[3];
    q = tn_b_reshape(b, q, s, 5);
    allow = by_groups(b, allow, dk[1], rep);
    bias = by_groups(b, bias, dk[1], rep);
  }
  tn_ref y = tn_b_muln(b, tn_b_contract(b, grouped ? "bgrid,bgjd->bgrij" : "bhid,bhjd->bhij", q, k), a->scale), kept[4] = {{0}};
  tn_dtype ct = tn_b_dtype(b, y);
  kept[0] = y;
  if (a->softcap > 0) y = tn_b_muln(b, tn_b_1(b, TN_OP_TANH, tn_b_muln(b, y, 1 / a->softcap)), a->softcap);
  kept[1] = y;
  if (bias.id) y = tn_nn_add(b, y, tn_b_cast(b, bias, ct));
  if (allow.id) y = tn_b_sel(b, allow, y, tn_b_num(b, -INFINITY, ct));
  kept[2] = y;
  if (sink.id) {
    tn_dim sg[5] = {1, grouped ? dk[1] : d[1], grouped ? rep : 1, 1, 1};
    sink = tn_b_reshape(b, tn_b_cast(b, sink, ct), sg, grouped ? 5 : 4);
  }
  if (a->soft_given) y = rounded(b, y, a->soft);
  tn_ref p = softmax(b, y, sink, bias.id || allow.id);
  if (a->soft_given) p = rounded(b, p, a->soft);
  if (t == TN_BF16) p = tn_b_cast(b, p, t);            /* the second product takes the operands' dtype; f16 would lose too much here */
  kept[3] = p;
  if (a->want >= 0) a->scores = tn_b_reshape(b, kept[a->want], full, 4);
  y = tn_b_contract(b, grouped ? "bgrij,bgje->bgrie" : "bhij,bhje->bhie", tn_b_cast(b, p, tn_b_dtype(b, v)), v);
  out[0] = d[0]; out[1] = d[1]; out[2] = d[2]; out[3] = dv[3];
  return tn_b_reshape(b, y, out, 4);
}

/* ---- Attention ---- */

/* mask's last dim filled up to T with "not attended" */
static tn_ref fill_mask(tn_ox *c, tn_ref m, tn_dim T) {
  tn_decomp_ctx *b = &c->b;
  tn_dim d[N], lo[N] = {0}, hi[N] = {0};
  int rank = tn_nn_shape(c, m, 1, 4, "attn_mask", d);
  if (rank < 0 || d[rank - 1] == T) return m;
  tn_dim more = tn_dim_sub(b->g->dims, T, d[rank - 1]);
  int64_t l, h;
  tn_dim_bounds(b->g->dims, more, &l, &h);
  if (h < 0) { tn_ox_bad(c, "attn_mask is longer than the keys"); return m; }
  if (l < 0) return m;                                 /* symbolic: they must be equal, which the run checks */
  tn_attr_val v = {.kind = tn_b_dtype(b, m) == TN_BOOL ? TN_AT_BOOL : TN_AT_FLOAT};
  if (v.kind == TN_AT_FLOAT) v.u.f = -INFINITY;
  hi[rank - 1] = more;
  return tn_b_pad(b, m, lo, hi, &v);
}
static tn_dtype precision(tn_ox *c, bool *given) {
  int64_t k = tn_ox_int(c, "softmax_precision", 0);
  *given = tn_ox_attr_get(c, "softmax_precision") != NULL;
  if (!*given || k == 1) return TN_F32;
  if (k == 10) return TN_F16;
  if (k == 16) return TN_BF16;
  if (k != 11) tn_ox_bad(c, "softmax_precision is %lld", (long long)k);
  return TN_F64;
}

tn_status tn_ox_attention(tn_ox *c) {
  tn_decomp_ctx *b = &c->b;
  tn_nn_attn a = {.q = tn_ox_in(c, 0), .k = tn_ox_in(c, 1), .v = tn_ox_in(c, 2), .want = -1};
  tn_ref mask = tn_ox_opt(c, 3), pk = tn_ox_opt(c, 4), pv = tn_ox_opt(c, 5), valid = tn_ox_opt(c, 6), offset = {0};
  if (!tn_nn_float(c, a.q, "Q")) return b->st;
  tn_dtype t = tn_b_dtype(b, a.q);
  bool flat = tn_b_rank(b, a.q) == 3;
  int64_t hq = tn_ox_int(c, "q_num_heads", 0), hk = tn_ox_int(c, "kv_num_heads", 0), left = tn_ox_int(c, "left_window_size", -1), right = tn_ox_int(c, "right_window_size", -1);
  if (!!pk.id != !!pv.id || (pk.id && valid.id)) return tn_ox_bad(c, "past_key and past_value come together, and without nonpad_kv_seqlen");
  if (left < -1 || right < -1 || left > INT32_MAX || right > INT32_MAX) return tn_ox_bad(c, "windows %lld and %lld", (long long)left, (long long)right);
  if (flat) { a.q = tn_nn_heads(c, a.q, hq); a.k = tn_nn_heads(c, a.k, hk); a.v = tn_nn_heads(c, a.v, hk); }
  if (b->st != TN_OK) return b->st;
  if (tn_b_rank(b, a.q) != 4 || tn_b_rank(b, a.k) != 4 || tn_b_rank(b, a.v) != 4) return tn_ox_bad(c, "Q, K and V are not all of rank 3 or 4");
  tn_ref ks[2] = {pk, a.k}, vs[2] = {pv, a.v};
  if (pk.id) { a.k = tn_b_concat(b, ks, 2, 2); a.v = tn_b_concat(b, vs, 2, 2); }
  if (b->st != TN_OK) return b->st;
  tn_dim S = tn_b_dim(b, a.q, 2), T = tn_b_dim(b, a.k, 2), D = tn_b_dim(b, a.q, 3);
  double given = tn_ox_attr_get(c, "scale") ? tn_ox_float(c, "scale", 1) : 0;
  a.scale = tn_ox_attr_get(c, "scale") ? given : 1 / sqrt((double)tn_nn_const_dim(c, D, "the head size"));
  a.softcap = tn_ox_float(c, "softcap", 0);
  a.soft = precision(c, &a.soft_given);
  if (c->n_out > 3 && c->wanted[3]) a.want = (int)tn_ox_int(c, "qk_matmul_output_mode", 0);
  if (a.want < -1 || a.want > 3) return tn_ox_bad(c, "qk_matmul_output_mode is %d", a.want);
  if (valid.id) offset = tn_nn_sub(b, valid = tn_b_cast(b, valid, TN_I64), tn_b_dimval(b, S, TN_I64));
  else if (pk.id) offset = tn_b_dimval(b, tn_b_dim(b, pk, 2), TN_I64);
  if (mask.id) {
    mask = fill_mask(c, mask, T);
    if (b->st == TN_OK && tn_b_dtype(b, mask) == TN_BOOL) a.allow = mask;
    else a.bias = mask;
  }
  bool causal = tn_ox_int(c, "is_causal", 0) != 0;
  a.allow = tn_nn_allow_both(b, a.allow, tn_nn_causal(c, S, T, offset, causal, left, right));
  if (valid.id) a.allow = tn_nn_allow_both(b, a.allow, tn_b_2(b, TN_OP_LT, tn_b_along(b, tn_b_iota(b, T, TN_I64), 3, 4), tn_b_along(b, valid, 0, 4)));
  tn_ref y = tn_b_cast(b, tn_nn_attention(c, &a), t);
  if (c->n_out > 1) tn_ox_ret(c, 1, a.k);
  if (c->n_out > 2) tn_ox_ret(c, 2, a.v);
  if (a.want >= 0) tn_ox_ret(c, 3, tn_b_cast(b, a.scores, t));
  return tn_ox_ret(c, 0, flat ? tn_nn_unheads(c, y) : y);
}

/* ---- FlexAttention: its two subgraphs are imported where they stand ---- */

static tn_ref modify(tn_ox *c, const char *name, tn_ref x) {
  const tn_ox_attr *g = tn_ox_attr_get(c, name);
  tn_ref y = {0};
  if (!g || c->b.st != TN_OK) return x;
  if (g->kind != TN_OX_GRAPH) { tn_ox_bad(c, "%s is no graph", name); return x; }
  tn_status s = c->e->inlined(c->e, c->b.d, g, &x, 1, &y, 1);
  if (s != TN_OK) { c->b.st = s; return x; }
  if (tn_b_rank(&c->b, y) != 4 || tn_b_dtype(&c->b, y) != tn_b_dtype(&c->b, x)) tn_ox_bad(c, "%s gives %s of rank %d", name, tn_dtype_name(tn_b_dtype(&c->b, y)), tn_b_rank(&c->b, y));
  return y;
}
tn_status tn_ox_flex_attention(tn_ox *c) {
  tn_decomp_ctx *b = &c->b;
  tn_ref q = tn_ox_in(c, 0), k = tn_ox_in(c, 1), v = tn_ox_in(c, 2);
  tn_dim d[N], dk[N], s[5], full[4], out[4];
  bool given;
  tn_nn_shape(c, q, 4, 4, "Q", d);
  tn_nn_shape(c, k, 4, 4, "K", dk);
  if (!tn_nn_float(c, q, "Q")) return b->st;
  tn_dtype t = tn_b_dtype(b, q), st = precision(c, &given);
  if (!given) st = t == TN_F64 ? TN_F64 : TN_F32;
  double scale = tn_ox_attr_get(c, "scale") ? tn_ox_float(c, "scale", 1) : 1 / sqrt((double)tn_nn_const_dim(c, d[3], "the head size"));
  if (b->st != TN_OK) return b->st;
  if (!tn_dim_is_const(d[1]) || !tn_dim_is_const(dk[1]) || dk[1] < 1 || d[1] % dk[1]) return tn_ox_bad(c, "%lld query heads for %lld key heads", (long long)d[1], (long long)dk[1]);
  tn_dim rep = d[1] / dk[1], g5[5] = {d[0], dk[1], rep, d[2], dk[2]};
  s[0] = d[0]; s[1] = dk[1]; s[2] = rep; s[3] = d[2]; s[4] = d[3];
  full[0] = d[0]; full[1] = d[1]; full[2] = d[2]; full[3] = dk[2];
  tn_ref y = tn_b_contract(b, "bgrid,bgjd->bgrij", tn_b_reshape(b, tn_b_up(b, q), s, 5), tn_b_up(b, k));
  y = tn_b_cast(b, tn_b_reshape(b, tn_b_muln(b, y, scale), full, 4), st);
  y = modify(c, "score_mod", y);
  tn_ref p = modify(c, "prob_mod", tn_b_cast(b, tn_b_softmax(b, tn_b_up(b, y), 3, true), st));
  p = tn_b_up(b, tn_b_cast(b, p, t));
  y = tn_b_contract(b, "bgrij,bgje->bgrie", tn_b_reshape(b, p, g5, 5), tn_b_up(b, v));
  out[0] = d[0]; out[1] = d[1]; out[2] = d[2]; out[3] = tn_b_dim(b, v, 3);
  return tn_ox_ret(c, 0, tn_b_cast(b, tn_b_reshape(b, y, out, 4), t));
}

/* ---- RotaryEmbedding ---- */

tn_ref tn_nn_rotate(tn_ox *c, tn_ref x, tn_ref cos, tn_ref sin, bool interleaved) {
  tn_decomp_ctx *b = &c->b;
  tn_dims *t = b->g->dims;
  tn_dim d[N], s[5];
  if (tn_nn_shape(c, x, 4, 4, "X", d) < 0 || tn_nn_shape(c, cos, 3, 3, "angles", s) < 0) return x;
  tn_dim half = s[2], both = tn_dim_mul(t, half, 2);
  tn_ref turn = tn_nn_last(b, x, 0, both), x1, x2, r[3];
  cos = tn_b_unsq(b, cos, 1);
  sin = tn_b_unsq(b, sin, 1);
  s[0] = d[0]; s[1] = d[1]; s[2] = d[2]; s[3] = half; s[4] = 2;
  if (interleaved) {
    tn_ref pairs = tn_b_reshape(b, turn, s, 5);
    x1 = tn_b_sq(b, tn_nn_last(b, pairs, 0, 1), 4);
    x2 = tn_b_sq(b, tn_nn_last(b, pairs, 1, 1), 4);
  } else { x1 = tn_nn_last(b, turn, 0, half); x2 = tn_nn_last(b, turn, half, half); }
  r[0] = tn_nn_sub(b, tn_nn_mul(b, cos, x1), tn_nn_mul(b, sin, x2));
  r[1] = tn_nn_add(b, tn_nn_mul(b, sin, x1), tn_nn_mul(b, cos, x2));
  uint32_t n = 2;
  if (interleaved) {
    tn_ref p[2] = {tn_b_unsq(b, r[0], 4), tn_b_unsq(b, r[1], 4)};
    s[3] = both;
    r[0] = tn_b_reshape(b, tn_b_concat(b, p, 2, 4), s, 4);
    n = 1;
  }
  if (d[3] != both) r[n++] = tn_nn_last(b, x, both, tn_dim_sub(t, d[3], both));
  return tn_b_concat(b, r, n, 3);
}

tn_status tn_ox_rotary_embedding(tn_ox *c) {
  tn_decomp_ctx *b = &c->b;
  tn_ref x0 = tn_ox_in(c, 0), cos = tn_ox_in(c, 1), sin = tn_ox_in(c, 2), ids = tn_ox_opt(c, 3);
  tn_dim d[N];
  int rank = tn_nn_shape(c, x0, 3, 4, "X", d);
  int64_t heads = tn_ox_int(c, "num_heads", 0), part = tn_ox_int(c, "rotary_embedding_dim", 0);
  if (!tn_nn_float(c, x0, "X")) return b->st;
  tn_ref x = tn_b_up(b, x0);
  if (rank == 3) x = tn_nn_heads(c, x, heads);
  if (ids.id) { cos = tn_b_take(b, cos, tn_b_cast(b, ids, TN_I64), 0); sin = tn_b_take(b, sin, tn_b_cast(b, ids, TN_I64), 0); }
  if (b->st != TN_OK) return b->st;
  tn_dim D = tn_b_dim(b, x, 3), half = tn_dim_floordiv(b->g->dims, part ? part : D, 2), got = tn_b_dim(b, cos, tn_b_rank(b, cos) - 1);
  if (part < 0 || part % 2 || (tn_dim_is_const(half) && tn_dim_is_const(got) && half != got)) return tn_ox_bad(c, "angles of %lld for a rotary dim of %lld", (long long)got, (long long)part);
  tn_ref y = tn_nn_rotate(c, x, tn_b_up(b, cos), tn_b_up(b, sin), tn_ox_int(c, "interleaved", 0) != 0);
  if (rank == 3) y = tn_nn_unheads(c, y);
  return tn_ox_ret(c, 0, tn_b_cast(b, y, tn_b_dtype(b, x0)));
}

/* ---- LinearAttention ---- */

enum { MAX_STEPS = 64 };

typedef struct linear { tn_ox *c; bool gated, delta; double scale; } linear;

/* One step: the state S[B, g, dk, dv] decays, takes in k and v, and answers q[B, g, r, dk]. */
static tn_ref linear_step(tn_decomp_ctx *b, const linear *f, tn_ref q, tn_ref k, tn_ref v, tn_ref decay, tn_ref beta, tn_ref *S) {
  if (f->gated) *S = tn_nn_mul(b, *S, tn_b_unsq(b, tn_b_1(b, TN_OP_EXP, decay), 3));
  if (f->delta) v = tn_nn_mul(b, beta, tn_nn_sub(b, v, tn_b_contract(b, "bhdm,bhd->bhm", *S, k)));
  *S = tn_nn_add(b, *S, tn_nn_mul(b, tn_b_unsq(b, k, 3), tn_b_unsq(b, v, 2)));
  return tn_b_muln(b, tn_b_contract(b, "bgrd,bgdm->bgrm", q, *S), f->scale);
}
static tn_ref step_of(tn_decomp_ctx *b, tn_ref x, int64_t i) { return x.id ? tn_b_sq(b, tn_b_slice(b, x, 2, i, 1, 1), 2) : x; }
static tn_status linear_fill(void *ctx, tn_ox_env *env, const tn_ref *in, uint32_t n_in) {
  const linear *f = ctx;
  tn_ox own = tn_ox_inside(f->c, env);
  tn_decomp_ctx *b = &own.b;
  tn_ref S = in[2], part[5] = {{0}}, out[3];
  for (uint32_t k = 3, n = 0; k < n_in && n < 5; k++) {
    if (n == 3 && !f->gated) n++;
    part[n] = tn_b_take(b, in[k], in[0], n ? 2 : 3);
    n++;
  }
  out[2] = linear_step(b, f, part[0], part[1], part[2], part[3], part[4], &S);
  out[1] = S;
  out[0] = tn_b_int(b, 1, TN_BOOL);
  return b->st != TN_OK ? b->st : tn_ox_body_outputs(&own, out, 3);
}

tn_status tn_ox_linear_attention(tn_ox *c) {
  tn_decomp_ctx *b = &c->b;
  tn_ref q = tn_ox_in(c, 0), k = tn_ox_in(c, 1), v = tn_ox_in(c, 2), past = tn_ox_opt(c, 3), decay = tn_ox_opt(c, 4), beta = tn_ox_opt(c, 5), y[MAX_STEPS];
  const char *rule = tn_ox_str_attr(c, "update_rule", "gated_delta");
  int64_t hq = tn_ox_int(c, "q_num_heads", 0), hk = tn_ox_int(c, "kv_num_heads", 0);
  double scale = tn_ox_float(c, "scale", 0);
  tn_dim d[N], dd[N], s[5];
  tn_nn_shape(c, q, 3, 3, "query", d);
  if (!tn_nn_float(c, q, "query")) return b->st;
  bool gated = !strcmp(rule, "gated") || !strcmp(rule, "gated_delta"), delta = !strcmp(rule, "delta") || !strcmp(rule, "gated_delta");
  if (!gated && !delta && strcmp(rule, "linear")) return tn_ox_bad(c, "update_rule is '%s'", rule);
  if (gated != !!decay.id || delta != !!beta.id) return tn_ox_bad(c, "decay or beta missing or of no use for '%s'", rule);
  if (hk < 1 || hq < 1 || hq % hk) return tn_ox_bad(c, "%lld query heads for %lld key heads", (long long)hq, (long long)hk);
  tn_dtype t = tn_b_dtype(b, q), ts = past.id ? tn_b_dtype(b, past) : t, ct = t == TN_F64 ? TN_F64 : TN_F32;
  tn_dim T = d[1];
  q = tn_nn_heads(c, tn_b_cast(b, q, ct), hq);
  k = tn_nn_heads(c, tn_b_cast(b, k, ct), hk);
  v = tn_nn_heads(c, tn_b_cast(b, v, ct), hk);
  if (decay.id) {                                      /* [B, Hk, T, dk or 1] */
    if (tn_nn_shape(c, decay, 3, 3, "decay", dd) < 0) return b->st;
    decay = tn_nn_heads(c, tn_b_cast(b, decay, ct), hk);
  }
  if (beta.id) {
    if (tn_nn_shape(c, beta, 3, 3, "beta", dd) < 0) return b->st;
    if (dd[2] != 1) beta = tn_nn_fixed(c, beta, 2, hk);
    beta = tn_nn_heads(c, tn_b_cast(b, beta, ct), dd[2] == 1 ? 1 : hk);
  }
  if (b->st != TN_OK) return b->st;
  tn_dim dk = tn_b_dim(b, k, 3), dv = tn_b_dim(b, v, 3);
  if (scale == 0) scale = 1 / sqrt((double)tn_nn_const_dim(c, dk, "the key size"));
  s[0] = d[0]; s[1] = hk; s[2] = dk; s[3] = dv;
  tn_ref S = past.id ? tn_b_cast(b, past, ct) : tn_b_zeros(b, s, 4, ct);
  s[0] = d[0]; s[1] = hk; s[2] = hq / hk; s[3] = T; s[4] = dk;
  q = tn_b_reshape(b, q, s, 5);
  linear f = {c, gated, delta, scale};
  tn_ref o;
  if (tn_dim_is_const(T) && T > 0 && T <= MAX_STEPS) {
    for (int64_t i = 0; i < T && b->st == TN_OK; i++) {
      tn_ref ki = step_of(b, k, i), vi = step_of(b, v, i), gi = step_of(b, decay, i), bi = step_of(b, beta, i);
      y[i] = tn_b_unsq(b, linear_step(b, &f, tn_b_sq(b, tn_b_slice(b, q, 3, i, 1, 1), 3), ki, vi, gi, bi, &S), 3);
    }
    if (b->st != TN_OK) return b->st;
    o = tn_b_concat(b, y, (uint32_t)T, 3);
  } else {                                             /* [T, B, g, r, dv] to [B, g, r, T, dv] */
    static const int perm[5] = {1, 2, 3, 0, 4};
    tn_ref more[5] = {q, k, v, decay, beta}, out[2];
    uint32_t n = 3;
    if (decay.id) more[n++] = decay;
    if (beta.id) more[n++] = beta;
    if (tn_ox_repeat(c, T, linear_fill, &f, &S, 1, more, n, 1, out) != TN_OK) return b->st;
    S = out[0];
    o = tn_b_permute(b, out[1], perm);
  }
  s[1] = hq; s[2] = T; s[3] = dv;
  o = tn_b_reshape(b, o, s, 4);
  if (c->n_out > 1) tn_ox_ret(c, 1, tn_b_cast(b, S, ts));
  return tn_ox_ret(c, 0, tn_b_cast(b, tn_nn_unheads(c, o), t));
}

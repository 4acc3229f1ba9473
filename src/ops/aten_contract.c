/* aten_contract: matrix products and attention as contractions (einsum of two operands). Labels: capitals are batch dims, then
 * i, j rows and columns, k summed. A batch dim of size 1 against a larger one is dropped by a reshape, so broadcasting products
 * copy nothing. f16/bf16 products are written as an f32 contract of casts with a cast at the end: exact products, f32 sums, one
 * rounding after the bias, as torch's kernels do; the back end sees the casts and picks its bf16 unit. */
#include "aten_int.h"

static tn_ref mul(tn_decomp_ctx *c, tn_ref a, tn_ref b) { return tn_b_2(c, TN_OP_MUL, a, b); }
static tn_ref add(tn_decomp_ctx *c, tn_ref a, tn_ref b) { return tn_b_2(c, TN_OP_ADD, a, b); }

/* Contract whose last dims carry labels la, lb and give lo; dims before them are batch dims, broadcast. Widens f16/bf16. */
tn_ref tn_b_product(tn_decomp_ctx *c, tn_ref a, tn_ref b, const char *la, const char *lb, const char *lo) {
  if (c->st != TN_OK) return a;
  int na = tn_b_rank(c, a) - (int)strlen(la), nb = tn_b_rank(c, b) - (int)strlen(lb), n = na > nb ? na : nb;
  if (na < 0 || nb < 0) { tn_at_unsup(c, "operands of rank %d and %d", tn_b_rank(c, a), tn_b_rank(c, b)); return a; }
  char ta[TN_MAX_RANK + 4], tb[TN_MAX_RANK + 4], to[TN_MAX_RANK * 2 + 4], labels[96];
  tn_dim da[TN_MAX_RANK], db[TN_MAX_RANK], sa[TN_MAX_RANK], sb[TN_MAX_RANK];
  tn_dim same;
  int ra = tn_b_shape(c, a, da), rb = tn_b_shape(c, b, db), ka = 0, kb = 0, ko = 0;
  for (const char *p = la; *p; p++) {                  /* the summed dim */
    const char *q = strchr(lb, *p);
    if (q && tn_b_agree(da[na + (p - la)], db[nb + (q - lb)], &same)) da[na + (p - la)] = db[nb + (q - lb)] = same;
  }
  for (int i = 0; i < n; i++) {
    int pa = i - (n - na), pb = i - (n - nb);
    char l = (char)('A' + i);
    bool ha = pa >= 0, hb = pb >= 0;
    if (ha && hb && tn_b_agree(da[pa], db[pb], &same)) da[pa] = db[pb] = same;
    if (ha && hb && da[pa] != db[pb]) {
      if (da[pa] == 1) ha = false;
      else if (db[pb] == 1) hb = false;
      else { tn_at_unsup(c, "batch dim %d differs between the operands", i); return a; }
    }
    if (ha) { ta[ka] = l; sa[ka++] = da[pa]; }
    if (hb) { tb[kb] = l; sb[kb++] = db[pb]; }
    to[ko++] = l;
  }
  for (int i = na; i < ra; i++) { ta[ka] = la[i - na]; sa[ka++] = da[i]; }
  for (int i = nb; i < rb; i++) { tb[kb] = lb[i - nb]; sb[kb++] = db[i]; }
  for (const char *p = lo; *p; p++) to[ko++] = *p;
  ta[ka] = tb[kb] = to[ko] = 0;
  snprintf(labels, sizeof labels, "%s,%s->%s", ta, tb, to);
  return tn_b_contract(c, labels, tn_b_up(c, tn_b_reshape(c, a, sa, ka)), tn_b_up(c, tn_b_reshape(c, b, sb, kb)));
}

static bool one(tn_decomp_ctx *c, const char *name) { return !tn_at_val(c, name) || tn_at_f(c, name, 1) == 1; }

/* beta * self + alpha * y; beta 0 ignores self, NaNs and all */
static tn_status blend(tn_decomp_ctx *c, tn_ref y) {
  tn_dtype t = tn_b_dtype(c, y);
  if (!one(c, "alpha")) y = mul(c, y, tn_b_val(c, tn_at_val(c, "alpha"), t));
  if (c->st != TN_OK) return c->st;
  if (tn_at_val(c, "beta") && tn_at_f(c, "beta", 1) == 0) return tn_at_ret(c, 0, y);
  tn_ref s = tn_b_cast(c, tn_at_t(c, "self"), t);
  if (!one(c, "beta")) s = mul(c, s, tn_b_val(c, tn_at_val(c, "beta"), t));
  return tn_at_ret(c, 0, add(c, y, s));
}

tn_status tn_d_mm(tn_decomp_ctx *c) { return tn_at_ret(c, 0, tn_b_product(c, tn_at_t(c, "self"), tn_at_t(c, "mat2"), "ik", "kj", "ij")); }
tn_status tn_d_addmm(tn_decomp_ctx *c) { return blend(c, tn_b_product(c, tn_at_t(c, "mat1"), tn_at_t(c, "mat2"), "ik", "kj", "ij")); }
tn_status tn_d_baddbmm(tn_decomp_ctx *c) { return blend(c, tn_b_product(c, tn_at_t(c, "batch1"), tn_at_t(c, "batch2"), "ik", "kj", "ij")); }
tn_status tn_d_addmv(tn_decomp_ctx *c) { return blend(c, tn_b_product(c, tn_at_t(c, "mat"), tn_at_t(c, "vec"), "ik", "k", "i")); }
tn_status tn_d_addr(tn_decomp_ctx *c) { return blend(c, tn_b_product(c, tn_at_t(c, "vec1"), tn_at_t(c, "vec2"), "i", "j", "ij")); }
tn_status tn_d_addbmm(tn_decomp_ctx *c) {             /* summed over the batch too */
  tn_ref a = tn_b_up(c, tn_at_t(c, "batch1")), b = tn_b_up(c, tn_at_t(c, "batch2"));
  return blend(c, tn_b_contract(c, "lik,lkj->ij", a, b));
}
tn_status tn_d_mv(tn_decomp_ctx *c) { return tn_at_ret(c, 0, tn_b_product(c, tn_at_t(c, "self"), tn_at_t(c, "vec"), "ik", "k", "i")); }
tn_status tn_d_outer(tn_decomp_ctx *c) { return tn_at_ret(c, 0, tn_b_product(c, tn_at_t(c, "self"), tn_at_t(c, "vec2"), "i", "j", "ij")); }
tn_status tn_d_dot(tn_decomp_ctx *c) { return tn_at_ret(c, 0, tn_b_product(c, tn_at_t(c, "self"), tn_at_t(c, "tensor"), "k", "k", "")); }
tn_status tn_d_vdot(tn_decomp_ctx *c) { return tn_at_ret(c, 0, tn_b_product(c, tn_at_t(c, "self"), tn_at_t(c, "other"), "k", "k", "")); }

tn_status tn_d_matmul(tn_decomp_ctx *c) {
  tn_ref a = tn_at_t(c, "self"), b = tn_at_t(c, "other");
  int ra = tn_b_rank(c, a), rb = tn_b_rank(c, b);
  if (c->st == TN_OK && (ra == 0 || rb == 0)) return tn_at_unsup(c, "0-d operand");
  const char *lo = ra == 1 && rb == 1 ? "" : ra == 1 ? "j" : rb == 1 ? "i" : "ij";
  return tn_at_ret(c, 0, tn_b_product(c, a, b, ra == 1 ? "k" : "ik", rb == 1 ? "k" : "kj", lo));
}
tn_status tn_d_linear(tn_decomp_ctx *c) {
  tn_ref x = tn_at_t(c, "input"), w = tn_at_t(c, "weight"), b = tn_at_opt(c, "bias");
  bool vec = c->st == TN_OK && tn_b_rank(c, w) == 1;
  tn_ref y = tn_b_product(c, x, w, "k", vec ? "k" : "jk", vec ? "" : "j");
  if (b.id) y = add(c, y, tn_b_cast(c, b, tn_b_dtype(c, y)));
  return tn_at_ret(c, 0, y);
}

/* ---- attention ---- */

typedef struct attn {
  tn_ref q, k, v;              /* f16/bf16 as given */
  tn_ref score;                /* scaled and masked, f32 or f64 */
  bool masked, grouped;
  tn_dim out[TN_MAX_RANK];     /* shape of the result: q's with v's last dim */
  int rank;
} attn;

/* Scores of the call's query, key, attn_mask, is_causal, scale; heads that share a key head get a dim of their own. A bool mask selects,
 * but in _scaled_dot_product_attention_math, where torch adds it like a number. */
static void scores(tn_decomp_ctx *c, attn *a, bool mask_selects) {
  tn_dim d[TN_MAX_RANK], dk[TN_MAX_RANK], s[TN_MAX_RANK];
  tn_dims *t = c->g->dims;
  a->q = tn_at_t(c, "query"); a->k = tn_at_t(c, "key"); a->v = tn_at_t(c, "value");
  if (tn_at_f(c, "dropout_p", 0) != 0) tn_at_unsup(c, "dropout");
  if (tn_at_val(c, "dropout_mask")) tn_at_unsup(c, "dropout_mask");
  int rank = a->rank = tn_b_shape(c, a->q, d), rk = tn_b_shape(c, a->k, dk), rv = tn_b_rank(c, a->v);
  if (c->st != TN_OK) return;
  if (rank < 2 || rk < 2 || rv < 2 || rank >= TN_MAX_RANK) { tn_at_unsup(c, "ranks %d, %d, %d", rank, rk, rv); return; }
  for (int i = 0; i < rank; i++) a->out[i] = d[i];
  a->out[rank - 1] = tn_b_dim(c, a->v, rv - 1);
  tn_ref mask = tn_at_opt(c, "attn_mask");
  tn_dim rows = d[rank - 2], cols = dk[rk - 2], width = d[rank - 1];
  a->grouped = rank >= 3 && rk == rank && rv == rank && dk[rank - 3] != d[rank - 3] && tn_at_b(c, "enable_gqa", false);
  if (a->grouped) {
    tn_dim hk = dk[rank - 3], rep = tn_dim_floordiv(t, d[rank - 3], hk);
    for (int i = 0; i < rank - 3; i++) s[i] = d[i];
    s[rank - 3] = hk; s[rank - 2] = rep; s[rank - 1] = rows; s[rank] = width;
    a->q = tn_b_reshape(c, a->q, s, rank + 1);
    a->k = tn_b_unsq(c, a->k, rank - 2);
    a->v = tn_b_unsq(c, a->v, rank - 2);
    if (mask.id) {
      int rm = tn_b_shape(c, mask, s);
      if (rm >= 3 && rm < TN_MAX_RANK) {               /* [.., heads or 1, rows, cols] */
        bool all = s[rm - 3] == 1;
        s[rm] = s[rm - 1]; s[rm - 1] = s[rm - 2];
        s[rm - 3] = all ? 1 : hk; s[rm - 2] = all ? 1 : rep;
        mask = tn_b_reshape(c, mask, s, rm + 1);
      }
    }
  }
  tn_ref y = tn_b_product(c, a->q, a->k, "ik", "jk", "ij");
  tn_dtype ct = tn_b_dtype(c, y);
  if (tn_at_val(c, "scale")) y = tn_b_muln(c, y, tn_at_f(c, "scale", 1));
  else if (tn_dim_is_const(width)) y = tn_b_muln(c, y, 1 / sqrt((double)width));
  else y = tn_b_2(c, TN_OP_DIV, y, tn_b_1(c, TN_OP_SQRT, tn_b_dimval(c, width, ct)));
  tn_ref low = tn_b_num(c, -INFINITY, ct);
  if (tn_at_b(c, "is_causal", false)) {
    tn_ref r = tn_b_along(c, tn_b_iota(c, rows, TN_I64), 0, 2), q = tn_b_along(c, tn_b_iota(c, cols, TN_I64), 1, 2);
    y = tn_b_sel(c, tn_b_2(c, TN_OP_LE, q, r), y, low);
  }
  if (mask.id) {
    a->masked = true;
    y = tn_b_dtype(c, mask) == TN_BOOL && mask_selects ? tn_b_sel(c, mask, y, low) : add(c, y, tn_b_cast(c, mask, ct));
  }
  a->score = y;
}

/* results: 0 output, 1 (when read) log-sum-exp of the scores or the weights themselves */
static tn_status attention(tn_decomp_ctx *c, bool weights) {
  attn a = {0};
  scores(c, &a, !weights);
  if (c->st != TN_OK) return c->st;
  int last = tn_b_rank(c, a.score) - 1;
  tn_dtype t = tn_b_dtype(c, a.q), ct = tn_b_dtype(c, a.score);
  tn_ref p = tn_b_cast(c, tn_b_softmax(c, a.score, last, a.masked), t);   /* the second product takes the operands' dtype */
  if (c->n_out > 1 && tn_at_used(c, 1)) {
    const tn_type *o = tn_at_type(c, 1);
    tn_ref r = p;
    if (!weights) {
      tn_ref m = tn_b_reduce1(c, TN_C_MAX, a.score, last, true), z = tn_b_num(c, 0, ct);
      m = tn_b_sel(c, tn_b_1(c, TN_OP_ISINF, m), z, m);
      tn_ref s = tn_b_reduce1(c, TN_C_SUM, tn_b_1(c, TN_OP_EXP, tn_b_2(c, TN_OP_SUB, a.score, m)), last, true);
      r = add(c, tn_b_1(c, TN_OP_LOG, s), m);
    }
    tn_at_ret(c, 1, tn_b_reshape(c, r, o->dim, o->rank));
  }
  tn_ref y = tn_b_product(c, p, a.v, "ik", "kj", "ij");
  if (a.grouped) y = tn_b_reshape(c, y, a.out, a.rank);
  return tn_at_ret(c, 0, y);
}
tn_status tn_d_sdpa_flash(tn_decomp_ctx *c) { return attention(c, false); }
tn_status tn_d_sdpa_math(tn_decomp_ctx *c) { return attention(c, true); }

tn_status tn_d_sdpa_flash_backward(tn_decomp_ctx *c) { /* P = exp(S - lse); dS = P * (dP - rowsum(dO * O)) */
  attn a = {0};
  scores(c, &a, true);
  if (c->st != TN_OK) return c->st;
  tn_dtype ct = tn_b_dtype(c, a.score);
  tn_ref go = tn_b_cast(c, tn_at_t(c, "grad_out"), ct), out = tn_b_cast(c, tn_at_t(c, "out"), ct);
  int rank = tn_b_rank(c, a.score);
  tn_ref lse = tn_b_unsq(c, tn_b_cast(c, tn_at_t(c, "logsumexp"), ct), rank - 1);
  tn_ref p = tn_b_1(c, TN_OP_EXP, tn_b_2(c, TN_OP_SUB, a.score, lse));
  if (a.masked) p = tn_b_sel(c, tn_b_1(c, TN_OP_ISINF, lse), tn_b_num(c, 0, ct), p);
  tn_ref delta = tn_b_reduce1(c, TN_C_SUM, mul(c, go, out), rank - 1, true);
  tn_ref dp = tn_b_product(c, go, a.v, "ik", "jk", "ij");
  tn_ref ds = mul(c, p, tn_b_2(c, TN_OP_SUB, dp, delta));
  tn_dim width = tn_b_dim(c, a.q, rank - 1);
  if (!tn_at_val(c, "scale") && !tn_dim_is_const(width)) return tn_at_unsup(c, "symbolic head width");
  ds = tn_b_muln(c, ds, tn_at_f(c, "scale", 1 / sqrt((double)width)));
  tn_at_ret(c, 0, tn_b_product(c, ds, a.k, "ij", "jk", "ik"));
  tn_at_ret(c, 1, tn_b_product(c, ds, a.q, "ij", "ik", "jk"));
  return tn_at_ret(c, 2, tn_b_product(c, p, go, "ij", "ik", "jk"));
}

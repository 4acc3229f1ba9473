/* aten_rnn: LSTM layers as lstm ops, one per layer and direction; torch's gate order i, f, g, o is the op's.
 * (https://docs.pytorch.org/docs/stable/generated/torch.nn.LSTM.html) */
#include "aten_int.h"

/* r[0..2] = y[T, B, H], hT, cT of x[T, B, I]; biases may be 0: zeros then */
static void lstm(tn_decomp_ctx *c, const tn_ref in[7], bool reverse, tn_ref r[3]) {
  r[0] = r[1] = r[2] = (tn_ref){0};
  if (c->st != TN_OK) return;
  tn_dtype t = tn_b_dtype(c, in[0]);
  if (t == TN_F64 || !tn_dtype_is_float(t)) { tn_at_unsup(c, "%s input", tn_dtype_name(t)); return; }
  tn_ref a[7];
  tn_dim gates = tn_b_dim(c, in[1], 0), hidden = tn_b_dim(c, in[2], 1);
  for (int i = 0; i < 7; i++) a[i] = in[i].id ? tn_b_cast(c, in[i], TN_F32) : tn_b_zeros(c, &gates, 1, TN_F32);
  tn_attr at[2] = {tn_mk_bool("reverse", reverse), tn_mk_dims(c->g, "hidden", &hidden, 1)};
  tn_ref y = tn_b_op(c, TN_OP_LSTM, a, 7, at, 2);
  if (c->st != TN_OK) return;
  for (uint32_t i = 0; i < 3; i++) r[i] = tn_b_cast(c, (tn_ref){y.id + i}, t);
}

static tn_ref state(tn_decomp_ctx *c, tn_ref h) {      /* [1, B, H] or [B, H] as [B, H] */
  return c->st == TN_OK && tn_b_rank(c, h) == 3 ? tn_b_sq(c, h, 0) : h;
}

/* One direction of one layer, whatever num_layers and bidirectional say: those describe the module it comes from. Result 3 is a workspace. */
tn_status tn_d_mkldnn_rnn_layer(tn_decomp_ctx *c) {
  tn_ref x = tn_at_t(c, "input"), r[3];
  if (tn_at_i(c, "mode", 2) != 2) return tn_at_unsup(c, "mode %lld is not LSTM", (long long)tn_at_i(c, "mode", 2));
  bool bias = tn_at_b(c, "has_biases", true);
  tn_ref in[7] = {x, tn_at_t(c, "weight0"), tn_at_t(c, "weight1"), {0}, {0}, state(c, tn_at_t(c, "hx_")), state(c, tn_at_t(c, "cx_"))};
  if (bias) { in[3] = tn_at_t(c, "weight2"); in[4] = tn_at_t(c, "weight3"); }
  lstm(c, in, tn_at_b(c, "reverse", false), r);
  for (uint32_t k = 0; k < 3 && c->st == TN_OK; k++) {
    const tn_type *o = tn_at_type(c, k);
    tn_at_ret(c, k, tn_b_reshape(c, r[k], o->dim, o->rank));
  }
  return c->st;
}

tn_status tn_d_lstm(tn_decomp_ctx *c) {
  tn_ref x = tn_at_t(c, "input"), *hx, *p, r[3];
  uint32_t n_hx = tn_at_ts(c, "hx", &hx), n_p = tn_at_ts(c, "params", &p);
  int64_t layers = tn_at_i(c, "num_layers", 1);
  uint32_t dirs = tn_at_b(c, "bidirectional", false) ? 2 : 1, per = tn_at_b(c, "has_biases", true) ? 4 : 2;
  bool batch_first = tn_at_b(c, "batch_first", false);
  if (tn_at_b(c, "train", false) && tn_at_f(c, "dropout", 0) > 0) return tn_at_unsup(c, "dropout");
  if (c->st != TN_OK) return c->st;
  if (n_hx != 2 || layers < 1 || layers > 64 || n_p != (uint64_t)layers * dirs * per) return tn_at_unsup(c, "%u parameters for %lld layers (projections?)", n_p, (long long)layers);
  if (tn_b_rank(c, x) != 3) return tn_at_unsup(c, "input of rank %d", tn_b_rank(c, x));
  if (batch_first) x = tn_b_swap(c, x, 0, 1);
  tn_ref h[128], s[128];
  for (uint32_t l = 0; l < (uint32_t)layers; l++) {
    tn_ref y[2];
    for (uint32_t d = 0; d < dirs && c->st == TN_OK; d++) {
      uint32_t k = l * dirs + d;
      const tn_ref *w = p + (size_t)k * per;
      tn_ref in[7] = {x, w[0], w[1], per == 4 ? w[2] : (tn_ref){0}, per == 4 ? w[3] : (tn_ref){0},
                      state(c, tn_b_slice(c, hx[0], 0, k, 1, 1)), state(c, tn_b_slice(c, hx[1], 0, k, 1, 1))};
      lstm(c, in, d == 1, r);
      y[d] = r[0];
      h[k] = tn_b_unsq(c, r[1], 0);
      s[k] = tn_b_unsq(c, r[2], 0);
    }
    if (c->st != TN_OK) return c->st;
    x = tn_b_concat(c, y, dirs, 2);
  }
  tn_at_ret(c, 1, tn_b_concat(c, h, (uint32_t)layers * dirs, 0));
  tn_at_ret(c, 2, tn_b_concat(c, s, (uint32_t)layers * dirs, 0));
  return tn_at_ret(c, 0, batch_first ? tn_b_swap(c, x, 0, 1) : x);
}

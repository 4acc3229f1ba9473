/* Ops that stay library kernels in compiled models: scatter (torch.scatter, scatter_reduce with include_self), sort, topk and
 * one direction of one LSTM or GRU layer, products of bytes. Sort is always stable, so the `stable` attribute asks for nothing more. */
#include "ops/ops_int.h"
#include <string.h>

static bool scatter_way(const char *s) {
  return !strcmp(s, "set") || !strcmp(s, "sum") || !strcmp(s, "prod") || !strcmp(s, "max") || !strcmp(s, "min");
}
tn_status tn_infer_SCATTER(tn_infer_ctx *c) {
  const tn_type *x = tn_rule_in(c, 0), *idx = tn_rule_in(c, 1), *src = tn_rule_in(c, 2);
  const char *way = tn_attr_str(&c->attrs, "combiner", NULL);
  const tn_dims *t = c->g->dims;
  uint32_t axis;
  if (!way || !scatter_way(way)) return tn_rule_fail(c, "combiner is '%s', wants set, sum, prod, max or min", way ? way : "missing");
  TN_TRY(tn_rule_same_dtype(c, 0, 2));
  TN_TRY(tn_rule_index_dtype(c, 1));
  TN_TRY(tn_rule_axis(c, "dim", x->rank, &axis));
  if (idx->rank != x->rank || src->rank != x->rank)
    return tn_rule_fail(c, "operand, index and source have ranks %u, %u, %u", x->rank, idx->rank, src->rank);
  for (uint32_t i = 0; i < x->rank; i++)
    if (tn_rule_exceeds(c, idx->dim[i], src->dim[i]) || (i != axis && tn_rule_exceeds(c, idx->dim[i], x->dim[i])))
      return tn_rule_fail(c, "index dim %u is %s, source has %s, operand %s", i, tn_dim_text(t, idx->dim[i]).s,
                          tn_dim_text(t, src->dim[i]).s, tn_dim_text(t, x->dim[i]).s);
  return tn_rule_result(c, x->dtype, x->rank, x->dim);
}
tn_status tn_eval_SCATTER(tn_eval_ctx *c) {
  const tn_tensor *x = &c->in[0], *idx = &c->in[1], *src = &c->in[2];
  int axis = (int)tn_attr_int(c->n, "dim", 0);
  for (int i = 0; i < x->rank; i++)
    if (idx->shape[i] > src->shape[i] || (i != axis && idx->shape[i] > x->shape[i]))
      return tn_eval_fail(c, TN_E_ARG, "index dim %d is %lld, source has %lld, operand %lld", i, (long long)idx->shape[i],
                          (long long)src->shape[i], (long long)x->shape[i]);
  return tn_eval_status(c, tn_k_scatter(NULL, x, idx, src, axis, tn_attr_str(c->n, "combiner", "set"), c->out));
}

tn_status tn_infer_SORT(tn_infer_ctx *c) {
  const tn_type *x = tn_rule_in(c, 0);
  uint32_t axis;
  TN_TRY(tn_rule_axis(c, "dim", x->rank, &axis));
  TN_TRY(tn_rule_result(c, x->dtype, x->rank, x->dim));
  return tn_rule_result(c, TN_I64, x->rank, x->dim);
}
tn_status tn_eval_SORT(tn_eval_ctx *c) {
  return tn_eval_status(
      c, tn_k_sort(NULL, c->in, (int)tn_attr_int(c->n, "dim", 0), tn_attr_bool(c->n, "descending", false), &c->out[0], &c->out[1]));
}

tn_status tn_infer_TOPK(tn_infer_ctx *c) {
  const tn_type *x = tn_rule_in(c, 0);
  tn_dim dim[TN_MAX_RANK], k;
  uint32_t axis;
  TN_TRY(tn_rule_dims(c, "k", 1, &k, NULL));
  TN_TRY(tn_rule_axis(c, "dim", x->rank, &axis));
  if (tn_rule_exceeds(c, k, x->dim[axis]))
    return tn_rule_fail(c, "k is %s, dim %u has %s", tn_dim_text(c->g->dims, k).s, axis, tn_dim_text(c->g->dims, x->dim[axis]).s);
  memcpy(dim, x->dim, x->rank * sizeof *dim);
  dim[axis] = k;
  TN_TRY(tn_rule_result(c, x->dtype, x->rank, dim));
  return tn_rule_result(c, TN_I64, x->rank, dim);
}
tn_status tn_eval_TOPK(tn_eval_ctx *c) {
  int64_t axis = tn_attr_int(c->n, "dim", 0), k = c->out->shape[axis], n = c->in->shape[axis];
  if (k > n) return tn_eval_fail(c, TN_E_ARG, "k is %lld, dim %lld has %lld", (long long)k, (long long)axis, (long long)n);
  return tn_eval_status(c, tn_k_topk(NULL, c->in, k, (int)axis, tn_attr_bool(c->n, "largest", false), &c->out[0], &c->out[1]));
}

/* Operands x, w_ih, w_hh, b_ih, b_hh, then n_state states [B, H]; results y[T, B, H] and as many states. */
static tn_status infer_layer(tn_infer_ctx *c, int64_t n_gates, const char *rows, uint32_t n_state) {
  static const uint8_t ranks[7] = {3, 2, 2, 1, 1, 2, 2};
  const tn_type *x = tn_rule_in(c, 0), *h0 = tn_rule_in(c, 5);
  tn_dim hidden;
  for (uint32_t k = 0; k < 5 + n_state; k++) {
    const tn_type *o = tn_rule_in(c, k);
    if (o->dtype != TN_F32 || o->rank != ranks[k])
      return tn_rule_fail(c, "operand %u is %s of rank %u, wants f32 of rank %u", k, tn_dtype_name(o->dtype), o->rank, ranks[k]);
  }
  TN_TRY(tn_rule_dims(c, "hidden", 1, &hidden, NULL));
  tn_dim gates = tn_dim_mul(c->g->dims, hidden, n_gates);
  for (uint32_t k = 1; k < 5; k++) TN_TRY(tn_rule_equal(c, tn_rule_in(c, k)->dim[0], gates, rows));
  for (uint32_t k = 5; k < 5 + n_state; k++) {
    TN_TRY(tn_rule_equal(c, tn_rule_in(c, k)->dim[0], x->dim[1], "batch of state and of x"));
    TN_TRY(tn_rule_equal(c, tn_rule_in(c, k)->dim[1], hidden, "width of state and hidden"));
  }
  TN_TRY(tn_rule_equal(c, tn_rule_in(c, 1)->dim[1], x->dim[2], "columns of w_ih and features of x"));
  TN_TRY(tn_rule_equal(c, tn_rule_in(c, 2)->dim[1], hidden, "columns of w_hh and hidden"));
  TN_TRY(tn_rule_result(c, TN_F32, 3, (tn_dim[]){x->dim[0], x->dim[1], hidden}));
  for (uint32_t k = 0; k < n_state; k++) TN_TRY(tn_rule_result(c, TN_F32, 2, h0->dim));
  return TN_OK;
}
tn_status tn_infer_LSTM(tn_infer_ctx *c) { return infer_layer(c, 4, "rows of weights and biases, 4 * hidden", 2); }
tn_status tn_infer_GRU(tn_infer_ctx *c) { return infer_layer(c, 3, "rows of weights and biases, 3 * hidden", 1); }
tn_status tn_eval_LSTM(tn_eval_ctx *c) { return tn_eval_status(c, tn_k_lstm(NULL, NULL, c->in, tn_attr_bool(c->n, "reverse", false), c->out)); }
tn_status tn_eval_GRU(tn_eval_ctx *c) { return tn_eval_status(c, tn_k_gru(NULL, NULL, c->in, tn_attr_bool(c->n, "reverse", false), c->out)); }

tn_status tn_infer_QDOT(tn_infer_ctx *c) {
  const tn_type *x = tn_rule_in(c, 0), *w = tn_rule_in(c, 1);
  tn_dims *t = c->g->dims;
  tn_dim dim[TN_MAX_RANK], n;
  if (x->dtype != TN_U8 || w->dtype != TN_I8) return tn_rule_fail(c, "of %s and %s, wants u8 and i8", tn_dtype_name(x->dtype), tn_dtype_name(w->dtype));
  if (x->rank < 1 || w->rank != 4) return tn_rule_fail(c, "ranks %u and %u, wants at least 1 and 4", x->rank, w->rank);
  TN_TRY(tn_rule_dims(c, "size", 1, &n, NULL));
  TN_TRY(tn_rule_equal(c, w->dim[0], tn_dim_ceildiv(t, n, 16), "panels of w and size over 16"));
  TN_TRY(tn_rule_equal(c, w->dim[1], tn_dim_ceildiv(t, x->dim[x->rank - 1], 4), "groups of w and the last dim of x over 4"));
  if (w->dim[2] != 16 || w->dim[3] != 4) return tn_rule_fail(c, "w is no panels of %d columns in groups of %d", 16, 4);
  for (uint32_t i = 0; i < x->rank; i++) dim[i] = i + 1 < x->rank ? x->dim[i] : n;
  return tn_rule_result(c, TN_I32, x->rank, dim);
}
tn_status tn_eval_QDOT(tn_eval_ctx *c) { return tn_eval_status(c, tn_k_qdot(NULL, &c->in[0], &c->in[1], c->out)); }

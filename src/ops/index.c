/* Ops whose loads follow an index tensor: take (torch.index_select, embedding, ONNX Gather), gather (torch.gather),
 * index (torch's x[i, :, j] with integer tensors) and its writing twin index_put.
 *
 * Index values are i64 or i32; a negative one counts from the end once. Values are checked when they are read (TN_E_INDEX).
 * Boolean masks do not appear here: their result shape depends on data. */
#include "ops/ops_int.h"
#include <string.h>

tn_status tn_infer_TAKE(tn_infer_ctx *c) {
  const tn_type *x = tn_rule_in(c, 0), *idx = tn_rule_in(c, 1);
  tn_dim dim[2 * TN_MAX_RANK];
  uint32_t axis, rank = 0;
  TN_TRY(tn_rule_index_dtype(c, 1));
  TN_TRY(tn_rule_axis(c, "dim", x->rank, &axis));
  for (uint32_t i = 0; i < axis; i++) dim[rank++] = x->dim[i];
  for (uint32_t i = 0; i < idx->rank; i++) dim[rank++] = idx->dim[i];
  for (uint32_t i = axis + 1; i < x->rank; i++) dim[rank++] = x->dim[i];
  return tn_rule_result(c, x->dtype, rank, dim);
}
tn_status tn_eval_TAKE(tn_eval_ctx *c) {
  return tn_eval_status(c, tn_k_take_ref(&c->in[0], &c->in[1], (int)tn_attr_int(c->n, "dim", 0), c->out));
}

tn_status tn_infer_GATHER(tn_infer_ctx *c) {
  const tn_type *x = tn_rule_in(c, 0), *idx = tn_rule_in(c, 1);
  uint32_t axis;
  TN_TRY(tn_rule_index_dtype(c, 1));
  TN_TRY(tn_rule_axis(c, "dim", x->rank, &axis));
  if (idx->rank != x->rank) return tn_rule_fail(c, "index of rank %u into rank %u", idx->rank, x->rank);
  for (uint32_t i = 0; i < x->rank; i++)
    if (i != axis && tn_rule_exceeds(c, idx->dim[i], x->dim[i]))
      return tn_rule_fail(c, "index dim %u is %s, operand has %s", i, tn_dim_text(c->g->dims, idx->dim[i]).s,
                          tn_dim_text(c->g->dims, x->dim[i]).s);
  return tn_rule_result(c, x->dtype, idx->rank, idx->dim);
}
tn_status tn_eval_GATHER(tn_eval_ctx *c) {
  const tn_tensor *x = &c->in[0], *idx = &c->in[1];
  int axis = (int)tn_attr_int(c->n, "dim", 0);
  for (int i = 0; i < x->rank; i++)
    if (i != axis && idx->shape[i] > x->shape[i])
      return tn_eval_fail(c, TN_E_ARG, "index dim %d is %lld, operand has %lld", i, (long long)idx->shape[i], (long long)x->shape[i]);
  return tn_eval_status(c, tn_k_gather_ref(x, idx, axis, c->out));
}

/* Shape of x[idx...]: indexed dims give way to the broadcast index shape, in place when they are neighbours, else in front. */
static tn_status indexed_shape(tn_infer_ctx *c, uint32_t first_idx, tn_dim *dim, uint32_t *out_rank) {
  const tn_type *x = tn_rule_in(c, 0);
  int64_t dims[TN_MAX_RANK];
  tn_dim b[TN_MAX_RANK];
  bool taken[TN_MAX_RANK] = {false}, neighbours = true;
  uint32_t n, b_rank = 0, rank = 0;
  TN_TRY(tn_rule_axes(c, "dims", x->rank, dims, &n));
  if (n != c->n_in - first_idx) return tn_rule_fail(c, "%u dims for %u index tensors", n, c->n_in - first_idx);
  for (uint32_t k = 0; k < n; k++) {
    const tn_type *i = tn_rule_in(c, first_idx + k);
    if (k && dims[k] < dims[k - 1]) return tn_rule_fail(c, "dims must rise, %lld after %lld", (long long)dims[k], (long long)dims[k - 1]);
    if (k && dims[k] != dims[k - 1] + 1) neighbours = false;
    taken[dims[k]] = true;
    TN_TRY(tn_rule_index_dtype(c, first_idx + k));
    TN_TRY(tn_rule_broadcast(c, b, &b_rank, i->dim, i->rank));
  }
  if (x->rank - n + b_rank > TN_MAX_RANK) return tn_rule_fail(c, "result of rank %u, at most %d", x->rank - n + b_rank, TN_MAX_RANK);
  uint32_t at = neighbours ? (uint32_t)dims[0] : 0;
  for (uint32_t i = 0; i <= x->rank; i++) {
    if (i == at) {
      for (uint32_t j = 0; j < b_rank; j++) dim[rank++] = b[j];
    }
    if (i < x->rank && !taken[i]) dim[rank++] = x->dim[i];
  }
  *out_rank = rank;
  return TN_OK;
}
tn_status tn_infer_INDEX(tn_infer_ctx *c) {
  tn_dim dim[TN_MAX_RANK];
  uint32_t rank;
  TN_TRY(indexed_shape(c, 1, dim, &rank));
  return tn_rule_result(c, tn_rule_in(c, 0)->dtype, rank, dim);
}
tn_status tn_infer_INDEX_PUT(tn_infer_ctx *c) {
  const tn_type *x = tn_rule_in(c, 0), *v = tn_rule_in(c, 1);
  tn_dim dim[TN_MAX_RANK];
  uint32_t rank;
  TN_TRY(tn_rule_same_dtype(c, 0, 1));
  TN_TRY(indexed_shape(c, 2, dim, &rank));
  if (v->rank > rank) return tn_rule_fail(c, "values of rank %u into rank %u", v->rank, rank);
  for (uint32_t i = 0; i < v->rank; i++)
    if (v->dim[i] != 1) TN_TRY(tn_rule_equal(c, v->dim[i], dim[rank - v->rank + i], "values and indexed shape"));
  return tn_rule_result(c, x->dtype, x->rank, x->dim);
}

static tn_status int_dims(tn_eval_ctx *c, int *dims) {
  int64_t v[TN_MAX_RANK];
  uint32_t n;
  TN_TRY(tn_eval_dims(c, "dims", v, &n));
  for (uint32_t i = 0; i < n; i++) dims[i] = (int)v[i];
  return TN_OK;
}
tn_status tn_eval_INDEX(tn_eval_ctx *c) {
  int dims[TN_MAX_RANK];
  TN_TRY(int_dims(c, dims));
  return tn_eval_status(c, tn_k_index_ref(&c->in[0], &c->in[1], dims, c->n->n_in - 1, c->out));
}
tn_status tn_eval_INDEX_PUT(tn_eval_ctx *c) {
  int dims[TN_MAX_RANK];
  TN_TRY(int_dims(c, dims));
  return tn_eval_status(
      c, tn_k_index_put(NULL, &c->in[0], &c->in[1], &c->in[2], dims, c->n->n_in - 2, tn_attr_bool(c->n, "accumulate", false), c->out));
}

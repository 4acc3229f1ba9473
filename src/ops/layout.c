/* Ops that move elements without computing: reshape, permute, broadcast, slice, flip, pad, concat.
 *
 * Evaluators of permute, broadcast, slice and flip only make strides; one strided copy does the work.
 * A reshape of symbolic dims is refused when the element counts provably differ; what can't be decided is checked with
 * numbers when it runs. Dims named by attributes are already counted from 0: no negative ones here. */
#include "ops/ops_int.h"
#include <string.h>

/* Row-major strides of t's shape. */
static void dense(const tn_tensor *t, int64_t *stride) {
  int64_t s = 1;
  for (int i = t->rank - 1; i >= 0; i--) {
    stride[i] = s;
    s *= t->shape[i];
  }
}
/* Copies base[offset + sum(idx * stride)] into out. */
static tn_status copy_view(tn_eval_ctx *c, int64_t offset, const int64_t *stride) {
  tn_tensor view = *c->out;
  if (tn_tensor_numel(c->out) == 0) return TN_OK;
  view.data = (char *)c->in->data + offset * (int64_t)tn_dtype_size((tn_dtype)view.dtype);
  view.strides = stride;
  tn_k_strided_copy_ref(&view, c->out);
  return TN_OK;
}

/* ---- reshape ---- */
static tn_dim product(tn_dims *t, uint32_t rank, const tn_dim *dim) {
  tn_dim p = 1;
  for (uint32_t i = 0; i < rank; i++)
    if (dim[i] == 0) return 0; /* before a symbol could overflow */
  for (uint32_t i = 0; i < rank && p != TN_DIM_BAD; i++) p = tn_dim_mul(t, p, dim[i]);
  return p;
}
/* Elements of both shapes when dims that stand in both are crossed out: all of them, or only those that can't be 0. */
static void crossed(tn_infer_ctx *c, const tn_type *x, uint32_t rank, const tn_dim *dim, bool all, tn_dim *a, tn_dim *b) {
  tn_dim from[TN_MAX_RANK], to[TN_MAX_RANK];
  uint32_t n = 0, m = rank;
  memcpy(to, dim, rank * sizeof *to);
  for (uint32_t i = 0; i < x->rank; i++) {
    uint32_t k = 0;
    int64_t lo, hi;
    tn_dim_bounds(c->g->dims, x->dim[i], &lo, &hi);
    while (k < m && to[k] != x->dim[i]) k++;
    if (k < m && (all || lo > 0)) to[k] = to[--m];
    else from[n++] = x->dim[i];
  }
  *a = product(c->g->dims, n, from);
  *b = product(c->g->dims, m, to);
}
/* Writes down that both shapes have one number of elements, unless two sizes that are known to be taken for equal say so. */
static tn_status assume_counts(tn_infer_ctx *c, const tn_type *x, uint32_t rank, const tn_dim *dim) {
  tn_dim a, b;
  crossed(c, x, rank, dim, true, &a, &b);
  if (a == b || tn_dims_assumed(c->g->dims, a, b)) return TN_OK;
  crossed(c, x, rank, dim, false, &a, &b);
  tn_status s = tn_dims_assume(c->g->dims, a, b, NULL);
  return s == TN_E_NOMEM ? tn_fail(c->d, s, "sizes assumed equal") : TN_OK; /* a contradiction is named by the rule */
}
tn_status tn_infer_RESHAPE(tn_infer_ctx *c) {
  const tn_type *x = tn_rule_in(c, 0);
  tn_dims *t = c->g->dims;
  tn_dim dim[TN_MAX_RANK];
  uint32_t rank;
  TN_TRY(tn_rule_dims(c, "shape", -1, dim, &rank));
  tn_dim a = product(t, x->rank, x->dim), b = product(t, rank, dim);
  TN_TRY(tn_rule_size(c, a, "number of elements"));
  TN_TRY(tn_rule_size(c, b, "number of elements asked for"));
  if (a != b && tn_dims_collecting(t)) TN_TRY(assume_counts(c, x, rank, dim));
  if (a != b && (tn_rule_exceeds(c, a, b) || tn_rule_exceeds(c, b, a)))
    return tn_rule_fail(c, "%s has %s elements, %s has %s", tn_shape_text(t, x->rank, x->dim).s, tn_dim_text(t, a).s,
                        tn_shape_text(t, rank, dim).s, tn_dim_text(t, b).s);
  return tn_rule_result(c, x->dtype, rank, dim);
}
tn_status tn_eval_RESHAPE(tn_eval_ctx *c) {
  int64_t a = tn_tensor_numel(c->in), b = tn_tensor_numel(c->out);
  if (a != b) return tn_eval_fail(c, TN_E_ARG, "%lld elements into %lld", (long long)a, (long long)b);
  if (a) memcpy(c->out->data, c->in->data, (size_t)a * tn_dtype_size((tn_dtype)c->in->dtype));
  return TN_OK;
}

/* ---- permute ---- */
tn_status tn_infer_PERMUTE(tn_infer_ctx *c) {
  const tn_type *x = tn_rule_in(c, 0);
  int64_t perm[TN_MAX_RANK];
  tn_dim dim[TN_MAX_RANK];
  uint32_t n;
  TN_TRY(tn_rule_axes(c, "perm", x->rank, perm, &n));
  if (n != x->rank) return tn_rule_fail(c, "perm has %u items, rank is %u", n, x->rank);
  for (uint32_t i = 0; i < n; i++) dim[i] = x->dim[perm[i]];
  return tn_rule_result(c, x->dtype, n, dim);
}
tn_status tn_eval_PERMUTE(tn_eval_ctx *c) {
  int64_t perm[TN_MAX_RANK], from[TN_MAX_RANK], stride[TN_MAX_RANK];
  TN_TRY(tn_eval_dims(c, "perm", perm, NULL));
  dense(c->in, from);
  for (int i = 0; i < c->out->rank; i++) stride[i] = from[perm[i]];
  return copy_view(c, 0, stride);
}

/* ---- broadcast ---- */
tn_status tn_infer_BROADCAST(tn_infer_ctx *c) {
  const tn_type *x = tn_rule_in(c, 0);
  tn_dim dim[TN_MAX_RANK];
  uint32_t rank;
  TN_TRY(tn_rule_dims(c, "shape", -1, dim, &rank));
  if (rank < x->rank) return tn_rule_fail(c, "rank %u into rank %u", x->rank, rank);
  for (uint32_t i = 0; i < x->rank; i++)
    if (x->dim[i] != 1) TN_TRY(tn_rule_equal(c, x->dim[i], dim[rank - x->rank + i], "operand and shape"));
  return tn_rule_result(c, x->dtype, rank, dim);
}
tn_status tn_eval_BROADCAST(tn_eval_ctx *c) {
  int64_t from[TN_MAX_RANK], stride[TN_MAX_RANK];
  int lead = c->out->rank - c->in->rank;
  dense(c->in, from);
  for (int i = 0; i < c->out->rank; i++) stride[i] = i < lead || c->in->shape[i - lead] == 1 ? 0 : from[i - lead];
  return copy_view(c, 0, stride);
}

/* ---- slice ---- */
tn_status tn_infer_SLICE(tn_infer_ctx *c) {
  const tn_type *x = tn_rule_in(c, 0);
  tn_dims *t = c->g->dims;
  tn_dim dim[TN_MAX_RANK], start, size;
  int64_t step;
  uint32_t axis;
  TN_TRY(tn_rule_axis(c, "dim", x->rank, &axis));
  TN_TRY(tn_rule_dims(c, "start", 1, &start, NULL));
  TN_TRY(tn_rule_dims(c, "size", 1, &size, NULL));
  TN_TRY(tn_rule_int(c, "step", &step));
  if (step < 1) return tn_rule_fail(c, "step is %lld, wants at least 1", (long long)step);
  /* last element read: start + (size - 1) * step; none when size is 0 */
  tn_dim last = tn_dim_add(t, start, tn_dim_mul(t, tn_dim_sub(t, size, 1), step));
  if (size != 0 && tn_rule_exceeds(c, size, 0) && tn_rule_exceeds(c, tn_dim_add(t, last, 1), x->dim[axis]))
    return tn_rule_fail(c, "start %s, size %s, step %lld reach past dim %u of size %s", tn_dim_text(t, start).s, tn_dim_text(t, size).s,
                        (long long)step, axis, tn_dim_text(t, x->dim[axis]).s);
  memcpy(dim, x->dim, x->rank * sizeof *dim);
  dim[axis] = size;
  return tn_rule_result(c, x->dtype, x->rank, dim);
}
tn_status tn_eval_SLICE(tn_eval_ctx *c) {
  int64_t stride[TN_MAX_RANK], start, step = tn_attr_int(c->n, "step", 1);
  int64_t axis = tn_attr_int(c->n, "dim", 0), size = c->out->shape[axis], n = c->in->shape[axis];
  TN_TRY(tn_eval_dims(c, "start", &start, NULL));
  if (size > 0 && (start >= n || (size - 1) > (n - 1 - start) / step))
    return tn_eval_fail(c, TN_E_ARG, "start %lld, size %lld, step %lld of %lld elements", (long long)start, (long long)size,
                        (long long)step, (long long)n);
  dense(c->in, stride);
  int64_t offset = start * stride[axis];
  stride[axis] *= step;
  return copy_view(c, offset, stride);
}

/* ---- flip ---- */
tn_status tn_infer_FLIP(tn_infer_ctx *c) {
  const tn_type *x = tn_rule_in(c, 0);
  int64_t dims[TN_MAX_RANK];
  uint32_t n;
  TN_TRY(tn_rule_axes(c, "dims", x->rank, dims, &n));
  return tn_rule_result(c, x->dtype, x->rank, x->dim);
}
tn_status tn_eval_FLIP(tn_eval_ctx *c) {
  int64_t dims[TN_MAX_RANK], stride[TN_MAX_RANK], offset = 0;
  uint32_t n;
  TN_TRY(tn_eval_dims(c, "dims", dims, &n));
  dense(c->in, stride);
  for (uint32_t i = 0; i < n; i++) {
    offset += (c->in->shape[dims[i]] - 1) * stride[dims[i]];
    stride[dims[i]] = -stride[dims[i]];
  }
  return copy_view(c, offset, stride);
}

/* ---- pad ---- */
tn_status tn_infer_PAD(tn_infer_ctx *c) {
  const tn_type *x = tn_rule_in(c, 0);
  tn_dim lo[TN_MAX_RANK], hi[TN_MAX_RANK];
  TN_TRY(tn_rule_dims(c, "lo", x->rank, lo, NULL));
  TN_TRY(tn_rule_dims(c, "hi", x->rank, hi, NULL));
  TN_TRY(tn_rule_number(c, "value"));
  for (uint32_t i = 0; i < x->rank; i++) lo[i] = tn_dim_add(c->g->dims, tn_dim_add(c->g->dims, x->dim[i], lo[i]), hi[i]);
  return tn_rule_result(c, x->dtype, x->rank, lo);
}
tn_status tn_eval_PAD(tn_eval_ctx *c) {
  int64_t lo[TN_MAX_RANK];
  tn_num value;
  TN_TRY(tn_eval_dims(c, "lo", lo, NULL));
  TN_TRY(tn_eval_number(c, "value", (tn_dtype)c->out->dtype, &value));
  tn_k_pad_ref(c->in, lo, value, c->out);
  return TN_OK;
}

/* ---- concat ---- */
tn_status tn_infer_CONCAT(tn_infer_ctx *c) {
  const tn_type *x = tn_rule_in(c, 0);
  tn_dim dim[TN_MAX_RANK];
  uint32_t axis;
  TN_TRY(tn_rule_axis(c, "dim", x->rank, &axis));
  memcpy(dim, x->dim, x->rank * sizeof *dim);
  for (uint32_t k = 1; k < c->n_in; k++) {
    const tn_type *y = tn_rule_in(c, k);
    TN_TRY(tn_rule_same_dtype(c, 0, k));
    if (y->rank != x->rank) return tn_rule_fail(c, "operand %u has rank %u, operand 0 has %u", k, y->rank, x->rank);
    for (uint32_t i = 0; i < x->rank; i++) {
      if (i == axis)
        dim[i] = tn_dim_add(c->g->dims, dim[i], y->dim[i]);
      else if (y->dim[i] != dim[i])
        return tn_rule_fail(c, "operand %u dim %u is %s, operand 0 has %s", k, i, tn_dim_text(c->g->dims, y->dim[i]).s,
                            tn_dim_text(c->g->dims, dim[i]).s);
    }
  }
  return tn_rule_result(c, x->dtype, x->rank, dim);
}
tn_status tn_eval_CONCAT(tn_eval_ctx *c) {
  tn_k_concat_ref(c->in, c->n->n_in, (int)tn_attr_int(c->n, "dim", 0), c->out);
  return TN_OK;
}

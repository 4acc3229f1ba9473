/* aten_layout: views and copies. Nearly all read the recorded result shape instead of redoing torch's shape arithmetic: FX has already
 * solved -1, negative dims and the guards of dynamic slices. A clone or a contiguous is nothing here: values have no strides until
 * outputs are written. */
#include "aten_int.h"

/* view, reshape, unsqueeze, squeeze, flatten, ...: same elements in order, recorded shape */
tn_status tn_d_reshape(tn_decomp_ctx *c) {
  const tn_type *o = tn_at_type(c, 0);
  return tn_at_ret(c, 0, tn_b_reshape(c, tn_at_t(c, "self"), o->dim, o->rank));
}
tn_status tn_d_expand(tn_decomp_ctx *c) {
  const tn_type *o = tn_at_type(c, 0);
  return tn_at_ret(c, 0, tn_b_broadcast(c, tn_at_t(c, "self"), o->dim, o->rank));
}
/* clone, detach, alias, _to_copy, to.dtype, ...: the cast to the recorded dtype is made by tn_at_ret */
tn_status tn_d_copy_of(tn_decomp_ctx *c) { return tn_at_ret(c, 0, tn_at_t(c, "self")); }
tn_status tn_d_prims_convert(tn_decomp_ctx *c) { return tn_at_ret(c, 0, tn_at_t(c, "a")); }
tn_status tn_d_copy(tn_decomp_ctx *c) {
  const tn_type *o = tn_at_type(c, 0);
  return tn_at_ret(c, 0, tn_b_broadcast(c, tn_b_cast(c, tn_at_t(c, "src"), (tn_dtype)o->dtype), o->dim, o->rank));
}

tn_status tn_d_permute(tn_decomp_ctx *c) {
  tn_ref x = tn_at_t(c, "self");
  int64_t d[TN_MAX_RANK];
  int perm[TN_MAX_RANK], rank = tn_b_rank(c, x), n = tn_at_ints(c, "dims", d, TN_MAX_RANK);
  if (c->st == TN_OK && n != rank) return tn_at_unsup(c, "%d dims for rank %d", n, rank);
  for (int i = 0; i < n && c->st == TN_OK; i++) perm[i] = tn_wrap_axis(c, d[i], rank);
  return c->st != TN_OK ? c->st : tn_at_ret(c, 0, tn_b_permute(c, x, perm));
}
tn_status tn_d_transpose(tn_decomp_ctx *c) {
  tn_ref x = tn_at_t(c, "self");
  int rank = tn_b_rank(c, x), a = tn_at_axis(c, "dim0", rank), b = tn_at_axis(c, "dim1", rank);
  return tn_at_ret(c, 0, rank < 2 ? x : tn_b_swap(c, x, a, b));
}
tn_status tn_d_t(tn_decomp_ctx *c) {
  tn_ref x = tn_at_t(c, "self");
  return tn_at_ret(c, 0, tn_b_rank(c, x) < 2 ? x : tn_b_swap(c, x, 0, 1));
}
tn_status tn_d_mt(tn_decomp_ctx *c) {                 /* the last two dims */
  tn_ref x = tn_at_t(c, "self");
  int r = tn_b_rank(c, x);
  return tn_at_ret(c, 0, r < 2 ? x : tn_b_swap(c, x, r - 2, r - 1));
}
tn_status tn_d_numpy_t(tn_decomp_ctx *c) {            /* all dims reversed */
  tn_ref x = tn_at_t(c, "self");
  int p[TN_MAX_RANK], r = tn_b_rank(c, x);
  for (int i = 0; i < r; i++) p[i] = r - 1 - i;
  return tn_at_ret(c, 0, tn_b_permute(c, x, p));
}
tn_status tn_d_movedim(tn_decomp_ctx *c) {
  tn_ref x = tn_at_t(c, "self");
  int64_t s[TN_MAX_RANK], d[TN_MAX_RANK];
  int rank = tn_b_rank(c, x), n = tn_at_ints(c, "source", s, TN_MAX_RANK), m = tn_at_ints(c, "destination", d, TN_MAX_RANK);
  int perm[TN_MAX_RANK];
  bool used[TN_MAX_RANK] = {false};
  if (n != m) return tn_at_unsup(c, "%d sources, %d destinations", n, m);
  for (int i = 0; i < rank; i++) perm[i] = -1;
  for (int i = 0; i < n && rank; i++) {
    int from = tn_wrap_axis(c, s[i], rank), to = tn_wrap_axis(c, d[i], rank);
    perm[to] = from;
    used[from] = true;
  }
  for (int i = 0, k = 0; i < rank; i++) {
    if (perm[i] >= 0) continue;
    while (k < rank && used[k]) k++;
    if (k == rank) return tn_at_unsup(c, "repeated dims");
    perm[i] = k++;
  }
  return c->st != TN_OK ? c->st : tn_at_ret(c, 0, tn_b_permute(c, x, perm));
}

/* ---- slices ---- */

/* A start as the user wrote it (negative: from the end) as an offset, for a piece of `out` elements in steps of `step`. */
static tn_dim slice_start(tn_decomp_ctx *c, tn_dim start, tn_dim size, tn_dim out, int64_t step, bool to_end) {
  tn_dims *t = c->g->dims;
  int64_t s, n, lo, hi;
  if (out == 0) return 0;
  if (tn_dim_as_int(t, start, &s)) {
    if (tn_dim_is_const(size)) {
      n = size;
      if (s < 0) s += n;
      return s < 0 ? 0 : s > n ? n : s;
    }
    if (s >= 0) return s;
    if (step == 1 && to_end) return tn_dim_sub(t, size, out);
    return tn_dim_max(t, 0, tn_dim_add(t, size, start));
  }
  if (step == 1 && to_end) return tn_dim_sub(t, size, out);
  tn_dim_bounds(t, start, &lo, &hi);
  if (lo >= 0) return start;
  if (hi < 0) return tn_dim_add(t, size, start);
  tn_at_unsup(c, "a start that may be negative or not");
  return 0;
}

tn_status tn_d_slice(tn_decomp_ctx *c) {
  tn_ref x = tn_at_t(c, "self");
  int d = tn_at_axis(c, "dim", tn_b_rank(c, x));
  int64_t step = tn_at_i(c, "step", 1), e = INT64_MAX;
  if (c->st != TN_OK || tn_b_rank(c, x) == 0) return tn_at_unsup(c, "slice of a 0-d tensor");
  tn_dim size = tn_b_dim(c, x, d), out = tn_at_odim(c, 0, d), end = tn_at_dim(c, "end", INT64_MAX);
  bool to_end = end == size || (tn_dim_as_int(c->g->dims, end, &e) && e >= INT32_MAX);
  return tn_at_ret(c, 0, tn_b_slice(c, x, d, slice_start(c, tn_at_dim(c, "start", 0), size, out, step, to_end), out, step));
}

static tn_ref select_at(tn_decomp_ctx *c, tn_ref x, int d, tn_dim index) {
  int64_t i, lo, hi;
  tn_dims *t = c->g->dims;
  if (tn_dim_as_int(t, index, &i)) { if (i < 0) index = tn_dim_add(t, tn_b_dim(c, x, d), index); }
  else {
    tn_dim_bounds(t, index, &lo, &hi);
    if (hi < 0) index = tn_dim_add(t, tn_b_dim(c, x, d), index);
    else if (lo < 0) { tn_at_unsup(c, "an index that may be negative or not"); return x; }
  }
  return tn_b_sq(c, tn_b_slice(c, x, d, index, 1, 1), d);
}
tn_status tn_d_select(tn_decomp_ctx *c) {
  tn_ref x = tn_at_t(c, "self");
  int d = tn_at_axis(c, "dim", tn_b_rank(c, x));
  return tn_at_ret(c, 0, select_at(c, x, d, tn_at_dim(c, "index", 0)));
}
tn_status tn_d_unbind(tn_decomp_ctx *c) {
  tn_ref x = tn_at_t(c, "self");
  int d = tn_at_axis(c, "dim", tn_b_rank(c, x));
  for (uint32_t i = 0; i < c->n_out && c->st == TN_OK; i++) tn_at_ret(c, i, select_at(c, x, d, (tn_dim)i));
  return c->st;
}
tn_status tn_d_narrow(tn_decomp_ctx *c) {
  tn_ref x = tn_at_t(c, "self");
  int d = tn_at_axis(c, "dim", tn_b_rank(c, x));
  tn_dim out = tn_at_odim(c, 0, d);
  return tn_at_ret(c, 0, tn_b_slice(c, x, d, slice_start(c, tn_at_dim(c, "start", 0), tn_b_dim(c, x, d), out, 1, false), out, 1));
}
/* split, split_with_sizes, chunk, tensor_split: consecutive pieces of the recorded sizes */
tn_status tn_d_split(tn_decomp_ctx *c) {
  tn_ref x = tn_at_t(c, "self");
  int d = tn_at_axis(c, "dim", tn_b_rank(c, x));
  tn_dim at = 0;
  for (uint32_t i = 0; i < c->n_out && c->st == TN_OK; i++) {
    tn_dim size = tn_at_odim(c, i, d);
    tn_at_ret(c, i, tn_b_slice(c, x, d, at, size, 1));
    at = tn_dim_add(c->g->dims, at, size);
  }
  return c->st;
}

/* ---- joining ---- */

/* x with the dims that must equal the result's, all but d, in the recorded spelling */
static tn_ref respelled(tn_decomp_ctx *c, tn_ref x, const tn_type *o, int d) {
  tn_dim s[TN_MAX_RANK], same;
  int r = tn_b_shape(c, x, s);
  for (int k = 0; k < r && k < o->rank; k++)
    if (k != d && tn_b_agree(s[k], o->dim[k], &same)) s[k] = o->dim[k];
  return tn_b_reshape(c, x, s, r);
}

tn_status tn_d_cat(tn_decomp_ctx *c) {
  tn_ref *in;
  uint32_t n = tn_at_ts(c, "tensors", &in), m = 0;
  const tn_type *o = tn_at_type(c, 0);
  int rank = o->rank;
  for (uint32_t i = 0; i < n && c->st == TN_OK; i++) {
    if (!in[i].id) return tn_at_unsup(c, "tensor %u is missing", i);
    if (tn_b_rank(c, in[i]) == 1 && tn_b_dim(c, in[i], 0) == 0 && rank != 1) continue;   /* torch's old empty tensor fits anywhere */
    in[m++] = tn_b_cast(c, in[i], (tn_dtype)o->dtype);
  }
  int d = tn_at_axis(c, "dim", rank);
  for (uint32_t i = 0; i < m; i++) in[i] = respelled(c, in[i], o, d);
  if (c->st == TN_OK && m == 0) return tn_at_ret(c, 0, tn_b_zeros(c, o->dim, o->rank, (tn_dtype)o->dtype));
  return c->st != TN_OK ? c->st : tn_at_ret(c, 0, tn_b_concat(c, in, m, d));
}
tn_status tn_d_stack(tn_decomp_ctx *c) {
  tn_ref *in;
  uint32_t n = tn_at_ts(c, "tensors", &in);
  const tn_type *o = tn_at_type(c, 0);
  int d = tn_at_axis(c, "dim", o->rank);
  if (c->st == TN_OK && n == 0) return tn_at_unsup(c, "no tensors");
  for (uint32_t i = 0; i < n && c->st == TN_OK; i++) {
    if (!in[i].id) return tn_at_unsup(c, "tensor %u is missing", i);
    in[i] = respelled(c, tn_b_unsq(c, tn_b_cast(c, in[i], (tn_dtype)o->dtype), d), o, d);
  }
  return c->st != TN_OK ? c->st : tn_at_ret(c, 0, tn_b_concat(c, in, n, d));
}

/* ---- as_strided: over the storage, so the strides of the argument (recorded by the importer) matter ---- */

/* Dims with size > 1 in order of falling stride; true when they tile a dense block of memory. */
static bool dense_order(tn_decomp_ctx *c, const tn_dim *size, const tn_dim *stride, int n, int *order, int *n_order) {
  int m = 0;
  tn_dim expect = 1;
  bool taken[TN_MAX_RANK] = {false};
  for (int i = 0; i < n; i++)
    if (size[i] == 1) taken[i] = true; else m++;
  for (int k = m - 1; k >= 0; k--) {                  /* the innermost first: stride 1, then its size, ... */
    int hit = -1;
    for (int i = 0; i < n && hit < 0; i++)
      if (!taken[i] && stride[i] == expect) hit = i;
    if (hit < 0) return false;
    taken[hit] = true;
    order[k] = hit;
    expect = tn_dim_mul(c->g->dims, expect, size[hit]);
  }
  *n_order = m;
  return true;
}

/* self in the order of its memory; perm: where each dim of that comes from */
static tn_ref in_memory_order(tn_decomp_ctx *c, tn_ref x, int *perm) {
  tn_dim in[TN_MAX_RANK], st[TN_MAX_RANK];
  int rank = tn_b_shape(c, x, in), order[TN_MAX_RANK], m = 0, p = 0, k = tn_at_dims(c, "self_stride", st, TN_MAX_RANK);
  for (int i = 0; i < rank; i++) perm[i] = i;
  if (c->st != TN_OK || k != rank) return x;
  if (!dense_order(c, in, st, rank, order, &m)) { tn_at_unsup(c, "the argument is not dense in memory"); return x; }
  for (int i = 0; i < rank; i++) if (in[i] == 1) perm[p++] = i;
  for (int i = 0; i < m; i++) perm[p++] = order[i];
  return tn_b_permute(c, x, perm);
}
/* offset + sum of position * stride: places in the storage, of shape `size` */
static tn_ref storage_places(tn_decomp_ctx *c, const tn_dim *size, const tn_dim *stride, int n, tn_dim offset) {
  tn_ref idx = tn_b_dimval(c, offset, TN_I64);
  for (int i = 0; i < n; i++) {
    if (size[i] == 1 || stride[i] == 0) continue;
    tn_ref k = tn_b_2(c, TN_OP_MUL, tn_b_iota(c, size[i], TN_I64), tn_b_dimval(c, stride[i], TN_I64));
    idx = tn_b_2(c, TN_OP_ADD, idx, tn_b_along(c, k, i, n));
  }
  return tn_b_broadcast(c, idx, size, n);
}

tn_status tn_d_as_strided(tn_decomp_ctx *c) {
  tn_ref x = tn_at_t(c, "self");
  tn_dim size[TN_MAX_RANK], stride[TN_MAX_RANK], in[TN_MAX_RANK];
  const tn_type *o = tn_at_type(c, 0);
  int n = tn_at_dims(c, "stride", stride, TN_MAX_RANK), rank = tn_b_shape(c, x, in), order[TN_MAX_RANK], m = 0, from[TN_MAX_RANK];
  tn_dim offset = tn_at_dim(c, "storage_offset", 0);
  if (c->st != TN_OK) return c->st;
  if (n != o->rank) return tn_at_unsup(c, "%d strides for rank %d", n, o->rank);
  for (int i = 0; i < n; i++) size[i] = o->dim[i];
  tn_ref flat = in_memory_order(c, x, from);
  tn_dim total = tn_b_numel(c, in, rank);
  if (offset == 0 && dense_order(c, size, stride, n, order, &m) && tn_b_numel(c, size, n) == total) {
    tn_dim sorted[TN_MAX_RANK];
    int perm[TN_MAX_RANK], at = 0, place[TN_MAX_RANK];
    for (int i = 0; i < n; i++) if (size[i] == 1) { place[i] = at; sorted[at++] = 1; }
    for (int i = 0; i < m; i++) { place[order[i]] = at; sorted[at++] = size[order[i]]; }
    for (int i = 0; i < n; i++) perm[i] = place[i];
    return tn_at_ret(c, 0, tn_b_permute(c, tn_b_reshape(c, flat, sorted, n), perm));
  }
  return tn_at_ret(c, 0, tn_b_take(c, tn_b_reshape(c, flat, &total, 1), storage_places(c, size, stride, n, offset), 0));
}

tn_status tn_d_as_strided_scatter(tn_decomp_ctx *c) {   /* src written at those places of self's storage */
  tn_ref x = tn_at_t(c, "self"), s = tn_b_cast(c, tn_at_t(c, "src"), tn_b_dtype(c, x));
  tn_dim size[TN_MAX_RANK], stride[TN_MAX_RANK], d[TN_MAX_RANK], one = 0;
  int n = tn_b_shape(c, s, size), k = tn_at_dims(c, "stride", stride, TN_MAX_RANK), from[TN_MAX_RANK], back[TN_MAX_RANK];
  if (c->st != TN_OK) return c->st;
  if (k != n) return tn_at_unsup(c, "%d strides for rank %d", k, n);
  tn_ref flat = in_memory_order(c, x, from);
  int rank = tn_b_shape(c, flat, d);
  tn_dim total = tn_b_numel(c, d, rank), many = tn_b_numel(c, size, n);
  tn_ref places = tn_b_reshape(c, storage_places(c, size, stride, n, tn_at_dim(c, "storage_offset", 0)), &many, 1);
  tn_ref in[3] = {tn_b_reshape(c, flat, &total, 1), tn_b_reshape(c, s, &many, 1), places};
  tn_attr at[2] = {tn_mk_dims(c->g, "dims", &one, 1), tn_mk_bool("accumulate", false)};
  for (int i = 0; i < rank; i++) back[from[i]] = i;
  return tn_at_ret(c, 0, tn_b_permute(c, tn_b_reshape(c, tn_b_op(c, TN_OP_INDEX_PUT, in, 3, at, 2), d, rank), back));
}

/* ---- diagonals and windows as index arithmetic ---- */

tn_status tn_d_diagonal(tn_decomp_ctx *c) {
  tn_ref x = tn_at_t(c, "self");
  tn_dim d[TN_MAX_RANK];
  int rank = tn_b_rank(c, x), a = tn_at_axis(c, "dim1", rank), b = tn_at_axis(c, "dim2", rank), perm[TN_MAX_RANK], n = 0;
  int64_t off = tn_at_i(c, "offset", 0);
  if (c->st != TN_OK) return c->st;
  if (a == b) return tn_at_unsup(c, "dim1 and dim2 are the same");
  for (int i = 0; i < rank; i++) if (i != a && i != b) perm[n++] = i;
  perm[n] = a; perm[n + 1] = b;
  x = tn_b_permute(c, x, perm);
  tn_b_shape(c, x, d);
  tn_dim cols = d[rank - 1], len = tn_at_odim(c, 0, rank - 2);
  d[rank - 2] = tn_dim_mul(c->g->dims, d[rank - 2], cols);
  x = tn_b_reshape(c, x, d, rank - 1);
  tn_ref i = tn_b_iota(c, len, TN_I64), w = tn_b_dimval(c, cols, TN_I64);
  tn_ref idx = tn_b_2(c, TN_OP_MUL, i, tn_b_2(c, TN_OP_ADD, w, tn_b_int(c, 1, TN_I64)));
  if (off > 0) idx = tn_b_2(c, TN_OP_ADD, idx, tn_b_int(c, off, TN_I64));
  if (off < 0) idx = tn_b_2(c, TN_OP_ADD, idx, tn_b_2(c, TN_OP_MUL, w, tn_b_int(c, -off, TN_I64)));
  return tn_at_ret(c, 0, tn_b_take(c, x, idx, rank - 2));
}

tn_status tn_d_unfold(tn_decomp_ctx *c) {
  tn_ref x = tn_at_t(c, "self");
  int rank = tn_b_rank(c, x), d = tn_at_axis(c, "dimension", rank), perm[TN_MAX_RANK], n = 0;
  int64_t size = tn_at_i(c, "size", 1), step = tn_at_i(c, "step", 1);
  const tn_type *o = tn_at_type(c, 0);
  if (c->st != TN_OK) return c->st;
  if (rank == 0) return tn_at_ret(c, 0, tn_b_reshape(c, x, o->dim, o->rank));
  tn_ref at = tn_b_2(c, TN_OP_MUL, tn_b_iota(c, tn_at_odim(c, 0, d), TN_I64), tn_b_int(c, step, TN_I64));
  tn_ref idx = tn_b_2(c, TN_OP_ADD, tn_b_along(c, at, 0, 2), tn_b_along(c, tn_b_iota(c, size, TN_I64), 1, 2));
  tn_ref y = tn_b_take(c, x, idx, d);                 /* [.., windows, size, ..]: size moves to the end */
  for (int i = 0; i <= rank; i++) if (i != d + 1) perm[n++] = i;
  perm[n] = d + 1;
  return tn_at_ret(c, 0, tn_b_permute(c, y, perm));
}

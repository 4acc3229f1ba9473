/* aten_index: reading and writing through index tensors. Integer indices only: a boolean mask as an index makes a shape that depends
 * on data, except in index_put, where it is a select. 0-d operands are treated as vectors of one. */
#include "aten_int.h"

static tn_ref mul(tn_decomp_ctx *c, tn_ref a, tn_ref b) { return tn_b_2(c, TN_OP_MUL, a, b); }
static tn_ref add(tn_decomp_ctx *c, tn_ref a, tn_ref b) { return tn_b_2(c, TN_OP_ADD, a, b); }

static tn_ref index_or_mask(tn_decomp_ctx *c, tn_ref i, bool mask) {   /* index ops take i64 and i32; mask: u8 would be a mask here */
  if (c->st != TN_OK) return i;
  tn_dtype t = tn_b_dtype(c, i);
  if (t == TN_I64 || t == TN_I32) return i;
  if (t == TN_I16 || t == TN_I8 || (t == TN_U8 && !mask)) return tn_b_cast(c, i, TN_I64);
  tn_at_unsup(c, "an index of %s: the result's shape depends on data", tn_dtype_name(t));
  return i;
}
static tn_ref index_of(tn_decomp_ctx *c, tn_ref i) { return index_or_mask(c, i, false); }
static tn_ref at_least_1d(tn_decomp_ctx *c, tn_ref x) { return c->st == TN_OK && tn_b_rank(c, x) == 0 ? tn_b_unsq(c, x, 0) : x; }

tn_status tn_d_embedding(tn_decomp_ctx *c) {           /* padding_idx matters to gradients only */
  return tn_at_ret(c, 0, tn_b_take(c, tn_at_t(c, "weight"), index_of(c, tn_at_t(c, "indices")), 0));
}
tn_status tn_d_index_select(tn_decomp_ctx *c) {
  tn_ref x = tn_at_t(c, "self"), i = at_least_1d(c, index_of(c, tn_at_t(c, "index")));
  int rank = tn_b_rank(c, x), d = tn_at_axis(c, "dim", rank);
  const tn_type *o = tn_at_type(c, 0);
  tn_ref y = tn_b_take(c, at_least_1d(c, x), i, d);
  return tn_at_ret(c, 0, rank ? y : tn_b_reshape(c, y, o->dim, o->rank));
}
tn_status tn_d_take(tn_decomp_ctx *c) {
  tn_ref x = tn_at_t(c, "self");
  tn_dim d[TN_MAX_RANK], n = tn_b_numel(c, d, tn_b_shape(c, x, d));
  return tn_at_ret(c, 0, tn_b_take(c, tn_b_reshape(c, x, &n, 1), index_of(c, tn_at_t(c, "index")), 0));
}
static tn_ref gather(tn_decomp_ctx *c, tn_ref x, tn_ref i, int d) {
  tn_ref in[2] = {x, i};
  tn_attr at = tn_mk_int("dim", d);
  return tn_b_op(c, TN_OP_GATHER, in, 2, &at, 1);
}
tn_status tn_d_gather(tn_decomp_ctx *c) {
  tn_ref x = tn_at_t(c, "self"), i = index_of(c, tn_at_t(c, "index"));
  int d = tn_at_axis(c, "dim", tn_b_rank(c, x));
  const tn_type *o = tn_at_type(c, 0);
  tn_ref y = gather(c, at_least_1d(c, x), at_least_1d(c, i), d);
  return tn_at_ret(c, 0, tn_b_reshape(c, y, o->dim, o->rank));
}

/* ---- x[i, :, j] ---- */

/* The index tensors that are there, with their dims. Masks are kept as they are when masks_ok. */
typedef struct ilist { uint32_t n; tn_ref idx[TN_MAX_RANK]; tn_dim dim[TN_MAX_RANK]; bool mask; } ilist;
static void read_indices(tn_decomp_ctx *c, ilist *l, bool masks_ok) {
  tn_ref *r;
  uint32_t n = tn_at_ts(c, "indices", &r);
  int at = 0;
  l->n = 0;
  l->mask = false;
  for (uint32_t i = 0; i < n && c->st == TN_OK; i++) {
    if (!r[i].id) { at++; continue; }
    if (l->n == TN_MAX_RANK || at >= TN_MAX_RANK) { tn_at_unsup(c, "over %d indices", TN_MAX_RANK); return; }
    bool mask = tn_b_dtype(c, r[i]) == TN_BOOL || tn_b_dtype(c, r[i]) == TN_U8;
    if (mask && masks_ok) l->mask = true;
    else r[i] = index_or_mask(c, r[i], true);
    l->idx[l->n] = r[i];
    l->dim[l->n++] = at;
    at += mask ? tn_b_rank(c, r[i]) : 1;
  }
  if (c->st == TN_OK && l->n == 0) tn_at_unsup(c, "no indices");
}
static tn_ref indexed(tn_decomp_ctx *c, tn_ref x, const ilist *l) {
  tn_ref in[TN_MAX_RANK + 1] = {x};
  if (c->st != TN_OK) return x;
  if (l->n == 1) return tn_b_take(c, x, l->idx[0], (int)l->dim[0]);
  memcpy(in + 1, l->idx, l->n * sizeof *in);
  tn_attr at = tn_mk_dims(c->g, "dims", l->dim, l->n);
  return tn_b_op(c, TN_OP_INDEX, in, l->n + 1, &at, 1);
}
tn_status tn_d_index(tn_decomp_ctx *c) {
  tn_ref x = tn_at_t(c, "self");
  ilist l;
  read_indices(c, &l, false);
  return tn_at_ret(c, 0, indexed(c, x, &l));
}
tn_status tn_d_unsafe_masked_index(tn_decomp_ctx *c) { /* where mask: x[indices], else fill; indices outside are read as 0 */
  tn_ref x = tn_at_t(c, "self"), m = tn_at_t(c, "mask");
  ilist l;
  read_indices(c, &l, false);
  for (uint32_t i = 0; i < l.n && c->st == TN_OK; i++) {
    tn_dtype t = tn_b_dtype(c, l.idx[i]);
    tn_ref zero = tn_b_int(c, 0, t), last = tn_b_dimval(c, tn_dim_sub(c->g->dims, tn_b_dim(c, x, (int)l.dim[i]), 1), t);
    l.idx[i] = tn_b_2(c, TN_OP_MIN, tn_b_2(c, TN_OP_MAX, l.idx[i], zero), last);
  }
  return tn_at_ret(c, 0, tn_b_sel(c, m, indexed(c, x, &l), tn_at_as(c, tn_at_opd(c, "fill"), tn_at_dtype(c, 0))));
}

tn_status tn_d_index_put(tn_decomp_ctx *c) {
  tn_ref x = tn_at_t(c, "self");
  tn_dtype t = tn_b_dtype(c, x);
  tn_ref v = tn_b_cast(c, tn_at_t(c, "values"), t);
  bool accumulate = tn_at_b(c, "accumulate", false);
  ilist l;
  read_indices(c, &l, true);
  if (c->st != TN_OK) return c->st;
  if (l.mask) {                                        /* x[mask] = value: a select, when the value does not differ from hit to hit */
    int rank = tn_b_rank(c, x), rm = tn_b_rank(c, l.idx[0]), tail = rank - (int)l.dim[0] - rm;
    if (l.n != 1 || tail < 0) return tn_at_unsup(c, "a mask among other indices");
    tn_dim d[TN_MAX_RANK], dv[TN_MAX_RANK], n = tn_b_numel(c, dv, tn_b_shape(c, v, dv));
    int rv = tn_b_rank(c, v);
    while (rv > tail && dv[rv - 1 - tail] == 1) { v = tn_b_sq(c, v, 0); rv = tn_b_shape(c, v, dv); if (!rv) break; }
    if (n == 1) v = tn_b_reshape(c, v, NULL, 0);
    else if (rv > tail) return tn_at_unsup(c, "values of their own for each masked place");
    for (int i = 0; i < rank; i++) d[i] = i >= (int)l.dim[0] && i < (int)l.dim[0] + rm ? tn_b_dim(c, l.idx[0], i - (int)l.dim[0]) : 1;
    tn_ref m = tn_b_bool(c, tn_b_reshape(c, l.idx[0], d, rank));
    return tn_at_ret(c, 0, tn_b_sel(c, m, accumulate ? add(c, x, v) : v, x));
  }
  tn_ref in[TN_MAX_RANK + 2] = {x, v};
  memcpy(in + 2, l.idx, l.n * sizeof *in);
  tn_attr at[2] = {tn_mk_dims(c->g, "dims", l.dim, l.n), tn_mk_bool("accumulate", accumulate)};
  return tn_at_ret(c, 0, tn_b_op(c, TN_OP_INDEX_PUT, in, l.n + 2, at, 2));
}

/* ---- scatter ---- */

static tn_ref scattered(tn_decomp_ctx *c, tn_ref x, tn_ref i, tn_ref src, int d, const char *way) {
  tn_dim n[TN_MAX_RANK];
  int rank = tn_b_shape(c, i, n);
  for (int k = 0; k < rank && c->st == TN_OK && k < tn_b_rank(c, src); k++) src = tn_b_slice(c, src, k, 0, n[k], 1);
  tn_ref in[3] = {x, i, src};
  tn_attr at[2] = {tn_mk_int("dim", d), tn_mk_str("combiner", way)};
  return tn_b_op(c, TN_OP_SCATTER, in, 3, at, 2);
}
static tn_ref filled(tn_decomp_ctx *c, tn_ref like, const tn_attr_val *v, tn_dtype t) {
  tn_dim n[TN_MAX_RANK];
  int rank = tn_b_shape(c, like, n);
  return tn_b_full(c, n, rank, v, t);
}
static tn_ref filled_num(tn_decomp_ctx *c, tn_ref like, double k, tn_dtype t) {
  tn_attr_val v = {.kind = TN_AT_FLOAT};
  v.u.f = k;
  return filled(c, like, &v, t);
}
static const char *way_of(tn_decomp_ctx *c, const char *r) {
  static const char *const names[][2] = {{"", "set"}, {"sum", "sum"}, {"add", "sum"}, {"prod", "prod"}, {"multiply", "prod"}, {"amax", "max"}, {"amin", "min"}, {"mean", "mean"}};
  for (size_t k = 0; k < sizeof names / sizeof *names; k++)
    if (!strcmp(r, names[k][0])) return names[k][1];
  tn_at_unsup(c, "reduce=%s", r);
  return "set";
}

static tn_status scatter(tn_decomp_ctx *c, const char *reduce, bool include_self) {
  tn_ref x0 = tn_at_t(c, "self"), x = at_least_1d(c, x0), i = at_least_1d(c, index_of(c, tn_at_t(c, "index"))), src;
  int d = tn_at_axis(c, "dim", tn_b_rank(c, x));
  tn_dtype t = tn_b_dtype(c, x);
  const char *way = way_of(c, reduce);
  if (c->st != TN_OK) return c->st;
  if (strcmp(way, "set") && (t == TN_F16 || t == TN_BF16)) x = tn_b_cast(c, x, TN_F32);   /* sums and products in f32 */
  t = tn_b_dtype(c, x);
  if (tn_at_val(c, "value")) src = filled(c, i, tn_at_val(c, "value"), t);
  else src = tn_b_cast(c, at_least_1d(c, tn_at_t(c, "src")), t);
  bool mean = !strcmp(way, "mean");
  if (!include_self) {                                 /* touched places start at the neutral element */
    tn_combiner k = !strcmp(way, "prod") ? TN_C_PROD : !strcmp(way, "max") ? TN_C_MAX : !strcmp(way, "min") ? TN_C_MIN : TN_C_SUM;
    tn_num id = tn_combiner_identity(k, t);
    tn_attr_val v = {.kind = tn_dtype_is_float(t) ? TN_AT_FLOAT : TN_AT_INT};
    if (v.kind == TN_AT_FLOAT) v.u.f = id.f; else v.u.i = id.i;
    x = scattered(c, x, i, filled(c, i, &v, t), d, "set");
  }
  tn_ref y = scattered(c, x, i, src, d, mean ? "sum" : way);
  if (mean) {
    tn_ref base = filled_num(c, x, include_self ? 1 : 0, t), hits = scattered(c, base, i, filled_num(c, i, 1, t), d, "sum");
    hits = tn_b_2(c, TN_OP_MAX, hits, tn_b_num(c, 1, t));
    y = tn_b_2(c, tn_dtype_is_float(t) ? TN_OP_DIV : TN_OP_FLOORDIV, y, hits);
  }
  const tn_type *o = tn_at_type(c, 0);
  return tn_at_ret(c, 0, tn_b_reshape(c, y, o->dim, o->rank));
}
tn_status tn_d_scatter(tn_decomp_ctx *c) { return scatter(c, tn_at_s(c, "reduce", ""), true); }
tn_status tn_d_scatter_add(tn_decomp_ctx *c) { return scatter(c, "sum", true); }
tn_status tn_d_scatter_reduce(tn_decomp_ctx *c) { return scatter(c, tn_at_s(c, "reduce", ""), tn_at_b(c, "include_self", true)); }

/* index_add, index_copy, index_fill: one index vector along a dim, as a scatter with the vector spread over the source's shape */
static tn_status index_write(tn_decomp_ctx *c, const char *way) {
  tn_ref x = at_least_1d(c, tn_at_t(c, "self")), i = at_least_1d(c, index_of(c, tn_at_t(c, "index"))), s;
  int rank = tn_b_rank(c, x), d = tn_at_axis(c, "dim", rank);
  tn_dtype t0 = tn_b_dtype(c, x), t = !strcmp(way, "sum") ? tn_b_wide(t0) : t0;
  tn_dim n[TN_MAX_RANK];
  tn_b_shape(c, x, n);
  if (c->st != TN_OK) return c->st;
  n[d] = tn_b_dim(c, i, 0);
  if (tn_at_val(c, "value")) s = tn_b_broadcast(c, tn_at_as(c, tn_at_opd(c, "value"), t), n, rank);
  else {
    s = tn_b_cast(c, at_least_1d(c, tn_at_t(c, "source")), t);
    if (tn_at_val(c, "alpha") && tn_at_f(c, "alpha", 1) != 1) s = mul(c, s, tn_b_val(c, tn_at_val(c, "alpha"), t));
  }
  tn_ref spread = tn_b_broadcast(c, tn_b_along(c, i, d, rank), n, rank);
  tn_ref y = scattered(c, tn_b_cast(c, x, t), spread, s, d, way);
  const tn_type *o = tn_at_type(c, 0);
  return tn_at_ret(c, 0, tn_b_reshape(c, y, o->dim, o->rank));
}
tn_status tn_d_index_add(tn_decomp_ctx *c) { return index_write(c, "sum"); }
tn_status tn_d_index_copy(tn_decomp_ctx *c) { return index_write(c, "set"); }
tn_status tn_d_index_fill(tn_decomp_ctx *c) { return index_write(c, "set"); }

/* ---- embeddings ---- */

/* sum, into zeros[rows, width], of g's rows at places i; g [n, width], i [n] */
static tn_ref rows_added(tn_decomp_ctx *c, tn_ref g, tn_ref i, tn_dim rows) {
  tn_dim w = tn_b_dim(c, g, 1), n = tn_b_dim(c, g, 0), z[2] = {rows, w}, s[2] = {n, w};
  tn_ref spread = tn_b_broadcast(c, tn_b_unsq(c, i, 1), s, 2);
  return scattered(c, tn_b_zeros(c, z, 2, tn_b_dtype(c, g)), spread, g, 0, "sum");
}
tn_status tn_d_embedding_dense_backward(tn_decomp_ctx *c) {
  tn_ref g = tn_b_up(c, tn_at_t(c, "grad_output")), i = index_of(c, tn_at_t(c, "indices"));
  tn_dim d[TN_MAX_RANK], s[2];
  int rank = tn_b_shape(c, i, d);
  if (tn_at_b(c, "scale_grad_by_freq", false)) return tn_at_unsup(c, "scale_grad_by_freq");
  s[0] = tn_b_numel(c, d, rank);
  s[1] = tn_b_dim(c, g, tn_b_rank(c, g) - 1);
  g = tn_b_reshape(c, g, s, 2);
  i = tn_b_reshape(c, i, s, 1);
  int64_t pad = tn_at_i(c, "padding_idx", -1);
  if (pad >= 0) g = tn_b_sel(c, tn_b_unsq(c, tn_b_2(c, TN_OP_EQ, i, tn_b_int(c, pad, tn_b_dtype(c, i))), 1), tn_b_num(c, 0, tn_b_dtype(c, g)), g);
  return tn_at_ret(c, 0, rows_added(c, g, i, tn_at_dim(c, "num_weights", 1)));
}

/* n when offsets is the ramp 0, n, 2n, ..: bags of one length */
static int64_t bag_length(const tn_decomp_ctx *c, tn_ref offsets) {
  const tn_node *n = tn_def(c->g, offsets);
  while (n->op == TN_OP_CAST || n->op == TN_OP_COPY) n = tn_def(c->g, tn_graph_resolve(c->g, n->in[0]));
  return n->op == TN_OP_IOTA && tn_attr_int(n, "start", 0) == 0 ? tn_attr_int(n, "step", 0) : 0;
}

tn_status tn_d_embedding_bag(tn_decomp_ctx *c) {       /* result 0 only */
  tn_ref w = tn_at_t(c, "weight"), i = index_of(c, tn_at_t(c, "indices")), off = index_of(c, tn_at_t(c, "offsets")), p = tn_at_opt(c, "per_sample_weights");
  int64_t mode = tn_at_i(c, "mode", 0), pad = tn_at_i(c, "padding_idx", -1);
  tn_dims *t = c->g->dims;
  if (c->st != TN_OK) return c->st;
  if (tn_b_rank(c, i) != 1 || tn_b_rank(c, w) != 2) return tn_at_unsup(c, "indices of rank %d", tn_b_rank(c, i));
  if (mode < 0 || mode > 2) return tn_at_unsup(c, "mode %lld", (long long)mode);
  bool last = tn_at_b(c, "include_last_offset", false);
  tn_dim n = tn_b_dim(c, i, 0), bags = last ? tn_dim_sub(t, tn_b_dim(c, off, 0), 1) : tn_b_dim(c, off, 0), width = tn_b_dim(c, w, 1);
  int64_t len = last ? 0 : bag_length(c, off);
  bool even = len > 0 && tn_dim_mul(t, bags, len) == n;
  if (even) {                                          /* [bags, len]: the sum over a bag reads what it takes, nothing between */
    tn_dim s[2] = {bags, len};
    i = tn_b_reshape(c, i, s, 2);
    if (p.id) p = tn_b_reshape(c, p, s, 2);
  }
  tn_ref x = tn_b_up(c, tn_b_take(c, w, i, 0)), keep = {0};           /* [n or bags, len; width] */
  tn_dtype ct = tn_b_dtype(c, x);
  int one = 1, end = even ? 2 : 1;
  if (p.id) x = mul(c, x, tn_b_unsq(c, tn_b_cast(c, p, ct), end));
  if (pad >= 0) {
    keep = tn_b_2(c, TN_OP_NE, i, tn_b_int(c, pad, tn_b_dtype(c, i)));
    x = tn_b_sel(c, tn_b_unsq(c, keep, end), x, tn_b_num(c, mode == 2 ? -INFINITY : 0, ct));
  }
  tn_ref ones = keep.id ? tn_b_cast(c, keep, ct) : filled_num(c, i, 1, ct), y, cnt;
  if (even) {
    y = tn_b_reduce(c, mode == 2 ? TN_C_MAX : TN_C_SUM, x, &one, 1, false);
    cnt = tn_b_reduce(c, TN_C_SUM, ones, &one, 1, false);
  } else {                                             /* bag of sample j = number of offsets <= j, less one */
    tn_ref j = tn_b_along(c, tn_b_iota(c, n, TN_I64), 0, 2), o = tn_b_along(c, tn_b_cast(c, tn_b_slice(c, off, 0, 0, bags, 1), TN_I64), 1, 2);
    tn_ref bag = tn_b_reduce(c, TN_C_SUM, tn_b_cast(c, tn_b_2(c, TN_OP_LE, o, j), TN_I64), &one, 1, false);
    bag = add(c, bag, tn_b_int(c, -1, TN_I64));
    tn_dim z[2] = {bags, width}, s[2] = {n, width};
    tn_attr_val v = {.kind = TN_AT_FLOAT};
    v.u.f = mode == 2 ? -INFINITY : 0;
    y = scattered(c, tn_b_full(c, z, 2, &v, ct), tn_b_broadcast(c, tn_b_unsq(c, bag, 1), s, 2), x, 0, mode == 2 ? "max" : "sum");
    cnt = scattered(c, tn_b_zeros(c, &bags, 1, ct), bag, ones, 0, "sum");
  }
  tn_ref c2 = tn_b_unsq(c, cnt, 1);
  if (mode == 1) y = tn_b_2(c, TN_OP_DIV, y, tn_b_2(c, TN_OP_MAX, c2, tn_b_num(c, 1, ct)));
  if (mode == 2) y = tn_b_sel(c, tn_b_2(c, TN_OP_EQ, c2, tn_b_num(c, 0, ct)), tn_b_num(c, 0, ct), y);
  return tn_at_ret(c, 0, y);
}

/* ---- place in a sorted vector: how many boundaries lie below (right: or at) the value ---- */

static tn_status searched(tn_decomp_ctx *c, const char *edges, bool right) {
  tn_ref b = tn_at_t(c, edges);
  tn_opd v = tn_at_opd(c, "self");
  if (c->st != TN_OK) return c->st;
  if (tn_b_rank(c, b) != 1) return tn_at_unsup(c, "boundaries of rank %d", tn_b_rank(c, b));
  tn_opd both[2] = {v, tn_opd_of(b)};
  tn_dtype t = tn_at_promote(c, both, 2);
  tn_ref x = tn_at_as(c, v, t);
  int rank = tn_b_rank(c, x);
  if (rank >= TN_MAX_RANK) return tn_at_unsup(c, "rank %d", rank);
  tn_ref below = tn_b_2(c, right ? TN_OP_LE : TN_OP_LT, tn_b_cast(c, b, t), tn_b_unsq(c, x, rank));
  return tn_at_ret(c, 0, tn_b_reduce(c, TN_C_SUM, tn_b_cast(c, below, TN_I64), &rank, 1, false));
}
tn_status tn_d_bucketize(tn_decomp_ctx *c) { return searched(c, "boundaries", tn_at_b(c, "right", false)); }
tn_status tn_d_searchsorted(tn_decomp_ctx *c) {
  if (tn_at_val(c, "sorter")) return tn_at_unsup(c, "sorter");
  return searched(c, "sorted_sequence", tn_at_b(c, "right", false) || !strcmp(tn_at_s(c, "side", "left"), "right"));
}

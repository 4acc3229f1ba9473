/* onnx_index: operators that follow indices, or make them: gathers and scatters, where, one-hot, top-k, sums along an axis, and those whose result
 * size only values tell (NonZero, Compress, Unique: DYN).
 * Negative indices count from the end once in every indexing prim, so nothing is wrapped here. */
#include "onnx_int.h"

tn_status tn_ox_gather(tn_ox *c) {
  tn_ref x = tn_ox_in(c, 0), idx = tn_ox_index(c, tn_ox_in(c, 1));
  if (c->b.st != TN_OK) return c->b.st;
  int axis = tn_ox_axis(c, "axis", 0, tn_b_rank(&c->b, x));
  if (c->b.st != TN_OK) return c->b.st;
  return tn_ox_keep(c, 0, tn_b_take(&c->b, x, idx, axis), x);
}
tn_status tn_ox_gather_elements(tn_ox *c) {
  tn_ref in[2] = {tn_ox_in(c, 0), tn_ox_index(c, tn_ox_in(c, 1))};
  if (c->b.st != TN_OK) return c->b.st;
  int axis = tn_ox_axis(c, "axis", 0, tn_b_rank(&c->b, in[0]));
  tn_attr at = tn_mk_int("dim", axis);
  if (c->b.st != TN_OK) return c->b.st;
  return tn_ox_keep(c, 0, tn_b_op(&c->b, TN_OP_GATHER, in, 2, &at, 1), in[0]);
}

/* ---- n-dimensional indices ---- */
/* Index tensors of idx[..., m]: one for each of the m dims, of idx's shape without the last dim; before them, for `batch` leading dims, their own numbers. */
static int split_index(tn_ox *c, tn_ref idx, int batch, int rank, tn_ref *out) {
  tn_decomp_ctx *b = &c->b;
  tn_dim d[TN_MAX_RANK];
  int n = tn_b_shape(b, idx, d);
  int64_t m = n ? d[n - 1] : -1;
  if (m < 0 || m + batch > rank) {
    if (n && !tn_dim_is_const(m)) tn_ox_unsup(c, "the length of an index is not known while compiling");
    else tn_ox_bad(c, "indices of length %lld and %d batch dims for rank %d", (long long)m, batch, rank);
    return 0;
  }
  for (int i = 0; i < batch; i++) out[i] = tn_b_along(b, tn_b_iota(b, d[i], tn_b_dtype(b, idx)), i, n - 1);
  for (int i = 0; i < m; i++) out[batch + i] = tn_b_sq(b, tn_b_slice(b, idx, n - 1, i, 1, 1), n - 1);
  return batch + (int)m;
}
static tn_attr dims_attr(tn_ox *c, int n) {
  tn_dim d[TN_MAX_RANK];
  for (int i = 0; i < n; i++) d[i] = i;
  return tn_mk_dims(c->b.g, "dims", d, (uint32_t)n);
}
tn_status tn_ox_gather_nd(tn_ox *c) {
  tn_ref x = tn_ox_in(c, 0), idx = tn_ox_index(c, tn_ox_in(c, 1)), in[TN_MAX_RANK + 1] = {x};
  int64_t batch = tn_ox_int(c, "batch_dims", 0);
  if (c->b.st != TN_OK) return c->b.st;
  int rank = tn_b_rank(&c->b, x), q = tn_b_rank(&c->b, idx);
  if (batch < 0 || batch >= q || batch >= rank) return tn_ox_bad(c, "batch_dims is %lld, ranks %d and %d", (long long)batch, rank, q);
  for (int i = 0; i < batch; i++) tn_ox_same_size(c, tn_b_dim(&c->b, x, i), tn_b_dim(&c->b, idx, i), "batch dims of data and indices");
  int n = split_index(c, idx, (int)batch, rank, in + 1);
  if (c->b.st != TN_OK) return c->b.st;
  if (n == 0) {                                              /* indices of length 0: the whole of x each time */
    tn_dim d[2 * TN_MAX_RANK];
    int k = tn_b_shape(&c->b, idx, d) - 1;
    if (k + rank > TN_MAX_RANK) return tn_ox_unsup(c, "a result of rank %d", k + rank);
    tn_b_shape(&c->b, x, d + k);
    return tn_ox_keep(c, 0, tn_b_broadcast(&c->b, x, d, k + rank), x);
  }
  tn_attr at = dims_attr(c, n);
  return tn_ox_keep(c, 0, tn_b_op(&c->b, TN_OP_INDEX, in, (uint32_t)n + 1, &at, 1), x);
}

/* ---- scatters ---- */
static const char *combiner(tn_ox *c) {
  const char *s = tn_ox_str_attr(c, "reduction", "none");
  static const char *const word[][2] = {{"none", "set"}, {"add", "sum"}, {"mul", "prod"}, {"max", "max"}, {"min", "min"}};
  for (size_t i = 0; i < sizeof word / sizeof *word; i++)
    if (!strcmp(s, word[i][0])) return word[i][1];
  tn_ox_bad(c, "reduction is '%.40s'", s);
  return "set";
}
static tn_ref scatter(tn_ox *c, tn_ref x, tn_ref idx, tn_ref src, int axis, const char *how) {
  tn_ref in[3] = {x, idx, src};
  tn_attr at[2] = {tn_mk_int("dim", axis), tn_mk_str("combiner", how)};
  if (c->b.st == TN_OK && tn_b_dtype(&c->b, x) == TN_BOOL && strcmp(how, "set")) {       /* or, and: by numbers */
    in[0] = tn_b_cast(&c->b, x, TN_U8);
    in[2] = tn_b_cast(&c->b, src, TN_U8);
    return tn_b_cast(&c->b, tn_b_op(&c->b, TN_OP_SCATTER, in, 3, at, 2), TN_BOOL);
  }
  return tn_b_op(&c->b, TN_OP_SCATTER, in, 3, at, 2);
}
tn_status tn_ox_scatter_elements(tn_ox *c) {
  tn_ref x = tn_ox_in(c, 0), idx = tn_ox_index(c, tn_ox_in(c, 1)), src = tn_ox_in(c, 2);
  const char *how = combiner(c);
  if (c->b.st != TN_OK) return c->b.st;
  int axis = tn_ox_axis(c, "axis", 0, tn_b_rank(&c->b, x));
  if (c->b.st != TN_OK) return c->b.st;
  if (tn_b_dtype(&c->b, src) != tn_b_dtype(&c->b, x)) return tn_ox_bad(c, "updates are %s, data %s", tn_dtype_name(tn_b_dtype(&c->b, src)), tn_dtype_name(tn_b_dtype(&c->b, x)));
  return tn_ox_keep(c, 0, scatter(c, x, idx, src, axis, how), x);
}
/* max, min, mul over whole pieces: x as [elements of the indexed dims, rest], one number for each index. */
static tn_ref scatter_pieces(tn_ox *c, tn_ref x, const tn_ref *idx, int m, tn_ref src, const char *how) {
  tn_decomp_ctx *b = &c->b;
  tn_dim d[TN_MAX_RANK], at[TN_MAX_RANK];
  int rank = tn_b_shape(b, x, d), q = tn_b_shape(b, idx[0], at);
  tn_ref lin = tn_b_int(b, 0, TN_I64);
  for (int i = 0; i < m; i++) {
    tn_ref k = tn_b_cast(b, idx[i], TN_I64), size = tn_b_dimval(b, d[i], TN_I64);
    k = tn_b_sel(b, tn_b_2(b, TN_OP_LT, k, tn_b_int(b, 0, TN_I64)), tn_b_2(b, TN_OP_ADD, k, size), k);
    lin = tn_b_2(b, TN_OP_ADD, tn_b_2(b, TN_OP_MUL, lin, size), k);
  }
  tn_dim rows = tn_b_numel(b, d, m), rest = tn_b_numel(b, d + m, rank - m), n = tn_b_numel(b, at, q), flat[2] = {rows, rest}, piece[2] = {n, rest};
  lin = tn_b_broadcast(b, tn_b_reshape(b, lin, (tn_dim[]){n, 1}, 2), piece, 2);
  return tn_b_reshape(b, scatter(c, tn_b_reshape(b, x, flat, 2), lin, tn_b_reshape(b, src, piece, 2), 0, how), d, rank);
}
tn_status tn_ox_scatter_nd(tn_ox *c) {
  tn_ref x = tn_ox_in(c, 0), idx = tn_ox_index(c, tn_ox_in(c, 1)), src = tn_ox_in(c, 2), in[TN_MAX_RANK + 2] = {x, src};
  const char *how = combiner(c);
  if (c->b.st != TN_OK) return c->b.st;
  if (tn_b_dtype(&c->b, src) != tn_b_dtype(&c->b, x)) return tn_ox_bad(c, "updates are %s, data %s", tn_dtype_name(tn_b_dtype(&c->b, src)), tn_dtype_name(tn_b_dtype(&c->b, x)));
  int n = split_index(c, idx, 0, tn_b_rank(&c->b, x), in + 2);
  if (c->b.st != TN_OK) return c->b.st;
  if (n == 0) return tn_ox_unsup(c, "indices of length 0");
  bool sum = !strcmp(how, "sum");
  if ((!sum && strcmp(how, "set")) || (sum && tn_b_dtype(&c->b, x) == TN_BOOL)) return tn_ox_keep(c, 0, scatter_pieces(c, x, in + 2, n, src, how), x);
  tn_attr at[2] = {dims_attr(c, n), tn_mk_bool("accumulate", sum)};
  return tn_ox_keep(c, 0, tn_b_op(&c->b, TN_OP_INDEX_PUT, in, (uint32_t)n + 2, at, 2), x);
}
tn_status tn_ox_tensor_scatter(tn_ox *c) {
  tn_decomp_ctx *b = &c->b;
  tn_ref x = tn_ox_in(c, 0), src = tn_ox_in(c, 1), from = tn_ox_opt(c, 2);
  const char *mode = tn_ox_str_attr(c, "mode", "linear");
  tn_dim d[TN_MAX_RANK];
  if (c->b.st != TN_OK) return c->b.st;
  int n = tn_b_shape(b, src, d), axis = tn_ox_axis(c, "axis", -2, n);
  if (c->b.st != TN_OK) return c->b.st;
  if (axis == 0 || tn_b_rank(b, x) != n) return tn_ox_bad(c, "axis %d, cache of rank %d, update of rank %d", axis, tn_b_rank(b, x), n);
  tn_ref at = tn_b_along(b, tn_b_iota(b, d[axis], TN_I64), axis, n);
  if (from.id) at = tn_b_2(b, TN_OP_ADD, at, tn_b_along(b, tn_b_cast(b, from, TN_I64), 0, n));
  if (!strcmp(mode, "circular")) at = tn_b_2(b, TN_OP_REMAINDER, at, tn_b_dimval(b, tn_b_dim(b, x, axis), TN_I64));
  else if (strcmp(mode, "linear")) return tn_ox_bad(c, "mode is '%.40s'", mode);
  return tn_ox_keep(c, 0, scatter(c, x, tn_b_broadcast(b, at, d, n), src, axis, "set"), x);
}

/* ---- choice ---- */
tn_status tn_ox_where(tn_ox *c) {
  tn_ref k = tn_ox_in(c, 0), a = tn_ox_in(c, 1), z = tn_ox_in(c, 2);
  if (c->b.st != TN_OK) return c->b.st;
  if (tn_b_dtype(&c->b, k) != TN_BOOL) return tn_ox_bad(c, "the condition is %s", tn_dtype_name(tn_b_dtype(&c->b, k)));
  return tn_ox_keep(c, 0, tn_b_sel(&c->b, k, a, z), a);
}
/* 1 where k (any numbers) is `at` along `axis` of size n; k has no such axis yet. */
static tn_ref hot(tn_ox *c, tn_ref k, int axis, tn_dim n) {
  tn_decomp_ctx *b = &c->b;
  tn_ref i = tn_b_along(b, tn_b_iota(b, n, TN_I64), axis, tn_b_rank(b, k) + 1);
  return tn_b_2(b, TN_OP_EQ, tn_b_unsq(b, k, axis), i);
}
tn_status tn_ox_one_hot(tn_ox *c) {
  tn_decomp_ctx *b = &c->b;
  tn_ref k = tn_ox_in(c, 0), depth = tn_ox_in(c, 1), v = tn_ox_in(c, 2);
  tn_dim n;
  if (c->b.st != TN_OK) return c->b.st;
  int axis = tn_ox_axis(c, "axis", -1, tn_b_rank(b, k) + 1);
  if (tn_type_numel(tn_typeof(b->g, depth)) != 1 || tn_b_rank(b, v) != 1) return tn_ox_bad(c, "depth or values of a wrong shape");
  if (tn_ox_sizes(c, tn_b_cast(b, depth, TN_I64), &n, 1, 0) != 1) return c->b.st;
  k = tn_b_cast(b, k, TN_I64);
  k = tn_b_sel(b, tn_b_2(b, TN_OP_LT, k, tn_b_int(b, 0, TN_I64)), tn_b_2(b, TN_OP_ADD, k, tn_b_dimval(b, n, TN_I64)), k);
  tn_ref off = tn_b_reshape(b, tn_b_slice(b, v, 0, 0, 1, 1), NULL, 0), on = tn_b_reshape(b, tn_b_slice(b, v, 0, 1, 1, 1), NULL, 0);
  return tn_ox_keep(c, 0, tn_b_sel(b, hot(c, k, axis, n), on, off), v);
}

/* ---- the greatest ---- */
tn_status tn_ox_top_k(tn_ox *c) {
  tn_ref x = tn_ox_in(c, 0);
  tn_dim k[1];
  if (c->b.st != TN_OK) return c->b.st;
  int axis = tn_ox_axis(c, "axis", -1, tn_b_rank(&c->b, x));
  bool largest = tn_ox_int(c, "largest", 1) != 0;
  if (c->opset < 10) {
    k[0] = tn_ox_int(c, "k", -1);
    if (c->b.st == TN_OK && k[0] < 0) return tn_ox_bad(c, "k is missing");
  } else if (tn_ox_sizes(c, tn_ox_in(c, 1), k, 1, 0) != 1) return c->b.st == TN_OK ? tn_ox_bad(c, "k is no single number") : c->b.st;
  if (c->b.st != TN_OK) return c->b.st;
  tn_attr at[3] = {tn_mk_dims(c->b.g, "k", k, 1), tn_mk_int("dim", axis), tn_mk_bool("largest", largest)};
  tn_ref r = tn_b_op(&c->b, TN_OP_TOPK, &x, 1, at, 3);
  tn_ox_keep(c, 0, r, x);
  return tn_ox_ret(c, 1, tn_ox_nth(r, 1));
}

/* ---- sums along an axis ---- */
static tn_ref flip(tn_ox *c, tn_ref x, int axis) {
  tn_dim d[1] = {axis};
  tn_attr at = tn_mk_dims(c->b.g, "dims", d, 1);
  return tn_b_op(&c->b, TN_OP_FLIP, &x, 1, &at, 1);
}
static tn_ref cumulated(tn_ox *c, tn_combiner k, tn_ref y, int a, bool exclusive, bool reverse) {
  tn_decomp_ctx *b = &c->b;
  if (reverse) y = flip(c, y, a);
  if (exclusive) {                                           /* moved by one, the identity first */
    tn_dim lo[TN_MAX_RANK] = {0}, hi[TN_MAX_RANK] = {0}, size = tn_b_dim(b, y, a);
    tn_attr_val v = {.kind = TN_AT_INT, .u.i = k == TN_C_PROD};
    lo[a] = 1;
    y = tn_b_slice(b, tn_b_pad(b, y, lo, hi, &v), a, 0, size, 1);
  }
  y = tn_b_scan(b, k, y, a);
  return reverse ? flip(c, y, a) : y;
}
static tn_status cumulate(tn_ox *c, tn_combiner k) {
  tn_decomp_ctx *b = &c->b;
  tn_ref x = tn_ox_in(c, 0), axis = tn_ox_in(c, 1), wide, y = {0};
  int64_t at;
  bool exclusive = tn_ox_int(c, "exclusive", 0) != 0, reverse = tn_ox_int(c, "reverse", 0) != 0;
  if (c->b.st != TN_OK) return c->b.st;
  int n = tn_b_rank(b, x);
  wide = tn_b_up(b, x);
  if (tn_ox_consts(c, axis, &at, 1) == 1) {
    int a = tn_ox_wrap(c, at, n);
    if (c->b.st == TN_OK) y = cumulated(c, k, wide, a, exclusive, reverse);
  } else {                                                   /* only the run knows: all of them, and a choice */
    tn_ref mask = tn_ox_axes_mask(c, axis, n);
    y = wide;
    for (int a = 0; a < n && c->b.st == TN_OK; a++)
      y = tn_b_sel(b, tn_b_reshape(b, tn_b_slice(b, mask, 0, a, 1, 1), NULL, 0), cumulated(c, k, wide, a, exclusive, reverse), y);
  }
  return tn_ox_ret(c, 0, c->b.st == TN_OK ? tn_b_cast(b, y, tn_b_dtype(b, x)) : y);
}
tn_status tn_ox_cum_sum(tn_ox *c) { return cumulate(c, TN_C_SUM); }
tn_status tn_ox_cum_prod(tn_ox *c) { return cumulate(c, TN_C_PROD); }

/* ---- sizes that only values tell ---- */
static tn_dim at_most(tn_ox *c, tn_dim n) {
  int64_t lo, hi;
  tn_dim_bounds(c->b.g->dims, n, &lo, &hi);
  return tn_ox_fresh(c, 0, hi < 0 ? 0 : hi);
}
tn_status tn_ox_non_zero(tn_ox *c) {
  tn_ref x = tn_ox_in(c, 0);
  tn_dim d[TN_MAX_RANK], out[2];
  if (c->b.st != TN_OK) return c->b.st;
  int n = tn_b_shape(&c->b, x, d);
  out[0] = n;                                                /* of a single number: as of a list of one, without rows */
  out[1] = at_most(c, tn_b_numel(&c->b, d, n));
  tn_type ty = tn_ox_type(c, TN_I64, 2, out);
  return tn_ox_ret(c, 0, tn_ox_dyn(c, "nonzero", &x, 1, NULL, 0, &ty, 1));
}
tn_status tn_ox_compress(tn_ox *c) {
  tn_ref in[2] = {tn_ox_in(c, 0), tn_ox_in(c, 1)};
  tn_dim d[TN_MAX_RANK], out[TN_MAX_RANK];
  if (c->b.st != TN_OK) return c->b.st;
  int n = tn_b_shape(&c->b, in[0], d), axis = 0;
  bool whole = !tn_ox_attr_get(c, "axis");
  if (!whole) axis = tn_ox_axis(c, "axis", 0, n);
  if (c->b.st != TN_OK) return c->b.st;
  for (int i = 0; i < n; i++) out[i] = d[i];
  out[axis] = at_most(c, whole ? tn_b_numel(&c->b, d, n) : d[axis]);
  tn_type ty = tn_ox_type(c, tn_b_dtype(&c->b, in[0]), whole ? 1 : n, out);
  tn_attr at = tn_mk_int("axis", axis);
  return tn_ox_keep(c, 0, tn_ox_dyn(c, "compress", in, 2, &at, whole ? 0 : 1, &ty, 1), in[0]);
}
tn_status tn_ox_unique(tn_ox *c) {
  tn_ref x = tn_ox_in(c, 0);
  tn_dim d[TN_MAX_RANK], out[TN_MAX_RANK];
  tn_type ty[4];
  if (c->b.st != TN_OK) return c->b.st;
  int n = tn_b_shape(&c->b, x, d), axis = 0;
  bool whole = !tn_ox_attr_get(c, "axis");
  if (!whole) axis = tn_ox_axis(c, "axis", 0, n);
  if (c->b.st != TN_OK) return c->b.st;
  for (int i = 0; i < n; i++) out[i] = d[i];
  tn_dim all = whole ? tn_b_numel(&c->b, d, n) : d[axis], u = at_most(c, all);
  if (whole) out[0] = u;
  else out[axis] = u;
  ty[0] = tn_ox_type(c, tn_b_dtype(&c->b, x), whole ? 1 : n, out);
  ty[1] = ty[3] = tn_ox_type(c, TN_I64, 1, &u);
  ty[2] = tn_ox_type(c, TN_I64, 1, &all);
  tn_attr at[2] = {tn_mk_bool("sorted", tn_ox_int(c, "sorted", 1) != 0), tn_mk_int("axis", axis)};
  tn_ref r = tn_ox_dyn(c, "unique", &x, 1, at, whole ? 1 : 2, ty, 4);
  tn_ox_keep(c, 0, r, x);
  for (uint32_t k = 1; k < 4; k++) tn_ox_ret(c, k, tn_ox_nth(r, k));
  return c->b.st;
}

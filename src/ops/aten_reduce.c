/* aten_reduce: reductions over dims, softmax family, scans, sorting. Sums, means and softmax of f16/bf16 run in f32; integer sums in
 * i64; var and std in two passes (mean, then squared differences). An empty dim list means all dims, as in torch. */
#include "aten_int.h"

static tn_ref widened(tn_decomp_ctx *c, const char *name, uint32_t k) {   /* argument in result k's dtype, f16/bf16 in f32 */
  tn_ref x = tn_at_t(c, name);
  tn_dtype in = tn_b_dtype(c, x), out = tn_at_dtype(c, k);
  if (tn_dtype_is_float(in) && tn_dtype_is_float(out) && tn_b_wide(in) == tn_b_wide(out)) return tn_b_up(c, x);
  return tn_b_cast(c, x, tn_b_wide(out));
}

static tn_status plain(tn_decomp_ctx *c, tn_combiner k, bool keep_dtype) {
  tn_ref x = keep_dtype ? tn_at_t(c, "self") : widened(c, "self", 0);
  int ax[TN_MAX_RANK], n = tn_at_axes(c, "dim", tn_b_rank(c, x), ax);
  return tn_at_ret(c, 0, tn_b_reduce(c, k, x, ax, n, tn_at_b(c, "keepdim", false)));
}
tn_status tn_d_sum(tn_decomp_ctx *c) {
  if (tn_at_dtype(c, 0) == TN_BOOL) return tn_at_unsup(c, "dtype=bool");
  return plain(c, TN_C_SUM, false);
}
tn_status tn_d_prod(tn_decomp_ctx *c) {
  if (tn_at_dtype(c, 0) == TN_BOOL) return tn_at_unsup(c, "dtype=bool");
  return plain(c, TN_C_PROD, false);
}
static tn_status extreme(tn_decomp_ctx *c, tn_combiner k) {
  tn_ref x = tn_at_t(c, "self");
  int ax[TN_MAX_RANK], n = tn_at_axes(c, "dim", tn_b_rank(c, x), ax);
  for (int i = 0; c->st == TN_OK && i < n; i++)
    if (tn_b_dim(c, x, ax[i]) == 0) return tn_at_unsup(c, "an extreme of nothing");   /* the framework's error is the answer */
  return plain(c, k, true);
}
tn_status tn_d_amax(tn_decomp_ctx *c) { return extreme(c, TN_C_MAX); }
tn_status tn_d_amin(tn_decomp_ctx *c) { return extreme(c, TN_C_MIN); }

tn_status tn_d_aminmax(tn_decomp_ctx *c) {
  tn_ref x = tn_at_t(c, "self");
  int ax[TN_MAX_RANK], n = tn_at_axes(c, "dim", tn_b_rank(c, x), ax);
  bool keep = tn_at_b(c, "keepdim", false);
  tn_at_ret(c, 0, tn_b_reduce(c, TN_C_MIN, x, ax, n, keep));
  return tn_at_ret(c, 1, tn_b_reduce(c, TN_C_MAX, x, ax, n, keep));
}

static tn_status truth(tn_decomp_ctx *c, tn_combiner k) {
  tn_ref x = tn_b_bool(c, tn_at_t(c, "self"));
  int ax[TN_MAX_RANK], n = tn_at_axes(c, "dim", tn_b_rank(c, x), ax);
  tn_dim listed[TN_MAX_RANK];
  if (tn_at_dims(c, "dim", listed, TN_MAX_RANK) == 0) n = 0;   /* any.dims, all.dims: [] reduces nothing */
  return tn_at_ret(c, 0, tn_b_reduce(c, k, x, ax, n, tn_at_b(c, "keepdim", false)));
}
tn_status tn_d_any(tn_decomp_ctx *c) { return truth(c, TN_C_ANY); }
tn_status tn_d_all(tn_decomp_ctx *c) { return truth(c, TN_C_ALL); }

tn_status tn_d_mean(tn_decomp_ctx *c) {
  tn_ref x = widened(c, "self", 0);
  int ax[TN_MAX_RANK], n = tn_at_axes(c, "dim", tn_b_rank(c, x), ax);
  return tn_at_ret(c, 0, tn_b_mean(c, x, ax, n, tn_at_b(c, "keepdim", false)));
}

tn_status tn_d_nansum(tn_decomp_ctx *c) {
  tn_ref x = widened(c, "self", 0);
  int ax[TN_MAX_RANK], n = tn_at_axes(c, "dim", tn_b_rank(c, x), ax);
  if (tn_dtype_is_float(tn_b_dtype(c, x))) x = tn_b_sel(c, tn_b_1(c, TN_OP_ISNAN, x), tn_b_num(c, 0, tn_b_dtype(c, x)), x);
  return tn_at_ret(c, 0, tn_b_reduce(c, TN_C_SUM, x, ax, n, tn_at_b(c, "keepdim", false)));
}

tn_status tn_d_count_nonzero(tn_decomp_ctx *c) {
  tn_ref x = tn_b_cast(c, tn_b_bool(c, tn_at_t(c, "self")), TN_I64);
  int ax[TN_MAX_RANK], n = tn_at_axes(c, "dim", tn_b_rank(c, x), ax);
  return tn_at_ret(c, 0, tn_b_reduce(c, TN_C_SUM, x, ax, n, false));
}

/* ---- extremes with their places ---- */

static tn_ref arg_of(tn_decomp_ctx *c, tn_combiner k, tn_ref x, int axis, bool keep) {
  if (c->st == TN_OK && tn_b_rank(c, x) == 0) return tn_b_int(c, 0, TN_I64);
  if (tn_b_dtype(c, x) == TN_BOOL) x = tn_b_cast(c, x, TN_U8);
  return tn_b_reduce1(c, k, x, axis, keep);
}
static tn_status extreme_dim(tn_decomp_ctx *c, tn_combiner k, tn_combiner arg) {
  tn_ref x = tn_at_t(c, "self");
  int d = tn_at_axis(c, "dim", tn_b_rank(c, x));
  bool keep = tn_at_b(c, "keepdim", false);
  tn_at_ret(c, 1, arg_of(c, arg, x, d, keep));
  return tn_at_ret(c, 0, tn_b_reduce1(c, k, x, d, keep));
}
tn_status tn_d_max_dim(tn_decomp_ctx *c) { return extreme_dim(c, TN_C_MAX, TN_C_ARGMAX); }
tn_status tn_d_min_dim(tn_decomp_ctx *c) { return extreme_dim(c, TN_C_MIN, TN_C_ARGMIN); }

static tn_status arg_extreme(tn_decomp_ctx *c, tn_combiner k) {
  tn_ref x = tn_at_t(c, "self");
  int rank = tn_b_rank(c, x);
  if (tn_at_val(c, "dim")) return tn_at_ret(c, 0, arg_of(c, k, x, tn_at_axis(c, "dim", rank), tn_at_b(c, "keepdim", false)));
  tn_dim d[TN_MAX_RANK];
  tn_b_shape(c, x, d);
  d[0] = tn_b_numel(c, d, rank);                       /* over the flattened tensor */
  tn_ref r = arg_of(c, k, rank ? tn_b_reshape(c, x, d, 1) : x, 0, false);
  const tn_type *o = tn_at_type(c, 0);
  return tn_at_ret(c, 0, tn_b_reshape(c, r, o->dim, o->rank));
}
tn_status tn_d_argmax(tn_decomp_ctx *c) { return arg_extreme(c, TN_C_ARGMAX); }
tn_status tn_d_argmin(tn_decomp_ctx *c) { return arg_extreme(c, TN_C_ARGMIN); }

/* ---- spread ---- */

/* correction: the argument of that name, else unbiased (default true): 1, else 0 */
static double correction(tn_decomp_ctx *c) {
  if (tn_attr_get(&c->g->node[c->node], "unbiased")) return tn_at_b(c, "unbiased", true) ? 1 : 0;
  return tn_at_f(c, "correction", 1);
}
static tn_status spread(tn_decomp_ctx *c, bool root, bool with_mean) {
  tn_ref x = widened(c, "self", 0);
  tn_dtype t = tn_b_dtype(c, x);
  int rank = tn_b_rank(c, x), ax[TN_MAX_RANK], n = tn_at_axes(c, "dim", rank, ax);
  bool keep = tn_at_b(c, "keepdim", false);
  double k = correction(c);
  tn_dim count = 1;
  for (int i = 0; i < n; i++) count = tn_dim_mul(c->g->dims, count, tn_b_dim(c, x, ax[i]));
  tn_ref m = tn_b_mean(c, x, ax, n, true), d = tn_b_2(c, TN_OP_SUB, x, m);
  tn_ref s = tn_b_reduce(c, TN_C_SUM, tn_b_2(c, TN_OP_MUL, d, d), ax, n, keep), div;
  int64_t fixed;
  if (count != TN_DIM_BAD && tn_dim_as_int(c->g->dims, count, &fixed)) div = tn_b_num(c, (double)fixed - k > 0 ? (double)fixed - k : 0, t);
  else div = tn_b_2(c, TN_OP_MAX, tn_b_addn(c, tn_b_dimval(c, count, t), -k), tn_b_num(c, 0, t));
  tn_ref v = tn_b_2(c, TN_OP_DIV, s, div);
  if (root) v = tn_b_1(c, TN_OP_SQRT, v);
  if (with_mean) {
    const tn_type *o = tn_at_type(c, 1);
    tn_at_ret(c, 1, tn_b_reshape(c, m, o->dim, o->rank));
  }
  return tn_at_ret(c, 0, v);
}
tn_status tn_d_var(tn_decomp_ctx *c) { return spread(c, false, false); }
tn_status tn_d_std(tn_decomp_ctx *c) { return spread(c, true, false); }
tn_status tn_d_var_mean(tn_decomp_ctx *c) { return spread(c, false, true); }
tn_status tn_d_std_mean(tn_decomp_ctx *c) { return spread(c, true, true); }

tn_status tn_d_logsumexp(tn_decomp_ctx *c) {           /* shifted by the maximum where that is finite */
  tn_ref x = widened(c, "self", 0);
  tn_dtype t = tn_b_dtype(c, x);
  int ax[TN_MAX_RANK], n = tn_at_axes(c, "dim", tn_b_rank(c, x), ax);
  tn_ref m = tn_b_reduce(c, TN_C_MAX, x, ax, n, true);
  m = tn_b_sel(c, tn_b_1(c, TN_OP_ISINF, m), tn_b_num(c, 0, t), m);
  tn_ref s = tn_b_reduce(c, TN_C_SUM, tn_b_1(c, TN_OP_EXP, tn_b_2(c, TN_OP_SUB, x, m)), ax, n, true);
  tn_ref y = tn_b_2(c, TN_OP_ADD, tn_b_1(c, TN_OP_LOG, s), m);
  const tn_type *o = tn_at_type(c, 0);
  return tn_at_ret(c, 0, tn_b_reshape(c, y, o->dim, o->rank));
}

static tn_status norm(tn_decomp_ctx *c, const char *order) {
  tn_ref x = widened(c, "self", 0);
  tn_dtype t = tn_b_dtype(c, x);
  double p = tn_at_f(c, order, 2);
  int ax[TN_MAX_RANK], n = tn_at_axes(c, "dim", tn_b_rank(c, x), ax);
  bool keep = tn_at_b(c, "keepdim", false);
  tn_ref a = tn_b_1(c, TN_OP_ABS, x), y;
  if (p == 2) y = tn_b_1(c, TN_OP_SQRT, tn_b_reduce(c, TN_C_SUM, tn_b_2(c, TN_OP_MUL, x, x), ax, n, keep));
  else if (p == 1) y = tn_b_reduce(c, TN_C_SUM, a, ax, n, keep);
  else if (p == INFINITY) y = tn_b_reduce(c, TN_C_MAX, a, ax, n, keep);
  else if (p == -INFINITY) y = tn_b_reduce(c, TN_C_MIN, a, ax, n, keep);
  else if (p == 0) y = tn_b_reduce(c, TN_C_SUM, tn_b_cast(c, tn_b_bool(c, x), t), ax, n, keep);
  else {
    tn_ref s = tn_b_reduce(c, TN_C_SUM, tn_b_2(c, TN_OP_POW, a, tn_b_num(c, p, t)), ax, n, keep);
    y = tn_b_2(c, TN_OP_POW, s, tn_b_num(c, 1 / p, t));
  }
  return tn_at_ret(c, 0, y);
}
tn_status tn_d_norm(tn_decomp_ctx *c) { return norm(c, "p"); }
tn_status tn_d_linalg_vector_norm(tn_decomp_ctx *c) { return norm(c, "ord"); }

/* ---- softmax ---- */

static tn_status softmax(tn_decomp_ctx *c, bool safe) {
  tn_ref x = widened(c, "self", 0);
  return tn_at_ret(c, 0, tn_b_softmax(c, x, tn_at_axis(c, "dim", tn_b_rank(c, x)), safe));
}
tn_status tn_d_softmax(tn_decomp_ctx *c) { return softmax(c, false); }
tn_status tn_d_safe_softmax(tn_decomp_ctx *c) { return softmax(c, true); }

tn_status tn_d_log_softmax(tn_decomp_ctx *c) {
  tn_ref x = widened(c, "self", 0);
  int d = tn_at_axis(c, "dim", tn_b_rank(c, x));
  tn_ref z = tn_b_2(c, TN_OP_SUB, x, tn_b_reduce1(c, TN_C_MAX, x, d, true));
  tn_ref s = tn_b_reduce1(c, TN_C_SUM, tn_b_1(c, TN_OP_EXP, z), d, true);
  return tn_at_ret(c, 0, tn_b_2(c, TN_OP_SUB, z, tn_b_1(c, TN_OP_LOG, s)));
}
tn_status tn_d_softmax_backward(tn_decomp_ctx *c) {    /* y * (g - sum(g * y)) */
  tn_ref g = tn_b_up(c, tn_at_t(c, "grad_output")), y = tn_b_cast(c, tn_at_t(c, "output"), tn_b_dtype(c, g));
  int d = tn_at_axis(c, "dim", tn_b_rank(c, y));
  tn_ref gy = tn_b_2(c, TN_OP_MUL, g, y), s = tn_b_reduce1(c, TN_C_SUM, gy, d, true);
  return tn_at_ret(c, 0, tn_b_2(c, TN_OP_SUB, gy, tn_b_2(c, TN_OP_MUL, y, s)));
}
tn_status tn_d_log_softmax_backward(tn_decomp_ctx *c) { /* g - exp(y) * sum(g) */
  tn_ref g = tn_b_up(c, tn_at_t(c, "grad_output")), y = tn_b_cast(c, tn_at_t(c, "output"), tn_b_dtype(c, g));
  int d = tn_at_axis(c, "dim", tn_b_rank(c, y));
  tn_ref s = tn_b_reduce1(c, TN_C_SUM, g, d, true);
  return tn_at_ret(c, 0, tn_b_2(c, TN_OP_SUB, g, tn_b_2(c, TN_OP_MUL, tn_b_1(c, TN_OP_EXP, y), s)));
}

/* ---- scans, order ---- */

static tn_status scan(tn_decomp_ctx *c, tn_combiner k) {
  tn_ref x = widened(c, "self", 0);
  if (tn_b_dtype(c, x) == TN_BOOL) return tn_at_unsup(c, "dtype=bool");
  return tn_at_ret(c, 0, tn_b_scan(c, k, x, tn_at_axis(c, "dim", tn_b_rank(c, x))));
}
tn_status tn_d_cumsum(tn_decomp_ctx *c) { return scan(c, TN_C_SUM); }
tn_status tn_d_cumprod(tn_decomp_ctx *c) { return scan(c, TN_C_PROD); }

static tn_status cum_extreme(tn_decomp_ctx *c, tn_combiner k) {   /* places: the last k whose value equals the running extreme */
  tn_ref x = tn_at_t(c, "self");
  int rank = tn_b_rank(c, x), d = tn_at_axis(c, "dim", rank);
  if (tn_b_dtype(c, x) == TN_BOOL) return tn_at_unsup(c, "bool input");
  tn_ref v = tn_b_scan(c, k, x, d);
  if (c->st == TN_OK && rank == 0) tn_at_ret(c, 1, tn_b_int(c, 0, TN_I64));
  else {
    tn_ref iota = tn_b_along(c, tn_b_iota(c, tn_b_dim(c, x, d), TN_I64), d, rank);
    tn_ref hit = tn_b_2(c, TN_OP_EQ, x, v);
    if (tn_dtype_is_float(tn_b_dtype(c, x))) hit = tn_b_2(c, TN_OP_OR, hit, tn_b_1(c, TN_OP_ISNAN, x));
    tn_at_ret(c, 1, tn_b_scan(c, TN_C_MAX, tn_b_sel(c, hit, iota, tn_b_int(c, 0, TN_I64)), d));
  }
  return tn_at_ret(c, 0, v);
}
tn_status tn_d_cummax(tn_decomp_ctx *c) { return cum_extreme(c, TN_C_MAX); }
tn_status tn_d_cummin(tn_decomp_ctx *c) { return cum_extreme(c, TN_C_MIN); }

/* values and places in order along a dim; rank 0 is order of one */
static void sorted(tn_decomp_ctx *c, tn_ref x, int d, bool descending, tn_ref out[2]) {
  out[0] = x;
  out[1] = (tn_ref){0};
  if (c->st != TN_OK) return;
  if (tn_b_rank(c, x) == 0) { out[1] = tn_b_int(c, 0, TN_I64); return; }
  tn_dtype t = tn_b_dtype(c, x);
  if (t == TN_BOOL) x = tn_b_cast(c, x, TN_U8);
  tn_attr at[3] = {tn_mk_int("dim", d), tn_mk_bool("descending", descending), tn_mk_bool("stable", true)};
  out[0] = tn_b_op(c, TN_OP_SORT, &x, 1, at, 3);
  out[1].id = out[0].id ? out[0].id + 1 : 0;
  out[0] = tn_b_cast(c, out[0], t);
}
tn_status tn_d_sort(tn_decomp_ctx *c) {
  tn_ref x = tn_at_t(c, "self"), r[2];
  sorted(c, x, tn_at_axis(c, "dim", tn_b_rank(c, x)), tn_at_b(c, "descending", false), r);
  tn_at_ret(c, 0, r[0]);
  return tn_at_ret(c, 1, r[1]);
}
tn_status tn_d_argsort(tn_decomp_ctx *c) {
  tn_ref x = tn_at_t(c, "self"), r[2];
  sorted(c, x, tn_at_axis(c, "dim", tn_b_rank(c, x)), tn_at_b(c, "descending", false), r);
  return tn_at_ret(c, 0, r[1]);
}
tn_status tn_d_topk(tn_decomp_ctx *c) {
  tn_ref x = tn_at_t(c, "self");
  int rank = tn_b_rank(c, x), d = tn_at_axis(c, "dim", rank);
  tn_dim k = tn_at_dim(c, "k", 1);
  tn_dtype t = tn_b_dtype(c, x);
  if (c->st == TN_OK && rank == 0) {
    if (k != 1) return tn_at_unsup(c, "k of a 0-d tensor");
    tn_at_ret(c, 1, tn_b_int(c, 0, TN_I64));
    return tn_at_ret(c, 0, x);
  }
  if (t == TN_BOOL) x = tn_b_cast(c, x, TN_U8);
  tn_attr at[3] = {tn_mk_dims(c->g, "k", &k, 1), tn_mk_int("dim", d), tn_mk_bool("largest", tn_at_b(c, "largest", true))};
  tn_ref v = tn_b_op(c, TN_OP_TOPK, &x, 1, at, 3);
  if (c->st != TN_OK) return c->st;
  tn_at_ret(c, 1, (tn_ref){v.id + 1});
  return tn_at_ret(c, 0, v);
}
static tn_status pick(tn_decomp_ctx *c, tn_dim place, int d, bool keep) {   /* the place-th of the ascending order */
  tn_ref x = tn_at_t(c, "self"), r[2];
  sorted(c, x, d, false, r);
  for (uint32_t i = 0; i < 2 && c->st == TN_OK; i++) {
    if (tn_b_rank(c, r[i])) {
      r[i] = tn_b_slice(c, r[i], d, place, 1, 1);
      if (!keep) r[i] = tn_b_sq(c, r[i], d);
    }
    if (i < c->n_out) tn_at_ret(c, i, r[i]);
  }
  return c->st;
}
tn_status tn_d_kthvalue(tn_decomp_ctx *c) {
  int d = tn_at_axis(c, "dim", tn_b_rank(c, tn_at_t(c, "self")));
  return pick(c, tn_dim_sub(c->g->dims, tn_at_dim(c, "k", 1), 1), d, tn_at_b(c, "keepdim", false));
}

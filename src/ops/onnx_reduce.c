/* onnx_reduce: the Reduce* family in all its forms, softmaxes, and normalisations that are a reduction and a division.
 *
 * Axes: an attribute, from opset 18 (ReduceSum: 13) an operand. None, or an empty list, means all dims; with noop_with_empty_axes it means none, and what
 * the operator does to each element (square, absolute value, log) still happens. A reduction over nothing gives the identity. Axes that are only known
 * while running: every dim in turn is reduced, too, and the reduced form is taken where the axes say so; the dims of the result are symbols.
 *
 * f16 and bf16 are reduced in f32. Integers are reduced in their own type (sums wrap), mean divides by truncation. */
#include "ops/onnx_math_int.h"

/* ---- axes ---- */

typedef struct axes_of {
  int ax[TN_MAX_RANK], n;
  bool keep;
  /* axes that only a value tells */
  bool open;
  int count;                 /* how many; -1: not even that is known */
  tn_ref is[TN_MAX_RANK];    /* bool[]: dim i is reduced */
  tn_dim size[TN_MAX_RANK];  /* of dim i of the result that keeps its dims */
} axes_of;

static void open_axes(tn_ox *c, tn_ref x, tn_ref axes, axes_of *a) {
  tn_decomp_ctx *b = &c->b;
  tn_dim d[TN_MAX_RANK], one = 1;
  int rank = tn_b_shape(b, x, d);
  axes = mx_rank(c, axes) ? axes : tn_b_reshape(b, axes, &one, 1);
  if (!mx_ok(c)) return;
  if (mx_rank(c, axes) != 1) { tn_ox_bad(c, "axes of rank %d", mx_rank(c, axes)); return; }
  tn_dim n = tn_b_dim(b, axes, 0);
  tn_ref v = mx_cast(c, axes, TN_I64), none = mx_2(c, TN_OP_EQ, tn_b_dimval(b, n, TN_I64), tn_b_int(b, 0, TN_I64));
  bool all_if_none = !tn_ox_int(c, "noop_with_empty_axes", 0);
  for (int i = 0; i < rank; i++) {
    tn_ref hit = mx_2(c, TN_OP_OR, mx_2n(c, TN_OP_EQ, v, i), mx_2n(c, TN_OP_EQ, v, i - rank));
    a->is[i] = tn_b_reduce1(b, TN_C_ANY, hit, 0, false);
    if (!tn_dim_is_const(n) && all_if_none) a->is[i] = mx_2(c, TN_OP_OR, a->is[i], none);
    a->size[i] = 1;
  }
  a->open = true;
  a->n = rank;
  a->count = tn_dim_is_const(n) && n <= rank ? (int)n : -1;
  if (!a->keep && a->count < 0) { tn_ox_unsup(c, "axes whose number is not known, without keepdims"); return; }
  tn_ox_sizes_if(c, a->is, d, a->size, rank);
}

/* y, which keeps its dims, without those that are reduced: the others' sizes come to the front by a sort. */
static tn_ref drop_open(tn_ox *c, tn_ref x, tn_ref y, const axes_of *a) {
  tn_decomp_ctx *b = &c->b;
  tn_ref size[TN_MAX_RANK], mark[TN_MAX_RANK], sorted;
  tn_dim left[TN_MAX_RANK], one = 1;
  int rank = mx_rank(c, x), n = rank - a->count;
  if (!mx_ok(c)) return y;
  if (n <= 0) return tn_b_reshape(b, y, NULL, 0);
  for (int i = 0; i < rank; i++) {
    size[i] = tn_b_reshape(b, tn_b_dimval(b, tn_b_dim(b, x, i), TN_I64), &one, 1);
    mark[i] = tn_b_reshape(b, mx_cast(c, a->is[i], TN_I64), &one, 1);
  }
  tn_attr at[3] = {tn_mk_int("dim", 0), tn_mk_bool("descending", false), tn_mk_bool("stable", true)};
  tn_ref marks = tn_b_concat(b, mark, (uint32_t)rank, 0);
  sorted = tn_b_op(b, TN_OP_SORT, &marks, 1, at, 3);
  if (!mx_ok(c)) return y;
  sorted.id++;                                       /* result 1: where each came from */
  tn_ref sizes = tn_b_take(b, tn_b_concat(b, size, (uint32_t)rank, 0), tn_b_slice(b, sorted, 0, 0, n, 1), 0);
  if (!mx_ok(c) || tn_ox_sizes(c, sizes, left, n, 0) != n) return y;
  return tn_b_reshape(b, y, left, n);
}

static void read_axes(tn_ox *c, tn_ref x, int operand_from, axes_of *a) {
  int64_t v[TN_MAX_RANK];
  int rank = mx_rank(c, x);
  bool seen[TN_MAX_RANK] = {false};
  int n = -1;
  *a = (axes_of){.keep = tn_ox_int(c, "keepdims", 1) != 0};
  if (c->opset >= operand_from) {
    if (tn_ox_has(c, 1)) {
      n = tn_ox_consts(c, c->in[1], v, TN_MAX_RANK);
      if (n < 0 && mx_ok(c)) {
        const tn_type *t = tn_typeof(c->b.g, c->in[1]);
        if (t->rank != 1 || t->dim[0] != 0) { open_axes(c, x, tn_ox_in(c, 1), a); return; }
        n = 0;
      }
    }
  } else {
    n = tn_ox_ints_attr(c, "axes", v, TN_MAX_RANK);
  }
  if (!mx_ok(c)) return;
  if (n <= 0) {
    if (c->opset >= operand_from && tn_ox_int(c, "noop_with_empty_axes", 0)) return;
    for (int i = 0; i < rank; i++) a->ax[a->n++] = i;
    return;
  }
  for (int i = 0; i < n; i++) {
    int k = tn_ox_wrap(c, v[i], rank);
    if (!mx_ok(c)) return;
    seen[k] = true;
  }
  for (int i = 0; i < rank; i++)
    if (seen[i]) a->ax[a->n++] = i;
}

/* ---- the family ---- */

typedef enum rk { RK_SUM, RK_PROD, RK_MAX, RK_MIN, RK_MEAN, RK_L1, RK_L2, RK_SQUARE, RK_LOGSUM, RK_LOGSUMEXP } rk;

static tn_ref combine_kept(tn_ox *c, tn_combiner k, tn_ref x, const axes_of *a) {
  if (!a->open) return tn_b_reduce(&c->b, k, x, a->ax, a->n, true);
  for (int i = 0; i < a->n && mx_ok(c); i++) x = tn_ox_along_if(c, a->is[i], tn_b_reduce1(&c->b, k, x, i, true), x, i, a->size[i]);
  return x;
}
static tn_ref combine(tn_ox *c, tn_combiner k, tn_ref x, const axes_of *a) {
  if (!a->open) return tn_b_reduce(&c->b, k, x, a->ax, a->n, a->keep);
  tn_ref y = combine_kept(c, k, x, a);
  return a->keep ? y : drop_open(c, x, y, a);
}

static tn_ref mean(tn_ox *c, tn_ref x, const axes_of *a) {
  tn_dim count = 1;
  tn_dtype t = mx_dtype(c, x);
  tn_op div = tn_dtype_is_float(t) ? TN_OP_DIV : TN_OP_TRUNCDIV;
  tn_ref y = combine(c, TN_C_SUM, x, a);
  for (int i = 0; i < a->n && a->open; i++)
    y = mx_2(c, div, y, mx_sel(c, a->is[i], tn_b_dimval(&c->b, tn_b_dim(&c->b, x, i), t), tn_b_int(&c->b, 1, t)));
  if (a->open) return y;
  for (int i = 0; i < a->n; i++) count = tn_dim_mul(c->b.g->dims, count, tn_b_dim(&c->b, x, a->ax[i]));
  return mx_2(c, div, y, tn_b_dimval(&c->b, count, t));
}

/* log(sum(exp(x))), shifted by the largest element; rows of -inf, and rows that hold +inf, give themselves. */
static tn_ref log_sum_exp(tn_ox *c, tn_ref x, const axes_of *a) {
  if (a->n == 0) return x;
  for (int i = 0; i < a->n && !a->open; i++)
    if (tn_b_dim(&c->b, x, a->ax[i]) == 0) return mx_1(c, TN_OP_LOG, combine(c, TN_C_SUM, x, a));
  tn_ref m = combine_kept(c, TN_C_MAX, x, a);
  tn_ref odd = mx_1(c, TN_OP_ISINF, m), shift = mx_sel(c, odd, mx_num(c, x, 0), m), wide = shift;
  for (int i = 0; i < a->n && a->open && mx_ok(c); i++) {      /* back over the reduced dims */
    tn_ref k = tn_b_iota(&c->b, tn_b_dim(&c->b, x, i), TN_I64);
    wide = tn_b_take(&c->b, wide, mx_sel(c, a->is[i], tn_b_int(&c->b, 0, TN_I64), k), i);
  }
  tn_ref s = combine_kept(c, TN_C_SUM, mx_1(c, TN_OP_EXP, mx_sub(c, x, wide)), a);
  tn_ref y = mx_add(c, mx_1(c, TN_OP_LOG, s), shift);
  if (a->keep) return y;
  if (a->open) return drop_open(c, x, y, a);
  for (int i = a->n - 1; i >= 0; i--) y = tn_b_sq(&c->b, y, a->ax[i]);
  return y;
}

static tn_status reduce(tn_ox *c, rk k) {
  tn_ref x = tn_ox_in(c, 0);
  axes_of a;
  if (!mx_ok(c)) return c->b.st;
  read_axes(c, x, k == RK_SUM ? 13 : 18, &a);
  if (!mx_ok(c)) return c->b.st;
  tn_dtype t = mx_dtype(c, x);
  tn_ref y;
  if (k == RK_MAX || k == RK_MIN) {                  /* bools too, from opset 20 on: or, and */
    tn_combiner m = t == TN_BOOL ? (k == RK_MAX ? TN_C_ANY : TN_C_ALL) : k == RK_MAX ? TN_C_MAX : TN_C_MIN;
    return tn_ox_ret(c, 0, combine(c, m, x, &a));
  }
  bool wants_float = k == RK_L2 || k == RK_LOGSUM || k == RK_LOGSUMEXP;
  tn_ref w = tn_dtype_is_float(t) || !wants_float ? tn_b_up(&c->b, x) : mx_cast(c, x, TN_F64);
  switch (k) {
  case RK_SUM: y = combine(c, TN_C_SUM, w, &a); break;
  case RK_PROD: y = combine(c, TN_C_PROD, w, &a); break;
  case RK_MEAN: y = mean(c, w, &a); break;
  case RK_L1: y = combine(c, TN_C_SUM, mx_1(c, TN_OP_ABS, w), &a); break;
  case RK_L2: y = mx_1(c, TN_OP_SQRT, combine(c, TN_C_SUM, mx_mul(c, w, w), &a)); break;
  case RK_SQUARE: y = combine(c, TN_C_SUM, mx_mul(c, w, w), &a); break;
  case RK_LOGSUM: y = mx_1(c, TN_OP_LOG, combine(c, TN_C_SUM, w, &a)); break;
  default: y = log_sum_exp(c, w, &a); break;
  }
  return mx_ret_as(c, 0, y, t);
}
#define REDUCE(fn, k) tn_status tn_ox_##fn(tn_ox *c) { return reduce(c, k); }
REDUCE(reduce_sum, RK_SUM) REDUCE(reduce_prod, RK_PROD) REDUCE(reduce_max, RK_MAX) REDUCE(reduce_min, RK_MIN) REDUCE(reduce_mean, RK_MEAN)
REDUCE(reduce_l1, RK_L1) REDUCE(reduce_l2, RK_L2) REDUCE(reduce_sum_square, RK_SQUARE) REDUCE(reduce_log_sum, RK_LOGSUM)
REDUCE(reduce_log_sum_exp, RK_LOGSUMEXP)

/* ---- softmaxes ---- */

/* Before opset 13 the operand counts as a matrix: dims before axis are rows, the others are one row together. The same happens over several axes at
 * once. Returns the number of axes the sums run over. */
static int row_axes(tn_ox *c, tn_ref x, int *ax) {
  int rank = mx_rank(c, x), axis, n = 0;
  if (rank == 0) return 0;
  if (c->opset >= 13) { ax[0] = tn_ox_axis(c, "axis", -1, rank); return 1; }
  int64_t v = tn_ox_int(c, "axis", 1);
  if (v == rank) return 0;                           /* rows of one element */
  axis = tn_ox_wrap(c, v, rank);
  for (int i = axis; i < rank; i++) ax[n++] = i;
  return n;
}
tn_ref tn_ox_log_softmax_of(tn_ox *c, tn_ref x, const int *ax, int n) {
  tn_ref d = mx_sub(c, x, tn_b_reduce(&c->b, TN_C_MAX, x, ax, n, true));
  return mx_sub(c, d, mx_1(c, TN_OP_LOG, tn_b_reduce(&c->b, TN_C_SUM, mx_1(c, TN_OP_EXP, d), ax, n, true)));
}
tn_status tn_ox_softmax(tn_ox *c) {
  tn_ref x = tn_b_up(&c->b, tn_ox_in(c, 0));
  int ax[TN_MAX_RANK];
  if (!mx_ok(c)) return c->b.st;
  int n = row_axes(c, x, ax);
  if (!mx_ok(c)) return c->b.st;
  tn_ref e = mx_1(c, TN_OP_EXP, mx_sub(c, x, tn_b_reduce(&c->b, TN_C_MAX, x, ax, n, true)));
  return mx_ret_as(c, 0, mx_div(c, e, tn_b_reduce(&c->b, TN_C_SUM, e, ax, n, true)), mx_dtype(c, c->in[0]));
}
tn_status tn_ox_log_softmax(tn_ox *c) {
  tn_ref x = tn_b_up(&c->b, tn_ox_in(c, 0));
  int ax[TN_MAX_RANK];
  if (!mx_ok(c)) return c->b.st;
  int n = row_axes(c, x, ax);
  if (!mx_ok(c)) return c->b.st;
  return mx_ret_as(c, 0, tn_ox_log_softmax_of(c, x, ax, n), mx_dtype(c, c->in[0]));
}

/* 1 where the first largest element of the row stands. */
tn_status tn_ox_hardmax(tn_ox *c) {
  tn_ref x = tn_ox_in(c, 0);
  int ax[TN_MAX_RANK];
  tn_dim shape[TN_MAX_RANK], flat[TN_MAX_RANK];
  if (!mx_ok(c)) return c->b.st;
  int rank = tn_b_shape(&c->b, x, shape), n = row_axes(c, x, ax);
  if (!mx_ok(c)) return c->b.st;
  tn_dtype t = mx_dtype(c, x);
  if (n == 0) return tn_ox_ret(c, 0, mx_add(c, mx_sub(c, x, x), mx_num(c, x, 1)));
  int axis = ax[0];
  if (n > 1) {                                       /* old form: the row as one dim */
    for (int i = 0; i < axis; i++) flat[i] = shape[i];
    flat[axis] = tn_b_numel(&c->b, shape + axis, n);
    x = tn_b_reshape(&c->b, x, flat, axis + 1);
  }
  if (tn_b_dim(&c->b, x, axis) == 0) return tn_ox_ret(c, 0, c->in[0]);
  tn_ref at = tn_b_reduce1(&c->b, TN_C_ARGMAX, tn_b_up(&c->b, x), axis, true);
  tn_ref k = tn_b_along(&c->b, tn_b_iota(&c->b, tn_b_dim(&c->b, x, axis), TN_I64), axis, mx_rank(c, x));
  tn_ref y = mx_cast(c, mx_2(c, TN_OP_EQ, k, at), t);
  return tn_ox_ret(c, 0, n > 1 ? tn_b_reshape(&c->b, y, shape, rank) : y);
}

/* ---- normalisations ---- */

tn_status tn_ox_mean_variance_normalization(tn_ox *c) {
  tn_ref x = tn_b_up(&c->b, tn_ox_in(c, 0));
  int64_t v[TN_MAX_RANK] = {0, 2, 3};
  axes_of a = {.keep = true};
  if (!mx_ok(c)) return c->b.st;
  int rank = mx_rank(c, x), n = tn_ox_ints_attr(c, "axes", v, TN_MAX_RANK);
  if (n < 0) n = 3;
  for (int i = 0; i < n && mx_ok(c); i++) a.ax[a.n++] = tn_ox_wrap(c, v[i], rank);
  if (!mx_ok(c)) return c->b.st;
  tn_ref d = mx_sub(c, x, mean(c, x, &a)), var = mean(c, mx_mul(c, d, d), &a);
  return mx_ret_as(c, 0, mx_div(c, d, tn_b_addn(&c->b, mx_1(c, TN_OP_SQRT, var), 1e-9)), mx_dtype(c, c->in[0]));
}

tn_status tn_ox_lp_normalization(tn_ox *c) {         /* a row of zeros stays zeros */
  tn_ref x = tn_b_up(&c->b, tn_ox_in(c, 0));
  int64_t p = tn_ox_int(c, "p", 2);
  if (!mx_ok(c)) return c->b.st;
  axes_of a = {.n = 1, .keep = true};
  a.ax[0] = tn_ox_axis(c, "axis", -1, mx_rank(c, x));
  if (!mx_ok(c)) return c->b.st;
  if (p != 1 && p != 2) return tn_ox_bad(c, "p is %lld, wants 1 or 2", (long long)p);
  tn_ref s = combine(c, TN_C_SUM, p == 1 ? mx_1(c, TN_OP_ABS, x) : mx_mul(c, x, x), &a);
  if (p == 2) s = mx_1(c, TN_OP_SQRT, s);
  tn_ref none = mx_2n(c, TN_OP_EQ, s, 0);
  return mx_ret_as(c, 0, mx_sel(c, none, mx_num(c, x, 0), mx_div(c, x, s)), mx_dtype(c, c->in[0]));
}

/* ---- ArgMax, ArgMin: the first winner, or the last one by looking from the other end ---- */
static tn_status arg(tn_ox *c, tn_combiner k) {
  tn_ref x = tn_b_up(&c->b, tn_ox_in(c, 0));
  bool keep = tn_ox_int(c, "keepdims", 1) != 0, last = tn_ox_int(c, "select_last_index", 0) != 0;
  if (!mx_ok(c)) return c->b.st;
  int axis = tn_ox_axis(c, "axis", 0, mx_rank(c, x));
  if (!mx_ok(c)) return c->b.st;
  tn_dim n = tn_b_dim(&c->b, x, axis), at_dim = axis;
  tn_attr at = tn_mk_dims(c->b.g, "dims", &at_dim, 1);
  if (last) x = tn_b_op(&c->b, TN_OP_FLIP, &x, 1, &at, 1);
  tn_ref y = tn_b_reduce1(&c->b, k, x, axis, keep);
  if (last) y = mx_sub(c, tn_b_dimval(&c->b, tn_dim_sub(c->b.g->dims, n, 1), TN_I64), y);
  return tn_ox_ret(c, 0, y);
}
tn_status tn_ox_argmax(tn_ox *c) { return arg(c, TN_C_ARGMAX); }
tn_status tn_ox_argmin(tn_ox *c) { return arg(c, TN_C_ARGMIN); }

/* aten_build: the builders behind aten_int.h. Each adds one prim through tn_ops_add, or nothing when the prim would change nothing
 * (a cast to the same dtype, a reshape to the same dims), so decompositions need not look first. Failures stick in c->st. */
#include "aten_int.h"

int tn_b_shape(const tn_decomp_ctx *c, tn_ref a, tn_dim *out) {
  const tn_type *t = tn_typeof(c->g, a);
  for (int i = 0; i < t->rank; i++) out[i] = t->dim[i];
  return t->rank;
}

tn_dim tn_b_numel(const tn_decomp_ctx *c, const tn_dim *d, int n) {
  tn_dim p = 1;
  for (int i = 0; i < n; i++) p = tn_dim_mul(c->g->dims, p, d[i]);
  return p;
}

bool tn_b_agree(tn_dim a, tn_dim b, tn_dim *out) {
  if (a == b || a == 1 || b == 1 || (tn_dim_is_const(a) && tn_dim_is_const(b))) return false;
  *out = tn_dim_is_const(b) ? b : a;
  return true;
}

/* Outside of torch there are no guards: what is taken for granted is written down. False: can't be equal. */
static bool granted(tn_decomp_ctx *c, tn_dim a, tn_dim b) {
  if (!tn_dims_collecting(c->g->dims)) return true;
  tn_status s = tn_dims_assume(c->g->dims, a, b, NULL);
  if (s == TN_E_NOMEM && c->st == TN_OK) c->st = tn_fail(c->d, s, "sizes assumed equal");
  return s == TN_OK;
}

/* Broadcasting operands: dims that meet and must be equal get one spelling, "floordiv(s0, 2)**2" becomes the 16 it stands against. */
static void agree(tn_decomp_ctx *c, tn_ref *in, uint32_t n) {
  tn_dim want[TN_MAX_RANK];
  int rank = 0;
  bool differ = false;
  for (int i = 0; i < TN_MAX_RANK; i++) want[i] = 1;
  for (uint32_t k = 0; k < n; k++) {                   /* want[i]: i-th from the right */
    const tn_type *t = tn_typeof(c->g, in[k]);
    if (t->rank > rank) rank = t->rank;
    for (int i = 0; i < t->rank; i++) {
      tn_dim d = t->dim[t->rank - 1 - i], both;
      if (want[i] == 1) want[i] = d;
      else if (tn_b_agree(want[i], d, &both) && granted(c, want[i], d)) { want[i] = both; differ = true; }
    }
  }
  for (uint32_t k = 0; differ && k < n; k++) {
    tn_dim d[TN_MAX_RANK];
    int r = tn_b_shape(c, in[k], d);
    for (int i = 0; i < r; i++)
      if (d[i] != 1) d[i] = want[r - 1 - i];
    in[k] = tn_b_reshape(c, in[k], d, r);
  }
}

static tn_ref eltwise(tn_decomp_ctx *c, tn_op op, tn_ref *in, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (!in[i].id) return tn_b_op(c, op, in, n, NULL, 0);
  agree(c, in, n);
  return tn_b_op(c, op, in, n, NULL, 0);
}

tn_ref tn_b_op(tn_decomp_ctx *c, tn_op op, const tn_ref *in, uint32_t n_in, const tn_attr *attr, uint32_t n_attr) {
  tn_ref r = {0};
  if (c->st != TN_OK) return r;
  for (uint32_t i = 0; i < n_in; i++)
    if (!in[i].id) {
      c->st = tn_fail(c->d, TN_E_INTERNAL, "decomposition hands %s an operand that is not there", tn_op_name(op));
      return r;
    }
  c->st = tn_ops_add(c->d, c->g, op, in, n_in, attr, n_attr, c->prov, &r);
  if (c->st != TN_OK) r.id = 0;
  return r;
}

tn_ref tn_b_1(tn_decomp_ctx *c, tn_op op, tn_ref a) { return tn_b_op(c, op, &a, 1, NULL, 0); }

tn_ref tn_b_2(tn_decomp_ctx *c, tn_op op, tn_ref a, tn_ref b) {
  tn_ref in[2] = {a, b};
  return eltwise(c, op, in, 2);
}

tn_ref tn_b_sel(tn_decomp_ctx *c, tn_ref cond, tn_ref a, tn_ref b) {
  tn_ref in[3] = {cond, a, b};
  return eltwise(c, TN_OP_SELECT, in, 3);
}

tn_ref tn_b_cast(tn_decomp_ctx *c, tn_ref a, tn_dtype t) {
  if (c->st != TN_OK || tn_b_dtype(c, a) == t) return a;
  tn_attr at = tn_mk_dtype("dtype", t);
  return tn_b_op(c, TN_OP_CAST, &a, 1, &at, 1);
}

tn_ref tn_b_up(tn_decomp_ctx *c, tn_ref a) { return tn_b_cast(c, a, tn_b_wide(tn_b_dtype(c, a))); }

tn_ref tn_b_bool(tn_decomp_ctx *c, tn_ref a) {
  if (c->st != TN_OK || tn_b_dtype(c, a) == TN_BOOL) return a;
  return tn_b_2(c, TN_OP_NE, a, tn_b_num(c, 0, tn_b_dtype(c, a)));
}

tn_ref tn_b_divisor(tn_decomp_ctx *c, tn_ref a) {
  if (c->st != TN_OK || !tn_dtype_is_int(tn_b_dtype(c, a))) return a;
  const tn_node *n = &c->g->node[c->g->value[a.id].node];
  const tn_attr_val *v = n->op == TN_OP_FULL ? tn_attr_get(n, "value") : NULL;
  tn_dtype t = tn_b_dtype(c, a);
  if (v && v->kind == TN_AT_INT && tn_num_cast((tn_num){.i = v->u.i}, TN_I64, t).i != 0) return a;
  if (n->op == TN_OP_CONST && n->data && n->data->p) {
    bool zero = false;
    for (size_t at = 0, size = tn_dtype_size(t); at + size <= n->data->bytes && !zero; at += size) zero = tn_num_load(t, (const char *)n->data->p + at).i == 0;
    if (!zero) return a;
  }
  return tn_b_1(c, TN_OP_DIVISOR, a);
}

/* ---- scalars and fills ---- */

/* The number as an attribute of dtype t: kinds follow the dtype so that printed graphs read alike. */
static tn_attr value_attr(const char *name, const tn_attr_val *v, tn_dtype t) {
  tn_attr a = {name, *v};
  bool number = v->kind == TN_AT_INT || v->kind == TN_AT_FLOAT || v->kind == TN_AT_BOOL;
  if (!number) return a;
  double f = v->kind == TN_AT_INT ? (double)v->u.i : v->kind == TN_AT_BOOL ? (double)v->u.b : v->u.f;
  if (tn_dtype_is_float(t)) return tn_mk_float(name, f);
  if (t == TN_BOOL) return tn_mk_bool(name, v->kind == TN_AT_INT ? v->u.i != 0 : f != 0);
  if (v->kind == TN_AT_INT) return tn_mk_int(name, v->u.i);
  tn_num n = {.f = f};
  return tn_mk_int(name, tn_num_cast(n, TN_F64, t == TN_U64 && f > 0 ? TN_U64 : TN_I64).i);
}

tn_ref tn_b_full(tn_decomp_ctx *c, const tn_dim *shape, int n, const tn_attr_val *v, tn_dtype t) {
  tn_ref none = {0};
  if (c->st != TN_OK) return none;
  if (v->kind == TN_AT_DIM && t == TN_BOOL) { tn_at_unsup(c, "a symbolic fill value as bool"); return none; }
  tn_attr at[3] = {tn_mk_dims(c->g, "shape", shape, (uint32_t)n), value_attr("value", v, t), tn_mk_dtype("dtype", t)};
  return tn_b_op(c, TN_OP_FULL, NULL, 0, at, 3);
}

tn_ref tn_b_zeros(tn_decomp_ctx *c, const tn_dim *shape, int n, tn_dtype t) {
  tn_attr_val v = {.kind = TN_AT_INT};
  return tn_b_full(c, shape, n, &v, t);
}

tn_ref tn_b_val(tn_decomp_ctx *c, const tn_attr_val *v, tn_dtype t) { return tn_b_full(c, NULL, 0, v, t); }

tn_ref tn_b_num(tn_decomp_ctx *c, double x, tn_dtype t) {
  tn_attr_val v = {.kind = TN_AT_FLOAT};
  v.u.f = x;
  return tn_b_val(c, &v, t);
}

tn_ref tn_b_int(tn_decomp_ctx *c, int64_t x, tn_dtype t) {
  tn_attr_val v = {.kind = TN_AT_INT};
  v.u.i = x;
  return tn_b_val(c, &v, t);
}

tn_ref tn_b_dimval(tn_decomp_ctx *c, tn_dim d, tn_dtype t) {
  int64_t k;
  if (d == TN_DIM_BAD) { tn_at_unsup(c, "a size has no expression here"); return (tn_ref){0}; }
  if ( tn_dim_as_int(c->g->dims, d, &k)) return tn_b_int(c, k, t);
  tn_attr_val v = {.kind = TN_AT_DIM};
  v.u.d = d;
  return tn_b_val(c, &v, t);
}

tn_ref tn_b_iota(tn_decomp_ctx *c, tn_dim size, tn_dtype t) {
  if (c->st != TN_OK) return (tn_ref){0};
  tn_attr at[4] = {tn_mk_dims(c->g, "size", &size, 1), tn_mk_int("start", 0), tn_mk_int("step", 1), tn_mk_dtype("dtype", t)};
  return tn_b_op(c, TN_OP_IOTA, NULL, 0, at, 4);
}

tn_ref tn_b_addn(tn_decomp_ctx *c, tn_ref a, double v) { return tn_b_2(c, TN_OP_ADD, a, tn_b_num(c, v, tn_b_dtype(c, a))); }
tn_ref tn_b_muln(tn_decomp_ctx *c, tn_ref a, double v) { return tn_b_2(c, TN_OP_MUL, a, tn_b_num(c, v, tn_b_dtype(c, a))); }

/* ---- layout ---- */

static bool dims_ok(tn_decomp_ctx *c, const tn_dim *d, int n) {
  if (n > TN_MAX_RANK) { tn_at_unsup(c, "rank %d is over the limit of %d", n, TN_MAX_RANK); return false; }
  for (int i = 0; i < n; i++)
    if (d[i] == TN_DIM_BAD) { tn_at_unsup(c, "dim %d has no expression here", i); return false; }
  return true;
}

static bool same_dims(const tn_decomp_ctx *c, tn_ref a, const tn_dim *shape, int n) {
  const tn_type *t = tn_typeof(c->g, a);
  if (t->rank != n) return false;
  for (int i = 0; i < n; i++)
    if (t->dim[i] != shape[i]) return false;
  return true;
}

static tn_ref shaped(tn_decomp_ctx *c, tn_op op, tn_ref a, const tn_dim *shape, int n) {
  if (c->st != TN_OK || !dims_ok(c, shape, n) || same_dims(c, a, shape, n)) return a;
  tn_attr at = tn_mk_dims(c->g, "shape", shape, (uint32_t)n);
  return tn_b_op(c, op, &a, 1, &at, 1);
}

tn_ref tn_b_reshape(tn_decomp_ctx *c, tn_ref a, const tn_dim *shape, int n) { return shaped(c, TN_OP_RESHAPE, a, shape, n); }
tn_ref tn_b_broadcast(tn_decomp_ctx *c, tn_ref a, const tn_dim *shape, int n) {
  tn_dim d[TN_MAX_RANK], same;
  int r = tn_b_shape(c, a, d);
  for (int i = 0; i < r && r <= n; i++)
    if (tn_b_agree(d[i], shape[n - r + i], &same) && granted(c, d[i], shape[n - r + i])) d[i] = shape[n - r + i];
  return shaped(c, TN_OP_BROADCAST, tn_b_reshape(c, a, d, r), shape, n);
}

tn_ref tn_b_unsq(tn_decomp_ctx *c, tn_ref a, int at) {
  tn_dim d[TN_MAX_RANK + 1];
  int n = tn_b_shape(c, a, d);
  if (c->st != TN_OK) return a;
  for (int i = n; i > at; i--) d[i] = d[i - 1];
  d[at] = 1;
  return tn_b_reshape(c, a, d, n + 1);
}

tn_ref tn_b_sq(tn_decomp_ctx *c, tn_ref a, int at) {
  tn_dim d[TN_MAX_RANK + 1];
  int n = tn_b_shape(c, a, d);
  if (c->st != TN_OK || at >= n) return a;
  for (int i = at; i + 1 < n; i++) d[i] = d[i + 1];
  return tn_b_reshape(c, a, d, n - 1);
}

tn_ref tn_b_permute(tn_decomp_ctx *c, tn_ref a, const int *perm) {
  int n = tn_b_rank(c, a);
  bool moves = false;
  tn_dim p[TN_MAX_RANK];
  for (int i = 0; i < n; i++) { p[i] = perm[i]; moves |= perm[i] != i; }
  if (c->st != TN_OK || !moves) return a;
  tn_attr at = tn_mk_dims(c->g, "perm", p, (uint32_t)n);
  return tn_b_op(c, TN_OP_PERMUTE, &a, 1, &at, 1);
}

tn_ref tn_b_swap(tn_decomp_ctx *c, tn_ref a, int x, int y) {
  int p[TN_MAX_RANK];
  for (int i = 0; i < TN_MAX_RANK; i++) p[i] = i;
  p[x] = y; p[y] = x;
  return tn_b_permute(c, a, p);
}

tn_ref tn_b_slice(tn_decomp_ctx *c, tn_ref a, int dim, tn_dim start, tn_dim size, int64_t step) {
  if (c->st != TN_OK || (start == 0 && size == tn_b_dim(c, a, dim) && step == 1)) return a;
  if (!dims_ok(c, &start, 1) || !dims_ok(c, &size, 1)) return a;
  tn_attr at[4] = {tn_mk_int("dim", dim), tn_mk_dims(c->g, "start", &start, 1), tn_mk_dims(c->g, "size", &size, 1), tn_mk_int("step", step)};
  return tn_b_op(c, TN_OP_SLICE, &a, 1, at, 4);
}

tn_ref tn_b_pad(tn_decomp_ctx *c, tn_ref a, const tn_dim *lo, const tn_dim *hi, const tn_attr_val *v) {
  int n = tn_b_rank(c, a);
  bool any = false;
  for (int i = 0; i < n; i++) any |= lo[i] != 0 || hi[i] != 0;
  if (c->st != TN_OK || !any || !dims_ok(c, lo, n) || !dims_ok(c, hi, n)) return a;
  tn_attr at[3] = {tn_mk_dims(c->g, "lo", lo, (uint32_t)n), tn_mk_dims(c->g, "hi", hi, (uint32_t)n), value_attr("value", v, tn_b_dtype(c, a))};
  return tn_b_op(c, TN_OP_PAD, &a, 1, at, 3);
}

/* Operand k of in[n] with the dims of operand 0 outside `dim` where the two are only spelled differently. */
static tn_ref like_first(tn_decomp_ctx *c, const tn_ref *in, uint32_t k, int dim) {
  tn_dim d[TN_MAX_RANK], first[TN_MAX_RANK];
  if (c->st != TN_OK || !in[0].id || !in[k].id) return in[k];
  int r = tn_b_shape(c, in[k], d);
  if (tn_b_shape(c, in[0], first) != r) return in[k];
  for (int i = 0; i < r; i++)
    if (i != dim && first[i] != d[i] && !(tn_dim_is_const(first[i]) && tn_dim_is_const(d[i])) && granted(c, first[i], d[i])) d[i] = first[i]; /* also a 1 */
  return tn_b_reshape(c, in[k], d, r);
}

tn_ref tn_b_concat(tn_decomp_ctx *c, const tn_ref *in, uint32_t n, int dim) {
  if (n == 1) return in[0];
  tn_attr at = tn_mk_int("dim", dim);
  if (tn_dims_collecting(c->g->dims)) {
    tn_ref *all = TN_NEW(c->g->arena, tn_ref, n);
    if (!all) {
      if (c->st == TN_OK) c->st = tn_fail(c->d, TN_E_NOMEM, "concat of %u", n);
      return (tn_ref){0};
    }
    for (uint32_t k = 0; k < n; k++) all[k] = like_first(c, in, k, dim);
    in = all;
  }
  return tn_b_op(c, TN_OP_CONCAT, in, n, &at, 1);
}

tn_ref tn_b_along(tn_decomp_ctx *c, tn_ref v, int dim, int rank) {
  tn_dim d[TN_MAX_RANK];
  if (c->st != TN_OK) return v;
  if (rank > TN_MAX_RANK) { tn_at_unsup(c, "rank %d is over the limit of %d", rank, TN_MAX_RANK); return v; }
  for (int i = 0; i < rank; i++) d[i] = 1;
  d[dim] = tn_b_dim(c, v, 0);
  return tn_b_reshape(c, v, d, rank);
}

/* ---- reductions, products, indices ---- */

tn_ref tn_b_reduce(tn_decomp_ctx *c, tn_combiner k, tn_ref a, const int *axes, int n, bool keepdim) {
  if (c->st != TN_OK || n == 0) return a;
  tn_dim d[TN_MAX_RANK];
  for (int i = 0; i < n; i++) d[i] = axes[i];
  tn_attr at[3] = {tn_mk_str("combiner", tn_combiner_name(k)), tn_mk_dims(c->g, "dims", d, (uint32_t)n), tn_mk_bool("keepdim", keepdim)};
  return tn_b_op(c, TN_OP_REDUCE, &a, 1, at, 3);
}

tn_ref tn_b_reduce1(tn_decomp_ctx *c, tn_combiner k, tn_ref a, int axis, bool keepdim) {
  return tn_b_reduce(c, k, a, &axis, tn_b_rank(c, a) ? 1 : 0, keepdim);
}

tn_ref tn_b_mean(tn_decomp_ctx *c, tn_ref a, const int *axes, int n, bool keepdim) {
  tn_dim count = 1;
  for (int i = 0; i < n; i++) count = tn_dim_mul(c->g->dims, count, tn_b_dim(c, a, axes[i]));
  return tn_b_2(c, TN_OP_DIV, tn_b_reduce(c, TN_C_SUM, a, axes, n, keepdim), tn_b_dimval(c, count, tn_b_dtype(c, a)));
}

tn_ref tn_b_scan(tn_decomp_ctx *c, tn_combiner k, tn_ref a, int dim) {
  if (c->st != TN_OK || tn_b_rank(c, a) == 0) return a;
  tn_attr at[2] = {tn_mk_str("combiner", tn_combiner_name(k)), tn_mk_int("dim", dim)};
  return tn_b_op(c, TN_OP_SCAN, &a, 1, at, 2);
}

/* b with the dims of a where both have one label and the dims are only spelled differently. */
static tn_ref like_labels(tn_decomp_ctx *c, const char *labels, tn_ref a, tn_ref b) {
  const char *lb = strchr(labels, ',');
  tn_dim d[TN_MAX_RANK], same;
  if (c->st != TN_OK || !lb || !a.id || !b.id) return b;
  int n = tn_b_shape(c, b, d), ra = tn_b_rank(c, a);
  for (int i = 0; i < n && lb[1 + i] && lb[1 + i] != '-'; i++)
    for (int k = 0; k < ra && labels + k < lb; k++)
      if (labels[k] == lb[1 + i] && tn_b_agree(tn_b_dim(c, a, k), d[i], &same) && granted(c, tn_b_dim(c, a, k), d[i])) d[i] = tn_b_dim(c, a, k);
  return tn_b_reshape(c, b, d, n);
}

tn_ref tn_b_contract(tn_decomp_ctx *c, const char *labels, tn_ref a, tn_ref b) {
  if (tn_dims_collecting(c->g->dims)) b = like_labels(c, labels, a, b);
  tn_ref in[2] = {a, b};
  tn_attr at = tn_mk_str("labels", labels);
  return tn_b_op(c, TN_OP_CONTRACT, in, 2, &at, 1);
}

tn_ref tn_b_take(tn_decomp_ctx *c, tn_ref x, tn_ref idx, int dim) {
  tn_ref in[2] = {x, idx};
  tn_attr at = tn_mk_int("dim", dim);
  return tn_b_op(c, TN_OP_TAKE, in, 2, &at, 1);
}

tn_ref tn_b_untake(tn_decomp_ctx *c, tn_ref g, tn_ref idx, int dim, tn_dim size) {
  tn_dim d[TN_MAX_RANK], z[TN_MAX_RANK];
  int n = tn_b_shape(c, g, d);
  for (int i = 0; i < n; i++) z[i] = i == dim ? size : d[i];
  tn_ref in[3] = {tn_b_zeros(c, z, n, tn_b_dtype(c, g)), tn_b_broadcast(c, tn_b_along(c, idx, dim, n), d, n), g};
  tn_attr at[2] = {tn_mk_int("dim", dim), tn_mk_str("combiner", "sum")};
  return tn_b_op(c, TN_OP_SCATTER, in, 3, at, 2);
}

tn_ref tn_b_window(tn_decomp_ctx *c, tn_combiner k, tn_ref x, int n, const int64_t *kernel, const int64_t *stride, const int64_t *pad_lo,
                   const int64_t *pad_hi, const int64_t *dilation, const tn_dim *size) {
  tn_dim pad[2 * TN_MAX_RANK];
  if (c->st != TN_OK || !dims_ok(c, size, n)) return x;
  for (int i = 0; i < n; i++) { pad[2 * i] = pad_lo[i]; pad[2 * i + 1] = pad_hi[i]; }
  tn_attr at[6] = {tn_mk_str("combiner", tn_combiner_name(k)), tn_mk_dims(c->g, "kernel", kernel, (uint32_t)n),
                   tn_mk_dims(c->g, "stride", stride, (uint32_t)n), tn_mk_dims(c->g, "padding", pad, 2 * (uint32_t)n),
                   tn_mk_dims(c->g, "dilation", dilation, (uint32_t)n), tn_mk_dims(c->g, "size", size, (uint32_t)n)};
  return tn_b_op(c, TN_OP_WINDOW, &x, 1, at, 6);
}

tn_ref tn_b_softmax(tn_decomp_ctx *c, tn_ref x, int axis, bool safe) {
  if (tn_b_rank(c, x) == 0) return tn_b_2(c, TN_OP_DIV, x, x);
  tn_ref m = tn_b_reduce1(c, TN_C_MAX, x, axis, true), dead = {0};
  if (safe) {                        /* a row that is -inf everywhere: shift by 0, and make its sum 1 */
    dead = tn_b_2(c, TN_OP_EQ, m, tn_b_num(c, -INFINITY, tn_b_dtype(c, x)));
    m = tn_b_sel(c, dead, tn_b_num(c, 0, tn_b_dtype(c, x)), m);
  }
  tn_ref e = tn_b_1(c, TN_OP_EXP, tn_b_2(c, TN_OP_SUB, x, m));
  tn_ref s = tn_b_reduce1(c, TN_C_SUM, e, axis, true);
  if (safe) s = tn_b_sel(c, dead, tn_b_num(c, 1, tn_b_dtype(c, x)), s);
  return tn_b_2(c, TN_OP_DIV, e, s);
}

/* onnx_shape: operators about sizes: they read them, make tensors from them, or change a shape and move nothing.
 *
 * A shape operand is asked for its known elements (tn_ox_items); what is not known becomes a fresh symbol by tn_ox_sizes. Where the meaning of an element
 * depends on its value (-1 and 0 of Reshape), the meaning is computed by prims on the small tensor first. */
#include "onnx_int.h"

tn_status tn_ox_identity(tn_ox *c) {
  if (!tn_ox_has(c, 0)) return tn_ox_bad(c, "operand 0 is missing");
  return tn_ox_ret(c, 0, c->in[0]);
}

tn_status tn_ox_constant(tn_ox *c) {
  tn_ox_const k = {0};
  tn_ref r;
  int64_t dim[1];
  const tn_ox_attr *a = c->n_attr ? &c->attr[0] : NULL;
  if (!a || c->n_attr != 1) return tn_ox_bad(c, "wants one attribute, has %u", c->n_attr);
  dim[0] = a->n;
  k = (tn_ox_const){.dim = dim, .rank = a->kind == TN_OX_INTS || a->kind == TN_OX_FLOATS || a->kind == TN_OX_STRS};
  switch (a->kind) {
  case TN_OX_TENSOR: k = a->u.t[0]; break;
  case TN_OX_FLOAT: case TN_OX_FLOATS: k.elem = 1; k.data = a->n ? a->u.f : NULL; k.bytes = a->n * sizeof *a->u.f; break;
  case TN_OX_INT: case TN_OX_INTS: k.elem = 7; k.data = a->n ? a->u.i : NULL; k.bytes = a->n * sizeof *a->u.i; break;
  case TN_OX_STR: case TN_OX_STRS: k.elem = 8; k.str = a->u.s; break;
  default: return tn_ox_bad(c, "attribute %.60s is of no kind that makes a constant", a->name);
  }
  if (tn_ox_add_const(c->e, c->b.d, &k, c->b.prov, &r) != TN_OK) return c->b.st = c->b.d ? c->b.d->code : TN_E_NOMEM;
  return tn_ox_ret(c, 0, r);
}

tn_status tn_ox_constant_of_shape(tn_ox *c) {
  tn_dim d[TN_MAX_RANK];
  const tn_ox_attr *a = tn_ox_attr_get(c, "value");
  tn_attr_val v = {.kind = TN_AT_FLOAT};
  tn_dtype t = TN_F32;
  int elem = 1, n = tn_ox_sizes(c, tn_ox_in(c, 0), d, TN_MAX_RANK, 0);
  if (c->b.st != TN_OK) return c->b.st;
  if (a) {
    const tn_ox_const *k = a->kind == TN_OX_TENSOR ? &a->u.t[0] : NULL;
    if (!k || k->elem == 8 || tn_ox_dtype_of(k->elem) < 0 || k->bytes != tn_dtype_size((tn_dtype)tn_ox_dtype_of(k->elem))) return tn_ox_unsup(c, "a value that is no tensor of one number");
    elem = k->elem;
    t = (tn_dtype)tn_ox_dtype_of(elem);
    tn_num x = tn_num_load(t, k->data);
    if (tn_dtype_is_float(t)) v.u.f = x.f;
    else v = (tn_attr_val){.kind = TN_AT_INT, .u.i = x.i};
  }
  tn_ref r = tn_b_full(&c->b, d, n, &v, t);
  if (c->b.st == TN_OK && tn_ox_elem_of(t) != elem) tn_ox_set_elem(c, r, elem);
  return tn_ox_ret(c, 0, r);
}

/* ---- sizes as values ---- */
/* Dims of operand k, also of a constant of strings. */
static int operand_dims(tn_ox *c, uint32_t k, tn_dim *d) {
  if (tn_ox_has(c, k) && tn_typeof(c->b.g, c->in[k])->dtype == TN_OBJ) {
    tn_ox_obj o = tn_ox_obj_of(c->e, c->in[k]);
    bool known = o.kind == TN_OX_K_TENSOR && o.rank >= 0;
    for (int i = 0; known && i < o.rank; i++) known = (d[i] = o.dim[i]) != TN_DIM_BAD;
    if (known) return o.rank;
  }
  tn_ref x = tn_ox_in(c, k);
  return c->b.st == TN_OK ? tn_b_shape(&c->b, x, d) : 0;
}
static int64_t clamp(int64_t v, int64_t lo, int64_t hi) { return v < lo ? lo : v > hi ? hi : v; }

tn_status tn_ox_shape(tn_ox *c) {
  tn_dim d[TN_MAX_RANK];
  int n = operand_dims(c, 0, d);
  int64_t from = tn_ox_int(c, "start", 0), to = tn_ox_int(c, "end", n);
  if (c->b.st != TN_OK) return c->b.st;
  from = clamp(from < 0 ? from + n : from, 0, n);
  to = clamp(to < 0 ? to + n : to, from, n);
  return tn_ox_ret(c, 0, tn_ox_vector(c, d + from, (int)(to - from)));
}
tn_status tn_ox_size(tn_ox *c) {
  tn_dim d[TN_MAX_RANK];
  int n = operand_dims(c, 0, d);
  return tn_ox_ret(c, 0, c->b.st == TN_OK ? tn_b_dimval(&c->b, tn_b_numel(&c->b, d, n), TN_I64) : (tn_ref){0});
}

/* ---- reshape and its kin ---- */
/* Known elements of a shape, with 0 and -1 given their meaning. */
static bool known_shape(tn_ox *c, tn_ref x, const tn_dim *s, int n, bool keep_zero, tn_dim *out) {
  tn_dims *t = c->b.g->dims;
  tn_dim rest = 1;
  int open = -1;
  int64_t k;
  for (int i = 0; i < n; i++) {
    out[i] = s[i];
    if (!tn_dim_as_int(t, s[i], &k)) {
      int64_t lo, hi;
      tn_dim_bounds(t, s[i], &lo, &hi);
      if (lo < 0) return false;                              /* may be a -1 */
    } else if (k == 0 && !keep_zero) {
      if (i >= tn_b_rank(&c->b, x)) { tn_ox_bad(c, "shape holds a 0 at %d, the operand has rank %d", i, tn_b_rank(&c->b, x)); return true; }
      out[i] = tn_b_dim(&c->b, x, i);
    } else if (k == -1) {
      if (open >= 0) { tn_ox_bad(c, "shape holds -1 at %d and at %d", open, i); return true; }
      open = i;
      continue;
    } else if (k < 0) { tn_ox_bad(c, "shape holds %lld", (long long)k); return true; }
    rest = tn_dim_mul(t, rest, out[i]);
  }
  if (open < 0) return true;
  tn_dim d[TN_MAX_RANK], all = tn_b_numel(&c->b, d, tn_b_shape(&c->b, x, d));
  if (rest == 0) { tn_ox_bad(c, "shape holds a -1 beside a size of 0"); return true; }
  out[open] = rest == TN_DIM_BAD || all == TN_DIM_BAD ? TN_DIM_BAD : tn_dim_floordiv(t, all, rest);
  return true;
}
/* The same by prims, on a shape whose elements are not all known. */
static tn_ref computed_shape(tn_ox *c, tn_ref x, tn_ref s, int n, bool keep_zero) {
  tn_decomp_ctx *b = &c->b;
  tn_dim d[TN_MAX_RANK], own[TN_MAX_RANK];
  int rank = tn_b_shape(b, x, d);
  tn_ref zero = tn_b_int(b, 0, TN_I64), one = tn_b_int(b, 1, TN_I64);
  s = tn_b_cast(b, s, TN_I64);
  for (int i = 0; i < n; i++) own[i] = i < rank ? d[i] : 0;
  if (!keep_zero) s = tn_b_sel(b, tn_b_2(b, TN_OP_EQ, s, zero), tn_ox_vector(c, own, n), s);
  tn_ref open = tn_b_2(b, TN_OP_LT, s, zero), rest = tn_b_reduce1(b, TN_C_PROD, tn_b_sel(b, open, one, s), 0, true);
  tn_ref all = tn_b_dimval(b, tn_b_numel(b, d, rank), TN_I64);
  return tn_b_sel(b, open, tn_b_2(b, TN_OP_TRUNCDIV, all, rest), s);
}
tn_status tn_ox_reshape(tn_ox *c) {
  tn_dim s[TN_MAX_RANK], out[TN_MAX_RANK];
  int64_t v[TN_MAX_RANK];
  tn_ref x = tn_ox_in(c, 0);
  bool keep_zero = tn_ox_int(c, "allowzero", 0) != 0;
  int n;
  if (c->b.st != TN_OK) return c->b.st;
  if (c->opset < 5) {
    n = tn_ox_ints_attr(c, "shape", v, TN_MAX_RANK);
    if (n < 0) return tn_ox_bad(c, "attribute shape is missing");
    for (int i = 0; i < n; i++) s[i] = tn_dim_int(c->b.g->dims, v[i]);
    if (!known_shape(c, x, s, n, false, out)) return tn_ox_bad(c, "shape");
    return tn_ox_keep(c, 0, tn_b_reshape(&c->b, x, out, n), x);
  }
  tn_ref shape = tn_ox_in(c, 1);
  n = tn_ox_items(c, shape, s, TN_MAX_RANK);
  if (c->b.st != TN_OK) return c->b.st;
  if (n < 0 || !known_shape(c, x, s, n, keep_zero, out)) {
    tn_dim count = tn_b_rank(&c->b, shape) == 1 ? tn_b_dim(&c->b, shape, 0) : -1;
    if (!tn_dim_is_const(count) || count > TN_MAX_RANK) return tn_ox_unsup(c, "the rank of the result is not known while compiling");
    n = tn_ox_sizes(c, computed_shape(c, x, shape, (int)count, keep_zero), out, TN_MAX_RANK, 0);
  }
  if (c->b.st != TN_OK) return c->b.st;
  return tn_ox_keep(c, 0, tn_b_reshape(&c->b, x, out, n), x);
}
tn_status tn_ox_flatten(tn_ox *c) {
  tn_dim d[TN_MAX_RANK], out[2];
  tn_ref x = tn_ox_in(c, 0);
  if (c->b.st != TN_OK) return c->b.st;
  int n = tn_b_shape(&c->b, x, d);
  int64_t axis = tn_ox_int(c, "axis", 1);
  if (axis < -n || axis > n) return tn_ox_bad(c, "axis %lld of rank %d", (long long)axis, n);
  if (axis < 0) axis += n;
  out[0] = tn_b_numel(&c->b, d, (int)axis);
  out[1] = tn_b_numel(&c->b, d + axis, n - (int)axis);
  return tn_ox_keep(c, 0, tn_b_reshape(&c->b, x, out, 2), x);
}
/* Axes are an operand, and not known. */
static bool run_time_axes(tn_ox *c) {
  int64_t v[TN_MAX_RANK];
  return c->opset >= 13 && tn_ox_has(c, 1) && !tn_ox_attr_get(c, "axes") && tn_ox_consts(c, tn_ox_in(c, 1), v, TN_MAX_RANK) < 0;
}
/* Nobody knows whether the size d[at] is 1. Both results are functions, and a branch chooses: the rank is the run's. */
typedef struct squeeze_ctx { tn_ox *c; tn_dim dim[TN_MAX_RANK]; int n; } squeeze_ctx;
static tn_status squeeze_fill(void *ctx, tn_ox_env *env, const tn_ref *in, uint32_t n_in) {
  squeeze_ctx *q = ctx;
  tn_decomp_ctx b = {.d = q->c->b.d, .g = env->g};
  (void)n_in;
  tn_ref y = tn_b_reshape(&b, in[0], q->dim, q->n);
  if (b.st == TN_OK && tn_graph_add_output(env->g, y) != TN_OK) b.st = tn_fail(b.d, TN_E_NOMEM, "outputs of a branch");
  return b.st;
}
static tn_status squeeze_either(tn_ox *c, tn_ref x, const tn_dim *d, int n, const bool *drop, int at) {
  tn_decomp_ctx *b = &c->b;
  tn_type type = *tn_typeof(b->g, x);
  tn_ox_obj o = tn_ox_obj_of(c->e, x);
  uint32_t func[2], n_cap;
  tn_ox_env *env;
  tn_ref *cap, in[2] = {tn_b_2(b, TN_OP_EQ, tn_b_dimval(b, d[at], TN_I64), tn_b_int(b, 1, TN_I64)), x};
  for (int k = 0; k < 2 && b->st == TN_OK; k++) {
    squeeze_ctx q = {.c = c};
    for (int i = 0; i < n; i++)
      if (!drop[i] && !(k == 0 && i == at)) q.dim[q.n++] = d[i];
    tn_status s = c->e->enclose(c->e, b->d, k ? "kept" : "squeezed", squeeze_fill, &q, &type, &o, 1, &func[k], &env, &cap, &n_cap);
    if (s != TN_OK) return b->st = s;
  }
  tn_attr a[2] = {tn_mk_int("then", func[0]), tn_mk_int("else", func[1])};
  tn_ref y = tn_ox_dyn(c, "if", in, 2, a, 2, NULL, 1);
  tn_ox_describe(c, y, (tn_ox_obj){.kind = TN_OX_K_TENSOR, .elem = o.elem, .rank = -1});
  return tn_ox_ret(c, 0, y);
}
tn_status tn_ox_squeeze(tn_ox *c) {
  tn_dim d[TN_MAX_RANK], out[TN_MAX_RANK];
  bool drop[TN_MAX_RANK] = {false};
  int axes[TN_MAX_RANK], m = 0;
  tn_ref x = tn_ox_in(c, 0);
  if (c->b.st != TN_OK) return c->b.st;
  int n = tn_b_shape(&c->b, x, d), k;
  if (run_time_axes(c)) {
    tn_ref a = tn_ox_in(c, 1);
    k = tn_ox_axes_count(c, a);
    m = c->b.st == TN_OK ? tn_ox_dims_without(c, d, n, tn_ox_axes_mask(c, a, n), k, out) : -1;
    return tn_ox_keep(c, 0, m >= 0 ? tn_b_reshape(&c->b, x, out, m) : x, x);
  }
  k = tn_ox_axes(c, "axes", 13, 1, n, axes);
  if (k < 0 && c->b.st == TN_OK) {
    int open = -1;
    for (int i = 0; i < n; i++) {
      int64_t lo, hi;
      tn_dim_bounds(c->b.g->dims, d[i], &lo, &hi);
      drop[i] = d[i] == 1;
      if (d[i] == 1 || lo > 1 || hi < 1) continue;
      if (open >= 0) return tn_ox_unsup(c, "no axes are given, and nobody knows whether dims %d and %d are 1", open, i);
      open = i;
    }
    if (open >= 0) return squeeze_either(c, x, d, n, drop, open);
  }
  for (int i = 0; i < k; i++) {
    drop[axes[i]] = true;
    tn_ox_same_size(c, d[axes[i]], 1, "a dim that is dropped must be 1");
  }
  for (int i = 0; i < n; i++)
    if (!drop[i]) out[m++] = d[i];
  return tn_ox_keep(c, 0, tn_b_reshape(&c->b, x, out, m), x);
}
tn_status tn_ox_unsqueeze(tn_ox *c) {
  tn_dim d[TN_MAX_RANK], out[2 * TN_MAX_RANK];
  bool added[2 * TN_MAX_RANK] = {false};
  int64_t v[TN_MAX_RANK];
  tn_ref x = tn_ox_in(c, 0);
  if (c->b.st != TN_OK) return c->b.st;
  int n = tn_b_shape(&c->b, x, d), k;
  if (run_time_axes(c)) {
    tn_ref a = tn_ox_in(c, 1);
    k = tn_ox_axes_count(c, a);
    if (k >= 0 && n + k > TN_MAX_RANK) return tn_ox_unsup(c, "a result of rank %d, at most %d", n + k, TN_MAX_RANK);
    int m = c->b.st == TN_OK ? tn_ox_dims_with(c, d, n, tn_ox_axes_mask(c, a, n + k), out) : -1;
    return tn_ox_keep(c, 0, m >= 0 ? tn_b_reshape(&c->b, x, out, m) : x, x);
  }
  k = c->opset < 13 || tn_ox_attr_get(c, "axes") ? tn_ox_ints_attr(c, "axes", v, TN_MAX_RANK) : tn_ox_consts(c, tn_ox_in(c, 1), v, TN_MAX_RANK);
  if (c->b.st != TN_OK) return c->b.st;
  if (k < 0) return tn_ox_unsup(c, "axes are not known while compiling");
  if (n + k > TN_MAX_RANK) return tn_ox_unsup(c, "a result of rank %d, at most %d", n + k, TN_MAX_RANK);
  for (int i = 0; i < k; i++) {
    int a = tn_ox_wrap(c, v[i], n + k);
    if (c->b.st == TN_OK && added[a]) return tn_ox_bad(c, "axis %d is named twice", a);
    added[a] = true;
  }
  for (int i = 0, j = 0; i < n + k; i++) out[i] = added[i] ? 1 : d[j++];
  return tn_ox_keep(c, 0, tn_b_reshape(&c->b, x, out, n + k), x);
}

/* ---- expand, tile ---- */
/* The dim that a (of the operand) and s (asked for) broadcast to. *by_index: nobody knows whether a is 1, so elements must be picked by number. */
static tn_dim expanded(tn_ox *c, tn_dim a, tn_dim s, bool s_known, bool *by_index) {
  tn_dims *t = c->b.g->dims;
  if (a == s || s == 1) return a;
  if (a == 1) return s;
  if (tn_dim_is_const(a)) {
    if (!tn_dim_is_const(s)) tn_ox_same_size(c, tn_dim_max(t, a, s), a, "a size that is asked for, and the operand's");   /* s is 1 or a */
    else tn_ox_bad(c, "a dim of %lld expanded to %lld", (long long)a, (long long)s);
    return a;
  }
  if (s_known && !tn_dim_is_const(s)) {                      /* both come from shapes: the same size under two names */
    tn_ox_same_size(c, a, s, "a size that is asked for, and the operand's");
    return s;
  }
  /* a is 1, or s is, or they are equal; the result is s where a is 1, else a: a size of its own. */
  tn_decomp_ctx *b = &c->b;
  tn_dim off = tn_dim_mul(t, tn_dim_sub(t, a, 1), tn_dim_sub(t, a, s)), out;
  tn_ox_same_size(c, tn_dim_is_const(s) ? off : tn_dim_mul(t, off, tn_dim_sub(t, s, 1)), 0, "a size that is asked for does not fit the operand's");
  *by_index = true;
  if (tn_dim_is_const(s)) return s;
  tn_ref have = tn_b_dimval(b, a, TN_I64), one = tn_b_2(b, TN_OP_EQ, have, tn_b_int(b, 1, TN_I64));
  return tn_ox_sizes(c, tn_b_sel(b, one, tn_b_dimval(b, s, TN_I64), have), &out, 1, 0) == 1 ? out : a;
}
/* Which elements of a 1-D tensor of sizes are known; all, when it has another form. */
static void known_sizes(tn_ox *c, tn_ref shape, bool *known) {
  tn_dim v[1], n = tn_b_rank(&c->b, shape) == 1 ? tn_b_dim(&c->b, shape, 0) : -1;
  for (int i = 0; i < TN_MAX_RANK; i++) known[i] = !tn_dim_is_const(n) || i >= n || tn_ox_items(c, tn_b_slice(&c->b, shape, 0, i, 1, 1), v, 1) == 1;
}
tn_status tn_ox_expand(tn_ox *c) {
  tn_dim d[TN_MAX_RANK], s[TN_MAX_RANK], out[TN_MAX_RANK];
  tn_ref x = tn_ox_in(c, 0), y = x, shape = tn_ox_in(c, 1);
  if (c->b.st != TN_OK) return c->b.st;
  bool known[TN_MAX_RANK];
  known_sizes(c, shape, known);
  int k = tn_ox_sizes(c, shape, s, TN_MAX_RANK, 0);
  if (c->b.st != TN_OK) return c->b.st;
  int n = tn_b_shape(&c->b, x, d), rank = n > k ? n : k;
  for (int i = 0; i < rank && c->b.st == TN_OK; i++) {
    int at = i - (rank - n), want = i - (rank - k);
    int64_t v;
    bool by_index = false;
    if (want >= 0 && tn_dim_as_int(c->b.g->dims, s[want], &v) && v < 0) return tn_ox_bad(c, "size %lld is asked for", (long long)v);
    out[i] = at < 0 ? s[want] : want < 0 ? d[at] : expanded(c, d[at], s[want], known[want], &by_index);
    if (!by_index || c->b.st != TN_OK) continue;
    tn_ref from = tn_b_2(&c->b, TN_OP_REMAINDER, tn_b_iota(&c->b, out[i], TN_I64), tn_b_dimval(&c->b, d[at], TN_I64));
    y = tn_b_take(&c->b, y, from, at);
  }
  return tn_ox_keep(c, 0, c->b.st == TN_OK ? tn_b_broadcast(&c->b, y, out, rank) : x, x);
}
/* Repeats that only the run knows: an index for each element. */
static tn_ref repeat_by_index(tn_ox *c, tn_ref x, const tn_dim *rep) {
  tn_decomp_ctx *b = &c->b;
  tn_dim d[TN_MAX_RANK];
  int n = tn_b_shape(b, x, d);
  for (int i = 0; i < n && b->st == TN_OK; i++) {
    tn_ref k = tn_b_iota(b, tn_dim_mul(b->g->dims, rep[i], d[i]), TN_I64);
    if (rep[i] != 1) x = tn_b_take(b, x, tn_b_2(b, TN_OP_REMAINDER, k, tn_b_dimval(b, d[i], TN_I64)), i);
  }
  return x;
}
/* Each dim repeated rep[i] times: a dim of size rep is put before it, stretched, and folded in. */
static tn_ref repeat(tn_ox *c, tn_ref x, const tn_dim *rep) {
  tn_dim d[TN_MAX_RANK], at[2 * TN_MAX_RANK], wide[2 * TN_MAX_RANK], out[TN_MAX_RANK];
  int n = tn_b_shape(&c->b, x, d), m = 0;
  for (int i = 0; i < n; i++) {
    if (rep[i] != 1) { at[m] = 1; wide[m++] = rep[i]; }
    at[m] = wide[m] = d[i];
    m++;
    out[i] = tn_dim_mul(c->b.g->dims, rep[i], d[i]);
  }
  if (m > TN_MAX_RANK) { tn_ox_unsup(c, "repeats over %d dims at once", m - n); return x; }
  return tn_b_reshape(&c->b, tn_b_broadcast(&c->b, tn_b_reshape(&c->b, x, at, m), wide, m), out, n);
}
tn_status tn_ox_tile(tn_ox *c) {
  tn_dim rep[TN_MAX_RANK];
  tn_ref x = tn_ox_in(c, 0);
  if (c->b.st != TN_OK) return c->b.st;
  int n = tn_b_rank(&c->b, x), k;
  bool known = true;
  if (c->opset < 6 && tn_ox_has(c, 2)) {                      /* one axis, both scalars */
    tn_dim tiles;
    for (int i = 0; i < n; i++) rep[i] = 1;
    int axis = tn_ox_wrap(c, tn_ox_const_int(c, 2, 0), n);
    if (tn_ox_sizes(c, tn_ox_in(c, 1), &tiles, 1, 0) != 1) return tn_ox_bad(c, "tiles is no number");
    rep[axis] = tiles;
  } else {
    k = tn_ox_sizes(c, tn_ox_in(c, 1), rep, TN_MAX_RANK, 0);
    if (c->b.st == TN_OK && k != n) return tn_ox_bad(c, "%d repeats for rank %d", k, n);
  }
  for (int i = 0; i < n && c->b.st == TN_OK; i++) {
    int64_t v;
    bool number = tn_dim_as_int(c->b.g->dims, rep[i], &v);
    if (number && v < 0) return tn_ox_bad(c, "%lld repeats", (long long)v);
    known = known && number;
  }
  return tn_ox_keep(c, 0, c->b.st != TN_OK ? x : known ? repeat(c, x, rep) : repeat_by_index(c, x, rep), x);
}

/* ---- ranges ---- */
/* Number of items of an integer range whose ends are known as dims; TN_DIM_BAD: not known. */
static tn_dim range_count(tn_ox *c, tn_dim from, tn_dim to, int64_t step) {
  tn_dims *t = c->b.g->dims;
  int64_t lo, hi;
  tn_dim span = step > 0 ? tn_dim_sub(t, to, from) : tn_dim_sub(t, from, to);
  if (span == TN_DIM_BAD || step == INT64_MIN) return TN_DIM_BAD;
  tn_dim n = tn_dim_ceildiv(t, span, step > 0 ? step : -step);
  if (n == TN_DIM_BAD) return n;
  tn_dim_bounds(t, n, &lo, &hi);
  return lo >= 0 ? n : hi <= 0 ? 0 : tn_dim_max(t, n, 0);
}
/* start + delta * k, all of dtype t, for a count that only values tell. */
static tn_ref range_of(tn_ox *c, tn_dim n, tn_ref start, tn_ref delta, tn_dtype t) {
  tn_decomp_ctx *b = &c->b;
  tn_ref k = tn_b_cast(b, tn_b_iota(b, n, TN_I64), t);
  return tn_b_2(b, TN_OP_ADD, start, tn_b_2(b, TN_OP_MUL, delta, k));
}
tn_status tn_ox_range(tn_ox *c) {
  tn_decomp_ctx *b = &c->b;
  tn_dim end[3], n = TN_DIM_BAD;
  int64_t step;
  tn_ref x[3];
  tn_tensor k[3];
  bool whole = true, known = true;
  for (uint32_t i = 0; i < 3; i++) {
    x[i] = tn_ox_in(c, i);
    if (c->b.st != TN_OK) return c->b.st;
    if (tn_type_numel(tn_typeof(b->g, x[i])) != 1) return tn_ox_bad(c, "operand %u is no single number", i);
    x[i] = tn_b_reshape(b, x[i], NULL, 0);
    known = known && tn_ox_data(c, x[i], &k[i]);
    whole = whole && tn_ox_items(c, x[i], &end[i], 1) == 1;
  }
  tn_dtype t = tn_b_dtype(b, x[0]);
  for (int i = 1; i < 3; i++)
    if (tn_b_dtype(b, x[i]) != t) return tn_ox_bad(c, "operands of %s and %s", tn_dtype_name(t), tn_dtype_name(tn_b_dtype(b, x[i])));
  if (whole && tn_dim_as_int(b->g->dims, end[2], &step)) {
    if (step == 0) return tn_ox_bad(c, "a step of 0");
    n = range_count(c, end[0], end[1], step);
  } else if (known && tn_dtype_is_float(t)) {
    double a = tn_num_load(t, k[0].data).f, z = tn_num_load(t, k[1].data).f, s = tn_num_load(t, k[2].data).f, m = ceil((z - a) / s);
    if (!(m < 1e9)) return tn_ox_bad(c, "a range of %g items", m);
    n = m > 0 ? (tn_dim)m : 0;
  }
  if (n == TN_DIM_BAD) {                                     /* count by prims, in double or i64 */
    tn_dtype w = tn_dtype_is_float(t) ? TN_F64 : TN_I64;
    tn_ref span = tn_b_2(b, TN_OP_SUB, tn_b_cast(b, x[1], w), tn_b_cast(b, x[0], w)), d = tn_b_cast(b, x[2], w);
    tn_ref m = w == TN_F64 ? tn_b_cast(b, tn_b_1(b, TN_OP_CEIL, tn_b_2(b, TN_OP_DIV, span, d)), TN_I64)
                           : tn_b_1(b, TN_OP_NEG, tn_b_2(b, TN_OP_FLOORDIV, tn_b_1(b, TN_OP_NEG, span), d));
    m = tn_b_2(b, TN_OP_MAX, m, tn_b_int(b, 0, TN_I64));
    if (tn_ox_sizes(c, m, &n, 1, 0) != 1) return c->b.st;
  }
  return tn_ox_ret(c, 0, range_of(c, n, x[0], x[2], t));
}

tn_status tn_ox_eye_like(tn_ox *c) {
  tn_decomp_ctx *b = &c->b;
  tn_ref x = tn_ox_in(c, 0);
  if (c->b.st != TN_OK) return c->b.st;
  if (tn_b_rank(b, x) != 2) return tn_ox_bad(c, "operand of rank %d, wants 2", tn_b_rank(b, x));
  int elem = (int)tn_ox_int(c, "dtype", tn_ox_elem(c, x)), t = tn_ox_dtype_of(elem);
  if (t < 0 || t == TN_OBJ || tn_ox_elem_of((tn_dtype)t) != elem) return tn_ox_unsup(c, "element type %s", tn_ox_elem_name(elem));
  tn_ref row = tn_b_along(b, tn_b_iota(b, tn_b_dim(b, x, 0), TN_I64), 0, 2), col = tn_b_along(b, tn_b_iota(b, tn_b_dim(b, x, 1), TN_I64), 1, 2);
  tn_ref on = tn_b_2(b, TN_OP_EQ, tn_b_2(b, TN_OP_SUB, col, row), tn_b_int(b, tn_ox_int(c, "k", 0), TN_I64));
  return tn_ox_ret(c, 0, tn_b_cast(b, on, (tn_dtype)t));
}

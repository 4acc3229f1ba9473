/* Helpers that shape rules are written with: reading attributes, comparing dims, building result types.
 *
 * Dims are compared by handle, since equal expressions have equal handles. What can't be decided for symbolic dims is
 * accepted here and checked again with numbers by the evaluators; what is provably wrong is refused with both sides printed.
 * Messages name the op first, then the attribute or operand, then numbers. */
#include "ops/ops_int.h"
#include <stdio.h>
#include <string.h>

/* ---- texts for messages: short, cut when too long, "?" when memory is out ---- */
static tn_text take_text(tn_str *b) {
  tn_text t;
  snprintf(t.s, sizeof t.s, "%.*s", b->oom || !b->s ? 1 : (int)b->n, b->oom || !b->s ? "?" : b->s);
  tn_str_deinit(b);
  return t;
}
static void put_dim(const tn_dims *t, tn_dim d, tn_str *b) {
  if (d == TN_DIM_BAD)
    tn_str_add(b, "<overflow>");
  else
    tn_dim_print(t, d, b);
}
tn_text tn_dim_text(const tn_dims *t, tn_dim d) {
  tn_str b;
  tn_str_init(&b);
  put_dim(t, d, &b);
  return take_text(&b);
}
tn_text tn_shape_text(const tn_dims *t, uint32_t rank, const tn_dim *dim) {
  tn_str b;
  tn_str_init(&b);
  tn_str_add(&b, "[");
  for (uint32_t i = 0; i < rank; i++) {
    if (i) tn_str_add(&b, ",");
    put_dim(t, dim[i], &b);
  }
  tn_str_add(&b, "]");
  return take_text(&b);
}

/* ---- results ---- */
tn_status tn_rule_result(tn_infer_ctx *c, tn_dtype t, uint32_t rank, const tn_dim *dim) {
  if (rank > TN_MAX_RANK) return tn_rule_fail(c, "result of rank %u, at most %d", rank, TN_MAX_RANK);
  if (c->n_out >= TN_MAX_RESULTS) return tn_fail(c->d, TN_E_INTERNAL, "%s: more than %d results", c->name, TN_MAX_RESULTS);
  for (uint32_t i = 0; i < rank; i++) TN_TRY(tn_rule_size(c, dim[i], "result dim"));
  tn_type r = tn_type_make(c->g, t, rank, dim);
  if (rank > 0 && !r.dim) return tn_fail(c->d, TN_E_NOMEM, "%s: result type of rank %u", c->name, rank);
  c->out[c->n_out++] = r;
  return TN_OK;
}

/* ---- attributes ---- */
/* Next "name:kind" of a row's list; false at the end. */
static bool next_attr(const char **at, const char **name, size_t *n, char *kind) {
  while (**at == ' ') ++*at;
  if (!**at) return false;
  *name = *at;
  *n = strcspn(*at, ":");
  *at += *n;
  *kind = **at ? (*at)[1] : 0;
  *at += strcspn(*at, " ");
  return true;
}
tn_status tn_rule_attrs(tn_infer_ctx *c) {
  const char *at = tn_op_attrs(c->op), *name;
  size_t len;
  char kind;
  uint32_t n_found = 0;
  for (uint32_t i = 0; i < c->attrs.n_attr; i++) {
    const tn_attr_val *v = &c->attrs.attr[i].val;
    if (v->kind == TN_AT_LIST && v->u.list.n && !v->u.list.item) /* what tn_mk_dims leaves when memory is out */
      return tn_fail(c->d, TN_E_NOMEM, "%s: attribute '%s'", c->name, c->attrs.attr[i].name);
  }
  while (next_attr(&at, &name, &len, &kind)) {
    bool found = false;
    for (uint32_t i = 0; i < c->attrs.n_attr && !found; i++) {
      const char *given = c->attrs.attr[i].name;
      found = strncmp(given, name, len) == 0 && !given[len];
    }
    if (!found && kind != 'b') return tn_rule_fail(c, "attribute '%.*s' is missing", (int)len, name);
    n_found += found;
  }
  if (n_found < c->attrs.n_attr)
    return tn_rule_fail(c, "%u attributes, of which it knows %u: \"%s\"", c->attrs.n_attr, n_found, tn_op_attrs(c->op));
  return TN_OK;
}

static const tn_attr_val *find(tn_infer_ctx *c, const char *name) { return tn_attr_get(&c->attrs, name); }

static bool as_int(const tn_infer_ctx *c, const tn_attr_val *v, int64_t *out) {
  if (v->kind == TN_AT_INT) {
    *out = v->u.i;
    return true;
  }
  return v->kind == TN_AT_DIM && tn_dim_as_int(c->g->dims, v->u.d, out);
}
tn_status tn_rule_int(tn_infer_ctx *c, const char *name, int64_t *out) {
  const tn_attr_val *v = find(c, name);
  if (!v || !as_int(c, v, out)) return tn_rule_fail(c, "attribute '%s' is not an integer", name);
  return TN_OK;
}
tn_status tn_rule_axis(tn_infer_ctx *c, const char *name, uint32_t rank, uint32_t *out) {
  int64_t v;
  TN_TRY(tn_rule_int(c, name, &v));
  if (v < 0 || v >= (int64_t)rank) return tn_rule_fail(c, "%s is %lld, rank is %u", name, (long long)v, rank);
  *out = (uint32_t)v;
  return TN_OK;
}
tn_status tn_rule_dtype(tn_infer_ctx *c, const char *name, tn_dtype *out) {
  const tn_attr_val *v = find(c, name);
  if (!v || v->kind != TN_AT_DTYPE) return tn_rule_fail(c, "attribute '%s' is not a dtype", name);
  if (!tn_dtype_is_value(v->u.t)) return tn_rule_fail(c, "dtype number %d", (int)v->u.t);
  *out = v->u.t;
  return TN_OK;
}
tn_status tn_rule_combiner(tn_infer_ctx *c, tn_combiner *out) {
  const char *s = tn_attr_str(&c->attrs, "combiner", NULL);
  if (!s || !tn_combiner_find(s, strlen(s), out)) return tn_rule_fail(c, "'%s' is not a combiner", s ? s : "");
  return TN_OK;
}
tn_status tn_rule_number(tn_infer_ctx *c, const char *name) {
  const tn_attr_val *v = find(c, name);
  if (!v || (v->kind != TN_AT_INT && v->kind != TN_AT_FLOAT && v->kind != TN_AT_BOOL && v->kind != TN_AT_DIM))
    return tn_rule_fail(c, "attribute '%s' is not a number", name);
  return TN_OK;
}

tn_status tn_rule_dims(tn_infer_ctx *c, const char *name, int n_want, tn_dim *out, uint32_t *out_n) {
  tn_dim v[2 * TN_MAX_RANK + 1];
  int most = n_want > TN_MAX_RANK ? 2 * TN_MAX_RANK : TN_MAX_RANK;
  int n = tn_attr_dims(&c->attrs, name, v, most + 1);
  if (n < 0) return tn_rule_fail(c, "attribute '%s' is not a list of dims, none negative", name);
  if (n > most) return tn_rule_fail(c, "attribute '%s' has over %d items", name, most);
  if (n_want >= 0 && n != n_want) return tn_rule_fail(c, "attribute '%s' has %d items, wants %d", name, n, n_want);
  for (int i = 0; i < n; i++) {
    TN_TRY(tn_rule_size(c, v[i], name));
    out[i] = v[i];
  }
  if (out_n) *out_n = (uint32_t)n;
  return TN_OK;
}
tn_status tn_rule_ints(tn_infer_ctx *c, const char *name, int n_want, int64_t lo, int64_t *out, uint32_t *out_n) {
  tn_dim v[2 * TN_MAX_RANK];
  uint32_t n = 0;
  TN_TRY(tn_rule_dims(c, name, n_want, v, &n));
  for (uint32_t i = 0; i < n; i++) {
    if (!tn_dim_is_const(v[i])) return tn_rule_fail(c, "%s[%u] is %s, wants a constant", name, i, tn_dim_text(c->g->dims, v[i]).s);
    if (v[i] < lo) return tn_rule_fail(c, "%s[%u] is %lld, wants at least %lld", name, i, (long long)v[i], (long long)lo);
    out[i] = v[i];
  }
  if (out_n) *out_n = n;
  return TN_OK;
}
tn_status tn_rule_axes(tn_infer_ctx *c, const char *name, uint32_t rank, int64_t *out, uint32_t *out_n) {
  bool seen[TN_MAX_RANK] = {false};
  TN_TRY(tn_rule_ints(c, name, -1, 0, out, out_n));
  for (uint32_t i = 0; i < *out_n; i++) {
    if (out[i] >= (int64_t)rank) return tn_rule_fail(c, "%s[%u] is %lld, rank is %u", name, i, (long long)out[i], rank);
    if (seen[out[i]]) return tn_rule_fail(c, "%s names dim %lld twice", name, (long long)out[i]);
    seen[out[i]] = true;
  }
  return TN_OK;
}

/* ---- dims ---- */
tn_status tn_rule_size(tn_infer_ctx *c, tn_dim d, const char *what) {
  int64_t lo, hi;
  if (d == TN_DIM_BAD) return tn_rule_fail(c, "%s overflows or divides by zero", what);
  if (tn_dim_is_const(d)) return TN_OK;
  tn_dim_bounds(c->g->dims, d, &lo, &hi);
  if (hi < 0) return tn_rule_fail(c, "%s is %s, which is negative", what, tn_dim_text(c->g->dims, d).s);
  return TN_OK;
}
tn_status tn_rule_equal(tn_infer_ctx *c, tn_dim a, tn_dim b, const char *what) {
  if (a == b && a != TN_DIM_BAD) return TN_OK;
  return tn_rule_fail(c, "%s: %s and %s differ", what, tn_dim_text(c->g->dims, a).s, tn_dim_text(c->g->dims, b).s);
}
bool tn_rule_exceeds(tn_infer_ctx *c, tn_dim a, tn_dim b) {
  int64_t lo, hi;
  tn_dim diff = tn_dim_sub(c->g->dims, a, b);
  if (diff == TN_DIM_BAD) return false;
  if (tn_dim_as_int(c->g->dims, diff, &lo)) return lo > 0;
  tn_dim_bounds(c->g->dims, diff, &lo, &hi);
  return lo > 0;
}
tn_status tn_rule_broadcast(tn_infer_ctx *c, tn_dim *a, uint32_t *a_rank, const tn_dim *b, uint32_t b_rank) {
  uint32_t ra = *a_rank;
  if (b_rank > ra) { /* open room at the left */
    uint32_t shift = b_rank - ra;
    memmove(a + shift, a, ra * sizeof *a);
    for (uint32_t i = 0; i < shift; i++) a[i] = 1;
    ra = b_rank;
  }
  for (uint32_t i = 0; i < b_rank; i++) {
    tn_dim *x = &a[ra - b_rank + i];
    if (*x == b[i] || b[i] == 1) continue;
    if (*x != 1)
      return tn_rule_fail(c, "dim %u from the right: %s and %s do not broadcast", b_rank - i, tn_dim_text(c->g->dims, *x).s,
                          tn_dim_text(c->g->dims, b[i]).s);
    *x = b[i];
  }
  *a_rank = ra;
  return TN_OK;
}

/* ---- dtypes ---- */
tn_status tn_rule_same_dtype(tn_infer_ctx *c, uint32_t a, uint32_t b) {
  uint8_t ta = tn_rule_in(c, a)->dtype, tb = tn_rule_in(c, b)->dtype;
  if (ta == tb) return TN_OK;
  return tn_rule_fail(c, "operand %u is %s, operand %u is %s", a, tn_dtype_name(ta), b, tn_dtype_name(tb));
}
tn_status tn_rule_index_dtype(tn_infer_ctx *c, uint32_t k) {
  uint8_t t = tn_rule_in(c, k)->dtype;
  if (t == TN_I64 || t == TN_I32) return TN_OK;
  return tn_rule_fail(c, "operand %u is an index and must be i64 or i32, not %s", k, tn_dtype_name(t));
}

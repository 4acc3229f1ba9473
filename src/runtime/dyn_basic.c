/* The interface of dynamic operators, and those that belong to the session: none, identity, sizes. */
#include <inttypes.h>
#include <string.h>
#include "runtime/dyn.h"

tn_status tn_dyn_tensor(tn_dyn_ctx *c, uint32_t i, uint32_t elem, int rank, const tn_tensor **out) {
  char b[160];
  *out = NULL;
  if (i >= c->n_in) return tn_fail(c->d, TN_E_ARG, "%s has no input %u", c->name, i);
  const tn_value *v = c->in[i];
  if (v->kind != TN_VALUE_TENSOR) return tn_fail(c->d, TN_E_ARG, "%s: input %u is %s, wanted a tensor", c->name, i, tn_value_text(v, b));
  if (elem && v->elem != elem) return tn_fail(c->d, TN_E_ARG, "%s: input %u is %s, wanted element type %s", c->name, i, tn_value_text(v, b), tn_elem_name(elem) ? tn_elem_name(elem) : "?");
  if (rank >= 0 && v->t.rank != rank) return tn_fail(c->d, TN_E_ARG, "%s: input %u is %s, wanted rank %d", c->name, i, tn_value_text(v, b), rank);
  *out = &v->t;
  return TN_OK;
}

tn_status tn_dyn_dense(tn_dyn_ctx *c, uint32_t i, uint32_t elem, int rank, tn_value **out) {
  const tn_tensor *t;
  *out = NULL;
  TN_TRY(tn_dyn_tensor(c, i, elem, rank, &t));
  *out = tn_value_dense(c->values, c->in[i]);
  return *out ? TN_OK : tn_fail(c->d, TN_E_NOMEM, "%s: dense copy of input %u", c->name, i);
}

static tn_status integers(tn_dyn_ctx *c, uint32_t i, const tn_value **out) {
  const tn_tensor *t;
  char b[160];
  TN_TRY(tn_dyn_tensor(c, i, 0, -1, &t));
  *out = c->in[i];
  if (!tn_dtype_is_int((tn_dtype)t->dtype) && t->dtype != TN_BOOL) return tn_fail(c->d, TN_E_ARG, "%s: input %u is %s, wanted integers", c->name, i, tn_value_text(*out, b));
  return TN_OK;
}

tn_status tn_dyn_int(tn_dyn_ctx *c, uint32_t i, int64_t *out) {
  const tn_value *v = NULL;
  char b[160];
  TN_TRY(integers(c, i, &v));
  if (v->n != 1) return tn_fail(c->d, TN_E_ARG, "%s: input %u is %s, wanted one element", c->name, i, tn_value_text(v, b));
  *out = tn_value_int(v, 0);
  return TN_OK;
}

tn_status tn_dyn_ints(tn_dyn_ctx *c, uint32_t i, int64_t *to, uint32_t most, uint32_t *n) {
  const tn_value *v = NULL;
  char b[160];
  *n = 0;
  TN_TRY(integers(c, i, &v));
  if (v->t.rank > 1 || v->n > most) return tn_fail(c->d, TN_E_ARG, "%s: input %u is %s, wanted at most %u integers in one dim", c->name, i, tn_value_text(v, b), most);
  for (*n = 0; *n < v->n; ++*n) to[*n] = tn_value_int(v, *n);
  return TN_OK;
}

tn_status tn_dyn_alloc(tn_dyn_ctx *c, uint32_t i, uint32_t elem, int rank, const int64_t *shape) {
  int64_t n;
  size_t bytes;
  if (i >= c->n_out) return tn_fail(c->d, TN_E_INTERNAL, "%s has no result %u", c->name, i);
  if (!tn_value_size(elem, rank, shape, &n, &bytes)) {
    for (int k = 0; rank <= TN_PLAN_MAX_RANK && k < rank; k++)
      if (shape[k] < 0) return tn_fail(c->d, TN_E_ARG, "%s: dim %d of result %u is %" PRId64, c->name, k, i, shape[k]);
    return tn_fail(c->d, TN_E_ARG, "%s: the size of result %u (element type %u, rank %d) overflows", c->name, i, elem, rank);
  }
  c->out[i] = tn_value_new(c->values, elem, rank, shape);
  return c->out[i] ? TN_OK : tn_fail(c->d, TN_E_NOMEM, "%s: result %u of %zu bytes", c->name, i, bytes);
}

tn_status tn_dyn_give(tn_dyn_ctx *c, uint32_t i, tn_value *v) {
  if (!v) return tn_fail(c->d, TN_E_NOMEM, "%s: result %u", c->name, i);
  if (i >= c->n_out) return tn_value_release(v), tn_fail(c->d, TN_E_INTERNAL, "%s has no result %u", c->name, i);
  c->out[i] = v;
  return TN_OK;
}

static const tn_mattr *attr(const tn_dyn_ctx *c, const char *name, tn_mattr_kind kind) {
  const tn_mattr *a = tn_mattr_get(c->step, name);
  return a && a->kind == kind ? a : NULL;
}
int64_t tn_dyn_attr_int(const tn_dyn_ctx *c, const char *name, int64_t otherwise) {
  const tn_mattr *a = attr(c, name, TN_MA_INT);
  return a ? a->u.i[0] : otherwise;
}
double tn_dyn_attr_float(const tn_dyn_ctx *c, const char *name, double otherwise) {
  const tn_mattr *a = attr(c, name, TN_MA_FLOAT);
  return a ? a->u.f[0] : otherwise;
}
const char *tn_dyn_attr_str(const tn_dyn_ctx *c, const char *name, const char *otherwise) {
  const tn_mattr *a = attr(c, name, TN_MA_STR);
  return a ? a->u.s[0].s : otherwise;
}
const int64_t *tn_dyn_attr_ints(const tn_dyn_ctx *c, const char *name, uint32_t *n) {
  const tn_mattr *a = attr(c, name, TN_MA_INTS);
  *n = a ? a->n : 0;
  return a ? a->u.i : NULL;
}
const double *tn_dyn_attr_floats(const tn_dyn_ctx *c, const char *name, uint32_t *n) {
  const tn_mattr *a = attr(c, name, TN_MA_FLOATS);
  *n = a ? a->n : 0;
  return a ? a->u.f : NULL;
}
const tn_mstr *tn_dyn_attr_strs(const tn_dyn_ctx *c, const char *name, uint32_t *n) {
  const tn_mattr *a = attr(c, name, TN_MA_STRS);
  *n = a ? a->n : 0;
  return a ? a->u.s : NULL;
}

/* ---- operators ---- */

tn_status tn_dyn_NONE(tn_dyn_ctx *c) { return tn_dyn_give(c, 0, tn_value_new_none(c->values)); }

tn_status tn_dyn_IDENTITY(tn_dyn_ctx *c) {
  tn_value_retain(c->in[0]);
  return tn_dyn_give(c, 0, c->in[0]);
}

tn_status tn_dyn_REQUIRE(tn_dyn_ctx *c) {
  const tn_value *v = NULL;
  int64_t want = tn_dyn_attr_int(c, "want", 0);
  TN_TRY(integers(c, 0, &v));
  for (int64_t i = 0; i < v->n; i++)
    if (tn_value_int(v, i) != want) return tn_fail(c->d, TN_E_UNSUPPORTED, "%s", tn_dyn_attr_str(c, "text", "a value that this model was not compiled for"));
  tn_value_retain(c->in[1]);
  return tn_dyn_give(c, 0, c->in[1]);
}

/* The value itself, once every element is known to be a size: symbols are read from it by plans that trust their range. */
tn_status tn_dyn_SIZES(tn_dyn_ctx *c) {
  const tn_value *v = NULL;
  int64_t lo = tn_dyn_attr_int(c, "lo", 0);
  TN_TRY(integers(c, 0, &v));
  for (int64_t i = 0; i < v->n; i++)
    if (tn_value_int(v, i) < lo) return tn_fail(c->d, TN_E_ARG, "size %" PRId64 " of %" PRId64 " is %" PRId64 ", wanted at least %" PRId64, i, v->n, tn_value_int(v, i), lo);
  return tn_dyn_IDENTITY(c);
}

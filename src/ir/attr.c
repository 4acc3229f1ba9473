/* attr.c: attributes of nodes, named values of a few kinds. Readers are forgiving about number kinds (INT, BOOL, constant DIM)
 * because text and front ends write integers where ops want dims; the verifier says what an op's row wants.
 * A negative INT is never a dim by itself: negative tn_dims are handles of a table. tn_attr_copy, which has the table, converts them. */
#include <string.h>
#include "ir/ir_int.h"

const tn_attr_val *tn_attr_get(const tn_node *n, const char *name) {
  for (uint32_t i = 0; i < n->n_attr; i++)
    if (strcmp(n->attr[i].name, name) == 0) return &n->attr[i].val;
  return NULL;
}

static bool val_int(const tn_attr_val *v, int64_t *out) {
  switch (v->kind) {
    case TN_AT_INT: *out = v->u.i; return true;
    case TN_AT_BOOL: *out = v->u.b; return true;
    case TN_AT_DIM: *out = v->u.d; return tn_dim_is_const(v->u.d);
    default: return false;
  }
}

int64_t tn_attr_int(const tn_node *n, const char *name, int64_t def) {
  const tn_attr_val *v = tn_attr_get(n, name);
  int64_t x;
  return v && val_int(v, &x) ? x : def;
}

double tn_attr_num(const tn_node *n, const char *name, double def) {
  const tn_attr_val *v = tn_attr_get(n, name);
  int64_t x;
  if (v && v->kind == TN_AT_FLOAT) return v->u.f;
  return v && val_int(v, &x) ? (double)x : def;
}

bool tn_attr_bool(const tn_node *n, const char *name, bool def) {
  const tn_attr_val *v = tn_attr_get(n, name);
  int64_t x;
  return v && val_int(v, &x) ? x != 0 : def;
}

const char *tn_attr_str(const tn_node *n, const char *name, const char *def) {
  const tn_attr_val *v = tn_attr_get(n, name);
  return v && v->kind == TN_AT_STR ? v->u.s : def;
}

static bool val_dim(const tn_attr_val *v, tn_dim *out) {
  if (v->kind == TN_AT_DIM)
    *out = v->u.d;
  else if (v->kind == TN_AT_INT && v->u.i >= 0)
    *out = v->u.i;
  else
    return false;
  return *out != TN_DIM_BAD;
}

/* Both list readers: one value counts as a list of one. */
static int list_of(const tn_attr_val *v, int64_t *out, int max, bool (*one)(const tn_attr_val *, int64_t *)) {
  int64_t x;
  if (!v) return -1;
  if (v->kind != TN_AT_LIST) {
    if (max < 1 || !one(v, &x)) return -1;
    out[0] = x;
    return 1;
  }
  if (v->u.list.n > (uint32_t)(max < 0 ? 0 : max)) return -1;
  for (uint32_t i = 0; i < v->u.list.n; i++) {
    if (!one(&v->u.list.item[i], &x)) return -1;
    out[i] = x;
  }
  return (int)v->u.list.n;
}

int tn_attr_dims(const tn_node *n, const char *name, tn_dim *out, int max) { return list_of(tn_attr_get(n, name), out, max, val_dim); }
int tn_attr_ints(const tn_node *n, const char *name, int64_t *out, int max) { return list_of(tn_attr_get(n, name), out, max, val_int); }

tn_attr tn_mk_int(const char *name, int64_t v) { return (tn_attr){name, {TN_AT_INT, {.i = v}}}; }
tn_attr tn_mk_float(const char *name, double v) { return (tn_attr){name, {TN_AT_FLOAT, {.f = v}}}; }
tn_attr tn_mk_bool(const char *name, bool v) { return (tn_attr){name, {TN_AT_BOOL, {.b = v}}}; }
tn_attr tn_mk_str(const char *name, const char *v) { return (tn_attr){name, {TN_AT_STR, {.s = v}}}; }
tn_attr tn_mk_dtype(const char *name, tn_dtype v) { return (tn_attr){name, {TN_AT_DTYPE, {.t = v}}}; }

tn_attr tn_mk_dims(tn_graph *g, const char *name, const tn_dim *d, uint32_t n) {
  tn_attr a = {name, {TN_AT_LIST, {.list = {NULL, n}}}};
  if (n == 0) return a;
  a.val.u.list.item = TN_NEW(g->arena, tn_attr_val, n);
  for (uint32_t i = 0; a.val.u.list.item && i < n; i++) a.val.u.list.item[i] = (tn_attr_val){TN_AT_DIM, {.d = d[i]}};
  return a; /* no memory: item NULL with n > 0, which tn_attr_copy reports when the attribute is used */
}

static tn_status val_copy(tn_graph *g, const tn_attr_val *from, bool dims, tn_attr_val *to) {
  *to = *from;
  switch (from->kind) {
    case TN_AT_INT:
      if (!dims || from->u.i >= 0 || from->u.i == INT64_MIN) return TN_OK; /* the last has no dim: left for the verifier to refuse */
      to->kind = TN_AT_DIM;
      to->u.d = tn_dim_int(g->dims, from->u.i);
      return to->u.d == TN_DIM_BAD ? TN_E_NOMEM : TN_OK;
    case TN_AT_STR: to->u.s = tn_arena_strdup(g->arena, from->u.s ? from->u.s : ""); return to->u.s ? TN_OK : TN_E_NOMEM;
    case TN_AT_LIST:
      if (from->u.list.n == 0) {
        to->u.list.item = NULL;
        return TN_OK;
      }
      if (!from->u.list.item) return TN_E_NOMEM;
      to->u.list.item = TN_NEW(g->arena, tn_attr_val, from->u.list.n);
      if (!to->u.list.item) return TN_E_NOMEM;
      for (uint32_t i = 0; i < from->u.list.n; i++) TN_TRY(val_copy(g, &from->u.list.item[i], dims, &to->u.list.item[i]));
      return TN_OK;
    default: return TN_OK;
  }
}

tn_status tn_attr_copy(tn_graph *g, tn_op op, const tn_attr *from, uint32_t n, tn_attr **out) {
  *out = NULL;
  if (n == 0) return TN_OK;
  tn_attr *a = TN_NEW(g->arena, tn_attr, n);
  if (!a) return TN_E_NOMEM;
  for (uint32_t i = 0; i < n; i++) {
    a[i].name = tn_arena_strdup(g->arena, from[i].name ? from[i].name : "");
    if (!a[i].name) return TN_E_NOMEM;
    TN_TRY(val_copy(g, &from[i].val, tn_op_attr_kind(op, a[i].name) == 'd', &a[i].val));
  }
  *out = a;
  return TN_OK;
}

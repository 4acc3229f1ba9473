/* onnx_sequence: lists and optionals. Each is a DYN node; what is known of the items travels along (tn_ox_obj), so that an item of known rank is a tensor like
 * any other, with fresh symbols for the sizes that differ or nobody knows. */
#include "onnx_int.h"

static tn_ox_obj list_of(tn_ox_obj item) {
  item.kind = item.kind == TN_OX_K_MAP ? TN_OX_K_SEQUENCE_MAP : TN_OX_K_SEQUENCE;
  return item;
}
/* What an item that is one or the other is. */
static tn_ox_obj either(tn_ox *c, tn_ox_obj a, tn_ox_obj b) {
  tn_ox_obj r = a;
  if (a.rank == -2) { r = b; r.kind = a.kind; return r; }
  if (b.rank == -2) return a;
  if (a.elem != b.elem) r.elem = 0;
  if (a.elem != b.elem || a.rank != b.rank) { r.rank = -1; return r; }
  if (r.rank <= 0) return r;
  tn_dim *d = TN_NEW(c->b.g->arena, tn_dim, r.rank);
  if (!d) { r.rank = -1; return r; }
  for (int i = 0; i < r.rank; i++) d[i] = a.dim[i] == b.dim[i] ? a.dim[i] : TN_DIM_BAD;
  r.dim = d;
  return r;
}
static tn_ref any(tn_ox *c, uint32_t k) {
  if (c->b.st == TN_OK && !tn_ox_has(c, k)) tn_ox_bad(c, "operand %u is missing", k);
  return c->b.st == TN_OK ? c->in[k] : (tn_ref){0};
}
static tn_ref list(tn_ox *c, uint32_t k, tn_ox_obj *out) {
  tn_ref r = any(c, k);
  *out = (tn_ox_obj){.kind = TN_OX_K_SEQUENCE, .rank = -1};
  if (c->b.st != TN_OK) return r;
  *out = tn_ox_obj_of(c->e, r);
  if (out->kind == TN_OX_K_ANY) *out = (tn_ox_obj){.kind = TN_OX_K_SEQUENCE, .rank = -1};
  if (out->kind != TN_OX_K_SEQUENCE && out->kind != TN_OX_K_SEQUENCE_MAP) tn_ox_bad(c, "operand %u is no list", k);
  return r;
}
/* A DYN node with one result that is described by o. */
static tn_ref made(tn_ox *c, const char *op, const tn_ref *in, uint32_t n, const tn_attr *at, uint32_t n_at, tn_ox_obj o) {
  if (c->b.st != TN_OK) return (tn_ref){0};
  tn_type t = tn_ox_type_of(c, &o);
  tn_ref r = tn_ox_dyn(c, op, in, n, at, n_at, &t, 1);
  tn_ox_describe(c, r, o);
  return r;
}
static tn_ox_obj item_of(tn_ox_obj l) {
  l.kind = l.kind == TN_OX_K_SEQUENCE_MAP ? TN_OX_K_MAP : TN_OX_K_TENSOR;
  if (l.rank < -1) l.rank = -1;
  if (l.kind == TN_OX_K_TENSOR && !l.elem) l.kind = TN_OX_K_ANY;
  return l;
}
tn_ref tn_ox_item_at(tn_ox *c, tn_ref l, tn_ox_obj o, tn_ref at) {
  tn_ref in[2] = {l, at};
  return made(c, "sequence_at", in, 2, NULL, 0, item_of(o));
}
tn_ref tn_ox_insert(tn_ox *c, tn_ref l, tn_ref item, tn_ref at) {
  tn_ref in[3] = {l, item, at};
  if (c->b.st != TN_OK) return l;
  tn_ox_obj have = tn_ox_obj_of(c->e, l), one = list_of(tn_ox_obj_of(c->e, item));
  if (have.kind == TN_OX_K_ANY) have = (tn_ox_obj){.kind = TN_OX_K_SEQUENCE, .rank = -1};
  return made(c, "sequence_insert", in, at.id ? 3 : 2, NULL, 0, either(c, have, one));
}

tn_status tn_ox_sequence_empty(tn_ox *c) {
  tn_ox_obj o = {.kind = TN_OX_K_SEQUENCE, .elem = (uint8_t)tn_ox_int(c, "dtype", 1), .rank = -2};
  return tn_ox_ret(c, 0, made(c, "sequence_empty", NULL, 0, NULL, 0, o));
}
tn_status tn_ox_sequence_construct(tn_ox *c) {
  tn_ox_obj o = {.kind = TN_OX_K_SEQUENCE, .rank = -2};
  for (uint32_t k = 0; k < c->n_in; k++) {
    tn_ref r = any(c, k);
    if (c->b.st != TN_OK) return c->b.st;
    o = either(c, o, list_of(tn_ox_obj_of(c->e, r)));
  }
  return tn_ox_ret(c, 0, made(c, "sequence_construct", c->in, c->n_in, NULL, 0, o));
}
tn_status tn_ox_sequence_at(tn_ox *c) {
  tn_ox_obj o;
  tn_ref l = list(c, 0, &o), at = tn_ox_in(c, 1);
  return tn_ox_ret(c, 0, c->b.st == TN_OK ? tn_ox_item_at(c, l, o, at) : l);
}
tn_status tn_ox_sequence_insert(tn_ox *c) {
  tn_ox_obj o;
  tn_ref l = list(c, 0, &o), item = any(c, 1), at = tn_ox_opt(c, 2);
  return tn_ox_ret(c, 0, tn_ox_insert(c, l, item, at));
}
tn_status tn_ox_sequence_erase(tn_ox *c) {
  tn_ox_obj o;
  tn_ref in[2] = {list(c, 0, &o), tn_ox_opt(c, 1)};
  return tn_ox_ret(c, 0, made(c, "sequence_erase", in, in[1].id ? 2 : 1, NULL, 0, o));
}
tn_status tn_ox_sequence_length(tn_ox *c) {
  tn_ox_obj o;
  tn_ref l = list(c, 0, &o);
  return tn_ox_ret(c, 0, made(c, "sequence_length", &l, 1, NULL, 0, (tn_ox_obj){.kind = TN_OX_K_TENSOR, .elem = 7}));
}

/* ---- between tensors and lists ---- */
tn_status tn_ox_split_to_sequence(tn_ox *c) {
  tn_ref in[2] = {any(c, 0), tn_ox_opt(c, 1)};
  if (c->b.st != TN_OK) return c->b.st;
  tn_ox_obj o = tn_ox_obj_of(c->e, in[0]);
  bool keep = in[1].id || tn_ox_int(c, "keepdims", 1) != 0;
  int64_t axis = tn_ox_int(c, "axis", 0);
  o.kind = TN_OX_K_SEQUENCE;
  if (o.rank >= 0) {
    int a = tn_ox_wrap(c, axis, o.rank), n = 0;
    tn_dim *d = TN_NEW(c->b.g->arena, tn_dim, o.rank + 1);
    if (!d) return c->b.st = tn_fail(c->b.d, TN_E_NOMEM, "a list");
    for (int i = 0; i < o.rank; i++)
      if (i != a || keep) d[n++] = i != a ? o.dim[i] : in[1].id ? TN_DIM_BAD : 1;
    o.dim = d;
    o.rank = (int8_t)n;
  }
  tn_attr at[2] = {tn_mk_int("axis", axis), tn_mk_int("keepdims", keep)};
  return tn_ox_ret(c, 0, made(c, "split_to_sequence", in, in[1].id ? 2 : 1, at, 2, o));
}
tn_status tn_ox_concat_from_sequence(tn_ox *c) {
  tn_ox_obj o;
  tn_ref l = list(c, 0, &o);
  bool fresh = tn_ox_int(c, "new_axis", 0) != 0;
  int64_t axis = tn_ox_int(c, "axis", 0);
  if (c->b.st != TN_OK) return c->b.st;
  o = item_of(o);
  if (o.rank >= 0) {
    int a = tn_ox_wrap(c, axis, o.rank + fresh);
    tn_dim *d = TN_NEW(c->b.g->arena, tn_dim, o.rank + 2);
    if (!d) return c->b.st = tn_fail(c->b.d, TN_E_NOMEM, "a tensor from a list");
    if (o.rank + fresh > TN_MAX_RANK) return tn_ox_unsup(c, "a result of rank %d", o.rank + fresh);
    for (int i = 0, j = 0; i < o.rank + fresh; i++) {
      d[i] = i == a ? TN_DIM_BAD : o.dim[j];
      j += !(fresh && i == a);
    }
    o.dim = d;
    o.rank = (int8_t)(o.rank + fresh);
  }
  tn_attr at[2] = {tn_mk_int("axis", axis), tn_mk_int("new_axis", fresh)};
  return tn_ox_ret(c, 0, made(c, "concat_from_sequence", &l, 1, at, 2, o));
}

/* ---- optionals ---- */
tn_status tn_ox_optional(tn_ox *c) {
  tn_ox_obj o = {.kind = TN_OX_K_OPTIONAL, .rank = -2};
  if (!tn_ox_has(c, 0)) return tn_ox_ret(c, 0, made(c, "optional", NULL, 0, NULL, 0, o));
  o = tn_ox_obj_of(c->e, c->in[0]);
  o.kind = o.kind == TN_OX_K_TENSOR ? TN_OX_K_OPTIONAL : o.kind == TN_OX_K_SEQUENCE ? TN_OX_K_OPTIONAL_SEQUENCE : TN_OX_K_ANY;
  return tn_ox_ret(c, 0, made(c, "optional", c->in, 1, NULL, 0, o));
}
tn_status tn_ox_optional_has_element(tn_ox *c) {
  if (!tn_ox_has(c, 0)) return tn_ox_ret(c, 0, tn_b_int(&c->b, 0, TN_BOOL));
  tn_ox_obj o = tn_ox_obj_of(c->e, c->in[0]);
  if (tn_typeof(c->b.g, c->in[0])->dtype != TN_OBJ || o.kind == TN_OX_K_SEQUENCE) return tn_ox_ret(c, 0, tn_b_int(&c->b, 1, TN_BOOL));
  return tn_ox_ret(c, 0, made(c, "optional_has", c->in, 1, NULL, 0, (tn_ox_obj){.kind = TN_OX_K_TENSOR, .elem = 9}));
}
tn_status tn_ox_optional_get_element(tn_ox *c) {
  tn_ref r = any(c, 0);
  if (c->b.st != TN_OK) return c->b.st;
  tn_ox_obj o = tn_ox_obj_of(c->e, r);
  if (tn_typeof(c->b.g, r)->dtype != TN_OBJ || o.kind == TN_OX_K_SEQUENCE || o.kind == TN_OX_K_TENSOR) return tn_ox_ret(c, 0, r);
  if (o.kind == TN_OX_K_OPTIONAL_SEQUENCE) o.kind = TN_OX_K_SEQUENCE;
  else if (o.kind == TN_OX_K_OPTIONAL) o.kind = o.elem ? TN_OX_K_TENSOR : TN_OX_K_ANY;
  if (o.kind == TN_OX_K_TENSOR && o.rank < -1) o.rank = -1;
  return tn_ox_ret(c, 0, made(c, "optional_get", &r, 1, NULL, 0, o));
}

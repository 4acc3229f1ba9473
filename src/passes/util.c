/* util: reading a graph in the middle of a rewrite, and building into it. The helpers every pass would otherwise write again:
 * resolved operands, shapes compared by handle, fills seen through views. Nothing here changes what a graph means. */
#include "passes/passes_int.h"
#include <string.h>

tn_ref tn_px_in(tn_graph *g, uint32_t node, uint32_t k) {
  tn_ref r = tn_graph_resolve(g, g->node[node].in[k]);
  g->node[node].in[k] = r;
  return r;
}

bool tn_px_same_dims(uint32_t ra, const tn_dim *a, uint32_t rb, const tn_dim *b) {
  if (ra != rb) return false;
  for (uint32_t i = 0; i < ra; i++)
    if (a[i] != b[i] || a[i] == TN_DIM_BAD) return false;
  return true;
}
bool tn_px_same_shape(const tn_type *a, const tn_type *b) { return tn_px_same_dims(a->rank, a->dim, b->rank, b->dim); }

tn_dim tn_px_numel(tn_graph *g, const tn_type *t) {
  tn_dim n = 1;
  for (uint32_t i = 0; i < t->rank; i++)
    if ((n = tn_dim_mul(g->dims, n, t->dim[i])) == TN_DIM_BAD) return n;
  return n;
}

bool tn_px_static(const tn_type *t, int64_t *out_numel) {
  int64_t n = 1;
  for (uint32_t i = 0; i < t->rank; i++)
    if (!tn_dim_is_const(t->dim[i])) return false;
  for (uint32_t i = 0; i < t->rank; i++)
    if (t->dim[i] == 0) { *out_numel = 0; return true; }
  for (uint32_t i = 0; i < t->rank; i++) {
    if (t->dim[i] > ((int64_t)1 << 40) / n) return false;
    n *= t->dim[i];
  }
  *out_numel = n;
  return true;
}

bool tn_px_broadcasts_to(const tn_type *a, uint32_t rank, const tn_dim *dim) {
  if (a->rank > rank) return false;
  for (uint32_t i = 0; i < a->rank; i++) {
    tn_dim x = a->dim[i], y = dim[rank - a->rank + i];
    if (x != y && x != 1) return false;
  }
  return true;
}

bool tn_px_unit_map(const tn_type *from, const tn_type *to, int *at) {
  uint32_t i = 0;
  for (uint32_t j = 0; j < to->rank; j++) {
    at[j] = -1;
    if (to->dim[j] == 1) continue;
    while (i < from->rank && from->dim[i] == 1) i++;
    if (i == from->rank || from->dim[i] != to->dim[j]) return false;
    at[j] = (int)i++;
  }
  while (i < from->rank && from->dim[i] == 1) i++;
  return i == from->rank;
}

bool tn_px_is_view(tn_op op) { return op == TN_OP_RESHAPE || op == TN_OP_PERMUTE || op == TN_OP_BROADCAST || op == TN_OP_SLICE; }
bool tn_px_is_dear(tn_op op) {
  switch (op) {
  case TN_OP_EXP: case TN_OP_EXP2: case TN_OP_EXPM1: case TN_OP_LOG: case TN_OP_LOG2: case TN_OP_LOG10: case TN_OP_LOG1P: case TN_OP_SIN:
  case TN_OP_COS: case TN_OP_TAN: case TN_OP_ASIN: case TN_OP_ACOS: case TN_OP_ATAN: case TN_OP_SINH: case TN_OP_COSH: case TN_OP_TANH:
  case TN_OP_ASINH: case TN_OP_ACOSH: case TN_OP_ATANH: case TN_OP_ERF: case TN_OP_ERFC: case TN_OP_SIGMOID: case TN_OP_POW: case TN_OP_ATAN2:
    return true;
  default: return false;
  }
}
bool tn_px_is_pw(tn_op op) { return tn_op_is_scalar(op) || op == TN_OP_CAST || op == TN_OP_COPY; }

static bool number_of(const tn_attr_val *v, tn_dtype t, tn_num *out) {
  if (!v) return false;
  switch (v->kind) {
  case TN_AT_FLOAT: { tn_num x = {.f = v->u.f}; *out = tn_num_cast(x, TN_F64, t); return true; }
  case TN_AT_INT: { tn_num x = {.i = v->u.i}; *out = tn_num_cast(x, TN_I64, t); return true; }
  case TN_AT_BOOL: { tn_num x = {.i = v->u.b}; *out = tn_num_cast(x, TN_BOOL, t); return true; }
  case TN_AT_DIM:
    if (!tn_dim_is_const(v->u.d)) return false;
    { tn_num x = {.i = v->u.d}; *out = tn_num_cast(x, TN_I64, t); return true; }
  default: return false;
  }
}

bool tn_px_fill(const tn_graph *g, tn_ref r, tn_num *out) {
  for (int depth = 0; depth < 32; depth++) {
    r = tn_graph_resolve(g, r);
    const tn_node *n = &g->node[g->value[r.id].node];
    const tn_type *t = tn_typeof(g, r);
    if (n->op == TN_OP_FULL) return number_of(tn_attr_get(n, "value"), (tn_dtype)t->dtype, out);
    if (n->op == TN_OP_CONST) {
      int64_t numel;
      if (!n->data || !n->data->p || !tn_px_static(t, &numel) || numel != 1 || n->data->bytes < tn_dtype_size((tn_dtype)t->dtype)) return false;
      *out = tn_num_load((tn_dtype)t->dtype, n->data->p);
      return true;
    }
    if (!tn_px_is_view(n->op)) return false;
    r = n->in[0];
  }
  return false;
}

bool tn_px_fill_is(const tn_graph *g, tn_ref r, double v) {
  tn_num x;
  if (!tn_px_fill(g, r, &x)) return false;
  return tn_dtype_is_float((tn_dtype)tn_typeof(g, r)->dtype) ? x.f == v : (double)x.i == v;
}

/* ---- building ---- */

tn_ref tn_px_add(tn_px *b, tn_op op, const tn_ref *in, uint32_t n_in, const tn_attr *attr, uint32_t n_attr) {
  tn_ref r = {0};
  if (b->st != TN_OK) return r;
  for (uint32_t i = 0; i < n_in; i++)
    if (!in[i].id) {
      b->st = tn_fail(b->d, TN_E_INTERNAL, "a rewrite hands %s an operand that is not there", tn_op_name(op));
      return r;
    }
  b->st = tn_ops_add(b->d, b->g, op, in, n_in, attr, n_attr, b->prov, &r);
  if (b->st != TN_OK) r.id = 0;
  return r;
}
tn_ref tn_px_1(tn_px *b, tn_op op, tn_ref a) { return tn_px_add(b, op, &a, 1, NULL, 0); }
tn_ref tn_px_2(tn_px *b, tn_op op, tn_ref x, tn_ref y) {
  tn_ref in[2] = {x, y};
  return tn_px_add(b, op, in, 2, NULL, 0);
}

tn_ref tn_px_fill_of(tn_px *b, tn_dtype t, uint32_t rank, const tn_dim *dim, tn_num v) {
  tn_attr at[3] = {tn_mk_dims(b->g, "shape", dim, rank),
                   tn_dtype_is_float(t) ? tn_mk_float("value", v.f) : t == TN_BOOL ? tn_mk_bool("value", v.i != 0) : tn_mk_int("value", v.i),
                   tn_mk_dtype("dtype", t)};
  return tn_px_add(b, TN_OP_FULL, NULL, 0, at, 3);
}

static tn_ref shaped(tn_px *b, tn_op op, tn_ref a, uint32_t rank, const tn_dim *dim) {
  if (b->st != TN_OK) return (tn_ref){0};
  const tn_type *t = tn_typeof(b->g, a);
  if (tn_px_same_dims(t->rank, t->dim, rank, dim)) return a;
  tn_attr at = tn_mk_dims(b->g, "shape", dim, rank);
  return tn_px_add(b, op, &a, 1, &at, 1);
}
tn_ref tn_px_reshape(tn_px *b, tn_ref a, uint32_t rank, const tn_dim *dim) { return shaped(b, TN_OP_RESHAPE, a, rank, dim); }
tn_ref tn_px_broadcast(tn_px *b, tn_ref a, uint32_t rank, const tn_dim *dim) { return shaped(b, TN_OP_BROADCAST, a, rank, dim); }

tn_ref tn_px_permute(tn_px *b, tn_ref a, const int *perm) {
  if (b->st != TN_OK) return (tn_ref){0};
  uint32_t rank = tn_typeof(b->g, a)->rank;
  tn_dim p[TN_MAX_RANK];
  bool same = true;
  for (uint32_t i = 0; i < rank; i++) {
    p[i] = perm[i];
    same = same && perm[i] == (int)i;
  }
  if (same) return a;
  tn_attr at = tn_mk_dims(b->g, "perm", p, rank);
  return tn_px_add(b, TN_OP_PERMUTE, &a, 1, &at, 1);
}

tn_ref tn_px_contract(tn_px *b, const char *labels, tn_ref x, tn_ref y) {
  if (b->st != TN_OK) return (tn_ref){0};
  const char *copy = tn_arena_strdup(b->g->arena, labels);
  if (!copy) {
    b->st = tn_fail(b->d, TN_E_NOMEM, "labels of a contract");
    return (tn_ref){0};
  }
  tn_attr at = tn_mk_str("labels", copy);
  tn_ref in[2] = {x, y};
  return tn_px_add(b, TN_OP_CONTRACT, in, 2, &at, 1);
}

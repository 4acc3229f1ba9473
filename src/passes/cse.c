/* cse: value numbering. Two nodes with the same op, attributes, result types and (already numbered) operands are one; the first stays.
 * Commutative ops are numbered with their operands in order of id. Constants are compared by bytes.
 * Not merged: inputs, calls, opaque and fused nodes (a host call may have effects), and copies, whose point is to be separate. */
#include "passes/passes_int.h"
#include <string.h>

static bool may_merge(tn_op op) {
  return op != TN_OP_INPUT && op != TN_OP_CALL && op != TN_OP_OPAQUE && op != TN_OP_DYN && op != TN_OP_FUSED && op != TN_OP_COPY;
}
static bool commutes(tn_op op) {
  switch (op) {
  case TN_OP_ADD: case TN_OP_MUL: case TN_OP_AND: case TN_OP_OR: case TN_OP_XOR: case TN_OP_EQ: case TN_OP_NE: return true;
  default: return false; /* max and min of equal zeros or NaNs hand back one side or the other */
  }
}

static uint64_t hash_val(const tn_attr_val *v, uint64_t h) {
  h = tn_hash(&v->kind, sizeof v->kind, h);
  switch (v->kind) {
  case TN_AT_STR: return tn_hash(v->u.s, strlen(v->u.s), h);
  case TN_AT_LIST:
    h = tn_hash(&v->u.list.n, sizeof v->u.list.n, h);
    for (uint32_t i = 0; i < v->u.list.n; i++) h = hash_val(&v->u.list.item[i], h);
    return h;
  case TN_AT_FLOAT: return tn_hash(&v->u.f, sizeof v->u.f, h);
  case TN_AT_BOOL: return tn_hash(&v->u.b, sizeof v->u.b, h);
  case TN_AT_DTYPE: return tn_hash(&v->u.t, sizeof v->u.t, h);
  case TN_AT_INT: return tn_hash(&v->u.i, sizeof v->u.i, h);
  case TN_AT_DIM: return tn_hash(&v->u.d, sizeof v->u.d, h);
  case TN_AT_REF: return tn_hash(&v->u.ref, sizeof v->u.ref, h);
  default: return h;
  }
}
static bool same_val(const tn_attr_val *a, const tn_attr_val *b) {
  if (a->kind != b->kind) return false;
  switch (a->kind) {
  case TN_AT_STR: return strcmp(a->u.s, b->u.s) == 0;
  case TN_AT_FLOAT: return memcmp(&a->u.f, &b->u.f, sizeof a->u.f) == 0; /* bits: NaN equals itself, zeros differ */
  case TN_AT_BOOL: return a->u.b == b->u.b;
  case TN_AT_DTYPE: return a->u.t == b->u.t;
  case TN_AT_INT: return a->u.i == b->u.i;
  case TN_AT_DIM: return a->u.d == b->u.d;
  case TN_AT_REF: return a->u.ref == b->u.ref;
  case TN_AT_LIST:
    if (a->u.list.n != b->u.list.n) return false;
    for (uint32_t i = 0; i < a->u.list.n; i++)
      if (!same_val(&a->u.list.item[i], &b->u.list.item[i])) return false;
    return true;
  default: return true;
  }
}

static void key_operands(tn_graph *g, uint32_t id, uint32_t *in) {
  const tn_node *n = &g->node[id];
  for (uint32_t k = 0; k < n->n_in && k < 3; k++) in[k] = n->in[k].id;
  if (commutes(n->op) && n->n_in == 2 && in[0] > in[1]) {
    uint32_t t = in[0];
    in[0] = in[1];
    in[1] = t;
  }
}
static uint64_t hash_node(tn_graph *g, uint32_t id) {
  const tn_node *n = &g->node[id];
  uint32_t in[3] = {0};
  key_operands(g, id, in);
  uint64_t h = tn_hash(in, sizeof in, (uint64_t)n->op * 31 + n->n_in);
  for (uint32_t k = 3; k < n->n_in; k++) h = tn_hash(&n->in[k].id, sizeof n->in[k].id, h);
  for (uint32_t k = 0; k < n->n_attr; k++) h = hash_val(&n->attr[k].val, tn_hash(n->attr[k].name, strlen(n->attr[k].name), h));
  if (n->op == TN_OP_CONST && n->data && n->data->p) h = tn_hash(n->data->p, n->data->bytes, h);
  const tn_type *t = tn_typeof(g, tn_out(n, 0));
  h = tn_hash(&t->dtype, sizeof t->dtype, h);
  return tn_hash(t->dim, t->rank * sizeof *t->dim, h);
}
static bool same_node(tn_graph *g, uint32_t x, uint32_t y) {
  const tn_node *a = &g->node[x], *b = &g->node[y];
  uint32_t ia[3] = {0}, ib[3] = {0};
  if (a->op != b->op || a->n_in != b->n_in || a->n_attr != b->n_attr || a->n_out != b->n_out) return false;
  key_operands(g, x, ia);
  key_operands(g, y, ib);
  if (memcmp(ia, ib, sizeof ia) != 0) return false;
  for (uint32_t k = 3; k < a->n_in; k++)
    if (a->in[k].id != b->in[k].id) return false;
  for (uint32_t k = 0; k < a->n_attr; k++)
    if (strcmp(a->attr[k].name, b->attr[k].name) != 0 || !same_val(&a->attr[k].val, &b->attr[k].val)) return false;
  for (uint32_t k = 0; k < a->n_out; k++) {
    const tn_type *s = tn_typeof(g, tn_out(a, k)), *t = tn_typeof(g, tn_out(b, k));
    if (s->dtype != t->dtype || !tn_px_same_shape(s, t)) return false;
  }
  if (a->op != TN_OP_CONST) return true;
  if (!a->data || !b->data || !a->data->p || !b->data->p) return false; /* bytes unknown: a graph that was printed short */
  return a->data->bytes == b->data->bytes && memcmp(a->data->p, b->data->p, a->data->bytes) == 0;
}

tn_status tn_cse_run(tn_pass_ctx *p, tn_graph *g, uint32_t *out_changes) {
  TN_TRY(tn_graph_compact(p->d, g));
  tn_map m;
  tn_status s = TN_OK;
  uint32_t n = 0, *next = TN_NEW(p->scratch, uint32_t, g->n_nodes); /* older nodes with the same hash */
  if (!next) return tn_fail(p->d, TN_E_NOMEM, "numbering %u nodes", g->n_nodes);
  tn_map_init(&m);
  for (uint32_t id = 1; id < g->n_nodes && s == TN_OK; id++) {
    tn_node *x = &g->node[id];
    uint32_t old = 0;
    if (!may_merge(x->op) || x->n_out == 0) continue;
    for (uint32_t k = 0; k < x->n_in; k++) tn_px_in(g, id, k);
    uint64_t h = hash_node(g, id);
    if (!tn_map_get_u64(&m, h, &old)) old = 0;
    uint32_t same = old;
    while (same && !same_node(g, same, id)) same = next[same];
    if (same) {
      for (uint32_t k = 0; k < x->n_out; k++) tn_graph_replace(g, tn_out(x, k), tn_out(&g->node[same], k));
      n++;
      continue;
    }
    next[id] = old;
    if (!tn_map_put_u64(&m, h, id)) s = tn_fail(p->d, TN_E_NOMEM, "numbering %u nodes", g->n_nodes);
  }
  tn_map_deinit(&m);
  *out_changes = n;
  if (s != TN_OK) return s;
  return n ? tn_graph_compact(p->d, g) : TN_OK;
}

tn_status tn_pass_cse(tn_pass_ctx *p, tn_graph *g) {
  uint32_t n;
  return tn_cse_run(p, g, &n);
}

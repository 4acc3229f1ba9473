/* fuse_emit: writes each group as one FUSED node with a body.
 *
 * Members are copied in program order. An operand from inside comes over its views, copied too; cheap things are copied from wherever
 * they are; everything else becomes an input of the body, once per value. Results are the members that somebody outside reads, through
 * views or not. All bodies are built before any reader is redirected: copying needs the graph as it was. */
#include "passes/fuse_int.h"
#include <stdlib.h>
#include <string.h>

typedef struct emitter {
  fx *f;
  uint32_t group;
  tn_graph *body;
  uint32_t *map;               /* [n_values] value of the graph -> value of the body */
  uint32_t *touched, n_touched;/* entries of map to wipe for the next group */
  tn_ref *in; uint32_t n_in, cap_in;
} emitter;

static tn_status note(emitter *e, uint32_t value, uint32_t in_body) {
  e->map[value] = in_body;
  e->touched[e->n_touched++] = value;
  return TN_OK;
}

static tn_status border(emitter *e, tn_ref v) {
  fx *f = e->f;
  tn_ref r;
  if (e->map[v.id]) return TN_OK;
  const tn_type *t = tn_typeof(f->g, v);
  if (!TN_PUSH_ROOM(f->a, e->in, e->n_in, e->cap_in)) return FX_OOM(f);
  TN_TRY(tn_graph_add_input(e->body, NULL, *t, TN_ORIGIN_INPUT, &r));
  e->in[e->n_in++] = v;
  return note(e, v.id, r.id);
}

/* A one-element constant becomes a fill, so that kernels need no memory for it. */
static tn_status copy_const(emitter *e, uint32_t node) {
  fx *f = e->f;
  const tn_type *t = fx_type(f, node);
  tn_num v = tn_num_load((tn_dtype)t->dtype, f->g->node[node].data->p);
  tn_px b = {.d = f->d, .g = e->body, .prov = f->g->node[node].prov};
  tn_ref r = tn_px_fill_of(&b, (tn_dtype)t->dtype, t->rank, t->dim, v);
  if (b.st != TN_OK) return b.st;
  return note(e, tn_out(&f->g->node[node], 0).id, r.id);
}

static tn_status bring(emitter *e, tn_ref v, bool outside, int depth);

static tn_status copy(emitter *e, uint32_t node, int depth) {
  fx *f = e->f;
  const tn_node *n = &f->g->node[node];
  if (n->op == TN_OP_CONST) return copy_const(e, node);
  for (uint32_t k = 0; k < n->n_in; k++) TN_TRY(bring(e, n->in[k], fx_outside_operand(f, node, k), depth + 1));
  tn_status s = tn_graph_copy_node(e->body, f->g, node, e->map);
  if (s == TN_E_NOMEM) return FX_OOM(f);
  if (s != TN_OK) return tn_fail(f->d, TN_E_INTERNAL, "copying node %u (%s) into a body", node, tn_op_name(n->op));
  e->body->node[e->body->n_nodes - 1].prov = n->prov;
  for (uint32_t k = 0; k < n->n_out; k++) e->touched[e->n_touched++] = n->out + k;
  return TN_OK;
}

/* Makes value v known in the body. */
static tn_status bring(emitter *e, tn_ref v, bool outside, int depth) {
  fx *f = e->f;
  if (e->map[v.id]) return TN_OK;
  if (depth > 512) return tn_fail(f->d, TN_E_INTERNAL, "a chain of views longer than 512");
  uint32_t base = fx_trace_back(f, v, 1).base;
  bool inside = f->of[base] == e->group, cheap = f->cls[base] == FX_CHEAP && !outside;
  if (!inside && !cheap) return border(e, v);
  return copy(e, fx_def(f, v), depth);
}

static int rank_of(const fx *f, uint32_t node) {
  switch (f->cls[node]) {
  case FX_ANCHOR: return f->g->node[node].op == TN_OP_WINDOW ? 4 : 5;
  case FX_REDUCE: return 3;
  case FX_INDEX: return 2;
  default: return 1;
  }
}
static uint32_t main_prov(const fx *f, const fx_group *x) {
  uint32_t best = x->anchor ? x->anchor : x->member[0];
  for (uint32_t i = 0; i < x->n; i++)
    if (!x->anchor && rank_of(f, x->member[i]) > rank_of(f, best)) best = x->member[i];
  return f->g->node[best].prov;
}

static int by_number(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

static const char *const kind_name[] = {"pointwise", "reduction", "contract", "attention"};

static tn_status emit_group(emitter *e, uint32_t number, uint32_t *out_node, uint32_t **out_results, uint32_t *out_n) {
  fx *f = e->f;
  fx_group *x = &f->group[number];
  uint32_t n_res = 0, *result = TN_NEW(f->a, uint32_t, x->n);
  tn_type *type = TN_NEW(f->a, tn_type, x->n);
  if (!result || !type) return FX_OOM(f);
  while (e->n_touched) e->map[e->touched[--e->n_touched]] = 0;
  e->group = number;
  e->n_in = 0;
  qsort(x->member, x->n, sizeof *x->member, by_number);
  if (tn_graph_body(f->g, "body", &e->body) != TN_OK) return FX_OOM(f);
  for (uint32_t i = 0; i < x->n; i++)
    if (!e->map[tn_out(&f->g->node[x->member[i]], 0).id]) TN_TRY(copy(e, x->member[i], 0));
  for (uint32_t i = 0; i < x->n; i++) {
    uint32_t m = x->member[i];
    if (!fx_escapes(f, m, number)) continue;
    tn_ref inner = {e->map[tn_out(&f->g->node[m], 0).id]};
    if (tn_graph_add_output(e->body, inner) != TN_OK) return FX_OOM(f);
    type[n_res] = *fx_type(f, m);
    result[n_res++] = m;
  }
  *out_n = n_res;
  *out_results = result;
  if (n_res == 0) return TN_OK;
  tn_attr kind = tn_mk_str("kind", kind_name[x->kind]);
  if (tn_graph_add(f->g, TN_OP_FUSED, e->in, e->n_in, &kind, 1, type, n_res, main_prov(f, x), out_node) != TN_OK) return FX_OOM(f);
  f->g->node[*out_node].body = e->body;
  return TN_OK;
}

tn_status fx_emit(fx *f) {
  emitter e = {.f = f};
  e.map = TN_NEW(f->a, uint32_t, f->g->n_values);
  e.touched = TN_NEW(f->a, uint32_t, 2 * (size_t)f->g->n_values + 1);
  uint32_t *node = TN_NEW(f->a, uint32_t, f->n_groups), **result = TN_NEW(f->a, uint32_t *, f->n_groups), *n_res = TN_NEW(f->a, uint32_t, f->n_groups);
  if (!e.map || !e.touched || !node || !result || !n_res) return FX_OOM(f);
  for (uint32_t i = 1; i < f->n_groups; i++)
    if (f->group[i].live) TN_TRY_WHILE(f->d, emit_group(&e, i, &node[i], &result[i], &n_res[i]), "writing a %s kernel", kind_name[f->group[i].kind]);
  for (uint32_t i = 1; i < f->n_groups; i++)
    for (uint32_t k = 0; k < n_res[i]; k++)
      tn_graph_replace(f->g, tn_out(&f->g->node[result[i][k]], 0), tn_out(&f->g->node[node[i]], k));
  return TN_OK;
}

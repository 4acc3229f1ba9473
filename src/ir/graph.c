/* graph.c: building graphs. Nodes and values are dense arrays in the arena that double when full, so growing leaves the old copies in
 * the arena (at most as much again) and moves every tn_node and tn_value pointer: keep ids, not pointers, across an add.
 * An add that fails changes nothing a reader can see. Nothing is checked here beyond what would corrupt memory: see verify.c. */
#include <string.h>
#include "ir/ir_int.h"

static tn_status create(tn_arena *a, tn_dims *dims, const char *name, tn_graph *outer, tn_graph **out) {
  *out = NULL;
  tn_graph *g = TN_NEW(a, tn_graph, 1);
  if (!g) return TN_E_NOMEM;
  g->name = tn_arena_strdup(a, name ? name : "");
  g->arena = a;
  g->dims = dims;
  g->outer = outer;
  g->cap_nodes = g->cap_values = 16;
  g->node = TN_NEW(a, tn_node, g->cap_nodes);
  g->value = TN_NEW(a, tn_value, g->cap_values);
  g->forward = TN_NEW(a, uint32_t, g->cap_values);
  if (!g->name || !g->node || !g->value || !g->forward) return TN_E_NOMEM;
  g->n_nodes = g->n_values = 1;
  if (!outer) {
    g->cap_prov = 8;
    g->prov = TN_NEW(a, tn_prov, g->cap_prov);
    if (!g->prov) return TN_E_NOMEM;
    g->n_prov = 1;
  }
  *out = g;
  return TN_OK;
}

tn_status tn_graph_create(tn_arena *a, tn_dims *dims, const char *name, tn_graph **out) { return create(a, dims, name, NULL, out); }
tn_status tn_graph_body(tn_graph *outer, const char *name, tn_graph **out) { return create(outer->arena, outer->dims, name, outer, out); }

static tn_status reserve_values(tn_graph *g, uint32_t more) {
  uint64_t want = (uint64_t)g->n_values + more, cap = g->cap_values;
  if (want <= cap) return TN_OK;
  while (cap < want) cap *= 2;
  if (cap > UINT32_MAX / 2) return TN_E_NOMEM;
  tn_value *v = tn_arena_grow(g->arena, g->value, g->n_values * sizeof *v, cap * sizeof *v);
  uint32_t *f = tn_arena_grow(g->arena, g->forward, g->n_values * sizeof *f, cap * sizeof *f);
  if (!v || !f) return TN_E_NOMEM;
  g->value = v;
  g->forward = f;
  g->cap_values = (uint32_t)cap;
  return TN_OK;
}

tn_status tn_graph_add(tn_graph *g, tn_op op, const tn_ref *in, uint32_t n_in, const tn_attr *attr, uint32_t n_attr,
                       const tn_type *out_type, uint32_t n_out, uint32_t prov, uint32_t *out_node) {
  tn_node n = {.op = op, .n_in = (uint16_t)n_in, .n_out = (uint16_t)n_out, .n_attr = (uint16_t)n_attr, .prov = prov};
  *out_node = 0;
  if (n_in > TN_IR_MAX_PER_NODE || n_out > TN_IR_MAX_PER_NODE || n_attr > TN_IR_MAX_ATTRS) return TN_E_ARG;
  for (uint32_t i = 0; i < n_out; i++)
    if (out_type[i].rank > 0 && !out_type[i].dim) return TN_E_NOMEM; /* tn_type_make said so */
  if (n_in) {
    n.in = TN_NEW(g->arena, tn_ref, n_in);
    if (!n.in) return TN_E_NOMEM;
    memcpy(n.in, in, n_in * sizeof *in);
  }
  TN_TRY(tn_attr_copy(g, op, attr, n_attr, &n.attr));
  TN_TRY(reserve_values(g, n_out));
  if (!TN_PUSH_ROOM(g->arena, g->node, g->n_nodes, g->cap_nodes)) return TN_E_NOMEM;
  n.out = g->n_values;
  for (uint32_t i = 0; i < n_out; i++) {
    g->value[g->n_values] = (tn_value){out_type[i], g->n_nodes, (uint16_t)i, NULL};
    g->forward[g->n_values++] = 0;
  }
  g->node[g->n_nodes] = n;
  *out_node = g->n_nodes++;
  return TN_OK;
}

/* Takes back the node just added (its values too): the later steps of a two-step add failed. */
static tn_status undo_add(tn_graph *g, tn_status s) {
  g->n_nodes--;
  g->n_values = g->node[g->n_nodes].out;
  return s;
}

tn_status tn_graph_add_input(tn_graph *g, const char *name, tn_type t, tn_origin origin, tn_ref *out) {
  uint32_t id;
  out->id = 0;
  if (!TN_PUSH_ROOM(g->arena, g->input, g->n_inputs, g->cap_inputs)) return TN_E_NOMEM;
  tn_input_info *info = TN_NEW(g->arena, tn_input_info, 1);
  if (!info) return TN_E_NOMEM;
  info->origin = origin;
  TN_TRY(tn_graph_add(g, TN_OP_INPUT, NULL, 0, NULL, 0, &t, 1, 0, &id));
  g->node[id].input = info;
  tn_ref r = tn_out(&g->node[id], 0);
  tn_status s = tn_value_set_name(g, r, name);
  if (s != TN_OK) return undo_add(g, s);
  g->input[g->n_inputs++] = r;
  *out = r;
  return TN_OK;
}

tn_status tn_graph_add_const(tn_graph *g, tn_type t, const void *data, size_t bytes, uint32_t prov, tn_ref *out) {
  uint32_t id;
  out->id = 0;
  tn_const_data *c = TN_NEW(g->arena, tn_const_data, 1);
  void *p = tn_arena_alloc(g->arena, bytes ? bytes : 1);
  if (!c || !p) return TN_E_NOMEM;
  if (bytes) memcpy(p, data, bytes);
  c->p = p;
  c->bytes = bytes;
  TN_TRY(tn_graph_add(g, TN_OP_CONST, NULL, 0, NULL, 0, &t, 1, prov, &id));
  g->node[id].data = c;
  *out = tn_out(&g->node[id], 0);
  return TN_OK;
}

static tn_status add_output(tn_graph *g, tn_output o) {
  if (!TN_PUSH_ROOM(g->arena, g->output, g->n_outputs, g->cap_outputs)) return TN_E_NOMEM;
  g->output[g->n_outputs++] = o;
  return TN_OK;
}

tn_status tn_graph_add_output(tn_graph *g, tn_ref r) { return add_output(g, (tn_output){.ref = r}); }
tn_status tn_graph_add_output_dim(tn_graph *g, tn_dim d) { return add_output(g, (tn_output){.dim = d, .is_dim = true}); }
tn_status tn_graph_add_output_none(tn_graph *g) { return add_output(g, (tn_output){.is_none = true}); }

tn_status tn_graph_add_mutation(tn_graph *g, uint32_t input, tn_ref r) {
  if (input >= g->n_inputs) return TN_E_ARG;
  if (!TN_PUSH_ROOM(g->arena, g->mutation, g->n_mutations, g->cap_mutations)) return TN_E_NOMEM;
  g->mutation[g->n_mutations++] = (tn_mutation){input, r};
  tn_input_info *info = tn_def(g, g->input[input])->input;
  if (info) info->mutated = true;
  return TN_OK;
}

tn_status tn_value_set_name(tn_graph *g, tn_ref r, const char *name) {
  char *copy = NULL;
  if (name && *name && !(copy = tn_arena_strdup(g->arena, name))) return TN_E_NOMEM;
  g->value[r.id].name = copy;
  return TN_OK;
}

tn_status tn_node_set_target(tn_graph *g, uint32_t node, const char *target) {
  char *copy = tn_arena_strdup(g->arena, target ? target : "");
  if (!copy) return TN_E_NOMEM;
  g->node[node].target = copy;
  return TN_OK;
}

uint32_t tn_graph_add_prov(tn_graph *g, const char *name, const char *target, const char *where, tn_dtype t) {
  while (g->outer) g = g->outer;
  tn_prov p = {.dtype = t};
  if (name && !(p.name = tn_arena_strdup(g->arena, name))) return 0;
  if (target && !(p.target = tn_arena_strdup(g->arena, target))) return 0;
  if (where && !(p.where = tn_arena_strdup(g->arena, where))) return 0;
  if (!TN_PUSH_ROOM(g->arena, g->prov, g->n_prov, g->cap_prov)) return 0;
  g->prov[g->n_prov] = p;
  return g->n_prov++;
}

tn_prov *tn_graph_prov(const tn_graph *g, uint32_t i) {
  g = tn_graph_root(g);
  return i > 0 && i < g->n_prov ? &g->prov[i] : NULL;
}

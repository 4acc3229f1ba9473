/* rewrite.c: changing graphs without pointers. A pass adds nodes at the end and forwards old values to new ones; nothing else moves until
 * tn_graph_compact, so ids stay valid for the whole pass and a rewrite costs one store. Compact then does in one sweep what would
 * otherwise be spread over every pass: resolve, drop, order, number.
 *
 * Order: nodes are emitted in array order, each preceded by the not yet emitted nodes it reads (depth first, operands left to right).
 * So a graph in order stays as it is, and a node added at the end moves up to just before its first reader. CALL and OPAQUE nodes with
 * effects keep their order among themselves unless one of them was made to read a later one.
 *
 * New arrays are built on the heap and copied back over the old ones: compacting takes no arena memory. All allocation happens before
 * the first change. Operand arrays are renumbered in place, so two nodes must never share one (tn_graph_add copies). */
#include <string.h>
#include "ir/ir_int.h"

tn_ref tn_graph_resolve(const tn_graph *g, tn_ref r) {
  /* The step count guards against a ring made by hand; tn_graph_replace makes none. */
  for (uint32_t steps = 0; r.id < g->n_values && g->forward[r.id] && steps < g->n_values; steps++) r.id = g->forward[r.id];
  return r;
}

void tn_graph_replace(tn_graph *g, tn_ref old, tn_ref with) {
  tn_ref w = tn_graph_resolve(g, with);
  if (old.id == 0 || old.id >= g->n_values || w.id == 0 || w.id == old.id) return;
  g->forward[old.id] = w.id; /* w is the end of its chain and not old: no ring can close here */
}

/* ---- compact ---- */

typedef struct work {
  uint8_t *state;         /* [n_nodes] bit 0: live; 2: being visited; 4: emitted */
  uint32_t *stack, *next; /* [n_nodes] depth-first path and the next operand of each */
  uint32_t *order;        /* [n_nodes] emitted ids */
  uint32_t n_order;
  uint32_t *map;   /* [n_values] new id, 0 = dropped */
  tn_node *node;   /* [n_nodes] new arrays */
  tn_value *value; /* [n_values] */
} work;

enum { LIVE = 1, OPEN = 2, DONE = 4 };

static void work_deinit(work *w) {
  tn_free(w->state);
  tn_free(w->stack);
  tn_free(w->next);
  tn_free(w->order);
  tn_free(w->map);
  tn_free(w->node);
  tn_free(w->value);
}

static bool work_init(work *w, const tn_graph *g) {
  memset(w, 0, sizeof *w);
  w->state = tn_calloc(g->n_nodes, sizeof *w->state);
  w->stack = tn_malloc(g->n_nodes * sizeof *w->stack);
  w->next = tn_malloc(g->n_nodes * sizeof *w->next);
  w->order = tn_malloc(g->n_nodes * sizeof *w->order);
  w->map = tn_calloc(g->n_values, sizeof *w->map);
  w->node = tn_malloc(g->n_nodes * sizeof *w->node);
  w->value = tn_malloc(g->n_values * sizeof *w->value);
  return w->state && w->stack && w->next && w->order && w->map && w->node && w->value;
}

/* Node that makes r after forwarding; 0 and a message when there is none. */
static tn_status maker(tn_diag *d, const tn_graph *g, tn_ref r, const char *who, uint32_t id, uint32_t *out) {
  tn_ref t = tn_graph_resolve(g, r);
  if (t.id == 0 || t.id >= g->n_values) return tn_fail(d, TN_E_VERIFY, "%s %u reads value %u of %u", who, id, t.id, g->n_values - 1);
  if (g->forward[t.id]) return tn_fail(d, TN_E_VERIFY, "value %u is forwarded to itself", t.id);
  uint32_t m = g->value[t.id].node;
  if (m == 0 || m >= g->n_nodes) return tn_fail(d, TN_E_VERIFY, "value %u belongs to node %u of %u", t.id, m, g->n_nodes - 1);
  if (g->node[m].dead && g->node[m].op != TN_OP_INPUT)
    return tn_fail(d, TN_E_VERIFY, "%s %u reads value %u of node %u (%s), which is marked dead", who, id, t.id, m,
                   tn_op_name(g->node[m].op));
  *out = m;
  return TN_OK;
}

static tn_status push(tn_diag *d, const tn_graph *g, work *w, uint32_t *n, uint32_t id) {
  if (w->state[id] & LIVE) return TN_OK;
  if (g->node[id].op == TN_OP_INPUT) /* the listed ones are live already; this one could never be given a value */
    return tn_fail(d, TN_E_VERIFY, "node %u is an input that the graph does not list", id);
  w->state[id] |= LIVE;
  w->stack[(*n)++] = id;
  return TN_OK;
}

static tn_status mark(tn_diag *d, const tn_graph *g, work *w) {
  uint32_t n = 0, m;
  for (uint32_t i = 0; i < g->n_inputs; i++) {
    uint32_t v = g->input[i].id; /* not resolved: forwarding an input moves its readers, not the input */
    m = v < g->n_values ? g->value[v].node : 0;
    if (m == 0 || m >= g->n_nodes || g->node[m].op != TN_OP_INPUT)
      return tn_fail(d, TN_E_VERIFY, "input %u is not made by an input node", i);
    if (w->state[m] & LIVE) return tn_fail(d, TN_E_VERIFY, "input %u is listed twice", i);
    w->state[m] |= LIVE;
  }
  for (uint32_t i = 0; i < g->n_outputs; i++) {
    if (g->output[i].is_dim || g->output[i].is_none) continue;
    TN_TRY(maker(d, g, g->output[i].ref, "output", i, &m));
    TN_TRY(push(d, g, w, &n, m));
  }
  for (uint32_t i = 0; i < g->n_mutations; i++) {
    TN_TRY(maker(d, g, g->mutation[i].value, "mutation", i, &m));
    TN_TRY(push(d, g, w, &n, m));
  }
  for (uint32_t i = 1; i < g->n_nodes; i++) {
    const tn_node *x = &g->node[i];
    bool effect = (x->op == TN_OP_OPAQUE || x->op == TN_OP_CALL || x->op == TN_OP_DYN) && !x->dead && tn_attr_bool(x, "effect", false);
    if (effect) TN_TRY(push(d, g, w, &n, i));
  }
  while (n) {
    uint32_t id = w->stack[--n];
    for (uint32_t k = 0; k < g->node[id].n_in; k++) {
      TN_TRY(maker(d, g, g->node[id].in[k], "node", id, &m));
      TN_TRY(push(d, g, w, &n, m));
    }
  }
  return TN_OK;
}

/* Depth first from `root`, without recursion: graphs are deep. */
static tn_status emit(tn_diag *d, const tn_graph *g, work *w, uint32_t root) {
  uint32_t n = 0, m;
  w->stack[n] = root;
  w->next[n++] = 0;
  w->state[root] |= OPEN;
  while (n) {
    uint32_t id = w->stack[n - 1];
    const tn_node *x = &g->node[id];
    if (w->next[n - 1] == x->n_in) {
      w->state[id] = (uint8_t)((w->state[id] & ~OPEN) | DONE);
      w->order[w->n_order++] = id;
      n--;
      continue;
    }
    TN_TRY(maker(d, g, x->in[w->next[n - 1]++], "node", id, &m));
    if (w->state[m] & DONE) continue;
    if (w->state[m] & OPEN)
      return tn_fail(d, TN_E_VERIFY, "cycle: node %u (%s) needs the result of node %u (%s), which needs node %u", id, tn_op_name(x->op), m,
                     tn_op_name(g->node[m].op), id);
    w->state[m] |= OPEN;
    w->stack[n] = m;
    w->next[n++] = 0;
  }
  return TN_OK;
}

/* From here on nothing can fail. */
static void renumber(tn_graph *g, work *w) {
  uint32_t nv = 1;
  for (uint32_t i = 0; i < w->n_order; i++) {
    w->node[i] = g->node[w->order[i]];
    tn_node *x = &w->node[i];
    x->dead = false;
    for (uint32_t k = 0; k < x->n_out; k++) {
      w->map[x->out + k] = nv + k;
      w->value[nv + k] = g->value[x->out + k];
      w->value[nv + k].node = i + 1;
    }
    x->out = nv;
    nv += x->n_out;
  }
#define MOVED(r) ((tn_ref){w->map[tn_graph_resolve(g, r).id]})
  for (uint32_t i = 0; i < w->n_order; i++)
    for (uint32_t k = 0; k < w->node[i].n_in; k++) w->node[i].in[k] = MOVED(w->node[i].in[k]);
  for (uint32_t i = 0; i < g->n_inputs; i++) g->input[i].id = w->map[g->input[i].id];
  for (uint32_t i = 0; i < g->n_outputs; i++)
    if (!g->output[i].is_dim && !g->output[i].is_none) g->output[i].ref = MOVED(g->output[i].ref);
  for (uint32_t i = 0; i < g->n_mutations; i++) g->mutation[i].value = MOVED(g->mutation[i].value);
#undef MOVED
  memset(g->forward, 0, g->n_values * sizeof *g->forward);
  memcpy(g->node + 1, w->node, w->n_order * sizeof *w->node);
  memcpy(g->value + 1, w->value + 1, (nv - 1) * sizeof *w->value);
  g->n_nodes = w->n_order + 1;
  g->n_values = nv;
}

static tn_status compact(tn_diag *d, tn_graph *g, int depth) {
  if (depth > TN_IR_MAX_BODY_DEPTH) return tn_fail(d, TN_E_VERIFY, "bodies are nested deeper than %d", TN_IR_MAX_BODY_DEPTH);
  work w;
  tn_status s = TN_OK;
  if (!work_init(&w, g)) s = tn_fail(d, TN_E_NOMEM, "compacting %u nodes", g->n_nodes - 1);
  if (s == TN_OK) s = mark(d, g, &w);
  for (uint32_t i = 0; s == TN_OK && i < g->n_inputs; i++) s = emit(d, g, &w, g->value[g->input[i].id].node);
  for (uint32_t i = 1; s == TN_OK && i < g->n_nodes; i++)
    if ((w.state[i] & (LIVE | DONE)) == LIVE) s = emit(d, g, &w, i);
  for (uint32_t i = 0; s == TN_OK && i < w.n_order; i++) {
    const tn_node *x = &g->node[w.order[i]];
    if (x->body && (s = compact(d, x->body, depth + 1)) != TN_OK) tn_diag_while(d, s, "compacting the body of node %u", w.order[i]);
  }
  if (s == TN_OK) renumber(g, &w);
  work_deinit(&w);
  return s;
}

tn_status tn_graph_compact(tn_diag *d, tn_graph *g) { return compact(d, g, 0); }

/* ---- uses, copies ---- */

uint32_t *tn_graph_uses(tn_arena *scratch, const tn_graph *g) {
  uint32_t *use = TN_NEW(scratch, uint32_t, g->n_values);
  if (!use) return NULL;
#define COUNT(r)                                                                                                                           \
  do {                                                                                                                                     \
    uint32_t v_ = tn_graph_resolve(g, r).id;                                                                                               \
    if (v_ < g->n_values) use[v_]++;                                                                                                       \
  } while (0)
  for (uint32_t i = 1; i < g->n_nodes; i++)
    for (uint32_t k = 0; !g->node[i].dead && k < g->node[i].n_in; k++) COUNT(g->node[i].in[k]);
  for (uint32_t i = 0; i < g->n_outputs; i++)
    if (!g->output[i].is_dim && !g->output[i].is_none) COUNT(g->output[i].ref);
  for (uint32_t i = 0; i < g->n_mutations; i++) COUNT(g->mutation[i].value);
#undef COUNT
  return use;
}

static tn_status copy_node(tn_graph *to, const tn_graph *from, uint32_t id, uint32_t *map, int depth);

static tn_status copy_body(tn_graph *outer, const tn_graph *from, int depth, tn_graph **out) {
  tn_graph *g;
  if (depth > TN_IR_MAX_BODY_DEPTH) return TN_E_ARG;
  TN_TRY(tn_graph_body(outer, from->name, &g));
  uint32_t *map = tn_calloc(from->n_values, sizeof *map);
  tn_status s = map ? TN_OK : TN_E_NOMEM;
  for (uint32_t i = 0; s == TN_OK && i < from->n_inputs; i++) s = copy_node(g, from, from->value[from->input[i].id].node, map, depth);
  for (uint32_t i = 1; s == TN_OK && i < from->n_nodes; i++)
    if (!from->node[i].dead && from->node[i].op != TN_OP_INPUT) s = copy_node(g, from, i, map, depth);
  for (uint32_t i = 0; s == TN_OK && i < from->n_outputs; i++) {
    tn_output o = from->output[i];
    if (o.is_dim)
      s = tn_graph_add_output_dim(g, o.dim);
    else if (o.is_none)
      s = tn_graph_add_output_none(g);
    else
      s = tn_graph_add_output(g, (tn_ref){map[tn_graph_resolve(from, o.ref).id]});
  }
  for (uint32_t i = 0; s == TN_OK && i < from->n_mutations; i++)
    s = tn_graph_add_mutation(g, from->mutation[i].input, (tn_ref){map[tn_graph_resolve(from, from->mutation[i].value).id]});
  tn_free(map);
  *out = g;
  return s;
}

static tn_status copy_input(tn_graph *to, const tn_graph *from, const tn_node *n, uint32_t *map) {
  const tn_input_info *info = n->input;
  const tn_value *v = &from->value[n->out];
  tn_ref r;
  if (!info) return TN_E_ARG;
  const tn_dim *stride = NULL;
  if (info->stride && v->type.rank) {
    stride = tn_type_make(to, TN_I64, v->type.rank, info->stride).dim;
    if (!stride) return TN_E_NOMEM;
  }
  TN_TRY(tn_graph_add_input(to, v->name, tn_type_make(to, (tn_dtype)v->type.dtype, v->type.rank, v->type.dim), info->origin, &r));
  tn_input_info *copy = tn_def(to, r)->input;
  copy->stride = stride;
  copy->mutated = info->mutated;
  copy->sym = info->sym;
  map[n->out] = r.id;
  return TN_OK;
}

static tn_status copy_node(tn_graph *to, const tn_graph *from, uint32_t id, uint32_t *map, int depth) {
  tn_node n = from->node[id]; /* a copy: `to` may be `from`, and adding moves its nodes */
  if (n.op == TN_OP_INPUT) return copy_input(to, from, &n, map);
  tn_ref *in = tn_malloc((n.n_in ? n.n_in : 1) * sizeof *in);
  tn_type *type = tn_malloc((n.n_out ? n.n_out : 1) * sizeof *type);
  tn_graph *body = NULL;
  const char *target = NULL;
  tn_const_data *data = NULL;
  uint32_t new_id = 0, prov = tn_graph_root(to) == tn_graph_root(from) ? n.prov : 0;
  tn_status s = in && type ? TN_OK : TN_E_NOMEM;
  for (uint32_t k = 0; s == TN_OK && k < n.n_in; k++) {
    in[k].id = map[tn_graph_resolve(from, n.in[k]).id];
    if (!in[k].id) s = TN_E_ARG;
  }
  for (uint32_t k = 0; s == TN_OK && k < n.n_out; k++) {
    const tn_type *t = &from->value[n.out + k].type;
    type[k] = to->arena == from->arena ? *t : tn_type_make(to, (tn_dtype)t->dtype, t->rank, t->dim);
  }
  if (s == TN_OK && n.target && !(target = tn_arena_strdup(to->arena, n.target))) s = TN_E_NOMEM;
  if (s == TN_OK && n.body) s = copy_body(to, n.body, depth + 1, &body);
  if (s == TN_OK && n.data) {
    data = TN_NEW(to->arena, tn_const_data, 1);
    void *p = data && to->arena != from->arena ? tn_arena_alloc(to->arena, n.data->bytes ? n.data->bytes : 1) : NULL;
    if (!data || (to->arena != from->arena && !p))
      s = TN_E_NOMEM;
    else
      *data = *n.data; /* one arena: the bytes are shared, nobody writes them */
    if (s == TN_OK && p) data->p = n.data->bytes ? memcpy(p, n.data->p, n.data->bytes) : p;
  }
  if (s == TN_OK) s = tn_graph_add(to, n.op, in, n.n_in, n.attr, n.n_attr, type, n.n_out, prov, &new_id);
  if (s == TN_OK) {
    tn_node *x = &to->node[new_id];
    x->target = target;
    x->body = body;
    x->data = data;
    for (uint32_t k = 0; k < n.n_out; k++) map[n.out + k] = x->out + k;
    for (uint32_t k = 0; s == TN_OK && k < n.n_out; k++)
      s = tn_value_set_name(to, tn_out(&to->node[new_id], k), from->value[n.out + k].name);
  }
  tn_free(in);
  tn_free(type);
  return s;
}

tn_status tn_graph_copy_node(tn_graph *to, const tn_graph *from, uint32_t id, uint32_t *map) { return copy_node(to, from, id, map, 0); }

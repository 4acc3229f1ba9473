/* split.c: from a unit (functions of graphs with DYN nodes in them) to a module (functions of steps) and the ordinary graphs that become its plans.
 *
 * Each function is cut into phases. A phase runs the DYN nodes whose operands are there, then one plan with every ordinary node that can run by then. A
 * value of an ordinary node belongs to the phase of its latest operand; a DYN node that reads a planned value waits for the phase after it. So a function
 * without DYN nodes is one plan, and no plan is cut where a DYN node does not force it. What is known while compiling is copied into each plan that reads
 * it (by pointer), and so are views and small scalar arithmetic: passing them from plan to plan would cost more.
 *
 * Sizes are symbols. A symbol has a definition in the function: a dim of an input or of a DYN result that is exactly it, or an element of an integer
 * tensor that a DYN "sizes" node names. A plan binds its symbols from the shapes of its own inputs; the others become scalar inputs that are picked from the
 * definition. A function that needs a symbol of its caller takes it as one more input, after its own.
 *
 * What nothing reads is dropped, functions that nothing reaches too. This file finds all that out; split_build.c makes the graphs and steps. */
#include <string.h>
#include "lower/split_int.h"

bool sp_is_loop(const tn_node *n) { return n->op == TN_OP_DYN && n->target && strcmp(n->target, "loop") == 0; }

uint32_t sp_callees(const tn_node *n, int64_t out[2]) {
  if (sp_is_if(n)) {
    out[0] = tn_attr_int(n, "then", -1);
    out[1] = tn_attr_int(n, "else", -1);
    return 2;
  }
  if (!sp_is_loop(n)) return 0;
  out[0] = tn_attr_int(n, "body", -1);
  return 1;
}

/* ---- symbols ---- */

static bool mark_dim(const tn_dims *ds, tn_dim d, bool *mark) {
  if (tn_dim_is_const(d) || d == TN_DIM_BAD) return false;
  tn_dim_mark_syms(ds, d, mark);
  return true;
}

bool sp_mark_type(const tn_dims *ds, const tn_type *t, bool *mark) {
  bool any = false;
  if (t->dtype == TN_OBJ) return false;
  for (uint32_t i = 0; i < t->rank; i++) any |= mark_dim(ds, t->dim[i], mark);
  return any;
}

static bool mark_attr(const tn_dims *ds, const tn_attr_val *v, bool *mark) {
  bool any = false;
  if (v->kind == TN_AT_DIM) return mark_dim(ds, v->u.d, mark);
  if (v->kind == TN_AT_LIST)
    for (uint32_t i = 0; i < v->u.list.n; i++) any |= v->u.list.item[i].kind == TN_AT_DIM && mark_dim(ds, v->u.list.item[i].u.d, mark);
  return any;
}

bool sp_mark_attrs(const tn_dims *ds, const tn_node *n, bool *mark) {
  bool any = false;
  for (uint32_t i = 0; i < n->n_attr; i++) any |= mark_attr(ds, &n->attr[i].val, mark);
  return any;
}

static void define(sp *s, sp_func *f, tn_dim d, uint32_t value, uint8_t pick, uint32_t index) {
  int o = tn_dim_is_const(d) || d == TN_DIM_BAD ? -1 : tn_dim_sym_ordinal(s->u->dims, d);
  if (o >= 0 && !f->sym[o].value) f->sym[o] = (sp_sym){.value = value, .pick = pick, .index = index};
}

/* Inputs first: they are there from the start. */
static void define_symbols(sp *s, sp_func *f) {
  const tn_graph *g = f->g;
  for (int pass = 0; pass < 2; pass++)
    for (uint32_t i = 1; i < g->n_nodes; i++) {
      const tn_node *n = &g->node[i];
      if (n->dead || n->op != (pass ? TN_OP_DYN : TN_OP_INPUT)) continue;
      if (n->op == TN_OP_INPUT && n->input && n->input->origin == TN_ORIGIN_SYM) define(s, f, n->input->sym, n->out, TN_MP_ITEM, 0);
      for (uint32_t k = 0; k < n->n_out; k++) {
        const tn_type *t = &g->value[n->out + k].type;
        for (uint32_t q = 0; t->dtype != TN_OBJ && q < t->rank; q++) define(s, f, t->dim[q], n->out + k, TN_MP_DIM, q);
      }
      const tn_attr_val *v = n->op == TN_OP_DYN ? tn_attr_get(n, "syms") : NULL;
      if (v && v->kind == TN_AT_DIM) define(s, f, v->u.d, n->out, TN_MP_ITEM, 0);
      for (uint32_t k = 0; v && v->kind == TN_AT_LIST && k < v->u.list.n; k++)
        if (v->u.list.item[k].kind == TN_AT_DIM) define(s, f, v->u.list.item[k].u.d, n->out, TN_MP_ITEM, k);
    }
}

/* ---- live nodes, in order ---- */

typedef struct deps { uint32_t *node, n; } deps;

static sp_kind kind_of(sp *s, const tn_node *n) {
  if (n->op == TN_OP_INPUT || n->op == TN_OP_DYN) return SP_SLOT;
  if (n->op == TN_OP_CONST) return SP_FREE;
  if (n->op != TN_OP_FULL && n->op != TN_OP_IOTA) return SP_ORD;
  bool any = sp_mark_attrs(s->u->dims, n, s->mark);
  memset(s->mark, 0, s->n_syms);
  return any ? SP_ORD : SP_FREE;
}

/* Symbols that node `id` cannot do without: marks them. */
static bool needed_symbols(sp *s, sp_func *f, uint32_t id) {
  const tn_graph *g = f->g;
  const tn_node *n = &g->node[id];
  const tn_dims *ds = s->u->dims;
  bool any = false;
  int64_t callee[2];
  if (f->kind[id] == SP_ORD) {
    any = sp_mark_attrs(ds, n, s->mark);
    for (uint32_t k = 0; k < n->n_out; k++) any |= sp_mark_type(ds, &g->value[n->out + k].type, s->mark);
    for (uint32_t k = 0; k < n->n_in; k++) {
      uint32_t v = sp_value(f, n->in[k]);
      if (f->kind[sp_maker_id(f, v)] == SP_SLOT) any |= sp_mark_type(ds, &g->value[v].type, s->mark);
    }
  }
  for (uint32_t k = 0, c = sp_callees(n, callee); k < c; k++)
    for (uint32_t i = 0; i < s->n_syms; i++)
      if (s->func[callee[k]].extra[i]) any = s->mark[i] = true;
  return any;
}

/* A symbol is wanted: its definition is read, or it comes in as an extra input. Node of the definition, 0 = none or the node itself. */
static uint32_t want_symbol(sp_func *f, uint32_t sym, uint32_t self) {
  const sp_sym *y = &f->sym[sym];
  if (!y->value) {
    f->extra[sym] = true;
    return 0;
  }
  f->used[y->value] = true;
  uint32_t n = sp_maker_id(f, y->value);
  return n == self ? 0 : n;
}

static tn_status find_deps(sp *s, sp_func *f, uint32_t id, deps *out) {
  const tn_node *n = &f->g->node[id];
  uint32_t cap = n->n_in, n_marked = 0;
  if (n->op == TN_OP_CALL || n->op == TN_OP_OPAQUE || n->op == TN_OP_FUSED)
    return tn_fail(s->d, TN_E_VERIFY, "node %u (%s%s%s) in a model: only primitive and dyn nodes can be split", id, tn_op_name(n->op), n->target ? " " : "",
                   n->target ? n->target : "");
  for (uint32_t k = 0; k < n->n_in; k++) {
    uint32_t v = sp_value(f, n->in[k]);
    if (v == 0 || v >= f->g->n_values) return tn_fail(s->d, TN_E_VERIFY, "node %u reads value %u of %u", id, v, f->g->n_values - 1);
  }
  if (needed_symbols(s, f, id))
    for (uint32_t i = 0; i < s->n_syms; i++) n_marked += s->mark[i];
  out->node = TN_NEW(s->a, uint32_t, cap + n_marked + 1);
  if (!out->node) return tn_fail(s->d, TN_E_NOMEM, "splitting %u nodes", f->g->n_nodes - 1);
  for (uint32_t k = 0; k < n->n_in; k++) {
    uint32_t v = sp_value(f, n->in[k]);
    f->used[v] = true;
    out->node[out->n++] = sp_maker_id(f, v);
  }
  for (uint32_t i = 0; n_marked && i < s->n_syms; i++) {
    if (!s->mark[i]) continue;
    uint32_t def = want_symbol(f, i, id);
    if (def) out->node[out->n++] = def;
  }
  memset(s->mark, 0, s->n_syms);
  return TN_OK;
}

/* Depth first from one root without recursion; state: 0 new, 1 open, 2 done. */
static tn_status visit(sp *s, sp_func *f, uint32_t root, uint8_t *state, deps *dep, uint32_t *stack) {
  uint32_t n = 0;
  if (state[root] == 2) return TN_OK;
  stack[n++] = root;
  state[root] = 1;
  TN_TRY(find_deps(s, f, root, &dep[root]));
  while (n) {
    uint32_t id = stack[n - 1];
    if (dep[id].n == 0) {
      state[id] = 2;
      f->order[f->n_order++] = id;
      n--;
      continue;
    }
    uint32_t m = *dep[id].node++;
    dep[id].n--;
    if (state[m] == 2) continue;
    if (state[m] == 1) return tn_fail(s->d, TN_E_VERIFY, "function '%s': node %u needs node %u, which needs node %u", f->g->name, id, m, id);
    TN_TRY(find_deps(s, f, m, &dep[m]));
    state[m] = 1;
    stack[n++] = m;
  }
  return TN_OK;
}

/* Pairs of sizes assumed equal that belong to this function and whose symbols all are defined in it: the definitions are live, too, for a node may have
 * taken an operand as its result because it believed in the pair. A symbol without definition belongs to a node that is gone. */
static tn_status order_pairs(sp *s, sp_func *f, uint8_t *state, deps *dep, uint32_t *stack) {
  uint32_t n = tn_dims_n_assumed(s->u->dims), owner;
  const char *where;
  tn_dim a, b;
  f->pair = TN_NEW(s->a, uint8_t, n + 1);
  if (!f->pair) return tn_fail(s->d, TN_E_NOMEM, "%u sizes assumed equal", n);
  for (uint32_t i = 0; i < n; i++) {
    bool known = true;
    tn_dims_get_assumed(s->u->dims, i, &a, &b, &where, &owner);
    if (owner != f->g->func) continue;
    tn_dim_mark_syms(s->u->dims, a, s->mark);
    tn_dim_mark_syms(s->u->dims, b, s->mark);
    for (uint32_t k = 0; k < s->n_syms; k++) known &= !s->mark[k] || f->sym[k].value || f->extra[k];
    if (known) f->pair[i] = SP_P_OPEN;
    for (uint32_t k = 0; k < s->n_syms; k++) {
      uint32_t def = known && s->mark[k] ? want_symbol(f, k, 0) : 0;
      s->mark[k] = false;
      if (def) TN_TRY(visit(s, f, def, state, dep, stack));
    }
  }
  return TN_OK;
}

static tn_status order(sp *s, sp_func *f) {
  const tn_graph *g = f->g;
  uint8_t *state = TN_NEW(s->a, uint8_t, g->n_nodes);
  deps *dep = TN_NEW(s->a, deps, g->n_nodes);
  uint32_t *stack = TN_NEW(s->a, uint32_t, g->n_nodes);
  if (!state || !dep || !stack) return tn_fail(s->d, TN_E_NOMEM, "splitting %u nodes", g->n_nodes - 1);
  for (uint32_t i = 0; i < g->n_outputs; i++) {
    const tn_output *o = &g->output[i];
    if (o->is_none) continue;
    if (o->is_dim) {
      mark_dim(s->u->dims, o->dim, s->mark);
      for (uint32_t k = 0; k < s->n_syms; k++) {
        if (!s->mark[k]) continue;
        s->mark[k] = false;
        uint32_t def = want_symbol(f, k, 0);
        if (def) TN_TRY(visit(s, f, def, state, dep, stack));
      }
      continue;
    }
    uint32_t v = sp_value(f, o->ref);
    if (v == 0 || v >= g->n_values) return tn_fail(s->d, TN_E_VERIFY, "output %u of '%s' is value %u of %u", i, g->name, v, g->n_values - 1);
    f->used[v] = true;
    TN_TRY(visit(s, f, sp_maker_id(f, v), state, dep, stack));
  }
  return order_pairs(s, f, state, dep, stack);
}

/* ---- phases ---- */

static uint32_t symbol_phase(sp_func *f, uint32_t sym) { return f->sym[sym].value ? f->phase[sp_maker_id(f, f->sym[sym].value)] : 0; }

static void phases(sp *s, sp_func *f) {
  f->n_phase = 2; /* 0: constants that DYN nodes read; 1: the plan of a function without DYN nodes */
  for (uint32_t i = 0; i < f->n_order; i++) {
    uint32_t id = f->order[i], p = f->kind[id] == SP_ORD;
    const tn_node *n = &f->g->node[id];
    for (uint32_t k = 0; k < n->n_in; k++) {
      uint32_t m = sp_maker_id(f, sp_value(f, n->in[k])), q = f->phase[m];
      if (f->kind[id] == SP_SLOT && f->kind[m] != SP_SLOT) q++; /* a plan gives it: after that plan */
      if (q > p) p = q;
    }
    if (f->kind[id] != SP_FREE && needed_symbols(s, f, id)) {
      for (uint32_t k = 0; k < s->n_syms; k++)
        if (s->mark[k] && symbol_phase(f, k) > p && sp_maker_id(f, f->sym[k].value) != id) p = symbol_phase(f, k);
      memset(s->mark, 0, s->n_syms);
    }
    f->phase[id] = p;
    if (p + 1 > f->n_phase) f->n_phase = p + 1;
  }
}

/* ---- functions ---- */

static tn_status analyse(sp *s, uint32_t number, int depth);

static tn_status callees(sp *s, sp_func *f, int depth) {
  for (uint32_t i = 1; i < f->g->n_nodes; i++) {
    const tn_node *n = &f->g->node[i];
    int64_t c[2];
    if (n->dead) continue;
    for (uint32_t k = 0, nc = sp_callees(n, c); k < nc; k++) {
      if (c[k] <= 0 || c[k] >= s->u->n_func)
        return tn_fail(s->d, TN_E_VERIFY, "node %u (%s) of function '%s' names function %lld of %u", i, n->target, f->g->name, (long long)c[k], s->u->n_func);
      TN_TRY(analyse(s, (uint32_t)c[k], depth + 1));
    }
    /* The branches of an if take the same operands. */
    for (uint32_t k = 0; sp_is_if(n) && k < s->n_syms; k++)
      s->func[c[0]].extra[k] = s->func[c[1]].extra[k] = s->func[c[0]].extra[k] || s->func[c[1]].extra[k];
  }
  return TN_OK;
}

enum { MAX_DEPTH = 64 };

static tn_status analyse(sp *s, uint32_t number, int depth) {
  sp_func *f = &s->func[number];
  if (f->done) return TN_OK;
  if (f->open) return tn_fail(s->d, TN_E_VERIFY, "function '%s' contains itself", s->u->func[number]->name);
  if (depth > MAX_DEPTH) return tn_fail(s->d, TN_E_UNSUPPORTED, "bodies are nested deeper than %d", MAX_DEPTH);
  f->open = true;
  const tn_graph *g = f->g = s->u->func[number];
  f->phase = TN_NEW(s->a, uint32_t, g->n_nodes);
  f->kind = TN_NEW(s->a, uint8_t, g->n_nodes);
  f->order = TN_NEW(s->a, uint32_t, g->n_nodes);
  f->slot = TN_NEW(s->a, uint32_t, g->n_values);
  f->used = TN_NEW(s->a, bool, g->n_values);
  f->sym = TN_NEW(s->a, sp_sym, s->n_syms + 1);
  f->extra = TN_NEW(s->a, bool, s->n_syms + 1);
  if (!f->phase || !f->kind || !f->order || !f->slot || !f->used || !f->sym || !f->extra) return tn_fail(s->d, TN_E_NOMEM, "splitting '%s'", g->name);
  if (g->n_mutations) return tn_fail(s->d, TN_E_UNSUPPORTED, "function '%s' writes its inputs: not in a module", g->name);
  TN_TRY(callees(s, f, depth));
  for (uint32_t i = 1; i < g->n_nodes; i++) f->kind[i] = (uint8_t)kind_of(s, &g->node[i]);
  define_symbols(s, f);
  TN_TRY_WHILE(s->d, order(s, f), "splitting function '%s'", g->name);
  phases(s, f);
  f->done = true;
  return TN_OK;
}

/* Numbers in the module: function 0, then those that live nodes name, in order of first sight. */
static void reach(sp *s, uint32_t number, bool *seen, uint32_t *list) {
  uint32_t n = 0;
  list[n++] = number;
  seen[number] = true;
  for (uint32_t at = 0; at < n; at++) {
    sp_func *f = &s->func[list[at]];
    f->number = at;
    for (uint32_t i = 0; i < f->n_order; i++) {
      int64_t c[2];
      for (uint32_t k = 0, nc = sp_callees(&f->g->node[f->order[i]], c); k < nc; k++) {
        if (seen[c[k]]) continue;
        seen[c[k]] = true;
        list[n++] = (uint32_t)c[k];
      }
    }
  }
  s->n_reached = n;
}

/* ---- the module's door ---- */

static tn_status port(sp *s, const tn_uport *u, tn_mport *p) {
  tn_arena *a = s->m->arena;
  if (!tn_elem_name(u->elem) || !tn_elem_name(u->key_elem))
    return tn_fail(s->d, TN_E_UNSUPPORTED, "'%s' has element types %u and %u, which have no names here", u->name ? u->name : "", u->elem, u->key_elem);
  *p = (tn_mport){.kind = u->kind, .elem = u->elem, .key_elem = u->key_elem, .rank = (int8_t)(u->ranked ? u->rank : -1)};
  p->name = tn_arena_strdup(a, u->name ? u->name : "");
  int64_t *dim = TN_NEW(a, int64_t, u->rank + 1u);
  const char **name = TN_NEW(a, const char *, u->rank + 1u);
  if (!p->name || !dim || !name) return tn_fail(s->d, TN_E_NOMEM, "ports");
  for (uint32_t i = 0; u->ranked && i < u->rank; i++) {
    int64_t k;
    if (tn_dim_as_int(s->u->dims, u->dim[i], &k)) {
      dim[i] = k;
      continue;
    }
    dim[i] = -1;
    tn_str t;
    tn_str_init(&t);
    tn_dim_print(s->u->dims, u->dim[i], &t);
    name[i] = t.oom ? NULL : tn_arena_strndup(a, t.s, t.n);
    tn_str_deinit(&t);
    if (!name[i]) return tn_fail(s->d, TN_E_NOMEM, "ports");
  }
  p->dim = dim;
  p->dim_name = name;
  return TN_OK;
}

static tn_status door(sp *s) {
  const tn_unit *u = s->u;
  tn_module *m = s->m;
  m->in = TN_NEW(m->arena, tn_mport, u->n_in + 1);
  m->out = TN_NEW(m->arena, tn_mport, u->n_out + 1);
  m->meta = TN_NEW(m->arena, tn_mmeta, u->n_meta + 1);
  if (!m->in || !m->out || !m->meta) return tn_fail(s->d, TN_E_NOMEM, "ports");
  for (uint32_t i = 0; i < u->n_in; i++) TN_TRY(port(s, &u->in[i], &m->in[i]));
  for (uint32_t i = 0; i < u->n_out; i++) TN_TRY(port(s, &u->out[i], &m->out[i]));
  for (uint32_t i = 0; i < u->n_meta; i++) {
    m->meta[i] = (tn_mmeta){tn_arena_strdup(m->arena, u->meta[2 * i]), tn_arena_strdup(m->arena, u->meta[2 * i + 1])};
    if (!m->meta[i].key || !m->meta[i].value) return tn_fail(s->d, TN_E_NOMEM, "metadata");
  }
  m->n_in = u->n_in;
  m->n_out = u->n_out;
  m->n_meta = u->n_meta;
  return TN_OK;
}

static tn_status split(sp *s) {
  const tn_unit *u = s->u;
  TN_TRY(analyse(s, 0, 0));
  const sp_func *main = &s->func[0];
  for (uint32_t i = 0; i < s->n_syms; i++)
    if (main->extra[i])
      return tn_fail(s->d, TN_E_UNSUPPORTED, "the size %s is needed, but no input or result has exactly this size", tn_dims_sym_name(u->dims, i));
  if (main->g->n_inputs != u->n_in || main->g->n_outputs != u->n_out)
    return tn_fail(s->d, TN_E_INTERNAL, "model '%s' has %u inputs and %u outputs, its graph %u and %u", u->name, u->n_in, u->n_out, main->g->n_inputs, main->g->n_outputs);
  TN_TRY(door(s));
  bool *seen = TN_NEW(s->a, bool, u->n_func);
  uint32_t *list = TN_NEW(s->a, uint32_t, u->n_func);
  if (!seen || !list) return tn_fail(s->d, TN_E_NOMEM, "splitting %u functions", u->n_func);
  reach(s, 0, seen, list);
  s->m->func = TN_NEW(s->m->arena, tn_mfunc, s->n_reached);
  if (!s->m->func) return tn_fail(s->d, TN_E_NOMEM, "splitting %u functions", u->n_func);
  s->m->n_func = s->n_reached;
  for (uint32_t i = 0; i < s->n_reached; i++) TN_TRY_WHILE(s->d, sp_build(s, &s->func[list[i]]), "splitting function '%s'", u->func[list[i]]->name);
  s->m->plan = TN_NEW(s->m->arena, tn_plan *, s->out->n_graph + 1);
  if (!s->m->plan) return tn_fail(s->d, TN_E_NOMEM, "table of %u plans", s->out->n_graph);
  return TN_OK;
}

tn_status tn_split_unit(tn_diag *d, tn_arena *arena, const tn_unit *u, tn_split *out) {
  memset(out, 0, sizeof *out);
  if (!u->n_func) return tn_fail(d, TN_E_VERIFY, "a unit without functions");
  sp s = {.d = d, .a = arena, .u = u, .n_syms = tn_dims_n_syms(u->dims), .out = out};
  s.func = TN_NEW(arena, sp_func, u->n_func);
  s.mark = TN_NEW(arena, bool, s.n_syms + 1);
  if (!s.func || !s.mark) return tn_fail(d, TN_E_NOMEM, "splitting %u functions", u->n_func);
  TN_TRY(tn_module_create(u->name ? u->name : "model", &s.m));
  tn_status st = split(&s);
  if (st == TN_OK) out->module = s.m;
  else tn_module_destroy(s.m);
  return st;
}

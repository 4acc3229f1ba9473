/* split_build.c: makes the graphs of a function's plans and the steps around them, after split.c has found out what runs when.
 *
 * Slots: inputs of the function, then the scalars of symbols it takes from its caller, then results in the order they are asked for. Plans are made from
 * the last phase to the first, because what a plan must give is known only when all later ones are made. */
#include <string.h>
#include "lower/split_int.h"

/* ---- slots ---- */

static tn_status need(sp *s, sp_func *f, uint32_t phase, sp_need x) {
  sp_phase *p = &f->ph[phase];
  if (!TN_PUSH_ROOM(s->a, p->need, p->n_need, p->cap_need)) return tn_fail(s->d, TN_E_NOMEM, "results of a plan");
  p->need[p->n_need++] = x;
  return TN_OK;
}

/* The slot that holds a value; a planned value becomes a result of its plan, a constant one of plan `free_phase`. */
static tn_status want(sp *s, sp_func *f, uint32_t value, uint32_t free_phase, uint32_t *out) {
  uint32_t id = sp_maker_id(f, value);
  if (!f->slot[value]) {
    f->slot[value] = ++f->n_slot;
    if (f->kind[id] != SP_SLOT) TN_TRY(need(s, f, f->kind[id] == SP_FREE ? free_phase : f->phase[id], (sp_need){.value = value, .slot = f->slot[value]}));
  }
  *out = f->slot[value];
  return TN_OK;
}

static tn_marg symbol_arg(const sp_func *f, uint32_t sym) {
  const sp_sym *y = &f->sym[sym];
  if (!y->value) return (tn_marg){y->slot, TN_MP_VALUE, 0};
  return (tn_marg){f->slot[y->value], y->pick, y->index};
}

/* ---- the graph of one plan ---- */

typedef struct stage {
  tn_graph *g;
  uint32_t phase;
  uint32_t *map;                  /* [n_values of the function] -> value of g */
  tn_marg *in; uint32_t n_in, cap_in;
} stage;

/* Worth computing again rather than passing from plan to plan: views, fills, and arithmetic on a few numbers. */
static bool cheap(const sp_func *f, uint32_t id) {
  const tn_node *n = &f->g->node[id];
  switch (n->op) {
  case TN_OP_RESHAPE: case TN_OP_PERMUTE: case TN_OP_BROADCAST: case TN_OP_SLICE: case TN_OP_FULL: case TN_OP_IOTA: return true;
  default: break;
  }
  if (!tn_op_is_scalar(n->op) && n->op != TN_OP_CAST) return false;
  int64_t numel = tn_type_numel(&f->g->value[n->out].type);
  return numel >= 0 && numel <= 16;
}

static bool inside(const sp_func *f, const stage *t, uint32_t id) {
  return f->kind[id] == SP_FREE || (f->kind[id] == SP_ORD && (f->phase[id] == t->phase || cheap(f, id)));
}

static tn_status stage_input(sp *s, sp_func *f, stage *t, uint32_t value) {
  const tn_value *v = &f->g->value[value];
  tn_ref r;
  if (v->type.dtype == TN_OBJ)
    return tn_fail(s->d, TN_E_VERIFY, "value %u (%s) of '%s' is no tensor, but a plan reads it", value, v->name ? v->name : "?", f->g->name);
  if (!TN_PUSH_ROOM(s->a, t->in, t->n_in, t->cap_in)) return tn_fail(s->d, TN_E_NOMEM, "inputs of a plan");
  t->in[t->n_in].pick = TN_MP_VALUE;
  TN_TRY(want(s, f, value, 0, &t->in[t->n_in].slot));
  t->n_in++;
  TN_TRY(tn_graph_add_input(t->g, v->name, v->type, TN_ORIGIN_INPUT, &r));
  t->map[value] = r.id;
  return TN_OK;
}

static tn_status copy(sp *s, sp_func *f, stage *t, uint32_t id) {
  uint32_t prov = f->g->node[id].prov;
  if (tn_graph_copy_node(t->g, f->g, id, t->map) != TN_OK) return tn_fail(s->d, TN_E_NOMEM, "copying node %u", id);
  t->g->node[t->g->n_nodes - 1].prov = prov;
  return TN_OK;
}

/* Copies what makes `value` into the stage; values from elsewhere become inputs. Depth first, without recursion. */
static tn_status pull(sp *s, sp_func *f, stage *t, uint32_t value, uint32_t *stack, uint32_t *next) {
  uint32_t n = 0;
  if (t->map[value]) return TN_OK;
  if (!inside(f, t, sp_maker_id(f, value))) return stage_input(s, f, t, value);
  stack[n] = sp_maker_id(f, value);
  next[n++] = 0;
  while (n) {
    uint32_t id = stack[n - 1];
    const tn_node *x = &f->g->node[id];
    if (next[n - 1] == x->n_in) {
      if (!t->map[x->out]) TN_TRY(copy(s, f, t, id));
      n--;
      continue;
    }
    uint32_t v = sp_value(f, x->in[next[n - 1]++]), m = sp_maker_id(f, v);
    /* Operands that were replaced read as the value they stand for. */
    if (!t->map[v] && !inside(f, t, m)) TN_TRY(stage_input(s, f, t, v));
    if (t->map[v]) continue;
    stack[n] = m;
    next[n++] = 0;
  }
  return TN_OK;
}

/* Symbols of the stage that no input has as a dim come in as scalars. */
static tn_status symbol_inputs(sp *s, sp_func *f, stage *t) {
  const tn_graph *g = t->g;
  const tn_dims *ds = s->u->dims;
  bool any = false;
  for (uint32_t i = 1; i < g->n_values; i++) any |= sp_mark_type(ds, &g->value[i].type, s->mark);
  for (uint32_t i = 1; i < g->n_nodes; i++) any |= sp_mark_attrs(ds, &g->node[i], s->mark);
  for (uint32_t i = 0; i < g->n_outputs; i++)
    if (g->output[i].is_dim && g->output[i].dim < 0) tn_dim_mark_syms(ds, g->output[i].dim, s->mark), any = true;
  if (!any) return TN_OK;
  for (uint32_t i = 0; i < g->n_inputs; i++) {
    const tn_type *ty = tn_typeof(g, g->input[i]);
    for (uint32_t k = 0; k < ty->rank; k++) {
      int o = ty->dim[k] < 0 ? tn_dim_sym_ordinal(ds, ty->dim[k]) : -1;
      if (o >= 0) s->mark[o] = false;
    }
  }
  for (uint32_t i = 0; i < s->n_syms; i++) {
    tn_ref r;
    if (!s->mark[i]) continue;
    s->mark[i] = false;
    tn_marg from = symbol_arg(f, i);
    const char *name = tn_dims_sym_name(ds, i);
    if (!from.slot) return tn_fail(s->d, TN_E_INTERNAL, "the size %s has no slot in '%s'", name, f->g->name);
    if (!TN_PUSH_ROOM(s->a, t->in, t->n_in, t->cap_in)) return tn_fail(s->d, TN_E_NOMEM, "inputs of a plan");
    t->in[t->n_in++] = from;
    if (tn_graph_add_input(t->g, name, tn_type_make(t->g, TN_I64, 0, NULL), TN_ORIGIN_SYM, &r) != TN_OK) return tn_fail(s->d, TN_E_NOMEM, "inputs of a plan");
    tn_def(t->g, r)->input->sym = tn_dim_sym(s->u->dims, name);
  }
  return TN_OK;
}

static tn_status add_graph(sp *s, tn_graph *g, tn_mstep *call) {
  if (!TN_PUSH_ROOM(s->a, s->out->graph, s->out->n_graph, s->cap_graph)) return tn_fail(s->d, TN_E_NOMEM, "list of plans");
  call->target = s->out->n_graph;
  s->out->graph[s->out->n_graph++] = g;
  return TN_OK;
}

/* ---- sizes assumed equal ---- */

static bool all_known(sp *s, tn_dim a, tn_dim b, const bool *known) {
  bool all = true;
  tn_dim_mark_syms(s->u->dims, a, s->mark);
  tn_dim_mark_syms(s->u->dims, b, s->mark);
  for (uint32_t k = 0; k < s->n_syms; k++) {
    all &= !s->mark[k] || known[k];
    s->mark[k] = false;
  }
  return all;
}
/* A plan checks the pairs all of whose symbols it has. */
static void checked_pairs(sp *s, sp_func *f, const tn_graph *g) {
  bool *known = TN_NEW(s->a, bool, s->n_syms + 1);
  tn_dim a, b;
  const char *where;
  for (uint32_t i = 0; known && i < g->n_inputs; i++) {
    const tn_type *t = tn_typeof(g, g->input[i]);
    const tn_node *n = &g->node[g->value[g->input[i].id].node];
    int o = n->input && n->input->origin == TN_ORIGIN_SYM ? tn_dim_sym_ordinal(s->u->dims, n->input->sym) : -1;
    if (o >= 0) known[o] = true;
    for (uint32_t k = 0; k < t->rank; k++)
      if (t->dim[k] < 0 && (o = tn_dim_sym_ordinal(s->u->dims, t->dim[k])) >= 0) known[o] = true;
  }
  for (uint32_t i = 0, n = tn_dims_n_assumed(s->u->dims); known && i < n; i++) {
    if (f->pair[i] != SP_P_OPEN) continue;
    tn_dims_get_assumed(s->u->dims, i, &a, &b, &where, NULL);
    if (all_known(s, a, b, known)) f->pair[i] = SP_P_DONE;
  }
}
static uint32_t dim_phase(sp *s, sp_func *f, tn_dim d);
/* What no plan of the function checks gets one of its own, which gives the sizes to nobody: lowering adds the checks. */
static tn_status check_plan(sp *s, sp_func *f, uint32_t phase) {
  sp_phase *p = &f->ph[phase];
  stage t = {.phase = phase};
  for (uint32_t i = 0, n = tn_dims_n_assumed(s->u->dims); i < n; i++) {
    tn_dim d[2];
    const char *where;
    if (f->pair[i] != SP_P_OPEN) continue;
    tn_dims_get_assumed(s->u->dims, i, &d[0], &d[1], &where, NULL);
    uint32_t q = dim_phase(s, f, d[0]), r = dim_phase(s, f, d[1]);
    if ((q > r ? q : r) != phase) continue;
    f->pair[i] = SP_P_DONE;
    if (!t.g && tn_graph_create(s->u->arena, s->u->dims, "sizes", &t.g) != TN_OK) return tn_fail(s->d, TN_E_NOMEM, "checks of '%s'", f->g->name);
    for (int k = 0; k < 2; k++)
      if (d[k] < 0 && tn_graph_add_output_dim(t.g, d[k]) != TN_OK) return tn_fail(s->d, TN_E_NOMEM, "checks of '%s'", f->g->name);
  }
  if (!t.g) return TN_OK;
  t.g->func = f->g->func;
  TN_TRY(symbol_inputs(s, f, &t));
  p->sizes = t.g;
  p->check = (tn_mstep){.kind = TN_MS_CALL, .n_in = t.n_in, .n_out = t.g->n_outputs, .text = "sizes"};
  p->check.in = TN_NEW(s->m->arena, tn_marg, t.n_in + 1);
  p->check.out = TN_NEW(s->m->arena, uint32_t, t.g->n_outputs + 1);
  if (!p->check.in || !p->check.out) return tn_fail(s->d, TN_E_NOMEM, "checks of '%s'", f->g->name);
  if (t.n_in) memcpy(p->check.in, t.in, t.n_in * sizeof *t.in);
  return TN_OK;
}

static tn_status make_plan(sp *s, sp_func *f, uint32_t phase) {
  sp_phase *p = &f->ph[phase];
  tn_arena *ma = s->m->arena;
  stage t = {.phase = phase};
  if (!p->n_need) return TN_OK;
  const char *name = tn_arena_printf(s->a, f->n_phase > 2 ? "%s.%u" : "%s", f->g->name && *f->g->name ? f->g->name : "f", phase);
  uint32_t *stack = TN_NEW(s->a, uint32_t, f->g->n_nodes), *next = TN_NEW(s->a, uint32_t, f->g->n_nodes);
  t.map = TN_NEW(s->a, uint32_t, f->g->n_values);
  uint32_t *out = TN_NEW(ma, uint32_t, p->n_need);
  if (!name || !stack || !next || !t.map || !out || tn_graph_create(s->u->arena, s->u->dims, name, &t.g) != TN_OK) return tn_fail(s->d, TN_E_NOMEM, "plan of '%s'", f->g->name);
  t.g->func = f->g->func;
  /* One record per source node, shared: fates of all stages and functions end in the records of the function's graph. */
  t.g->prov = f->g->prov;
  t.g->n_prov = t.g->cap_prov = f->g->n_prov;
  for (uint32_t i = 0; i < p->n_need; i++) {
    out[i] = p->need[i].slot;
    if (!p->need[i].value) {
      if (tn_graph_add_output_dim(t.g, p->need[i].dim) != TN_OK) return tn_fail(s->d, TN_E_NOMEM, "results of a plan");
      continue;
    }
    TN_TRY(pull(s, f, &t, p->need[i].value, stack, next));
    if (tn_graph_add_output(t.g, (tn_ref){t.map[p->need[i].value]}) != TN_OK) return tn_fail(s->d, TN_E_NOMEM, "results of a plan");
  }
  TN_TRY(symbol_inputs(s, f, &t));
  TN_TRY_WHILE(s->d, tn_graph_compact(s->d, t.g), "putting plan '%s' in order", name);
  checked_pairs(s, f, t.g);
  p->graph = t.g;
  p->call = (tn_mstep){.kind = TN_MS_CALL, .n_in = t.n_in, .out = out, .n_out = p->n_need};
  p->call.in = TN_NEW(ma, tn_marg, t.n_in + 1);
  p->call.text = tn_arena_strdup(ma, name);
  if (!p->call.in || !p->call.text) return tn_fail(s->d, TN_E_NOMEM, "call of plan '%s'", name);
  if (t.n_in) memcpy(p->call.in, t.in, t.n_in * sizeof *t.in);
  return TN_OK;
}

/* ---- steps of DYN nodes ---- */

static tn_status attr_of(sp *s, const tn_node *n, const tn_attr *from, tn_mattr *to) {
  tn_arena *a = s->m->arena;
  const tn_attr_val one = from->val, *v = &one;
  uint32_t count = 1;
  if (one.kind == TN_AT_LIST) v = one.u.list.item, count = one.u.list.n;
  bool text = false, real = false;
  for (uint32_t i = 0; i < count; i++) {
    text |= v[i].kind == TN_AT_STR;
    real |= v[i].kind == TN_AT_FLOAT;
  }
  *to = (tn_mattr){.name = tn_arena_strdup(a, from->name), .n = count};
  int64_t *iv = TN_NEW(a, int64_t, count + 1);
  double *fv = TN_NEW(a, double, count + 1);
  tn_mstr *sv = TN_NEW(a, tn_mstr, count + 1);
  if (!to->name || !iv || !fv || !sv) return tn_fail(s->d, TN_E_NOMEM, "attribute %s", from->name);
  for (uint32_t i = 0; i < count; i++) {
    bool ok = text == (v[i].kind == TN_AT_STR);
    switch (v[i].kind) {
    case TN_AT_INT: iv[i] = v[i].u.i; break;
    case TN_AT_BOOL: iv[i] = v[i].u.b; break;
    case TN_AT_DTYPE: iv[i] = v[i].u.t; break;
    case TN_AT_FLOAT: fv[i] = v[i].u.f; break;
    case TN_AT_STR:
      sv[i].s = tn_arena_strdup(a, v[i].u.s);
      if (!sv[i].s) return tn_fail(s->d, TN_E_NOMEM, "attribute %s", from->name);
      sv[i].n = strlen(sv[i].s);
      break;
    case TN_AT_DIM: /* of a result that was never made, an unknown size is as good as any */
      if (!tn_dim_as_int(s->u->dims, v[i].u.d, &iv[i])) iv[i] = -1, ok &= strcmp(from->name, "scan_shape") == 0;
      break;
    default: ok = false;
    }
    if (v[i].kind != TN_AT_FLOAT) fv[i] = (double)iv[i];
    if (!ok) return tn_fail(s->d, TN_E_UNSUPPORTED, "attribute %s of %s: entry %u is no plain number or text", from->name, n->target, i);
  }
  bool list = one.kind == TN_AT_LIST;
  to->kind = text ? (list ? TN_MA_STRS : TN_MA_STR) : real ? (list ? TN_MA_FLOATS : TN_MA_FLOAT) : list ? TN_MA_INTS : TN_MA_INT;
  if (text) to->u.s = sv;
  else if (real) to->u.f = fv;
  else to->u.i = iv;
  return TN_OK;
}

/* Attributes that say how the node is built, not what its operator does. */
static bool structural(const tn_node *n, const char *name) {
  static const char *const of_if[] = {"then", "else"}, *const of_loop[] = {"body", "carried", "scans"};
  if (!strcmp(name, "effect")) return true;
  if (sp_is_if(n)) return !strcmp(name, of_if[0]) || !strcmp(name, of_if[1]);
  if (sp_is_loop(n)) return !strcmp(name, of_loop[0]) || !strcmp(name, of_loop[1]) || !strcmp(name, of_loop[2]);
  return !strcmp(name, "syms");
}

static tn_status step_kind(sp *s, const sp_func *f, const tn_node *n, tn_mstep *st) {
  int64_t c[2];
  uint32_t nc = sp_callees(n, c);
  for (uint32_t k = 0; k < nc; k++) st->func[k] = s->func[c[k]].number;
  if (sp_is_if(n)) {
    st->kind = TN_MS_BRANCH;
    if (n->n_in < 1) return tn_fail(s->d, TN_E_VERIFY, "an if without its condition");
  } else if (sp_is_loop(n)) {
    int64_t carried = tn_attr_int(n, "carried", -1), scans = tn_attr_int(n, "scans", 0);
    if (carried < 0 || scans < 0 || carried + 2 > n->n_in || carried + scans != n->n_out)
      return tn_fail(s->d, TN_E_VERIFY, "a loop with %u operands and %u results carries %lld values and scans %lld", n->n_in, n->n_out, (long long)carried, (long long)scans);
    st->kind = TN_MS_LOOP;
    st->n_carried = (uint32_t)carried;
    st->n_scan = (uint32_t)scans;
  } else {
    st->kind = TN_MS_OP;
    if (!n->target || !tn_dyn_find(n->target, strlen(n->target), &st->target))
      return tn_fail(s->d, TN_E_UNSUPPORTED, "'%s' in '%s' is no dynamic operator", n->target ? n->target : "?", f->g->name);
  }
  return TN_OK;
}

/* The same extra symbols, in the same order, for both branches of an if: those of either. */
static void callee_symbols(sp *s, const tn_node *n) {
  int64_t c[2];
  for (uint32_t k = 0, nc = sp_callees(n, c); k < nc; k++)
    for (uint32_t i = 0; i < s->n_syms; i++) s->mark[i] |= s->func[c[k]].extra[i];
}

static tn_status dyn_step(sp *s, sp_func *f, uint32_t id, tn_mstep *st) {
  const tn_node *n = &f->g->node[id];
  tn_arena *a = s->m->arena;
  uint32_t n_sym = 0;
  TN_TRY(step_kind(s, f, n, st));
  callee_symbols(s, n);
  for (uint32_t i = 0; i < s->n_syms; i++) n_sym += s->mark[i];
  st->in = TN_NEW(a, tn_marg, n->n_in + n_sym + 1);
  st->out = TN_NEW(a, uint32_t, n->n_out + 1u);
  st->attr = TN_NEW(a, tn_mattr, n->n_attr + 1u);
  const tn_prov *p = tn_graph_prov(f->g, n->prov);
  st->text = p ? tn_arena_printf(a, "%s %s", p->target ? p->target : n->target, p->name ? p->name : "") : tn_arena_strdup(a, n->target);
  if (!st->in || !st->out || !st->attr || !st->text) return tn_fail(s->d, TN_E_NOMEM, "step %s", n->target);
  for (uint32_t k = 0; k < n->n_in; k++) {
    st->in[k].pick = TN_MP_VALUE;
    TN_TRY(want(s, f, sp_value(f, n->in[k]), 0, &st->in[k].slot));
  }
  st->n_in = n->n_in;
  for (uint32_t i = 0; i < s->n_syms; i++) {
    if (!s->mark[i]) continue;
    s->mark[i] = false;
    st->in[st->n_in++] = symbol_arg(f, i);
  }
  for (uint32_t k = 0; k < n->n_out; k++)
    if (f->used[n->out + k]) TN_TRY(want(s, f, n->out + k, 0, &st->out[k]));
  st->n_out = n->n_out;
  for (uint32_t k = 0; k < n->n_attr; k++)
    if (!structural(n, n->attr[k].name)) TN_TRY_WHILE(s->d, attr_of(s, n, &n->attr[k], &st->attr[st->n_attr++]), "at node %u (%s)", id, st->text);
  tn_prov *fate = tn_graph_prov(f->g, n->prov);
  if (fate && fate->fate == TN_FATE_NONE) {
    fate->fate = TN_FATE_LIBRARY;
    fate->detail = n->target;
  }
  return TN_OK;
}

/* ---- a function ---- */

static tn_status inputs(sp *s, sp_func *f, tn_mfunc *mf) {
  const tn_graph *g = f->g;
  uint32_t n = g->n_inputs;
  for (uint32_t i = 0; i < s->n_syms; i++) n += f->extra[i];
  mf->in = TN_NEW(s->m->arena, uint32_t, n + 1);
  if (!mf->in) return tn_fail(s->d, TN_E_NOMEM, "inputs of '%s'", g->name);
  for (uint32_t i = 0; i < g->n_inputs; i++) mf->in[i] = f->slot[g->input[i].id] = ++f->n_slot;
  mf->n_in = g->n_inputs;
  for (uint32_t i = 0; i < s->n_syms; i++)
    if (f->extra[i]) mf->in[mf->n_in++] = f->sym[i].slot = ++f->n_slot;
  return TN_OK;
}

static uint32_t dim_phase(sp *s, sp_func *f, tn_dim d) {
  uint32_t p = 1;
  if (d >= 0) return p;
  tn_dim_mark_syms(s->u->dims, d, s->mark);
  for (uint32_t i = 0; i < s->n_syms; i++) {
    uint32_t q = s->mark[i] && f->sym[i].value ? f->phase[sp_maker_id(f, f->sym[i].value)] : 0;
    s->mark[i] = false;
    if (q > p) p = q;
  }
  return p;
}

/* none_step: set to the slot of the absent value when an output is none. */
static tn_status outputs(sp *s, sp_func *f, tn_mfunc *mf, uint32_t *none_slot) {
  const tn_graph *g = f->g;
  mf->out = TN_NEW(s->m->arena, uint32_t, g->n_outputs + 1);
  if (!mf->out) return tn_fail(s->d, TN_E_NOMEM, "outputs of '%s'", g->name);
  mf->n_out = g->n_outputs;
  for (uint32_t i = 0; i < g->n_outputs; i++) {
    const tn_output *o = &g->output[i];
    if (o->is_none) {
      if (!*none_slot) *none_slot = ++f->n_slot;
      mf->out[i] = *none_slot;
    } else if (o->is_dim) {
      mf->out[i] = ++f->n_slot;
      TN_TRY(need(s, f, dim_phase(s, f, o->dim), (sp_need){.dim = o->dim, .slot = mf->out[i]}));
    } else {
      TN_TRY(want(s, f, sp_value(f, o->ref), f->n_phase - 1, &mf->out[i]));
    }
  }
  return TN_OK;
}

static tn_status none(sp *s, uint32_t slot, tn_mstep *st) {
  *st = (tn_mstep){.kind = TN_MS_OP, .target = TN_DYN_NONE, .n_out = 1, .text = "none"};
  st->out = TN_NEW(s->m->arena, uint32_t, 1);
  st->in = TN_NEW(s->m->arena, tn_marg, 1);
  if (!st->out || !st->in) return tn_fail(s->d, TN_E_NOMEM, "step none");
  st->out[0] = slot;
  return TN_OK;
}

tn_status sp_build(sp *s, sp_func *f) {
  tn_mfunc *mf = &s->m->func[f->number];
  uint32_t none_slot = 0, n_dyn = 0;
  *mf = (tn_mfunc){.name = tn_arena_strdup(s->m->arena, f->g->name && *f->g->name ? f->g->name : "f")};
  f->ph = TN_NEW(s->a, sp_phase, f->n_phase);
  tn_mstep *dyn = TN_NEW(s->m->arena, tn_mstep, f->n_order + 1);
  mf->step = TN_NEW(s->m->arena, tn_mstep, f->n_order + 2 * f->n_phase + 1);
  if (!mf->name || !f->ph || !dyn || !mf->step) return tn_fail(s->d, TN_E_NOMEM, "function '%s'", f->g->name);
  TN_TRY(inputs(s, f, mf));
  for (uint32_t i = 0; i < f->n_order; i++) /* slots of definitions first: plans pick sizes from them */
    for (uint32_t k = 0; k < f->g->node[f->order[i]].n_out; k++) {
      uint32_t v = f->g->node[f->order[i]].out + k, slot;
      if (f->kind[f->order[i]] == SP_SLOT && f->used[v]) TN_TRY(want(s, f, v, 0, &slot));
    }
  for (uint32_t i = 0; i < f->n_order; i++) /* before the outputs: constants that they read must be there first */
    if (f->g->node[f->order[i]].op == TN_OP_DYN) TN_TRY(dyn_step(s, f, f->order[i], &dyn[n_dyn++]));
  TN_TRY(outputs(s, f, mf, &none_slot));
  for (uint32_t p = f->n_phase; p-- > 0;) TN_TRY(make_plan(s, f, p));
  for (uint32_t p = 0; p < f->n_phase; p++) TN_TRY(check_plan(s, f, p));
  if (none_slot) TN_TRY(none(s, none_slot, &mf->step[mf->n_step++]));
  for (uint32_t p = 0; p < f->n_phase; p++) {
    for (uint32_t i = 0, at = 0; i < f->n_order; i++) {
      if (f->g->node[f->order[i]].op != TN_OP_DYN) continue;
      if (f->phase[f->order[i]] == p) mf->step[mf->n_step++] = dyn[at];
      at++;
    }
    if (f->ph[p].sizes) {
      TN_TRY(add_graph(s, f->ph[p].sizes, &f->ph[p].check));
      mf->step[mf->n_step++] = f->ph[p].check;
    }
    if (!f->ph[p].graph) continue;
    TN_TRY(add_graph(s, f->ph[p].graph, &f->ph[p].call));
    mf->step[mf->n_step++] = f->ph[p].call;
  }
  mf->n_slot = f->n_slot;
  return TN_OK;
}

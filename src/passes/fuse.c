/* fuse: gathers the nodes that become one kernel into FUSED nodes.
 *
 * Idea: sort nodes into classes, then walk them once in program order. An anchor (contract, conv, window) starts a group; a reduction
 * starts one or joins the pointwise nodes before it; a pointwise node joins the best group among those that make its operands, and then
 * pulls the other operands' groups in where the rules of passes.h allow. Attention is found first, since its two contracts would
 * otherwise start groups of their own. Groups are atomic: before each join a walk over the graph with groups drawn together makes sure
 * that no way leads out of a group and back into it.
 *
 * Views are never members: they are free at a kernel's border and index arithmetic inside, so emission copies them in where both ends
 * are inside. A reshape that no strides can say is a member, for its data must move: it rides in the kernel that makes its operand.
 *
 * Kernels side by side are fused only where they write one concat (fuse_siblings.c). The pass never computes a big value twice to avoid a store. */
#include "passes/fuse_int.h"

enum { CHEAP_MAX = 16 };

/* ---- classes ---- */

static bool one_element(fx *f, uint32_t node) {
  int64_t n;
  return tn_px_static(fx_type(f, node), &n) && n == 1;
}

/* Light arithmetic over things that cost nothing to make. Cost counts nodes. */
static bool cheap(fx *f, uint32_t id) {
  const tn_node *n = &f->g->node[id];
  bool single = one_element(f, id);
  if (n->op == TN_OP_FULL || n->op == TN_OP_IOTA || (n->op == TN_OP_CONST && single)) {
    f->cost[id] = 1;
    return true;
  }
  if ((!tn_px_is_pw(n->op) && !tn_px_is_view(n->op)) || (tn_px_is_dear(n->op) && !single)) return false;
  uint32_t sum = 1;
  for (uint32_t k = 0; k < n->n_in; k++) {
    uint32_t m = fx_def(f, n->in[k]);
    if (f->cls[m] == FX_CHEAP) sum += f->cost[m];
    else if (!single || f->cls[m] != FX_SOURCE || !one_element(f, m)) return false;
    else sum += 2;
  }
  if (sum > CHEAP_MAX) return false;
  f->cost[id] = (uint8_t)sum;
  return true;
}

/* A reshape is free when strides say it over whatever lies in memory below. */
static bool free_reshape(fx *f, uint32_t id) {
  uint32_t chain[64], n = 0;
  tn_ref r = tn_out(&f->g->node[id], 0);
  uint32_t m = id;
  while (f->cls[m] == FX_VIEW || m == id) {
    if (n == 64) return false;
    chain[n++] = m;
    r = f->g->node[m].in[0];
    m = fx_def(f, r);
  }
  tn_px_strides s;
  if (!tn_px_strides_of(f->g, r, &s)) return false;
  while (n > 0)
    if (!tn_px_strides_view(f->g, chain[--n], &s)) return false;
  return true;
}

static fx_class class_of(fx *f, uint32_t id) {
  const tn_node *n = &f->g->node[id];
  if (n->op == TN_OP_INPUT || n->n_out != 1) return FX_SOURCE;
  if (cheap(f, id)) return FX_CHEAP;
  switch (n->op) {
  case TN_OP_RESHAPE: return free_reshape(f, id) ? FX_VIEW : FX_MOVE;
  case TN_OP_PERMUTE: case TN_OP_BROADCAST: case TN_OP_SLICE: return FX_VIEW;
  case TN_OP_PAD: case TN_OP_FLIP: return FX_PW;
  case TN_OP_TAKE: case TN_OP_GATHER: case TN_OP_INDEX: return FX_INDEX;
  case TN_OP_REDUCE: return FX_REDUCE;
  case TN_OP_CONTRACT: case TN_OP_CONV: case TN_OP_CONVT: case TN_OP_WINDOW: return FX_ANCHOR;
  default: return tn_px_is_pw(n->op) ? FX_PW : FX_SOURCE;
  }
}

/* ---- readers of values ---- */
static tn_status index_uses(fx *f) {
  tn_graph *g = f->g;
  uint32_t n_out = g->n_outputs + g->n_mutations, total = n_out;
  for (uint32_t i = 1; i < g->n_nodes; i++) total += g->node[i].n_in;
  f->use_at = TN_NEW(f->a, uint32_t, g->n_values + 2);
  f->use = TN_NEW(f->a, uint32_t, total + 1);
  if (!f->use_at || !f->use) return FX_OOM(f);
#define EACH_USE(DO) do { \
    for (uint32_t i = 1; i < g->n_nodes; i++) \
      for (uint32_t k = 0; k < g->node[i].n_in; k++) DO(g->node[i].in[k].id, i); \
    for (uint32_t i = 0; i < g->n_outputs; i++) \
      if (!g->output[i].is_dim && !g->output[i].is_none) DO(g->output[i].ref.id, 0); \
    for (uint32_t i = 0; i < g->n_mutations; i++) DO(g->mutation[i].value.id, 0); \
  } while (0)
#define COUNT_IT(v, by) f->use_at[(v) + 1]++
#define STORE_IT(v, by) f->use[f->use_at[v]++] = (by)
  EACH_USE(COUNT_IT);
  for (uint32_t v = 1; v <= g->n_values; v++) f->use_at[v] += f->use_at[v - 1];
  EACH_USE(STORE_IT); /* moves each start to the next value's start */
  for (uint32_t v = g->n_values; v > 0; v--) f->use_at[v] = f->use_at[v - 1];
  f->use_at[0] = 0;
#undef COUNT_IT
#undef STORE_IT
#undef EACH_USE
  return TN_OK;
}

static tn_status prepare(fx *f) {
  uint32_t n = f->n_nodes;
  f->cls = TN_NEW(f->a, uint8_t, n);
  f->cost = TN_NEW(f->a, uint8_t, n);
  f->of = TN_NEW(f->a, uint32_t, n);
  f->map = TN_NEW(f->a, uint64_t, n);
  f->prologue = TN_NEW(f->a, bool, n);
  f->stamp = TN_NEW(f->a, uint32_t, n);
  f->stack = TN_NEW(f->a, uint32_t, 2 * n);
  f->cap_groups = 64;
  f->group = TN_NEW(f->a, fx_group, f->cap_groups);
  f->n_groups = 1;
  if (!f->cls || !f->cost || !f->of || !f->map || !f->prologue || !f->stamp || !f->stack || !f->group) return FX_OOM(f);
  for (uint32_t i = 1; i < n; i++) f->cls[i] = (uint8_t)class_of(f, i);
  TN_TRY(index_uses(f));
  fx_mark_prologues(f);
  return TN_OK;
}

/* ---- a fill or an iota that somebody wants in memory becomes a kernel of its own ---- */
static tn_status materialise(fx *f, tn_ref r) {
  uint32_t m = fx_def(f, r);
  while (f->cls[m] == FX_VIEW) m = fx_def(f, f->g->node[m].in[0]);
  if (f->cls[m] != FX_CHEAP || f->of[m] || f->g->node[m].op == TN_OP_CONST) return TN_OK;
  uint32_t k = fx_group_new(f, FX_POINTWISE, m);
  return k ? TN_OK : FX_OOM(f);
}
static tn_status materialise_all(fx *f) {
  tn_graph *g = f->g;
  for (uint32_t i = 1; i < f->n_nodes; i++)
    for (uint32_t k = 0; k < g->node[i].n_in; k++) {
      bool wants = (f->cls[i] == FX_SOURCE) || (fx_is_member((fx_class)f->cls[i]) && fx_outside_operand(f, i, k));
      if (wants) TN_TRY(materialise(f, g->node[i].in[k]));
    }
  for (uint32_t i = 0; i < g->n_outputs; i++)
    if (!g->output[i].is_dim && !g->output[i].is_none) TN_TRY(materialise(f, g->output[i].ref));
  for (uint32_t i = 0; i < g->n_mutations; i++) TN_TRY(materialise(f, g->mutation[i].value));
  return TN_OK;
}

/* ---- provenance: rows that left no node behind ---- */
static tn_status note_vanished(fx *f) {
  tn_graph *g = f->g;
  bool *there = TN_NEW(f->a, bool, g->n_prov + 1);
  if (!there) return FX_OOM(f);
  for (uint32_t i = 1; i < g->n_nodes; i++)
    if (g->node[i].prov < g->n_prov) there[g->node[i].prov] = true;
  for (uint32_t k = 1; k < g->n_prov; k++) {
    tn_prov *r = &g->prov[k];
    if (there[k] || r->fate != TN_FATE_FUSED) continue; /* other fates say already where the node went */
    r->fate = TN_FATE_FOLDED;
    r->detail = "absorbed by its neighbours or by constants";
  }
  return TN_OK;
}

tn_status tn_pass_fuse(tn_pass_ctx *p, tn_graph *g) {
  TN_TRY(tn_graph_compact(p->d, g));
  TN_TRY(fx_split_casts(p, g));
  fx f = {.p = p, .g = g, .d = p->d, .a = p->scratch, .n_nodes = g->n_nodes};
  TN_TRY(prepare(&f));
  TN_TRY(note_vanished(&f));
  TN_TRY(fx_find_attention(&f));
  for (uint32_t i = 1; i < f.n_nodes; i++)
    if (fx_is_member((fx_class)f.cls[i]) && !f.of[i] && !f.prologue[i]) TN_TRY_WHILE(p->d, fx_place(&f, i), "placing node %u (%s)", i, tn_op_name(g->node[i].op));
  TN_TRY(fx_retract(&f));
  TN_TRY(fx_join_siblings(&f));
  TN_TRY(materialise_all(&f));
  TN_TRY(fx_emit(&f));
  return tn_graph_compact(p->d, g);
}

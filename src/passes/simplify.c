/* simplify: rewrites by named rules (rules.def) until none fires.
 *
 * A round walks the nodes once, new ones included, trying the rules on each in table order; a hit forwards the node's result and the walk
 * goes on, so chains collapse within a round. Between rounds compact drops what nobody reads and uses are counted afresh. Rules see
 * resolved operands only. How often each fired goes to the log channel "passes".
 *
 * What a rule may do: keep every value, except where its row says otherwise; never look at what a graph is part of. Rules that pay only
 * with a given kernel belong elsewhere. Constant folding is fold's. */
#include "passes/simplify_int.h"

enum { ANY_ELTWISE = -1, ANY_LOGIC = -2, ANY_COMPARE = -3, MAX_ROUNDS = 24, MAX_FIRES_PER_NODE = 24 };
#define TN_OP_ELTWISE ANY_ELTWISE
#define TN_OP_LOGIC ANY_LOGIC
#define TN_OP_COMPARE ANY_COMPARE
static const struct { tn_rule_fn *fn; int on; const char *text; } rules[] = {
#define TN_RULE(id, on, text, doc) {tn_rule_##id, TN_OP_##on, text},
#include "passes/rules.def"
#undef TN_RULE
};

const tn_rule_row *tn_rule_rows(uint32_t *out_n) {
  static const tn_rule_row row[] = {
#define TN_RULE(id, on, text, doc) {text, doc},
#include "passes/rules.def"
#undef TN_RULE
  };
  *out_n = TN_N_RULES;
  return row;
}

static bool concerns(int on, tn_op op) {
  if (on >= 0) return (int)op == on;
  if (on == ANY_LOGIC) return op == TN_OP_AND || op == TN_OP_OR || op == TN_OP_XOR;
  if (on == ANY_COMPARE) return op >= TN_OP_EQ && op <= TN_OP_GE;
  return tn_px_is_pw(op);
}

tn_ref tn_sx_as_out(tn_sx *s, uint32_t id, tn_ref x) {
  const tn_type t = *tn_sx_out(s, id);
  return tn_px_broadcast(&s->b, x, t.rank, t.dim);
}
tn_ref tn_sx_fill_out(tn_sx *s, uint32_t id, double v) {
  const tn_type t = *tn_sx_out(s, id);
  tn_num x = {.f = v};
  return tn_px_fill_of(&s->b, (tn_dtype)t.dtype, t.rank, t.dim, tn_num_cast(x, TN_F64, (tn_dtype)t.dtype));
}
uint32_t tn_sx_shape(tn_sx *s, tn_ref r, tn_dim *out) {
  const tn_type *t = tn_typeof(s->g, r);
  for (uint32_t i = 0; i < t->rank; i++) out[i] = t->dim[i];
  return t->rank;
}

/* Values that are results of the graph, or whose views are. */
static bool mark_kept(tn_sx *s) {
  tn_graph *g = s->g;
  s->kept = TN_NEW(s->p->scratch, bool, g->n_values);
  if (!s->kept) return false;
  for (uint32_t i = 0; i < g->n_outputs; i++)
    if (!g->output[i].is_dim && !g->output[i].is_none) s->kept[tn_graph_resolve(g, g->output[i].ref).id] = true;
  for (uint32_t i = 0; i < g->n_mutations; i++) s->kept[tn_graph_resolve(g, g->mutation[i].value).id] = true;
  for (uint32_t i = g->n_nodes; i-- > 1;) { /* in order after compact: readers come later */
    const tn_node *n = &g->node[i];
    if (tn_px_is_view(n->op) && s->kept[n->out]) s->kept[n->in[0].id] = true;
  }
  return true;
}

/* A computed result of the graph has memory of its own: when only an input or constant is left of it, a copy stays. */
static tn_ref own_memory(tn_sx *s, uint32_t id, tn_ref with) {
  uint32_t v = tn_out(&s->g->node[id], 0).id;
  if (tn_px_is_view(s->g->node[id].op) || s->g->node[id].op == TN_OP_COPY || v >= s->n_uses || !s->kept[v]) return with;
  tn_ref base = tn_graph_resolve(s->g, with);
  while (tn_px_is_view(tn_px_op(s->g, base))) base = tn_px_in(s->g, tn_px_def(s->g, base), 0);
  tn_op op = tn_px_op(s->g, base);
  return op == TN_OP_INPUT || op == TN_OP_CONST ? tn_px_1(&s->b, TN_OP_COPY, with) : with;
}

static tn_status fire(tn_sx *s, uint32_t id, uint32_t rule, tn_ref with) {
  with = own_memory(s, id, with);
  if (s->b.st != TN_OK) return s->b.st;
  const tn_type *was = tn_sx_out(s, id), *is = tn_typeof(s->g, with);
  if (was->dtype != is->dtype || !tn_px_same_shape(was, is))
    return tn_fail(s->p->d, TN_E_INTERNAL, "rule %s changed the type of node %u (%s)", rules[rule].text, id, tn_op_name(s->g->node[id].op));
  tn_graph_replace(s->g, tn_out(&s->g->node[id], 0), with);
  s->g->node[id].dead = true;
  s->fired[rule]++;
  return TN_OK;
}

static tn_status try_rules(tn_sx *s, uint32_t id, bool *out_hit) {
  *out_hit = false;
  for (uint32_t r = 0; r < TN_N_RULES; r++) {
    if (!concerns(rules[r].on, s->g->node[id].op)) continue;
    s->b.prov = s->g->node[id].prov;
    for (uint32_t k = 0; k < s->g->node[id].n_in; k++) tn_px_in(s->g, id, k);
    tn_ref with = rules[r].fn(s, id);
    if (s->b.st != TN_OK) return tn_diag_while(s->p->d, s->b.st, "applying rule %s to node %u (%s)", rules[r].text, id, tn_op_name(s->g->node[id].op));
    if (!with.id || tn_graph_resolve(s->g, with).id == tn_out(&s->g->node[id], 0).id) continue;
    TN_TRY(fire(s, id, r, with));
    *out_hit = true;
    return TN_OK;
  }
  return TN_OK;
}

static tn_status one_round(tn_sx *s, uint32_t *out_hits) {
  tn_mark m = tn_arena_mark(s->p->scratch);
  s->n_uses = s->g->n_values;
  s->uses = tn_graph_uses(s->p->scratch, s->g);
  if (!s->uses || !mark_kept(s)) return tn_fail(s->p->d, TN_E_NOMEM, "uses of %u values", s->g->n_values);
  uint64_t budget = (uint64_t)s->g->n_nodes * MAX_FIRES_PER_NODE;
  for (uint32_t id = 1; id < s->g->n_nodes && *out_hits < budget; id++) {
    bool hit = false;
    if (s->g->node[id].dead || s->g->node[id].n_out != 1) continue;
    TN_TRY(try_rules(s, id, &hit));
    *out_hits += hit;
  }
  tn_arena_rewind(s->p->scratch, m);
  return *out_hits ? tn_graph_compact(s->p->d, s->g) : TN_OK;
}

tn_status tn_simplify_run(tn_pass_ctx *p, tn_graph *g, uint32_t *out_changes) {
  tn_sx s = {.p = p, .g = g, .b = {.d = p->d, .g = g}};
  *out_changes = 0;
  TN_TRY(tn_graph_compact(p->d, g)); /* kept marks want program order */
  for (int round = 0; round < MAX_ROUNDS; round++) {
    uint32_t hits = 0;
    TN_TRY(one_round(&s, &hits));
    *out_changes += hits;
    if (hits == 0) break;
  }
  for (uint32_t r = 0; r < TN_N_RULES && tn_log_on("passes"); r++)
    if (s.fired[r]) tn_log("passes", "simplify: %s fired %u times", rules[r].text, s.fired[r]);
  return TN_OK;
}

tn_status tn_pass_simplify(tn_pass_ctx *p, tn_graph *g) {
  uint32_t n;
  return tn_simplify_run(p, g, &n);
}

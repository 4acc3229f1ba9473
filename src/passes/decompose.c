/* decompose: framework calls become primitive ops, or stay opaque with a reason.
 *
 * Each call passes the profile's gates first (gates.c), then its row of the op table is applied. What was decided goes into the
 * provenance record of the source node: gates, fate, and either the products or "code: words". The fate "fused" is provisional; lower
 * puts the kernel's name there. A refused call becomes an OPAQUE node that keeps target and arguments, so that a host can make the call.
 * Codes are a closed set: dtype, not-in-list, no-emitter, rule.
 *
 * It does not simplify what decompositions produce: that is what fold, simplify and cse are for. */
#include "passes/passes_int.h"
#include <string.h>

static tn_prov *prov_of(tn_graph *g, uint32_t node) {
  uint32_t k = g->node[node].prov;
  return k && k < g->n_prov ? &g->prov[k] : NULL;
}
static const char *name_of(tn_graph *g, uint32_t node) {
  const tn_prov *r = prov_of(g, node);
  return r && r->name ? r->name : "?";
}

/* ---- liveness: rows of nodes that nobody reads ---- */
static bool *provs_in_use(tn_pass_ctx *p, const tn_graph *g) {
  bool *use = TN_NEW(p->scratch, bool, g->n_prov + 1);
  if (!use) return NULL;
  for (uint32_t i = 1; i < g->n_nodes; i++)
    if (!g->node[i].dead && g->node[i].prov < g->n_prov) use[g->node[i].prov] = true;
  return use;
}
static tn_status drop_unread(tn_pass_ctx *p, tn_graph *g) {
  bool *before = provs_in_use(p, g);
  if (!before) return tn_fail(p->d, TN_E_NOMEM, "liveness of %u records", g->n_prov);
  TN_TRY(tn_graph_compact(p->d, g));
  bool *after = provs_in_use(p, g);
  if (!after) return tn_fail(p->d, TN_E_NOMEM, "liveness of %u records", g->n_prov);
  for (uint32_t k = 1; k < g->n_prov; k++)
    if (before[k] && !after[k] && g->prov[k].fate == TN_FATE_NONE) {
      g->prov[k].fate = TN_FATE_DEAD;
      g->prov[k].detail = "nothing reads it";
    }
  return TN_OK;
}

/* ---- refusing ---- */
static tn_status make_opaque(tn_pass_ctx *p, tn_graph *g, uint32_t node, const char *code, const char *text) {
  tn_node *n = &g->node[node];
  const char *why = tn_arena_printf(g->arena, "%s: %s", code, text);
  tn_attr *a = TN_NEW(g->arena, tn_attr, n->n_attr + 1u);
  if (!why || !a) return tn_fail(p->d, TN_E_NOMEM, "making %s opaque", n->target);
  uint16_t m = 0;
  for (uint16_t k = 0; k < n->n_attr; k++)
    if (strcmp(n->attr[k].name, "reason") != 0) a[m++] = n->attr[k]; /* the name is ours */
  a[m++] = tn_mk_str("reason", why);
  n->attr = a;
  n->n_attr = m;
  n->op = TN_OP_OPAQUE;
  tn_prov *r = prov_of(g, node);
  if (r) {
    r->fate = TN_FATE_FALLBACK;
    r->detail = why;
  }
  return TN_OK;
}

/* ---- taking apart: addmm whose product mm is refused while its add is not ---- */
static tn_status add_call(tn_pass_ctx *p, tn_graph *g, const char *target, const char *suffix, uint32_t from, const tn_ref *in, const char *second,
                          tn_ref *out) {
  const tn_prov *r = prov_of(g, from);
  const char *name = tn_arena_printf(g->arena, "%s_%s", r && r->name ? r->name : "call", suffix);
  tn_type t = *tn_typeof(g, tn_out(&g->node[from], 0));
  uint32_t prov = name ? tn_graph_add_prov(g, name, target, r ? r->where : NULL, (tn_dtype)t.dtype) : 0, id;
  const char *copy = tn_arena_strdup(g->arena, target);
  tn_attr at[2] = {{"self", {.kind = TN_AT_REF, .u.ref = 0}}, {second, {.kind = TN_AT_REF, .u.ref = 1}}};
  if (!prov || !copy) return tn_fail(p->d, TN_E_NOMEM, "taking %s apart", target);
  TN_TRY(tn_graph_add(g, TN_OP_CALL, in, 2, at, 2, &t, 1, prov, &id));
  g->node[id].target = copy;
  *out = tn_out(&g->node[id], 0);
  return TN_OK;
}
static bool ref_arg(const tn_graph *g, uint32_t node, const char *name, tn_ref *out) {
  const tn_attr_val *v = tn_attr_get(&g->node[node], name);
  if (!v || v->kind != TN_AT_REF || v->u.ref >= g->node[node].n_in) return false;
  *out = g->node[node].in[v->u.ref];
  return true;
}
static tn_status split_addmm(tn_pass_ctx *p, tn_graph *g, uint32_t node, bool *out_done) {
  tn_ref self, mm_in[2], add_in[2], sum;
  *out_done = false;
  if (tn_attr_num(&g->node[node], "alpha", 1) != 1 || tn_attr_num(&g->node[node], "beta", 1) != 1) return TN_OK;
  if (!ref_arg(g, node, "self", &self) || !ref_arg(g, node, "mat1", &mm_in[0]) || !ref_arg(g, node, "mat2", &mm_in[1])) return TN_OK;
  TN_TRY(add_call(p, g, "aten.mm.default", "mm", node, mm_in, "mat2", &add_in[0]));
  add_in[1] = self;
  TN_TRY(add_call(p, g, "aten.add.Tensor", "add", node, add_in, "other", &sum));
  tn_graph_replace(g, tn_out(&g->node[node], 0), sum);
  g->node[node].dead = true;
  tn_prov *r = prov_of(g, node);
  if (r) {
    r->fate = TN_FATE_DECOMPOSED;
    r->detail = "aten.mm.default, aten.add.Tensor";
  }
  *out_done = true;
  return TN_OK;
}

/* ---- going on ---- */
/* "sub, mul, sqrt, add": the ops a call became, each once, in order; fills left out unless they are all there is. */
static const char *products(tn_graph *g, uint32_t from) {
  tn_str b;
  bool seen[TN_N_OPS] = {false};
  tn_str_init(&b);
  for (int fills = 0; fills < 2 && b.n == 0; fills++)
    for (uint32_t i = from; i < g->n_nodes; i++) {
      tn_op op = g->node[i].op;
      if (seen[op] || (op == TN_OP_FULL && !fills)) continue;
      seen[op] = true;
      tn_str_add(&b, "%s%s", b.n ? ", " : "", tn_op_name(op));
    }
  const char *s = b.oom ? NULL : tn_arena_strndup(g->arena, b.s ? b.s : "", b.n);
  tn_str_deinit(&b);
  return s;
}

static tn_status apply(tn_pass_ctx *p, tn_graph *g, uint32_t node, const tn_aten_row *row) {
  uint32_t from = g->n_nodes;
  tn_status s = tn_aten_apply(p->d, g, node);
  if (s == TN_E_UNSUPPORTED) {
    const char *text = tn_arena_strdup(g->arena, p->d ? p->d->text : "this form has no decomposition");
    if (!text) return tn_fail(p->d, TN_E_NOMEM, "reason of a refusal");
    tn_diag_clear(p->d);
    tn_prov *r = prov_of(g, node);
    if (r) r->gate[2] = TN_GATE_FAIL;
    return make_opaque(p, g, node, "rule", text);
  }
  if (s != TN_OK) return tn_diag_while(p->d, s, "decomposing %s (%s)", g->node[node].target, name_of(g, node));
  g->node[node].dead = true;
  tn_prov *r = prov_of(g, node);
  if (!r) return TN_OK;
  r->fate = row->fate;
  r->detail = "";
  if (row->fate == TN_FATE_DECOMPOSED || row->fate == TN_FATE_REWRITTEN) {
    r->detail = products(g, from);
    if (!r->detail) return tn_fail(p->d, TN_E_NOMEM, "products of %s", g->node[node].target);
  }
  return TN_OK;
}

static tn_status one_call(tn_pass_ctx *p, tn_graph *g, uint32_t node) {
  tn_verdict v;
  bool done = false;
  if (!g->node[node].target) return tn_fail(p->d, TN_E_VERIFY, "call without a target");
  if (tn_gates_judge(p->profile, g, node, &v) != TN_OK) return tn_fail(p->d, TN_E_NOMEM, "verdict on %s", g->node[node].target);
  tn_prov *r = prov_of(g, node);
  if (r) memcpy(r->gate, v.gate, sizeof v.gate);
  if (v.split) TN_TRY(split_addmm(p, g, node, &done));
  if (done) return TN_OK;
  if (v.code) return make_opaque(p, g, node, v.code, v.text);
  const tn_aten_row *row = tn_aten_find(g->node[node].target);
  if (row) return apply(p, g, node, row);
  const char *text = tn_arena_printf(g->arena, "%s is no op that Tenon knows", g->node[node].target);
  if (!text) return tn_fail(p->d, TN_E_NOMEM, "reason of a refusal");
  if (r) r->gate[2] = TN_GATE_FAIL;
  return make_opaque(p, g, node, "no-emitter", text);
}

tn_status tn_pass_decompose(tn_pass_ctx *p, tn_graph *g) {
  TN_TRY(drop_unread(p, g));
  for (uint32_t id = 1; id < g->n_nodes; id++) /* the count grows while we walk: products may be calls again */
    if (g->node[id].op == TN_OP_CALL && !g->node[id].dead) TN_TRY_WHILE(p->d, one_call(p, g, id), "at node %s", name_of(g, id));
  TN_TRY(tn_graph_compact(p->d, g));
  for (uint32_t id = 1; id < g->n_nodes; id++) {
    const tn_node *n = &g->node[id];
    if (n->op != TN_OP_OPAQUE || p->allow_host_calls) continue;
    return tn_fail(p->d, TN_E_UNSUPPORTED, "%s (node %s) would need a host call: %s", n->target ? n->target : "opaque", name_of(g, id),
                   tn_attr_str(n, "reason", "no reason given"));
  }
  return TN_OK;
}

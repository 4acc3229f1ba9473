/* fuse_prologue: casts of an anchor's operands that ride in its kernel.
 *
 * Half-precision products arrive as contract(cast x, cast w) with the sum in float32. The wide copies must never reach memory, and a
 * kernel that sees both casts may use the machine's half-precision products. So each anchor gets widening casts of its own, directly in
 * front of it: contract(view(cast x)) becomes contract(cast(view x)), and a cast that several anchors share is made once for each. */
#include "passes/fuse_int.h"

static bool widens(tn_dtype from, tn_dtype to) {
  return tn_dtype_is_float(to) && tn_dtype_size(from) < tn_dtype_size(to) && from != TN_BOOL;
}
static bool is_anchor(tn_op op) { return op == TN_OP_CONTRACT || op == TN_OP_CONV || op == TN_OP_CONVT || op == TN_OP_WINDOW; }

enum { MAX_VIEWS = 16 };
/* The widening cast behind at most MAX_VIEWS views; 0 = there is none. */
static uint32_t cast_behind(const tn_graph *g, tn_ref r, uint32_t *view, uint32_t *out_n) {
  *out_n = 0;
  uint32_t m = g->value[r.id].node;
  while (tn_px_is_view(g->node[m].op) && *out_n < MAX_VIEWS) {
    view[(*out_n)++] = m;
    m = g->value[g->node[m].in[0].id].node;
  }
  const tn_node *n = &g->node[m];
  if (n->op != TN_OP_CAST) return 0;
  return widens((tn_dtype)tn_typeof(g, n->in[0])->dtype, (tn_dtype)tn_typeof(g, tn_out(n, 0))->dtype) ? m : 0;
}

static tn_status own_cast(tn_pass_ctx *p, tn_graph *g, uint32_t anchor, uint32_t k, uint32_t cast, const uint32_t *view, uint32_t n) {
  tn_px b = {.d = p->d, .g = g, .prov = g->node[cast].prov};
  tn_ref r = g->node[cast].in[0];
  while (n > 0) {
    tn_node *v = &g->node[view[--n]];
    b.prov = v->prov;
    r = tn_px_add(&b, v->op, &r, 1, v->attr, v->n_attr);
  }
  tn_attr at = tn_mk_dtype("dtype", (tn_dtype)tn_typeof(g, g->node[anchor].in[k])->dtype);
  r = tn_px_add(&b, TN_OP_CAST, &r, 1, &at, 1);
  if (b.st == TN_OK) g->node[anchor].in[k] = r;
  return b.st;
}

tn_status fx_split_casts(tn_pass_ctx *p, tn_graph *g) {
  uint32_t view[MAX_VIEWS], n, n_nodes = g->n_nodes, made = 0;
  tn_mark m = tn_arena_mark(p->scratch);
  uint32_t *use = tn_graph_uses(p->scratch, g);
  if (!use) return tn_fail(p->d, TN_E_NOMEM, "uses of %u values", g->n_values);
  for (uint32_t i = 1; i < n_nodes; i++)
    for (uint32_t k = 0; k < g->node[i].n_in && is_anchor(g->node[i].op); k++) {
      uint32_t cast = cast_behind(g, g->node[i].in[k], view, &n);
      if (!cast || (n == 0 && use[g->node[cast].out] == 1)) continue;
      TN_TRY(own_cast(p, g, i, k, cast, view, n));
      made++;
    }
  tn_arena_rewind(p->scratch, m);
  return made ? tn_graph_compact(p->d, g) : TN_OK;
}

void fx_mark_prologues(fx *f) {
  for (uint32_t i = 1; i < f->n_nodes; i++) {
    uint32_t v = f->g->node[i].out;
    if (f->cls[i] != FX_PW || f->g->node[i].op != TN_OP_CAST || f->use_at[v + 1] - f->use_at[v] != 1) continue;
    uint32_t by = f->use[f->use_at[v]];
    f->prologue[i] = by && f->cls[by] == FX_ANCHOR && widens((tn_dtype)tn_typeof(f->g, f->g->node[i].in[0])->dtype, (tn_dtype)fx_type(f, i)->dtype);
  }
}

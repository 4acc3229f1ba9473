/* fuse_retract: takes nodes out of epilogues again where that saves a store.
 *
 * Joining goes node by node and can't know who will read a result. When a member of an epilogue is stored only for one other kernel, and
 * the value it is made from is stored anyhow, that kernel can as well make it: x * x in front of the sum of an rms norm, q * cos of a
 * rotary embedding whose other half needs q. Each move removes one store and adds no load that was not there in another form. */
#include "passes/fuse_int.h"

/* The one group, other than `from`, that reads the node; 0 when there are several, or a reader outside groups. */
static uint32_t only_reader(const fx *f, uint32_t node, uint32_t from, int depth) {
  uint32_t v = tn_out(&f->g->node[node], 0).id, group = 0;
  for (uint32_t i = f->use_at[v]; i < f->use_at[v + 1]; i++) {
    uint32_t by = f->use[i];
    if (by == 0 || depth > 16) return 0;
    uint32_t h = f->cls[by] == FX_VIEW ? only_reader(f, by, from, depth + 1) : f->of[by];
    if (!h || h == from || (group && h != group)) return 0;
    if (f->cls[by] != FX_VIEW)
      for (uint32_t k = 0; k < f->g->node[by].n_in; k++) /* it must not want the value in memory */
        if (fx_outside_operand(f, by, k) && fx_def(f, f->g->node[by].in[k]) == node) return 0;
    group = h;
  }
  return group;
}

/* Somebody outside the group reads the node, besides `but`. */
static bool stored_anyhow(const fx *f, uint32_t node, uint32_t group, uint32_t but, int depth) {
  uint32_t v = tn_out(&f->g->node[node], 0).id;
  for (uint32_t i = f->use_at[v]; i < f->use_at[v + 1]; i++) {
    uint32_t by = f->use[i];
    if (by == but) continue;
    if (by == 0 || depth > 16) return true;
    if (f->cls[by] == FX_VIEW ? stored_anyhow(f, by, group, but, depth + 1) : f->of[by] != group) return true;
  }
  return false;
}

static bool may_move(fx *f, uint32_t node, uint32_t from, uint32_t to) {
  const fx_group *x = &f->group[to];
  const tn_node *n = &f->g->node[node];
  if (f->cls[node] != FX_PW || (x->kind != FX_POINTWISE && x->kind != FX_REDUCTION) || x->n + 2 >= FX_MAX_NODES / 2) return false;
  if (x->kind == FX_REDUCTION ? fx_level_of(x, fx_type(f, node)) != LV_DOMAIN : tn_px_numel(f->g, fx_type(f, node)) != x->numel) return false;
  for (uint32_t k = 0; k < n->n_in; k++) {
    uint32_t base = fx_trace_back(f, n->in[k], 1).base;
    if (f->of[base] == from && (f->map[base] == 0 || !stored_anyhow(f, base, from, node, 0))) return false;
  }
  return true;
}

static void take_out(fx *f, uint32_t group, uint32_t at) {
  fx_group *x = &f->group[group];
  f->of[x->member[at]] = 0;
  f->map[x->member[at]] = 0;
  x->member[at] = x->member[--x->n];
}

tn_status fx_retract(fx *f) {
  for (uint32_t g = 1; g < f->n_groups; g++) {
    if (!f->group[g].live || (f->group[g].kind != FX_CONTRACT && f->group[g].kind != FX_ATTENTION)) continue;
    for (bool again = true; again;) {
      again = false;
      for (uint32_t i = 0; i < f->group[g].n; i++) {
        uint32_t node = f->group[g].member[i];
        if (node == f->group[g].anchor || f->map[node] == 0) continue;
        uint32_t to = only_reader(f, node, g, 0);
        if (!to || !may_move(f, node, g, to)) continue;
        take_out(f, g, i);
        if (!fx_group_put(f, to, node)) return FX_OOM(f);
        again = true;
        break;
      }
    }
  }
  return TN_OK;
}

/* fuse_siblings: pointwise kernels that write the pieces of one concat become one kernel.
 *
 * A model that looks up thirty small tables and puts the rows side by side would launch thirty kernels of a microsecond's work. Pieces of
 * one shape share a loop. This is the only fusion of kernels that do not read each other. */
#include "passes/fuse_int.h"

static bool may_share(fx *f, uint32_t t, uint32_t h) {
  const fx_group *x = &f->group[t], *y = &f->group[h];
  if (!x->live || !y->live || x->kind != FX_POINTWISE || y->kind != FX_POINTWISE) return false;
  return tn_px_same_shape(x->type, y->type) && x->numel == y->numel && x->numel != TN_DIM_BAD;
}

tn_status fx_join_siblings(fx *f) {
  for (uint32_t i = 1; i < f->n_nodes; i++) {
    const tn_node *n = &f->g->node[i];
    if (n->op != TN_OP_CONCAT) continue;
    for (uint32_t a = 0; a < n->n_in; a++) {
      uint32_t t = f->of[fx_def(f, n->in[a])];
      for (uint32_t b = a + 1; t && b < n->n_in; b++) {
        uint32_t h = f->of[fx_def(f, n->in[b])];
        if (!h || h == t || !may_share(f, t, h) || !fx_fits(f, t, h, 0) || fx_needs(f, t, 0, h) || fx_needs(f, h, 0, t)) continue;
        if (!fx_merge(f, t, h)) return FX_OOM(f);
      }
    }
  }
  return TN_OK;
}

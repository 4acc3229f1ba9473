/* view: can a chain of views be said with strides, or must data move? The fusion pass asks, because a reshape that no strides can say is
 * a copy and wants to live inside a kernel, while any other view is free at a kernel's border.
 * Symbolic sizes are compared by handle; what can't be proved counts as "must move", which costs a copy and is never wrong. */
#include "passes/passes_int.h"

bool tn_px_strides_of(tn_graph *g, tn_ref base, tn_px_strides *out) {
  const tn_type *t = tn_typeof(g, base);
  const tn_node *n = tn_def(g, base);
  out->rank = t->rank;
  tn_dim step = 1;
  for (uint32_t k = t->rank; k-- > 0;) {
    out->dim[k] = t->dim[k];
    out->stride[k] = step;
    if (n->op == TN_OP_INPUT && n->input && n->input->stride) out->stride[k] = n->input->stride[k];
    step = tn_dim_mul(g->dims, step, t->dim[k]);
    if (step == TN_DIM_BAD) return false;
  }
  return true;
}

static bool view_reshape(tn_graph *g, const tn_type *t, tn_px_strides *s) {
  tn_px_strides old = *s;
  for (uint32_t i = 0; i < t->rank; i++) {
    s->dim[i] = t->dim[i];
    s->stride[i] = 0;
  }
  s->rank = t->rank;
  for (uint32_t i = 0; i < old.rank; i++)
    if (old.dim[i] == 0) return true; /* nothing to read */
  uint32_t n = 0; /* chunks of old dims that lie in one run, sizes of 1 dropped */
  tn_dim size[TN_MAX_RANK], step[TN_MAX_RANK];
  for (uint32_t i = 0; i < old.rank; i++) {
    if (old.dim[i] == 1) continue;
    bool joins = n > 0 && step[n - 1] == tn_dim_mul(g->dims, old.stride[i], old.dim[i]);
    if (joins) {
      size[n - 1] = tn_dim_mul(g->dims, size[n - 1], old.dim[i]);
      step[n - 1] = old.stride[i];
    } else {
      size[n] = old.dim[i];
      step[n++] = old.stride[i];
    }
  }
  uint32_t k = t->rank;
  for (uint32_t c = n; c-- > 0;) {
    tn_dim have = 1;
    while (have != size[c]) {
      while (k > 0 && s->dim[k - 1] == 1) k--;
      if (k == 0) return false;
      k--;
      s->stride[k] = tn_dim_mul(g->dims, step[c], have);
      have = tn_dim_mul(g->dims, have, s->dim[k]);
      if (have == TN_DIM_BAD || s->stride[k] == TN_DIM_BAD) return false;
      if (tn_dim_is_const(have) && tn_dim_is_const(size[c]) && have > size[c]) return false;
    }
  }
  while (k > 0 && s->dim[k - 1] == 1) k--;
  return k == 0;
}

bool tn_px_strides_view(tn_graph *g, uint32_t id, tn_px_strides *s) {
  const tn_node *n = &g->node[id];
  const tn_type *t = tn_typeof(g, tn_out(n, 0));
  tn_px_strides old = *s;
  tn_dim perm[TN_MAX_RANK];
  switch (n->op) {
  case TN_OP_RESHAPE: return view_reshape(g, t, s);
  case TN_OP_PERMUTE:
    if (tn_attr_dims(n, "perm", perm, TN_MAX_RANK) != (int)old.rank) return false;
    for (uint32_t i = 0; i < old.rank; i++) {
      s->dim[i] = old.dim[perm[i]];
      s->stride[i] = old.stride[perm[i]];
    }
    return true;
  case TN_OP_BROADCAST:
    s->rank = t->rank;
    for (uint32_t i = 0; i < t->rank; i++) {
      uint32_t lead = t->rank - old.rank;
      s->dim[i] = t->dim[i];
      s->stride[i] = i < lead || old.dim[i - lead] != t->dim[i] ? 0 : old.stride[i - lead];
    }
    return true;
  case TN_OP_SLICE: {
    int64_t dim = tn_attr_int(n, "dim", 0), step = tn_attr_int(n, "step", 1);
    s->dim[dim] = t->dim[dim];
    s->stride[dim] = tn_dim_mul(g->dims, old.stride[dim], step);
    return s->stride[dim] != TN_DIM_BAD;
  }
  default: return false;
  }
}

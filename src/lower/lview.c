/* lview.c: strided views at the graph level. A permute, broadcast or slice of a view is a view; a reshape is one when every group of joined
 * dims is stored as one run (the rule of NumPy and PyTorch). */
#include "lower/lower_plan.h"

void tn_lview_dense(tn_dims *ds, const tn_type *t, tn_lview *v) {
  v->dtype = (tn_dtype)t->dtype;
  v->rank = t->rank;
  v->offset = 0;
  tn_dim run = 1;
  for (uint32_t i = t->rank; i-- > 0;) {
    v->dim[i] = t->dim[i];
    v->stride[i] = run;
    run = tn_dim_mul(ds, run, t->dim[i]);
  }
}

bool tn_lview_is_dense(tn_dims *ds, const tn_lview *v) {
  tn_dim run = 1;
  for (uint32_t i = v->rank; i-- > 0;) {
    if (v->dim[i] != 1 && v->stride[i] != run) return false;
    run = tn_dim_mul(ds, run, v->dim[i]);
  }
  return true;
}

static bool reshape(tn_dims *ds, const tn_lview *x, const tn_type *y, tn_lview *out) {
  uint32_t i = 0, j = 0;
  while (i < x->rank || j < y->rank) {
    uint32_t i0 = i, j0 = j;
    tn_dim pi = 1, pj = 1;
    if (i < x->rank) pi = x->dim[i++];
    if (j < y->rank) pj = y->dim[j++];
    if (pi == 0 || pj == 0) {
      tn_type t = *y;
      tn_lview_dense(ds, &t, out);
      out->dtype = x->dtype;
      out->offset = x->offset;
      return true;
    }
    while (pi != pj) {
      tn_dim q;
      if (i < x->rank && (j >= y->rank || tn_dim_divides(ds, pi, pj, &q)))
        pi = tn_dim_mul(ds, pi, x->dim[i++]);
      else if (j < y->rank)
        pj = tn_dim_mul(ds, pj, y->dim[j++]);
      else if (i < x->rank)
        pi = tn_dim_mul(ds, pi, x->dim[i++]);
      else
        return false;
    }
    /* input dims i0..i are one run? size-1 dims do not matter */
    tn_dim stride = 0, run = 0;
    bool any = false;
    for (uint32_t k = i; k-- > i0;) {
      if (x->dim[k] == 1) continue;
      if (!any) {
        stride = x->stride[k];
        run = tn_dim_mul(ds, stride, x->dim[k]);
        any = true;
        continue;
      }
      if (x->stride[k] != run) return false;
      run = tn_dim_mul(ds, run, x->dim[k]);
    }
    if (!any) stride = 1;
    for (uint32_t k = j; k-- > j0;) {
      out->dim[k] = y->dim[k];
      out->stride[k] = stride;
      stride = tn_dim_mul(ds, stride, y->dim[k]);
      if (stride == TN_DIM_BAD) return false;
    }
  }
  return true;
}

bool tn_lview_apply(const tn_graph *g, tn_dims *ds, const tn_node *n, const tn_lview *x, tn_lview *out) {
  const tn_type *y = &g->value[n->out].type;
  tn_dim a[TN_MAX_RANK];
  *out = *x;
  out->rank = y->rank;
  for (uint32_t i = 0; i < y->rank; i++) out->dim[i] = y->dim[i];
  switch (n->op) {
    case TN_OP_PERMUTE:
      tn_attr_dims(n, "perm", a, TN_MAX_RANK);
      for (uint32_t i = 0; i < y->rank; i++) out->stride[i] = x->stride[a[i]];
      return true;
    case TN_OP_BROADCAST:
      for (uint32_t i = 0; i < y->rank; i++) {
        int k = (int)i - (int)(y->rank - x->rank);
        out->stride[i] = k < 0 || (x->dim[k] == 1 && y->dim[i] != 1) ? 0 : x->stride[k];
      }
      return true;
    case TN_OP_SLICE: {
      int64_t dim = tn_attr_int(n, "dim", 0), step = tn_attr_int(n, "step", 1);
      if (tn_attr_dims(n, "start", a, 1) != 1) return false;
      out->offset = tn_dim_add(ds, x->offset, tn_dim_mul(ds, a[0], x->stride[dim]));
      out->stride[dim] = tn_dim_mul(ds, x->stride[dim], step);
      return out->offset != TN_DIM_BAD && out->stride[dim] != TN_DIM_BAD;
    }
    case TN_OP_RESHAPE: return reshape(ds, x, y, out);
    default: return false;
  }
}

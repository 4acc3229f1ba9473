/* Results whose memory is not row-major: eager keeps the order of dims of what a value was made from, a channels-last image
 * through a convolution for one, and whoever takes the result may look at its strides. The value is copied into a tensor
 * whose dims stand in the wanted order, and the result is a view of that. Fusion makes the copy where the value is made. */
#include "frontend/fx/fx_int.h"

tn_status tn_fx_in_order(tn_diag *d, tn_graph *g, const int64_t *order, uint32_t n, tn_ref *r) {
  uint32_t rank = tn_typeof(g, *r)->rank;
  tn_dim there[TN_MAX_RANK], back[TN_MAX_RANK];
  bool taken[TN_MAX_RANK] = {false};
  if (n != rank) return tn_fail(d, TN_E_ARG, "an order of %u dims for rank %u", n, rank);
  for (uint32_t k = 0; k < n; k++) {
    if (order[k] < 0 || order[k] >= rank || taken[order[k]]) return tn_fail(d, TN_E_ARG, "order[%u] is %lld: each dim of %u once", k, (long long)order[k], rank);
    taken[order[k]] = true;
    there[k] = order[k];
    back[order[k]] = k;
  }
  tn_attr to = tn_mk_dims(g, "perm", there, rank), from = tn_mk_dims(g, "perm", back, rank);
  TN_TRY(tn_ops_add(d, g, TN_OP_PERMUTE, r, 1, &to, 1, 0, r));
  TN_TRY(tn_ops_add(d, g, TN_OP_COPY, r, 1, NULL, 0, 0, r));
  return tn_ops_add(d, g, TN_OP_PERMUTE, r, 1, &from, 1, 0, r);
}

/* fx, inside: pieces of the reader that stand alone. */
#ifndef TN_FX_INT_H
#define TN_FX_INT_H
#include "ops/ops.h"

/* *r becomes a value equal to it whose dims lie in memory in `order`, outermost first. TN_E_ARG: no permutation. */
tn_status tn_fx_in_order(tn_diag *d, tn_graph *g, const int64_t *order, uint32_t n, tn_ref *r);
#endif

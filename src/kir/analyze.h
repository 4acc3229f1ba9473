/* analyze: what schedules and nests both need to know about a definition: linear addresses of its accesses, and axes after merges. */
#ifndef TN_KIR_ANALYZE_H
#define TN_KIR_ANALYZE_H
#include "kir/def.h"

/* Linear address of one access in elements: base + sum coef[axis]*axis + sum opq_coef*value(opq). */
#define TN_LIN_OPQ 6
typedef struct tn_lin { tn_dim coef[TN_DEF_MAX_AXES]; tn_dim base; uint32_t n_opq; tn_kx_id opq[TN_LIN_OPQ]; tn_dim opq_coef[TN_LIN_OPQ]; uint32_t opq_deps; } tn_lin;

typedef struct tn_kan {
  const tn_kdef *k;
  uint32_t *deps;              /* [n_x] axes */
  tn_lin *load;                /* [n_x], valid for LOAD nodes */
  tn_lin *store;               /* [n_stage], valid for stages with out >= 0 */
  tn_dim extent[TN_DEF_MAX_AXES];   /* after merges; 1 for an axis merged away */
  uint8_t into[TN_DEF_MAX_AXES];    /* axis it was merged into, or itself */
  uint32_t value_use;          /* axes used as values (iota, guards, opaque terms): not mergeable */
} tn_kan;
tn_status tn_kan_make(tn_diag *d, tn_arena *a, const tn_kdef *k, tn_kan **out);
/* Merges axis a (outer) into b when every access allows it; true when done. */
bool tn_kan_merge(tn_kan *n, uint32_t a, uint32_t b);
bool tn_kan_can_merge(const tn_kan *n, uint32_t a, uint32_t b);
/* Stage's axes as bits, reduction axes as bits; after merges. */
uint32_t tn_kan_axes(const tn_kan *n, uint32_t stage);
uint32_t tn_kan_red(const tn_kan *n, uint32_t stage);
uint32_t tn_kan_deps(const tn_kan *n, tn_kx_id x);
/* Calls f on each node reachable from x without entering other stages. false = out of memory. */
bool tn_kan_walk(const tn_kan *n, tn_kx_id x, void (*f)(void *u, tn_kx_id x), void *u);
#endif

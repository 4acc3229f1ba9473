/* aten: the table of framework ops and the one way a CALL is replaced through it.
 *
 * tn_aten_apply is where trust ends: the recorded types come from outside, the decomposition from here, and they must agree in dtype
 * and rank. A dim may be spelled differently (s0*4 // s0 against 4 where the table cannot see it): then a reshape to the recorded
 * spelling follows, so that readers, whose own records use that spelling, meet equal dims. On any failure readers keep the CALL, and
 * what the function had added is dead and goes with the next compact. */
#include "aten_int.h"

static const tn_aten_row rows[] = {
#define TN_ATEN(name, fn, fate, own) {name, tn_d_##fn, TN_FATE_##fate, own},
#include "ops/aten.def"
#undef TN_ATEN
};
#define N_ROWS ((uint32_t)(sizeof rows / sizeof *rows))

const tn_aten_row *tn_aten_rows(uint32_t *out_n) {
  *out_n = N_ROWS;
  return rows;
}

const tn_aten_row *tn_aten_find(const char *target) {
  uint32_t lo = 0, hi = N_ROWS;
  while (target && lo < hi) {
    uint32_t mid = lo + (hi - lo) / 2;
    int k = strcmp(target, rows[mid].name);
    if (k == 0) return &rows[mid];
    if (k < 0) hi = mid; else lo = mid + 1;
  }
  return NULL;
}

/* Makes result k fit its recorded type. */
static tn_status fit(tn_decomp_ctx *c, uint32_t k) {
  const tn_type *want = tn_at_type(c, k), *got = tn_typeof(c->g, c->out[k]);
  if (got->dtype != want->dtype || got->rank != want->rank)
    return tn_at_unsup(c, "result %u is %s of rank %u, the record says %s of rank %u", k, tn_dtype_name((tn_dtype)got->dtype), got->rank,
                       tn_dtype_name((tn_dtype)want->dtype), want->rank);
  for (uint32_t i = 0; i < want->rank; i++)
    if (tn_dim_is_const(got->dim[i]) && tn_dim_is_const(want->dim[i]) && got->dim[i] != want->dim[i])
      return tn_at_unsup(c, "result %u has %lld elements in dim %u, the record says %lld", k, (long long)got->dim[i], i, (long long)want->dim[i]);
  c->out[k] = tn_b_reshape(c, c->out[k], want->dim, want->rank);
  return c->st;
}

tn_status tn_aten_apply(tn_diag *d, tn_graph *g, uint32_t node) {
  const tn_node *n = &g->node[node];
  const tn_aten_row *row = tn_aten_find(n->target);
  if (n->op != TN_OP_CALL || !row) return tn_fail(d, TN_E_UNSUPPORTED, "%s: no decomposition of that name", n->target ? n->target : "call");
  uint32_t n_out = n->n_out;
  tn_decomp_ctx c = {.d = d, .g = g, .node = node, .prov = n->prov, .n_out = n_out, .st = TN_OK};
  c.out = TN_NEW(g->arena, tn_ref, n_out ? n_out : 1);
  if (!c.out) return tn_fail(d, TN_E_NOMEM, "results of a call");
  tn_status st = row->fn(&c);
  if (st == TN_OK) st = c.st;
  for (uint32_t k = 0; k < n_out && st == TN_OK; k++) {
    if (c.out[k].id) st = fit(&c, k);
    else if (tn_at_used(&c, k)) st = tn_at_unsup(&c, "result %u is read and not available", k);
  }
  if (st == TN_E_ARG) {                                /* a shape rule refused what the record promised: not this form */
    if (d) d->code = TN_E_UNSUPPORTED;
    return tn_diag_while(d, TN_E_UNSUPPORTED, "decomposing %s", g->node[node].target);
  }
  if (st != TN_OK) return st;
  for (uint32_t k = 0; k < n_out; k++)
    if (c.out[k].id) tn_graph_replace(g, tn_out(&g->node[node], k), c.out[k]);
  return TN_OK;
}

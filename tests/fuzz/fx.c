/* FX JSON: whatever imports verifies, and its calls decompose or are refused; nothing crashes. Addresses are refused, as for files. */
#include <stdlib.h>
#include "frontend/fx/fx.h"
#include "ops/ops.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  tn_dims *dims = tn_dims_create();
  tn_arena a;
  tn_diag d;
  tn_graph *g;
  tn_arena_init(&a);
  tn_diag_clear(&d);
  if (dims && tn_fx_import_file_text(&d, &a, dims, (const char *)data, n, &g) == TN_OK) {
    tn_status s = tn_graph_verify(&d, g);
    if (s != TN_OK && s != TN_E_VERIFY && s != TN_E_NOMEM) abort();
    uint32_t calls = g->n_nodes;                        /* those of the text; what decompositions add holds no calls */
    for (uint32_t i = 1; s == TN_OK && i < calls && g->n_nodes < 20000; i++)
      if (g->node[i].op == TN_OP_CALL && tn_aten_apply(&d, g, i) == TN_OK) g->node[i].dead = true;
    if (s == TN_OK && tn_graph_compact(&d, g) == TN_OK) {
      s = tn_ops_verify(&d, g);
      (void)s;
    }
  }
  tn_arena_deinit(&a);
  tn_dims_destroy(dims);
  return 0;
}

/* ONNX bytes: whatever imports verifies, structure and types; nothing crashes, hangs or takes memory beyond reason. External data is refused: no folder. */
#include <stdlib.h>
#include <stdio.h>
#include "frontend/onnx/onnx.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  tn_dims *dims = tn_dims_create();
  tn_arena a;
  tn_diag d;
  tn_unit *u;
  tn_arena_init(&a);
  tn_diag_clear(&d);
  if (dims && tn_onnx_import(&d, &a, dims, data, n, NULL, &u) == TN_OK) {
    for (uint32_t k = 0; k < u->n_func; k++) {
      tn_status s = tn_graph_verify(&d, u->func[k]);
      if (s == TN_OK) s = tn_ops_verify(&d, u->func[k]);
      if (s == TN_OK) continue;
      tn_malloc_fail_after(0);                               /* not for want of memory, which shows as sizes that have no expression, too */
      s = tn_ops_verify(&d, u->func[k]);
      if (s == TN_OK) continue;
      fprintf(stderr, "%s: %s\n", tn_status_name(s), d.text);
      abort();
    }
  }
  tn_arena_deinit(&a);
  tn_dims_destroy(dims);
  return 0;
}

/* Dim text: whatever is read prints, reads back to the same handle, has bounds and compiles. */
#include <stdlib.h>
#include "base/dim.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  tn_dims *t = tn_dims_create();
  tn_diag d;
  tn_dim v, again;
  if (t && tn_dim_parse(&d, t, (const char *)data, n, &v) == TN_OK) {
    tn_str s;
    tn_str_init(&s);
    tn_dim_print(t, v, &s);
    if (!s.oom && tn_dim_parse(&d, t, s.s, s.n, &again) == TN_OK && again != v) abort();
    tn_str_deinit(&s);
    int64_t lo, hi;
    tn_dim_bounds(t, v, &lo, &hi);
    tn_arena a;
    tn_arena_init(&a);
    tn_dim_code *code;
    uint32_t n_code;
    (void)tn_dim_compile(&a, t, v, &code, &n_code);
    tn_arena_deinit(&a);
  }
  tn_dims_destroy(t);
  return 0;
}

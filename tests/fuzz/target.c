/* Target text: what is read prints and reads back. */
#include <stdlib.h>
#include <string.h>
#include "target/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  tn_target t, again;
  tn_diag d;
  if (tn_target_parse(&d, (const char *)data, n, &t) != TN_OK) return 0;
  tn_str a, b;
  tn_str_init(&a);
  tn_str_init(&b);
  tn_target_print(&t, &a);
  if (!a.oom && tn_target_parse(&d, a.s, a.n, &again) != TN_OK) abort();
  if (!a.oom) tn_target_print(&again, &b);
  if (!a.oom && !b.oom && strcmp(a.s, b.s) != 0) abort();
  tn_str_deinit(&a);
  tn_str_deinit(&b);
  return 0;
}

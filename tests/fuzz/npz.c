/* .npy and .npz: whatever the bytes, a value or words. What was read is written and read again to the same bytes. */
#include <stdlib.h>
#include <string.h>
#include "../../src/cli/npy.c"
#include "../../src/cli/npz.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "allocator_may_return_null=1"; }

static void again(const tn_value *v) {
  char why[256];
  cli_bytes a = {0}, b = {0};
  cli_npy_write(&a, v);
  if (!a.bad && tn_value_elem(v) != 16) { /* bfloat16 is written as float32 */
    tn_value *w = cli_npy_read(a.p, a.n, why, sizeof why);
    if (w) {
      cli_npy_write(&b, w);
      if (!b.bad && (a.n != b.n || memcmp(a.p, b.p, a.n) != 0)) abort();
    } else if (!strstr(why, "memory") && tn_value_elem(v) != 8) {
      abort();
    }
    tn_value_release(w);
  }
  free(a.p);
  free(b.p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  char why[512];
  cli_names x = {0};
  cli_bytes z = {0};
  tn_value *v = cli_npy_read(data, n, why, sizeof why);
  if (v) again(v);
  tn_value_release(v);
  if (cli_npz_read(data, n, &x, why, sizeof why)) {
    for (size_t i = 0; i < x.n; i++) again(x.at[i].value);
    cli_npz_write(&z, &x);
  }
  free(z.p);
  cli_names_free(&x);
  return 0;
}

/* Packages: the input is taken as a file whose hashes are put right first, so that what lies behind them is reached; and once more as it is. A
 * package that opens gives modules that verify, or errors. */
#include <stdlib.h>
#include <string.h>
#include "plan/package.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static uint64_t get(const unsigned char *p, int n) {
  uint64_t v = 0;
  for (int i = 0; i < n; i++) v |= (uint64_t)p[i] << 8 * i;
  return v;
}
static void put(unsigned char *p, uint64_t v) {
  for (int i = 0; i < 8; i++) p[i] = (unsigned char)(v >> 8 * i);
}

static void mend(unsigned char *p, size_t n) {
  if (n < TN_PACKAGE_HEADER) return;
  uint64_t sections = get(p + 12, 4), h;
  if (sections > (n - TN_PACKAGE_HEADER) / TN_PACKAGE_ENTRY) return;
  for (uint64_t i = 0; i < sections; i++) {
    unsigned char *e = p + TN_PACKAGE_HEADER + i * TN_PACKAGE_ENTRY;
    uint64_t at = get(e + 24, 8), bytes = get(e + 32, 8);
    if (at <= n && bytes <= n - at && tn_package_hash(p + at, (size_t)bytes, NULL, &h) == TN_OK) put(e + 40, h);
  }
  memcpy(p, "\x89TNP\r\n\x1a\n\1\0\0\0", 12);
  put(p + 16, n);
  put(p + 24, tn_hash(p + TN_PACKAGE_HEADER, (size_t)sections * TN_PACKAGE_ENTRY, 2));
  put(p + 56, tn_hash(p, 56, 3));
}

static void open_it(const void *p, size_t n, bool no_verify) {
  tn_diag d;
  tn_package *k;
  tn_module *m;
  if (tn_package_open_memory(&d, p, n, no_verify, NULL, &k) != TN_OK) return;
  for (uint32_t i = 0; i < tn_package_n_sections(k); i++) {
    if (tn_package_get(k, i)->kind != TN_PK_MODULE || tn_package_module(&d, k, tn_package_get(k, i)->level, &m) != TN_OK) continue;
    tn_str s;
    tn_str_init(&s);
    tn_module_print(m, &s); /* reads every constant and object */
    tn_str_deinit(&s);
    tn_module_destroy(m);
  }
  tn_package_close(k);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  unsigned char *p = aligned_alloc(64, (n + 64) / 64 * 64);
  if (!p) return 0;
  memcpy(p, data, n);
  open_it(p, n, true);
  mend(p, n);
  open_it(p, n, false);
  free(p);
  return 0;
}

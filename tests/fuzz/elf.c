/* Objects: whatever loads or is refused, nothing outside the object is read and nothing leaks. Loaded code is not run.
 * The seeds are tests/objects/kernels.c and undefined.c, compiled as tests/meson.build does, then strip --strip-unneeded. */
#include "device/cpu/elf_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static const char *const symbols[] = {"k_sections", "k_undefined"};
  for (int i = 0; i < 2; i++) {
    tn_elf e;
    char why[200];
    if (tn_elf_load(data, n, symbols[i], &e, why, sizeof why) == TN_OK) tn_elf_unload(&e);
  }
  return 0;
}

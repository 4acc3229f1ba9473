/* The table of library calls as data: names and arities, for printer, parser, verifier and run time. */
#include <string.h>
#include "plan/plan.h"

static const tn_plib_row rows[] = {
#define TN_LIB(id, text, n_in, n_out, params) {text, n_in, n_out, params},
#include "plan/lib.def"
#undef TN_LIB
};
_Static_assert(sizeof rows / sizeof *rows == TN_N_LIBS, "one row per library call");

const tn_plib_row *tn_plib_get(uint32_t lib) { return lib < TN_N_LIBS ? &rows[lib] : NULL; }

bool tn_plib_find(const char *s, size_t n, uint32_t *out) {
  for (uint32_t i = 0; i < TN_N_LIBS; i++)
    if (strlen(rows[i].text) == n && memcmp(rows[i].text, s, n) == 0) {
      *out = i;
      return true;
    }
  return false;
}

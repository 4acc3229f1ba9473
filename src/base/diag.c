/* Diagnostics: one fixed buffer per session or run that says what went wrong and what we were doing.
 * The lowest frame writes the text, upper frames append "; while ...". Text that does not fit is cut, never written past
 * the end. Nothing here allocates, so running out of memory can be reported too. It does not print. */
#include <stdio.h>
#include <string.h>
#include "base.h"

void tn_diag_clear(tn_diag *d) {
  if (!d) return;
  d->code = TN_OK;
  d->file = NULL;
  d->line = 0;
  d->text[0] = 0;
}

tn_status tn_diag_fail(tn_diag *d, tn_status code, const char *file, int line, const char *fmt, ...) {
  if (!d) return code;
  d->code = code;
  d->file = file;
  d->line = line;
  va_list ap;
  va_start(ap, fmt);
  if (vsnprintf(d->text, sizeof d->text, fmt, ap) < 0) d->text[0] = 0;
  va_end(ap);
  return code;
}

tn_status tn_diag_while(tn_diag *d, tn_status code, const char *fmt, ...) {
  if (!d) return code;
  if (d->code != code) { /* the lower frame had no diagnostic at hand: keep at least the code's name */
    d->code = code;
    d->file = NULL;
    d->line = 0;
    snprintf(d->text, sizeof d->text, "%s", tn_status_name(code));
  }
  size_t n = strlen(d->text);
  static const char sep[] = "; while ";
  if (n + sizeof sep >= sizeof d->text) return code;
  memcpy(d->text + n, sep, sizeof sep);
  n += sizeof sep - 1;
  va_list ap;
  va_start(ap, fmt);
  if (vsnprintf(d->text + n, sizeof d->text - n, fmt, ap) < 0) d->text[n] = 0;
  va_end(ap);
  return code;
}

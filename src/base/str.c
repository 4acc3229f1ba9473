/* Growable text. A failed growth sets `oom` and drops everything that would be added after it, so writers check once at the
 * end. `s` is NUL-terminated whenever it is not NULL. Doubles print as the shortest text that reads back to the same value,
 * with a point in every locale. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base.h"

void tn_str_init(tn_str *b) { *b = (tn_str){0}; }

void tn_str_deinit(tn_str *b) {
  tn_free(b->s);
  *b = (tn_str){0};
}

static bool reserve(tn_str *b, size_t more) {
  if (b->oom) return false;
  if (more >= SIZE_MAX / 4 - b->n) return !(b->oom = true);
  if (b->n + more + 1 <= b->cap) return true;
  size_t cap = b->cap ? b->cap : 64;
  while (cap < b->n + more + 1) cap *= 2;
  char *s = tn_realloc(b->s, cap);
  if (!s) return !(b->oom = true);
  b->s = s;
  b->cap = cap;
  return true;
}

void tn_str_put(tn_str *b, const char *s, size_t n) {
  if (!reserve(b, n)) return;
  if (n) memcpy(b->s + b->n, s, n);
  b->n += n;
  b->s[b->n] = 0;
}

void tn_str_add(tn_str *b, const char *fmt, ...) {
  va_list ap, again;
  va_start(ap, fmt);
  va_copy(again, ap);
  char small[128];
  int n = vsnprintf(small, sizeof small, fmt, ap);
  va_end(ap);
  if (n < 0) {
    b->oom = true;
  } else if ((size_t)n < sizeof small) {
    tn_str_put(b, small, (size_t)n);
  } else if (reserve(b, (size_t)n)) {
    vsnprintf(b->s + b->n, (size_t)n + 1, fmt, again);
    b->n += (size_t)n;
  }
  va_end(again);
}

void tn_str_add_double(tn_str *b, double v) {
  if (isnan(v)) {
    tn_str_put(b, "nan", 3);
    return;
  }
  if (isinf(v)) {
    tn_str_add(b, v < 0 ? "-inf" : "inf");
    return;
  }
  char t[48];
  for (int digits = 1; digits <= 17; digits++) {
    snprintf(t, sizeof t, "%.*g", digits, v);
    if (strtod(t, NULL) == v) break;
  }
  bool marked = false, in_point = false;
  for (const char *p = t; *p; p++) { /* whatever is not a digit, sign or exponent is the locale's decimal point */
    if ((*p >= '0' && *p <= '9') || *p == '-' || *p == '+' || *p == 'e') {
      marked |= *p == 'e';
      in_point = false;
      tn_str_put(b, p, 1);
    } else {
      if (!in_point) tn_str_put(b, ".", 1);
      marked = in_point = true;
    }
  }
  if (!marked) tn_str_put(b, ".0", 2);
}

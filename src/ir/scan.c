/* scan.c: characters to literals for the graph parser: names, strings, numbers, dims, types, and messages with a place.
 * The place is found when it is needed, by counting lines up to the offset, so scanning keeps one number only.
 * Nothing here recurses, and every loop moves forward over the text: the work is linear in its size. It knows no grammar. */
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ir/parse_int.h"

enum { MAX_DIM_TEXT = 65536, MAX_NUMBER_TEXT = 400 };

tn_status tn_scan_fail(tn_scan *p, size_t at, const char *fmt, ...) {
  char text[512];
  size_t line = 1, start = 0;
  va_list ap;
  for (size_t i = 0; i < at && i < p->n; i++)
    if (p->s[i] == '\n') line++, start = i + 1;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  return tn_fail(p->d, TN_E_PARSE, "%zu:%zu: %s", line, at - start + 1, text);
}

tn_status tn_scan_nomem(tn_scan *p) { return tn_fail(p->d, TN_E_NOMEM, "parsing a graph of %zu bytes", p->n); }

void tn_scan_blank(tn_scan *p) {
  for (; p->at < p->n; p->at++) {
    char c = p->s[p->at];
    if (c == '#')
      while (p->at + 1 < p->n && p->s[p->at + 1] != '\n') p->at++;
    else if (c != ' ' && c != '\t' && c != '\r')
      return;
  }
}

void tn_scan_lines(tn_scan *p) {
  for (tn_scan_blank(p); p->at < p->n && (p->s[p->at] == '\n' || p->s[p->at] == ';'); tn_scan_blank(p)) p->at++;
}

bool tn_scan_take(tn_scan *p, char c) {
  tn_scan_blank(p);
  if (tn_scan_peek(p) != (unsigned char)c) return false;
  p->at++;
  return true;
}

/* What stands at the place, for messages. */
static const char *here(const tn_scan *p, char buf[16]) {
  int c = tn_scan_peek(p);
  if (c < 0) return "the end of the text";
  if (c == '\n') return "the end of the line";
  snprintf(buf, 16, c >= 0x20 && c < 0x7f ? "'%c'" : "byte 0x%02x", c);
  return buf;
}

tn_status tn_scan_want(tn_scan *p, char c, const char *where) {
  char buf[16];
  if (tn_scan_take(p, c)) return TN_OK;
  return tn_scan_fail(p, p->at, "expected '%c' %s, got %s", c, where, here(p, buf));
}

static bool word_char(char c, const char *more) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr(more, c));
}

size_t tn_scan_word(tn_scan *p, const char *more) {
  size_t n = 0;
  while (p->at + n < p->n && word_char(p->s[p->at + n], more)) n++;
  return n;
}

bool tn_scan_keyword(tn_scan *p, const char *word) {
  tn_scan_blank(p);
  size_t n = strlen(word);
  if (tn_scan_word(p, "_") != n || memcmp(p->s + p->at, word, n) != 0) return false;
  p->at += n;
  return true;
}

static int hex_digit(int c) {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

tn_status tn_scan_string(tn_scan *p, const char **out) {
  size_t start = p->at++, end = p->at;
  for (; end < p->n && p->s[end] != '"'; end++) {
    if (p->s[end] == '\\') end++;
    if (end < p->n && p->s[end] == '\n') return tn_scan_fail(p, start, "string without an end on its line");
    if (end < p->n && (unsigned char)p->s[end] < 0x20)
      return tn_scan_fail(p, end, "control byte 0x%02x in a string: write it as an escape", (unsigned char)p->s[end]);
  }
  if (end >= p->n) return tn_scan_fail(p, start, "string without an end");
  char *t = tn_arena_alloc(p->a, end - p->at + 1);
  if (!t) return tn_scan_nomem(p);
  size_t k = 0;
  while (p->at < end) {
    char c = p->s[p->at++];
    if (c != '\\') {
      t[k++] = c;
      continue;
    }
    switch (c = p->s[p->at++]) {
      case 'n': t[k++] = '\n'; break;
      case 't': t[k++] = '\t'; break;
      case 'r': t[k++] = '\r'; break;
      case '"':
      case '\\': t[k++] = c; break;
      case 'x': {
        int hi = end - p->at >= 2 ? hex_digit(p->s[p->at]) : -1, lo = hi >= 0 ? hex_digit(p->s[p->at + 1]) : -1;
        if (hi < 0 || lo < 0 || hi + lo == 0) return tn_scan_fail(p, p->at - 2, "\\x wants two hex digits that are not 00");
        t[k++] = (char)(hi * 16 + lo);
        p->at += 2;
        break;
      }
      default: return tn_scan_fail(p, p->at - 2, "unknown escape \\%c", c >= 0x20 && c < 0x7f ? c : '?');
    }
  }
  t[k] = 0;
  p->at = end + 1;
  *out = t;
  return TN_OK;
}

tn_status tn_scan_name(tn_scan *p, const char *more, const char *what, const char **out) {
  char buf[16];
  if (tn_scan_peek(p) == '"') return tn_scan_string(p, out);
  size_t n = tn_scan_word(p, more);
  char c = n ? p->s[p->at] : '0';
  if ((c >= '0' && c <= '9') || (c != '_' && !word_char(c, "")))
    return tn_scan_fail(p, p->at, "expected %s, got %s (names start with a letter or '_'; others stand in quotes)", what, here(p, buf));
  char *t = tn_arena_strndup(p->a, p->s + p->at, n);
  if (!t) return tn_scan_nomem(p);
  p->at += n;
  *out = t;
  return TN_OK;
}

/* ---- numbers ---- */

static size_t digits(const char *s, size_t n, size_t at) {
  size_t k = at;
  while (k < n && s[k] >= '0' && s[k] <= '9') k++;
  return k - at;
}

bool tn_scan_is_int(const char *s, size_t n) {
  size_t sign = n && s[0] == '-';
  return n > sign && digits(s, n, sign) == n - sign;
}

bool tn_scan_is_float(const char *s, size_t n) {
  size_t at = n && s[0] == '-', k;
  if ((n - at == 3 && memcmp(s + at, "inf", 3) == 0) || (n == 3 && memcmp(s, "nan", 3) == 0)) return true;
  if (!(k = digits(s, n, at))) return false;
  at += k;
  if (at == n) return false; /* an integer */
  if (s[at] == '.') {
    if (!(k = digits(s, n, ++at))) return false;
    at += k;
  }
  if (at < n && (s[at] == 'e' || s[at] == 'E')) {
    at++;
    if (at < n && (s[at] == '+' || s[at] == '-')) at++;
    if (!(k = digits(s, n, at))) return false;
    at += k;
  }
  return at == n;
}

tn_status tn_scan_to_i64(tn_scan *p, size_t at, size_t n, int64_t *out) {
  bool neg = n && p->s[at] == '-';
  int64_t v = 0; /* counted downwards: the negative range is the larger one */
  if (!tn_scan_is_int(p->s + at, n)) return tn_scan_fail(p, at, "expected an integer");
  for (size_t i = neg; i < n; i++) {
    int digit = p->s[at + i] - '0';
    if (v < (INT64_MIN + digit) / 10) return tn_scan_fail(p, at, "integer does not fit 64 bits");
    v = v * 10 - digit;
  }
  if (!neg && v == INT64_MIN) return tn_scan_fail(p, at, "integer does not fit 64 bits");
  *out = neg ? v : -v;
  return TN_OK;
}

tn_status tn_scan_to_double(tn_scan *p, size_t at, size_t n, double *out) {
  char buf[MAX_NUMBER_TEXT + 1], *end;
  if (n > MAX_NUMBER_TEXT) return tn_scan_fail(p, at, "number of %zu characters, at most %d", n, MAX_NUMBER_TEXT);
  memcpy(buf, p->s + at, n);
  buf[n] = 0;
  char *dot = strchr(buf, '.');
  const char *point = localeconv()->decimal_point; /* strtod follows the program's locale; our text does not */
  if (dot && point && point[0] && !point[1]) *dot = point[0];
  double v = strtod(buf, &end);
  if (*end) return tn_scan_fail(p, at, "expected a number");
  if (isinf(v) && !strstr(buf, "inf")) return tn_scan_fail(p, at, "number does not fit a double");
  *out = v;
  return TN_OK;
}

tn_status tn_scan_i64(tn_scan *p, const char *what, int64_t *out) {
  char buf[16];
  tn_scan_blank(p);
  size_t n = tn_scan_word(p, "-");
  if (!tn_scan_is_int(p->s + p->at, n)) return tn_scan_fail(p, p->at, "expected %s, got %s", what, here(p, buf));
  TN_TRY(tn_scan_to_i64(p, p->at, n, out));
  p->at += n;
  return TN_OK;
}

tn_status tn_scan_u32(tn_scan *p, const char *what, uint32_t *out) {
  int64_t v;
  tn_scan_blank(p);
  size_t at = p->at;
  TN_TRY(tn_scan_i64(p, what, &v));
  if (v < 0 || v >= UINT32_MAX) return tn_scan_fail(p, at, "%s %lld is out of range", what, (long long)v);
  *out = (uint32_t)v;
  return TN_OK;
}

/* ---- dims and types ---- */

tn_status tn_scan_raw(tn_scan *p, const char *stop, const char *what, size_t *out_at, size_t *out_n) {
  char buf[16];
  tn_scan_blank(p);
  size_t at = p->at, depth = 0, last = at; /* last: just behind the last character that is not a space */
  for (; p->at < p->n; p->at++) {
    char c = p->s[p->at];
    if (c == '\n' || c == '#' || c == '"' || c == '\r' || (c && strchr(depth ? "[]{};" : stop, c))) break;
    if (c == '(') depth++;
    if (c == ')' && depth-- == 0) return tn_scan_fail(p, p->at, "')' without '('");
    if (c != ' ' && c != '\t') last = p->at + 1;
  }
  if (depth) return tn_scan_fail(p, at, "'(' without ')'");
  if (last == at) return tn_scan_fail(p, at, "expected %s, got %s", what, here(p, buf));
  if (last - at > MAX_DIM_TEXT) return tn_scan_fail(p, at, "%s of %zu bytes, at most %d", what, last - at, MAX_DIM_TEXT);
  *out_at = at;
  *out_n = last - at;
  return TN_OK;
}

tn_status tn_scan_dim_text(tn_scan *p, size_t at, size_t n, tn_dim *out) {
  if (p->s[at] != '-' && tn_scan_is_int(p->s + at, n)) return tn_scan_to_i64(p, at, n, out);
  tn_diag inner;
  tn_diag_clear(&inner);
  tn_status s = tn_dim_parse(&inner, p->dims, p->s + at, n, out);
  if (s == TN_E_NOMEM) return tn_scan_nomem(p);
  if (s != TN_OK || *out == TN_DIM_BAD) return tn_scan_fail(p, at, "bad dim '%.*s': %.300s", n > 60 ? 60 : (int)n, p->s + at, inner.text);
  return TN_OK;
}

tn_status tn_scan_dim(tn_scan *p, const char *stop, tn_dim *out) {
  size_t at, n;
  TN_TRY(tn_scan_raw(p, stop, "a dim", &at, &n));
  return tn_scan_dim_text(p, at, n, out);
}

tn_status tn_scan_dims(tn_scan *p, char close, tn_dim *out, uint32_t *out_n) {
  char stop[3] = {',', close, 0};
  uint32_t n = 0;
  size_t open = p->at;
  if (!tn_scan_take(p, close)) {
    do {
      if (n == TN_MAX_RANK) return tn_scan_fail(p, open, "more than %d dims", TN_MAX_RANK);
      TN_TRY(tn_scan_dim(p, stop, &out[n++]));
    } while (tn_scan_take(p, ','));
    TN_TRY(tn_scan_want(p, close, "after the dims"));
  }
  *out_n = n;
  return TN_OK;
}

tn_status tn_scan_type(tn_scan *p, tn_type *out) {
  tn_dim dim[TN_MAX_RANK];
  tn_dtype t;
  uint32_t rank;
  char buf[16];
  tn_scan_blank(p);
  size_t n = tn_scan_word(p, "_");
  if (n == 0) return tn_scan_fail(p, p->at, "expected a type, got %s", here(p, buf));
  if (!tn_dtype_parse(p->s + p->at, n, &t)) return tn_scan_fail(p, p->at, "unknown dtype '%.*s'", n > 40 ? 40 : (int)n, p->s + p->at);
  p->at += n;
  TN_TRY(tn_scan_want(p, '[', "after the dtype"));
  TN_TRY(tn_scan_dims(p, ']', dim, &rank));
  *out = (tn_type){(uint8_t)t, (uint8_t)rank, NULL};
  if (rank) {
    tn_dim *copy = TN_NEW(p->a, tn_dim, rank);
    if (!copy) return tn_scan_nomem(p);
    memcpy(copy, dim, rank * sizeof *dim);
    out->dim = copy;
  }
  return TN_OK;
}

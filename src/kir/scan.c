/* scan.c: characters to literals for the parsers of definitions and schedules, and messages with line and column.
 * The place is found when it is needed, by counting lines up to the offset, so scanning keeps one number only. Nothing here recurses, every
 * loop moves forward over the text. It knows no grammar. */
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "kir/scan_int.h"

enum { MAX_DIM_TEXT = 65536, MAX_NUMBER_TEXT = 400 };

tn_status tn_ks_fail(const tn_kscan *p, size_t at, const char *fmt, ...) {
  char text[512];
  size_t line = 1, start = 0;
  for (size_t i = 0; i < at && i < p->n; i++)
    if (p->s[i] == '\n') line++, start = i + 1;
  va_list ap;
  va_start(ap, fmt);
  if (vsnprintf(text, sizeof text, fmt, ap) < 0) text[0] = 0;
  va_end(ap);
  return tn_fail(p->d, TN_E_PARSE, "%s %zu:%zu: %s", p->what, line, at - start + 1, text);
}

tn_status tn_ks_nomem(const tn_kscan *p) { return tn_fail(p->d, TN_E_NOMEM, "parsing a %s of %zu bytes", p->what, p->n); }

void tn_ks_skip(tn_kscan *p) {
  for (; p->at < p->n; p->at++) {
    char c = p->s[p->at];
    if (c == '#') {
      while (p->at + 1 < p->n && p->s[p->at + 1] != '\n') p->at++;
    } else if (c != ' ' && c != '\t' && c != '\r' && c != '\n') {
      return;
    }
  }
}

int tn_ks_peek(tn_kscan *p) {
  tn_ks_skip(p);
  return p->at < p->n ? (unsigned char)p->s[p->at] : -1;
}

bool tn_ks_take(tn_kscan *p, char c) {
  if (tn_ks_peek(p) != (unsigned char)c) return false;
  p->at++;
  return true;
}

/* What stands at the place, for messages. */
static const char *here(tn_kscan *p, char buf[16]) {
  int c = tn_ks_peek(p);
  if (c < 0) return "the end of the text";
  snprintf(buf, 16, c >= 0x20 && c < 0x7f ? "'%c'" : "byte 0x%02x", c);
  return buf;
}

tn_status tn_ks_want(tn_kscan *p, char c) {
  char buf[16];
  if (tn_ks_take(p, c)) return TN_OK;
  return tn_ks_fail(p, p->at, "expected '%c', got %s", c, here(p, buf));
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool is_word_char(char c) { return is_letter(c) || is_digit(c) || c == '.'; }

tn_kword tn_ks_word(tn_kscan *p) {
  tn_ks_skip(p);
  tn_kword w = {p->s + p->at, 0};
  while (p->at < p->n && is_word_char(p->s[p->at])) p->at++, w.n++;
  return w;
}

bool tn_ks_is(tn_kword w, const char *s) { return strlen(s) == w.n && memcmp(w.s, s, w.n) == 0; }

bool tn_ks_take_word(tn_kscan *p, const char *s) {
  tn_ks_skip(p);
  size_t keep = p->at;
  if (tn_ks_is(tn_ks_word(p), s)) return true;
  p->at = keep;
  return false;
}

/* ---- names ---- */

static int hex(char c) { return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

static tn_status quoted(tn_kscan *p, const char **out) {
  size_t start = p->at++, m = 0;
  char *t = NULL;
  size_t end = p->at;
  while (end < p->n && p->s[end] != '"' && p->s[end] != '\n') end++;
  if (end >= p->n || p->s[end] != '"') return tn_ks_fail(p, start, "a quoted name without an end on its line");
  if (!(t = tn_arena_alloc(p->a, end - p->at + 1))) return tn_ks_nomem(p);
  while (p->at < end) {
    char c = p->s[p->at++];
    if (c == '\\') {
      int hi = end - p->at >= 2 ? hex(p->s[p->at]) : -1, lo = hi >= 0 ? hex(p->s[p->at + 1]) : -1;
      if (lo < 0) return tn_ks_fail(p, p->at - 1, "an escape in a name is a backslash and two hex digits");
      c = (char)(hi * 16 + lo);
      p->at += 2;
    }
    if (!c) return tn_ks_fail(p, p->at - 1, "zero byte in a name");
    t[m++] = c;
  }
  p->at = end + 1;
  *out = t;
  return TN_OK;
}

tn_status tn_ks_name(tn_kscan *p, const char *what, const char **out) {
  char buf[16];
  int c = tn_ks_peek(p);
  size_t at = p->at;
  if (c == '"') return quoted(p, out);
  tn_kword w = tn_ks_word(p);
  if (w.n == 0 || !is_letter(w.s[0])) {
    p->at = at;
    return tn_ks_fail(p, at, "expected %s, got %s (names start with a letter or '_'; others stand in quotes)", what, here(p, buf));
  }
  *out = tn_arena_strndup(p->a, w.s, w.n);
  return *out ? TN_OK : tn_ks_nomem(p);
}

void tn_ks_put_name(tn_str *o, const char *s) {
  bool plain = is_letter(*s);
  for (const char *c = s; *c; c++) plain &= is_word_char(*c);
  if (plain) {
    tn_str_put(o, s, strlen(s));
    return;
  }
  tn_str_put(o, "\"", 1);
  for (const char *c = s; *c; c++) {
    if (*c == '"' || *c == '\\' || (unsigned char)*c < 32)
      tn_str_add(o, "\\%02x", (unsigned char)*c);
    else
      tn_str_put(o, c, 1);
  }
  tn_str_put(o, "\"", 1);
}

/* ---- numbers ---- */

static tn_status to_i64(tn_kscan *p, tn_kword w, int64_t *out) {
  size_t at = (size_t)(w.s - p->s);
  bool neg = w.n && w.s[0] == '-';
  int64_t v = 0; /* counted downwards: the negative range is the larger one */
  if (w.n <= neg) return tn_ks_fail(p, at, "expected an integer");
  for (size_t i = neg; i < w.n; i++) {
    int digit = w.s[i] - '0';
    if (!is_digit(w.s[i])) return tn_ks_fail(p, at, "expected an integer, got '%.*s'", w.n > 40 ? 40 : (int)w.n, w.s);
    if (v < (INT64_MIN + digit) / 10) return tn_ks_fail(p, at, "integer does not fit 64 bits");
    v = v * 10 - digit;
  }
  if (!neg && v == INT64_MIN) return tn_ks_fail(p, at, "integer does not fit 64 bits");
  *out = neg ? v : -v;
  return TN_OK;
}

static tn_status to_u64(tn_kscan *p, tn_kword w, int64_t *out) {
  size_t at = (size_t)(w.s - p->s);
  uint64_t v = 0;
  if (w.n == 0) return tn_ks_fail(p, at, "expected an integer");
  for (size_t i = 0; i < w.n; i++) {
    unsigned digit = (unsigned)(w.s[i] - '0');
    if (!is_digit(w.s[i])) return tn_ks_fail(p, at, "expected digits, got '%.*s'", w.n > 40 ? 40 : (int)w.n, w.s);
    if (v > (UINT64_MAX - digit) / 10) return tn_ks_fail(p, at, "integer does not fit u64");
    v = v * 10 + digit;
  }
  *out = (int64_t)v;
  return TN_OK;
}

tn_kword tn_ks_number(tn_kscan *p) {
  tn_ks_skip(p);
  tn_kword w = {p->s + p->at, 0};
  while (p->at < p->n && (is_word_char(p->s[p->at]) || p->s[p->at] == '-' || p->s[p->at] == '+')) p->at++, w.n++;
  return w;
}

tn_status tn_ks_i64(tn_kscan *p, const char *what, int64_t *out) {
  char buf[16];
  size_t at = (tn_ks_skip(p), p->at);
  tn_kword w = tn_ks_number(p);
  if (w.n) return to_i64(p, w, out);
  return tn_ks_fail(p, at, "expected %s, got %s", what, here(p, buf));
}

tn_status tn_ks_u32(tn_kscan *p, const char *what, uint32_t max, uint32_t *out) {
  int64_t v;
  size_t at = (tn_ks_skip(p), p->at);
  TN_TRY(tn_ks_i64(p, what, &v));
  if (v < 0 || v > max) return tn_ks_fail(p, at, "%s %lld is outside 0..%u", what, (long long)v, max);
  *out = (uint32_t)v;
  return TN_OK;
}

/* digits [. digits] [e [sign] digits], or inf, nan; with a sign */
static bool float_shaped(tn_kword w) {
  size_t at = w.n && w.s[0] == '-', k = 0;
  if (w.n - at == 3 && (memcmp(w.s + at, "inf", 3) == 0 || memcmp(w.s + at, "nan", 3) == 0)) return true;
  while (at < w.n && is_digit(w.s[at])) at++, k++;
  if (k == 0) return false;
  if (at < w.n && w.s[at] == '.') {
    k = 0;
    for (at++; at < w.n && is_digit(w.s[at]); k++) at++;
    if (k == 0) return false;
  }
  if (at < w.n && w.s[at] == 'e') {
    at++;
    if (at < w.n && (w.s[at] == '-' || w.s[at] == '+')) at++;
    k = 0;
    while (at < w.n && is_digit(w.s[at])) at++, k++;
    if (k == 0) return false;
  }
  return at == w.n;
}

/* strtod follows the program's locale; our text does not. */
static bool to_double(tn_kword w, double *out) {
  char buf[MAX_NUMBER_TEXT + 1], *end;
  if (w.n > MAX_NUMBER_TEXT || !float_shaped(w)) return false;
  memcpy(buf, w.s, w.n);
  buf[w.n] = 0;
  char *dot = strchr(buf, '.');
  const char *point = localeconv()->decimal_point;
  if (dot && point && point[0] && !point[1]) *dot = point[0];
  *out = strtod(buf, &end);
  return *end == 0 && (!isinf(*out) || strstr(buf, "inf"));
}

tn_status tn_ks_num_of(tn_kscan *p, tn_kword w, tn_dtype t, tn_num *out) {
  size_t at = (size_t)(w.s - p->s);
  int shown = w.n > 40 ? 40 : (int)w.n;
  if (t == TN_BOOL) {
    if (!tn_ks_is(w, "true") && !tn_ks_is(w, "false")) return tn_ks_fail(p, at, "'%.*s' is no bool", shown, w.s);
    out->i = w.s[0] == 't';
    return TN_OK;
  }
  if (t == TN_U64) return to_u64(p, w, &out->i);
  if (!tn_dtype_is_float(t)) {
    TN_TRY(to_i64(p, w, &out->i));
    if (tn_num_cast(*out, TN_I64, t).i != out->i) return tn_ks_fail(p, at, "%lld is no %s", (long long)out->i, tn_dtype_name(t));
    return TN_OK;
  }
  double v;
  if (!to_double(w, &v)) return tn_ks_fail(p, at, "'%.*s' is no number that fits a double", shown, w.s);
  *out = tn_num_cast((tn_num){.f = v}, TN_F64, t);
  if (out->f != v && !isnan(v)) return tn_ks_fail(p, at, "%.*s is no value of %s", shown, w.s, tn_dtype_name(t));
  return TN_OK;
}

/* ---- dtypes and dims ---- */

tn_status tn_ks_dtype(tn_kscan *p, tn_dtype *out) {
  char buf[16];
  size_t at = (tn_ks_skip(p), p->at);
  tn_kword w = tn_ks_word(p);
  if (w.n == 0) return tn_ks_fail(p, at, "expected a dtype, got %s", here(p, buf));
  if (!tn_dtype_parse(w.s, w.n, out)) return tn_ks_fail(p, at, "unknown dtype '%.*s'", w.n > 40 ? 40 : (int)w.n, w.s);
  return TN_OK;
}

tn_status tn_ks_dim(tn_kscan *p, tn_dims *dims, const char *stop, tn_dim *out) {
  char buf[16];
  tn_ks_skip(p);
  size_t at = p->at, depth = 0, last = at; /* last: behind the last character that is not a space */
  for (; p->at < p->n; p->at++) {
    char c = p->s[p->at];
    if (!c || strchr("\n\r#\"[]{}", c) || (!depth && strchr(stop, c))) break;
    depth += c == '(';
    if (c == ')' && depth-- == 0) return tn_ks_fail(p, p->at, "')' without '('");
    if (c != ' ' && c != '\t') last = p->at + 1;
  }
  size_t n = last - at;
  if (depth) return tn_ks_fail(p, at, "'(' without ')' in a dim");
  if (n == 0) return tn_ks_fail(p, at, "expected a dim, got %s", here(p, buf));
  if (n > MAX_DIM_TEXT) return tn_ks_fail(p, at, "dim of %zu bytes, at most %d", n, MAX_DIM_TEXT);
  tn_diag inner;
  tn_diag_clear(&inner);
  tn_status s = tn_dim_parse(&inner, dims, p->s + at, n, out);
  if (s == TN_E_NOMEM) return tn_ks_nomem(p);
  if (s != TN_OK || *out == TN_DIM_BAD) return tn_ks_fail(p, at, "bad dim '%.*s': %.300s", n > 60 ? 60 : (int)n, p->s + at, inner.text);
  return TN_OK;
}

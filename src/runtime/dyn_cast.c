/* dyn_cast: numbers to text and back (ONNX Cast with strings).
 *
 * Floats are written as NumPy writes them: the shortest digits that read back as the same number of that type, plain between 1e-4 and 1e16, with
 * an exponent outside; "inf", "nan". Reading follows strtod plus the words of the ONNX text; integers may be written with a fraction, which is cut.
 * Both work on a "C" locale of their own, whatever the host program has set. */
#define _POSIX_C_SOURCE 200809L   /* uselocale */
#include "dyn_int.h"
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static tn_status with_c_locale(tn_dyn_call *c, tn_status (*run)(tn_dyn_call *c)) {
  locale_t here = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (!here) return tn_dv_fail(c, TN_E_NOMEM, "a locale");
  locale_t before = uselocale(here);
  tn_status st = run(c);
  uselocale(before);
  freelocale(here);
  return st;
}

/* ---- to text ---- */

/* Does the text read back as x in type t? */
static bool reads_as(const char *s, double x, int t) {
  if (t == TN_F64) return strtod(s, NULL) == x;
  float f = strtof(s, NULL);
  return t == TN_F32 ? (double)f == x : tn_num_cast((tn_num){.f = strtod(s, NULL)}, TN_F64, (tn_dtype)t).f == x;
}

static int float_text(char *out, size_t cap, double x, int t) {
  char e[48], digits[32];
  if (isnan(x)) return snprintf(out, cap, "nan");
  if (isinf(x)) return snprintf(out, cap, x < 0 ? "-inf" : "inf");
  int p = 0;
  do snprintf(e, sizeof e, "%.*e", p, fabs(x));
  while (!reads_as(e, fabs(x), t) && ++p < 17);
  int exp10 = (int)strtol(strchr(e, 'e') + 1, NULL, 10), n = 0;
  for (const char *s = e; *s != 'e'; s++)
    if (*s != '.') digits[n++] = *s;
  const char *sign = signbit(x) ? "-" : "";
  if (x != 0 && (exp10 < -4 || exp10 >= 16))
    return snprintf(out, cap, "%s%c%s%.*se%c%02d", sign, digits[0], n > 1 ? "." : "", n - 1, digits + 1, exp10 < 0 ? '-' : '+', abs(exp10));
  if (exp10 < 0) return snprintf(out, cap, "%s0.%.*s%.*s", sign, -exp10 - 1, "0000", n, digits);
  int whole = exp10 + 1 < n ? exp10 + 1 : n;
  return snprintf(out, cap, "%s%.*s%.*s.%.*s", sign, whole, digits, exp10 + 1 - whole, "0000000000000000", n > whole ? n - whole : 1, n > whole ? digits + whole : "0");
}

static tn_status to_string(tn_dyn_call *c) {
  tn_view x;
  tn_made m;
  TN_TRY(tn_dv_num(c, 0, &x));
  if (x.elem > TN_EL_BF16) return tn_dv_fail(c, TN_E_UNSUPPORTED, "element type %d (ONNX number)", x.elem);
  TN_TRY(tn_dv_new(c, TN_EL_STRING, x.rank, x.dim, &m, 0));
  for (int64_t i = 0; i < x.n; i++) {
    char b[64];
    tn_num v = tn_view_num(&x, i);
    int n = tn_dtype_is_float((tn_dtype)x.dtype) ? float_text(b, sizeof b, v.f, x.dtype)
            : x.dtype == TN_BOOL                 ? snprintf(b, sizeof b, v.i ? "True" : "False")
            : x.dtype == TN_U64                  ? snprintf(b, sizeof b, "%llu", (unsigned long long)v.i)
                                                 : snprintf(b, sizeof b, "%lld", (long long)v.i);
    char *s = tn_arena_strndup(c->tmp, b, (size_t)n);
    if (!s) return tn_dv_fail(c, TN_E_NOMEM, "text of %lld numbers", (long long)x.n);
    ((tn_mstr *)(void *)m.p)[i] = (tn_mstr){s, (size_t)n};
  }
  return tn_dv_done(c, &m, 0);
}
TN_DYN_OP(TO_STRING) { return with_c_locale(c, to_string); }

/* ---- from text ---- */

static bool at_end(const char *s, const char *p, size_t n) {
  while (*p == ' ' || (*p >= 9 && *p <= 13)) p++;
  return p == s + n;
}

static bool number_of(const char *s, size_t n, int t, void *out) {
  char *end;
  tn_num v;
  if (tn_dtype_is_float((tn_dtype)t)) {
    v.f = t == TN_F32 ? (double)strtof(s, &end) : strtod(s, &end);
    tn_num_store((tn_dtype)t, out, v);
    return end != s && at_end(s, end, n);
  }
  errno = 0;
  v.i = t == TN_U64 ? (int64_t)strtoull(s, &end, 10) : strtoll(s, &end, 10);
  if (end == s || !at_end(s, end, n) || errno) {
    double f = strtod(s, &end);                       /* 2.718, 1e3 */
    if (end == s || !at_end(s, end, n)) return false;
    v = tn_num_cast((tn_num){.f = f}, TN_F64, (tn_dtype)t);
  }
  tn_num_store((tn_dtype)t, out, v);
  return true;
}

/* Results are f32, f64, i64 or u64; other types are one more cast, which a plan does. */
static tn_status from_string(tn_dyn_call *c) {
  tn_view x;
  tn_made m;
  int64_t elem = tn_da_int(c, "elem", 0);
  int t = elem == TN_EL_F32 ? TN_F32 : elem == TN_EL_F64 ? TN_F64 : elem == TN_EL_I64 ? TN_I64 : elem == TN_EL_U64 ? TN_U64 : -1;
  if (t < 0) return tn_dv_fail(c, TN_E_UNSUPPORTED, "element type %lld (ONNX number)", (long long)elem);
  TN_TRY(tn_dv_str(c, 0, &x));
  TN_TRY(tn_dv_new(c, (int)elem, x.rank, x.dim, &m, 0));
  for (int64_t i = 0; i < x.n; i++) {
    tn_mstr s = tn_view_str(&x)[i];
    if (!number_of(s.s, s.n, t, m.p + (size_t)i * m.es)) return tn_dv_fail(c, TN_E_ARG, "\"%.60s\" (element %lld) is no number", s.s, (long long)i);
  }
  return tn_dv_done(c, &m, 0);
}
TN_DYN_OP(FROM_STRING) { return with_c_locale(c, from_string); }

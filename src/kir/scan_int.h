/* scan: characters and literals for the parsers of definitions and schedules. */
#ifndef TN_KIR_SCAN_INT_H
#define TN_KIR_SCAN_INT_H
#include "base/base.h"
#include "base/dim.h"
#include "base/scalar.h"

typedef struct tn_kscan {
  const char *s;
  size_t n, at;
  tn_diag *d;
  tn_arena *a;
  const char *what; /* "kernel", "schedule": for messages */
} tn_kscan;
typedef struct tn_kword { const char *s; size_t n; } tn_kword;

/* Fails with "what line:column: text" for byte offset `at`. */
tn_status tn_ks_fail(const tn_kscan *p, size_t at, const char *fmt, ...) TN_PRINTF(3, 4);
tn_status tn_ks_nomem(const tn_kscan *p);
void tn_ks_skip(tn_kscan *p);                   /* spaces, ends of lines, comments from # */
int tn_ks_peek(tn_kscan *p);                    /* next character after that, -1 at the end */
bool tn_ks_take(tn_kscan *p, char c);
tn_status tn_ks_want(tn_kscan *p, char c);
tn_kword tn_ks_word(tn_kscan *p);               /* letters, digits, '_', '.'; n = 0: none here */
bool tn_ks_is(tn_kword w, const char *s);
bool tn_ks_take_word(tn_kscan *p, const char *s);
tn_status tn_ks_name(tn_kscan *p, const char *what, const char **out); /* a letter or '_' first; or quoted */
tn_status tn_ks_u32(tn_kscan *p, const char *what, uint32_t max, uint32_t *out);
tn_status tn_ks_i64(tn_kscan *p, const char *what, int64_t *out);
/* A number as printed for dtype t; a word of digits, '.', '-', '+', e, inf, nan, true, false. */
tn_kword tn_ks_number(tn_kscan *p);
tn_status tn_ks_num_of(tn_kscan *p, tn_kword w, tn_dtype t, tn_num *out);
tn_status tn_ks_dtype(tn_kscan *p, tn_dtype *out);
/* A dim up to one of the characters of `stop` that stands outside parentheses. */
tn_status tn_ks_dim(tn_kscan *p, tn_dims *dims, const char *stop, tn_dim *out);

/* Printing's side of names: plain when tn_ks_name reads it back, else quoted. */
void tn_ks_put_name(tn_str *o, const char *s);
#endif

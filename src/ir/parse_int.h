/* parse_int.h: parse.c (graph grammar) on top of scan.c (characters, literals, dims, types). */
#ifndef TN_IR_PARSE_INT_H
#define TN_IR_PARSE_INT_H
#include "ir/ir_int.h"

typedef struct tn_scan {
  const char *s;
  size_t n, at;
  tn_diag *d;
  tn_arena *a;
  tn_dims *dims;
} tn_scan;

/* Fails with "line:column: text" for byte offset `at`. */
tn_status tn_scan_fail(tn_scan *p, size_t at, const char *fmt, ...) TN_PRINTF(3, 4);
tn_status tn_scan_nomem(tn_scan *p);
static inline int tn_scan_peek(const tn_scan *p) { return p->at < p->n ? (unsigned char)p->s[p->at] : -1; }
void tn_scan_blank(tn_scan *p);        /* spaces and comments, not the end of the line */
void tn_scan_lines(tn_scan *p);        /* also ends of lines and ';' */
bool tn_scan_take(tn_scan *p, char c); /* after blanks; true and past it, or false */
tn_status tn_scan_want(tn_scan *p, char c, const char *where);
size_t tn_scan_word(tn_scan *p, const char *more);      /* length of the run of letters, digits and `more` here */
bool tn_scan_keyword(tn_scan *p, const char *word);     /* after blanks: that word and no longer one */
tn_status tn_scan_string(tn_scan *p, const char **out); /* at the '"' */
tn_status tn_scan_name(tn_scan *p, const char *more, const char *what, const char **out); /* plain or quoted */
tn_status tn_scan_u32(tn_scan *p, const char *what, uint32_t *out);
tn_status tn_scan_i64(tn_scan *p, const char *what, int64_t *out);
/* Text of a dim or plain value up to one of `stop` outside parentheses; trimmed. */
tn_status tn_scan_raw(tn_scan *p, const char *stop, const char *what, size_t *out_at, size_t *out_n);
tn_status tn_scan_dim(tn_scan *p, const char *stop, tn_dim *out);
tn_status tn_scan_dim_text(tn_scan *p, size_t at, size_t n, tn_dim *out);
/* "[d,d]" or "{d,d}" after the opening character: at most TN_MAX_RANK dims. */
tn_status tn_scan_dims(tn_scan *p, char close, tn_dim *out, uint32_t *out_n);
tn_status tn_scan_type(tn_scan *p, tn_type *out); /* dims in the arena */
bool tn_scan_is_int(const char *s, size_t n);
bool tn_scan_is_float(const char *s, size_t n);
tn_status tn_scan_to_i64(tn_scan *p, size_t at, size_t n, int64_t *out);
tn_status tn_scan_to_double(tn_scan *p, size_t at, size_t n, double *out);
#endif

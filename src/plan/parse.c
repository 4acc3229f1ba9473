/* Text to plan: a line-wise reader of what print.c writes. It checks form only (numbers in order, known words, known
 * symbols); meaning is verify.c's business. Nothing is allocated from a number in the text, only from its length, so
 * hostile text costs at most memory in proportion to itself. */
#include <inttypes.h>
#include <string.h>
#include "plan/plan.h"

typedef struct parser {
  tn_diag *d;
  const char *s, *end, *begin;
  tn_plan *p;
  tn_dims *dims;
  uint32_t cap_sym, cap_assume, cap_in, cap_out, cap_buf, cap_view, cap_step, cap_kernel;
} parser;

static tn_status bad(parser *q, const char *want) {
  int line = 1, col = 1;
  for (const char *c = q->begin; c < q->s; c++) {
    col++;
    if (*c == '\n') line++, col = 1;
  }
  size_t n = 0;
  while (q->s + n < q->end && n < 20 && (unsigned char)q->s[n] >= 32) n++;
  return tn_fail(q->d, TN_E_PARSE, "plan text line %d column %d: wanted %s, found '%.*s'", line, col, want, (int)n, q->s);
}
static tn_status oom(parser *q) { return tn_fail(q->d, TN_E_NOMEM, "plan text of %zu bytes", (size_t)(q->end - q->begin)); }

static void space(parser *q) {
  while (q->s < q->end && (*q->s == ' ' || *q->s == '\t' || *q->s == '\r')) q->s++;
}
static void lines(parser *q) { /* blank lines and # comments */
  for (;;) {
    space(q);
    if (q->s < q->end && *q->s == '\n') q->s++;
    else if (q->s < q->end && *q->s == '#') while (q->s < q->end && *q->s != '\n') q->s++;
    else return;
  }
}
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }
static bool is_word(char c) { return is_letter(c) || c == '.' || c == '$'; } /* of names */
/* A punctuation mark or a whole word. */
static bool take(parser *q, const char *w) {
  space(q);
  size_t n = strlen(w);
  if ((size_t)(q->end - q->s) < n || memcmp(q->s, w, n) != 0) return false;
  if (is_letter(w[n - 1]) && q->s + n < q->end && is_letter(q->s[n])) return false;
  q->s += n;
  return true;
}
#define NEED(q, w) do { if (!take((q), (w))) return bad((q), "'" w "'"); } while (0)

static tn_status number(parser *q, int64_t *out) {
  space(q);
  const char *at = q->s;
  bool minus = q->s < q->end && *q->s == '-';
  if (minus) q->s++;
  uint64_t v = 0;
  const char *first = q->s;
  for (; q->s < q->end && *q->s >= '0' && *q->s <= '9'; q->s++) {
    if (v > (uint64_t)INT64_MAX / 10 || v * 10 > (uint64_t)INT64_MAX - (uint64_t)(*q->s - '0')) return q->s = at, bad(q, "a number below 2^63");
    v = v * 10 + (uint64_t)(*q->s - '0');
  }
  if (q->s == first) return q->s = at, bad(q, "a number");
  *out = minus ? -(int64_t)v : (int64_t)v;
  return TN_OK;
}
static tn_status u32(parser *q, uint32_t *out) {
  int64_t v = 0;
  const char *at = q->s;
  TN_TRY(number(q, &v));
  if (v < 0 || v > INT32_MAX) return q->s = at, bad(q, "a number below 2^31");
  *out = (uint32_t)v;
  return TN_OK;
}
/* One or more numbers, as many as the line has; or "constants". */
static tn_status sources(parser *q, tn_pbuf *b) {
  if (take(q, "constants")) return TN_OK;
  uint32_t n = 1;
  for (const char *s = q->s; s < q->end && *s != '\n'; s++) n += *s < '0' || *s > '9';
  b->source = TN_NEW(q->p->arena, uint32_t, n);
  if (!b->source) return tn_fail(q->d, TN_E_NOMEM, "sources of a packed buffer");
  do {
    TN_TRY(u32(q, &b->source[b->n_source++]));
    space(q);
  } while (b->n_source < n && q->s < q->end && *q->s >= '0' && *q->s <= '9');
  return TN_OK;
}
/* The running number that starts a line. */
static tn_status ordinal(parser *q, uint32_t want) {
  uint32_t v = 0;
  const char *at = q->s;
  TN_TRY(u32(q, &v));
  if (v != want) return q->s = at, bad(q, "the next number in order");
  return TN_OK;
}
static int hex(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }
static tn_status hash(parser *q, uint64_t *out) {
  space(q);
  uint64_t v = 0;
  int n = 0;
  for (; q->s < q->end && n < 16 && hex(*q->s) >= 0; q->s++, n++) v = v << 4 | (uint64_t)hex(*q->s);
  if (n != 16) return bad(q, "16 hexadecimal digits");
  *out = v;
  return TN_OK;
}
static tn_status string(parser *q, const char **out) {
  NEED(q, "\"");
  const char *start = q->s;
  size_t n = 0;
  for (const char *c = start; c < q->end && *c != '"' && *c != '\n'; c++, n++)
    if (*c == '\\') c++;
  char *t = tn_arena_alloc(q->p->arena, n + 1);
  if (!t) return oom(q);
  for (n = 0; q->s < q->end && *q->s != '"' && *q->s != '\n'; q->s++) {
    if (*q->s != '\\') {
      t[n++] = *q->s;
      continue;
    }
    if (++q->s >= q->end) break;
    if (*q->s == 'x' && q->end - q->s > 2 && hex(q->s[1]) >= 0 && hex(q->s[2]) >= 0 && hex(q->s[1]) + hex(q->s[2]) > 0) {
      t[n++] = (char)(hex(q->s[1]) << 4 | hex(q->s[2]));
      q->s += 2;
    } else if (*q->s == '"' || *q->s == '\\') {
      t[n++] = *q->s;
    } else {
      return bad(q, "an escape: \\\", \\\\ or \\xNN");
    }
  }
  t[n] = 0;
  NEED(q, "\"");
  *out = t;
  return TN_OK;
}

/* One size: up to a comma, bracket or line end outside parentheses. */
static tn_status dim(parser *q, tn_pdim *out) {
  space(q);
  const char *at = q->s, *e = q->s;
  int depth = 0;
  for (; e < q->end && *e != '\n' && !(depth == 0 && (*e == ',' || *e == ']' || *e == ')')); e++) depth += (*e == '(') - (*e == ')');
  while (e > at && (e[-1] == ' ' || e[-1] == '\t' || e[-1] == '\r')) e--;
  if (e == at) return bad(q, "a size");
  tn_dim d;
  tn_status st = tn_dim_parse(q->d, q->dims, at, (size_t)(e - at), &d);
  if (st == TN_OK && d == TN_DIM_BAD) st = bad(q, "a size in range");
  if (st == TN_OK && tn_dims_n_syms(q->dims) != q->p->n_sym) st = bad(q, "a size over declared symbols");
  if (st != TN_OK) return tn_diag_while(q->d, st, "reading the plan size '%.*s'", (int)(e - at < 80 ? e - at : 80), at);
  q->s = e;
  return tn_plan_dim(q->d, q->p, q->dims, d, out);
}
static tn_status dims(parser *q, tn_pdim **out, uint32_t *out_n) {
  uint32_t cap = 0, n = 0;
  tn_pdim *v = NULL;
  NEED(q, "[");
  if (!take(q, "]")) {
    do {
      if (!TN_PUSH_ROOM(q->p->arena, v, n, cap)) return oom(q);
      TN_TRY(dim(q, &v[n]));
      n++;
    } while (take(q, ","));
    NEED(q, "]");
  }
  if (!v && !(v = TN_NEW(q->p->arena, tn_pdim, 1))) return oom(q);
  *out = v;
  *out_n = n;
  return TN_OK;
}
static tn_status shape(parser *q, uint8_t *dtype, uint8_t *rank, tn_pdim **dim, tn_pdim **stride) {
  space(q);
  const char *w = q->s;
  while (q->s < q->end && is_word(*q->s)) q->s++;
  tn_dtype t;
  if (!tn_dtype_parse(w, (size_t)(q->s - w), &t)) return q->s = w, bad(q, "a dtype");
  *dtype = (uint8_t)t;
  uint32_t n = 0, m = 0;
  TN_TRY(dims(q, dim, &n));
  if (n > TN_PLAN_MAX_RANK) return bad(q, "at most 16 dims");
  *rank = (uint8_t)n;
  NEED(q, ",");
  NEED(q, "strides");
  *stride = NULL;
  if (take(q, "any")) return TN_OK;
  TN_TRY(dims(q, stride, &m));
  return m == n ? TN_OK : bad(q, "one stride per dim");
}
static tn_status args(parser *q, tn_pstep *s, uint32_t *cap) {
  NEED(q, "(");
  if (take(q, ")")) return TN_OK;
  do {
    if (!TN_PUSH_ROOM(q->p->arena, s->arg, s->n_arg, *cap)) return oom(q);
    TN_TRY(u32(q, &s->arg[s->n_arg]));
    s->n_arg++;
  } while (take(q, ","));
  NEED(q, ")");
  return TN_OK;
}

static tn_status bound(parser *q, int64_t *out) {
  if (!take(q, "max")) return number(q, out);
  *out = INT64_MAX;
  return TN_OK;
}
static tn_status line_sym(parser *q) {
  tn_plan *p = q->p;
  if (!TN_PUSH_ROOM(p->arena, p->sym, p->n_sym, q->cap_sym)) return oom(q);
  tn_psym *s = &p->sym[p->n_sym];
  space(q);
  const char *w = q->s;
  while (q->s < q->end && is_word(*q->s)) q->s++;
  if (q->s == w || q->s - w > 200) return q->s = w, bad(q, "a symbol's name");
  s->name = tn_arena_strndup(p->arena, w, (size_t)(q->s - w));
  if (!s->name) return oom(q);
  NEED(q, ",");
  NEED(q, "range");
  TN_TRY(bound(q, &s->lo));
  NEED(q, "..");
  TN_TRY(bound(q, &s->hi));
  NEED(q, ",");
  NEED(q, "input");
  uint32_t v = 0;
  TN_TRY(u32(q, &v));
  s->input = (int32_t)v;
  s->dim = -1;
  if (!take(q, "value")) {
    NEED(q, "dim");
    TN_TRY(u32(q, &v));
    s->dim = (int32_t)v;
  }
  if (s->lo > s->hi) return bad(q, "a range that is not empty");
  tn_dim d = tn_dim_sym(q->dims, s->name);
  if (d == TN_DIM_BAD) return oom(q);
  if (tn_dim_sym_ordinal(q->dims, d) != (int)p->n_sym) return bad(q, "a new symbol");
  tn_dim_set_range(q->dims, d, s->lo, s->hi);
  p->n_sym++;
  return TN_OK;
}
static tn_status line_assume(parser *q) {
  tn_plan *p = q->p;
  if (!TN_PUSH_ROOM(p->arena, p->assume, p->n_assume, q->cap_assume)) return oom(q);
  tn_passume *s = &p->assume[p->n_assume];
  *s = (tn_passume){0};
  TN_TRY(dim(q, &s->a));
  NEED(q, ",");
  NEED(q, "equals");
  TN_TRY(dim(q, &s->b));
  if (take(q, ",")) TN_TRY(string(q, &s->where));
  p->n_assume++;
  return TN_OK;
}
static tn_status line_in(parser *q) {
  tn_plan *p = q->p;
  TN_TRY(ordinal(q, p->n_in));
  if (!TN_PUSH_ROOM(p->arena, p->in, p->n_in, q->cap_in)) return oom(q);
  tn_pguard_in *g = &p->in[p->n_in];
  TN_TRY(shape(q, &g->dtype, &g->rank, &g->dim, &g->stride));
  if (take(q, ",")) TN_TRY(string(q, &g->name));
  p->n_in++;
  return TN_OK;
}
static tn_status constant(parser *q, tn_pbuf *b) {
  if (take(q, "hash")) return hash(q, &b->hash);
  NEED(q, "data");
  space(q);
  if (q->s == q->end || *q->s != 'x') return bad(q, "'x' and hexadecimal digits");
  q->s++;
  unsigned char *m = b->bytes >= 0 && b->bytes <= 64 ? tn_plan_data(q->p, (size_t)b->bytes) : NULL;
  if (!m) return b->bytes >= 0 && b->bytes <= 64 ? oom(q) : bad(q, "at most 64 bytes of data");
  for (int64_t i = 0; i < b->bytes; i++, q->s += 2) {
    if (q->end - q->s < 2 || hex(q->s[0]) < 0 || hex(q->s[1]) < 0) return bad(q, "two hexadecimal digits per byte");
    m[i] = (unsigned char)(hex(q->s[0]) << 4 | hex(q->s[1]));
  }
  b->data = m;
  return TN_OK;
}
static tn_status line_buf(parser *q) {
  tn_plan *p = q->p;
  TN_TRY(ordinal(q, p->n_buf));
  if (!TN_PUSH_ROOM(p->arena, p->buf, p->n_buf, q->cap_buf)) return oom(q);
  tn_pbuf *b = &p->buf[p->n_buf];
  *b = (tn_pbuf){0};
  if (take(q, "input") || take(q, "output")) {
    b->kind = q->s[-5] == 'i' ? TN_PB_INPUT : TN_PB_OUTPUT;
    TN_TRY(u32(q, &b->index));
  } else {
    if (take(q, "arena")) b->kind = TN_PB_ARENA;
    else if (take(q, "const")) b->kind = TN_PB_CONST;
    else if (take(q, "packed")) b->kind = TN_PB_PACKED;
    else return bad(q, "a kind of buffer");
    NEED(q, ",");
    NEED(q, "bytes");
    TN_TRY(dim(q, &b->bytes));
    NEED(q, ",");
    if (b->kind == TN_PB_ARENA) {
      NEED(q, "steps");
      TN_TRY(u32(q, &b->first));
      NEED(q, "..");
      TN_TRY(u32(q, &b->last));
    } else if (b->kind == TN_PB_PACKED) {
      NEED(q, "from");
      TN_TRY(sources(q, b));
    } else {
      TN_TRY(constant(q, b));
    }
  }
  p->n_buf++;
  return TN_OK;
}
static tn_status line_view(parser *q) {
  tn_plan *p = q->p;
  TN_TRY(ordinal(q, p->n_view));
  if (!TN_PUSH_ROOM(p->arena, p->view, p->n_view, q->cap_view)) return oom(q);
  tn_pview *v = &p->view[p->n_view];
  *v = (tn_pview){0};
  NEED(q, "buf");
  TN_TRY(u32(q, &v->buf));
  NEED(q, ",");
  TN_TRY(shape(q, &v->dtype, &v->rank, &v->dim, &v->stride));
  bool more = take(q, ",");
  if (more && take(q, "offset")) {
    TN_TRY(dim(q, &v->offset));
    more = take(q, ",");
  }
  if (more) TN_TRY(string(q, &v->name));
  p->n_view++;
  return TN_OK;
}
static tn_status line_kernel(parser *q) {
  tn_plan *p = q->p;
  TN_TRY(ordinal(q, p->n_kernel));
  if (!TN_PUSH_ROOM(p->arena, p->kernel, p->n_kernel, q->cap_kernel)) return oom(q);
  tn_pkernel *k = &p->kernel[p->n_kernel];
  *k = (tn_pkernel){0};
  int64_t bytes = 0;
  TN_TRY(string(q, &k->name));
  NEED(q, ",");
  NEED(q, "params");
  TN_TRY(u32(q, &k->n_param));
  NEED(q, ",");
  NEED(q, "sizes");
  TN_TRY(u32(q, &k->n_size));
  NEED(q, ",");
  NEED(q, "object");
  TN_TRY(number(q, &bytes));
  if (bytes < 0) return bad(q, "a byte count");
  k->object_bytes = (size_t)bytes;
  NEED(q, ",");
  NEED(q, "hash");
  TN_TRY(hash(q, &k->hash));
  p->n_kernel++;
  return TN_OK;
}
static tn_status line_step(parser *q) {
  tn_plan *p = q->p;
  TN_TRY(ordinal(q, p->n_step));
  if (!TN_PUSH_ROOM(p->arena, p->step, p->n_step, q->cap_step)) return oom(q);
  tn_pstep *s = &p->step[p->n_step];
  *s = (tn_pstep){0};
  uint32_t cap = 0;
  if (take(q, "launch")) {
    s->kind = TN_PS_LAUNCH;
    TN_TRY(u32(q, &s->kernel));
    TN_TRY(args(q, s, &cap));
  } else if (take(q, "view")) {
    s->kind = TN_PS_VIEW;
    TN_TRY(args(q, s, &cap));
  } else {
    if (take(q, "host")) {
      s->kind = TN_PS_HOST;
      TN_TRY(u32(q, &s->kernel));
    } else if (take(q, "lib")) {
      s->kind = TN_PS_LIB;
      space(q);
      const char *w = q->s;
      while (q->s < q->end && is_word(*q->s)) q->s++;
      if (!tn_plib_find(w, (size_t)(q->s - w), &s->kernel)) return q->s = w, bad(q, "a library call's name");
    } else {
      return bad(q, "launch, lib, host or view");
    }
    TN_TRY(args(q, s, &cap));
    s->n_in = s->n_arg;
    NEED(q, "->");
    TN_TRY(args(q, s, &cap));
  }
  while (take(q, ",")) {
    space(q);
    if (q->s < q->end && *q->s == '"') {
      TN_TRY(string(q, &s->text));
      break;
    }
    if (take(q, "sizes")) TN_TRY(dims(q, &s->size, &s->n_size));
    else if (take(q, "params")) TN_TRY(dims(q, &s->param, &s->n_param));
    else if (take(q, "blocks")) TN_TRY(dim(q, &s->blocks));
    else if (take(q, "grain")) TN_TRY(dim(q, &s->grain));
    else if (take(q, "scratch")) TN_TRY(dim(q, &s->scratch));
    else if (take(q, "work")) TN_TRY(dim(q, &s->work));
    else if (take(q, "prov")) TN_TRY(u32(q, &s->prov));
    else if (take(q, "pack")) s->pack = true;
    else return bad(q, "a clause of a step");
  }
  p->n_step++;
  return TN_OK;
}
static tn_status line_out(parser *q) {
  tn_plan *p = q->p;
  TN_TRY(ordinal(q, p->n_out));
  if (!TN_PUSH_ROOM(p->arena, p->out, p->n_out, q->cap_out)) return oom(q);
  tn_pout *o = &p->out[p->n_out];
  *o = (tn_pout){.alias_input = -1};
  if (take(q, "none")) {
    o->is_none = true;
  } else if (take(q, "dim")) {
    o->is_dim = true;
    TN_TRY(dim(q, &o->dim));
  } else {
    NEED(q, "view");
    TN_TRY(u32(q, &o->view));
    if (take(q, ",")) {
      uint32_t v = 0;
      NEED(q, "alias");
      TN_TRY(u32(q, &v));
      o->alias_input = (int32_t)v;
    }
  }
  p->n_out++;
  return TN_OK;
}

static tn_status body(parser *q) {
  static const struct { const char *word; tn_status (*line)(parser *); } kinds[] = {
      {"sym", line_sym}, {"assume", line_assume}, {"in", line_in},     {"buf", line_buf}, {"view", line_view},
      {"kernel", line_kernel}, {"step", line_step}, {"out", line_out}};
  for (;;) {
    lines(q);
    if (take(q, "}")) break;
    size_t k = 0;
    while (k < sizeof kinds / sizeof *kinds && !take(q, kinds[k].word)) k++;
    if (k < sizeof kinds / sizeof *kinds) TN_TRY(kinds[k].line(q));
    else if (take(q, "hosts")) TN_TRY(u32(q, &q->p->n_host));
    else return bad(q, "sym, assume, in, buf, view, kernel, hosts, step, out or '}'");
    space(q);
    if (q->s < q->end && *q->s != '\n' && *q->s != '#') return bad(q, "the end of the line");
  }
  lines(q);
  return q->s == q->end ? TN_OK : bad(q, "the end of the text");
}

tn_status tn_plan_parse(tn_diag *d, const char *text, size_t n, tn_plan **out) {
  *out = NULL;
  parser q = {.d = d, .s = text, .begin = text, .end = text + n};
  if (tn_plan_create("", &q.p) != TN_OK) return oom(&q);
  tn_status st = TN_OK;
  if (!(q.dims = tn_dims_create())) st = oom(&q);
  lines(&q);
  if (st == TN_OK && !take(&q, "plan")) st = bad(&q, "'plan'");
  if (st == TN_OK) st = string(&q, &q.p->name);
  if (st == TN_OK && !take(&q, "{")) st = bad(&q, "'{'");
  if (st == TN_OK) st = body(&q);
  tn_dims_destroy(q.dims);
  if (st == TN_OK) *out = q.p;
  else tn_plan_destroy(q.p);
  return st;
}

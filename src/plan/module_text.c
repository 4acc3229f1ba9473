/* Modules to text and back, a line per thing:
 *
 *   module "name" {
 *     meta "key" "value"
 *     in 0 tensor f32 [1, "N", ?], "x"           a number: fixed; a name or ?: free; any: rank not known
 *     out 0 map f32 any key i64, "y"
 *     func 0 "main" (1, 2) -> (5), slots 5 {
 *       call 0 (1, 2 dim 0, 2 item 3) -> (3), "source node"
 *       op nonzero (3) -> (4), attr "axis" 1, attr "names" strs ["a", "b"], "source node"
 *       branch 1 2 (4, 1) -> (5)
 *       loop 1 (3, 4, 1) -> (6), carried 1, scans 0
 *     }
 *   }
 *   plan "a" { ...                               plans follow, as plan/print.c writes them
 *
 * Attribute kinds show in their values: numbers with a point, exponent, inf or nan are floats; lists say their kind (ints, floats, strs),
 * as they may be empty. The reader checks form only, and allocates in proportion to the text. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "plan/module.h"

/* ---- printing ---- */

static void quoted(tn_str *o, const char *s, size_t n) {
  tn_str_put(o, "\"", 1);
  for (size_t i = 0; i < n; i++) {
    unsigned char c = (unsigned char)s[i];
    if (c == '"' || c == '\\') tn_str_add(o, "\\%c", c);
    else if (c < 32 || c == 127) tn_str_add(o, "\\x%02x", c);
    else tn_str_put(o, &s[i], 1);
  }
  tn_str_put(o, "\"", 1);
}
static void text(tn_str *o, const char *s) { quoted(o, s ? s : "", s ? strlen(s) : 0); }

static void print_port(tn_str *o, const char *side, uint32_t i, const tn_mport *p) {
  tn_str_add(o, "  %s %u %s %s ", side, i, tn_port_kind_name(p->kind) ? tn_port_kind_name(p->kind) : "?", tn_elem_name(p->elem) ? tn_elem_name(p->elem) : "?");
  if (p->rank < 0) tn_str_add(o, "any");
  else tn_str_add(o, "[");
  for (int k = 0; k < p->rank; k++) {
    const char *name = p->dim_name ? p->dim_name[k] : NULL;
    if (k) tn_str_add(o, ", ");
    if (name) text(o, name);
    if (p->dim[k] >= 0) tn_str_add(o, name ? " %" PRId64 : "%" PRId64, p->dim[k]);
    else if (!name) tn_str_add(o, "?");
  }
  if (p->rank >= 0) tn_str_add(o, "]");
  if (p->key_elem) tn_str_add(o, " key %s", tn_elem_name(p->key_elem) ? tn_elem_name(p->key_elem) : "?");
  tn_str_add(o, ", ");
  text(o, p->name);
  tn_str_add(o, "\n");
}

static void slots(tn_str *o, const uint32_t *v, uint32_t n) {
  tn_str_add(o, "(");
  for (uint32_t i = 0; i < n; i++) tn_str_add(o, i ? ", %u" : "%u", v[i]);
  tn_str_add(o, ")");
}

static void print_attr(tn_str *o, const tn_mattr *a) {
  static const char *const word[] = {"", "", "", "ints ", "floats ", "strs "};
  bool list = a->kind >= TN_MA_INTS;
  tn_str_add(o, ", attr ");
  text(o, a->name);
  tn_str_add(o, " %s%s", word[a->kind], list ? "[" : "");
  for (uint32_t i = 0; i < a->n; i++) {
    if (i) tn_str_add(o, ", ");
    if (a->kind == TN_MA_INT || a->kind == TN_MA_INTS) tn_str_add(o, "%" PRId64, a->u.i[i]);
    else if (a->kind == TN_MA_FLOAT || a->kind == TN_MA_FLOATS) tn_str_add_double(o, a->u.f[i]);
    else quoted(o, a->u.s[i].s, a->u.s[i].n);
  }
  if (list) tn_str_add(o, "]");
}

static void print_step(tn_str *o, const tn_mstep *s) {
  switch (s->kind) {
  case TN_MS_CALL: tn_str_add(o, "    call %u (", s->target); break;
  case TN_MS_OP: tn_str_add(o, "    op %s (", tn_dyn_get(s->target) ? tn_dyn_get(s->target)->text : "?"); break;
  case TN_MS_BRANCH: tn_str_add(o, "    branch %u %u (", s->func[0], s->func[1]); break;
  default: tn_str_add(o, "    loop %u (", s->func[0]);
  }
  for (uint32_t i = 0; i < s->n_in; i++) {
    tn_str_add(o, i ? ", %u" : "%u", s->in[i].slot);
    if (s->in[i].pick) tn_str_add(o, s->in[i].pick == TN_MP_DIM ? " dim %u" : " item %u", s->in[i].index);
  }
  tn_str_add(o, ") -> ");
  slots(o, s->out, s->n_out);
  if (s->kind == TN_MS_LOOP) tn_str_add(o, ", carried %u, scans %u", s->n_carried, s->n_scan);
  for (uint32_t i = 0; i < s->n_attr; i++) print_attr(o, &s->attr[i]);
  if (s->text) {
    tn_str_add(o, ", ");
    text(o, s->text);
  }
  tn_str_add(o, "\n");
}

void tn_module_print(const tn_module *m, tn_str *o) {
  tn_str_add(o, "module ");
  text(o, m->name);
  tn_str_add(o, " {\n");
  for (uint32_t i = 0; i < m->n_meta; i++) {
    tn_str_add(o, "  meta ");
    text(o, m->meta[i].key);
    tn_str_add(o, " ");
    text(o, m->meta[i].value);
    tn_str_add(o, "\n");
  }
  for (uint32_t i = 0; i < m->n_in; i++) print_port(o, "in", i, &m->in[i]);
  for (uint32_t i = 0; i < m->n_out; i++) print_port(o, "out", i, &m->out[i]);
  for (uint32_t f = 0; f < m->n_func; f++) {
    const tn_mfunc *g = &m->func[f];
    tn_str_add(o, "  func %u ", f);
    text(o, g->name);
    tn_str_add(o, " ");
    slots(o, g->in, g->n_in);
    tn_str_add(o, " -> ");
    slots(o, g->out, g->n_out);
    tn_str_add(o, ", slots %u {\n", g->n_slot);
    for (uint32_t i = 0; i < g->n_step; i++) print_step(o, &g->step[i]);
    tn_str_add(o, "  }\n");
  }
  tn_str_add(o, "}\n");
  for (uint32_t i = 0; i < m->n_plan; i++) tn_plan_print(m->plan[i], o);
}

/* ---- parsing ---- */

typedef struct reader { tn_diag *d; const char *s, *end, *begin; tn_module *m; tn_arena *a; uint32_t cap_meta, cap_in, cap_out, cap_func, cap_plan; } reader;

static tn_status bad(reader *q, const char *want) {
  int line = 1, col = 1;
  for (const char *c = q->begin; c < q->s; c++) {
    col++;
    if (*c == '\n') line++, col = 1;
  }
  size_t n = 0;
  while (q->s + n < q->end && n < 20 && (unsigned char)q->s[n] >= 32) n++;
  return tn_fail(q->d, TN_E_PARSE, "module text line %d column %d: wanted %s, found '%.*s'", line, col, want, (int)n, q->s);
}
static tn_status oom(reader *q) { return tn_fail(q->d, TN_E_NOMEM, "module text of %zu bytes", (size_t)(q->end - q->begin)); }

static bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.'; }
static void space(reader *q) {
  for (;;) {
    while (q->s < q->end && (*q->s == ' ' || *q->s == '\t' || *q->s == '\r' || *q->s == '\n')) q->s++;
    if (q->s == q->end || *q->s != '#') return;
    while (q->s < q->end && *q->s != '\n') q->s++;
  }
}
static bool take(reader *q, const char *w) {
  space(q);
  size_t n = strlen(w);
  if ((size_t)(q->end - q->s) < n || memcmp(q->s, w, n) != 0) return false;
  if (is_word(w[n - 1]) && q->s + n < q->end && is_word(q->s[n])) return false;
  q->s += n;
  return true;
}
#define NEED(q, w) do { if (!take((q), (w))) return bad((q), "'" w "'"); } while (0)

/* The bytes of a word: letters, digits, '_' and '.', with a sign in front. */
static size_t word(reader *q, const char **out) {
  space(q);
  *out = q->s;
  if (q->s < q->end && (*q->s == '-' || *q->s == '+')) q->s++;
  while (q->s < q->end && (is_word(*q->s) || ((*q->s == '+' || *q->s == '-') && (q->s[-1] == 'e' || q->s[-1] == 'E')))) q->s++;
  return (size_t)(q->s - *out);
}
static tn_status integer(reader *q, int64_t lo, int64_t hi, int64_t *out) {
  const char *w;
  char buf[32];
  size_t n = word(q, &w);
  char *e = buf;
  if (n > 0 && n < sizeof buf && (w[n - 1] >= '0' && w[n - 1] <= '9')) {
    memcpy(buf, w, n);
    buf[n] = 0;
    bool minus = buf[0] == '-';
    uint64_t v = 0;
    for (e = buf + minus; *e >= '0' && *e <= '9'; e++) {
      if (v > (UINT64_MAX - 9) / 10) break;
      v = v * 10 + (uint64_t)(*e - '0');
    }
    if (!*e && v <= (uint64_t)INT64_MAX + minus) {
      *out = minus ? (int64_t)(0 - v) : (int64_t)v;
      if (*out >= lo && *out <= hi) return TN_OK;
    }
  }
  q->s = w;
  return bad(q, "a number in range");
}
static tn_status u32(reader *q, uint32_t *out) {
  int64_t v = 0;
  TN_TRY(integer(q, 0, INT32_MAX, &v));
  *out = (uint32_t)v;
  return TN_OK;
}
static tn_status ordinal(reader *q, uint32_t want) {
  uint32_t v = 0;
  const char *at = q->s;
  TN_TRY(u32(q, &v));
  return v == want ? TN_OK : (q->s = at, bad(q, "the next number in order"));
}
static int hex(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

static tn_status bytes(reader *q, tn_mstr *out) {
  NEED(q, "\"");
  size_t n = 0;
  for (const char *c = q->s; c < q->end && *c != '"' && *c != '\n'; c++, n++)
    if (*c == '\\') c++;
  char *t = tn_arena_alloc(q->a, n + 1);
  if (!t) return oom(q);
  for (n = 0; q->s < q->end && *q->s != '"' && *q->s != '\n'; q->s++) {
    if (*q->s != '\\') {
      t[n++] = *q->s;
      continue;
    }
    if (++q->s >= q->end) break;
    if (*q->s == 'x' && q->end - q->s > 2 && hex(q->s[1]) >= 0 && hex(q->s[2]) >= 0) {
      t[n++] = (char)(hex(q->s[1]) << 4 | hex(q->s[2]));
      q->s += 2;
    } else if (*q->s == '"' || *q->s == '\\') {
      t[n++] = *q->s;
    } else {
      return bad(q, "an escape: \\\", \\\\ or \\xNN");
    }
  }
  if (q->s == q->end || *q->s != '"') return bad(q, "'\"'");
  q->s++;
  *out = (tn_mstr){t, n};
  return TN_OK;
}
static tn_status string(reader *q, const char **out) { /* without zero bytes */
  tn_mstr v = {0};
  TN_TRY(bytes(q, &v));
  if (strlen(v.s) != v.n) return bad(q, "text without zero bytes");
  *out = v.s;
  return TN_OK;
}

static tn_status slot_list(reader *q, uint32_t **out, uint32_t *out_n) {
  uint32_t cap = 0, n = 0, *v = NULL;
  NEED(q, "(");
  if (!take(q, ")")) {
    do {
      if (!TN_PUSH_ROOM(q->a, v, n, cap)) return oom(q);
      TN_TRY(u32(q, &v[n]));
      n++;
    } while (take(q, ","));
    NEED(q, ")");
  }
  *out = v;
  *out_n = n;
  return TN_OK;
}

static tn_status elem_word(reader *q, uint8_t *out) {
  const char *w;
  uint32_t e = 0;
  size_t n = word(q, &w);
  if (!tn_elem_parse(w, n, &e)) return q->s = w, bad(q, "an element type");
  *out = (uint8_t)e;
  return TN_OK;
}

static tn_status line_port(reader *q, tn_mport **list, uint32_t *n, uint32_t *cap) {
  TN_TRY(ordinal(q, *n));
  if (!TN_PUSH_ROOM(q->a, *list, *n, *cap)) return oom(q);
  tn_mport *p = &(*list)[*n];
  *p = (tn_mport){.rank = -1};
  while (tn_port_kind_name(p->kind) && !take(q, tn_port_kind_name(p->kind))) p->kind++;
  if (!tn_port_kind_name(p->kind)) return bad(q, "a kind of port");
  TN_TRY(elem_word(q, &p->elem));
  if (!take(q, "any")) {
    int64_t *dim = TN_NEW(q->a, int64_t, TN_PLAN_MAX_RANK);
    const char **name = TN_NEW(q->a, const char *, TN_PLAN_MAX_RANK);
    if (!dim || !name) return oom(q);
    p->dim = dim, p->dim_name = name, p->rank = 0;
    NEED(q, "[");
    while (!take(q, "]")) {
      if (p->rank && !take(q, ",")) return bad(q, "',' or ']'");
      if (p->rank == TN_PLAN_MAX_RANK) return bad(q, "at most 16 dims");
      int64_t *v = &dim[p->rank++];
      *v = -1;
      space(q);
      if (q->s < q->end && *q->s == '"') {
        TN_TRY(string(q, &name[p->rank - 1]));
        space(q);
        if (q->s < q->end && *q->s >= '0' && *q->s <= '9') TN_TRY(integer(q, 0, INT64_MAX, v));
      } else if (!take(q, "?")) {
        TN_TRY(integer(q, 0, INT64_MAX, v));
      }
    }
  }
  if (take(q, "key")) TN_TRY(elem_word(q, &p->key_elem));
  NEED(q, ",");
  TN_TRY(string(q, &p->name));
  ++*n;
  return TN_OK;
}

/* One value; *kind is the single kind it has. */
static tn_status item(reader *q, tn_mattr_kind *kind, void *to) {
  space(q);
  if (q->s < q->end && *q->s == '"') return *kind = TN_MA_STR, bytes(q, to);
  const char *at = q->s, *w;
  size_t n = word(q, &w);
  char buf[64], *e;
  if (n == 0 || n >= sizeof buf) return q->s = at, bad(q, "a value");
  memcpy(buf, w, n);
  buf[n] = 0;
  *kind = strpbrk(buf, ".einfa") ? TN_MA_FLOAT : TN_MA_INT;
  if (*kind == TN_MA_INT) return q->s = at, integer(q, INT64_MIN, INT64_MAX, to);
  double v = strtod(buf, &e);
  if (*e) return q->s = at, bad(q, "a number");
  memcpy(to, &v, sizeof v);
  return TN_OK;
}

static tn_status attribute(reader *q, tn_mattr *a) {
  TN_TRY(string(q, &a->name));
  a->kind = take(q, "ints") ? TN_MA_INTS : take(q, "floats") ? TN_MA_FLOATS : take(q, "strs") ? TN_MA_STRS : TN_MA_INT;
  bool list = a->kind >= TN_MA_INTS;
  tn_mattr_kind single = list ? (tn_mattr_kind)(a->kind - TN_MA_INTS) : TN_MA_INT, got = single;
  tn_mstr *v = NULL; /* the widest kind of item; narrowed in place below */
  uint32_t cap = 0;
  if (list) NEED(q, "[");
  if (!list || !take(q, "]")) {
    do {
      if (!TN_PUSH_ROOM(q->a, v, a->n, cap)) return oom(q);
      TN_TRY(item(q, &got, &v[a->n]));
      if (list && got != single) return bad(q, "items of the list's kind");
      a->n++;
    } while (list && take(q, ","));
    if (list) NEED(q, "]");
  }
  if (!list) a->kind = got;
  if (got != TN_MA_STR)
    for (uint32_t i = 0; i < a->n; i++) memmove((char *)v + i * sizeof(int64_t), &v[i], sizeof(int64_t));
  if (!v && !(v = TN_NEW(q->a, tn_mstr, 1))) return oom(q);
  a->u.s = v;
  return TN_OK;
}

static tn_status operands(reader *q, tn_mstep *s) {
  uint32_t cap = 0;
  NEED(q, "(");
  if (take(q, ")")) return TN_OK;
  do {
    if (!TN_PUSH_ROOM(q->a, s->in, s->n_in, cap)) return oom(q);
    tn_marg *a = &s->in[s->n_in];
    TN_TRY(u32(q, &a->slot));
    a->pick = take(q, "dim") ? TN_MP_DIM : take(q, "item") ? TN_MP_ITEM : TN_MP_VALUE;
    if (a->pick) TN_TRY(u32(q, &a->index));
    s->n_in++;
  } while (take(q, ","));
  NEED(q, ")");
  return TN_OK;
}

static tn_status line_step(reader *q, tn_mfunc *f, uint32_t *cap) {
  if (!TN_PUSH_ROOM(q->a, f->step, f->n_step, *cap)) return oom(q);
  tn_mstep *s = &f->step[f->n_step];
  uint32_t cap_attr = 0;
  *s = (tn_mstep){0};
  if (take(q, "call")) {
    s->kind = TN_MS_CALL;
    TN_TRY(u32(q, &s->target));
  } else if (take(q, "op")) {
    s->kind = TN_MS_OP;
    const char *w;
    size_t n = word(q, &w);
    if (!tn_dyn_find(w, n, &s->target)) return q->s = w, bad(q, "a dynamic operator");
  } else if (take(q, "branch")) {
    s->kind = TN_MS_BRANCH;
    TN_TRY(u32(q, &s->func[0]));
    TN_TRY(u32(q, &s->func[1]));
  } else if (take(q, "loop")) {
    s->kind = TN_MS_LOOP;
    TN_TRY(u32(q, &s->func[0]));
  } else {
    return bad(q, "call, op, branch, loop or '}'");
  }
  TN_TRY(operands(q, s));
  NEED(q, "->");
  TN_TRY(slot_list(q, &s->out, &s->n_out));
  while (take(q, ",")) {
    space(q);
    if (q->s < q->end && *q->s == '"') {
      TN_TRY(string(q, &s->text));
      break;
    }
    if (s->kind == TN_MS_LOOP && take(q, "carried")) {
      TN_TRY(u32(q, &s->n_carried));
    } else if (s->kind == TN_MS_LOOP && take(q, "scans")) {
      TN_TRY(u32(q, &s->n_scan));
    } else if (take(q, "attr")) {
      if (!TN_PUSH_ROOM(q->a, s->attr, s->n_attr, cap_attr)) return oom(q);
      s->attr[s->n_attr] = (tn_mattr){0};
      TN_TRY(attribute(q, &s->attr[s->n_attr]));
      s->n_attr++;
    } else {
      return bad(q, "attr, carried, scans or a text");
    }
  }
  f->n_step++;
  return TN_OK;
}

static tn_status line_func(reader *q) {
  tn_module *m = q->m;
  TN_TRY(ordinal(q, m->n_func));
  if (!TN_PUSH_ROOM(q->a, m->func, m->n_func, q->cap_func)) return oom(q);
  tn_mfunc *f = &m->func[m->n_func];
  uint32_t cap = 0;
  *f = (tn_mfunc){0};
  TN_TRY(string(q, &f->name));
  TN_TRY(slot_list(q, &f->in, &f->n_in));
  NEED(q, "->");
  TN_TRY(slot_list(q, &f->out, &f->n_out));
  NEED(q, ",");
  NEED(q, "slots");
  TN_TRY(u32(q, &f->n_slot));
  NEED(q, "{");
  while (!take(q, "}")) TN_TRY(line_step(q, f, &cap));
  m->n_func++;
  return TN_OK;
}

static tn_status line_meta(reader *q) {
  tn_module *m = q->m;
  if (!TN_PUSH_ROOM(q->a, m->meta, m->n_meta, q->cap_meta)) return oom(q);
  TN_TRY(string(q, &m->meta[m->n_meta].key));
  TN_TRY(string(q, &m->meta[m->n_meta].value));
  m->n_meta++;
  return TN_OK;
}

/* Plans end with a line that starts with '}': inside, lines start with a word, and text has no line ends. */
static tn_status plans(reader *q) {
  tn_module *m = q->m;
  for (space(q); q->s < q->end; space(q)) {
    const char *e = q->s;
    bool closed = false;
    while (e < q->end && !closed) {
      while (e < q->end && *e != '\n') e++;
      while (e < q->end && (*e == '\n' || *e == ' ' || *e == '\t' || *e == '\r')) e++;
      closed = e < q->end && *e == '}';
    }
    if (!closed) return bad(q, "a whole plan");
    e++;
    if (!TN_PUSH_ROOM(q->a, m->plan, m->n_plan, q->cap_plan)) return oom(q);
    TN_TRY_WHILE(q->d, tn_plan_parse(q->d, q->s, (size_t)(e - q->s), &m->plan[m->n_plan]), "reading plan %u of the module", m->n_plan);
    m->n_plan++;
    q->s = e;
  }
  return TN_OK;
}

static tn_status body(reader *q) {
  NEED(q, "{");
  while (!take(q, "}")) {
    if (take(q, "meta")) TN_TRY(line_meta(q));
    else if (take(q, "in")) TN_TRY(line_port(q, &q->m->in, &q->m->n_in, &q->cap_in));
    else if (take(q, "out")) TN_TRY(line_port(q, &q->m->out, &q->m->n_out, &q->cap_out));
    else if (take(q, "func")) TN_TRY(line_func(q));
    else return bad(q, "meta, in, out, func or '}'");
  }
  return plans(q);
}

tn_status tn_module_parse(tn_diag *d, const char *s, size_t n, tn_module **out) {
  *out = NULL;
  reader q = {.d = d, .s = s, .begin = s, .end = s + n};
  if (tn_module_create("", &q.m) != TN_OK) return oom(&q);
  q.a = q.m->arena;
  tn_status st = take(&q, "module") ? string(&q, &q.m->name) : bad(&q, "'module'");
  if (st == TN_OK) st = body(&q);
  if (st == TN_OK) *out = q.m;
  else tn_module_destroy(q.m);
  return st;
}

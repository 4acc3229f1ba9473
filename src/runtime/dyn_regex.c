/* dyn_regex: ONNX RegexFullMatch, RE2's syntax. The pattern becomes a tree, the tree a program for a set of states that advances one code point
 * at a time (Thompson), so time is length of text times length of program whatever the pattern; nothing is backtracked, nothing recurses deeper
 * than groups nest. Only "does all of it match" is asked, so captures and laziness are read and mean nothing.
 * Not taken: \p classes, \C, programs over MAX_PROG steps; each is refused by name. */
#include "dyn_int.h"
#include "dyn_text.h"

enum { MAX_DEPTH = 200, MAX_PROG = 100000, MAX_REPEAT = 1000 };
typedef enum kind { EMPTY, SET, CAT, ALT, REP, ASSERT } kind;
typedef enum assertion { BOL, EOL, BOT, EOT, WORD, NOT_WORD } assertion;
/* children: first, then next of each; REP: lo, hi (-1 no limit); SET: lo = its number; ASSERT: lo */
typedef struct node { uint32_t first, next; int lo, hi; uint8_t kind; } node;
typedef struct range { uint32_t lo, hi; } range;
typedef struct set { uint32_t first, n; bool negated, any_case; } set;
typedef enum opcode { I_SET, I_SPLIT, I_JUMP, I_ASSERT, I_MATCH } opcode;
typedef struct inst { uint32_t x, y; uint8_t op; } inst;

typedef struct regex {
  tn_dyn_call *c;
  const char *s; size_t n, i;                    /* pattern, place in it */
  bool any_case, dot_all, lines;                 /* flags i, s, m in force here */
  node *node; uint32_t n_node, cap_node;
  range *range; uint32_t n_range, cap_range;
  set *set; uint32_t n_set, cap_set;
  inst *prog; uint32_t n_prog, cap_prog, work;
} regex;

static tn_status bad(regex *r, const char *why) { return tn_dv_fail(r->c, TN_E_ARG, "pattern \"%.100s\": %s at byte %zu", r->s, why, r->i); }
static tn_status unsup(regex *r, const char *why) { return tn_dv_fail(r->c, TN_E_UNSUPPORTED, "pattern \"%.100s\": %s at byte %zu", r->s, why, r->i); }
static tn_status short_of(regex *r) { return tn_dv_fail(r->c, TN_E_NOMEM, "a pattern of %zu bytes", r->n); }
static int peek(const regex *r) { return r->i < r->n ? (uint8_t)r->s[r->i] : -1; }
static bool take(regex *r, const char *word) {
  size_t n = strlen(word);
  if (r->n - r->i < n || memcmp(r->s + r->i, word, n)) return false;
  r->i += n;
  return true;
}

static tn_status new_node(regex *r, node v, uint32_t *out) {
  if (!TN_PUSH_ROOM(r->c->tmp, r->node, r->n_node, r->cap_node)) return short_of(r);
  r->node[r->n_node] = v;
  *out = r->n_node++;
  return TN_OK;
}

static tn_status add_range(regex *r, uint32_t lo, uint32_t hi) {
  if (!TN_PUSH_ROOM(r->c->tmp, r->range, r->n_range, r->cap_range)) return short_of(r);
  r->range[r->n_range++] = (range){lo, hi};
  r->set[r->n_set - 1].n++;
  return TN_OK;
}

static tn_status new_set(regex *r, uint32_t *out) {
  if (!TN_PUSH_ROOM(r->c->tmp, r->set, r->n_set, r->cap_set)) return short_of(r);
  r->set[r->n_set] = (set){.first = r->n_range, .any_case = r->any_case};
  return new_node(r, (node){.kind = SET, .lo = (int)r->n_set++}, out);
}

/* ---- classes ---- */

static const struct { const char *name; range r[4]; } named[] = {
    {"d", {{'0', '9'}}},
    {"w", {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}},
    {"s", {{'\t', '\n'}, {'\f', '\r'}, {' ', ' '}}},
    {"alnum", {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}}},
    {"alpha", {{'A', 'Z'}, {'a', 'z'}}},
    {"ascii", {{1, 0x7f}}},                      /* 0 is in the table's empty slots; a pattern has no NUL */
    {"blank", {{'\t', '\t'}, {' ', ' '}}},
    {"cntrl", {{1, 0x1f}, {0x7f, 0x7f}}},
    {"digit", {{'0', '9'}}},
    {"graph", {{'!', '~'}}},
    {"lower", {{'a', 'z'}}},
    {"print", {{' ', '~'}}},
    {"punct", {{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}}},
    {"space", {{'\t', '\r'}, {' ', ' '}}},
    {"upper", {{'A', 'Z'}}},
    {"word", {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}},
    {"xdigit", {{'0', '9'}, {'A', 'F'}, {'a', 'f'}}}};

/* Adds the class, or all but it: its ranges stand in rising order. */
static tn_status add_named(regex *r, const char *name, size_t n, bool negated, bool *found) {
  *found = false;
  for (size_t k = 0; k < sizeof named / sizeof *named; k++) {
    if (strlen(named[k].name) != n || memcmp(named[k].name, name, n)) continue;
    *found = true;
    uint32_t from = 0;
    for (int q = 0; q < 4 && named[k].r[q].hi; q++) {
      if (!negated) TN_TRY(add_range(r, named[k].r[q].lo, named[k].r[q].hi));
      else if (named[k].r[q].lo > from) TN_TRY(add_range(r, from, named[k].r[q].lo - 1));
      from = named[k].r[q].hi + 1;
    }
    return negated ? add_range(r, from, 0x1100ff) : TN_OK;
  }
  return TN_OK;
}

static int digit_of(int ch) { return ch >= '0' && ch <= '9' ? ch - '0' : ch >= 'a' && ch <= 'f' ? ch - 'a' + 10 : ch >= 'A' && ch <= 'F' ? ch - 'A' + 10 : 99; }

static tn_status hex(regex *r, uint32_t *out) {
  bool braces = take(r, "{");
  uint32_t v = 0;
  int n = 0;
  for (; (braces ? n < 7 : n < 2) && digit_of(peek(r)) < 16; n++) v = v * 16 + (uint32_t)digit_of((uint8_t)r->s[r->i++]);
  if (n == 0 || (!braces && n < 2) || (braces && !take(r, "}")) || v > 0x10ffff) return bad(r, "wrong \\x");
  *out = v;
  return TN_OK;
}

/* After a backslash: one character. */
static tn_status escaped(regex *r, uint32_t *out) {
  static const char from[] = "aftnrv", to[] = "\a\f\t\n\r\v";
  int ch = peek(r);
  if (ch < 0) return bad(r, "a backslash at the end");
  const char *at = strchr(from, ch);
  if (ch == 'x') { r->i++; return hex(r, out); }
  if (ch == '0' || (ch >= '1' && ch <= '7' && r->i + 1 < r->n && r->s[r->i + 1] >= '0' && r->s[r->i + 1] <= '7')) {
    *out = 0;
    for (int n = 0; n < 3 && peek(r) >= '0' && peek(r) <= '7'; n++) *out = *out * 8 + (uint32_t)(r->s[r->i++] - '0');
    return TN_OK;
  }
  if (at) { *out = (uint8_t)to[at - from]; r->i++; return TN_OK; }
  if (ch == 'p' || ch == 'P' || ch == 'C') return unsup(r, "\\p, \\P and \\C");
  if (ch < 0x80 && (digit_of(ch) < 10 || (ch >= 'A' && ch <= 'Z') || (ch >= 'a' && ch <= 'z'))) return bad(r, "unknown escape");
  *out = tn_utf8_decode((tn_mstr){r->s, r->n}, &r->i);
  return TN_OK;
}

static bool class_letter(int ch) { return ch > 0 && strchr("dDwWsS", ch) != NULL; }

static tn_status class_escape(regex *r) {
  char ch = r->s[r->i++], low = (char)(ch | 32);
  bool found;
  return add_named(r, &low, 1, ch != low, &found);
}

/* One item of [...]: a class, a character or a range. */
static tn_status class_item(regex *r) {
  uint32_t lo, hi;
  if (take(r, "[:")) {
    bool negated = take(r, "^"), found;
    const char *end = strstr(r->s + r->i, ":]");
    if (!end) return bad(r, "[: without :]");
    TN_TRY(add_named(r, r->s + r->i, (size_t)(end - r->s) - r->i, negated, &found));
    if (!found || end - (r->s + r->i) < 2) return bad(r, "unknown [:class:]");
    r->i = (size_t)(end - r->s) + 2;
    return TN_OK;
  }
  if (peek(r) == '\\') {
    r->i++;
    if (class_letter(peek(r))) return class_escape(r);
    TN_TRY(escaped(r, &lo));
  } else lo = tn_utf8_decode((tn_mstr){r->s, r->n}, &r->i);
  hi = lo;
  if (peek(r) == '-' && r->i + 1 < r->n && r->s[r->i + 1] != ']') {
    r->i++;
    if (take(r, "\\")) TN_TRY(escaped(r, &hi));
    else hi = tn_utf8_decode((tn_mstr){r->s, r->n}, &r->i);
    if (hi < lo) return bad(r, "a range that falls");
  }
  return add_range(r, lo, hi);
}

static tn_status class_of(regex *r, uint32_t *out) {
  TN_TRY(new_set(r, out));
  bool negated = take(r, "^");
  for (bool first = true; first || peek(r) != ']'; first = false) {
    if (peek(r) < 0) return bad(r, "[ without ]");
    TN_TRY(class_item(r));
  }
  r->i++;
  r->set[r->n_set - 1].negated = negated;
  return TN_OK;
}

/* ---- the tree ---- */

static tn_status alternatives(regex *r, int depth, uint32_t *out);

/* "(" is read. Flags in force outside come back at the end, except (?i) and the like without a body, which last to the end of the group around. */
static tn_status group(regex *r, int depth, uint32_t *out) {
  regex before = *r;
  if (take(r, "?P<") || take(r, "?<")) {
    if (peek(r) == '=' || peek(r) == '!') return bad(r, "looking behind is not in RE2");
    while (peek(r) >= 0 && peek(r) != '>') r->i++;
    if (!take(r, ">")) return bad(r, "a group name without >");
  } else if (take(r, "?")) {
    bool on = true, more = true;
    while (more) {
      int ch = peek(r);
      more = ch > 0 && strchr("imsU-", ch);
      if (!more) break;
      if (ch == '-') on = false;
      else if (ch == 'i') r->any_case = on;
      else if (ch == 's') r->dot_all = on;
      else if (ch == 'm') r->lines = on;
      r->i++;
    }
    if (take(r, ")")) return new_node(r, (node){.kind = EMPTY}, out);
    if (!take(r, ":")) return bad(r, "unknown (?");
  }
  TN_TRY(alternatives(r, depth + 1, out));
  if (!take(r, ")")) return bad(r, "( without )");
  r->any_case = before.any_case;
  r->dot_all = before.dot_all;
  r->lines = before.lines;
  return TN_OK;
}

static tn_status one_char(regex *r, uint32_t v, uint32_t *out) {
  TN_TRY(new_set(r, out));
  return add_range(r, v, v);
}

static tn_status backslash(regex *r, uint32_t *out) {
  static const char letters[] = "AzbB";
  static const uint8_t means[] = {BOT, EOT, WORD, NOT_WORD};
  int ch = peek(r);
  const char *at = ch > 0 ? strchr(letters, ch) : NULL;
  uint32_t v;
  if (at) { r->i++; return new_node(r, (node){.kind = ASSERT, .lo = means[at - letters]}, out); }
  if (class_letter(ch)) { TN_TRY(new_set(r, out)); return class_escape(r); }
  TN_TRY(escaped(r, &v));
  return one_char(r, v, out);
}

static tn_status atom(regex *r, int depth, uint32_t *out) {
  uint32_t v;
  if (take(r, "(")) return group(r, depth, out);
  if (take(r, "[")) return class_of(r, out);
  if (take(r, "^")) return new_node(r, (node){.kind = ASSERT, .lo = r->lines ? BOL : BOT}, out);
  if (take(r, "$")) return new_node(r, (node){.kind = ASSERT, .lo = r->lines ? EOL : EOT}, out);
  if (take(r, ".")) {
    TN_TRY(new_set(r, out));
    if (r->dot_all) return add_range(r, 0, 0x1100ff);
    TN_TRY(add_range(r, 0, '\n' - 1));
    return add_range(r, '\n' + 1, 0x1100ff);
  }
  if (take(r, "\\")) return backslash(r, out);
  if (peek(r) == '*' || peek(r) == '+' || peek(r) == '?') return bad(r, "nothing to repeat");
  v = tn_utf8_decode((tn_mstr){r->s, r->n}, &r->i);
  return one_char(r, v, out);
}

/* {n}, {n,}, {n,m} at the place; anything else in braces is text. */
static bool counted(regex *r, int *lo, int *hi) {
  size_t i = r->i + 1, start = i;
  int v[2] = {0, -1}, k = 0;
  for (; i < r->n && r->s[i] != '}'; i++) {
    if (r->s[i] == ',' && k == 0 && i > start) { k = 1; continue; }
    if (r->s[i] < '0' || r->s[i] > '9') return false;
    if (v[k] < 0) v[k] = 0;
    if (v[k] <= MAX_REPEAT) v[k] = v[k] * 10 + (r->s[i] - '0');
  }
  if (i >= r->n || i == start) return false;
  *lo = v[0];
  *hi = k ? v[1] : v[0];
  r->i = i + 1;
  return true;
}

static tn_status repeated(regex *r, int depth, uint32_t *out) {
  if (take(r, "\\Q")) {                            /* text up to \E */
    uint32_t last = 0, x;
    TN_TRY(new_node(r, (node){.kind = CAT}, out));
    while (r->i < r->n && !take(r, "\\E")) {
      TN_TRY(one_char(r, tn_utf8_decode((tn_mstr){r->s, r->n}, &r->i), &x));
      *(last ? &r->node[last].next : &r->node[*out].first) = x;
      last = x;
    }
    return TN_OK;
  }
  TN_TRY(atom(r, depth, out));
  for (bool again = false;; again = true) {
    int lo, hi, ch = peek(r);
    if (ch == '*' || ch == '+' || ch == '?') { lo = ch == '+'; hi = ch == '?' ? 1 : -1; r->i++; }
    else if (ch != '{' || !counted(r, &lo, &hi)) return TN_OK;
    if (again) return bad(r, "a repetition of a repetition");
    if (lo > MAX_REPEAT || hi > MAX_REPEAT || (hi >= 0 && hi < lo)) return bad(r, "a wrong repeat count");
    take(r, "?");
    TN_TRY(new_node(r, (node){.kind = REP, .first = *out, .lo = lo, .hi = hi}, out));
  }
}

static tn_status alternatives(regex *r, int depth, uint32_t *out) {
  if (depth > MAX_DEPTH) return unsup(r, "groups nested too deep");
  uint32_t cat, last_cat = 0;
  TN_TRY(new_node(r, (node){.kind = ALT}, out));
  do {
    uint32_t last = 0, x;
    TN_TRY(new_node(r, (node){.kind = CAT}, &cat));
    *(last_cat ? &r->node[last_cat].next : &r->node[*out].first) = cat;
    last_cat = cat;
    while (peek(r) >= 0 && peek(r) != '|' && peek(r) != ')') {
      TN_TRY(repeated(r, depth, &x));
      *(last ? &r->node[last].next : &r->node[cat].first) = x;
      last = x;
    }
  } while (take(r, "|"));
  return TN_OK;
}

/* ---- the program ---- */

static tn_status emit(regex *r, opcode op, uint32_t x, uint32_t y, uint32_t *at) {
  if (r->n_prog >= MAX_PROG) return unsup(r, "a program over the limit");
  if (!TN_PUSH_ROOM(r->c->tmp, r->prog, r->n_prog, r->cap_prog)) return short_of(r);
  r->prog[r->n_prog] = (inst){x, y, (uint8_t)op};
  if (at) *at = r->n_prog;
  r->n_prog++;
  return TN_OK;
}

static tn_status gen(regex *r, uint32_t at);

static tn_status gen_alt(regex *r, uint32_t child) {
  uint32_t split, jump, chain = UINT32_MAX;
  for (; r->node[child].next; child = r->node[child].next) {
    TN_TRY(emit(r, I_SPLIT, r->n_prog + 1, 0, &split));
    TN_TRY(gen(r, child));
    TN_TRY(emit(r, I_JUMP, chain, 0, &jump));     /* jumps to the end, chained until it is known */
    chain = jump;
    r->prog[split].y = r->n_prog;
  }
  TN_TRY(gen(r, child));
  while (chain != UINT32_MAX) { uint32_t next = r->prog[chain].x; r->prog[chain].x = r->n_prog; chain = next; }
  return TN_OK;
}

static tn_status gen_rep(regex *r, uint32_t child, int lo, int hi) {
  uint32_t at;
  for (int k = 0; k < lo; k++) TN_TRY(gen(r, child));
  if (hi < 0) {
    TN_TRY(emit(r, I_SPLIT, r->n_prog + 1, 0, &at));
    TN_TRY(gen(r, child));
    TN_TRY(emit(r, I_JUMP, at, 0, NULL));
    r->prog[at].y = r->n_prog;
    return TN_OK;
  }
  for (int k = lo; k < hi; k++) {                  /* optional ones: each may go on to what follows it */
    TN_TRY(emit(r, I_SPLIT, r->n_prog + 1, 0, &at));
    TN_TRY(gen(r, child));
    r->prog[at].y = r->n_prog;
  }
  return TN_OK;
}

static tn_status gen(regex *r, uint32_t at) {
  node v = r->node[at];
  if (++r->work > 4 * MAX_PROG) return unsup(r, "a program over the limit");
  switch ((kind)v.kind) {
    case SET: return emit(r, I_SET, (uint32_t)v.lo, 0, NULL);
    case ASSERT: return emit(r, I_ASSERT, (uint32_t)v.lo, 0, NULL);
    case ALT: return gen_alt(r, v.first);
    case REP: return gen_rep(r, v.first, v.lo, v.hi);
    case CAT:
      for (uint32_t k = v.first; k; k = r->node[k].next) TN_TRY(gen(r, k));
      return TN_OK;
    case EMPTY: break;
  }
  return TN_OK;
}

/* ---- the run ---- */

static bool in_ranges(const regex *r, const set *s, uint32_t v) {
  for (uint32_t k = s->first; k < s->first + s->n; k++)
    if (v >= r->range[k].lo && v <= r->range[k].hi) return true;
  return false;
}
static bool in_set(const regex *r, const set *s, uint32_t v) {
  bool in = in_ranges(r, s, v) || (s->any_case && (in_ranges(r, s, tn_utf8_fold(v, true)) || in_ranges(r, s, tn_utf8_fold(v, false))));
  return in != s->negated;
}

enum { OUTSIDE = 0xffffffffu };                    /* the character before the first and after the last */
static bool word(uint32_t v) { return v < 0x80 && (v == '_' || digit_of((int)v) < 10 || ((v | 32) >= 'a' && (v | 32) <= 'z')); }
static bool holds(uint32_t a, uint32_t before, uint32_t after) {
  switch ((assertion)a) {
    case BOL: return before == OUTSIDE || before == '\n';
    case EOL: return after == OUTSIDE || after == '\n';
    case BOT: return before == OUTSIDE;
    case EOT: return after == OUTSIDE;
    case WORD: return word(before) != word(after);
    case NOT_WORD: break;
  }
  return word(before) == word(after);
}

typedef struct states { uint32_t *list, n; } states;

/* Adds `at` and all that is reached from it without reading; mark[x] == turn: x was here. */
static void add(const regex *r, states *to, uint32_t *stack, uint32_t *mark, uint32_t turn, uint32_t at, uint32_t before, uint32_t after) {
  uint32_t n = 0;
  stack[n++] = at;
  while (n) {
    uint32_t x = stack[--n];
    if (mark[x] == turn) continue;
    mark[x] = turn;
    inst v = r->prog[x];
    if (v.op == I_SET || v.op == I_MATCH) to->list[to->n++] = x;
    else if (v.op == I_JUMP) stack[n++] = v.x;
    else if (v.op == I_SPLIT) { stack[n++] = v.y; stack[n++] = v.x; }
    else if (holds(v.x, before, after)) stack[n++] = x + 1;
  }
}

static uint32_t peek_char(tn_mstr s, size_t i) { return i < s.n ? tn_utf8_decode(s, &i) : (uint32_t)OUTSIDE; }

/* room: 6 * n_prog numbers, zeroed once; *turn counts on over all texts. */
static bool matches(const regex *r, tn_mstr s, uint32_t *room, uint32_t *turn) {
  uint32_t n = r->n_prog, before = OUTSIDE;
  states now = {room, 0}, next = {room + n, 0};
  uint32_t *mark = room + 2 * n, *stack = room + 3 * n;     /* every state pushes at most two, once a turn */
  size_t i = 0;
  add(r, &now, stack, mark, ++*turn, 0, before, peek_char(s, 0));
  while (i < s.n && now.n) {
    uint32_t v = tn_utf8_decode(s, &i), after = peek_char(s, i);
    next.n = 0;
    ++*turn;
    for (uint32_t k = 0; k < now.n; k++) {
      inst x = r->prog[now.list[k]];
      if (x.op == I_SET && in_set(r, &r->set[x.x], v)) add(r, &next, stack, mark, *turn, now.list[k] + 1, v, after);
    }
    states t = now;
    now = next;
    next = t;
  }
  for (uint32_t k = 0; k < now.n; k++)
    if (r->prog[now.list[k]].op == I_MATCH) return true;
  return false;
}

TN_DYN_OP(REGEX_FULL_MATCH) {
  const char *pattern = tn_da_str(c, "pattern");
  regex r = {.c = c, .s = pattern, .n = strlen(pattern)};
  tn_view x;
  tn_made m;
  uint32_t root, turn = 0;
  TN_TRY(tn_dv_str(c, 0, &x));
  TN_TRY(new_node(&r, (node){.kind = EMPTY}, &root));       /* number 0 means "none" in links */
  TN_TRY(alternatives(&r, 0, &root));
  if (r.i < r.n) return bad(&r, ") without (");
  TN_TRY(gen(&r, root));
  TN_TRY(emit(&r, I_MATCH, 0, 0, NULL));
  uint32_t *room = TN_NEW(c->tmp, uint32_t, 6 * (size_t)r.n_prog);
  if (!room) return short_of(&r);
  TN_TRY(tn_dv_new(c, TN_EL_BOOL, x.rank, x.dim, &m, 0));
  for (int64_t i = 0; i < x.n; i++) {
    if (turn > UINT32_MAX / 2) { memset(room, 0, 6 * (size_t)r.n_prog * sizeof *room); turn = 0; }
    m.p[i] = matches(&r, tn_view_str(&x)[i], room, &turn);
  }
  return tn_dv_done(c, &m, 0);
}

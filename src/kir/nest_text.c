/* Nests as text: print and parse, identity under print -> parse -> print.
 *
 *   nest @softmax (x: f32, y: f32 written) sizes 2 {
 *     scratch row: f32[4096]
 *     scratch acc: f32[16 * size 1]
 *     %1 = block_lo i64
 *     %5 = for i64 %1, %2, %3
 *       %6 = load f32x16 p0[%5] mask %4
 *       %7 = add f32x16 %6, %6
 *       store f32x16 s0[%5], %7
 *     end
 *   }
 *
 * One instruction a line: name with flags (".nt"), type, immediate, memory (p0 parameter, s0 scratch, zeros), operands, mask.
 * The table below says which parts an instruction has; printer and parser are both driven by it. Value names are the
 * instruction's index when printed; the parser takes any numbers, as long as each is defined before its use. `#` starts a
 * comment. Structure only: types and regions are the verifier's business. */
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "kir/nest_int.h"

#define V TN_NW_VALUE | TN_NW_TYPE
const tn_nop_info tn_nop_infos[TN_N_NOPS] = {
    [TN_N_CONST] = {"const", "", TN_NI_NUM, V, 0},
    [TN_N_SIZE] = {"size", "", TN_NI_INT, V, 0},
    [TN_N_BLOCK_LO] = {"block_lo", "", 0, V, 0},
    [TN_N_BLOCK_HI] = {"block_hi", "", 0, V, 0},
    [TN_N_SCALAR] = {"scalar", "", 0, V, 0}, /* printed by the function's own name */
    [TN_N_FMA] = {"fma", "abc", 0, V, 0},
    [TN_N_CAST] = {"cast", "a", 0, V, 0},
    [TN_N_BITCAST] = {"bitcast", "a", 0, V, 0},
    [TN_N_SPLAT] = {"splat", "a", 0, V, 0},
    [TN_N_LANES] = {"lanes", "", 0, V, 0},
    [TN_N_MASK] = {"mask", "a", 0, V, 0},
    [TN_N_HREDUCE] = {"hreduce", "a", TN_NI_COMBINER, V, 0},
    [TN_N_EXTRACT] = {"extract", "a", TN_NI_INT, V, 0},
    [TN_N_LOAD] = {"load", "a", 0, V | TN_NW_BASE | TN_NW_MASK, TN_NF_NT | TN_NF_NOALIAS | TN_NF_GUARD},
    [TN_N_LOAD_STRIDED] = {"load_strided", "ab", 0, V | TN_NW_BASE | TN_NW_MASK, TN_NF_NOALIAS},
    [TN_N_GATHER] = {"gather", "a", 0, V | TN_NW_BASE | TN_NW_MASK, TN_NF_NOALIAS},
    [TN_N_STORE] = {"store", "ab", 0, TN_NW_TYPE | TN_NW_BASE | TN_NW_MASK | TN_NW_WRITES, TN_NF_NT | TN_NF_NOALIAS},
    [TN_N_STORE_STRIDED] = {"store_strided", "abd", 0, TN_NW_TYPE | TN_NW_BASE | TN_NW_MASK | TN_NW_WRITES, TN_NF_NOALIAS},
    [TN_N_SCATTER] = {"scatter", "ab", 0, TN_NW_TYPE | TN_NW_BASE | TN_NW_MASK | TN_NW_WRITES, TN_NF_NOALIAS},
    [TN_N_PREFETCH] = {"prefetch", "a", 0, TN_NW_BASE, 0},
    [TN_N_VAR] = {"var", "a", 0, V, 0},
    [TN_N_GET] = {"get", "a", 0, V, 0},
    [TN_N_SET] = {"set", "ab", 0, TN_NW_TYPE, 0},
    [TN_N_FOR] = {"for", "abc", TN_NI_INT, V, TN_NF_UNROLL},
    [TN_N_IF] = {"if", "a", 0, 0, 0},
    [TN_N_END] = {"end", "", 0, 0, 0},
    [TN_N_INDEX_ERROR] = {"index_error", "a", 0, TN_NW_MASK, 0},
    [TN_N_ZERO_ERROR] = {"zero_error", "a", 0, TN_NW_MASK, 0},
    [TN_N_TRANSPOSE] = {"transpose", "", 0, 0, 0},
};
#undef V

static const struct { const char *text; uint8_t bit; } flag_rows[] = {
    {"nt", TN_NF_NT}, {"unroll", TN_NF_UNROLL}, {"noalias", TN_NF_NOALIAS}, {"guard", TN_NF_GUARD}};
enum { N_FLAG_ROWS = sizeof flag_rows / sizeof *flag_rows };
static const char *const arg_letters[4] = {"", "a", "ab", "abc"}; /* by arity of a scalar function */

const char *tn_ninst_args(const tn_ninst *i) {
  if (i->op == TN_N_SCALAR) return arg_letters[tn_scalar_arity(i->sop)];
  if (i->op == TN_N_LOAD && (i->flags & TN_NF_GUARD)) return "abd";
  return tn_nop_infos[i->op].args;
}

bool tn_nest_base_dtype(const tn_nest *n, int base, tn_dtype *out) {
  if (base == TN_BASE_ZEROS) return true;
  if (base >= 0) {
    if ((uint32_t)base >= n->n_param) return false;
    *out = (tn_dtype)n->param[base].dtype;
  } else {
    if ((uint32_t)(-1 - base) >= n->n_scratch) return false;
    *out = (tn_dtype)n->scratch[-1 - base].dtype;
  }
  return true;
}

/* ---- print ---- */

static bool is_word_char(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-'; }

static void print_name(tn_str *o, const char *s) {
  bool plain = *s != 0;
  for (const char *p = s; *p; p++) plain &= is_word_char(*p);
  if (plain) {
    tn_str_put(o, s, strlen(s));
    return;
  }
  tn_str_put(o, "\"", 1);
  for (const char *p = s; *p; p++) {
    if (*p == '"' || *p == '\\' || (unsigned char)*p < 32) tn_str_add(o, "\\%02x", (unsigned char)*p);
    else tn_str_put(o, p, 1);
  }
  tn_str_put(o, "\"", 1);
}

static void print_type(tn_str *o, tn_vt vt) {
  tn_str_add(o, vt.lanes == 1 ? " %s" : " %sx%d", tn_dtype_name(vt.dtype), vt.lanes);
}

static void print_inst(const tn_nest *n, uint32_t at, tn_str *o) {
  tn_ninst i = n->inst[at];
  const tn_nop_info *info = &tn_nop_infos[i.op];
  if (info->what & TN_NW_VALUE) tn_str_add(o, "%%%u = ", at);
  tn_str_add(o, "%s", i.op == TN_N_SCALAR ? tn_scalar_name(i.sop) : info->text);
  for (int k = 0; k < N_FLAG_ROWS; k++)
    if (i.flags & info->flags & flag_rows[k].bit) tn_str_add(o, ".%s", flag_rows[k].text);
  if (info->what & TN_NW_TYPE) print_type(o, i.vt);
  if (info->imm == TN_NI_NUM && tn_dtype_is_float(i.vt.dtype)) {
    tn_str_put(o, " ", 1);
    tn_str_add_double(o, i.imm.f);
  } else if (info->imm == TN_NI_COMBINER) {
    tn_str_add(o, " %s", tn_combiner_name((tn_combiner)i.imm.i));
  } else if (info->imm && (i.op != TN_N_FOR || (i.flags & TN_NF_UNROLL))) {
    tn_str_add(o, info->imm == TN_NI_NUM && i.vt.dtype == TN_U64 ? " %llu" : " %lld", (long long)i.imm.i);
  }
  const char *sep = " ";
  if (info->what & TN_NW_BASE) {
    if (i.base == TN_BASE_ZEROS) tn_str_add(o, " zeros");
    else tn_str_add(o, i.base >= 0 ? " p%d" : " s%d", i.base >= 0 ? i.base : -1 - i.base);
    sep = "[";
  }
  for (const char *p = tn_ninst_args(&i); *p; p++) {
    tn_str_add(o, "%s%%%u", sep, *tn_ninst_arg(&i, *p));
    if (*sep == '[') tn_str_put(o, "]", 1);
    sep = ", ";
  }
  if ((info->what & TN_NW_MASK) && i.c) tn_str_add(o, " mask %%%u", i.c);
  tn_str_put(o, "\n", 1);
}

void tn_nest_print(const tn_nest *n, tn_str *o) {
  tn_str_add(o, "nest @");
  print_name(o, n->name);
  tn_str_add(o, " (");
  for (uint32_t k = 0; k < n->n_param; k++) {
    if (k) tn_str_add(o, ", ");
    print_name(o, n->param[k].name);
    tn_str_add(o, ": %s%s", tn_dtype_name(n->param[k].dtype), n->param[k].written ? " written" : "");
  }
  tn_str_add(o, ") sizes %u%s {\n", n->n_size, n->noalias ? "" : " overlapping");
  for (uint32_t k = 0; k < n->n_scratch; k++) {
    const tn_nscratch *s = &n->scratch[k];
    tn_str_add(o, "  scratch ");
    print_name(o, s->name);
    tn_str_add(o, ": %s[%lld", tn_dtype_name(s->dtype), (long long)s->elems);
    if (s->size_slot >= 0) tn_str_add(o, " * size %d", s->size_slot);
    tn_str_add(o, "]\n");
  }
  int depth = 1;
  for (uint32_t k = 1; k < n->n; k++) {
    uint8_t op = n->inst[k].op;
    if (op == TN_N_END && depth > 1) depth--;
    for (int d = 0; d < depth; d++) tn_str_put(o, "  ", 2);
    print_inst(n, k, o);
    if (op == TN_N_FOR || op == TN_N_IF) depth++;
  }
  tn_str_add(o, "}\n");
}

/* ---- parse ---- */

typedef struct parser {
  const char *p, *end;
  int line;
  tn_diag *d;
  tn_arena *arena;
  tn_nest *n;
  tn_map names; /* number in the text -> value */
} parser;

#define FAIL(ps, ...) return parse_fail((ps), __VA_ARGS__)

static tn_status TN_PRINTF(2, 3) parse_fail(parser *ps, const char *fmt, ...) {
  char text[256];
  va_list ap;
  va_start(ap, fmt);
  if (vsnprintf(text, sizeof text, fmt, ap) < 0) text[0] = 0;
  va_end(ap);
  return tn_fail(ps->d, TN_E_PARSE, "nest line %d: %s", ps->line, text);
}

static void skip(parser *ps) {
  for (; ps->p < ps->end; ps->p++) {
    if (*ps->p == '\n') ps->line++;
    else if (*ps->p == '#') while (ps->p + 1 < ps->end && ps->p[1] != '\n') ps->p++;
    else if (*ps->p != ' ' && *ps->p != '\t' && *ps->p != '\r') return;
  }
}

static bool eat(parser *ps, char c) {
  skip(ps);
  if (ps->p == ps->end || *ps->p != c) return false;
  ps->p++;
  return true;
}

static tn_status expect(parser *ps, char c) {
  if (eat(ps, c)) return TN_OK;
  if (ps->p == ps->end) FAIL(ps, "wants '%c', the text ends", c);
  FAIL(ps, "wants '%c', found '%c'", c, *ps->p);
}

typedef struct word { const char *s; size_t n; } word;

static word take_word(parser *ps) {
  skip(ps);
  word w = {ps->p, 0};
  while (ps->p < ps->end && is_word_char(*ps->p)) ps->p++;
  w.n = (size_t)(ps->p - w.s);
  return w;
}

static bool is_word(word w, const char *s) { return strlen(s) == w.n && memcmp(w.s, s, w.n) == 0; }

/* The next word if it is `s`; else nothing moves. */
static bool eat_word(parser *ps, const char *s) {
  const char *keep = (skip(ps), ps->p);
  if (is_word(take_word(ps), s)) return true;
  ps->p = keep;
  return false;
}

static int hex(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

static tn_status parse_name(parser *ps, const char **out) {
  skip(ps);
  if (!eat(ps, '"')) {
    word w = take_word(ps);
    if (w.n == 0) FAIL(ps, "wants a name");
    *out = tn_arena_strndup(ps->arena, w.s, w.n);
    return *out ? TN_OK : tn_fail(ps->d, TN_E_NOMEM, "name of %zu bytes", w.n);
  }
  const char *s = ps->p;
  while (ps->p < ps->end && *ps->p != '"' && *ps->p != '\n') ps->p++;
  size_t n = (size_t)(ps->p - s), m = 0;
  if (!(ps->p < ps->end && *ps->p == '"')) FAIL(ps, "unclosed name");
  ps->p++;
  char *t = tn_arena_alloc(ps->arena, n + 1);
  if (!t) return tn_fail(ps->d, TN_E_NOMEM, "name of %zu bytes", n);
  for (size_t k = 0; k < n; k++) {
    int v = (unsigned char)s[k];
    if (v == '\\') {
      int h = k + 2 < n ? hex(s[k + 1]) : -1, l = k + 2 < n ? hex(s[k + 2]) : -1;
      if (h < 0 || l < 0) FAIL(ps, "bad escape in a name");
      v = h * 16 + l;
      k += 2;
    }
    if (v == 0) FAIL(ps, "zero byte in a name");
    t[m++] = (char)v;
  }
  *out = t;
  return TN_OK;
}

static tn_status parse_int(parser *ps, int64_t lo, int64_t hi, int64_t *out) {
  word w = take_word(ps);
  char buf[32];
  if (w.n == 0 || w.n >= sizeof buf) FAIL(ps, "wants an integer");
  memcpy(buf, w.s, w.n);
  buf[w.n] = 0;
  char *end;
  errno = 0;
  long long v = strtoll(buf, &end, 10);
  if (*end || errno || v < lo || v > hi) FAIL(ps, "integer '%s' is malformed or outside %lld..%lld", buf, (long long)lo, (long long)hi);
  *out = v;
  return TN_OK;
}

/* strtod, but the point is a point in every locale. */
static bool read_double(const char *s, size_t n, double *out) {
  char buf[80];
  const char *point = localeconv()->decimal_point;
  size_t m = 0, np = strlen(point);
  for (size_t k = 0; k < n; k++) {
    if (m + np + 1 >= sizeof buf) return false;
    if (s[k] == '.') {
      memcpy(buf + m, point, np);
      m += np;
    } else {
      buf[m++] = s[k];
    }
  }
  buf[m] = 0;
  char *end;
  *out = strtod(buf, &end);
  return m > 0 && *end == 0;
}

static tn_status parse_u64(parser *ps, int64_t *out) {
  word w = take_word(ps);
  uint64_t v = 0;
  for (size_t i = 0; i < w.n; i++) {
    unsigned digit = (unsigned char)w.s[i] - (unsigned)'0';
    if (digit > 9) FAIL(ps, "wants digits");
    if (v > (UINT64_MAX - digit) / 10) FAIL(ps, "integer does not fit u64");
    v = v * 10 + digit;
  }
  if (w.n == 0) FAIL(ps, "wants an integer");
  *out = (int64_t)v;
  return TN_OK;
}

static tn_status parse_num(parser *ps, tn_dtype t, tn_num *out) {
  if (t == TN_I64) return parse_int(ps, INT64_MIN, INT64_MAX, &out->i);
  if (t == TN_U64) return parse_u64(ps, &out->i);
  if (!tn_dtype_is_float(t)) {
    TN_TRY(parse_int(ps, INT64_MIN, INT64_MAX, &out->i));
    if (tn_num_cast(*out, TN_I64, t).i != out->i) FAIL(ps, "%lld does not fit %s", (long long)out->i, tn_dtype_name(t));
    return TN_OK;
  }
  skip(ps);
  const char *s = ps->p;
  while (ps->p < ps->end && (is_word_char(*ps->p) || *ps->p == '+')) ps->p++;
  double v;
  if (!read_double(s, (size_t)(ps->p - s), &v)) FAIL(ps, "wants a number");
  out->f = v;
  *out = tn_num_cast(*out, TN_F64, t);
  if (out->f != v && !isnan(v)) FAIL(ps, "%g is not a value of %s", v, tn_dtype_name(t));
  return TN_OK;
}

static tn_status parse_dtype(parser *ps, uint8_t *out) {
  word w = take_word(ps);
  tn_dtype t;
  if (!tn_dtype_parse(w.s, w.n, &t)) FAIL(ps, "unknown dtype '%.*s'", (int)(w.n < 40 ? w.n : 40), w.s);
  *out = (uint8_t)t;
  return TN_OK;
}

/* f32 or f32x16 */
static tn_status parse_type(parser *ps, tn_vt *out) {
  word w = take_word(ps);
  size_t k = w.n;
  while (k > 0 && w.s[k - 1] >= '0' && w.s[k - 1] <= '9') k--;
  int lanes = 1;
  size_t n = w.n;
  if (k > 1 && w.s[k - 1] == 'x' && w.n - k >= 1 && w.n - k <= 3) {
    lanes = 0;
    for (size_t j = k; j < w.n; j++) lanes = lanes * 10 + (w.s[j] - '0');
    n = k - 1;
  }
  tn_dtype t;
  if (!tn_dtype_parse(w.s, n, &t) || lanes < 1 || lanes > 64) FAIL(ps, "unknown type '%.*s'", (int)(w.n < 40 ? w.n : 40), w.s);
  *out = (tn_vt){(uint8_t)t, (uint8_t)lanes};
  return TN_OK;
}

static tn_status parse_ref(parser *ps, tn_nv *out) {
  TN_TRY(expect(ps, '%'));
  int64_t v;
  uint32_t at;
  TN_TRY(parse_int(ps, 0, UINT32_MAX, &v));
  if (!tn_map_get_u64(&ps->names, (uint64_t)v, &at)) FAIL(ps, "value %%%lld is used before it is defined", (long long)v);
  *out = at;
  return TN_OK;
}

static tn_status parse_params(parser *ps) {
  tn_nest *n = ps->n;
  uint32_t cap = 0;
  TN_TRY(expect(ps, '('));
  while (!eat(ps, ')')) {
    if (n->n_param) TN_TRY(expect(ps, ','));
    if (n->n_param >= INT16_MAX) FAIL(ps, "more than %d parameters", INT16_MAX);
    if (!TN_PUSH_ROOM(ps->arena, n->param, n->n_param, cap)) return tn_fail(ps->d, TN_E_NOMEM, "table of %u parameters", n->n_param);
    tn_nparam *q = &n->param[n->n_param++];
    TN_TRY(parse_name(ps, &q->name));
    TN_TRY(expect(ps, ':'));
    TN_TRY(parse_dtype(ps, &q->dtype));
    q->written = eat_word(ps, "written");
  }
  return TN_OK;
}

static tn_status parse_scratch(parser *ps) {
  const char *name;
  uint8_t t;
  int64_t elems, slot = -1;
  TN_TRY(parse_name(ps, &name));
  TN_TRY(expect(ps, ':'));
  TN_TRY(parse_dtype(ps, &t));
  TN_TRY(expect(ps, '['));
  TN_TRY(parse_int(ps, 0, INT64_MAX / 16, &elems));
  if (eat(ps, '*')) {
    if (!eat_word(ps, "size")) FAIL(ps, "wants 'size'");
    TN_TRY(parse_int(ps, 0, INT32_MAX, &slot));
  }
  TN_TRY(expect(ps, ']'));
  if (ps->n->n_scratch >= 32000) FAIL(ps, "more than 32000 scratch slots");
  tn_n_scratch(ps->n, name, (tn_dtype)t, elems, (int32_t)slot);
  return ps->n->oom ? tn_fail(ps->d, TN_E_NOMEM, "scratch slot %u", ps->n->n_scratch) : TN_OK;
}

/* "load.guard" -> op, sop and flags. */
static tn_status parse_opcode(parser *ps, tn_ninst *i) {
  word w = take_word(ps);
  size_t dot = 0;
  while (dot < w.n && w.s[dot] != '.') dot++;
  word head = {w.s, dot};
  tn_scalar_op sop;
  bool found = false;
  for (int k = 0; k < TN_N_NOPS && !found; k++) {
    if (k != TN_N_SCALAR && is_word(head, tn_nop_infos[k].text)) {
      i->op = (uint8_t)k;
      found = true;
    }
  }
  if (!found && tn_scalar_find(head.s, head.n, &sop)) {
    i->op = TN_N_SCALAR;
    i->sop = (uint8_t)sop;
    found = true;
  }
  if (!found) FAIL(ps, "unknown instruction '%.*s'", (int)(head.n < 40 ? head.n : 40), head.s);
  while (dot < w.n) {
    size_t start = ++dot;
    while (dot < w.n && w.s[dot] != '.') dot++;
    uint8_t bit = 0;
    for (int k = 0; k < N_FLAG_ROWS; k++)
      if (is_word((word){w.s + start, dot - start}, flag_rows[k].text)) bit = flag_rows[k].bit;
    if (!bit || !(tn_nop_infos[i->op].flags & bit)) FAIL(ps, "%s takes no flag '%.*s'", tn_nop_infos[i->op].text, (int)(dot - start), w.s + start);
    i->flags |= bit;
  }
  return TN_OK;
}

static tn_status parse_base(parser *ps, int16_t *out) {
  if (eat_word(ps, "zeros")) {
    *out = TN_BASE_ZEROS;
    return TN_OK;
  }
  skip(ps);
  char kind = ps->p < ps->end ? *ps->p : 0;
  if (kind != 'p' && kind != 's') FAIL(ps, "wants memory: p<number>, s<number> or zeros");
  ps->p++;
  int64_t v;
  TN_TRY(parse_int(ps, 0, kind == 'p' ? INT16_MAX : 31999, &v));
  *out = (int16_t)(kind == 'p' ? v : -1 - v);
  return TN_OK;
}

static tn_status parse_inst(parser *ps) {
  tn_ninst i = {0};
  int64_t name = -1;
  if (eat(ps, '%')) {
    TN_TRY(parse_int(ps, 0, UINT32_MAX, &name));
    TN_TRY(expect(ps, '='));
  }
  TN_TRY(parse_opcode(ps, &i));
  const tn_nop_info *info = &tn_nop_infos[i.op];
  if ((name >= 0) != ((info->what & TN_NW_VALUE) != 0)) FAIL(ps, name >= 0 ? "%s yields no value" : "%s needs a name for its value", info->text);
  if (info->what & TN_NW_TYPE) TN_TRY(parse_type(ps, &i.vt));
  if (info->imm == TN_NI_NUM) {
    TN_TRY(parse_num(ps, (tn_dtype)i.vt.dtype, &i.imm));
  } else if (info->imm == TN_NI_COMBINER) {
    word w = take_word(ps);
    tn_combiner c;
    if (!tn_combiner_find(w.s, w.n, &c)) FAIL(ps, "unknown combiner '%.*s'", (int)(w.n < 40 ? w.n : 40), w.s);
    i.imm.i = c;
  } else if (info->imm == TN_NI_INT && (i.op != TN_N_FOR || (i.flags & TN_NF_UNROLL))) {
    TN_TRY(parse_int(ps, 0, INT32_MAX, &i.imm.i));
  }
  char sep = 0;
  if (info->what & TN_NW_BASE) {
    TN_TRY(parse_base(ps, &i.base));
    sep = '[';
  }
  for (const char *p = tn_ninst_args(&i); *p; p++) {
    if (sep) TN_TRY(expect(ps, sep));
    TN_TRY(parse_ref(ps, tn_ninst_arg(&i, *p)));
    if (sep == '[') TN_TRY(expect(ps, ']'));
    sep = ',';
  }
  if ((info->what & TN_NW_MASK) && eat_word(ps, "mask")) TN_TRY(parse_ref(ps, &i.c));
  tn_nv v = tn_nest_append(ps->n, i);
  if (!v) return tn_fail(ps->d, TN_E_NOMEM, "nest of %u instructions", ps->n->n);
  uint32_t old;
  if (name < 0) return TN_OK;
  if (tn_map_get_u64(&ps->names, (uint64_t)name, &old)) FAIL(ps, "value %%%lld is defined twice", (long long)name);
  return tn_map_put_u64(&ps->names, (uint64_t)name, v) ? TN_OK : tn_fail(ps->d, TN_E_NOMEM, "names of %u values", ps->n->n);
}

static tn_status parse_nest(parser *ps) {
  tn_nest *n = ps->n;
  int64_t v;
  if (!eat_word(ps, "nest")) FAIL(ps, "wants 'nest'");
  TN_TRY(expect(ps, '@'));
  TN_TRY(parse_name(ps, &n->name));
  TN_TRY(parse_params(ps));
  if (!eat_word(ps, "sizes")) FAIL(ps, "wants 'sizes'");
  TN_TRY(parse_int(ps, 0, INT32_MAX, &v));
  n->n_size = (uint32_t)v;
  n->noalias = !eat_word(ps, "overlapping");
  TN_TRY(expect(ps, '{'));
  while (eat_word(ps, "scratch")) TN_TRY(parse_scratch(ps));
  while (!eat(ps, '}')) {
    if (ps->p == ps->end) FAIL(ps, "the text ends inside a nest");
    TN_TRY(parse_inst(ps));
  }
  skip(ps);
  if (ps->p != ps->end) FAIL(ps, "text after the nest");
  return TN_OK;
}

tn_status tn_nest_parse(tn_diag *d, tn_arena *a, const char *text, size_t n, tn_nest **out) {
  parser ps = {.p = text, .end = text + n, .line = 1, .d = d, .arena = a};
  if (tn_nest_create(a, "", &ps.n) != TN_OK) return tn_fail(d, TN_E_NOMEM, "an empty nest");
  ps.n->build = NULL; /* a parsed nest stays as it was written */
  tn_map_init(&ps.names);
  tn_status s = parse_nest(&ps);
  tn_map_deinit(&ps.names);
  if (s == TN_OK) *out = ps.n;
  return s;
}

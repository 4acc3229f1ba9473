/* Dims as text and as programs for plans: printer, parser, compiler, program evaluation.
 * Text is a sum with "floordiv(a, b)", "mod(a, b)", "min(a, b)", "max(a, b)" as functions; the parser also takes the ways
 * sympy and torch write the same things. It builds through the public operations, so whatever it reads is in normal form,
 * and text that was printed reads back to the same handle (given the same ranges). */
#include <string.h>
#include "dim_int.h"

/* ---- printing ---- */
static const char *const kind_name[] = {"", "floordiv", "mod", "min", "max"};

static void print_atom(const tn_dims *t, uint32_t i, tn_str *out) {
  const tn_dim_atom_row *x = &t->atom[i];
  if (x->kind == TN_DA_SYM) {
    tn_str_add(out, "%s", x->name);
    return;
  }
  tn_str_add(out, "%s(", kind_name[x->kind]);
  tn_dim_print(t, x->a, out);
  tn_str_add(out, ", ");
  tn_dim_print(t, x->b, out);
  tn_str_add(out, ")");
}

void tn_dim_print(const tn_dims *t, tn_dim d, tn_str *out) {
  if (d >= 0) {
    tn_str_add(out, "%lld", (long long)d);
    return;
  }
  if (!tn_dim_valid(t, d)) {
    tn_str_add(out, "?");
    return;
  }
  tn_dim_poly p = tn_dim_expr_at(t, d)->p;
  for (uint32_t i = 0; i < p.n; i++) {
    const tn_dim_term *x = &p.t[i];
    int64_t c = x->c < 0 ? -x->c : x->c;
    tn_str_add(out, "%s", i == 0 ? x->c < 0 ? "-" : "" : x->c < 0 ? " - " : " + ");
    if (c != 1 || x->n == 0) tn_str_add(out, x->n ? "%lld*" : "%lld", (long long)c);
    for (uint32_t k = 0, run; k < x->n; k += run) {
      for (run = 1; k + run < x->n && x->f[k + run] == x->f[k];) run++;
      if (k) tn_str_add(out, "*");
      print_atom(t, x->f[k], out);
      if (run > 1) tn_str_add(out, "**%u", run);
    }
  }
}

/* ---- parsing: recursive descent, depth-limited ---- */
typedef struct parser {
  tn_diag *diag;
  tn_dims *t;
  const char *s;
  size_t n, pos;
  int depth;
} parser;
enum { MAX_DEPTH = 64 };

static tn_status parse_sum(parser *p, tn_dim *out);

static tn_status bad_text(parser *p, const char *what) {
  return tn_fail(p->diag, TN_E_PARSE, "dim text: %s at offset %zu of \"%.*s\"", what, p->pos, (int)(p->n < 200 ? p->n : 200), p->s);
}

static char peek(parser *p) {
  while (p->pos < p->n && (p->s[p->pos] == ' ' || p->s[p->pos] == '\t')) p->pos++;
  return p->pos < p->n ? p->s[p->pos] : 0;
}

static bool take(parser *p, const char *word) {
  size_t n = strlen(word);
  peek(p);
  if (p->n - p->pos < n || memcmp(p->s + p->pos, word, n) != 0) return false;
  p->pos += n;
  return true;
}

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static tn_status parse_int(parser *p, int64_t *out) {
  int64_t v = 0;
  while (p->pos < p->n && is_digit(p->s[p->pos])) {
    if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, p->s[p->pos] - '0', &v)) return bad_text(p, "number too large");
    p->pos++;
  }
  *out = v;
  return TN_OK;
}

typedef tn_dim (*binary_fn)(tn_dims *, tn_dim, tn_dim);

static tn_dim power(tn_dims *t, tn_dim base, tn_dim exponent) {
  int64_t e;
  if (!tn_dim_as_int(t, exponent, &e) || e < 0 || e > 64) return TN_DIM_BAD;
  tn_dim v = 1;
  for (int64_t i = 0; i < e && v != TN_DIM_BAD; i++) v = tn_dim_mul(t, v, base);
  return v;
}

static const struct {
  const char *name;
  binary_fn fn;
  bool n_ary;
} functions[] = {
    {"floordiv", tn_dim_floordiv, false}, {"FloorDiv", tn_dim_floordiv, false}, {"CleanDiv", tn_dim_floordiv, false},
    {"mod", tn_dim_mod, false},           {"Mod", tn_dim_mod, false},           {"PythonMod", tn_dim_mod, false},
    {"min", tn_dim_min, true},            {"Min", tn_dim_min, true},            {"max", tn_dim_max, true},
    {"Max", tn_dim_max, true},            {"ceildiv", tn_dim_ceildiv, false},   {"CeilDiv", tn_dim_ceildiv, false},
    {"PowByNatural", power, false},
};

static tn_status checked(parser *p, tn_dim v, tn_dim *out) {
  *out = v;
  return v == TN_DIM_BAD ? bad_text(p, "overflow, division by zero, or an expression that is too large") : TN_OK;
}

static tn_status parse_call(parser *p, const char *name, size_t n, tn_dim *out) {
  size_t f = 0, n_functions = sizeof functions / sizeof *functions;
  while (f < n_functions && !(strlen(functions[f].name) == n && memcmp(functions[f].name, name, n) == 0)) f++;
  if (f == n_functions) return bad_text(p, "unknown function before");
  tn_dim v = 0, arg;
  int n_args = 0;
  do {
    TN_TRY(parse_sum(p, &arg));
    if (++n_args == 1) v = arg;
    else if (n_args == 2 || functions[f].n_ary) TN_TRY(checked(p, functions[f].fn(p->t, v, arg), &v));
    else return bad_text(p, "too many arguments");
  } while (take(p, ","));
  if (!take(p, ")")) return bad_text(p, "expected ')'");
  if (n_args < 2) return bad_text(p, "too few arguments");
  *out = v;
  return TN_OK;
}

static tn_status parse_primary(parser *p, tn_dim *out) {
  char c = peek(p);
  if (is_digit(c)) {
    int64_t v = 0;
    TN_TRY(parse_int(p, &v));
    return checked(p, tn_dim_int(p->t, v), out);
  }
  if (take(p, "(")) {
    TN_TRY(parse_sum(p, out));
    return take(p, ")") ? TN_OK : bad_text(p, "expected ')'");
  }
  if (!is_letter(c)) return bad_text(p, c ? "unexpected character" : "unexpected end");
  size_t from = p->pos;
  while (p->pos < p->n && (is_letter(p->s[p->pos]) || is_digit(p->s[p->pos]) || p->s[p->pos] == '.')) p->pos++;
  size_t n = p->pos - from;
  if (take(p, "(")) return parse_call(p, p->s + from, n, out);
  char name[256];
  if (n >= sizeof name) return bad_text(p, "name too long before");
  memcpy(name, p->s + from, n);
  name[n] = 0;
  return checked(p, tn_dim_sym(p->t, name), out);
}

/* primary ['**' int]; a sign binds weaker than the power, as in Python. */
static tn_status parse_factor(parser *p, tn_dim *out) {
  bool negative = false;
  for (;; negative = !negative) {
    if (take(p, "-")) continue;
    break;
  }
  TN_TRY(parse_primary(p, out));
  if (take(p, "**")) {
    tn_dim exponent;
    TN_TRY(parse_primary(p, &exponent));
    TN_TRY(checked(p, power(p->t, *out, exponent), out));
  }
  return negative ? checked(p, tn_dim_sub(p->t, 0, *out), out) : TN_OK;
}

static tn_status parse_product(parser *p, tn_dim *out) {
  TN_TRY(parse_factor(p, out));
  for (;;) {
    binary_fn fn = take(p, "//") ? tn_dim_floordiv : take(p, "*") ? tn_dim_mul : take(p, "%") ? tn_dim_mod : NULL;
    if (!fn) return TN_OK;
    tn_dim rhs;
    TN_TRY(parse_factor(p, &rhs));
    TN_TRY(checked(p, fn(p->t, *out, rhs), out));
  }
}

static tn_status parse_sum(parser *p, tn_dim *out) {
  if (++p->depth > MAX_DEPTH) return bad_text(p, "nested too deeply");
  TN_TRY(parse_product(p, out));
  for (;;) {
    binary_fn fn = take(p, "+") ? tn_dim_add : take(p, "-") ? tn_dim_sub : NULL;
    if (!fn) break;
    tn_dim rhs;
    TN_TRY(parse_product(p, &rhs));
    TN_TRY(checked(p, fn(p->t, *out, rhs), out));
  }
  p->depth--;
  return TN_OK;
}

tn_status tn_dim_parse(tn_diag *diag, tn_dims *t, const char *s, size_t n, tn_dim *out) {
  parser p = {diag, t, s, n, 0, 0};
  *out = TN_DIM_BAD;
  tn_dim v;
  TN_TRY(parse_sum(&p, &v));
  if (peek(&p)) return bad_text(&p, "unexpected text");
  *out = v;
  return TN_OK;
}

/* ---- programs: postfix code on a stack ---- */
typedef struct emitter {
  tn_arena *a;
  const tn_dims *t;
  tn_dim_code *code;
  uint32_t n, cap;
  int depth, deepest;
} emitter;

static bool emit(emitter *e, uint8_t op, int64_t v) {
  if (!TN_PUSH_ROOM(e->a, e->code, e->n, e->cap)) return false;
  e->code[e->n++] = (tn_dim_code){op, v};
  e->depth += op == 'c' || op == 's' ? 1 : -1;
  if (e->depth > e->deepest) e->deepest = e->depth;
  return true;
}

static bool emit_dim(emitter *e, tn_dim d) {
  static const uint8_t op_of[] = {[TN_DA_FLOORDIV] = '/', [TN_DA_MOD] = '%', [TN_DA_MIN] = 'm', [TN_DA_MAX] = 'M'};
  if (d >= 0) return emit(e, 'c', d);
  tn_dim_poly p = tn_dim_expr_at(e->t, d)->p;
  for (uint32_t i = 0; i < p.n; i++) {
    const tn_dim_term *x = &p.t[i];
    bool pushed = x->c != 1 || x->n == 0;
    if (pushed && !emit(e, 'c', x->c)) return false;
    for (uint32_t k = 0; k < x->n; k++) {
      const tn_dim_atom_row *f = &e->t->atom[x->f[k]];
      if (f->kind == TN_DA_SYM ? !emit(e, 's', f->ordinal) : !emit_dim(e, f->a) || !emit_dim(e, f->b) || !emit(e, op_of[f->kind], 0))
        return false;
      if (pushed && !emit(e, '*', 0)) return false;
      pushed = true;
    }
    if (i && !emit(e, '+', 0)) return false;
  }
  return true;
}

tn_status tn_dim_compile(tn_arena *a, const tn_dims *t, tn_dim d, tn_dim_code **out, uint32_t *out_n) {
  if (!tn_dim_valid(t, d)) return TN_E_ARG;
  emitter e = {.a = a, .t = t};
  if (!emit_dim(&e, d)) return TN_E_NOMEM;
  if (e.deepest > TN_DIM_STACK) return TN_E_UNSUPPORTED;
  *out = e.code;
  *out_n = e.n;
  return TN_OK;
}

/* Trusts nothing: plans come from files. */
tn_status tn_dim_code_eval(const tn_dim_code *c, uint32_t n, const int64_t *sym_values, uint32_t n_syms, int64_t *out) {
  int64_t stack[TN_DIM_STACK];
  uint32_t top = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (c[i].op == 'c' || c[i].op == 's') {
      if (top == TN_DIM_STACK || (c[i].op == 's' && (c[i].v < 0 || c[i].v >= (int64_t)n_syms))) return TN_E_ARG;
      stack[top++] = c[i].op == 'c' ? c[i].v : sym_values[c[i].v];
      continue;
    }
    if (top < 2) return TN_E_ARG;
    int64_t b = stack[--top], a = stack[top - 1], r;
    switch (c[i].op) {
      case '+': if (__builtin_add_overflow(a, b, &r)) return TN_E_ARG; break;
      case '*': if (__builtin_mul_overflow(a, b, &r)) return TN_E_ARG; break;
      case 'm': r = a < b ? a : b; break;
      case 'M': r = a > b ? a : b; break;
      case '/':
      case '%':
        if (b == 0 || (a == INT64_MIN && b == -1)) return TN_E_ARG;
        r = c[i].op == '/' ? tn_floor_div(a, b) : tn_floor_mod(a, b);
        break;
      default: return TN_E_ARG;
    }
    stack[top - 1] = r;
  }
  if (top != 1) return TN_E_ARG;
  *out = stack[0];
  return TN_OK;
}

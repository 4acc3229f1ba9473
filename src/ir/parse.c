/* parse.c: text to graph, by recursive descent over the grammar of docs/ir.md. The text may be hostile: a fuzzer lives on it.
 *
 * What keeps it safe: recursion happens only for lists in lists and bodies in bodies, both with a fixed depth limit; every count has the
 * limit of its field; memory is linear in the text; no value is made up, so a constant whose bytes were left out is refused.
 * Names must be made before they are used. Everything else that can be wrong with a graph is left to verify.c, which therefore can also
 * be tested from text. Ranges of symbols are set when all is read: simplification by range would otherwise change dims between two
 * readings of the same text. */
#include <string.h>
#include "ir/parse_int.h"

typedef struct named_type {
  const char *name; /* NULL = a number */
  uint32_t number;
  size_t at;
  tn_type type;
} named_type;
typedef struct sym_range {
  const char *name;
  int64_t lo, hi;
} sym_range;
typedef struct signature {
  bool given;
  uint32_t n, cap;
  struct signature_out {
    tn_type type;
    bool is_dim, is_none;
    size_t at;
  } * out;
} signature;

typedef struct parser {
  tn_scan scan;
  tn_graph *root;
  /* Arrays that are filled, copied out and reused. Between a fill and its copy no body is read, so nothing nests in them;
   * list items do nest and are used as a stack. */
  named_type *res;
  uint32_t n_res, cap_res;
  tn_ref *in;
  uint32_t n_in, cap_in;
  tn_attr *attr;
  uint32_t n_attr, cap_attr;
  tn_attr_val *item;
  uint32_t n_item, cap_item;
  sym_range *range;
  uint32_t n_range, cap_range;
  uint32_t max_prov;
  size_t max_prov_at;
} parser;

typedef struct scope {
  tn_graph *g;
  tn_map names, numbers; /* of one graph; bodies see nothing of the outside */
  int depth;
} scope;

static tn_status scope_body(parser *p, scope *sc, signature *sig);

/* ---- names ---- */

/* "%name" or "%12": name NULL and number set. */
static tn_status value_name(parser *p, named_type *out) {
  tn_scan *s = &p->scan;
  TN_TRY(tn_scan_want(s, '%', "before the name of a value"));
  out->at = s->at - 1;
  out->name = NULL;
  int c = tn_scan_peek(s);
  if (c >= '0' && c <= '9') {
    size_t n = tn_scan_word(s, TN_IR_NAME_MORE);
    if (!tn_scan_is_int(s->s + s->at, n)) return tn_scan_fail(s, s->at, "a value's name that starts with a digit stands in quotes");
    return tn_scan_u32(s, "a value's number", &out->number);
  }
  TN_TRY(tn_scan_name(s, TN_IR_NAME_MORE, "the name of a value", &out->name));
  return *out->name ? TN_OK : tn_scan_fail(s, out->at, "a value's name cannot be empty");
}

static bool lookup(const scope *sc, const named_type *v, uint32_t *out) {
  return v->name ? tn_map_get_str(&sc->names, v->name, out) : tn_map_get_u64(&sc->numbers, v->number, out);
}

static tn_status define(parser *p, scope *sc, const named_type *v, tn_ref r) {
  uint32_t other;
  if (lookup(sc, v, &other)) {
    if (v->name) return tn_scan_fail(&p->scan, v->at, "value %%%.100s is made twice", v->name);
    return tn_scan_fail(&p->scan, v->at, "value %%%u is made twice", v->number);
  }
  if (!v->name) return tn_map_put_u64(&sc->numbers, v->number, r.id) ? TN_OK : tn_scan_nomem(&p->scan);
  sc->g->value[r.id].name = v->name;
  return tn_map_put_str(&sc->names, v->name, r.id) ? TN_OK : tn_scan_nomem(&p->scan);
}

static tn_status use(parser *p, scope *sc, tn_ref *out) {
  named_type v;
  tn_mark m = tn_arena_mark(p->scan.a);
  TN_TRY(value_name(p, &v));
  if (!lookup(sc, &v, &out->id)) {
    if (v.name) return tn_scan_fail(&p->scan, v.at, "no value %%%.100s has been made before this point", v.name);
    return tn_scan_fail(&p->scan, v.at, "no value %%%u has been made before this point", v.number);
  }
  tn_arena_rewind(p->scan.a, m); /* the name was only needed to look it up */
  return TN_OK;
}

/* ---- attributes ---- */

static tn_status val_word(parser *p, tn_attr_val *out) {
  tn_scan *s = &p->scan;
  size_t at, n;
  TN_TRY(tn_scan_raw(s, ",]}=[{:", "a value", &at, &n));
  const char *w = s->s + at;
#define IS(text) (n == sizeof(text) - 1 && memcmp(w, text, n) == 0)
  if (tn_scan_is_int(w, n)) {
    out->kind = TN_AT_INT;
    return tn_scan_to_i64(s, at, n, &out->u.i);
  }
  if (tn_scan_is_float(w, n)) {
    out->kind = TN_AT_FLOAT;
    return tn_scan_to_double(s, at, n, &out->u.f);
  }
  if (IS("none")) {
    out->kind = TN_AT_NONE;
    return TN_OK;
  }
  if (IS("true") || IS("false")) {
    out->kind = TN_AT_BOOL;
    out->u.b = IS("true");
    return TN_OK;
  }
#undef IS
  if (tn_dtype_parse(w, n, &out->u.t)) {
    out->kind = TN_AT_DTYPE;
    return TN_OK;
  }
  if (tn_ir_reserved_word(w, n))
    return tn_scan_fail(s, at, "'%.*s' is no value here (none, true, false, nan; a symbol of that name: dim(%.*s))", (int)n, w, (int)n, w);
  out->kind = TN_AT_DIM;
  if (n > 5 && memcmp(w, "dim(", 4) == 0 && w[n - 1] == ')') return tn_scan_dim_text(s, at + 4, n - 5, &out->u.d);
  return tn_scan_dim_text(s, at, n, &out->u.d);
}

static tn_status val(parser *p, tn_attr_val *out, int depth) {
  tn_scan *s = &p->scan;
  memset(out, 0, sizeof *out);
  tn_scan_blank(s);
  size_t open = s->at;
  switch (tn_scan_peek(s)) {
    case '"': out->kind = TN_AT_STR; return tn_scan_string(s, &out->u.s);
    case '$': {
      s->at++;
      if (tn_scan_word(s, "-") == 0) return tn_scan_fail(s, s->at, "expected the number of an input after '$'");
      out->kind = TN_AT_REF;
      return tn_scan_u32(s, "an input's number", &out->u.ref);
    }
    case '[': break;
    default: return val_word(p, out);
  }
  if (depth == TN_IR_MAX_LIST_DEPTH) return tn_scan_fail(s, open, "lists nested deeper than %d", TN_IR_MAX_LIST_DEPTH);
  s->at++;
  out->kind = TN_AT_LIST;
  uint32_t base = p->n_item;
  tn_scan_lines(s);
  if (!tn_scan_take(s, ']')) {
    do {
      tn_attr_val v;
      tn_scan_lines(s);
      TN_TRY(val(p, &v, depth + 1));
      if (!TN_PUSH_ROOM(s->a, p->item, p->n_item, p->cap_item)) return tn_scan_nomem(s);
      p->item[p->n_item++] = v;
      tn_scan_lines(s);
    } while (tn_scan_take(s, ','));
    TN_TRY(tn_scan_want(s, ']', "after the items of a list"));
  }
  uint32_t n = p->n_item - base;
  out->u.list.n = n;
  if (n) {
    out->u.list.item = TN_NEW(s->a, tn_attr_val, n);
    if (!out->u.list.item) return tn_scan_nomem(s);
    memcpy(out->u.list.item, p->item + base, n * sizeof *p->item);
  }
  p->n_item = base;
  return TN_OK;
}

static int hex(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

static tn_status const_data(parser *p, tn_const_data **out) {
  tn_scan *s = &p->scan;
  const char *t;
  if (tn_scan_peek(s) == '#')
    return tn_scan_fail(s, s->at, "this constant's bytes were left out of the text (data=#hash): it cannot be read back");
  tn_scan_blank(s);
  size_t at = s->at;
  if (tn_scan_peek(s) != '"') return tn_scan_fail(s, at, "a constant's data is a string of hex digits");
  TN_TRY(tn_scan_string(s, &t));
  size_t n = strlen(t);
  uint8_t *b = tn_arena_alloc(s->a, n / 2 + 1);
  tn_const_data *c = TN_NEW(s->a, tn_const_data, 1);
  if (!b || !c) return tn_scan_nomem(s);
  for (size_t i = 0; i < n / 2; i++) {
    int hi = hex(t[2 * i]), lo = hex(t[2 * i + 1]);
    if (hi < 0 || lo < 0) return tn_scan_fail(s, at, "a constant's data is a string of hex digits; byte %zu is not", i);
    b[i] = (uint8_t)(hi * 16 + lo);
  }
  if (n % 2) return tn_scan_fail(s, at, "a constant's data has %zu hex digits, an odd number", n);
  c->p = b;
  c->bytes = n / 2;
  *out = c;
  return TN_OK;
}

/* Behind '{'. */
static tn_status attrs(parser *p, tn_op op, tn_const_data **data) {
  tn_scan *s = &p->scan;
  p->n_attr = 0;
  tn_scan_lines(s);
  if (tn_scan_take(s, '}')) return TN_OK;
  do {
    tn_attr a;
    tn_scan_lines(s);
    size_t at = s->at;
    TN_TRY(tn_scan_name(s, TN_IR_ATTR_MORE, "the name of an attribute", &a.name));
    TN_TRY(tn_scan_want(s, '=', "after the name of an attribute"));
    if (op == TN_OP_CONST && strcmp(a.name, "data") == 0) {
      if (*data) return tn_scan_fail(s, at, "data is given twice");
      TN_TRY(const_data(p, data));
    } else {
      TN_TRY(val(p, &a.val, 0));
      if (p->n_attr == TN_IR_MAX_ATTRS) return tn_scan_fail(s, at, "more than %u attributes", TN_IR_MAX_ATTRS);
      if (!TN_PUSH_ROOM(s->a, p->attr, p->n_attr, p->cap_attr)) return tn_scan_nomem(s);
      p->attr[p->n_attr++] = a;
    }
    tn_scan_lines(s);
  } while (tn_scan_take(s, ','));
  return tn_scan_want(s, '}', "after the attributes");
}

/* ---- statements ---- */

static tn_status prov_ref(parser *p, uint32_t *out) {
  tn_scan *s = &p->scan;
  *out = 0;
  if (!tn_scan_take(s, '!')) return TN_OK;
  size_t at = s->at;
  TN_TRY(tn_scan_u32(s, "the number of a source", out));
  if (*out == 0) return tn_scan_fail(s, at, "sources are numbered from 1");
  if (*out > p->max_prov) { /* inputs name theirs before the list of sources: looked up at the end */
    p->max_prov = *out;
    p->max_prov_at = at;
  }
  return TN_OK;
}

static tn_status body(parser *p, scope *sc, uint32_t id, const char *name, size_t at) {
  tn_scan *s = &p->scan;
  if (sc->depth == TN_IR_MAX_BODY_DEPTH) return tn_scan_fail(s, at, "bodies nested deeper than %d", TN_IR_MAX_BODY_DEPTH);
  scope in = {.depth = sc->depth + 1};
  if (tn_graph_body(sc->g, name, &in.g) != TN_OK) return tn_scan_nomem(s);
  tn_map_init(&in.names);
  tn_map_init(&in.numbers);
  tn_status st = scope_body(p, &in, NULL);
  tn_map_deinit(&in.names);
  tn_map_deinit(&in.numbers);
  if (st == TN_OK) sc->g->node[id].body = in.g;
  return st;
}

static tn_status node(parser *p, scope *sc) {
  tn_scan *s = &p->scan;
  tn_op op;
  const char *target = NULL, *body_name = NULL;
  tn_const_data *data = NULL;
  uint32_t prov, id;
  p->n_res = p->n_in = p->n_attr = 0;
  if (tn_scan_peek(s) == '%') {
    do {
      named_type r;
      TN_TRY(value_name(p, &r));
      TN_TRY(tn_scan_want(s, ':', "after the name of a result"));
      TN_TRY(tn_scan_type(s, &r.type));
      if (p->n_res == TN_IR_MAX_PER_NODE) return tn_scan_fail(s, r.at, "more than %u results", TN_IR_MAX_PER_NODE);
      if (!TN_PUSH_ROOM(s->a, p->res, p->n_res, p->cap_res)) return tn_scan_nomem(s);
      p->res[p->n_res++] = r;
    } while (tn_scan_take(s, ','));
    TN_TRY(tn_scan_want(s, '=', "after the results"));
  }
  tn_scan_blank(s);
  size_t at = s->at, n = tn_scan_word(s, "_");
  if (n == 0) return tn_scan_fail(s, at, "expected a statement: results or an op, mutate, return");
  if (!tn_op_find(s->s + at, n, &op)) return tn_scan_fail(s, at, "unknown op '%.*s'", n > 60 ? 60 : (int)n, s->s + at);
  if (op == TN_OP_INPUT) return tn_scan_fail(s, at, "inputs are written in the list of the graph");
  s->at += n;
  if (op == TN_OP_CALL || op == TN_OP_OPAQUE || op == TN_OP_DYN) {
    tn_scan_blank(s);
    TN_TRY(tn_scan_name(s, TN_IR_TARGET_MORE, "the name of the op that is called", &target));
  }
  tn_scan_blank(s);
  if (tn_scan_peek(s) == '%') {
    do {
      tn_ref r;
      size_t in_at = s->at;
      TN_TRY(use(p, sc, &r));
      if (p->n_in == TN_IR_MAX_PER_NODE) return tn_scan_fail(s, in_at, "more than %u inputs", TN_IR_MAX_PER_NODE);
      if (!TN_PUSH_ROOM(s->a, p->in, p->n_in, p->cap_in)) return tn_scan_nomem(s);
      p->in[p->n_in++] = r;
    } while (tn_scan_take(s, ','));
  }
  bool brace = tn_scan_take(s, '{');
  size_t brace_at = s->at;
  if (brace) { /* attributes, or already the body: that one starts with '(' */
    tn_scan_lines(s);
    if (tn_scan_peek(s) != '(') {
      TN_TRY(attrs(p, op, &data));
      brace = false;
    } else {
      s->at = brace_at;
    }
  }
  prov = 0;
  if (!brace) {
    TN_TRY(prov_ref(p, &prov));
    tn_scan_blank(s);
    if (tn_scan_peek(s) == '@') {
      s->at++;
      TN_TRY(tn_scan_name(s, TN_IR_NAME_MORE, "the name of a body", &body_name));
      TN_TRY(tn_scan_want(s, '{', "before a body"));
      brace = true;
    } else {
      brace = tn_scan_take(s, '{');
    }
    brace_at = s->at;
  }
  tn_type *type = p->n_res ? TN_NEW(s->a, tn_type, p->n_res) : NULL;
  if (p->n_res && !type) return tn_scan_nomem(s);
  for (uint32_t i = 0; i < p->n_res; i++) type[i] = p->res[i].type;
  if (tn_graph_add(sc->g, op, p->in, p->n_in, p->attr, p->n_attr, type, p->n_res, prov, &id) != TN_OK) return tn_scan_nomem(s);
  tn_node *x = &sc->g->node[id];
  x->target = target;
  x->data = data;
  for (uint32_t i = 0; i < p->n_res; i++) TN_TRY(define(p, sc, &p->res[i], tn_out(x, i)));
  return brace ? body(p, sc, id, body_name, brace_at) : TN_OK;
}

static tn_status mutate(parser *p, scope *sc) {
  tn_scan *s = &p->scan;
  tn_ref in, v;
  tn_scan_blank(s);
  size_t at = s->at;
  TN_TRY(use(p, sc, &in));
  TN_TRY(tn_scan_want(s, '=', "after the input that changes"));
  TN_TRY(use(p, sc, &v));
  if (in.id > sc->g->n_inputs) return tn_scan_fail(s, at, "only an input can be mutated"); /* inputs are read first: values 1 to n */
  tn_input_info *info = tn_def(sc->g, in)->input;
  bool was = info->mutated; /* the flag is text of its own; that both agree is the verifier's business */
  if (tn_graph_add_mutation(sc->g, in.id - 1, v) != TN_OK) return tn_scan_nomem(s);
  info->mutated = was;
  return TN_OK;
}

static tn_status check_signature(parser *p, scope *sc, const signature *sig, size_t at) {
  const tn_graph *g = sc->g;
  if (sig->n != g->n_outputs)
    return tn_scan_fail(&p->scan, at, "%u results are returned, the head of the graph lists %u", g->n_outputs, sig->n);
  for (uint32_t i = 0; i < sig->n; i++) {
    const tn_output *o = &g->output[i];
    bool same = o->is_dim == sig->out[i].is_dim && o->is_none == sig->out[i].is_none;
    if (same && !o->is_dim && !o->is_none) same = tn_type_equal(&sig->out[i].type, tn_typeof(g, o->ref));
    if (!same) return tn_scan_fail(&p->scan, sig->out[i].at, "result %u is listed with another type than the value that is returned", i);
  }
  return TN_OK;
}

static tn_status ret(parser *p, scope *sc, const signature *sig, size_t at) {
  tn_scan *s = &p->scan;
  tn_status st = TN_OK;
  tn_scan_blank(s);
  int c = tn_scan_peek(s);
  if (c == '%' || c == 'd' || c == 'n') {
    do {
      tn_scan_blank(s);
      tn_ref r;
      tn_dim d;
      if (tn_scan_peek(s) == '%') {
        TN_TRY(use(p, sc, &r));
        st = tn_graph_add_output(sc->g, r);
      } else if (tn_scan_keyword(s, "dim")) {
        TN_TRY(tn_scan_dim(s, ",;}", &d));
        st = tn_graph_add_output_dim(sc->g, d);
      } else if (tn_scan_keyword(s, "none")) {
        st = tn_graph_add_output_none(sc->g);
      } else {
        return tn_scan_fail(s, s->at, "expected a value, 'dim' or 'none' to return");
      }
      if (st != TN_OK) return tn_scan_nomem(s);
    } while (tn_scan_take(s, ','));
  }
  if (sig && sig->given) TN_TRY(check_signature(p, sc, sig, at));
  tn_scan_lines(s);
  return tn_scan_want(s, '}', "after the results");
}

static tn_status sym(parser *p) {
  tn_scan *s = &p->scan;
  sym_range r;
  tn_scan_blank(s);
  size_t at = s->at;
  if (tn_scan_peek(s) == '"') return tn_scan_fail(s, at, "the name of a symbol stands without quotes");
  TN_TRY(tn_scan_name(s, "_.", "the name of a symbol", &r.name));
  if (!tn_scan_keyword(s, "in")) return tn_scan_fail(s, s->at, "expected 'in' after the symbol");
  TN_TRY(tn_scan_want(s, '[', "before the range"));
  TN_TRY(tn_scan_i64(s, "the lower end", &r.lo));
  TN_TRY(tn_scan_want(s, ',', "between the ends"));
  if (tn_scan_keyword(s, "inf"))
    r.hi = INT64_MAX;
  else
    TN_TRY(tn_scan_i64(s, "the upper end", &r.hi));
  TN_TRY(tn_scan_want(s, ']', "after the range"));
  if (r.lo > r.hi) return tn_scan_fail(s, at, "range of %.60s is empty: %lld > %lld", r.name, (long long)r.lo, (long long)r.hi);
  if (!TN_PUSH_ROOM(s->a, p->range, p->n_range, p->cap_range)) return tn_scan_nomem(s);
  p->range[p->n_range++] = r;
  return TN_OK;
}

static tn_status text_or_none(parser *p, const char **out) {
  *out = NULL;
  if (tn_scan_keyword(&p->scan, "none")) return TN_OK;
  if (tn_scan_peek(&p->scan) != '"') return tn_scan_fail(&p->scan, p->scan.at, "expected a string or none");
  return tn_scan_string(&p->scan, out);
}

static tn_status src(parser *p) {
  tn_scan *s = &p->scan;
  uint32_t i;
  tn_prov r = {0};
  tn_scan_blank(s);
  size_t at = s->at;
  TN_TRY(tn_scan_u32(s, "the number of a source", &i));
  if (i != p->root->n_prov) return tn_scan_fail(s, at, "source %u, the next number is %u", i, p->root->n_prov);
  TN_TRY(text_or_none(p, &r.name));
  TN_TRY(text_or_none(p, &r.target));
  TN_TRY(text_or_none(p, &r.where));
  tn_scan_blank(s);
  size_t n = tn_scan_word(s, "");
  if (!tn_dtype_parse(s->s + s->at, n, &r.dtype)) return tn_scan_fail(s, s->at, "expected the dtype of the source");
  s->at += n;
  if (tn_scan_keyword(s, "gates")) {
    TN_TRY(tn_scan_want(s, '=', "after gates"));
    for (int k = 0; k < 4; k++, s->at++) {
      int c = tn_scan_peek(s);
      if (c != '-' && c != 'p' && c != 'f')
        return tn_scan_fail(s, s->at, "gates are four letters out of p (pass), f (fail), - (not asked)");
      r.gate[k] = c == 'p' ? TN_GATE_PASS : c == 'f' ? TN_GATE_FAIL : TN_GATE_NA;
    }
  }
  if (tn_scan_keyword(s, "fate")) {
    TN_TRY(tn_scan_want(s, '=', "after fate"));
    while (r.fate < TN_N_FATES && !tn_scan_keyword(s, tn_fate_name((tn_fate)r.fate))) r.fate++;
    if (r.fate == TN_N_FATES) return tn_scan_fail(s, s->at, "unknown fate");
  }
  if (tn_scan_keyword(s, "detail")) {
    TN_TRY(tn_scan_want(s, '=', "after detail"));
    TN_TRY(text_or_none(p, &r.detail));
  }
  i = tn_graph_add_prov(p->root, r.name, r.target, r.where, r.dtype);
  if (i == 0) return tn_scan_nomem(s);
  tn_prov *q = tn_graph_prov(p->root, i);
  memcpy(q->gate, r.gate, sizeof q->gate);
  q->fate = r.fate;
  q->detail = r.detail;
  return TN_OK;
}

/* ---- inputs, results, whole graphs ---- */

static tn_status input(parser *p, scope *sc) {
  tn_scan *s = &p->scan;
  named_type v;
  tn_dim stride[TN_MAX_RANK], sym_dim = 0;
  tn_dim *strides = NULL;
  tn_ref r;
  int origin = TN_ORIGIN_INPUT;
  TN_TRY(value_name(p, &v));
  TN_TRY(tn_scan_want(s, ':', "after the name of an input"));
  TN_TRY(tn_scan_type(s, &v.type));
  if (tn_scan_take(s, '{')) {
    uint32_t n;
    size_t at = s->at - 1;
    TN_TRY(tn_scan_dims(s, '}', stride, &n));
    if (n != v.type.rank) return tn_scan_fail(s, at, "%u strides for a tensor of rank %u", n, v.type.rank);
    strides = TN_NEW(s->a, tn_dim, n ? n : 1);
    if (!strides) return tn_scan_nomem(s);
    memcpy(strides, stride, n * sizeof *stride);
  }
  while (origin <= TN_ORIGIN_SYM && !tn_scan_keyword(s, tn_origin_name((tn_origin)origin))) origin++;
  if (origin > TN_ORIGIN_SYM) origin = TN_ORIGIN_INPUT;
  if (origin == TN_ORIGIN_SYM) {
    TN_TRY(tn_scan_want(s, '(', "after sym"));
    TN_TRY(tn_scan_dim(s, ")", &sym_dim));
    TN_TRY(tn_scan_want(s, ')', "after the dim of sym"));
  }
  if (tn_graph_add_input(sc->g, NULL, v.type, (tn_origin)origin, &r) != TN_OK) return tn_scan_nomem(s);
  tn_node *x = tn_def(sc->g, r);
  x->input->stride = strides;
  x->input->sym = sym_dim;
  x->input->mutated = tn_scan_keyword(s, "mutated");
  TN_TRY(define(p, sc, &v, r));
  return prov_ref(p, &x->prov);
}

static tn_status inputs(parser *p, scope *sc) {
  tn_scan *s = &p->scan;
  TN_TRY(tn_scan_want(s, '(', "before the inputs"));
  tn_scan_lines(s);
  if (tn_scan_take(s, ')')) return TN_OK;
  do {
    tn_scan_lines(s);
    TN_TRY(input(p, sc));
    tn_scan_lines(s);
  } while (tn_scan_take(s, ','));
  return tn_scan_want(s, ')', "after the inputs");
}

static tn_status read_signature(parser *p, signature *sig) {
  tn_scan *s = &p->scan;
  tn_scan_blank(s);
  if (tn_scan_peek(s) != '-') return TN_OK;
  s->at++;
  if (tn_scan_peek(s) != '>') return tn_scan_fail(s, s->at - 1, "expected '->' or '{' after the inputs");
  s->at++;
  sig->given = true;
  TN_TRY(tn_scan_want(s, '(', "before the types of the results"));
  if (tn_scan_take(s, ')')) return TN_OK;
  do {
    if (!TN_PUSH_ROOM(s->a, sig->out, sig->n, sig->cap)) return tn_scan_nomem(s);
    tn_scan_blank(s);
    struct signature_out *o = &sig->out[sig->n++];
    memset(o, 0, sizeof *o);
    o->at = s->at;
    o->is_dim = tn_scan_keyword(s, "dim");
    o->is_none = !o->is_dim && tn_scan_keyword(s, "none");
    if (!o->is_dim && !o->is_none) TN_TRY(tn_scan_type(s, &o->type));
  } while (tn_scan_take(s, ','));
  return tn_scan_want(s, ')', "after the types of the results");
}

/* From the inputs of a body, or from behind the '{' of a graph (sig given), to the closing '}'. */
static tn_status scope_body(parser *p, scope *sc, signature *sig) {
  tn_scan *s = &p->scan;
  bool top = sc->depth == 0;
  if (!top) {
    tn_scan_lines(s);
    TN_TRY(inputs(p, sc));
  }
  for (;;) {
    tn_scan_lines(s);
    size_t at = s->at;
    if (tn_scan_keyword(s, top ? "return" : "yield")) return ret(p, sc, sig, at);
    if (tn_scan_keyword(s, "mutate"))
      TN_TRY(mutate(p, sc));
    else if (top && tn_scan_keyword(s, "sym"))
      TN_TRY(sym(p));
    else if (top && tn_scan_keyword(s, "src"))
      TN_TRY(src(p));
    else
      TN_TRY(node(p, sc));
    tn_scan_blank(s);
    int c = tn_scan_peek(s);
    if (c == '}') return tn_scan_fail(s, s->at, "'}' before '%s'", top ? "return" : "yield");
    if (c >= 0 && c != '\n' && c != ';') return tn_scan_fail(s, s->at, "expected the end of the line after a statement");
  }
}

static tn_status graph(parser *p, scope *sc) {
  tn_scan *s = &p->scan;
  signature sig = {0};
  const char *name;
  tn_scan_lines(s);
  if (!tn_scan_keyword(s, "graph")) return tn_scan_fail(s, s->at, "expected 'graph'");
  TN_TRY(tn_scan_want(s, '@', "before the name of the graph"));
  TN_TRY(tn_scan_name(s, TN_IR_NAME_MORE, "the name of the graph", &name));
  if (tn_graph_create(s->a, s->dims, name, &p->root) != TN_OK) return tn_scan_nomem(s);
  sc->g = p->root;
  TN_TRY(inputs(p, sc));
  TN_TRY(read_signature(p, &sig));
  TN_TRY(tn_scan_want(s, '{', "before the statements"));
  TN_TRY(scope_body(p, sc, &sig));
  tn_scan_lines(s);
  if (s->at < s->n) return tn_scan_fail(s, s->at, "text after the end of the graph");
  if (p->max_prov >= p->root->n_prov)
    return tn_scan_fail(s, p->max_prov_at, "no source %u, there are %u", p->max_prov, p->root->n_prov - 1);
  for (uint32_t i = 0; i < p->n_range; i++) {
    tn_dim d = tn_dim_sym(s->dims, p->range[i].name);
    if (d == TN_DIM_BAD) return tn_scan_nomem(s);
    tn_dim_set_range(s->dims, d, p->range[i].lo, p->range[i].hi);
  }
  return TN_OK;
}

tn_status tn_graph_parse(tn_diag *d, tn_arena *a, tn_dims *dims, const char *text, size_t n, tn_graph **out) {
  parser p = {.scan = {text, n, 0, d, a, dims}};
  scope sc = {0};
  *out = NULL;
  if (n > UINT32_MAX / 2) return tn_fail(d, TN_E_PARSE, "1:1: text of %zu bytes, at most %u", n, UINT32_MAX / 2);
  tn_map_init(&sc.names);
  tn_map_init(&sc.numbers);
  tn_status s = graph(&p, &sc);
  tn_map_deinit(&sc.names);
  tn_map_deinit(&sc.numbers);
  if (s == TN_OK) *out = p.root;
  return s;
}

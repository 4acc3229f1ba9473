/* def_parse.c: reads the text of a definition; the exact inverse of def_text.c (grammar: docs/kir.md).
 *
 * Recursive descent over expressions with a depth limit; what a printer nests deeper it names ($n). Everything is built through the
 * builders of def.c, so equal parts become one node again and index arithmetic is folded. This file checks syntax, names and arity; types
 * and axes are the verifier's business. Ranges of symbols are set when all is read: set earlier they would simplify dims of the text
 * itself. */
#include <string.h>
#include "kir/def.h"
#include "kir/scan_int.h"

enum { MAX_DEPTH = 64, MAX_NAMES = 1 << 20 };

typedef struct sym_range {
  const char *name;
  int64_t lo, hi;
} sym_range;
typedef struct parser {
  tn_kscan s;
  tn_dims *dims;
  tn_kdef *k;
  tn_kx_id *name;
  uint32_t n_names, cap_names; /* $n */
  sym_range *range;
  uint32_t n_range, cap_range;
  int depth;
} parser;

static tn_status expr(parser *p, tn_kx_id *out);

/* A builder's result: 0 is a failed allocation, since everything else was checked. */
static tn_status built(parser *p, tn_kx_id x, tn_kx_id *out) {
  *out = x;
  return x ? TN_OK : tn_ks_nomem(&p->s);
}

static int shown(tn_kword w) { return w.n > 40 ? 40 : (int)w.n; }

static tn_status find_param(parser *p, uint32_t *out) {
  const char *name;
  size_t at = p->s.at;
  TN_TRY(tn_ks_name(&p->s, "a parameter", &name));
  for (uint32_t i = 0; i < p->k->n_param; i++)
    if (strcmp(p->k->param[i].name, name) == 0) {
      *out = i;
      return TN_OK;
    }
  return tn_ks_fail(&p->s, at, "no parameter '%.40s'", name);
}

static tn_status find_axis(parser *p, uint32_t *out) {
  const char *name;
  size_t at = (tn_ks_skip(&p->s), p->s.at);
  TN_TRY(tn_ks_name(&p->s, "an axis", &name));
  for (uint32_t i = 0; i < p->k->n_axis; i++)
    if (strcmp(p->k->axis[i].name, name) == 0) {
      *out = i;
      return TN_OK;
    }
  return tn_ks_fail(&p->s, at, "no axis '%.40s'", name);
}

/* "[" index {"," index} "]" of parameter `param` */
static tn_status indices(parser *p, uint32_t param, tn_kx_id *idx) {
  uint32_t rank = p->k->param[param].rank, n = 0;
  size_t at = (tn_ks_skip(&p->s), p->s.at);
  TN_TRY(tn_ks_want(&p->s, '['));
  if (!tn_ks_take(&p->s, ']')) {
    do {
      if (n == rank) return tn_ks_fail(&p->s, at, "more than %u indices for %s", rank, p->k->param[param].name);
      TN_TRY(expr(p, &idx[n++]));
    } while (tn_ks_take(&p->s, ','));
    TN_TRY(tn_ks_want(&p->s, ']'));
  }
  return n == rank ? TN_OK : tn_ks_fail(&p->s, at, "%u indices for %s of rank %u", n, p->k->param[param].name, rank);
}

/* After '%': a stage's number, or a parameter with indices. */
static tn_status reference(parser *p, tn_kx_id *out) {
  uint32_t v;
  tn_kx_id idx[TN_DEF_MAX_RANK];
  int c = p->s.at < p->s.n ? p->s.s[p->s.at] : 0;
  size_t at = p->s.at;
  if (c >= '0' && c <= '9') {
    TN_TRY(tn_ks_u32(&p->s, "stage", TN_DEF_MAX_STAGES, &v));
    if (v >= p->k->n_stage) return tn_ks_fail(&p->s, at, "stage %%%u is read before it is there", v);
    return built(p, tn_kx_stage(p->k, v), out);
  }
  TN_TRY(find_param(p, &v));
  TN_TRY(indices(p, v, idx));
  return built(p, tn_kx_load(p->k, v, idx, 0, (tn_num){.i = 0}), out);
}

static tn_status guarded(parser *p, tn_kx_id *out) { /* after "guard(" */
  uint32_t param;
  tn_kx_id idx[TN_DEF_MAX_RANK], cond;
  tn_num other;
  TN_TRY(tn_ks_want(&p->s, '%'));
  TN_TRY(find_param(p, &param));
  TN_TRY(indices(p, param, idx));
  TN_TRY(tn_ks_want(&p->s, ','));
  TN_TRY(expr(p, &cond));
  TN_TRY(tn_ks_want(&p->s, ','));
  TN_TRY(tn_ks_num_of(&p->s, tn_ks_number(&p->s), (tn_dtype)p->k->param[param].dtype, &other));
  TN_TRY(tn_ks_want(&p->s, ')'));
  return built(p, tn_kx_load(p->k, param, idx, cond, other), out);
}

/* name "(" ... : w is the name, the parenthesis is eaten. */
static tn_status call(parser *p, tn_kword w, tn_kx_id *out) {
  tn_dim d;
  tn_dtype t;
  tn_kx_id a[3] = {0};
  tn_scalar_op op;
  size_t at = (size_t)(w.s - p->s.s);
  if (tn_ks_is(w, "guard")) return guarded(p, out);
  if (tn_ks_is(w, "size")) {
    TN_TRY(tn_ks_dim(&p->s, p->dims, ")", &d));
    TN_TRY(tn_ks_want(&p->s, ')'));
    return built(p, tn_kx_size(p->k, d), out);
  }
  if (tn_ks_is(w, "index")) {
    TN_TRY(expr(p, &a[0]));
    TN_TRY(tn_ks_want(&p->s, ','));
    TN_TRY(tn_ks_dim(&p->s, p->dims, ")", &d));
    TN_TRY(tn_ks_want(&p->s, ')'));
    return built(p, tn_kx_index(p->k, a[0], d), out);
  }
  if (w.n > 5 && memcmp(w.s, "cast.", 5) == 0) {
    if (!tn_dtype_parse(w.s + 5, w.n - 5, &t)) return tn_ks_fail(&p->s, at, "unknown dtype in '%.*s'", shown(w), w.s);
    TN_TRY(expr(p, &a[0]));
    TN_TRY(tn_ks_want(&p->s, ')'));
    return built(p, tn_kx_cast(p->k, a[0], t), out);
  }
  if (!tn_scalar_find(w.s, w.n, &op)) return tn_ks_fail(&p->s, at, "unknown function '%.*s'", shown(w), w.s);
  for (int i = 0; i < tn_scalar_arity(op); i++) {
    if (i) TN_TRY(tn_ks_want(&p->s, ','));
    TN_TRY(expr(p, &a[i]));
  }
  TN_TRY(tn_ks_want(&p->s, ')'));
  return built(p, tn_kx_scalar(p->k, op, a[0], a[1], a[2]), out);
}

/* A word that is not called: a number with its dtype behind ':', an i64, or an axis. */
static tn_status word(parser *p, tn_kx_id *out) {
  size_t at = p->s.at;
  tn_kword w = tn_ks_number(&p->s);
  if (tn_ks_take(&p->s, ':')) {
    tn_dtype t;
    tn_num v;
    TN_TRY(tn_ks_dtype(&p->s, &t));
    TN_TRY(tn_ks_num_of(&p->s, w, t, &v));
    return built(p, tn_kx_const(p->k, t, v), out);
  }
  if (w.n && (w.s[0] == '-' || (w.s[0] >= '0' && w.s[0] <= '9'))) {
    tn_num v;
    TN_TRY(tn_ks_num_of(&p->s, w, TN_I64, &v));
    return built(p, tn_kx_const(p->k, TN_I64, v), out);
  }
  p->s.at = at;
  uint32_t a;
  TN_TRY(find_axis(p, &a));
  return built(p, tn_kx_axis(p->k, a), out);
}

static tn_status primary(parser *p, tn_kx_id *out) {
  int c = tn_ks_peek(&p->s);
  size_t at = p->s.at;
  if (c == '$') {
    uint32_t v;
    p->s.at++;
    TN_TRY(tn_ks_u32(&p->s, "name", MAX_NAMES, &v));
    if (v >= p->n_names) return tn_ks_fail(&p->s, at, "$%u is used before it is there", v);
    *out = p->name[v];
    return TN_OK;
  }
  if (c == '%') {
    p->s.at++;
    return reference(p, out);
  }
  tn_kword w = c == '"' ? (tn_kword){p->s.s, 0} : tn_ks_word(&p->s);
  if (w.n && tn_ks_take(&p->s, '(')) return call(p, w, out);
  p->s.at = at;
  return word(p, out);
}

static tn_status expr(parser *p, tn_kx_id *out) {
  if (++p->depth > MAX_DEPTH) return tn_ks_fail(&p->s, p->s.at, "expression nested deeper than %d: name its parts", MAX_DEPTH);
  TN_TRY(primary(p, out));
  p->depth--;
  return TN_OK;
}

/* ---- head ---- */

static tn_status dim_list(parser *p, char close, tn_dim *out, uint32_t *out_n) {
  char stop[3] = {',', close, 0};
  size_t at = p->s.at;
  *out_n = 0;
  if (tn_ks_take(&p->s, close)) return TN_OK;
  do {
    if (*out_n == TN_DEF_MAX_RANK) return tn_ks_fail(&p->s, at, "more than %d dims", TN_DEF_MAX_RANK);
    TN_TRY(tn_ks_dim(&p->s, p->dims, stop, &out[(*out_n)++]));
  } while (tn_ks_take(&p->s, ','));
  return tn_ks_want(&p->s, close);
}

static tn_status params(parser *p, bool written) {
  tn_dim dim[TN_DEF_MAX_RANK], stride[TN_DEF_MAX_RANK];
  uint32_t rank, n_stride;
  tn_dtype t;
  TN_TRY(tn_ks_want(&p->s, '('));
  if (tn_ks_take(&p->s, ')')) return TN_OK;
  do {
    const char *name;
    TN_TRY(tn_ks_want(&p->s, '%'));
    size_t at = p->s.at;
    TN_TRY(tn_ks_name(&p->s, "a parameter's name", &name));
    TN_TRY(tn_ks_want(&p->s, ':'));
    TN_TRY(tn_ks_dtype(&p->s, &t));
    TN_TRY(tn_ks_want(&p->s, '['));
    TN_TRY(dim_list(p, ']', dim, &rank));
    bool strided = tn_ks_take(&p->s, '{');
    if (strided) TN_TRY(dim_list(p, '}', stride, &n_stride));
    if (strided && n_stride != rank) return tn_ks_fail(&p->s, at, "%u strides for rank %u", n_stride, rank);
    tn_dim run = 1;
    for (uint32_t i = 0; i < rank; i++)
      if ((run = tn_dim_mul(p->dims, run, dim[i])) == TN_DIM_BAD) return tn_ks_fail(&p->s, at, "size of %.40s overflows", name);
    uint32_t id = tn_kdef_add_param(p->k, name, t, rank, dim, strided ? stride : NULL);
    if (id == UINT32_MAX) return tn_ks_nomem(&p->s);
    p->k->param[id].written = written;
    p->k->param[id].frozen = tn_ks_take_word(&p->s, "frozen");
  } while (tn_ks_take(&p->s, ','));
  return tn_ks_want(&p->s, ')');
}

static tn_status sym(parser *p) {
  sym_range r;
  tn_ks_skip(&p->s);
  size_t at = p->s.at;
  TN_TRY(tn_ks_name(&p->s, "a symbol", &r.name));
  if (!tn_ks_take_word(&p->s, "in")) return tn_ks_fail(&p->s, p->s.at, "expected 'in' after the symbol");
  TN_TRY(tn_ks_want(&p->s, '['));
  TN_TRY(tn_ks_i64(&p->s, "the lower end", &r.lo));
  TN_TRY(tn_ks_want(&p->s, ','));
  if (tn_ks_take_word(&p->s, "inf"))
    r.hi = INT64_MAX;
  else
    TN_TRY(tn_ks_i64(&p->s, "the upper end", &r.hi));
  TN_TRY(tn_ks_want(&p->s, ']'));
  if (r.lo > r.hi) return tn_ks_fail(&p->s, at, "range of %.40s is empty: %lld > %lld", r.name, (long long)r.lo, (long long)r.hi);
  if (!TN_PUSH_ROOM(p->s.a, p->range, p->n_range, p->cap_range)) return tn_ks_nomem(&p->s);
  p->range[p->n_range++] = r;
  return TN_OK;
}

static tn_status axes(parser *p) {
  do {
    const char *name;
    tn_dim d;
    tn_ks_skip(&p->s);
    size_t at = p->s.at;
    TN_TRY(tn_ks_name(&p->s, "an axis", &name));
    TN_TRY(tn_ks_want(&p->s, ':'));
    TN_TRY(tn_ks_dim(&p->s, p->dims, ",", &d));
    if (p->k->n_axis == TN_DEF_MAX_AXES) return tn_ks_fail(&p->s, at, "more than %d axes", TN_DEF_MAX_AXES);
    for (uint32_t i = 0; i < p->k->n_axis; i++)
      if (strcmp(p->k->axis[i].name, name) == 0) return tn_ks_fail(&p->s, at, "a second axis '%.40s'", name);
    if (tn_kdef_add_axis(p->k, name, d) == UINT32_MAX) return tn_ks_nomem(&p->s);
  } while (tn_ks_take(&p->s, ','));
  return TN_OK;
}

/* ---- statements ---- */

static tn_status axis_list(parser *p, uint8_t *out, uint8_t *out_n) {
  size_t at = (tn_ks_skip(&p->s), p->s.at);
  *out_n = 0;
  TN_TRY(tn_ks_want(&p->s, '['));
  if (tn_ks_take(&p->s, ']')) return TN_OK;
  do {
    uint32_t a;
    if (*out_n == TN_DEF_MAX_AXES) return tn_ks_fail(&p->s, at, "more than %d axes", TN_DEF_MAX_AXES);
    TN_TRY(find_axis(p, &a));
    out[(*out_n)++] = (uint8_t)a;
  } while (tn_ks_take(&p->s, ','));
  return tn_ks_want(&p->s, ']');
}

static tn_status named(parser *p) { /* after '$' */
  uint32_t v;
  tn_kx_id x;
  size_t at = p->s.at;
  TN_TRY(tn_ks_u32(&p->s, "name", MAX_NAMES, &v));
  if (v != p->n_names) return tn_ks_fail(&p->s, at, "$%u where $%u comes next", v, p->n_names);
  TN_TRY(tn_ks_want(&p->s, '='));
  TN_TRY(expr(p, &x));
  if (!TN_PUSH_ROOM(p->s.a, p->name, p->n_names, p->cap_names)) return tn_ks_nomem(&p->s);
  p->name[p->n_names++] = x;
  return TN_OK;
}

static tn_status stage(parser *p) { /* after '%' */
  tn_kstage s = {.out = -1};
  uint32_t v;
  tn_dtype t;
  size_t at = p->s.at;
  TN_TRY(tn_ks_u32(&p->s, "stage", UINT32_MAX - 1, &v));
  if (v != p->k->n_stage) return tn_ks_fail(&p->s, at, "stage %%%u where %%%u comes next", v, p->k->n_stage);
  if (v == TN_DEF_MAX_STAGES) return tn_ks_fail(&p->s, at, "more than %d stages", TN_DEF_MAX_STAGES);
  TN_TRY(tn_ks_name(&p->s, "the stage's name", &s.name));
  TN_TRY(tn_ks_want(&p->s, ':'));
  TN_TRY(tn_ks_dtype(&p->s, &t));
  s.dtype = (uint8_t)t;
  TN_TRY(axis_list(p, s.axis, &s.n_axis));
  TN_TRY(tn_ks_want(&p->s, '='));
  tn_ks_skip(&p->s);
  at = p->s.at;
  tn_kword w = tn_ks_word(&p->s);
  tn_combiner c;
  if (w.n && tn_ks_peek(&p->s) == '[' && tn_combiner_find(w.s, w.n, &c)) {
    s.combiner = (uint8_t)c;
    TN_TRY(axis_list(p, s.red, &s.n_red));
    if (s.n_red == 0) return tn_ks_fail(&p->s, at, "%s over no axis", tn_combiner_name(c));
  } else {
    p->s.at = at;
  }
  TN_TRY(expr(p, &s.root));
  if (tn_ks_take(&p->s, '-')) {
    TN_TRY(tn_ks_want(&p->s, '>'));
    TN_TRY(tn_ks_want(&p->s, '%'));
    TN_TRY(find_param(p, &v));
    s.out = (int32_t)v;
    TN_TRY(indices(p, v, s.out_idx));
  }
  return tn_kdef_add_stage(p->k, s) == UINT32_MAX ? tn_ks_nomem(&p->s) : TN_OK;
}

static tn_status kernel(parser *p) {
  const char *name;
  if (!tn_ks_take_word(&p->s, "kernel")) return tn_ks_fail(&p->s, p->s.at, "expected 'kernel'");
  TN_TRY(tn_ks_want(&p->s, '@'));
  TN_TRY(tn_ks_name(&p->s, "the kernel's name", &name));
  if (tn_kdef_create(p->s.a, p->dims, name, &p->k) != TN_OK) return tn_ks_nomem(&p->s);
  TN_TRY(params(p, false));
  TN_TRY(tn_ks_want(&p->s, '-'));
  TN_TRY(tn_ks_want(&p->s, '>'));
  TN_TRY(params(p, true));
  TN_TRY(tn_ks_want(&p->s, '{'));
  while (tn_ks_take_word(&p->s, "sym")) TN_TRY(sym(p));
  if (tn_ks_take_word(&p->s, "axis")) TN_TRY(axes(p));
  while (!tn_ks_take(&p->s, '}')) {
    if (tn_ks_take(&p->s, '$'))
      TN_TRY(named(p));
    else if (tn_ks_take(&p->s, '%'))
      TN_TRY(stage(p));
    else
      return tn_ks_fail(&p->s, p->s.at, "expected '%%', '$' or '}'");
  }
  if (tn_ks_peek(&p->s) >= 0) return tn_ks_fail(&p->s, p->s.at, "text after the kernel");
  for (uint32_t i = 0; i < p->n_range; i++) {
    tn_dim d = tn_dim_sym(p->dims, p->range[i].name);
    if (d == TN_DIM_BAD) return tn_ks_nomem(&p->s);
    tn_dim_set_range(p->dims, d, p->range[i].lo, p->range[i].hi);
  }
  return TN_OK;
}

tn_status tn_kdef_parse(tn_diag *d, tn_arena *a, tn_dims *dims, const char *text, size_t n, tn_kdef **out) {
  parser p = {.s = {text, n, 0, d, a, "kernel"}, .dims = dims};
  *out = NULL;
  TN_TRY(kernel(&p));
  *out = p.k;
  return TN_OK;
}

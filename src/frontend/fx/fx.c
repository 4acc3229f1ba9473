/* fx.c: JSON text -> graph of CALL nodes.
 *
 * The text may be hostile (a file): every member is checked for its kind, every name for being known, every count against its limit;
 * messages name node and key. References may only point backwards, so the graph has no cycles by construction.
 *
 * Dtypes that have no name here (c64, uint32, ...) travel inside a graph in a carrier of equal size (i64, i32, ...): the nodes that make
 * or read such values become OPAQUE with reason "dtype" and say in the attributes "carried_in" and "carried_out" what the values really
 * are, so that the host that runs them can reinterpret. Inputs, constants and outputs must have dtypes of their own.
 *
 * Strides of results are not kept, with two exceptions: as_strided means its argument's memory, so its node gets "self_stride", and
 * results of the graph may name the order of their dims in memory (order.c). */
#include "frontend/fx/fx.h"
#include "frontend/fx/fx_int.h"
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define DTYPE_REASON "dtype: a value of a dtype that has no kernels"
enum { MAX_DEPTH = 8, MAX_INPUTS_OF_NODE = 60000 };

/* What a name stands for: results first .. first + n - 1. */
typedef struct source {
  uint32_t first, n;
  const json_t *const *type;   /* [n] the type objects; NULL item = no result */
  const char **carried;        /* [n] real dtype name, NULL = the value's own dtype; NULL array = none */
} source;

typedef struct fx {
  tn_diag *d;
  tn_arena *a;
  tn_graph *g;
  bool ptr_ok;
  tn_map names;
  source *src; uint32_t n_src, cap_src;
  const char *node, *key;      /* being read, for messages */
  /* inputs of the node being read */
  tn_ref *in; const char **in_carried; uint32_t n_in, cap_in, cap_in_carried;
  bool carried;
} fx;

#define BAD(code, ...) fail(f, (code), __FILE__, __LINE__, __VA_ARGS__)
static tn_status fail(fx *f, tn_status code, const char *file, int line, const char *fmt, ...) TN_PRINTF(5, 6);
static tn_status fail(fx *f, tn_status code, const char *file, int line, const char *fmt, ...) {
  char text[512];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  return tn_diag_fail(f->d, code, file, line, "%.120s: %.120s: %s", f->node, f->key, text);
}
#define NO_MEMORY() tn_fail(f->d, TN_E_NOMEM, "importing an FX graph")

/* ---- members ---- */

static const char *kind_name(const json_t *v) {
  static const char *const names[] = {"an object", "a list", "a string", "an integer", "a number", "true", "false", "null"};
  return v ? names[json_typeof(v)] : "missing";
}
static tn_status member(fx *f, const json_t *o, const char *key, json_type want, const json_t **out) {
  static const char *const names[] = {"an object", "a list", "a string", "an integer", "a number", "true", "false", "null"};
  f->key = key;
  *out = json_object_get(o, key);
  if (!*out || json_typeof(*out) != want) return BAD(TN_E_PARSE, "is %s, wants %s", kind_name(*out), names[want]);
  return TN_OK;
}
static tn_status text(fx *f, const json_t *o, const char *key, const char **out) {
  const json_t *v;
  TN_TRY(member(f, o, key, JSON_STRING, &v));
  *out = json_string_value(v);
  if (!**out) return BAD(TN_E_PARSE, "is empty");
  return TN_OK;
}
static tn_status integer(fx *f, const json_t *o, const char *key, int64_t *out) {
  const json_t *v;
  TN_TRY(member(f, o, key, JSON_INTEGER, &v));
  *out = json_integer_value(v);
  return TN_OK;
}

/* ---- types ---- */

static tn_status expression(fx *f, const char *s, tn_dim *out) {
  tn_status st = tn_dim_parse(f->d, f->g->dims, s, strlen(s), out);
  if (st == TN_OK) return st;
  if (st == TN_E_PARSE) {                                /* sympy says more than our dims can */
    st = TN_E_UNSUPPORTED;
    if (f->d) f->d->code = st;
  }
  return tn_diag_while(f->d, st, "reading %.80s of %.80s", f->key, f->node);
}
static tn_status size_value(fx *f, const json_t *v, tn_dim *out) {
  if (json_is_integer(v)) {
    int64_t k = json_integer_value(v);
    if (k < 0) return BAD(TN_E_ARG, "holds the size %lld", (long long)k);
    *out = k;
    return TN_OK;
  }
  if (!json_is_string(v)) return BAD(TN_E_PARSE, "holds %s, wants sizes", kind_name(v));
  return expression(f, json_string_value(v), out);
}
static tn_status sizes(fx *f, const json_t *o, const char *key, tn_dim *out, uint32_t *out_n) {
  const json_t *l;
  TN_TRY(member(f, o, key, JSON_ARRAY, &l));
  size_t n = json_array_size(l);
  if (n > TN_MAX_RANK) return BAD(TN_E_UNSUPPORTED, "rank %zu, at most %d", n, TN_MAX_RANK);
  for (size_t i = 0; i < n; i++) TN_TRY(size_value(f, json_array_get(l, i), &out[i]));
  *out_n = (uint32_t)n;
  return TN_OK;
}

/* The carrier of a dtype that has no name here. */
static bool carrier_of(const char *name, tn_dtype *out) {
  static const struct { const char *name; uint8_t t; } rows[] = {
    {"c64", TN_I64}, {"complex32", TN_I32}, {"float8_e4m3fn", TN_U8},
    {"float8_e5m2", TN_U8}, {"float8_e4m3fnuz", TN_U8}, {"float8_e5m2fnuz", TN_U8}, {"float8_e8m0fnu", TN_U8}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (!strcmp(name, rows[i].name)) { *out = (tn_dtype)rows[i].t; return true; }
  return false;
}
/* A tensor type. out_carried NULL: the dtype must be one of ours. */
static tn_status type_of(fx *f, const json_t *o, tn_type *out, const char **out_carried) {
  const char *name;
  tn_dim dim[TN_MAX_RANK];
  uint32_t rank;
  tn_dtype t;
  TN_TRY(text(f, o, "dtype", &name));
  if (!tn_dtype_parse(name, strlen(name), &t) || t == TN_OBJ) {
    if (!out_carried || !carrier_of(name, &t)) return BAD(TN_E_UNSUPPORTED, "%.40s has no place here", name);
    *out_carried = tn_arena_strdup(f->a, name);
    if (!*out_carried) return NO_MEMORY();
  }
  TN_TRY(sizes(f, o, "shape", dim, &rank));
  *out = tn_type_make(f->g, t, rank, dim);
  return rank && !out->dim ? NO_MEMORY() : TN_OK;
}

/* ---- names ---- */

static tn_status name_it(fx *f, const char *name, source s) {
  uint32_t taken;
  f->key = "name";
  if (tn_map_get_str(&f->names, name, &taken)) return BAD(TN_E_PARSE, "'%.80s' is taken", name);
  char *copy = tn_arena_strdup(f->a, name);
  if (!copy || !TN_PUSH_ROOM(f->a, f->src, f->n_src, f->cap_src)) return NO_MEMORY();
  f->src[f->n_src] = s;
  return tn_map_put_str(&f->names, copy, f->n_src++) ? TN_OK : NO_MEMORY();
}
static tn_status one_source(fx *f, const char *name, uint32_t value, const json_t *type) {
  const json_t **t = TN_NEW(f->a, const json_t *, 1);
  if (!t) return NO_MEMORY();
  t[0] = type;
  return name_it(f, name, (source){value, 1, t, NULL});
}

/* {"ref": name, "index": k} */
static tn_status reference(fx *f, const json_t *o, tn_ref *out, const json_t **out_type, const char **out_carried) {
  const char *name;
  const char *key = f->key;
  uint32_t at;
  int64_t k = 0;
  TN_TRY(text(f, o, "ref", &name));
  const json_t *index = json_object_get(o, "index");
  if (index) TN_TRY(integer(f, o, "index", &k));
  f->key = key;
  if (!tn_map_get_str(&f->names, name, &at)) return BAD(TN_E_ARG, "refers to '%.80s', which is not made before", name);
  const source *s = &f->src[at];
  if (k < 0 || k >= s->n) return BAD(TN_E_ARG, "refers to result %lld of '%.80s', which has %u", (long long)k, name, s->n);
  if (s->type && !s->type[k]) return BAD(TN_E_ARG, "refers to result %lld of '%.80s', which is none", (long long)k, name);
  *out = (tn_ref){s->first + (uint32_t)k};
  if (out_type) *out_type = s->type ? s->type[k] : NULL;
  *out_carried = s->carried ? s->carried[k] : NULL;
  return TN_OK;
}

/* ---- arguments ---- */

static tn_status argument(fx *f, const json_t *v, int depth, tn_attr_val *out);

static void set_dim(fx *f, tn_dim d, tn_attr_val *out) {
  int64_t k;
  if (tn_dim_as_int(f->g->dims, d, &k)) { out->kind = TN_AT_INT; out->u.i = k; }
  else { out->kind = TN_AT_DIM; out->u.d = d; }
}
static tn_status object_argument(fx *f, const json_t *v, tn_attr_val *out) {
  const json_t *t;
  const char *s;
  if (json_object_get(v, "ref")) {
    tn_ref r;
    const char *carried;
    TN_TRY(reference(f, v, &r, NULL, &carried));
    const tn_node *def = tn_def(f->g, r);
    if (def->op == TN_OP_INPUT && def->input->origin == TN_ORIGIN_SYM) {   /* a size handed in: sizes are dims, not values */
      set_dim(f, def->input->sym, out);
      return TN_OK;
    }
    if (f->n_in >= MAX_INPUTS_OF_NODE) return BAD(TN_E_UNSUPPORTED, "over %d inputs", MAX_INPUTS_OF_NODE);
    if (!TN_PUSH_ROOM(f->a, f->in, f->n_in, f->cap_in) || !TN_PUSH_ROOM(f->a, f->in_carried, f->n_in, f->cap_in_carried)) return NO_MEMORY();
    f->in[f->n_in] = r;
    f->in_carried[f->n_in] = carried;
    f->carried |= carried != NULL;
    out->kind = TN_AT_REF;
    out->u.ref = f->n_in++;
    return TN_OK;
  }
  if ((t = json_object_get(v, "sym"))) {
    tn_dim d;
    if (!json_is_string(t)) return BAD(TN_E_PARSE, "sym is %s", kind_name(t));
    TN_TRY(expression(f, json_string_value(t), &d));
    set_dim(f, d, out);
    return TN_OK;
  }
  if ((t = json_object_get(v, "dtype"))) {
    tn_dtype dt;
    if (!json_is_string(t)) return BAD(TN_E_PARSE, "dtype is %s", kind_name(t));
    s = json_string_value(t);
    if (tn_dtype_parse(s, strlen(s), &dt) && dt != TN_OBJ) { out->kind = TN_AT_DTYPE; out->u.t = dt; return TN_OK; }
    f->carried = true;                                   /* the host gets the name */
    out->kind = TN_AT_STR;
    out->u.s = tn_arena_strdup(f->a, s);
    return out->u.s ? TN_OK : NO_MEMORY();
  }
  if ((t = json_object_get(v, "float"))) {
    s = json_is_string(t) ? json_string_value(t) : "";
    out->kind = TN_AT_FLOAT;
    if (!strcmp(s, "inf")) out->u.f = INFINITY;
    else if (!strcmp(s, "-inf")) out->u.f = -INFINITY;
    else if (!strcmp(s, "nan")) out->u.f = NAN;
    else return BAD(TN_E_PARSE, "float wants \"inf\", \"-inf\" or \"nan\"");
    return TN_OK;
  }
  return BAD(TN_E_PARSE, "is an object of no known kind");
}

static tn_status argument(fx *f, const json_t *v, int depth, tn_attr_val *out) {
  memset(out, 0, sizeof *out);
  switch (json_typeof(v)) {
  case JSON_NULL: out->kind = TN_AT_NONE; return TN_OK;
  case JSON_TRUE: case JSON_FALSE: out->kind = TN_AT_BOOL; out->u.b = json_is_true(v); return TN_OK;
  case JSON_INTEGER: out->kind = TN_AT_INT; out->u.i = json_integer_value(v); return TN_OK;
  case JSON_REAL: out->kind = TN_AT_FLOAT; out->u.f = json_real_value(v); return TN_OK;
  case JSON_STRING:
    out->kind = TN_AT_STR;
    out->u.s = tn_arena_strdup(f->a, json_string_value(v));
    return out->u.s ? TN_OK : NO_MEMORY();
  case JSON_OBJECT: return object_argument(f, v, out);
  case JSON_ARRAY: break;
  }
  size_t n = json_array_size(v);
  if (depth == MAX_DEPTH) return BAD(TN_E_PARSE, "lists nested deeper than %d", MAX_DEPTH);
  if (n > UINT32_MAX / 2) return BAD(TN_E_PARSE, "a list of %zu", n);
  out->kind = TN_AT_LIST;
  out->u.list.n = (uint32_t)n;
  out->u.list.item = TN_NEW(f->a, tn_attr_val, n ? n : 1);
  if (!out->u.list.item) return NO_MEMORY();
  for (size_t i = 0; i < n; i++) TN_TRY(argument(f, json_array_get(v, i), depth + 1, &out->u.list.item[i]));
  return TN_OK;
}

/* ---- rows ---- */

static tn_status symbol(fx *f, const json_t *o) {
  const char *name;
  int64_t lo, hi;
  f->node = "symbols";
  TN_TRY(text(f, o, "name", &name));
  tn_dim s;
  TN_TRY(expression(f, name, &s));
  if (tn_dim_sym_ordinal(f->g->dims, s) < 0) return BAD(TN_E_PARSE, "'%.80s' is no name of a symbol", name);
  TN_TRY(integer(f, o, "lo", &lo));
  TN_TRY(integer(f, o, "hi", &hi));
  if (hi < lo) return BAD(TN_E_ARG, "%.80s in [%lld, %lld]", name, (long long)lo, (long long)hi);
  tn_dim_set_range(f->g->dims, s, lo, hi);
  return TN_OK;
}

static bool dense(const tn_type *t, const tn_dim *stride, tn_dims *dims) {
  tn_dim expect = 1;
  for (int i = t->rank - 1; i >= 0; i--) {
    if (t->dim[i] != 1 && stride[i] != expect) return false;
    expect = tn_dim_mul(dims, expect, t->dim[i]);
  }
  return true;
}

static tn_status input(fx *f, const json_t *o) {
  static const char *const origins[] = {"input", "param", "buffer", "const", "sym"};
  const char *name, *origin;
  tn_type t;
  tn_ref r;
  int k = 0;
  f->node = "inputs";
  TN_TRY(text(f, o, "name", &name));
  f->node = name;
  TN_TRY(text(f, o, "origin", &origin));
  while (k < 5 && strcmp(origin, origins[k])) k++;
  if (k == 5 || k == 3) return BAD(TN_E_PARSE, "'%.40s' is not input, param, buffer or sym", origin);
  if (k == TN_ORIGIN_SYM) {
    const char *s;
    tn_dim d;
    TN_TRY(text(f, o, "sym", &s));
    TN_TRY(expression(f, s, &d));
    t = tn_type_make(f->g, TN_I64, 0, NULL);
    TN_TRY(tn_graph_add_input(f->g, name, t, TN_ORIGIN_SYM, &r));
    tn_def(f->g, r)->input->sym = d;
    return one_source(f, name, r.id, o);
  }
  TN_TRY(type_of(f, o, &t, NULL));
  TN_TRY(tn_graph_add_input(f->g, name, t, (tn_origin)k, &r));
  if (json_object_get(o, "stride")) {
    tn_dim stride[TN_MAX_RANK];
    uint32_t n;
    TN_TRY(sizes(f, o, "stride", stride, &n));
    if (n != t.rank) return BAD(TN_E_ARG, "%u strides for rank %u", n, t.rank);
    if (!dense(&t, stride, f->g->dims)) {
      tn_dim *keep = TN_NEW(f->a, tn_dim, n);
      if (!keep) return NO_MEMORY();
      memcpy(keep, stride, n * sizeof *keep);
      tn_def(f->g, r)->input->stride = keep;
    }
  }
  return one_source(f, name, r.id, o);
}

/* Row-major copy of strided memory, element by element. */
static void gather(char *to, const char *from, const tn_type *t, const int64_t *stride, size_t size, int64_t total) {
  int64_t at[TN_MAX_RANK] = {0};
  for (int64_t k = 0; k < total; k++) {
    int64_t off = 0;
    for (int i = 0; i < t->rank; i++) off += at[i] * stride[i];
    memcpy(to + (size_t)k * size, from + off * (int64_t)size, size);
    for (int i = t->rank - 1; i >= 0 && ++at[i] == t->dim[i]; i--) at[i] = 0;
  }
}
static int hex_digit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1; }

static tn_status constant(fx *f, const json_t *o) {
  const char *name, *hex;
  tn_type t;
  tn_dim stride[TN_MAX_RANK];
  int64_t st[TN_MAX_RANK];
  uint32_t n_stride;
  f->node = "constants";
  TN_TRY(text(f, o, "name", &name));
  f->node = name;
  TN_TRY(type_of(f, o, &t, NULL));
  size_t size = tn_dtype_size((tn_dtype)t.dtype);
  int64_t total = 1;
  f->key = "shape";
  for (int i = 0; i < t.rank; i++) {
    if (!tn_dim_is_const(t.dim[i])) return BAD(TN_E_ARG, "is not constant");
    if (t.dim[i] && total > (INT64_MAX / 16) / t.dim[i]) return BAD(TN_E_ARG, "is too large");
    total *= t.dim[i];
  }
  size_t bytes = (size_t)total * size;
  char *p = NULL;
  tn_status s = TN_OK;
  if (json_object_get(o, "hex")) {
    const json_t *h;
    TN_TRY(member(f, o, "hex", JSON_STRING, &h));
    hex = json_string_value(h);
    size_t n = json_string_length(h);
    if (n != bytes * 2) return BAD(TN_E_ARG, "has %zu digits for %zu bytes", n, bytes);
    p = tn_malloc(bytes ? bytes : 1);
    if (!p) return NO_MEMORY();
    for (size_t i = 0; i < bytes && s == TN_OK; i++) {
      int a = hex_digit(hex[2 * i]), b = hex_digit(hex[2 * i + 1]);
      if (a < 0 || b < 0) s = BAD(TN_E_PARSE, "holds a byte that is not hexadecimal");
      else p[i] = (char)(a * 16 + b);
    }
  } else {
    int64_t ptr;
    if (!f->ptr_ok) { f->key = "ptr"; return BAD(TN_E_ARG, "an address in text from outside"); }
    TN_TRY(integer(f, o, "ptr", &ptr));
    TN_TRY(sizes(f, o, "stride", stride, &n_stride));
    if (n_stride != t.rank) return BAD(TN_E_ARG, "%u strides for rank %u", n_stride, t.rank);
    for (uint32_t i = 0; i < n_stride; i++) {
      if (!tn_dim_is_const(stride[i])) return BAD(TN_E_ARG, "is not constant");
      st[i] = stride[i];
    }
    if (total && !ptr) return BAD(TN_E_ARG, "a null address for %lld elements", (long long)total);
    p = tn_malloc(bytes ? bytes : 1);
    if (!p) return NO_MEMORY();
    gather(p, (const char *)(uintptr_t)ptr, &t, st, size, total);
  }
  tn_ref r = {0};
  if (s == TN_OK) s = tn_graph_add_const(f->g, t, p, bytes, 0, &r);
  tn_free(p);
  TN_TRY(s);
  return one_source(f, name, r.id, o);
}

/* "self_stride" for as_strided: its argument's strides as recorded where that was made. */
static tn_status self_stride(fx *f, const json_t *args, tn_attr *out, bool *out_found) {
  const json_t *self = json_object_get(args, "self"), *type = NULL;
  tn_dim d[TN_MAX_RANK];
  tn_ref r;
  const char *carried;
  uint32_t n;
  *out_found = false;
  f->key = "self";
  if (!json_is_object(self)) return TN_OK;
  TN_TRY(reference(f, self, &r, &type, &carried));
  if (!type || !json_object_get(type, "stride")) return TN_OK;
  TN_TRY(sizes(f, type, "stride", d, &n));
  *out = tn_mk_dims(f->g, "self_stride", d, n);
  *out_found = true;
  return TN_OK;
}

static tn_attr names_attr(const char *key, tn_attr_val *item, const char *const *name, uint32_t n) {
  tn_attr a = {key, {.kind = TN_AT_LIST}};
  for (uint32_t i = 0; i < n; i++) {
    item[i].kind = name[i] ? TN_AT_STR : TN_AT_NONE;
    item[i].u.s = name[i];
  }
  a.val.u.list.item = item;
  a.val.u.list.n = n;
  return a;
}

static tn_status node(fx *f, const json_t *o) {
  const char *name, *target, *where = NULL, *key;
  const json_t *args, *outs, *w;
  f->node = "nodes";
  TN_TRY(text(f, o, "name", &name));
  f->node = name;
  TN_TRY(text(f, o, "target", &target));
  w = json_object_get(o, "where");
  if (json_is_string(w) && *json_string_value(w)) where = json_string_value(w);
  TN_TRY(member(f, o, "args", JSON_OBJECT, &args));
  TN_TRY(member(f, o, "out", JSON_ARRAY, &outs));

  /* results */
  size_t n_out = json_array_size(outs);
  if (n_out > UINT16_MAX) return BAD(TN_E_UNSUPPORTED, "%zu results", n_out);
  tn_type *type = TN_NEW(f->a, tn_type, n_out ? n_out : 1);
  const json_t **type_json = TN_NEW(f->a, const json_t *, n_out ? n_out : 1);
  const char **carried = TN_NEW(f->a, const char *, n_out ? n_out : 1);
  if (!type || !type_json || !carried) return NO_MEMORY();
  f->carried = false;
  for (size_t i = 0; i < n_out; i++) {
    const json_t *t = json_array_get(outs, i);
    f->key = "out";
    if (json_is_null(t)) { type[i] = tn_type_make(f->g, TN_I64, 1, (tn_dim[]){0}); continue; }   /* never read */
    if (!json_is_object(t)) return BAD(TN_E_PARSE, "holds %s, wants types", kind_name(t));
    type_json[i] = t;
    TN_TRY(type_of(f, t, &type[i], &carried[i]));
    f->carried |= carried[i] != NULL;
  }

  /* arguments; up to four attributes of our own may follow */
  size_t n_args = json_object_size(args), n = 0;
  if (n_args > 4096) { f->key = "args"; return BAD(TN_E_UNSUPPORTED, "%zu arguments", n_args); }
  tn_attr *attr = TN_NEW(f->a, tn_attr, n_args + 4);
  if (!attr) return NO_MEMORY();
  f->n_in = 0;
  void *it;
  for (it = json_object_iter((json_t *)args); it; it = json_object_iter_next((json_t *)args, it)) {
    key = json_object_iter_key(it);
    f->key = key;
    if (!*key) return BAD(TN_E_PARSE, "an argument without a name");
    attr[n].name = tn_arena_strdup(f->a, key);
    if (!attr[n].name) return NO_MEMORY();
    TN_TRY(argument(f, json_object_iter_value(it), 0, &attr[n].val));
    n++;
  }
  if (!strncmp(target, "aten.as_strided", 15)) {
    bool found;
    f->key = "args";
    if (json_object_get(args, "self_stride")) return BAD(TN_E_PARSE, "self_stride is not an argument");
    TN_TRY(self_stride(f, args, &attr[n], &found));
    n += found;
  }
  if (f->carried) {
    tn_attr_val *item = TN_NEW(f->a, tn_attr_val, n_out + f->n_in + 1);
    f->key = "args";
    if (!item) return NO_MEMORY();
    if (json_object_get(args, "reason") || json_object_get(args, "carried_in") || json_object_get(args, "carried_out"))
      return BAD(TN_E_PARSE, "a name that means something else here");
    attr[n++] = tn_mk_str("reason", DTYPE_REASON);
    attr[n++] = names_attr("carried_in", item, f->in_carried, f->n_in);
    attr[n++] = names_attr("carried_out", item + f->n_in, carried, (uint32_t)n_out);
  }

  uint32_t prov = tn_graph_add_prov(f->g, name, target, where, n_out ? (tn_dtype)type[0].dtype : TN_F32), id;
  if (!prov) return NO_MEMORY();
  TN_TRY(tn_graph_add(f->g, f->carried ? TN_OP_OPAQUE : TN_OP_CALL, f->in, f->n_in, attr, (uint32_t)n, type, (uint32_t)n_out, prov, &id));
  TN_TRY(tn_node_set_target(f->g, id, target));
  for (uint32_t i = 0; i < n_out; i++) {
    char *s = n_out == 1 ? NULL : tn_arena_printf(f->a, "%s_%u", name, i);
    TN_TRY(tn_value_set_name(f->g, tn_out(&f->g->node[id], i), s ? s : name));
  }
  if (f->carried) {                                      /* gate 1 has spoken */
    tn_prov *r = &f->g->prov[prov];
    r->gate[0] = TN_GATE_FAIL;
    r->fate = TN_FATE_FALLBACK;
    r->detail = DTYPE_REASON;
  }
  return name_it(f, name, (source){f->g->node[id].out, (uint32_t)n_out, type_json, f->carried ? carried : NULL});
}

static tn_status output(fx *f, const json_t *o, uint32_t k) {
  const char *carried;
  tn_ref r = {0};
  tn_dim d;
  if (json_is_object(o) && json_object_get(o, "ref")) {
    TN_TRY(reference(f, o, &r, NULL, &carried));
    if (carried) return BAD(TN_E_UNSUPPORTED, "%u is of dtype %.40s", k, carried);
    const tn_node *def = tn_def(f->g, r);
    if (def->op == TN_OP_INPUT && def->input->origin == TN_ORIGIN_SYM) return tn_graph_add_output_dim(f->g, def->input->sym);
    const json_t *order = json_object_get(o, "order");
    if (order) {
      int64_t dim[TN_MAX_RANK];
      size_t n = json_array_size(order);
      if (!json_is_array(order) || n > TN_MAX_RANK) return BAD(TN_E_PARSE, "%u: order is no list of dims", k);
      for (size_t i = 0; i < n; i++) dim[i] = json_is_integer(json_array_get(order, i)) ? json_integer_value(json_array_get(order, i)) : -1;
      TN_TRY_WHILE(f->d, tn_fx_in_order(f->d, f->g, dim, (uint32_t)n, &r), "reading output %u of the FX graph", k);
    }
    return tn_graph_add_output(f->g, r);
  }
  if (json_is_null(o)) return tn_graph_add_output_none(f->g);
  if (json_is_integer(o)) {
    int64_t v = json_integer_value(o);
    return tn_graph_add_output_dim(f->g, v >= 0 ? v : tn_dim_int(f->g->dims, v));
  }
  const json_t *s = json_is_object(o) ? json_object_get(o, "sym") : NULL;
  if (json_is_object(o) && !s) return BAD(TN_E_PARSE, "%u is an object of no known kind", k);
  if (!json_is_string(s)) return BAD(TN_E_UNSUPPORTED, "%u is %s", k, kind_name(o));
  TN_TRY(expression(f, json_string_value(s), &d));
  return tn_graph_add_output_dim(f->g, d);
}

static tn_status mutation(fx *f, const json_t *o) {
  int64_t k;
  tn_ref r;
  const char *carried;
  tn_graph *g = f->g;
  f->node = "mutations";
  TN_TRY(integer(f, o, "input", &k));
  if (k < 0 || k >= g->n_inputs) return BAD(TN_E_ARG, "%lld of %u inputs", (long long)k, g->n_inputs);
  TN_TRY(reference(f, o, &r, NULL, &carried));
  const tn_type *have = tn_typeof(g, r), *want = tn_typeof(g, g->input[k]);
  tn_input_info *info = tn_def(g, g->input[k])->input;
  if (carried || have->dtype != want->dtype || have->rank != want->rank || info->origin == TN_ORIGIN_SYM)
    return BAD(TN_E_ARG, "input %lld is written with another type", (long long)k);
  if (info->mutated) return BAD(TN_E_ARG, "input %lld is written twice", (long long)k);
  return tn_graph_add_mutation(g, (uint32_t)k, r);
}

/* ---- the whole ---- */

typedef tn_status (*row_fn)(fx *f, const json_t *o);
static tn_status rows(fx *f, const json_t *top, const char *key, row_fn fn, bool required) {
  const json_t *l = json_object_get(top, key);
  f->node = "graph";
  if (!l && !required) return TN_OK;
  TN_TRY(member(f, top, key, JSON_ARRAY, &l));
  for (size_t i = 0; i < json_array_size(l); i++) {
    const json_t *o = json_array_get(l, i);
    f->node = "graph";
    f->key = key;
    if (!json_is_object(o)) return BAD(TN_E_PARSE, "item %zu is %s", i, kind_name(o));
    tn_status s = fn(f, o);
    if (s != TN_OK) return s == TN_E_NOMEM ? s : tn_diag_while(f->d, s, "importing %s[%zu]", key, i);
  }
  return TN_OK;
}

static tn_status graph(fx *f, const json_t *top) {
  int64_t version;
  const json_t *l;
  const char *name;
  f->node = "graph";
  f->key = "text";
  if (!json_is_object(top)) return BAD(TN_E_PARSE, "is %s, wants an object", kind_name(top));
  TN_TRY(integer(f, top, "version", &version));
  if (version != 1) return BAD(TN_E_PARSE, "is %lld, this reader knows 1", (long long)version);
  TN_TRY(text(f, top, "name", &name));
  TN_TRY(tn_graph_create(f->a, f->g ? f->g->dims : NULL, name, &f->g));
  return member(f, top, "outputs", JSON_ARRAY, &l);
}

static tn_status import(tn_diag *d, tn_arena *a, tn_dims *dims, const char *json, size_t n, bool ptr_ok, tn_graph **out) {
  json_error_t err;
  tn_graph shell = {.dims = dims};
  fx state = {.d = d, .a = a, .g = &shell, .ptr_ok = ptr_ok}, *f = &state;
  *out = NULL;
  json_t *top = json_loadb(json, n, JSON_REJECT_DUPLICATES, &err);
  if (!top) {
    if (json_error_code(&err) == json_error_out_of_memory) return NO_MEMORY();
    return tn_fail(d, TN_E_PARSE, "FX graph, line %d column %d: %s", err.line, err.column, err.text);
  }
  tn_map_init(&f->names);
  tn_status s = graph(f, top);
  if (s == TN_OK) s = rows(f, top, "symbols", symbol, false);
  if (s == TN_OK) s = rows(f, top, "inputs", input, true);
  if (s == TN_OK) s = rows(f, top, "constants", constant, false);
  if (s == TN_OK) s = rows(f, top, "nodes", node, true);
  const json_t *outs = json_object_get(top, "outputs");
  for (size_t i = 0; s == TN_OK && i < json_array_size(outs); i++) {
    f->node = "graph";
    f->key = "outputs";
    s = output(f, json_array_get(outs, i), (uint32_t)i);
  }
  if (s == TN_OK) s = rows(f, top, "mutations", mutation, false);
  tn_map_deinit(&f->names);
  json_decref(top);
  if (s == TN_OK) *out = f->g;
  return s;
}

tn_status tn_fx_import(tn_diag *d, tn_arena *a, tn_dims *dims, const char *json, size_t n, tn_graph **out) {
  return import(d, a, dims, json, n, true, out);
}
tn_status tn_fx_import_file_text(tn_diag *d, tn_arena *a, tn_dims *dims, const char *json, size_t n, tn_graph **out) {
  return import(d, a, dims, json, n, false, out);
}

/* onnx: the table of ONNX operators, and what every row is written with: attributes, operands, element types, results.
 *
 * A row's function builds prims through tn_b_*; failures stick in c->b.st, so it reads like the formula. tn_onnx_apply wraps it: names in the
 * messages, every wanted result made. Nothing here knows protobuf; nothing here knows an operator. Known elements of values: onnx_items.c. */
#include "onnx_int.h"

static const tn_onnx_row rows[] = {
#define TN_ONNX(domain, op, fn, doc) {domain, op, tn_ox_##fn, doc},
#include "ops/onnx.def"
#undef TN_ONNX
  {NULL, NULL, NULL, NULL}};

const tn_onnx_row *tn_onnx_rows(uint32_t *out_n) { *out_n = (uint32_t)(sizeof rows / sizeof *rows - 1); return rows; }

const tn_onnx_row *tn_onnx_find(const char *domain, const char *op) {
  if (!strcmp(domain, "ai.onnx")) domain = "";
  for (const tn_onnx_row *r = rows; r->op; r++)
    if (!strcmp(r->op, op) && !strcmp(r->domain, domain)) return r;
  return NULL;
}

/* ---- failures ---- */
static tn_status complain(tn_ox *c, tn_status code, const char *fmt, va_list ap) {
  char text[400];
  if (c->b.st != TN_OK) return c->b.st;
  vsnprintf(text, sizeof text, fmt, ap);
  return c->b.st = tn_fail(c->b.d, code, "%.60s%s%.60s: %s", c->domain, *c->domain ? "." : "", c->op, text);
}
tn_status tn_ox_unsup(tn_ox *c, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  tn_status s = complain(c, TN_E_UNSUPPORTED, fmt, ap);
  va_end(ap);
  return s;
}
tn_status tn_ox_bad(tn_ox *c, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  tn_status s = complain(c, TN_E_ARG, fmt, ap);
  va_end(ap);
  return s;
}

enum { MAX_KNOWN = 256 };
/* Known elements of small results are asked for at once: later questions then have short ways. */
static void look(tn_ox *c) {
  tn_dim v[MAX_KNOWN];
  for (uint32_t k = 0; k < c->n_out; k++) {
    if (!c->out[k].id) continue;
    if (tn_typeof(c->b.g, c->out[k])->dtype == TN_OBJ) continue;
    int64_t n = tn_type_numel(tn_typeof(c->b.g, c->out[k]));
    if (n >= 0 && n <= MAX_KNOWN) tn_ox_items(c, c->out[k], v, MAX_KNOWN);
  }
}
tn_status tn_onnx_apply(tn_ox *c) {
  const tn_onnx_row *r = tn_onnx_find(c->domain, c->op);
  c->b.st = TN_OK;
  for (uint32_t k = 0; k < c->n_out; k++) c->out[k].id = 0;
  if (!r) return tn_fail(c->b.d, TN_E_UNSUPPORTED, "operator %.60s%s%.60s (opset %d) is not known here", c->domain, *c->domain ? "." : "", c->op, c->opset);
  tn_status s = TN_OK;
  if (!tn_ox_string_op(c, r->fn, &s)) s = r->fn(c);
  if (c->b.st != TN_OK) return c->b.st;
  if (s != TN_OK) return s;
  for (uint32_t k = 0; k < c->n_out; k++)
    if (c->wanted[k] && !c->out[k].id) return tn_ox_unsup(c, "result %u is not made in this form", k);
  look(c);
  return TN_OK;
}

/* ---- element types ---- */
static const struct { uint8_t dtype; const char *name; } elems[] = {
  [1] = {TN_F32, "float"}, [2] = {TN_U8, "uint8"}, [3] = {TN_I8, "int8"}, [4] = {TN_U16, "uint16"}, [5] = {TN_I16, "int16"}, [6] = {TN_I32, "int32"},
  [7] = {TN_I64, "int64"}, [8] = {TN_OBJ, "string"}, [9] = {TN_BOOL, "bool"}, [10] = {TN_F16, "float16"}, [11] = {TN_F64, "double"}, [12] = {TN_U32, "uint32"},
  [13] = {TN_U64, "uint64"}, [16] = {TN_BF16, "bfloat16"}, [17] = {TN_U8, "float8e4m3fn"}, [18] = {TN_U8, "float8e4m3fnuz"}, [19] = {TN_U8, "float8e5m2"},
  [20] = {TN_U8, "float8e5m2fnuz"}, [21] = {TN_U8, "uint4"}, [22] = {TN_I8, "int4"}, [23] = {TN_U8, "float4e2m1"}, [24] = {TN_U8, "float8e8m0"},
  [25] = {TN_U8, "uint2"}, [26] = {TN_I8, "int2"}, [27] = {TN_U8, "float6e2m3"}, [28] = {TN_U8, "float6e3m2"}};
enum { N_ELEMS = sizeof elems / sizeof *elems };

int tn_ox_dtype_of(int elem) { return elem > 0 && elem < N_ELEMS && elems[elem].name ? elems[elem].dtype : -1; }
const char *tn_ox_elem_name(int elem) { return elem > 0 && elem < N_ELEMS && elems[elem].name ? elems[elem].name : "unknown"; }
int tn_ox_elem_of(tn_dtype t) {
  for (int i = 1; i < 17; i++)
    if (elems[i].name && elems[i].dtype == t && t != TN_OBJ) return i;
  return 0;
}

/* ---- what the environment remembers of values ---- */
/* Room for item `id` of an arena array that is indexed by value ids. */
static bool room(tn_ox_env *e, void **arr, uint32_t *cap, uint32_t id, size_t item) {
  if (id < *cap) return true;
  uint64_t want = *cap ? *cap : 64;
  while (want <= id) want *= 2;
  if (want > UINT32_MAX / 2) return false;
  void *p = tn_arena_grow(e->unit->arena, *arr, *cap * item, (size_t)want * item);
  if (!p) return false;
  *arr = p;
  *cap = (uint32_t)want;
  return true;
}
tn_status tn_ox_elem_set(tn_ox_env *e, tn_ref r, int elem) {
  const tn_type *t = tn_typeof(e->g, r);
  if (t->dtype != TN_OBJ && tn_ox_elem_of((tn_dtype)t->dtype) == elem && r.id >= e->cap_elem) return TN_OK;
  if (!room(e, (void **)&e->elem, &e->cap_elem, r.id, sizeof *e->elem)) return TN_E_NOMEM;
  e->elem[r.id] = (uint8_t)elem;
  return TN_OK;
}
int tn_ox_elem_get(const tn_ox_env *e, tn_ref r) {
  if (!r.id) return 0;
  if (r.id < e->cap_elem && e->elem[r.id]) return e->elem[r.id];
  const tn_type *t = tn_typeof(e->g, r);
  if (t->dtype != TN_OBJ) return tn_ox_elem_of((tn_dtype)t->dtype);
  return r.id < e->cap_obj && e->obj[r.id].kind == TN_OX_K_TENSOR ? e->obj[r.id].elem : 0;
}
tn_status tn_ox_obj_set(tn_ox_env *e, tn_ref r, tn_ox_obj o) {
  if (!room(e, (void **)&e->obj, &e->cap_obj, r.id, sizeof *e->obj)) return TN_E_NOMEM;
  e->obj[r.id] = o;
  return o.kind == TN_OX_K_TENSOR && o.elem ? tn_ox_elem_set(e, r, o.elem) : TN_OK;
}
tn_ox_obj tn_ox_obj_of(const tn_ox_env *e, tn_ref r) {
  tn_ox_obj o = {.kind = TN_OX_K_ANY, .rank = -1};
  const tn_type *t = tn_typeof(e->g, r);
  if (t->dtype != TN_OBJ) {
    o = (tn_ox_obj){.kind = TN_OX_K_TENSOR, .elem = (uint8_t)tn_ox_elem_get(e, r), .rank = (int8_t)t->rank, .dim = t->dim};
  } else if (r.id < e->cap_obj && (e->obj[r.id].elem || e->obj[r.id].kind)) {
    o = e->obj[r.id];
  } else if (tn_ox_elem_get(e, r)) {
    o = (tn_ox_obj){.kind = TN_OX_K_TENSOR, .elem = (uint8_t)tn_ox_elem_get(e, r), .rank = -1};
  }
  return o;
}

static tn_status add_strings(tn_ox_env *e, tn_diag *d, const tn_ox_const *t, size_t n, uint32_t prov, tn_ref *out) {
  tn_attr at[2] = {{.name = "values"}, tn_mk_dims(e->g, "dims", t->dim, t->rank)};
  tn_type ty = {TN_OBJ, 0, NULL};
  uint32_t node;
  at[0].val = (tn_attr_val){.kind = TN_AT_LIST};
  at[0].val.u.list.item = TN_NEW(e->unit->arena, tn_attr_val, n ? n : 1);
  at[0].val.u.list.n = (uint32_t)n;
  if (!at[0].val.u.list.item || n > UINT32_MAX) return tn_fail(d, TN_E_NOMEM, "%zu strings", n);
  for (size_t i = 0; i < n; i++) {
    if (memchr(t->str[i].s, 0, t->str[i].n)) return tn_fail(d, TN_E_UNSUPPORTED, "string %zu of a constant holds a NUL byte", i);
    at[0].val.u.list.item[i] = (tn_attr_val){.kind = TN_AT_STR, .u.s = t->str[i].s};
  }
  tn_status s = tn_graph_add(e->g, TN_OP_DYN, NULL, 0, at, 2, &ty, 1, prov, &node);
  if (s == TN_OK) s = tn_node_set_target(e->g, node, "strings");
  if (s != TN_OK) return tn_fail(d, s, "a constant of %zu strings", n);
  *out = tn_out(&e->g->node[node], 0);
  tn_dim *dim = TN_NEW(e->unit->arena, tn_dim, t->rank + 1u);
  if (!dim) return tn_fail(d, TN_E_NOMEM, "a constant of strings");
  memcpy(dim, t->dim, t->rank * sizeof *dim);
  s = tn_ox_obj_set(e, *out, (tn_ox_obj){.kind = TN_OX_K_TENSOR, .elem = 8, .rank = (int8_t)t->rank, .dim = dim});
  return s == TN_OK ? s : tn_fail(d, s, "a constant of strings");
}

tn_status tn_ox_add_const(tn_ox_env *e, tn_diag *d, const tn_ox_const *t, uint32_t prov, tn_ref *out) {
  int dtype = tn_ox_dtype_of(t->elem);
  uint64_t n = 1, bytes;
  uint32_t node;
  out->id = 0;
  if (dtype < 0) return tn_fail(d, TN_E_UNSUPPORTED, "a constant of element type %d", t->elem);
  if (t->rank > TN_MAX_RANK) return tn_fail(d, TN_E_UNSUPPORTED, "a constant of rank %d, at most %d", t->rank, TN_MAX_RANK);
  for (int i = 0; i < t->rank; i++)
    if (t->dim[i] < 0 || __builtin_mul_overflow(n, (uint64_t)t->dim[i], &n)) return tn_fail(d, TN_E_ARG, "a constant whose dim %d is %lld", i, (long long)t->dim[i]);
  if (dtype == TN_OBJ) return add_strings(e, d, t, (size_t)n, prov, out);
  if (__builtin_mul_overflow(n, (uint64_t)tn_dtype_size((tn_dtype)dtype), &bytes) || bytes != t->bytes || (bytes && !t->data))
    return tn_fail(d, TN_E_ARG, "a constant of %llu elements holds %zu bytes", (unsigned long long)n, t->bytes);
  tn_type ty = tn_type_make(e->g, (tn_dtype)dtype, t->rank, t->dim);
  tn_const_data *k = TN_NEW(e->unit->arena, tn_const_data, 1);
  if (!k) return tn_fail(d, TN_E_NOMEM, "a constant");
  *k = (tn_const_data){t->data, t->bytes};
  tn_status s = tn_graph_add(e->g, TN_OP_CONST, NULL, 0, NULL, 0, &ty, 1, prov, &node);
  if (s != TN_OK) return tn_fail(d, s, "a constant");
  e->g->node[node].data = k;
  *out = tn_out(&e->g->node[node], 0);
  return tn_ox_elem_set(e, *out, t->elem) == TN_OK ? TN_OK : tn_fail(d, TN_E_NOMEM, "a constant");
}

/* ---- attributes ---- */
const tn_ox_attr *tn_ox_attr_get(const tn_ox *c, const char *name) {
  for (uint32_t i = 0; i < c->n_attr; i++)
    if (!strcmp(c->attr[i].name, name)) return &c->attr[i];
  return NULL;
}
static const tn_ox_attr *wants(tn_ox *c, const char *name, tn_ox_kind kind) {
  static const char *const word[] = {"an integer", "a float", "a string", "a tensor", "a graph", "integers", "floats", "strings", "tensors", "a type"};
  const tn_ox_attr *a = tn_ox_attr_get(c, name);
  if (a && a->kind != kind) { tn_ox_bad(c, "attribute %.60s is %s, wants %s", name, word[a->kind], word[kind]); return NULL; }
  return a;
}
int64_t tn_ox_int(tn_ox *c, const char *name, int64_t def) {
  const tn_ox_attr *a = wants(c, name, TN_OX_INT);
  return a ? a->u.i[0] : def;
}
double tn_ox_float(tn_ox *c, const char *name, double def) {
  const tn_ox_attr *a = wants(c, name, TN_OX_FLOAT);
  return a ? (double)a->u.f[0] : def;
}
const char *tn_ox_str_attr(tn_ox *c, const char *name, const char *def) {
  const tn_ox_attr *a = wants(c, name, TN_OX_STR);
  return a ? a->u.s[0].s : def;
}
int tn_ox_ints_attr(tn_ox *c, const char *name, int64_t *out, int max) {
  const tn_ox_attr *a = wants(c, name, TN_OX_INTS);
  if (!a) return -1;
  if (a->n > (uint32_t)max) { tn_ox_unsup(c, "attribute %.60s has %u items, at most %d", name, a->n, max); return -1; }
  for (uint32_t i = 0; i < a->n; i++) out[i] = a->u.i[i];
  return (int)a->n;
}
int tn_ox_wrap(tn_ox *c, int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) { tn_ox_bad(c, "axis %lld of rank %d", (long long)axis, rank); return 0; }
  return (int)(axis < 0 ? axis + rank : axis);
}
int tn_ox_axis(tn_ox *c, const char *name, int64_t def, int rank) { return tn_ox_wrap(c, tn_ox_int(c, name, def), rank); }

/* ---- operands ---- */
/* The operator broadcasts, and another operand has at least `rank` dims: then one element of whatever rank does the same as a scalar. */
static bool spreads(const tn_ox *c, uint32_t k, int rank) {
  static const char *const op[] = {"Add", "Sub", "Mul", "Div", "Pow", "Mod", "Max", "Min", "Sum", "Mean", "Where", "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"};
  bool known = false;
  for (size_t i = 0; i < sizeof op / sizeof *op; i++) known |= !strcmp(c->op, op[i]) && !*c->domain;
  for (uint32_t i = 0; known && i < c->n_in; i++)
    if (i != k && c->in[i].id && tn_typeof(c->b.g, c->in[i])->dtype != TN_OBJ && tn_typeof(c->b.g, c->in[i])->rank >= rank) return true;
  return false;
}
tn_ref tn_ox_in(tn_ox *c, uint32_t k) {
  tn_ref none = {0};
  if (c->b.st != TN_OK) return none;
  if (!tn_ox_has(c, k)) { tn_ox_bad(c, "operand %u is missing", k); return none; }
  if (tn_typeof(c->b.g, c->in[k])->dtype == TN_OBJ) {
    tn_ox_obj o = tn_ox_obj_of(c->e, c->in[k]);
    if (o.one && spreads(c, k, o.one_rank)) return (tn_ref){o.one};
    if (o.kind == TN_OX_K_TENSOR && o.elem != 8 && c->e->rank_missing) *c->e->rank_missing = true;
    if (o.kind == TN_OX_K_TENSOR && o.elem != 8) tn_ox_unsup(c, "operand %u is a tensor whose rank is not known while compiling", k);
    else tn_ox_unsup(c, "operand %u is %s", k, o.elem == 8 && o.kind == TN_OX_K_TENSOR ? "a tensor of strings" : "no tensor");
    return none;
  }
  return c->in[k];
}
tn_ref tn_ox_opt(tn_ox *c, uint32_t k) { return tn_ox_has(c, k) ? tn_ox_in(c, k) : (tn_ref){0}; }
int tn_ox_elem(const tn_ox *c, tn_ref r) { return tn_ox_elem_get(c->e, r); }
void tn_ox_set_elem(tn_ox *c, tn_ref r, int elem) {
  if (c->b.st == TN_OK && r.id && tn_ox_elem_set(c->e, r, elem) != TN_OK) c->b.st = tn_fail(c->b.d, TN_E_NOMEM, "element type of a value");
}

int tn_ox_axes(tn_ox *c, const char *name, int since, uint32_t k, int rank, int *out) {
  int64_t v[TN_MAX_RANK];
  int n = -1;
  if (c->opset < since || tn_ox_attr_get(c, name)) n = tn_ox_ints_attr(c, name, v, TN_MAX_RANK);
  else if (tn_ox_has(c, k)) {
    n = tn_ox_consts(c, tn_ox_in(c, k), v, TN_MAX_RANK);
    if (n < 0) tn_ox_unsup(c, "axes (operand %u) are not known while compiling, or more than %d", k, TN_MAX_RANK);
  }
  for (int i = 0; i < n; i++) {
    out[i] = tn_ox_wrap(c, v[i], rank);
    for (int j = 0; j < i && c->b.st == TN_OK; j++)
      if (out[j] == out[i]) tn_ox_bad(c, "axis %d is named twice", out[i]);
  }
  return c->b.st == TN_OK ? n : -1;
}
tn_ref tn_ox_index(tn_ox *c, tn_ref r) {
  if (c->b.st != TN_OK) return r;
  tn_dtype t = tn_b_dtype(&c->b, r);
  if (!tn_dtype_is_int(t)) { tn_ox_bad(c, "indices are %s", tn_dtype_name(t)); return r; }
  return t == TN_I64 || t == TN_I32 ? r : tn_b_cast(&c->b, r, TN_I64);
}
tn_ref tn_ox_vector(tn_ox *c, const tn_dim *d, int n) {
  int64_t v[TN_MAX_RANK * 2], size[1] = {n};
  tn_ref part[TN_MAX_RANK * 2], r = {0};
  bool known = true;
  if (c->b.st != TN_OK || n > TN_MAX_RANK * 2) return r;
  for (int i = 0; i < n; i++) known = known && tn_dim_as_int(c->b.g->dims, d[i], &v[i]);
  if (known) {
    int64_t *own = TN_NEW(c->b.g->arena, int64_t, n + 1);
    if (!own) { c->b.st = tn_fail(c->b.d, TN_E_NOMEM, "%d sizes", n); return r; }
    memcpy(own, v, (size_t)n * sizeof *v);
    tn_ox_const k = {.elem = 7, .rank = 1, .dim = size, .data = own, .bytes = (size_t)n * sizeof *own};
    if (tn_ox_add_const(c->e, c->b.d, &k, c->b.prov, &r) != TN_OK) c->b.st = c->b.d ? c->b.d->code : TN_E_NOMEM;
    return r;
  }
  for (int i = 0; i < n; i++) part[i] = tn_b_reshape(&c->b, tn_b_dimval(&c->b, d[i], TN_I64), (tn_dim[]){1}, 1);
  return tn_b_concat(&c->b, part, (uint32_t)n, 0);
}
void tn_ox_same_size(tn_ox *c, tn_dim a, tn_dim b, const char *what) {
  if (c->b.st != TN_OK) return;
  tn_status s = tn_dims_assume(c->b.g->dims, a, b, NULL);
  if (s == TN_E_NOMEM) c->b.st = tn_fail(c->b.d, s, "sizes assumed equal");
  else if (s != TN_OK) {
    tn_str t;
    tn_str_init(&t);
    if (a != TN_DIM_BAD) tn_dim_print(c->b.g->dims, a, &t);
    tn_str_add(&t, " and ");
    if (b != TN_DIM_BAD) tn_dim_print(c->b.g->dims, b, &t);
    tn_ox_bad(c, "%s: %.200s", what, t.s ? t.s : "sizes differ");
    tn_str_deinit(&t);
  }
}

static bool one_const(tn_ox *c, uint32_t k, tn_tensor *t) {
  tn_ref r = tn_ox_in(c, k);
  if (c->b.st != TN_OK) return false;
  if (tn_type_numel(tn_typeof(c->b.g, r)) != 1) { tn_ox_bad(c, "operand %u has more or less than one element", k); return false; }
  if (!tn_ox_data(c, r, t)) { tn_ox_unsup(c, "operand %u is not known while compiling", k); return false; }
  return true;
}
int64_t tn_ox_const_int(tn_ox *c, uint32_t k, int64_t def) {
  tn_tensor t;
  if (!tn_ox_has(c, k) || !one_const(c, k, &t)) return def;
  return tn_num_cast(tn_num_load((tn_dtype)t.dtype, t.data), (tn_dtype)t.dtype, TN_I64).i;
}
double tn_ox_const_num(tn_ox *c, uint32_t k, double def) {
  tn_tensor t;
  if (!tn_ox_has(c, k) || !one_const(c, k, &t)) return def;
  return tn_num_cast(tn_num_load((tn_dtype)t.dtype, t.data), (tn_dtype)t.dtype, TN_F64).f;
}

/* ---- results ---- */
tn_status tn_ox_ret(tn_ox *c, uint32_t k, tn_ref r) {
  if (k < c->n_out && c->b.st == TN_OK) c->out[k] = r;
  return c->b.st;
}
tn_status tn_ox_keep(tn_ox *c, uint32_t k, tn_ref r, tn_ref from) {
  if (c->b.st == TN_OK && r.id && tn_ox_elem(c, r) != tn_ox_elem(c, from)) tn_ox_set_elem(c, r, tn_ox_elem(c, from));
  return tn_ox_ret(c, k, r);
}
tn_type tn_ox_type(tn_ox *c, tn_dtype t, int rank, const tn_dim *dim) {
  tn_type ty = tn_type_make(c->b.g, t, (uint32_t)rank, dim);
  if (rank && !ty.dim && c->b.st == TN_OK) c->b.st = tn_fail(c->b.d, TN_E_NOMEM, "a type of rank %d", rank);
  return ty;
}
enum { MAX_DYN_ATTRS = 48 };
static tn_ref add_dyn(tn_ox *c, const char *op, const tn_ref *in, uint32_t n_in, const tn_attr *attr, uint32_t n_attr, const tn_type *ty, uint32_t n_out) {
  uint32_t node;
  tn_status s = tn_graph_add(c->b.g, TN_OP_DYN, in, n_in, attr, n_attr, ty, n_out, c->b.prov, &node);
  if (s == TN_OK) s = tn_node_set_target(c->b.g, node, op);
  if (s == TN_OK) return tn_out(&c->b.g->node[node], 0);
  c->b.st = tn_fail(c->b.d, s, "adding %s", op);
  return (tn_ref){0};
}
tn_ref tn_ox_dyn(tn_ox *c, const char *op, const tn_ref *in, uint32_t n_in, const tn_attr *attr, uint32_t n_attr, const tn_type *types, uint32_t n_out) {
  tn_ref none = {0};
  if (c->b.st != TN_OK) return none;
  for (uint32_t i = 0; i < n_in; i++)
    if (!in[i].id) { tn_ox_bad(c, "operand %u of %s is missing", i, op); return none; }
  tn_type *ty = TN_NEW(c->b.g->arena, tn_type, n_out ? n_out : 1);
  if (!ty) { c->b.st = tn_fail(c->b.d, TN_E_NOMEM, "results of %s", op); return none; }
  bool sized = false;                                        /* its sizes may be all that is read of it: not to be dropped as dead */
  for (uint32_t i = 0; i < n_out; i++) {
    ty[i] = types ? types[i] : (tn_type){TN_OBJ, 0, NULL};
    for (int k = 0; k < ty[i].rank; k++) sized |= !tn_dim_is_const(ty[i].dim[k]);
  }
  if (sized && n_attr < MAX_DYN_ATTRS) {
    tn_attr more[MAX_DYN_ATTRS + 1];
    for (uint32_t i = 0; i < n_attr; i++) {
      more[i] = attr[i];
      if (!strcmp(attr[i].name, "effect")) sized = false;
    }
    if (sized) {
      more[n_attr] = tn_mk_bool("effect", true);
      return add_dyn(c, op, in, n_in, more, n_attr + 1, ty, n_out);
    }
  }
  return add_dyn(c, op, in, n_in, attr, n_attr, ty, n_out);
}
tn_ref tn_ox_none(tn_ox *c) { return tn_ox_dyn(c, "none", NULL, 0, NULL, 0, NULL, 1); }

tn_dim tn_ox_fresh(tn_ox *c, int64_t lo, int64_t hi) {
  tn_dims *t = c->b.g->dims;
  char name[24];
  uint32_t before = tn_dims_n_syms(t);
  tn_dim d;
  do {                                                     /* a model may have dims called u0, too */
    snprintf(name, sizeof name, "u%u", (*c->e->n_fresh)++);
    d = tn_dim_sym(t, name);
    if (d == TN_DIM_BAD) {
      if (c->b.st == TN_OK) c->b.st = tn_fail(c->b.d, TN_E_NOMEM, "a symbol");
      return d;
    }
  } while (tn_dims_n_syms(t) == before);
  tn_dim_set_range(t, d, lo, hi);
  return d;
}

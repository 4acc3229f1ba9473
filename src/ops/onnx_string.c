/* onnx_string: operators on tensors of strings.
 *
 * A string tensor is a value of dtype OBJ of which the rank and perhaps dims are known (tn_ox_obj, elem 8); dims that are not known become symbols here,
 * defined by whatever numeric result carries them. Operators that only move elements are not written a second time: their row is run on the numbers
 * of the elements (i64, DYN string_numbers) in place of the strings, and string_take moves the strings by what comes out. */
#include "onnx_text.h"

bool tn_ox_is_string(const tn_ox *c, tn_ref r) { return r.id && tn_typeof(c->b.g, r)->dtype == TN_OBJ && tn_ox_elem(c, r) == 8; }

tn_status tn_ox_obj_note(tn_ox *c, tn_ref r, tn_ox_obj o, const tn_dim *dim) {
  if (c->b.st != TN_OK) return c->b.st;
  if (dim) {
    tn_dim *keep = TN_NEW(c->b.g->arena, tn_dim, TN_MAX_RANK);
    if (!keep) return c->b.st = tn_fail(c->b.d, TN_E_NOMEM, "dims of strings");
    for (int i = 0; i < o.rank; i++) keep[i] = dim[i];
    o.dim = keep;
  }
  if (tn_ox_obj_set(c->e, r, o) != TN_OK) c->b.st = tn_fail(c->b.d, TN_E_NOMEM, "the type of a value");
  return c->b.st;
}

tn_ref tn_ox_str_is(tn_ox *c, tn_ref r, int rank, const tn_dim *dim) {
  return tn_ox_obj_note(c, r, (tn_ox_obj){.kind = TN_OX_K_TENSOR, .elem = 8, .rank = (int8_t)rank}, dim) == TN_OK ? r : (tn_ref){0};
}

/* Rank and dims of a string tensor; unknown dims get symbols, which it keeps. */
int tn_ox_str_dims(tn_ox *c, tn_ref r, tn_dim *dim) {
  if (c->b.st != TN_OK) return 0;
  tn_ox_obj o = tn_ox_obj_of(c->e, r);
  bool made = false;
  if (o.rank < 0) { tn_ox_unsup(c, "a tensor of strings whose rank is not known while compiling"); return 0; }
  for (int i = 0; i < o.rank; i++) {
    made |= !o.dim || o.dim[i] == TN_DIM_BAD;
    dim[i] = !o.dim || o.dim[i] == TN_DIM_BAD ? tn_ox_fresh(c, 0, INT64_MAX) : o.dim[i];
  }
  if (made) tn_ox_obj_note(c, r, o, dim);
  return o.rank;
}

tn_ref tn_ox_str_in(tn_ox *c, uint32_t k) {
  if (c->b.st != TN_OK) return (tn_ref){0};
  if (!tn_ox_has(c, k)) { tn_ox_bad(c, "operand %u is missing", k); return (tn_ref){0}; }
  if (!tn_ox_is_string(c, c->in[k])) { tn_ox_bad(c, "operand %u is no tensor of strings", k); return (tn_ref){0}; }
  return c->in[k];
}

/* i64 0, 1, 2 ... in the shape of a string tensor. */
tn_ref tn_ox_str_numbers(tn_ox *c, tn_ref r) {
  tn_dim dim[TN_MAX_RANK];
  int rank = tn_ox_str_dims(c, r, dim);
  tn_type t = tn_ox_type(c, TN_I64, rank, dim);
  return tn_ox_dyn(c, "string_numbers", &r, 1, NULL, 0, &t, 1);
}

tn_ref tn_ox_str_take(tn_ox *c, tn_ref numbers, const tn_ref *str, uint32_t n) {
  tn_ref *in = TN_NEW(c->b.g->arena, tn_ref, n + 1);
  tn_dim dim[TN_MAX_RANK];
  if (c->b.st != TN_OK) return (tn_ref){0};
  if (!in) { c->b.st = tn_fail(c->b.d, TN_E_NOMEM, "operands"); return (tn_ref){0}; }
  in[0] = numbers;
  memcpy(in + 1, str, n * sizeof *in);
  int rank = tn_b_shape(&c->b, numbers, dim);
  tn_ref r = tn_ox_dyn(c, "string_take", in, n + 1, NULL, 0, NULL, 1);
  return tn_ox_str_is(c, r, rank, dim);
}

/* ---- attributes of DYN nodes ---- */

static tn_attr list_attr(tn_ox *c, const char *name, uint32_t n, tn_attr_kind kind) {
  tn_attr a = {name, {.kind = TN_AT_LIST}};
  a.val.u.list.item = TN_NEW(c->b.g->arena, tn_attr_val, n + 1u);
  a.val.u.list.n = a.val.u.list.item ? n : 0;
  if (!a.val.u.list.item && c->b.st == TN_OK) c->b.st = tn_fail(c->b.d, TN_E_NOMEM, "a list of %u", n);
  for (uint32_t i = 0; i < a.val.u.list.n; i++) a.val.u.list.item[i].kind = kind;
  return a;
}
tn_attr tn_ox_mk_ints(tn_ox *c, const char *name, const int64_t *v, uint32_t n) {
  tn_attr a = list_attr(c, name, n, TN_AT_INT);
  for (uint32_t i = 0; i < a.val.u.list.n; i++) a.val.u.list.item[i].u.i = v[i];
  return a;
}
tn_attr tn_ox_mk_floats(tn_ox *c, const char *name, const double *v, uint32_t n) {
  tn_attr a = list_attr(c, name, n, TN_AT_FLOAT);
  for (uint32_t i = 0; i < a.val.u.list.n; i++) a.val.u.list.item[i].u.f = v[i];
  return a;
}
tn_attr tn_ox_mk_strs(tn_ox *c, const char *name, const tn_ox_str *v, uint32_t n) {
  tn_attr a = list_attr(c, name, n, TN_AT_STR);
  for (uint32_t i = 0; i < a.val.u.list.n; i++) {
    if (memchr(v[i].s, 0, v[i].n)) tn_ox_unsup(c, "string %u of %s holds a NUL byte", i, name);
    a.val.u.list.item[i].u.s = v[i].s;
  }
  return a;
}

/* ---- moving, comparing, casting: called before an operator's own row ---- */

static bool moves(const tn_ox *c) {
  static const char *const ops[] = {"ArrayFeatureExtractor", "Compress", "Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Reshape",
                                    "ReverseSequence", "Scatter", "ScatterElements", "ScatterND", "Shape", "Size", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose",
                                    "Unsqueeze", "Where"};
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
    if (!strcmp(c->op, ops[i])) return true;
  return false;
}

static tn_status move(tn_ox *c, tn_onnx_fn fn) {
  const tn_ref *before = c->in;
  tn_ref *in = TN_NEW(c->b.g->arena, tn_ref, c->n_in + 1), *str = TN_NEW(c->b.g->arena, tn_ref, c->n_in + 1);
  tn_dim done = 0, dim[TN_MAX_RANK];
  uint32_t n = 0;
  bool asks = !strcmp(c->op, "Shape") || !strcmp(c->op, "Size");
  if (!in || !str) return c->b.st = tn_fail(c->b.d, TN_E_NOMEM, "operands");
  for (uint32_t k = 0; k < c->n_in; k++) {
    in[k] = before[k];
    if (!tn_ox_is_string(c, before[k])) continue;
    in[k] = tn_ox_str_numbers(c, before[k]);
    if (n) in[k] = tn_b_2(&c->b, TN_OP_ADD, in[k], tn_b_dimval(&c->b, done, TN_I64));
    done = tn_dim_add(c->b.g->dims, done, tn_b_numel(&c->b, dim, tn_ox_str_dims(c, before[k], dim)));
    str[n++] = before[k];
  }
  if (c->b.st != TN_OK) return c->b.st;
  c->in = in;
  tn_status st = fn(c);
  c->in = before;
  for (uint32_t k = 0; !asks && k < c->n_out && st == TN_OK && c->b.st == TN_OK; k++)
    if (c->out[k].id) c->out[k] = tn_ox_str_take(c, c->out[k], str, n);
  return st != TN_OK ? st : c->b.st;
}

/* Two string tensors in their common shape. */
static int common(tn_ox *c, tn_ref *a, tn_ref *b, tn_dim *dim) {
  tn_dim other[TN_MAX_RANK];
  *a = tn_ox_str_in(c, 0);
  *b = tn_ox_str_in(c, 1);
  int n = tn_ox_str_dims(c, *a, dim), m = tn_ox_str_dims(c, *b, other);
  bool same = n == m;
  for (int i = 0; same && i < n; i++) same = dim[i] == other[i];
  if (same || c->b.st != TN_OK) return n;
  tn_ref x = tn_ox_str_numbers(c, *a), y = tn_ox_str_numbers(c, *b), both = tn_b_2(&c->b, TN_OP_ADD, x, y);
  if (c->b.st != TN_OK) return 0;
  n = tn_b_shape(&c->b, both, dim);
  *a = tn_ox_str_take(c, tn_b_broadcast(&c->b, x, dim, n), a, 1);
  *b = tn_ox_str_take(c, tn_b_broadcast(&c->b, y, dim, n), b, 1);
  return n;
}

static tn_status equal(tn_ox *c) {
  tn_ref in[2];
  tn_dim dim[TN_MAX_RANK];
  int n = common(c, &in[0], &in[1], dim);
  tn_type t = tn_ox_type(c, TN_BOOL, n, dim);
  return tn_ox_ret(c, 0, tn_ox_dyn(c, "string_equal", in, 2, NULL, 0, &t, 1));
}

/* Order matters here, not only place: the operator runs on the strings. */
static tn_status unique(tn_ox *c) {
  tn_ref x = c->in[0];
  tn_dim dim[TN_MAX_RANK], all;
  int n = tn_ox_str_dims(c, x, dim);
  const tn_ox_attr *axis = tn_ox_attr_get(c, "axis");
  tn_attr at[2] = {tn_mk_int("sorted", tn_ox_int(c, "sorted", 1)), {0}};
  int k = axis ? tn_ox_axis(c, "axis", 0, n) : 0;
  if (c->b.st != TN_OK) return c->b.st;
  if (axis) at[1] = tn_mk_int("axis", k);
  tn_dim count = tn_ox_fresh(c, 0, INT64_MAX);
  all = axis ? dim[k] : tn_b_numel(&c->b, dim, n);
  dim[k] = count;
  tn_type t[4] = {{TN_OBJ, 0, NULL}, tn_ox_type(c, TN_I64, 1, &count), tn_ox_type(c, TN_I64, 1, &all), tn_ox_type(c, TN_I64, 1, &count)};
  tn_ref y = tn_ox_dyn(c, "unique", &x, 1, at, axis ? 2 : 1, t, 4);
  for (uint32_t i = 1; i < 4; i++) tn_ox_ret(c, i, tn_ox_nth(y, i));
  return tn_ox_ret(c, 0, tn_ox_str_is(c, y, axis ? n : 1, dim));
}

tn_ref tn_ox_str_parse(tn_ox *c, tn_ref x, int elem) {
  int base = elem == 1 || elem == 7 || elem == 11 || elem == 13 ? elem : elem == 10 || elem >= 16 ? 11 : 7;   /* f32, i64, f64, u64 as they are */
  tn_dim dim[TN_MAX_RANK];
  int n = tn_ox_str_dims(c, x, dim);
  tn_type t = tn_ox_type(c, (tn_dtype)tn_ox_dtype_of(base), n, dim);
  tn_attr at = tn_mk_int("elem", base);
  tn_ref r = tn_ox_dyn(c, "from_string", &x, 1, &at, 1, &t, 1);
  return base == elem ? r : tn_ox_cast(c, r, elem, true, "up");
}

tn_ref tn_ox_str_print(tn_ox *c, tn_ref x) {
  tn_dim dim[TN_MAX_RANK];
  if (tn_ox_elem(c, x) > 16) x = tn_ox_cast(c, x, 1, true, "up");
  if (c->b.st != TN_OK) return x;
  int n = tn_b_shape(&c->b, x, dim);
  return tn_ox_str_is(c, tn_ox_dyn(c, "to_string", &x, 1, NULL, 0, NULL, 1), n, dim);
}

static bool cast(tn_ox *c, tn_status *out) {
  bool like = !strcmp(c->op, "CastLike"), from = tn_ox_has(c, 0) && tn_ox_is_string(c, c->in[0]);
  int to;
  if (like) to = tn_ox_has(c, 1) ? tn_ox_elem(c, c->in[1]) : 0;
  else {
    const tn_ox_attr *a = tn_ox_attr_get(c, "to");
    if (!a || a->kind != TN_OX_INT) return false;              /* opset 1 names no strings */
    to = a->u.i[0] > 0 && a->u.i[0] < 256 ? (int)a->u.i[0] : 0;
  }
  if (from) *out = to == 8 ? tn_ox_ret(c, 0, c->in[0]) : tn_ox_dtype_of(to) < 0 ? tn_ox_bad(c, "element type %d", to) : tn_ox_ret(c, 0, tn_ox_str_parse(c, c->in[0], to));
  else if (to == 8 && tn_ox_has(c, 0)) *out = tn_ox_ret(c, 0, tn_ox_str_print(c, tn_ox_in(c, 0)));
  else return false;
  return true;
}

bool tn_ox_string_op(tn_ox *c, tn_onnx_fn fn, tn_status *out) {
  bool any = false;
  if (!strcmp(c->op, "Cast") || !strcmp(c->op, "CastLike")) return cast(c, out);
  for (uint32_t k = 0; k < c->n_in; k++) any |= tn_ox_is_string(c, c->in[k]);
  if (!any) return false;
  if (!*c->domain && !strcmp(c->op, "Equal")) *out = equal(c);
  else if (!*c->domain && !strcmp(c->op, "Unique")) *out = unique(c);
  else if (moves(c)) *out = move(c, fn);
  else return false;
  return true;
}

/* ---- rows ---- */

tn_status tn_ox_string_concat(tn_ox *c) {
  tn_ref in[2];
  tn_dim dim[TN_MAX_RANK];
  int n = common(c, &in[0], &in[1], dim);
  return tn_ox_ret(c, 0, tn_ox_str_is(c, tn_ox_dyn(c, "string_concat", in, 2, NULL, 0, NULL, 1), n, dim));
}

tn_status tn_ox_string_split(tn_ox *c) {
  tn_ref x = tn_ox_str_in(c, 0);
  tn_dim dim[TN_MAX_RANK + 1];
  int n = tn_ox_str_dims(c, x, dim);
  if (n == TN_MAX_RANK) return tn_ox_unsup(c, "rank %d", n);
  tn_attr at[2] = {tn_mk_str("delimiter", tn_ox_str_attr(c, "delimiter", "")), tn_mk_int("maxsplit", tn_ox_int(c, "maxsplit", -1))};
  tn_type t[2] = {{TN_OBJ, 0, NULL}, tn_ox_type(c, TN_I64, n, dim)};
  tn_ref y = tn_ox_dyn(c, "string_split", &x, 1, at, 2, t, 2);
  dim[n] = TN_DIM_BAD;
  tn_ox_ret(c, 1, tn_ox_nth(y, 1));
  return tn_ox_ret(c, 0, tn_ox_str_is(c, y, n + 1, dim));
}

tn_status tn_ox_regex_full_match(tn_ox *c) {
  tn_ref x = tn_ox_str_in(c, 0);
  tn_dim dim[TN_MAX_RANK];
  tn_type t = tn_ox_type(c, TN_BOOL, tn_ox_str_dims(c, x, dim), dim);
  const char *pattern = tn_ox_str_attr(c, "pattern", NULL);
  if (c->b.st == TN_OK && !pattern) return tn_ox_bad(c, "no pattern");
  tn_attr at = tn_mk_str("pattern", pattern ? pattern : "");
  return tn_ox_ret(c, 0, tn_ox_dyn(c, "regex_full_match", &x, 1, &at, 1, &t, 1));
}

/* The locale attribute is not looked at: case follows Unicode, whatever the machine. */
tn_status tn_ox_string_normalizer(tn_ox *c) {
  tn_ref x = tn_ox_str_in(c, 0);
  tn_dim dim[TN_MAX_RANK];
  int n = tn_ox_str_dims(c, x, dim);
  const char *how = tn_ox_str_attr(c, "case_change_action", "NONE");
  const tn_ox_attr *stop = tn_ox_attr_get(c, "stopwords");
  if (c->b.st != TN_OK) return c->b.st;
  if (strcmp(how, "NONE") && strcmp(how, "LOWER") && strcmp(how, "UPPER")) return tn_ox_bad(c, "case_change_action '%.40s'", how);
  if (stop && stop->n && stop->kind != TN_OX_STRS) return tn_ox_bad(c, "stopwords are no strings");
  if (n != 1 && n != 2) return tn_ox_bad(c, "wanted [C] or [1, C], found rank %d", n);
  tn_attr at[3] = {tn_mk_str("case", how), tn_mk_int("is_case_sensitive", tn_ox_int(c, "is_case_sensitive", 0)), {0}};
  uint32_t n_at = 2;
  if (stop && stop->n) at[n_at++] = tn_ox_mk_strs(c, "stopwords", stop->u.s, stop->n);
  dim[n - 1] = TN_DIM_BAD;
  return tn_ox_ret(c, 0, tn_ox_str_is(c, tn_ox_dyn(c, "string_normalizer", &x, 1, at, n_at, NULL, 1), n, dim));
}

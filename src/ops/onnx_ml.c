/* onnx_ml: ai.onnx.ml but trees, linear models and support vector machines (onnx_ml_*.c).
 *
 * Encoders have one form: DYN lookup gives the place of each element among the keys, and what stands at that place is a take from a constant (or a
 * move of strings). Maps are read into keys and values and go the same way. The rest is arithmetic. */
#include "onnx_ml.h"

/* ---- lists from attributes ---- */

static void *room(tn_ox *c, size_t n, size_t size) {
  void *p = n < UINT32_MAX ? tn_arena_alloc(c->b.g->arena, (n + 1) * size) : NULL;
  if (!p && c->b.st == TN_OK) c->b.st = tn_fail(c->b.d, TN_E_NOMEM, "%zu items of attributes", n);
  return p;
}

static tn_ox_list of_tensor(tn_ox *c, const char *name, const tn_ox_const *t) {
  tn_ox_list l = {.elem = t->elem};
  int dtype = tn_ox_dtype_of(t->elem);
  if (t->elem == 8) {
    uint64_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= (uint64_t)t->dim[i];
    l.s = t->str;
    l.n = (uint32_t)n;
    return l;
  }
  if (dtype < 0 || t->elem > 13) { tn_ox_unsup(c, "%s of element type %d", name, t->elem); return l; }
  size_t es = tn_dtype_size((tn_dtype)dtype), n = t->bytes / es;
  bool fl = tn_dtype_is_float((tn_dtype)dtype);
  tn_num *p = room(c, n, sizeof *p);                       /* a union of the two: an array of either */
  for (size_t i = 0; p && i < n; i++) p[i] = tn_num_load((tn_dtype)dtype, (const char *)t->data + i * es);
  l.n = p ? (uint32_t)n : 0;
  if (fl) l.f = (const double *)(const void *)p;
  else l.i = (const int64_t *)(const void *)p;
  return l;
}

tn_ox_list tn_ox_list_attr(tn_ox *c, const char *name) {
  tn_ox_list l = {0};
  const tn_ox_attr *a = c->b.st == TN_OK ? tn_ox_attr_get(c, name) : NULL;
  if (!a) return l;
  l.n = a->n;
  switch (a->kind) {
    case TN_OX_STR: case TN_OX_STRS: l.s = a->u.s; l.elem = 8; break;
    case TN_OX_INT: case TN_OX_INTS: l.i = a->u.i; l.elem = 7; break;
    case TN_OX_TENSOR: return of_tensor(c, name, a->u.t);
    case TN_OX_FLOAT: case TN_OX_FLOATS: {
      double *f = room(c, a->n, sizeof *f);
      for (uint32_t i = 0; f && i < a->n; i++) f[i] = (double)a->u.f[i];
      l.f = f;
      l.elem = 1;
      break;
    }
    default: tn_ox_bad(c, "attribute %s is no list", name);
  }
  return l;
}

tn_ox_list tn_ox_list_get(tn_ox *c, const char *name) {
  static const char *const suffix[] = {"strings", "int64s", "ints", "floats", "tensor"};
  for (int i = 0; i < 5; i++) {
    char full[64];
    snprintf(full, sizeof full, "%s_%s", name, suffix[i]);
    tn_ox_list l = tn_ox_list_attr(c, full);
    if (l.n) return l;
  }
  return (tn_ox_list){0};
}

const double *tn_ox_floats(tn_ox *c, const char *name, uint32_t *n) {
  char full[64];
  tn_ox_list l = tn_ox_list_attr(c, name);
  snprintf(full, sizeof full, "%s_as_tensor", name);
  if (!l.n) l = tn_ox_list_attr(c, full);
  if (l.n && !l.f) tn_ox_bad(c, "attribute %s holds no floats", name);
  *n = l.f ? l.n : 0;
  return l.f;
}

const int64_t *tn_ox_ints(tn_ox *c, const char *name, uint32_t *n) {
  tn_ox_list l = tn_ox_list_attr(c, name);
  if (l.n && !l.i) tn_ox_bad(c, "attribute %s holds no integers", name);
  *n = l.i ? l.n : 0;
  return l.i;
}

/* ---- constants ---- */

static tn_ref constant(tn_ox *c, const tn_ox_const *t) {
  tn_ref r = {0};
  if (c->b.st == TN_OK) c->b.st = tn_ox_add_const(c->e, c->b.d, t, c->b.prov, &r);
  return r;
}

tn_ref tn_ox_const_list(tn_ox *c, const tn_ox_list *l, int elem) {
  int dtype = tn_ox_dtype_of(elem);
  int64_t n = l->n;
  if (dtype < 0 || dtype == TN_OBJ || (l->n && !l->i && !l->f)) { tn_ox_bad(c, "a list of element type %d where numbers are wanted", l->elem); return (tn_ref){0}; }
  size_t es = tn_dtype_size((tn_dtype)dtype);
  char *p = room(c, l->n, es);
  for (uint32_t i = 0; p && i < l->n; i++) {
    tn_num v = l->i ? (tn_num){.i = l->i[i]} : (tn_num){.f = l->f[i]};
    tn_num_store((tn_dtype)dtype, p + i * es, tn_num_cast(v, l->i ? TN_I64 : TN_F64, (tn_dtype)dtype));
  }
  return constant(c, &(tn_ox_const){.elem = (uint8_t)elem, .rank = 1, .dim = &n, .data = p, .bytes = l->n * es});
}

tn_ref tn_ox_const_f32(tn_ox *c, const double *v, int rank, const int64_t *dim) {
  size_t n = 1;
  for (int i = 0; i < rank; i++) n *= (size_t)dim[i];
  float *p = room(c, n, sizeof *p);
  for (size_t i = 0; p && i < n; i++) p[i] = (float)v[i];
  return constant(c, &(tn_ox_const){.elem = 1, .rank = (uint8_t)rank, .dim = dim, .data = p, .bytes = n * sizeof *p});
}
tn_ref tn_ox_const_i64(tn_ox *c, const int64_t *v, int64_t n) { return constant(c, &(tn_ox_const){.elem = 7, .rank = 1, .dim = &n, .data = v, .bytes = (size_t)n * 8}); }
tn_ref tn_ox_const_strs(tn_ox *c, const tn_ox_str *s, uint32_t n) {
  int64_t dim = n;
  return constant(c, &(tn_ox_const){.elem = 8, .rank = 1, .dim = &dim, .str = s});
}

/* ---- lookup ---- */

/* Stable merge sort of numbers 0 .. n-1. false = out of memory, noted. */
static bool order_by(tn_ox *c, int64_t n, int (*cmp)(const void *user, int64_t a, int64_t b), const void *user, int64_t **out) {
  int64_t *idx = room(c, (size_t)n, sizeof *idx), *tmp = room(c, (size_t)n, sizeof *tmp);
  *out = idx;
  if (!idx || !tmp) return false;
  for (int64_t i = 0; i < n; i++) idx[i] = i;
  for (int64_t w = 1; w < n; w *= 2) {
    for (int64_t lo = 0; lo < n; lo += 2 * w) {
      int64_t mid = lo + w < n ? lo + w : n, hi = lo + 2 * w < n ? lo + 2 * w : n, a = lo, b = mid;
      for (int64_t k = lo; k < hi; k++) tmp[k] = a < mid && (b >= hi || cmp(user, idx[a], idx[b]) <= 0) ? idx[a++] : idx[b++];
    }
    memcpy(idx, tmp, (size_t)n * sizeof *idx);
  }
  return true;
}

static int list_cmp(const void *user, int64_t a, int64_t b) {
  const tn_ox_list *l = user;
  if (l->s) {
    size_t n = l->s[a].n < l->s[b].n ? l->s[a].n : l->s[b].n;
    int r = memcmp(l->s[a].s, l->s[b].s, n);
    return r ? r : (l->s[a].n > l->s[b].n) - (l->s[a].n < l->s[b].n);
  }
  if (l->i) return (l->i[a] > l->i[b]) - (l->i[a] < l->i[b]);
  bool na = isnan(l->f[a]), nb = isnan(l->f[b]);
  return na || nb ? na - nb : (l->f[a] > l->f[b]) - (l->f[a] < l->f[b]);
}

/* Numbers of the keys in rising order, each key once, the last of equal ones. */
static int64_t *sorted(tn_ox *c, const tn_ox_list *l, uint32_t *out_n) {
  int64_t *idx;
  uint32_t n = 0;
  if (!order_by(c, l->n, list_cmp, l, &idx)) return NULL;
  for (uint32_t i = 0; i < l->n; i++)
    if (i + 1 == l->n || list_cmp(l, idx[i], idx[i + 1])) idx[n++] = idx[i];
  *out_n = n;
  return idx;
}

static tn_attr keys_attr(tn_ox *c, const tn_ox_list *l, const int64_t *order, uint32_t n) {
  if (l->s) {
    tn_ox_str *s = room(c, n, sizeof *s);
    for (uint32_t i = 0; s && i < n; i++) s[i] = l->s[order[i]];
    return tn_ox_mk_strs(c, "keys", s, s ? n : 0);
  }
  tn_num *v = room(c, n, sizeof *v);
  for (uint32_t i = 0; v && i < n; i++) v[i] = l->i ? (tn_num){.i = l->i[order[i]]} : (tn_num){.f = l->f[order[i]]};
  return l->i ? tn_ox_mk_ints(c, "keys", (const int64_t *)(const void *)v, v ? n : 0) : tn_ox_mk_floats(c, "keys", (const double *)(const void *)v, v ? n : 0);
}

tn_ref tn_ox_lookup(tn_ox *c, tn_ref x, const tn_ox_list *keys) {
  tn_dim dim[TN_MAX_RANK];
  uint32_t n = 0;
  tn_ox_list k = *keys;
  if (c->b.st != TN_OK) return x;
  bool str = tn_ox_is_string(c, x), fl = !str && tn_dtype_is_float(tn_b_dtype(&c->b, x));
  if (k.n == 0) { tn_ox_bad(c, "no keys"); return x; }
  if (str != (k.s != NULL)) { tn_ox_bad(c, "operand and keys differ in type"); return x; }
  if (fl && k.i) {                                          /* integer keys for floats: as floats */
    double *f = room(c, k.n, sizeof *f);
    for (uint32_t i = 0; f && i < k.n; i++) f[i] = (double)k.i[i];
    k = (tn_ox_list){.f = f, .n = k.n, .elem = 11};
  }
  int64_t *order = sorted(c, &k, &n);
  if (!order || c->b.st != TN_OK) return x;
  int rank = str ? tn_ox_str_dims(c, x, dim) : tn_b_shape(&c->b, x, dim);
  tn_type t = tn_ox_type(c, TN_I64, rank, dim);
  tn_attr at = keys_attr(c, &k, order, n);
  tn_ref at_sorted = tn_ox_dyn(c, "lookup", &x, 1, &at, 1, &t, 1);
  bool same = n == k.n;
  for (uint32_t i = 0; same && i < n; i++) same = order[i] == i;
  if (same) return at_sorted;
  order[n] = k.n;                                            /* sorted() leaves one place more */
  return tn_b_take(&c->b, tn_ox_const_i64(c, order, (int64_t)n + 1), at_sorted, 0);
}

tn_ref tn_ox_pick(tn_ox *c, const tn_ox_list *l, const tn_ox_list *other, tn_ref idx) {
  tn_ox_list all = *l;
  if (c->b.st != TN_OK) return idx;
  if (other && (other->n != 1 || (other->s != NULL) != (l->s != NULL))) { tn_ox_bad(c, "the default is not of the kind of the values"); return idx; }
  if (other) {
    all.n = l->n + 1;
    if (l->s) {
      tn_ox_str *s = room(c, all.n, sizeof *s);
      if (!s) return idx;
      memcpy(s, l->s, l->n * sizeof *s);
      s[l->n] = other->s[0];
      all.s = s;
    } else {
      double *f = room(c, all.n, sizeof *f);
      int64_t *i = room(c, all.n, sizeof *i);
      if (!f || !i) return idx;
      for (uint32_t k = 0; k < all.n; k++) {
        const tn_ox_list *from = k < l->n ? l : other;
        uint32_t at = k < l->n ? k : 0;
        f[k] = from->f ? from->f[at] : (double)from->i[at];
        i[k] = from->i ? from->i[at] : (int64_t)tn_num_cast((tn_num){.f = from->f[at]}, TN_F64, TN_I64).i;
      }
      if (l->f) all.f = f;
      else all.i = i;
    }
  }
  if (all.s) {
    tn_ref s = tn_ox_const_strs(c, all.s, all.n);
    return tn_ox_str_take(c, idx, &s, 1);
  }
  return tn_b_take(&c->b, tn_ox_const_list(c, &all, l->elem), idx, 0);
}

/* ---- encoders ---- */

static tn_ref any_in(tn_ox *c, uint32_t k) { return tn_ox_has(c, k) && tn_ox_is_string(c, c->in[k]) ? c->in[k] : tn_ox_in(c, k); }

static const tn_ox_str unused[] = {{"_Unused", 7}};
static const int64_t minus_one[] = {-1};
static const double minus_zero[] = {-0.0};

static tn_ox_list default_of(tn_ox *c, const tn_ox_list *values) {
  tn_ox_list d = tn_ox_list_attr(c, "default_tensor");
  if (!d.n) d = tn_ox_list_attr(c, values->s ? "default_string" : values->i ? "default_int64" : "default_float");
  if (d.n) return d;
  return (tn_ox_list){.s = values->s ? unused : NULL, .i = values->i ? minus_one : NULL, .f = values->f ? minus_zero : NULL, .n = 1, .elem = values->elem};
}

/* keys to values, both ways when `values` are the numbers of the keys (opset 1: strings to int64 and back). */
static tn_status encode(tn_ox *c, tn_ref x, const tn_ox_list *keys, const tn_ox_list *values) {
  if (c->b.st != TN_OK) return c->b.st;
  if (keys->n != values->n) return tn_ox_bad(c, "%u keys, %u values", keys->n, values->n);
  tn_ox_list d = default_of(c, values);
  return tn_ox_ret(c, 0, tn_ox_pick(c, values, &d, tn_ox_lookup(c, x, keys)));
}

static tn_ox_list counted(tn_ox *c, uint32_t n) {
  int64_t *v = room(c, n, sizeof *v);
  for (uint32_t i = 0; v && i < n; i++) v[i] = i;
  return (tn_ox_list){.i = v, .n = v ? n : 0, .elem = 7};
}

tn_status tn_ox_ml_label_encoder(tn_ox *c) {
  tn_ref x = any_in(c, 0);
  if (c->b.st != TN_OK) return c->b.st;
  tn_ox_list classes = tn_ox_list_attr(c, "classes_strings");
  if (classes.n) {
    tn_ox_list n = counted(c, classes.n);
    return tn_ox_is_string(c, x) ? encode(c, x, &classes, &n) : encode(c, x, &n, &classes);
  }
  tn_ox_list keys = tn_ox_list_get(c, "keys"), values = tn_ox_list_get(c, "values");
  return encode(c, x, &keys, &values);
}

tn_status tn_ox_ml_category_mapper(tn_ox *c) {
  tn_ref x = any_in(c, 0);
  if (c->b.st != TN_OK) return c->b.st;
  tn_ox_list s = tn_ox_list_attr(c, "cats_strings"), i = tn_ox_list_attr(c, "cats_int64s");
  return tn_ox_is_string(c, x) ? encode(c, x, &s, &i) : encode(c, x, &i, &s);
}

tn_status tn_ox_ml_one_hot_encoder(tn_ox *c) {
  tn_ref x = any_in(c, 0);
  tn_ox_list cats = tn_ox_list_get(c, "cats");
  tn_ref at = tn_ox_lookup(c, x, &cats);
  if (c->b.st != TN_OK) return c->b.st;
  if (!tn_ox_int(c, "zeros", 1)) {                           /* unknown ones are an error: their place is outside of this table */
    tn_ox_list n = counted(c, cats.n);
    at = tn_ox_pick(c, &n, NULL, at);
  }
  tn_ref hot = tn_b_2(&c->b, TN_OP_EQ, tn_b_unsq(&c->b, at, tn_b_rank(&c->b, at)), tn_b_iota(&c->b, cats.n, TN_I64));
  return tn_ox_ret(c, 0, tn_b_cast(&c->b, hot, TN_F32));
}

/* ---- maps ---- */

typedef struct halves { tn_ref key, value; tn_dim n; int elem, key_elem; } halves;

static tn_status open_map(tn_ox *c, halves *h) {
  if (!tn_ox_has(c, 0)) return tn_ox_bad(c, "operand 0 is missing");
  tn_ref x = c->in[0];
  tn_ox_obj o = tn_ox_obj_of(c->e, x);
  int dtype = tn_ox_dtype_of(o.elem);
  if (o.kind != TN_OX_K_MAP || !o.elem || !o.key_elem) return tn_ox_unsup(c, "operand 0 is no map whose types are known");
  h->n = tn_ox_fresh(c, 0, INT64_MAX);
  h->elem = o.elem;
  h->key_elem = o.key_elem;
  tn_type kt = tn_ox_type(c, TN_I64, 1, &h->n), vt = tn_ox_type(c, dtype < 0 ? TN_F32 : (tn_dtype)dtype, 1, &h->n);
  h->key = tn_ox_dyn(c, "map_keys", &x, 1, NULL, 0, o.key_elem == 8 ? NULL : &kt, 1);
  if (o.key_elem == 8) h->key = tn_ox_str_is(c, h->key, 1, &h->n);
  h->value = tn_ox_dyn(c, "map_values", &x, 1, NULL, 0, o.elem == 8 ? NULL : &vt, 1);
  if (o.elem == 8) h->value = tn_ox_str_is(c, h->value, 1, &h->n);
  return c->b.st;
}

/* zeros[n] with values put at places; a place may be n when `spare`: dropped. */
static tn_ref spread(tn_ox *c, tn_ref value, tn_ref at, tn_dim n, bool spare) {
  tn_dim size = spare ? tn_dim_add(c->b.g->dims, n, 1) : n;
  if (c->b.st != TN_OK) return value;
  tn_ref in[3] = {tn_b_zeros(&c->b, &size, 1, tn_b_dtype(&c->b, value)), at, value};
  tn_attr a[2] = {tn_mk_int("dim", 0), tn_mk_str("combiner", "set")};
  tn_ref y = tn_b_op(&c->b, TN_OP_SCATTER, in, 3, a, 2);
  return tn_b_slice(&c->b, y, 0, 0, n, 1);
}

tn_status tn_ox_ml_dict_vectorizer(tn_ox *c) {
  halves h = {0};
  tn_ox_list words = tn_ox_list_attr(c, "string_vocabulary");
  if (!words.n) words = tn_ox_list_attr(c, "int64_vocabulary");
  TN_TRY(open_map(c, &h));
  if (h.elem == 8) return tn_ox_unsup(c, "a map to strings");
  return tn_ox_ret(c, 0, spread(c, h.value, tn_ox_lookup(c, h.key, &words), words.n, true));
}

/* The result is [1, n], n items in the order of their keys, or max_map with zeros between them. */
tn_status tn_ox_ml_cast_map(tn_ox *c) {
  halves h = {0};
  const char *to = tn_ox_str_attr(c, "cast_to", "TO_FLOAT"), *form = tn_ox_str_attr(c, "map_form", "DENSE");
  int64_t max = tn_ox_int(c, "max_map", 1);
  TN_TRY(open_map(c, &h));
  int elem = !strcmp(to, "TO_FLOAT") ? 1 : !strcmp(to, "TO_INT64") ? 7 : !strcmp(to, "TO_STRING") ? 8 : 0;
  if (!elem || h.key_elem != 7 || max < 0) return tn_ox_bad(c, "cast_to '%.40s', keys of type %d, max_map %lld", to, h.key_elem, (long long)max);
  tn_ref v = h.elem == 8 && elem != 8 ? tn_ox_str_parse(c, h.value, elem) : h.elem != 8 && elem != 8 ? tn_ox_cast(c, h.value, elem, true, "up") : h.value;
  if (!strcmp(form, "SPARSE")) {
    if (h.elem == 8 && elem == 8) return tn_ox_unsup(c, "strings with gaps");
    v = spread(c, v, h.key, max, false);
  } else {
    tn_attr a[3] = {tn_mk_int("dim", 0), tn_mk_bool("descending", false), tn_mk_bool("stable", true)};
    tn_ref order = tn_ox_nth(tn_b_op(&c->b, TN_OP_SORT, &h.key, 1, a, 3), 1);
    if (h.elem == 8 && elem == 8) return tn_ox_ret(c, 0, tn_ox_str_take(c, tn_b_unsq(&c->b, order, 0), &v, 1));
    v = tn_b_take(&c->b, v, order, 0);
  }
  v = tn_b_unsq(&c->b, v, 0);
  return tn_ox_ret(c, 0, elem == 8 ? tn_ox_str_print(c, v) : v);
}

tn_status tn_ox_ml_zip_map(tn_ox *c) {
  tn_ref x = tn_ox_in(c, 0);
  tn_ox_list keys = tn_ox_list_get(c, "classlabels");
  if (c->b.st != TN_OK) return c->b.st;
  if (!keys.s && !keys.i) return tn_ox_bad(c, "no class labels");
  tn_attr at = keys.s ? tn_ox_mk_strs(c, "keys", keys.s, keys.n) : tn_ox_mk_ints(c, "keys", keys.i, keys.n);
  tn_ref y = tn_ox_dyn(c, "zip_map", &x, 1, &at, 1, NULL, 1);
  TN_TRY(tn_ox_obj_note(c, y, (tn_ox_obj){.kind = TN_OX_K_SEQUENCE_MAP, .elem = (uint8_t)tn_ox_elem(c, x), .key_elem = (uint8_t)keys.elem, .rank = -1}, NULL));
  return tn_ox_ret(c, 0, y);
}

/* ---- arithmetic ---- */

tn_ref tn_ox_features(tn_ox *c, uint32_t k) {
  tn_ref x = tn_ox_in(c, k);
  return c->b.st != TN_OK || tn_b_dtype(&c->b, x) == TN_F64 ? x : tn_b_cast(&c->b, x, TN_F32);
}

tn_status tn_ox_ml_array_feature_extractor(tn_ox *c) {
  tn_ref x = tn_ox_in(c, 0), at = tn_ox_in(c, 1);
  if (c->b.st != TN_OK) return c->b.st;
  tn_dim dim[TN_MAX_RANK], n = tn_b_numel(&c->b, dim, tn_b_shape(&c->b, at, dim));
  if (tn_b_rank(&c->b, x) == 0) return tn_ox_bad(c, "a scalar has no features");
  if (tn_b_rank(&c->b, x) == 1) x = tn_b_unsq(&c->b, x, 0);
  return tn_ox_ret(c, 0, tn_b_take(&c->b, x, tn_b_reshape(&c->b, at, &n, 1), tn_b_rank(&c->b, x) - 1));
}

tn_status tn_ox_ml_binarizer(tn_ox *c) {
  tn_ref x = tn_ox_in(c, 0);
  if (c->b.st != TN_OK) return c->b.st;
  tn_dtype t = tn_b_dtype(&c->b, x);
  tn_ref y = tn_b_cast(&c->b, x, TN_F64);
  return tn_ox_ret(c, 0, tn_b_cast(&c->b, tn_b_2(&c->b, TN_OP_GT, t == TN_F32 ? x : y, tn_b_num(&c->b, tn_ox_float(c, "threshold", 0), t == TN_F32 ? TN_F32 : TN_F64)), t));
}

/* Attribute `name` along the last dim of x: one number or as many as features. */
static tn_ref per_feature(tn_ox *c, tn_ref x, const char *name, double def, tn_dtype t) {
  uint32_t n;
  const double *v = tn_ox_floats(c, name, &n);
  if (c->b.st != TN_OK) return x;
  tn_dim f = tn_b_rank(&c->b, x) ? tn_b_dim(&c->b, x, tn_b_rank(&c->b, x) - 1) : 1;
  if (n > 1 && tn_dim_is_const(f) && f != n) { tn_ox_bad(c, "%u of %s for %lld features", n, name, (long long)f); return x; }
  if (n <= 1) return tn_b_num(&c->b, n ? v[0] : def, t);
  tn_ox_list l = {.f = v, .n = n, .elem = 11};
  return tn_ox_const_list(c, &l, tn_ox_elem_of(t));
}

tn_status tn_ox_ml_scaler(tn_ox *c) {
  tn_ref x = tn_ox_features(c, 0);
  if (c->b.st != TN_OK) return c->b.st;
  tn_dtype t = tn_b_dtype(&c->b, x);
  tn_ref y = tn_b_2(&c->b, TN_OP_MUL, tn_b_2(&c->b, TN_OP_SUB, x, per_feature(c, x, "offset", 0, t)), per_feature(c, x, "scale", 1, t));
  return tn_ox_ret(c, 0, tn_b_cast(&c->b, y, TN_F32));
}

tn_status tn_ox_ml_normalizer(tn_ox *c) {
  tn_ref x = tn_ox_features(c, 0);
  const char *norm = tn_ox_str_attr(c, "norm", "MAX");
  if (c->b.st != TN_OK) return c->b.st;
  if (strcmp(norm, "MAX") && strcmp(norm, "L1") && strcmp(norm, "L2")) return tn_ox_bad(c, "norm '%.40s'", norm);
  int axis = tn_b_rank(&c->b, x) - 1;
  if (axis < 0) return tn_ox_bad(c, "a scalar has no norm");
  bool l2 = norm[1] == '2';
  tn_ref y = l2 ? tn_b_2(&c->b, TN_OP_MUL, x, x) : tn_b_1(&c->b, TN_OP_ABS, x);
  y = tn_b_reduce1(&c->b, norm[0] == 'M' ? TN_C_MAX : TN_C_SUM, y, axis, true);
  if (l2) y = tn_b_1(&c->b, TN_OP_SQRT, y);
  y = tn_b_2(&c->b, TN_OP_MAX, y, tn_b_num(&c->b, 1e-30, tn_b_dtype(&c->b, x)));   /* a row of zeros stays one */
  return tn_ox_ret(c, 0, tn_b_cast(&c->b, tn_b_2(&c->b, TN_OP_DIV, x, y), TN_F32));
}

tn_status tn_ox_ml_imputer(tn_ox *c) {
  tn_ref x = tn_ox_in(c, 0);
  tn_ox_list by = tn_ox_list_attr(c, "imputed_value_floats");
  bool fl = by.n > 0;
  if (!fl) by = tn_ox_list_attr(c, "imputed_value_int64s");
  if (c->b.st != TN_OK) return c->b.st;
  tn_dtype t = tn_b_dtype(&c->b, x);
  tn_dim f = tn_b_rank(&c->b, x) ? tn_b_dim(&c->b, x, tn_b_rank(&c->b, x) - 1) : 1;
  if (!by.n || (by.n > 1 && tn_dim_is_const(f) && f != by.n)) return tn_ox_bad(c, "%u values: wanted one, or as many as features", by.n);
  double what = fl ? tn_ox_float(c, "replaced_value_float", 0) : 0;
  tn_ref hit = fl && isnan(what) ? tn_b_1(&c->b, TN_OP_ISNAN, x)
                                 : tn_b_2(&c->b, TN_OP_EQ, x, fl ? tn_b_num(&c->b, what, t) : tn_b_int(&c->b, tn_ox_int(c, "replaced_value_int64", 0), t));
  tn_ref v = tn_ox_const_list(c, &by, tn_ox_elem_of(t));
  return tn_ox_ret(c, 0, tn_b_sel(&c->b, hit, by.n == 1 ? tn_b_sq(&c->b, v, 0) : v, x));
}

/* A vector counts as one row; each part is cut or filled with zeros to its size in inputdimensions. */
tn_status tn_ox_ml_feature_vectorizer(tn_ox *c) {
  uint32_t n;
  const int64_t *want = tn_ox_ints(c, "inputdimensions", &n);
  tn_ref *part = room(c, c->n_in, sizeof *part);
  if (c->b.st != TN_OK) return c->b.st;
  if (n != c->n_in) return tn_ox_bad(c, "%u inputdimensions for %u operands", n, c->n_in);
  for (uint32_t k = 0; k < n; k++) {
    tn_ref x = tn_b_cast(&c->b, tn_ox_in(c, k), TN_F32);
    if (c->b.st != TN_OK) return c->b.st;
    if (tn_b_rank(&c->b, x) == 1) x = tn_b_unsq(&c->b, x, 0);
    tn_dim f = tn_b_dim(&c->b, x, 1), none[2] = {0, 0}, more[2] = {0, want[k] - f};
    if (tn_b_rank(&c->b, x) != 2 || !tn_dim_is_const(f) || want[k] < 0) return tn_ox_unsup(c, "operand %u must be [N, C] with a constant C", k);
    tn_attr_val zero = {.kind = TN_AT_FLOAT};
    part[k] = f < want[k] ? tn_b_pad(&c->b, x, none, more, &zero) : tn_b_slice(&c->b, x, 1, 0, want[k], 1);
  }
  return tn_ox_ret(c, 0, tn_b_concat(&c->b, part, n, 1));
}

/* ---- score transforms ---- */

static tn_ref probit(tn_ox *c, tn_ref p) {                   /* sqrt(2) * erfinv(2p - 1) by Winitzki's formula, as onnx.reference has it */
  tn_decomp_ctx *b = &c->b;
  tn_dtype t = tn_b_dtype(b, p);
  tn_ref x = tn_b_addn(b, tn_b_muln(b, p, 2), -1), l = tn_b_2(b, TN_OP_SUB, tn_b_num(b, 1, t), tn_b_2(b, TN_OP_MUL, x, x));
  tn_ref mid = tn_b_2(b, TN_OP_EQ, l, tn_b_num(b, 0, t));
  l = tn_b_1(b, TN_OP_LOG, l);
  tn_ref v = tn_b_addn(b, tn_b_muln(b, l, 0.5), 2 / (3.141592653589793 * 0.147));
  tn_ref r = tn_b_1(b, TN_OP_SQRT, tn_b_2(b, TN_OP_SUB, tn_b_2(b, TN_OP_MUL, v, v), tn_b_muln(b, l, 1 / 0.147)));
  r = tn_b_1(b, TN_OP_SQRT, tn_b_2(b, TN_OP_SUB, r, v));
  r = tn_b_sel(b, tn_b_2(b, TN_OP_LT, x, tn_b_num(b, 0, t)), tn_b_1(b, TN_OP_NEG, r), r);
  return tn_b_muln(b, tn_b_sel(b, mid, tn_b_num(b, 0, t), r), 1.41421356);
}

static tn_ref softmax_zero(tn_ox *c, tn_ref x) {             /* scores that are 0 stay 0 */
  tn_decomp_ctx *b = &c->b;
  tn_dtype t = tn_b_dtype(b, x);
  tn_ref m = tn_b_reduce1(b, TN_C_MAX, x, 1, true), big = tn_b_2(b, TN_OP_GT, tn_b_1(b, TN_OP_ABS, x), tn_b_num(b, 1e-7, t));
  tn_ref e = tn_b_sel(b, big, tn_b_1(b, TN_OP_EXP, tn_b_2(b, TN_OP_SUB, x, m)), tn_b_2(b, TN_OP_MUL, x, tn_b_1(b, TN_OP_EXP, tn_b_1(b, TN_OP_NEG, m))));
  tn_ref s = tn_b_reduce1(b, TN_C_SUM, e, 1, true);
  return tn_b_sel(b, tn_b_2(b, TN_OP_EQ, s, tn_b_num(b, 0, t)), tn_b_num(b, 0.5, t), tn_b_2(b, TN_OP_DIV, e, s));
}

tn_ref tn_ox_post(tn_ox *c, tn_ref scores, const char *how) {
  if (c->b.st != TN_OK || !strcmp(how, "NONE")) return scores;
  if (!strcmp(how, "LOGISTIC")) return tn_b_1(&c->b, TN_OP_SIGMOID, scores);
  if (!strcmp(how, "SOFTMAX")) return tn_b_softmax(&c->b, scores, 1, false);
  if (!strcmp(how, "SOFTMAX_ZERO")) return softmax_zero(c, scores);
  if (!strcmp(how, "PROBIT")) return probit(c, scores);
  tn_ox_bad(c, "post_transform '%.40s'", how);
  return scores;
}

/* ---- n-grams: TfIdfVectorizer. Tokens become numbers by a lookup among those of the pool; DYN tfidf counts; weights are arithmetic. ---- */

typedef struct pool { tn_ox_list token; int64_t *id; const int64_t *start, *column; uint32_t n_start, n_column; int64_t unique; } pool;

/* Numbers of the pool's tokens: places among the different ones, in rising order. */
static tn_ox_list number_pool(tn_ox *c, pool *p) {
  uint32_t n = 0;
  int64_t *order = sorted(c, &p->token, &n);
  tn_ox_list u = p->token;
  p->id = room(c, p->token.n, sizeof *p->id);
  tn_ox_str *s = room(c, n, sizeof *s);
  int64_t *v = room(c, n, sizeof *v);
  if (c->b.st != TN_OK) return u;
  for (uint32_t i = 0; i < n; i++) {
    if (u.s) s[i] = u.s[order[i]];
    else v[i] = u.i[order[i]];
  }
  for (uint32_t i = 0; i < p->token.n; i++) {
    uint32_t lo = 0, hi = n;
    while (hi - lo > 1) {
      uint32_t mid = lo + (hi - lo) / 2;
      if (list_cmp(&p->token, order[mid], i) <= 0) lo = mid;
      else hi = mid;
    }
    p->id[i] = lo;
  }
  p->unique = n;
  return (tn_ox_list){.s = u.s ? s : NULL, .i = u.s ? NULL : v, .n = n, .elem = u.elem};
}

typedef struct gram_sort { const int64_t *id; int64_t len; } gram_sort;
static int gram_cmp(const void *user, int64_t a, int64_t b) {
  const gram_sort *g = user;
  for (int64_t k = 0; k < g->len; k++)
    if (g->id[a * g->len + k] != g->id[b * g->len + k]) return g->id[a * g->len + k] < g->id[b * g->len + k] ? -1 : 1;
  return 0;
}

/* Grams of one length, sorted, of equal ones the last: appended to out and column. */
static int64_t sort_grams(tn_ox *c, const int64_t *id, int64_t n, int64_t len, const int64_t *column, int64_t *out, int64_t *out_column) {
  gram_sort g = {id, len};
  int64_t *idx, kept = 0;
  if (!order_by(c, n, gram_cmp, &g, &idx)) return 0;
  for (int64_t i = 0; i < n; i++) {
    if (i + 1 < n && gram_cmp(&g, idx[i], idx[i + 1]) == 0) continue;
    memcpy(out + kept * len, id + idx[i] * len, (size_t)len * sizeof *out);
    out_column[kept++] = column[idx[i]];
  }
  return kept;
}

static tn_ref count_grams(tn_ox *c, tn_ref ids, const pool *p, int64_t min, int64_t max, int64_t size) {
  int64_t *gram = room(c, p->token.n, sizeof *gram), *column = room(c, p->n_column, sizeof *column), *count = room(c, p->n_start, sizeof *count);
  int64_t at = 0, done = 0, id = 0;
  if (c->b.st != TN_OK) return ids;
  for (uint32_t l = 0; l < p->n_start; l++) {
    int64_t lo = p->start[l], hi = l + 1 < p->n_start ? p->start[l + 1] : (int64_t)p->token.n, n = (hi - lo) / (l + 1);
    if (lo < 0 || hi < lo || hi > p->token.n || id + n > p->n_column) { tn_ox_bad(c, "ngram_counts and ngram_indexes do not fit a pool of %u", p->token.n); return ids; }
    if (l + 1 >= min && l + 1 <= max) {
      count[l] = sort_grams(c, p->id + lo, n, l + 1, p->column + id, gram + at, column + done);
      at += count[l] * (l + 1);
      done += count[l];
    }
    id += n;
  }
  tn_attr a[7] = {tn_ox_mk_ints(c, "counts", count, p->n_start), tn_ox_mk_ints(c, "grams", gram, (uint32_t)at), tn_ox_mk_ints(c, "column", column, (uint32_t)done),
                  tn_mk_int("min", min), tn_mk_int("max", max), tn_mk_int("skip", tn_ox_int(c, "max_skip_count", 0)), tn_mk_int("size", size)};
  tn_dim dim[TN_MAX_RANK];
  int rank = tn_b_shape(&c->b, ids, dim);
  if (rank > 2) { tn_ox_bad(c, "wanted [C] or [B, C], found rank %d", rank); return ids; }
  dim[rank == 2 ? 1 : 0] = size;
  tn_type t = tn_ox_type(c, TN_F32, rank == 2 ? 2 : 1, dim);
  return tn_ox_dyn(c, "tfidf", &ids, 1, a, 7, &t, 1);
}

tn_status tn_ox_tfidf_vectorizer(tn_ox *c) {
  tn_ref x = any_in(c, 0);
  pool p = {.token = tn_ox_list_attr(c, "pool_strings")};
  const char *mode = tn_ox_str_attr(c, "mode", "TF");
  int64_t min = tn_ox_int(c, "min_gram_length", 1), max = tn_ox_int(c, "max_gram_length", 1), size = 0;
  uint32_t n_w;
  if (!p.token.n) p.token = tn_ox_list_attr(c, "pool_int64s");
  p.start = tn_ox_ints(c, "ngram_counts", &p.n_start);
  p.column = tn_ox_ints(c, "ngram_indexes", &p.n_column);
  const double *w = tn_ox_floats(c, "weights", &n_w);
  if (c->b.st != TN_OK) return c->b.st;
  if (!p.token.n || !p.n_column || min < 1 || max < min) return tn_ox_bad(c, "a pool of %u tokens in %u columns, lengths %lld to %lld", p.token.n, p.n_column, (long long)min, (long long)max);
  for (uint32_t i = 0; i < p.n_column; i++) {
    if (p.column[i] < 0 || p.column[i] >= INT32_MAX) return tn_ox_bad(c, "ngram_indexes holds %lld", (long long)p.column[i]);
    if (p.column[i] >= size) size = p.column[i] + 1;
  }
  tn_ox_list keys = number_pool(c, &p);
  tn_ref f = count_grams(c, tn_ox_lookup(c, x, &keys), &p, min, max, size);
  bool idf = !strcmp(mode, "IDF"), both = !strcmp(mode, "TFIDF");
  if (!idf && !both && strcmp(mode, "TF")) return tn_ox_bad(c, "mode '%.40s'", mode);
  if (n_w && n_w < size) return tn_ox_bad(c, "%u weights for %lld columns", n_w, (long long)size);
  if (c->b.st == TN_OK && idf) f = tn_b_cast(&c->b, tn_b_2(&c->b, TN_OP_GT, f, tn_b_num(&c->b, 0, TN_F32)), TN_F32);
  if (c->b.st == TN_OK && (idf || both) && n_w) f = tn_b_2(&c->b, TN_OP_MUL, f, tn_ox_const_f32(c, w, 1, &size));
  return tn_ox_ret(c, 0, f);
}

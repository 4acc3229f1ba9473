/* dyn_view: views of operands, results and the sort behind dyn_int.h. */
#include "dyn_int.h"
#include <stdio.h>

tn_status tn_dv_run(tn_dyn_ctx *x, tn_status (*op)(tn_dyn_call *c)) {
  tn_arena tmp;
  tn_arena_init(&tmp);
  tn_dyn_call c = {.x = x, .tmp = &tmp, .in = x->in, .n_in = x->n_in};
  tn_status st = op(&c);
  for (uint32_t i = 0; i < c.n_held; i++) tn_value_release(c.held[i]);
  tn_arena_deinit(&tmp);
  return st;
}

tn_status tn_dv_fail(tn_dyn_call *c, tn_status st, const char *fmt, ...) {
  char text[400];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  return tn_fail(c->x->d, st, "%s: %s", c->x->name, text);
}

/* ---- operands ---- */

/* v with dense elements; a copy lives as long as the call. */
static tn_status dense(tn_dyn_call *c, tn_value *v, const tn_value **out) {
  *out = v;
  if (tn_value_is_dense(v)) return TN_OK;
  if (!TN_PUSH_ROOM(c->tmp, c->held, c->n_held, c->cap_held)) return tn_dv_fail(c, TN_E_NOMEM, "operands");
  tn_value *copy = tn_value_dense(c->x->values, v);
  if (!copy) return tn_dv_fail(c, TN_E_NOMEM, "a dense copy of %lld elements", (long long)v->n);
  c->held[c->n_held++] = copy;
  *out = copy;
  return TN_OK;
}

static tn_status strings_of(tn_dyn_call *c, const tn_value *v, tn_view *out) {
  tn_mstr *s = (uint64_t)v->n < UINT32_MAX ? TN_NEW(c->tmp, tn_mstr, v->n + 1) : NULL;
  if (!s) return tn_dv_fail(c, TN_E_NOMEM, "%lld strings", (long long)v->n);
  for (int64_t i = 0; i < v->n; i++) s[i].s = tn_value_string(v, (size_t)i, &s[i].n);
  out->p = (const uint8_t *)s;
  out->es = sizeof *s;
  out->dtype = TN_OBJ;
  return TN_OK;
}

tn_status tn_dv_view_of(tn_dyn_call *c, tn_value *x, tn_view *v) {
  char b[160];
  const tn_value *d = x;
  if (x->kind != TN_VALUE_TENSOR && x->kind != TN_VALUE_STRINGS) return tn_dv_fail(c, TN_E_ARG, "wanted a tensor, found %s", tn_value_text(x, b));
  *v = (tn_view){.elem = x->elem, .rank = x->t.rank, .dim = x->t.shape, .n = x->n};
  if (x->kind == TN_VALUE_STRINGS) { v->elem = TN_EL_STRING; return strings_of(c, x, v); }
  TN_TRY(dense(c, x, &d));
  v->p = d->t.data;
  v->dtype = d->t.dtype;
  v->es = tn_dtype_size((tn_dtype)d->t.dtype);
  return TN_OK;
}

tn_status tn_dv_view(tn_dyn_call *c, uint32_t k, tn_view *v) {
  if (!tn_dv_has(c, k)) return tn_dv_fail(c, TN_E_ARG, "operand %u is not there", k);
  TN_TRY_WHILE(c->x->d, tn_dv_view_of(c, c->in[k], v), "reading operand %u", k);
  return TN_OK;
}

static tn_status view_kind(tn_dyn_call *c, uint32_t k, bool str, tn_view *v) {
  char b[160];
  TN_TRY(tn_dv_view(c, k, v));
  if ((v->elem == TN_EL_STRING) != str) return tn_dv_fail(c, TN_E_ARG, "operand %u is %s, wanted %s", k, tn_value_text(c->in[k], b), str ? "strings" : "numbers");
  return TN_OK;
}
tn_status tn_dv_num(tn_dyn_call *c, uint32_t k, tn_view *v) { return view_kind(c, k, false, v); }
tn_status tn_dv_str(tn_dyn_call *c, uint32_t k, tn_view *v) { return view_kind(c, k, true, v); }

tn_status tn_dv_list(tn_dyn_call *c, uint32_t k, size_t *n) {
  char b[160];
  if (!tn_dv_has(c, k) || c->in[k]->kind != TN_VALUE_LIST)
    return tn_dv_fail(c, TN_E_ARG, "operand %u is %s, wanted a list", k, k < c->n_in ? tn_value_text(c->in[k], b) : "not there");
  *n = tn_value_n(c->in[k]);
  return TN_OK;
}

tn_status tn_dv_ints(tn_dyn_call *c, uint32_t k, const int64_t **p, int64_t *n) {
  tn_view v;
  char b[160];
  TN_TRY(tn_dv_num(c, k, &v));
  if (v.rank > 1 || tn_dtype_is_float((tn_dtype)v.dtype)) return tn_dv_fail(c, TN_E_ARG, "operand %u is %s, wanted integers in one dim", k, tn_value_text(c->in[k], b));
  int64_t *x = TN_NEW(c->tmp, int64_t, v.n + 1);
  if (!x) return tn_dv_fail(c, TN_E_NOMEM, "%lld integers", (long long)v.n);
  for (int64_t i = 0; i < v.n; i++) x[i] = tn_value_int(c->in[k], i);
  *p = x;
  *n = v.n;
  return TN_OK;
}

tn_status tn_dv_int1(tn_dyn_call *c, uint32_t k, int64_t *out) { return tn_dyn_int(c->x, k, out); }

int tn_mstr_cmp(tn_mstr a, tn_mstr b) {
  size_t n = a.n < b.n ? a.n : b.n;
  int s = n ? memcmp(a.s, b.s, n) : 0;
  return s ? (s < 0 ? -1 : 1) : (a.n > b.n) - (a.n < b.n);
}

int tn_view_cmp(const tn_view *v, int64_t a, int64_t b) {
  if (v->elem == TN_EL_STRING) return tn_mstr_cmp(tn_view_str(v)[a], tn_view_str(v)[b]);
  tn_num x = tn_view_num(v, a), y = tn_view_num(v, b);
  if (tn_dtype_is_float((tn_dtype)v->dtype)) {
    bool nx = x.f != x.f, ny = y.f != y.f;
    return nx || ny ? nx - ny : (x.f > y.f) - (x.f < y.f);
  }
  if (v->dtype == TN_U64) return ((uint64_t)x.i > (uint64_t)y.i) - ((uint64_t)x.i < (uint64_t)y.i);
  return (x.i > y.i) - (x.i < y.i);
}

tn_status tn_da_axis(tn_dyn_call *c, const char *name, int64_t def, int rank, int *out) {
  int64_t a = tn_da_int(c, name, def), r = rank > 0 ? rank : 1;
  if (a < -r || a >= r) return tn_dv_fail(c, TN_E_ARG, "%s %lld for rank %d", name, (long long)a, rank);
  *out = (int)(a < 0 ? a + r : a);
  return TN_OK;
}

/* ---- results ---- */

static tn_status numel(tn_dyn_call *c, int rank, const int64_t *dim, int64_t *n) {
  int64_t p = 1;
  bool empty = false, over = rank > TN_DYN_MAX_RANK;
  for (int i = 0; i < rank; i++) {
    if (dim[i] < 0) return tn_dv_fail(c, TN_E_ARG, "a result would have dim %lld", (long long)dim[i]);
    if (dim[i] == 0) empty = true;
    else over |= __builtin_mul_overflow(p, dim[i], &p);
  }
  if (over) return tn_dv_fail(c, TN_E_ARG, "a result of rank %d would have too many elements", rank);
  *n = empty ? 0 : p;
  return TN_OK;
}

/* Strings are gathered in scratch memory as pointers and lengths, numbers go where they will stay. */
static tn_status make(tn_dyn_call *c, int elem, int rank, const int64_t *dim, tn_made *m, tn_value **v) {
  *m = (tn_made){.elem = elem, .rank = rank};
  TN_TRY(numel(c, rank, dim, &m->n));
  int64_t *keep = TN_NEW(c->tmp, int64_t, rank + 1);
  if (!keep) return tn_dv_fail(c, TN_E_NOMEM, "a result");
  for (int i = 0; i < rank; i++) keep[i] = dim[i];
  m->dim = keep;
  *v = NULL;
  if (elem == TN_EL_STRING) {
    m->es = sizeof(tn_mstr);
    m->p = m->n < (1 << 30) ? (uint8_t *)TN_NEW(c->tmp, tn_mstr, m->n + 1) : NULL;
  } else {
    *v = tn_value_new(c->x->values, (uint32_t)elem, rank, dim);
    if (*v) { m->p = (*v)->t.data; m->es = tn_dtype_size((tn_dtype)(*v)->t.dtype); }
  }
  return m->p || *v ? TN_OK : tn_dv_fail(c, TN_E_NOMEM, "a result of %lld elements", (long long)m->n);
}

static tn_value *finish(tn_dyn_call *c, const tn_made *m) {
  const tn_mstr *s = (const tn_mstr *)(const void *)m->p;
  const char **p = TN_NEW(c->tmp, const char *, m->n + 1);
  size_t *n = TN_NEW(c->tmp, size_t, m->n + 1);
  if (!p || !n) return NULL;
  for (int64_t i = 0; i < m->n; i++) { p[i] = s[i].s ? s[i].s : ""; n[i] = s[i].n; }
  return tn_value_new_strings(c->x->values, p, n, m->rank, m->dim);
}

tn_status tn_dv_new(tn_dyn_call *c, int elem, int rank, const int64_t *dim, tn_made *m, uint32_t k) {
  tn_value *v;
  TN_TRY(make(c, elem, rank, dim, m, &v));
  return v ? tn_dyn_give(c->x, k, v) : TN_OK;
}
tn_status tn_dv_done(tn_dyn_call *c, tn_made *m, uint32_t k) { return m->elem == TN_EL_STRING ? tn_dyn_give(c->x, k, finish(c, m)) : TN_OK; }

tn_status tn_dv_ret(tn_dyn_call *c, uint32_t k, tn_value *v) { return tn_dyn_give(c->x, k, v); }
tn_status tn_dv_same(tn_dyn_call *c, uint32_t k, tn_value *v) {
  tn_value_retain(v);
  return tn_dyn_give(c->x, k, v);
}

tn_status tn_dv_made(tn_dyn_call *c, int elem, int rank, const int64_t *dim, tn_made *m, tn_value **v) { return make(c, elem, rank, dim, m, v); }
tn_status tn_dv_piece(tn_dyn_call *c, const tn_made *m, tn_value **v) {
  if (m->elem == TN_EL_STRING) *v = finish(c, m);
  return *v ? TN_OK : tn_dv_fail(c, TN_E_NOMEM, "strings of a list item");
}

/* ---- moving and sorting ---- */

void tn_move_row(uint8_t *out, const uint8_t *src, size_t es, int64_t n, int64_t stride) {
  if (stride == 1) { memcpy(out, src, (size_t)n * es); return; }
  int64_t step = stride * (int64_t)es;
  if (es == 4) for (int64_t i = 0; i < n; i++, out += 4, src += step) memcpy(out, src, 4);
  else for (int64_t i = 0; i < n; i++, out += es, src += step) memcpy(out, src, es);
}

void tn_sort_idx(int64_t *idx, int64_t *tmp, int64_t n, bool (*less)(const void *user, int64_t a, int64_t b), const void *user) {
  for (int64_t w = 1; w < n; w *= 2) {
    for (int64_t lo = 0; lo < n; lo += 2 * w) {
      int64_t mid = lo + w < n ? lo + w : n, hi = lo + 2 * w < n ? lo + 2 * w : n, a = lo, b = mid;
      for (int64_t k = lo; k < hi; k++) tmp[k] = a < mid && (b >= hi || !less(user, idx[b], idx[a])) ? idx[a++] : idx[b++];
    }
    memcpy(idx, tmp, (size_t)n * sizeof *idx);
  }
}

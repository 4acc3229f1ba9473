/* dyn_seq: lists and optionals. A list is never changed in place: an operator that changes one makes a new list that shares the items, which is
 * a pointer and a count per item. Positions count from the end when negative, as in Python. */
#include "dyn_int.h"

static tn_status list_of(tn_dyn_call *c, tn_value *const *item, size_t n) { return tn_dv_ret(c, 0, tn_value_new_list(c->x->values, item, n)); }

static tn_value **items(tn_dyn_call *c, const tn_value *list, size_t n, size_t extra) {
  tn_value **p = TN_NEW(c->tmp, tn_value *, n + extra + 1);
  for (size_t i = 0; p && i < n; i++) p[i] = tn_value_item(list, i);
  return p;
}

/* Operand k as a position in [0, n + past); left out: def. */
static tn_status position(tn_dyn_call *c, uint32_t k, size_t n, size_t past, int64_t def, size_t *out) {
  int64_t at = def;
  if (tn_dv_has(c, k)) TN_TRY(tn_dv_int1(c, k, &at));
  int64_t pos = at < 0 ? at + (int64_t)n : at;
  if (pos < 0 || pos >= (int64_t)(n + past)) return tn_dv_fail(c, TN_E_INDEX, "position %lld in a list of %zu", (long long)at, n);
  *out = (size_t)pos;
  return TN_OK;
}

TN_DYN_OP(SEQUENCE_EMPTY) { return list_of(c, NULL, 0); }

TN_DYN_OP(SEQUENCE_CONSTRUCT) {
  for (uint32_t k = 0; k < c->n_in; k++)
    if (!tn_dv_has(c, k)) return tn_dv_fail(c, TN_E_ARG, "item %u is not there", k);
  return list_of(c, c->in, c->n_in);
}

TN_DYN_OP(SEQUENCE_AT) {
  size_t n, at;
  TN_TRY(tn_dv_list(c, 0, &n));
  TN_TRY(position(c, 1, n, 0, 0, &at));
  return tn_dv_same(c, 0, tn_value_item(c->in[0], at));
}

TN_DYN_OP(SEQUENCE_INSERT) {
  size_t n, at;
  TN_TRY(tn_dv_list(c, 0, &n));
  if (!tn_dv_has(c, 1)) return tn_dv_fail(c, TN_E_ARG, "the item is not there");
  TN_TRY(position(c, 2, n, 1, (int64_t)n, &at));
  tn_value **p = items(c, c->in[0], n, 1);
  if (!p) return tn_dv_fail(c, TN_E_NOMEM, "a list of %zu", n + 1);
  memmove(p + at + 1, p + at, (n - at) * sizeof *p);
  p[at] = c->in[1];
  return list_of(c, p, n + 1);
}

TN_DYN_OP(SEQUENCE_ERASE) {
  size_t n, at;
  TN_TRY(tn_dv_list(c, 0, &n));
  TN_TRY(position(c, 1, n, 0, (int64_t)n - 1, &at));
  tn_value **p = items(c, c->in[0], n, 0);
  if (!p) return tn_dv_fail(c, TN_E_NOMEM, "a list of %zu", n);
  memmove(p + at, p + at + 1, (n - at - 1) * sizeof *p);
  return list_of(c, p, n - 1);
}

static tn_status scalar(tn_dyn_call *c, int elem, int64_t v) {
  tn_made m;
  TN_TRY(tn_dv_new(c, elem, 0, NULL, &m, 0));
  tn_num_store(elem == TN_EL_BOOL ? TN_BOOL : TN_I64, m.p, (tn_num){.i = v});
  return tn_dv_done(c, &m, 0);
}

TN_DYN_OP(SEQUENCE_LENGTH) {
  size_t n;
  TN_TRY(tn_dv_list(c, 0, &n));
  return scalar(c, TN_EL_I64, (int64_t)n);
}

TN_DYN_OP(OPTIONAL) { return tn_dv_has(c, 0) ? tn_dv_same(c, 0, c->in[0]) : tn_dv_ret(c, 0, tn_value_new_none(c->x->values)); }
TN_DYN_OP(OPTIONAL_HAS) { return scalar(c, TN_EL_BOOL, tn_dv_has(c, 0)); }
TN_DYN_OP(OPTIONAL_GET) {
  if (!tn_dv_has(c, 0)) return tn_dv_fail(c, TN_E_ARG, "the optional is empty");
  return tn_dv_same(c, 0, c->in[0]);
}

/* ---- lists from tensors and back. A tensor around `axis` is (outer, d, inner); its pieces are copied row by row. ---- */

static void around(const tn_view *v, int axis, int64_t *outer, int64_t *inner) {
  *outer = *inner = 1;
  for (int i = 0; i < axis; i++) *outer *= v->dim[i];
  for (int i = axis + 1; i < v->rank; i++) *inner *= v->dim[i];
}

static tn_status chunk(tn_dyn_call *c, const tn_view *v, int axis, int64_t lo, int64_t len, bool keep, tn_value **out) {
  int64_t dim[TN_DYN_MAX_RANK], outer, inner;
  int rank = 0;
  for (int i = 0; i < v->rank; i++)
    if (i != axis || keep) dim[rank++] = i == axis ? len : v->dim[i];
  around(v, axis, &outer, &inner);
  tn_made m;
  TN_TRY(tn_dv_made(c, v->elem, rank, dim, &m, out));
  size_t row = (size_t)(len * inner) * v->es, step = (size_t)(v->dim[axis] * inner) * v->es, at = (size_t)(lo * inner) * v->es;
  for (int64_t o = 0; row && o < outer; o++) memcpy(m.p + (size_t)o * row, v->p + (size_t)o * step + at, row);
  return tn_dv_piece(c, &m, out);
}

/* How long each piece is: operand 1 (one length for all but the last, or a list of them), or 1 each. */
static tn_status lengths(tn_dyn_call *c, int64_t d, const int64_t **len, int64_t *n, int64_t *each) {
  *len = NULL;
  *each = 1;
  *n = d;
  if (!tn_dv_has(c, 1)) return TN_OK;
  tn_view v;
  TN_TRY(tn_dv_num(c, 1, &v));
  TN_TRY(tn_dv_ints(c, 1, len, n));
  if (v.rank == 0) {
    *each = **len;
    *len = NULL;
    if (*each <= 0) return tn_dv_fail(c, TN_E_ARG, "pieces of length %lld", (long long)*each);
    *n = d / *each + (d % *each != 0);
    return TN_OK;
  }
  int64_t sum = 0;
  for (int64_t i = 0; i < *n; i++) {
    if ((*len)[i] < 0 || (*len)[i] > d - sum) return tn_dv_fail(c, TN_E_ARG, "piece %lld of length %lld where %lld of %lld are left", (long long)i, (long long)(*len)[i], (long long)(d - sum), (long long)d);
    sum += (*len)[i];
  }
  return sum == d ? TN_OK : tn_dv_fail(c, TN_E_ARG, "pieces sum to %lld, the axis has %lld", (long long)sum, (long long)d);
}

TN_DYN_OP(SPLIT_TO_SEQUENCE) {
  tn_view v;
  int axis;
  const int64_t *len;
  int64_t n, each, at = 0;
  TN_TRY(tn_dv_view(c, 0, &v));
  TN_TRY(tn_da_axis(c, "axis", 0, v.rank, &axis));
  if (v.rank == 0) return tn_dv_fail(c, TN_E_ARG, "a scalar has no axis to split");
  TN_TRY(lengths(c, v.dim[axis], &len, &n, &each));
  bool keep = tn_dv_has(c, 1) || tn_da_int(c, "keepdims", 1);
  tn_value **p = n < INT32_MAX ? TN_NEW(c->tmp, tn_value *, n + 1) : NULL;
  if (!p) return tn_dv_fail(c, TN_E_NOMEM, "a list of %lld", (long long)n);
  tn_status st = TN_OK;
  int64_t made = 0;
  for (; st == TN_OK && made < n; made++) {
    int64_t left = v.dim[axis] - at, l = len ? len[made] : each < left ? each : left;
    st = chunk(c, &v, axis, at, l, keep, &p[made]);
    at += l;
  }
  if (st == TN_OK) st = list_of(c, p, (size_t)n);
  for (int64_t i = 0; i < made; i++) tn_value_release(p[i]);   /* the list holds its own count */
  return st;
}

/* Adds operand `x` to the dims collected so far; all but `axis` must agree. */
static tn_status join(tn_dyn_call *c, const tn_view *first, const tn_view *x, size_t i, int axis) {
  bool same = x->elem == first->elem && x->rank == first->rank;
  for (int k = 0; same && k < x->rank; k++) same = k == axis || x->dim[k] == first->dim[k];
  return same ? TN_OK : tn_dv_fail(c, TN_E_ARG, "item %zu differs from item 0 in type or size", i);
}

TN_DYN_OP(CONCAT_FROM_SEQUENCE) {
  size_t n;
  TN_TRY(tn_dv_list(c, 0, &n));
  if (!n) return tn_dv_fail(c, TN_E_ARG, "an empty list has no concatenation");
  tn_view *v = TN_NEW(c->tmp, tn_view, n);
  if (!v) return tn_dv_fail(c, TN_E_NOMEM, "%zu items", n);
  for (size_t i = 0; i < n; i++) TN_TRY(tn_dv_view_of(c, tn_value_item(c->in[0], i), &v[i]));
  bool stack = tn_da_int(c, "new_axis", 0) != 0;
  int axis, rank = v[0].rank + stack;
  if (rank > TN_DYN_MAX_RANK) return tn_dv_fail(c, TN_E_UNSUPPORTED, "rank %d", rank);
  if (rank == 0) return tn_dv_fail(c, TN_E_ARG, "scalars have no axis to join");
  TN_TRY(tn_da_axis(c, "axis", 0, rank, &axis));
  int64_t dim[TN_DYN_MAX_RANK], outer = 1, total = 0;
  for (size_t i = 0; i < n; i++) {
    TN_TRY(join(c, &v[0], &v[i], i, stack ? -1 : axis));
    if (__builtin_add_overflow(total, stack ? 1 : v[i].dim[axis], &total)) return tn_dv_fail(c, TN_E_ARG, "the sum of sizes overflows");
  }
  for (int k = 0; k < rank; k++) dim[k] = k == axis ? total : v[0].dim[stack && k > axis ? k - 1 : k];
  for (int k = 0; k < axis; k++) outer *= dim[k];
  tn_made m;
  TN_TRY(tn_dv_new(c, v[0].elem, rank, dim, &m, 0));
  uint8_t *out = m.p;
  for (int64_t o = 0; m.n && o < outer; o++)
    for (size_t i = 0; i < n; i++) {
      size_t row = (size_t)(v[i].n / outer) * v[i].es;
      if (row) memcpy(out, v[i].p + (size_t)o * row, row);
      out += row;
    }
  return tn_dv_done(c, &m, 0);
}

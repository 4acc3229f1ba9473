/* dyn_move: operators whose result size only values tell: the places of nonzeros, chosen rows, unique elements, slices with computed bounds.
 * All but nonzero move elements by their size, so strings and any dtype go the same way. */
#include "dyn_int.h"

/* ---- nonzero ---- */

/* The bytes of an element as a number; host order is little-endian on every target. */
static inline uint64_t raw(const tn_view *v, int64_t i) {
  const uint8_t *p = v->p + (size_t)i * v->es;
  uint64_t x = 0;
  switch (v->es) {
    case 1: return *p;
    case 2: memcpy(&x, p, 2); break;
    case 4: memcpy(&x, p, 4); break;
    default: memcpy(&x, p, 8);
  }
  return x;
}
static inline bool is_set(const tn_view *v, int64_t i) {
  uint64_t x = raw(v, i);
  return (tn_dtype_is_float((tn_dtype)v->dtype) ? x << (64 - 8 * v->es + 1) : x) != 0;   /* without the sign: -0 is zero */
}

TN_DYN_OP(NONZERO) {
  tn_view v;
  TN_TRY(tn_dv_num(c, 0, &v));
  int64_t n = 0, at = 0, pos[TN_DYN_MAX_RANK] = {0};
  for (int64_t i = 0; i < v.n; i++) n += is_set(&v, i);
  tn_made m;
  TN_TRY(tn_dv_new(c, TN_EL_I64, 2, (int64_t[]){v.rank, n}, &m, 0));
  int64_t *out = (int64_t *)(void *)m.p;
  for (int64_t i = 0; i < v.n; i++) {
    if (is_set(&v, i)) {
      for (int k = 0; k < v.rank; k++) out[k * n + at] = pos[k];
      at++;
    }
    for (int k = v.rank - 1; k >= 0 && ++pos[k] == v.dim[k]; k--) pos[k] = 0;
  }
  return tn_dv_done(c, &m, 0);
}

/* ---- rows along an axis: a tensor as (outer, d, inner); axis left out: flattened ---- */

typedef struct rows { tn_view v; int axis, rank; int64_t dim[TN_DYN_MAX_RANK], outer, d, inner; uint64_t *key; } rows;

static tn_status rows_of(tn_dyn_call *c, rows *r) {
  TN_TRY(tn_dv_view(c, 0, &r->v));
  r->axis = 0;
  r->rank = 1;
  r->outer = r->inner = 1;
  r->key = NULL;
  r->d = r->dim[0] = r->v.n;
  if (!tn_da_has(c, "axis")) return TN_OK;
  TN_TRY(tn_da_axis(c, "axis", 0, r->v.rank, &r->axis));
  if (r->v.rank == 0) return TN_OK;
  r->rank = r->v.rank;
  for (int i = 0; i < r->rank; i++) {
    r->dim[i] = r->v.dim[i];
    if (i < r->axis) r->outer *= r->dim[i];
    if (i > r->axis) r->inner *= r->dim[i];
  }
  r->d = r->dim[r->axis];
  return TN_OK;
}

/* Result k: rows pick[0..n) of r, in that order. */
static tn_status pick_rows(tn_dyn_call *c, rows *r, const int64_t *pick, int64_t n, uint32_t k) {
  tn_made m;
  r->dim[r->axis] = n;
  TN_TRY(tn_dv_new(c, r->v.elem, r->rank, r->dim, &m, k));
  size_t row = (size_t)r->inner * r->v.es;
  uint8_t *out = m.p;
  for (int64_t o = 0; m.n && o < r->outer; o++)
    for (int64_t i = 0; i < n; i++, out += row) memcpy(out, r->v.p + (size_t)(o * r->d + pick[i]) * row, row);
  return tn_dv_done(c, &m, k);
}

TN_DYN_OP(COMPRESS) {
  rows r;
  tn_view cond;
  TN_TRY(rows_of(c, &r));
  TN_TRY(tn_dv_num(c, 1, &cond));
  int64_t *pick = TN_NEW(c->tmp, int64_t, cond.n + 1), n = 0;
  if (!pick) return tn_dv_fail(c, TN_E_NOMEM, "%lld conditions", (long long)cond.n);
  for (int64_t i = 0; i < cond.n; i++)
    if (is_set(&cond, i)) pick[n++] = i;
  if (n && pick[n - 1] >= r.d) return tn_dv_fail(c, TN_E_INDEX, "condition %lld is set, the axis has %lld", (long long)pick[n - 1], (long long)r.d);
  return pick_rows(c, &r, pick, n, 0);
}

/* ---- unique: sorts the numbers of the rows, so equal rows meet; a stable sort keeps their order of appearance ---- */

/* Rows of one number: numbers of the same order, NaN last, in place of looking at dtypes a million times. NULL = out of memory: the slow way. */
static uint64_t *keys_of(tn_dyn_call *c, const rows *r) {
  if (r->outer * r->inner != 1 || r->v.elem == TN_EL_STRING) return NULL;
  uint64_t *key = TN_NEW(c->tmp, uint64_t, r->d + 1), top = (uint64_t)1 << 63;
  for (int64_t i = 0; key && i < r->d; i++) {
    tn_num x = tn_view_num(&r->v, i);
    if (tn_dtype_is_float((tn_dtype)r->v.dtype)) {
      uint64_t b;
      x.f += 0.0;                                            /* -0 and 0 are one */
      memcpy(&b, &x.f, 8);
      key[i] = x.f != x.f ? UINT64_MAX : b & top ? ~b : b | top;
    } else key[i] = (uint64_t)x.i ^ (r->v.dtype == TN_U64 ? 0 : top);
  }
  return key;
}

static int row_cmp(const rows *r, int64_t a, int64_t b) {
  if (r->key) return (r->key[a] > r->key[b]) - (r->key[a] < r->key[b]);
  for (int64_t o = 0; r->v.n && o < r->outer; o++)
    for (int64_t i = 0; i < r->inner; i++) {
      int s = tn_view_cmp(&r->v, (o * r->d + a) * r->inner + i, (o * r->d + b) * r->inner + i);
      if (s) return s;
    }
  return 0;
}
static bool row_less(const void *user, int64_t a, int64_t b) { return row_cmp(user, a, b) < 0; }
static bool first_less(const void *user, int64_t a, int64_t b) { return ((const int64_t *)user)[a] < ((const int64_t *)user)[b]; }

static tn_status ret_ints(tn_dyn_call *c, uint32_t k, const int64_t *p, int64_t n) {
  tn_made m;
  TN_TRY(tn_dv_new(c, TN_EL_I64, 1, &n, &m, k));
  if (n) memcpy(m.p, p, (size_t)n * 8);
  return tn_dv_done(c, &m, k);
}

TN_DYN_OP(UNIQUE) {
  rows r;
  TN_TRY(rows_of(c, &r));
  int64_t n = r.d, n_u = 0, *w = n < (INT64_MAX / 64) ? TN_NEW(c->tmp, int64_t, 7 * n + 7) : NULL;
  if (!w) return tn_dv_fail(c, TN_E_NOMEM, "%lld rows", (long long)n);
  int64_t *idx = w, *tmp = w + n, *inverse = w + 2 * n, *first = w + 3 * n, *count = w + 4 * n, *order = w + 5 * n, *rank = w + 6 * n;
  r.key = keys_of(c, &r);
  for (int64_t i = 0; i < n; i++) idx[i] = i;
  tn_sort_idx(idx, tmp, n, row_less, &r);
  for (int64_t i = 0; i < n; i++) {
    if (i == 0 || row_cmp(&r, idx[i - 1], idx[i])) { order[n_u] = n_u; first[n_u] = idx[i]; count[n_u++] = 0; }
    inverse[idx[i]] = n_u - 1;
    count[n_u - 1]++;
  }
  if (!tn_da_int(c, "sorted", 1)) tn_sort_idx(order, tmp, n_u, first_less, first);
  for (int64_t i = 0; i < n_u; i++) { rank[order[i]] = i; idx[i] = first[order[i]]; tmp[i] = count[order[i]]; }
  for (int64_t i = 0; i < n; i++) inverse[i] = rank[inverse[i]];
  TN_TRY(pick_rows(c, &r, idx, n_u, 0));
  TN_TRY(ret_ints(c, 1, idx, n_u));
  TN_TRY(ret_ints(c, 2, inverse, n));
  return ret_ints(c, 3, tmp, n_u);
}

/* ---- slice ---- */

typedef struct cut { int64_t start, n, step; } cut;

/* ONNX's (and NumPy's) bounds: from the end when negative, then clamped. */
static cut cut_of(int64_t d, int64_t start, int64_t end, int64_t step) {
  bool back = step < 0;
  int64_t lo = back ? -1 : 0, hi = back ? d - 1 : d, mag = back ? (step == INT64_MIN ? INT64_MAX : -step) : step;
  if (start < 0) start += d;
  if (end < 0) end += d;
  start = start < 0 ? (back ? -1 : 0) : start > hi ? hi : start;
  end = end < lo ? lo : end > hi ? hi : end;
  int64_t len = back ? start - end : end - start;
  cut k = {start, len > 0 ? (len - 1) / mag + 1 : 0, step};
  return k;
}

static tn_status cuts_of(tn_dyn_call *c, const tn_view *v, cut *k) {
  const int64_t *start, *end, *axes = NULL, *step = NULL;
  int64_t n, m;
  bool seen[TN_DYN_MAX_RANK] = {false};
  for (int i = 0; i < v->rank; i++) k[i] = (cut){0, v->dim[i], 1};
  TN_TRY(tn_dv_ints(c, 1, &start, &n));
  TN_TRY(tn_dv_ints(c, 2, &end, &m));
  bool same = m == n;
  if (tn_dv_has(c, 3)) { TN_TRY(tn_dv_ints(c, 3, &axes, &m)); same &= m == n; }
  if (tn_dv_has(c, 4)) { TN_TRY(tn_dv_ints(c, 4, &step, &m)); same &= m == n; }
  if (!same || n > v->rank) return tn_dv_fail(c, TN_E_ARG, "%lld starts for rank %d; ends, axes and steps must be as many", (long long)n, v->rank);
  for (int64_t i = 0; i < n; i++) {
    int64_t a = axes ? axes[i] : i, s = step ? step[i] : 1;
    if (a < 0) a += v->rank;
    if (a < 0 || a >= v->rank || seen[a] || s == 0) return tn_dv_fail(c, TN_E_ARG, "axis %lld (rank %d, each once), step %lld", (long long)(axes ? axes[i] : i), v->rank, (long long)s);
    seen[a] = true;
    k[a] = cut_of(v->dim[a], start[i], end[i], s);
  }
  return TN_OK;
}

TN_DYN_OP(SLICE) {
  tn_view v;
  cut k[TN_DYN_MAX_RANK];
  int64_t dim[TN_DYN_MAX_RANK], pos[TN_DYN_MAX_RANK] = {0}, stride[TN_DYN_MAX_RANK], base = 0, s = 1;
  TN_TRY(tn_dv_view(c, 0, &v));
  TN_TRY(cuts_of(c, &v, k));
  tn_made m;
  for (int i = 0; i < v.rank; i++) dim[i] = k[i].n;
  TN_TRY(tn_dv_new(c, v.elem, v.rank, dim, &m, 0));
  if (m.n == 0) return tn_dv_done(c, &m, 0);
  for (int i = v.rank - 1; i >= 0; s *= v.dim[i--]) { base += k[i].start * s; stride[i] = k[i].n > 1 ? k[i].step * s : 0; }
  int last = v.rank - 1;
  int64_t row = v.rank ? dim[last] : 1;
  for (int64_t i = 0; i < m.n; i += row) {
    int64_t at = base;
    for (int q = 0; q < last; q++) at += pos[q] * stride[q];
    tn_move_row(m.p + (size_t)i * v.es, v.p + (size_t)at * v.es, v.es, row, v.rank ? stride[last] : 1);
    for (int q = last - 1; q >= 0 && ++pos[q] == dim[q]; q--) pos[q] = 0;
  }
  return tn_dv_done(c, &m, 0);
}

/* ---- a value that is declared to be a tensor ---- */
TN_DYN_OP(TO_TENSOR) {
  tn_view v;
  TN_TRY(tn_dv_view(c, 0, &v));
  int64_t rank = tn_da_int(c, "rank", -1), elem = tn_da_int(c, "elem", 0);
  if (rank >= 0 && rank != v.rank) return tn_dv_fail(c, TN_E_ARG, "a tensor of rank %d where the model says %lld", v.rank, (long long)rank);
  if (elem > 0 && elem != v.elem) return tn_dv_fail(c, TN_E_ARG, "element type %d where the model says %lld (ONNX numbers)", v.elem, (long long)elem);
  return tn_dv_same(c, 0, c->in[0]);
}

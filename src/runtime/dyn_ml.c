/* dyn_ml: the parts of ai.onnx.ml that are no arithmetic: keys looked up in sorted lists, maps, trees, n-grams, pairwise probabilities.
 *
 * The compiler brings every table into one form (keys sorted, trees as one array of nodes); here indices out of it are checked where they are
 * used, so a broken package gives an error and nothing is prepared per call. What can be arithmetic (labels from indices, score transforms,
 * kernels of support vector machines) is a plan around these operators. */
#include "dyn_int.h"
#include <math.h>

/* ---- lookup: place of each element in the sorted attribute `keys`, or the number of keys. NaN is the largest key. ---- */

typedef struct keys { const int64_t *i; const double *f; const tn_mstr *s; uint32_t n; } keys;

static int key_cmp(const keys *k, uint32_t at, const tn_view *x, int64_t i) {
  if (k->s) return tn_mstr_cmp(k->s[at], tn_view_str(x)[i]);
  if (k->i) { int64_t a = k->i[at], b = tn_view_num(x, i).i; return (a > b) - (a < b); }
  double a = k->f[at], b = tn_view_f64(x, i);
  return isnan(a) || isnan(b) ? !!isnan(a) - !!isnan(b) : (a > b) - (a < b);
}

TN_DYN_OP(LOOKUP) {
  tn_view x;
  keys k = {0};
  if (!(k.s = tn_da_strs(c, "keys", &k.n)) && !(k.i = tn_da_ints(c, "keys", &k.n))) k.f = tn_da_floats(c, "keys", &k.n);
  TN_TRY(tn_dv_view(c, 0, &x));
  if (k.n && (k.s != NULL) != (x.elem == TN_EL_STRING)) return tn_dv_fail(c, TN_E_ARG, "operand and keys differ in type");
  if (k.i && tn_dtype_is_float((tn_dtype)x.dtype)) return tn_dv_fail(c, TN_E_ARG, "integer keys for a tensor of floats");
  tn_made m;
  TN_TRY(tn_dv_new(c, TN_EL_I64, x.rank, x.dim, &m, 0));
  for (int64_t i = 0; i < x.n; i++) {
    uint32_t lo = 0, hi = k.n;
    while (lo < hi) {
      uint32_t mid = lo + (hi - lo) / 2;
      if (key_cmp(&k, mid, &x, i) < 0) lo = mid + 1;
      else hi = mid;
    }
    ((int64_t *)(void *)m.p)[i] = lo < k.n && key_cmp(&k, lo, &x, i) == 0 ? lo : k.n;
  }
  return tn_dv_done(c, &m, 0);
}

/* ---- maps ---- */

static tn_status half(tn_dyn_call *c, size_t which) {
  char b[160];
  if (!tn_dv_has(c, 0) || c->in[0]->kind != TN_VALUE_MAP) return tn_dv_fail(c, TN_E_ARG, "operand is %s, wanted a map", tn_value_text(c->in[0], b));
  return tn_dv_same(c, 0, tn_value_item(c->in[0], which));
}
TN_DYN_OP(MAP_KEYS) { return half(c, 0); }
TN_DYN_OP(MAP_VALUES) { return half(c, 1); }

static tn_value *labels(tn_dyn_call *c, uint32_t *n) {
  int64_t dim;
  const tn_mstr *s = tn_da_strs(c, "keys", n);
  const int64_t *i = s ? NULL : tn_da_ints(c, "keys", n);
  dim = *n;
  if (!s) {
    tn_value *v = tn_value_new(c->x->values, TN_EL_I64, 1, &dim);
    if (v && *n) memcpy(v->t.data, i, *n * sizeof *i);
    return v;
  }
  const char **p = TN_NEW(c->tmp, const char *, *n + 1);
  size_t *len = TN_NEW(c->tmp, size_t, *n + 1);
  for (uint32_t k = 0; p && len && k < *n; k++) { p[k] = s[k].s; len[k] = s[k].n; }
  return p && len ? tn_value_new_strings(c->x->values, p, len, 1, &dim) : NULL;
}

/* Rows of [N, C] (or one row [C]) become maps that share their keys. */
static tn_status zip(tn_dyn_call *c, const tn_view *x, tn_value *key, int64_t n, int64_t cols) {
  tn_value **row = n < INT32_MAX ? TN_NEW(c->tmp, tn_value *, n + 1) : NULL;
  if (!row) return tn_dv_fail(c, TN_E_NOMEM, "%lld maps", (long long)n);
  int64_t i = 0;
  bool ok = true;
  for (; ok && i < n; i++) {
    tn_value *v = tn_value_new(c->x->values, (uint32_t)x->elem, 1, &cols);
    if (v && cols) memcpy(v->t.data, x->p + (size_t)(i * cols) * x->es, (size_t)cols * x->es);
    row[i] = v ? tn_value_map(key, v) : NULL;
    ok = row[i] != NULL;
    tn_value_release(v);
  }
  tn_status st = ok ? tn_dv_ret(c, 0, tn_value_new_list(c->x->values, row, (size_t)n)) : tn_dv_fail(c, TN_E_NOMEM, "%lld maps", (long long)n);
  while (i-- > 0) tn_value_release(row[i]);
  return st;
}

TN_DYN_OP(ZIP_MAP) {
  tn_view x;
  uint32_t n_key;
  TN_TRY(tn_dv_num(c, 0, &x));
  if (x.rank < 1 || x.rank > 2) return tn_dv_fail(c, TN_E_ARG, "wanted [N, C] or [C], found rank %d", x.rank);
  tn_value *key = labels(c, &n_key);
  if (!key) return tn_dv_fail(c, TN_E_NOMEM, "keys");
  int64_t cols = x.dim[x.rank - 1];
  tn_status st = cols == n_key ? zip(c, &x, key, x.rank == 2 ? x.dim[0] : 1, cols) : tn_dv_fail(c, TN_E_ARG, "%lld columns for %u keys", (long long)cols, n_key);
  tn_value_release(key);
  return st;
}

/* ---- trees. `node` holds four numbers for each: feature * 16 + (NaN goes to yes) * 8 + mode; yes; no; the bits of the split as a double. A child below 0
 * is leaf -1 - child; leaf l owns leaf_lo[l] .. leaf_lo[l + 1] of (target, weight). Mode 6: a member of the set member_lo[n] .. member_lo[n + 1]. ---- */

enum { LEQ, LT, GTE, GT, EQ, NEQ, MEMBER };
enum { AVERAGE, SUM, MIN, MAX };
typedef struct tree_node { int64_t what, yes, no; double split; } tree_node;

typedef struct trees {
  const tree_node *node;
  const int64_t *root, *member_lo, *leaf_lo, *target;
  const double *member, *weight;
  uint32_t n_root, n_node, n_leaf_lo, n_pair, n_member, n_member_lo;
  int64_t n_target, aggregate, cols;
  tn_view x;
  tn_made *out;
  double *scratch;                   /* for each worker: a row as doubles, its sums */
  _Atomic int bad;
} trees;

static bool is_member(const trees *t, int64_t at, double x, bool *bad) {
  if (at + 1 >= t->n_member_lo || t->member_lo[at] < 0 || t->member_lo[at + 1] > t->n_member) return *bad = true;
  for (int64_t k = t->member_lo[at]; k < t->member_lo[at + 1]; k++)
    if (t->member[k] == x) return true;
  return false;
}

/* The leaf that a row reaches, or -1: a number out of its table, or a circle. */
static int64_t leaf_of(const trees *t, int64_t at, const double *row) {
  bool bad = false;
  for (uint32_t steps = 0; at >= 0; steps++) {
    if (at >= t->n_node || steps > t->n_node) return -1;
    const tree_node *n = &t->node[at];
    int64_t f = n->what >> 4;
    if (f < 0 || f >= t->cols) return -1;
    double x = row[f];
    bool yes;
    if (isnan(x)) yes = n->what & 8;
    else
      switch (n->what & 7) {
        case LEQ: yes = x <= n->split; break;
        case LT: yes = x < n->split; break;
        case GTE: yes = x >= n->split; break;
        case GT: yes = x > n->split; break;
        case EQ: yes = x == n->split; break;
        case NEQ: yes = x != n->split; break;
        default: yes = is_member(t, at, x, &bad);
      }
    at = yes ? n->yes : n->no;
  }
  int64_t leaf = -1 - at;
  return !bad && leaf < (int64_t)t->n_leaf_lo - 1 && t->leaf_lo[leaf] >= 0 && t->leaf_lo[leaf + 1] <= t->n_pair ? leaf : -1;
}

static bool one_row(const trees *t, int64_t row, double *x, double *acc) {
  tn_dtype to = t->out->elem == TN_EL_F64 ? TN_F64 : t->out->elem == TN_EL_F16 ? TN_F16 : TN_F32;
  double most = to == TN_F64 ? 1.7976931348623157e308 : to == TN_F16 ? 65504 : 3.4028234663852886e38, start = t->aggregate == MIN ? most : t->aggregate == MAX ? -most : 0;
  for (int64_t k = 0; k < t->cols; k++) x[k] = tn_view_f64(&t->x, row * t->cols + k);
  for (int64_t k = 0; k < t->n_target; k++) acc[k] = start;
  for (uint32_t r = 0; r < t->n_root; r++) {
    int64_t l = leaf_of(t, t->root[r], x);
    if (l < 0) return false;
    for (int64_t k = t->leaf_lo[l]; k < t->leaf_lo[l + 1]; k++) {
      if (t->target[k] < 0 || t->target[k] >= t->n_target) return false;
      double *a = &acc[t->target[k]], w = t->weight[k];
      if (t->aggregate == MIN) *a = w < *a ? w : *a;
      else if (t->aggregate == MAX) *a = w > *a ? w : *a;
      else *a += w;
    }
  }
  for (int64_t k = 0; k < t->n_target; k++) {
    tn_num v = {.f = t->aggregate == AVERAGE && t->n_root ? acc[k] / t->n_root : acc[k]};
    tn_num_store(to, t->out->p + (size_t)(row * t->n_target + k) * t->out->es, v);
  }
  return true;
}

static tn_status read_trees(tn_dyn_call *c, trees *t) {
  uint32_t n, n_weight;
  t->root = tn_da_ints(c, "roots", &t->n_root);
  t->node = (const tree_node *)(const void *)tn_da_ints(c, "node", &n);
  t->n_node = n / 4;
  t->member_lo = tn_da_ints(c, "member_lo", &t->n_member_lo);
  t->member = tn_da_floats(c, "member", &t->n_member);
  t->leaf_lo = tn_da_ints(c, "leaf_lo", &t->n_leaf_lo);
  t->target = tn_da_ints(c, "leaf_target", &t->n_pair);
  t->weight = tn_da_floats(c, "leaf_weight", &n_weight);
  t->n_target = tn_da_int(c, "n_targets", 1);
  t->aggregate = tn_da_int(c, "aggregate", SUM);
  if (n % 4 || n_weight != t->n_pair || t->n_target < 0 || t->n_target > INT32_MAX)
    return tn_dv_fail(c, TN_E_ARG, "%u numbers of nodes, %u leaf targets, %u weights, %lld targets", n, t->n_pair, n_weight, (long long)t->n_target);
  return TN_OK;
}

static void some_rows(void *user, int64_t lo, int64_t hi, int worker) {
  trees *t = user;
  double *x = t->scratch + (size_t)worker * (size_t)(t->cols + t->n_target);
  for (int64_t i = lo; i < hi; i++)
    if (!one_row(t, i, x, x + t->cols)) t->bad = 1;
}

TN_DYN_OP(TREE_ENSEMBLE) {
  trees t = {0};
  tn_made m;
  int64_t elem = tn_da_int(c, "elem", TN_EL_F32);
  TN_TRY(tn_dv_num(c, 0, &t.x));
  TN_TRY(read_trees(c, &t));
  if (t.x.rank != 2) return tn_dv_fail(c, TN_E_ARG, "wanted [N, F], found rank %d", t.x.rank);
  if (elem != TN_EL_F32 && elem != TN_EL_F64 && elem != TN_EL_F16) return tn_dv_fail(c, TN_E_ARG, "result type %lld", (long long)elem);
  TN_TRY(tn_dv_new(c, (int)elem, 2, (int64_t[]){t.x.dim[0], t.n_target}, &m, 0));
  if (m.n == 0) return TN_OK;
  size_t workers = c->x->pool ? (size_t)tn_pool_n_threads(c->x->pool) : 1;
  t.out = &m;
  t.cols = t.x.dim[1];
  t.scratch = t.cols < INT32_MAX ? TN_NEW(c->tmp, double, (size_t)(t.cols + t.n_target) * workers) : NULL;
  if (!t.scratch) return tn_dv_fail(c, TN_E_NOMEM, "%lld features, %lld targets", (long long)t.cols, (long long)t.n_target);
  tn_pool_run(c->x->pool, some_rows, &t, t.x.dim[0], 16);
  return t.bad ? tn_dv_fail(c, TN_E_INDEX, "a tree names a node, feature, leaf or target that is not there, or runs in a circle (%u nodes, %lld features)", t.n_node, (long long)t.cols) : TN_OK;
}

/* ---- class probabilities from pairwise ones: Wu, Lin, Weng 2004, second method. r[i,j] = probability of i against j. ---- */

static void couple(const double *r, int64_t k, double *q, double *qp, double *p) {
  for (int64_t i = 0; i < k; i++) {
    p[i] = 1.0 / (double)k;
    q[i * k + i] = 0;
    for (int64_t j = 0; j < k; j++)
      if (j != i) { q[i * k + i] += r[j * k + i] * r[j * k + i]; q[i * k + j] = -r[j * k + i] * r[i * k + j]; }
  }
  for (int64_t round = 0; round < (k > 100 ? k : 100); round++) {
    double pqp = 0, worst = 0;
    for (int64_t i = 0; i < k; i++) {
      qp[i] = 0;
      for (int64_t j = 0; j < k; j++) qp[i] += q[i * k + j] * p[j];
      pqp += p[i] * qp[i];
    }
    for (int64_t i = 0; i < k; i++) worst = fmax(worst, fabs(qp[i] - pqp));
    if (worst < 0.005 / (double)k) return;
    for (int64_t i = 0; i < k; i++) {
      double step = (pqp - qp[i]) / q[i * k + i], scale = 1 + step;
      pqp = (pqp + step * (step * q[i * k + i] + 2 * qp[i])) / (scale * scale);
      p[i] += step;
      for (int64_t j = 0; j < k; j++) { p[j] /= scale; qp[j] = (qp[j] + step * q[i * k + j]) / scale; }
    }
  }
}

TN_DYN_OP(SVM_PROBABILITY) {
  tn_view x;
  int64_t k = tn_da_int(c, "classes", 0);
  TN_TRY(tn_dv_num(c, 0, &x));
  if (k < 2 || k > 10000 || x.rank != 2 || x.dim[1] != k * (k - 1) / 2 || !tn_dtype_is_float((tn_dtype)x.dtype))
    return tn_dv_fail(c, TN_E_ARG, "wanted floats [N, pairs of %lld classes], found rank %d", (long long)k, x.rank);
  double *r = TN_NEW(c->tmp, double, 2 * k * k + 2 * k), *q = r + k * k, *p = q + k * k;
  tn_made m;
  if (!r) return tn_dv_fail(c, TN_E_NOMEM, "%lld classes", (long long)k);
  TN_TRY(tn_dv_new(c, x.elem, 2, (int64_t[]){x.dim[0], k}, &m, 0));
  for (int64_t n = 0; n < x.dim[0]; n++) {
    int64_t at = n * x.dim[1];
    for (int64_t i = 0; i < k; i++)
      for (int64_t j = i + 1; j < k; j++, at++) {
        r[i * k + j] = fmin(fmax(tn_view_f64(&x, at), 1e-7), 1 - 1e-7);
        r[j * k + i] = 1 - r[i * k + j];
      }
    couple(r, k, q, p + k, p);
    for (int64_t i = 0; i < k; i++) tn_num_store((tn_dtype)x.dtype, m.p + (size_t)(n * k + i) * m.es, (tn_num){.f = p[i]});
  }
  return TN_OK;
}

/* ---- n-grams: how often each of a sorted set occurs in a row of token numbers, with up to `skip` tokens left out between neighbours.
 * counts[l - 1] grams of length l stand in `grams`, shorter ones first, each length sorted; `column` says where a gram is counted. ---- */

typedef struct ngrams { const int64_t *count, *gram, *column; uint32_t n_len, n_gram, n_column; int64_t min, max, skip, size; } ngrams;

/* Number of the gram x[0], x[step], ... of length len among n in g, or -1. */
static int64_t gram_find(const int64_t *g, int64_t n, int64_t len, const int64_t *x, int64_t step) {
  int64_t lo = 0, hi = n;
  while (lo < hi) {
    int64_t mid = lo + (hi - lo) / 2, k = 0;
    while (k < len && g[mid * len + k] == x[k * step]) k++;
    if (k == len) return mid;
    if (g[mid * len + k] < x[k * step]) lo = mid + 1;
    else hi = mid;
  }
  return -1;
}

static tn_status ngram_row(tn_dyn_call *c, const ngrams *g, const int64_t *x, int64_t n, float *out) {
  int64_t first = 0, first_column = 0;
  for (int64_t len = 1; len <= g->n_len && len <= g->max; first += g->count[len - 1] * len, first_column += g->count[len - 1], len++) {
    if (len < g->min) continue;
    for (int64_t step = 1; step <= (len == 1 ? 1 : g->skip + 1) && (len == 1 || step <= (n - 1) / (len - 1)); step++)
      for (int64_t i = 0; i + (len - 1) * step < n; i++) {
        int64_t k = gram_find(g->gram + first, g->count[len - 1], len, x + i, step), at = k < 0 ? -1 : g->column[first_column + k];
        if (k >= 0 && (at < 0 || at >= g->size)) return tn_dv_fail(c, TN_E_INDEX, "column %lld of %lld", (long long)at, (long long)g->size);
        if (k >= 0) out[at] += 1;
      }
  }
  return TN_OK;
}

static tn_status read_ngrams(tn_dyn_call *c, ngrams *g) {
  int64_t items = 0, columns = 0;
  g->count = tn_da_ints(c, "counts", &g->n_len);
  g->gram = tn_da_ints(c, "grams", &g->n_gram);
  g->column = tn_da_ints(c, "column", &g->n_column);
  g->min = tn_da_int(c, "min", 1);
  g->max = tn_da_int(c, "max", 1);
  g->skip = tn_da_int(c, "skip", 0);
  g->size = tn_da_int(c, "size", 0);
  for (uint32_t l = 0; l < g->n_len; l++) {
    if (g->count[l] < 0 || g->count[l] > g->n_column) return tn_dv_fail(c, TN_E_ARG, "%lld grams of length %u", (long long)g->count[l], l + 1);
    columns += g->count[l];
    items += g->count[l] * (l + 1);
    if (items > g->n_gram) break;
  }
  if (items > g->n_gram || columns > g->n_column || g->min < 1 || g->skip < 0 || g->skip == INT64_MAX)
    return tn_dv_fail(c, TN_E_ARG, "%lld grams need %lld tokens, there are %u; lengths from %lld, skip %lld", (long long)columns, (long long)items, g->n_gram, (long long)g->min, (long long)g->skip);
  return TN_OK;
}

TN_DYN_OP(TFIDF) {
  tn_view x;
  ngrams g;
  tn_made m;
  TN_TRY(tn_dv_num(c, 0, &x));
  TN_TRY(read_ngrams(c, &g));
  if (x.rank > 2 || x.dtype != TN_I64) return tn_dv_fail(c, TN_E_ARG, "wanted i64 [C] or [B, C], found rank %d", x.rank);
  int64_t rows = x.rank == 2 ? x.dim[0] : 1, cols = x.rank ? x.dim[x.rank - 1] : 1;
  TN_TRY(tn_dv_new(c, TN_EL_F32, x.rank == 2 ? 2 : 1, x.rank == 2 ? (int64_t[]){rows, g.size} : &g.size, &m, 0));
  if (m.n) memset(m.p, 0, (size_t)m.n * m.es);
  for (int64_t i = 0; x.n && i < rows; i++) TN_TRY(ngram_row(c, &g, (const int64_t *)(const void *)x.p + i * cols, cols, (float *)(void *)m.p + i * g.size));
  return tn_dv_done(c, &m, 0);
}

/* sort and topk along one dim.
 *
 * Every element is mapped to an unsigned key whose order is the wanted order: floats by flipping sign bits, -0 with 0, every
 * NaN above +inf; a descending order complements the key. Then values of all dtypes are sorted by the same code, and equal
 * keys keep their order, so the result is stable both ways (torch.sort with stable=True; NaN counts as largest).
 * Rows are gathered, sorted as (key, place) pairs, and the elements copied by place, so payloads such as -0 survive.
 * Short rows: insertion sort. Long ones: radix sort by bytes, skipping bytes that are the same everywhere.
 * topk keeps the k best in a heap (ties: lower place first) and hands them out sorted; few elements get that far, so it looks
 * at a block of keys at once and passes over blocks that are all too late.
 * Rows are shared out over the pool; each piece of work gets its own room. Making and comparing keys is compiled once per
 * instruction set and chosen at run time; code is kept small, as it is part of every run time. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3", "no-tree-slp-vectorize") /* vectors for keys */
#endif
#include "kernels/kernels_int.h"
#include <stdatomic.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
enum {
  SOME = 128,  /* elements whose keys are made at a time */
  BLOCK = 16,  /* keys that topk passes over at once */
  SHARE = 4096 /* elements that a thread should get at once: below, a fork is not worth it */
};
typedef struct pair {
  uint64_t key;
  int64_t at;
} pair;

/* sign-magnitude bits of a float of `bits` bits -> order-preserving unsigned; both zeros are `sign` */
INLINE uint64_t float_key(uint64_t u, int bits, uint64_t inf) {
  uint64_t sign = (uint64_t)1 << (bits - 1), mag = u & (sign - 1);
  uint64_t key = u & sign ? sign - mag : sign + mag;
  return mag > inf ? sign + inf + 1 : key; /* any NaN */
}
/* Whole blocks as vectors; ends, and what lies apart, one by one: the empty statement keeps them from becoming vectors too. */
#define KEYS(T, expr)                                                                                                                      \
  do {                                                                                                                                     \
    const T *p = (const T *)tn_k_at(t, first);                                                                                             \
    int64_t k = 0;                                                                                                                         \
    if (step == 1)                                                                                                                         \
      for (; k + BLOCK <= n; k += BLOCK)                                                                                                   \
        for (int64_t e = 0; e < BLOCK; e++) {                                                                                              \
          T x = p[k + e];                                                                                                                  \
          key[k + e] = (expr) ^ flip;                                                                                                      \
        }                                                                                                                                  \
    for (; k < n; k++) {                                                                                                                   \
      T x = p[k * step];                                                                                                                   \
      key[k] = (expr) ^ flip;                                                                                                              \
      __asm__ volatile("");                                                                                                                \
    }                                                                                                                                      \
  } while (0)
/* key[k] of element first + k * step, k < n. Floats are read as their bits. */
INLINE void keys_of(const tn_tensor *t, int64_t first, int64_t step, int64_t n, uint64_t flip, uint64_t *restrict key) {
  const uint64_t top = (uint64_t)1 << 63;
  switch ((tn_dtype)t->dtype) {
    case TN_F32: KEYS(uint32_t, float_key(x, 32, 0x7f800000u)); break;
    case TN_F64: KEYS(uint64_t, float_key(x, 64, 0x7ff0000000000000u)); break;
    case TN_F16: KEYS(uint16_t, float_key(x, 16, 0x7c00u)); break;
    case TN_BF16: KEYS(uint16_t, float_key(x, 16, 0x7f80u)); break;
    case TN_I64: KEYS(int64_t, (uint64_t)x ^ top); break;
    case TN_I32: KEYS(int32_t, (uint64_t)x ^ top); break;
    case TN_I16: KEYS(int16_t, (uint64_t)x ^ top); break;
    case TN_I8: KEYS(int8_t, (uint64_t)x ^ top); break;
    case TN_U64: KEYS(uint64_t, x); break;
    case TN_U32: KEYS(uint32_t, (uint64_t)x); break;
    case TN_U16: KEYS(uint16_t, (uint64_t)x); break;
    default: KEYS(uint8_t, (uint64_t)x); break; /* u8, bool */
  }
}
/* Is one of BLOCK keys below the limit? */
INLINE bool any_early(const uint64_t *key, uint64_t limit) {
  uint64_t early = 0;
  for (int64_t e = 0; e < BLOCK; e++) early += key[e] < limit;
  return early != 0;
}

/* ---- one copy per instruction set ---- */
typedef struct isa {
  void (*keys)(const tn_tensor *t, int64_t first, int64_t step, int64_t n, uint64_t flip, uint64_t *restrict key);
  bool (*early)(const uint64_t *key, uint64_t limit);
} isa;
#define DEFINE_ISA(name, attribute)                                                                                                        \
  attribute static void keys_##name(const tn_tensor *t, int64_t first, int64_t step, int64_t n, uint64_t flip, uint64_t *restrict key) {   \
    keys_of(t, first, step, n, flip, key);                                                                                                 \
  }                                                                                                                                        \
  attribute static bool early_##name(const uint64_t *key, uint64_t limit) { return any_early(key, limit); }                                \
  static const isa isa_##name = {keys_##name, early_##name};
#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
DEFINE_ISA(base, __attribute__((optimize("Os")))) /* nothing of Tenon runs below AVX2 there */
#else
DEFINE_ISA(base, )
#endif
DEFINE_ISA(avx2, __attribute__((target("avx2"))))
DEFINE_ISA(avx512, __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2"))))
static const isa *const isas[TN_K_N_ISAS] = {&isa_base, &isa_avx2, &isa_avx512};
#else
DEFINE_ISA(base, )
static const isa *const isas[TN_K_N_ISAS] = {&isa_base, &isa_base, &isa_base};
#endif

/* v[k] = key of element first + k * step, and its place k; k < n. */
static void make_pairs(const isa *with, const tn_tensor *t, int64_t first, int64_t step, int64_t n, uint64_t flip, pair *v) {
  for (int64_t at = 0; at < n; at += SOME) {
    uint64_t key[SOME];
    int64_t some = n - at < SOME ? n - at : SOME;
    with->keys(t, first + at * step, step, some, flip, key);
    for (int64_t k = 0; k < some; k++) v[at + k] = (pair){key[k], at + k};
  }
}

static void insertion_sort(pair *v, int64_t n) {
  for (int64_t i = 1; i < n; i++) {
    pair x = v[i];
    int64_t j = i;
    for (; j > 0 && v[j - 1].key > x.key; j--) v[j] = v[j - 1];
    v[j] = x;
  }
}
/* Sorts v[n]; w[n] is room. The result is in v. */
static void radix_sort(pair *v, pair *w, int64_t n) {
  uint64_t all_or = 0, all_and = UINT64_MAX;
  pair *from = v, *to = w;
  for (int64_t i = 0; i < n; i++) {
    all_or |= v[i].key;
    all_and &= v[i].key;
  }
  for (int shift = 0; shift < 64; shift += 8) {
    int64_t start[257] = {0};
    if (((all_or ^ all_and) >> shift & 255) == 0) continue;
    for (int64_t i = 0; i < n; i++) start[(from[i].key >> shift & 255) + 1]++;
    for (int b = 0; b < 256; b++) start[b + 1] += start[b];
    for (int64_t i = 0; i < n; i++) to[start[from[i].key >> shift & 255]++] = from[i];
    pair *t = from;
    from = to;
    to = t;
  }
  if (from != v) memcpy(v, from, (size_t)n * sizeof *v);
}
static void sort_pairs(pair *v, pair *w, int64_t n) {
  if (n <= 48)
    insertion_sort(v, n);
  else
    radix_sort(v, w, n);
}

/* Results number k of a row: element and place. */
static void put(const tn_tensor *in, int64_t first, int64_t step, const pair *v, tn_tensor *values, tn_tensor *idx, int64_t to) {
  memcpy(tn_k_at(values, to), tn_k_at(in, first + v->at * step), tn_dtype_size((tn_dtype)in->dtype));
  ((int64_t *)idx->data)[to] = v->at;
}

/* One call, as threads see it. */
typedef struct job {
  const tn_tensor *in;
  tn_tensor *values, *idx;
  int64_t n, k, inner; /* elements of a row; of them wanted; distance between neighbours of a row */
  uint64_t flip;
  const isa *with;
  atomic_bool nomem;
} job;

static void sort_rows(void *ctx, int64_t lo, int64_t hi, int worker) {
  job *j = ctx;
  (void)worker;
  int64_t n = j->n, inner = j->inner;
  pair *v = tn_malloc(2 * (size_t)n * sizeof *v);
  if (!v) atomic_store(&j->nomem, true);
  for (int64_t r = lo; v && r < hi; r++) {
    int64_t first = r / inner * n * inner + r % inner;
    make_pairs(j->with, j->in, first, inner, n, j->flip, v);
    sort_pairs(v, v + n, n);
    for (int64_t k = 0; k < n; k++) put(j->in, first, inner, &v[k], j->values, j->idx, first + k * inner);
  }
  tn_free(v);
}
static bool later(const pair *a, const pair *b) { return a->key != b->key ? a->key > b->key : a->at > b->at; }
/* heap[n] with the latest pair on top; puts x at `i` and lets it sink. */
static void sink(pair *heap, int64_t n, int64_t i, pair x) {
  for (;;) {
    int64_t c = 2 * i + 1;
    if (c >= n) break;
    if (c + 1 < n && later(&heap[c + 1], &heap[c])) c++;
    if (!later(&heap[c], &x)) break;
    heap[i] = heap[c];
    i = c;
  }
  heap[i] = x;
}

static void topk_rows(void *ctx, int64_t lo, int64_t hi, int worker) {
  job *j = ctx;
  (void)worker;
  const tn_tensor *in = j->in;
  int64_t n = j->n, k = j->k, inner = j->inner;
  pair *heap = tn_malloc((size_t)k * sizeof *heap);
  if (!heap) atomic_store(&j->nomem, true);
  for (int64_t r = lo; heap && r < hi; r++) {
    int64_t o = r / inner, i = r % inner, first = o * n * inner + i;
    make_pairs(j->with, in, first, inner, k, j->flip, heap);
    for (int64_t e = k / 2 - 1; e >= 0; e--) sink(heap, k, e, heap[e]);
    for (int64_t at = k; at < n; at += SOME) {
      uint64_t key[SOME];
      int64_t some = n - at < SOME ? n - at : SOME;
      j->with->keys(in, first + at * inner, inner, some, j->flip, key);
      for (int64_t e = some; e % BLOCK; e++) key[e] = UINT64_MAX;
      for (int64_t b = 0; b < some; b += BLOCK) {
        if (!j->with->early(key + b, heap[0].key)) continue;
        for (int64_t e = b; e < b + BLOCK; e++) /* a later place never beats an equal key */
          if (key[e] < heap[0].key) sink(heap, k, 0, (pair){key[e], at + e});
      }
    }
    for (int64_t e = k - 1; e >= 0; e--) { /* the latest goes last */
      pair top = heap[0];
      sink(heap, e, 0, heap[e]);
      put(in, first, inner, &top, j->values, j->idx, (o * k + e) * inner + i);
    }
  }
  tn_free(heap);
}

static tn_status run(tn_pool *pool, tn_pool_fn fn, job *j) {
  int64_t rows = tn_k_numel(j->in) / j->n;
  tn_pool_run(pool, fn, j, rows, j->n >= SHARE ? 1 : SHARE / j->n);
  return atomic_load(&j->nomem) ? TN_E_NOMEM : TN_OK;
}

/* values[o, k, i], idx[o, k, i] = k-th of in[o, :, i] and where it stood. Source: torch.sort. */
tn_status tn_k_sort(tn_pool *pool, const tn_tensor *in, int dim, bool descending, tn_tensor *out_values, tn_tensor *out_idx) {
  job j = {in, out_values, out_idx, in->rank ? in->shape[dim] : 1, 0, tn_k_span(in, dim + 1, in->rank), descending ? UINT64_MAX : 0, isas[tn_k_best_isa()], false};
  if (tn_k_numel(in) == 0) return TN_OK;
  if ((uint64_t)j.n > SIZE_MAX / (2 * sizeof(pair))) return TN_E_NOMEM;
  return run(pool, sort_rows, &j);
}

/* values[o, j, i], idx[o, j, i] = j-th largest (smallest) of in[o, :, i], j < k, sorted. Source: torch.topk. */
tn_status tn_k_topk(tn_pool *pool, const tn_tensor *in, int64_t k, int dim, bool largest, tn_tensor *out_values, tn_tensor *out_idx) {
  job j = {in, out_values, out_idx, in->rank ? in->shape[dim] : 1, k, tn_k_span(in, dim + 1, in->rank), largest ? UINT64_MAX : 0, isas[tn_k_best_isa()], false};
  if (k == 0 || tn_k_numel(in) == 0) return TN_OK;
  if ((uint64_t)k > SIZE_MAX / sizeof(pair)) return TN_E_NOMEM;
  return run(pool, topk_rows, &j);
}

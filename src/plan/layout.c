/* Arena offsets from life times. The largest buffer goes first, each to the lowest gap between the already placed buffers
 * that are alive with it. (Greedy by size: Pisarchyk & Lee, "Efficient Memory Management for Deep Neural Net Inference",
 * 2020, section 5.) Neighbours in time are found through an implicit tree over the buffers sorted by first step, each
 * node knowing the latest last step below it; so cost is O(n log n + overlaps), also for symbolic plans that lay out anew
 * at each change of sizes. A buffer is alive in both its end steps: input and result of one step never share memory. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O2") /* the room is built for size; this is in every change of sizes */
#endif
#include <inttypes.h>
#include <stdlib.h>
#include "plan/plan.h"

typedef struct item { int64_t bytes, offset; uint32_t buf, first, last; bool placed; } item;
typedef struct span { int64_t lo, hi; } span;
typedef struct finder {
  item *it;          /* by first step */
  uint32_t *latest;  /* heap-shaped: latest[node] over its half-open range */
  span *hit;
  uint32_t n_hit;
} finder;

static int by_first(const void *pa, const void *pb) {
  const item *a = pa, *b = pb;
  if (a->first != b->first) return a->first < b->first ? -1 : 1;
  return a->buf < b->buf ? -1 : a->buf > b->buf;
}

static int by_offset(const void *pa, const void *pb) {
  const span *a = pa, *b = pb;
  return a->lo < b->lo ? -1 : a->lo > b->lo;
}

typedef struct order { int64_t bytes; uint32_t at; } order;
static int by_size(const void *pa, const void *pb) {
  const order *a = pa, *b = pb;
  if (a->bytes != b->bytes) return a->bytes > b->bytes ? -1 : 1;
  return a->at < b->at ? -1 : a->at > b->at;
}

static uint32_t build(finder *f, uint32_t node, uint32_t lo, uint32_t hi) {
  uint32_t v;
  if (hi - lo == 1) {
    v = f->it[lo].last;
  } else {
    uint32_t mid = lo + (hi - lo) / 2;
    uint32_t a = build(f, 2 * node, lo, mid), b = build(f, 2 * node + 1, mid, hi);
    v = a > b ? a : b;
  }
  return f->latest[node] = v;
}

/* Gathers the placed buffers alive together with q. */
static void find(finder *f, uint32_t node, uint32_t lo, uint32_t hi, const item *q) {
  if (f->latest[node] < q->first || f->it[lo].first > q->last) return;
  if (hi - lo == 1) {
    if (f->it[lo].placed && f->it[lo].bytes) f->hit[f->n_hit++] = (span){f->it[lo].offset, f->it[lo].offset + f->it[lo].bytes};
    return;
  }
  uint32_t mid = lo + (hi - lo) / 2;
  find(f, 2 * node, lo, mid, q);
  find(f, 2 * node + 1, mid, hi, q);
}

size_t tn_plan_layout_scratch(const tn_plan *p) {
  return (size_t)p->n_buf * (sizeof(item) + sizeof(span) + sizeof(order) + 4 * sizeof(uint32_t)) + 256;
}

static tn_status place(tn_diag *d, const tn_plan *p, const int64_t *v, int64_t *offset, int64_t *total, tn_arena *scratch) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < p->n_buf; i++) n += p->buf[i].kind == TN_PB_ARENA;
  if (n == 0) return TN_OK;
  item *it = TN_NEW(scratch, item, n);
  finder f = {it, TN_NEW(scratch, uint32_t, 4 * (size_t)n), TN_NEW(scratch, span, n), 0};
  order *ord = TN_NEW(scratch, order, n);
  if (!it || !f.latest || !f.hit || !ord) return tn_fail(d, TN_E_NOMEM, "layout of %u buffers", n);
  uint32_t k = 0;
  for (uint32_t i = 0; i < p->n_buf; i++) {
    const tn_pbuf *b = &p->buf[i];
    if (b->kind != TN_PB_ARENA) continue;
    int64_t bytes = tn_pd(v, b->bytes);
    if (bytes < 0 || bytes > INT64_MAX - 63) return tn_fail(d, TN_E_ARG, "buffer %u wants %" PRId64 " bytes", i, bytes);
    it[k++] = (item){(bytes + 63) & ~(int64_t)63, 0, i, b->first, b->last, false};
  }
  qsort(it, n, sizeof *it, by_first);
  build(&f, 1, 0, n);
  for (uint32_t i = 0; i < n; i++) ord[i] = (order){it[i].bytes, i};
  qsort(ord, n, sizeof *ord, by_size);
  for (uint32_t i = 0; i < n; i++) {
    item *q = &it[ord[i].at];
    int64_t at = 0;
    if (q->bytes) {
      f.n_hit = 0;
      find(&f, 1, 0, n, q);
      qsort(f.hit, f.n_hit, sizeof *f.hit, by_offset);
      for (uint32_t h = 0; h < f.n_hit; h++) {
        if (f.hit[h].lo - at >= q->bytes) break;
        if (f.hit[h].hi > at) at = f.hit[h].hi;
      }
    }
    if (at > INT64_MAX - q->bytes) return tn_fail(d, TN_E_ARG, "the arena of the plan overflows at buffer %u (%" PRId64 " bytes)", q->buf, q->bytes);
    q->offset = offset[q->buf] = at;
    q->placed = true;
    if (at + q->bytes > *total) *total = at + q->bytes;
  }
  return TN_OK;
}

tn_status tn_plan_layout(tn_diag *d, const tn_plan *p, const int64_t *expr_values, int64_t *offset, int64_t *out_arena_bytes, tn_arena *scratch) {
  tn_mark m = tn_arena_mark(scratch);
  int64_t total = 0;
  for (uint32_t i = 0; i < p->n_buf; i++) offset[i] = 0;
  tn_status st = place(d, p, expr_values, offset, &total, scratch);
  tn_arena_rewind(scratch, m);
  *out_arena_bytes = st == TN_OK ? total : 0;
  return st;
}

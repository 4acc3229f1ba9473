/* Strided copies: same dtype and shape, any strides on both sides.
 *
 * Axes are ordered by the result's strides, so that it is written as it lies in memory, and neighbours that are one run of
 * memory on both sides become one axis. What is left are lines along the innermost axis; or, where another axis is the dense
 * one of the source, squares whose lines are read whole, turned round in the first cache and written whole. Big copies are
 * shared out over the pool along the outermost axis. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3") /* vectors for lines of one value, and for squares */
#endif
#include <string.h>
#include "runtime/runtime_int.h"

typedef struct axis { int64_t n, src, dst; } axis; /* size; strides in bytes */
typedef struct copy {
  const unsigned char *src;
  unsigned char *dst;
  int64_t size;
  int n;                     /* axes, outer to inner */
  bool turns;                /* axis n - 2 is dense in src, axis n - 1 in dst */
  axis ax[TN_PLAN_MAX_RANK];
} copy;

enum {
  COPY_BYTES = 128 << 10, /* what one thread should copy at once: below twice this, a fork is not worth it */
  LINE = 64,
  BAND = 4                /* squares next to each other in dst before the next ones: pages stay at hand */
};

/* ---- lines ---- */
#define COPY_LINE(T)                                                                                    \
  do {                                                                                                  \
    if (a.src == 0 && a.dst == (int64_t)sizeof(T)) {                                                    \
      T v = *(const T *)src;                                                                            \
      for (int64_t i = 0; i < a.n; i++) ((T *)dst)[i] = v;                                              \
    } else {                                                                                            \
      for (int64_t i = 0; i < a.n; i++) *(T *)(dst + i * a.dst) = *(const T *)(src + i * a.src);        \
    }                                                                                                   \
  } while (0)

static void copy_line(unsigned char *dst, const unsigned char *src, axis a, int64_t size) {
  if (a.src == size && a.dst == size) {
    memcpy(dst, src, (size_t)(a.n * size));
    return;
  }
  switch (size) {
  case 1: COPY_LINE(uint8_t); break;
  case 2: COPY_LINE(uint16_t); break;
  case 4: COPY_LINE(uint32_t); break;
  default: COPY_LINE(uint64_t); break;
  }
}

/* ---- squares ---- */

/* p: dense in src; q: dense in dst */
#define DEFINE_TURN(T)                                                                                                      \
  static void turn_##T(unsigned char *dst, const unsigned char *src, axis p, axis q) {                                      \
    enum { N = LINE / sizeof(T) };                                                                                          \
    for (int64_t q0 = 0; q0 < q.n; q0 += BAND * N)                                                                          \
      for (int64_t p0 = 0; p0 < p.n; p0 += N)                                                                               \
        for (int64_t q1 = q0; q1 < q.n && q1 < q0 + BAND * N; q1 += N) {                                                    \
          const unsigned char *from = src + p0 * p.src + q1 * q.src;                                                        \
          unsigned char *to = dst + p0 * p.dst + q1 * q.dst;                                                                \
          int64_t np = p.n - p0, nq = q.n - q1;                                                                             \
          T v[N][N];                                                                                                        \
          if (np >= N && nq >= N) {                                                                                         \
            for (int k = 0; k < N; k++) memcpy(v[k], from + k * q.src, LINE);                                               \
            for (int i = 0; i < N; i++) {                                                                                   \
              T line[N];                                                                                                    \
              for (int k = 0; k < N; k++) line[k] = v[k][i];                                                                \
              memcpy(to + i * p.dst, line, LINE);                                                                           \
            }                                                                                                               \
          } else {                                                                                                          \
            for (int64_t i = 0; i < N && i < np; i++)                                                                       \
              for (int64_t k = 0; k < N && k < nq; k++) ((T *)(to + i * p.dst))[k] = *(const T *)(from + i * p.src + k * q.src); \
          }                                                                                                                 \
        }                                                                                                                   \
  }
DEFINE_TURN(uint8_t)
DEFINE_TURN(uint16_t)
DEFINE_TURN(uint32_t)
DEFINE_TURN(uint64_t)

static void turn(unsigned char *dst, const unsigned char *src, axis p, axis q, int64_t size) {
  switch (size) {
  case 1: turn_uint8_t(dst, src, p, q); break;
  case 2: turn_uint16_t(dst, src, p, q); break;
  case 4: turn_uint32_t(dst, src, p, q); break;
  default: turn_uint64_t(dst, src, p, q); break;
  }
}

/* ---- all of it ---- */

/* Steps [lo, hi) of the outermost axis. */
static void copy_range(void *ctx, int64_t lo, int64_t hi, int worker) {
  const copy *c = ctx;
  const unsigned char *s = c->src + lo * c->ax[0].src;
  unsigned char *d = c->dst + lo * c->ax[0].dst;
  axis ax[TN_PLAN_MAX_RANK];
  int64_t at[TN_PLAN_MAX_RANK] = {0};
  int inner = c->turns ? 2 : 1, outer = c->n - inner;
  (void)worker;
  memcpy(ax, c->ax, sizeof ax);
  ax[0].n = hi - lo;
  for (;;) {
    if (c->turns) turn(d, s, ax[outer], ax[outer + 1], c->size);
    else copy_line(d, s, ax[outer], c->size);
    int k = outer - 1;
    for (; k >= 0; k--) {
      s += ax[k].src, d += ax[k].dst;
      if (++at[k] < ax[k].n) break;
      at[k] = 0;
      s -= ax[k].src * ax[k].n, d -= ax[k].dst * ax[k].n;
    }
    if (k < 0) return;
  }
}

static int64_t magnitude(int64_t v) { return v < 0 ? -v : v; }

/* Puts the axis that is dense in src next to the innermost one, if squares pay. */
static void look_for_squares(copy *c) {
  axis *last = &c->ax[c->n - 1];
  if (c->n < 2 || last->dst != c->size || last->src == c->size || last->n < 4) return;
  for (int k = 0; k < c->n - 1; k++) {
    axis a = c->ax[k];
    if (a.src != c->size || a.n < 4) continue;
    memmove(&c->ax[k], &c->ax[k + 1], (size_t)(c->n - 2 - k) * sizeof a);
    c->ax[c->n - 2] = a;
    c->turns = true;
    return;
  }
}

void tn_copy_strided(tn_pool *pool, const tn_tensor *src, const tn_tensor *dst) {
  copy c = {.src = src->data, .dst = dst->data, .size = (int64_t)tn_dtype_size((tn_dtype)src->dtype)};
  axis all[TN_PLAN_MAX_RANK];
  int64_t bytes = c.size;
  int n = 0;
  for (int k = 0; k < src->rank; k++) {
    axis a = {src->shape[k], src->strides[k] * c.size, dst->strides[k] * c.size};
    int at = n;
    if (a.n == 0) return;
    if (a.n == 1) continue;
    bytes *= a.n;
    for (; at > 0 && magnitude(all[at - 1].dst) < magnitude(a.dst); at--) all[at] = all[at - 1];
    all[at] = a;
    n++;
  }
  for (int k = 0; k < n; k++) {
    axis a = all[k];
    if (c.n && c.ax[c.n - 1].src == a.src * a.n && c.ax[c.n - 1].dst == a.dst * a.n) a.n *= c.ax[--c.n].n;
    c.ax[c.n++] = a;
  }
  if (c.n == 0) {
    memcpy(c.dst, c.src, (size_t)c.size);
    return;
  }
  look_for_squares(&c);
  int64_t steps = c.ax[0].n;
  if (bytes < 2 * COPY_BYTES || steps == 1) copy_range(&c, 0, steps, 0);
  else tn_pool_run(pool, copy_range, &c, steps, bytes / steps >= COPY_BYTES ? 1 : COPY_BYTES / (bytes / steps));
}

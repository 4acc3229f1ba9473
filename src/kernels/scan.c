/* Running sums, products, maxima and minima along one dim, for compiled models.
 *
 * All element types share the loops: a piece of input is turned into double or int64_t in a buffer that stays in the first
 * cache, scanned there, and turned back on its way out. That is what the reference computes too: floats accumulate in
 * double and are rounded once per element, integers wrap, NaN wins every maximum.
 *
 * A running value is a chain of dependent steps, four cycles each, so one row alone leaves the machine idle. Hence:
 *   - dim last, or little behind it: ROWS rows go in step, one chain each, and fetch memory for the next piece meanwhile;
 *   - few rows, where the combiner's steps may be regrouped: ROWS pieces of a row go in step from the identity, then each
 *     piece takes in what came before it. Not for products and double sums, whose rounding (and overflow) it would change;
 *   - sums on machines with vectors of 8 doubles, again if they may be regrouped: a vector at a time, by three shifts;
 *   - much behind dim: the values of a strip of columns stay in a buffer and take in one row of the strip after another.
 * Rows and strips are shared out over the pool; how they are cut does not change any result.
 * The body is compiled for AVX2 (on x86-64), conversions and sums by shifts for AVX-512 too; older machines take the reference. Code is
 * kept small, as it is part of every run time: conversions are functions, LANES elements at a time without cleverness about ends. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3", "no-tree-slp-vectorize", "no-trapping-math") /* vectors for conversions and strips, plain chains for rows */
#endif
#include "kernels/kernels_int.h"
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
enum {
  LANES = 32,        /* elements that are converted at once */
  ROWS = 8,          /* chains in step: latency of a double addition times stores a cycle */
  RUN = 256,         /* elements of each in the buffer */
  STRIP = 512,       /* columns of a strip, at most */
  LONG_ROW = 32,     /* from here on, a vector at a time beats rows in step */
  FEW_ROWS = 4,      /* below, pieces of each row beat rows in step; not a matter of threads, as last bits may differ */
  MANY_COLUMNS = 16, /* from here on, strips beat rows with gaps */
  SHARE = 32 << 10   /* elements that a thread should get at once: below, a fork is not worth it */
};

typedef struct scan {
  tn_combiner c;
  tn_dtype t;
  int64_t size; /* bytes of an element */
  const char *in;
  char *out;
  int64_t len, inner, rows; /* elements along the dim; distance between them; rows = outer * inner */
  int64_t group;            /* rows in step; 0: row by row */
  int64_t strip, n_strips;  /* columns of a strip, strips of one outer index; 0 where rows are taken */
} scan;
/* Conversions of one instruction set. */
typedef struct moves {
  void (*load_f)(tn_dtype t, const char *p, int64_t step, int64_t n, double *restrict v);
  void (*store_f)(tn_dtype t, char *p, int64_t step, int64_t n, const double *restrict v);
  void (*load_i)(tn_dtype t, const char *p, int64_t step, int64_t n, int64_t *restrict v);
  void (*store_i)(tn_dtype t, char *p, int64_t step, int64_t n, const int64_t *restrict v);
} moves;

/* ---- steps ---- */
INLINE double step_f(tn_combiner c, double a, double b) {
  switch (c) {
    case TN_C_SUM: return a + b;
    case TN_C_PROD: return a * b;
    case TN_C_MAX: return a > b || a != a ? a : b;
    default: return a < b || a != a ? a : b;
  }
}
INLINE int64_t step_i(tn_combiner c, int64_t a, int64_t b) {
  switch (c) {
    case TN_C_SUM: return (int64_t)((uint64_t)a + (uint64_t)b);
    case TN_C_PROD: return (int64_t)((uint64_t)a * (uint64_t)b);
    case TN_C_MAX: return a > b ? a : b;
    default: return a < b ? a : b;
  }
}

/* ---- to and from the buffer: n elements at p, `step` elements apart ---- */
/* The 16-bit conversions of base/dtype.c, without branches, so that they become vectors. */
INLINE float bf16_up(uint16_t h) { return float_of((uint32_t)h << 16); }
INLINE uint16_t bf16_down(float f) {
  uint32_t u = bits_of(f), near = (u + 0x7fff + (u >> 16 & 1)) >> 16, quiet = u >> 16 | 0x40;
  return (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? quiet : near);
}
INLINE float f16_up(uint16_t h) {
  uint32_t a = h & 0x7fff, normal = (a << 13) + (112u << 23), small = bits_of((float)(int32_t)a * 0x1p-24f);
  uint32_t u = a < 0x400 ? small : a < 0x7c00 ? normal : normal + (112u << 23);
  return float_of(u | (uint32_t)(h & 0x8000) << 16);
}
INLINE uint16_t f16_down(float f) {
  uint32_t u = bits_of(f), a = u & 0x7fffffff;
  uint32_t normal = (a + 0xfff + (a >> 13 & 1) - (112u << 23)) >> 13; /* rounding may carry up to infinity, as it should */
  uint32_t small = bits_of(float_of(a) + 0.5f) - 0x3f000000u;         /* below 2^-14: the sum's last place is 2^-24 */
  uint32_t far = a > 0x7f800000 ? 0x7e00 | (a >> 13 & 0x1ff) : 0x7c00;
  return (uint16_t)((a < 0x38800000 ? small : a < 0x47800000 ? normal : far) | (u >> 16 & 0x8000));
}
/* Ends, and what lies apart, one by one: the empty statement keeps them from becoming vectors with ends of their own. */
#define ALONE __asm__ volatile("")
#define LOAD(T, expr)                                                                                                                      \
  do {                                                                                                                                     \
    const T *q = (const T *)p;                                                                                                             \
    int64_t k = 0;                                                                                                                         \
    for (; k + LANES <= n; k += LANES) {                                                                                                   \
      T near[LANES];                                                                                                                       \
      const T *from = step == 1 ? q + k : near;                                                                                            \
      for (int64_t e = 0; step != 1 && e < LANES; e++) {                                                                                   \
        near[e] = q[(k + e) * step];                                                                                                       \
        ALONE;                                                                                                                             \
      }                                                                                                                                    \
      for (int64_t e = 0; e < LANES; e++) {                                                                                                \
        T x = from[e];                                                                                                                     \
        v[k + e] = (expr);                                                                                                                 \
      }                                                                                                                                    \
    }                                                                                                                                      \
    for (; k < n; k++) {                                                                                                                   \
      T x = q[k * step];                                                                                                                   \
      v[k] = (expr);                                                                                                                       \
      ALONE;                                                                                                                               \
    }                                                                                                                                      \
  } while (0)
#define STORE(T, expr)                                                                                                                     \
  do {                                                                                                                                     \
    T *q = (T *)p;                                                                                                                         \
    int64_t k = 0;                                                                                                                         \
    for (; k + LANES <= n; k += LANES) {                                                                                                   \
      T near[LANES];                                                                                                                       \
      T *to = step == 1 ? q + k : near;                                                                                                    \
      for (int64_t e = 0; e < LANES; e++) {                                                                                                \
        const VALUE x = v[k + e];                                                                                                          \
        to[e] = (T)(expr);                                                                                                                 \
      }                                                                                                                                    \
      for (int64_t e = 0; step != 1 && e < LANES; e++) {                                                                                   \
        q[(k + e) * step] = near[e];                                                                                                       \
        ALONE;                                                                                                                             \
      }                                                                                                                                    \
    }                                                                                                                                      \
    for (; k < n; k++) {                                                                                                                   \
      const VALUE x = v[k];                                                                                                                \
      q[k * step] = (T)(expr);                                                                                                             \
      ALONE;                                                                                                                               \
    }                                                                                                                                      \
  } while (0)
INLINE void load_f(tn_dtype t, const char *p, int64_t step, int64_t n, double *restrict v) {
  switch (t) {
    case TN_F32: LOAD(float, (double)x); break;
    case TN_F16: LOAD(uint16_t, (double)f16_up(x)); break;
    case TN_BF16: LOAD(uint16_t, (double)bf16_up(x)); break;
    default: LOAD(double, x); break;
  }
}
#define VALUE double
INLINE void store_f(tn_dtype t, char *p, int64_t step, int64_t n, const double *restrict v) {
  switch (t) {
    case TN_F32: STORE(float, x); break;
    case TN_F16: STORE(uint16_t, f16_down((float)x)); break;
    case TN_BF16: STORE(uint16_t, bf16_down((float)x)); break;
    default: STORE(double, x); break;
  }
}
#undef VALUE
INLINE void load_i(tn_dtype t, const char *p, int64_t step, int64_t n, int64_t *restrict v) {
  switch (t) {
    case TN_I64:
    case TN_U64: LOAD(int64_t, x); break;
    case TN_I32: LOAD(int32_t, x); break;
    case TN_I16: LOAD(int16_t, x); break;
    case TN_I8: LOAD(int8_t, x); break;
    case TN_U32: LOAD(uint32_t, x); break;
    case TN_U16: LOAD(uint16_t, x); break;
    case TN_BOOL: LOAD(uint8_t, x != 0); break;
    default: LOAD(uint8_t, x); break;
  }
}
#define VALUE int64_t
INLINE void store_i(tn_dtype t, char *p, int64_t step, int64_t n, const int64_t *restrict v) {
  switch (t) {
    case TN_I64:
    case TN_U64: STORE(int64_t, x); break;
    case TN_I32:
    case TN_U32: STORE(int32_t, x); break;
    case TN_I16:
    case TN_U16: STORE(int16_t, x); break;
    case TN_I8: STORE(int8_t, x); break;
    case TN_BOOL: STORE(uint8_t, x != 0); break;
    default: STORE(uint8_t, x); break;
  }
}
#undef VALUE

/* ---- loops, for A = double (f) and int64_t (i) ---- */
#define BY_COMBINER(call)                                                                                                                  \
  switch (s->c) {                                                                                                                          \
    case TN_C_SUM: call(TN_C_SUM); break;                                                                                                  \
    case TN_C_PROD: call(TN_C_PROD); break;                                                                                                \
    case TN_C_MAX: call(TN_C_MAX); break;                                                                                                  \
    default: call(TN_C_MIN); break;                                                                                                        \
  }

#define DEFINE_LOOPS(A, V, y, IDENTITY)                                                                                                    \
  /* v[r][k] = the running value of v[r][0..k], from acc[r] on; k < n. Touches `warm` / ROWS lines from each ahead[r] and to[r] on. */     \
  INLINE void chains_##y(tn_combiner c, A(*v)[RUN], int64_t n, A *acc, int64_t warm, const char **ahead, char **to) {                      \
    A a[ROWS];                                                                                                                             \
    for (int r = 0; r < ROWS; r++) a[r] = acc[r];                                                                                          \
    for (int64_t k = 0; k < n; k++) {                                                                                                      \
      if (k < warm) {                                                                                                                      \
        __builtin_prefetch(ahead[k % ROWS] + k / ROWS * 64);                                                                               \
        __builtin_prefetch(to[k % ROWS] + k / ROWS * 64, 1);                                                                               \
      }                                                                                                                                    \
      _Pragma("GCC unroll 8") for (int r = 0; r < ROWS; r++) v[r][k] = a[r] = step_##y(c, a[r], v[r][k]);                                  \
    }                                                                                                                                      \
    for (int r = 0; r < ROWS; r++) acc[r] = a[r];                                                                                          \
  }                                                                                                                                        \
  INLINE void take_in_##y(tn_combiner c, A before, A *v, int64_t n) {                                                                      \
    for (int64_t k = 0; k < n; k++) v[k] = step_##y(c, before, v[k]);                                                                      \
  }                                                                                                                                        \
  INLINE void join_##y(tn_combiner c, A *restrict acc, const A *restrict v, int64_t n) {                                                   \
    for (int64_t k = 0; k < n; k++) acc[k] = step_##y(c, acc[k], v[k]);                                                                    \
  }                                                                                                                                        \
  /* rows [row, row + m), m <= ROWS */                                                                                                     \
  INLINE void rows_##y(const scan *s, const moves *with, int64_t row, int64_t m) {                                                                            \
    A v[ROWS][RUN], acc[ROWS];                                                                                                             \
    const char *ahead[ROWS];                                                                                                               \
    char *to[ROWS];                                                                                                                        \
    int64_t at[ROWS], warm = m == ROWS && s->inner == 1 ? RUN * s->size / 64 * ROWS : 0;                                                   \
    for (int64_t r = 0; r < m; r++) at[r] = ((row + r) / s->inner * s->len * s->inner + (row + r) % s->inner) * s->size;                   \
    for (int r = 0; r < ROWS; r++) acc[r] = IDENTITY;                                                                                      \
    if (m < ROWS) memset(v, 0, sizeof v);                                                                                                  \
    for (int64_t k = 0; k < s->len; k += RUN) {                                                                                            \
      int64_t n = s->len - k < RUN ? s->len - k : RUN, skip = k * s->inner * s->size;                                                      \
      for (int64_t r = 0; r < m; r++) {                                                                                                    \
        to[r] = s->out + at[r] + skip;                                                                                                     \
        ahead[r] = s->in + at[r] + skip + RUN * s->size;                                                                                   \
        with->load_##y(s->t, s->in + at[r] + skip, s->inner, n, v[r]);                                                                           \
      }                                                                                                                                    \
      if (m == 1) {                                                                                                                        \
        A a = acc[0];                                                                                                                      \
        for (int64_t i = 0; i < n; i++) v[0][i] = a = step_##y(s->c, a, v[0][i]);                                                          \
        acc[0] = a;                                                                                                                        \
      } else {                                                                                                                             \
        BY_COMBINER(CHAINS_##y)                                                                                                            \
      }                                                                                                                                    \
      for (int64_t r = 0; r < m; r++) with->store_##y(s->t, s->out + at[r] + skip, s->inner, n, v[r]);                                           \
    }                                                                                                                                      \
  }                                                                                                                                        \
  /* one row, as ROWS pieces at a time */                                                                                                  \
  INLINE void pieces_##y(const scan *s, const moves *with, int64_t row) {                                                                                     \
    A v[ROWS][RUN], acc[ROWS], before = IDENTITY;                                                                                          \
    const char **ahead = NULL;                                                                                                             \
    char **to = NULL;                                                                                                                      \
    int64_t warm = 0;                                                                                                                      \
    int64_t at = (row / s->inner * s->len * s->inner + row % s->inner) * s->size;                                                          \
    memset(v, 0, sizeof v);                                                                                                                \
    for (int64_t k = 0; k < s->len; k += ROWS * RUN) {                                                                                     \
      int64_t all = s->len - k < ROWS * RUN ? s->len - k : ROWS * RUN, n = (all + ROWS - 1) / ROWS;                                        \
      for (int64_t r = 0; r < ROWS; r++) {                                                                                                 \
        acc[r] = IDENTITY;                                                                                                                 \
        if (r * n < all) with->load_##y(s->t, s->in + at + (k + r * n) * s->inner * s->size, s->inner, all - r * n < n ? all - r * n : n, v[r]); \
      }                                                                                                                                    \
      BY_COMBINER(CHAINS_##y)                                                                                                              \
      for (int64_t r = 0; r < ROWS && r * n < all; r++) {                                                                                  \
        int64_t some = all - r * n < n ? all - r * n : n;                                                                                  \
        BY_COMBINER(TAKE_IN_##y)                                                                                                           \
        before = v[r][some - 1];                                                                                                           \
        with->store_##y(s->t, s->out + at + (k + r * n) * s->inner * s->size, s->inner, some, v[r]);                                             \
      }                                                                                                                                    \
    }                                                                                                                                      \
  }                                                                                                                                        \
  /* one row of sums; vectors of 8 are scanned by shifts, and what came before is added to each */                                         \
  INLINE __attribute__((unused)) void line_##y(const scan *s, const moves *with, int64_t row) {                                                                                       \
    typedef V vec __attribute__((vector_size(64), aligned(64), may_alias));                                                                \
    _Alignas(64) A v[2 * RUN];                                                                                                             \
    vec before = {0}, none = {0};                                                                                                          \
    int64_t at = (row / s->inner * s->len * s->inner + row % s->inner) * s->size;                                                          \
    for (int64_t k = 0; k < s->len; k += 2 * RUN, at += 2 * RUN * s->inner * s->size) {                                                    \
      int64_t n = s->len - k < 2 * RUN ? s->len - k : 2 * RUN;                                                                             \
      with->load_##y(s->t, s->in + at, s->inner, n, v);                                                                                          \
      for (int64_t i = n; i % 8; i++) v[i] = 0;                                                                                            \
      for (int64_t i = 0; i < n; i += 8) {                                                                                                 \
        vec x = *(vec *)(v + i);                                                                                                           \
        x += __builtin_shufflevector(none, x, 0, 8, 9, 10, 11, 12, 13, 14);                                                                \
        x += __builtin_shufflevector(none, x, 0, 1, 8, 9, 10, 11, 12, 13);                                                                 \
        x += __builtin_shufflevector(none, x, 0, 1, 2, 3, 8, 9, 10, 11);                                                                   \
        *(vec *)(v + i) = before + x;                                                                                                      \
        before += __builtin_shufflevector(x, x, 7, 7, 7, 7, 7, 7, 7, 7);                                                                   \
      }                                                                                                                                    \
      with->store_##y(s->t, s->out + at, s->inner, n, v);                                                                                        \
    }                                                                                                                                      \
  }                                                                                                                                        \
  INLINE void strip_##y(const scan *s, const moves *with, int64_t i) {                                                                                        \
    A v[STRIP], acc[STRIP];                                                                                                                \
    int64_t first = i % s->n_strips * s->strip, n = s->inner - first < s->strip ? s->inner - first : s->strip;                             \
    int64_t at = (i / s->n_strips * s->len * s->inner + first) * s->size;                                                                  \
    for (int64_t k = 0; k < n; k++) acc[k] = IDENTITY;                                                                                     \
    for (int64_t k = 0; k < s->len; k++, at += s->inner * s->size) {                                                                       \
      with->load_##y(s->t, s->in + at, 1, n, v);                                                                                                 \
      BY_COMBINER(JOIN_##y)                                                                                                                \
      with->store_##y(s->t, s->out + at, 1, n, acc);                                                                                             \
    }                                                                                                                                      \
  }
#define CHAINS_f(c) chains_f(c, v, n, acc, warm, ahead, to)
#define CHAINS_i(c) chains_i(c, v, n, acc, warm, ahead, to)
#define TAKE_IN_f(c) take_in_f(c, before, v[r], some)
#define TAKE_IN_i(c) take_in_i(c, before, v[r], some)
#define JOIN_f(c) join_f(c, acc, v, n)
#define JOIN_i(c) join_i(c, acc, v, n)
/* V: lanes of the sums; integers wrap, so theirs are unsigned */
DEFINE_LOOPS(double, double, f, tn_combiner_identity(s->c, TN_F64).f)
DEFINE_LOOPS(int64_t, uint64_t, i, tn_combiner_identity(s->c, TN_I64).i)

/* Strips, groups of rows, or rows [lo, hi). */
INLINE void work(const scan *s, const moves *with, int64_t lo, int64_t hi) {
  bool is_float = tn_dtype_is_float(s->t);
  for (int64_t i = lo; i < hi; i++) {
    if (s->n_strips) {
      if (is_float)
        strip_f(s, with, i);
      else
        strip_i(s, with, i);
    } else if (s->group == 0) {
      if (is_float)
        pieces_f(s, with, i);
      else
        pieces_i(s, with, i);
    } else {
      int64_t row = i * s->group, m = s->rows - row < s->group ? s->rows - row : s->group;
      if (is_float)
        rows_f(s, with, row, m);
      else
        rows_i(s, with, row, m);
    }
  }
}

#define DEFINE_MOVES(name, attribute)                                                                                                      \
  attribute static void load_f_##name(tn_dtype t, const char *p, int64_t step, int64_t n, double *restrict v) { load_f(t, p, step, n, v); }        \
  attribute static void store_f_##name(tn_dtype t, char *p, int64_t step, int64_t n, const double *restrict v) { store_f(t, p, step, n, v); }      \
  attribute static void load_i_##name(tn_dtype t, const char *p, int64_t step, int64_t n, int64_t *restrict v) { load_i(t, p, step, n, v); }       \
  attribute static void store_i_##name(tn_dtype t, char *p, int64_t step, int64_t n, const int64_t *restrict v) { store_i(t, p, step, n, v); }     \
  static const moves moves_##name = {load_f_##name, store_f_##name, load_i_##name, store_i_##name};
#if defined(__x86_64__)
#define AVX2 __attribute__((target("avx2,fma")))
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))
#else
#define AVX2
#endif
DEFINE_MOVES(avx2, AVX2)
AVX2 static void work_with(const scan *s, const moves *with, int64_t lo, int64_t hi) { work(s, with, lo, hi); }
static void work_avx2(void *ctx, int64_t lo, int64_t hi, int worker) {
  (void)worker;
  work_with(ctx, &moves_avx2, lo, hi);
}
#if defined(__x86_64__)
DEFINE_MOVES(avx512, AVX512)
AVX512 static void lines(const scan *s, int64_t lo, int64_t hi) {
  for (int64_t i = lo; i < hi; i++) {
    if (tn_dtype_is_float(s->t))
      line_f(s, &moves_avx512, i);
    else
      line_i(s, &moves_avx512, i);
  }
}
static void work_avx512(void *ctx, int64_t lo, int64_t hi, int worker) {
  const scan *s = ctx;
  (void)worker;
  if (s->n_strips || s->group || s->c != TN_C_SUM)
    work_with(s, &moves_avx512, lo, hi);
  else
    lines(s, lo, hi);
}
static const tn_pool_fn works[TN_K_N_ISAS] = {NULL, work_avx2, work_avx512};
#else
static const tn_pool_fn works[TN_K_N_ISAS] = {work_avx2, work_avx2, work_avx2};
#endif

/* May steps be regrouped without changing what comes out? Sums of floats: but for the last bits of a double. */
static bool regroups(tn_combiner c, tn_dtype t) {
  return !tn_dtype_is_float(t) || c == TN_C_MAX || c == TN_C_MIN || (c == TN_C_SUM && t != TN_F64);
}

/* out[o, k, i] = in[o, 0, i] combined with ... in[o, k, i]. Source: torch.cumsum, cumprod, cummax, cummin (values). */
void tn_k_scan(tn_pool *pool, tn_combiner c, const tn_tensor *in, int dim, tn_tensor *out) {
  /* any, all: no op asks for them; the loops below compare u64 as signed */
  if (!works[tn_k_best_isa()] || c > TN_C_MIN || (in->dtype == TN_U64 && (c == TN_C_MAX || c == TN_C_MIN))) {
    tn_k_scan_ref(c, in, dim, out);
    return;
  }
  scan s = {.c = c, .t = (tn_dtype)in->dtype, .in = in->data, .out = out->data};
  int64_t n = tn_k_numel(in), units, threads = tn_pool_n_threads(pool);
  if (n == 0) return;
  s.size = (int64_t)tn_dtype_size(s.t);
  s.len = in->rank ? in->shape[dim] : 1;
  s.inner = tn_k_span(in, dim + 1, in->rank);
  s.rows = n / s.len;
  if (s.inner >= MANY_COLUMNS) {
    for (s.strip = STRIP;; s.strip /= 2) {
      s.n_strips = (s.inner + s.strip - 1) / s.strip;
      units = s.rows / s.inner * s.n_strips;
      if (units >= 2 * threads || s.strip <= 64) break;
    }
  } else if (regroups(c, s.t) && (s.rows < FEW_ROWS || (c == TN_C_SUM && s.len >= LONG_ROW && tn_k_best_isa() == TN_K_AVX512))) {
    units = s.rows;
  } else {
    s.group = (s.rows + threads - 1) / threads;
    if (s.group > ROWS) s.group = ROWS;
    units = (s.rows + s.group - 1) / s.group;
  }
  int64_t each = n / units;
  tn_pool_run(pool, works[tn_k_best_isa()], &s, units, each >= SHARE ? 1 : SHARE / each);
}

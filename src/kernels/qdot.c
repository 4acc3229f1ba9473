/* Products of bytes: x u8[.., K] times w i8 gives i32[.., N], exact (sums wrap at 32 bits). For quantised models.
 *
 * w comes packed, because whoever builds the graph knows it: panels of 16 columns, in a panel groups of 4 rows, in a group 4 bytes for each column:
 * w[ceil(N / 16)][ceil(K / 4)][16][4], zeros where there is no row or column. That is what x86's dot-product instruction multiplies with 4 bytes of x that are
 * the same for all columns. With AVX2 alone bytes are widened to 16 bits and multiplied in pairs, whose sums cannot overflow as those of the 8-bit
 * instruction could. Other machines: plain loops. Rows of x and groups of panels are shared among threads. */
#include "kernels/kernels_int.h"
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { COLS = 16, GROUP = 4, PANELS = 4, ROWS = 6, CHUNK = 8 * ROWS, SHARE = 1 << 20 /* products that a thread should get at once */ };

typedef struct job {
  const uint8_t *x;
  const int8_t *w;
  int32_t *y;
  int64_t M, N, K, groups, panels, chunks; /* groups: of 4 rows of w; chunks: of rows of x */
  tn_k_isa isa;
  bool dot;                                /* the machine has the 8-bit dot product */
} job;

/* 4 bytes of a row from k on; those behind its end are 0. */
static inline int32_t four(const uint8_t *row, int64_t k, int64_t K) {
  uint32_t v = 0;
  memcpy(&v, row + k, K - k < GROUP ? (size_t)(K - k) : GROUP);
  return (int32_t)v;
}

static void plain(const job *j, int64_t row, int64_t rows, int64_t panel, int64_t panels) {
  for (int64_t r = row; r < row + rows; r++)
    for (int64_t p = panel; p < panel + panels; p++) {
      int32_t acc[COLS] = {0};
      const int8_t *w = j->w + p * j->groups * COLS * GROUP;
      for (int64_t k = 0; k < j->K; k++)
        for (int c = 0; c < COLS; c++) acc[c] = (int32_t)((uint32_t)acc[c] + (uint32_t)((int32_t)j->x[r * j->K + k] * w[(k / GROUP * COLS + c) * GROUP + k % GROUP]));
      int64_t n = j->N - p * COLS < COLS ? j->N - p * COLS : COLS;
      memcpy(j->y + r * j->N + p * COLS, acc, (size_t)n * sizeof *acc);
    }
}

#if defined(__x86_64__)
#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 8") /* sums stay in registers */
#define VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))
#define AVX2 __attribute__((target("avx2")))

VNNI INLINE void group_vnni(__m512i acc[ROWS][PANELS], const int8_t *w, int64_t step, const uint8_t *x, int64_t K, int64_t left, const int rows, const int panels) {
  __m512i b[PANELS];
  UNROLL for (int p = 0; p < panels; p++) b[p] = _mm512_loadu_si512(w + p * step);
  UNROLL for (int r = 0; r < rows; r++) {
    int32_t v = 0;
    memcpy(&v, x + r * K, left < GROUP ? (size_t)left : GROUP);
    UNROLL for (int p = 0; p < panels; p++) acc[r][p] = _mm512_dpbusd_epi32(acc[r][p], _mm512_set1_epi32(v), b[p]);
  }
}
VNNI INLINE void tile_vnni(const job *j, int64_t row, int64_t panel, const int rows, const int panels) {
  __m512i acc[ROWS][PANELS];
  const int8_t *w = j->w + panel * j->groups * COLS * GROUP;
  const uint8_t *x = j->x + row * j->K;
  int64_t K = j->K, whole = K / GROUP, step = j->groups * COLS * GROUP;
  UNROLL for (int r = 0; r < rows; r++)
    UNROLL for (int p = 0; p < panels; p++) acc[r][p] = _mm512_setzero_si512();
  for (int64_t g = 0; g < whole; g++) group_vnni(acc, w + g * COLS * GROUP, step, x + g * GROUP, K, GROUP, rows, panels);
  if (K % GROUP) group_vnni(acc, w + whole * COLS * GROUP, step, x + whole * GROUP, K, K % GROUP, rows, panels);
  UNROLL for (int p = 0; p < panels; p++) {
    int64_t n = j->N - (panel + p) * COLS;
    __mmask16 m = n >= COLS ? 0xffff : (__mmask16)((1u << n) - 1);
    UNROLL for (int r = 0; r < rows; r++) _mm512_mask_storeu_epi32(j->y + (row + r) * j->N + (panel + p) * COLS, m, acc[r][p]);
  }
}
VNNI static void run_vnni(const job *j, int64_t row, int64_t rows, int64_t panel, int64_t panels) {
  int64_t end = row + rows;
  if (panels == PANELS) {
    for (; row + ROWS <= end; row += ROWS) tile_vnni(j, row, panel, ROWS, PANELS);
    for (; row < end; row++) tile_vnni(j, row, panel, 1, PANELS);
    return;
  }
  for (int64_t p = panel; p < panel + panels; p++) {
    int64_t r = row;
    for (; r + ROWS <= end; r += ROWS) tile_vnni(j, r, p, ROWS, 1);
    for (; r < end; r++) tile_vnni(j, r, p, 1, 1);
  }
}

/* 16 columns as 4 vectors of 4 columns, two sums each, joined at the end. */
AVX2 INLINE void tile_avx2(const job *j, int64_t row, int64_t panel, const int rows) {
  __m256i acc[2][4];
  const int8_t *w = j->w + panel * j->groups * COLS * GROUP;
  int32_t out[COLS];
  int64_t n = j->N - panel * COLS < COLS ? j->N - panel * COLS : COLS;
  UNROLL for (int r = 0; r < rows; r++)
    UNROLL for (int q = 0; q < 4; q++) acc[r][q] = _mm256_setzero_si256();
  for (int64_t g = 0; g < j->groups; g++) {
    __m256i a[2];
    UNROLL for (int r = 0; r < rows; r++) {
      int32_t v = four(j->x + (row + r) * j->K, g * GROUP, j->K);
      a[r] = _mm256_broadcastq_epi64(_mm_cvtepu8_epi16(_mm_cvtsi32_si128(v)));
    }
    UNROLL for (int q = 0; q < 4; q++) {
      __m256i b = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(w + (g * 4 + q) * COLS)));
      UNROLL for (int r = 0; r < rows; r++) acc[r][q] = _mm256_add_epi32(acc[r][q], _mm256_madd_epi16(a[r], b));
    }
  }
  UNROLL for (int r = 0; r < rows; r++) {
    UNROLL for (int q = 0; q < 4; q += 2) { /* pairs: columns 0 1 4 5 | 2 3 6 7 of these 8 */
      __m256i s = _mm256_permute4x64_epi64(_mm256_hadd_epi32(acc[r][q], acc[r][q + 1]), 0xd8);
      _mm256_storeu_si256((__m256i *)(void *)(out + q * 4), s);
    }
    memcpy(j->y + (row + r) * j->N + panel * COLS, out, (size_t)n * sizeof *out);
  }
}
AVX2 static void run_avx2(const job *j, int64_t row, int64_t rows, int64_t panel, int64_t panels) {
  for (int64_t p = panel; p < panel + panels; p++) {
    int64_t r = row;
    for (; r + 2 <= row + rows; r += 2) tile_avx2(j, r, p, 2);
    for (; r < row + rows; r++) tile_avx2(j, r, p, 1);
  }
}
#endif

/* Item i: chunk of rows i % chunks of panel group i / chunks: neighbours share their part of w. */
static void part(void *ctx, int64_t lo, int64_t hi, int worker) {
  const job *j = ctx;
  (void)worker;
  for (int64_t i = lo; i < hi; i++) {
    int64_t row = i % j->chunks * CHUNK, panel = i / j->chunks * PANELS;
    int64_t rows = j->M - row < CHUNK ? j->M - row : CHUNK, panels = j->panels - panel < PANELS ? j->panels - panel : PANELS;
#if defined(__x86_64__)
    if (j->dot) { run_vnni(j, row, rows, panel, panels); continue; }
    if (j->isa >= TN_K_AVX2) { run_avx2(j, row, rows, panel, panels); continue; }
#endif
    plain(j, row, rows, panel, panels);
  }
}

tn_status tn_k_qdot(tn_pool *pool, const tn_tensor *x, const tn_tensor *w, tn_tensor *out) {
  if (x->rank < 1 || out->rank != x->rank || w->rank != 4 || x->dtype != TN_U8 || w->dtype != TN_I8 || out->dtype != TN_I32) return TN_E_VERIFY;
  job j = {.x = x->data, .w = w->data, .y = out->data, .M = tn_k_span(x, 0, x->rank - 1), .K = x->shape[x->rank - 1], .N = out->shape[x->rank - 1]};
  j.panels = w->shape[0];
  j.groups = w->shape[1];
  j.chunks = (j.M + CHUNK - 1) / CHUNK;
  if (j.panels != (j.N + COLS - 1) / COLS || j.groups != (j.K + GROUP - 1) / GROUP || w->shape[2] != COLS || w->shape[3] != GROUP || tn_k_span(out, 0, out->rank - 1) != j.M)
    return TN_E_VERIFY;
  j.isa = tn_k_best_isa();
#if defined(__x86_64__)
  j.dot = tn_k_vnni();
#endif
  int64_t items = j.chunks * ((j.panels + PANELS - 1) / PANELS), each = (j.M < CHUNK ? j.M : CHUNK) * PANELS * COLS * j.K;
  if (!items) return TN_OK;
  if (!pool) part(&j, 0, items, 0);
  else tn_pool_run(pool, part, &j, items, each > 0 && each < SHARE ? SHARE / each : 1);
  return TN_OK;
}

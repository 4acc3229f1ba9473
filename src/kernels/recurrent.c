/* One direction of one LSTM or GRU layer in float32, fast enough for compiled models.
 *
 *   g_t = W_ih x_t + b_ih + W_hh h_{t-1} + b_hh        rows of g in order i, f, g, o
 *   c_t = sigmoid(f) * c_{t-1} + sigmoid(i) * tanh(g)   h_t = sigmoid(o) * tanh(c_t)
 * Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.LSTM.html
 * A GRU is run as if it had four gates, r, z and the two halves of n that the reset gate keeps apart (from x and from h). Each weight feeds one of the
 * halves only, so its second panel is half as wide; everything but that and the cells is shared:
 *   h_t = (1 - sigmoid(z)) * tanh(n_x + sigmoid(r) * n_h) + sigmoid(z) * h_{t-1}
 * Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.GRU.html
 *
 * Idea: hidden units go in blocks of 16, and a block keeps its four gates together: 64 columns, packed once as two
 * panels [k][32] (i and f; g and o), so that the inner loop runs over neighbouring columns. W_ih x does not depend on time
 * and is done for many steps at once; what is left in the time loop is, block by block, one product with W_hh and one pass
 * over the block's cells. h_t is computed where it belongs in y and read from there by step t+1. Blocks know nothing of each
 * other within a step, so they are what threads share; small models stay with the caller. For few rows of x in all, packing
 * would cost more than it saves: then every gate is a dot product with its row of the weight.
 * Vectors are the compiler's (GCC and clang extension), lowered to whatever the function's target has; the body is compiled
 * once per instruction set and chosen at run time. exp and tanh are polynomials of our own (minimax fits), error below
 * 4 ULP. Results do not depend on the number of threads. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3", "fp-contract=fast") /* vectors from the cell loop; c + a * b in one rounding where the target can */
#endif
#include "kernels/kernels_int.h"
#include <string.h>

#define UNITS 16        /* hidden units of a block */
#define COLS 32         /* columns of a panel: two vectors, UNITS of two gates */
#define WIDE (2 * COLS) /* columns of a block */
#define INLINE static inline __attribute__((always_inline))
/* Vectors as wide as the target's: wider ones would be taken apart in memory. */
typedef float vec16 __attribute__((vector_size(16), aligned(16), may_alias));
typedef float vec32 __attribute__((vector_size(32), aligned(32), may_alias));
typedef float vec64 __attribute__((vector_size(64), aligned(64), may_alias));
typedef float loose16 __attribute__((vector_size(16), aligned(4), may_alias));
typedef float loose32 __attribute__((vector_size(32), aligned(4), may_alias));
typedef float loose64 __attribute__((vector_size(64), aligned(4), may_alias));
enum {
  SHARE = 1 << 19, /* multiply-adds that a thread should get at once, some 5 us: below, a fork is not worth it */
  PACK_SHARE = 1 << 15,
  SOME_ROWS = 64, /* rows of x in one piece of work */
  FEW_ROWS = 6    /* of x in all: below, weights are read as they are */
};

/* One call, or what threads see of it. */
typedef struct layer {
  const float *x, *w[2], *b_ih, *b_hh; /* w: W_ih, W_hh */
  int64_t B, H, k[2], blocks, ldc;     /* k: columns of w */
  bool direct;                         /* weights are not packed */
  const int (*block)[4];               /* which block of H rows of w[m] feeds a gate; -1: none */
  bool gru;
  float *packed[2], *bias, *gates;     /* [block][panel][k][COLS]; [ldc]; [rows][ldc] */
  int64_t rows;                        /* of gates, in the products with x */
  const float *h;                      /* of the step before */
  float *g, *c, *h_new;                /* of this step */
} layer;

/* c[m, COLS] = from + a[m, k] * panel[k][COLS]; rows of c are ldc apart, of from ldf, of a k. */
typedef struct product {
  const float *a, *panel, *from;
  float *c;
  int64_t m, k, ldc, ldf;
  bool narrow; /* the panel has UNITS columns */
} product;

/* tile: `ways` sums of every ways-th k each, so that few rows too keep enough additions in flight.
 * multiply: `most` rows of a at a time, as many as the target's registers hold sums for; what is left in smaller tiles. */
#define DEFINE_MULTIPLY(name, vec, loose, most, ways_of_1, ways_of_2)                                                                      \
  INLINE void tile_##name(const int cols, const int rows, const int ways, const float *a, const product *p, const float *from, float *c) { \
    enum { LANES = sizeof(vec) / sizeof(float), MOST_N = COLS / LANES };                                                                   \
    const int N = cols / LANES;                                                                                                            \
    const float *panel = p->panel;                                                                                                         \
    int64_t k = p->k, i = 0;                                                                                                               \
    vec sum[4][8][MOST_N];                                                                                                                     \
    for (int w = 0; w < ways; w++)                                                                                                         \
      for (int r = 0; r < rows; r++)                                                                                                       \
        for (int v = 0; v < N; v++) sum[w][r][v] = w ? (vec){0} : *(const vec *)(from + r * p->ldf + v * LANES);                           \
    for (; i + ways <= k; i += ways)                                                                                                       \
      for (int w = 0; w < ways; w++)                                                                                                       \
        for (int r = 0; r < rows; r++)                                                                                                     \
          for (int v = 0; v < N; v++) sum[w][r][v] += a[r * k + i + w] * *(const vec *)(panel + (i + w) * cols + v * LANES);               \
    for (; ways > 1 && i < k; i++)                                                                                                         \
      for (int r = 0; r < rows; r++)                                                                                                       \
        for (int v = 0; v < N; v++) sum[0][r][v] += a[r * k + i] * *(const vec *)(panel + i * cols + v * LANES);                           \
    for (int r = 0; r < rows; r++)                                                                                                         \
      for (int v = 0; v < N; v++) {                                                                                                        \
        for (int w = 1; w < ways; w++) sum[0][r][v] += sum[w][r][v];                                                                       \
        *(vec *)(c + r * p->ldc + v * LANES) = sum[0][r][v];                                                                               \
      }                                                                                                                                    \
  }                                                                                                                                        \
  /* out[r] += w[r, k] a[k], r < rows */                                                                                                   \
  INLINE void dots_##name(const int rows, const float *w, const float *a, int64_t k, float *out) {                                         \
    enum { LANES = sizeof(loose) / sizeof(float) };                                                                                        \
    loose sum[4][2] = {{{0}}};                                                                                                             \
    int64_t i = 0;                                                                                                                         \
    for (; i + 2 * LANES <= k; i += 2 * LANES)                                                                                             \
      for (int r = 0; r < rows; r++)                                                                                                       \
        for (int v = 0; v < 2; v++) sum[r][v] += *(const loose *)(w + r * k + i + v * LANES) * *(const loose *)(a + i + v * LANES);        \
    for (int r = 0; r < rows; r++) {                                                                                                       \
      float all = 0;                                                                                                                       \
      for (int64_t j = i; j < k; j++) all += w[r * k + j] * a[j];                                                                          \
      sum[r][0] += sum[r][1];                                                                                                              \
      for (int l = 0; l < LANES; l++) all += sum[r][0][l];                                                                                 \
      out[r] += all;                                                                                                                       \
    }                                                                                                                                      \
  }                                                                                                                                        \
  INLINE void multiply_cols_##name(const int cols, const product *p) {                                                                     \
    const float *a = p->a, *from = p->from;                                                                                                \
    float *c = p->c;                                                                                                                       \
    for (int64_t left = p->m, n; left > 0; left -= n, a += n * p->k, from += n * p->ldf, c += n * p->ldc) {                                \
      n = left >= most ? most : left >= 4 ? 4 : left;                                                                                      \
      if (n == most)                                                                                                                       \
        tile_##name(cols, most, most == 1 ? ways_of_1 : 1, a, p, from, c);                                                                 \
      else if (n == 4)                                                                                                                     \
        tile_##name(cols, 4, 1, a, p, from, c);                                                                                            \
      else if (n == 3)                                                                                                                     \
        tile_##name(cols, 3, 1, a, p, from, c);                                                                                            \
      else if (n == 2)                                                                                                                     \
        tile_##name(cols, 2, ways_of_2, a, p, from, c);                                                                                    \
      else                                                                                                                                 \
        tile_##name(cols, 1, ways_of_1, a, p, from, c);                                                                                    \
    }                                                                                                                                      \
  }                                                                                                                                        \
  INLINE void multiply_##name(const product *p) {                                                                                          \
    if (p->narrow) multiply_cols_##name(UNITS, p);                                                                                         \
    else multiply_cols_##name(COLS, p);                                                                                                    \
  }

/* ---- cell functions: branch-free, so that the loop over cells becomes vectors ---- */
/* 2^n * 2^r with n the nearest integer of x * log2(e); the magic number leaves n in the low bits of t. n = 128 makes inf. */
INLINE float exp_of(float x) {
  const float magic = 12582912.0f;
  x = x < -87.0f ? -87.0f : x;
  x = x > 89.0f ? 89.0f : x;
  float t = x * 1.44269504f + magic, n = t - magic;
  float r = (x - n * 0.693359375f) * 1.44269504f + n * 3.06131866e-4f; /* x/ln2 - n; the second factor is 0.693359375 / ln2 - 1 */
  float p = 1.53533620e-4f;
  p = p * r + 1.33988739e-3f;
  p = p * r + 9.61843692e-3f;
  p = p * r + 5.55033237e-2f;
  p = p * r + 2.40226477e-1f;
  p = p * r + 6.93147182e-1f;
  return (p * r + 1.0f) * float_of((bits_of(t) << 23) + 0x3f800000u);
}
INLINE float sigmoid_of(float x) { return 1.0f / (1.0f + exp_of(-x)); }
INLINE float tanh_of(float x) {
  float z = float_of(bits_of(x) & 0x7fffffffu), q = x * x;
  float far = 1.0f - 2.0f / (exp_of(2.0f * z) + 1.0f);
  float p = -5.70498686e-3f;
  p = p * q + 2.06390880e-2f;
  p = p * q - 5.37397154e-2f;
  p = p * q + 1.33314416e-1f;
  p = p * q - 3.33332807e-1f;
  float near = x + x * q * p;
  far = float_of(bits_of(far) | (bits_of(x) & 0x80000000u));
  return z < 0.625f ? near : far;
}
/* gates[4][UNITS]; c[UNITS] is updated, h[UNITS] written. */
INLINE void cells(const float *restrict gates, float *restrict c, float *restrict h) {
  for (int j = 0; j < UNITS; j++) {
    float i = sigmoid_of(gates[j]), f = sigmoid_of(gates[UNITS + j]), g = tanh_of(gates[2 * UNITS + j]),
          o = sigmoid_of(gates[3 * UNITS + j]);
    float s = f * c[j] + i * g;
    c[j] = s;
    h[j] = o * tanh_of(s);
  }
}

/* gates[4][UNITS]: r, z, n of x, n of h */
INLINE void gru_cells(const float *restrict gates, const float *restrict old, float *restrict h) {
  for (int j = 0; j < UNITS; j++) {
    float r = sigmoid_of(gates[j]), z = sigmoid_of(gates[UNITS + j]), n = tanh_of(gates[2 * UNITS + j] + r * gates[3 * UNITS + j]);
    h[j] = (1.0f - z) * n + z * old[j];
  }
}

/* ---- pieces of work ---- */
static const int lstm_blocks[2][4] = {{0, 1, 2, 3}, {0, 1, 2, 3}}, gru_blocks[2][4] = {{0, 1, 2, -1}, {0, 1, -1, 2}};
/* Blocks [lo, hi) of both weights. Columns of units past H are 0. */
static void pack(void *ctx, int64_t lo, int64_t hi, int worker) {
  const layer *s = ctx;
  (void)worker;
  for (int64_t b = lo; b < hi; b++) {
    int64_t units = s->H - b * UNITS < UNITS ? s->H - b * UNITS : UNITS;
    for (int m = 0; m < 2; m++) {
      int64_t k = s->k[m];
      float *block = s->packed[m] + b * k * WIDE;
      if (units < UNITS) memset(block, 0, (size_t)(k * WIDE) * sizeof *block);
      for (int gate = 0; gate < 4; gate++) {
        if (s->block[m][gate] < 0) continue;
        const float *from = s->w[m] + (s->block[m][gate] * s->H + b * UNITS) * k;
        int cols = s->gru && gate >= 2 ? UNITS : COLS; /* a panel of one gate */
        float *to = block + gate / 2 * k * COLS + (cols == COLS ? gate % 2 * UNITS : 0);
        for (int64_t at = 0; at < k; at += UNITS) { /* a square at a time, that both sides stay in the first cache */
          int64_t n = k - at < UNITS ? k - at : UNITS;
          for (int64_t u = 0; u < units; u++)
            for (int64_t i = at; i < at + n; i++) to[i * cols + u] = from[u * k + i];
        }
      }
    }
  }
}
static void add_biases(const layer *s) {
  for (int64_t b = 0; b < s->blocks; b++)
    for (int gate = 0; gate < 4; gate++)
      for (int64_t u = 0; u < UNITS; u++) {
        int64_t unit = b * UNITS + u;
        int ih = s->block[0][gate], hh = s->block[1][gate];
        float sum = 0.0f;
        if (unit < s->H && ih >= 0) sum = s->b_ih[ih * s->H + unit];
        if (unit < s->H && hh >= 0) sum += s->b_hh[hh * s->H + unit];
        s->bias[b * WIDE + gate * UNITS + u] = sum;
      }
}
/* g[rows, block] += a[rows, k] w[m][gates of block, k], by rows of w. */
typedef void multiply_fn(const product *p);
typedef void dots_fn(const int rows, const float *w, const float *a, int64_t k, float *out);
INLINE void direct(const layer *s, int64_t b, int m, const float *a, int64_t rows, float *g, dots_fn dots) {
  int64_t k = s->k[m], units = s->H - b * UNITS < UNITS ? s->H - b * UNITS : UNITS;
  for (int gate = 0; gate < 4; gate++)
    for (int64_t u = 0; u < units && s->block[m][gate] >= 0; u += 4) {
      const float *w = s->w[m] + (s->block[m][gate] * s->H + b * UNITS + u) * k;
      for (int64_t r = 0; r < rows; r++) {
        float *to = g + r * s->ldc + b * WIDE + gate * UNITS + u;
        if (units - u >= 4)
          dots(4, w, a + r * k, k, to);
        else
          for (int64_t i = 0; i < units - u; i++) dots(1, w + i * k, a + r * k, k, to + i);
      }
    }
}
/* gates = bias + x W_ih for blocks x groups of SOME_ROWS rows, [lo, hi). */
INLINE void project(const layer *s, int64_t lo, int64_t hi, multiply_fn multiply, dots_fn dots) {
  int64_t groups = (s->rows + SOME_ROWS - 1) / SOME_ROWS, k = s->k[0];
  for (int64_t u = lo; u < hi; u++) {
    int64_t b = u / groups, first = u % groups * SOME_ROWS, m = s->rows - first < SOME_ROWS ? s->rows - first : SOME_ROWS;
    if (s->direct) {
      for (int64_t r = 0; r < m; r++) memcpy(s->gates + (first + r) * s->ldc + b * WIDE, s->bias + b * WIDE, WIDE * sizeof *s->gates);
      direct(s, b, 0, s->x + first * k, m, s->gates + first * s->ldc, dots);
      continue;
    }
    const float *panel = s->packed[0] + b * k * WIDE;
    float *g = s->gates + first * s->ldc + b * WIDE;
    multiply(&(product){s->x + first * k, panel, s->bias + b * WIDE, g, m, k, s->ldc, 0, false});
    multiply(&(product){s->x + first * k, panel + k * COLS, s->bias + b * WIDE + COLS, g + COLS, m, k, s->ldc, 0, s->gru});
    for (int64_t r = 0; s->gru && r < m; r++) memcpy(g + r * s->ldc + COLS + UNITS, s->bias + b * WIDE + COLS + UNITS, UNITS * sizeof *g); /* n of h: to come */
  }
}
/* One step of blocks [lo, hi). */
INLINE void step(const layer *s, int64_t lo, int64_t hi, multiply_fn multiply, dots_fn dots) {
  int64_t k = s->k[1];
  for (int64_t b = lo; b < hi; b++) {
    int64_t units = s->H - b * UNITS < UNITS ? s->H - b * UNITS : UNITS;
    if (s->direct) direct(s, b, 1, s->h, s->B, s->g, dots);
    if (!s->direct) {
      const float *panel = s->packed[1] + b * k * WIDE;
      float *g = s->g + b * WIDE, *second = g + COLS + (s->gru ? UNITS : 0);
      multiply(&(product){s->h, panel, g, g, s->B, k, s->ldc, s->ldc, false});
      multiply(&(product){s->h, panel + k * COLS, second, second, s->B, k, s->ldc, s->ldc, s->gru});
    }
    for (int64_t r = 0; s->gru && r < s->B; r++) {
      const float *g = s->g + r * s->ldc + b * WIDE, *old = s->h + r * s->H + b * UNITS;
      float *h = s->h_new + r * s->H + b * UNITS, few_old[UNITS] = {0}, few_h[UNITS];
      if (units == UNITS) {
        gru_cells(g, old, h);
      } else {
        memcpy(few_old, old, (size_t)units * sizeof *h);
        gru_cells(g, few_old, few_h);
        memcpy(h, few_h, (size_t)units * sizeof *h);
      }
    }
    for (int64_t r = 0; !s->gru && r < s->B; r++) {
      const float *g = s->g + r * s->ldc + b * WIDE;
      float *c = s->c + r * s->H + b * UNITS, *h = s->h_new + r * s->H + b * UNITS;
      if (units == UNITS) {
        cells(g, c, h);
      } else {
        float few_c[UNITS] = {0}, few_h[UNITS];
        memcpy(few_c, c, (size_t)units * sizeof *c);
        cells(g, few_c, few_h);
        memcpy(c, few_c, (size_t)units * sizeof *c);
        memcpy(h, few_h, (size_t)units * sizeof *h);
      }
    }
  }
}

/* ---- one copy per instruction set ---- */
typedef struct isa {
  tn_pool_fn project, step;
} isa;
#define DEFINE_ISA(name, vec, loose, most, ways_of_1, ways_of_2, attribute)                                                                \
  DEFINE_MULTIPLY(name, vec, loose, most, ways_of_1, ways_of_2)                                                                            \
  attribute static void project_##name(void *s, int64_t lo, int64_t hi, int worker) {                                                      \
    (void)worker, project(s, lo, hi, multiply_##name, dots_##name);                                                                        \
  }                                                                                                                                        \
  attribute static void step_##name(void *s, int64_t lo, int64_t hi, int worker) {                                                         \
    (void)worker, step(s, lo, hi, multiply_##name, dots_##name);                                                                           \
  }                                                                                                                                        \
  static const isa isa_##name = {project_##name, step_##name};
#if defined(__x86_64__) /* nothing of Tenon runs below AVX2 there */
DEFINE_ISA(avx2, vec32, loose32, 3, 2, 1, __attribute__((target("avx2,fma"))))
DEFINE_ISA(avx512, vec64, loose64, 8, 4, 2, __attribute__((target("avx512f,avx512dq,avx512vl,avx2,fma"))))
static const isa *const isas[TN_K_N_ISAS] = {NULL, &isa_avx2, &isa_avx512};
#else
DEFINE_ISA(base, vec16, loose16, 1, 1, 1, )
static const isa *const isas[TN_K_N_ISAS] = {&isa_base, &isa_base, &isa_base};
#endif

/* Runs units [0, n) of `each` operations, `share` and more of them at once. */
static void run(tn_pool *pool, tn_pool_fn fn, layer *s, int64_t n, int64_t each, int64_t share) {
  tn_pool_run(pool, fn, s, n, each >= share ? 1 : share / each);
}

/* Memory of n floats, the caller's for good when `kept` is given; *there: its first `packed` floats hold these weights already. */
static float *room_of(tn_k_kept *kept, const layer *s, size_t n, int64_t packed, bool *there) {
  *there = false;
  if (!kept) return tn_aligned_alloc(64, n * sizeof(float));
  if (n > kept->n) {
    float *p = tn_aligned_alloc(64, n * sizeof(float));
    if (!p) return NULL;
    tn_k_kept_free(kept);
    kept->room = p;
    kept->n = n;
  }
  const void *w[2] = {s->w[0], s->w[1]};
  *there = kept->fixed && packed > 0 && kept->packed == packed && kept->w[0] == w[0] && kept->w[1] == w[1] && kept->input == s->k[0];
  kept->packed = packed;   /* 0 when the weights are not packed: the room is written over */
  kept->input = s->k[0];
  kept->w[0] = w[0];
  kept->w[1] = w[1];
  return kept->room;
}
void tn_k_kept_free(tn_k_kept *k) {
  tn_free_aligned(k->room);
  k->room = NULL;
  k->n = 0;
  k->packed = 0;
}

/* c: the cell state to run on, in place (LSTM) */
static tn_status layer_run(tn_pool *pool, tn_k_kept *kept, const tn_tensor *in, bool gru, bool reverse, float *y, float *h_last, float *c) {
  const isa *with = isas[tn_k_best_isa()];
  if (!with) return TN_E_UNSUPPORTED;
  int64_t T = in[0].shape[0], B = in[0].shape[1], I = in[0].shape[2], H = in[5].shape[1];
  const float *x = in[0].data;
  layer s = {.w = {in[1].data, in[2].data}, .b_ih = in[3].data, .b_hh = in[4].data, .B = B, .H = H, .k = {I, H}, .block = gru ? gru_blocks : lstm_blocks, .gru = gru,
             .h = in[5].data, .c = c};
  size_t state_bytes = (size_t)(B * H) * sizeof(float);
  if (state_bytes == 0) return TN_OK;
  if (!gru) memcpy(c, in[6].data, state_bytes);
  if (T) {
    int64_t chunk = B < 192 ? (191 + B) / B : 1; /* steps whose input products are made together */
    if (chunk > T) chunk = T;
    s.blocks = (H + UNITS - 1) / UNITS;
    s.ldc = s.blocks * WIDE;
    s.direct = T * B < FEW_ROWS;
    int64_t packed = s.direct ? 0 : s.ldc * (I + H);
    bool there;
    float *room = room_of(kept, &s, (size_t)(s.ldc * (1 + chunk * B) + packed), packed, &there);
    if (!room) return TN_E_NOMEM;
    s.packed[0] = room;
    s.packed[1] = s.packed[0] + s.ldc * I;
    s.bias = room + packed;
    s.gates = s.bias + s.ldc;
    if (!s.direct && !there) run(pool, pack, &s, s.blocks, (I + H) * WIDE, PACK_SHARE);
    add_biases(&s);
    for (int64_t done = 0; done < T; done += chunk) {
      int64_t n = T - done < chunk ? T - done : chunk, t0 = reverse ? T - done - n : done;
      s.x = x + t0 * B * I;
      s.rows = n * B;
      run(pool, with->project, &s, s.blocks * ((s.rows + SOME_ROWS - 1) / SOME_ROWS),
          (s.rows < SOME_ROWS ? s.rows : SOME_ROWS) * (I + 1) * WIDE, SHARE);
      for (int64_t i = 0; i < n; i++) {
        int64_t t = reverse ? t0 + n - 1 - i : t0 + i;
        s.g = s.gates + (t - t0) * B * s.ldc;
        s.h_new = y + t * B * H;
        run(pool, with->step, &s, s.blocks, B * H * WIDE, SHARE);
        s.h = s.h_new;
      }
    }
    if (!kept) tn_free_aligned(room);
  }
  memcpy(h_last, s.h, state_bytes);
  return TN_OK;
}

tn_status tn_k_lstm(tn_pool *pool, tn_k_kept *kept, const tn_tensor *in, bool reverse, tn_tensor *out) {
  return layer_run(pool, kept, in, false, reverse, out[0].data, out[1].data, out[2].data);
}
tn_status tn_k_gru(tn_pool *pool, tn_k_kept *kept, const tn_tensor *in, bool reverse, tn_tensor *out) {
  return layer_run(pool, kept, in, true, reverse, out[0].data, out[1].data, NULL);
}

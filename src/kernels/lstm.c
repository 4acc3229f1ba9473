/* One direction of one LSTM layer in float32, fast enough for compiled models.
 *
 *   g_t = W_ih x_t + b_ih + W_hh h_{t-1} + b_hh        rows of g in order i, f, g, o
 *   c_t = sigmoid(f) * c_{t-1} + sigmoid(i) * tanh(g)   h_t = sigmoid(o) * tanh(c_t)
 * Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.LSTM.html
 *
 * Idea: both weights are packed once per call into panels of 32 gate columns, [k][32], so that the inner loop runs over
 * neighbouring gates. W_ih x does not depend on time and is done for many steps at once; what is left in the time loop is
 * one product with W_hh and one pass over the cells. h_t is computed where it belongs in y and read from there by step t+1.
 * Vectors are the compiler's (GCC and clang extension), lowered to whatever the function's target has; the body is compiled
 * once per instruction set and chosen at run time. exp and tanh are polynomials of our own (minimax fits), error below
 * 4 ULP. It uses one thread: a recurrent step is too short to share. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3", "fp-contract=fast") /* vectors from the cell loop; c + a * b in one rounding where the target can */
#endif
#include "kernels/kernels_int.h"
#include <string.h>

#define COLS 32 /* gate columns of a panel: two vectors */
#define INLINE static inline __attribute__((always_inline))
typedef float vec __attribute__((vector_size(64), aligned(64), may_alias));

/* c[m, panels * COLS] += a[m, k] * panels[panel][k][COLS]; rows of c are ldc apart, rows of a are k apart. */
typedef struct product {
  const float *a, *packed;
  float *c;
  int64_t m, k, panels, ldc;
} product;

INLINE void tile(const int rows, const float *a, int64_t k, const float *panel, float *c, int64_t ldc) {
  vec acc[8][2];
  for (int r = 0; r < rows; r++) {
    acc[r][0] = *(const vec *)(c + r * ldc);
    acc[r][1] = *(const vec *)(c + r * ldc + COLS / 2);
  }
  for (int64_t i = 0; i < k; i++) {
    vec b0 = *(const vec *)(panel + i * COLS), b1 = *(const vec *)(panel + i * COLS + COLS / 2);
    for (int r = 0; r < rows; r++) {
      acc[r][0] += a[r * k + i] * b0;
      acc[r][1] += a[r * k + i] * b1;
    }
  }
  for (int r = 0; r < rows; r++) {
    *(vec *)(c + r * ldc) = acc[r][0];
    *(vec *)(c + r * ldc + COLS / 2) = acc[r][1];
  }
}
/* `rows` of a at a time, as many as the target's registers hold accumulators for; what is left in smaller tiles. */
INLINE void multiply(const product *p, const int rows) {
  for (int64_t j = 0; j < p->panels; j++) {
    const float *panel = p->packed + j * p->k * COLS, *a = p->a;
    float *c = p->c + j * COLS;
    int64_t left = p->m;
    for (; left >= rows; left -= rows, a += rows * p->k, c += rows * p->ldc) tile(rows, a, p->k, panel, c, p->ldc);
    if (left >= 4) {
      tile(4, a, p->k, panel, c, p->ldc);
      left -= 4, a += 4 * p->k, c += 4 * p->ldc;
    }
    if (left == 3) tile(3, a, p->k, panel, c, p->ldc);
    if (left == 2) tile(2, a, p->k, panel, c, p->ldc);
    if (left == 1) tile(1, a, p->k, panel, c, p->ldc);
  }
}

/* ---- cell functions: branch-free, so that the loop over cells becomes vectors ---- */
INLINE uint32_t bits_of(float f) {
  union {
    float f;
    uint32_t u;
  } v = {.f = f};
  return v.u;
}
INLINE float float_of(uint32_t u) {
  union {
    uint32_t u;
    float f;
  } v = {.u = u};
  return v.f;
}
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
/* gates[4 * n]; c[n] is updated, h[n] written. */
INLINE void step_cells(int64_t n, const float *restrict gates, float *restrict c, float *restrict h) {
  for (int64_t j = 0; j < n; j++) {
    float i = sigmoid_of(gates[j]), f = sigmoid_of(gates[n + j]), g = tanh_of(gates[2 * n + j]), o = sigmoid_of(gates[3 * n + j]);
    float s = f * c[j] + i * g;
    c[j] = s;
    h[j] = o * tanh_of(s);
  }
}

/* ---- one copy per instruction set ---- */
typedef struct isa {
  void (*multiply)(const product *p);
  void (*step_cells)(int64_t n, const float *gates, float *c, float *h);
} isa;
#define DEFINE_ISA(name, rows, attribute)                                                                                                  \
  attribute static void multiply_##name(const product *p) { multiply(p, rows); }                                                           \
  attribute static void step_cells_##name(int64_t n, const float *gates, float *c, float *h) { step_cells(n, gates, c, h); }               \
  static const isa isa_##name = {multiply_##name, step_cells_##name};
DEFINE_ISA(base, 3, )
#if defined(__x86_64__)
DEFINE_ISA(avx2, 3, __attribute__((target("avx2,fma"))))
DEFINE_ISA(avx512, 8, __attribute__((target("avx512f,avx512dq,avx512vl,avx2,fma"))))
#endif

/* Best set the machine has and TENON_ISA allows. */
static const isa *choose_isa(void) {
#if defined(__x86_64__)
  bool only_avx2 = strcmp(tn_env_get(TN_ENV_ISA), "avx2") == 0;
  if (!only_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return &isa_avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &isa_avx2;
#endif
  return &isa_base;
}

/* w[n, k] -> out[panel][k][COLS], columns past n are 0. */
static void pack(const float *w, int64_t n, int64_t k, int64_t panels, float *out) {
  for (int64_t p = 0; p < panels; p++)
    for (int64_t j = 0; j < COLS; j++) {
      int64_t row = p * COLS + j;
      for (int64_t i = 0; i < k; i++) out[(p * k + i) * COLS + j] = row < n ? w[row * k + i] : 0.0f;
    }
}

tn_status tn_k_lstm(const tn_tensor *in, bool reverse, tn_tensor *out) {
  const float *x = in[0].data, *w_ih = in[1].data, *w_hh = in[2].data, *b_ih = in[3].data, *b_hh = in[4].data;
  int64_t T = in[0].shape[0], B = in[0].shape[1], I = in[0].shape[2], H = in[5].shape[1];
  int64_t gates = 4 * H, panels = (gates + COLS - 1) / COLS, ldc = panels * COLS;
  float *y = out[0].data, *h_last = out[1].data, *c = out[2].data;
  const float *h = in[5].data;
  size_t state_bytes = (size_t)(B * H) * sizeof(float);
  if (state_bytes == 0) return TN_OK;
  memcpy(c, in[6].data, state_bytes);
  int64_t chunk = B < 192 ? (191 + B) / B : 1; /* steps whose input products are made together */
  if (chunk > T) chunk = T;
  float *room = T ? tn_aligned_alloc(64, (size_t)(ldc * (I + H + 1 + chunk * B)) * sizeof(float)) : NULL;
  if (T && !room) return TN_E_NOMEM;
  float *packed_ih = room, *packed_hh = room + ldc * I, *bias = room + ldc * (I + H), *xg = bias + ldc;
  if (T) {
    pack(w_ih, gates, I, panels, packed_ih);
    pack(w_hh, gates, H, panels, packed_hh);
    for (int64_t j = 0; j < ldc; j++) bias[j] = j < gates ? b_ih[j] + b_hh[j] : 0.0f;
  }
  const isa *k = choose_isa();
  for (int64_t done = 0; done < T; done += chunk) {
    int64_t n = T - done < chunk ? T - done : chunk, t0 = reverse ? T - done - n : done;
    for (int64_t r = 0; r < n * B; r++) memcpy(xg + r * ldc, bias, (size_t)ldc * sizeof *bias);
    k->multiply(&(product){x + t0 * B * I, packed_ih, xg, n * B, I, panels, ldc});
    for (int64_t s = 0; s < n; s++) {
      int64_t t = reverse ? t0 + n - 1 - s : t0 + s;
      float *g = xg + (t - t0) * B * ldc, *h_new = y + t * B * H;
      k->multiply(&(product){h, packed_hh, g, B, H, panels, ldc});
      for (int64_t b = 0; b < B; b++) k->step_cells(H, g + b * ldc, c + b * H, h_new + b * H);
      h = h_new;
    }
  }
  memcpy(h_last, h, state_bytes);
  tn_free_aligned(room);
  return TN_OK;
}

/* sort, topk, lstm, gru and qdot: order, ties and NaN, short and long rows, both instruction sets, failing allocation. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include <stdlib.h>
#include "kernels_test.h"

static void test_sort(void **state) {
  (void)state;
  const float x[] = {3, NAN, -0.0f, 0, -INFINITY, 3, INFINITY, -1};
  float v[8];
  int64_t i[8];
  tn_tensor in = F32(x, 8), values = F32(v, 8), idx = I64(i, 8);
  assert_int_equal(tn_k_sort(NULL, &in, 0, false, &values, &idx), TN_OK);
  SAME(v, -INFINITY, -1, 0, 0, 3, 3, INFINITY, NAN);
  SAME_I64(i, 4, 7, 2, 3, 0, 5, 6, 1);
  assert_true(signbit(v[2]) && !signbit(v[3])); /* equal, so in their old order, and -0 stays -0 */
  assert_int_equal(tn_k_sort(NULL, &in, 0, true, &values, &idx), TN_OK);
  SAME(v, NAN, INFINITY, 3, 3, 0, 0, -1, -INFINITY);
  SAME_I64(i, 1, 6, 0, 5, 2, 3, 7, 4);
  const int64_t far[] = {INT64_MAX, -1, INT64_MIN, 0};
  int64_t got[4];
  in = I64(far, 2, 2);
  values = I64(got, 2, 2);
  idx = I64(i, 2, 2);
  assert_int_equal(tn_k_sort(NULL, &in, 0, false, &values, &idx), TN_OK);
  SAME_I64(got, INT64_MIN, -1, INT64_MAX, 0);
  SAME_I64(i, 1, 0, 0, 1);
}
/* Long rows (radix) against their definition: sorted, a permutation, stable. */
static void test_sort_long(void **state) {
  (void)state;
  enum { N = 5000 };
  static float x[N], v[N];
  static int64_t i[N];
  static bool seen[N];
  uint32_t r = 1;
  for (int k = 0; k < N; k++) {
    r = r * 1664525u + 1013904223u;
    x[k] = (float)((int32_t)(r >> 20) - 2048) / 8.0f;
  }
  tn_tensor in = F32(x, N), values = F32(v, N), idx = I64(i, N);
  for (int down = 0; down < 2; down++) {
    memset(seen, 0, sizeof seen);
    assert_int_equal(tn_k_sort(NULL, &in, 0, down, &values, &idx), TN_OK);
    for (int k = 0; k < N; k++) {
      assert_true(v[k] == x[i[k]] && !seen[i[k]]);
      seen[i[k]] = true;
      if (k) assert_true(v[k - 1] == v[k] ? i[k - 1] < i[k] : (v[k - 1] < v[k]) != down);
    }
  }
}
static void test_topk(void **state) {
  (void)state;
  const float x[] = {1, 9, 9, NAN, 2, 5, 5, 5, -1, 0};
  float v[6];
  int64_t i[6];
  tn_tensor in = F32(x, 2, 5), values = F32(v, 2, 3), idx = I64(i, 2, 3);
  assert_int_equal(tn_k_topk(NULL, &in, 3, 1, true, &values, &idx), TN_OK);
  SAME(v, NAN, 9, 9, 5, 5, 5);
  SAME_I64(i, 3, 1, 2, 0, 1, 2);
  assert_int_equal(tn_k_topk(NULL, &in, 3, 1, false, &values, &idx), TN_OK);
  SAME(v, 1, 2, 9, -1, 0, 5);
  SAME_I64(i, 0, 4, 1, 3, 4, 0);
  values = F32(v, 1, 5);
  idx = I64(i, 1, 5);
  assert_int_equal(tn_k_topk(NULL, &in, 1, 0, true, &values, &idx), TN_OK);
  SAME(v, 5, 9, 9, NAN, 2);
  SAME_I64(i, 1, 0, 0, 0, 0);
}

/* ---- lstm ---- */
static float unit(uint32_t *r) {
  *r = *r * 1664525u + 1013904223u;
  return (float)(*r >> 8) / 8388608.0f - 1.0f;
}
static void plain_lstm(int T, int B, int I, int H, float **a, bool reverse, double *y, double *h, double *c) {
  for (int k = 0; k < B * H; k++) h[k] = (double)a[5][k], c[k] = (double)a[6][k];
  for (int s = 0; s < T; s++) {
    int t = reverse ? T - 1 - s : s;
    for (int b = 0; b < B; b++)
      for (int j = 0; j < H; j++) {
        double g[4];
        for (int q = 0; q < 4; q++) {
          int row = q * H + j;
          g[q] = (double)a[3][row] + (double)a[4][row];
          for (int k = 0; k < I; k++) g[q] += (double)a[1][row * I + k] * (double)a[0][(t * B + b) * I + k];
          for (int k = 0; k < H; k++) g[q] += (double)a[2][row * H + k] * h[b * H + k];
          if (q != 2) g[q] = 1 / (1 + exp(-g[q]));
        }
        c[b * H + j] = g[1] * c[b * H + j] + g[0] * tanh(g[2]);
        y[(t * B + b) * H + j] = g[3] * tanh(c[b * H + j]);
      }
    memcpy(h, y + t * B * H, sizeof *h * (size_t)(B * H));
  }
}
static void try_lstm(int T, int B, int I, int H, bool reverse) {
  const int64_t shape[7][3] = {{T, B, I}, {4 * H, I}, {4 * H, H}, {4 * H}, {4 * H}, {B, H}, {B, H}}, ys[3] = {T, B, H}, hs[2] = {B, H};
  static const int rank[7] = {3, 2, 2, 1, 1, 2, 2};
  tn_tensor in[7], out[3];
  float *a[7];
  uint32_t r = 5;
  for (int k = 0; k < 7; k++) {
    int64_t n = 1;
    for (int i = 0; i < rank[k]; i++) n *= shape[k][i];
    a[k] = malloc(sizeof(float) * (size_t)(n + 1));
    for (int64_t i = 0; i < n; i++) a[k][i] = unit(&r);
    in[k] = tensor(TN_F32, a[k], shape[k], rank[k]);
  }
  float *y = calloc((size_t)(T * B * H + 1), sizeof *y), *h = calloc((size_t)(B * H + 1), sizeof *h),
        *c = calloc((size_t)(B * H + 1), sizeof *c);
  double *wy = calloc((size_t)(T * B * H + 1), sizeof *wy), *wh = calloc((size_t)(B * H + 1), sizeof *wh),
         *wc = calloc((size_t)(B * H + 1), sizeof *wc);
  out[0] = tensor(TN_F32, y, ys, 3);
  out[1] = tensor(TN_F32, h, hs, 2);
  out[2] = tensor(TN_F32, c, hs, 2);
  assert_int_equal(tn_k_lstm(NULL, NULL, in, reverse, out), TN_OK);
  plain_lstm(T, B, I, H, a, reverse, wy, wh, wc);
  for (int i = 0; i < T * B * H; i++) assert_true(fabs((double)y[i] - wy[i]) < 3e-6);
  for (int i = 0; i < B * H; i++) assert_true(fabs((double)h[i] - wh[i]) < 3e-6 && fabs((double)c[i] - wc[i]) < 6e-6);
  tn_malloc_fail_after(1);
  assert_int_equal(tn_k_lstm(NULL, NULL, in, reverse, out), T && B && H ? TN_E_NOMEM : TN_OK);
  tn_malloc_fail_after(0);
  tn_k_kept kept = {.fixed = true}; /* kept memory: same results, no allocation from the second call on, also with fewer steps in between */
  for (int round = 0; round < 3; round++) {
    const int64_t fewer[3] = {round == 1 && T > 1 ? T - 1 : T, B, I};
    in[0] = tensor(TN_F32, a[0], fewer, 3);
    tn_malloc_fail_after(round ? 1 : 0);
    assert_int_equal(tn_k_lstm(NULL, &kept, in, reverse, out), TN_OK);
    tn_malloc_fail_after(0);
  }
  for (int i = 0; i < T * B * H; i++) assert_true(fabs((double)y[i] - wy[i]) < 3e-6);
  tn_k_kept_free(&kept);
  for (int k = 0; k < 7; k++) free(a[k]);
  free(y), free(h), free(c), free(wy), free(wh), free(wc);
}
static void test_lstm(void **state) {
  static const int size[][4] = {{1, 1, 1, 1},   {4, 2, 3, 5},    {3, 1, 8, 16},  {5, 3, 7, 9},   {2, 4, 0, 3},
                                {0, 2, 3, 4},   {3, 0, 2, 2},    {300, 1, 3, 6}, {2, 250, 2, 3}, {1, 2, 70, 33},
                                {2, 1, 40, 50}, {20, 1, 37, 40}, {9, 2, 5, 18},  {3, 7, 33, 31}, {2, 15, 6, 35}};
  static const char *const isa[] = {"", "avx2"};
  (void)state;
  for (int k = 0; k < 2; k++) {
    setenv("TENON_ISA", isa[k], 1);
    for (size_t i = 0; i < sizeof size / sizeof *size; i++)
      for (int rev = 0; rev < 2; rev++) try_lstm(size[i][0], size[i][1], size[i][2], size[i][3], rev);
  }
  unsetenv("TENON_ISA");
}
/* GRU by torch's formula: r, z, n; the hidden bias of n under the reset gate */
static void plain_gru(int T, int B, int I, int H, float **a, bool reverse, double *y, double *h) {
  for (int k = 0; k < B * H; k++) h[k] = (double)a[5][k];
  for (int s = 0; s < T; s++) {
    int t = reverse ? T - 1 - s : s;
    for (int b = 0; b < B; b++)
      for (int j = 0; j < H; j++) {
        double gx[3], gh[3];
        for (int q = 0; q < 3; q++) {
          int row = q * H + j;
          gx[q] = (double)a[3][row];
          gh[q] = (double)a[4][row];
          for (int k = 0; k < I; k++) gx[q] += (double)a[1][row * I + k] * (double)a[0][(t * B + b) * I + k];
          for (int k = 0; k < H; k++) gh[q] += (double)a[2][row * H + k] * h[b * H + k];
        }
        double r = 1 / (1 + exp(-gx[0] - gh[0])), z = 1 / (1 + exp(-gx[1] - gh[1])), n = tanh(gx[2] + r * gh[2]);
        y[(t * B + b) * H + j] = (1 - z) * n + z * h[b * H + j];
      }
    memcpy(h, y + t * B * H, sizeof *h * (size_t)(B * H));
  }
}
static void try_gru(int T, int B, int I, int H, bool reverse) {
  const int64_t shape[6][3] = {{T, B, I}, {3 * H, I}, {3 * H, H}, {3 * H}, {3 * H}, {B, H}}, ys[3] = {T, B, H}, hs[2] = {B, H};
  static const int rank[6] = {3, 2, 2, 1, 1, 2};
  tn_tensor in[6], out[2];
  float *a[6];
  uint32_t r = 7;
  for (int k = 0; k < 6; k++) {
    int64_t n = 1;
    for (int i = 0; i < rank[k]; i++) n *= shape[k][i];
    a[k] = malloc(sizeof(float) * (size_t)(n + 1));
    for (int64_t i = 0; i < n; i++) a[k][i] = unit(&r);
    in[k] = tensor(TN_F32, a[k], shape[k], rank[k]);
  }
  float *y = calloc((size_t)(T * B * H + 1), sizeof *y), *h = calloc((size_t)(B * H + 1), sizeof *h);
  double *wy = calloc((size_t)(T * B * H + 1), sizeof *wy), *wh = calloc((size_t)(B * H + 1), sizeof *wh);
  out[0] = tensor(TN_F32, y, ys, 3);
  out[1] = tensor(TN_F32, h, hs, 2);
  assert_int_equal(tn_k_gru(NULL, NULL, in, reverse, out), TN_OK);
  plain_gru(T, B, I, H, a, reverse, wy, wh);
  for (int i = 0; i < T * B * H; i++) assert_true(fabs((double)y[i] - wy[i]) < 3e-6);
  for (int i = 0; i < B * H; i++) assert_true(fabs((double)h[i] - wh[i]) < 3e-6);
  tn_malloc_fail_after(1);
  assert_int_equal(tn_k_gru(NULL, NULL, in, reverse, out), T && B && H ? TN_E_NOMEM : TN_OK);
  tn_malloc_fail_after(0);
  for (int k = 0; k < 6; k++) free(a[k]);
  free(y), free(h), free(wy), free(wh);
}
static void test_gru(void **state) {
  static const int size[][4] = {{1, 1, 1, 1}, {4, 2, 3, 5}, {3, 1, 8, 16}, {5, 3, 7, 9}, {2, 4, 0, 3}, {0, 2, 3, 4}, {3, 0, 2, 2}, {300, 1, 3, 6}, {2, 250, 2, 3}, {20, 1, 37, 40}, {3, 7, 33, 31}};
  static const char *const isa[] = {"", "avx2"};
  (void)state;
  for (int k = 0; k < 2; k++) {
    setenv("TENON_ISA", isa[k], 1);
    for (size_t i = 0; i < sizeof size / sizeof *size; i++)
      for (int rev = 0; rev < 2; rev++) try_gru(size[i][0], size[i][1], size[i][2], size[i][3], rev);
  }
  unsetenv("TENON_ISA");
}
/* NaN goes through, huge gates saturate. */
static void test_lstm_edges(void **state) {
  (void)state;
  const float x[] = {0}, w[4] = {0}, zero[1] = {0}, c0[1] = {3};
  float b[4] = {1e30f, 1e30f, -1e30f, 1e30f}, y[1], h[1], c[1];
  tn_tensor in[7] = {F32(x, 1, 1, 1), F32(w, 4, 1), F32(w, 4, 1), F32(b, 4), F32(w, 4), F32(zero, 1, 1), F32(c0, 1, 1)};
  tn_tensor out[3] = {F32(y, 1, 1, 1), F32(h, 1, 1), F32(c, 1, 1)};
  assert_int_equal(tn_k_lstm(NULL, NULL, in, false, out), TN_OK);
  assert_true(c[0] == 2.0f && fabsf(y[0] - tanhf(2.0f)) < 1e-6f && h[0] == y[0]);
  b[0] = -1e30f;
  b[1] = -1e30f;
  assert_int_equal(tn_k_lstm(NULL, NULL, in, false, out), TN_OK);
  assert_true(c[0] == 0.0f && y[0] == 0.0f);
  b[1] = NAN;
  assert_int_equal(tn_k_lstm(NULL, NULL, in, false, out), TN_OK);
  assert_true(isnan(c[0]) && isnan(y[0]));
}
/* Against the sum itself: sizes around panels, groups and chunks; extreme bytes; every instruction set. */
static void try_qdot(int M, int K, int N) {
  int P = (N + 15) / 16, Q = (K + 3) / 4;
  uint8_t *x = calloc((size_t)(M * K) + 1, 1);
  int8_t *b = calloc((size_t)(K * N) + 1, 1), *w = calloc((size_t)(P * Q) * 64 + 1, 1);
  int32_t *y = calloc((size_t)(M * N) + 1, sizeof *y);
  uint32_t r = 7;
  for (int i = 0; i < M * K; i++) { r = r * 1664525u + 1013904223u; x[i] = r & 1u << 30 ? 255 : (uint8_t)(r >> 20); }
  for (int i = 0; i < K * N; i++) { r = r * 1664525u + 1013904223u; b[i] = r & 1u << 30 ? -128 : (int8_t)(r >> 20); }
  for (int k = 0; k < K; k++)
    for (int n = 0; n < N; n++) w[((n / 16 * Q + k / 4) * 16 + n % 16) * 4 + k % 4] = b[k * N + n];
  int64_t xs[2] = {M, K}, ws[4] = {P, Q, 16, 4}, ys[2] = {M, N};
  tn_tensor tx = {.data = x, .shape = xs, .rank = 2, .dtype = TN_U8}, tw = {.data = w, .shape = ws, .rank = 4, .dtype = TN_I8}, ty = {.data = y, .shape = ys, .rank = 2, .dtype = TN_I32};
  assert_int_equal(tn_k_qdot(NULL, &tx, &tw, &ty), TN_OK);
  for (int m = 0; m < M; m++)
    for (int n = 0; n < N; n++) {
      int32_t s = 0;
      for (int k = 0; k < K; k++) s += x[m * K + k] * b[k * N + n];
      assert_int_equal(y[m * N + n], s);
    }
  ws[1]++;
  assert_int_equal(tn_k_qdot(NULL, &tx, &tw, &ty), TN_E_VERIFY);
  free(x); free(b); free(w); free(y);
}
static void test_qdot(void **state) {
  (void)state;
  static const int size[][3] = {{1, 1, 1}, {1, 4, 16}, {3, 5, 17}, {7, 64, 64}, {49, 31, 80}, {6, 130, 70}, {0, 4, 4}, {100, 3, 130}};
  for (int isa = 0; isa < 2; isa++) {
    if (isa) setenv("TENON_ISA", "avx2", 1);
    for (size_t i = 0; i < sizeof size / sizeof *size; i++) try_qdot(size[i][0], size[i][1], size[i][2]);
  }
  unsetenv("TENON_ISA");
}

static void test_nomem(void **state) {
  (void)state;
  const float x[2] = {2, 1};
  float v[2];
  int64_t i[2];
  tn_tensor in = F32(x, 2), values = F32(v, 2), idx = I64(i, 2);
  tn_malloc_fail_after(1);
  assert_int_equal(tn_k_sort(NULL, &in, 0, false, &values, &idx), TN_E_NOMEM);
  tn_malloc_fail_after(1);
  assert_int_equal(tn_k_topk(NULL, &in, 1, 0, true, &values, &idx), TN_E_NOMEM);
  tn_malloc_fail_after(0);
}
int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_sort), cmocka_unit_test(test_sort_long),  cmocka_unit_test(test_topk),
                                     cmocka_unit_test(test_lstm), cmocka_unit_test(test_lstm_edges), cmocka_unit_test(test_gru), cmocka_unit_test(test_qdot), cmocka_unit_test(test_nomem)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

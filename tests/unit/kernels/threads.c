/* Library kernels shared out over a pool: the same results as from the caller alone, bit by bit; errors come back. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "kernels_test.h"

static tn_pool *pool;
static uint32_t state_ = 11;
static uint32_t rnd(void) { return (state_ = state_ * 1664525u + 1013904223u) >> 8; }
static float *floats(int64_t n) {
  float *x = malloc(sizeof *x * (size_t)n);
  for (int64_t i = 0; i < n; i++) x[i] = (float)(rnd() % 2001) / 1000.0f - 1.0f;
  return x;
}
static int64_t *places(int64_t n, int64_t size) {
  int64_t *x = malloc(sizeof *x * (size_t)n);
  for (int64_t i = 0; i < n; i++) x[i] = rnd() % size - (rnd() % 2 ? size : 0);
  return x;
}

static void test_sort(void **state) {
  (void)state;
  static const int64_t shapes[][3] = {{200, 300, 1}, {7, 500, 20}, {3, 9000, 1}, {4000, 5, 1}};
  for (int s = 0; s < 4; s++) {
    const int64_t *shape = shapes[s], n = shape[0] * shape[1] * shape[2], k = shape[1] / 3;
    float *x = floats(n), *v[2] = {floats(n), floats(n)};
    int64_t *i[2] = {places(n, 5), places(n, 5)};
    tn_tensor in = tensor(TN_F32, x, shape, 3);
    for (int t = 0; t < 2; t++) {
      tn_tensor values = tensor(TN_F32, v[t], shape, 3), idx = tensor(TN_I64, i[t], shape, 3);
      assert_int_equal(tn_k_sort(t ? pool : NULL, &in, 1, s % 2, &values, &idx), TN_OK);
    }
    assert_memory_equal(v[0], v[1], (size_t)n * sizeof *x);
    assert_memory_equal(i[0], i[1], (size_t)n * sizeof *i[0]);
    const int64_t few[3] = {shape[0], k, shape[2]};
    for (int t = 0; t < 2; t++) {
      tn_tensor values = tensor(TN_F32, v[t], few, 3), idx = tensor(TN_I64, i[t], few, 3);
      assert_int_equal(tn_k_topk(t ? pool : NULL, &in, k, 1, s % 2, &values, &idx), TN_OK);
    }
    assert_memory_equal(v[0], v[1], (size_t)n * sizeof *x);
    assert_memory_equal(i[0], i[1], (size_t)n * sizeof *i[0]);
    tn_tensor values = tensor(TN_F32, v[0], shape, 3), idx = tensor(TN_I64, i[0], shape, 3);
    tn_malloc_fail_after(1);
    assert_int_equal(tn_k_sort(pool, &in, 1, false, &values, &idx), TN_E_NOMEM);
    tn_malloc_fail_after(1);
    assert_int_equal(tn_k_topk(pool, &in, k, 1, false, &values, &idx), TN_E_NOMEM);
    tn_malloc_fail_after(0);
    free(x), free(v[0]), free(v[1]), free(i[0]), free(i[1]);
  }
}

static void test_scatter(void **state) {
  (void)state;
  static const char *const how[] = {"set", "sum", "prod", "max", "min"};
  static const struct {
    int64_t x[3], idx[3];
    int dim;
  } t[] = {{{40, 600, 3}, {40, 500, 3}, 1},   {{100, 10, 700}, {100, 9, 600}, 1}, {{300, 900, 1}, {200, 900, 1}, 0},
           {{30, 20, 100}, {30, 20, 200}, 2}, {{50, 2000, 1}, {80, 1999, 1}, 0},  {{5, 3, 70000}, {9, 3, 70000}, 0}};
  for (size_t c = 0; c < sizeof t / sizeof *t; c++)
    for (int h = 0; h < 5; h++) {
      int64_t n = t[c].x[0] * t[c].x[1] * t[c].x[2], m = t[c].idx[0] * t[c].idx[1] * t[c].idx[2];
      float *x = floats(n), *src = floats(m), *got[2] = {floats(n), floats(n)};
      int64_t *i = places(m, t[c].x[t[c].dim]);
      tn_tensor in = tensor(TN_F32, x, t[c].x, 3), idx = tensor(TN_I64, i, t[c].idx, 3), s = tensor(TN_F32, src, t[c].idx, 3);
      for (int k = 0; k < 2; k++) {
        tn_tensor out = tensor(TN_F32, got[k], t[c].x, 3);
        assert_int_equal(tn_k_scatter(k ? pool : NULL, &in, &idx, &s, t[c].dim, how[h], &out), TN_OK);
      }
      assert_memory_equal(got[0], got[1], (size_t)n * sizeof *x);
      i[m - 1] = t[c].x[t[c].dim];
      tn_tensor out = tensor(TN_F32, got[1], t[c].x, 3);
      assert_int_equal(tn_k_scatter(pool, &in, &idx, &s, t[c].dim, how[h], &out), TN_E_INDEX);
      free(x), free(src), free(got[0]), free(got[1]), free(i);
    }
}
/* One element a time: the definition. */
static void plain_put(float *y, const int64_t *i, const float *v, int64_t n, int64_t rows, int64_t block, bool stretched, bool add) {
  for (int64_t k = 0; k < n; k++)
    for (int64_t e = 0; e < block; e++) {
      float *to = &y[(i[k] < 0 ? i[k] + rows : i[k]) * block + e], from = v[stretched ? k : k * block + e];
      *to = add ? *to + from : from;
    }
}
static void test_put(void **state) {
  (void)state;
  enum { ROWS = 90, N = 70, BLOCK = 1100 };
  float *x = floats(ROWS * BLOCK), *v = floats(N * BLOCK), *want = floats(ROWS * BLOCK), *got = floats(ROWS * BLOCK);
  int64_t *i = places(N, ROWS);
  tn_tensor in = F32(x, ROWS, 11, 100), idx = I64(i, N), out = F32(got, ROWS, 11, 100);
  for (int k = 0; k < 8; k++) {
    bool stretched = k & 1, add = k & 2;
    tn_tensor values = stretched ? F32(v, N, 1, 1) : F32(v, N, 11, 100);
    memcpy(want, x, sizeof *x * ROWS * BLOCK);
    plain_put(want, i, v, N, ROWS, BLOCK, stretched, add);
    assert_int_equal(tn_k_index_put(k & 4 ? pool : NULL, &in, &values, &idx, (const int[]){0}, 1, add, &out), TN_OK);
    assert_memory_equal(got, want, sizeof *x * ROWS * BLOCK);
  }
  tn_tensor values = F32(v, N, 11, 100);
  i[N / 2] = ROWS;
  assert_int_equal(tn_k_index_put(pool, &in, &values, &idx, (const int[]){0}, 1, false, &out), TN_E_INDEX);
  free(x), free(v), free(want), free(got), free(i);
}

static void test_lstm(void **state) {
  (void)state;
  enum { T = 5, B = 70, I = 60, H = 100 };
  static const int64_t shape[10][3] = {{T, B, I}, {4 * H, I}, {4 * H, H}, {4 * H}, {4 * H}, {B, H}, {B, H}, {T, B, H}, {B, H}, {B, H}};
  static const int rank[10] = {3, 2, 2, 1, 1, 2, 2, 3, 2, 2};
  static const char *const isa[] = {"", "avx2"};
  for (int a = 0; a < 2; a++)
    for (int reverse = 0; reverse < 2; reverse++) {
      tn_tensor t[10];
      float *got[2][3];
      setenv("TENON_ISA", isa[a], 1);
      for (int k = 0; k < 10; k++) {
        int64_t n = 1;
        for (int d = 0; d < rank[k]; d++) n *= shape[k][d];
        t[k] = tensor(TN_F32, floats(n), shape[k], rank[k]);
        if (k >= 7) got[0][k - 7] = t[k].data, got[1][k - 7] = floats(n);
      }
      for (int k = 0; k < 2; k++) {
        for (int o = 0; o < 3; o++) t[7 + o].data = got[k][o];
        assert_int_equal(tn_k_lstm(k ? pool : NULL, NULL, t, reverse, t + 7), TN_OK);
      }
      for (int o = 0; o < 3; o++) {
        assert_memory_equal(got[0][o], got[1][o], sizeof(float) * (o ? B * H : T * B * H));
        free(got[0][o]), free(got[1][o]);
      }
      for (int k = 0; k < 7; k++) free(t[k].data);
    }
  unsetenv("TENON_ISA");
}

int main(void) {
  pool = tn_pool_create(3);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_sort), cmocka_unit_test(test_scatter), cmocka_unit_test(test_put),
                                     cmocka_unit_test(test_lstm)};
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  tn_pool_destroy(pool);
  return failed;
}

/* scan against its reference: every dtype, combiner and way of going through memory, with and without threads, on each
 * instruction set. Values are small integers, so that regrouped sums are exact and results must be equal. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "kernels_test.h"

static const tn_dtype dtypes[] = {TN_F32, TN_F64, TN_F16, TN_BF16, TN_I64, TN_I32, TN_I16, TN_I8, TN_U8, TN_BOOL, TN_U16, TN_U32, TN_U64};
static const int64_t shapes[][3] = {{1, 1, 1},   {1, 7, 1},   {1, 2047, 1}, {1, 2048, 1},  {1, 5000, 1}, {2, 300, 1},
                                    {3, 257, 1}, {4, 256, 1}, {9, 31, 1},   {9, 33, 1},    {17, 513, 1}, {5, 40, 3},
                                    {1, 600, 2}, {2, 50, 15}, {2, 50, 16},  {3, 20, 65},   {2, 9, 513},  {1, 4, 1500},
                                    {40, 2, 1},  {0, 3, 2},   {2, 0, 3},    {70, 1000, 1}, {2, 100, 700}};

static bool same(tn_dtype t, const char *a, const char *b, int64_t i) {
  tn_num x = tn_num_load(t, a + i * (int64_t)tn_dtype_size(t)), y = tn_num_load(t, b + i * (int64_t)tn_dtype_size(t));
  if (!tn_dtype_is_float(t)) return x.i == y.i;
  return (isnan(x.f) && isnan(y.f)) || (x.f == y.f && signbit(x.f) == signbit(y.f));
}
static void compare(tn_pool *pool, tn_combiner c, tn_dtype t, const void *x, const int64_t *shape, int rank, int dim) {
  int64_t n = 1;
  for (int i = 0; i < rank; i++) n *= shape[i];
  size_t bytes = (size_t)n * tn_dtype_size(t);
  char *got = malloc(bytes + 8), *want = malloc(bytes + 8);
  memset(got, 0x5a, bytes + 8);
  tn_tensor in = tensor(t, x, shape, rank), a = tensor(t, got, shape, rank), b = tensor(t, want, shape, rank);
  tn_k_scan(pool, c, &in, dim, &a);
  tn_k_scan_ref(c, &in, dim, &b);
  for (int64_t i = 0; i < n; i++)
    if (!same(t, got, want, i)) {
      print_error("%s of %s, dim %d of [%d, %d, ..], %d threads: element %d differs\n", tn_combiner_name(c), tn_dtype_name(t), dim,
                  (int)shape[0], rank > 1 ? (int)shape[1] : 1, tn_pool_n_threads(pool), (int)i);
      fail();
    }
  for (int i = 0; i < 8; i++) assert_int_equal(got[bytes + (size_t)i], 0x5a);
  free(got), free(want);
}
static void fill(tn_dtype t, char *x, int64_t n, tn_combiner c) {
  uint32_t r = 7;
  for (int64_t i = 0; i < n; i++) {
    r = r * 1664525u + 1013904223u;
    int v = c == TN_C_PROD ? 1 - 2 * (int)(r >> 31) : (int)(r >> 29) - 3;
    tn_num_store(t, x + i * (int64_t)tn_dtype_size(t), tn_dtype_is_float(t) ? (tn_num){.f = v} : (tn_num){.i = t == TN_BOOL ? v > 0 : v});
  }
}
static void for_each_isa(void (*fn)(tn_pool *)) {
  static const char *const isa[] = {"", "avx2"};
  tn_pool *pool = tn_pool_create(3);
  for (int k = 0; k < 2; k++) {
    setenv("TENON_ISA", isa[k], 1);
    fn(NULL);
    fn(pool);
  }
  unsetenv("TENON_ISA");
  tn_pool_destroy(pool);
}

static void try_all(tn_pool *pool) {
  char *x = malloc(150000 * 8);
  for (size_t t = 0; t < sizeof dtypes / sizeof *dtypes; t++)
    for (tn_combiner c = TN_C_SUM; c <= TN_C_ALL; c++) {
      bool boolean = dtypes[t] == TN_BOOL;
      if (c < TN_C_MAX ? boolean : c > TN_C_MIN && !boolean) continue;
      fill(dtypes[t], x, 150000, c);
      for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) compare(pool, c, dtypes[t], x, shapes[s], 3, 1);
    }
  fill(TN_F32, x, 150000, TN_C_SUM);
  compare(pool, TN_C_SUM, TN_F32, x, (const int64_t[]){3, 4, 50, 6}, 4, 0);
  compare(pool, TN_C_SUM, TN_F32, x, (const int64_t[]){3, 4, 50, 6}, 4, 3);
  compare(pool, TN_C_SUM, TN_F32, x, (const int64_t[]){1}, 0, 0);
  free(x);
}
static void test_all(void **state) {
  (void)state;
  for_each_isa(try_all);
}

/* NaN, infinities, signed zeros and the ends of the range, at every place of a vector. */
static void try_odd(tn_pool *pool) {
  static const double odd[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 65504, -3e38, 1e-40, 0x1p-24, 1e300};
  char x[400 * 8];
  for (int t = 0; t < 4; t++)
    for (tn_combiner c = TN_C_SUM; c <= TN_C_MIN; c++)
      for (size_t o = 0; o < (c == TN_C_SUM && dtypes[t] != TN_F64 ? 5 : sizeof odd / sizeof *odd);
           o++) /* others vanish in some orders of a sum */
        for (int at = 0; at < 20; at += 3) {
          fill(dtypes[t], x, 400, c);
          for (int r = 0; r < 2; r++) {
            tn_num v = tn_num_cast((tn_num){.f = odd[(o + (size_t)r) % (sizeof odd / sizeof *odd)]}, TN_F64, dtypes[t]);
            tn_num_store(dtypes[t], x + (size_t)(at * (r + 1)) * tn_dtype_size(dtypes[t]), v);
          }
          compare(pool, c, dtypes[t], x, (const int64_t[]){1, 400}, 2, 1);
          compare(pool, c, dtypes[t], x, (const int64_t[]){10, 40}, 2, 1);
          compare(pool, c, dtypes[t], x, (const int64_t[]){20, 20}, 2, 0);
        }
  int64_t far[40];
  for (int i = 0; i < 40; i++) far[i] = i % 3 ? INT64_MAX - i : INT64_MIN + i;
  for (tn_combiner c = TN_C_SUM; c <= TN_C_MIN; c++) compare(pool, c, TN_I64, far, (const int64_t[]){40}, 1, 0);
}
static void test_odd(void **state) {
  (void)state;
  for_each_isa(try_odd);
}

/* All 16-bit floats, and floats that lie between them, through the conversions. */
static void try_halves(tn_pool *pool) {
  uint16_t *h = malloc(65536 * 2 * sizeof *h);
  for (int i = 0; i < 65536; i++) h[i] = (uint16_t)i;
  for (int t = 2; t < 4; t++) {
    compare(pool, TN_C_MAX, dtypes[t], h, (const int64_t[]){65536, 1}, 2, 1);
    compare(pool, TN_C_MAX, dtypes[t], h, (const int64_t[]){1, 65536}, 2, 0);
    for (int i = 0; i < 65536; i++) h[2 * i] = (uint16_t)i, h[2 * i + 1] = (uint16_t)(i * 77 + 1);
    compare(pool, TN_C_SUM, dtypes[t], h, (const int64_t[]){65536, 2}, 2, 1);
    for (int i = 0; i < 65536; i++) h[i] = (uint16_t)i;
  }
  free(h);
}
static void test_halves(void **state) {
  (void)state;
  for_each_isa(try_halves);
}

/* Sums that must round: within one unit in the last place, and the same for any number of threads. */
static void test_rounding(void **state) {
  (void)state;
  enum { N = 100000 };
  float *x = malloc(N * sizeof *x), *got = malloc(N * sizeof *x), *again = malloc(N * sizeof *x);
  uint32_t r = 3;
  for (int i = 0; i < N; i++) r = r * 1664525u + 1013904223u, x[i] = (float)(r >> 8) / 16777216.0f - 0.4f;
  tn_pool *pool = tn_pool_create(3);
  for (int rows = 1; rows <= 100; rows *= 10) {
    tn_tensor in = F32(x, rows, N / rows), a = F32(got, rows, N / rows), b = F32(again, rows, N / rows);
    tn_k_scan(NULL, TN_C_SUM, &in, 1, &a);
    tn_k_scan(pool, TN_C_SUM, &in, 1, &b);
    assert_memory_equal(got, again, N * sizeof *x);
    for (int i = 0; i < rows; i++) {
      double sum = 0;
      for (int k = i * (N / rows); k < (i + 1) * (N / rows); k++) {
        sum += (double)x[k];
        assert_true(fabs((double)got[k] - sum) <= fabs(sum) * 0x1p-24 + 1e-12);
      }
    }
  }
  tn_pool_destroy(pool);
  free(x), free(got), free(again);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_all), cmocka_unit_test(test_odd), cmocka_unit_test(test_halves),
                                     cmocka_unit_test(test_rounding)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

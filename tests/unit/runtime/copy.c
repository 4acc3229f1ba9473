/* Strided copies of random shapes, strides and dtypes against element-wise addressing; small ones in the caller, big ones on
 * the pool. */
#include "runtime/runtime_int.h"
#include "runtime_test.h"

static uint64_t rng = 88172645463325252u;
static int64_t rnd(int64_t n) {
  rng ^= rng << 13, rng ^= rng >> 7, rng ^= rng << 17;
  return (int64_t)(rng >> 20) % n;
}

/* Strides of a permuted dense layout, some dims with gaps, some running backwards; returns the elements covered. */
static int64_t random_strides(int rank, const int64_t *shape, int64_t *stride, int64_t *start) {
  int order[8];
  int64_t all = 1;
  for (int k = 0; k < rank; k++) order[k] = k;
  for (int k = rank - 1; k > 0; k--) {
    int64_t j = rnd(4) ? k : rnd(k + 1);
    int t = order[k];
    order[k] = order[j], order[j] = t;
  }
  *start = 0;
  for (int k = rank; k-- > 0;) {
    int d = order[k];
    all *= rnd(5) ? 1 : 2;
    stride[d] = all;
    all *= shape[d];
    if (rnd(6) == 0) {
      *start += (shape[d] - 1) * stride[d];
      stride[d] = -stride[d];
    }
  }
  return all;
}

static void check_one(int rank, int64_t most, tn_pool *pool) {
  static const tn_dtype types[] = {TN_U8, TN_BF16, TN_F32, TN_I64};
  tn_dtype type = types[rnd(4)];
  int64_t size = (int64_t)tn_dtype_size(type), shape[8], ss[8], ds[8], s0, d0, at[8] = {0};
  for (int k = 0; k < rank; k++) shape[k] = 1 + rnd(most);
  int64_t sn = random_strides(rank, shape, ss, &s0), dn = random_strides(rank, shape, ds, &d0);
  unsigned char *s = malloc((size_t)(sn * size)), *d = malloc((size_t)(dn * size));
  for (int64_t i = 0; i < sn * size; i++) s[i] = (unsigned char)rnd(256);
  memset(d, 0xee, (size_t)(dn * size));
  tn_tensor src = {s + s0 * size, shape, ss, rank, type}, dst = {d + d0 * size, shape, ds, rank, type};
  tn_copy_strided(pool, &src, &dst);
  for (int64_t n = 0;; n++) {
    int64_t so = s0, to = d0;
    for (int k = 0; k < rank; k++) so += at[k] * ss[k], to += at[k] * ds[k];
    assert_memory_equal(s + so * size, d + to * size, (size_t)size);
    memset(d + to * size, 0xee, (size_t)size);
    int k = rank - 1;
    for (; k >= 0 && ++at[k] == shape[k]; k--) at[k] = 0;
    if (k < 0) break;
  }
  for (int64_t i = 0; i < dn * size; i++) assert_int_equal(d[i], 0xee); /* gaps are left alone */
  free(s);
  free(d);
}

static void test_small(void **state) {
  (void)state;
  for (int i = 0; i < 2000; i++) check_one((int)rnd(6), 6, NULL);
}

static void test_big(void **state) {
  (void)state;
  for (int i = 0; i < 24; i++) check_one(1 + (int)rnd(3), i % 2 ? 200 : 90, tn_device_pool(3));
  int64_t shape[1] = {3 << 20}, stride[1] = {1};
  unsigned char *s = malloc(6 << 20), *d = s + (3 << 20);
  for (int i = 0; i < 3 << 20; i++) s[i] = (unsigned char)(i * 7);
  tn_tensor src = {s, shape, stride, 1, TN_U8}, dst = {d, shape, stride, 1, TN_U8};
  tn_copy_strided(tn_device_pool(3), &src, &dst);
  assert_memory_equal(s, d, 3 << 20);
  free(s);
}

/* One value, or one line, to many places. */
static void test_stretched(void **state) {
  (void)state;
  int64_t shape[3] = {5, 70, 33}, strides[4][3] = {{0, 0, 0}, {0, 0, 1}, {0, 1, 0}, {1, 0, 0}}, dense[3] = {70 * 33, 33, 1};
  float s[70], d[5 * 70 * 33];
  for (int i = 0; i < 70; i++) s[i] = (float)i;
  for (int k = 0; k < 4; k++) {
    tn_tensor src = {s, shape, strides[k], 3, TN_F32}, dst = {d, shape, dense, 3, TN_F32};
    tn_copy_strided(NULL, &src, &dst);
    for (int i = 0; i < 5 * 70 * 33; i++) assert_true(d[i] == (float)(k == 0 ? 0 : k == 1 ? i % 33 : k == 2 ? i / 33 % 70 : i / (70 * 33)));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_small), cmocka_unit_test(test_big), cmocka_unit_test(test_stretched)};
  (void)load_object;
  return cmocka_run_group_tests(tests, NULL, NULL);
}

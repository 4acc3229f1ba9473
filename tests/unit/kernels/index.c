/* take, gather, index, index_put, scatter: values by hand, negative places, places outside. */
#include "kernels_test.h"

static const float x6[] = {0, 1, 2, 3, 4, 5};

static void test_take(void **state) {
  (void)state;
  const int64_t i[] = {2, -3, -1, 0};
  const int32_t j[] = {-1};
  float got[12];
  tn_tensor x = F32(x6, 2, 3), idx = I64(i, 2, 2), out = F32(got, 2, 2, 2);
  assert_int_equal(tn_k_take_ref(&x, &idx, 1, &out), TN_OK);
  SAME(got, 2, 0, 2, 0, 5, 3, 5, 3);
  idx = tensor(TN_I32, j, DIMS(1));
  out = F32(got, 1, 3);
  assert_int_equal(tn_k_take_ref(&x, &idx, 0, &out), TN_OK);
  SAME(got, 3, 4, 5);
  for (int64_t bad = -4; bad <= 3; bad += 7) {
    idx = I64(&bad, 1);
    out = F32(got, 2, 1);
    assert_int_equal(tn_k_take_ref(&x, &idx, 1, &out), TN_E_INDEX);
  }
  const int64_t far = INT64_MIN;
  idx = I64(&far, 1);
  assert_int_equal(tn_k_take_ref(&x, &idx, 1, &out), TN_E_INDEX);
  x = F32(NULL, 2, 0);
  const int64_t zero = 0;
  idx = I64(&zero, 1);
  assert_int_equal(tn_k_take_ref(&x, &idx, 1, &out), TN_E_INDEX); /* nothing to take */
}
static void test_gather(void **state) {
  (void)state;
  const int64_t i[] = {1, 0, -1, 0, 0, 1}, bad[] = {0, 2};
  float got[6];
  tn_tensor x = F32(x6, 2, 3), idx = I64(i, 2, 3), out = F32(got, 2, 3);
  assert_int_equal(tn_k_gather_ref(&x, &idx, 0, &out), TN_OK);
  SAME(got, 3, 1, 5, 0, 1, 5);
  idx = I64(i, 1, 4);
  out = F32(got, 1, 4);
  assert_int_equal(tn_k_gather_ref(&x, &idx, 1, &out), TN_OK);
  SAME(got, 1, 0, 2, 0);
  idx = I64(bad, 1, 2);
  assert_int_equal(tn_k_gather_ref(&x, &idx, 0, &out), TN_E_INDEX);
}
static void test_index(void **state) {
  (void)state;
  float x[24], got[24];
  for (int i = 0; i < 24; i++) x[i] = (float)i;
  const int64_t a[] = {1, 0}, b[] = {2, -1, 0};
  tn_tensor t = F32(x, 2, 3, 4), out = F32(got, 2, 4);
  tn_tensor idx[2] = {I64(a, 2), I64(b, 2)};
  assert_int_equal(tn_k_index_ref(&t, idx, (const int[]){0, 1}, 2, &out), TN_OK); /* neighbours: x[a, b, :] */
  SAME(got, 20, 21, 22, 23, 8, 9, 10, 11);
  out = F32(got, 2, 3);
  assert_int_equal(tn_k_index_ref(&t, idx, (const int[]){0, 2}, 2, &out), TN_OK); /* apart: x[a, :, b] goes in front */
  SAME(got, 14, 18, 22, 3, 7, 11);
  idx[0] = I64(a, 2, 1);
  idx[1] = I64(b, 3);
  out = F32(got, 2, 3, 4);
  assert_int_equal(tn_k_index_ref(&t, idx, (const int[]){0, 1}, 2, &out), TN_OK); /* broadcast */
  SAME(got, 20, 21, 22, 23, 20, 21, 22, 23, 12, 13, 14, 15, 8, 9, 10, 11, 8, 9, 10, 11, 0, 1, 2, 3);
  const int64_t bad[] = {3};
  idx[0] = I64(bad, 1);
  assert_int_equal(tn_k_index_ref(&t, idx, (const int[]){1}, 1, &out), TN_E_INDEX);
}
static void test_put(void **state) {
  (void)state;
  float got[6];
  const float v[] = {10, 20, 30, 40};
  const int64_t i[] = {0, -1}, same[] = {1, 1}, bad[] = {2, 0};
  tn_tensor x = F32(x6, 2, 3), out = F32(got, 2, 3), vals = F32(v, 2, 2), idx = I64(i, 2);
  assert_int_equal(tn_k_index_put(NULL, &x, &vals, &idx, (const int[]){1}, 1, false, &out), TN_OK);
  SAME(got, 10, 1, 20, 30, 4, 40);
  vals = F32(v, 2); /* stretched over rows */
  assert_int_equal(tn_k_index_put(NULL, &x, &vals, &idx, (const int[]){1}, 1, true, &out), TN_OK);
  SAME(got, 10, 1, 22, 13, 4, 25);
  vals = SCALAR(TN_F32, v);
  idx = I64(same, 2);
  assert_int_equal(tn_k_index_put(NULL, &x, &vals, &idx, (const int[]){0}, 1, true, &out), TN_OK);
  SAME(got, 0, 1, 2, 23, 24, 25);
  assert_int_equal(tn_k_index_put(NULL, &x, &vals, &idx, (const int[]){0}, 1, false, &out), TN_OK);
  SAME(got, 0, 1, 2, 10, 10, 10);
  vals = F32(v, 3);
  assert_int_equal(tn_k_index_put(NULL, &x, &vals, &idx, (const int[]){0}, 1, false, &out), TN_OK);
  SAME(got, 0, 1, 2, 10, 20, 30);
  idx = I64(bad, 2);
  assert_int_equal(tn_k_index_put(NULL, &x, &vals, &idx, (const int[]){0}, 1, false, &out), TN_E_INDEX);
}
static void test_scatter(void **state) {
  (void)state;
  float got[6];
  const float s[] = {10, 20, 30, 2};
  const int64_t i[] = {0, 0, -1, 1}, bad[] = {0, 3};
  tn_tensor x = F32(x6, 2, 3), out = F32(got, 2, 3), src = F32(s, 2, 2), idx = I64(i, 2, 2);
  assert_int_equal(tn_k_scatter(NULL, &x, &idx, &src, 1, "set", &out), TN_OK);
  SAME(got, 20, 1, 2, 3, 2, 30); /* the last one wins */
  assert_int_equal(tn_k_scatter(NULL, &x, &idx, &src, 1, "sum", &out), TN_OK);
  SAME(got, 30, 1, 2, 3, 6, 35);
  assert_int_equal(tn_k_scatter(NULL, &x, &idx, &src, 1, "prod", &out), TN_OK);
  SAME(got, 0, 1, 2, 3, 8, 150);
  assert_int_equal(tn_k_scatter(NULL, &x, &idx, &src, 1, "max", &out), TN_OK);
  SAME(got, 20, 1, 2, 3, 4, 30);
  assert_int_equal(tn_k_scatter(NULL, &x, &idx, &src, 1, "min", &out), TN_OK);
  SAME(got, 0, 1, 2, 3, 2, 5);
  idx = I64(bad, 1, 2);
  assert_int_equal(tn_k_scatter(NULL, &x, &idx, &src, 1, "set", &out), TN_E_INDEX);
}
/* Index and source may be of any strides: stretched over the last dim, over the first, transposed; and of no dims. */
static void test_scatter_strides(void **state) {
  (void)state;
  static const char *const how[] = {"set", "sum", "max"};
  static const int64_t strides[][3] = {{1, 0, 0}, {4, 1, 0}, {0, 1, 0}, {1, 3, 12}, {20, 5, 1}};
  int64_t i[80], dense_i[60];
  float x[60], v[80], dense_v[60], got[60], want[60];
  for (int k = 0; k < 80; k++) i[k] = k * 7 % 3 - (k % 5 == 0 ? 3 : 0), v[k] = (float)(k % 11);
  for (int k = 0; k < 60; k++) x[k] = (float)k;
  for (int dim = 0; dim < 3; dim++)
    for (int h = 0; h < 3; h++)
      for (int a = 0; a < 5; a++)
        for (int b = 0; b < 5; b++) {
          for (int k = 0; k < 60; k++) {
            int64_t p = k / 20, q = k / 5 % 4, r = k % 5;
            dense_i[k] = i[p * strides[a][0] + q * strides[a][1] + r * strides[a][2]];
            dense_v[k] = v[p * strides[b][0] + q * strides[b][1] + r * strides[b][2]];
          }
          tn_tensor in = F32(x, 3, 4, 5), out = F32(want, 3, 4, 5), idx = I64(dense_i, 3, 4, 5), src = F32(dense_v, 3, 4, 5);
          assert_int_equal(tn_k_scatter(NULL, &in, &idx, &src, dim, how[h], &out), TN_OK);
          idx.data = i, src.data = v, out.data = got;
          idx.strides = strides[a], src.strides = strides[b];
          assert_int_equal(tn_k_scatter(NULL, &in, &idx, &src, dim, how[h], &out), TN_OK);
          same_floats(got, want, 60);
        }
  tn_tensor in = SCALAR(TN_F32, x + 5), out = SCALAR(TN_F32, got), idx = SCALAR(TN_I64, i), src = SCALAR(TN_F32, v + 3);
  i[0] = 0;
  assert_int_equal(tn_k_scatter(NULL, &in, &idx, &src, 0, "sum", &out), TN_OK);
  SAME(got, 8);
}
/* Sums in the dtypes that have loops of their own, and in one that has none; integers wrap. */
static void test_scatter_dtypes(void **state) {
  (void)state;
  static const tn_dtype t[] = {TN_F64, TN_I64, TN_I32, TN_I8, TN_BF16, TN_U64, TN_U32, TN_U16};
  const int32_t i[] = {1, -2, 1, 0};
  for (int k = 0; k < 5; k++) {
    char x[16] = {0}, v[32], got[16];
    for (int e = 0; e < 4; e++)
      tn_num_store(t[k], v + e * (int)tn_dtype_size(t[k]), tn_dtype_is_float(t[k]) ? (tn_num){.f = 100 + e} : (tn_num){.i = 100 + e});
    tn_tensor in = tensor(t[k], x, DIMS(2)), out = tensor(t[k], got, DIMS(2)), idx = tensor(TN_I32, i, DIMS(4)),
              src = tensor(t[k], v, DIMS(4));
    assert_int_equal(tn_k_scatter(NULL, &in, &idx, &src, 0, "sum", &out), TN_OK);
    tn_num a = tn_num_load(t[k], got), b = tn_num_load(t[k], got + tn_dtype_size(t[k]));
    if (tn_dtype_is_float(t[k]))
      assert_true(a.f == 204 && b.f == 202);
    else
      assert_true(a.i == (t[k] == TN_I8 ? 204 - 256 : 204) && b.i == (t[k] == TN_I8 ? 202 - 256 : 202));
    idx.shape = (const int64_t[]){2};
    src.shape = (const int64_t[]){2};
    assert_int_equal(tn_k_scatter(NULL, &in, &idx, &src, 0, "set", &out), TN_OK);
    assert_memory_equal(got + tn_dtype_size(t[k]), v, tn_dtype_size(t[k]));
  }
}
int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_take),          cmocka_unit_test(test_gather),
                                     cmocka_unit_test(test_index),         cmocka_unit_test(test_put),
                                     cmocka_unit_test(test_scatter),       cmocka_unit_test(test_scatter_strides),
                                     cmocka_unit_test(test_scatter_dtypes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

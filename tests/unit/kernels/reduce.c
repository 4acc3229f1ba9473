/* reduce, scan, window, contract, conv, convt: small closed forms. */
#include "kernels_test.h"

static void test_reduce(void **state) {
  (void)state;
  float x[24], got[24];
  for (int i = 0; i < 24; i++) x[i] = (float)i;
  tn_tensor in = F32(x, 2, 3, 4), out = F32(got, 3);
  tn_k_reduce_ref(TN_C_SUM, &in, (const bool[]){true, false, true}, &out);
  SAME(got, 60, 92, 124);
  out = F32(got, 2, 4);
  tn_k_reduce_ref(TN_C_MAX, &in, (const bool[]){false, true, false}, &out);
  SAME(got, 8, 9, 10, 11, 20, 21, 22, 23);
  out = F32(got, 2, 3, 4);
  tn_k_reduce_ref(TN_C_MIN, &in, (const bool[]){false, false, false}, &out);
  same_floats(got, x, 24);
  in = F32(x + 1, 5);
  out = SCALAR(TN_F32, got);
  tn_k_reduce_ref(TN_C_PROD, &in, (const bool[]){true}, &out);
  SAME(got, 120);
  in = F32(NULL, 2, 0);
  out = F32(got, 2);
  tn_k_reduce_ref(TN_C_MAX, &in, (const bool[]){false, true}, &out);
  SAME(got, -INFINITY, -INFINITY);
  const bool b[] = {false, true, false, false};
  bool any[2];
  in = tensor(TN_BOOL, b, DIMS(2, 2));
  out = tensor(TN_BOOL, any, DIMS(2));
  tn_k_reduce_ref(TN_C_ANY, &in, (const bool[]){false, true}, &out);
  assert_true(any[0] && !any[1]);
  tn_k_reduce_ref(TN_C_ALL, &in, (const bool[]){true, false}, &out);
  assert_true(!any[0] && !any[1]);
  const int8_t w[] = {100, 100, 100};
  int8_t wrapped;
  in = I8(w, 3);
  out = SCALAR(TN_I8, &wrapped);
  tn_k_reduce_ref(TN_C_SUM, &in, (const bool[]){true}, &out);
  assert_int_equal(wrapped, 44);
  /* 2^24 ones and one more: a float sum would stop */
  const float big[] = {16777216.0f, 1, 1};
  in = F32(big, 3);
  out = SCALAR(TN_F32, got);
  tn_k_reduce_ref(TN_C_SUM, &in, (const bool[]){true}, &out);
  SAME(got, 16777218.0f);
}
static void test_arg(void **state) {
  (void)state;
  const float x[] = {1, 7, 7, 2, NAN, NAN, INFINITY, 0, -INFINITY, -INFINITY, 5, 5};
  int64_t got[4];
  tn_tensor in = F32(x, 3, 4), out = I64(got, 3);
  tn_k_reduce_ref(TN_C_ARGMAX, &in, (const bool[]){false, true}, &out);
  SAME_I64(got, 1, 0, 2);
  tn_k_reduce_ref(TN_C_ARGMIN, &in, (const bool[]){false, true}, &out);
  SAME_I64(got, 0, 0, 0);
  out = I64(got, 4);
  tn_k_reduce_ref(TN_C_ARGMIN, &in, (const bool[]){true, false}, &out);
  SAME_I64(got, 1, 1, 2, 1);
  const int64_t far[] = {INT64_MIN, INT64_MAX, INT64_MAX};
  in = I64(far, 3);
  out = SCALAR(TN_I64, got);
  tn_k_reduce_ref(TN_C_ARGMAX, &in, (const bool[]){true}, &out);
  SAME_I64(got, 1);
}
static void test_scan(void **state) {
  (void)state;
  const float x[] = {1, 2, 3, 4, 5, 6}, n[] = {1, NAN, 0};
  float got[6];
  tn_tensor in = F32(x, 2, 3), out = F32(got, 2, 3);
  tn_k_scan_ref(TN_C_SUM, &in, 1, &out);
  SAME(got, 1, 3, 6, 4, 9, 15);
  tn_k_scan_ref(TN_C_PROD, &in, 0, &out);
  SAME(got, 1, 2, 3, 4, 10, 18);
  in = F32(n, 3);
  out = F32(got, 3);
  tn_k_scan_ref(TN_C_MAX, &in, 0, &out);
  SAME(got, 1, NAN, NAN);
}
static void test_window(void **state) {
  (void)state;
  const float x[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  float got[16];
  tn_tensor in = F32(x, 3, 3), out = F32(got, 2, 2);
  tn_k_window_ref(TN_C_SUM, &in, 2, (const int64_t[]){2, 2}, (const int64_t[]){1, 1}, (const int64_t[]){0, 0}, (const int64_t[]){1, 1},
                  &out);
  SAME(got, 12, 16, 24, 28);
  tn_k_window_ref(TN_C_MAX, &in, 2, (const int64_t[]){2, 2}, (const int64_t[]){2, 2}, (const int64_t[]){1, 1}, (const int64_t[]){2, 2},
                  &out);
  SAME(got, 5, 5, 5, 5); /* reach over the border on every side */
  in = F32(x, 3, 3);
  out = F32(got, 3, 1);
  tn_k_window_ref(TN_C_MIN, &in, 1, (const int64_t[]){2}, (const int64_t[]){1}, (const int64_t[]){5}, (const int64_t[]){1}, &out);
  SAME(got, INFINITY, INFINITY, INFINITY); /* all outside */
}
static void test_contract(void **state) {
  (void)state;
  const float a[] = {1, 2, 3, 4, 5, 6}, b[] = {1, 0, 0, 1, 1, 1};
  float got[8];
  tn_tensor x = F32(a, 2, 3), y = F32(b, 3, 2), out = F32(got, 2, 2);
  tn_k_contract_ref("ik,kj->ij", &x, &y, &out);
  SAME(got, 4, 5, 10, 11);
  tn_k_contract_ref("ik,kj->ji", &x, &y, &out);
  SAME(got, 4, 10, 5, 11);
  x = F32(a, 2);
  y = F32(a + 2, 3);
  out = F32(got, 2, 3);
  tn_k_contract_ref("i,j->ij", &x, &y, &out);
  SAME(got, 3, 4, 5, 6, 8, 10);
  out = F32(got, 2);
  tn_k_contract_ref("i,j->i", &x, &y, &out); /* sums what only one operand has */
  SAME(got, 12, 24);
  x = F32(NULL, 2, 0);
  y = F32(NULL, 0, 2);
  out = F32(got, 2, 2);
  tn_k_contract_ref("ik,kj->ij", &x, &y, &out);
  SAME(got, 0, 0, 0, 0);
  const int8_t c[] = {100, 2}, d[] = {3, 1};
  int8_t wrapped;
  x = I8(c, 2);
  y = I8(d, 2);
  out = SCALAR(TN_I8, &wrapped);
  tn_k_contract_ref("k,k->", &x, &y, &out);
  assert_int_equal(wrapped, 46); /* 302 - 256 */
}
static void test_conv(void **state) {
  (void)state;
  const float a[] = {1, 2, 3, 4, 5}, w[] = {1, 10, 100};
  float got[16];
  tn_tensor x = F32(a, 1, 1, 5), k = F32(w, 1, 1, 3), out = F32(got, 1, 1, 5);
  const int64_t one[] = {1}, two[] = {2}, zero[] = {0};
  tn_k_conv_ref(&x, &k, one, one, one, 1, &out);
  SAME(got, 210, 321, 432, 543, 54);
  out = F32(got, 1, 1, 3);
  tn_k_conv_ref(&x, &k, two, two, two, 1, &out);
  SAME(got, 310, 531, 53);
  /* two groups of one channel each; 2-D */
  const float p[] = {1, 2, 3, 4, 5, 6, 7, 8}, v[] = {1, 1, 1, 1, 2, 0, 0, 0};
  x = F32(p, 1, 2, 2, 2);
  k = F32(v, 2, 1, 2, 2);
  out = F32(got, 1, 2, 1, 1);
  tn_k_conv_ref(&x, &k, (const int64_t[]){1, 1}, (const int64_t[]){0, 0}, (const int64_t[]){1, 1}, 2, &out);
  SAME(got, 10, 10);
  /* transposed: every input spreads the kernel */
  x = F32(a, 1, 1, 2);
  k = F32(w, 1, 1, 3);
  out = F32(got, 1, 1, 5);
  tn_k_convt_ref(&x, &k, two, zero, one, 1, &out);
  SAME(got, 1, 10, 102, 20, 200);
  out = F32(got, 1, 1, 3);
  tn_k_convt_ref(&x, &k, two, one, one, 1, &out);
  SAME(got, 10, 102, 20);
}
int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_reduce), cmocka_unit_test(test_arg),      cmocka_unit_test(test_scan),
                                     cmocka_unit_test(test_window), cmocka_unit_test(test_contract), cmocka_unit_test(test_conv)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

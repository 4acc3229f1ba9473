/* Scalar functions with broadcasting, casts, strided copies, fills, pad, concat: values by hand. */
#include "kernels_test.h"

static const float six[] = {1, 2, 3, 4, 5, 6};

static void test_broadcast(void **state) {
  float got[6];
  const float col[] = {10, 20}, row[] = {1, 2, 3};
  tn_tensor out = F32(got, 2, 3), in[3] = {F32(col, 2, 1), F32(row, 3)};
  (void)state;
  tn_k_eltwise_ref(TN_S_ADD, in, 2, &out);
  SAME(got, 11, 12, 13, 21, 22, 23);
  in[1] = SCALAR(TN_F32, six + 1);
  in[0] = F32(six, 2, 3);
  tn_k_eltwise_ref(TN_S_MUL, in, 2, &out);
  SAME(got, 2, 4, 6, 8, 10, 12);
  const bool cond[] = {true, false};
  tn_tensor sel[3] = {tensor(TN_BOOL, cond, DIMS(2, 1)), F32(row, 3), SCALAR(TN_F32, six + 5)};
  tn_k_eltwise_ref(TN_S_SELECT, sel, 3, &out);
  SAME(got, 1, 2, 3, 6, 6, 6);
  bool less[6];
  tn_tensor cmp = tensor(TN_BOOL, less, DIMS(2, 3));
  in[1] = F32(row, 3);
  tn_k_eltwise_ref(TN_S_LE, in, 2, &cmp);
  assert_true(less[0] && less[1] && less[2] && !less[3] && !less[4] && !less[5]);
}
static void test_edges(void **state) {
  (void)state;
  const int8_t a[] = {127, -128, -128, 7, -7}, b[] = {1, -1, -1, 0, 2};
  int8_t got[5];
  tn_tensor in[2] = {I8(a, 5), I8(b, 5)}, out = I8(got, 5);
  tn_k_eltwise_ref(TN_S_ADD, in, 2, &out);
  SAME_I8(got, -128, 127, 127, 7, -5);
  tn_k_eltwise_ref(TN_S_FLOORDIV, in, 2, &out);
  SAME_I8(got, 127, -128, -128, 0, -4);
  tn_k_eltwise_ref(TN_S_REMAINDER, in, 2, &out);
  SAME_I8(got, 0, 0, 0, 0, 1);
  const float x[] = {NAN, 1, -0.0f, INFINITY}, y[] = {1, NAN, 0.0f, -INFINITY};
  float f[4];
  tn_tensor fin[2] = {F32(x, 4), F32(y, 4)}, fout = F32(f, 4);
  tn_k_eltwise_ref(TN_S_MAX, fin, 2, &fout);
  assert_true(isnan(f[0]) && isnan(f[1]) && f[3] == INFINITY);
  tn_k_eltwise_ref(TN_S_FMAX, fin, 2, &fout);
  SAME(f, 1, 1, 0, INFINITY);
  tn_k_eltwise_ref(TN_S_ADD, fin, 2, &fout);
  assert_true(isnan(f[3]) && !signbit(f[2]));
  tn_tensor none = F32(NULL, 0, 4), nothing = F32(NULL, 0, 4); /* no element is touched */
  tn_k_eltwise_ref(TN_S_NEG, &none, 1, &nothing);
}
static void test_cast(void **state) {
  (void)state;
  const float x[] = {1.9f, -1.9f, NAN, 1e30f};
  int64_t i[4];
  tn_tensor in = F32(x, 4), out = I64(i, 4);
  tn_k_cast_ref(&in, &out);
  SAME_I64(i, 1, -1, 0, INT64_MAX);
  bool b[4];
  out = tensor(TN_BOOL, b, DIMS(4));
  tn_k_cast_ref(&in, &out);
  assert_true(b[0] && b[1] && b[2] && b[3]);
  uint16_t h[4];
  out = tensor(TN_BF16, h, DIMS(4));
  const float y[] = {1.0f, 1.00390625f /* half way, to even */, 1.01171875f /* half way, to even above */, -0.0f};
  in = F32(y, 4);
  tn_k_cast_ref(&in, &out);
  assert_int_equal(h[0], 0x3f80);
  assert_int_equal(h[1], 0x3f80);
  assert_int_equal(h[2], 0x3f82);
  assert_int_equal(h[3], 0x8000);
}
static void test_copy(void **state) {
  (void)state;
  float got[6];
  const int64_t transposed[] = {1, 3}, back[] = {-3, -1}, zero[] = {0, 1};
  tn_tensor in = F32(six, 3, 2), out = F32(got, 3, 2);
  in.strides = transposed;
  tn_k_strided_copy_ref(&in, &out);
  SAME(got, 1, 4, 2, 5, 3, 6);
  in = F32(six + 5, 2, 3);
  in.strides = back;
  out = F32(got, 2, 3);
  tn_k_strided_copy_ref(&in, &out);
  SAME(got, 6, 5, 4, 3, 2, 1);
  in.data = (void *)(uintptr_t)six;
  in.strides = zero;
  tn_k_strided_copy_ref(&in, &out);
  SAME(got, 1, 2, 3, 1, 2, 3);
  tn_tensor s = SCALAR(TN_F32, six + 3), one = SCALAR(TN_F32, got);
  tn_k_strided_copy_ref(&s, &one);
  SAME(got, 4);
  in = F32(NULL, 2, 0);
  out = F32(NULL, 2, 0);
  in.strides = zero;
  tn_k_strided_copy_ref(&in, &out);
}
static void test_fill(void **state) {
  (void)state;
  float got[4];
  int64_t i[4];
  uint8_t u[4];
  tn_tensor f = F32(got, 4), out = I64(i, 4), bytes = tensor(TN_U8, u, DIMS(4));
  tn_k_full_ref((tn_num){.f = 2.5}, &f);
  SAME(got, 2.5f, 2.5f, 2.5f, 2.5f);
  tn_k_iota_ref(0, 0, 5, -3, &out);
  SAME_I64(i, 5, 2, -1, -4);
  tn_k_iota_ref(0, 0, INT64_MAX, 1, &out);
  SAME_I64(i, INT64_MAX, INT64_MIN, INT64_MIN + 1, INT64_MIN + 2);
  tn_k_iota_ref(0, 0, 254, 1, &bytes);
  assert_memory_equal(u, ((uint8_t[]){254, 255, 0, 1}), 4);
  tn_k_iota_ref(0.5, 0.1, 0, 0, &f);
  SAME(got, 0.5f, 0.6f, (float)(0.5 + 2 * 0.1), (float)(0.5 + 3 * 0.1));
}
static void test_pad_concat(void **state) {
  (void)state;
  float got[20];
  tn_tensor in = F32(six, 2, 3), out = F32(got, 3, 5);
  tn_k_pad_ref(&in, (const int64_t[]){0, 1}, (tn_num){.f = 9}, &out);
  SAME(got, 9, 1, 2, 3, 9, 9, 4, 5, 6, 9, 9, 9, 9, 9, 9);
  in = F32(NULL, 0, 3);
  out = F32(got, 1, 3);
  tn_k_pad_ref(&in, (const int64_t[]){1, 0}, (tn_num){.f = 7}, &out);
  SAME(got, 7, 7, 7);
  const float one[] = {-1, -2};
  tn_tensor parts[3] = {F32(six, 2, 3), F32(NULL, 2, 0), F32(one, 2, 1)};
  out = F32(got, 2, 4);
  tn_k_concat_ref(parts, 3, 1, &out);
  SAME(got, 1, 2, 3, -1, 4, 5, 6, -2);
  parts[1] = F32(six, 2, 3);
  out = F32(got, 4, 3);
  tn_k_concat_ref(parts, 2, 0, &out);
  SAME(got, 1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6);
}
int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_broadcast), cmocka_unit_test(test_edges), cmocka_unit_test(test_cast),
                                     cmocka_unit_test(test_copy),      cmocka_unit_test(test_fill),  cmocka_unit_test(test_pad_concat)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Scalar semantics: the rows that differ between languages, conversions, 16-bit floats over all bit patterns. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/scalar.h"

static double F2(tn_scalar_op op, tn_dtype t, double a, double b) {
  return tn_scalar_eval(op, t, (tn_num[]){{.f = a}, {.f = b}}).f;
}
static double F1(tn_scalar_op op, double a) { return tn_scalar_eval(op, TN_F64, (tn_num[]){{.f = a}}).f; }
static int64_t I2(tn_scalar_op op, tn_dtype t, int64_t a, int64_t b) { return tn_scalar_eval(op, t, (tn_num[]){{.i = a}, {.i = b}}).i; }
static int64_t I1(tn_scalar_op op, tn_dtype t, int64_t a) { return tn_scalar_eval(op, t, (tn_num[]){{.i = a}}).i; }

static void test_names(void **state) {
  (void)state;
  for (int i = 0; i < TN_N_SCALARS; i++) {
    tn_scalar_op op;
    const char *s = tn_scalar_name((tn_scalar_op)i);
    assert_true(tn_scalar_find(s, strlen(s), &op) && op == (tn_scalar_op)i);
    assert_in_range(tn_scalar_arity(op), 1, 3);
  }
  tn_scalar_op op;
  assert_false(tn_scalar_find("gelu", 4, &op));
  assert_true(tn_scalar_accepts(TN_S_EXP, TN_BF16) && !tn_scalar_accepts(TN_S_EXP, TN_I32) && !tn_scalar_accepts(TN_S_ADD, TN_BOOL));
  assert_true(tn_scalar_is_bool(TN_S_LT) && !tn_scalar_is_bool(TN_S_AND));
  for (int c = 0; c < TN_N_COMBINERS; c++) {
    tn_combiner back;
    const char *s = tn_combiner_name((tn_combiner)c);
    assert_true(tn_combiner_find(s, strlen(s), &back) && back == (tn_combiner)c);
  }
}

static void test_integers(void **state) {
  (void)state;
  assert_int_equal(I2(TN_S_ADD, TN_I8, 127, 1), -128);
  assert_int_equal(I2(TN_S_ADD, TN_I64, INT64_MAX, 1), INT64_MIN);
  assert_int_equal(I2(TN_S_MUL, TN_U8, 20, 20), 144);
  assert_int_equal(I2(TN_S_FLOORDIV, TN_I32, -7, 2), -4);
  assert_int_equal(I2(TN_S_TRUNCDIV, TN_I32, -7, 2), -3);
  assert_int_equal(I2(TN_S_REMAINDER, TN_I32, -7, 2), 1);
  assert_int_equal(I2(TN_S_REMAINDER, TN_I32, 7, -2), -1);
  assert_int_equal(I2(TN_S_FMOD, TN_I32, -7, 2), -1);
  for (int op = TN_S_FLOORDIV; op <= TN_S_FMOD; op++) {
    assert_int_equal(I2((tn_scalar_op)op, TN_I64, 5, 0), 0);
    int64_t want = op <= TN_S_TRUNCDIV ? INT64_MIN : 0;
    assert_true(I2((tn_scalar_op)op, TN_I64, INT64_MIN, -1) == want);
  }
  assert_int_equal(I2(TN_S_TRUNCDIV, TN_I8, -128, -1), -128);
  assert_int_equal(I2(TN_S_POW, TN_I32, 3, 4), 81);
  assert_int_equal(I2(TN_S_POW, TN_I8, 2, 7), -128);
  assert_int_equal(I2(TN_S_POW, TN_I32, -1, -3), -1);
  assert_int_equal(I2(TN_S_POW, TN_I32, 2, -1), 0);
  assert_int_equal(I2(TN_S_POW, TN_I32, 0, 0), 1);
  assert_int_equal(I2(TN_S_SHL, TN_I8, -1, 7), -128);
  assert_int_equal(I2(TN_S_SHL, TN_I8, 1, 8), 0);
  assert_int_equal(I2(TN_S_SHL, TN_I32, 1, -1), 0);
  assert_int_equal(I2(TN_S_SHR, TN_I8, -128, 100), -1);
  assert_int_equal(I2(TN_S_SHR, TN_U8, 200, 7), 1);
  assert_int_equal(I2(TN_S_SHR, TN_U8, 200, 8), 0);
  assert_int_equal(I1(TN_S_NEG, TN_U8, 1), 255);
  assert_int_equal(I1(TN_S_ABS, TN_I8, -128), -128);
  assert_int_equal(I1(TN_S_NOT, TN_BOOL, 1), 0);
  assert_int_equal(I1(TN_S_NOT, TN_U8, 1), 254);
  assert_int_equal(I2(TN_S_LT, TN_I32, -1, 1), 1);
}

/* u64 is read unsigned wherever the reading matters; narrower ones fit a tn_num as they are. */
static void test_unsigned(void **state) {
  (void)state;
  const int64_t max = -1, half = INT64_MIN; /* 2^64 - 1 and 2^63 */
  assert_true(I2(TN_S_ADD, TN_U64, max, 2) == 1 && I2(TN_S_SUB, TN_U64, 0, 1) == max && I2(TN_S_MUL, TN_U64, max, max) == 1);
  for (int op = TN_S_FLOORDIV; op <= TN_S_FMOD; op++) {
    bool quotient = op <= TN_S_TRUNCDIV;
    assert_int_equal(I2((tn_scalar_op)op, TN_U64, max, 10), quotient ? 1844674407370955161 : 5);
    assert_true(I2((tn_scalar_op)op, TN_U64, max, half) == (quotient ? 1 : INT64_MAX));
    assert_true(I2((tn_scalar_op)op, TN_U64, half, max) == (quotient ? 0 : half));
    assert_int_equal(I2((tn_scalar_op)op, TN_U64, max, 0), 0);
    assert_int_equal(I2((tn_scalar_op)op, TN_U32, 4294967295, 10), quotient ? 429496729 : 5);
    assert_int_equal(I2((tn_scalar_op)op, TN_U32, 4294967295, 4294967295), quotient);
  }
  assert_true(I2(TN_S_MAX, TN_U64, max, 1) == max && I2(TN_S_MIN, TN_U64, half, 1) == 1);
  assert_true(I2(TN_S_LT, TN_U64, 1, half) && I2(TN_S_GE, TN_U64, max, half) && !I2(TN_S_GT, TN_U64, 5, half) && I2(TN_S_LE, TN_U64, half, max));
  assert_int_equal(I2(TN_S_SHR, TN_U64, max, 63), 1);
  assert_int_equal(I2(TN_S_SHR, TN_U64, max, 64), 0);
  assert_int_equal(I2(TN_S_SHR, TN_U64, 8, max), 0);
  assert_int_equal(I2(TN_S_SHL, TN_U64, 1, max), 0);
  assert_true(I2(TN_S_SHL, TN_U64, 1, 63) == half);
  assert_true(I1(TN_S_ABS, TN_U64, max) == max && I1(TN_S_RELU, TN_U64, half) == half && I1(TN_S_SIGN, TN_U64, half) == 1);
  assert_true(I1(TN_S_NEG, TN_U64, 1) == max && I1(TN_S_NOT, TN_U64, 0) == max);
  assert_int_equal(I2(TN_S_POW, TN_U64, 3, 40), (int64_t)12157665459056928801u);
  assert_int_equal(I2(TN_S_POW, TN_U64, 1, max), 1);
  assert_int_equal(I2(TN_S_POW, TN_U64, 2, half), 0);
  assert_int_equal(I1(TN_S_NEG, TN_U16, 1), 65535);
  assert_int_equal(I2(TN_S_MUL, TN_U32, 65537, 65537), 131073);
  assert_int_equal(I2(TN_S_SHR, TN_U32, 4294967295, 31), 1);
  assert_int_equal(I2(TN_S_SUB, TN_U16, 1, 3), 65534);
  assert_int_equal(tn_combiner_identity(TN_C_MAX, TN_U64).i, 0);
  assert_true(tn_combiner_identity(TN_C_MIN, TN_U64).i == max);
  assert_int_equal(tn_combiner_identity(TN_C_MIN, TN_U32).i, UINT32_MAX);
}

static void test_floats(void **state) {
  (void)state;
  assert_true(F1(TN_S_ROUND, 0.5) == 0 && F1(TN_S_ROUND, 1.5) == 2 && F1(TN_S_ROUND, -2.5) == -2);
  assert_true(F1(TN_S_SIGN, -3) == -1 && F1(TN_S_SIGN, NAN) == 0);
  assert_true(isnan(F1(TN_S_RELU, NAN)) && F1(TN_S_RELU, -2) == 0 && F1(TN_S_RELU, 2) == 2);
  assert_true(F1(TN_S_SIGMOID, 0) == 0.5 && F1(TN_S_SIGMOID, -INFINITY) == 0 && F1(TN_S_SIGMOID, INFINITY) == 1);
  assert_true(isnan(F2(TN_S_MAX, TN_F32, NAN, 1)) && isnan(F2(TN_S_MIN, TN_F32, 1, NAN)));
  assert_true(F2(TN_S_FMAX, TN_F32, NAN, 1) == 1 && F2(TN_S_FMIN, TN_F32, 1, NAN) == 1);
  assert_true(F2(TN_S_FLOORDIV, TN_F64, -7, 2) == -4 && F2(TN_S_FLOORDIV, TN_F64, 1, 0) == INFINITY);
  assert_true(F2(TN_S_REMAINDER, TN_F64, -7, 2) == 1 && F2(TN_S_FMOD, TN_F64, -7, 2) == -1);
  assert_true(isnan(F2(TN_S_REMAINDER, TN_F64, 1, 0)));
  assert_true(F2(TN_S_ADD, TN_F32, 16777216, 1) == 16777216);
  assert_true(F2(TN_S_ADD, TN_BF16, 256, 1) == 256 && F2(TN_S_ADD, TN_F16, 2048, 1) == 2048);
  assert_true(F2(TN_S_MUL, TN_F16, 300, 300) == INFINITY);
  tn_num x[3] = {{.i = 0}, {.f = 1}, {.f = 2}};
  assert_true(tn_scalar_eval(TN_S_SELECT, TN_F32, x).f == 2);
  assert_int_equal(tn_scalar_eval(TN_S_ISNAN, TN_F32, (tn_num[]){{.f = NAN}}).i, 1);
  assert_int_equal(tn_scalar_eval(TN_S_NE, TN_F32, (tn_num[]){{.f = NAN}, {.f = NAN}}).i, 1);
}

static void test_casts(void **state) {
  (void)state;
#define FI(v, to) tn_num_cast((tn_num){.f = (v)}, TN_F64, to).i
  assert_int_equal(FI(-1.9, TN_I32), -1);
  assert_int_equal(FI(NAN, TN_I32), 0);
  assert_int_equal(FI(1e20, TN_I64), INT64_MAX);
  assert_true(FI(-1e20, TN_I64) == INT64_MIN);
  assert_int_equal(FI(300, TN_I8), 127);
  assert_int_equal(FI(-300, TN_I8), -128);
  assert_int_equal(FI(-0.5, TN_U8), 0);
  assert_int_equal(FI(255.9, TN_U8), 255);
  assert_true(FI(1e30, TN_U64) == -1 && FI(0x1p63, TN_U64) == INT64_MIN && FI(-3, TN_U64) == 0 && FI(NAN, TN_U64) == 0);
  assert_true(FI(5e9, TN_U32) == 4294967295 && FI(4294967294.7, TN_U32) == 4294967294 && FI(-1, TN_U32) == 0 && FI(65535.5, TN_U16) == 65535);
  assert_true(tn_num_cast((tn_num){.i = -1}, TN_U64, TN_F64).f == 0x1p64 && tn_num_cast((tn_num){.i = INT64_MIN}, TN_U64, TN_F32).f == 0x1p63);
  assert_true(tn_num_cast((tn_num){.i = (int64_t)0x8000008000000001u}, TN_U64, TN_F32).f == 0x8000010000000000p0); /* once */
  assert_true(tn_num_cast((tn_num){.i = -1}, TN_I64, TN_U64).i == -1 && tn_num_cast((tn_num){.i = -1}, TN_U64, TN_I64).i == -1);
  assert_true(tn_num_cast((tn_num){.i = -1}, TN_U64, TN_U32).i == UINT32_MAX && tn_num_cast((tn_num){.i = -1}, TN_I8, TN_U16).i == 65535);
  assert_int_equal(tn_num_cast((tn_num){.i = 4294967295}, TN_U32, TN_I32).i, -1);
  assert_int_equal(FI(NAN, TN_BOOL), 1);
  assert_int_equal(FI(0.25, TN_BOOL), 1);
  assert_int_equal(tn_num_cast((tn_num){.i = 300}, TN_I32, TN_U8).i, 44);
  assert_true(tn_num_cast((tn_num){.i = INT64_MAX}, TN_I64, TN_F32).f == 0x1p63);
  assert_true(tn_num_cast((tn_num){.i = 0x2000002000000001}, TN_I64, TN_F32).f == 0x2000004000000000p0); /* once, not by way of double */
  assert_true(tn_num_cast((tn_num){.f = 1.0 / 3}, TN_F64, TN_F32).f == (double)(1.0f / 3));
  for (int t = 0; t < TN_OBJ; t++) {
    uint8_t raw[8] = {0};
    tn_num v = tn_dtype_is_float((tn_dtype)t) ? (tn_num){.f = 1} : (tn_num){.i = 1};
    tn_num_store((tn_dtype)t, raw, v);
    tn_num back = tn_num_load((tn_dtype)t, raw);
    assert_true(tn_dtype_is_float((tn_dtype)t) ? back.f == 1 : back.i == 1);
  }
}

static void test_half_floats(void **state) {
  (void)state;
  for (uint32_t h = 0; h < 65536; h++) {
    float a = tn_f16_to_f32((uint16_t)h), b = tn_bf16_to_f32((uint16_t)h);
    if (isnan(a)) assert_true(isnan(tn_f16_to_f32(tn_f32_to_f16(a))));
    else assert_int_equal(tn_f32_to_f16(a), h);
    if (isnan(b)) assert_true(isnan(tn_bf16_to_f32(tn_f32_to_bf16(b))));
    else assert_int_equal(tn_f32_to_bf16(b), h);
  }
  /* halfway between neighbours goes to the even one, and a hair more or less to the nearer one */
  for (uint32_t h = 0; h < 0x7bff; h++) {
    float lo = tn_f16_to_f32((uint16_t)h), hi = tn_f16_to_f32((uint16_t)(h + 1)), mid = lo + (hi - lo) / 2;
    assert_int_equal(tn_f32_to_f16(mid), h + (h & 1));
    assert_int_equal(tn_f32_to_f16(nextafterf(mid, INFINITY)), h + 1);
    assert_int_equal(tn_f32_to_f16(nextafterf(mid, 0)), h);
  }
  for (uint32_t h = 0; h < 0x7f7f; h += 7) {
    float lo = tn_bf16_to_f32((uint16_t)h), hi = tn_bf16_to_f32((uint16_t)(h + 1)), mid = lo / 2 + hi / 2;
    if (h > 0x100) assert_int_equal(tn_f32_to_bf16(mid), h + (h & 1));
  }
  assert_int_equal(tn_f32_to_f16(65520.0f), 0x7c00);
  assert_int_equal(tn_f32_to_f16(65519.0f), 0x7bff);
  assert_int_equal(tn_f32_to_f16(-0x1p-25f), 0x8000);
  assert_int_equal(tn_f32_to_bf16(3.4e38f), 0x7f80);
}

static void test_combiners(void **state) {
  (void)state;
  assert_true(tn_combiner_identity(TN_C_MAX, TN_F32).f == -INFINITY);
  assert_int_equal(tn_combiner_identity(TN_C_MIN, TN_U8).i, 255);
  assert_int_equal(tn_combiner_identity(TN_C_MAX, TN_U8).i, 0);
  assert_int_equal(tn_combiner_identity(TN_C_MAX, TN_I16).i, -32768);
  assert_int_equal(tn_combiner_identity(TN_C_ALL, TN_BOOL).i, 1);
  tn_num a = {.i = 0}, b = {.i = 1};
  assert_int_equal(tn_combiner_step(TN_C_ANY, TN_BOOL, a, b).i, 1);
  assert_int_equal(tn_combiner_step(TN_C_ALL, TN_BOOL, a, b).i, 0);
  for (int c = 0; c <= TN_C_MIN; c++) {
    tn_num v = tn_combiner_step((tn_combiner)c, TN_F32, tn_combiner_identity((tn_combiner)c, TN_F32), (tn_num){.f = -2.5});
    assert_true(v.f == -2.5);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_names), cmocka_unit_test(test_integers), cmocka_unit_test(test_unsigned),    cmocka_unit_test(test_floats),
      cmocka_unit_test(test_casts), cmocka_unit_test(test_half_floats), cmocka_unit_test(test_combiners),
  };
  return cmocka_run_group_tests_name("base/scalar", tests, NULL, NULL);
}

/* The interpreter of nests on small programs with known answers, and vector maths through it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/kernel_abi.h"
#include "kir/nest.h"

#define HEAD "nest @t (x: f32, y: f32 written, k: i64, b: bool) sizes 1 {\n  scratch a: f32[3]\n  scratch s: f32[16]\n %1 = const i64 0 %2 = const i64 1 %3 = block_lo i64 %4 = block_hi i64 %5 = size i64 0\n"

typedef struct memory { float x[64], y[64]; int64_t k[64]; uint8_t b[64]; int64_t size[1]; int32_t status; } memory;

static const _Alignas(64) char zeros[TN_ZEROS_BYTES];

static void run(const char *body, memory *m) {
  tn_arena a;
  tn_arena_init(&a);
  tn_diag d;
  tn_diag_clear(&d);
  tn_nest *n = NULL;
  char text[4096];
  assert_true(strlen(HEAD) + strlen(body) + 3 < sizeof text);
  strcpy(text, HEAD);
  strcat(text, body);
  strcat(text, "\n}");
  if (tn_nest_parse(&d, &a, text, strlen(text), &n) != TN_OK) fail_msg("%s", d.text);
  for (int j = 0; j < 64; j++) {
    m->x[j] = (float)j;
    m->y[j] = -1;
    m->k[j] = 63 - j;
    m->b[j] = (uint8_t)(j % 3 == 0);
  }
  m->size[0] = 5;
  m->status = 0;
  void *ptr[4] = {m->x, m->y, m->k, m->b};
  tn_kernel_args args = {.ptr = ptr, .size = m->size, .zeros = zeros, .status = &m->status};
  int64_t bytes = tn_nest_scratch_bytes(n, m->size);
  assert_int_equal(bytes, 128);
  float scratch[32] = {0};
  if (tn_nest_interpret(&d, n, &args, 2, 4, scratch) != TN_OK) fail_msg("%s", d.text);
  tn_arena_deinit(&a);
}

static void test_loops(void **state) {
  (void)state;
  memory m;
  run("%9 = const f32 0 %10 = var f32 %9 %11 = for i64 %1, %5, %2 %12 = get f32 %10 %13 = cast f32 %11 %14 = add f32 %12, %13 set f32 %10, %14 end "
      "%20 = get f32 %10 store f32 p1[%1], %20 %21 = for i64 %3, %4, %2 store f32 p1[%21], %20 end %22 = for i64 %5, %1, %2 store f32 p1[%22], %20 end",
      &m);
  assert_true(m.y[0] == 10 && m.y[1] == -1 && m.y[2] == 10 && m.y[3] == 10 && m.y[4] == -1);
  /* sum over i < 3, j < i, step 1 of 1, by a nested loop with a bound from outside */
  run("%9 = var i64 %1 %10 = const i64 3 %11 = for i64 %1, %10, %2 %12 = for i64 %1, %11, %2 %13 = get i64 %9 %14 = add i64 %13, %2 set i64 %9, %14 end end "
      "%15 = get i64 %9 %16 = cast f32 %15 store f32 p1[%1], %16",
      &m);
  assert_true(m.y[0] == 3);
}

static void test_ifs(void **state) {
  (void)state;
  memory m;
  run("%9 = lt bool %1, %2 if %9 %10 = const f32 7 store f32 p1[%1], %10 end %11 = lt bool %2, %1 if %11 %12 = const f32 8 store f32 p1[%2], %12 end", &m);
  assert_true(m.y[0] == 7 && m.y[1] == -1);
}

static void test_memory(void **state) {
  (void)state;
  memory m;
  run("%9 = const i64 10 %10 = const i64 3 %11 = load_strided f32x8 p0[%9], %10 store f32x8 p1[%1], %11", &m);
  for (int j = 0; j < 8; j++) assert_true(m.y[j] == (float)(10 + 3 * j));
  run("%9 = load i64x8 p2[%2] %10 = gather f32x8 p0[%9] %11 = mask boolx8 %5 store f32x8 p1[%1], %10 mask %11", &m);
  for (int j = 0; j < 8; j++) assert_true(m.y[j] == (j < 5 ? (float)(62 - j) : -1));
  run("%9 = load boolx8 p3[%1] %10 = load f32x8 p0[%2] mask %9 store f32x8 p1[%1], %10", &m);
  for (int j = 0; j < 8; j++) assert_true(m.y[j] == (j % 3 == 0 ? (float)(j + 1) : 0));
  run("%9 = load boolx8 p3[%1] %10 = load f32x8 p0[%2] %11 = const i64 2 store_strided f32x8 p1[%1], %11, %10 mask %9", &m);
  for (int j = 0; j < 16; j++) assert_true(m.y[j] == (j % 6 == 0 ? (float)(j / 2 + 1) : -1));
  run("%9 = load i64x4 p2[%1] %10 = load f32x4 p0[%1] scatter f32x4 p1[%9], %10", &m);
  for (int j = 0; j < 4; j++) assert_true(m.y[63 - j] == (float)j);
  run("%9 = lt bool %2, %1 %10 = load.guard f32x4 p0[%5], %1, %9 store f32x4 p1[%1], %10 %11 = lt bool %1, %2 %12 = load.guard f32x4 p0[%5], %1, %11 store f32x4 p1[%5], %12", &m);
  for (int j = 0; j < 4; j++) assert_true(m.y[j] == 0 && m.y[5 + j] == (float)(5 + j));
  run("%9 = load f32x4 p0[%5] store f32x4 s1[%2], %9 %10 = load f32x2 s1[%1] store f32x2 p1[%1], %10 prefetch p0[%1]", &m);
  assert_true(m.y[0] == 0 && m.y[1] == 5);
}

static void test_lanes(void **state) {
  (void)state;
  memory m;
  run("%9 = load f32x8 p0[%2] %10 = hreduce f32 sum %9 %11 = hreduce f32 max %9 %12 = extract f32 3 %9 store f32 p1[%1], %10 store f32 p1[%2], %11 %13 = const i64 2 store f32 p1[%13], %12", &m);
  assert_true(m.y[0] == 36 && m.y[1] == 8 && m.y[2] == 4);
  run("%9 = lanes i32x4 %10 = cast f32x4 %9 store f32x4 p1[%1], %10 %11 = const f32x4 nan %12 = bitcast i32x4 %10 %13 = bitcast f32x4 %12 store f32x4 p1[%5], %13", &m);
  for (int j = 0; j < 4; j++) assert_true(m.y[j] == (float)j && m.y[5 + j] == (float)j);
  run("%9 = load f32x4 p0[%1] %10 = const f32 nan %11 = splat f32x4 %10 %12 = mask boolx4 %2 %13 = select f32x4 %12, %11, %9 %14 = hreduce f32 min %13 store f32 p1[%1], %14", &m);
  assert_true(isnan(m.y[0]));
}

static void test_fma_rounds_once(void **state) {
  (void)state;
  memory m;
  run("%9 = const f32 1.0000001192092896 %10 = const f32 -1.000000238418579 %11 = fma f32 %9, %9, %10 store f32 p1[%1], %11", &m);
  assert_true(m.y[0] == 0x1p-46f);
}

static void test_index_error(void **state) {
  (void)state;
  memory m;
  run("%9 = load boolx4 p3[%1] %10 = mask boolx4 %1 index_error %9 mask %10", &m);
  assert_int_equal(m.status, 0);
  run("%9 = load boolx4 p3[%1] index_error %9", &m);
  assert_int_equal(m.status, 1);
  run("%9 = load boolx4 p3[%1] zero_error %9", &m);
  assert_int_equal(m.status, 2);
}

/* Expansions by the interpreter against the scalar's own meaning: integers exactly, floats closely. */
static void test_vector_maths(void **state) {
  (void)state;
  static const double fs[] = {0.3, -0.3, 1.5, -1.5, 7, -7, 0, 50, -50, 3, 2, 1e10};
  static const int64_t is[] = {0, 1, -1, 2, -2, 3, 7, -7, 100, -128, 127, 5};
  for (int o = 0; o < TN_N_SCALARS; o++) {
    for (int t = 0; t < TN_OBJ; t++) {
      if (o == TN_S_SELECT || !tn_scalar_accepts((tn_scalar_op)o, (tn_dtype)t)) continue;
      tn_arena a;
      tn_arena_init(&a);
      tn_nest *n;
      assert_int_equal(tn_nest_create(&a, "t", &n), TN_OK);
      tn_dtype result = tn_scalar_is_bool((tn_scalar_op)o) ? TN_BOOL : (tn_dtype)t;
      tn_nparam p[3] = {{"x", (uint8_t)t, false}, {"y", (uint8_t)t, false}, {"z", (uint8_t)result, true}};
      n->param = p;
      n->n_param = 3;
      tn_vt vt = {(uint8_t)t, 16};
      tn_nv zero = tn_n_i64(n, 0);
      tn_nv at = tn_n_for(n, zero, tn_n_i64(n, 144), tn_n_i64(n, 16));
      tn_n_store(n, 2, at, tn_n_scalar(n, (tn_scalar_op)o, tn_n_load(n, 0, vt, at, 0), tn_n_load(n, 1, vt, at, 0), 0), 0);
      tn_n_end(n);
      char x[144 * 8], y[144 * 8], z[144 * 8];
      size_t size = tn_dtype_size((tn_dtype)t), out_size = tn_dtype_size(result);
      for (size_t j = 0; j < 144; j++) {
        bool f = tn_dtype_is_float((tn_dtype)t);
        tn_num u = f ? tn_num_cast((tn_num){.f = fs[j / 12]}, TN_F64, (tn_dtype)t) : tn_num_cast((tn_num){.i = is[j / 12]}, TN_I64, (tn_dtype)t);
        tn_num v = f ? tn_num_cast((tn_num){.f = fs[j % 12]}, TN_F64, (tn_dtype)t) : tn_num_cast((tn_num){.i = is[j % 12]}, TN_I64, (tn_dtype)t);
        tn_num_store((tn_dtype)t, x + j * size, u);
        tn_num_store((tn_dtype)t, y + j * size, v);
      }
      void *ptr[3] = {x, y, z};
      tn_kernel_args args = {.ptr = ptr, .zeros = zeros};
      tn_diag d;
      tn_diag_clear(&d);
      if (tn_nest_interpret(&d, n, &args, 0, 1, NULL) != TN_OK) fail_msg("%s", d.text);
      for (size_t j = 0; j < 144; j++) {
        tn_num arg[2] = {tn_num_load((tn_dtype)t, x + j * size), tn_num_load((tn_dtype)t, y + j * size)};
        tn_num want = tn_scalar_eval((tn_scalar_op)o, (tn_dtype)t, arg), got = tn_num_load(result, z + j * out_size);
        if (o == TN_S_TRUNCDIV && tn_dtype_is_float(result)) { /* torch rounds the quotient first */
          want = tn_scalar_eval(TN_S_DIV, t == TN_F64 ? TN_F64 : TN_F32, arg);
          want = tn_num_cast((tn_num){.f = trunc(want.f)}, TN_F64, result);
        }
        double eps = t == TN_F64 ? 1e-14 : t == TN_F32 ? 1e-6 : t == TN_F16 ? 2e-3 : 2e-2;
        bool ok = tn_dtype_is_float(result) ? (isnan(want.f) && isnan(got.f)) || want.f == got.f || fabs(want.f - got.f) <= eps * fabs(want.f) : want.i == got.i;
        if (!ok) fail_msg("%s of %s, %g and %g: %g, wants %g (%lld, %lld)", tn_scalar_name((tn_scalar_op)o), tn_dtype_name((tn_dtype)t), arg[0].f, arg[1].f, got.f, want.f,
                          (long long)got.i, (long long)want.i);
      }
      tn_arena_deinit(&a);
    }
  }
}

static void test_refuses(void **state) {
  (void)state;
  tn_arena a;
  tn_arena_init(&a);
  tn_diag d;
  tn_diag_clear(&d);
  tn_nest *n = NULL;
  const char *text = "nest @t () sizes 0 { end }";
  assert_int_equal(tn_nest_parse(&d, &a, text, strlen(text), &n), TN_OK);
  tn_kernel_args args = {0};
  assert_int_equal(tn_nest_interpret(&d, n, &args, 0, 1, NULL), TN_E_VERIFY);
  text = "nest @t () sizes 0 { %1 = const i64 0 }";
  assert_int_equal(tn_nest_parse(&d, &a, text, strlen(text), &n), TN_OK);
  for (int k = 1; k < 3; k++) {
    tn_malloc_fail_after(k);
    assert_int_equal(tn_nest_interpret(&d, n, &args, 0, 1, NULL), TN_E_NOMEM);
    tn_malloc_fail_after(0);
  }
  tn_arena_deinit(&a);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_loops),       cmocka_unit_test(test_ifs),         cmocka_unit_test(test_memory),
                                     cmocka_unit_test(test_lanes),       cmocka_unit_test(test_fma_rounds_once), cmocka_unit_test(test_index_error),
                                     cmocka_unit_test(test_vector_maths), cmocka_unit_test(test_refuses)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

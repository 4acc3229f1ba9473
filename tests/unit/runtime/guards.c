/* Guards of a bind: what is refused, in which words, and what is fine although it looks different. */
#include "runtime_test.h"

static const char text[] =
    "plan \"guards\" {\n"
    "  sym s0, range 2..1024, input 0 dim 0\n"
    "  sym s1, range 0..max, input 1 dim 0\n"
    "  sym n, range 1..9, input 3 value\n"
    "  assume floordiv(s1, 6), equals 0, \"split\"\n"
    "  assume s1 + n, equals s1 + min(n, 8)\n"
    "  in 0 f32[s0, 64], strides [64, 1], \"x\"\n"
    "  in 1 f32[s1, 4*s0], strides [4*s0, 1]\n"
    "  in 2 f32[8, s0], strides any, \"free\"\n"
    "  in 3 i64[], strides [], \"n\"\n"
    "  in 4 f32[n], strides [1], \"v\"\n"
    "  buf 0 input 0\n"
    "  view 0 buf 0, f32[s0, 64], strides [64, 1]\n"
    "  out 0 view 0, alias 0\n"
    "  out 1 dim 4*s0 + n\n"
    "}\n";

typedef struct tensors { float f[4096]; int64_t n; tn_tensor t[5]; } tensors;

static void fill(tensors *v) {
  v->n = 3;
  v->t[0] = (tn_tensor){v->f, DIMS(2, 64), NULL, 2, TN_F32};
  v->t[1] = (tn_tensor){v->f, DIMS(5, 8), DIMS(8, 1), 2, TN_F32};
  v->t[2] = (tn_tensor){v->f, DIMS(8, 2), DIMS(1, 8), 2, TN_F32};
  v->t[3] = (tn_tensor){&v->n, NULL, NULL, 0, TN_I64};
  v->t[4] = (tn_tensor){v->f, DIMS(3), NULL, 1, TN_F32};
}

static void test_messages(void **state) {
  (void)state;
  static tensors v;
  static const int64_t huge[2] = {INT64_MAX / 2, 64};
  const struct { int input; tn_tensor t; int64_t n; const char *say; } bad[] = {
      {0, {v.f, DIMS(2, 64), NULL, 2, TN_F64}, 3, "input 0 'x': dtype is f64, wanted f32"},
      {0, {v.f, DIMS(2, 64), NULL, 2, 77}, 3, "input 0 'x': dtype is unknown, wanted f32"},
      {0, {v.f, DIMS(2, 64, 1), NULL, 3, TN_F32}, 3, "input 0 'x': rank is 3, wanted 2"},
      {0, {v.f, DIMS(2), NULL, -1, TN_F32}, 3, "input 0 'x': rank is -1, wanted 2"},
      {0, {v.f, DIMS(1, 64), NULL, 2, TN_F32}, 3, "input 0 'x': dim 0 is 1, wanted s0 in 2..1024"},
      {0, {v.f, DIMS(1025, 64), NULL, 2, TN_F32}, 3, "input 0 'x': dim 0 is 1025, wanted s0 in 2..1024"},
      {0, {v.f, DIMS(-2, 64), NULL, 2, TN_F32}, 3, "input 0 'x': dim 0 is -2"},
      {0, {v.f, DIMS(2, 63), NULL, 2, TN_F32}, 3, "input 0 'x': dim 1 is 63, wanted 64"},
      {0, {v.f, DIMS(2, 64), DIMS(1, 2), 2, TN_F32}, 3, "input 0 'x': stride 0 is 1, wanted 64"},
      {0, {v.f, huge, NULL, 2, TN_F32}, 3, "input 0 'x': its size overflows"},
      {0, {v.f, DIMS(2, 64), DIMS(INT64_MAX, 1), 2, TN_F32}, 3, "input 0 'x': its size overflows"},
      {0, {NULL, DIMS(2, 64), NULL, 2, TN_F32}, 3, "input 0 'x': has no memory"},
      {1, {v.f, DIMS(5, 9), NULL, 2, TN_F32}, 3, "input 1: dim 1 is 9, wanted 4*s0 = 8"},
      {1, {v.f, DIMS(5, 8), DIMS(9, 1), 2, TN_F32}, 3, "input 1: stride 0 is 9, wanted 4*s0 = 8"},
      {1, {v.f, DIMS(10, 8), NULL, 2, TN_F32}, 3, "sizes that must be equal are not: floordiv(s1, 6) = 1 and 0, at split"},
      {2, {v.f, DIMS(8, 3), NULL, 2, TN_F32}, 3, "input 2 'free': dim 1 is 3, wanted s0 = 2"},
      {3, {&v.n, NULL, NULL, 0, TN_I64}, 10, "input 3 'n': value is 10, wanted n in 1..9"},
      {3, {&v.n, NULL, NULL, 0, TN_I64}, 4, "input 4 'v': dim 0 is 3, wanted n = 4"},
  };
  tn_program *g = program_of(text);
  tn_run *r = run_of(g, 1);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    for (int after_good = 0; after_good < 2; after_good++) {
      fill(&v);
      if (after_good) bind_ok(r, v.t, NULL);
      v.t[bad[i].input] = bad[i].t;
      v.n = bad[i].n;
      assert_int_equal(tn_run_bind(r, v.t, NULL), TN_E_ARG);
      if (strncmp(tn_run_error(r), bad[i].say, strlen(bad[i].say)) != 0) fail_msg("case %zu: '%s', wanted '%s'", i, tn_run_error(r), bad[i].say);
      tn_tensor out[2] = {{0}};
      assert_int_equal(tn_run_exec(r, out), TN_E_ARG); /* nothing is bound now */
      assert_int_equal(tn_run_out(r, 0, out), TN_E_ARG);
    }
  fill(&v);
  bind_ok(r, v.t, NULL);
  tn_tensor out[2];
  assert_int_equal(tn_run_out(r, 1, &out[1]), TN_OK);
  assert_int_equal(*(int64_t *)out[1].data, 11);
  assert_int_equal(tn_run_out(r, 2, out), TN_E_ARG);
  tn_run_destroy(r);
  tn_program_destroy(g);
}

static void test_accepted(void **state) {
  (void)state;
  static tensors v;
  tn_program *g = program_of(text);
  tn_run *r = run_of(g, 1);
  tn_run_stats s;
  fill(&v);
  bind_ok(r, v.t, NULL);
  v.t[0].strides = DIMS(64, 1); /* the dense ones, spelled out: the same shape */
  bind_ok(r, v.t, NULL);
  v.t[1].strides = NULL;
  bind_ok(r, v.t, NULL);
  tn_run_get_stats(r, &s);
  assert_int_equal(s.binds, 1);
  v.t[1] = (tn_tensor){v.f, DIMS(1, 8), DIMS(999, 1), 2, TN_F32}; /* size-1 dims: any stride */
  bind_ok(r, v.t, NULL);
  v.t[1] = (tn_tensor){NULL, DIMS(0, 8), DIMS(77, 5), 2, TN_F32}; /* empty: any strides, no memory */
  bind_ok(r, v.t, NULL);
  v.t[2].strides = DIMS(-2, 1);
  v.t[2].data = v.f + 14; /* backwards */
  bind_ok(r, v.t, NULL);
  v.n = 5;
  v.t[4].shape = DIMS(5);
  bind_ok(r, v.t, NULL); /* another value of the scalar */
  tn_tensor out;
  assert_int_equal(tn_run_out(r, 1, &out), TN_OK);
  assert_int_equal(*(int64_t *)out.data, 13);
  tn_run_get_stats(r, &s);
  assert_int_equal(s.binds, 5);
  tn_run_destroy(r);
  tn_program_destroy(g);
}

/* Sizes that come out of expressions must be possible: these plans pass the verifier, as their sizes are symbolic. */
static void test_sizes(void **state) {
  (void)state;
  static const struct { const char *lines; tn_status st; const char *say; } t[] = {
      {"  buf 1 arena, bytes 4*s0, steps 0..0\n  view 0 buf 1, f32[s0 - 9], strides [1]\n", TN_E_ARG, "dim 0 of view 0 is s0 - 9 = -1"},
      {"  buf 1 arena, bytes s0 - 9, steps 0..0\n  view 0 buf 1, f32[0], strides [1]\n", TN_E_ARG, "buffer 1 wants -1 bytes"},
      {"  buf 1 arena, bytes 4*s0, steps 0..0\n  view 0 buf 1, f32[s0], strides [s0]\n", TN_E_VERIFY, "view 0 covers bytes 0..228 of buffer 1, which has 0..32"},
      {"  buf 1 arena, bytes 4*s0, steps 0..0\n  view 0 buf 1, f32[s0], strides [1], offset -1\n", TN_E_VERIFY, "view 0 covers bytes -4..28"},
      {"  buf 1 input 0\n  view 0 buf 1, f32[s0 + 1], strides [1]\n", TN_E_VERIFY, "view 0 covers bytes 0..36 of buffer 1, which has 0..32"},
      {"  buf 1 arena, bytes 4*s0, steps 0..0\n  view 0 buf 1, f32[s0], strides [4611686018427387904]\n", TN_E_ARG, "the size of view 0 overflows"},
      {"  buf 1 arena, bytes 4611686018427387904*s0, steps 0..0\n  view 0 buf 1, f32[s0], strides [1]\n", TN_E_ARG, "overflows or divides by zero; while s0 is 8"},
      {"  buf 1 arena, bytes 1099511627776000*s0, steps 0..0\n  view 0 buf 1, f32[s0], strides [1]\n", TN_E_NOMEM, "arena of 8796093022208000 bytes"},
  };
  for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
    char plan[2048];
    snprintf(plan, sizeof plan,
             "plan \"p\" {\n  sym s0, range 0..max, input 0 dim 0\n  in 0 f32[s0], strides [1]\n  buf 0 input 0\n%s  kernel 0 \"k_nop\", params 1, sizes 0, object 1, hash "
             "0000000000000000\n  step 0 launch 0 (0), blocks 1, grain 1\n}\n",
             t[i].lines);
    tn_program *g = program_of(plan);
    tn_run *r = run_of(g, 1);
    float x[8] = {0};
    tn_tensor in = {x, DIMS(8), NULL, 1, TN_F32};
    tn_status st = tn_run_bind(r, &in, NULL);
    if (st != t[i].st) fail_msg("case %zu: %s (%s)", i, tn_status_name(st), tn_run_error(r));
    expect_says(tn_run_error(r), t[i].say);
    tn_run_destroy(r);
    tn_program_destroy(g);
  }
}

static void test_blocks(void **state) {
  (void)state;
  tn_program *g = program_of("plan \"p\" {\n  sym s0, range 0..max, input 0 dim 0\n  in 0 f32[s0], strides [1]\n  buf 0 input 0\n  view 0 buf 0, f32[s0], strides [1]\n"
                             "  kernel 0 \"k_nop\", params 1, sizes 0, object 1, hash 0000000000000000\n  step 0 launch 0 (0), blocks s0 - 4, grain 1, \"k_nop(x)\"\n}\n");
  tn_run *r = run_of(g, 1);
  float x[8] = {0};
  tn_tensor in = {x, DIMS(3), NULL, 1, TN_F32};
  assert_int_equal(tn_run_bind(r, &in, NULL), TN_E_ARG);
  expect_says(tn_run_error(r), "number of blocks is s0 - 4 = -1; while binding step 0 k_nop(x)");
  tn_run_stats s;
  for (int64_t n = 4; n < 6; n++) {
    in.shape = &n;
    bind_ok(r, &in, NULL);
    exec_ok(r, NULL);
    tn_run_get_stats(r, &s);
    assert_int_equal(s.launches, n - 4); /* no blocks: skipped */
  }
  tn_run_destroy(r);
  tn_program_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_messages), cmocka_unit_test(test_accepted), cmocka_unit_test(test_sizes), cmocka_unit_test(test_blocks)};
  return cmocka_run_group_tests(tests, load_object, free_object);
}

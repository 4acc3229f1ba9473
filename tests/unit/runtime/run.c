/* Running: kernels, library calls, host calls, every kind of output, changing sizes without allocation, and the cost of a
 * call on known shapes. */
#include "runtime_test.h"

/* y = 2 * (x + w) over s0 rows of 8, with one arena buffer */
static const char rows[] =
    "plan \"rows\" {\n"
    "  sym s0, range 0..max, input 0 dim 0\n"
    "  in 0 f32[s0, 8], strides [8, 1], \"x\"\n"
    "  in 1 f32[s0, 8], strides [8, 1], \"w\"\n"
    "  buf 0 input 0\n  buf 1 input 1\n  buf 2 arena, bytes 32*s0, steps 0..1\n  buf 3 output 0\n"
    "  view 0 buf 0, f32[s0, 8], strides [8, 1]\n  view 1 buf 1, f32[s0, 8], strides [8, 1]\n"
    "  view 2 buf 2, f32[s0, 8], strides [8, 1]\n  view 3 buf 3, f32[s0, 8], strides [8, 1]\n"
    "  kernel 0 \"k_add\", params 3, sizes 1, object 1, hash 0000000000000000\n"
    "  kernel 1 \"k_scale\", params 2, sizes 1, object 1, hash 0000000000000000\n"
    "  step 0 launch 0 (0, 1, 2), sizes [8*s0], blocks floordiv(s0 + 7, 8), grain 1\n"
    "  step 1 launch 1 (2, 3), sizes [8*s0], blocks 8*s0, grain 64\n"
    "  out 0 view 3\n"
    "}\n";

static void call_rows(tn_run *r, int64_t n, float *x, float *w, float *y) {
  tn_tensor in[2] = {{x, DIMS(n, 8), NULL, 2, TN_F32}, {w, DIMS(n, 8), NULL, 2, TN_F32}}, out;
  bind_ok(r, in, NULL);
  assert_int_equal(tn_run_out(r, 0, &out), TN_OK);
  assert_true(out.shape[0] == n && out.shape[1] == 8 && out.strides[0] == 8 && out.dtype == TN_F32 && out.data == NULL);
  out.data = y;
  exec_ok(r, &out);
  for (int64_t i = 0; i < n * 8; i++) assert_true(y[i] == 2 * (x[i] + w[i]));
}

static void test_sizes(void **state) {
  (void)state;
  tn_program *g = program_of(rows);
  float *x = malloc(3 * 8100 * sizeof *x), *w = x + 8100, *y = w + 8100;
  for (int i = 0; i < 16200; i++) x[i] = (float)i;
  for (int threads = 1; threads < 4; threads++) {
    tn_run *r = run_of(g, threads);
    tn_run_stats s;
    static const int64_t sizes[] = {1000, 3, 0, 1000, 999, 17, 0, 1000};
    call_rows(r, sizes[0], x, w, y);
    int64_t before = tn_malloc_count();
    for (size_t i = 1; i < sizeof sizes / sizeof *sizes; i++) call_rows(r, sizes[i], x + i, w + 2 * i, y);
    assert_int_equal(tn_malloc_count(), before); /* memory stays at the largest size */
    tn_run_get_stats(r, &s);
    assert_int_equal(s.calls, 8);
    assert_int_equal(s.binds, 8);
    assert_int_equal(s.launches, 12); /* nothing is launched for no rows */
    assert_int_equal(s.arena_bytes, 32000);
    tn_run_destroy(r);
  }
  free(x);
  tn_program_destroy(g);
}

static void test_growing(void **state) {
  (void)state;
  tn_program *g = program_of(rows);
  tn_run *r = run_of(g, 1);
  static float x[8000], w[8000], y[8000];
  call_rows(r, 100, x, w, y);
  int64_t before = tn_malloc_count();
  for (int64_t n = 101; n < 1000; n++) call_rows(r, n, x, w, y);
  assert_true(tn_malloc_count() - before < 20); /* sizes that creep up do not allocate each time */
  tn_run_destroy(r);
  tn_program_destroy(g);
}

/* Every kind of output, a constant, a view step, an input written in place. */
static const char kinds[] =
    "plan \"kinds\" {\n"
    "  sym s0, range 1..100, input 0 dim 0\n"
    "  in 0 f32[s0, 2], strides [2, 1], \"x\"\n"
    "  in 1 f32[4], strides [1], \"state\"\n"
    "  buf 0 input 0\n  buf 1 input 1\n  buf 2 output 0\n  buf 3 const, bytes 16, data x0000803f000000400000404000008040\n  buf 4 arena, bytes 16, steps 0..1\n"
    "  view 0 buf 0, f32[s0, 2], strides [2, 1]\n"
    "  view 1 buf 0, f32[s0], strides [2], offset 1, \"second column\"\n"
    "  view 2 buf 1, f32[4], strides [1]\n"
    "  view 3 buf 2, f32[s0, 2], strides [1, s0], \"column major\"\n"
    "  view 4 buf 3, f32[4], strides [1]\n"
    "  view 5 buf 4, f32[4], strides [1]\n"
    "  view 6 buf 2, f32[s0], strides [1], \"first column of output 0\"\n"
    "  view 7 buf 4, f32[2, 2], strides [1, 2], \"transposed\"\n"
    "  kernel 0 \"k_add\", params 3, sizes 1, object 1, hash 0000000000000000\n"
    "  step 0 launch 0 (2, 4, 5), sizes [4], blocks 1, grain 1\n"
    "  step 1 lib copy (5) -> (2)\n"
    "  step 2 lib copy (0) -> (3)\n"
    "  step 3 view (6)\n"
    "  out 0 view 3\n  out 1 view 1, alias 0\n  out 2 none\n  out 3 dim 3*s0 + 1\n  out 4 view 4\n  out 5 view 6\n  out 6 view 7\n  out 7 view 1\n"
    "}\n";

static void test_outputs(void **state) {
  (void)state;
  tn_program *g = program_of(kinds);
  tn_run *r = run_of(g, 1);
  float x[6] = {1, 2, 3, 4, 5, 6}, st[4] = {10, 20, 30, 40}, y[8][8];
  int64_t dim = 0;
  tn_tensor in[2] = {{x, DIMS(3, 2), NULL, 2, TN_F32}, {st, DIMS(4), NULL, 1, TN_F32}}, out[8];
  bind_ok(r, in, NULL);
  assert_int_equal(tn_program_n_out(g), 8);
  assert_int_equal(tn_program_n_in(g), 2);
  for (uint32_t i = 0; i < 8; i++) {
    assert_int_equal(tn_run_out(r, i, &out[i]), TN_OK);
    assert_int_equal(tn_run_out_alias(r, i), i == 1 ? 0 : -1);
  }
  assert_true(out[0].strides[0] == 1 && out[0].strides[1] == 3);
  assert_ptr_equal(out[1].data, x + 1);
  assert_true(out[1].shape[0] == 3 && out[1].strides[0] == 2);
  assert_int_equal(out[2].dtype, -1);
  assert_true(out[3].dtype == TN_I64 && out[3].rank == 0 && *(int64_t *)out[3].data == 10);
  assert_true(out[6].strides[0] == 2 && out[6].strides[1] == 1); /* copies are row-major */
  const int own[] = {0, 4, 5, 6, 7};
  for (int i = 0; i < 5; i++) out[own[i]].data = y[own[i]];
  out[3].data = &dim;
  exec_ok(r, out);
  assert_int_equal(dim, 10);
  for (int i = 0; i < 3; i++) {
    assert_true(y[0][i] == x[2 * i] && y[0][3 + i] == x[2 * i + 1]);
    assert_true(y[5][i] == x[2 * i]);
    assert_true(y[7][i] == x[2 * i + 1]);
  }
  const float now[4] = {11, 22, 33, 44};
  for (int i = 0; i < 4; i++) {
    assert_true(st[i] == now[i]); /* written in place */
    assert_true(y[4][i] == (float)(i + 1));
    assert_true(y[6][i] == now[i / 2 + i % 2 * 2]);
  }
  tn_run_stats s;
  tn_run_get_stats(r, &s);
  assert_true(s.views == 1 && s.lib_calls == 2 && s.launches == 1);

  /* What the caller brings must be what it was told. */
  out[0].data = NULL;
  assert_int_equal(tn_run_exec(r, out), TN_E_ARG);
  expect_says(tn_run_error(r), "output 0: has no memory");
  out[0].data = y[0];
  out[0].strides = NULL; /* row-major: not as told */
  assert_int_equal(tn_run_exec(r, out), TN_E_ARG);
  expect_says(tn_run_error(r), "output 0: dtype, shape or strides differ");
  out[0].strides = DIMS(1, 3);
  out[0].shape = DIMS(3, 2);
  exec_ok(r, out);
  assert_true(st[0] == 12);
  /* Other sizes, other memory. */
  float big[14] = {0}, y2[8][14];
  in[0] = (tn_tensor){big, DIMS(7, 2), NULL, 2, TN_F32};
  bind_ok(r, in, NULL);
  for (uint32_t i = 0; i < 8; i++) {
    assert_int_equal(tn_run_out(r, i, &out[i]), TN_OK);
    if (i != 1 && i != 3) out[i].data = y2[i];
  }
  assert_ptr_equal(out[1].data, big + 1);
  for (int i = 0; i < 14; i++) big[i] = (float)(50 + i);
  exec_ok(r, out);
  for (int i = 0; i < 7; i++) assert_true(y2[0][i] == big[2 * i] && y2[0][7 + i] == big[2 * i + 1] && y2[7][i] == big[2 * i + 1]);
  tn_run_destroy(r);
  tn_program_destroy(g);
}

static void test_index_error(void **state) {
  (void)state;
  tn_program *g = program_of("plan \"take\" {\n  in 0 f32[3], strides [1], \"x\"\n  in 1 i64[5], strides [1], \"idx\"\n"
                             "  buf 0 input 0\n  buf 1 input 1\n  buf 2 output 0\n"
                             "  view 0 buf 0, f32[3], strides [1]\n  view 1 buf 1, i64[5], strides [1]\n  view 2 buf 2, f32[5], strides [1]\n"
                             "  kernel 0 \"k_take\", params 3, sizes 1, object 1, hash 0000000000000000\n"
                             "  step 0 launch 0 (0, 1, 2), sizes [3], blocks 5, grain 1, \"tn_take_0(x, idx)\"\n  out 0 view 2\n}\n");
  tn_run *r = run_of(g, 2);
  float x[3] = {5, 6, 7}, y[5];
  int64_t idx[5] = {2, 0, 1, 3, 0};
  tn_tensor in[2] = {{x, DIMS(3), NULL, 1, TN_F32}, {idx, DIMS(5), NULL, 1, TN_I64}}, out;
  bind_ok(r, in, NULL);
  assert_int_equal(tn_run_out(r, 0, &out), TN_OK);
  out.data = y;
  assert_int_equal(tn_run_exec(r, &out), TN_E_INDEX);
  expect_says(tn_run_error(r), "an index is out of range in tn_take_0(x, idx)");
  idx[3] = 2;
  exec_ok(r, &out);
  assert_true(y[0] == 7 && y[3] == 7 && y[4] == 5);
  tn_run_destroy(r);
  tn_program_destroy(g);
}

/* Library calls on operands that are not row-major: copies in, copies out, kept memory. */
static void test_library(void **state) {
  (void)state;
  tn_program *g = program_of("plan \"lib\" {\n  sym s0, range 1..100, input 0 dim 1\n  in 0 f32[3, s0], strides any, \"x\"\n"
                             "  buf 0 input 0\n  buf 1 output 0\n  buf 2 output 1\n  buf 3 output 2\n"
                             "  view 0 buf 0, f32[3, s0], strides any\n"
                             "  view 1 buf 1, f32[3, s0], strides [1, 3]\n"
                             "  view 2 buf 2, i64[3, s0], strides [s0, 1]\n"
                             "  view 3 buf 3, f32[3, s0], strides [s0, 1]\n"
                             "  step 0 lib sort (0) -> (1, 2), params [-1, 1], \"aten.sort.default(x)\"\n"
                             "  step 1 lib scan (0) -> (3), params [0, 1]\n"
                             "  out 0 view 1\n  out 1 view 2\n  out 2 view 3\n}\n");
  tn_run *r = run_of(g, 1);
  float x[15], y[15], scan[15];
  int64_t at[15];
  for (int i = 0; i < 15; i++) x[i] = (float)((i * 7) % 15);
  for (int twice = 0; twice < 3; twice++) {
    int64_t before = tn_malloc_count();
    tn_tensor in = {x, DIMS(3, 5), DIMS(1, 3), 2, TN_F32}, out[3];
    bind_ok(r, &in, NULL);
    for (uint32_t i = 0; i < 3; i++) assert_int_equal(tn_run_out(r, i, &out[i]), TN_OK);
    out[0].data = y, out[1].data = at, out[2].data = scan;
    exec_ok(r, out);
    for (int i = 0; i < 3; i++) {
      float sum = 0;
      for (int j = 0; j < 5; j++) {
        assert_true(j == 0 || y[j * 3 + i] <= y[(j - 1) * 3 + i]);
        assert_true(y[j * 3 + i] == x[at[i * 5 + j] * 3 + i]);
        sum += x[j * 3 + i];
        assert_true(scan[i * 5 + j] == sum);
      }
    }
    if (twice == 2) print_message("%d allocations in a call with sort\n", (int)(tn_malloc_count() - before));
  }
  tn_run_destroy(r);
  tn_program_destroy(g);
}

static void test_library_rules(void **state) {
  (void)state;
  static const struct { const char *step, *say; } t[] = {
      {"lib sort (0) -> (0, 1), params [0]", "sort has 1 parameters, wanted 2 (dim descending)"},
      {"lib copy (0) -> (1)", "operands of different dtype"},
      {"lib index_put (0, 0, 1) -> (0), params [0, 2, 0, 1]", "3 inputs and 4 parameters, but 2 indices"},
  };
  for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
    char plan[1024];
    snprintf(plan, sizeof plan,
             "plan \"p\" {\n  in 0 f32[4], strides [1]\n  in 1 i64[4], strides [1]\n  buf 0 input 0\n  buf 1 input 1\n"
             "  view 0 buf 0, f32[4], strides [1]\n  view 1 buf 1, i64[4], strides [1]\n  step 0 %s\n}\n", t[i].step);
    tn_diag d;
    tn_plan *p;
    tn_program *g;
    assert_int_equal(read_plan(&d, plan, &p), TN_OK);
    assert_int_equal(tn_program_create(&d, p, &g), TN_E_VERIFY);
    expect_says(d.text, t[i].say);
  }
}

/* Programs that cannot be: no object, no constant, an object that does not load. */
static void test_refused(void **state) {
  (void)state;
  tn_diag d;
  tn_plan *p;
  tn_program *g;
  assert_int_equal(read_plan(&d, rows, &p), TN_OK);
  p->kernel[1].object = NULL;
  assert_int_equal(tn_program_create(&d, p, &g), TN_E_VERIFY);
  expect_says(d.text, "kernel 'k_scale' has no object");
  assert_int_equal(read_plan(&d, rows, &p), TN_OK);
  p->kernel[1].object_bytes = 100;
  assert_int_equal(tn_program_create(&d, p, &g), TN_E_PARSE);
  expect_says(d.text, "kernel 'k_scale' cannot be loaded into device cpu: section table");
  assert_int_equal(read_plan(&d, kinds, &p), TN_OK);
  p->buf[3].data = NULL;
  assert_int_equal(tn_program_create(&d, p, &g), TN_E_VERIFY);
  expect_says(d.text, "constant buffer 3 of plan 'kinds' has no data");
  assert_int_equal(read_plan(&d, rows, &p), TN_OK);
  p->step[0].kernel = 9;
  assert_int_equal(tn_program_create(&d, p, &g), TN_E_VERIFY);
  expect_says(d.text, "verifying plan 'rows'");
  assert_null(g);
}

/* The null device runs the flow: same calls, no results. */
static void test_null_device(void **state) {
  (void)state;
  tn_diag d;
  tn_plan *p;
  tn_program *g;
  assert_int_equal(read_plan(&d, rows, &p), TN_OK);
  assert_int_equal(tn_program_create_on(&d, p, tn_device_find("null"), &g), TN_OK);
  assert_ptr_equal(tn_program_plan(g), p);
  tn_run *r = run_of(g, 2);
  float x[64], y[64] = {7};
  tn_tensor in[2] = {{x, DIMS(8, 8), NULL, 2, TN_F32}, {x, DIMS(8, 8), NULL, 2, TN_F32}}, out;
  bind_ok(r, in, NULL);
  assert_int_equal(tn_run_out(r, 0, &out), TN_OK);
  out.data = y;
  exec_ok(r, &out);
  assert_true(y[0] == 7);
  tn_run_stats s;
  tn_run_get_stats(r, &s);
  assert_int_equal(s.launches, 2);
  tn_run_destroy(r);
  tn_program_destroy(g);
}

/* A call on known shapes with three steps and six inputs: what the run time itself costs, without kernels. */
static void test_overhead(void **state) {
  (void)state;
  char plan[4096];
  tn_str s;
  tn_str_init(&s);
  tn_str_add(&s, "plan \"overhead\" {\n  sym s0, range 1..max, input 0 dim 0\n");
  for (int i = 0; i < 6; i++) tn_str_add(&s, "  in %d f32[s0, 16], strides [16, 1]\n", i);
  for (int i = 0; i < 6; i++) tn_str_add(&s, "  buf %d input %d\n", i, i);
  tn_str_add(&s, "  buf 6 output 0\n  buf 7 arena, bytes 64*s0, steps 0..2\n");
  for (int i = 0; i < 8; i++) tn_str_add(&s, "  view %d buf %d, f32[s0, 16], strides [16, 1]\n", i, i);
  tn_str_add(&s, "  kernel 0 \"k_nop\", params 4, sizes 2, object 1, hash 0000000000000000\n");
  for (int i = 0; i < 3; i++) tn_str_add(&s, "  step %d launch 0 (%d, %d, 7, 6), sizes [s0, 16*s0], blocks 1, grain 1\n", i, 2 * i, 2 * i + 1);
  tn_str_add(&s, "  out 0 view 6\n}\n");
  snprintf(plan, sizeof plan, "%s", s.s);
  tn_str_deinit(&s);
  tn_program *g = program_of(plan);
  tn_run *r = run_of(g, 1);
  static float x[7][16 * 16];
  tn_tensor in[6], out;
  for (int i = 0; i < 6; i++) in[i] = (tn_tensor){x[i], DIMS(16, 16), DIMS(16, 1), 2, TN_F32};
  enum { CALLS = 100000 };
  double best = 1e9, moving = 1e9, anew = 1e9;
  int64_t before = 0;
  for (int round = 0; round < 3; round++) {
    for (int how = 0; how < 3; how++) {
      int calls = how == 2 ? CALLS / 100 : CALLS;
      uint64_t t = tn_now_ns();
      for (int i = 0; i < calls; i++) {
        int64_t shape[2] = {how == 2 ? 8 + i % 2 : 16, 16};
        for (int k = 0; k < 6; k++) {
          in[k].shape = shape;
          if (how == 1) in[k].data = x[(k + i) % 6];
        }
        (void)!tn_run_bind(r, in, NULL);
        (void)!tn_run_out(r, 0, &out);
        out.data = x[6];
        (void)!tn_run_exec(r, &out);
      }
      double ns = (double)(tn_now_ns() - t) / calls;
      double *b = how == 0 ? &best : how == 1 ? &moving : &anew;
      if (ns < *b) *b = ns;
    }
    if (round == 0) before = tn_malloc_count();
  }
  assert_int_equal(tn_malloc_count(), before);
  print_message("bind + out + exec of 3 empty kernels: %.0f ns with known shapes, %.0f ns with moving inputs, %.0f ns with changing shapes\n", best, moving, anew);
  tn_run_destroy(r);
  tn_program_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_sizes),   cmocka_unit_test(test_growing),       cmocka_unit_test(test_outputs), cmocka_unit_test(test_index_error),
                                     cmocka_unit_test(test_library), cmocka_unit_test(test_library_rules), cmocka_unit_test(test_refused), cmocka_unit_test(test_null_device),
                                     cmocka_unit_test(test_overhead)};
  return cmocka_run_group_tests(tests, load_object, free_object);
}

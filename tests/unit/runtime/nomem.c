/* Every allocation of loading, creating, binding and running fails once: the answer is TN_E_NOMEM, nothing leaks, and the
 * same run works afterwards. */
#include "runtime_test.h"

static const char text[] =
    "plan \"nomem\" {\n"
    "  sym s0, range 0..max, input 0 dim 0\n"
    "  in 0 f32[s0, 8], strides any, \"x\"\n"
    "  in 1 f32[2, 4], strides [4, 1], \"w\"\n"
    "  buf 0 input 0\n  buf 1 input 1\n  buf 2 arena, bytes 32*s0, steps 1..2\n  buf 3 output 0\n  buf 4 packed, bytes 32, from 1\n  buf 5 const, bytes 4, data x00000000\n"
    "  view 0 buf 0, f32[s0, 8], strides any\n  view 1 buf 1, f32[2, 4], strides [4, 1]\n"
    "  view 2 buf 2, f32[s0, 8], strides [1, s0]\n  view 3 buf 3, f32[s0, 8], strides [8, 1]\n  view 4 buf 4, f32[8], strides [1]\n"
    "  view 5 buf 5, f32[], strides []\n"
    "  kernel 0 \"k_pack\", params 2, sizes 2, object 1, hash 0000000000000000\n"
    "  kernel 1 \"k_scratch\", params 1, sizes 0, object 1, hash 0000000000000000\n"
    "  step 0 launch 0 (1, 4), sizes [2, 4], blocks 2, grain 1, pack\n"
    "  step 1 lib scan (0) -> (2), params [0, 1]\n"
    "  step 2 lib copy (2) -> (3)\n"
    "  step 3 launch 1 (4), blocks 8, grain 1, scratch 1024\n"
    "  out 0 view 3\n  out 1 view 5\n"
    "}\n";

static float x[80], w[8], y[80];

static tn_status call(tn_run *r, int64_t n, bool *checked) {
  float zero = 1;
  int64_t shape[2] = {n, 8}, w_shape[2] = {2, 4}, strides[2] = {1, n};
  tn_tensor in[2] = {{x, shape, strides, 2, TN_F32}, {w, w_shape, NULL, 2, TN_F32}}, out[2];
  TN_TRY(tn_run_bind(r, in, NULL));
  for (uint32_t i = 0; i < 2; i++) TN_TRY(tn_run_out(r, i, &out[i]));
  out[0].data = y;
  out[1].data = &zero;
  TN_TRY(tn_run_exec(r, out));
  tn_malloc_fail_after(0);
  for (int64_t i = 0; i < n; i++) {
    float sum = 0;
    for (int64_t j = 0; j < 8; j++) {
      sum += x[j * n + i];
      assert_true(y[i * 8 + j] == sum);
    }
  }
  assert_true(zero == 0);
  *checked = true;
  return TN_OK;
}

static void test_create(void **state) {
  (void)state;
  tn_diag d;
  assert_non_null(tn_device_pool(2)); /* made once per process */
  for (int64_t n = 1;; n++) {
    tn_plan *p;
    tn_program *g = NULL;
    tn_run *r = NULL;
    tn_run_options o;
    tn_run_options_init(&o);
    o.threads = 2;
    assert_int_equal(read_plan(&d, text, &p), TN_OK);
    tn_malloc_fail_after(n);
    tn_status st = tn_program_create(&d, p, &g);
    if (st == TN_OK) st = tn_run_create(g, &o, &r);
    tn_malloc_fail_after(0);
    assert_true((st == TN_OK) == (r != NULL));
    tn_run_destroy(r);
    tn_program_destroy(g);
    if (st == TN_OK) break;
    if (st != TN_E_NOMEM) fail_msg("allocation %d: %s", (int)n, d.text);
    assert_true(n < 500);
  }
}

static void test_run(void **state) {
  (void)state;
  for (int i = 0; i < 80; i++) x[i] = (float)i;
  tn_program *g = program_of(text);
  for (int64_t n = 1;; n++) {
    tn_run *r = run_of(g, 2);
    bool checked = false;
    tn_malloc_fail_after(n);
    tn_status st = call(r, 3, &checked);
    tn_malloc_fail_after(0);
    bool done = st == TN_OK;
    if (!done) {
      if (st != TN_E_NOMEM) fail_msg("allocation %d: %s", (int)n, tn_run_error(r));
      assert_int_equal(call(r, 3, &checked), TN_OK);
    }
    assert_true(checked);
    /* Larger sizes need memory again. */
    tn_malloc_fail_after(1);
    st = call(r, 10, &checked);
    tn_malloc_fail_after(0);
    assert_int_equal(st, TN_E_NOMEM);
    assert_int_equal(call(r, 10, &checked), TN_OK);
    assert_int_equal(call(r, 3, &checked), TN_OK);
    tn_run_destroy(r);
    if (done) break;
    assert_true(n < 100);
  }
  tn_program_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_create), cmocka_unit_test(test_run)};
  return cmocka_run_group_tests(tests, load_object, free_object);
}

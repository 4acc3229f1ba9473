/* Failure injection: every allocation of adding, verifying and evaluating fails once. The answer is TN_E_NOMEM (or, where a
 * dim expression could not be made, a refusal), the graph stays usable, and nothing leaks (seen by the sanitizer build). */
#include "ops_test.h"

static const char text[] = "graph @t(%x: f32[s0,3], %y: f32[3*s0 + 1], %i: i64[2]) -> (f32[s0,3], f32[s0,3], i64[s0,3], f32[2,3], dim) {\n"
                           "  %0: f32[s0,3] = fused %x {kind=\"k\"} {\n    (%a: f32[s0,3])\n    %b: f32[s0,3] = exp %a\n    yield %b\n  }\n"
                           "  %1: f32[s0,3], %2: i64[s0,3] = sort %0 {dim=1}\n"
                           "  %3: f32[s0,3], %4: i64[s0,3] = topk %x {k=[3], dim=1}\n"
                           "  %5: f32[2,3] = take %x, %i {dim=0}\n"
                           "  return %1, %3, %4, %5, dim s0 + 2\n}\n";

static void test_eval(void **state) {
  (void)state;
  const float x[6] = {1, 2, 3, 4, 5, 6}, y[7] = {0};
  const int64_t idx[2] = {0, -1}, sx[2] = {2, 3}, st[2] = {1, 2}, sy[1] = {7}, si[1] = {2};
  const tn_tensor in[3] = {{(void *)(uintptr_t)x, sx, st, 2, TN_F32},
                           {(void *)(uintptr_t)y, sy, NULL, 1, TN_F32},
                           {(void *)(uintptr_t)idx, si, NULL, 1, TN_I64}};
  int failures = 0;
  for (int64_t n = 1;; n++) {
    world w;
    tn_tensor out[5];
    world_open(&w, text);
    tn_malloc_fail_after(n);
    tn_status s = tn_ops_verify(&w.d, w.g);
    if (s == TN_OK) s = tn_ops_eval_graph(&w.d, &w.a, w.g, in, out);
    tn_malloc_fail_after(0);
    if (s != TN_OK) assert_true(s == TN_E_NOMEM || s == TN_E_ARG || s == TN_E_VERIFY);
    failures += s != TN_OK;
    if (s != TN_OK) { /* the same graph works when memory is back */
      assert_int_equal(tn_ops_verify(&w.d, w.g), TN_OK);
      assert_int_equal(tn_ops_eval_graph(&w.d, &w.a, w.g, in, out), TN_OK);
    }
    world_close(&w);
    if (s == TN_OK) break;
  }
  assert_true(failures > 10);
}
static void test_add(void **state) {
  (void)state;
  for (int64_t n = 1;; n++) {
    world w;
    tn_ref out = {0};
    tn_status s = TN_OK;
    world_open(&w, text);
    tn_ref in = w.g->input[0];
    tn_malloc_fail_after(n);
    for (int k = 0; k < 300 && s == TN_OK; k++) {
      tn_attr at[3] = {tn_mk_dims(w.g, "lo", (const tn_dim[]){k, 0}, 2), tn_mk_dims(w.g, "hi", (const tn_dim[]){0, 0}, 2),
                       tn_mk_float("value", 0)};
      s = tn_ops_add(&w.d, w.g, TN_OP_PAD, &in, 1, at, 3, 0, &out);
    }
    tn_malloc_fail_after(0);
    if (s != TN_OK) assert_true(s == TN_E_NOMEM || s == TN_E_ARG);
    world_close(&w);
    if (s == TN_OK) break;
  }
}
int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_eval), cmocka_unit_test(test_add)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

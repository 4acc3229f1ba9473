/* Packed copies: made once, and again exactly when the parameter's address or version says so, or its form changes. A
 * stale one is a wrong answer, so each case compares numbers. */
#include <pthread.h>
#include "runtime_test.h"

/* out = (w packed, i.e. transposed)[k] + x */
static const char text[] =
    "plan \"packs\" {\n"
    "  in 0 f32[6], strides [1], \"x\"\n"
    "  in 1 f32[2, 3], strides [3, 1], \"w\"\n"
    "  buf 0 input 0\n"
    "  buf 1 input 1\n"
    "  buf 2 packed, bytes 24, from 1\n"
    "  buf 3 output 0\n"
    "  view 0 buf 0, f32[6], strides [1]\n"
    "  view 1 buf 1, f32[2, 3], strides [3, 1]\n"
    "  view 2 buf 2, f32[6], strides [1]\n"
    "  view 3 buf 3, f32[6], strides [1]\n"
    "  kernel 0 \"k_pack\", params 2, sizes 2, object 1, hash 0000000000000000\n"
    "  kernel 1 \"k_add\", params 3, sizes 1, object 1, hash 0000000000000000\n"
    "  step 0 launch 0 (1, 2), sizes [2, 3], blocks 2, grain 1, pack, \"pack(w)\"\n"
    "  step 1 launch 1 (0, 2, 3), sizes [6], blocks 1, grain 1\n"
    "  out 0 view 3\n"
    "}\n";

static const float x[6] = {100, 200, 300, 400, 500, 600};

static void check_call(tn_run *r, const float *w, const uint64_t *key, uint64_t want_packs) {
  float y[6] = {0};
  tn_tensor in[2] = {{(void *)(uintptr_t)x, DIMS(6), NULL, 1, TN_F32}, {(void *)(uintptr_t)w, DIMS(2, 3), NULL, 2, TN_F32}}, out;
  tn_run_stats s;
  bind_ok(r, in, key);
  assert_int_equal(tn_run_out(r, 0, &out), TN_OK);
  out.data = y;
  exec_ok(r, &out);
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 3; j++) assert_true(y[j * 2 + i] == w[i * 3 + j] + x[j * 2 + i]);
  tn_run_get_stats(r, &s);
  assert_int_equal(s.packs, want_packs);
}

static void test_renewal(void **state) {
  (void)state;
  tn_program *g = program_of(text);
  tn_run *r = run_of(g, 2);
  float w[6] = {1, 2, 3, 4, 5, 6}, other[6] = {7, 8, 9, 10, 11, 12};
  check_call(r, w, NULL, 1);
  check_call(r, w, NULL, 1); /* same address, no versions: taken as unchanged */
  check_call(r, other, NULL, 2);
  check_call(r, w, NULL, 3);
  uint64_t key[2] = {0, 5};
  check_call(r, w, key, 4); /* a version where none was known */
  check_call(r, w, key, 4);
  w[3] = 44;
  key[1]++;
  check_call(r, w, key, 5);
  key[0]++; /* of the other input */
  check_call(r, w, key, 5);
  key[1] = 0;
  check_call(r, w, key, 6); /* any change counts, also backwards */
  check_call(r, w, NULL, 6);
  tn_run *second = run_of(g, 1); /* copies belong to the run */
  check_call(second, other, NULL, 1);
  check_call(r, w, NULL, 6);
  tn_run_destroy(second);
  tn_run_destroy(r);
  tn_program_destroy(g);
}

/* Two binds before a run: what counts is what the copy was made from. */
static void test_bind_without_run(void **state) {
  (void)state;
  tn_program *g = program_of(text);
  tn_run *r = run_of(g, 1);
  float w[6] = {1, 2, 3, 4, 5, 6}, other[6] = {7, 8, 9, 10, 11, 12};
  check_call(r, w, NULL, 1);
  tn_tensor in[2] = {{(void *)(uintptr_t)x, DIMS(6), NULL, 1, TN_F32}, {other, DIMS(2, 3), NULL, 2, TN_F32}};
  bind_ok(r, in, NULL); /* never run */
  check_call(r, w, NULL, 2);
  check_call(r, w, NULL, 2);
  tn_run_destroy(r);
  tn_program_destroy(g);
}

/* A run that fails leaves the copy stale. */
static tn_status refuse(void *user, uint32_t call, const tn_tensor *in, uint32_t n_in, tn_tensor *out, uint32_t n_out) {
  (void)call, (void)in, (void)n_in, (void)out, (void)n_out;
  return *(int *)user ? TN_E_UNSUPPORTED : TN_OK;
}
static void test_failed_run(void **state) {
  (void)state;
  char plan[4096];
  const char *at = strstr(text, "  step 0");
  snprintf(plan, sizeof plan, "%.*s  hosts 1\n  step 0 host 0 (0) -> (), \"aten.refuse(x)\"\n  step 1%.*s  step 2%s", (int)(at - text), text,
           (int)(strstr(text, "  step 1") - at - 8), at + 8, strstr(text, "  step 1") + 8);
  tn_program *g = program_of(plan);
  int no = 1;
  tn_run_options o;
  tn_run *r;
  tn_run_options_init(&o);
  assert_int_equal(tn_run_create(g, &o, &r), TN_E_ARG); /* needs a host function */
  assert_null(r);
  o.host = refuse;
  o.host_user = &no;
  assert_int_equal(tn_run_create(g, &o, &r), TN_OK);
  float w[6] = {1, 2, 3, 4, 5, 6}, y[6];
  tn_tensor in[2] = {{(void *)(uintptr_t)x, DIMS(6), NULL, 1, TN_F32}, {w, DIMS(2, 3), NULL, 2, TN_F32}}, out;
  bind_ok(r, in, NULL);
  assert_int_equal(tn_run_out(r, 0, &out), TN_OK);
  out.data = y;
  assert_int_equal(tn_run_exec(r, &out), TN_E_UNSUPPORTED);
  expect_says(tn_run_error(r), "host call 0 (aten.refuse(x)) failed");
  no = 0;
  check_call(r, w, NULL, 1);
  tn_run_destroy(r);
  tn_program_destroy(g);
}

/* A parameter of symbolic size, seen through other strides at one address. */
static void test_form(void **state) {
  (void)state;
  tn_program *g = program_of("plan \"form\" {\n"
                             "  sym s0, range 1..max, input 0 dim 0\n"
                             "  in 0 f32[s0, 2], strides any, \"w\"\n"
                             "  buf 0 input 0\n  buf 1 packed, bytes 8*s0, from 0\n  buf 2 output 0\n"
                             "  view 0 buf 0, f32[s0, 2], strides any\n"
                             "  view 1 buf 1, f32[s0, 2], strides [1, s0]\n"
                             "  view 2 buf 2, f32[s0, 2], strides [2, 1]\n"
                             "  step 0 lib copy (0) -> (1), pack\n"
                             "  step 1 lib copy (1) -> (2)\n"
                             "  out 0 view 2\n}\n");
  tn_run *r = run_of(g, 1);
  float w[64], y[64];
  for (int i = 0; i < 64; i++) w[i] = (float)i;
  const int64_t sizes[] = {2, 5, 2, 2, 7, 5}, strides[][2] = {{2, 1}, {2, 1}, {2, 1}, {1, 2}, {2, 3}, {2, 1}};
  for (int i = 0; i < 6; i++) {
    tn_tensor in = {w, DIMS(sizes[i], 2), strides[i], 2, TN_F32}, out;
    for (int twice = 0; twice < 2; twice++) {
      tn_run_stats s;
      bind_ok(r, &in, NULL);
      assert_int_equal(tn_run_out(r, 0, &out), TN_OK);
      out.data = y;
      exec_ok(r, &out);
      tn_run_get_stats(r, &s);
      assert_int_equal(s.packs, i + 1);
      for (int64_t k = 0; k < sizes[i] * 2; k++) assert_true(y[k] == w[k / 2 * strides[i][0] + k % 2 * strides[i][1]]);
    }
  }
  tn_run_destroy(r);
  tn_program_destroy(g);
}

/* Of constants alone: made once for the program, whoever runs first, and read by all. w packed, then twice that; and one that also looks at x,
 * which stays with its run. */
static const char kept_text[] =
    "plan \"kept\" {\n"
    "  in 0 f32[6], strides [1], \"x\"\n"
    "  buf 0 input 0\n  buf 1 const, bytes 24, data x0000803f0000004000004040000080400000a0400000c040\n  buf 2 packed, bytes 24, from constants\n"
    "  buf 3 packed, bytes 24, from constants\n  buf 4 output 0\n  buf 5 packed, bytes 24, from constants\n  buf 6 output 1\n"
    "  view 0 buf 0, f32[6], strides [1]\n  view 1 buf 1, f32[2, 3], strides [3, 1]\n  view 2 buf 2, f32[6], strides [1]\n  view 3 buf 3, f32[6], strides [1]\n"
    "  view 4 buf 4, f32[6], strides [1]\n  view 5 buf 5, f32[6], strides [1]\n  view 6 buf 6, f32[6], strides [1]\n"
    "  kernel 0 \"k_pack\", params 2, sizes 2, object 1, hash 0000000000000000\n"
    "  kernel 1 \"k_scale\", params 2, sizes 1, object 1, hash 0000000000000000\n"
    "  kernel 2 \"k_add\", params 3, sizes 1, object 1, hash 0000000000000000\n"
    "  step 0 launch 0 (1, 2), sizes [2, 3], blocks 2, grain 1, pack\n"
    "  step 1 launch 1 (2, 3), sizes [6], blocks 6, grain 1, pack\n"
    "  step 2 launch 1 (0, 5), sizes [6], blocks 6, grain 1, pack\n"
    "  step 3 launch 2 (0, 3, 4), sizes [6], blocks 1, grain 1\n"
    "  step 4 launch 2 (5, 2, 6), sizes [6], blocks 1, grain 1\n"
    "  out 0 view 4\n  out 1 view 6\n}\n";

typedef struct kept_job { const tn_program *g; uint64_t packs; int bad; } kept_job;

static void *use_kept(void *ctx) {
  static const float w[6] = {1, 4, 2, 5, 3, 6}; /* as k_pack lays it */
  kept_job *j = ctx;
  tn_run *r = run_of(j->g, 2);
  float y[2][6];
  const int64_t six = 6;
  tn_tensor in = {(void *)(uintptr_t)x, &six, NULL, 1, TN_F32}, out[2];
  tn_run_stats s;
  for (int call = 0; call < 20; call++) {
    j->bad += tn_run_bind(r, &in, NULL) != TN_OK || tn_run_out(r, 0, &out[0]) != TN_OK || tn_run_out(r, 1, &out[1]) != TN_OK;
    for (int k = 0; k < 2; k++) out[k].data = y[k];
    j->bad += tn_run_exec(r, out) != TN_OK;
    for (int i = 0; i < 6; i++) j->bad += y[0][i] != x[i] + 2 * w[i] || y[1][i] != 2 * x[i] + w[i];
  }
  tn_run_get_stats(r, &s);
  j->packs = s.packs;
  tn_run_destroy(r);
  return NULL;
}

static void test_kept(void **state) {
  (void)state;
  enum { RUNS = 4 };
  tn_program *g = program_of(kept_text);
  kept_job j[RUNS];
  pthread_t t[RUNS];
  uint64_t packs = 0;
  for (int i = 0; i < RUNS; i++) {
    j[i] = (kept_job){g, 0, 0};
    assert_int_equal(pthread_create(&t[i], NULL, use_kept, &j[i]), 0);
  }
  for (int i = 0; i < RUNS; i++) {
    pthread_join(t[i], NULL);
    assert_int_equal(j[i].bad, 0);
    packs += j[i].packs;
  }
  assert_int_equal(packs, 2 + RUNS); /* two for the program, and one for each run */
  tn_program_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_renewal), cmocka_unit_test(test_bind_without_run), cmocka_unit_test(test_failed_run), cmocka_unit_test(test_form), cmocka_unit_test(test_kept)};
  return cmocka_run_group_tests(tests, load_object, free_object);
}

/* Models from packages: opened from a file and from memory, the part that fits the machine is taken, and what does not fit is refused in
 * words. Two parts compute different things here, so that one sees which ran. */
#include <unistd.h>
#include "runtime_test.h"

#define HEAD \
  "module \"m\" {\n  in 0 tensor f32 [\"N\"], \"x\"\n  out 0 tensor f32 [\"N\"], \"y\"\n  func 0 \"main\" (1) -> (2), slots 2 {\n    call 0 (1) -> (2)\n  }\n}\n" \
  "plan \"p\" {\n  sym s0, range 0..max, input 0 dim 0\n  in 0 f32[s0], strides [1], \"x\"\n  buf 0 input 0\n  buf 1 output 0\n" \
  "  view 0 buf 0, f32[s0], strides [1]\n  view 1 buf 1, f32[s0], strides [1]\n"
static const char doubles[] = HEAD "  kernel 0 \"k_scale\", params 2, sizes 1, object 1, hash 0000000000000000\n  step 0 launch 0 (0, 1), sizes [s0], blocks s0, grain 8\n  out 0 view 1\n}\n";
static const char copies[] = HEAD "  step 0 lib copy (0) -> (1)\n  out 0 view 1\n}\n";

static char path[64];
static tn_target machine;

static tn_module *module_of(const char *text) {
  tn_diag d;
  tn_module *m;
  if (tn_module_parse(&d, text, strlen(text), &m) != TN_OK) fail_msg("%s", d.text);
  for (uint32_t k = 0; k < m->plan[0]->n_kernel; k++) m->plan[0]->kernel[k].object = test_object, m->plan[0]->kernel[k].object_bytes = test_object_n;
  return m;
}

static void write_two(const char *a, uint32_t a_flags, const char *b, uint32_t b_flags) {
  tn_diag d;
  tn_module *ma = module_of(a), *mb = module_of(b);
  const tn_package_part part[] = {{"first", a_flags, ma}, {"second", b_flags, mb}};
  if (tn_package_write(&d, path, part, 2, NULL, 0) != TN_OK) fail_msg("%s", d.text);
  tn_module_destroy(ma);
  tn_module_destroy(mb);
}

static float factor(tn_model *m) {
  float x[2] = {3, 5}, y[2] = {0};
  tn_session *s;
  tn_tensor in = {x, DIMS(2), NULL, 1, TN_F32}, out = {y, DIMS(2), NULL, 1, TN_F32};
  assert_int_equal(tn_session_create(m, NULL, &s), TN_OK);
  if (tn_session_run_into(s, &in, &out) != TN_OK) fail_msg("%s", tn_session_error(s));
  assert_true(y[1] / 5 == y[0] / 3);
  tn_session_destroy(s);
  return y[0] / 3;
}

static float opened(const char *isa) {
  tn_model_options o;
  tn_model *m;
  char why[256];
  tn_model_options_init(&o);
  o.isa = isa;
  if (tn_model_open(path, &o, &m, why, sizeof why) != TN_OK) fail_msg("%s", why);
  float f = factor(m);
  tn_model_release(m);
  return f;
}

static void test_parts(void **state) {
  (void)state;
  write_two(copies, 0, doubles, machine.flags);
  assert_true(opened(NULL) == 2);
  write_two(doubles, 0, copies, machine.flags);
  assert_true(opened(NULL) == 1);
  write_two(doubles, 0, copies, 1u << 31); /* needs what no machine has */
  assert_true(opened(NULL) == 2);
  if (tn_target_has(&machine, TN_TF_AVX512)) {
    write_two(copies, TN_TF_AVX2, doubles, TN_TF_AVX2 | TN_TF_AVX512);
    assert_true(opened(NULL) == 2);
    assert_true(opened("avx512") == 2);
    assert_true(opened("avx2") == 1);
  }
}

static void test_memory(void **state) {
  (void)state;
  char *p, why[256];
  size_t n;
  tn_diag d;
  tn_model *m;
  write_two(doubles, 0, copies, 1u << 31);
  assert_int_equal(tn_file_read(&d, path, 1 << 20, &p, &n), TN_OK);
  char *q = malloc(n + 1);
  memcpy(q + 1, p, n);
  for (int odd = 0; odd < 2; odd++) {
    if (tn_model_open_memory(odd ? q + 1 : p, n, NULL, &m, why, sizeof why) != TN_OK) fail_msg("%s", why);
    tn_model_retain(m);
    tn_model_release(m);
    assert_true(factor(m) == 2);
    tn_model_release(m);
  }
  p[n / 2] ^= 4;
  assert_int_equal(tn_model_open_memory(p, n, NULL, &m, why, sizeof why), TN_E_PARSE);
  assert_null(m);
  free(q);
  tn_free(p);
}

static tn_status refuse(tn_diag *d, const tn_package *k, const unsigned char key[32]) {
  size_t n;
  assert_non_null(tn_package_bytes(k, &n));
  return key[0] == 7 ? TN_OK : tn_fail(d, TN_E_VERIFY, "the signature is not of this key");
}
static void test_refused(void **state) {
  (void)state;
  tn_model_options o;
  tn_model *m;
  char why[256];
  unsigned char key[32] = {1};
  tn_model_options_init(&o);
  write_two(doubles, 1u << 31, copies, 1u << 30);
  assert_int_equal(tn_model_open(path, NULL, &m, why, sizeof why), TN_E_UNSUPPORTED);
  expect_says(why, "the package has nothing for this machine (");
  expect_says(why, "it has: first, second; while opening /tmp/");
  o.isa = "z80";
  assert_int_equal(tn_model_open(path, &o, &m, why, sizeof why), TN_E_ARG);
  expect_says(why, "no level is called 'z80'");
  o.isa = NULL;
  o.public_key = key;
  assert_int_equal(tn_model_open(path, &o, &m, why, sizeof why), TN_E_UNSUPPORTED);
  expect_says(why, "cannot check signatures");
  tn_model_set_checker(refuse);
  assert_int_equal(tn_model_open(path, &o, &m, why, sizeof why), TN_E_VERIFY);
  write_two(doubles, 0, copies, 1u << 30);
  key[0] = 7;
  assert_int_equal(tn_model_open(path, &o, &m, why, sizeof why), TN_OK);
  tn_model_release(m);
  tn_model_set_checker(NULL);
  char tiny[8];
  assert_int_equal(tn_model_open("/nonexistent", NULL, &m, tiny, sizeof tiny), TN_E_IO);
  assert_string_equal(tiny, "cannot ");
  assert_int_equal(tn_model_open("/nonexistent", NULL, &m, NULL, 0), TN_E_IO);
}

/* The object in a package is no object; a library call has too few parameters. */
static void test_broken_parts(void **state) {
  (void)state;
  tn_diag d;
  tn_model *m;
  char why[512];
  tn_module *a = module_of(doubles);
  a->plan[0]->kernel[0].object = "garbage";
  a->plan[0]->kernel[0].object_bytes = 7;
  const tn_package_part part = {"first", 0, a};
  assert_int_equal(tn_package_write(&d, path, &part, 1, NULL, 0), TN_OK);
  tn_module_destroy(a);
  assert_int_equal(tn_model_open(path, NULL, &m, why, sizeof why), TN_E_PARSE);
  expect_says(why, "kernel 'k_scale' cannot be loaded");
  a = module_of(HEAD "  step 0 lib sort (0) -> (1, 1)\n  out 0 view 1\n}\n");
  const tn_package_part b = {"first", 0, a};
  assert_int_equal(tn_package_write(&d, path, &b, 1, NULL, 0), TN_OK);
  tn_module_destroy(a);
  assert_int_equal(tn_model_open(path, NULL, &m, why, sizeof why), TN_E_VERIFY);
  expect_says(why, "sort has 0 parameters");
}

static void test_nomem(void **state) {
  (void)state;
  write_two(doubles, 0, copies, 0);
  for (int64_t n = 1;; n++) {
    tn_model *m;
    char why[256];
    tn_malloc_fail_after(n);
    tn_status st = tn_model_open(path, NULL, &m, why, sizeof why);
    tn_malloc_fail_after(0);
    tn_model_release(m);
    if (st == TN_OK) break;
    assert_int_equal(st, TN_E_NOMEM);
    assert_true(n < 1000);
  }
}

static int start(void **state) {
  snprintf(path, sizeof path, "/tmp/tenon_open_%ld.tnp", (long)getpid());
  if (tn_device_target(&machine) != TN_OK) return -1;
  return load_object(state);
}
static int stop(void **state) {
  unlink(path);
  return free_object(state);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_parts), cmocka_unit_test(test_memory), cmocka_unit_test(test_refused), cmocka_unit_test(test_broken_parts), cmocka_unit_test(test_nomem)};
  return cmocka_run_group_tests(tests, start, stop);
}

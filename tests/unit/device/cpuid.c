/* Detection of the running machine: sane values, and TENON_ISA as a limit. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>
#include "device/cpu/cpuid.h"

static void test_detect(void **state) {
  (void)state;
  unsetenv("TENON_ISA");
  tn_target t;
  tn_status s = tn_cpu_detect(&t);
  if (s == TN_E_UNSUPPORTED) {
    print_message("skipped: this machine is below every feature level\n");
    skip();
  }
  assert_int_equal(s, TN_OK);
  assert_true(t.cores >= 1 && t.l1d_bytes >= 4096 && t.l2_bytes >= t.l1d_bytes);
  assert_true(tn_target_runs(&t, (tn_level)t.level));
  tn_str text;
  tn_str_init(&text);
  tn_target_print(&t, &text);
  print_message("%s\n", text.s);
  tn_str_deinit(&text);
}

static void test_limit(void **state) {
  (void)state;
  tn_target t;
  setenv("TENON_ISA", "nonsense", 1);
  tn_status s = tn_cpu_detect(&t);
  if (s != TN_E_UNSUPPORTED) assert_int_equal(s, TN_E_ARG);
  setenv("TENON_ISA", "avx2", 1);
  if (s != TN_E_UNSUPPORTED) {
    assert_int_equal(tn_cpu_detect(&t), TN_OK);
    assert_true(t.vector_bits <= 256 && !tn_target_has(&t, TN_TF_AVX512));
  }
  unsetenv("TENON_ISA");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_detect), cmocka_unit_test(test_limit)};
  return cmocka_run_group_tests_name("device/cpuid", tests, NULL, NULL);
}

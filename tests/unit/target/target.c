/* Machine descriptions: levels, limits, and text that reads back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>
#include "target/target.h"

static void round_trip(const tn_target *t) {
  tn_str a, b;
  tn_str_init(&a);
  tn_str_init(&b);
  tn_target_print(t, &a);
  tn_target back;
  tn_diag d;
  assert_int_equal(tn_target_parse(&d, a.s, a.n, &back), TN_OK);
  tn_target_print(&back, &b);
  assert_string_equal(a.s, b.s);
  tn_str_deinit(&a);
  tn_str_deinit(&b);
}

static void test_levels(void **state) {
  (void)state;
  for (int i = 0; i < TN_N_LEVELS; i++) {
    tn_target t;
    memset(&t, 0, sizeof t);
    tn_target_init(&t, (tn_level)i);
    round_trip(&t);
    tn_level l;
    const char *name = tn_target_level_name((tn_level)i);
    assert_true(tn_target_level_parse(name, strlen(name), &l) && l == (tn_level)i);
    assert_true(tn_target_runs(&t, (tn_level)i));
  }
  tn_level l;
  assert_true(tn_target_level_parse("avx2", 4, &l) && l == TN_LEVEL_V3);
  assert_true(tn_target_level_parse("avx512", 6, &l) && l == TN_LEVEL_V4);
  assert_true(tn_target_level_parse("amx", 3, &l) && l == TN_LEVEL_AMX);
  assert_false(tn_target_level_parse("sse", 3, &l));
  assert_false(tn_target_level_parse("", 0, &l));
}

static void test_limit(void **state) {
  (void)state;
  tn_target t;
  tn_target_init(&t, TN_LEVEL_AMX);
  assert_true(tn_target_set_flags(&t, t.flags | TN_TF_FP16));
  assert_non_null(strstr(t.features, "+avx512fp16"));
  round_trip(&t);
  t.cores = 7;
  tn_target_limit(&t, TN_LEVEL_AMX);
  assert_true(tn_target_has(&t, TN_TF_AMX | TN_TF_FP16));
  tn_target_limit(&t, TN_LEVEL_V4);
  assert_true(t.level == TN_LEVEL_V4 && t.vector_bits == 512 && !tn_target_has(&t, TN_TF_AMX) && t.cores == 7);
  tn_target_limit(&t, TN_LEVEL_AARCH64);
  assert_true(t.level == TN_LEVEL_V4);
  tn_target_limit(&t, TN_LEVEL_V3);
  assert_true(t.level == TN_LEVEL_V3 && t.vector_bits == 256 && tn_target_lanes(&t, TN_F32) == 8);
  assert_false(tn_target_runs(&t, TN_LEVEL_V4));
  assert_false(tn_target_set_flags(&t, TN_TF_FMA));
  assert_true(tn_target_set_flags(&t, TN_TF_FMA | TN_TF_F16C | TN_TF_AVX2 | TN_TF_AVX512 | TN_TF_VNNI));
  assert_non_null(strstr(t.features, "+avx512vnni"));
}

static void test_text(void **state) {
  (void)state;
  tn_target t;
  static const char good[] = "target avx512 { cores 3, l2 4096, flags fma+avx2 }";
  assert_int_equal(tn_target_parse(NULL, good, strlen(good), &t), TN_OK);
  assert_true(t.cores == 3 && t.l2_bytes == 4096 && t.flags == (TN_TF_FMA | TN_TF_AVX2) && t.vector_bits == 512);
  assert_int_equal(tn_target_parse(NULL, "target v3", 9, &t), TN_OK);
  assert_int_equal(tn_target_parse(NULL, "target v3 {}", 12, &t), TN_OK);
  static const char *bad[] = {"", "v3", "target", "target x", "target v3 {", "target v3 { cores }", "target v3 { cores 0 }", "target v3 { cpu \"x }",
                              "target v3 { vector 100 }", "target v3 { cores 99999999999 }", "target v3 { wat 3 }", "target v3 { flags a }",
                              "target v3 { flags fma+ }", "target v3 { cores 1 cores 2 }", "target v3 {} x"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    tn_diag d;
    assert_int_equal(tn_target_parse(&d, bad[i], strlen(bad[i]), &t), TN_E_PARSE);
    assert_true(d.text[0]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_levels), cmocka_unit_test(test_limit), cmocka_unit_test(test_text)};
  return cmocka_run_group_tests_name("target/target", tests, NULL, NULL);
}

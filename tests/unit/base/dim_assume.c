/* Sizes assumed equal: what is recorded, for whom, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "base/dim.h"

static void test_pairs(void **state) {
  (void)state;
  tn_dims *t = tn_dims_create();
  tn_dim a = tn_dim_sym(t, "a"), b = tn_dim_sym(t, "b"), x, y;
  const char *where;
  uint32_t owner;
  char name[] = "node one";
  assert_false(tn_dims_collecting(t));
  tn_dims_collect(t, name, 2);
  assert_true(tn_dims_collecting(t));
  assert_int_equal(tn_dims_assume(t, a, a, NULL), TN_OK);
  assert_int_equal(tn_dims_n_assumed(t), 0);                     /* nothing to take for granted */
  assert_int_equal(tn_dims_assume(t, a, b, NULL), TN_OK);
  assert_int_equal(tn_dims_assume(t, b, a, NULL), TN_OK);
  assert_int_equal(tn_dims_n_assumed(t), 1);
  memset(name, 'x', 4);                                          /* copied */
  tn_dims_get_assumed(t, 0, &x, &y, &where, &owner);
  assert_int_equal(x, a);
  assert_int_equal(y, b);
  assert_string_equal(where, "node one");
  assert_int_equal(owner, 2);
  tn_dims_collect(t, "in another function", 3);
  assert_false(tn_dims_assumed(t, a, b));
  assert_int_equal(tn_dims_assume(t, a, b, NULL), TN_OK);
  assert_int_equal(tn_dims_n_assumed(t), 2);
  tn_dims_forget_assumed(t, 1);
  assert_int_equal(tn_dims_n_assumed(t), 1);
  tn_dims_get_assumed(t, 7, &x, &y, &where, &owner);
  assert_string_equal(where, "");
  tn_dims_destroy(t);
}
static void test_contradictions(void **state) {
  (void)state;
  tn_dims *t = tn_dims_create();
  tn_dim a = tn_dim_sym(t, "a");
  tn_dim_set_range(t, a, 2, 10);
  assert_int_equal(tn_dims_assume(t, 3, 4, "w"), TN_E_ARG);
  assert_int_equal(tn_dims_assume(t, a, 1, "w"), TN_E_ARG);
  assert_int_equal(tn_dims_assume(t, a, tn_dim_add(t, a, 1), "w"), TN_E_ARG);
  assert_int_equal(tn_dims_assume(t, TN_DIM_BAD, 1, "w"), TN_E_ARG);
  assert_int_equal(tn_dims_n_assumed(t), 0);
  assert_int_equal(tn_dims_assume(t, a, 10, "w"), TN_OK);
  assert_int_equal(tn_dims_n_assumed(t), 1);
  tn_dims_destroy(t);
}
static void test_no_memory(void **state) {
  (void)state;
  tn_status s = TN_E_NOMEM;
  for (int64_t n = 1; s != TN_OK && n < 200; n++) {
    tn_malloc_fail_after(n);
    tn_dims *t = tn_dims_create();
    s = TN_E_NOMEM;
    if (t) {
      tn_dim a = tn_dim_sym(t, "a"), b = tn_dim_sym(t, "b");
      s = tn_dims_assume(t, a, b, "somewhere");
      assert_true(s == TN_OK || s == TN_E_NOMEM || s == TN_E_ARG); /* a symbol that could not be made is no dim */
    }
    tn_malloc_fail_after(0);
    tn_dims_destroy(t);
  }
  assert_int_equal(s, TN_OK);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_pairs), cmocka_unit_test(test_contradictions), cmocka_unit_test(test_no_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

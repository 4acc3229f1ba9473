/* Lists, optionals and operators whose sizes only values tell. Values are NumPy's and onnx.reference's, or by hand. */
#include "dyn_test.h"

static void lists(void **state) {
  (void)state;
  call c = {0};
  tn_value *item[3] = {i64(1), tensor(TN_F32, 1, DIMS(2), F32(1, 2)), i64(3)}, *list = tn_value_list(item, 3);
  put(&c, list);
  put(&c, i64(-1));
  ok(&c, tn_dyn_SEQUENCE_AT);
  ints_are(c.out[0], 0, NULL, I64(3));
  ok(&c, tn_dyn_SEQUENCE_LENGTH);
  ints_are(c.out[0], 0, NULL, I64(3));
  ok(&c, tn_dyn_SEQUENCE_ERASE);
  assert_int_equal(tn_value_n(c.out[0]), 2);
  assert_ptr_equal(tn_value_item(c.out[0], 0), item[0]);
  for (int64_t bad = -4; bad <= 3; bad += 7) {
    tn_value_release(c.in[1]);
    c.in[1] = i64(bad);
    assert_int_equal(run(&c, tn_dyn_SEQUENCE_AT), TN_E_INDEX);
    assert_int_equal(run(&c, tn_dyn_SEQUENCE_ERASE), TN_E_INDEX);
  }
  tn_value_release(c.in[1]);
  c.in[1] = i64(9);
  ok(&c, tn_dyn_SEQUENCE_INSERT);                      /* at the end */
  assert_int_equal(tn_value_n(c.out[0]), 4);
  assert_ptr_equal(tn_value_item(c.out[0], 3), c.in[1]);
  put(&c, i64(-3));
  ok(&c, tn_dyn_SEQUENCE_INSERT);
  assert_ptr_equal(tn_value_item(c.out[0], 0), c.in[1]);
  survives_nomem(&c, tn_dyn_SEQUENCE_INSERT);
  assert_int_equal(run(&c, tn_dyn_CONCAT_FROM_SEQUENCE), TN_E_ARG);   /* items differ in type */
  finish(&c);
  for (int i = 0; i < 3; i++) tn_value_release(item[i]);
  put(&c, i64(1));
  assert_int_equal(run(&c, tn_dyn_SEQUENCE_LENGTH), TN_E_ARG);        /* no list */
  finish(&c);
}

static void optionals(void **state) {
  (void)state;
  call c = {0};
  ok(&c, tn_dyn_OPTIONAL);
  assert_int_equal(c.out[0]->kind, TN_VALUE_NONE);
  put(&c, tn_value_none());
  assert_int_equal(run(&c, tn_dyn_OPTIONAL_GET), TN_E_ARG);
  ok(&c, tn_dyn_OPTIONAL_HAS);
  ints_are(c.out[0], 0, NULL, I64(0));
  finish(&c);
  put(&c, i64(7));
  ok(&c, tn_dyn_OPTIONAL_HAS);
  ints_are(c.out[0], 0, NULL, I64(1));
  ok(&c, tn_dyn_OPTIONAL_GET);
  assert_ptr_equal(c.out[0], c.in[0]);
  finish(&c);
}

static void pieces(void **state) {
  (void)state;
  call c = {0};
  put(&c, tensor(TN_I64, 2, DIMS(2, 3), I64(1, 2, 3, 4, 5, 6)));
  a_int(&c, "axis", 1);
  a_int(&c, "keepdims", 0);
  ok(&c, tn_dyn_SPLIT_TO_SEQUENCE);
  assert_int_equal(tn_value_n(c.out[0]), 3);
  ints_are(tn_value_item(c.out[0], 1), 1, DIMS(2), I64(2, 5));
  survives_nomem(&c, tn_dyn_SPLIT_TO_SEQUENCE);
  put(&c, i64(2));
  ok(&c, tn_dyn_SPLIT_TO_SEQUENCE);
  assert_int_equal(tn_value_n(c.out[0]), 2);
  ints_are(tn_value_item(c.out[0], 0), 2, DIMS(2, 2), I64(1, 2, 4, 5));
  ints_are(tn_value_item(c.out[0], 1), 2, DIMS(2, 1), I64(3, 6));
  static const int64_t wrong[][2] = {{1, 1}, {4, -1}, {2, 2}};
  for (int i = 0; i < 3; i++) {
    tn_value_release(c.in[1]);
    c.in[1] = tensor(TN_I64, 1, DIMS(2), wrong[i]);
    assert_int_equal(run(&c, tn_dyn_SPLIT_TO_SEQUENCE), TN_E_ARG);
  }
  tn_value_release(c.in[1]);
  c.in[1] = i64(0);
  assert_int_equal(run(&c, tn_dyn_SPLIT_TO_SEQUENCE), TN_E_ARG);
  finish(&c);
}

static void joined(void **state) {
  (void)state;
  call c = {0};
  tn_value *item[2] = {strings(2, DIMS(1, 2), STRS("a", "bb")), strings(2, DIMS(1, 2), STRS("", "d"))};
  put(&c, tn_value_list(item, 2));
  a_int(&c, "axis", -1);
  ok(&c, tn_dyn_CONCAT_FROM_SEQUENCE);
  strings_are(c.out[0], 2, DIMS(1, 4), STRS("a", "bb", "", "d"));
  c.attr[0].name = "new_axis";
  c.one[0] = 1;
  ok(&c, tn_dyn_CONCAT_FROM_SEQUENCE);
  strings_are(c.out[0], 3, DIMS(2, 1, 2), STRS("a", "bb", "", "d"));
  survives_nomem(&c, tn_dyn_CONCAT_FROM_SEQUENCE);
  tn_value_release(c.in[0]);
  c.in[0] = tn_value_list(NULL, 0);
  assert_int_equal(run(&c, tn_dyn_CONCAT_FROM_SEQUENCE), TN_E_ARG);
  finish(&c);
  for (int i = 0; i < 2; i++) tn_value_release(item[i]);
}

static void chosen(void **state) {
  (void)state;
  call c = {0};
  put(&c, tensor(TN_F32, 2, DIMS(2, 2), F32(1, -0.0f, 0, 3)));
  ok(&c, tn_dyn_NONZERO);
  ints_are(c.out[0], 2, DIMS(2, 2), I64(0, 1, 0, 1));
  put(&c, tensor(TN_BOOL, 1, DIMS(3), "\1\0\1"));
  ok(&c, tn_dyn_COMPRESS);
  floats_are(c.out[0], 1, DIMS(2), F32(1, 0), 0);
  a_int(&c, "axis", 0);
  assert_int_equal(run(&c, tn_dyn_COMPRESS), TN_E_INDEX);
  tn_value_release(c.in[1]);
  c.in[1] = tensor(TN_BOOL, 1, DIMS(2), "\0\1");
  ok(&c, tn_dyn_COMPRESS);
  floats_are(c.out[0], 2, DIMS(1, 2), F32(0, 3), 0);
  c.one[0] = 1;
  ok(&c, tn_dyn_COMPRESS);
  floats_are(c.out[0], 2, DIMS(2, 1), F32(0, 3), 0);
  c.one[0] = 2;
  assert_int_equal(run(&c, tn_dyn_COMPRESS), TN_E_ARG);
  finish(&c);
  put(&c, tensor(TN_I64, 2, DIMS(3, 0), NULL));
  ok(&c, tn_dyn_NONZERO);
  shape_is(c.out[0], 2, DIMS(2, 0));
  finish(&c);
}

static void uniques(void **state) {
  (void)state;
  call c = {0};
  put(&c, tensor(TN_F32, 1, DIMS(6), F32(2, 1, 1, 3, 4, 3)));
  a_int(&c, "sorted", 0);
  ok(&c, tn_dyn_UNIQUE);
  floats_are(c.out[0], 1, DIMS(4), F32(2, 1, 3, 4), 0);
  ints_are(c.out[1], 1, DIMS(4), I64(0, 1, 3, 4));
  ints_are(c.out[2], 1, DIMS(6), I64(0, 1, 1, 2, 3, 2));
  ints_are(c.out[3], 1, DIMS(4), I64(1, 2, 2, 1));
  survives_nomem(&c, tn_dyn_UNIQUE);
  finish(&c);
  put(&c, tensor(TN_F32, 1, DIMS(6), F32(3, NAN, 1, NAN, -0.0f, 0)));
  ok(&c, tn_dyn_UNIQUE);
  shape_is(c.out[0], 1, DIMS(4));
  ints_are(c.out[1], 1, DIMS(4), I64(4, 2, 0, 1));
  ints_are(c.out[2], 1, DIMS(6), I64(2, 3, 1, 3, 0, 0));
  ints_are(c.out[3], 1, DIMS(4), I64(2, 1, 1, 2));
  finish(&c);
  put(&c, tensor(TN_I64, 3, DIMS(2, 4, 2), I64(1, 1, 0, 1, 2, 1, 0, 1, 1, 1, 0, 1, 2, 1, 0, 1)));
  a_int(&c, "axis", 1);
  ok(&c, tn_dyn_UNIQUE);
  ints_are(c.out[0], 3, DIMS(2, 3, 2), I64(0, 1, 1, 1, 2, 1, 0, 1, 1, 1, 2, 1));
  ints_are(c.out[1], 1, DIMS(3), I64(1, 0, 2));
  ints_are(c.out[2], 1, DIMS(4), I64(1, 0, 2, 0));
  ints_are(c.out[3], 1, DIMS(3), I64(2, 1, 1));
  finish(&c);
  put(&c, strings(1, DIMS(3), STRS("b", "", "b")));
  ok(&c, tn_dyn_UNIQUE);
  strings_are(c.out[0], 1, DIMS(2), STRS("", "b"));
  finish(&c);
}

/* Against NumPy's rule, written the slow way: walk, keep what lies inside. */
static void slices(void **state) {
  (void)state;
  int64_t x[5] = {10, 11, 12, 13, 14};
  static const int64_t bound[] = {INT64_MIN, -7, -5, -2, 0, 1, 3, 5, 9, INT64_MAX}, step[] = {1, 2, -1, -3, INT64_MIN, INT64_MAX};
  for (int a = 0; a < 10; a++)
    for (int b = 0; b < 10; b++)
      for (int s = 0; s < 6; s++) {
        call c = {0};
        put(&c, tensor(TN_I64, 1, DIMS(5), x));
        put(&c, tensor(TN_I64, 1, DIMS(1), &bound[a]));
        put(&c, tensor(TN_I64, 1, DIMS(1), &bound[b]));
        put(&c, tn_value_none());
        put(&c, tensor(TN_I64, 1, DIMS(1), &step[s]));
        ok(&c, tn_dyn_SLICE);
        int64_t want[5], n = 0, st = step[s] > 5 ? 6 : step[s] < -5 ? -6 : step[s];
        int64_t lo = bound[a] < 0 ? bound[a] + 5 : bound[a], hi = bound[b] < 0 ? bound[b] + 5 : bound[b];
        if (st > 0) { lo = lo < 0 ? 0 : lo; for (int64_t i = lo; i < 5 && i < hi; i += st) want[n++] = x[i]; }
        else { lo = lo > 4 ? 4 : lo; for (int64_t i = lo; i >= 0 && i > hi; i += st) want[n++] = x[i]; }
        ints_are(c.out[0], 1, &n, want);
        finish(&c);
      }
  call c = {0};
  put(&c, strings(2, DIMS(2, 3), STRS("a", "b", "c", "d", "e", "f")));
  put(&c, tensor(TN_I64, 1, DIMS(2), I64(-1, 0)));
  put(&c, tensor(TN_I64, 1, DIMS(2), I64(INT64_MIN, 9)));
  put(&c, tensor(TN_I64, 1, DIMS(2), I64(-1, 0)));
  put(&c, tensor(TN_I64, 1, DIMS(2), I64(-2, 1)));
  ok(&c, tn_dyn_SLICE);
  strings_are(c.out[0], 2, DIMS(2, 2), STRS("c", "a", "f", "d"));
  tn_value_release(c.in[3]);
  c.in[3] = tensor(TN_I64, 1, DIMS(2), I64(1, -1));                    /* twice the same axis */
  assert_int_equal(run(&c, tn_dyn_SLICE), TN_E_ARG);
  finish(&c);
}

static void boxes(void **state) {
  (void)state;
  call c = {0};
  put(&c, tensor(TN_F32, 3, DIMS(1, 6, 4), F32(0, 0, 1, 1, 0, 0.1f, 1, 1.1f, 0, -0.1f, 1, 0.9f, 0, 10, 1, 11, 0, 10.1f, 1, 11.1f, 0, 100, 1, 101)));
  put(&c, tensor(TN_F32, 3, DIMS(1, 2, 6), F32(0.9f, 0.75f, 0.6f, 0.95f, 0.5f, 0.3f, 0.5f, 0.5f, 0.5f, 0.1f, 0.2f, 0.3f)));
  put(&c, i64(3));
  put(&c, tensor(TN_F32, 1, DIMS(1), F32(0.5f)));
  put(&c, tensor(TN_F32, 1, DIMS(1), F32(0.15f)));
  ok(&c, tn_dyn_NMS);
  ints_are(c.out[0], 2, DIMS(6, 3), I64(0, 0, 3, 0, 0, 0, 0, 0, 5, 0, 1, 0, 0, 1, 5, 0, 1, 4));
  survives_nomem(&c, tn_dyn_NMS);
  tn_value_release(c.in[2]);
  c.in[2] = i64(-1);
  ok(&c, tn_dyn_NMS);
  shape_is(c.out[0], 2, DIMS(0, 3));
  tn_value_release(c.in[1]);
  c.in[1] = tensor(TN_F32, 3, DIMS(1, 1, 5), F32(1, 2, 3, 4, 5));
  assert_int_equal(run(&c, tn_dyn_NMS), TN_E_ARG);
  finish(&c);
  put(&c, tensor(TN_F32, 3, DIMS(1000000000000, 0, 4), NULL));         /* nothing to do, however many batches */
  put(&c, tensor(TN_F32, 3, DIMS(1000000000000, 7, 0), NULL));
  put(&c, i64(3));
  ok(&c, tn_dyn_NMS);
  shape_is(c.out[0], 2, DIMS(0, 3));
  finish(&c);
}

static void declared(void **state) {
  (void)state;
  call c = {0};
  put(&c, tensor(TN_F32, 1, DIMS(1), F32(1)));
  a_int(&c, "rank", 1);
  a_int(&c, "elem", TN_EL_F32);
  ok(&c, tn_dyn_TO_TENSOR);
  assert_ptr_equal(c.out[0], c.in[0]);
  c.one[0] = 2;
  assert_int_equal(run(&c, tn_dyn_TO_TENSOR), TN_E_ARG);
  c.one[0] = -1;
  c.one[1] = TN_EL_I64;
  assert_int_equal(run(&c, tn_dyn_TO_TENSOR), TN_E_ARG);
  finish(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(lists),   cmocka_unit_test(optionals), cmocka_unit_test(pieces), cmocka_unit_test(joined),  cmocka_unit_test(chosen),
                                     cmocka_unit_test(uniques), cmocka_unit_test(slices),    cmocka_unit_test(boxes),  cmocka_unit_test(declared)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

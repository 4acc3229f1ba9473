/* Operators behind ai.onnx.ml. Trees by hand; n-grams from onnx.reference; pairwise probabilities from NumPy, as
 * the least squares they are defined by (onnx.reference 1.23 sums a product there that libsvm keeps apart). */
#include "dyn_test.h"

static void lookups(void **state) {
  (void)state;
  call c = {0};
  put(&c, strings(1, DIMS(4), STRS("b", "", "c", "zz")));
  a_strs(&c, "keys", STRS("", "b", "zz"), 3);
  ok(&c, tn_dyn_LOOKUP);
  ints_are(c.out[0], 1, DIMS(4), I64(1, 0, 3, 2));
  finish(&c);
  put(&c, tensor(TN_F32, 1, DIMS(4), F32(NAN, 1.5f, -INFINITY, 2)));
  a_floats(&c, "keys", F64(-INFINITY, 1.5, NAN), 3);
  ok(&c, tn_dyn_LOOKUP);
  ints_are(c.out[0], 1, DIMS(4), I64(2, 1, 0, 3));
  finish(&c);
  put(&c, tensor(TN_I64, 2, DIMS(1, 2), I64(INT64_MIN, 5)));
  a_ints(&c, "keys", I64(INT64_MIN, 4), 2);
  ok(&c, tn_dyn_LOOKUP);
  ints_are(c.out[0], 2, DIMS(1, 2), I64(0, 2));
  survives_nomem(&c, tn_dyn_LOOKUP);
  tn_value_release(c.in[0]);
  c.in[0] = strings(0, NULL, STRS("4"));
  assert_int_equal(run(&c, tn_dyn_LOOKUP), TN_E_ARG);
  finish(&c);
}

static void maps(void **state) {
  (void)state;
  call c = {0};
  put(&c, tensor(TN_F32, 2, DIMS(2, 2), F32(1, 2, 3, 4)));
  a_strs(&c, "keys", STRS("u", "v"), 2);
  ok(&c, tn_dyn_ZIP_MAP);
  assert_int_equal(c.out[0]->kind, TN_VALUE_LIST);
  assert_int_equal(tn_value_n(c.out[0]), 2);
  survives_nomem(&c, tn_dyn_ZIP_MAP);
  tn_value *m = tn_value_item(c.out[0], 1);
  call k = {0};
  tn_value_retain(m);
  put(&k, m);
  ok(&k, tn_dyn_MAP_KEYS);
  strings_are(k.out[0], 1, DIMS(2), STRS("u", "v"));
  ok(&k, tn_dyn_MAP_VALUES);
  floats_are(k.out[0], 1, DIMS(2), F32(3, 4), 0);
  finish(&k);
  c.attr[0].n = 1;
  assert_int_equal(run(&c, tn_dyn_ZIP_MAP), TN_E_ARG);
  assert_int_equal(run(&c, tn_dyn_MAP_KEYS), TN_E_ARG);
  finish(&c);
  put(&c, tensor(TN_F32, 1, DIMS(2), F32(1, 2)));
  a_ints(&c, "keys", I64(7, -1), 2);
  ok(&c, tn_dyn_ZIP_MAP);
  assert_int_equal(tn_value_n(c.out[0]), 1);
  ints_are(tn_value_item(tn_value_item(c.out[0], 0), 0), 1, DIMS(2), I64(7, -1));
  finish(&c);
}

/* Tree 1: x0 <= 0.5 ? leaf 0 : x1 > 2 ? leaf 1 : leaf 2.  Tree 2: x1 in {3, 7} ? leaf 1 : leaf 3.  Tree 3: leaf 3 alone. */
static int64_t bits(double v) {
  int64_t b;
  memcpy(&b, &v, 8);
  return b;
}
static void trees(call *c, int64_t aggregate) {
  static int64_t node[12];
  static const int64_t roots[] = {0, 2, -4}, member_lo[] = {0, 0, 0, 2}, leaf_lo[] = {0, 2, 3, 4, 5}, target[] = {0, 1, 0, 1, 0};
  static const double member[] = {3, 7}, weight[] = {1, 2, 5, -1, 0.25};
  const int64_t set[12] = {0 * 16 + 8 + 0, -1, 1, bits(0.5), 1 * 16 + 3, -2, -3, bits(2), 1 * 16 + 6, -2, -4, 0};
  memcpy(node, set, sizeof node);
  a_int(c, "aggregate", aggregate);
  a_int(c, "n_targets", 2);
  a_ints(c, "roots", roots, 3);
  a_ints(c, "node", node, 12);
  a_ints(c, "member_lo", member_lo, 4);
  a_floats(c, "member", member, 2);
  a_ints(c, "leaf_lo", leaf_lo, 5);
  a_ints(c, "leaf_target", target, 5);
  a_floats(c, "leaf_weight", weight, 5);
}

static void ensembles(void **state) {
  (void)state;
  static const float x[] = {0, 3, 1, 3, 1, 0, NAN, NAN};
  static const float sum[] = {1 + 5 + 0.25f, 2, 5 + 5 + 0.25f, 0, 0.5f, -1, 1.5f, 2};
  static const float least[] = {0.25f, 2, 0.25f, 3.4028235e38f, 0.25f, -1, 0.25f, 2}, most[] = {5, 2, 5, -3.4028235e38f, 0.25f, -1, 1, 2};
  const float *want[] = {NULL, sum, least, most};
  for (int64_t how = 0; how < 4; how++) {
    float mean[8];
    for (int i = 0; i < 8; i++) mean[i] = sum[i] / 3;
    call c = {0};
    put(&c, tensor(TN_F32, 2, DIMS(4, 2), x));
    trees(&c, how);
    ok(&c, tn_dyn_TREE_ENSEMBLE);
    floats_are(c.out[0], 2, DIMS(4, 2), how ? want[how] : mean, 1e-6f);
    survives_nomem(&c, tn_dyn_TREE_ENSEMBLE);
    finish(&c);
  }
}

/* Every number of every table, made wrong in turn: an error or a result, never a read outside. */
static void broken_trees(void **state) {
  (void)state;
  static const int64_t wrong[] = {-1000, -1, 0, 2, 3, 1000, INT64_MAX, INT64_MIN};
  for (uint32_t a = 2; a < 9; a++)
    for (uint32_t k = 0; k < 12; k++)
      for (int w = 0; w < 8; w++) {
        call c = {0};
        int64_t copy[12];
        put(&c, tensor(TN_F32, 2, DIMS(4, 2), F32(0, 3, 1, 3, 1, 0, NAN, 7)));
        trees(&c, 1);
        tn_mattr *t = &c.attr[a];
        if (t->kind == TN_MA_INTS && k < t->n) {
          memcpy(copy, t->u.i, t->n * 8);
          copy[k] = wrong[w];
          t->u.i = copy;
          tn_status st = run(&c, tn_dyn_TREE_ENSEMBLE);
          assert_true(st == TN_OK || st == TN_E_INDEX);
        }
        finish(&c);
      }
  for (int short_one = 3; short_one < 9; short_one++) {     /* a table that ends early */
    call c = {0};
    put(&c, tensor(TN_F32, 2, DIMS(3, 2), F32(0, 7, 1, 3, 1, 0)));
    trees(&c, 1);
    c.attr[short_one].n--;
    tn_status st = run(&c, tn_dyn_TREE_ENSEMBLE);
    assert_int_equal(st, short_one == 3 || short_one > 6 ? TN_E_ARG : TN_E_INDEX);
    finish(&c);
  }
  call c = {0};
  put(&c, tensor(TN_F32, 2, DIMS(1, 2), F32(1, 1)));
  trees(&c, 1);
  c.attr[3].u.i = I64(8, -1, 1, bits(0.5), 16 + 3, -2, 0, bits(2), 0, 0, 0, 0);   /* 0 -> 1 -> 0 */
  assert_int_equal(run(&c, tn_dyn_TREE_ENSEMBLE), TN_E_INDEX);
  finish(&c);
}

static void probabilities(void **state) {
  (void)state;
  call c = {0};
  put(&c, tensor(TN_F64, 2, DIMS(1, 3), F64(0.7, 0.4, 0.9)));
  a_int(&c, "classes", 3);
  ok(&c, tn_dyn_SVM_PROBABILITY);
  shape_is(c.out[0], 2, DIMS(1, 3));
  static const double want[] = {0.43202013, 0.35702912, 0.21095074};
  for (int i = 0; i < 3; i++) assert_float_equal(((const double *)c.out[0]->t.data)[i], want[i], 2e-3);    /* the iteration stops near it */
  survives_nomem(&c, tn_dyn_SVM_PROBABILITY);
  c.one[0] = 4;
  assert_int_equal(run(&c, tn_dyn_SVM_PROBABILITY), TN_E_ARG);
  finish(&c);
}

/* The pool of the ONNX examples: unigrams 2, 3, 5, 4; bigrams 5 6, 7 8, 6 7. */
static void grams(call *c, int64_t min, int64_t max, int64_t skip) {
  static const int64_t t_counts[] = {4, 3};
  static const int64_t t_grams[] = {2, 3, 4, 5, 5, 6, 6, 7, 7, 8};
  static const int64_t t_column[] = {0, 1, 3, 2, 4, 6, 5};
  a_int(c, "min", min);
  a_int(c, "max", max);
  a_int(c, "skip", skip);
  a_int(c, "size", 7);
  a_ints(c, "counts", t_counts, 2);
  a_ints(c, "grams", t_grams, 10);
  a_ints(c, "column", t_column, 7);
}

static void ngrams(void **state) {
  (void)state;
  static const int64_t x[] = {1, 1, 3, 3, 3, 7, 8, 6, 7, 5, 6, 8};
  call c = {0};
  put(&c, tensor(TN_I64, 1, DIMS(12), x));
  grams(&c, 2, 2, 0);
  ok(&c, tn_dyn_TFIDF);
  floats_are(c.out[0], 1, DIMS(7), F32(0, 0, 0, 0, 1, 1, 1), 0);
  survives_nomem(&c, tn_dyn_TFIDF);
  c.one[0] = 1;
  c.one[2] = 5;
  ok(&c, tn_dyn_TFIDF);
  floats_are(c.out[0], 1, DIMS(7), F32(0, 3, 1, 0, 1, 3, 1), 0);
  c.one[0] = 2;
  tn_value_release(c.in[0]);
  c.in[0] = tensor(TN_I64, 2, DIMS(2, 6), x);
  ok(&c, tn_dyn_TFIDF);
  floats_are(c.out[0], 2, DIMS(2, 7), F32(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1), 0);
  c.attr[6].u.i = I64(0, 1, 3, 2, 7, 7, 7);
  assert_int_equal(run(&c, tn_dyn_TFIDF), TN_E_INDEX);
  c.attr[4].u.i = I64(4, 4);
  assert_int_equal(run(&c, tn_dyn_TFIDF), TN_E_ARG);
  finish(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(lookups),      cmocka_unit_test(maps),          cmocka_unit_test(ensembles),
                                     cmocka_unit_test(broken_trees), cmocka_unit_test(probabilities), cmocka_unit_test(ngrams)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

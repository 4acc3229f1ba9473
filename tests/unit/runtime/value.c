/* Values: what they hold, what is refused, whose memory it is, and that pools keep no more than was in use. */
#include <pthread.h>
#include "runtime/runtime_int.h"
#include "runtime/value.h"
#include "runtime_test.h"

static void test_tensors(void **state) {
  (void)state;
  float x[6] = {0, 1, 2, 3, 4, 5};
  tn_tensor t = {x, DIMS(2, 3), NULL, 2, TN_F32};
  tn_value *b = tn_value_borrow(&t, 0), *c = tn_value_copy(&t, 1);
  assert_ptr_equal(tn_value_tensor(b)->data, x);
  assert_ptr_not_equal(tn_value_tensor(c)->data, x);
  assert_memory_equal(tn_value_tensor(c)->data, x, sizeof x);
  assert_int_equal((uintptr_t)tn_value_tensor(c)->data % 64, 0);
  assert_int_equal(tn_value_elem(b), 1);
  assert_int_equal(tn_value_n(c), 6);
  assert_int_equal(tn_value_tensor(b)->strides[0], 3);
  assert_true(b->borrowed && !c->borrowed);
  tn_value_release(b);
  t = (tn_tensor){x + 5, DIMS(3, 2), DIMS(-1, -3), 2, TN_F32}; /* backwards and turned round */
  b = tn_value_copy(&t, 0);
  for (int i = 0; i < 6; i++) assert_true(((float *)tn_value_tensor(b)->data)[i] == x[5 - i / 2 - i % 2 * 3]);
  tn_value_release(b);
  tn_value_release(c);
  uint8_t f8[2] = {1, 2};
  t = (tn_tensor){f8, DIMS(2), NULL, 1, TN_U8};
  b = tn_value_borrow(&t, TN_EL_F8E5M2);
  assert_int_equal(tn_value_elem(b), TN_EL_F8E5M2);
  assert_int_equal(tn_value_tensor(b)->dtype, TN_U8);
  tn_value_release(b);
  tn_value_release(NULL);
}

static void test_refused(void **state) {
  (void)state;
  float x[4];
  const tn_tensor bad[] = {
      {x, DIMS(2), NULL, 1, TN_OBJ},         {x, DIMS(2), NULL, 1, 77},          {x, DIMS(2), NULL, -1, TN_F32},         {x, DIMS(-1), NULL, 1, TN_F32},
      {NULL, DIMS(2), NULL, 1, TN_F32},      {x, DIMS(2), NULL, 17, TN_F32},     {x, DIMS(INT64_MAX, 2), NULL, 2, TN_F32}, {x, DIMS(INT64_MAX), NULL, 1, TN_F32},
      {x, DIMS(3), DIMS(INT64_MAX), 1, TN_F32}, {x, DIMS(3), DIMS(INT64_MIN), 1, TN_F32}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_null(tn_value_borrow(&bad[i], 0));
  tn_tensor t = {x, DIMS(2), NULL, 1, TN_F32};
  assert_null(tn_value_borrow(&t, 7));                    /* i64 is not kept in f32 */
  assert_null(tn_value_borrow(&t, TN_EL_STRING));
  assert_null(tn_value_borrow(&t, -3));
  assert_null(tn_value_new(NULL, TN_EL_F32, 1, DIMS(INT64_MAX / 2)));
  assert_null(tn_value_new(NULL, TN_EL_STRING, 1, DIMS(2)));
  t = (tn_tensor){NULL, DIMS(INT64_MAX, 0, INT64_MAX), NULL, 3, TN_F32}; /* empty: fine */
  tn_value *v = tn_value_copy(&t, 0);
  assert_int_equal(tn_value_n(v), 0);
  assert_non_null(tn_value_tensor(v)->data);
  tn_value_release(v);
}

static void test_others(void **state) {
  (void)state;
  const char *const s[] = {"one", "", "thr\0ee"};
  const size_t n[] = {3, 0, 6};
  size_t got;
  char text[160];
  tn_value *v = tn_value_strings(s, n, 1, DIMS(3)), *w = tn_value_strings(s, NULL, 2, DIMS(3, 1));
  assert_string_equal(tn_value_string(v, 0, &got), "one");
  assert_int_equal(got, 3);
  assert_string_equal(tn_value_string(v, 1, &got), "");
  assert_memory_equal(tn_value_string(v, 2, &got), "thr\0ee", 7);
  assert_int_equal(got, 6);
  assert_null(tn_value_string(v, 3, NULL));
  (void)tn_value_string(w, 2, &got);
  assert_int_equal(got, 3);
  assert_int_equal(tn_value_elem(v), 8);
  assert_int_equal(tn_value_tensor(w)->rank, 2);
  assert_null(tn_value_tensor(w)->data);
  float x[3] = {1, 2, 3};
  tn_tensor t = {x, DIMS(3), NULL, 1, TN_F32};
  tn_value *f = tn_value_borrow(&t, 0), *l = tn_value_list((tn_value *[]){f, v, f}, 3), *m = tn_value_map(v, f), *none = tn_value_none();
  assert_int_equal(tn_value_n(l), 3);
  assert_ptr_equal(tn_value_item(l, 1), v);
  assert_null(tn_value_item(l, 3));
  assert_ptr_equal(tn_value_item(m, 0), v);
  assert_ptr_equal(tn_value_item(m, 1), f);
  assert_int_equal(tn_value_n(m), 3);
  assert_int_equal(tn_value_get_kind(none), TN_VALUE_NONE);
  assert_true(l->borrowed && m->borrowed);
  assert_null(tn_value_map(f, f));  /* keys are no strings, no i64 */
  assert_null(tn_value_map(w, f));  /* not 1-D */
  assert_null(tn_value_list((tn_value *[]){f, NULL}, 2));
  assert_string_equal(tn_value_text(w, text), "tensor string[3, 1]");
  assert_string_equal(tn_value_text(l, text), "a list of 3");
  tn_value_release(f);
  tn_value_release(v);
  assert_true(((float *)tn_value_tensor(tn_value_item(l, 2))->data)[1] == 2);
  tn_value_release(l);
  tn_value_release(m);
  tn_value_release(w);
  tn_value_release(none);
}

/* A list in a list in a list, a million deep, is released without recursion. */
static void test_deep(void **state) {
  (void)state;
  tn_vpool *p = tn_vpool_create();
  tn_value *v = tn_value_new_none(p);
  for (int i = 0; i < 1000000; i++) {
    tn_value *w = tn_value_new_list(p, &v, 1);
    assert_non_null(w);
    tn_value_release(v);
    v = w;
  }
  tn_vpool_release(p); /* values outlive their pool's owner */
  tn_value_release(v);
}

static void test_integers(void **state) {
  (void)state;
  const uint64_t big[2] = {UINT64_MAX, 5};
  const int8_t small[4] = {-1, 2, -3, 4};
  tn_tensor t = {(void *)(uintptr_t)big, DIMS(2), NULL, 1, TN_U64};
  tn_value *v = tn_value_borrow(&t, 0);
  assert_int_equal(tn_value_int(v, 0), INT64_MAX);
  assert_int_equal(tn_value_int(v, 1), 5);
  tn_value_release(v);
  t = (tn_tensor){(void *)(uintptr_t)small, DIMS(2, 2), DIMS(1, 2), 2, TN_I8};
  v = tn_value_borrow(&t, 0);
  const int64_t want[4] = {-1, -3, 2, 4};
  for (int i = 0; i < 4; i++) assert_int_equal(tn_value_int(v, i), want[i]);
  tn_value_release(v);
}

static void test_views(void **state) {
  (void)state;
  tn_vpool *p = tn_vpool_create();
  tn_value *a = tn_value_new(p, TN_EL_F32, 2, DIMS(4, 3));
  for (int i = 0; i < 12; i++) ((float *)a->t.data)[i] = (float)i;
  tn_value *b = tn_value_view(p, a, TN_EL_F32, (float *)a->t.data + 3, 2, DIMS(3, 2), DIMS(1, 3));
  tn_value *c = tn_value_view(p, b, TN_EL_F32, b->t.data, 1, DIMS(3), NULL);
  assert_ptr_equal(c->base, a);
  tn_value_release(a);
  tn_value *d = tn_value_dense(p, b);
  tn_value_release(b);
  const float want[6] = {3, 6, 4, 7, 5, 8};
  assert_memory_equal(d->t.data, want, sizeof want);
  assert_true(((float *)c->t.data)[2] == 5);
  b = tn_value_dense(p, c);
  assert_ptr_equal(b, c);
  tn_value_release(b);
  tn_value_release(c);
  tn_value_release(d);
  tn_vpool_release(p);
}

/* The same sizes again cost no allocation; many different ones do not pile up. */
static void test_pool(void **state) {
  (void)state;
  tn_vpool *p = tn_vpool_create();
  int64_t before = 0;
  for (int round = 0; round < 3; round++) {
    tn_value *v[8];
    if (round == 1) before = tn_malloc_count();
    for (int i = 0; i < 8; i++) assert_non_null(v[i] = tn_value_new(p, TN_EL_F32, 1, DIMS(1000 * i)));
    for (int i = 0; i < 8; i++) {
      assert_int_equal((uintptr_t)v[i]->t.data % 64, 0);
      memset(v[i]->t.data, i, (size_t)v[i]->n * 4);
    }
    for (int i = 0; i < 8; i++) tn_value_release(v[i]);
  }
  assert_int_equal(tn_malloc_count(), before);
  uint64_t rng = 1;
  for (int i = 0; i < 20000; i++) { /* one at a time: what is kept is never more than the largest one */
    rng = rng * 6364136223846793005u + 1442695040888963407u;
    tn_value *v = tn_value_new(p, TN_EL_U8, 1, DIMS((int64_t)(rng >> 44)));
    assert_non_null(v);
    tn_value_release(v);
  }
  tn_vpool_release(p);
}

enum { THREADS = 4 };
static void *release_all(void *ctx) {
  for (tn_value **v = ctx; *v; v++) tn_value_release(*v);
  return NULL;
}
/* Values of one pool released by other threads, after the owner is gone too. */
static void test_threads(void **state) {
  (void)state;
  for (int round = 0; round < 20; round++) {
    tn_vpool *p = tn_vpool_create();
    static tn_value *v[THREADS][101];
    pthread_t t[THREADS];
    for (int k = 0; k < THREADS; k++)
      for (int i = 0; i < 100; i++) assert_non_null(v[k][i] = tn_value_new(p, TN_EL_I64, 1, DIMS(i * 7)));
    for (int k = 0; k < THREADS; k++) assert_int_equal(pthread_create(&t[k], NULL, release_all, v[k]), 0);
    tn_vpool_release(p);
    for (int k = 0; k < THREADS; k++) pthread_join(t[k], NULL);
  }
}

static void test_nomem(void **state) {
  (void)state;
  float x[4] = {1, 2, 3, 4};
  const char *const s[] = {"a", "b"};
  tn_tensor t = {x, DIMS(4), NULL, 1, TN_F32};
  for (int64_t n = 1; n < 40; n++) {
    tn_malloc_fail_after(n);
    tn_vpool *p = tn_vpool_create();
    tn_value *a = p ? tn_value_new(p, TN_EL_F32, 1, DIMS(100)) : NULL, *b = tn_value_copy(&t, 0), *c = tn_value_strings(s, NULL, 1, DIMS(2));
    tn_value *l = a && b ? tn_value_list((tn_value *[]){a, b}, 2) : NULL, *m = c && l ? tn_value_map(c, l) : NULL, *v = a ? tn_value_view(p, a, TN_EL_F32, a->t.data, 1, DIMS(7), NULL) : NULL;
    tn_malloc_fail_after(0);
    if (m && v) n = 40;
    tn_value_release(a);
    tn_value_release(b);
    tn_value_release(c);
    tn_value_release(l);
    tn_value_release(m);
    tn_value_release(v);
    tn_vpool_release(p);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_tensors), cmocka_unit_test(test_refused), cmocka_unit_test(test_others),  cmocka_unit_test(test_deep), cmocka_unit_test(test_integers),
                                     cmocka_unit_test(test_views),   cmocka_unit_test(test_pool),    cmocka_unit_test(test_threads), cmocka_unit_test(test_nomem)};
  (void)load_object;
  return cmocka_run_group_tests(tests, NULL, NULL);
}

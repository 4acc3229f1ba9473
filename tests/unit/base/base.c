/* The small parts of base: diagnostics, allocation hooks, arenas, text, maps, dtypes, hash, environment, log, files. */
#define _GNU_SOURCE
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/base.h"

static void test_diag(void **state) {
  (void)state;
  tn_diag d;
  tn_diag_clear(&d);
  assert_int_equal(tn_fail(&d, TN_E_ARG, "got %d and %d", 64, 32), TN_E_ARG);
  assert_int_equal(tn_diag_while(&d, TN_E_ARG, "lowering %%%d", 7), TN_E_ARG);
  assert_string_equal(d.text, "got 64 and 32; while lowering %7");
  assert_true(d.line > 0 && strstr(d.file, "base.c"));
  for (int i = 0; i < 500; i++) tn_diag_while(&d, TN_E_ARG, "frame %d", i);
  assert_true(strlen(d.text) < TN_DIAG_MAX);
  assert_int_equal(tn_fail(NULL, TN_E_IO, "x"), TN_E_IO);
  assert_int_equal(tn_diag_while(&d, TN_E_NOMEM, "reading"), TN_E_NOMEM);
  assert_string_equal(d.text, "TN_E_NOMEM; while reading");
  assert_string_equal(tn_status_name(TN_E_INDEX), "TN_E_INDEX");
  assert_string_equal(tn_status_name(TN_E_ZERO), "TN_E_ZERO");
  assert_non_null(tn_status_name((tn_status)99));
}

static void test_failing_allocations(void **state) {
  (void)state;
  int64_t before = tn_malloc_count();
  tn_malloc_fail_after(2);
  void *a = tn_malloc(8), *b = tn_malloc(8), *c = tn_calloc(1, 8), *e = tn_aligned_alloc(64, 8);
  tn_malloc_fail_after(0);
  assert_non_null(a);
  assert_true(!b && !c && !e);
  assert_int_equal(tn_malloc_count() - before, 4);
  a = tn_realloc(a, 100);
  assert_non_null(a);
  tn_free(a);
  void *p = tn_aligned_alloc(4096, 10);
  assert_true(p && (uintptr_t)p % 4096 == 0);
  tn_free_aligned(p);
  assert_null(tn_aligned_alloc(48, 10));
  assert_null(tn_aligned_alloc(64, SIZE_MAX - 3));
}

static void test_arena(void **state) {
  (void)state;
  tn_arena a;
  tn_arena_init(&a);
  unsigned char *first = tn_arena_alloc(&a, 100);
  memset(first, 1, 100);
  tn_mark m = tn_arena_mark(&a);
  for (int round = 0; round < 3; round++) { /* rewound memory comes back zero */
    for (int i = 1; i < 200; i++) {
      unsigned char *p = tn_arena_alloc(&a, (size_t)i * 37);
      assert_true(p && (uintptr_t)p % 16 == 0);
      for (int k = 0; k < i * 37; k++) assert_int_equal(p[k], 0);
      memset(p, 0xff, (size_t)i * 37);
    }
    tn_arena_rewind(&a, m);
  }
  assert_true(first[0] == 1 && first[99] == 1);
  assert_non_null(tn_arena_alloc(&a, 0));
  assert_non_null(tn_arena_alloc(&a, 3 << 20));
  assert_null(tn_arena_alloc(&a, SIZE_MAX - 5));
  assert_string_equal(tn_arena_strdup(&a, "abc"), "abc");
  assert_string_equal(tn_arena_strndup(&a, "abcdef", 2), "ab");
  assert_string_equal(tn_arena_printf(&a, "%s-%d", "x", 7), "x-7");
  uint32_t *list = NULL, n = 0, cap = 0;
  for (uint32_t i = 0; i < 1000; i++) {
    assert_true(TN_PUSH_ROOM(&a, list, n, cap));
    list[n++] = i;
  }
  for (uint32_t i = 0; i < 1000; i++) assert_int_equal(list[i], i);
  tn_arena_deinit(&a);
  assert_true(a.head == NULL && a.total == 0);
  tn_malloc_fail_after(1);
  assert_null(tn_arena_alloc(&a, 8));
  assert_null(tn_arena_strdup(&a, "x"));
  assert_null(tn_arena_printf(&a, "x"));
  cap = n = 0;
  list = NULL;
  assert_false(TN_PUSH_ROOM(&a, list, n, cap));
  tn_malloc_fail_after(0);
  tn_arena_deinit(&a);
}

static void test_text(void **state) {
  (void)state;
  tn_str s;
  tn_str_init(&s);
  for (int i = 0; i < 300; i++) tn_str_add(&s, "%d,", i);
  assert_true(s.n == strlen(s.s) && strstr(s.s, ",299,"));
  char big[1000];
  memset(big, 'x', sizeof big - 1);
  big[999] = 0;
  size_t n = s.n;
  tn_str_add(&s, "<%s>", big);
  assert_int_equal(s.n, n + 1001);
  tn_str_put(&s, "", 0);
  tn_str_deinit(&s);

  static const struct {
    double v;
    const char *text;
  } doubles[] = {{1, "1.0"},           {0.1, "0.1"},         {-0.0, "-0.0"},          {1e300, "1e+300"},
                 {INFINITY, "inf"},    {-INFINITY, "-inf"},  {1.0 / 3, "0.3333333333333333"}, {123456789, "123456789.0"},
                 {5e-324, "5e-324"}};
  for (size_t i = 0; i < sizeof doubles / sizeof *doubles; i++) {
    tn_str_add_double(&s, doubles[i].v);
    assert_string_equal(s.s, doubles[i].text);
    tn_str_deinit(&s);
  }
  tn_str_add_double(&s, -NAN);
  assert_string_equal(s.s, "nan");
  tn_str_deinit(&s);
  if (setlocale(LC_NUMERIC, "de_DE.UTF-8")) {
    tn_str_add_double(&s, 2.5);
    assert_string_equal(s.s, "2.5");
    tn_str_deinit(&s);
    setlocale(LC_NUMERIC, "C");
  }
  tn_malloc_fail_after(1);
  tn_str_add(&s, "abc");
  tn_malloc_fail_after(0);
  assert_true(s.oom);
  tn_str_add(&s, "def");
  assert_true(s.oom && s.n == 0);
  tn_str_deinit(&s);
}

static void test_map(void **state) {
  (void)state;
  tn_map m;
  tn_map_init(&m);
  uint32_t v;
  assert_false(tn_map_get_str(&m, "a", &v));
  static char keys[2000][8];
  for (uint32_t i = 0; i < 2000; i++) {
    snprintf(keys[i], sizeof keys[i], "k%u", i);
    assert_true(tn_map_put_str(&m, keys[i], i) && tn_map_put_u64(&m, (uint64_t)i << 20, i + 7));
  }
  assert_true(tn_map_put_str(&m, "k3", 99));
  assert_int_equal(m.n, 4000);
  for (uint32_t i = 0; i < 2000; i++) {
    assert_true(tn_map_get_str(&m, keys[i], &v) && v == (i == 3 ? 99 : i));
    assert_true(tn_map_get_u64(&m, (uint64_t)i << 20, &v) && v == i + 7);
  }
  assert_false(tn_map_get_u64(&m, 3, NULL));
  tn_map_deinit(&m);
  tn_malloc_fail_after(1);
  assert_false(tn_map_put_u64(&m, 1, 1));
  tn_malloc_fail_after(0);
  assert_true(tn_map_put_u64(&m, 1, 1));
  tn_map_deinit(&m);
}

static void test_dtypes(void **state) {
  (void)state;
  for (int i = 0; i < TN_N_DTYPES; i++) {
    tn_dtype t;
    const char *s = tn_dtype_name((tn_dtype)i);
    assert_true(tn_dtype_parse(s, strlen(s), &t) && t == (tn_dtype)i && (tn_dtype_size(t) > 0) == tn_dtype_is_value(t));
  }
  tn_dtype t;
  assert_false(tn_dtype_parse("f3", 2, &t));
  assert_int_equal(tn_dtype_size((tn_dtype)77), 0);
  assert_true(tn_hash("abc", 3, 0) != tn_hash("abd", 3, 0) && tn_hash("abc", 3, 0) != tn_hash("abc", 3, 1));
  assert_true(tn_now_ns() > 0);
}

static char logged[256];
static void keep_line(void *user, const char *channel, const char *line) {
  (void)user;
  snprintf(logged, sizeof logged, "%s|%s", channel, line);
}

static void test_env_and_log(void **state) {
  (void)state;
  unsetenv("TENON_PROFILE");
  assert_string_equal(tn_env_get(TN_ENV_PROFILE), "default");
  setenv("TENON_PROFILE", "dvm", 1);
  assert_string_equal(tn_env_get(TN_ENV_PROFILE), "dvm");
  unsetenv("TENON_PROFILE");
  for (int i = 0; i < TN_N_ENVS; i++) assert_true(tn_env_name((tn_env)i)[0] && tn_env_doc((tn_env)i)[0]);

  setenv("TENON_LOG", "stages,autotune:info", 1);
  assert_false(tn_log_on("stages"));
  tn_log_set(keep_line, NULL);
  assert_true(tn_log_on("stages") && tn_log_on("autotune") && !tn_log_on("plan") && !tn_log_on("stage"));
  tn_log("stages", "took %d ms", 3);
  assert_string_equal(logged, "stages|took 3 ms");
  tn_log("plan", "no");
  assert_string_equal(logged, "stages|took 3 ms");
  setenv("TENON_LOG", "all", 1);
  assert_true(tn_log_on("plan"));
  tn_log_set(NULL, NULL);
  unsetenv("TENON_LOG");
}

static void test_files(void **state) {
  (void)state;
  char dir[] = "/tmp/tenon-test-XXXXXX", path[128];
  assert_non_null(mkdtemp(dir));
  tn_diag d;
  snprintf(path, sizeof path, "%s/a/b/c", dir);
  assert_int_equal(tn_dir_make(&d, path), TN_OK);
  assert_int_equal(tn_dir_make(&d, path), TN_OK);
  snprintf(path, sizeof path, "%s/a/b/c/f", dir);
  assert_int_equal(tn_file_write(&d, path, "hello", 5), TN_OK);
  assert_int_equal(tn_file_write(&d, path, "hello!", 6), TN_OK);
  char *s;
  size_t n;
  assert_int_equal(tn_file_read(&d, path, 100, &s, &n), TN_OK);
  assert_true(n == 6 && strcmp(s, "hello!") == 0);
  tn_free(s);
  assert_int_equal(tn_file_read(&d, path, 6, &s, &n), TN_OK);
  tn_free(s);
  assert_int_equal(tn_file_read(&d, path, 5, &s, &n), TN_E_IO);
  assert_null(s);
  assert_int_equal(tn_file_read(&d, "/proc/self/status", SIZE_MAX, &s, &n), TN_OK);
  assert_true(n > 0 && s[n] == 0);
  tn_free(s);
  assert_int_equal(tn_file_read(&d, "/proc/self/status", 10, &s, &n), TN_E_IO);
  assert_int_equal(tn_file_read(&d, dir, 100, &s, &n), TN_E_IO);
  assert_int_equal(tn_file_read(&d, "/nonexistent/x", 100, &s, &n), TN_E_IO);
  assert_non_null(strstr(d.text, "/nonexistent/x"));
  assert_int_equal(tn_file_write(&d, "/nonexistent/x", "", 0), TN_E_IO);
  assert_int_equal(tn_dir_make(&d, "/proc/nope/x"), TN_E_IO);
  for (int k = 1; k <= 3; k++) {
    tn_malloc_fail_after(k);
    tn_status r = tn_file_read(&d, path, 100, &s, &n);
    tn_malloc_fail_after(0);
    assert_true(k == 1 ? r == TN_E_NOMEM : r == TN_OK);
    if (r == TN_OK) tn_free(s);
  }
  tn_malloc_fail_after(1);
  assert_int_equal(tn_file_write(&d, path, "x", 1), TN_E_NOMEM);
  assert_int_equal(tn_dir_make(&d, path), TN_E_NOMEM);
  tn_malloc_fail_after(0);
  char cmd[160];
  snprintf(cmd, sizeof cmd, "rm -r %s", dir);
  assert_int_equal(system(cmd), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_diag), cmocka_unit_test(test_failing_allocations), cmocka_unit_test(test_arena),
      cmocka_unit_test(test_text), cmocka_unit_test(test_map),                 cmocka_unit_test(test_dtypes),
      cmocka_unit_test(test_env_and_log), cmocka_unit_test(test_files),
  };
  return cmocka_run_group_tests_name("base/base", tests, NULL, NULL);
}

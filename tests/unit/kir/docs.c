/* The examples of docs/kir.md: every block marked "kernel", "sched" or "nest" reads, verifies and prints; a schedule is one of the kernel
 * before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "kir/nest.h"
#include "kir/sched.h"

typedef struct world {
  tn_arena a;
  tn_dims *dims;
  tn_diag d;
  tn_kdef *k;
  int n[3];
} world;

static void same(const tn_str *o, const char *text) {
  size_t n = strlen(text);
  while (n && text[n - 1] == '\n') n--;
  if (o->n < n || memcmp(o->s, text, n) != 0) fail_msg("prints\n%s\nfor\n%s", o->s, text);
}

static void check_kernel(world *w, const char *text, tn_str *o) {
  tn_kdef *again;
  tn_str twice;
  if (tn_kdef_parse(&w->d, &w->a, w->dims, text, strlen(text), &w->k) != TN_OK || tn_kdef_verify(&w->d, w->k) != TN_OK)
    fail_msg("%s\n%s", w->d.text, text);
  tn_kdef_print(w->k, o);
  if (!strstr(text, "$")) same(o, text); /* people may name more parts than the printer does */
  if (tn_kdef_parse(&w->d, &w->a, w->dims, o->s, o->n, &again) != TN_OK) fail_msg("%s\n%s", w->d.text, o->s);
  tn_str_init(&twice);
  tn_kdef_print(again, &twice);
  assert_string_equal(o->s, twice.s);
  tn_str_deinit(&twice);
}

static void check_sched(world *w, const char *text, tn_str *o) {
  tn_ksched *s;
  assert_non_null(w->k);
  if (tn_ksched_parse(&w->d, &w->a, w->k, text, strlen(text), &s) != TN_OK || tn_ksched_verify(&w->d, w->k, s) != TN_OK)
    fail_msg("%s\n%s", w->d.text, text);
  tn_ksched_print(s, w->k, o);
  same(o, text);
}

static void check_nest(world *w, const char *text, tn_str *o) {
  tn_nest *n;
  if (tn_nest_parse(&w->d, &w->a, text, strlen(text), &n) != TN_OK || tn_nest_verify(&w->d, n) != TN_OK)
    fail_msg("%s\n%s", w->d.text, text);
  tn_nest_print(n, o);
  same(o, text);
}

static void test_examples(void **state) {
  (void)state;
  static void (*const check[])(world *, const char *, tn_str *) = {check_kernel, check_sched, check_nest};
  static const char *const mark[] = {"```kernel\n", "```sched\n", "```nest\n"};
  world w = {.k = NULL};
  char *page;
  size_t n;
  tn_arena_init(&w.a);
  tn_diag_clear(&w.d);
  w.dims = tn_dims_create();
  if (tn_file_read(&w.d, TN_SOURCE_DIR "/docs/kir.md", 1 << 20, &page, &n) != TN_OK) fail_msg("%s", w.d.text);
  for (char *p = page; (p = strstr(p, "```")) != NULL;) {
    char *text = strchr(p, '\n') + 1, *end = strstr(text, "```");
    assert_non_null(end);
    char keep = *end;
    *end = 0;
    for (int k = 0; k < 3; k++) {
      if (strncmp(p, mark[k], strlen(mark[k])) != 0) continue;
      tn_str o;
      tn_str_init(&o);
      check[k](&w, text, &o);
      tn_str_deinit(&o);
      w.n[k]++;
    }
    *end = keep;
    p = end + 3;
  }
  assert_true(w.n[0] >= 3 && w.n[1] >= 2 && w.n[2] >= 1);
  tn_free(page);
  tn_arena_deinit(&w.a);
  tn_dims_destroy(w.dims);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_examples)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

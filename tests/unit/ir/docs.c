/* The examples of docs/ir.md are graphs: every block marked "tn" reads, verifies and prints as it stands. */
#include "ir_test.h"

static void test_examples(void **state) {
  session *s = *state;
  char *page;
  size_t n;
  int found = 0;
  must(s, tn_file_read(&s->diag, TN_SOURCE_DIR "/docs/ir.md", 1 << 20, &page, &n));
  for (char *p = page; (p = strstr(p, "```tn")) != NULL; found++) {
    unsigned flags = strncmp(p + 5, " prov", 5) == 0 ? TN_PRINT_PROV : 0;
    char *text = strchr(p, '\n') + 1, *end = strstr(text, "```");
    assert_non_null(end);
    *end = 0;
    same_after_reading(text, flags);
    must(s, tn_graph_verify(&s->diag, must_parse(s, text)));
    p = end + 1;
  }
  assert_int_equal(found, 3);
  tn_free(page);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(test_examples, setup, teardown)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

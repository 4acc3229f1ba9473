/* The list syntax, the order check, the callback, and what a failure says. */
#include "passes_test.h"

#define RELU "graph @g(%x: f32[3] input) -> (f32[3]) {\n  %0: f32[3] = call aten.relu.default %x {self=$0}\n  return %0\n}\n"
#define PRIM "graph @g(%x: f32[3] input) -> (f32[3]) {\n  %0: f32[3] = exp %x\n  %1: f32[3] = neg %0\n  return %1\n}\n"

typedef struct seen { char names[200]; int n; } seen;
static void note(void *user, const char *pass, const tn_graph *g, uint64_t ns, uint32_t before) {
  seen *s = user;
  (void)ns;
  assert_true(before > 0 && g->n_nodes > 1);
  strcat(s->names, pass);
  strcat(s->names, " ");
  s->n++;
}
static void runs(const char *text, const char *list, const char *want) {
  world w;
  seen s = {"", 0};
  world_parse(&w, text);
  w.p.after = note;
  w.p.user = &s;
  run(&w, list);
  assert_string_equal(s.names, want);
  world_close(&w);
}
static void refuses(const char *text, const char *list, const char *words) {
  world w;
  world_parse(&w, text);
  assert_int_equal(tn_passes_run(&w.p, w.g, list), TN_E_ARG);
  if (!strstr(w.d.text, words)) { print_error("'%s' is not in '%s'\n", words, w.d.text); fail(); }
  world_close(&w);
}

static void lists(void **state) {
  (void)state;
  runs(RELU, "default", "decompose fold simplify cse settle dce fuse winograd ");
  runs(RELU, "decompose,fold,fold", "decompose fold fold ");
  runs(RELU, "-fuse,-cse", "decompose fold simplify settle dce winograd ");
  runs(PRIM, "", "");
  runs(PRIM, "fuse", "fuse ");
}
static void bad_lists(void **state) {
  (void)state;
  refuses(RELU, "frobnicate", "no pass named 'frobnicate'");
  refuses(RELU, "decompose,", "no pass named ''");
  refuses(RELU, "-fuse,fold", "mixes");
  refuses(RELU, "fold,-fuse", "mixes");
  refuses(RELU, "fuse", "pass fuse needs a graph that is decomposed");
  refuses(RELU, "-decompose", "pass fold needs a graph that is decomposed");
}
/* Every row's facts are as declared: what it gives, holds behind it. */
static void rows(void **state) {
  uint32_t n;
  const tn_pass_row *r = tn_pass_rows(&n);
  (void)state;
  for (uint32_t i = 0; i < n; i++) {
    assert_true(r[i].fn && r[i].doc[0]);
    for (uint32_t k = 0; k < i; k++) assert_string_not_equal(r[i].text, r[k].text);
  }
  world w;
  world_parse(&w, RELU);
  run(&w, "decompose");
  assert_int_equal(count_op(w.g, TN_OP_CALL), 0);
  run(&w, "fuse");
  assert_int_equal(count_op(w.g, TN_OP_FUSED), 1);
  world_close(&w);
}
/* A wrong graph is blamed on the pass behind which it was found. */
static void verifier_names_pass(void **state) {
  world w;
  (void)state;
  world_parse(&w, PRIM);
  tn_node *neg = (tn_node *)first_op(w.g, TN_OP_NEG);
  w.g->value[neg->out].type = tn_type_make(w.g, TN_F64, 0, NULL);
  assert_int_equal(tn_passes_run(&w.p, w.g, "dce"), TN_E_VERIFY);
  assert_non_null(strstr(w.d.text, "after pass dce"));
  world_close(&w);
}
static void rules_have_names(void **state) {
  uint32_t n;
  const tn_rule_row *r = tn_rule_rows(&n);
  (void)state;
  for (uint32_t i = 0; i < n; i++) {
    assert_true(r[i].doc[0]);
    assert_non_null(strchr(r[i].doc, '(')); /* which measure it lowers */
    for (uint32_t k = 0; k < i; k++) assert_string_not_equal(r[i].text, r[k].text);
  }
}
static void host_calls_refused(void **state) {
  world w;
  (void)state;
  world_parse(&w, "graph @g(%x: f32[3] input) -> (f32[3]) {\n  src 1 \"frob\" \"my.frob.default\" \"m.py:1\" f32\n"
                  "  %0: f32[3] = call my.frob.default %x {self=$0} !1\n  return %0\n}\n");
  w.p.allow_host_calls = false;
  assert_int_equal(tn_passes_run(&w.p, w.g, "default"), TN_E_UNSUPPORTED);
  assert_non_null(strstr(w.d.text, "my.frob.default"));
  assert_non_null(strstr(w.d.text, "frob"));
  assert_non_null(strstr(w.d.text, "pass decompose"));
  world_close(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(lists), cmocka_unit_test(bad_lists), cmocka_unit_test(rows), cmocka_unit_test(verifier_names_pass),
                                     cmocka_unit_test(rules_have_names), cmocka_unit_test(host_calls_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

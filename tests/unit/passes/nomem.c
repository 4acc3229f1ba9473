/* Every allocation of every pass fails once: the run ends with TN_E_NOMEM (or, where a dim expression could not be made, with a refusal),
 * leaks nothing (the sanitizers look) and crashes nowhere. */
#include "gen.h"

static const char attention[] =
  "graph @g(%q: f32[1,4,5,8] input, %k: f32[1,4,6,8] input, %v: f32[1,4,6,8] input) -> (f32[1,4,5,8]) {\n"
  "  src 1 \"a\" \"aten.scaled_dot_product_attention.default\" \"m.py:1\" f32\n"
  "  %0: f32[1,4,5,8] = call aten.scaled_dot_product_attention.default %q, %k, %v {query=$0, key=$1, value=$2} !1\n"
  "  %1: f32[1,4,5,8] = call aten.relu.default %0 {self=$0} !1\n"
  "  %2: f32[1,4,5,8] = call my.op.default %1 {self=$0} !1\n"
  "  return %2\n}\n";

static void one(world *w, const char *list, int64_t *n) {
  tn_malloc_fail_after(*n);
  tn_status s = tn_passes_run(&w->p, w->g, list);
  tn_malloc_fail_after(0);
  if (s != TN_OK && s != TN_E_NOMEM && s != TN_E_ARG && s != TN_E_VERIFY) { print_error("allocation %lld: %s: %s\n", (long long)*n, tn_status_name(s), w->d.text); fail(); }
  *n = s == TN_OK ? 0 : *n + 1;
}
static void calls(void **state) {
  (void)state;
  for (int64_t n = 1; n;) {
    world w;
    world_parse(&w, attention);
    one(&w, "default", &n);
    world_close(&w);
  }
}
static void prims(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed < 12; seed++)
    for (int64_t n = 1; n;) {
      world w;
      gen x;
      gen_graph(&x, &w, seed, 60);
      one(&w, "default", &n);
      world_close(&w);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(calls), cmocka_unit_test(prims)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* tn_ops_verify: stated types against rules, bodies against their nodes, constants against their bytes. */
#include "ops_test.h"

static void refused(const char *text, const char *piece) {
  world w;
  world_open(&w, text);
  tn_status s = tn_ops_verify(&w.d, w.g);
  if (s != TN_E_VERIFY || w.d.code != TN_E_VERIFY) print_error("%s: %s\n", tn_status_name(s), text);
  assert_int_equal(s, TN_E_VERIFY);
  HOLDS(w.d.text, piece);
  assert_int_equal(tn_ops_verify(NULL, w.g), TN_E_VERIFY); /* no diagnostic wanted */
  world_close(&w);
}
#define BODY                                                                                                                               \
  "graph @t(%x: f32[s0,3]) -> (f32[s0,3]) {\n  %0: f32[s0,3] = fused %x {kind=\"k\"} {\n    (%a: f32[s0,3])\n    %b: f32[s0,3] = neg "     \
  "%a\n    yield %b\n  }\n  return %0\n}\n"

static void test_good(void **state) {
  static const char *const text[] = {
      BODY, "graph @t(%x: f32[s0,3] input mutated) -> (f32[3], dim, none) {\n  %c: f32[3] = const {data=\"000000000000000000000000\"}\n"
            "  %e: f32[0,9] = const {data=\"\"}\n  %0: f32[s0,3] = add %x, %c\n  %1: i64[5] = call t.any %x {self=$0}\n"
            "  mutate %x = %0\n  return %c, dim s0, none\n}\n"};
  (void)state;
  for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
    world w;
    world_open(&w, text[i]);
    size_t before = w.a.total;
    tn_status s = tn_ops_verify(&w.d, w.g);
    if (s != TN_OK) print_error("%s\n", w.d.text);
    assert_int_equal(s, TN_OK);
    for (int k = 0; k < 1000; k++) assert_int_equal(tn_ops_verify(&w.d, w.g), TN_OK);
    assert_true(w.a.total <= before + 65536); /* types made for the check are given back */
    world_close(&w);
  }
}
static void test_bad(void **state) {
  (void)state;
  refused("graph @t(%x: f32[s0,3]) {\n  %0: f32[s0,4] = neg %x\n  return\n}\n",
          "result 0 is f32[s0,4], wants f32[s0,3]; while checking %2 (neg) of graph 't'");
  refused("graph @t(%x: f32[s0,3]) {\n  %0: f16[s0,3] = neg %x\n  return\n}\n", "result 0 is f16[s0,3], wants f32[s0,3]");
  refused("graph @t(%x: f32[s0,3]) {\n  %0: f32[s0] = neg %x\n  return\n}\n", "result 0 is f32[s0], wants f32[s0,3]");
  refused("graph @t(%x: f32[3]) {\n  %0: f32[3] = sort %x {dim=0}\n  return\n}\n", "1 results, wants 2");
  refused("graph @t(%x: f32[3]) {\n  %0: f32[3], %1: i32[3] = sort %x {dim=0}\n  return\n}\n", "result 1 is i32[3], wants i64[3]");
  refused("graph @t(%x: f32[3]) {\n  %0: f32[3] = permute %x {perm=[1]}\n  return\n}\n", "permute: perm[0] is 1, rank is 1");
  refused("graph @t() {\n  %0: f32[3] = const {data=\"0000\"}\n  return\n}\n", "constant holds 2 bytes, its type wants 12");
  refused("graph @t() {\n  %0: f32[s0] = const {data=\"00000000\"}\n  return\n}\n", "constant with dim s0");
  refused("graph @t() {\n  %0: f32[4611686018427387904,4611686018427387904] = const {data=\"\"}\n  return\n}\n",
          "constant's size overflows");
  refused("graph @t(%x: f32[s0,3]) {\n  %0: f32[s0,3] = fused %x {kind=\"k\"} {\n (%a: f32[s0,4])\n yield %a\n }\n  return\n}\n",
          "body input 0 is f32[s0,4], wants f32[s0,3]");
  refused("graph @t(%x: f32[s0,3]) {\n  %0: f32[s0,4] = fused %x {kind=\"k\"} {\n (%a: f32[s0,3])\n yield %a\n }\n  return\n}\n",
          "body output 0 is f32[s0,3], wants f32[s0,4]");
  refused("graph @t(%x: f32[3]) {\n  %0: f32[3] = fused %x {kind=\"k\"} {\n ()\n yield\n }\n  return\n}\n",
          "body takes 0 and yields 0 values, the node 1 and 1");
  refused("graph @t(%x: f32[3]) {\n  %0: f32[3] = fused %x {kind=\"k\"} {\n (%a: f32[3])\n %b: f32[3] = cast %a {dtype=f16}\n yield %b\n "
          "}\n  return\n}\n",
          "while checking %2 (fused) of graph 't'");
  refused("graph @t(%x: f32[3] input mutated) {\n  %0: f16[3] = cast %x {dtype=f16}\n  mutate %x = %0\n  return\n}\n",
          "new value of input 0 is f16[3], wants f32[3]");
}
int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_good), cmocka_unit_test(test_bad)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

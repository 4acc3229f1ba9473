/* The table of framework ops, and that a call which does not fit its record is refused and left as it was. The decompositions themselves
 * are compared with PyTorch in tests/e2e/test_aten.py. */
#include "ops_test.h"

static void test_table(void **state) {
  (void)state;
  uint32_t n;
  const tn_aten_row *r = tn_aten_rows(&n);
  assert_true(n > 400);
  for (uint32_t i = 0; i < n; i++) {
    if (i) assert_true(strcmp(r[i - 1].name, r[i].name) < 0);
    assert_ptr_equal(tn_aten_find(r[i].name), &r[i]);
    assert_non_null(r[i].fn);
  }
  assert_null(tn_aten_find("aten.add"));
  assert_null(tn_aten_find(""));
  assert_null(tn_aten_find(NULL));
  assert_true(tn_aten_find("aten.gelu.default")->own && tn_aten_find("aten.tanh.default")->own && tn_aten_find("aten.sigmoid.default")->own);
  assert_int_equal(tn_aten_find("aten.unsqueeze.default")->fate, TN_FATE_REWRITTEN);
  assert_int_equal(tn_aten_find("aten.view.default")->fate, TN_FATE_VIEW);
}

static void apply(const char *text, tn_status want, const char *piece) {
  world w;
  world_open(&w, text);
  uint32_t call = 0;
  for (uint32_t i = 1; i < w.g->n_nodes; i++)
    if (w.g->node[i].op == TN_OP_CALL) call = i;
  tn_ref out = tn_out(&w.g->node[call], 0);
  tn_status s = tn_aten_apply(&w.d, w.g, call);
  if (s != want) print_error("%s: %s\n%s\n", tn_status_name(s), w.d.text, text);
  assert_int_equal(s, want);
  if (s == TN_OK) {
    assert_int_not_equal(tn_graph_resolve(w.g, out).id, out.id);
    assert_int_equal(tn_graph_compact(&w.d, w.g), TN_OK);
    assert_int_equal(tn_ops_verify(&w.d, w.g), TN_OK);
  } else {
    assert_int_equal(tn_graph_resolve(w.g, out).id, out.id);
    HOLDS(w.d.text, piece);
  }
  world_close(&w);
}
#define G(in, out, node) "graph @t(" in ") -> (" out ") {\n  %0: " out " = " node "\n  return %0\n}\n"

static void test_apply(void **state) {
  (void)state;
  apply(G("%x: f32[2,s0] input", "f32[2,s0]", "call aten.neg.default %x {self=$0}"), TN_OK, "");
  apply(G("%x: f32[2,s0] input", "f32[2,s0]", "call aten.moon.default %x {self=$0}"), TN_E_UNSUPPORTED, "aten.moon.default");
  apply(G("%x: f32[2,s0] input", "f32[2,s0]", "call aten.neg.default %x {}"), TN_E_UNSUPPORTED, "self is missing");
  apply(G("%x: f32[2,s0] input", "f32[2,s0]", "call aten.neg.default %x {self=3}"), TN_E_UNSUPPORTED, "self is not a tensor");
  apply(G("%x: f32[2,3] input", "f32[2,4]", "call aten.neg.default %x {self=$0}"), TN_E_UNSUPPORTED, "the record says 4");
  apply(G("%x: f32[2,3] input", "f32[6]", "call aten.neg.default %x {self=$0}"), TN_E_UNSUPPORTED, "rank 1");
  apply(G("%x: f32[2,3] input", "f32[7]", "call aten.view.default %x {self=$0}"), TN_E_UNSUPPORTED, "decomposing");
  apply(G("%x: f32[2,3] input", "f32[]", "call aten.sum.dim_IntList %x {self=$0, dim=[7]}"), TN_E_UNSUPPORTED, "out of range");
  apply(G("%x: bool[2,3] input", "f32[1]", "call aten.index.Tensor %x {self=$0, indices=[$0]}"), TN_E_UNSUPPORTED, "depends on data");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_table), cmocka_unit_test(test_apply)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Every allocation of parse, print, verify, uses, copy and compact fails once: the answer is TN_E_NOMEM (or oom on the text), nothing
 * leaks, and a graph that was to be compacted is as it was. */
#include "ir_test.h"

static const char text[] =
    "graph @main(%x: f32[s0,64]{64,1} input mutated, %n: i64[] sym(max(s0, 2))) -> (f32[s0,64], dim) {\n  sym s0 in [2, 1024]\n"
    "  src 1 \"add_3\" \"aten.add.Tensor\" \"model.py:12\" f32 gates=pppp fate=fused detail=\"k0\"\n"
    "  %0: f32[2] = const {data=\"0000803f00000040\"}\n  %1: f32[s0,64] = call aten.relu.default %x {self=$0, l=[1, [2.5, \"s\"], 3*s0 - "
    "1]} !1\n"
    "  %y: f32[s0,64] = fused %1 {kind=\"pointwise\"} @b {\n    (%a: f32[s0,64])\n    %dead: f32[s0,64] = neg %a\n    %c: f32[s0,64] = exp "
    "%a\n    yield %c\n  }\n"
    "  %\"odd name\": f32[s0,64] = slice %y {dim=0, start=[-1], size=s0, step=-1}\n  mutate %x = %y\n  return %\"odd name\", dim 4*s0 + "
    "1\n}\n";

static tn_status all(session *s, int64_t *out_last) {
  tn_graph *g, *h;
  tn_mark m = tn_arena_mark(&s->arena);
  TN_TRY(tn_graph_parse(&s->diag, &s->arena, s->dims, text, strlen(text), &g));
  s->text.n = 0;
  s->text.oom = false;
  tn_graph_print(g, TN_PRINT_PROV, &s->text);
  if (s->text.oom) return TN_E_NOMEM;
  assert_string_equal(s->text.s, text);
  TN_TRY(tn_graph_verify(&s->diag, g));
  if (!tn_graph_uses(&s->arena, g)) return TN_E_NOMEM;
  TN_TRY(tn_graph_create(&s->arena, s->dims, "copy", &h));
  uint32_t *map = TN_NEW(&s->arena, uint32_t, g->n_values);
  if (!map) return TN_E_NOMEM;
  for (uint32_t i = 1; i < g->n_nodes; i++) TN_TRY(tn_graph_copy_node(h, g, i, map));
  for (uint32_t i = 0; i < 40; i++) TN_TRY(tn_graph_copy_node(g, g, 4, (uint32_t[]){0, 1, 2, 3, 4, 5, 6, 7}));
  int64_t before = tn_malloc_count();
  tn_status st = tn_graph_compact(&s->diag, g);
  *out_last = tn_malloc_count() - before;
  if (st == TN_OK) {
    assert_int_equal(g->n_nodes, 6); /* the unread constant went too */
  } else {
    assert_int_equal(g->n_nodes, 47);
    tn_malloc_fail_after(0);
    assert_int_equal(tn_graph_verify(&s->diag, g), TN_OK); /* whole: the outer graph is changed last */
  }
  tn_arena_rewind(&s->arena, m);
  return st;
}

static void test_every_allocation(void **state) {
  (void)state;
  session s;
  int64_t count, last = 0;
  session_init(&s);
  count = tn_malloc_count();
  assert_int_equal(all(&s, &last), TN_OK);
  count = tn_malloc_count() - count;
  assert_true(count > 10 && last >= 14);
  session_deinit(&s);
  for (int64_t i = 1; i <= count; i++) {
    session_init(&s);
    tn_malloc_fail_after(i);
    tn_status st = all(&s, &last);
    tn_malloc_fail_after(0);
    /* Dim arithmetic answers TN_DIM_BAD for overflow and for no memory alike, so a dim that fails in text is a bad dim. */
    if (st == TN_E_PARSE && strstr(s.diag.text, "bad dim")) st = TN_E_NOMEM;
    if (st != TN_E_NOMEM) print_error("allocation %lld of %lld: %s, %s\n", (long long)i, (long long)count, tn_status_name(st), s.diag.text);
    assert_int_equal(st, TN_E_NOMEM);
    session_deinit(&s);
  }
}

/* Small blocks hide most requests from the test above: here every arena request is an allocation of its own. */
static void test_builder(void **state) {
  (void)state;
  for (int64_t i = 1; i < 200; i++) {
    session s;
    tn_graph *g;
    tn_ref r;
    uint32_t id, made = 0;
    session_init(&s);
    assert_int_equal(tn_graph_create(&s.arena, s.dims, "g", &g), TN_OK);
    assert_int_equal(tn_graph_add_input(g, "x", tn_type_make(g, TN_F32, 0, NULL), TN_ORIGIN_INPUT, &r), TN_OK);
    tn_malloc_fail_after(i);
    tn_status st = TN_OK;
    static char big[5000];
    memset(big, 'n', sizeof big - 1);
    for (int k = 0; st == TN_OK && k < 100; k++) {
      tn_attr a[] = {tn_mk_str("s", big), tn_mk_int("i", k)};
      tn_type t = *tn_typeof(g, r);
      st = tn_graph_add(g, TN_OP_CALL, &r, 1, a, 2, &t, 1, 0, &id);
      if (st == TN_OK) st = tn_node_set_target(g, id, "t");
      if (st == TN_OK && k % 3 == 0) st = tn_graph_add_input(g, big, t, TN_ORIGIN_INPUT, &r);
      if (st == TN_OK && k % 3 == 1) st = tn_graph_add_const(g, t, big, 4, 0, &r);
      if (st == TN_OK && k % 3 == 2) st = tn_graph_add_output(g, r);
      if (st == TN_OK && k % 3 == 2 && tn_graph_add_prov(g, big, big, NULL, TN_F32) == 0) st = TN_E_NOMEM;
      made++;
    }
    tn_malloc_fail_after(0);
    assert_true(st == TN_OK || st == TN_E_NOMEM);
    if (made && st == TN_E_NOMEM && !g->node[g->n_nodes - 1].target && g->node[g->n_nodes - 1].op == TN_OP_CALL)
      must(&s, tn_node_set_target(g, g->n_nodes - 1, "t"));
    must(&s, tn_graph_verify(&s.diag, g)); /* whatever failed left nothing half made */
    session_deinit(&s);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_allocation), cmocka_unit_test(test_builder)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

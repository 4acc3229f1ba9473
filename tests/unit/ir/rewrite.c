/* Replace, compact, uses, copies. */
#include "ir_test.h"

static tn_ref out_named(const tn_graph *g, const char *name) {
  for (uint32_t i = 1; i < g->n_values; i++)
    if (g->value[i].name && strcmp(g->value[i].name, name) == 0) return (tn_ref){i};
  fail_msg("no value %s", name);
  return (tn_ref){0};
}

static tn_ref add1(session *s, tn_graph *g, tn_op op, const char *name, tn_ref a, tn_ref b) {
  tn_ref in[] = {a, b};
  uint32_t id;
  tn_type t = *tn_typeof(g, a);
  must(s, tn_graph_add(g, op, in, b.id ? 2 : 1, NULL, 0, &t, 1, 0, &id));
  must(s, tn_value_set_name(g, tn_out(&g->node[id], 0), name));
  return tn_out(&g->node[id], 0);
}
#define NONE ((tn_ref){0})

static void compact_gives(session *s, tn_graph *g, const char *text) {
  must(s, tn_graph_compact(&s->diag, g));
  assert_string_equal(show(s, g, 0), text);
  must(s, tn_graph_verify(&s->diag, g));
  must(s, tn_graph_compact(&s->diag, g)); /* nothing left to do */
  assert_string_equal(show(s, g, 0), text);
}

static void test_dead_code(void **state) {
  session *s = *state;
  tn_graph *g = must_parse(
      s,
      "graph @f(%x: f32[2] mutated, %unused: f32[3]) {\n"
      " %d1: f32[2] = neg %x\n %a: f32[2] = abs %x\n %d2: f32[2] = neg %d1\n %m: f32[2] = exp %a\n"
      " call a.b %d1\n call keep %a {effect=true}\n opaque keep2 {reason=\"r\", effect=true}\n opaque drop {reason=\"r\", effect=false}\n"
      " %v: f32[2], %i: i64[2] = sort %a {dim=0}\n %e: f32[2] = full {shape=[2], value=1, dtype=f32}\n"
      " mutate %x = %m\n return %i, dim 3\n}");
  compact_gives(s, g,
                "graph @f(%x: f32[2] input mutated, %unused: f32[3] input) -> (i64[2], dim) {\n"
                "  %a: f32[2] = abs %x\n  %m: f32[2] = exp %a\n  call keep %a {effect=true}\n  opaque keep2 {reason=\"r\", effect=true}\n"
                "  %v: f32[2], %i: i64[2] = sort %a {dim=0}\n  mutate %x = %m\n  return %i, dim 3\n}\n");
  g->node[5].dead = true; /* a pass took the effect over */
  must(s, tn_graph_compact(&s->diag, g));
  assert_null(strstr(show(s, g, 0), "keep %a"));
}

static void test_replace_moves_up(void **state) {
  session *s = *state;
  tn_graph *g = must_parse(s, "graph @f(%x: f32[2]) { %a: f32[2] = neg %x; %b: f32[2] = abs %a; %c: f32[2] = exp %b; return %c, %a }");
  tn_ref n1 = add1(s, g, TN_OP_SQRT, "n1", (tn_ref){1}, NONE), n2 = add1(s, g, TN_OP_ADD, "n2", n1, (tn_ref){1});
  tn_graph_replace(g, out_named(g, "a"), n2);
  uint32_t *use = tn_graph_uses(&s->arena, g);
  assert_int_equal(use[out_named(g, "a").id], 0);
  assert_int_equal(use[n2.id], 2);
  assert_int_equal(use[1], 3); /* the node that is no longer needed still reads it */
  compact_gives(s, g,
                "graph @f(%x: f32[2] input) -> (f32[2], f32[2]) {\n  %n1: f32[2] = sqrt %x\n  %n2: f32[2] = add %n1, %x\n"
                "  %b: f32[2] = abs %n2\n  %c: f32[2] = exp %b\n  return %c, %n2\n}\n");
}

static void test_chains(void **state) {
  session *s = *state;
  tn_graph *g = must_parse(
      s, "graph @f(%x: f32[2] mutated) { %a: f32[2] = neg %x; %b: f32[2] = abs %a; %c: f32[2] = exp %b; mutate %x = %c; return %c }");
  tn_ref x = {1}, a = out_named(g, "a"), b = out_named(g, "b"), c = out_named(g, "c");
  tn_graph_replace(g, c, b);
  tn_graph_replace(g, b, a);
  tn_graph_replace(g, a, x);
  assert_int_equal(tn_graph_resolve(g, c).id, x.id);
  tn_graph_replace(g, x, c); /* c already stands for x: nothing happens */
  tn_graph_replace(g, x, x);
  tn_graph_replace(g, x, NONE);
  assert_int_equal(tn_graph_resolve(g, x).id, x.id);
  compact_gives(s, g, "graph @f(%x: f32[2] input mutated) -> (f32[2]) {\n  mutate %x = %x\n  return %x\n}\n");
}

/* A replaced input stays an input; only its readers go elsewhere. Inputs added late move to the front. */
static void test_inputs(void **state) {
  session *s = *state;
  tn_graph *g = must_parse(s, "graph @f(%x: f32[2]) { %a: f32[2] = neg %x; return %a, %x }");
  tn_ref y;
  must(s, tn_graph_add_input(g, "y", *tn_typeof(g, (tn_ref){1}), TN_ORIGIN_PARAM, &y));
  tn_graph_replace(g, (tn_ref){1}, y);
  compact_gives(s, g, "graph @f(%x: f32[2] input, %y: f32[2] param) -> (f32[2], f32[2]) {\n  %a: f32[2] = neg %y\n  return %a, %y\n}\n");
  assert_int_equal(g->node[2].op, TN_OP_INPUT);
}

static void test_faults(void **state) {
  session *s = *state;
  static const char text[] = "graph @f(%x: f32[2]) { %a: f32[2] = neg %x; %b: f32[2] = abs %a; return %b }";
#define FAULT(change, message)                                                                                                             \
  do {                                                                                                                                     \
    tn_graph *g = must_parse(s, text);                                                                                                     \
    change;                                                                                                                                \
    char *before = copy_text(show(s, g, 0));                                                                                               \
    assert_int_equal(tn_graph_compact(&s->diag, g), TN_E_VERIFY);                                                                          \
    if (!strstr(s->diag.text, message)) fail_msg("wanted %s, got %s", message, s->diag.text);                                              \
    tn_diag_clear(&s->diag);                                                                                                               \
    assert_string_equal(show(s, g, 0), before);                                                                                            \
    free(before);                                                                                                                          \
  } while (0)
  FAULT(tn_graph_replace(g, (tn_ref){2}, (tn_ref){3}), "cycle: node 3 (abs) needs the result of node 3 (abs)");
  FAULT(tn_graph_replace(g, (tn_ref){2}, add1(s, g, TN_OP_EXP, "n", (tn_ref){3}, NONE)), "cycle: node");
  FAULT(g->node[2].dead = true, "node 3 reads value 2 of node 2 (neg), which is marked dead");
  FAULT(g->node[3].in[0].id = 44, "node 3 reads value 44 of 3");
  FAULT(g->output[0].ref.id = 0, "output 0 reads value 0 of 3");
  FAULT(g->input[0].id = 2, "input 0 is not made by an input node");
  FAULT(g->n_inputs = 0, "node 1 is an input that the graph does not list");
#undef FAULT
  tn_graph *g = must_parse(s, text);
  g->forward[2] = 3;
  g->forward[3] = 2; /* by hand: replace does not do this */
  assert_int_equal(tn_graph_compact(&s->diag, g), TN_E_VERIFY);
}

static const char fused[] =
    "graph @f(%x: f32[2] input, %y: f32[2] input) -> (f32[2], f32[2]) {\n"
    "  %a: f32[2], %b: f32[2] = fused %x, %y {kind=\"k\"} @body {\n    (%p: f32[2], %q: f32[2])\n    %i: f32[2] = fused %p {kind=\"in\"} "
    "{\n"
    "      (%r: f32[2])\n      %dead: f32[2] = neg %r\n      %s: f32[2] = exp %r\n      yield %s\n    }\n    %j: f32[2] = neg %q\n    "
    "yield %i, %p\n  }\n"
    "  %c: f32[2] = const {data=\"0000803f00000040\"}\n  %d: f32[2] = call t.u %c {effect=false, r=$0}\n  return %a, %d\n}\n";

static void test_bodies(void **state) {
  session *s = *state;
  tn_graph *g = must_parse(s, fused);
  assert_string_equal(show(s, g, 0), fused);
  compact_gives(s, g,
                "graph @f(%x: f32[2] input, %y: f32[2] input) -> (f32[2], f32[2]) {\n"
                "  %a: f32[2], %b: f32[2] = fused %x, %y {kind=\"k\"} @body {\n    (%p: f32[2], %q: f32[2])\n    %i: f32[2] = fused %p "
                "{kind=\"in\"} {\n"
                "      (%r: f32[2])\n      %s: f32[2] = exp %r\n      yield %s\n    }\n    yield %i, %p\n  }\n"
                "  %c: f32[2] = const {data=\"0000803f00000040\"}\n  %d: f32[2] = call t.u %c {effect=false, r=$0}\n  return %a, %d\n}\n");
  g->node[3].body->node[2].dead = false;
  tn_graph_replace(g->node[3].body, out_named(g->node[3].body, "i"), (tn_ref){77777}); /* no such value: ignored */
  g->node[3].body->output[0].ref.id = 99;
  assert_int_equal(tn_graph_compact(&s->diag, g), TN_E_VERIFY);
  assert_non_null(strstr(s->diag.text, "while compacting the body of node 3"));
}

static void test_copy(void **state) {
  session *s = *state;
  tn_graph *g = must_parse(s, fused), *h;
  tn_arena other;
  tn_arena_init(&other);
  must(s, tn_graph_create(&other, s->dims, "f", &h));
  uint32_t *map = TN_NEW(&s->arena, uint32_t, g->n_values);
  for (uint32_t i = 1; i < g->n_nodes; i++) must(s, tn_graph_copy_node(h, g, i, map));
  for (uint32_t i = 0; i < g->n_outputs; i++) must(s, tn_graph_add_output(h, (tn_ref){map[g->output[i].ref.id]}));
  char *t = copy_text(show(s, g, 0));
  must(s, tn_graph_verify(&s->diag, h));
  assert_string_equal(show(s, h, 0), t);
  /* Nothing of the copy lives in the first arena. */
  tn_arena_deinit(&s->arena);
  tn_arena_init(&s->arena);
  assert_string_equal(show(s, h, 0), t);
  free(t);
  tn_arena_deinit(&other);
}

static void test_copy_within(void **state) {
  session *s = *state;
  tn_graph *g = must_parse(s, "graph @f(%x: f32[2]) {\n  src 1 none none none f32\n  %a: f32[2] = neg %x !1\n return %a }");
  uint32_t map[64] = {0};
  assert_int_equal(tn_graph_copy_node(g, g, 2, map), TN_E_ARG);
  map[1] = 1;
  for (int i = 0; i < 50; i++) must(s, tn_graph_copy_node(g, g, 2, map)); /* arrays move meanwhile */
  assert_int_equal(map[2], 52);
  assert_int_equal(g->node[52].prov, 1);
  assert_string_equal(g->value[52].name, "a");
  must(s, tn_graph_verify(&s->diag, g));
  compact_gives(s, g, "graph @f(%x: f32[2] input) -> (f32[2]) {\n  %a: f32[2] = neg %x\n  return %a\n}\n");
}

/* A long chain in the wrong order: no recursion, no quadratic time. */
static void test_long(void **state) {
  session *s = *state;
  enum { N = 200000 };
  tn_graph *g = must_parse(s, "graph @f(%x: f32[2]) { %a: f32[2] = neg %x; return %a }");
  tn_ref r = {1};
  for (int i = 0; i < N; i++) r = add1(s, g, TN_OP_NEG, NULL, r, NONE);
  /* %a reads the end of the chain instead of x */
  g->node[2].in[0] = r;
  must(s, tn_graph_compact(&s->diag, g));
  must(s, tn_graph_verify(&s->diag, g));
  assert_int_equal(g->n_nodes, N + 3);
  assert_int_equal(g->output[0].ref.id, N + 2);
}

static void test_prov(void **state) {
  session *s = *state;
  tn_graph *g, *b;
  must(s, tn_graph_create(&s->arena, s->dims, "f", &g));
  must(s, tn_graph_body(g, "b", &b));
  for (uint32_t i = 1; i < 40; i++) assert_int_equal(tn_graph_add_prov(i % 2 ? b : g, "n", NULL, NULL, TN_F32), i);
  assert_ptr_equal(tn_graph_prov(b, 39), &g->prov[39]);
  assert_null(tn_graph_prov(b, 0));
  assert_null(tn_graph_prov(b, 40));
  for (int f = 0; f < TN_N_FATES; f++) assert_string_not_equal(tn_fate_name((tn_fate)f), "?");
  assert_int_equal(tn_graph_add_mutation(g, 0, (tn_ref){1}), TN_E_ARG);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(test_dead_code, setup, teardown),
                                     cmocka_unit_test_setup_teardown(test_replace_moves_up, setup, teardown),
                                     cmocka_unit_test_setup_teardown(test_chains, setup, teardown),
                                     cmocka_unit_test_setup_teardown(test_inputs, setup, teardown),
                                     cmocka_unit_test_setup_teardown(test_faults, setup, teardown),
                                     cmocka_unit_test_setup_teardown(test_bodies, setup, teardown),
                                     cmocka_unit_test_setup_teardown(test_copy, setup, teardown),
                                     cmocka_unit_test_setup_teardown(test_copy_within, setup, teardown),
                                     cmocka_unit_test_setup_teardown(test_long, setup, teardown),
                                     cmocka_unit_test_setup_teardown(test_prov, setup, teardown)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

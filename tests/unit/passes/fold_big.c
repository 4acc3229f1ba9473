/* Fold on weights: what only moves or converts big constants is done while compiling, when it takes no more bytes; the rest is left to kernels. */
#include "passes_test.h"

enum { ROWS = 400, COLS = 300 };

/* A constant of ROWS x COLS with element i = i. */
static tn_ref weights(world *w, tn_dtype t) {
  tn_dim dim[2] = {ROWS, COLS};
  size_t size = tn_dtype_size(t);
  char *p = test_malloc(ROWS * COLS * size);
  for (int i = 0; i < ROWS * COLS; i++) tn_num_store(t, p + (size_t)i * size, t == TN_F32 ? (tn_num){.f = i} : (tn_num){.i = i % 100});
  tn_ref r;
  assert_int_equal(tn_graph_add_const(w->g, tn_type_make(w->g, t, 2, dim), p, ROWS * COLS * size, 0, &r), TN_OK);
  test_free(p);
  return r;
}
static tn_ref add(world *w, tn_op op, const tn_ref *in, uint32_t n, const tn_attr *at, uint32_t n_at) {
  tn_ref r;
  if (tn_ops_add(w->p.d, w->g, op, in, n, at, n_at, 0, &r) != TN_OK) fail_msg("%s", w->p.d->text);
  return r;
}
static tn_ref half(world *w, tn_ref x, int64_t start) {
  tn_attr at[4] = {tn_mk_int("dim", 0), tn_mk_dims(w->g, "start", (tn_dim[]){start}, 1), tn_mk_dims(w->g, "size", (tn_dim[]){ROWS / 2}, 1), tn_mk_int("step", 1)};
  return add(w, TN_OP_SLICE, &x, 1, at, 4);
}

/* Halves of the weights in the other order, then turned: one constant and a view of it. */
static void test_reordered(void **state) {
  (void)state;
  world w;
  world_parse(&w, "graph @g() -> () {\n  return\n}\n");
  tn_ref x = weights(&w, TN_F32), part[2] = {half(&w, x, ROWS / 2), half(&w, x, 0)};
  tn_attr dim = tn_mk_int("dim", 0), perm = tn_mk_dims(w.g, "perm", (tn_dim[]){1, 0}, 2);
  tn_ref y = add(&w, TN_OP_CONCAT, part, 2, &dim, 1), z = add(&w, TN_OP_PERMUTE, &y, 1, &perm, 1);
  assert_int_equal(tn_graph_add_output(w.g, z), TN_OK);
  run(&w, "fold");
  const tn_node *n = tn_def(w.g, w.g->output[0].ref);
  assert_int_equal(n->op, TN_OP_PERMUTE);
  n = tn_def(w.g, n->in[0]);
  assert_int_equal(n->op, TN_OP_CONST);
  const float *p = n->data->p;
  for (int i = 0; i < ROWS * COLS; i++)
    if (p[i] != (float)((i + ROWS / 2 * COLS) % (ROWS * COLS))) fail_msg("element %d is %g", i, (double)p[i]);
  assert_int_equal(w.g->n_nodes - 1, 2); /* what it was made of is gone */
  world_close(&w);
}

static void test_converted(void **state) {
  (void)state;
  for (int narrow = 0; narrow < 2; narrow++) {
    world w;
    world_parse(&w, "graph @g() -> () {\n  return\n}\n");
    tn_ref x = weights(&w, narrow ? TN_F32 : TN_I8);
    tn_attr at = tn_mk_dtype("dtype", narrow ? TN_F16 : TN_F32);
    assert_int_equal(tn_graph_add_output(w.g, add(&w, TN_OP_CAST, &x, 1, &at, 1)), TN_OK);
    run(&w, "fold");
    const tn_node *n = tn_def(w.g, w.g->output[0].ref);
    assert_int_equal(n->op, narrow ? TN_OP_CONST : TN_OP_CAST); /* bytes as floats would take four times the room */
    if (narrow) assert_int_equal(((const uint16_t *)n->data->p)[3], tn_f32_to_f16(3));
    world_close(&w);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_reordered), cmocka_unit_test(test_converted)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

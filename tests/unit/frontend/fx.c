/* The FX importer: what a good text becomes, and that every bad one is refused with node and key in the words. That allocation failures
 * are survived at every place is shown by failing each in turn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "frontend/fx/fx.h"

typedef struct world { tn_arena a; tn_dims *dims; tn_diag d; tn_graph *g; } world;

static tn_status import(world *w, const char *json) {
  tn_arena_init(&w->a);
  tn_diag_clear(&w->d);
  w->dims = tn_dims_create();
  w->g = NULL;
  if (!w->dims) return TN_E_NOMEM;
  return tn_fx_import_file_text(&w->d, &w->a, w->dims, json, strlen(json), &w->g);
}
static void leave(world *w) {
  tn_dims_destroy(w->dims);
  tn_arena_deinit(&w->a);
}

#define T "{\"dtype\":\"f32\",\"shape\":[4,\"s0\"],\"stride\":[\"s0\",1]}"
#define HEAD "{\"version\":1,\"name\":\"fwd\",\"symbols\":[{\"name\":\"s0\",\"lo\":2,\"hi\":64}],"
#define X "{\"name\":\"x\",\"origin\":\"input\",\"dtype\":\"f32\",\"shape\":[4,\"s0\"],\"stride\":[\"s0\",1]}"

static const char good_text[] =
  HEAD "\"inputs\":[" X ",{\"name\":\"w\",\"origin\":\"param\",\"dtype\":\"bf16\",\"shape\":[2,3],\"stride\":[1,2]},"
  "{\"name\":\"n\",\"origin\":\"sym\",\"dtype\":\"i64\",\"shape\":[],\"stride\":[],\"sym\":\"s0\"}],"
  "\"constants\":[{\"name\":\"c\",\"dtype\":\"i32\",\"shape\":[2],\"stride\":[1],\"hex\":\"0100000002000000\"}],"
  "\"nodes\":[{\"name\":\"add\",\"target\":\"aten.add.Tensor\",\"where\":\"m.py:3 in forward\",\"args\":{\"self\":{\"ref\":\"x\"},\"other\":{\"ref\":\"x\"},"
  "\"alpha\":1,\"f\":{\"float\":\"-inf\"},\"l\":[{\"sym\":\"2*s0\"},null,true,\"none\",{\"dtype\":\"f64\"}]},\"out\":[" T "]},"
  "{\"name\":\"split\",\"target\":\"aten.split.Tensor\",\"where\":\"\",\"args\":{\"self\":{\"ref\":\"add\"}},\"out\":[" T ",null," T "]},"
  "{\"name\":\"z\",\"target\":\"aten.neg.default\",\"where\":\"\",\"args\":{\"self\":{\"ref\":\"split\",\"index\":2}},\"out\":[" T "]}],"
  "\"outputs\":[{\"ref\":\"z\"},{\"sym\":\"s0 + 1\"},null,7],\"mutations\":[{\"input\":0,\"ref\":\"add\"}]}";

static void test_good(void **state) {
  (void)state;
  world w;
  tn_status s = import(&w, good_text);
  if (s != TN_OK) print_error("%s\n", w.d.text);
  assert_int_equal(s, TN_OK);
  tn_graph *g = w.g;
  assert_int_equal(tn_graph_verify(&w.d, g), TN_OK);
  assert_int_equal(g->n_inputs, 3);
  assert_int_equal(tn_def(g, g->input[1])->input->origin, TN_ORIGIN_PARAM);
  assert_non_null(tn_def(g, g->input[1])->input->stride);
  assert_null(tn_def(g, g->input[0])->input->stride);
  assert_int_equal(tn_def(g, g->input[2])->input->sym, tn_dim_sym(w.dims, "s0"));
  assert_true(tn_def(g, g->input[0])->input->mutated);
  const tn_node *add = tn_def(g, g->mutation[0].value);
  assert_string_equal(add->target, "aten.add.Tensor");
  assert_string_equal(g->prov[add->prov].where, "m.py:3 in forward");
  assert_int_equal(add->n_in, 2);
  assert_true(tn_attr_get(add, "f")->u.f < 0);
  const tn_attr_val *l = tn_attr_get(add, "l");
  assert_int_equal(l->u.list.n, 5);
  assert_int_equal(l->u.list.item[0].kind, TN_AT_DIM);
  assert_int_equal(l->u.list.item[4].u.t, TN_F64);
  assert_int_equal(g->n_outputs, 4);
  assert_true(g->output[1].is_dim && g->output[2].is_none && g->output[3].dim == 7);
  leave(&w);
}

static void test_carried(void **state) {
  (void)state;
  world w;
  const char *text = HEAD "\"inputs\":[" X "],\"nodes\":["
    "{\"name\":\"a\",\"target\":\"aten.view_as_complex.default\",\"args\":{\"self\":{\"ref\":\"x\"}},\"out\":[{\"dtype\":\"c64\",\"shape\":[4],\"stride\":[1]}]},"
    "{\"name\":\"b\",\"target\":\"aten.view_as_real.default\",\"args\":{\"self\":{\"ref\":\"a\"}},\"out\":[" T "]}],\"outputs\":[{\"ref\":\"b\"}]}";
  assert_int_equal(import(&w, text), TN_OK);
  const tn_node *b = tn_def(w.g, w.g->output[0].ref);
  assert_int_equal(b->op, TN_OP_OPAQUE);
  assert_string_equal(tn_attr_get(b, "carried_in")->u.list.item[0].u.s, "c64");
  assert_int_equal(w.g->prov[b->prov].gate[0], TN_GATE_FAIL);
  assert_int_equal(tn_graph_verify(&w.d, w.g), TN_OK);
  leave(&w);
}

static void refused(const char *json, tn_status want, const char *piece) {
  world w;
  tn_status s = import(&w, json);
  if (s != want || !strstr(w.d.text, piece)) print_error("%s: %s\n%s\n", tn_status_name(s), w.d.text, json);
  assert_int_equal(s, want);
  assert_non_null(strstr(w.d.text, piece));
  assert_null(w.g);
  leave(&w);
}
#define NODE(rest) HEAD "\"inputs\":[" X "],\"nodes\":[{\"name\":\"n1\"," rest "}],\"outputs\":[]}"
#define ARGS(args) NODE("\"target\":\"aten.neg.default\",\"args\":" args ",\"out\":[" T "]")
static void test_refused(void **state) {
  (void)state;
  refused("", TN_E_PARSE, "FX graph");
  refused("[]", TN_E_PARSE, "wants an object");
  refused("{\"version\":2}", TN_E_PARSE, "this reader knows 1");
  refused("{\"version\":1,\"name\":\"f\",\"outputs\":[]}", TN_E_PARSE, "inputs");
  refused(HEAD "\"inputs\":[{\"name\":\"x\",\"origin\":\"moon\"}],\"nodes\":[],\"outputs\":[]}", TN_E_PARSE, "moon");
  refused(HEAD "\"inputs\":[{\"name\":\"x\",\"origin\":\"input\",\"dtype\":\"c64\",\"shape\":[]}],\"nodes\":[],\"outputs\":[]}", TN_E_UNSUPPORTED, "x: dtype: c64");
  refused(HEAD "\"inputs\":[{\"name\":\"x\",\"origin\":\"input\",\"dtype\":\"f32\",\"shape\":[-1]}],\"nodes\":[],\"outputs\":[]}", TN_E_ARG, "size -1");
  refused(HEAD "\"inputs\":[" X "," X "],\"nodes\":[],\"outputs\":[]}", TN_E_PARSE, "'x' is taken");
  refused(HEAD "\"inputs\":[],\"constants\":[{\"name\":\"c\",\"dtype\":\"f32\",\"shape\":[1],\"stride\":[1],\"ptr\":64}],\"nodes\":[],\"outputs\":[]}", TN_E_ARG, "address");
  refused(HEAD "\"inputs\":[],\"constants\":[{\"name\":\"c\",\"dtype\":\"f32\",\"shape\":[1],\"stride\":[1],\"hex\":\"00\"}],\"nodes\":[],\"outputs\":[]}", TN_E_ARG, "4 bytes");
  refused(HEAD "\"inputs\":[],\"constants\":[{\"name\":\"c\",\"dtype\":\"i8\",\"shape\":[1],\"stride\":[1],\"hex\":\"0g\"}],\"nodes\":[],\"outputs\":[]}", TN_E_PARSE, "hexadecimal");
  refused(NODE("\"args\":{}"), TN_E_PARSE, "n1: target");
  refused(ARGS("{\"self\":{\"ref\":\"y\"}}"), TN_E_ARG, "n1: self: refers to 'y'");
  refused(ARGS("{\"self\":{\"ref\":\"n1\"}}"), TN_E_ARG, "not made before");
  refused(ARGS("{\"self\":{\"ref\":\"x\",\"index\":3}}"), TN_E_ARG, "result 3");
  refused(ARGS("{\"self\":{\"moon\":1}}"), TN_E_PARSE, "n1: self");
  refused(ARGS("{\"self\":{\"sym\":\"Piecewise(1)\"}}"), TN_E_UNSUPPORTED, "n1");
  refused(ARGS("{\"self\":{\"float\":\"1\"}}"), TN_E_PARSE, "n1: self");
  refused(ARGS("{\"\":1}"), TN_E_PARSE, "without a name");
  refused(ARGS("{\"a\":1,\"a\":2}"), TN_E_PARSE, "duplicate");
  refused(ARGS("{\"a\":[[[[[[[[[[1]]]]]]]]]]}"), TN_E_PARSE, "nested deeper");
  refused(NODE("\"target\":\"aten.neg.default\",\"args\":{},\"out\":[{\"dtype\":\"f32\",\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1]}]"), TN_E_UNSUPPORTED, "rank 13");
  refused(NODE("\"target\":\"aten.neg.default\",\"args\":{},\"out\":[3]"), TN_E_PARSE, "n1: out");
  refused(HEAD "\"inputs\":[" X "],\"nodes\":[],\"outputs\":[1.5]}", TN_E_UNSUPPORTED, "outputs");
  refused(HEAD "\"inputs\":[" X "],\"nodes\":[],\"outputs\":[{\"ref\":\"x\",\"order\":1}]}", TN_E_PARSE, "no list of dims");
  refused(HEAD "\"inputs\":[" X "],\"nodes\":[],\"outputs\":[{\"ref\":\"x\",\"order\":[0,0]}]}", TN_E_ARG, "order[1] is 0");
  refused(HEAD "\"inputs\":[" X "],\"nodes\":[],\"outputs\":[{\"ref\":\"x\",\"order\":[0,1,2]}]}", TN_E_ARG, "an order of 3 dims for rank 2");
  refused(HEAD "\"inputs\":[" X "],\"nodes\":[],\"outputs\":[{\"ref\":\"x\",\"order\":[0,\"a\"]}]}", TN_E_ARG, "order[1] is -1");
  refused(HEAD "\"inputs\":[" X "],\"nodes\":[],\"outputs\":[],\"mutations\":[{\"input\":5,\"ref\":\"x\"}]}", TN_E_ARG, "5 of 1");
  refused(HEAD "\"inputs\":[" X "],\"nodes\":[],\"outputs\":[],\"mutations\":[{\"input\":0,\"ref\":\"x\"},{\"input\":0,\"ref\":\"x\"}]}", TN_E_ARG, "twice");
  refused("{\"version\":1,\"name\":\"f\",\"symbols\":[{\"name\":\"s0\",\"lo\":4,\"hi\":3}],\"inputs\":[],\"nodes\":[],\"outputs\":[]}", TN_E_ARG, "[4, 3]");
}

static void test_no_memory(void **state) {
  (void)state;
  for (int64_t n = 1; n < 4000; n++) {
    world w;
    tn_malloc_fail_after(n);
    tn_status s = import(&w, good_text);
    tn_malloc_fail_after(0);
    leave(&w);
    if (s == TN_OK) return;
    if (s != TN_E_UNSUPPORTED) assert_int_equal(s, TN_E_NOMEM);   /* dims do not say why they have no expression */
  }
  fail_msg("still failing");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_good), cmocka_unit_test(test_carried), cmocka_unit_test(test_refused), cmocka_unit_test(test_no_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

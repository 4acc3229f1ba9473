/* Text of graphs: what prints reads back to the same text; names, literals, layout freedom; op table. */
#include <math.h>
#include <locale.h>
#include "ir_test.h"
#include "ir/ir_int.h"

static const char everything[] =
    "graph @main(%x: f32[s0,64] input, %w: f32[64,64]{1,64} param mutated !1, %n: i64[] sym(s0), %b: bf16[4*s0 + 1,floordiv(s0, 2)] "
    "buffer, "
    "%c: u8[] const) -> (f32[s0,64], dim, none, i64[0]) {\n"
    "  sym s0 in [2, 1024]\n"
    "  src 1 \"add_3\" \"aten.add.Tensor\" \"model.py:12 in \\\"f\\\"\" f32 gates=pp-f fate=fused detail=\"k0\"\n"
    "  src 2 none none none bool\n"
    "  %0: f32[s0,64] = contract %x, %w {labels=\"ik,kj->ij\"} !1\n"
    "  %1: f32[64] = const {data=\"00ff\"} !2\n"
    "  %2: f32[s0,64] = call aten.relu.default %0 {self=$0}\n"
    "  %3: f32[s0,64] = fused %2, %1 {kind=\"pointwise\"} !2 @k0 {\n"
    "    (%a: f32[s0,64], %b: f32[64])\n"
    "    %c: f32[s0,64] = add %a, %b !1\n"
    "    %0: f32[s0,64] = fused {\n"
    "      ()\n"
    "      yield\n"
    "    }\n"
    "    yield %c\n"
    "  }\n"
    "  %values: f32[2], %indices: i64[2] = sort %1 {dim=0, descending=true, stable=false}\n"
    "  call aten._assert_async.msg %3 {effect=true, msg=\"tab\\there \\\\ \\\"q\\\" \\x01\\x7f\\r\\n \xc3\xa9\"}\n"
    "  opaque \"odd name!\" {reason=\"\"}\n"
    "  %4: i64[0] = iota {size=0, start=-9223372036854775808, step=9223372036854775807, dtype=i64}\n"
    "  mutate %w = %3\n"
    "  return %3, dim 4*s0 + 1, none, %4\n"
    "}\n";

static void test_everything(void **state) {
  (void)state;
  same_after_reading(everything, TN_PRINT_PROV);
}

static void test_provenance_is_optional(void **state) {
  session *s = *state;
  tn_graph *g = must_parse(s, everything);
  const char *t = show(s, g, 0);
  assert_null(strstr(t, "src "));
  assert_null(strchr(t, '!') && strstr(t, " !1") ? t : NULL);
  char *copy = copy_text(t);
  same_after_reading(copy, 0);
  free(copy);
}

static void test_values_of_attributes(void **state) {
  session *s = *state;
  static const double f[] = {0.0,  -0.0,          1.0,      0.1,       -1e-300, 5e-324, 1.7976931348623157e308,
                             1e23, 123456789.123, INFINITY, -INFINITY, NAN,     3.0};
  enum { N = sizeof f / sizeof *f };
  tn_graph *g;
  must(s, tn_graph_create(&s->arena, s->dims, "floats", &g));
  tn_attr_val item[N];
  for (int i = 0; i < N; i++) item[i] = (tn_attr_val){TN_AT_FLOAT, {.f = f[i]}};
  tn_attr a[] = {{"f", {TN_AT_LIST, {.list = {item, N}}}},
                 {"odd name", {TN_AT_INT, {.i = INT64_MIN}}},
                 {"none", {TN_AT_NONE, {.i = 0}}},
                 {"e", {TN_AT_LIST, {.list = {NULL, 0}}}},
                 {"d", {TN_AT_DIM, {.d = tn_dim_sym(s->dims, "f32")}}},
                 {"d2", {TN_AT_DIM, {.d = tn_dim_sub(s->dims, 1, tn_dim_sym(s->dims, "inf"))}}},
                 {"d3", {TN_AT_DIM, {.d = tn_dim_mul(s->dims, tn_dim_int(s->dims, -1), tn_dim_sym(s->dims, "nan"))}}},
                 {"d4", {TN_AT_DIM, {.d = tn_dim_max(s->dims, tn_dim_sym(s->dims, "true"), 7)}}}};
  uint32_t id;
  must(s, tn_graph_add(g, TN_OP_CALL, NULL, 0, a, sizeof a / sizeof *a, NULL, 0, 0, &id));
  must(s, tn_node_set_target(g, id, "t"));
  char *t = copy_text(show(s, g, 0));
  same_after_reading(t, 0);
  tn_graph *h = must_parse(s, t);
  const tn_attr_val *v = tn_attr_get(&h->node[1], "f");
  assert_int_equal(v->u.list.n, N);
  for (int i = 0; i < N; i++) {
    assert_int_equal(v->u.list.item[i].kind, TN_AT_FLOAT);
    double x = v->u.list.item[i].u.f;
    if (isnan(f[i]))
      assert_true(isnan(x));
    else
      assert_memory_equal(&x, &f[i], sizeof x);
  }
  for (int i = 4; i < 8; i++) assert_true(tn_attr_get(&h->node[1], a[i].name)->u.d == a[i].val.u.d);
  free(t);
}

static void test_locale(void **state) {
  session *s = *state;
  if (!setlocale(LC_NUMERIC, "de_DE.UTF-8") && !setlocale(LC_NUMERIC, "fr_FR.UTF-8")) skip();
  same_after_reading("graph @f() -> () {\n  call t {x=1.5}\n  return\n}\n", 0);
  tn_graph *g = must_parse(s, "graph @f() { call t {x=1.5}\n return }");
  assert_true(tn_attr_num(&g->node[1], "x", 0) == 1.5);
  setlocale(LC_NUMERIC, "C");
}

/* Free layout, comments, left-out parts. */
static void test_layout(void **state) {
  session *s = *state;
  tn_graph *g = must_parse(s, "# head\n\n graph@f(  # inputs\n %x:f32 [ 2 , s0 ] ,\n\t%y : f32[2,s0]{s0,1}\n) { # no results listed\r\n"
                              ";;%a:f32[2,s0]=add %x,%y;%5:f32[2,s0]=neg %a{}# minus\n"
                              " %q: f32[2,s0] = fused %5 { ( %i: f32[2,s0] ); %o: f32[2,s0] = neg %i; yield %o }\n"
                              " %r: f32[] = full {shape=[\n], value=1,\n dtype=f32 }\n"
                              " return %q,%r }\n# tail");
  assert_string_equal(show(s, g, 0), "graph @f(%x: f32[2,s0] input, %y: f32[2,s0]{s0,1} input) -> (f32[2,s0], f32[]) {\n"
                                     "  %a: f32[2,s0] = add %x, %y\n"
                                     "  %0: f32[2,s0] = neg %a\n"
                                     "  %q: f32[2,s0] = fused %0 {\n"
                                     "    (%i: f32[2,s0])\n"
                                     "    %o: f32[2,s0] = neg %i\n"
                                     "    yield %o\n"
                                     "  }\n"
                                     "  %r: f32[] = full {shape=[], value=1, dtype=f32}\n"
                                     "  return %q, %r\n"
                                     "}\n");
}

static void test_names(void **state) {
  session *s = *state;
  tn_graph *g;
  tn_dim two[] = {2};
  tn_ref x, r;
  uint32_t id;
  must(s, tn_graph_create(&s->arena, s->dims, "a graph", &g));
  tn_type t = tn_type_make(g, TN_F32, 1, two);
  must(s, tn_graph_add_input(g, "onnx::Conv_1", t, TN_ORIGIN_INPUT, &x));
  static const char *const names[] = {"x", "x", "7", "", NULL, "/a/b.c", "-", "x\"y\n"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    must(s, tn_graph_add(g, TN_OP_NEG, &x, 1, NULL, 0, &t, 1, 0, &id));
    r = tn_out(&g->node[id], 0);
    must(s, tn_value_set_name(g, r, names[i]));
    must(s, tn_graph_add_output(g, r));
  }
  char *text = copy_text(show(s, g, 0));
  assert_string_equal(
      text, "graph @\"a graph\"(%\"onnx::Conv_1\": f32[2] input) -> (f32[2], f32[2], f32[2], f32[2], f32[2], f32[2], f32[2], f32[2]) {\n"
            "  %x: f32[2] = neg %\"onnx::Conv_1\"\n"
            "  %0: f32[2] = neg %\"onnx::Conv_1\"\n"
            "  %\"7\": f32[2] = neg %\"onnx::Conv_1\"\n"
            "  %1: f32[2] = neg %\"onnx::Conv_1\"\n"
            "  %2: f32[2] = neg %\"onnx::Conv_1\"\n"
            "  %\"/a/b.c\": f32[2] = neg %\"onnx::Conv_1\"\n"
            "  %\"-\": f32[2] = neg %\"onnx::Conv_1\"\n"
            "  %\"x\\\"y\\n\": f32[2] = neg %\"onnx::Conv_1\"\n"
            "  return %x, %0, %\"7\", %1, %2, %\"/a/b.c\", %\"-\", %\"x\\\"y\\n\"\n"
            "}\n");
  must(s, tn_graph_verify(&s->diag, g));
  same_after_reading(text, 0);
  free(text);
}

static void test_constants(void **state) {
  session *s = *state;
  tn_graph *g;
  tn_ref r;
  float f[65] = {0};
  f[0] = 1.5f;
  for (int64_t n = 0; n <= 65; n += n == 1 ? 63 : 1) {
    must(s, tn_graph_create(&s->arena, s->dims, "c", &g));
    must(s, tn_graph_add_const(g, tn_type_make(g, TN_F32, 1, &n), f, (size_t)n * 4, 0, &r));
    must(s, tn_graph_add_output(g, r));
    must(s, tn_graph_verify(&s->diag, g));
    const char *text = show(s, g, 0);
    tn_graph *h;
    if (n <= 64) {
      h = must_parse(s, text);
      assert_int_equal(h->node[1].data->bytes, n * 4);
      if (n) assert_memory_equal(h->node[1].data->p, f, (size_t)n * 4);
    } else {
      assert_non_null(strstr(text, "data=#"));
      assert_int_equal(parse(s, text, &h), TN_E_PARSE);
      assert_non_null(strstr(s->diag.text, "2:29: this constant's bytes were left out"));
    }
  }
}

static void test_numbers_of_dim_lists(void **state) {
  session *s = *state;
  tn_graph *g =
      must_parse(s, "graph @f(%x: f32[2]) { %y: f32[2] = slice %x {dim=0, start=[-1], size=2, step=-1}\n call t {d=[-1, 2]}\n return }");
  tn_dim d[2];
  int64_t v[2];
  assert_int_equal(tn_attr_dims(&g->node[2], "start", d, 2), 1);
  assert_true(tn_dim_as_int(s->dims, d[0], &v[0]) && v[0] == -1);
  assert_int_equal(tn_attr_dims(&g->node[2], "size", d, 2), 1);
  assert_int_equal(tn_attr_int(&g->node[2], "step", 0), -1);
  assert_int_equal(tn_attr_dims(&g->node[3], "d", d, 2), -1); /* a framework call: not known to be dims */
  assert_int_equal(tn_attr_ints(&g->node[3], "d", v, 2), 2);
  assert_int_equal(v[0], -1);
  assert_int_equal(tn_attr_ints(&g->node[3], "d", v, 1), -1);
  assert_int_equal(tn_attr_ints(&g->node[3], "e", v, 2), -1);
}

static void test_readers(void **state) {
  (void)state;
  tn_attr a[] = {tn_mk_int("i", 3), tn_mk_float("f", 2.5), tn_mk_bool("b", true), tn_mk_str("s", "x"), tn_mk_dtype("t", TN_I8)};
  tn_node n = {.n_attr = 5, .attr = a};
  assert_int_equal(tn_attr_int(&n, "i", 0), 3);
  assert_int_equal(tn_attr_int(&n, "b", 0), 1);
  assert_int_equal(tn_attr_int(&n, "f", 9), 9);
  assert_true(tn_attr_num(&n, "i", 0) == 3 && tn_attr_num(&n, "f", 0) == 2.5 && tn_attr_num(&n, "s", 7) == 7);
  assert_true(tn_attr_bool(&n, "b", false) && tn_attr_bool(&n, "i", false) && !tn_attr_bool(&n, "z", false));
  assert_string_equal(tn_attr_str(&n, "s", ""), "x");
  assert_null(tn_attr_str(&n, "t", NULL));
  assert_int_equal(tn_attr_get(&n, "t")->u.t, TN_I8);
}

static void test_op_table(void **state) {
  (void)state;
  for (int i = 0; i < TN_N_OPS; i++) {
    tn_op op;
    const char *s = tn_op_name((tn_op)i), *at = tn_op_attrs((tn_op)i), *name;
    size_t n;
    char kind;
    assert_true(tn_op_find(s, strlen(s), &op) && op == (tn_op)i); /* also: no two rows of one name */
    assert_true(tn_op_in_max(op) < 0 || tn_op_in_min(op) <= tn_op_in_max(op));
    while (tn_op_attr_next(&at, &name, &n, &kind)) assert_non_null(strchr("difbstnc", kind));
    assert_int_equal(*at, 0); /* the whole list was understood */
    assert_int_equal(tn_op_is_scalar(op), i < TN_N_SCALARS);
  }
  tn_op op;
  assert_false(tn_op_find("ad", 2, &op) || tn_op_find("", 0, &op) || tn_op_find("addx", 4, &op));
  assert_string_equal(tn_op_name((tn_op)9999), "?");
  assert_int_equal(tn_op_attr_kind(TN_OP_SLICE, "start"), 'd');
  assert_int_equal(tn_op_attr_kind(TN_OP_SLICE, "star"), 0);
  assert_int_equal(tn_op_cls(TN_OP_SIGMOID), TN_CLS_ELTWISE);
}

static void test_types(void **state) {
  session *s = *state;
  tn_dim s0 = tn_dim_sym(s->dims, "s0"), d[] = {2, s0}, z[] = {INT64_MAX, 3, 0}, big[] = {INT64_MAX, 3}, six[] = {2, 3};
  assert_int_equal(tn_type_numel(&(tn_type){TN_F32, 2, d}), -1);
  assert_int_equal(tn_type_numel(&(tn_type){TN_F32, 3, z}), 0);
  assert_int_equal(tn_type_numel(&(tn_type){TN_F32, 2, big}), -1);
  assert_int_equal(tn_type_numel(&(tn_type){TN_F32, 2, six}), 6);
  assert_int_equal(tn_type_numel(&(tn_type){TN_F32, 0, NULL}), 1);
  assert_true(tn_type_equal(&(tn_type){TN_F32, 2, d}, &(tn_type){TN_F32, 2, (tn_dim[]){2, s0}}));
  assert_false(tn_type_equal(&(tn_type){TN_F32, 2, d}, &(tn_type){TN_F32, 2, six}));
  assert_false(tn_type_equal(&(tn_type){TN_F32, 1, d}, &(tn_type){TN_F16, 1, d}));
}

/* A broken graph must still print: that is when one looks at it. */
static void test_broken_prints(void **state) {
  session *s = *state;
  tn_graph *g = must_parse(s, "graph @f(%x: f32[2]) { %y: f32[2] = neg %x\n return %y }");
  g->node[2].in[0].id = 77;
  g->output[0].ref.id = 0;
  tn_dim bad = TN_DIM_BAD;
  g->value[2].type.dim = &bad;
  const char *t = show(s, g, 0);
  assert_non_null(strstr(t, "%y: f32[?] = neg %?77"));
  assert_non_null(strstr(t, "return %?0"));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(test_everything, setup, teardown),
                                     cmocka_unit_test_setup_teardown(test_provenance_is_optional, setup, teardown),
                                     cmocka_unit_test_setup_teardown(test_values_of_attributes, setup, teardown),
                                     cmocka_unit_test_setup_teardown(test_locale, setup, teardown),
                                     cmocka_unit_test_setup_teardown(test_layout, setup, teardown),
                                     cmocka_unit_test_setup_teardown(test_names, setup, teardown),
                                     cmocka_unit_test_setup_teardown(test_constants, setup, teardown),
                                     cmocka_unit_test_setup_teardown(test_numbers_of_dim_lists, setup, teardown),
                                     cmocka_unit_test_setup_teardown(test_readers, setup, teardown),
                                     cmocka_unit_test_setup_teardown(test_op_table, setup, teardown),
                                     cmocka_unit_test_setup_teardown(test_types, setup, teardown),
                                     cmocka_unit_test_setup_teardown(test_broken_prints, setup, teardown)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

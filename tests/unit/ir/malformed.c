/* Text that is wrong, and graphs that are: each row must be refused with its code and a message that holds its piece. */
#include "ir_test.h"

typedef struct row {
  tn_status code;
  const char *message, *text;
} row;
#define P TN_E_PARSE
#define V TN_E_VERIFY
/* Shorthands for rows about one statement. */
#define G(statement) "graph @f(%x: f32[2,3], %y: f32[2,3]) {\n" statement "\n  return\n}"
#define A(value) G("call t {a=" value "}")

static const row rows[] = {
    /* the frame */
    {P, "1:1: expected 'graph'", ""},
    {P, "1:1: expected 'graph'", "graphs @f() { return }"},
    {P, "2:3: expected 'graph'", "# c\n  \x01"},
    {P, "1:7: expected '@'", "graph f() { return }"},
    {P, "1:8: expected the name of the graph", "graph @1() { return }"},
    {P, "1:8: string without an end", "graph @\"f"},
    {P, "1:10: expected '(' before the inputs", "graph @f { return }"},
    {P, "1:10: expected '%'", "graph @f(x: f32[]) { return }"},
    {P, "1:13: expected ':' after the name of an input", "graph @f(%x f32[]) { return }"},
    {P, "1:28: expected ')' after the inputs, got '{'", "graph @f(%x: f32[]{} input { return }"},
    {P, "expected ')' after the inputs", "graph @f(%x: f32[] inputs) { return }"},
    {P, "1:22: value %x is made twice", "graph @f(%x: f32[],  %x: f32[]) { return }"},
    {P, "value %3 is made twice", "graph @f(%3: f32[], %03: f32[]) { return }"},
    {P, "expected '->'", "graph @f() - () { return }"},
    {P, "expected '{' before the statements", "graph @f() -> () return"},
    {P, "expected the name of a value", "graph @f(%: f32[]) { return }"},
    {P, "starts with a digit stands in quotes", "graph @f(%1a: f32[]) { return }"},
    {P, "a value's number 4294967295 is out of range", "graph @f(%4294967295: f32[]) { return }"},
    {P, "integer does not fit 64 bits", "graph @f(%99999999999999999999: f32[]) { return }"},
    {P, "a value's name cannot be empty", "graph @f(%\"\": f32[]) { return }"},
    {P, "3:1: text after the end of the graph", "graph @f() { return\n}\ngraph"},
    {P, "2:1: expected a statement", "graph @f() {\n"},
    {P, "1:14: expected a statement", "graph @f() { }"},
    {P, "'}' before 'return'", "graph @f() { call t }"},
    {P, "expected '}' after the results, got the end of the text", "graph @f() { return"},
    {P, "expected '}' after the results", "graph @f(%x: f32[]) { return %x %x }"},
    {P, "expected a value, 'dim' or 'none'", "graph @f(%x: f32[]) { return %x, }"},
    {P, "2 results are returned, the head of the graph lists 1", "graph @f() -> (none) { return none, none }"},
    {P, "1:25: result 0 is listed with another type", "graph @f(%x: f32[]) -> (f32[1]) { return %x }"},
    {P, "result 0 is listed with another type", "graph @f(%x: f32[]) -> (dim) { return %x }"},
    /* types */
    {P, "1:14: unknown dtype 'f31'", "graph @f(%x: f31[]) { return }"},
    {P, "expected a type, got ')'", "graph @f(%x: ) { return }"},
    {P, "expected '[' after the dtype", "graph @f(%x: f32) { return }"},
    {P, "expected a dim, got ']'", "graph @f(%x: f32[2,]) { return }"},
    {P, "expected a dim, got the end of the line", "graph @f(%x: f32[2,\n3]) { return }"},
    {P, "more than 12 dims", "graph @f(%x: f32[1,1,1,1,1,1,1,1,1,1,1,1,1]) { return }"},
    {P, "1:18: integer does not fit 64 bits", "graph @f(%x: f32[9223372036854775808]) { return }"},
    {P, "1:18: bad dim 's0 +'", "graph @f(%x: f32[s0 +]) { return }"},
    {P, "bad dim", "graph @f(%x: f32[floordiv(s0, 0)]) { return }"},
    {P, "'(' without ')'", "graph @f(%x: f32[max(s0, 1]) { return }"},
    {P, "')' without '('", "graph @f(%x: f32[s0)]) { return }"},
    {P, "1 strides for a tensor of rank 2", "graph @f(%x: f32[2,2]{1}) { return }"},
    {P, "expected '(' after sym", "graph @f(%x: i64[] sym s0) { return }"},
    {P, "expected a dim", "graph @f(%x: i64[] sym()) { return }"},
    /* nodes */
    {P, "2:13: unknown op 'ad'", G("%0: f32[] = ad %x")},
    {P, "2:13: inputs are written in the list", G("%0: f32[] = input")},
    {P, "2:17: no value %z has been made before this point", G("%0: f32[] = neg %z")},
    {P, "no value %0 has been made before this point", G("%0: f32[] = neg %0")},
    {P, "2:1: value %x is made twice", G("%x: f32[] = neg %x")},
    {P, "expected ':' after the name of a result", G("%0 = neg %x")},
    {P, "expected '=' after the results", G("%0: f32[] neg %x")},
    {P, "expected the name of the op that is called", G("%0: f32[] = call %x")},
    {P, "2:20: expected the end of the line after a statement", G("%0: f32[] = neg %x %y")},
    {P, "expected '%' before the name of a value", G("%0: f32[] = add %x,")},
    {P, "2:20: '}' before 'return'", G("%0: f32[] = neg %x } ]")},
    {P, "no source 1, there are 0", G("%0: f32[] = neg %x !1")},
    {P, "sources are numbered from 1", G("%0: f32[] = neg %x !0")},
    {P, "expected '{' before a body", G("%0: f32[] = fused %x {kind=\"k\"} @b")},
    {P, "no value %x has been made", G("%0: f32[] = fused %x {\n () \n %1: f32[] = neg %x\n yield }")},
    {P, "expected '(' before the inputs", G("%0: f32[] = fused %x {kind=\"k\"} { yield }")},
    {P, "unknown op 'return'", G("%0: f32[] = fused %x { () \n return }")},
    {P, "unknown op 'sym'", G("%0: f32[] = fused %x { () \n sym s0 in [1, 2]\n yield }")},
    /* attributes */
    {P, "expected the name of an attribute", G("call t {=1}")},
    {P, "expected '=' after the name of an attribute", G("call t {a}")},
    {P, "expected a value, got '}'", A("")},
    {P, "expected '}' after the attributes", A("1]")},
    {P, "2:11: bad dim '1 2'", A("1 2")},
    {P, "expected ']' after the items", A("[1}")},
    {P, "expected a value, got ']'", A("[1,]")},
    {P, "integer does not fit 64 bits", A("-9223372036854775809")},
    {P, "number does not fit a double", A("1e999")},
    {P, "'True' is no value here", A("True")},
    {P, "'-nan' is no value here", A("-nan")},
    {P, "bad dim '1.'", A("1.")},
    {P, "bad dim '+1'", A("+1")},
    {P, "expected an input's number, got 'x'", A("$x")},
    {P, "an input's number -1 is out of range", A("$-1")},
    {P, "lists nested deeper than 16", A("[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]")},
    {P, "2:11: string without an end on its line", A("\"abc}")},
    {P, "2:11: string without an end on its line", A("\"a\nb\"")},
    {P, "control byte 0x01 in a string", A("\"a\001b\"")},
    {P, "unknown escape \\q", A("\"\\q\"")},
    {P, "\\x wants two hex digits", A("\"\\x0\"")},
    {P, "\\x wants two hex digits that are not 00", A("\"\\x00\"")},
    {P, "hex digits, an odd number", G("%0: i8[1] = const {data=\"0\"}")},
    {P, "string of hex digits; byte 1 is not", G("%0: i8[1] = const {data=\"00zz\"}")},
    {P, "a constant's data is a string", G("%0: i8[1] = const {data=00}")},
    {P, "data is given twice", G("%0: i8[1] = const {data=\"00\", data=\"00\"}")},
    {P, "cannot be read back", G("%0: i8[1] = const {data=#0123456789abcdef}")},
    /* sym, src, mutate */
    {P, "expected 'in' after the symbol", G("sym s0 [1, 2]")},
    {P, "range of s0 is empty: 3 > 2", G("sym s0 in [3, 2]")},
    {P, "expected the upper end", G("sym s0 in [3, x]")},
    {P, "symbol stands without quotes", G("sym \"s0\" in [3, 4]")},
    {P, "source 2, the next number is 1", G("src 2 none none none f32")},
    {P, "expected a string or none", G("src 1 add none none f32")},
    {P, "expected the dtype of the source", G("src 1 none none none 1")},
    {P, "gates are four letters", G("src 1 none none none f32 gates=ppp")},
    {P, "unknown fate", G("src 1 none none none f32 fate=good")},
    {P, "only an input can be mutated", G("%0: f32[] = neg %x\nmutate %0 = %x")},
    {P, "expected '=' after the input that changes", G("mutate %x %y")},
    /* structure */
    {V, "node 3 (neg, %a): wants 1 inputs, has 2", G("%a: f32[2,3] = neg %x, %y")},
    {V, "node 3 (concat): wants 1 to -1 inputs", G("%0: f32[2,3] = concat {dim=0}")},
    {V, "gives 1 results, has 0", G("neg %x")},
    {V, "gives 1 results, has 2", G("%0: f32[2,3], %1: f32[2,3] = neg %x")},
    {V, "attribute dim is missing", G("%0: f32[2,3] = concat %x {}")},
    {V, "attribute dim wants an integer", G("%0: f32[2,3] = concat %x {dim=1.0}")},
    {V, "attribute dim is given twice", G("%0: f32[2,3] = concat %x {dim=0, dim=0}")},
    {V, "has no attribute foo; it knows \"dim:i\"", G("%0: f32[2,3] = concat %x {dim=0, foo=1}")},
    {V, "attribute shape wants a list of dims", G("%0: f32[6] = reshape %x {shape=[\"6\"]}")},
    {V, "attribute shape wants a list of dims", G("%0: f32[6] = reshape %x {shape=[-9223372036854775808]}")},
    {V, "attribute combiner wants a combiner", G("%0: f32[2,3] = reduce %x {combiner=\"plus\", dims=[]}")},
    {V, "attribute keepdim wants a bool", G("%0: f32[2,3] = reduce %x {combiner=\"sum\", dims=[], keepdim=1}")},
    {V, "attribute labels wants a string", G("%0: f32[2,3] = contract %x, %y {labels=none}")},
    {V, "attribute dtype wants a dtype", G("%0: f32[2,3] = cast %x {dtype=\"f32\"}")},
    {V, "attribute value wants a number", G("%0: f32[] = full {shape=[], value=\"1\", dtype=f32}")},
    {V, "attribute self names input 1 of 1", G("%0: f32[2,3] = call t %x {self=[$0, $1]}")},
    {V, "attribute reason is missing", G("%0: f32[2,3] = opaque t %x")},
    {V, "attribute reason wants a string", G("%0: f32[2,3] = opaque t %x {reason=1}")},
    {V, "does not say which op it calls", G("%0: f32[2,3] = call \"\" %x")},
    {V, "dim 1 is -1", G("%0: f32[2,-1] = neg %x")},
    {V, "a constant without data", G("%0: f32[2] = const")},
    {V, "7 bytes for 2 elements of 4 bytes", G("%0: f32[2] = const {data=\"00000000000000\"}")},
    {V, "a constant's dims are numbers", G("%0: f32[s0] = const {data=\"\"}")},
    {V, "has no body", G("%0: f32[2,3] = fused %x {kind=\"k\"}")},
    {V, "attribute kind is missing", G("%0: f32[2,3] = fused %x { (%a: f32[2,3]); yield %a }")},
    {V, "reads 1 values, its body has 0 inputs", G("%0: f32[2,3] = fused %x {kind=\"k\"} { (); yield }")},
    {V, "has 1 results, its body yields 0", G("%0: f32[2,3] = fused %x {kind=\"k\"} { (%a: f32[2,3]); yield }")},
    {V, "operand 0 and input 0 of its body differ in type", G("%0: f32[2,3] = fused %x {kind=\"k\"} { (%a: f32[3,2]); yield %a }")},
    {V, "result 0 differs in type", G("%0: f32[2,2] = fused %x {kind=\"k\"} { (%a: f32[2,3]); yield %a }")},
    {V, "yields no value as result 0", G("%0: f32[2,3] = fused %x {kind=\"k\"} { (%a: f32[2,3]); yield none }")},
    {V, "input 0 of its body has an origin", G("%0: f32[2,3] = fused %x {kind=\"k\"} { (%a: f32[2,3] param); yield %a }")},
    {V, "while checking the body of node 3 (fused)",
     G("%0: f32[2,3] = fused %x {kind=\"k\"} { (%a: f32[2,3]); %b: f32[2,3] = neg; yield %b }")},
    {V, "its body mutates an input", G("%0: f32[2,3] = fused %x {kind=\"k\"} { (%a: f32[2,3] mutated); mutate %a = %a; yield %a }")},
    {V, "only fused has a body", G("%0: f32[2,3] = neg %x { (%a: f32[2,3]); yield %a }")},
    {V, "carries a dim, so it is i64[], not f32 of rank 0", "graph @f(%x: f32[] sym(s0)) { return }"},
    {V, "input 0 is written and not marked as mutated", G("mutate %x = %y")},
    {V, "input 0 is written twice", "graph @f(%x: f32[] mutated) { mutate %x = %x; mutate %x = %x; return }"},
    {V, "input 0 is written with value 2 of another type", "graph @f(%x: f32[] mutated, %y: f32[1]) { mutate %x = %y; return }"},
};

static void test_table(void **state) {
  (void)state;
  int wrong = 0;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    session s;
    session_init(&s);
    tn_graph *g = NULL;
    tn_status st = parse(&s, rows[i].text, &g);
    if (st == TN_OK)
      st = tn_graph_verify(&s.diag, g);
    else
      assert_null(g);
    if (st != rows[i].code || !strstr(s.diag.text, rows[i].message)) {
      wrong++;
      print_error("row %zu\n%s\nwanted %s: %s\ngot    %s: %s\n", i, rows[i].text, tn_status_name(rows[i].code), rows[i].message,
                  tn_status_name(st), s.diag.text);
    }
    session_deinit(&s);
  }
  assert_int_equal(wrong, 0);
}

/* Every prefix of good text, and every single byte taken out: refused or read, never worse. */
static void test_cut_text(void **state) {
  (void)state;
  static const char good[] =
      "graph @f(%x: f32[s0,2]{2,1} param mutated, %n: i64[] sym(s0)) -> (f32[s0,2], dim) {\n  sym s0 in [2, inf]\n"
      "  src 1 \"a\" none \"w\" f32 gates=p--f fate=view detail=\"d\"\n"
      "  %0: f32[s0,2] = call a.b %x {k=[1, -2.5e+03, \"s\\x01\"], r=$0} !1\n  %1: f32[1] = const {data=\"0000803f\"}\n"
      "  %2: f32[s0,2] = fused %0 {kind=\"p\"} @b {\n    (%a: f32[s0,2])\n    yield %a\n  }\n  mutate %x = %2\n  return %2, dim s0\n}\n";
  char buf[sizeof good];
  size_t len = strlen(good);
  same_after_reading(good, TN_PRINT_PROV);
  for (size_t i = 0; i < 2 * len; i++) {
    session s;
    session_init(&s);
    tn_graph *g;
    size_t n = i < len ? i : len - 1, cut = i % len;
    memcpy(buf, good, cut);
    if (i >= len) memcpy(buf + cut, good + cut + 1, len - cut - 1);
    char *exact = malloc(n ? n : 1); /* its end is the end of memory: a sanitizer sees one byte too far */
    assert_non_null(exact);
    memcpy(exact, buf, n);
    tn_status st = tn_graph_parse(&s.diag, &s.arena, s.dims, exact, n, &g);
    if (i < len - 2) assert_int_equal(st, TN_E_PARSE);
    free(exact);
    session_deinit(&s);
  }
}

/* Depth is limited, not the machine's stack. */
static void test_deep(void **state) {
  (void)state;
  tn_str t;
  session s;
  tn_graph *g;
  session_init(&s);
  tn_str_init(&t);
  tn_str_add(&t, "graph @f() {\n");
  for (int i = 0; i < 10000; i++) tn_str_add(&t, "fused { ()\n");
  assert_int_equal(tn_graph_parse(&s.diag, &s.arena, s.dims, t.s, t.n, &g), TN_E_PARSE);
  assert_non_null(strstr(s.diag.text, "18:8: bodies nested deeper than 16"));
  t.n = 0;
  tn_str_add(&t, "graph @f(%%x: f32[");
  for (int i = 0; i < 100000; i++) tn_str_add(&t, "(");
  assert_int_equal(tn_graph_parse(&s.diag, &s.arena, s.dims, t.s, t.n, &g), TN_E_PARSE);
  t.n = 0;
  tn_str_add(&t, "graph @f(%%x: f32[");
  for (int i = 0; i < 20000; i++) tn_str_add(&t, "(");
  tn_str_add(&t, "1");
  for (int i = 0; i < 20000; i++) tn_str_add(&t, ")");
  tn_str_add(&t, "]) { return }");
  assert_int_equal(tn_graph_parse(&s.diag, &s.arena, s.dims, t.s, t.n, &g), TN_E_PARSE);
  tn_str_deinit(&t);
  session_deinit(&s);
}

/* Faults that text cannot express. */
static void test_broken_graphs(void **state) {
  static const char text[] = "graph @f(%x: f32[2], %y: f32[2]) {\n %a: f32[2] = add %x, %y\n %b: f32[2] = neg %a\n return %b, dim 3\n}";
  session *s = *state;
#define BREAK(change, message)                                                                                                             \
  do {                                                                                                                                     \
    tn_graph *g = must_parse(s, text);                                                                                                     \
    must(s, tn_graph_verify(&s->diag, g));                                                                                                 \
    change;                                                                                                                                \
    assert_int_equal(tn_graph_verify(&s->diag, g), TN_E_VERIFY);                                                                           \
    if (!strstr(s->diag.text, message)) fail_msg("wanted %s, got %s", message, s->diag.text);                                              \
    tn_diag_clear(&s->diag);                                                                                                               \
  } while (0)
  BREAK(g->node[3].in[0].id = 0, "node 3 (add, %a): input 0 is value 0 of 4");
  BREAK(g->node[3].in[1].id = 9, "input 1 is value 9 of 4");
  BREAK(g->node[3].in[1].id = 4, "input 1 is made by node 4, which comes later");
  BREAK(g->node[3].in[1].id = 3, "input 1 is made by node 3, which comes later");
  BREAK(g->node[4].dead = true, "node 4 (neg, %b): is dead");
  BREAK(tn_graph_replace(g, (tn_ref){3}, (tn_ref){1}), "value 3 is forwarded to value 1");
  BREAK(g->node[4].op = (tn_op)5000, "node 4: op 5000 does not exist");
  BREAK(g->node[4].out = 3, "its results are values 3 to 3, expected to start at 4");
  BREAK(g->value[4].node = 3, "value 4 says it is result 0 of node 3");
  BREAK(g->value[4].node = 99, "value 4 is made by node 99 of 4");
  BREAK(g->n_values = 4, "its results are values 4 to 4");
  BREAK(g->n_nodes = 4, "value 4 is made by node 4 of 3");
  BREAK(g->value[4].type.rank = 13, "result 0 has rank 13, at most 12");
  BREAK(g->value[4].type.dtype = 77, "result 0 has dtype 77");
  BREAK(g->value[4].type.dim = NULL, "rank 1 and no dims");
  BREAK(g->node[1].input = NULL, "an input without a description");
  BREAK(g->node[4].input = g->node[1].input, "is described as an input");
  BREAK(g->node[4].target = "t", "only call and opaque have a target");
  BREAK(g->node[4].prov = 3, "source 3 of 0");
  BREAK(g->node[4].body = g, "only fused has a body");
  BREAK(g->n_inputs = 1, "graph lists 1 inputs and has 2 input nodes");
  BREAK(g->input[1] = g->input[0], "input 1 is value 1, not after input 0");
  BREAK(g->input[1].id = 3, "input 1 is value 3, which no input node makes");
  BREAK(g->output[0].ref.id = 0, "output 0 is value 0 of 4");
  BREAK(g->output[0].ref.id = 5, "output 0 is value 5 of 4");
  BREAK(g->output[1].dim = TN_DIM_BAD, "output 1 is a dim that could not be computed");
  BREAK(g->output[1].is_none = true, "output 1 is both");
  BREAK(tn_dim_sym(s->dims, "batch size"), "has the name 'batch size'");
#undef BREAK
}

static void test_broken_bodies(void **state) {
  session *s = *state;
  tn_graph *g = must_parse(s, "graph @f(%x: f32[2]) { %a: f32[2] = fused %x {kind=\"k\"} { (%p: f32[2]); yield %p }\n return %a }");
  must(s, tn_graph_verify(&s->diag, g));
  tn_graph *outer = g->node[2].body->outer;
  g->node[2].body->outer = NULL;
  assert_int_equal(tn_graph_verify(&s->diag, g), TN_E_VERIFY);
  g->node[2].body->outer = outer;
  g->node[2].body->value[1].type.dtype = TN_F16;
  assert_int_equal(tn_graph_verify(&s->diag, g), TN_E_VERIFY);
  assert_int_equal(tn_graph_verify(NULL, g), TN_E_VERIFY); /* no diagnostics wanted */
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_table), cmocka_unit_test(test_cut_text), cmocka_unit_test(test_deep),
                                     cmocka_unit_test_setup_teardown(test_broken_graphs, setup, teardown),
                                     cmocka_unit_test_setup_teardown(test_broken_bodies, setup, teardown)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

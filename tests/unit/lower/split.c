/* Splitting: what becomes a step and what a plan, by the text of the module; every allocation failing in turn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "lower/lower.h"

/* Functions as text, f[0] the model; a port for each input and output. */
typedef struct unit { tn_arena a; tn_dims *dims; tn_unit u; tn_diag d; tn_split s; tn_arena scratch; } unit;

static tn_status load(unit *x, const char *const *f, uint32_t n) {
  memset(x, 0, sizeof *x);
  tn_arena_init(&x->a);
  tn_arena_init(&x->scratch);
  x->dims = tn_dims_create();
  if (!x->dims) return TN_E_NOMEM;
  x->u = (tn_unit){.arena = &x->a, .dims = x->dims, .name = "net", .n_func = n};
  x->u.func = TN_NEW(&x->a, tn_graph *, n);
  if (!x->u.func) return TN_E_NOMEM;
  for (uint32_t i = 0; i < n; i++) TN_TRY(tn_graph_parse(&x->d, &x->a, x->dims, f[i], strlen(f[i]), &x->u.func[i]));
  x->u.n_in = x->u.func[0]->n_inputs;
  x->u.n_out = x->u.func[0]->n_outputs;
  x->u.in = TN_NEW(&x->a, tn_uport, x->u.n_in + 1);
  x->u.out = TN_NEW(&x->a, tn_uport, x->u.n_out + 1);
  if (!x->u.in || !x->u.out) return TN_E_NOMEM;
  for (uint32_t i = 0; i < x->u.n_in; i++) {
    const tn_type *t = tn_typeof(x->u.func[0], x->u.func[0]->input[i]);
    x->u.in[i] = (tn_uport){.name = "x", .elem = TN_EL_F32, .ranked = true, .rank = t->rank, .dim = t->dim};
  }
  for (uint32_t i = 0; i < x->u.n_out; i++) x->u.out[i] = (tn_uport){.name = "y", .elem = TN_EL_F32};
  return TN_OK;
}
static void unload(unit *x) {
  tn_module_destroy(x->s.module);
  tn_dims_destroy(x->dims);
  tn_arena_deinit(&x->a);
  tn_arena_deinit(&x->scratch);
}

/* The functions of the module, without its ports. */
static void expect(const char *const *f, uint32_t n, const char *want, const char *const *graphs) {
  unit x;
  tn_str s;
  tn_str_init(&s);
  if (load(&x, f, n) != TN_OK) fail_msg("%s", x.d.text);
  if (tn_split_unit(&x.d, &x.scratch, &x.u, &x.s) != TN_OK) fail_msg("%s", x.d.text);
  assert_int_equal(x.s.module->n_plan, 0);
  tn_module_print(x.s.module, &s);
  const char *at = strstr(s.s, "  func 0");
  assert_non_null(at);
  assert_string_equal(at, want);
  uint32_t k = 0;
  for (; graphs[k]; k++) {
    tn_str g;
    tn_str_init(&g);
    assert_true(k < x.s.n_graph);
    if (tn_graph_verify(&x.d, x.s.graph[k]) != TN_OK || tn_ops_verify(&x.d, x.s.graph[k]) != TN_OK) fail_msg("%s", x.d.text);
    tn_graph_print(x.s.graph[k], 0, &g);
    assert_string_equal(g.s, graphs[k]);
    tn_str_deinit(&g);
  }
  assert_int_equal(k, x.s.n_graph);
  tn_str_deinit(&s);
  unload(&x);
}

static void test_static(void **state) {
  (void)state;
  expect((const char *const[]){"graph @f(%x: f32[s0,4] input, %y: f32[4] input) -> (f32[s0,4], f32[4], dim, none) {\n"
                               "  %0: f32[s0,4] = add %x, %y\n"
                               "  %1: f32[s0,4] = mul %0, %0\n"
                               "  return %0, %y, dim 2*s0, none\n}\n"},
         1, "  func 0 \"f\" (1, 2) -> (3, 2, 4, 5), slots 5 {\n"
            "    op none () -> (5), \"none\"\n"
            "    call 0 (1, 2) -> (3, 4), \"f\"\n"
            "  }\n}\n",
         (const char *const[]){"graph @f(%x: f32[s0,4] input, %y: f32[4] input) -> (f32[s0,4], dim) {\n"
                               "  %0: f32[s0,4] = add %x, %y\n"
                               "  return %0, dim 2*s0\n}\n", NULL});
}

/* %2 is a DYN operand; the exp is passed from plan to plan, so is the sum of it; the view of x and the fill are made where they are read. */
static void test_cut(void **state) {
  (void)state;
  expect((const char *const[]){"graph @f(%x: f32[4,4] input, %n: i64[1] input) -> (f32[u0], f32[4,4], f32[16]) {\n"
                               "  %0: f32[16] = reshape %x {shape=[16]}\n"
                               "  %1: i64[] = const {data=\"0100000000000000\"}\n"
                               "  %2: i64[1] = add %n, %1\n"
                               "  %3: i64[1] = dyn sizes %2 {syms=[u0], lo=1}\n"
                               "  %4: f32[4,4] = exp %x\n"
                               "  %5: f32[u0] = full {shape=[u0], value=2.0, dtype=f32}\n"
                               "  %6: f32[] = reduce %4 {combiner=\"sum\", dims=[0, 1], keepdim=false}\n"
                               "  %7: f32[u0] = mul %5, %6\n"
                               "  %8: f32[u0] = sqrt %7\n"
                               "  %9: f32[1] = slice %0 {dim=0, start=[0], size=[1], step=1}\n"
                               "  %10: f32[u0] = add %8, %9\n"
                               "  return %10, %4, %0\n}\n"},
         1, "  func 0 \"f\" (1, 2) -> (5, 6, 7), slots 8 {\n"
            "    call 0 (2, 1) -> (4, 6, 7, 8), \"f.1\"\n"
            "    op sizes (4) -> (3), attr \"lo\" 1, \"sizes\"\n"
            "    call 1 (8, 1, 3 item 0) -> (5), \"f.2\"\n"
            "  }\n}\n",
         (const char *const[]){"graph @f.1(%n: i64[1] input, %x: f32[4,4] input) -> (i64[1], f32[4,4], f32[16], f32[]) {\n"
                               "  %0: i64[] = const {data=\"0100000000000000\"}\n"
                               "  %1: i64[1] = add %n, %0\n"
                               "  %2: f32[4,4] = exp %x\n"
                               "  %3: f32[16] = reshape %x {shape=[16]}\n"
                               "  %4: f32[] = reduce %2 {combiner=\"sum\", dims=[0, 1], keepdim=false}\n"
                               "  return %1, %2, %3, %4\n}\n",
                               "graph @f.2(%0: f32[] input, %x: f32[4,4] input, %u0: i64[] sym(u0)) -> (f32[u0]) {\n"
                               "  %1: f32[u0] = full {shape=[u0], value=2.0, dtype=f32}\n"
                               "  %2: f32[u0] = mul %1, %0\n"
                               "  %3: f32[u0] = sqrt %2\n"
                               "  %4: f32[16] = reshape %x {shape=[16]}\n"
                               "  %5: f32[1] = slice %4 {dim=0, start=[0], size=[1], step=1}\n"
                               "  %6: f32[u0] = add %3, %5\n"
                               "  return %6\n}\n", NULL});
}

/* The branches need s0 of the caller: one more operand. The loop's body reads a capture. What the other DYN nodes make is not wanted. */
static const char *const nested[] = {
    "graph @f(%x: f32[s0] input, %c: bool[] input, %t: i64[] input) -> (f32[u0], f32[s0]) {\n"
    "  %0: f32[u0] = dyn if %c, %x {then=2, else=1}\n"
    "  %1: bool[] = full {shape=[], value=1, dtype=bool}\n"
    "  %2: f32[s0], %3: f32[u1,s0] = dyn loop %t, %1, %x, %x {body=3, carried=1, scans=1, scan_shape=[s0, 4], effect=true}\n"
    "  %4: obj[] = dyn none\n"
    "  return %0, %2\n}\n",
    "graph @else(%y: f32[u5] input) -> (f32[u5]) {\n"
    "  return %y\n}\n",
    "graph @then(%y: f32[2*s0] input) -> (f32[s0]) {\n"
    "  %0: f32[s0] = slice %y {dim=0, start=[0], size=[s0], step=1}\n"
    "  return %0\n}\n",
    "graph @body(%i: i64[] input, %go: bool[] input, %v: f32[s0] input, %w: f32[s0] input) -> (bool[], f32[s0], f32[s0]) {\n"
    "  %0: f32[s0] = add %v, %w\n"
    "  return %go, %0, %w\n}\n"};

static void test_functions(void **state) {
  (void)state;
  expect(nested, 4,
         "  func 0 \"f\" (1, 2, 3) -> (4, 5), slots 6 {\n"
         "    branch 1 2 (2, 1, 1 dim 0) -> (4), \"if\"\n"
         "    call 0 () -> (6), \"f\"\n"
         "    loop 3 (3, 6, 1, 1) -> (5, 0), carried 1, scans 1, attr \"scan_shape\" ints [-1, 4], \"loop\"\n"
         "  }\n"
         "  func 1 \"then\" (1, 2) -> (3), slots 3 {\n"
         "    call 1 (1, 2) -> (3), \"then\"\n"
         "  }\n"
         "  func 2 \"else\" (1, 2) -> (1), slots 2 {\n"
         "  }\n"
         "  func 3 \"body\" (1, 2, 3, 4) -> (2, 5, 4), slots 5 {\n"
         "    call 2 (3, 4) -> (5), \"body\"\n"
         "  }\n}\n",
         (const char *const[]){"graph @f() -> (bool[]) {\n  %0: bool[] = full {shape=[], value=1, dtype=bool}\n  return %0\n}\n",
                               "graph @then(%y: f32[2*s0] input, %s0: i64[] sym(s0)) -> (f32[s0]) {\n"
                               "  %0: f32[s0] = slice %y {dim=0, start=[0], size=[s0], step=1}\n"
                               "  return %0\n}\n",
                               "graph @body(%v: f32[s0] input, %w: f32[s0] input) -> (f32[s0]) {\n"
                               "  %0: f32[s0] = add %v, %w\n"
                               "  return %0\n}\n", NULL});
}

static void test_refused(void **state) {
  (void)state;
  static const struct { const char *f[2]; tn_status st; const char *say; } t[] = {
      {{"graph @f(%x: f32[2*s0] input) -> (f32[s0]) {\n  %0: f32[s0] = slice %x {dim=0, start=[0], size=[s0], step=1}\n  return %0\n}\n", "graph @g() -> () {\n  return\n}\n"},
       TN_E_UNSUPPORTED, "the size s0 is needed, but no input or result has exactly this size"},
      {{"graph @f(%x: bool[] input) -> (f32[]) {\n  %0: f32[] = dyn if %x {then=1, else=2}\n  return %0\n}\n", "graph @g() -> () {\n  return\n}\n"},
       TN_E_VERIFY, "node 2 (if) of function 'f' names function 2 of 2"},
      {{"graph @f(%x: bool[] input) -> () {\n  %0: f32[] = dyn if %x {then=1, else=1}\n  return\n}\n",
        "graph @g(%x: bool[] input) -> () {\n  %0: f32[] = dyn if %x {then=1, else=1}\n  return\n}\n"}, TN_E_VERIFY, "function 'g' contains itself"},
      {{"graph @f(%x: f32[] input) -> (f32[]) {\n  %0: f32[] = dyn thing %x\n  return %0\n}\n", "graph @g() -> () {\n  return\n}\n"},
       TN_E_UNSUPPORTED, "'thing' in 'f' is no dynamic operator"},
      {{"graph @f(%x: f32[] input) -> (f32[]) {\n  %0: f32[] = call aten.relu.default %x\n  return %0\n}\n", "graph @g() -> () {\n  return\n}\n"},
       TN_E_VERIFY, "node 2 (call aten.relu.default) in a model"},
  };
  for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
    unit x;
    if (load(&x, t[i].f, 2) != TN_OK) fail_msg("case %zu: %s", i, x.d.text);
    assert_int_equal(tn_split_unit(&x.d, &x.scratch, &x.u, &x.s), t[i].st);
    if (!strstr(x.d.text, t[i].say)) fail_msg("case %zu: %s", i, x.d.text);
    unload(&x);
  }
}

static void test_nomem(void **state) {
  (void)state;
  int64_t n = 1;
  for (bool done = false; !done; n++) {
    unit x;
    assert_int_equal(load(&x, nested, 4), TN_OK);
    tn_malloc_fail_after(n);
    tn_status st = tn_split_unit(&x.d, &x.scratch, &x.u, &x.s);
    tn_malloc_fail_after(0);
    assert_true(st == TN_OK || st == TN_E_NOMEM);
    done = st == TN_OK;
    unload(&x);
  }
  assert_true(n > 4);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_static), cmocka_unit_test(test_cut), cmocka_unit_test(test_functions), cmocka_unit_test(test_refused),
                                     cmocka_unit_test(test_nomem)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Modules: text that reads back to itself, one broken module per rule of the verifier, every allocation failing once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "plan/module.h"

#define PLAN \
  "plan \"double\" {\n  sym s0, range 0..max, input 0 dim 0\n  in 0 f32[s0], strides any, \"x\"\n  buf 0 input 0\n  buf 1 output 0\n" \
  "  view 0 buf 0, f32[s0], strides any\n  view 1 buf 1, f32[s0], strides [1]\n  step 0 lib copy (0) -> (1)\n  out 0 view 1\n}\n"

static const char text[] =
    "module \"net \\\"1\\\"\" {\n"
    "  meta \"producer\" \"by hand\\x0aon two lines\"\n"
    "  in 0 tensor f32 [\"N\", ?, 7, \"M\" 3], \"x\"\n"
    "  in 1 map f32 any key string, \"m\"\n"
    "  in 2 tensor i64 [], \"\"\n"
    "  out 0 optional_sequence f8e4m3fn any, \"y\"\n"
    "  func 0 \"main\" (1, 2, 3) -> (4, 1), slots 8 {\n"
    "    call 0 (1) -> (4), \"node 'mul' of net.onnx\"\n"
    "    op sizes (3) -> (5), attr \"lo\" 1, attr \"f\" 1.5, attr \"g\" floats [-1.0, inf, nan], attr \"s\" \"a\\x00b\", attr \"t\" strs [\"a\", \"\"], attr \"none\" ints []\n"
    "    branch 1 1 (3 item 0, 1) -> (6)\n"
    "    loop 2 (1 dim 0, 3, 1, 4) -> (7, 8), carried 1, scans 1, attr \"scan_elem\" ints [1, -9223372036854775808]\n"
    "  }\n"
    "  func 1 \"then\" (1) -> (1), slots 1 {\n"
    "  }\n"
    "  func 2 \"body\" (1, 2, 3, 4) -> (2, 3, 5), slots 5 {\n"
    "    op none () -> (0), \"not wanted\"\n"
    "    call 0 (4) -> (5)\n"
    "  }\n"
    "}\n" PLAN PLAN;

static tn_module *parsed(const char *s) {
  tn_diag d;
  tn_module *m;
  if (tn_module_parse(&d, s, strlen(s), &m) != TN_OK) fail_msg("%s", d.text);
  return m;
}

static void test_round(void **state) {
  (void)state;
  tn_module *m = parsed(text), *again;
  tn_str s;
  tn_str_init(&s);
  tn_module_print(m, &s);
  assert_string_equal(s.s, text);
  again = parsed(s.s);
  assert_int_equal(again->n_plan, 2);
  assert_int_equal(again->in[0].rank, 4);
  assert_int_equal(again->in[0].dim[0], -1);
  assert_string_equal(again->in[0].dim_name[0], "N");
  assert_null(again->in[0].dim_name[1]);
  assert_int_equal(again->in[0].dim[3], 3);
  assert_int_equal(again->in[1].rank, -1);
  assert_int_equal(again->in[1].key_elem, TN_EL_STRING);
  const tn_mstep *op = &again->func[0].step[1];
  const tn_mattr *a = tn_mattr_get(op, "s");
  assert_int_equal(a->kind, TN_MA_STR);
  assert_int_equal(a->u.s[0].n, 3);
  assert_memory_equal(a->u.s[0].s, "a\0b", 4);
  assert_true(tn_mattr_get(op, "f")->u.f[0] == 1.5);
  assert_int_equal(tn_mattr_get(op, "lo")->u.i[0], 1);
  assert_int_equal(tn_mattr_get(op, "none")->n, 0);
  assert_null(tn_mattr_get(op, "absent"));
  assert_int_equal(tn_mattr_get(&again->func[0].step[3], "scan_elem")->u.i[1], INT64_MIN);
  tn_str_deinit(&s);
  tn_module_destroy(m);
  tn_module_destroy(again);
}

/* func 0, its ports and what is around are given; each text breaks one rule. */
static void test_rules(void **state) {
  (void)state;
  static const struct { const char *ports, *funcs, *say; } t[] = {
      {"", "func 0 \"f\" () -> (), slots 0 { }", NULL},
      {"in 0 tensor f32 any, \"x\" out 0 tensor f32 any, \"y\"", "func 0 \"f\" (1) -> (1), slots 1 { }", NULL},
      {"in 0 tensor f32 any, \"x\"", "func 0 \"f\" () -> (), slots 0 { }", "its function takes 0 and gives 0 values, its ports are 1 and 0"},
      {"", "", "it has no functions"},
      {"", "func 0 \"f\" () -> (), slots 4000000 { }", "it has 4000000 slots, but only 0 things write one"},
      {"in 0 tensor f32 any, \"x\"", "func 0 \"f\" (2) -> (), slots 1 { }", "input 0 writes slot 2 of 1"},
      {"in 0 tensor f32 any, \"x\" in 1 tensor f32 any, \"x\"", "func 0 \"f\" (1, 1) -> (), slots 1 { }", "input 1 writes slot 1, which is written already"},
      {"out 0 tensor f32 any, \"y\"", "func 0 \"f\" () -> (1), slots 1 { op none () -> (0) }", "output 0 reads slot 1 before it is written"},
      {"out 0 tensor f32 any, \"y\"", "func 0 \"f\" () -> (0), slots 0 { }", "output 0 reads slot 0 of 0"},
      {"", "func 0 \"f\" () -> (), slots 2 { op identity (2) -> (1) op none () -> (2) }", "step 0 reads slot 2 before it is written"},
      {"", "func 0 \"f\" () -> (), slots 1 { op none () -> (1) op none () -> (1) }", "step 1 writes slot 1, which is written already"},
      {"", "func 0 \"f\" () -> (), slots 1 { op none () -> (1) op identity (1, 1) -> (0) }", "step 1 is identity with 2 inputs and 1 results"},
      {"", "func 0 \"f\" () -> (), slots 1 { op none () -> (1) op identity () -> (0) }", "step 1 is identity with 0 inputs"},
      {"", "func 0 \"f\" () -> (), slots 1 { op none () -> (1, 0) }", "step 0 is none with 0 inputs and 2 results"},
      {"", "func 0 \"f\" () -> (), slots 0 { call 1 () -> () }", "step 0 calls plan 1 of 1"},
      {"", "func 0 \"f\" () -> (), slots 0 { call 0 () -> (0) }", "step 0 calls plan 'double' with 0 inputs and 1 results; it has 1 and 1"},
      {"", "func 0 \"f\" () -> (), slots 1 { op none () -> (1) branch 1 1 (1) -> () }", "step 1 branches to function 1 of 1"},
      {"", "func 0 \"f\" () -> (), slots 1 { op none () -> (1) branch 1 1 (1, 1) -> () } func 1 \"g\" () -> (), slots 0 { }", "step 1 branches to function 1 with 2 operands and 0 results; it takes 0"},
      {"", "func 0 \"f\" () -> (), slots 1 { op none () -> (1) loop 1 (1, 1) -> () } func 1 \"g\" (1, 2) -> (), slots 2 { }", "step 1 loops over function 1 with 2 operands"},
      {"", "func 0 \"f\" () -> (), slots 1 { op none () -> (1) loop 1 (1, 1) -> (), carried 1 } func 1 \"g\" (1, 2) -> (1), slots 2 { }", "step 1 loops over function 1"},
      {"", "func 0 \"f\" () -> (), slots 1 { op none () -> (1) loop 1 (1, 1) -> () } func 1 \"g\" (1, 2) -> (2), slots 2 { }", NULL},
      {"", "func 0 \"f\" () -> (), slots 1 { op none () -> (1) loop 0 (1, 1) -> () }", "step 1 loops over function 0 with 2 operands"},
      {"", "func 0 \"f\" () -> (), slots 1 { op none () -> (1) branch 0 0 (1) -> () }", "function 0 calls itself"},
      {"", "func 0 \"f\" () -> (), slots 0 { op none () -> (0), attr \"\" 1 }", "attribute 0 of step 0 has no name"},
  };
  for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
    tn_str s;
    tn_diag d = {0};
    tn_str_init(&s);
    tn_str_add(&s, "module \"m\" { %s %s }\n%s", t[i].ports, t[i].funcs, PLAN);
    tn_module *m = parsed(s.s);
    tn_status st = tn_module_verify(&d, m);
    if (st != (t[i].say ? TN_E_VERIFY : TN_OK) || (t[i].say && !strstr(d.text, t[i].say))) fail_msg("case %zu: %s '%s', wanted '%s'", i, tn_status_name(st), d.text, t[i].say ? t[i].say : "");
    tn_module_destroy(m);
    tn_str_deinit(&s);
  }
}

static void test_plans(void **state) {
  (void)state;
  static const struct { const char *plan, *say; } t[] = {
      {"plan \"p\" {\n  hosts 1\n}\n", "makes host calls"},
      {"plan \"p\" {\n  in 0 f32[4], strides [1]\n  buf 0 input 0\n  view 0 buf 0, f32[4], strides [1]\n  step 0 lib copy (0) -> (0)\n}\n", "writes an input or a constant"},
      {"plan \"p\" {\n  in 0 f32[4], strides [1]\n  buf 0 packed, bytes 16, from 0\n}\n", "keeps a packed copy of an input"},
      {"plan \"p\" {\n  out 0 view 3\n}\n", "output 0 is view 3 of 0"},
  };
  for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
    tn_str s;
    tn_diag d = {0};
    tn_str_init(&s);
    tn_str_add(&s, "module \"m\" { func 0 \"f\" () -> (), slots 0 { } }\n%s", t[i].plan);
    tn_module *m = parsed(s.s);
    assert_int_equal(tn_module_verify(&d, m), TN_E_VERIFY);
    if (!strstr(d.text, t[i].say)) fail_msg("'%s', wanted '%s'", d.text, t[i].say);
    tn_module_destroy(m);
    tn_str_deinit(&s);
  }
}

/* 64 functions in a row are fine, one more is not. */
static void test_depth(void **state) {
  (void)state;
  for (int n = TN_MODULE_MAX_DEPTH; n <= TN_MODULE_MAX_DEPTH + 1; n++)
    for (int backwards = 0; backwards < 2; backwards++) {
      tn_str s;
      tn_diag d = {0};
      tn_str_init(&s);
      tn_str_add(&s, "module \"m\" {\n");
      for (int f = 0; f < n; f++) {
        int next = backwards ? f - 1 : f + 1;
        tn_str_add(&s, "func %d \"f\" () -> (), slots 1 { op none () -> (1)", f);
        if (next >= 0 && next < n) tn_str_add(&s, " branch %d %d (1) -> ()", next, next);
        tn_str_add(&s, " }\n");
      }
      tn_str_add(&s, "}\n");
      tn_module *m = parsed(s.s);
      tn_status st = tn_module_verify(&d, m);
      assert_int_equal(st, n > TN_MODULE_MAX_DEPTH ? TN_E_VERIFY : TN_OK);
      if (st != TN_OK) assert_non_null(strstr(d.text, "nested more than 64 deep"));
      tn_module_destroy(m);
      tn_str_deinit(&s);
    }
}

static void test_malformed(void **state) {
  (void)state;
  tn_diag d;
  tn_module *m;
  for (size_t n = 0; n < sizeof text - 1; n++) /* every prefix: an error or a whole module, nothing else */
    if (tn_module_parse(&d, text, n, &m) == TN_OK) {
      assert_true(n >= strlen(text) - 2 * strlen(PLAN) - 1);
      tn_module_destroy(m);
    } else {
      assert_int_equal(d.code, TN_E_PARSE);
      assert_null(m);
    }
  static const struct { const char *s, *say; } t[] = {
      {"module \"m\" { func 1 \"f\" () -> (), slots 0 { } }", "wanted the next number in order"},
      {"module \"m\" { in 0 tensor f31 any, \"x\" }", "wanted an element type, found 'f31"},
      {"module \"m\" { in 0 tensor f32 [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1], \"x\" }", "wanted at most 16 dims"},
      {"module \"m\" { in 0 tensor f32 [9223372036854775808], \"x\" }", "wanted a number in range"},
      {"module \"m\" { in 0 tensor f32 [-1], \"x\" }", "wanted a number in range"},
      {"module \"m\" { meta \"a\\x00b\" \"\" }", "wanted text without zero bytes"},
      {"module \"m\" { func 0 \"f\" () -> (), slots 0 { op nonesuch () -> () } }", "wanted a dynamic operator"},
      {"module \"m\" { func 0 \"f\" () -> (), slots 0 { op none () -> (), attr \"a\" ints [1, 2.0] } }", "wanted items of the list's kind"},
      {"module \"m\" { func 0 \"f\" () -> (), slots 0 { op none () -> (), attr \"a\" 1.2.3 } }", "wanted a number"},
  };
  for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
    assert_int_equal(tn_module_parse(&d, t[i].s, strlen(t[i].s), &m), TN_E_PARSE);
    if (!strstr(d.text, t[i].say)) fail_msg("'%s', wanted '%s'", d.text, t[i].say);
  }
}

static void test_nomem(void **state) {
  (void)state;
  tn_diag d;
  for (int64_t n = 1;; n++) {
    tn_module *m;
    tn_malloc_fail_after(n);
    tn_status st = tn_module_parse(&d, text, sizeof text - 1, &m);
    if (st == TN_OK) {
      tn_status v = tn_module_verify(&d, m);
      tn_malloc_fail_after(0);
      assert_true(v == TN_E_NOMEM || v == TN_E_VERIFY); /* the text breaks a rule: two outputs, one port */
      tn_module_destroy(m);
      if (v == TN_E_VERIFY) break;
      continue;
    }
    tn_malloc_fail_after(0);
    assert_null(m);
    if (st != TN_E_NOMEM && !strstr(d.text, "plan size")) fail_msg("%s", d.text); /* dims tell lack of memory as an overflow */
    assert_true(n < 10000);
  }
}

static void test_tables(void **state) {
  (void)state;
  uint32_t v;
  tn_dtype t;
  for (uint32_t i = 0; i < TN_N_DYNS; i++) {
    assert_true(tn_dyn_find(tn_dyn_get(i)->text, strlen(tn_dyn_get(i)->text), &v));
    assert_int_equal(v, i);
  }
  assert_null(tn_dyn_get(TN_N_DYNS));
  for (uint32_t e = 0; e < 64; e++)
    if (tn_elem_name(e)) {
      assert_true(tn_elem_parse(tn_elem_name(e), strlen(tn_elem_name(e)), &v));
      assert_int_equal(v, e);
    }
  for (int k = 0; k < TN_N_DTYPES; k++)
    if (k != TN_OBJ) {
      assert_true(tn_elem_dtype(tn_elem_of_dtype((tn_dtype)k), &t));
      assert_int_equal(t, k);
    }
  assert_false(tn_elem_dtype(TN_EL_STRING, &t));
  assert_false(tn_elem_dtype(14, &t)); /* complex64 */
  assert_false(tn_elem_dtype(1000, &t));
  assert_true(tn_elem_dtype(TN_EL_I4, &t) && t == TN_I8);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_round), cmocka_unit_test(test_rules), cmocka_unit_test(test_plans), cmocka_unit_test(test_depth),
                                     cmocka_unit_test(test_malformed), cmocka_unit_test(test_nomem), cmocka_unit_test(test_tables)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

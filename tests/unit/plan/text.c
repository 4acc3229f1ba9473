/* Plan text: print -> parse -> print is the identity, form errors say where, the verifier says what. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "plan/plan.h"

/* Every kind of line and clause. */
static const char whole[] =
    "plan \"all \\\"of\\\" it\\x0a\" {\n"
    "  sym s0, range 2..1024, input 0 dim 0\n"
    "  sym n, range 0..max, input 2 value\n"
    "  assume floordiv(s0, 2), equals 4*n, \"Reshape \\\"r\\\"\"\n"
    "  assume s0, equals 8\n"
    "  in 0 f32[s0, 64], strides [64, 1], \"x\"\n"
    "  in 1 f32[64, 32], strides [32, 1]\n"
    "  in 2 i64[], strides []\n"
    "  in 3 bf16[4*s0 + 1, n], strides any, \"any\"\n"
    "  buf 0 input 0\n"
    "  buf 1 input 1\n"
    "  buf 2 input 3\n"
    "  buf 3 output 0\n"
    "  buf 4 arena, bytes 256*s0, steps 1..3\n"
    "  buf 5 const, bytes 8, data x0000803f00000040\n"
    "  buf 6 const, bytes 4096, hash 0123456789abcdef\n"
    "  buf 7 packed, bytes 8192, from 1\n"
    "  view 0 buf 0, f32[s0, 64], strides [64, 1], \"x\"\n"
    "  view 1 buf 1, f32[64, 32], strides [32, 1]\n"
    "  view 2 buf 7, f32[32, 64], strides [64, 1], \"packed\"\n"
    "  view 3 buf 4, f32[floordiv(s0, 2), 64], strides [128, 1], offset 64*mod(s0, 2)\n"
    "  view 4 buf 3, f32[s0, 32], strides [32, 1]\n"
    "  view 5 buf 2, bf16[4*s0 + 1, n], strides any\n"
    "  view 6 buf 4, f32[s0, 64], strides [-64, 1], offset 64*s0 - 64\n"
    "  kernel 0 \"tn_pack_0\", params 2, sizes 0, object 1234, hash 00000000000000ff\n"
    "  kernel 1 \"tn_mm_1\", params 3, sizes 2, object 99, hash 8000000000000000\n"
    "  hosts 1\n"
    "  step 0 launch 0 (1, 2), blocks 64, grain 8, pack, prov 7, \"tn_pack_0(w)\"\n"
    "  step 1 launch 1 (0, 2, 3), sizes [s0, 64*s0], blocks s0, grain 1, scratch 1024, work 128*s0, prov 8\n"
    "  step 2 lib sort (3) -> (6, 3), params [-1, 1]\n"
    "  step 3 host 0 (5, 3) -> (4), \"aten.thing.default(buf1)\"\n"
    "  step 4 view (4)\n"
    "  out 0 view 4\n"
    "  out 1 none\n"
    "  out 2 dim 4*s0 + 1\n"
    "  out 3 view 0, alias 0\n"
    "}\n";

static tn_status parse(tn_diag *d, const char *text, tn_plan **p) {
  tn_diag_clear(d);
  return tn_plan_parse(d, text, strlen(text), p);
}

static void test_identity(void **state) {
  (void)state;
  tn_diag d;
  tn_plan *p;
  if (parse(&d, whole, &p) != TN_OK) fail_msg("%s", d.text);
  tn_str s;
  tn_str_init(&s);
  tn_plan_print(p, &s);
  assert_false(s.oom);
  assert_string_equal(s.s, whole);
  if (tn_plan_verify(&d, p) != TN_OK) fail_msg("%s", d.text);
  assert_int_equal(p->n_expr, 12); /* equal expressions are one */
  assert_int_equal(((const unsigned char *)p->buf[5].data)[3], 0x3f);
  assert_int_equal((uintptr_t)p->buf[5].data % 64, 0);
  tn_str_deinit(&s);
  tn_plan_destroy(p);
}

/* Found by the fuzzer, and other corners of the form. */
static void test_corners(void **state) {
  (void)state;
  static const char *const text[] = {
      "plan \"\" {\n}\n",
      "plan \"p\" {\n  sym s0, range max..max, input 0 dim 0\n  in 0 f32[s0], strides any, \"\"\n}\n",
      "plan \"p\" {\n  buf 0 const, bytes 0, data x\n  view 0 buf 0, f32[], strides []\n  out 0 view 0\n}\n",
  };
  for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
    tn_diag d;
    tn_plan *p;
    tn_str s;
    tn_str_init(&s);
    if (parse(&d, text[i], &p) != TN_OK) fail_msg("%s", d.text);
    tn_plan_print(p, &s);
    assert_string_equal(s.s, text[i]);
    tn_str_deinit(&s);
    tn_plan_destroy(p);
  }
}

/* The example of docs/plan.md is a plan. */
static void test_document(void **state) {
  (void)state;
  tn_diag d;
  tn_plan *p;
  char *doc, text[4096];
  size_t n, k = 0;
  if (tn_file_read(&d, TN_SOURCE_DIR "/docs/plan.md", 1 << 20, &doc, &n) != TN_OK) fail_msg("%s", d.text);
  for (const char *line = strstr(doc, "    plan \"toy\""); line && memcmp(line, "    ", 4) == 0;) {
    const char *end = strchr(line, '\n') + 1;
    assert_true(k + (size_t)(end - line) < sizeof text);
    memcpy(text + k, line + 4, (size_t)(end - line) - 4);
    k += (size_t)(end - line) - 4;
    line = end;
  }
  text[k] = 0;
  if (parse(&d, text, &p) != TN_OK || tn_plan_verify(&d, p) != TN_OK) fail_msg("%s", d.text);
  tn_str s;
  tn_str_init(&s);
  tn_plan_print(p, &s);
  assert_string_equal(s.s, text);
  tn_str_deinit(&s);
  tn_plan_destroy(p);
  tn_free(doc);
}

static void test_eval(void **state) {
  (void)state;
  tn_diag d;
  tn_plan *p;
  assert_int_equal(parse(&d, whole, &p), TN_OK);
  int64_t sym[2] = {10, 3}, v[32];
  assert_int_equal(tn_plan_eval(&d, p, sym, v), TN_OK);
  assert_int_equal(tn_pd(v, p->buf[4].bytes), 2560);
  assert_int_equal(tn_pd(v, p->view[6].offset), 576);
  assert_int_equal(tn_pd(v, p->view[6].stride[0]), -64);
  assert_int_equal(tn_pd(v, p->out[2].dim), 41);
  sym[0] = INT64_MAX / 2;
  assert_int_equal(tn_plan_eval(&d, p, sym, v), TN_E_ARG);
  assert_non_null(strstr(d.text, "overflows"));
  assert_non_null(strstr(d.text, "s0 is 4611686018427387903"));
  tn_plan_destroy(p);
}

/* One edit of the text each; the message must hold the words. */
static void test_form_errors(void **state) {
  (void)state;
  static const struct { const char *from, *to, *say; } t[] = {
      {"plan ", "plane ", "wanted 'plan'"},
      {"input 0 dim 0", "input 0 dam 0", "line 2"},
      {"range 2..1024", "range 9..3", "range that is not empty"},
      {"sym n,", "sym s0,", "new symbol"},
      {"in 1 f32", "in 2 f32", "next number in order"},
      {"f32[64, 32], strides [32, 1]\n", "f33[64, 32], strides [32, 1]\n", "dtype"},
      {"strides [32, 1]\n", "strides [32]\n", "one stride per dim"},
      {"f32[s0, 64], strides [64, 1], \"x\"\n  in 1", "f32[s7, 64], strides [64, 1], \"x\"\n  in 1", "declared symbols"},
      {"buf 3 output 0", "buf 3 outpost 0", "kind of buffer"},
      {"data x0000803f00000040", "data x0000803f0000004", "two hexadecimal digits"},
      {"bytes 8, data", "bytes 9999999, data", "at most 64 bytes"},
      {"hash 0123456789abcdef", "hash 0123", "16 hexadecimal digits"},
      {"lib sort", "lib short", "library call"},
      {"pack, prov", "puck, prov", "clause"},
      {"prov 8\n", "prov 8 9\n", "end of the line"},
      {"prov 8\n", "prov 99999999999\n", "below 2^31"},
      {"object 99,", "object 99999999999999999999,", "below 2^63"},
      {"\\x0a", "\\q", "escape"},
      {"}\n", "", "'}'"},
      {"}\n", "}\nx", "end of the text"},
      {"bytes 256*s0", "bytes 256*", "reading the plan size"},
  };
  for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
    char text[8192];
    const char *at = strstr(whole, t[i].from);
    assert_non_null(at);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - whole), whole, t[i].to, at + strlen(t[i].from));
    tn_diag d;
    tn_plan *p;
    assert_int_equal(parse(&d, text, &p), TN_E_PARSE);
    assert_null(p);
    if (!strstr(d.text, t[i].say)) fail_msg("case %zu: '%s' does not say '%s'", i, d.text, t[i].say);
  }
}

static void test_rules(void **state) {
  (void)state;
  static const struct { const char *from, *to, *say; } t[] = {
      {"input 0 dim 0", "input 9 dim 0", "bound from input 9 of 4"},
      {"input 0 dim 0", "input 0 dim 2", "has rank 2"},
      {"input 2 value", "input 0 value", "no integer scalar"},
      {"buf 0 input 0", "buf 0 input 4", "input 4 of 4"},
      {"buf 3 output 0", "buf 3 output 4", "output 4 of 4"},
      {"buf 3 output 0", "buf 3 output 1", "whose own view is elsewhere"},
      {"steps 1..3", "steps 2..3", "step 1 uses buffer 4, which lives in steps 2..3"},
      {"steps 1..3", "steps 1..9", "lives in steps 1..9 of 5"},
      {"bytes 8192, from 1", "bytes 8192, from 7", "input 7 of 4"},
      {"view 4 buf 3", "view 4 buf 8", "buffer 8 of 8"},
      {"f32[32, 64], strides [64, 1], \"packed\"", "f32[33, 64], strides [64, 1], \"packed\"", "view 2 reaches element 2112 of 4 bytes"},
      {"f32[32, 64], strides [64, 1], \"packed\"", "f32[4611686018427387904, 64], strides [64, 1], \"packed\"", "view 2 reaches"},
      {"view 1 buf 1, f32[64, 32], strides [32, 1]", "view 1 buf 4, f32[64, 32], strides any", "takes its caller's strides"},
      {"launch 1 (0, 2, 3)", "launch 1 (0, 2, 5)", "no planned strides"},
      {"launch 1 (0, 2, 3)", "launch 2 (0, 2, 3)", "kernel 2 of 2"},
      {"launch 1 (0, 2, 3)", "launch 1 (0, 2)", "which has 3 and 2"},
      {"launch 1 (0, 2, 3)", "launch 1 (0, 2, 77)", "view 77"},
      {"sizes [s0, 64*s0]", "sizes [s0]", "which has 3 and 2"},
      {"(1, 2), blocks 64", "(1, 1), blocks 64", "no packed buffer"},
      {"lib sort (3) -> (6, 3)", "lib sort (3) -> (6)", "1 results"},
      {"host 0 (5", "host 1 (5", "host call 1 of 1"},
      {"out 0 view 4", "out 0 view 7", "view 7 of 7"},
      {"alias 0", "alias 1", "another buffer"},
      {"strides [32, 1]\n  view 5", "strides [32, 1], offset 4\n  view 5", "starts inside"},
  };
  for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
    char text[8192];
    const char *at = strstr(whole, t[i].from);
    assert_non_null(at);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - whole), whole, t[i].to, at + strlen(t[i].from));
    tn_diag d;
    tn_plan *p;
    if (parse(&d, text, &p) != TN_OK) fail_msg("case %zu: %s", i, d.text);
    assert_int_equal(tn_plan_verify(&d, p), TN_E_VERIFY);
    if (!strstr(d.text, t[i].say)) fail_msg("case %zu: '%s' does not say '%s'", i, d.text, t[i].say);
    tn_plan_destroy(p);
  }
}

/* Programs of expressions come from packages too: broken ones must be refused. */
static void test_programs(void **state) {
  (void)state;
  tn_dim_code deep[TN_DIM_STACK + 2];
  for (int i = 0; i < TN_DIM_STACK + 2; i++) deep[i] = (tn_dim_code){'c', 1};
  struct { tn_dim_code code[4]; tn_dim_code *p; uint32_t n; const char *say; } t[] = {
      {{{'s', 2}}, NULL, 1, "symbol 2 of 2"},      {{{'s', -1}}, NULL, 1, "symbol -1"}, {{{'+', 0}}, NULL, 1, "misses an operand"},
      {{{'c', 1}, {'c', 2}}, NULL, 2, "leaves 2"}, {{{'x', 1}}, NULL, 1, "unknown"},    {{{0, 0}}, NULL, 1, "unknown"},
      {{{0, 0}}, NULL, 0, "leaves 0"},             {{{0, 0}}, deep, TN_DIM_STACK + 2, "too deep"}};
  tn_diag d;
  tn_plan *p;
  assert_int_equal(parse(&d, whole, &p), TN_OK);
  for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
    tn_pexpr keep = p->expr[0];
    p->expr[0].code = t[i].p ? t[i].p : t[i].code;
    p->expr[0].n = t[i].n;
    assert_int_equal(tn_plan_verify(&d, p), TN_E_VERIFY);
    if (!strstr(d.text, t[i].say)) fail_msg("case %zu: '%s' does not say '%s'", i, d.text, t[i].say);
    p->expr[0] = keep;
  }
  p->out[2].dim = ~(tn_pdim)p->n_expr;
  assert_int_equal(tn_plan_verify(&d, p), TN_E_VERIFY);
  tn_plan_destroy(p);
}

/* Expressions enter through tn_plan_dim one by one; the list grows past its first rooms. */
static void test_many_expressions(void **state) {
  (void)state;
  tn_diag d;
  tn_plan *p;
  tn_dims *t = tn_dims_create();
  assert_int_equal(tn_plan_create("many", &p), TN_OK);
  tn_dim s0 = tn_dim_sym(t, "s0");
  for (int64_t i = 0; i < 100; i++)
    for (int twice = 0; twice < 2; twice++) {
      tn_pdim v;
      assert_int_equal(tn_plan_dim(&d, p, t, tn_dim_add(t, s0, i), &v), TN_OK);
      assert_int_equal(v, ~i);
    }
  assert_int_equal(p->n_expr, 100);
  assert_string_equal(p->expr[99].text, "s0 + 99");
  char b[24];
  assert_string_equal(tn_plan_dim_text(p, 12, b), "12");
  tn_dims_destroy(t);
  tn_plan_destroy(p);
}

/* Every allocation of parse and print fails once. */
static void test_nomem(void **state) {
  (void)state;
  tn_diag d;
  tn_plan *p;
  for (int64_t n = 1;; n++) {
    tn_malloc_fail_after(n);
    tn_status st = parse(&d, whole, &p);
    if (st == TN_OK) {
      tn_str s;
      tn_str_init(&s);
      tn_plan_print(p, &s);
      bool oom = s.oom;
      tn_malloc_fail_after(0);
      if (!oom) assert_string_equal(s.s, whole);
      tn_str_deinit(&s);
      tn_plan_destroy(p);
      if (!oom) break;
    } else {
      tn_malloc_fail_after(0);
      if (st != TN_E_NOMEM && !strstr(d.text, "dim text")) fail_msg( /* dims do not tell lack of memory from overflow */
          "allocation %d: %s", (int)n, d.text);
      assert_null(p);
    }
    assert_true(n < 5000);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_identity), cmocka_unit_test(test_corners), cmocka_unit_test(test_document), cmocka_unit_test(test_eval), cmocka_unit_test(test_form_errors),
                                     cmocka_unit_test(test_rules), cmocka_unit_test(test_programs), cmocka_unit_test(test_many_expressions), cmocka_unit_test(test_nomem)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Text of nests: print -> parse -> print is the identity; malformed text fails with a line and a reason; so does a nest that
 * breaks a rule of the level. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>
#include "kir/nest.h"

#define HEAD "nest @t (p: f32, q: f32 written, i: i64, b: bool) sizes 2 {\n  scratch s: f32[64 * size 1]\n"

static const char sample[] =
    "nest @everything (p: f32, q: f32 written, \"odd name\": i64, b: bool) sizes 2 overlapping {\n"
    "  scratch s: f32[1024]\n"
    "  scratch d: bf16[16 * size 1]\n"
    "  %1 = block_lo i64\n"
    "  %2 = block_hi i64\n"
    "  %3 = const i64 1\n"
    "  %4 = size i64 1\n"
    "  %5 = const f32x8 -0.0\n"
    "  %6 = const f32 nan\n"
    "  %7 = const f64 0.1\n"
    "  %8 = const u8x4 255\n"
    "  %9 = const bool 1\n"
    "  %10 = const f32 -inf\n"
    "  %11 = var f32x8 %5\n"
    "  %12 = for.unroll i64 4 %1, %2, %3\n"
    "    %13 = lanes i64x8\n"
    "    %14 = mask boolx8 %4\n"
    "    %15 = load f32x8 p0[%12] mask %14\n"
    "    %16 = load.guard f32x8 p0[%12], %3, %9\n"
    "    %17 = load_strided f32x8 p0[%12], %4\n"
    "    %18 = gather f32x8 p0[%13] mask %14\n"
    "    %19 = fma f32x8 %15, %16, %17\n"
    "    %20 = get f32x8 %11\n"
    "    %21 = max f32x8 %19, %20\n"
    "    set f32x8 %11, %21\n"
    "    %23 = hreduce f32 max %21\n"
    "    %24 = extract f32 7 %21\n"
    "    %25 = splat f32x8 %24\n"
    "    %26 = bitcast i32x8 %25\n"
    "    %27 = cast bf16x8 %25\n"
    "    %28 = lt boolx8 %25, %21\n"
    "    %29 = select f32x8 %28, %25, %21\n"
    "    store.nt f32x8 p1[%12], %29\n"
    "    store_strided bf16x8 s1[%12], %4, %27 mask %14\n"
    "    scatter f32x8 s0[%13], %29 mask %28\n"
    "    prefetch p0[%12]\n"
    "    %34 = load f32x8 zeros[%3]\n"
    "    if %9\n"
    "      index_error %28 mask %14\n"
    "      zero_error %9\n"
    "    end\n"
    "  end\n"
    "  %40 = const u64 18446744073709551615\n"
    "}\n";

static tn_status parse(const char *text, tn_str *out, tn_diag *d) {
  tn_arena a;
  tn_arena_init(&a);
  tn_nest *n = NULL;
  tn_diag_clear(d);
  tn_status s = tn_nest_parse(d, &a, text, strlen(text), &n);
  if (s == TN_OK && out) tn_nest_print(n, out);
  if (s == TN_OK) s = tn_nest_verify(d, n);
  tn_arena_deinit(&a);
  return s;
}

static void test_round_trip(void **state) {
  (void)state;
  tn_str once, twice;
  tn_diag d;
  tn_str_init(&once);
  tn_str_init(&twice);
  if (parse(sample, &once, &d) != TN_OK) fail_msg("%s", d.text);
  assert_string_equal(once.s, sample);
  /* names of values are free, comments and layout too */
  const char *loose = "nest @t(p:f32,q:f32 written)sizes 0{ # a comment\n%7=const i64 0 %3 = load f32 p0[%7]\n store f32 p1 [ %7 ] , %3 }\n\n";
  tn_str_deinit(&once);
  if (parse(loose, &once, &d) != TN_OK) fail_msg("%s", d.text);
  if (parse(once.s, &twice, &d) != TN_OK) fail_msg("%s", d.text);
  assert_string_equal(once.s, twice.s);
  assert_non_null(strstr(once.s, "%1 = const i64 0\n  %2 = load f32 p0[%1]\n  store f32 p1[%1], %2\n"));
  tn_str_deinit(&once);
  tn_str_deinit(&twice);
}

static void test_built_nest(void **state) {
  (void)state;
  tn_arena a;
  tn_arena_init(&a);
  tn_nest *n;
  tn_str text, back;
  tn_diag d;
  tn_str_init(&text);
  tn_str_init(&back);
  assert_int_equal(tn_nest_create(&a, "quote\"and\nline", &n), TN_OK);
  tn_nparam p[2] = {{"p", TN_F32, false}, {"", TN_F32, true}};
  n->param = p;
  n->n_param = 2;
  tn_nv at = tn_n_i64(n, 0), x = tn_n_load(n, 0, (tn_vt){TN_F32, 16}, at, 0);
  for (int op = 0; op < TN_N_SCALARS; op++)
    if (op != TN_S_SELECT && tn_scalar_accepts((tn_scalar_op)op, TN_F32) && !tn_scalar_is_bool((tn_scalar_op)op)) x = tn_n_scalar(n, (tn_scalar_op)op, x, x, 0);
  tn_n_store(n, 1, at, x, 0);
  tn_nest_print(n, &text);
  if (parse(text.s, &back, &d) != TN_OK) fail_msg("%s", d.text);
  assert_string_equal(text.s, back.s);
  tn_str_deinit(&text);
  tn_str_deinit(&back);
  tn_arena_deinit(&a);
}

typedef struct row { const char *text, *says; } row;

static const row malformed[] = {
    {"", "wants 'nest'"},
    {"nest t", "wants '@'"},
    {"nest @", "wants a name"},
    {"nest @\"a", "unclosed name"},
    {"nest @\"\\0", "unclosed name"},
    {"nest @\"\\zz\" ()", "bad escape"},
    {"nest @\"\\00\" ()", "zero byte"},
    {"nest @\"\\4\" ()", "bad escape"},
    {"nest @t", "wants '('"},
    {"nest @t (p f32)", "wants ':'"},
    {"nest @t (p: f33)", "unknown dtype 'f33'"},
    {"nest @t (p: f32 q: f32)", "wants ','"},
    {"nest @t ()", "wants 'sizes'"},
    {"nest @t () sizes -1 {", "outside"},
    {"nest @t () sizes x {", "malformed"},
    {"nest @t () sizes 99999999999999999999 {", "malformed"},
    {"nest @t () sizes 0 {", "the text ends"},
    {"nest @t () sizes 0 { } x", "text after"},
    {"nest @t () sizes 0 { scratch", "wants a name"},
    {"nest @t () sizes 0 { scratch s: f32[", "wants an integer"},
    {"nest @t () sizes 0 { scratch s: f32[-1] }", "outside"},
    {"nest @t () sizes 0 { scratch s: f32[1 * 2] }", "wants 'size'"},
    {HEAD "hello }", "unknown instruction 'hello'"},
    {HEAD "scalar f32 }", "unknown instruction 'scalar'"},
    {HEAD "%1 = scalar f32 }", "unknown instruction 'scalar'"},
    {HEAD "%1 const i64 0 }", "wants '='"},
    {HEAD "const i64 0 }", "needs a name"},
    {HEAD "%1 = end }", "yields no value"},
    {HEAD "%1 = const i65 0 }", "unknown type 'i65'"},
    {HEAD "%1 = const i64x 0 }", "unknown type"},
    {HEAD "%1 = const i64x0 0 }", "unknown type"},
    {HEAD "%1 = const i64x128 0 }", "unknown type"},
    {HEAD "%1 = const i8 128 }", "does not fit i8"},
    {HEAD "%1 = const u8 -1 }", "does not fit u8"},
    {HEAD "%1 = const bool 2 }", "does not fit bool"},
    {HEAD "%1 = const i64 1.5 }", "malformed"},
    {HEAD "%1 = const i64 9223372036854775808 }", "malformed"},
    {HEAD "%1 = const f32 abc }", "wants a number"},
    {HEAD "%1 = const f32 0.1 }", "is not a value of f32"},
    {HEAD "%1 = const f32 1e40 }", "is not a value of f32"},
    {HEAD "%1 = const f64 }", "wants a number"},
    {HEAD "%1 = neg f32 %1 }", "%1 is used before it is defined"},
    {HEAD "%1 = neg f32 1 }", "wants '%'"},
    {HEAD "%1 = const i64 0 %1 = const i64 0 }", "%1 is defined twice"},
    {HEAD "%99999999999 = const i64 0 }", "outside"},
    {HEAD "%1 = const i64 0 %2 = add i64 %1 %1 }", "wants ','"},
    {HEAD "%1 = const i64 0 %2 = load f32 x[%1] }", "wants memory"},
    {HEAD "%1 = const i64 0 %2 = load f32 p99999[%1] }", "outside"},
    {HEAD "%1 = const i64 0 %2 = load f32 p[%1] }", "wants an integer"},
    {HEAD "%1 = const i64 0 %2 = load f32 p0 %1 }", "wants '['"},
    {HEAD "%1 = const i64 0 %2 = load.fast f32 p0[%1] }", "takes no flag 'fast'"},
    {HEAD "%1 = const i64 0 %2 = load.unroll f32 p0[%1] }", "takes no flag 'unroll'"},
    {HEAD "%1 = const.nt i64 0 }", "takes no flag 'nt'"},
    {HEAD "%1 = const f32x8 0 %2 = hreduce f32 most %1 }", "unknown combiner 'most'"},
    {HEAD "%1 = const f32x8 0 %2 = extract f32 -1 %1 }", "outside"},
    {HEAD "%1 = size i64 }", "wants an integer"},
};

static const row broken[] = {
    {HEAD "%1 = const i64x3 0 }", "type 4 x 3"},
    {HEAD "%1 = size i64 2 }", "size 2 of 2"},
    {HEAD "%1 = size f32 0 }", "yields i64"},
    {HEAD "%1 = block_lo i32 }", "yields i64"},
    {HEAD "%1 = const f32 0 %2 = not f32 %1 }", "is not for f32"},
    {HEAD "%1 = const bf16 0 %2 = add bf16 %1, %1 }", "is not for bf16"},
    {HEAD "%1 = const f32 0 %2 = const f64 0 %3 = add f32 %1, %2 }", "operand b is f64x1, wants f32x1"},
    {HEAD "%1 = const f32 0 %2 = const f32x2 0 %3 = add f32 %1, %2 }", "operand b is f32x2, wants f32x1"},
    {HEAD "%1 = const f32 0 %2 = add f64 %1, %1 }", "yields f32x1, is declared f64x1"},
    {HEAD "%1 = const f32 0 %2 = lt f32 %1, %1 }", "yields boolx1"},
    {HEAD "%1 = const f32 0 %2 = select f32 %1, %1, %1 }", "operand a is f32x1, wants boolx1"},
    {HEAD "%1 = const bf16 0 %2 = fma bf16 %1, %1, %1 }", "is for f32 and f64"},
    {HEAD "%1 = const i64 0 %2 = fma f32 %1, %1, %1 }", "operand a"},
    {HEAD "%1 = const f32 0 %2 = cast f64x2 %1 }", "from 1 to 2 lanes"},
    {HEAD "%1 = const f32 0 %2 = bitcast i64 %1 }", "from f32x1 to i64x1"},
    {HEAD "%1 = const f32x2 0 %2 = splat f32x4 %1 }", "operand a"},
    {HEAD "%1 = lanes f32x4 }", "is for integers"},
    {HEAD "%1 = const i64 0 %2 = mask i8x4 %1 }", "yields bool"},
    {HEAD "%1 = const f32x4 0 %2 = hreduce f32 any %1 }", "does not fit f32"},
    {HEAD "%1 = const boolx4 0 %2 = hreduce bool sum %1 }", "does not fit bool"},
    {HEAD "%1 = const f32x4 0 %2 = hreduce f32 argmax %1 }", "does not fit"},
    {HEAD "%1 = const f32x4 0 %2 = hreduce f64 sum %1 }", "yields a scalar f32"},
    {HEAD "%1 = const f32x4 0 %2 = extract f32 4 %1 }", "lane 4 of 4"},
    {HEAD "%1 = const i64 0 %2 = load f32 p4[%1] }", "names memory 4"},
    {HEAD "%1 = const i64 0 %2 = load f32 s1[%1] }", "names memory -2"},
    {HEAD "%1 = const i64 0 %2 = load f64 p0[%1] }", "memory holds f32"},
    {HEAD "%1 = const f32 0 %2 = load f32 p0[%1] }", "operand a is f32x1, wants i64x1"},
    {HEAD "%1 = const i64 0 %2 = const boolx4 0 %3 = load f32x8 p0[%1] mask %2 }", "operand c is boolx4, wants boolx8"},
    {HEAD "%1 = const i64 0 %2 = gather f32x8 p0[%1] }", "operand a is i64x1, wants i64x8"},
    {HEAD "%1 = const i64 0 %2 = load.guard f32 p0[%1], %1, %1 }", "operand d is i64x1"},
    {HEAD "%1 = const i64 0 %2 = const f32 0 store f32 p0[%1], %2 }", "read only"},
    {HEAD "%1 = const i64 0 %2 = const f32 0 store f32 zeros[%1], %2 }", "read only"},
    {HEAD "%1 = const i64 0 store f32 p1[%1], %1 }", "operand b is i64x1"},
    {HEAD "%1 = const f32 0 %2 = var f32 %1 %3 = neg f32 %2 }", "read it with get"},
    {HEAD "%1 = const f32 0 %2 = get f32 %1 }", "not a var"},
    {HEAD "%1 = const f32 0 %2 = var f32 %1 set f32 %2, %2 }", "read it with get"},
    {HEAD "%1 = const f32 0 %2 = var f64 %1 }", "operand a is f32x1"},
    {HEAD "%1 = const i64 0 %2 = for i64 %1, %1, %1 end }", "step 0 is not positive"},
    {HEAD "%1 = const i64 1 %2 = for.unroll i64 65 %1, %1, %1 end }", "outside 1..64"},
    {HEAD "%1 = const i64 1 if %1 end }", "operand a is i64x1, wants boolx1"},
    {HEAD "end }", "closes no region"},
    {HEAD "%1 = const bool 1 if %1 }", "region of %2 is not closed"},
    {HEAD "%1 = const bool 1 if %1 %3 = const i64 0 end %4 = neg i64 %3 }", "whose region is closed"},
    {HEAD "%1 = const i64 1 %2 = for i64 %1, %1, %1 end %4 = neg i64 %2 }", "whose region is closed"},
    {HEAD "%1 = const i64 1 index_error %1 }", "is not bool"},
    {"nest @t () sizes 0 { scratch s: f32[1 * size 0] }", "scratch slot 0 is malformed"},
};

static void check_rows(const row *rows, size_t n, tn_status want) {
  for (size_t k = 0; k < n; k++) {
    tn_diag d;
    tn_status s = parse(rows[k].text, NULL, &d);
    if (s != want || !strstr(d.text, rows[k].says)) fail_msg("row %zu \"%s\": status %d, message \"%s\", wants \"%s\"", k, rows[k].text, s, d.text, rows[k].says);
  }
}

static void test_malformed(void **state) {
  (void)state;
  check_rows(malformed, sizeof malformed / sizeof *malformed, TN_E_PARSE);
}

static void test_broken(void **state) {
  (void)state;
  check_rows(broken, sizeof broken / sizeof *broken, TN_E_VERIFY);
}

static void test_prefixes(void **state) {
  (void)state;
  char text[sizeof sample];
  for (size_t n = 0; n + 2 < sizeof sample; n++) { /* no prefix is a nest, none makes trouble */
    memcpy(text, sample, n);
    text[n] = 0;
    tn_diag d;
    assert_int_equal(parse(text, NULL, &d), TN_E_PARSE);
  }
}

static void test_no_memory(void **state) {
  (void)state;
  for (int64_t k = 1;; k++) {
    tn_diag d;
    tn_malloc_fail_after(k);
    tn_status s = parse(sample, NULL, &d);
    tn_malloc_fail_after(0);
    if (s == TN_OK) break;
    assert_int_equal(s, TN_E_NOMEM);
    assert_true(k < 1000);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_round_trip), cmocka_unit_test(test_built_nest), cmocka_unit_test(test_malformed),
                                     cmocka_unit_test(test_broken),     cmocka_unit_test(test_prefixes),   cmocka_unit_test(test_no_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Dims: normal forms, rewrites, text, programs, and a property test that compares random expressions with their direct
 * evaluation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/dim.h"

static tn_dims *t;
static tn_dim s0, s1, s2;

static int setup(void **state) {
  (void)state;
  t = tn_dims_create();
  s0 = tn_dim_sym(t, "s0");
  s1 = tn_dim_sym(t, "s1");
  s2 = tn_dim_sym(t, "s2");
  tn_dim_set_range(t, s0, 2, 1000000);
  tn_dim_set_range(t, s1, 1, 1000000);
  return t ? 0 : -1;
}

static int teardown(void **state) {
  (void)state;
  tn_dims_destroy(t);
  return 0;
}

static tn_dim P(const char *s) {
  tn_diag d;
  tn_diag_clear(&d);
  tn_dim v;
  if (tn_dim_parse(&d, t, s, strlen(s), &v) != TN_OK) {
    print_error("%s\n", d.text);
    return TN_DIM_BAD;
  }
  return v;
}

static void expect(tn_dim d, const char *text) {
  tn_str s;
  tn_str_init(&s);
  tn_dim_print(t, d, &s);
  assert_string_equal(s.s, text);
  assert_true(P(text) == d);
  tn_str_deinit(&s);
}

static void test_normal_form(void **state) {
  (void)state;
  assert_true(tn_dim_add(t, s0, s1) == tn_dim_add(t, s1, s0));
  assert_true(tn_dim_mul(t, tn_dim_add(t, s0, 1), tn_dim_sub(t, s0, 1)) == P("s0**2 - 1"));
  assert_true(tn_dim_sub(t, tn_dim_mul(t, 4, s0), tn_dim_mul(t, s0, 4)) == 0);
  assert_true(tn_dim_sub(t, 3, 5) == tn_dim_int(t, -2));
  int64_t v;
  assert_true(tn_dim_as_int(t, tn_dim_int(t, -2), &v) && v == -2);
  assert_false(tn_dim_as_int(t, s0, &v));
  expect(P("1 + s0*4"), "4*s0 + 1");
  expect(P("s1*s0 - 3*s1 + s0*s0"), "s0**2 + s0*s1 - 3*s1");
  expect(P("-s0 - 2"), "-s0 - 2");
  expect(P("-(2)"), "-2");
  expect(P("s10 + s2 + batch"), "s2 + s10 + batch");
}

static void test_division(void **state) {
  (void)state;
  expect(P("(4*s0*s1) // (2*s0)"), "2*s1");
  expect(P("s0 // 2"), "floordiv(s0, 2)");
  expect(P("(4*s0 + 6) // 4"), "s0 + 1");
  expect(P("(5*s0 + 7) // 2"), "2*s0 + floordiv(s0 + 1, 2) + 3");
  assert_true(P("(s0 - 1)//2 + 1") == P("(s0 + 1)//2"));
  assert_true(P("-((-s0)//2)") == tn_dim_ceildiv(t, s0, 2));
  assert_true(P("s0 // 2 // 3") == P("s0 // 6"));
  assert_true(P("(s0//2 + 1) // 3") == P("(s0 + 2) // 6"));
  assert_true(P("(4*s0 + 1) // 6") == P("(2*s0) // 3"));
  assert_true(P("(s0*s1 + s1) // (s0 + 1)") == s1);
  assert_true(P("(s0*s0 - 1) // (s0 - 1)") == P("s0 + 1"));
  assert_true(P("(2*s0 + 2 + s1) // (s0 + 1)") == P("2 + s1//(s0 + 1)"));
  assert_true(P("s0 // (s0 + 1)") == 0);
  assert_true(P("(s0 % 4) // 4") == 0);
  assert_true(P("(s0*s1*3) // (s1*6)") == P("s0 // 2"));
  assert_true(tn_dim_ceildiv(t, P("s0*s1"), s0) == s1);
  assert_true(tn_dim_ceildiv(t, 7, 2) == 4);
  assert_true(tn_dim_floordiv(t, s0, 0) == TN_DIM_BAD);
  assert_true(P("s0 // -2") == P("(-s0) // 2"));
  tn_dim q;
  assert_true(tn_dim_divides(t, P("2*s0"), P("4*s0*s1 + 6*s0"), &q) && q == P("2*s1 + 3"));
  assert_true(tn_dim_divides(t, P("s0 + s1"), P("s0*s0 + 2*s0*s1 + s1*s1"), &q) && q == P("s0 + s1"));
  assert_false(tn_dim_divides(t, 4, P("2*s0"), NULL));
  assert_false(tn_dim_divides(t, 0, 0, NULL));
  assert_true(tn_dim_divides(t, s0, 0, &q) && q == 0);
}

static void test_mod(void **state) {
  (void)state;
  assert_true(P("(4*s0) % 2") == 0);
  assert_true(P("(4*s0 + 3) % 2") == 1);
  assert_true(P("s0 % 1") == 0 && P("s0 % s0") == 0);
  assert_true(P("(s0 % 8) % 4") == P("s0 % 4"));
  assert_true(P("(s0 % 4) % 8") == P("s0 % 4"));
  assert_true(P("(s0*s1 + 3*s1) % s1") == 0);
  assert_true(P("(4*s0 + 1) % 6") == P("2*((2*s0) % 3) + 1"));
  assert_true(P("(s0 - s0 % 4) % 4") == 0);
  assert_true(P("(s0*s1) % (2*s0)") == P("s0 * (s1 % 2)"));
  expect(P("Mod(s0, 2)"), "mod(s0, 2)");
  assert_true(P("PythonMod(-s0, 4)") == P("(3*s0) % 4"));
  assert_true(P("-7 % 3") == 2 && P("-7 // 3") == tn_dim_int(t, -3) && P("7 % -3") == tn_dim_int(t, -2));
}

static void test_min_max(void **state) {
  (void)state;
  assert_true(P("max(s0, 1)") == s0);
  assert_true(P("Max(1, s2)") == P("max(s2, 1)"));
  expect(P("Max(1, s2)"), "max(s2, 1)");
  assert_true(P("min(s0, s0 + 1)") == s0);
  assert_true(P("max(3, 5)") == 5 && P("min(3, 5, 4)") == 3);
  assert_true(P("max(max(s1, s2), s0)") == P("max(s2, max(s0, s1))"));
  assert_true(P("max(s2, s2, 3, 2)") == P("max(s2, 3)"));
}

static void test_bounds(void **state) {
  (void)state;
  int64_t lo, hi;
  tn_dim_bounds(t, P("4*s0 + 1"), &lo, &hi);
  assert_true(lo == 9 && hi == 4000001);
  tn_dim_bounds(t, P("s0 - s1"), &lo, &hi);
  assert_true(lo == 2 - 1000000 && hi == 999999);
  tn_dim_bounds(t, P("s0 % 7"), &lo, &hi);
  assert_true(lo == 0 && hi == 6);
  tn_dim_bounds(t, P("s0 // 3"), &lo, &hi);
  assert_true(lo == 0 && hi == 333333);
  tn_dim_bounds(t, P("2*s2 - 5"), &lo, &hi);
  assert_true(lo == -5 && hi == INT64_MAX);
  tn_dim_bounds(t, P("s2*s2*s2*s2 - s2*s2*s2"), &lo, &hi);
  assert_true(lo == INT64_MIN && hi == INT64_MAX);
  tn_dim_bounds(t, P("max(s2, 4) + min(s2, 9)"), &lo, &hi);
  assert_true(lo == 4 && hi == INT64_MAX);
}

static void test_overflow(void **state) {
  (void)state;
  tn_dim big = INT64_MAX;
  assert_true(tn_dim_add(t, big, 1) == TN_DIM_BAD);
  assert_true(tn_dim_mul(t, big, 2) == TN_DIM_BAD);
  assert_true(tn_dim_mul(t, tn_dim_mul(t, big, s0), 2) == TN_DIM_BAD);
  assert_true(tn_dim_int(t, INT64_MIN) == TN_DIM_BAD);
  assert_true(tn_dim_add(t, TN_DIM_BAD, 1) == TN_DIM_BAD);
  assert_true(tn_dim_floordiv(t, TN_DIM_BAD, 2) == TN_DIM_BAD);
  assert_true(tn_dim_max(t, 1, TN_DIM_BAD) == TN_DIM_BAD);
  assert_true(tn_dim_add(t, -1 - 100000, 1) == TN_DIM_BAD); /* no such handle */
  int64_t v, syms[3] = {INT64_MAX, 1, 1};
  assert_int_equal(tn_dim_eval(t, P("2*s0"), syms, &v), TN_E_ARG);
  syms[0] = 0;
  assert_int_equal(tn_dim_eval(t, P("s1 // (s0 - 5 + s2)"), (int64_t[]){4, 1, 1}, &v), TN_E_ARG);
}

static void test_parse_errors(void **state) {
  (void)state;
  static const char *bad[] = {"", "s0 +", "(s0", "s0)", "foo(1, 2)", "max(1)", "mod(1,2,3)", "1/2", "s0 // 0", "99999999999999999999", "s0**s1",
                              "s0**65", "*", "s0 s1", "9223372036854775807 + 1", "(((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((1"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    tn_diag d;
    tn_dim v;
    assert_int_equal(tn_dim_parse(&d, t, bad[i], strlen(bad[i]), &v), TN_E_PARSE);
    assert_true(v == TN_DIM_BAD && d.text[0]);
  }
}

static void test_symbols(void **state) {
  (void)state;
  assert_int_equal(tn_dim_sym_ordinal(t, s1), 1);
  assert_int_equal(tn_dim_sym_ordinal(t, P("s1 + 1")), -1);
  assert_int_equal(tn_dim_sym_ordinal(t, 7), -1);
  assert_true(tn_dims_n_syms(t) >= 3);
  assert_string_equal(tn_dims_sym_name(t, 0), "s0");
  int64_t lo, hi;
  tn_dims_sym_range(t, 0, &lo, &hi);
  assert_true(lo == 2 && hi == 1000000);
  assert_true(tn_dim_sym(t, "s0") == s0);
}

static void test_code(void **state) {
  (void)state;
  tn_arena a;
  tn_arena_init(&a);
  tn_dim_code *c;
  uint32_t n;
  int64_t v;
  assert_int_equal(tn_dim_compile(&a, t, P("4*s0*s1 - max(s2, 3) + s0 % 5 + s0 // s1"), &c, &n), TN_OK);
  int64_t syms[3] = {7, 2, 1};
  assert_int_equal(tn_dim_code_eval(c, n, syms, 3, &v), TN_OK);
  assert_int_equal(v, 56 - 3 + 2 + 3);
  assert_int_equal(tn_dim_code_eval(c, n, syms, 1, &v), TN_E_ARG);
  assert_int_equal(tn_dim_code_eval(c, 0, syms, 3, &v), TN_E_ARG);
  assert_int_equal(tn_dim_code_eval(&(tn_dim_code){'+', 0}, 1, syms, 3, &v), TN_E_ARG);
  assert_int_equal(tn_dim_code_eval(&(tn_dim_code){'x', 0}, 1, syms, 3, &v), TN_E_ARG);
  assert_int_equal(tn_dim_compile(&a, t, 12, &c, &n), TN_OK);
  assert_true(n == 1 && c[0].op == 'c' && c[0].v == 12);
  tn_arena_deinit(&a);
}

/* ---- property test: build an expression and its value side by side ---- */
static uint64_t rng = 88172645463325252u;
static uint32_t rnd(uint32_t n) {
  rng ^= rng << 13;
  rng ^= rng >> 7;
  rng ^= rng << 17;
  return (uint32_t)(rng >> 33) % n;
}

enum { N_POINTS = 6 };
typedef struct node {
  tn_dim d;
  int64_t v[N_POINTS];
  bool ok[N_POINTS]; /* false: a division by zero on the way */
} node;
static int64_t point[N_POINTS][3];

static node gen(int depth) {
  node r = {0};
  if (depth == 0 || rnd(6) == 0) {
    uint32_t k = rnd(5);
    int64_t c = (int64_t)rnd(13) - 4;
    r.d = k < 3 ? tn_dim_sym(t, (const char *[]){"s0", "s1", "s2"}[k]) : tn_dim_int(t, c);
    for (int i = 0; i < N_POINTS; i++) r.v[i] = k < 3 ? point[i][k] : c, r.ok[i] = true;
    return r;
  }
  node a = gen(depth - 1), b = gen(depth - 1);
  uint32_t op = rnd(10);
  static tn_dim (*const fn[])(tn_dims *, tn_dim, tn_dim) = {tn_dim_add,      tn_dim_sub, tn_dim_mul, tn_dim_floordiv, tn_dim_floordiv,
                                                            tn_dim_floordiv, tn_dim_mod, tn_dim_mod, tn_dim_min,      tn_dim_max};
  if (op == 4 && rnd(2)) { /* ceildiv through its own function */
    r.d = tn_dim_ceildiv(t, a.d, b.d);
    for (int i = 0; i < N_POINTS; i++) {
      int64_t x = a.v[i], y = b.v[i];
      r.ok[i] = a.ok[i] && b.ok[i] && y != 0;
      if (r.ok[i]) r.v[i] = x / y + (x % y != 0 && (x < 0) == (y < 0));
    }
    return r;
  }
  r.d = fn[op](t, a.d, b.d);
  for (int i = 0; i < N_POINTS; i++) {
    int64_t x = a.v[i], y = b.v[i], q;
    r.ok[i] = a.ok[i] && b.ok[i];
    if (op >= 3 && op <= 7 && y == 0) r.ok[i] = false;
    if (!r.ok[i]) continue;
    switch (op) {
      case 0: r.v[i] = x + y; break;
      case 1: r.v[i] = x - y; break;
      case 2: r.ok[i] = !__builtin_mul_overflow(x, y, &r.v[i]) && llabs(r.v[i]) < (1ll << 40); break;
      case 8: r.v[i] = x < y ? x : y; break;
      case 9: r.v[i] = x > y ? x : y; break;
      default:
        q = x / y - (x % y != 0 && (x < 0) != (y < 0));
        r.v[i] = op <= 5 ? q : x - q * y;
    }
  }
  return r;
}

static void check_node(const node *n, tn_arena *a) {
  if (n->d == TN_DIM_BAD) return; /* division by a provable zero, or too large */
  int64_t lo, hi, v;
  tn_dim_bounds(t, n->d, &lo, &hi);
  tn_str s;
  tn_str_init(&s);
  tn_dim_print(t, n->d, &s);
  assert_true(P(s.s) == n->d);
  tn_dim_code *c;
  uint32_t nc;
  bool compiled = tn_dim_compile(a, t, n->d, &c, &nc) == TN_OK;
  for (int i = 0; i < N_POINTS; i++) {
    if (!n->ok[i]) continue;
    tn_status e = tn_dim_eval(t, n->d, point[i], &v);
    if (e != TN_OK || v != n->v[i] || v < lo || v > hi)
      print_error("%s at %lld %lld %lld: want %lld, got %lld (%s), bounds %lld %lld\n", s.s, (long long)point[i][0], (long long)point[i][1],
                  (long long)point[i][2], (long long)n->v[i], (long long)v, tn_status_name(e), (long long)lo, (long long)hi);
    assert_int_equal(e, TN_OK);
    assert_true(v == n->v[i]);
    assert_true(v >= lo && v <= hi);
    if (compiled) {
      assert_int_equal(tn_dim_code_eval(c, nc, point[i], 3, &v), TN_OK);
      assert_true(v == n->v[i]);
    }
  }
  /* the text means the same in a table of its own, and prints the same there */
  tn_dims *own = tn_dims_create(), *keep = t;
  tn_dim_set_range(own, tn_dim_sym(own, "s2"), 0, INT64_MAX);
  tn_dim_set_range(own, tn_dim_sym(own, "s1"), 1, 1000000);
  tn_dim_set_range(own, tn_dim_sym(own, "s0"), 2, 1000000);
  t = own;
  tn_dim again = P(s.s);
  t = keep;
  tn_str s2_;
  tn_str_init(&s2_);
  tn_dim_print(own, again, &s2_);
  assert_string_equal(s2_.s, s.s);
  tn_str_deinit(&s2_);
  tn_dims_destroy(own);
  tn_str_deinit(&s);
}

static void test_property(void **state) {
  (void)state;
  tn_arena a;
  tn_arena_init(&a);
  uint32_t n_bad = 0, n_all = 6000;
  for (uint32_t k = 0; k < n_all; k++) {
    for (int i = 0; i < N_POINTS; i++) {
      point[i][0] = 2 + rnd(i < 3 ? 4 : 60);
      point[i][1] = 1 + rnd(i < 3 ? 4 : 60);
      point[i][2] = rnd(i < 3 ? 4 : 60);
    }
    node n = gen(2 + (int)rnd(3));
    n_bad += n.d == TN_DIM_BAD;
    check_node(&n, &a);
    tn_mark none = {0};
    tn_arena_rewind(&a, none);
  }
  assert_true(n_bad < n_all / 4);
  tn_arena_deinit(&a);
}

/* Every allocation made to fail in turn: TN_DIM_BAD or an error, no crash, no leak (sanitizer builds look). */
static void test_out_of_memory(void **state) {
  (void)state;
  static const char text[] = "max(s0*s1 + 3, (s1 - 1)//2 + 1) % (s2 + 1) + abc*s0**3 // 6";
  for (int64_t k = 1; k < 400; k++) {
    tn_malloc_fail_after(k);
    tn_dims *own = tn_dims_create();
    tn_dim v = TN_DIM_BAD;
    tn_status e = TN_E_NOMEM;
    if (own) e = tn_dim_parse(NULL, own, text, strlen(text), &v);
    tn_malloc_fail_after(0);
    if (own && e != TN_OK) { /* the table is still sound */
      assert_int_equal(tn_dim_parse(NULL, own, text, strlen(text), &v), TN_OK);
    }
    tn_dims_destroy(own);
    if (own && e == TN_OK) return;
  }
  fail();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_normal_form),  cmocka_unit_test(test_division), cmocka_unit_test(test_mod),
      cmocka_unit_test(test_min_max),      cmocka_unit_test(test_bounds),   cmocka_unit_test(test_overflow),
      cmocka_unit_test(test_parse_errors), cmocka_unit_test(test_symbols),  cmocka_unit_test(test_code),
      cmocka_unit_test(test_property),     cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests_name("base/dim", tests, setup, teardown);
}

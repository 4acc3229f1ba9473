/* Definitions: text is the identity under print -> parse -> print, malformed text and broken rules are refused with a reason, and the
 * interpreter computes what the page about kernels says. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "kir/def.h"

typedef struct world {
  tn_arena a;
  tn_dims *dims;
  tn_diag d;
  tn_kdef *k;
} world;

static void open_world(world *w) {
  tn_arena_init(&w->a);
  tn_diag_clear(&w->d);
  w->dims = tn_dims_create();
  assert_non_null(w->dims);
  w->k = NULL;
}
static void close_world(world *w) {
  tn_arena_deinit(&w->a);
  tn_dims_destroy(w->dims);
}
static tn_status read_text(world *w, const char *text) { return tn_kdef_parse(&w->d, &w->a, w->dims, text, strlen(text), &w->k); }
static void must(world *w, tn_status s) {
  if (s != TN_OK) fail_msg("%s", w->d.text);
}

/* ---- text ---- */
static const char everything[] =
    "kernel @\"odd name\"(%x: f32[s0,64]{70,1}, %i: i64[8], %\"a b\": bool[] frozen) -> (%y: bf16[s0,8]) {\n"
    "  sym s0 in [2, inf]\n"
    "  axis i: s0, \"j 1\": 8, r: 64, k: max(s0, 5)\n"
    "  %0 m: f32[i,\"j 1\"] = max[r] guard(%x[i, add(r, \"j 1\")], lt(add(r, \"j 1\"), 64), -inf)\n"
    "  %1 p: i64[i] = argmin[k] floordiv(mul(k, size(s0)), 3)\n"
    "  $0 = exp(mul(%x[i, index(%i[\"j 1\"], 64)], 0.10000000149011612:f32))\n"
    "  %2 y: bf16[i,\"j 1\"] = select(and(%\"a b\"[], eq(%1, -7)), cast.bf16(add(mul($0, $0), %0)), cast.bf16($0)) -> %y[i, \"j 1\"]\n"
    "  %3 c: u8[] = 255:u8\n"
    "  %4 n: f32[] = add(-0.0:f32, nan:f32)\n"
    "  %5 b: bool[] = xor(true:bool, false:bool)\n"
    "  %6 u: u64[] = max(18446744073709551615:u64, 9223372036854775808:u64)\n"
    "}\n";

static void test_identity(void **state) {
  (void)state;
  world w;
  tn_str o;
  open_world(&w);
  tn_str_init(&o);
  must(&w, read_text(&w, everything));
  must(&w, tn_kdef_verify(&w.d, w.k));
  tn_kdef_print(w.k, &o);
  assert_string_equal(o.s, everything);
  tn_str_deinit(&o);
  close_world(&w);
}

/* x + x + ... doubled 60 times: 2^60 nodes written out, 61 as they are. And 500 calls in one another. */
static void test_sharing_and_depth(void **state) {
  (void)state;
  world w, v;
  tn_str o, p;
  open_world(&w);
  assert_int_equal(tn_kdef_create(&w.a, w.dims, "k", &w.k), TN_OK);
  uint32_t ax = tn_kdef_add_axis(w.k, "i", 4);
  tn_kdef_add_param(w.k, "x", TN_F32, 1, (tn_dim[]){4}, NULL);
  w.k->param[tn_kdef_add_param(w.k, "y", TN_F32, 1, (tn_dim[]){4}, NULL)].written = true;
  tn_kx_id i = tn_kx_axis(w.k, ax), x = tn_kx_load(w.k, 0, &i, 0, (tn_num){.i = 0});
  for (int n = 0; n < 60; n++) x = tn_kx_scalar(w.k, TN_S_ADD, x, x, 0);
  for (int n = 0; n < 500; n++) x = tn_kx_scalar(w.k, n % 2 ? TN_S_NEG : TN_S_ABS, x, 0, 0);
  tn_kdef_add_stage(w.k, (tn_kstage){.name = "y", .dtype = TN_F32, .n_axis = 1, .root = x, .out = 1, .out_idx = {i}});
  must(&w, tn_kdef_verify(&w.d, w.k));
  tn_str_init(&o);
  tn_str_init(&p);
  tn_kdef_print(w.k, &o);
  assert_true(o.n < 20000);
  open_world(&v);
  must(&v, read_text(&v, o.s));
  must(&v, tn_kdef_verify(&v.d, v.k));
  tn_kdef_print(v.k, &p);
  assert_string_equal(o.s, p.s);
  float in[4] = {1, 2, 0, -1}, out[4];
  must(&v, tn_kdef_interpret(&v.d, v.k, NULL, (void *[]){in, out}, (int64_t[]){4, 4}));
  assert_true(out[1] == -ldexp(2, 60) && out[3] == -ldexp(1, 60));
  tn_str_deinit(&o);
  tn_str_deinit(&p);
  close_world(&w);
  close_world(&v);
}

/* ---- refusals ---- */
#define K(body) "kernel @k(%x: f32[4], %i: i64[4]) -> (%y: f32[4]) {\n  axis a: 4, b: 4\n" body "\n}\n"
typedef struct refusal {
  const char *text, *say;
} refusal;

static const refusal malformed[] = {
    {"", "kernel 1:1: expected 'kernel'"},
    {"kernel x", "expected '@'"},
    {"kernel @k(%x: f33[2]) -> () {}", "1:15: unknown dtype 'f33'"},
    {"kernel @k(%x: f32[2]{1,2}) -> () {}", "2 strides for rank 1"},
    {"kernel @k(%x: f32[1,1,1,1,1,1,1,1,1,1,1,1,1]) -> () {}", "more than 12 dims"},
    {"kernel @k(%x: f32[9223372036854775807,4]) -> () {}", "size of x overflows"},
    {"kernel @k(%x: f32[2**]) -> () {}", "bad dim '2**'"},
    {"kernel @k() -> () { axis i: 1, i: 2 }", "a second axis 'i'"},
    {"kernel @k() -> () { sym s0 in [5, 2] }", "range of s0 is empty: 5 > 2"},
    {"kernel @k() -> () {} x", "text after the kernel"},
    {K("  %1 t: f32[a] = %x[a]"), "3:4: stage %1 where %0 comes next"},
    {K("  %0 t: f32[c] = %x[a]"), "no axis 'c'"},
    {K("  %0 t: f32[a] = %z[a]"), "no parameter 'z'"},
    {K("  %0 t: f32[a] = %x[a, b]"), "more than 1 indices for x"},
    {K("  %0 t: f32[a] = %x[]"), "0 indices for x of rank 1"},
    {K("  %0 t: f32[a] = %0"), "stage %0 is read before it is there"},
    {K("  %0 t: f32[a] = $0"), "$0 is used before it is there"},
    {K("  $1 = 5"), "$1 where $0 comes next"},
    {K("  %0 t: f32[a] = expp(1.0:f32)"), "unknown function 'expp'"},
    {K("  %0 t: f32[a] = exp(1.0:f32, 2.0:f32)"), "expected ')'"},
    {K("  %0 t: f32[a] = 0.1:f32"), "0.1 is no value of f32"},
    {K("  %0 t: f32[a] = 300:u8"), "300 is no u8"},
    {K("  %0 t: u64[a] = 18446744073709551616:u64"), "does not fit u64"},
    {K("  %0 t: u64[a] = -1:u64"), "expected digits, got '-1'"},
    {K("  %0 t: u16[a] = 65536:u16"), "65536 is no u16"},
    {K("  %0 t: f32[a] = 1:bool"), "'1' is no bool"},
    {K("  %0 t: f32[a] = 1e999:f64"), "no number that fits a double"},
    {K("  %0 t: i64[a] = 99999999999999999999"), "integer does not fit 64 bits"},
    {K("  %0 t: f32[a] = max[] %x[a]"), "max over no axis"},
    {K("  %0 t: f32[a] = %x[a] -> %y[a"), "expected ']'"},
    {K("  %0 \"t: f32[a] = %x[a]"), "a quoted name without an end on its line"},
    {K("  %0 t: f32[a] = "
       "abs(abs(abs(abs(abs(abs(abs(abs(abs(abs(abs(abs(abs(abs(abs(abs(abs(abs(abs(abs(abs(abs(abs(abs(abs(abs(abs(abs(abs(abs(abs(abs("
       "abs(abs(abs(abs(abs(abs(abs(abs(abs(abs(abs(abs(abs(abs(abs(abs(abs(abs(abs(abs(abs(abs(abs(abs(abs(abs(abs(abs(abs(abs(abs(abs("
       "abs(abs("),
     "nested deeper than 64"},
};

static const refusal illegal[] = {
    {"kernel @k(%x: f32[4], %x: f32[4]) -> () {}", "two parameters x"},
    {"kernel @k(%x: f32[0 - 4]) -> () {}", "parameter x: dim 0 is unknown"},
    {"kernel @k() -> (%y: f32[4] frozen) {}", "parameter y is written and frozen"},
    {"kernel @k() -> (%y: f32[4]) {}", "nothing is stored to parameter y"},
    {K("  %0 t: f32[a] = %x[b] -> %y[a]"), "stage 0 (t) depends on axis b, which is not its own"},
    {K("  %0 t: f32[a,a] = %x[a] -> %y[a]"), "names axis a twice"},
    {K("  %0 t: f32[a] = sum[a] %x[a] -> %y[a]"), "names axis a twice"},
    {K("  %0 t: f32[a] = %i[a] -> %y[a]"), "stage 0 is f32, its value i64"},
    {K("  %0 t: f32[a] = %y[a] -> %y[a]"), "reads y, which is written"},
    {K("  %0 t: f32[a] = %x[a] -> %x[a]"), "stored to parameter 0"},
    {K("  %0 t: f32[a] = sum[b] %x[b] -> %y[a]"), "reduces and is stored"},
    {K("  %0 t: bool[a] = %x[a]\n  %1 u: f32[a] = %x[a] -> %y[a]"), "stage 0 is bool, its value f32"},
    {K("  %0 t: f32[a] = %x[%x[a]] -> %y[a]"), "index 0 is f32"},
    {K("  %0 t: f32[a] = add(%x[a], %i[a]) -> %y[a]"), "add of f32 and i64"},
    {K("  %0 t: f32[a] = select(%x[a], %x[a], %x[a]) -> %y[a]"), "the condition of select is f32"},
    {K("  %0 t: i64[a] = exp(%i[a])"), "exp does not take i64"},
    {K("  %0 t: f32[a] = guard(%x[a], 1, 0.0) -> %y[a]"), "the guard is i64"},
    {K("  %0 t: f32[] = any[a] %x[a]"), "any of f32"},
    {K("  %0 t: f32[] = argmax[a] %x[a]"), "argmax of f32 is f32"},
    {K("  %0 t: i64[] = argmax[a,b] %x[a]"), "argmax over 2 axes"},
    {K("  %0 t: f32[a] = %x[a] -> %y[b]"), "depends on other axes"},
    {K("  %0 t: i32[a] = 1:i32 -> %y[a]"), "stage 0 is i32, y is f32"},
};

static void test_malformed(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
    world w;
    open_world(&w);
    tn_status s = read_text(&w, malformed[i].text);
    if (s != TN_E_PARSE || !strstr(w.d.text, malformed[i].say)) fail_msg("row %zu: '%s' (%s)", i, w.d.text, malformed[i].say);
    close_world(&w);
  }
}

static void test_illegal(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof illegal / sizeof *illegal; i++) {
    world w;
    open_world(&w);
    if (read_text(&w, illegal[i].text) != TN_OK) fail_msg("row %zu: %s", i, w.d.text);
    tn_status s = tn_kdef_verify(&w.d, w.k);
    if (s != TN_E_VERIFY || !strstr(w.d.text, illegal[i].say)) fail_msg("row %zu: '%s' (%s)", i, w.d.text, illegal[i].say);
    close_world(&w);
  }
}

/* A stage that reads a later one can only be made by hand. */
static void test_order(void **state) {
  (void)state;
  world w;
  open_world(&w);
  must(&w, read_text(&w, K("  %0 t: f32[a] = %x[a]\n  %1 y: f32[a] = %0 -> %y[a]")));
  tn_kstage s = w.k->stage[0];
  w.k->stage[0] = w.k->stage[1];
  w.k->stage[1] = s;
  assert_int_equal(tn_kdef_verify(&w.d, w.k), TN_E_VERIFY);
  assert_non_null(strstr(w.d.text, "stage 0 reads stage 0"));
  /* insertion renumbers */
  w.k->stage[1] = w.k->stage[0];
  w.k->stage[0] = s;
  assert_int_equal(tn_kdef_insert_stage(
                       w.k, 0, (tn_kstage){.name = "first", .dtype = TN_F32, .root = s.root, .out = -1, .n_axis = 1, .axis = {s.axis[0]}}),
                   0);
  tn_diag_clear(&w.d);
  must(&w, tn_kdef_verify(&w.d, w.k));
  assert_int_equal(w.k->n_stage, 3);
  assert_int_equal(w.k->x[w.k->stage[2].root].ref, 1);
  assert_int_equal(tn_kx_stage(w.k, 1), w.k->stage[2].root);
  close_world(&w);
}

/* ---- values ---- */
static void test_softmax(void **state) {
  (void)state;
  static const char text[] =
      "kernel @softmax(%x: f32[s0,5]) -> (%y: f32[s0,5]) {\n axis i: s0, j: 5\n %0 m: f32[i] = max[j] %x[i, j]\n"
      " %1 e: f32[i,j] = exp(sub(%x[i, j], %0))\n %2 s: f32[i] = sum[j] %1\n %3 y: f32[i,j] = div(%1, %2) -> %y[i, j]\n}";
  world w;
  open_world(&w);
  must(&w, read_text(&w, text));
  must(&w, tn_kdef_verify(&w.d, w.k));
  float x[15], y[15];
  for (int i = 0; i < 15; i++) x[i] = (float)((i * 7) % 5) - (float)i / 8;
  must(&w, tn_kdef_interpret(&w.d, w.k, (int64_t[]){3}, (void *[]){x, y}, (int64_t[]){15, 15}));
  for (int i = 0; i < 3; i++) {
    double m = -INFINITY, s = 0;
    for (int j = 0; j < 5; j++) m = fmax(m, x[i * 5 + j]);
    for (int j = 0; j < 5; j++) s += exp(x[i * 5 + j] - m);
    for (int j = 0; j < 5; j++) assert_true(fabs(y[i * 5 + j] - exp(x[i * 5 + j] - m) / s) < 1e-6);
  }
  /* memory that is too small is named, and nothing outside of it is touched */
  assert_int_equal(tn_kdef_interpret(&w.d, w.k, (int64_t[]){3}, (void *[]){x, y}, (int64_t[]){14, 15}), TN_E_ARG);
  assert_non_null(strstr(w.d.text, "x[2, 4] is outside its memory"));
  must(&w, tn_kdef_interpret(&w.d, w.k, (int64_t[]){0}, (void *[]){NULL, NULL}, (int64_t[]){0, 0}));
  close_world(&w);
}

static void test_convolution(void **state) { /* padding is a guard; a place outside is never read */
  (void)state;
  static const char text[] = "kernel @conv(%x: f32[4,4], %w: f32[3,3]) -> (%y: f32[4,4]) {\n axis h: 4, w: 4, u: 3, v: 3\n"
                             " %0 acc: f32[h,w] = sum[u,v] mul(guard(%x[sub(add(h, u), 1), sub(add(w, v), 1)], and(and(ge(sub(add(h, u), "
                             "1), 0), lt(sub(add(h, u), 1), 4)), "
                             "and(ge(sub(add(w, v), 1), 0), lt(sub(add(w, v), 1), 4))), 0.0), %w[u, v])\n"
                             " %1 y: f32[h,w] = relu(%0) -> %y[h, w]\n}";
  world w;
  open_world(&w);
  must(&w, read_text(&w, text));
  must(&w, tn_kdef_verify(&w.d, w.k));
  float x[16], k[9], y[16];
  for (int i = 0; i < 16; i++) x[i] = (float)(i % 5) - 2;
  for (int i = 0; i < 9; i++) k[i] = (float)(i % 4) - 1;
  must(&w, tn_kdef_interpret(&w.d, w.k, NULL, (void *[]){x, k, y}, (int64_t[]){16, 9, 16}));
  for (int h = 0; h < 4; h++)
    for (int v = 0; v < 4; v++) {
      float s = 0;
      for (int a = 0; a < 3; a++)
        for (int b = 0; b < 3; b++)
          if (h + a >= 1 && h + a <= 4 && v + b >= 1 && v + b <= 4) s += x[(h + a - 1) * 4 + v + b - 1] * k[a * 3 + b];
      assert_true(y[h * 4 + v] == (s > 0 ? s : 0));
    }
  close_world(&w);
}

static void test_index_and_winners(void **state) {
  (void)state;
  static const char text[] =
      "kernel @k(%t: f32[3,2], %i: i64[4], %x: f32[6]) -> (%y: f32[4,2], %p: i64[1], %q: i64[1]) {\n axis n: 4, d: 2, j: 6\n"
      " %0 y: f32[n,d] = %t[index(%i[n], 3), d] -> %y[n, d]\n %1 m: i64[] = argmax[j] %x[j]\n %2 p: i64[] = %1 -> %p[0]\n"
      " %3 m: i64[] = argmin[j] %x[j]\n %4 q: i64[] = %3 -> %q[0]\n}";
  world w;
  open_world(&w);
  must(&w, read_text(&w, text));
  must(&w, tn_kdef_verify(&w.d, w.k));
  float t[6] = {0, 1, 10, 11, 20, 21}, x[6] = {1, 5, 5, -2, NAN, NAN}, y[8];
  int64_t i[4] = {0, -1, 2, 1}, p, q, elems[] = {6, 4, 6, 8, 1, 1};
  void *ptr[] = {t, i, x, y, &p, &q};
  must(&w, tn_kdef_interpret(&w.d, w.k, NULL, ptr, elems));
  assert_true(y[0] == 0 && y[3] == 21 && y[5] == 21 && y[6] == 10 && p == 4 && q == 4); /* the first NaN wins */
  x[4] = x[5] = 5;
  i[1] = 3; /* one too far: reported, and clamped */
  assert_int_equal(tn_kdef_interpret(&w.d, w.k, NULL, ptr, elems), TN_E_INDEX);
  assert_true(y[3] == 21 && p == 1 && q == 3);
  close_world(&w);
}

static void test_exact_sum(void **state) { /* in double, rounded once */
  (void)state;
  world w;
  open_world(&w);
  must(&w,
       read_text(&w,
                 "kernel @k(%x: f32[n]) -> (%y: f32[1], %z: i8[1]) {\n axis i: n\n %0 s: f32[] = sum[i] %x[i]\n %1 y: f32[] = %0 -> %y[0]\n"
                 " %2 c: i8[] = sum[i] 100:i8\n %3 z: i8[] = %2 -> %z[0]\n}"));
  must(&w, tn_kdef_verify(&w.d, w.k));
  float x[3] = {16777216, 1, 1}, y;
  int8_t z;
  must(&w, tn_kdef_interpret(&w.d, w.k, (int64_t[]){3}, (void *[]){x, &y, &z}, (int64_t[]){3, 1, 1}));
  assert_true(y == 16777218 && z == 44); /* integers wrap */
  must(&w, tn_kdef_interpret(&w.d, w.k, (int64_t[]){0}, (void *[]){x, &y, &z}, (int64_t[]){0, 1, 1}));
  assert_true(y == 0 && z == 0);
  close_world(&w);
}

/* Every allocation fails in turn. */
static void test_nomem(void **state) {
  (void)state;
  for (int64_t n = 1, done = 0; !done && n < 10000; n++) {
    world w;
    tn_str o;
    open_world(&w);
    tn_str_init(&o);
    tn_malloc_fail_after(n);
    tn_status s = read_text(&w, everything);
    if (s == TN_OK) s = tn_kdef_verify(&w.d, w.k);
    if (s == TN_OK) {
      tn_kdef_print(w.k, &o);
      s = o.oom ? TN_E_NOMEM : TN_OK;
    }
    tn_malloc_fail_after(0);
    if (s != TN_OK && s != TN_E_NOMEM && s != TN_E_PARSE) fail_msg("allocation %lld: %s", (long long)n, w.d.text); /* a dim says PARSE */
    done = s == TN_OK;
    tn_str_deinit(&o);
    close_world(&w);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_identity),    cmocka_unit_test(test_sharing_and_depth),
                                     cmocka_unit_test(test_malformed),   cmocka_unit_test(test_illegal),
                                     cmocka_unit_test(test_order),       cmocka_unit_test(test_softmax),
                                     cmocka_unit_test(test_convolution), cmocka_unit_test(test_index_and_winners),
                                     cmocka_unit_test(test_exact_sum),   cmocka_unit_test(test_nomem)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

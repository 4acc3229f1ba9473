/* Schedules: one line of text that reads back to itself; malformed lines and illegal schedules are refused with a reason. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "kir/sched.h"

typedef struct world {
  tn_arena a;
  tn_dims *dims;
  tn_diag d;
  tn_kdef *k;
  tn_ksched *s;
} world;

static void open_world(world *w, const char *text) {
  tn_arena_init(&w->a);
  tn_diag_clear(&w->d);
  w->dims = tn_dims_create();
  if (tn_kdef_parse(&w->d, &w->a, w->dims, text, strlen(text), &w->k) != TN_OK || tn_kdef_verify(&w->d, w->k) != TN_OK)
    fail_msg("%s", w->d.text);
}
static void close_world(world *w) {
  tn_arena_deinit(&w->a);
  tn_dims_destroy(w->dims);
}
static tn_status read_line(world *w, const char *line) { return tn_ksched_parse(&w->d, &w->a, w->k, line, strlen(line), &w->s); }

static const char linear[] = "kernel @linear(%x: f32[96,768], %w: f32[768,3072] frozen, %b: f32[3072]) -> (%y: f32[96,3072]) {\n"
                             "  axis i: 96, j: 3072, k: 768\n"
                             "  %0 acc: f32[i,j] = sum[k] mul(%x[i, k], %w[k, j])\n"
                             "  %1 y: f32[i,j] = relu(add(%0, %b[j])) -> %y[i, j]\n}\n";
static const char softmax[] =
    "kernel @softmax(%x: f32[s0,64]) -> (%y: f32[s0,64]) {\n  axis i: s0, j: 64\n  %0 m: f32[i] = max[j] %x[i, j]\n"
    "  %1 e: f32[i,j] = exp(sub(%x[i, j], %0))\n  %2 s: f32[i] = sum[j] %1\n  %3 y: f32[i,j] = div(%1, %2) -> %y[i, j]\n}\n";
static const char chain[] = "kernel @chain(%x: f32[8,9,10]) -> (%y: f32[8,9,10]) {\n  axis a: 8, b: 9, c: 10\n"
                            "  %0 y: f32[a,b,c] = relu(%x[a, b, c]) -> %y[a, b, c]\n}\n";
static const char winner[] = "kernel @winner(%x: f32[8,9]) -> (%y: i64[8]) {\n  axis a: 8, b: 9\n  %0 m: i64[a] = argmax[b] %x[a, b]\n  %1 "
                             "y: i64[a] = %0 -> %y[a]\n}\n";

typedef struct row {
  const char *def, *line, *say;
} row; /* say NULL: legal */
static const row rows[] = {
    {linear, "keep 0:reg; loop 0,1 order=i,j red=k", NULL},
    {linear, "par i/96 j/384; pack w; keep 0:reg; loop 0,1 order=j,i v=j:16x4 r=i:6 red=k; grain 2", NULL},
    {linear, "keep 0:scratch; loop 0 order=i,j v=j:8x1 red=k; loop 1 order=i,j", NULL},
    {linear, "keep 0:reg; loop 0,1 order=j,i v=j:16x2 r=i:6 red=k piece=128", NULL},
    {linear, "par i/1 j/1; keep 0:reg; loop 0 red=k; loop 1", NULL},
    {linear, "par j/1; share i/1; keep 0:reg; loop 0 v=k:16x4 red=k; loop 1", NULL},
    {softmax, "par i/8; share i/1; keep 0:reg 1:scratch 2:reg; loop 0 v=j:16x4 red=j; loop 2,1 v=j:16x1 red=j; loop 3 order=j v=j:16x1",
     NULL},
    {softmax, "par i/8; keep 0:scratch 2:scratch; loop 0 order=i red=j; loop 2 order=i red=j; loop 3 order=i,j", NULL},
    {chain, "merge a*b b*c; par c/64; loop 0 order=c v=c:16x4", NULL},
    {chain, "merge a*b; loop 0 outer order=b,c", NULL},
    {winner, "keep 0:reg; loop 0,1 order=a v=b:8x1 red=b", NULL},

    {linear, "", "stage 0 reduces and is not kept"},
    {linear, "keep 0:reg", "stage 0 is in no loop"},
    {linear, "keep 0:reg; loop 0 order=i,j red=k", "stage 1 is in no loop"},
    {linear, "keep 0:reg; loop 0 order=i,j red=k; loop 1 order=i,j", "stage 0 is in a register and read by stage 1 in another loop"},
    {linear, "keep 0:scratch; loop 1 order=i,j; loop 0 order=i,j red=k", "stage 0 is computed after stage 1"},
    {linear, "keep 0:reg 1:reg; loop 0,1 order=i,j red=k", "stage 1 is stored, not kept"},
    {linear, "keep 0:reg; loop 0,1 order=i red=k", "loop 0 lacks axis j of stage 0"},
    {linear, "keep 0:reg; loop 0,1 order=i,j", "does not reduce what stage 0 reduces"},
    {linear, "keep 0:reg; loop 0,1,0 order=i,j red=k", "stage 0 is computed twice"},
    {linear, "keep 0:reg; loop 0,1 order=i,j,i red=k", "order names axis i twice"},
    {linear, "keep 0:reg; loop 0,1 order=i,j,k red=k", "orders axis k, which is fixed or reduced"},
    {linear, "keep 0:reg; loop 0,1 order=i,j v=j:12x1 red=k", "vectors of 12 lanes"},
    {linear, "keep 0:reg; loop 0,1 order=i,j v=j:16x16 r=i:6 red=k", "a tile of 6 rows and 16 vectors"},
    {linear, "keep 0:reg; loop 0,1 order=i,j v=j:16x1 r=j:6 red=k", "row axis 1 is none of its loop's"},
    {linear, "par i/1; keep 0:reg; loop 0,1 order=j v=i:16x1 red=k", "vector axis 0 is none of its loop's"},
    {linear, "par i/1; keep 0:reg; loop 0,1 order=i,j red=k", "orders axis i, which is fixed or reduced"},
    {linear, "par k/8; keep 0:reg; loop 0,1 order=i,j red=k", "par axis k is reduced by stage 0"},
    {linear, "par i/0; keep 0:reg; loop 0,1 order=i,j red=k", "par i/0"},
    {linear, "merge i*j; keep 0:reg; loop 0,1 order=j red=k", "axes i and j do not merge"},
    {linear, "pack x; keep 0:reg; loop 0,1 order=i,j v=i:8x1 red=k", "x is packed but no weight"},
    {linear, "pack w; keep 0:reg; loop 0,1 order=i,j v=i:8x1 red=k", "does not read it in panels"},
    {linear, "par j/40; pack w; keep 0:reg; loop 0,1 order=i,j v=j:16x1 red=k", "blocks of j cut its panels"},
    {linear, "keep 0:reg; loop 0,1 order=i,j v=k:8x1 red=k piece=8", "takes its reduction in pieces of 8"},
    {softmax, "keep 0:reg 1:scratch 2:reg; loop 0,2,1,3 order=i red=j", "stage 3 varies along reduction axes"},
    {softmax, "keep 0:reg 1:scratch 2:reg; loop 0,2,1 order=i red=j; loop 3 order=i,j", "stage 0 is computed after stage 1"},
    {softmax, "keep 0:reg 2:reg; loop 0,2 order=i red=j; loop 3 order=i,j", "stages 0 and 2 reduce in one loop, and one reads the other"},
    {softmax, "keep 0:scratch 1:reg 2:scratch; loop 0 order=i red=j; loop 2,1 order=i red=j; loop 3 order=i,j",
     "stage 1 varies along reduction axes"},
    {softmax, "keep 0:scratch 2:scratch; loop 0 order=i red=j; loop 2 outer order=i red=j; loop 3 order=i,j",
     "stage 0 is computed after stage 2"},
    {chain, "merge a*b b*a; loop 0 order=c,a", "do not merge"},
    {chain, "merge a*b; loop 0 order=a,c", "names axis a, which is merged into b"},
    {winner, "keep 0:reg; loop 0,1 order=a red=b piece=2", "cannot be taken in pieces"},
};

static void test_rows(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    world w;
    tn_str o;
    open_world(&w, rows[i].def);
    if (read_line(&w, rows[i].line) != TN_OK) fail_msg("row %zu: %s", i, w.d.text);
    tn_str_init(&o);
    tn_ksched_print(w.s, w.k, &o);
    assert_string_equal(o.s ? o.s : "", rows[i].line);
    tn_str_deinit(&o);
    tn_status s = tn_ksched_verify(&w.d, w.k, w.s);
    if (s != (rows[i].say ? TN_E_VERIFY : TN_OK) || (rows[i].say && !strstr(w.d.text, rows[i].say)))
      fail_msg("row %zu: '%s' (%s)", i, w.d.text, rows[i].say ? rows[i].say : "legal");
    close_world(&w);
  }
}

static void test_malformed(void **state) {
  static const struct {
    const char *line, *say;
  } bad[] = {
      {"loops", "schedule 1:1: expected merge, par, share, pack, keep, loop or grain"},
      {"par i", "expected '/'"},
      {"par q/3", "no axis 'q'"},
      {"pack q", "no parameter 'q'"},
      {"keep 7:reg", "stage 7 of 2"},
      {"keep 0:memory", "expected 'reg' or 'scratch'"},
      {"loop 0 order=i; par i/3", "'par' after 'loop'"},
      {"par i/3; par j/4", "'par' after 'par'"},
      {"loop 0 v=i:16", "expected lanes x vectors"},
      {"loop 0 v=i:999x1", "999 lanes x 1 vectors"},
      {"loop 0 speed=3", "expected ';' or the end"},
      {"loop 0 red=k piece=0", "a piece of 0"},
      {"grain 0", "grain 0"},
      {"par i/99999999999999999999", "integer does not fit 64 bits"},
      {"loop 0; loop 0; loop 0; loop 0", "more loops than stages"},
      {"par i/3;", "expected merge"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    world w;
    open_world(&w, linear);
    tn_status s = read_line(&w, bad[i].line);
    if (s != TN_E_PARSE || !strstr(w.d.text, bad[i].say)) fail_msg("row %zu: '%s' (%s)", i, w.d.text, bad[i].say);
    close_world(&w);
  }
}

static void test_nomem(void **state) {
  (void)state;
  for (int64_t n = 1, done = 0; !done && n < 10000; n++) {
    world w;
    open_world(&w, linear);
    tn_malloc_fail_after(n);
    tn_status s = read_line(&w, rows[1].line);
    if (s == TN_OK) s = tn_ksched_verify(&w.d, w.k, w.s);
    tn_malloc_fail_after(0);
    if (s != TN_OK && s != TN_E_NOMEM && s != TN_E_ARG) fail_msg("allocation %lld: %s", (long long)n, w.d.text);
    done = s == TN_OK;
    close_world(&w);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_malformed), cmocka_unit_test(test_nomem)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

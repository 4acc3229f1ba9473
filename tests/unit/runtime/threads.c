/* One program, many threads, each with its own run; and a forked child. Results are compared with known numbers. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
#include "runtime_test.h"

/* y[b] = 64 * b through scratch; z = y + y */
static const char text[] =
    "plan \"threads\" {\n"
    "  sym s0, range 1..max, input 0 dim 0\n"
    "  in 0 f32[s0], strides [1]\n"
    "  buf 0 arena, bytes 4*s0, steps 0..1\n  buf 1 output 0\n  buf 2 input 0\n"
    "  view 0 buf 0, f32[s0], strides [1]\n  view 1 buf 1, f32[s0], strides [1]\n  view 2 buf 2, f32[s0], strides [1]\n"
    "  kernel 0 \"k_scratch\", params 1, sizes 0, object 1, hash 0000000000000000\n"
    "  kernel 1 \"k_add\", params 3, sizes 1, object 1, hash 0000000000000000\n"
    "  step 0 launch 0 (0), blocks s0, grain 16, scratch 256\n"
    "  step 1 launch 1 (0, 2, 1), sizes [s0], blocks floordiv(s0 + 63, 64), grain 1\n"
    "  out 0 view 1\n}\n";

enum { MOST = 2000, THREADS = 4 };

typedef struct job { const tn_program *g; int seed; int bad; } job;

static void *work(void *ctx) {
  job *j = ctx;
  tn_run_options o;
  tn_run *r;
  tn_run_options_init(&o);
  o.threads = 1 + j->seed % 3; /* pools of different size, some shared */
  if (tn_run_create(j->g, &o, &r) != TN_OK) return j->bad = 1, NULL;
  float *x = malloc(2 * MOST * sizeof *x), *y = x + MOST;
  for (int i = 0; i < MOST; i++) x[i] = (float)(i * j->seed);
  for (int call = 0; call < 100; call++) {
    int64_t n = 1 + (call * 37 + j->seed * 11) % MOST;
    tn_tensor in = {x, &n, NULL, 1, TN_F32}, out;
    for (int i = 0; i < n; i++) y[i] = -1;
    if (tn_run_bind(r, &in, NULL) != TN_OK || tn_run_out(r, 0, &out) != TN_OK) j->bad++;
    out.data = y;
    if (tn_run_exec(r, &out) != TN_OK) j->bad++;
    for (int i = 0; i < n; i++) j->bad += y[i] != 64.0f * (float)i + x[i];
  }
  free(x);
  tn_run_destroy(r);
  return NULL;
}

static void test_threads(void **state) {
  (void)state;
  tn_program *g = program_of(text);
  pthread_t t[THREADS];
  job j[THREADS];
  for (int i = 0; i < THREADS; i++) {
    j[i] = (job){g, i + 1, 0};
    assert_int_equal(pthread_create(&t[i], NULL, work, &j[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(t[i], NULL);
    assert_int_equal(j[i].bad, 0);
  }
  tn_program_destroy(g);
}

static void test_fork(void **state) {
  (void)state;
#ifdef __SANITIZE_THREAD__
  skip(); /* the thread sanitizer ends children that start threads */
#endif
  tn_program *g = program_of(text);
  job j = {g, 1, 0}; /* two threads: the pool runs before and after the fork */
  work(&j);
  assert_int_equal(j.bad, 0);
  pid_t child = fork();
  if (child == 0) {
    work(&j);
    _exit(j.bad != 0);
  }
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  work(&j);
  assert_int_equal(j.bad, 0);
  tn_program_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_threads), cmocka_unit_test(test_fork)};
  return cmocka_run_group_tests(tests, load_object, free_object);
}

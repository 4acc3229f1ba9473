/* The pool: every block once, worker numbers that are unique in a job, callers from several threads, nesting, fork. */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/pool.h"

enum { N = 1000 };
typedef struct job {
  tn_pool *pool;
  atomic_int hits[N];
  atomic_int inside[8]; /* threads inside the function per worker number */
  atomic_int clashes;
  int n_threads, spin;
} job;

static void count(void *ctx, int64_t lo, int64_t hi, int worker) {
  job *j = ctx;
  if (worker < 0 || worker >= j->n_threads || atomic_fetch_add(&j->inside[worker], 1) != 0) atomic_fetch_add(&j->clashes, 1);
  for (int64_t i = lo; i < hi; i++) {
    atomic_fetch_add(&j->hits[i], 1);
    for (volatile int k = 0; k < j->spin; k++) {}
  }
  if (worker >= 0 && worker < j->n_threads) atomic_fetch_sub(&j->inside[worker], 1);
}

static bool run_and_check(tn_pool *p, int64_t n, int64_t grain, int spin) {
  job *j = calloc(1, sizeof *j);
  j->n_threads = tn_pool_n_threads(p);
  j->spin = spin;
  tn_pool_run(p, count, j, n, grain);
  bool ok = atomic_load(&j->clashes) == 0;
  for (int64_t i = 0; i < N; i++) ok = ok && atomic_load(&j->hits[i]) == (i < n);
  free(j);
  return ok;
}

static void test_every_block_once(void **state) {
  (void)state;
  static const int64_t sizes[] = {0, 1, 2, 3, 7, 64, 999, 1000}, grains[] = {0, 1, 3, 64, 5000};
  for (int threads = 1; threads <= 4; threads++) {
    tn_pool *p = tn_pool_create(threads);
    assert_non_null(p);
    assert_int_equal(tn_pool_n_threads(p), threads);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
      for (size_t g = 0; g < sizeof grains / sizeof *grains; g++) assert_true(run_and_check(p, sizes[s], grains[g], 10));
    tn_pool_destroy(p);
  }
  assert_true(run_and_check(NULL, 10, 1, 0));
  tn_pool_destroy(NULL);
  tn_pool *idle = tn_pool_create(-3);
  assert_int_equal(tn_pool_n_threads(idle), 1);
  tn_pool_destroy(idle);
}

static void test_many_jobs(void **state) {
  (void)state;
  tn_pool *p = tn_pool_create(3);
  for (int i = 0; i < 3000; i++) {
    assert_true(run_and_check(p, 2 + i % 9, 1, 0));
    if (i % 500 == 0) usleep(200); /* long enough for workers to go to sleep */
  }
  int64_t before = tn_malloc_count();
  run_and_check(p, 50, 1, 0);
  assert_int_equal(tn_malloc_count(), before);
  tn_pool_destroy(p);
}

static void *hammer(void *arg) {
  bool ok = true;
  for (int i = 0; i < 800 && ok; i++) ok = run_and_check(arg, 1 + i % 40, 1 + i % 3, 20);
  return ok ? arg : NULL;
}

static void test_concurrent_callers(void **state) {
  (void)state;
  tn_pool *p = tn_pool_create(3);
  pthread_t t[4];
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&t[i], NULL, hammer, p), 0);
  for (int i = 0; i < 4; i++) {
    void *r;
    pthread_join(t[i], &r);
    assert_ptr_equal(r, p);
  }
  tn_pool_destroy(p);
}

typedef struct outer {
  tn_pool *pool;
  atomic_int bad;
} outer;

static void nest(void *ctx, int64_t lo, int64_t hi, int worker) {
  (void)worker;
  outer *o = ctx;
  for (int64_t i = lo; i < hi; i++)
    if (!run_and_check(o->pool, 20, 1, 0)) atomic_fetch_add(&o->bad, 1);
}

static void test_nested(void **state) {
  (void)state;
  outer o = {.pool = tn_pool_create(3)};
  tn_pool_run(o.pool, nest, &o, 30, 1);
  assert_int_equal(atomic_load(&o.bad), 0);
  tn_pool_destroy(o.pool);
}

static void test_fork(void **state) {
  (void)state;
#ifdef __SANITIZE_THREAD__
  skip(); /* the thread sanitizer ends children that start threads */
#endif
  tn_pool *p = tn_pool_create(3);
  assert_true(run_and_check(p, 100, 1, 10));
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    bool ok = true;
    for (int i = 0; i < 100; i++) ok = ok && run_and_check(p, 100, 1, 10);
    tn_pool_destroy(p);
    _exit(ok ? 0 : 1);
  }
  int status;
  waitpid(child, &status, 0);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  assert_true(run_and_check(p, 100, 1, 10));
  tn_pool_destroy(p);
}

/* Both chunks wait for each other, so two threads must come; a limit keeps a busy machine from hanging here. */
static void meet(void *ctx, int64_t lo, int64_t hi, int worker) {
  (void)lo, (void)hi, (void)worker;
  atomic_int *here = ctx;
  atomic_fetch_add(here, 1);
  for (uint64_t end = tn_now_ns() + 1000000; atomic_load(here) < 2 && tn_now_ns() < end;) {}
}

/* Says what a fork-join costs in which a second thread takes part; no bound is asserted, the machine may be busy. */
static void test_cost(void **state) {
  (void)state;
  tn_pool *p = tn_pool_create(2);
  uint64_t best = UINT64_MAX;
  for (int rep = 0; rep < 50; rep++) {
    uint64_t t0 = tn_now_ns();
    for (int i = 0; i < 10; i++) {
      atomic_int here = 0;
      tn_pool_run(p, meet, &here, 2, 1);
    }
    uint64_t each = (tn_now_ns() - t0) / 10;
    best = each < best ? each : best;
  }
  print_message("fork-join with both of 2 threads taking part: %llu ns (best of 50 means of 10)\n", (unsigned long long)best);
  tn_pool_destroy(p);
}

static void test_out_of_memory(void **state) {
  (void)state;
  for (int k = 1; k <= 2; k++) {
    tn_malloc_fail_after(k);
    tn_pool *p = tn_pool_create(2);
    tn_malloc_fail_after(0);
    assert_null(p);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_block_once), cmocka_unit_test(test_many_jobs), cmocka_unit_test(test_concurrent_callers),
      cmocka_unit_test(test_nested),           cmocka_unit_test(test_fork),      cmocka_unit_test(test_cost),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests_name("base/pool", tests, NULL, NULL);
}

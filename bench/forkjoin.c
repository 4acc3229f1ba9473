/* One fork-join with nothing to do, and with 20 us of work per thread: our pool beside OpenMP's (when compiled with
 * -fopenmp), on the machine as it is and with one more busy thread per core. Prints one JSON line per case.
 * Work is a number of loops that takes 20 us alone, so a thread that is not scheduled shows.
 *
 *   gcc -O2 -fopenmp -Isrc -Iinclude bench/forkjoin.c build/libroom_base.a -lm -lpthread -o forkjoin && ./forkjoin [threads]   */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/pool.h"

enum { ROUNDS = 2001 };
static atomic_bool stop;
static uint64_t work; /* loops per block */

static void body(void *ctx, int64_t lo, int64_t hi, int worker) {
  (void)ctx, (void)worker;
  for (int64_t i = lo; i < hi; i++)
    for (volatile uint64_t k = 0; k < work; k++) {}
}

static void *spin(void *p) {
  while (!atomic_load_explicit(&stop, memory_order_relaxed)) {}
  return p;
}

static int by_time(const void *a, const void *b) { return (*(const uint64_t *)a > *(const uint64_t *)b) - (*(const uint64_t *)a < *(const uint64_t *)b); }

static void run_pool(tn_pool *p, int threads) { tn_pool_run(p, body, NULL, threads, 1); }
static void run_openmp(tn_pool *p, int threads) {
  (void)p;
#ifdef _OPENMP
#pragma omp parallel for num_threads(threads) schedule(static, 1)
  for (int i = 0; i < threads; i++) body(NULL, i, i + 1, 0);
#else
  body(NULL, 0, threads, 0);
#endif
}

static void measure(const char *name, void (*run)(tn_pool *, int), tn_pool *p, int threads, int busy) {
  static uint64_t t[ROUNDS];
  for (int i = 0; i < 100; i++) run(p, threads);
  for (int i = 0; i < ROUNDS; i++) {
    t[i] = tn_now_ns();
    run(p, threads);
    t[i] = tn_now_ns() - t[i];
  }
  double sum = 0;
  for (int i = 0; i < ROUNDS; i++) sum += (double)t[i];
  qsort(t, ROUNDS, sizeof *t, by_time);
  printf("{\"pool\":\"%s\",\"threads\":%d,\"busy_threads\":%d,\"work_us\":%.0f,\"median_us\":%.2f,\"mean_us\":%.2f,\"p99_us\":%.2f}\n", name, threads, busy, work ? 20.0 : 0.0,
         (double)t[ROUNDS / 2] / 1e3, sum / ROUNDS / 1e3, (double)t[ROUNDS * 99 / 100] / 1e3);
}

int main(int argc, char **argv) {
  cpu_set_t set;
  int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1, threads = argc > 1 ? atoi(argv[1]) : cores;
  tn_pool *p = tn_pool_create(threads);
  pthread_t *t = calloc((size_t)cores, sizeof *t);
  if (!p || !t) return 1;
  uint64_t best = UINT64_MAX; /* ns for 100,000 loops */
  work = 100000;
  for (int i = 0; i < 20; i++) {
    uint64_t t0 = tn_now_ns();
    body(NULL, 0, 1, 0);
    t0 = tn_now_ns() - t0;
    if (t0 < best) best = t0;
  }
  uint64_t loops = 100000 * 20000 / best;
  for (int busy = 0; busy < 2; busy++) {
    if (busy)
      for (int i = 0; i < cores; i++)
        if (pthread_create(&t[i], NULL, spin, NULL) != 0) return 1;
    for (int with_work = 0; with_work < 2; with_work++) {
      work = with_work ? loops : 0;
      measure("tenon", run_pool, p, threads, busy ? cores : 0);
#ifdef _OPENMP
      measure("openmp", run_openmp, p, threads, busy ? cores : 0);
#endif
    }
  }
  atomic_store(&stop, true);
  for (int i = 0; i < cores; i++) pthread_join(t[i], NULL);
  free(t);
  tn_pool_destroy(p);
  return 0;
}

/* peaks.c: what this machine can do, measured: float32 fused multiply-adds a second, and bytes a second to and from memory.
 *
 *   cc -O2 -pthread bench/peaks.c -o build/peaks && build/peaks [threads] > bench/results/peaks.json
 *
 * bench/table.py sets the figures of bench/side.py against these. Every figure is the best of several short runs, for one thread and for
 * all (default: the cores this process may use), which start together. The multiply-add loop holds enough independent chains to cover the
 * latency of the unit; it uses the widest vectors that the processor has (AVX-512, AVX2, else what the compiler makes of plain C).
 * The memory loops walk arrays far larger than caches: read sums them, copy reads one and writes the other, once with ordinary stores (which
 * read the line first on most machines; that traffic is not counted) and once with stores that bypass the caches.
 * It does not measure bfloat16, tiles or integer units. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { MAX_THREADS = 256, REPEATS = 7, FMA_ROUNDS = 1 << 21, ARRAY_BYTES = 192 << 20 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- multiply-add: each returns the operations it did; the sum keeps the loop alive ---- */
static volatile float sink;

#if defined(__x86_64__)
#define CHAINS(V, set, fma, add, lanes, n)                                   \
  V acc[n], a = set(0.999999f), b = set(1e-6f), sum;                         \
  for (int k = 0; k < (n); k++) acc[k] = set((float)k);                      \
  for (int i = 0; i < FMA_ROUNDS; i++)                                       \
    for (int k = 0; k < (n); k++) acc[k] = fma(acc[k], a, b);                \
  sum = acc[0];                                                              \
  for (int k = 1; k < (n); k++) sum = add(sum, acc[k]);                      \
  sink = sum[0];                                                             \
  return 2.0 * (lanes) * (n) * FMA_ROUNDS

__attribute__((target("avx512f"), optimize("unroll-loops"))) static double fma_avx512(void) {
  CHAINS(__m512, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_add_ps, 16, 16);
}
__attribute__((target("avx2,fma"), optimize("unroll-loops"))) static double fma_avx2(void) {
  CHAINS(__m256, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_add_ps, 8, 12);
}
#endif
static double fma_plain(void) {
  float acc[16], a = 0.999999f, b = 1e-6f, sum = 0;
  for (int k = 0; k < 16; k++) acc[k] = (float)k;
  for (int i = 0; i < FMA_ROUNDS; i++)
    for (int k = 0; k < 16; k++) acc[k] = acc[k] * a + b;
  for (int k = 0; k < 16; k++) sum += acc[k];
  sink = sum;
  return 2.0 * 16 * FMA_ROUNDS;
}

/* ---- memory: from and to hold n bytes, n a multiple of 64; each returns bytes counted ---- */
typedef double memory_fn(const char *from, char *to, size_t n);
static double read_plain(const char *from, char *to, size_t n) {
  uint64_t sum[8] = {0};
  (void)to;
  for (size_t i = 0; i < n; i += 64)
    for (int k = 0; k < 8; k++) {
      uint64_t v;
      memcpy(&v, from + i + 8 * k, 8);
      sum[k] += v;
    }
  for (int k = 1; k < 8; k++) sum[0] += sum[k];
  sink = (float)sum[0];
  return (double)n;
}
static double copy_plain(const char *from, char *to, size_t n) {
  memcpy(to, from, n);
  return 2.0 * (double)n;
}
#if defined(__x86_64__)
__attribute__((target("avx2"))) static double read_avx2(const char *from, char *to, size_t n) {
  __m256i s0 = _mm256_setzero_si256(), s1 = s0;
  (void)to;
  for (size_t i = 0; i < n; i += 64) {
    s0 = _mm256_add_epi64(s0, _mm256_load_si256((const __m256i *)(from + i)));
    s1 = _mm256_add_epi64(s1, _mm256_load_si256((const __m256i *)(from + i + 32)));
  }
  s0 = _mm256_add_epi64(s0, s1);
  sink = (float)_mm_cvtsi128_si64(_mm256_castsi256_si128(s0));
  return (double)n;
}
__attribute__((target("avx2"))) static double copy_avx2(const char *from, char *to, size_t n) {
  for (size_t i = 0; i < n; i += 64) {
    _mm256_store_si256((__m256i *)(to + i), _mm256_load_si256((const __m256i *)(from + i)));
    _mm256_store_si256((__m256i *)(to + i + 32), _mm256_load_si256((const __m256i *)(from + i + 32)));
  }
  return 2.0 * (double)n;
}
__attribute__((target("avx2"))) static double stream_avx2(const char *from, char *to, size_t n) {
  for (size_t i = 0; i < n; i += 64) {
    _mm256_stream_si256((__m256i *)(to + i), _mm256_load_si256((const __m256i *)(from + i)));
    _mm256_stream_si256((__m256i *)(to + i + 32), _mm256_load_si256((const __m256i *)(from + i + 32)));
  }
  _mm_sfence();
  return 2.0 * (double)n;
}
#endif

/* ---- the best kernels of this processor ---- */
typedef struct kernels {
  const char *vector;
  double (*fma)(void);
  memory_fn *read, *copy, *stream; /* stream NULL: none */
} kernels;

static kernels choose(void) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f")) return (kernels){"avx512", fma_avx512, read_avx2, copy_avx2, stream_avx2};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return (kernels){"avx2", fma_avx2, read_avx2, copy_avx2, stream_avx2};
#endif
  return (kernels){"plain", fma_plain, read_plain, copy_plain, NULL};
}

/* ---- threads that start together ---- */
typedef struct job {
  pthread_barrier_t *start;
  double (*fma)(void);
  memory_fn *memory;
  char *from, *to;
  size_t n;
  double work, begin, end;
} job;

static void *work(void *p) {
  job *j = p;
  pthread_barrier_wait(j->start);
  j->begin = now();
  j->work = j->fma ? j->fma() : j->memory(j->from, j->to, j->n);
  j->end = now();
  return NULL;
}

/* Best rate over the repeats, work of all threads by the time from the first begin to the last end. 0: a thread could not start. */
static double rate(int threads, double (*fma)(void), memory_fn *memory, char *from, char *to) {
  double best = 0;
  for (int r = 0; r < REPEATS; r++) {
    pthread_barrier_t start;
    pthread_t id[MAX_THREADS];
    job j[MAX_THREADS];
    size_t part = ARRAY_BYTES / (size_t)threads / 64 * 64;
    pthread_barrier_init(&start, NULL, (unsigned)threads);
    for (int k = 0; k < threads; k++) {
      j[k] = (job){&start, fma, memory, from + (size_t)k * part, to + (size_t)k * part, part, 0, 0, 0};
      if (pthread_create(&id[k], NULL, work, &j[k])) { /* the others wait at the barrier: nothing to save */
        fprintf(stderr, "peaks: thread %d of %d did not start\n", k, threads);
        exit(1);
      }
    }
    double total = 0, begin = 1e300, end = 0;
    for (int k = 0; k < threads; k++) {
      pthread_join(id[k], NULL);
      total += j[k].work;
      if (j[k].begin < begin) begin = j[k].begin;
      if (j[k].end > end) end = j[k].end;
    }
    pthread_barrier_destroy(&start);
    if (total / (end - begin) > best) best = total / (end - begin);
  }
  return best;
}

static void report(const char *name, int threads, const kernels *k, char *from, char *to, const char *after) {
  printf("  \"%s\": {\"threads\": %d, \"fma_f32_gflops\": %.1f, \"read_gbs\": %.2f, \"copy_gbs\": %.2f", name, threads,
         rate(threads, k->fma, NULL, from, to) / 1e9, rate(threads, NULL, k->read, from, to) / 1e9, rate(threads, NULL, k->copy, from, to) / 1e9);
  if (k->stream) printf(", \"copy_stream_gbs\": %.2f", rate(threads, NULL, k->stream, from, to) / 1e9);
  printf("}%s\n", after);
}

int main(int argc, char **argv) {
  cpu_set_t set;
  int threads = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
  if (argc > 1) threads = atoi(argv[1]);
  if (threads < 1 || threads > MAX_THREADS) {
    fprintf(stderr, "peaks: threads must be 1 to %d\n", MAX_THREADS);
    return 2;
  }
  kernels k = choose();
  char *from = aligned_alloc(4096, ARRAY_BYTES), *to = aligned_alloc(4096, ARRAY_BYTES);
  if (!from || !to) {
    fprintf(stderr, "peaks: no %d MiB\n", 2 * (ARRAY_BYTES >> 20));
    return 1;
  }
  memset(from, 1, ARRAY_BYTES);
  memset(to, 2, ARRAY_BYTES);
  printf("{\n  \"vector\": \"%s\", \"array_mib\": %d,\n", k.vector, ARRAY_BYTES >> 20);
  report("one", 1, &k, from, to, ",");
  report("all", threads, &k, from, to, "");
  printf("}\n");
  free(from);
  free(to);
  return 0;
}

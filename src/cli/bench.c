/* bench: how long a model takes: runs after a warm-up, percentiles; and kernel by kernel, from the run time's own step times (TENON_LOG=run), with arithmetic and
 * bytes a second set against what this machine was just measured to do. Operands count once each, so a kernel whose operands stay in cache can be above the
 * memory's figure. */
#define _GNU_SOURCE
#include "model.h"
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* ---- kernels ---- */

typedef struct row { char name[200]; double us, bytes, work; long calls; } row;
typedef struct table { row *at; size_t n, cap; } table;

static void add_line(void *user, const char *channel, const char *line) {
  table *t = user;
  double us;
  long long blocks, bytes, work;
  int step, at = 0;
  if (strcmp(channel, "run") != 0 || sscanf(line, "step %d %lf us blocks %lld bytes %lld work %lld %n", &step, &us, &blocks, &bytes, &work, &at) < 5 || !at) return;
  const char *name = line + at;
  size_t i = 0;
  while (i < t->n && strcmp(t->at[i].name, name) != 0) i++;
  if (i == t->n) {
    if (t->n == t->cap) {
      size_t cap = t->cap ? 2 * t->cap : 64;
      row *more = realloc(t->at, cap * sizeof *more);
      if (!more) return;
      t->at = more;
      t->cap = cap;
    }
    t->at[t->n] = (row){.us = 0};
    snprintf(t->at[t->n++].name, sizeof t->at->name, "%s", name);
  }
  t->at[i].us += us;
  t->at[i].bytes += (double)bytes;
  t->at[i].work += (double)work;
  t->at[i].calls++;
}

static int slower(const void *a, const void *b) {
  double x = ((const row *)a)->us, y = ((const row *)b)->us;
  return x < y ? 1 : x > y ? -1 : 0;
}

/* ---- peaks: a few ms each, on all threads ---- */

enum { READ_BYTES = 64 << 20 };
typedef struct peak_arg { int fma; const float *p; size_t n; double did; volatile float sink; } peak_arg;

static inline __attribute__((always_inline)) void peak(peak_arg *a) {
  typedef float v16 __attribute__((vector_size(64)));
  v16 acc[16];
  for (int k = 0; k < 16; k++) acc[k] = (v16){0} + (float)k;
  if (a->fma) {
    v16 m = (v16){0} + 0.999999f, c = (v16){0} + 1e-6f;
    for (int i = 0; i < 1 << 18; i++)
      for (int k = 0; k < 16; k++) acc[k] = acc[k] * m + c;
    a->did = 2.0 * 16 * 16 * (1 << 18);
  } else {
    for (size_t i = 0; i + 256 <= a->n; i += 256)
      for (int k = 0; k < 16; k++) acc[k] += *(const v16 *)(a->p + i + 16 * (size_t)k);
    a->did = (double)(a->n * sizeof(float));
  }
  for (int k = 1; k < 16; k++) acc[0] += acc[k];
  a->sink = acc[0][0];
}

#if defined(__x86_64__)
__attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), optimize("fast-math", "unroll-loops"))) static void work(peak_arg *a) { peak(a); }
#else
static void work(peak_arg *a) { peak(a); }
#endif
static void *peak_thread(void *u) {
  work(u);
  return NULL;
}

/* Operations or bytes a second, the best of five. */
static double peak_of(int fma, int threads, const float *p) {
  double best = 0;
  threads = threads < 64 ? threads : 64;
  for (int r = 0; r < 5; r++) {
    pthread_t t[64];
    peak_arg a[64];
    double t0 = cli_now_ms(), did = 0;
    int n = 0;
    for (int i = 0; i < threads; i++) a[i] = (peak_arg){fma, p ? p + (size_t)i * (READ_BYTES / 4 / (size_t)threads) : NULL, READ_BYTES / 4 / (size_t)threads, 0, 0};
    for (int i = 1; i < threads; i++)
      if (pthread_create(&t[n], NULL, peak_thread, &a[i]) == 0) n++;
    work(&a[0]);
    for (int i = 0; i < n; i++) pthread_join(t[i], NULL);
    for (int i = 0; i <= n; i++) did += a[i].did;
    double rate = did / (cli_now_ms() - t0) * 1e3;
    if (rate > best) best = rate;
  }
  return best;
}

/* ---- timing ---- */

static int cores(void) {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

typedef struct bench { tn_session *s; tn_value **in, **out; size_t n_out; double *ms; size_t n, cap; const char *path; } bench;

static int once(bench *b, double *ms) {
  double t = cli_now_ms();
  tn_status st = tn_session_run(b->s, b->in, b->out);
  *ms = cli_now_ms() - t;
  if (st != TN_OK) {
    fprintf(stderr, "tenon bench: %s: %s: %s\n", b->path, tn_status_name(st), tn_session_error(b->s));
    return CLI_FAILED;
  }
  cli_values_free(b->out, b->n_out);
  memset(b->out, 0, b->n_out * sizeof *b->out);
  return CLI_OK;
}

/* For at least `seconds` and 3 runs, or exactly `runs`. */
static int measure(bench *b, double seconds, long runs) {
  double t0 = cli_now_ms(), ms;
  b->n = 0;
  for (long k = 0; runs ? k < runs : k < 3 || cli_now_ms() - t0 < seconds * 1e3; k++) {
    int r = once(b, &ms);
    if (r != CLI_OK) return r;
    if (b->n == b->cap) {
      size_t cap = b->cap ? 2 * b->cap : 1024;
      double *more = realloc(b->ms, cap * sizeof *more);
      if (!more) return cli_failed("bench", "out of memory");
      b->ms = more;
      b->cap = cap;
    }
    b->ms[b->n++] = ms;
  }
  qsort(b->ms, b->n, sizeof *b->ms, by_value);
  return CLI_OK;
}

static double quantile(const bench *b, double q) {
  size_t i = (size_t)(q * (double)b->n);
  return b->ms[i < b->n ? i : b->n - 1];
}

static void kernel_table(const table *t, long runs, int threads, int json) {
  float *p = aligned_alloc(64, READ_BYTES);
  if (p) memset(p, 0, READ_BYTES);
  double flops = peak_of(1, threads, NULL), gb = p ? peak_of(0, threads, p) : 0, all = 0;
  free(p);
  qsort(t->at, t->n, sizeof *t->at, slower);
  for (size_t i = 0; i < t->n; i++) all += t->at[i].us;
  if (json) printf(", \"peak_gflops\": %.1f, \"peak_gbytes\": %.1f, \"kernels\": [", flops / 1e9, gb / 1e9);
  else printf("\nmeasured peaks on %d threads: %.0f GFLOP/s (float32), %.1f GB/s (read)\n\n%9s %6s %6s %9s %8s %8s %8s  %s\n", threads, flops / 1e9, gb / 1e9, "ms/run", "share", "calls", "GFLOP/s", "of peak",
              "GB/s", "of peak", "step");
  for (size_t i = 0; i < t->n; i++) {
    const row *r = &t->at[i];
    double f = r->us > 0 ? r->work / r->us / 1e3 : 0, g = r->us > 0 ? r->bytes / r->us / 1e3 : 0;
    if (json) {
      printf("%s{\"step\": ", i ? ", " : "");
      cli_json_text(stdout, r->name);
      printf(", \"ms\": %.5f, \"share\": %.4f, \"calls\": %.1f, \"gflops\": %.2f, \"gbytes\": %.2f}", r->us / 1e3 / (double)runs, all > 0 ? r->us / all : 0, (double)r->calls / (double)runs, f, g);
    } else {
      printf("%9.4f %5.1f%% %6.0f %9.1f %7.0f%% %8.1f %7.0f%%  %s\n", r->us / 1e3 / (double)runs, all > 0 ? 100 * r->us / all : 0, (double)r->calls / (double)runs, f, flops > 0 ? 100e9 * f / flops : 0, g,
             gb > 0 ? 100e9 * g / gb : 0, r->name);
    }
  }
  if (json) printf("]");
  else printf("%9.4f in kernels and library calls\n", all / 1e3 / (double)runs);
}

int cli_bench(int argc, char **argv) {
  cli_common c = {0};
  cli_inputs in = {.random = 1};
  const char *pos[1], *seconds = "2";
  char *end;
  long runs = 0;
  int json = 0, kernels = 0, n_pos, r;
  const cli_option opts[] = {CLI_COMMON(c), {"--inputs", CLI_O_LIST, &in.files}, {"--seed", CLI_O_INT, &in.seed}, {"--seconds", CLI_O_TEXT, &seconds}, {"--runs", CLI_O_INT, &runs},
                             {"--kernels", CLI_O_FLAG, &kernels}, {"--json", CLI_O_FLAG, &json}};
  if ((r = cli_args(argc, argv, opts, sizeof opts / sizeof *opts, pos, 1, &n_pos)) != CLI_OK) return r;
  if (n_pos != 1) return cli_usage("bench", "one MODEL or PACKAGE is wanted");
  double want = strtod(seconds, &end);
  if (*end || !*seconds || want < 0 || runs < 0) return cli_usage("bench", "--seconds and --runs want numbers");
  cli_model m;
  if ((r = cli_model_load("bench", pos[0], &c, &m)) != CLI_OK) return r;
  size_t n_in = tn_model_n_in(m.m), n_out = tn_model_n_out(m.m);
  tn_value **v = calloc(n_in + n_out + 1, sizeof *v);
  bench b = {.in = v, .out = v ? v + n_in : NULL, .n_out = n_out, .path = pos[0]};
  tn_session_options so;
  tn_session_options_init(&so);
  so.threads = (int32_t)c.threads;
  table t = {0};
  tn_session *logged = NULL;
  double first = 0;
  r = v ? cli_inputs_get("bench", m.m, &in, &c, v) : cli_failed("bench", "out of memory");
  if (r == CLI_OK && tn_session_create(m.m, &so, &b.s) != TN_OK) r = cli_failed("bench", "a session can't be made");
  if (r == CLI_OK) r = once(&b, &first);
  if (r == CLI_OK) r = measure(&b, want / 4, runs ? 1 + runs / 4 : 0); /* warm-up */
  if (r == CLI_OK) r = measure(&b, want, runs);
  if (r == CLI_OK) {
    double sum = 0;
    for (size_t i = 0; i < b.n; i++) sum += b.ms[i];
    tn_session_stats st;
    struct rusage use;
    tn_session_get_stats(b.s, &st);
    getrusage(RUSAGE_SELF, &use);
    if (json) printf("{\"load_ms\": %.3f, \"first_ms\": %.4f, \"runs\": %zu, \"mean_ms\": %.5f, \"p50_ms\": %.5f, \"p90_ms\": %.5f, \"p99_ms\": %.5f, \"best_ms\": %.5f, \"arena_bytes\": %llu, \"packed_bytes\": %llu, \"process_peak_bytes\": %lld", m.ms, first, b.n, sum / (double)b.n,
                     quantile(&b, .5), quantile(&b, .9), quantile(&b, .99), b.ms[0], (unsigned long long)st.arena_bytes, (unsigned long long)st.packed_bytes, (long long)use.ru_maxrss * 1024);
    else printf("load %.1f ms, first run %.3f ms, then %zu runs: p50 %.4f ms, p90 %.4f, p99 %.4f, best %.4f, mean %.4f\nmemory: arena %.1f KiB, packed while running %.1f KiB, peak of the process %.1f MiB%s\n", m.ms, first, b.n, quantile(&b, .5), quantile(&b, .9),
                quantile(&b, .99), b.ms[0], sum / (double)b.n, (double)st.arena_bytes / 1024, (double)st.packed_bytes / 1024, (double)use.ru_maxrss / 1024, m.c ? " with the compiler" : "");
  }
  if (r == CLI_OK && kernels) { /* another session: it looks at the log channels when it is made */
    tn_session *plain = b.s;
    long n = (long)b.n < 20 ? (long)b.n : 20;
    double ms;
    setenv("TENON_LOG", "run", 1);
    tn_set_log(add_line, &t);
    if (tn_session_create(m.m, &so, &logged) != TN_OK) r = cli_failed("bench", "a session can't be made");
    b.s = logged;
    if (r == CLI_OK) r = once(&b, &ms);
    t.n = 0;
    for (long k = 0; k < n && r == CLI_OK; k++) r = once(&b, &ms);
    b.s = plain;
    if (r == CLI_OK) kernel_table(&t, n, c.threads > 0 && c.threads < 64 ? (int)c.threads : cores(), json);
  }
  if (r == CLI_OK && json) printf("}\n");
  tn_session_destroy(logged);
  tn_session_destroy(b.s);
  if (v) cli_values_free(v, n_in + n_out);
  free(v);
  free(b.ms);
  free(t.at);
  cli_model_free(&m);
  return r;
}

/* A small mutation fuzzer for any file that defines LLVMFuzzerTestOneInput, so that fuzzing needs no compiler of its own
 * (the same files link with libFuzzer):  fuzz_<name> <seconds> [folder of seeds, or one crashing input]
 *
 * Mutates seeds (or text made of their pieces), and in every fourth run lets a random allocation and all after it fail. Built with
 * -fsanitize-coverage=trace-pc, an input that reaches a new edge between basic blocks becomes a seed. FUZZ_SEED numbers another run.
 * An input that crashes, or takes a minute, is left in fuzz-crash.tmp. */
#define _GNU_SOURCE
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/base.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
void __sanitizer_set_death_callback(void (*fn)(void)) __attribute__((weak));

enum { INPUT_BYTES = 1 << 16, MAX_SEEDS = 8192, EDGES = 1 << 18, PATIENCE_S = 60 };
static uint8_t input[INPUT_BYTES];
static size_t input_n;
static struct {
  char *s;
  size_t n;
} seed[MAX_SEEDS];
static size_t n_seeds;

/* ---- coverage: a bit for each edge, by hash ---- */
static uint8_t edge[EDGES];
static size_t n_edges;
static uintptr_t previous;
void __sanitizer_cov_trace_pc(void);
__attribute__((no_sanitize_coverage, no_sanitize_address, no_sanitize_undefined)) void __sanitizer_cov_trace_pc(void) { /* may come before the sanitizers are ready */
  uintptr_t pc = (uintptr_t)__builtin_return_address(0), at = (pc ^ previous * 31) % EDGES;
  previous = pc;
  n_edges += !edge[at];
  edge[at] = 1;
}

static void keep_input(void) {
  FILE *f = fopen("fuzz-crash.tmp", "wb");
  if (!f) return;
  fwrite(input, 1, input_n, f);
  fclose(f);
}

static void on_signal(int sig) {
  keep_input();
  signal(sig, SIG_DFL);
  raise(sig);
}

static uint64_t rng = 0x9e3779b97f4a7c15u;
static size_t rnd(size_t n) {
  rng ^= rng << 13;
  rng ^= rng >> 7;
  rng ^= rng << 17;
  return n ? (size_t)(rng >> 11) % n : 0;
}

static void add_seed(const char *path) {
  struct stat st;
  if (stat(path, &st) != 0) return;
  if (S_ISREG(st.st_mode)) {
    if (n_seeds < MAX_SEEDS && tn_file_read(NULL, path, INPUT_BYTES / 2, &seed[n_seeds].s, &seed[n_seeds].n) == TN_OK) n_seeds++;
    return;
  }
  DIR *dir = S_ISDIR(st.st_mode) ? opendir(path) : NULL;
  for (struct dirent *e; dir && (e = readdir(dir));) {
    char sub[4096];
    if (e->d_name[0] == '.' || snprintf(sub, sizeof sub, "%s/%s", path, e->d_name) >= (int)sizeof sub) continue;
    add_seed(sub);
  }
  if (dir) closedir(dir);
}

static void add_input(void) {
  char *s = n_seeds < MAX_SEEDS ? malloc(input_n + 1) : NULL;
  if (!s) return;
  memcpy(s, input, input_n);
  seed[n_seeds].s = s;
  seed[n_seeds++].n = input_n;
}

static void insert(size_t at, const void *p, size_t n) {
  if (input_n + n > INPUT_BYTES) return;
  memmove(input + at + n, input + at, input_n - at);
  memcpy(input + at, p, n);
  input_n += n;
}

static void erase(size_t at, size_t n) {
  memmove(input + at, input + at + n, input_n - at - n);
  input_n -= n;
}

static void mutate(void) {
  static const char *const words[] = {"0", "-1", "9223372036854775807", "18446744073709551616", "(", ")", "{", "}", "[", "]", ",", "\"", "%", "1e999", "\0"};
  size_t at = rnd(input_n + 1), left = input_n - at;
  switch (rnd(8)) {
    case 0: if (left) input[at] ^= (uint8_t)(1u << rnd(8)); break;
    case 1: if (left) input[at] = (uint8_t)rnd(256); break;
    case 2: erase(at, rnd(left < 16 ? left + 1 : 16)); break;
    case 3: erase(at, rnd(left + 1)); break;
    case 4: {
      const char *w = words[rnd(sizeof words / sizeof *words)];
      insert(at, w, strlen(w) + !*w);
      break;
    }
    case 5: { /* repeat a piece of the input */
      uint8_t piece[64];
      size_t n = rnd(left < sizeof piece ? left + 1 : sizeof piece);
      memcpy(piece, input + at, n);
      insert(rnd(input_n + 1), piece, n);
      break;
    }
    case 6: { /* a piece of a seed */
      size_t k = rnd(n_seeds), from = rnd(seed[k].n), n = rnd(seed[k].n - from < 200 ? seed[k].n - from + 1 : 200);
      insert(at, seed[k].s + from, n);
      break;
    }
    default:
      for (size_t i = 0; i < 4 && left; i++) input[at + rnd(left)] = (uint8_t)rnd(256);
  }
}

static void run_once(bool starve) {
  if (starve) tn_malloc_fail_after(1 + (int64_t)rnd(200));
  uint8_t *exact = malloc(input_n ? input_n : 1); /* so that reading one byte too far is seen */
  if (exact) {
    memcpy(exact, input, input_n);
    LLVMFuzzerTestOneInput(exact, input_n);
  }
  free(exact);
  tn_malloc_fail_after(0);
}

int main(int argc, char **argv) {
  const char *number = getenv("FUZZ_SEED");
  if (number) rng ^= strtoull(number, NULL, 10) * 0x2545f4914f6cdd1du;
  double seconds = argc > 1 ? atof(argv[1]) : 10;
  for (int i = 2; i < argc; i++) add_seed(argv[i]);
  static const int fatal[] = {SIGSEGV, SIGABRT, SIGFPE, SIGBUS, SIGILL, SIGALRM};
  static char own[1 << 16]; /* a stack overflow leaves no room on the other one */
  sigaltstack(&(stack_t){.ss_sp = own, .ss_size = sizeof own}, NULL);
  struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
  for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++) sigaction(fatal[i], &act, NULL);
  if (__sanitizer_set_death_callback) __sanitizer_set_death_callback(keep_input);
  size_t n_files = n_seeds;
  if (n_seeds == 0) {
    seed[0].s = strdup("f(1, 2)");
    seed[0].n = seed[0].s ? strlen(seed[0].s) : 0;
    n_seeds = 1;
  }
  for (size_t i = 0; i < n_seeds; i++) {
    memcpy(input, seed[i].s, input_n = seed[i].n);
    run_once(false);
  }
  uint64_t start = tn_now_ns(), end = start + (uint64_t)(seconds * 1e9), runs = 0;
  for (; tn_now_ns() < end; runs++) {
    size_t k = rnd(rnd(2) ? n_seeds : n_files + (n_files == 0)), before = n_edges;
    memcpy(input, seed[k].s, input_n = seed[k].n);
    for (size_t m = rnd(6) + 1; m; m--) mutate();
    if (runs % 64 == 0) alarm(PATIENCE_S);
    run_once(runs % 4 == 3);
    if (n_edges > before && runs % 4 != 3 && input_n <= INPUT_BYTES / 2) add_input();
  }
  alarm(0);
  printf("%s: %zu seeds, %zu found, %zu edges, %llu inputs, no crash\n", argv[0], n_files, n_seeds - n_files, n_edges, (unsigned long long)runs);
  for (size_t i = 0; i < n_seeds; i++) free(seed[i].s);
  return 0;
}

/* A small mutation fuzzer for any file that defines LLVMFuzzerTestOneInput, so that fuzzing needs no compiler of its own
 * (the same files link with libFuzzer):  fuzz_<name> <seconds> [folder of seeds, or one crashing input]
 *
 * Mutates seeds (or text made of their pieces), and in every fourth run lets a random allocation and all after it fail.
 * An input that crashes is left in fuzz-crash.tmp. Coverage does not guide it: it finds shallow bugs quickly. */
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

enum { INPUT_BYTES = 1 << 16, MAX_SEEDS = 1024 };
static uint8_t input[INPUT_BYTES];
static size_t input_n;
static struct {
  char *s;
  size_t n;
} seed[MAX_SEEDS];
static size_t n_seeds;

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
  double seconds = argc > 1 ? atof(argv[1]) : 10;
  for (int i = 2; i < argc; i++) add_seed(argv[i]);
  static const int fatal[] = {SIGSEGV, SIGABRT, SIGFPE, SIGBUS, SIGILL};
  for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++) signal(fatal[i], on_signal);
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
    size_t k = rnd(n_seeds);
    memcpy(input, seed[k].s, input_n = seed[k].n);
    for (size_t m = rnd(6) + 1; m; m--) mutate();
    run_once(runs % 4 == 3);
  }
  printf("%s: %zu seeds, %llu inputs, no crash\n", argv[0], n_files, (unsigned long long)runs);
  for (size_t i = 0; i < n_seeds; i++) free(seed[i].s);
  return 0;
}

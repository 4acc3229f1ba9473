/* How long a package takes to open when its file is cached, with and without reading the hashes of weights:  package MODEL.tnp [times]
 * One line each: median and best in ms, and page faults of the median call. Used by bench/package.py. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include "tenon/model.h"

enum { MOST = 1000 };
typedef struct sample { double ms; long faults; } sample;

static int by_time(const void *a, const void *b) {
  double x = ((const sample *)a)->ms, y = ((const sample *)b)->ms;
  return (x > y) - (x < y);
}
static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}
static long faults(void) {
  struct rusage u;
  getrusage(RUSAGE_SELF, &u);
  return u.ru_minflt + u.ru_majflt;
}

int main(int argc, char **argv) {
  static sample s[MOST];
  int n = argc > 2 ? atoi(argv[2]) : 41;
  if (argc < 2 || n < 1 || n > MOST) return fprintf(stderr, "usage: package MODEL.tnp [times]\n"), 2;
  for (int no_verify = 0; no_verify < 2; no_verify++) {
    for (int i = -3; i < n; i++) { /* three to warm up */
      tn_model_options o;
      tn_model *m;
      tn_session *t;
      char why[512];
      tn_model_options_init(&o);
      o.no_verify = no_verify;
      long f = faults();
      double at = now_ms();
      if (tn_model_open(argv[1], &o, &m, why, sizeof why) != TN_OK) return fprintf(stderr, "%s\n", why), 1;
      if (tn_session_create(m, NULL, &t) != TN_OK) return 1;
      if (i >= 0) s[i] = (sample){now_ms() - at, faults() - f};
      tn_session_destroy(t);
      tn_model_release(m);
    }
    qsort(s, (size_t)n, sizeof *s, by_time);
    printf("%s %.3f %.3f %ld\n", no_verify ? "unverified" : "verified", s[n / 2].ms, s[0].ms, s[n / 2].faults);
  }
  return 0;
}

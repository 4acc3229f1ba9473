/* The monotonic clock in nanoseconds. Wall-clock dates are nobody's business here. */
#define _GNU_SOURCE
#include <time.h>
#include "base.h"

uint64_t tn_now_ns(void) {
  struct timespec t;
  if (clock_gettime(CLOCK_MONOTONIC, &t) != 0) return 0;
  return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

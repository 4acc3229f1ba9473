/* Log lines go to a function that the program (CLI, Python) installed; the library itself never writes to a stream.
 * TENON_LOG lists channels: "stages,kernels", "autotune:info" (the level after ':' is accepted and not needed), "all".
 * One line per call; lines longer than the buffer are cut. Callable from any thread once a function is installed. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include "base.h"

static _Atomic(tn_log_fn) log_fn;
static _Atomic(void *) log_user;

void tn_log_set(tn_log_fn fn, void *user) {
  atomic_store(&log_fn, NULL); /* so that no thread pairs the old function with the new user */
  atomic_store(&log_user, user);
  atomic_store(&log_fn, fn);
}

bool tn_log_on(const char *channel) {
  if (!atomic_load_explicit(&log_fn, memory_order_relaxed)) return false;
  size_t want = strlen(channel);
  for (const char *p = tn_env_get(TN_ENV_LOG); *p;) {
    size_t word = strcspn(p, ","), name = strcspn(p, ",:");
    if ((name == want && memcmp(p, channel, want) == 0) || (name == 3 && memcmp(p, "all", 3) == 0)) return true;
    p += word;
    p += *p == ',';
  }
  return false;
}

void tn_log(const char *channel, const char *fmt, ...) {
  if (!tn_log_on(channel)) return;
  char line[2048];
  va_list ap;
  va_start(ap, fmt);
  int n = vsnprintf(line, sizeof line, fmt, ap);
  va_end(ap);
  tn_log_fn fn = atomic_load(&log_fn);
  if (fn && n >= 0) fn(atomic_load(&log_user), channel, line);
}

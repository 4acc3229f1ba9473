/* names.c: the framework ops with a row, as one text made at first use. */
#include <pthread.h>
#include "ops/ops.h"
#include "tenon/compile.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char *names;

static void make(void) {
  uint32_t n;
  const tn_aten_row *r = tn_aten_rows(&n);
  tn_str s;
  tn_str_init(&s);
  for (uint32_t i = 0; i < n; i++) tn_str_add(&s, "%s\n", r[i].name);
  if (s.oom)
    tn_str_deinit(&s);
  else
    names = s.s; /* lives as long as the process */
}

const char *tn_aten_names(void) {
  pthread_once(&once, make);
  return names ? names : "";
}

/* Modules from text: what is read prints, the print reads back to itself, and the verifier only answers. What it lets pass survives the way
 * through bytes unchanged, as far as bytes hold it (objects and constants are made up). */
#include <stdlib.h>
#include <string.h>
#include "plan/package.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static _Alignas(64) const char some[64];
static tn_status weight(void *ctx, tn_diag *d, const void **data, int64_t bytes, uint64_t *at) {
  (void)ctx, (void)d, (void)bytes, (void)at;
  *data = some; /* never read */
  return TN_OK;
}
static tn_status object(void *ctx, tn_diag *d, const void **data, size_t *bytes, uint64_t *at) {
  (void)ctx, (void)d, (void)bytes, (void)at;
  *data = some;
  return TN_OK;
}

static bool same(const tn_str *a, const tn_str *b) { return a->oom || b->oom || (a->n == b->n && (!a->n || memcmp(a->s, b->s, a->n) == 0)); }

static void through_bytes(tn_module *m) {
  const tn_package_io io = {NULL, weight, object};
  tn_module *back;
  tn_str a, b;
  tn_diag d;
  for (uint32_t i = 0; i < m->n_plan; i++) {
    for (uint32_t k = 0; k < m->plan[i]->n_kernel; k++) m->plan[i]->kernel[k].object = some, m->plan[i]->kernel[k].object_bytes = 1;
    for (uint32_t k = 0; k < m->plan[i]->n_buf; k++) m->plan[i]->buf[k].data = NULL, m->plan[i]->buf[k].hash = 0;
  }
  tn_str_init(&a);
  tn_str_init(&b);
  if (tn_package_encode(&d, m, &io, &a) == TN_OK) {
    if (tn_package_decode(&d, a.s, a.n, &io, &back) != TN_OK) {
      if (d.code != TN_E_NOMEM) abort();
    } else {
      if (tn_module_verify(&d, back) != TN_OK && d.code != TN_E_NOMEM) abort();
      if (tn_package_encode(&d, back, &io, &b) == TN_OK && !same(&a, &b)) abort();
      tn_module_destroy(back);
    }
  }
  tn_str_deinit(&a);
  tn_str_deinit(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  tn_module *m, *q;
  tn_str s, t;
  tn_diag d;
  if (tn_module_parse(&d, (const char *)data, n, &m) != TN_OK) return 0;
  tn_str_init(&s);
  tn_str_init(&t);
  tn_module_print(m, &s);
  if (!s.oom && tn_module_parse(&d, s.s, s.n, &q) == TN_OK) {
    tn_module_print(q, &t);
    if (!same(&s, &t)) abort();
    tn_module_destroy(q);
  } else if (!s.oom && d.code != TN_E_NOMEM && !strstr(d.text, "dim text")) {
    abort(); /* what we print must read back; dims tell lack of memory as an overflow */
  }
  if (tn_module_verify(&d, m) == TN_OK) through_bytes(m);
  tn_module_destroy(m);
  tn_str_deinit(&s);
  tn_str_deinit(&t);
  return 0;
}

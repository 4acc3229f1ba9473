/* Plans: what is read prints, and the print reads back to itself. What the verifier lets pass becomes a program of the null
 * device and is bound to inputs made from its guards, so that layout and binding meet odd sizes too. Steps are not run:
 * library kernels trust the compiler for their shapes. */
#include <stdlib.h>
#include <string.h>
#include "runtime/runtime.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "allocator_may_return_null=1"; }

enum { MOST_IN = 16, MOST_BYTES = 1 << 24 };

static int64_t symbol_value(const tn_psym *s) { return s->lo > 3 ? s->lo : s->hi < 3 ? s->hi : 3; }

/* Would the plan want more memory for these sizes than a fuzzer should take? */
static bool too_big(const tn_plan *p, const int64_t *v) {
  tn_arena a;
  int64_t total = 0, *offset = malloc((p->n_buf + 1) * sizeof *offset);
  tn_arena_init(&a);
  bool big = !offset || tn_plan_layout(NULL, p, v, offset, &total, &a) != TN_OK || total > MOST_BYTES;
  for (uint32_t i = 0; i < p->n_buf && !big; i++) big = p->buf[i].kind == TN_PB_PACKED && tn_pd(v, p->buf[i].bytes) > MOST_BYTES;
  for (uint32_t i = 0; i < p->n_step && !big; i++) big = p->step[i].kind == TN_PS_LAUNCH && tn_pd(v, p->step[i].scratch) > MOST_BYTES;
  tn_arena_deinit(&a);
  free(offset);
  return big;
}

static void bind(tn_plan *p) {
  static int64_t memory[1 << 12];
  int64_t sym[MOST_IN], *expr = malloc((p->n_expr + 1) * sizeof *expr), shape[MOST_IN][TN_PLAN_MAX_RANK], stride[MOST_IN][TN_PLAN_MAX_RANK];
  tn_tensor in[MOST_IN];
  tn_program *g = NULL;
  tn_run *r = NULL;
  tn_run_options o;
  bool fine = expr && p->n_sym <= MOST_IN && p->n_in <= MOST_IN;
  for (uint32_t i = 0; fine && i < p->n_sym; i++) sym[i] = symbol_value(&p->sym[i]);
  fine = fine && tn_plan_eval(NULL, p, sym, expr) == TN_OK && !too_big(p, expr);
  for (uint32_t i = 0; fine && i < p->n_in; i++) {
    const tn_pguard_in *q = &p->in[i];
    in[i] = (tn_tensor){memory, shape[i], q->stride ? stride[i] : NULL, q->rank, q->dtype};
    for (int k = 0; k < q->rank; k++) {
      shape[i][k] = tn_pd(expr, q->dim[k]);
      stride[i][k] = q->stride ? tn_pd(expr, q->stride[k]) : 0;
    }
  }
  for (uint32_t i = 0; fine && i < p->n_sym; i++)
    if (p->sym[i].dim < 0) memory[0] = sym[i]; /* the value of every scalar */
  for (uint32_t i = 0; i < p->n_kernel; i++) p->kernel[i].object = "", p->kernel[i].object_bytes = 0;
  for (uint32_t i = 0; i < p->n_buf; i++)
    if (p->buf[i].kind == TN_PB_CONST && !p->buf[i].data && !(p->buf[i].data = tn_plan_data(p, 64))) fine = false; /* never read */
  free(expr);
  if (!fine) {
    tn_plan_destroy(p);
    return;
  }
  tn_run_options_init(&o);
  o.threads = 1;
  if (tn_program_create_on(NULL, p, tn_device_find("null"), &g) == TN_OK && tn_run_create(g, &o, &r) == TN_OK && tn_run_bind(r, in, NULL) == TN_OK) {
    tn_tensor out;
    for (uint32_t i = 0; i < tn_program_n_out(g); i++) (void)!tn_run_out(r, i, &out);
    if (tn_run_bind(r, in, NULL) != TN_OK) abort(); /* the same again is always fine */
  }
  tn_run_destroy(r);
  tn_program_destroy(g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  tn_plan *p, *q;
  tn_str s, t;
  tn_diag d;
  if (tn_plan_parse(&d, (const char *)data, n, &p) != TN_OK) return 0;
  tn_str_init(&s);
  tn_str_init(&t);
  tn_plan_print(p, &s);
  if (!s.oom && tn_plan_parse(&d, s.s, s.n, &q) == TN_OK) {
    tn_plan_print(q, &t);
    if (!t.oom && (s.n != t.n || memcmp(s.s, t.s, s.n) != 0)) abort();
    tn_plan_destroy(q);
  } else if (!s.oom && d.code != TN_E_NOMEM && !strstr(d.text, "dim text")) {
    abort(); /* what we print must read back; dims tell lack of memory as an overflow */
  }
  tn_str_deinit(&s);
  tn_str_deinit(&t);
  if (tn_plan_verify(&d, p) == TN_OK) bind(p);
  else tn_plan_destroy(p);
  return 0;
}

/* objects.c: machine code of all kernels of a compile, each once, on all cores. Threads take the next kernel from a counter. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include "codegen/codegen.h"
#include "driver/driver_int.h"

typedef struct work {
  const tn_kernel_pool *pool;
  const tn_target *target;
  atomic_uint next;
  void **bytes;
  size_t *n;
  tn_diag *diag;
  tn_status *status;
  tn_str *ir;
  const tn_compile_options *o;
} work;

static void compile(work *w, bool caller) {
  for (;;) {
    uint32_t i = atomic_fetch_add(&w->next, 1);
    if (i >= w->pool->n_kernel) return;
    if (caller && w->o->progress) w->o->progress(w->o->progress_user, "kernels", i, w->pool->n_kernel);
    w->status[i] = tn_codegen_object(&w->diag[i], w->pool->kernel[i].nest, w->target, &w->bytes[i], &w->n[i], w->ir ? &w->ir[i] : NULL);
  }
}
static void *run(void *w) {
  compile(w, false);
  return NULL;
}

tn_status tn_objects(tn_diag *d, const tn_kernel_pool *pool, const tn_target *target, int threads, const tn_compile_options *o, tn_arena *keep, tn_object *out,
                     tn_str *ir) {
  uint32_t n = pool->n_kernel;
  if (n == 0) return TN_OK;
  work w = {.pool = pool, .target = target, .ir = ir, .o = o};
  w.bytes = tn_calloc(n, sizeof *w.bytes);
  w.n = tn_calloc(n, sizeof *w.n);
  w.diag = tn_calloc(n, sizeof *w.diag);
  w.status = tn_calloc(n, sizeof *w.status);
  tn_status s = TN_OK;
  if (!w.bytes || !w.n || !w.diag || !w.status) s = tn_fail(d, TN_E_NOMEM, "compiling %u kernels", n);
  if (s == TN_OK) {
    enum { MAX = 64 };
    pthread_t t[MAX];
    int started = 0;
    if (threads > MAX) threads = MAX;
    if ((uint32_t)threads > n) threads = (int)n;
    for (int i = 1; i < threads; i++) { /* LLVM's selection recurses: default stacks are enough, small ones are not */
      if (pthread_create(&t[started], NULL, run, &w)) break;
      started++;
    }
    compile(&w, true);
    for (int i = 0; i < started; i++) pthread_join(t[i], NULL);
  }
  for (uint32_t i = 0; i < n && w.bytes && w.status; i++) {
    if (s == TN_OK && w.status[i] != TN_OK) {
      *d = w.diag[i];
      s = tn_diag_while(d, w.status[i], "compiling kernel %s", pool->kernel[i].def->name);
    }
    if (s == TN_OK) {
      void *own = tn_arena_alloc(keep, w.n[i]);
      if (own) out[i] = (tn_object){memcpy(own, w.bytes[i], w.n[i]), w.n[i]};
      else s = tn_fail(d, TN_E_NOMEM, "object of %zu bytes", w.n[i]);
    }
    tn_free(w.bytes[i]);
  }
  tn_free(w.bytes);
  tn_free(w.n);
  tn_free(w.diag);
  tn_free(w.status);
  return s;
}

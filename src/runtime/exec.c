/* Running the steps of a bound plan, in order, in the caller's thread; a launch of more blocks than one grain is one
 * fork-join on the shared pool. Stops at the first step that fails. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O2") /* the room is built for size; this is in every call */
#endif
#include "runtime/runtime_int.h"

typedef struct launch { tn_kernel_fn fn; const tn_kernel_args *args; unsigned char *scratch; size_t stride; } launch;

static void run_blocks(void *ctx, int64_t lo, int64_t hi, int worker) {
  const launch *l = ctx;
  l->fn(l->args, lo, hi, l->scratch + (size_t)worker * l->stride);
}

/* Is one of the packed copies this step writes out of date? */
static bool must_pack(const tn_run *r, const tn_rstep *s) {
  const tn_plan *p = r->p->plan;
  for (uint32_t k = 0; r->any_stale && k < s->plan->n_arg; k++) {
    uint32_t b = p->view[s->plan->arg[k]].buf;
    if (p->buf[b].kind == TN_PB_PACKED && r->pack[r->pack_of[b]].stale) return true;
  }
  return false;
}

static tn_status host(tn_run *r, const tn_rstep *s) {
  const tn_pstep *ps = s->plan;
  r->stats.host_calls++;
  tn_status st = r->opt.host(r->opt.host_user, ps->kernel, s->tensor, ps->n_in, s->tensor + ps->n_in, ps->n_arg - ps->n_in);
  return st == TN_OK ? st : tn_fail(&r->diag, st, "host call %u (%s) failed", ps->kernel, ps->text ? ps->text : "");
}

static const char *text_of(const tn_rstep *s) { return s->plan->text ? s->plan->text : "kernel"; }

static inline tn_status run_now(tn_run *r, tn_rstep *s, unsigned char *scratch) {
  if (s->kind == TN_PS_LAUNCH) {
    r->stats.launches++;
    if (s->alone) {
      s->fn(&s->args, 0, s->blocks, scratch);
    } else {
      launch l = {s->fn, &s->args, scratch, s->stride};
      tn_pool_run(r->pool, run_blocks, &l, s->blocks, s->grain);
    }
    if (__builtin_expect(r->status != 0, 0)) {
      bool zero = r->status == 2;
      r->status = 0;
      if (zero) return tn_fail(&r->diag, TN_E_ZERO, "an integer is divided by zero in %s", text_of(s));
      return tn_fail(&r->diag, TN_E_INDEX, "an index is out of range in %s", text_of(s));
    }
  } else if (s->kind == TN_PS_LIB) {
    r->stats.lib_calls++;
    TN_TRY_WHILE(&r->diag, tn_lib_call(r, s), "running %s", text_of(s));
  } else {
    TN_TRY(host(r, s));
  }
  return TN_OK;
}

/* Bytes of all operands, each once. */
static int64_t bytes_of(const tn_run *r, const tn_rstep *s) {
  int64_t sum = 0;
  for (uint32_t k = 0; k < s->plan->n_arg; k++) {
    const tn_pview *v = &r->p->plan->view[s->plan->arg[k]];
    int64_t n = (int64_t)tn_dtype_size((tn_dtype)v->dtype);
    for (int i = 0; i < v->rank; i++) n *= r->view[s->plan->arg[k]].shape[i]; /* bind checked that it fits */
    sum += n;
  }
  return sum;
}

static inline tn_status run_step(tn_run *r, tn_rstep *s, unsigned char *scratch) {
  if (s->pack) {
    if (s->keeps || !must_pack(r, s)) return TN_OK;
    r->stats.packs++;
  }
  return run_now(r, s, scratch);
}

static tn_status keep_step(tn_run *r, tn_rstep *s) { return run_now(r, s, r->work->scratch.p); }

/* TENON_LOG=run: one line a step, with its time, the bytes of its operands and its arithmetic operations. */
static tn_status logged_steps(tn_run *r, unsigned char *scratch) {
  uint64_t all = tn_now_ns();
  for (tn_rstep *s = r->step, *end = s + r->n_step; s < end; s++) {
    if (s->skip) continue;
    uint64_t t = tn_now_ns();
    TN_TRY(run_step(r, s, scratch));
    tn_log("run", "step %4d %10.2f us  blocks %6lld  bytes %lld  work %lld  %s", (int)(s - r->step), (double)(tn_now_ns() - t) / 1e3, (long long)s->blocks, (long long)bytes_of(r, s),
           (long long)tn_pd(r->expr, s->plan->work), text_of(s));
  }
  tn_log("run", "steps in all %.2f us", (double)(tn_now_ns() - all) / 1e3);
  return TN_OK;
}

tn_status tn_exec_steps(tn_run *r) {
  unsigned char *scratch = r->work->scratch.p;
  if (r->p->kept && !atomic_load_explicit(&r->p->kept->made, memory_order_acquire)) TN_TRY(tn_keep_make(r, keep_step));
  if (__builtin_expect(r->logged, 0)) {
    TN_TRY(logged_steps(r, scratch));
  } else {
    for (tn_rstep *s = r->step, *end = s + r->n_step; s < end; s++)
      if (!s->skip) TN_TRY(run_step(r, s, scratch));
  }
  r->stats.views += r->n_views;
  return TN_OK;
}

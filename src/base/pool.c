/* The thread pool: chunks are claimed, nobody is waited for who has not claimed.
 *
 * One 64-bit word, `ticket`, holds the job's number (high half) and how many chunks are left to claim (low half). Claiming
 * is one compare-and-swap that lowers the low half. Since the word also names the job, a worker that slept through a whole
 * job cannot claim from the next one by mistake; since it counts down to 0, a finished job leaves nothing that could be
 * claimed while the next job's fields are being written. The fields are stable from the moment the word shows chunks until
 * the last chunk is claimed, so they are read before the swap and used only if it succeeds.
 *
 * The caller claims like everybody else. When nothing is left it waits until the chunks that workers claimed are done
 * (`done`), spinning first, then on a futex. A worker that never got the CPU claimed nothing, so it costs nothing.
 *
 * Workers spin for SPIN_NS after the last chunk, then sleep on a futex (`wake`). Sleeping and publishing follow the usual
 * two-flag handshake: the worker announces itself in `n_parked` and looks at the word again; the caller writes the word
 * and then looks at `n_parked`; all four accesses are sequentially consistent, so one of the two sees the other.
 *
 * fork: only the forking thread lives on in the child. A handler puts every pool of the child back to "no threads yet";
 * the first job starts new ones. It touches memory only, so it is safe where a handler may run.
 *
 * It does not steal, does not nest jobs (an inner or concurrent caller runs its job alone), and does not pin threads. */
#define _GNU_SOURCE
#include "pool.h"
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SPIN_NS = 30000, LINE = 64, MAX_THREADS = 1024 };

struct tn_pool {
  /* the job: written by the caller between jobs, read by workers */
  _Alignas(LINE) _Atomic(tn_pool_fn) fn;
  _Atomic(void *) ctx;
  atomic_int_fast64_t n_blocks, grain;
  atomic_uint n_chunks;
  /* claimed by everybody */
  _Alignas(LINE) atomic_uint_fast64_t ticket;
  /* chunks that workers have finished */
  _Alignas(LINE) atomic_uint done;
  atomic_uint caller_waits;
  /* sleeping and waking */
  _Alignas(LINE) atomic_uint wake;
  atomic_uint n_parked;
  atomic_bool stop;
  /* the owner's side */
  _Alignas(LINE) atomic_bool busy;
  bool started;
  int n_threads, n_workers; /* wanted, counting the caller; running, not counting it */
  struct worker {
    tn_pool *pool;
    pthread_t thread;
    int index;
  } * worker; /* [n_threads - 1] */
  tn_pool *prev, *next; /* list of all pools, for fork */
};

/* ---- all pools ---- */
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static tn_pool *list;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void forget_threads(tn_pool *p) {
  p->started = false;
  p->n_workers = 0;
  atomic_store(&p->ticket, 0);
  atomic_store(&p->n_parked, 0);
  atomic_store(&p->done, 0);
  atomic_store(&p->caller_waits, 0);
  atomic_store(&p->busy, false);
}

static void fork_before(void) { pthread_mutex_lock(&list_lock); }

static void fork_parent(void) { pthread_mutex_unlock(&list_lock); }

static void fork_child(void) {
  for (tn_pool *p = list; p; p = p->next) forget_threads(p);
  pthread_mutex_unlock(&list_lock);
}

static void watch_forks(void) { pthread_atfork(fork_before, fork_parent, fork_child); }

/* ---- waiting ---- */
static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static void futex_wait(atomic_uint *at, unsigned seen) { syscall(SYS_futex, at, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0); }

static void futex_wake(atomic_uint *at, unsigned n) { syscall(SYS_futex, at, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0); }

/* ---- working ---- */

/* Claims and runs one chunk; false: none left. */
static bool run_one(tn_pool *p, int index) {
  uint64_t w = atomic_load_explicit(&p->ticket, memory_order_acquire);
  for (;;) {
    uint32_t left = (uint32_t)w;
    if (left == 0) return false;
    tn_pool_fn fn = atomic_load_explicit(&p->fn, memory_order_relaxed);
    void *ctx = atomic_load_explicit(&p->ctx, memory_order_relaxed);
    int64_t n = atomic_load_explicit(&p->n_blocks, memory_order_relaxed), grain = atomic_load_explicit(&p->grain, memory_order_relaxed);
    uint32_t n_chunks = atomic_load_explicit(&p->n_chunks, memory_order_relaxed);
    if (!atomic_compare_exchange_weak_explicit(&p->ticket, &w, w - 1, memory_order_acq_rel, memory_order_acquire)) continue;
    int64_t lo = (int64_t)(n_chunks - left) * grain;
    fn(ctx, lo, n - lo < grain ? n : lo + grain, index);
    return true;
  }
}

static bool work_waits(tn_pool *p) { return (uint32_t)atomic_load(&p->ticket) != 0; }

/* Spins until there is work (true) or time is up. */
static bool spin_for_work(tn_pool *p) {
  uint64_t end = tn_now_ns() + SPIN_NS;
  do {
    for (int i = 0; i < 32; i++) {
      if (work_waits(p) || atomic_load_explicit(&p->stop, memory_order_relaxed)) return true;
      relax();
    }
  } while (tn_now_ns() < end);
  return false;
}

static void *worker_main(void *arg) {
  struct worker *me = arg;
  tn_pool *p = me->pool;
  while (!atomic_load_explicit(&p->stop, memory_order_acquire)) {
    while (run_one(p, me->index)) {
      atomic_fetch_add(&p->done, 1);
      if (atomic_load(&p->caller_waits)) futex_wake(&p->done, 1);
    }
    if (spin_for_work(p)) continue;
    unsigned seen = atomic_load(&p->wake);
    atomic_fetch_add(&p->n_parked, 1);
    if (!work_waits(p) && !atomic_load(&p->stop)) futex_wait(&p->wake, seen);
    atomic_fetch_sub(&p->n_parked, 1);
  }
  return NULL;
}

static void start_workers(tn_pool *p) {
  p->started = true;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before); /* signals belong to the program's own threads */
  for (int i = 0; i < p->n_threads - 1; i++) {
    struct worker *w = &p->worker[i];
    *w = (struct worker){.pool = p, .index = i + 1};
    if (pthread_create(&w->thread, NULL, worker_main, w) != 0) break; /* fewer workers: slower, not wrong */
    p->n_workers++;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void wait_for_workers(tn_pool *p, unsigned claimed) {
  for (int i = 0; i < 512; i++) {
    if (atomic_load_explicit(&p->done, memory_order_acquire) == claimed) return;
    relax();
  }
  atomic_store(&p->caller_waits, 1);
  for (unsigned seen; (seen = atomic_load(&p->done)) != claimed;) futex_wait(&p->done, seen);
  atomic_store(&p->caller_waits, 0);
}

void tn_pool_run(tn_pool *p, tn_pool_fn fn, void *ctx, int64_t n_blocks, int64_t grain) {
  if (n_blocks <= 0) return;
  if (grain < 1) grain = p ? n_blocks / ((int64_t)p->n_threads * 4) : n_blocks;
  if (grain < 1) grain = 1;
  if (n_blocks / grain >= (1 << 30)) grain = n_blocks / (1 << 30) + 1;
  if (!p || p->n_threads == 1 || n_blocks <= grain || atomic_exchange_explicit(&p->busy, true, memory_order_acquire)) {
    fn(ctx, 0, n_blocks, 0);
    return;
  }
  if (!p->started) start_workers(p);
  uint32_t n_chunks = (uint32_t)((n_blocks - 1) / grain + 1);
  atomic_store_explicit(&p->fn, fn, memory_order_relaxed);
  atomic_store_explicit(&p->ctx, ctx, memory_order_relaxed);
  atomic_store_explicit(&p->n_blocks, n_blocks, memory_order_relaxed);
  atomic_store_explicit(&p->grain, grain, memory_order_relaxed);
  atomic_store_explicit(&p->n_chunks, n_chunks, memory_order_relaxed);
  atomic_store_explicit(&p->done, 0, memory_order_relaxed);
  uint64_t job = (atomic_load_explicit(&p->ticket, memory_order_relaxed) >> 32) + 1;
  atomic_store(&p->ticket, job << 32 | n_chunks);
  unsigned parked = atomic_load(&p->n_parked);
  if (parked) {
    atomic_fetch_add(&p->wake, 1);
    futex_wake(&p->wake, parked < n_chunks - 1 ? parked : n_chunks - 1);
  }
  unsigned mine = 0;
  while (run_one(p, 0)) mine++;
  wait_for_workers(p, n_chunks - mine);
  atomic_store_explicit(&p->busy, false, memory_order_release);
}

/* ---- life ---- */
tn_pool *tn_pool_create(int n_threads) {
  if (n_threads < 1) n_threads = 1;
  if (n_threads > MAX_THREADS) n_threads = MAX_THREADS;
  tn_pool *p = tn_aligned_alloc(LINE, sizeof *p);
  struct worker *w = tn_calloc((size_t)n_threads, sizeof *w);
  if (!p || !w) {
    tn_free_aligned(p);
    tn_free(w);
    return NULL;
  }
  *p = (tn_pool){.n_threads = n_threads, .worker = w};
  pthread_once(&fork_once, watch_forks);
  pthread_mutex_lock(&list_lock);
  p->next = list;
  if (list) list->prev = p;
  list = p;
  pthread_mutex_unlock(&list_lock);
  return p;
}

void tn_pool_destroy(tn_pool *p) {
  if (!p) return;
  pthread_mutex_lock(&list_lock);
  if (p->next) p->next->prev = p->prev;
  if (p->prev) p->prev->next = p->next;
  else list = p->next;
  pthread_mutex_unlock(&list_lock);
  atomic_store(&p->stop, true);
  atomic_fetch_add(&p->wake, 1);
  futex_wake(&p->wake, MAX_THREADS);
  for (int i = 0; i < p->n_workers; i++) pthread_join(p->worker[i].thread, NULL);
  tn_free(p->worker);
  tn_free_aligned(p);
}

int tn_pool_n_threads(const tn_pool *p) { return p ? p->n_threads : 1; }

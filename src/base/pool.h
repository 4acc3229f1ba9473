/* The thread pool: one job at a time, cut into chunks of blocks that the caller and the workers claim.
 *
 * The caller runs whatever nobody else has claimed and waits only for claimed chunks, so a worker that the system does not
 * schedule costs nothing. Workers spin for about 30 us after a job and then sleep. Threads start at the first job that
 * needs them, and start again in a forked child. */
#ifndef TN_POOL_H
#define TN_POOL_H
#include "base.h"

typedef struct tn_pool tn_pool;
/* Blocks [lo, hi) of the job. worker is in [0, n_threads) and differs between threads that work on one job at one time:
 * an index for per-worker scratch. The calling thread is worker 0. */
typedef void (*tn_pool_fn)(void *ctx, int64_t lo, int64_t hi, int worker);

/* n_threads counts the caller; values below 1 mean 1. NULL: out of memory. */
tn_pool *tn_pool_create(int n_threads);
/* No job may be running. NULL is fine. */
void tn_pool_destroy(tn_pool *p);
int tn_pool_n_threads(const tn_pool *p);
/* Runs fn over blocks [0, n_blocks) in chunks of `grain` (below 1: chosen) and returns when all are done. Callable from
 * any thread, also from inside a job: while the pool is busy the caller runs its whole job alone, as worker 0.
 * p may be NULL: everything runs in the caller. Allocates nothing after the first call. */
void tn_pool_run(tn_pool *p, tn_pool_fn fn, void *ctx, int64_t n_blocks, int64_t grain);
#endif

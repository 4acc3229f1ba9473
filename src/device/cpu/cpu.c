/* The cpu device: kernels are machine code of this process. Loading maps an object (elf.c); launching shares blocks out
 * over the process-wide pool. Memory is plain host memory. The run time usually takes the entry and drives the pool
 * itself, with scratch it keeps between runs; launch() is for everyone else (tuner, conformance suite). */
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>
#include "cpuid.h"
#include "device/device.h"
#include "elf_int.h"

struct tn_device { int unused; };
struct tn_code { tn_elf elf; };

static struct tn_device the_cpu;

tn_status tn_device_target(tn_target *out) { return tn_cpu_detect(out); }

int tn_device_cores(void) {
  static _Atomic int cores;
  int n = atomic_load(&cores);
  if (n) return n;
  tn_target t;
  n = tn_cpu_detect(&t) == TN_OK ? (int)t.cores : (int)sysconf(_SC_NPROCESSORS_ONLN);
  if (n < 1) n = 1;
  atomic_store(&cores, n);
  return n;
}

static tn_status cpu_open(tn_device **out, char *why, size_t why_n) {
  if (why_n) why[0] = 0;
  (void)tn_device_cores(); /* permission for AMX, before pools have threads */
  *out = &the_cpu;
  return TN_OK;
}
static void cpu_close(tn_device *d) { (void)d; }

static tn_status cpu_load(tn_device *d, const void *object, size_t n, const char *symbol, tn_code **out, char *why, size_t why_n) {
  (void)d;
  *out = NULL;
  tn_code *c = tn_calloc(1, sizeof *c);
  if (!c) {
    if (why_n) snprintf(why, why_n, "handle of kernel '%.200s'", symbol);
    return TN_E_NOMEM;
  }
  tn_status st = tn_elf_load(object, n, symbol, &c->elf, why, why_n);
  if (st == TN_OK) *out = c;
  else tn_free(c);
  return st;
}
static void cpu_unload(tn_device *d, tn_code *c) {
  (void)d;
  if (!c) return;
  tn_elf_unload(&c->elf);
  tn_free(c);
}
static void *cpu_entry(tn_code *c) { return c->elf.entry; }

static void *cpu_alloc(tn_device *d, size_t bytes) {
  (void)d;
  return tn_aligned_alloc(64, bytes ? bytes : 1);
}
static void cpu_free(tn_device *d, void *p) {
  (void)d;
  tn_free_aligned(p);
}

typedef struct launch { tn_kernel_fn fn; const tn_kernel_args *args; unsigned char *scratch; size_t stride; } launch;

static void run_blocks(void *ctx, int64_t lo, int64_t hi, int worker) {
  const launch *l = ctx;
  l->fn(l->args, lo, hi, l->stride ? l->scratch + (size_t)worker * l->stride : NULL);
}

static tn_status cpu_launch(tn_device *d, tn_code *c, const void *args, int64_t n_blocks, int64_t grain, size_t scratch_bytes, int threads) {
  if (n_blocks <= 0) return TN_OK;
  tn_pool *pool = n_blocks > grain ? tn_device_pool(threads) : NULL;
  size_t workers = pool ? (size_t)tn_pool_n_threads(pool) : 1;
  launch l = {.args = args, .stride = (scratch_bytes + 63) & ~(size_t)63};
  if (scratch_bytes > SIZE_MAX / 2 / workers) return TN_E_NOMEM;
  *(void **)&l.fn = c->elf.entry;
  if (l.stride && !(l.scratch = cpu_alloc(d, l.stride * workers))) return TN_E_NOMEM;
  tn_pool_run(pool, run_blocks, &l, n_blocks, grain);
  cpu_free(d, l.scratch);
  return TN_OK;
}

const tn_device_api tn_device_cpu = {
    .abi = TN_DEVICE_ABI, .name = "cpu", .open = cpu_open, .close = cpu_close, .load = cpu_load, .unload = cpu_unload,
    .entry = cpu_entry, .alloc = cpu_alloc, .free = cpu_free, .launch = cpu_launch};

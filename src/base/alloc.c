/* The one door to the heap. Counts allocations and, on request, makes them fail from the n-th on, which is how tests walk
 * through every out-of-memory path. Counters are process-wide atomics. It keeps no free lists and no statistics of bytes. */
#include <stdatomic.h>
#include <stdlib.h>
#include "base.h"

static atomic_int_fast64_t n_allocs;
static atomic_int_fast64_t fail_from; /* value of n_allocs at which failing starts; 0 = never */

/* Counts one allocation; false = this one has to fail. */
static bool take_ticket(void) {
  int64_t n = atomic_fetch_add_explicit(&n_allocs, 1, memory_order_relaxed) + 1;
  int64_t f = atomic_load_explicit(&fail_from, memory_order_relaxed);
  return f == 0 || n < f;
}

void tn_malloc_fail_after(int64_t n) {
  atomic_store(&fail_from, n > 0 ? atomic_load(&n_allocs) + n : 0);
}

int64_t tn_malloc_count(void) { return atomic_load_explicit(&n_allocs, memory_order_relaxed); }

void *tn_malloc(size_t bytes) { return take_ticket() ? malloc(bytes ? bytes : 1) : NULL; }

void *tn_calloc(size_t n, size_t bytes) { return take_ticket() ? calloc(n ? n : 1, bytes ? bytes : 1) : NULL; }

void *tn_realloc(void *p, size_t bytes) { return take_ticket() ? realloc(p, bytes ? bytes : 1) : NULL; }

void tn_free(void *p) { free(p); }

void *tn_aligned_alloc(size_t align, size_t bytes) {
  if (!take_ticket() || align == 0 || (align & (align - 1)) || bytes > SIZE_MAX - align) return NULL;
  if (align < sizeof(void *)) align = sizeof(void *);
  size_t rounded = (bytes + align - 1) & ~(align - 1);
  return aligned_alloc(align, rounded ? rounded : align);
}

void tn_free_aligned(void *p) { free(p); }

/* const_store.c: constants of a compile. Plans of several stages and targets read the same weights; each gets one aligned place, found again by the address it
 * had in the graph. The store is counted, as a model that is made of the plans outlives the compile. */
#include <stdatomic.h>
#include <string.h>
#include "driver/driver_int.h"

struct tn_const_store {
  atomic_uint refs;
  tn_arena arena;
  tn_map at; /* address in the graph -> place */
  struct place { const void *p; size_t bytes; } *place;
  uint32_t n, cap;
};

tn_const_store *tn_const_store_create(void) {
  tn_const_store *s = tn_calloc(1, sizeof *s);
  if (!s) return NULL;
  atomic_init(&s->refs, 1);
  tn_arena_init(&s->arena);
  return s;
}

void tn_const_store_retain(tn_const_store *s) { atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed); }

void tn_const_store_release(void *store) {
  tn_const_store *s = store;
  if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1) return;
  tn_map_deinit(&s->at);
  tn_arena_deinit(&s->arena);
  tn_free(s);
}

const void *tn_const_store_keep(void *store, const void *p, size_t bytes) {
  tn_const_store *s = store;
  uint32_t i;
  if (tn_map_get_u64(&s->at, (uintptr_t)p, &i) && s->place[i].bytes == bytes) return s->place[i].p;
  if (bytes > SIZE_MAX - 64) return NULL;
  unsigned char *raw = tn_arena_alloc(&s->arena, bytes + 64);
  if (!raw || !TN_PUSH_ROOM(&s->arena, s->place, s->n, s->cap) || !tn_map_put_u64(&s->at, (uintptr_t)p, s->n)) return NULL;
  raw += -(uintptr_t)raw & 63;
  if (bytes) memcpy(raw, p, bytes);
  s->place[s->n++] = (struct place){raw, bytes};
  return raw;
}

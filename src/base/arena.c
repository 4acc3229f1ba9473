/* Arenas: bump allocation out of a chain of blocks, newest first. Marks name a block and its fill, so a rewind frees every
 * younger block and lowers the fill of that one. Blocks grow with the arena (4 KiB to 1 MiB) so that small arenas stay small
 * and big ones need few calls. Memory handed out is always zero. No per-object free, no thread safety. */
#include <stdio.h>
#include <string.h>
#include "base.h"

enum { ALIGN = 16, BLOCK_MIN = 4096, BLOCK_MAX = 1 << 20 };

struct tn_arena_block {
  tn_arena_block *prev;
  size_t size, used; /* of data, in bytes; data beyond `dirty` is still zero from calloc */
  size_t dirty;
  _Alignas(ALIGN) unsigned char data[];
};

void tn_arena_init(tn_arena *a) {
  a->head = NULL;
  a->total = 0;
}

void tn_arena_deinit(tn_arena *a) { tn_arena_rewind(a, (tn_mark){NULL, 0}); }

tn_mark tn_arena_mark(const tn_arena *a) { return (tn_mark){a->head, a->head ? a->head->used : 0}; }

void tn_arena_rewind(tn_arena *a, tn_mark m) {
  while (a->head && a->head != m.block) {
    tn_arena_block *b = a->head;
    a->head = b->prev;
    a->total -= b->size;
    tn_free(b);
  }
  if (a->head) a->head->used = m.used;
}

void *tn_arena_alloc(tn_arena *a, size_t bytes) {
  if (bytes > SIZE_MAX / 4) return NULL;
  size_t need = (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
  if (need == 0) need = ALIGN;
  tn_arena_block *b = a->head;
  if (!b || b->size - b->used < need) {
    size_t size = a->total < BLOCK_MIN ? BLOCK_MIN : a->total > BLOCK_MAX ? BLOCK_MAX : a->total;
    size = size < need ? need : (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    b = tn_calloc(1, sizeof *b + size);
    if (!b) return NULL;
    b->prev = a->head;
    b->size = size;
    a->head = b;
    a->total += size;
  }
  unsigned char *p = b->data + b->used;
  if (b->used < b->dirty) memset(p, 0, b->dirty - b->used < need ? b->dirty - b->used : need);
  b->used += need;
  if (b->used > b->dirty) b->dirty = b->used;
  return p;
}

char *tn_arena_strndup(tn_arena *a, const char *s, size_t n) {
  char *p = n == SIZE_MAX ? NULL : tn_arena_alloc(a, n + 1);
  if (p && n) memcpy(p, s, n);
  return p;
}

char *tn_arena_strdup(tn_arena *a, const char *s) { return tn_arena_strndup(a, s, strlen(s)); }

char *tn_arena_printf(tn_arena *a, const char *fmt, ...) {
  va_list ap, again;
  va_start(ap, fmt);
  va_copy(again, ap);
  int n = vsnprintf(NULL, 0, fmt, ap);
  va_end(ap);
  char *p = n < 0 ? NULL : tn_arena_alloc(a, (size_t)n + 1);
  if (p) vsnprintf(p, (size_t)n + 1, fmt, again);
  va_end(again);
  return p;
}

void *tn_arena_grow(tn_arena *a, void *old, size_t old_bytes, size_t new_bytes) {
  void *p = tn_arena_alloc(a, new_bytes);
  if (p && old && old_bytes) memcpy(p, old, old_bytes < new_bytes ? old_bytes : new_bytes);
  return p;
}

bool tn_push_room(tn_arena *a, void **arr, uint32_t n, uint32_t *cap, size_t elem) {
  if (n < *cap) return true;
  if (*cap > UINT32_MAX / 2) return false;
  uint32_t new_cap = *cap ? *cap * 2 : 8;
  if (elem && new_cap > SIZE_MAX / elem) return false;
  void *p = tn_arena_grow(a, *arr, n * elem, new_cap * elem);
  if (!p) return false;
  *arr = p;
  *cap = new_cap;
  return true;
}

/* Hash map from a string or a 64-bit number to a uint32: open addressing, linear probing, at most 3/4 full.
 * Entries are never removed, so there are no tombstones. String keys are borrowed. A map may hold both kinds of key. */
#include <string.h>
#include "base.h"

struct tn_map_slot {
  uint64_t hash;   /* of the string, or the number itself */
  const char *key; /* NULL for number keys */
  uint32_t v;
  bool used;
};

void tn_map_init(tn_map *m) { *m = (tn_map){0}; }

void tn_map_deinit(tn_map *m) {
  tn_free(m->slot);
  *m = (tn_map){0};
}

/* Spreads number keys, which are often small or aligned, over the table. */
static uint64_t mix(uint64_t x) {
  x ^= x >> 32;
  x *= UINT64_C(0xd6e8feb86659fd93);
  x ^= x >> 32;
  return x;
}

/* The slot of a key, or the free one where it belongs. The table is never full. */
static struct tn_map_slot *find(const tn_map *m, uint64_t hash, const char *key) {
  uint32_t mask = m->cap - 1;
  for (uint32_t i = (uint32_t)mix(hash) & mask;; i = (i + 1) & mask) {
    struct tn_map_slot *s = &m->slot[i];
    if (!s->used) return s;
    if (s->hash == hash && !s->key == !key && (!key || strcmp(s->key, key) == 0)) return s;
  }
}

static bool put(tn_map *m, uint64_t hash, const char *key, uint32_t v) {
  if (m->n >= m->cap / 4 * 3) {
    if (m->cap > UINT32_MAX / 2) return false;
    tn_map bigger = {.cap = m->cap ? m->cap * 2 : 16, .n = m->n};
    bigger.slot = tn_calloc(bigger.cap, sizeof *bigger.slot);
    if (!bigger.slot) return false;
    for (uint32_t i = 0; i < m->cap; i++)
      if (m->slot[i].used) *find(&bigger, m->slot[i].hash, m->slot[i].key) = m->slot[i];
    tn_free(m->slot);
    *m = bigger;
  }
  struct tn_map_slot *s = find(m, hash, key);
  if (!s->used) m->n++;
  *s = (struct tn_map_slot){hash, key, v, true};
  return true;
}

static bool get(const tn_map *m, uint64_t hash, const char *key, uint32_t *out_v) {
  if (m->n == 0) return false;
  const struct tn_map_slot *s = find(m, hash, key);
  if (s->used && out_v) *out_v = s->v;
  return s->used;
}

bool tn_map_put_str(tn_map *m, const char *key, uint32_t v) { return put(m, tn_hash(key, strlen(key), 0), key, v); }

bool tn_map_get_str(const tn_map *m, const char *key, uint32_t *out_v) { return get(m, tn_hash(key, strlen(key), 0), key, out_v); }

bool tn_map_put_u64(tn_map *m, uint64_t key, uint32_t v) { return put(m, key, NULL, v); }

bool tn_map_get_u64(const tn_map *m, uint64_t key, uint32_t *out_v) { return get(m, key, NULL, out_v); }

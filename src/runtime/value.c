/* Values and their memory.
 *
 * A pool keeps freed headers and blocks; blocks come in classes of four sizes per octave, so a request of nearly the same size, as dynamic
 * models make them, finds one. What it keeps is bounded by the most it ever had in use at once: a block that does not fit drives out kept
 * blocks of other classes. One mutex per pool: sessions are single-threaded, so it is contended only when results are released elsewhere.
 *
 * Releasing works off a list instead of recursing: lists of lists may be as deep as they like. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "runtime/runtime_int.h"
#include "runtime/value.h"

enum { N_CLASSES = 256, MOST_HEADERS = 4096 };
typedef struct tn_block { struct tn_block *next; } tn_block;
struct tn_vpool {
  pthread_mutex_t lock;
  uint64_t users;              /* live values, and 1 for the owner */
  bool closed;
  tn_value *header;
  uint32_t n_headers;
  tn_block *block[N_CLASSES];
  size_t live, peak, kept;     /* bytes */
};

static _Alignas(64) unsigned char nothing[64]; /* data of empty tensors: never NULL, never written */

/* ---- pools ---- */

/* Smallest class of at least `bytes`, and its size: 64, 80, 96, 112, 128, 160, ... */
static int class_of(size_t bytes, size_t *size) {
  if (bytes <= 64) return *size = 64, 0;
  int top = 63 - __builtin_clzll(bytes - 1); /* 2^top < bytes <= 2^(top + 1) */
  size_t step = (size_t)1 << (top - 2), q = (bytes - 1) >> (top - 2); /* q: 4..7 */
  *size = (q + 1) * step;
  return (top - 6) * 4 + (int)q - 3;
}

static void *heap_block(size_t bytes) {
  tn_room m = {0};
  return tn_room_reserve(&m, bytes) == TN_OK ? m.p : NULL;
}

tn_vpool *tn_vpool_create(void) {
  tn_vpool *p = tn_calloc(1, sizeof *p);
  if (!p) return NULL;
  pthread_mutex_init(&p->lock, NULL);
  p->users = 1;
  return p;
}

static void drop_kept(tn_vpool *p) {
  for (int k = 0; k < N_CLASSES; k++)
    for (tn_block *b; (b = p->block[k]);) {
      p->block[k] = b->next;
      tn_free_aligned(b);
    }
  for (tn_value *v; (v = p->header);) {
    p->header = v->next;
    tn_free(v);
  }
  p->n_headers = 0;
  p->kept = 0;
}

/* With the lock held; gives it back. */
static void leave(tn_vpool *p) {
  bool last = --p->users == 0;
  if (p->closed) drop_kept(p);
  pthread_mutex_unlock(&p->lock);
  if (!last) return;
  pthread_mutex_destroy(&p->lock);
  tn_free(p);
}

void tn_vpool_release(tn_vpool *p) {
  if (!p) return;
  pthread_mutex_lock(&p->lock);
  p->closed = true;
  leave(p);
}

/* Makes room for `size` more kept bytes by freeing blocks of other classes, biggest first; false: it would be too much all the same. */
static bool make_way(tn_vpool *p, int cls, size_t size) {
  for (int k = N_CLASSES; k-- > 0 && p->kept + size > p->peak;) {
    if (k == cls) continue;
    for (tn_block *b; p->kept + size > p->peak && (b = p->block[k]);) {
      size_t bytes = k == 0 ? 64 : ((size_t)((k - 1) % 4 + 5) << ((k - 1) / 4 + 4));
      p->block[k] = b->next;
      p->kept -= bytes;
      tn_free_aligned(b);
    }
  }
  return p->kept + size <= p->peak;
}

static tn_value *get(tn_vpool *pool, uint8_t kind, size_t bytes) {
  tn_value *v = NULL;
  void *mem = NULL;
  size_t cap = 0;
  int cls = bytes ? class_of(bytes, &cap) : -1;
  if (pool) {
    pthread_mutex_lock(&pool->lock);
    if ((v = pool->header)) {
      pool->header = v->next;
      pool->n_headers--;
    }
    if (cls >= 0 && pool->block[cls]) {
      mem = pool->block[cls];
      pool->block[cls] = pool->block[cls]->next;
      pool->kept -= cap;
    }
    pool->users++;
    pool->live += cap;
    if (pool->live > pool->peak) pool->peak = pool->live;
    pthread_mutex_unlock(&pool->lock);
  }
  if (!v) v = tn_malloc(sizeof *v);
  if (cls >= 0 && v && !mem) mem = heap_block(cap);
  if (!v || (cls >= 0 && !mem)) {
    tn_free(v);
    tn_free_aligned(mem);
    if (!pool) return NULL;
    pthread_mutex_lock(&pool->lock);
    pool->live -= cap;
    leave(pool);
    return NULL;
  }
  memset(v, 0, offsetof(tn_value, shape));
  atomic_init(&v->refs, 1);
  v->kind = kind;
  v->pool = pool;
  v->mem = mem;
  v->cap = cap;
  v->base = NULL;
  return v;
}

static void put(tn_value *v) {
  tn_vpool *p = v->pool;
  if (!p) {
    tn_free_aligned(v->mem);
    tn_free(v);
    return;
  }
  size_t cap = 0;
  int cls = v->mem ? class_of(v->cap, &cap) : -1;
  pthread_mutex_lock(&p->lock);
  p->live -= cap;
  if (cls >= 0 && !p->closed && make_way(p, cls, cap)) {
    tn_block *b = v->mem;
    b->next = p->block[cls];
    p->block[cls] = b;
    p->kept += cap;
  } else {
    tn_free_aligned(v->mem);
  }
  if (!p->closed && p->n_headers < MOST_HEADERS) {
    v->next = p->header;
    p->header = v;
    p->n_headers++;
  } else {
    tn_free(v);
  }
  leave(p);
}

/* ---- counting ---- */

void tn_value_retain(tn_value *v) {
  if (v) atomic_fetch_add_explicit(&v->refs, 1, memory_order_relaxed);
}

static void let_go(tn_value *v, tn_value **todo) {
  if (!v || atomic_fetch_sub_explicit(&v->refs, 1, memory_order_acq_rel) != 1) return;
  v->next = *todo;
  *todo = v;
}

void tn_value_release(tn_value *v) {
  tn_value *todo = NULL;
  for (let_go(v, &todo); (v = todo);) {
    todo = v->next;
    let_go(v->base, &todo);
    int64_t n = v->kind == TN_VALUE_LIST ? v->n : v->kind == TN_VALUE_MAP ? 2 : 0;
    for (int64_t i = 0; i < n; i++) let_go(v->u.item[i], &todo);
    put(v);
  }
}

/* ---- making ---- */

bool tn_value_size(uint32_t elem, int rank, const int64_t *shape, int64_t *out_n, size_t *out_bytes) {
  tn_dtype t = TN_U8;
  int64_t n = 1, bytes;
  bool empty = false;
  if (rank < 0 || rank > TN_PLAN_MAX_RANK || (elem != TN_EL_STRING && !tn_elem_dtype(elem, &t))) return false;
  for (int k = 0; k < rank; k++) {
    if (shape[k] < 0) return false;
    empty |= shape[k] == 0;
  }
  for (int k = 0; k < rank && !empty; k++)
    if (__builtin_mul_overflow(n, shape[k], &n)) return false;
  if (empty) n = 0;
  if (__builtin_mul_overflow(n, (int64_t)(elem == TN_EL_STRING ? sizeof(size_t) : tn_dtype_size(t)), &bytes) || bytes > INT64_MAX / 2) return false;
  *out_n = n;
  *out_bytes = (size_t)bytes;
  return true;
}

/* Shape and dense strides into the value. */
static void set_shape(tn_value *v, int dtype, int rank, const int64_t *shape) {
  int64_t all = 1;
  for (int k = rank; k-- > 0;) {
    v->shape[k] = shape[k];
    v->stride[k] = all;
    if (shape[k]) (void)!__builtin_mul_overflow(all, shape[k], &all); /* of an empty tensor it may overflow, and is not used */
  }
  v->t = (tn_tensor){NULL, v->shape, v->stride, rank, dtype};
}

tn_value *tn_value_new(tn_vpool *pool, uint32_t elem, int rank, const int64_t *shape) {
  int64_t n;
  size_t bytes;
  tn_dtype t;
  if (!tn_value_size(elem, rank, shape, &n, &bytes) || !tn_elem_dtype(elem, &t)) return NULL;
  tn_value *v = get(pool, TN_VALUE_TENSOR, bytes);
  if (!v) return NULL;
  v->elem = (uint8_t)elem;
  v->n = n;
  set_shape(v, (int)t, rank, shape);
  v->t.data = v->mem ? v->mem : nothing;
  return v;
}

/* Strides as given; false when an element's distance from the first overflows in bytes. */
static bool set_strides(tn_value *v, const int64_t *stride) {
  int64_t reach = 0, t;
  if (!stride) return true;
  for (int k = 0; k < v->t.rank; k++) {
    v->stride[k] = stride[k];
    if (v->n == 0) continue;
    if (stride[k] == INT64_MIN || __builtin_mul_overflow(v->shape[k] - 1, stride[k] < 0 ? -stride[k] : stride[k], &t) || __builtin_add_overflow(reach, t, &reach)) return false;
  }
  return reach <= INT64_MAX / 16;
}

tn_value *tn_value_new_strided(tn_vpool *pool, uint32_t elem, int rank, const int64_t *shape, const int64_t *stride) {
  int64_t n, reach = 0, t;
  size_t bytes;
  tn_dtype dtype;
  if (!tn_value_size(elem, rank, shape, &n, &bytes) || !tn_elem_dtype(elem, &dtype)) return NULL;
  for (int k = 0; k < rank && n; k++)
    if (stride[k] < 0 || __builtin_mul_overflow(shape[k] - 1, stride[k], &t) || __builtin_add_overflow(reach, t, &reach)) return NULL;
  if (reach > INT64_MAX / 16) return NULL;
  tn_value *v = get(pool, TN_VALUE_TENSOR, n ? (size_t)(reach + 1) * tn_dtype_size(dtype) : 0);
  if (!v) return NULL;
  v->elem = (uint8_t)elem;
  v->n = n;
  set_shape(v, (int)dtype, rank, shape);
  for (int k = 0; k < rank; k++) v->stride[k] = stride[k];
  v->t.data = v->mem ? v->mem : nothing;
  return v;
}

tn_value *tn_value_view(tn_vpool *pool, tn_value *base, uint32_t elem, void *data, int rank, const int64_t *shape, const int64_t *stride) {
  int64_t n;
  size_t bytes;
  tn_dtype t;
  if (!tn_value_size(elem, rank, shape, &n, &bytes) || !tn_elem_dtype(elem, &t)) return NULL;
  tn_value *v = get(pool, TN_VALUE_TENSOR, 0);
  if (!v) return NULL;
  v->elem = (uint8_t)elem;
  v->n = n;
  set_shape(v, (int)t, rank, shape);
  if (!set_strides(v, stride)) return put(v), NULL;
  v->t.data = n ? data : nothing;
  v->borrowed = base->borrowed;
  v->base = base->base ? base->base : base; /* the owner itself: chains do not grow */
  tn_value_retain(v->base);
  return v;
}

bool tn_value_is_dense(const tn_value *v) {
  int64_t want = 1;
  for (int k = v->t.rank; v->n && k-- > 0;) {
    if (v->shape[k] != 1 && v->stride[k] != want) return false;
    want *= v->shape[k];
  }
  return true;
}

static tn_value *copy_of(tn_vpool *pool, const tn_tensor *t, uint32_t elem) {
  tn_value *v = tn_value_new(pool, elem, t->rank, t->shape);
  if (v && v->n) tn_copy_strided(NULL, t, &v->t);
  return v;
}

tn_value *tn_value_dense(tn_vpool *pool, tn_value *v) {
  if (v->kind != TN_VALUE_TENSOR || tn_value_is_dense(v)) return tn_value_retain(v), v;
  return copy_of(pool, &v->t, v->elem);
}

tn_value *tn_value_new_none(tn_vpool *pool) { return get(pool, TN_VALUE_NONE, 0); }

tn_value *tn_value_new_i64(tn_vpool *pool, int64_t x) {
  tn_value *v = tn_value_new(pool, TN_EL_I64, 0, NULL);
  if (v) *(int64_t *)v->t.data = x;
  return v;
}

/* Offsets first, then the bytes, in one block. */
tn_value *tn_value_new_strings(tn_vpool *pool, const char *const *s, const size_t *bytes, int rank, const int64_t *shape) {
  int64_t n;
  size_t all;
  if (!tn_value_size(TN_EL_STRING, rank, shape, &n, &all)) return NULL;
  all += sizeof(size_t);
  size_t text = all;
  for (int64_t i = 0; i < n; i++) {
    size_t len = bytes ? bytes[i] : strlen(s[i]);
    if (len >= SIZE_MAX / 4 || all >= SIZE_MAX / 4) return NULL;
    all += len + 1;
  }
  tn_value *v = get(pool, TN_VALUE_STRINGS, all);
  if (!v) return NULL;
  size_t *at = v->mem, pos = 0;
  char *to = (char *)v->mem + text;
  for (int64_t i = 0; i < n; i++) {
    size_t len = bytes ? bytes[i] : strlen(s[i]);
    at[i] = pos;
    if (len) memcpy(to + pos, s[i], len);
    to[pos + len] = 0;
    pos += len + 1;
  }
  at[n] = pos;
  v->u.str = (tn_vstrings){to, at};
  v->elem = TN_EL_STRING;
  v->n = n;
  set_shape(v, TN_OBJ, rank, shape);
  return v;
}

tn_value *tn_value_new_list(tn_vpool *pool, tn_value *const *item, size_t n) {
  if (n > SIZE_MAX / 4 / sizeof *item) return NULL;
  for (size_t i = 0; i < n; i++)
    if (!item[i]) return NULL;
  tn_value *v = get(pool, TN_VALUE_LIST, n * sizeof *item);
  if (!v) return NULL;
  v->u.item = v->mem;
  v->n = (int64_t)n;
  for (size_t i = 0; i < n; i++) {
    v->u.item[i] = item[i];
    v->borrowed |= item[i]->borrowed;
    tn_value_retain(item[i]);
  }
  return v;
}

/* ---- the public face ---- */

static uint32_t elem_for(const tn_tensor *t, int32_t elem) {
  tn_dtype kept;
  if (t->dtype < 0 || t->dtype >= TN_OBJ) return 0;
  if (elem == 0) return tn_elem_of_dtype((tn_dtype)t->dtype);
  return elem > 0 && tn_elem_dtype((uint32_t)elem, &kept) && (int32_t)kept == t->dtype ? (uint32_t)elem : 0;
}

tn_value *tn_value_borrow(const tn_tensor *t, int32_t elem) {
  int64_t n;
  size_t bytes;
  uint32_t e = elem_for(t, elem);
  if (!e || !tn_value_size(e, t->rank, t->shape, &n, &bytes) || (n && !t->data)) return NULL;
  tn_value *v = get(NULL, TN_VALUE_TENSOR, 0);
  if (!v) return NULL;
  v->elem = (uint8_t)e;
  v->n = n;
  v->borrowed = true;
  set_shape(v, t->dtype, t->rank, t->shape);
  if (!set_strides(v, t->strides)) return put(v), NULL;
  v->t.data = n ? t->data : nothing;
  return v;
}

tn_value *tn_value_copy(const tn_tensor *t, int32_t elem) {
  tn_value *b = tn_value_borrow(t, elem), *v = b ? copy_of(NULL, &b->t, b->elem) : NULL;
  tn_value_release(b);
  return v;
}

tn_value *tn_value_strings(const char *const *s, const size_t *bytes, int32_t rank, const int64_t *shape) { return tn_value_new_strings(NULL, s, bytes, rank, shape); }
tn_value *tn_value_list(tn_value *const *item, size_t n) { return tn_value_new_list(NULL, item, n); }
tn_value *tn_value_none(void) { return tn_value_new_none(NULL); }

tn_value *tn_value_map(tn_value *keys, tn_value *values) {
  if (!keys || !values) return NULL;
  bool fine = (keys->kind == TN_VALUE_STRINGS || (keys->kind == TN_VALUE_TENSOR && keys->elem == TN_EL_I64)) && keys->t.rank == 1;
  fine = fine && (values->kind == TN_VALUE_LIST || ((values->kind == TN_VALUE_TENSOR || values->kind == TN_VALUE_STRINGS) && values->t.rank == 1)) && keys->n == values->n;
  tn_value *v = fine ? get(NULL, TN_VALUE_MAP, 2 * sizeof *v->u.item) : NULL;
  if (!v) return NULL;
  v->u.item = v->mem;
  v->u.item[0] = keys, v->u.item[1] = values;
  v->borrowed = keys->borrowed || values->borrowed;
  v->n = keys->n;
  tn_value_retain(keys);
  tn_value_retain(values);
  return v;
}

tn_value_kind tn_value_get_kind(const tn_value *v) { return (tn_value_kind)v->kind; }
int32_t tn_value_elem(const tn_value *v) { return v->elem; }
const tn_tensor *tn_value_tensor(const tn_value *v) { return v->kind == TN_VALUE_TENSOR || v->kind == TN_VALUE_STRINGS ? &v->t : NULL; }
size_t tn_value_n(const tn_value *v) { return (size_t)v->n; }

const char *tn_value_string(const tn_value *v, size_t i, size_t *out_bytes) {
  if (v->kind != TN_VALUE_STRINGS || i >= (size_t)v->n) return NULL;
  if (out_bytes) *out_bytes = v->u.str.at[i + 1] - v->u.str.at[i] - 1;
  return v->u.str.bytes + v->u.str.at[i];
}

tn_value *tn_value_item(const tn_value *v, size_t i) {
  size_t n = v->kind == TN_VALUE_LIST ? (size_t)v->n : v->kind == TN_VALUE_MAP ? 2 : 0;
  return i < n ? v->u.item[i] : NULL;
}

/* ---- looking ---- */

int64_t tn_value_int(const tn_value *v, int64_t i) {
  const tn_tensor *t = &v->t;
  int64_t at = 0;
  for (int k = t->rank; k-- > 0;) {
    at += i % v->shape[k] * v->stride[k];
    i /= v->shape[k];
  }
  switch (t->dtype) {
  case TN_I64: return ((const int64_t *)t->data)[at];
  case TN_I32: return ((const int32_t *)t->data)[at];
  case TN_I16: return ((const int16_t *)t->data)[at];
  case TN_I8: return ((const int8_t *)t->data)[at];
  case TN_U16: return ((const uint16_t *)t->data)[at];
  case TN_U32: return ((const uint32_t *)t->data)[at];
  case TN_U64: return ((const uint64_t *)t->data)[at] > INT64_MAX ? INT64_MAX : (int64_t)((const uint64_t *)t->data)[at];
  case TN_U8:
  case TN_BOOL: return ((const uint8_t *)t->data)[at];
  default: return 0;
  }
}

const char *tn_value_text(const tn_value *v, char b[160]) {
  switch (v->kind) {
  case TN_VALUE_NONE: return "none";
  case TN_VALUE_LIST: snprintf(b, 160, "a list of %" PRId64, v->n); return b;
  case TN_VALUE_MAP: snprintf(b, 160, "a map of %" PRId64, v->n); return b;
  default: break;
  }
  int n = snprintf(b, 160, "tensor %s[", tn_elem_name(v->elem) ? tn_elem_name(v->elem) : "?");
  for (int k = 0; k < v->t.rank && n < 120; k++) n += snprintf(b + n, (size_t)(160 - n), k ? ", %" PRId64 : "%" PRId64, v->shape[k]);
  snprintf(b + n, (size_t)(160 - n), n < 120 ? "]" : ", ...]");
  return b;
}

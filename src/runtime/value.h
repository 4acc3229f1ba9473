/* Values inside the run time: what include/tenon/model.h shows, opened up for sessions and dynamic operators.
 *
 * A value is counted and, once another can see it, never changed. Its memory is its own, borrowed from the caller, or that of another value
 * (a view, which keeps its base alive). Own memory and value headers come from a tn_vpool and go back to it when the last user lets go, from
 * any thread, so that a session that repeats itself does not go to the heap. A pool lives as long as its owner or any of its values. */
#ifndef TN_RUNTIME_VALUE_H
#define TN_RUNTIME_VALUE_H
#include <stdatomic.h>
#include "base/base.h"
#include "plan/module.h"
#include "tenon/model.h"

typedef struct tn_vpool tn_vpool;
typedef struct tn_vstrings { const char *bytes; const size_t *at; } tn_vstrings; /* string i: bytes + at[i], at[i + 1] - at[i] - 1 bytes and a NUL */

struct tn_value {
  atomic_uint refs;
  uint8_t kind;                /* tn_value_kind */
  uint8_t elem;                /* tn_elem; 0 for lists, maps, none */
  bool borrowed;               /* the data are the caller's, directly or through base */
  tn_tensor t;                 /* TENSOR; shape also of STRINGS. shape and strides point into this value; strides are never NULL */
  int64_t n;                   /* elements; items of a LIST; entries of a MAP */
  int64_t shape[TN_PLAN_MAX_RANK], stride[TN_PLAN_MAX_RANK];
  tn_vpool *pool;              /* where it goes back to; NULL: the heap */
  void *mem;                   /* own block, from the pool or the heap */
  size_t cap;                  /* its bytes */
  tn_value *base;              /* view: the value whose memory this is */
  union {
    tn_vstrings str;           /* in mem */
    tn_value **item;           /* LIST: [n], in mem; MAP: [2] keys, values */
  } u;
  tn_value *next;              /* free list */
};

tn_vpool *tn_vpool_create(void);                /* NULL = out of memory */
void tn_vpool_release(tn_vpool *p);             /* the owner lets go; its memory stays while values of it live */

/* All of these return NULL when memory is short, also for sizes that overflow; pool may be NULL (the heap). Results have one reference. */
/* A dense tensor with room for its elements, contents undefined. elem must be kept in tensors (tn_elem_dtype), rank <= TN_PLAN_MAX_RANK, dims >= 0. */
tn_value *tn_value_new(tn_vpool *pool, uint32_t elem, int rank, const int64_t *shape);
/* The same with strides that are not negative, whatever order and gaps they have. */
tn_value *tn_value_new_strided(tn_vpool *pool, uint32_t elem, int rank, const int64_t *shape, const int64_t *stride);
/* A view of `base`'s data, or of a part: data inside base's elements, strides in elements (NULL: dense). Retains base. */
tn_value *tn_value_view(tn_vpool *pool, tn_value *base, uint32_t elem, void *data, int rank, const int64_t *shape, const int64_t *stride);
/* A dense tensor value with v's elements: v itself (retained) when it is dense already. */
tn_value *tn_value_dense(tn_vpool *pool, tn_value *v);
tn_value *tn_value_new_strings(tn_vpool *pool, const char *const *s, const size_t *bytes, int rank, const int64_t *shape);
tn_value *tn_value_new_list(tn_vpool *pool, tn_value *const *item, size_t n);
tn_value *tn_value_new_none(tn_vpool *pool);
tn_value *tn_value_new_i64(tn_vpool *pool, int64_t v);  /* i64[] */

bool tn_value_is_dense(const tn_value *v);               /* TENSOR in row-major order without gaps */
/* Element i (row-major order) of an integer or bool tensor as int64; u64 above INT64_MAX saturates. i < n. */
int64_t tn_value_int(const tn_value *v, int64_t i);
/* "tensor f32[2, 3]", "list of 4", "none": for messages. buf holds at least 160. */
const char *tn_value_text(const tn_value *v, char buf[160]);
/* Elements of a shape and their bytes in all; false: overflow, a negative dim, or more than half the address space. */
bool tn_value_size(uint32_t elem, int rank, const int64_t *shape, int64_t *out_n, size_t *out_bytes);
#endif

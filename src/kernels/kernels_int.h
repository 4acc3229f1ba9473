/* kernels, inside: walking shapes. */
#ifndef TN_KERNELS_INT_H
#define TN_KERNELS_INT_H
#include "kernels/kernels.h"

#define TN_K_MAX_RANK 12

typedef enum tn_k_isa { TN_K_BASE, TN_K_AVX2, TN_K_AVX512, TN_K_N_ISAS } tn_k_isa;
tn_k_isa tn_k_best_isa(void); /* the best the machine has and TENON_ISA allows */
bool tn_k_vnni(void);         /* that is AVX-512, with byte products (vpdpbusd) */

static inline int64_t tn_k_numel(const tn_tensor *t) {
  int64_t n = 1;
  for (int i = 0; i < t->rank; i++) n *= t->shape[i];
  return n;
}
/* Elements in dims [from, to). */
static inline int64_t tn_k_span(const tn_tensor *t, int from, int to) {
  int64_t n = 1;
  for (int i = from; i < to; i++) n *= t->shape[i];
  return n;
}
/* Row-major strides of t's shape. */
static inline void tn_k_dense(const tn_tensor *t, int64_t *stride) {
  int64_t s = 1;
  for (int i = t->rank - 1; i >= 0; i--) {
    stride[i] = s;
    s *= t->shape[i];
  }
}
/* Steps idx[rank] to the next index in row-major order and keeps offset = sum(idx * stride) of up to n_off stride lists. */
static inline void tn_k_next(int rank, const int64_t *shape, int64_t *idx, int n_off, int64_t (*stride)[TN_K_MAX_RANK], int64_t *offset) {
  for (int i = rank - 1; i >= 0; i--) {
    bool wrap = ++idx[i] == shape[i];
    for (int k = 0; k < n_off; k++) offset[k] += wrap ? -(shape[i] - 1) * stride[k][i] : stride[k][i];
    if (!wrap) return;
    idx[i] = 0;
  }
}
static inline char *tn_k_at(const tn_tensor *t, int64_t i) { return (char *)t->data + i * (int64_t)tn_dtype_size((tn_dtype)t->dtype); }
static inline tn_num tn_k_load(const tn_tensor *t, int64_t i) { return tn_num_load((tn_dtype)t->dtype, tn_k_at(t, i)); }
static inline void tn_k_store(tn_tensor *t, int64_t i, tn_num v) { tn_num_store((tn_dtype)t->dtype, tn_k_at(t, i), v); }
/* Index number i of idx as a place in [0, size); false = outside. */
static inline bool tn_k_place(const tn_tensor *idx, int64_t i, int64_t size, int64_t *out) {
  int64_t v = idx->dtype == TN_I64 ? ((const int64_t *)idx->data)[i] : ((const int32_t *)idx->data)[i];
  if (v < 0) v += size;
  *out = v;
  return v >= 0 && v < size;
}
/* out[to] = out[to] combined with in[from]; bool sums are "or". */
void tn_k_combine_at(tn_scalar_op op, tn_tensor *out, int64_t to, const tn_tensor *in, int64_t from);
/* out = x, both row-major; may be the same memory. */
void tn_k_copy_all(tn_pool *pool, tn_tensor *out, const tn_tensor *x);
/* The dtype a reduction over t accumulates in: double for floats (rounded once, at the end), the type itself otherwise. */
static inline tn_dtype tn_k_acc(tn_dtype t) { return tn_dtype_is_float(t) ? TN_F64 : t; }

/* A float's bits and back. Inlined always: their users are compiled once per instruction set. */
static inline __attribute__((always_inline)) uint32_t bits_of(float f) {
  union {
    float f;
    uint32_t u;
  } v = {.f = f};
  return v.u;
}
static inline __attribute__((always_inline)) float float_of(uint32_t u) {
  union {
    uint32_t u;
    float f;
  } v = {.u = u};
  return v.f;
}
#endif

/* kernels, inside: walking shapes. */
#ifndef TN_KERNELS_INT_H
#define TN_KERNELS_INT_H
#include "kernels/kernels.h"

#define TN_K_MAX_RANK 12

typedef enum tn_k_isa { TN_K_BASE, TN_K_AVX2, TN_K_AVX512, TN_K_N_ISAS } tn_k_isa;
tn_k_isa tn_k_best_isa(void); /* the best the machine has and TENON_ISA allows */

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
/* The dtype a reduction over t accumulates in: double for floats (rounded once, at the end), the type itself otherwise. */
static inline tn_dtype tn_k_acc(tn_dtype t) { return tn_dtype_is_float(t) ? TN_F64 : t; }
#endif

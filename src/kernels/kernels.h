/* kernels: plain-C reference kernels. They are the specification: shapes in comments, source named, checked against PyTorch.
 * All work on row-major tensors of any supported dtype through tn_num unless said otherwise; speed does not matter here,
 * except for the library kernels at the end, which run in models. Shapes are already known to be right (ops checked them). */
#ifndef TN_KERNELS_H
#define TN_KERNELS_H
#include "base/base.h"
#include "base/pool.h"
#include "base/scalar.h"

tn_status tn_k_eltwise_ref(tn_scalar_op op, const tn_tensor *in, int n_in, tn_tensor *out); /* broadcast by strides of 0 prepared inside from shapes; TN_E_ZERO: divisor of 0 */
void tn_k_cast_ref(const tn_tensor *in, tn_tensor *out);
void tn_k_strided_copy_ref(const tn_tensor *in /* any strides */, tn_tensor *out);          /* same shape: permute, broadcast, slice and flip are strides */
void tn_k_full_ref(tn_num v, tn_tensor *out);
void tn_k_iota_ref(double start, double step, int64_t istart, int64_t istep, tn_tensor *out);
void tn_k_pad_ref(const tn_tensor *in, const int64_t *lo, tn_num value, tn_tensor *out);
void tn_k_concat_ref(const tn_tensor *in, int n_in, int dim, tn_tensor *out);
void tn_k_reduce_ref(tn_combiner c, const tn_tensor *in, const bool *reduced /* [rank] */, tn_tensor *out /* keepdim or not: same data */);
void tn_k_scan_ref(tn_combiner c, const tn_tensor *in, int dim, tn_tensor *out);
/* labels: "bik,bkj->bij"; floats accumulate in double and round once. */
void tn_k_contract_ref(const char *labels, const tn_tensor *a, const tn_tensor *b, tn_tensor *out);
void tn_k_conv_ref(const tn_tensor *x, const tn_tensor *w, const int64_t *stride, const int64_t *pad_lo, const int64_t *dilation, int64_t groups, tn_tensor *out);
void tn_k_convt_ref(const tn_tensor *x, const tn_tensor *w, const int64_t *stride, const int64_t *pad_lo, const int64_t *dilation, int64_t groups, tn_tensor *out);
void tn_k_window_ref(tn_combiner c, const tn_tensor *in, int n_spatial, const int64_t *kernel, const int64_t *stride, const int64_t *pad_lo, const int64_t *dilation, tn_tensor *out);
/* Index kernels return TN_E_INDEX when an index (after wrapping negatives once) is out of range; out is then undefined. */
tn_status tn_k_take_ref(const tn_tensor *x, const tn_tensor *idx, int dim, tn_tensor *out);
tn_status tn_k_gather_ref(const tn_tensor *x, const tn_tensor *idx, int dim, tn_tensor *out);
tn_status tn_k_index_ref(const tn_tensor *x, const tn_tensor *idx, const int *dims, int n_idx, tn_tensor *out);
/* Library kernels: used in compiled models too, shared out over `pool` (NULL: the caller alone). TN_E_NOMEM possible, and for lstm and gru on x86-64
 * below AVX2 TN_E_UNSUPPORTED. Results do not
 * depend on the number of threads. */
tn_status tn_k_index_put(tn_pool *pool, const tn_tensor *x, const tn_tensor *values, const tn_tensor *idx, const int *dims, int n_idx, bool accumulate, tn_tensor *out);
/* idx and src of any strides. */
tn_status tn_k_scatter(tn_pool *pool, const tn_tensor *x, const tn_tensor *idx, const tn_tensor *src, int dim, const char *combiner, tn_tensor *out);
void tn_k_scan(tn_pool *pool, tn_combiner c, const tn_tensor *in, int dim, tn_tensor *out);
tn_status tn_k_sort(tn_pool *pool, const tn_tensor *in, int dim, bool descending, tn_tensor *out_values, tn_tensor *out_idx);   /* stable; NaN last ascending, first descending (torch) */
tn_status tn_k_topk(tn_pool *pool, const tn_tensor *in, int64_t k, int dim, bool largest, tn_tensor *out_values, tn_tensor *out_idx);
/* What a recurrent layer keeps between calls; zeroed by the caller, who gives it back with tn_k_kept_free. Without one (NULL) each call
 * allocates and packs. fixed: the weights at an address never change, so they are packed once. One call at a time. */
typedef struct tn_k_kept { bool fixed; float *room; size_t n; int64_t packed, input; const void *w[2]; } tn_k_kept;
void tn_k_kept_free(tn_k_kept *k);
/* One direction of one LSTM layer, float32; in = {x[T,B,I], w_ih[4H,I], w_hh[4H,H], b_ih[4H], b_hh[4H], h0[B,H], c0[B,H]}; out = {y[T,B,H], hT[B,H], cT[B,H]}.
 * Gate order i,f,g,o as torch.nn.LSTM documents. */
tn_status tn_k_lstm(tn_pool *pool, tn_k_kept *kept, const tn_tensor *in, bool reverse, tn_tensor *out);
/* The same for a GRU; in = {x[T,B,I], w_ih[3H,I], w_hh[3H,H], b_ih[3H], b_hh[3H], h0[B,H]}; out = {y[T,B,H], hT[B,H]}. Gate order r,z,n, and b_hh of n under
 * the reset gate, as torch.nn.GRU documents. */
tn_status tn_k_gru(tn_pool *pool, tn_k_kept *kept, const tn_tensor *in, bool reverse, tn_tensor *out);
/* x u8[.., K], w i8 packed as [ceil(N/16)][ceil(K/4)][16][4], out i32[.., N]; all row-major. TN_E_VERIFY: shapes that do not fit. */
tn_status tn_k_qdot(tn_pool *pool, const tn_tensor *x, const tn_tensor *w, tn_tensor *out);
#endif

/* Reference kernels without sums: scalar functions with broadcasting, casts, copies with strides, fills, pad, concat.
 *
 * One loop over the output's elements in row-major order; operands follow with strides (0 where they stretch).
 * What a function does to one element is base/scalar.c's business. */
#include "kernels/kernels_int.h"
#include <string.h>

/* out[i0,..] = op(in0[i0,..], ...); in[k]: shape aligned at the right, dims of size 1 stretch.
 * Source: https://docs.pytorch.org/docs/stable/notes/broadcasting.html, functions as torch.<name>. */
tn_status tn_k_eltwise_ref(tn_scalar_op op, const tn_tensor *in, int n_in, tn_tensor *out) {
  int64_t stride[3][TN_K_MAX_RANK], idx[TN_K_MAX_RANK] = {0}, off[3] = {0}, n = tn_k_numel(out);
  tn_dtype t = (tn_dtype)in[op == TN_S_SELECT].dtype;
  for (int k = 0; k < n_in; k++) {
    int64_t dense[TN_K_MAX_RANK];
    int lead = out->rank - in[k].rank;
    tn_k_dense(&in[k], dense);
    for (int i = 0; i < out->rank; i++) stride[k][i] = i < lead || in[k].shape[i - lead] == 1 ? 0 : dense[i - lead];
  }
  for (int64_t i = 0; i < n; i++) {
    tn_num arg[3];
    for (int k = 0; k < n_in; k++) arg[k] = tn_k_load(&in[k], off[k]);
    if (op == TN_S_DIVISOR && arg[0].i == 0) return TN_E_ZERO;
    tn_k_store(out, i, tn_scalar_eval(op, t, arg));
    tn_k_next(out->rank, out->shape, idx, n_in, stride, off);
  }
  return TN_OK;
}

/* out[i] = (dtype of out) in[i], same shape. Source: torch.Tensor.to. */
void tn_k_cast_ref(const tn_tensor *in, tn_tensor *out) {
  int64_t n = tn_k_numel(out);
  tn_dtype from = (tn_dtype)in->dtype, to = (tn_dtype)out->dtype;
  for (int64_t i = 0; i < n; i++) tn_k_store(out, i, tn_num_cast(tn_k_load(in, i), from, to));
}

/* out[i0,..] = in.data[i0 * stride0 + ..]; out row-major, same shape and dtype; strides may be 0 or negative. */
void tn_k_strided_copy_ref(const tn_tensor *in, tn_tensor *out) {
  int64_t stride[1][TN_K_MAX_RANK], idx[TN_K_MAX_RANK] = {0}, off[1] = {0}, n = tn_k_numel(out);
  size_t size = tn_dtype_size((tn_dtype)out->dtype);
  tn_k_dense(out, stride[0]);
  if (n == 0) return;
  if (!in->strides) {
    memcpy(out->data, in->data, (size_t)n * size);
    return;
  }
  /* Rows that are contiguous on both sides move as a whole. */
  int rank = out->rank;
  int64_t row = 1;
  while (rank > 0 && (out->shape[rank - 1] == 1 || in->strides[rank - 1] == row)) row *= out->shape[--rank];
  for (int i = 0; i < rank; i++) stride[0][i] = in->strides[i];
  for (int64_t i = 0; i < n; i += row) {
    memcpy(tn_k_at(out, i), tn_k_at(in, off[0]), (size_t)row * size);
    tn_k_next(rank, out->shape, idx, 1, stride, off);
  }
}

/* out[..] = v, already of out's dtype. Source: torch.full. */
void tn_k_full_ref(tn_num v, tn_tensor *out) {
  int64_t n = tn_k_numel(out);
  for (int64_t i = 0; i < n; i++) tn_k_store(out, i, v);
}

/* out[k] = start + k * step, k < N: in double for floats, wrapping for integers. Source: torch.arange. */
void tn_k_iota_ref(double start, double step, int64_t istart, int64_t istep, tn_tensor *out) {
  int64_t n = tn_k_numel(out);
  tn_dtype t = (tn_dtype)out->dtype;
  for (int64_t k = 0; k < n; k++) {
    tn_num v;
    if (tn_dtype_is_float(t))
      v = tn_num_cast((tn_num){.f = start + (double)k * step}, TN_F64, t);
    else
      v = tn_num_cast((tn_num){.i = (int64_t)((uint64_t)istart + (uint64_t)k * (uint64_t)istep)}, TN_I64, t);
    tn_k_store(out, k, v);
  }
}

/* out[i0,..] = in[i0 - lo0,..] inside, value outside. Source: torch.nn.functional.pad, mode "constant". */
void tn_k_pad_ref(const tn_tensor *in, const int64_t *lo, tn_num value, tn_tensor *out) {
  int64_t stride[1][TN_K_MAX_RANK], idx[TN_K_MAX_RANK] = {0}, off[1] = {0}, n = tn_k_numel(in);
  size_t size = tn_dtype_size((tn_dtype)out->dtype);
  tn_k_full_ref(value, out);
  tn_k_dense(out, stride[0]);
  for (int i = 0; i < in->rank; i++) off[0] += lo[i] * stride[0][i];
  for (int64_t i = 0; i < n; i++) {
    memcpy(tn_k_at(out, off[0]), tn_k_at(in, i), size);
    tn_k_next(in->rank, in->shape, idx, 1, stride, off);
  }
}

/* out[o, c, i] = in[k][o, c - c_k, i] for c_k <= c < c_k + C_k; o: dims before `dim`, i: dims behind. Source: torch.cat. */
void tn_k_concat_ref(const tn_tensor *in, int n_in, int dim, tn_tensor *out) {
  int64_t outer = tn_k_span(out, 0, dim), inner = tn_k_span(out, dim + 1, out->rank), at = 0;
  size_t size = tn_dtype_size((tn_dtype)out->dtype);
  for (int k = 0; k < n_in; k++) {
    int64_t row = in[k].shape[dim] * inner;
    for (int64_t o = 0; row && o < outer; o++)
      memcpy(tn_k_at(out, (o * out->shape[dim] + at) * inner), tn_k_at(&in[k], o * row), (size_t)row * size);
    at += in[k].shape[dim];
  }
}

/* Kernels whose places come from index tensors: take, gather, index, index_put, scatter.
 *
 * Index values are i64 or i32; negative ones count from the end once; anything else outside is TN_E_INDEX before it is used.
 * Elements that stay together move as one block. Written to be simple but not slow: take, index_put and scatter run in
 * compiled models. Where several writes meet, the last one in row-major order of the index wins. */
#include "kernels/kernels_int.h"
#include <string.h>

/* Index number i of idx as a place in [0, size); false = outside. */
static bool place(const tn_tensor *idx, int64_t i, int64_t size, int64_t *out) {
  int64_t v = idx->dtype == TN_I64 ? ((const int64_t *)idx->data)[i] : ((const int32_t *)idx->data)[i];
  if (v < 0) v += size;
  *out = v;
  return v >= 0 && v < size;
}
static void copy_elems(tn_tensor *out, int64_t to, const tn_tensor *in, int64_t from, int64_t n) {
  size_t size = tn_dtype_size((tn_dtype)out->dtype);
  memcpy(tn_k_at(out, to), tn_k_at(in, from), (size_t)n * size);
}

/* One element; fixed sizes become plain moves. */
static inline void move(char *to, const char *from, size_t size) {
  switch (size) {
    case 1: memcpy(to, from, 1); break;
    case 2: memcpy(to, from, 2); break;
    case 4: memcpy(to, from, 4); break;
    default: memcpy(to, from, 8); break;
  }
}

/* out[o, j.., i] = x[o, idx[j..], i]; o: dims before `dim`, i: dims behind. Source: torch.index_select, ONNX Gather. */
tn_status tn_k_take_ref(const tn_tensor *x, const tn_tensor *idx, int dim, tn_tensor *out) {
  int64_t outer = tn_k_span(x, 0, dim), inner = tn_k_span(x, dim + 1, x->rank), n = tn_k_numel(idx), size = x->shape[dim], at;
  for (int64_t j = 0; j < n; j++) {
    if (!place(idx, j, size, &at)) return TN_E_INDEX;
    for (int64_t o = 0; inner && o < outer; o++) copy_elems(out, (o * n + j) * inner, x, (o * size + at) * inner, inner);
  }
  return TN_OK;
}

/* gather and scatter walk the index tensor row by row (its last dim); x and the other operand follow with offsets. */
typedef struct walk {
  int rank;                         /* of the dims before the last */
  int64_t n_rows, row;              /* rows and their length */
  int64_t stride[2][TN_K_MAX_RANK]; /* of x (0 along `dim`) and of the other operand */
  int64_t step;                     /* of x along a row: 1, or 0 when the row is `dim` */
  int64_t along;                    /* stride of x along `dim` */
} walk;
static walk plan_walk(const tn_tensor *x, const tn_tensor *idx, const tn_tensor *other, int dim) {
  walk w = {.rank = idx->rank - 1, .row = idx->shape[idx->rank - 1]};
  w.n_rows = tn_k_span(idx, 0, w.rank);
  tn_k_dense(x, w.stride[0]);
  tn_k_dense(other, w.stride[1]);
  w.along = w.stride[0][dim];
  w.stride[0][dim] = 0;
  w.step = dim == w.rank ? 0 : 1;
  return w;
}

/* out[i0,.., i_dim,..] = x[i0,.., idx[i0,..],..], shape of idx. Source: torch.gather. */
tn_status tn_k_gather_ref(const tn_tensor *x, const tn_tensor *idx, int dim, tn_tensor *out) {
  walk w = plan_walk(x, idx, out, dim);
  int64_t i[TN_K_MAX_RANK] = {0}, off[2] = {0}, at;
  size_t size = tn_dtype_size((tn_dtype)x->dtype);
  for (int64_t r = 0; w.row && r < w.n_rows; r++) {
    for (int64_t k = 0; k < w.row; k++) {
      if (!place(idx, r * w.row + k, x->shape[dim], &at)) return TN_E_INDEX;
      move((char *)out->data + (off[1] + k) * (int64_t)size, (char *)x->data + (off[0] + k * w.step + at * w.along) * (int64_t)size, size);
    }
    tn_k_next(w.rank, idx->shape, i, 2, w.stride, off);
  }
  return TN_OK;
}

/* ---- index and index_put: y = x[.., idx0, .., idx1, ..] ----
 * y's shape: the broadcast index shape B stands where the first indexed dim stood when indexed dims are neighbours, else in
 * front; plain dims of x keep their order. Source: torch advanced indexing, as NumPy documents it
 * (https://numpy.org/doc/stable/user/basics.indexing.html#combining-advanced-and-basic-indexing). */
typedef struct indexed {
  int rank;                                         /* of y */
  int64_t shape[TN_K_MAX_RANK];                     /* of y; the trailing dims of one block are counted as 1 */
  int64_t stride[1 + TN_K_MAX_RANK][TN_K_MAX_RANK]; /* of x's plain dims, then of each index tensor, along y's dims */
  int64_t along[TN_K_MAX_RANK];                     /* stride of x along indexed dim k */
  int64_t block;                                    /* elements of x that move as one: its plain trailing dims */
  int block_rank;
} indexed;

static void plan_index(const tn_tensor *x, const tn_tensor *idx, const int *dims, int n_idx, indexed *p) {
  int64_t xs[TN_K_MAX_RANK], b[TN_K_MAX_RANK];
  int b_rank = 0, last = dims[n_idx - 1], at = dims[0];
  bool taken[TN_K_MAX_RANK] = {false};
  memset(p, 0, sizeof *p);
  tn_k_dense(x, xs);
  for (int k = 0; k < n_idx; k++) {
    taken[dims[k]] = true;
    p->along[k] = xs[dims[k]];
    if (k && dims[k] != dims[k - 1] + 1) at = 0;
    if (idx[k].rank > b_rank) b_rank = idx[k].rank;
  }
  for (int i = 0; i < b_rank; i++) {
    b[i] = 1;
    for (int k = 0; k < n_idx; k++) {
      int j = i - (b_rank - idx[k].rank);
      if (j >= 0 && idx[k].shape[j] != 1) b[i] = idx[k].shape[j];
    }
  }
  for (int i = 0; i <= x->rank; i++) {
    for (int j = 0; i == at && j < b_rank; j++, p->rank++) {
      p->shape[p->rank] = b[j];
      for (int k = 0; k < n_idx; k++) {
        int own = j - (b_rank - idx[k].rank);
        bool moves = own >= 0 && idx[k].shape[own] != 1;
        p->stride[1 + k][p->rank] = moves ? tn_k_span(&idx[k], own + 1, idx[k].rank) : 0;
      }
    }
    if (i == x->rank || taken[i]) continue;
    p->shape[p->rank] = x->shape[i];
    p->stride[0][p->rank++] = xs[i];
  }
  p->block_rank = x->rank - last - 1;
  p->block = tn_k_span(x, last + 1, x->rank);
  for (int i = p->rank - p->block_rank; i < p->rank; i++) p->shape[i] = 1;
}
/* Offset in x of the block that off[] points at. */
static bool find_block(const tn_tensor *x, const tn_tensor *idx, const int *dims, int n_idx, const indexed *p, const int64_t *off,
                       int64_t *out) {
  int64_t at;
  *out = off[0];
  for (int k = 0; k < n_idx; k++) {
    if (!place(&idx[k], off[1 + k], x->shape[dims[k]], &at)) return false;
    *out += at * p->along[k];
  }
  return true;
}
static int64_t count_blocks(const indexed *p) {
  int64_t n = p->block ? 1 : 0;
  for (int i = 0; i < p->rank; i++) n *= p->shape[i];
  return n;
}

tn_status tn_k_index_ref(const tn_tensor *x, const tn_tensor *idx, const int *dims, int n_idx, tn_tensor *out) {
  indexed p;
  plan_index(x, idx, dims, n_idx, &p);
  int64_t i[TN_K_MAX_RANK] = {0}, off[1 + TN_K_MAX_RANK] = {0}, n = count_blocks(&p), from;
  for (int64_t k = 0; k < n; k++) {
    if (!find_block(x, idx, dims, n_idx, &p, off, &from)) return TN_E_INDEX;
    copy_elems(out, k * p.block, x, from, p.block);
    tn_k_next(p.rank, p.shape, i, 1 + n_idx, p.stride, off);
  }
  return TN_OK;
}

/* to = to combined with v. bool sums are "or". */
static tn_num combine(tn_scalar_op op, tn_dtype t, tn_num to, tn_num v) {
  tn_num arg[2] = {to, v};
  if (t == TN_BOOL) op = op == TN_S_ADD ? TN_S_OR : op == TN_S_MUL ? TN_S_AND : op;
  return tn_scalar_eval(op, t, arg);
}
static void combine_at(tn_scalar_op op, tn_tensor *out, int64_t to, const tn_tensor *in, int64_t from) {
  if (op == TN_S_ADD && out->dtype == TN_F32)
    ((float *)out->data)[to] += ((const float *)in->data)[from];
  else
    tn_k_store(out, to, combine(op, (tn_dtype)out->dtype, tn_k_load(out, to), tn_k_load(in, from)));
}

/* out = x; out[.., idx0, ..] = values, or += with accumulate; values broadcast to the indexed shape. Source: torch.index_put. */
tn_status tn_k_index_put(const tn_tensor *x, const tn_tensor *values, const tn_tensor *idx, const int *dims, int n_idx, bool accumulate,
                         tn_tensor *out) {
  indexed p;
  int64_t vstride[1][TN_K_MAX_RANK], vdense[TN_K_MAX_RANK], i[TN_K_MAX_RANK] = {0}, off[1 + TN_K_MAX_RANK] = {0}, to, total = tn_k_numel(x);
  if (total) copy_elems(out, 0, x, 0, total);
  plan_index(x, idx, dims, n_idx, &p);
  tn_k_dense(values, vdense);
  for (int k = 0; k < p.rank; k++) {
    int own = k - (p.rank - values->rank);
    vstride[0][k] = own < 0 || values->shape[own] == 1 ? 0 : vdense[own];
  }
  /* Values that cover the block densely move with it; else the walk below goes element by element inside the block. */
  const int64_t *bshape = x->shape + x->rank - p.block_rank;
  int64_t vi[TN_K_MAX_RANK] = {0}, voff[1] = {0}, row = 1, n = count_blocks(&p);
  bool dense = true;
  for (int k = p.block_rank - 1; k >= 0; k--) {
    dense = dense && (bshape[k] == 1 || vstride[0][p.rank - p.block_rank + k] == row);
    row *= bshape[k];
  }
  for (int64_t k = 0; k < n; k++) {
    if (!find_block(x, idx, dims, n_idx, &p, off, &to)) return TN_E_INDEX;
    if (dense && !accumulate) {
      copy_elems(out, to, values, voff[0], p.block);
    } else if (dense && out->dtype == TN_F32) {
      float *sum = (float *)out->data + to;
      const float *v = (const float *)values->data + voff[0];
      for (int64_t e = 0; e < p.block; e++) sum[e] += v[e];
    } else {
      int64_t bi[TN_K_MAX_RANK] = {0}, from[1] = {voff[0]}, bstride[1][TN_K_MAX_RANK];
      for (int j = 0; j < p.block_rank; j++) bstride[0][j] = vstride[0][p.rank - p.block_rank + j];
      for (int64_t e = 0; e < p.block; e++) {
        if (accumulate)
          combine_at(TN_S_ADD, out, to + e, values, from[0]);
        else
          copy_elems(out, to + e, values, from[0], 1);
        tn_k_next(p.block_rank, bshape, bi, 1, bstride, from);
      }
    }
    tn_k_next(p.rank, p.shape, vi, 1, vstride, voff);
    tn_k_next(p.rank, p.shape, i, 1 + n_idx, p.stride, off);
  }
  return TN_OK;
}

/* out = x; out[i0,.., idx[i0,..],..] = src[i0,..] or combined with it, over idx's shape, in row-major order.
 * Source: torch.scatter, torch.scatter_reduce (include_self=True). */
tn_status tn_k_scatter(const tn_tensor *x, const tn_tensor *idx, const tn_tensor *src, int dim, const char *combiner, tn_tensor *out) {
  int64_t i[TN_K_MAX_RANK] = {0}, off[2] = {0}, total = tn_k_numel(x), at;
  bool set = combiner[0] == 's' && combiner[1] == 'e';
  tn_scalar_op op = combiner[0] == 's' ? TN_S_ADD : combiner[0] == 'p' ? TN_S_MUL : combiner[1] == 'a' ? TN_S_MAX : TN_S_MIN;
  size_t size = tn_dtype_size((tn_dtype)x->dtype);
  walk w = plan_walk(x, idx, src, dim);
  if (total) copy_elems(out, 0, x, 0, total);
  for (int64_t r = 0; w.row && r < w.n_rows; r++) {
    for (int64_t k = 0; k < w.row; k++) {
      if (!place(idx, r * w.row + k, x->shape[dim], &at)) return TN_E_INDEX;
      int64_t to = off[0] + k * w.step + at * w.along;
      if (set)
        move((char *)out->data + to * (int64_t)size, (char *)src->data + (off[1] + k) * (int64_t)size, size);
      else
        combine_at(op, out, to, src, off[1] + k);
    }
    tn_k_next(w.rank, idx->shape, i, 2, w.stride, off);
  }
  return TN_OK;
}

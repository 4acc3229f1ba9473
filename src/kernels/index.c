/* Kernels whose places come from index tensors: take, gather, index, index_put (scatter has its own file).
 *
 * Index values are i64 or i32; negative ones count from the end once; anything else outside is TN_E_INDEX before it is used.
 * Elements that stay together move as one block. Written to be simple but not slow: index_put runs in compiled models. Where
 * several writes meet, the last one in row-major order of the index wins; threads therefore share out only places that cannot
 * meet, strips of blocks. */
#include "kernels/kernels_int.h"
#include <stdatomic.h>
#include <string.h>

enum {
  SHARE = 8192, /* indexed elements that a thread should get at once: below, a fork is not worth it */
  STRIP = 256   /* elements of a block that one piece of work takes */
};

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
    if (!tn_k_place(idx, j, size, &at)) return TN_E_INDEX;
    for (int64_t o = 0; inner && o < outer; o++) copy_elems(out, (o * n + j) * inner, x, (o * size + at) * inner, inner);
  }
  return TN_OK;
}

/* gather walks the index tensor row by row (its last dim); x and the result follow with offsets. */
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
      if (!tn_k_place(idx, r * w.row + k, x->shape[dim], &at)) return TN_E_INDEX;
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
    if (!tn_k_place(&idx[k], off[1 + k], x->shape[dims[k]], &at)) return false;
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

/* One index_put, as threads see it: strips of the blocks. */
typedef struct putting {
  const tn_tensor *x, *values, *idx;
  const int *dims;
  int n_idx;
  bool accumulate, dense; /* dense: values cover a block as it lies in memory, and move with it */
  tn_tensor *out;
  indexed p;
  int64_t n, strip, vstride[1][TN_K_MAX_RANK];
  atomic_bool outside;
} putting;
static void put_strips(void *ctx, int64_t lo, int64_t hi, int worker) {
  putting *j = ctx;
  indexed *p = &j->p;
  tn_tensor *out = j->out;
  const int64_t *bshape = j->x->shape + j->x->rank - p->block_rank;
  int64_t vi[TN_K_MAX_RANK] = {0}, voff[1] = {0}, i[TN_K_MAX_RANK] = {0}, off[1 + TN_K_MAX_RANK] = {0}, to;
  int64_t first = lo * j->strip, some = (hi * j->strip < p->block ? hi * j->strip : p->block) - first;
  (void)worker;
  for (int64_t k = 0; k < j->n; k++) {
    if (!find_block(j->x, j->idx, j->dims, j->n_idx, p, off, &to)) {
      atomic_store(&j->outside, true);
      return;
    }
    if (j->dense && !j->accumulate) {
      copy_elems(out, to + first, j->values, voff[0] + first, some);
    } else if (j->dense && out->dtype == TN_F32) {
      float *sum = (float *)out->data + to + first;
      const float *v = (const float *)j->values->data + voff[0] + first;
      for (int64_t e = 0; e < some; e++) sum[e] += v[e];
    } else { /* all of the block: such calls are not cut */
      int64_t bi[TN_K_MAX_RANK] = {0}, from[1] = {voff[0]}, bstride[1][TN_K_MAX_RANK];
      for (int d = 0; d < p->block_rank; d++) bstride[0][d] = j->vstride[0][p->rank - p->block_rank + d];
      for (int64_t e = 0; e < p->block; e++) {
        if (j->accumulate)
          tn_k_combine_at(TN_S_ADD, out, to + e, j->values, from[0]);
        else
          copy_elems(out, to + e, j->values, from[0], 1);
        tn_k_next(p->block_rank, bshape, bi, 1, bstride, from);
      }
    }
    tn_k_next(p->rank, p->shape, vi, 1, j->vstride, voff);
    tn_k_next(p->rank, p->shape, i, 1 + j->n_idx, p->stride, off);
  }
}
/* out = x; out[.., idx0, ..] = values, or += with accumulate; values broadcast to the indexed shape. Source: torch.index_put. */
tn_status tn_k_index_put(tn_pool *pool, const tn_tensor *x, const tn_tensor *values, const tn_tensor *idx, const int *dims, int n_idx,
                         bool accumulate, tn_tensor *out) {
  putting j = {.x = x, .values = values, .idx = idx, .dims = dims, .n_idx = n_idx, .accumulate = accumulate, .dense = true, .out = out};
  int64_t vdense[TN_K_MAX_RANK], row = 1;
  tn_k_copy_all(pool, out, x);
  plan_index(x, idx, dims, n_idx, &j.p);
  tn_k_dense(values, vdense);
  for (int k = 0; k < j.p.rank; k++) {
    int own = k - (j.p.rank - values->rank);
    j.vstride[0][k] = own < 0 || values->shape[own] == 1 ? 0 : vdense[own];
  }
  const int64_t *bshape = x->shape + x->rank - j.p.block_rank;
  for (int k = j.p.block_rank - 1; k >= 0; k--) {
    j.dense = j.dense && (bshape[k] == 1 || j.vstride[0][j.p.rank - j.p.block_rank + k] == row);
    row *= bshape[k];
  }
  j.n = count_blocks(&j.p);
  if (j.n == 0) return TN_OK;
  j.strip = j.dense && (!accumulate || x->dtype == TN_F32) && j.n * j.p.block >= 2 * SHARE ? STRIP : j.p.block;
  tn_pool_run(pool, put_strips, &j, (j.p.block + j.strip - 1) / j.strip, (SHARE + j.n * j.strip - 1) / (j.n * j.strip));
  return atomic_load(&j.outside) ? TN_E_INDEX : TN_OK;
}

/* scatter: elements go where an index tensor says, over or into what is there; and what index_put shares with it.
 *
 * The index may be of any strides, as may the source: an index that is stretched over the last dim (index_add, and scatters
 * over whole rows) moves or adds a row at a time. Common dtypes have plain loops, the rest goes through tn_num.
 * Two elements meet only along `dim`; threads share out the other coordinates, so every result is made in row-major order of
 * the index: the last of several writes wins, and sums do not depend on the number of threads. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3") /* vectors for rows */
#endif
#include "kernels/kernels_int.h"
#include <stdatomic.h>
#include <string.h>

enum {
  SHARE = 8192,           /* elements that a thread should get at once: below, a fork is not worth it */
  COPY_SHARE = 128 << 10, /* bytes copied */
  STRIP = 256             /* elements of a row that one piece of work takes */
};

typedef struct copying {
  char *to;
  const char *from;
  int64_t bytes;
} copying;
static void copy_pieces(void *ctx, int64_t lo, int64_t hi, int worker) {
  const copying *c = ctx;
  int64_t end = hi * COPY_SHARE < c->bytes ? hi * COPY_SHARE : c->bytes;
  (void)worker;
  memcpy(c->to + lo * COPY_SHARE, c->from + lo * COPY_SHARE, (size_t)(end - lo * COPY_SHARE));
}
void tn_k_copy_all(tn_pool *pool, tn_tensor *out, const tn_tensor *x) {
  copying c = {out->data, x->data, tn_k_numel(x) * (int64_t)tn_dtype_size((tn_dtype)x->dtype)};
  if (c.bytes && c.to != c.from) tn_pool_run(pool, copy_pieces, &c, (c.bytes + COPY_SHARE - 1) / COPY_SHARE, 1);
}

void tn_k_combine_at(tn_scalar_op op, tn_tensor *out, int64_t to, const tn_tensor *in, int64_t from) {
  tn_dtype t = (tn_dtype)out->dtype;
  if (op == TN_S_ADD && t == TN_F32) {
    ((float *)out->data)[to] += ((const float *)in->data)[from];
    return;
  }
  tn_num arg[2] = {tn_k_load(out, to), tn_k_load(in, from)};
  if (t == TN_BOOL) op = op == TN_S_ADD ? TN_S_OR : op == TN_S_MUL ? TN_S_AND : op;
  tn_k_store(out, to, tn_scalar_eval(op, t, arg));
}

typedef enum action { SET_1, SET_2, SET_4, SET_8, ADD_F32, ADD_F64, ADD_I64, ADD_I32, ANY } action;

/* One call, as threads see it: groups of rows of one index before `dim`, cut into strips; single rows where they lie along `dim`. */
typedef struct job {
  const tn_tensor *idx, *src;
  tn_tensor *out;
  action act;
  tn_scalar_op op;
  int rank;                         /* of the dims before the last */
  int64_t stride[3][TN_K_MAX_RANK]; /* of out (0 along dim), src, idx */
  int64_t step[3];                  /* of these, along a row */
  int64_t size, along;              /* size and stride of out along dim */
  int64_t row, group, strip, n_strips;
  atomic_bool outside;
} job;

#define SET(to, from) *(to) = *(from)
#define ADD(to, from) *(to) += *(from)
#define LOOP(I, T, how)                                                                                                                    \
  do {                                                                                                                                     \
    const I *ix = (const I *)j->idx->data + off[2];                                                                                        \
    const T *v = (const T *)j->src->data + off[1];                                                                                         \
    T *to = (T *)j->out->data + off[0];                                                                                                    \
    for (int64_t k = 0; k < n; k++) {                                                                                                      \
      int64_t at = ix[k * j->step[2]];                                                                                                     \
      at += at < 0 ? j->size : 0;                                                                                                          \
      if ((uint64_t)at >= (uint64_t)j->size) return false;                                                                                 \
      how(&to[k * j->step[0] + at * j->along], &v[k * j->step[1]]);                                                                        \
    }                                                                                                                                      \
  } while (0)
#define BY_INDEX(T, how)                                                                                                                   \
  if (j->idx->dtype == TN_I64)                                                                                                             \
    LOOP(int64_t, T, how);                                                                                                                 \
  else                                                                                                                                     \
    LOOP(int32_t, T, how)
/* n elements from the offsets in off on, an index each; false: an index is outside. Integers add as unsigned ones, to wrap. */
static bool scatter_row(const job *j, const int64_t *off, int64_t n) {
  switch (j->act) {
    case SET_1: BY_INDEX(uint8_t, SET); break;
    case SET_2: BY_INDEX(uint16_t, SET); break;
    case SET_4: BY_INDEX(uint32_t, SET); break;
    case SET_8: BY_INDEX(uint64_t, SET); break;
    case ADD_F32: BY_INDEX(float, ADD); break;
    case ADD_F64: BY_INDEX(double, ADD); break;
    case ADD_I64: BY_INDEX(uint64_t, ADD); break;
    case ADD_I32: BY_INDEX(uint32_t, ADD); break;
    case ANY:
      for (int64_t k = 0, at; k < n; k++) {
        if (!tn_k_place(j->idx, off[2] + k * j->step[2], j->size, &at)) return false;
        tn_k_combine_at(j->op, j->out, off[0] + k * j->step[0] + at * j->along, j->src, off[1] + k * j->step[1]);
      }
  }
  return true;
}
#define ADD_ROW(T)                                                                                                                         \
  do {                                                                                                                                     \
    const T *restrict v = (const T *)j->src->data + off[1];                                                                                \
    T *restrict to = (T *)j->out->data + first;                                                                                            \
    for (int64_t k = 0; k < n; k++) to[k] += v[k];                                                                                         \
  } while (0)
/* n neighbours that share an index. */
static bool scatter_whole(const job *j, const int64_t *off, int64_t n) {
  int64_t at;
  if (!tn_k_place(j->idx, off[2], j->size, &at)) return false;
  int64_t first = off[0] + at * j->along;
  switch (j->act) {
    case ADD_F32: ADD_ROW(float); break;
    case ADD_F64: ADD_ROW(double); break;
    case ADD_I64: ADD_ROW(uint64_t); break;
    case ADD_I32: ADD_ROW(uint32_t); break;
    case ANY:
      for (int64_t k = 0; k < n; k++) tn_k_combine_at(j->op, j->out, first + k, j->src, off[1] + k);
      break;
    default: memcpy(tn_k_at(j->out, first), tn_k_at(j->src, off[1]), (size_t)n * tn_dtype_size((tn_dtype)j->out->dtype));
  }
  return true;
}

static void scatter_pieces(void *ctx, int64_t lo, int64_t hi, int worker) {
  job *j = ctx;
  bool whole = j->step[2] == 0 && j->step[0] == 1 && j->step[1] == 1;
  (void)worker;
  for (int64_t u = lo; u < hi; u++) {
    int64_t r = u / j->n_strips * j->group, first = u % j->n_strips * j->strip, n = j->row - first < j->strip ? j->row - first : j->strip;
    int64_t i[TN_K_MAX_RANK] = {0}, off[3];
    for (int o = 0; o < 3; o++) off[o] = first * j->step[o];
    for (int64_t d = j->rank - 1, left = r; d >= 0; left /= j->idx->shape[d--]) {
      i[d] = left % j->idx->shape[d];
      for (int o = 0; o < 3; o++) off[o] += i[d] * j->stride[o][d];
    }
    for (int64_t k = 0; k < j->group; k++) {
      if (!(whole ? scatter_whole(j, off, n) : scatter_row(j, off, n))) {
        atomic_store(&j->outside, true);
        return;
      }
      tn_k_next(j->rank, j->idx->shape, i, 3, j->stride, off);
    }
  }
}

static action action_of(tn_dtype t, bool set, tn_scalar_op op) {
  if (set) return tn_dtype_size(t) == 1 ? SET_1 : tn_dtype_size(t) == 2 ? SET_2 : tn_dtype_size(t) == 4 ? SET_4 : SET_8;
  if (op != TN_S_ADD) return ANY;
  return t == TN_F32 ? ADD_F32 : t == TN_F64 ? ADD_F64 : t == TN_I64 || t == TN_U64 ? ADD_I64 : t == TN_I32 || t == TN_U32 ? ADD_I32 : ANY;
}
/* out = x; out[i0,.., idx[i0,..],..] = src[i0,..] or combined with it, over idx's shape, in row-major order.
 * Source: torch.scatter, torch.scatter_reduce (include_self=True). */
tn_status tn_k_scatter(tn_pool *pool, const tn_tensor *x, const tn_tensor *idx, const tn_tensor *src, int dim, const char *combiner,
                       tn_tensor *out) {
  job j = {.idx = idx, .src = src, .out = out, .op = TN_S_ADD, .rank = idx->rank ? idx->rank - 1 : 0};
  bool set = combiner[0] == 's' && combiner[1] == 'e';
  if (combiner[0] != 's') j.op = combiner[0] == 'p' ? TN_S_MUL : combiner[1] == 'a' ? TN_S_MAX : TN_S_MIN;
  tn_k_copy_all(pool, out, x);
  if (tn_k_numel(idx) == 0) return TN_OK;
  const tn_tensor *of[3] = {x, src, idx};
  for (int o = 0; o < 3; o++) {
    tn_k_dense(of[o], j.stride[o]);
    if (o && of[o]->strides) memcpy(j.stride[o], of[o]->strides, (size_t)idx->rank * sizeof(int64_t));
  }
  j.act = action_of((tn_dtype)x->dtype, set, j.op);
  j.size = x->rank ? x->shape[dim] : 1;
  j.along = j.stride[0][dim];
  j.stride[0][dim] = 0;
  for (int o = 0; o < 3; o++) j.step[o] = j.stride[o][j.rank];
  j.row = idx->rank ? idx->shape[j.rank] : 1;
  bool along = dim == j.rank;
  j.group = along ? 1 : tn_k_span(idx, dim, j.rank);
  j.strip = along || j.row < 2 * STRIP ? j.row : STRIP;
  j.n_strips = (j.row + j.strip - 1) / j.strip;
  int64_t each = j.group * j.strip, units = tn_k_span(idx, 0, j.rank) / j.group * j.n_strips;
  tn_pool_run(pool, scatter_pieces, &j, units, each >= SHARE ? 1 : SHARE / each);
  return atomic_load(&j.outside) ? TN_E_INDEX : TN_OK;
}

/* Reference kernels with a combiner: reduce, scan, window.
 *
 * Floats accumulate in double and are rounded once per result, integers in their own type (wrapping). argmax and argmin
 * answer the first winner; a NaN beats everything (torch.argmax). Empty reductions give the combiner's identity. */
#include "kernels/kernels_int.h"
#include <math.h>
#include <string.h>

static tn_num round_to(tn_num v, tn_dtype acc, tn_dtype t) { return acc == t ? v : tn_num_cast(v, acc, t); }

/* a beats b: larger (argmax) or smaller (argmin); a NaN beats every number. */
static bool beats(tn_combiner c, tn_dtype t, tn_num a, tn_num b) {
  if (!tn_dtype_is_float(t)) return tn_scalar_eval(c == TN_C_ARGMAX ? TN_S_GT : TN_S_LT, t, (tn_num[]){a, b}).i;
  if (isnan(b.f)) return false;
  return isnan(a.f) || (c == TN_C_ARGMAX ? a.f > b.f : a.f < b.f);
}

/* out[kept] = combine over the reduced dims of in[kept, reduced], reduced in row-major order.
 * Source: torch.sum, prod, amax, amin, any, all, argmax, argmin. */
void tn_k_reduce_ref(tn_combiner c, const tn_tensor *in, const bool *reduced, tn_tensor *out) {
  int64_t shape[2][TN_K_MAX_RANK], stride[2][1][TN_K_MAX_RANK], dense[TN_K_MAX_RANK], n[2] = {1, 1};
  int rank[2] = {0, 0};
  bool arg = c == TN_C_ARGMAX || c == TN_C_ARGMIN;
  tn_dtype t = (tn_dtype)in->dtype, acc = tn_k_acc(t);
  tn_k_dense(in, dense);
  for (int i = 0; i < in->rank; i++) {
    int side = reduced[i], at = rank[side]++;
    shape[side][at] = in->shape[i];
    stride[side][0][at] = dense[i];
    n[side] *= in->shape[i];
  }
  int64_t idx[TN_K_MAX_RANK] = {0}, off[1] = {0};
  for (int64_t o = 0; o < n[0]; o++) {
    int64_t inner_idx[TN_K_MAX_RANK] = {0}, inner_off[1] = {off[0]}, best = 0;
    tn_num v = {.i = 0};
    if (!arg)
      v = tn_combiner_identity(c, acc);
    else if (n[1])
      v = tn_k_load(in, off[0]);
    for (int64_t r = 0; r < n[1]; r++) {
      tn_num x = tn_k_load(in, inner_off[0]);
      if (!arg) {
        v = tn_combiner_step(c, acc, v, x);
      } else if (beats(c, t, x, v)) {
        v = x;
        best = r;
      }
      tn_k_next(rank[1], shape[1], inner_idx, 1, stride[1], inner_off);
    }
    tn_k_store(out, o, arg ? (tn_num){.i = best} : round_to(v, acc, t));
    tn_k_next(rank[0], shape[0], idx, 1, stride[0], off);
  }
}

/* out[o, c, i] = combine of in[o, 0..c, i]. Source: torch.cumsum, cumprod, cummax, cummin (values). */
void tn_k_scan_ref(tn_combiner c, const tn_tensor *in, int dim, tn_tensor *out) {
  int64_t outer = tn_k_span(in, 0, dim), inner = tn_k_span(in, dim + 1, in->rank), len = in->shape[dim];
  tn_dtype t = (tn_dtype)in->dtype, acc = tn_k_acc(t);
  for (int64_t o = 0; o < outer; o++)
    for (int64_t i = 0; i < inner; i++) {
      tn_num v = tn_combiner_identity(c, acc);
      for (int64_t k = 0; k < len; k++) {
        int64_t at = (o * len + k) * inner + i;
        v = tn_combiner_step(c, acc, v, tn_k_load(in, at));
        tn_k_store(out, at, round_to(v, acc, t));
      }
    }
}

/* out[o, p0,..] = combine over k0 < kernel0,.. of in[o, p0*stride0 - pad_lo0 + k0*dilation0,..]; places outside `in` count as the
 * identity. o: leading dims; n_spatial trailing dims. Source: torch.nn.MaxPool2d and the sum part of AvgPool2d. */
void tn_k_window_ref(tn_combiner c, const tn_tensor *in, int n_spatial, const int64_t *kernel, const int64_t *stride, const int64_t *pad_lo,
                     const int64_t *dilation, tn_tensor *out) {
  int lead = in->rank - n_spatial;
  int64_t outer = tn_k_span(in, 0, lead), places = tn_k_span(out, lead, out->rank), plane = tn_k_span(in, lead, in->rank), taps = 1;
  tn_dtype t = (tn_dtype)in->dtype, acc = tn_k_acc(t);
  for (int i = 0; i < n_spatial; i++) taps *= kernel[i];
  for (int64_t o = 0; o < outer; o++) {
    int64_t p[TN_K_MAX_RANK] = {0};
    for (int64_t at = 0; at < places; at++) {
      int64_t k[TN_K_MAX_RANK] = {0};
      tn_num v = tn_combiner_identity(c, acc);
      for (int64_t tap = 0; tap < taps; tap++) {
        int64_t off = 0;
        bool inside = true;
        for (int i = 0; i < n_spatial; i++) {
          int64_t x = p[i] * stride[i] - pad_lo[i] + k[i] * dilation[i], size = in->shape[lead + i];
          inside = inside && x >= 0 && x < size;
          off = off * size + x;
        }
        if (inside) v = tn_combiner_step(c, acc, v, tn_k_load(in, o * plane + off));
        tn_k_next(n_spatial, kernel, k, 0, NULL, NULL);
      }
      tn_k_store(out, o * places + at, round_to(v, acc, t));
      tn_k_next(n_spatial, out->shape + lead, p, 0, NULL, NULL);
    }
  }
}

/* Reference kernels for sums of products: contract, conv, convt.
 *
 * Each result is one sum, accumulated in double for floats and rounded once, in 64 wrapping bits for integers and cut to the
 * result's type. The innermost sum is one strided dot product per dtype (`dot`), so that whole models can be evaluated in
 * reasonable time; everything around it is plain index arithmetic. No blocking, no threads: speed is the compiler's job. */
#include "kernels/kernels_int.h"
#include <string.h>

/* Sum being built: f for float dtypes, i (wrapping) for integers. */
typedef struct sum {
  double f;
  uint64_t i;
} sum;

#define DOT_FLOAT(T, conv)                                                                                                                 \
  do {                                                                                                                                     \
    const T *x = a, *y = b;                                                                                                                \
    double s = 0;                                                                                                                          \
    for (int64_t k = 0; k < n; k++) s += (double)conv(x[k * sa]) * (double)conv(y[k * sb]);                                                \
    acc->f += s;                                                                                                                           \
  } while (0)
#define DOT_INT(T)                                                                                                                         \
  do {                                                                                                                                     \
    const T *x = a, *y = b;                                                                                                                \
    uint64_t s = 0;                                                                                                                        \
    for (int64_t k = 0; k < n; k++) s += (uint64_t)(int64_t)x[k * sa] * (uint64_t)(int64_t)y[k * sb];                                      \
    acc->i += s;                                                                                                                           \
  } while (0)
/* acc += sum over k < n of a[k * sa] * b[k * sb]. */
static void dot(tn_dtype t, sum *acc, const void *a, int64_t sa, const void *b, int64_t sb, int64_t n) {
  switch (t) {
    case TN_F32: DOT_FLOAT(float, ); break;
    case TN_F64: DOT_FLOAT(double, ); break;
    case TN_F16: DOT_FLOAT(uint16_t, tn_f16_to_f32); break;
    case TN_BF16: DOT_FLOAT(uint16_t, tn_bf16_to_f32); break;
    case TN_I64: DOT_INT(int64_t); break;
    case TN_I32: DOT_INT(int32_t); break;
    case TN_I16: DOT_INT(int16_t); break;
    case TN_I8: DOT_INT(int8_t); break;
    case TN_U64: DOT_INT(uint64_t); break;
    case TN_U32: DOT_INT(uint32_t); break;
    case TN_U16: DOT_INT(uint16_t); break;
    default: DOT_INT(uint8_t); break; /* u8, bool */
  }
}
static void put_sum(tn_tensor *out, int64_t at, sum s) {
  tn_dtype t = (tn_dtype)out->dtype;
  if (tn_dtype_is_float(t))
    tn_k_store(out, at, tn_num_cast((tn_num){.f = s.f}, TN_F64, t));
  else
    tn_k_store(out, at, tn_num_cast((tn_num){.i = (int64_t)s.i}, TN_I64, t));
}

/* Where label ch stands in s[0..n); -1 = nowhere. */
static int label_at(const char *s, int n, char ch) {
  const char *p = n ? memchr(s, ch, (size_t)n) : NULL;
  return p ? (int)(p - s) : -1;
}

/* out[o..] = sum over labels missing in the result of a[..] * b[..]; labels "bik,bkj->bij". Source: torch.einsum. */
void tn_k_contract_ref(const char *labels, const tn_tensor *a, const tn_tensor *b, tn_tensor *out) {
  const char *la = labels, *lb = labels + a->rank + 1, *lo = lb + b->rank + 2;
  int64_t da[TN_K_MAX_RANK], db[TN_K_MAX_RANK], n_sum = 1;
  int64_t shape[2 * TN_K_MAX_RANK], ostride[2][TN_K_MAX_RANK], sa[2 * TN_K_MAX_RANK], sb[2 * TN_K_MAX_RANK];
  int n_red = 0;
  tn_k_dense(a, da);
  tn_k_dense(b, db);
  for (int i = 0; i < out->rank; i++) {
    int pa = label_at(la, a->rank, lo[i]), pb = label_at(lb, b->rank, lo[i]);
    ostride[0][i] = pa < 0 ? 0 : da[pa];
    ostride[1][i] = pb < 0 ? 0 : db[pb];
  }
  for (int i = 0; i < a->rank + b->rank; i++) { /* summed labels, each once; a's order first */
    bool second = i >= a->rank;
    char ch = second ? lb[i - a->rank] : la[i];
    int pa = label_at(la, a->rank, ch), pb = label_at(lb, b->rank, ch);
    if (label_at(lo, out->rank, ch) >= 0 || (second && pa >= 0)) continue;
    shape[n_red] = second ? b->shape[pb] : a->shape[pa];
    sa[n_red] = pa < 0 ? 0 : da[pa];
    sb[n_red] = pb < 0 ? 0 : db[pb];
    n_sum *= shape[n_red++];
  }
  int64_t last = n_red ? shape[n_red - 1] : 1, sa_last = n_red ? sa[n_red - 1] : 0, sb_last = n_red ? sb[n_red - 1] : 0;
  int64_t rows = n_sum == 0 ? 0 : n_sum / last, n = tn_k_numel(out);
  int64_t idx[TN_K_MAX_RANK] = {0}, off[2] = {0};
  for (int64_t o = 0; o < n; o++) {
    int64_t k[2 * TN_K_MAX_RANK] = {0}, oa = off[0], ob = off[1];
    sum s = {0};
    for (int64_t r = 0; r < rows; r++) {
      dot((tn_dtype)a->dtype, &s, tn_k_at(a, oa), sa_last, tn_k_at(b, ob), sb_last, last);
      for (int i = n_red - 2; i >= 0; i--) { /* next row of the outer summed dims */
        bool wrap = ++k[i] == shape[i];
        oa += wrap ? -(shape[i] - 1) * sa[i] : sa[i];
        ob += wrap ? -(shape[i] - 1) * sb[i] : sb[i];
        if (!wrap) break;
        k[i] = 0;
      }
    }
    put_sum(out, o, s);
    tn_k_next(out->rank, out->shape, idx, 2, ostride, off);
  }
}

/* The last spatial dim of one window row: taps k in [*k_lo, *k_hi) read inside, the first at *x. x = base + k * dilation. */
static void clip(int64_t base, int64_t dilation, int64_t kernel, int64_t size, int64_t *k_lo, int64_t *k_hi) {
  int64_t lo = base >= 0 ? 0 : (-base + dilation - 1) / dilation;
  int64_t hi = size - base <= 0 ? 0 : (size - base + dilation - 1) / dilation;
  *k_lo = lo < kernel ? lo : kernel;
  *k_hi = hi < kernel ? hi : kernel;
}

/* out[n, f, p0,..] = sum over c < C/g, k0,.. of x[n, (f / (O/g)) * (C/g) + c, p*stride - pad_lo + k*dilation] * w[f, c, k0,..].
 * x[N,C,*], w[O,C/g,*], out[N,O,*]. Source: torch.nn.Conv2d, ONNX Conv. */
void tn_k_conv_ref(const tn_tensor *x, const tn_tensor *w, const int64_t *stride, const int64_t *pad_lo, const int64_t *dilation,
                   int64_t groups, tn_tensor *out) {
  int n_sp = x->rank - 2, last = n_sp - 1;
  const int64_t *xs = x->shape + 2, *ws = w->shape + 2;
  int64_t cg = w->shape[1], og = w->shape[0] / groups, plane = tn_k_span(x, 2, x->rank), taps = tn_k_span(w, 2, w->rank);
  int64_t rows = ws[last] ? taps / ws[last] : 0, n = tn_k_numel(out);
  int64_t o[TN_K_MAX_RANK] = {0};
  for (int64_t at = 0; at < n; at++) {
    const int64_t *p = o + 2;
    int64_t first_c = (o[1] / og) * cg, k_lo, k_hi, base = p[last] * stride[last] - pad_lo[last];
    sum s = {0};
    clip(base, dilation[last], ws[last], xs[last], &k_lo, &k_hi);
    for (int64_t c = 0; k_lo < k_hi && c < cg; c++) {
      int64_t k[TN_K_MAX_RANK] = {0};
      for (int64_t r = 0; r < rows; r++) {
        int64_t off = 0;
        bool inside = true;
        for (int i = 0; i < last; i++) {
          int64_t v = p[i] * stride[i] - pad_lo[i] + k[i] * dilation[i];
          inside = inside && v >= 0 && v < xs[i];
          off = off * xs[i] + v;
        }
        if (inside)
          dot((tn_dtype)x->dtype, &s,
              tn_k_at(x, (o[0] * x->shape[1] + first_c + c) * plane + off * xs[last] + base + k_lo * dilation[last]), dilation[last],
              tn_k_at(w, (o[1] * cg + c) * taps + r * ws[last] + k_lo), 1, k_hi - k_lo);
        tn_k_next(last, ws, k, 0, NULL, NULL);
      }
    }
    put_sum(out, at, s);
    tn_k_next(out->rank, out->shape, o, 0, NULL, NULL);
  }
}

/* out[n, f, q0,..] = sum over c of group, k0,.. with q = p*stride - pad_lo + k*dilation for some p of x[n, c, p0,..] * w[c, f % (O/g),
 * k0,..]. x[N,C,*], w[C,O/g,*], out[N,O,*]: the gradient of conv with respect to its input. Source: torch.nn.ConvTranspose2d, ONNX
 * ConvTranspose. */
void tn_k_convt_ref(const tn_tensor *x, const tn_tensor *w, const int64_t *stride, const int64_t *pad_lo, const int64_t *dilation,
                    int64_t groups, tn_tensor *out) {
  int n_sp = x->rank - 2;
  const int64_t *xs = x->shape + 2, *ws = w->shape + 2;
  int64_t cg = x->shape[1] / groups, og = w->shape[1], plane = tn_k_span(x, 2, x->rank), taps = tn_k_span(w, 2, w->rank);
  int64_t n = tn_k_numel(out), o[TN_K_MAX_RANK] = {0};
  for (int64_t at = 0; at < n; at++) {
    const int64_t *q = o + 2;
    int64_t group = o[1] / og, k[TN_K_MAX_RANK] = {0};
    sum s = {0};
    for (int64_t tap = 0; tap < taps; tap++) {
      int64_t off = 0;
      bool inside = true;
      for (int i = 0; i < n_sp; i++) {
        int64_t v = q[i] + pad_lo[i] - k[i] * dilation[i]; /* = p * stride */
        inside = inside && v >= 0 && v % stride[i] == 0 && v / stride[i] < xs[i];
        off = off * xs[i] + v / stride[i];
      }
      if (inside) /* over the channels of the group */
        dot((tn_dtype)x->dtype, &s, tn_k_at(x, (o[0] * x->shape[1] + group * cg) * plane + off), plane,
            tn_k_at(w, (group * cg * og + o[1] % og) * taps + tap), og * taps, cg);
      tn_k_next(n_sp, ws, k, 0, NULL, NULL);
    }
    put_sum(out, at, s);
    tn_k_next(out->rank, out->shape, o, 0, NULL, NULL);
  }
}

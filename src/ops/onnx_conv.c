/* onnx_conv: Conv, ConvTranspose, Col2Im, CausalConvWithState, and what everything with a window over spatial dims reads from its node.
 *
 * Spatial dims may be symbolic, kernels not. SAME padding of a symbolic dim is a symbolic padding. Col2Im is a scatter that adds. (https://onnx.ai/onnx/operators/onnx__Conv.html and so on) */
#include "onnx_nn.h"

#define N TN_MAX_RANK

int tn_nn_shape(tn_ox *c, tn_ref x, int lo, int hi, const char *what, tn_dim *d) {
  if (c->b.st != TN_OK) return -1;
  int rank = tn_b_rank(&c->b, x);
  if (rank < lo || rank > hi) { tn_ox_bad(c, "%s has rank %d, wants %d to %d", what, rank, lo, hi); return -1; }
  return tn_b_shape(&c->b, x, d);
}

tn_ref tn_nn_fixed(tn_ox *c, tn_ref x, int k, tn_dim size) {
  tn_dim d[N];
  if (c->b.st != TN_OK) return x;
  int rank = tn_b_shape(&c->b, x, d);
  if (k >= rank) { tn_ox_bad(c, "an operand of rank %d", rank); return x; }
  if (tn_dim_is_const(d[k]) && tn_dim_is_const(size) && d[k] != size) { tn_ox_bad(c, "dim %d of an operand is %lld, wants %lld", k, (long long)d[k], (long long)size); return x; }
  d[k] = size;
  return tn_b_reshape(&c->b, x, d, rank);
}

bool tn_nn_float(tn_ox *c, tn_ref x, const char *what) {
  if (c->b.st != TN_OK) return false;
  if (!tn_dtype_is_float(tn_b_dtype(&c->b, x))) tn_ox_unsup(c, "%s is %s", what, tn_dtype_name(tn_b_dtype(&c->b, x)));
  return c->b.st == TN_OK;
}

void tn_nn_spread(tn_ox *c, const char *name, int n, int64_t lo, int64_t hi, int64_t def, int64_t *out) {
  int64_t v[2 * N];
  int k = tn_ox_ints_attr(c, name, v, 2 * N);
  for (int i = 0; i < n; i++) out[i] = def;
  if (c->b.st != TN_OK || k <= 0) return;
  if (k != n) { tn_ox_bad(c, "%s has %d values, wants %d", name, k, n); return; }
  for (int i = 0; i < n; i++) {
    if (v[i] < lo || v[i] > hi) { tn_ox_bad(c, "%s[%d] is %lld", name, i, (long long)v[i]); return; }
    out[i] = v[i];
  }
}

int64_t tn_nn_const_dim(tn_ox *c, tn_dim d, const char *what) {
  if (c->b.st != TN_OK) return 0;
  if (tn_dim_is_const(d) && d <= INT32_MAX) return d;
  tn_ox_unsup(c, "%s is symbolic or huge", what);
  return 0;
}

typedef enum auto_pad { NOTSET, SAME_UPPER, SAME_LOWER, VALID } auto_pad;
static auto_pad read_auto_pad(tn_ox *c) {
  static const char *const name[] = {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"};
  const char *s = tn_ox_str_attr(c, "auto_pad", "NOTSET");
  if (c->b.st != TN_OK || !*s) return NOTSET;
  for (int i = 0; i < 4; i++)
    if (!strcmp(s, name[i])) return (auto_pad)i;
  tn_ox_bad(c, "auto_pad is '%s'", s);
  return NOTSET;
}
static void read_pads(tn_ox *c, int n, tn_dim *lo, tn_dim *hi) {
  int64_t v[2 * N];
  const tn_ox_attr *a = tn_ox_attr_get(c, "pads");
  for (uint32_t i = 0; a && a->kind == TN_OX_INTS && i < a->n; i++)
    if (a->u.i[i] < 0) { tn_ox_unsup(c, "negative padding %lld", (long long)a->u.i[i]); return; }
  tn_nn_spread(c, "pads", 2 * n, 0, INT32_MAX, 0, v);
  for (int i = 0; i < n; i++) { lo[i] = v[i]; hi[i] = v[n + i]; }
}
/* total, never below 0, on both sides; an odd one at the end, or at the start when `low` */
static void split(tn_dims *t, tn_dim total, bool low, tn_dim *lo, tn_dim *hi) {
  total = tn_dim_max(t, 0, total);
  tn_dim half = tn_dim_floordiv(t, total, 2), rest = tn_dim_sub(t, total, half);
  *lo = low ? rest : half;
  *hi = low ? half : rest;
}

bool tn_nn_window(tn_ox *c, tn_ref x, const int64_t *kernel, tn_pool_form *w, bool *ceil) {
  tn_dim d[N];
  tn_dims *t = c->b.g->dims;
  w->rank = tn_nn_shape(c, x, 3, N - 1, "X", d);
  if (c->b.st != TN_OK) return false;
  w->n = w->rank - 2;
  if (kernel) memcpy(w->kernel, kernel, (size_t)w->n * sizeof *kernel);
  tn_nn_spread(c, "kernel_shape", w->n, 1, INT32_MAX, 0, kernel ? w->size : w->kernel);
  for (int i = 0; i < w->n && c->b.st == TN_OK; i++) {
    if (kernel && w->size[i] && w->size[i] != kernel[i]) tn_ox_bad(c, "kernel_shape[%d] is %lld, the weight has %lld", i, (long long)w->size[i], (long long)kernel[i]);
    if (!kernel && w->kernel[i] < 1) tn_ox_bad(c, "kernel_shape is missing");
  }
  tn_nn_spread(c, "strides", w->n, 1, INT32_MAX, 1, w->stride);
  tn_nn_spread(c, "dilations", w->n, 1, INT32_MAX, 1, w->dilation);
  auto_pad how = read_auto_pad(c);
  *ceil = tn_ox_int(c, "ceil_mode", 0) != 0;
  if (how == NOTSET) read_pads(c, w->n, w->lo, w->hi);
  if (c->b.st != TN_OK) return false;
  for (int i = 0; i < w->n; i++) {
    tn_dim in = w->in[i] = d[i + 2];
    int64_t reach = (w->kernel[i] - 1) * w->dilation[i] + 1, l, h;
    if (how == SAME_UPPER || how == SAME_LOWER) {
      w->size[i] = tn_dim_ceildiv(t, in, w->stride[i]);
      tn_dim need = tn_dim_add(t, tn_dim_mul(t, tn_dim_sub(t, w->size[i], 1), w->stride[i]), reach);
      split(t, tn_dim_sub(t, need, in), how == SAME_LOWER, &w->lo[i], &w->hi[i]);
      continue;
    }
    tn_dim from = tn_dim_add(t, in, w->lo[i]), spare = tn_dim_sub(t, tn_dim_add(t, from, w->hi[i]), tn_dim_int(t, reach));
    tn_dim_bounds(t, spare, &l, &h);
    if (h < 0) { tn_ox_bad(c, "a window of %lld over less in spatial dim %d", (long long)reach, i); return false; }
    tn_dim steps = *ceil ? tn_dim_ceildiv(t, spare, w->stride[i]) : tn_dim_floordiv(t, spare, w->stride[i]);
    if (*ceil) steps = tn_dim_min(t, steps, tn_dim_floordiv(t, tn_dim_sub(t, from, 1), w->stride[i])); /* none starts in the padding behind */
    w->size[i] = tn_dim_add(t, steps, 1);
  }
  return true;
}

/* ---- convolution ---- */

/* Paddings and output paddings of a transposed convolution; an asked output shape beyond what is there counts as output padding. */
static void transpose_pads(tn_ox *c, const tn_pool_form *w, tn_conv_form *f) {
  tn_dims *t = c->b.g->dims;
  auto_pad how = read_auto_pad(c);
  int64_t shape[2 * N];
  int n = f->n, given = tn_ox_ints_attr(c, "output_shape", shape, 2 * N);
  tn_nn_spread(c, "output_padding", n, 0, INT32_MAX, 0, f->out_pad);
  if (how == NOTSET) read_pads(c, n, f->lo, f->hi);
  if (c->b.st != TN_OK) return;
  if (given > 0 && given != n && given != n + 2) { tn_ox_bad(c, "output_shape has %d values for %d spatial dims", given, n); return; }
  if (given <= 0 && how != SAME_UPPER && how != SAME_LOWER) return;
  for (int i = 0; i < n; i++) {
    tn_dim full = tn_dim_add(t, tn_dim_mul(t, tn_dim_sub(t, w->in[i], 1), f->stride[i]), (w->kernel[i] - 1) * f->dilation[i] + 1 + f->out_pad[i]);
    tn_dim want = given > 0 ? shape[given - n + i] : tn_dim_mul(t, w->in[i], f->stride[i]);
    tn_dim total = tn_dim_sub(t, full, want);
    int64_t v;
    if (want < 0 && given > 0) { tn_ox_bad(c, "output_shape[%d] is %lld", i, (long long)want); return; }
    split(t, total, how != SAME_UPPER, &f->lo[i], &f->hi[i]);
    if (tn_dim_as_int(t, total, &v)) {
      if (v < 0) f->out_pad[i] -= v;
    } else {
      int64_t l, h;
      tn_dim_bounds(t, total, &l, &h);
      if (l < 0) { tn_ox_unsup(c, "output_shape against a symbolic input dim"); return; }
    }
  }
}

tn_ref tn_nn_conv(tn_ox *c, tn_ref x, tn_ref w, tn_ref bias, bool transposed) {
  tn_decomp_ctx *b = &c->b;
  tn_dim dw[N];
  int64_t kernel[N];
  tn_pool_form win = {0};
  tn_conv_form f = {.transposed = transposed};
  bool ceil;
  int rank = tn_nn_shape(c, w, 3, N - 1, "W", dw);
  for (int i = 2; i < rank; i++) kernel[i - 2] = tn_nn_const_dim(c, dw[i], "a kernel size");
  if (b->st != TN_OK) return (tn_ref){0};
  if (tn_b_rank(b, x) != rank) { tn_ox_bad(c, "X of rank %d, W of rank %d", tn_b_rank(b, x), rank); return (tn_ref){0}; }
  for (int i = 0; i < rank - 2; i++)
    if (kernel[i] < 1) { tn_ox_bad(c, "kernel dim %d is 0", i); return (tn_ref){0}; }
  f.n = rank - 2;
  f.groups = tn_ox_int(c, "group", 1);
  if (b->st == TN_OK && (f.groups < 1 || f.groups > INT32_MAX)) tn_ox_bad(c, "group is %lld", (long long)f.groups);
  tn_dim dx[N];
  tn_b_shape(b, x, dx);
  dx[1] = transposed ? dw[0] : tn_dim_mul(b->g->dims, dw[1], f.groups);
  x = tn_b_reshape(b, x, dx, rank);                    /* channels may be spelled in two ways */
  if (transposed) {
    for (int i = 0; i < f.n; i++) { win.in[i] = dx[i + 2]; win.kernel[i] = kernel[i]; }
    tn_nn_spread(c, "strides", f.n, 1, INT32_MAX, 1, f.stride);
    tn_nn_spread(c, "dilations", f.n, 1, INT32_MAX, 1, f.dilation);
    transpose_pads(c, &win, &f);
  } else if (tn_nn_window(c, x, kernel, &win, &ceil)) {
    memcpy(f.stride, win.stride, sizeof f.stride);
    memcpy(f.dilation, win.dilation, sizeof f.dilation);
    memcpy(f.lo, win.lo, sizeof f.lo);
    memcpy(f.hi, win.hi, sizeof f.hi);
  }
  tn_ref y = tn_b_conv(b, x, w, &f);
  if (bias.id && b->st == TN_OK) y = tn_nn_add(b, y, tn_b_along(b, tn_b_cast(b, bias, tn_b_dtype(b, y)), 1, rank));
  return y;
}

static tn_status convolution(tn_ox *c, bool transposed) {
  tn_ref x = tn_ox_in(c, 0), w = tn_ox_in(c, 1), bias = tn_ox_opt(c, 2);
  if (!tn_nn_float(c, x, "X")) return c->b.st;
  return tn_ox_ret(c, 0, tn_b_cast(&c->b, tn_nn_conv(c, x, w, bias, transposed), tn_b_dtype(&c->b, x)));
}
tn_status tn_ox_conv(tn_ox *c) { return convolution(c, false); }
tn_status tn_ox_conv_transpose(tn_ox *c) { return convolution(c, true); }

/* ---- Col2Im: x[N, C * prod(block), L], blocks placed on a grid of L; every element added where it came from. All sizes may be data. ---- */

tn_status tn_ox_col2im(tn_ox *c) {
  tn_decomp_ctx *b = &c->b;
  tn_dims *t = b->g->dims;
  tn_ref x = tn_ox_in(c, 0), ri = tn_ox_in(c, 1), rb = tn_ox_in(c, 2), at = {0}, in = {0};
  tn_dim image[N], block[N], grid[N], d[N], lo[N], hi[N], one = 1;
  int64_t stride[N], dilation[N];
  tn_nn_shape(c, x, 3, 3, "input", d);
  int n = tn_ox_sizes(c, ri, image, N, 1), nb = tn_ox_sizes(c, rb, block, N, 1);
  if (b->st != TN_OK) return b->st;
  if (nb != n || n < 1 || 2 * n > N) return tn_ox_bad(c, "image_shape of %d and block_shape of %d values", n, nb);
  tn_nn_spread(c, "strides", n, 1, INT32_MAX, 1, stride);
  tn_nn_spread(c, "dilations", n, 1, INT32_MAX, 1, dilation);
  read_pads(c, n, lo, hi);
  for (int i = 0; i < n && b->st == TN_OK; i++) {
    tn_dim room = tn_dim_sub(t, tn_dim_add(t, image[i], tn_dim_add(t, lo[i], hi[i])), one);
    grid[i] = tn_dim_add(t, tn_dim_floordiv(t, tn_dim_sub(t, room, tn_dim_mul(t, tn_dim_sub(t, block[i], 1), dilation[i])), stride[i]), 1);
    tn_ref k = tn_b_along(b, tn_b_iota(b, block[i], TN_I64), i, 2 * n), l = tn_b_along(b, tn_b_iota(b, grid[i], TN_I64), n + i, 2 * n), size = tn_b_dimval(b, image[i], TN_I64);
    tn_ref p = tn_nn_add(b, tn_nn_mul(b, k, tn_b_int(b, dilation[i], TN_I64)), tn_nn_mul(b, l, tn_b_int(b, stride[i], TN_I64)));
    p = tn_nn_sub(b, p, tn_b_dimval(b, lo[i], TN_I64));
    tn_ref inside = tn_nn_and(b, tn_b_2(b, TN_OP_GE, p, tn_b_int(b, 0, TN_I64)), tn_b_2(b, TN_OP_LT, p, size));
    at = at.id ? tn_nn_add(b, tn_nn_mul(b, at, size), p) : p;
    in = in.id ? tn_nn_and(b, in, inside) : inside;
  }
  if (b->st != TN_OK) return b->st;
  tn_dim area = tn_b_numel(b, image, n), K = tn_b_numel(b, block, n), L = tn_b_numel(b, grid, n), rows = tn_dim_mul(t, d[0], tn_dim_floordiv(t, d[1], K));
  tn_dim flat[2] = {rows, tn_dim_mul(t, K, L)}, size[2] = {rows, tn_dim_add(t, area, 1)}, whole[2 * N], s[N];
  for (int i = 0; i < n; i++) { whole[i] = block[i]; whole[n + i] = grid[i]; s[i + 2] = image[i]; }
  at = tn_b_broadcast(b, tn_b_sel(b, in, at, tn_b_dimval(b, area, TN_I64)), whole, 2 * n);   /* what falls outside goes to a place behind the image */
  tn_dtype dt = tn_b_wide(tn_b_dtype(b, x));
  tn_ref op[3] = {tn_b_zeros(b, size, 2, dt), tn_b_broadcast(b, tn_b_reshape(b, at, &flat[1], 1), flat, 2), tn_b_reshape(b, tn_b_cast(b, x, dt), flat, 2)};
  tn_attr a[2] = {tn_mk_int("dim", 1), tn_mk_str("combiner", "sum")};
  tn_ref y = tn_b_slice(b, tn_b_op(b, TN_OP_SCATTER, op, 3, a, 2), 1, 0, area, 1);
  s[0] = d[0];
  s[1] = tn_dim_floordiv(t, d[1], K);
  return tn_ox_ret(c, 0, tn_b_cast(b, tn_b_reshape(b, y, s, n + 2), tn_b_dtype(b, x)));
}

/* ---- CausalConvWithState: x[B, C, L], w[C, 1, k], state[B, C, k-1] before x ---- */

tn_status tn_ox_causal_conv(tn_ox *c) {
  tn_decomp_ctx *b = &c->b;
  tn_ref x = tn_ox_in(c, 0), w = tn_ox_in(c, 1), bias = tn_ox_opt(c, 2), past = tn_ox_opt(c, 3);
  tn_dim d[N], dw[N];
  const char *act = tn_ox_str_attr(c, "activation", "none");
  tn_nn_shape(c, x, 3, 3, "input", d);
  tn_nn_shape(c, w, 3, 3, "weight", dw);
  int64_t k = b->st == TN_OK ? tn_nn_const_dim(c, dw[2], "the kernel size") : 0, ch = b->st == TN_OK ? tn_nn_const_dim(c, d[1], "the number of channels") : 0;
  if (!tn_nn_float(c, x, "input")) return b->st;
  if (k < 1 || ch < 1) return tn_ox_bad(c, "kernel of %lld, %lld channels", (long long)k, (long long)ch);
  tn_dtype t = tn_b_dtype(b, x);
  tn_dim zero[3] = {0}, before[3] = {0, 0, k - 1};
  tn_attr_val nil = {.kind = TN_AT_INT};
  tn_ref in[2] = {past, x}, all = past.id && k > 1 ? tn_b_concat(b, in, 2, 2) : tn_b_pad(b, x, before, zero, &nil);
  tn_conv_form f = {.n = 1, .groups = ch, .stride = {1}, .dilation = {1}};
  tn_ref y = tn_b_conv(b, all, w, &f);
  if (bias.id) y = tn_nn_add(b, y, tn_b_along(b, tn_b_cast(b, bias, tn_b_dtype(b, y)), 1, 3));
  if (!strcmp(act, "silu") || !strcmp(act, "swish")) y = tn_nn_mul(b, y, tn_b_1(b, TN_OP_SIGMOID, y));
  else if (strcmp(act, "none")) return tn_ox_bad(c, "activation is '%s'", act);
  if (c->n_out > 1) tn_ox_ret(c, 1, tn_b_slice(b, all, 2, d[2], k - 1, 1));
  return tn_ox_ret(c, 0, tn_b_cast(b, y, t));
}

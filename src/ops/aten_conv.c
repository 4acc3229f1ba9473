/* aten_conv: convolutions and pooling. Bias is an add of its own, so that it joins the epilogue with whatever follows. Pools are
 * windows with the recorded output size (ceil_mode and its clipped last window need no case of their own: positions outside count
 * as the combiner's identity); average pools divide by a constant, or by a window over ones where edges make it vary. */
#include "aten_int.h"

#define N TN_MAX_RANK
static bool small(tn_dim d) { return tn_dim_is_const(d) && d <= INT32_MAX; }

/* ---- convolution ---- */

typedef tn_conv_form conv;

tn_ref tn_b_conv(tn_decomp_ctx *c, tn_ref x, tn_ref w, const tn_conv_form *p) {
  tn_dim pad[2 * N];
  if (c->st != TN_OK) return x;
  for (int i = 0; i < p->n; i++) { pad[2 * i] = p->lo[i]; pad[2 * i + 1] = p->hi[i]; }
  tn_ref in[2] = {tn_b_up(c, x), tn_b_up(c, w)};
  uint32_t n = (uint32_t)p->n;
  tn_attr at[5] = {tn_mk_dims(c->g, "stride", p->stride, n), tn_mk_dims(c->g, "padding", pad, 2 * n), tn_mk_dims(c->g, "dilation", p->dilation, n),
                   tn_mk_int("groups", p->groups), tn_mk_dims(c->g, "output_padding", p->out_pad, n)};
  return tn_b_op(c, p->transposed ? TN_OP_CONVT : TN_OP_CONV, in, 2, at, p->transposed ? 5 : 4);
}

static void read_conv(tn_decomp_ctx *c, conv *p, tn_ref w) {
  p->n = tn_b_rank(c, w) - 2;
  if (c->st != TN_OK || p->n < 1) { tn_at_unsup(c, "weight of rank %d", p->n + 2); p->n = 0; return; }
  tn_at_spread(c, "stride", p->stride, p->n, 1);
  tn_at_spread(c, "dilation", p->dilation, p->n, 1);
  tn_at_spread(c, "output_padding", p->out_pad, p->n, 0);
  p->groups = tn_at_i(c, "groups", 1);
  p->transposed = tn_at_b(c, "transposed", strstr(c->g->node[c->node].target, "conv_transpose") != NULL);
  const tn_attr_val *v = tn_at_val(c, "padding");
  if (v && v->kind == TN_AT_STR) {
    bool same = !strcmp(v->u.s, "same");
    if (!same && strcmp(v->u.s, "valid")) tn_at_unsup(c, "padding=%s", v->u.s);
    for (int i = 0; i < p->n; i++) {
      tn_dim k = tn_b_dim(c, w, i + 2);
      if (!small(k)) { tn_at_unsup(c, "a kernel size that is symbolic or huge"); return; }
      int64_t total = same ? p->dilation[i] * (k - 1) : 0;
      p->lo[i] = total / 2;
      p->hi[i] = total - p->lo[i];
    }
    return;
  }
  tn_at_spread(c, "padding", p->lo, p->n, 0);
  memcpy(p->hi, p->lo, sizeof p->hi);
}

tn_status tn_d_convolution(tn_decomp_ctx *c) {
  tn_ref x = tn_at_t(c, "input"), w = tn_at_t(c, "weight"), b = tn_at_opt(c, "bias");
  conv p = {0};
  read_conv(c, &p, w);
  if (c->st != TN_OK) return c->st;
  bool single = tn_b_rank(c, x) == p.n + 1;            /* no batch dim */
  if (single) x = tn_b_unsq(c, x, 0);
  tn_ref y = tn_b_conv(c, x, w, &p);
  if (b.id) y = tn_b_2(c, TN_OP_ADD, y, tn_b_along(c, tn_b_cast(c, b, tn_b_dtype(c, y)), 1, p.n + 2));
  return tn_at_ret(c, 0, single ? tn_b_sq(c, y, 0) : y);
}

/* Gradient of a convolution's weight w[O, C/g, *] from its input x[N, C, *] and the gradient g[N, O, *] of its output: a convolution
 * with stride and dilation swapped, batch as channels. Group by group side by side: x as [C/g, g*N, *], kernel [O, N, *]. */
static tn_ref weight_grad(tn_decomp_ctx *c, tn_ref x, tn_ref g, tn_ref w, const conv *p) {
  tn_dim d[N], s[N];
  int rank = tn_b_shape(c, x, d), perm[N];
  if (c->st != TN_OK || rank + 1 > N) return x;
  s[0] = d[0]; s[1] = p->groups; s[2] = tn_dim_floordiv(c->g->dims, d[1], p->groups);
  for (int i = 2; i < rank; i++) { s[i + 1] = d[i]; perm[i + 1] = i + 1; }
  perm[0] = 2; perm[1] = 1; perm[2] = 0;
  x = tn_b_permute(c, tn_b_reshape(c, x, s, rank + 1), perm);
  d[0] = s[2]; d[1] = tn_dim_mul(c->g->dims, s[1], s[0]);
  x = tn_b_reshape(c, x, d, rank);
  conv q = *p;
  q.transposed = false;
  for (int i = 0; i < p->n; i++) { q.stride[i] = p->dilation[i]; q.dilation[i] = p->stride[i]; }
  tn_ref y = tn_b_conv(c, x, tn_b_swap(c, g, 0, 1), &q); /* [C/g, O, k or a little more] */
  for (int i = 0; i < p->n; i++) y = tn_b_slice(c, y, i + 2, 0, tn_b_dim(c, w, i + 2), 1);
  return tn_b_swap(c, y, 0, 1);
}

tn_status tn_d_convolution_backward(tn_decomp_ctx *c) {
  tn_ref g = tn_at_t(c, "grad_output"), x = tn_at_t(c, "input"), w = tn_at_t(c, "weight");
  int64_t mask[3] = {1, 1, 1};
  tn_at_ints(c, "output_mask", mask, 3);
  conv p = {0};
  read_conv(c, &p, w);
  if (c->st != TN_OK) return c->st;
  if (tn_b_rank(c, x) != p.n + 2) return tn_at_unsup(c, "input of rank %d", tn_b_rank(c, x));
  if (mask[0]) {                                       /* conv <-> transposed conv; what the stride cut off comes back as output padding */
    conv q = p;
    q.transposed = !p.transposed;
    for (int i = 0; i < p.n && q.transposed; i++) {
      tn_dim in = tn_b_dim(c, x, i + 2), go = tn_b_dim(c, g, i + 2), k = tn_b_dim(c, w, i + 2);
      if (!small(in) || !small(go) || !small(k)) return tn_at_unsup(c, "spatial dims that are symbolic or huge");
      q.out_pad[i] = in - ((go - 1) * p.stride[i] - p.lo[i] - p.hi[i] + p.dilation[i] * (k - 1) + 1);
    }
    tn_ref dx = tn_b_conv(c, g, w, &q);
    for (int i = 0; i < p.n; i++) dx = tn_b_slice(c, dx, i + 2, 0, tn_b_dim(c, x, i + 2), 1);
    tn_at_ret(c, 0, dx);
  }
  if (mask[1]) tn_at_ret(c, 1, p.transposed ? weight_grad(c, g, x, w, &p) : weight_grad(c, x, g, w, &p));
  if (mask[2] && c->n_out > 2) {
    int ax[N], n = 0;
    for (int i = 0; i < p.n + 2; i++) if (i != 1) ax[n++] = i;
    tn_at_ret(c, 2, tn_b_reduce(c, TN_C_SUM, tn_b_up(c, g), ax, n, false));
  }
  return c->st;
}

/* ---- pools ---- */

typedef tn_pool_form pool;

static int pool_dims(tn_decomp_ctx *c) {               /* 1, 2 or 3 from "max_pool2d" */
  const char *s = strstr(c->g->node[c->node].target, "_pool");
  if (s && s[5] >= '1' && s[5] <= '3') return s[5] - '0';
  tn_at_unsup(c, "number of spatial dims unknown");
  return 1;
}
static void read_pool(tn_decomp_ctx *c, pool *p, tn_ref x, const tn_type *out) {
  tn_dim d[N];
  int64_t s[N];
  p->n = pool_dims(c);
  p->rank = tn_b_shape(c, x, d);
  if (c->st != TN_OK) return;
  if (p->rank < p->n || out->rank != p->rank) { tn_at_unsup(c, "ranks %d and %u", p->rank, out->rank); return; }
  tn_at_spread(c, "kernel_size", p->kernel, p->n, 1);
  bool own = tn_at_ints(c, "stride", s, N) > 0;
  if (own) tn_at_spread(c, "stride", p->stride, p->n, 1);
  else memcpy(p->stride, p->kernel, sizeof p->stride);
  tn_at_spread(c, "padding", p->lo, p->n, 0);
  memcpy(p->hi, p->lo, sizeof p->hi);
  tn_at_spread(c, "dilation", p->dilation, p->n, 1);
  for (int i = 0; i < p->n; i++) { p->in[i] = d[p->rank - p->n + i]; p->size[i] = out->dim[p->rank - p->n + i]; }
}

/* Where the maximum sits: pos[i] = its coordinate in spatial dim i of the input, i64, of the output's shape. One strided slice per window
 * place, joined in a last dim, argmax over it, then arithmetic. */
void tn_b_max_places(tn_decomp_ctx *c, tn_ref x, const tn_pool_form *p, tn_ref *pos) {
  int64_t total = 1, k[N] = {0};
  tn_dims *t = c->g->dims;
  tn_dim lo[N] = {0}, hi[N] = {0};
  int base = p->rank - p->n;
  tn_dtype dt = tn_b_dtype(c, x);
  tn_attr_val low = {.kind = TN_AT_FLOAT};
  low.u.f = -INFINITY;
  if (!tn_dtype_is_float(dt)) {
    low.kind = TN_AT_INT;
    low.u.i = dt == TN_U8 ? 0 : dt == TN_I8 ? INT8_MIN : dt == TN_I32 ? INT32_MIN : INT64_MIN;
  }
  for (int i = 0; i < p->n; i++) {
    if ((total *= p->kernel[i]) > 128) break;
    tn_dim need = tn_dim_add(t, tn_dim_mul(t, tn_dim_sub(t, p->size[i], 1), p->stride[i]), (p->kernel[i] - 1) * p->dilation[i] + 1);
    lo[base + i] = p->lo[i];
    hi[base + i] = tn_dim_max(t, 0, tn_dim_sub(t, tn_dim_sub(t, need, p->in[i]), p->lo[i]));
  }
  bool known = tn_dtype_is_float(dt) || dt == TN_U8 || dt == TN_I8 || dt == TN_I32 || dt == TN_I64;
  if (total > 128 || total < 1 || !known || p->rank + 1 > N) { tn_at_unsup(c, "places of a window of %lld", (long long)total); return; }
  x = tn_b_pad(c, x, lo, hi, &low);
  tn_ref part[128];
  for (int64_t j = 0; j < total && c->st == TN_OK; j++) {
    tn_ref y = x;
    for (int i = 0; i < p->n; i++) y = tn_b_slice(c, y, base + i, k[i] * p->dilation[i], p->size[i], p->stride[i]);
    part[j] = tn_b_unsq(c, y, p->rank);
    for (int i = p->n - 1; i >= 0 && ++k[i] == p->kernel[i]; i--) k[i] = 0;
  }
  if (c->st != TN_OK) return;
  tn_ref which = tn_b_reduce1(c, TN_C_ARGMAX, tn_b_concat(c, part, (uint32_t)total, p->rank), p->rank, false);
  int64_t inner = total;
  for (int i = 0; i < p->n; i++) {                     /* position = out * stride - pad + place * dilation */
    inner /= p->kernel[i];
    tn_ref q = tn_b_2(c, TN_OP_FLOORDIV, which, tn_b_int(c, inner, TN_I64));
    q = tn_b_2(c, TN_OP_REMAINDER, q, tn_b_int(c, p->kernel[i], TN_I64));
    tn_ref o = tn_b_along(c, tn_b_iota(c, p->size[i], TN_I64), base + i, p->rank);
    o = tn_b_2(c, TN_OP_ADD, tn_b_2(c, TN_OP_MUL, o, tn_b_int(c, p->stride[i], TN_I64)), tn_b_dimval(c, tn_dim_sub(t, 0, p->lo[i]), TN_I64));
    pos[i] = tn_b_2(c, TN_OP_ADD, tn_b_2(c, TN_OP_MUL, q, tn_b_int(c, p->dilation[i], TN_I64)), o);
  }
}
/* The same as torch counts: flat position in the spatial dims of the input */
static tn_ref flat_places(tn_decomp_ctx *c, tn_ref x, const pool *p) {
  tn_ref pos[N] = {{0}}, flat = {0};
  tn_b_max_places(c, x, p, pos);
  for (int i = 0; i < p->n && c->st == TN_OK; i++)
    flat = flat.id ? tn_b_2(c, TN_OP_ADD, tn_b_2(c, TN_OP_MUL, flat, tn_b_dimval(c, p->in[i], TN_I64)), pos[i]) : pos[i];
  return flat;
}

tn_status tn_d_max_pool(tn_decomp_ctx *c) {            /* result 1: places, built only when somebody reads them */
  tn_ref x = tn_at_t(c, "self");
  pool p = {0};
  read_pool(c, &p, x, tn_at_type(c, 0));
  if (c->st != TN_OK) return c->st;
  if (c->n_out > 1 && tn_at_used(c, 1)) tn_at_ret(c, 1, flat_places(c, x, &p));
  return tn_at_ret(c, 0, tn_b_window(c, TN_C_MAX, x, p.n, p.kernel, p.stride, p.lo, p.hi, p.dilation, p.size));
}

tn_status tn_d_max_pool_backward(tn_decomp_ctx *c) {   /* gradients added at the places */
  tn_ref g = tn_b_up(c, tn_at_t(c, "grad_output")), x = tn_at_t(c, "self"), idx = tn_at_t(c, "indices");
  tn_dim d[N], s[N], gd[N];
  int n = pool_dims(c), rank = tn_b_shape(c, x, d), base = rank - n;
  if (c->st != TN_OK) return c->st;
  if (base < 0 || tn_b_shape(c, g, gd) != rank || tn_b_rank(c, idx) != rank) return tn_at_unsup(c, "rank %d", rank);
  for (int i = 0; i < base; i++) s[i] = d[i];
  s[base] = tn_b_numel(c, gd + base, n);
  g = tn_b_reshape(c, g, s, base + 1);
  idx = tn_b_reshape(c, idx, s, base + 1);
  s[base] = tn_b_numel(c, d + base, n);
  tn_ref in[3] = {tn_b_zeros(c, s, base + 1, tn_b_dtype(c, g)), idx, g};
  tn_attr at[2] = {tn_mk_int("dim", base), tn_mk_str("combiner", "sum")};
  return tn_at_ret(c, 0, tn_b_reshape(c, tn_b_op(c, TN_OP_SCATTER, in, 3, at, 2), d, rank));
}

/* How many elements each window of an average has: a scalar, or a tensor [size of the output's spatial dims]. include: also those of the
 * padding; ceil: sizes were rounded up, so that a last window may reach past even that. */
tn_ref tn_b_pool_count(tn_decomp_ctx *c, const tn_pool_form *p, bool include, bool ceil, tn_dtype t) {
  double whole = 1;
  tn_dims *d = c->g->dims;
  bool clipped = false, any_pad = false;
  tn_dim room[N];
  for (int i = 0; i < p->n; i++) {
    whole *= (double)p->kernel[i];
    any_pad |= p->lo[i] != 0 || p->hi[i] != 0;
    room[i] = tn_dim_add(d, p->in[i], tn_dim_add(d, p->lo[i], p->hi[i]));
    tn_dim reach = tn_dim_add(d, tn_dim_mul(d, tn_dim_sub(d, p->size[i], 1), p->stride[i]), (p->kernel[i] - 1) * p->dilation[i] + 1);
    int64_t l, h;
    tn_dim_bounds(d, tn_dim_sub(d, room[i], reach), &l, &h);
    clipped |= l < 0 && ceil;
  }
  if (!clipped && (include || !any_pad)) return tn_b_num(c, whole, t);
  tn_attr_val one = {.kind = TN_AT_INT};
  one.u.i = 1;
  int64_t zero[N] = {0};
  if (include) return tn_b_window(c, TN_C_SUM, tn_b_full(c, room, p->n, &one, t), p->n, p->kernel, p->stride, zero, zero, p->dilation, p->size);
  return tn_b_window(c, TN_C_SUM, tn_b_full(c, p->in, p->n, &one, t), p->n, p->kernel, p->stride, p->lo, p->hi, p->dilation, p->size);
}
static tn_ref pool_divisor(tn_decomp_ctx *c, const pool *p, tn_dtype t) {
  if (tn_at_val(c, "divisor_override")) return tn_b_num(c, tn_at_f(c, "divisor_override", 1), t);
  return tn_b_pool_count(c, p, tn_at_b(c, "count_include_pad", true), tn_at_b(c, "ceil_mode", false), t);
}

tn_status tn_d_avg_pool(tn_decomp_ctx *c) {
  tn_ref x = tn_b_up(c, tn_at_t(c, "self"));
  pool p = {0};
  read_pool(c, &p, x, tn_at_type(c, 0));
  if (c->st != TN_OK) return c->st;
  tn_dtype t = tn_b_dtype(c, x);
  tn_ref s = tn_b_window(c, TN_C_SUM, x, p.n, p.kernel, p.stride, p.lo, p.hi, p.dilation, p.size);
  return tn_at_ret(c, 0, tn_b_2(c, tn_dtype_is_float(t) ? TN_OP_DIV : TN_OP_TRUNCDIV, s, pool_divisor(c, &p, t)));
}

tn_status tn_d_avg_pool_backward(tn_decomp_ctx *c) {   /* a depthwise transposed convolution with ones */
  tn_ref g = tn_b_up(c, tn_at_t(c, "grad_output")), x = tn_at_t(c, "self");
  pool p = {0};
  read_pool(c, &p, x, tn_typeof(c->g, g));
  if (c->st != TN_OK) return c->st;
  tn_dim d[N], w[N];
  int rank = tn_b_shape(c, x, d), base = rank - p.n;
  tn_dtype t = tn_b_dtype(c, g);
  conv q = {.n = p.n, .transposed = true, .groups = 1};
  w[0] = w[1] = 1;
  for (int i = 0; i < p.n; i++) {
    q.stride[i] = p.stride[i]; q.dilation[i] = 1; q.lo[i] = q.hi[i] = p.lo[i];
    w[i + 2] = p.kernel[i];
    if (!small(p.in[i]) || !small(p.size[i])) return tn_at_unsup(c, "spatial dims that are symbolic or huge");
    q.out_pad[i] = p.in[i] - ((p.size[i] - 1) * p.stride[i] - 2 * p.lo[i] + p.kernel[i]);
    if (q.out_pad[i] < 0) q.out_pad[i] = 0;            /* ceil_mode reached past the edge: cut below */
  }
  g = tn_b_2(c, TN_OP_DIV, g, pool_divisor(c, &p, t));
  tn_dim gd[N], flat[N], lead = tn_b_numel(c, d, base);
  tn_b_shape(c, g, gd);
  flat[0] = lead; flat[1] = 1;
  for (int i = 0; i < p.n; i++) flat[i + 2] = gd[base + i];
  tn_attr_val one = {.kind = TN_AT_INT};
  one.u.i = 1;
  tn_ref y = tn_b_conv(c, tn_b_reshape(c, g, flat, p.n + 2), tn_b_full(c, w, p.n + 2, &one, t), &q);
  for (int i = 0; i < p.n; i++) y = tn_b_slice(c, y, i + 2, 0, p.in[i], 1);
  return tn_at_ret(c, 0, tn_b_reshape(c, y, d, rank));
}

/* ---- adaptive average: output o averages inputs floor(o*I/O) .. ceil((o+1)*I/O)-1 ---- */

/* [O, I] matrix of these weights, from iotas */
static tn_ref adaptive_matrix(tn_decomp_ctx *c, tn_dim in, tn_dim out, tn_dtype t) {
  tn_ref o = tn_b_along(c, tn_b_iota(c, out, TN_I64), 0, 2), i = tn_b_along(c, tn_b_iota(c, in, TN_I64), 1, 2);
  tn_ref vi = tn_b_dimval(c, in, TN_I64), vo = tn_b_dimval(c, out, TN_I64), one = tn_b_int(c, 1, TN_I64);
  tn_ref from = tn_b_2(c, TN_OP_FLOORDIV, tn_b_2(c, TN_OP_MUL, o, vi), vo);
  tn_ref top = tn_b_2(c, TN_OP_ADD, tn_b_2(c, TN_OP_MUL, tn_b_2(c, TN_OP_ADD, o, one), vi), tn_b_2(c, TN_OP_SUB, vo, one));
  tn_ref to = tn_b_2(c, TN_OP_FLOORDIV, top, vo);
  tn_ref m = tn_b_2(c, TN_OP_AND, tn_b_2(c, TN_OP_GE, i, from), tn_b_2(c, TN_OP_LT, i, to));
  return tn_b_2(c, TN_OP_DIV, tn_b_cast(c, m, t), tn_b_cast(c, tn_b_2(c, TN_OP_SUB, to, from), t));
}
static tn_ref adaptive_dim(tn_decomp_ctx *c, tn_ref x, int d, tn_ref m, bool back) {   /* contract dim d with the matrix */
  char l[64] = {0}, a[N + 1] = {0}, o[N + 1] = {0};
  int rank = tn_b_rank(c, x);
  for (int i = 0; i < rank; i++) a[i] = o[i] = (char)('A' + i);
  a[d] = back ? 'o' : 'i'; o[d] = back ? 'i' : 'o';
  snprintf(l, sizeof l, "%s,oi->%s", a, o);
  return tn_b_contract(c, l, x, m);
}
tn_status tn_d_adaptive_avg_pool(tn_decomp_ctx *c) {
  tn_ref x = tn_b_up(c, tn_at_t(c, "self"));
  const tn_type *o = tn_at_type(c, 0);
  int n = pool_dims(c), rank = tn_b_rank(c, x);
  tn_dim size[N];
  int64_t kernel[N], zero[N] = {0}, one[N];
  bool even = true;
  double count = 1;
  if (c->st != TN_OK) return c->st;
  if (rank < n || o->rank != rank) return tn_at_unsup(c, "rank %d", rank);
  for (int i = 0; i < n; i++) {
    tn_dim in = tn_b_dim(c, x, rank - n + i), q = 0;
    size[i] = o->dim[rank - n + i];
    one[i] = 1;
    even = even && size[i] != 0 && tn_dim_divides(c->g->dims, size[i], in, &q) && tn_dim_is_const(q) && q > 0;
    kernel[i] = even ? q : 1;
    count *= (double)kernel[i];
  }
  if (even) {
    tn_ref s = tn_b_window(c, TN_C_SUM, x, n, kernel, kernel, zero, zero, one, size);
    return tn_at_ret(c, 0, tn_b_2(c, TN_OP_DIV, s, tn_b_num(c, count, tn_b_dtype(c, x))));
  }
  for (int i = 0; i < n; i++) {
    int d = rank - n + i;
    tn_dim in = tn_b_dim(c, x, d);
    if (size[i] == in) continue;
    if (size[i] == 1) x = tn_b_mean(c, x, &d, 1, true);
    else x = adaptive_dim(c, x, d, adaptive_matrix(c, in, size[i], tn_b_dtype(c, x)), false);
  }
  return tn_at_ret(c, 0, x);
}
tn_status tn_d_adaptive_avg_pool_backward(tn_decomp_ctx *c) {
  tn_ref g = tn_b_up(c, tn_at_t(c, "grad_output")), x = tn_at_t(c, "self");
  int n = pool_dims(c), rank = tn_b_rank(c, x);
  if (c->st == TN_OK && (rank < n || tn_b_rank(c, g) != rank)) return tn_at_unsup(c, "rank %d", rank);
  for (int d = rank - n; d < rank && c->st == TN_OK; d++)
    g = adaptive_dim(c, g, d, adaptive_matrix(c, tn_b_dim(c, x, d), tn_b_dim(c, g, d), tn_b_dtype(c, g)), true);
  return tn_at_ret(c, 0, g);
}

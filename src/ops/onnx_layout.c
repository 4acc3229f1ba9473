/* onnx_layout: operators that move elements and compute nothing: transpose, concat, split, depth and space, masks of triangles, reversed pieces.
 * Slice and Pad, whose positions may be negative, unknown or outside, are in onnx_slice.c. Results keep the operand's element type, also one without a dtype. */
#include "onnx_int.h"

tn_status tn_ox_transpose(tn_ox *c) {
  int64_t v[TN_MAX_RANK];
  int perm[TN_MAX_RANK];
  bool taken[TN_MAX_RANK] = {false};
  tn_ref x = tn_ox_in(c, 0);
  if (c->b.st != TN_OK) return c->b.st;
  int n = tn_b_rank(&c->b, x), k = tn_ox_ints_attr(c, "perm", v, TN_MAX_RANK);
  if (c->b.st != TN_OK) return c->b.st;
  if (k >= 0 && k != n) return tn_ox_bad(c, "perm has %d items, the operand rank %d", k, n);
  for (int i = 0; i < n; i++) {
    perm[i] = k < 0 ? n - 1 - i : tn_ox_wrap(c, v[i], n);
    if (c->b.st == TN_OK && taken[perm[i]]) return tn_ox_bad(c, "perm names %d twice", perm[i]);
    taken[perm[i]] = true;
  }
  return tn_ox_keep(c, 0, c->b.st == TN_OK ? tn_b_permute(&c->b, x, perm) : x, x);
}

tn_status tn_ox_concat(tn_ox *c) {
  tn_ref *in = TN_NEW(c->b.g->arena, tn_ref, c->n_in + 1u);
  if (!in) return c->b.st = tn_fail(c->b.d, TN_E_NOMEM, "%u operands", c->n_in);
  if (c->n_in == 0) return tn_ox_bad(c, "no operands");
  if (c->opset >= 4 && !tn_ox_attr_get(c, "axis")) return tn_ox_bad(c, "attribute axis is missing");
  for (uint32_t i = 0; i < c->n_in; i++) {
    in[i] = tn_ox_in(c, i);
    if (c->b.st != TN_OK) return c->b.st;
    if (tn_b_rank(&c->b, in[i]) != tn_b_rank(&c->b, in[0])) return tn_ox_bad(c, "operand 0 has rank %d, operand %u rank %d", tn_b_rank(&c->b, in[0]), i, tn_b_rank(&c->b, in[i]));
  }
  int axis = tn_ox_axis(c, "axis", 1, tn_b_rank(&c->b, in[0]));
  return tn_ox_keep(c, 0, c->b.st == TN_OK ? tn_b_concat(&c->b, in, c->n_in, axis) : in[0], in[0]);
}

/* ---- split ---- */
/* Sizes of n equal parts of d; the last may be smaller. */
static void equal_parts(tn_ox *c, tn_dim d, uint32_t n, tn_dim *out) {
  tn_dims *t = c->b.g->dims;
  tn_dim each, left = d;
  if (!tn_dim_divides(t, (tn_dim)n, d, &each)) {
    each = c->opset < 18 && !tn_dim_is_const(d) ? tn_dim_floordiv(t, d, n) : tn_dim_ceildiv(t, d, n);
    if (c->opset < 18) tn_ox_same_size(c, tn_dim_mul(t, each, n), d, "parts of a split must be equal");
  }
  for (uint32_t i = 0; i < n; i++) {
    out[i] = i + 1 < n ? each : left;
    if (tn_dim_is_const(d)) {
      out[i] = left < each ? left : each;
      left -= out[i];
    } else left = tn_dim_sub(t, left, each);
  }
}
tn_status tn_ox_split(tn_ox *c) {
  tn_ref x = tn_ox_in(c, 0);
  tn_dim size[256], at = 0;
  int64_t v[256];
  uint32_t n = c->n_out;
  if (c->b.st != TN_OK) return c->b.st;
  int axis = tn_ox_axis(c, "axis", 0, tn_b_rank(&c->b, x)), k = -1;
  if (c->b.st != TN_OK) return c->b.st;
  tn_dim d = tn_b_dim(&c->b, x, axis);
  if (n == 0 || n > 256) return tn_ox_unsup(c, "%u parts", n);
  if (tn_ox_attr_get(c, "split")) {
    k = tn_ox_ints_attr(c, "split", v, 256);
    for (int i = 0; i < k; i++) {
      if (v[i] < 0) return tn_ox_bad(c, "part %d has size %lld", i, (long long)v[i]);
      size[i] = v[i];
    }
  } else if (tn_ox_has(c, 1)) k = tn_ox_sizes(c, tn_ox_in(c, 1), size, 256, 0);
  int64_t parts = tn_ox_int(c, "num_outputs", n);
  if (c->b.st != TN_OK) return c->b.st;
  if (parts < 1 || parts > 100000) return tn_ox_bad(c, "%lld parts", (long long)parts);
  if (k >= 0 && (uint32_t)k != n) return tn_ox_bad(c, "%d sizes for %u results", k, n);
  if (k < 0 && parts != n) return tn_ox_bad(c, "num_outputs is %lld, the node has %u results", (long long)parts, n);
  if (k < 0) equal_parts(c, d, n, size);
  tn_dim total = 0;
  for (uint32_t i = 0; i < n; i++) total = tn_dim_add(c->b.g->dims, total, size[i]);
  tn_ox_same_size(c, total, d, "parts of a split, and the size they are of");
  for (uint32_t i = 0; i < n; i++) {
    tn_ox_keep(c, i, tn_b_slice(&c->b, x, axis, at, size[i], 1), x);
    at = tn_dim_add(c->b.g->dims, at, size[i]);
  }
  return c->b.st;
}

/* ---- depth and space: x[N,C,H,W] ---- */
static tn_status image(tn_ox *c, tn_ref *x, tn_dim *d, int64_t *block) {
  *x = tn_ox_in(c, 0);
  *block = tn_ox_int(c, "blocksize", 0);
  if (c->b.st != TN_OK) return c->b.st;
  if (tn_b_shape(&c->b, *x, d) != 4) return tn_ox_bad(c, "operand of rank %d, wants 4", tn_b_rank(&c->b, *x));
  if (*block < 1 || *block > 1 << 15) return tn_ox_bad(c, "blocksize is %lld", (long long)*block);
  return TN_OK;
}
/* d / k, which must be exact. */
static tn_dim exact(tn_ox *c, tn_dim d, int64_t k, const char *what) {
  tn_dim q;
  if (tn_dim_divides(c->b.g->dims, k, d, &q)) return q;
  q = tn_dim_floordiv(c->b.g->dims, d, k);
  tn_ox_same_size(c, tn_dim_mul(c->b.g->dims, q, k), d, what);
  return q;
}
tn_status tn_ox_depth_to_space(tn_ox *c) {
  tn_ref x;
  tn_dim d[TN_MAX_RANK];
  int64_t k;
  TN_TRY(image(c, &x, d, &k));
  const char *mode = tn_ox_str_attr(c, "mode", "DCR");
  bool crd = !strcmp(mode, "CRD");
  if (!crd && strcmp(mode, "DCR")) return tn_ox_bad(c, "mode is '%.40s'", mode);
  tn_dim ch = exact(c, d[1], k * k, "channels, and a multiple of blocksize squared");
  tn_dim parts[6] = {d[0], crd ? ch : k, k, crd ? k : ch, d[2], d[3]}, out[4] = {d[0], ch, tn_dim_mul(c->b.g->dims, d[2], k), tn_dim_mul(c->b.g->dims, d[3], k)};
  static const int perm[2][6] = {{0, 3, 4, 1, 5, 2}, {0, 1, 4, 2, 5, 3}};
  return tn_ox_keep(c, 0, tn_b_reshape(&c->b, tn_b_permute(&c->b, tn_b_reshape(&c->b, x, parts, 6), perm[crd]), out, 4), x);
}
tn_status tn_ox_space_to_depth(tn_ox *c) {
  tn_ref x;
  tn_dim d[TN_MAX_RANK];
  int64_t k;
  TN_TRY(image(c, &x, d, &k));
  const char *mode = tn_ox_str_attr(c, "mode", "DCR");
  bool crd = !strcmp(mode, "CRD");
  if (!crd && strcmp(mode, "DCR")) return tn_ox_bad(c, "mode is '%.40s'", mode);
  tn_dim h = exact(c, d[2], k, "height, and a multiple of blocksize"), w = exact(c, d[3], k, "width, and a multiple of blocksize");
  tn_dim parts[6] = {d[0], d[1], h, k, w, k}, out[4] = {d[0], tn_dim_mul(c->b.g->dims, d[1], k * k), h, w};
  static const int perm[2][6] = {{0, 3, 5, 1, 2, 4}, {0, 1, 3, 5, 2, 4}};
  return tn_ox_keep(c, 0, tn_b_reshape(&c->b, tn_b_permute(&c->b, tn_b_reshape(&c->b, x, parts, 6), perm[crd]), out, 4), x);
}

tn_status tn_ox_trilu(tn_ox *c) {
  tn_decomp_ctx *b = &c->b;
  tn_ref x = tn_ox_in(c, 0), k = tn_ox_opt(c, 1);
  bool upper = tn_ox_int(c, "upper", 1) != 0;
  if (c->b.st != TN_OK) return c->b.st;
  int n = tn_b_rank(b, x);
  if (n < 2) return tn_ox_bad(c, "operand of rank %d, wants 2 or more", n);
  tn_ref row = tn_b_along(b, tn_b_iota(b, tn_b_dim(b, x, n - 2), TN_I64), 0, 2), col = tn_b_along(b, tn_b_iota(b, tn_b_dim(b, x, n - 1), TN_I64), 1, 2);
  k = k.id ? tn_b_reshape(b, tn_b_cast(b, k, TN_I64), NULL, 0) : tn_b_int(b, 0, TN_I64);
  tn_ref in = tn_b_2(b, upper ? TN_OP_GE : TN_OP_LE, tn_b_2(b, TN_OP_SUB, col, row), k);
  return tn_ox_keep(c, 0, tn_b_sel(b, in, x, tn_b_int(b, 0, tn_b_dtype(b, x))), x);
}

tn_status tn_ox_reverse_sequence(tn_ox *c) {
  tn_decomp_ctx *b = &c->b;
  tn_ref x = tn_ox_in(c, 0), len = tn_ox_in(c, 1);
  tn_dim d[TN_MAX_RANK];
  if (c->b.st != TN_OK) return c->b.st;
  int n = tn_b_shape(b, x, d), batch = tn_ox_axis(c, "batch_axis", 1, n), time = tn_ox_axis(c, "time_axis", 0, n);
  if (c->b.st != TN_OK) return c->b.st;
  if (n < 2 || batch == time || tn_b_rank(b, len) != 1) return tn_ox_bad(c, "axes %d and %d of rank %d, lengths of rank %d", batch, time, n, tn_b_rank(b, len));
  tn_ox_same_size(c, tn_b_dim(b, len, 0), d[batch], "number of lengths, and the batch");
  tn_ref t = tn_b_along(b, tn_b_iota(b, d[time], TN_I64), time, n);
  len = tn_b_along(b, tn_b_cast(b, tn_b_reshape(b, len, &d[batch], 1), TN_I64), batch, n);
  tn_ref back = tn_b_addn(b, tn_b_2(b, TN_OP_SUB, len, t), -1);
  tn_ref in[2] = {x, tn_b_broadcast(b, tn_b_sel(b, tn_b_2(b, TN_OP_LT, t, len), back, t), d, n)};
  tn_attr at = tn_mk_int("dim", time);
  return tn_ox_keep(c, 0, tn_b_op(b, TN_OP_GATHER, in, 2, &at, 1), x);
}

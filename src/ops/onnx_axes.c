/* onnx_axes: operators whose axes only the run knows. The number of axes is known (the operand's shape), so the rank of the result is, too; which axes they
 * are is a mask over the dims, made by prims, and sizes of the result are computed from it and become fresh symbols. */
#include "onnx_int.h"

tn_ref tn_ox_axes_mask(tn_ox *c, tn_ref axes, int rank) {
  tn_decomp_ctx *b = &c->b;
  if (c->b.st != TN_OK) return axes;
  tn_dim count[1];
  if (tn_b_rank(b, axes) > 1) { tn_ox_bad(c, "axes of rank %d", tn_b_rank(b, axes)); return axes; }
  count[0] = tn_b_rank(b, axes) ? tn_b_dim(b, axes, 0) : 1;
  tn_ref a = tn_b_reshape(b, tn_b_cast(b, axes, TN_I64), count, 1);
  a = tn_b_sel(b, tn_b_2(b, TN_OP_LT, a, tn_b_int(b, 0, TN_I64)), tn_b_addn(b, a, rank), a);
  tn_ref hit = tn_b_2(b, TN_OP_EQ, tn_b_along(b, a, 0, 2), tn_b_along(b, tn_b_iota(b, rank, TN_I64), 1, 2));
  return tn_b_reduce1(b, TN_C_ANY, hit, 0, false);
}

/* Size k of those items of d (1-D) where keep holds, in order, for k < m: a sum over a one-hot matrix. */
static tn_ref kept_sizes(tn_ox *c, tn_ref d, tn_ref keep, int m) {
  tn_decomp_ctx *b = &c->b;
  tn_ref k = tn_b_cast(b, keep, TN_I64), at = tn_b_addn(b, tn_b_scan(b, TN_C_SUM, k, 0), -1);
  tn_ref hit = tn_b_2(b, TN_OP_AND, tn_b_2(b, TN_OP_EQ, tn_b_along(b, at, 1, 2), tn_b_along(b, tn_b_iota(b, m, TN_I64), 0, 2)), tn_b_along(b, keep, 1, 2));
  return tn_b_reduce1(b, TN_C_SUM, tn_b_2(b, TN_OP_MUL, tn_b_cast(b, hit, TN_I64), tn_b_along(b, d, 1, 2)), 1, false);
}
int tn_ox_dims_without(tn_ox *c, const tn_dim *d, int rank, tn_ref mask, int dropped, tn_dim *out) {
  if (c->b.st != TN_OK) return -1;
  if (dropped > rank) { tn_ox_bad(c, "%d axes of rank %d", dropped, rank); return -1; }
  if (dropped == rank) return 0;
  return tn_ox_sizes(c, kept_sizes(c, tn_ox_vector(c, d, rank), tn_b_1(&c->b, TN_OP_NOT, mask), rank - dropped), out, TN_MAX_RANK, 0);
}
int tn_ox_dims_with(tn_ox *c, const tn_dim *d, int rank, tn_ref mask, tn_dim *out) {
  tn_decomp_ctx *b = &c->b;
  if (c->b.st != TN_OK) return -1;
  tn_dim all = tn_b_dim(b, mask, 0);
  if (rank == 0) {
    for (int i = 0; i < all; i++) out[i] = 1;
    return (int)all;
  }
  tn_ref old = tn_b_1(b, TN_OP_NOT, mask), from = tn_b_addn(b, tn_b_scan(b, TN_C_SUM, tn_b_cast(b, old, TN_I64), 0), -1);
  from = tn_b_2(b, TN_OP_MIN, tn_b_2(b, TN_OP_MAX, from, tn_b_int(b, 0, TN_I64)), tn_b_int(b, rank - 1, TN_I64));
  tn_ref size = tn_b_sel(b, old, tn_b_take(b, tn_ox_vector(c, d, rank), from, 0), tn_b_int(b, 1, TN_I64));
  return tn_ox_sizes(c, size, out, TN_MAX_RANK, 0);
}
int tn_ox_axes_count(tn_ox *c, tn_ref axes) {
  if (c->b.st != TN_OK) return -1;
  tn_dim n = tn_b_rank(&c->b, axes) ? tn_b_dim(&c->b, axes, 0) : 1;
  if (!tn_dim_is_const(n) || n > TN_MAX_RANK) { tn_ox_unsup(c, "the number of axes is not known while compiling, or over %d", TN_MAX_RANK); return -1; }
  return (int)n;
}

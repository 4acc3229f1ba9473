/* onnx_text: where numbers and strings meet: Cast from and to strings, Equal of strings. Strings are values of the run time (DYN operators); what is
 * known of their shape comes from the environment. */
#include "ops/onnx_math_int.h"

/* Rank and dims of a string tensor; dims that are not known become symbols. -1: the rank is not known (failed). */
static int text_shape(tn_ox *c, tn_ref x, tn_dim *d) {
  tn_ox_obj o = tn_ox_obj_of(c->e, x);
  if (!mx_ok(c)) return -1;
  if (o.kind != TN_OX_K_TENSOR || o.elem != 8) { tn_ox_bad(c, "an operand is no tensor of strings"); return -1; }
  if (o.rank < 0) { tn_ox_unsup(c, "strings whose rank is not known while compiling"); return -1; }
  for (int i = 0; i < o.rank; i++) d[i] = o.dim && o.dim[i] != TN_DIM_BAD ? o.dim[i] : tn_ox_fresh(c, 0, INT64_MAX);
  return mx_ok(c) ? o.rank : -1;
}

tn_ref tn_ox_cast_string(tn_ox *c, tn_ref x, int to) {
  tn_dim d[TN_MAX_RANK];
  if (to == 8) {
    x = tn_ox_plain(c, x);
    if (!mx_ok(c)) return x;
    int n = tn_b_shape(&c->b, x, d);
    tn_dim *keep = TN_NEW(c->b.g->arena, tn_dim, n + 1);
    tn_ref y = tn_ox_dyn(c, "to_string", &x, 1, NULL, 0, NULL, 1);
    if (!keep && mx_ok(c)) c->b.st = tn_fail(c->b.d, TN_E_NOMEM, "Cast: a shape");
    if (!mx_ok(c)) return y;
    memcpy(keep, d, (size_t)n * sizeof *keep);
    if (tn_ox_obj_set(c->e, y, (tn_ox_obj){.kind = TN_OX_K_TENSOR, .elem = 8, .rank = (int8_t)n, .dim = keep}) != TN_OK)
      c->b.st = tn_fail(c->b.d, TN_E_NOMEM, "Cast: type of the result");
    return y;
  }
  int via = to == 1 || to == 11 || to == 7 || to == 13 ? to : tn_dtype_is_float((tn_dtype)tn_ox_dtype_of(to)) || (to >= 17 && to <= 20) || to == 23 || to == 24 || to >= 27 ? 1 : 7;
  int n = text_shape(c, x, d);
  if (n < 0) return x;
  tn_type t = tn_ox_type(c, (tn_dtype)tn_ox_dtype_of(via), n, d);
  tn_attr at = tn_mk_int("elem", via);
  tn_ref y = tn_ox_dyn(c, "from_string", &x, 1, &at, 1, &t, 1);
  return via == to ? y : tn_ox_cast(c, y, to, true, "up");
}

/* Strings of constant shape a, repeated to shape d. */
static tn_ref stretched(tn_ox *c, tn_ref x, const tn_dim *a, int na, const tn_dim *d, int n) {
  bool same = na == n;
  for (int i = 0; i < na && same; i++) same = a[i] == d[i];
  if (same) return x;
  tn_ref in[2] = {tn_b_broadcast(&c->b, tn_b_reshape(&c->b, tn_b_iota(&c->b, tn_b_numel(&c->b, a, na), TN_I64), a, na), d, n), x};
  return tn_ox_dyn(c, "string_take", in, 2, NULL, 0, NULL, 1);
}
tn_ref tn_ox_text_equal(tn_ox *c, tn_ref a, tn_ref b) {
  tn_dim da[TN_MAX_RANK], db[TN_MAX_RANK], d[TN_MAX_RANK];
  int na = text_shape(c, a, da), nb = text_shape(c, b, db), n = na > nb ? na : nb;
  if (!mx_ok(c)) return a;
  for (int i = 0; i < n; i++) {
    tn_dim x = i < n - na ? 1 : da[i - (n - na)], y = i < n - nb ? 1 : db[i - (n - nb)];
    if (x != y && x != 1 && y != 1 && tn_dim_is_const(x) && tn_dim_is_const(y)) { tn_ox_bad(c, "dim %d is %lld and %lld", i, (long long)x, (long long)y); return a; }
    d[i] = x == 1 ? y : tn_dim_is_const(y) && y != 1 ? y : x;
  }
  for (int k = 0; k < 2; k++)                        /* sizes that are not known are taken to be equal; the operator checks */
    for (int i = 0; i < (k ? nb : na); i++) {
      tn_dim *p = k ? &db[i] : &da[i];
      if (!tn_dim_is_const(*p)) *p = d[i + n - (k ? nb : na)];
    }
  tn_ref in[2] = {stretched(c, a, da, na, d, n), stretched(c, b, db, nb, d, n)};
  tn_type t = tn_ox_type(c, TN_BOOL, n, d);
  return tn_ox_dyn(c, "string_equal", in, 2, NULL, 0, &t, 1);
}

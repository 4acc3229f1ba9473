/* aten_create: tensors made from nothing. Shape and dtype are the recorded ones. "empty" is zeros: a value must be a function of its
 * inputs. Sizes and bounds may be symbolic: arange(s0) is an iota of size s0, arange(s0, s1) adds the value of s0. */
#include "aten_int.h"

static tn_status filled(tn_decomp_ctx *c, const tn_attr_val *v) {
  const tn_type *o = tn_at_type(c, 0);
  return tn_at_ret(c, 0, tn_b_full(c, o->dim, o->rank, v, (tn_dtype)o->dtype));
}
static tn_status filled_int(tn_decomp_ctx *c, int64_t k) {
  tn_attr_val v = {.kind = TN_AT_INT};
  v.u.i = k;
  return filled(c, &v);
}
tn_status tn_d_zeros(tn_decomp_ctx *c) { return filled_int(c, 0); }
tn_status tn_d_ones(tn_decomp_ctx *c) { return filled_int(c, 1); }

static tn_status filled_with(tn_decomp_ctx *c, const char *arg) {
  const tn_type *o = tn_at_type(c, 0);
  tn_opd v = tn_at_opd(c, arg);
  if (c->st != TN_OK) return c->st;
  if (v.num) return filled(c, v.num);
  return tn_at_ret(c, 0, tn_b_broadcast(c, tn_b_cast(c, v.ref, (tn_dtype)o->dtype), o->dim, o->rank));
}
tn_status tn_d_full(tn_decomp_ctx *c) { return filled_with(c, "fill_value"); }
tn_status tn_d_fill(tn_decomp_ctx *c) { return filled_with(c, "value"); }
tn_status tn_d_scalar_tensor(tn_decomp_ctx *c) { return filled_with(c, "s"); }

/* start + k * step, k = 0 .. recorded size - 1; in the result dtype, f16/bf16 in f32 */
static tn_status ramp(tn_decomp_ctx *c, const tn_attr_val *start, const tn_attr_val *step) {
  tn_dim n = tn_at_odim(c, 0, 0);
  tn_dtype t = tn_b_wide(tn_at_dtype(c, 0));
  if (c->st != TN_OK) return c->st;
  bool plain = (!start || start->kind == TN_AT_INT || start->kind == TN_AT_FLOAT) && (!step || step->kind == TN_AT_INT || step->kind == TN_AT_FLOAT);
  if (!plain) {
    tn_ref y = tn_b_iota(c, n, t);
    if (step) y = tn_b_2(c, TN_OP_MUL, y, tn_b_val(c, step, t));
    if (start) y = tn_b_2(c, TN_OP_ADD, y, tn_b_val(c, start, t));
    return tn_at_ret(c, 0, y);
  }
  double a = start ? tn_at_f(c, "start", 0) : 0, s = step ? tn_at_f(c, "step", 1) : 1;
  tn_num na = {.f = a}, ns = {.f = s};
  int64_t ia = start && start->kind == TN_AT_INT ? start->u.i : tn_num_cast(na, TN_F64, TN_I64).i;
  int64_t is = step && step->kind == TN_AT_INT ? step->u.i : tn_num_cast(ns, TN_F64, TN_I64).i;
  bool f = tn_dtype_is_float(t);
  tn_attr at[4] = {tn_mk_dims(c->g, "size", &n, 1), f ? tn_mk_float("start", a) : tn_mk_int("start", ia),
                   f ? tn_mk_float("step", s) : tn_mk_int("step", is), tn_mk_dtype("dtype", t)};
  return tn_at_ret(c, 0, tn_b_op(c, TN_OP_IOTA, NULL, 0, at, 4));
}
tn_status tn_d_arange(tn_decomp_ctx *c) { return ramp(c, tn_at_val(c, "start"), tn_at_val(c, "step")); }

tn_status tn_d_prims_iota(tn_decomp_ctx *c) { return ramp(c, tn_at_val(c, "start"), tn_at_val(c, "step")); }

/* from both ends, as torch: start + k * step in the first half, end - (n - 1 - k) * step in the second */
tn_status tn_d_linspace(tn_decomp_ctx *c) {
  tn_dtype out = tn_at_dtype(c, 0), t = tn_dtype_is_float(out) ? tn_b_wide(out) : TN_F64;
  double a = tn_at_f(c, "start", 0), b = tn_at_f(c, "end", 0);
  int64_t n = tn_at_i(c, "steps", 0);
  if (c->st != TN_OK) return c->st;
  if (n < 1) return filled_int(c, 0);
  if (n == 1) { tn_attr_val v = {.kind = TN_AT_FLOAT}; v.u.f = a; return filled(c, &v); }
  double step = t == TN_F32 ? (double)(((float)b - (float)a) / (float)(n - 1)) : (b - a) / (double)(n - 1);
  tn_ref k = tn_b_iota(c, n, TN_I64);
  tn_ref up = tn_b_addn(c, tn_b_muln(c, tn_b_cast(c, k, t), step), a);
  tn_ref back = tn_b_2(c, TN_OP_SUB, tn_b_int(c, n - 1, TN_I64), k);
  tn_ref down = tn_b_2(c, TN_OP_SUB, tn_b_num(c, b, t), tn_b_muln(c, tn_b_cast(c, back, t), step));
  return tn_at_ret(c, 0, tn_b_sel(c, tn_b_2(c, TN_OP_LT, k, tn_b_int(c, n / 2, TN_I64)), up, down));
}

tn_status tn_d_eye(tn_decomp_ctx *c) {
  tn_ref r = tn_b_along(c, tn_b_iota(c, tn_at_odim(c, 0, 0), TN_I64), 0, 2), q = tn_b_along(c, tn_b_iota(c, tn_at_odim(c, 0, 1), TN_I64), 1, 2);
  return tn_at_ret(c, 0, tn_b_2(c, TN_OP_EQ, r, q));
}

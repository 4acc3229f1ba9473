/* aten_act: activations and their derivatives, in closed form over tanh, sigmoid, erf, exp, log1p: the kernels evaluate those stably
 * for every finite input (own forms, D7/D8). f16/bf16 are computed in f32 and rounded once at the end. */
#include "aten_int.h"

#define SQRT1_2 0.70710678118654752440
#define SQRT_2_PI 0.79788456080286535588 /* sqrt(2 / pi) */
#define INV_SQRT_2PI 0.39894228040143267794

static tn_ref wide(tn_decomp_ctx *c, const char *name) { return tn_b_up(c, tn_b_cast(c, tn_at_t(c, name), tn_at_dtype(c, 0))); }
static tn_ref num(tn_decomp_ctx *c, tn_ref like, double v) { return tn_b_num(c, v, tn_b_dtype(c, like)); }
static tn_ref mul(tn_decomp_ctx *c, tn_ref a, tn_ref b) { return tn_b_2(c, TN_OP_MUL, a, b); }
static tn_ref add(tn_decomp_ctx *c, tn_ref a, tn_ref b) { return tn_b_2(c, TN_OP_ADD, a, b); }
static tn_ref sub(tn_decomp_ctx *c, tn_ref a, tn_ref b) { return tn_b_2(c, TN_OP_SUB, a, b); }
static tn_ref gt0(tn_decomp_ctx *c, tn_ref x) { return tn_b_2(c, TN_OP_GT, x, num(c, x, 0)); }
static tn_ref clampn(tn_decomp_ctx *c, tn_ref x, double lo, double hi) {
  return tn_b_2(c, TN_OP_MIN, tn_b_2(c, TN_OP_MAX, x, num(c, x, lo)), num(c, x, hi));
}

/* sqrt(2/pi) * (x + 0.044715 x^3) */
static tn_ref gelu_inner(tn_decomp_ctx *c, tn_ref x) {
  tn_ref x3 = mul(c, mul(c, x, x), x);
  return tn_b_muln(c, add(c, x, tn_b_muln(c, x3, 0.044715)), SQRT_2_PI);
}
static int gelu_form(tn_decomp_ctx *c) {             /* 0 erf, 1 tanh, -1 neither */
  const char *a = tn_at_s(c, "approximate", "none");
  if (!strcmp(a, "none")) return 0;
  if (!strcmp(a, "tanh")) return 1;
  tn_at_unsup(c, "approximate=%s", a);
  return -1;
}
tn_status tn_d_gelu(tn_decomp_ctx *c) {
  tn_ref x = wide(c, "self");
  int form = gelu_form(c);
  tn_ref t = form == 1 ? tn_b_1(c, TN_OP_TANH, gelu_inner(c, x)) : tn_b_1(c, TN_OP_ERF, tn_b_muln(c, x, SQRT1_2));
  return tn_at_ret(c, 0, mul(c, tn_b_muln(c, x, 0.5), tn_b_addn(c, t, 1)));
}

tn_status tn_d_silu(tn_decomp_ctx *c) {
  tn_ref x = wide(c, "self");
  return tn_at_ret(c, 0, mul(c, x, tn_b_1(c, TN_OP_SIGMOID, x)));
}
static tn_ref softplus1(tn_decomp_ctx *c, tn_ref x) { /* max(x, 0) + log1p(exp(-|x|)) */
  tn_ref l = tn_b_1(c, TN_OP_LOG1P, tn_b_1(c, TN_OP_EXP, tn_b_1(c, TN_OP_NEG, tn_b_1(c, TN_OP_ABS, x))));
  return add(c, tn_b_1(c, TN_OP_RELU, x), l);
}
tn_status tn_d_mish(tn_decomp_ctx *c) {
  tn_ref x = wide(c, "self");
  return tn_at_ret(c, 0, mul(c, x, tn_b_1(c, TN_OP_TANH, softplus1(c, x))));
}
tn_status tn_d_softplus(tn_decomp_ctx *c) {
  tn_ref x = wide(c, "self");
  double beta = tn_at_f(c, "beta", 1), th = tn_at_f(c, "threshold", 20);
  tn_ref z = beta == 1 ? x : tn_b_muln(c, x, beta), y = tn_b_1(c, TN_OP_LOG1P, tn_b_1(c, TN_OP_EXP, z));
  if (beta != 1) y = tn_b_2(c, TN_OP_DIV, y, num(c, x, beta));
  return tn_at_ret(c, 0, tn_b_sel(c, tn_b_2(c, TN_OP_GT, z, num(c, x, th)), x, y));
}
static tn_ref logsigmoid(tn_decomp_ctx *c, tn_ref x) {
  tn_ref l = tn_b_1(c, TN_OP_LOG1P, tn_b_1(c, TN_OP_EXP, tn_b_1(c, TN_OP_NEG, tn_b_1(c, TN_OP_ABS, x))));
  return sub(c, tn_b_2(c, TN_OP_MIN, x, num(c, x, 0)), l);
}
tn_status tn_d_log_sigmoid(tn_decomp_ctx *c) { return tn_at_ret(c, 0, logsigmoid(c, wide(c, "self"))); }
tn_status tn_d_log_sigmoid_forward(tn_decomp_ctx *c) { /* result 1 is a buffer for the backward op, which here needs none */
  tn_ref x = wide(c, "self");
  if (c->n_out > 1) {
    const tn_type *t = tn_at_type(c, 1);
    bool same = t->rank == tn_b_rank(c, x);
    tn_dim d[TN_MAX_RANK];
    int n = tn_b_shape(c, x, d);
    for (int i = 0; same && i < n; i++) same = t->dim[i] == d[i];
    tn_ref e = tn_b_1(c, TN_OP_EXP, tn_b_1(c, TN_OP_NEG, tn_b_1(c, TN_OP_ABS, x)));
    tn_at_ret(c, 1, same ? e : tn_b_zeros(c, t->dim, t->rank, (tn_dtype)t->dtype));
  }
  return tn_at_ret(c, 0, logsigmoid(c, x));
}

tn_status tn_d_hardsigmoid(tn_decomp_ctx *c) {
  tn_ref x = wide(c, "self");
  return tn_at_ret(c, 0, tn_b_2(c, TN_OP_DIV, clampn(c, tn_b_addn(c, x, 3), 0, 6), num(c, x, 6)));
}
tn_status tn_d_hardswish(tn_decomp_ctx *c) {
  tn_ref x = wide(c, "self");
  return tn_at_ret(c, 0, tn_b_2(c, TN_OP_DIV, mul(c, x, clampn(c, tn_b_addn(c, x, 3), 0, 6)), num(c, x, 6)));
}
tn_status tn_d_hardtanh(tn_decomp_ctx *c) {
  tn_ref x = tn_at_t(c, "self");
  return tn_at_ret(c, 0, clampn(c, x, tn_at_f(c, "min_val", -1), tn_at_f(c, "max_val", 1)));
}
tn_status tn_d_relu6(tn_decomp_ctx *c) { return tn_at_ret(c, 0, clampn(c, tn_at_t(c, "self"), 0, 6)); }
tn_status tn_d_leaky_relu(tn_decomp_ctx *c) {
  tn_ref x = wide(c, "self");
  return tn_at_ret(c, 0, tn_b_sel(c, gt0(c, x), x, tn_b_muln(c, x, tn_at_f(c, "negative_slope", 0.01))));
}

static tn_ref elu(tn_decomp_ctx *c, tn_ref x, double alpha, double scale, double input_scale) {
  tn_ref z = input_scale == 1 ? x : tn_b_muln(c, x, input_scale), e = tn_b_1(c, TN_OP_EXPM1, z);
  if (alpha * scale != 1) e = tn_b_muln(c, e, alpha * scale);
  return tn_b_sel(c, gt0(c, x), scale == 1 ? x : tn_b_muln(c, x, scale), e);
}
tn_status tn_d_elu(tn_decomp_ctx *c) {
  return tn_at_ret(c, 0, elu(c, wide(c, "self"), tn_at_f(c, "alpha", 1), tn_at_f(c, "scale", 1), tn_at_f(c, "input_scale", 1)));
}
tn_status tn_d_selu(tn_decomp_ctx *c) { return tn_at_ret(c, 0, elu(c, wide(c, "self"), 1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1)); }
tn_status tn_d_celu(tn_decomp_ctx *c) {
  double a = tn_at_f(c, "alpha", 1);
  if (a == 0) return tn_at_unsup(c, "alpha=0");
  return tn_at_ret(c, 0, elu(c, wide(c, "self"), a, 1, 1 / a));
}

tn_status tn_d_glu(tn_decomp_ctx *c) {
  tn_ref x = wide(c, "self");
  int d = tn_at_axis(c, "dim", tn_b_rank(c, x));
  tn_dim half = tn_at_odim(c, 0, d);
  tn_ref a = tn_b_slice(c, x, d, 0, half, 1), b = tn_b_slice(c, x, d, half, half, 1);
  return tn_at_ret(c, 0, mul(c, a, tn_b_1(c, TN_OP_SIGMOID, b)));
}
tn_status tn_d_threshold(tn_decomp_ctx *c) {
  tn_ref x = tn_at_t(c, "self");
  tn_dtype t = tn_b_dtype(c, x);
  tn_ref le = tn_b_2(c, TN_OP_LE, x, tn_at_as(c, tn_at_opd(c, "threshold"), t));
  return tn_at_ret(c, 0, tn_b_sel(c, le, tn_at_as(c, tn_at_opd(c, "value"), t), x));
}
tn_status tn_d_prelu(tn_decomp_ctx *c) {             /* weight: one, or one for each channel (dim 1); _prelu_kernel's is broadcastable already */
  tn_ref x = wide(c, "self"), w = tn_b_cast(c, tn_at_t(c, "weight"), tn_b_dtype(c, x));
  if (c->st == TN_OK && tn_b_rank(c, w) == 1 && tn_b_rank(c, x) != 1)
    w = tn_b_dim(c, w, 0) == 1 || tn_b_rank(c, x) < 2 ? tn_b_reshape(c, w, NULL, 0) : tn_b_along(c, w, 1, tn_b_rank(c, x));
  return tn_at_ret(c, 0, tn_b_sel(c, gt0(c, x), x, mul(c, w, x)));
}
tn_status tn_d_softshrink(tn_decomp_ctx *c) {
  tn_ref x = wide(c, "self");
  double l = tn_at_f(c, "lambd", 0.5);
  tn_ref in = tn_b_2(c, TN_OP_LE, tn_b_1(c, TN_OP_ABS, x), num(c, x, l));
  return tn_at_ret(c, 0, tn_b_sel(c, in, num(c, x, 0), tn_b_sel(c, gt0(c, x), tn_b_addn(c, x, -l), tn_b_addn(c, x, l))));
}
tn_status tn_d_hardshrink(tn_decomp_ctx *c) {
  tn_ref x = wide(c, "self");
  return tn_at_ret(c, 0, tn_b_sel(c, tn_b_2(c, TN_OP_LE, tn_b_1(c, TN_OP_ABS, x), num(c, x, tn_at_f(c, "lambd", 0.5))), num(c, x, 0), x));
}
tn_status tn_d_logit(tn_decomp_ctx *c) {
  tn_ref x = wide(c, "self");
  if (tn_at_val(c, "eps")) { double e = tn_at_f(c, "eps", 0); x = clampn(c, x, e, 1 - e); }
  return tn_at_ret(c, 0, tn_b_1(c, TN_OP_LOG, tn_b_2(c, TN_OP_DIV, x, sub(c, num(c, x, 1), x))));
}
tn_status tn_d_rrelu(tn_decomp_ctx *c) {
  if (tn_at_b(c, "training", false)) return tn_at_unsup(c, "random slopes (training)");
  tn_ref x = wide(c, "self");
  double s = (tn_at_f(c, "lower", 0.125) + tn_at_f(c, "upper", 1. / 3)) / 2;
  return tn_at_ret(c, 0, tn_b_sel(c, gt0(c, x), x, tn_b_muln(c, x, s)));
}

/* ---- derivatives ---- */

tn_status tn_d_threshold_backward(tn_decomp_ctx *c) {
  tn_dtype t = tn_at_dtype(c, 0);
  tn_ref g = tn_b_cast(c, tn_at_t(c, "grad_output"), t), x = tn_b_cast(c, tn_at_t(c, "self"), t);
  tn_ref le = tn_b_2(c, TN_OP_LE, x, tn_at_as(c, tn_at_opd(c, "threshold"), t));
  return tn_at_ret(c, 0, tn_b_sel(c, le, tn_b_num(c, 0, t), g));
}
tn_status tn_d_sigmoid_backward(tn_decomp_ctx *c) {
  tn_ref g = wide(c, "grad_output"), y = wide(c, "output");
  return tn_at_ret(c, 0, mul(c, g, mul(c, y, sub(c, num(c, y, 1), y))));
}
tn_status tn_d_tanh_backward(tn_decomp_ctx *c) {
  tn_ref g = wide(c, "grad_output"), y = wide(c, "output");
  return tn_at_ret(c, 0, mul(c, g, sub(c, num(c, y, 1), mul(c, y, y))));
}
tn_status tn_d_silu_backward(tn_decomp_ctx *c) {
  tn_ref g = wide(c, "grad_output"), x = wide(c, "self"), s = tn_b_1(c, TN_OP_SIGMOID, x);
  tn_ref k = tn_b_addn(c, mul(c, x, sub(c, num(c, x, 1), s)), 1);
  return tn_at_ret(c, 0, mul(c, g, mul(c, s, k)));
}
tn_status tn_d_gelu_backward(tn_decomp_ctx *c) {
  tn_ref g = wide(c, "grad_output"), x = wide(c, "self"), d;
  if (gelu_form(c) == 1) {
    tn_ref t = tn_b_1(c, TN_OP_TANH, gelu_inner(c, x)), one = num(c, x, 1);
    tn_ref left = tn_b_muln(c, tn_b_addn(c, t, 1), 0.5);
    tn_ref inner = tn_b_muln(c, tn_b_addn(c, tn_b_muln(c, mul(c, x, x), 3 * 0.044715), 1), SQRT_2_PI);
    d = add(c, left, mul(c, mul(c, tn_b_muln(c, x, 0.5), sub(c, one, mul(c, t, t))), inner));
  } else {
    tn_ref cdf = tn_b_muln(c, tn_b_addn(c, tn_b_1(c, TN_OP_ERF, tn_b_muln(c, x, SQRT1_2)), 1), 0.5);
    tn_ref pdf = tn_b_muln(c, tn_b_1(c, TN_OP_EXP, tn_b_muln(c, mul(c, x, x), -0.5)), INV_SQRT_2PI);
    d = add(c, cdf, mul(c, x, pdf));
  }
  return tn_at_ret(c, 0, mul(c, g, d));
}
static tn_ref inside(tn_decomp_ctx *c, tn_ref x, double lo, double hi) {   /* lo < x < hi */
  return tn_b_2(c, TN_OP_AND, tn_b_2(c, TN_OP_GT, x, num(c, x, lo)), tn_b_2(c, TN_OP_LT, x, num(c, x, hi)));
}
tn_status tn_d_hardtanh_backward(tn_decomp_ctx *c) {
  tn_ref g = wide(c, "grad_output"), x = wide(c, "self");
  return tn_at_ret(c, 0, tn_b_sel(c, inside(c, x, tn_at_f(c, "min_val", -1), tn_at_f(c, "max_val", 1)), g, num(c, g, 0)));
}
tn_status tn_d_hardsigmoid_backward(tn_decomp_ctx *c) {
  tn_ref g = wide(c, "grad_output"), x = wide(c, "self");
  return tn_at_ret(c, 0, tn_b_sel(c, inside(c, x, -3, 3), tn_b_2(c, TN_OP_DIV, g, num(c, g, 6)), num(c, g, 0)));
}
tn_status tn_d_hardswish_backward(tn_decomp_ctx *c) {
  tn_ref g = wide(c, "grad_output"), x = wide(c, "self");
  tn_ref mid = mul(c, g, tn_b_addn(c, tn_b_2(c, TN_OP_DIV, x, num(c, x, 3)), 0.5));
  tn_ref hi = tn_b_sel(c, tn_b_2(c, TN_OP_GE, x, num(c, x, 3)), g, mid);
  return tn_at_ret(c, 0, tn_b_sel(c, tn_b_2(c, TN_OP_LE, x, num(c, x, -3)), num(c, g, 0), hi));
}
tn_status tn_d_leaky_relu_backward(tn_decomp_ctx *c) {
  tn_ref g = wide(c, "grad_output"), x = wide(c, "self");
  return tn_at_ret(c, 0, tn_b_sel(c, gt0(c, x), g, tn_b_muln(c, g, tn_at_f(c, "negative_slope", 0.01))));
}
tn_status tn_d_elu_backward(tn_decomp_ctx *c) {
  tn_ref g = wide(c, "grad_output"), x = wide(c, "self_or_result");
  double a = tn_at_f(c, "alpha", 1), s = tn_at_f(c, "scale", 1), i = tn_at_f(c, "input_scale", 1);
  tn_ref low = tn_at_b(c, "is_result", false) ? tn_b_muln(c, tn_b_addn(c, x, a * s), i)
                                              : tn_b_muln(c, tn_b_1(c, TN_OP_EXP, tn_b_muln(c, x, i)), i * a * s);
  return tn_at_ret(c, 0, mul(c, g, tn_b_sel(c, gt0(c, x), num(c, x, s), low)));
}
tn_status tn_d_softplus_backward(tn_decomp_ctx *c) {
  tn_ref g = wide(c, "grad_output"), x = wide(c, "self");
  tn_ref z = tn_b_muln(c, x, tn_at_f(c, "beta", 1));
  return tn_at_ret(c, 0, tn_b_sel(c, tn_b_2(c, TN_OP_GT, z, num(c, x, tn_at_f(c, "threshold", 20))), g, mul(c, g, tn_b_1(c, TN_OP_SIGMOID, z))));
}
tn_status tn_d_log_sigmoid_backward(tn_decomp_ctx *c) {
  tn_ref g = wide(c, "grad_output"), x = wide(c, "self");
  return tn_at_ret(c, 0, mul(c, g, tn_b_1(c, TN_OP_SIGMOID, tn_b_1(c, TN_OP_NEG, x))));
}
tn_status tn_d_mish_backward(tn_decomp_ctx *c) {
  tn_ref g = wide(c, "grad_output"), x = wide(c, "self"), t = tn_b_1(c, TN_OP_TANH, softplus1(c, x)), s = tn_b_1(c, TN_OP_SIGMOID, x);
  tn_ref d = add(c, t, mul(c, mul(c, x, s), sub(c, num(c, x, 1), mul(c, t, t))));
  return tn_at_ret(c, 0, mul(c, g, d));
}
tn_status tn_d_glu_backward(tn_decomp_ctx *c) {
  tn_ref g = wide(c, "grad_output"), x = wide(c, "self");
  int d = tn_at_axis(c, "dim", tn_b_rank(c, x));
  tn_dim half = tn_b_dim(c, g, d);
  tn_ref a = tn_b_slice(c, x, d, 0, half, 1), s = tn_b_1(c, TN_OP_SIGMOID, tn_b_slice(c, x, d, half, half, 1));
  tn_ref p[2] = {mul(c, g, s), mul(c, mul(c, mul(c, g, a), s), sub(c, num(c, s, 1), s))};
  return tn_at_ret(c, 0, tn_b_concat(c, p, 2, d));
}

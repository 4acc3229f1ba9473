/* onnx_training: the optimizers of ai.onnx.preview.training. Operands: rate R, update count T, then groups of n tensors (X.., G.., state..); results in the
 * same order. (https://onnx.ai/onnx/operators/, domain ai.onnx.preview.training) Gradient needs the graph around it: see onnx_gradient.c. */
#include "ops/onnx_math_int.h"

static tn_ref num(tn_ox *c, double v, tn_ref like) { return mx_num(c, like, v); }
static tn_ref muln(tn_ox *c, tn_ref x, double k) { return tn_b_muln(&c->b, x, k); }

/* Number of tensors optimised together by an operator with `kinds` tensors for each; -1 and an error when the operands do not come out even. */
static int group(tn_ox *c, uint32_t kinds) {
  if (mx_ok(c) && (c->n_in < 2 + kinds || (c->n_in - 2) % kinds)) tn_ox_bad(c, "%u operands, wants 2 and a multiple of %u", c->n_in, kinds);
  return mx_ok(c) ? (int)((c->n_in - 2) / kinds) : -1;
}
/* R and T as scalars of x's dtype. */
static void rates(tn_ox *c, tn_ref x, tn_ref *r, tn_ref *t) {
  *r = mx_cast(c, tn_ox_scalar(c, tn_ox_in(c, 0)), mx_dtype(c, x));
  *t = mx_cast(c, tn_ox_scalar(c, tn_ox_in(c, 1)), mx_dtype(c, x));
}
/* g + norm * x */
static tn_ref regular(tn_ox *c, tn_ref x, tn_ref g) {
  double k = tn_ox_float(c, "norm_coefficient", 0);
  return k == 0 ? g : mx_add(c, muln(c, x, k), g);
}

tn_status tn_ox_adagrad(tn_ox *c) {
  int n = group(c, 3);
  double decay = tn_ox_float(c, "decay_factor", 0), eps = tn_ox_float(c, "epsilon", 1e-6f);
  for (int i = 0; i < n && mx_ok(c); i++) {
    uint32_t k = (uint32_t)i, m = (uint32_t)n;
    tn_ref x = tn_ox_in(c, 2 + k), g = tn_ox_in(c, 2 + m + k), h = tn_ox_in(c, 2 + 2 * m + k), r, t;
    rates(c, x, &r, &t);
    r = mx_div(c, r, tn_b_addn(&c->b, muln(c, t, decay), 1));
    g = regular(c, x, g);
    h = mx_add(c, h, mx_mul(c, g, g));
    tn_ox_ret(c, k, mx_sub(c, x, mx_div(c, mx_mul(c, r, g), tn_b_addn(&c->b, mx_1(c, TN_OP_SQRT, h), eps))));
    tn_ox_ret(c, m + k, h);
  }
  return c->b.st;
}

tn_status tn_ox_adam(tn_ox *c) {
  int n = group(c, 4);
  double a = tn_ox_float(c, "alpha", 0.9f), b = tn_ox_float(c, "beta", 0.999f), eps = tn_ox_float(c, "epsilon", 1e-6f), post = tn_ox_float(c, "norm_coefficient_post", 0);
  for (int i = 0; i < n && mx_ok(c); i++) {
    uint32_t k = (uint32_t)i, m = (uint32_t)n;
    tn_ref x = tn_ox_in(c, 2 + k), g = tn_ox_in(c, 2 + m + k), v = tn_ox_in(c, 2 + 2 * m + k), h = tn_ox_in(c, 2 + 3 * m + k), r, t;
    rates(c, x, &r, &t);
    g = regular(c, x, g);
    v = mx_add(c, muln(c, v, a), muln(c, g, 1 - a));
    h = mx_add(c, muln(c, h, b), muln(c, mx_mul(c, g, g), 1 - b));
    tn_ref one = num(c, 1, x), bt = mx_2(c, TN_OP_POW, num(c, b, x), t), at = mx_2(c, TN_OP_POW, num(c, a, x), t);
    tn_ref adj = mx_div(c, mx_mul(c, r, mx_1(c, TN_OP_SQRT, mx_sub(c, one, bt))), mx_sub(c, one, at));   /* bias correction, but for the first step */
    r = mx_sel(c, mx_2n(c, TN_OP_GT, t, 0), adj, r);
    tn_ref y = mx_sub(c, x, mx_mul(c, r, mx_div(c, v, tn_b_addn(&c->b, mx_1(c, TN_OP_SQRT, h), eps))));
    tn_ox_ret(c, k, post == 0 ? y : muln(c, y, 1 - post));
    tn_ox_ret(c, m + k, v);
    tn_ox_ret(c, 2 * m + k, h);
  }
  return c->b.st;
}

tn_status tn_ox_momentum(tn_ox *c) {
  int n = group(c, 3);
  double a = tn_ox_float(c, "alpha", 0), b = tn_ox_float(c, "beta", 0);
  const char *mode = tn_ox_str_attr(c, "mode", "standard");
  if (mx_ok(c) && strcmp(mode, "standard") && strcmp(mode, "nesterov")) return tn_ox_bad(c, "mode is \"%s\"", mode);
  for (int i = 0; i < n && mx_ok(c); i++) {
    uint32_t k = (uint32_t)i, m = (uint32_t)n;
    tn_ref x = tn_ox_in(c, 2 + k), g = tn_ox_in(c, 2 + m + k), v = tn_ox_in(c, 2 + 2 * m + k), r, t;
    rates(c, x, &r, &t);
    g = regular(c, x, g);
    tn_ref keep = mx_sel(c, mx_2n(c, TN_OP_GT, t, 0), num(c, b, x), num(c, 1, x));   /* the first gradient counts in full */
    v = mx_add(c, muln(c, v, a), mx_mul(c, keep, g));
    tn_ref step = *mode == 's' ? v : mx_add(c, g, muln(c, v, a));
    tn_ox_ret(c, k, mx_sub(c, x, mx_mul(c, r, step)));
    tn_ox_ret(c, m + k, v);
  }
  return c->b.st;
}

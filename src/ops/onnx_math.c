/* onnx_math: pointwise ONNX operators: one scalar function, or a few. f16 and bf16 compute composite formulas in f32 and round once; a single function
 * rounds by itself. Before opset 7 the binary operators broadcast only when attribute `broadcast` says so, b's dims standing at `axis` of a's.
 * Attribute consumed_inputs of opset 1 was a hint and is not read. */
#include "ops/onnx_math_int.h"

/* ---- shared ---- */

tn_ref tn_ox_plain(tn_ox *c, tn_ref x) {
  int e = tn_ox_elem(c, x);
  bool low = (e >= 17 && e <= 20) || e == 23 || e == 24 || e == 27 || e == 28;
  return low ? tn_ox_cast(c, x, 1, true, "up") : x;
}

tn_ref tn_ox_old_broadcast(tn_ox *c, tn_ref a, tn_ref b) {
  if (!mx_ok(c) || c->opset >= 7 || !tn_ox_int(c, "broadcast", 0) || !tn_ox_attr_get(c, "axis")) return b;
  tn_dim d[TN_MAX_RANK];
  int ra = mx_rank(c, a), rb = tn_b_shape(&c->b, b, d), axis = tn_ox_axis(c, "axis", 0, ra);
  if (!mx_ok(c)) return b;
  if (axis + rb > ra) { tn_ox_bad(c, "axis %d and rank %d of the second operand exceed rank %d", axis, rb, ra); return b; }
  for (int i = rb; i < ra - axis; i++) d[i] = 1;
  return tn_b_reshape(&c->b, b, d, ra - axis);
}

bool tn_ox_scalar_const(tn_ox *c, uint32_t k, double *out) {
  tn_tensor t;
  if (!tn_ox_has(c, k) || !mx_ok(c) || !tn_ox_data(c, c->in[k], &t)) return false;
  for (int i = 0; i < t.rank; i++)
    if (t.shape[i] != 1) return false;
  tn_dtype dt = (tn_dtype)t.dtype;
  tn_num v = tn_num_load(dt, t.data);
  *out = tn_dtype_is_float(dt) ? v.f : dt == TN_U64 ? (double)(uint64_t)v.i : (double)v.i;
  return true;
}

tn_ref tn_ox_scalar(tn_ox *c, tn_ref x) {
  if (!mx_ok(c) || mx_rank(c, x) == 0) return x;
  tn_dim d[TN_MAX_RANK];
  int n = tn_b_shape(&c->b, x, d);
  for (int i = 0; i < n; i++)
    if (d[i] != 1) return x;
  return tn_b_reshape(&c->b, x, NULL, 0);
}

bool tn_ox_sizes_if(tn_ox *c, const tn_ref *is, const tn_dim *d, tn_dim *size, int n) {
  tn_ref v[TN_MAX_RANK];
  tn_dim got[TN_MAX_RANK];
  int at[TN_MAX_RANK], m = 0;
  for (int i = 0; i < n; i++) {
    if (size[i] == d[i]) continue;
    tn_ref s = mx_sel(c, is[i], tn_b_dimval(&c->b, size[i], TN_I64), tn_b_dimval(&c->b, d[i], TN_I64));
    at[m] = i;
    v[m++] = tn_b_reshape(&c->b, s, (tn_dim[]){1}, 1);
  }
  if (m == 0) return mx_ok(c);
  tn_ref all = tn_b_concat(&c->b, v, (uint32_t)m, 0);
  if (!mx_ok(c) || tn_ox_sizes(c, all, got, m, 0) != m) return false;
  for (int i = 0; i < m; i++) size[at[i]] = got[i];
  return true;
}

tn_ref tn_ox_along_if(tn_ox *c, tn_ref is, tn_ref yes, tn_ref no, int axis, tn_dim size) {
  if (!mx_ok(c)) return no;
  tn_dim n = tn_b_dim(&c->b, no, axis);
  if (tn_b_dim(&c->b, yes, axis) == n) return mx_sel(c, is, yes, no);
  tn_ref both[2] = {no, yes}, base = mx_sel(c, is, tn_b_dimval(&c->b, n, TN_I64), tn_b_int(&c->b, 0, TN_I64));
  return tn_b_take(&c->b, tn_b_concat(&c->b, both, 2, axis), mx_add(c, tn_b_iota(&c->b, size, TN_I64), base), axis);
}

/* ---- one operand, one function ---- */

static tn_status unary(tn_ox *c, tn_op op) {
  tn_ref x = tn_ox_in(c, 0);
  if (!mx_ok(c)) return c->b.st;
  tn_dtype t = mx_dtype(c, x);
  if (tn_scalar_accepts((tn_scalar_op)op, t)) return tn_ox_ret(c, 0, mx_1(c, op, x));
  if (t == TN_BOOL) return tn_ox_bad(c, "operand is bool");
  return mx_ret_as(c, 0, mx_1(c, op, mx_cast(c, x, tn_dtype_size(t) > 4 ? TN_F64 : TN_F32)), t);   /* Erf, ... of integers */
}
#define UNARY(fn, op) tn_status tn_ox_##fn(tn_ox *c) { return unary(c, TN_OP_##op); }
UNARY(abs, ABS) UNARY(neg, NEG) UNARY(ceil, CEIL) UNARY(floor, FLOOR) UNARY(round, ROUND) UNARY(sqrt, SQRT) UNARY(reciprocal, RECIPROCAL)
UNARY(exp, EXP) UNARY(log, LOG) UNARY(sin, SIN) UNARY(cos, COS) UNARY(tan, TAN) UNARY(asin, ASIN) UNARY(acos, ACOS) UNARY(atan, ATAN)
UNARY(sinh, SINH) UNARY(cosh, COSH) UNARY(tanh, TANH) UNARY(asinh, ASINH) UNARY(acosh, ACOSH) UNARY(atanh, ATANH)
UNARY(erf, ERF) UNARY(sigmoid, SIGMOID) UNARY(relu, RELU) UNARY(not, NOT)

tn_status tn_ox_sign(tn_ox *c) {                     /* NaN stays NaN */
  tn_ref x = tn_ox_in(c, 0), y = mx_1(c, TN_OP_SIGN, x);
  if (mx_ok(c) && tn_dtype_is_float(mx_dtype(c, x))) y = mx_sel(c, mx_1(c, TN_OP_ISNAN, x), x, y);
  return tn_ox_ret(c, 0, y);
}

/* Floats of any kind that can be NaN or infinite, as bools. */
static tn_ref false_like(tn_ox *c, tn_ref x) {
  tn_dim d[TN_MAX_RANK];
  int n = tn_b_shape(&c->b, x, d);
  return tn_b_zeros(&c->b, d, n, TN_BOOL);
}
tn_status tn_ox_isnan(tn_ox *c) { return tn_ox_ret(c, 0, mx_1(c, TN_OP_ISNAN, tn_ox_plain(c, tn_ox_in(c, 0)))); }
tn_status tn_ox_isinf(tn_ox *c) {
  tn_ref x = tn_ox_plain(c, tn_ox_in(c, 0));
  bool neg = tn_ox_int(c, "detect_negative", 1) != 0, pos = tn_ox_int(c, "detect_positive", 1) != 0;
  if (!mx_ok(c)) return c->b.st;
  if (neg && pos) return tn_ox_ret(c, 0, mx_1(c, TN_OP_ISINF, x));
  return tn_ox_ret(c, 0, neg || pos ? mx_2n(c, TN_OP_EQ, x, pos ? INFINITY : -INFINITY) : false_like(c, x));
}

/* ---- activations ---- */

static tn_ref wide(tn_ox *c, uint32_t k) { return tn_b_up(&c->b, tn_ox_in(c, k)); }
static tn_status back(tn_ox *c, tn_ref y) {          /* in the dtype of operand 0 */
  if (!mx_ok(c)) return c->b.st;
  return mx_ret_as(c, 0, y, mx_dtype(c, c->in[0]));
}
static tn_ref neg_part(tn_ox *c, tn_ref x, tn_ref low, tn_ref high) { return mx_sel(c, mx_2n(c, TN_OP_LT, x, 0), low, high); }

tn_status tn_ox_leaky_relu(tn_ox *c) {
  tn_ref x = wide(c, 0);
  return back(c, neg_part(c, x, tn_b_muln(&c->b, x, tn_ox_float(c, "alpha", 0.01f)), x));
}
tn_status tn_ox_prelu(tn_ox *c) {                    /* before opset 7 a slope vector runs along the channels; some later exporters mean that too */
  tn_ref x = wide(c, 0), s = tn_ox_in(c, 1);
  if (!mx_ok(c)) return c->b.st;
  int rank = mx_rank(c, x);
  if (mx_rank(c, s) == 1 && rank >= 2) {
    tn_dim n = tn_b_dim(&c->b, s, 0), last = tn_b_dim(&c->b, x, rank - 1);
    if (n != 1 && (c->opset < 7 || (last != n && tn_dim_is_const(last) && tn_dim_is_const(n)))) s = tn_b_along(&c->b, s, 1, rank);
  }
  return back(c, neg_part(c, x, mx_mul(c, x, mx_cast(c, s, mx_dtype(c, x))), x));
}
tn_status tn_ox_thresholded_relu(tn_ox *c) {
  tn_ref x = wide(c, 0);
  return back(c, mx_sel(c, mx_2n(c, TN_OP_GT, x, tn_ox_float(c, "alpha", 1)), x, mx_num(c, x, 0)));
}
tn_status tn_ox_elu(tn_ox *c) {
  tn_ref x = wide(c, 0);
  return back(c, neg_part(c, x, tn_b_muln(&c->b, mx_1(c, TN_OP_EXPM1, x), tn_ox_float(c, "alpha", 1)), x));
}
tn_status tn_ox_celu(tn_ox *c) {
  tn_ref x = wide(c, 0);
  double a = tn_ox_float(c, "alpha", 1);
  if (mx_ok(c) && a == 0) return tn_ox_bad(c, "alpha is 0");
  return back(c, neg_part(c, x, tn_b_muln(&c->b, mx_1(c, TN_OP_EXPM1, mx_2n(c, TN_OP_DIV, x, a)), a), x));
}
tn_status tn_ox_selu(tn_ox *c) {                     /* opset 1 rounded its constants */
  tn_ref x = wide(c, 0);
  double a = tn_ox_float(c, "alpha", c->opset < 6 ? 1.6732f : 1.67326319217681884765625), g = tn_ox_float(c, "gamma", c->opset < 6 ? 1.0507f : 1.05070102214813232421875);
  return back(c, neg_part(c, x, tn_b_muln(&c->b, mx_1(c, TN_OP_EXPM1, x), a * g), tn_b_muln(&c->b, x, g)));
}
tn_status tn_ox_gelu(tn_ox *c) {
  tn_ref x = wide(c, 0), t;
  const char *form = tn_ox_str_attr(c, "approximate", "none");
  if (!mx_ok(c)) return c->b.st;
  if (!strcmp(form, "tanh")) {
    tn_ref x3 = mx_mul(c, mx_mul(c, x, x), x);
    t = mx_1(c, TN_OP_TANH, tn_b_muln(&c->b, mx_add(c, x, tn_b_muln(&c->b, x3, 0.044715)), 0.79788456080286535588));
  } else if (!strcmp(form, "none")) {
    t = mx_1(c, TN_OP_ERF, tn_b_muln(&c->b, x, 0.70710678118654752440));
  } else {
    return tn_ox_bad(c, "approximate is \"%s\"", form);
  }
  return back(c, mx_mul(c, tn_b_muln(&c->b, x, 0.5), tn_b_addn(&c->b, t, 1)));
}
static tn_ref hard_sigmoid(tn_ox *c, tn_ref x, double alpha, double beta) {
  return mx_2n(c, TN_OP_MIN, mx_2n(c, TN_OP_MAX, tn_b_addn(&c->b, tn_b_muln(&c->b, x, alpha), beta), 0), 1);
}
tn_status tn_ox_hard_sigmoid(tn_ox *c) { return back(c, hard_sigmoid(c, wide(c, 0), tn_ox_float(c, "alpha", 0.2f), tn_ox_float(c, "beta", 0.5))); }
tn_status tn_ox_hard_swish(tn_ox *c) {
  tn_ref x = wide(c, 0);
  return back(c, mx_mul(c, x, hard_sigmoid(c, x, 1.0 / 6, 0.5)));
}
static tn_ref softplus(tn_ox *c, tn_ref x) {         /* max(x, 0) + log1p(exp(-|x|)) */
  return mx_add(c, mx_1(c, TN_OP_RELU, x), mx_1(c, TN_OP_LOG1P, mx_1(c, TN_OP_EXP, mx_1(c, TN_OP_NEG, mx_1(c, TN_OP_ABS, x)))));
}
tn_status tn_ox_softplus(tn_ox *c) { return back(c, softplus(c, wide(c, 0))); }
tn_status tn_ox_mish(tn_ox *c) {
  tn_ref x = wide(c, 0);
  return back(c, mx_mul(c, x, mx_1(c, TN_OP_TANH, softplus(c, x))));
}
tn_status tn_ox_softsign(tn_ox *c) {
  tn_ref x = wide(c, 0);
  return back(c, mx_div(c, x, tn_b_addn(&c->b, mx_1(c, TN_OP_ABS, x), 1)));
}
static tn_ref swish(tn_ox *c, tn_ref x) {
  double a = tn_ox_float(c, "alpha", 1);
  return mx_mul(c, x, mx_1(c, TN_OP_SIGMOID, a == 1 ? x : tn_b_muln(&c->b, x, a)));
}
tn_status tn_ox_swish(tn_ox *c) { return back(c, swish(c, wide(c, 0))); }
tn_status tn_ox_swiglu(tn_ox *c) {
  tn_ref a = wide(c, 0), b = wide(c, 1);
  return back(c, mx_mul(c, swish(c, a), b));
}
tn_status tn_ox_shrink(tn_ox *c) {                   /* integers too: computed as floats, as the bias is one */
  tn_ref x = tn_ox_in(c, 0);
  double l = tn_ox_float(c, "lambd", 0.5), bias = tn_ox_float(c, "bias", 0);
  if (!mx_ok(c)) return c->b.st;
  tn_dtype t = mx_dtype(c, x);
  x = tn_dtype_is_float(t) ? tn_b_up(&c->b, x) : mx_cast(c, x, tn_dtype_size(t) > 2 ? TN_F64 : TN_F32);
  tn_ref hi = mx_sel(c, mx_2n(c, TN_OP_GT, x, l), tn_b_addn(&c->b, x, -bias), mx_num(c, x, 0));
  return back(c, mx_sel(c, mx_2n(c, TN_OP_LT, x, -l), tn_b_addn(&c->b, x, bias), hi));
}

tn_status tn_ox_clip(tn_ox *c) {                     /* bounds: attributes before opset 11, then operands; the upper one wins when they cross */
  tn_ref x = tn_ox_in(c, 0);
  tn_ref lo = {0}, hi = {0};
  if (!mx_ok(c)) return c->b.st;
  if (c->opset < 11) {
    if (tn_ox_attr_get(c, "min")) lo = mx_num(c, x, tn_ox_float(c, "min", 0));
    if (tn_ox_attr_get(c, "max")) hi = mx_num(c, x, tn_ox_float(c, "max", 0));
  } else {
    if (tn_ox_has(c, 1)) lo = tn_ox_scalar(c, tn_ox_in(c, 1));
    if (tn_ox_has(c, 2)) hi = tn_ox_scalar(c, tn_ox_in(c, 2));
  }
  if (lo.id) x = mx_2(c, TN_OP_MAX, x, mx_cast(c, lo, mx_dtype(c, x)));
  if (hi.id) x = mx_2(c, TN_OP_MIN, x, mx_cast(c, hi, mx_dtype(c, x)));
  return tn_ox_ret(c, 0, x);
}

/* ---- two operands ---- */

/* Both operands, equally typed; c->b.st tells whether they are there. */
static void pair(tn_ox *c, tn_ref *a, tn_ref *b) {
  *a = tn_ox_in(c, 0);
  *b = tn_ox_in(c, 1);
  if (mx_ok(c) && mx_dtype(c, *a) != mx_dtype(c, *b))
    tn_ox_bad(c, "operands are %s and %s", tn_dtype_name(mx_dtype(c, *a)), tn_dtype_name(mx_dtype(c, *b)));
  *b = tn_ox_old_broadcast(c, *a, *b);
}
static tn_status binary(tn_ox *c, tn_op op) {
  tn_ref a, b;
  pair(c, &a, &b);
  return tn_ox_ret(c, 0, mx_2(c, op, a, b));
}
#define BINARY(fn, op) tn_status tn_ox_##fn(tn_ox *c) { return binary(c, TN_OP_##op); }
BINARY(add, ADD) BINARY(sub, SUB) BINARY(mul, MUL) BINARY(and, AND) BINARY(or, OR) BINARY(xor, XOR)
BINARY(less, LT) BINARY(less_equal, LE) BINARY(greater, GT) BINARY(greater_equal, GE)

tn_status tn_ox_div(tn_ox *c) {                      /* integers: truncated; by zero: the call's error */
  tn_ref a, b;
  pair(c, &a, &b);
  if (!mx_ok(c)) return c->b.st;
  return tn_ox_ret(c, 0, mx_2(c, tn_dtype_is_float(mx_dtype(c, a)) ? TN_OP_DIV : TN_OP_TRUNCDIV, a, tn_b_divisor(&c->b, b)));
}
tn_status tn_ox_mod(tn_ox *c) {
  tn_ref a, b;
  pair(c, &a, &b);
  return tn_ox_ret(c, 0, mx_2(c, tn_ox_int(c, "fmod", 0) ? TN_OP_FMOD : TN_OP_REMAINDER, a, tn_b_divisor(&c->b, b)));
}
tn_status tn_ox_bit_shift(tn_ox *c) {
  const char *way = tn_ox_str_attr(c, "direction", "");
  if (!mx_ok(c)) return c->b.st;
  if (strcmp(way, "LEFT") && strcmp(way, "RIGHT")) return tn_ox_bad(c, "direction is \"%s\"", way);
  return binary(c, *way == 'L' ? TN_OP_SHL : TN_OP_SHR);
}
tn_status tn_ox_equal(tn_ox *c) {
  if (c->n_in == 2 && c->in[0].id && tn_ox_elem(c, c->in[0]) == 8) {   /* strings: whole values, in the run time */
    return tn_ox_ret(c, 0, tn_ox_text_equal(c, c->in[0], c->in[1]));
  }
  return binary(c, TN_OP_EQ);
}

tn_status tn_ox_pow(tn_ox *c) {                      /* the result has the base's type; an exponent of another type is allowed from opset 12 on */
  tn_ref x = tn_ox_in(c, 0), e = tn_ox_old_broadcast(c, x, tn_ox_in(c, 1));
  if (!mx_ok(c)) return c->b.st;
  tn_dtype t = mx_dtype(c, x), te = mx_dtype(c, e), w = t;
  bool f = tn_dtype_is_float(t);
  double k;
  if (f && tn_ox_scalar_const(c, 1, &k) && mx_rank(c, e) <= mx_rank(c, x)) {   /* exact and cheap */
    tn_ref u = tn_b_up(&c->b, x);
    if (k == 1) return tn_ox_ret(c, 0, x);
    if (k == 2) return mx_ret_as(c, 0, mx_mul(c, u, u), t);
    if (k == 3) return mx_ret_as(c, 0, mx_mul(c, mx_mul(c, u, u), u), t);
    if (k == 0.5) return mx_ret_as(c, 0, mx_1(c, TN_OP_SQRT, u), t);
  }
  if (f) w = te == TN_F64 ? TN_F64 : tn_b_wide(t);
  else if (tn_dtype_is_float(te)) w = TN_F64;
  else w = tn_dtype_size(te) > tn_dtype_size(t) ? (tn_dtype_is_unsigned(t) ? te : TN_I64) : t;
  return mx_ret_as(c, 0, mx_2(c, TN_OP_POW, mx_cast(c, x, w), mx_cast(c, e, w)), t);
}

/* ---- any number of operands ---- */

static tn_ref variadic(tn_ox *c, tn_op op, bool up) {
  tn_ref y = tn_ox_in(c, 0);
  if (up) y = tn_b_up(&c->b, y);
  for (uint32_t k = 1; k < c->n_in && mx_ok(c); k++) {
    tn_ref x = tn_ox_in(c, k);
    if (mx_ok(c) && mx_dtype(c, x) != mx_dtype(c, c->in[0])) tn_ox_bad(c, "operand %u is %s, the first %s", k, tn_dtype_name(mx_dtype(c, x)), tn_dtype_name(mx_dtype(c, c->in[0])));
    y = mx_2(c, op, y, up ? tn_b_up(&c->b, x) : x);
  }
  return y;
}
tn_status tn_ox_max(tn_ox *c) { return tn_ox_ret(c, 0, variadic(c, TN_OP_MAX, false)); }
tn_status tn_ox_min(tn_ox *c) { return tn_ox_ret(c, 0, variadic(c, TN_OP_MIN, false)); }
tn_status tn_ox_sum(tn_ox *c) { return back(c, variadic(c, TN_OP_ADD, true)); }
tn_status tn_ox_mean(tn_ox *c) {
  tn_ref s = variadic(c, TN_OP_ADD, true);
  return back(c, mx_2n(c, TN_OP_DIV, s, c->n_in));
}

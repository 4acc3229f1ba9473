/* onnx_random: RandomNormal, RandomUniform (and Like), Bernoulli, Multinomial, Dropout.
 *
 * The generator is a hash of (position, key): two rounds of a 32-bit integer mixer ("lowbias32" of C. Wellons' hash-prospector), so any element can be made
 * alone, in any order, on any number of threads, and a whole tensor is one kernel. The key comes from attribute `seed`: equal seeds give equal numbers,
 * in every call. Without one the run time draws a key for each call (DYN "entropy"). Numbers are not those of another framework: the standard asks for a
 * distribution only. Normal values by Box and Muller, choices by the Gumbel maximum. */
#include "ops/onnx_math_int.h"

#define B (&c->b)

static uint64_t mix64(uint64_t z) {                  /* splitmix64's finisher: spreads a seed over a key */
  z += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/* The key of this node: i32[] for stream `s`. */
static tn_ref key_of(tn_ox *c, tn_ref entropy, uint32_t s) {
  if (entropy.id) return mx_cast(c, mx_2(c, TN_OP_SHR, entropy, tn_b_int(B, s ? 16 : 0, TN_I64)), TN_I32);
  const tn_ox_attr *a = tn_ox_attr_get(c, "seed");
  uint64_t seed = 0;
  if (a && a->kind == TN_OX_FLOAT) {
    uint32_t bits;
    memcpy(&bits, &a->u.f[0], sizeof bits);
    seed = bits;
  } else if (a && a->kind == TN_OX_INT) {
    seed = (uint64_t)a->u.i[0];
  } else if (a) {
    tn_ox_bad(c, "seed is no number");
  }
  return tn_b_int(B, (int32_t)(uint32_t)(mix64(seed) >> (s ? 32 : 0)), TN_I32);
}
static tn_ref entropy_of(tn_ox *c) {
  if (tn_ox_attr_get(c, "seed")) return (tn_ref){0};
  tn_type t = tn_ox_type(c, TN_I64, 0, NULL);
  return tn_ox_dyn(c, "entropy", NULL, 0, NULL, 0, &t, 1);
}

static tn_ref imul(tn_ox *c, tn_ref x, uint32_t k) { return mx_mul(c, x, tn_b_int(B, (int32_t)k, TN_I32)); }
static tn_ref ushr(tn_ox *c, tn_ref x, int n) {      /* shr of i32 keeps the sign: cut it off */
  return mx_2(c, TN_OP_AND, mx_2(c, TN_OP_SHR, x, tn_b_int(B, n, TN_I32)), tn_b_int(B, (int32_t)(UINT32_MAX >> n), TN_I32));
}
static tn_ref fold(tn_ox *c, tn_ref x, int n) { return mx_2(c, TN_OP_XOR, x, ushr(c, x, n)); }
static tn_ref mix(tn_ox *c, tn_ref x) { return fold(c, imul(c, fold(c, imul(c, fold(c, x, 16), 0x7feb352d), 15), 0x846ca68b), 16); }

/* Uniform in [0, 1) of dtype t (f32 or f64), shape d: stream `s` of key entropy/seed. */
static tn_ref uniform(tn_ox *c, const tn_dim *d, int n, tn_dtype t, tn_ref entropy, uint32_t s) {
  tn_ref at = mx_cast(c, tn_b_iota(B, tn_b_numel(B, d, n), TN_I64), TN_I32), k0 = key_of(c, entropy, 0), k1 = key_of(c, entropy, 1);
  tn_ref base = mx_add(c, imul(c, at, 0x9e3779b9), k0), u = {0};
  for (uint32_t part = 0; part < (t == TN_F64 ? 2u : 1u); part++) {
    tn_ref h = mix(c, mx_2(c, TN_OP_XOR, mix(c, base), mx_add(c, k1, tn_b_int(B, (int32_t)((2 * s + part) * 0x85ebca6bu), TN_I32))));
    tn_ref v = mx_cast(c, ushr(c, h, 8), t);         /* 24 bits */
    u = u.id ? tn_b_muln(B, mx_add(c, u, v), 0x1p-24) : tn_b_muln(B, v, 0x1p-24);
  }
  return tn_b_reshape(B, u, d, n);
}
static tn_ref normal(tn_ox *c, const tn_dim *d, int n, tn_dtype t, tn_ref entropy) {
  tn_ref u = uniform(c, d, n, t, entropy, 0), v = uniform(c, d, n, t, entropy, 1);
  tn_ref r = mx_1(c, TN_OP_SQRT, tn_b_muln(B, mx_1(c, TN_OP_LOG, mx_sub(c, mx_num(c, u, 1), u)), -2));   /* 1 - u is never 0 */
  return mx_mul(c, r, mx_1(c, TN_OP_COS, tn_b_muln(B, v, 6.28318530717958647693)));
}

/* Element type of the result: attribute dtype, else def. */
static tn_dtype result_type(tn_ox *c, int def, bool floats_only) {
  int64_t v = tn_ox_int(c, "dtype", def);
  int t = v > 0 && v <= 28 ? tn_ox_dtype_of((int)v) : -1;
  if (mx_ok(c) && (t < 0 || tn_ox_elem_of((tn_dtype)t) != v || (floats_only && !tn_dtype_is_float((tn_dtype)t)))) tn_ox_unsup(c, "dtype %lld", (long long)v);
  return mx_ok(c) ? (tn_dtype)t : TN_F32;
}

static tn_status draw(tn_ox *c, const tn_dim *d, int n, tn_dtype t, bool is_normal) {
  tn_dtype w = t == TN_F64 ? TN_F64 : TN_F32;
  tn_ref e = entropy_of(c), y;
  if (is_normal) {
    y = tn_b_addn(B, tn_b_muln(B, normal(c, d, n, w, e), tn_ox_float(c, "scale", 1)), tn_ox_float(c, "mean", 0));
  } else {
    double lo = tn_ox_float(c, "low", 0), hi = tn_ox_float(c, "high", 1);
    y = tn_b_addn(B, tn_b_muln(B, uniform(c, d, n, w, e, 0), hi - lo), lo);
  }
  return mx_ret_as(c, 0, y, t);
}
static tn_status random_of_shape(tn_ox *c, bool is_normal) {
  int64_t shape[TN_MAX_RANK];
  tn_dim d[TN_MAX_RANK];
  int n = tn_ox_ints_attr(c, "shape", shape, TN_MAX_RANK);
  tn_dtype t = result_type(c, 1, true);
  if (!mx_ok(c)) return c->b.st;
  if (n < 0) return tn_ox_bad(c, "attribute shape is missing");
  for (int i = 0; i < n; i++) {
    if (shape[i] < 0) return tn_ox_bad(c, "shape[%d] is %lld", i, (long long)shape[i]);
    d[i] = shape[i];
  }
  return draw(c, d, n, t, is_normal);
}
static tn_status random_like(tn_ox *c, bool is_normal) {
  tn_ref x = tn_ox_in(c, 0);
  tn_dim d[TN_MAX_RANK];
  if (!mx_ok(c)) return c->b.st;
  tn_dtype t = result_type(c, tn_ox_elem(c, x), true);
  int n = tn_b_shape(B, x, d);
  return mx_ok(c) ? draw(c, d, n, t, is_normal) : c->b.st;
}
tn_status tn_ox_random_normal(tn_ox *c) { return random_of_shape(c, true); }
tn_status tn_ox_random_uniform(tn_ox *c) { return random_of_shape(c, false); }
tn_status tn_ox_random_normal_like(tn_ox *c) { return random_like(c, true); }
tn_status tn_ox_random_uniform_like(tn_ox *c) { return random_like(c, false); }

tn_status tn_ox_bernoulli(tn_ox *c) {
  tn_ref x = tn_ox_in(c, 0), p = tn_b_up(B, x);
  tn_dim d[TN_MAX_RANK];
  if (!mx_ok(c)) return c->b.st;
  tn_dtype t = result_type(c, tn_ox_elem(c, x), false);
  int n = tn_b_shape(B, x, d);
  return mx_ret_as(c, 0, mx_2(c, TN_OP_LT, uniform(c, d, n, mx_dtype(c, p), entropy_of(c), 0), p), t);
}

tn_status tn_ox_multinomial(tn_ox *c) {              /* x[B, C] log-probabilities -> [B, samples]: argmax of x - log(-log u) */
  tn_ref x = tn_b_up(B, tn_ox_in(c, 0));
  int64_t samples = tn_ox_int(c, "sample_size", 1);
  tn_dim d[3];
  if (!mx_ok(c)) return c->b.st;
  if (mx_rank(c, x) != 2) return tn_ox_bad(c, "operand of rank %d", mx_rank(c, x));
  if (samples < 0) return tn_ox_bad(c, "sample_size is %lld", (long long)samples);
  tn_dtype t = result_type(c, 6, false);
  if (mx_ok(c) && t != TN_I32 && t != TN_I64) return tn_ox_bad(c, "dtype %s", tn_dtype_name(t));
  d[0] = tn_b_dim(B, x, 0);
  d[1] = samples;
  d[2] = tn_b_dim(B, x, 1);
  tn_ref u = tn_b_addn(B, uniform(c, d, 3, mx_dtype(c, x), entropy_of(c), 0), 0x1p-25);      /* never 0 */
  tn_ref g = mx_1(c, TN_OP_LOG, mx_1(c, TN_OP_NEG, mx_1(c, TN_OP_LOG, u)));
  return mx_ret_as(c, 0, tn_b_reduce1(B, TN_C_ARGMAX, mx_sub(c, tn_b_unsq(B, x, 1), g), 2, false), t);
}

/* Opset 1, 6: attribute is_test; 7, 10: never active; from 12 on: operands ratio and training_mode. */
tn_status tn_ox_dropout(tn_ox *c) {
  tn_ref x = tn_ox_in(c, 0), ratio = {0}, on = {0}, keep;
  tn_dim d[TN_MAX_RANK];
  double v = 0, train = 0;
  if (!mx_ok(c)) return c->b.st;
  tn_dtype t = mx_dtype(c, x), w = tn_b_wide(t), mask = c->opset < 10 ? t : TN_BOOL;
  int n = tn_b_shape(B, x, d);
  if (c->opset >= 12) {
    if (tn_ox_has(c, 2)) {
      on = tn_ox_scalar(c, tn_ox_in(c, 2));
      if (tn_ox_scalar_const(c, 2, &train) && train == 0) on.id = 0;
    }
    if (on.id) ratio = tn_ox_has(c, 1) ? mx_cast(c, tn_ox_scalar(c, tn_ox_plain(c, tn_ox_in(c, 1))), w) : tn_b_num(B, 0.5, w);
    if (on.id && tn_ox_scalar_const(c, 1, &v) && v == 0) on.id = 0;
  } else if (c->opset < 7 && !tn_ox_int(c, "is_test", 0)) {
    on = tn_b_int(B, 1, TN_BOOL);
    ratio = tn_b_num(B, tn_ox_float(c, "ratio", 0.5), w);
  }
  if (!on.id) {
    tn_attr_val one = {.kind = TN_AT_INT};
    one.u.i = 1;
    if (c->n_out > 1 && c->wanted[1]) tn_ox_ret(c, 1, tn_b_full(B, d, n, &one, mask));
    return tn_ox_ret(c, 0, x);
  }
  ratio = mx_sel(c, on, ratio, tn_b_num(B, 0, w));
  keep = mx_2(c, TN_OP_GE, uniform(c, d, n, w, entropy_of(c), 0), ratio);
  tn_ref y = mx_div(c, mx_cast(c, x, w), mx_sub(c, tn_b_num(B, 1, w), ratio));
  if (c->n_out > 1) tn_ox_ret(c, 1, mx_cast(c, keep, mask));
  return mx_ret_as(c, 0, mx_sel(c, keep, y, tn_b_num(B, 0, w)), t);
}

/* onnx_qdot: integer products with constant weights on the byte units: prim qdot, u8 times i8, with the weight packed here, while importing.
 *
 * A zero point z of the operand costs a subtraction of z times the column sums of the weight; i8 operands are moved by 128, u8 weights around 128 are i8 weights.
 * Weights with other zero points are left to the callers' other ways (onnx_quant.c). MatMul of two dequantised operands is the same product times both scales: the
 * quantised forms that DequantizeLinear's rows were made of are found by looking at the prims behind the operands. */
#include "ops/onnx_math_int.h"

enum { COLS = 16, GROUP = 4, WORTH = 4096, MAX_K = 65536 }; /* 255 * 128 * MAX_K stays below 2^31 */

static bool is_bytes(tn_ox *c, tn_ref r) {
  int e = tn_ox_elem(c, r);
  return e == 2 || e == 3;
}
static double at(const tn_tensor *t, int64_t i) {
  tn_dtype e = (tn_dtype)t->dtype;
  tn_num v = tn_num_load(e, (const char *)t->data + (size_t)i * tn_dtype_size(e));
  return tn_dtype_is_float(e) ? v.f : (double)v.i;
}
/* Is every element of the constant z this number? Left out: 0. */
static bool all_are(tn_ox *c, tn_ref z, double want) {
  tn_tensor t;
  if (!z.id) return want == 0;
  if (!tn_ox_data(c, z, &t)) return false;
  int64_t n = tn_type_numel(tn_typeof(c->b.g, z));
  for (int64_t i = 0; i < n; i++)
    if (at(&t, i) != want) return false;
  return true;
}

/* The weight as panels (kernels/qdot.c), and its column sums i32[N]. */
static bool pack(tn_ox *c, const tn_tensor *w, int64_t K, int64_t N, tn_ref *packed, tn_ref *sums) {
  int64_t panels = (N + COLS - 1) / COLS, groups = (K + GROUP - 1) / GROUP;
  size_t bytes = (size_t)(panels * groups) * COLS * GROUP;
  int8_t *p = tn_calloc(bytes, 1);
  int32_t *s = tn_calloc((size_t)N, sizeof *s);
  tn_dim d[4] = {panels, groups, COLS, GROUP};
  if (!p || !s) {
    c->b.st = tn_fail(c->b.d, TN_E_NOMEM, "packed weight of %zu bytes", bytes);
  } else {
    const uint8_t *from = w->data;
    uint8_t flip = w->dtype == TN_U8 ? 0x80 : 0;
    for (int64_t k = 0; k < K; k++)
      for (int64_t n = 0; n < N; n++) {
        int8_t v = (int8_t)(from[k * N + n] ^ flip);
        p[((n / COLS * groups + k / GROUP) * COLS + n % COLS) * GROUP + k % GROUP] = v;
        s[n] += v;
      }
    c->b.st = tn_graph_add_const(c->b.g, tn_type_make(c->b.g, TN_I8, 4, d), p, bytes, c->b.prov, packed);
    if (mx_ok(c)) c->b.st = tn_graph_add_const(c->b.g, tn_type_make(c->b.g, TN_I32, 1, &N), s, (size_t)N * sizeof *s, c->b.prov, sums);
  }
  tn_free(p);
  tn_free(s);
  return mx_ok(c);
}

bool tn_ox_byte_matmul(tn_ox *c, tn_ref x, tn_ref zx, tn_ref w, tn_ref zw, tn_ref *out) {
  tn_decomp_ctx *b = &c->b;
  tn_tensor t;
  tn_ref packed = {0}, sums = {0};
  if (!mx_ok(c) || !is_bytes(c, x) || !is_bytes(c, w) || mx_rank(c, w) != 2 || mx_rank(c, x) < 1) return false;
  tn_dim K = tn_b_dim(b, w, 0), N = tn_b_dim(b, w, 1), same;
  if (!tn_dim_is_const(K) || !tn_dim_is_const(N) || K < COLS || N < COLS || K > MAX_K || N > INT32_MAX || K * N < WORTH) return false;
  tn_dim d[TN_MAX_RANK];
  int rank = tn_b_shape(b, x, d);
  if (d[rank - 1] != K) {                            /* a size that is not known yet is the weight's */
    if (!tn_b_agree(d[rank - 1], K, &same)) return false;
    d[rank - 1] = K;
  }
  if (!all_are(c, zw, mx_dtype(c, w) == TN_U8 ? 128 : 0) || !tn_ox_data(c, w, &t)) return false;
  if (!pack(c, &t, K, N, &packed, &sums)) return true;
  x = tn_b_reshape(b, x, d, rank);
  if (mx_dtype(c, x) == TN_I8) {
    x = mx_cast(c, mx_2(c, TN_OP_XOR, x, tn_b_int(b, -128, TN_I8)), TN_U8);
    zx = zx.id ? mx_add(c, zx, tn_b_int(b, 128, TN_I32)) : tn_b_int(b, 128, TN_I32);
  }
  tn_ref in[2] = {x, packed};
  tn_attr size = tn_mk_dims(b->g, "size", &N, 1);
  tn_ref y = tn_b_op(b, TN_OP_QDOT, in, 2, &size, 1);
  *out = zx.id ? mx_sub(c, y, mx_mul(c, zx, sums)) : y;
  return true;
}

/* r = (q - z) * s as tn_ox_dequantize_linear writes it; z 0: none. */
static bool dequantised(tn_ox *c, tn_ref r, tn_ref *q, tn_ref *z, tn_ref *s) {
  tn_graph *g = c->b.g;
  const tn_node *n = tn_def(g, r);
  z->id = 0;
  if (n->op != TN_OP_MUL) return false;
  *s = n->in[1];
  n = tn_def(g, n->in[0]);
  if (n->op == TN_OP_SUB) {
    *z = n->in[1];
    n = tn_def(g, n->in[0]);
  }
  if (n->op != TN_OP_CAST || mx_dtype(c, *s) != TN_F32 || tn_typeof(g, tn_out(n, 0))->dtype != TN_F32) return false;
  *q = n->in[0];
  return is_bytes(c, *q);
}
bool tn_ox_dequantised_matmul(tn_ox *c, tn_ref a, tn_ref b, tn_ref *out) {
  tn_ref qa, za, sa, qb, zb, sb, acc;
  tn_tensor t;
  if (!mx_ok(c) || mx_dtype(c, a) != TN_F32 || !dequantised(c, a, &qa, &za, &sa) || !dequantised(c, b, &qb, &zb, &sb)) return false;
  bool columns = mx_rank(c, sb) == 2 && tn_b_dim(&c->b, sb, 0) == 1;
  if (mx_rank(c, sa) != 0 || (mx_rank(c, sb) != 0 && !columns)) return false;
  if (za.id) {
    if (mx_rank(c, za) != 0 || !tn_ox_data(c, za, &t)) return false;
    double v = at(&t, 0);
    za = v == 0 ? (tn_ref){0} : tn_b_int(&c->b, (int64_t)v, TN_I32);
  }
  if (!tn_ox_byte_matmul(c, qa, za, qb, zb, &acc)) return false;
  if (columns && mx_ok(c)) sb = tn_b_sq(&c->b, sb, 0);
  *out = mx_mul(c, mx_cast(c, acc, TN_F32), mx_mul(c, sa, sb));
  return true;
}

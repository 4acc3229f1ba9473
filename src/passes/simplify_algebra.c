/* simplify_algebra: rules on arithmetic, logic, casts and copies. Exact for every value including NaN and infinities, with the one
 * exception that rules.def names. So there is no x * 0 = 0, no x - x = 0 and no x / x = 1 here. */
#include "passes/simplify_int.h"
#include <math.h>

static tn_ref in(tn_sx *s, uint32_t id, uint32_t k) { return tn_sx_in(s, id, k); }
static bool is_fill(tn_sx *s, tn_ref r, double v) { return tn_px_fill_is(s->g, r, v); }
static tn_ref other_of_fill(tn_sx *s, uint32_t id, double v) {
  tn_ref a = in(s, id, 0), b = in(s, id, 1);
  return is_fill(s, b, v) ? a : is_fill(s, a, v) ? b : tn_sx_none();
}
static tn_ref stretched(tn_sx *s, uint32_t id, tn_ref x) { return x.id ? tn_sx_as_out(s, id, x) : x; }
static tn_ref arg_of(tn_sx *s, tn_ref r, tn_op op) { /* operand 0 of r when r is made by op */
  return tn_px_op(s->g, r) == op ? tn_px_in(s->g, tn_px_def(s->g, r), 0) : tn_sx_none();
}

/* ---- arithmetic ---- */
tn_ref tn_rule_add_zero(tn_sx *s, uint32_t id) { return stretched(s, id, other_of_fill(s, id, 0)); }
tn_ref tn_rule_mul_one(tn_sx *s, uint32_t id) { return stretched(s, id, other_of_fill(s, id, 1)); }
tn_ref tn_rule_mul_minus(tn_sx *s, uint32_t id) {
  tn_ref x = other_of_fill(s, id, -1);
  return x.id ? stretched(s, id, tn_px_1(&s->b, TN_OP_NEG, x)) : x;
}
static tn_ref right_is(tn_sx *s, uint32_t id, double v) { return is_fill(s, in(s, id, 1), v) ? tn_sx_as_out(s, id, in(s, id, 0)) : tn_sx_none(); }
tn_ref tn_rule_sub_zero(tn_sx *s, uint32_t id) { return right_is(s, id, 0); }
tn_ref tn_rule_div_one(tn_sx *s, uint32_t id) { return right_is(s, id, 1); }
tn_ref tn_rule_intdiv_one(tn_sx *s, uint32_t id) { return tn_sx_float(s, in(s, id, 0)) ? tn_sx_none() : right_is(s, id, 1); }

tn_ref tn_rule_div_power(tn_sx *s, uint32_t id) {
  tn_num c;
  tn_ref b = in(s, id, 1);
  const tn_type t = *tn_typeof(s->g, b);
  int e;
  if (!tn_px_fill(s->g, b, &c) || !isfinite(c.f) || c.f == 0 || fabs(frexp(c.f, &e)) != 0.5) return tn_sx_none();
  if (e > 14 || e < -13) return tn_sx_none(); /* the inverse stays a normal number in every float type */
  tn_num inv = {.f = 1 / c.f};
  return tn_px_2(&s->b, TN_OP_MUL, in(s, id, 0), tn_px_fill_of(&s->b, (tn_dtype)t.dtype, t.rank, t.dim, inv));
}
tn_ref tn_rule_one_over(tn_sx *s, uint32_t id) {
  if (!is_fill(s, in(s, id, 0), 1)) return tn_sx_none();
  return tn_sx_as_out(s, id, tn_px_1(&s->b, TN_OP_RECIPROCAL, in(s, id, 1)));
}
tn_ref tn_rule_neg_neg(tn_sx *s, uint32_t id) { return arg_of(s, in(s, id, 0), TN_OP_NEG); }
tn_ref tn_rule_not_not(tn_sx *s, uint32_t id) { return arg_of(s, in(s, id, 0), TN_OP_NOT); }
tn_ref tn_rule_not_compare(tn_sx *s, uint32_t id) {
  static const tn_op opposite[] = {TN_OP_NE, TN_OP_EQ, TN_OP_GE, TN_OP_GT, TN_OP_LE, TN_OP_LT}; /* of eq ne lt le gt ge */
  tn_ref c = in(s, id, 0);
  tn_op op = tn_px_op(s->g, c);
  if (op < TN_OP_EQ || op > TN_OP_GE) return tn_sx_none();
  uint32_t m = tn_px_def(s->g, c);
  tn_ref a = tn_px_in(s->g, m, 0), b = tn_px_in(s->g, m, 1);
  if (op >= TN_OP_LT && tn_sx_float(s, a)) return tn_sx_none(); /* NaN is neither below nor above */
  if (tn_sx_uses(s, c) > 1) return tn_sx_none();
  return tn_px_2(&s->b, opposite[op - TN_OP_EQ], a, b);
}
tn_ref tn_rule_add_neg(tn_sx *s, uint32_t id) {
  tn_ref a = in(s, id, 0), b = in(s, id, 1), na = arg_of(s, a, TN_OP_NEG), nb = arg_of(s, b, TN_OP_NEG);
  if (nb.id) return tn_px_2(&s->b, TN_OP_SUB, a, nb);
  return na.id ? tn_px_2(&s->b, TN_OP_SUB, b, na) : tn_sx_none();
}
tn_ref tn_rule_sub_neg(tn_sx *s, uint32_t id) {
  tn_ref nb = arg_of(s, in(s, id, 1), TN_OP_NEG);
  return nb.id ? tn_px_2(&s->b, TN_OP_ADD, in(s, id, 0), nb) : nb;
}
tn_ref tn_rule_int_add_const(tn_sx *s, uint32_t id) {
  tn_num c, d;
  tn_ref x = in(s, id, 0), y = in(s, id, 1);
  if (tn_sx_float(s, x)) return tn_sx_none();
  if (tn_px_fill(s->g, x, &c)) { tn_ref t = x; x = y; y = t; }
  if (!tn_px_fill(s->g, y, &d) || tn_px_op(s->g, x) != TN_OP_ADD) return tn_sx_none();
  uint32_t m = tn_px_def(s->g, x);
  tn_ref p = tn_px_in(s->g, m, 0), q = tn_px_in(s->g, m, 1);
  if (tn_px_fill(s->g, p, &c)) { tn_ref t = p; p = q; q = t; }
  if (!tn_px_fill(s->g, q, &c)) return tn_sx_none();
  tn_num args[2] = {c, d};
  tn_dtype t = (tn_dtype)tn_typeof(s->g, p)->dtype;
  tn_ref sum = tn_px_fill_of(&s->b, t, 0, NULL, tn_scalar_eval(TN_S_ADD, t, args));
  return tn_sx_as_out(s, id, tn_px_2(&s->b, TN_OP_ADD, p, sum));
}

tn_ref tn_rule_pow_const(tn_sx *s, uint32_t id) {
  tn_ref x = in(s, id, 0), y = tn_sx_none();
  tn_num c;
  if (!tn_px_fill(s->g, in(s, id, 1), &c)) return y;
  bool is_float = tn_sx_float(s, x);
  double e = is_float ? c.f : (double)c.i;
  if (e == 0) return tn_sx_fill_out(s, id, 1);
  if (e == 1) y = x;
  else if (e == 2) y = tn_px_2(&s->b, TN_OP_MUL, x, x);
  else if (e == 3) y = tn_px_2(&s->b, TN_OP_MUL, tn_px_2(&s->b, TN_OP_MUL, x, x), x);
  else if (is_float && e == 0.5) y = tn_px_1(&s->b, TN_OP_SQRT, x);
  else if (is_float && e == -0.5) y = tn_px_1(&s->b, TN_OP_RSQRT, x);
  else if (is_float && e == -1) y = tn_px_1(&s->b, TN_OP_RECIPROCAL, x);
  return stretched(s, id, y);
}

tn_ref tn_rule_idempotent(tn_sx *s, uint32_t id) {
  tn_op op = s->g->node[id].op;
  switch (op) {
  case TN_OP_ABS: case TN_OP_SIGN: case TN_OP_CEIL: case TN_OP_FLOOR: case TN_OP_ROUND: case TN_OP_TRUNC: case TN_OP_RELU: break;
  default: return tn_sx_none();
  }
  tn_ref x = in(s, id, 0);
  tn_op inner = tn_px_op(s->g, x);
  if (inner == op) return x;
  if (op == TN_OP_ABS && inner == TN_OP_NEG) return tn_px_1(&s->b, TN_OP_ABS, arg_of(s, x, TN_OP_NEG));
  bool whole = inner == TN_OP_CEIL || inner == TN_OP_FLOOR || inner == TN_OP_ROUND || inner == TN_OP_TRUNC;
  bool rounds = op == TN_OP_CEIL || op == TN_OP_FLOOR || op == TN_OP_ROUND || op == TN_OP_TRUNC;
  return whole && rounds ? x : tn_sx_none();
}

/* Bound: -inf for max, inf for min; integers have none here. NaN goes through both ways. */
static tn_ref same_bound(tn_sx *s, uint32_t id, double bound) {
  tn_ref a = in(s, id, 0), b = in(s, id, 1);
  if (a.id == b.id) return a;
  return tn_sx_float(s, a) ? stretched(s, id, other_of_fill(s, id, bound)) : tn_sx_none();
}
tn_ref tn_rule_same_max(tn_sx *s, uint32_t id) { return same_bound(s, id, -INFINITY); }
tn_ref tn_rule_same_min(tn_sx *s, uint32_t id) { return same_bound(s, id, INFINITY); }

/* ---- choices and logic ---- */
tn_ref tn_rule_select_const(tn_sx *s, uint32_t id) {
  tn_num c;
  tn_ref a = in(s, id, 1), b = in(s, id, 2);
  if (tn_px_fill(s->g, in(s, id, 0), &c)) return tn_sx_as_out(s, id, c.i ? a : b);
  return a.id == b.id ? tn_sx_as_out(s, id, a) : tn_sx_none();
}
tn_ref tn_rule_select_not(tn_sx *s, uint32_t id) {
  tn_ref c = arg_of(s, in(s, id, 0), TN_OP_NOT);
  if (!c.id) return c;
  tn_ref args[3] = {c, in(s, id, 2), in(s, id, 1)};
  return tn_px_add(&s->b, TN_OP_SELECT, args, 3, NULL, 0);
}
tn_ref tn_rule_logic_const(tn_sx *s, uint32_t id) {
  tn_op op = s->g->node[id].op;
  tn_ref a = in(s, id, 0), b = in(s, id, 1);
  if (a.id == b.id && op != TN_OP_XOR) return a;
  bool is_bool = tn_typeof(s->g, a)->dtype == TN_BOOL;
  double all = is_bool ? 1 : -1;
  tn_ref with_all = other_of_fill(s, id, all), with_none = other_of_fill(s, id, 0);
  if (op == TN_OP_AND && with_none.id) return tn_sx_fill_out(s, id, 0);
  if (op == TN_OP_AND) return stretched(s, id, with_all);
  if (with_none.id) return stretched(s, id, with_none);
  if (!with_all.id) return with_all;
  if (op == TN_OP_OR) return tn_sx_fill_out(s, id, all);
  return stretched(s, id, tn_px_1(&s->b, TN_OP_NOT, with_all));
}
tn_ref tn_rule_bool_compare(tn_sx *s, uint32_t id) {
  tn_op op = s->g->node[id].op;
  if (tn_typeof(s->g, in(s, id, 0))->dtype != TN_BOOL || (op != TN_OP_EQ && op != TN_OP_NE)) return tn_sx_none();
  tn_ref with_true = other_of_fill(s, id, 1), with_false = other_of_fill(s, id, 0);
  if (!with_true.id && !with_false.id) return tn_sx_none();
  bool keep = (op == TN_OP_EQ) == (with_true.id != 0);
  tn_ref x = with_true.id ? with_true : with_false;
  return stretched(s, id, keep ? x : tn_px_1(&s->b, TN_OP_NOT, x));
}

/* Bounds of an integer iota seen through views; false when r is none. */
static bool iota_bounds(tn_sx *s, tn_ref r, int64_t *lo, int64_t *hi) {
  while (tn_px_is_view(tn_px_op(s->g, r))) r = tn_px_in(s->g, tn_px_def(s->g, r), 0);
  const tn_node *n = &s->g->node[tn_px_def(s->g, r)];
  const tn_type *t = tn_typeof(s->g, r);
  if (n->op != TN_OP_IOTA || (t->dtype != TN_I64 && t->dtype != TN_I32)) return false;
  const tn_attr_val *start = tn_attr_get(n, "start"), *step = tn_attr_get(n, "step");
  if (!start || !step || (start->kind == TN_AT_DIM && !tn_dim_is_const(start->u.d)) || start->kind == TN_AT_FLOAT || step->kind == TN_AT_FLOAT) return false;
  int64_t a = tn_attr_int(n, "start", 0), d = tn_attr_int(n, "step", 0), n_lo, n_hi;
  tn_dim_bounds(s->g->dims, t->dim[0], &n_lo, &n_hi);
  if (d != 1 || a < INT32_MIN || a > INT32_MAX) return false;
  *lo = a;
  *hi = n_hi > INT32_MAX ? INT64_MAX : a + (n_hi > 0 ? n_hi - 1 : 0);
  return true;
}
tn_ref tn_rule_iota_bound(tn_sx *s, uint32_t id) {
  tn_op op = s->g->node[id].op;
  tn_num c;
  int64_t lo, hi;
  tn_ref a = in(s, id, 0), b = in(s, id, 1);
  if (tn_sx_float(s, a)) return tn_sx_none();
  if (tn_px_fill(s->g, a, &c)) { /* c < x is x > c */
    static const tn_op turned[] = {TN_OP_EQ, TN_OP_NE, TN_OP_GT, TN_OP_GE, TN_OP_LT, TN_OP_LE};
    op = turned[op - TN_OP_EQ];
    a = b;
  } else if (!tn_px_fill(s->g, b, &c)) return tn_sx_none();
  if (!iota_bounds(s, a, &lo, &hi)) return tn_sx_none();
  int known = -1;
  switch (op) {
  case TN_OP_LT: known = hi < c.i ? 1 : lo >= c.i ? 0 : -1; break;
  case TN_OP_LE: known = hi <= c.i ? 1 : lo > c.i ? 0 : -1; break;
  case TN_OP_GT: known = lo > c.i ? 1 : hi <= c.i ? 0 : -1; break;
  case TN_OP_GE: known = lo >= c.i ? 1 : hi < c.i ? 0 : -1; break;
  case TN_OP_EQ: known = c.i < lo || c.i > hi ? 0 : -1; break;
  case TN_OP_NE: known = c.i < lo || c.i > hi ? 1 : -1; break;
  default: break;
  }
  return known < 0 ? tn_sx_none() : tn_sx_fill_out(s, id, known);
}

/* ---- casts and copies ---- */

/* Every value of `from` is one of `to`. */
static bool widens(tn_dtype from, tn_dtype to) {
  static const uint8_t bits[TN_N_DTYPES] = {[TN_F32] = 24, [TN_F64] = 53, [TN_F16] = 11, [TN_BF16] = 8, [TN_I64] = 63, [TN_I32] = 31,
                                            [TN_I16] = 15, [TN_I8] = 7, [TN_U8] = 8, [TN_BOOL] = 1,
                                            [TN_U16] = 16, [TN_U32] = 32, [TN_U64] = 64};
  if (from == to || from == TN_BOOL) return true;
  if (tn_dtype_is_float(from)) return to == TN_F64 || (to == TN_F32 && from != TN_F64);
  if (tn_dtype_is_float(to)) return bits[from] <= bits[to] && to != TN_F16 && to != TN_BF16;
  if (!tn_dtype_is_int(to)) return false;
  return bits[from] < bits[to] && (tn_dtype_is_unsigned(from) || !tn_dtype_is_unsigned(to));
}
tn_ref tn_rule_cast_same(tn_sx *s, uint32_t id) {
  tn_ref x = in(s, id, 0);
  return tn_typeof(s->g, x)->dtype == tn_sx_out(s, id)->dtype ? x : tn_sx_none();
}
tn_ref tn_rule_cast_cast(tn_sx *s, uint32_t id) {
  tn_ref mid = in(s, id, 0), x = arg_of(s, mid, TN_OP_CAST);
  if (!x.id || !widens((tn_dtype)tn_typeof(s->g, x)->dtype, (tn_dtype)tn_typeof(s->g, mid)->dtype)) return tn_sx_none();
  tn_dtype to = (tn_dtype)tn_sx_out(s, id)->dtype;
  if (tn_typeof(s->g, x)->dtype == to) return x;
  tn_attr at = tn_mk_dtype("dtype", to);
  return tn_px_add(&s->b, TN_OP_CAST, &x, 1, &at, 1);
}
/* The caller may write into a result, so a copy that is one keeps its own memory. */
tn_ref tn_rule_copy_drop(tn_sx *s, uint32_t id) {
  uint32_t v = tn_out(&s->g->node[id], 0).id;
  if (v >= s->n_uses || s->kept[v]) return tn_sx_none();
  return in(s, id, 0);
}

/* onnx_gradient: ai.onnx.preview.training.Gradient, by reverse differentiation of the prims between the values that attribute `xs` names and the one that
 * `y` names. Values of the graph have rising numbers in program order, so one walk downwards from y sees every reader before what it reads.
 *
 * The gradient is that of the sum of y's elements. The operands must be the very values that xs (and zs) name: feeding others at the same place is refused.
 * A prim without a rule here is refused by name. */
#include "ops/onnx_math_int.h"

#define B (&c->b)
#define G (c->b.g)

typedef struct tape {
  uint32_t *grad; uint32_t n;          /* [values at the start] gradient so far, 0 = none */
  bool *depends;                       /* [n] on one of xs */
} tape;

/* g summed over what broadcasting had stretched: of the shape of `like`. */
static tn_ref unstretch(tn_ox *c, tn_ref g, tn_ref like) {
  tn_dim d[TN_MAX_RANK];
  int ax[TN_MAX_RANK], n = 0;
  if (!mx_ok(c)) return g;
  int rank = mx_rank(c, g), rl = tn_b_shape(B, like, d);
  for (int i = 0; i < rank; i++)
    if (i < rank - rl || (d[i - (rank - rl)] == 1 && tn_b_dim(B, g, i) != 1)) ax[n++] = i;
  return tn_b_reshape(B, tn_b_reduce(B, TN_C_SUM, g, ax, n, true), d, rl);
}
static void add_to(tn_ox *c, tape *t, tn_ref x, tn_ref g) {
  if (!mx_ok(c) || x.id >= t->n || !t->depends[x.id] || !tn_dtype_is_float(mx_dtype(c, x))) return;
  g = unstretch(c, mx_cast(c, g, mx_dtype(c, x)), x);
  t->grad[x.id] = t->grad[x.id] ? mx_add(c, (tn_ref){t->grad[x.id]}, g).id : g.id;
}

/* ---- rules: y = op(a, b), g = d/dy ---- */
static tn_ref num(tn_ox *c, tn_ref like, double v) { return mx_num(c, like, v); }
static tn_ref square(tn_ox *c, tn_ref x) { return mx_mul(c, x, x); }

/* dy/da of the functions of one operand; id 0: no rule. */
static tn_ref slope(tn_ox *c, tn_op op, tn_ref a, tn_ref y) {
  tn_ref one = num(c, a, 1);
  switch ((int)op) {
  case TN_OP_NEG: return num(c, a, -1);
  case TN_OP_ABS: return mx_1(c, TN_OP_SIGN, a);
  case TN_OP_CEIL: case TN_OP_FLOOR: case TN_OP_ROUND: case TN_OP_TRUNC: case TN_OP_SIGN: return num(c, a, 0);
  case TN_OP_SQRT: return mx_div(c, num(c, a, 0.5), y);
  case TN_OP_RECIPROCAL: return mx_1(c, TN_OP_NEG, square(c, y));
  case TN_OP_EXP: return y;
  case TN_OP_EXPM1: return mx_add(c, y, one);
  case TN_OP_LOG: return mx_1(c, TN_OP_RECIPROCAL, a);
  case TN_OP_LOG1P: return mx_1(c, TN_OP_RECIPROCAL, mx_add(c, a, one));
  case TN_OP_SIN: return mx_1(c, TN_OP_COS, a);
  case TN_OP_COS: return mx_1(c, TN_OP_NEG, mx_1(c, TN_OP_SIN, a));
  case TN_OP_TANH: return mx_sub(c, one, square(c, y));
  case TN_OP_SIGMOID: return mx_mul(c, y, mx_sub(c, one, y));
  case TN_OP_ERF: return tn_b_muln(B, mx_1(c, TN_OP_EXP, mx_1(c, TN_OP_NEG, square(c, a))), 1.12837916709551257390);
  case TN_OP_RELU: return mx_cast(c, mx_2n(c, TN_OP_GT, a, 0), mx_dtype(c, a));
  default: return (tn_ref){0};
  }
}
static void pick(tn_ox *c, tape *t, tn_ref a, tn_ref b, tn_ref is_a, tn_ref g) {
  add_to(c, t, a, mx_sel(c, is_a, g, num(c, g, 0)));
  add_to(c, t, b, mx_sel(c, is_a, num(c, g, 0), g));
}
static bool two(tn_ox *c, tape *t, tn_op op, tn_ref a, tn_ref b, tn_ref y, tn_ref g) {
  switch ((int)op) {
  case TN_OP_ADD: add_to(c, t, a, g); add_to(c, t, b, g); return true;
  case TN_OP_SUB: add_to(c, t, a, g); add_to(c, t, b, mx_1(c, TN_OP_NEG, g)); return true;
  case TN_OP_MUL: add_to(c, t, a, mx_mul(c, g, b)); add_to(c, t, b, mx_mul(c, g, a)); return true;
  case TN_OP_DIV: add_to(c, t, a, mx_div(c, g, b)); add_to(c, t, b, mx_1(c, TN_OP_NEG, mx_div(c, mx_mul(c, g, y), b))); return true;
  case TN_OP_POW:
    add_to(c, t, a, mx_mul(c, g, mx_mul(c, b, mx_2(c, TN_OP_POW, a, mx_sub(c, b, num(c, b, 1))))));
    add_to(c, t, b, mx_mul(c, g, mx_mul(c, y, mx_1(c, TN_OP_LOG, a))));
    return true;
  case TN_OP_MAX: pick(c, t, a, b, mx_2(c, TN_OP_GE, a, b), g); return true;
  case TN_OP_MIN: pick(c, t, a, b, mx_2(c, TN_OP_LE, a, b), g); return true;
  default: return false;
  }
}

/* "ik,kj->ij": d/da is the contraction of g with b; a letter that stands in a alone was summed and is stretched again. */
static void contract_side(tn_ox *c, tape *t, const char *la, const char *lb, const char *lo, tn_ref a, tn_ref b, tn_ref g) {
  char labels[3 * TN_MAX_RANK + 8], have[TN_MAX_RANK + 1] = "";
  tn_dim d[TN_MAX_RANK];
  int n = 0;
  for (const char *p = la; *p; p++)
    if (strchr(lb, *p) || strchr(lo, *p)) have[n++] = *p;
  have[n] = 0;
  snprintf(labels, sizeof labels, "%s,%s->%s", lo, lb, have);
  g = tn_b_contract(B, labels, g, b);
  for (int i = 0; la[i]; i++)
    if (!strchr(have, la[i])) g = tn_b_unsq(B, g, i);
  int rank = tn_b_shape(B, a, d);
  add_to(c, t, a, tn_b_broadcast(B, g, d, rank));
}
static bool contraction(tn_ox *c, tape *t, const char *labels, tn_ref a, tn_ref b, tn_ref g) {
  char l[3][TN_MAX_RANK + 1] = {"", "", ""};
  if (sscanf(labels, "%12[A-Za-z],%12[A-Za-z]->%12[A-Za-z]", l[0], l[1], l[2]) < 2) return false;
  contract_side(c, t, l[0], l[1], l[2], a, b, g);
  contract_side(c, t, l[1], l[0], l[2], b, a, g);
  return true;
}

/* One node; false: no rule. */
static bool back(tn_ox *c, tape *t, uint32_t id, tn_ref y, tn_ref g) {
  tn_node n = G->node[id];                           /* a copy: building moves the nodes */
  tn_ref a = n.n_in ? n.in[0] : (tn_ref){0}, b = n.n_in > 1 ? n.in[1] : (tn_ref){0};
  tn_dim d[TN_MAX_RANK], v[TN_MAX_RANK];
  int perm[TN_MAX_RANK], rank = n.n_in ? tn_b_shape(B, a, d) : 0;
  if (tn_op_is_scalar(n.op) && n.n_in == 1) {
    tn_ref s = slope(c, n.op, a, y);
    add_to(c, t, a, s.id ? mx_mul(c, g, s) : g);
    return s.id != 0;
  }
  if (tn_op_is_scalar(n.op) && n.n_in == 2) return two(c, t, n.op, a, b, y, g);
  switch ((int)n.op) {
  case TN_OP_SELECT: pick(c, t, b, n.in[2], a, g); return true;
  case TN_OP_CAST: case TN_OP_COPY: case TN_OP_BROADCAST: add_to(c, t, a, g); return true;
  case TN_OP_RESHAPE: add_to(c, t, a, tn_b_reshape(B, g, d, rank)); return true;
  case TN_OP_PERMUTE:
    if (tn_attr_dims(&n, "perm", v, TN_MAX_RANK) != rank) return false;
    for (int i = 0; i < rank; i++) perm[v[i]] = i;
    add_to(c, t, a, tn_b_permute(B, g, perm));
    return true;
  case TN_OP_REDUCE: {
    int k = tn_attr_dims(&n, "dims", v, TN_MAX_RANK);
    if (k < 0 || strcmp(tn_attr_str(&n, "combiner", ""), "sum")) return false;
    bool gone[TN_MAX_RANK] = {false};
    for (int i = 0; i < k; i++) gone[v[i]] = true;
    for (int i = 0; i < rank && !tn_attr_bool(&n, "keepdim", false); i++)
      if (gone[i]) g = tn_b_unsq(B, g, i);
    add_to(c, t, a, tn_b_broadcast(B, g, d, rank));
    return true;
  }
  case TN_OP_CONTRACT: return contraction(c, t, tn_attr_str(&n, "labels", ""), a, b, g);
  default: return false;
  }
}

/* What depends on one of xs, for all values so far. */
static bool begin(tn_ox *c, tape *t, const tn_ref *x, uint32_t n_x) {
  t->n = G->n_values;
  t->grad = TN_NEW(G->arena, uint32_t, t->n);
  t->depends = TN_NEW(G->arena, bool, t->n);
  if (!t->grad || !t->depends) { c->b.st = tn_fail(c->b.d, TN_E_NOMEM, "Gradient: %u values", t->n); return false; }
  for (uint32_t k = 0; k < n_x; k++) t->depends[x[k].id] = true;
  for (uint32_t id = 1; id < G->n_nodes; id++) {
    const tn_node *n = &G->node[id];
    bool any = false;
    for (uint32_t k = 0; k < n->n_in; k++) any = any || t->depends[n->in[k].id];
    for (uint32_t k = 0; any && k < n->n_out; k++) t->depends[n->out + k] = true;
  }
  return true;
}

tn_status tn_ox_gradient(tn_ox *c) {
  const tn_ox_attr *xs = tn_ox_attr_get(c, "xs");
  const char *y_name = tn_ox_str_attr(c, "y", NULL);
  tn_ref y = {0};
  tape t;
  if (!mx_ok(c)) return c->b.st;
  if (!xs || xs->kind != TN_OX_STRS || !y_name) return tn_ox_bad(c, "attributes xs and y are missing");
  if (xs->n > c->n_in) return tn_ox_bad(c, "%u variables, %u operands", xs->n, c->n_in);
  if (!c->e->named) return tn_ox_unsup(c, "values cannot be found by name here");
  for (uint32_t k = 0; k < xs->n; k++) {
    tn_ref v = tn_ox_in(c, k), named = {0};
    if (mx_ok(c)) c->b.st = c->e->named(c->e, c->b.d, xs->u.s[k].s, &named);
    if (mx_ok(c) && named.id != v.id) return tn_ox_unsup(c, "operand %u is not the value '%.60s'", k, xs->u.s[k].s);
  }
  if (mx_ok(c)) c->b.st = c->e->named(c->e, c->b.d, y_name, &y);
  if (!mx_ok(c) || !begin(c, &t, c->in, xs->n)) return c->b.st;
  if (!tn_dtype_is_float(mx_dtype(c, y))) return tn_ox_bad(c, "'%.60s' is %s", y_name, tn_dtype_name(mx_dtype(c, y)));
  tn_dim d[TN_MAX_RANK];
  int rank = tn_b_shape(B, y, d);
  tn_attr_val one = {.kind = TN_AT_FLOAT};
  one.u.f = 1;
  t.grad[y.id] = tn_b_full(B, d, rank, &one, mx_dtype(c, y)).id;
  for (uint32_t id = y.id; id > 0 && mx_ok(c); id--) {
    bool is_x = false;
    for (uint32_t k = 0; k < xs->n; k++) is_x = is_x || c->in[k].id == id;
    uint32_t node = G->value[id].node;
    if (!t.grad[id] || !t.depends[id] || is_x || G->node[node].op == TN_OP_INPUT) continue;
    if (!back(c, &t, node, (tn_ref){id}, (tn_ref){t.grad[id]}) && mx_ok(c)) return tn_ox_unsup(c, "no derivative of %s", tn_op_name(G->node[node].op));
  }
  for (uint32_t k = 0; k < xs->n && mx_ok(c); k++) {
    rank = tn_b_shape(B, c->in[k], d);
    tn_ox_ret(c, k, t.grad[c->in[k].id] ? (tn_ref){t.grad[c->in[k].id]} : tn_b_zeros(B, d, rank, mx_dtype(c, c->in[k])));
  }
  return c->b.st;
}

/* simplify_rotate: rotary embeddings without their concat. The rotated operand concat(-x2, x1) is x with its two halves (or its even and
 * odd places) turned round and one sign changed. Said with a flip it is index arithmetic, so x * cos + rotated x * sin becomes one
 * kernel; the reshape back sinks to the end, where it is free. */
#include "passes/simplify_int.h"

static tn_ref in(tn_sx *s, uint32_t id, uint32_t k) { return tn_sx_in(s, id, k); }
static uint32_t def(tn_sx *s, tn_ref r) { return tn_px_def(s->g, r); }
static bool made_by(tn_sx *s, tn_ref r, tn_op op) { return tn_px_op(s->g, r) == op; }
static tn_ref src(tn_sx *s, tn_ref r) { return tn_px_in(s->g, def(s, r), 0); }

/* A half of x: start and step along dim; id 0 when r is none. */
static tn_ref half_of(tn_sx *s, tn_ref r, int64_t *dim, int64_t *start, int64_t *step) {
  if (!made_by(s, r, TN_OP_SLICE)) return tn_sx_none();
  const tn_node *n = &s->g->node[def(s, r)];
  tn_dim at, size;
  *dim = tn_attr_int(n, "dim", 0);
  *step = tn_attr_int(n, "step", 1);
  if (tn_attr_dims(n, "start", &at, 1) != 1 || tn_attr_dims(n, "size", &size, 1) != 1) return tn_sx_none();
  tn_ref x = src(s, r);
  tn_dim whole = tn_typeof(s->g, x)->dim[*dim];
  *start = at;
  return tn_dim_is_const(whole) && tn_dim_is_const(at) && size > 0 && whole == 2 * size ? x : tn_sx_none();
}
/* Strips a reshape that adds one last dim of 1 (a stack of two). */
static tn_ref unstacked(tn_sx *s, tn_ref r, bool *stacked) {
  const tn_type *t = tn_typeof(s->g, r);
  *stacked = false;
  if (!made_by(s, r, TN_OP_RESHAPE) || t->rank == 0 || t->dim[t->rank - 1] != 1) return r;
  const tn_type *f = tn_typeof(s->g, src(s, r));
  *stacked = tn_px_same_dims(f->rank, f->dim, t->rank - 1u, t->dim);
  return *stacked ? src(s, r) : r;
}

tn_ref tn_rule_rotate_half(tn_sx *s, uint32_t id) {
  if (s->g->node[id].n_in != 2 || !tn_sx_float(s, in(s, id, 0))) return tn_sx_none();
  bool stack_a, stack_b;
  tn_ref a = unstacked(s, in(s, id, 0), &stack_a), b = unstacked(s, in(s, id, 1), &stack_b);
  int64_t da, db, at_a, at_b, step_a, step_b, dim = tn_attr_int(&s->g->node[id], "dim", 0);
  if (stack_a != stack_b || !made_by(s, a, TN_OP_NEG)) return tn_sx_none();
  tn_ref x = half_of(s, src(s, a), &da, &at_a, &step_a), y = half_of(s, b, &db, &at_b, &step_b);
  if (!x.id || x.id != y.id || da != db || at_b != 0) return tn_sx_none();
  const tn_type t = *tn_typeof(s->g, x), out = *tn_sx_out(s, id);
  int64_t half = t.dim[da] / 2, last = (int64_t)t.rank - 1;
  bool halves = !stack_a && dim == da && step_a == 1 && step_b == 1 && at_a == half;
  bool places = stack_a && da == last && dim == last + 1 && step_a == 2 && step_b == 2 && at_a == 1;
  if ((!halves && !places) || t.rank + 1 > TN_MAX_RANK) return tn_sx_none();
  tn_dim split[TN_MAX_RANK], sign_dim[TN_MAX_RANK], two = 2, flip = halves ? da : da + 1;
  uint32_t n = 0, m = 0;
  for (int64_t i = 0; i < t.rank; i++) {
    if (i != da) { split[n++] = t.dim[i]; continue; }
    split[n++] = halves ? 2 : half;
    split[n++] = halves ? half : 2;
  }
  for (int64_t i = flip; i < (int64_t)n; i++) sign_dim[m++] = i == flip ? 2 : 1;
  tn_ref r = tn_px_reshape(&s->b, x, n, split);
  tn_attr fa = tn_mk_dims(s->g, "dims", &flip, 1);
  tn_attr ia[4] = {tn_mk_dims(s->g, "size", &two, 1), tn_mk_float("start", -1), tn_mk_float("step", 2), tn_mk_dtype("dtype", (tn_dtype)t.dtype)};
  r = tn_px_add(&s->b, TN_OP_FLIP, &r, 1, &fa, 1);
  tn_ref sign = tn_px_reshape(&s->b, tn_px_add(&s->b, TN_OP_IOTA, NULL, 0, ia, 4), m, sign_dim);
  r = tn_px_2(&s->b, TN_OP_MUL, r, sign);
  return r.id ? tn_px_reshape(&s->b, r, out.rank, out.dim) : r;
}

static bool turned_round(tn_sx *s, tn_ref r, int depth) {
  const tn_node *n = &s->g->node[def(s, r)];
  if (n->op == TN_OP_FLIP) return true;
  if (depth == 0 || !tn_px_is_pw(n->op)) return false;
  for (uint32_t k = 0; k < n->n_in; k++)
    if (turned_round(s, tn_graph_resolve(s->g, s->g->node[def(s, r)].in[k]), depth - 1)) return true;
  return false;
}
/* Operand o over `to`, spelled over `from`, whose dims start[j] .. start[j + 1] are dim j of `to`. */
static tn_ref respell(tn_sx *s, tn_ref o, const tn_type *from, const tn_type *to, const uint32_t *start) {
  const tn_type *t = tn_typeof(s->g, o);
  tn_dim dim[TN_MAX_RANK];
  uint32_t lead = (uint32_t)to->rank - t->rank, n = 0;
  for (uint32_t j = lead; j < to->rank; j++)
    for (uint32_t i = start[j]; i < start[j + 1]; i++) dim[n++] = t->dim[j - lead] == 1 && to->dim[j] != 1 ? 1 : from->dim[i];
  return tn_px_reshape(&s->b, o, n, dim);
}
tn_ref tn_rule_sink_merge(tn_sx *s, uint32_t id) {
  uint32_t n_in = s->g->node[id].n_in, start[TN_MAX_RANK + 1];
  tn_ref args[3];
  if (n_in == 0 || n_in > 3 || s->g->node[id].op == TN_OP_COPY) return tn_sx_none();
  for (uint32_t k = 0; k < n_in; k++) args[k] = in(s, id, k);
  for (uint32_t k = 0; k < n_in; k++) {
    if (!made_by(s, args[k], TN_OP_RESHAPE) || tn_sx_uses(s, args[k]) > 1 || !tn_px_same_shape(tn_typeof(s->g, args[k]), tn_sx_out(s, id))) continue;
    const tn_type from = *tn_typeof(s->g, src(s, args[k])), to = *tn_typeof(s->g, args[k]);
    if (from.rank <= to.rank || !turned_round(s, src(s, args[k]), 4) || !tn_sx_merges(s, &from, &to, start)) continue;
    for (uint32_t j = 0; j < n_in; j++)
      if (j != k) args[j] = respell(s, args[j], &from, &to, start);
    args[k] = src(s, args[k]);
    tn_ref y = tn_sx_rebuild(s, id, args);
    return y.id ? tn_px_reshape(&s->b, y, to.rank, to.dim) : y;
  }
  return tn_sx_none();
}

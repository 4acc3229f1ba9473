/* simplify_view: rules on views, concats, pads, and the sinking of views below eltwise nodes. Sinking brings arithmetic next to what
 * makes its operand, where it becomes an epilogue, and leaves views at the readers, where contracts absorb them and borders are free. */
#include "passes/simplify_int.h"
#include <string.h>

static tn_ref in(tn_sx *s, uint32_t id, uint32_t k) { return tn_sx_in(s, id, k); }
static uint32_t def(tn_sx *s, tn_ref r) { return tn_px_def(s->g, r); }
static bool made_by(tn_sx *s, tn_ref r, tn_op op) { return tn_px_op(s->g, r) == op; }
static tn_ref src(tn_sx *s, tn_ref r) { return tn_px_in(s->g, def(s, r), 0); }
static bool read_perm(const tn_node *n, int *perm) {
  tn_dim d[TN_MAX_RANK];
  int k = tn_attr_dims(n, "perm", d, TN_MAX_RANK);
  for (int i = 0; i < k; i++) perm[i] = (int)d[i];
  return k >= 0;
}
static tn_ref reshape_out(tn_sx *s, uint32_t id, tn_ref x) {
  const tn_type t = *tn_sx_out(s, id);
  return tn_px_reshape(&s->b, x, t.rank, t.dim);
}
static tn_ref same_shape_in(tn_sx *s, uint32_t id) {
  tn_ref x = in(s, id, 0);
  return tn_px_same_shape(tn_typeof(s->g, x), tn_sx_out(s, id)) ? x : tn_sx_none();
}

/* ---- reshape, permute, broadcast ---- */
tn_ref tn_rule_reshape_same(tn_sx *s, uint32_t id) { return same_shape_in(s, id); }
tn_ref tn_rule_reshape_twice(tn_sx *s, uint32_t id) {
  tn_ref x = in(s, id, 0);
  return made_by(s, x, TN_OP_RESHAPE) ? reshape_out(s, id, src(s, x)) : tn_sx_none();
}
tn_ref tn_rule_permute_same(tn_sx *s, uint32_t id) {
  int perm[TN_MAX_RANK];
  if (!read_perm(&s->g->node[id], perm)) return tn_sx_none();
  for (uint32_t i = 0; i < tn_sx_out(s, id)->rank; i++)
    if (perm[i] != (int)i) return tn_sx_none();
  return in(s, id, 0);
}
tn_ref tn_rule_permute_twice(tn_sx *s, uint32_t id) {
  int outer[TN_MAX_RANK], inner[TN_MAX_RANK], both[TN_MAX_RANK];
  tn_ref x = in(s, id, 0);
  if (!made_by(s, x, TN_OP_PERMUTE) || !read_perm(&s->g->node[id], outer) || !read_perm(&s->g->node[def(s, x)], inner)) return tn_sx_none();
  for (uint32_t i = 0; i < tn_sx_out(s, id)->rank; i++) both[i] = inner[outer[i]];
  return tn_px_permute(&s->b, src(s, x), both);
}
tn_ref tn_rule_permute_ones(tn_sx *s, uint32_t id) {
  int perm[TN_MAX_RANK], last = -1;
  tn_ref x = in(s, id, 0);
  const tn_type *t = tn_typeof(s->g, x);
  if (!read_perm(&s->g->node[id], perm)) return tn_sx_none();
  for (uint32_t i = 0; i < t->rank; i++) {
    if (t->dim[perm[i]] == 1) continue;
    if (perm[i] < last) return tn_sx_none();
    last = perm[i];
  }
  return reshape_out(s, id, x);
}
tn_ref tn_rule_bcast_same(tn_sx *s, uint32_t id) { return same_shape_in(s, id); }
tn_ref tn_rule_bcast_twice(tn_sx *s, uint32_t id) {
  tn_ref x = in(s, id, 0);
  return made_by(s, x, TN_OP_BROADCAST) ? tn_sx_as_out(s, id, src(s, x)) : tn_sx_none();
}
/* Number of leading 1s that make shape b out of shape a; -1 when they do not. */
static int leading_ones(const tn_type *a, const tn_type *b) {
  if (b->rank <= a->rank) return -1;
  uint32_t lead = b->rank - a->rank;
  for (uint32_t i = 0; i < lead; i++)
    if (b->dim[i] != 1) return -1;
  return tn_px_same_dims(a->rank, a->dim, a->rank, b->dim + lead) ? (int)lead : -1;
}
tn_ref tn_rule_bcast_lead(tn_sx *s, uint32_t id) {
  tn_ref x = in(s, id, 0);
  if (!made_by(s, x, TN_OP_RESHAPE) || leading_ones(tn_typeof(s->g, src(s, x)), tn_typeof(s->g, x)) < 0) return tn_sx_none();
  return tn_sx_as_out(s, id, src(s, x));
}
tn_ref tn_rule_bcast_ones(tn_sx *s, uint32_t id) {
  tn_ref x = in(s, id, 0);
  return leading_ones(tn_typeof(s->g, x), tn_sx_out(s, id)) > 0 ? reshape_out(s, id, x) : tn_sx_none();
}

/* ---- views and eltwise ---- */

static bool drops_ones(tn_sx *s, tn_ref r) { /* a reshape that only drops dims of 1: those go up, the others down */
  int at[TN_MAX_RANK];
  if (!made_by(s, r, TN_OP_RESHAPE)) return false;
  const tn_type *from = tn_typeof(s->g, src(s, r)), *to = tn_typeof(s->g, r);
  return to->rank <= from->rank && tn_px_unit_map(from, to, at);
}


tn_ref tn_sx_rebuild(tn_sx *s, uint32_t id, const tn_ref *args) {
  if (s->b.st != TN_OK) return tn_sx_none();
  const tn_node *n = &s->g->node[id];
  tn_attr attr[4];
  uint32_t n_attr = n->n_attr < 4 ? n->n_attr : 4;
  if (n_attr) memcpy(attr, n->attr, n_attr * sizeof *attr);
  return tn_px_add(&s->b, n->op, args, n->n_in, attr, n_attr);
}

/* Shape of the eltwise over these operands; false when they do not go together. */
static bool joint_shape(tn_sx *s, const tn_ref *r, uint32_t n, tn_dim *dim, uint32_t *rank) {
  *rank = 0;
  for (uint32_t k = 0; k < n; k++) {
    const tn_type *t = tn_typeof(s->g, r[k]);
    if (t->rank > *rank) {
      uint32_t more = t->rank - *rank;
      memmove(dim + more, dim, *rank * sizeof *dim);
      for (uint32_t i = 0; i < more; i++) dim[i] = 1;
      *rank = t->rank;
    }
    for (uint32_t i = 0; i < t->rank; i++) {
      tn_dim *d = &dim[*rank - t->rank + i];
      if (*d == 1) *d = t->dim[i];
      else if (t->dim[i] != 1 && t->dim[i] != *d) return false;
    }
  }
  return true;
}

tn_ref tn_rule_implicit(tn_sx *s, uint32_t id) {
  tn_ref args[3];
  uint32_t n = s->g->node[id].n_in, rank;
  tn_dim dim[TN_MAX_RANK];
  bool any = false;
  if (n < 2 || n > 3) return tn_sx_none();
  for (uint32_t k = 0; k < n; k++) args[k] = in(s, id, k);
  for (uint32_t k = 0; k < n; k++) {
    tn_ref was = args[k];
    bool stretch = made_by(s, was, TN_OP_BROADCAST);
    const tn_type t = *tn_typeof(s->g, was);
    tn_num v;
    if (t.rank > 0 && made_by(s, was, TN_OP_FULL) && tn_px_fill(s->g, was, &v)) {
      args[k] = tn_px_fill_of(&s->b, (tn_dtype)t.dtype, 0, NULL, v);
      if (args[k].id && joint_shape(s, args, n, dim, &rank) && tn_px_same_dims(rank, dim, tn_sx_out(s, id)->rank, tn_sx_out(s, id)->dim)) any = true;
      else args[k] = was;
      continue;
    }
    bool pads = made_by(s, was, TN_OP_RESHAPE) && leading_ones(tn_typeof(s->g, src(s, was)), tn_typeof(s->g, was)) >= 0;
    if (!stretch && !pads) continue;
    args[k] = src(s, was);
    if (joint_shape(s, args, n, dim, &rank) && tn_px_same_dims(rank, dim, tn_sx_out(s, id)->rank, tn_sx_out(s, id)->dim)) any = true;
    else args[k] = was;
  }
  return any ? tn_sx_rebuild(s, id, args) : tn_sx_none();
}

/* The same view again, of another value. */
static tn_ref view_again(tn_sx *s, uint32_t view, tn_ref x) {
  int perm[TN_MAX_RANK];
  const tn_type t = *tn_sx_out(s, view);
  switch (s->g->node[view].op) {
  case TN_OP_RESHAPE: return tn_px_reshape(&s->b, x, t.rank, t.dim);
  case TN_OP_BROADCAST: return tn_px_broadcast(&s->b, x, t.rank, t.dim);
  default: return read_perm(&s->g->node[view], perm) ? tn_px_permute(&s->b, x, perm) : tn_sx_none();
  }
}
static bool sinkable(tn_op op) { return op == TN_OP_RESHAPE || op == TN_OP_PERMUTE || op == TN_OP_BROADCAST; }

tn_ref tn_rule_sink_view(tn_sx *s, uint32_t id) {
  const tn_node *n = &s->g->node[id];
  uint32_t n_in = n->n_in, at = UINT32_MAX;
  tn_num v;
  tn_ref args[3];
  if (n_in == 0 || n_in > 3 || n->op == TN_OP_COPY) return tn_sx_none();
  for (uint32_t k = 0; k < n_in; k++) {
    args[k] = in(s, id, k);
    if (tn_px_fill(s->g, args[k], &v)) continue;
    if (at != UINT32_MAX) return tn_sx_none();
    at = k;
  }
  if (at == UINT32_MAX || !sinkable(tn_px_op(s->g, args[at])) || tn_sx_uses(s, args[at]) > 1 || drops_ones(s, args[at])) return tn_sx_none();
  if (!tn_px_same_shape(tn_typeof(s->g, args[at]), tn_sx_out(s, id))) return tn_sx_none();
  uint32_t view = def(s, args[at]);
  args[at] = src(s, args[at]);
  for (uint32_t k = 0; k < n_in; k++) {
    const tn_type t = *tn_typeof(s->g, args[k]);
    if (k == at || t.rank == 0 || !tn_px_fill(s->g, args[k], &v)) continue;
    args[k] = tn_px_fill_of(&s->b, (tn_dtype)t.dtype, 0, NULL, v);
  }
  tn_ref y = tn_sx_rebuild(s, id, args);
  return y.id ? view_again(s, view, y) : y;
}

tn_ref tn_rule_sink_pair(tn_sx *s, uint32_t id) {
  const tn_node *n = &s->g->node[id];
  tn_ref args[3], views[3];
  uint32_t n_in = n->n_in;
  if (n_in < 2 || n_in > 3) return tn_sx_none();
  for (uint32_t k = 0; k < n_in; k++) views[k] = in(s, id, k);
  tn_op op = tn_px_op(s->g, views[0]);
  if ((op != TN_OP_RESHAPE && op != TN_OP_PERMUTE) || drops_ones(s, views[0])) return tn_sx_none();
  for (uint32_t k = 0; k < n_in; k++) {
    int p[TN_MAX_RANK], q[TN_MAX_RANK];
    uint32_t m = def(s, views[k]);
    if (tn_px_op(s->g, views[k]) != op || tn_sx_uses(s, views[k]) > (views[k].id == views[0].id && k ? 2u : 1u)) return tn_sx_none();
    args[k] = src(s, views[k]);
    if (!tn_px_same_shape(tn_typeof(s->g, args[k]), tn_typeof(s->g, args[0]))) return tn_sx_none();
    if (!tn_px_same_shape(tn_typeof(s->g, views[k]), tn_sx_out(s, id))) return tn_sx_none();
    if (op != TN_OP_PERMUTE) continue;
    if (!read_perm(&s->g->node[m], p) || !read_perm(&s->g->node[def(s, views[0])], q)) return tn_sx_none();
    if (memcmp(p, q, tn_sx_out(s, id)->rank * sizeof *p) != 0) return tn_sx_none();
  }
  uint32_t view = def(s, views[0]);
  tn_ref y = tn_sx_rebuild(s, id, args);
  return y.id ? view_again(s, view, y) : y;
}

tn_ref tn_rule_sink_trailing(tn_sx *s, uint32_t id) {
  tn_ref a = in(s, id, 0), b, args[2];
  if (s->g->node[id].n_in != 2) return a = tn_sx_none(), a;
  b = in(s, id, 1);
  for (uint32_t k = 0; k < 2; k++) {
    tn_ref x = k ? b : a, other = k ? a : b;
    if (!made_by(s, x, TN_OP_RESHAPE) || tn_sx_uses(s, x) > 1 || drops_ones(s, x) || !tn_px_same_shape(tn_typeof(s->g, x), tn_sx_out(s, id))) continue;
    const tn_type *from = tn_typeof(s->g, src(s, x)), *to = tn_typeof(s->g, x), *o = tn_typeof(s->g, other);
    if (o->rank == 0 || o->rank > from->rank || o->rank >= to->rank) continue;
    if (!tn_px_same_dims(o->rank, from->dim + (from->rank - o->rank), o->rank, to->dim + (to->rank - o->rank))) continue;
    uint32_t view = def(s, x);
    args[k] = src(s, x);
    args[1 - k] = other;
    tn_ref y = tn_sx_rebuild(s, id, args);
    return y.id ? view_again(s, view, y) : y;
  }
  return tn_sx_none();
}

/* ---- reshapes that only add or drop dims of size 1 ---- */

/* An operand of the eltwise over `to`, spelled for the one over `from`. */
static tn_ref respell(tn_sx *s, tn_ref o, uint32_t rank_to, const tn_type *from, const int *at) {
  const tn_type *t = tn_typeof(s->g, o);
  tn_dim dim[TN_MAX_RANK];
  uint32_t lead = rank_to - t->rank, skip = 0;
  for (uint32_t i = 0; i < from->rank; i++) dim[i] = 1;
  for (uint32_t j = lead; j < rank_to; j++)
    if (at[j] >= 0) dim[at[j]] = t->dim[j - lead];
  /* leading 1s say nothing; but an operand of full rank stays one where the dims are 1 anyhow, so that forms do not mix */
  while (skip < from->rank && dim[skip] == 1 && (lead > 0 || from->dim[skip] != 1)) skip++;
  return tn_px_reshape(&s->b, o, from->rank - skip, dim + skip);
}
tn_ref tn_rule_sink_unit(tn_sx *s, uint32_t id) {
  uint32_t n_in = s->g->node[id].n_in;
  tn_ref args[3];
  int at[TN_MAX_RANK];
  if (n_in == 0 || n_in > 3 || s->g->node[id].op == TN_OP_COPY) return tn_sx_none();
  for (uint32_t k = 0; k < n_in; k++) args[k] = in(s, id, k);
  for (uint32_t k = 0; k < n_in; k++) {
    if (!made_by(s, args[k], TN_OP_RESHAPE) || !tn_px_same_shape(tn_typeof(s->g, args[k]), tn_sx_out(s, id))) continue;
    const tn_type from = *tn_typeof(s->g, src(s, args[k])), to = *tn_typeof(s->g, args[k]);
    if (from.rank >= to.rank || !tn_px_unit_map(&from, &to, at)) continue;
    for (uint32_t j = 0; j < n_in; j++)
      if (j != k) args[j] = respell(s, args[j], to.rank, &from, at);
    args[k] = src(s, args[k]);
    tn_ref y = s->b.st == TN_OK ? tn_sx_rebuild(s, id, args) : tn_sx_none();
    return y.id ? tn_px_reshape(&s->b, y, to.rank, to.dim) : y;
  }
  return tn_sx_none();
}

/* A reshape that drops 1s moves in front of the eltwise that makes its operand. */
tn_ref tn_rule_hoist_unit(tn_sx *s, uint32_t id) {
  tn_ref x = in(s, id, 0), args[3];
  int at[TN_MAX_RANK];
  uint32_t m = def(s, x), n_in = s->g->node[m].n_in;
  const tn_type from = *tn_typeof(s->g, x), to = *tn_sx_out(s, id);
  if (!tn_px_is_pw(tn_px_op(s->g, x)) || made_by(s, x, TN_OP_COPY) || tn_sx_uses(s, x) > 1 || n_in > 3 || to.rank >= from.rank) return tn_sx_none();
  if (!tn_px_unit_map(&to, &from, at)) return tn_sx_none();
  for (uint32_t k = 0; k < n_in; k++) args[k] = respell(s, tn_px_in(s->g, m, k), from.rank, &to, at);
  tn_ref y = tn_sx_rebuild(s, m, args);
  return y.id ? tn_px_broadcast(&s->b, y, to.rank, to.dim) : y;
}
/* The reshape goes below the permute; dims of 1 that the source has besides go last. */
tn_ref tn_rule_permute_unit(tn_sx *s, uint32_t id) {
  int at[TN_MAX_RANK], perm[TN_MAX_RANK], order[TN_MAX_RANK], n = 0;
  bool taken[TN_MAX_RANK] = {false};
  tn_ref x = in(s, id, 0);
  if (!made_by(s, x, TN_OP_RESHAPE) || !read_perm(&s->g->node[id], perm)) return tn_sx_none();
  const tn_type from = *tn_typeof(s->g, src(s, x)), to = *tn_typeof(s->g, x);
  if (from.rank >= to.rank || !tn_px_unit_map(&from, &to, at)) return tn_sx_none();
  for (uint32_t j = 0; j < to.rank; j++)
    if (at[perm[j]] >= 0) taken[order[n++] = at[perm[j]]] = true;
  for (uint32_t i = 0; i < from.rank; i++)
    if (!taken[i]) order[n++] = (int)i;
  tn_ref y = tn_px_permute(&s->b, src(s, x), order);
  return y.id ? reshape_out(s, id, y) : y;
}

/* ---- slices ---- */
typedef struct cut { uint32_t dim; tn_dim start, size; int64_t step; } cut;
static cut read_cut(tn_sx *s, uint32_t id) {
  const tn_node *n = &s->g->node[id];
  cut c = {.dim = (uint32_t)tn_attr_int(n, "dim", 0), .step = tn_attr_int(n, "step", 1)};
  if (tn_attr_dims(n, "start", &c.start, 1) != 1 || tn_attr_dims(n, "size", &c.size, 1) != 1) c.step = 0;
  return c;
}
static tn_ref do_cut(tn_sx *s, tn_ref x, cut c) {
  tn_attr at[4] = {tn_mk_int("dim", c.dim), tn_mk_dims(s->g, "start", &c.start, 1), tn_mk_dims(s->g, "size", &c.size, 1), tn_mk_int("step", c.step)};
  return tn_px_add(&s->b, TN_OP_SLICE, &x, 1, at, 4);
}
tn_ref tn_rule_slice_full(tn_sx *s, uint32_t id) {
  cut c = read_cut(s, id);
  return c.start == 0 && c.step == 1 ? same_shape_in(s, id) : tn_sx_none();
}
tn_ref tn_rule_slice_twice(tn_sx *s, uint32_t id) {
  tn_ref x = in(s, id, 0);
  cut c = read_cut(s, id), d;
  if (!made_by(s, x, TN_OP_SLICE)) return tn_sx_none();
  d = read_cut(s, def(s, x));
  if (d.dim != c.dim || c.step < 1 || d.step < 1 || c.step > INT32_MAX || d.step > INT32_MAX) return tn_sx_none();
  c.start = tn_dim_add(s->g->dims, d.start, tn_dim_mul(s->g->dims, c.start, d.step));
  c.step *= d.step;
  return c.start == TN_DIM_BAD ? tn_sx_none() : do_cut(s, src(s, x), c);
}
tn_ref tn_rule_slice_step(tn_sx *s, uint32_t id) {
  cut c = read_cut(s, id);
  if (c.size != 1 || c.step == 1 || c.step == 0) return tn_sx_none();
  c.step = 1;
  return do_cut(s, in(s, id, 0), c);
}
tn_ref tn_rule_slice_concat(tn_sx *s, uint32_t id) {
  tn_ref x = in(s, id, 0);
  cut c = read_cut(s, id);
  if (!made_by(s, x, TN_OP_CONCAT) || c.step < 1 || !tn_dim_is_const(c.start)) return tn_sx_none();
  uint32_t m = def(s, x);
  if ((uint32_t)tn_attr_int(&s->g->node[m], "dim", 0) != c.dim) return tn_sx_none();
  tn_dim at = 0;
  for (uint32_t k = 0; k < s->g->node[m].n_in; k++) {
    tn_ref piece = tn_px_in(s->g, m, k);
    tn_dim n = tn_typeof(s->g, piece)->dim[c.dim];
    bool whole = at == c.start && n == c.size && c.step == 1;
    if (whole) return piece;
    if (!tn_dim_is_const(n)) return tn_sx_none();
    bool within = tn_dim_is_const(c.size) && c.size > 0 && c.start >= at && c.start + (c.size - 1) * c.step < at + n;
    if (within) {
      c.start -= at;
      return do_cut(s, piece, c);
    }
    at += n;
  }
  return tn_sx_none();
}
tn_ref tn_rule_slice_bcast(tn_sx *s, uint32_t id) {
  tn_ref x = in(s, id, 0);
  cut c = read_cut(s, id);
  if (!made_by(s, x, TN_OP_BROADCAST)) return tn_sx_none();
  const tn_type *from = tn_typeof(s->g, src(s, x)), *to = tn_typeof(s->g, x);
  uint32_t lead = to->rank - from->rank;
  if (c.dim >= lead && from->dim[c.dim - lead] != 1) return tn_sx_none();
  return tn_sx_as_out(s, id, src(s, x));
}

/* ---- concat, flip, pad, take ---- */
static tn_ref concat(tn_sx *s, uint32_t id, const tn_ref *r, uint32_t n) {
  if (n == 1) return r[0];
  tn_attr at = tn_mk_int("dim", tn_attr_int(&s->g->node[id], "dim", 0));
  return tn_px_add(&s->b, TN_OP_CONCAT, r, n, &at, 1);
}
tn_ref tn_rule_concat_one(tn_sx *s, uint32_t id) {
  uint32_t n_in = s->g->node[id].n_in, n = 0;
  int64_t dim = tn_attr_int(&s->g->node[id], "dim", 0);
  tn_ref *r = TN_NEW(s->p->scratch, tn_ref, n_in);
  if (!r) { s->b.st = tn_fail(s->p->d, TN_E_NOMEM, "concat of %u", n_in); return tn_sx_none(); }
  for (uint32_t k = 0; k < n_in; k++) {
    tn_ref x = in(s, id, k);
    if (tn_typeof(s->g, x)->dim[dim] != 0) r[n++] = x;
  }
  if (n == 0) r[n++] = in(s, id, 0);
  return n == n_in && n > 1 ? tn_sx_none() : concat(s, id, r, n);
}
tn_ref tn_rule_concat_flat(tn_sx *s, uint32_t id) {
  uint32_t n_in = s->g->node[id].n_in, total = 0, n = 0;
  int64_t dim = tn_attr_int(&s->g->node[id], "dim", 0);
#define INNER(x) (made_by(s, x, TN_OP_CONCAT) && tn_attr_int(&s->g->node[def(s, x)], "dim", 0) == dim && tn_sx_uses(s, x) == 1)
  bool any = false;
  for (uint32_t k = 0; k < n_in; k++) {
    tn_ref x = in(s, id, k);
    bool inner = INNER(x);
    any = any || inner;
    total += inner ? s->g->node[def(s, x)].n_in : 1;
  }
  if (!any || total > 1024) return tn_sx_none();
  tn_ref *r = TN_NEW(s->p->scratch, tn_ref, total);
  if (!r) { s->b.st = tn_fail(s->p->d, TN_E_NOMEM, "concat of %u", total); return tn_sx_none(); }
  for (uint32_t k = 0; k < n_in; k++) {
    tn_ref x = in(s, id, k);
    if (!INNER(x)) { r[n++] = x; continue; }
    for (uint32_t j = 0; j < s->g->node[def(s, x)].n_in; j++) r[n++] = tn_px_in(s->g, def(s, x), j);
  }
#undef INNER
  return concat(s, id, r, n);
}
tn_ref tn_rule_concat_split(tn_sx *s, uint32_t id) {
  int64_t dim = tn_attr_int(&s->g->node[id], "dim", 0);
  tn_ref whole = {0};
  tn_dim at = 0;
  for (uint32_t k = 0; k < s->g->node[id].n_in; k++) {
    tn_ref x = in(s, id, k);
    if (!made_by(s, x, TN_OP_SLICE)) return tn_sx_none();
    cut c = read_cut(s, def(s, x));
    tn_ref from = src(s, x);
    if (c.dim != dim || c.step != 1 || c.start != at || (k > 0 && from.id != whole.id)) return tn_sx_none();
    whole = from;
    at = tn_dim_add(s->g->dims, at, c.size);
  }
  return whole.id && tn_px_same_shape(tn_typeof(s->g, whole), tn_sx_out(s, id)) ? whole : tn_sx_none();
}
tn_ref tn_rule_flip_twice(tn_sx *s, uint32_t id) {
  tn_dim a[TN_MAX_RANK], b[TN_MAX_RANK];
  tn_ref x = in(s, id, 0);
  if (!made_by(s, x, TN_OP_FLIP)) return tn_sx_none();
  int na = tn_attr_dims(&s->g->node[id], "dims", a, TN_MAX_RANK), nb = tn_attr_dims(&s->g->node[def(s, x)], "dims", b, TN_MAX_RANK);
  uint32_t ma = 0, mb = 0;
  for (int i = 0; i < na; i++) ma |= 1u << a[i];
  for (int i = 0; i < nb; i++) mb |= 1u << b[i];
  return na >= 0 && nb >= 0 && ma == mb ? src(s, x) : tn_sx_none();
}
tn_ref tn_rule_pad_none(tn_sx *s, uint32_t id) {
  tn_dim d[TN_MAX_RANK];
  const char *const side[2] = {"lo", "hi"};
  for (int k = 0; k < 2; k++) {
    int n = tn_attr_dims(&s->g->node[id], side[k], d, TN_MAX_RANK);
    for (int i = 0; i < n; i++)
      if (d[i] != 0) return tn_sx_none();
  }
  return same_shape_in(s, id);
}
tn_ref tn_rule_take_const(tn_sx *s, uint32_t id) {
  tn_ref x = in(s, id, 0), idx = in(s, id, 1);
  tn_num v;
  int64_t n_idx, dim = tn_attr_int(&s->g->node[id], "dim", 0);
  tn_dim n = tn_typeof(s->g, x)->dim[dim];
  if (!tn_px_static(tn_typeof(s->g, idx), &n_idx) || n_idx != 1 || !tn_px_fill(s->g, idx, &v) || !tn_dim_is_const(n)) return tn_sx_none();
  if (v.i < 0) v.i += n;
  if (v.i < 0 || v.i >= n) return tn_sx_none(); /* stays, to fail at run time as it must */
  cut c = {.dim = (uint32_t)dim, .start = v.i, .size = 1, .step = 1};
  tn_ref y = do_cut(s, x, c);
  return y.id ? reshape_out(s, id, y) : y;
}

/* onnx_items: what is known of a value while compiling. Shape arithmetic of ONNX models is ordinary nodes on small integer tensors (Shape, Gather, Mul,
 * Concat ...); here the prims that made a value are walked and its elements found as dim expressions, so no second set of rules for sizes exists.
 *
 * An element is a fraction num/den of a dim expression and a positive constant: exporters write sizes through floats (x * 0.5, Floor), and a fraction keeps
 * that exact until Floor, Ceil or a cast makes it whole. den 0 = this element is not known. Elements are row-major, any rank, at most 256.
 *
 * Whole constants (tn_ox_data) are folded by the reference kernels instead; the walk asks them first. Answers are kept for each value. Rows' results are
 * asked for as soon as they are made, so walks are short; one that is not stops at a fixed depth and answers "not known".
 * Symbolic values are taken to fit the integer types that carry them. */
#include "onnx_int.h"

enum { MAX_ITEMS = 256, MAX_DEPTH = 100, MAX_FOLD = 1 << 16 };
typedef struct frac { tn_dim num; int64_t den; } frac;
typedef struct entry { frac *v; int16_t n; bool asked, fold_asked; tn_tensor *t; } entry; /* n < 0: too many or not of known count */
typedef struct tn_ox_memo { entry *row; uint32_t cap; } memo;

static const frac unknown = {0, 0};

static entry *slot(tn_ox_env *e, uint32_t id) {
  if (!e->memo && !(e->memo = TN_NEW(e->unit->arena, memo, 1))) return NULL;
  memo *m = e->memo;
  if (id >= m->cap) {
    uint64_t cap = m->cap ? m->cap : 64;
    while (cap <= id) cap *= 2;
    entry *r = cap > UINT32_MAX / 2 ? NULL : tn_arena_grow(e->unit->arena, m->row, m->cap * sizeof *r, (size_t)cap * sizeof *r);
    if (!r) return NULL;
    m->row = r;
    m->cap = (uint32_t)cap;
  }
  return &m->row[id];
}

/* ---- folding ---- */
static bool symbolic(const tn_graph *g, const tn_attr_val *v) {
  int64_t k;
  if (v->kind == TN_AT_DIM) return v->u.d == TN_DIM_BAD || !tn_dim_as_int(g->dims, v->u.d, &k);
  for (uint32_t i = 0; v->kind == TN_AT_LIST && i < v->u.list.n; i++)
    if (symbolic(g, &v->u.list.item[i])) return true;
  return false;
}
static bool can_fold(const tn_graph *g, const tn_node *n) {
  if (n->op == TN_OP_INPUT || n->op == TN_OP_CALL || n->op == TN_OP_OPAQUE || n->op == TN_OP_DYN || n->op == TN_OP_FUSED || n->n_out > 8) return false;
  for (uint32_t i = 0; i < n->n_attr; i++)
    if (symbolic(g, &n->attr[i].val)) return false;
  for (uint32_t k = 0; k < n->n_out; k++) {
    int64_t count = tn_type_numel(&g->value[n->out + k].type);
    if (count < 0 || count > MAX_FOLD) return false;
  }
  return true;
}
/* A tensor of a value's (constant) type, without data. */
static tn_tensor *tensor_of(tn_ox_env *e, uint32_t id) {
  const tn_type *t = &e->g->value[id].type;
  tn_tensor *r = TN_NEW(e->unit->arena, tn_tensor, 1);
  int64_t *shape = TN_NEW(e->unit->arena, int64_t, t->rank + 1u);
  if (!r || !shape) return NULL;
  for (int i = 0; i < t->rank; i++) shape[i] = t->dim[i];
  *r = (tn_tensor){.shape = shape, .rank = t->rank, .dtype = t->dtype};
  return r;
}
static const tn_tensor *fold(tn_ox_env *e, uint32_t id, int depth) {
  static uint8_t nothing[16];
  tn_graph *g = e->g;
  entry *s = slot(e, id);
  if (!s || depth > MAX_DEPTH) return NULL;
  if (s->fold_asked) return s->t;
  s->fold_asked = true;
  const tn_node *n = &g->node[g->value[id].node];
  if (n->op == TN_OP_CONST && n->data) {
    tn_tensor *t = tensor_of(e, id);
    if (t) t->data = n->data->bytes ? (void *)(uintptr_t)n->data->p : nothing;
    return slot(e, id)->t = t;
  }
  if (!can_fold(g, n)) return NULL;
  tn_tensor in[16], out[8];
  if (n->n_in > 16) return NULL;
  for (uint32_t k = 0; k < n->n_in; k++) {
    const tn_tensor *t = fold(e, n->in[k].id, depth + 1);
    if (!t || tn_type_numel(tn_typeof(g, n->in[k])) > MAX_FOLD) return NULL;
    in[k] = *t;
  }
  tn_tensor *made[8];
  for (uint32_t k = 0; k < n->n_out; k++) {
    int64_t count = tn_type_numel(&g->value[n->out + k].type);
    made[k] = tensor_of(e, n->out + k);
    if (!made[k] || !(made[k]->data = tn_arena_alloc(e->unit->arena, (size_t)count * tn_dtype_size((tn_dtype)made[k]->dtype)))) return NULL;
    out[k] = *made[k];
  }
  tn_diag d;
  int64_t no_syms = 0;
  tn_diag_clear(&d);
  if (tn_ops_eval_node(&d, g, n, &no_syms, in, out) != TN_OK) return NULL;
  for (uint32_t k = 0; k < n->n_out; k++) {
    entry *o = slot(e, n->out + k);
    if (!o) return NULL;
    o->fold_asked = true;
    o->t = made[k];
  }
  return slot(e, id)->t;
}
bool tn_ox_env_data(tn_ox_env *e, tn_ref r, tn_tensor *out) {
  if (!r.id || tn_typeof(e->g, r)->dtype == TN_OBJ) return false;
  const tn_tensor *t = fold(e, r.id, 0);
  if (t) *out = *t;
  return t != NULL;
}
bool tn_ox_data(tn_ox *c, tn_ref r, tn_tensor *out) { return c->b.st == TN_OK && tn_ox_env_data(c->e, r, out); }

/* ---- fractions ---- */
static frac whole(tn_dim d) { return d == TN_DIM_BAD ? unknown : (frac){d, 1}; }
static frac lowest(tn_dims *t, tn_dim num, int64_t den) {
  tn_dim q;
  if (num == TN_DIM_BAD || den == 0) return unknown;
  if (den < 0) {
    num = tn_dim_sub(t, 0, num);
    den = -den;
  }
  for (int64_t p = 2; p <= 7 && den > 1; p++)           /* common factors are small */
    while (den % p == 0 && tn_dim_divides(t, p, num, &q)) { num = q; den /= p; }
  if (den > 1 && tn_dim_divides(t, den, num, &q)) { num = q; den = 1; }
  return num == TN_DIM_BAD || den > (1 << 24) ? unknown : (frac){num, den};
}
static frac from_double(tn_dims *t, double x) {
  for (int64_t den = 1; den <= 1 << 20; den *= 2) {
    double v = x * (double)den;
    if (!(v > -9e15 && v < 9e15)) return unknown;
    if (v == floor(v)) return lowest(t, tn_dim_int(t, (int64_t)v), den);
  }
  return unknown;
}
static frac from_num(tn_dims *t, tn_dtype ty, tn_num v) {
  if (tn_dtype_is_float(ty)) return from_double(t, v.f);
  return v.i == INT64_MIN || (ty == TN_U64 && v.i < 0) ? unknown : whole(tn_dim_int(t, v.i));
}
/* a - b over one denominator: its numerator, for comparisons. */
static tn_dim difference(tn_dims *t, frac a, frac b) {
  if (!a.den || !b.den) return TN_DIM_BAD;
  tn_dim x = tn_dim_mul(t, a.num, tn_dim_int(t, b.den)), y = tn_dim_mul(t, b.num, tn_dim_int(t, a.den));
  return x == TN_DIM_BAD || y == TN_DIM_BAD ? TN_DIM_BAD : tn_dim_sub(t, x, y);
}
static bool least(tn_dims *t, frac a, int64_t at_least) {
  int64_t lo, hi;
  if (!a.den) return false;
  tn_dim_bounds(t, a.num, &lo, &hi);
  return lo >= at_least;
}
static bool is_const(tn_dims *t, frac a, int64_t *out) { return a.den == 1 && tn_dim_as_int(t, a.num, out); }
/* -1: not decidable */
static int truth(tn_dims *t, frac a) {
  int64_t lo, hi;
  if (!a.den) return -1;
  tn_dim_bounds(t, a.num, &lo, &hi);
  return lo > 0 || hi < 0 ? 1 : lo == 0 && hi == 0 ? 0 : -1;
}
static frac boolean(int v) { return v < 0 ? unknown : (frac){v, 1}; }

static frac to_whole(tn_dims *t, frac a, tn_op how) {
  if (a.den <= 1) return a;
  if (how == TN_OP_CEIL) return whole(tn_dim_ceildiv(t, a.num, a.den));
  if (how == TN_OP_FLOOR || least(t, a, 0)) return whole(tn_dim_floordiv(t, a.num, a.den)); /* TRUNC of what is not negative */
  return unknown;
}
static frac compare(tn_dims *t, tn_op op, frac a, frac b) {
  int64_t lo, hi;
  tn_dim d = difference(t, a, b);
  if (d == TN_DIM_BAD) return unknown;
  tn_dim_bounds(t, d, &lo, &hi);
  int below = hi < 0 ? 1 : lo >= 0 ? 0 : -1, above = lo > 0 ? 1 : hi <= 0 ? 0 : -1;
  int same = lo == 0 && hi == 0 ? 1 : lo > 0 || hi < 0 ? 0 : -1;
  switch (op) {
  case TN_OP_LT: return boolean(below);
  case TN_OP_GE: return boolean(below < 0 ? -1 : !below);
  case TN_OP_GT: return boolean(above);
  case TN_OP_LE: return boolean(above < 0 ? -1 : !above);
  case TN_OP_EQ: return boolean(same);
  default: return boolean(same < 0 ? -1 : !same);
  }
}
static frac logic(tn_dims *t, tn_op op, frac a, frac b) {
  int x = truth(t, a), y = truth(t, b);
  if (op == TN_OP_AND) return x == 0 || y == 0 ? boolean(0) : x < 0 || y < 0 ? unknown : boolean(1);
  if (op == TN_OP_OR) return x == 1 || y == 1 ? boolean(1) : x < 0 || y < 0 ? unknown : boolean(0);
  return x < 0 || y < 0 ? unknown : boolean(x != y);
}
static frac divide(tn_dims *t, frac a, frac b) {
  int64_t k;
  tn_dim q;
  if (tn_dim_as_int(t, b.num, &k)) {
    if (k == 0 || k < -(1 << 24) || k > 1 << 24) return unknown;
    return lowest(t, tn_dim_mul(t, a.num, b.den), a.den * k);
  }
  if (a.den == 1 && b.den == 1 && least(t, b, 1) && tn_dim_divides(t, b.num, a.num, &q)) return whole(q);
  return unknown;
}
static frac binary(tn_dims *t, tn_op op, tn_dtype ty, frac a, frac b) {
  int64_t k;
  if (!a.den || !b.den) {
    if (op == TN_OP_MUL && ((is_const(t, a, &k) && k == 0) || (is_const(t, b, &k) && k == 0)) && !tn_dtype_is_float(ty)) return whole(0);
    return ty == TN_BOOL && (op == TN_OP_AND || op == TN_OP_OR) ? logic(t, op, a, b) : unknown;
  }
  bool both = a.den == 1 && b.den == 1, positive = least(t, a, 0) && least(t, b, 1);
  switch (op) {
  case TN_OP_ADD: case TN_OP_SUB: {
    if (op == TN_OP_SUB) return lowest(t, difference(t, a, b), a.den * b.den);
    tn_dim x = tn_dim_mul(t, a.num, b.den), y = tn_dim_mul(t, b.num, a.den);
    return x == TN_DIM_BAD || y == TN_DIM_BAD ? unknown : lowest(t, tn_dim_add(t, x, y), a.den * b.den);
  }
  case TN_OP_MUL: return lowest(t, tn_dim_mul(t, a.num, b.num), a.den * b.den);
  case TN_OP_DIV: return divide(t, a, b);
  case TN_OP_FLOORDIV: return both && (least(t, b, 1) || is_const(t, b, &k)) ? whole(tn_dim_floordiv(t, a.num, b.num)) : unknown;
  case TN_OP_TRUNCDIV: return both && positive ? whole(tn_dim_floordiv(t, a.num, b.num)) : unknown;
  case TN_OP_REMAINDER: return both && least(t, b, 1) ? whole(tn_dim_mod(t, a.num, b.num)) : unknown;
  case TN_OP_FMOD: return both && positive ? whole(tn_dim_mod(t, a.num, b.num)) : unknown;
  case TN_OP_MIN: case TN_OP_FMIN: case TN_OP_MAX: case TN_OP_FMAX: {
    bool min = op == TN_OP_MIN || op == TN_OP_FMIN;
    int lt = truth(t, compare(t, TN_OP_LT, a, b));
    if (lt >= 0) return (lt == 1) == min ? a : b;
    return a.den == b.den ? lowest(t, min ? tn_dim_min(t, a.num, b.num) : tn_dim_max(t, a.num, b.num), a.den) : unknown;
  }
  case TN_OP_EQ: case TN_OP_NE: case TN_OP_LT: case TN_OP_LE: case TN_OP_GT: case TN_OP_GE: return compare(t, op, a, b);
  case TN_OP_AND: case TN_OP_OR: case TN_OP_XOR: return ty == TN_BOOL ? logic(t, op, a, b) : unknown;
  case TN_OP_POW: {                                     /* small constant powers */
    frac r = a;
    if (!is_const(t, b, &k) || k < 1 || k > 4) return unknown;
    while (--k && r.den) r = lowest(t, tn_dim_mul(t, r.num, a.num), r.den * a.den);
    return r;
  }
  default: return unknown;
  }
}
static frac unary(tn_dims *t, tn_op op, tn_dtype ty, frac a) {
  if (!a.den) return unknown;
  switch (op) {
  case TN_OP_NEG: return lowest(t, tn_dim_sub(t, 0, a.num), a.den);
  case TN_OP_ABS: return least(t, a, 0) ? a : lowest(t, tn_dim_max(t, a.num, tn_dim_sub(t, 0, a.num)), a.den);
  case TN_OP_RELU: return least(t, a, 0) ? a : lowest(t, tn_dim_max(t, a.num, 0), a.den);
  case TN_OP_FLOOR: case TN_OP_CEIL: case TN_OP_TRUNC: return to_whole(t, a, op);
  case TN_OP_ROUND: return a.den == 1 ? a : unknown;
  case TN_OP_NOT: return ty == TN_BOOL && truth(t, a) >= 0 ? boolean(!truth(t, a)) : unknown;
  case TN_OP_COPY: case TN_OP_DIVISOR: return a;
  default: return unknown;
  }
}
static frac cast(tn_dims *t, tn_dtype from, tn_dtype to, frac a) {
  int64_t k;
  if (!a.den) return unknown;
  if (to == TN_BOOL) return boolean(truth(t, a));
  if (tn_dtype_is_float(to)) return a;
  if (tn_dtype_is_float(from)) a = to_whole(t, a, TN_OP_TRUNC);
  if (is_const(t, a, &k)) return from_num(t, to, tn_num_cast((tn_num){.i = k}, TN_I64, to));
  return to == TN_I64 || to == TN_I32 || to == TN_U64 || to == TN_U32 ? a : unknown;
}

/* ---- walking ---- */
static const entry *items(tn_ox_env *e, uint32_t id, int depth);

/* For row-major element i of `to`: the element of a value of type `from` that broadcasts to it. */
static uint32_t broadcast_at(const tn_type *to, const tn_type *from, uint32_t i) {
  uint32_t at = 0, step = 1;
  for (int k = to->rank - 1, j = from->rank - 1; j >= 0; k--, j--) {
    uint32_t d = (uint32_t)to->dim[k], f = (uint32_t)from->dim[j], x = d ? i % d : 0;
    if (d) i /= d;
    if (f != 1) at += x * step;
    step *= f;
  }
  return at;
}
static bool spread(tn_ox_env *e, const tn_node *n, frac *v, int count, int depth) {
  tn_graph *g = e->g;
  tn_dims *t = g->dims;
  const tn_type *to = &g->value[n->out].type;
  const entry *in[3] = {0};
  const frac *x[3] = {0};
  if (n->n_in < 1 || n->n_in > 3) return false;
  for (uint32_t k = 0; k < n->n_in; k++) {
    in[k] = items(e, n->in[k].id, depth + 1);
    if (!in[k] || in[k]->n < 0) return false;
    x[k] = in[k]->v;                                     /* slots may move, elements don't */
  }
  tn_dtype ty = (tn_dtype)tn_typeof(g, n->in[n->op == TN_OP_SELECT])->dtype;
  for (int i = 0; i < count; i++) {
    frac a[3] = {{0, 0}, {0, 0}, {0, 0}};
    for (uint32_t k = 0; k < n->n_in; k++) a[k] = x[k][broadcast_at(to, tn_typeof(g, n->in[k]), (uint32_t)i)];
    if (n->op == TN_OP_CAST) v[i] = cast(t, ty, (tn_dtype)to->dtype, a[0]);
    else if (n->op == TN_OP_BROADCAST) v[i] = a[0];
    else if (n->op == TN_OP_SELECT) {
      int which = truth(t, a[0]);
      v[i] = which == 1 ? a[1] : which == 0 ? a[2] : a[1].den && a[1].num == a[2].num && a[1].den == a[2].den ? a[1] : unknown;
    } else v[i] = n->n_in == 1 ? unary(t, n->op, ty, a[0]) : binary(t, n->op, ty, a[0], a[1]);
  }
  return true;
}
/* Element of the operand for each element of the result: permute, slice, flip. */
static bool strided(tn_ox_env *e, const tn_node *n, frac *v, int count, int depth) {
  const tn_type *to = &e->g->value[n->out].type, *from = tn_typeof(e->g, n->in[0]);
  const entry *in = items(e, n->in[0].id, depth + 1);
  int64_t dense[TN_MAX_RANK], stride[TN_MAX_RANK], offset = 0, at[TN_MAX_RANK];
  if (!in || in->n < 0) return false;
  const frac *x = in->v;
  int have = in->n;
  for (int i = from->rank - 1, s = 1; i >= 0; i--) { dense[i] = s; s *= (int)from->dim[i]; }
  memcpy(stride, dense, sizeof stride);
  if (n->op == TN_OP_SLICE) {
    tn_dim start;
    int64_t axis = tn_attr_int(n, "dim", 0);
    if (tn_attr_dims(n, "start", &start, 1) != 1 || !tn_dim_is_const(start) || start > MAX_ITEMS) return false;
    offset = start * dense[axis];
    stride[axis] *= tn_attr_int(n, "step", 1);
  } else {
    int k = tn_attr_ints(n, n->op == TN_OP_PERMUTE ? "perm" : "dims", at, TN_MAX_RANK);
    if (k < 0) return false;
    for (int i = 0; i < k; i++)
      if (n->op == TN_OP_PERMUTE) stride[i] = dense[at[i]];
      else { offset += (from->dim[at[i]] - 1) * dense[at[i]]; stride[at[i]] = -dense[at[i]]; }
  }
  for (int i = 0; i < count; i++) {
    int64_t p = offset, left = i;
    for (int k = to->rank - 1; k >= 0; k--) { p += left % to->dim[k] * stride[k]; left /= to->dim[k]; }
    if (p < 0 || p >= have) return false;
    v[i] = x[p];
  }
  return true;
}
/* Sizes of what lies before and behind dim `axis`. */
static void around(const tn_type *t, int64_t axis, int *outer, int *inner) {
  *outer = *inner = 1;
  for (int i = 0; i < t->rank; i++)
    if (i < axis) *outer *= (int)t->dim[i];
    else if (i > axis) *inner *= (int)t->dim[i];
}
static bool concat(tn_ox_env *e, const tn_node *n, frac *v, int count, int depth) {
  int64_t axis = tn_attr_int(n, "dim", 0), base = 0, total = e->g->value[n->out].type.dim[axis];
  for (uint32_t k = 0; k < n->n_in; k++) {
    const tn_type *t = tn_typeof(e->g, n->in[k]);
    const entry *in = items(e, n->in[k].id, depth + 1);
    int outer, inner, mid = (int)t->dim[axis];
    around(t, axis, &outer, &inner);
    if (!in) return false;
    for (int i = 0; i < outer * mid * inner; i++) {
      int64_t to = (i / (mid * inner) * total + base) * inner + i % (mid * inner);
      if (to >= count) return false;
      v[to] = in->n < 0 ? unknown : in->v[i];
    }
    base += mid;
  }
  return true;
}
static bool take(tn_ox_env *e, const tn_node *n, frac *v, int count, int depth) {
  const tn_type *t = tn_typeof(e->g, n->in[0]);
  int64_t axis = tn_attr_int(n, "dim", 0), k;
  int outer, inner, mid = (int)t->dim[axis];
  const entry *in = items(e, n->in[0].id, depth + 1);
  if (!in || in->n < 0) return false;
  const frac *x = in->v;
  const entry *ix = items(e, n->in[1].id, depth + 1);
  if (!ix || ix->n < 0) return false;
  around(t, axis, &outer, &inner);
  for (int i = 0; i < count; i++) {
    int a = i / (ix->n * inner), b = i / inner % ix->n, z = i % inner;
    if (!is_const(e->g->dims, ix->v[b], &k) || k < -mid || k >= mid) return false;
    v[i] = x[(a * mid + (k < 0 ? k + mid : k)) * inner + z];
  }
  return true;
}
/* reduce over one dim, or over all of a 1-D value; scan of sum and prod. */
static bool reduce(tn_ox_env *e, const tn_node *n, frac *v, int count, int depth) {
  tn_dims *t = e->g->dims;
  const tn_type *from = tn_typeof(e->g, n->in[0]);
  const entry *in = items(e, n->in[0].id, depth + 1);
  const char *how = tn_attr_str(n, "combiner", "");
  int64_t axis[TN_MAX_RANK];
  int outer, inner, k = n->op == TN_OP_SCAN ? 1 : tn_attr_ints(n, "dims", axis, TN_MAX_RANK);
  tn_op op = !strcmp(how, "sum") ? TN_OP_ADD : !strcmp(how, "prod") ? TN_OP_MUL : !strcmp(how, "max") ? TN_OP_MAX : !strcmp(how, "min") ? TN_OP_MIN : TN_N_OPS;
  if (n->op == TN_OP_SCAN) axis[0] = tn_attr_int(n, "dim", 0);
  if (!in || in->n < 0 || k != 1 || op == TN_N_OPS) return false;
  around(from, axis[0], &outer, &inner);
  int mid = (int)from->dim[axis[0]];
  bool scan = n->op == TN_OP_SCAN;
  for (int i = 0; i < outer * inner; i++) {
    if (mid == 0 && op != TN_OP_ADD && op != TN_OP_MUL) return false;
    frac acc = mid ? unknown : whole(op == TN_OP_MUL);
    for (int m = 0; m < mid; m++) {
      int at = (i / inner * mid + m) * inner + i % inner;
      acc = m ? binary(t, op, (tn_dtype)from->dtype, acc, in->v[at]) : in->v[at];
      if (scan && at < count) v[at] = acc;
    }
    if (!scan && i < count) v[i] = acc;
  }
  return true;
}
static bool created(tn_ox_env *e, const tn_node *n, frac *v, int count) {
  tn_dims *t = e->g->dims;
  const tn_attr_val *x = tn_attr_get(n, n->op == TN_OP_FULL ? "value" : "start"), *s = tn_attr_get(n, "step");
  if (!x) return false;
  frac a = x->kind == TN_AT_DIM ? whole(x->u.d) : x->kind == TN_AT_FLOAT ? from_double(t, x->u.f) : whole(tn_dim_int(t, x->kind == TN_AT_BOOL ? x->u.b : x->u.i));
  frac step = whole(0);
  if (n->op == TN_OP_IOTA) step = !s ? unknown : s->kind == TN_AT_DIM ? whole(s->u.d) : s->kind == TN_AT_FLOAT ? from_double(t, s->u.f) : whole(tn_dim_int(t, s->u.i));
  for (int i = 0; i < count; i++) v[i] = n->op == TN_OP_FULL ? a : binary(t, TN_OP_ADD, TN_I64, a, binary(t, TN_OP_MUL, TN_I64, step, whole(i)));
  return true;
}
static bool walk(tn_ox_env *e, const tn_node *n, frac *v, int count, int depth) {
  const entry *in;
  switch (n->op) {
  case TN_OP_FULL: case TN_OP_IOTA: return created(e, n, v, count);
  case TN_OP_RESHAPE:
    in = items(e, n->in[0].id, depth + 1);
    if (!in || in->n != count) return false;
    if (count) memcpy(v, in->v, (size_t)count * sizeof *v);
    return true;
  case TN_OP_DYN:
    if (!n->target || (strcmp(n->target, "identity") && strcmp(n->target, "sizes"))) return false;
    in = items(e, n->in[0].id, depth + 1);
    if (!in || in->n != count) return false;
    if (count) memcpy(v, in->v, (size_t)count * sizeof *v);
    return true;
  case TN_OP_PERMUTE: case TN_OP_SLICE: case TN_OP_FLIP: return strided(e, n, v, count, depth);
  case TN_OP_CONCAT: return concat(e, n, v, count, depth);
  case TN_OP_TAKE: return take(e, n, v, count, depth);
  case TN_OP_REDUCE: case TN_OP_SCAN: return reduce(e, n, v, count, depth);
  case TN_OP_CAST: case TN_OP_COPY: case TN_OP_BROADCAST: return spread(e, n, v, count, depth);
  default: return tn_op_is_scalar(n->op) && spread(e, n, v, count, depth);
  }
}
/* NULL: out of memory or too deep. Elements that are not known have den 0. */
static const entry *items(tn_ox_env *e, uint32_t id, int depth) {
  tn_graph *g = e->g;
  const tn_type *ty = &g->value[id].type;
  entry *s = slot(e, id);
  if (!s || depth > MAX_DEPTH) return NULL;
  if (s->asked) return s;
  s->asked = true;
  s->n = -1;
  int64_t count = ty->dtype == TN_OBJ ? -1 : tn_type_numel(ty);
  if (count < 0 || count > MAX_ITEMS) return s;
  frac *v = TN_NEW(e->unit->arena, frac, count ? count : 1);
  if (!v) return NULL;
  const tn_tensor *t = fold(e, id, depth);
  if (t) {
    size_t size = tn_dtype_size((tn_dtype)ty->dtype);
    for (int64_t i = 0; i < count; i++) v[i] = from_num(g->dims, (tn_dtype)ty->dtype, tn_num_load((tn_dtype)ty->dtype, (const char *)t->data + (size_t)i * size));
  } else if (!walk(e, &g->node[g->value[id].node], v, (int)count, depth)) {
    for (int64_t i = 0; i < count; i++) v[i] = unknown;
  }
  s = slot(e, id);
  if (!s->v) { s->v = v; s->n = (int16_t)count; }
  return s;
}

/* ---- the doors ---- */
static bool is_number(const tn_ox *c, tn_ref r) {
  return c->b.st == TN_OK && r.id && tn_typeof(c->b.g, r)->dtype != TN_OBJ;
}
int tn_ox_items(tn_ox *c, tn_ref r, tn_dim *out, int max) {
  const entry *s = is_number(c, r) ? items(c->e, r.id, 0) : NULL;
  if (!s || s->n < 0 || s->n > max) return -1;
  for (int i = 0; i < s->n; i++) {
    if (s->v[i].den != 1) return -1;
    out[i] = s->v[i].num;
  }
  return s->n;
}
int tn_ox_consts(tn_ox *c, tn_ref r, int64_t *out, int max) {
  tn_dim v[MAX_ITEMS];
  int n = tn_ox_items(c, r, v, max < MAX_ITEMS ? max : MAX_ITEMS);
  for (int i = 0; i < n; i++)
    if (!tn_dim_as_int(c->b.g->dims, v[i], &out[i])) return -1;
  return n;
}
/* Marks the elements of r that are not known as sizes, all in one node, and remembers their symbols. */
static void mark_sizes(tn_ox *c, tn_ref r, frac *v, int n, int64_t lo) {
  tn_ref part[MAX_ITEMS], flat = tn_b_cast(&c->b, tn_b_reshape(&c->b, r, (tn_dim[]){n}, 1), TN_I64);
  tn_dim sym[MAX_ITEMS];
  uint32_t k = 0;
  for (int i = 0; i < n; i++) {
    if (v[i].den == 1) continue;
    part[k] = tn_b_slice(&c->b, flat, 0, i, 1, 1);
    sym[k] = tn_ox_fresh(c, lo < 0 ? INT32_MIN : lo, INT64_MAX);
    v[i] = whole(sym[k++]);
  }
  if (c->b.st != TN_OK) return;
  tn_ref all = tn_b_concat(&c->b, part, k, 0);
  if (c->b.st != TN_OK) return;
  tn_attr at[3] = {tn_mk_dims(c->b.g, "syms", sym, k), tn_mk_int("lo", lo), tn_mk_bool("effect", true)};
  tn_type ty = *tn_typeof(c->b.g, all);
  tn_ox_dyn(c, "sizes", &all, 1, at, 3, &ty, 1);
}
int tn_ox_sizes(tn_ox *c, tn_ref r, tn_dim *out, int max, int64_t lo) {
  if (!is_number(c, r)) {
    tn_ox_unsup(c, "a list of sizes that is no integer tensor");
    return -1;
  }
  const entry *s = items(c->e, r.id, 0);
  if (!s || s->n < 0 || s->n > max) {
    tn_ox_unsup(c, "the number of sizes is not known while compiling, or over %d", max);
    return -1;
  }
  int n = s->n;
  frac *v = s->v;
  bool all = true;
  for (int i = 0; i < n; i++) all &= v[i].den == 1;
  if (!all && tn_dtype_is_float((tn_dtype)tn_typeof(c->b.g, r)->dtype)) {
    tn_ox_unsup(c, "sizes as floating point numbers that are not known while compiling");
    return -1;
  }
  if (!all) mark_sizes(c, r, v, n, lo);
  for (int i = 0; i < n; i++) out[i] = v[i].num;
  return c->b.st == TN_OK ? n : -1;
}
tn_status tn_ox_items_carry(tn_ox_env *from, tn_diag *d, tn_ref r, tn_ox_env *to, tn_ref same) {
  const entry *s = tn_typeof(from->g, r)->dtype == TN_OBJ ? NULL : items(from, r.id, 0);
  bool any = false;
  for (int i = 0; s && i < s->n; i++) any |= s->v[i].den != 0;
  if (!any) return TN_OK;
  frac *v = s->v;
  int16_t n = s->n;
  entry *o = slot(to, same.id);
  if (!o) return tn_fail(d, TN_E_NOMEM, "known elements of a value");
  *o = (entry){.v = v, .n = n, .asked = true, .fold_asked = o->fold_asked, .t = o->t};
  return TN_OK;
}

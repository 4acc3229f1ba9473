/* graph_def.c: the body of a FUSED node becomes a definition.
 *
 * Idea: every value of the body is a function of an index vector. One value is the root and gets one axis per dim; the index vectors of
 * the others follow by walking ops backwards (operand index from result index) and forwards (result index from operand index). Lowering
 * a value at an index vector gives an expression; reductions and contractions give stages. Views (permute, broadcast, reshape, slice, flip,
 * pad) are only index arithmetic. A reduction takes an axis that exists already when extents agree and its stage does not depend on it:
 * that is what puts `max(j)`, `exp(i,j)`, `sum(j)` of a softmax on common axes. Classes are data here: the code asks for op kinds, never
 * for model shapes. Not done here: choosing loops, storage, vectors (sched_choose.c), or emitting (nest_build.c). */
#include <string.h>
#include <stdio.h>
#include "lower/lower.h"

typedef struct memo {
  uint32_t v;
  tn_kx_id guard;
  tn_kx_id *idx;
  tn_kx_id x;
  struct memo *next;
} memo;
typedef struct ctx {
  tn_diag *d;
  tn_arena *a;
  tn_graph *g; /* body */
  tn_dims *dims;
  tn_kdef *k;
  memo *bucket[256];
  uint32_t *uses;
  tn_kx_id **known;   /* [n_values] index vector known by propagation, or NULL */
  uint32_t *param_of; /* [n_values] parameter of a body input + 1 */
  int depth;
} ctx;

static tn_status value_at(ctx *c, tn_ref v, const tn_kx_id *idx, tn_kx_id guard, tn_kx_id *out);
#define NOMEM(c) tn_fail((c)->d, TN_E_NOMEM, "definition of %s", (c)->k->name)

static tn_kx_id op2(ctx *c, tn_scalar_op op, tn_kx_id a, tn_kx_id b) { return tn_kx_scalar(c->k, op, a, b, 0); }
static tn_kx_id and_guard(ctx *c, tn_kx_id a, tn_kx_id b) { return !a ? b : !b ? a : op2(c, TN_S_AND, a, b); }

/* Largest and smallest value of an affine index when axes run over their extents; false when unknown. */
static bool bounds(ctx *c, tn_kx_id x, tn_dim *hi) {
  tn_dim coef[TN_DEF_MAX_AXES], base;
  if (!tn_kx_affine(c->k, x, coef, &base)) return false;
  tn_dim h = base;
  for (uint32_t i = 0; i < c->k->n_axis; i++) {
    int64_t v;
    if (coef[i] == 0) continue;
    int64_t lo, up;
    if (!tn_dim_as_int(c->dims, coef[i], &v)) {
      tn_dim_bounds(c->dims, coef[i], &lo, &up);
      if (lo < 0) return false;
    } else if (v < 0)
      return false;
    h = tn_dim_add(c->dims, h, tn_dim_mul(c->dims, coef[i], tn_dim_sub(c->dims, c->k->axis[i].extent, 1)));
  }
  int64_t lo, up;
  tn_dim_bounds(c->dims, base, &lo, &up);
  if (lo < 0) return false;
  *hi = h;
  return h != TN_DIM_BAD;
}

static bool provably_less(ctx *c, tn_dim a, tn_dim b) { /* a < b for all symbol values */
  int64_t lo, hi;
  tn_dim diff = tn_dim_sub(c->dims, b, a);
  if (diff == TN_DIM_BAD) return false;
  tn_dim_bounds(c->dims, diff, &lo, &hi);
  return lo >= 1;
}

/* x / n and x % n of an index, split exactly where its terms allow it (x = q*n + r with 0 <= r < n), else by division. */
static void div_mod(ctx *c, tn_kx_id x, tn_dim n, tn_kx_id *q, tn_kx_id *r) {
  tn_dim coef[TN_DEF_MAX_AXES], base;
  if (n == 1) {
    *q = x;
    *r = tn_kx_i64(c->k, 0);
    return;
  }
  if (tn_kx_affine(c->k, x, coef, &base)) {
    tn_kx_id qs = tn_kx_i64(c->k, 0), rs = tn_kx_i64(c->k, 0);
    for (uint32_t i = 0; i < c->k->n_axis; i++) {
      if (coef[i] == 0) continue;
      tn_dim f;
      tn_kx_id ax = tn_kx_axis(c->k, i);
      if (tn_dim_divides(c->dims, n, coef[i], &f))
        qs = op2(c, TN_S_ADD, qs, op2(c, TN_S_MUL, ax, tn_kx_size(c->k, f)));
      else
        rs = op2(c, TN_S_ADD, rs, op2(c, TN_S_MUL, ax, tn_kx_size(c->k, coef[i])));
    }
    tn_dim f;
    if (base != 0) {
      if (tn_dim_divides(c->dims, n, base, &f))
        qs = op2(c, TN_S_ADD, qs, tn_kx_size(c->k, f));
      else
        rs = op2(c, TN_S_ADD, rs, tn_kx_size(c->k, base));
    }
    tn_dim hi;
    if (rs && bounds(c, rs, &hi) && provably_less(c, hi, n)) {
      *q = qs;
      *r = rs;
      return;
    }
  }
  *q = op2(c, TN_S_FLOORDIV, x, tn_kx_size(c->k, n));
  *r = op2(c, TN_S_REMAINDER, x, tn_kx_size(c->k, n));
}

/* Index into shape `to` of the element at `idx` of shape `from` (equal numel): groups of dims with equal products are handled apart. */
static tn_status reshape_index(ctx *c, const tn_type *from, const tn_kx_id *idx, const tn_type *to, tn_kx_id *out) {
  uint32_t i = 0, j = 0;
  while (i < from->rank || j < to->rank) {
    uint32_t i0 = i, j0 = j;
    tn_dim pi = 1, pj = 1;
    if (i < from->rank) pi = from->dim[i++];
    if (j < to->rank) pj = to->dim[j++];
    while (pi != pj) { /* extend the side that can still grow towards the other */
      tn_dim q;
      bool grow_i = i < from->rank && (j >= to->rank || tn_dim_divides(c->dims, pi, pj, &q));
      if (pi == 0 || pj == 0) grow_i = i < from->rank;
      if (grow_i)
        pi = tn_dim_mul(c->dims, pi, from->dim[i++]);
      else if (j < to->rank)
        pj = tn_dim_mul(c->dims, pj, to->dim[j++]);
      else if (i < from->rank)
        pi = tn_dim_mul(c->dims, pi, from->dim[i++]);
      else
        break;
    }
    if (j - j0 == 1 && i - i0 == 1) {
      out[j0] = idx[i0];
      continue;
    }
    tn_kx_id lin = tn_kx_i64(c->k, 0);
    for (uint32_t m = i0; m < i; m++) {
      lin = op2(c, TN_S_MUL, lin, tn_kx_size(c->k, from->dim[m]));
      lin = op2(c, TN_S_ADD, lin, idx[m]);
    }
    if (!lin) return NOMEM(c);
    /* keep it affine: rebuild lin as a flat sum when possible */
    tn_dim coef[TN_DEF_MAX_AXES], base;
    if (tn_kx_affine(c->k, lin, coef, &base)) {
      tn_kx_id s = tn_kx_size(c->k, base);
      for (uint32_t m = 0; m < c->k->n_axis; m++)
        if (coef[m] != 0) s = op2(c, TN_S_ADD, op2(c, TN_S_MUL, tn_kx_axis(c->k, m), tn_kx_size(c->k, coef[m])), s);
      lin = s;
    }
    for (uint32_t m = j; m-- > j0;) {
      if (m == j0) {
        out[m] = lin;
        break;
      }
      tn_kx_id q, r;
      div_mod(c, lin, to->dim[m], &q, &r);
      out[m] = r;
      lin = q;
      if (!lin || !r) return NOMEM(c);
    }
  }
  for (uint32_t m = 0; m < to->rank; m++) {
    if (to->dim[m] == 1) out[m] = tn_kx_i64(c->k, 0);
    if (!out[m]) return NOMEM(c);
  }
  return TN_OK;
}

/* Operand index of an eltwise-broadcast operand of type `x` from the result index of rank `rank`. */
static void broadcast_index(ctx *c, const tn_type *x, uint32_t rank, const tn_kx_id *idx, tn_kx_id *out) {
  for (uint32_t i = 0; i < x->rank; i++) out[i] = x->dim[i] == 1 ? tn_kx_i64(c->k, 0) : idx[rank - x->rank + i];
}

/* Indices of operand 0 of a layout node from its result index. For pad: *cond = inside. */
static tn_status layout_index(ctx *c, const tn_node *n, const tn_kx_id *idx, tn_kx_id *out, tn_kx_id *cond) {
  const tn_type *x = tn_typeof(c->g, n->in[0]), *y = &c->g->value[n->out].type;
  tn_dim a[TN_MAX_RANK], b[TN_MAX_RANK];
  int na;
  *cond = 0;
  switch (n->op) {
    case TN_OP_PERMUTE:
      na = tn_attr_dims(n, "perm", a, TN_MAX_RANK);
      for (int i = 0; i < na; i++) out[a[i]] = idx[i];
      return TN_OK;
    case TN_OP_BROADCAST: broadcast_index(c, x, y->rank, idx, out); return TN_OK;
    case TN_OP_RESHAPE: return reshape_index(c, y, idx, x, out);
    case TN_OP_SLICE: {
      int64_t dim = tn_attr_int(n, "dim", 0), step = tn_attr_int(n, "step", 1);
      if (tn_attr_dims(n, "start", a, 1) != 1) return tn_fail(c->d, TN_E_VERIFY, "slice without start");
      for (uint32_t i = 0; i < x->rank; i++) out[i] = idx[i];
      out[dim] = op2(c, TN_S_ADD, op2(c, TN_S_MUL, idx[dim], tn_kx_i64(c->k, step)), tn_kx_size(c->k, a[0]));
      return TN_OK;
    }
    case TN_OP_FLIP:
      na = tn_attr_dims(n, "dims", a, TN_MAX_RANK);
      for (uint32_t i = 0; i < x->rank; i++) out[i] = idx[i];
      for (int i = 0; i < na; i++) out[a[i]] = op2(c, TN_S_SUB, tn_kx_size(c->k, tn_dim_sub(c->dims, x->dim[a[i]], 1)), idx[a[i]]);
      return TN_OK;
    case TN_OP_PAD:
      tn_attr_dims(n, "lo", a, TN_MAX_RANK);
      tn_attr_dims(n, "hi", b, TN_MAX_RANK);
      for (uint32_t i = 0; i < x->rank; i++) {
        out[i] = op2(c, TN_S_SUB, idx[i], tn_kx_size(c->k, a[i]));
        if (a[i] != 0) *cond = and_guard(c, *cond, op2(c, TN_S_GE, out[i], tn_kx_i64(c->k, 0)));
        if (b[i] != 0) *cond = and_guard(c, *cond, op2(c, TN_S_LT, out[i], tn_kx_size(c->k, x->dim[i])));
      }
      return TN_OK;
    default: return tn_fail(c->d, TN_E_INTERNAL, "%s is no layout op", tn_op_name(n->op));
  }
}

/* A reduction axis of this extent for a stage whose index depends on `deps` and that already reduces over `taken`. */
static uint32_t red_axis(ctx *c, tn_dim extent, uint32_t deps, uint32_t taken, const char *name) {
  for (uint32_t i = c->k->n_axis; i-- > 0;)
    if (c->k->axis[i].extent == extent && !(deps >> i & 1) && !(taken >> i & 1)) return i;
  char buf[32];
  snprintf(buf, sizeof buf, "%s%u", name, c->k->n_axis);
  return tn_kdef_add_axis(c->k, buf, extent);
}

static uint32_t deps_of(ctx *c, const tn_kx_id *idx, uint32_t n, tn_kx_id guard) {
  uint32_t *deps = TN_NEW(c->a, uint32_t, c->k->n_x), m = 0;
  if (!deps) return 0;
  tn_kdef_deps(c->k, deps);
  for (uint32_t i = 0; i < n; i++) m |= deps[idx[i]];
  return guard ? m | deps[guard] : m;
}

static tn_status new_stage(ctx *c, const char *name, tn_dtype t, tn_combiner comb, uint32_t spatial, const uint8_t *red, uint32_t n_red,
                           tn_kx_id root, tn_kx_id *out) {
  tn_kstage s = {.name = name, .dtype = (uint8_t)t, .combiner = (uint8_t)comb, .root = root, .out = -1, .n_red = (uint8_t)n_red};
  for (uint32_t i = 0; i < c->k->n_axis; i++)
    if (spatial >> i & 1) s.axis[s.n_axis++] = (uint8_t)i;
  if (n_red) memcpy(s.red, red, n_red);
  uint32_t id = root ? tn_kdef_add_stage(c->k, s) : UINT32_MAX;
  if (id == UINT32_MAX) return NOMEM(c);
  *out = tn_kx_stage(c->k, id);
  return *out ? TN_OK : NOMEM(c);
}

static tn_dtype acc_dtype(tn_dtype t) { return t == TN_F16 || t == TN_BF16 ? TN_F32 : t; }

static tn_status reduce_at(ctx *c, const tn_node *n, const tn_kx_id *idx, tn_kx_id guard, tn_kx_id *out) {
  const tn_type *x = tn_typeof(c->g, n->in[0]), *y = &c->g->value[n->out].type;
  tn_dim dims[TN_MAX_RANK];
  int nd = tn_attr_dims(n, "dims", dims, TN_MAX_RANK);
  bool keep = tn_attr_bool(n, "keepdim", false), red[TN_MAX_RANK] = {0};
  tn_combiner comb;
  const char *cs = tn_attr_str(n, "combiner", "");
  if (!tn_combiner_find(cs, strlen(cs), &comb)) return tn_fail(c->d, TN_E_VERIFY, "reduce: combiner '%s'", cs);
  for (int i = 0; i < nd; i++) red[dims[i]] = true;
  uint32_t deps = deps_of(c, idx, y->rank, guard), taken = 0, n_red = 0, j = 0;
  uint8_t raxis[TN_DEF_MAX_AXES];
  tn_kx_id xi[TN_MAX_RANK];
  for (uint32_t i = 0; i < x->rank; i++) {
    if (!red[i]) {
      xi[i] = idx[j++];
      continue;
    }
    j += keep;
    if (x->dim[i] == 1) {
      xi[i] = tn_kx_i64(c->k, 0);
      continue;
    }
    uint32_t ax = red_axis(c, x->dim[i], deps, taken, "r");
    if (ax == UINT32_MAX) return tn_fail(c->d, TN_E_UNSUPPORTED, "kernel %s needs more than %d axes", c->k->name, TN_DEF_MAX_AXES);
    taken |= 1u << ax;
    raxis[n_red++] = (uint8_t)ax;
    xi[i] = tn_kx_axis(c->k, ax);
  }
  tn_kx_id root;
  TN_TRY(value_at(c, n->in[0], xi, guard, &root));
  bool arg = comb == TN_C_ARGMAX || comb == TN_C_ARGMIN;
  tn_dtype t = (tn_dtype)x->dtype, at = acc_dtype(t);
  if (n_red == 0) {
    *out = arg ? tn_kx_i64(c->k, 0) : root;
    return *out ? TN_OK : NOMEM(c);
  }
  if (!arg) root = tn_kx_cast(c->k, root, at);
  TN_TRY(new_stage(c, cs, arg ? TN_I64 : at, comb, deps, raxis, n_red, root, out));
  if (!arg) *out = tn_kx_cast(c->k, *out, t);
  return *out ? TN_OK : NOMEM(c);
}

static bool is_exp(ctx *c, tn_kx_id x) {
  const tn_kx *e = &c->k->x[x];
  if (e->op == TN_KX_STAGE && !c->k->stage[e->ref].n_red) e = &c->k->x[c->k->stage[e->ref].root];
  return e->op == TN_KX_SCALAR && e->sop == TN_S_EXP;
}

static tn_status contract_at(ctx *c, const tn_node *n, const tn_kx_id *idx, tn_kx_id guard, tn_kx_id *out) {
  const char *lab = tn_attr_str(n, "labels", "");
  const char *comma = strchr(lab, ','), *arrow = strstr(lab, "->");
  if (!comma || !arrow) return tn_fail(c->d, TN_E_VERIFY, "contract: labels '%s'", lab);
  tn_kx_id at[256] = {0};
  const tn_type *y = &c->g->value[n->out].type;
  for (uint32_t i = 0; i < y->rank; i++) at[(unsigned char)arrow[2 + i]] = idx[i];
  uint32_t deps = deps_of(c, idx, y->rank, guard), taken = 0, n_red = 0;
  uint8_t raxis[TN_DEF_MAX_AXES];
  tn_kx_id v[2], oi[TN_MAX_RANK];
  const char *ops[2] = {lab, comma + 1};
  for (int o = 0; o < 2; o++) {
    const tn_type *x = tn_typeof(c->g, n->in[o]);
    for (uint32_t i = 0; i < x->rank; i++) {
      unsigned char l = (unsigned char)ops[o][i];
      if (at[l] || x->dim[i] == 1) continue;
      uint32_t ax = red_axis(c, x->dim[i], deps, taken, "k");
      if (ax == UINT32_MAX) return tn_fail(c->d, TN_E_UNSUPPORTED, "kernel %s needs more than %d axes", c->k->name, TN_DEF_MAX_AXES);
      taken |= 1u << ax;
      raxis[n_red++] = (uint8_t)ax;
      at[l] = tn_kx_axis(c->k, ax);
    }
  }
  tn_dtype t = (tn_dtype)y->dtype, acc = acc_dtype(t);
  for (int o = 0; o < 2; o++) {
    const tn_type *x = tn_typeof(c->g, n->in[o]);
    for (uint32_t i = 0; i < x->rank; i++) oi[i] = x->dim[i] == 1 ? tn_kx_i64(c->k, 0) : at[(unsigned char)ops[o][i]];
    TN_TRY(value_at(c, n->in[o], oi, guard, &v[o]));
    v[o] = tn_kx_cast(c->k, v[o], acc);
  }
  /* sum(exp(..)/y * z) = sum(exp(..) * z) / y where y does not vary in the sum: a softmax is normalised after the product, as flash
   * attention does */
  tn_kx_id by = 0;
  for (int o = 0; o < 2 && acc == t; o++) {
    const tn_kx e = c->k->x[v[o]];
    if (e.op != TN_KX_SCALAR || e.sop != TN_S_DIV || !is_exp(c, e.arg[0]) || (deps_of(c, &e.arg[1], 1, 0) & taken)) continue;
    v[o] = e.arg[0];
    by = e.arg[1];
    break;
  }
  tn_kx_id root = op2(c, TN_S_MUL, v[0], v[1]);
  if (n_red == 0) {
    *out = tn_kx_cast(c->k, by ? op2(c, TN_S_DIV, root, by) : root, t);
    return *out ? TN_OK : NOMEM(c);
  }
  TN_TRY(new_stage(c, "acc", acc, TN_C_SUM, deps, raxis, n_red, root, out));
  if (by) *out = op2(c, TN_S_DIV, *out, by);
  if (!*out) return NOMEM(c);
  *out = tn_kx_cast(c->k, *out, t);
  return *out ? TN_OK : NOMEM(c);
}

/* Input position o*stride + u*dilation - pad_lo along one spatial dim, with its guard when padding can reach outside. */
static tn_kx_id window_pos(ctx *c, tn_kx_id o, tn_kx_id u, tn_dim stride, tn_dim dil, tn_dim lo, tn_dim out_n, tn_dim kern, tn_dim in_n,
                           tn_kx_id *guard) {
  tn_kx_id p = op2(c, TN_S_ADD, op2(c, TN_S_MUL, o, tn_kx_size(c->k, stride)), op2(c, TN_S_MUL, u, tn_kx_size(c->k, dil)));
  if (lo != 0) {
    p = op2(c, TN_S_SUB, p, tn_kx_size(c->k, lo));
    *guard = and_guard(c, *guard, op2(c, TN_S_GE, p, tn_kx_i64(c->k, 0)));
  }
  /* highest position: (out_n-1)*stride + (kern-1)*dil - lo */
  tn_dims *ds = c->dims;
  tn_dim hi =
      tn_dim_sub(ds, tn_dim_add(ds, tn_dim_mul(ds, tn_dim_sub(ds, out_n, 1), stride), tn_dim_mul(ds, tn_dim_sub(ds, kern, 1), dil)), lo);
  if (hi == TN_DIM_BAD || !provably_less(c, hi, in_n)) *guard = and_guard(c, *guard, op2(c, TN_S_LT, p, tn_kx_size(c->k, in_n)));
  return p;
}

static tn_status conv_at(ctx *c, const tn_node *n, const tn_kx_id *idx, tn_kx_id guard, tn_kx_id *out) {
  const tn_type *x = tn_typeof(c->g, n->in[0]), *w = tn_typeof(c->g, n->in[1]), *y = &c->g->value[n->out].type;
  tn_dim st[8], pad[16], dil[8];
  int ns = (int)x->rank - 2;
  if (ns < 1 || ns > 3 || tn_attr_dims(n, "stride", st, 8) != ns || tn_attr_dims(n, "dilation", dil, 8) != ns ||
      tn_attr_dims(n, "padding", pad, 16) != 2 * ns)
    return tn_fail(c->d, TN_E_VERIFY, "conv: attributes do not fit rank %d", x->rank);
  int64_t groups = tn_attr_int(n, "groups", 1);
  bool tr = n->op == TN_OP_CONVT;
  uint32_t deps = deps_of(c, idx, y->rank, guard), taken = 0, n_red = 0;
  uint8_t raxis[TN_DEF_MAX_AXES];
  /* output channel f = group * og + fo */
  tn_dim og = tr ? w->dim[1] : tn_dim_floordiv(c->dims, w->dim[0], groups);
  tn_dim cg = tr ? tn_dim_floordiv(c->dims, w->dim[0], groups) : w->dim[1];
  tn_kx_id grp = tn_kx_i64(c->k, 0), fo = idx[1];
  if (groups > 1) div_mod(c, idx[1], og, &grp, &fo);
  tn_kx_id ku[3], ci = tn_kx_i64(c->k, 0);
  for (int s = 0; s < ns; s++) {
    if (w->dim[2 + s] == 1) {
      ku[s] = tn_kx_i64(c->k, 0);
      continue;
    }
    char nm[8];
    snprintf(nm, sizeof nm, "u%u", c->k->n_axis);
    uint32_t ax = tn_kdef_add_axis(c->k, nm, w->dim[2 + s]);
    if (ax == UINT32_MAX) return NOMEM(c);
    raxis[n_red++] = (uint8_t)ax;
    taken |= 1u << ax;
    ku[s] = tn_kx_axis(c->k, ax);
  }
  if (cg != 1) {
    char nm[8];
    snprintf(nm, sizeof nm, "c%u", c->k->n_axis);
    uint32_t ax = tn_kdef_add_axis(c->k, nm, cg);
    if (ax == UINT32_MAX) return NOMEM(c);
    raxis[n_red++] = (uint8_t)ax;
    taken |= 1u << ax;
    ci = tn_kx_axis(c->k, ax);
  }
  tn_kx_id xi[TN_MAX_RANK], wi[TN_MAX_RANK], gd = guard, v[2];
  xi[0] = idx[0];
  xi[1] = op2(c, TN_S_ADD, op2(c, TN_S_MUL, grp, tn_kx_size(c->k, cg)), ci);
  wi[0] = tr ? xi[1] : idx[1];
  wi[1] = tr ? fo : ci;
  for (int s = 0; s < ns; s++) {
    wi[2 + s] = ku[s];
    if (!tr) {
      xi[2 + s] = window_pos(c, idx[2 + s], ku[s], st[s], dil[s], pad[2 * s], y->dim[2 + s], w->dim[2 + s], x->dim[2 + s], &gd);
      continue;
    }
    /* transposed: position p with p*stride = o + pad - u*dilation */
    tn_kx_id q =
        op2(c, TN_S_SUB, op2(c, TN_S_ADD, idx[2 + s], tn_kx_size(c->k, pad[2 * s])), op2(c, TN_S_MUL, ku[s], tn_kx_size(c->k, dil[s])));
    xi[2 + s] = op2(c, TN_S_FLOORDIV, q, tn_kx_size(c->k, st[s]));
    gd = and_guard(c, gd, op2(c, TN_S_GE, q, tn_kx_i64(c->k, 0)));
    gd = and_guard(c, gd, op2(c, TN_S_LT, xi[2 + s], tn_kx_size(c->k, x->dim[2 + s])));
    if (st[s] != 1) gd = and_guard(c, gd, op2(c, TN_S_EQ, op2(c, TN_S_REMAINDER, q, tn_kx_size(c->k, st[s])), tn_kx_i64(c->k, 0)));
  }
  tn_dtype t = (tn_dtype)y->dtype, acc = acc_dtype(t);
  TN_TRY(value_at(c, n->in[0], xi, gd, &v[0]));
  TN_TRY(value_at(c, n->in[1], wi, guard, &v[1]));
  tn_kx_id root = op2(c, TN_S_MUL, tn_kx_cast(c->k, v[0], acc), tn_kx_cast(c->k, v[1], acc));
  if (n_red == 0) {
    *out = tn_kx_cast(c->k, root, t);
    return *out ? TN_OK : NOMEM(c);
  }
  TN_TRY(new_stage(c, "acc", acc, TN_C_SUM, deps, raxis, n_red, root, out));
  *out = tn_kx_cast(c->k, *out, t);
  return *out ? TN_OK : NOMEM(c);
}

static tn_status window_at(ctx *c, const tn_node *n, const tn_kx_id *idx, tn_kx_id guard, tn_kx_id *out) {
  const tn_type *x = tn_typeof(c->g, n->in[0]), *y = &c->g->value[n->out].type;
  tn_dim kern[8], st[8], dil[8], pad[16];
  int ns = tn_attr_dims(n, "kernel", kern, 8);
  const char *cs = tn_attr_str(n, "combiner", "");
  tn_combiner comb;
  if (ns < 1 || ns > 3 || tn_attr_dims(n, "stride", st, 8) != ns || tn_attr_dims(n, "dilation", dil, 8) != ns ||
      tn_attr_dims(n, "padding", pad, 16) != 2 * ns || !tn_combiner_find(cs, strlen(cs), &comb))
    return tn_fail(c->d, TN_E_VERIFY, "window: attributes do not fit");
  uint32_t deps = deps_of(c, idx, y->rank, guard), n_red = 0, off = x->rank - (uint32_t)ns;
  uint8_t raxis[TN_DEF_MAX_AXES];
  tn_kx_id xi[TN_MAX_RANK], gd = guard, root;
  for (uint32_t i = 0; i < off; i++) xi[i] = idx[i];
  for (int s = 0; s < ns; s++) {
    tn_kx_id u = tn_kx_i64(c->k, 0);
    if (kern[s] != 1) {
      char nm[8];
      snprintf(nm, sizeof nm, "u%u", c->k->n_axis);
      uint32_t ax = tn_kdef_add_axis(c->k, nm, kern[s]);
      if (ax == UINT32_MAX) return NOMEM(c);
      raxis[n_red++] = (uint8_t)ax;
      u = tn_kx_axis(c->k, ax);
    }
    xi[off + (uint32_t)s] = window_pos(c, idx[off + (uint32_t)s], u, st[s], dil[s], pad[2 * s], y->dim[off + (uint32_t)s], kern[s],
                                       x->dim[off + (uint32_t)s], &gd);
  }
  tn_dtype t = (tn_dtype)x->dtype, acc = acc_dtype(t);
  TN_TRY(value_at(c, n->in[0], xi, gd, &root));
  root = tn_kx_cast(c->k, root, acc);
  if (gd != guard) root = tn_kx_scalar(c->k, TN_S_SELECT, gd, root, tn_kx_const(c->k, acc, tn_combiner_identity(comb, acc)));
  if (n_red == 0) {
    *out = tn_kx_cast(c->k, root, t);
    return *out ? TN_OK : NOMEM(c);
  }
  TN_TRY(new_stage(c, cs, acc, comb, deps, raxis, n_red, root, out));
  *out = tn_kx_cast(c->k, *out, t);
  return *out ? TN_OK : NOMEM(c);
}

static tn_num num_attr(const tn_node *n, const char *name, tn_dtype t) {
  tn_num r;
  const tn_attr_val *v = tn_attr_get(n, name);
  if (v && v->kind == TN_AT_FLOAT) {
    r.f = v->u.f;
    return tn_num_cast(r, TN_F64, t);
  }
  r.i = tn_attr_int(n, name, 0);
  return tn_num_cast(r, TN_I64, t);
}

static bool expensive(tn_op op) {
  switch (op) {
    case TN_OP_EXP:
    case TN_OP_EXP2:
    case TN_OP_EXPM1:
    case TN_OP_LOG:
    case TN_OP_LOG2:
    case TN_OP_LOG10:
    case TN_OP_LOG1P:
    case TN_OP_SIN:
    case TN_OP_COS:
    case TN_OP_TAN:
    case TN_OP_ASIN:
    case TN_OP_ACOS:
    case TN_OP_ATAN:
    case TN_OP_SINH:
    case TN_OP_COSH:
    case TN_OP_TANH:
    case TN_OP_ASINH:
    case TN_OP_ACOSH:
    case TN_OP_ATANH:
    case TN_OP_ERF:
    case TN_OP_ERFC:
    case TN_OP_SIGMOID:
    case TN_OP_POW:
    case TN_OP_ATAN2: return true;
    default: return false;
  }
}

/* Guard of loads at `index` into n places: memory without places is not touched (the index raises its error). 0: there is always one. */
static tn_kx_id not_empty(ctx *c, tn_kx_id index, tn_dim n) {
  int64_t lo, hi;
  tn_dim_bounds(c->dims, n, &lo, &hi);
  if (n == 0) return op2(c, TN_S_LT, index, tn_kx_i64(c->k, 0)); /* never, but the index stays in the kernel */
  return lo >= 1 ? 0 : op2(c, TN_S_GT, tn_kx_size(c->k, n), tn_kx_i64(c->k, 0));
}

static tn_status compute(ctx *c, tn_ref v, const tn_kx_id *idx, tn_kx_id guard, tn_kx_id *out) {
  const tn_value *val = &c->g->value[v.id];
  const tn_node *n = &c->g->node[val->node];
  tn_dtype t = (tn_dtype)val->type.dtype;
  tn_kx_id oi[TN_MAX_RANK], a[3] = {0};
  if (tn_op_is_scalar(n->op)) {
    for (int i = 0; i < n->n_in; i++) {
      broadcast_index(c, tn_typeof(c->g, n->in[i]), val->type.rank, idx, oi);
      TN_TRY(value_at(c, n->in[i], oi, guard, &a[i]));
    }
    /* low precision floats compute in f32: casts around the function */
    tn_dtype ot = (tn_dtype)tn_typeof(c->g, n->in[n->op == TN_OP_SELECT ? 1 : 0])->dtype;
    if (acc_dtype(ot) != ot && n->op != TN_OP_SELECT)
      for (int i = 0; i < n->n_in; i++) a[i] = tn_kx_cast(c->k, a[i], acc_dtype(ot));
    if (n->op == TN_OP_DIVISOR && guard) a[0] = tn_kx_scalar(c->k, TN_S_SELECT, guard, a[0], tn_kx_const(c->k, ot, (tn_num){.i = 1}));
    *out = tn_kx_scalar(c->k, (tn_scalar_op)n->op, a[0], a[1], a[2]);
    if (*out) *out = tn_kx_cast(c->k, *out, t);
    if (!*out) return NOMEM(c);
    if (expensive(n->op) && c->uses[v.id] > 1 && !guard) { /* used twice: a stage of its own, so that a schedule may keep it */
      uint32_t m = deps_of(c, out, 1, 0);
      return new_stage(c, tn_op_name(n->op), t, TN_C_SUM, m, NULL, 0, *out, out);
    }
    return TN_OK;
  }
  switch (n->op) {
    case TN_OP_INPUT: {
      tn_num zero = {.i = 0};
      *out = tn_kx_load(c->k, c->param_of[v.id] - 1, idx, guard, zero);
      return *out ? TN_OK : NOMEM(c);
    }
    case TN_OP_CONST:
      if (n->data->bytes != tn_dtype_size(t)) return tn_fail(c->d, TN_E_INTERNAL, "constant of %zu bytes inside a kernel", n->data->bytes);
      *out = tn_kx_const(c->k, t, tn_num_load(t, n->data->p));
      return *out ? TN_OK : NOMEM(c);
    case TN_OP_FULL: {
      const tn_attr_val *av = tn_attr_get(n, "value");
      if (av && av->kind == TN_AT_DIM)
        *out = tn_kx_cast(c->k, tn_kx_size(c->k, av->u.d), t);
      else
        *out = tn_kx_const(c->k, t, num_attr(n, "value", t));
      return *out ? TN_OK : NOMEM(c);
    }
    case TN_OP_IOTA: {
      tn_dtype ct = tn_dtype_is_float(t) ? acc_dtype(t) : TN_I64;
      const tn_attr_val *sv = tn_attr_get(n, "start");
      tn_kx_id start =
          sv && sv->kind == TN_AT_DIM ? tn_kx_cast(c->k, tn_kx_size(c->k, sv->u.d), ct) : tn_kx_const(c->k, ct, num_attr(n, "start", ct));
      tn_kx_id x = tn_kx_cast(c->k, idx[0], ct);
      x = op2(c, TN_S_MUL, x, tn_kx_const(c->k, ct, num_attr(n, "step", ct)));
      *out = tn_kx_cast(c->k, op2(c, TN_S_ADD, x, start), t);
      return *out ? TN_OK : NOMEM(c);
    }
    case TN_OP_CAST:
      TN_TRY(value_at(c, n->in[0], idx, guard, out));
      *out = tn_kx_cast(c->k, *out, t);
      return *out ? TN_OK : NOMEM(c);
    case TN_OP_COPY: return value_at(c, n->in[0], idx, guard, out);
    case TN_OP_PERMUTE:
    case TN_OP_BROADCAST:
    case TN_OP_RESHAPE:
    case TN_OP_SLICE:
    case TN_OP_FLIP:
    case TN_OP_PAD: {
      tn_kx_id cond;
      TN_TRY(layout_index(c, n, idx, oi, &cond));
      TN_TRY(value_at(c, n->in[0], oi, and_guard(c, guard, cond), out));
      if (cond) *out = tn_kx_scalar(c->k, TN_S_SELECT, cond, *out, tn_kx_const(c->k, t, num_attr(n, "value", t)));
      return *out ? TN_OK : NOMEM(c);
    }
    case TN_OP_TAKE:
    case TN_OP_GATHER: {
      const tn_type *x = tn_typeof(c->g, n->in[0]), *it = tn_typeof(c->g, n->in[1]);
      int64_t dim = tn_attr_int(n, "dim", 0);
      tn_kx_id ii[TN_MAX_RANK], e;
      if (n->op == TN_OP_GATHER)
        memcpy(ii, idx, it->rank * sizeof *ii);
      else
        memcpy(ii, idx + dim, it->rank * sizeof *ii);
      TN_TRY(value_at(c, n->in[1], ii, guard, &e));
      e = tn_kx_index(c->k, e, x->dim[dim]);
      guard = and_guard(c, guard, not_empty(c, e, x->dim[dim]));
      for (uint32_t i = 0; i < x->rank; i++)
        oi[i] = i == (uint32_t)dim ? e : n->op == TN_OP_GATHER || i < (uint32_t)dim ? idx[i] : idx[i + it->rank - 1];
      return value_at(c, n->in[0], oi, guard, out);
    }
    case TN_OP_INDEX: {
      const tn_type *x = tn_typeof(c->g, n->in[0]);
      tn_dim dims[TN_MAX_RANK];
      int nd = tn_attr_dims(n, "dims", dims, TN_MAX_RANK);
      uint32_t br = 0;
      tn_kx_id inside = guard;
      bool is[TN_MAX_RANK] = {0}, adjacent = true;
      for (int i = 0; i < nd; i++) {
        is[dims[i]] = true;
        uint32_t r = tn_typeof(c->g, n->in[1 + i])->rank;
        if (r > br) br = r;
      }
      for (int i = 1; i < nd; i++) adjacent &= dims[i] == dims[i - 1] + 1;
      uint32_t pos = adjacent && nd ? (uint32_t)dims[0] : 0, o = 0; /* where the broadcast index dims stand in the result */
      for (uint32_t i = 0; i < x->rank; i++) {
        if (is[i]) continue;
        if (o == pos) o += br;
        oi[i] = idx[o++];
      }
      for (int i = 0; i < nd; i++) {
        tn_kx_id ii[TN_MAX_RANK], e;
        broadcast_index(c, tn_typeof(c->g, n->in[1 + i]), br, idx + pos, ii);
        TN_TRY(value_at(c, n->in[1 + i], ii, guard, &e));
        oi[dims[i]] = tn_kx_index(c->k, e, x->dim[dims[i]]);
        inside = and_guard(c, inside, not_empty(c, oi[dims[i]], x->dim[dims[i]]));
      }
      return value_at(c, n->in[0], oi, inside, out);
    }
    case TN_OP_REDUCE: return reduce_at(c, n, idx, guard, out);
    case TN_OP_CONTRACT: return contract_at(c, n, idx, guard, out);
    case TN_OP_CONV:
    case TN_OP_CONVT: return conv_at(c, n, idx, guard, out);
    case TN_OP_WINDOW: return window_at(c, n, idx, guard, out);
    default: return tn_fail(c->d, TN_E_UNSUPPORTED, "%s inside a kernel body", tn_op_name(n->op));
  }
}

static tn_status value_at(ctx *c, tn_ref v, const tn_kx_id *idx, tn_kx_id guard, tn_kx_id *out) {
  const tn_type *t = tn_typeof(c->g, v);
  uint64_t h = v.id * 31u + guard;
  for (uint32_t i = 0; i < t->rank; i++) {
    if (!idx[i]) return NOMEM(c);
    h = h * 1099511628211ull + idx[i];
  }
  memo **b = &c->bucket[(h ^ h >> 17) & 255];
  for (memo *m = *b; m; m = m->next)
    if (m->v == v.id && m->guard == guard && !memcmp(m->idx, idx, t->rank * sizeof *idx)) {
      *out = m->x;
      return TN_OK;
    }
  if (++c->depth > 400) return tn_fail(c->d, TN_E_UNSUPPORTED, "kernel %s is nested too deeply", c->k->name);
  tn_kx_id keep[TN_MAX_RANK];
  memcpy(keep, idx, t->rank * sizeof *idx);
  for (uint32_t i = 0; i < t->rank; i++)
    if (t->dim[i] == 1) keep[i] = tn_kx_i64(c->k, 0);
  tn_status s = compute(c, v, keep, guard, out);
  c->depth--;
  if (s != TN_OK) return s;
  memo *m = TN_NEW(c->a, memo, 1);
  tn_kx_id *mi = TN_NEW(c->a, tn_kx_id, t->rank + 1);
  if (!m || !mi) return NOMEM(c);
  memcpy(mi, idx, t->rank * sizeof *idx);
  *m = (memo){.v = v.id, .guard = guard, .idx = mi, .x = *out, .next = *b};
  *b = m;
  return TN_OK;
}

/* ---- index vectors of all values from the root's ---- */
static tn_status know(ctx *c, uint32_t v, const tn_kx_id *idx, bool *changed) {
  if (c->known[v]) return TN_OK;
  uint32_t r = c->g->value[v].type.rank;
  c->known[v] = TN_NEW(c->a, tn_kx_id, r + 1);
  if (!c->known[v]) return NOMEM(c);
  for (uint32_t i = 0; i < r; i++) c->known[v][i] = c->g->value[v].type.dim[i] == 1 ? tn_kx_i64(c->k, 0) : idx[i];
  *changed = true;
  return TN_OK;
}

static bool same_shape(const tn_type *a, const tn_type *b) {
  if (a->rank != b->rank) return false;
  for (uint32_t i = 0; i < a->rank; i++)
    if (a->dim[i] != b->dim[i]) return false;
  return true;
}

static tn_status propagate(ctx *c) {
  bool changed = true;
  tn_kx_id t[TN_MAX_RANK], cond;
  for (int round = 0; changed && round < 64; round++) {
    changed = false;
    for (uint32_t i = 1; i < c->g->n_nodes; i++) {
      const tn_node *n = &c->g->node[i];
      if (n->n_out == 0 || n->op == TN_OP_INPUT) continue;
      const tn_type *y = &c->g->value[n->out].type;
      bool elt = tn_op_is_scalar(n->op) || n->op == TN_OP_CAST || n->op == TN_OP_COPY;
      for (int o = 0; o < n->n_in; o++) {
        const tn_type *x = tn_typeof(c->g, n->in[o]);
        tn_kx_id *kx = c->known[n->in[o].id], *ky = c->known[n->out];
        if (elt) {
          if (ky && !kx) {
            broadcast_index(c, x, y->rank, ky, t);
            TN_TRY(know(c, n->in[o].id, t, &changed));
          }
          if (kx && !ky && same_shape(x, y)) TN_TRY(know(c, n->out, kx, &changed));
        } else if (n->op == TN_OP_PERMUTE) {
          tn_dim p[TN_MAX_RANK];
          tn_attr_dims(n, "perm", p, TN_MAX_RANK);
          for (uint32_t j = 0; j < y->rank; j++) {
            if (ky)
              t[p[j]] = ky[j];
            else if (kx)
              t[j] = kx[p[j]];
          }
          if (ky && !kx) TN_TRY(know(c, n->in[o].id, t, &changed));
          if (kx && !ky) TN_TRY(know(c, n->out, t, &changed));
        } else if (n->op == TN_OP_RESHAPE) {
          if (ky && !kx) {
            TN_TRY(reshape_index(c, y, ky, x, t));
            TN_TRY(know(c, n->in[o].id, t, &changed));
          }
          if (kx && !ky) {
            TN_TRY(reshape_index(c, x, kx, y, t));
            TN_TRY(know(c, n->out, t, &changed));
          }
        } else if (n->op == TN_OP_BROADCAST || n->op == TN_OP_SLICE || n->op == TN_OP_FLIP) {
          if (ky && !kx) {
            TN_TRY(layout_index(c, n, ky, t, &cond));
            TN_TRY(know(c, n->in[o].id, t, &changed));
          }
          if (kx && !ky && n->op == TN_OP_BROADCAST && same_shape(x, y)) TN_TRY(know(c, n->out, kx, &changed));
        } else if (n->op == TN_OP_REDUCE && kx && !ky) {
          tn_dim dd[TN_MAX_RANK];
          int nd = tn_attr_dims(n, "dims", dd, TN_MAX_RANK);
          bool keep = tn_attr_bool(n, "keepdim", false), red[TN_MAX_RANK] = {0};
          for (int j = 0; j < nd; j++) red[dd[j]] = true;
          uint32_t m = 0;
          for (uint32_t j = 0; j < x->rank; j++) {
            if (!red[j])
              t[m++] = kx[j];
            else if (keep)
              t[m++] = tn_kx_i64(c->k, 0);
          }
          TN_TRY(know(c, n->out, t, &changed));
        }
      }
    }
  }
  return TN_OK;
}

/* Root: the value whose dims become axes. The output of the last contraction, else the widest value; among values equal to it up to
 * reshape the one of highest rank, so that splits and merges stay affine. */
static uint32_t choose_root(ctx *c) {
  uint32_t best = 0;
  for (uint32_t i = 1; i < c->g->n_nodes; i++) {
    tn_op op = c->g->node[i].op;
    if (op == TN_OP_CONTRACT || op == TN_OP_CONV || op == TN_OP_CONVT || op == TN_OP_WINDOW) best = c->g->node[i].out;
  }
  if (!best) {
    bool has_reduce = false;
    for (uint32_t i = 1; i < c->g->n_nodes; i++)
      if (c->g->node[i].op == TN_OP_REDUCE) {
        best = c->g->node[i].in[0].id;
        has_reduce = true;
        break;
      }
    if (!has_reduce) best = c->g->output[0].ref.id;
  }
  bool same[4096] = {0};
  if (c->g->n_values > 4096) return best;
  same[best] = true;
  uint32_t root = best;
  for (int round = 0; round < 2; round++)
    for (uint32_t i = 1; i < c->g->n_nodes; i++) {
      const tn_node *n = &c->g->node[i];
      bool elt = tn_op_is_scalar(n->op) || n->op == TN_OP_CAST || n->op == TN_OP_COPY;
      if (!elt && n->op != TN_OP_RESHAPE && n->op != TN_OP_PERMUTE) continue;
      for (int o = 0; o < n->n_in; o++) {
        if (elt && !same_shape(tn_typeof(c->g, n->in[o]), &c->g->value[n->out].type)) continue;
        if (tn_def(c->g, n->in[o])->op == TN_OP_INPUT && n->op == TN_OP_RESHAPE && !same[n->in[o].id]) continue;
        if (same[n->in[o].id] && !same[n->out])
          same[n->out] = true;
        else if (same[n->out] && !same[n->in[o].id])
          same[n->in[o].id] = true;
      }
    }
  for (uint32_t v = 1; v < c->g->n_values; v++)
    if (same[v] && c->g->value[v].type.rank > c->g->value[root].type.rank) root = v;
  return root;
}

tn_status tn_lower_def(tn_diag *d, tn_arena *arena, tn_graph *g, uint32_t fused_node, const tn_lview *in, const tn_lview *out,
                       const bool *frozen, const char *name, tn_kdef **out_def) {
  tn_node *fn = &g->node[fused_node];
  tn_graph *b = fn->body;
  ctx c = {.d = d, .a = arena, .g = b, .dims = g->dims};
  if (!b || b->n_outputs == 0) return tn_fail(d, TN_E_VERIFY, "fused node %u has no body or no output", fused_node);
  TN_TRY_WHILE(d, tn_kdef_create(arena, g->dims, name, &c.k), "lowering %s", name);
  c.uses = tn_graph_uses(arena, b);
  c.known = TN_NEW(arena, tn_kx_id *, b->n_values);
  c.param_of = TN_NEW(arena, uint32_t, b->n_values);
  if (!c.uses || !c.known || !c.param_of) return NOMEM(&c);
  for (uint32_t i = 0; i < b->n_inputs; i++) {
    char nm[24];
    snprintf(nm, sizeof nm, "x%u", i);
    uint32_t p = tn_kdef_add_param(c.k, nm, in[i].dtype, in[i].rank, in[i].dim, in[i].stride);
    if (p == UINT32_MAX) return NOMEM(&c);
    c.k->param[p].frozen = frozen && frozen[i];
    c.param_of[b->input[i].id] = p + 1;
  }
  uint32_t first_out = c.k->n_param;
  for (uint32_t i = 0; i < b->n_outputs; i++) {
    char nm[24];
    snprintf(nm, sizeof nm, "y%u", i);
    uint32_t p = tn_kdef_add_param(c.k, nm, out[i].dtype, out[i].rank, out[i].dim, out[i].stride);
    if (p == UINT32_MAX) return NOMEM(&c);
    c.k->param[p].written = true;
  }
  uint32_t root = choose_root(&c);
  tn_kx_id idx[TN_MAX_RANK];
  const tn_type *rt = &b->value[root].type;
  /* a grouped convolution's channel dim becomes two axes: group, channel in group */
  const tn_node *rn = tn_def(b, (tn_ref){root});
  for (uint32_t i = 0; i < rt->rank; i++) {
    char nm[16];
    snprintf(nm, sizeof nm, "i%u", c.k->n_axis);
    int64_t grp = rn->op == TN_OP_CONV && i == 1 ? tn_attr_int(rn, "groups", 1) : 1;
    tn_dim og;
    if (grp > 1 && tn_dim_divides(g->dims, grp, rt->dim[i], &og) && og != 1) {
      uint32_t a0 = tn_kdef_add_axis(c.k, nm, grp);
      snprintf(nm, sizeof nm, "i%u", c.k->n_axis);
      uint32_t a1 = tn_kdef_add_axis(c.k, nm, og);
      if (a0 == UINT32_MAX || a1 == UINT32_MAX) return NOMEM(&c);
      idx[i] = op2(&c, TN_S_ADD, op2(&c, TN_S_MUL, tn_kx_axis(c.k, a0), tn_kx_size(c.k, og)), tn_kx_axis(c.k, a1));
      continue;
    }
    if (rt->dim[i] == 1) {
      idx[i] = tn_kx_i64(c.k, 0);
      continue;
    }
    uint32_t ax = tn_kdef_add_axis(c.k, nm, rt->dim[i]);
    if (ax == UINT32_MAX) return NOMEM(&c);
    idx[i] = tn_kx_axis(c.k, ax);
  }
  bool ch;
  TN_TRY(know(&c, root, idx, &ch));
  TN_TRY(propagate(&c));
  for (uint32_t i = 0; i < b->n_outputs; i++) {
    tn_ref r = b->output[i].ref;
    const tn_type *ot = tn_typeof(b, r);
    if (!c.known[r.id]) { /* not reachable by views: its dims take axes of equal extents in order, new ones where none is left */
      uint32_t taken = 0;
      for (uint32_t j = 0; j < ot->rank; j++) {
        if (ot->dim[j] == 1) {
          idx[j] = tn_kx_i64(c.k, 0);
          continue;
        }
        uint32_t ax = UINT32_MAX;
        for (uint32_t q = 0; q < c.k->n_axis && ax == UINT32_MAX; q++)
          if (!(taken >> q & 1) && c.k->axis[q].extent == ot->dim[j]) ax = q;
        if (ax == UINT32_MAX) {
          char nm[16];
          snprintf(nm, sizeof nm, "i%u", c.k->n_axis);
          ax = tn_kdef_add_axis(c.k, nm, ot->dim[j]);
        }
        if (ax == UINT32_MAX) return NOMEM(&c);
        taken |= 1u << ax;
        idx[j] = tn_kx_axis(c.k, ax);
      }
      TN_TRY(know(&c, r.id, idx, &ch));
    }
    tn_kx_id x, *ki = c.known[r.id];
    TN_TRY(value_at(&c, r, ki, 0, &x));
    x = tn_kx_cast(c.k, x, (tn_dtype)ot->dtype);
    if (!x) return NOMEM(&c);
    tn_kstage s = {.name = c.k->param[first_out + i].name, .dtype = ot->dtype, .root = x, .out = (int32_t)(first_out + i)};
    uint32_t m = deps_of(&c, ki, ot->rank, 0);
    for (uint32_t q = 0; q < c.k->n_axis; q++)
      if (m >> q & 1) s.axis[s.n_axis++] = (uint8_t)q;
    memcpy(s.out_idx, ki, ot->rank * sizeof *ki);
    if (tn_kdef_add_stage(c.k, s) == UINT32_MAX) return NOMEM(&c);
  }
  *out_def = c.k;
  return TN_OK;
}

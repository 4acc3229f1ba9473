/* sched_choose.c: a schedule by rules over axis roles. Never asks for an op: only which accesses are contiguous along which axis, which
 * axes are shared by all stages, and how big they are.
 *
 * 1. Axes that every access steps through as one are merged.
 * 2. Stages get a level: the number of reductions below them on the longest path. Each level is one loop (stages with equal axes); outputs
 * join the last loop they need when axes agree, else they get a loop of their own at the end.
 * 3. Each loop picks its vector axis by the cost of its accesses, then its row axis (reuse of vector operands) and the tile R x N.
 * 4. One loop: blocks over its spatial axes. Several: blocks over the axes common to all; the innermost common axis is walked in steps
 * around all loops. Frozen operands that are strided along the vector axis are packed once; others are copied to scratch per block (cache
 * stages). */
#include <string.h>
#include "lower/lower_int.h"

typedef struct cs {
  tn_diag *d;
  tn_arena *a;
  tn_kdef *k;
  tn_kan *an;
  const tn_target *t;
  int threads;
  tn_ksched *s;
  uint8_t *level;
  int8_t *cache_axis; /* [n_stage] of cache stages: the vector axis of their readers */
} cs;

#define MUCH ((int64_t)1 << 40)
/* Extent for estimates: an empty axis counts as 1, a symbolic one as `def`. */
static int64_t ext_or(const cs *c, uint32_t a, int64_t def) {
  int64_t v;
  if (!tn_dim_as_int(c->k->dims, c->an->extent[a], &v)) return def;
  return v > MUCH ? MUCH : v > 0 ? v : 1;
}
/* Products of extents stop at MUCH: sizes in a file can say anything. */
static int64_t times(int64_t a, int64_t b) { return b && a > MUCH / b ? MUCH : a * b; }
static bool fits(uint32_t m, uint32_t a) { return m >> a & 1; }
#define DYN 512 /* assumed size of a symbolic axis */

/* ---- walking what a loop evaluates ---- */
typedef struct use {
  cs *c;
  void (*f)(void *u, tn_kx_id x);
  void *u;
  uint64_t seen[(TN_DEF_MAX_STAGES + 63) / 64]; /* stages entered, as bits */
} use;
static void enter(use *w, tn_kx_id root);
static void enter_node(void *u, tn_kx_id x) {
  use *w = u;
  const tn_kx *e = &w->c->k->x[x];
  w->f(w->u, x);
  if (e->op == TN_KX_STAGE && w->c->s->keep[e->ref] == TN_KEEP_INLINE && !w->c->k->stage[e->ref].n_red &&
      !(w->seen[e->ref / 64] >> e->ref % 64 & 1)) {
    w->seen[e->ref / 64] |= 1ull << e->ref % 64;
    enter(w, w->c->k->stage[e->ref].root);
  }
}
static void enter(use *w, tn_kx_id root) { (void)tn_kan_walk(w->c->an, root, enter_node, w); }
static void walk_loop(cs *c, const tn_kloop *L, void (*f)(void *u, tn_kx_id x), void *u) {
  use w = {c, f, u, {0}};
  for (uint32_t i = 0; i < L->n_stage; i++) enter(&w, c->k->stage[L->stage[i]].root);
}

/* ---- levels ---- */
typedef struct lv {
  cs *c;
  uint8_t max;
} lv;
static void lv_node(void *u, tn_kx_id x) {
  lv *v = u;
  const tn_kx *e = &v->c->k->x[x];
  if (e->op == TN_KX_STAGE && v->c->level[e->ref] > v->max) v->max = v->c->level[e->ref];
}

static uint32_t common_axes(cs *c);

/* ---- vector axis ---- */
typedef struct vc {
  cs *c;
  uint32_t axis, all, reds;
  double per, cost;
  bool red;
  bool has_rows, packs, strided;
  const tn_kloop *self;
} vc;
static void vc_node(void *u, tn_kx_id x) {
  vc *v = u;
  cs *c = v->c;
  const tn_kx *e = &c->k->x[x];
  if (e->op == TN_KX_STAGE &&
      (c->k->stage[e->ref].n_red || c->s->keep[e->ref] == TN_KEEP_SCRATCH)) { /* scratch is laid out by the loop that fills it */
    uint32_t ax = tn_kan_axes(c->an, e->ref);
    if (!fits(ax, v->axis)) return;
    for (const tn_kloop *L = c->s->loop; L < v->self; L++)
      for (uint32_t i = 0; i < L->n_stage; i++)
        if (L->stage[i] == e->ref && L->v_axis != (int)v->axis) v->cost += L->v_axis >= 0 && fits(ax, (uint32_t)L->v_axis) ? 7 : 0.5;
    return;
  }
  if (e->op != TN_KX_LOAD) return;
  const tn_lin *l = &c->an->load[x];
  uint32_t deps = tn_kan_deps(c->an, x);
  double w = deps == v->all ? 1 : 0.6;
  if (v->reds && !(deps & v->reds)) w *= v->per; /* read once per result */
  int64_t one;
  if (e->guard) {
    uint32_t g = tn_kan_deps(c->an, e->guard);
    int64_t inner = 1; /* steps between two choices of a padded pointer */
    for (uint32_t a = 0; a < c->k->n_axis; a++)
      if (fits(v->reds, a) && !fits(g, a)) inner = times(inner, ext_or(c, a, DYN));
    v->cost += fits(g, v->axis) ? 1.5 * w : 4.0 / (double)(inner < 1 ? 1 : inner) * w; /* masks in the inner loop, or pointers */
  }
  if (!fits(deps, v->axis))
    v->cost += 0.3 * w;
  else if (fits(l->opq_deps, v->axis))
    v->cost += 8 * w;
  else if (l->coef[v->axis] == 0 || (tn_dim_as_int(c->k->dims, l->coef[v->axis], &one) && one == 1))
    v->cost += w;
  else if (c->k->param[e->ref].frozen && (!v->red || v->packs))
    v->cost += w;
  else { /* a gather, unless the operand can be copied to a cache stage first */
    bool copied = v->has_rows && !v->red && !e->guard && !l->n_opq;
    v->strided |= !copied;
    v->cost += (copied ? 2.2 : 7) * w;
  }
}

static uint32_t mask_of(const uint8_t *a, uint32_t n) {
  uint32_t m = 0;
  for (uint32_t i = 0; i < n; i++) m |= 1u << a[i];
  return m;
}

static uint32_t data_lanes(cs *c, const tn_kloop *L) {
  uint32_t bytes = 4;
  for (uint32_t i = 0; i < L->n_stage; i++) {
    const tn_kstage *s = &c->k->stage[L->stage[i]];
    uint32_t z = (uint32_t)tn_dtype_size((tn_dtype)(s->n_red ? c->k->x[s->root].dtype : s->dtype));
    if (z > bytes) bytes = z;
  }
  return c->t->vector_bits / 8 / bytes;
}

static bool contraction(cs *c, const tn_kloop *L) { /* a sum of products whose factors depend on different axes */
  for (uint32_t i = 0; i < L->n_stage; i++) {
    const tn_kstage *s = &c->k->stage[L->stage[i]];
    const tn_kx *r = &c->k->x[s->root];
    if (s->n_red && s->combiner == TN_C_SUM && r->op == TN_KX_SCALAR && r->sop == TN_S_MUL &&
        tn_kan_deps(c->an, r->arg[0]) != tn_kan_deps(c->an, r->arg[1]))
      return true;
  }
  return false;
}

/* common: axes that all of several loops share; they are walked in steps around the loops, so they are second choice. */
static void choose_vector(cs *c, tn_kloop *L, uint32_t spatial, uint32_t red, uint32_t common) {
  double best = 1e300;
  uint32_t lanes = data_lanes(c, L);
  L->v_axis = -1;
  L->lanes = L->nv = 1;
  int64_t rows = 1;
  bool con = contraction(c, L);
  for (uint32_t a = 0; a < c->k->n_axis; a++) {
    if (!fits(spatial | red, a)) continue;
    rows = 1;
    for (uint32_t b = 0; b < c->k->n_axis; b++)
      if (b != a && fits(spatial, b)) rows = times(rows, ext_or(c, b, 64));
    bool argred = false;
    double K = 1; /* stores happen once per reduction */
    for (uint32_t b = 0; b < c->k->n_axis; b++)
      if (fits(red, b)) K *= (double)ext_or(c, b, DYN);
    double per = 1 / (1 + K / 32);
    vc v = {c, a, spatial | red, red, per, fits(common, a) ? 0.4 : 0, fits(red, a), con && rows >= 8, con, false, L};
    for (uint32_t i = 0; i < L->n_stage; i++) {
      const tn_kstage *s = &c->k->stage[L->stage[i]];
      if (s->n_red == 0) { /* stores */
        int64_t one;
        if (s->out >= 0) {
          const tn_lin *l = &c->an->store[L->stage[i]];
          if (fits(l->opq_deps, a))
            v.cost += 8 * per;
          else if (fits(spatial, a))
            {
            bool unit = tn_dim_as_int(c->k->dims, l->coef[a], &one) && one <= 1;
            v.strided |= !unit;
            v.cost += per * (unit ? 1.5 : 8);
          }
        }
      } else if (s->n_red > 1 && (s->combiner == TN_C_ARGMAX || s->combiner == TN_C_ARGMIN))
        argred = true;
    }
    if (argred && fits(red, a)) continue;
    walk_loop(c, L, vc_node, &v);
    if (v.red) v.cost += con ? 0.5 + 10 * lanes / K : 0.5; /* adding up the lanes */
    /* a symbolic axis that is not walked element by element is likely a batch, often of 1 */
    int64_t e = ext_or(c, a, v.strided ? 1 : DYN), used = (e + lanes - 1) / lanes * lanes;
    double cost = v.cost * (double)used / (double)(e > 0 ? e : 1);
    if (e < lanes) cost += 0.2;
    if (cost < best) {
      best = cost;
      L->v_axis = (int8_t)a;
    }
  }
  if (L->v_axis < 0) return;
  int64_t all = ext_or(c, (uint32_t)L->v_axis, DYN);
  while (con && lanes > 4 && lanes / 2 >= all) lanes /= 2;
  L->lanes = (uint8_t)lanes;
  L->v_red = fits(red, (uint32_t)L->v_axis);
}

typedef struct ex {
  cs *c;
  uint32_t n, heavy;
} ex;
static void ex_node(void *u, tn_kx_id x) {
  ex *e = u;
  const tn_kx *n = &e->c->k->x[x];
  e->n++;
  if (n->op != TN_KX_SCALAR || !tn_dtype_is_float((tn_dtype)n->dtype)) return;
  switch (n->sop) {
    case TN_S_ADD:
    case TN_S_SUB:
    case TN_S_MUL:
    case TN_S_DIV:
    case TN_S_MAX:
    case TN_S_MIN:
    case TN_S_NEG:
    case TN_S_ABS:
    case TN_S_SQRT:
    case TN_S_RELU:
    case TN_S_SELECT:
    case TN_S_RECIPROCAL:
    case TN_S_FLOOR:
    case TN_S_CEIL: break;
    default: e->heavy++;
  }
}

/* Row axis: a spatial axis on which some vector operand of the reduction does not depend (it is loaded once for all rows). */
typedef struct rw {
  cs *c;
  uint32_t v, cand;
  double gain[TN_DEF_MAX_AXES];
  int64_t step[TN_DEF_MAX_AXES]; /* elements between two rows in the operand that differs by row; 0 = none seen, or symbolic */
} rw;
static void rw_node(void *u, tn_kx_id x) {
  rw *r = u;
  const tn_kx *e = &r->c->k->x[x];
  uint32_t deps = tn_kan_deps(r->c->an, x);
  if (e->op == TN_KX_STAGE && (r->c->k->stage[e->ref].n_red || r->c->s->keep[e->ref] == TN_KEEP_SCRATCH)) {
    for (uint32_t a = 0; a < r->c->k->n_axis; a++)
      if (fits(r->cand, a) && fits(deps, r->v) && !fits(deps, a)) r->gain[a] += 1;
    return;
  }
  if (e->op != TN_KX_LOAD) return;
  const tn_lin *l = &r->c->an->load[x];
  for (uint32_t a = 0; a < r->c->k->n_axis; a++) {
    if (!fits(r->cand, a)) continue;
    if (fits(deps, r->v) && !fits(deps, a)) r->gain[a] += 1;
    int64_t one;
    if (!fits(deps, r->v) && fits(deps, a) && tn_dim_as_int(r->c->k->dims, l->coef[a], &one) && one > 0 && (!r->step[a] || one < r->step[a])) r->step[a] = one;
    if (fits(deps, r->v) && fits(deps, a) && !(tn_dim_as_int(r->c->k->dims, l->coef[r->v], &one) && one <= 1) &&
        tn_dim_as_int(r->c->k->dims, l->coef[a], &one) && one == 1)
      r->gain[a] += 0.5; /* strided along the vector, contiguous along rows: a transposing tile */
  }
}

/* Extent of a candidate for rows. A symbolic axis beside known ones is likely a batch, often of 1; of several symbolic ones the inner is the longer. */
static int64_t row_ext(const cs *c, uint32_t a, uint32_t cand) {
  if (tn_dim_is_const(c->an->extent[a])) return ext_or(c, a, 1);
  for (uint32_t b = 0; b < c->k->n_axis; b++)
    if (fits(cand, b) && tn_dim_is_const(c->an->extent[b]) && ext_or(c, b, 1) >= 4) return 2;
  return DYN + a;
}

/* Of two axes of equal gain: rows that lie together, where there are enough of both; else the longer. */
static bool better_rows(const rw *r, uint32_t a, uint32_t b) {
  int64_t x = row_ext(r->c, a, r->cand), y = row_ext(r->c, b, r->cand);
  if (x >= 12 && y >= 12 && r->step[a] && r->step[b] && r->step[a] != r->step[b]) return r->step[a] < r->step[b];
  return x > y;
}

static void choose_tile(cs *c, tn_kloop *L, uint32_t spatial) {
  uint32_t regs = c->t->n_vector_regs;
  L->r_axis = -1;
  L->rows = 1;
  if (L->v_axis < 0) return;
  int64_t N = ext_or(c, (uint32_t)L->v_axis, 0), vecs = N ? (N + L->lanes - 1) / L->lanes : 64;
  bool has_red = L->n_red > 0;
  bool dots = L->v_red && contraction(c, L); /* sums of products along the lanes: rows share the other operand */
  if (L->v_red && !dots) {
    L->nv = (uint8_t)(vecs >= 4 ? 4 : vecs >= 2 ? 2 : 1);
    return;
  }
  rw r = {.c = c, .v = (uint32_t)L->v_axis, .cand = spatial & ~(1u << L->v_axis)};
  for (uint32_t i = 0; i < c->s->n_share; i++)
    if (c->s->share[i].block == 1) r.cand &= ~(1u << c->s->share[i].axis);
  for (uint32_t i = 0; i < c->s->n_par; i++)
    if (c->s->par[i].block == 1) r.cand &= ~(1u << c->s->par[i].axis);
  walk_loop(c, L, rw_node, &r);
  double best = 0.4;
  for (uint32_t a = 0; a < c->k->n_axis; a++) {
    double g = r.gain[a] * (row_ext(c, a, r.cand) >= 4 ? 1 : 0.6);
    if (fits(r.cand, a) && (g > best || (g == best && L->r_axis >= 0 && better_rows(&r, a, (uint32_t)L->r_axis)))) {
      best = g;
      L->r_axis = (int8_t)a;
    }
  }
  if (has_red && L->r_axis < 0) { /* no reuse to be had: rows still hide the latency of one chain of additions */
    for (uint32_t a = 0; a < c->k->n_axis; a++)
      if (fits(r.cand, a) && (L->r_axis < 0 || row_ext(c, a, r.cand) > row_ext(c, (uint32_t)L->r_axis, r.cand))) L->r_axis = (int8_t)a;
  }
  if (dots) {
    int64_t m = L->r_axis >= 0 ? ext_or(c, (uint32_t)L->r_axis, DYN) : 1;
    L->rows = (uint8_t)(m < 8 ? m : 8);
    L->nv = (uint8_t)(vecs >= 2 && L->rows <= 4 ? 2 : 1);
    if (L->rows <= 1) L->r_axis = -1;
    return;
  }
  if (!has_red) {
    ex e = {c, 0, 0};
    walk_loop(c, L, ex_node, &e);
    bool transposing = L->r_axis >= 0 && best < 1;
    if (transposing) {
      int64_t m = ext_or(c, (uint32_t)L->r_axis, DYN);
      L->rows = (uint8_t)(m < 16 ? m : 16);
      L->nv = 1;
      return;
    }
    L->r_axis = -1;
    int64_t nv = e.heavy > 2 || e.n > 60 ? 1 : e.heavy ? 2 : 4;
    L->nv = (uint8_t)(vecs < nv ? (vecs < 1 ? 1 : vecs) : nv);
    return;
  }
  /* registers: R*N accumulators + N vectors + a broadcast; least waste first, then the squarest tile */
  int64_t M = L->r_axis >= 0 ? ext_or(c, (uint32_t)L->r_axis, 0) : 1;
  uint32_t budget = regs == 32 ? 30 : 14;
  double score = -1;
  for (uint32_t nv = 1; nv <= (regs == 32 ? 4u : 2u); nv++) {
    if ((int64_t)nv > vecs && nv > 1) break;
    for (uint32_t R = 1; R <= 14; R++) {
      if (R * nv + nv > budget || (M && (int64_t)R > M) || (L->r_axis < 0 && R > 1)) break;
      double wn = N ? (double)vecs / (double)((vecs + nv - 1) / nv * nv) : 1, wr = M ? (double)M / (double)((M + R - 1) / R * R) : 1;
      double load = (double)(R * nv) / (0.5 * (R * nv) + 0.5 * (R + nv)); /* FMA ports against load ports */
      double lat = R * nv >= 10 ? 1 : (double)(R * nv) / 10;
      double sc = wn * wr * (load > 1 ? 1 + 0.15 * (load - 1) : load) * lat;
      if (sc > score + 1e-9) {
        score = sc;
        L->nv = (uint8_t)nv;
        L->rows = (uint8_t)R;
      }
    }
  }
  if (L->r_axis < 0 && !M) M = 1;
  if (L->rows <= 1 && L->r_axis < 0) { /* no row axis: more vectors hide the latency */
    uint32_t nv = (uint32_t)(vecs < 8 ? vecs : 8);
    L->nv = (uint8_t)(nv < 1 ? 1 : nv);
  }
  if (L->rows <= 1) L->r_axis = -1;
}

/* ---- packing and caching of strided vector operands ---- */
typedef struct pk {
  cs *c;
  const tn_kloop *L;
  tn_kx_id cache;
  int8_t axis; /* of the vectors that read it */
} pk;
typedef struct rd {
  tn_kx_id x;
  bool hit;
} rd;
static void rd_node(void *u, tn_kx_id x) { ((rd *)u)->hit |= ((rd *)u)->x == x; }
/* One load may be read by several loops: panels suit the reduction they were laid out for. */
static bool read_elsewhere(pk *p, tn_kx_id x) {
  rd r = {x, false};
  for (uint32_t i = 0; i < p->c->s->n_loop; i++)
    if (&p->c->s->loop[i] != p->L) walk_loop(p->c, &p->c->s->loop[i], rd_node, &r);
  return r.hit;
}
static void pk_node(void *u, tn_kx_id x) {
  pk *p = u;
  cs *c = p->c;
  const tn_kx *e = &c->k->x[x];
  if (e->op != TN_KX_LOAD || p->L->v_axis < 0 || !p->L->n_red) return;
  const tn_lin *l = &c->an->load[x];
  uint32_t deps = tn_kan_deps(c->an, x), red = mask_of(p->L->red, p->L->n_red);
  int64_t one;
  if (!fits(deps, (uint32_t)p->L->v_axis) || !(deps & red) || l->n_opq || e->guard) return;
  if (p->L->v_red ? !c->k->param[e->ref].frozen : p->L->r_axis >= 0 && fits(deps, (uint32_t)p->L->r_axis)) return;
  bool unit = tn_dim_as_int(c->k->dims, l->coef[p->L->v_axis], &one) && one == 1;
  bool frozen = c->k->param[e->ref].frozen;
  if (frozen) { /* packed when every load of the parameter has this form: one load only */
    uint32_t n = 0;
    for (uint32_t i = 1; i < c->k->n_x; i++) n += c->k->x[i].op == TN_KX_LOAD && c->k->x[i].ref == e->ref;
    bool all_const = true;
    for (uint32_t a = 0; a < c->k->n_axis; a++)
      if (fits(deps, a)) all_const &= tn_dim_is_const(c->an->extent[a]);
    int64_t K = 1;
    for (uint32_t i = 0; i < p->L->n_red; i++) K = times(K, ext_or(c, p->L->red[i], 1));
    if (n == 1 && all_const && l->base == 0 && (!unit || (K >= 32 && !p->L->v_red)) && !read_elsewhere(p, x)) {
      c->s->pack[e->ref] = true;
      return;
    }
  }
  if (p->L->v_red) return;
  /* rows of a power-of-two pitch fall on few cache sets: a copy pays when many row tiles read it */
  bool collide = false;
  int64_t pitch, R = p->L->rows, jb = ext_or(c, (uint32_t)p->L->v_axis, DYN), K = 1;
  for (uint32_t i = 0; i < c->s->n_par; i++)
    if (c->s->par[i].axis == p->L->v_axis && c->s->par[i].block < jb) jb = c->s->par[i].block;
  for (uint32_t i = 0; i < p->L->n_red; i++) K = times(K, ext_or(c, p->L->red[i], DYN));
  if (unit && p->L->r_axis >= 0 && p->L->n_red == 1 && tn_dim_as_int(c->k->dims, l->coef[p->L->red[0]], &pitch))
    collide = pitch % 128 == 0 && ext_or(c, (uint32_t)p->L->r_axis, DYN) >= 8 * R && K >= 32 && K * jb * 4 <= 3 << 18;
  if ((!unit || collide) && p->L->r_axis >= 0) {
    p->cache = x;
    p->axis = p->L->v_axis;
  }
}

/* New first stage = the load; its readers read the stage. Axes: the load's own. */
static tn_status cache_load(cs *c, tn_kx_id x) {
  tn_kdef *k = c->k;
  uint32_t deps = c->an->deps[x];
  tn_kstage s = {.name = "cache", .dtype = k->x[x].dtype, .root = x, .out = -1};
  for (uint32_t a = 0; a < k->n_axis; a++)
    if (fits(deps, a)) s.axis[s.n_axis++] = (uint8_t)a;
  tn_kx_id sx = tn_kdef_insert_stage(k, 0, s) == UINT32_MAX ? 0 : tn_kx_stage(k, 0);
  if (!sx) return tn_fail(c->d, TN_E_NOMEM, "cache stage of %s", k->name);
  /* rebuild the roots that mention x */
  uint32_t n = k->n_x;
  tn_kx_id *map = TN_NEW(c->a, tn_kx_id, n);
  if (!map) return tn_fail(c->d, TN_E_NOMEM, "cache stage of %s", k->name);
  for (uint32_t i = 1; i < n; i++) {
    map[i] = i;
    if (i == x) {
      map[i] = sx;
      continue;
    }
    const tn_kx e = k->x[i];
    if (e.op == TN_KX_SCALAR &&
        (map[e.arg[0]] != e.arg[0] || (e.arg[1] && map[e.arg[1]] != e.arg[1]) || (e.arg[2] && map[e.arg[2]] != e.arg[2])))
      map[i] = tn_kx_scalar(k, (tn_scalar_op)e.sop, map[e.arg[0]], e.arg[1] ? map[e.arg[1]] : 0, e.arg[2] ? map[e.arg[2]] : 0);
    if (e.op == TN_KX_CAST && map[e.arg[0]] != e.arg[0]) map[i] = tn_kx_cast(k, map[e.arg[0]], (tn_dtype)e.dtype);
    if (!map[i]) return tn_fail(c->d, TN_E_NOMEM, "cache stage of %s", k->name);
  }
  for (uint32_t i = 1; i < k->n_stage; i++) k->stage[i].root = map[k->stage[i].root];
  return TN_OK;
}

/* ---- loops ---- */
static tn_status levels(cs *c) {
  for (uint32_t s = 0; s < c->k->n_stage; s++) {
    lv v = {c, 0};
    if (!tn_kan_walk(c->an, c->k->stage[s].root, lv_node, &v)) return tn_fail(c->d, TN_E_NOMEM, "levels");
    c->level[s] = (uint8_t)(v.max + (c->k->stage[s].n_red > 0));
  }
  return TN_OK;
}

typedef struct cnt {
  cs *c;
  uint32_t stage;
  bool hit;
} cnt;
static void cnt_node(void *u, tn_kx_id x) {
  cnt *k = u;
  if (k->c->k->x[x].op == TN_KX_STAGE && k->c->k->x[x].ref == k->stage) k->hit = true;
}
static bool loop_reads(cs *c, const tn_kloop *L, uint32_t stage) {
  cnt k = {c, stage, false};
  walk_loop(c, L, cnt_node, &k);
  return k.hit;
}

static bool is_cache(cs *c, uint32_t s) {
  return c->k->stage[s].out < 0 && !c->k->stage[s].n_red && c->s->keep[s] == TN_KEEP_SCRATCH &&
         c->k->x[c->k->stage[s].root].op == TN_KX_LOAD;
}

static tn_status make_loops(cs *c) {
  tn_kdef *k = c->k;
  tn_ksched *s = c->s;
  s->n_loop = 0;
  uint32_t maxl = 0;
  for (uint32_t i = 0; i < k->n_stage; i++)
    if (c->level[i] > maxl) maxl = c->level[i];
  for (uint32_t i = 0; i < k->n_stage; i++) { /* cache stages: before everything */
    if (!is_cache(c, i)) continue;
    tn_kloop *L = &s->loop[s->n_loop++];
    memset(L, 0, sizeof *L);
    L->outer = true;
    L->stage[L->n_stage++] = (uint8_t)i;
  }
  for (uint32_t l = 1; l <= maxl; l++)
    for (uint32_t i = 0; i < k->n_stage; i++) {
      if (c->level[i] != l || !k->stage[i].n_red) continue;
      uint32_t ax = tn_kan_axes(c->an, i), rd = tn_kan_red(c->an, i);
      tn_kloop *L = NULL;
      for (uint32_t j = 0; j < s->n_loop && !L; j++) {
        uint32_t f = s->loop[j].stage[0];
        if (!s->loop[j].outer && c->level[f] == l && tn_kan_axes(c->an, f) == ax && tn_kan_red(c->an, f) == rd &&
            s->loop[j].n_stage < TN_LOOP_MAX_STAGES)
          L = &s->loop[j];
      }
      if (!L) {
        L = &s->loop[s->n_loop++];
        memset(L, 0, sizeof *L);
        for (uint32_t j = 0; j < k->stage[i].n_red; j++) {
          uint32_t a = k->stage[i].red[j];
          if (fits(rd, a)) L->red[L->n_red++] = (uint8_t)a;
        }
      }
      L->stage[L->n_stage++] = (uint8_t)i;
    }
  for (uint32_t i = 0; i < k->n_stage; i++) { /* outputs */
    if (k->stage[i].out < 0) continue;
    uint32_t ax = tn_kan_axes(c->an, i);
    tn_kloop *L = NULL;
    for (uint32_t j = 0; j < s->n_loop; j++) {
      tn_kloop *q = &s->loop[j];
      uint32_t f = q->stage[0];
      if (q->outer || q->n_stage >= TN_LOOP_MAX_STAGES || c->level[f] < c->level[i] || tn_kan_axes(c->an, f) != ax) continue;
      if (c->level[f] == c->level[i] && k->stage[f].n_red) { /* all the reductions it reads must be in this loop or below */
        bool ok = true;
        for (uint32_t z = 0; z < s->n_loop; z++)
          if (z != j && !s->loop[z].outer && s->loop[z].n_red && c->level[s->loop[z].stage[0]] == c->level[i]) {
            tn_kloop one = {0};
            one.stage[one.n_stage++] = (uint8_t)i;
            for (uint32_t y = 0; y < s->loop[z].n_stage; y++)
              if (loop_reads(c, &one, s->loop[z].stage[y])) ok = z < j;
          }
        if (!ok) continue;
      }
      L = q;
    }
    if (!L) {
      if (s->n_loop >= k->n_stage + 1) return tn_fail(c->d, TN_E_INTERNAL, "too many loops");
      L = &s->loop[s->n_loop++];
      memset(L, 0, sizeof *L);
    }
    L->stage[L->n_stage++] = (uint8_t)i;
  }
  return TN_OK;
}

static uint32_t loop_spatial(cs *c, const tn_kloop *L) { return tn_kan_axes(c->an, L->stage[0]); }

static void set_order(cs *c, tn_kloop *L,
                      uint32_t spatial) { /* vector axis outermost when rows reuse its operands, else innermost; rows innermost */
  L->n_order = 0;
  uint32_t fixed = 0;
  for (uint32_t i = 0; i < c->s->n_par; i++)
    if (c->s->par[i].block == 1) fixed |= 1u << c->s->par[i].axis;
  if (!L->outer)
    for (uint32_t i = 0; i < c->s->n_share; i++)
      if (c->s->share[i].block == 1) fixed |= 1u << c->s->share[i].axis;
  spatial &= ~fixed;
  bool v_sp = L->v_axis >= 0 && !L->v_red, first = v_sp && L->n_red;
  if (first) L->order[L->n_order++] = (uint8_t)L->v_axis;
  for (uint32_t a = 0; a < c->k->n_axis; a++)
    if (fits(spatial, a) && !(v_sp && (int)a == L->v_axis) && (int)a != L->r_axis) L->order[L->n_order++] = (uint8_t)a;
  if (L->r_axis >= 0) L->order[L->n_order++] = (uint8_t)L->r_axis;
  if (v_sp && !first) L->order[L->n_order++] = (uint8_t)L->v_axis;
}

static void order_red(tn_kloop *L) { /* a vectorised reduction axis goes innermost */
  if (!L->v_red) return;
  for (uint32_t i = 0; i + 1 < L->n_red; i++)
    if (L->red[i] == (uint8_t)L->v_axis) {
      L->red[i] = L->red[i + 1];
      L->red[i + 1] = (uint8_t)L->v_axis;
    }
}

static void add_par(tn_ksched *s, uint32_t axis, int64_t block) { s->par[s->n_par++] = (tn_kpar){(uint8_t)axis, block < 1 ? 1 : block}; }
static int64_t ceil_to(int64_t v, int64_t m) { return (v + m - 1) / m * m; }

/* Work of one element of the loop in rough cycles per 16 lanes; enough for cutting blocks. */
static double loop_work(cs *c, const tn_kloop *L) {
  ex e = {c, 0, 0};
  walk_loop(c, L, ex_node, &e);
  return 1 + e.n * 0.25 + e.heavy * 4;
}

typedef struct op {
  cs *c;
  uint32_t v;
  double rows, cols;
} op;
static void op_node(void *u, tn_kx_id x) { /* elements of the operands that do and do not vary along the vector axis */
  op *o = u;
  const tn_kx *e = &o->c->k->x[x];
  double n = 1;
  if (e->op == TN_KX_STAGE && o->c->s->keep[e->ref] == TN_KEEP_SCRATCH) {
    uint32_t axes = tn_kan_axes(o->c->an, e->ref);
    for (uint32_t a = 0; a < o->c->k->n_axis; a++)
      if (fits(axes, a)) n *= (double)ext_or(o->c, a, DYN);
    if (fits(axes, o->v))
      o->cols += n;
    else
      o->rows += n;
  }
  if (e->op != TN_KX_LOAD) return;
  const tn_kparam *p = &o->c->k->param[e->ref];
  for (uint32_t i = 0; i < p->rank; i++) {
    int64_t v;
    n *= tn_dim_as_int(o->c->k->dims, p->dim[i], &v) ? (double)v : DYN;
  }
  if (fits(tn_kan_deps(o->c->an, x), o->v))
    o->cols += n;
  else
    o->rows += n;
}

/* Blocks of a register-tiled reduction. Cutting the vector axis in q pieces reads the row operands q times, cutting the others in p pieces
 * reads the column operands p times: the cheapest p*q that gives every worker several blocks. */
static void tiled_blocks(cs *c, tn_kloop *L, uint32_t sp, double work) {
  tn_ksched *s = c->s;
  uint32_t v = (uint32_t)L->v_axis, list[TN_DEF_MAX_AXES], n = 0;
  int64_t T = (int64_t)L->lanes * L->nv, N = ext_or(c, v, DYN), tiles = (N + T - 1) / T;
  for (uint32_t a = 0; a < c->k->n_axis; a++) {
    if (!fits(sp, a) || a == v || (int)a == L->r_axis) continue;
    if (tn_dim_is_const(c->an->extent[a]) || s->n_loop > 1) {
      list[n++] = a;
      continue;
    }
    add_par(s, a, 1); /* symbolic, likely a batch: blocks must be many even when it is 1; when it is long a worker claims several */
    work /= (double)ext_or(c, a, DYN);
    s->grain = work < 6000 ? (int64_t)(6000 / (work < 1 ? 1 : work)) + 1 : 1;
  }
  if (L->r_axis >= 0) list[n++] = (uint32_t)L->r_axis;
  double want = c->threads * 4.0, most = work / 12000, M = 1;
  if (want > most) want = most < 1 ? 1 : most;
  for (uint32_t i = 0; i < n; i++) {
    int64_t step = (int)list[i] == L->r_axis ? L->rows : 1;
    M *= (double)((ext_or(c, list[i], DYN) + step - 1) / step);
  }
  op o = {c, v, 0, 0};
  bool copied = s->n_loop > 1; /* each block copies its part of an operand first */
  walk_loop(c, L, op_node, &o);
  double best = 1e300, bp = 1;
  int64_t bq = 1;
  for (int64_t q = 1; q <= tiles; q++) {
    int64_t per = (tiles + q - 1) / q;
    if (q > 1 && (tiles + per - 1) / per != q) continue; /* pieces of equal tiles only */
    double p = want / (double)q;
    if (p < 1) p = 1;
    if (p > M) p = M;
    double uneven = (double)(per * q) / (double)tiles, few = p * (double)q < want ? want / (p * (double)q) : 1;
    double cost = (o.rows * (double)q + o.cols * p * (copied ? 4 : 1)) * uneven * few * few;
    if (cost < best) {
      best = cost;
      bp = p;
      bq = q;
    }
  }
  for (uint32_t i = 0; i < n; i++) {
    uint32_t a = list[i];
    int64_t e = ext_or(c, a, DYN), step = (int)a == L->r_axis ? L->rows : 1, units = (e + step - 1) / step;
    bool dyn = !tn_dim_is_const(c->an->extent[a]);
    if (bp <= 1 && !dyn) continue;
    int64_t pieces = (int64_t)(bp + 0.999);
    if (pieces > units) pieces = units;
    if (pieces < 1) pieces = 1;
    int64_t blk = (units + pieces - 1) / pieces * step;
    bp /= (double)((e + blk - 1) / blk);
    if (blk < e || dyn) add_par(s, a, blk);
  }
  /* pieces of a long reduction: a panel of the vector operand stays in an eighth of the second-level cache while the rows of the block pass
   * by */
  int64_t K = ext_or(c, L->red[0], 1024), rows = 1;
  for (uint32_t i = 0; i < n; i++) {
    int64_t e = ext_or(c, list[i], DYN), blk = e;
    for (uint32_t j = 0; j < s->n_par; j++)
      if (s->par[j].axis == list[i]) blk = s->par[j].block < e ? s->par[j].block : e;
    rows = times(rows, blk);
  }
  int64_t most_piece = (c->t->l2_bytes ? (int64_t)c->t->l2_bytes : 1 << 20) / 8 / (T * 4);
  if (L->n_red == 1 && s->n_loop == 1 && K > most_piece * 5 / 4 && rows >= 4 * L->rows &&
      (double)rows * (double)((tiles + bq - 1) / bq * T) * 4 <= 1 << 20) {
    int64_t pieces = (K + most_piece - 1) / most_piece;
    L->piece = ceil_to((K + pieces - 1) / pieces, 8);
  }
  int64_t jb = (tiles + bq - 1) / bq * T;
  if (jb < N || !tn_dim_is_const(c->an->extent[v])) add_par(s, v, jb);
}

static void one_loop(cs *c, tn_kloop *L) {
  tn_ksched *s = c->s;
  uint32_t sp = loop_spatial(c, L);
  if (L->v_axis < 0 && !sp) return;
  double red = 1;
  for (uint32_t i = 0; i < L->n_red; i++) red *= (double)ext_or(c, L->red[i], DYN);
  double total = red;
  for (uint32_t a = 0; a < c->k->n_axis; a++)
    if (fits(sp, a)) total *= (double)ext_or(c, a, DYN);
  double work = total * loop_work(c, L) / L->lanes;
  if (work < 8000) { /* a few microseconds: one block, run by the caller */
    for (uint32_t a = 0; a < c->k->n_axis; a++)
      if (fits(sp, a) && !tn_dim_is_const(c->an->extent[a])) {
        add_par(s, a, (int)a == L->v_axis ? 4096 : 64);
      }
    return;
  }
  bool tiled = L->n_red && L->v_axis >= 0 && !L->v_red;
  if (!tiled) {
    int64_t T = (int64_t)L->lanes * L->nv, R = L->rows;
    /* blocks of about 16 Ki cycles: outer axes one by one, then a piece of the axis where it is reached */
    uint32_t list[TN_DEF_MAX_AXES], n = 0;
    for (uint32_t i = 0; i < L->n_order; i++) list[n++] = L->order[i];
    double inner = work, target = work / (c->threads * 8.0);
    if (target < 6000) target = 6000;
    if (target > 200000) target = 200000;
    for (uint32_t i = 0; i < n; i++) {
      int64_t e = ext_or(c, list[i], DYN);
      double each = inner / (double)e;
      if (each >= target && (int)list[i] != L->v_axis && (int)list[i] != L->r_axis) {
        add_par(s, list[i], 1);
        inner = each;
        continue;
      }
      int64_t blk = (int64_t)(target / each) + 1;
      if ((int)list[i] == L->v_axis) blk = ceil_to(blk, T);
      if ((int)list[i] == L->r_axis) blk = ceil_to(blk, R);
      if (blk < e || !tn_dim_is_const(c->an->extent[list[i]])) add_par(s, list[i], blk);
      break;
    }
    return;
  }
  tiled_blocks(c, L, sp, work);
}

static uint32_t common_axes(cs *c) {
  uint32_t m = UINT32_MAX;
  for (uint32_t i = 0; i < c->s->n_loop; i++)
    if (!c->s->loop[i].outer) m &= loop_spatial(c, &c->s->loop[i]);
  return m;
}

static void many_loops(cs *c, bool any_tiled) {
  tn_ksched *s = c->s;
  uint32_t com = common_axes(c);
  double work = 0;
  for (uint32_t i = 0; i < s->n_loop; i++) {
    tn_kloop *L = &s->loop[i];
    double w = loop_work(c, L) / c->t->vector_bits * 32;
    uint32_t m = loop_spatial(c, L) | mask_of(L->red, L->n_red);
    for (uint32_t a = 0; a < c->k->n_axis; a++)
      if (fits(m, a)) w *= (double)ext_or(c, a, DYN);
    work += w;
  }
  int last = -1;
  double blocks = 1;
  for (uint32_t a = 0; a < c->k->n_axis; a++)
    if (fits(com, a)) last = (int)a;
  double target = work / (c->threads * 8.0);
  if (target < 6000) target = 6000;
  if (target > 300000) target = 300000;
  for (uint32_t a = 0; a < c->k->n_axis; a++) {
    if (!fits(com, a)) continue;
    int64_t e = ext_or(c, a, DYN);
    double each = work / (double)e;
    bool vec = false; /* a loop is vectorised along it: whole vectors, no steps */
    for (uint32_t i = 0; i < s->n_loop; i++) vec |= s->loop[i].v_axis == (int)a && !s->loop[i].outer;
    if (vec) {
      int64_t blk = ceil_to((int64_t)(target / each) + 1, 64);
      add_par(s, a, blk);
      work = each * (double)(blk < e ? blk : e);
      continue;
    }
    if ((int)a != last && (each >= target || any_tiled)) {
      add_par(s, a, 1);
      work = each;
      blocks *= (double)e;
      continue;
    }
    if ((int)a != last) { /* everything inside is small: share it position by position */
      int64_t blk = (int64_t)(target / each) + 1;
      add_par(s, a, blk < e ? blk : e);
      s->share[s->n_share++] = (tn_kpar){(uint8_t)a, 1};
      work = each * (double)blk;
      continue;
    }
    int64_t step = any_tiled ? 16 : 1, blk = (int64_t)(target / each) + 1;
    if (step > e) step = e;
    blk = ceil_to(blk < 1 ? 1 : blk, step);
    if (tn_dim_is_const(
            c->an->extent[a])) { /* even pieces; one when the outer axes give work enough (what is kept per block is made once) */
      int64_t n = (e + blk - 1) / blk;
      if (blocks >= c->threads * 4.0 && any_tiled) n = 1;
      blk = ceil_to((e + n - 1) / (n < 1 ? 1 : n), step);
    }
    if (blk > e && tn_dim_is_const(c->an->extent[a])) blk = e;
    add_par(s, a, blk);
    if (blk > step || (step > 1 && blk >= step))
      s->share[s->n_share++] = (tn_kpar){(uint8_t)a, step};
    else if (blk > 1)
      s->share[s->n_share++] = (tn_kpar){(uint8_t)a, 1};
  }
}

tn_status tn_sched_choose(tn_diag *d, tn_arena *arena, const tn_kdef *kc, const tn_target *t, int threads, tn_ksched **out) {
  tn_kdef *k = (tn_kdef *)(uintptr_t)kc; /* cache stages are added to it */
  cs *c = TN_NEW(arena, cs, 1);
  if (!c) return tn_fail(d, TN_E_NOMEM, "schedule of %s", k->name);
  *c = (cs){.d = d, .a = arena, .k = k, .t = t, .threads = threads < 1 ? 1 : threads};
  uint32_t cap = k->n_stage + 8;
  tn_ksched *s = c->s = TN_NEW(arena, tn_ksched, 1);
  c->level = TN_NEW(arena, uint8_t, cap);
  c->cache_axis = TN_NEW(arena, int8_t, cap);
  if (!s || !c->level || !c->cache_axis) return tn_fail(d, TN_E_NOMEM, "schedule of %s", k->name);
  s->keep = TN_NEW(arena, uint8_t, cap);
  s->pack = TN_NEW(arena, bool, k->n_param + 1);
  s->loop = TN_NEW(arena, tn_kloop, cap + 1);
  if (!s->keep || !s->pack || !s->loop) return tn_fail(d, TN_E_NOMEM, "schedule of %s", k->name);
  for (int round = 0;; round++) {
    TN_TRY(tn_kan_make(d, arena, k, &c->an));
    s->n_keep = k->n_stage;
    s->n_pack = k->n_param;
    s->n_merge = s->n_par = s->n_share = 0;
    s->grain = 1;
    memset(s->pack, 0, sizeof(bool) * k->n_param);
    for (bool again = true; again;) {
      again = false;
      for (uint32_t a = 0; a < k->n_axis && !again; a++)
        for (uint32_t b = 0; b < k->n_axis && !again; b++)
          if (c->an->extent[a] != 1 && c->an->extent[b] != 1 && tn_kan_merge(c->an, a, b)) {
            s->merge_from[s->n_merge] = (uint8_t)a;
            s->merge_to[s->n_merge++] = (uint8_t)b;
            again = true;
          }
    }
    TN_TRY(levels(c));
    TN_TRY(make_loops(c));
    /* an expensive value read by several loops is kept while the first of them reduces over it */
    for (uint32_t i = 0; i < k->n_stage; i++) {
      if (k->stage[i].out >= 0 || k->stage[i].n_red || is_cache(c, i)) continue;
      int first = -1, n = 0;
      for (uint32_t j = 0; j < s->n_loop; j++)
        if (loop_reads(c, &s->loop[j], i)) {
          if (first < 0) first = (int)j;
          n++;
        }
      if (n < 2) continue;
      tn_kloop *L = &s->loop[first];
      if ((loop_spatial(c, L) | mask_of(L->red, L->n_red)) != tn_kan_axes(c->an, i) || !L->n_red || L->n_stage >= TN_LOOP_MAX_STAGES)
        continue;
      s->keep[i] = TN_KEEP_SCRATCH;
      /* behind the first stage, which names the loop's spatial axes, and behind the values kept before: it may read them */
      uint32_t at = 1;
      while (at < L->n_stage && !k->stage[L->stage[at]].n_red && k->stage[L->stage[at]].out < 0) at++;
      memmove(&L->stage[at + 1], &L->stage[at], L->n_stage - at);
      L->stage[at] = (uint8_t)i;
      L->n_stage++;
    }
    uint32_t n_main = 0, common = 0;
    bool any_tiled = false;
    for (uint32_t i = 0; i < s->n_loop; i++) n_main += !s->loop[i].outer;
    if (n_main > 1) common = common_axes(c);
    for (uint32_t i = 0; i < s->n_loop; i++) {
      tn_kloop *L = &s->loop[i];
      if (L->outer) { /* laid out for its readers */
        L->v_axis = c->cache_axis[L->stage[0]];
        L->lanes = (uint8_t)data_lanes(c, L);
        continue;
      }
      choose_vector(c, L, loop_spatial(c, L), mask_of(L->red, L->n_red), common);
      order_red(L);
      if (!L->outer && L->n_red && contraction(c, L) && !L->v_red) any_tiled = true;
    }
    if (n_main > 1) many_loops(c, any_tiled);
    for (uint32_t i = 0; i < s->n_loop; i++) {
      tn_kloop *L = &s->loop[i];
      uint32_t sp = loop_spatial(c, L);
      choose_tile(c, L, sp);
      set_order(c, L, sp);
    }
    if (n_main == 1) {
      tn_kloop *L = &s->loop[s->n_loop - 1];
      one_loop(c, L);
      for (uint32_t i = 0; i < s->n_loop; i++) {
        uint32_t sp = loop_spatial(c, &s->loop[i]);
        if (s->loop[i].outer) choose_tile(c, &s->loop[i], sp); /* blocks have fixed axes since */
        set_order(c, &s->loop[i], sp);
      }
    }
    pk p = {c, NULL, 0, -1};
    for (uint32_t i = 0; i < s->n_loop && !p.cache; i++) {
      p.L = &s->loop[i];
      walk_loop(c, p.L, pk_node, &p);
    }
    if (!p.cache || round >= 4) break;
    TN_TRY(cache_load(c, p.cache));
    memmove(c->cache_axis + 1, c->cache_axis, k->n_stage - 1);
    c->cache_axis[0] = p.axis;
    memset(s->keep, 0, cap);
    for (uint32_t i = 0; i < k->n_stage; i++)
      s->keep[i] = k->stage[i].out < 0 && !k->stage[i].n_red && k->x[k->stage[i].root].op == TN_KX_LOAD ? TN_KEEP_SCRATCH : TN_KEEP_INLINE;
  }
  /* where reductions live: a register when only their own loop and the fixed axes see them, else scratch */
  uint32_t fixed = 0;
  for (uint32_t i = 0; i < s->n_par; i++)
    if (s->par[i].block == 1) fixed |= 1u << s->par[i].axis;
  for (uint32_t i = 0; i < s->n_share; i++)
    if (s->share[i].block == 1) fixed |= 1u << s->share[i].axis;
  for (uint32_t i = 0; i < k->n_stage; i++) {
    if (k->stage[i].out >= 0) {
      s->keep[i] = TN_KEEP_OUT;
      continue;
    }
    if (!k->stage[i].n_red) continue;
    uint32_t readers = 0, own = 0;
    for (uint32_t j = 0; j < s->n_loop; j++) {
      bool in = false;
      for (uint32_t q = 0; q < s->loop[j].n_stage; q++) in |= s->loop[j].stage[q] == i;
      if (in) own = j;
    }
    for (uint32_t j = 0; j < s->n_loop; j++)
      if (j != own && loop_reads(c, &s->loop[j], i)) readers++;
    s->keep[i] = readers == 0 || !(tn_kan_axes(c->an, i) & ~fixed) ? TN_KEEP_REG : TN_KEEP_SCRATCH;
  }
  *out = s;
  return TN_OK;
}

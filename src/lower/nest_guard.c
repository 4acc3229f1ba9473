/* nest_guard: tiles that no padding touches.
 *
 * A padded load chooses its pointer, or masks its lanes, for every step of the axes that its guard looks at. In most tiles all guards hold: the
 * image's border is thin. So before a tile whose guards cost more than what they guard, the bounds of every guarded index over the whole tile
 * are compared once; when all hold, the tile's loops run without guards, else with them. The bounds come from interval arithmetic
 * over the index expressions; what it cannot follow keeps its guards. */
#include "lower/nest_int.h"

enum { INNER_FEW = 48 }; /* steps between two choices of a pointer that make the choice dear */

/* Least and greatest value of an index over the tile. false: not a sum of axes and constants. */
static bool bounds(tn_nb *b, tn_kx_id x, tn_nv *lo, tn_nv *hi) {
  const tn_kx *e = &b->k->x[x];
  const tn_kloop *L = b->L;
  tn_nv la, ha, lb, hb;
  if (e->op == TN_KX_CONST || e->op == TN_KX_SIZE) return (*lo = *hi = tn_nb_eval(b, x, 0, 0)) != 0;
  if (e->op == TN_KX_AXIS) {
    uint32_t a = e->ref;
    bool red = false;
    for (uint32_t i = 0; i < L->n_red; i++) red |= L->red[i] == a;
    if (red) {
      *lo = tn_nb_i64(b, 0);
      *hi = tn_nb_add2(b, tn_nb_dimv(b, b->an->extent[a]), tn_nb_i64(b, -1));
      return true;
    }
    if (!b->ax[a].base) return false;
    int64_t more = (int)a == L->r_axis ? (int64_t)b->R - 1 : (int)a == L->v_axis ? (int64_t)b->lanes * b->NV - 1 : 0;
    *lo = b->ax[a].base;
    *hi = more ? tn_nb_add2(b, *lo, tn_nb_i64(b, more)) : *lo;
    return true;
  }
  if (e->op != TN_KX_SCALAR || (e->sop != TN_S_ADD && e->sop != TN_S_SUB && e->sop != TN_S_MUL)) return false;
  if (e->sop == TN_S_MUL) { /* by a constant >= 0 */
    const tn_kx *c = &b->k->x[e->arg[1]];
    if (c->op != TN_KX_CONST || c->imm.i < 0 || !bounds(b, e->arg[0], &la, &ha)) return false;
    *lo = tn_nb_mul2(b, la, tn_nb_i64(b, c->imm.i));
    *hi = la == ha ? *lo : tn_nb_mul2(b, ha, tn_nb_i64(b, c->imm.i));
    return true;
  }
  if (!bounds(b, e->arg[0], &la, &ha) || !bounds(b, e->arg[1], &lb, &hb)) return false;
  bool add = e->sop == TN_S_ADD;
  *lo = tn_n_op2(b->n, add ? TN_S_ADD : TN_S_SUB, la, add ? lb : hb);
  *hi = la == ha && lb == hb ? *lo : tn_n_op2(b->n, add ? TN_S_ADD : TN_S_SUB, ha, add ? hb : lb);
  return true;
}

/* Condition that guard x holds everywhere in the tile, joined to *all. */
static bool holds(tn_nb *b, tn_kx_id x, tn_nv *all) {
  const tn_kx *e = &b->k->x[x];
  tn_nv la, ha, lb, hb, c;
  if (e->op != TN_KX_SCALAR) return false;
  if (e->sop == TN_S_AND) return holds(b, e->arg[0], all) && holds(b, e->arg[1], all);
  if (e->sop != TN_S_GE && e->sop != TN_S_LT) return false;
  if (!bounds(b, e->arg[0], &la, &ha) || !bounds(b, e->arg[1], &lb, &hb)) return false;
  c = e->sop == TN_S_GE ? tn_n_op2(b->n, TN_S_GE, la, hb) : tn_n_op2(b->n, TN_S_LT, ha, lb);
  *all = *all ? tn_n_op2(b->n, TN_S_AND, *all, c) : c;
  return true;
}

typedef struct guards {
  tn_nb *b;
  uint32_t inner; /* axes inside the tile */
  tn_nv all;
  bool dear, lost;
} guards;

static void look(void *u, tn_kx_id x) {
  guards *w = u;
  tn_nb *b = w->b;
  const tn_kx *e = &b->k->x[x];
  if (e->op != TN_KX_LOAD || !e->guard || w->lost) return;
  uint32_t deps = tn_kan_deps(b->an, e->guard);
  if (!(deps & w->inner)) return; /* chosen once for the tile as it is; holds for the whole tile or nowhere */
  int64_t steps = 1, n;
  for (uint32_t i = 0; i < b->L->n_red; i++)
    if (!(deps >> b->L->red[i] & 1)) steps *= tn_dim_as_int(b->k->dims, b->an->extent[b->L->red[i]], &n) ? n : INNER_FEW;
  w->dear |= steps < INNER_FEW;
  w->lost |= !holds(b, e->guard, &w->all);
}

/* True for the tile's reductions: all guarded loads are inside. 0: guards stay. Loads whose guard looks at no axis of the tile keep it. */
tn_nv tn_nb_inside(tn_nb *b) {
  const tn_kloop *L = b->L;
  guards w = {.b = b, .inner = tn_nb_bit(L->r_axis) | tn_nb_bit(L->v_axis)};
  for (uint32_t i = 0; i < L->n_red; i++) w.inner |= 1u << L->red[i];
  for (uint32_t i = 0; i < L->n_stage && b->st == TN_OK; i++)
    if (!tn_kan_walk(b->an, b->k->stage[L->stage[i]].root, look, &w)) tn_nb_bad(b, TN_E_NOMEM, "guards of a tile");
  return w.dear && !w.lost && b->st == TN_OK ? w.all : 0;
}

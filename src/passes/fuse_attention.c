/* fuse_attention: finds contract -> eltwise and reductions over the scores' last dim -> contract over that dim, and makes it one group.
 *
 * Grown forward from the first contract: whatever reads the region must be able to join it or be the one second contract; a reader of any
 * other kind, or a result of the graph, ends the attempt. So nothing of the score matrix is needed in memory. What exactly softmax looks
 * like is not asked: scaling, masks, guards for empty rows are all eltwise and row reductions. But there must be a reduction and an
 * exponential: linear, layer norm, linear has this shape too, and wants two products with a packed weight each. For the same reason a row of
 * the result must be short. The scores' last dim must be constant, since a kernel keeps a row of them. */
#include "passes/fuse_int.h"
#include <string.h>

typedef struct labels { const char *a, *b, *o; int na, nb, no; } labels;
static bool read_labels(const tn_node *n, labels *l) {
  const char *s = tn_attr_str(n, "labels", NULL), *comma = s ? strchr(s, ',') : NULL, *arrow = comma ? strstr(comma, "->") : NULL;
  if (!arrow) return false;
  *l = (labels){s, comma + 1, arrow + 2, (int)(comma - s), (int)(arrow - comma - 1), (int)strlen(arrow + 2)};
  return true;
}
static bool has(const char *s, int n, char c) { return memchr(s, c, (size_t)n) != NULL; }

/* Rows come from one operand only, columns from the other: a matrix of scores. */
static bool makes_scores(fx *f, uint32_t c1) {
  labels l;
  const tn_type *t = fx_type(f, c1);
  if (f->g->node[c1].op != TN_OP_CONTRACT || f->of[c1] || t->rank < 2 || !tn_dim_is_const(t->dim[t->rank - 1])) return false;
  if (!read_labels(&f->g->node[c1], &l) || l.no != t->rank) return false;
  char row = l.o[l.no - 2], col = l.o[l.no - 1];
  return has(l.a, l.na, row) != has(l.b, l.nb, row) && has(l.a, l.na, col) != has(l.b, l.nb, col) && has(l.a, l.na, row) != has(l.a, l.na, col);
}
enum { MAX_RESULT_ROW = 512 };
/* Operand `which` of c2 is the scores; their last dim is summed away, their rows stay and belong to them alone. */
static bool takes_scores(fx *f, uint32_t c2, int which, const tn_type *scores) {
  int64_t row_size = 1;
  labels l;
  if (!read_labels(&f->g->node[c2], &l)) return false;
  const char *p = which ? l.b : l.a, *v = which ? l.a : l.b;
  int np = which ? l.nb : l.na, nv = which ? l.na : l.nb;
  const tn_type *t = tn_typeof(f->g, f->g->node[c2].in[which]);
  int at[TN_MAX_RANK];
  if (np != t->rank || np < 2 || !tn_px_unit_map(scores, t, at) || at[np - 1] != scores->rank - 1) return false;
  char col = p[np - 1], row = p[np - 2];
  if (has(l.o, l.no, col) || !has(v, nv, col) || !has(l.o, l.no, row) || has(v, nv, row)) return false;
  for (int i = 0; i < np - 1; i++)
    if (!has(l.o, l.no, p[i])) return false;
  for (int i = 0; i < l.no; i++) { /* what a row of scores makes */
    tn_dim d = fx_type(f, c2)->dim[i];
    if (has(p, np, l.o[i])) continue;
    if (!tn_dim_is_const(d) || (row_size *= d) > MAX_RESULT_ROW) return false;
  }
  return true;
}

typedef struct region {
  uint32_t group;
  uint32_t c2, last_use;
  bool reduces, exponential;
} region;

/* Largest node that reads the value, through views; UINT32_MAX: it is a result of the graph. */
static uint32_t last_use(const fx *f, uint32_t node, int depth) {
  uint32_t v = tn_out(&f->g->node[node], 0).id, last = 0;
  for (uint32_t i = f->use_at[v]; i < f->use_at[v + 1]; i++) {
    uint32_t by = f->use[i];
    if (by == 0 || depth > 64) return UINT32_MAX;
    uint32_t u = f->cls[by] == FX_VIEW ? last_use(f, by, depth + 1) : by;
    if (u > last) last = u;
  }
  return last;
}

static tn_status take(fx *f, region *r, uint32_t node) {
  if (!fx_group_put(f, r->group, node)) return FX_OOM(f);
  uint32_t u = last_use(f, node, 0);
  if (u > r->last_use) r->last_use = u;
  return TN_OK;
}

/* The node reads the region: may it be part of it? */
static bool belongs(fx *f, region *r, uint32_t node) {
  const fx_group *x = &f->group[r->group];
  const tn_node *n = &f->g->node[node];
  if (f->of[node]) return false;
  if (n->op == TN_OP_CONTRACT) {
    fx_trace a = fx_trace_back(f, n->in[0], 1), b = fx_trace_back(f, n->in[1], 1);
    int which = f->of[b.base] == r->group;
    const fx_trace *way = which ? &b : &a;
    if (r->c2 || (f->of[a.base] == r->group) == (which == 1) || way->permute || way->stretch || way->cut) return false;
    if (fx_level_of(x, fx_type(f, way->base)) != LV_DOMAIN || !takes_scores(f, node, which, x->type)) return false;
    r->c2 = node;
    return true;
  }
  if (f->cls[node] == FX_REDUCE) {
    fx_trace way = fx_trace_back(f, n->in[0], 1);
    if (way.permute || way.stretch || way.cut || fx_level_of(x, fx_type(f, way.base)) != LV_DOMAIN) return false;
    if (!fx_same_reduction(x, tn_typeof(f->g, n->in[0]), fx_reduced_of(f, node))) return false;
    r->reduces = true;
    return true;
  }
  if (f->cls[node] != FX_PW || n->op == TN_OP_PAD || n->op == TN_OP_FLIP) return false;
  if (fx_level_of(x, fx_type(f, node)) == LV_NONE) return false;
  if (n->op == TN_OP_EXP || n->op == TN_OP_EXP2) r->exponential = true;
  for (uint32_t k = 0; k < n->n_in; k++) {
    fx_trace t = fx_trace_back(f, n->in[k], 1);
    if (f->of[t.base] == r->group && !fx_sits_well(f, x, n->in[k], &t, fx_type(f, node), false)) return false;
  }
  return true;
}
static bool reads(const fx *f, uint32_t node, uint32_t group) {
  const tn_node *n = &f->g->node[node];
  for (uint32_t k = 0; k < n->n_in; k++)
    if (f->of[fx_trace_back(f, n->in[k], 1).base] == group) return true;
  return false;
}

static void give_up(fx *f, region *r) {
  fx_group *x = &f->group[r->group];
  for (uint32_t i = 0; i < x->n; i++) f->of[x->member[i]] = 0;
  x->live = false;
  x->n = 0;
}

static tn_status grow(fx *f, uint32_t c1) {
  region r = {.group = fx_group_new(f, FX_ATTENTION, c1)};
  if (!r.group) return FX_OOM(f);
  f->group[r.group].reduced = 1u << (f->group[r.group].type->rank - 1);
  r.last_use = last_use(f, c1, 0);
  bool fine = r.last_use > 0;
  for (uint32_t i = c1 + 1; fine && r.last_use != UINT32_MAX && i <= r.last_use; i++) {
    if (f->cls[i] == FX_VIEW || (r.c2 && i == r.c2) || !reads(f, i, r.group)) continue;
    fine = belongs(f, &r, i) && f->group[r.group].n < FX_MAX_NODES / 2;
    if (fine && i != r.c2) TN_TRY(take(f, &r, i));
  }
  fine = fine && r.last_use != UINT32_MAX && r.c2 && r.reduces && r.exponential;
  if (fine && !fx_group_put(f, r.group, r.c2)) return FX_OOM(f);
  for (uint32_t k = 0; fine && k < 4; k++) {
    uint32_t m = fx_def(f, f->g->node[k & 2 ? c1 : r.c2].in[k & 1]);
    if (f->prologue[m] && !f->of[m] && !fx_group_put(f, r.group, m)) return FX_OOM(f);
  }
  if (!fine || fx_needs(f, r.group, 0, r.group)) {
    give_up(f, &r);
    return TN_OK;
  }
  fx_group *x = &f->group[r.group];
  x->anchor = r.c2;
  x->type = fx_type(f, r.c2);
  x->numel = tn_px_numel(f->g, x->type);
  x->reduced = 0;
  f->map[r.c2] = 1;
  return TN_OK;
}

tn_status fx_find_attention(fx *f) {
  for (uint32_t i = 1; i < f->n_nodes; i++)
    if (makes_scores(f, i)) TN_TRY(grow(f, i));
  return TN_OK;
}

/* fuse_group: groups, and the rules by which nodes join them.
 *
 * A join must keep the graph with groups drawn together acyclic. Before each one fx_needs walks backwards from what the joiner reads
 * outside the group; meeting the group means a way out and back in. The walk stops below the lowest node that the group and everything
 * interleaved with it reach, so it stays local.
 *
 * Where an operand lies matters. Behind an anchor every element of the epilogue belongs to one element of the anchor's result, so all
 * operands from inside must come by the same way (map): h + permute(h) can't be an epilogue. In a reduction each value has the domain's
 * shape or the reduced one, and a reduced value must meet the domain in the kept dims. A pointwise value can be computed anywhere. */
#include "passes/fuse_int.h"
#include <string.h>

static uint64_t mix(uint64_t seed, const void *p, size_t n) { return tn_hash(p, n, seed) | 1; }

fx_trace fx_trace_back(const fx *f, tn_ref r, uint64_t map) {
  fx_trace t = {.base = fx_def(f, r), .map = map};
  uint32_t chain[64];
  while (f->cls[t.base] == FX_VIEW && t.n_views < 64) {
    const tn_node *n = &f->g->node[t.base];
    t.reshape |= n->op == TN_OP_RESHAPE;
    t.permute |= n->op == TN_OP_PERMUTE;
    t.stretch |= n->op == TN_OP_BROADCAST;
    t.cut |= n->op == TN_OP_SLICE;
    chain[t.n_views++] = t.base;
    t.base = fx_def(f, n->in[0]);
  }
  for (uint32_t i = t.n_views; i-- > 0;) { /* from the base outwards, as maps compose */
    const tn_node *n = &f->g->node[chain[i]];
    const tn_type *from = tn_typeof(f->g, n->in[0]);
    uint64_t op = n->op;
    tn_dim perm[TN_MAX_RANK];
    if (n->op == TN_OP_RESHAPE) continue; /* the same elements in the same order */
    t.map = mix(t.map, &op, sizeof op);
    t.map = mix(t.map, from->dim, from->rank * sizeof *from->dim);
    if (n->op == TN_OP_PERMUTE && tn_attr_dims(n, "perm", perm, TN_MAX_RANK) == from->rank) t.map = mix(t.map, perm, from->rank * sizeof *perm);
    if (n->op != TN_OP_PERMUTE) t.map = mix(t.map, &chain[i], sizeof chain[i]);
  }
  return t;
}

bool fx_outside_operand(const fx *f, uint32_t node, uint32_t k) {
  if (f->cls[node] == FX_ANCHOR) return true;
  return f->cls[node] == FX_INDEX && k == 0;
}

/* ---- groups ---- */
bool fx_group_put(fx *f, uint32_t group, uint32_t node) {
  fx_group *x = &f->group[group];
  if (!TN_PUSH_ROOM(f->a, x->member, x->n, x->cap)) return false;
  x->member[x->n++] = node;
  if (node < x->lo || x->n == 1) x->lo = node;
  if (node > x->hi) x->hi = node;
  f->of[node] = group;
  return true;
}
uint32_t fx_group_new(fx *f, fx_kind kind, uint32_t node) {
  if (!TN_PUSH_ROOM(f->a, f->group, f->n_groups, f->cap_groups)) return 0;
  f->group[f->n_groups] = (fx_group){.kind = kind, .live = true, .type = fx_type(f, node), .numel = tn_px_numel(f->g, fx_type(f, node))};
  return fx_group_put(f, f->n_groups, node) ? f->n_groups++ : 0;
}
bool fx_merge(fx *f, uint32_t into, uint32_t from) {
  for (uint32_t i = 0; i < f->group[from].n; i++)
    if (!fx_group_put(f, into, f->group[from].member[i])) return false;
  f->group[from].live = false;
  f->group[from].n = 0;
  return true;
}

/* ---- cycle check ---- */

/* No group lies across this node number, and it is at most lo(a): nothing below it can need group a. */
static uint32_t cut_below(const fx *f, uint32_t a) {
  uint32_t cut = f->group[a].lo;
  for (bool again = true; again;) {
    again = false;
    for (uint32_t i = 1; i < f->n_groups; i++) {
      const fx_group *x = &f->group[i];
      if (x->live && x->lo < cut && x->hi >= cut) {
        cut = x->lo;
        again = true;
      }
    }
  }
  return cut;
}

typedef struct walk { uint32_t a, cut, top; bool hit; } walk;
static void reach(fx *f, walk *w, uint32_t node) {
  if (f->stamp[node] == f->now || node < w->cut || w->hit) return;
  f->stamp[node] = f->now;
  if (f->of[node] == w->a) w->hit = true;
  else f->stack[w->top++] = node;
}
static void reach_inputs(fx *f, walk *w, uint32_t node) {
  const tn_node *n = &f->g->node[node];
  for (uint32_t k = 0; k < n->n_in; k++) reach(f, w, fx_def(f, n->in[k]));
}
static void run_walk(fx *f, walk *w) {
  while (w->top && !w->hit) {
    uint32_t node = f->stack[--w->top], h = f->of[node];
    if (!h) { reach_inputs(f, w, node); continue; }
    for (uint32_t i = 0; i < f->group[h].n && !w->hit; i++) {
      uint32_t m = f->group[h].member[i];
      if (m != node && f->stamp[m] == f->now) continue;
      f->stamp[m] = f->now;
      reach_inputs(f, w, m);
    }
  }
}
/* Starts at what `node` reads outside groups a and b. Views between inside and inside are copied in, so they are no way out. */
static void start_at(fx *f, walk *w, uint32_t node, uint32_t b) {
  const tn_node *n = &f->g->node[node];
  for (uint32_t k = 0; k < n->n_in && !w->hit; k++) {
    uint32_t base = fx_trace_back(f, n->in[k], 1).base, h = f->of[base];
    if (h && h == b) continue;
    if (h && h == w->a && !fx_outside_operand(f, node, k)) continue;
    reach(f, w, base);
  }
}
bool fx_needs(fx *f, uint32_t b, uint32_t extra, uint32_t a) {
  walk w = {.a = a, .cut = cut_below(f, a)};
  f->now++;
  if (extra) start_at(f, &w, extra, b);
  for (uint32_t i = 0; b && i < f->group[b].n && !w.hit; i++) start_at(f, &w, f->group[b].member[i], b);
  run_walk(f, &w);
  return w.hit;
}

/* ---- readers ---- */
static bool uses_in(const fx *f, uint32_t value, uint32_t h, uint32_t t, uint32_t extra, int depth) {
  for (uint32_t i = f->use_at[value]; i < f->use_at[value + 1]; i++) {
    uint32_t by = f->use[i];
    if (by == 0 || depth > 64) return false;
    if (f->cls[by] == FX_VIEW) {
      if (!uses_in(f, tn_out(&f->g->node[by], 0).id, h, t, extra, depth + 1)) return false;
      continue;
    }
    if (by == extra) continue;
    uint32_t of = f->of[by];
    if (!of || (of != h && of != t)) return false;
  }
  return true;
}
bool fx_all_uses_in(fx *f, uint32_t h, uint32_t t, uint32_t extra) {
  for (uint32_t i = 0; i < f->group[h].n; i++)
    if (!uses_in(f, tn_out(&f->g->node[f->group[h].member[i]], 0).id, h, t, extra, 0)) return false;
  return true;
}
bool fx_escapes(fx *f, uint32_t node, uint32_t group) { return !uses_in(f, tn_out(&f->g->node[node], 0).id, group, group, 0, 0); }

/* Upper bound of the kernel's inputs and outputs. */
bool fx_fits(fx *f, uint32_t t, uint32_t h, uint32_t extra) {
  uint32_t n = f->group[t].n + (h ? f->group[h].n : 0) + (extra ? 1 : 0), ports = 0;
  if (n > FX_MAX_NODES - 16) return false;
  if (n <= 12) return true;
  f->now++;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t m = i < f->group[t].n ? f->group[t].member[i] : extra && i == n - 1 ? extra : f->group[h].member[i - f->group[t].n];
    const tn_node *x = &f->g->node[m];
    for (uint32_t k = 0; k < x->n_in; k++) {
      uint32_t base = fx_trace_back(f, x->in[k], 1).base, of = f->of[base];
      if (f->cls[base] == FX_CHEAP || (of && (of == t || of == h)) || f->stamp[fx_def(f, x->in[k])] == f->now) continue;
      f->stamp[fx_def(f, x->in[k])] = f->now;
      ports++;
    }
    ports += !uses_in(f, tn_out(x, 0).id, h ? h : t, t, extra, 0);
  }
  return ports <= FX_MAX_PORTS;
}

/* ---- reduction shapes ----
 * Dims of 1 are left out of account: [1,16,64] and [16,64] are one domain, since nothing moves between them. */

/* The reduced dims of the domain, seen in a type that is the domain up to 1s; dims of 1 that are reduced vanish. */
static bool reduced_in(const fx_group *x, const tn_type *t, uint32_t *out_bits) {
  int at[TN_MAX_RANK];
  if (!tn_px_unit_map(x->type, t, at)) return false;
  *out_bits = 0;
  for (uint32_t j = 0; j < t->rank; j++)
    if (at[j] >= 0 && (x->reduced >> at[j] & 1)) *out_bits |= 1u << j;
  return true;
}
/* Has the value of this shape, next to one of domain type t, a 1 in each reduced dim and the domain's size elsewhere? Leading 1s are free. */
static bool is_kept_form(const fx_group *x, const tn_type *t, uint32_t rank, const tn_dim *dim) {
  uint32_t bits;
  if (rank > t->rank || !reduced_in(x, t, &bits)) return false;
  for (uint32_t k = 0; k < t->rank; k++) {
    tn_dim want = bits >> k & 1 ? 1 : t->dim[k], have = k < t->rank - rank ? 1 : dim[k - (t->rank - rank)];
    if (want != have) return false;
  }
  return true;
}
fx_level fx_level_of(const fx_group *x, const tn_type *t) {
  tn_dim dim[TN_MAX_RANK];
  int at[TN_MAX_RANK];
  tn_type rows = {.rank = 0, .dim = dim};
  if (tn_px_unit_map(x->type, t, at)) return LV_DOMAIN;
  for (uint32_t k = 0; k < x->type->rank; k++)
    if (!(x->reduced >> k & 1)) dim[rows.rank++] = x->type->dim[k];
  return tn_px_unit_map(&rows, t, at) ? LV_REDUCED : LV_NONE;
}
bool fx_sits_well(fx *f, const fx_group *x, tn_ref r, const fx_trace *t, const tn_type *reader, bool inner) {
  const tn_type *end = tn_typeof(f->g, r);
  fx_level from = fx_level_of(x, fx_type(f, t->base)), to = fx_level_of(x, reader);
  if (inner) return true; /* a small value computed from outside: index arithmetic puts it in place */
  if (from == LV_NONE || to == LV_NONE || t->permute || t->cut) return false;
  if (from == to) return !t->stretch && tn_px_numel(f->g, end) == tn_px_numel(f->g, reader) && tn_px_broadcasts_to(end, reader->rank, reader->dim);
  if (to == LV_REDUCED) return false; /* rows can't read single elements */
  if (t->stretch) { /* find the shape before the stretch: only one, only last */
    const tn_node *n = tn_def(f->g, r);
    if (n->op != TN_OP_BROADCAST || !tn_px_same_shape(end, reader)) return false;
    end = tn_typeof(f->g, n->in[0]);
    if (fx_def(f, n->in[0]) != t->base && tn_px_op(f->g, n->in[0]) != TN_OP_RESHAPE) return false;
  }
  return is_kept_form(x, reader, end->rank, end->dim);
}
/* Two reductions over one domain and the same dims of it. */
bool fx_same_reduction(const fx_group *x, const tn_type *s, uint32_t bits) {
  uint32_t mine;
  int at[TN_MAX_RANK];
  if (!reduced_in(x, s, &mine) || !tn_px_unit_map(x->type, s, at)) return false;
  for (uint32_t j = 0; j < s->rank; j++)
    if (s->dim[j] == 1) bits &= ~(1u << j);
  return mine == bits;
}

/* ---- joining one node ---- */

/* Small values from outside that were drawn into a group: neither domain nor reduced. */
static bool is_inner(fx *f, uint32_t t, uint32_t node) {
  const fx_group *x = &f->group[t];
  if (x->kind == FX_REDUCTION) return fx_level_of(x, fx_type(f, node)) == LV_NONE;
  if (x->kind == FX_POINTWISE) return tn_px_numel(f->g, fx_type(f, node)) != x->numel;
  return f->map[node] == 0;
}

/* May `node` become a full member of group t, as far as shapes and ways go? */
static bool shapes_allow(fx *f, uint32_t t, uint32_t node, uint64_t *out_map) {
  const fx_group *x = &f->group[t];
  const tn_node *n = &f->g->node[node];
  const tn_type *type = fx_type(f, node);
  tn_dim numel = tn_px_numel(f->g, type);
  bool linked = false, behind = x->kind == FX_CONTRACT || x->kind == FX_ATTENTION;
  uint64_t map = 0;
  if (n->op == TN_OP_PAD || n->op == TN_OP_FLIP || f->cls[node] == FX_INDEX) return false; /* starts a group, joins none */
  if (x->kind == FX_REDUCTION) {
    if (fx_level_of(x, type) == LV_NONE || f->cls[node] == FX_MOVE) return false;
  } else if (numel == TN_DIM_BAD || numel != x->numel) return false;
  for (uint32_t k = 0; k < n->n_in; k++) {
    fx_trace r = fx_trace_back(f, n->in[k], f->map[fx_trace_back(f, n->in[k], 1).base]);
    if (f->of[r.base] != t) continue;
    bool inner = is_inner(f, t, r.base);
    if (x->kind == FX_REDUCTION) {
      if (!fx_sits_well(f, x, n->in[k], &r, type, inner)) return false;
    } else if (behind) {
      if (f->map[r.base] == 0) return false; /* scores, casts of operands */
      if (r.stretch || r.cut || tn_px_numel(f->g, tn_typeof(f->g, n->in[k])) != numel) return false;
      if (map && map != r.map) return false;
      map = r.map;
    } else if (!inner) {
      if (r.stretch || r.cut || tn_px_numel(f->g, tn_typeof(f->g, n->in[k])) != numel) return false;
      uint32_t v = tn_out(&f->g->node[r.base], 0).id;
      if (r.permute && f->use_at[v + 1] - f->use_at[v] > 1) return false; /* it would be stored in one order and computed in another */
    }
    linked = linked || !inner;
  }
  *out_map = map;
  return linked;
}
static bool try_join(fx *f, uint32_t t, uint32_t node, bool *out_oom) {
  uint64_t map = 0;
  if (!shapes_allow(f, t, node, &map) || !fx_fits(f, t, 0, node) || fx_needs(f, 0, node, t)) return false;
  if (!fx_group_put(f, t, node)) { *out_oom = true; return false; }
  f->map[node] = map;
  return true;
}

/* ---- pulling a whole group in ---- */
/* Computing h's values once per reader element instead of once: fine unless they are dear and read many times. */
static bool recompute_is_fine(fx *f, uint32_t h, uint32_t t) {
  int64_t nt, nh, dear = 0;
  for (uint32_t i = 0; i < f->group[h].n; i++) dear += tn_px_is_dear(f->g->node[f->group[h].member[i]].op);
  if (dear == 0) return true;
  return tn_px_static(f->group[t].type, &nt) && tn_px_static(f->group[h].type, &nh) && nt <= 4 * nh;
}

static bool h_fits_reduction(fx *f, uint32_t t, uint32_t h, bool vanishes) {
  const fx_group *x = &f->group[t];
  for (uint32_t i = 0; i < f->group[h].n; i++) {
    fx_level l = fx_level_of(x, fx_type(f, f->group[h].member[i]));
    if (l == LV_DOMAIN) continue;
    if (!vanishes) return false;
    if (tn_px_numel(f->g, fx_type(f, f->group[h].member[i])) == x->numel) return false; /* as big as the domain, in another shape */
  }
  return true;
}

/* Every link between the two groups, either way, must stay right when both are one. */
static bool links_allow(fx *f, uint32_t t, uint32_t h) {
  const fx_group *x = &f->group[t];
  for (int side = 0; side < 2; side++) {
    uint32_t from = side ? t : h, to = side ? h : t;
    for (uint32_t i = 0; i < f->group[from].n; i++) {
      uint32_t m = f->group[from].member[i];
      for (uint32_t k = 0; k < f->g->node[m].n_in; k++) {
        tn_ref r = f->g->node[m].in[k];
        fx_trace w = fx_trace_back(f, r, 1);
        if (f->of[w.base] != to) continue;
        if (x->kind == FX_REDUCTION) {
          bool inner = f->group[to].kind == FX_POINTWISE;
          const tn_type *reader = f->g->node[m].op == TN_OP_REDUCE ? tn_typeof(f->g, r) : fx_type(f, m);
          if (!fx_sits_well(f, x, r, &w, reader, inner)) return false;
        } else if (x->kind != FX_POINTWISE && to == t) return false; /* it would have joined by itself */
      }
    }
  }
  return true;
}

static bool may_pull(fx *f, uint32_t t, uint32_t h, const fx_trace *way) {
  const fx_group *x = &f->group[t], *y = &f->group[h];
  if (!links_allow(f, t, h)) return false;
  if (x->kind == FX_REDUCTION && y->kind == FX_REDUCTION)
    return fx_same_reduction(x, y->type, y->reduced);
  if (y->kind != FX_POINTWISE) return false;
  bool vanishes = fx_all_uses_in(f, h, t, 0), same = y->numel == x->numel && y->numel != TN_DIM_BAD;
  bool straight = !way->stretch && !way->cut && !way->permute;
  if (x->kind == FX_REDUCTION) {
    if (same && straight && h_fits_reduction(f, t, h, vanishes)) return true;
    return vanishes && !way->cut && h_fits_reduction(f, t, h, true) && recompute_is_fine(f, h, t);
  }
  if (x->kind == FX_POINTWISE && same && straight) return true;
  if (!vanishes) return false;
  if (same && straight) return true;
  if (x->kind != FX_POINTWISE && way->cut) return false;
  return recompute_is_fine(f, h, t);
}
/* The anchor's order decides how its epilogue is walked, so nothing of the other group lies behind it: maps stay 0. */
static tn_status pull_operands(fx *f, uint32_t node) {
  uint32_t t = f->of[node];
  const tn_node *n = &f->g->node[node];
  for (uint32_t k = 0; k < n->n_in; k++) {
    if (fx_outside_operand(f, node, k)) continue;
    fx_trace way = fx_trace_back(f, n->in[k], 1);
    uint32_t h = f->of[way.base];
    if (!h || h == t || f->cls[way.base] == FX_CHEAP) continue;
    /* an implicit stretch is one too */
    if (tn_px_numel(f->g, tn_typeof(f->g, n->in[k])) != tn_px_numel(f->g, fx_type(f, node))) way.stretch = true;
    if (n->op == TN_OP_PAD || n->op == TN_OP_FLIP || f->cls[node] == FX_INDEX) way.cut = true;
    if (!may_pull(f, t, h, &way) || !fx_fits(f, t, h, 0) || fx_needs(f, t, 0, h) || fx_needs(f, h, 0, t)) continue;
    if (!fx_merge(f, t, h)) return FX_OOM(f);
  }
  return TN_OK;
}

static tn_status place_pointwise(fx *f, uint32_t node) {
  const tn_node *n = &f->g->node[node];
  bool oom = false, joined = false;
  for (int rank = 0; rank < 3 && !joined; rank++) { /* behind an anchor, else at a reduction, else pointwise; the latest first */
    for (uint32_t last = UINT32_MAX; !joined;) {
      uint32_t best = 0, best_hi = 0;
      for (uint32_t k = 0; k < n->n_in; k++) {
        uint32_t h = f->of[fx_trace_back(f, n->in[k], 1).base];
        if (!h) continue;
        const fx_group *x = &f->group[h];
        int r = x->kind == FX_POINTWISE ? 2 : x->kind == FX_REDUCTION ? 1 : 0;
        uint32_t when = x->anchor ? x->anchor : x->hi;
        if (r == rank && when < last && when > best_hi) best = h, best_hi = when;
      }
      if (!best) break;
      last = best_hi;
      joined = try_join(f, best, node, &oom);
      if (oom) return FX_OOM(f);
    }
  }
  if (!joined && !fx_group_new(f, FX_POINTWISE, node)) return FX_OOM(f);
  return pull_operands(f, node);
}

uint32_t fx_reduced_of(const fx *f, uint32_t node) {
  tn_dim d[TN_MAX_RANK];
  int n = tn_attr_dims(&f->g->node[node], "dims", d, TN_MAX_RANK);
  uint32_t bits = 0;
  for (int i = 0; i < n; i++) bits |= 1u << d[i];
  return bits;
}

static tn_status place_reduce(fx *f, uint32_t node) {
  tn_ref o = f->g->node[node].in[0];
  const tn_type *s = tn_typeof(f->g, o);
  uint32_t bits = fx_reduced_of(f, node), home = 0;
  fx_trace way = fx_trace_back(f, o, 1);
  uint32_t h = f->of[way.base];
  bool plain = !way.permute && !way.stretch && !way.cut;
  if (h && plain && f->cls[way.base] != FX_CHEAP) {
    fx_group *x = &f->group[h];
    int at[TN_MAX_RANK];
    if (x->kind == FX_REDUCTION && fx_same_reduction(x, s, bits) && fx_level_of(x, fx_type(f, way.base)) == LV_DOMAIN) home = h;
    if (x->kind == FX_POINTWISE && tn_px_unit_map(s, fx_type(f, way.base), at)) {
      home = h;
      for (uint32_t i = 0; i < x->n && home; i++) {
        const tn_type *m = fx_type(f, x->member[i]);
        if (tn_px_numel(f->g, m) == x->numel && !tn_px_unit_map(s, m, at)) home = 0;
      }
    }
  } else if (!h) { /* another reduction of the same value in the same way */
    for (uint32_t i = f->n_groups; i-- > 1 && !home;) {
      fx_group *x = &f->group[i];
      if (!x->live || x->kind != FX_REDUCTION || !fx_same_reduction(x, s, bits)) continue;
      for (uint32_t k = 0; k < x->n && !home; k++) {
        const tn_node *m = &f->g->node[x->member[k]];
        if (m->op == TN_OP_REDUCE && m->in[0].id == o.id) home = i;
      }
    }
  }
  if (home && (!fx_fits(f, home, 0, node) || fx_needs(f, 0, node, home))) home = 0;
  if (home && !fx_group_put(f, home, node)) return FX_OOM(f);
  if (!home && !(home = fx_group_new(f, FX_REDUCTION, node))) return FX_OOM(f);
  fx_group *x = &f->group[home];
  if (x->kind == FX_POINTWISE || x->n == 1) {
    x->kind = FX_REDUCTION;
    x->reduced = bits;
    x->type = s;
    x->numel = tn_px_numel(f->g, s);
  }
  return TN_OK;
}

static tn_status place_anchor(fx *f, uint32_t node) {
  const tn_node *n = &f->g->node[node];
  uint32_t t = fx_group_new(f, FX_CONTRACT, node);
  if (!t) return FX_OOM(f);
  f->group[t].anchor = node;
  f->map[node] = 1;
  for (uint32_t k = 0; k < n->n_in; k++) {
    uint32_t m = fx_def(f, n->in[k]);
    if (f->prologue[m] && !f->of[m] && !fx_group_put(f, t, m)) return FX_OOM(f);
  }
  return TN_OK;
}

tn_status fx_place(fx *f, uint32_t node) {
  switch (f->cls[node]) {
  case FX_REDUCE: return place_reduce(f, node);
  case FX_ANCHOR: return place_anchor(f, node);
  default: return place_pointwise(f, node);
  }
}

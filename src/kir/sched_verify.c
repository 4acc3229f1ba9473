/* sched_verify.c: is a schedule legal for its definition? What passes becomes a nest with the definition's values.
 *
 * Order of execution in a block: outer loops in their order; then, per shared step, the other loops in theirs. Inside a loop: stages that
 * vary along its reduction axes are computed (and kept in scratch) while reducing; then the reductions are finished; then the rest in the
 * loop's order. So a reader sees a kept stage when that comes earlier in this order, and where it can: a register only in its own loop, or
 * anywhere after it once every axis of the stage is fixed (a block or shared step of one position); scratch in later loops of the same
 * block. Axes below are those that are left after merging; axes of extent 1 do not count. */
#include <string.h>
#include "kir/analyze.h"
#include "kir/sched.h"

typedef struct checker {
  tn_diag *d;
  tn_arena a;
  const tn_kdef *k;
  const tn_ksched *s;
  tn_kan *an;
  uint32_t par1, fixed; /* axes a block fixes; and with shared steps */
  uint8_t *loop_of;     /* [n_stage] loop + 1, 0 = none */
  uint8_t *rank;        /* [n_stage] place in the order of its loop */
  bool *reads;          /* [n_stage] stages a value needs, through inline ones */
  bool *mark;           /* [n_x] */
} checker;

#define BAD(c, ...)                                                                                                                        \
  return tn_diag_while((c)->d, tn_fail((c)->d, TN_E_VERIFY, __VA_ARGS__), "verifying the schedule of kernel @%s", (c)->k->name)

static const char *name(const checker *c, uint32_t axis) { return c->k->axis[axis].name; }
static bool has(uint32_t bits, int axis) { return axis >= 0 && (bits >> axis & 1); }
static bool pow2(uint32_t v) { return v && !(v & (v - 1)); }
static uint32_t lowest(uint32_t bits) {
  uint32_t a = 0;
  while (!(bits >> a & 1)) a++;
  return a;
}

static tn_status check_axis(checker *c, uint32_t a, uint32_t *seen, const char *where) {
  if (a >= c->k->n_axis) BAD(c, "%s names axis %u of %u", where, a, c->k->n_axis);
  if (c->an->into[a] != a) BAD(c, "%s names axis %s, which is merged into %s", where, name(c, a), name(c, c->an->into[a]));
  if (*seen >> a & 1) BAD(c, "%s names axis %s twice", where, name(c, a));
  *seen |= 1u << a;
  return TN_OK;
}

static tn_status check_merges(checker *c) {
  for (uint32_t i = 0; i < c->s->n_merge; i++) {
    uint32_t a = c->s->merge_from[i], b = c->s->merge_to[i];
    if (a >= c->k->n_axis || b >= c->k->n_axis) BAD(c, "merge %u names an axis over %u", i, c->k->n_axis);
    if (!tn_kan_merge(c->an, a, b)) BAD(c, "axes %s and %s do not merge", name(c, a), name(c, b));
  }
  return TN_OK;
}

static tn_status check_cuts(checker *c, const tn_kpar *cut, uint32_t n, const char *where, uint32_t *fixed) {
  uint32_t seen = 0;
  if (n > TN_DEF_MAX_AXES) BAD(c, "%s of %u axes", where, n);
  for (uint32_t i = 0; i < n; i++) {
    TN_TRY(check_axis(c, cut[i].axis, &seen, where));
    if (cut[i].block < 1) BAD(c, "%s %s/%lld", where, name(c, cut[i].axis), (long long)cut[i].block);
    if (cut[i].block == 1) *fixed |= 1u << cut[i].axis;
    for (uint32_t s = 0; s < c->k->n_stage; s++) {
      if (tn_kan_red(c->an, s) >> cut[i].axis & 1) BAD(c, "%s axis %s is reduced by stage %u", where, name(c, cut[i].axis), s);
      if (c->k->stage[s].out >= 0 && !(tn_kan_axes(c->an, s) >> cut[i].axis & 1))
        BAD(c, "%s axis %s: every block would store stage %u", where, name(c, cut[i].axis), s);
    }
  }
  return TN_OK;
}

static tn_status check_keeps(checker *c) {
  const tn_kdef *k = c->k;
  if (c->s->n_keep != k->n_stage || c->s->n_pack != k->n_param) BAD(c, "%u kept stages of %u", c->s->n_keep, k->n_stage);
  for (uint32_t s = 0; s < k->n_stage; s++) {
    uint8_t how = c->s->keep[s];
    if (how > TN_KEEP_OUT) BAD(c, "stage %u is kept in %u", s, how);
    if ((how == TN_KEEP_OUT) != (k->stage[s].out >= 0))
      BAD(c, "stage %u is %s", s, k->stage[s].out >= 0 ? "stored, not kept" : "not stored");
    if (how == TN_KEEP_INLINE && k->stage[s].n_red) BAD(c, "stage %u reduces and is not kept", s);
    if ((how == TN_KEEP_INLINE) != (c->loop_of[s] == 0)) BAD(c, "stage %u is %s", s, how ? "in no loop" : "in a loop and not kept");
  }
  return TN_OK;
}

/* ---- loops ---- */

static tn_status check_tile(checker *c, const tn_kloop *L, uint32_t order, uint32_t red) {
  if (L->v_axis < 0 ? L->lanes != 1 || L->nv != 1 || L->v_red : !has(L->v_red ? red : order, L->v_axis))
    BAD(c, "vector axis %d is none of its loop's", L->v_axis);
  if (!pow2(L->lanes) || L->lanes > 64 || L->nv < 1) BAD(c, "vectors of %u lanes, %u at once", L->lanes, L->nv);
  if (L->r_axis < 0 ? L->rows != 1 : L->r_axis == L->v_axis || !has(order, L->r_axis))
    BAD(c, "row axis %d is none of its loop's", L->r_axis);
  if (L->rows < 1 || L->rows * L->nv > TN_LOOP_MAX_TILE) BAD(c, "a tile of %u rows and %u vectors", L->rows, L->nv);
  return TN_OK;
}

static tn_status check_loop(checker *c, uint32_t number) {
  const tn_kloop *L = &c->s->loop[number];
  uint32_t order = 0, red = 0, fixed = L->outer ? c->par1 : c->fixed;
  if (L->n_stage == 0 || L->n_stage > TN_LOOP_MAX_STAGES || L->n_order > TN_DEF_MAX_AXES || L->n_red > TN_DEF_MAX_AXES)
    BAD(c, "loop %u is malformed", number);
  for (uint32_t i = 0; i < L->n_order; i++) TN_TRY(check_axis(c, L->order[i], &order, "order"));
  for (uint32_t i = 0; i < L->n_red; i++) TN_TRY(check_axis(c, L->red[i], &red, "red"));
  if (order & (fixed | red)) BAD(c, "loop %u orders axis %s, which is fixed or reduced", number, name(c, lowest(order & (fixed | red))));
  TN_TRY(check_tile(c, L, order, red));
  if (L->piece < 0 || (L->piece && (L->n_red == 0 || L->v_red)))
    BAD(c, "loop %u takes its reduction in pieces of %lld", number, (long long)L->piece);
  bool reduces = false;
  for (uint32_t pass = 0, place = 0; pass < 3; pass++) /* in the order of execution */
    for (uint32_t i = 0; i < L->n_stage; i++) {
      uint32_t s = L->stage[i];
      if (s >= c->k->n_stage) BAD(c, "loop %u computes stage %u of %u", number, s, c->k->n_stage);
      uint32_t axes = tn_kan_axes(c->an, s);
      bool is_red = c->k->stage[s].n_red > 0, in_body = !is_red && (axes & red);
      if (pass != (in_body ? 0 : is_red ? 1 : 2)) continue;
      if (c->loop_of[s]) BAD(c, "stage %u is computed twice", s);
      c->loop_of[s] = (uint8_t)(number + 1);
      c->rank[s] = (uint8_t)++place;
      reduces |= is_red;
      if (axes & ~(order | fixed | (in_body ? red : 0)))
        BAD(c, "loop %u lacks axis %s of stage %u", number, name(c, lowest(axes & ~(order | fixed | (in_body ? red : 0)))), s);
      if (is_red && tn_kan_red(c->an, s) != red) BAD(c, "loop %u does not reduce what stage %u reduces", number, s);
      bool arg = is_red && (c->k->stage[s].combiner == TN_C_ARGMAX || c->k->stage[s].combiner == TN_C_ARGMIN);
      if (L->piece && (arg || in_body)) BAD(c, "stage %u cannot be taken in pieces", s);
      if (in_body && c->s->keep[s] != TN_KEEP_SCRATCH) BAD(c, "stage %u varies along reduction axes and is not kept in scratch", s);
    }
  if (red && !reduces) BAD(c, "loop %u reduces nothing", number);
  if (L->piece < 0 || (L->piece && (!red || L->v_red || L->v_axis < 0 || L->outer || c->s->n_loop != 1)))
    BAD(c, "loop %u cannot take its reduction in pieces", number);
  for (uint32_t i = 0; i < L->n_stage && L->piece; i++)
    if (c->k->stage[L->stage[i]].n_red ? c->k->stage[L->stage[i]].combiner != TN_C_SUM : (tn_kan_axes(c->an, L->stage[i]) & red) != 0)
      BAD(c, "stage %u does not go with pieces of the reduction", L->stage[i]);
  return TN_OK;
}

/* ---- readers ---- */

/* Marks the stages that the value of `root` needs, through inline ones. */
static void find_reads(checker *c, tn_kx_id root) {
  memset(c->mark, 0, c->k->n_x * sizeof *c->mark);
  c->mark[root] = true;
  for (uint32_t top = root, i = top; i > 0; i--) {
    const tn_kx *x = &c->k->x[i];
    if (!c->mark[i]) continue;
    c->mark[i] = false;
    for (int j = 0; j < 3; j++)
      if (x->arg[j]) c->mark[x->arg[j]] = true;
    for (uint32_t j = 0; j < x->n_idx; j++) c->mark[x->idx[j]] = true;
    if (x->guard) c->mark[x->guard] = true;
    if (x->op != TN_KX_STAGE || c->reads[x->ref]) continue;
    c->reads[x->ref] = true;
    tn_kx_id next = c->k->stage[x->ref].root;
    if (c->s->keep[x->ref] != TN_KEEP_INLINE) continue;
    c->mark[next] = true;
    if (next >= i) i = next + 1; /* the inline stage's value may have larger numbers */
  }
}

static bool before(const checker *c, uint32_t s, uint32_t reader) { /* loops in order of execution; outer ones first */
  uint32_t a = c->loop_of[s] - 1u, b = c->loop_of[reader] - 1u;
  bool oa = c->s->loop[a].outer, ob = c->s->loop[b].outer;
  return oa != ob ? oa : a < b;
}

static tn_status check_reads(checker *c, uint32_t reader) {
  memset(c->reads, 0, c->k->n_stage * sizeof *c->reads);
  find_reads(c, c->k->stage[reader].root);
  if (c->k->stage[reader].out >= 0)
    for (uint32_t j = 0; j < c->k->param[c->k->stage[reader].out].rank; j++) find_reads(c, c->k->stage[reader].out_idx[j]);
  for (uint32_t s = 0; s < c->k->n_stage; s++) {
    uint8_t how = c->s->keep[s];
    if (!c->reads[s] || how == TN_KEEP_INLINE) continue;
    bool same = c->loop_of[s] == c->loop_of[reader], outer = c->s->loop[c->loop_of[s] - 1].outer;
    if (same ? c->rank[s] >= c->rank[reader] : !before(c, s, reader))
      BAD(c, "stage %u is computed after stage %u, which reads it", s, reader);
    if (same && c->k->stage[s].n_red && c->k->stage[reader].n_red)
      BAD(c, "stages %u and %u reduce in one loop, and one reads the other", s, reader);
    if (same || how == TN_KEEP_SCRATCH) continue;
    if (how == TN_KEEP_OUT) BAD(c, "stage %u is stored in one loop and read by stage %u in another", s, reader);
    if (c->s->loop[c->loop_of[s] - 1].piece || (tn_kan_axes(c->an, s) & ~(outer ? c->par1 : c->fixed)))
      BAD(c, "stage %u is in a register and read by stage %u in another loop", s, reader);
  }
  return TN_OK;
}

/* ---- packing ---- */

static tn_status check_pack(checker *c, uint32_t p) {
  const tn_kdef *k = c->k;
  uint32_t n = 0;
  tn_kx_id x = 0;
  for (uint32_t i = 1; i < k->n_x; i++)
    if (k->x[i].op == TN_KX_LOAD && k->x[i].ref == p) x = i, n++;
  const tn_lin *l = &c->an->load[x];
  if (!k->param[p].frozen) BAD(c, "%s is packed but no weight", k->param[p].name);
  if (n != 1 || l->n_opq || l->base != 0 || k->x[x].guard)
    BAD(c, "%s is packed: %u loads, or a load at no plain place", k->param[p].name, n);
  uint32_t deps = tn_kan_deps(c->an, x);
  for (uint32_t a = 0; a < k->n_axis; a++)
    if ((deps >> a & 1) && !tn_dim_is_const(c->an->extent[a]))
      BAD(c, "%s is packed along %s, whose size is not known", k->param[p].name, name(c, a));
  for (uint32_t s = 0; s < k->n_stage; s++) {
    memset(c->mark, 0, k->n_x * sizeof *c->mark);
    memset(c->reads, 0, k->n_stage * sizeof *c->reads);
    if (!c->loop_of[s]) continue;
    find_reads(c, k->stage[s].root);
    bool here = false;
    for (uint32_t q = 0; q <= k->n_stage; q++) { /* its own value, or an inline one below it */
      if (q < k->n_stage && !(c->reads[q] && c->s->keep[q] == TN_KEEP_INLINE)) continue;
      memset(c->mark, 0, k->n_x * sizeof *c->mark);
      c->mark[k->stage[q < k->n_stage ? q : s].root] = true;
      for (uint32_t i = k->n_x; i-- > 1;) {
        const tn_kx *e = &k->x[i];
        if (!c->mark[i]) continue;
        for (int j = 0; j < 3; j++)
          if (e->arg[j]) c->mark[e->arg[j]] = true;
        for (uint32_t j = 0; j < e->n_idx; j++) c->mark[e->idx[j]] = true;
        if (e->guard) c->mark[e->guard] = true;
      }
      here |= c->mark[x];
    }
    const tn_kloop *L = &c->s->loop[c->loop_of[s] - 1];
    if (here && (!has(deps, L->v_axis) || !k->stage[s].n_red || (!L->v_red && has(deps, L->r_axis))))
      BAD(c, "%s is packed, but stage %u does not read it in panels", k->param[p].name, s);
    for (uint32_t i = 0; here && i < c->s->n_par; i++)
      if (c->s->par[i].axis == L->v_axis && c->s->par[i].block % ((int64_t)L->lanes * L->nv))
        BAD(c, "%s is packed, and blocks of %s cut its panels", k->param[p].name, name(c, c->s->par[i].axis));
    for (uint32_t i = 0; here && i < c->s->n_share; i++)
      if (c->s->share[i].axis == L->v_axis)
        BAD(c, "%s is packed, and steps of %s cut its panels", k->param[p].name, name(c, c->s->share[i].axis));
  }
  return TN_OK;
}

static tn_status check(checker *c) {
  const tn_ksched *s = c->s;
  uint32_t n = c->k->n_stage;
  TN_TRY(tn_kan_make(c->d, &c->a, c->k, &c->an));
  c->loop_of = TN_NEW(&c->a, uint8_t, n + 1);
  c->rank = TN_NEW(&c->a, uint8_t, n + 1);
  c->reads = TN_NEW(&c->a, bool, n + 1);
  c->mark = TN_NEW(&c->a, bool, c->k->n_x);
  if (!c->loop_of || !c->rank || !c->reads || !c->mark) return tn_fail(c->d, TN_E_NOMEM, "tables to verify a schedule");
  if (s->n_merge > TN_DEF_MAX_AXES || s->n_loop > n + 1 || s->grain < 1)
    BAD(c, "%u merges, %u loops, grain %lld", s->n_merge, s->n_loop, (long long)s->grain);
  TN_TRY(check_merges(c));
  TN_TRY(check_cuts(c, s->par, s->n_par, "par", &c->par1));
  c->fixed = c->par1;
  TN_TRY(check_cuts(c, s->share, s->n_share, "share", &c->fixed));
  for (uint32_t i = 0; i < s->n_loop; i++) TN_TRY(check_loop(c, i));
  TN_TRY(check_keeps(c));
  for (uint32_t i = 0; i < n; i++)
    if (c->loop_of[i]) TN_TRY(check_reads(c, i));
  for (uint32_t i = 0; i < s->n_pack; i++)
    if (s->pack[i]) TN_TRY(check_pack(c, i));
  return TN_OK;
}

tn_status tn_ksched_verify(tn_diag *d, const tn_kdef *k, const tn_ksched *s) {
  checker c = {.d = d, .k = k, .s = s};
  tn_arena_init(&c.a);
  tn_status st = check(&c);
  tn_arena_deinit(&c.a);
  return st;
}

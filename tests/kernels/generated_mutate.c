/* Random changes to a schedule, as a tuner would make them: cuts, tiles, vector axes, orders, where values live. Most are illegal and the
 * verifier must say so; a legal one must become a nest with the definition's values (generated_run.c checks that). */
#include "generated.h"

static uint64_t state;
static uint32_t below(uint32_t n) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return n ? (uint32_t)(state >> 33) % n : 0;
}

static void swap(uint8_t *a, uint32_t n) {
  if (n < 2) return;
  uint32_t i = below(n), j = below(n);
  uint8_t t = a[i];
  a[i] = a[j];
  a[j] = t;
}

static void set_tile(tn_kloop *L) { /* the vector axis: one of the loop's, or none */
  static const uint8_t lanes[] = {1, 2, 4, 8, 16, 16, 8, 32};
  uint32_t n = L->n_order + L->n_red, k = below(n + 1);
  L->v_axis = k == n ? -1 : (int8_t)(k < L->n_order ? L->order[k] : L->red[k - L->n_order]);
  L->v_red = k < n && k >= L->n_order;
  L->lanes = L->v_axis < 0 ? 1 : lanes[below(8)];
  L->nv = L->v_axis < 0 ? 1 : (uint8_t)(1 + below(4));
}

static void set_rows(tn_kloop *L) {
  L->r_axis = L->n_order && below(4) ? (int8_t)L->order[below(L->n_order)] : -1;
  L->rows = L->r_axis < 0 ? 1 : (uint8_t)(1 + below(9));
}

static void set_cut(tn_kpar *cut, uint32_t *n, uint32_t n_axis) {
  static const int64_t blocks[] = {1, 1, 2, 3, 5, 8, 16, 64};
  uint32_t how = below(4);
  if (how == 0 && *n)
    (*n)--;
  else if (how == 1 && *n < n_axis)
    cut[(*n)++] = (tn_kpar){(uint8_t)below(n_axis), blocks[below(8)]};
  else if (*n)
    cut[below(*n)].block = blocks[below(8)];
}

/* An axis that was fixed is now a loop's, or the other way round: without it few changes of cuts are legal. */
static void refit(const tn_kdef *k, tn_ksched *s) {
  for (uint32_t i = 0; i < s->n_loop; i++) {
    tn_kloop *L = &s->loop[i];
    uint32_t want = 0, fixed = 0, n = 0;
    for (uint32_t j = 0; j < L->n_stage; j++)
      for (uint32_t a = 0; a < k->stage[L->stage[j]].n_axis; a++) want |= 1u << k->stage[L->stage[j]].axis[a];
    for (uint32_t j = 0; j < s->n_merge; j++) want &= ~(1u << s->merge_from[j]);
    for (uint32_t j = 0; j < L->n_red; j++) want &= ~(1u << L->red[j]);
    for (uint32_t j = 0; j < s->n_par; j++)
      if (s->par[j].block == 1) fixed |= 1u << s->par[j].axis;
    for (uint32_t j = 0; j < s->n_share && !L->outer; j++)
      if (s->share[j].block == 1) fixed |= 1u << s->share[j].axis;
    want &= ~fixed;
    for (uint32_t a = 0; a < k->n_axis; a++)
      if (k->axis[a].extent == 1) want &= ~(1u << a);
    for (uint32_t j = 0; j < L->n_order; j++)
      if (want >> L->order[j] & 1) {
        want &= ~(1u << L->order[j]);
        L->order[n++] = L->order[j];
      }
    for (uint32_t a = 0; a < k->n_axis; a++)
      if (want >> a & 1) L->order[n++] = (uint8_t)a;
    L->n_order = n;
    bool v = L->v_axis < 0 || L->v_red, r = L->r_axis < 0;
    for (uint32_t j = 0; j < n; j++) v |= L->v_axis == (int)L->order[j], r |= L->r_axis == (int)L->order[j];
    if (!v) set_tile(L);
    if (!r) set_rows(L);
  }
}

void gen_mutate(const tn_kdef *k, tn_ksched *s, uint64_t seed) {
  state = seed * 0x9e3779b97f4a7c15u + 1;
  for (uint32_t n = 1 + below(4); n; n--) {
    tn_kloop *L = &s->loop[below(s->n_loop)];
    uint32_t t = k->n_stage ? below(k->n_stage) : 0;
    switch (below(11)) {
      case 0: set_cut(s->par, &s->n_par, k->n_axis); break;
      case 1: set_cut(s->share, &s->n_share, k->n_axis); break;
      case 2: set_tile(L); break;
      case 3: L->nv = L->v_axis < 0 ? 1 : (uint8_t)(1 + below(6)); break;
      case 4: set_rows(L); break;
      case 5: swap(L->order, L->n_order); break;
      case 6: swap(L->red, L->n_red); break;
      case 7:
        if (s->keep[t] == TN_KEEP_REG || s->keep[t] == TN_KEEP_SCRATCH)
          s->keep[t] = s->keep[t] == TN_KEEP_REG ? TN_KEEP_SCRATCH : TN_KEEP_REG;
        break;
      case 8: L->lanes = L->v_axis < 0 ? 1 : (uint8_t)(1u << below(6)); break;
      case 9: L->piece = L->n_red ? below(3) * (1 + below(9)) : 0; break;
      default: L->outer = !L->outer && below(3) == 0; break;
    }
    if (below(4)) refit(k, s);
  }
}

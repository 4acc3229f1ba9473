/* analyze.c: linear addresses of all accesses of a definition, and which neighbouring axes may become one.
 * An address is a sum of axis terms plus opaque terms (values of index tensors, divisions that did not split). */
#include <string.h>
#include "kir/analyze.h"

/* Adds scale * x to l. Sums are split so that their affine parts stay visible. fuel bounds the walk: expressions share parts, and text from
 * outside may share them many times over. */
static bool lin_add_term(const tn_kdef *k, tn_lin *l, tn_kx_id x, tn_dim scale, int *fuel) {
  tn_dim coef[TN_DEF_MAX_AXES], base;
  const tn_kx *e = &k->x[x];
  if (--*fuel < 0) return false;
  if (tn_kx_affine(k, x, coef, &base)) {
    for (uint32_t i = 0; i < k->n_axis; i++)
      if (coef[i] != 0) l->coef[i] = tn_dim_add(k->dims, l->coef[i], tn_dim_mul(k->dims, coef[i], scale));
    if (base != 0) l->base = tn_dim_add(k->dims, l->base, tn_dim_mul(k->dims, base, scale));
    return true;
  }
  if (e->op == TN_KX_SCALAR && e->dtype == TN_I64 && (e->sop == TN_S_ADD || e->sop == TN_S_SUB)) {
    tn_dim neg = e->sop == TN_S_SUB ? tn_dim_mul(k->dims, scale, tn_dim_int(k->dims, -1)) : scale;
    return lin_add_term(k, l, e->arg[0], scale, fuel) && lin_add_term(k, l, e->arg[1], neg, fuel);
  }
  if (e->op == TN_KX_SCALAR && e->dtype == TN_I64 && e->sop == TN_S_MUL) {
    for (int s = 0; s < 2; s++) {
      const tn_kx *f = &k->x[e->arg[s]];
      tn_dim v = f->op == TN_KX_CONST ? tn_dim_int(k->dims, f->imm.i) : f->op == TN_KX_SIZE ? f->dim : TN_DIM_BAD;
      if (v != TN_DIM_BAD) return lin_add_term(k, l, e->arg[1 - s], tn_dim_mul(k->dims, scale, v), fuel);
    }
  }
  for (uint32_t i = 0; i < l->n_opq; i++)
    if (l->opq[i] == x) {
      l->opq_coef[i] = tn_dim_add(k->dims, l->opq_coef[i], scale);
      return true;
    }
  if (l->n_opq == TN_LIN_OPQ) return false;
  l->opq[l->n_opq] = x;
  l->opq_coef[l->n_opq++] = scale;
  return true;
}

static tn_status lin_make(tn_diag *d, const tn_kdef *k, const uint32_t *deps, uint32_t param, const tn_kx_id *idx, tn_lin *l) {
  memset(l, 0, sizeof *l);
  const tn_kparam *p = &k->param[param];
  int fuel = 500;
  for (uint32_t i = 0; i < p->rank; i++)
    if (!lin_add_term(k, l, idx[i], p->stride[i], &fuel))
      return tn_fail(d, TN_E_UNSUPPORTED, "kernel %s: address of %s has too many parts", k->name, p->name);
  if (l->base == TN_DIM_BAD) return tn_fail(d, TN_E_ARG, "kernel %s: address of %s overflows", k->name, p->name);
  for (uint32_t i = 0; i < k->n_axis; i++)
    if (l->coef[i] == TN_DIM_BAD) return tn_fail(d, TN_E_ARG, "kernel %s: address of %s overflows", k->name, p->name);
  for (uint32_t i = 0; i < l->n_opq; i++) {
    if (l->opq_coef[i] == TN_DIM_BAD) return tn_fail(d, TN_E_ARG, "kernel %s: address of %s overflows", k->name, p->name);
    l->opq_deps |= deps[l->opq[i]];
  }
  return TN_OK;
}

/* Axes read as values below the marked nodes; operands have smaller numbers than readers. Indices of loads are addresses, not values: their
 * opaque terms are marked by the caller. */
static uint32_t values_below(const tn_kdef *k, bool *mark) {
  uint32_t use = 0;
  for (uint32_t i = k->n_x; i-- > 1;) {
    const tn_kx *e = &k->x[i];
    if (!mark[i]) continue;
    if (e->op == TN_KX_AXIS) use |= 1u << e->ref;
    for (int j = 0; j < 3; j++)
      if (e->arg[j]) mark[e->arg[j]] = true;
    if (e->guard) mark[e->guard] = true;
  }
  return use;
}

tn_status tn_kan_make(tn_diag *d, tn_arena *a, const tn_kdef *k, tn_kan **out) {
  tn_kan *n = TN_NEW(a, tn_kan, 1);
  bool *seen = TN_NEW(a, bool, k->n_x + 1);
  if (!n || !seen) return tn_fail(d, TN_E_NOMEM, "analysis of %s", k->name);
  n->k = k;
  n->deps = TN_NEW(a, uint32_t, k->n_x);
  n->load = TN_NEW(a, tn_lin, k->n_x);
  n->store = TN_NEW(a, tn_lin, k->n_stage + 1);
  if (!n->deps || !n->load || !n->store) return tn_fail(d, TN_E_NOMEM, "analysis of %s", k->name);
  tn_kdef_deps(k, n->deps);
  for (uint32_t i = 0; i < k->n_axis; i++) {
    n->extent[i] = k->axis[i].extent;
    n->into[i] = (uint8_t)i;
  }
  for (uint32_t i = 1; i < k->n_x; i++) {
    if (k->x[i].op != TN_KX_LOAD) continue;
    TN_TRY(lin_make(d, k, n->deps, k->x[i].ref, k->x[i].idx, &n->load[i]));
    for (uint32_t j = 0; j < n->load[i].n_opq; j++) seen[n->load[i].opq[j]] = true;
    if (k->x[i].guard) seen[k->x[i].guard] = true;
  }
  for (uint32_t s = 0; s < k->n_stage; s++) {
    seen[k->stage[s].root] = true;
    if (k->stage[s].out < 0) continue;
    TN_TRY(lin_make(d, k, n->deps, (uint32_t)k->stage[s].out, k->stage[s].out_idx, &n->store[s]));
    for (uint32_t j = 0; j < n->store[s].n_opq; j++) seen[n->store[s].opq[j]] = true;
  }
  n->value_use = values_below(k, seen);
  *out = n;
  return TN_OK;
}

static uint32_t map_bits(const tn_kan *n, uint32_t m) {
  uint32_t r = 0;
  for (uint32_t i = 0; i < n->k->n_axis; i++)
    if (m >> i & 1) {
      uint32_t t = i;
      while (n->into[t] != t) t = n->into[t];
      if (n->extent[t] != 1) r |= 1u << t;
    }
  return r;
}
uint32_t tn_kan_axes(const tn_kan *n, uint32_t s) {
  uint32_t m = 0;
  for (uint32_t i = 0; i < n->k->stage[s].n_axis; i++) m |= 1u << n->k->stage[s].axis[i];
  return map_bits(n, m);
}
uint32_t tn_kan_red(const tn_kan *n, uint32_t s) {
  uint32_t m = 0;
  for (uint32_t i = 0; i < n->k->stage[s].n_red; i++) m |= 1u << n->k->stage[s].red[i];
  return map_bits(n, m);
}
uint32_t tn_kan_deps(const tn_kan *n, tn_kx_id x) { return map_bits(n, n->deps[x]); }

bool tn_kan_can_merge(const tn_kan *n, uint32_t a, uint32_t b) {
  const tn_kdef *k = n->k;
  if (a == b || n->into[a] != a || n->into[b] != b || (n->value_use >> a & 1) || (n->value_use >> b & 1)) return false;
  for (uint32_t s = 0; s < k->n_stage; s++) { /* together, in the same role, everywhere */
    uint32_t ax = tn_kan_axes(n, s), rd = tn_kan_red(n, s);
    if ((ax >> a & 1) != (ax >> b & 1) || (rd >> a & 1) != (rd >> b & 1)) return false;
    if (k->stage[s].n_red && (k->stage[s].combiner == TN_C_ARGMAX || k->stage[s].combiner == TN_C_ARGMIN) && (rd >> a & 1)) return false;
    if (k->stage[s].out >= 0) {
      const tn_lin *l = &n->store[s];
      if (l->coef[a] != tn_dim_mul(k->dims, l->coef[b], n->extent[b])) return false;
    }
  }
  for (uint32_t i = 1; i < k->n_x; i++) {
    if (k->x[i].op != TN_KX_LOAD) continue;
    const tn_lin *l = &n->load[i];
    if (l->coef[a] != tn_dim_mul(k->dims, l->coef[b], n->extent[b])) return false;
  }
  return true;
}

bool tn_kan_merge(tn_kan *n, uint32_t a, uint32_t b) {
  if (!tn_kan_can_merge(n, a, b)) return false;
  tn_dim e = tn_dim_mul(n->k->dims, n->extent[a], n->extent[b]);
  if (e == TN_DIM_BAD) return false;
  n->extent[b] = e;
  n->extent[a] = 1;
  n->into[a] = (uint8_t)b;
  for (uint32_t i = 1; i < n->k->n_x; i++)
    if (n->k->x[i].op == TN_KX_LOAD) n->load[i].coef[a] = 0;
  for (uint32_t s = 0; s < n->k->n_stage; s++) n->store[s].coef[a] = 0;
  return true;
}

/* Arguments have smaller numbers than their readers, so one downward sweep over marks visits each node once. */
bool tn_kan_walk(const tn_kan *n, tn_kx_id x, void (*f)(void *u, tn_kx_id x), void *u) {
  uint8_t *mark = tn_calloc((size_t)x + 1, 1);
  if (!mark) return false;
  mark[x] = 1;
  for (tn_kx_id i = x; i > 0; i--) {
    if (!mark[i]) continue;
    const tn_kx *e = &n->k->x[i];
    f(u, i);
    for (int j = 0; j < 3; j++)
      if (e->arg[j]) mark[e->arg[j]] = 1;
    if (e->op != TN_KX_LOAD) continue;
    if (e->guard) mark[e->guard] = 1;
    for (uint32_t j = 0; j < n->load[i].n_opq; j++) mark[n->load[i].opq[j]] = 1;
  }
  tn_free(mark);
  return true;
}

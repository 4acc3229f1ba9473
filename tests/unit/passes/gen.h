/* Random graphs of primitive ops: small shapes, one symbol, every kind of node the passes care about. Always well typed, since each node
 * is added by tn_ops_add and dropped when the shape rule refuses it. */
#ifndef TN_GEN_H
#define TN_GEN_H
#include "passes_test.h"

enum { GEN_MAX = 160 };
typedef struct gen { world *w; uint64_t seed; tn_ref v[GEN_MAX]; uint32_t n; tn_dtype f; tn_dim pool[6]; } gen;

static inline tn_ref g_add(gen *x, tn_op op, const tn_ref *in, uint32_t n_in, const tn_attr *at, uint32_t n_at) {
  tn_ref r = {0};
  tn_status s = tn_ops_add(&x->w->d, x->w->g, op, in, n_in, at, n_at, 0, &r);
  if (s != TN_OK) {
    assert_true(s == TN_E_ARG);
    tn_diag_clear(&x->w->d);
    return (tn_ref){0};
  }
  if (x->n < GEN_MAX) x->v[x->n++] = r;
  return r;
}
static inline const tn_type *g_t(gen *x, tn_ref r) { return tn_typeof(x->w->g, r); }
static inline tn_ref g_pick(gen *x) { /* young ones more often: deep graphs */
  uint32_t back = below(&x->seed, below(&x->seed, 3) ? 6 : GEN_MAX) % x->n;
  return x->v[x->n - 1 - back];
}
static inline tn_ref g_pick_of(gen *x, tn_dtype t) {
  for (int i = 0; i < 30; i++) {
    tn_ref r = g_pick(x);
    if (g_t(x, r)->dtype == t) return r;
  }
  return x->v[0];
}
static inline tn_ref g_fill(gen *x, tn_dtype t) {
  static const double v[] = {0, 1, -1, 2, 0.5, 4, 3};
  double d = v[below(&x->seed, 7)];
  tn_attr at[3] = {tn_mk_dims(x->w->g, "shape", NULL, 0), tn_dtype_is_float(t) ? tn_mk_float("value", d) : t == TN_BOOL ? tn_mk_bool("value", d > 0) : tn_mk_int("value", (int64_t)d),
                   tn_mk_dtype("dtype", t)};
  return g_add(x, TN_OP_FULL, NULL, 0, at, 3);
}
/* Something of dtype t that goes with a: a fill, a same-shaped value, a row of it, or a stretched part. */
static inline tn_ref g_mate(gen *x, tn_ref a) {
  tn_dtype t = (tn_dtype)g_t(x, a)->dtype;
  if (below(&x->seed, 4) == 0) return g_fill(x, t);
  for (int i = 0; i < 20; i++) {
    tn_ref r = g_pick(x);
    if (g_t(x, r)->dtype != t || g_t(x, r)->rank > g_t(x, a)->rank) continue;
    bool fits = true;
    for (uint32_t k = 0; k < g_t(x, r)->rank; k++) {
      tn_dim p = g_t(x, r)->dim[k], q = g_t(x, a)->dim[g_t(x, a)->rank - g_t(x, r)->rank + k];
      fits = fits && (p == q || p == 1);
    }
    if (fits) return r;
  }
  return a;
}
static inline void g_views(gen *x, tn_ref a) {
  const tn_type t = *g_t(x, a);
  tn_dim d[TN_MAX_RANK];
  tn_attr at[4];
  switch (below(&x->seed, 7)) {
  case 0: case 1: { /* permute */
    for (uint32_t i = 0; i < t.rank; i++) d[i] = i;
    for (uint32_t i = t.rank; i > 1; i--) { uint32_t j = below(&x->seed, i); tn_dim s = d[i - 1]; d[i - 1] = d[j]; d[j] = s; }
    at[0] = tn_mk_dims(x->w->g, "perm", d, t.rank);
    g_add(x, TN_OP_PERMUTE, &a, 1, at, 1);
    return;
  }
  case 2: case 3: { /* reshape: merge two dims, split off a 1, or drop one */
    uint32_t n = 0, k = t.rank ? below(&x->seed, t.rank) : 0, how = below(&x->seed, 3);
    for (uint32_t i = 0; i < t.rank; i++) {
      if (how == 1 && i == k && n < 5) d[n++] = 1;
      if (how == 2 && t.dim[i] == 1) continue;
      if (how == 0 && i == k && i + 1 < t.rank) { d[n++] = tn_dim_mul(x->w->dims, t.dim[i], t.dim[i + 1]); i++; continue; }
      if (how == 2 && t.dim[i] == 4) { d[n++] = 2; d[n++] = 2; continue; }
      d[n++] = t.dim[i];
    }
    at[0] = tn_mk_dims(x->w->g, "shape", d, n);
    g_add(x, TN_OP_RESHAPE, &a, 1, at, 1);
    return;
  }
  case 4: { /* broadcast */
    uint32_t lead = t.rank < 4 ? below(&x->seed, 2) : 0;
    for (uint32_t i = 0; i < lead; i++) d[i] = x->pool[below(&x->seed, 4)];
    for (uint32_t i = 0; i < t.rank; i++) d[lead + i] = t.dim[i] == 1 ? x->pool[below(&x->seed, 5)] : t.dim[i];
    at[0] = tn_mk_dims(x->w->g, "shape", d, t.rank + lead);
    g_add(x, TN_OP_BROADCAST, &a, 1, at, 1);
    return;
  }
  case 5: { /* slice */
    if (!t.rank) return;
    uint32_t k = below(&x->seed, t.rank);
    if (!tn_dim_is_const(t.dim[k]) || t.dim[k] < 1) return;
    tn_dim start = below(&x->seed, (uint32_t)t.dim[k]), size = 1 + below(&x->seed, (uint32_t)(t.dim[k] - start));
    if (below(&x->seed, 3) == 0) { start = 0; size = t.dim[k]; }
    at[0] = tn_mk_int("dim", k); at[1] = tn_mk_dims(x->w->g, "start", &start, 1); at[2] = tn_mk_dims(x->w->g, "size", &size, 1); at[3] = tn_mk_int("step", 1);
    g_add(x, TN_OP_SLICE, &a, 1, at, 4);
    return;
  }
  default: { /* pad or flip */
    if (!t.rank) return;
    tn_dim lo[TN_MAX_RANK], hi[TN_MAX_RANK];
    if (below(&x->seed, 2)) {
      d[0] = below(&x->seed, t.rank);
      at[0] = tn_mk_dims(x->w->g, "dims", d, 1);
      g_add(x, TN_OP_FLIP, &a, 1, at, 1);
      return;
    }
    for (uint32_t i = 0; i < t.rank; i++) { lo[i] = below(&x->seed, 3) == 0; hi[i] = below(&x->seed, 3) == 0; }
    at[0] = tn_mk_dims(x->w->g, "lo", lo, t.rank); at[1] = tn_mk_dims(x->w->g, "hi", hi, t.rank); at[2] = tn_mk_float("value", 0.5);
    if (t.dtype == x->f) g_add(x, TN_OP_PAD, &a, 1, at, 3);
  }
  }
}
static inline tn_ref g_reduce(gen *x, tn_ref a, const char *c, int dim, bool keep) {
  tn_dim d[TN_MAX_RANK];
  uint32_t n = 0, rank = g_t(x, a)->rank;
  if (!rank) return a;
  if (dim >= 0) d[n++] = dim;
  else for (uint32_t i = 0; i < rank; i++) if (below(&x->seed, 2)) d[n++] = i;
  if (!n) d[n++] = rank - 1;
  tn_attr at[3] = {tn_mk_str("combiner", c), tn_mk_dims(x->w->g, "dims", d, n), tn_mk_bool("keepdim", keep)};
  return g_add(x, TN_OP_REDUCE, &a, 1, at, 3);
}
static inline tn_ref g_2(gen *x, tn_op op, tn_ref a, tn_ref b) {
  tn_ref in[2] = {a, b};
  return a.id && b.id ? g_add(x, op, in, 2, NULL, 0) : (tn_ref){0};
}
/* exp(a - max) / sum over one dim */
static inline tn_ref g_softmax(gen *x, tn_ref a, int dim) {
  if (!g_t(x, a)->rank || g_t(x, a)->dtype != x->f) return a;
  tn_ref s = g_2(x, TN_OP_SUB, a, g_reduce(x, a, "max", dim, true)), e = {0};
  if (s.id) e = g_add(x, TN_OP_EXP, &s, 1, NULL, 0);
  return e.id ? g_2(x, TN_OP_DIV, e, g_reduce(x, e, "sum", dim, true)) : a;
}
/* Labels from the shapes: equal dims get equal letters, at random. */
static inline tn_ref g_contract(gen *x, tn_ref a, tn_ref b) {
  const tn_type s = *g_t(x, a), t = *g_t(x, b);
  char la[TN_MAX_RANK + 1] = {0}, lb[TN_MAX_RANK + 1] = {0}, out[2 * TN_MAX_RANK + 1] = {0}, text[64];
  uint32_t n = 0;
  if (s.dtype != x->f || t.dtype != x->f || s.rank > 5 || t.rank > 5) return a;
  for (uint32_t i = 0; i < s.rank; i++) la[i] = (char)('a' + i);
  for (uint32_t j = 0; j < t.rank; j++) {
    lb[j] = (char)('p' + j);
    for (uint32_t i = 0; i < s.rank; i++)
      if (s.dim[i] == t.dim[j] && !strchr(lb, la[i]) && below(&x->seed, 4)) { lb[j] = la[i]; break; }
  }
  for (uint32_t i = 0; i < s.rank; i++)
    if (!strchr(lb, la[i]) || below(&x->seed, 2)) out[n++] = la[i];
  for (uint32_t j = 0; j < t.rank; j++)
    if (lb[j] >= 'p') out[n++] = lb[j];
  if (n > 5) return a;
  for (uint32_t i = n; i > 1; i--) { uint32_t j = below(&x->seed, i); char c = out[i - 1]; out[i - 1] = out[j]; out[j] = c; }
  snprintf(text, sizeof text, "%s,%s->%s", la, lb, out);
  tn_attr at = tn_mk_str("labels", tn_arena_strdup(&x->w->a, text));
  tn_ref in[2] = {a, b}, r = g_add(x, TN_OP_CONTRACT, in, 2, &at, 1), half;
  if (!r.id) return a;
  tn_attr fill[3] = {tn_mk_dims(x->w->g, "shape", NULL, 0), tn_mk_float("value", 0.25), tn_mk_dtype("dtype", x->f)};
  half = g_add(x, TN_OP_FULL, NULL, 0, fill, 3); /* keeps numbers from growing without bound */
  return g_2(x, TN_OP_MUL, r, half);
}
/* Scores over keys, softmax, values: what the attention finder wants, sometimes with something in between. */
static inline void g_attention(gen *x, tn_ref q) {
  const tn_type t = *g_t(x, q);
  if (t.rank < 2 || t.rank > 4 || t.dtype != x->f || !tn_dim_is_const(t.dim[t.rank - 1])) return;
  tn_dim d[TN_MAX_RANK];
  for (uint32_t i = 0; i < t.rank; i++) d[i] = t.dim[i];
  d[t.rank - 2] = 3; /* keys */
  tn_ref k, v;
  if (tn_graph_add_input(x->w->g, NULL, tn_type_make(x->w->g, x->f, t.rank, d), TN_ORIGIN_INPUT, &k) != TN_OK) fail();
  if (tn_graph_add_input(x->w->g, NULL, tn_type_make(x->w->g, x->f, t.rank, d), TN_ORIGIN_INPUT, &v) != TN_OK) fail();
  const char *l1 = t.rank == 2 ? "ik,jk->ij" : t.rank == 3 ? "bik,bjk->bij" : "abik,abjk->abij";
  const char *l2 = t.rank == 2 ? "ij,jk->ik" : t.rank == 3 ? "bij,bjk->bik" : "abij,abjk->abik";
  tn_attr at = tn_mk_str("labels", l1);
  tn_ref in[2] = {q, k}, s = g_add(x, TN_OP_CONTRACT, in, 2, &at, 1);
  if (!s.id) return;
  if (below(&x->seed, 2)) s = g_2(x, TN_OP_ADD, s, g_mate(x, s));
  if (!s.id) return;
  s = g_softmax(x, s, (int)t.rank - 1);
  at = tn_mk_str("labels", l2);
  in[0] = s; in[1] = v;
  g_add(x, TN_OP_CONTRACT, in, 2, &at, 1);
}

static inline void g_step(gen *x) {
  static const tn_op one[] = {TN_OP_NEG, TN_OP_ABS, TN_OP_RELU, TN_OP_TANH, TN_OP_SIGMOID, TN_OP_EXP, TN_OP_FLOOR};
  static const tn_op two[] = {TN_OP_ADD, TN_OP_SUB, TN_OP_MUL, TN_OP_MAX, TN_OP_MIN, TN_OP_ADD, TN_OP_MUL};
  static const tn_op cmp[] = {TN_OP_EQ, TN_OP_NE, TN_OP_LT, TN_OP_LE, TN_OP_GT, TN_OP_GE};
  static const char *const comb[] = {"sum", "max", "min", "sum"};
  tn_ref a = g_pick(x), f = g_pick_of(x, x->f), in[4];
  tn_attr at[4];
  switch (below(&x->seed, 20)) {
  case 0: case 1: {
    tn_op op = one[below(&x->seed, 7)];
    if (op == TN_OP_EXP) { in[0] = f; in[0] = g_add(x, TN_OP_TANH, in, 1, NULL, 0); if (in[0].id) g_add(x, op, in, 1, NULL, 0); return; }
    g_add(x, op, &f, 1, NULL, 0);
    return;
  }
  case 2: case 3: case 4: case 5: g_2(x, two[below(&x->seed, 7)], f, g_mate(x, f)); return;
  case 6: case 7: case 8: g_views(x, a); return;
  case 9: g_reduce(x, f, comb[below(&x->seed, 4)], -1, below(&x->seed, 2)); return;
  case 10: g_softmax(x, f, g_t(x, f)->rank ? (int)below(&x->seed, g_t(x, f)->rank) : 0); return;
  case 11: g_contract(x, f, g_pick_of(x, x->f)); return;
  case 12: g_attention(x, f); return;
  case 13: { tn_ref c = g_2(x, cmp[below(&x->seed, 6)], f, g_mate(x, f)); if (c.id && below(&x->seed, 2)) g_add(x, TN_OP_NOT, &c, 1, NULL, 0); return; }
  case 14: { in[0] = g_pick_of(x, TN_BOOL); in[1] = f; in[2] = g_mate(x, f); if (g_t(x, in[0])->dtype == TN_BOOL) g_add(x, TN_OP_SELECT, in, 3, NULL, 0); return; }
  case 15: { /* take with indices 0 or 1 */
    tn_ref i = g_pick_of(x, TN_I64);
    if (!g_t(x, f)->rank || g_t(x, i)->rank > 2 || g_t(x, f)->rank > 3) return;
    uint32_t k = below(&x->seed, g_t(x, f)->rank);
    if (!tn_dim_is_const(g_t(x, f)->dim[k]) || g_t(x, f)->dim[k] < 3) return;
    in[0] = f; in[1] = i;
    at[0] = tn_mk_int("dim", k);
    if (g_t(x, i)->dtype == TN_I64) g_add(x, TN_OP_TAKE, in, 2, at, 1);
    return;
  }
  case 16: { /* concat, sometimes of pieces cut from one value */
    if (!g_t(x, f)->rank) return;
    uint32_t k = below(&x->seed, g_t(x, f)->rank);
    in[0] = f; in[1] = below(&x->seed, 2) ? g_mate(x, f) : f;
    at[0] = tn_mk_int("dim", k);
    g_add(x, TN_OP_CONCAT, in, 2, at, 1);
    return;
  }
  case 17: { at[0] = tn_mk_dtype("dtype", below(&x->seed, 2) ? TN_F32 : x->f); tn_ref c = g_add(x, TN_OP_CAST, &f, 1, at, 1); at[0] = tn_mk_dtype("dtype", x->f); if (c.id) g_add(x, TN_OP_CAST, &c, 1, at, 1); return; }
  case 18: { /* iota and what masks do with it */
    tn_dim n = x->pool[below(&x->seed, 6)];
    at[0] = tn_mk_dims(x->w->g, "size", &n, 1); at[1] = tn_mk_int("start", 0); at[2] = tn_mk_int("step", 1); at[3] = tn_mk_dtype("dtype", TN_I64);
    tn_ref i = g_add(x, TN_OP_IOTA, NULL, 0, at, 4);
    if (i.id && below(&x->seed, 2)) g_2(x, cmp[below(&x->seed, 6)], i, g_fill(x, TN_I64));
    x->n -= i.id && x->n > 1 && below(&x->seed, 2) ? 1 : 0;
    return;
  }
  default: if (below(&x->seed, 3) == 0) g_add(x, TN_OP_COPY, &a, 1, NULL, 0); return;
  }
}

/* A graph with about `steps` nodes over two float inputs, an index input and a bool one; results are the last few values. */
static inline void gen_graph(gen *x, world *w, uint64_t seed, uint32_t steps) {
  world_open(w);
  *x = (gen){.w = w, .seed = seed * 2654435761u + 17, .f = seed % 4 == 3 ? TN_F32 : TN_F64};
  assert_int_equal(tn_graph_create(&w->a, w->dims, "random", &w->g), TN_OK);
  tn_dim s0 = tn_dim_sym(w->dims, "s0"), pool[6] = {1, 2, 3, 4, s0, 2};
  tn_dim_set_range(w->dims, s0, 2, 64);
  if (seed % 3) pool[4] = 3;
  memcpy(x->pool, pool, sizeof pool);
  for (int i = 0; i < 4; i++) {
    tn_dim d[4];
    uint32_t rank = i < 2 ? 2 + below(&x->seed, 3) : 1 + below(&x->seed, 2);
    for (uint32_t k = 0; k < rank; k++) d[k] = x->pool[below(&x->seed, i < 2 ? 6 : 4)];
    tn_dtype t = i < 2 ? x->f : i == 2 ? TN_I64 : TN_BOOL;
    if (i == 0 && seed % 3 == 0) d[0] = s0;
    if (tn_graph_add_input(w->g, NULL, tn_type_make(w->g, t, rank, d), TN_ORIGIN_INPUT, &x->v[x->n++]) != TN_OK) fail();
  }
  for (uint32_t i = 0; i < steps; i++) g_step(x);
  uint32_t n_out = 1 + below(&x->seed, 3);
  for (uint32_t i = 0; i < n_out; i++) assert_int_equal(tn_graph_add_output(w->g, i ? g_pick(x) : x->v[x->n - 1]), TN_OK);
  if (tn_graph_compact(&w->d, w->g) != TN_OK) { print_error("%s\n", w->d.text); fail(); }
}
#endif

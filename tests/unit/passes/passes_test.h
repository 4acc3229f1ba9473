/* What the tests of room passes share: graphs from text, running passes, random inputs, comparing results by the reference kernels. */
#ifndef TN_PASSES_TEST_H
#define TN_PASSES_TEST_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <math.h>
#include <cmocka.h>
#include "passes/passes.h"

typedef struct world { tn_arena a, scratch; tn_dims *dims; tn_diag d; tn_graph *g; tn_pass_ctx p; } world;

static inline void world_open(world *w) {
  memset(w, 0, sizeof *w);
  tn_arena_init(&w->a);
  tn_arena_init(&w->scratch);
  w->dims = tn_dims_create();
  assert_non_null(w->dims);
  w->p = (tn_pass_ctx){.d = &w->d, .scratch = &w->scratch, .profile = tn_profile_find("default"), .allow_host_calls = true, .verify = true};
}
static inline void world_close(world *w) {
  tn_arena_deinit(&w->a);
  tn_arena_deinit(&w->scratch);
  tn_dims_destroy(w->dims);
}
static inline void world_parse(world *w, const char *text) {
  world_open(w);
  if (tn_graph_parse(&w->d, &w->a, w->dims, text, strlen(text), &w->g) == TN_OK) return;
  print_error("%s\n%s\n", w->d.text, text);
  fail();
}
static inline void show(const tn_graph *g) {
  tn_str b;
  tn_str_init(&b);
  tn_graph_print(g, 0, &b);
  print_error("%s\n", b.s ? b.s : "(no text)");
  tn_str_deinit(&b);
}
static inline void run(world *w, const char *passes) {
  tn_status s = tn_passes_run(&w->p, w->g, passes);
  if (s == TN_OK) return;
  print_error("%s: %s\n", passes, w->d.text);
  show(w->g);
  fail();
}
static inline uint32_t count_op(const tn_graph *g, tn_op op) {
  uint32_t n = 0;
  for (uint32_t i = 1; i < g->n_nodes; i++) n += g->node[i].op == op && !g->node[i].dead;
  return n;
}
static inline const tn_node *first_op(const tn_graph *g, tn_op op) {
  for (uint32_t i = 1; i < g->n_nodes; i++)
    if (g->node[i].op == op) return &g->node[i];
  return NULL;
}

/* ---- numbers ---- */
static inline uint64_t rnd(uint64_t *s) { /* splitmix64 */
  uint64_t z = *s += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}
static inline uint32_t below(uint64_t *s, uint32_t n) { return (uint32_t)(rnd(s) % n); }

/* Row-major tensor of random numbers: floats in [-2, 2], integers in [0, 3). sym gives the sizes of symbols. */
static inline tn_tensor random_tensor(tn_arena *a, const tn_dims *dims, const tn_type *t, const int64_t *sym, uint64_t *seed) {
  int64_t *shape = TN_NEW(a, int64_t, t->rank + 1u), n = 1;
  assert_non_null(shape);
  for (uint32_t i = 0; i < t->rank; i++) {
    assert_int_equal(tn_dim_eval(dims, t->dim[i], sym, &shape[i]), TN_OK);
    n *= shape[i];
  }
  size_t size = tn_dtype_size((tn_dtype)t->dtype);
  char *p = tn_arena_alloc(a, (size_t)n * size + 1);
  assert_non_null(p);
  for (int64_t i = 0; i < n; i++) {
    tn_num v = {.f = (double)((int64_t)below(seed, 4001) - 2000) / 1000};
    if (!tn_dtype_is_float((tn_dtype)t->dtype)) v.i = below(seed, t->dtype == TN_BOOL ? 2 : 3);
    tn_num_store((tn_dtype)t->dtype, p + i * (int64_t)size, v);
  }
  return (tn_tensor){.data = p, .shape = shape, .rank = t->rank, .dtype = t->dtype};
}
static inline bool same_tensor(const tn_tensor *a, const tn_tensor *b, double tol, char *why, size_t cap) {
  int64_t n = 1;
  if (a->rank != b->rank || a->dtype != b->dtype) { snprintf(why, cap, "rank or dtype"); return false; }
  for (int i = 0; i < a->rank; i++) {
    if (a->shape[i] != b->shape[i]) { snprintf(why, cap, "dim %d is %lld and %lld", i, (long long)a->shape[i], (long long)b->shape[i]); return false; }
    n *= a->shape[i];
  }
  size_t size = tn_dtype_size((tn_dtype)a->dtype);
  for (int64_t i = 0; i < n; i++) {
    tn_num x = tn_num_load((tn_dtype)a->dtype, (char *)a->data + i * (int64_t)size), y = tn_num_load((tn_dtype)a->dtype, (char *)b->data + i * (int64_t)size);
    bool fine = x.i == y.i;
    if (tn_dtype_is_float((tn_dtype)a->dtype))
      fine = (isnan(x.f) && isnan(y.f)) || x.f == y.f || fabs(x.f - y.f) <= tol * (1 + fmax(fabs(x.f), fabs(y.f)));
    if (fine) continue;
    snprintf(why, cap, "element %lld is %.17g and %.17g", (long long)i, tn_dtype_is_float((tn_dtype)a->dtype) ? x.f : (double)x.i,
             tn_dtype_is_float((tn_dtype)a->dtype) ? y.f : (double)y.i);
    return false;
  }
  return true;
}
#endif

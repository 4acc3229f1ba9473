/* Random bodies: random graphs of primitive ops (the generator of the passes' tests) go through the default passes, and every fused node's
 * body becomes a case. So the bodies are what the fuse pass really makes: pointwise DAGs, reductions with what belongs to them,
 * contractions with epilogues, attention; over constant and symbolic sizes, in random layouts. TENON_TEST_ROUNDS makes a long run of it. */
#include "../unit/passes/gen.h"
#undef fail
#include "generated.h"

/* gen_graph, with sizes that fill vectors. */
static void random_graph(gen *x, world *w, uint64_t seed) {
  static const tn_dim pools[4][6] = {{1, 2, 3, 4, -1, 2}, {1, 7, 16, 5, -1, 3}, {1, 8, 17, 4, -1, 33}, {2, 3, 20, 4, -1, 9}};
  world_open(w);
  *x = (gen){.w = w, .seed = seed * 2654435761u + 99, .f = seed % 4 == 3 ? TN_F64 : TN_F32};
  if (tn_graph_create(&w->a, w->dims, "random", &w->g) != TN_OK) exit(2);
  tn_dim s0 = tn_dim_sym(w->dims, "s0");
  tn_dim_set_range(w->dims, s0, 2, 64);
  memcpy(x->pool, pools[seed / 3 % 4], sizeof x->pool);
  x->pool[4] = seed % 3 ? x->pool[1] : s0;
  for (int i = 0; i < 4; i++) {
    tn_dim d[4];
    uint32_t rank = i < 2 ? 2 + below(&x->seed, 3) : 1 + below(&x->seed, 2);
    for (uint32_t k = 0; k < rank; k++) d[k] = x->pool[below(&x->seed, i < 2 ? 6 : 4)];
    tn_dtype t = i < 2 ? x->f : i == 2 ? TN_I64 : TN_BOOL;
    if (i == 0 && seed % 3 == 0) d[0] = s0;
    if (tn_graph_add_input(w->g, NULL, tn_type_make(w->g, t, rank, d), TN_ORIGIN_INPUT, &x->v[x->n++]) != TN_OK) exit(2);
  }
  for (uint32_t i = 0; i < 6 + seed % 30; i++) g_step(x);
  for (uint32_t i = 0; i < 1 + below(&x->seed, 3); i++)
    if (tn_graph_add_output(w->g, i ? g_pick(x) : x->v[x->n - 1]) != TN_OK) exit(2);
  if (tn_graph_compact(&w->d, w->g) != TN_OK) exit(2);
}

/* Values that no body can hold: the reference binds symbols from shapes of inputs. */
static bool all_bound(tn_graph *b, tn_dims *dims) {
  bool used[8] = {0}, bound[8] = {0};
  for (uint32_t v = 1; v < b->n_values; v++)
    for (uint32_t i = 0; i < b->value[v].type.rank; i++) tn_dim_mark_syms(dims, b->value[v].type.dim[i], used);
  for (uint32_t k = 0; k < b->n_inputs; k++)
    for (uint32_t i = 0; i < tn_typeof(b, b->input[k])->rank; i++) {
      int o = tn_dim_sym_ordinal(dims, tn_typeof(b, b->input[k])->dim[i]);
      if (o >= 0) bound[o] = true;
    }
  for (int i = 0; i < 8; i++)
    if (used[i] && !bound[i]) return false;
  return true;
}

int gen_random(const char *filter, uint32_t part, uint32_t parts, uint32_t *n_cases) {
  static const int64_t symbols[] = {2, 17, 64};
  const char *r = getenv("TENON_TEST_ROUNDS");
  uint64_t rounds = r ? strtoull(r, NULL, 10) : 60;
  int failures = 0;
  for (uint64_t seed = 0; seed < rounds; seed++) {
    world w;
    gen x;
    char name[64];
    snprintf(name, sizeof name, "random %llu", (unsigned long long)seed);
    if ((filter && strncmp(filter, name, strlen(filter))) || (*n_cases)++ % parts != part) continue;
    if (seed % 2)
      gen_graph(&x, &w, seed, 6 + (uint32_t)seed % 30);
    else
      random_graph(&x, &w, seed);
    if (tn_passes_run(&w.p, w.g, "default") != TN_OK) exit(2);
    bool ok = true;
    for (uint32_t i = 1; i < w.g->n_nodes && ok; i++) {
      tn_graph *body = w.g->node[i].body;
      if (!body || !all_bound(body, w.dims)) continue;
      gen_case c = {.a = &w.a,
                    .dims = w.dims,
                    .d = &w.d,
                    .g = body,
                    .name = name,
                    .in = (gen_layout)(below(&x.seed, 2) * below(&x.seed, N_LAYOUTS)),
                    .out = (gen_layout)(below(&x.seed, 2) * below(&x.seed, N_LAYOUTS)),
                    .sym = symbols,
                    .n_sym = 1,
                    .n_rounds = 3,
                    .index_max = 2,
                    .loose = 64};
      ok = gen_run(&c);
    }
    failures += !ok;
    printf("[  %s ] %s\n", ok ? "     OK" : "FAILED ", name);
    fflush(stdout);
    world_close(&w);
  }
  return failures;
}

/* Evaluates two graphs with the reference kernels on the same seeded inputs and compares the results: a golden test can't bless a wrong
 * rewrite. evalgraph <seed> <rtol> <a.tn> <b.tn> [top=tolerance] [symbol=value ...]; exit 0 equal, 1 different or not evaluable, 2 usage.
 * Inputs: floats in [-2, 2], integers in [0, 3), bools; of the shapes of a's inputs. Symbols default to 3 (or their lowest value). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ops/ops.h"

static uint64_t rnd(uint64_t *s) { /* splitmix64 */
  uint64_t z = *s += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

typedef struct world { tn_arena a; tn_dims *dims; tn_diag d; } world;

static tn_graph *load(world *w, const char *path) {
  char *text;
  size_t n;
  tn_graph *g = NULL;
  if (tn_file_read(&w->d, path, 1u << 26, &text, &n) != TN_OK) { fprintf(stderr, "%s\n", w->d.text); return NULL; }
  if (tn_graph_parse(&w->d, &w->a, w->dims, text, n, &g) != TN_OK) { fprintf(stderr, "%s: %s\n", path, w->d.text); g = NULL; }
  tn_free(text);
  return g;
}

static bool fill_input(world *w, const tn_graph *g, tn_ref r, const int64_t *sym, uint64_t *seed, tn_tensor *out) {
  const tn_type *t = tn_typeof(g, r);
  int64_t *shape = TN_NEW(&w->a, int64_t, t->rank + 1u), n = 1;
  for (uint32_t i = 0; shape && i < t->rank; i++) {
    if (tn_dim_eval(w->dims, t->dim[i], sym, &shape[i]) != TN_OK) return false;
    n *= shape[i];
  }
  size_t size = tn_dtype_size((tn_dtype)t->dtype);
  char *p = shape ? tn_arena_alloc(&w->a, (size_t)n * size + 1) : NULL;
  for (int64_t i = 0; p && i < n; i++) {
    tn_num v = {.f = (double)((int64_t)(rnd(seed) % 4001) - 2000) / 1000};
    if (!tn_dtype_is_float((tn_dtype)t->dtype)) v.i = (int64_t)(rnd(seed) % (t->dtype == TN_BOOL ? 2 : 3));
    tn_num_store((tn_dtype)t->dtype, p + i * (int64_t)size, v);
  }
  *out = (tn_tensor){.data = p, .shape = shape, .rank = t->rank, .dtype = t->dtype};
  return p != NULL;
}

/* Equal within rtol of the greater of the two, or within top of the largest value of a. */
static bool same(const tn_tensor *a, const tn_tensor *b, double rtol, double top, uint32_t k) {
  int64_t n = 1;
  bool shapes = a->rank == b->rank && a->dtype == b->dtype;
  for (int i = 0; shapes && i < a->rank; i++) {
    shapes = a->shape[i] == b->shape[i];
    n *= a->shape[i];
  }
  if (!shapes) { fprintf(stderr, "result %u: types differ\n", k); return false; }
  tn_dtype t = (tn_dtype)a->dtype;
  size_t size = tn_dtype_size(t);
  double most = 0;
  for (int64_t i = 0; i < n && top > 0 && tn_dtype_is_float(t); i++) most = fmax(most, fabs(tn_num_load(t, (char *)a->data + i * (int64_t)size).f));
  for (int64_t i = 0; i < n; i++) {
    tn_num x = tn_num_load(t, (char *)a->data + i * (int64_t)size), y = tn_num_load(t, (char *)b->data + i * (int64_t)size);
    bool fine = tn_dtype_is_float(t) ? x.f == y.f || (isnan(x.f) && isnan(y.f)) || fabs(x.f - y.f) <= fmax(rtol * fmax(fabs(x.f), fabs(y.f)), top * most) : x.i == y.i;
    if (fine) continue;
    fprintf(stderr, "result %u, element %lld: %.17g and %.17g\n", k, (long long)i, tn_dtype_is_float(t) ? x.f : (double)x.i, tn_dtype_is_float(t) ? y.f : (double)y.i);
    return false;
  }
  return true;
}

int main(int argc, char **argv) {
  world w = {0};
  if (argc < 5) {
    fprintf(stderr, "usage: evalgraph <seed> <rtol> <a.tn> <b.tn> [top=tolerance] [symbol=value ...]\n");
    return 2;
  }
  uint64_t seed = strtoull(argv[1], NULL, 10) + 1;
  double rtol = strtod(argv[2], NULL);
  double top = 0;
  for (int k = 5; k < argc; k++)
    if (strncmp(argv[k], "top=", 4) == 0) top = strtod(argv[k] + 4, NULL);
  tn_arena_init(&w.a);
  w.dims = tn_dims_create();
  tn_graph *a = w.dims ? load(&w, argv[3]) : NULL, *b = a ? load(&w, argv[4]) : NULL;
  bool fine = b && a->n_inputs == b->n_inputs && a->n_outputs == b->n_outputs;
  if (b && !fine) fprintf(stderr, "the graphs have other numbers of inputs or results\n");
  int64_t sym[64] = {0};
  for (uint32_t i = 0; fine && i < tn_dims_n_syms(w.dims) && i < 64; i++) {
    int64_t lo, hi;
    tn_dims_sym_range(w.dims, i, &lo, &hi);
    sym[i] = lo > 3 ? lo : hi < 3 ? hi : 3;
    const char *name = tn_dims_sym_name(w.dims, i);
    for (int k = 5; k < argc; k++)
      if (strncmp(argv[k], name, strlen(name)) == 0 && argv[k][strlen(name)] == '=') sym[i] = strtoll(argv[k] + strlen(name) + 1, NULL, 10);
  }
  tn_tensor in[256], out[2][256];
  fine = fine && a->n_inputs <= 256 && a->n_outputs <= 256;
  for (uint32_t i = 0; fine && i < a->n_inputs; i++) fine = fill_input(&w, a, a->input[i], sym, &seed, &in[i]);
  for (int side = 0; fine && side < 2; side++) {
    fine = tn_ops_eval_graph(&w.d, &w.a, side ? b : a, in, out[side]) == TN_OK;
    if (!fine) fprintf(stderr, "%s graph: %s\n", side ? "second" : "first", w.d.text);
  }
  for (uint32_t k = 0; fine && k < a->n_outputs; k++)
    if (!a->output[k].is_dim && !a->output[k].is_none) fine = same(&out[0][k], &out[1][k], rtol, top, k);
  tn_dims_destroy(w.dims);
  tn_arena_deinit(&w.a);
  return fine ? 0 : 1;
}

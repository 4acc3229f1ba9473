/* evalref: evaluates a graph file with the reference kernels, so that scripts can compare them with other systems.
 *   evalref GRAPH.tn IN.bin OUT.bin [symbol=value ...]
 * IN.bin holds the graph's inputs one after another, row-major, little-endian, no padding; OUT.bin receives its outputs and
 * then the new values of mutated inputs in the same way. Exit 0: done; 1: a Tenon error, its code and text on stderr;
 * 2: wrong use. It is a test program: it knows nothing that tn_ops_eval_mutating does not do. */
#include "ops/ops.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct job {
  tn_diag d;
  tn_arena a;
  tn_dims *dims;
  tn_graph *g;
  char *text, *data;
  size_t n_text, n_data;
  tn_str out;
} job;

static tn_status set_symbols(job *j, int n, char **arg) {
  for (int i = 0; i < n; i++) {
    char *eq = strchr(arg[i], '=');
    if (!eq) return tn_fail(&j->d, TN_E_ARG, "'%s' is not symbol=value", arg[i]);
    *eq = 0;
    int64_t v = strtoll(eq + 1, NULL, 10);
    tn_dim s = tn_dim_sym(j->dims, arg[i]);
    int ordinal = tn_dim_sym_ordinal(j->dims, s);
    if (ordinal < 0) return tn_fail(&j->d, TN_E_ARG, "no symbol '%s'", arg[i]);
    tn_dim_set_range(j->dims, s, v, v);
  }
  return TN_OK;
}
static size_t bytes_of(const tn_tensor *t) {
  size_t n = tn_dtype_size((tn_dtype)t->dtype);
  for (int i = 0; i < t->rank; i++) n *= (size_t)t->shape[i];
  return n;
}
/* Cuts the data file into the graph's inputs. */
static tn_status make_inputs(job *j, tn_tensor *in) {
  uint32_t n_syms = tn_dims_n_syms(j->dims);
  int64_t *sym = TN_NEW(&j->a, int64_t, n_syms + 1u), hi;
  size_t at = 0;
  if (!sym) return tn_fail(&j->d, TN_E_NOMEM, "symbols");
  for (uint32_t i = 0; i < n_syms; i++) tn_dims_sym_range(j->dims, i, &sym[i], &hi);
  for (uint32_t i = 0; i < j->g->n_inputs; i++) {
    const tn_type *t = tn_typeof(j->g, j->g->input[i]);
    int64_t *shape = TN_NEW(&j->a, int64_t, t->rank + 1u);
    if (!shape) return tn_fail(&j->d, TN_E_NOMEM, "shape");
    for (uint32_t k = 0; k < t->rank; k++)
      if (tn_dim_eval(j->dims, t->dim[k], sym, &shape[k]) != TN_OK || shape[k] < 0)
        return tn_fail(&j->d, TN_E_ARG, "input %u dim %u", i, k);
    in[i] = (tn_tensor){.shape = shape, .rank = t->rank, .dtype = t->dtype};
    size_t n = bytes_of(&in[i]);
    if (n > j->n_data - at) return tn_fail(&j->d, TN_E_ARG, "input %u wants %zu bytes, %zu are left", i, n, j->n_data - at);
    in[i].data = tn_arena_alloc(&j->a, n ? n : 1); /* a copy, for alignment */
    if (!in[i].data) return tn_fail(&j->d, TN_E_NOMEM, "input %u", i);
    if (n) memcpy(in[i].data, j->data + at, n);
    at += n;
  }
  return at == j->n_data ? TN_OK : tn_fail(&j->d, TN_E_ARG, "%zu bytes of input too many", j->n_data - at);
}
static tn_status run(job *j, int argc, char **argv) {
  TN_TRY(tn_file_read(&j->d, argv[1], (size_t)1 << 30, &j->text, &j->n_text));
  TN_TRY(tn_file_read(&j->d, argv[2], (size_t)1 << 30, &j->data, &j->n_data));
  TN_TRY(tn_graph_parse(&j->d, &j->a, j->dims, j->text, j->n_text, &j->g));
  TN_TRY(tn_graph_verify(&j->d, j->g));
  TN_TRY(tn_ops_verify(&j->d, j->g));
  TN_TRY(set_symbols(j, argc - 4, argv + 4));
  tn_tensor *in = TN_NEW(&j->a, tn_tensor, j->g->n_inputs + 1u);
  tn_tensor *out = TN_NEW(&j->a, tn_tensor, j->g->n_outputs + j->g->n_mutations + 1u);
  if (!in || !out) return tn_fail(&j->d, TN_E_NOMEM, "tensors");
  TN_TRY(make_inputs(j, in));
  TN_TRY(tn_ops_eval_mutating(&j->d, &j->a, j->g, in, out, out + j->g->n_outputs));
  for (uint32_t k = 0; k < j->g->n_outputs + j->g->n_mutations; k++)
    if (out[k].data) tn_str_put(&j->out, out[k].data, bytes_of(&out[k]));
  if (j->out.oom) return tn_fail(&j->d, TN_E_NOMEM, "outputs");
  return tn_file_write(&j->d, argv[3], j->out.s ? j->out.s : "", j->out.n);
}
int main(int argc, char **argv) {
  static job j;
  if (argc < 4) {
    fprintf(stderr, "usage: %s GRAPH.tn IN.bin OUT.bin [symbol=value ...]\n", argv[0]);
    return 2;
  }
  tn_arena_init(&j.a);
  tn_str_init(&j.out);
  tn_diag_clear(&j.d);
  j.dims = tn_dims_create();
  tn_status s = j.dims ? run(&j, argc, argv) : TN_E_NOMEM;
  if (s != TN_OK) fprintf(stderr, "%s: %s\n", tn_status_name(s), j.d.text);
  tn_str_deinit(&j.out);
  tn_free(j.text);
  tn_free(j.data);
  tn_arena_deinit(&j.a);
  tn_dims_destroy(j.dims);
  return s != TN_OK;
}

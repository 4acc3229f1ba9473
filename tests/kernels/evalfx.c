/* evalfx: evaluates FX graphs (JSON) with the decompositions and the reference kernels, for tests/e2e/test_aten.py. A server on stdin and
 * stdout, because a process for each of a few thousand small graphs would be slow.
 *
 * Request:  "<json bytes> <inputs>\n", then for each input "<bytes> <dim> <dim> ...\n", then the JSON text and the inputs' row-major data.
 * Answer:   "ok <n>\n", then for each result "<dtype> <bytes> <dim> ...\n" and its data, and then "graph <bytes>\n" and the graph's text;
 *           or "error <code> <bytes>\n" and the words.
 * Results are outputs that are values, then the new values of mutated inputs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "frontend/fx/fx.h"
#include "ops/ops.h"

enum { MAX_IN = 4096 };

static tn_status decompose(tn_diag *d, tn_graph *g) {
  for (uint32_t i = 1; i < g->n_nodes; i++) {
    if (g->node[i].op == TN_OP_OPAQUE) return tn_fail(d, TN_E_UNSUPPORTED, "opaque: %s", tn_attr_str(&g->node[i], "reason", ""));
    if (g->node[i].op != TN_OP_CALL) continue;
    TN_TRY(tn_aten_apply(d, g, i));
    g->node[i].dead = true;
  }
  TN_TRY(tn_graph_compact(d, g));
  return tn_ops_verify(d, g);
}

static bool read_dims(char *line, int64_t *first, int64_t *dim, int *n) {
  char *s = line, *end;
  *first = strtoll(s, &end, 10);
  if (end == s) return false;
  for (*n = 0; *n < TN_MAX_RANK; (*n)++) {
    s = end;
    dim[*n] = strtoll(s, &end, 10);
    if (end == s) break;
  }
  return true;
}

static void *bytes(size_t n) {
  void *p = tn_aligned_alloc(64, n ? n : 64);
  if (!p || fread(p, 1, n, stdin) != n) exit(2);
  return p;
}

static bool serve(void) {
  static char line[4096];
  static int64_t dim[MAX_IN][TN_MAX_RANK];
  static tn_tensor in[MAX_IN], out[MAX_IN], made[MAX_IN];
  static size_t size[MAX_IN];
  unsigned long long n_json;
  int n_in;
  if (!fgets(line, sizeof line, stdin) || sscanf(line, "%llu %d", &n_json, &n_in) != 2 || n_in > MAX_IN) return false;
  for (int i = 0; i < n_in; i++) {
    int64_t b;
    if (!fgets(line, sizeof line, stdin) || !read_dims(line, &b, dim[i], &in[i].rank)) return false;
    size[i] = (size_t)b;
  }
  char *json = bytes((size_t)n_json);
  for (int i = 0; i < n_in; i++) in[i].data = bytes(size[i]);
  tn_diag d;
  tn_arena a;
  tn_graph *g = NULL;
  tn_str text;
  tn_diag_clear(&d);
  tn_arena_init(&a);
  tn_str_init(&text);
  tn_dims *dims = tn_dims_create();
  tn_status s = tn_fx_import_file_text(&d, &a, dims, json, (size_t)n_json, &g);
  if (s == TN_OK) s = tn_graph_verify(&d, g);
  if (s == TN_OK) s = decompose(&d, g);
  if (s == TN_OK && g->n_outputs + g->n_mutations > MAX_IN) s = tn_fail(&d, TN_E_UNSUPPORTED, "%u outputs", g->n_outputs);
  if (s == TN_OK && (uint32_t)n_in != g->n_inputs) s = tn_fail(&d, TN_E_ARG, "%d inputs, graph has %u", n_in, g->n_inputs);
  if (s == TN_OK) {
    for (int i = 0; i < n_in; i++) {
      in[i].dtype = tn_typeof(g, g->input[i])->dtype;
      in[i].shape = dim[i];
      in[i].strides = NULL;
    }
    for (uint32_t i = 0; i < g->n_mutations; i++) tn_graph_add_output(g, g->mutation[i].value);
    g->n_mutations = 0;
    s = tn_ops_eval_graph(&d, &a, g, in, out);
  }
  if (s != TN_OK) printf("error %s %zu\n%s", tn_status_name(s), strlen(d.text), d.text);
  else {
    int n = 0;
    for (uint32_t i = 0; i < g->n_outputs; i++)
      if (!g->output[i].is_dim && !g->output[i].is_none) made[n++] = out[i];
    printf("ok %d\n", n);
    for (int i = 0; i < n; i++) {
      size_t b = tn_dtype_size((tn_dtype)made[i].dtype);
      for (int k = 0; k < made[i].rank; k++) b *= (size_t)made[i].shape[k];
      printf("%s %zu", tn_dtype_name((tn_dtype)made[i].dtype), b);
      for (int k = 0; k < made[i].rank; k++) printf(" %lld", (long long)made[i].shape[k]);
      printf("\n");
      fwrite(made[i].data, 1, b, stdout);
    }
    tn_graph_print(g, 0, &text);
    printf("graph %zu\n", text.n);
    fwrite(text.s, 1, text.n, stdout);
  }
  fflush(stdout);
  tn_str_deinit(&text);
  tn_dims_destroy(dims);
  tn_arena_deinit(&a);
  tn_free_aligned(json);
  for (int i = 0; i < n_in; i++) tn_free_aligned(in[i].data);
  return true;
}

int main(void) {
  while (serve()) {}
  return 0;
}

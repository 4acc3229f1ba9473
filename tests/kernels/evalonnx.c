/* evalonnx: ONNX test cases through importer, rows and reference kernels, without the compiler.
 *   evalonnx [-v] [-p] MODEL.onnx [DATA_FOLDER [RTOL ATOL]]
 * Imports the model. With a folder of input_<k>.pb and output_<k>.pb: evaluates function 0 with the reference kernels and compares (defaults 1e-3, 1e-7).
 * Prints "ok", "imported" (DYN nodes, or operands that are no tensors: not evaluated), or "FAIL: why". -v prints the graph, -p the results.
 *   evalonnx -l    reads lines "MODEL DATA_FOLDER RTOL ATOL" from stdin and answers one line each: a folder of cases in one process. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "frontend/onnx/onnx.h"

static bool verbose, print_results;
static tn_diag d;

static tn_status load(tn_arena *a, const char *folder, const char *what, uint32_t k, tn_tensor *out, int *elem, bool *there) {
  char path[4096], *p;
  size_t n;
  tn_ox_const c;
  snprintf(path, sizeof path, "%s/%s_%u.pb", folder, what, k);
  FILE *f = fopen(path, "rb");
  *there = f != NULL;
  if (!f) return TN_OK;
  fclose(f);
  TN_TRY(tn_file_read(&d, path, 1u << 31, &p, &n));
  tn_status s = tn_onnx_tensor_read(&d, a, p, n, &c, NULL);
  tn_free(p);
  TN_TRY(s);
  if (c.elem == 8) return tn_fail(&d, TN_E_UNSUPPORTED, "%s_%u holds strings", what, k);
  *elem = c.elem;
  void *data = tn_arena_alloc(a, c.bytes);                 /* constants may be anywhere: kernels want alignment */
  if (!data) return tn_fail(&d, TN_E_NOMEM, "data");
  if (c.bytes) memcpy(data, c.data, c.bytes);
  *out = (tn_tensor){.data = data, .shape = c.dim, .rank = c.rank, .dtype = tn_ox_dtype_of(c.elem)};
  return TN_OK;
}
static int64_t count(const tn_tensor *t) {
  int64_t n = 1;
  for (int i = 0; i < t->rank; i++) n *= t->shape[i];
  return n;
}
static double value(const tn_tensor *t, int64_t i) {
  tn_dtype ty = (tn_dtype)t->dtype;
  tn_num v = tn_num_load(ty, (const char *)t->data + (size_t)i * tn_dtype_size(ty));
  return tn_dtype_is_float(ty) ? v.f : ty == TN_U64 ? (double)(uint64_t)v.i : (double)v.i;
}
static void show(const char *what, const tn_tensor *t) {
  printf("%s %s[", what, tn_dtype_name((tn_dtype)t->dtype));
  for (int i = 0; i < t->rank; i++) printf("%s%lld", i ? "," : "", (long long)t->shape[i]);
  printf("]");
  for (int64_t i = 0; i < count(t) && i < 64; i++) printf(" %.9g", value(t, i));
  printf("\n");
}
static tn_status compare(uint32_t k, const tn_tensor *got, const tn_tensor *want, double rtol, double atol) {
  if (got->dtype != want->dtype || got->rank != want->rank)
    return tn_fail(&d, TN_E_VERIFY, "output %u is %s of rank %d, wants %s of rank %d", k, tn_dtype_name((tn_dtype)got->dtype), got->rank, tn_dtype_name((tn_dtype)want->dtype), want->rank);
  for (int i = 0; i < got->rank; i++)
    if (got->shape[i] != want->shape[i]) return tn_fail(&d, TN_E_VERIFY, "output %u: dim %d is %lld, wants %lld", k, i, (long long)got->shape[i], (long long)want->shape[i]);
  for (int64_t i = 0; i < count(got); i++) {
    double x = value(got, i), y = value(want, i);
    bool same = x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= atol + rtol * fabs(y);
    if (!same) return tn_fail(&d, TN_E_VERIFY, "output %u: element %lld is %.9g, wants %.9g", k, (long long)i, x, y);
  }
  return TN_OK;
}
/* The last folder name's place, so that external data is found. */
static const char *folder_of(const char *path, char *out, size_t n) {
  snprintf(out, n, "%s", path);
  char *s = strrchr(out, '/');
  if (s) *s = 0;
  return s ? out : ".";
}
static tn_status one(tn_arena *a, tn_dims *dims, const char *model, const char *data, double rtol, double atol, const char **out_word) {
  char *p, folder[4096];
  size_t n;
  tn_unit *u;
  tn_onnx_options o = {.folder = folder_of(model, folder, sizeof folder)};
  *out_word = "FAIL";
  TN_TRY(tn_file_read(&d, model, 1u << 31, &p, &n));
  tn_status s = tn_onnx_import(&d, a, dims, p, n, &o, &u); /* no external data in tests of this tool: nothing to keep */
  tn_free(p);
  TN_TRY(s);
  bool dynamic = false;
  for (uint32_t k = 0; k < u->n_func; k++) {
    tn_graph *g = u->func[k];
    if (verbose) {
      tn_str t;
      tn_str_init(&t);
      tn_graph_print(g, 0, &t);
      fwrite(t.s, 1, t.n, stdout);
      tn_str_deinit(&t);
    }
    TN_TRY(tn_graph_verify(&d, g));
    TN_TRY(tn_ops_verify(&d, g));
    for (uint32_t i = 1; i < g->n_nodes; i++) dynamic |= g->node[i].op == TN_OP_DYN;
  }
  for (uint32_t i = 0; verbose && i < tn_dims_n_assumed(dims); i++) {
    tn_dim x, y;
    const char *where;
    uint32_t owner;
    tn_str t;
    tn_dims_get_assumed(dims, i, &x, &y, &where, &owner);
    tn_str_init(&t);
    tn_dim_print(dims, x, &t);
    tn_str_add(&t, " == ");
    tn_dim_print(dims, y, &t);
    printf("assumed in function %u: %s, at %s\n", owner, t.s ? t.s : "?", where);
    tn_str_deinit(&t);
  }
  tn_graph *g = u->func[0];
  for (uint32_t i = 0; i < g->n_inputs; i++) dynamic |= tn_typeof(g, g->input[i])->dtype == TN_OBJ;
  *out_word = "imported";
  if (dynamic || !data) return TN_OK;
  *out_word = "FAIL";
  tn_tensor *in = TN_NEW(a, tn_tensor, g->n_inputs + 1u), *out = TN_NEW(a, tn_tensor, g->n_outputs + 1u), want;
  int elem;
  bool there;
  if (!in || !out) return tn_fail(&d, TN_E_NOMEM, "tensors");
  for (uint32_t i = 0; i < g->n_inputs; i++) {
    TN_TRY(load(a, data, "input", i, &in[i], &elem, &there));
    if (!there) return tn_fail(&d, TN_E_IO, "no input_%u.pb", i);
    if (elem != u->in[i].elem) return tn_fail(&d, TN_E_ARG, "input_%u.pb is %s, the model wants %s", i, tn_ox_elem_name(elem), tn_ox_elem_name(u->in[i].elem));
  }
  TN_TRY(tn_ops_eval_graph(&d, a, g, in, out));
  for (uint32_t k = 0; k < g->n_outputs; k++) {
    if (print_results) show("got ", &out[k]);
    TN_TRY(load(a, data, "output", k, &want, &elem, &there));
    if (!there) continue;
    if (print_results) show("want", &want);
    if (elem != u->out[k].elem) return tn_fail(&d, TN_E_VERIFY, "output %u is %s, wants %s", k, tn_ox_elem_name(u->out[k].elem), tn_ox_elem_name(elem));
    TN_TRY(compare(k, &out[k], &want, rtol, atol));
  }
  *out_word = "ok";
  return TN_OK;
}
static bool run(const char *model, const char *data, double rtol, double atol) {
  tn_arena a;
  const char *word;
  tn_arena_init(&a);
  tn_diag_clear(&d);
  tn_dims *dims = tn_dims_create();
  tn_status s = dims ? one(&a, dims, model, data, rtol, atol, &word) : TN_E_NOMEM;
  if (s == TN_OK) printf("%s\n", word);
  else {
    for (char *p = d.text; *p; p++)
      if (*p == '\n') *p = ' ';
    printf("FAIL: %s: %s\n", tn_status_name(s), d.text);
  }
  fflush(stdout);
  tn_dims_destroy(dims);
  tn_arena_deinit(&a);
  return s == TN_OK;
}

int main(int argc, char **argv) {
  int i = 1;
  for (; i < argc && argv[i][0] == '-'; i++) {
    if (!strcmp(argv[i], "-v")) verbose = true;
    else if (!strcmp(argv[i], "-p")) print_results = true;
    else if (!strcmp(argv[i], "-l")) {
      char model[2048], data[2048];
      double rtol, atol;
      while (scanf("%2047s %2047s %lf %lf", model, data, &rtol, &atol) == 4) run(model, data, rtol, atol);
      return 0;
    }
  }
  if (i >= argc) return fprintf(stderr, "usage: evalonnx [-v] [-p] MODEL.onnx [DATA_FOLDER [RTOL ATOL]]\n"), 2;
  return run(argv[i], i + 1 < argc ? argv[i + 1] : NULL, i + 2 < argc ? atof(argv[i + 2]) : 1e-3, i + 3 < argc ? atof(argv[i + 3]) : 1e-7) ? 0 : 1;
}

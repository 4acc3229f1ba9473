/* Runs a package, in plain C, with nothing but the small run time:  run MODEL.tnp [N]
 *
 * Inputs are made up: every free dim is N (1 when not given), every element a small number that depends on its place. Prints what goes in and what
 * comes out. Shows opening, asking for ports, values, dynamic sizes, and errors.
 *   cc run.c -I ../../include -L ../../build -ltenon_rt -o run */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tenon/model.h"

static size_t bytes_of(int32_t dtype) {
  switch (dtype) {
  case TN_F64: case TN_I64: case TN_U64: return 8;
  case TN_F32: case TN_I32: case TN_U32: return 4;
  case TN_F16: case TN_BF16: case TN_I16: case TN_U16: return 2;
  default: return 1;
  }
}

/* ONNX's number of an element type to the dtype that holds it. */
static int32_t dtype_of(int32_t elem) {
  static const signed char t[] = {-1, TN_F32, TN_U8, TN_I8, TN_U16, TN_I16, TN_I32, TN_I64, -1, TN_BOOL, TN_F16, TN_F64, TN_U32, TN_U64, -1, -1, TN_BF16};
  return elem >= 0 && elem < (int32_t)sizeof t ? t[elem] : TN_U8;
}

static void print_shape(const int64_t *dim, int32_t rank) {
  for (int32_t k = 0; k < rank; k++) printf("%s%lld", k ? "x" : "", (long long)dim[k]);
}

/* An input for a port; NULL when this example does not know how. */
static tn_value *make(const tn_port *p, int64_t free_dim) {
  int64_t shape[16], n = 1;
  int32_t dtype = dtype_of(p->elem);
  if (p->kind != 0 || dtype < 0 || p->rank < 0 || p->rank > 16) return NULL;
  for (int32_t k = 0; k < p->rank; k++) n *= shape[k] = p->dim[k] < 0 ? free_dim : p->dim[k];
  char *data = calloc((size_t)n + 1, bytes_of(dtype));
  if (!data) return NULL;
  for (int64_t i = 0; i < n; i++) {
    double v = (double)(i % 7) / 8 - 0.25;
    if (dtype == TN_F32) ((float *)(void *)data)[i] = (float)v;
    else if (dtype == TN_F64) ((double *)(void *)data)[i] = v;
    else if (dtype == TN_I64) ((int64_t *)(void *)data)[i] = i % 3;
    else if (dtype == TN_I32) ((int32_t *)(void *)data)[i] = (int32_t)(i % 3);
  } /* others: zeros */
  tn_tensor t = {data, shape, NULL, p->rank, dtype};
  tn_value *v = tn_value_copy(&t, p->elem);
  free(data);
  printf("in  %-12s ", p->name);
  print_shape(shape, p->rank);
  printf("\n");
  return v;
}

static void show(const char *name, const tn_value *v) {
  const tn_tensor *t = tn_value_tensor(v);
  printf("out %-12s ", name);
  if (!t) {
    printf("kind %d, %zu items\n", (int)tn_value_get_kind(v), tn_value_n(v));
    return;
  }
  print_shape(t->shape, t->rank);
  if (t->dtype == TN_F32 && t->data) /* results may have strides; the first line is enough here */
    for (size_t i = 0; i < tn_value_n(v) && i < 4 && (t->rank == 0 || (int64_t)i < t->shape[t->rank - 1]); i++)
      printf(" %g", (double)((const float *)t->data)[t->rank ? (int64_t)i * t->strides[t->rank - 1] : 0]);
  printf("\n");
}

int main(int argc, char **argv) {
  char why[512];
  tn_model *model;
  tn_session *session = NULL;
  int failed = 1;
  if (argc < 2) return fprintf(stderr, "usage: run MODEL.tnp [size of free dims]\n"), 2;
  if (tn_model_open(argv[1], NULL, &model, why, sizeof why) != TN_OK) return fprintf(stderr, "%s\n", why), 1;
  uint32_t n_in = tn_model_n_in(model), n_out = tn_model_n_out(model);
  tn_value **in = calloc((size_t)n_in + 1, sizeof *in), **out = calloc((size_t)n_out + 1, sizeof *out);
  if (!in || !out || tn_session_create(model, NULL, &session) != TN_OK) {
    fprintf(stderr, "out of memory\n");
    goto done;
  }
  for (uint32_t i = 0; i < n_in; i++) {
    tn_port p;
    tn_model_in(model, i, &p);
    in[i] = make(&p, argc > 2 ? atoll(argv[2]) : 1);
    if (in[i]) continue;
    fprintf(stderr, "input %u '%s' is of a kind that this example does not make\n", i, p.name);
    goto done;
  }
  if (tn_session_run(session, in, out) != TN_OK) {
    fprintf(stderr, "%s\n", tn_session_error(session));
    goto done;
  }
  for (uint32_t i = 0; i < n_out; i++) {
    tn_port p;
    tn_model_out(model, i, &p);
    show(p.name, out[i]);
  }
  failed = 0;
done:
  for (uint32_t i = 0; in && i < n_in; i++) tn_value_release(in[i]);
  for (uint32_t i = 0; out && i < n_out; i++) tn_value_release(out[i]);
  free(in);
  free(out);
  tn_session_destroy(session);
  tn_model_release(model);
  return failed;
}

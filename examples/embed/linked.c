/* A program with its model inside: examples/mlp.onnx, compiled to an object and a header, linked in. It reads no file.
 *
 *   tenon compile ../mlp.onnx -o mlp.o --emit static
 *   cc linked.c mlp.o -I . -I ../../include ../../build/libtenon_rt.a -lm -lpthread -o linked
 *
 * Sizes that the model leaves free stay free: the two calls below differ in rows. tn_session_run_into computes into memory of the caller's and allocates
 * nothing once it has seen a size, which is what a loop with deadlines wants. */
#include <stdio.h>
#include "mlp.h"

enum { IN = 8, OUT = 4, MOST = 3 };

int main(void) {
  char why[512];
  tn_model *model;
  tn_session *session;
  float x[MOST * IN], y[MOST * OUT];
  int failed = 0;
  if (mlp_open(&model, why, sizeof why) != TN_OK) return fprintf(stderr, "%s\n", why), 1;
  if (tn_session_create(model, NULL, &session) != TN_OK) return fprintf(stderr, "out of memory\n"), 1;
  for (int i = 0; i < MOST * IN; i++) x[i] = (float)(i % 7) / 8 - 0.25f;
  for (int64_t rows = 1; rows <= MOST && !failed; rows += 2) {
    const int64_t in_shape[2] = {rows, IN}, out_shape[2] = {rows, OUT};
    const tn_tensor in = {x, in_shape, NULL, 2, TN_F32};
    tn_tensor out = {y, out_shape, NULL, 2, TN_F32};
    failed = tn_session_run_into(session, &in, &out) != TN_OK;
    if (failed) fprintf(stderr, "%s\n", tn_session_error(session));
    for (int64_t i = 0; i < rows * OUT && !failed; i++) printf("%g%c", (double)y[i], i % OUT == OUT - 1 ? '\n' : ' ');
  }
  tn_session_destroy(session);
  tn_model_release(model);
  return failed;
}

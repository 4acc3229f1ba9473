/* run: a model on given or made-up inputs. */
#include "model.h"
#include <stdlib.h>
#include <string.h>

/* A value's type and first elements, on one line. */
static void show(const char *name, const tn_value *v) {
  char text[300];
  cli_value_text(v, text, sizeof text);
  printf("%s: %s", name, text);
  if (tn_value_get_kind(v) == TN_VALUE_TENSOR) {
    const tn_tensor *t = tn_value_tensor(v);
    size_t n = tn_value_n(v), most = n < 6 ? n : 6;
    bool dense = true;
    int64_t run = 1;
    for (int k = t->rank; k-- > 0;) {
      dense &= t->shape[k] == 1 || t->strides[k] == run;
      run *= t->shape[k];
    }
    for (size_t i = 0; i < most && dense; i++) {
      printf(i ? " " : " = ");
      switch (t->dtype) {
      case TN_F32: printf("%g", (double)((const float *)t->data)[i]); break;
      case TN_F64: printf("%g", ((const double *)t->data)[i]); break;
      case TN_I64: printf("%lld", (long long)((const int64_t *)t->data)[i]); break;
      case TN_I32: printf("%d", ((const int32_t *)t->data)[i]); break;
      case TN_I8: printf("%d", ((const int8_t *)t->data)[i]); break;
      case TN_U8: case TN_BOOL: printf("%u", ((const uint8_t *)t->data)[i]); break;
      default: printf("?"); break;
      }
    }
    if (n > most && dense) printf(" ...");
  }
  if (tn_value_get_kind(v) == TN_VALUE_STRINGS)
    for (size_t i = 0; i < tn_value_n(v) && i < 6; i++) printf(" \"%s\"", tn_value_string(v, i, NULL));
  printf("\n");
}

int cli_run(int argc, char **argv) {
  cli_common c = {0};
  cli_inputs in = {.seed = 0};
  const char *out_path = NULL, *pos[1];
  long repeat = 1;
  int json = 0, n_pos, r;
  const cli_option opts[] = {CLI_COMMON(c), {"--inputs", CLI_O_LIST, &in.files}, {"--out", CLI_O_TEXT, &out_path}, {"--random", CLI_O_FLAG, &in.random}, {"--seed", CLI_O_INT, &in.seed},
                          {"--repeat", CLI_O_INT, &repeat}, {"--json", CLI_O_FLAG, &json}};
  if ((r = cli_args(argc, argv, opts, sizeof opts / sizeof *opts, pos, 1, &n_pos)) != CLI_OK) return r;
  if (n_pos != 1) return cli_usage("run", "one MODEL or PACKAGE is wanted");
  if (repeat < 1) return cli_usage("run", "--repeat wants at least 1");
  cli_model m;
  if ((r = cli_model_load("run", pos[0], &c, &m)) != CLI_OK) return r;
  size_t n_in = tn_model_n_in(m.m), n_out = tn_model_n_out(m.m);
  tn_value **v = calloc(n_in + n_out + 1, sizeof *v), **out = v + n_in;
  tn_session *s = NULL;
  tn_session_options so;
  tn_session_options_init(&so);
  so.threads = (int32_t)c.threads;
  r = v ? cli_inputs_get("run", m.m, &in, &c, v) : cli_failed("run", "out of memory");
  if (r == CLI_OK && tn_session_create(m.m, &so, &s) != TN_OK) r = cli_failed("run", "a session can't be made");
  double t0 = cli_now_ms(), best = 0;
  for (long k = 0; k < repeat && r == CLI_OK; k++) {
    cli_values_free(out, n_out);
    memset(out, 0, n_out * sizeof *out);
    double t = cli_now_ms();
    tn_status st = tn_session_run(s, v, out);
    t = cli_now_ms() - t;
    if (k == 0 || t < best) best = t;
    if (st == TN_OK) continue;
    fprintf(stderr, "tenon run: %s: %s: %s\n", pos[0], tn_status_name(st), tn_session_error(s));
    memset(out, 0, n_out * sizeof *out);
    r = CLI_FAILED;
  }
  double all = cli_now_ms() - t0;
  if (r == CLI_OK && out_path) r = cli_outputs_put("run", m.m, out, out_path);
  for (size_t i = 0; i < n_out && r == CLI_OK && !out_path && !json; i++) {
    tn_port p;
    tn_model_out(m.m, (uint32_t)i, &p);
    show(p.name, out[i]);
  }
  if (r == CLI_OK && json) {
    printf("{\"load_ms\": %.3f, \"runs\": %ld, \"mean_ms\": %.4f, \"best_ms\": %.4f, \"outputs\": [", m.ms, repeat, all / (double)repeat, best);
    for (size_t i = 0; i < n_out; i++) {
      tn_port p;
      char text[300];
      tn_model_out(m.m, (uint32_t)i, &p);
      cli_value_text(out[i], text, sizeof text);
      printf(i ? ", {\"name\": " : "{\"name\": ");
      cli_json_text(stdout, p.name);
      printf(", \"type\": ");
      cli_json_text(stdout, text);
      printf("}");
    }
    printf("]}\n");
  } else if (r == CLI_OK && repeat > 1) {
    printf("%ld runs, mean %.3f ms, best %.3f ms\n", repeat, all / (double)repeat, best);
  }
  if (v) cli_values_free(v, n_in + n_out);
  free(v);
  tn_session_destroy(s);
  cli_model_free(&m);
  return r;
}

/* opt: graph text through named passes and back to text. The way to look at one pass, and what golden tests run.
 * Verifiers run on the input and behind every pass. The default profile is used, and opaque nodes are fine: nothing is compiled here. */
#include "tenon/compile.h"
#include "passes/passes.h"
#include <stdio.h>
#include <string.h>

typedef struct opt_state {
  tn_arena keep, scratch;
  tn_dims *dims;
  tn_diag diag;
  tn_str text;
} opt_state;

static tn_status opt_run(opt_state *o, const char *text, size_t n, const char *passes) {
  tn_graph *g = NULL;
  tn_target t;
  o->dims = tn_dims_create();
  if (!o->dims) return tn_fail(&o->diag, TN_E_NOMEM, "dims of a graph");
  TN_TRY(tn_graph_parse(&o->diag, &o->keep, o->dims, text, n, &g));
  TN_TRY_WHILE(&o->diag, tn_graph_verify(&o->diag, g), "checking the graph as given");
  TN_TRY_WHILE(&o->diag, tn_ops_verify(&o->diag, g), "checking the graph as given");
  tn_target_init(&t, (tn_level)0);
  const char *profile = tn_env_get(TN_ENV_PROFILE);
  tn_pass_ctx p = {.d = &o->diag, .scratch = &o->scratch, .target = &t, .allow_host_calls = true, .verify = true};
  p.profile = tn_profile_find(*profile ? profile : "default");
  if (!p.profile) return tn_fail(&o->diag, TN_E_ARG, "no gate profile named '%s'", profile);
  TN_TRY(tn_passes_run(&p, g, passes));
  tn_graph_print(g, g->n_prov > 1 ? TN_PRINT_PROV : 0, &o->text);
  return o->text.oom ? tn_fail(&o->diag, TN_E_NOMEM, "text of %u nodes", g->n_nodes) : TN_OK;
}

tn_status tn_opt_text(const char *text, size_t n, const char *passes, char **out_text, char *error, size_t error_n) {
  opt_state o = {0};
  *out_text = NULL;
  if (error && error_n) error[0] = 0;
  tn_arena_init(&o.keep);
  tn_arena_init(&o.scratch);
  tn_str_init(&o.text);
  tn_status s = opt_run(&o, text, n, passes);
  if (s == TN_OK) {
    *out_text = tn_malloc(o.text.n + 1);
    if (*out_text) {
      if (o.text.n) memcpy(*out_text, o.text.s, o.text.n);
      (*out_text)[o.text.n] = 0;
    } else
      s = tn_fail(&o.diag, TN_E_NOMEM, "text of %zu bytes", o.text.n);
  }
  if (s != TN_OK && error && error_n) snprintf(error, error_n, "%s", o.diag.text);
  tn_str_deinit(&o.text);
  tn_dims_destroy(o.dims);
  tn_arena_deinit(&o.scratch);
  tn_arena_deinit(&o.keep);
  return s;
}
void tn_text_free(char *s) { tn_free(s); }

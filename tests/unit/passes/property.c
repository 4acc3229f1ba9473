/* Random graphs mean the same after passes, whatever the list, and fused bodies keep the rules of passes.h. */
#include "gen.h"
#include "positions.h"
#include <stdlib.h>

/* ---- what passes.h promises of a body ---- */
static bool is_view(tn_op op) { return op == TN_OP_RESHAPE || op == TN_OP_PERMUTE || op == TN_OP_BROADCAST || op == TN_OP_SLICE; }
static bool allowed(tn_op op) {
  switch (tn_op_cls(op)) {
  case TN_CLS_STRUCT: return op == TN_OP_INPUT;
  case TN_CLS_LIBRARY: case TN_CLS_SCAN: return false;
  default: return op != TN_OP_CONCAT;
  }
}
/* Equal domains and reduced dims; dims of 1 do not count. */
static uint32_t without_ones(const tn_type *t, const tn_dim *cut, int n_cut, tn_dim *out, bool *out_cut) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < t->rank; k++) {
    if (t->dim[k] == 1) continue;
    out_cut[n] = false;
    for (int i = 0; i < n_cut; i++) out_cut[n] = out_cut[n] || cut[i] == (tn_dim)k;
    out[n++] = t->dim[k];
  }
  return n;
}
static bool same_cut(const tn_type *s, const tn_dim *p, int np, const tn_type *t, const tn_dim *q, int nq) {
  tn_dim a[TN_MAX_RANK], b[TN_MAX_RANK];
  bool ca[TN_MAX_RANK], cb[TN_MAX_RANK];
  uint32_t na = without_ones(s, p, np, a, ca), nb = without_ones(t, q, nq, b, cb);
  return na == nb && memcmp(a, b, na * sizeof *a) == 0 && memcmp(ca, cb, na * sizeof *ca) == 0;
}
static const char *bad_body(tn_graph *b, const char *kind, tn_arena *a, const int64_t *sym) {
  uint32_t anchors = 0, reduces = 0;
  for (uint32_t i = 1; i < b->n_nodes; i++) {
    tn_op op = b->node[i].op;
    if (!allowed(op)) return "an op that no kernel holds";
    anchors += op == TN_OP_CONTRACT || op == TN_OP_CONV || op == TN_OP_CONVT || op == TN_OP_WINDOW;
    reduces += op == TN_OP_REDUCE;
  }
  if (b->n_inputs + b->n_outputs > 48 || b->n_nodes > 300) return "too big";
  if (b->n_outputs == 0) return "no result";
  if (strcmp(kind, "pointwise") == 0) return anchors || reduces ? "pointwise with a reduction" : NULL;
  if (strcmp(kind, "contract") == 0) return anchors != 1 || reduces ? "contract without exactly one anchor" : bad_epilogue(b, a, sym);
  if (strcmp(kind, "attention") == 0) return anchors != 2 || !reduces ? "attention without two contracts and a reduction" : bad_epilogue(b, a, sym);
  if (strcmp(kind, "reduction") != 0 || anchors || !reduces) return "reduction without one";
  const tn_node *first = NULL;
  for (uint32_t i = 1; i < b->n_nodes; i++) {
    const tn_node *n = &b->node[i];
    tn_dim p[TN_MAX_RANK], q[TN_MAX_RANK];
    if (n->op != TN_OP_REDUCE) continue;
    if (!first) { first = n; continue; }
    int np = tn_attr_dims(first, "dims", p, TN_MAX_RANK), nq = tn_attr_dims(n, "dims", q, TN_MAX_RANK);
    if (!same_cut(tn_typeof(b, first->in[0]), p, np, tn_typeof(b, n->in[0]), q, nq)) return "two reductions of different domains";
  }
  return bad_rows(b, a, sym);
}
static const char *bad_top(const tn_graph *g, tn_arena *a, const int64_t *sym) {
  for (uint32_t i = 1; i < g->n_nodes; i++) {
    const tn_node *n = &g->node[i];
    if (n->op == TN_OP_FUSED) {
      const char *why = bad_body(n->body, tn_attr_str(n, "kind", "?"), a, sym);
      if (why) return why;
      continue;
    }
    bool fine = n->op == TN_OP_INPUT || n->op == TN_OP_CONST || n->op == TN_OP_CONCAT || is_view(n->op) || n->op == TN_OP_SCAN ||
                tn_op_cls(n->op) == TN_CLS_LIBRARY;
    if (!fine) return tn_op_name(n->op);
  }
  return NULL;
}

static void one(uint64_t seed, uint32_t steps, const char *list) {
  world w;
  gen x;
  char why[200] = "";
  gen_graph(&x, &w, seed, steps);
  uint32_t n_in = w.g->n_inputs, n_out = w.g->n_outputs;
  int64_t sym[4] = {2 + (int64_t)(seed % 3)};
  tn_tensor *in = TN_NEW(&w.a, tn_tensor, n_in), *a = TN_NEW(&w.a, tn_tensor, n_out), *b = TN_NEW(&w.a, tn_tensor, n_out);
  for (uint32_t i = 0; i < n_in; i++) in[i] = random_tensor(&w.a, w.dims, tn_typeof(w.g, w.g->input[i]), sym, &x.seed);
  tn_str before;
  tn_str_init(&before);
  tn_graph_print(w.g, 0, &before);
  tn_status s = tn_ops_eval_graph(&w.d, &w.a, w.g, in, a);
  if (s == TN_E_INDEX) { /* an index of 2 or 3 into something smaller: nothing to compare */
    tn_str_deinit(&before);
    world_close(&w);
    return;
  }
  if (s != TN_OK) { print_error("seed %llu: %s\n%s\n", (unsigned long long)seed, w.d.text, before.s); fail(); }
  s = tn_passes_run(&w.p, w.g, list);
  if (s != TN_OK) { print_error("seed %llu, %s: %s\n%s\n", (unsigned long long)seed, list, w.d.text, before.s); show(w.g); fail(); }
  s = tn_ops_eval_graph(&w.d, &w.a, w.g, in, b);
  if (s != TN_OK) { print_error("seed %llu, after %s: %s\n%s\n", (unsigned long long)seed, list, w.d.text, before.s); show(w.g); fail(); }
  const char *rule = strstr(list, "fuse") || strcmp(list, "default") == 0 ? bad_top(w.g, &w.a, sym) : NULL;
  bool fine = !rule;
  for (uint32_t i = 0; fine && i < n_out; i++) fine = same_tensor(&a[i], &b[i], x.f == TN_F32 ? 2e-4 : 1e-6, why, sizeof why);
  if (!fine) {
    print_error("seed %llu, %s: %s %s\n%s\n", (unsigned long long)seed, list, rule ? rule : "results differ:", why, before.s);
    show(w.g);
    fail();
  }
  tn_str_deinit(&before);
  world_close(&w);
}

static int rounds(void) { /* TENON_TEST_ROUNDS makes a long run of it */
  const char *s = getenv("TENON_TEST_ROUNDS");
  return s ? atoi(s) : 400;
}
static void same_results(void **state) {
  static const char *const lists[] = {"default", "fuse", "simplify", "fold,simplify,cse,fuse", "cse,fold,settle,fuse", "fold", "cse,dce"};
  (void)state;
  for (int i = 0; i < rounds(); i++) one((uint64_t)i, 6 + (uint32_t)i % 40, lists[i % 3 ? (i % 2 ? 0 : 1) : i / 3 % 7]);
}

/* Passes that need nothing of each other run in any order. */
static void any_order(void **state) {
  (void)state;
  const char *const names[] = {"fold", "simplify", "cse", "settle", "dce"};
  for (int i = 0; i < rounds() / 4; i++) {
    uint64_t seed = (uint64_t)i + 77;
    char list[128] = "";
    for (int k = 0; k < 6; k++) {
      strcat(list, names[below(&seed, 5)]);
      strcat(list, k == 5 ? ",fuse" : ",");
    }
    one((uint64_t)i + 5000, 10 + (uint32_t)i % 30, list);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(same_results), cmocka_unit_test(any_order)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

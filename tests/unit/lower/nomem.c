/* Lowering with every allocation failing in turn: a status, never a crash, and nothing half done. Values of kernels are tested in
 * tests/kernels. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "lower/lower.h"

static const char *const bodies[] = {
    "graph @attention(%q: f32[2,s0,16] input, %k: f32[2,s0,16] input, %v: f32[2,s0,16] input) -> (f32[2,s0,16]) {\n"
    "  %0: f32[2,s0,s0] = contract %q, %k {labels=\"hid,hjd->hij\"}\n"
    "  %1: f32[2,s0,1] = reduce %0 {combiner=\"max\", dims=[2], keepdim=true}\n"
    "  %2: f32[2,s0,s0] = sub %0, %1\n"
    "  %3: f32[2,s0,s0] = exp %2\n"
    "  %4: f32[2,s0,1] = reduce %3 {combiner=\"sum\", dims=[2], keepdim=true}\n"
    "  %5: f32[2,s0,s0] = div %3, %4\n"
    "  %6: f32[2,s0,16] = contract %5, %v {labels=\"hij,hjd->hid\"}\n"
    "  return %6\n}\n",
    "graph @conv(%x: f32[1,8,9,9] input, %w: f32[16,8,3,3] param, %i: i64[9] input) -> (f32[1,16,9,9]) {\n"
    "  %0: f32[1,8,9,9] = take %x, %i {dim=3}\n"
    "  %1: f32[1,16,9,9] = conv %0, %w {stride=[1, 1], padding=[1, 1, 1, 1], dilation=[1, 1], groups=1}\n"
    "  %2: f32[1,16,9,9] = relu %1\n"
    "  return %2\n}\n",
};

static tn_status lower(tn_diag *d, tn_arena *a, tn_graph *outer, uint32_t node, const tn_lview *in, const tn_lview *out, const bool *frozen,
                       const tn_target *t) {
  tn_kdef *k;
  tn_ksched *s;
  tn_nest *n;
  tn_nest_info info;
  TN_TRY(tn_lower_def(d, a, outer, node, in, out, frozen, "k", &k));
  TN_TRY(tn_sched_choose(d, a, k, t, 8, &s));
  TN_TRY(tn_ksched_verify(d, k, s));
  TN_TRY(tn_nest_build(d, a, k, s, t, &n, &info));
  return tn_nest_verify(d, n);
}

static void dense(tn_dims *dims, const tn_type *t, tn_lview *v) {
  tn_dim run = 1;
  *v = (tn_lview){.dtype = (tn_dtype)t->dtype, .rank = t->rank};
  for (uint32_t i = t->rank; i-- > 0;) {
    v->dim[i] = t->dim[i];
    v->stride[i] = run;
    run = tn_dim_mul(dims, run, t->dim[i]);
  }
}

static void test_nomem(void **state) {
  (void)state;
  for (size_t b = 0; b < sizeof bodies / sizeof *bodies; b++) {
    int64_t n = 1;
    for (bool done = false; !done; n++) {
      tn_arena a;
      tn_diag d;
      tn_graph *g, *outer;
      tn_target t;
      tn_ref in[4];
      tn_lview iv[4], ov;
      bool frozen[4];
      uint32_t node;
      tn_attr kind = tn_mk_str("kind", "contract");
      tn_dims *dims = tn_dims_create();
      tn_arena_init(&a);
      tn_diag_clear(&d);
      tn_target_init(&t, TN_LEVEL_V4);
      if (tn_graph_parse(&d, &a, dims, bodies[b], strlen(bodies[b]), &g) != TN_OK || tn_ops_verify(&d, g) != TN_OK) fail_msg("%s", d.text);
      assert_int_equal(tn_graph_create(&a, dims, "outer", &outer), TN_OK);
      for (uint32_t i = 0; i < g->n_inputs; i++) {
        dense(dims, tn_typeof(g, g->input[i]), &iv[i]);
        frozen[i] = tn_def(g, g->input[i])->input->origin == TN_ORIGIN_PARAM;
        assert_int_equal(tn_graph_add_input(outer, NULL, *tn_typeof(g, g->input[i]), TN_ORIGIN_INPUT, &in[i]), TN_OK);
      }
      dense(dims, tn_typeof(g, g->output[0].ref), &ov);
      assert_int_equal(tn_graph_add(outer, TN_OP_FUSED, in, g->n_inputs, &kind, 1, tn_typeof(g, g->output[0].ref), 1, 0, &node), TN_OK);
      outer->node[node].body = g;
      tn_malloc_fail_after(n);
      tn_status s = lower(&d, &a, outer, node, iv, &ov, frozen, &t);
      tn_malloc_fail_after(0);
      done = s == TN_OK;
      if (s != TN_OK && s != TN_E_NOMEM && s != TN_E_ARG)
        fail_msg("body %zu, allocation %lld: %s", b, (long long)n, d.text); /* a dim that could not be made is ARG */
      tn_arena_deinit(&a);
      tn_dims_destroy(dims);
      assert_true(n < 20000);
    }
    assert_true(n > 20);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_nomem)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

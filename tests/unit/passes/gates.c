/* Gates and fates: the four reason codes, the profiles, and that every source node ends with exactly one fate. */
#include "passes_test.h"

#define HEAD "graph @g(%%x: f32[3,4] input, %%i: i64[3,4] input, %%w: f16[4,300] param, %%h: f16[3,4] input) -> "
static void dvm(world *w, const char *text) {
  world_parse(w, text);
  w->p.profile = tn_profile_find("dvm");
  assert_non_null(w->p.profile);
  run(w, "decompose");
}
static void falls_back(const char *type, const char *call, const char *dtype, const char *detail) {
  world w;
  char text[1024], target[64];
  sscanf(call, "%63s", target);
  snprintf(text, sizeof text, HEAD "(%s) {\n  src 1 \"n\" \"%s\" \"m.py:1\" %s\n  %%0: %s = call %s !1\n  return %%0\n}\n", type, target, dtype, type, call);
  dvm(&w, text);
  const tn_prov *r = &w.g->prov[1];
  assert_int_equal(r->fate, detail ? TN_FATE_FALLBACK : r->fate);
  if (!detail) assert_int_not_equal(r->fate, TN_FATE_FALLBACK);
  if (detail && strncmp(r->detail, detail, strlen(detail)) != 0) { print_error("'%s', wanted '%s'\n", r->detail, detail); fail(); }
  assert_int_equal(r->gate[3], TN_GATE_NA);
  const tn_node *n = first_op(w.g, TN_OP_OPAQUE);
  assert_true((n != NULL) == (detail != NULL));
  if (n) {
    assert_string_equal(n->target, target);
    assert_string_equal(tn_attr_str(n, "reason", ""), r->detail);
  }
  world_close(&w);
}
static void reason_codes(void **state) {
  (void)state;
  falls_back("i64[3,4]", "aten.add.Tensor %i, %i {self=$0, other=$1}", "i64", "dtype: ");
  falls_back("f32[4,3]", "aten.permute.default %x {self=$0, dims=[1,0]}", "f32", "not-in-list: ");
  falls_back("f32[4]", "aten.select.int %x {self=$0, dim=0, index=1}", "f32", "no-emitter: aten.select.int -> aten.slice");
  falls_back("f16[3,300]", "aten.mm.default %h, %w {self=$0, mat2=$1}", "f16", NULL);
  falls_back("f32[3,4]", "aten.mul.Tensor %x, %x {self=$0, other=$1}", "f32", NULL);
  falls_back("f32[3,1,4]", "aten.unsqueeze.default %x {self=$0, dim=1}", "f32", NULL);
  falls_back("i64[3,1,4]", "aten.unsqueeze.default %i {self=$0, dim=1}", "i64", "dtype: ");
  falls_back("f32[3,4]", "my.op.default %x {self=$0}", "f32", "not-in-list: ");
  falls_back("i64[3,4]", "my.op.default %i {self=$0}", "i64", "dtype: "); /* an unregistered op is judged by dtype too */
}
/* The refused calls of a DCN-v2 in the form the document walks through. */
static void dcn_census(void **state) {
  static const struct { const char *target, *code; int n; } want[] = {
    {"aten.unsqueeze.default", "dtype", 1}, {"aten.add.Tensor", "dtype", 1}, {"aten.embedding.default", "dtype", 1},
    {"aten.permute.default", "not-in-list", 9}, {"aten.select.int", "no-emitter", 4}, {"aten.mm.default", "rule", 5}, {"aten.cat.default", "not-in-list", 1}};
  world w;
  tn_str b;
  int n = 0;
  (void)state;
  tn_str_init(&b);
  tn_str body;
  tn_str_init(&body);
#define ROW(target, dt, ...) do { n++; tn_str_add(&b, "  src %d \"n%d\" \"" target "\" \"dcn.py:%d\" " dt "\n", n, n, n); tn_str_add(&body, __VA_ARGS__); tn_str_add(&body, " !%d\n", n); } while (0)
  ROW("aten.unsqueeze.default", "i64", "  %%o1: i64[1,4] = call aten.unsqueeze.default %%off {self=$0, dim=0}");
  ROW("aten.add.Tensor", "i64", "  %%ids: i64[8,4] = call aten.add.Tensor %%sp, %%o1 {self=$0, other=$1}");
  ROW("aten.embedding.default", "f32", "  %%e: f32[8,4,4] = call aten.embedding.default %%t, %%ids {weight=$0, indices=$1}");
  ROW("aten.view.default", "f32", "  %%ev: f32[8,16] = call aten.view.default %%e {self=$0, size=[8,16]}");
  ROW("aten.unsqueeze.default", "f32", "  %%x0: f32[8,16,1] = call aten.unsqueeze.default %%ev {self=$0, dim=2}");
  ROW("aten.unsqueeze.default", "f32", "  %%xl: f32[8,16,1] = call aten.unsqueeze.default %%ev {self=$0, dim=2}");
  for (int k = 0; k < 2; k++) {
    ROW("aten.select.int", "f32", "  %%k%d: f32[16,16] = call aten.select.int %%K {self=$0, dim=0, index=%d}", k, k);
    ROW("aten.select.int", "f32", "  %%b%d: f32[16,1] = call aten.select.int %%B {self=$0, dim=0, index=%d}", k, k);
    ROW("aten.permute.default", "f32", "  %%p%d: f32[8,1,16] = call aten.permute.default %%%s {self=$0, dims=[0,2,1]}", k, k ? "r0" : "xl");
    ROW("aten.view.default", "f32", "  %%v%d: f32[8,16] = call aten.view.default %%p%d {self=$0, size=[8,16]}", k, k);
    ROW("aten.permute.default", "f32", "  %%q%d: f32[16,16] = call aten.permute.default %%k%d {self=$0, dims=[1,0]}", k, k);
    ROW("aten.mm.default", "f32", "  %%m%d: f32[8,16] = call aten.mm.default %%v%d, %%q%d {self=$0, mat2=$1}", k, k, k);
    ROW("aten.view.default", "f32", "  %%w%d: f32[8,1,16] = call aten.view.default %%m%d {self=$0, size=[8,1,16]}", k, k);
    ROW("aten.permute.default", "f32", "  %%u%d: f32[8,16,1] = call aten.permute.default %%w%d {self=$0, dims=[0,2,1]}", k, k);
    ROW("aten.add.Tensor", "f32", "  %%a%d: f32[8,16,1] = call aten.add.Tensor %%u%d, %%b%d {self=$0, other=$1}", k, k, k);
    ROW("aten.mul.Tensor", "f32", "  %%z%d: f32[8,16,1] = call aten.mul.Tensor %%x0, %%a%d {self=$0, other=$1}", k, k);
    ROW("aten.add.Tensor", "f32", "  %%r%d: f32[8,16,1] = call aten.add.Tensor %%z%d, %%%s {self=$0, other=$1}", k, k, k ? "r0" : "xl");
  }
  ROW("aten.squeeze.dim", "f32", "  %%cross: f32[8,16] = call aten.squeeze.dim %%r1 {self=$0, dim=2}");
  const char *from = "ev";
  for (int k = 0; k < 2; k++) {
    ROW("aten.permute.default", "f32", "  %%l%d: f32[16,16] = call aten.permute.default %%W%d {self=$0, dims=[1,0]}", k, k);
    ROW("aten.addmm.default", "f32", "  %%d%d: f32[8,16] = call aten.addmm.default %%c, %%%s, %%l%d {self=$0, mat1=$1, mat2=$2}", k, from, k);
    ROW("aten.relu.default", "f32", "  %%h%d: f32[8,16] = call aten.relu.default %%d%d {self=$0}", k, k);
    from = k ? "h1" : "h0";
  }
  ROW("aten.cat.default", "f32", "  %%cat: f32[8,32] = call aten.cat.default %%cross, %%h1 {tensors=[$0,$1], dim=1}");
  ROW("aten.permute.default", "f32", "  %%wo: f32[32,1] = call aten.permute.default %%Wo {self=$0, dims=[1,0]}");
  ROW("aten.addmm.default", "f32", "  %%lo: f32[8,1] = call aten.addmm.default %%co, %%cat, %%wo {self=$0, mat1=$1, mat2=$2}");
  ROW("aten.sigmoid.default", "f32", "  %%y: f32[8,1] = call aten.sigmoid.default %%lo {self=$0}");
#undef ROW
  tn_str all;
  tn_str_init(&all);
  tn_str_add(&all, "graph @dcn(%%sp: i64[8,4] input, %%off: i64[4] buffer, %%t: f32[40,4] param, %%K: f32[2,16,16] param, %%B: f32[2,16,1] param, "
                   "%%W0: f32[16,16] param, %%W1: f32[16,16] param, %%c: f32[16] param, %%Wo: f32[1,32] param, %%co: f32[1] param) -> (f32[8,1]) {\n");
  tn_str_put(&all, b.s, b.n);
  tn_str_put(&all, body.s, body.n);
  tn_str_add(&all, "  return %%y\n}\n");
  dvm(&w, all.s);
  int total = 0;
  for (uint32_t k = 1; k < w.g->n_prov; k++) {
    const tn_prov *r = &w.g->prov[k];
    assert_int_not_equal(r->fate, TN_FATE_NONE);
    total += r->fate == TN_FATE_FALLBACK;
  }
  for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
    int found = 0;
    for (uint32_t k = 1; k < w.g->n_prov; k++) {
      const tn_prov *r = &w.g->prov[k];
      found += r->fate == TN_FATE_FALLBACK && strcmp(r->target, want[i].target) == 0 && strncmp(r->detail, want[i].code, strlen(want[i].code)) == 0;
    }
    if (found != want[i].n) { print_error("%s %s: %d, wanted %d\n", want[i].target, want[i].code, found, want[i].n); fail(); }
  }
  assert_int_equal(total, 22);
  assert_int_equal(count_op(w.g, TN_OP_OPAQUE), 22);
  run(&w, "-decompose");
  int rewritten = 0;
  for (uint32_t k = 1; k < w.g->n_prov; k++) rewritten += w.g->prov[k].fate == TN_FATE_REWRITTEN && strcmp(w.g->prov[k].target, "aten.unsqueeze.default") == 0;
  assert_int_equal(rewritten, 2);
  tn_str_deinit(&all);
  tn_str_deinit(&b);
  tn_str_deinit(&body);
  world_close(&w);
}
static void profiles(void **state) {
  (void)state;
  assert_null(tn_profile_find("nothing"));
  assert_string_equal(tn_profile_name(tn_profile_find(NULL)), "default");
  tn_str b;
  tn_str_init(&b);
  tn_profile_print(tn_profile_find("dvm"), &b);
  assert_non_null(strstr(b.s, "65280"));
  assert_non_null(strstr(b.s, "v2.7.1"));
  tn_str_deinit(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(reason_codes), cmocka_unit_test(dcn_census), cmocka_unit_test(profiles)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

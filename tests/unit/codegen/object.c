/* Objects from nests: what is in them, what is refused, threads, lack of memory. That they compute the right thing is
 * tests/kernels' business. */
#include <elf.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>
#include "codegen/codegen.h"

static const char scale[] =
    "nest @scale (x: f32, y: f32 written) sizes 1 {\n"
    "  %1 = block_lo i64\n  %2 = block_hi i64\n  %3 = const i64 1\n  %4 = const i64 16\n  %5 = size i64 0\n"
    "  %6 = for i64 %1, %2, %3\n"
    "    %7 = mul i64 %6, %4\n    %8 = load f32x16 p0[%7]\n    %9 = add f32x16 %8, %8\n    store f32x16 p1[%7], %9\n  end\n}\n";

static tn_nest *parse(tn_arena *a, const char *text) {
  tn_diag d;
  tn_diag_clear(&d);
  tn_nest *n = NULL;
  if (tn_nest_parse(&d, a, text, strlen(text), &n) != TN_OK) fail_msg("%s", d.text);
  return n;
}

static tn_target level(tn_level l) {
  tn_target t;
  memset(&t, 0, sizeof t);
  tn_target_init(&t, l);
  return t;
}

/* Number of named symbols; out: is there a global function of that name, is anything undefined? */
static void symbols(const char *bytes, const char *want, bool *found, int *n_global) {
  Elf64_Ehdr h;
  memcpy(&h, bytes, sizeof h);
  *found = false;
  *n_global = 0;
  for (unsigned k = 0; k < h.e_shnum; k++) {
    Elf64_Shdr s, names;
    memcpy(&s, bytes + h.e_shoff + k * sizeof s, sizeof s);
    if (s.sh_type != SHT_SYMTAB) continue;
    memcpy(&names, bytes + h.e_shoff + s.sh_link * sizeof s, sizeof s);
    for (size_t at = sizeof(Elf64_Sym); at < s.sh_size; at += sizeof(Elf64_Sym)) {
      Elf64_Sym sym;
      memcpy(&sym, bytes + s.sh_offset + at, sizeof sym);
      if (ELF64_ST_BIND(sym.st_info) != STB_GLOBAL) continue;
      ++*n_global;
      *found |= strcmp(bytes + names.sh_offset + sym.st_name, want) == 0 && ELF64_ST_TYPE(sym.st_info) == STT_FUNC && sym.st_shndx != SHN_UNDEF;
    }
  }
}

static void test_one_symbol(void **state) {
  (void)state;
  tn_arena a;
  tn_arena_init(&a);
  tn_nest *n = parse(&a, scale);
  for (int l = 0; l < TN_N_LEVELS; l++) {
    tn_target t = level((tn_level)l);
    tn_diag d;
    tn_diag_clear(&d);
    void *bytes = NULL;
    size_t size = 0;
    if (tn_codegen_object(&d, n, &t, &bytes, &size, NULL) != TN_OK) fail_msg("%s", d.text);
    bool found;
    int n_global;
    symbols(bytes, "scale", &found, &n_global);
    assert_true(found);
    assert_int_equal(n_global, 1);
    Elf64_Ehdr h;
    memcpy(&h, bytes, sizeof h);
    assert_int_equal(h.e_type, ET_REL);
    assert_int_equal(h.e_machine, l == TN_LEVEL_AARCH64 ? EM_AARCH64 : EM_X86_64);
    tn_free(bytes);
  }
  tn_arena_deinit(&a);
}

/* No function of any dtype needs a library, at any level. */
static void test_nothing_called(void **state) {
  (void)state;
  for (int t = 0; t < TN_OBJ; t++) {
    for (int l = 0; l < TN_N_LEVELS; l++) {
      for (int lanes = 1; lanes <= 8; lanes += 7) {
        tn_arena a;
        tn_arena_init(&a);
        tn_nest *n;
        assert_int_equal(tn_nest_create(&a, "all", &n), TN_OK);
        tn_nparam p[3] = {{"x", (uint8_t)t, false}, {"y", (uint8_t)t, true}, {"b", TN_BOOL, true}};
        n->param = p;
        n->n_param = 3;
        tn_vt vt = {(uint8_t)t, (uint8_t)lanes};
        tn_nv at = tn_n_i64(n, 0), x = tn_n_load(n, 0, vt, at, 0), y = tn_n_load(n, 0, vt, tn_n_i64(n, 8), 0);
        for (int o = 0; o < TN_N_SCALARS; o++) {
          if (o == TN_S_SELECT || !tn_scalar_accepts((tn_scalar_op)o, (tn_dtype)t)) continue;
          bool hard = !tn_n_is_basic((tn_scalar_op)o) && o % 4 != l; /* the long ones at one level each: time */
          if (!hard) tn_n_store(n, tn_scalar_is_bool((tn_scalar_op)o) ? 2 : 1, tn_n_i64(n, 8 * o), tn_n_scalar(n, (tn_scalar_op)o, x, y, 0), 0);
        }
        for (int o = 0; o < TN_OBJ; o++) tn_n_store(n, 1, at, tn_n_cast(n, tn_n_cast(n, x, (tn_dtype)o), (tn_dtype)t), 0);
        tn_target target = level((tn_level)l);
        tn_diag d;
        tn_diag_clear(&d);
        void *bytes = NULL;
        size_t size = 0;
        if (tn_codegen_object(&d, n, &target, &bytes, &size, NULL) != TN_OK) fail_msg("%s, %s: %s", tn_dtype_name((tn_dtype)t), tn_target_level_name((tn_level)l), d.text);
        tn_free(bytes);
        tn_arena_deinit(&a);
      }
    }
  }
}

static void test_ir_text(void **state) {
  (void)state;
  tn_arena a;
  tn_arena_init(&a);
  tn_nest *n = parse(&a,
                     "nest @nt (x: f32, y: f32 written) sizes 0 { %1 = const i64 0 %2 = load f32x16 p0[%1] store.nt f32x16 p1[%1], %2 %4 = const i64 1 %5 = const i64 8\n"
                     "%6 = for.unroll i64 2 %1, %5, %4 %7 = load f32 p0[%6] store f32 p1[%6], %7 end }");
  tn_target t = level(TN_LEVEL_V4);
  tn_diag d;
  tn_diag_clear(&d);
  tn_str ir;
  tn_str_init(&ir);
  void *bytes = NULL;
  size_t size = 0;
  if (tn_codegen_object(&d, n, &t, &bytes, &size, &ir) != TN_OK) fail_msg("%s", d.text);
  assert_non_null(strstr(ir.s, "define void @nt("));
  assert_non_null(strstr(ir.s, "!nontemporal"));
  assert_non_null(strstr(ir.s, "sfence"));
  assert_non_null(strstr(ir.s, "!noalias"));
  assert_null(strstr(ir.s, "fast"));
  tn_free(bytes);
  n->noalias = false;
  tn_str_deinit(&ir);
  if (tn_codegen_object(&d, n, &t, &bytes, &size, &ir) != TN_OK) fail_msg("%s", d.text);
  assert_null(strstr(ir.s, "!noalias"));
  tn_free(bytes);
  tn_str_deinit(&ir);
  tn_arena_deinit(&a);
}

static void refuse(const char *text, const tn_target *t, tn_status want, const char *says) {
  tn_arena a;
  tn_arena_init(&a);
  tn_nest *n = parse(&a, text);
  tn_diag d;
  tn_diag_clear(&d);
  void *bytes = NULL;
  size_t size = 0;
  tn_status s = tn_codegen_object(&d, n, t, &bytes, &size, NULL);
  if (s != want || !strstr(d.text, says)) fail_msg("status %d, message \"%s\", wants \"%s\"", s, d.text, says);
  assert_null(bytes);
  tn_arena_deinit(&a);
}

static void test_refusals(void **state) {
  (void)state;
  tn_target t = level(TN_LEVEL_V4), unknown = t, no_fma = t;
  strcpy(unknown.triple, "pdp11-unknown-unix");
  refuse(scale, &unknown, TN_E_UNSUPPORTED, "pdp11");
  refuse("nest @t (x: f32) sizes 0 { %1 = const i64 0 %2 = load f32 p0[%1] %3 = exp f32 %2 }", &t, TN_E_INTERNAL, "exp of f32 reached the emitter");
  refuse("nest @t (x: f32) sizes 0 { end }", &t, TN_E_VERIFY, "closes no region");
  /* without FMA the intrinsic becomes a call, which is refused by name */
  strcpy(no_fma.cpu, "x86-64");
  no_fma.features[0] = 0;
  refuse("nest @t (x: f32 written) sizes 0 { %1 = const i64 0 %2 = load f32 p0[%1] %3 = fma f32 %2, %2, %2 store f32 p0[%1], %3 }", &no_fma, TN_E_INTERNAL, "fma");
}

static void *compile_many(void *arg) {
  (void)arg;
  tn_arena a;
  tn_arena_init(&a);
  tn_target t[2] = {level(TN_LEVEL_V3), level(TN_LEVEL_V4)};
  void *failed = NULL;
  tn_nest *n = NULL;
  tn_diag d;
  tn_diag_clear(&d);
  if (tn_nest_parse(&d, &a, scale, strlen(scale), &n) != TN_OK) failed = &failed;
  for (int k = 0; k < 8 && !failed; k++) {
    void *bytes = NULL;
    size_t size = 0;
    if (tn_codegen_object(&d, n, &t[k & 1], &bytes, &size, NULL) != TN_OK) failed = &failed;
    tn_free(bytes);
  }
  tn_arena_deinit(&a);
  return failed ? (void *)1 : NULL;
}

static void test_threads(void **state) {
  (void)state;
  pthread_t thread[4];
  for (int k = 0; k < 4; k++) assert_int_equal(pthread_create(&thread[k], NULL, compile_many, NULL), 0);
  for (int k = 0; k < 4; k++) {
    void *failed;
    assert_int_equal(pthread_join(thread[k], &failed), 0);
    assert_null(failed);
  }
}

static void test_no_memory(void **state) {
  (void)state;
  tn_arena a;
  tn_arena_init(&a);
  tn_nest *n = parse(&a, scale);
  tn_target t = level(TN_LEVEL_V4);
  strcat(t.features, ",+avx512vnni"); /* a machine that is not in the pool yet */
  for (int64_t k = 1;; k++) {
    void *bytes = NULL;
    size_t size = 0;
    tn_malloc_fail_after(k);
    tn_status s = tn_codegen_object(NULL, n, &t, &bytes, &size, NULL);
    tn_malloc_fail_after(0);
    tn_free(bytes);
    if (s == TN_OK) break;
    assert_int_equal(s, TN_E_NOMEM);
    assert_null(bytes);
    assert_true(k < 200);
  }
  tn_arena_deinit(&a);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_symbol), cmocka_unit_test(test_nothing_called), cmocka_unit_test(test_ir_text),
                                     cmocka_unit_test(test_refusals),   cmocka_unit_test(test_threads),        cmocka_unit_test(test_no_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

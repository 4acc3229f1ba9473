/* The object loader: good objects of both kinds run, broken ones fail with words, and thousands of damaged ones never
 * harm us (their code is not run). */
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "device/cpu/elf_int.h"
#include "device/device.h"

typedef struct object { char *p; size_t n; } object;
static object pic, fixed, undefined;

static object read_object(const char *name) {
  char path[4096];
  tn_diag d;
  object o;
  snprintf(path, sizeof path, "%s/%s", TN_OBJECTS_DIR, name);
  if (tn_file_read(&d, path, 1 << 20, &o.p, &o.n) != TN_OK) fail_msg("%s", d.text);
  return o;
}

static int setup(void **state) {
  (void)state;
#if !defined(__x86_64__)
  skip();
#endif
  pic = read_object("kernels.pic.o");
  fixed = read_object("kernels.abs.o");
  undefined = read_object("undefined.pic.o");
  return 0;
}

static int teardown(void **state) {
  (void)state;
  tn_free(pic.p);
  tn_free(fixed.p);
  tn_free(undefined.p);
  return 0;
}

static void check_good(object o) {
  tn_elf e;
  char why[256];
  if (tn_elf_load(o.p, o.n, "k_sections", &e, why, sizeof why) != TN_OK) fail_msg("%s", why);
  assert_string_equal(why, "");
  tn_kernel_fn fn;
  *(void **)&fn = e.entry;
  double out[8];
  void *ptr[1] = {out};
  int64_t size[1] = {3};
  int32_t status = 0;
  tn_kernel_args a = {ptr, size, tn_device_zeros(), &status};
  fn(&a, 0, 2, NULL);
  const double want[8] = {3.5, 5.5, 44, 2, 7, 6.5, 3 ^ 21, 0};
  for (int i = 0; i < 8; i++)
    if (out[i] != want[i]) fail_msg("value %d is %g, wanted %g", i, out[i], want[i]);
  tn_elf_unload(&e);
  assert_null(e.base);

  /* Two copies of an object have their own data. */
  tn_elf x, y;
  assert_int_equal(tn_elf_load(o.p, o.n, "k_sections", &x, why, sizeof why), TN_OK);
  assert_int_equal(tn_elf_load(o.p, o.n, "k_sections", &y, why, sizeof why), TN_OK);
  *(void **)&fn = x.entry;
  fn(&a, 0, 1, NULL);
  *(void **)&fn = y.entry;
  fn(&a, 0, 1, NULL);
  assert_true(out[2] == 42);
  tn_elf_unload(&x);
  tn_elf_unload(&y);
}

static void test_good(void **state) {
  (void)state;
  check_good(pic);
  check_good(fixed);
}

static void expect(const void *p, size_t n, const char *symbol, tn_status st, const char *say) {
  tn_elf e;
  char why[256];
  assert_int_equal(tn_elf_load(p, n, symbol, &e, why, sizeof why), st);
  assert_null(e.base);
  if (!strstr(why, say)) fail_msg("'%s' does not say '%s'", why, say);
  assert_int_equal(tn_elf_load(p, n, symbol, &e, NULL, 0), st); /* without words */
}

/* A copy with one field of the header changed. */
static void expect_header(size_t at, size_t width, uint64_t v, tn_status st, const char *say) {
  char *m = malloc(pic.n);
  memcpy(m, pic.p, pic.n);
  memcpy(m + at, &v, width);
  expect(m, pic.n, "k_add", st, say);
  free(m);
}

static void test_bad(void **state) {
  (void)state;
  expect(undefined.p, undefined.n, "k_undefined", TN_E_UNSUPPORTED, "undefined symbol 'tn_test_missing'");
  expect(pic.p, pic.n, "k_absent", TN_E_PARSE, "no function 'k_absent'");
  expect(pic.p, pic.n, "k_global", TN_E_PARSE, "no function 'k_global'"); /* data is no function */
  expect(pic.p, 0, "k_add", TN_E_PARSE, "too short");
  expect(pic.p, 63, "k_add", TN_E_PARSE, "too short");
  expect("this is text, long enough to hold a header of an object file, is it not?", 64, "k_add", TN_E_PARSE, "ELF mark");
  expect_header(offsetof(Elf64_Ehdr, e_machine), 2, EM_AARCH64, TN_E_UNSUPPORTED, "machine 183");
  expect_header(offsetof(Elf64_Ehdr, e_type), 2, ET_DYN, TN_E_UNSUPPORTED, "type 3");
  expect_header(EI_CLASS, 1, ELFCLASS32, TN_E_UNSUPPORTED, "64-bit");
  expect_header(offsetof(Elf64_Ehdr, e_shoff), 8, UINT64_MAX - 8, TN_E_PARSE, "section table");
  expect_header(offsetof(Elf64_Ehdr, e_shnum), 2, 0, TN_E_PARSE, "section table");
  expect_header(offsetof(Elf64_Ehdr, e_shnum), 2, 5000, TN_E_PARSE, "section table");
}

static uint64_t rng = 88172645463325252u;
static size_t rnd(size_t n) {
  rng ^= rng << 13, rng ^= rng >> 7, rng ^= rng << 17;
  return (size_t)(rng >> 16) % n;
}

/* The object is copied to memory of exactly its size, so that the sanitizer sees any read beyond. */
static int try_load(const char *p, size_t n) {
  char *m = malloc(n ? n : 1), why[128];
  tn_elf e;
  memcpy(m, p, n);
  tn_status st = tn_elf_load(m, n, "k_sections", &e, why, sizeof why);
  if (st == TN_OK) tn_elf_unload(&e);
  else assert_true(why[0] != 0 && e.base == NULL);
  free(m);
  return st == TN_OK;
}

static void test_truncated(void **state) {
  (void)state;
  for (size_t n = 0; n < pic.n; n += n < 128 ? 1 : 7) assert_false(try_load(pic.p, n)); /* the section table is at the end */
}

static void test_damaged(void **state) {
  (void)state;
  int loaded = 0;
  for (int round = 0; round < 2000; round++) {
    object o = round & 1 ? pic : fixed;
    char *m = malloc(o.n);
    memcpy(m, o.p, o.n);
    for (size_t k = rnd(4) + 1; k > 0; k--) {
      Elf64_Ehdr h;
      memcpy(&h, o.p, sizeof h);
      /* Half of the damage goes where structures are. */
      size_t at = rnd(2) ? rnd(o.n) : rnd(4) ? h.e_shoff + rnd(o.n - h.e_shoff) : rnd(sizeof h);
      if (rnd(2)) m[at] ^= (char)(1 << rnd(8));
      else m[at] = (char)rnd(256);
    }
    loaded += try_load(m, o.n);
    free(m);
  }
  print_message("%d of 2000 damaged objects load\n", loaded);
}

static void test_nomem(void **state) {
  (void)state;
  const tn_device_api *cpu = tn_device_find("cpu");
  tn_device *d;
  tn_code *c;
  char why[256];
  assert_int_equal(cpu->open(&d, why, sizeof why), TN_OK);
  for (int n = 1;; n++) {
    tn_malloc_fail_after(n);
    tn_status st = cpu->load(d, pic.p, pic.n, "k_add", &c, why, sizeof why);
    tn_malloc_fail_after(0);
    if (st == TN_OK) break;
    assert_int_equal(st, TN_E_NOMEM);
    assert_null(c);
    assert_true(n < 10);
  }
  cpu->unload(d, c);
  cpu->close(d);
}

/* launch() of the plug-in: all blocks once, on one thread and on several; each worker has its own scratch. */
static void test_launch(void **state) {
  (void)state;
  const tn_device_api *cpu = tn_device_find("cpu");
  tn_device *d;
  tn_code *c;
  char why[256];
  assert_int_equal(cpu->open(&d, why, sizeof why), TN_OK);
  assert_int_equal(cpu->load(d, pic.p, pic.n, "k_scratch", &c, why, sizeof why), TN_OK);
  float *y = cpu->alloc(d, 5000 * sizeof *y);
  assert_int_equal((uintptr_t)y % 64, 0);
  void *ptr[1] = {y};
  int32_t status = 0;
  tn_kernel_args a = {ptr, NULL, tn_device_zeros(), &status};
  for (int threads = 1; threads <= 4; threads++) {
    for (int i = 0; i < 5000; i++) y[i] = -1;
    assert_int_equal(cpu->launch(d, c, &a, 5000, 16, 256, threads), TN_OK);
    for (int i = 0; i < 5000; i++) assert_true(y[i] == 64.0f * (float)i);
  }
  assert_int_equal(cpu->launch(d, c, &a, 0, 16, 256, 2), TN_OK);
  cpu->free(d, y);
  cpu->unload(d, c);
  cpu->close(d);
}

static void test_registry(void **state) {
  (void)state;
  assert_string_equal(tn_device_get(0)->name, "cpu");
  assert_null(tn_device_get(99));
  assert_null(tn_device_find("abacus"));
  const tn_device_api *null = tn_device_find("null");
  tn_device *d;
  tn_code *c;
  char why[64];
  assert_int_equal(null->abi, TN_DEVICE_ABI);
  assert_int_equal(null->open(&d, why, sizeof why), TN_OK);
  assert_int_equal(null->load(d, "anything", 8, "k", &c, why, sizeof why), TN_OK);
  tn_kernel_fn fn;
  *(void **)&fn = null->entry(c);
  fn(NULL, 0, 1, NULL);
  assert_int_equal(null->launch(d, c, NULL, 1, 1, 0, 1), TN_OK);
  null->free(d, null->alloc(d, 100));
  null->unload(d, c);
  null->close(d);
  assert_null(tn_device_pool(1));
  assert_ptr_equal(tn_device_pool(3), tn_device_pool(3));
  assert_true(tn_device_cores() >= 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_good),   cmocka_unit_test(test_bad),    cmocka_unit_test(test_truncated), cmocka_unit_test(test_damaged),
                                     cmocka_unit_test(test_nomem), cmocka_unit_test(test_launch), cmocka_unit_test(test_registry)};
  return cmocka_run_group_tests(tests, setup, teardown);
}

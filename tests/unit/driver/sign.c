/* Signatures: what is signed opens and checks, every flipped bit and every other key is refused, also by tn_model_open; signing again replaces. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include "plan/package.h"
#include "tenon/compile.h"
#include "tenon/model.h"

static char path[64], file[64];
static unsigned char secret[64], public[32], secret2[64], public2[32];

static void write_package(void) {
  static const char text[] = "module \"m\" {\n  in 0 tensor f32 [4], \"x\"\n  out 0 tensor f32 [4], \"y\"\n  func 0 \"main\" (1) -> (1), slots 1 {\n  }\n}\nplan \"p\" {\n  buf 0 const, bytes 8, data x0102030405060708\n}\n";
  tn_diag d;
  tn_module *m;
  if (tn_module_parse(&d, text, sizeof text - 1, &m) != TN_OK) fail_msg("%s", d.text);
  const tn_package_part part = {"x86-64-v3", 0, m};
  if (tn_package_write(&d, path, &part, 1, NULL, 0) != TN_OK) fail_msg("%s", d.text);
  tn_module_destroy(m);
}
static void sign_ok(const unsigned char *key) {
  char why[512];
  if (tn_package_sign(path, key, why, sizeof why) != TN_OK) fail_msg("%s", why);
}
static void expect(tn_status want, const unsigned char *key, const char *say) {
  char why[512];
  tn_status st = tn_package_check(path, key, NULL, why, sizeof why);
  if (st != want || !strstr(why, say)) fail_msg("%s '%s', wanted %s '%s'", tn_status_name(st), why, tn_status_name(want), say);
}

static void test_sign(void **state) {
  (void)state;
  unsigned char signer[32] = {0};
  char why[512];
  tn_model_options o;
  tn_model *m;
  write_package();
  assert_int_equal(chmod(path, 0640), 0);
  expect(TN_E_VERIFY, public, "the package is not signed");
  sign_ok(secret);
  struct stat st;
  assert_int_equal(stat(path, &st), 0);
  assert_int_equal(st.st_mode & 0777, 0640);
  expect(TN_OK, public, "");
  expect(TN_OK, NULL, "");
  expect(TN_E_VERIFY, public2, "signed with another key");
  off_t size = st.st_size;
  sign_ok(secret2); /* again: replaced */
  assert_int_equal(stat(path, &st), 0);
  assert_int_equal(st.st_size, size);
  expect(TN_OK, public2, "");
  assert_int_equal(tn_package_check(path, NULL, signer, why, sizeof why), TN_OK);
  assert_memory_equal(signer, public2, 32);
  tn_model_options_init(&o);
  o.public_key = public2;
  if (tn_model_open(path, &o, &m, why, sizeof why) != TN_OK) fail_msg("%s", why);
  tn_model_release(m);
  o.public_key = public;
  assert_int_equal(tn_model_open(path, &o, &m, why, sizeof why), TN_E_VERIFY);
  assert_non_null(strstr(why, "signed with another key"));
}

/* A forger may put every hash right again, but not the signature. */
static void put64(unsigned char *p, uint64_t v) {
  for (int i = 0; i < 8; i++) p[i] = (unsigned char)(v >> 8 * i);
}
static void mend(unsigned char *p, size_t n) {
  uint32_t sections = p[12];
  for (uint32_t i = 0; i < sections; i++) {
    unsigned char *e = p + TN_PACKAGE_HEADER + (size_t)i * TN_PACKAGE_ENTRY;
    uint64_t at = 0, bytes = 0, h;
    for (int k = 0; k < 8; k++) at |= (uint64_t)e[24 + k] << 8 * k, bytes |= (uint64_t)e[32 + k] << 8 * k;
    if (at <= n && bytes <= n - at && tn_package_hash(p + at, bytes, NULL, &h) == TN_OK) put64(e + 40, h);
  }
  if (sections < 20) put64(p + 24, tn_hash(p + TN_PACKAGE_HEADER, (size_t)sections * TN_PACKAGE_ENTRY, 2));
  put64(p + 56, tn_hash(p, 56, 3));
}
static void test_flipped(void **state) {
  (void)state;
  tn_diag d;
  char *p;
  size_t n;
  write_package();
  sign_ok(secret);
  assert_int_equal(tn_file_read(&d, path, 1 << 20, &p, &n), TN_OK);
  unsigned char *q = malloc(n);
  for (size_t i = 0; i < n; i += i < 512 || i > n - 300 ? 1 : 41) {
    bool derived = (i >= 24 && i < 32) || (i >= 56 && i < 64);
    for (uint32_t k = 0; k < (unsigned char)p[12]; k++) derived |= i >= TN_PACKAGE_HEADER + k * TN_PACKAGE_ENTRY + 40u && i < TN_PACKAGE_HEADER + (k + 1) * TN_PACKAGE_ENTRY;
    for (int mended = 0; mended < 2; mended++) {
      memcpy(q, p, n);
      q[i] ^= 0x10;
      if (mended) mend(q, n);
      assert_int_equal(tn_file_write(&d, path, q, n), TN_OK);
      char why[512];
      tn_status st = tn_package_check(path, public, NULL, why, sizeof why);
      if (mended && derived) assert_int_equal(st, TN_OK); /* mending undid it */
      else if (st == TN_OK) fail_msg("byte %zu makes no difference (mended %d)", i, mended);
    }
  }
  free(q);
  tn_free(p);
}

static void test_keys(void **state) {
  (void)state;
  unsigned char key[64];
  char why[512];
  struct stat st;
  unlink(file);
  assert_int_equal(tn_key_write(file, 1, secret, why, sizeof why), TN_OK);
  assert_int_equal(stat(file, &st), 0);
  assert_int_equal(st.st_mode & 0777, 0600);
  assert_int_equal(tn_key_write(file, 1, secret2, why, sizeof why), TN_E_IO); /* not over an existing one */
  assert_int_equal(tn_key_read(file, 1, key, why, sizeof why), TN_OK);
  assert_memory_equal(key, secret, 64);
  assert_int_equal(tn_key_read(file, 0, key, why, sizeof why), TN_E_PARSE);
  unlink(file);
  assert_int_equal(tn_key_write(file, 0, public, why, sizeof why), TN_OK);
  assert_int_equal(tn_key_read(file, 0, key, why, sizeof why), TN_OK);
  assert_memory_equal(key, public, 32);
  static const char *const bad[] = {"", "tenon-public-key", "tenon-public-key 12", "tenon-public-key zz", "tenon-secret-key 00"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_int_equal(tn_file_write(NULL, file, bad[i], strlen(bad[i])), TN_OK);
    assert_int_equal(tn_key_read(file, 0, key, why, sizeof why), TN_E_PARSE);
  }
  assert_int_equal(tn_key_read("/nonexistent", 0, key, why, sizeof why), TN_E_IO);
}

static int start(void **state) {
  (void)state;
  snprintf(path, sizeof path, "/tmp/tenon_sign_%ld.tnp", (long)getpid());
  snprintf(file, sizeof file, "/tmp/tenon_sign_%ld.key", (long)getpid());
  if (tn_key_make(secret, public) == TN_E_UNSUPPORTED) {
    print_message("no libsodium: nothing is signed\n");
    exit(77);
  }
  return tn_key_make(secret2, public2) == TN_OK ? 0 : -1;
}
static int stop(void **state) {
  (void)state;
  unlink(path);
  unlink(file);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_sign), cmocka_unit_test(test_flipped), cmocka_unit_test(test_keys)};
  return cmocka_run_group_tests(tests, start, stop);
}

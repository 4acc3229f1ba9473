/* sign.c: signatures of packages: Ed25519ph by libsodium over the whole file.
 *
 * What is signed is every byte of the finished file up to the signature's own section, with the three hashes that follow from that section taken as
 * zero: the entry's hash in the table, the hash of the table, the hash of the header. Those vouch against accidents only, and say nothing that
 * the signed bytes do not. The section: 8 bytes "TNSIGN" 1 0, the public key, the signature, 24 zero bytes: 128 in all.
 *
 * Keys are files of one line: a word and hexadecimal digits. A library that is linked with the compiler checks signatures for tn_model_open too. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "driver/driver_int.h"
#include "plan/package.h"
#include "runtime/runtime.h"

#if defined(__has_include)
#if __has_include(<sodium.h>)
#define HAVE_SODIUM 1
#endif
#endif

enum { SECRET = 64, PUBLIC = 32, SIGNATURE = 64, SECTION = 128 };
static const char magic[8] = {'T', 'N', 'S', 'I', 'G', 'N', 1, 0}, secret_word[] = "tenon-secret-key", public_word[] = "tenon-public-key";

static tn_status end(tn_status st, const tn_diag *d, char *error, size_t error_n) {
  if (error_n) snprintf(error, error_n, "%s", st == TN_OK ? "" : d->text);
  return st;
}

tn_status tn_package_whole(const char *path, char *error, size_t error_n) {
  tn_diag d = {0};
  tn_package *k = NULL;
  const tn_package_section *s;
  tn_status st = tn_package_open(&d, path, false, NULL, &k);
  for (uint32_t i = 0; st == TN_OK && (s = tn_package_get(k, i)); i++) {
    tn_module *m;
    if (s->kind != TN_PK_MODULE) continue;
    st = tn_package_module(&d, k, s->level, &m);
    if (st == TN_OK) tn_module_destroy(m);
  }
  tn_package_close(k);
  return end(st, &d, error, error_n);
}

#ifdef HAVE_SODIUM
#include <sodium.h>
_Static_assert(crypto_sign_SECRETKEYBYTES == SECRET && crypto_sign_PUBLICKEYBYTES == PUBLIC && crypto_sign_BYTES == SIGNATURE, "Ed25519");

static tn_status ready(tn_diag *d) { return sodium_init() < 0 ? tn_fail(d, TN_E_INTERNAL, "libsodium does not start") : TN_OK; }

/* The message: `head` with its derived hashes zeroed (in place), then the file behind it up to `end`. */
static void digest(crypto_sign_state *s, unsigned char *head, size_t head_n, const unsigned char *file, uint64_t end) {
  memset(head + 24, 0, 8);
  memset(head + 56, 0, 8);
  memset(head + head_n - 8, 0, 8);
  crypto_sign_init(s);
  crypto_sign_update(s, head, head_n);
  crypto_sign_update(s, file + head_n, end - head_n);
}

static const tn_package_section *signature_of(const tn_package *k) {
  uint32_t n = tn_package_n_sections(k);
  const tn_package_section *s = n ? tn_package_get(k, n - 1) : NULL;
  return s && s->kind == TN_PK_SIGNATURE ? s : NULL;
}

static tn_status check(tn_diag *d, const tn_package *k, const unsigned char *key) {
  size_t n, head_n = TN_PACKAGE_HEADER + (size_t)tn_package_n_sections(k) * TN_PACKAGE_ENTRY;
  const unsigned char *p = tn_package_bytes(k, &n);
  const tn_package_section *s = signature_of(k);
  static const char zeros[SECTION - 8 - PUBLIC - SIGNATURE];
  TN_TRY(ready(d));
  if (!s || !s->bytes) return tn_fail(d, TN_E_VERIFY, "the package is not signed");
  if (s->bytes != SECTION || memcmp(s->p, magic, 8) != 0 || memcmp((const char *)s->p + 8 + PUBLIC + SIGNATURE, zeros, sizeof zeros) != 0)
    return tn_fail(d, TN_E_VERIFY, "the signature is of a form that this version does not know");
  if (key && memcmp((const char *)s->p + 8, key, PUBLIC) != 0) return tn_fail(d, TN_E_VERIFY, "the package is signed with another key");
  unsigned char *head = tn_malloc(head_n);
  if (!head) return tn_fail(d, TN_E_NOMEM, "head of a package");
  memcpy(head, p, head_n);
  crypto_sign_state state;
  digest(&state, head, head_n, p, s->offset);
  tn_free(head);
  if (crypto_sign_final_verify(&state, (const unsigned char *)s->p + 8 + PUBLIC, key ? key : (const unsigned char *)s->p + 8) != 0) return tn_fail(d, TN_E_VERIFY, "the signature is wrong");
  return TN_OK;
}

static tn_status check_key(tn_diag *d, const tn_package *k, const unsigned char public_key[32]) { return check(d, k, public_key); }
__attribute__((constructor)) static void introduce(void) { tn_model_set_checker(check_key); }

static tn_status put(tn_diag *d, int fd, const char *path, const void *p, uint64_t n) {
  for (const char *c = p; n;) {
    ssize_t w = write(fd, c, n < 1 << 30 ? (size_t)n : 1 << 30);
    if (w < 0 && errno == EINTR) continue;
    if (w <= 0) return tn_fail(d, TN_E_IO, "cannot write %s: %s", path, strerror(errno));
    c += w;
    n -= (uint64_t)w;
  }
  return TN_OK;
}

/* The new file beside the old one, then renamed over it. */
static tn_status replace(tn_diag *d, const char *path, const void *head, size_t head_n, const unsigned char *old, uint64_t body_end, uint64_t pad, const void *section) {
  static const char zeros[64];
  struct stat mode;
  char tmp[4096];
  if (snprintf(tmp, sizeof tmp, "%s.%ld.tmp", path, (long)getpid()) >= (int)sizeof tmp) return tn_fail(d, TN_E_ARG, "the path is too long");
  int fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return tn_fail(d, TN_E_IO, "cannot create %s: %s", tmp, strerror(errno));
  tn_status st = put(d, fd, tmp, head, head_n);
  if (st == TN_OK) st = put(d, fd, tmp, old + head_n, body_end - head_n);
  if (st == TN_OK) st = put(d, fd, tmp, zeros, pad);
  if (st == TN_OK) st = put(d, fd, tmp, section, SECTION);
  if (st == TN_OK && stat(path, &mode) == 0 && fchmod(fd, mode.st_mode & 0777) != 0) st = tn_fail(d, TN_E_IO, "cannot set the mode of %s: %s", tmp, strerror(errno));
  if (close(fd) != 0 && st == TN_OK) st = tn_fail(d, TN_E_IO, "cannot close %s: %s", tmp, strerror(errno));
  if (st == TN_OK && rename(tmp, path) != 0) st = tn_fail(d, TN_E_IO, "cannot rename %s to %s: %s", tmp, path, strerror(errno));
  if (st != TN_OK) unlink(tmp);
  return st;
}

static tn_status sign(tn_diag *d, const char *path, const tn_package *k, const unsigned char *secret, tn_package_section *s) {
  uint32_t n = tn_package_n_sections(k);
  size_t file_n, head_n;
  const unsigned char *file = tn_package_bytes(k, &file_n);
  unsigned char section[SECTION] = {0};
  if (!signature_of(k) || n < 2) return tn_fail(d, TN_E_UNSUPPORTED, "the package has no room for a signature");
  for (uint32_t i = 0; i < n; i++) s[i] = *tn_package_get(k, i);
  uint64_t body = s[n - 2].offset + s[n - 2].bytes, at = (body + 63) & ~(uint64_t)63;
  s[n - 1].offset = at;
  s[n - 1].bytes = SECTION;
  unsigned char *head = tn_package_head(s, n, at + SECTION, &head_n);
  if (!head) return tn_fail(d, TN_E_NOMEM, "head of a package");
  static const unsigned char zeros[64];
  crypto_sign_state state;
  digest(&state, head, head_n, file, body);
  crypto_sign_update(&state, zeros, at - body);
  tn_free(head);
  memcpy(section, magic, 8);
  crypto_sign_ed25519_sk_to_pk(section + 8, secret);
  if (crypto_sign_final_create(&state, section + 8 + PUBLIC, NULL, secret) != 0) return tn_fail(d, TN_E_INTERNAL, "libsodium does not sign");
  TN_TRY(tn_package_hash(section, SECTION, NULL, &s[n - 1].hash));
  head = tn_package_head(s, n, at + SECTION, &head_n);
  if (!head) return tn_fail(d, TN_E_NOMEM, "head of a package");
  tn_status st = replace(d, path, head, head_n, file, body, at - body, section);
  tn_free(head);
  return st;
}

tn_status tn_package_sign(const char *path, const unsigned char secret_key[64], char *error, size_t error_n) {
  tn_diag d = {0};
  tn_package *k = NULL;
  tn_status st = ready(&d);
  if (st == TN_OK) st = tn_package_open(&d, path, false, NULL, &k);
  tn_package_section *s = st == TN_OK ? tn_calloc((size_t)tn_package_n_sections(k) + 1, sizeof *s) : NULL;
  if (st == TN_OK) st = s ? sign(&d, path, k, secret_key, s) : tn_fail(&d, TN_E_NOMEM, "table of a package");
  if (st != TN_OK) tn_diag_while(&d, st, "signing %s", path);
  tn_free(s);
  tn_package_close(k);
  return end(st, &d, error, error_n);
}

tn_status tn_package_check(const char *path, const unsigned char *public_key, unsigned char signer[32], char *error, size_t error_n) {
  tn_diag d = {0};
  tn_package *k = NULL;
  tn_status st = tn_package_open(&d, path, false, NULL, &k);
  if (st == TN_OK) st = check(&d, k, public_key);
  if (st == TN_OK && signer) memcpy(signer, (const char *)signature_of(k)->p + 8, PUBLIC);
  if (st != TN_OK) tn_diag_while(&d, st, "checking the signature of %s", path);
  tn_package_close(k);
  return end(st, &d, error, error_n);
}

tn_status tn_key_make(unsigned char secret_key[64], unsigned char public_key[32]) {
  tn_diag d;
  TN_TRY(ready(&d));
  return crypto_sign_keypair(public_key, secret_key) == 0 ? TN_OK : TN_E_INTERNAL;
}

#else

static tn_status without(char *error, size_t error_n) {
  tn_diag d;
  return end(tn_fail(&d, TN_E_UNSUPPORTED, "this build of Tenon has no libsodium, so it neither makes nor checks signatures"), &d, error, error_n);
}
tn_status tn_package_sign(const char *path, const unsigned char secret_key[64], char *error, size_t error_n) {
  (void)path, (void)secret_key;
  return without(error, error_n);
}
tn_status tn_package_check(const char *path, const unsigned char *public_key, unsigned char signer[32], char *error, size_t error_n) {
  (void)path, (void)public_key, (void)signer;
  return without(error, error_n);
}
tn_status tn_key_make(unsigned char secret_key[64], unsigned char public_key[32]) {
  (void)secret_key, (void)public_key;
  return TN_E_UNSUPPORTED;
}
#endif

void tn_sign_introduce(void) {} /* who calls it has this file linked, and so its constructor */

/* ---- key files ---- */

static int digit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

tn_status tn_key_read(const char *path, int secret, unsigned char *key, char *error, size_t error_n) {
  tn_diag d = {0};
  char *text = NULL;
  size_t n, want = secret ? SECRET : PUBLIC;
  const char *word = secret ? secret_word : public_word;
  tn_status st = tn_file_read(&d, path, 4096, &text, &n);
  if (st == TN_OK) {
    const char *s = text;
    bool fine = strncmp(s, word, strlen(word)) == 0 && s[strlen(word)] == ' ';
    if (fine) s += strlen(word) + 1;
    for (size_t i = 0; fine && i < want; i++, s += 2) {
      fine = digit(s[0]) >= 0 && digit(s[1]) >= 0;
      if (fine) key[i] = (unsigned char)(digit(s[0]) << 4 | digit(s[1]));
    }
    if (!fine || (*s && *s != '\n')) st = tn_fail(&d, TN_E_PARSE, "%s is not a key file of Tenon: wanted '%s' and %zu hexadecimal digits", path, word, 2 * want);
    memset(text, 0, n);
    tn_free(text);
  }
  return end(st, &d, error, error_n);
}

tn_status tn_key_write(const char *path, int secret, const unsigned char *key, char *error, size_t error_n) {
  tn_diag d = {0};
  char text[256];
  size_t n = secret ? SECRET : PUBLIC;
  int at = snprintf(text, sizeof text, "%s ", secret ? secret_word : public_word);
  for (size_t i = 0; i < n; i++) at += snprintf(text + at, sizeof text - (size_t)at, "%02x", key[i]);
  text[at++] = '\n';
  /* never over an existing key; a secret is for its owner alone */
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, secret ? 0600 : 0644);
  tn_status st = fd < 0 ? tn_fail(&d, TN_E_IO, "cannot create %s: %s", path, strerror(errno)) : TN_OK;
  if (st == TN_OK && write(fd, text, (size_t)at) != at) st = tn_fail(&d, TN_E_IO, "cannot write %s: %s", path, strerror(errno));
  if (fd >= 0 && close(fd) != 0 && st == TN_OK) st = tn_fail(&d, TN_E_IO, "cannot close %s: %s", path, strerror(errno));
  memset(text, 0, sizeof text);
  return end(st, &d, error, error_n);
}

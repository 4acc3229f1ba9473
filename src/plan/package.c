/* Packages from files: mapped, checked, handed out in sections. Order of trust: the header vouches for the table, the table for each section;
 * what lies between sections must be zero, and the file must end where the last one does. So one changed byte anywhere is found, except in
 * weights that the caller chose not to look at. Hashes are no defence against whoever can write them anew: every number is checked as if
 * they were not there. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "plan/package.h"

enum { MOST_SECTIONS = 1024 };

struct tn_package {
  const unsigned char *p;
  size_t n;
  void *map;                   /* to be unmapped */
  void *copy;                  /* to be freed */
  tn_package_section *s;
  uint32_t n_section;
};

static uint64_t get64(const unsigned char *p) {
  uint64_t v = 0;
  for (int i = 0; i < 8; i++) v |= (uint64_t)p[i] << 8 * i;
  return v;
}
static uint32_t get32(const unsigned char *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24; }

static tn_status zeros(tn_diag *d, const tn_package *k, uint64_t from, uint64_t to) {
  for (uint64_t i = from; i < to; i++)
    if (k->p[i]) return tn_fail(d, TN_E_PARSE, "byte %" PRIu64 " between sections is not zero", i);
  return TN_OK;
}

static tn_status header(tn_diag *d, tn_package *k) {
  const unsigned char *p = k->p;
  if (k->n < TN_PACKAGE_HEADER || memcmp(p, "\x89TNP\r\n\x1a\n", 8) != 0) return tn_fail(d, TN_E_PARSE, "not a package: %zu bytes, or another signature", k->n);
  if (get64(p + 56) != tn_hash(p, 56, 3)) return tn_fail(d, TN_E_PARSE, "the header is damaged");
  if (get32(p + 8) != TN_PACKAGE_VERSION) return tn_fail(d, TN_E_UNSUPPORTED, "package version %u, this run time reads version %d", get32(p + 8), TN_PACKAGE_VERSION);
  if (get64(p + 16) != k->n) return tn_fail(d, TN_E_PARSE, "the package should have %" PRIu64 " bytes, found %zu: truncated?", get64(p + 16), k->n);
  k->n_section = get32(p + 12);
  if (k->n_section > MOST_SECTIONS || k->n < TN_PACKAGE_HEADER + (uint64_t)k->n_section * TN_PACKAGE_ENTRY) return tn_fail(d, TN_E_PARSE, "a table of %u sections in %zu bytes", k->n_section, k->n);
  if (get64(p + 32) || get64(p + 40) || get64(p + 48)) return tn_fail(d, TN_E_PARSE, "reserved bytes of the header are not zero");
  if (get64(p + 24) != tn_hash(p + TN_PACKAGE_HEADER, (size_t)k->n_section * TN_PACKAGE_ENTRY, 2)) return tn_fail(d, TN_E_PARSE, "the section table is damaged");
  return TN_OK;
}

static tn_status section(tn_diag *d, tn_package *k, uint32_t i, uint64_t *end) {
  const unsigned char *e = k->p + TN_PACKAGE_HEADER + (size_t)i * TN_PACKAGE_ENTRY;
  tn_package_section *s = &k->s[i];
  uint32_t kind = get32(e);
  if (kind < TN_PK_MODULE || kind > TN_PK_SIGNATURE) return tn_fail(d, TN_E_PARSE, "section %u has kind %u", i, kind);
  memcpy(s->level, e + 8, TN_PACKAGE_LEVEL);
  if (s->level[TN_PACKAGE_LEVEL - 1]) return tn_fail(d, TN_E_PARSE, "section %u: the level's name has no end", i);
  s->kind = (tn_package_kind)kind;
  s->flags = get32(e + 4);
  s->offset = get64(e + 24);
  s->bytes = get64(e + 32);
  s->hash = get64(e + 40);
  if (s->offset < *end || s->offset > k->n || s->bytes > k->n - s->offset) return tn_fail(d, TN_E_PARSE, "section %u lies at %" PRIu64 "..+%" PRIu64 " of %zu bytes", i, s->offset, s->bytes, k->n);
  if (s->offset % tn_package_align(s->kind)) return tn_fail(d, TN_E_PARSE, "section %u starts at %" PRIu64 ", which is not aligned", i, s->offset);
  if (s->kind == TN_PK_SIGNATURE && i != k->n_section - 1) return tn_fail(d, TN_E_PARSE, "the signature is section %u of %u", i, k->n_section);
  TN_TRY(zeros(d, k, *end, s->offset));
  s->p = k->p + s->offset;
  *end = s->offset + s->bytes;
  return TN_OK;
}

static tn_status sections(tn_diag *d, tn_package *k, bool no_verify, tn_pool *pool) {
  uint64_t end = TN_PACKAGE_HEADER + (uint64_t)k->n_section * TN_PACKAGE_ENTRY, h;
  k->s = tn_calloc((size_t)k->n_section + 1, sizeof *k->s);
  if (!k->s) return tn_fail(d, TN_E_NOMEM, "table of %u sections", k->n_section);
  for (uint32_t i = 0; i < k->n_section; i++) TN_TRY(section(d, k, i, &end));
  if (end != k->n) return tn_fail(d, TN_E_PARSE, "there are %" PRIu64 " bytes behind the last section", k->n - end);
  for (uint32_t i = 0; i < k->n_section; i++) {
    const tn_package_section *s = &k->s[i];
    if (no_verify && s->kind == TN_PK_WEIGHTS) continue;
    if (tn_package_hash(s->p, (size_t)s->bytes, pool, &h) != TN_OK) return tn_fail(d, TN_E_NOMEM, "hash of %" PRIu64 " bytes", s->bytes);
    if (h != s->hash) return tn_fail(d, TN_E_PARSE, "section %u (kind %u%s%s) is damaged", i, (unsigned)s->kind, *s->level ? ", " : "", s->level);
  }
  return TN_OK;
}

static tn_status check(tn_diag *d, tn_package *k, bool no_verify, tn_pool *pool, tn_package **out) {
  tn_status st = header(d, k);
  if (st == TN_OK) st = sections(d, k, no_verify, pool);
  if (st == TN_OK) *out = k;
  else tn_package_close(k);
  return st;
}

tn_status tn_package_open(tn_diag *d, const char *path, bool no_verify, tn_pool *pool, tn_package **out) {
  struct stat st;
  *out = NULL;
  tn_package *k = tn_calloc(1, sizeof *k);
  if (!k) return tn_fail(d, TN_E_NOMEM, "package %s", path);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  tn_status e = fd < 0 || fstat(fd, &st) != 0 ? tn_fail(d, TN_E_IO, "cannot open %s: %s", path, strerror(errno)) : TN_OK;
  if (e == TN_OK && !S_ISREG(st.st_mode)) e = tn_fail(d, TN_E_IO, "cannot map %s: not a file", path);
  if (e == TN_OK && st.st_size < TN_PACKAGE_HEADER) e = tn_fail(d, TN_E_PARSE, "not a package: %lld bytes", (long long)st.st_size);
  if (e == TN_OK) {
    void *m = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (m == MAP_FAILED) e = tn_fail(d, TN_E_IO, "cannot map %s: %s", path, strerror(errno));
    else k->p = k->map = m, k->n = (size_t)st.st_size;
  }
  if (fd >= 0) close(fd);
  if (e == TN_OK) e = check(d, k, no_verify, pool, out);
  else tn_package_close(k);
  return e == TN_OK ? e : tn_diag_while(d, e, "reading package %s", path);
}

tn_status tn_package_open_memory(tn_diag *d, const void *p, size_t n, bool no_verify, tn_pool *pool, tn_package **out) {
  *out = NULL;
  tn_package *k = tn_calloc(1, sizeof *k);
  if (!k) return tn_fail(d, TN_E_NOMEM, "package");
  k->p = p;
  k->n = n;
  if ((uintptr_t)p & 63) {
    k->p = k->copy = tn_aligned_alloc(64, n);
    if (!k->p) {
      tn_package_close(k);
      return tn_fail(d, TN_E_NOMEM, "aligned copy of a package of %zu bytes", n);
    }
    memcpy(k->copy, p, n);
  }
  return check(d, k, no_verify, pool, out);
}

void tn_package_close(tn_package *k) {
  if (!k) return;
  if (k->map) munmap(k->map, k->n);
  tn_free_aligned(k->copy);
  tn_free(k->s);
  tn_free(k);
}

uint32_t tn_package_n_sections(const tn_package *k) { return k->n_section; }
const tn_package_section *tn_package_get(const tn_package *k, uint32_t i) { return i < k->n_section ? &k->s[i] : NULL; }
const void *tn_package_bytes(const tn_package *k, size_t *n) {
  *n = k->n;
  return k->p;
}

const tn_package_section *tn_package_find(const tn_package *k, tn_package_kind kind, const char *level) {
  for (uint32_t i = 0; i < k->n_section; i++)
    if (k->s[i].kind == kind && strcmp(k->s[i].level, level) == 0) return &k->s[i];
  return NULL;
}

/* ---- modules ---- */

typedef struct source { const tn_package_section *weights, *objects; } source;

static tn_status get_weight(void *ctx, tn_diag *d, const void **data, int64_t bytes, uint64_t *at) {
  const tn_package_section *s = ((source *)ctx)->weights;
  if (!s || *at > s->bytes || (uint64_t)bytes > s->bytes - *at || *at % 64)
    return tn_fail(d, TN_E_PARSE, "a constant lies at %" PRIu64 "..+%" PRId64 " of %" PRIu64 " bytes of weights", *at, bytes, s ? s->bytes : 0);
  *data = (const unsigned char *)s->p + *at;
  return TN_OK;
}
static tn_status get_object(void *ctx, tn_diag *d, const void **data, size_t *n, uint64_t *at) {
  const tn_package_section *s = ((source *)ctx)->objects;
  if (!s || *at > s->bytes || *n > s->bytes - *at) return tn_fail(d, TN_E_PARSE, "an object lies at %" PRIu64 "..+%zu of %" PRIu64 " bytes", *at, *n, s ? s->bytes : 0);
  *data = (const unsigned char *)s->p + *at;
  return TN_OK;
}

tn_status tn_package_module(tn_diag *d, const tn_package *k, const char *level, tn_module **out) {
  *out = NULL;
  const tn_package_section *code = tn_package_find(k, TN_PK_MODULE, level);
  if (!code) return tn_fail(d, TN_E_UNSUPPORTED, "the package has no level %s", level);
  source s = {tn_package_find(k, TN_PK_WEIGHTS, ""), tn_package_find(k, TN_PK_OBJECTS, level)};
  const tn_package_io io = {&s, get_weight, get_object};
  TN_TRY_WHILE(d, tn_package_decode(d, code->p, (size_t)code->bytes, &io, out), "reading level %s of a package", level);
  tn_status st = tn_module_verify(d, *out);
  if (st == TN_OK) return st;
  tn_module_destroy(*out);
  *out = NULL;
  return tn_diag_while(d, st, "reading level %s of a package", level);
}

/* Packages as files: modules become bytes, equal constants and objects become one, and sections stream out in order while their hashes are taken;
 * header and table, which need those, are written last into the room left for them. Nothing as big as the weights is held twice. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "plan/package.h"

/* ---- hashes and the head ---- */

typedef struct pieces { const unsigned char *p; size_t n; uint64_t *hash; } pieces;

static void hash_pieces(void *ctx, int64_t lo, int64_t hi, int worker) {
  const pieces *q = ctx;
  (void)worker;
  for (int64_t i = lo; i < hi; i++) {
    size_t at = (size_t)i * TN_PACKAGE_PIECE, n = q->n - at;
    q->hash[i] = tn_hash(q->p + at, n < TN_PACKAGE_PIECE ? n : TN_PACKAGE_PIECE, 0);
  }
}

static void put64(unsigned char *to, uint64_t v) {
  for (int i = 0; i < 8; i++) to[i] = (unsigned char)(v >> 8 * i);
}
static void put32(unsigned char *to, uint32_t v) {
  for (int i = 0; i < 4; i++) to[i] = (unsigned char)(v >> 8 * i);
}

/* Hash over hashes, as bytes of the file's order. */
static uint64_t hash_of_hashes(uint64_t *h, size_t n) {
  for (size_t i = 0; i < n; i++) put64((unsigned char *)&h[i], h[i]);
  return tn_hash(h, n * sizeof *h, 1);
}

tn_status tn_package_hash(const void *p, size_t n, tn_pool *pool, uint64_t *out) {
  size_t count = n / TN_PACKAGE_PIECE + (n % TN_PACKAGE_PIECE != 0);
  pieces q = {p, n, tn_malloc(count * sizeof *q.hash)};
  if (!q.hash) return TN_E_NOMEM;
  tn_pool_run(count > 1 ? pool : NULL, hash_pieces, &q, (int64_t)count, 4);
  *out = hash_of_hashes(q.hash, count);
  tn_free(q.hash);
  return TN_OK;
}

void *tn_package_head(const tn_package_section *s, uint32_t n, uint64_t file_bytes, size_t *out_n) {
  size_t table = (size_t)n * TN_PACKAGE_ENTRY;
  unsigned char *h = tn_calloc(1, TN_PACKAGE_HEADER + table);
  if (!h) return NULL;
  for (uint32_t i = 0; i < n; i++) {
    unsigned char *e = h + TN_PACKAGE_HEADER + (size_t)i * TN_PACKAGE_ENTRY;
    put32(e, s[i].kind);
    put32(e + 4, s[i].flags);
    memcpy(e + 8, s[i].level, TN_PACKAGE_LEVEL);
    put64(e + 24, s[i].offset);
    put64(e + 32, s[i].bytes);
    put64(e + 40, s[i].hash);
  }
  memcpy(h, "\x89TNP\r\n\x1a\n", 8);
  put32(h + 8, TN_PACKAGE_VERSION);
  put32(h + 12, n);
  put64(h + 16, file_bytes);
  put64(h + 24, tn_hash(h + TN_PACKAGE_HEADER, table, 2));
  put64(h + 56, tn_hash(h, 56, 3));
  *out_n = TN_PACKAGE_HEADER + table;
  return h;
}

/* ---- constants and objects, each content once ---- */

typedef struct blob { const void *p; size_t n; uint64_t hash, offset; } blob;
typedef struct blobs { blob *v; uint32_t n, cap; uint64_t bytes, align; tn_map by_hash, by_address; } blobs;

static void blobs_init(blobs *b, uint64_t align) {
  *b = (blobs){.align = align};
  tn_map_init(&b->by_hash);
  tn_map_init(&b->by_address);
}
static void blobs_deinit(blobs *b) {
  tn_map_deinit(&b->by_hash);
  tn_map_deinit(&b->by_address);
  tn_free(b->v);
}

static tn_status add(blobs *b, tn_diag *d, const void *p, size_t n, uint64_t *offset) {
  uint32_t i;
  if (tn_map_get_u64(&b->by_address, (uintptr_t)p, &i) && b->v[i].n == n) {
    *offset = b->v[i].offset;
    return TN_OK;
  }
  uint64_t h = tn_hash(p, n, 0);
  if (!tn_map_get_u64(&b->by_hash, h, &i) || b->v[i].n != n || memcmp(b->v[i].p, p, n) != 0) {
    if (b->n == b->cap) {
      uint32_t cap = b->cap ? 2 * b->cap : 64;
      blob *v = tn_realloc(b->v, cap * sizeof *v);
      if (!v) return tn_fail(d, TN_E_NOMEM, "table of %u constants", cap);
      b->v = v;
      b->cap = cap;
    }
    i = b->n++;
    b->v[i] = (blob){p, n, h, b->bytes};
    b->bytes += (n + b->align - 1) / b->align * b->align;
    if (!tn_map_put_u64(&b->by_hash, h, i)) return tn_fail(d, TN_E_NOMEM, "table of constants");
  }
  if (!tn_map_put_u64(&b->by_address, (uintptr_t)p, i)) return tn_fail(d, TN_E_NOMEM, "table of constants");
  *offset = b->v[i].offset;
  return TN_OK;
}

typedef struct sink { blobs *weights, objects; } sink;
static tn_status put_weight(void *ctx, tn_diag *d, const void **p, int64_t n, uint64_t *at) { return add(((sink *)ctx)->weights, d, *p, (size_t)n, at); }
static tn_status put_object(void *ctx, tn_diag *d, const void **p, size_t *n, uint64_t *at) { return add(&((sink *)ctx)->objects, d, *p, *n, at); }

/* ---- the file ---- */

typedef struct file { tn_diag *d; const char *path; int fd; uint64_t at; unsigned char *piece; size_t held; uint64_t *hash; size_t n_hash, cap_hash; } file;

static tn_status write_all(file *f, const void *p, size_t n) {
  for (const char *c = p; n;) {
    ssize_t put = write(f->fd, c, n);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return tn_fail(f->d, TN_E_IO, "cannot write %s: %s", f->path, strerror(errno));
    c += put;
    n -= (size_t)put;
    f->at += (uint64_t)put;
  }
  return TN_OK;
}
/* Writes the piece that is held and notes its hash. */
static tn_status flush(file *f) {
  if (!f->held) return TN_OK;
  if (f->n_hash == f->cap_hash) {
    size_t cap = f->cap_hash ? 2 * f->cap_hash : 64;
    uint64_t *h = tn_realloc(f->hash, cap * sizeof *h);
    if (!h) return tn_fail(f->d, TN_E_NOMEM, "hashes of %s", f->path);
    f->hash = h;
    f->cap_hash = cap;
  }
  f->hash[f->n_hash++] = tn_hash(f->piece, f->held, 0);
  size_t n = f->held;
  f->held = 0;
  return write_all(f, f->piece, n);
}
/* p NULL: zeros. */
static tn_status section_bytes(file *f, const void *p, size_t n) {
  for (const unsigned char *c = p; n;) {
    size_t k = TN_PACKAGE_PIECE - f->held < n ? TN_PACKAGE_PIECE - f->held : n;
    if (c) memcpy(f->piece + f->held, c, k);
    else memset(f->piece + f->held, 0, k);
    f->held += k;
    n -= k;
    if (c) c += k;
    if (f->held == TN_PACKAGE_PIECE) TN_TRY(flush(f));
  }
  return TN_OK;
}
static tn_status pad(file *f, uint64_t align) {
  static const char zeros[4096];
  return write_all(f, zeros, (size_t)(-f->at & (align - 1)));
}
static tn_status section_start(file *f, tn_package_section *s, tn_package_kind kind, const char *level) {
  *s = (tn_package_section){.kind = kind};
  if (strlen(level) >= TN_PACKAGE_LEVEL) return tn_fail(f->d, TN_E_ARG, "the level name '%s' is too long", level);
  strcpy(s->level, level);
  TN_TRY(pad(f, tn_package_align(kind)));
  s->offset = f->at;
  f->n_hash = 0;
  return TN_OK;
}
static tn_status section_end(file *f, tn_package_section *s) {
  TN_TRY(flush(f));
  s->bytes = f->at - s->offset;
  s->hash = hash_of_hashes(f->hash, f->n_hash);
  return TN_OK;
}
static tn_status section(file *f, tn_package_section *s, tn_package_kind kind, const char *level, const void *p, size_t n) {
  TN_TRY(section_start(f, s, kind, level));
  TN_TRY(section_bytes(f, p, n));
  return section_end(f, s);
}
static tn_status section_of_blobs(file *f, tn_package_section *s, tn_package_kind kind, const char *level, const blobs *b) {
  TN_TRY(section_start(f, s, kind, level));
  for (uint32_t i = 0; i < b->n; i++) {
    TN_TRY(section_bytes(f, b->v[i].p, b->v[i].n));
    TN_TRY(section_bytes(f, NULL, (size_t)((b->align - b->v[i].n % b->align) % b->align)));
  }
  return section_end(f, s);
}

/* ---- all of it ---- */

static tn_status levels(file *f, tn_package_section *s, uint32_t *n, const tn_package_part *part, uint32_t n_part, blobs *weights) {
  for (uint32_t i = 0; i < n_part; i++) {
    sink k = {.weights = weights};
    tn_str code;
    tn_str_init(&code);
    blobs_init(&k.objects, 64);
    const tn_package_io io = {&k, put_weight, put_object};
    tn_status st = tn_module_verify(f->d, part[i].module);
    if (st == TN_OK) st = tn_package_encode(f->d, part[i].module, &io, &code);
    if (st == TN_OK) st = section(f, &s[*n], TN_PK_MODULE, part[i].level, code.s, code.n);
    if (st == TN_OK) st = section_of_blobs(f, &s[*n + 1], TN_PK_OBJECTS, part[i].level, &k.objects);
    s[*n].flags = s[*n + 1].flags = part[i].flags;
    *n += 2;
    blobs_deinit(&k.objects);
    tn_str_deinit(&code);
    if (st != TN_OK) return tn_diag_while(f->d, st, "writing level %s", part[i].level);
  }
  return TN_OK;
}

static tn_status write_file(file *f, tn_package_section *s, const tn_package_part *part, uint32_t n_part, const tn_package_extra *extra, uint32_t n_extra) {
  uint32_t n = 0, n_all = 2 * n_part + n_extra + 2;
  blobs weights;
  blobs_init(&weights, 64);
  tn_status st = section_bytes(f, NULL, TN_PACKAGE_HEADER + (size_t)n_all * TN_PACKAGE_ENTRY); /* the room of the head */
  if (st == TN_OK) st = flush(f);
  if (st == TN_OK) st = levels(f, s, &n, part, n_part, &weights);
  for (uint32_t i = 0; st == TN_OK && i < n_extra; i++) st = section(f, &s[n++], extra[i].kind, extra[i].level ? extra[i].level : "", extra[i].p, extra[i].n);
  if (st == TN_OK) st = section_of_blobs(f, &s[n++], TN_PK_WEIGHTS, "", &weights);
  if (st == TN_OK) st = section(f, &s[n++], TN_PK_SIGNATURE, "", NULL, 0);
  blobs_deinit(&weights);
  if (st != TN_OK) return st;
  size_t head_n;
  void *head = tn_package_head(s, n, f->at, &head_n);
  if (!head) return tn_fail(f->d, TN_E_NOMEM, "head of %s", f->path);
  if (lseek(f->fd, 0, SEEK_SET) != 0) st = tn_fail(f->d, TN_E_IO, "cannot write %s: %s", f->path, strerror(errno));
  if (st == TN_OK) st = write_all(f, head, head_n);
  tn_free(head);
  return st;
}

tn_status tn_package_write(tn_diag *d, const char *path, const tn_package_part *part, uint32_t n_part, const tn_package_extra *extra, uint32_t n_extra) {
  static atomic_uint serial;
  if (n_part > 64 || n_extra > 256) return tn_fail(d, TN_E_ARG, "a package of %u levels and %u more sections", n_part, n_extra);
  tn_package_section *s = tn_calloc(2 * (size_t)n_part + n_extra + 2, sizeof *s);
  size_t tmp_n = strlen(path) + 48;
  char *tmp = tn_malloc(tmp_n);
  file f = {.d = d, .path = path, .fd = -1, .piece = tn_malloc(TN_PACKAGE_PIECE)};
  tn_status st = s && tmp && f.piece ? TN_OK : tn_fail(d, TN_E_NOMEM, "writing %s", path);
  if (st == TN_OK) {
    snprintf(tmp, tmp_n, "%s.%ld.%u.tmp", path, (long)getpid(), atomic_fetch_add(&serial, 1));
    f.fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (f.fd < 0) st = tn_fail(d, TN_E_IO, "cannot create %s: %s", tmp, strerror(errno));
  }
  bool made = f.fd >= 0;
  if (st == TN_OK) st = write_file(&f, s, part, n_part, extra, n_extra);
  if (made && close(f.fd) != 0 && st == TN_OK) st = tn_fail(d, TN_E_IO, "cannot close %s: %s", tmp, strerror(errno));
  if (st == TN_OK && rename(tmp, path) != 0) st = tn_fail(d, TN_E_IO, "cannot rename %s to %s: %s", tmp, path, strerror(errno));
  if (st != TN_OK && made) unlink(tmp);
  tn_free(f.piece);
  tn_free(f.hash);
  tn_free(tmp);
  tn_free(s);
  return st;
}

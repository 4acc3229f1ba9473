/* npz: a zip archive of .npy arrays. Members are stored or deflated; ZIP64 sizes are read. What is inflated is bounded by what deflate can make of the bytes that
 * are there. Written archives store their members. */
#include "npz.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static uint64_t le(const unsigned char *p, int n) {
  uint64_t v = 0;
  while (n-- > 0) v = v << 8 | p[n];
  return v;
}

/* ---- reading ---- */

typedef struct member { const char *name; size_t name_n; uint64_t packed, bytes, at; uint32_t crc; int method; } member;

/* Sizes that do not fit 32 bits stand in an extra field, those that are needed, in order. */
static int zip64(const unsigned char *x, size_t n, member *m) {
  while (n >= 4) {
    size_t len = (size_t)le(x + 2, 2);
    if (len > n - 4) return 0;
    if (le(x, 2) == 1) {
      const unsigned char *p = x + 4, *e = p + len;
      uint64_t *want[3] = {&m->bytes, &m->packed, &m->at};
      for (int i = 0; i < 3; i++) {
        if (*want[i] != 0xffffffffu) continue;
        if (e - p < 8) return 0;
        *want[i] = le(p, 8);
        p += 8;
      }
      return 1;
    }
    x += 4 + len;
    n -= 4 + len;
  }
  return m->bytes != 0xffffffffu && m->packed != 0xffffffffu && m->at != 0xffffffffu;
}

static tn_value *read_member(const unsigned char *p, size_t n, const member *m, char *why, size_t why_n) {
  if (m->at > n || n - m->at < 30 || memcmp(p + m->at, "PK\3\4", 4) != 0) return snprintf(why, why_n, "a member that is not where the directory says"), NULL;
  uint64_t data = m->at + 30 + le(p + m->at + 26, 2) + le(p + m->at + 28, 2);
  if (data > n || m->packed > n - data) return snprintf(why, why_n, "a member of %llu bytes that the file does not hold", (unsigned long long)m->packed), NULL;
  const unsigned char *q = p + data;
  if (m->method == 0) {
    if (m->bytes != m->packed) return snprintf(why, why_n, "a stored member with two sizes"), NULL;
    if (crc32_z(0, q, (size_t)m->packed) != m->crc) return snprintf(why, why_n, "a checksum that does not match"), NULL;
    return cli_npy_read(q, (size_t)m->packed, why, why_n);
  }
  if (m->method != 8) return snprintf(why, why_n, "compression method %d", m->method), NULL;
  if (m->bytes / 1040 > m->packed + 64 || m->packed > UINT32_MAX || m->bytes > UINT32_MAX)
    return snprintf(why, why_n, "a claim of %llu bytes from %llu", (unsigned long long)m->bytes, (unsigned long long)m->packed), NULL;
  unsigned char *out = malloc((size_t)m->bytes + 1);
  z_stream z = {.next_in = (unsigned char *)(uintptr_t)q, .avail_in = (uInt)m->packed, .next_out = out, .avail_out = (uInt)m->bytes};
  tn_value *v = NULL;
  if (!out || inflateInit2(&z, -MAX_WBITS) != Z_OK) snprintf(why, why_n, "out of memory");
  else {
    int r = inflate(&z, Z_FINISH);
    if (r != Z_STREAM_END || z.total_out != m->bytes) snprintf(why, why_n, "compressed bytes that are broken");
    else if (crc32_z(0, out, (size_t)m->bytes) != m->crc) snprintf(why, why_n, "a checksum that does not match");
    else v = cli_npy_read(out, (size_t)m->bytes, why, why_n);
    inflateEnd(&z);
  }
  free(out);
  return v;
}

/* Offset and length of the central directory and its entries. */
static int directory(const unsigned char *p, size_t n, uint64_t *at, uint64_t *bytes, uint64_t *count) {
  size_t end = 0;
  for (size_t back = 22; back <= n && back <= 22 + 65535 && !end; back++)
    if (memcmp(p + n - back, "PK\5\6", 4) == 0) end = back;
  if (!end) return 0;
  const unsigned char *e = p + n - end;
  *count = le(e + 10, 2);
  *bytes = le(e + 12, 4);
  *at = le(e + 16, 4);
  if (*at == 0xffffffffu || *count == 0xffff || *bytes == 0xffffffffu) {
    if ((size_t)(e - p) < 20 || memcmp(e - 20, "PK\6\7", 4) != 0) return 0;
    uint64_t far = le(e - 20 + 8, 8);
    if (far > n || n - far < 56 || memcmp(p + far, "PK\6\6", 4) != 0) return 0;
    *count = le(p + far + 32, 8);
    *bytes = le(p + far + 40, 8);
    *at = le(p + far + 48, 8);
  }
  return *at <= n && *bytes <= n - *at;
}

int cli_npz_read(const void *bytes, size_t n, cli_names *out, char *why, size_t why_n) {
  const unsigned char *p = bytes, *d, *e;
  uint64_t at, len, count;
  char text[256];
  if (!directory(p, n, &at, &len, &count)) return snprintf(why, why_n, "no zip archive, or a truncated one"), 0;
  d = p + at;
  e = d + len;
  for (uint64_t i = 0; i < count; i++) {
    if (e - d < 46 || memcmp(d, "PK\1\2", 4) != 0) return snprintf(why, why_n, "directory entry %llu is broken", (unsigned long long)i), 0;
    size_t name_n = (size_t)le(d + 28, 2), extra = (size_t)le(d + 30, 2), note = (size_t)le(d + 32, 2);
    member m = {(const char *)d + 46, name_n, le(d + 20, 4), le(d + 24, 4), le(d + 42, 4), (uint32_t)le(d + 16, 4), (int)le(d + 10, 2)};
    if ((size_t)(e - d) - 46 < name_n + extra + note) return snprintf(why, why_n, "directory entry %llu is broken", (unsigned long long)i), 0;
    if (!zip64(d + 46 + name_n, extra, &m) || le(d + 8, 2) & 1) return snprintf(why, why_n, "directory entry %llu: sizes, or encryption", (unsigned long long)i), 0;
    d += 46 + name_n + extra + note;
    if (name_n < 4 || memcmp(m.name + name_n - 4, ".npy", 4) != 0 || memchr(m.name, 0, name_n)) continue;
    tn_value *v = read_member(p, n, &m, text, sizeof text);
    if (!v) return snprintf(why, why_n, "array '%.*s': %s", (int)(name_n - 4), m.name, text), 0;
    if (!cli_names_add(out, m.name, name_n - 4, v)) return snprintf(why, why_n, "out of memory"), 0;
  }
  return 1;
}

/* ---- writing ---- */

static void put(cli_bytes *b, uint64_t v, int n) {
  unsigned char x[8];
  for (int i = 0; i < n; i++) x[i] = (unsigned char)(v >> 8 * i);
  cli_bytes_put(b, x, (size_t)n);
}

typedef struct writer { cli_bytes *b, dir; uint64_t count; } writer;

/* Sizes always in 64 bits, behind 32-bit fields that say so: one form for every size. */
static void add_array(writer *w, const char *name, const tn_value *v) {
  cli_bytes npy = {0};
  char full[1024];
  cli_npy_write(&npy, v);
  size_t len = (size_t)snprintf(full, sizeof full, "%s.npy", name);
  if (npy.bad || len >= sizeof full) {
    w->b->bad = 1;
    free(npy.p);
    return;
  }
  uint32_t crc = (uint32_t)crc32_z(0, npy.p, npy.n);
  uint64_t at = w->b->n;
  put(w->b, 0x04034b50, 4);
  put(w->b, 45, 2), put(w->b, 0, 2), put(w->b, 0, 2), put(w->b, 0, 2), put(w->b, 0x21, 2);
  put(w->b, crc, 4), put(w->b, 0xffffffffu, 4), put(w->b, 0xffffffffu, 4), put(w->b, len, 2), put(w->b, 20, 2);
  cli_bytes_put(w->b, full, len);
  put(w->b, 1, 2), put(w->b, 16, 2), put(w->b, npy.n, 8), put(w->b, npy.n, 8);
  cli_bytes_put(w->b, npy.p, npy.n);
  put(&w->dir, 0x02014b50, 4);
  put(&w->dir, 45, 2), put(&w->dir, 45, 2), put(&w->dir, 0, 2), put(&w->dir, 0, 2), put(&w->dir, 0, 2), put(&w->dir, 0x21, 2);
  put(&w->dir, crc, 4), put(&w->dir, 0xffffffffu, 4), put(&w->dir, 0xffffffffu, 4), put(&w->dir, len, 2), put(&w->dir, 28, 2);
  put(&w->dir, 0, 2), put(&w->dir, 0, 2), put(&w->dir, 0, 2), put(&w->dir, 0, 4), put(&w->dir, 0xffffffffu, 4);
  cli_bytes_put(&w->dir, full, len);
  put(&w->dir, 1, 2), put(&w->dir, 24, 2), put(&w->dir, npy.n, 8), put(&w->dir, npy.n, 8), put(&w->dir, at, 8);
  w->count++;
  free(npy.p);
}

static void add(writer *w, const char *name, const tn_value *v, int depth) {
  char sub[900];
  switch (tn_value_get_kind(v)) {
  case TN_VALUE_TENSOR:
  case TN_VALUE_STRINGS: add_array(w, name, v); break;
  case TN_VALUE_LIST:
    for (size_t i = 0; i < tn_value_n(v) && depth < 8; i++) {
      snprintf(sub, sizeof sub, "%s/%zu", name, i);
      add(w, sub, tn_value_item(v, i), depth + 1);
    }
    break;
  case TN_VALUE_MAP:
    snprintf(sub, sizeof sub, "%s/keys", name);
    add(w, sub, tn_value_item(v, 0), depth + 1);
    snprintf(sub, sizeof sub, "%s/values", name);
    add(w, sub, tn_value_item(v, 1), depth + 1);
    break;
  default: break;
  }
}

void cli_npz_write(cli_bytes *b, const cli_names *x) {
  writer w = {.b = b};
  for (size_t i = 0; i < x->n; i++) add(&w, x->at[i].name, x->at[i].value, 0);
  uint64_t at = b->n, end;
  cli_bytes_put(b, w.dir.p, w.dir.n);
  b->bad |= w.dir.bad;
  end = b->n;
  put(b, 0x06064b50, 4), put(b, 44, 8), put(b, 45, 2), put(b, 45, 2), put(b, 0, 4), put(b, 0, 4);
  put(b, w.count, 8), put(b, w.count, 8), put(b, w.dir.n, 8), put(b, at, 8);
  put(b, 0x07064b50, 4), put(b, 0, 4), put(b, end, 8), put(b, 1, 4);
  put(b, 0x06054b50, 4), put(b, 0xffff, 2), put(b, 0xffff, 2), put(b, 0xffff, 2), put(b, 0xffff, 2), put(b, 0xffffffffu, 4), put(b, 0xffffffffu, 4), put(b, 0, 2);
  free(w.dir.p);
}

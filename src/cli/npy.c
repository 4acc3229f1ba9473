/* npy: one NumPy array (format 1 to 3). Header text is a Python dict; only the form that NumPy writes is read. Objects (pickle) and complex numbers are refused. */
#include "npz.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RANK = 16 };

/* ---- names, bytes ---- */

void cli_names_free(cli_names *x) {
  for (size_t i = 0; i < x->n; i++) {
    free(x->at[i].name);
    tn_value_release(x->at[i].value);
  }
  free(x->at);
  *x = (cli_names){0};
}

int cli_names_add(cli_names *x, const char *name, size_t name_n, tn_value *v) {
  char *own = malloc(name_n + 1);
  if (own && x->n == x->cap) {
    size_t cap = x->cap ? 2 * x->cap : 8;
    cli_named *at = realloc(x->at, cap * sizeof *at);
    if (at) x->at = at, x->cap = cap;
  }
  if (!own || !v || x->n == x->cap) {
    free(own);
    tn_value_release(v);
    return 0;
  }
  memcpy(own, name, name_n);
  own[name_n] = 0;
  x->at[x->n++] = (cli_named){own, v};
  return 1;
}

tn_value *cli_names_find(const cli_names *x, const char *name) {
  for (size_t i = 0; i < x->n; i++)
    if (strcmp(x->at[i].name, name) == 0) return x->at[i].value;
  return NULL;
}

void cli_bytes_put(cli_bytes *b, const void *p, size_t n) {
  if (b->bad || n > SIZE_MAX / 2 - b->n) {
    b->bad = 1;
    return;
  }
  if (b->n + n > b->cap) {
    size_t cap = b->cap ? b->cap : 4096;
    while (cap < b->n + n) cap *= 2;
    unsigned char *q = realloc(b->p, cap);
    if (!q) {
      b->bad = 1;
      return;
    }
    b->p = q;
    b->cap = cap;
  }
  if (n) memcpy(b->p + b->n, p, n);
  b->n += n;
}

/* ---- reading ---- */

static const struct { const char *code; int dtype, elem; } types[] = {
    {"f4", TN_F32, 1}, {"f8", TN_F64, 11}, {"f2", TN_F16, 10}, {"i8", TN_I64, 7}, {"i4", TN_I32, 6}, {"i2", TN_I16, 5}, {"i1", TN_I8, 3}, {"u8", TN_U64, 13},
    {"u4", TN_U32, 12}, {"u2", TN_U16, 4}, {"u1", TN_U8, 2}, {"b1", TN_BOOL, 9}, {"V2", TN_BF16, 16}, {"V1", TN_U8, 2}};
enum { N_TYPES = sizeof types / sizeof *types };

typedef struct head { char order, code[8]; int fortran, rank; int64_t dim[MAX_RANK]; size_t data; } head;

/* Just after `key` and a colon in the header text [s, e); NULL = not there. */
static const char *after(const char *s, const char *e, const char *key) {
  size_t n = strlen(key);
  for (; (size_t)(e - s) > n; s++)
    if (memcmp(s, key, n) == 0) {
      s += n;
      while (s < e && (*s == ' ' || *s == ':')) s++;
      return s < e ? s : NULL;
    }
  return NULL;
}

static int read_head(const unsigned char *p, size_t n, head *h, char *why, size_t why_n) {
  if (n < 10 || memcmp(p, "\x93NUMPY", 6) != 0) return snprintf(why, why_n, "no NumPy array"), 0;
  size_t len = p[6] == 1 ? (size_t)p[8] | (size_t)p[9] << 8 : n < 12 ? n : (size_t)p[8] | (size_t)p[9] << 8 | (size_t)p[10] << 16 | (size_t)p[11] << 24, at = p[6] == 1 ? 10 : 12;
  if (p[6] < 1 || p[6] > 3) return snprintf(why, why_n, "NumPy format %u is not known", p[6]), 0;
  if (len > n || at > n - len) return snprintf(why, why_n, "the header says %zu bytes, the file has %zu", len, n), 0;
  const char *s = (const char *)p + at, *e = s + len, *d = after(s, e, "'descr'"), *f = after(s, e, "'fortran_order'"), *q = after(s, e, "'shape'");
  if (!d || !f || !q || *d != '\'' || *q != '(') return snprintf(why, why_n, "a header without descr, fortran_order or shape (records are not read)"), 0;
  h->order = d + 1 < e ? d[1] : 0;
  size_t k = 0;
  for (d += 2; d < e && *d != '\'' && k + 1 < sizeof h->code; d++) h->code[k++] = *d;
  h->code[k] = 0;
  if (d >= e || *d != '\'' || !strchr("<>|=", h->order) || !h->order) return snprintf(why, why_n, "an element type that is not known"), 0;
  h->fortran = *f == 'T';
  h->rank = 0;
  for (q++; q < e && *q != ')';) {
    int64_t v = 0;
    if (*q == ' ' || *q == ',') {
      q++;
      continue;
    }
    if (h->rank == MAX_RANK || *q < '0' || *q > '9') return snprintf(why, why_n, "a shape that cannot be read, or of rank over %d", MAX_RANK), 0;
    for (; q < e && *q >= '0' && *q <= '9'; q++) {
      if (v > INT64_MAX / 10 - 1) return snprintf(why, why_n, "a dim that is too large"), 0;
      v = v * 10 + (*q - '0');
    }
    h->dim[h->rank++] = v;
  }
  if (q >= e) return snprintf(why, why_n, "a shape without its end"), 0;
  h->data = at + len;
  return 1;
}

static tn_value *refuse(char *why, size_t why_n, const char *text, const char *what) {
  snprintf(why, why_n, "%s%s", text, what);
  return NULL;
}

/* UTF-8 of one code point; 0 = no such point. */
static size_t utf8(uint32_t c, char *to) {
  if (c < 0x80) return to[0] = (char)c, 1;
  if (c < 0x800) return to[0] = (char)(0xc0 | c >> 6), to[1] = (char)(0x80 | (c & 63)), 2;
  if (c < 0x10000) return to[0] = (char)(0xe0 | c >> 12), to[1] = (char)(0x80 | (c >> 6 & 63)), to[2] = (char)(0x80 | (c & 63)), 3;
  if (c > 0x10ffff) return 0;
  return to[0] = (char)(0xf0 | c >> 18), to[1] = (char)(0x80 | (c >> 12 & 63)), to[2] = (char)(0x80 | (c >> 6 & 63)), to[3] = (char)(0x80 | (c & 63)), 4;
}

/* 'U': UTF-32 of `width` points; 'S': bytes. NULs at the end are padding. */
static tn_value *read_strings(const head *h, const unsigned char *p, size_t n, int64_t count, char *why, size_t why_n) {
  char *end;
  unsigned long width = strtoul(h->code + 1, &end, 10);
  size_t unit = h->code[0] == 'U' ? 4 : 1;
  if (*end || width > 1u << 24 || (width && (uint64_t)count > n / (width * unit)) || (!width && count > (1 << 20))) return refuse(why, why_n, "strings that the file does not hold", "");
  if (h->fortran && h->rank > 1) return refuse(why, why_n, "strings in Fortran order", "");
  size_t *bytes = calloc((size_t)count + 1, sizeof *bytes), at = 0;
  char **s = calloc((size_t)count + 1, sizeof *s), *text = malloc((size_t)count * (width * 4 + 1) + 1);
  tn_value *v = NULL;
  int ok = bytes && s && text;
  for (int64_t i = 0; ok && i < count; i++) {
    const unsigned char *q = p + (size_t)i * width * unit;
    size_t len = width;
    while (len > 0 && !q[len * unit - 1] && (unit == 1 || (!q[len * 4 - 2] && !q[len * 4 - 3] && !q[len * 4 - 4]))) len--;
    s[i] = text + at;
    for (size_t k = 0; ok && k < len; k++) {
      if (unit == 1) {
        text[at++] = (char)q[k];
        continue;
      }
      const unsigned char *c = q + 4 * k;
      size_t m = utf8(h->order == '>' ? (uint32_t)c[0] << 24 | (uint32_t)c[1] << 16 | (uint32_t)c[2] << 8 | c[3]
                                      : (uint32_t)c[3] << 24 | (uint32_t)c[2] << 16 | (uint32_t)c[1] << 8 | c[0], text + at);
      ok = m != 0;
      at += m;
    }
    bytes[i] = (size_t)(text + at - s[i]);
    text[at++] = 0;
  }
  if (ok) v = tn_value_strings((const char *const *)s, bytes, h->rank, h->dim);
  free(bytes);
  free(s);
  free(text);
  return v ? v : refuse(why, why_n, "strings that cannot be read", "");
}

tn_value *cli_npy_read(const void *bytes, size_t n, char *why, size_t why_n) {
  const unsigned char *p = bytes;
  head h;
  if (!read_head(p, n, &h, why, why_n)) return NULL;
  int64_t count = 1, stride[MAX_RANK], run = 1;
  bool empty = false;
  for (int i = 0; i < h.rank; i++) empty |= h.dim[i] == 0;
  for (int i = 0; i < h.rank && !empty; i++)
    if (__builtin_mul_overflow(count, h.dim[i], &count)) return refuse(why, why_n, "a shape that overflows", "");
  if (empty) count = 0;
  p += h.data;
  n -= h.data;
  if (h.code[0] == 'U' || h.code[0] == 'S') return read_strings(&h, p, n, count, why, why_n);
  int t = 0;
  while (t < N_TYPES && strcmp(types[t].code, h.code) != 0) t++;
  if (t == N_TYPES) return refuse(why, why_n, "elements of type ", h.code);
  size_t size = (size_t)(h.code[1] - '0');
  if ((uint64_t)count > n / size) return refuse(why, why_n, "fewer bytes than the shape says", "");
  for (int i = 0; i < h.rank; i++) {
    int k = h.fortran ? i : h.rank - 1 - i;
    stride[k] = run;
    run *= empty ? 1 : h.dim[k];
  }
  unsigned char *own = malloc((size_t)count * size + 8); /* aligned, in the machine's order */
  if (!own) return refuse(why, why_n, "out of memory", "");
  if (count) memcpy(own, p, (size_t)count * size);
  for (size_t i = 0; h.order == '>' && size > 1 && i < (size_t)count * size; i += size)
    for (size_t k = 0; k < size / 2; k++) {
      unsigned char x = own[i + k];
      own[i + k] = own[i + size - 1 - k];
      own[i + size - 1 - k] = x;
    }
  tn_tensor x = {own, h.dim, stride, h.rank, types[t].dtype};
  tn_value *v = tn_value_copy(&x, types[t].elem);
  free(own);
  return v ? v : refuse(why, why_n, "out of memory", "");
}

/* ---- writing ---- */

static void write_head(cli_bytes *b, const char *descr, const tn_tensor *t) {
  char text[1024];
  int n = snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
  for (int i = 0; i < t->rank; i++) n += snprintf(text + n, sizeof text - (size_t)n, t->rank == 1 ? "%lld," : i ? ", %lld" : "%lld", (long long)t->shape[i]);
  n += snprintf(text + n, sizeof text - (size_t)n, "), }");
  while ((n + 11) % 64) text[n++] = ' ';
  text[n++] = '\n';
  unsigned char h[10] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)(n & 255), (unsigned char)(n >> 8)};
  cli_bytes_put(b, h, sizeof h);
  cli_bytes_put(b, text, (size_t)n);
}

/* Code points of UTF-8; bytes that are none stand for themselves. */
static size_t points(const char *s, size_t n, uint32_t *out) {
  size_t k = 0;
  for (size_t i = 0; i < n; k++) {
    unsigned char c = (unsigned char)s[i];
    size_t more = c >= 0xf0 && c < 0xf8 ? 3 : c >= 0xe0 ? 2 : c >= 0xc0 ? 1 : 0;
    uint32_t v = more == 3 ? c & 7 : more == 2 ? c & 15 : more == 1 ? c & 31 : c;
    bool ok = more < n - i;
    for (size_t j = 1; ok && j <= more; j++) {
      ok = ((unsigned char)s[i + j] & 0xc0) == 0x80;
      v = v << 6 | ((unsigned char)s[i + j] & 63);
    }
    if (!ok) v = c, more = 0;
    if (out) out[k] = v;
    i += more + 1;
  }
  return k;
}

static void write_strings(cli_bytes *b, const tn_value *v) {
  size_t n = tn_value_n(v), width = 1, len;
  for (size_t i = 0; i < n; i++) {
    const char *s = tn_value_string(v, i, &len);
    size_t k = points(s, len, NULL);
    if (k > width) width = k;
  }
  char descr[32];
  snprintf(descr, sizeof descr, "<U%zu", width);
  write_head(b, descr, tn_value_tensor(v));
  uint32_t *row = calloc(width, sizeof *row);
  for (size_t i = 0; row && i < n; i++) {
    const char *s = tn_value_string(v, i, &len);
    memset(row, 0, width * sizeof *row);
    points(s, len, row);
    cli_bytes_put(b, row, width * sizeof *row);
  }
  b->bad |= !row;
  free(row);
}

void cli_npy_write(cli_bytes *b, const tn_value *v) {
  if (tn_value_get_kind(v) == TN_VALUE_STRINGS) {
    write_strings(b, v);
    return;
  }
  const tn_tensor *t = tn_value_tensor(v);
  int k = 0;
  while (t && k < N_TYPES && types[k].dtype != t->dtype) k++;
  if (!t || k == N_TYPES) {
    b->bad = 1;
    return;
  }
  bool wide = t->dtype == TN_BF16;
  char descr[8];
  snprintf(descr, sizeof descr, "%c%s", types[k].code[1] == '1' ? '|' : '<', wide ? "f4" : types[k].code);
  write_head(b, descr, t);
  size_t size = (size_t)(types[k].code[1] - '0'), n = tn_value_n(v);
  int64_t at[MAX_RANK] = {0};
  const unsigned char *p = t->data;
  for (size_t i = 0; i < n; i++) {
    if (wide) {
      uint32_t f = (uint32_t)(p[0] | p[1] << 8) << 16;
      cli_bytes_put(b, &f, 4);
    } else {
      cli_bytes_put(b, p, size);
    }
    for (int d = t->rank; d-- > 0;) {
      int64_t stride = t->strides[d] * (int64_t)size;
      p += stride;
      if (++at[d] < t->shape[d]) break;
      p -= stride * t->shape[d];
      at[d] = 0;
    }
  }
}

/* dyn_string: operators on string tensors. Strings are bytes, held to be UTF-8 where that matters (case, whitespace).
 *
 * There is one operator that moves strings, string_take: the compiler computes where each goes as a tensor of numbers. Case changes know the
 * scripts listed at `letters` and leave other letters alone; they depend on no locale, so a package answers alike everywhere. */
#include "dyn_int.h"
#include "dyn_text.h"

static tn_mstr mk(const char *s, size_t n) { tn_mstr r = {s, n}; return r; }

static tn_status fill_dims(tn_dyn_call *c, int64_t *dim, int *rank, int64_t want) {
  uint32_t n;
  const int64_t *d = tn_da_ints(c, "dims", &n);
  if (n > TN_DYN_MAX_RANK) return tn_dv_fail(c, TN_E_ARG, "rank %u", n);
  int64_t p = 1;
  for (uint32_t i = 0; i < n; i++) {
    dim[i] = d[i];
    if (d[i] < 0 || __builtin_mul_overflow(p, d[i], &p)) return tn_dv_fail(c, TN_E_ARG, "dim %lld", (long long)d[i]);
  }
  *rank = (int)n;
  return p == want ? TN_OK : tn_dv_fail(c, TN_E_ARG, "%lld values for %lld elements", (long long)want, (long long)p);
}

TN_DYN_OP(STRINGS) {
  uint32_t n;
  const tn_mstr *s = tn_da_strs(c, "values", &n);
  int64_t dim[TN_DYN_MAX_RANK];
  int rank = 0;
  tn_made m;
  TN_TRY(fill_dims(c, dim, &rank, n));
  TN_TRY(tn_dv_new(c, TN_EL_STRING, rank, dim, &m, 0));
  if (n) memcpy(m.p, s, n * sizeof *s);
  return tn_dv_done(c, &m, 0);
}

TN_DYN_OP(STRING_NUMBERS) {
  tn_view x;
  tn_made m;
  TN_TRY(tn_dv_str(c, 0, &x));
  TN_TRY(tn_dv_new(c, TN_EL_I64, x.rank, x.dim, &m, 0));
  for (int64_t i = 0; i < x.n; i++) ((int64_t *)(void *)m.p)[i] = i;
  return tn_dv_done(c, &m, 0);
}

/* Elements by number out of all operands one after the other; the result has the shape of the numbers. */
TN_DYN_OP(STRING_TAKE) {
  tn_view idx, *v = TN_NEW(c->tmp, tn_view, c->n_in);
  int64_t total = 0;
  TN_TRY(tn_dv_num(c, 0, &idx));
  if (!v) return tn_dv_fail(c, TN_E_NOMEM, "%u operands", c->n_in);
  if (idx.dtype != TN_I64) return tn_dv_fail(c, TN_E_ARG, "numbers of elements are not i64");
  for (uint32_t k = 1; k < c->n_in; k++) {
    TN_TRY(tn_dv_str(c, k, &v[k]));
    total += v[k].n;
  }
  tn_made m;
  TN_TRY(tn_dv_new(c, TN_EL_STRING, idx.rank, idx.dim, &m, 0));
  for (int64_t i = 0; i < idx.n; i++) {
    int64_t at = tn_view_num(&idx, i).i;
    uint32_t k = 1;
    if (at < 0 || at >= total) return tn_dv_fail(c, TN_E_INDEX, "element %lld of %lld", (long long)at, (long long)total);
    while (at >= v[k].n) at -= v[k++].n;
    ((tn_mstr *)(void *)m.p)[i] = tn_view_str(&v[k])[at];
  }
  return tn_dv_done(c, &m, 0);
}

static tn_status pair(tn_dyn_call *c, tn_view *a, tn_view *b) {
  TN_TRY(tn_dv_str(c, 0, a));
  TN_TRY(tn_dv_str(c, 1, b));
  bool same = a->rank == b->rank;
  for (int i = 0; same && i < a->rank; i++) same = a->dim[i] == b->dim[i];
  return same ? TN_OK : tn_dv_fail(c, TN_E_ARG, "operands of different shapes (%lld and %lld elements)", (long long)a->n, (long long)b->n);
}

TN_DYN_OP(STRING_EQUAL) {
  tn_view a, b;
  tn_made m;
  TN_TRY(pair(c, &a, &b));
  TN_TRY(tn_dv_new(c, TN_EL_BOOL, a.rank, a.dim, &m, 0));
  for (int64_t i = 0; i < a.n; i++) m.p[i] = tn_mstr_cmp(tn_view_str(&a)[i], tn_view_str(&b)[i]) == 0;
  return tn_dv_done(c, &m, 0);
}

static tn_status copy(tn_dyn_call *c, tn_mstr a, tn_mstr b, tn_mstr *out) {
  char *p = a.n <= SIZE_MAX / 2 - b.n ? TN_NEW(c->tmp, char, a.n + b.n + 1) : NULL;
  if (!p) return tn_dv_fail(c, TN_E_NOMEM, "a string of %zu bytes", a.n + b.n);
  if (a.n) memcpy(p, a.s, a.n);
  if (b.n) memcpy(p + a.n, b.s, b.n);
  *out = mk(p, a.n + b.n);
  return TN_OK;
}

TN_DYN_OP(STRING_CONCAT) {
  tn_view a, b;
  tn_made m;
  TN_TRY(pair(c, &a, &b));
  TN_TRY(tn_dv_new(c, TN_EL_STRING, a.rank, a.dim, &m, 0));
  for (int64_t i = 0; i < a.n; i++) TN_TRY(copy(c, tn_view_str(&a)[i], tn_view_str(&b)[i], (tn_mstr *)(void *)m.p + i));
  return tn_dv_done(c, &m, 0);
}

/* ---- UTF-8 ---- */

uint32_t tn_utf8_decode(tn_mstr s, size_t *i) {
  const uint8_t *p = (const uint8_t *)s.s + *i;
  size_t left = s.n - *i, len = p[0] < 0x80 ? 1 : p[0] >= 0xc2 && p[0] < 0xe0 ? 2 : (p[0] & 0xf0) == 0xe0 ? 3 : p[0] >= 0xf0 && p[0] < 0xf5 ? 4 : 0;
  uint32_t v = len == 1 ? p[0] : len ? p[0] & (0x7fu >> len) : 0;
  for (size_t k = 1; k < len; k++) {
    if (k >= left || (p[k] & 0xc0) != 0x80) { len = 0; break; }
    v = v << 6 | (p[k] & 0x3f);
  }
  *i += len ? len : 1;
  return len ? v : 0x110000u + p[0];
}

size_t tn_utf8_encode(uint32_t v, char *o) {
  if (v >= 0x110000) { o[0] = (char)(v - 0x110000); return 1; }
  if (v < 0x80) { o[0] = (char)v; return 1; }
  if (v < 0x800) { o[0] = (char)(0xc0 | v >> 6); o[1] = (char)(0x80 | (v & 0x3f)); return 2; }
  if (v < 0x10000) { o[0] = (char)(0xe0 | v >> 12); o[1] = (char)(0x80 | (v >> 6 & 0x3f)); o[2] = (char)(0x80 | (v & 0x3f)); return 3; }
  o[0] = (char)(0xf0 | v >> 18); o[1] = (char)(0x80 | (v >> 12 & 0x3f)); o[2] = (char)(0x80 | (v >> 6 & 0x3f)); o[3] = (char)(0x80 | (v & 0x3f));
  return 4;
}

/* Letters that have two cases: ranges of capitals, and how far the small one is; step 2 = capitals and small ones take turns.
 * Latin, Latin-1, Latin Extended-A and Additional, Greek, Cyrillic, Armenian, fullwidth. */
static const struct { uint16_t lo, hi; uint8_t step, by; } letters[] = {
    {'A', 'Z', 1, 32},       {0xc0, 0xd6, 1, 32},     {0xd8, 0xde, 1, 32},     {0x100, 0x12e, 2, 1},   {0x132, 0x136, 2, 1},   {0x139, 0x147, 2, 1},
    {0x14a, 0x176, 2, 1},    {0x179, 0x17d, 2, 1},    {0x386, 0x386, 1, 38},   {0x388, 0x38a, 1, 37},  {0x38c, 0x38c, 1, 64},  {0x38e, 0x38f, 1, 63},
    {0x391, 0x3a1, 1, 32},   {0x3a3, 0x3ab, 1, 32},   {0x400, 0x40f, 1, 80},   {0x410, 0x42f, 1, 32},  {0x460, 0x480, 2, 1},   {0x48a, 0x4be, 2, 1},
    {0x4d0, 0x52e, 2, 1},    {0x531, 0x556, 1, 48},   {0x1e00, 0x1e94, 2, 1},  {0x1ea0, 0x1efe, 2, 1}, {0xff21, 0xff3a, 1, 32}};

uint32_t tn_utf8_fold(uint32_t v, bool up) {
  if (v == 0xff && up) return 0x178;
  if (v == 0x178 && !up) return 0xff;
  for (size_t i = 0; i < sizeof letters / sizeof *letters; i++) {
    uint32_t base = up ? v - letters[i].by : v;
    if (v < 0x110000 && base >= letters[i].lo && base <= letters[i].hi && (base - letters[i].lo) % letters[i].step == 0) return up ? base : v + letters[i].by;
  }
  return v;
}

static tn_status recase(tn_dyn_call *c, tn_mstr s, bool up, tn_mstr *out) {
  char *p = s.n < SIZE_MAX / 8 ? TN_NEW(c->tmp, char, s.n * 2 + 4) : NULL;    /* no rule makes a letter longer than twice */
  size_t n = 0;
  if (!p) return tn_dv_fail(c, TN_E_NOMEM, "a string of %zu bytes", s.n);
  for (size_t i = 0; i < s.n;) n += tn_utf8_encode(tn_utf8_fold(tn_utf8_decode(s, &i), up), p + n);
  *out = mk(p, n);
  return TN_OK;
}

/* ---- normalizer: case "LOWER", "UPPER" or "NONE"; elements that are stop words go; nothing left: one empty string ---- */

static tn_status stop_words(tn_dyn_call *c, bool lower, tn_mstr **out, uint32_t *n) {
  const tn_mstr *s = tn_da_strs(c, "stopwords", n);
  *out = TN_NEW(c->tmp, tn_mstr, *n + 1);
  if (!*out) return tn_dv_fail(c, TN_E_NOMEM, "%u stop words", *n);
  for (uint32_t i = 0; i < *n; i++) {
    (*out)[i] = s[i];
    if (lower) TN_TRY(recase(c, s[i], false, &(*out)[i]));
  }
  return TN_OK;
}

TN_DYN_OP(STRING_NORMALIZER) {
  tn_view x;
  uint32_t n_stop;
  tn_mstr *stop, key;
  const char *change = tn_da_str(c, "case");
  bool exact = tn_da_int(c, "is_case_sensitive", 0) != 0, up = !strcmp(change, "UPPER");
  TN_TRY(tn_dv_str(c, 0, &x));
  if (x.rank < 1 || x.rank > 2 || (x.rank == 2 && x.dim[0] != 1)) return tn_dv_fail(c, TN_E_ARG, "wanted strings [C] or [1, C], found rank %d", x.rank);
  TN_TRY(stop_words(c, !exact, &stop, &n_stop));
  tn_mstr *left = TN_NEW(c->tmp, tn_mstr, x.n + 1);
  int64_t n = 0;
  if (!left) return tn_dv_fail(c, TN_E_NOMEM, "%lld strings", (long long)x.n);
  for (int64_t i = 0; i < x.n; i++) {
    uint32_t k = 0;
    key = left[n] = tn_view_str(&x)[i];
    if (n_stop && !exact) TN_TRY(recase(c, key, false, &key));
    while (k < n_stop && tn_mstr_cmp(stop[k], key)) k++;
    if (k < n_stop) continue;
    if (up || !strcmp(change, "LOWER")) TN_TRY(recase(c, left[n], up, &left[n]));
    n++;
  }
  if (!n) left[n++] = mk("", 0);
  tn_made m;
  TN_TRY(tn_dv_new(c, TN_EL_STRING, x.rank, x.rank == 2 ? (int64_t[]){1, n} : &n, &m, 0));
  memcpy(m.p, left, (size_t)n * sizeof *left);
  return tn_dv_done(c, &m, 0);
}

/* ---- split ---- */

static bool is_space(uint32_t v) {
  return (v >= 9 && v <= 13) || (v >= 28 && v <= 32) || v == 0x85 || v == 0xa0 || v == 0x1680 || (v >= 0x2000 && v <= 0x200a) || v == 0x2028 || v == 0x2029 || v == 0x202f ||
         v == 0x205f || v == 0x3000;
}

/* Skips characters while they are spaces (or while they are not). */
static size_t skip(tn_mstr s, size_t i, bool spaces) {
  for (size_t next = i; i < s.n; i = next)
    if (is_space(tn_utf8_decode(s, &next)) != spaces) break;
  return i;
}

static const char *find(const char *s, size_t n, tn_mstr d) {
  for (size_t i = 0; i + d.n <= n; i++)
    if (!memcmp(s + i, d.s, d.n)) return s + i;
  return NULL;
}

/* Pieces of s into out (NULL: only counted); `most` splits, negative = any number. No delimiter: runs of whitespace, none at the ends. */
static int64_t split(tn_mstr s, tn_mstr d, int64_t most, tn_mstr *out) {
  int64_t n = 0;
  size_t i = d.n ? 0 : skip(s, 0, true);
  if (!d.n && i == s.n) return 0;
  for (;; n++) {
    const char *at = d.n ? find(s.s + i, s.n - i, d) : s.s + skip(s, i, false);
    size_t end = at ? (size_t)(at - s.s) : s.n, next = d.n ? end + d.n : skip(s, end, true);
    bool last = !at || (!d.n && next >= s.n);
    if (n == most) { end = s.n; last = true; }
    if (out) out[n] = mk(s.s + i, end - i);
    if (last) return n + 1;
    i = next;
  }
}

TN_DYN_OP(STRING_SPLIT) {
  tn_view x;
  int64_t dim[TN_DYN_MAX_RANK], most = tn_da_int(c, "maxsplit", -1), widest = 0;
  const char *delimiter = tn_da_str(c, "delimiter");
  tn_mstr d = mk(delimiter, strlen(delimiter));
  tn_made y, z;
  TN_TRY(tn_dv_str(c, 0, &x));
  if (x.rank >= TN_DYN_MAX_RANK) return tn_dv_fail(c, TN_E_UNSUPPORTED, "rank %d", x.rank);
  TN_TRY(tn_dv_new(c, TN_EL_I64, x.rank, x.dim, &z, 1));
  int64_t *count = (int64_t *)(void *)z.p;
  for (int64_t i = 0; i < x.n; i++) {
    count[i] = split(tn_view_str(&x)[i], d, most, NULL);
    if (count[i] > widest) widest = count[i];
  }
  for (int i = 0; i < x.rank; i++) dim[i] = x.dim[i];
  dim[x.rank] = widest;
  TN_TRY(tn_dv_new(c, TN_EL_STRING, x.rank + 1, dim, &y, 0));
  for (int64_t i = 0; i < x.n; i++) split(tn_view_str(&x)[i], d, most, (tn_mstr *)(void *)y.p + i * widest);
  return tn_dv_done(c, &y, 0);
}

/* The table of symbolic dims: normal form, sums and products, bounds, evaluation.
 *
 * Idea. An expression is a polynomial with int64 coefficients over atoms (symbols, floordiv, mod, min, max of two dims).
 * Its terms are kept in one monomial order (degree, then the factors' own order), its atoms are hash-consed, and so is the
 * whole sum. Two expressions that are equal as polynomials therefore get the same handle, whatever way they were made.
 * The order of atoms looks at names and structure, never at when they were made: text is the same in every table.
 * Adding merges two sorted lists; the order is a monomial order, so multiplying by a term keeps a list sorted.
 *
 * Coefficients lie in [-INT64_MAX, INT64_MAX] and every step is checked: the answer to overflow is TN_DIM_BAD, never a
 * wrapped number. Sizes are limited (dim_int.h), so no text can make a walk explode.
 * It does not solve equations between symbols and does not change handles when a range becomes known later. */
#include "dim_int.h"
#include <string.h>

__extension__ typedef __int128 i128;

tn_dims *tn_dims_create(void) {
  tn_dims *t = tn_calloc(1, sizeof *t);
  if (!t) return NULL;
  tn_arena_init(&t->keep);
  tn_arena_init(&t->scratch);
  tn_map_init(&t->atoms);
  tn_map_init(&t->exprs);
  tn_map_init(&t->syms);
  t->n_atoms = 1; /* 0 = none */
  t->atom = TN_NEW(&t->keep, tn_dim_atom_row, t->cap_atoms = 8);
  if (!t->atom) {
    tn_dims_destroy(t);
    return NULL;
  }
  return t;
}

void tn_dims_destroy(tn_dims *t) {
  if (!t) return;
  tn_map_deinit(&t->atoms);
  tn_map_deinit(&t->exprs);
  tn_map_deinit(&t->syms);
  tn_arena_deinit(&t->scratch);
  tn_arena_deinit(&t->keep);
  tn_free(t);
}

/* ---- order ---- */
static int cmp_i64(int64_t a, int64_t b) { return (a > b) - (a < b); }

/* Negative: x comes first (is printed first). Names of one length by bytes, shorter names first: s2 before s10. */
int tn_dim_atom_cmp(const tn_dims *t, uint32_t x, uint32_t y) {
  if (x == y) return 0;
  const tn_dim_atom_row *a = &t->atom[x], *b = &t->atom[y];
  if (a->kind != b->kind) return cmp_i64(a->kind, b->kind);
  if (a->kind == TN_DA_SYM) {
    int c = cmp_i64((int64_t)strlen(a->name), (int64_t)strlen(b->name));
    return c ? c : strcmp(a->name, b->name);
  }
  int c = tn_dim_cmp(t, a->a, b->a);
  return c ? c : tn_dim_cmp(t, a->b, b->b);
}

static int cmp_mono(const tn_dims *t, const tn_dim_term *x, const tn_dim_term *y) {
  if (x->n != y->n) return x->n > y->n ? -1 : 1;
  for (uint32_t i = 0; i < x->n; i++) {
    int c = tn_dim_atom_cmp(t, x->f[i], y->f[i]);
    if (c) return c;
  }
  return 0;
}

/* Any dims: constants last and by value, sums by their terms. */
int tn_dim_cmp(const tn_dims *t, tn_dim x, tn_dim y) {
  if (x == y) return 0;
  if (x >= 0 && y >= 0) return cmp_i64(x, y);
  if (x >= 0 || y >= 0) {
    int64_t v, w = x >= 0 ? x : y;
    bool other_const = tn_dim_as_int(t, x >= 0 ? y : x, &v);
    int c = other_const ? cmp_i64(w, v) : 1; /* seen from the side of the plain constant */
    return x >= 0 ? c : -c;
  }
  tn_dim_poly p = tn_dim_expr_at(t, x)->p, q = tn_dim_expr_at(t, y)->p;
  for (uint32_t i = 0; i < p.n && i < q.n; i++) {
    int c = cmp_mono(t, &p.t[i], &q.t[i]);
    if (!c) c = cmp_i64(p.t[i].c, q.t[i].c);
    if (c) return c;
  }
  return cmp_i64(p.n, q.n);
}

/* ---- polynomials ---- */
bool tn_dim_view(tn_dims *t, tn_dim d, tn_dim_poly *out) {
  *out = (tn_dim_poly){0};
  if (!tn_dim_valid(t, d)) return false;
  if (d < 0) {
    *out = tn_dim_expr_at(t, d)->p;
  } else if (d > 0) {
    tn_dim_term *c = TN_NEW(&t->scratch, tn_dim_term, 1);
    if (!c) return false;
    c->c = d;
    *out = (tn_dim_poly){c, 1};
  }
  return true;
}

static bool mul_ok(int64_t a, int64_t b, int64_t *out) { return !__builtin_mul_overflow(a, b, out) && *out != INT64_MIN; }

static bool add_ok(int64_t a, int64_t b, int64_t *out) { return !__builtin_add_overflow(a, b, out) && *out != INT64_MIN; }

bool tn_dim_poly_add(tn_dims *t, tn_dim_poly a, tn_dim_poly b, int64_t scale_b, tn_dim_poly *out) {
  tn_dim_term *r = TN_NEW(&t->scratch, tn_dim_term, a.n + b.n);
  if (!r || scale_b == INT64_MIN) return false;
  uint32_t n = 0, i = 0, j = 0;
  while (i < a.n || j < b.n) {
    int c = i == a.n ? 1 : j == b.n ? -1 : cmp_mono(t, &a.t[i], &b.t[j]);
    int64_t scaled = 0, sum;
    if (c >= 0 && !mul_ok(b.t[j].c, scale_b, &scaled)) return false;
    if (!add_ok(c <= 0 ? a.t[i].c : 0, scaled, &sum)) return false;
    if (sum) {
      r[n] = c <= 0 ? a.t[i] : b.t[j];
      r[n++].c = sum;
    }
    i += c <= 0;
    j += c >= 0;
  }
  *out = (tn_dim_poly){r, n};
  return n <= TN_DIM_MAX_TERMS;
}

bool tn_dim_poly_mul_term(tn_dims *t, tn_dim_poly a, tn_dim_term by, tn_dim_poly *out) {
  *out = (tn_dim_poly){0};
  if (by.c == 0) return true;
  tn_dim_term *r = TN_NEW(&t->scratch, tn_dim_term, a.n);
  if (!r) return false;
  for (uint32_t i = 0; i < a.n; i++) {
    const tn_dim_term *x = &a.t[i];
    if (!mul_ok(x->c, by.c, &r[i].c) || x->n + by.n > TN_DIM_MAX_DEGREE) return false;
    uint32_t *f = TN_NEW(&t->scratch, uint32_t, x->n + by.n);
    if (!f) return false;
    for (uint32_t n = 0, j = 0, k = 0; j < x->n || k < by.n;) {
      bool left = k == by.n || (j < x->n && tn_dim_atom_cmp(t, x->f[j], by.f[k]) <= 0);
      f[n++] = left ? x->f[j++] : by.f[k++];
    }
    r[i].f = f;
    r[i].n = x->n + by.n;
  }
  *out = (tn_dim_poly){r, a.n};
  return true;
}

/* ---- hash-consing ---- */

/* Looks for content hash `h` in `m`, probing h, h+1, ... until `same` says yes (then true) or the key is free. */
typedef bool (*same_fn)(const tn_dims *t, uint32_t i, const void *want);
static bool cons_find(const tn_dims *t, const tn_map *m, uint64_t *h, same_fn same, const void *want, uint32_t *out_i) {
  for (; tn_map_get_u64(m, *h, out_i); ++*h)
    if (same(t, *out_i, want)) return true;
  return false;
}

static bool same_expr(const tn_dims *t, uint32_t i, const void *want) {
  tn_dim_poly p = t->expr[i].p, q = *(const tn_dim_poly *)want;
  if (p.n != q.n) return false;
  for (uint32_t k = 0; k < p.n; k++) {
    const tn_dim_term *x = &p.t[k], *y = &q.t[k];
    if (x->c != y->c || x->n != y->n || (x->n && memcmp(x->f, y->f, x->n * sizeof *x->f) != 0)) return false;
  }
  return true;
}

static bool same_atom(const tn_dims *t, uint32_t i, const void *want) {
  const tn_dim_atom_row *a = &t->atom[i], *b = want;
  return a->kind == b->kind && a->a == b->a && a->b == b->b;
}

tn_dim tn_dim_intern(tn_dims *t, tn_dim_poly p) {
  if (p.n == 0) return 0;
  if (p.n == 1 && p.t[0].n == 0 && p.t[0].c > 0) return p.t[0].c;
  uint64_t h = p.n, size = 0;
  for (uint32_t i = 0; i < p.n; i++) {
    h = tn_hash(&p.t[i].c, sizeof p.t[i].c, h);
    if (p.t[i].n) h = tn_hash(p.t[i].f, p.t[i].n * sizeof *p.t[i].f, h);
    size += 1;
    for (uint32_t k = 0; k < p.t[i].n; k++) size += t->atom[p.t[i].f[k]].size;
  }
  uint32_t found;
  if (cons_find(t, &t->exprs, &h, same_expr, &p, &found)) return -1 - (tn_dim)found;
  if (size > TN_DIM_MAX_SIZE || p.n > TN_DIM_MAX_TERMS) return TN_DIM_BAD;
  if (!TN_PUSH_ROOM(&t->keep, t->expr, t->n_exprs, t->cap_exprs)) return TN_DIM_BAD;
  tn_dim_term *terms = TN_NEW(&t->keep, tn_dim_term, p.n);
  if (!terms) return TN_DIM_BAD;
  for (uint32_t i = 0; i < p.n; i++) {
    uint32_t *f = TN_NEW(&t->keep, uint32_t, p.t[i].n);
    if (!f) return TN_DIM_BAD;
    if (p.t[i].n) memcpy(f, p.t[i].f, p.t[i].n * sizeof *f);
    terms[i] = (tn_dim_term){p.t[i].c, p.t[i].n, f};
  }
  if (!tn_map_put_u64(&t->exprs, h, t->n_exprs)) return TN_DIM_BAD;
  t->expr[t->n_exprs] = (tn_dim_expr){{terms, p.n}, (uint32_t)size};
  return -1 - (tn_dim)t->n_exprs++;
}

/* Appends an atom row and returns its number, 0 when out of memory. */
static uint32_t push_atom(tn_dims *t, tn_dim_atom_row row) {
  if (!TN_PUSH_ROOM(&t->keep, t->atom, t->n_atoms, t->cap_atoms)) return 0;
  t->atom[t->n_atoms] = row;
  return t->n_atoms++;
}

static tn_dim dim_of_atom(tn_dims *t, uint32_t atom) {
  tn_dim_term one = {1, 1, &atom};
  return atom ? tn_dim_intern(t, (tn_dim_poly){&one, 1}) : TN_DIM_BAD;
}

static uint32_t size_of(const tn_dims *t, tn_dim d) { return d >= 0 ? 1 : tn_dim_expr_at(t, d)->size; }

tn_dim tn_dim_atom_get(tn_dims *t, tn_dim_atom kind, tn_dim a, tn_dim b) {
  tn_dim_atom_row row = {.kind = kind, .a = a, .b = b, .size = 1 + size_of(t, a) + size_of(t, b)};
  if (row.size > TN_DIM_MAX_SIZE) return TN_DIM_BAD;
  int64_t key[3] = {kind, a, b};
  uint64_t h = tn_hash(key, sizeof key, 1);
  uint32_t i;
  if (!cons_find(t, &t->atoms, &h, same_atom, &row, &i)) {
    if (!(i = push_atom(t, row)) || !tn_map_put_u64(&t->atoms, h, i)) return TN_DIM_BAD;
  }
  return dim_of_atom(t, i);
}

uint32_t tn_dim_as_atom(const tn_dims *t, tn_dim d) {
  if (d >= 0 || !tn_dim_valid(t, d)) return 0;
  tn_dim_poly p = tn_dim_expr_at(t, d)->p;
  return p.n == 1 && p.t[0].c == 1 && p.t[0].n == 1 ? p.t[0].f[0] : 0;
}

/* ---- symbols and constants ---- */
tn_dim tn_dim_sym(tn_dims *t, const char *name) {
  uint32_t atom;
  if (tn_map_get_str(&t->syms, name, &atom)) return dim_of_atom(t, atom);
  if (!*name || strlen(name) > 255 || !TN_PUSH_ROOM(&t->keep, t->sym, t->n_syms, t->cap_syms)) return TN_DIM_BAD;
  char *own = tn_arena_strdup(&t->keep, name);
  if (!own) return TN_DIM_BAD;
  atom = push_atom(t, (tn_dim_atom_row){.kind = TN_DA_SYM, .size = 1, .name = own, .lo = 0, .hi = INT64_MAX, .ordinal = t->n_syms});
  if (!atom || !tn_map_put_str(&t->syms, own, atom)) return TN_DIM_BAD;
  t->sym[t->n_syms++] = atom;
  return dim_of_atom(t, atom);
}

void tn_dim_set_range(tn_dims *t, tn_dim sym, int64_t lo, int64_t hi) {
  uint32_t a = tn_dim_as_atom(t, sym);
  if (!a || t->atom[a].kind != TN_DA_SYM || lo > hi) return;
  t->atom[a].lo = lo;
  t->atom[a].hi = hi;
}

int tn_dim_sym_ordinal(const tn_dims *t, tn_dim d) {
  uint32_t a = tn_dim_as_atom(t, d);
  return a && t->atom[a].kind == TN_DA_SYM ? (int)t->atom[a].ordinal : -1;
}

void tn_dim_mark_syms(const tn_dims *t, tn_dim d, bool *used) {
  if (d >= 0 || !tn_dim_valid(t, d)) return;
  tn_dim_poly p = tn_dim_expr_at(t, d)->p;
  for (uint32_t i = 0; i < p.n; i++)
    for (uint32_t k = 0; k < p.t[i].n; k++) {
      const tn_dim_atom_row *x = &t->atom[p.t[i].f[k]];
      if (x->kind == TN_DA_SYM) {
        used[x->ordinal] = true;
        continue;
      }
      tn_dim_mark_syms(t, x->a, used);
      tn_dim_mark_syms(t, x->b, used);
    }
}

uint32_t tn_dims_n_syms(const tn_dims *t) { return t->n_syms; }

const char *tn_dims_sym_name(const tn_dims *t, uint32_t i) { return i < t->n_syms ? t->atom[t->sym[i]].name : ""; }

void tn_dims_sym_range(const tn_dims *t, uint32_t i, int64_t *lo, int64_t *hi) {
  *lo = i < t->n_syms ? t->atom[t->sym[i]].lo : INT64_MIN;
  *hi = i < t->n_syms ? t->atom[t->sym[i]].hi : INT64_MAX;
}

tn_dim tn_dim_int(tn_dims *t, int64_t v) {
  if (v >= 0) return v;
  tn_dim_term c = {v, 0, NULL};
  return v == INT64_MIN ? TN_DIM_BAD : tn_dim_intern(t, (tn_dim_poly){&c, 1});
}

bool tn_dim_as_int(const tn_dims *t, tn_dim d, int64_t *out) {
  if (d >= 0) {
    *out = d;
    return true;
  }
  if (!tn_dim_valid(t, d)) return false;
  tn_dim_poly p = tn_dim_expr_at(t, d)->p;
  if (p.n != 1 || p.t[0].n != 0) return false;
  *out = p.t[0].c;
  return true;
}

/* ---- sums and products ---- */
static tn_dim add_scaled(tn_dims *t, tn_dim a, tn_dim b, int64_t scale) {
  int64_t x, y;
  if (tn_dim_as_int(t, a, &x) && tn_dim_as_int(t, b, &y))
    return mul_ok(y, scale, &y) && add_ok(x, y, &x) ? tn_dim_int(t, x) : TN_DIM_BAD;
  tn_mark m = tn_arena_mark(&t->scratch);
  tn_dim_poly p, q, r;
  tn_dim out = TN_DIM_BAD;
  if (tn_dim_view(t, a, &p) && tn_dim_view(t, b, &q) && tn_dim_poly_add(t, p, q, scale, &r)) out = tn_dim_intern(t, r);
  tn_arena_rewind(&t->scratch, m);
  return out;
}

tn_dim tn_dim_add(tn_dims *t, tn_dim a, tn_dim b) { return add_scaled(t, a, b, 1); }

tn_dim tn_dim_sub(tn_dims *t, tn_dim a, tn_dim b) { return add_scaled(t, a, b, -1); }

tn_dim tn_dim_mul(tn_dims *t, tn_dim a, tn_dim b) {
  int64_t x, y;
  if (tn_dim_as_int(t, a, &x) && tn_dim_as_int(t, b, &y)) return mul_ok(x, y, &x) ? tn_dim_int(t, x) : TN_DIM_BAD;
  tn_mark m = tn_arena_mark(&t->scratch);
  tn_dim_poly p, q, sum = {0};
  bool ok = tn_dim_view(t, a, &p) && tn_dim_view(t, b, &q);
  for (uint32_t i = 0; ok && i < q.n; i++) {
    tn_dim_poly part;
    ok = tn_dim_poly_mul_term(t, p, q.t[i], &part) && tn_dim_poly_add(t, sum, part, 1, &sum);
  }
  tn_dim out = ok ? tn_dim_intern(t, sum) : TN_DIM_BAD;
  tn_arena_rewind(&t->scratch, m);
  return out;
}

/* ---- bounds: intervals in 128 bits; a value that saturates makes its side unbounded for good ---- */
typedef struct range {
  i128 lo, hi;
} range;
#define FAR ((i128)1 << 100)

static i128 far_add(i128 a, i128 b, i128 far) {
  if (a <= -FAR || a >= FAR || b <= -FAR || b >= FAR) return far;
  i128 s = a + b;
  return s <= -FAR || s >= FAR ? far : s;
}

static i128 far_mul(i128 a, i128 b) {
  i128 p;
  if (a == 0 || b == 0) return 0;
  if (__builtin_mul_overflow(a, b, &p) || p >= FAR || p <= -FAR) return (a < 0) == (b < 0) ? FAR : -FAR;
  return p;
}

static range mul_range(range a, range b) {
  i128 v[4] = {far_mul(a.lo, b.lo), far_mul(a.lo, b.hi), far_mul(a.hi, b.lo), far_mul(a.hi, b.hi)};
  range r = {v[0], v[0]};
  for (int i = 1; i < 4; i++) {
    if (v[i] < r.lo) r.lo = v[i];
    if (v[i] > r.hi) r.hi = v[i];
  }
  return r;
}

static i128 floor128(i128 a, i128 b) { return a / b - (a % b != 0 && (a % b < 0) != (b < 0)); }

static range dim_range(const tn_dims *t, tn_dim d);

static range atom_range(const tn_dims *t, uint32_t i) {
  const tn_dim_atom_row *x = &t->atom[i];
  if (x->kind == TN_DA_SYM) return (range){x->lo, x->hi};
  range a = dim_range(t, x->a), b = dim_range(t, x->b);
  switch (x->kind) {
    case TN_DA_MIN: return (range){a.lo < b.lo ? a.lo : b.lo, a.hi < b.hi ? a.hi : b.hi};
    case TN_DA_MAX: return (range){a.lo > b.lo ? a.lo : b.lo, a.hi > b.hi ? a.hi : b.hi};
    case TN_DA_FLOORDIV: {
      if (b.lo >= 1)
        return (range){a.lo <= -FAR ? -FAR : floor128(a.lo, a.lo < 0 ? b.lo : b.hi), a.hi >= FAR ? FAR : floor128(a.hi, a.hi < 0 ? b.hi : b.lo)};
      i128 m = -a.lo > a.hi ? -a.lo : a.hi; /* |a // b| <= |a| for |b| >= 1, rounding down included */
      return (range){-m, m};
    }
    default: { /* TN_DA_MOD: the sign of the divisor, smaller than it in size */
      range r = {b.lo < 0 ? b.lo + 1 : 0, b.hi > 0 ? b.hi - 1 : 0};
      if (b.lo >= 1 && a.lo >= 0 && a.hi < r.hi) r.hi = a.hi;
      return r;
    }
  }
}

static range dim_range(const tn_dims *t, tn_dim d) {
  if (d >= 0) return (range){d, d};
  range sum = {0, 0};
  tn_dim_poly p = tn_dim_expr_at(t, d)->p;
  for (uint32_t i = 0; i < p.n; i++) {
    range r = {p.t[i].c, p.t[i].c};
    for (uint32_t k = 0; k < p.t[i].n; k++) r = mul_range(r, atom_range(t, p.t[i].f[k]));
    sum = (range){far_add(sum.lo, r.lo, -FAR), far_add(sum.hi, r.hi, FAR)};
  }
  return sum;
}

void tn_dim_bounds(const tn_dims *t, tn_dim d, int64_t *lo, int64_t *hi) {
  *lo = INT64_MIN;
  *hi = INT64_MAX;
  if (!tn_dim_valid(t, d)) return;
  range r = dim_range(t, d);
  if (r.lo > INT64_MIN) *lo = r.lo < INT64_MAX ? (int64_t)r.lo : INT64_MAX;
  if (r.hi < INT64_MAX) *hi = r.hi > INT64_MIN ? (int64_t)r.hi : INT64_MIN;
}

/* ---- evaluation ---- */
static bool eval(const tn_dims *t, tn_dim d, const int64_t *sym, int64_t *out);

static bool eval_atom(const tn_dims *t, uint32_t i, const int64_t *sym, int64_t *out) {
  const tn_dim_atom_row *x = &t->atom[i];
  if (x->kind == TN_DA_SYM) {
    *out = sym[x->ordinal];
    return true;
  }
  int64_t a, b;
  if (!eval(t, x->a, sym, &a) || !eval(t, x->b, sym, &b)) return false;
  switch (x->kind) {
    case TN_DA_MIN: *out = a < b ? a : b; return true;
    case TN_DA_MAX: *out = a > b ? a : b; return true;
    default: break;
  }
  if (b == 0 || (a == INT64_MIN && b == -1)) return false;
  *out = x->kind == TN_DA_FLOORDIV ? tn_floor_div(a, b) : tn_floor_mod(a, b);
  return true;
}

static bool eval(const tn_dims *t, tn_dim d, const int64_t *sym, int64_t *out) {
  *out = d;
  if (d >= 0) return true;
  tn_dim_poly p = tn_dim_expr_at(t, d)->p;
  int64_t sum = 0;
  for (uint32_t i = 0; i < p.n; i++) {
    int64_t v = p.t[i].c, f;
    for (uint32_t k = 0; k < p.t[i].n; k++)
      if (!eval_atom(t, p.t[i].f[k], sym, &f) || __builtin_mul_overflow(v, f, &v)) return false;
    if (__builtin_add_overflow(sum, v, &sum)) return false;
  }
  *out = sum;
  return true;
}

tn_status tn_dim_eval(const tn_dims *t, tn_dim d, const int64_t *sym_values, int64_t *out) {
  return tn_dim_valid(t, d) && eval(t, d, sym_values, out) ? TN_OK : TN_E_ARG;
}

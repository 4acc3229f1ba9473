/* Division, remainder, minimum and maximum of dims: what is rewritten before an atom is made.
 *
 * All rules hold for every integer value of the symbols for which the divisor is not 0 (floor semantics, as Python's):
 *   split     (q*b + r) // b = q + r // b,  (q*b + r) % b = r % b        coefficients of r end in [0, c) for b = c*M
 *   cancel    (g*a) // (g*b) = a // b,      (g*a) % (g*b) = g * (a % b)  g: common integer and atom factors
 *   gcd       (g*X + k) // (g*c) = (X + k//g) // c, and % likewise       c, k constants: k need not share the factor
 *   nest      (x // m + P) // b = (x + m*P) // (m*b)                     b >= 1
 *   mod-mod   (P * (x % m) + r) % b = (P*x + r) % b                      where b divides P*m
 *   sign      a // -b = -a // b, a % -b = -(-a % b);  -a // c = -((a + c - 1) // c) for constant c
 *   bounds    the quotient is constant when the ranges say so
 * A rule that needs a number too large for int64 is left out.
 * Divisors that are sums are split only when that leaves fewer terms. min and max flatten, sort and drop what is provably
 * not the answer. It does not relate floordiv and mod of the same pair to each other. */
#include "dim_int.h"

static bool mono_has(tn_dim_term x, tn_dim_term by) { /* every factor of `by` in x; both sorted the same way */
  uint32_t i = 0;
  for (uint32_t k = 0; k < by.n; k++, i++) {
    while (i < x.n && x.f[i] != by.f[k]) i++;
    if (i == x.n) return false;
  }
  return true;
}

/* x without the factors of `by`, coefficient c. */
static bool mono_div(tn_dims *t, tn_dim_term x, tn_dim_term by, int64_t c, tn_dim_term *out) {
  uint32_t *f = TN_NEW(&t->scratch, uint32_t, x.n - by.n), n = 0;
  if (!f) return false;
  for (uint32_t i = 0, k = 0; i < x.n; i++) {
    if (k < by.n && x.f[i] == by.f[k]) k++;
    else f[n++] = x.f[i];
  }
  *out = (tn_dim_term){c, n, f};
  return true;
}

/* a = q*b + r. `exact`: only whole coefficients and only while the leading term goes; then r = 0 says b divides a. */
static bool poly_split(tn_dims *t, tn_dim_poly a, tn_dim_poly b, bool exact, tn_dim_poly *q, tn_dim_poly *r) {
  *q = (tn_dim_poly){0};
  *r = a;
  tn_dim_term lead = b.t[0];
  uint32_t pos = 0;
  for (int steps = 0; pos < r->n && steps < 4 * TN_DIM_MAX_TERMS; steps++) {
    tn_dim_term x = r->t[pos], by;
    int64_t k = mono_has(x, lead) ? tn_floor_div(x.c, lead.c) : 0;
    bool whole = k && k * lead.c == x.c;
    if (exact && !whole) return true;
    if (k) {
      tn_dim_poly part, one = {&by, 1};
      if (!mono_div(t, x, lead, k, &by) || !tn_dim_poly_mul_term(t, b, by, &part)) return false;
      if (!tn_dim_poly_add(t, *r, part, -1, r) || !tn_dim_poly_add(t, *q, one, 1, q)) return false;
    }
    if (!whole) pos++; /* the term stays, with a smaller coefficient; a whole one is gone and the next has moved up */
  }
  return true;
}

static int64_t gcd(int64_t a, int64_t b) {
  a = a < 0 ? -a : a;
  b = b < 0 ? -b : b;
  while (b) {
    int64_t r = a % b;
    a = b;
    b = r;
  }
  return a;
}

/* The common factor of all terms of a and b: integer times atoms. */
static bool common_factor(tn_dims *t, tn_dim_poly a, tn_dim_poly b, tn_dim_term *out) {
  int64_t c = 0;
  uint32_t n = 0;
  const tn_dim_term *first = &b.t[0];
  uint32_t *f = TN_NEW(&t->scratch, uint32_t, first->n);
  if (!f) return false;
  for (uint32_t i = 0; i < a.n + b.n; i++) c = gcd(c, i < a.n ? a.t[i].c : b.t[i - a.n].c);
  for (uint32_t k = 0; k < first->n; k++) { /* keep a factor while f[0..n] plus it still divides everything */
    f[n] = first->f[k];
    tn_dim_term with = {1, n + 1, f};
    bool all = true;
    for (uint32_t i = 0; all && i < a.n + b.n; i++) all = mono_has(i < a.n ? a.t[i] : b.t[i - a.n], with);
    n += all;
  }
  *out = (tn_dim_term){c, n, f};
  return true;
}

static bool div_by_common(tn_dims *t, tn_dim_poly a, tn_dim_term g, tn_dim_poly *out) {
  tn_dim_term *r = TN_NEW(&t->scratch, tn_dim_term, a.n);
  if (!r) return false;
  for (uint32_t i = 0; i < a.n; i++)
    if (!mono_div(t, a.t[i], g, a.t[i].c / g.c, &r[i])) return false;
  *out = (tn_dim_poly){r, a.n};
  return true;
}

static int64_t constant_of(tn_dim_poly p) { return p.n && p.t[p.n - 1].n == 0 ? p.t[p.n - 1].c : 0; }

/* gcd of c and the coefficients of all terms with atoms. */
static int64_t symbolic_gcd(tn_dim_poly p, int64_t c) {
  for (uint32_t i = 0; i < p.n; i++)
    if (p.t[i].n) c = gcd(c, p.t[i].c);
  return c;
}

/* Provable 0 <= a < b. */
static bool inside(tn_dims *t, tn_dim a, tn_dim b) {
  int64_t lo, hi;
  tn_dim_bounds(t, a, &lo, &hi);
  if (lo < 0) return false;
  tn_dim rest = tn_dim_sub(t, b, a);
  if (rest == TN_DIM_BAD) return false;
  tn_dim_bounds(t, rest, &lo, &hi);
  return lo >= 1;
}

static int64_t low(tn_dims *t, tn_dim d) {
  int64_t lo, hi;
  tn_dim_bounds(t, d, &lo, &hi);
  return lo;
}

/* The quotient when ranges leave only one (constant positive divisor). */
static bool one_quotient(tn_dims *t, tn_dim a, int64_t c, int64_t *q) {
  int64_t lo, hi;
  tn_dim_bounds(t, a, &lo, &hi);
  if (lo == INT64_MIN || hi == INT64_MAX) return false;
  *q = tn_floor_div(lo, c);
  return *q == tn_floor_div(hi, c);
}

/* A quotient or remainder on its way: value = base + scale * (a op b). */
typedef struct work {
  tn_dim a, b, base;
  int64_t scale;
} work;

static tn_dim finish(tn_dims *t, const work *w, tn_dim v) {
  tn_dim s = tn_dim_int(t, w->scale);
  return tn_dim_add(t, w->base, tn_dim_mul(t, s, v));
}

static bool lead_negative(tn_dims *t, tn_dim d) { return d < 0 && tn_dim_expr_at(t, d)->p.t[0].c < 0; }

/* sign rule: the first term with atoms that c does not divide has a negative coefficient. */
static bool rounds_up(tn_dims *t, tn_dim a, int64_t c) {
  if (a >= 0) return false;
  tn_dim_poly p = tn_dim_expr_at(t, a)->p;
  for (uint32_t i = 0; i < p.n && p.t[i].n; i++)
    if (p.t[i].c % c != 0) return p.t[i].c < 0;
  return false;
}

/* split: a -> r, q out. False: no use. Runs in scratch of the caller. */
static bool split(tn_dims *t, tn_dim a, tn_dim b, tn_dim *q, tn_dim *r) {
  tn_dim_poly pa, pb, pq, pr;
  if (!tn_dim_view(t, a, &pa) || !tn_dim_view(t, b, &pb)) return false;
  if (!poly_split(t, pa, pb, false, &pq, &pr) || pq.n == 0) return false;
  if (pb.n > 1 && pr.n >= pa.n) return false;
  *q = tn_dim_intern(t, pq);
  *r = tn_dim_intern(t, pr);
  return *q != TN_DIM_BAD && *r != TN_DIM_BAD;
}

/* cancel and gcd rules: new a and b, and the factor by which a remainder grows; k: what a remainder gets added. */
static bool cancel(tn_dims *t, tn_dim a, tn_dim b, tn_dim *new_a, tn_dim *new_b, tn_dim *factor, int64_t *k) {
  tn_dim_poly pa, pb, qa, qb;
  int64_t c;
  *k = 0;
  if (!tn_dim_view(t, a, &pa) || !tn_dim_view(t, b, &pb)) return false;
  if (tn_dim_as_int(t, b, &c)) {
    int64_t g = symbolic_gcd(pa, c), k0 = constant_of(pa);
    if (g <= 1) return false;
    *k = tn_floor_mod(k0, g);
    tn_dim whole = tn_dim_sub(t, a, *k); /* every term now has the factor g */
    tn_dim_poly pw;
    if (whole == TN_DIM_BAD || !tn_dim_view(t, whole, &pw) || !div_by_common(t, pw, (tn_dim_term){g, 0, NULL}, &qa)) return false;
    *new_a = tn_dim_intern(t, qa);
    *new_b = c / g;
    *factor = g;
    return *new_a != TN_DIM_BAD;
  }
  tn_dim_term g;
  if (!common_factor(t, pa, pb, &g) || (g.c == 1 && g.n == 0)) return false;
  if (!div_by_common(t, pa, g, &qa) || !div_by_common(t, pb, g, &qb)) return false;
  *new_a = tn_dim_intern(t, qa);
  *new_b = tn_dim_intern(t, qb);
  *factor = tn_dim_intern(t, (tn_dim_poly){&g, 1});
  return *new_a != TN_DIM_BAD && *new_b != TN_DIM_BAD && *factor != TN_DIM_BAD;
}

/* nest rule: finds a term 1 * (x // m) in a. */
static bool unnest(tn_dims *t, tn_dim a, tn_dim b, tn_dim *new_a, tn_dim *new_b) {
  if (a >= 0 || low(t, b) < 1) return false;
  tn_dim_poly p = tn_dim_expr_at(t, a)->p;
  for (uint32_t i = 0; i < p.n; i++) {
    if (p.t[i].c != 1 || p.t[i].n != 1 || t->atom[p.t[i].f[0]].kind != TN_DA_FLOORDIV) continue;
    tn_dim x = t->atom[p.t[i].f[0]].a, m = t->atom[p.t[i].f[0]].b;
    tn_dim rest = tn_dim_sub(t, a, tn_dim_intern(t, (tn_dim_poly){&p.t[i], 1}));
    *new_a = tn_dim_add(t, x, tn_dim_mul(t, m, rest));
    *new_b = tn_dim_mul(t, m, b);
    return *new_a != TN_DIM_BAD && *new_b != TN_DIM_BAD;
  }
  return false;
}

static bool bad_operands(tn_dims *t, tn_dim a, tn_dim b) { return !tn_dim_valid(t, a) || !tn_dim_valid(t, b); }

tn_dim tn_dim_floordiv(tn_dims *t, tn_dim a, tn_dim b) {
  if (bad_operands(t, a, b) || b == 0) return TN_DIM_BAD;
  tn_mark m = tn_arena_mark(&t->scratch);
  work w = {a, b, 0, 1};
  tn_dim out = TN_DIM_BAD;
  for (int steps = 0; steps < 64 && w.a != TN_DIM_BAD && w.b != TN_DIM_BAD && w.base != TN_DIM_BAD; steps++) {
    int64_t x, c, k;
    tn_dim q, r, f;
    bool b_const = tn_dim_as_int(t, w.b, &c);
    if (w.a == 0 || inside(t, w.a, w.b)) {
      out = w.base;
      break;
    }
    if (b_const && tn_dim_as_int(t, w.a, &x)) {
      out = finish(t, &w, tn_dim_int(t, tn_floor_div(x, c)));
      break;
    }
    if (lead_negative(t, w.b)) {
      w.a = tn_dim_sub(t, 0, w.a);
      w.b = tn_dim_sub(t, 0, w.b);
      continue;
    }
    if (b_const && one_quotient(t, w.a, c, &x)) {
      out = finish(t, &w, tn_dim_int(t, x));
      break;
    }
    if (!b_const && (q = tn_dim_add(t, w.a, w.b)) != TN_DIM_BAD && inside(t, q, w.b)) { /* -b <= a < 0 */
      out = finish(t, &w, tn_dim_int(t, -1));
      break;
    }
    if (b_const && rounds_up(t, w.a, c)) {
      w.a = tn_dim_sub(t, c - 1, w.a);
      w.scale = -w.scale;
      continue;
    }
    if (split(t, w.a, w.b, &q, &r)) {
      w.base = finish(t, &w, q);
      w.a = r;
      continue;
    }
    if (cancel(t, w.a, w.b, &q, &r, &f, &k)) {
      w.a = q;
      w.b = r;
      continue;
    }
    if (unnest(t, w.a, w.b, &q, &r)) {
      w.a = q;
      w.b = r;
      continue;
    }
    out = finish(t, &w, tn_dim_atom_get(t, TN_DA_FLOORDIV, w.a, w.b));
    break;
  }
  tn_arena_rewind(&t->scratch, m);
  return out;
}

/* mod-mod rule. */
static bool drop_inner_mod(tn_dims *t, tn_dim a, tn_dim b, tn_dim *new_a) {
  if (a >= 0) return false;
  tn_dim_poly p = tn_dim_expr_at(t, a)->p;
  for (uint32_t i = 0; i < p.n; i++) {
    for (uint32_t k = 0; k < p.t[i].n; k++) {
      const uint32_t atom = p.t[i].f[k];
      if (t->atom[atom].kind != TN_DA_MOD) continue;
      tn_dim x = t->atom[atom].a, mod = t->atom[atom].b, others, q;
      tn_dim_term rest;
      if (!mono_div(t, p.t[i], (tn_dim_term){1, 1, &atom}, p.t[i].c, &rest)) return false;
      others = tn_dim_intern(t, (tn_dim_poly){&rest, 1});
      tn_dim period = tn_dim_mul(t, others, mod);
      if (period == TN_DIM_BAD || !tn_dim_divides(t, b, period, &q)) continue;
      tn_dim without = tn_dim_sub(t, a, tn_dim_intern(t, (tn_dim_poly){&p.t[i], 1}));
      *new_a = tn_dim_add(t, without, tn_dim_mul(t, others, x));
      return *new_a != TN_DIM_BAD;
    }
  }
  return false;
}

tn_dim tn_dim_mod(tn_dims *t, tn_dim a, tn_dim b) {
  if (bad_operands(t, a, b) || b == 0) return TN_DIM_BAD;
  tn_mark m = tn_arena_mark(&t->scratch);
  tn_dim out = TN_DIM_BAD, base = 0, scale = 1;
  for (int steps = 0; steps < 64 && a != TN_DIM_BAD && b != TN_DIM_BAD && base != TN_DIM_BAD && scale != TN_DIM_BAD; steps++) {
    int64_t x, c, k;
    tn_dim q, r, f;
    bool b_const = tn_dim_as_int(t, b, &c);
    if (a == 0 || inside(t, a, b)) {
      out = tn_dim_add(t, base, tn_dim_mul(t, scale, a));
      break;
    }
    if (b_const && tn_dim_as_int(t, a, &x)) {
      out = tn_dim_add(t, base, tn_dim_mul(t, scale, tn_dim_int(t, tn_floor_mod(x, c))));
      break;
    }
    if (lead_negative(t, b)) {
      a = tn_dim_sub(t, 0, a);
      b = tn_dim_sub(t, 0, b);
      scale = tn_dim_sub(t, 0, scale);
      continue;
    }
    if (b_const && one_quotient(t, a, c, &x)) {
      tn_dim rest = tn_dim_sub(t, a, tn_dim_mul(t, tn_dim_int(t, x), b));
      out = tn_dim_add(t, base, tn_dim_mul(t, scale, rest));
      break;
    }
    if (!b_const && (q = tn_dim_add(t, a, b)) != TN_DIM_BAD && inside(t, q, b)) { /* -b <= a < 0 */
      out = tn_dim_add(t, base, tn_dim_mul(t, scale, q));
      break;
    }
    if (split(t, a, b, &q, &r)) {
      a = r;
      continue;
    }
    if (drop_inner_mod(t, a, b, &q)) {
      a = q;
      continue;
    }
    if (cancel(t, a, b, &q, &r, &f, &k)) {
      base = tn_dim_add(t, base, tn_dim_mul(t, scale, k));
      scale = tn_dim_mul(t, scale, f);
      a = q;
      b = r;
      continue;
    }
    out = tn_dim_add(t, base, tn_dim_mul(t, scale, tn_dim_atom_get(t, TN_DA_MOD, a, b)));
    break;
  }
  tn_arena_rewind(&t->scratch, m);
  return out;
}

tn_dim tn_dim_ceildiv(tn_dims *t, tn_dim a, tn_dim b) {
  if (bad_operands(t, a, b)) return TN_DIM_BAD;
  if (low(t, b) >= 1) return tn_dim_floordiv(t, tn_dim_add(t, a, tn_dim_sub(t, b, 1)), b);
  return tn_dim_sub(t, 0, tn_dim_floordiv(t, tn_dim_sub(t, 0, a), b));
}

bool tn_dim_divides(tn_dims *t, tn_dim a, tn_dim b, tn_dim *out_q) {
  if (bad_operands(t, a, b) || a == 0) return false;
  tn_mark m = tn_arena_mark(&t->scratch);
  tn_dim_poly pa, pb, q, r;
  bool ok = tn_dim_view(t, a, &pa) && tn_dim_view(t, b, &pb) && poly_split(t, pb, pa, true, &q, &r) && r.n == 0;
  tn_dim v = ok ? tn_dim_intern(t, q) : TN_DIM_BAD;
  tn_arena_rewind(&t->scratch, m);
  if (v == TN_DIM_BAD) return false;
  if (out_q) *out_q = v;
  return true;
}

/* ---- min and max ---- */

/* Adds d to the sorted list of operands unless another one makes it needless; drops those that it makes needless. */
static bool add_operand(tn_dims *t, tn_dim_atom kind, tn_dim d, tn_dim *list, uint32_t *n) {
  uint32_t keep = 0;
  bool needless = false;
  for (uint32_t i = 0; i < *n; i++) {
    tn_dim diff = tn_dim_sub(t, d, list[i]);
    int64_t lo = INT64_MIN, hi = INT64_MAX;
    if (diff != TN_DIM_BAD) tn_dim_bounds(t, diff, &lo, &hi);
    bool below = hi <= 0, above = lo >= 0; /* d <= list[i], d >= list[i], provably */
    if (!needless && (kind == TN_DA_MIN ? above : below)) needless = true;
    if (needless || !(kind == TN_DA_MIN ? below : above)) list[keep++] = list[i];
  }
  *n = keep;
  if (needless) return true;
  if (*n == 16) return false;
  uint32_t at = *n;
  while (at > 0 && tn_dim_cmp(t, d, list[at - 1]) < 0) {
    list[at] = list[at - 1];
    at--;
  }
  list[at] = d;
  ++*n;
  return true;
}

static bool add_flat(tn_dims *t, tn_dim_atom kind, tn_dim d, tn_dim *list, uint32_t *n) {
  uint32_t atom = tn_dim_as_atom(t, d);
  if (!atom || t->atom[atom].kind != kind) return add_operand(t, kind, d, list, n);
  tn_dim a = t->atom[atom].a, b = t->atom[atom].b;
  return add_flat(t, kind, a, list, n) && add_flat(t, kind, b, list, n);
}

static tn_dim min_max(tn_dims *t, tn_dim_atom kind, tn_dim a, tn_dim b) {
  if (bad_operands(t, a, b)) return TN_DIM_BAD;
  tn_dim list[16];
  uint32_t n = 0;
  if (!add_flat(t, kind, a, list, &n) || !add_flat(t, kind, b, list, &n)) { /* too many operands: as they come */
    bool in_order = tn_dim_cmp(t, a, b) <= 0;
    return tn_dim_atom_get(t, kind, in_order ? a : b, in_order ? b : a);
  }
  tn_dim v = list[0];
  for (uint32_t i = 1; i < n && v != TN_DIM_BAD; i++) v = tn_dim_atom_get(t, kind, v, list[i]);
  return v;
}

tn_dim tn_dim_min(tn_dims *t, tn_dim a, tn_dim b) { return min_max(t, TN_DA_MIN, a, b); }

tn_dim tn_dim_max(tn_dims *t, tn_dim a, tn_dim b) { return min_max(t, TN_DA_MAX, a, b); }

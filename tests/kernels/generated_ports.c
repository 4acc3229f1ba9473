/* Operands and results of a case: memory that faults at its ends, layouts, random values, and when two values count as equal. */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>
#include "generated_int.h"

/* ---- memory between unmapped pages ---- */

size_t gen_page(void) { return (size_t)sysconf(_SC_PAGESIZE); }

bool gen_mem_make(gen_mem *m, size_t bytes, bool at_end) {
  size_t pg = gen_page(), body = (bytes + pg - 1) / pg * pg;
  if (body == 0) body = pg;
  m->n_map = body + 2 * pg;
  m->bytes = bytes;
  m->map = mmap(NULL, m->n_map, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (m->map == MAP_FAILED) return false;
  if (mprotect(m->map + pg, body, PROT_READ | PROT_WRITE)) return false;
  m->p = at_end ? m->map + pg + body - bytes : m->map + pg;
  memset(m->map + pg, GEN_FILL, body);
  return true;
}
void gen_mem_free(gen_mem *m) {
  if (m->map && m->map != MAP_FAILED) munmap(m->map, m->n_map);
  m->map = NULL;
}
/* ---- random ---- */
uint64_t gen_seed;
uint64_t gen_rnd(void) { /* splitmix64 */
  uint64_t z = (gen_seed += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}
static double rnd01(void) { return (double)(gen_rnd() >> 11) * 0x1p-53; }
/* ---- layouts ---- */
void gen_view(gen_case *c, const tn_type *t, gen_layout lay, const tn_dim *own, tn_lview *v) {
  tn_dim order[TN_MAX_RANK], run = 1;
  *v = (tn_lview){.dtype = (tn_dtype)t->dtype, .rank = t->rank};
  for (uint32_t i = 0; i < t->rank; i++) {
    v->dim[i] = t->dim[i];
    order[i] = lay == LAY_TURNED ? t->rank - 1u - i : i;
  }
  if (lay == LAY_LAST && t->rank >= 3) {
    for (uint32_t i = 2; i < t->rank; i++) order[i - 1] = i;
    order[t->rank - 1] = 1;
  }
  for (uint32_t i = t->rank; i-- > 0;) {
    v->stride[order[i]] = run;
    run = tn_dim_mul(c->dims, run, t->dim[order[i]]);
    if (lay == LAY_PADDED && i + 1 == t->rank) run = tn_dim_add(c->dims, run, 3);
  }
  if (own)
    for (uint32_t i = 0; i < t->rank; i++) v->stride[i] = own[i];
}

bool gen_port_set(gen_case *c, const tn_type *t, const int64_t *sym, gen_port *p) {
  p->t = (tn_dtype)t->dtype;
  p->rank = t->rank;
  p->n = 1;
  int64_t last = 0;
  for (uint32_t i = 0; i < t->rank; i++) {
    if (tn_dim_eval(c->dims, p->view.dim[i], sym, &p->dim[i]) != TN_OK ||
        tn_dim_eval(c->dims, p->view.stride[i], sym, &p->stride[i]) != TN_OK)
      return false;
    p->n *= p->dim[i];
    last += (p->dim[i] - 1) * p->stride[i];
  }
  p->elems = p->n ? last + 1 : 0;
  return true;
}

/* Calls f for every element: its place in memory and in the row-major values. */
static void each(const gen_port *p, void (*f)(void *u, int64_t mem_at, int64_t dense_at), void *u) {
  int64_t i[TN_MAX_RANK] = {0};
  for (int64_t n = 0; n < p->n; n++) {
    int64_t at = 0;
    for (uint32_t k = 0; k < p->rank; k++) at += i[k] * p->stride[k];
    f(u, at, n);
    for (uint32_t k = p->rank; k-- > 0 && ++i[k] == p->dim[k];) i[k] = 0;
  }
}
typedef struct mover {
  const gen_port *p;
  char *mem;
  char *dense;
  bool *covered;
  bool to_mem;
} mover;
static void move(void *u, int64_t at, int64_t dense_at) {
  mover *m = u;
  size_t z = tn_dtype_size(m->p->t);
  if (m->covered) m->covered[at] = true;
  if (m->to_mem)
    memcpy(m->mem + (size_t)at * z, m->dense + (size_t)dense_at * z, z);
  else
    memcpy(m->dense + (size_t)dense_at * z, m->mem + (size_t)at * z, z);
}

void gen_move(const gen_port *p, char *mem, char *dense, bool *covered, bool to_mem) {
  each(p, move, &(mover){p, mem, dense, covered, to_mem});
}

void gen_fill(const gen_case *c, gen_port *p) {
  size_t z = tn_dtype_size(p->t);
  static const double odd[] = {INFINITY, -INFINITY, NAN, -0.0, 0, 1e30, -1e30, 88, -88, 1e-40};
  for (int64_t i = 0; i < p->n; i++) {
    tn_num v;
    if (tn_dtype_is_float(p->t)) {
      v.f = rnd01() * 2 - (c->positive ? 0 : 1);
      if (c->special && gen_rnd() % 4 == 0) v.f = odd[gen_rnd() % 10];
      if (c->positive && v.f <= 0) v.f = 0.5;
    } else {
      int64_t m = c->index_max ? c->index_max : 3;
      v.i = p->t == TN_BOOL ? (int64_t)(gen_rnd() & 1) : (int64_t)(gen_rnd() % (uint64_t)(2 * m)) - m;
      if (c->outside && p->t == TN_I64 && gen_rnd() % 3 == 0) v.i = gen_rnd() & 1 ? m + 5 : -m - 7;
      if (tn_dtype_is_unsigned(p->t) && v.i < 0) v.i += p->t == TN_U8 || gen_rnd() % 2 ? 2 * m : 0; /* half of them huge */
    }
    tn_num_store(p->t, p->dense + i * (int64_t)z, v);
  }
}
/* ---- comparing ---- */
static double eps_of(tn_dtype t) { return t == TN_F64 ? 0x1p-52 : t == TN_F32 ? 0x1p-23 : t == TN_F16 ? 0x1p-10 : 0x1p-7; }

/* Floats: within some units of the larger of the value and the result's typical size. */
bool gen_same(const gen_port *p, const char *got, const char *want, double terms, double loose, char *why, size_t n_why) {
  size_t z = tn_dtype_size(p->t);
  double mean = 0, eps = eps_of(p->t);
  int64_t n = 0;
  if (!tn_dtype_is_float(p->t)) {
    for (int64_t i = 0; i < p->n; i++) {
      tn_num x = tn_num_load(p->t, got + i * (int64_t)z), y = tn_num_load(p->t, want + i * (int64_t)z);
      bool raw_bool = p->t != TN_BOOL || (unsigned char)got[i] < 2;
      if (x.i == y.i && raw_bool) continue;
      snprintf(why, n_why, "element %lld of %lld is %lld, wanted %lld", (long long)i, (long long)p->n, (long long)x.i, (long long)y.i);
      return false;
    }
    return true;
  }
  for (int64_t i = 0; i < p->n; i++) {
    double y = tn_num_load(p->t, want + i * (int64_t)z).f;
    if (isfinite(y) && fabs(y) < 1e20) mean += fabs(y), n++;
  }
  if (n) mean /= (double)n;
  if (n < 8 && mean < 0.1 * sqrt(terms)) mean = 0.1 * sqrt(terms); /* a few sums: what they cancelled from */
  double tol = eps * (p->t == TN_F32 || p->t == TN_F64 ? 16 + 2 * sqrt(terms) : 3) * (loose ? loose : 1);
  for (int64_t i = 0; i < p->n; i++) {
    double x = tn_num_load(p->t, got + i * (int64_t)z).f, y = tn_num_load(p->t, want + i * (int64_t)z).f;
    if ((isnan(x) && isnan(y)) || x == y) continue;
    double scale = fabs(y) > mean ? fabs(y) : mean;
    if (fabs(x - y) <= tol * scale) continue;
    if (fabs(y) < 1e-37 && fabs(x) < 1e-37 && p->t != TN_F64) continue;
    snprintf(why, n_why, "element %lld of %lld is %.9g, wanted %.9g (off by %.3g, allowed %.3g)", (long long)i, (long long)p->n, x, y,
             fabs(x - y), tol * scale);
    return false;
  }
  return true;
}

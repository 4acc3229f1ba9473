/* The plan object: its arena, its expressions, its library table. A plan owns one arena that holds everything but
 * caller-owned constants and objects; arrays are filled in place by whoever builds the plan (lower, parse, package). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "plan/plan.h"

typedef struct tn_plan_owner { tn_plan plan; tn_arena arena; } tn_plan_owner; /* plan first: a tn_plan pointer is an owner pointer */

tn_status tn_plan_create(const char *name, tn_plan **out) {
  *out = NULL;
  tn_plan_owner *o = tn_calloc(1, sizeof *o);
  if (!o) return TN_E_NOMEM;
  tn_arena_init(&o->arena);
  o->plan.arena = &o->arena;
  o->plan.name = tn_arena_strdup(&o->arena, name);
  if (!o->plan.name) {
    tn_plan_destroy(&o->plan);
    return TN_E_NOMEM;
  }
  *out = &o->plan;
  return TN_OK;
}

void tn_plan_destroy(tn_plan *p) {
  if (!p) return;
  tn_arena_deinit(p->arena);
  tn_free(p);
}

void *tn_plan_data(tn_plan *p, size_t bytes) {
  if (bytes > SIZE_MAX - 64) return NULL;
  unsigned char *m = tn_arena_alloc(p->arena, bytes + 64);
  return m ? m + (-(uintptr_t)m & 63) : NULL;
}

/* Expressions with equal programs are one: dims are in a normal form, so equal dims have equal programs. */
static bool same_code(const tn_dim_code *a, const tn_dim_code *b, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (a[i].op != b[i].op || a[i].v != b[i].v) return false;
  return true;
}

tn_status tn_plan_dim(tn_diag *diag, tn_plan *p, const tn_dims *dims, tn_dim d, tn_pdim *out) {
  if (tn_dim_is_const(d)) {
    *out = d;
    return TN_OK;
  }
  tn_mark m = tn_arena_mark(p->arena);
  tn_pexpr e = {0};
  tn_status st = tn_dim_compile(p->arena, dims, d, &e.code, &e.n);
  if (st != TN_OK) return tn_fail(diag, st, "a dim expression of the plan cannot be compiled");
  for (uint32_t i = 0; i < p->n_expr; i++)
    if (p->expr[i].n == e.n && same_code(p->expr[i].code, e.code, e.n)) {
      tn_arena_rewind(p->arena, m);
      *out = ~(tn_pdim)i;
      return TN_OK;
    }
  tn_str s;
  tn_str_init(&s);
  tn_dim_print(dims, d, &s);
  if (!s.oom && s.s) e.text = tn_arena_strndup(p->arena, s.s, s.n);
  tn_str_deinit(&s);
  /* No capacity field: room is the next power of two, from 8, so it runs out exactly at those counts. */
  uint32_t n = p->n_expr;
  if (e.text && (n == 0 || (n >= 8 && (n & (n - 1)) == 0))) {
    size_t cap = n == 0 ? 8 : 2 * (size_t)n;
    tn_pexpr *bigger = tn_arena_grow(p->arena, p->expr, n * sizeof *p->expr, cap * sizeof *p->expr);
    if (!bigger) e.text = NULL;
    else p->expr = bigger;
  }
  if (!e.text) return tn_fail(diag, TN_E_NOMEM, "expression %u of the plan", n);
  p->expr[p->n_expr++] = e;
  *out = ~(tn_pdim)n;
  return TN_OK;
}

tn_status tn_plan_eval(tn_diag *diag, const tn_plan *p, const int64_t *sym_values, int64_t *expr_values) {
  for (uint32_t i = 0; i < p->n_expr; i++)
    if (tn_dim_code_eval(p->expr[i].code, p->expr[i].n, sym_values, p->n_sym, &expr_values[i]) != TN_OK) {
      tn_fail(diag, TN_E_ARG, "the size %s overflows or divides by zero", p->expr[i].text);
      for (uint32_t s = 0; s < p->n_sym; s++) tn_diag_while(diag, TN_E_ARG, "%s is %" PRId64, p->sym[s].name, sym_values[s]);
      return TN_E_ARG;
    }
  return TN_OK;
}

const char *tn_plan_dim_text(const tn_plan *p, tn_pdim d, char buf[24]) {
  if (d < 0) return ~d < (int64_t)p->n_expr ? p->expr[~d].text : "?";
  snprintf(buf, 24, "%" PRId64, d);
  return buf;
}

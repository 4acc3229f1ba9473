/* Library calls of plans: the rows of plan/lib.def on the kernels of src/kernels. Those want row-major tensors (scatter: any
 * index and source); operands that are not get a row-major copy in memory of the run that is kept (one room per operand
 * position), and results that are not are computed there and copied out. Kernels get the run's pool and share their work out
 * themselves. A new row needs a line in lib.def and a case here. */
#include <inttypes.h>
#include <string.h>
#include "kernels/kernels.h"
#include "runtime/runtime_int.h"

static bool row_major(const tn_tensor *t) {
  int64_t want = 1;
  for (int k = t->rank; k-- > 0;) {
    if (t->shape[k] == 0) return true;
    if (t->shape[k] != 1 && t->strides[k] != want) return false;
    want *= t->shape[k];
  }
  return true;
}

/* A row-major tensor of the same shape in the room of operand k. */
static tn_status dense_like(tn_run *r, uint32_t k, const tn_tensor *t, int64_t stride[TN_PLAN_MAX_RANK], tn_tensor *out) {
  int64_t n = 1;
  for (int i = t->rank; i-- > 0;) {
    stride[i] = n;
    n *= t->shape[i]; /* cannot overflow: bind checked */
  }
  size_t bytes = (size_t)n * tn_dtype_size((tn_dtype)t->dtype);
  if (tn_room_reserve(&r->lib[k], bytes) != TN_OK) return tn_fail(&r->diag, TN_E_NOMEM, "row-major copy of operand %u, %zu bytes", k, bytes);
  *out = *t;
  out->data = r->lib[k].p;
  out->strides = stride;
  return TN_OK;
}

/* How many parameters a row reads at least. */
static uint32_t n_params(uint32_t lib) {
  switch (lib) {
  case TN_LIB_SORT:
  case TN_LIB_INDEX_PUT:
  case TN_LIB_SCATTER:
  case TN_LIB_SCAN: return 2;
  case TN_LIB_TOPK: return 3;
  case TN_LIB_LSTM:
  case TN_LIB_GRU: return 1;
  default: return 0;
  }
}

tn_status tn_lib_check(tn_diag *d, const tn_plan *p, const tn_pstep *s) {
  const char *name = tn_plib_get(s->kernel)->text;
  uint32_t want = n_params(s->kernel);
  if (s->n_param < want) return tn_fail(d, TN_E_VERIFY, "%s has %u parameters, wanted %u (%s)", name, s->n_param, want, tn_plib_get(s->kernel)->params);
  if (s->kernel == TN_LIB_INDEX_PUT) {
    int64_t n_idx = s->param[1];
    if (n_idx < 1 || n_idx > TN_PLAN_MAX_RANK || s->n_in != (uint64_t)n_idx + 2 || s->n_param != (uint64_t)n_idx + 2)
      return tn_fail(d, TN_E_VERIFY, "%s has %u inputs and %u parameters, but %" PRId64 " indices", name, s->n_in, s->n_param, n_idx);
  }
  if (s->kernel == TN_LIB_COPY) {
    const tn_pview *a = &p->view[s->arg[0]], *b = &p->view[s->arg[1]];
    if (a->dtype != b->dtype || a->rank != b->rank) return tn_fail(d, TN_E_VERIFY, "%s has operands of different dtype or rank", name);
  }
  return TN_OK;
}

/* A dim parameter, counted from the end when negative. */
static tn_status dim_of(tn_run *r, const char *name, const tn_tensor *t, int64_t v, int *out) {
  int64_t rank = t->rank ? t->rank : 1, d = v < 0 ? v + rank : v;
  if (d < 0 || d >= rank) return tn_fail(&r->diag, TN_E_VERIFY, "%s over dim %" PRId64 " of rank %d", name, v, t->rank);
  *out = (int)d;
  return TN_OK;
}

static tn_status dispatch(tn_run *r, tn_k_kept *kept, uint32_t lib, const int64_t *v, const tn_tensor *in, tn_tensor *out) {
  const char *name = tn_plib_get(lib)->text;
  int dim, dims[TN_PLAN_MAX_RANK];
  switch ((tn_plib)lib) {
  case TN_LIB_SORT:
    TN_TRY(dim_of(r, name, in, v[0], &dim));
    return tn_k_sort(r->pool, in, dim, v[1] != 0, &out[0], &out[1]);
  case TN_LIB_TOPK:
    TN_TRY(dim_of(r, name, in, v[1], &dim));
    if (v[0] < 0 || v[0] > (in->rank ? in->shape[dim] : 1))
      return tn_fail(&r->diag, TN_E_ARG, "%s wants %" PRId64 " of %" PRId64 " elements", name, v[0], in->rank ? in->shape[dim] : 1);
    return tn_k_topk(r->pool, in, v[0], dim, v[2] != 0, &out[0], &out[1]);
  case TN_LIB_LSTM: return tn_k_lstm(r->pool, kept, in, v[0] != 0, out);
  case TN_LIB_GRU: return tn_k_gru(r->pool, kept, in, v[0] != 0, out);
  case TN_LIB_QDOT: {
    tn_status st = tn_k_qdot(r->pool, &in[0], &in[1], out);
    return st == TN_OK ? st : tn_fail(&r->diag, st, "%s of operands that do not fit", name);
  }
  case TN_LIB_INDEX_PUT:
    for (int64_t i = 0; i < v[1]; i++) TN_TRY(dim_of(r, name, in, v[2 + i], &dims[i]));
    return tn_k_index_put(r->pool, &in[0], &in[1], &in[2], dims, (int)v[1], v[0] != 0, out);
  case TN_LIB_SCATTER: {
    static const char *const how[] = {"set", "sum", "prod", "max", "min"};
    TN_TRY(dim_of(r, name, in, v[0], &dim));
    if (v[1] < 0 || v[1] > 4) return tn_fail(&r->diag, TN_E_VERIFY, "%s has combiner %" PRId64, name, v[1]);
    return tn_k_scatter(r->pool, &in[0], &in[1], &in[2], dim, how[v[1]], out);
  }
  case TN_LIB_SCAN:
    TN_TRY(dim_of(r, name, in, v[1], &dim));
    if (v[0] < 0 || v[0] >= TN_N_COMBINERS) return tn_fail(&r->diag, TN_E_VERIFY, "%s has combiner %" PRId64, name, v[0]);
    tn_k_scan(r->pool, (tn_combiner)v[0], in, dim, out);
    return TN_OK;
  case TN_LIB_COPY: /* handled before */
  case TN_N_LIBS: break;
  }
  return tn_fail(&r->diag, TN_E_INTERNAL, "no code for library row %u", lib);
}

/* Recurrent layers keep their memory, and packed weights that are constants of the plan. */
static tn_k_kept *kept_of(tn_run *r, tn_rstep *s) {
  const tn_pstep *ps = s->plan;
  if (ps->kernel != TN_LIB_LSTM && ps->kernel != TN_LIB_GRU) return NULL;
  s->kept.fixed = true;
  for (uint32_t k = 1; k <= 2; k++) s->kept.fixed &= r->p->plan->buf[r->p->plan->view[ps->arg[k]].buf].kind == TN_PB_CONST;
  return &s->kept;
}

enum { MANY = 32 }; /* operands; index_put has the most: 2 + TN_PLAN_MAX_RANK + 1 */

tn_status tn_lib_call(tn_run *r, tn_rstep *s) {
  const tn_pstep *ps = s->plan;
  if (ps->kernel == TN_LIB_COPY) {
    const tn_tensor *a = &s->tensor[0], *b = &s->tensor[1];
    for (int k = 0; k < a->rank; k++)
      if (a->shape[k] != b->shape[k]) return tn_fail(&r->diag, TN_E_VERIFY, "copy of dim %d: %" PRId64 " to %" PRId64, k, a->shape[k], b->shape[k]);
    tn_copy_strided(r->pool, a, b);
    return TN_OK;
  }
  int64_t stride[MANY][TN_PLAN_MAX_RANK];
  tn_tensor t[MANY];
  if (ps->n_arg > MANY) return tn_fail(&r->diag, TN_E_INTERNAL, "library call with %u operands", ps->n_arg);
  for (uint32_t k = 0; k < ps->n_arg; k++) {
    t[k] = s->tensor[k];
    if (row_major(&t[k]) || (ps->kernel == TN_LIB_SCATTER && (k == 1 || k == 2))) continue;
    TN_TRY(dense_like(r, k, &s->tensor[k], stride[k], &t[k]));
    if (k < ps->n_in) tn_copy_strided(r->pool, &s->tensor[k], &t[k]);
  }
  r->diag.code = TN_OK; /* so that a failure without words is seen */
  tn_status st = dispatch(r, kept_of(r, s), ps->kernel, s->value, t, t + ps->n_in);
  if (st != TN_OK) {
    if (r->diag.code != st) tn_fail(&r->diag, st, "%s failed: %s", tn_plib_get(ps->kernel)->text, tn_status_name(st));
    return st;
  }
  for (uint32_t k = ps->n_in; k < ps->n_arg; k++)
    if (t[k].data != s->tensor[k].data) tn_copy_strided(r->pool, &t[k], &s->tensor[k]);
  return TN_OK;
}

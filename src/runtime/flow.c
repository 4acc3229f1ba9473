/* The steps of functions: calls of plans, dynamic operators, branches, loops, on the values of an activation's slots.
 *
 * The verifier saw to it that slots are written before they are read and that functions nest to a bounded depth and never in themselves, so a
 * function's one frame in the session is free when it is entered; arguments are written straight into it. A value is released behind the
 * last step that reads it (model.c knows which), and its memory serves the next result. */
#include <inttypes.h>
#include <string.h>
#include "runtime/model_int.h"

static const tn_dyn_fn dyn_fn[] = {
#define TN_DYN(id, text, lo, hi, out, doc) tn_dyn_##id,
#include "plan/dyn.def"
#undef TN_DYN
};

void tn_flow_clear(tn_session *s, uint32_t f) {
  for (uint32_t i = 0; i <= s->m->m->func[f].n_slot; i++) {
    tn_value_release(s->slot[f][i]);
    s->slot[f][i] = NULL;
  }
}

static tn_value *hold(tn_value *v) {
  tn_value_retain(v);
  return v;
}

/* An operand that is a size or an item. */
static tn_status pick(tn_session *s, uint32_t f, const tn_mstep *st, uint32_t k, int64_t *out) {
  const tn_marg *a = &st->in[k];
  const tn_value *v = s->slot[f][a->slot];
  char b[160];
  bool tensor = v->kind == TN_VALUE_TENSOR;
  if (a->pick == TN_MP_DIM) {
    if ((!tensor && v->kind != TN_VALUE_STRINGS) || a->index >= (uint32_t)v->t.rank)
      return tn_fail(&s->diag, TN_E_ARG, "operand %u is dim %u of %s", k, a->index, tn_value_text(v, b));
    *out = v->shape[a->index];
    return TN_OK;
  }
  if (!tensor || (!tn_dtype_is_int((tn_dtype)v->t.dtype) && v->t.dtype != TN_BOOL) || a->index >= v->n)
    return tn_fail(&s->diag, TN_E_ARG, "operand %u is item %u of %s", k, a->index, tn_value_text(v, b));
  *out = tn_value_int(v, a->index);
  return TN_OK;
}

/* Operand k as a value with a reference for the caller. */
static tn_status operand(tn_session *s, uint32_t f, const tn_mstep *st, uint32_t k, tn_value **out) {
  int64_t v = 0;
  if (st->in[k].pick == TN_MP_VALUE) {
    *out = hold(s->slot[f][st->in[k].slot]);
    return TN_OK;
  }
  TN_TRY(pick(s, f, st, k, &v));
  *out = tn_value_new_i64(s->values, v);
  return *out ? TN_OK : tn_fail(&s->diag, TN_E_NOMEM, "operand %u", k);
}

static tn_status one_int(tn_session *s, uint32_t f, const tn_mstep *st, uint32_t k, const char *what, int64_t *out) {
  if (st->in[k].pick != TN_MP_VALUE) return pick(s, f, st, k, out);
  const tn_value *v = s->slot[f][st->in[k].slot];
  char b[160];
  if (v->kind != TN_VALUE_TENSOR || v->n != 1 || (!tn_dtype_is_int((tn_dtype)v->t.dtype) && v->t.dtype != TN_BOOL))
    return tn_fail(&s->diag, TN_E_ARG, "%s is %s, wanted one integer or bool", what, tn_value_text(v, b));
  *out = tn_value_int(v, 0);
  return TN_OK;
}

/* ---- calls of plans ---- */

/* Tensors of the operands. Those that the plan wants in other strides than they have are copied: v_in[k] holds the copy. */
static tn_status call_inputs(tn_session *s, uint32_t f, const tn_mstep *st, const tn_plan *p) {
  for (uint32_t k = 0; k < st->n_in; k++) {
    if (st->in[k].pick != TN_MP_VALUE) {
      TN_TRY(pick(s, f, st, k, &s->scalar[k]));
      s->t_in[k] = (tn_tensor){&s->scalar[k], NULL, NULL, 0, TN_I64};
      continue;
    }
    tn_value *v = s->slot[f][st->in[k].slot];
    char b[160];
    if (v->kind != TN_VALUE_TENSOR) return tn_fail(&s->diag, TN_E_ARG, "operand %u is %s, wanted a tensor", k, tn_value_text(v, b));
    s->v_in[k] = p->in[k].stride ? tn_value_dense(s->values, v) : hold(v);
    if (!s->v_in[k]) return tn_fail(&s->diag, TN_E_NOMEM, "dense copy of operand %u", k);
    s->t_in[k] = s->v_in[k]->t;
  }
  return TN_OK;
}

/* The result is a view of operand `in`; of a size it is all one number. */
static tn_value *alias_of(tn_session *s, int32_t in, const tn_tensor *t) {
  tn_value *v = s->v_in[in];
  uint32_t elem = (uint32_t)tn_elem_of_dtype((tn_dtype)t->dtype);
  if (v) return tn_value_view(s->values, v, v->t.dtype == t->dtype ? v->elem : elem, t->data, t->rank, t->shape, t->strides);
  if ((v = tn_value_new(s->values, elem, t->rank, t->shape)))
    for (int64_t i = 0; i < v->n; i++) memcpy((char *)v->t.data + (size_t)i * tn_dtype_size((tn_dtype)t->dtype), t->data, tn_dtype_size((tn_dtype)t->dtype));
  return v;
}

static tn_status call_output(tn_session *s, tn_run *r, uint32_t i) {
  tn_tensor t;
  TN_TRY(tn_run_out(r, i, &t));
  int32_t alias = tn_run_out_alias(r, i);
  tn_value *v;
  s->t_out[i] = t;
  if (t.dtype < 0) {
    v = tn_value_new_none(s->values);
  } else if (alias >= 0) {
    v = alias_of(s, alias, &t);
  } else if (t.data) { /* a size */
    v = tn_value_new_i64(s->values, *(int64_t *)t.data);
  } else {
    v = tn_value_new_strided(s->values, (uint32_t)tn_elem_of_dtype((tn_dtype)t.dtype), t.rank, t.shape, t.strides);
    if (v) s->t_out[i].data = v->t.data;
  }
  s->v_out[i] = v;
  return v ? TN_OK : tn_fail(&s->diag, TN_E_NOMEM, "result %u", i);
}

static tn_status call(tn_session *s, uint32_t f, const tn_mstep *st) {
  tn_run *r;
  TN_TRY(tn_session_plan(s, st->target, &r));
  s->stats.plan_calls++;
  TN_TRY(call_inputs(s, f, st, tn_program_plan(s->m->prog[st->target])));
  tn_status e = tn_run_bind(r, s->t_in, NULL);
  for (uint32_t i = 0; e == TN_OK && i < st->n_out; i++)
    if ((e = call_output(s, r, i)) != TN_OK) return e;
  if (e == TN_OK) e = tn_run_exec(r, s->t_out);
  return e == TN_OK ? e : tn_fail(&s->diag, e, "%s", tn_run_error(r));
}

/* ---- dynamic operators ---- */

static tn_status op(tn_session *s, uint32_t f, const tn_mstep *st) {
  s->stats.dyn_ops++;
  for (uint32_t k = 0; k < st->n_in; k++) TN_TRY(operand(s, f, st, k, &s->v_in[k]));
  tn_dyn_ctx c = {&s->diag, st, tn_dyn_get(st->target)->text, s->v_in, s->v_out, st->n_in, st->n_out, s->pool, s->values, &s->seed};
  s->diag.code = TN_OK; /* so that a failure without words is seen */
  tn_status e = dyn_fn[st->target](&c);
  if (e != TN_OK) return s->diag.code == e ? e : tn_fail(&s->diag, e, "%s failed: %s", c.name, tn_status_name(e));
  for (uint32_t k = 0; k < st->n_out; k++)
    if (st->out[k] && !s->v_out[k]) return tn_fail(&s->diag, TN_E_INTERNAL, "%s made no result %u", c.name, k);
  return TN_OK;
}

/* ---- branches ---- */

static tn_status branch(tn_session *s, uint32_t f, const tn_mstep *st) {
  int64_t yes = 0;
  s->stats.branches++;
  TN_TRY(one_int(s, f, st, 0, "the condition", &yes));
  uint32_t g = st->func[yes ? 0 : 1];
  const tn_mfunc *fn = &s->m->m->func[g];
  tn_status e = TN_OK;
  for (uint32_t k = 0; e == TN_OK && k < fn->n_in; k++) e = operand(s, f, st, k + 1, &s->slot[g][fn->in[k]]);
  if (e == TN_OK) e = tn_flow_run(s, g);
  for (uint32_t k = 0; e == TN_OK && k < fn->n_out; k++)
    if (st->out[k]) s->slot[f][st->out[k]] = hold(s->slot[g][fn->out[k]]);
  tn_flow_clear(s, g);
  return e;
}

/* ---- loops ---- */

typedef struct scan { tn_value *all; int64_t n, cap; } scan; /* all: [cap, ...], n of them written */
typedef struct loop { tn_session *s; const tn_mstep *st; uint32_t f, g; const tn_mfunc *fn; int64_t most; tn_value *cond, **carried; scan *scan; } loop;

/* Room for one more: all of them at once when the count is known and small, else twice as many as there are. */
static tn_status scan_room(loop *l, scan *c, const tn_value *v) {
  enum { FEW = 4096 };
  int64_t cap = c->cap ? 2 * c->cap : l->most <= FEW ? l->most : 8, shape[TN_PLAN_MAX_RANK];
  if (v->t.rank >= TN_PLAN_MAX_RANK) return tn_fail(&l->s->diag, TN_E_UNSUPPORTED, "a scan result of rank %d", v->t.rank);
  shape[0] = cap;
  memcpy(shape + 1, v->shape, (size_t)v->t.rank * sizeof *shape);
  tn_value *all = tn_value_new(l->s->values, v->elem, v->t.rank + 1, shape);
  if (!all) return tn_fail(&l->s->diag, TN_E_NOMEM, "%" PRId64 " scan results of %" PRId64 " elements", cap, v->n);
  if (c->all) memcpy(all->t.data, c->all->t.data, (size_t)(c->n * v->n) * tn_dtype_size((tn_dtype)v->t.dtype));
  tn_value_release(c->all);
  c->all = all;
  c->cap = cap;
  return TN_OK;
}

static tn_status scan_add(loop *l, uint32_t k, const tn_value *v) {
  scan *c = &l->scan[k];
  char a[160], b[160];
  if (v->kind != TN_VALUE_TENSOR) return tn_fail(&l->s->diag, TN_E_UNSUPPORTED, "scan result %u is %s, wanted a tensor", k, tn_value_text(v, a));
  if (c->all && (c->all->elem != v->elem || c->all->t.rank != v->t.rank + 1 || memcmp(c->all->shape + 1, v->shape, (size_t)v->t.rank * sizeof *v->shape) != 0))
    return tn_fail(&l->s->diag, TN_E_ARG, "scan result %u is %s, after %s", k, tn_value_text(v, a), tn_value_text(c->all, b));
  if (c->n == c->cap) TN_TRY(scan_room(l, c, v));
  tn_tensor to = {(char *)c->all->t.data + (size_t)(c->n * v->n) * tn_dtype_size((tn_dtype)v->t.dtype), v->shape, c->all->stride + 1, v->t.rank, v->t.dtype};
  enum { FEW_BYTES = 4096 };
  size_t bytes = (size_t)v->n * tn_dtype_size((tn_dtype)v->t.dtype);
  if (bytes <= FEW_BYTES && tn_value_is_dense(v)) memcpy(to.data, v->t.data, bytes);
  else if (v->n) tn_copy_strided(l->s->pool, &v->t, &to);
  c->n++;
  return TN_OK;
}

/* The stacked result; what nothing was stacked on gets its form from the step's attributes. */
static tn_value *scan_end(loop *l, uint32_t k) {
  scan *c = &l->scan[k];
  int64_t shape[TN_PLAN_MAX_RANK] = {0};
  if (c->all && c->n == c->cap) return hold(c->all);
  if (c->all) {
    memcpy(shape, c->all->shape, sizeof shape);
    shape[0] = c->n;
    return tn_value_view(l->s->values, c->all, c->all->elem, c->all->t.data, c->all->t.rank, shape, c->all->stride);
  }
  const tn_mattr *e = tn_mattr_get(l->st, "scan_elem"), *d = tn_mattr_get(l->st, "scan_shape");
  uint32_t elem = e && e->kind == TN_MA_INTS && k < e->n ? (uint32_t)e->u.i[k] : TN_EL_F32, at = 0;
  tn_dtype t;
  int rank = 0;
  if (!tn_elem_dtype(elem, &t)) elem = TN_EL_F32;
  for (uint32_t j = 0; d && d->kind == TN_MA_INTS && j <= k && at < d->n; j++) {
    int64_t n = d->u.i[at++];
    if (n < 0) n = 0;
    if (n >= TN_PLAN_MAX_RANK || at + n > d->n) break;
    if (j == k)
      for (rank = 0; rank < n; rank++) shape[rank + 1] = d->u.i[at + (uint32_t)rank] > 0 ? d->u.i[at + (uint32_t)rank] : 0;
    at += (uint32_t)n;
  }
  return tn_value_new(l->s->values, elem, rank + 1, shape);
}

/* Arguments of one iteration, straight into the body's slots. */
static tn_status enter(loop *l, int64_t i) {
  tn_session *s = l->s;
  tn_value **to = s->slot[l->g];
  const uint32_t *in = l->fn->in;
  if (!(to[in[0]] = tn_value_new_i64(s->values, i))) return tn_fail(&s->diag, TN_E_NOMEM, "number of an iteration");
  if (!l->cond) {
    if (!(l->cond = tn_value_new(s->values, TN_EL_BOOL, 0, NULL))) return tn_fail(&s->diag, TN_E_NOMEM, "condition of a loop");
    *(uint8_t *)l->cond->t.data = 1;
  }
  to[in[1]] = l->cond;
  l->cond = NULL;
  for (uint32_t k = 0; k < l->st->n_carried; k++) {
    to[in[2 + k]] = l->carried[k]; /* moved: the body may be the last to use its memory */
    l->carried[k] = NULL;
  }
  for (uint32_t k = 2 + l->st->n_carried; k < l->st->n_in; k++) TN_TRY(operand(s, l->f, l->st, k, &to[in[k]]));
  return TN_OK;
}

static tn_status leave(loop *l, bool *go_on) {
  tn_session *s = l->s;
  tn_value **from = s->slot[l->g];
  const uint32_t *out = l->fn->out;
  char b[160];
  l->cond = hold(from[out[0]]);
  if (l->cond->kind == TN_VALUE_NONE) {
    tn_value_release(l->cond);
    l->cond = NULL;
  } else if (l->cond->kind != TN_VALUE_TENSOR || l->cond->n != 1 || (l->cond->t.dtype != TN_BOOL && !tn_dtype_is_int((tn_dtype)l->cond->t.dtype))) {
    return tn_fail(&s->diag, TN_E_ARG, "the condition is %s, wanted one bool", tn_value_text(l->cond, b));
  } else {
    *go_on = tn_value_int(l->cond, 0) != 0;
  }
  for (uint32_t k = 0; k < l->st->n_carried; k++) l->carried[k] = hold(from[out[1 + k]]);
  for (uint32_t k = 0; k < l->st->n_scan; k++) TN_TRY_WHILE(&s->diag, scan_add(l, k, from[out[1 + l->st->n_carried + k]]), "stacking what iteration gave");
  return TN_OK;
}

static tn_status iterate(loop *l) {
  tn_session *s = l->s;
  const tn_value *count = s->slot[l->f][l->st->in[0].slot], *cond = s->slot[l->f][l->st->in[1].slot];
  int64_t go = 1;
  bool go_on = true;
  l->most = INT64_MAX;
  if (l->st->in[0].pick || count->kind != TN_VALUE_NONE) TN_TRY(one_int(s, l->f, l->st, 0, "the trip count", &l->most));
  if (l->st->in[1].pick || cond->kind != TN_VALUE_NONE) TN_TRY(one_int(s, l->f, l->st, 1, "the condition", &go));
  for (uint32_t k = 0; k < l->st->n_carried; k++) TN_TRY(operand(s, l->f, l->st, 2 + k, &l->carried[k]));
  go_on = go != 0;
  for (int64_t i = 0; go_on && i < l->most; i++) {
    s->stats.iterations++;
    tn_status e = enter(l, i);
    if (e == TN_OK) e = tn_flow_run(s, l->g);
    if (e == TN_OK) e = leave(l, &go_on);
    tn_flow_clear(s, l->g);
    if (e != TN_OK) return tn_diag_while(&s->diag, e, "in iteration %" PRId64, i);
  }
  for (uint32_t k = 0; k < l->st->n_carried; k++) {
    if (l->st->out[k]) s->slot[l->f][l->st->out[k]] = l->carried[k];
    else tn_value_release(l->carried[k]);
    l->carried[k] = NULL;
  }
  for (uint32_t k = 0; k < l->st->n_scan; k++) {
    uint32_t to = l->st->out[l->st->n_carried + k];
    if (to && !(s->slot[l->f][to] = scan_end(l, k))) return tn_fail(&s->diag, TN_E_NOMEM, "scan result %u", k);
  }
  return TN_OK;
}

static tn_status loop_step(tn_session *s, uint32_t f, const tn_mstep *st) {
  loop l = {.s = s, .st = st, .f = f, .g = st->func[0], .fn = &s->m->m->func[st->func[0]]};
  l.carried = tn_calloc((size_t)st->n_carried + 1, sizeof *l.carried);
  l.scan = tn_calloc((size_t)st->n_scan + 1, sizeof *l.scan);
  tn_status e = l.carried && l.scan ? iterate(&l) : tn_fail(&s->diag, TN_E_NOMEM, "loop with %u carried values", st->n_carried);
  tn_value_release(l.cond);
  for (uint32_t k = 0; l.carried && k < st->n_carried; k++) tn_value_release(l.carried[k]);
  for (uint32_t k = 0; l.scan && k < st->n_scan; k++) tn_value_release(l.scan[k].all);
  tn_free(l.carried);
  tn_free(l.scan);
  return e;
}

/* ---- functions ---- */

/* Results of calls and operators go from v_out to their slots; operands are let go. */
static void settle(tn_session *s, uint32_t f, const tn_mstep *st, bool fine) {
  for (uint32_t k = 0; k < st->n_in; k++) {
    tn_value_release(s->v_in[k]);
    s->v_in[k] = NULL;
  }
  for (uint32_t k = 0; k < st->n_out; k++) {
    if (fine && st->out[k]) s->slot[f][st->out[k]] = s->v_out[k];
    else tn_value_release(s->v_out[k]);
    s->v_out[k] = NULL;
  }
}

static tn_status step(tn_session *s, uint32_t f, const tn_mstep *st) {
  tn_status e;
  switch (st->kind) {
  case TN_MS_BRANCH: return branch(s, f, st);
  case TN_MS_LOOP: return loop_step(s, f, st);
  case TN_MS_CALL: e = call(s, f, st); break;
  default: e = op(s, f, st);
  }
  settle(s, f, st, e == TN_OK);
  return e;
}

tn_status tn_flow_run(tn_session *s, uint32_t f) {
  const tn_mfunc *fn = &s->m->m->func[f];
  const tn_mlife *life = &s->m->life[f];
  for (uint32_t i = 0; i < fn->n_step; i++) {
    const tn_mstep *st = &fn->step[i];
    tn_status e = step(s, f, st);
    if (e != TN_OK) return tn_diag_while(&s->diag, e, "running step %u of '%s'%s%s", i, fn->name, st->text ? ": " : "", st->text ? st->text : "");
    for (uint32_t k = life->at[i]; k < life->at[i + 1]; k++) {
      tn_value_release(s->slot[f][life->slot[k]]);
      s->slot[f][life->slot[k]] = NULL;
    }
  }
  return TN_OK;
}

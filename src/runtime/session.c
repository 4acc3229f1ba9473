/* Sessions: the state of running one model, and its door. Checks what comes in against the ports, runs function 0, and gives out values that
 * stand on their own: what lies in the caller's memory is copied.
 *
 * A model that is one call of a plan goes straight to that plan when the caller brings tensors (tn_session_run_into): nothing is allocated
 * once a size was seen. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/model_int.h"

void tn_session_options_init(tn_session_options *o) { *o = (tn_session_options){.struct_size = sizeof *o}; }

static tn_status make(tn_session *s) {
  const tn_module *m = s->m->m;
  size_t most_in = s->m->most_in > m->n_in ? s->m->most_in : m->n_in, most_out = s->m->most_out > m->n_out ? s->m->most_out : m->n_out;
  int n = s->opt.threads > 0 ? s->opt.threads : atoi(tn_env_get(TN_ENV_THREADS));
  if (n <= 0) n = tn_device_cores();
  s->opt.threads = n;
  s->pool = tn_device_pool(n);
  s->values = tn_vpool_create();
  s->run = TN_NEW(&s->arena, tn_run *, (size_t)m->n_plan + 1);
  s->slot = TN_NEW(&s->arena, tn_value **, m->n_func);
  s->t_in = TN_NEW(&s->arena, tn_tensor, most_in + 1);
  s->t_out = TN_NEW(&s->arena, tn_tensor, most_out + 1);
  s->scalar = TN_NEW(&s->arena, int64_t, most_in + 1);
  s->v_in = TN_NEW(&s->arena, tn_value *, most_in + 1);
  s->v_out = TN_NEW(&s->arena, tn_value *, most_out + 1);
  if ((n > 1 && !s->pool) || !s->values || !s->run || !s->slot || !s->t_in || !s->t_out || !s->scalar || !s->v_in || !s->v_out) return TN_E_NOMEM;
  for (uint32_t f = 0; f < m->n_func; f++)
    if (!(s->slot[f] = TN_NEW(&s->arena, tn_value *, (size_t)m->func[f].n_slot + 1))) return TN_E_NOMEM;
  s->seed = tn_now_ns() ^ (uintptr_t)s * 0x9e3779b97f4a7c15u;
  return TN_OK;
}

tn_status tn_session_create(tn_model *m, const tn_session_options *o, tn_session **out) {
  *out = NULL;
  tn_session_options opt;
  tn_session_options_init(&opt);
  if (o) memcpy(&opt, o, o->struct_size < sizeof opt ? o->struct_size : sizeof opt);
  tn_session *s = tn_calloc(1, sizeof *s);
  if (!s) return TN_E_NOMEM;
  s->m = m;
  tn_model_retain(m);
  tn_arena_init(&s->arena);
  tn_run_options_init(&s->opt);
  s->opt.threads = opt.threads;
  tn_status st = make(s);
  if (st == TN_OK) *out = s;
  else tn_session_destroy(s);
  return st;
}

void tn_session_destroy(tn_session *s) {
  if (!s) return;
  for (uint32_t i = 0; s->run && i < s->m->m->n_plan; i++) tn_run_destroy(s->run[i]);
  tn_room_deinit(&s->work.arena);
  tn_room_deinit(&s->work.scratch);
  tn_vpool_release(s->values);
  tn_arena_deinit(&s->arena);
  tn_model_release(s->m);
  tn_free(s);
}

tn_status tn_session_plan(tn_session *s, uint32_t plan, tn_run **out) {
  *out = s->run[plan];
  if (*out) return TN_OK;
  tn_status st = tn_run_create_on(s->m->prog[plan], &s->opt, &s->work, out);
  if (st != TN_OK) return tn_fail(&s->diag, st, "state for running plan '%s'", s->m->m->plan[plan]->name);
  s->run[plan] = *out;
  return TN_OK;
}

/* ---- what comes in ---- */

/* "input 2 'x'" */
static const char *who(const tn_session *s, bool out, uint32_t i, char b[96]) {
  const char *name = out ? s->m->m->out[i].name : s->m->m->in[i].name, *side = out ? "output" : "input";
  snprintf(b, 96, name && *name ? "%s %u '%.60s'" : "%s %u", side, i, name ? name : "");
  return b;
}

static tn_status check_tensor(tn_session *s, uint32_t i, uint32_t elem, const tn_tensor *t) {
  const tn_mport *p = &s->m->m->in[i];
  char b[96];
  if (p->elem && elem != p->elem)
    return tn_fail(&s->diag, TN_E_ARG, "%s: element type is %s, wanted %s", who(s, false, i, b), tn_elem_name(elem) ? tn_elem_name(elem) : "unknown", tn_elem_name(p->elem));
  if (p->rank >= 0 && t->rank != p->rank) return tn_fail(&s->diag, TN_E_ARG, "%s: rank is %d, wanted %d", who(s, false, i, b), t->rank, p->rank);
  for (int k = 0; k < p->rank; k++)
    if (p->dim[k] >= 0 && t->shape[k] != p->dim[k])
      return tn_fail(&s->diag, TN_E_ARG, "%s: dim %d is %" PRId64 ", wanted %" PRId64, who(s, false, i, b), k, t->shape[k], p->dim[k]);
  return TN_OK;
}

static tn_status check_value(tn_session *s, uint32_t i, const tn_value *v) {
  const tn_mport *p = &s->m->m->in[i];
  static const char *const wanted[] = {"a tensor", "a list of tensors", "a tensor or none", "a list or none", "a map", "a list of maps"};
  bool tensor = v->kind == TN_VALUE_TENSOR || v->kind == TN_VALUE_STRINGS, list = v->kind == TN_VALUE_LIST, none = v->kind == TN_VALUE_NONE;
  char b[96], c[160];
  const bool fits[] = {tensor, list, tensor || none, list || none, v->kind == TN_VALUE_MAP, list, true};
  if (!fits[p->kind]) return tn_fail(&s->diag, TN_E_ARG, "%s is %s, wanted %s", who(s, false, i, b), tn_value_text(v, c), wanted[p->kind]);
  for (int64_t k = 0; list && k < v->n; k++) {
    const tn_value *x = v->u.item[k];
    bool fine = p->kind == TN_PORT_SEQUENCE_MAP ? x->kind == TN_VALUE_MAP
                : p->kind == TN_PORT_ANY      ? true
                                              : (x->kind == TN_VALUE_TENSOR || x->kind == TN_VALUE_STRINGS) && (!p->elem || x->elem == p->elem);
    if (!fine) return tn_fail(&s->diag, TN_E_ARG, "%s: item %" PRId64 " is %s", who(s, false, i, b), k, tn_value_text(x, c));
  }
  return tensor && p->kind != TN_PORT_ANY ? check_tensor(s, i, v->elem, &v->t) : TN_OK;
}

/* ---- what goes out ---- */

/* A value of element type `elem` where the data are those of `v`; v's reference is taken over. */
static tn_value *retype(tn_session *s, tn_value *v, uint32_t elem) {
  tn_dtype t;
  if (!v || v->kind != TN_VALUE_TENSOR || v->elem == elem || !tn_elem_dtype(elem, &t) || (int32_t)t != v->t.dtype) return v;
  tn_value *w = tn_value_view(s->values, v, elem, v->t.data, v->t.rank, v->shape, v->stride);
  tn_value_release(v);
  return w;
}

enum { MOST_NESTED = 16 }; /* lists in lists in a result */

/* Nothing of the caller's in it, and typed as the port says? */
static bool as_it_is(const tn_value *v, uint32_t elem) {
  tn_dtype t;
  bool fine = !v->borrowed;
  for (int64_t i = 0; fine && elem && v->kind == TN_VALUE_LIST && i < v->n; i++) fine = v->u.item[i]->elem == elem || v->u.item[i]->kind != TN_VALUE_TENSOR;
  return fine && (v->kind != TN_VALUE_TENSOR || v->elem == elem || !tn_elem_dtype(elem, &t) || (int32_t)t != v->t.dtype);
}

/* The value without the caller's memory in it, typed as the port says; a new reference. NULL: out of memory, or nested too deep. */
static tn_value *stand_alone(tn_session *s, tn_value *v, uint32_t elem, int depth) {
  tn_value *w = NULL;
  if (as_it_is(v, elem)) return tn_value_retain(v), v;
  if (v->kind == TN_VALUE_LIST && depth < MOST_NESTED) {
    tn_value **item = tn_calloc((size_t)v->n + 1, sizeof *item);
    int64_t n = 0;
    while (item && n < v->n && (item[n] = stand_alone(s, v->u.item[n], elem, depth + 1))) n++;
    if (item && n == v->n) w = tn_value_new_list(s->values, item, (size_t)n);
    for (int64_t i = 0; i < n; i++) tn_value_release(item[i]);
    tn_free(item);
  } else if (v->kind == TN_VALUE_MAP && depth < MOST_NESTED) {
    tn_value *k = stand_alone(s, v->u.item[0], 0, depth + 1), *x = stand_alone(s, v->u.item[1], 0, depth + 1);
    w = k && x ? tn_value_map(k, x) : NULL;
    tn_value_release(k);
    tn_value_release(x);
  } else if (v->kind == TN_VALUE_TENSOR && v->borrowed) {
    w = tn_value_new(s->values, v->elem, v->t.rank, v->shape);
    if (w && w->n) tn_copy_strided(s->pool, &v->t, &w->t);
    w = retype(s, w, elem);
  } else if (v->kind == TN_VALUE_TENSOR) {
    tn_value_retain(v);
    w = retype(s, v, elem);
  }
  return w;
}

static tn_status give(tn_session *s, tn_value **out) {
  const tn_module *m = s->m->m;
  char b[96];
  for (uint32_t i = 0; i < m->n_out; i++) {
    out[i] = stand_alone(s, s->slot[0][m->func[0].out[i]], m->out[i].elem, 0);
    if (out[i]) continue;
    while (i-- > 0) {
      tn_value_release(out[i]);
      out[i] = NULL;
    }
    return tn_fail(&s->diag, TN_E_NOMEM, "copy of %s", who(s, true, i + 1, b));
  }
  return TN_OK;
}

/* ---- runs ---- */

static tn_status run_values(tn_session *s, tn_value *const *in) {
  const tn_module *m = s->m->m;
  for (uint32_t i = 0; i < m->n_in; i++) {
    tn_value *v = in[i];
    if (v) tn_value_retain(v);
    else if (!(v = tn_value_new_none(s->values))) return tn_fail(&s->diag, TN_E_NOMEM, "input %u", i);
    s->slot[0][m->func[0].in[i]] = v;
    TN_TRY(check_value(s, i, v));
  }
  return tn_flow_run(s, 0);
}

tn_status tn_session_run(tn_session *s, tn_value *const *in, tn_value **out) {
  s->stats.calls++;
  tn_status st = run_values(s, in);
  if (st == TN_OK) st = give(s, s->v_out); /* not yet in the caller's array: it stays untouched when something fails */
  for (uint32_t i = 0; i < s->m->m->n_out; i++) {
    if (st == TN_OK) out[i] = s->v_out[i];
    s->v_out[i] = NULL;
  }
  tn_flow_clear(s, 0);
  return st;
}

static uint32_t elem_of_port(const tn_mport *p, const tn_tensor *t) {
  tn_dtype kept;
  if (p->elem && tn_elem_dtype(p->elem, &kept) && (int32_t)kept == t->dtype) return p->elem;
  return t->dtype >= 0 && t->dtype < TN_N_DTYPES ? (uint32_t)tn_elem_of_dtype((tn_dtype)t->dtype) : 0;
}

static tn_status check_result(tn_session *s, uint32_t i, const tn_tensor *is, const tn_tensor *to) {
  char b[96];
  if (is->dtype < 0) return TN_OK;
  if (to->dtype != is->dtype) return tn_fail(&s->diag, TN_E_ARG, "%s: dtype is %d, wanted %d", who(s, true, i, b), to->dtype, is->dtype);
  if (to->rank != is->rank) return tn_fail(&s->diag, TN_E_ARG, "%s: rank is %d, wanted %d", who(s, true, i, b), to->rank, is->rank);
  bool empty = false, dense = true;
  int64_t want = 1;
  for (int k = is->rank; k-- > 0;) {
    if (to->shape[k] != is->shape[k]) return tn_fail(&s->diag, TN_E_ARG, "%s: dim %d is %" PRId64 ", wanted %" PRId64, who(s, true, i, b), k, to->shape[k], is->shape[k]);
    dense &= !to->strides || to->shape[k] == 1 || to->strides[k] == want;
    want *= to->shape[k];
    empty |= to->shape[k] == 0;
  }
  if (!dense && !empty) return tn_fail(&s->diag, TN_E_ARG, "%s is not row-major", who(s, true, i, b));
  if (!to->data && !empty) return tn_fail(&s->diag, TN_E_ARG, "%s: has no memory", who(s, true, i, b));
  return TN_OK;
}

/* Dense strides for a caller's tensor that gives none, in storage[rank]. */
static tn_tensor with_strides(const tn_tensor *t, int64_t *storage) {
  tn_tensor u = *t;
  int64_t all = 1;
  for (int k = t->rank; k-- > 0;) {
    storage[k] = all;
    all *= t->shape[k] ? t->shape[k] : 1;
  }
  u.strides = storage;
  return u;
}

static void copy_out(tn_session *s, const tn_tensor *from, const tn_tensor *to) {
  int64_t stride[TN_PLAN_MAX_RANK];
  for (int k = 0; k < from->rank; k++)
    if (from->shape[k] == 0) return;
  tn_tensor u = with_strides(to, stride);
  tn_copy_strided(s->pool, from, &u);
}

static bool dense(const tn_tensor *t) {
  int64_t want = 1;
  for (int k = t->rank; k-- > 0;) {
    if (t->shape[k] == 0) return true;
    if (t->shape[k] != 1 && t->strides[k] != want) return false;
    want *= t->shape[k];
  }
  return true;
}

/* The model is one call: bind the caller's inputs, compute into the caller's outputs. */
static tn_status run_single(tn_session *s, const tn_tensor *in, tn_tensor *out) {
  const tn_module *m = s->m->m;
  const tn_mstep *st = &m->func[0].step[0];
  tn_run *r;
  char b[96];
  TN_TRY(tn_session_plan(s, st->target, &r));
  const tn_plan *p = tn_program_plan(s->m->prog[st->target]);
  for (uint32_t i = 0; i < m->n_in; i++) {
    s->t_in[i] = in[i];
    if (!p->in[i].stride || !in[i].strides || in[i].rank < 0 || in[i].rank > TN_PLAN_MAX_RANK || dense(&in[i])) continue;
    tn_value *v = tn_value_borrow(&in[i], 0); /* other strides than planned: a row-major copy */
    s->v_in[i] = v ? tn_value_dense(s->values, v) : NULL;
    tn_value_release(v);
    if (!s->v_in[i]) return tn_fail(&s->diag, TN_E_NOMEM, "row-major copy of %s", who(s, false, i, b));
    s->t_in[i] = s->v_in[i]->t;
  }
  tn_status e = tn_run_bind(r, s->t_in, NULL);
  if (e != TN_OK) return tn_fail(&s->diag, e, "%s", tn_run_error(r));
  for (uint32_t i = 0; i < m->n_out; i++) {
    tn_tensor *t = &s->t_out[i];
    TN_TRY(tn_run_out(r, i, t));
    TN_TRY(check_result(s, i, t, &out[i]));
    if (t->dtype < 0 || t->data || tn_run_out_alias(r, i) >= 0) continue;
    if (dense(t)) {
      t->data = out[i].data;
      continue;
    }
    s->v_out[i] = tn_value_new_strided(s->values, (uint32_t)tn_elem_of_dtype((tn_dtype)t->dtype), t->rank, t->shape, t->strides);
    if (!s->v_out[i]) return tn_fail(&s->diag, TN_E_NOMEM, "%s", who(s, true, i, b));
    t->data = s->v_out[i]->t.data;
  }
  s->stats.plan_calls++;
  e = tn_run_exec(r, s->t_out);
  if (e != TN_OK) return tn_fail(&s->diag, e, "%s", tn_run_error(r));
  for (uint32_t i = 0; i < m->n_out; i++) {
    if (s->t_out[i].dtype >= 0 && s->t_out[i].data != out[i].data) copy_out(s, &s->t_out[i], &out[i]);
  }
  return TN_OK;
}

static tn_status run_general(tn_session *s, const tn_tensor *in, tn_tensor *out) {
  const tn_module *m = s->m->m;
  char b[96], c[160];
  for (uint32_t i = 0; i < m->n_in; i++) {
    tn_value *v = tn_value_borrow(&in[i], (int32_t)elem_of_port(&m->in[i], &in[i]));
    if (!v) return tn_fail(&s->diag, TN_E_ARG, "%s: no tensor that can be taken (dtype %d, rank %d), or out of memory", who(s, false, i, b), in[i].dtype, in[i].rank);
    s->slot[0][m->func[0].in[i]] = v;
    TN_TRY(check_value(s, i, v));
  }
  TN_TRY(tn_flow_run(s, 0));
  for (int copy = 0; copy < 2; copy++) /* look at all results before the first is written */
    for (uint32_t i = 0; i < m->n_out; i++) {
      const tn_value *v = s->slot[0][m->func[0].out[i]];
      if (v->kind == TN_VALUE_NONE) continue;
      if (v->kind != TN_VALUE_TENSOR) return tn_fail(&s->diag, TN_E_UNSUPPORTED, "%s is %s: use tn_session_run", who(s, true, i, b), tn_value_text(v, c));
      if (copy) copy_out(s, &v->t, &out[i]);
      else TN_TRY(check_result(s, i, &v->t, &out[i]));
    }
  return TN_OK;
}

tn_status tn_session_run_into(tn_session *s, const tn_tensor *in, tn_tensor *out) {
  const tn_module *m = s->m->m;
  tn_status st = TN_OK;
  s->stats.calls++;
  if (!s->m->single) {
    st = run_general(s, in, out);
    tn_flow_clear(s, 0);
    return st;
  }
  for (uint32_t i = 0; st == TN_OK && i < m->n_in; i++) st = check_tensor(s, i, elem_of_port(&m->in[i], &in[i]), &in[i]);
  if (st == TN_OK) st = run_single(s, in, out);
  for (uint32_t i = 0; i < m->n_in; i++)
    if (s->v_in[i]) tn_value_release(s->v_in[i]), s->v_in[i] = NULL;
  for (uint32_t i = 0; i < m->n_out; i++)
    if (s->v_out[i]) tn_value_release(s->v_out[i]), s->v_out[i] = NULL;
  return st;
}

const char *tn_session_error(const tn_session *s) { return s->diag.text; }

void tn_session_get_stats(const tn_session *s, tn_session_stats *out) {
  *out = s->stats;
  out->arena_bytes = s->work.arena.cap;
  for (uint32_t i = 0; i < s->m->m->n_plan; i++) {
    tn_run_stats r;
    if (!s->run[i]) continue;
    tn_run_get_stats(s->run[i], &r);
    out->binds += r.binds;
    out->packed_bytes += tn_keep_bytes(s->m->prog[i]);
    for (uint32_t k = 0; k < s->run[i]->n_pack; k++) out->packed_bytes += s->run[i]->pack[k].room.cap;
  }
}

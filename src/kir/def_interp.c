/* def_interp.c: runs a definition with plain scalar loops; the oracle that schedules, nests and objects are compared with.
 *
 * Stages are computed one after another over all of their axes, and a stage that others read is kept whole, so the cost is that of the
 * loops the definition says and no more. Inside a stage every reachable node is evaluated once per position of the axes it depends on:
 * nodes are listed by loop depth, operands before readers. Float sums and products run in double and are rounded once to the stage's dtype:
 * that is the exact value as far as a test can tell. Nothing else is clever here. */
#include <math.h>
#include <stdio.h>
#include "kir/def.h"

typedef struct kept {
  tn_num *v;
  int64_t step[TN_DEF_MAX_AXES];
} kept; /* values over the stage's axes, row-major */
typedef struct machine {
  tn_diag *d;
  const tn_kdef *k;
  tn_arena a;
  void *const *ptr;
  const int64_t *elems;
  int64_t extent[TN_DEF_MAX_AXES], pos[TN_DEF_MAX_AXES];
  int64_t *dim, *stride; /* [n_param][TN_DEF_MAX_RANK] */
  int64_t *size;         /* [n_x] value of SIZE and INDEX dims */
  uint32_t *deps;
  tn_num *val; /* [n_x] */
  bool *mark;
  kept *kept; /* [n_stage] */
  bool index_error, zero_error;
  /* the stage that runs */
  uint32_t stage, n_axis, n_loop;
  uint8_t loop[2 * TN_DEF_MAX_AXES];
  uint32_t *list, first[2 * TN_DEF_MAX_AXES + 2]; /* nodes of loop depth j: list[first[j] .. first[j + 1]) */
  tn_num acc;
  int64_t best; /* position of acc for argmax and argmin, -1: none yet */
} machine;

static tn_status outside(machine *m, const tn_kparam *p, const tn_num *const *at, uint32_t rank) {
  char text[160] = "";
  size_t n = 0;
  for (uint32_t j = 0; j < rank && n < sizeof text; j++)
    n += (size_t)snprintf(text + n, sizeof text - n, "%s%lld", j ? ", " : "", (long long)at[j]->i);
  return tn_fail(m->d, TN_E_ARG, "kernel @%s, stage %u: %s[%s] is outside its memory", m->k->name, m->stage, p->name, text);
}

/* Address of an access; checks dims and elements. */
static tn_status address(machine *m, uint32_t param, const tn_kx_id *idx, void **out) {
  const tn_kparam *p = &m->k->param[param];
  const tn_num *at[TN_DEF_MAX_RANK];
  int64_t sum = 0, term;
  bool ok = true;
  for (uint32_t j = 0; j < p->rank; j++) {
    at[j] = &m->val[idx[j]];
    ok &= at[j]->i >= 0 && at[j]->i < m->dim[param * TN_DEF_MAX_RANK + j];
    ok &= !__builtin_mul_overflow(at[j]->i, m->stride[param * TN_DEF_MAX_RANK + j], &term) && !__builtin_add_overflow(sum, term, &sum);
  }
  if (!ok || sum < 0 || sum >= m->elems[param]) return outside(m, p, at, p->rank);
  *out = (char *)m->ptr[param] + sum * (int64_t)tn_dtype_size((tn_dtype)p->dtype);
  return TN_OK;
}

static tn_status load(machine *m, const tn_kx *x, tn_num *out) {
  void *p;
  if (x->guard && !m->val[x->guard].i) {
    *out = x->imm;
    return TN_OK;
  }
  TN_TRY(address(m, x->ref, x->idx, &p));
  *out = tn_num_load((tn_dtype)x->dtype, p);
  return TN_OK;
}

static void index_of(machine *m, const tn_kx *x, int64_t n, tn_num *out) {
  int64_t i = m->val[x->arg[0]].i;
  if (i < 0) i += n;
  if (i < 0 || i >= n) m->index_error = true;
  if (i >= n) i = n - 1;
  out->i = i < 0 ? 0 : i;
}

static tn_status evaluate(machine *m, tn_kx_id id) {
  const tn_kx *x = &m->k->x[id];
  tn_num *out = &m->val[id];
  switch ((tn_kx_op)x->op) {
    case TN_KX_CONST: *out = x->imm; break;
    case TN_KX_AXIS: out->i = m->pos[x->ref]; break;
    case TN_KX_SIZE: out->i = m->size[id]; break;
    case TN_KX_LOAD: return load(m, x, out);
    case TN_KX_STAGE: {
      const tn_kstage *s = &m->k->stage[x->ref];
      int64_t at = 0;
      for (uint32_t j = 0; j < s->n_axis; j++) at += m->pos[s->axis[j]] * m->kept[x->ref].step[j];
      *out = m->kept[x->ref].v[at];
      break;
    }
    case TN_KX_SCALAR: {
      tn_num arg[3] = {m->val[x->arg[0]], m->val[x->arg[1]], m->val[x->arg[2]]};
      if (x->sop == TN_S_DIVISOR && arg[0].i == 0) m->zero_error = true;
      *out = tn_scalar_eval((tn_scalar_op)x->sop, (tn_dtype)(x->sop == TN_S_SELECT ? x->dtype : m->k->x[x->arg[0]].dtype), arg);
      break;
    }
    case TN_KX_CAST: *out = tn_num_cast(m->val[x->arg[0]], (tn_dtype)m->k->x[x->arg[0]].dtype, (tn_dtype)x->dtype); break;
    case TN_KX_INDEX: index_of(m, x, m->size[id], out); break;
    case TN_KX_NONE: break;
  }
  return TN_OK;
}

/* ---- reductions ---- */

static bool is_arg(const tn_kstage *s) { return s->combiner == TN_C_ARGMAX || s->combiner == TN_C_ARGMIN; }

static void start(machine *m, const tn_kstage *s) {
  tn_dtype t = (tn_dtype)m->k->x[s->root].dtype;
  m->acc = tn_combiner_identity((tn_combiner)s->combiner, tn_dtype_is_float(t) ? TN_F64 : t);
  m->best = -1;
}

static void step(machine *m, const tn_kstage *s) {
  tn_num v = m->val[s->root], a = m->acc;
  tn_dtype t = (tn_dtype)m->k->x[s->root].dtype;
  bool f = tn_dtype_is_float(t), max = s->combiner == TN_C_ARGMAX;
  if (!is_arg(s)) {
    m->acc = tn_combiner_step((tn_combiner)s->combiner, f ? TN_F64 : t, a, v);
    return;
  }
  bool wins = m->best < 0 || tn_scalar_eval(max ? TN_S_GT : TN_S_LT, t, (tn_num[]){v, a}).i || (f && isnan(v.f) && !isnan(a.f));
  if (!wins) return;
  m->acc = v;
  m->best = m->pos[s->red[0]];
}

static tn_num result(machine *m, const tn_kstage *s) {
  tn_dtype t = (tn_dtype)m->k->x[s->root].dtype;
  if (is_arg(s)) return (tn_num){.i = m->best < 0 ? 0 : m->best};
  return tn_dtype_is_float(t) ? tn_num_cast(m->acc, TN_F64, t) : m->acc;
}

/* ---- loops ---- */

static tn_status finish(machine *m, const tn_kstage *s) { /* one element of the stage is known */
  tn_num v = s->n_red ? result(m, s) : m->val[s->root];
  if (m->kept[m->stage].v) {
    int64_t at = 0;
    for (uint32_t j = 0; j < s->n_axis; j++) at += m->pos[s->axis[j]] * m->kept[m->stage].step[j];
    m->kept[m->stage].v[at] = v;
  }
  if (s->out < 0) return TN_OK;
  void *p;
  TN_TRY(address(m, (uint32_t)s->out, s->out_idx, &p));
  tn_num_store((tn_dtype)s->dtype, p, v);
  return TN_OK;
}

static tn_status loops(machine *m, uint32_t depth) {
  const tn_kstage *s = &m->k->stage[m->stage];
  for (uint32_t j = m->first[depth]; j < m->first[depth + 1]; j++) TN_TRY(evaluate(m, m->list[j]));
  if (depth == m->n_axis) start(m, s);
  if (depth == m->n_loop) {
    if (s->n_red) step(m, s);
  } else {
    uint32_t a = m->loop[depth];
    for (m->pos[a] = 0; m->pos[a] < m->extent[a]; m->pos[a]++) TN_TRY(loops(m, depth + 1));
  }
  return depth == m->n_axis ? finish(m, s) : TN_OK;
}

/* Nodes the stage needs, by loop depth. `evaluated` false: only those of its store. */
static void make_list(machine *m, const tn_kstage *s, bool evaluated) {
  const tn_kdef *k = m->k;
  uint32_t n = 0;
  for (uint32_t i = 0; i < k->n_x; i++) m->mark[i] = false;
  m->mark[s->root] = evaluated;
  if (s->out >= 0)
    for (uint32_t j = 0; j < k->param[s->out].rank; j++) m->mark[s->out_idx[j]] = true;
  for (uint32_t i = k->n_x; i-- > 1;) {
    const tn_kx *x = &k->x[i];
    if (!m->mark[i]) continue;
    for (int j = 0; j < 3; j++)
      if (x->arg[j]) m->mark[x->arg[j]] = true;
    for (uint32_t j = 0; j < x->n_idx; j++) m->mark[x->idx[j]] = true;
    if (x->guard) m->mark[x->guard] = true;
  }
  uint32_t seen = 0;
  for (uint32_t depth = 0; depth <= m->n_loop; depth++) {
    uint32_t before = seen;
    m->first[depth] = n;
    if (depth) seen |= 1u << m->loop[depth - 1];
    for (uint32_t i = 1; i < k->n_x; i++)
      if (m->mark[i] && !(m->deps[i] & ~seen) && (depth == 0 || (m->deps[i] & ~before))) m->list[n++] = i;
  }
  m->first[m->n_loop + 1] = n;
}

static bool any_zero(const machine *m, const uint8_t *a, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (m->extent[a[i]] == 0) return true;
  return false;
}

static tn_status run_stage(machine *m, uint32_t number, bool is_read) {
  const tn_kstage *s = &m->k->stage[number];
  int64_t n = 1;
  m->stage = number;
  if (is_read) {
    for (uint32_t j = s->n_axis; j-- > 0;) {
      m->kept[number].step[j] = n;
      if (__builtin_mul_overflow(n, m->extent[s->axis[j]], &n)) n = INT64_MAX;
    }
    if (n < INT64_MAX / 16) m->kept[number].v = TN_NEW(&m->a, tn_num, n + 1);
    if (!m->kept[number].v) return tn_fail(m->d, TN_E_NOMEM, "kernel @%s: %lld values of stage %u", m->k->name, (long long)n, number);
  }
  if (any_zero(m, s->axis, s->n_axis)) return TN_OK;
  bool empty = any_zero(m, s->red, s->n_red);
  m->n_axis = m->n_loop = s->n_axis;
  for (uint32_t j = 0; j < s->n_axis; j++) m->loop[j] = s->axis[j];
  for (uint32_t j = 0; j < s->n_red; j++) m->loop[m->n_loop++] = s->red[j];
  make_list(m, s, !empty);
  return loops(m, 0);
}

static tn_status prepare(machine *m, const int64_t *sym) {
  const tn_kdef *k = m->k;
  m->dim = TN_NEW(&m->a, int64_t, (size_t)k->n_param * TN_DEF_MAX_RANK + 1);
  m->stride = TN_NEW(&m->a, int64_t, (size_t)k->n_param * TN_DEF_MAX_RANK + 1);
  m->size = TN_NEW(&m->a, int64_t, k->n_x);
  m->deps = TN_NEW(&m->a, uint32_t, k->n_x);
  m->val = TN_NEW(&m->a, tn_num, k->n_x);
  m->mark = TN_NEW(&m->a, bool, k->n_x);
  m->list = TN_NEW(&m->a, uint32_t, k->n_x);
  m->kept = TN_NEW(&m->a, kept, k->n_stage + 1);
  if (!m->dim || !m->stride || !m->size || !m->deps || !m->val || !m->mark || !m->list || !m->kept)
    return tn_fail(m->d, TN_E_NOMEM, "tables to interpret kernel @%s", k->name);
  tn_kdef_deps(k, m->deps);
  for (uint32_t i = 0; i < k->n_axis; i++)
    if (tn_dim_eval(k->dims, k->axis[i].extent, sym, &m->extent[i]) != TN_OK || m->extent[i] < 0)
      return tn_fail(m->d, TN_E_ARG, "kernel @%s: axis %s has no extent for these symbols", k->name, k->axis[i].name);
  for (uint32_t i = 0; i < k->n_param; i++)
    for (uint32_t j = 0; j < k->param[i].rank; j++)
      if (tn_dim_eval(k->dims, k->param[i].dim[j], sym, &m->dim[i * TN_DEF_MAX_RANK + j]) != TN_OK ||
          tn_dim_eval(k->dims, k->param[i].stride[j], sym, &m->stride[i * TN_DEF_MAX_RANK + j]) != TN_OK)
        return tn_fail(m->d, TN_E_ARG, "kernel @%s: parameter %s has no shape for these symbols", k->name, k->param[i].name);
  for (uint32_t i = 1; i < k->n_x; i++)
    if ((k->x[i].op == TN_KX_SIZE || k->x[i].op == TN_KX_INDEX) && tn_dim_eval(k->dims, k->x[i].dim, sym, &m->size[i]) != TN_OK)
      return tn_fail(m->d, TN_E_ARG, "kernel @%s: node %u has no size for these symbols", k->name, i);
  return TN_OK;
}

tn_status tn_kdef_interpret(tn_diag *d, const tn_kdef *k, const int64_t *sym_values, void *const *ptr, const int64_t *elems) {
  machine m = {.d = d, .k = k, .ptr = ptr, .elems = elems};
  tn_arena_init(&m.a);
  tn_status s = prepare(&m, sym_values);
  for (uint32_t i = 0; i < k->n_stage && s == TN_OK; i++) {
    bool is_read = false;
    for (uint32_t x = 1; x < k->n_x; x++) is_read |= k->x[x].op == TN_KX_STAGE && k->x[x].ref == i;
    s = run_stage(&m, i, is_read);
  }
  tn_arena_deinit(&m.a);
  if (s == TN_OK && m.zero_error) return tn_fail(d, TN_E_ZERO, "kernel @%s: an integer is divided by zero", k->name);
  if (s == TN_OK && m.index_error) return tn_fail(d, TN_E_INDEX, "kernel @%s: an index is out of range", k->name);
  return s;
}

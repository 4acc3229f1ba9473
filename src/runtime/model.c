/* Models: a verified module whose plans are loaded programs, and what can be known once: where values die, and whether the model is a single
 * call. Immutable and counted; sessions hold one reference each. */
#include <string.h>
#include "runtime/model_int.h"

/* last[slot]: the step that reads it last, or that writes it when none does. */
static bool last_uses(tn_arena *a, const tn_mfunc *f, tn_mlife *life) {
  uint32_t *last = tn_calloc((size_t)f->n_slot + 1, sizeof *last); /* step + 1; 0 = kept to the end */
  if (!last) return false;
  for (uint32_t i = 0; i < f->n_step; i++) {
    for (uint32_t k = 0; k < f->step[i].n_in; k++) last[f->step[i].in[k].slot] = i + 1;
    for (uint32_t k = 0; k < f->step[i].n_out; k++) last[f->step[i].out[k]] = i + 1;
  }
  last[0] = 0;
  for (uint32_t k = 0; k < f->n_out; k++) last[f->out[k]] = 0;
  life->at = TN_NEW(a, uint32_t, (size_t)f->n_step + 2);
  life->slot = TN_NEW(a, uint32_t, (size_t)f->n_slot + 1);
  if (life->at && life->slot) {
    for (uint32_t v = 1; v <= f->n_slot; v++)
      if (last[v]) life->at[last[v]]++; /* counts of step i at i + 1 */
    for (uint32_t i = 0; i < f->n_step; i++) life->at[i + 1] += life->at[i];
    for (uint32_t v = f->n_slot; v > 0; v--)
      if (last[v]) life->slot[--life->at[last[v]]] = v;
    /* filling moved each start back to where it begins: at[i + 1] is now the start of step i */
    uint32_t total = 0;
    for (uint32_t v = 1; v <= f->n_slot; v++) total += last[v] != 0;
    for (uint32_t i = 0; i < f->n_step; i++) life->at[i] = life->at[i + 1];
    life->at[f->n_step] = total;
  }
  tn_free(last);
  return life->at && life->slot;
}

/* One call from the model's inputs to its outputs, each used once and in order. */
static bool is_single(const tn_module *m) {
  const tn_mfunc *f = &m->func[0];
  if (f->n_step != 1 || f->step[0].kind != TN_MS_CALL || f->step[0].n_in != f->n_in || f->step[0].n_out != f->n_out) return false;
  for (uint32_t i = 0; i < f->n_in; i++)
    if (f->step[0].in[i].slot != f->in[i] || f->step[0].in[i].pick != TN_MP_VALUE) return false;
  for (uint32_t i = 0; i < f->n_out; i++)
    if (f->step[0].out[i] != f->out[i]) return false;
  for (uint32_t i = 0; i < m->n_in + m->n_out; i++) {
    const tn_mport *p = i < m->n_in ? &m->in[i] : &m->out[i - m->n_in];
    if (p->kind != TN_PORT_TENSOR) return false;
  }
  return true;
}

static tn_status prepare(tn_diag *d, tn_model *o) {
  tn_module *m = o->m;
  o->prog = TN_NEW(&o->arena, tn_program *, (size_t)m->n_plan + 1);
  if (!o->prog) return tn_fail(d, TN_E_NOMEM, "model of %u plans", m->n_plan);
  TN_TRY(tn_module_verify(d, m));
  for (uint32_t i = 0; i < m->n_plan; i++) {
    tn_status st = tn_program_create(d, m->plan[i], &o->prog[i]);
    if (st == TN_OK) continue;
    m->plan[i] = NULL; /* destroyed */
    return tn_diag_while(d, st, "loading plan %u of model '%s'", i, m->name);
  }
  o->life = TN_NEW(&o->arena, tn_mlife, m->n_func);
  if (!o->life) return tn_fail(d, TN_E_NOMEM, "model of %u functions", m->n_func);
  for (uint32_t f = 0; f < m->n_func; f++) {
    if (!last_uses(&o->arena, &m->func[f], &o->life[f])) return tn_fail(d, TN_E_NOMEM, "life times of function %u", f);
    for (uint32_t i = 0; i < m->func[f].n_step; i++) {
      const tn_mstep *s = &m->func[f].step[i];
      if (s->n_in > o->most_in) o->most_in = s->n_in;
      if (s->n_out > o->most_out) o->most_out = s->n_out;
    }
  }
  o->single = is_single(m);
  return TN_OK;
}

tn_status tn_model_create_over(tn_diag *d, tn_module *m, void *owner, void (*let_go)(void *), tn_model **out) {
  *out = NULL;
  tn_model *o = tn_calloc(1, sizeof *o);
  if (!o) {
    tn_module_destroy(m);
    if (let_go) let_go(owner);
    return tn_fail(d, TN_E_NOMEM, "model");
  }
  atomic_init(&o->refs, 1);
  tn_arena_init(&o->arena);
  o->m = m;
  o->owner = owner;
  o->let_go = let_go;
  tn_status st = prepare(d, o);
  if (st == TN_OK) *out = o;
  else tn_model_release(o);
  return st;
}

tn_status tn_model_create(tn_diag *d, tn_module *m, tn_model **out) { return tn_model_create_over(d, m, NULL, NULL, out); }

void tn_model_retain(tn_model *m) {
  if (m) atomic_fetch_add_explicit(&m->refs, 1, memory_order_relaxed);
}

void tn_model_release(tn_model *o) {
  if (!o || atomic_fetch_sub_explicit(&o->refs, 1, memory_order_acq_rel) != 1) return;
  for (uint32_t i = 0; o->prog && i < o->m->n_plan; i++)
    if (o->prog[i]) {
      tn_program_destroy(o->prog[i]);
      o->m->plan[i] = NULL;
    }
  tn_module_destroy(o->m);
  tn_arena_deinit(&o->arena);
  if (o->let_go) o->let_go(o->owner);
  tn_free(o);
}

const tn_module *tn_model_module(const tn_model *m) { return m->m; }
const tn_program *tn_model_program(const tn_model *m, uint32_t plan) { return m->prog[plan]; }
const tn_package *tn_model_package(const tn_model *m) { return m->package; }
uint32_t tn_model_n_in(const tn_model *m) { return m->m->n_in; }
uint32_t tn_model_n_out(const tn_model *m) { return m->m->n_out; }

static void port_of(const tn_mport *p, tn_port *out) {
  static const char *const no_names[TN_PLAN_MAX_RANK];
  *out = (tn_port){p->name ? p->name : "", p->kind, p->elem, p->key_elem, p->rank, p->dim, p->dim_name ? p->dim_name : no_names};
}
void tn_model_in(const tn_model *m, uint32_t i, tn_port *out) {
  if (i < m->m->n_in) port_of(&m->m->in[i], out);
  else *out = (tn_port){.name = "", .rank = -1};
}
void tn_model_out(const tn_model *m, uint32_t i, tn_port *out) {
  if (i < m->m->n_out) port_of(&m->m->out[i], out);
  else *out = (tn_port){.name = "", .rank = -1};
}
uint32_t tn_model_n_meta(const tn_model *m) { return m->m->n_meta; }
void tn_model_meta(const tn_model *m, uint32_t i, const char **key, const char **value) {
  *key = i < m->m->n_meta ? m->m->meta[i].key : "";
  *value = i < m->m->n_meta ? m->m->meta[i].value : "";
}

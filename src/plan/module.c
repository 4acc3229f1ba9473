/* The module object and its rules. A module owns one arena for everything but its plans, which own theirs. The verifier is what lets
 * the run time walk steps without looking: after it every number points at something, values exist before they are read, and functions
 * nest to a bounded depth, so activations need neither a stack of their own nor a guard. What depends on values (ranks behind a dim
 * operand, kinds of values) is checked when it happens. */
#include <inttypes.h>
#include <string.h>
#include "plan/module.h"

typedef struct tn_module_owner { tn_module module; tn_arena arena; } tn_module_owner; /* module first: a tn_module pointer is an owner pointer */

tn_status tn_module_create(const char *name, tn_module **out) {
  *out = NULL;
  tn_module_owner *o = tn_calloc(1, sizeof *o);
  if (!o) return TN_E_NOMEM;
  tn_arena_init(&o->arena);
  o->module.arena = &o->arena;
  o->module.name = tn_arena_strdup(&o->arena, name);
  if (!o->module.name) {
    tn_module_destroy(&o->module);
    return TN_E_NOMEM;
  }
  *out = &o->module;
  return TN_OK;
}

void tn_module_destroy(tn_module *m) {
  if (!m) return;
  for (uint32_t i = 0; i < m->n_plan; i++) tn_plan_destroy(m->plan[i]);
  tn_arena_deinit(m->arena);
  tn_free(m);
}

const tn_mattr *tn_mattr_get(const tn_mstep *s, const char *name) {
  for (uint32_t i = 0; i < s->n_attr; i++)
    if (strcmp(s->attr[i].name, name) == 0) return &s->attr[i];
  return NULL;
}

/* ---- tables ---- */

static const tn_dyn_row dyns[] = {
#define TN_DYN(id, text, lo, hi, out, doc) {text, lo, hi, out, doc},
#include "plan/dyn.def"
#undef TN_DYN
};
_Static_assert(sizeof dyns / sizeof *dyns == TN_N_DYNS, "one row per dynamic operator");

const tn_dyn_row *tn_dyn_get(uint32_t op) { return op < TN_N_DYNS ? &dyns[op] : NULL; }

bool tn_dyn_find(const char *s, size_t n, uint32_t *out) {
  for (uint32_t i = 0; i < TN_N_DYNS; i++)
    if (strlen(dyns[i].text) == n && memcmp(dyns[i].text, s, n) == 0) {
      *out = i;
      return true;
    }
  return false;
}

static const struct { const char *name; tn_dtype dtype; bool own; } elems[] = { /* own: the dtype means this element type */
    [TN_EL_F32] = {"f32", TN_F32, true},        [TN_EL_U8] = {"u8", TN_U8, true},     [TN_EL_I8] = {"i8", TN_I8, true},
    [TN_EL_U16] = {"u16", TN_U16, true},        [TN_EL_I16] = {"i16", TN_I16, true},  [TN_EL_I32] = {"i32", TN_I32, true},
    [TN_EL_I64] = {"i64", TN_I64, true},        [TN_EL_STRING] = {"string", TN_OBJ, false}, [TN_EL_BOOL] = {"bool", TN_BOOL, true},
    [TN_EL_F16] = {"f16", TN_F16, true},        [TN_EL_F64] = {"f64", TN_F64, true},  [TN_EL_U32] = {"u32", TN_U32, true},
    [TN_EL_U64] = {"u64", TN_U64, true},        [TN_EL_BF16] = {"bf16", TN_BF16, true},
    [TN_EL_F8E4M3FN] = {"f8e4m3fn", TN_U8, false}, [TN_EL_F8E4M3FNUZ] = {"f8e4m3fnuz", TN_U8, false},
    [TN_EL_F8E5M2] = {"f8e5m2", TN_U8, false},  [TN_EL_F8E5M2FNUZ] = {"f8e5m2fnuz", TN_U8, false},
    [TN_EL_U4] = {"u4", TN_U8, false},          [TN_EL_I4] = {"i4", TN_I8, false},    [TN_EL_F4E2M1] = {"f4e2m1", TN_U8, false},
    [TN_EL_F8E8M0] = {"f8e8m0", TN_U8, false},  [TN_EL_U2] = {"u2", TN_U8, false},    [TN_EL_I2] = {"i2", TN_I8, false},
    [TN_EL_F6E2M3] = {"f6e2m3", TN_U8, false},  [TN_EL_F6E3M2] = {"f6e3m2", TN_U8, false},
    [TN_EL_UNDEFINED] = {"undefined", TN_OBJ, false}};
enum { N_ELEMS = sizeof elems / sizeof *elems };

const char *tn_elem_name(uint32_t e) { return e < N_ELEMS ? elems[e].name : NULL; }

bool tn_elem_parse(const char *s, size_t n, uint32_t *out) {
  for (uint32_t i = 0; i < N_ELEMS; i++)
    if (elems[i].name && strlen(elems[i].name) == n && memcmp(elems[i].name, s, n) == 0) {
      *out = i;
      return true;
    }
  return false;
}

bool tn_elem_dtype(uint32_t e, tn_dtype *out) {
  if (!tn_elem_name(e) || elems[e].dtype == TN_OBJ) return false;
  *out = elems[e].dtype;
  return true;
}

tn_elem tn_elem_of_dtype(tn_dtype t) {
  for (uint32_t i = 0; i < N_ELEMS; i++)
    if (elems[i].own && elems[i].dtype == t) return (tn_elem)i;
  return TN_EL_UNDEFINED;
}

const char *tn_port_kind_name(uint32_t kind) {
  static const char *const name[] = {"tensor", "sequence", "optional", "optional_sequence", "map", "sequence_map", "any"};
  return kind < sizeof name / sizeof *name ? name[kind] : NULL;
}

/* ---- the verifier ---- */

typedef struct check { tn_diag *d; const tn_module *m; uint32_t f; } check;
#define BAD(c, ...) return tn_fail((c)->d, TN_E_VERIFY, __VA_ARGS__)

static tn_status port(const check *c, const tn_mport *p, const char *side, uint32_t i) {
  if (!tn_port_kind_name(p->kind)) BAD(c, "%s %u has kind %u", side, i, p->kind);
  if (!tn_elem_name(p->elem) || !tn_elem_name(p->key_elem)) BAD(c, "%s %u has element types %u and %u", side, i, p->elem, p->key_elem);
  if (p->rank < -1 || p->rank > TN_PLAN_MAX_RANK || (p->rank > 0 && !p->dim)) BAD(c, "%s %u has rank %d", side, i, p->rank);
  for (int k = 0; k < p->rank; k++)
    if (p->dim[k] < -1) BAD(c, "%s %u: dim %d is %" PRId64, side, i, k, p->dim[k]);
  return TN_OK;
}

static tn_status attrs(const check *c, const tn_mstep *s, uint32_t i) {
  if (s->n_attr && !s->attr) BAD(c, "step %u has %u attributes but no list", i, s->n_attr);
  for (uint32_t k = 0; k < s->n_attr; k++) {
    const tn_mattr *a = &s->attr[k];
    if (!a->name || !*a->name || a->kind > TN_MA_STRS) BAD(c, "attribute %u of step %u has no name or kind %u", k, i, (unsigned)a->kind);
    if (a->kind <= TN_MA_STR && a->n != 1) BAD(c, "attribute '%s' of step %u is single and has %u items", a->name, i, a->n);
    if (a->n && !a->u.i) BAD(c, "attribute '%s' of step %u has %u items but no list", a->name, i, a->n);
    if (a->kind != TN_MA_STR && a->kind != TN_MA_STRS) continue;
    for (uint32_t j = 0; j < a->n; j++)
      if (a->u.s[j].n && !a->u.s[j].s) BAD(c, "attribute '%s' of step %u: string %u has no bytes", a->name, i, j);
  }
  return TN_OK;
}

static tn_status arity(const check *c, const tn_mstep *s, uint32_t i) {
  const tn_module *m = c->m;
  switch (s->kind) {
  case TN_MS_CALL: {
    if (s->target >= m->n_plan) BAD(c, "step %u calls plan %u of %u", i, s->target, m->n_plan);
    const tn_plan *p = m->plan[s->target];
    if (s->n_in != p->n_in || s->n_out != p->n_out)
      BAD(c, "step %u calls plan '%s' with %u inputs and %u results; it has %u and %u", i, p->name, s->n_in, s->n_out, p->n_in, p->n_out);
    return TN_OK;
  }
  case TN_MS_OP: {
    const tn_dyn_row *r = tn_dyn_get(s->target);
    if (!r) BAD(c, "step %u is dynamic operator %u of %d", i, s->target, TN_N_DYNS);
    if (s->n_in < (uint32_t)r->n_in_min || (r->n_in_max >= 0 && s->n_in > (uint32_t)r->n_in_max) || (r->n_out >= 0 && s->n_out != (uint32_t)r->n_out))
      BAD(c, "step %u is %s with %u inputs and %u results", i, r->text, s->n_in, s->n_out);
    return TN_OK;
  }
  case TN_MS_BRANCH:
    for (int k = 0; k < 2; k++) {
      if (s->func[k] >= m->n_func) BAD(c, "step %u branches to function %u of %u", i, s->func[k], m->n_func);
      const tn_mfunc *g = &m->func[s->func[k]];
      if (s->n_in != (uint64_t)g->n_in + 1 || s->n_out != g->n_out)
        BAD(c, "step %u branches to function %u with %u operands and %u results; it takes %u and gives %u", i, s->func[k], s->n_in, s->n_out, g->n_in, g->n_out);
    }
    return TN_OK;
  case TN_MS_LOOP: {
    if (s->func[0] >= m->n_func) BAD(c, "step %u loops over function %u of %u", i, s->func[0], m->n_func);
    const tn_mfunc *g = &m->func[s->func[0]];
    uint64_t results = (uint64_t)s->n_carried + s->n_scan;
    if (s->n_in < 2 + (uint64_t)s->n_carried || s->n_in != g->n_in || s->n_out != results || g->n_out != results + 1)
      BAD(c, "step %u loops over function %u with %u operands, %u carried, %u scanned and %u results; it takes %u and gives %u", i, s->func[0], s->n_in, s->n_carried,
          s->n_scan, s->n_out, g->n_in, g->n_out);
    return TN_OK;
  }
  default: BAD(c, "step %u has kind %u", i, (unsigned)s->kind);
  }
}

static tn_status write_slot(const check *c, uint8_t *written, uint32_t slot, const char *who, uint32_t i) {
  if (slot < 1 || slot > c->m->func[c->f].n_slot) BAD(c, "%s %u writes slot %u of %u", who, i, slot, c->m->func[c->f].n_slot);
  if (written[slot]) BAD(c, "%s %u writes slot %u, which is written already", who, i, slot);
  written[slot] = 1;
  return TN_OK;
}
static tn_status read_slot(const check *c, const uint8_t *written, uint32_t slot, const char *who, uint32_t i) {
  if (slot < 1 || slot > c->m->func[c->f].n_slot) BAD(c, "%s %u reads slot %u of %u", who, i, slot, c->m->func[c->f].n_slot);
  if (!written[slot]) BAD(c, "%s %u reads slot %u before it is written", who, i, slot);
  return TN_OK;
}

static tn_status steps(const check *c, uint8_t *written) {
  const tn_mfunc *f = &c->m->func[c->f];
  for (uint32_t i = 0; i < f->n_in; i++) TN_TRY(write_slot(c, written, f->in[i], "input", i));
  for (uint32_t i = 0; i < f->n_step; i++) {
    const tn_mstep *s = &f->step[i];
    if ((s->n_in && !s->in) || (s->n_out && !s->out)) BAD(c, "step %u has operands or results but no list", i);
    TN_TRY(arity(c, s, i));
    TN_TRY(attrs(c, s, i));
    for (uint32_t k = 0; k < s->n_in; k++) {
      if (s->in[k].pick > TN_MP_ITEM || s->in[k].index > INT32_MAX) BAD(c, "operand %u of step %u picks %u of %u", k, i, s->in[k].index, s->in[k].pick);
      TN_TRY(read_slot(c, written, s->in[k].slot, "step", i));
    }
    for (uint32_t k = 0; k < s->n_out; k++)
      if (s->out[k]) TN_TRY(write_slot(c, written, s->out[k], "step", i));
  }
  for (uint32_t i = 0; i < f->n_out; i++) TN_TRY(read_slot(c, written, f->out[i], "output", i));
  return TN_OK;
}

static tn_status function(const check *c) {
  const tn_mfunc *f = &c->m->func[c->f];
  if (!f->name) BAD(c, "it has no name");
  if ((f->n_in && !f->in) || (f->n_out && !f->out) || (f->n_step && !f->step)) BAD(c, "it has inputs, outputs or steps but no list");
  uint64_t writers = f->n_in; /* also bounds what a hostile number of slots makes us allocate */
  for (uint32_t i = 0; i < f->n_step; i++) writers += f->step[i].n_out;
  if (f->n_slot > writers) BAD(c, "it has %u slots, but only %" PRIu64 " things write one", f->n_slot, writers);
  uint8_t *written = tn_calloc((size_t)f->n_slot + 1, 1);
  if (!written) return tn_fail(c->d, TN_E_NOMEM, "marks for %u slots", f->n_slot);
  tn_status st = steps(c, written);
  tn_free(written);
  return st;
}

/* height[f]: 0 not looked at, UINT8_MAX being looked at, else levels of functions under and including f. The recursion is as deep as
 * the nesting that is allowed. */
static tn_status nesting(const check *c, uint8_t *height, uint32_t f, uint32_t depth) {
  if (height[f] == UINT8_MAX) BAD(c, "function %u calls itself", f);
  if (depth > TN_MODULE_MAX_DEPTH) BAD(c, "functions are nested more than %d deep", TN_MODULE_MAX_DEPTH);
  if (height[f]) return TN_OK;
  height[f] = UINT8_MAX;
  uint32_t most = 0;
  for (uint32_t i = 0; i < c->m->func[f].n_step; i++) {
    const tn_mstep *s = &c->m->func[f].step[i];
    int n = s->kind == TN_MS_BRANCH ? 2 : s->kind == TN_MS_LOOP ? 1 : 0;
    for (int k = 0; k < n; k++) {
      TN_TRY(nesting(c, height, s->func[k], depth + 1));
      if (height[s->func[k]] > most) most = height[s->func[k]];
    }
  }
  if (most >= TN_MODULE_MAX_DEPTH) BAD(c, "functions are nested more than %d deep", TN_MODULE_MAX_DEPTH);
  height[f] = (uint8_t)(most + 1);
  return TN_OK;
}

/* A plan in a module has nobody to ask, and its inputs and constants are shared: they are not written. Nor does it keep copies of inputs by their
 * address: a session gives the same memory to other values. */
static tn_status plan(const check *c, uint32_t i) {
  const tn_plan *p = c->m->plan[i];
  if (!p) BAD(c, "plan %u is missing", i);
  TN_TRY(tn_plan_verify(c->d, p));
  if (p->n_host) BAD(c, "plan '%s' makes host calls", p->name);
  for (uint32_t k = 0; k < p->n_buf; k++)
    if (p->buf[k].kind == TN_PB_PACKED && p->buf[k].n_source) BAD(c, "plan '%s' keeps a packed copy of an input", p->name);
  for (uint32_t k = 0; k < p->n_step; k++) {
    const tn_pstep *s = &p->step[k];
    for (uint32_t j = s->n_in; s->kind == TN_PS_LIB && j < s->n_arg; j++) {
      tn_pbuf_kind kind = p->buf[p->view[s->arg[j]].buf].kind;
      if (kind == TN_PB_INPUT || kind == TN_PB_CONST) BAD(c, "step %u of plan '%s' writes an input or a constant", k, p->name);
    }
  }
  return TN_OK;
}

static tn_status lists(const check *c) {
  const tn_module *m = c->m;
  if ((m->n_plan && !m->plan) || !m->func || !m->n_func || (m->n_in && !m->in) || (m->n_out && !m->out) || (m->n_meta && !m->meta))
    BAD(c, "it has no functions, or a count without its list");
  for (uint32_t i = 0; i < m->n_meta; i++)
    if (!m->meta[i].key || !m->meta[i].value) BAD(c, "entry %u of the metadata has no key or value", i);
  for (uint32_t i = 0; i < m->n_in; i++) TN_TRY(port(c, &m->in[i], "input", i));
  for (uint32_t i = 0; i < m->n_out; i++) TN_TRY(port(c, &m->out[i], "output", i));
  if (m->func[0].n_in != m->n_in || m->func[0].n_out != m->n_out)
    BAD(c, "its function takes %u and gives %u values, its ports are %u and %u", m->func[0].n_in, m->func[0].n_out, m->n_in, m->n_out);
  return TN_OK;
}

tn_status tn_module_verify(tn_diag *d, const tn_module *m) {
  check c = {d, m, 0};
  tn_status st = lists(&c);
  for (uint32_t i = 0; st == TN_OK && i < m->n_plan; i++) st = plan(&c, i);
  for (; st == TN_OK && c.f < m->n_func; c.f++)
    if ((st = function(&c)) != TN_OK) tn_diag_while(d, st, "verifying function %u '%s'", c.f, m->func[c.f].name ? m->func[c.f].name : "");
  uint8_t *height = st == TN_OK ? tn_calloc(m->n_func, 1) : NULL;
  if (st == TN_OK && !height) st = tn_fail(d, TN_E_NOMEM, "nesting of %u functions", m->n_func);
  for (uint32_t f = 0; st == TN_OK && f < m->n_func; f++) st = nesting(&c, height, f, 1);
  tn_free(height);
  if (st != TN_OK) tn_diag_while(d, st, "verifying module '%s'", m->name);
  return st;
}

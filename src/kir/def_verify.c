/* def_verify.c: is a definition well formed? What passes can be scheduled, interpreted and printed without further checks.
 *
 * - names of axes and of parameters are unique; dims are known and not negative; read parameters come first and are only read;
 * - operands of a node are earlier nodes of the types its function takes; indices are i64, guards bool;
 * - a stage's value depends on its axes and, when it reduces, its reduction axes only. It reads earlier stages only, each at its own axes
 * (which the first rule makes a subset of the reader's);
 * - a stored stage does not reduce (the reduction is a stage of its own), has its parameter's dtype, and every written parameter is stored
 * to. Values are not looked at: whether an index stays inside is the interpreter's business. */
#include <string.h>
#include "kir/def.h"

typedef struct checker {
  tn_diag *d;
  const tn_kdef *k;
  uint32_t *deps; /* [n_x] */
  bool *mark;     /* [n_x] */
} checker;

#define BAD(c, ...) return tn_diag_while((c)->d, tn_fail((c)->d, TN_E_VERIFY, __VA_ARGS__), "verifying kernel @%s", (c)->k->name)

static bool dim_ok(const tn_kdef *k, tn_dim d) {
  int64_t v;
  return d != TN_DIM_BAD && (!tn_dim_as_int(k->dims, d, &v) || v >= 0);
}

static tn_status check_head(checker *c) {
  const tn_kdef *k = c->k;
  if (k->n_axis > TN_DEF_MAX_AXES || k->n_stage > TN_DEF_MAX_STAGES) BAD(c, "%u axes, %u stages", k->n_axis, k->n_stage);
  for (uint32_t i = 0; i < k->n_axis; i++) {
    if (!dim_ok(k, k->axis[i].extent)) BAD(c, "axis %s has no extent", k->axis[i].name);
    for (uint32_t j = 0; j < i; j++)
      if (!strcmp(k->axis[i].name, k->axis[j].name)) BAD(c, "two axes %s", k->axis[i].name);
  }
  for (uint32_t i = 0; i < k->n_param; i++) {
    const tn_kparam *p = &k->param[i];
    if (p->rank > TN_DEF_MAX_RANK || !tn_dtype_is_value(p->dtype)) BAD(c, "parameter %s: rank %u, dtype %u", p->name, p->rank, p->dtype);
    if (p->written && p->frozen) BAD(c, "parameter %s is written and frozen", p->name);
    if (i && !p->written && k->param[i - 1].written) BAD(c, "parameter %s is read and comes after written ones", p->name);
    for (uint32_t j = 0; j < p->rank; j++)
      if (!dim_ok(k, p->dim[j]) || p->stride[j] == TN_DIM_BAD) BAD(c, "parameter %s: dim %u is unknown", p->name, j);
    for (uint32_t j = 0; j < i; j++)
      if (!strcmp(p->name, k->param[j].name)) BAD(c, "two parameters %s", p->name);
  }
  return TN_OK;
}

static tn_dtype type_of(const checker *c, tn_kx_id x) { return (tn_dtype)c->k->x[x].dtype; }

static tn_status check_operand(checker *c, uint32_t at, tn_kx_id x) {
  if (x == 0 || x >= at) BAD(c, "node %u reads node %u, which is not an earlier one", at, x);
  return TN_OK;
}

static tn_status check_load(checker *c, uint32_t at) {
  const tn_kx *x = &c->k->x[at];
  if (x->ref >= c->k->n_param) BAD(c, "node %u loads parameter %u of %u", at, x->ref, c->k->n_param);
  const tn_kparam *p = &c->k->param[x->ref];
  if (p->written) BAD(c, "node %u reads %s, which is written", at, p->name);
  if (x->n_idx != p->rank || x->dtype != p->dtype)
    BAD(c, "load of %s: %u indices for rank %u, dtype %u", p->name, x->n_idx, p->rank, x->dtype);
  for (uint32_t j = 0; j < x->n_idx; j++) {
    TN_TRY(check_operand(c, at, x->idx[j]));
    if (type_of(c, x->idx[j]) != TN_I64) BAD(c, "load of %s: index %u is %s", p->name, j, tn_dtype_name(type_of(c, x->idx[j])));
  }
  if (!x->guard) return TN_OK;
  TN_TRY(check_operand(c, at, x->guard));
  if (type_of(c, x->guard) != TN_BOOL) BAD(c, "load of %s: the guard is %s", p->name, tn_dtype_name(type_of(c, x->guard)));
  return TN_OK;
}

static tn_status check_scalar(checker *c, uint32_t at) {
  const tn_kx *x = &c->k->x[at];
  if (x->sop >= TN_N_SCALARS) BAD(c, "node %u is function %u", at, x->sop);
  tn_scalar_op op = (tn_scalar_op)x->sop;
  int n = tn_scalar_arity(op), first = op == TN_S_SELECT;
  for (int j = 0; j < 3; j++) {
    if (j >= n && x->arg[j]) BAD(c, "node %u: %s of more than %d operands", at, tn_scalar_name(op), n);
    if (j < n) TN_TRY(check_operand(c, at, x->arg[j]));
  }
  tn_dtype t = type_of(c, x->arg[first]), result = tn_scalar_is_bool(op) ? TN_BOOL : t;
  if (first && type_of(c, x->arg[0]) != TN_BOOL) BAD(c, "node %u: the condition of select is %s", at, tn_dtype_name(type_of(c, x->arg[0])));
  if (!tn_scalar_accepts(op, t)) BAD(c, "node %u: %s does not take %s", at, tn_scalar_name(op), tn_dtype_name(t));
  for (int j = first; j < n; j++)
    if (type_of(c, x->arg[j]) != t)
      BAD(c, "node %u: %s of %s and %s", at, tn_scalar_name(op), tn_dtype_name(t), tn_dtype_name(type_of(c, x->arg[j])));
  if (x->dtype != result) BAD(c, "node %u: %s yields %s", at, tn_scalar_name(op), tn_dtype_name(result));
  return TN_OK;
}

static tn_status check_node(checker *c, uint32_t at) {
  const tn_kdef *k = c->k;
  const tn_kx *x = &k->x[at];
  if (!tn_dtype_is_value(x->dtype)) BAD(c, "node %u has dtype %u", at, x->dtype);
  bool i64 = x->op == TN_KX_AXIS || x->op == TN_KX_SIZE || x->op == TN_KX_INDEX;
  if (i64 && x->dtype != TN_I64) BAD(c, "node %u is an index of dtype %s", at, tn_dtype_name((tn_dtype)x->dtype));
  switch ((tn_kx_op)x->op) {
    case TN_KX_CONST: return TN_OK;
    case TN_KX_AXIS:
      if (x->ref >= k->n_axis) BAD(c, "node %u is axis %u of %u", at, x->ref, k->n_axis);
      return TN_OK;
    case TN_KX_SIZE:
      if (x->dim == TN_DIM_BAD) BAD(c, "node %u is an unknown size", at);
      return TN_OK;
    case TN_KX_LOAD: return check_load(c, at);
    case TN_KX_STAGE:
      if (x->ref >= k->n_stage) BAD(c, "node %u is stage %u of %u", at, x->ref, k->n_stage);
      if (x->dtype != k->stage[x->ref].dtype) BAD(c, "node %u reads stage %u as %s", at, x->ref, tn_dtype_name((tn_dtype)x->dtype));
      return TN_OK;
    case TN_KX_SCALAR: return check_scalar(c, at);
    case TN_KX_CAST: return check_operand(c, at, x->arg[0]);
    case TN_KX_INDEX:
      TN_TRY(check_operand(c, at, x->arg[0]));
      if (type_of(c, x->arg[0]) != TN_I64 || !dim_ok(k, x->dim)) BAD(c, "node %u: index of %s", at, tn_dtype_name(type_of(c, x->arg[0])));
      return TN_OK;
    case TN_KX_NONE: break;
  }
  BAD(c, "node %u has no meaning (%u)", at, x->op);
}

static void mark_operands(checker *c, tn_kx_id from) {
  for (uint32_t i = from; i > 0; i--) {
    const tn_kx *x = &c->k->x[i];
    if (!c->mark[i]) continue;
    for (int j = 0; j < 3; j++)
      if (x->arg[j]) c->mark[x->arg[j]] = true;
    for (uint32_t j = 0; j < x->n_idx; j++) c->mark[x->idx[j]] = true;
    if (x->guard) c->mark[x->guard] = true;
  }
}

/* Stages below the marked nodes are earlier ones. */
static tn_status check_reads(checker *c, uint32_t stage, tn_kx_id root) {
  memset(c->mark, 0, c->k->n_x * sizeof *c->mark);
  c->mark[root] = true;
  mark_operands(c, root);
  for (uint32_t i = 1; i <= root; i++)
    if (c->mark[i] && c->k->x[i].op == TN_KX_STAGE && c->k->x[i].ref >= stage) BAD(c, "stage %u reads stage %u", stage, c->k->x[i].ref);
  return TN_OK;
}

static tn_status axis_bits(checker *c, uint32_t stage, const uint8_t *a, uint32_t n, uint32_t *bits) {
  for (uint32_t i = 0; i < n; i++) {
    if (a[i] >= c->k->n_axis) BAD(c, "stage %u names axis %u of %u", stage, a[i], c->k->n_axis);
    if (*bits >> a[i] & 1) BAD(c, "stage %u names axis %s twice", stage, c->k->axis[a[i]].name);
    *bits |= 1u << a[i];
  }
  return TN_OK;
}

static tn_status check_combiner(checker *c, uint32_t stage) {
  const tn_kstage *s = &c->k->stage[stage];
  tn_dtype t = type_of(c, s->root);
  if (s->combiner >= TN_N_COMBINERS) BAD(c, "stage %u has combiner %u", stage, s->combiner);
  tn_combiner f = (tn_combiner)s->combiner;
  bool arg = f == TN_C_ARGMAX || f == TN_C_ARGMIN, logic = f == TN_C_ANY || f == TN_C_ALL, arithmetic = f == TN_C_SUM || f == TN_C_PROD;
  if ((logic && t != TN_BOOL) || (arithmetic && t == TN_BOOL)) BAD(c, "stage %u: %s of %s", stage, tn_combiner_name(f), tn_dtype_name(t));
  if (arg && s->n_red != 1) BAD(c, "stage %u: %s over %u axes", stage, tn_combiner_name(f), s->n_red);
  if (s->dtype != (arg ? TN_I64 : t))
    BAD(c, "stage %u: %s of %s is %s", stage, tn_combiner_name(f), tn_dtype_name(t), tn_dtype_name((tn_dtype)s->dtype));
  return TN_OK;
}

static tn_status check_out(checker *c, uint32_t stage, uint32_t axes) {
  const tn_kstage *s = &c->k->stage[stage];
  if ((uint32_t)s->out >= c->k->n_param || !c->k->param[s->out].written) BAD(c, "stage %u is stored to parameter %d", stage, s->out);
  const tn_kparam *p = &c->k->param[s->out];
  if (s->n_red) BAD(c, "stage %u reduces and is stored: store a stage that reads it", stage);
  if (s->dtype != p->dtype)
    BAD(c, "stage %u is %s, %s is %s", stage, tn_dtype_name((tn_dtype)s->dtype), p->name, tn_dtype_name((tn_dtype)p->dtype));
  for (uint32_t j = 0; j < p->rank; j++) {
    tn_kx_id x = s->out_idx[j];
    if (x == 0 || x >= c->k->n_x || type_of(c, x) != TN_I64) BAD(c, "stage %u: index %u of %s is no index", stage, j, p->name);
    if (c->deps[x] & ~axes) BAD(c, "stage %u: index %u of %s depends on other axes", stage, j, p->name);
    TN_TRY(check_reads(c, stage, x));
  }
  return TN_OK;
}

static tn_status check_stage(checker *c, uint32_t stage) {
  const tn_kdef *k = c->k;
  const tn_kstage *s = &k->stage[stage];
  uint32_t axes = 0, all;
  if (s->n_axis > TN_DEF_MAX_AXES || s->n_red > TN_DEF_MAX_AXES || !tn_dtype_is_value(s->dtype))
    BAD(c, "stage %u: %u axes, dtype %u", stage, s->n_axis, s->dtype);
  if (s->root == 0 || s->root >= k->n_x) BAD(c, "stage %u has no value", stage);
  TN_TRY(axis_bits(c, stage, s->axis, s->n_axis, &axes));
  all = axes;
  TN_TRY(axis_bits(c, stage, s->red, s->n_red, &all));
  if (c->deps[s->root] & ~all) {
    uint32_t a = 0;
    while (!((c->deps[s->root] & ~all) >> a & 1)) a++;
    BAD(c, "stage %u (%s) depends on axis %s, which is not its own", stage, s->name, k->axis[a].name);
  }
  if (s->n_red)
    TN_TRY(check_combiner(c, stage));
  else if (s->dtype != type_of(c, s->root))
    BAD(c, "stage %u is %s, its value %s", stage, tn_dtype_name((tn_dtype)s->dtype), tn_dtype_name(type_of(c, s->root)));
  if (s->out >= 0) TN_TRY(check_out(c, stage, axes));
  return check_reads(c, stage, s->root);
}

tn_status tn_kdef_verify(tn_diag *d, const tn_kdef *k) {
  tn_arena a;
  tn_arena_init(&a);
  checker c = {d, k, TN_NEW(&a, uint32_t, k->n_x), TN_NEW(&a, bool, k->n_x)};
  tn_status s = c.deps && c.mark ? check_head(&c) : tn_fail(d, TN_E_NOMEM, "tables to verify kernel @%s", k->name);
  for (uint32_t i = 1; i < k->n_x && s == TN_OK; i++) s = check_node(&c, i);
  for (uint32_t i = 0; i < k->n_stage && s == TN_OK; i++) { /* before tn_kdef_deps, which follows them */
    uint32_t axes = 0;
    if (k->stage[i].n_axis > TN_DEF_MAX_AXES)
      s = tn_fail(d, TN_E_VERIFY, "kernel @%s: stage %u has %u axes", k->name, i, k->stage[i].n_axis);
    else
      s = axis_bits(&c, i, k->stage[i].axis, k->stage[i].n_axis, &axes);
  }
  if (s == TN_OK) tn_kdef_deps(k, c.deps);
  for (uint32_t i = 0; i < k->n_stage && s == TN_OK; i++) s = check_stage(&c, i);
  for (uint32_t p = 0; p < k->n_param && s == TN_OK; p++) {
    bool stored = !k->param[p].written;
    for (uint32_t i = 0; i < k->n_stage; i++) stored |= k->stage[i].out == (int32_t)p;
    if (!stored) s = tn_fail(d, TN_E_VERIFY, "kernel @%s: nothing is stored to parameter %s", k->name, k->param[p].name);
  }
  tn_arena_deinit(&a);
  return s;
}

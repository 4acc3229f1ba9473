/* def.c: building definitions and the two analyses everything above needs: which axes a node depends on, and its affine form.
 * Nodes are unified on creation (a hash table by content), so equal parts of index arithmetic are one node and printing can see sharing.
 * Constants are brought to one form per value (rounded to their dtype, one NaN), so that equal text means equal nodes.
 * Deliberately no rewriting here: definition -> definition rewrites live in `lower`. */
#include <math.h>
#include <string.h>
#include "def.h"

tn_status tn_kdef_create(tn_arena *a, tn_dims *dims, const char *name, tn_kdef **out) {
  tn_kdef *k = TN_NEW(a, tn_kdef, 1);
  if (!k) return TN_E_NOMEM;
  k->arena = a;
  k->dims = dims;
  k->name = tn_arena_strdup(a, name);
  if (!k->name || !TN_PUSH_ROOM(a, k->x, k->n_x, k->cap_x)) return TN_E_NOMEM;
  memset(&k->x[0], 0, sizeof k->x[0]);
  k->n_x = 1;
  *out = k;
  return TN_OK;
}

uint32_t tn_kdef_add_axis(tn_kdef *k, const char *name, tn_dim extent) {
  if (k->n_axis >= TN_DEF_MAX_AXES || !TN_PUSH_ROOM(k->arena, k->axis, k->n_axis, k->cap_axis)) return UINT32_MAX;
  tn_kaxis *x = &k->axis[k->n_axis];
  x->name = tn_arena_strdup(k->arena, name);
  x->extent = extent;
  return x->name ? k->n_axis++ : UINT32_MAX;
}

uint32_t tn_kdef_add_param(tn_kdef *k, const char *name, tn_dtype t, uint32_t rank, const tn_dim *dim, const tn_dim *stride) {
  if (rank > TN_DEF_MAX_RANK || !TN_PUSH_ROOM(k->arena, k->param, k->n_param, k->cap_param)) return UINT32_MAX;
  tn_kparam *p = &k->param[k->n_param];
  memset(p, 0, sizeof *p);
  p->name = tn_arena_strdup(k->arena, name);
  p->dtype = (uint8_t)t;
  p->rank = (uint8_t)rank;
  p->dim = TN_NEW(k->arena, tn_dim, rank + 1);
  p->stride = TN_NEW(k->arena, tn_dim, rank + 1);
  if (!p->name || !p->dim || !p->stride) return UINT32_MAX;
  tn_dim run = 1;
  for (uint32_t i = rank; i-- > 0;) {
    p->dim[i] = dim[i];
    p->stride[i] = stride ? stride[i] : run;
    run = tn_dim_mul(k->dims, run, dim[i]);
    if (run == TN_DIM_BAD) return UINT32_MAX;
  }
  return k->n_param++;
}

uint32_t tn_kdef_add_stage(tn_kdef *k, tn_kstage s) {
  if (!s.root || k->n_stage >= TN_DEF_MAX_STAGES || !TN_PUSH_ROOM(k->arena, k->stage, k->n_stage, k->cap_stage)) return UINT32_MAX;
  s.name = tn_arena_strdup(k->arena, s.name);
  if (!s.name) return UINT32_MAX;
  k->stage[k->n_stage] = s;
  return k->n_stage++;
}

static bool same(const tn_kx *a, const tn_kx *b) {
  if (a->op != b->op || a->dtype != b->dtype || a->sop != b->sop || a->n_idx != b->n_idx || a->ref != b->ref || a->guard != b->guard ||
      a->dim != b->dim || a->imm.i != b->imm.i || memcmp(a->arg, b->arg, sizeof a->arg))
    return false;
  return a->n_idx == 0 || !memcmp(a->idx, b->idx, a->n_idx * sizeof *a->idx);
}

static uint32_t hash(const tn_kx *x) {
  uint64_t h = tn_hash(x->n_idx ? (const void *)x->idx : x, x->n_idx * sizeof *x->idx,
                       x->op | (uint64_t)x->dtype << 8 | (uint64_t)x->sop << 16 | (uint64_t)x->ref << 32);
  uint64_t rest[5] = {x->arg[0] | (uint64_t)x->arg[1] << 32, x->arg[2] | (uint64_t)x->guard << 32, (uint64_t)x->dim, (uint64_t)x->imm.i, h};
  return (uint32_t)tn_hash(rest, sizeof rest, 0);
}

/* Slot that holds a node like x, or the empty one where it belongs. */
static uint32_t find(const tn_kdef *k, const tn_kx *x) {
  uint32_t s = hash(x) & (k->n_slots - 1);
  while (k->slot[s] && !same(&k->x[k->slot[s]], x)) s = (s + 1) & (k->n_slots - 1);
  return s;
}

static bool rehash(tn_kdef *k, uint32_t n_slots) {
  uint32_t *slot = TN_NEW(k->arena, uint32_t, n_slots);
  if (!slot) return false;
  k->slot = slot;
  k->n_slots = n_slots;
  for (uint32_t i = 1; i < k->n_x; i++) slot[find(k, &k->x[i])] = i;
  return true;
}

static tn_kx_id add(tn_kdef *k, tn_kx x) {
  if (k->n_x * 2 >= k->n_slots && !rehash(k, k->n_slots ? k->n_slots * 2 : 128)) return 0;
  uint32_t s = find(k, &x);
  if (k->slot[s]) return k->slot[s];
  if (x.n_idx) {
    tn_kx_id *idx = TN_NEW(k->arena, tn_kx_id, x.n_idx);
    if (!idx) return 0;
    memcpy(idx, x.idx, x.n_idx * sizeof *idx);
    x.idx = idx;
  } else {
    x.idx = NULL;
  }
  if (!TN_PUSH_ROOM(k->arena, k->x, k->n_x, k->cap_x)) return 0;
  k->x[k->n_x] = x;
  k->slot[s] = k->n_x;
  return k->n_x++;
}

uint32_t tn_kdef_insert_stage(tn_kdef *k, uint32_t at, tn_kstage s) {
  if (at > k->n_stage || tn_kdef_add_stage(k, s) == UINT32_MAX) return UINT32_MAX;
  s = k->stage[k->n_stage - 1];
  memmove(&k->stage[at + 1], &k->stage[at], (k->n_stage - 1 - at) * sizeof *k->stage);
  k->stage[at] = s;
  for (uint32_t i = 1; i < k->n_x; i++) k->x[i].ref += k->x[i].op == TN_KX_STAGE && k->x[i].ref >= at;
  memset(k->slot, 0, k->n_slots * sizeof *k->slot);
  for (uint32_t i = 1; i < k->n_x; i++) k->slot[find(k, &k->x[i])] = i;
  return at;
}

static tn_num in_type(tn_dtype t, tn_num v) {
  if (!tn_dtype_is_float(t)) return tn_num_cast(v, TN_I64, t);
  return isnan(v.f) ? (tn_num){.f = (double)NAN} : tn_num_cast(v, TN_F64, t);
}

tn_kx_id tn_kx_const(tn_kdef *k, tn_dtype t, tn_num v) {
  return add(k, (tn_kx){.op = TN_KX_CONST, .dtype = (uint8_t)t, .imm = in_type(t, v)});
}
tn_kx_id tn_kx_i64(tn_kdef *k, int64_t v) { return tn_kx_const(k, TN_I64, (tn_num){.i = v}); }
tn_kx_id tn_kx_axis(tn_kdef *k, uint32_t axis) {
  if (axis >= k->n_axis) return 0;
  if (k->axis[axis].extent == 1) return tn_kx_i64(k, 0);
  return add(k, (tn_kx){.op = TN_KX_AXIS, .dtype = TN_I64, .ref = axis});
}
tn_kx_id tn_kx_size(tn_kdef *k, tn_dim d) {
  int64_t v;
  if (d == TN_DIM_BAD) return 0;
  if (tn_dim_as_int(k->dims, d, &v)) return tn_kx_i64(k, v);
  return add(k, (tn_kx){.op = TN_KX_SIZE, .dtype = TN_I64, .dim = d});
}
static bool bool_const(const tn_kdef *k, tn_kx_id x, bool *v) {
  if (!x || k->x[x].op != TN_KX_CONST || k->x[x].dtype != TN_BOOL) return false;
  *v = k->x[x].imm.i != 0;
  return true;
}

tn_kx_id tn_kx_load(tn_kdef *k, uint32_t param, const tn_kx_id *idx, tn_kx_id guard, tn_num other) {
  if (param >= k->n_param) return 0;
  const tn_kparam *p = &k->param[param];
  for (uint32_t i = 0; i < p->rank; i++)
    if (!idx[i]) return 0;
  bool always;
  if (bool_const(k, guard, &always)) {
    if (!always) return tn_kx_const(k, (tn_dtype)p->dtype, other);
    guard = 0;
  }
  tn_num imm = {.i = 0};
  if (guard) imm = in_type((tn_dtype)p->dtype, other);
  return add(k, (tn_kx){.op = TN_KX_LOAD,
                        .dtype = p->dtype,
                        .n_idx = p->rank,
                        .ref = param,
                        .idx = (tn_kx_id *)(uintptr_t)idx,
                        .guard = guard,
                        .imm = imm});
}
tn_kx_id tn_kx_stage(tn_kdef *k, uint32_t stage) {
  if (stage >= k->n_stage) return 0;
  return add(k, (tn_kx){.op = TN_KX_STAGE, .dtype = k->stage[stage].dtype, .ref = stage});
}

static bool int_const(const tn_kdef *k, tn_kx_id x, int64_t *v) {
  if (!x || k->x[x].op != TN_KX_CONST || k->x[x].dtype != TN_I64) return false;
  *v = k->x[x].imm.i;
  return true;
}

tn_kx_id tn_kx_scalar(tn_kdef *k, tn_scalar_op op, tn_kx_id a, tn_kx_id b, tn_kx_id c) {
  int n = tn_scalar_arity(op);
  if (!a || (n > 1 && !b) || (n > 2 && !c)) return 0;
  int64_t va = 0, vb = 0;
  bool ca = int_const(k, a, &va), cb = n == 2 && int_const(k, b, &vb), yes;
  if (op == TN_S_SELECT && bool_const(k, a, &yes) && k->x[b].dtype == k->x[c].dtype) return yes ? b : c;
  if (op == TN_S_DIVISOR && k->x[a].op == TN_KX_CONST && k->x[a].imm.i != 0) return a;
  if (op == TN_S_AND && k->x[a].dtype == TN_BOOL && k->x[b].dtype == TN_BOOL) {
    if (bool_const(k, a, &yes)) return yes ? b : a;
    if (bool_const(k, b, &yes)) return yes ? a : b;
  }
  if (ca && cb && tn_scalar_accepts(op, TN_I64)) {
    tn_num r = tn_scalar_eval(op, TN_I64, (tn_num[]){{.i = va}, {.i = vb}});
    return tn_kx_const(k, tn_scalar_is_bool(op) ? TN_BOOL : TN_I64, r);
  }
  if (op == TN_S_ADD && ca && va == 0) return b;
  if ((op == TN_S_ADD || op == TN_S_SUB) && cb && vb == 0) return a;
  if ((op == TN_S_MUL || op == TN_S_FLOORDIV) && cb && vb == 1) return a;
  if (op == TN_S_MUL && ca && va == 1) return b;
  if (op == TN_S_MUL && ((ca && va == 0) || (cb && vb == 0))) return tn_kx_i64(k, 0);
  if (op == TN_S_REMAINDER && cb && vb == 1) return tn_kx_i64(k, 0);
  if (op == TN_S_MUL && ca) {
    tn_kx_id t = a;
    a = b;
    b = t;
  }
  tn_dtype t = tn_scalar_is_bool(op) ? TN_BOOL : (tn_dtype)k->x[op == TN_S_SELECT ? b : a].dtype;
  return add(k, (tn_kx){.op = TN_KX_SCALAR, .dtype = (uint8_t)t, .sop = (uint8_t)op, .arg = {a, n > 1 ? b : 0, n > 2 ? c : 0}});
}
tn_kx_id tn_kx_cast(tn_kdef *k, tn_kx_id a, tn_dtype t) {
  if (!a) return 0;
  if (k->x[a].dtype == t) return a;
  return add(k, (tn_kx){.op = TN_KX_CAST, .dtype = (uint8_t)t, .arg = {a}});
}
tn_kx_id tn_kx_index(tn_kdef *k, tn_kx_id a, tn_dim extent) {
  if (!a) return 0;
  return add(k, (tn_kx){.op = TN_KX_INDEX, .dtype = TN_I64, .arg = {tn_kx_cast(k, a, TN_I64)}, .dim = extent});
}

void tn_kdef_deps(const tn_kdef *k, uint32_t *deps) {
  for (uint32_t i = 0; i < k->n_x; i++) {
    const tn_kx *x = &k->x[i];
    uint32_t m = 0;
    if (x->op == TN_KX_AXIS) m = 1u << x->ref;
    if (x->op == TN_KX_STAGE) {
      const tn_kstage *s = &k->stage[x->ref];
      for (uint32_t j = 0; j < s->n_axis; j++) m |= 1u << s->axis[j];
    }
    for (int j = 0; j < 3; j++)
      if (x->arg[j]) m |= deps[x->arg[j]];
    for (uint32_t j = 0; j < x->n_idx; j++) m |= deps[x->idx[j]];
    if (x->guard) m |= deps[x->guard];
    deps[i] = m;
  }
}

/* fuel bounds the walk over shared parts and its depth. */
static bool affine(const tn_kdef *k, tn_kx_id id, tn_dim *coef, tn_dim *base, int *fuel) {
  const tn_kx *x = &k->x[id];
  for (uint32_t i = 0; i < k->n_axis; i++) coef[i] = 0;
  *base = 0;
  if (--*fuel < 0) return false;
  if (x->op == TN_KX_CONST && x->dtype == TN_I64) {
    *base = tn_dim_int(k->dims, x->imm.i);
    return *base != TN_DIM_BAD;
  }
  if (x->op == TN_KX_SIZE) {
    *base = x->dim;
    return true;
  }
  if (x->op == TN_KX_AXIS) {
    coef[x->ref] = 1;
    return true;
  }
  if (x->op != TN_KX_SCALAR || x->dtype != TN_I64) return false;
  tn_scalar_op op = (tn_scalar_op)x->sop;
  if (op != TN_S_ADD && op != TN_S_SUB && op != TN_S_MUL) return false;
  tn_dim cb[TN_DEF_MAX_AXES], bb;
  if (!affine(k, x->arg[0], coef, base, fuel) || !affine(k, x->arg[1], cb, &bb, fuel)) return false;
  bool ca_const = true, cb_const = true;
  for (uint32_t i = 0; i < k->n_axis; i++) {
    ca_const &= coef[i] == 0;
    cb_const &= cb[i] == 0;
  }
  if (op == TN_S_MUL && !ca_const && !cb_const) return false;
  for (uint32_t i = 0; i <= k->n_axis; i++) {
    tn_dim *u = i < k->n_axis ? &coef[i] : base;
    tn_dim v = i < k->n_axis ? cb[i] : bb;
    if (op == TN_S_ADD)
      *u = tn_dim_add(k->dims, *u, v);
    else if (op == TN_S_SUB)
      *u = tn_dim_sub(k->dims, *u, v);
    else if (i < k->n_axis)
      *u = cb_const ? tn_dim_mul(k->dims, *u, bb) : tn_dim_mul(k->dims, *base, v);
    if (*u == TN_DIM_BAD) return false;
  }
  if (op == TN_S_MUL) *base = tn_dim_mul(k->dims, *base, bb);
  return *base != TN_DIM_BAD;
}

bool tn_kx_affine(const tn_kdef *k, tn_kx_id id, tn_dim *coef, tn_dim *base) {
  int fuel = 500;
  return affine(k, id, coef, base, &fuel);
}

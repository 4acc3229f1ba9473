/* aten_arg: reading the arguments of a CALL by schema name, and torch's dtype promotion (its "result_type": dimensioned tensors
 * outrank 0-d tensors, which outrank plain numbers, within one kind of number). Failures stick in c->st. */
#include "aten_int.h"

tn_status tn_at_unsup(tn_decomp_ctx *c, const char *fmt, ...) {
  if (c->st != TN_OK) return c->st;
  char text[256];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  const char *t = c->g->node[c->node].target;
  return c->st = tn_fail(c->d, TN_E_UNSUPPORTED, "%s: %s", t ? t : "call", text);
}

static const tn_node *call(const tn_decomp_ctx *c) { return &c->g->node[c->node]; }

const tn_attr_val *tn_at_val(const tn_decomp_ctx *c, const char *name) {
  const tn_attr_val *v = tn_attr_get(call(c), name);
  return v && v->kind != TN_AT_NONE ? v : NULL;
}

static tn_ref input_of(tn_decomp_ctx *c, const tn_attr_val *v, const char *name) {
  tn_ref none = {0};
  if (v->kind != TN_AT_REF || v->u.ref >= call(c)->n_in) { tn_at_unsup(c, "argument %s is not a tensor", name); return none; }
  return tn_graph_resolve(c->g, call(c)->in[v->u.ref]);
}

tn_ref tn_at_opt(tn_decomp_ctx *c, const char *name) {
  const tn_attr_val *v = tn_at_val(c, name);
  return v && c->st == TN_OK ? input_of(c, v, name) : (tn_ref){0};
}

tn_ref tn_at_t(tn_decomp_ctx *c, const char *name) {
  const tn_attr_val *v = tn_at_val(c, name);
  if (!v) tn_at_unsup(c, "argument %s is missing", name);
  return v && c->st == TN_OK ? input_of(c, v, name) : (tn_ref){0};
}

static bool as_int(tn_decomp_ctx *c, const tn_attr_val *v, int64_t *out) {
  switch (v->kind) {
  case TN_AT_INT: *out = v->u.i; return true;
  case TN_AT_BOOL: *out = v->u.b; return true;
  case TN_AT_DIM: return v->u.d != TN_DIM_BAD && tn_dim_as_int(c->g->dims, v->u.d, out);
  case TN_AT_FLOAT:
    if (v->u.f >= -9e15 && v->u.f <= 9e15 && v->u.f == floor(v->u.f)) { *out = (int64_t)v->u.f; return true; }
    return false;
  default: return false;
  }
}

/* Counts, dims and distances: anything beyond 31 bits is nonsense, and refusing it here keeps products of two within int64. */
static bool small_int(tn_decomp_ctx *c, const tn_attr_val *v, int64_t *out) {
  return as_int(c, v, out) && *out >= -INT32_MAX && *out <= INT32_MAX;
}

int64_t tn_at_i(tn_decomp_ctx *c, const char *name, int64_t def) {
  const tn_attr_val *v = tn_at_val(c, name);
  int64_t r = def;
  if (v && !small_int(c, v, &r)) { tn_at_unsup(c, "argument %s is not a constant integer of 31 bits", name); return def; }
  return r;
}

double tn_at_f(tn_decomp_ctx *c, const char *name, double def) {
  const tn_attr_val *v = tn_at_val(c, name);
  int64_t i;
  if (!v) return def;
  if (v->kind == TN_AT_FLOAT) return v->u.f;
  if (as_int(c, v, &i)) return (double)i;
  tn_at_unsup(c, "argument %s is not a constant number", name);
  return def;
}

bool tn_at_b(tn_decomp_ctx *c, const char *name, bool def) {
  const tn_attr_val *v = tn_at_val(c, name);
  int64_t i;
  if (!v) return def;
  if (as_int(c, v, &i)) return i != 0;
  tn_at_unsup(c, "argument %s is not a bool", name);
  return def;
}

const char *tn_at_s(tn_decomp_ctx *c, const char *name, const char *def) {
  const tn_attr_val *v = tn_at_val(c, name);
  if (!v) return def;
  if (v->kind == TN_AT_STR) return v->u.s;
  tn_at_unsup(c, "argument %s is not a string", name);
  return def;
}

static tn_dim as_dim(tn_decomp_ctx *c, const tn_attr_val *v, const char *name) {
  int64_t i;
  if (v->kind == TN_AT_DIM && v->u.d != TN_DIM_BAD) return v->u.d;
  if (as_int(c, v, &i)) return i >= 0 ? i : tn_dim_int(c->g->dims, i);
  tn_at_unsup(c, "argument %s is not an integer", name);
  return 0;
}

tn_dim tn_at_dim(tn_decomp_ctx *c, const char *name, tn_dim def) {
  const tn_attr_val *v = tn_at_val(c, name);
  return v ? as_dim(c, v, name) : def;
}

int tn_at_dims(tn_decomp_ctx *c, const char *name, tn_dim *out, int max) {
  const tn_attr_val *v = tn_at_val(c, name);
  if (!v) return -1;
  const tn_attr_val *it = v->kind == TN_AT_LIST ? v->u.list.item : v;
  int64_t n = v->kind == TN_AT_LIST ? v->u.list.n : 1;
  if (n > max) { tn_at_unsup(c, "argument %s has %lld items, at most %d are understood", name, (long long)n, max); return 0; }
  for (int64_t i = 0; i < n; i++) out[i] = as_dim(c, &it[i], name);
  return (int)n;
}

int tn_at_ints(tn_decomp_ctx *c, const char *name, int64_t *out, int max) {
  const tn_attr_val *v = tn_at_val(c, name);
  if (!v) return -1;
  const tn_attr_val *it = v->kind == TN_AT_LIST ? v->u.list.item : v;
  int64_t n = v->kind == TN_AT_LIST ? v->u.list.n : 1;
  if (n > max) { tn_at_unsup(c, "argument %s has %lld items, at most %d are understood", name, (long long)n, max); return 0; }
  for (int64_t i = 0; i < n; i++)
    if (!small_int(c, &it[i], &out[i])) { tn_at_unsup(c, "argument %s[%lld] is not a constant integer of 31 bits", name, (long long)i); return 0; }
  return (int)n;
}

void tn_at_spread(tn_decomp_ctx *c, const char *name, int64_t *out, int n, int64_t def) {
  int64_t v[TN_MAX_RANK] = {0};
  int k = tn_at_ints(c, name, v, TN_MAX_RANK);
  if (k > 1 && k != n) tn_at_unsup(c, "argument %s has %d values for %d dims", name, k, n);
  for (int i = 0; i < n; i++) out[i] = k == n ? v[i] : k == 1 ? v[0] : def;
}

int tn_wrap_axis(tn_decomp_ctx *c, int64_t d, int rank) {
  int n = rank ? rank : 1;
  if (d < -n || d >= n) { tn_at_unsup(c, "dim %lld is out of range for rank %d", (long long)d, rank); return 0; }
  return (int)(d < 0 ? d + n : d);
}

int tn_at_axis(tn_decomp_ctx *c, const char *name, int rank) { return tn_wrap_axis(c, tn_at_i(c, name, 0), rank); }

int tn_at_axes(tn_decomp_ctx *c, const char *name, int rank, int *out) {
  int64_t v[TN_MAX_RANK];
  int n = tn_at_ints(c, name, v, TN_MAX_RANK), m = 0;
  bool on[TN_MAX_RANK] = {false};
  for (int i = 0; i < n; i++) on[tn_wrap_axis(c, v[i], rank)] = true;
  for (int i = 0; i < rank; i++)
    if (n <= 0 || on[i]) out[m++] = i;
  return m;
}

uint32_t tn_at_ts(tn_decomp_ctx *c, const char *name, tn_ref **out) {
  const tn_attr_val *v = tn_at_val(c, name);
  *out = NULL;
  if (c->st != TN_OK) return 0;
  if (!v || v->kind != TN_AT_LIST) { tn_at_unsup(c, "argument %s is not a list of tensors", name); return 0; }
  uint32_t n = v->u.list.n;
  tn_ref *r = TN_NEW(c->g->arena, tn_ref, n ? n : 1);
  if (!r) { c->st = tn_fail(c->d, TN_E_NOMEM, "list of %u tensors", n); return 0; }
  for (uint32_t i = 0; i < n; i++)
    if (v->u.list.item[i].kind != TN_AT_NONE) r[i] = input_of(c, &v->u.list.item[i], name);
  *out = r;
  return n;
}

/* ---- operands and promotion ---- */

tn_opd tn_opd_of(tn_ref r) { return (tn_opd){r, NULL}; }

tn_opd tn_at_opd(tn_decomp_ctx *c, const char *name) {
  tn_opd o = {{0}, tn_at_val(c, name)};
  if (!o.num) { tn_at_unsup(c, "argument %s is missing", name); return o; }
  if (o.num->kind == TN_AT_REF) { o.ref = input_of(c, o.num, name); o.num = NULL; return o; }
  if (o.num->kind != TN_AT_INT && o.num->kind != TN_AT_FLOAT && o.num->kind != TN_AT_BOOL && o.num->kind != TN_AT_DIM)
    tn_at_unsup(c, "argument %s is neither tensor nor number", name);
  return o;
}

/* 0 bool, 1 integer, 2 float */
static int kind_of(tn_dtype t) { return tn_dtype_is_float(t) ? 2 : t == TN_BOOL ? 0 : 1; }

static tn_dtype promote2(tn_dtype a, tn_dtype b) {
  if (a == b) return a;
  int ka = kind_of(a), kb = kind_of(b);
  if (ka != kb) return ka > kb ? a : b;
  if (ka == 2) {
    if (a == TN_F64 || b == TN_F64) return TN_F64;
    return TN_F32;                            /* f32 with any, or f16 with bf16 */
  }
  if (a == TN_U8 || b == TN_U8) {             /* u8 with i8 needs i16 */
    tn_dtype o = a == TN_U8 ? b : a;
    return o == TN_I8 ? TN_I16 : o;
  }
  return tn_dtype_size(a) > tn_dtype_size(b) ? a : b;
}

static tn_dtype join(bool has_hi, tn_dtype hi, bool has_lo, tn_dtype lo) {
  if (!has_hi) return lo;
  if (!has_lo) return hi;
  return kind_of(lo) > kind_of(hi) ? promote2(hi, lo) : hi;
}

tn_dtype tn_at_promote(tn_decomp_ctx *c, const tn_opd *o, int n) {
  bool has[3] = {false, false, false};        /* numbers, 0-d tensors, tensors with dims */
  tn_dtype t[3] = {TN_BOOL, TN_BOOL, TN_BOOL};
  for (int i = 0; i < n; i++) {
    int k = o[i].num ? 0 : tn_b_rank(c, o[i].ref) ? 2 : 1;
    tn_dtype d = !o[i].num ? tn_b_dtype(c, o[i].ref) : o[i].num->kind == TN_AT_FLOAT ? TN_F32 : o[i].num->kind == TN_AT_BOOL ? TN_BOOL : TN_I64;
    t[k] = has[k] ? promote2(t[k], d) : d;
    has[k] = true;
  }
  tn_dtype low = join(has[1], t[1], has[0], t[0]);
  return join(has[2], t[2], has[0] || has[1], low);
}

tn_ref tn_at_as(tn_decomp_ctx *c, tn_opd o, tn_dtype t) {
  if (c->st != TN_OK) return (tn_ref){0};
  return o.num ? tn_b_val(c, o.num, t) : tn_b_cast(c, o.ref, t);
}

bool tn_at_wider(tn_decomp_ctx *c, tn_opd o, tn_dtype t) {
  if (c->st != TN_OK || (t != TN_F16 && t != TN_BF16)) return false;
  if (!o.num) { tn_dtype d = tn_b_dtype(c, o.ref); return d == TN_F32 || d == TN_F64; }
  if (o.num->kind == TN_AT_DIM) return true;
  double v = o.num->kind == TN_AT_FLOAT ? o.num->u.f : o.num->kind == TN_AT_BOOL ? (double)o.num->u.b : (double)o.num->u.i;
  float f = (float)v, r = t == TN_F16 ? tn_f16_to_f32(tn_f32_to_f16(f)) : tn_bf16_to_f32(tn_f32_to_bf16(f));
  return !isnan(v) && (double)r != v;
}

/* ---- results ---- */

const tn_type *tn_at_type(const tn_decomp_ctx *c, uint32_t k) { return tn_typeof(c->g, tn_out(call(c), k)); }
tn_dtype tn_at_dtype(const tn_decomp_ctx *c, uint32_t k) { return (tn_dtype)tn_at_type(c, k)->dtype; }

tn_dim tn_at_odim(tn_decomp_ctx *c, uint32_t k, int i) {
  if (k < c->n_out && i >= 0 && i < tn_at_type(c, k)->rank) return tn_at_type(c, k)->dim[i];
  tn_at_unsup(c, "result %u has no dim %d", k, i);
  return 1;
}

bool tn_at_used(const tn_decomp_ctx *c, uint32_t k) {
  const tn_graph *g = c->g;
  uint32_t id = call(c)->out + k;
  for (uint32_t i = 1; i < g->n_nodes; i++) {
    const tn_node *n = &g->node[i];
    if (n->dead) continue;
    for (uint32_t j = 0; j < n->n_in; j++)
      if (tn_graph_resolve(g, n->in[j]).id == id) return true;
  }
  for (uint32_t i = 0; i < g->n_outputs; i++)
    if (!g->output[i].is_dim && !g->output[i].is_none && tn_graph_resolve(g, g->output[i].ref).id == id) return true;
  for (uint32_t i = 0; i < g->n_mutations; i++)
    if (tn_graph_resolve(g, g->mutation[i].value).id == id) return true;
  return false;
}

tn_status tn_at_ret(tn_decomp_ctx *c, uint32_t k, tn_ref r) {
  if (c->st != TN_OK) return c->st;
  if (k >= c->n_out) return tn_at_unsup(c, "records %u results, the op has more", c->n_out);
  c->out[k] = tn_b_cast(c, r, tn_at_dtype(c, k));
  return c->st;
}

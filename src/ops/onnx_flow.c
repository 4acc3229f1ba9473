/* onnx_flow: If, Loop, Scan, SequenceMap. Bodies become functions of the unit; DYN nodes "if" and "loop" name them (module.h says what these do).
 *
 * If. A condition that is known while compiling leaves one branch, imported in place. Else both become functions, and a result's type is what the branches'
 * types have in common: equal sizes stay, others are fresh symbols, other ranks or kinds make it an OBJ.
 * Loop. What a body carries must fit its own inputs: the body is imported with the types of the initial values; a type that comes out different is widened
 * (a size becomes a symbol, then the value an OBJ) and the body is imported again, until nothing changes.
 * Scan and SequenceMap are written as such loops: the body takes its pieces out of the whole by the number of the iteration. */
#include "onnx_int.h"

enum { MAX_ROUNDS = 12 };

/* ---- types of values ---- */
/* d if every symbol of it is one of the first n (known outside of what was just imported), else TN_DIM_BAD. */
static tn_dim seen(tn_ox *c, tn_dim d, uint32_t n) {
  tn_dims *t = c->b.g->dims;
  if (d == TN_DIM_BAD || tn_dim_is_const(d)) return d;
  uint32_t all = tn_dims_n_syms(t);
  bool *used = TN_NEW(c->b.g->arena, bool, all + 1u);
  if (!used) return TN_DIM_BAD;
  tn_dim_mark_syms(t, d, used);
  for (uint32_t i = n; i < all; i++)
    if (used[i]) return TN_DIM_BAD;
  return d;
}
/* What two values have in common; dims that differ, or hold symbols beyond the first n, are TN_DIM_BAD. */
static tn_ox_obj common(tn_ox *c, tn_ox_obj a, tn_ox_obj b, uint32_t n) {
  tn_ox_obj r = a;
  r.one = 0;
  if (a.kind != b.kind) {
    bool optional = (a.kind == TN_OX_K_OPTIONAL && b.kind == TN_OX_K_TENSOR) || (b.kind == TN_OX_K_OPTIONAL && a.kind == TN_OX_K_TENSOR);
    if (!optional) return (tn_ox_obj){.kind = TN_OX_K_ANY, .rank = -1};
    r.kind = TN_OX_K_OPTIONAL;
  }
  if (a.rank == -2) r.rank = b.rank, r.dim = b.dim, r.elem = b.elem;            /* a list of nothing fits any */
  else if (b.rank != -2 && (a.elem != b.elem || a.rank != b.rank)) {
    if (a.elem != b.elem) r.elem = 0;
    r.rank = -1;
  }
  if (r.rank <= 0) return r;
  tn_dim *d = TN_NEW(c->b.g->arena, tn_dim, r.rank);
  if (!d) return (tn_ox_obj){.kind = TN_OX_K_ANY, .rank = -1};
  for (int i = 0; i < r.rank; i++) {
    d[i] = seen(c, r.dim[i], n);
    if (a.rank == b.rank && a.dim[i] != b.dim[i]) d[i] = TN_DIM_BAD;
  }
  r.dim = d;
  return r;
}
tn_type tn_ox_type_of(tn_ox *c, tn_ox_obj *o) {
  tn_type t = {TN_OBJ, 0, NULL};
  int dtype = tn_ox_dtype_of(o->elem);
  if (o->kind != TN_OX_K_TENSOR || o->rank < 0 || dtype < 0 || dtype == TN_OBJ) return t;
  tn_dim d[TN_MAX_RANK];
  for (int i = 0; i < o->rank; i++) d[i] = o->dim[i] == TN_DIM_BAD ? tn_ox_fresh(c, 0, INT64_MAX) : o->dim[i];
  t = tn_ox_type(c, (tn_dtype)dtype, o->rank, d);
  o->dim = t.dim;
  return t;
}
void tn_ox_describe(tn_ox *c, tn_ref r, tn_ox_obj o) {
  if (c->b.st != TN_OK || !r.id) return;
  tn_status s = tn_typeof(c->b.g, r)->dtype == TN_OBJ ? tn_ox_obj_set(c->e, r, o) : tn_ox_elem_set(c->e, r, o.elem);
  if (s != TN_OK) c->b.st = tn_fail(c->b.d, s, "type of a value");
}
static tn_status kept(tn_ox *c, tn_status s) {
  if (s != TN_OK && c->b.st == TN_OK) c->b.st = s;
  return c->b.st;
}

/* ---- If ---- */
static const tn_ox_attr *graph_attr(tn_ox *c, const char *name) {
  const tn_ox_attr *a = tn_ox_attr_get(c, name);
  if (!a || a->kind != TN_OX_GRAPH) { tn_ox_bad(c, "attribute %s is no graph", name); return NULL; }
  return a;
}
/* Results of one element in both branches, of another rank in each: both give it as a scalar, too. Returns the highest rank, or -1. */
static int twin(tn_ox *c, tn_ox_env *const env[2], uint32_t k) {
  int most = -1;
  for (int i = 0; i < 2; i++) {
    const tn_type *t = tn_typeof(env[i]->g, env[i]->g->output[k].ref);
    if (t->dtype == TN_OBJ || tn_type_numel(t) != 1) return -1;
    if (t->rank > most) most = t->rank;
  }
  for (int i = 0; i < 2; i++) {
    tn_decomp_ctx b = {.d = c->b.d, .g = env[i]->g};
    tn_ref r = tn_b_reshape(&b, env[i]->g->output[k].ref, NULL, 0);
    if (b.st == TN_OK && tn_graph_add_output(b.g, r) != TN_OK) b.st = tn_fail(c->b.d, TN_E_NOMEM, "outputs of a branch");
    if (b.st != TN_OK) c->b.st = b.st;
  }
  return most;
}
/* The types of the node's results; *out_n of them: twins come last. */
static void if_types(tn_ox *c, tn_ox_env *const env[2], uint32_t before, tn_ox_obj *obj, tn_type *type, uint32_t *out_n) {
  *out_n = c->n_out;
  for (uint32_t k = 0; k < c->n_out && c->b.st == TN_OK; k++) {
    obj[k] = common(c, tn_ox_obj_of(env[0], env[0]->g->output[k].ref), tn_ox_obj_of(env[1], env[1]->g->output[k].ref), before);
    type[k] = tn_ox_type_of(c, &obj[k]);
    int rank = type[k].dtype == TN_OBJ && obj[k].kind == TN_OX_K_TENSOR && obj[k].elem && obj[k].elem != 8 ? twin(c, env, k) : -1;
    if (rank < 0) continue;
    obj[k].one = *out_n;                                     /* its number for now */
    obj[k].one_rank = (int8_t)rank;
    obj[*out_n] = (tn_ox_obj){.kind = TN_OX_K_TENSOR, .elem = obj[k].elem};
    type[*out_n] = tn_ox_type_of(c, &obj[*out_n]);
    ++*out_n;
  }
}
/* One of the branches can't be imported (it may be for inputs of other sizes than these): the other is taken in place, and a run whose condition asks for the
 * one that is missing fails with the reason. Both missing: the first reason. */
static tn_status one_branch(tn_ox *c, const tn_ox_attr *const branch[2], tn_ref cond, tn_status first) {
  tn_diag *d = c->b.d;
  const char *why = tn_arena_strdup(c->b.g->arena, d->text);
  uint32_t f, n_cap, n = tn_dims_n_assumed(c->b.g->dims);
  tn_ox_env *env;
  tn_ref *cap;
  if (!why) return tn_fail(d, TN_E_NOMEM, "an error");
  for (int k = 0; k < 2; k++) {
    tn_status st = c->e->subgraphs(c->e, d, &branch[k], 1, NULL, NULL, 0, &f, &env, &cap, &n_cap);
    tn_dims_forget_assumed(c->b.g->dims, n);
    if (st == TN_E_NOMEM) return st;
    if (st != TN_OK) continue;
    c->e->unit->n_func = f;                                  /* it could be imported; now here */
    tn_diag_clear(d);
    tn_log("stages", "onnx: %.60s: only its %s branch could be imported: %s", c->name, k ? "else" : "then", why);
    tn_attr at[2] = {tn_mk_int("want", k == 0), tn_mk_str("text", tn_arena_printf(c->b.g->arena, "the %s branch of %.60s is asked for, which was not compiled: %.200s", k ? "then" : "else", c->name, why))};
    if (!at[1].val.u.s) return tn_fail(d, TN_E_NOMEM, "an error");
    TN_TRY(c->e->inlined(c->e, d, branch[k], NULL, 0, c->out, c->n_out));
    for (uint32_t i = 0; i < c->n_out; i++) {
      tn_ref in[2] = {cond, c->out[i]};
      tn_ox_obj o = tn_ox_obj_of(c->e, c->out[i]);
      tn_type t = *tn_typeof(c->b.g, c->out[i]);
      c->out[i] = tn_ox_dyn(c, "require", in, 2, at, 2, &t, 1);
      tn_ox_describe(c, c->out[i], o);
    }
    return c->b.st;
  }
  return tn_fail(d, first, "%s", why);
}
tn_status tn_ox_if(tn_ox *c) {
  const tn_ox_attr *branch[2] = {graph_attr(c, "then_branch"), graph_attr(c, "else_branch")};
  tn_dim known;
  uint32_t f[2], n_cap, n_out, before = tn_dims_n_syms(c->b.g->dims);
  tn_ox_env *env[2];
  tn_ref *cap;
  if (c->b.st != TN_OK) return c->b.st;
  if (!tn_ox_has(c, 0)) return tn_ox_bad(c, "the condition is missing");
  tn_ref cond = c->in[0];
  if (tn_typeof(c->b.g, cond)->dtype != TN_OBJ && tn_ox_items(c, cond, &known, 1) == 1 && tn_dim_is_const(known))
    return kept(c, c->e->inlined(c->e, c->b.d, branch[known == 0], NULL, 0, c->out, c->n_out));
  uint32_t n_assumed = tn_dims_n_assumed(c->b.g->dims);
  *c->e->rank_missing = false;
  tn_status st = c->e->subgraphs(c->e, c->b.d, branch, 2, NULL, NULL, 0, f, env, &cap, &n_cap);
  if (st != TN_OK) {
    if (*c->e->rank_missing) return kept(c, st);             /* of a value from around here: the caller may know a way (the importer forks) */
    tn_dims_forget_assumed(c->b.g->dims, n_assumed);
    return kept(c, st == TN_E_NOMEM ? st : one_branch(c, branch, cond, st));
  }
  tn_ref *in = TN_NEW(c->b.g->arena, tn_ref, n_cap + 1u);
  tn_ox_obj *obj = TN_NEW(c->b.g->arena, tn_ox_obj, 2 * c->n_out + 1u);
  tn_type *type = TN_NEW(c->b.g->arena, tn_type, 2 * c->n_out + 1u);
  if (!in || !obj || !type) return c->b.st = tn_fail(c->b.d, TN_E_NOMEM, "results of If");
  if (env[0]->g->n_outputs != c->n_out || env[1]->g->n_outputs != c->n_out)
    return tn_ox_bad(c, "the node has %u results, its branches %u and %u", c->n_out, env[0]->g->n_outputs, env[1]->g->n_outputs);
  in[0] = cond;
  for (uint32_t k = 0; k < n_cap; k++) in[1 + k] = cap[k];
  if_types(c, env, before, obj, type, &n_out);
  tn_attr at[2] = {tn_mk_int("then", f[0]), tn_mk_int("else", f[1])};
  tn_ref r = tn_ox_dyn(c, "if", in, n_cap + 1, at, 2, type, n_out);
  for (uint32_t k = 0; k < n_out; k++) {
    if (obj[k].one) obj[k].one = tn_ox_nth(r, obj[k].one).id;
    tn_ox_describe(c, tn_ox_nth(r, k), obj[k]);
    tn_ox_ret(c, k, tn_ox_nth(r, k));
  }
  return c->b.st;
}

/* ---- a condition that is taken for granted ---- */
/* The two numbers that an equality, seen through reshapes and casts, compares. */
static bool compared(tn_ox *c, tn_ref cond, tn_dim *a, tn_dim *b) {
  const tn_node *n = tn_def(c->b.g, cond);
  for (int i = 0; i < 16 && n->n_in == 1 && (n->op == TN_OP_RESHAPE || n->op == TN_OP_CAST); i++) n = tn_def(c->b.g, n->in[0]);
  return n->op == TN_OP_EQ && tn_ox_items(c, n->in[0], a, 1) == 1 && tn_ox_items(c, n->in[1], b, 1) == 1;
}
tn_status tn_ox_grant(tn_ox_env *e, tn_diag *d, tn_ref cond, bool value, uint32_t prov) {
  tn_ox c = {.b = {.d = d, .g = e->g, .prov = prov}, .e = e, .op = "If", .domain = "", .name = ""};
  tn_dims *t = e->g->dims;
  tn_dim a, b, is[1];
  if (tn_typeof(e->g, cond)->dtype == TN_OBJ || tn_type_numel(tn_typeof(e->g, cond)) != 1) return tn_ox_unsup(&c, "a condition that is no single bool");
  const tn_prov *p = tn_graph_prov(e->g, prov);
  tn_dims_collect(t, p && p->name ? p->name : "If", e->g->func);
  if (compared(&c, cond, &a, &b)) {
    tn_dim off = tn_dim_sub(t, a, b);                        /* different whole numbers: |a - b| >= 1 */
    if (value) tn_ox_same_size(&c, a, b, "two sizes that an If compares");
    else tn_ox_same_size(&c, tn_dim_min(t, tn_dim_max(t, off, tn_dim_sub(t, 0, off)), 1), 1, "two sizes that an If compares, and must differ");
  } else if (tn_ox_sizes(&c, tn_b_cast(&c.b, tn_b_reshape(&c.b, cond, NULL, 0), TN_I64), is, 1, 0) == 1) {
    tn_ox_same_size(&c, is[0], value, "the condition of an If");
  }
  tn_dims_collect(t, NULL, 0);
  return c.b.st;
}

/* ---- loops in general ---- */
/* fill gets (iteration, condition, carried[n], extra[n_extra]) and adds the outputs (condition, carried, scans). */
typedef struct loop {
  tn_ox *c;
  tn_status (*fill)(void *ctx, tn_ox_env *env, const tn_ref *in, uint32_t n_in);
  void *ctx;
  tn_ref count, cond;                  /* id 0: none */
  const tn_ref *carried; uint32_t n;
  const tn_ref *extra; uint32_t n_extra;
  uint32_t n_scan;
  tn_dim trips;                        /* as far as known; TN_DIM_BAD */
  const bool *endless;                 /* NULL, or set by fill: the body's condition holds always; then trips are: */
  tn_dim most;
  /* results */
  tn_ref *out;                         /* [n + n_scan] */
  tn_ox_obj *obj;                      /* [2 + n + n_extra] of the body's inputs */
} loop;

/* A value that is carried, widened to hold what the body gives too. True: it had to change. */
static bool widen(tn_ox *c, tn_ox_obj *have, tn_type *type, tn_ox_obj gives, uint32_t before) {
  tn_ox_obj now = common(c, *have, gives, before);
  bool changed = now.kind != have->kind || now.elem != have->elem || now.rank != have->rank;
  for (int i = 0; !changed && i < now.rank; i++) {
    bool open = have->dim[i] != TN_DIM_BAD && seen(c, have->dim[i], before) == TN_DIM_BAD;   /* a symbol of the body's own: takes any size */
    if (open) ((tn_dim *)(uintptr_t)now.dim)[i] = have->dim[i];
    changed |= !open && now.dim[i] != have->dim[i];
  }
  if (!changed) return false;
  for (int i = 0; i < now.rank; i++)
    if (have->rank == now.rank && have->dim[i] != TN_DIM_BAD && seen(c, have->dim[i], before) == TN_DIM_BAD) ((tn_dim *)(uintptr_t)now.dim)[i] = have->dim[i];
  *have = now;
  *type = tn_ox_type_of(c, have);
  return true;
}
static tn_attr int_list(tn_ox *c, const char *name, const int64_t *v, uint32_t n) {
  tn_attr a = {.name = name, .val = {.kind = TN_AT_LIST}};
  a.val.u.list.item = TN_NEW(c->b.g->arena, tn_attr_val, n + 1u);
  a.val.u.list.n = a.val.u.list.item ? n : 0;
  for (uint32_t i = 0; i < a.val.u.list.n; i++) a.val.u.list.item[i] = (tn_attr_val){.kind = TN_AT_INT, .u.i = v[i]};
  return a;
}
/* The type of a stacked result. Where nothing was stacked the run does not know what sizes with symbols would have been, and says 0: the node gives sizes of
 * its own then, and a reshape behind it (t * 0 elements are t * N for no t) the right ones. */
static tn_type scan_type(tn_ox *c, tn_ox_obj o, bool open) {
  tn_dim d[TN_MAX_RANK];
  for (int i = 0; i < o.rank; i++) d[i] = open && i && !tn_dim_is_const(o.dim[i]) ? TN_DIM_BAD : o.dim[i];
  o.dim = d;
  return tn_ox_type_of(c, &o);
}
/* The node, once the body's types hold. */
static tn_status loop_node(loop *l, uint32_t func, tn_ox_env *env, const tn_ref *cap, uint32_t n_cap, uint32_t before) {
  tn_ox *c = l->c;
  uint32_t n_in = 2 + l->n + l->n_extra + n_cap, n_out = l->n + l->n_scan, n_shape = 0;
  tn_arena *a = c->b.g->arena;
  tn_ref *in = TN_NEW(a, tn_ref, n_in + 1u);
  tn_type *type = TN_NEW(a, tn_type, n_out + 1u);
  tn_ox_obj *obj = TN_NEW(a, tn_ox_obj, n_out + 1u);
  int64_t *elem = TN_NEW(a, int64_t, l->n_scan + 1u), *shape = TN_NEW(a, int64_t, l->n_scan * (TN_MAX_RANK + 1u) + 1u);
  bool *open = TN_NEW(a, bool, l->n_scan + 1u);
  l->out = TN_NEW(a, tn_ref, n_out + 1u);
  if (!in || !type || !obj || !elem || !shape || !open || !l->out) return c->b.st = tn_fail(c->b.d, TN_E_NOMEM, "a loop");
  in[0] = l->count.id ? l->count : tn_ox_none(c);
  in[1] = l->cond.id ? l->cond : tn_ox_none(c);
  memcpy(in + 2, l->carried, l->n * sizeof *in);
  if (l->n_extra) memcpy(in + 2 + l->n, l->extra, l->n_extra * sizeof *in);
  if (n_cap) memcpy(in + 2 + l->n + l->n_extra, cap, n_cap * sizeof *in);
  for (uint32_t k = 0; k < l->n; k++) {
    obj[k] = common(c, l->obj[2 + k], l->obj[2 + k], before);
    type[k] = tn_ox_type_of(c, &obj[k]);
  }
  for (uint32_t k = 0; k < l->n_scan; k++) {
    tn_ox_obj o = tn_ox_obj_of(env, env->g->output[1 + l->n + k].ref);
    tn_dim *d = TN_NEW(a, tn_dim, TN_MAX_RANK + 1);
    if (!d) return c->b.st = tn_fail(c->b.d, TN_E_NOMEM, "a loop");
    if (o.kind != TN_OX_K_TENSOR || o.rank < 0 || o.rank >= TN_MAX_RANK || o.elem == 8) return tn_ox_unsup(c, "scan result %u is no tensor of known rank", k);
    d[0] = l->trips == TN_DIM_BAD ? tn_ox_fresh(c, 0, INT64_MAX) : l->trips;
    elem[k] = o.elem;
    shape[n_shape++] = o.rank;
    for (int i = 0; i < o.rank; i++) {
      d[i + 1] = seen(c, o.dim[i], before);
      open[k] |= d[i + 1] != TN_DIM_BAD && !tn_dim_is_const(d[i + 1]);
      shape[n_shape++] = d[i + 1] != TN_DIM_BAD && tn_dim_is_const(d[i + 1]) ? d[i + 1] : -1;
    }
    obj[l->n + k] = (tn_ox_obj){.kind = TN_OX_K_TENSOR, .elem = o.elem, .rank = (int8_t)(o.rank + 1), .dim = d};
    type[l->n + k] = scan_type(c, obj[l->n + k], open[k]);
  }
  tn_attr at[5] = {tn_mk_int("body", func), tn_mk_int("carried", l->n), tn_mk_int("scans", l->n_scan), int_list(c, "scan_elem", elem, l->n_scan), int_list(c, "scan_shape", shape, n_shape)};
  tn_ref r = tn_ox_dyn(c, "loop", in, n_in, at, l->n_scan ? 5 : 3, type, n_out);
  for (uint32_t k = 0; k < n_out; k++) {
    l->out[k] = tn_ox_nth(r, k);
    tn_ox_describe(c, l->out[k], obj[k]);
    if (k < l->n || !open[k - l->n] || c->b.st != TN_OK) continue;
    tn_dim d[TN_MAX_RANK];
    for (int i = 0; i < obj[k].rank; i++) d[i] = obj[k].dim[i] == TN_DIM_BAD || i == 0 ? tn_b_dim(&c->b, l->out[k], i) : obj[k].dim[i];
    tn_ref y = tn_b_reshape(&c->b, l->out[k], d, obj[k].rank);
    tn_ox_describe(c, y, obj[k]);
    l->out[k] = y;
  }
  return c->b.st;
}
static tn_status run_loop(loop *l) {
  tn_ox *c = l->c;
  tn_unit *u = c->e->unit;
  uint32_t n_in = 2 + l->n + l->n_extra, before = tn_dims_n_syms(c->b.g->dims), func, n_cap;
  tn_type *type = TN_NEW(c->b.g->arena, tn_type, n_in);
  l->obj = TN_NEW(c->b.g->arena, tn_ox_obj, n_in);
  if (!type || !l->obj) return c->b.st = tn_fail(c->b.d, TN_E_NOMEM, "a loop");
  l->obj[0] = (tn_ox_obj){.kind = TN_OX_K_TENSOR, .elem = 7};
  l->obj[1] = (tn_ox_obj){.kind = TN_OX_K_TENSOR, .elem = 9};
  for (uint32_t k = 2; k < n_in; k++) l->obj[k] = tn_ox_obj_of(c->e, k < 2 + l->n ? l->carried[k - 2] : l->extra[k - 2 - l->n]);
  for (uint32_t k = 0; k < n_in; k++) type[k] = tn_ox_type_of(c, &l->obj[k]);
  for (int round = 0; c->b.st == TN_OK; round++) {
    tn_ox_env *env;
    tn_ref *cap;
    bool changed = false;
    uint32_t n_func = u->n_func, n_pairs = tn_dims_n_assumed(c->b.g->dims);
    TN_TRY(kept(c, c->e->enclose(c->e, c->b.d, c->op, l->fill, l->ctx, type, l->obj, n_in, &func, &env, &cap, &n_cap)));
    if (env->g->n_outputs != 1 + l->n + l->n_scan) return tn_ox_bad(c, "the body gives %u values, wanted %u", env->g->n_outputs, 1 + l->n + l->n_scan);
    for (uint32_t k = 0; k < l->n; k++) {
      tn_ox_obj gives = tn_ox_obj_of(env, env->g->output[1 + k].ref);
      if (round < MAX_ROUNDS - 1) changed |= widen(c, &l->obj[2 + k], &type[2 + k], gives, before);
    }
    if (l->endless && *l->endless) l->trips = l->most;
    if (!changed) return loop_node(l, func, env, cap, n_cap, before);
    if (round >= MAX_ROUNDS - 2) return tn_ox_unsup(c, "types of what the body carries do not settle");
    u->n_func = n_func;                                      /* the import with the narrow types is taken back */
    tn_dims_forget_assumed(c->b.g->dims, n_pairs);
  }
  return c->b.st;
}
/* Builders for the graph of a body. */
tn_ox tn_ox_inside(const tn_ox *c, tn_ox_env *env) {
  tn_ox in = *c;
  in.e = env;
  in.b = (tn_decomp_ctx){.d = c->b.d, .g = env->g};
  return in;
}
tn_status tn_ox_body_outputs(tn_ox *in, const tn_ref *r, uint32_t n) {
  for (uint32_t k = 0; k < n && in->b.st == TN_OK; k++)
    if (tn_graph_add_output(in->b.g, r[k]) != TN_OK) in->b.st = tn_fail(in->b.d, TN_E_NOMEM, "outputs of a body");
  return in->b.st;
}

tn_status tn_ox_repeat(tn_ox *c, tn_dim trips, tn_ox_fill fill, void *ctx, const tn_ref *carried, uint32_t n, const tn_ref *extra, uint32_t n_extra, uint32_t n_scan, tn_ref *out) {
  loop l = {.c = c, .fill = fill, .ctx = ctx, .count = tn_b_dimval(&c->b, trips, TN_I64), .carried = carried, .n = n, .extra = extra, .n_extra = n_extra, .n_scan = n_scan, .trips = trips};
  if (c->b.st != TN_OK) return c->b.st;
  TN_TRY(run_loop(&l));
  for (uint32_t k = 0; k < n + n_scan; k++) out[k] = l.out[k];
  return c->b.st;
}

/* ---- Loop ---- */
typedef struct loop_ctx { tn_ox *c; const tn_ox_attr *body; uint32_t n_out; bool endless; /* the body never ends it early */ } loop_ctx;

static tn_status loop_fill(void *ctx, tn_ox_env *env, const tn_ref *in, uint32_t n_in) {
  loop_ctx *l = ctx;
  tn_ox own = tn_ox_inside(l->c, env);
  tn_ref *out = TN_NEW(env->g->arena, tn_ref, l->n_out + 1u);
  tn_dim known;
  if (!out) return tn_fail(own.b.d, TN_E_NOMEM, "results of a body");
  TN_TRY(env->inlined(env, own.b.d, l->body, in, n_in, out, l->n_out));
  if (tn_typeof(env->g, out[0])->dtype != TN_OBJ) {
    l->endless = out[0].id == in[1].id || (tn_ox_items(&own, out[0], &known, 1) == 1 && known == 1);
    if (tn_type_numel(tn_typeof(env->g, out[0])) == 1) out[0] = tn_b_reshape(&own.b, out[0], NULL, 0);
  }
  return tn_ox_body_outputs(&own, out, l->n_out);
}
static bool is_tensor(const tn_ox *c, tn_ref r) { return tn_typeof(c->b.g, r)->dtype != TN_OBJ; }
tn_status tn_ox_loop(tn_ox *c) {
  const tn_ox_attr *body = graph_attr(c, "body");
  uint32_t n_in, n_out;
  tn_dim known;
  if (c->b.st != TN_OK) return c->b.st;
  c->e->arity(body, &n_in, &n_out);
  if (c->n_in < 2 || n_in != c->n_in) return tn_ox_bad(c, "the node has %u operands, its body takes %u", c->n_in, n_in);
  if (n_out < n_in - 1) return tn_ox_bad(c, "the body takes %u values and gives %u", n_in, n_out);
  for (uint32_t k = 2; k < c->n_in; k++)
    if (!c->in[k].id) return tn_ox_bad(c, "operand %u is missing", k);
  loop_ctx ctx = {c, body, n_out, false};
  tn_dim most = TN_DIM_BAD;
  int64_t lo, hi;
  bool held = !c->in[1].id || (is_tensor(c, c->in[1]) && tn_ox_items(c, c->in[1], &known, 1) == 1 && known == 1);
  if (held && c->in[0].id && is_tensor(c, c->in[0]) && tn_ox_items(c, c->in[0], &known, 1) == 1) {
    tn_dim_bounds(c->b.g->dims, known, &lo, &hi);
    if (hi < INT64_MAX || !tn_dim_is_const(known)) most = lo >= 0 ? known : hi <= 0 ? 0 : tn_dim_max(c->b.g->dims, known, 0);
  }
  loop l = {.c = c, .fill = loop_fill, .ctx = &ctx, .count = c->in[0], .cond = c->in[1], .carried = c->in + 2, .n = c->n_in - 2, .n_scan = n_out - (n_in - 1), .trips = TN_DIM_BAD,
            .endless = &ctx.endless, .most = most};
  if (c->n_out > l.n + l.n_scan) return tn_ox_bad(c, "the node has %u results, its body makes %u", c->n_out, l.n + l.n_scan);
  TN_TRY(run_loop(&l));
  for (uint32_t k = 0; k < c->n_out; k++) tn_ox_ret(c, k, l.out[k]);
  return c->b.st;
}

/* ---- Scan ---- */
typedef struct scan_ctx {
  tn_ox *c;
  const tn_ox_attr *body;
  uint32_t n_state, n_scan, n_out;     /* n_out of the body: states, then what is stacked */
  int axis[64];
  bool back[64];
} scan_ctx;

static tn_status scan_fill(void *ctx, tn_ox_env *env, const tn_ref *in, uint32_t n_in) {
  scan_ctx *s = ctx;
  tn_ox own = tn_ox_inside(s->c, env);
  tn_decomp_ctx *b = &own.b;
  tn_ref arg[128], *out = TN_NEW(env->g->arena, tn_ref, s->n_out + 2u);
  if (!out || s->n_state + s->n_scan > 128) return tn_fail(b->d, TN_E_NOMEM, "results of a body");
  (void)n_in;
  for (uint32_t k = 0; k < s->n_state; k++) arg[k] = in[2 + k];
  for (uint32_t k = 0; k < s->n_scan; k++) {
    tn_ref x = in[2 + s->n_state + k], at = in[0];
    if (s->back[k]) at = tn_b_2(b, TN_OP_SUB, tn_b_addn(b, tn_b_dimval(b, tn_b_dim(b, x, s->axis[k]), TN_I64), -1), at);
    arg[s->n_state + k] = tn_b_take(b, x, at, s->axis[k]);
    if (b->st == TN_OK && tn_ox_elem_get(env, arg[s->n_state + k]) != tn_ox_elem_get(env, x)) tn_ox_set_elem(&own, arg[s->n_state + k], tn_ox_elem_get(env, x));
  }
  TN_TRY(b->st);
  TN_TRY(env->inlined(env, b->d, s->body, arg, s->n_state + s->n_scan, out + 1, s->n_out));
  out[0] = tn_b_int(b, 1, TN_BOOL);
  return tn_ox_body_outputs(&own, out, s->n_out + 1);
}
static int64_t item(const int64_t *v, int n, uint32_t k) { return (int)k < n ? v[k] : 0; }
/* Stacked results are moved to the axis and turned to the direction that are asked for. */
static tn_ref scan_result(tn_ox *c, tn_ref r, int64_t axis, bool back) {
  int n = tn_b_rank(&c->b, r), perm[TN_MAX_RANK], to = tn_ox_wrap(c, axis, n);
  tn_ref from = r;
  if (c->b.st != TN_OK) return r;
  if (back) {
    tn_dim d[1] = {0};
    tn_attr at = tn_mk_dims(c->b.g, "dims", d, 1);
    r = tn_b_op(&c->b, TN_OP_FLIP, &r, 1, &at, 1);
  }
  for (int i = 0, j = 1; i < n; i++) perm[i] = i == to ? 0 : j++;
  r = tn_b_permute(&c->b, r, perm);
  if (c->b.st == TN_OK && tn_ox_elem(c, r) != tn_ox_elem(c, from)) tn_ox_set_elem(c, r, tn_ox_elem(c, from));
  return r;
}
/* One scan over whole values (no batch): state and pieces in, results into out[n_out]. */
static tn_status scan_once(tn_ox *c, const tn_ox_attr *body, const tn_ref *state, uint32_t n_state, const tn_ref *x, uint32_t n_scan, uint32_t n_out, const int64_t *axes, int n_axes,
                           const int64_t *dirs, int n_dirs, tn_ref *out) {
  scan_ctx s = {.c = c, .body = body, .n_state = n_state, .n_scan = n_scan, .n_out = n_out};
  tn_dim trips = TN_DIM_BAD;
  for (uint32_t k = 0; k < n_scan; k++) {
    if (tn_typeof(c->b.g, x[k])->dtype == TN_OBJ) return tn_ox_unsup(c, "scan operand %u is no tensor of known rank", k);
    s.axis[k] = tn_ox_wrap(c, item(axes, n_axes, k), tn_b_rank(&c->b, x[k]));
    s.back[k] = item(dirs, n_dirs, k) != 0;
    if (c->b.st != TN_OK) return c->b.st;
    tn_dim d = tn_b_dim(&c->b, x[k], s.axis[k]);
    if (k) tn_ox_same_size(c, trips, d, "lengths of what is scanned");
    else trips = d;
  }
  if (c->b.st != TN_OK) return c->b.st;
  loop l = {.c = c, .fill = scan_fill, .ctx = &s, .count = tn_b_dimval(&c->b, trips, TN_I64), .carried = state, .n = n_state, .extra = x, .n_extra = n_scan, .n_scan = n_out - n_state, .trips = trips};
  TN_TRY(run_loop(&l));
  for (uint32_t k = 0; k < n_out; k++) out[k] = l.out[k];
  return c->b.st;
}
/* Opset 8: every operand has a batch in front; sequences may not be cut short (no operand 0). Batches are scanned one by one. */
static tn_status scan_8(tn_ox *c, const tn_ox_attr *body, uint32_t n_state, uint32_t n_scan, uint32_t n_out, const int64_t *dirs, int n_dirs) {
  enum { MAX_BATCH = 64 };
  tn_decomp_ctx *b = &c->b;
  tn_ref in[128], part[128], *made = TN_NEW(b->g->arena, tn_ref, (size_t)n_out * MAX_BATCH + 1);
  if (tn_ox_has(c, 0)) return tn_ox_unsup(c, "sequence lengths (opset 8)");
  if (!made) return b->st = tn_fail(b->d, TN_E_NOMEM, "a scan");
  for (uint32_t k = 0; k < n_state + n_scan; k++) {
    in[k] = tn_ox_in(c, k + 1);
    if (b->st == TN_OK && tn_b_rank(b, in[k]) < 1) return tn_ox_bad(c, "operand %u has no batch", k + 1);
  }
  if (b->st != TN_OK) return b->st;
  tn_dim batch = tn_b_dim(b, in[0], 0);
  if (!tn_dim_is_const(batch) || batch < 1 || batch > MAX_BATCH) return tn_ox_unsup(c, "a batch (opset 8) that is not known while compiling, or over %d", MAX_BATCH);
  for (int i = 0; i < batch; i++) {
    for (uint32_t k = 0; k < n_state + n_scan; k++) part[k] = tn_b_sq(b, tn_b_slice(b, in[k], 0, i, 1, 1), 0);
    if (b->st != TN_OK) return b->st;
    TN_TRY(scan_once(c, body, part, n_state, part + n_state, n_scan, n_out, NULL, 0, dirs, n_dirs, made + (size_t)i * n_out));
  }
  for (uint32_t k = 0; k < n_out && k < c->n_out; k++) {
    for (int i = 0; i < batch; i++) part[i] = tn_b_unsq(b, made[(size_t)i * n_out + k], 0);
    tn_ox_ret(c, k, tn_b_concat(b, part, (uint32_t)batch, 0));
  }
  return b->st;
}
tn_status tn_ox_scan(tn_ox *c) {
  const tn_ox_attr *body = graph_attr(c, "body");
  int64_t in_axes[64], out_axes[64], in_dirs[64], out_dirs[64], n_pieces = tn_ox_int(c, "num_scan_inputs", 0);
  uint32_t n_in, n_out, first = c->opset < 9;
  if (c->b.st != TN_OK) return c->b.st;
  c->e->arity(body, &n_in, &n_out);
  if (n_pieces < 1 || n_pieces > 64 || c->n_in - first > 128 || c->n_in < first + n_pieces || n_in != c->n_in - first)
    return tn_ox_bad(c, "%u operands, %lld to scan, a body that takes %u", c->n_in, (long long)n_pieces, n_in);
  uint32_t n_scan = (uint32_t)n_pieces, n_state = n_in - n_scan;
  if (n_out < n_state || n_out - n_state > 64 || c->n_out > n_out) return tn_ox_bad(c, "the body gives %u values, the node has %u results", n_out, c->n_out);
  int n_dirs = tn_ox_ints_attr(c, first ? "directions" : "scan_input_directions", in_dirs, 64), n_axes = tn_ox_ints_attr(c, "scan_input_axes", in_axes, 64);
  int n_odirs = tn_ox_ints_attr(c, "scan_output_directions", out_dirs, 64), n_oaxes = tn_ox_ints_attr(c, "scan_output_axes", out_axes, 64);
  if (c->b.st != TN_OK) return c->b.st;
  if (first) return scan_8(c, body, n_state, n_scan, n_out, in_dirs, n_dirs);
  for (uint32_t k = 0; k < c->n_in; k++)
    if (!c->in[k].id) return tn_ox_bad(c, "operand %u is missing", k);
  tn_ref *out = TN_NEW(c->b.g->arena, tn_ref, n_out + 1u);
  if (!out) return c->b.st = tn_fail(c->b.d, TN_E_NOMEM, "a scan");
  TN_TRY(scan_once(c, body, c->in, n_state, c->in + n_state, n_scan, n_out, in_axes, n_axes, in_dirs, n_dirs, out));
  for (uint32_t k = 0; k < c->n_out; k++) {
    if (k >= n_state) out[k] = scan_result(c, out[k], item(out_axes, n_oaxes, k - n_state), item(out_dirs, n_odirs, k - n_state) != 0);
    tn_ox_ret(c, k, out[k]);
  }
  return c->b.st;
}

/* ---- SequenceMap: items of operand 0, and of the other lists at the same places, through the body; results are lists ---- */
typedef struct map_ctx { tn_ox *c; const tn_ox_attr *body; uint32_t n_in, n_out; tn_ox_obj obj[64]; } map_ctx;

static tn_status map_fill(void *ctx, tn_ox_env *env, const tn_ref *in, uint32_t n_in) {
  map_ctx *m = ctx;
  tn_ox own = tn_ox_inside(m->c, env);
  tn_ref arg[64], out[65];
  (void)n_in;
  for (uint32_t k = 0; k < m->n_in; k++) {
    arg[k] = in[2 + m->n_out + k];
    if (m->obj[k].kind == TN_OX_K_SEQUENCE) arg[k] = tn_ox_item_at(&own, arg[k], m->obj[k], in[0]);
  }
  TN_TRY(own.b.st);
  TN_TRY(env->inlined(env, own.b.d, m->body, arg, m->n_in, out + 1, m->n_out));
  for (uint32_t k = 0; k < m->n_out; k++) out[1 + k] = tn_ox_insert(&own, in[2 + k], out[1 + k], (tn_ref){0});
  out[0] = tn_b_int(&own.b, 1, TN_BOOL);
  return tn_ox_body_outputs(&own, out, m->n_out + 1);
}
tn_status tn_ox_sequence_map(tn_ox *c) {
  map_ctx m = {.c = c, .body = graph_attr(c, "body"), .n_in = c->n_in, .n_out = c->n_out};
  tn_ref empty[64];
  uint32_t n_in, n_out;
  if (c->b.st != TN_OK) return c->b.st;
  c->e->arity(m.body, &n_in, &n_out);
  if (c->n_in < 1 || c->n_in > 64 || c->n_out > 64 || n_in != c->n_in || n_out != c->n_out)
    return tn_ox_bad(c, "%u operands and %u results, a body with %u and %u", c->n_in, c->n_out, n_in, n_out);
  for (uint32_t k = 0; k < c->n_in; k++) {
    if (!c->in[k].id) return tn_ox_bad(c, "operand %u is missing", k);
    m.obj[k] = tn_ox_obj_of(c->e, c->in[k]);
  }
  if (m.obj[0].kind != TN_OX_K_SEQUENCE) return tn_ox_bad(c, "operand 0 is no list");
  for (uint32_t k = 0; k < c->n_out; k++) {
    empty[k] = tn_ox_dyn(c, "sequence_empty", NULL, 0, NULL, 0, NULL, 1);
    tn_ox_describe(c, empty[k], (tn_ox_obj){.kind = TN_OX_K_SEQUENCE, .rank = -2});
  }
  tn_type number = tn_ox_type(c, TN_I64, 0, NULL);
  tn_ref len = tn_ox_dyn(c, "sequence_length", c->in, 1, NULL, 0, &number, 1);
  if (c->b.st != TN_OK) return c->b.st;
  loop l = {.c = c, .fill = map_fill, .ctx = &m, .count = len, .carried = empty, .n = c->n_out, .extra = c->in, .n_extra = c->n_in, .trips = TN_DIM_BAD};
  TN_TRY(run_loop(&l));
  for (uint32_t k = 0; k < c->n_out; k++) tn_ox_ret(c, k, l.out[k]);
  return c->b.st;
}

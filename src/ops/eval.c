/* Evaluation of nodes and whole graphs by the reference kernels: what a graph means, in the plainest way.
 *
 * Values are dense row-major buffers on the heap, freed after their last reader; graph inputs and constants are used where
 * they are. Each result is computed into a buffer of its own: nothing is aliased, so nothing can be overwritten early.
 * The graph must be verified. Checks that symbolic shape rules had to leave open are made by the evaluators with numbers.
 * This file knows no framework ops: call and opaque nodes are TN_E_UNSUPPORTED by name. See bind.c for symbol values. */
#include "ops/ops_int.h"
#include <string.h>

/* ---- numbers out of attributes ---- */
tn_status tn_eval_dim(tn_diag *d, const tn_graph *g, tn_dim dim, const int64_t *sym, int64_t *out) {
  if (tn_dim_is_const(dim)) {
    *out = dim;
    return TN_OK;
  }
  if (tn_dim_eval(g->dims, dim, sym, out) != TN_OK || *out < 0)
    return tn_fail(d, TN_E_ARG, "dim %s has no value or a negative one here", tn_dim_text(g->dims, dim).s);
  return TN_OK;
}
tn_status tn_eval_dims(tn_eval_ctx *c, const char *name, int64_t *out, uint32_t *out_n) {
  tn_dim v[2 * TN_MAX_RANK];
  int n = tn_attr_dims(c->n, name, v, 2 * TN_MAX_RANK);
  if (n < 0) return tn_eval_fail(c, TN_E_VERIFY, "attribute '%s' is not a list of dims", name);
  for (int i = 0; i < n; i++) TN_TRY_WHILE(c->d, tn_eval_dim(c->d, c->g, v[i], c->sym, &out[i]), "reading '%s'", name);
  if (out_n) *out_n = (uint32_t)n;
  return TN_OK;
}
tn_status tn_eval_number(const tn_eval_ctx *c, const char *name, tn_dtype t, tn_num *out) {
  const tn_attr_val *v = tn_attr_get(c->n, name);
  int64_t i = 0;
  if (v && v->kind == TN_AT_FLOAT) {
    *out = tn_num_cast((tn_num){.f = v->u.f}, TN_F64, t);
    return TN_OK;
  }
  if (v && v->kind == TN_AT_DIM && !tn_dim_is_const(v->u.d)) { /* a symbol's value, of either sign */
    if (tn_dim_eval(c->g->dims, v->u.d, c->sym, &i) != TN_OK)
      return tn_eval_fail(c, TN_E_ARG, "%s %s has no value here", name, tn_dim_text(c->g->dims, v->u.d).s);
  } else {
    i = tn_attr_int(c->n, name, 0);
  }
  *out = tn_num_cast((tn_num){.i = i}, TN_I64, t);
  return TN_OK;
}
tn_status tn_eval_status(tn_eval_ctx *c, tn_status s) {
  if (s == TN_E_INDEX) return tn_eval_fail(c, s, "index out of range of dim of %s", tn_dtype_name((tn_dtype)c->in->dtype));
  if (s == TN_E_ZERO) return tn_eval_fail(c, s, "%s", "an integer is divided by zero");
  if (s != TN_OK) return tn_eval_fail(c, s, "kernel failed: %s", tn_status_name(s));
  return TN_OK;
}
int64_t tn_tensor_numel(const tn_tensor *t) {
  int64_t n = 1;
  for (int i = 0; i < t->rank; i++) n *= t->shape[i];
  return n;
}

/* ---- structural ops ---- */
tn_status tn_eval_INPUT(tn_eval_ctx *c) { return tn_eval_fail(c, TN_E_INTERNAL, "%s", "inputs are bound, not evaluated"); }
tn_status tn_eval_CALL(tn_eval_ctx *c) {
  return tn_eval_fail(c, TN_E_UNSUPPORTED, "%s has no reference kernel before it is decomposed", c->n->target ? c->n->target : "?");
}
tn_status tn_eval_OPAQUE(tn_eval_ctx *c) {
  return tn_eval_fail(c, TN_E_UNSUPPORTED, "%s belongs to the framework", c->n->target ? c->n->target : "?");
}
tn_status tn_eval_DYN(tn_eval_ctx *c) {
  return tn_eval_fail(c, TN_E_UNSUPPORTED, "%s belongs to the framework", c->n->target ? c->n->target : "?");
}
tn_status tn_eval_CONST(tn_eval_ctx *c) {
  const tn_const_data *k = c->n->data;
  size_t bytes = (size_t)tn_tensor_numel(c->out) * tn_dtype_size((tn_dtype)c->out->dtype);
  if (!k || k->bytes != bytes || (bytes && !k->p)) return tn_eval_fail(c, TN_E_ARG, "holds no %zu bytes", bytes);
  if (bytes) memcpy(c->out->data, k->p, bytes);
  return TN_OK;
}
tn_status tn_eval_FUSED(tn_eval_ctx *c) { return tn_eval_nodes(c->d, c->n->body, c->sym, c->in, c->out, NULL); }

tn_status tn_ops_eval_node(tn_diag *d, const tn_graph *g, const tn_node *n, const int64_t *sym_values, const tn_tensor *in,
                           tn_tensor *out) {
  tn_eval_ctx c = {.d = d, .g = g, .n = n, .sym = sym_values, .in = in, .out = out};
  return tn_ops_evaluator(n->op)(&c);
}

/* ---- graphs ---- */
/* Shape of type t in `a`, and its size; data stays NULL. */
static tn_status shape_of(tn_diag *d, tn_arena *a, const tn_graph *g, const tn_type *t, const int64_t *sym, tn_tensor *out,
                          size_t *out_bytes) {
  int64_t *shape = TN_NEW(a, int64_t, t->rank ? t->rank : 1);
  uint64_t bytes = tn_dtype_size((tn_dtype)t->dtype);
  bool over = false, empty = false;
  if (!shape) return tn_fail(d, TN_E_NOMEM, "shape of rank %u", t->rank);
  for (uint32_t i = 0; i < t->rank; i++) {
    TN_TRY(tn_eval_dim(d, g, t->dim[i], sym, &shape[i]));
    if (shape[i] == 0)
      empty = true;
    else if (__builtin_mul_overflow(bytes, (uint64_t)shape[i], &bytes))
      over = true;
  }
  if (!empty && (over || bytes > PTRDIFF_MAX))
    return tn_fail(d, TN_E_ARG, "tensor %s does not fit memory", tn_shape_text(g->dims, t->rank, t->dim).s);
  *out = (tn_tensor){.shape = shape, .rank = t->rank, .dtype = t->dtype};
  *out_bytes = empty ? 0 : (size_t)bytes;
  return TN_OK;
}

typedef struct run {
  tn_diag *d;
  const tn_graph *g;
  const int64_t *sym;
  tn_arena a;     /* tables and shapes */
  tn_tensor *val; /* [n_values] */
  bool *owned;    /* [n_values] data is ours to free */
  uint32_t *left; /* [n_values] readers still to come */
} run;

static void drop(run *r, uint32_t value) {
  if (!r->owned[value]) return;
  tn_free(r->val[value].data);
  r->owned[value] = false;
}
static tn_status make_result(run *r, uint32_t value) {
  size_t bytes;
  TN_TRY(shape_of(r->d, &r->a, r->g, &r->g->value[value].type, r->sym, &r->val[value], &bytes));
  r->val[value].data = tn_malloc(bytes ? bytes : 1);
  if (!r->val[value].data) return tn_fail(r->d, TN_E_NOMEM, "%zu bytes for a value", bytes);
  r->owned[value] = true;
  return TN_OK;
}
static tn_status run_node(run *r, const tn_node *n) {
  size_t bytes;
  if (n->op == TN_OP_CONST && n->data) { /* used where it lies */
    TN_TRY(shape_of(r->d, &r->a, r->g, &r->g->value[n->out].type, r->sym, &r->val[n->out], &bytes));
    if (n->data->bytes != bytes || (bytes && !n->data->p)) return tn_fail(r->d, TN_E_ARG, "constant's bytes are not there");
    r->val[n->out].data = (void *)(uintptr_t)n->data->p;
    return TN_OK;
  }
  tn_tensor *in = TN_NEW(&r->a, tn_tensor, n->n_in + 1u), *out = TN_NEW(&r->a, tn_tensor, n->n_out + 1u);
  if (!in || !out) return tn_fail(r->d, TN_E_NOMEM, "operands of a node");
  for (uint32_t k = 0; k < n->n_in; k++) in[k] = r->val[n->in[k].id];
  for (uint32_t k = 0; k < n->n_out; k++) {
    TN_TRY(make_result(r, n->out + k));
    out[k] = r->val[n->out + k];
  }
  TN_TRY(tn_ops_eval_node(r->d, r->g, n, r->sym, in, out));
  for (uint32_t k = 0; k < n->n_in; k++)
    if (--r->left[n->in[k].id] == 0) drop(r, n->in[k].id);
  for (uint32_t k = 0; k < n->n_out; k++)
    if (r->left[n->out + k] == 0) drop(r, n->out + k);
  return TN_OK;
}
static void copy_value(const run *r, tn_ref from, tn_tensor *to) {
  size_t bytes = (size_t)tn_tensor_numel(to) * tn_dtype_size((tn_dtype)to->dtype);
  if (bytes) memcpy(to->data, r->val[from.id].data, bytes);
}
static tn_status run_all(run *r, const tn_tensor *in, tn_tensor *out, tn_tensor *mutated) {
  const tn_graph *g = r->g;
  r->val = TN_NEW(&r->a, tn_tensor, g->n_values);
  r->left = tn_graph_uses(&r->a, g);
  if (!r->val || !r->left) return tn_fail(r->d, TN_E_NOMEM, "tables for %u values", g->n_values);
  for (uint32_t i = 0; i < g->n_inputs; i++) r->val[g->input[i].id] = in[i];
  for (uint32_t id = 1; id < g->n_nodes; id++) {
    const tn_node *n = &g->node[id];
    if (n->dead || n->op == TN_OP_INPUT) continue;
    TN_TRY_WHILE(r->d, run_node(r, n), "evaluating %%%u (%s)", n->out, tn_op_name(n->op));
  }
  for (uint32_t k = 0; k < g->n_outputs; k++) {
    const tn_output *o = &g->output[k];
    if (o->is_dim)
      TN_TRY(tn_dim_eval(g->dims, o->dim, r->sym, out[k].data));
    else if (!o->is_none)
      copy_value(r, o->ref, &out[k]);
  }
  for (uint32_t k = 0; mutated && k < g->n_mutations; k++) copy_value(r, g->mutation[k].value, &mutated[k]);
  return TN_OK;
}
tn_status tn_eval_nodes(tn_diag *d, const tn_graph *g, const int64_t *sym, const tn_tensor *in, tn_tensor *out, tn_tensor *mutated) {
  run r = {.d = d, .g = g, .sym = sym};
  tn_arena_init(&r.a);
  r.owned = TN_NEW(&r.a, bool, g->n_values);
  tn_status s = r.owned ? run_all(&r, in, out, mutated) : tn_fail(d, TN_E_NOMEM, "tables for %u values", g->n_values);
  for (uint32_t v = 0; r.owned && v < g->n_values; v++) drop(&r, v);
  tn_arena_deinit(&r.a);
  return s;
}

/* ---- the two calls for callers with tensors of their own ---- */
static bool is_dense(const tn_tensor *t) {
  int64_t s = 1;
  for (int i = t->rank - 1; t->strides && i >= 0; i--) {
    if (t->shape[i] == 0) return true;
    if (t->shape[i] != 1 && t->strides[i] != s) return false;
    s *= t->shape[i];
  }
  return true;
}
static tn_status make_dense(tn_diag *d, tn_arena *a, const tn_tensor *t, tn_tensor *out) {
  *out = *t;
  out->strides = NULL;
  if (is_dense(t)) return TN_OK;
  out->data = tn_arena_alloc(a, (size_t)tn_tensor_numel(t) * tn_dtype_size((tn_dtype)t->dtype));
  if (!out->data) return tn_fail(d, TN_E_NOMEM, "row-major copy of an input");
  tn_k_strided_copy_ref(t, out);
  return TN_OK;
}
static tn_status make_tensor(tn_diag *d, tn_arena *a, const tn_graph *g, tn_ref v, const int64_t *sym, tn_tensor *out) {
  size_t bytes;
  TN_TRY(shape_of(d, a, g, tn_typeof(g, v), sym, out, &bytes));
  out->data = tn_arena_alloc(a, bytes ? bytes : 1);
  return out->data ? TN_OK : tn_fail(d, TN_E_NOMEM, "%zu bytes for a result", bytes);
}
static tn_status eval_graph(tn_diag *d, tn_arena *tmp, tn_arena *arena, const tn_graph *g, const tn_tensor *in, tn_tensor *out,
                            tn_tensor *mutated) {
  static const int64_t no_dims[1] = {0};
  int64_t *sym = TN_NEW(tmp, int64_t, tn_dims_n_syms(g->dims) + 1u);
  tn_tensor *dense = TN_NEW(tmp, tn_tensor, g->n_inputs + 1u);
  if (!sym || !dense) return tn_fail(d, TN_E_NOMEM, "tables of %u inputs", g->n_inputs);
  TN_TRY(tn_ops_bind_syms(d, g, in, sym));
  for (uint32_t i = 0; i < g->n_inputs; i++) TN_TRY(make_dense(d, tmp, &in[i], &dense[i]));
  for (uint32_t k = 0; k < g->n_outputs; k++) {
    const tn_output *o = &g->output[k];
    if (!o->is_dim && !o->is_none) {
      TN_TRY_WHILE(d, make_tensor(d, arena, g, o->ref, sym, &out[k]), "making output %u", k);
      continue;
    }
    out[k] = (tn_tensor){.shape = no_dims, .dtype = TN_I64};
    if (o->is_dim && !(out[k].data = tn_arena_alloc(arena, sizeof(int64_t)))) return tn_fail(d, TN_E_NOMEM, "output %u", k);
  }
  for (uint32_t k = 0; mutated && k < g->n_mutations; k++)
    TN_TRY_WHILE(d, make_tensor(d, arena, g, g->mutation[k].value, sym, &mutated[k]), "making new value %u", k);
  return tn_eval_nodes(d, g, sym, dense, out, mutated);
}
tn_status tn_ops_eval_mutating(tn_diag *d, tn_arena *arena, const tn_graph *g, const tn_tensor *in, tn_tensor *out, tn_tensor *mutated) {
  tn_arena tmp;
  tn_arena_init(&tmp);
  tn_status s = eval_graph(d, &tmp, arena, g, in, out, mutated);
  tn_arena_deinit(&tmp);
  return s == TN_OK ? s : tn_diag_while(d, s, "evaluating graph '%s'", g->name ? g->name : "");
}
tn_status tn_ops_eval_graph(tn_diag *d, tn_arena *arena, const tn_graph *g, const tn_tensor *in, tn_tensor *out) {
  return tn_ops_eval_mutating(d, arena, g, in, out, NULL);
}

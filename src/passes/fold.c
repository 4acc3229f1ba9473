/* fold: nodes whose operands are all known are evaluated now, by the reference kernels, which are the specification.
 *
 * What is known: CONST, FULL with a number, IOTA with constants; all dims constant. Results up to 64 Ki elements; a result with one value
 * everywhere becomes FULL, an arithmetic sequence IOTA, anything else CONST. Fills stay symbolic: eltwise of fills is a fill of any size,
 * and so are views, pads and concats of equal fills, also with symbolic dims. What a few light nodes make of iotas (a causal mask) stays as
 * it is unless it is small: computing it in a kernel is cheaper than loading it. A big fill or iota is never written out except as a
 * temporary for a small result, and all that one run evaluates is bounded, so folding never makes a compile slow or a package big.
 *
 * Weights are beyond these sizes. What puts them in another order (gates of a recurrent layer) or converts them is evaluated all the same when the result
 * takes no more bytes than what it is made of: the package grows by nothing, and no run has to do it.
 *
 * A node that fails to evaluate (an index out of range) stays: it must fail at run time. */
#include "passes/passes_int.h"
#include <string.h>

enum { MAX_RESULT = 64 * 1024, MAX_OPERAND = 1024 * 1024, MAX_TOTAL = 8 * 1024 * 1024, SMALL = 1024, CHEAP_MAX = 6 };

typedef struct folder {
  tn_pass_ctx *p; tn_graph *g; tn_px b;
  uint32_t n_values;
  tn_tensor *val;              /* [n_values] evaluated values; shape NULL = not known */
  uint8_t *cost;               /* [n_values] of those: nodes over fills and iotas */
  int64_t done, big;           /* elements evaluated; bytes of big constants made */
  uint32_t changes;
} folder;

static bool same_num(tn_dtype t, tn_num a, tn_num b) { /* bits, so that -0 and NaN are kept apart */
  unsigned char x[8] = {0}, y[8] = {0};
  tn_num_store(t, x, a);
  tn_num_store(t, y, b);
  return memcmp(x, y, sizeof x) == 0;
}

/* ---- symbolic: fills ---- */
static tn_status fold_fill(folder *f, uint32_t id, tn_ref *out) {
  tn_graph *g = f->g;
  const tn_node *n = &g->node[id];
  const tn_type t = *tn_typeof(g, tn_out(n, 0));
  tn_num arg[3], v = {0};
  out->id = 0;
  if (n->n_in == 0 || n->op == TN_OP_COPY) return TN_OK;
  bool pw = tn_op_is_scalar(n->op) || n->op == TN_OP_CAST;
  if (pw) {
    if (n->n_in > 3) return TN_OK;
    for (uint32_t k = 0; k < n->n_in; k++)
      if (!tn_px_fill(g, n->in[k], &arg[k])) return TN_OK;
    if (n->op == TN_OP_DIVISOR && arg[0].i == 0) return TN_OK; /* the call's error */
    tn_dtype in_t = (tn_dtype)tn_typeof(g, n->in[0])->dtype;
    if (n->op == TN_OP_CAST) v = tn_num_cast(arg[0], in_t, (tn_dtype)t.dtype);
    else v = tn_scalar_eval((tn_scalar_op)n->op, n->op == TN_OP_SELECT ? (tn_dtype)t.dtype : in_t, arg);
  } else if (tn_px_is_view(n->op) || n->op == TN_OP_FLIP || n->op == TN_OP_CONCAT || n->op == TN_OP_PAD) {
    /* a view of a one-element constant is as good as it is; of a fill it becomes one */
    for (uint32_t k = 0; k < n->n_in; k++) {
      if (!tn_px_fill(g, n->in[k], &arg[k ? 1 : 0])) return TN_OK;
      if (k && !same_num((tn_dtype)t.dtype, arg[0], arg[1])) return TN_OK;
    }
    v = arg[0];
    if (n->op == TN_OP_PAD) {
      const tn_attr_val *pad = tn_attr_get(n, "value");
      if (!pad || (pad->kind == TN_AT_DIM && !tn_dim_is_const(pad->u.d))) return TN_OK;
      tn_num x = {.f = tn_attr_num(n, "value", 0)};
      if (!same_num((tn_dtype)t.dtype, v, tn_num_cast(x, TN_F64, (tn_dtype)t.dtype))) return TN_OK;
    }
  } else return TN_OK;
  *out = tn_px_fill_of(&f->b, (tn_dtype)t.dtype, t.rank, t.dim, v);
  return f->b.st;
}

/* ---- evaluated ---- */
static bool make_tensor(folder *f, const tn_type *t, int64_t numel, tn_tensor *out) {
  int64_t *shape = TN_NEW(f->p->scratch, int64_t, t->rank + 1u);
  size_t bytes = (size_t)numel * tn_dtype_size((tn_dtype)t->dtype);
  void *data = shape ? tn_arena_alloc(f->p->scratch, bytes ? bytes : 1) : NULL;
  if (!data) return false;
  for (uint32_t i = 0; i < t->rank; i++) shape[i] = t->dim[i];
  *out = (tn_tensor){.data = data, .shape = shape, .rank = t->rank, .dtype = t->dtype};
  return true;
}

/* May the value be known? CONST, FULL and IOTA with numbers, and what was evaluated in this run. */
static bool known(folder *f, tn_ref r, int64_t *out_numel) {
  const tn_graph *g = f->g;
  const tn_node *n = &g->node[g->value[r.id].node];
  if (!tn_px_static(tn_typeof(g, r), out_numel) || *out_numel > MAX_OPERAND) return false;
  if (r.id < f->n_values && f->val[r.id].shape) return true;
  if (n->op == TN_OP_CONST) return n->data && n->data->p;
  if (n->op == TN_OP_FULL) { tn_num v; return tn_px_fill(g, r, &v); }
  if (n->op != TN_OP_IOTA) return false;
  const tn_attr_val *s = tn_attr_get(n, "start");
  return s && (s->kind != TN_AT_DIM || tn_dim_is_const(s->u.d));
}
static tn_status value_of(folder *f, tn_ref r, const int64_t *sym, tn_tensor *out) {
  const tn_node *n = tn_def(f->g, r);
  int64_t numel;
  if (r.id < f->n_values && f->val[r.id].shape) {
    *out = f->val[r.id];
    return TN_OK;
  }
  if (!tn_px_static(tn_typeof(f->g, r), &numel) || !make_tensor(f, tn_typeof(f->g, r), numel, out)) return tn_fail(f->p->d, TN_E_NOMEM, "folding");
  if (n->op != TN_OP_CONST) return tn_ops_eval_node(f->p->d, f->g, n, sym, NULL, out);
  if (n->data->bytes) memcpy(out->data, n->data->p, n->data->bytes);
  return TN_OK;
}

/* Nodes it takes to compute the value from fills and iotas; CHEAP_MAX + 1 and more: keep it as a constant instead. */
static uint32_t cost_of(folder *f, uint32_t id) {
  const tn_node *n = &f->g->node[id];
  bool light = tn_px_is_view(n->op) || (tn_px_is_pw(n->op) && !tn_px_is_dear(n->op));
  uint32_t sum = light ? !tn_px_is_view(n->op) : CHEAP_MAX + 1;
  for (uint32_t k = 0; k < n->n_in; k++) {
    tn_op op = tn_px_op(f->g, n->in[k]);
    if (op == TN_OP_FULL || op == TN_OP_IOTA) continue;
    sum += n->in[k].id < f->n_values && op != TN_OP_CONST ? f->cost[n->in[k].id] : CHEAP_MAX + 1;
  }
  return sum > CHEAP_MAX ? CHEAP_MAX + 1 : sum;
}

/* CONST, or what says the same shorter. */
static tn_status add_result(folder *f, const tn_type *t, const tn_tensor *x, int64_t numel, uint32_t cost, tn_ref *out) {
  tn_dtype dt = (tn_dtype)t->dtype;
  size_t size = tn_dtype_size(dt), bytes = (size_t)numel * size;
  const unsigned char *p = x->data;
  bool uniform = true, ramp = dt == TN_I64 || dt == TN_I32;
  for (int64_t i = 1; i < numel && uniform; i++) uniform = memcmp(p, p + i * (int64_t)size, size) == 0;
  if (uniform && numel > 0) {
    *out = tn_px_fill_of(&f->b, dt, t->rank, t->dim, tn_num_load(dt, p));
    return f->b.st;
  }
  int64_t first = 0, step = 0;
  if (ramp && numel > 1 && t->rank == 1) {
    first = tn_num_load(dt, p).i;
    step = tn_num_load(dt, p + size).i - first;
    for (int64_t i = 1; i < numel && ramp; i++) ramp = tn_num_load(dt, p + i * (int64_t)size).i == first + i * step;
    if (ramp) {
      tn_attr at[4] = {tn_mk_dims(f->g, "size", t->dim, 1), tn_mk_int("start", first), tn_mk_int("step", step), tn_mk_dtype("dtype", dt)};
      *out = tn_px_add(&f->b, TN_OP_IOTA, NULL, 0, at, 4);
      return f->b.st;
    }
  }
  if (cost == 0 || (cost <= CHEAP_MAX && numel > SMALL)) return TN_OK; /* kernels compute it where they need it */
  if (tn_graph_add_const(f->g, *t, p, bytes, f->b.prov, out) != TN_OK) return tn_fail(f->p->d, TN_E_NOMEM, "constant of %zu bytes", bytes);
  return TN_OK;
}

static bool foldable(tn_op op) {
  switch (tn_op_cls(op)) {
  case TN_CLS_ELTWISE: case TN_CLS_LAYOUT: case TN_CLS_REDUCE: case TN_CLS_SCAN: case TN_CLS_INDEX: return op != TN_OP_COPY && op != TN_OP_WINDOW;
  case TN_CLS_CREATE: return false;
  default: return tn_op_is_scalar(op);
  }
}

static tn_status evaluate(folder *f, uint32_t id, tn_ref *out) {
  tn_graph *g = f->g;
  const tn_node *n = &g->node[id];
  const tn_type t = *tn_typeof(g, tn_out(n, 0));
  int64_t numel, part, total = 0;
  out->id = 0;
  if (n->n_in == 0 || n->n_out != 1 || !foldable(n->op) || !tn_px_static(&t, &numel) || numel > MAX_RESULT) return TN_OK;
  for (uint32_t k = 0; k < n->n_in; k++) {
    if (!known(f, n->in[k], &part)) return TN_OK;
    total += part;
  }
  if (f->done + total + numel > MAX_TOTAL) return TN_OK;
  f->done += total + numel;
  tn_tensor *in = TN_NEW(f->p->scratch, tn_tensor, n->n_in), res;
  int64_t *sym = TN_NEW(f->p->scratch, int64_t, tn_dims_n_syms(g->dims) + 1);
  if (!in || !sym || !make_tensor(f, &t, numel, &res)) return tn_fail(f->p->d, TN_E_NOMEM, "folding %s", tn_op_name(n->op));
  tn_status s = TN_OK;
  for (uint32_t k = 0; s == TN_OK && k < n->n_in; k++) s = value_of(f, n->in[k], sym, &in[k]);
  if (s == TN_OK) s = tn_ops_eval_node(f->p->d, g, n, sym, in, &res);
  if (s == TN_E_NOMEM) return s;
  if (s != TN_OK) {
    tn_diag_clear(f->p->d);
    return TN_OK;
  }
  f->val[n->out] = res;
  f->cost[n->out] = (uint8_t)cost_of(f, id);
  return add_result(f, &t, &res, numel, f->cost[n->out], out);
}

/* ---- big constants: what only moves or converts weights is done now, when it takes no more bytes than they do ---- */

enum { BIG_DEPTH = 8 };
#define BIG_TOTAL ((int64_t)1 << 30) /* bytes that one run makes */

/* A CONST, or views of one that lose or turn elements but make none. */
static bool of_const(const tn_graph *g, tn_ref r) {
  for (int depth = 0; depth < BIG_DEPTH; depth++) {
    const tn_node *n = &g->node[g->value[r.id].node];
    if (n->op == TN_OP_CONST) return n->data && n->data->p;
    if (n->op != TN_OP_PERMUTE && n->op != TN_OP_RESHAPE && n->op != TN_OP_SLICE) return false;
    r = n->in[0];
  }
  return false;
}

static tn_status big_value(folder *f, tn_ref r, const int64_t *sym, tn_tensor *out) {
  const tn_node *n = tn_def(f->g, r);
  const tn_type *t = tn_typeof(f->g, r);
  int64_t numel;
  tn_tensor in;
  if (n->op == TN_OP_CONST) {
    int64_t *shape = TN_NEW(f->p->scratch, int64_t, t->rank + 1u);
    if (!shape) return tn_fail(f->p->d, TN_E_NOMEM, "folding");
    for (uint32_t i = 0; i < t->rank; i++) shape[i] = t->dim[i];
    *out = (tn_tensor){.data = (void *)(uintptr_t)n->data->p, .shape = shape, .rank = t->rank, .dtype = t->dtype};
    return TN_OK;
  }
  TN_TRY(big_value(f, n->in[0], sym, &in)); /* of_const: not deep */
  if (!tn_px_static(t, &numel) || !make_tensor(f, t, numel, out)) return tn_fail(f->p->d, TN_E_NOMEM, "folding");
  return tn_ops_eval_node(f->p->d, f->g, n, sym, &in, out);
}

static tn_status fold_big(folder *f, uint32_t id, tn_ref *out) {
  tn_graph *g = f->g;
  const tn_node *n = &g->node[id];
  const tn_type t = *tn_typeof(g, tn_out(n, 0));
  int64_t numel, part, from = 0, bytes;
  if (n->n_in == 0 || (n->op != TN_OP_CONCAT && n->op != TN_OP_FLIP && n->op != TN_OP_CAST && !tn_op_is_scalar(n->op)) || !tn_px_static(&t, &numel) || numel <= MAX_RESULT) return TN_OK;
  for (uint32_t k = 0; k < n->n_in; k++) {
    const tn_type *x = tn_typeof(g, n->in[k]);
    if (!of_const(g, n->in[k]) || !tn_px_static(x, &part)) return TN_OK;
    from += part * (int64_t)tn_dtype_size((tn_dtype)x->dtype);
  }
  bytes = numel * (int64_t)tn_dtype_size((tn_dtype)t.dtype);
  if (bytes > from || bytes > BIG_TOTAL - f->big) return TN_OK;
  f->big += bytes;
  tn_mark m = tn_arena_mark(f->p->scratch);
  tn_tensor *in = TN_NEW(f->p->scratch, tn_tensor, n->n_in), res;
  int64_t *sym = TN_NEW(f->p->scratch, int64_t, tn_dims_n_syms(g->dims) + 1);
  if (!in || !sym || !make_tensor(f, &t, numel, &res)) return tn_fail(f->p->d, TN_E_NOMEM, "folding %s", tn_op_name(n->op));
  tn_status s = TN_OK;
  for (uint32_t k = 0; s == TN_OK && k < n->n_in; k++) s = big_value(f, n->in[k], sym, &in[k]);
  if (s == TN_OK) s = tn_ops_eval_node(f->p->d, g, n, sym, in, &res);
  if (s == TN_OK && tn_graph_add_const(g, t, res.data, (size_t)bytes, f->b.prov, out) != TN_OK) s = tn_fail(f->p->d, TN_E_NOMEM, "constant of %lld bytes", (long long)bytes);
  tn_arena_rewind(f->p->scratch, m);
  if (s == TN_OK || s == TN_E_NOMEM) return s;
  tn_diag_clear(f->p->d); /* it fails at run time, as it must */
  return TN_OK;
}

tn_status tn_fold_run(tn_pass_ctx *p, tn_graph *g, uint32_t *out_changes) {
  folder f = {.p = p, .g = g, .b = {.d = p->d, .g = g}};
  TN_TRY(tn_graph_compact(p->d, g));
  f.n_values = g->n_values;
  f.val = TN_NEW(p->scratch, tn_tensor, g->n_values);
  f.cost = TN_NEW(p->scratch, uint8_t, g->n_values);
  if (!f.val || !f.cost) return tn_fail(p->d, TN_E_NOMEM, "folding %u values", g->n_values);
  for (uint32_t id = 1, n = g->n_nodes; id < n; id++) {
    tn_ref with = {0};
    if (g->node[id].op == TN_OP_FULL || g->node[id].op == TN_OP_IOTA || g->node[id].op == TN_OP_CONST || g->node[id].n_out != 1) continue;
    for (uint32_t k = 0; k < g->node[id].n_in; k++) tn_px_in(g, id, k);
    f.b.prov = g->node[id].prov;
    TN_TRY_WHILE(p->d, fold_fill(&f, id, &with), "folding node %u (%s)", id, tn_op_name(g->node[id].op));
    if (!with.id) TN_TRY_WHILE(p->d, evaluate(&f, id, &with), "folding node %u (%s)", id, tn_op_name(g->node[id].op));
    if (!with.id) TN_TRY_WHILE(p->d, fold_big(&f, id, &with), "folding node %u (%s)", id, tn_op_name(g->node[id].op));
    if (!with.id) continue;
    tn_graph_replace(g, tn_out(&g->node[id], 0), with);
    f.changes++;
  }
  *out_changes = f.changes;
  return f.changes ? tn_graph_compact(p->d, g) : TN_OK;
}

tn_status tn_pass_fold(tn_pass_ctx *p, tn_graph *g) {
  uint32_t n;
  return tn_fold_run(p, g, &n);
}

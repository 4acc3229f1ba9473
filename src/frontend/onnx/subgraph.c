/* subgraph: graphs in attributes (branches, bodies) as functions of the unit, or inlined into the function they stand in.
 *
 * A body may read names of the graphs around it. Such a value becomes one more input of the body's function (a capture), listed once for all graphs of the node,
 * in the order in which they were first read; the node passes them behind the formal operands. Constants are copied instead, so that sizes stay known. */
#include "import.h"

tn_status tn_onnx_func_create(importer *im, func *outer, const char *name, func **out) {
  tn_unit *u = im->unit;
  func *f = TN_NEW(im->a, func, 1);
  tn_graph *g;
  if (!f || !TN_PUSH_ROOM(im->a, u->func, u->n_func, u->cap_func) || tn_graph_create(im->a, im->dims, name, &g) != TN_OK) return tn_fail(im->d, TN_E_NOMEM, "a function");
  *f = (func){.im = im, .outer = outer};
  f->env = (tn_ox_env){.unit = u, .g = g, .n_fresh = &im->n_fresh, .rank_missing = &im->rank_missing, .subgraphs = tn_onnx_subgraphs, .enclose = tn_onnx_enclose, .inlined = tn_onnx_inlined,
                       .arity = tn_onnx_arity, .named = tn_onnx_named, .user = f};
  tn_map_init(&f->copied);
  g->func = u->n_func;
  u->func[u->n_func++] = g;
  *out = f;
  return TN_OK;
}

/* ---- captures ---- */
static tn_status add_input(func *f, const char *name, const tn_type *t, const tn_ox_obj *o, tn_ref *out) {
  tn_status s = tn_graph_add_input(f->env.g, name, *t, TN_ORIGIN_INPUT, out);
  if (s == TN_OK) s = t->dtype == TN_OBJ ? tn_ox_obj_set(&f->env, *out, *o) : tn_ox_elem_set(&f->env, *out, o->elem);
  return s == TN_OK ? s : tn_fail(f->im->d, s, "an input of a subgraph");
}
/* Inputs for the captures up to number n, in order. */
static tn_status add_captures(func *f, uint32_t n) {
  while (f->n_cap < n) {
    tn_ref from = f->cap->r[f->n_cap], r;
    tn_ox_obj o = tn_ox_obj_of(&f->outer->env, from);
    o.one = 0;                                               /* a value of the other function */
    TN_TRY(add_input(f, NULL, tn_typeof(f->outer->env.g, from), &o, &r));
    TN_TRY(tn_ox_items_carry(&f->outer->env, f->im->d, from, &f->env, r));
    if (!TN_PUSH_ROOM(f->im->a, f->cap_in, f->n_cap, f->cap_cap_in)) return tn_fail(f->im->d, TN_E_NOMEM, "captures");
    f->cap_in[f->n_cap++] = r;
  }
  return TN_OK;
}
static tn_status copy_const(func *f, tn_ref from, const tn_tensor *t, tn_ref *out) {
  int64_t count = 1;
  for (int i = 0; i < t->rank; i++) count *= t->shape[i];
  tn_ox_const k = {.elem = (uint8_t)tn_ox_elem_get(&f->outer->env, from), .rank = (uint8_t)t->rank, .dim = t->shape, .data = t->data,
                   .bytes = (size_t)count * tn_dtype_size((tn_dtype)t->dtype)};
  TN_TRY(tn_ox_add_const(&f->env, f->im->d, &k, f->prov, out));
  return tn_map_put_u64(&f->copied, from.id, out->id) ? TN_OK : tn_fail(f->im->d, TN_E_NOMEM, "captures");
}
tn_status tn_onnx_capture(func *f, func *owner, tn_ref r, tn_ref *out) {
  tn_tensor t;
  uint32_t k;
  *out = r;
  if (f == owner) return TN_OK;
  TN_TRY(tn_onnx_capture(f->outer, owner, r, &r));
  if (tn_map_get_u64(&f->copied, r.id, &out->id)) return TN_OK;
  if (tn_ox_env_data(&f->outer->env, r, &t)) return copy_const(f, r, &t, out);
  captures *c = f->cap;
  for (k = 0; k < c->n; k++)
    if (c->r[k].id == r.id) break;
  if (k == c->n) {
    if (!TN_PUSH_ROOM(f->im->a, c->r, c->n, c->cap)) return tn_fail(f->im->d, TN_E_NOMEM, "captures");
    c->r[c->n++] = r;
  }
  TN_TRY(add_captures(f, k + 1));
  *out = f->cap_in[k];
  return TN_OK;
}

/* ---- callbacks ---- */
void tn_onnx_arity(const tn_ox_attr *graph, uint32_t *n_in, uint32_t *n_out) {
  const pb_graph *g = graph->u.graph;
  *n_in = (uint32_t)g->n_input;
  *n_out = (uint32_t)g->n_output;
}
static tn_status check_arity(importer *im, const pb_graph *g, const char *name, uint32_t n_in) {
  if (g->n_input != n_in) return tn_fail(im->d, TN_E_ARG, "graph '%.60s' takes %zu values, the node gives %u", name, g->n_input, n_in);
  if (g->n_output > 10000) return tn_fail(im->d, TN_E_UNSUPPORTED, "graph '%.60s' has %zu outputs", name, g->n_output);
  return TN_OK;
}
static tn_status deeper(importer *im) {
  if (im->depth >= ONNX_MAX_DEPTH) return tn_fail(im->d, TN_E_UNSUPPORTED, "graphs and functions are nested deeper than %d", ONNX_MAX_DEPTH);
  im->depth++;
  return TN_OK;
}
static tn_status fill(func *f, scope *s, const pb_graph *g, const tn_type *in_type, const tn_ox_obj *in_obj, uint32_t n_in) {
  importer *im = f->im;
  tn_ref *out = TN_NEW(im->a, tn_ref, g->n_output + 1);
  if (!out) return tn_fail(im->d, TN_E_NOMEM, "%zu outputs", g->n_output);
  for (uint32_t k = 0; k < n_in; k++) {
    tn_ref r;
    TN_TRY(add_input(f, NULL, &in_type[k], &in_obj[k], &r));
    if (in_type[k].dtype == TN_OBJ) TN_TRY(tn_onnx_declared(s, g->input[k]->name, g->input[k]->type, &r, false));
    TN_TRY(tn_onnx_bind(s, g->input[k]->name, r));
  }
  TN_TRY(tn_onnx_graph_body(s, g));
  TN_TRY(tn_onnx_outputs(s, g, out));
  for (size_t i = 0; i < g->n_output; i++)
    if (tn_graph_add_output(f->env.g, out[i]) != TN_OK) return tn_fail(im->d, TN_E_NOMEM, "outputs");
  return TN_OK;
}
static tn_status import_all(func *outer, captures *c, const tn_ox_attr *const *graph, uint32_t n_graph, const tn_type *in_type, const tn_ox_obj *in_obj, uint32_t n_in,
                            uint32_t *out_func, tn_ox_env **out_env) {
  importer *im = outer->im;
  func *f[4];
  for (uint32_t k = 0; k < n_graph; k++) {
    const pb_graph *g = graph[k]->u.graph;
    const char *name = g->name && *g->name ? g->name : graph[k]->name;
    scope s;
    TN_TRY(check_arity(im, g, name, n_in));
    out_func[k] = im->unit->n_func;
    TN_TRY(tn_onnx_func_create(im, outer, name, &f[k]));
    f[k]->cap = c;
    out_env[k] = &f[k]->env;
    TN_TRY(tn_onnx_scope_init(&s, outer->cur, f[k], name));
    tn_status st = fill(f[k], &s, g, in_type, in_obj, n_in);
    tn_onnx_scope_deinit(&s);
    tn_map_deinit(&f[k]->copied);
    tn_map_init(&f[k]->copied);
    TN_TRY(st);
  }
  for (uint32_t k = 0; k < n_graph; k++) TN_TRY(add_captures(f[k], c->n));
  return TN_OK;
}
tn_status tn_onnx_subgraphs(tn_ox_env *e, tn_diag *d, const tn_ox_attr *const *graph, uint32_t n_graph, const tn_type *in_type, const tn_ox_obj *in_obj, uint32_t n_in,
                            uint32_t *out_func, tn_ox_env **out_env, tn_ref **capture, uint32_t *n_capture) {
  func *outer = e->user;
  importer *im = outer->im;
  captures *c = TN_NEW(im->a, captures, 1);
  if (!c || n_graph > 4) return tn_fail(d, TN_E_NOMEM, "%u subgraphs", n_graph);
  c->owner = outer;
  uint32_t n_func = im->unit->n_func;
  int depth = im->depth;
  TN_TRY(deeper(im));
  tn_status st = import_all(outer, c, graph, n_graph, in_type, in_obj, n_in, out_func, out_env);
  im->depth = depth;
  if (st != TN_OK) im->unit->n_func = n_func;          /* nothing of them is left: who asked may go on without */
  *capture = c->r;
  *n_capture = c->n;
  return st;
}
tn_status tn_onnx_enclose(tn_ox_env *e, tn_diag *d, const char *name, tn_status (*fill)(void *ctx, tn_ox_env *env, const tn_ref *in, uint32_t n_in), void *ctx, const tn_type *in_type,
                          const tn_ox_obj *in_obj, uint32_t n_in, uint32_t *out_func, tn_ox_env **out_env, tn_ref **capture, uint32_t *n_capture) {
  func *outer = e->user, *f;
  importer *im = outer->im;
  captures *c = TN_NEW(im->a, captures, 1);
  tn_ref *in = TN_NEW(im->a, tn_ref, n_in + 1u);
  scope s;
  if (!c || !in) return tn_fail(d, TN_E_NOMEM, "a body");
  c->owner = outer;
  TN_TRY(deeper(im));
  *out_func = im->unit->n_func;
  TN_TRY(tn_onnx_func_create(im, outer, name, &f));
  f->cap = c;
  *out_env = &f->env;
  TN_TRY(tn_onnx_scope_init(&s, outer->cur, f, name));
  f->cur = &s;
  tn_status st = TN_OK;
  for (uint32_t k = 0; k < n_in && st == TN_OK; k++) st = add_input(f, NULL, &in_type[k], &in_obj[k], &in[k]);
  uint32_t owner = im->owner;
  tn_dims_collect(im->dims, im->where, im->owner = f->env.g->func);          /* what is taken for granted in the body belongs to it */
  if (st == TN_OK) st = fill(ctx, &f->env, in, n_in);
  tn_dims_collect(im->dims, im->where, im->owner = owner);
  tn_onnx_scope_deinit(&s);
  tn_map_deinit(&f->copied);
  tn_map_init(&f->copied);
  TN_TRY(st);
  TN_TRY(add_captures(f, c->n));
  im->depth--;
  *capture = c->r;
  *n_capture = c->n;
  return TN_OK;
}
tn_status tn_onnx_inlined(tn_ox_env *e, tn_diag *d, const tn_ox_attr *graph, const tn_ref *in, uint32_t n_in, tn_ref *out, uint32_t n_out) {
  func *f = e->user;
  const pb_graph *g = graph->u.graph;
  scope s;
  TN_TRY(check_arity(f->im, g, g->name ? g->name : graph->name, n_in));
  if (g->n_output != n_out) return tn_fail(d, TN_E_ARG, "graph '%.60s' gives %zu values, the node %u", g->name ? g->name : graph->name, g->n_output, n_out);
  TN_TRY(deeper(f->im));
  TN_TRY(tn_onnx_scope_init(&s, f->cur, f, g->name && *g->name ? g->name : graph->name));
  tn_status st = TN_OK;
  for (uint32_t k = 0; k < n_in && st == TN_OK; k++) st = tn_onnx_bind(&s, g->input[k]->name, in[k]);
  if (st == TN_OK) st = tn_onnx_graph_body(&s, g);
  if (st == TN_OK) st = tn_onnx_outputs(&s, g, out);
  tn_onnx_scope_deinit(&s);
  f->im->depth--;
  return st;
}

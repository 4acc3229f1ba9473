/* graph: nodes of an ONNX graph, one after the other, into the graph of a function; names and scopes; the door of the importer.
 *
 * The format demands that a node stands behind those that make what it reads, so one pass is enough; a name that nobody has made yet is an error that says
 * whether a later node makes it. Every node becomes one provenance record, and while it is imported its name stands for sizes assumed equal. */
#include "import.h"

enum { MAX_NODES = 1 << 20 };

/* ---- names ---- */
tn_status tn_onnx_scope_init(scope *s, scope *up, func *fn, const char *where) {
  *s = (scope){.up = up, .fn = fn, .where = where ? where : ""};
  tn_map_init(&s->names);
  tn_map_init(&s->types);
  tn_map_init(&s->late);
  if (up) {
    s->opset = up->opset;
    s->n_opset = up->n_opset;
    s->function = up->function;
    s->call_attr = up->call_attr;
    s->n_call_attr = up->n_call_attr;
  }
  return TN_OK;
}
void tn_onnx_scope_deinit(scope *s) {
  tn_map_deinit(&s->names);
  tn_map_deinit(&s->types);
  tn_map_deinit(&s->late);
}
tn_status tn_onnx_bind(scope *s, const char *name, tn_ref r) {
  uint32_t taken;
  if (!name || !*name) return TN_OK;
  if (tn_map_get_str(&s->names, name, &taken)) return tn_fail(s->fn->im->d, TN_E_VERIFY, "value '%.80s' is made twice in '%.80s'", name, s->where);
  return tn_map_put_str(&s->names, name, r.id) ? TN_OK : tn_fail(s->fn->im->d, TN_E_NOMEM, "names");
}
tn_status tn_onnx_lookup(scope *s, const char *name, tn_ref *out, bool *out_found) {
  out->id = 0;
  *out_found = false;
  for (scope *q = s; q; q = q->up) {
    if (!tn_map_get_str(&q->late, name, &out->id) && !tn_map_get_str(&q->names, name, &out->id)) continue;
    *out_found = true;
    return out->id ? tn_onnx_capture(s->fn, q->fn, *out, out) : TN_OK;
  }
  return TN_OK;
}
tn_status tn_onnx_named(tn_ox_env *e, tn_diag *d, const char *name, tn_ref *out) {
  func *f = e->user;
  bool found = false;
  out->id = 0;
  if (f->cur) TN_TRY(tn_onnx_lookup(f->cur, name, out, &found));
  return found && out->id ? TN_OK : tn_fail(d, TN_E_ARG, "no value is called '%.80s'", name);
}
static tn_status no_such_name(scope *s, const pb_node *n, const char *name) {
  tn_diag *d = s->fn->im->d;
  for (scope *q = s; q; q = q->up)
    for (size_t i = 0; i < q->n_node; i++)
      for (size_t k = 0; k < q->node[i]->n_output; k++)
        if (!strcmp(q->node[i]->output[k], name))
          return tn_fail(d, TN_E_VERIFY, q->node[i] == n ? "it reads its own result '%.80s'"
                                                         : "it reads '%.80s', which only a later node makes: the graph has a cycle or is not in order", name);
  return tn_fail(d, TN_E_VERIFY, "it reads '%.80s', which no input, initializer or node makes", name);
}

/* ---- nodes ---- */
int tn_onnx_opset(const scope *s, const char *domain) {
  for (size_t i = 0; i < s->n_opset; i++) {
    const char *have = s->opset[i]->domain ? s->opset[i]->domain : "";
    if (!strcmp(have, "ai.onnx")) have = "";
    if (!strcmp(have, domain)) return s->opset[i]->version < 1 ? 1 : s->opset[i]->version > 1000 ? 1000 : (int)s->opset[i]->version;
  }
  return 1;
}
static tn_status operands(scope *s, const pb_node *n, tn_ref **out) {
  importer *im = s->fn->im;
  if (!(*out = TN_NEW(im->a, tn_ref, n->n_input + 1))) return tn_fail(im->d, TN_E_NOMEM, "%zu operands", n->n_input);
  for (size_t i = 0; i < n->n_input; i++) {
    bool found = true;
    if (!*n->input[i]) continue;
    TN_TRY(tn_onnx_lookup(s, n->input[i], &(*out)[i], &found));
    if (!found) return no_such_name(s, n, n->input[i]);
  }
  return TN_OK;
}
static tn_status apply(scope *s, const pb_node *n, const char *domain, const tn_ref *in, const tn_ox_attr *attr, uint32_t n_attr, tn_ref *out) {
  func *f = s->fn;
  bool *wanted = TN_NEW(f->im->a, bool, n->n_output + 1);
  if (!wanted) return tn_fail(f->im->d, TN_E_NOMEM, "results");
  for (size_t k = 0; k < n->n_output; k++) wanted[k] = *n->output[k] != 0;
  tn_ox c = {.b = {.d = f->im->d, .g = f->env.g, .prov = f->prov, .out = out, .n_out = (uint32_t)n->n_output}, .e = &f->env, .op = n->op_type, .domain = domain,
             .opset = tn_onnx_opset(s, domain), .name = n->name ? n->name : "", .in = in, .n_in = (uint32_t)n->n_input, .out = out, .n_out = (uint32_t)n->n_output,
             .wanted = wanted, .attr = attr, .n_attr = n_attr};
  return tn_onnx_apply(&c);
}
static tn_status results(scope *s, const pb_node *n, const tn_ref *out) {
  func *f = s->fn;
  for (size_t k = 0; k < n->n_output; k++) {
    uint32_t at;
    tn_ref r = out[k];
    if (!*n->output[k]) continue;
    if (!r.id) return tn_fail(f->im->d, TN_E_UNSUPPORTED, "result %zu ('%.80s') is not made", k, n->output[k]);
    if (s->info && tn_map_get_str(&s->types, n->output[k], &at)) TN_TRY(tn_onnx_declared(s, n->output[k], s->info[at]->type, &r, false));
    TN_TRY(tn_onnx_bind(s, n->output[k], r));
  }
  return TN_OK;
}
static tn_status one_node(scope *s, const pb_node *n, size_t number) {
  func *f = s->fn;
  importer *im = f->im;
  const char *domain = n->domain && strcmp(n->domain, "ai.onnx") ? n->domain : "";
  char where[160], target[128], name[128];
  tn_ref *in, *out;
  tn_ox_attr *attr;
  uint32_t n_attr;
  if (!n->op_type || !*n->op_type) return tn_fail(im->d, TN_E_ARG, "it has no operator");
  if (++im->nodes > MAX_NODES) return tn_fail(im->d, TN_E_UNSUPPORTED, "over %d nodes after functions are inlined", MAX_NODES);
  if (n->n_input > 60000 || n->n_output > 60000) return tn_fail(im->d, TN_E_UNSUPPORTED, "%zu operands and %zu results", n->n_input, n->n_output);
  TN_TRY(operands(s, n, &in));
  TN_TRY(tn_onnx_attrs(im, s, n, &attr, &n_attr));
  if (!(out = TN_NEW(im->a, tn_ref, n->n_output + 1))) return tn_fail(im->d, TN_E_NOMEM, "results");
  const pb_function *fn = tn_onnx_function(im, n);
  if (fn) TN_TRY(tn_onnx_call(s, fn, n, in, attr, n_attr, out));
  else {
    snprintf(target, sizeof target, "%.60s.%.60s", *domain ? domain : "ai.onnx", n->op_type);
    if (n->name && *n->name) snprintf(name, sizeof name, "%.120s", n->name);
    else snprintf(name, sizeof name, "%.60s_%zu", n->op_type, number);
    f->prov = tn_graph_add_prov(f->env.g, name, target, s->where, TN_F32);
    if (!f->prov) return tn_fail(im->d, TN_E_NOMEM, "provenance");
    snprintf(where, sizeof where, "%.100s (%.50s)", name, n->op_type);
    uint32_t owner = im->owner;
    im->owner = f->env.g->func;
    const char *before = im->where;                          /* of the node whose subgraph this is */
    tn_dims_collect(im->dims, im->where = where, f->env.g->func);
    tn_status st = apply(s, n, domain, in, attr, n_attr, out);
    tn_dims_collect(im->dims, im->where = before, im->owner = owner);
    TN_TRY(st);
    tn_prov *p = tn_graph_prov(f->env.g, f->prov);
    if (p && n->n_output && out[0].id) p->dtype = (tn_dtype)tn_typeof(f->env.g, out[0])->dtype;
  }
  return results(s, n, out);
}
tn_status tn_onnx_nodes(scope *s, pb_node *const *node, size_t n) {
  func *f = s->fn;
  scope *before = f->cur;
  uint32_t prov = f->prov;
  tn_status st = TN_OK;
  s->node = node;
  s->n_node = n;
  f->cur = s;
  if (!(s->n_pairs = TN_NEW(f->im->a, uint32_t, n + 1))) return tn_fail(f->im->d, TN_E_NOMEM, "%zu nodes", n);
  for (size_t i = 0; i < n && st == TN_OK; i++) {
    st = one_node(s, node[i], i);
    s->n_pairs[i] = tn_dims_n_assumed(f->im->dims);
    if (st == TN_OK) continue;
    tn_diag_while(f->im->d, st, "importing node %zu ('%.80s', %.60s) of '%.80s'", i, node[i]->name ? node[i]->name : "", node[i]->op_type ? node[i]->op_type : "?", s->where);
    if ((st = tn_onnx_fork(s, i, st)) == TN_OK) break;
  }
  f->cur = before;
  f->prov = prov;
  return st;
}

/* ---- graphs ---- */
static tn_status constants(scope *s, const pb_graph *g) {
  func *f = s->fn;
  tn_ox_const t;
  tn_ref r;
  for (size_t i = 0; i < g->n_initializer + g->n_sparse_initializer; i++) {
    const pb_sparse *sparse = i < g->n_initializer ? NULL : g->sparse_initializer[i - g->n_initializer];
    const pb_tensor *dense = sparse ? sparse->values : g->initializer[i];
    const char *name = dense && dense->name ? dense->name : "";
    if (!*name) return tn_fail(f->im->d, TN_E_ARG, "initializer %zu of '%.80s' has no name", i, s->where);
    TN_TRY(sparse ? tn_onnx_sparse(f->im, sparse, &t) : tn_onnx_tensor(f->im, dense, &t));
    TN_TRY_WHILE(f->im->d, tn_ox_add_const(&f->env, f->im->d, &t, 0, &r), "reading initializer '%.80s'", name);
    TN_TRY(tn_onnx_bind(s, name, r));
  }
  return TN_OK;
}
tn_status tn_onnx_graph_body(scope *s, const pb_graph *g) {
  s->info = g->value_info;
  s->n_info = g->n_value_info;
  s->n_out = g->n_output;
  if (!(s->out_name = TN_NEW(s->fn->im->a, char *, g->n_output + 1))) return tn_fail(s->fn->im->d, TN_E_NOMEM, "outputs");
  for (size_t i = 0; i < g->n_output; i++) {
    s->out_name[i] = g->output[i]->name;
    if (!g->output[i]->name) s->n_out = 0;                   /* refused when the outputs are looked up */
  }
  for (size_t i = 0; i < g->n_value_info; i++)
    if (g->value_info[i]->name && i <= UINT32_MAX && !tn_map_put_str(&s->types, g->value_info[i]->name, (uint32_t)i)) return tn_fail(s->fn->im->d, TN_E_NOMEM, "value_info");
  if (s->up) TN_TRY(constants(s, g));
  return tn_onnx_nodes(s, g->node, g->n_node);
}
tn_status tn_onnx_outputs(scope *s, const pb_graph *g, tn_ref *out) {
  for (size_t i = 0; i < g->n_output; i++) {
    const char *name = g->output[i]->name ? g->output[i]->name : "";
    bool found;
    TN_TRY(tn_onnx_lookup(s, name, &out[i], &found));
    if (!found || !out[i].id) return tn_fail(s->fn->im->d, TN_E_VERIFY, "output '%.80s' of '%.80s' is made by nothing", name, s->where);
    TN_TRY(tn_onnx_declared(s, name, g->output[i]->type, &out[i], s->up == NULL));
  }
  return TN_OK;
}

/* ---- the model ---- */
/* An input that is an initializer, too, is that constant. */
static bool is_constant(const scope *s, const char *name) {
  uint32_t id;
  return tn_map_get_str(&s->names, name, &id) && tn_def(s->fn->env.g, (tn_ref){id})->op != TN_OP_INPUT;
}
/* A name that the text form of graphs can hold. */
static const char *plain_name(const char *s) {
  if (!((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || *s == '_')) return NULL;
  for (const char *p = s; *p; p++)
    if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') || *p == '_')) return NULL;
  return s;
}
static tn_status inputs(scope *s, const pb_graph *g) {
  func *f = s->fn;
  importer *im = f->im;
  for (size_t i = 0; i < g->n_input; i++) {
    const char *name = g->input[i]->name ? g->input[i]->name : "";
    const tn_onnx_shape *over = NULL;
    tn_type t;
    tn_ox_obj o;
    tn_ref r;
    if (!*name) return tn_fail(im->d, TN_E_ARG, "input %zu has no name", i);
    if (is_constant(s, name)) continue;
    for (uint32_t k = 0; im->o && k < im->o->n_shape; k++)
      if (!strcmp(im->o->shape[k].name, name)) over = &im->o->shape[k];
    TN_TRY(tn_onnx_value_type(im, name, g->input[i]->type, over, true, &t, &o));
    tn_status st = tn_graph_add_input(f->env.g, plain_name(name), t, TN_ORIGIN_INPUT, &r);
    if (st == TN_OK) st = t.dtype == TN_OBJ ? tn_ox_obj_set(&f->env, r, o) : tn_ox_elem_set(&f->env, r, o.elem);
    if (st != TN_OK) return tn_fail(im->d, st, "input '%.80s'", name);
    TN_TRY(tn_onnx_bind(s, name, r));
  }
  for (uint32_t k = 0; im->o && k < im->o->n_shape; k++) {
    uint32_t id;
    if (!tn_map_get_str(&s->names, im->o->shape[k].name, &id)) return tn_fail(im->d, TN_E_ARG, "a shape is given for '%.80s', which is no input", im->o->shape[k].name);
  }
  return TN_OK;
}
static tn_status meta(importer *im) {
  const pb_model *m = im->model;
  tn_unit *u = im->unit;
  uint32_t n = 0, max = (uint32_t)(m->n_metadata_props > 10000 ? 10000 : m->n_metadata_props) + 3;
  if (!(u->meta = TN_NEW(im->a, const char *, 2 * max))) return tn_fail(im->d, TN_E_NOMEM, "metadata");
#define PUT(k, v) do { u->meta[2 * n] = (k); u->meta[2 * n++ + 1] = (v); } while (0)
  if (m->producer_name && *m->producer_name) PUT("producer", tn_arena_printf(im->a, "%s %s", m->producer_name, m->producer_version ? m->producer_version : ""));
  PUT("ir_version", tn_arena_printf(im->a, "%lld", (long long)m->ir_version));
  tn_str s;
  tn_str_init(&s);
  for (size_t i = 0; i < m->n_opset_import; i++)
    tn_str_add(&s, "%s%s %lld", i ? ", " : "", m->opset_import[i]->domain && *m->opset_import[i]->domain ? m->opset_import[i]->domain : "ai.onnx", (long long)m->opset_import[i]->version);
  PUT("opset", s.s ? tn_arena_strdup(im->a, s.s) : "");
  tn_str_deinit(&s);
  for (size_t i = 0; i < m->n_metadata_props && n < max; i++)
    if (m->metadata_props[i]->key && m->metadata_props[i]->value) PUT(m->metadata_props[i]->key, m->metadata_props[i]->value);
#undef PUT
  u->n_meta = n;
  for (uint32_t i = 0; i < 2 * n; i++)
    if (!u->meta[i]) return tn_fail(im->d, TN_E_NOMEM, "metadata");
  return TN_OK;
}
static tn_status whole(scope *s, const pb_graph *g) {
  func *f = s->fn;
  importer *im = f->im;
  tn_ref *out = TN_NEW(im->a, tn_ref, g->n_output + 1);
  if (!out) return tn_fail(im->d, TN_E_NOMEM, "%zu outputs", g->n_output);
  f->cur = s;
  TN_TRY(constants(s, g));
  TN_TRY(inputs(s, g));
  TN_TRY(tn_onnx_graph_body(s, g));
  TN_TRY(tn_onnx_outputs(s, g, out));
  for (size_t i = 0; i < g->n_output; i++)
    if (tn_graph_add_output(f->env.g, out[i]) != TN_OK) return tn_fail(im->d, TN_E_NOMEM, "outputs");
  f->cur = s;
  TN_TRY(tn_onnx_ports(im, f, g));
  TN_TRY(meta(im));
  for (uint32_t i = 0; i < im->unit->n_func; i++) TN_TRY_WHILE(im->d, tn_graph_compact(im->d, im->unit->func[i]), "tidying function %u", i);
  return TN_OK;
}

tn_status tn_onnx_import(tn_diag *d, tn_arena *a, tn_dims *dims, const void *bytes, size_t n, tn_onnx_options *o, tn_unit **out) {
  importer im = {.d = d, .a = a, .dims = dims, .o = o};
  void *model;
  func *f;
  scope s;
  *out = NULL;
  TN_TRY(tn_onnx_parse(d, a, bytes, n, &tn_onnx__model__descriptor, &model));
  im.model = model;
  if (!im.model->graph) return tn_fail(d, TN_E_PARSE, "no model: it has no graph");
  if (!(im.unit = TN_NEW(a, tn_unit, 1))) return tn_fail(d, TN_E_NOMEM, "a unit");
  *im.unit = (tn_unit){.arena = a, .dims = dims, .name = im.model->graph->name && *im.model->graph->name ? im.model->graph->name : "model"};
  TN_TRY(tn_onnx_func_create(&im, NULL, im.unit->name, &f));
  TN_TRY(tn_onnx_scope_init(&s, NULL, f, im.unit->name));
  s.opset = im.model->opset_import;
  s.n_opset = im.model->n_opset_import;
  tn_map_init(&im.functions);
  tn_status st = TN_OK;
  for (size_t i = im.model->n_functions; i-- > 0 && st == TN_OK;)
    if (im.model->functions[i]->name && !tn_map_put_str(&im.functions, im.model->functions[i]->name, (uint32_t)i)) st = tn_fail(d, TN_E_NOMEM, "functions");
  if (st == TN_OK) st = whole(&s, im.model->graph);
  tn_map_deinit(&im.functions);
  tn_onnx_scope_deinit(&s);
  tn_map_deinit(&f->copied);
  tn_dims_collect(dims, NULL, 0);
  if (st == TN_OK) *out = im.unit;
  return st;
}

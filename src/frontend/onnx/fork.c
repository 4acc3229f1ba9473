/* fork: an If whose branches give values of different ranks, or a Squeeze without axes of a size that may be 1, and nodes behind it that need to know the rank.
 *
 * Exporters write "squeeze this dim if it is 1" in both ways. A graph's types have one rank, so the nodes behind such an If are imported once for each branch: the rest
 * of the graph becomes part of the branches, and what the If gives are the outputs of the whole. That is done on the level of the file: a graph is put
 * together out of the branch's nodes, names for its results, and the rest, and the row of If does as ever.
 * Where the rest can't be imported for one of the branches (it would be an error when run, too), the other one is taken, and that the condition says so is
 * written down like a size assumed equal: a run where it does not is refused.
 *
 * It is tried only when an import has failed, at the first such If of the scope. What the failed attempt left in the graph is read by nobody. */
#include "import.h"

enum { MAX_FORKS = 3 };

/* ---- graphs put together ---- */
static pb_node *renamed(importer *im, char *from, char *to) {
  pb_node *n = TN_NEW(im->a, pb_node, 1);
  char **name = TN_NEW(im->a, char *, 2);
  if (!n || !name) return NULL;
  tn_onnx__node__init(n);
  name[0] = from;
  name[1] = to;
  n->op_type = (char *)(uintptr_t)"Identity";
  n->n_input = n->n_output = 1;
  n->input = name;
  n->output = name + 1;
  return n;
}
/* Branch b of node i of the scope, and all that comes behind the node. */
static pb_graph *joined(scope *s, size_t i, const pb_graph *b) {
  importer *im = s->fn->im;
  const pb_node *n = s->node[i];
  size_t rest = s->n_node - i - 1, k = 0;
  pb_graph *g = TN_NEW(im->a, pb_graph, 1);
  pb_value **out = TN_NEW(im->a, pb_value *, s->n_out + 1), *v = TN_NEW(im->a, pb_value, s->n_out + 1), **info = TN_NEW(im->a, pb_value *, b->n_value_info + s->n_info + 1);
  pb_node **node = TN_NEW(im->a, pb_node *, b->n_node + n->n_output + rest + 1);
  if (!g || !out || !v || !info || !node || b->n_output != n->n_output) return NULL;
  *g = *b;
  for (size_t j = 0; j < b->n_node; j++) node[k++] = b->node[j];
  for (size_t j = 0; j < n->n_output; j++) {
    if (!*n->output[j] || !b->output[j]->name) continue;
    if (!(node[k] = renamed(im, b->output[j]->name, n->output[j]))) return NULL;
    k++;
  }
  for (size_t j = 0; j < rest; j++) node[k++] = s->node[i + 1 + j];
  g->n_node = k;
  g->node = node;
  g->n_value_info = 0;
  for (size_t j = 0; j < b->n_value_info; j++) info[g->n_value_info++] = b->value_info[j];
  for (size_t j = 0; j < s->n_info; j++) info[g->n_value_info++] = s->info[j];
  g->value_info = info;
  for (size_t j = 0; j < s->n_out; j++) {
    tn_onnx__value_info__init(&v[j]);
    v[j].name = s->out_name[j];
    out[j] = &v[j];
  }
  g->n_output = s->n_out;
  g->output = out;
  return g;
}
/* A Squeeze of x with the axes it has when the one size that nobody knows is 1, or is not: a graph of this node. */
static pb_graph *squeeze_of(scope *s, const pb_node *n, tn_ref x, bool one) {
  importer *im = s->fn->im;
  const tn_type *t = tn_typeof(s->fn->env.g, x);
  struct { pb_graph g; pb_node node, *nodes[1]; pb_value v, *vs[1]; pb_tensor t, *ts[1]; pb_attr a, *as[1]; char *in[2], *out[1]; int64_t axis[TN_MAX_RANK], count[1]; } *q = tn_arena_alloc(im->a, sizeof *q);
  size_t m = 0;
  if (!q || t->dtype == TN_OBJ) return NULL;
  for (int i = 0; i < t->rank; i++) {
    int64_t lo, hi;
    tn_dim_bounds(im->dims, t->dim[i], &lo, &hi);
    if (t->dim[i] == 1 || (one && lo <= 1 && hi >= 1)) q->axis[m++] = i;
  }
  tn_onnx__graph__init(&q->g);
  tn_onnx__node__init(&q->node);
  tn_onnx__value_info__init(&q->v);
  tn_onnx__tensor__init(&q->t);
  tn_onnx__attribute__init(&q->a);
  q->in[0] = n->input[0];
  q->in[1] = q->t.name = tn_arena_printf(im->a, "%s (axes)", n->output[0]);
  q->out[0] = q->v.name = tn_arena_printf(im->a, "%s (squeezed)", n->output[0]);
  if (!q->in[1] || !q->out[0]) return NULL;
  q->count[0] = (int64_t)m;
  q->node.op_type = (char *)(uintptr_t)(m ? "Squeeze" : "Identity");
  q->node.n_input = 1;
  q->node.input = q->in;
  q->node.n_output = 1;
  q->node.output = q->out;
  if (m && tn_onnx_opset(s, "") < 13) {
    q->a = (pb_attr){.base = q->a.base, .name = (char *)(uintptr_t)"axes", .has_type = 1, .type = 7, .n_ints = m, .ints = q->axis};
    q->as[0] = &q->a;
    q->node.n_attribute = 1;
    q->node.attribute = q->as;
  } else if (m) {
    q->t = (pb_tensor){.base = q->t.base, .name = q->t.name, .n_dims = 1, .dims = q->count, .has_data_type = 1, .data_type = 7, .n_int64_data = m, .int64_data = q->axis};
    q->ts[0] = &q->t;
    q->g.n_initializer = 1;
    q->g.initializer = q->ts;
    q->node.n_input = 2;
  }
  q->nodes[0] = &q->node;
  q->vs[0] = &q->v;
  q->g.name = (char *)(uintptr_t)(one ? "squeezed" : "kept");
  q->g.n_node = 1;
  q->g.node = q->nodes;
  q->g.n_output = 1;
  q->g.output = q->vs;
  return &q->g;
}
static const pb_graph *branch_of(const pb_node *n, const char *name) {
  for (size_t k = 0; k < n->n_attribute; k++)
    if (n->attribute[k]->name && !strcmp(n->attribute[k]->name, name)) return n->attribute[k]->g;
  return NULL;
}

/* ---- attempts ---- */
typedef struct state { uint32_t n_func, n_pairs; int depth; const char *where; uint32_t owner, prov; } state;
static state save(const func *f) { return (state){f->im->unit->n_func, tn_dims_n_assumed(f->im->dims), f->im->depth, f->im->where, f->im->owner, f->prov}; }
static void restore(func *f, scope *s, const state *t) {
  f->im->unit->n_func = t->n_func;
  tn_dims_forget_assumed(f->im->dims, t->n_pairs);
  f->im->depth = t->depth;
  f->im->where = t->where;
  tn_dims_collect(f->im->dims, t->where, f->im->owner = t->owner);
  f->prov = t->prov;
  f->cur = s;
}
static tn_status adopt(scope *s, const tn_ref *out) {
  for (size_t j = 0; j < s->n_out; j++)
    if (!tn_map_put_str(&s->late, s->out_name[j], out[j].id)) return tn_fail(s->fn->im->d, TN_E_NOMEM, "names");
  return TN_OK;
}
/* Both branches with the rest of the graph, as one If that gives the outputs. */
static tn_status both(scope *s, const pb_node *n, tn_ref cond, pb_graph *const g[2], tn_ref *out) {
  func *f = s->fn;
  tn_ox_attr at[2] = {{.name = "then_branch", .kind = TN_OX_GRAPH, .n = 1}, {.name = "else_branch", .kind = TN_OX_GRAPH, .n = 1}};
  bool *wanted = TN_NEW(f->im->a, bool, s->n_out + 1);
  if (!wanted) return tn_fail(f->im->d, TN_E_NOMEM, "results");
  for (size_t j = 0; j < s->n_out; j++) wanted[j] = true;
  for (int k = 0; k < 2; k++) at[k].u.graph = g[k];
  tn_ox c = {.b = {.d = f->im->d, .g = f->env.g, .prov = f->prov}, .e = &f->env, .op = "If", .domain = "", .opset = 16, .name = n->name ? n->name : "", .in = &cond, .n_in = 1,
             .out = out, .n_out = (uint32_t)s->n_out, .wanted = wanted, .attr = at, .n_attr = 2};
  return tn_onnx_apply(&c);
}
static tn_status only(scope *s, tn_ref cond, const pb_graph *g, bool then, tn_ref *out) {
  func *f = s->fn;
  tn_ox_attr at = {.name = then ? "then_branch" : "else_branch", .kind = TN_OX_GRAPH, .n = 1, .u.graph = g};
  TN_TRY(tn_onnx_inlined(&f->env, f->im->d, &at, NULL, 0, out, (uint32_t)s->n_out));
  return tn_ox_grant(&f->env, f->im->d, cond, then, f->prov);
}
static bool worth_a_try(tn_status s) { return s == TN_E_UNSUPPORTED || s == TN_E_ARG || s == TN_E_VERIFY; }

/* Node i of scope s, when it is one that may be forked: *cond is what decides. */
static bool is_open(scope *s, size_t i, tn_ref *cond) {
  const pb_node *n = s->node[i];
  const tn_graph *g = s->fn->env.g;
  if (!n->op_type || (strcmp(n->op_type, "If") && strcmp(n->op_type, "Squeeze")) || (n->domain && *n->domain && strcmp(n->domain, "ai.onnx"))) return false;
  for (size_t k = 0; k < n->n_output; k++) {
    uint32_t id;
    if (!*n->output[k] || !tn_map_get_str(&s->names, n->output[k], &id) || !id) continue;
    tn_ox_obj o = tn_ox_obj_of(&s->fn->env, (tn_ref){id});
    const tn_node *made = &g->node[g->value[id].node];
    if (g->value[id].type.dtype != TN_OBJ || o.kind != TN_OX_K_TENSOR || o.elem == 8 || made->op != TN_OP_DYN || !made->target || strcmp(made->target, "if")) continue;
    *cond = made->in[0];
    return true;
  }
  return false;
}
static bool branches(scope *s, const pb_node *n, const pb_graph *out[2]) {
  bool found = false;
  tn_ref x;
  out[0] = branch_of(n, "then_branch");
  out[1] = branch_of(n, "else_branch");
  if (!strcmp(n->op_type, "Squeeze")) {
    if (n->n_input < 1 || tn_onnx_lookup(s, n->input[0], &x, &found) != TN_OK || !found || !x.id) return false;
    for (int k = 0; k < 2; k++) out[k] = squeeze_of(s, n, x, k == 0);
  }
  return out[0] && out[1];
}
tn_status tn_onnx_fork(scope *s, size_t failed, tn_status why) {
  func *f = s->fn;
  importer *im = f->im;
  const pb_graph *b[2];
  tn_ref cond;
  size_t i = 0;
  if (!worth_a_try(why) || im->forks >= MAX_FORKS || s->n_out == 0 || !im->d) return why;
  while (i < failed && !is_open(s, i, &cond)) i++;
  if (i == failed) return why;
  tn_diag *first = TN_NEW(im->a, tn_diag, 1);
  tn_ref *out = TN_NEW(im->a, tn_ref, s->n_out + 1);
  if (!first || !out) return why;
  *first = *im->d;
  pb_graph *g[2] = {NULL, NULL};
  if (branches(s, s->node[i], b))
    for (int k = 0; k < 2; k++) g[k] = joined(s, i, b[k]);
  if (!g[0] || !g[1]) {
    *im->d = *first;
    return why;
  }
  state before = save(f);
  before.n_pairs = s->n_pairs[i];                            /* what the nodes behind it asked for is asked again */
  tn_status st = why;
  im->forks++;
  for (int way = 0; way < 3 && worth_a_try(st); way++) {
    restore(f, s, &before);
    tn_diag_clear(im->d);
    st = way == 0 ? both(s, s->node[i], cond, g, out) : only(s, cond, g[way - 1], way == 1, out);
  }
  im->forks--;
  tn_dims_collect(im->dims, im->where = before.where, im->owner = before.owner);
  if (st == TN_OK) return adopt(s, out);
  if (worth_a_try(st)) *im->d = *first;
  return worth_a_try(st) ? why : st;
}

/* verify.c: the structure of a graph, after compaction. Written for text that parsed and for graphs that a pass just changed; it trusts
 * pointers (arrays are as long as their counts say) and nothing else. Every message names node and numbers.
 * Whether result types follow from operand types is asked in room ops (tn_ops_verify), which calls this first. */
#include <string.h>
#include "ir/ir_int.h"

typedef struct ctx {
  tn_diag *d;
  const tn_graph *g;
  int depth;
} ctx;

#define BAD(...) tn_fail(c->d, TN_E_VERIFY, __VA_ARGS__)
/* "node 7 (add, %y)": for messages. */
#define NODE_FMT "node %u (%s%s%.60s)"
#define NODE(id) (id), tn_op_name(c->g->node[id].op), node_name(c->g, id) ? ", %" : "", node_name(c->g, id) ? node_name(c->g, id) : ""

static tn_status graph(const ctx *c);

static const char *node_name(const tn_graph *g, uint32_t id) {
  const tn_node *n = &g->node[id];
  const char *s = n->n_out && n->out < g->n_values ? g->value[n->out].name : NULL;
  return s && *s ? s : NULL;
}

/* ---- attributes ---- */

static bool dim_like(const tn_attr_val *v) {
  return (v->kind == TN_AT_INT && v->u.i >= 0) || (v->kind == TN_AT_DIM && v->u.d != TN_DIM_BAD);
}

/* NULL = fits the kind letter of ops.def; else what it wants. */
static const char *wants(char kind, const tn_attr_val *v) {
  tn_combiner comb;
  switch (kind) {
    case 'd':
      if (v->kind != TN_AT_LIST) return dim_like(v) ? NULL : "a list of dims";
      for (uint32_t i = 0; i < v->u.list.n; i++)
        if (!dim_like(&v->u.list.item[i])) return "a list of dims";
      return NULL;
    case 'i': return v->kind == TN_AT_INT || (v->kind == TN_AT_DIM && tn_dim_is_const(v->u.d)) ? NULL : "an integer";
    case 'f': return v->kind == TN_AT_FLOAT ? NULL : "a float";
    case 'b': return v->kind == TN_AT_BOOL ? NULL : "a bool";
    case 's': return v->kind == TN_AT_STR ? NULL : "a string";
    case 't': return v->kind == TN_AT_DTYPE ? NULL : "a dtype";
    case 'n': return v->kind == TN_AT_INT || v->kind == TN_AT_FLOAT || v->kind == TN_AT_BOOL || v->kind == TN_AT_DIM ? NULL : "a number";
    case 'c': return v->kind == TN_AT_STR && tn_combiner_find(v->u.s, strlen(v->u.s), &comb) ? NULL : "a combiner";
    default: return "a kind that ops.def does not know";
  }
}

static tn_status val(const ctx *c, uint32_t id, const char *name, const tn_attr_val *v, int depth) {
  if (v->kind > TN_AT_LIST) return BAD(NODE_FMT ": attribute %s has kind %d", NODE(id), name, (int)v->kind);
  if (v->kind == TN_AT_REF && v->u.ref >= c->g->node[id].n_in)
    return BAD(NODE_FMT ": attribute %s names input %u of %u", NODE(id), name, v->u.ref, c->g->node[id].n_in);
  if (v->kind == TN_AT_DTYPE && (unsigned)v->u.t >= TN_N_DTYPES)
    return BAD(NODE_FMT ": attribute %s holds dtype %d", NODE(id), name, (int)v->u.t);
  if (v->kind == TN_AT_DIM && v->u.d == TN_DIM_BAD)
    return BAD(NODE_FMT ": attribute %s holds a dim that could not be computed", NODE(id), name);
  if (v->kind == TN_AT_STR && !v->u.s) return BAD(NODE_FMT ": attribute %s is a string without text", NODE(id), name);
  if (v->kind != TN_AT_LIST) return TN_OK;
  if (depth == TN_IR_MAX_LIST_DEPTH) return BAD(NODE_FMT ": attribute %s: lists nested deeper than %d", NODE(id), name, depth);
  for (uint32_t i = 0; i < v->u.list.n; i++) TN_TRY(val(c, id, name, &v->u.list.item[i], depth + 1));
  return TN_OK;
}

static tn_status attrs(const ctx *c, uint32_t id) {
  const tn_node *n = &c->g->node[id];
  bool open = n->op == TN_OP_CALL || n->op == TN_OP_OPAQUE || n->op == TN_OP_DYN || n->op == TN_OP_FUSED;
  for (uint32_t i = 0; i < n->n_attr; i++) {
    const char *name = n->attr[i].name;
    if (!name || !*name) return BAD(NODE_FMT ": attribute %u has no name", NODE(id), i);
    for (uint32_t k = 0; k < i; k++)
      if (strcmp(n->attr[k].name, name) == 0) return BAD(NODE_FMT ": attribute %.60s is given twice", NODE(id), name);
    TN_TRY(val(c, id, name, &n->attr[i].val, 0));
    char kind = tn_op_attr_kind(n->op, name);
    const char *want = kind ? wants(kind, &n->attr[i].val) : NULL;
    if (!kind && !open) return BAD(NODE_FMT ": has no attribute %.60s; it knows \"%s\"", NODE(id), name, tn_op_attrs(n->op));
    if (want) return BAD(NODE_FMT ": attribute %.60s wants %s", NODE(id), name, want);
  }
  const char *at = tn_op_attrs(n->op), *name;
  size_t len;
  char kind;
  while (tn_op_attr_next(&at, &name, &len, &kind)) {
    bool found = kind == 'b'; /* a missing bool is false */
    for (uint32_t i = 0; i < n->n_attr && !found; i++) found = strlen(n->attr[i].name) == len && memcmp(n->attr[i].name, name, len) == 0;
    if (!found) return BAD(NODE_FMT ": attribute %.*s is missing", NODE(id), (int)len, name);
  }
  return TN_OK;
}

/* ---- types ---- */

static tn_status dim(const ctx *c, uint32_t id, const char *what, int k, tn_dim d, bool negative_ok) {
  int64_t v;
  if (d == TN_DIM_BAD) return BAD(NODE_FMT ": %s %d could not be computed", NODE(id), what, k);
  if (!negative_ok && tn_dim_as_int(c->g->dims, d, &v) && v < 0) return BAD(NODE_FMT ": %s %d is %lld", NODE(id), what, k, (long long)v);
  return TN_OK;
}

static tn_status result(const ctx *c, uint32_t id, uint32_t k) {
  const tn_value *v = &c->g->value[c->g->node[id].out + k];
  if (v->node != id || v->index != k)
    return BAD(NODE_FMT ": value %u says it is result %u of node %u", NODE(id), c->g->node[id].out + k, v->index, v->node);
  if (v->type.dtype >= TN_N_DTYPES) return BAD(NODE_FMT ": result %u has dtype %u", NODE(id), k, v->type.dtype);
  if (v->type.rank > TN_MAX_RANK) return BAD(NODE_FMT ": result %u has rank %u, at most %d", NODE(id), k, v->type.rank, TN_MAX_RANK);
  if (v->type.rank && !v->type.dim) return BAD(NODE_FMT ": result %u has rank %u and no dims", NODE(id), k, v->type.rank);
  for (int i = 0; i < v->type.rank; i++) TN_TRY(dim(c, id, "dim", i, v->type.dim[i], false));
  return TN_OK;
}

/* ---- ops with parts of their own ---- */

static tn_status input(const ctx *c, uint32_t id) {
  const tn_node *n = &c->g->node[id];
  const tn_type *t = &c->g->value[n->out].type;
  if (!n->input) return BAD(NODE_FMT ": an input without a description", NODE(id));
  if ((unsigned)n->input->origin > TN_ORIGIN_SYM) return BAD(NODE_FMT ": origin %d", NODE(id), (int)n->input->origin);
  if (n->input->origin == TN_ORIGIN_SYM) {
    if (t->dtype != TN_I64 || t->rank)
      return BAD(NODE_FMT ": carries a dim, so it is i64[], not %s of rank %u", NODE(id), tn_dtype_name((tn_dtype)t->dtype), t->rank);
    TN_TRY(dim(c, id, "symbol", 0, n->input->sym, true));
  }
  for (int i = 0; n->input->stride && i < t->rank; i++) TN_TRY(dim(c, id, "stride", i, n->input->stride[i], true));
  return TN_OK;
}

static tn_status constant(const ctx *c, uint32_t id) {
  const tn_node *n = &c->g->node[id];
  const tn_type *t = &c->g->value[n->out].type;
  if (!n->data || !n->data->p) return BAD(NODE_FMT ": a constant without data", NODE(id));
  int64_t numel = tn_type_numel(t);
  size_t size = tn_dtype_size((tn_dtype)t->dtype);
  if (numel < 0) return BAD(NODE_FMT ": a constant's dims are numbers that fit 64 bits", NODE(id));
  if (n->data->bytes % size || n->data->bytes / size != (uint64_t)numel)
    return BAD(NODE_FMT ": %zu bytes for %lld elements of %zu bytes", NODE(id), n->data->bytes, (long long)numel, size);
  return TN_OK;
}

static tn_status fused(const ctx *c, uint32_t id) {
  const tn_node *n = &c->g->node[id];
  const tn_graph *b = n->body;
  if (!b) return BAD(NODE_FMT ": has no body", NODE(id));
  if (b->outer != c->g) return BAD(NODE_FMT ": its body belongs to another graph", NODE(id));
  if (b->dims != c->g->dims) return BAD(NODE_FMT ": its body has a dims table of its own", NODE(id));
  if (c->depth == TN_IR_MAX_BODY_DEPTH) return BAD(NODE_FMT ": bodies nested deeper than %d", NODE(id), TN_IR_MAX_BODY_DEPTH);
  ctx in = {c->d, b, c->depth + 1};
  TN_TRY_WHILE(c->d, graph(&in), "checking the body of " NODE_FMT, NODE(id));
  if (b->n_inputs != n->n_in) return BAD(NODE_FMT ": reads %u values, its body has %u inputs", NODE(id), n->n_in, b->n_inputs);
  if (b->n_outputs != n->n_out) return BAD(NODE_FMT ": has %u results, its body yields %u", NODE(id), n->n_out, b->n_outputs);
  if (b->n_mutations) return BAD(NODE_FMT ": its body mutates an input", NODE(id));
  for (uint32_t k = 0; k < n->n_in; k++) {
    if (tn_def((tn_graph *)b, b->input[k])->input->origin != TN_ORIGIN_INPUT)
      return BAD(NODE_FMT ": input %u of its body has an origin of its own", NODE(id), k);
    if (!tn_type_equal(tn_typeof(c->g, n->in[k]), tn_typeof(b, b->input[k])))
      return BAD(NODE_FMT ": operand %u and input %u of its body differ in type", NODE(id), k, k);
  }
  for (uint32_t k = 0; k < n->n_out; k++) {
    if (b->output[k].is_dim || b->output[k].is_none) return BAD(NODE_FMT ": its body yields no value as result %u", NODE(id), k);
    if (!tn_type_equal(tn_typeof(c->g, tn_out(n, k)), tn_typeof(b, b->output[k].ref)))
      return BAD(NODE_FMT ": result %u differs in type from what its body yields", NODE(id), k);
  }
  return TN_OK;
}

static tn_status node(const ctx *c, uint32_t id, uint32_t *next_value) {
  const tn_graph *g = c->g;
  const tn_node *n = &g->node[id];
  if ((unsigned)n->op >= TN_N_OPS) return BAD("node %u: op %d does not exist", id, (int)n->op);
  if (n->dead) return BAD(NODE_FMT ": is dead; compact the graph first", NODE(id));
  int lo = tn_op_in_min(n->op), hi = tn_op_in_max(n->op), out = tn_op_n_out(n->op);
  if (n->n_in < lo || (hi >= 0 && n->n_in > hi)) {
    if (lo == hi) return BAD(NODE_FMT ": wants %d inputs, has %u", NODE(id), lo, n->n_in);
    return BAD(NODE_FMT ": wants %d to %d inputs (-1: any number), has %u", NODE(id), lo, hi, n->n_in);
  }
  if (out >= 0 && n->n_out != out) return BAD(NODE_FMT ": gives %d results, has %u", NODE(id), out, n->n_out);
  if (n->n_out && (n->out != *next_value || n->n_out > g->n_values - n->out))
    return BAD(NODE_FMT ": its results are values %u to %u, expected to start at %u of %u", NODE(id), n->out, n->out + n->n_out - 1,
               *next_value, g->n_values - 1);
  *next_value += n->n_out;
  for (uint32_t k = 0; k < n->n_out; k++) TN_TRY(result(c, id, k));
  for (uint32_t k = 0; k < n->n_in; k++) {
    uint32_t r = n->in[k].id;
    if (r == 0 || r >= g->n_values) return BAD(NODE_FMT ": input %u is value %u of %u", NODE(id), k, r, g->n_values - 1);
    if (g->value[r].node >= id) return BAD(NODE_FMT ": input %u is made by node %u, which comes later", NODE(id), k, g->value[r].node);
  }
  if (n->prov && !tn_graph_prov(g, n->prov)) return BAD(NODE_FMT ": source %u of %u", NODE(id), n->prov, tn_graph_root(g)->n_prov - 1);
  TN_TRY(attrs(c, id));
  bool called = n->op == TN_OP_CALL || n->op == TN_OP_OPAQUE || n->op == TN_OP_DYN;
  if (called && (!n->target || !*n->target)) return BAD(NODE_FMT ": does not say which op it calls", NODE(id));
  if (!called && n->target) return BAD(NODE_FMT ": only call and opaque have a target, this one says %.80s", NODE(id), n->target);
  if (n->body && n->op != TN_OP_FUSED) return BAD(NODE_FMT ": only fused has a body", NODE(id));
  if (n->input && n->op != TN_OP_INPUT) return BAD(NODE_FMT ": is described as an input", NODE(id));
  if (n->data && n->op != TN_OP_CONST) return BAD(NODE_FMT ": only const has data", NODE(id));
  if (n->op == TN_OP_INPUT) return input(c, id);
  if (n->op == TN_OP_CONST) return constant(c, id);
  if (n->op == TN_OP_FUSED) return fused(c, id);
  return TN_OK;
}

/* ---- the graph's own lists ---- */

static tn_status lists(const ctx *c) {
  const tn_graph *g = c->g;
  uint32_t made = 0;
  for (uint32_t i = 1; i < g->n_nodes; i++) made += g->node[i].op == TN_OP_INPUT;
  if (made != g->n_inputs) return BAD("graph lists %u inputs and has %u input nodes", g->n_inputs, made);
  for (uint32_t i = 0; i < g->n_inputs; i++) {
    uint32_t v = g->input[i].id;
    if (v == 0 || v >= g->n_values || g->node[g->value[v].node].op != TN_OP_INPUT)
      return BAD("input %u is value %u, which no input node makes", i, v);
    /* Compaction numbers inputs in call order, and building adds them so: strictly rising ids say that none is listed twice. */
    if (i && v <= g->input[i - 1].id) return BAD("input %u is value %u, not after input %u, value %u", i, v, i - 1, g->input[i - 1].id);
  }
  for (uint32_t i = 0; i < g->n_outputs; i++) {
    const tn_output *o = &g->output[i];
    if (o->is_dim && o->is_none) return BAD("output %u is both a dim and nothing", i);
    if (o->is_dim && o->dim == TN_DIM_BAD) return BAD("output %u is a dim that could not be computed", i);
    if (!o->is_dim && !o->is_none && (o->ref.id == 0 || o->ref.id >= g->n_values))
      return BAD("output %u is value %u of %u", i, o->ref.id, g->n_values - 1);
  }
  for (uint32_t i = 0; i < g->n_mutations; i++) {
    const tn_mutation *m = &g->mutation[i];
    if (m->input >= g->n_inputs) return BAD("mutation %u writes input %u of %u", i, m->input, g->n_inputs);
    if (m->value.id == 0 || m->value.id >= g->n_values) return BAD("mutation %u writes value %u of %u", i, m->value.id, g->n_values - 1);
    if (!tn_def((tn_graph *)g, g->input[m->input])->input->mutated) return BAD("input %u is written and not marked as mutated", m->input);
    if (!tn_type_equal(tn_typeof(g, g->input[m->input]), tn_typeof(g, m->value)))
      return BAD("input %u is written with value %u of another type", m->input, m->value.id);
  }
  return TN_OK;
}

static tn_status written_once(const ctx *c) {
  const tn_graph *g = c->g;
  uint8_t *seen = tn_calloc(g->n_inputs + 1, 1);
  tn_status s = seen ? TN_OK : tn_fail(c->d, TN_E_NOMEM, "verifying %u mutations", g->n_mutations);
  for (uint32_t i = 0; s == TN_OK && i < g->n_mutations; i++)
    if (seen[g->mutation[i].input]++) s = BAD("input %u is written twice", g->mutation[i].input);
  tn_free(seen);
  return s;
}

static tn_status graph(const ctx *c) {
  const tn_graph *g = c->g;
  uint32_t next_value = 1;
  if (!g->n_nodes || !g->n_values) return BAD("graph without slot 0");
  for (uint32_t i = 1; i < g->n_values; i++) {
    if (g->value[i].node == 0 || g->value[i].node >= g->n_nodes)
      return BAD("value %u is made by node %u of %u", i, g->value[i].node, g->n_nodes - 1);
    if (g->forward[i]) return BAD("value %u is forwarded to value %u; compact the graph first", i, g->forward[i]);
  }
  for (uint32_t i = 1; i < g->n_nodes; i++) TN_TRY(node(c, i, &next_value));
  if (next_value != g->n_values) return BAD("%u values, nodes make %u", g->n_values - 1, next_value - 1);
  TN_TRY(lists(c));
  return g->n_mutations > 1 ? written_once(c) : TN_OK;
}

/* A name that text could not give back, "batch size", would make every dump unreadable. */
static tn_status symbols(const ctx *c) {
  for (uint32_t i = 0; i < tn_dims_n_syms(c->g->dims); i++)
    if (!tn_ir_plain_name(tn_dims_sym_name(c->g->dims, i), "_."))
      return BAD("symbol %u has the name '%.60s': letters, digits, '_' and '.' only", i, tn_dims_sym_name(c->g->dims, i));
  return TN_OK;
}

tn_status tn_graph_verify(tn_diag *d, const tn_graph *g) {
  ctx c = {d, g, 0};
  TN_TRY(symbols(&c));
  TN_TRY_WHILE(d, graph(&c), "verifying graph @%.80s", g->name ? g->name : "");
  return TN_OK;
}

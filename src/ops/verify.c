/* Structural ops, and the check of a whole graph's types.
 *
 * input, const, call, opaque and fused have no shape rule of their own: their result types are stated by whoever makes them.
 * tn_ops_verify compares every other node with its rule and these with what they carry: a constant's bytes with its type, a
 * body's inputs and outputs with its node's. */
#include "ops/ops_int.h"
#include <string.h>

static tn_status stated(tn_infer_ctx *c) { return tn_rule_fail(c, "result types are stated, not inferred: use %s", "tn_graph_add"); }
tn_status tn_infer_INPUT(tn_infer_ctx *c) { return stated(c); }
tn_status tn_infer_CONST(tn_infer_ctx *c) { return stated(c); }
tn_status tn_infer_CALL(tn_infer_ctx *c) { return stated(c); }
tn_status tn_infer_OPAQUE(tn_infer_ctx *c) { return stated(c); }
tn_status tn_infer_DYN(tn_infer_ctx *c) { return stated(c); }
tn_status tn_infer_FUSED(tn_infer_ctx *c) { return stated(c); }

/* ---- verify ---- */
static tn_status differ(tn_diag *d, const tn_graph *g, const char *what, uint32_t k, const tn_type *got, const tn_type *want) {
  return tn_fail(d, TN_E_VERIFY, "%s %u is %s%s, wants %s%s", what, k, tn_dtype_name((tn_dtype)got->dtype),
                 tn_shape_text(g->dims, got->rank, got->dim).s, tn_dtype_name((tn_dtype)want->dtype),
                 tn_shape_text(g->dims, want->rank, want->dim).s);
}
static tn_status check_rule(tn_diag *d, tn_graph *g, const tn_node *n) {
  tn_type want[TN_MAX_RESULTS];
  uint32_t n_want = 0;
  tn_mark m = tn_arena_mark(g->arena); /* the rule's types are needed only here */
  tn_status s = tn_ops_infer(d, g, n->op, n->in, n->n_in, n->attr, n->n_attr, want, &n_want);
  if (s == TN_OK && n_want != n->n_out) s = tn_fail(d, TN_E_VERIFY, "%u results, wants %u", n->n_out, n_want);
  for (uint32_t k = 0; s == TN_OK && k < n_want; k++) {
    const tn_type *got = tn_typeof(g, tn_out(n, k));
    if (!tn_type_equal(got, &want[k])) s = differ(d, g, "result", k, got, &want[k]);
  }
  tn_arena_rewind(g->arena, m);
  if (s != TN_E_ARG) return s;
  if (d) d->code = TN_E_VERIFY; /* the same words, but it is the graph that is wrong here, not a caller */
  return TN_E_VERIFY;
}
static tn_status check_const(tn_diag *d, const tn_graph *g, const tn_node *n) {
  const tn_type *t = tn_typeof(g, tn_out(n, 0));
  uint64_t bytes = tn_dtype_size((tn_dtype)t->dtype);
  for (uint32_t i = 0; i < t->rank; i++) {
    if (!tn_dim_is_const(t->dim[i])) return tn_fail(d, TN_E_VERIFY, "constant with dim %s", tn_dim_text(g->dims, t->dim[i]).s);
    if (__builtin_mul_overflow(bytes, (uint64_t)t->dim[i], &bytes)) return tn_fail(d, TN_E_VERIFY, "constant's size overflows");
  }
  if (!n->data || n->data->bytes != bytes || (bytes && !n->data->p))
    return tn_fail(d, TN_E_VERIFY, "constant holds %zu bytes, its type wants %llu", n->data && n->data->p ? n->data->bytes : 0,
                   (unsigned long long)bytes);
  return TN_OK;
}
static tn_status check_body(tn_diag *d, const tn_graph *g, const tn_node *n) {
  const tn_graph *b = n->body;
  if (!b) return tn_fail(d, TN_E_VERIFY, "no body");
  if (b->n_inputs != n->n_in || b->n_outputs != n->n_out)
    return tn_fail(d, TN_E_VERIFY, "body takes %u and yields %u values, the node %u and %u", b->n_inputs, b->n_outputs, n->n_in, n->n_out);
  for (uint32_t k = 0; k < n->n_in; k++)
    if (!tn_type_equal(tn_typeof(b, b->input[k]), tn_typeof(g, n->in[k])))
      return differ(d, g, "body input", k, tn_typeof(b, b->input[k]), tn_typeof(g, n->in[k]));
  for (uint32_t k = 0; k < n->n_out; k++) {
    if (b->output[k].is_dim || b->output[k].is_none) return tn_fail(d, TN_E_VERIFY, "body output %u is not a value", k);
    if (!tn_type_equal(tn_typeof(b, b->output[k].ref), tn_typeof(g, tn_out(n, k))))
      return differ(d, g, "body output", k, tn_typeof(b, b->output[k].ref), tn_typeof(g, tn_out(n, k)));
  }
  return TN_OK;
}
static tn_status check_node(tn_diag *d, tn_graph *g, const tn_node *n) {
  switch (n->op) {
    case TN_OP_INPUT:
    case TN_OP_CALL:
    case TN_OP_OPAQUE:
    case TN_OP_DYN: return TN_OK;
    case TN_OP_CONST: return check_const(d, g, n);
    case TN_OP_FUSED: TN_TRY(check_body(d, g, n)); return tn_ops_verify(d, n->body);
    default: return check_rule(d, g, n);
  }
}
tn_status tn_ops_verify(tn_diag *d, tn_graph *g) {
  for (uint32_t id = 1; id < g->n_nodes; id++) {
    const tn_node *n = &g->node[id];
    if (n->dead) continue;
    TN_TRY_WHILE(d, check_node(d, g, n), "checking %%%u (%s) of graph '%s'", n->out, tn_op_name(n->op), g->name ? g->name : "");
  }
  for (uint32_t i = 0; i < g->n_mutations; i++) {
    const tn_mutation *m = &g->mutation[i];
    if (!tn_type_equal(tn_typeof(g, m->value), tn_typeof(g, g->input[m->input])))
      return differ(d, g, "new value of input", m->input, tn_typeof(g, m->value), tn_typeof(g, g->input[m->input]));
  }
  return TN_OK;
}

/* freeze: what depends on parameters and constants alone is made once, not in every call.
 *
 * Parameters and buffers of a module keep their values between calls, mostly. A kernel or concat all of whose operands come from them writes a
 * packed buffer: its step runs when one of the inputs behind it has another address or version, like the copies that pack weights; with constants alone
 * behind it (quantised weights made floats: too big to be folded, and small in a package) in the first call.
 * Not frozen: what would grow much (a bias stretched to a whole activation), symbolic sizes, library calls, and results that the caller gets. */
#include <string.h>
#include "lower/lower_plan.h"

enum { GROWTH = 4, SMALL = 4096 }; /* bytes kept: at most GROWTH times the parameters and constants behind them, or SMALL */

static bool source(const tn_node *n) {
  return n->op == TN_OP_INPUT && (n->input->origin == TN_ORIGIN_PARAM || n->input->origin == TN_ORIGIN_BUFFER) && !n->input->mutated;
}

/* Walks to the inputs behind `node`; seen: [n_nodes], zeroed. Operands come before their users, so one sweep down does. */
static void mark_behind(const tn_graph *g, uint32_t node, bool *seen) {
  seen[node] = true;
  for (uint32_t i = node; i >= 1; i--)
    for (uint32_t k = 0; seen[i] && k < g->node[i].n_in; k++) seen[g->value[g->node[i].in[k].id].node] = true;
}

static int64_t bytes_of(const tn_type *t) {
  int64_t n = tn_type_numel(t);
  return n < 0 || n > INT64_MAX / 64 ? -1 : n * (int64_t)tn_dtype_size((tn_dtype)t->dtype);
}

static bool worth_keeping(tn_pb *b, uint32_t node, bool *seen) {
  const tn_graph *g = b->g;
  const tn_node *n = &g->node[node];
  int64_t in = 0, out = 0;
  memset(seen, 0, g->n_nodes * sizeof *seen);
  mark_behind(g, node, seen);
  for (uint32_t i = 1; i <= node; i++) {
    if (!seen[i] || !(source(&g->node[i]) || g->node[i].op == TN_OP_CONST)) continue;
    int64_t x = bytes_of(&g->value[g->node[i].out].type);
    if (x < 0) return false;
    in += x;
  }
  for (uint32_t k = 0; k < n->n_out; k++) {
    int64_t x = bytes_of(&g->value[n->out + k].type);
    if (x < 0) return false;
    out += x;
  }
  return in > 0 && (out <= SMALL || out / GROWTH <= in);
}

tn_status tn_pb_freeze(tn_pb *b) {
  tn_graph *g = b->g;
  bool *seen = TN_NEW(b->a, bool, g->n_nodes + 1);
  b->frozen = TN_NEW(b->a, bool, g->n_nodes + 1);
  if (!seen || !b->frozen) return tn_fail(b->d, TN_E_NOMEM, "frozen nodes");
  for (uint32_t i = 1; i < g->n_nodes; i++) {
    const tn_node *n = &g->node[i];
    bool all = n->n_in > 0;
    for (uint32_t k = 0; k < n->n_in; k++) all &= b->frozen[g->value[n->in[k].id].node];
    switch (n->op) {
      case TN_OP_INPUT: b->frozen[i] = source(n); break;
      case TN_OP_CONST: b->frozen[i] = true; break;
      case TN_OP_PERMUTE:
      case TN_OP_RESHAPE:
      case TN_OP_BROADCAST:
      case TN_OP_SLICE: b->frozen[i] = all; break;
      case TN_OP_FUSED:
      case TN_OP_CONCAT: b->frozen[i] = all && worth_keeping(b, i, seen); break;
      default: break;
    }
  }
  return TN_OK;
}

tn_status tn_pb_sources(tn_pb *b, uint32_t node, uint32_t buf) {
  const tn_graph *g = b->g;
  tn_pbuf *f = &b->p->buf[buf];
  tn_mark m = tn_arena_mark(b->a);
  bool *seen = TN_NEW(b->a, bool, g->n_nodes + 1);
  f->source = TN_NEW(b->p->arena, uint32_t, g->n_inputs + 1);
  if (!seen || !f->source) return tn_fail(b->d, TN_E_NOMEM, "sources of a packed buffer");
  mark_behind(g, node, seen);
  for (uint32_t i = 0; i < g->n_inputs; i++)
    if (seen[g->value[g->input[i].id].node]) f->source[f->n_source++] = i;
  tn_arena_rewind(b->a, m);
  return TN_OK;
}

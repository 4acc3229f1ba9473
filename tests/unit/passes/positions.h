/* Checks of fused bodies that results cannot show: does every value sit where a kernel that walks the domain once can make it?
 *
 * Behind an anchor each element must belong to one element of the anchor's result, the same one for all its operands. In a reduction
 * each element that depends on a reduced value must read the values of its own row. Done with numbers: each value that depends on the
 * anchor (on a reduction) carries, for every element, the number of the anchor's element (of the row) it comes from. */
#ifndef TN_POSITIONS_H
#define TN_POSITIONS_H
#include "passes_test.h"

enum { POS_MAX = 1 << 16 };
typedef struct positions { tn_graph *b; const int64_t *sym; int32_t **id; int64_t (*shape)[TN_MAX_RANK]; tn_arena *a; const char *why; } positions;

static inline int64_t pos_numel(const positions *p, uint32_t v) {
  int64_t n = 1;
  for (uint32_t i = 0; i < p->b->value[v].type.rank; i++) n *= p->shape[v][i];
  return n;
}
static inline int32_t *pos_new(positions *p, uint32_t v) {
  int64_t n = pos_numel(p, v);
  if (n > POS_MAX) return NULL;
  return p->id[v] = TN_NEW(p->a, int32_t, n + 1);
}
/* Element of operand `from` (numpy broadcast, or the view's own rule) that element `flat` of v reads. */
static inline int64_t pos_source(const positions *p, const tn_node *n, uint32_t v, uint32_t from, int64_t flat) {
  uint32_t rank = p->b->value[v].type.rank, fr = p->b->value[from].type.rank;
  int64_t at[TN_MAX_RANK], in[TN_MAX_RANK] = {0}, r = 0;
  tn_dim perm[TN_MAX_RANK], start;
  if (n->op == TN_OP_RESHAPE) return flat;
  for (uint32_t i = rank; i-- > 0;) { at[i] = flat % p->shape[v][i]; flat /= p->shape[v][i]; }
  if (n->op == TN_OP_PERMUTE) {
    tn_attr_dims(n, "perm", perm, TN_MAX_RANK);
    for (uint32_t i = 0; i < rank; i++) in[perm[i]] = at[i];
  } else if (n->op == TN_OP_SLICE) {
    int64_t s = 0, dim = tn_attr_int(n, "dim", 0);
    tn_attr_dims(n, "start", &start, 1);
    tn_dim_eval(p->b->dims, start, p->sym, &s);
    for (uint32_t i = 0; i < rank; i++) in[i] = (int64_t)i == dim ? s + at[i] * tn_attr_int(n, "step", 1) : at[i];
  } else {
    for (uint32_t i = 0; i < fr; i++) in[i] = p->shape[from][i] == 1 ? 0 : at[rank - fr + i];
  }
  for (uint32_t i = 0; i < fr; i++) r = r * p->shape[from][i] + in[i];
  return r;
}
/* Ids of a node from those of its operands; operands must agree. */
static inline void pos_carry(positions *p, uint32_t node) {
  const tn_node *n = &p->b->node[node];
  int32_t *mine = NULL;
  for (uint32_t k = 0; k < n->n_in; k++) {
    const int32_t *from = p->id[n->in[k].id];
    if (!from) continue;
    bool first = !mine;
    if (first && !(mine = pos_new(p, n->out))) return;
    for (int64_t i = 0; i < pos_numel(p, n->out); i++) {
      int32_t id = from[pos_source(p, n, n->out, n->in[k].id, i)];
      if (first) mine[i] = id;
      else if (mine[i] != id) p->why = "operands of one element come from different places";
    }
  }
}
static inline void pos_start(positions *p, tn_graph *b, tn_arena *a, const int64_t *sym) {
  *p = (positions){.b = b, .sym = sym, .a = a, .id = TN_NEW(a, int32_t *, b->n_values), .shape = tn_arena_alloc(a, sizeof *p->shape * b->n_values)};
  assert_true(p->id && p->shape);
  for (uint32_t v = 1; v < b->n_values; v++)
    for (uint32_t i = 0; i < b->value[v].type.rank; i++) assert_int_equal(tn_dim_eval(b->dims, b->value[v].type.dim[i], sym, &p->shape[v][i]), TN_OK);
}
static inline bool pos_is_anchor(tn_op op) { return op == TN_OP_CONTRACT || op == TN_OP_CONV || op == TN_OP_CONVT || op == TN_OP_WINDOW; }

/* contract and attention: behind the last anchor one element to one */
static inline const char *bad_epilogue(tn_graph *b, tn_arena *a, const int64_t *sym) {
  positions p;
  uint32_t anchor = 0;
  pos_start(&p, b, a, sym);
  for (uint32_t i = 1; i < b->n_nodes; i++)
    if (pos_is_anchor(b->node[i].op)) anchor = i;
  uint32_t v = b->node[anchor].out;
  int64_t n = pos_numel(&p, v);
  int32_t *id = pos_new(&p, v);
  for (int64_t i = 0; id && i < n; i++) id[i] = (int32_t)i;
  for (uint32_t i = anchor + 1; i < b->n_nodes && !p.why; i++) {
    if (b->node[i].op == TN_OP_INPUT) continue;
    pos_carry(&p, i);
    if (p.id[b->node[i].out] && pos_numel(&p, b->node[i].out) != n) return "a value behind the anchor of another size";
  }
  for (uint32_t i = 0; i < b->n_outputs; i++) {
    uint32_t o = b->output[i].ref.id;
    if (b->value[o].node != anchor && !p.id[o] && n <= POS_MAX && strcmp(b->name, "attention") != 0) {
      int64_t m = pos_numel(&p, o);
      if (m != n) return "a result that is not the epilogue's";
    }
  }
  return p.why;
}
/* Equal shapes; dims of 1 do not count. */
static inline bool pos_same(const positions *p, uint32_t v, uint32_t s) {
  int64_t a[TN_MAX_RANK], b[TN_MAX_RANK];
  uint32_t na = 0, nb = 0;
  for (uint32_t i = 0; i < p->b->value[v].type.rank; i++)
    if (p->shape[v][i] != 1) a[na++] = p->shape[v][i];
  for (uint32_t i = 0; i < p->b->value[s].type.rank; i++)
    if (p->shape[s][i] != 1) b[nb++] = p->shape[s][i];
  return na == nb && memcmp(a, b, na * sizeof *a) == 0;
}
/* reduction: who depends on a reduced value reads its own row */
static inline const char *bad_rows(tn_graph *b, tn_arena *a, const int64_t *sym) {
  positions p;
  const tn_node *r0 = NULL;
  tn_dim d[TN_MAX_RANK];
  pos_start(&p, b, a, sym);
  for (uint32_t i = 1; i < b->n_nodes && !r0; i++)
    if (b->node[i].op == TN_OP_REDUCE) r0 = &b->node[i];
  uint32_t s = r0->in[0].id, rank = b->value[s].type.rank;
  int n_d = tn_attr_dims(r0, "dims", d, TN_MAX_RANK);
  int64_t domain = pos_numel(&p, s), rows = pos_numel(&p, r0->out);
  int32_t *row = TN_NEW(a, int32_t, domain + 1);
  for (int64_t i = 0; i < domain; i++) {
    int64_t at[TN_MAX_RANK], flat = i, r = 0;
    for (uint32_t k = rank; k-- > 0;) { at[k] = flat % p.shape[s][k]; flat /= p.shape[s][k]; }
    for (uint32_t k = 0; k < rank; k++) {
      bool cut = false;
      for (int j = 0; j < n_d; j++) cut = cut || d[j] == (tn_dim)k;
      if (!cut) r = r * p.shape[s][k] + at[k];
    }
    row[i] = (int32_t)r;
  }
  for (uint32_t i = 1; i < b->n_nodes && !p.why; i++) {
    const tn_node *n = &b->node[i];
    if (n->op == TN_OP_INPUT) continue;
    int64_t m = pos_numel(&p, n->out);
    if (n->op == TN_OP_REDUCE) {
      const int32_t *in = p.id[n->in[0].id];
      for (int64_t k = 0; in && k < domain; k++)
        if (in[k] != row[k]) return "a reduction reads values of other rows";
      int32_t *id = pos_new(&p, n->out);
      for (int64_t k = 0; id && k < m; k++) id[k] = (int32_t)k;
      continue;
    }
    pos_carry(&p, i);
    const int32_t *id = p.id[n->out];
    if (!id || n->op == TN_OP_RESHAPE || n->op == TN_OP_BROADCAST || n->op == TN_OP_PERMUTE || n->op == TN_OP_SLICE) continue;
    bool is_domain = pos_same(&p, n->out, s);
    if (!is_domain && m != rows) return "a value that is neither the domain nor the rows";
    for (int64_t k = 0; k < m; k++)
      if (id[k] != (is_domain ? row[k] : (int32_t)k)) return "a value out of its row";
  }
  return p.why;
}
#endif

/* simplify, inside: what rules are written with. */
#ifndef TN_SIMPLIFY_INT_H
#define TN_SIMPLIFY_INT_H
#include "passes/passes_int.h"

typedef enum tn_rule_id {
#define TN_RULE(id, on, text, doc) TN_R_##id,
#include "passes/rules.def"
#undef TN_RULE
  TN_N_RULES
} tn_rule_id;

typedef struct tn_sx {
  tn_pass_ctx *p; tn_graph *g;
  tn_px b;                     /* builder; b.prov is the root's */
  uint32_t *uses, n_uses;      /* readers of each value at the start of the round; younger values count as read once */
  bool *kept;                  /* [n_uses] a result of the graph, directly or through views */
  uint32_t fired[TN_N_RULES];
} tn_sx;

/* A rule looks at node `id` and hands back what its result 0 should be, of the same type; id 0 = does not apply. */
typedef tn_ref tn_rule_fn(tn_sx *s, uint32_t id);
#define TN_RULE(id, on, text, doc) tn_rule_fn tn_rule_##id;
#include "passes/rules.def"
#undef TN_RULE

static inline tn_ref tn_sx_none(void) { return (tn_ref){0}; }
static inline tn_ref tn_sx_in(tn_sx *s, uint32_t id, uint32_t k) { return tn_px_in(s->g, id, k); }
static inline const tn_type *tn_sx_out(tn_sx *s, uint32_t id) { return tn_typeof(s->g, tn_out(&s->g->node[id], 0)); }
static inline uint32_t tn_sx_uses(const tn_sx *s, tn_ref r) { return r.id < s->n_uses ? s->uses[r.id] : 1; }
tn_ref tn_sx_as_out(tn_sx *s, uint32_t id, tn_ref x);            /* x stretched to the shape of node id's result */
tn_ref tn_sx_fill_out(tn_sx *s, uint32_t id, double v);          /* a fill of the type of node id's result */
/* How a reshape merges runs of dims: start[i] .. start[i + 1] of `from` make dim i of `to`. False when it does anything else. */
bool tn_sx_merges(tn_sx *s, const tn_type *from, const tn_type *to, uint32_t *start);
tn_ref tn_sx_rebuild(tn_sx *s, uint32_t id, const tn_ref *args);        /* node id's op and attributes on other operands */
uint32_t tn_sx_shape(tn_sx *s, tn_ref r, tn_dim *out);
static inline bool tn_sx_float(tn_sx *s, tn_ref r) { return tn_dtype_is_float((tn_dtype)tn_typeof(s->g, r)->dtype); }
#endif

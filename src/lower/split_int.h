/* Inside lower: one function of a unit while it is being split (split.c looks at it, split_build.c makes graphs and steps of it). */
#ifndef TN_LOWER_SPLIT_INT_H
#define TN_LOWER_SPLIT_INT_H
#include "lower/lower.h"

/* SLOT: has a slot of its own (function inputs, results of DYN nodes). FREE: known while compiling, copied to wherever it is read. ORD: computed by a plan. */
typedef enum sp_kind { SP_ORD, SP_SLOT, SP_FREE } sp_kind;

/* A pair of sizes assumed equal: not ours; to be checked; a plan that has all its symbols checks it. */
typedef enum sp_pair { SP_P_OTHER, SP_P_OPEN, SP_P_DONE } sp_pair;

/* Where the value of a symbol comes from in a function: dim or element `index` of a SLOT value, or (value 0, slot set) an extra scalar input. */
typedef struct sp_sym { uint32_t value, slot, index; uint8_t pick; } sp_sym;

/* Something a plan must give: a value, or a dim as a scalar. */
typedef struct sp_need { uint32_t value, slot; tn_dim dim; } sp_need;

/* A phase of a function: first its DYN nodes, then one plan. */
typedef struct sp_phase {
  sp_need *need; uint32_t n_need, cap_need;
  tn_graph *graph;                /* NULL = no plan */
  tn_mstep call;
  tn_graph *sizes;                /* a plan that only checks sizes assumed equal; NULL = none */
  tn_mstep check;
} sp_phase;

typedef struct sp_func {
  const tn_graph *g;
  uint32_t number;                /* in the module */
  bool open, done;
  uint32_t *order, n_order;       /* live nodes, operands and definitions of symbols first */
  uint32_t *phase;                /* [n_nodes] */
  uint8_t *kind;                  /* [n_nodes] */
  uint32_t *slot;                 /* [n_values] 0 = none yet */
  bool *used;                     /* [n_values] SLOT values that something reads */
  sp_sym *sym;                    /* [n_syms] */
  bool *extra;                    /* [n_syms] comes in as a scalar after the function's own inputs */
  uint32_t n_slot, n_phase;
  uint8_t *pair;                  /* [assumed pairs] what the runs of this function must check (sp_pair) */
  sp_phase *ph;                   /* [n_phase] */
} sp_func;

typedef struct sp {
  tn_diag *d;
  tn_arena *a;
  const tn_unit *u;
  uint32_t n_syms;
  sp_func *func;                  /* [u->n_func] */
  uint32_t n_reached;
  bool *mark;                     /* [n_syms] scratch, all false between uses */
  tn_module *m;
  tn_split *out;
  uint32_t cap_graph;
} sp;

static inline uint32_t sp_value(const sp_func *f, tn_ref r) { return tn_graph_resolve(f->g, r).id; }
static inline const tn_node *sp_maker(const sp_func *f, uint32_t value) { return &f->g->node[f->g->value[value].node]; }
static inline uint32_t sp_maker_id(const sp_func *f, uint32_t value) { return f->g->value[value].node; }
static inline bool sp_is_if(const tn_node *n) { return n->op == TN_OP_DYN && n->target && n->target[0] == 'i' && n->target[1] == 'f' && !n->target[2]; }
bool sp_is_loop(const tn_node *n);
/* Function numbers (of the unit) that a DYN node names: 0, 1 or 2. */
uint32_t sp_callees(const tn_node *n, int64_t out[2]);
/* Symbols in types and attributes are marked; false when there are none. */
bool sp_mark_type(const tn_dims *ds, const tn_type *t, bool *mark);
bool sp_mark_attrs(const tn_dims *ds, const tn_node *n, bool *mark);
/* split_build.c: graphs, slots and steps of an analysed function, into the module. */
tn_status sp_build(sp *s, sp_func *f);
#endif

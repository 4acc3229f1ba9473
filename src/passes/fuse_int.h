/* fuse, inside: what classification, grouping, the attention finder and emission share. Node ids are topological numbers: the pass
 * compacts first and adds nothing to the graph until all groups stand. */
#ifndef TN_FUSE_INT_H
#define TN_FUSE_INT_H
#include "passes/passes_int.h"

typedef enum fx_class {
  FX_SOURCE,   /* never in a kernel: inputs, constants, library and opaque nodes, concat, scan */
  FX_CHEAP,    /* fills, iotas, one-element constants and light arithmetic over them: copied into every kernel that reads them */
  FX_VIEW,     /* free views: copied into a kernel where both ends are inside, else left outside */
  FX_MOVE,     /* a reshape that no strides can say: data moves */
  FX_PW,       /* one value per element: eltwise, cast, copy, pad, flip */
  FX_INDEX,    /* take, gather, index: a pointwise value whose first operand must lie in memory */
  FX_REDUCE,
  FX_ANCHOR    /* contract, conv, convt, window */
} fx_class;
typedef enum fx_kind { FX_POINTWISE, FX_REDUCTION, FX_CONTRACT, FX_ATTENTION } fx_kind;

typedef struct fx_group {
  fx_kind kind;
  bool live;
  uint32_t *member, n, cap;    /* node ids, any order until emission */
  uint32_t lo, hi;             /* smallest and largest of them */
  uint32_t anchor;             /* contract: the anchor; attention: the second contract */
  tn_dim numel;                /* of the domain */
  const tn_type *type;         /* domain shape: of the anchor's result, of what is reduced, or of the first member */
  uint32_t reduced;            /* reduction: bit set of the domain's reduced dims */
} fx_group;

typedef struct fx {
  tn_pass_ctx *p; tn_graph *g; tn_diag *d; tn_arena *a;
  uint32_t n_nodes;
  uint8_t *cls;                /* [n_nodes] fx_class */
  uint8_t *cost;               /* [n_nodes] of FX_CHEAP: nodes in its expression */
  uint32_t *of;                /* [n_nodes] group number, 0 = none */
  bool *prologue;              /* [n_nodes] a cast that only one anchor reads: goes into that anchor's kernel */
  uint64_t *map;               /* [n_nodes] members behind an anchor: how the anchor's elements lie in them; 0 = not behind it */
  fx_group *group; uint32_t n_groups, cap_groups;   /* group[0] unused */
  uint32_t *use_at, *use;      /* readers of value v: use[use_at[v] .. use_at[v + 1]); node id, 0 = the graph's result */
  uint32_t *stamp, now;        /* [n_nodes] visited marks of walks */
  uint32_t *stack;             /* [n_nodes] */
} fx;

#define FX_MAX_NODES 200
#define FX_MAX_PORTS 48
#define FX_OOM(f) tn_fail((f)->d, TN_E_NOMEM, "fusing %u nodes", (f)->n_nodes)

static inline bool fx_is_member(fx_class c) { return c >= FX_MOVE; }
static inline const tn_type *fx_type(const fx *f, uint32_t node) { return tn_typeof(f->g, tn_out(&f->g->node[node], 0)); }
static inline uint32_t fx_def(const fx *f, tn_ref r) { return f->g->value[r.id].node; }

/* The way from an operand back over views to what makes it. */
typedef struct fx_trace {
  uint32_t base;               /* node that makes the value behind the views */
  uint32_t n_views;
  bool reshape, permute, stretch, cut; /* kinds of views on the way */
  uint64_t map;                /* hash of the way, 1 for no views */
} fx_trace;
fx_trace fx_trace_back(const fx *f, tn_ref r, uint64_t map);

/* fuse_group.c */
uint32_t fx_group_new(fx *f, fx_kind kind, uint32_t node);      /* 0 = out of memory */
bool fx_group_put(fx *f, uint32_t group, uint32_t node);        /* false = out of memory */
bool fx_merge(fx *f, uint32_t into, uint32_t from);             /* false = out of memory */
bool fx_fits(fx *f, uint32_t t, uint32_t h, uint32_t extra);    /* both together (h, extra may be 0) keep the limits of a kernel */
/* Some outside node that group b reads needs a result of group a. */
bool fx_needs(fx *f, uint32_t b, uint32_t extra_node, uint32_t a);
bool fx_all_uses_in(fx *f, uint32_t h, uint32_t t, uint32_t extra_node); /* every reader of h's members is in h or t or is the node */
bool fx_escapes(fx *f, uint32_t node, uint32_t group);          /* some reader of the node's value is outside the group */
/* Where a type lies in a reduction: the domain, the domain without its reduced dims (kept as 1 or dropped), or neither. */
typedef enum fx_level { LV_NONE, LV_DOMAIN, LV_REDUCED } fx_level;
fx_level fx_level_of(const fx_group *x, const tn_type *t);
uint32_t fx_reduced_of(const fx *f, uint32_t node);             /* bit set of a reduce node's dims */
bool fx_same_reduction(const fx_group *x, const tn_type *s, uint32_t bits); /* reducing those dims of s is what reduction x does */
/* Does operand r, made inside reduction x, sit where it belongs next to a value of the reader's type? inner: it comes from outside x. */
bool fx_sits_well(fx *f, const fx_group *x, tn_ref r, const fx_trace *t, const tn_type *reader, bool inner);
tn_status fx_place(fx *f, uint32_t node);                       /* puts a member-class node into a group */
bool fx_outside_operand(const fx *f, uint32_t node, uint32_t k);/* operand k must lie in memory: tables, operands of anchors */

/* fuse_prologue.c */
tn_status fx_split_casts(tn_pass_ctx *p, tn_graph *g);          /* before classes: gives each anchor its own widening casts */
void fx_mark_prologues(fx *f);
/* fuse_retract.c */
tn_status fx_retract(fx *f);                                    /* after placing */
/* fuse_siblings.c */
tn_status fx_join_siblings(fx *f);
/* fuse_attention.c */
tn_status fx_find_attention(fx *f);
/* fuse_emit.c */
tn_status fx_emit(fx *f);
#endif

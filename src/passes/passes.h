/* passes: graph -> graph. One file per pass, one row each in passes.def; order is checked data, not folklore. */
#ifndef TN_PASSES_H
#define TN_PASSES_H
#include "ir/ir.h"
#include "ops/ops.h"
#include "target/target.h"

/* Facts and analyses a row may need, give or break. */
typedef enum tn_fact { TN_FACT_DECOMPOSED = 1, TN_FACT_FUSED = 2 } tn_fact;

/* Gate profile as data (profiles.def): which dtypes, which generate list, which rules refuse what. See requirements D30-D38, X3, X15. */
typedef struct tn_profile tn_profile;
const tn_profile *tn_profile_find(const char *name);   /* "default", "dvm"; NULL = unknown */
const tn_profile *tn_profile_get(uint32_t i);          /* NULL after the last */
const char *tn_profile_name(const tn_profile *p);
void tn_profile_print(const tn_profile *p, tn_str *out); /* rules and lists, for people */

typedef struct tn_pass_ctx {
  tn_diag *d;
  tn_arena *scratch;             /* emptied after every pass */
  const tn_profile *profile;
  const tn_target *target;
  bool allow_host_calls;         /* unknown ops may stay opaque */
  bool verify;                   /* run verifiers after each pass */
  void (*after)(void *user, const char *pass, const tn_graph *g, uint64_t ns, uint32_t nodes_before); /* dumps, logs; may be NULL */
  void *user;
} tn_pass_ctx;

typedef tn_status (*tn_pass_fn)(tn_pass_ctx *p, tn_graph *g);
typedef struct tn_pass_row { const char *text; tn_pass_fn fn; unsigned needs, gives, breaks; const char *doc; } tn_pass_row;
const tn_pass_row *tn_pass_rows(uint32_t *out_n);      /* passes.def, default order */

typedef struct tn_rule_row { const char *text, *doc; } tn_rule_row;
const tn_rule_row *tn_rule_rows(uint32_t *out_n);      /* rules.def: what simplify knows */

/* Runs "default", a list "decompose,fold,cse", "" (none), or changes to the default "-fuse,-cse". TN_E_ARG names an unknown pass or a need nobody gave.
 * A failure says pass and node. */
tn_status tn_passes_run(tn_pass_ctx *p, tn_graph *g, const char *list);

/* fuse: what may be one kernel. Shared with nobody: lower takes any FUSED body that follows the rules below.
 *
 * A body holds eltwise, layout, create, index (take, gather, index), reduce, window, contract and conv nodes. Its kinds:
 *   pointwise  no reduction. All outputs have one numel and (up to views inside) one domain; smaller values inside are read stretched.
 *   reduction  a domain shape S and one set D of reduced dims of S; every reduce of the body reduces exactly D of a value of shape S; every other
 *              node has shape S, or S without D (keepdim or dropped), or is a broadcast/view between those, or is a smaller value made from
 *              outside only. Shapes count up to dims of 1: [1,16,64] and [16,64] are one domain. Softmax and layer norm are such bodies.
 *   contract   exactly one contract, conv or window node; after it only eltwise nodes (and views that keep numel) over its output: the epilogue,
 *              in which each element belongs to one element of the anchor's output. Operands of the epilogue may be made inside from smaller
 *              or equal values from outside. Before the anchor only widening casts of its operands.
 *   attention  contract (scores) -> eltwise -> reductions over the scores' last dim, with an exp -> eltwise -> contract over that dim -> eltwise.
 * Views at the border stay outside: lower makes them free plan views. A reshape that no strides can say is never left outside a body.
 * An operand of an anchor and the table of a take, gather or index are always inputs of the body (or the cast of one). */
#endif

/* dce: what compact does, as a pass of its own; and settle, which repeats the cleaning passes until they find nothing.
 *
 * Folding makes fills that rules see through, rules bring equal nodes together, and merged nodes fold again; three or four rounds are
 * usual, each shorter than the one before. The bound only guards against rules that chase each other. */
#include "passes/passes_int.h"

enum { MAX_ROUNDS = 8 };

tn_status tn_pass_dce(tn_pass_ctx *p, tn_graph *g) { return tn_graph_compact(p->d, g); }

tn_status tn_pass_settle(tn_pass_ctx *p, tn_graph *g) {
  for (int round = 0; round < MAX_ROUNDS; round++) {
    uint32_t folded, simplified, merged;
    tn_mark m = tn_arena_mark(p->scratch);
    TN_TRY(tn_fold_run(p, g, &folded));
    TN_TRY(tn_simplify_run(p, g, &simplified));
    TN_TRY(tn_cse_run(p, g, &merged));
    tn_arena_rewind(p->scratch, m);
    if (folded + simplified + merged == 0) break;
  }
  return TN_OK;
}

/* ops: what each op means. One file per class; a row of ir/ops.def without its shape rule and evaluator does not link. */
#ifndef TN_OPS_H
#define TN_OPS_H
#include "ir/ir.h"
#include "kernels/kernels.h"

/* Result types of node-to-be from operand types and attributes (symbolic). out_type[] has room for 8 results.
 * TN_E_ARG names op, operand and numbers. Eltwise ops broadcast (numpy rule; operands of equal dtype). */
tn_status tn_ops_infer(tn_diag *d, tn_graph *g, tn_op op, const tn_ref *in, uint32_t n_in, const tn_attr *attr, uint32_t n_attr,
                       tn_type *out_type, uint32_t *out_n);
/* infer + tn_graph_add. `out` = first result. The builder that passes and decompositions use. */
tn_status tn_ops_add(tn_diag *d, tn_graph *g, tn_op op, const tn_ref *in, uint32_t n_in, const tn_attr *attr, uint32_t n_attr, uint32_t prov, tn_ref *out);
/* Checks every node's result types against the rules, bodies too. */
tn_status tn_ops_verify(tn_diag *d, tn_graph *g);

/* ---- framework ops (aten.def): name -> decomposition. ---- */
typedef struct tn_decomp_ctx { tn_diag *d; tn_graph *g; uint32_t node; /* the CALL being replaced; g->node may move: re-index */ uint32_t prov;
                               tn_ref *out; uint32_t n_out; /* [results of the CALL], zeroed by the caller; filled by the function; id 0 = result not available */
                               tn_status st; /* first failure of the builders (aten_int.h); TN_OK at the start */ } tn_decomp_ctx;
typedef tn_status (*tn_decomp_fn)(tn_decomp_ctx *c);   /* TN_E_UNSUPPORTED with text: this form has no decomposition -> the node becomes opaque */
typedef struct tn_aten_row { const char *name; tn_decomp_fn fn; uint8_t fate; /* tn_fate of a source node that goes this way */ bool own; /* Tenon's own form (D7) */ } tn_aten_row;
const tn_aten_row *tn_aten_find(const char *target);    /* NULL = unknown op */
const tn_aten_row *tn_aten_rows(uint32_t *out_n);
/* Applies the row of CALL `node`: runs its function, checks the results against the recorded types (equal dtype and rank; a dim that
 * is only spelled differently is reshaped to the recorded one), replaces the readers. The CALL itself is left for compact to drop.
 * TN_E_UNSUPPORTED (op unknown, form not covered, a result that is read is not available): readers unchanged, the text says why. */
tn_status tn_aten_apply(tn_diag *d, tn_graph *g, uint32_t node);

/* ---- evaluation by reference kernels: folding, golden eval, fallback in packages, oracle of tests. ---- */
/* Runs one node; in/out are row-major tensors in host memory, out data allocated by the caller by infer with sym_values. */
tn_status tn_ops_eval_node(tn_diag *d, const tn_graph *g, const tn_node *n, const int64_t *sym_values, const tn_tensor *in, tn_tensor *out);
/* Runs a whole graph (no CALL/OPAQUE nodes). in: [n_inputs] any strides; out: filled with row-major tensors in `arena`. Symbols are bound from input shapes. */
tn_status tn_ops_eval_graph(tn_diag *d, tn_arena *arena, const tn_graph *g, const tn_tensor *in, tn_tensor *out);
/* Same, and mutated[n_mutations] receives the new values of mutated inputs (NULL: not wanted); the inputs themselves are never written. */
tn_status tn_ops_eval_mutating(tn_diag *d, tn_arena *arena, const tn_graph *g, const tn_tensor *in, tn_tensor *out, tn_tensor *mutated);
/* Symbol values from input shapes: sym_values[tn_dims_n_syms]; TN_E_ARG when a constant dim differs or a symbol is out of range. */
tn_status tn_ops_bind_syms(tn_diag *d, const tn_graph *g, const tn_tensor *in, int64_t *sym_values);
#endif

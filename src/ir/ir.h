/* ir: the graph level. Tensors, ops, symbolic dims, provenance; printable, parseable, verified.
 *
 * A graph is two dense arrays, nodes and values, with integer refs (0 = none; slot 0 of each is unused). A node reads values and
 * makes n_out consecutive values. Order of the node array is program order: a value is made before it is read.
 * Passes add nodes at the end, forward old values to new ones (tn_graph_replace) and call tn_graph_compact, which resolves
 * forwarding, drops dead nodes and restores a stable topological order. Everything lives in the graph's arena.
 * What an op means (shape rule, reference kernel, decomposition) is in room ops; this room knows structure only. */
#ifndef TN_IR_H
#define TN_IR_H
#include "base/base.h"
#include "base/dim.h"
#include "base/scalar.h"

/* ---- ops ---- */
typedef enum tn_op {
#define TN_SCALAR(id, text, arity, result, domain) TN_OP_##id,
#include "base/scalar.def"
#undef TN_SCALAR
#define TN_OP(id, text, cls, lo, hi, out, attrs) TN_OP_##id,
#include "ops.def"
#undef TN_OP
  TN_N_OPS
} tn_op; /* TN_OP_NEG == TN_S_NEG and so on: static assert in op.c */
typedef enum tn_op_class { TN_CLS_STRUCT, TN_CLS_CREATE, TN_CLS_ELTWISE, TN_CLS_LAYOUT, TN_CLS_REDUCE, TN_CLS_SCAN, TN_CLS_CONTRACT, TN_CLS_INDEX, TN_CLS_LIBRARY } tn_op_class;
const char *tn_op_name(tn_op op);
tn_op_class tn_op_cls(tn_op op);
int tn_op_in_min(tn_op op); int tn_op_in_max(tn_op op); int tn_op_n_out(tn_op op);
const char *tn_op_attrs(tn_op op);
bool tn_op_find(const char *s, size_t n, tn_op *out);
static inline bool tn_op_is_scalar(tn_op op) { return (int)op < TN_N_SCALARS; }

/* ---- types and refs ---- */
typedef struct tn_ref { uint32_t id; } tn_ref;            /* a value; id 0 = none */
#define TN_MAX_RANK 12
typedef struct tn_type { uint8_t dtype; uint8_t rank; const tn_dim *dim; } tn_type; /* dim[rank], arena-owned */

/* Same dtype, rank and dims (handles of one table). */
bool tn_type_equal(const tn_type *a, const tn_type *b);
int64_t tn_type_numel(const tn_type *t);                  /* -1: symbolic, or does not fit int64 */
void tn_type_print(const tn_dims *dims, const tn_type *t, tn_str *out); /* "f32[s0,64]" */

/* ---- attributes ---- */
typedef enum tn_attr_kind { TN_AT_NONE, TN_AT_INT, TN_AT_FLOAT, TN_AT_BOOL, TN_AT_STR, TN_AT_DTYPE, TN_AT_DIM /* one dim, may be symbolic or a negative constant made by tn_dim_int */,
                            TN_AT_REF /* index of a node input */, TN_AT_LIST } tn_attr_kind;
typedef struct tn_attr_val {
  tn_attr_kind kind;
  union { int64_t i; double f; bool b; const char *s; tn_dtype t; tn_dim d; uint32_t ref; struct { struct tn_attr_val *item; uint32_t n; } list; } u;
} tn_attr_val;
typedef struct tn_attr { const char *name; tn_attr_val val; } tn_attr;

/* ---- nodes and values ---- */
typedef enum tn_origin { TN_ORIGIN_INPUT, TN_ORIGIN_PARAM, TN_ORIGIN_BUFFER, TN_ORIGIN_CONST, TN_ORIGIN_SYM } tn_origin;
struct tn_graph;
typedef struct tn_value { tn_type type; uint32_t node; uint16_t index; const char *name; /* without '%' */ } tn_value;
typedef struct tn_node {
  tn_op op;
  uint16_t n_in, n_out, n_attr;
  bool dead;
  tn_ref *in;              /* [n_in] */
  uint32_t out;            /* id of output 0; output k = out + k */
  tn_attr *attr;           /* [n_attr] */
  const char *target;      /* CALL, OPAQUE, DYN: full overload name, "aten.add.Tensor"; else NULL */
  struct tn_graph *body;   /* FUSED: own graph, inputs in order of `in`, outputs in order of the results; shares dims and arena */
  uint32_t prov;           /* index in tn_graph.prov of the source node it comes from; 0 = none */
  struct tn_input_info *input;  /* INPUT only */
  struct tn_const_data *data;   /* CONST only */
} tn_node;
typedef struct tn_input_info {
  tn_origin origin;
  const tn_dim *stride;    /* [rank] in elements, NULL = row-major */
  bool mutated;            /* the graph writes it: see tn_graph.mutation */
  tn_dim sym;              /* origin SYM: a scalar integer input that carries this dim; type is i64[] */
} tn_input_info;
typedef struct tn_const_data { const void *p; size_t bytes; } tn_const_data; /* row-major; memory owned by the arena or by the caller for the graph's life */

/* One record per source node (FX node, ONNX node): where results come from and what became of it. */
typedef struct tn_prov {
  const char *name;        /* "add_3" */
  const char *target;      /* "aten.add.Tensor" */
  const char *where;       /* "model.py:12 in forward" or NULL */
  tn_dtype dtype;          /* of its first result, for gate 1 */
  /* ---- fate: filled while compiling (see tn_fate); one data structure for explain, reports and tests ---- */
  uint8_t gate[4];         /* tn_gate: dtype, generate list, registry + rule, graph-fusion list */
  uint8_t fate;            /* tn_fate */
  const char *detail;      /* kernel name, new target, products, or reason code + text */
} tn_prov;
typedef enum tn_gate { TN_GATE_NA, TN_GATE_PASS, TN_GATE_FAIL } tn_gate;
typedef enum tn_fate { TN_FATE_NONE, TN_FATE_FUSED, TN_FATE_REWRITTEN, TN_FATE_DECOMPOSED, TN_FATE_VIEW, TN_FATE_FALLBACK, TN_FATE_LIBRARY, TN_FATE_FOLDED, TN_FATE_DEAD, TN_N_FATES } tn_fate;
const char *tn_fate_name(tn_fate f);
const char *tn_origin_name(tn_origin o);   /* the word of the text form: "input", "param", ... */

/* What a graph returns: a value, a dim (symbolic int), or nothing. */
typedef struct tn_output { tn_ref ref; tn_dim dim; bool is_dim, is_none; } tn_output;
typedef struct tn_mutation { uint32_t input; tn_ref value; } tn_mutation; /* after the run input number `input` holds `value` */

/* Counts n_nodes, n_values and n_prov include the unused slot 0: walk with for (id = 1; id < n; id++). */
typedef struct tn_graph {
  const char *name;
  tn_arena *arena; tn_dims *dims;          /* borrowed from the session */
  tn_node *node; uint32_t n_nodes, cap_nodes;      /* node[0] unused */
  tn_value *value; uint32_t n_values, cap_values;  /* value[0] unused */
  tn_ref *input; uint32_t n_inputs, cap_inputs;    /* in call order */
  tn_output *output; uint32_t n_outputs, cap_outputs;
  tn_mutation *mutation; uint32_t n_mutations, cap_mutations;
  tn_prov *prov; uint32_t n_prov, cap_prov;        /* prov[0] unused; bodies share the outer graph's */
  struct tn_graph *outer;                          /* of a body; NULL at top */
  uint32_t func;                                   /* number of the unit's function that it is, or is a part of: owner of sizes assumed equal */
  uint32_t *forward;                               /* [cap_values] replaced-by, 0 = itself */
} tn_graph;

/* ---- a whole model at the graph level: functions, and what its door looks like. func[0] is the model; others are bodies that DYN nodes "if" (attributes
 * then, else) and "loop" (body, carried, scans) name by number. Inputs of func[0] stand in the order of in[], outputs in that of out[]. ---- */
typedef struct tn_uport {
  const char *name;
  uint8_t kind, elem, key_elem;            /* tn_port_kind and tn_elem of plan/module.h, by value */
  bool ranked; uint8_t rank;
  const tn_dim *dim;                       /* [rank] when ranked: constant or a symbol */
} tn_uport;
typedef struct tn_unit {
  tn_arena *arena; tn_dims *dims;          /* borrowed */
  const char *name;
  tn_graph **func; uint32_t n_func, cap_func;
  tn_uport *in, *out; uint32_t n_in, n_out;
  const char **meta; uint32_t n_meta;      /* [2 * n_meta]: key, value */
} tn_unit;

/* ---- building. All return TN_E_NOMEM or TN_OK unless said otherwise; strings are copied into the arena. ---- */
tn_status tn_graph_create(tn_arena *a, tn_dims *dims, const char *name, tn_graph **out);
tn_status tn_graph_body(tn_graph *outer, const char *name, tn_graph **out);
tn_type tn_type_make(tn_graph *g, tn_dtype t, uint32_t rank, const tn_dim *dim);     /* copies dim; dim == NULL and rank > 0: out of memory */
tn_status tn_graph_add_input(tn_graph *g, const char *name, tn_type t, tn_origin origin, tn_ref *out);
/* Adds a node whose result types the caller knows. attrs are copied. names NULL: printed as numbers. */
tn_status tn_graph_add(tn_graph *g, tn_op op, const tn_ref *in, uint32_t n_in, const tn_attr *attr, uint32_t n_attr,
                       const tn_type *out_type, uint32_t n_out, uint32_t prov, uint32_t *out_node);
tn_status tn_graph_add_const(tn_graph *g, tn_type t, const void *data /* copied */, size_t bytes, uint32_t prov, tn_ref *out);
tn_status tn_graph_add_output(tn_graph *g, tn_ref r);
tn_status tn_graph_add_output_dim(tn_graph *g, tn_dim d);
tn_status tn_graph_add_output_none(tn_graph *g);
/* After the run input number `input` holds r; marks the input as mutated. TN_E_ARG: no such input. */
tn_status tn_graph_add_mutation(tn_graph *g, uint32_t input, tn_ref r);
tn_status tn_value_set_name(tn_graph *g, tn_ref r, const char *name);           /* without '%'; copied; NULL or "" = none */
tn_status tn_node_set_target(tn_graph *g, uint32_t node, const char *target);   /* CALL, OPAQUE; copied */
uint32_t tn_graph_add_prov(tn_graph *g, const char *name, const char *target, const char *where, tn_dtype t); /* 0 = out of memory */
/* Record `i` for any graph of the family: bodies keep none of their own, so never index body->prov. NULL = 0 or out of range. */
tn_prov *tn_graph_prov(const tn_graph *g, uint32_t i);
static inline tn_node *tn_def(tn_graph *g, tn_ref r) { return &g->node[g->value[r.id].node]; }
static inline const tn_type *tn_typeof(const tn_graph *g, tn_ref r) { return &g->value[r.id].type; }
static inline tn_ref tn_out(const tn_node *n, uint32_t k) { tn_ref r = {n->out + k}; return r; }

/* ---- rewriting ---- */
void tn_graph_replace(tn_graph *g, tn_ref old, tn_ref with);   /* readers of old read `with` after compact; also outputs and mutations */
tn_ref tn_graph_resolve(const tn_graph *g, tn_ref r);
/* Resolves forwarding, drops nodes that nothing reads, restores a stable topological order, numbers nodes and values densely with
 * inputs first; bodies too. Kept: inputs, what outputs and mutations need, and CALL/OPAQUE/DYN nodes with attribute effect=true that are
 * not marked dead. After it every node id, value id and tn_node or tn_value pointer taken before is stale (also ones into bodies).
 * TN_E_VERIFY: a cycle, a reader of a node marked dead, a ref out of range; TN_E_NOMEM; the outer graph is unchanged then. */
tn_status tn_graph_compact(tn_diag *d, tn_graph *g);
/* Number of readers of each value (outputs and mutations count): array [n_values] from `scratch`. NULL = out of memory. */
uint32_t *tn_graph_uses(tn_arena *scratch, const tn_graph *g);
/* Copies node `id` of `from` into `to` (attrs, types, names, body), inputs mapped by map[value id]; fills map for its outputs.
 * Both graphs share one dims table. Provenance is kept inside one family, else 0. TN_E_ARG: an input without a mapping. */
tn_status tn_graph_copy_node(tn_graph *to, const tn_graph *from, uint32_t id, uint32_t *map);

/* ---- attributes ---- */
const tn_attr_val *tn_attr_get(const tn_node *n, const char *name);              /* NULL = absent */
int64_t tn_attr_int(const tn_node *n, const char *name, int64_t def);            /* INT, BOOL, constant DIM */
double tn_attr_num(const tn_node *n, const char *name, double def);              /* INT, FLOAT, BOOL */
bool tn_attr_bool(const tn_node *n, const char *name, bool def);
const char *tn_attr_str(const tn_node *n, const char *name, const char *def);
/* Dim list (LIST of INT/DIM, or one INT/DIM): count copied to out[max]; -1 = absent or not dims. */
int tn_attr_dims(const tn_node *n, const char *name, tn_dim *out, int max);
/* Integer list (LIST of INT/BOOL/constant DIM >= 0, or one), negative ones as they are: for arguments of framework calls. -1 as above. */
int tn_attr_ints(const tn_node *n, const char *name, int64_t *out, int max);
tn_attr tn_mk_int(const char *name, int64_t v);
tn_attr tn_mk_float(const char *name, double v);
tn_attr tn_mk_bool(const char *name, bool v);
tn_attr tn_mk_str(const char *name, const char *v);
tn_attr tn_mk_dtype(const char *name, tn_dtype v);
tn_attr tn_mk_dims(tn_graph *g, const char *name, const tn_dim *d, uint32_t n);  /* LIST of DIM, in the arena */

/* ---- text. print -> parse -> print is the identity (docs/ir.md has the whole grammar).
 *   graph @name(%x: f32[s0,64] input, %w: f32[64,64]{1,64} param mutated, %n: i64[] sym(s0)) -> (f32[s0,64], dim, none) {
 *     sym s0 in [2, 1024]                      one line for each symbol with a range of its own
 *     src 1 "add_3" "aten.add.Tensor" "model.py:12" f32    provenance (only when printed with provenance)
 *     %0: f32[s0,64] = contract %x, %w {labels="ik,kj->ij"} !1
 *     %1: f32[64] = const {data="<hex>"}       constants over 64 elements are printed as data=#hash and cannot be read back
 *     %2: f32[s0,64] = call aten.relu.default %0 {self=$0}
 *     %3: f32[s0,64] = fused %2, %1 {kind="pointwise"} {
 *       (%a: f32[s0,64], %b: f32[64])
 *       %c: f32[s0,64] = add %a, %b
 *       yield %c
 *     }
 *     mutate %w = %3
 *     return %3, dim s0, none
 *   }
 * Types of results are written; the parser checks nothing but syntax and name resolution, the verifier the rest. */
typedef enum tn_print_flags { TN_PRINT_PROV = 1 } tn_print_flags;
void tn_graph_print(const tn_graph *g, unsigned flags, tn_str *out);
tn_status tn_graph_parse(tn_diag *d, tn_arena *a, tn_dims *dims, const char *text, size_t n, tn_graph **out); /* TN_E_PARSE with line:column */
/* Structure: refs in range and defined before use, arity and attributes by ops.def, ranks <= TN_MAX_RANK, bodies closed, no dead nodes, no
 * forwarding left over. Every attribute of the op's row is there with its kind; booleans may be left out (false); only CALL, OPAQUE and
 * FUSED may carry others. Messages name node and numbers.
 * Type rules are checked by ops (tn_ops_verify). */
tn_status tn_graph_verify(tn_diag *d, const tn_graph *g);
#endif

/* onnx: what ONNX operators mean. A row of onnx.def per operator; its function reads one node and builds prims (or DYN nodes) in the graph of the
 * function being imported. The front end (frontend/onnx) parses files, keeps names and functions, and calls tn_onnx_apply for every node.
 *
 * Types are inferred while building; a value's known elements (shapes computed by Shape, Gather, Concat, ...) are found by walking the prims that made it
 * (tn_ox_items), so shape arithmetic needs no second mechanism. Element types that have no tn_dtype (float8, 4-bit, ...) are stored in U8/I8, one element a byte;
 * the environment remembers the ONNX number of such values. */
#ifndef TN_ONNX_H
#define TN_ONNX_H
#include "ops/ops.h"

/* ---- attributes of a node ---- */
typedef enum tn_ox_kind { TN_OX_INT, TN_OX_FLOAT, TN_OX_STR, TN_OX_TENSOR, TN_OX_GRAPH, TN_OX_INTS, TN_OX_FLOATS, TN_OX_STRS, TN_OX_TENSORS, TN_OX_TYPE } tn_ox_kind;
typedef struct tn_ox_str { const char *s; size_t n; } tn_ox_str;       /* bytes; a NUL after the end */
typedef struct tn_ox_const { uint8_t elem, rank; const int64_t *dim; const void *data; size_t bytes; const tn_ox_str *str; /* elem 8 */ } tn_ox_const; /* row-major, unpacked, host order */
typedef struct tn_ox_attr {
  const char *name;
  tn_ox_kind kind;
  uint32_t n;                                                           /* items; 1 for the single kinds */
  union { const int64_t *i; const float *f; const tn_ox_str *s; const tn_ox_const *t; const void *graph; /* the front end's */ } u;
} tn_ox_attr;

/* ---- environment: one per function being imported; owned by the front end ---- */
typedef struct tn_ox_env {
  tn_unit *unit;
  tn_graph *g;
  uint8_t *elem; uint32_t cap_elem;   /* [value id] ONNX number where it is not the dtype's own; 0 = the dtype's. In the unit's arena. */
  tn_dim *fresh_lo; uint32_t *n_fresh;/* n_fresh: counter of made-up symbols, shared by all functions of the unit */
  struct tn_ox_memo *memo;            /* tn_ox_items */
  /* Imports the graph of a GRAPH attribute as a new function whose inputs are: in_type[n_in] (its formal inputs, in order), then captures.
   * *out_func: its number; capture[*n_capture]: values of THIS function it reads (to be passed after the formal ones, in order); out types from func's outputs.
   * Same captures, same order, for several graphs of one node: pass the attributes together (n_graph of them, equal in_type), e.g. then and else. */
  tn_status (*subgraphs)(struct tn_ox_env *e, tn_diag *d, const tn_ox_attr *const *graph, uint32_t n_graph, const tn_type *in_type, const uint8_t *in_elem, uint32_t n_in,
                         uint32_t *out_func, tn_ref **capture, uint32_t *n_capture);
  void *user;
} tn_ox_env;

/* One node being imported. */
typedef struct tn_ox {
  tn_decomp_ctx b;                    /* first: builders tn_b_* of aten_int.h take &c->b; b.node is 0 */
  tn_ox_env *e;
  const char *op, *domain;            /* "Add"; "" = ai.onnx */
  int opset;                          /* of the domain */
  const char *name;                   /* of the node, for messages */
  const tn_ref *in; uint32_t n_in;    /* id 0: left out */
  tn_ref *out; uint32_t n_out;        /* to be filled; ids 0 at the start */
  const bool *wanted;                 /* [n_out]: has a name */
  const tn_ox_attr *attr; uint32_t n_attr;
} tn_ox;
typedef tn_status (*tn_onnx_fn)(tn_ox *c);
typedef struct tn_onnx_row { const char *domain, *op; tn_onnx_fn fn; const char *doc; } tn_onnx_row;
const tn_onnx_row *tn_onnx_find(const char *domain, const char *op);    /* NULL = no row */
const tn_onnx_row *tn_onnx_rows(uint32_t *out_n);
/* Runs the row. TN_E_UNSUPPORTED, TN_E_ARG: the text names op, node, operand and numbers. */
tn_status tn_onnx_apply(tn_ox *c);

/* tn_dtype that stores an ONNX element type; TN_OBJ for strings; -1 unknown number. */
int tn_ox_dtype_of(int elem);
int tn_ox_elem_of(tn_dtype t);                                          /* the plain number of a dtype */
const char *tn_ox_elem_name(int elem);                                  /* "float8e4m3fn" */
/* A constant tensor as a value: CONST of the storage dtype, elem remembered; strings: DYN "strings". */
tn_status tn_ox_add_const(tn_ox_env *e, tn_diag *d, const tn_ox_const *t, uint32_t prov, tn_ref *out);
#endif

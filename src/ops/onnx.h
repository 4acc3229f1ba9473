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

/* What is known of a value that is no ranked tensor (dtype OBJ): its kind (tn_port_kind of plan/module.h, by value), the element type and, for lists and optionals of
 * tensors, the type of the items (rank -1: unknown, -2: there were no items yet; dims that are not known are TN_DIM_BAD). A tensor of unknown rank: kind 0, rank -1.
 * one: a tensor of one element whose rank only the run knows has a scalar twin: its value id, and the highest rank it may have (0: none). */
typedef struct tn_ox_obj { uint8_t kind, elem, key_elem; int8_t rank; const tn_dim *dim; uint32_t one; int8_t one_rank; } tn_ox_obj;
enum { TN_OX_K_TENSOR, TN_OX_K_SEQUENCE, TN_OX_K_OPTIONAL, TN_OX_K_OPTIONAL_SEQUENCE, TN_OX_K_MAP, TN_OX_K_SEQUENCE_MAP, TN_OX_K_ANY }; /* = tn_port_kind */

/* ---- environment: one per function being imported; owned by the front end ---- */
typedef struct tn_ox_env {
  tn_unit *unit;
  tn_graph *g;
  uint8_t *elem; uint32_t cap_elem;   /* [value id] ONNX number where it is not the dtype's own; 0 = the dtype's. In the unit's arena. */
  tn_ox_obj *obj; uint32_t cap_obj;   /* [value id] of OBJ values */
  bool *rank_missing;                 /* set when an operand was refused because its rank is not known; shared by all functions */
  uint32_t *n_fresh;                  /* counter of made-up symbols, shared by all functions of the unit */
  struct tn_ox_memo *memo;            /* tn_ox_items */
  /* Imports the graphs of GRAPH attributes as new functions whose inputs are: in_type[n_in] (their formal inputs, in order), then captures.
   * out_func[n_graph]: their numbers; out_env[n_graph]: for the types of what they give (out_env[k]->g->output). capture[*n_capture]: values of THIS function they
   * read (to be passed after the formal ones, in order; the same for all of them). Graphs of one node (then, else) are imported by one call. */
  tn_status (*subgraphs)(struct tn_ox_env *e, tn_diag *d, const tn_ox_attr *const *graph, uint32_t n_graph, const tn_type *in_type, const tn_ox_obj *in_obj, uint32_t n_in,
                         uint32_t *out_func, struct tn_ox_env **out_env, tn_ref **capture, uint32_t *n_capture);
  /* A function that is written by `fill` (a loop's body): called with the inputs of the given types; it builds in env->g, may use env->inlined, and adds the outputs.
   * The rest as above. */
  tn_status (*enclose)(struct tn_ox_env *e, tn_diag *d, const char *name, tn_status (*fill)(void *ctx, struct tn_ox_env *env, const tn_ref *in, uint32_t n_in), void *ctx,
                       const tn_type *in_type, const tn_ox_obj *in_obj, uint32_t n_in, uint32_t *out_func, struct tn_ox_env **out_env, tn_ref **capture, uint32_t *n_capture);
  /* Imports the nodes of a GRAPH attribute into this very function (a branch that is known to be taken, an unrolled body): its formal inputs are in[n_in]. */
  tn_status (*inlined)(struct tn_ox_env *e, tn_diag *d, const tn_ox_attr *graph, const tn_ref *in, uint32_t n_in, tn_ref *out, uint32_t n_out);
  /* Number of formal inputs and outputs of a GRAPH attribute. */
  void (*arity)(const tn_ox_attr *graph, uint32_t *n_in, uint32_t *n_out);
  /* The value that the model calls so, seen from the node being imported (operators that name values in attributes: Gradient). TN_E_ARG: there is none. */
  tn_status (*named)(struct tn_ox_env *e, tn_diag *d, const char *name, tn_ref *out);
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
/* What is known of a value's type for messages and merging: obj of a ranked tensor is made from its type. */
tn_ox_obj tn_ox_obj_of(const tn_ox_env *e, tn_ref r);
tn_status tn_ox_obj_set(tn_ox_env *e, tn_ref r, tn_ox_obj o);           /* TN_E_NOMEM */
tn_status tn_ox_elem_set(tn_ox_env *e, tn_ref r, int elem);
int tn_ox_elem_get(const tn_ox_env *e, tn_ref r);                       /* 0: no tensor, or not known */
/* Elements of a value (as tn_ox_items) that another function of the unit knows: carried over to r of this one. */
tn_status tn_ox_items_carry(tn_ox_env *from, tn_diag *d, tn_ref r, tn_ox_env *to, tn_ref same);
/* Constant bytes of r in e (folding): for constants that subgraphs read. */
bool tn_ox_env_data(tn_ox_env *e, tn_ref r, tn_tensor *out);
/* Takes for granted that cond (one bool) holds, or does not: written down like sizes assumed equal, and checked by the run. */
tn_status tn_ox_grant(tn_ox_env *e, tn_diag *d, tn_ref cond, bool value, uint32_t prov);
/* Runs the row. TN_E_UNSUPPORTED, TN_E_ARG: the text names op, node, operand and numbers. */
tn_status tn_onnx_apply(tn_ox *c);

/* tn_dtype that stores an ONNX element type; TN_OBJ for strings; -1 unknown number. */
int tn_ox_dtype_of(int elem);
int tn_ox_elem_of(tn_dtype t);                                          /* the plain number of a dtype */
const char *tn_ox_elem_name(int elem);                                  /* "float8e4m3fn" */
/* A constant tensor as a value: CONST of the storage dtype, elem remembered; strings: DYN "strings". */
tn_status tn_ox_add_const(tn_ox_env *e, tn_diag *d, const tn_ox_const *t, uint32_t prov, tn_ref *out);
#endif

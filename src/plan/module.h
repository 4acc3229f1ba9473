/* module: what a model is when it runs. Functions of steps over value slots; steps call plans, run dynamic operators, branch and loop.
 *
 * Function 0 is the model. Slots are numbered 1..n_slot in each function; slot 0 means "not wanted" as a result. A slot is written once per
 * activation of its function, before it is read. Inputs of a function are the slots in[0..n_in). There are no more slots than things that
 * write one.
 * Signature ports describe inputs and outputs of function 0 for people, guards and front ends.
 * Printable, parseable, verified; a package is a module with its plans, objects and weights (package.h). See docs/design/0003. */
#ifndef TN_PLAN_MODULE_H
#define TN_PLAN_MODULE_H
#include "plan/plan.h"

/* Element types beyond tn_dtype are ONNX's numbers (TensorProto.DataType), so that float8, 4-bit and string tensors have names at the
 * model's door. Inside, 8-bit and smaller floats and sub-byte integers are stored one element per byte (U8 or I8). */
typedef enum tn_elem { TN_EL_UNDEFINED = 0, TN_EL_F32 = 1, TN_EL_U8 = 2, TN_EL_I8 = 3, TN_EL_U16 = 4, TN_EL_I16 = 5, TN_EL_I32 = 6, TN_EL_I64 = 7, TN_EL_STRING = 8,
  TN_EL_BOOL = 9, TN_EL_F16 = 10, TN_EL_F64 = 11, TN_EL_U32 = 12, TN_EL_U64 = 13, TN_EL_BF16 = 16, TN_EL_F8E4M3FN = 17, TN_EL_F8E4M3FNUZ = 18, TN_EL_F8E5M2 = 19,
  TN_EL_F8E5M2FNUZ = 20, TN_EL_U4 = 21, TN_EL_I4 = 22, TN_EL_F4E2M1 = 23, TN_EL_F8E8M0 = 24, TN_EL_U2 = 25, TN_EL_I2 = 26, TN_EL_F6E2M3 = 27, TN_EL_F6E3M2 = 28 } tn_elem;

typedef enum tn_port_kind { TN_PORT_TENSOR, TN_PORT_SEQUENCE, TN_PORT_OPTIONAL /* of a tensor */, TN_PORT_OPTIONAL_SEQUENCE, TN_PORT_MAP, TN_PORT_SEQUENCE_MAP, TN_PORT_ANY } tn_port_kind;
/* dim[k] >= 0: fixed; -1: free, its name in dim_name[k] (NULL: none). rank -1: unknown. */
typedef struct tn_mport { const char *name; uint8_t kind, elem, key_elem; int8_t rank; const int64_t *dim; const char *const *dim_name; } tn_mport;

/* An operand: the value of a slot; or as a scalar i64 the size of dim `index` of a tensor slot, or element `index` of an integer tensor slot. */
typedef enum tn_mpick { TN_MP_VALUE, TN_MP_DIM, TN_MP_ITEM } tn_mpick;
typedef struct tn_marg { uint32_t slot; uint8_t pick; uint32_t index; } tn_marg;

typedef enum tn_mattr_kind { TN_MA_INT, TN_MA_FLOAT, TN_MA_STR, TN_MA_INTS, TN_MA_FLOATS, TN_MA_STRS } tn_mattr_kind;
typedef struct tn_mstr { const char *s; size_t n; } tn_mstr;   /* with a NUL after its end; may hold others */
typedef struct tn_mattr {
  const char *name;
  tn_mattr_kind kind;
  uint32_t n;                                       /* items; 1 for the single kinds */
  union { const int64_t *i; const double *f; const tn_mstr *s; } u;
} tn_mattr;

typedef enum tn_dyn_op {
#define TN_DYN(id, text, lo, hi, out, doc) TN_DYN_##id,
#include "plan/dyn.def"
#undef TN_DYN
  TN_N_DYNS
} tn_dyn_op;
typedef struct tn_dyn_row { const char *text; int n_in_min, n_in_max, n_out; const char *doc; } tn_dyn_row;
const tn_dyn_row *tn_dyn_get(uint32_t op);          /* NULL when out of range */
bool tn_dyn_find(const char *s, size_t n, uint32_t *out);

/* CALL: plan `target`; operands in the plan's input order; results in its output order.
 * OP: dynamic operator `target` with attributes.
 * BRANCH: in[0] is a bool or integer tensor of one element; nonzero: func[0], else func[1]; both take in[1..n_in) and give n_out results.
 * LOOP: in[0] trip count (i64 of one element, or none = no limit), in[1] condition (bool, or none = true), then n_carried values, then captures.
 *   func[0] takes (iteration i64[], condition bool[], carried..., captures...) and gives (condition, carried..., n_scan scan results...).
 *   Results: final carried values, then scan results stacked along a new axis 0. None iterated: dim 0 is 0, element type and the other dims
 *   come from the attributes scan_elem (ints, one tn_elem each) and scan_shape (ints: for each its rank without axis 0, then its dims; -1 and
 *   unknown count as 0); without them f32[0].
 *   A loop stops before an iteration whose number reaches the count or whose condition is false. */
typedef enum tn_mstep_kind { TN_MS_CALL, TN_MS_OP, TN_MS_BRANCH, TN_MS_LOOP, TN_N_MSTEPS } tn_mstep_kind;
typedef struct tn_mstep {
  tn_mstep_kind kind;
  uint32_t target;                                  /* CALL: plan; OP: tn_dyn_op */
  uint32_t func[2];
  uint32_t n_carried, n_scan;                       /* LOOP */
  tn_marg *in; uint32_t n_in;
  uint32_t *out; uint32_t n_out;                    /* slots; 0 = not wanted */
  tn_mattr *attr; uint32_t n_attr;
  const char *text;                                 /* one line for people: source node */
} tn_mstep;
typedef struct tn_mfunc { const char *name; uint32_t n_slot; uint32_t *in; uint32_t n_in; uint32_t *out; uint32_t n_out; tn_mstep *step; uint32_t n_step; } tn_mfunc;

typedef struct tn_mmeta { const char *key, *value; } tn_mmeta;
typedef struct tn_module {
  const char *name; tn_arena *arena;                /* owns everything but the plans' own arenas */
  tn_plan **plan; uint32_t n_plan;                  /* owned */
  tn_mfunc *func; uint32_t n_func;
  tn_mport *in, *out; uint32_t n_in, n_out;
  tn_mmeta *meta; uint32_t n_meta;                  /* producer, source file, opset, ... */
} tn_module;

#define TN_MODULE_MAX_DEPTH 64                      /* functions nested in functions */

const char *tn_elem_name(uint32_t elem);            /* "f32", "string", "f8e4m3fn"; "undefined"; NULL when there is no such number */
bool tn_elem_parse(const char *s, size_t n, uint32_t *out);
/* How elements are kept in tensors; false: not in tensors (strings, undefined). And back, for types that have a dtype of their own. */
bool tn_elem_dtype(uint32_t elem, tn_dtype *out);
tn_elem tn_elem_of_dtype(tn_dtype t);
const char *tn_port_kind_name(uint32_t kind);       /* "tensor", ...; NULL when out of range */

tn_status tn_module_create(const char *name, tn_module **out);
void tn_module_destroy(tn_module *m);               /* and its plans */
const tn_mattr *tn_mattr_get(const tn_mstep *s, const char *name);   /* NULL = absent */
/* Every ref in range, slots written once before they are read, arities by the tables, functions not recursive, plans verified. */
tn_status tn_module_verify(tn_diag *d, const tn_module *m);
/* With its plans. A dump of text that reads back to the same text; what plans leave out (objects, big constants) is left out here too. */
void tn_module_print(const tn_module *m, tn_str *out);
tn_status tn_module_parse(tn_diag *d, const char *text, size_t n, tn_module **out);
#endif

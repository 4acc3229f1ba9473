/* onnx_int: what onnx_*.c are written with, besides the builders tn_b_* of aten_int.h (called with &c->b, which keeps the first failure: all of these do
 * nothing and give ref 0 after one). A function ends with `return tn_ox_ret(c, 0, y)` for each result, or `return c->b.st`. */
#ifndef TN_ONNX_INT_H
#define TN_ONNX_INT_H
#include "ops/aten_int.h"
#include "ops/onnx.h"

#define TN_ONNX(domain, op, fn, doc) tn_status tn_ox_##fn(tn_ox *c);
#include "ops/onnx.def"
#undef TN_ONNX

tn_status tn_ox_unsup(tn_ox *c, const char *fmt, ...) TN_PRINTF(2, 3);  /* TN_E_UNSUPPORTED with op and node */
tn_status tn_ox_bad(tn_ox *c, const char *fmt, ...) TN_PRINTF(2, 3);    /* TN_E_ARG: the model breaks a rule of the operator */

/* ---- attributes: absent = def; another kind than asked = TN_E_ARG ---- */
const tn_ox_attr *tn_ox_attr_get(const tn_ox *c, const char *name);     /* NULL = absent */
int64_t tn_ox_int(tn_ox *c, const char *name, int64_t def);
double tn_ox_float(tn_ox *c, const char *name, double def);
const char *tn_ox_str_attr(tn_ox *c, const char *name, const char *def);
int tn_ox_ints_attr(tn_ox *c, const char *name, int64_t *out, int max); /* count; -1 = absent */
int tn_ox_axis(tn_ox *c, const char *name, int64_t def, int rank);      /* wrapped into [0, rank) */
int tn_ox_wrap(tn_ox *c, int64_t axis, int rank);                       /* the same for a number in hand */

/* ---- operands ---- */
static inline bool tn_ox_has(const tn_ox *c, uint32_t k) { return k < c->n_in && c->in[k].id != 0; }
tn_ref tn_ox_in(tn_ox *c, uint32_t k);                                  /* a ranked tensor that must be there; OBJ or absent: error */
tn_ref tn_ox_opt(tn_ox *c, uint32_t k);                                 /* id 0 = left out */
int tn_ox_elem(const tn_ox *c, tn_ref r);                               /* ONNX number of its element type; 0 for OBJ that is no tensor */
void tn_ox_set_elem(tn_ox *c, tn_ref r, int elem);

/* ---- known elements of integer tensors (rank <= 1, at most 256), as dims: constants (also negative, tn_dim_int) or symbolic ---- */
int tn_ox_items(tn_ox *c, tn_ref r, tn_dim *out, int max);              /* count, or -1: not known while compiling */
/* The same as constants. -1: not known or symbolic. */
int tn_ox_consts(tn_ox *c, tn_ref r, int64_t *out, int max);
/* For sizes: known elements, and a fresh symbol (DYN "sizes") for each that is not. The count must be known (dim 0 constant), else unsupported: -1. lo: least value. */
int tn_ox_sizes(tn_ox *c, tn_ref r, tn_dim *out, int max, int64_t lo);
/* Bytes of a constant operand (CONST, or prims on constants that fold): row-major in the arena; false = not constant. */
bool tn_ox_data(tn_ox *c, tn_ref r, tn_tensor *out);
/* The type of a value that is described by o, with fresh symbols for dims that are not known (put into o, too): OBJ when it is no tensor of known rank. */
tn_type tn_ox_type_of(tn_ox *c, tn_ox_obj *o);
void tn_ox_describe(tn_ox *c, tn_ref r, tn_ox_obj o);                   /* what is known of r, an OBJ or a tensor (element type) */
tn_ref tn_ox_item_at(tn_ox *c, tn_ref list, tn_ox_obj o, tn_ref at);    /* item of a list that o describes */
tn_ref tn_ox_insert(tn_ox *c, tn_ref list, tn_ref item, tn_ref at);     /* at id 0: at the end */
tn_dim tn_ox_fresh(tn_ox *c, int64_t lo, int64_t hi);                   /* a new symbol "u<n>" */
/* Axes from attribute `name` (before opset `since`) or constant operand k, wrapped into [0, rank); -1: none given. */
int tn_ox_axes(tn_ox *c, const char *name, int since, uint32_t k, int rank, int *out);
/* Axes that only the run knows (onnx_axes.c): their number (-1: failed); bool[rank] that holds for them; sizes of d without the dropped ones, and with ones put in where
 * the mask (of the result's rank) holds: counts, as tn_ox_sizes. */
int tn_ox_axes_count(tn_ox *c, tn_ref axes);
tn_ref tn_ox_axes_mask(tn_ox *c, tn_ref axes, int rank);
int tn_ox_dims_without(tn_ox *c, const tn_dim *d, int rank, tn_ref mask, int dropped, tn_dim *out);
int tn_ox_dims_with(tn_ox *c, const tn_dim *d, int rank, tn_ref mask, tn_dim *out);
tn_ref tn_ox_vector(tn_ox *c, const tn_dim *d, int n);                  /* dims as a 1-D i64 tensor */
tn_ref tn_ox_index(tn_ox *c, tn_ref r);                                 /* an integer tensor as i64 or i32 */
void tn_ox_same_size(tn_ox *c, tn_dim a, tn_dim b, const char *what);       /* two sizes that must be equal: assumed when nobody knows, refused when they can't be */

/* A constant integer or float element as a number: r is constant and has one element; def when r is left out. unsupported (st set) when not constant. */
int64_t tn_ox_const_int(tn_ox *c, uint32_t k, int64_t def);
double tn_ox_const_num(tn_ox *c, uint32_t k, double def);
/* The Cast of the standard between any two element types (onnx_lowp.c); ONNX numbers. saturate: for float8; round: "up", "down", "nearest" for float8e8m0. */
tn_ref tn_ox_cast(tn_ox *c, tn_ref x, int to_elem, bool saturate, const char *round);

/* ---- strings (onnx_string.c) ---- */
bool tn_ox_is_string(const tn_ox *c, tn_ref r);
/* Asked by tn_onnx_apply before the row: operators that move elements, Equal, Cast and CastLike with a string tensor among their operands are done here;
 * fn is their row, which is run on the numbers of the elements. So a row never sees strings unless it is written for them. */
bool tn_ox_string_op(tn_ox *c, tn_onnx_fn fn, tn_status *out);

/* ---- results ---- */
tn_status tn_ox_ret(tn_ox *c, uint32_t k, tn_ref r);                    /* sets out[k]; returns c->b.st */
tn_status tn_ox_keep(tn_ox *c, uint32_t k, tn_ref r, tn_ref from);      /* the same for a result that has the element type of `from` (moved elements) */
/* DYN node: a row of plan/dyn.def. types NULL: n_out values of dtype OBJ. Returns result 0; result k = tn_ox_nth(r, k). */
tn_ref tn_ox_dyn(tn_ox *c, const char *op, const tn_ref *in, uint32_t n_in, const tn_attr *attr, uint32_t n_attr, const tn_type *types, uint32_t n_out);
static inline tn_ref tn_ox_nth(tn_ref r, uint32_t k) { tn_ref x = {r.id ? r.id + k : 0}; return x; }
tn_ref tn_ox_none(tn_ox *c);                                            /* DYN "none" */
tn_type tn_ox_type(tn_ox *c, tn_dtype t, int rank, const tn_dim *dim);

/* ---- steps that a run repeats (onnx_flow.c): a loop whose body `fill` builds. It gets values of the body's graph: iteration (i64[]), condition, carried[n],
 * extra[n_extra], and adds the outputs: condition, carried, what each step adds to the n_scan stacks. out[n + n_scan]: last carried values, stacks [trips, ..]. ---- */
typedef tn_status (*tn_ox_fill)(void *ctx, tn_ox_env *env, const tn_ref *in, uint32_t n_in);
tn_status tn_ox_repeat(tn_ox *c, tn_dim trips, tn_ox_fill fill, void *ctx, const tn_ref *carried, uint32_t n, const tn_ref *extra, uint32_t n_extra, uint32_t n_scan, tn_ref *out);
tn_ox tn_ox_inside(const tn_ox *c, tn_ox_env *env);                      /* builders for a body's graph */
tn_status tn_ox_body_outputs(tn_ox *in, const tn_ref *r, uint32_t n);
#endif

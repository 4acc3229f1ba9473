/* dyn_int: what the dynamic operators (dyn_*.c) are written with, over dyn.h.
 *
 * A view is a tensor operand as dense elements of `es` bytes; a string tensor is a view too, whose elements are tn_mstr (pointer and length), so
 * operators that only move elements serve both. Results are made the same way: tn_dv_new, fill, tn_dv_done. Memory of views and of strings
 * being built is c->tmp's; nothing here needs cleaning up after a failure. */
#ifndef TN_RUNTIME_DYN_INT_H
#define TN_RUNTIME_DYN_INT_H
#include <string.h>
#include "base/scalar.h"
#include "runtime/dyn.h"

typedef struct tn_view {
  const uint8_t *p;
  size_t es;
  int elem, dtype, rank;            /* elem: ONNX's number; dtype TN_OBJ for strings */
  const int64_t *dim;
  int64_t n;
} tn_view;
typedef struct tn_made { uint8_t *p; size_t es; int elem, rank; const int64_t *dim; int64_t n; } tn_made;

#define TN_DYN_MAX_RANK TN_PLAN_MAX_RANK

/* One run of an operator: its context, and scratch memory that goes away after it. */
typedef struct tn_dyn_call {
  tn_dyn_ctx *x;
  tn_arena *tmp;
  tn_value *const *in;
  uint32_t n_in;
  tn_value **held; uint32_t n_held, cap_held;     /* dense copies behind views; released at the end */
} tn_dyn_call;
tn_status tn_dv_run(tn_dyn_ctx *x, tn_status (*op)(tn_dyn_call *c));
/* Head of an operator: TN_DYN_OP(UNIQUE) { ... c ... } */
#define TN_DYN_OP(id) \
  static tn_status op_##id(tn_dyn_call *c); \
  tn_status tn_dyn_##id(tn_dyn_ctx *x) { return tn_dv_run(x, op_##id); } \
  static tn_status op_##id(tn_dyn_call *c)

tn_status tn_dv_fail(tn_dyn_call *c, tn_status st, const char *fmt, ...) TN_PRINTF(3, 4);   /* "<op>: ..." */
static inline bool tn_dv_has(const tn_dyn_call *c, uint32_t k) { return k < c->n_in && c->in[k]->kind != TN_VALUE_NONE; }

/* ---- operands: TN_E_ARG when absent or of another kind ---- */
tn_status tn_dv_view(tn_dyn_call *c, uint32_t k, tn_view *v);                   /* tensor or strings */
tn_status tn_dv_view_of(tn_dyn_call *c, tn_value *x, tn_view *v);
tn_status tn_dv_num(tn_dyn_call *c, uint32_t k, tn_view *v);                    /* tensor */
tn_status tn_dv_str(tn_dyn_call *c, uint32_t k, tn_view *v);                    /* strings */
tn_status tn_dv_list(tn_dyn_call *c, uint32_t k, size_t *n);
tn_status tn_dv_ints(tn_dyn_call *c, uint32_t k, const int64_t **p, int64_t *n); /* elements of an integer or bool tensor of rank <= 1 */
tn_status tn_dv_int1(tn_dyn_call *c, uint32_t k, int64_t *out);                 /* its only one */
static inline const tn_mstr *tn_view_str(const tn_view *v) { return (const tn_mstr *)(const void *)v->p; }
static inline tn_num tn_view_num(const tn_view *v, int64_t i) { return tn_num_load((tn_dtype)v->dtype, v->p + (size_t)i * v->es); }
static inline double tn_view_f64(const tn_view *v, int64_t i) { tn_num x = tn_view_num(v, i); return tn_dtype_is_float((tn_dtype)v->dtype) ? x.f : (double)x.i; }
/* -1, 0, 1; NaN is above all numbers and equal to itself. */
int tn_view_cmp(const tn_view *v, int64_t a, int64_t b);
int tn_mstr_cmp(tn_mstr a, tn_mstr b);

/* ---- results ---- */
/* TN_E_ARG: negative dims or too many elements. */
tn_status tn_dv_new(tn_dyn_call *c, int elem, int rank, const int64_t *dim, tn_made *m, uint32_t k);   /* becomes result k; strings only with tn_dv_done */
tn_status tn_dv_done(tn_dyn_call *c, tn_made *m, uint32_t k);
tn_status tn_dv_ret(tn_dyn_call *c, uint32_t k, tn_value *v);                   /* takes v over; NULL = TN_E_NOMEM */
tn_status tn_dv_same(tn_dyn_call *c, uint32_t k, tn_value *v);                  /* v is shared */
/* The same for a tensor that is no result of its own but an item of a list: made, filled, piece; *v belongs to the caller even when piece fails. */
tn_status tn_dv_made(tn_dyn_call *c, int elem, int rank, const int64_t *dim, tn_made *m, tn_value **v);
tn_status tn_dv_piece(tn_dyn_call *c, const tn_made *m, tn_value **v);

/* ---- attributes, as in dyn.h ---- */
static inline bool tn_da_has(const tn_dyn_call *c, const char *name) { return tn_mattr_get(c->x->step, name) != NULL; }
static inline int64_t tn_da_int(const tn_dyn_call *c, const char *name, int64_t def) { return tn_dyn_attr_int(c->x, name, def); }
static inline const int64_t *tn_da_ints(const tn_dyn_call *c, const char *name, uint32_t *n) { return tn_dyn_attr_ints(c->x, name, n); }
static inline const double *tn_da_floats(const tn_dyn_call *c, const char *name, uint32_t *n) { return tn_dyn_attr_floats(c->x, name, n); }
static inline const tn_mstr *tn_da_strs(const tn_dyn_call *c, const char *name, uint32_t *n) { return tn_dyn_attr_strs(c->x, name, n); }
static inline const char *tn_da_str(const tn_dyn_call *c, const char *name) { return tn_dyn_attr_str(c->x, name, ""); }
tn_status tn_da_axis(tn_dyn_call *c, const char *name, int64_t def, int rank, int *out);   /* wrapped, checked */

/* Stable merge sort of numbers 0..n-1 (or what idx holds) by less(user, a, b). tmp: [n]. */
void tn_sort_idx(int64_t *idx, int64_t *tmp, int64_t n, bool (*less)(const void *user, int64_t a, int64_t b), const void *user);
/* out[i] = src[i * stride], elements of es bytes. */
void tn_move_row(uint8_t *out, const uint8_t *src, size_t es, int64_t n, int64_t stride);
#endif

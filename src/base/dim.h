/* Symbolic dims. A tn_dim is one int64: a value >= 0 is that constant; a negative one names an expression in a table.
 *
 * Expressions are kept in one normal form, a sum of integer coefficients times products of atoms; an atom is a symbol
 * or floordiv/mod/min/max of two dims. Equal expressions therefore have equal handles: compare dims with ==.
 * The table grows, never shrinks, and belongs to one graph family (graph and its nested bodies). Not thread-safe. */
#ifndef TN_DIM_H
#define TN_DIM_H
#include "base.h"

typedef int64_t tn_dim;
typedef struct tn_dims tn_dims;
#define TN_DIM_BAD INT64_MIN           /* overflow, division by zero, out of memory, or a negative constant where none may be */
typedef enum tn_dim_atom { TN_DA_SYM, TN_DA_FLOORDIV, TN_DA_MOD, TN_DA_MIN, TN_DA_MAX } tn_dim_atom;

tn_dims *tn_dims_create(void);
void tn_dims_destroy(tn_dims *t);
static inline bool tn_dim_is_const(tn_dim d) { return d >= 0; }
/* Symbol by name ("s0"), made on first use; values of it lie in [lo, hi] (default [0, INT64_MAX]; torch's backed symbols [2, ..]). */
tn_dim tn_dim_sym(tn_dims *t, const char *name);
void tn_dim_set_range(tn_dims *t, tn_dim sym, int64_t lo, int64_t hi);
/* A possibly negative constant as a dim expression, for use inside arithmetic only. */
tn_dim tn_dim_int(tn_dims *t, int64_t v);
bool tn_dim_as_int(const tn_dims *t, tn_dim d, int64_t *out);   /* also true for a negative constant made by tn_dim_int */
tn_dim tn_dim_add(tn_dims *t, tn_dim a, tn_dim b);
tn_dim tn_dim_sub(tn_dims *t, tn_dim a, tn_dim b);
tn_dim tn_dim_mul(tn_dims *t, tn_dim a, tn_dim b);
tn_dim tn_dim_floordiv(tn_dims *t, tn_dim a, tn_dim b);  /* exact cancellation is found: (4*s0*s1) // (2*s0) = 2*s1 */
tn_dim tn_dim_ceildiv(tn_dims *t, tn_dim a, tn_dim b);
tn_dim tn_dim_mod(tn_dims *t, tn_dim a, tn_dim b);
tn_dim tn_dim_min(tn_dims *t, tn_dim a, tn_dim b);
tn_dim tn_dim_max(tn_dims *t, tn_dim a, tn_dim b);
/* True when a divides into b exactly for all values (b = a * q); q optional. */
bool tn_dim_divides(tn_dims *t, tn_dim a, tn_dim b, tn_dim *out_q);
/* Provable bounds from the ranges of its symbols. */
void tn_dim_bounds(const tn_dims *t, tn_dim d, int64_t *lo, int64_t *hi);
/* Symbols: number so far, name and range of the i-th; the symbol's ordinal of a plain-symbol dim or -1. */
uint32_t tn_dims_n_syms(const tn_dims *t);
const char *tn_dims_sym_name(const tn_dims *t, uint32_t i);
void tn_dims_sym_range(const tn_dims *t, uint32_t i, int64_t *lo, int64_t *hi);
int tn_dim_sym_ordinal(const tn_dims *t, tn_dim d);
/* Sets used[ordinal] for every symbol d depends on. used: [n_syms]. */
void tn_dim_mark_syms(const tn_dims *t, tn_dim d, bool *used);
/* Value for given symbol values [n_syms]; TN_E_ARG on overflow, division by zero. */
tn_status tn_dim_eval(const tn_dims *t, tn_dim d, const int64_t *sym_values, int64_t *out);
/* Text: "12", "s0", "4*s0 + 1", "floordiv(s0, 2)", "mod(s0, 2)", "max(s0, 1)". Reads back to the same handle.
 * The parser also takes sympy's spellings: "s0//2", "s0 % 2", FloorDiv(a,b), Mod, PythonMod, CleanDiv, Max, Min, parentheses, **int. */
void tn_dim_print(const tn_dims *t, tn_dim d, tn_str *out);
tn_status tn_dim_parse(tn_diag *diag, tn_dims *t, const char *s, size_t n, tn_dim *out);
/* ---- equalities taken for granted: sizes that an operator needs equal and that are spelled differently (docs/design/0003). While collecting is on
 * (a front end names the node being imported), shape rules and builders record what they could not decide; the plan checks it when it binds. ---- */
/* NULL = off. `where` is copied when used and must live until then. owner: the function being filled (its number in the unit): only its runs need the equality. */
void tn_dims_collect(tn_dims *t, const char *where, uint32_t owner);
bool tn_dims_collecting(const tn_dims *t);
/* a == b from now on. Nothing is recorded when the two are one expression or known already for the owner. TN_E_ARG: provably different, or no dims; TN_E_NOMEM. */
tn_status tn_dims_assume(tn_dims *t, tn_dim a, tn_dim b, const char *where);
bool tn_dims_assumed(const tn_dims *t, tn_dim a, tn_dim b);     /* recorded for the owner of now, in either order */
uint32_t tn_dims_n_assumed(const tn_dims *t);
void tn_dims_forget_assumed(tn_dims *t, uint32_t n);            /* those after the first n: what asked for them is taken back */
void tn_dims_get_assumed(const tn_dims *t, uint32_t i, tn_dim *out_a, tn_dim *out_b, const char **out_where, uint32_t *out_owner);
/* Linear program for evaluation without the table (plans): see tn_dim_code. Ops push on a stack of int64. */
typedef struct tn_dim_code { uint8_t op; int64_t v; } tn_dim_code; /* op: 'c' const, 's' symbol ordinal, '+', '*', '/', '%', 'm' min, 'M' max */
tn_status tn_dim_compile(tn_arena *a, const tn_dims *t, tn_dim d, tn_dim_code **out, uint32_t *out_n);
#define TN_DIM_STACK 32
tn_status tn_dim_code_eval(const tn_dim_code *c, uint32_t n, const int64_t *sym_values, uint32_t n_syms, int64_t *out);
#endif

/* nest: the third form of a kernel. Explicit loops over fixed-width vector values. Everything is decided here; an emitter only spells it.
 *
 * A nest is one linear array of instructions with structured regions (FOR/IF ... END). Each instruction that yields a value is that
 * value's name (SSA inside its region; visible in nested regions). Mutable registers are VARs: loops carry state through GET/SET only.
 * Types are (dtype, lanes); lanes 1 = scalar. Addresses are element indices from a base: a kernel parameter or a scratch slot.
 * Kernel ABI (base/kernel_abi.h): void k(const tn_kernel_args *a, int64_t block_lo, int64_t block_hi, void *scratch). */
#ifndef TN_NEST_H
#define TN_NEST_H
#include "base/base.h"
#include "base/kernel_abi.h"
#include "base/scalar.h"

typedef struct tn_vt { uint8_t dtype; uint8_t lanes; } tn_vt;   /* lanes: 1, 2, 4, 8, 16, 32, 64 */
typedef uint32_t tn_nv;                                         /* a value = index of its instruction; 0 = none (instruction 0 is unused) */

typedef enum tn_nop {
  TN_N_CONST,     /* imm: tn_num of vt (splat when lanes > 1) */
  TN_N_SIZE,      /* i64: a->size[imm.i] */
  TN_N_BLOCK_LO,  /* i64 */
  TN_N_BLOCK_HI,  /* i64 */
  TN_N_SCALAR,    /* sop applied to a, b, c (operands and result of equal lanes; comparisons give bool lanes). Only BASIC functions (below) may reach an emitter */
  TN_N_FMA,       /* a * b + c, one rounding, floats */
  TN_N_CAST,      /* a converted to vt.dtype, same lanes: torch's rules (float->int truncates, int->bool is != 0; f32->bf16/f16 rounds to nearest even) */
  TN_N_BITCAST,   /* a reinterpreted: f32<->i32, f64<->i64, same lanes */
  TN_N_SPLAT,     /* scalar a to lanes */
  TN_N_LANES,     /* vector of vt (integer): 0, 1, 2, ... */
  TN_N_MASK,      /* bool lanes: lane < a (i64 scalar): tail masks */
  TN_N_HREDUCE,   /* vector a to a scalar by combiner imm.i (SUM, PROD, MAX, MIN, ANY, ALL); tree order. MAX/MIN propagate NaN */
  TN_N_EXTRACT,   /* lane imm.i of a */
  TN_N_LOAD,      /* vt from base[a]: lanes 1 = scalar; else contiguous lanes from element index a (unaligned). mask c optional: lanes off give 0 and touch no memory */
  TN_N_LOAD_STRIDED, /* lane k from base[a + k*b] (b: i64 scalar). mask c optional */
  TN_N_GATHER,    /* lane k from base[a[k]] (a: i64 lanes). mask c optional */
  TN_N_STORE,     /* b to base[a]; mask c optional. flag TN_NF_NT: non-temporal (full, aligned vectors only: emitter may ignore) */
  TN_N_STORE_STRIDED, /* d to lane addresses base[a + k*b]; mask c optional */
  TN_N_SCATTER,   /* b lanes to base[a[k]] ; mask c optional */
  TN_N_PREFETCH,  /* hint: base[a] will be read soon */
  TN_N_VAR,       /* a register of vt, starts as a (required); yields the register's name for GET/SET */
  TN_N_GET,       /* value of var a */
  TN_N_SET,       /* var a := b */
  TN_N_FOR,       /* i64 induction value: from a while < b step c (c a positive CONST or value); region follows. flag TN_NF_UNROLL: imm.i = factor hint */
  TN_N_IF,        /* scalar bool a; region follows (no else: use a second IF) */
  TN_N_END,       /* closes the innermost FOR or IF */
  TN_N_INDEX_ERROR, /* records that an index is out of range: a->status[0] = 1 when scalar/any lane of bool a (mask c optional) */
  TN_N_ZERO_ERROR,  /* records that a divisor is zero: the same with a->status[0] = 2 */
  TN_N_TRANSPOSE, /* lanes x lanes block: reads vars?  reserved, not emitted yet */
  TN_N_NOPS
} tn_nop;
typedef enum tn_nflag { TN_NF_NT = 1, TN_NF_UNROLL = 2, TN_NF_NOALIAS = 4 } tn_nflag;

typedef struct tn_ninst {
  uint8_t op;      /* tn_nop */
  uint8_t sop;     /* tn_scalar_op when op == SCALAR */
  tn_vt vt;        /* type of the value; STORE*: of the stored value; VAR/GET/SET: of the register */
  uint8_t flags;
  int16_t base;    /* LOAD..PREFETCH: parameter number >= 0; scratch slot s as -1 - s; TN_BASE_ZEROS: a->zeros */
  tn_nv a, b, c, d;
  tn_num imm;
} tn_ninst;
#define TN_BASE_ZEROS INT16_MIN        /* TN_ZEROS_BYTES of zeros, read only */
/* Pointer selection for padded loads: LOAD with flag TN_NF_GUARD reads base[a] when scalar bool d is true, else zeros[b]. */
#define TN_NF_GUARD 8

typedef struct tn_nparam { const char *name; uint8_t dtype; bool written; } tn_nparam;  /* bool is stored as one byte 0/1 */
typedef struct tn_nscratch { const char *name; uint8_t dtype; int64_t elems; int32_t size_slot; /* -1: elems is the size; >= 0: elems * a->size[size_slot] */ } tn_nscratch;
/* Scratch slots lie one after another in the worker's scratch, each start rounded up to 64 bytes, in slot order; emitters and hosts use one formula. */

typedef struct tn_nest {
  const char *name;
  tn_arena *arena;
  tn_nparam *param; uint32_t n_param;
  uint32_t n_size;
  tn_nscratch *scratch; uint32_t n_scratch;
  tn_ninst *inst; uint32_t n, cap;
  bool oom;                              /* sticky: builders return 0 after a failed allocation */
  bool noalias;                          /* true at creation: no written parameter overlaps another parameter, scratch or zeros */
  struct tn_nest_build *build;           /* nest.c: open regions, value numbering; NULL in nests made by hand or parsed */
} tn_nest;

/* ---- building (append; each returns the value) ----
 * Pure instructions (no memory, no VAR) are value-numbered: asking twice for the same one while its region is open yields the same
 * value. Integer constants and identities fold. A scalar operand next to a vector one is splat. After a failed allocation, or with an
 * operand 0, builders set n->oom and return 0: check once at the end. */
tn_status tn_nest_create(tn_arena *a, const char *name, tn_nest **out);
tn_nv tn_n_add(tn_nest *n, tn_ninst i);
tn_nv tn_n_i64(tn_nest *n, int64_t v);
tn_nv tn_n_const(tn_nest *n, tn_vt vt, tn_num v);          /* v already in vt.dtype's range */
bool tn_n_is_const(const tn_nest *n, tn_nv v, int64_t *out); /* an integer or bool CONST */
tn_nv tn_n_f(tn_nest *n, tn_dtype t, int lanes, double v);
tn_nv tn_n_op1(tn_nest *n, tn_scalar_op op, tn_nv a);
tn_nv tn_n_op2(tn_nest *n, tn_scalar_op op, tn_nv a, tn_nv b);   /* folds constants and identities: x+0, x*1, x*0, (x+c)+d, x floordiv 2^k, ... */
tn_nv tn_n_select(tn_nest *n, tn_nv cond, tn_nv a, tn_nv b);
tn_nv tn_n_fma(tn_nest *n, tn_nv a, tn_nv b, tn_nv c);
tn_nv tn_n_cast(tn_nest *n, tn_nv a, tn_dtype t);
tn_nv tn_n_splat(tn_nest *n, tn_nv a, int lanes);
tn_nv tn_n_load(tn_nest *n, int base, tn_vt vt, tn_nv index, tn_nv mask);
/* base[index] when `ok` (scalar bool), else zeros[0 ..]: padded loads without a branch (TN_NF_GUARD). */
tn_nv tn_n_load_guarded(tn_nest *n, int base, tn_vt vt, tn_nv index, tn_nv mask, tn_nv ok);
tn_nv tn_n_lanes(tn_nest *n, tn_vt vt);
tn_nv tn_n_mask(tn_nest *n, int lanes, tn_nv count);
tn_nv tn_n_hreduce(tn_nest *n, tn_combiner c, tn_nv a);
void tn_n_store(tn_nest *n, int base, tn_nv index, tn_nv value, tn_nv mask);
tn_nv tn_n_for(tn_nest *n, tn_nv lo, tn_nv hi, tn_nv step);
void tn_n_if(tn_nest *n, tn_nv cond);
void tn_n_end(tn_nest *n);
tn_nv tn_n_var(tn_nest *n, tn_nv init);
tn_nv tn_n_get(tn_nest *n, tn_nv var);
void tn_n_set(tn_nest *n, tn_nv var, tn_nv v);
int tn_n_scratch(tn_nest *n, const char *name, tn_dtype t, int64_t elems, int32_t size_slot);   /* returns base number (negative) */
int64_t tn_nest_scratch_bytes(const tn_nest *n, const int64_t *size);              /* total for given size values; -1 on overflow */
static inline tn_vt tn_n_type(const tn_nest *n, tn_nv v) { return n->inst[v].vt; }

/* ---- vector maths (vmath.c) ----
 * Appends the expansion of any scalar function on values of any supported dtype, so that afterwards only BASIC functions remain:
 * neg abs ceil floor round trunc sqrt not add sub mul div max min fmax fmin and or xor shl shr eq ne lt le gt ge select (sign, relu, isnan, isinf,
 * reciprocal, rsqrt, integer division family expand to those; f16/bf16 operands are computed in f32).
 * Accuracy in f32: <= 2 ULP for exp log tanh erf sin cos rsqrt sigmoid; the table of measured ULP is docs/numerics.md. */
tn_nv tn_n_scalar(tn_nest *n, tn_scalar_op op, tn_nv a, tn_nv b, tn_nv c);
bool tn_n_is_basic(tn_scalar_op op);

/* ---- text (identity under print -> parse -> print), verifier (types, regions, refs, constants in range), interpreter (test oracle of emitters) ---- */
void tn_nest_print(const tn_nest *n, tn_str *out);
tn_status tn_nest_parse(tn_diag *d, tn_arena *a, const char *text, size_t n, tn_nest **out);
tn_status tn_nest_verify(tn_diag *d, const tn_nest *n);
/* Runs blocks [lo, hi) in plain C, bounds of parameters unknown: tests give buffers that are big enough. */
tn_status tn_nest_interpret(tn_diag *d, const tn_nest *n, const tn_kernel_args *args, int64_t lo, int64_t hi, void *scratch);
#endif

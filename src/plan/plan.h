/* plan: what the run time executes. Steps over views of buffers; sizes as constants or expressions of symbols; guards on inputs.
 *
 * Every number that may depend on a symbol is a tn_pdim: >= 0 is itself, negative is expression ~n of the plan. All expressions are evaluated once
 * per change of symbol values (bind). Buffers get arena offsets by tn_plan_layout from their life times, by the same code for static and
 * symbolic plans. A step reads and writes views: (buffer, dtype, dims, strides, offset). Printable, parseable, verified. */
#ifndef TN_PLAN_H
#define TN_PLAN_H
#include "base/base.h"
#include "base/dim.h"

#define TN_PLAN_MAX_RANK 16
typedef int64_t tn_pdim;
typedef struct tn_pexpr { tn_dim_code *code; uint32_t n; const char *text; } tn_pexpr;
typedef struct tn_psym { const char *name; int64_t lo, hi; int32_t input, dim; /* bound from in[input].shape[dim]; dim -1: the scalar value of input */ } tn_psym;

typedef struct tn_passume { tn_pdim a, b; const char *where; } tn_passume; /* sizes that must be equal, checked when symbols are bound; where: the source node, or NULL */

typedef enum tn_pbuf_kind { TN_PB_INPUT, TN_PB_OUTPUT, TN_PB_ARENA, TN_PB_CONST, TN_PB_PACKED } tn_pbuf_kind;
typedef struct tn_pbuf {
  tn_pbuf_kind kind;
  uint32_t index;          /* INPUT/OUTPUT number */
  tn_pdim bytes;           /* ARENA, PACKED, CONST */
  uint32_t first, last;    /* ARENA: steps that write it first and use it last */
  const void *data;        /* CONST: 64-aligned, owned by the plan's arena or by the caller for the plan's life */
  uint32_t *source, n_source; /* PACKED: inputs whose pointers and keys decide renewal, ascending */
  uint64_t hash;           /* CONST without data (a parsed plan): hash of the bytes it stands for */
} tn_pbuf;
/* stride NULL (only on INPUT, for LIB, HOST and outputs): the strides the caller's tensor has. */
typedef struct tn_pview { uint32_t buf; uint8_t dtype, rank; tn_pdim *dim, *stride; tn_pdim offset; /* elements */ const char *name; } tn_pview;

typedef enum tn_pstep_kind { TN_PS_LAUNCH, TN_PS_LIB, TN_PS_HOST, TN_PS_VIEW } tn_pstep_kind;
typedef struct tn_pstep {
  tn_pstep_kind kind;
  uint32_t kernel;         /* LAUNCH: kernel number; HOST: host call number; LIB: lib row */
  uint32_t *arg; uint32_t n_arg;      /* views; LAUNCH: one per kernel parameter; LIB/HOST: inputs first */
  uint32_t n_in;           /* LIB/HOST: of arg[] this many are inputs */
  tn_pdim *size; uint32_t n_size;     /* LAUNCH: a->size values */
  tn_pdim scratch;         /* LAUNCH: scratch bytes per worker */
  tn_pdim blocks; tn_pdim grain;      /* LAUNCH: number of blocks; blocks a worker claims at once */
  tn_pdim work;            /* LAUNCH: arithmetic operations of the whole launch, for people; 0 = not known */
  tn_pdim *param; uint32_t n_param;   /* LIB: integer parameters; double parameters travel as bit patterns */
  bool pack;               /* runs only when the PACKED buffer it writes must be renewed */
  const char *text;        /* one line for people: "tn_fused_add_mul_0(...)", "aten.sort.default(...)" */
  uint32_t prov;
} tn_pstep;
/* Library calls: rows of plan/lib.def: TN_LIB(id, text, n_in, n_out) implemented in runtime/lib.c on src/kernels. */
typedef enum tn_plib {
#define TN_LIB(id, text, n_in, n_out, params) TN_LIB_##id,
#include "plan/lib.def"
#undef TN_LIB
  TN_N_LIBS
} tn_plib;
typedef struct tn_plib_row { const char *text; int n_in, n_out; const char *params; } tn_plib_row;
const tn_plib_row *tn_plib_get(uint32_t lib);                /* NULL when out of range */
bool tn_plib_find(const char *s, size_t n, uint32_t *out);
/* hash: of the object when it is absent (a parsed plan). */
typedef struct tn_pkernel { const char *name; const void *object; size_t object_bytes; uint32_t n_param, n_size; uint64_t hash; } tn_pkernel;
typedef struct tn_pguard_in { uint8_t dtype, rank; tn_pdim *dim, *stride /* NULL = any */; const char *name; } tn_pguard_in; /* dims/strides that are expressions are checked after binding symbols; size-1 dims: stride free */
typedef struct tn_pout { uint32_t view; bool is_none, is_dim; tn_pdim dim; int32_t alias_input; /* -1 or: view of this input */ } tn_pout;

typedef struct tn_plan {
  const char *name; tn_arena *arena;
  tn_psym *sym; uint32_t n_sym;
  tn_pexpr *expr; uint32_t n_expr;
  tn_passume *assume; uint32_t n_assume;
  tn_pguard_in *in; uint32_t n_in;
  tn_pout *out; uint32_t n_out;
  tn_pbuf *buf; uint32_t n_buf;
  tn_pview *view; uint32_t n_view;
  tn_pstep *step; uint32_t n_step;
  tn_pkernel *kernel; uint32_t n_kernel;
  uint32_t n_host;
} tn_plan;

tn_status tn_plan_create(const char *name, tn_plan **out);   /* owns its arena */
void tn_plan_destroy(tn_plan *p);
/* Number of `d` in the plan's expression list (deduplicated by handle through the caller's map) as tn_pdim. */
tn_status tn_plan_dim(tn_diag *diag, tn_plan *p, const tn_dims *dims, tn_dim d, tn_pdim *out);
/* Zeroed memory of the plan for constants: 64-byte aligned; NULL = out of memory. */
void *tn_plan_data(tn_plan *p, size_t bytes);
/* All expressions for these symbol values. TN_E_ARG names the expression that overflows or divides by zero. */
tn_status tn_plan_eval(tn_diag *diag, const tn_plan *p, const int64_t *sym_values, int64_t *expr_values);
/* "12" or the expression's text; buf holds the digits. */
const char *tn_plan_dim_text(const tn_plan *p, tn_pdim d, char buf[24]);
static inline int64_t tn_pd(const int64_t *expr_values, tn_pdim d) { return d >= 0 ? d : expr_values[~d]; }

/* Offsets of ARENA buffers (64-byte multiples) so that buffers alive at the same step never overlap; greedy by size (first fit). O(n log n + overlaps).
 * offset: [n_buf]; 0 for other kinds. scratch: rewound before return; needs at most tn_plan_layout_scratch bytes, in one piece. */
size_t tn_plan_layout_scratch(const tn_plan *p);
tn_status tn_plan_layout(tn_diag *d, const tn_plan *p, const int64_t *expr_values, int64_t *offset, int64_t *out_arena_bytes, tn_arena *scratch);
void tn_plan_print(const tn_plan *p, tn_str *out);           /* objects as size + hash, constants as hash */
tn_status tn_plan_parse(tn_diag *d, const char *text, size_t n, tn_plan **out); /* kernels without objects: for tests and inspection */
tn_status tn_plan_verify(tn_diag *d, const tn_plan *p);
#endif

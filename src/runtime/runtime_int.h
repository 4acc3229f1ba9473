/* Inside of the run time: what a program and a run hold. */
#ifndef TN_RUNTIME_INT_H
#define TN_RUNTIME_INT_H
#include <pthread.h>
#include <stdatomic.h>
#include "kernels/kernels.h"
#include "runtime/runtime.h"

typedef struct tn_kept tn_kept;
struct tn_program {
  tn_plan *plan;
  const tn_device_api *api;
  tn_device *dev;
  tn_code **code;      /* [n_kernel]; NULL where an equal object is loaded under a lower number */
  tn_kernel_fn *fn;    /* [n_kernel] */
  tn_kept *kept;       /* NULL: nothing is made of constants */
};

/* Memory that only grows: the largest size so far stays. */
typedef struct tn_room { void *p; size_t cap; } tn_room;
tn_status tn_room_reserve(tn_room *m, size_t bytes);      /* TN_E_NOMEM leaves it as it was. Contents are lost when it grows. */
void tn_room_deinit(tn_room *m);

/* Arena and scratch: nothing in them outlives a call, so runs that never run at one time share them. moves: counts new arena addresses, for
 * runs bound to an old one. */
typedef struct tn_workspace { tn_room arena, scratch; uint64_t moves; } tn_workspace;

typedef struct tn_rin {  /* an input as last bound */
  void *data;
  int64_t *shape, *stride;     /* effective strides, also when the caller gave none */
  int64_t lo, hi;              /* bytes around data that its elements cover */
  bool dense, empty, changed;  /* changed: shape or strides, since packed copies were last looked at */
} tn_rin;

typedef struct tn_rview { int64_t *shape, *stride, offset, lo, hi; bool empty; } tn_rview; /* offset, lo, hi in bytes; lo and hi relative to the buffer */

/* Where an address goes that changes with input or output pointers, or at bind. */
typedef struct tn_patch { void **slot; uint32_t view, from; int64_t bytes; } tn_patch; /* from: input, output or buffer number */

typedef struct tn_rstep {
  tn_pstep_kind kind;
  bool keeps;                  /* makes buffers of tn_kept: not part of a run's steps */
  bool pack, alone, skip;      /* alone: in the caller, no fork; skip: nothing to do at these sizes */
  tn_kernel_fn fn;             /* LAUNCH */
  tn_kernel_args args;
  int64_t blocks, grain;
  size_t stride;               /* scratch bytes per worker */
  tn_tensor *tensor;           /* LIB, HOST: [n_arg] */
  int64_t *value;              /* LAUNCH: sizes; LIB: parameters */
  tn_k_kept kept;              /* LIB: of a recurrent layer */
  const tn_pstep *plan;
} tn_rstep;

typedef enum tn_rout_kind { TN_RO_NONE, TN_RO_DIM, TN_RO_ALIAS, TN_RO_OWN, TN_RO_COPY } tn_rout_kind;
typedef struct tn_rout {
  tn_rout_kind kind;
  tn_tensor t;                 /* what tn_run_out tells */
  tn_tensor src;               /* COPY: where it is computed */
  int64_t value;               /* DIM */
  void *data;                  /* OWN, COPY: caller's memory of the last exec */
  bool empty;
} tn_rout;

typedef struct tn_rpack {
  uint32_t buf;
  bool kept;                   /* the program's: tn_kept */
  bool symbolic;               /* its form depends on symbols */
  bool stale;
  bool has_key, now_has_key;   /* of the content; of the input bound now */
  uint64_t key, now_key;
  uint64_t data, now_data;     /* address of the source, or several mixed: of the content; of the inputs bound now */
  tn_room room;
} tn_rpack;

struct tn_run {
  const tn_program *p;
  tn_run_options opt;
  tn_pool *pool;
  int n_threads;
  tn_arena fixed;              /* everything of constant size below */
  tn_arena scratch_arena;      /* layout */
  tn_diag diag;
  bool bound, any_stale, has_value_syms; /* has_value_syms: some symbol is the value of a scalar input */
  int32_t status;              /* kernels set it: index out of range */
  int64_t *sym, *expr, *buf_offset, *buf_bytes, *new_sym, *new_expr;
  tn_rin *in;
  tn_rview *view;
  tn_rout *out;
  tn_rstep *step;
  uint32_t n_step, n_views;    /* VIEW steps are only counted */
  tn_patch *patch_in, *patch_out, *patch_fixed;
  uint32_t *at_in, *at_out, n_fixed; /* [n_in + 1], [n_out + 1]: ranges in patch_in, patch_out */
  tn_rpack *pack;
  uint32_t n_pack, *pack_of;   /* [n_buf]: number in pack[] of a PACKED buffer */
  tn_workspace own, *work;     /* work: own, or one that is shared */
  uint64_t moves;              /* work->moves when its arena addresses were taken */
  tn_room *lib;
  uint32_t n_lib;
  bool logged;             /* TENON_LOG=run: one line a step */
  tn_run_stats stats;
};

/* keep.c: buffers made of constants alone. is, room: [n_buf]. */
struct tn_kept { pthread_mutex_t lock; atomic_bool made; uint32_t n_buf; bool *is; tn_room *room; };
tn_status tn_keep_create(const tn_plan *p, tn_kept **out);   /* NULL when there are none; to be destroyed also after TN_E_NOMEM */
void tn_keep_destroy(tn_kept *k);
tn_status tn_keep_reserve(tn_run *r);
tn_status tn_keep_make(tn_run *r, tn_status (*run_step)(tn_run *r, tn_rstep *s));
uint64_t tn_keep_bytes(const tn_program *p);
bool tn_step_is_symbolic(const tn_plan *p, const tn_pstep *s); /* run.c */

/* bind.c: everything that depends on shapes; input pointers and keys are the caller's next step. */
tn_status tn_bind_shapes(tn_run *r, const tn_tensor *in);
/* Symbols that are values of scalar inputs: do they still have the bound values? */
bool tn_bind_same_values(const tn_run *r, const tn_tensor *in);
/* Takes the arena's addresses anew. */
void tn_bind_addresses(tn_run *r);
/* Like tn_run_create, on a workspace that outlives it; NULL: its own. */
tn_status tn_run_create_on(const tn_program *p, const tn_run_options *o, tn_workspace *work, tn_run **out);
/* exec.c */
tn_status tn_exec_steps(tn_run *r);
/* lib.c: parameters are counted at load, so calls need not look. */
tn_status tn_lib_check(tn_diag *d, const tn_plan *p, const tn_pstep *s);
tn_status tn_lib_call(tn_run *r, tn_rstep *s);
/* copy.c. Same dtype and shape, any strides; must not overlap. Big ones are shared out over the pool. */
void tn_copy_strided(tn_pool *pool, const tn_tensor *src, const tn_tensor *dst);
#endif

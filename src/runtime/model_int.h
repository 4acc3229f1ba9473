/* Inside of models and sessions. */
#ifndef TN_RUNTIME_MODEL_INT_H
#define TN_RUNTIME_MODEL_INT_H
#include "runtime/dyn.h"
#include "runtime/runtime_int.h"
#include "runtime/runtime.h"

/* Slots of a function whose value nobody needs after step i: slot[at[i] .. at[i + 1]). */
typedef struct tn_mlife { uint32_t *at, *slot; } tn_mlife;

struct tn_model {
  atomic_uint refs;
  tn_module *m;                /* its plans belong to the programs */
  tn_program **prog;           /* [n_plan] */
  tn_arena arena;
  tn_mlife *life;              /* [n_func] */
  bool single;                 /* function 0 is one call whose operands and results are the model's, in order */
  uint32_t most_in, most_out;  /* operands and results of a step */
  const tn_package *package;   /* opened from; NULL: none */
  void *owner;
  void (*let_go)(void *owner);
};

struct tn_session {
  tn_model *m;
  tn_diag diag;
  tn_run_options opt;
  tn_pool *pool;
  tn_vpool *values;
  tn_arena arena;
  tn_run **run;                /* [n_plan], made at first use */
  tn_workspace work;           /* of all of them */
  tn_value ***slot;            /* [n_func][n_slot + 1]: functions do not call themselves, so one activation each is enough */
  tn_tensor *t_in, *t_out;     /* operands of a plan call: [most_in], [most_out] */
  int64_t *scalar;             /* [most_in]: operands that are sizes or items */
  tn_value **v_in, **v_out;    /* operands and results of a step */
  uint64_t seed;
  tn_session_stats stats;
};

/* flow.c: runs function f, whose inputs are in its slots; leaves its outputs there. Whatever happens, tn_flow_clear(f) is the caller's. */
tn_status tn_flow_run(tn_session *s, uint32_t f);
void tn_flow_clear(tn_session *s, uint32_t f);
/* The run of a plan, made at first use. */
tn_status tn_session_plan(tn_session *s, uint32_t plan, tn_run **out);
#endif

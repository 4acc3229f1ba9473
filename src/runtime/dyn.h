/* Dynamic operators: the rows of plan/dyn.def on whole values. One function tn_dyn_<ID> per row, in dyn_*.c; a row without it does not link.
 *
 * An operator looks at c->in, fills c->out, and returns TN_OK; or fails through c->d with words and numbers (the session adds the step's
 * text). It must not keep or change its inputs; to give one back, retain it. Inputs may be of any kind, shape, element type and strides,
 * also from a hostile model: check before use. */
#ifndef TN_RUNTIME_DYN_H
#define TN_RUNTIME_DYN_H
#include "base/pool.h"
#include "runtime/value.h"

typedef struct tn_dyn_ctx {
  tn_diag *d;
  const tn_mstep *step;        /* attributes: tn_mattr_get, or the helpers below */
  const char *name;            /* "nonzero" */
  tn_value *const *in;         /* [n_in], never NULL: what is absent is a none value */
  tn_value **out;              /* [n_out], NULL at the call. Fill those that are wanted; others may stay NULL or be filled (the session releases them) */
  uint32_t n_in, n_out;
  tn_pool *pool;               /* threads, may be NULL: tn_pool_run */
  tn_vpool *values;            /* memory of results */
  uint64_t *seed;              /* state of the session's random numbers, for operators without a seed of their own */
} tn_dyn_ctx;
typedef tn_status (*tn_dyn_fn)(tn_dyn_ctx *c);

#define TN_DYN(id, text, lo, hi, out, doc) tn_status tn_dyn_##id(tn_dyn_ctx *c);
#include "plan/dyn.def"
#undef TN_DYN

static inline bool tn_dyn_wanted(const tn_dyn_ctx *c, uint32_t i) { return i < c->n_out && c->step->out[i] != 0; }

/* Fails unless in[i] is what is said; the tensor of it. elem 0: any element type. rank -1: any. */
tn_status tn_dyn_tensor(tn_dyn_ctx *c, uint32_t i, uint32_t elem, int rank, const tn_tensor **out);
/* A dense tensor with in[i]'s elements, which the caller releases: the value itself when it is dense. */
tn_status tn_dyn_dense(tn_dyn_ctx *c, uint32_t i, uint32_t elem, int rank, tn_value **out);
/* in[i] as one integer: an integer or bool tensor of one element. */
tn_status tn_dyn_int(tn_dyn_ctx *c, uint32_t i, int64_t *out);
/* in[i] as a list of at most `most` integers (rank 0 or 1): v[0..*n). */
tn_status tn_dyn_ints(tn_dyn_ctx *c, uint32_t i, int64_t *v, uint32_t most, uint32_t *n);
/* Result i: a new dense tensor, c->out[i]. Fails (TN_E_ARG negative or too large sizes, TN_E_NOMEM). */
tn_status tn_dyn_alloc(tn_dyn_ctx *c, uint32_t i, uint32_t elem, int rank, const int64_t *shape);
/* c->out[i] = v, taking over the reference; NULL fails with TN_E_NOMEM. */
tn_status tn_dyn_give(tn_dyn_ctx *c, uint32_t i, tn_value *v);
static inline bool tn_dyn_absent(const tn_dyn_ctx *c, uint32_t i) { return i >= c->n_in || c->in[i]->kind == TN_VALUE_NONE; }

/* Attributes, with the value when absent; of another kind: the default too (the compiler wrote them). */
int64_t tn_dyn_attr_int(const tn_dyn_ctx *c, const char *name, int64_t otherwise);
double tn_dyn_attr_float(const tn_dyn_ctx *c, const char *name, double otherwise);
const char *tn_dyn_attr_str(const tn_dyn_ctx *c, const char *name, const char *otherwise);   /* NUL-terminated */
const int64_t *tn_dyn_attr_ints(const tn_dyn_ctx *c, const char *name, uint32_t *n);         /* NULL and 0 when absent */
const double *tn_dyn_attr_floats(const tn_dyn_ctx *c, const char *name, uint32_t *n);
const tn_mstr *tn_dyn_attr_strs(const tn_dyn_ctx *c, const char *name, uint32_t *n);
#define tn_dyn_fail(c, code, ...) tn_fail((c)->d, (code), __VA_ARGS__)
#endif

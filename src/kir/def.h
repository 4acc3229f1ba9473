/* def: the first form of a kernel. What is computed: stages over named axes; each stage gives the value of one element.
 *
 *   kernel @softmax(%x: f32[s0,64]) -> (%y: f32[s0,64]) {
 *     sym s0 in [1, 4096]
 *     axis i: s0, j: 64
 *     %0 m: f32[i] = max[j] %x[i, j]
 *     %1 e: f32[i,j] = exp(sub(%x[i, j], %0))
 *     %2 s: f32[i] = sum[j] %1
 *     %3 y: f32[i,j] = div(%1, %2) -> %y[i, j]
 *   }
 *
 * A stage is `%n name: dtype[axes] = expr` or `... = combiner[reduction axes] expr`; a stage with `-> %y[...]` stores its value in a
 * parameter. Expressions are nodes of one dense array (0 = none, operands before readers): constants, axes, sizes, loads of parameters
 * with one index expression per dim, values of earlier stages, scalar functions (base/scalar.def), casts.
 * A stage is always read at its own axes; a stage read at other axes is another stage (the builder in `lower` shares and renames).
 * Axes and dims are tn_dims of one table, so kernels are shape-generic where sizes are symbolic.
 * Parameters are read or written, never both, and the read ones come first.
 * The interpreter (def_interp.c) runs this form with plain scalar loops: it is the oracle for schedules, nests and emitters.
 * docs/kir.md has the grammar. */
#ifndef TN_DEF_H
#define TN_DEF_H
#include "base/base.h"
#include "base/dim.h"
#include "base/scalar.h"

#define TN_DEF_MAX_AXES 24
#define TN_DEF_MAX_RANK 12
#define TN_DEF_MAX_STAGES 250 /* schedules name stages by bytes */

typedef uint32_t tn_kx_id;  /* expression node, 0 = none */
typedef enum tn_kx_op {
  TN_KX_NONE,
  TN_KX_CONST,   /* imm, of dtype */
  TN_KX_AXIS,    /* i64: position on axis `ref` */
  TN_KX_SIZE,    /* i64: the dim `dim` */
  TN_KX_LOAD,    /* parameter `ref` at idx[n_idx] (i64 each); guard != 0: where it is false the value is imm and memory is not touched */
  TN_KX_STAGE,   /* value of stage `ref` at its axes */
  TN_KX_SCALAR,  /* sop(arg...) */
  TN_KX_CAST,    /* arg[0] to dtype */
  TN_KX_INDEX    /* i64: arg[0] as index into `dim` places: negatives wrap once; out of range raises the index error and is clamped */
} tn_kx_op;
typedef struct tn_kx {
  uint8_t op, dtype, sop, n_idx;
  uint32_t ref;
  tn_kx_id arg[3];
  tn_kx_id *idx;
  tn_kx_id guard;
  tn_dim dim;
  tn_num imm;
} tn_kx;

typedef struct tn_kaxis { const char *name; tn_dim extent; } tn_kaxis;
typedef struct tn_kparam { const char *name; uint8_t dtype, rank; bool written; bool frozen; /* a weight: may be packed once */ tn_dim *dim, *stride; } tn_kparam;
typedef struct tn_kstage {
  const char *name;
  uint8_t dtype;            /* of the value */
  uint8_t combiner;         /* tn_combiner when n_red > 0; ARGMAX/ARGMIN: one reduction axis, value = its position (i64) */
  uint8_t n_axis, n_red;
  uint8_t axis[TN_DEF_MAX_AXES], red[TN_DEF_MAX_AXES];
  tn_kx_id root;
  int32_t out;              /* parameter that receives the value, or -1 */
  tn_kx_id out_idx[TN_DEF_MAX_RANK];
} tn_kstage;

typedef struct tn_kdef {
  const char *name;
  tn_arena *arena; tn_dims *dims;    /* borrowed */
  tn_kaxis *axis; uint32_t n_axis, cap_axis;
  tn_kparam *param; uint32_t n_param, cap_param;
  tn_kstage *stage; uint32_t n_stage, cap_stage;
  tn_kx *x; uint32_t n_x, cap_x;     /* x[0] unused */
  uint32_t *slot, n_slots;           /* def.c: nodes by content */
} tn_kdef;

tn_status tn_kdef_create(tn_arena *a, tn_dims *dims, const char *name, tn_kdef **out);
/* Builders return an index / id; UINT32_MAX or 0 when out of memory or a limit is passed. Equal expressions share one node. */
uint32_t tn_kdef_add_axis(tn_kdef *k, const char *name, tn_dim extent);
uint32_t tn_kdef_add_param(tn_kdef *k, const char *name, tn_dtype t, uint32_t rank, const tn_dim *dim, const tn_dim *stride /* NULL = row-major */);
uint32_t tn_kdef_add_stage(tn_kdef *k, tn_kstage s);
/* Puts a stage at number `at`; later stages, and the expressions that read them, count one up. Its root may read earlier stages only. */
uint32_t tn_kdef_insert_stage(tn_kdef *k, uint32_t at, tn_kstage s);
tn_kx_id tn_kx_const(tn_kdef *k, tn_dtype t, tn_num v);
tn_kx_id tn_kx_i64(tn_kdef *k, int64_t v);
tn_kx_id tn_kx_axis(tn_kdef *k, uint32_t axis);
tn_kx_id tn_kx_size(tn_kdef *k, tn_dim d);                       /* constant dims become CONST */
tn_kx_id tn_kx_load(tn_kdef *k, uint32_t param, const tn_kx_id *idx, tn_kx_id guard, tn_num other);
tn_kx_id tn_kx_stage(tn_kdef *k, uint32_t stage);
/* Folds i64 index arithmetic on constants and x+0, x*1, x*0; constant conditions. A guard that is always true is no guard, one that never is
 * makes a load its other value. */
tn_kx_id tn_kx_scalar(tn_kdef *k, tn_scalar_op op, tn_kx_id a, tn_kx_id b, tn_kx_id c);
tn_kx_id tn_kx_cast(tn_kdef *k, tn_kx_id a, tn_dtype t);
tn_kx_id tn_kx_index(tn_kdef *k, tn_kx_id a, tn_dim extent);

/* Axes that node x depends on, as bits; stages count with their own axes. deps: [n_x], filled for all nodes. */
void tn_kdef_deps(const tn_kdef *k, uint32_t *deps);
/* Affine view of an i64 expression: sum of coef[axis] * axis + *base. false when it is not affine. coef: [n_axis] zeroed by the callee. */
bool tn_kx_affine(const tn_kdef *k, tn_kx_id x, tn_dim *coef, tn_dim *base);

/* Text. print -> parse -> print is the identity. Ranges of symbols are read with the text and set when all of it is read.
 * TN_E_PARSE with line:column; whatever parses still has to be verified. */
void tn_kdef_print(const tn_kdef *k, tn_str *out);
tn_status tn_kdef_parse(tn_diag *d, tn_arena *a, tn_dims *dims, const char *text, size_t n, tn_kdef **out);
/* Structure, types, axes: what schedules, nests and the interpreter rely on. TN_E_VERIFY names stage or node. */
tn_status tn_kdef_verify(tn_diag *d, const tn_kdef *k);
/* Runs a verified definition with scalar loops. ptr[n_param]: memory of each parameter (element 0); every access is checked against the
 * parameter's dims and against elems[] (elements the memory holds from element 0). sym_values as for tn_dim_eval. Float reductions run in
 * double and are rounded once. TN_E_INDEX (an index tensor held an index out of range; results are those of the clamped one), TN_E_ARG
 * (access outside, names it), TN_E_NOMEM. */
tn_status tn_kdef_interpret(tn_diag *d, const tn_kdef *k, const int64_t *sym_values, void *const *ptr, const int64_t *elems);
#endif

/* What the tests of generated kernels share. A case is the body of a fused node, some layouts, and values of its symbols; run_case takes it
 * through every form a kernel has and compares all of them (see generated_run.c). */
#ifndef TN_GENERATED_H
#define TN_GENERATED_H
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lower/lower.h"
#include "ops/ops.h"

typedef enum gen_layout {
  LAY_DENSE,   /* row-major */
  LAY_LAST,    /* rank >= 3: dim 1 innermost (channels last) */
  LAY_PADDED,  /* row-major with gaps behind every row */
  LAY_TURNED,  /* column-major */
  N_LAYOUTS
} gen_layout;

typedef struct gen_case {
  tn_arena *a; tn_dims *dims; tn_diag *d;
  tn_graph *g;               /* the body: inputs of origin param are frozen weights */
  const char *name;
  gen_layout in, out;
  const int64_t *sym; uint32_t n_sym, n_rounds; /* [n_rounds][n_sym] */
  int64_t index_max;         /* integers lie in [-index_max, index_max), 0: [-3, 3] */
  bool positive;             /* floats in (0, 2] */
  bool special;              /* floats with infinities and NaNs among them */
  bool outside;              /* index tensors hold values out of range: the index error must be raised, and nothing else happen */
  double loose;              /* tolerance times this; 0 = 1 */
  uint32_t mutations;        /* changed schedules to try */
} gen_case;

/* Runs the case for all targets and thread counts; false and a report on stderr when anything differs. */
bool gen_run(gen_case *c);
/* Totals since start, for the last line. */
extern uint32_t gen_n_kernels, gen_n_runs, gen_n_nests, gen_n_legal, gen_n_illegal;
/* generated_mutate.c: changes s at random. */
void gen_mutate(const tn_kdef *k, tn_ksched *s, uint64_t seed);

/* generated_cases.c, generated_random.c: run cases whose name holds `filter`; return the number of failures. n_cases counts. */
int gen_table(const char *filter, uint32_t part, uint32_t parts, uint32_t *n_cases);
int gen_random(const char *filter, uint32_t part, uint32_t parts, uint32_t *n_cases);
#endif

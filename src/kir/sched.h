/* sched: the second form of a kernel. How a definition is computed: data, one line, printable and parseable; it is the tuner's unit.
 *
 *   merge i0*i1; par i1/96 i2/384; share i3/1; pack x1; keep 3:scratch 4:reg; loop 0,1 order=i2,i1 v=i2:16x4 r=i1:6 red=k3; grain 2
 *
 * merge a*b     axis a becomes the outer part of axis b (legal when all accesses step through them as one)
 * par a/n       the block range: blocks of n positions of axis a, claimed by workers; outermost first
 * share a/n     loops around all `loop`s that follow, in steps of n; loops marked `outer` run once per block before them
 * keep s:how    where the value of stage s lives: reg, scratch; unlisted: recomputed where it is read, or stored in its parameter
 * pack p        parameter p is read from a copy packed once: panels of the vector tile (the weight of a contraction); lanes along a
 *               reduction axis: that axis innermost
 * loop s,...    one loop nest that computes stages s,...: reductions first, then stages evaluated on the finished tile
 *   order=a,..  spatial axes, outermost first (block-local where parallel); axes whose position the block or a share fixes are left out
 *   v=a:LxN     vector axis with L lanes, N vectors (spatial, or a reduction axis: partial results merged at the end)
 *   r=a:R       register rows
 *   red=a,...   reduction axes, outermost first
 *   piece=n     the first of them is taken in pieces of n, each over the whole block; partial results wait in scratch
 * grain n       blocks a worker claims at once */
#ifndef TN_SCHED_H
#define TN_SCHED_H
#include "kir/def.h"

typedef enum tn_kkeep { TN_KEEP_INLINE, TN_KEEP_REG, TN_KEEP_SCRATCH, TN_KEEP_OUT } tn_kkeep;
typedef struct tn_kpar { uint8_t axis; int64_t block; } tn_kpar;
#define TN_LOOP_MAX_STAGES 32
#define TN_LOOP_MAX_TILE 64 /* rows * vectors */
typedef struct tn_kloop {
  bool outer;                       /* once per block, before the shared loops */
  uint8_t stage[TN_LOOP_MAX_STAGES]; uint32_t n_stage;
  uint8_t order[TN_DEF_MAX_AXES]; uint32_t n_order;
  int8_t v_axis; uint8_t lanes, nv; bool v_red;   /* v_axis -1: scalar */
  int8_t r_axis; uint8_t rows;                    /* r_axis -1: one row */
  uint8_t red[TN_DEF_MAX_AXES]; uint32_t n_red;
  int64_t piece;                                  /* > 0: the first reduction axis is taken in pieces of this size, each over the whole block */
} tn_kloop;
typedef struct tn_ksched {
  uint8_t merge_from[TN_DEF_MAX_AXES], merge_to[TN_DEF_MAX_AXES]; uint32_t n_merge;
  tn_kpar par[TN_DEF_MAX_AXES]; uint32_t n_par;
  tn_kpar share[TN_DEF_MAX_AXES]; uint32_t n_share;
  uint8_t *keep; uint32_t n_keep;   /* [n_stage] tn_kkeep */
  bool *pack; uint32_t n_pack;      /* [n_param] */
  tn_kloop *loop; uint32_t n_loop;
  int64_t grain;                    /* blocks a worker claims at once */
} tn_ksched;

void tn_ksched_print(const tn_ksched *s, const tn_kdef *k, tn_str *out);
/* Inverse of print; k gives names and counts. TN_E_PARSE with line:column. */
tn_status tn_ksched_parse(tn_diag *d, tn_arena *a, const tn_kdef *k, const char *text, size_t n, tn_ksched **out);
/* Legality of s for a verified k: every kept stage is computed once, before its readers and where they can see it; axes of a loop cover its
 * stages; parallel axes are no reduction axes and every stored stage has them; merges agree with all accesses. TN_E_VERIFY says what is wrong. */
tn_status tn_ksched_verify(tn_diag *d, const tn_kdef *k, const tn_ksched *s);
#endif

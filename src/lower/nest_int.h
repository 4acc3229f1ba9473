/* Inside lower: the state of building one nest. nest_expr.c evaluates expressions, nest_build.c makes loops around them. */
#ifndef TN_LOWER_NEST_INT_H
#define TN_LOWER_NEST_INT_H
#include "lower/lower_int.h"

#define TN_NB_SLOTS 64
typedef struct tn_nb_axis {
  tn_nv base, lo, hi, tile;
  int64_t len; /* constant length of [lo, hi), 0 = not constant */
  int depth;
  bool fixed;
  tn_nv blk_lo, shr_lo;
} tn_nb_axis;
typedef struct tn_nb_trail {
  tn_kx_id x;
  uint8_t slot;
  tn_nv old;
} tn_nb_trail;

typedef struct tn_nb {
  tn_diag *d;
  tn_arena *a;
  const tn_kdef *k;
  tn_kan *an;
  const tn_ksched *s;
  const tn_target *t;
  tn_nest *n;
  tn_nest_info *info;
  tn_nb_axis ax[TN_DEF_MAX_AXES];
  int depth;
  const tn_kloop *L;
  uint32_t R, NV, lanes;
  tn_nv mask[TN_NB_SLOTS];
  bool masked;
  uint32_t clear; /* axes of a tile that is known to lie inside: guards that look at one of them hold */
  tn_nv piece_lo, piece_hi;
  int64_t piece_len; /* current piece of the first reduction axis; piece_hi 0: no pieces */
  tn_nv *memo;       /* [n_x][TN_NB_SLOTS] */
  tn_nb_trail *trail;
  uint32_t n_trail, cap_trail;
  tn_kx_id *stage_x; /* [n_stage] the STAGE node, 0 = never read */
  int *scratch;      /* [n_stage] nest base, 0 = none yet */
  int8_t *scr_v;     /* [n_stage] innermost axis of its scratch */
  bool *scr_outer;
  tn_status st; /* first failure; sticky */
} tn_nb;

tn_nv tn_nb_bad(tn_nb *b, tn_status s, const char *what);
tn_nv tn_nb_dimv(tn_nb *b, tn_dim d);
void tn_nb_memo_set(tn_nb *b, tn_kx_id x, uint32_t slot, tn_nv v);
void tn_nb_scope_end(tn_nb *b, uint32_t mark);
uint32_t tn_nb_slot_of(const tn_nb *b, uint32_t deps, uint32_t r, uint32_t q);
tn_nv tn_nb_linear_base(tn_nb *b, const tn_dim *coef, tn_dim base, uint32_t skip, int packed_param);
tn_nv tn_nb_displaced(tn_nb *b, tn_nv sum, const tn_dim *coef, uint32_t r, uint32_t q, tn_dim lane_coef);
tn_nv tn_nb_scratch_addr(tn_nb *b, uint32_t s, uint32_t r, uint32_t q, tn_dim *coef);
int tn_nb_scratch_base(tn_nb *b, uint32_t s, int8_t v_axis, bool outer);
tn_nv tn_nb_load_at(tn_nb *b, int base, uint8_t dtype, tn_nv addr, tn_dim lane, uint32_t q);
void tn_nb_store_at(tn_nb *b, int base, uint8_t dtype, tn_nv addr, tn_dim lane, tn_nv opq, tn_nv v, uint32_t q);
tn_nv tn_nb_inside(tn_nb *b);   /* nest_guard.c: condition that no padding touches the tile; 0 = guards stay */
tn_nv tn_nb_eval(tn_nb *b, tn_kx_id x, uint32_t r, uint32_t q);
void tn_nb_hoist(tn_nb *b, tn_kx_id x, uint32_t inner, uint8_t *seen);
void tn_nb_store_scratch(tn_nb *b, uint32_t s, uint32_t r, uint32_t q, int8_t va, tn_nv v);
static inline tn_nv tn_nb_i64(tn_nb *b, int64_t v) { return tn_n_i64(b->n, v); }
static inline tn_nv tn_nb_add2(tn_nb *b, tn_nv x, tn_nv y) { return tn_n_op2(b->n, TN_S_ADD, x, y); }
static inline tn_nv tn_nb_mul2(tn_nb *b, tn_nv x, tn_nv y) { return tn_n_op2(b->n, TN_S_MUL, x, y); }
static inline uint32_t tn_nb_bit(int a) { return a < 0 ? 0 : 1u << a; }
static inline tn_nv tn_nb_splat(tn_nb *b, tn_nv v, uint32_t lanes) {
  return lanes > 1 && tn_n_type(b->n, v).lanes == 1 ? tn_n_splat(b->n, v, (int)lanes) : v;
}
static inline tn_nv tn_nb_lanes_iota(tn_nb *b) { return tn_n_add(b->n, (tn_ninst){.op = TN_N_LANES, .vt = {TN_I64, (uint8_t)b->lanes}}); }
#endif

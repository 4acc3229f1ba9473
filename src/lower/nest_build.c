/* nest_build.c: definition + schedule = loops. One generator for every class: a tile of R rows by N vectors is evaluated stage by stage.
 *
 * Blocks of the parallel axes come from the kernel's block range; inside a block, loops of the schedule run one after another, each over
 * its spatial axes; on the innermost tile the reductions keep R x N registers over their reduction loops, then the remaining stages are
 * evaluated on the finished registers and stored. An expression is evaluated at (row r, vector q); what does not depend on the row or
 * vector axis is evaluated once and shared (so a contraction's left operand becomes one broadcast per row, its right one a vector per
 * column). Tails: the vector axis by masks; rows and whole blocks by moving the last one back so that it overlaps (stores repeat equal
 * values). Expression values are memoised per scope; scopes follow the regions of the nest. */
#include <string.h>
#include "lower/nest_int.h"

/* ---- reductions ---- */
typedef struct acc {
  tn_nv var, idx;
} acc;
typedef struct red {
  uint32_t stage;
  acc *acc;
} red;

static bool is_arg(uint32_t c) { return c == TN_C_ARGMAX || c == TN_C_ARGMIN; }
static tn_combiner val_comb(uint32_t c) { return c == TN_C_ARGMAX ? TN_C_MAX : c == TN_C_ARGMIN ? TN_C_MIN : (tn_combiner)c; }
static tn_scalar_op comb_op(uint32_t c) {
  switch (c) {
    case TN_C_PROD: return TN_S_MUL;
    case TN_C_MAX:
    case TN_C_ARGMAX: return TN_S_MAX;
    case TN_C_MIN:
    case TN_C_ARGMIN: return TN_S_MIN;
    case TN_C_ANY: return TN_S_OR;
    case TN_C_ALL: return TN_S_AND;
    default: return TN_S_ADD;
  }
}
static uint8_t acc_type(const tn_nb *b, uint32_t s) {
  const tn_kstage *st = &b->k->stage[s];
  return is_arg(st->combiner) ? b->k->x[st->root].dtype : st->dtype;
}
static tn_nv isnan_v(tn_nb *b, tn_nv v) { return tn_n_op2(b->n, TN_S_NE, v, v); }

/* A stage without reduction that still varies along the loop's reduction axes: computed and kept while reducing. */
static bool in_body(const tn_nb *b, uint32_t s) {
  uint32_t red = 0;
  for (uint32_t i = 0; i < b->L->n_red; i++) red |= 1u << b->L->red[i];
  return !b->k->stage[s].n_red && (tn_kan_axes(b->an, s) & red);
}

static void accumulate(tn_nb *b, const red *rd, uint32_t n_rd) {
  for (uint32_t i = 0; i < b->L->n_stage; i++) {
    uint32_t s = b->L->stage[i], axes = tn_kan_axes(b->an, s);
    if (!in_body(b, s)) continue;
    bool vdep = axes & tn_nb_bit(b->L->v_axis), rdep = axes & tn_nb_bit(b->L->r_axis);
    for (uint32_t r = 0; r < (rdep ? b->R : 1); r++)
      for (uint32_t q = 0; q < (vdep ? b->NV : 1) && b->st == TN_OK; q++) {
        tn_nv v = tn_nb_eval(b, b->k->stage[s].root, r, q);
        if (!v) return;
        tn_nb_memo_set(b, b->stage_x[s], tn_nb_slot_of(b, axes, r, q), v);
        tn_nb_store_scratch(b, s, r, q, vdep ? b->L->v_axis : -1, v);
      }
  }
  for (uint32_t i = 0; i < n_rd; i++) {
    uint32_t s = rd[i].stage;
    const tn_kstage *st = &b->k->stage[s];
    const tn_kx *root = &b->k->x[st->root];
    uint8_t dt = acc_type(b, s);
    for (uint32_t r = 0; r < b->R; r++)
      for (uint32_t q = 0; q < b->NV && b->st == TN_OK; q++) {
        const acc *ac = &rd[i].acc[r * b->NV + q];
        uint32_t L = tn_n_type(b->n, ac->var).lanes;
        tn_nv old = tn_n_get(b->n, ac->var), v;
        bool vmask = b->masked && b->L->v_red;
        if (st->combiner == TN_C_SUM && tn_dtype_is_float((tn_dtype)dt) && root->op == TN_KX_SCALAR && root->sop == TN_S_MUL) {
          tn_nv x = tn_nb_eval(b, root->arg[0], r, q), y = tn_nb_eval(b, root->arg[1], r, q);
          if (!x || !y) return;
          x = tn_nb_splat(b, x, L);
          if (vmask)
            x = tn_n_select(b->n, b->mask[q], x, tn_n_f(b->n, (tn_dtype)dt, (int)L, 0)),
            y = tn_n_select(b->n, b->mask[q], tn_nb_splat(b, y, L), tn_n_f(b->n, (tn_dtype)dt, (int)L, 0));
          tn_n_set(b->n, ac->var, tn_n_fma(b->n, x, tn_nb_splat(b, y, L), old));
          continue;
        }
        v = tn_nb_eval(b, st->root, r, q);
        if (!v) return;
        v = tn_nb_splat(b, v, L);
        if (vmask)
          v = tn_n_select(b->n, b->mask[q], v,
                          tn_n_add(b->n, (tn_ninst){.op = TN_N_CONST,
                                                    .vt = {dt, (uint8_t)L},
                                                    .imm = tn_combiner_identity(val_comb(st->combiner), (tn_dtype)dt)}));
        if (!is_arg(st->combiner)) {
          tn_n_set(b->n, ac->var, tn_n_scalar(b->n, comb_op(st->combiner), old, v, 0));
          continue;
        }
        /* position of the winner: the first of equals, a NaN beats everything */
        tn_nv oi = tn_n_get(b->n, ac->idx), pos = b->ax[st->red[0]].base;
        if (b->L->v_red) {
          if (q) pos = tn_nb_add2(b, pos, tn_nb_i64(b, (int64_t)q * b->lanes));
          pos = tn_nb_add2(b, tn_nb_splat(b, pos, L), L > 1 ? tn_nb_lanes_iota(b) : tn_nb_i64(b, 0));
        }
        pos = tn_nb_splat(b, pos, L);
        tn_nv win = tn_n_op2(b->n, st->combiner == TN_C_ARGMAX ? TN_S_GT : TN_S_LT, v, old);
        if (tn_dtype_is_float((tn_dtype)dt)) {
          tn_nv nn = tn_n_op2(b->n, TN_S_EQ, old, old);
          win = tn_n_op2(b->n, TN_S_OR, win, tn_n_op2(b->n, TN_S_AND, isnan_v(b, v), nn));
        }
        if (vmask) win = tn_n_op2(b->n, TN_S_AND, win, b->mask[q]);
        tn_n_set(b->n, ac->var, tn_n_select(b->n, win, v, old));
        tn_n_set(b->n, ac->idx, tn_n_select(b->n, win, pos, oi));
      }
  }
}

static void set_masks(tn_nb *b, tn_nv hi) { /* lanes below hi, for each vector of the tile at ax[v].base */
  int v = b->L->v_axis;
  b->masked = true;
  for (uint32_t q = 0; q < b->NV; q++) {
    tn_nv left = tn_n_op2(b->n, TN_S_SUB, hi, tn_nb_add2(b, b->ax[v].base, tn_nb_i64(b, (int64_t)q * b->lanes)));
    b->mask[q] = b->lanes == 1 ? tn_n_op2(b->n, TN_S_GT, left, tn_nb_i64(b, 0))
                               : tn_n_add(b->n, (tn_ninst){.op = TN_N_MASK, .vt = {TN_BOOL, (uint8_t)b->lanes}, .a = left});
  }
}

/* Runs body over the vector axis: whole tiles, then one masked tile. NV of the tail shrinks when its size is known (not for accumulators).
 */
typedef void (*body_fn)(tn_nb *b, void *u);
static void over_vector(tn_nb *b, body_fn body, void *u, bool may_shrink) {
  int v = b->L->v_axis;
  tn_nb_axis *A = &b->ax[v], keep = *A;
  int64_t T = (int64_t)b->lanes * b->NV;
  uint32_t NV = b->NV;
  A->depth = ++b->depth;
  tn_nv full_hi;
  if (A->len)
    full_hi = tn_nb_add2(b, A->lo, tn_nb_i64(b, A->len / T * T));
  else {
    tn_nv n = tn_n_op2(b->n, TN_S_SUB, A->hi, A->lo);
    full_hi = tn_nb_add2(b, A->lo, tn_nb_mul2(b, tn_n_op2(b->n, TN_S_TRUNCDIV, n, tn_nb_i64(b, T)), tn_nb_i64(b, T)));
  }
  if (!A->len || A->len >= T) {
    uint32_t mark = b->n_trail;
    bool loop = A->len != T;
    A->base = A->tile = loop ? tn_n_for(b->n, A->lo, full_hi, tn_nb_i64(b, T)) : A->lo;
    b->masked = false;
    body(b, u);
    if (loop) tn_n_end(b->n);
    tn_nb_scope_end(b, mark);
  }
  if (!A->len || A->len % T) {
    uint32_t mark = b->n_trail;
    if (!A->len) tn_n_if(b->n, tn_n_op2(b->n, TN_S_LT, full_hi, A->hi));
    A->base = A->tile = full_hi;
    if (A->len && may_shrink) b->NV = (uint32_t)((A->len % T + b->lanes - 1) / b->lanes);
    set_masks(b, A->hi);
    body(b, u);
    b->masked = false;
    b->NV = NV;
    if (!A->len) tn_n_end(b->n);
    tn_nb_scope_end(b, mark);
  }
  b->depth--;
  *A = keep;
}

typedef struct redctx {
  const red *rd;
  uint32_t n_rd, pos;
} redctx;
static void red_loops(tn_nb *b, void *u) {
  redctx *c = u;
  const tn_kloop *L = b->L;
  if (c->pos == L->n_red) {
    accumulate(b, c->rd, c->n_rd);
    return;
  }
  uint32_t inner = 0, a = L->red[c->pos];
  if (b->an->extent[a] == 0) return; /* the identity stays */
  for (uint32_t i = c->pos; i < L->n_red; i++) inner |= 1u << L->red[i];
  uint8_t *seen = tn_calloc(b->k->n_x, 1);
  if (!seen) {
    tn_nb_bad(b, TN_E_NOMEM, "hoisting");
    return;
  }
  for (uint32_t i = 0; i < c->n_rd; i++) tn_nb_hoist(b, b->k->stage[c->rd[i].stage].root, inner, seen);
  tn_free(seen);
  redctx next = {c->rd, c->n_rd, c->pos + 1};
  tn_nb_axis *A = &b->ax[a], keep = *A;
  int64_t len;
  if (c->pos == 0 && b->piece_hi) {
    A->lo = b->piece_lo;
    A->hi = b->piece_hi;
    A->len = b->piece_len;
  } else {
    A->lo = tn_nb_i64(b, 0);
    A->hi = tn_nb_dimv(b, b->an->extent[a]);
    A->len = tn_dim_as_int(b->k->dims, b->an->extent[a], &len) ? len : 0;
  }
  if (L->v_red && L->v_axis == (int)a) {
    over_vector(b, red_loops, &next, false);
  } else {
    uint32_t mark = b->n_trail;
    A->depth = ++b->depth;
    A->base = tn_n_for(b->n, A->lo, A->hi, tn_nb_i64(b, 1));
    red_loops(b, &next);
    tn_n_end(b->n);
    b->depth--;
    tn_nb_scope_end(b, mark);
  }
  *A = keep;
}

static tn_nv merge_lanes(tn_nb *b, uint32_t s, const acc *ac) { /* the NV partial vectors of one row to a scalar */
  uint32_t c = b->k->stage[s].combiner;
  tn_nv v = tn_n_get(b->n, ac[0].var);
  uint8_t dt = tn_n_type(b->n, v).dtype;
  for (uint32_t q = 1; q < b->NV; q++) v = tn_n_scalar(b->n, comb_op(c), v, tn_n_get(b->n, ac[q].var), 0);
  if (b->lanes > 1) v = tn_n_add(b->n, (tn_ninst){.op = TN_N_HREDUCE, .vt = {dt, 1}, .a = v, .imm = {.i = val_comb(c)}});
  if (!is_arg(c)) return v;
  tn_nv best = 0;
  for (uint32_t q = 0; q < b->NV; q++) { /* smallest position among the winners */
    tn_nv x = tn_n_get(b->n, ac[q].var), w = tn_nb_splat(b, v, b->lanes), eq = tn_n_op2(b->n, TN_S_EQ, x, w);
    if (tn_dtype_is_float((tn_dtype)dt)) eq = tn_n_op2(b->n, TN_S_OR, eq, tn_n_op2(b->n, TN_S_AND, isnan_v(b, x), isnan_v(b, w)));
    tn_nv i = tn_n_select(b->n, eq, tn_n_get(b->n, ac[q].idx), tn_nb_splat(b, tn_nb_i64(b, INT64_MAX), b->lanes));
    best = best ? tn_n_op2(b->n, TN_S_MIN, best, i) : i;
  }
  if (b->lanes > 1) best = tn_n_add(b->n, (tn_ninst){.op = TN_N_HREDUCE, .vt = {TN_I64, 1}, .a = best, .imm = {.i = TN_C_MIN}});
  return best;
}

static void finish_tile(tn_nb *b, const red *rd, uint32_t n_rd);

/* Partial results of a block between pieces of the reduction: the stage's own scratch, one place for each element of the block. */
static void partials(tn_nb *b, const red *rd, uint32_t n_rd, bool load) {
  for (uint32_t i = 0; i < n_rd; i++)
    for (uint32_t r = 0; r < b->R; r++)
      for (uint32_t q = 0; q < b->NV && b->st == TN_OK; q++) {
        uint32_t s = rd[i].stage;
        tn_nv var = rd[i].acc[r * b->NV + q].var;
        if (!load) {
          tn_nb_store_scratch(b, s, r, q, b->L->v_axis, tn_n_get(b->n, var));
          continue;
        }
        int base = tn_nb_scratch_base(b, s, b->L->v_axis, b->L->outer);
        tn_dim coef[TN_DEF_MAX_AXES];
        tn_nv addr = tn_nb_scratch_addr(b, s, r, q, coef);
        tn_n_set(b->n, var, tn_nb_load_at(b, base, b->k->stage[s].dtype, addr, coef[b->L->v_axis], q));
      }
}

static void tile(tn_nb *b, void *u) {
  (void)u;
  const tn_kloop *L = b->L;
  red rd[TN_LOOP_MAX_STAGES];
  uint32_t n_rd = 0, RN = b->R * b->NV;
  if (RN > TN_NB_SLOTS) {
    tn_nb_bad(b, TN_E_INTERNAL, "tile of more than 64 registers");
    return;
  }
  for (uint32_t i = 0; i < L->n_stage; i++) {
    uint32_t s = L->stage[i];
    if (!b->k->stage[s].n_red) continue;
    red *r = &rd[n_rd++];
    r->stage = s;
    r->acc = TN_NEW(b->a, acc, RN);
    if (!r->acc) {
      tn_nb_bad(b, TN_E_NOMEM, "accumulators");
      return;
    }
    uint8_t dt = acc_type(b, s);
    bool vec = L->v_axis >= 0 && (L->v_red || (tn_kan_axes(b->an, s) & tn_nb_bit(L->v_axis)));
    tn_num id = tn_combiner_identity(val_comb(b->k->stage[s].combiner), (tn_dtype)dt);
    for (uint32_t j = 0; j < RN; j++) {
      uint8_t lanes = (uint8_t)(vec ? b->lanes : 1);
      r->acc[j].var = tn_n_var(b->n, tn_n_add(b->n, (tn_ninst){.op = TN_N_CONST, .vt = {dt, lanes}, .imm = id}));
      if (is_arg(b->k->stage[s].combiner))
        r->acc[j].idx = tn_n_var(b->n, tn_n_add(b->n, (tn_ninst){.op = TN_N_CONST, .vt = {TN_I64, lanes}}));
    }
  }
  if (n_rd && b->piece_hi) {
    tn_nv ext = tn_nb_dimv(b, b->an->extent[L->red[0]]);
    uint32_t mark = b->n_trail;
    tn_n_if(b->n, tn_n_op2(b->n, TN_S_GT, b->piece_lo, tn_nb_i64(b, 0)));
    partials(b, rd, n_rd, true);
    tn_n_end(b->n);
    tn_nb_scope_end(b, mark);
    redctx c = {rd, n_rd, 0};
    red_loops(b, &c);
    mark = b->n_trail;
    tn_n_if(b->n, tn_n_op2(b->n, TN_S_LT, b->piece_hi, ext));
    partials(b, rd, n_rd, false);
    tn_n_end(b->n);
    tn_nb_scope_end(b, mark);
    tn_n_if(b->n, tn_n_op2(b->n, TN_S_GE, b->piece_hi, ext));
    finish_tile(b, rd, n_rd);
    tn_n_end(b->n);
    tn_nb_scope_end(b, mark);
    return;
  }
  if (n_rd) {
    tn_nv inside = tn_nb_inside(b);
    uint32_t mark = b->n_trail;
    redctx c = {rd, n_rd, 0};
    if (inside) {
      tn_n_if(b->n, inside);
      b->clear = tn_nb_bit(L->r_axis) | tn_nb_bit(L->v_axis);
      for (uint32_t i = 0; i < L->n_red; i++) b->clear |= 1u << L->red[i];
      red_loops(b, &c);
      b->clear = 0;
      tn_n_end(b->n);
      tn_nb_scope_end(b, mark);
      tn_n_if(b->n, tn_n_op2(b->n, TN_S_EQ, inside, tn_n_const(b->n, tn_n_type(b->n, inside), (tn_num){.i = 0})));
    }
    red_loops(b, &c);
    if (inside) {
      tn_n_end(b->n);
      tn_nb_scope_end(b, mark);
    }
  }
  finish_tile(b, rd, n_rd);
}

/* The reductions of the tile are complete: their values, then the stages evaluated on them. */
static void finish_tile(tn_nb *b, const red *rd, uint32_t n_rd) {
  const tn_kloop *L = b->L;
  if (n_rd) {
    for (uint32_t i = 0; i < n_rd && b->st == TN_OK; i++) {
      uint32_t s = rd[i].stage;
      tn_kx_id x = b->stage_x[s];
      for (uint32_t r = 0; r < b->R; r++)
        for (uint32_t q = 0; q < (L->v_red ? 1 : b->NV); q++) {
          tn_nv v = L->v_red
                        ? merge_lanes(b, s, &rd[i].acc[r * b->NV])
                        : tn_n_get(b->n, is_arg(b->k->stage[s].combiner) ? rd[i].acc[r * b->NV + q].idx : rd[i].acc[r * b->NV + q].var);
          if (x) tn_nb_memo_set(b, x, tn_nb_slot_of(b, tn_kan_axes(b->an, s), r, q), v);
          if (b->s->keep[s] == TN_KEEP_SCRATCH) tn_nb_store_scratch(b, s, r, q, L->v_red ? -1 : L->v_axis, v);
          if (b->k->stage[s].out >= 0) tn_nb_bad(b, TN_E_INTERNAL, "a reduction stage is an output");
        }
    }
  }
  for (uint32_t i = 0; i < L->n_stage && b->st == TN_OK; i++) {
    uint32_t s = L->stage[i];
    const tn_kstage *st = &b->k->stage[s];
    if (st->n_red || in_body(b, s)) continue;
    bool vdep = L->v_axis >= 0 && !L->v_red && (tn_kan_axes(b->an, s) & tn_nb_bit(L->v_axis));
    bool rdep = L->r_axis >= 0 && (tn_kan_axes(b->an, s) & tn_nb_bit(L->r_axis));
    for (uint32_t r = 0; r < (rdep ? b->R : 1); r++)
      for (uint32_t q = 0; q < (vdep ? b->NV : 1) && b->st == TN_OK; q++) {
        tn_nv v = tn_nb_eval(b, st->root, r, q);
        if (!v) return;
        if (b->stage_x[s] && !b->memo[b->stage_x[s] * TN_NB_SLOTS + tn_nb_slot_of(b, tn_kan_axes(b->an, s), r, q)])
          tn_nb_memo_set(b, b->stage_x[s], tn_nb_slot_of(b, tn_kan_axes(b->an, s), r, q), v);
        if (st->out >= 0) {
          const tn_lin *l = &b->an->store[s];
          uint32_t vb = vdep ? tn_nb_bit(L->v_axis) : 0;
          tn_nv sum = tn_nb_linear_base(b, l->coef, l->base, 0, -1), ov = 0;
          sum = tn_nb_displaced(b, sum, l->coef, r, q, vdep ? l->coef[L->v_axis] : 0);
          for (uint32_t j = 0; j < l->n_opq; j++) {
            tn_nv t = tn_nb_eval(b, l->opq[j], r, q);
            if (!t) return;
            if (tn_kan_deps(b->an, l->opq[j]) & vb) {
              t = tn_nb_mul2(b, tn_nb_splat(b, t, b->lanes), tn_nb_splat(b, tn_nb_dimv(b, l->opq_coef[j]), b->lanes));
              ov = ov ? tn_nb_add2(b, ov, t) : t;
            } else
              sum = tn_nb_add2(b, sum, tn_nb_mul2(b, t, tn_nb_dimv(b, l->opq_coef[j])));
          }
          tn_nb_store_at(b, st->out, b->k->param[st->out].dtype, sum, vdep ? l->coef[L->v_axis] : 0, ov, v, q);
        }
        if (b->s->keep[s] == TN_KEEP_SCRATCH) tn_nb_store_scratch(b, s, r, q, vdep ? L->v_axis : -1, v);
      }
  }
}

static void spatial(tn_nb *b, uint32_t pos);
typedef struct posctx {
  uint32_t pos;
} posctx;
static void spatial_body(tn_nb *b, void *u) { spatial(b, ((posctx *)u)->pos); }

static void row_body(tn_nb *b, uint32_t pos, tn_nb_axis *A, tn_nv i0, uint32_t rows, bool overlap) {
  uint32_t R = b->R;
  b->R = rows;
  A->base = overlap ? tn_n_op2(b->n, TN_S_MIN, i0, tn_n_op2(b->n, TN_S_SUB, A->hi, tn_nb_i64(b, rows))) : i0;
  spatial(b, pos + 1);
  b->R = R;
}

static void spatial(tn_nb *b, uint32_t pos) {
  const tn_kloop *L = b->L;
  if (b->st != TN_OK) return;
  if (pos == L->n_order) {
    tile(b, NULL);
    return;
  }
  uint32_t a = L->order[pos];
  tn_nb_axis *A = &b->ax[a], keep = *A;
  if (!A->lo) { /* neither parallel nor shared: all of it */
    int64_t len;
    A->lo = tn_nb_i64(b, 0);
    A->hi = tn_nb_dimv(b, b->an->extent[a]);
    A->len = tn_dim_as_int(b->k->dims, b->an->extent[a], &len) ? len : 0;
    if (!A->len && tn_dim_is_const(b->an->extent[a])) {
      *A = keep;
      return;
    }
  }
  if ((int)a == L->v_axis) {
    posctx c = {pos + 1};
    over_vector(b, spatial_body, &c, true);
    *A = keep;
    return;
  }
  uint32_t mark = b->n_trail, R = L->rows;
  A->depth = ++b->depth;
  if ((int)a != L->r_axis || R <= 1) {
    A->base = tn_n_for(b->n, A->lo, A->hi, tn_nb_i64(b, 1));
    spatial(b, pos + 1);
    tn_n_end(b->n);
  } else if (A->len && A->len <= R) {
    row_body(b, pos, A, A->lo, (uint32_t)A->len, false);
  } else if (A->len && (!b->piece_hi || A->len % R == 0)) {
    tn_nv i0 = tn_n_for(b->n, A->lo, A->hi, tn_nb_i64(b, R));
    row_body(b, pos, A, i0, R, A->len % R != 0);
    tn_n_end(b->n);
  } else if (b->piece_hi) { /* partial results must be added once: no overlap */
    tn_nv n = tn_n_op2(b->n, TN_S_SUB, A->hi, A->lo),
          full = tn_nb_add2(b, A->lo, tn_nb_mul2(b, tn_n_op2(b->n, TN_S_TRUNCDIV, n, tn_nb_i64(b, R)), tn_nb_i64(b, R)));
    tn_nv i0 = tn_n_for(b->n, A->lo, full, tn_nb_i64(b, R));
    row_body(b, pos, A, i0, R, false);
    tn_n_end(b->n);
    tn_nb_scope_end(b, mark);
    if (A->len)
      row_body(b, pos, A, full, (uint32_t)(A->len % R), false);
    else {
      i0 = tn_n_for(b->n, full, A->hi, tn_nb_i64(b, 1));
      row_body(b, pos, A, i0, 1, false);
      tn_n_end(b->n);
    }
  } else {
    tn_nv n = tn_n_op2(b->n, TN_S_SUB, A->hi, A->lo);
    tn_n_if(b->n, tn_n_op2(b->n, TN_S_GE, n, tn_nb_i64(b, R)));
    tn_nv i0 = tn_n_for(b->n, A->lo, A->hi, tn_nb_i64(b, R));
    row_body(b, pos, A, i0, R, true);
    tn_n_end(b->n);
    tn_n_end(b->n);
    tn_nb_scope_end(b, mark);
    tn_n_if(b->n, tn_n_op2(b->n, TN_S_LT, n, tn_nb_i64(b, R)));
    i0 = tn_n_for(b->n, A->lo, A->hi, tn_nb_i64(b, 1));
    row_body(b, pos, A, i0, 1, false);
    tn_n_end(b->n);
    tn_n_end(b->n);
  }
  tn_nb_scope_end(b, mark);
  b->depth--;
  *A = keep;
}

static void run_loop(tn_nb *b, const tn_kloop *L) {
  uint32_t mark = b->n_trail;
  b->L = L;
  b->R = L->r_axis >= 0 ? L->rows : 1;
  b->NV = L->v_axis >= 0 ? L->nv : 1;
  b->lanes = L->v_axis >= 0 ? L->lanes : 1;
  b->masked = false;
  int64_t ext = 0;
  bool known = L->n_red && tn_dim_as_int(b->k->dims, b->an->extent[L->red[0]], &ext);
  if (L->piece > 0 && L->n_red && !(known && ext <= L->piece)) {
    tn_nv end = tn_nb_dimv(b, b->an->extent[L->red[0]]);
    b->piece_lo =
        tn_n_for(b->n, tn_nb_i64(b, 0), tn_n_op2(b->n, TN_S_MAX, end, tn_nb_i64(b, 1)), tn_nb_i64(b, L->piece)); /* once even when empty */
    b->piece_hi = tn_n_op2(b->n, TN_S_MIN, tn_nb_add2(b, b->piece_lo, tn_nb_i64(b, L->piece)), end);
    b->piece_len = known && ext % L->piece == 0 ? L->piece : 0;
    b->depth++;
    spatial(b, 0);
    b->depth--;
    tn_n_end(b->n);
    b->piece_hi = 0;
  } else
    spatial(b, 0);
  /* values of stages kept in registers outlive the loop's scope */
  tn_nv kept[TN_LOOP_MAX_STAGES] = {0};
  for (uint32_t i = 0; i < L->n_stage; i++)
    if (b->s->keep[L->stage[i]] == TN_KEEP_REG && b->stage_x[L->stage[i]]) kept[i] = b->memo[b->stage_x[L->stage[i]] * TN_NB_SLOTS];
  tn_nb_scope_end(b, mark);
  for (uint32_t i = 0; i < L->n_stage; i++)
    if (kept[i]) tn_nb_memo_set(b, b->stage_x[L->stage[i]], 0, kept[i]);
  b->L = NULL;
}

static void shared(tn_nb *b, uint32_t pos) {
  if (b->st != TN_OK) return;
  if (pos == b->s->n_share) {
    for (uint32_t i = 0; i < b->s->n_loop; i++)
      if (!b->s->loop[i].outer) run_loop(b, &b->s->loop[i]);
    return;
  }
  uint32_t a = b->s->share[pos].axis;
  int64_t step = b->s->share[pos].block;
  tn_nb_axis *A = &b->ax[a], keep = *A;
  int64_t len;
  if (!A->lo) {
    A->lo = tn_nb_i64(b, 0);
    A->hi = tn_nb_dimv(b, b->an->extent[a]);
    A->len = tn_dim_as_int(b->k->dims, b->an->extent[a], &len) ? len : 0;
  }
  uint32_t mark = b->n_trail;
  tn_nv lo = A->lo, hi = A->hi;
  A->depth = ++b->depth;
  tn_nv i0 = tn_n_for(b->n, lo, hi, tn_nb_i64(b, step));
  if (step == 1) {
    A->base = i0;
    A->fixed = true;
  } else if (A->len >= step) {
    A->lo = A->len % step ? tn_n_op2(b->n, TN_S_MIN, i0, tn_n_op2(b->n, TN_S_SUB, hi, tn_nb_i64(b, step))) : i0;
    A->hi = tn_nb_add2(b, A->lo, tn_nb_i64(b, step));
    A->len = step;
  } else {
    A->lo = i0;
    A->hi = tn_n_op2(b->n, TN_S_MIN, tn_nb_add2(b, i0, tn_nb_i64(b, step)), hi);
    A->len = A->len ? A->len : 0;
  }
  A->shr_lo = step == 1 ? i0 : A->lo;
  shared(b, pos + 1);
  tn_n_end(b->n);
  tn_nb_scope_end(b, mark);
  b->depth--;
  *A = keep;
}

static void blocks(tn_nb *b) {
  const tn_ksched *s = b->s;
  tn_dims *ds = b->k->dims;
  tn_dim total = 1, count[TN_DEF_MAX_AXES];
  for (uint32_t i = 0; i < s->n_par; i++) {
    count[i] = tn_dim_ceildiv(ds, b->an->extent[s->par[i].axis], s->par[i].block);
    total = tn_dim_mul(ds, total, count[i]);
  }
  if (total == TN_DIM_BAD) {
    tn_nb_bad(b, TN_E_ARG, "number of blocks overflows");
    return;
  }
  b->info->blocks = total;
  tn_nv lo = tn_n_add(b->n, (tn_ninst){.op = TN_N_BLOCK_LO, .vt = {TN_I64, 1}}),
        hi = tn_n_add(b->n, (tn_ninst){.op = TN_N_BLOCK_HI, .vt = {TN_I64, 1}});
  tn_nv t = tn_n_for(b->n, lo, hi, tn_nb_i64(b, 1));
  b->depth = 1;
  for (uint32_t i = s->n_par; i-- > 0;) {
    uint32_t a = s->par[i].axis;
    int64_t blk = s->par[i].block, ext;
    tn_nv n = tn_nb_dimv(b, count[i]), at = t;
    if (i) { /* block numbers are not negative: truncating division is floor division */
      tn_nv up = tn_n_op2(b->n, TN_S_TRUNCDIV, t, n);
      at = tn_n_op2(b->n, TN_S_SUB, t, tn_nb_mul2(b, up, n));
      t = up;
    }
    tn_nb_axis *A = &b->ax[a];
    A->depth = 1;
    A->lo = tn_nb_mul2(b, at, tn_nb_i64(b, blk));
    if (blk == 1) {
      A->base = A->lo;
      A->fixed = true;
      A->len = 1;
      A->hi = tn_nb_add2(b, A->lo, tn_nb_i64(b, 1));
    } else if (tn_dim_as_int(ds, b->an->extent[a], &ext)) {
      bool vec = false; /* panels of a packed operand start at whole tiles: ragged, not moved back */
      for (uint32_t j = 0; j < s->n_loop; j++) vec |= s->loop[j].v_axis == (int)a;
      if (ext % blk == 0) {
        A->hi = tn_nb_add2(b, A->lo, tn_nb_i64(b, blk));
        A->len = blk;
      } else if (ext >= blk && !vec) {
        A->lo = tn_n_op2(b->n, TN_S_MIN, A->lo, tn_nb_i64(b, ext - blk));
        A->hi = tn_nb_add2(b, A->lo, tn_nb_i64(b, blk));
        A->len = blk;
      } else if (ext < blk) {
        A->hi = tn_nb_i64(b, ext);
        A->len = ext;
      } else {
        A->hi = tn_n_op2(b->n, TN_S_MIN, tn_nb_add2(b, A->lo, tn_nb_i64(b, blk)), tn_nb_i64(b, ext));
        A->len = 0;
      }
    } else {
      A->hi = tn_n_op2(b->n, TN_S_MIN, tn_nb_add2(b, A->lo, tn_nb_i64(b, blk)), tn_nb_dimv(b, b->an->extent[a]));
      A->len = 0;
    }
    A->blk_lo = A->lo;
  }
  for (uint32_t i = 0; i < s->n_loop; i++)
    if (s->loop[i].outer) run_loop(b, &s->loop[i]);
  shared(b, 0);
  tn_n_end(b->n);
}

tn_status tn_nest_build(tn_diag *d, tn_arena *arena, tn_kdef *k, const tn_ksched *s, const tn_target *t, tn_nest **out,
                        tn_nest_info *info) {
  tn_nb *b = TN_NEW(arena, tn_nb, 1);
  if (!b) return tn_fail(d, TN_E_NOMEM, "nest of %s", k->name);
  *b = (tn_nb){.d = d, .a = arena, .k = k, .s = s, .t = t, .info = info};
  memset(info, 0, sizeof *info);
  TN_TRY(tn_kan_make(d, arena, k, &b->an));
  for (uint32_t i = 0; i < s->n_merge; i++)
    if (!tn_kan_merge(b->an, s->merge_from[i], s->merge_to[i]))
      return tn_fail(d, TN_E_VERIFY, "kernel %s: axes %s and %s do not merge", k->name, k->axis[s->merge_from[i]].name,
                     k->axis[s->merge_to[i]].name);
  TN_TRY_WHILE(d, tn_nest_create(arena, k->name, &b->n), "nest of %s", k->name);
  b->memo = TN_NEW(arena, tn_nv, (size_t)k->n_x * TN_NB_SLOTS);
  b->stage_x = TN_NEW(arena, tn_kx_id, k->n_stage + 1);
  b->scratch = TN_NEW(arena, int, k->n_stage + 1);
  b->scr_v = TN_NEW(arena, int8_t, k->n_stage + 1);
  b->scr_outer = TN_NEW(arena, bool, k->n_stage + 1);
  b->n->param = TN_NEW(arena, tn_nparam, k->n_param + 1);
  if (!b->memo || !b->stage_x || !b->scratch || !b->scr_v || !b->scr_outer || !b->n->param)
    return tn_fail(d, TN_E_NOMEM, "nest of %s", k->name);
  for (uint32_t i = 1; i < k->n_x; i++)
    if (k->x[i].op == TN_KX_STAGE) b->stage_x[k->x[i].ref] = i;
  for (uint32_t i = 0; i < k->n_param; i++) b->n->param[i] = (tn_nparam){k->param[i].name, k->param[i].dtype, k->param[i].written};
  b->n->n_param = k->n_param;
  blocks(b);
  if (b->n->oom) return tn_fail(d, TN_E_NOMEM, "nest of %s", k->name);
  if (b->st != TN_OK) return b->st;
  *out = b->n;
  return TN_OK;
}

/* nest_build.c: definition + schedule = loops. One generator for every class: a tile of R rows by N vectors is evaluated stage by stage.
 *
 * Blocks of the parallel axes come from the kernel's block range; inside a block, loops of the schedule run one after another, each over its
 * spatial axes; on the innermost tile the reductions keep R x N registers over their reduction loops, then the remaining stages are evaluated on
 * the finished registers and stored. An expression is evaluated at (row r, vector q); what does not depend on the row or vector axis is
 * evaluated once and shared (so a contraction's left operand becomes one broadcast per row, its right one a vector per column).
 * Tails: the vector axis by masks; rows and whole blocks by moving the last one back so that it overlaps (stores repeat equal values).
 * Expression values are memoised per scope; scopes follow the regions of the nest. */
#include <string.h>
#include "lower/lower_int.h"

#define MAX_SLOT 64
typedef struct ax { tn_nv base, lo, hi, tile; int64_t len; /* constant length of [lo, hi), 0 = not constant */ int depth; bool fixed; tn_nv blk_lo, shr_lo; } ax;
typedef struct trail { tn_kx_id x; uint8_t slot; tn_nv old; } trail;

typedef struct nb {
  tn_diag *d; tn_arena *a;
  const tn_kdef *k; tn_kan *an; const tn_ksched *s; const tn_target *t;
  tn_nest *n; tn_nest_info *info;
  ax ax[TN_DEF_MAX_AXES];
  int depth;
  const tn_kloop *L; uint32_t R, NV, lanes;
  tn_nv mask[MAX_SLOT]; bool masked;
  tn_nv piece_lo, piece_hi; int64_t piece_len; /* current piece of the first reduction axis; piece_hi 0: no pieces */
  tn_nv *memo;                    /* [n_x][MAX_SLOT] */
  trail *trail; uint32_t n_trail, cap_trail;
  tn_kx_id *stage_x;              /* [n_stage] the STAGE node, 0 = never read */
  int *scratch;                   /* [n_stage] nest base, 0 = none yet */
  int8_t *scr_v;                  /* [n_stage] innermost axis of its scratch */
  bool *scr_outer;
  tn_status st;                   /* first failure; sticky */
} nb;

static tn_nv bad(nb *b, tn_status s, const char *what) { if (b->st == TN_OK) b->st = tn_fail(b->d, s, "kernel %s: %s", b->k->name, what); return 0; }

static tn_nv dimv(nb *b, tn_dim d) {
  int64_t v;
  if (tn_dim_as_int(b->k->dims, d, &v)) return tn_n_i64(b->n, v);
  uint32_t i = 0;
  while (i < b->info->n_size && b->info->size[i] != d) i++;
  if (i == b->info->n_size) {
    if (i == 64) return bad(b, TN_E_UNSUPPORTED, "more than 64 symbolic sizes");
    b->info->size[b->info->n_size++] = d;
    b->n->n_size = b->info->n_size;
  }
  return tn_n_add(b->n, (tn_ninst){.op = TN_N_SIZE, .vt = {TN_I64, 1}, .imm = {.i = i}});
}
static tn_nv i64(nb *b, int64_t v) { return tn_n_i64(b->n, v); }
static tn_nv add2(nb *b, tn_nv x, tn_nv y) { return tn_n_op2(b->n, TN_S_ADD, x, y); }
static tn_nv mul2(nb *b, tn_nv x, tn_nv y) { return tn_n_op2(b->n, TN_S_MUL, x, y); }

/* ---- memo with scopes ---- */
static void memo_set(nb *b, tn_kx_id x, uint32_t slot, tn_nv v) {
  if (!TN_PUSH_ROOM(b->a, b->trail, b->n_trail, b->cap_trail)) { bad(b, TN_E_NOMEM, "memo"); return; }
  tn_nv *m = &b->memo[x * MAX_SLOT + slot];
  b->trail[b->n_trail++] = (trail){x, (uint8_t)slot, *m};
  *m = v;
}
static void scope_end(nb *b, uint32_t mark) {
  while (b->n_trail > mark) { trail *t = &b->trail[--b->n_trail]; b->memo[t->x * MAX_SLOT + t->slot] = t->old; }
}

static uint32_t bit(int a) { return a < 0 ? 0 : 1u << a; }
static uint32_t slot_of(const nb *b, uint32_t deps, uint32_t r, uint32_t q) {
  bool dr = b->L && (deps & bit(b->L->r_axis)), dv = b->L && (deps & bit(b->L->v_axis));
  return (dr ? r : 0) * (b->L && b->L->v_axis >= 0 ? b->L->nv : 1u) + (dv ? q : 0);
}

static tn_nv eval(nb *b, tn_kx_id x, uint32_t r, uint32_t q);

/* Sum of coef * position over axes, in order of loop depth, without the per-row and per-vector displacement. `skip`: axes left out. */
static tn_nv linear_base(nb *b, const tn_dim *coef, tn_dim base, uint32_t skip, int packed_param) {
  int order[TN_DEF_MAX_AXES], n = 0;
  for (uint32_t i = 0; i < b->k->n_axis; i++)
    if (coef[i] != 0 && !(skip >> i & 1)) {
      int j = n++;
      while (j > 0 && b->ax[order[j - 1]].depth > b->ax[i].depth) { order[j] = order[j - 1]; j--; }
      order[j] = (int)i;
    }
  tn_nv sum = dimv(b, base);
  (void)packed_param;
  for (int i = 0; i < n; i++) sum = add2(b, sum, mul2(b, b->ax[order[i]].base, dimv(b, coef[order[i]])));
  return sum;
}

static tn_nv displaced(nb *b, tn_nv sum, const tn_dim *coef, uint32_t r, uint32_t q, tn_dim lane_coef) {
  if (r && b->L->r_axis >= 0 && coef[b->L->r_axis] != 0) sum = add2(b, sum, mul2(b, i64(b, r), dimv(b, coef[b->L->r_axis])));
  if (q && b->L->v_axis >= 0 && lane_coef != 0) sum = add2(b, sum, mul2(b, i64(b, (int64_t)q * b->lanes), dimv(b, lane_coef)));
  return sum;
}

static tn_nv tail_mask(nb *b, uint32_t q) { return b->masked ? b->mask[q] : 0; }
static tn_nv splat(nb *b, tn_nv v, uint32_t lanes) { return lanes > 1 && tn_n_type(b->n, v).lanes == 1 ? tn_n_splat(b->n, v, (int)lanes) : v; }
static tn_nv lanes_iota(nb *b) { return tn_n_add(b->n, (tn_ninst){.op = TN_N_LANES, .vt = {TN_I64, (uint8_t)b->lanes}}); }

/* Packed weights: panels of T = lanes*nv positions of the vector axis; inside a panel reduction axes in loop order, then the T lanes; the
 * panels of one setting of the outer axes lie together. *panel = elements of one position of the vector axis = product of red extents. */
static bool packed_lin(nb *b, tn_kx_id x, tn_dim *coef, tn_dim *lane) {
  const tn_lin *l = &b->an->load[x];
  const tn_kloop *L = b->L;
  tn_dims *ds = b->k->dims;
  tn_dim T = (tn_dim)L->lanes * L->nv, run = T;
  memset(coef, 0, sizeof(tn_dim) * TN_DEF_MAX_AXES);
  for (uint32_t i = L->n_red; i-- > 0;) {
    if (l->coef[L->red[i]] == 0) continue;
    coef[L->red[i]] = run;
    run = tn_dim_mul(ds, run, b->an->extent[L->red[i]]);
  }
  tn_dim kprod = tn_dim_floordiv(ds, run, T);
  coef[L->v_axis] = kprod;    /* a panel start j0 (multiple of T) lies at j0 * kprod */
  *lane = 1;
  run = tn_dim_mul(ds, tn_dim_mul(ds, tn_dim_ceildiv(ds, b->an->extent[L->v_axis], T), T), kprod);
  for (uint32_t i = b->k->n_axis; i-- > 0;) {
    if (coef[i] != 0 || l->coef[i] == 0) continue;
    coef[i] = run;
    run = tn_dim_mul(ds, run, b->an->extent[i]);
  }
  return run != TN_DIM_BAD;
}

static tn_nv emit_load(nb *b, tn_kx_id x, uint32_t r, uint32_t q) {
  const tn_kx *e = &b->k->x[x];
  const tn_lin *l = &b->an->load[x];
  int va = b->L ? b->L->v_axis : -1;
  const tn_dim *coef = l->coef;
  tn_dim pcoef[TN_DEF_MAX_AXES], base = l->base, lane = va >= 0 ? l->coef[va] : 0;
  bool packed = b->s->pack && b->s->pack[e->ref];
  if (packed) {
    if (!packed_lin(b, x, pcoef, &lane)) return bad(b, TN_E_ARG, "packed size overflows");
    coef = pcoef;
    base = 0;
  }
  uint32_t gdeps = e->guard ? tn_kan_deps(b->an, e->guard) : 0, vbit = bit(va);
  bool opq_v = l->opq_deps && (l->opq_deps & vbit), gv = gdeps & vbit;
  uint32_t lanes = b->lanes;
  int in_axis = -1; /* innermost reduction axis that a padding guard does not look at: stepped through from a pointer chosen outside its loop */
  if (e->guard && !gv && !packed && b->L && b->L->n_red && !b->L->v_red) {
    uint32_t a = b->L->red[b->L->n_red - 1];
    if (coef[a] != 0 && !(gdeps >> a & 1) && !(l->opq_deps >> a & 1)) in_axis = (int)a;
  }
  tn_nv guard = e->guard ? eval(b, e->guard, r, q) : 0, v;
  tn_nv sum = linear_base(b, coef, base, (packed ? vbit : 0) | bit(in_axis), -1);
  if (packed) sum = add2(b, sum, add2(b, mul2(b, b->ax[va].tile, dimv(b, coef[va])), tn_n_op2(b->n, TN_S_SUB, b->ax[va].base, b->ax[va].tile)));
  sum = displaced(b, sum, coef, r, q, lane);
  for (uint32_t i = 0; i < l->n_opq; i++)
    if (!(tn_kan_deps(b->an, l->opq[i]) & vbit)) sum = add2(b, sum, mul2(b, eval(b, l->opq[i], r, q), dimv(b, l->opq_coef[i])));
  tn_vt vt = {e->dtype, 1}, vv = {e->dtype, (uint8_t)lanes};
  tn_nv rest = i64(b, 0);
  if (in_axis >= 0) { /* zeros are walked like the data when they are long enough, else stood on */
    tn_nv c = b->ax[in_axis].base, step = dimv(b, coef[in_axis]);
    int64_t st, len;
    bool fits = tn_dim_as_int(b->k->dims, coef[in_axis], &st) && tn_dim_as_int(b->k->dims, b->an->extent[in_axis], &len) && st >= 0 && st * len + 64 < TN_ZEROS_BYTES / 8;
    if (!fits) step = tn_n_select(b->n, guard, step, i64(b, 0));
    rest = mul2(b, c, step);
    sum = tn_n_add(b->n, (tn_ninst){.op = TN_N_SCALAR, .sop = TN_S_ADD, .vt = {TN_I64, 1}, .a = sum, .b = rest});
  }
  if (!opq_v && lane == 0 && !gv) { /* one element for all lanes */
    tn_ninst in = {.op = TN_N_LOAD, .vt = vt, .base = (int16_t)e->ref, .a = sum};
    if (guard) { in.flags = TN_NF_GUARD; in.d = guard; in.b = rest; }
    v = tn_n_add(b->n, in);
  } else {
    tn_nv m = tail_mask(b, q);
    int64_t one;
    bool unit = !opq_v && tn_dim_as_int(b->k->dims, lane, &one) && one == 1;
    if (guard && !gv && unit && !m) {
      v = tn_n_add(b->n, (tn_ninst){.op = TN_N_LOAD, .vt = vv, .base = (int16_t)e->ref, .a = sum, .b = rest, .d = guard, .flags = TN_NF_GUARD});
    } else {
      if (guard) { tn_nv g = splat(b, guard, lanes); m = m ? tn_n_op2(b->n, TN_S_AND, m, g) : g; }
      if (unit) v = tn_n_load(b->n, (int)e->ref, vv, sum, m);
      else if (!opq_v && lane != 0) v = tn_n_add(b->n, (tn_ninst){.op = TN_N_LOAD_STRIDED, .vt = vv, .base = (int16_t)e->ref, .a = sum, .b = dimv(b, lane), .c = m});
      else {
        tn_nv ix = splat(b, sum, lanes);
        if (lane != 0) ix = add2(b, ix, mul2(b, lanes_iota(b), splat(b, dimv(b, lane), lanes)));
        for (uint32_t i = 0; i < l->n_opq; i++)
          if (tn_kan_deps(b->an, l->opq[i]) & vbit) ix = add2(b, ix, mul2(b, splat(b, eval(b, l->opq[i], r, q), lanes), splat(b, dimv(b, l->opq_coef[i]), lanes)));
        v = tn_n_add(b->n, (tn_ninst){.op = TN_N_GATHER, .vt = vv, .base = (int16_t)e->ref, .a = ix, .c = m});
      }
    }
  }
  if (e->guard && (tn_dtype_is_float((tn_dtype)e->dtype) ? e->imm.f != 0 : e->imm.i != 0)) {
    uint32_t n = tn_n_type(b->n, v).lanes;
    tn_nv o = tn_n_add(b->n, (tn_ninst){.op = TN_N_CONST, .vt = {e->dtype, (uint8_t)n}, .imm = e->imm});
    v = tn_n_select(b->n, splat(b, guard, n), v, o);
  }
  return v;
}

/* ---- scratch of stages ---- */
static bool is_share(const nb *b, uint32_t axis, int64_t *step) {
  for (uint32_t i = 0; i < b->s->n_share; i++) if (b->s->share[i].axis == axis) { *step = b->s->share[i].block; return true; }
  return false;
}
static bool is_par(const nb *b, uint32_t axis, int64_t *block) {
  for (uint32_t i = 0; i < b->s->n_par; i++) if (b->s->par[i].axis == axis) { *block = b->s->par[i].block; return true; }
  return false;
}

/* Row-major over the stage's axes with axis scr_v last; extents local to the block (or to the shared step). coef as dims, total elements. */
static bool scratch_lin(nb *b, uint32_t s, tn_dim *coef, tn_dim *total) {
  uint32_t axes = tn_kan_axes(b->an, s);
  tn_dims *ds = b->k->dims;
  tn_dim run = 1;
  memset(coef, 0, sizeof(tn_dim) * TN_DEF_MAX_AXES);
  for (int pass = 0; pass < 2; pass++)
    for (uint32_t i = b->k->n_axis; i-- > 0;) {
      if (!(axes >> i & 1) || (pass == 0) != ((int)i == b->scr_v[s])) continue;
      int64_t blk;
      tn_dim ext = b->an->extent[i];
      if (!b->scr_outer[s] && is_share(b, i, &blk)) { if (blk == 1) continue; ext = tn_dim_min(ds, ext, blk); }
      else if (is_par(b, i, &blk)) { if (blk == 1) continue; ext = tn_dim_min(ds, ext, blk); if (!tn_dim_is_const(ext)) ext = blk; }
      coef[i] = run;
      run = tn_dim_mul(ds, run, ext);
    }
  *total = run;
  return run != TN_DIM_BAD;
}

static tn_nv scratch_addr(nb *b, uint32_t s, uint32_t r, uint32_t q, tn_dim *coef) {
  tn_dim total;
  if (!scratch_lin(b, s, coef, &total)) return bad(b, TN_E_ARG, "scratch size overflows");
  tn_nv sum = i64(b, 0);
  for (uint32_t i = 0; i < b->k->n_axis; i++) {
    if (coef[i] == 0) continue;
    tn_nv org = b->scr_outer[s] || !b->ax[i].shr_lo ? b->ax[i].blk_lo : b->ax[i].shr_lo;
    tn_nv pos = org ? tn_n_op2(b->n, TN_S_SUB, b->ax[i].base, org) : b->ax[i].base;
    sum = add2(b, sum, mul2(b, pos, dimv(b, coef[i])));
  }
  return displaced(b, sum, coef, r, q, b->L->v_axis >= 0 ? coef[b->L->v_axis] : 0);
}

static int scratch_base(nb *b, uint32_t s, int8_t v_axis, bool outer) {
  if (b->scratch[s]) return b->scratch[s];
  b->scr_v[s] = v_axis;
  b->scr_outer[s] = outer;
  tn_dim coef[TN_DEF_MAX_AXES], total;
  if (!scratch_lin(b, s, coef, &total)) { bad(b, TN_E_ARG, "scratch size overflows"); return 0; }
  int64_t c;
  int32_t slot = -1;
  if (!tn_dim_as_int(b->k->dims, total, &c)) {
    c = 1;
    tn_nv sz = dimv(b, total);
    if (!sz) return 0;
    slot = (int32_t)b->n->inst[sz].imm.i;
  }
  b->scratch[s] = tn_n_scratch(b->n, b->k->stage[s].name, (tn_dtype)b->k->stage[s].dtype, c + (slot < 0 ? 64 : 0), slot);
  return b->scratch[s];
}

static tn_nv load_at(nb *b, int base, uint8_t dtype, tn_nv addr, tn_dim lane, uint32_t q) {
  int64_t one;
  if (lane == 0) return tn_n_load(b->n, base, (tn_vt){dtype, 1}, addr, 0);
  tn_vt vv = {dtype, (uint8_t)b->lanes};
  if (tn_dim_as_int(b->k->dims, lane, &one) && one == 1) return tn_n_load(b->n, base, vv, addr, tail_mask(b, q));
  return tn_n_add(b->n, (tn_ninst){.op = TN_N_LOAD_STRIDED, .vt = vv, .base = (int16_t)base, .a = addr, .b = dimv(b, lane), .c = tail_mask(b, q)});
}

static void store_at(nb *b, int base, uint8_t dtype, tn_nv addr, tn_dim lane, tn_nv opq, tn_nv v, uint32_t q) {
  int64_t one;
  v = tn_n_cast(b->n, v, (tn_dtype)dtype);
  if (lane == 0 && !opq) {
    if (tn_n_type(b->n, v).lanes > 1) v = tn_n_add(b->n, (tn_ninst){.op = TN_N_EXTRACT, .vt = {dtype, 1}, .a = v});
    tn_n_store(b->n, base, addr, v, 0);
    return;
  }
  v = splat(b, v, b->lanes);
  tn_vt vv = {dtype, (uint8_t)b->lanes};
  if (!opq && tn_dim_as_int(b->k->dims, lane, &one) && one == 1) { tn_n_store(b->n, base, addr, v, tail_mask(b, q)); return; }
  if (!opq) { tn_n_add(b->n, (tn_ninst){.op = TN_N_STORE_STRIDED, .vt = vv, .base = (int16_t)base, .a = addr, .b = dimv(b, lane), .d = v, .c = tail_mask(b, q)}); return; }
  tn_nv ix = add2(b, splat(b, addr, b->lanes), opq);
  if (lane != 0) ix = add2(b, ix, mul2(b, lanes_iota(b), splat(b, dimv(b, lane), b->lanes)));
  tn_n_add(b->n, (tn_ninst){.op = TN_N_SCATTER, .vt = vv, .base = (int16_t)base, .a = ix, .b = v, .c = tail_mask(b, q)});
}

static tn_nv emit_stage(nb *b, uint32_t s, uint32_t r, uint32_t q) {
  tn_dim coef[TN_DEF_MAX_AXES];
  switch ((tn_kkeep)b->s->keep[s]) {
  case TN_KEEP_INLINE: return eval(b, b->k->stage[s].root, r, q);
  case TN_KEEP_SCRATCH: {
    if (!b->scratch[s]) return bad(b, TN_E_INTERNAL, "a stage in scratch is read before it is computed");
    tn_nv addr = scratch_addr(b, s, r, q, coef);
    return load_at(b, b->scratch[s], b->k->stage[s].dtype, addr, b->L->v_axis >= 0 ? coef[b->L->v_axis] : 0, q);
  }
  default: return bad(b, TN_E_INTERNAL, "a stage in a register is read outside its scope");
  }
}

static tn_nv eval(nb *b, tn_kx_id x, uint32_t r, uint32_t q) {
  if (b->st != TN_OK) return 0;
  uint32_t deps = tn_kan_deps(b->an, x), slot = slot_of(b, deps, r, q);
  tn_nv got = b->memo[x * MAX_SLOT + slot];
  if (got) return got;
  const tn_kx *e = &b->k->x[x];
  tn_nv v = 0, a[3] = {0};
  switch ((tn_kx_op)e->op) {
  case TN_KX_CONST: v = tn_n_add(b->n, (tn_ninst){.op = TN_N_CONST, .vt = {e->dtype, 1}, .imm = e->imm}); break;
  case TN_KX_SIZE: v = dimv(b, e->dim); break;
  case TN_KX_AXIS: {
    uint32_t i = e->ref;
    v = b->ax[i].base ? b->ax[i].base : i64(b, 0);
    if (b->L && b->L->r_axis == (int)i && r) v = add2(b, v, i64(b, r));
    if (b->L && b->L->v_axis == (int)i) {
      if (q) v = add2(b, v, i64(b, (int64_t)q * b->lanes));
      if (b->lanes > 1) v = add2(b, splat(b, v, b->lanes), lanes_iota(b));
    }
    break;
  }
  case TN_KX_LOAD: v = emit_load(b, x, r, q); break;
  case TN_KX_STAGE: v = emit_stage(b, e->ref, r, q); break;
  case TN_KX_SCALAR: {
    int n = tn_scalar_arity((tn_scalar_op)e->sop);
    uint32_t lanes = 1;
    for (int i = 0; i < n; i++) {
      a[i] = eval(b, e->arg[i], r, q);
      if (!a[i]) return 0;
      if (tn_n_type(b->n, a[i]).lanes > lanes) lanes = tn_n_type(b->n, a[i]).lanes;
    }
    for (int i = 0; i < n; i++) a[i] = splat(b, a[i], lanes);
    v = tn_n_scalar(b->n, (tn_scalar_op)e->sop, a[0], a[1], a[2]);
    break;
  }
  case TN_KX_CAST: a[0] = eval(b, e->arg[0], r, q); if (a[0]) v = tn_n_cast(b->n, a[0], (tn_dtype)e->dtype); break;
  case TN_KX_INDEX: {
    tn_nv i = eval(b, e->arg[0], r, q);
    if (!i) return 0;
    uint32_t n = tn_n_type(b->n, i).lanes;
    tn_nv ext = splat(b, dimv(b, e->dim), n), zero = splat(b, i64(b, 0), n), one = splat(b, i64(b, 1), n);
    i = tn_n_select(b->n, tn_n_op2(b->n, TN_S_LT, i, zero), add2(b, i, ext), i);
    tn_nv bad_ix = tn_n_op2(b->n, TN_S_OR, tn_n_op2(b->n, TN_S_LT, i, zero), tn_n_op2(b->n, TN_S_GE, i, ext));
    tn_n_add(b->n, (tn_ninst){.op = TN_N_INDEX_ERROR, .vt = {TN_BOOL, (uint8_t)n}, .a = bad_ix, .c = n > 1 ? tail_mask(b, q) : 0});
    tn_nv top = tn_n_op2(b->n, TN_S_SUB, ext, one);
    i = tn_n_select(b->n, tn_n_op2(b->n, TN_S_GT, i, top), top, i);
    v = tn_n_select(b->n, tn_n_op2(b->n, TN_S_LT, i, zero), zero, i);
    break;
  }
  default: return bad(b, TN_E_INTERNAL, "empty expression");
  }
  if (!v) return bad(b, b->n->oom ? TN_E_NOMEM : TN_E_INTERNAL, "expression could not be built");
  memo_set(b, x, slot, v);
  return v;
}

/* Evaluates what does not depend on the axes in `inner` before their loops open; address prefixes of the rest, too. */
static void hoist(nb *b, tn_kx_id x, uint32_t inner, uint8_t *seen) {
  if (b->st != TN_OK || seen[x]) return;
  seen[x] = 1;
  const tn_kx *e = &b->k->x[x];
  uint32_t deps = tn_kan_deps(b->an, x);
  if (!(deps & inner)) {
    if (e->op == TN_KX_CONST) return;
    if (b->L->v_red && (deps & bit(b->L->v_axis))) return;
    for (uint32_t r = 0; r < b->R; r++) for (uint32_t q = 0; q < b->NV; q++) (void)eval(b, x, r, q);
    return;
  }
  for (int j = 0; j < 3; j++) if (e->arg[j]) hoist(b, e->arg[j], inner, seen);
  if (e->op == TN_KX_STAGE && b->s->keep[e->ref] == TN_KEEP_INLINE) hoist(b, b->k->stage[e->ref].root, inner, seen);
  if (e->op != TN_KX_LOAD) return;
  if (e->guard) hoist(b, e->guard, inner, seen);
  for (uint32_t j = 0; j < b->an->load[x].n_opq; j++) hoist(b, b->an->load[x].opq[j], inner, seen);
  if (!(b->s->pack && b->s->pack[e->ref])) (void)linear_base(b, b->an->load[x].coef, b->an->load[x].base, inner, -1);
}

/* ---- reductions ---- */
typedef struct acc { tn_nv var, idx; } acc;
typedef struct red { uint32_t stage; acc *acc; } red;

static bool is_arg(uint32_t c) { return c == TN_C_ARGMAX || c == TN_C_ARGMIN; }
static tn_combiner val_comb(uint32_t c) { return c == TN_C_ARGMAX ? TN_C_MAX : c == TN_C_ARGMIN ? TN_C_MIN : (tn_combiner)c; }
static tn_scalar_op comb_op(uint32_t c) {
  switch (c) {
  case TN_C_PROD: return TN_S_MUL;
  case TN_C_MAX: case TN_C_ARGMAX: return TN_S_MAX;
  case TN_C_MIN: case TN_C_ARGMIN: return TN_S_MIN;
  case TN_C_ANY: return TN_S_OR;
  case TN_C_ALL: return TN_S_AND;
  default: return TN_S_ADD;
  }
}
static uint8_t acc_type(const nb *b, uint32_t s) { const tn_kstage *st = &b->k->stage[s]; return is_arg(st->combiner) ? b->k->x[st->root].dtype : st->dtype; }
static tn_nv isnan_v(nb *b, tn_nv v) { return tn_n_op2(b->n, TN_S_NE, v, v); }

static void store_scratch(nb *b, uint32_t s, uint32_t r, uint32_t q, int8_t va, tn_nv v) {
  int base = scratch_base(b, s, va, b->L->outer);
  tn_dim coef[TN_DEF_MAX_AXES];
  tn_nv addr = scratch_addr(b, s, r, q, coef);
  store_at(b, base, b->k->stage[s].dtype, addr, va >= 0 ? coef[va] : 0, 0, v, q);
}

/* A stage without reduction that still varies along the loop's reduction axes: computed and kept while reducing. */
static bool in_body(const nb *b, uint32_t s) {
  uint32_t red = 0;
  for (uint32_t i = 0; i < b->L->n_red; i++) red |= 1u << b->L->red[i];
  return !b->k->stage[s].n_red && (tn_kan_axes(b->an, s) & red);
}

static void accumulate(nb *b, const red *rd, uint32_t n_rd) {
  for (uint32_t i = 0; i < b->L->n_stage; i++) {
    uint32_t s = b->L->stage[i], axes = tn_kan_axes(b->an, s);
    if (!in_body(b, s)) continue;
    bool vdep = axes & bit(b->L->v_axis), rdep = axes & bit(b->L->r_axis);
    for (uint32_t r = 0; r < (rdep ? b->R : 1); r++)
      for (uint32_t q = 0; q < (vdep ? b->NV : 1) && b->st == TN_OK; q++) {
        tn_nv v = eval(b, b->k->stage[s].root, r, q);
        if (!v) return;
        memo_set(b, b->stage_x[s], slot_of(b, axes, r, q), v);
        store_scratch(b, s, r, q, vdep ? b->L->v_axis : -1, v);
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
          tn_nv x = eval(b, root->arg[0], r, q), y = eval(b, root->arg[1], r, q);
          if (!x || !y) return;
          x = splat(b, x, L);
          if (vmask) x = tn_n_select(b->n, b->mask[q], x, tn_n_f(b->n, (tn_dtype)dt, (int)L, 0)), y = tn_n_select(b->n, b->mask[q], splat(b, y, L), tn_n_f(b->n, (tn_dtype)dt, (int)L, 0));
          tn_n_set(b->n, ac->var, tn_n_fma(b->n, x, splat(b, y, L), old));
          continue;
        }
        v = eval(b, st->root, r, q);
        if (!v) return;
        v = splat(b, v, L);
        if (vmask) v = tn_n_select(b->n, b->mask[q], v, tn_n_add(b->n, (tn_ninst){.op = TN_N_CONST, .vt = {dt, (uint8_t)L}, .imm = tn_combiner_identity(val_comb(st->combiner), (tn_dtype)dt)}));
        if (!is_arg(st->combiner)) { tn_n_set(b->n, ac->var, tn_n_scalar(b->n, comb_op(st->combiner), old, v, 0)); continue; }
        /* position of the winner: the first of equals, a NaN beats everything */
        tn_nv oi = tn_n_get(b->n, ac->idx), pos = b->ax[st->red[0]].base;
        if (b->L->v_red) { if (q) pos = add2(b, pos, i64(b, (int64_t)q * b->lanes)); pos = add2(b, splat(b, pos, L), L > 1 ? lanes_iota(b) : i64(b, 0)); }
        pos = splat(b, pos, L);
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

static void set_masks(nb *b, tn_nv hi) { /* lanes below hi, for each vector of the tile at ax[v].base */
  int v = b->L->v_axis;
  b->masked = true;
  for (uint32_t q = 0; q < b->NV; q++) {
    tn_nv left = tn_n_op2(b->n, TN_S_SUB, hi, add2(b, b->ax[v].base, i64(b, (int64_t)q * b->lanes)));
    b->mask[q] = b->lanes == 1 ? tn_n_op2(b->n, TN_S_GT, left, i64(b, 0)) : tn_n_add(b->n, (tn_ninst){.op = TN_N_MASK, .vt = {TN_BOOL, (uint8_t)b->lanes}, .a = left});
  }
}

/* Runs body over the vector axis: whole tiles, then one masked tile. NV of the tail shrinks when its size is known (not for accumulators). */
typedef void (*body_fn)(nb *b, void *u);
static void over_vector(nb *b, body_fn body, void *u, bool may_shrink) {
  int v = b->L->v_axis;
  ax *A = &b->ax[v], keep = *A;
  int64_t T = (int64_t)b->lanes * b->NV;
  uint32_t NV = b->NV;
  A->depth = ++b->depth;
  tn_nv full_hi;
  if (A->len) full_hi = add2(b, A->lo, i64(b, A->len / T * T));
  else { tn_nv n = tn_n_op2(b->n, TN_S_SUB, A->hi, A->lo); full_hi = add2(b, A->lo, mul2(b, tn_n_op2(b->n, TN_S_TRUNCDIV, n, i64(b, T)), i64(b, T))); }
  if (!A->len || A->len >= T) {
    uint32_t mark = b->n_trail;
    bool loop = A->len != T;
    A->base = A->tile = loop ? tn_n_for(b->n, A->lo, full_hi, i64(b, T)) : A->lo;
    b->masked = false;
    body(b, u);
    if (loop) tn_n_end(b->n);
    scope_end(b, mark);
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
    scope_end(b, mark);
  }
  b->depth--;
  *A = keep;
}

typedef struct redctx { const red *rd; uint32_t n_rd, pos; } redctx;
static void red_loops(nb *b, void *u) {
  redctx *c = u;
  const tn_kloop *L = b->L;
  if (c->pos == L->n_red) { accumulate(b, c->rd, c->n_rd); return; }
  uint32_t inner = 0, a = L->red[c->pos];
  if (b->an->extent[a] == 0) return; /* the identity stays */
  for (uint32_t i = c->pos; i < L->n_red; i++) inner |= 1u << L->red[i];
  uint8_t *seen = tn_calloc(b->k->n_x, 1);
  if (!seen) { bad(b, TN_E_NOMEM, "hoisting"); return; }
  for (uint32_t i = 0; i < c->n_rd; i++) hoist(b, b->k->stage[c->rd[i].stage].root, inner, seen);
  tn_free(seen);
  redctx next = {c->rd, c->n_rd, c->pos + 1};
  ax *A = &b->ax[a], keep = *A;
  int64_t len;
  if (c->pos == 0 && b->piece_hi) { A->lo = b->piece_lo; A->hi = b->piece_hi; A->len = b->piece_len; }
  else {
    A->lo = i64(b, 0);
    A->hi = dimv(b, b->an->extent[a]);
    A->len = tn_dim_as_int(b->k->dims, b->an->extent[a], &len) ? len : 0;
  }
  if (L->v_red && L->v_axis == (int)a) {
    over_vector(b, red_loops, &next, false);
  } else {
    uint32_t mark = b->n_trail;
    A->depth = ++b->depth;
    A->base = tn_n_for(b->n, A->lo, A->hi, i64(b, 1));
    red_loops(b, &next);
    tn_n_end(b->n);
    b->depth--;
    scope_end(b, mark);
  }
  *A = keep;
}

static tn_nv merge_lanes(nb *b, uint32_t s, const acc *ac) { /* the NV partial vectors of one row to a scalar */
  uint32_t c = b->k->stage[s].combiner;
  tn_nv v = tn_n_get(b->n, ac[0].var);
  uint8_t dt = tn_n_type(b->n, v).dtype;
  for (uint32_t q = 1; q < b->NV; q++) v = tn_n_scalar(b->n, comb_op(c), v, tn_n_get(b->n, ac[q].var), 0);
  if (b->lanes > 1) v = tn_n_add(b->n, (tn_ninst){.op = TN_N_HREDUCE, .vt = {dt, 1}, .a = v, .imm = {.i = val_comb(c)}});
  if (!is_arg(c)) return v;
  tn_nv best = 0;
  for (uint32_t q = 0; q < b->NV; q++) { /* smallest position among the winners */
    tn_nv x = tn_n_get(b->n, ac[q].var), w = splat(b, v, b->lanes), eq = tn_n_op2(b->n, TN_S_EQ, x, w);
    if (tn_dtype_is_float((tn_dtype)dt)) eq = tn_n_op2(b->n, TN_S_OR, eq, tn_n_op2(b->n, TN_S_AND, isnan_v(b, x), isnan_v(b, w)));
    tn_nv i = tn_n_select(b->n, eq, tn_n_get(b->n, ac[q].idx), splat(b, i64(b, INT64_MAX), b->lanes));
    best = best ? tn_n_op2(b->n, TN_S_MIN, best, i) : i;
  }
  if (b->lanes > 1) best = tn_n_add(b->n, (tn_ninst){.op = TN_N_HREDUCE, .vt = {TN_I64, 1}, .a = best, .imm = {.i = TN_C_MIN}});
  return best;
}

static void finish_tile(nb *b, const red *rd, uint32_t n_rd);

/* Partial results of a block between pieces of the reduction: the stage's own scratch, one place for each element of the block. */
static void partials(nb *b, const red *rd, uint32_t n_rd, bool load) {
  for (uint32_t i = 0; i < n_rd; i++)
    for (uint32_t r = 0; r < b->R; r++)
      for (uint32_t q = 0; q < b->NV && b->st == TN_OK; q++) {
        uint32_t s = rd[i].stage;
        tn_nv var = rd[i].acc[r * b->NV + q].var;
        if (!load) { store_scratch(b, s, r, q, b->L->v_axis, tn_n_get(b->n, var)); continue; }
        int base = scratch_base(b, s, b->L->v_axis, b->L->outer);
        tn_dim coef[TN_DEF_MAX_AXES];
        tn_nv addr = scratch_addr(b, s, r, q, coef);
        tn_n_set(b->n, var, load_at(b, base, b->k->stage[s].dtype, addr, coef[b->L->v_axis], q));
      }
}

static void tile(nb *b, void *u) {
  (void)u;
  const tn_kloop *L = b->L;
  red rd[TN_LOOP_MAX_STAGES];
  uint32_t n_rd = 0, RN = b->R * b->NV;
  if (RN > MAX_SLOT) { bad(b, TN_E_INTERNAL, "tile of more than 64 registers"); return; }
  for (uint32_t i = 0; i < L->n_stage; i++) {
    uint32_t s = L->stage[i];
    if (!b->k->stage[s].n_red) continue;
    red *r = &rd[n_rd++];
    r->stage = s;
    r->acc = TN_NEW(b->a, acc, RN);
    if (!r->acc) { bad(b, TN_E_NOMEM, "accumulators"); return; }
    uint8_t dt = acc_type(b, s);
    bool vec = L->v_axis >= 0 && (L->v_red || (tn_kan_axes(b->an, s) & bit(L->v_axis)));
    tn_num id = tn_combiner_identity(val_comb(b->k->stage[s].combiner), (tn_dtype)dt);
    for (uint32_t j = 0; j < RN; j++) {
      uint8_t lanes = (uint8_t)(vec ? b->lanes : 1);
      r->acc[j].var = tn_n_var(b->n, tn_n_add(b->n, (tn_ninst){.op = TN_N_CONST, .vt = {dt, lanes}, .imm = id}));
      if (is_arg(b->k->stage[s].combiner)) r->acc[j].idx = tn_n_var(b->n, tn_n_add(b->n, (tn_ninst){.op = TN_N_CONST, .vt = {TN_I64, lanes}}));
    }
  }
  if (n_rd && b->piece_hi) {
    tn_nv ext = dimv(b, b->an->extent[L->red[0]]);
    uint32_t mark = b->n_trail;
    tn_n_if(b->n, tn_n_op2(b->n, TN_S_GT, b->piece_lo, i64(b, 0)));
    partials(b, rd, n_rd, true);
    tn_n_end(b->n);
    scope_end(b, mark);
    redctx c = {rd, n_rd, 0};
    red_loops(b, &c);
    mark = b->n_trail;
    tn_n_if(b->n, tn_n_op2(b->n, TN_S_LT, b->piece_hi, ext));
    partials(b, rd, n_rd, false);
    tn_n_end(b->n);
    scope_end(b, mark);
    tn_n_if(b->n, tn_n_op2(b->n, TN_S_GE, b->piece_hi, ext));
    finish_tile(b, rd, n_rd);
    tn_n_end(b->n);
    scope_end(b, mark);
    return;
  }
  if (n_rd) {
    redctx c = {rd, n_rd, 0};
    red_loops(b, &c);
  }
  finish_tile(b, rd, n_rd);
}

/* The reductions of the tile are complete: their values, then the stages evaluated on them. */
static void finish_tile(nb *b, const red *rd, uint32_t n_rd) {
  const tn_kloop *L = b->L;
  if (n_rd) {
    for (uint32_t i = 0; i < n_rd && b->st == TN_OK; i++) {
      uint32_t s = rd[i].stage;
      tn_kx_id x = b->stage_x[s];
      for (uint32_t r = 0; r < b->R; r++)
        for (uint32_t q = 0; q < (L->v_red ? 1 : b->NV); q++) {
          tn_nv v = L->v_red ? merge_lanes(b, s, &rd[i].acc[r * b->NV]) : tn_n_get(b->n, is_arg(b->k->stage[s].combiner) ? rd[i].acc[r * b->NV + q].idx : rd[i].acc[r * b->NV + q].var);
          if (x) memo_set(b, x, slot_of(b, tn_kan_axes(b->an, s), r, q), v);
          if (b->s->keep[s] == TN_KEEP_SCRATCH) store_scratch(b, s, r, q, L->v_red ? -1 : L->v_axis, v);
          if (b->k->stage[s].out >= 0) bad(b, TN_E_INTERNAL, "a reduction stage is an output");
        }
    }
  }
  for (uint32_t i = 0; i < L->n_stage && b->st == TN_OK; i++) {
    uint32_t s = L->stage[i];
    const tn_kstage *st = &b->k->stage[s];
    if (st->n_red || in_body(b, s)) continue;
    bool vdep = L->v_axis >= 0 && !L->v_red && (tn_kan_axes(b->an, s) & bit(L->v_axis));
    bool rdep = L->r_axis >= 0 && (tn_kan_axes(b->an, s) & bit(L->r_axis));
    for (uint32_t r = 0; r < (rdep ? b->R : 1); r++)
      for (uint32_t q = 0; q < (vdep ? b->NV : 1) && b->st == TN_OK; q++) {
        tn_nv v = eval(b, st->root, r, q);
        if (!v) return;
        if (b->stage_x[s] && !b->memo[b->stage_x[s] * MAX_SLOT + slot_of(b, tn_kan_axes(b->an, s), r, q)]) memo_set(b, b->stage_x[s], slot_of(b, tn_kan_axes(b->an, s), r, q), v);
        if (st->out >= 0) {
          const tn_lin *l = &b->an->store[s];
          uint32_t vb = vdep ? bit(L->v_axis) : 0;
          tn_nv sum = linear_base(b, l->coef, l->base, 0, -1), ov = 0;
          sum = displaced(b, sum, l->coef, r, q, vdep ? l->coef[L->v_axis] : 0);
          for (uint32_t j = 0; j < l->n_opq; j++) {
            tn_nv t = eval(b, l->opq[j], r, q);
            if (!t) return;
            if (tn_kan_deps(b->an, l->opq[j]) & vb) { t = mul2(b, splat(b, t, b->lanes), splat(b, dimv(b, l->opq_coef[j]), b->lanes)); ov = ov ? add2(b, ov, t) : t; }
            else sum = add2(b, sum, mul2(b, t, dimv(b, l->opq_coef[j])));
          }
          store_at(b, st->out, b->k->param[st->out].dtype, sum, vdep ? l->coef[L->v_axis] : 0, ov, v, q);
        }
        if (b->s->keep[s] == TN_KEEP_SCRATCH) store_scratch(b, s, r, q, vdep ? L->v_axis : -1, v);
      }
  }
}

static void spatial(nb *b, uint32_t pos);
typedef struct posctx { uint32_t pos; } posctx;
static void spatial_body(nb *b, void *u) { spatial(b, ((posctx *)u)->pos); }

static void row_body(nb *b, uint32_t pos, ax *A, tn_nv i0, uint32_t rows, bool overlap) {
  uint32_t R = b->R;
  b->R = rows;
  A->base = overlap ? tn_n_op2(b->n, TN_S_MIN, i0, tn_n_op2(b->n, TN_S_SUB, A->hi, i64(b, rows))) : i0;
  spatial(b, pos + 1);
  b->R = R;
}

static void spatial(nb *b, uint32_t pos) {
  const tn_kloop *L = b->L;
  if (b->st != TN_OK) return;
  if (pos == L->n_order) { tile(b, NULL); return; }
  uint32_t a = L->order[pos];
  ax *A = &b->ax[a], keep = *A;
  if (!A->lo) { /* neither parallel nor shared: all of it */
    int64_t len;
    A->lo = i64(b, 0);
    A->hi = dimv(b, b->an->extent[a]);
    A->len = tn_dim_as_int(b->k->dims, b->an->extent[a], &len) ? len : 0;
    if (!A->len && tn_dim_is_const(b->an->extent[a])) { *A = keep; return; }
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
    A->base = tn_n_for(b->n, A->lo, A->hi, i64(b, 1));
    spatial(b, pos + 1);
    tn_n_end(b->n);
  } else if (A->len && A->len <= R) {
    row_body(b, pos, A, A->lo, (uint32_t)A->len, false);
  } else if (A->len && (!b->piece_hi || A->len % R == 0)) {
    tn_nv i0 = tn_n_for(b->n, A->lo, A->hi, i64(b, R));
    row_body(b, pos, A, i0, R, A->len % R != 0);
    tn_n_end(b->n);
  } else if (b->piece_hi) { /* partial results must be added once: no overlap */
    tn_nv n = tn_n_op2(b->n, TN_S_SUB, A->hi, A->lo), full = add2(b, A->lo, mul2(b, tn_n_op2(b->n, TN_S_TRUNCDIV, n, i64(b, R)), i64(b, R)));
    tn_nv i0 = tn_n_for(b->n, A->lo, full, i64(b, R));
    row_body(b, pos, A, i0, R, false);
    tn_n_end(b->n);
    scope_end(b, mark);
    if (A->len) row_body(b, pos, A, full, (uint32_t)(A->len % R), false);
    else {
      i0 = tn_n_for(b->n, full, A->hi, i64(b, 1));
      row_body(b, pos, A, i0, 1, false);
      tn_n_end(b->n);
    }
  } else {
    tn_nv n = tn_n_op2(b->n, TN_S_SUB, A->hi, A->lo);
    tn_n_if(b->n, tn_n_op2(b->n, TN_S_GE, n, i64(b, R)));
    tn_nv i0 = tn_n_for(b->n, A->lo, A->hi, i64(b, R));
    row_body(b, pos, A, i0, R, true);
    tn_n_end(b->n);
    tn_n_end(b->n);
    scope_end(b, mark);
    tn_n_if(b->n, tn_n_op2(b->n, TN_S_LT, n, i64(b, R)));
    i0 = tn_n_for(b->n, A->lo, A->hi, i64(b, 1));
    row_body(b, pos, A, i0, 1, false);
    tn_n_end(b->n);
    tn_n_end(b->n);
  }
  scope_end(b, mark);
  b->depth--;
  *A = keep;
}

static void run_loop(nb *b, const tn_kloop *L) {
  uint32_t mark = b->n_trail;
  b->L = L;
  b->R = L->r_axis >= 0 ? L->rows : 1;
  b->NV = L->v_axis >= 0 ? L->nv : 1;
  b->lanes = L->v_axis >= 0 ? L->lanes : 1;
  b->masked = false;
  int64_t ext = 0;
  bool known = L->n_red && tn_dim_as_int(b->k->dims, b->an->extent[L->red[0]], &ext);
  if (L->piece > 0 && L->n_red && !(known && ext <= L->piece)) {
    tn_nv end = dimv(b, b->an->extent[L->red[0]]);
    b->piece_lo = tn_n_for(b->n, i64(b, 0), tn_n_op2(b->n, TN_S_MAX, end, i64(b, 1)), i64(b, L->piece)); /* once even when empty */
    b->piece_hi = tn_n_op2(b->n, TN_S_MIN, add2(b, b->piece_lo, i64(b, L->piece)), end);
    b->piece_len = known && ext % L->piece == 0 ? L->piece : 0;
    b->depth++;
    spatial(b, 0);
    b->depth--;
    tn_n_end(b->n);
    b->piece_hi = 0;
  } else spatial(b, 0);
  /* values of stages kept in registers outlive the loop's scope */
  tn_nv kept[TN_LOOP_MAX_STAGES] = {0};
  for (uint32_t i = 0; i < L->n_stage; i++)
    if (b->s->keep[L->stage[i]] == TN_KEEP_REG && b->stage_x[L->stage[i]]) kept[i] = b->memo[b->stage_x[L->stage[i]] * MAX_SLOT];
  scope_end(b, mark);
  for (uint32_t i = 0; i < L->n_stage; i++) if (kept[i]) memo_set(b, b->stage_x[L->stage[i]], 0, kept[i]);
  b->L = NULL;
}

static void shared(nb *b, uint32_t pos) {
  if (b->st != TN_OK) return;
  if (pos == b->s->n_share) {
    for (uint32_t i = 0; i < b->s->n_loop; i++) if (!b->s->loop[i].outer) run_loop(b, &b->s->loop[i]);
    return;
  }
  uint32_t a = b->s->share[pos].axis;
  int64_t step = b->s->share[pos].block;
  ax *A = &b->ax[a], keep = *A;
  int64_t len;
  if (!A->lo) {
    A->lo = i64(b, 0);
    A->hi = dimv(b, b->an->extent[a]);
    A->len = tn_dim_as_int(b->k->dims, b->an->extent[a], &len) ? len : 0;
  }
  uint32_t mark = b->n_trail;
  tn_nv lo = A->lo, hi = A->hi;
  A->depth = ++b->depth;
  tn_nv i0 = tn_n_for(b->n, lo, hi, i64(b, step));
  if (step == 1) { A->base = i0; A->fixed = true; }
  else if (A->len >= step) {
    A->lo = A->len % step ? tn_n_op2(b->n, TN_S_MIN, i0, tn_n_op2(b->n, TN_S_SUB, hi, i64(b, step))) : i0;
    A->hi = add2(b, A->lo, i64(b, step));
    A->len = step;
  } else {
    A->lo = i0;
    A->hi = tn_n_op2(b->n, TN_S_MIN, add2(b, i0, i64(b, step)), hi);
    A->len = A->len ? A->len : 0;
  }
  A->shr_lo = step == 1 ? i0 : A->lo;
  shared(b, pos + 1);
  tn_n_end(b->n);
  scope_end(b, mark);
  b->depth--;
  *A = keep;
}

static void blocks(nb *b) {
  const tn_ksched *s = b->s;
  tn_dims *ds = b->k->dims;
  tn_dim total = 1, count[TN_DEF_MAX_AXES];
  for (uint32_t i = 0; i < s->n_par; i++) {
    count[i] = tn_dim_ceildiv(ds, b->an->extent[s->par[i].axis], s->par[i].block);
    total = tn_dim_mul(ds, total, count[i]);
  }
  if (total == TN_DIM_BAD) { bad(b, TN_E_ARG, "number of blocks overflows"); return; }
  b->info->blocks = total;
  tn_nv lo = tn_n_add(b->n, (tn_ninst){.op = TN_N_BLOCK_LO, .vt = {TN_I64, 1}}), hi = tn_n_add(b->n, (tn_ninst){.op = TN_N_BLOCK_HI, .vt = {TN_I64, 1}});
  tn_nv t = tn_n_for(b->n, lo, hi, i64(b, 1));
  b->depth = 1;
  for (uint32_t i = s->n_par; i-- > 0;) {
    uint32_t a = s->par[i].axis;
    int64_t blk = s->par[i].block, ext;
    tn_nv n = dimv(b, count[i]), at = t;
    if (i) { /* block numbers are not negative: truncating division is floor division */
      tn_nv up = tn_n_op2(b->n, TN_S_TRUNCDIV, t, n);
      at = tn_n_op2(b->n, TN_S_SUB, t, mul2(b, up, n));
      t = up;
    }
    ax *A = &b->ax[a];
    A->depth = 1;
    A->lo = mul2(b, at, i64(b, blk));
    if (blk == 1) { A->base = A->lo; A->fixed = true; A->len = 1; A->hi = add2(b, A->lo, i64(b, 1)); }
    else if (tn_dim_as_int(ds, b->an->extent[a], &ext)) {
      bool vec = false; /* panels of a packed operand start at whole tiles: ragged, not moved back */
      for (uint32_t j = 0; j < s->n_loop; j++) vec |= s->loop[j].v_axis == (int)a;
      if (ext % blk == 0) { A->hi = add2(b, A->lo, i64(b, blk)); A->len = blk; }
      else if (ext >= blk && !vec) { A->lo = tn_n_op2(b->n, TN_S_MIN, A->lo, i64(b, ext - blk)); A->hi = add2(b, A->lo, i64(b, blk)); A->len = blk; }
      else if (ext < blk) { A->hi = i64(b, ext); A->len = ext; }
      else { A->hi = tn_n_op2(b->n, TN_S_MIN, add2(b, A->lo, i64(b, blk)), i64(b, ext)); A->len = 0; }
    } else { A->hi = tn_n_op2(b->n, TN_S_MIN, add2(b, A->lo, i64(b, blk)), dimv(b, b->an->extent[a])); A->len = 0; }
    A->blk_lo = A->lo;
  }
  for (uint32_t i = 0; i < s->n_loop; i++) if (s->loop[i].outer) run_loop(b, &s->loop[i]);
  shared(b, 0);
  tn_n_end(b->n);
}

tn_status tn_nest_build(tn_diag *d, tn_arena *arena, tn_kdef *k, const tn_ksched *s, const tn_target *t, tn_nest **out, tn_nest_info *info) {
  nb *b = TN_NEW(arena, nb, 1);
  if (!b) return tn_fail(d, TN_E_NOMEM, "nest of %s", k->name);
  *b = (nb){.d = d, .a = arena, .k = k, .s = s, .t = t, .info = info};
  memset(info, 0, sizeof *info);
  TN_TRY(tn_kan_make(d, arena, k, &b->an));
  for (uint32_t i = 0; i < s->n_merge; i++)
    if (!tn_kan_merge(b->an, s->merge_from[i], s->merge_to[i])) return tn_fail(d, TN_E_VERIFY, "kernel %s: axes %s and %s do not merge", k->name, k->axis[s->merge_from[i]].name, k->axis[s->merge_to[i]].name);
  TN_TRY_WHILE(d, tn_nest_create(arena, k->name, &b->n), "nest of %s", k->name);
  b->memo = TN_NEW(arena, tn_nv, (size_t)k->n_x * MAX_SLOT);
  b->stage_x = TN_NEW(arena, tn_kx_id, k->n_stage + 1);
  b->scratch = TN_NEW(arena, int, k->n_stage + 1);
  b->scr_v = TN_NEW(arena, int8_t, k->n_stage + 1);
  b->scr_outer = TN_NEW(arena, bool, k->n_stage + 1);
  b->n->param = TN_NEW(arena, tn_nparam, k->n_param + 1);
  if (!b->memo || !b->stage_x || !b->scratch || !b->scr_v || !b->scr_outer || !b->n->param) return tn_fail(d, TN_E_NOMEM, "nest of %s", k->name);
  for (uint32_t i = 1; i < k->n_x; i++) if (k->x[i].op == TN_KX_STAGE) b->stage_x[k->x[i].ref] = i;
  for (uint32_t i = 0; i < k->n_param; i++) b->n->param[i] = (tn_nparam){k->param[i].name, k->param[i].dtype, k->param[i].written};
  b->n->n_param = k->n_param;
  blocks(b);
  if (b->n->oom) return tn_fail(d, TN_E_NOMEM, "nest of %s", k->name);
  if (b->st != TN_OK) return b->st;
  *out = b->n;
  return TN_OK;
}

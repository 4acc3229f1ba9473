/* nest_expr.c: expressions of a definition as values of a nest, at (row r, vector q) of the current tile.
 *
 * What does not depend on the row or the vector axis is evaluated once and shared; values are memoised per scope, and scopes follow the
 * regions of the nest. Here are addresses (linear in the axes, opaque terms beside), padded loads, packed weights and the scratch of
 * stages. Which loops stand around a tile is nest_build.c's business. */
#include <string.h>
#include "lower/nest_int.h"

tn_nv tn_nb_bad(tn_nb *b, tn_status s, const char *what) {
  if (b->st == TN_OK) b->st = tn_fail(b->d, s, "kernel %s: %s", b->k->name, what);
  return 0;
}

tn_nv tn_nb_dimv(tn_nb *b, tn_dim d) {
  int64_t v;
  if (tn_dim_as_int(b->k->dims, d, &v)) return tn_n_i64(b->n, v);
  uint32_t i = 0;
  while (i < b->info->n_size && b->info->size[i] != d) i++;
  if (i == b->info->n_size) {
    if (i == 64) return tn_nb_bad(b, TN_E_UNSUPPORTED, "more than 64 symbolic sizes");
    b->info->size[b->info->n_size++] = d;
    b->n->n_size = b->info->n_size;
  }
  return tn_n_add(b->n, (tn_ninst){.op = TN_N_SIZE, .vt = {TN_I64, 1}, .imm = {.i = i}});
}

/* ---- memo with scopes ---- */
void tn_nb_memo_set(tn_nb *b, tn_kx_id x, uint32_t slot, tn_nv v) {
  if (!TN_PUSH_ROOM(b->a, b->trail, b->n_trail, b->cap_trail)) {
    tn_nb_bad(b, TN_E_NOMEM, "memo");
    return;
  }
  tn_nv *m = &b->memo[x * TN_NB_SLOTS + slot];
  b->trail[b->n_trail++] = (tn_nb_trail){x, (uint8_t)slot, *m};
  *m = v;
}
void tn_nb_scope_end(tn_nb *b, uint32_t mark) {
  while (b->n_trail > mark) {
    tn_nb_trail *t = &b->trail[--b->n_trail];
    b->memo[t->x * TN_NB_SLOTS + t->slot] = t->old;
  }
}

uint32_t tn_nb_slot_of(const tn_nb *b, uint32_t deps, uint32_t r, uint32_t q) {
  bool dr = b->L && (deps & tn_nb_bit(b->L->r_axis)), dv = b->L && (deps & tn_nb_bit(b->L->v_axis));
  return (dr ? r : 0) * (b->L && b->L->v_axis >= 0 ? b->L->nv : 1u) + (dv ? q : 0);
}

/* Sum of coef * position over axes, in order of loop depth, without the per-row and per-vector displacement. `skip`: axes left out. */
tn_nv tn_nb_linear_base(tn_nb *b, const tn_dim *coef, tn_dim base, uint32_t skip, int packed_param) {
  int order[TN_DEF_MAX_AXES], n = 0;
  for (uint32_t i = 0; i < b->k->n_axis; i++)
    if (coef[i] != 0 && !(skip >> i & 1)) {
      int j = n++;
      while (j > 0 && b->ax[order[j - 1]].depth > b->ax[i].depth) {
        order[j] = order[j - 1];
        j--;
      }
      order[j] = (int)i;
    }
  tn_nv sum = tn_nb_dimv(b, base);
  (void)packed_param;
  for (int i = 0; i < n; i++) sum = tn_nb_add2(b, sum, tn_nb_mul2(b, b->ax[order[i]].base, tn_nb_dimv(b, coef[order[i]])));
  return sum;
}

tn_nv tn_nb_displaced(tn_nb *b, tn_nv sum, const tn_dim *coef, uint32_t r, uint32_t q, tn_dim lane_coef) {
  if (r && b->L->r_axis >= 0 && coef[b->L->r_axis] != 0)
    sum = tn_nb_add2(b, sum, tn_nb_mul2(b, tn_nb_i64(b, r), tn_nb_dimv(b, coef[b->L->r_axis])));
  if (q && b->L->v_axis >= 0 && lane_coef != 0)
    sum = tn_nb_add2(b, sum, tn_nb_mul2(b, tn_nb_i64(b, (int64_t)q * b->lanes), tn_nb_dimv(b, lane_coef)));
  return sum;
}

static tn_nv tail_mask(tn_nb *b, uint32_t q) { return b->masked ? b->mask[q] : 0; }

/* Packed weights: panels of T = lanes*nv positions of the vector axis; inside a panel reduction axes in loop order, then the T lanes; the
 * panels of one setting of the outer axes lie together. Lanes along the reduction: no panels, that axis lies innermost. *panel = elements of one position of the vector axis = product of red extents. */
static bool packed_lin(tn_nb *b, tn_kx_id x, tn_dim *coef, tn_dim *lane) {
  const tn_lin *l = &b->an->load[x];
  const tn_kloop *L = b->L;
  tn_dims *ds = b->k->dims;
  tn_dim T = L->v_red ? b->an->extent[L->v_axis] : (tn_dim)L->lanes * L->nv, run = T;
  memset(coef, 0, sizeof(tn_dim) * TN_DEF_MAX_AXES);
  for (uint32_t i = L->n_red; i-- > 0;) {
    if (l->coef[L->red[i]] == 0 || (int)L->red[i] == L->v_axis) continue;
    coef[L->red[i]] = run;
    run = tn_dim_mul(ds, run, b->an->extent[L->red[i]]);
  }
  tn_dim kprod = tn_dim_floordiv(ds, run, T);
  coef[L->v_axis] = L->v_red ? 1 : kprod; /* a panel start j0 (multiple of T) lies at j0 * kprod */
  *lane = 1;
  if (!L->v_red) run = tn_dim_mul(ds, tn_dim_mul(ds, tn_dim_ceildiv(ds, b->an->extent[L->v_axis], T), T), kprod);
  for (uint32_t i = b->k->n_axis; i-- > 0;) {
    if (coef[i] != 0 || l->coef[i] == 0) continue;
    coef[i] = run;
    run = tn_dim_mul(ds, run, b->an->extent[i]);
  }
  return run != TN_DIM_BAD;
}

static tn_nv emit_load(tn_nb *b, tn_kx_id x, uint32_t r, uint32_t q) {
  const tn_kx *e = &b->k->x[x];
  const tn_lin *l = &b->an->load[x];
  const tn_kx_id padding = e->guard && !(b->clear & tn_kan_deps(b->an, e->guard)) ? e->guard : 0; /* 0: none, or known to hold */
  int va = b->L ? b->L->v_axis : -1;
  const tn_dim *coef = l->coef;
  tn_dim pcoef[TN_DEF_MAX_AXES], base = l->base, lane = va >= 0 ? l->coef[va] : 0;
  bool packed = b->s->pack && b->s->pack[e->ref];
  if (packed) {
    if (!packed_lin(b, x, pcoef, &lane)) return tn_nb_bad(b, TN_E_ARG, "packed size overflows");
    coef = pcoef;
    base = 0;
  }
  uint32_t gdeps = padding ? tn_kan_deps(b->an, padding) : 0, vbit = tn_nb_bit(va);
  bool opq_v = l->opq_deps && (l->opq_deps & vbit), gv = gdeps & vbit;
  uint32_t lanes = b->lanes;
  int in_axis =
      -1; /* innermost reduction axis that a padding guard does not look at: stepped through from a pointer chosen outside its loop */
  if (padding && !gv && !packed && b->L && b->L->n_red && !b->L->v_red) {
    uint32_t a = b->L->red[b->L->n_red - 1];
    if (coef[a] != 0 && !(gdeps >> a & 1) && !(l->opq_deps >> a & 1)) in_axis = (int)a;
  }
  tn_nv guard = padding ? tn_nb_eval(b, padding, r, q) : 0, v;
  bool panels = packed && !b->L->v_red;
  tn_nv sum = tn_nb_linear_base(b, coef, base, (panels ? vbit : 0) | tn_nb_bit(in_axis), -1);
  if (panels)
    sum = tn_nb_add2(
        b, sum,
        tn_nb_add2(b, tn_nb_mul2(b, b->ax[va].tile, tn_nb_dimv(b, coef[va])), tn_n_op2(b->n, TN_S_SUB, b->ax[va].base, b->ax[va].tile)));
  sum = tn_nb_displaced(b, sum, coef, r, q, lane);
  for (uint32_t i = 0; i < l->n_opq; i++)
    if (!(tn_kan_deps(b->an, l->opq[i]) & vbit))
      sum = tn_nb_add2(b, sum, tn_nb_mul2(b, tn_nb_eval(b, l->opq[i], r, q), tn_nb_dimv(b, l->opq_coef[i])));
  tn_vt vt = {e->dtype, 1}, vv = {e->dtype, (uint8_t)lanes};
  tn_nv rest = tn_nb_i64(b, 0);
  if (in_axis >= 0) { /* zeros are walked like the data when they are long enough, else stood on */
    tn_nv c = b->ax[in_axis].base, step = tn_nb_dimv(b, coef[in_axis]);
    int64_t st, len;
    bool fits = tn_dim_as_int(b->k->dims, coef[in_axis], &st) && tn_dim_as_int(b->k->dims, b->an->extent[in_axis], &len) && st >= 0 &&
                st * len + 64 < TN_ZEROS_BYTES / 8;
    if (!fits) step = tn_n_select(b->n, guard, step, tn_nb_i64(b, 0));
    rest = tn_nb_mul2(b, c, step);
    sum = tn_n_add(b->n, (tn_ninst){.op = TN_N_SCALAR, .sop = TN_S_ADD, .vt = {TN_I64, 1}, .a = sum, .b = rest});
  }
  if (!opq_v && lane == 0 && !gv) { /* one element for all lanes */
    tn_ninst in = {.op = TN_N_LOAD, .vt = vt, .base = (int16_t)e->ref, .a = sum};
    if (guard) {
      in.flags = TN_NF_GUARD;
      in.d = guard;
      in.b = rest;
    }
    v = tn_n_add(b->n, in);
  } else {
    tn_nv m = tail_mask(b, q);
    int64_t one;
    bool unit = !opq_v && tn_dim_as_int(b->k->dims, lane, &one) && one == 1;
    if (guard && !gv && unit && !m) {
      v = tn_n_add(b->n,
                   (tn_ninst){.op = TN_N_LOAD, .vt = vv, .base = (int16_t)e->ref, .a = sum, .b = rest, .d = guard, .flags = TN_NF_GUARD});
    } else {
      if (guard) {
        tn_nv g = tn_nb_splat(b, guard, lanes);
        m = m ? tn_n_op2(b->n, TN_S_AND, m, g) : g;
      }
      if (unit)
        v = tn_n_load(b->n, (int)e->ref, vv, sum, m);
      else if (!opq_v && lane != 0)
        v = tn_n_add(b->n,
                     (tn_ninst){.op = TN_N_LOAD_STRIDED, .vt = vv, .base = (int16_t)e->ref, .a = sum, .b = tn_nb_dimv(b, lane), .c = m});
      else {
        tn_nv ix = tn_nb_splat(b, sum, lanes);
        if (lane != 0) ix = tn_nb_add2(b, ix, tn_nb_mul2(b, tn_nb_lanes_iota(b), tn_nb_splat(b, tn_nb_dimv(b, lane), lanes)));
        for (uint32_t i = 0; i < l->n_opq; i++)
          if (tn_kan_deps(b->an, l->opq[i]) & vbit)
            ix = tn_nb_add2(
                b, ix,
                tn_nb_mul2(b, tn_nb_splat(b, tn_nb_eval(b, l->opq[i], r, q), lanes), tn_nb_splat(b, tn_nb_dimv(b, l->opq_coef[i]), lanes)));
        v = tn_n_add(b->n, (tn_ninst){.op = TN_N_GATHER, .vt = vv, .base = (int16_t)e->ref, .a = ix, .c = m});
      }
    }
  }
  if (padding && (tn_dtype_is_float((tn_dtype)e->dtype) ? e->imm.f != 0 : e->imm.i != 0)) {
    uint32_t n = tn_n_type(b->n, v).lanes;
    tn_nv o = tn_n_add(b->n, (tn_ninst){.op = TN_N_CONST, .vt = {e->dtype, (uint8_t)n}, .imm = e->imm});
    v = tn_n_select(b->n, tn_nb_splat(b, guard, n), v, o);
  }
  return v;
}

/* ---- scratch of stages ---- */
static bool is_share(const tn_nb *b, uint32_t axis, int64_t *step) {
  for (uint32_t i = 0; i < b->s->n_share; i++)
    if (b->s->share[i].axis == axis) {
      *step = b->s->share[i].block;
      return true;
    }
  return false;
}
static bool is_par(const tn_nb *b, uint32_t axis, int64_t *block) {
  for (uint32_t i = 0; i < b->s->n_par; i++)
    if (b->s->par[i].axis == axis) {
      *block = b->s->par[i].block;
      return true;
    }
  return false;
}

/* Row-major over the stage's axes with axis scr_v last; extents local to the block (or to the shared step). coef as dims, total elements.
 */
static bool scratch_lin(tn_nb *b, uint32_t s, tn_dim *coef, tn_dim *total) {
  uint32_t axes = tn_kan_axes(b->an, s);
  tn_dims *ds = b->k->dims;
  tn_dim run = 1;
  memset(coef, 0, sizeof(tn_dim) * TN_DEF_MAX_AXES);
  for (int pass = 0; pass < 2; pass++)
    for (uint32_t i = b->k->n_axis; i-- > 0;) {
      if (!(axes >> i & 1) || (pass == 0) != ((int)i == b->scr_v[s])) continue;
      int64_t blk;
      tn_dim ext = b->an->extent[i];
      if (!b->scr_outer[s] && is_share(b, i, &blk)) {
        if (blk == 1) continue;
        ext = tn_dim_min(ds, ext, blk);
      } else if (is_par(b, i, &blk)) {
        if (blk == 1) continue;
        ext = tn_dim_min(ds, ext, blk);
        if (!tn_dim_is_const(ext)) ext = blk;
      }
      coef[i] = run;
      run = tn_dim_mul(ds, run, ext);
    }
  *total = run;
  return run != TN_DIM_BAD;
}

tn_nv tn_nb_scratch_addr(tn_nb *b, uint32_t s, uint32_t r, uint32_t q, tn_dim *coef) {
  tn_dim total;
  if (!scratch_lin(b, s, coef, &total)) return tn_nb_bad(b, TN_E_ARG, "scratch size overflows");
  tn_nv sum = tn_nb_i64(b, 0);
  for (uint32_t i = 0; i < b->k->n_axis; i++) {
    if (coef[i] == 0) continue;
    tn_nv org = b->scr_outer[s] || !b->ax[i].shr_lo ? b->ax[i].blk_lo : b->ax[i].shr_lo;
    tn_nv pos = org ? tn_n_op2(b->n, TN_S_SUB, b->ax[i].base, org) : b->ax[i].base;
    sum = tn_nb_add2(b, sum, tn_nb_mul2(b, pos, tn_nb_dimv(b, coef[i])));
  }
  return tn_nb_displaced(b, sum, coef, r, q, b->L->v_axis >= 0 ? coef[b->L->v_axis] : 0);
}

int tn_nb_scratch_base(tn_nb *b, uint32_t s, int8_t v_axis, bool outer) {
  if (b->scratch[s]) return b->scratch[s];
  b->scr_v[s] = v_axis;
  b->scr_outer[s] = outer;
  tn_dim coef[TN_DEF_MAX_AXES], total;
  if (!scratch_lin(b, s, coef, &total)) {
    tn_nb_bad(b, TN_E_ARG, "scratch size overflows");
    return 0;
  }
  int64_t c;
  int32_t slot = -1;
  if (!tn_dim_as_int(b->k->dims, total, &c)) {
    c = 1;
    tn_nv sz = tn_nb_dimv(b, total);
    if (!sz) return 0;
    slot = (int32_t)b->n->inst[sz].imm.i;
  }
  b->scratch[s] = tn_n_scratch(b->n, b->k->stage[s].name, (tn_dtype)b->k->stage[s].dtype, c + (slot < 0 ? 64 : 0), slot);
  return b->scratch[s];
}

tn_nv tn_nb_load_at(tn_nb *b, int base, uint8_t dtype, tn_nv addr, tn_dim lane, uint32_t q) {
  int64_t one;
  if (lane == 0) return tn_n_load(b->n, base, (tn_vt){dtype, 1}, addr, 0);
  tn_vt vv = {dtype, (uint8_t)b->lanes};
  if (tn_dim_as_int(b->k->dims, lane, &one) && one == 1) return tn_n_load(b->n, base, vv, addr, tail_mask(b, q));
  return tn_n_add(
      b->n,
      (tn_ninst){.op = TN_N_LOAD_STRIDED, .vt = vv, .base = (int16_t)base, .a = addr, .b = tn_nb_dimv(b, lane), .c = tail_mask(b, q)});
}

void tn_nb_store_at(tn_nb *b, int base, uint8_t dtype, tn_nv addr, tn_dim lane, tn_nv opq, tn_nv v, uint32_t q) {
  int64_t one;
  v = tn_n_cast(b->n, v, (tn_dtype)dtype);
  if (lane == 0 && !opq) {
    if (tn_n_type(b->n, v).lanes > 1) v = tn_n_add(b->n, (tn_ninst){.op = TN_N_EXTRACT, .vt = {dtype, 1}, .a = v});
    tn_n_store(b->n, base, addr, v, 0);
    return;
  }
  v = tn_nb_splat(b, v, b->lanes);
  tn_vt vv = {dtype, (uint8_t)b->lanes};
  if (!opq && tn_dim_as_int(b->k->dims, lane, &one) && one == 1) {
    tn_n_store(b->n, base, addr, v, tail_mask(b, q));
    return;
  }
  if (!opq) {
    tn_n_add(
        b->n,
        (tn_ninst){
            .op = TN_N_STORE_STRIDED, .vt = vv, .base = (int16_t)base, .a = addr, .b = tn_nb_dimv(b, lane), .d = v, .c = tail_mask(b, q)});
    return;
  }
  tn_nv ix = tn_nb_add2(b, tn_nb_splat(b, addr, b->lanes), opq);
  if (lane != 0) ix = tn_nb_add2(b, ix, tn_nb_mul2(b, tn_nb_lanes_iota(b), tn_nb_splat(b, tn_nb_dimv(b, lane), b->lanes)));
  tn_n_add(b->n, (tn_ninst){.op = TN_N_SCATTER, .vt = vv, .base = (int16_t)base, .a = ix, .b = v, .c = tail_mask(b, q)});
}

static tn_nv emit_stage(tn_nb *b, uint32_t s, uint32_t r, uint32_t q) {
  tn_dim coef[TN_DEF_MAX_AXES];
  switch ((tn_kkeep)b->s->keep[s]) {
    case TN_KEEP_INLINE: return tn_nb_eval(b, b->k->stage[s].root, r, q);
    case TN_KEEP_SCRATCH: {
      if (!b->scratch[s]) return tn_nb_bad(b, TN_E_INTERNAL, "a stage in scratch is read before it is computed");
      tn_nv addr = tn_nb_scratch_addr(b, s, r, q, coef);
      return tn_nb_load_at(b, b->scratch[s], b->k->stage[s].dtype, addr, b->L->v_axis >= 0 ? coef[b->L->v_axis] : 0, q);
    }
    default: return tn_nb_bad(b, TN_E_INTERNAL, "a stage in a register is read outside its scope");
  }
}

tn_nv tn_nb_eval(tn_nb *b, tn_kx_id x, uint32_t r, uint32_t q) {
  if (b->st != TN_OK) return 0;
  uint32_t deps = tn_kan_deps(b->an, x), slot = tn_nb_slot_of(b, deps, r, q);
  tn_nv got = b->memo[x * TN_NB_SLOTS + slot];
  if (got) return got;
  const tn_kx *e = &b->k->x[x];
  tn_nv v = 0, a[3] = {0};
  switch ((tn_kx_op)e->op) {
    case TN_KX_CONST: v = tn_n_add(b->n, (tn_ninst){.op = TN_N_CONST, .vt = {e->dtype, 1}, .imm = e->imm}); break;
    case TN_KX_SIZE: v = tn_nb_dimv(b, e->dim); break;
    case TN_KX_AXIS: {
      uint32_t i = e->ref;
      v = b->ax[i].base ? b->ax[i].base : tn_nb_i64(b, 0);
      if (b->L && b->L->r_axis == (int)i && r) v = tn_nb_add2(b, v, tn_nb_i64(b, r));
      if (b->L && b->L->v_axis == (int)i) {
        if (q) v = tn_nb_add2(b, v, tn_nb_i64(b, (int64_t)q * b->lanes));
        if (b->lanes > 1) v = tn_nb_add2(b, tn_nb_splat(b, v, b->lanes), tn_nb_lanes_iota(b));
      }
      break;
    }
    case TN_KX_LOAD: v = emit_load(b, x, r, q); break;
    case TN_KX_STAGE: v = emit_stage(b, e->ref, r, q); break;
    case TN_KX_SCALAR: {
      int n = tn_scalar_arity((tn_scalar_op)e->sop);
      uint32_t lanes = 1;
      for (int i = 0; i < n; i++) {
        a[i] = tn_nb_eval(b, e->arg[i], r, q);
        if (!a[i]) return 0;
        if (tn_n_type(b->n, a[i]).lanes > lanes) lanes = tn_n_type(b->n, a[i]).lanes;
      }
      for (int i = 0; i < n; i++) a[i] = tn_nb_splat(b, a[i], lanes);
      if (e->sop == TN_S_DIVISOR) {
        tn_nv zero = tn_n_const(b->n, tn_n_type(b->n, a[0]), (tn_num){.i = 0});
        tn_n_add(b->n, (tn_ninst){.op = TN_N_ZERO_ERROR, .vt = {TN_BOOL, (uint8_t)lanes}, .a = tn_n_op2(b->n, TN_S_EQ, a[0], zero),
                                  .c = lanes == (uint32_t)b->lanes ? tail_mask(b, q) : 0});
      }
      v = tn_n_scalar(b->n, (tn_scalar_op)e->sop, a[0], a[1], a[2]);
      break;
    }
    case TN_KX_CAST:
      a[0] = tn_nb_eval(b, e->arg[0], r, q);
      if (a[0]) v = tn_n_cast(b->n, a[0], (tn_dtype)e->dtype);
      break;
    case TN_KX_INDEX: {
      tn_nv i = tn_nb_eval(b, e->arg[0], r, q);
      if (!i) return 0;
      uint32_t n = tn_n_type(b->n, i).lanes;
      tn_nv ext = tn_nb_splat(b, tn_nb_dimv(b, e->dim), n), zero = tn_nb_splat(b, tn_nb_i64(b, 0), n),
            one = tn_nb_splat(b, tn_nb_i64(b, 1), n);
      i = tn_n_select(b->n, tn_n_op2(b->n, TN_S_LT, i, zero), tn_nb_add2(b, i, ext), i);
      tn_nv bad_ix = tn_n_op2(b->n, TN_S_OR, tn_n_op2(b->n, TN_S_LT, i, zero), tn_n_op2(b->n, TN_S_GE, i, ext));
      tn_n_add(b->n, (tn_ninst){.op = TN_N_INDEX_ERROR, .vt = {TN_BOOL, (uint8_t)n}, .a = bad_ix, .c = n > 1 ? tail_mask(b, q) : 0});
      tn_nv top = tn_n_op2(b->n, TN_S_SUB, ext, one);
      i = tn_n_select(b->n, tn_n_op2(b->n, TN_S_GT, i, top), top, i);
      v = tn_n_select(b->n, tn_n_op2(b->n, TN_S_LT, i, zero), zero, i);
      break;
    }
    default: return tn_nb_bad(b, TN_E_INTERNAL, "empty expression");
  }
  if (!v) return tn_nb_bad(b, b->n->oom ? TN_E_NOMEM : TN_E_INTERNAL, "expression could not be built");
  tn_nb_memo_set(b, x, slot, v);
  return v;
}

/* Evaluates what does not depend on the axes in `inner` before their loops open; address prefixes of the rest, too. */
void tn_nb_hoist(tn_nb *b, tn_kx_id x, uint32_t inner, uint8_t *seen) {
  if (b->st != TN_OK || seen[x]) return;
  seen[x] = 1;
  const tn_kx *e = &b->k->x[x];
  uint32_t deps = tn_kan_deps(b->an, x);
  if (!(deps & inner)) {
    if (e->op == TN_KX_CONST) return;
    if (b->L->v_red && (deps & tn_nb_bit(b->L->v_axis))) return;
    for (uint32_t r = 0; r < b->R; r++)
      for (uint32_t q = 0; q < b->NV; q++) (void)tn_nb_eval(b, x, r, q);
    return;
  }
  for (int j = 0; j < 3; j++)
    if (e->arg[j]) tn_nb_hoist(b, e->arg[j], inner, seen);
  if (e->op == TN_KX_STAGE && b->s->keep[e->ref] == TN_KEEP_INLINE) tn_nb_hoist(b, b->k->stage[e->ref].root, inner, seen);
  if (e->op != TN_KX_LOAD) return;
  if (e->guard) tn_nb_hoist(b, e->guard, inner, seen);
  for (uint32_t j = 0; j < b->an->load[x].n_opq; j++) tn_nb_hoist(b, b->an->load[x].opq[j], inner, seen);
  if (!(b->s->pack && b->s->pack[e->ref])) (void)tn_nb_linear_base(b, b->an->load[x].coef, b->an->load[x].base, inner, -1);
}

void tn_nb_store_scratch(tn_nb *b, uint32_t s, uint32_t r, uint32_t q, int8_t va, tn_nv v) {
  int base = tn_nb_scratch_base(b, s, va, b->L->outer);
  tn_dim coef[TN_DEF_MAX_AXES];
  tn_nv addr = tn_nb_scratch_addr(b, s, r, q, coef);
  tn_nb_store_at(b, base, b->k->stage[s].dtype, addr, va >= 0 ? coef[va] : 0, 0, v, q);
}

/* Spelling memory: contiguous, strided, gathered and masked access, padded loads, alias facts.
 *
 * Bool is a byte in memory and i1 in registers. A one-lane masked load reads the zeros instead when it is off; a one-lane
 * masked store is a branch. Strided loads by the constants 0, -1, 2, 3, 4 are plain loads and shuffles: every byte they touch
 * lies between the first and the last element asked for. Other strides gather, or load one by one where the machine has no gather.
 * When the nest promises that written parameters overlap nothing, every base gets an alias scope of its own. */
#include <string.h>
#include "llvm_int.h"

/* ---- alias scopes ---- */

static uint32_t n_bases(const tn_ll *e) { return e->n->n_param + e->n->n_scratch + 1; }

static uint32_t base_number(const tn_ll *e, int base) {
  if (base == TN_BASE_ZEROS) return n_bases(e) - 1;
  return base >= 0 ? (uint32_t)base : e->n->n_param + (uint32_t)(-1 - base);
}

static LLVMMetadataRef self_node(tn_ll *e, LLVMMetadataRef domain) {
  LLVMMetadataRef temp = LLVMTemporaryMDNode(e->ctx, NULL, 0), two[2] = {temp, domain};
  LLVMMetadataRef node = LLVMMDNodeInContext2(e->ctx, two, domain ? 2 : 1);
  LLVMMetadataReplaceAllUsesWith(temp, node);
  return node;
}

/* Tags an access through `base` (guarded: or the zeros). Lists are made at the first access of each kind. */
static void tag(tn_ll *e, LLVMValueRef access, int base, bool guarded) {
  uint32_t n = n_bases(e), k = base_number(e, base), slot = k + (guarded ? n : 0);
  if (!e->n->noalias || n < 2) return;
  if (!e->scope[0]) {
    LLVMMetadataRef domain = self_node(e, NULL);
    for (uint32_t j = 0; j < n; j++) e->scope[j] = self_node(e, domain);
  }
  if (!e->own_scope[slot]) {
    LLVMMetadataRef own[2] = {e->scope[k], e->scope[n - 1]}, *others = TN_NEW(e->arena, LLVMMetadataRef, n);
    if (!others) {
      e->oom = true;
      return;
    }
    size_t m = 0;
    for (uint32_t j = 0; j < n; j++)
      if (j != k && !(guarded && j == n - 1)) others[m++] = e->scope[j];
    e->own_scope[slot] = LLVMMetadataAsValue(e->ctx, LLVMMDNodeInContext2(e->ctx, own, guarded ? 2 : 1));
    e->other_scopes[slot] = LLVMMetadataAsValue(e->ctx, LLVMMDNodeInContext2(e->ctx, others, m));
  }
  LLVMSetMetadata(access, e->md_scope, e->own_scope[slot]);
  LLVMSetMetadata(access, e->md_noalias, e->other_scopes[slot]);
}

/* ---- addresses ---- */

static LLVMTypeRef memory_scalar(tn_ll *e, tn_dtype t) { return t == TN_BOOL ? e->i8 : tn_ll_scalar_type(e, t); }

static LLVMTypeRef memory_type(tn_ll *e, tn_vt vt) {
  LLVMTypeRef s = memory_scalar(e, (tn_dtype)vt.dtype);
  return vt.lanes == 1 ? s : LLVMVectorType(s, vt.lanes);
}

static LLVMValueRef base_pointer(tn_ll *e, int base) {
  return base == TN_BASE_ZEROS ? e->zeros : base >= 0 ? e->param[base] : e->slot[-1 - base];
}

static LLVMValueRef gep(tn_ll *e, tn_dtype t, LLVMValueRef p, LLVMValueRef index) {
  return LLVMBuildInBoundsGEP2(e->b, memory_scalar(e, t), p, &index, 1, "");
}

/* base + index elements. x + c becomes two steps, so that accesses around one x share it and c ends in the instruction. */
static LLVMValueRef address(tn_ll *e, int base, tn_dtype t, tn_nv index) {
  const tn_ninst *i = &e->n->inst[index];
  LLVMValueRef p = base_pointer(e, base);
  int64_t c;
  if (i->op == TN_N_SCALAR && i->sop == TN_S_ADD && tn_n_is_const(e->n, i->b, &c) && e->val[i->a])
    return gep(e, t, gep(e, t, p, e->val[i->a]), e->val[i->b]);
  return gep(e, t, p, e->val[index]);
}

static unsigned align_of(tn_dtype t) { return (unsigned)tn_dtype_size(t); }

/* memory form <-> register form of a value */
static LLVMValueRef to_register(tn_ll *e, tn_vt vt, LLVMValueRef v) {
  return vt.dtype == TN_BOOL ? LLVMBuildICmp(e->b, LLVMIntNE, v, LLVMConstNull(LLVMTypeOf(v)), "") : v;
}

static LLVMValueRef to_memory(tn_ll *e, tn_vt vt, LLVMValueRef v) {
  return vt.dtype == TN_BOOL ? LLVMBuildZExt(e->b, v, memory_type(e, vt), "") : v;
}

static LLVMValueRef plain_load(tn_ll *e, const tn_ninst *i, tn_vt vt, LLVMValueRef p) {
  LLVMValueRef v = LLVMBuildLoad2(e->b, memory_type(e, vt), p, "");
  LLVMSetAlignment(v, align_of((tn_dtype)vt.dtype));
  tag(e, v, i->base, i->op == TN_N_LOAD && (i->flags & TN_NF_GUARD));
  return v;
}

/* ---- loads ---- */

static LLVMValueRef masked_load(tn_ll *e, const tn_ninst *i, LLVMValueRef p) {
  LLVMTypeRef mt = memory_type(e, i->vt), types[2] = {mt, e->ptr};
  LLVMValueRef args[4] = {p, LLVMConstInt(e->i32, align_of((tn_dtype)i->vt.dtype), 0), e->val[i->c], LLVMConstNull(mt)};
  LLVMValueRef v = tn_ll_intrinsic(e, "llvm.masked.load", types, 2, args, 4);
  tag(e, v, i->base, i->op == TN_N_LOAD && (i->flags & TN_NF_GUARD));
  return v;
}

static LLVMValueRef load_contiguous(tn_ll *e, const tn_ninst *i, LLVMValueRef p) {
  tn_dtype t = (tn_dtype)i->vt.dtype;
  if (i->flags & TN_NF_GUARD) {
    const tn_ninst *a = &e->n->inst[i->a];
    if (a->op == TN_N_SCALAR && a->sop == TN_S_ADD && a->b == i->b) { /* base[x + b] or zeros[b]: one choice of pointer, which loops over b leave outside */
      LLVMValueRef from = LLVMBuildSelect(e->b, e->val[i->d], gep(e, t, base_pointer(e, i->base), e->val[a->a]), e->zeros, "");
      p = gep(e, t, from, e->val[i->b]);
    } else p = LLVMBuildSelect(e->b, e->val[i->d], p, gep(e, t, e->zeros, e->val[i->b]), "");
  }
  if (i->c && i->vt.lanes > 1) return masked_load(e, i, p);
  if (!i->c) return plain_load(e, i, i->vt, p);
  p = LLVMBuildSelect(e->b, e->val[i->c], p, e->zeros, "");
  LLVMValueRef v = LLVMBuildLoad2(e->b, memory_type(e, i->vt), p, "");
  LLVMSetAlignment(v, align_of(t));
  tag(e, v, i->base, true);
  return v;
}

static LLVMValueRef insert(tn_ll *e, LLVMValueRef v, LLVMValueRef x, unsigned k) {
  return LLVMBuildInsertElement(e->b, v, x, LLVMConstInt(e->i64, k, 0), "");
}

/* One scalar load a lane. */
static LLVMValueRef load_lanes(tn_ll *e, const tn_ninst *i, LLVMValueRef index) {
  tn_vt one = {i->vt.dtype, 1};
  LLVMValueRef v = LLVMGetPoison(memory_type(e, i->vt)), p = base_pointer(e, i->base);
  for (unsigned k = 0; k < i->vt.lanes; k++) {
    LLVMValueRef at = LLVMBuildExtractElement(e->b, index, LLVMConstInt(e->i64, k, 0), "");
    v = insert(e, v, plain_load(e, i, one, gep(e, (tn_dtype)i->vt.dtype, p, at)), k);
  }
  return v;
}

static LLVMValueRef all_ones(tn_ll *e, unsigned lanes) { return tn_ll_splat_const(LLVMConstInt(e->i1, 1, 0), lanes); }

/* A gather of memory elements at `index` (i64 lanes). */
static LLVMValueRef gather(tn_ll *e, const tn_ninst *i, LLVMValueRef index) {
  tn_dtype t = (tn_dtype)i->vt.dtype;
  bool has_gather = tn_target_has(e->t, TN_TF_AVX2) && tn_dtype_size(t) >= 4;
  if (!i->c && !has_gather) return load_lanes(e, i, index);
  LLVMTypeRef mt = memory_type(e, i->vt), types[2] = {mt, LLVMVectorType(e->ptr, i->vt.lanes)};
  LLVMValueRef p = gep(e, t, base_pointer(e, i->base), index);
  LLVMValueRef args[4] = {p, LLVMConstInt(e->i32, align_of(t), 0), i->c ? e->val[i->c] : all_ones(e, i->vt.lanes), LLVMConstNull(mt)};
  LLVMValueRef v = tn_ll_intrinsic(e, "llvm.masked.gather", types, 2, args, 4);
  tag(e, v, i->base, false);
  return v;
}

/* a + k * b for every lane k, b scalar. */
static LLVMValueRef lane_indices(tn_ll *e, const tn_ninst *i) {
  LLVMValueRef k[64];
  unsigned lanes = i->vt.lanes;
  for (unsigned j = 0; j < lanes; j++) k[j] = LLVMConstInt(e->i64, j, 0);
  LLVMValueRef step = LLVMBuildMul(e->b, LLVMConstVector(k, lanes), tn_ll_splat(e, e->val[i->b], lanes), "");
  return LLVMBuildAdd(e->b, tn_ll_splat(e, e->val[i->a], lanes), step, "");
}

/* Lanes a, a+s, ... from s full vectors that end with the last lane's element; one shuffle for each vector after the first. */
static LLVMValueRef load_interleaved(tn_ll *e, const tn_ninst *i, unsigned s) {
  unsigned lanes = i->vt.lanes, last = (lanes - 1) * s;
  tn_dtype t = (tn_dtype)i->vt.dtype;
  LLVMValueRef p = address(e, i->base, t, i->a), v = NULL, at[64];
  for (unsigned part = 0; part < s; part++) {
    unsigned start = part + 1 < s ? part * lanes : last + 1 - lanes; /* the last one is moved back to stay inside */
    LLVMValueRef w = plain_load(e, i, i->vt, gep(e, t, p, LLVMConstInt(e->i64, start, 0)));
    for (unsigned k = 0; k < lanes; k++) {
      unsigned element = k * s;
      bool here = element >= start && element < start + lanes;
      at[k] = LLVMConstInt(e->i32, !v ? (here ? element - start : 0) : here ? lanes + element - start : k, 0);
    }
    v = LLVMBuildShuffleVector(e->b, v ? v : w, v ? w : LLVMGetPoison(LLVMTypeOf(w)), LLVMConstVector(at, lanes), "");
  }
  return v;
}

static LLVMValueRef load_reversed(tn_ll *e, const tn_ninst *i) {
  unsigned lanes = i->vt.lanes;
  LLVMValueRef at[64], start = LLVMConstInt(e->i64, (uint64_t)(1 - (int64_t)lanes), 1);
  LLVMValueRef v = plain_load(e, i, i->vt, gep(e, (tn_dtype)i->vt.dtype, address(e, i->base, (tn_dtype)i->vt.dtype, i->a), start));
  for (unsigned k = 0; k < lanes; k++) at[k] = LLVMConstInt(e->i32, lanes - 1 - k, 0);
  return LLVMBuildShuffleVector(e->b, v, LLVMGetPoison(LLVMTypeOf(v)), LLVMConstVector(at, lanes), "");
}

static LLVMValueRef load_strided(tn_ll *e, const tn_ninst *i) {
  tn_dtype t = (tn_dtype)i->vt.dtype;
  int64_t s;
  bool known = tn_n_is_const(e->n, i->b, &s);
  if (i->vt.lanes == 1 || (known && s == 1)) return load_contiguous(e, i, address(e, i->base, t, i->a));
  if (known && !i->c) {
    if (s == 0) return tn_ll_splat(e, plain_load(e, i, (tn_vt){i->vt.dtype, 1}, address(e, i->base, t, i->a)), i->vt.lanes);
    if (s == -1) return load_reversed(e, i);
    if (s >= 2 && s <= 4) return load_interleaved(e, i, (unsigned)s);
  }
  return gather(e, i, lane_indices(e, i));
}

LLVMValueRef tn_ll_load(tn_ll *e, const tn_ninst *i) {
  LLVMValueRef v;
  if (i->op == TN_N_LOAD_STRIDED) v = load_strided(e, i);
  else if (i->op == TN_N_GATHER && i->vt.lanes > 1) v = gather(e, i, e->val[i->a]);
  else v = load_contiguous(e, i, address(e, i->base, (tn_dtype)i->vt.dtype, i->a));
  return to_register(e, i->vt, v);
}

/* ---- stores ---- */

static void plain_store(tn_ll *e, const tn_ninst *i, LLVMValueRef v, LLVMValueRef p) {
  LLVMValueRef st = LLVMBuildStore(e->b, v, p);
  unsigned bytes = (unsigned)tn_dtype_size(i->vt.dtype) * i->vt.lanes;
  bool nt = i->op == TN_N_STORE && (i->flags & TN_NF_NT) && bytes >= 16;
  LLVMSetAlignment(st, nt ? bytes : align_of((tn_dtype)i->vt.dtype));
  if (nt) LLVMSetMetadata(st, e->md_nontemporal, e->md_one);
  e->has_nt |= nt;
  tag(e, st, i->base, false);
}

/* Runs the rest of the current instruction only when `cond`: returns the block where both ways meet. */
static LLVMBasicBlockRef branch_if(tn_ll *e, LLVMValueRef cond) {
  LLVMBasicBlockRef then = tn_ll_block(e), join = tn_ll_block(e);
  LLVMMoveBasicBlockAfter(then, LLVMGetInsertBlock(e->b));
  LLVMMoveBasicBlockAfter(join, then);
  LLVMBuildCondBr(e->b, cond, then, join);
  LLVMPositionBuilderAtEnd(e->b, then);
  return join;
}

static void join_at(tn_ll *e, LLVMBasicBlockRef join) {
  LLVMBuildBr(e->b, join);
  LLVMPositionBuilderAtEnd(e->b, join);
}

static void store_contiguous(tn_ll *e, const tn_ninst *i, LLVMValueRef v) {
  tn_dtype t = (tn_dtype)i->vt.dtype;
  LLVMValueRef p = address(e, i->base, t, i->a);
  if (!i->c) {
    plain_store(e, i, v, p);
  } else if (i->vt.lanes == 1) {
    LLVMBasicBlockRef join = branch_if(e, e->val[i->c]);
    plain_store(e, i, v, p);
    join_at(e, join);
  } else {
    LLVMTypeRef types[2] = {LLVMTypeOf(v), e->ptr};
    LLVMValueRef args[4] = {v, p, LLVMConstInt(e->i32, align_of(t), 0), e->val[i->c]};
    tag(e, tn_ll_intrinsic(e, "llvm.masked.store", types, 2, args, 4), i->base, false);
  }
}

static void scatter(tn_ll *e, const tn_ninst *i, LLVMValueRef v, LLVMValueRef index) {
  tn_dtype t = (tn_dtype)i->vt.dtype;
  LLVMValueRef p = base_pointer(e, i->base);
  bool has_scatter = tn_target_has(e->t, TN_TF_AVX512) && tn_dtype_size(t) >= 4;
  if (i->c || has_scatter) {
    LLVMTypeRef types[2] = {LLVMTypeOf(v), LLVMVectorType(e->ptr, i->vt.lanes)};
    LLVMValueRef args[4] = {v, gep(e, t, p, index), LLVMConstInt(e->i32, align_of(t), 0), i->c ? e->val[i->c] : all_ones(e, i->vt.lanes)};
    tag(e, tn_ll_intrinsic(e, "llvm.masked.scatter", types, 2, args, 4), i->base, false);
    return;
  }
  for (unsigned k = 0; k < i->vt.lanes; k++) {
    LLVMValueRef lane = LLVMConstInt(e->i64, k, 0);
    LLVMValueRef at = LLVMBuildExtractElement(e->b, index, lane, ""), st;
    st = LLVMBuildStore(e->b, LLVMBuildExtractElement(e->b, v, lane, ""), gep(e, t, p, at));
    LLVMSetAlignment(st, align_of(t));
    tag(e, st, i->base, false);
  }
}

void tn_ll_store(tn_ll *e, const tn_ninst *i) {
  LLVMValueRef v = to_memory(e, i->vt, e->val[i->op == TN_N_STORE_STRIDED ? i->d : i->b]);
  int64_t s;
  bool contiguous = i->op == TN_N_STORE || i->vt.lanes == 1 || (i->op == TN_N_STORE_STRIDED && tn_n_is_const(e->n, i->b, &s) && s == 1);
  if (contiguous) store_contiguous(e, i, v);
  else scatter(e, i, v, i->op == TN_N_SCATTER ? e->val[i->a] : lane_indices(e, i));
}

/* ---- the rest ---- */

void tn_ll_prefetch(tn_ll *e, const tn_ninst *i) {
  tn_dtype t = TN_U8;
  if (i->base != TN_BASE_ZEROS) t = (tn_dtype)(i->base >= 0 ? e->n->param[i->base].dtype : e->n->scratch[-1 - i->base].dtype);
  LLVMValueRef args[4] = {address(e, i->base, t, i->a), LLVMConstInt(e->i32, 0, 0), LLVMConstInt(e->i32, 3, 0), LLVMConstInt(e->i32, 1, 0)};
  tn_ll_intrinsic(e, "llvm.prefetch", &e->ptr, 1, args, 4);
}

void tn_ll_error(tn_ll *e, const tn_ninst *i) {
  LLVMValueRef bad = e->val[i->a];
  if (i->c) bad = LLVMBuildAnd(e->b, bad, e->val[i->c], "");
  LLVMBasicBlockRef join = branch_if(e, tn_ll_any(e, bad, tn_n_type(e->n, i->a).lanes));
  LLVMValueRef st = LLVMBuildStore(e->b, LLVMConstInt(e->i32, i->op == TN_N_INDEX_ERROR ? 1 : 2, 0), e->status);
  LLVMSetAlignment(st, 4);
  LLVMSetOrdering(st, LLVMAtomicOrderingMonotonic); /* workers may report at the same time */
  join_at(e, join);
}

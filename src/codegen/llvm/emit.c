/* Spelling a nest in LLVM IR: the function, its arguments, registers and control flow.
 *
 * Nests are structured, so SSA form is built on the way instead of by a pass. A VAR is the LLVM value it holds right now.
 * At FOR every register that the region sets gets a phi at the head of the body, at END the phi learns the value of the
 * latch, and after the loop the register is a phi of "never ran" and "last turn" (or just the latter when the trip count is
 * known to be positive). Loops come out rotated: test once before, then at the bottom. IF is the same with one edge.
 *
 * Everything the kernel reads from its argument struct is loaded once in the entry block. Nothing is optimised here. */
#include <string.h>
#include "llvm_int.h"

LLVMTypeRef tn_ll_scalar_type(tn_ll *e, tn_dtype t) {
  switch (t) {
    case TN_F32: return e->f32;
    case TN_F64: return e->f64;
    case TN_F16: case TN_BF16: case TN_I16: case TN_U16: return e->i16; /* 16-bit floats are bits until they are cast */
    case TN_I64: case TN_U64: return e->i64;
    case TN_I32: case TN_U32: return e->i32;
    case TN_BOOL: return e->i1;
    default: return e->i8;
  }
}

LLVMTypeRef tn_ll_type(tn_ll *e, tn_vt vt) {
  LLVMTypeRef s = tn_ll_scalar_type(e, (tn_dtype)vt.dtype);
  return vt.lanes == 1 ? s : LLVMVectorType(s, vt.lanes);
}

LLVMValueRef tn_ll_splat_const(LLVMValueRef c, unsigned lanes) {
  LLVMValueRef all[64];
  if (lanes == 1) return c;
  for (unsigned k = 0; k < lanes; k++) all[k] = c;
  return LLVMConstVector(all, lanes);
}

LLVMValueRef tn_ll_splat(tn_ll *e, LLVMValueRef v, unsigned lanes) {
  if (lanes == 1) return v;
  if (LLVMIsConstant(v)) return tn_ll_splat_const(v, lanes);
  LLVMTypeRef vt = LLVMVectorType(LLVMTypeOf(v), lanes);
  LLVMValueRef one = LLVMBuildInsertElement(e->b, LLVMGetPoison(vt), v, LLVMConstInt(e->i64, 0, 0), "");
  return LLVMBuildShuffleVector(e->b, one, LLVMGetPoison(vt), LLVMConstNull(LLVMVectorType(e->i32, lanes)), "");
}

LLVMValueRef tn_ll_intrinsic(tn_ll *e, const char *name, LLVMTypeRef *types, unsigned n_types, LLVMValueRef *args, unsigned n_args) {
  unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
  LLVMValueRef f = LLVMGetIntrinsicDeclaration(e->mod, id, types, n_types);
  return LLVMBuildCall2(e->b, LLVMGlobalGetValueType(f), f, args, n_args, "");
}

LLVMBasicBlockRef tn_ll_block(tn_ll *e) { return LLVMAppendBasicBlockInContext(e->ctx, e->fn, ""); }

/* ---- entry ---- */

static void add_attribute(tn_ll *e, const char *key, const char *value) {
  LLVMAttributeRef a = LLVMCreateStringAttribute(e->ctx, key, (unsigned)strlen(key), value, (unsigned)strlen(value));
  LLVMAddAttributeAtIndex(e->fn, LLVMAttributeFunctionIndex, a);
}

static void add_enum_attribute(tn_ll *e, unsigned index, const char *name, uint64_t value) {
  LLVMAttributeRef a = LLVMCreateEnumAttribute(e->ctx, LLVMGetEnumAttributeKindForName(name, strlen(name)), value);
  LLVMAddAttributeAtIndex(e->fn, index, a);
}

static void declare_function(tn_ll *e) {
  LLVMTypeRef args[4] = {e->ptr, e->i64, e->i64, e->ptr};
  e->fn = LLVMAddFunction(e->mod, e->n->name, LLVMFunctionType(LLVMVoidTypeInContext(e->ctx), args, 4, 0));
  add_enum_attribute(e, LLVMAttributeFunctionIndex, "nounwind", 0);
  add_enum_attribute(e, 1, "noalias", 0);
  add_enum_attribute(e, 1, "readonly", 0);
  add_attribute(e, "no-builtins", "");
  add_attribute(e, "target-cpu", e->t->cpu);
  if (e->t->features[0]) add_attribute(e, "target-features", e->t->features);
  if (e->t->vector_bits == 512) {
    add_attribute(e, "prefer-vector-width", "512");
    add_attribute(e, "min-legal-vector-width", "512");
  }
  LLVMPositionBuilderAtEnd(e->b, tn_ll_block(e));
}

/* Field `k` of the argument struct, whose four members are all pointers. */
static LLVMValueRef load_field(tn_ll *e, LLVMValueRef base, unsigned k, LLVMTypeRef t) {
  LLVMValueRef at = LLVMConstInt(e->i64, k, 0);
  LLVMValueRef v = LLVMBuildLoad2(e->b, t, LLVMBuildInBoundsGEP2(e->b, t, base, &at, 1, ""), "");
  LLVMSetMetadata(v, e->md_invariant, e->md_empty);
  return v;
}

static void load_arguments(tn_ll *e) {
  const tn_nest *n = e->n;
  bool uses_zeros = false, uses_status = false;
  for (uint32_t k = 1; k < n->n; k++) { /* marks with a non-NULL value, loads below in a fixed order */
    const tn_ninst *i = &n->inst[k];
    bool memory = i->op >= TN_N_LOAD && i->op <= TN_N_PREFETCH;
    if (memory && i->base >= 0) e->param[i->base] = e->fn;
    if (i->op == TN_N_SIZE) e->size[i->imm.i] = e->fn;
    uses_zeros |= memory && (i->base == TN_BASE_ZEROS || (i->flags & TN_NF_GUARD) || (i->c && i->vt.lanes == 1));
    uses_status |= i->op == TN_N_INDEX_ERROR || i->op == TN_N_ZERO_ERROR;
  }
  for (uint32_t k = 0; k < n->n_scratch; k++)
    if (n->scratch[k].size_slot >= 0) e->size[n->scratch[k].size_slot] = e->fn;
  LLVMValueRef args = LLVMGetParam(e->fn, 0), ptrs = NULL, sizes = NULL;
  for (uint32_t k = 0; k < n->n_param; k++) {
    if (!e->param[k]) continue;
    if (!ptrs) ptrs = load_field(e, args, 0, e->ptr);
    e->param[k] = load_field(e, ptrs, k, e->ptr);
  }
  for (uint32_t k = 0; k < n->n_size; k++) {
    if (!e->size[k]) continue;
    if (!sizes) sizes = load_field(e, args, 1, e->ptr);
    e->size[k] = load_field(e, sizes, k, e->i64);
  }
  if (uses_zeros) e->zeros = load_field(e, args, 2, e->ptr);
  if (uses_status) e->status = load_field(e, args, 3, e->ptr);
}

/* Slot k starts where slot k-1 ends, rounded up to 64 bytes (tn_nest_scratch_bytes is the same formula). */
static void place_scratch(tn_ll *e) {
  const tn_nest *n = e->n;
  LLVMValueRef at = LLVMConstInt(e->i64, 0, 0);
  for (uint32_t k = 0; k < n->n_scratch; k++) {
    const tn_nscratch *s = &n->scratch[k];
    e->slot[k] = LLVMBuildInBoundsGEP2(e->b, e->i8, LLVMGetParam(e->fn, 3), &at, 1, "");
    LLVMValueRef bytes = LLVMConstInt(e->i64, (uint64_t)s->elems * tn_dtype_size(s->dtype), 0);
    if (s->size_slot >= 0) bytes = LLVMBuildMul(e->b, bytes, e->size[s->size_slot], "");
    bytes = LLVMBuildAnd(e->b, LLVMBuildAdd(e->b, bytes, LLVMConstInt(e->i64, 63, 0), ""), LLVMConstInt(e->i64, ~63ull, 0), "");
    at = LLVMBuildAdd(e->b, at, bytes, "");
  }
}

/* ---- regions ---- */

/* Lists the registers, declared outside, that the region of `opener` sets. */
static bool list_vars(tn_ll *e, tn_nv opener, tn_ll_region *r) {
  const tn_nest *n = e->n;
  r->first_var = e->n_vars;
  uint32_t depth = 1;
  for (uint32_t k = opener + 1; k < n->n && depth; k++) {
    const tn_ninst *i = &n->inst[k];
    if (i->op == TN_N_FOR || i->op == TN_N_IF) depth++;
    if (i->op == TN_N_END) depth--;
    if (i->op != TN_N_SET || i->a > opener || e->stamp[i->a] == opener) continue;
    e->stamp[i->a] = opener;
    if (!TN_PUSH_ROOM(e->arena, e->vars, e->n_vars, e->cap_vars)) return !(e->oom = true);
    e->vars[e->n_vars++] = (tn_ll_var){i->a, e->val[i->a], NULL};
  }
  r->n_vars = e->n_vars - r->first_var;
  return true;
}

static tn_ll_region *push_region(tn_ll *e, tn_nv opener) {
  if (!TN_PUSH_ROOM(e->arena, e->region, e->n_region, e->cap_region)) {
    e->oom = true;
    return NULL;
  }
  tn_ll_region *r = &e->region[e->n_region++];
  *r = (tn_ll_region){.opener = opener, .pre = LLVMGetInsertBlock(e->b), .body = tn_ll_block(e), .exit = tn_ll_block(e)};
  return list_vars(e, opener, r) ? r : NULL;
}

static void begin_for(tn_ll *e, tn_nv at) {
  const tn_ninst *i = &e->n->inst[at];
  tn_ll_region *r = push_region(e, at);
  if (!r) return;
  int64_t lo, hi;
  LLVMValueRef first = e->val[i->a];
  r->hi = e->val[i->b];
  r->step = e->val[i->c];
  r->guarded = !(tn_n_is_const(e->n, i->a, &lo) && tn_n_is_const(e->n, i->b, &hi) && lo < hi);
  if (r->guarded) LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, first, r->hi, ""), r->body, r->exit);
  else LLVMBuildBr(e->b, r->body);
  LLVMPositionBuilderAtEnd(e->b, r->body);
  r->iv = LLVMBuildPhi(e->b, e->i64, "");
  LLVMAddIncoming(r->iv, &first, &r->pre, 1);
  e->val[at] = r->iv;
  for (uint32_t k = 0; k < r->n_vars; k++) {
    tn_ll_var *v = &e->vars[r->first_var + k];
    v->phi = LLVMBuildPhi(e->b, tn_ll_type(e, tn_n_type(e->n, v->var)), "");
    LLVMAddIncoming(v->phi, &v->before, &r->pre, 1);
    e->val[v->var] = v->phi;
  }
}

/* !{self, !{"llvm.loop.unroll.count", factor}}: read by the unroll pass, which runs only when a nest asks for it. */
static void mark_unroll(tn_ll *e, LLVMValueRef branch, int64_t factor) {
  static const char key[] = "llvm.loop.unroll.count";
  LLVMMetadataRef pair[2] = {LLVMMDStringInContext2(e->ctx, key, sizeof key - 1), LLVMValueAsMetadata(LLVMConstInt(e->i32, (uint64_t)factor, 0))};
  LLVMMetadataRef hint = LLVMMDNodeInContext2(e->ctx, pair, 2), temp = LLVMTemporaryMDNode(e->ctx, NULL, 0);
  LLVMMetadataRef both[2] = {temp, hint};
  LLVMMetadataRef loop = LLVMMDNodeInContext2(e->ctx, both, 2);
  LLVMMetadataReplaceAllUsesWith(temp, loop);
  LLVMSetMetadata(branch, e->md_loop, LLVMMetadataAsValue(e->ctx, loop));
}

static void end_for(tn_ll *e, tn_ll_region *r) {
  const tn_ninst *i = &e->n->inst[r->opener];
  LLVMBasicBlockRef latch = LLVMGetInsertBlock(e->b);
  LLVMValueRef next = LLVMBuildNSWAdd(e->b, r->iv, r->step, "");
  LLVMValueRef branch = LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, next, r->hi, ""), r->body, r->exit);
  if (i->flags & TN_NF_UNROLL) mark_unroll(e, branch, i->imm.i);
  LLVMAddIncoming(r->iv, &next, &latch, 1);
  LLVMPositionBuilderAtEnd(e->b, r->exit);
  for (uint32_t k = 0; k < r->n_vars; k++) {
    tn_ll_var *v = &e->vars[r->first_var + k];
    LLVMValueRef last = e->val[v->var];
    LLVMAddIncoming(v->phi, &last, &latch, 1);
    if (!r->guarded) continue;
    LLVMValueRef after = LLVMBuildPhi(e->b, LLVMTypeOf(last), "");
    LLVMAddIncoming(after, &v->before, &r->pre, 1);
    LLVMAddIncoming(after, &last, &latch, 1);
    e->val[v->var] = after;
  }
}

static void begin_if(tn_ll *e, tn_nv at) {
  tn_ll_region *r = push_region(e, at);
  if (!r) return;
  LLVMBuildCondBr(e->b, e->val[e->n->inst[at].a], r->body, r->exit);
  LLVMPositionBuilderAtEnd(e->b, r->body);
}

static void end_if(tn_ll *e, tn_ll_region *r) {
  LLVMBasicBlockRef from = LLVMGetInsertBlock(e->b);
  LLVMBuildBr(e->b, r->exit);
  LLVMPositionBuilderAtEnd(e->b, r->exit);
  for (uint32_t k = 0; k < r->n_vars; k++) {
    tn_ll_var *v = &e->vars[r->first_var + k];
    LLVMValueRef last = e->val[v->var];
    if (last == v->before) continue;
    LLVMValueRef after = LLVMBuildPhi(e->b, LLVMTypeOf(last), "");
    LLVMAddIncoming(after, &v->before, &r->pre, 1);
    LLVMAddIncoming(after, &last, &from, 1);
    e->val[v->var] = after;
  }
}

static void end_region(tn_ll *e) {
  tn_ll_region *r = &e->region[--e->n_region];
  LLVMMoveBasicBlockAfter(r->exit, LLVMGetInsertBlock(e->b)); /* blocks in the order of the text */
  if (e->n->inst[r->opener].op == TN_N_FOR) end_for(e, r);
  else end_if(e, r);
  e->n_vars = r->first_var;
}

/* ---- instructions ---- */

static LLVMValueRef op_lanes(tn_ll *e, tn_vt vt) {
  LLVMValueRef all[64];
  LLVMTypeRef t = tn_ll_scalar_type(e, (tn_dtype)vt.dtype);
  for (unsigned k = 0; k < vt.lanes; k++) all[k] = LLVMConstInt(t, k, 0);
  return vt.lanes == 1 ? all[0] : LLVMConstVector(all, vt.lanes);
}

static tn_status emit_inst(tn_ll *e, tn_nv at) {
  const tn_ninst *i = &e->n->inst[at];
  LLVMValueRef *out = &e->val[at], *v = e->val;
  switch ((tn_nop)i->op) {
    case TN_N_CONST: *out = tn_ll_const(e, i->vt, i->imm); break;
    case TN_N_SIZE: *out = e->size[i->imm.i]; break;
    case TN_N_BLOCK_LO: *out = LLVMGetParam(e->fn, 1); break;
    case TN_N_BLOCK_HI: *out = LLVMGetParam(e->fn, 2); break;
    case TN_N_SCALAR: return tn_ll_op_scalar(e, i, out);
    case TN_N_FMA: {
      LLVMTypeRef t = tn_ll_type(e, i->vt);
      LLVMValueRef args[3] = {v[i->a], v[i->b], v[i->c]};
      *out = tn_ll_intrinsic(e, "llvm.fma", &t, 1, args, 3);
      break;
    }
    case TN_N_CAST: *out = tn_ll_op_cast(e, v[i->a], tn_n_type(e->n, i->a), (tn_dtype)i->vt.dtype); break;
    case TN_N_BITCAST: *out = LLVMBuildBitCast(e->b, v[i->a], tn_ll_type(e, i->vt), ""); break;
    case TN_N_SPLAT: *out = tn_ll_splat(e, v[i->a], i->vt.lanes); break;
    case TN_N_LANES: *out = op_lanes(e, i->vt); break;
    case TN_N_MASK: *out = tn_ll_op_mask(e, i); break;
    case TN_N_HREDUCE: *out = tn_ll_op_hreduce(e, i); break;
    case TN_N_EXTRACT:
      *out = tn_n_type(e->n, i->a).lanes == 1 ? v[i->a] : LLVMBuildExtractElement(e->b, v[i->a], LLVMConstInt(e->i64, (uint64_t)i->imm.i, 0), "");
      break;
    case TN_N_LOAD: case TN_N_LOAD_STRIDED: case TN_N_GATHER: *out = tn_ll_load(e, i); break;
    case TN_N_STORE: case TN_N_STORE_STRIDED: case TN_N_SCATTER: tn_ll_store(e, i); break;
    case TN_N_PREFETCH: tn_ll_prefetch(e, i); break;
    case TN_N_VAR: case TN_N_GET: *out = v[i->a]; break;
    case TN_N_SET: v[i->a] = v[i->b]; break;
    case TN_N_FOR: begin_for(e, at); break;
    case TN_N_IF: begin_if(e, at); break;
    case TN_N_END: end_region(e); break;
    case TN_N_INDEX_ERROR: case TN_N_ZERO_ERROR: tn_ll_error(e, i); break;
    case TN_N_TRANSPOSE: case TN_N_NOPS: return tn_fail(e->d, TN_E_INTERNAL, "nest @%s, %%%u: not an instruction for this emitter", e->n->name, at);
  }
  return TN_OK;
}

static bool allocate_tables(tn_ll *e) {
  const tn_nest *n = e->n;
  uint32_t n_base = n->n_param + n->n_scratch + 1;
  e->val = TN_NEW(e->arena, LLVMValueRef, n->n);
  e->stamp = TN_NEW(e->arena, uint32_t, n->n);
  e->param = TN_NEW(e->arena, LLVMValueRef, n->n_param + 1);
  e->size = TN_NEW(e->arena, LLVMValueRef, n->n_size + 1);
  e->slot = TN_NEW(e->arena, LLVMValueRef, n->n_scratch + 1);
  e->scope = TN_NEW(e->arena, LLVMMetadataRef, n_base);
  e->own_scope = TN_NEW(e->arena, LLVMValueRef, 2 * n_base);
  e->other_scopes = TN_NEW(e->arena, LLVMValueRef, 2 * n_base);
  return e->val && e->stamp && e->param && e->size && e->slot && e->scope && e->own_scope && e->other_scopes;
}

static unsigned md_kind(tn_ll *e, const char *name) { return LLVMGetMDKindIDInContext(e->ctx, name, (unsigned)strlen(name)); }

static void prepare(tn_ll *e) {
  LLVMContextRef c = e->ctx;
  e->i1 = LLVMInt1TypeInContext(c);
  e->i8 = LLVMInt8TypeInContext(c);
  e->i16 = LLVMInt16TypeInContext(c);
  e->i32 = LLVMInt32TypeInContext(c);
  e->i64 = LLVMInt64TypeInContext(c);
  e->f16 = LLVMHalfTypeInContext(c);
  e->f32 = LLVMFloatTypeInContext(c);
  e->f64 = LLVMDoubleTypeInContext(c);
  e->ptr = LLVMPointerTypeInContext(c, 0);
  e->md_scope = md_kind(e, "alias.scope");
  e->md_noalias = md_kind(e, "noalias");
  e->md_nontemporal = md_kind(e, "nontemporal");
  e->md_invariant = md_kind(e, "invariant.load");
  e->md_loop = md_kind(e, "llvm.loop");
  e->md_empty = LLVMMetadataAsValue(c, LLVMMDNodeInContext2(c, NULL, 0));
  LLVMMetadataRef one = LLVMValueAsMetadata(LLVMConstInt(e->i32, 1, 0));
  e->md_one = LLVMMetadataAsValue(c, LLVMMDNodeInContext2(c, &one, 1));
}

tn_status tn_ll_emit(tn_ll *e) {
  if (!allocate_tables(e)) return tn_fail(e->d, TN_E_NOMEM, "tables to emit %u instructions", e->n->n);
  prepare(e);
  declare_function(e);
  load_arguments(e);
  place_scratch(e);
  for (uint32_t k = 1; k < e->n->n; k++) {
    TN_TRY(emit_inst(e, k));
    if (e->oom) return tn_fail(e->d, TN_E_NOMEM, "emitting nest @%s", e->n->name);
  }
  bool x86 = strncmp(e->t->triple, "x86_64", 6) == 0;
  if (e->has_nt && x86) tn_ll_intrinsic(e, "llvm.x86.sse.sfence", NULL, 0, NULL, 0); /* non-temporal stores become visible before we report back */
  LLVMBuildRetVoid(e->b);
  return TN_OK;
}

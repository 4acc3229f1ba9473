/* codegen/llvm, private: the state of emitting one nest and the functions that emit.c, emit_ops.c and emit_memory.c share. */
#ifndef TN_LLVM_INT_H
#define TN_LLVM_INT_H
#include <llvm-c/Core.h>
#include <llvm-c/DebugInfo.h>
#include "codegen/codegen.h"

/* A FOR or IF whose END has not come yet. */
typedef struct tn_ll_region {
  tn_nv opener;
  LLVMBasicBlockRef pre, body, exit; /* pre: block before; IF: body is unused after its start */
  LLVMValueRef iv, step, hi;
  bool guarded;                      /* the body may not run at all */
  uint32_t first_var, n_vars;        /* slice of `vars`: registers that the region sets */
} tn_ll_region;

typedef struct tn_ll_var { tn_nv var; LLVMValueRef before, phi; } tn_ll_var;

typedef struct tn_ll {
  tn_diag *d;
  tn_arena *arena;
  const tn_nest *n;
  const tn_target *t;
  LLVMContextRef ctx;
  LLVMModuleRef mod;
  LLVMBuilderRef b;
  LLVMValueRef fn;
  LLVMTypeRef i1, i8, i16, i32, i64, f16, f32, f64, ptr;
  LLVMValueRef *val;      /* [n->n]; of a VAR: its value now */
  LLVMValueRef *param;    /* [n_param] loaded at entry, NULL when unused */
  LLVMValueRef *size;     /* [n_size] likewise */
  LLVMValueRef *slot;     /* [n_scratch] address of each slot */
  LLVMValueRef zeros, status;
  LLVMMetadataRef *scope; /* [n_param + n_scratch + 1] alias scope of each base, the last is zeros */
  LLVMValueRef *own_scope, *other_scopes; /* lists for metadata, lazily made */
  unsigned md_scope, md_noalias, md_nontemporal, md_invariant, md_loop;
  LLVMValueRef md_empty, md_one;
  tn_ll_region *region; uint32_t n_region, cap_region;
  tn_ll_var *vars; uint32_t n_vars, cap_vars;
  uint32_t *stamp;        /* [n->n] last opener that listed this var */
  bool has_nt;
  bool oom;
} tn_ll;

/* emit.c: builds the module; e->mod is the caller's to dispose of, whatever the result. */
tn_status tn_ll_emit(tn_ll *e);
LLVMTypeRef tn_ll_scalar_type(tn_ll *e, tn_dtype t);
LLVMTypeRef tn_ll_type(tn_ll *e, tn_vt vt);
LLVMValueRef tn_ll_splat(tn_ll *e, LLVMValueRef v, unsigned lanes);
LLVMValueRef tn_ll_splat_const(LLVMValueRef c, unsigned lanes);
/* Calls an overloaded intrinsic; types: the overload list. */
LLVMValueRef tn_ll_intrinsic(tn_ll *e, const char *name, LLVMTypeRef *types, unsigned n_types, LLVMValueRef *args, unsigned n_args);
LLVMBasicBlockRef tn_ll_block(tn_ll *e);

/* emit_ops.c */
LLVMValueRef tn_ll_const(tn_ll *e, tn_vt vt, tn_num v);
tn_status tn_ll_op_scalar(tn_ll *e, const tn_ninst *i, LLVMValueRef *out);
LLVMValueRef tn_ll_op_cast(tn_ll *e, LLVMValueRef v, tn_vt from, tn_dtype to);
LLVMValueRef tn_ll_op_hreduce(tn_ll *e, const tn_ninst *i);
LLVMValueRef tn_ll_op_mask(tn_ll *e, const tn_ninst *i);
/* Elements of v by number, `n` of them from `first` on. */
LLVMValueRef tn_ll_slice(tn_ll *e, LLVMValueRef v, unsigned first, unsigned n);
LLVMValueRef tn_ll_any(tn_ll *e, LLVMValueRef mask, unsigned lanes);

/* emit_memory.c */
LLVMValueRef tn_ll_load(tn_ll *e, const tn_ninst *i);
void tn_ll_store(tn_ll *e, const tn_ninst *i);
void tn_ll_prefetch(tn_ll *e, const tn_ninst *i);
void tn_ll_error(tn_ll *e, const tn_ninst *i);

#endif

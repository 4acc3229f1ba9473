/* codegen: nest -> bytes. Dumb on purpose: spells a nest in LLVM IR nearly one to one and asks LLVM for an object in memory. */
#ifndef TN_CODEGEN_H
#define TN_CODEGEN_H
#include "base/base.h"
#include "kir/nest.h"
#include "target/target.h"

/* Compiles one nest to a relocatable x86-64 ELF object whose only global symbol is nest->name. Thread-safe: one LLVM context per call.
 * *out_bytes: tn_malloc'ed, caller frees with tn_free. ir_text: NULL or receives the LLVM IR after optimisation (for dumps).
 * Errors: TN_E_NOMEM, TN_E_UNSUPPORTED (target unknown to this LLVM), TN_E_INTERNAL (LLVM's verifier refused: text holds its message). */
tn_status tn_codegen_object(tn_diag *d, const tn_nest *nest, const tn_target *t, void **out_bytes, size_t *out_n, tn_str *ir_text);
#endif

/* From a nest to a relocatable object: verify, emit IR, a few cheap passes, LLVM's object emitter, a look at the result.
 *
 * Nests arrive optimised (unrolled, vectorised, value-numbered), so LLVM gets only what pays: address arithmetic is
 * combined, common subexpressions and constant branches go, invariants move out of loops. No vectoriser, no idiom
 * recognition, nothing that could call a library. Target machines are expensive to make and not thread-safe, so they are
 * kept in a pool: a compile takes one for its target or makes it, and gives it back.
 *
 * Kernels call nothing outside themselves: an undefined symbol in the object is an error that names it. */
#include <elf.h>
#include <llvm-c/Analysis.h>
#include <llvm-c/Error.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "llvm_int.h"

/* ---- target machines ---- */

typedef struct machine {
  struct machine *next;
  char key[sizeof(((tn_target *)0)->triple) + sizeof(((tn_target *)0)->cpu) + sizeof(((tn_target *)0)->features) + 2];
  LLVMTargetMachineRef tm;
} machine;

static pthread_once_t targets_once = PTHREAD_ONCE_INIT;
static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static machine *pool; /* idle machines; lives as long as the process */

static void init_targets(void) {
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();
  LLVMInitializeAArch64TargetInfo();
  LLVMInitializeAArch64Target();
  LLVMInitializeAArch64TargetMC();
  LLVMInitializeAArch64AsmPrinter();
}

static machine *find_idle(const char *key) {
  machine *m = NULL;
  pthread_mutex_lock(&pool_lock);
  for (machine **p = &pool; *p; p = &(*p)->next) {
    if (strcmp((*p)->key, key) == 0) {
      m = *p;
      *p = m->next;
      break;
    }
  }
  pthread_mutex_unlock(&pool_lock);
  return m;
}

static tn_status take_machine(tn_diag *d, const tn_target *t, machine **out) {
  char key[sizeof((*out)->key)];
  pthread_once(&targets_once, init_targets);
  snprintf(key, sizeof key, "%s|%s|%s", t->triple, t->cpu, t->features);
  machine *m = find_idle(key);
  if (m) {
    *out = m;
    return TN_OK;
  }
  LLVMTargetRef target;
  char *why = NULL;
  if (LLVMGetTargetFromTriple(t->triple, &target, &why)) {
    tn_status s = tn_fail(d, TN_E_UNSUPPORTED, "this LLVM has no target %s: %s", t->triple, why ? why : "?");
    LLVMDisposeMessage(why);
    return s;
  }
  m = tn_calloc(1, sizeof *m);
  if (!m) return tn_fail(d, TN_E_NOMEM, "target machine %s", t->cpu);
  strcpy(m->key, key);
  m->tm = LLVMCreateTargetMachine(target, t->triple, t->cpu, t->features, LLVMCodeGenLevelDefault, LLVMRelocPIC, LLVMCodeModelDefault);
  if (!m->tm) {
    tn_free(m);
    return tn_fail(d, TN_E_UNSUPPORTED, "LLVM makes no machine for %s, cpu %s", t->triple, t->cpu);
  }
  *out = m;
  return TN_OK;
}

static void give_back(machine *m) {
  pthread_mutex_lock(&pool_lock);
  m->next = pool;
  pool = m;
  pthread_mutex_unlock(&pool_lock);
}

/* ---- stages ---- */

/* Keeps the first message; without a handler LLVM would print and exit. */
static void on_diagnostic(LLVMDiagnosticInfoRef info, void *user) {
  char *first = user, *text = LLVMGetDiagInfoDescription(info);
  if (LLVMGetDiagInfoSeverity(info) == LLVMDSError && !first[0]) snprintf(first, 256, "%s", text);
  LLVMDisposeMessage(text);
}

static bool wants_unroll(const tn_nest *n) {
  for (uint32_t k = 1; k < n->n; k++)
    if (n->inst[k].op == TN_N_FOR && (n->inst[k].flags & TN_NF_UNROLL)) return true;
  return false;
}

static tn_status run_passes(tn_diag *d, const tn_nest *n, LLVMModuleRef mod, LLVMTargetMachineRef tm) {
  const char *passes = wants_unroll(n) ? "function(early-cse,instcombine<no-verify-fixpoint>,loop-mssa(licm),loop-unroll<O1>,simplifycfg)"
                                       : "function(early-cse,instcombine<no-verify-fixpoint>,loop-mssa(licm),simplifycfg)";
  LLVMPassBuilderOptionsRef o = LLVMCreatePassBuilderOptions();
  LLVMErrorRef err = LLVMRunPasses(mod, passes, tm, o);
  LLVMDisposePassBuilderOptions(o);
  if (!err) return TN_OK;
  char *why = LLVMGetErrorMessage(err);
  tn_status s = tn_fail(d, TN_E_INTERNAL, "LLVM refused passes %s: %s", passes, why);
  LLVMDisposeErrorMessage(why);
  return s;
}

/* ELF64, little-endian, made by LLVM a moment ago: its structure is trusted, its symbols are not. */
static tn_status check_symbols(tn_diag *d, const tn_nest *n, const char *bytes, size_t size) {
  Elf64_Ehdr h;
  if (size < sizeof h || memcmp(bytes, ELFMAG, SELFMAG) != 0) return tn_fail(d, TN_E_INTERNAL, "nest @%s: LLVM's object of %zu bytes is not ELF", n->name, size);
  memcpy(&h, bytes, sizeof h);
  for (unsigned k = 0; k < h.e_shnum; k++) {
    Elf64_Shdr s, names;
    memcpy(&s, bytes + h.e_shoff + k * sizeof s, sizeof s);
    if (s.sh_type != SHT_SYMTAB) continue;
    memcpy(&names, bytes + h.e_shoff + s.sh_link * sizeof s, sizeof s);
    for (size_t at = sizeof(Elf64_Sym); at < s.sh_size; at += sizeof(Elf64_Sym)) {
      Elf64_Sym sym;
      memcpy(&sym, bytes + s.sh_offset + at, sizeof sym);
      const char *name = bytes + names.sh_offset + sym.st_name;
      if (sym.st_shndx == SHN_UNDEF && *name) return tn_fail(d, TN_E_INTERNAL, "nest @%s: its object calls '%s', kernels call nothing", n->name, name);
    }
  }
  return TN_OK;
}

static tn_status copy_object(tn_diag *d, const tn_nest *n, LLVMMemoryBufferRef buf, void **out_bytes, size_t *out_n) {
  size_t size = LLVMGetBufferSize(buf);
  TN_TRY(check_symbols(d, n, LLVMGetBufferStart(buf), size));
  void *copy = tn_malloc(size);
  if (!copy) return tn_fail(d, TN_E_NOMEM, "object of %zu bytes", size);
  memcpy(copy, LLVMGetBufferStart(buf), size);
  *out_bytes = copy;
  *out_n = size;
  return TN_OK;
}

static tn_status verify_module(tn_diag *d, const tn_nest *n, LLVMModuleRef mod) {
  char *why = NULL;
  tn_status s = TN_OK;
  if (LLVMVerifyModule(mod, LLVMReturnStatusAction, &why)) s = tn_fail(d, TN_E_INTERNAL, "nest @%s: LLVM's verifier: %s", n->name, why);
  LLVMDisposeMessage(why);
  return s;
}

static tn_status emit_object(tn_ll *e, LLVMTargetMachineRef tm, const char *first_message, void **out_bytes, size_t *out_n, tn_str *ir_text) {
  LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(tm);
  LLVMSetModuleDataLayout(e->mod, layout);
  LLVMDisposeTargetData(layout);
  LLVMSetTarget(e->mod, e->t->triple);
  TN_TRY(tn_ll_emit(e));
  TN_TRY(verify_module(e->d, e->n, e->mod));
  TN_TRY(run_passes(e->d, e->n, e->mod, tm));
  if (ir_text) {
    char *text = LLVMPrintModuleToString(e->mod);
    tn_str_put(ir_text, text, strlen(text));
    LLVMDisposeMessage(text);
    if (ir_text->oom) return tn_fail(e->d, TN_E_NOMEM, "text of @%s", e->n->name);
  }
  LLVMMemoryBufferRef buf = NULL;
  char *why = NULL;
  if (LLVMTargetMachineEmitToMemoryBuffer(tm, e->mod, LLVMObjectFile, &why, &buf)) {
    tn_status s = tn_fail(e->d, TN_E_INTERNAL, "nest @%s: LLVM emits no object: %s", e->n->name, why ? why : "?");
    LLVMDisposeMessage(why);
    return s;
  }
  tn_status s = first_message[0] ? tn_fail(e->d, TN_E_INTERNAL, "nest @%s: LLVM: %s", e->n->name, first_message) : copy_object(e->d, e->n, buf, out_bytes, out_n);
  LLVMDisposeMemoryBuffer(buf);
  return s;
}

tn_status tn_codegen_object(tn_diag *d, const tn_nest *nest, const tn_target *t, void **out_bytes, size_t *out_n, tn_str *ir_text) {
  TN_TRY(tn_nest_verify(d, nest));
  machine *m;
  TN_TRY(take_machine(d, t, &m));
  tn_arena arena;
  tn_arena_init(&arena);
  char first_message[256] = "";
  tn_ll e = {.d = d, .arena = &arena, .n = nest, .t = t, .ctx = LLVMContextCreate()};
  LLVMContextSetDiagnosticHandler(e.ctx, on_diagnostic, first_message);
  if (!ir_text) LLVMContextSetDiscardValueNames(e.ctx, 1);
  e.mod = LLVMModuleCreateWithNameInContext("", e.ctx); /* no name: no FILE symbol in the object */
  e.b = LLVMCreateBuilderInContext(e.ctx);
  tn_status s = emit_object(&e, m->tm, first_message, out_bytes, out_n, ir_text);
  LLVMDisposeBuilder(e.b);
  LLVMDisposeModule(e.mod);
  LLVMContextDispose(e.ctx);
  tn_arena_deinit(&arena);
  give_back(m);
  return s;
}

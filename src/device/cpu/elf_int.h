/* Loader of relocatable ELF objects into executable memory (private to the cpu device). */
#ifndef TN_CPU_ELF_H
#define TN_CPU_ELF_H
#include "base/base.h"

typedef struct tn_elf { void *base; size_t bytes; void *entry; } tn_elf;
/* Maps `object` and finds the function `symbol`. The object may be hostile: everything is checked before use, but its code
 * is not looked at. Errors: TN_E_PARSE (not an object we can read), TN_E_UNSUPPORTED (well-formed, but uses something we do not
 * load: named), TN_E_NOMEM. why: message, always ended by NUL. */
tn_status tn_elf_load(const void *object, size_t n, const char *symbol, tn_elf *out, char *why, size_t why_n);
void tn_elf_unload(tn_elf *e);
#endif

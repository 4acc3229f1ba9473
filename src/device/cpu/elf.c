/* Loads one relocatable x86-64 ELF object, as LLVM's object emitter or a package gives it.
 *
 * All allocated sections go into one anonymous mapping with three page-aligned zones: code (read and execute), constants
 * (read), data (read and write); it is writable only while we copy and relocate. Kernels are self-contained, so an
 * undefined symbol is an error that names it. Unwind tables and notes are left out: nobody unwinds through a kernel.
 * Every number of the file is checked before use and structures are read by memcpy, so truncated or malicious objects
 * fail with a message. (Format: System V ABI, AMD64 supplement, chapter 4.) Not done: COMMON, TLS, IFUNC, compressed
 * sections, more than 65,279 sections. */
#define _GNU_SOURCE
#include "elf_int.h"
#include <elf.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
enum { MACHINE = EM_X86_64 };
#else
enum { MACHINE = EM_NONE };
#endif
enum { X, R, W, N_ZONES };
#define MAX_IMAGE ((uint64_t)1 << 30)
#define NOT_LOADED UINT64_MAX

typedef struct loader {
  const unsigned char *obj;
  size_t n;
  Elf64_Ehdr eh;
  uint64_t *at;          /* [e_shnum] image offset, or NOT_LOADED */
  unsigned char *base;   /* image */
  uint64_t zone_lo[N_ZONES + 1];
  uint64_t got, n_got, n_got_used;
  Elf64_Shdr symtab, strtab;
  uint32_t symtab_index;
  uint64_t n_sym;
  bool low;              /* has 32-bit absolute relocations: map below 2 GiB */
  char *why;
  size_t why_n;
} loader;

static tn_status fail(loader *l, tn_status st, const char *fmt, ...) TN_PRINTF(3, 4);
static tn_status fail(loader *l, tn_status st, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  if (l->why_n) vsnprintf(l->why, l->why_n, fmt, ap);
  va_end(ap);
  return st;
}

static bool inside(const loader *l, uint64_t off, uint64_t size) { return off <= l->n && size <= l->n - off; }

static Elf64_Shdr section(const loader *l, uint32_t i) {
  Elf64_Shdr s;
  memcpy(&s, l->obj + l->eh.e_shoff + (uint64_t)i * sizeof s, sizeof s);
  return s;
}
static Elf64_Sym symbol_at(const loader *l, uint64_t i) {
  Elf64_Sym s;
  memcpy(&s, l->obj + l->symtab.sh_offset + i * sizeof s, sizeof s);
  return s;
}
/* The string table was checked to end with NUL. */
static const char *name_of(const loader *l, const Elf64_Sym *s) {
  return s->st_name < l->strtab.sh_size ? (const char *)l->obj + l->strtab.sh_offset + s->st_name : "?";
}

static tn_status headers(loader *l) {
  if (l->n < sizeof l->eh) return fail(l, TN_E_PARSE, "object of %zu bytes is too short for an ELF header", l->n);
  memcpy(&l->eh, l->obj, sizeof l->eh);
  const Elf64_Ehdr *h = &l->eh;
  if (memcmp(h->e_ident, ELFMAG, SELFMAG) != 0) return fail(l, TN_E_PARSE, "object does not start with the ELF mark");
  if (h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_ident[EI_DATA] != ELFDATA2LSB || h->e_ident[EI_VERSION] != EV_CURRENT)
    return fail(l, TN_E_UNSUPPORTED, "object is not a 64-bit little-endian ELF of version 1");
  if (h->e_machine != MACHINE) return fail(l, TN_E_UNSUPPORTED, "object is for machine %u, this is %d", h->e_machine, MACHINE);
  if (h->e_type != ET_REL) return fail(l, TN_E_UNSUPPORTED, "object has ELF type %u, wanted a relocatable one (1)", h->e_type);
  if (h->e_shnum == 0 || h->e_shnum >= SHN_LORESERVE || h->e_shentsize != sizeof(Elf64_Shdr) ||
      !inside(l, h->e_shoff, (uint64_t)h->e_shnum * sizeof(Elf64_Shdr)))
    return fail(l, TN_E_PARSE, "section table of %u entries at %llu leaves the object of %zu bytes", h->e_shnum, (unsigned long long)h->e_shoff, l->n);
  for (uint32_t i = 0; i < h->e_shnum; i++) {
    Elf64_Shdr s = section(l, i);
    if (s.sh_type != SHT_NULL && s.sh_type != SHT_NOBITS && !inside(l, s.sh_offset, s.sh_size))
      return fail(l, TN_E_PARSE, "section %u (%llu bytes at %llu) leaves the object of %zu bytes", i, (unsigned long long)s.sh_size, (unsigned long long)s.sh_offset, l->n);
    if (s.sh_type != SHT_SYMTAB) continue;
    if (l->symtab_index) return fail(l, TN_E_PARSE, "object has two symbol tables");
    if (s.sh_entsize != sizeof(Elf64_Sym) || s.sh_link >= h->e_shnum) return fail(l, TN_E_PARSE, "symbol table %u is malformed", i);
    l->symtab_index = i;
    l->symtab = s;
    l->n_sym = s.sh_size / sizeof(Elf64_Sym);
  }
  if (!l->symtab_index) return fail(l, TN_E_PARSE, "object has no symbol table");
  l->strtab = section(l, l->symtab.sh_link);
  if (l->strtab.sh_type != SHT_STRTAB || l->strtab.sh_size == 0 || l->obj[l->strtab.sh_offset + l->strtab.sh_size - 1] != 0)
    return fail(l, TN_E_PARSE, "names of the symbol table are not a string table");
  return TN_OK;
}

static int zone_of(const Elf64_Shdr *s) { return s->sh_flags & SHF_EXECINSTR ? X : s->sh_flags & SHF_WRITE ? W : R; }

static bool wanted(const Elf64_Shdr *s) {
  return (s->sh_flags & SHF_ALLOC) && s->sh_size && s->sh_type != SHT_NOTE && s->sh_type != SHT_X86_64_UNWIND;
}

/* Gives each wanted section its place in the image, zone by zone. */
static tn_status place(loader *l) {
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), at = 0;
  for (int z = 0; z < N_ZONES; z++) {
    l->zone_lo[z] = at;
    for (uint32_t i = 1; i < l->eh.e_shnum; i++) {
      Elf64_Shdr s = section(l, i);
      if (z == 0) l->at[i] = NOT_LOADED;
      if (!wanted(&s) || zone_of(&s) != z) continue;
      if (s.sh_type != SHT_PROGBITS && s.sh_type != SHT_NOBITS) return fail(l, TN_E_UNSUPPORTED, "section %u has type %u", i, s.sh_type);
      if (s.sh_flags & (SHF_TLS | SHF_COMPRESSED)) return fail(l, TN_E_UNSUPPORTED, "section %u is thread-local or compressed", i);
      uint64_t align = s.sh_addralign ? s.sh_addralign : 1;
      if ((align & (align - 1)) || align > page) return fail(l, TN_E_UNSUPPORTED, "section %u wants alignment %llu", i, (unsigned long long)align);
      at = (at + align - 1) & ~(align - 1);
      l->at[i] = at;
      if (s.sh_size > MAX_IMAGE || at + s.sh_size > MAX_IMAGE) return fail(l, TN_E_UNSUPPORTED, "object is larger than %llu bytes in memory", (unsigned long long)MAX_IMAGE);
      at += s.sh_size;
    }
    if (z == R) {
      at = (at + 7) & ~(uint64_t)7;
      l->got = at;
      at += 8 * l->n_got;
    }
    at = (at + page - 1) & ~(page - 1);
  }
  l->zone_lo[N_ZONES] = at;
  if (at == 0) return fail(l, TN_E_PARSE, "object has no code");
  return TN_OK;
}

/* A relocation section of a section that gets loaded; checks its form. */
static tn_status is_reloc(loader *l, uint32_t i, Elf64_Shdr *r, Elf64_Shdr *target, bool *out) {
  *r = section(l, i);
  *out = false;
  if (r->sh_type != SHT_RELA && r->sh_type != SHT_REL) return TN_OK;
  if (r->sh_info == 0 || r->sh_info >= l->eh.e_shnum) return fail(l, TN_E_PARSE, "relocations %u are for section %u of %u", i, r->sh_info, l->eh.e_shnum);
  *target = section(l, r->sh_info);
  if (!wanted(target)) return TN_OK;
  if (r->sh_type == SHT_REL || target->sh_type == SHT_NOBITS) return fail(l, TN_E_UNSUPPORTED, "relocations %u have no addends or no bytes to change", i);
  if (r->sh_entsize != sizeof(Elf64_Rela) || r->sh_link != l->symtab_index) return fail(l, TN_E_PARSE, "relocations %u are malformed", i);
  *out = true;
  return TN_OK;
}

static bool via_got(uint32_t type) { return type == R_X86_64_GOTPCREL || type == R_X86_64_GOTPCRELX || type == R_X86_64_REX_GOTPCRELX; }

static Elf64_Rela rela_at(const loader *l, const Elf64_Shdr *r, uint64_t k) {
  Elf64_Rela a;
  memcpy(&a, l->obj + r->sh_offset + k * sizeof a, sizeof a);
  return a;
}

static tn_status count(loader *l) {
  for (uint32_t i = 1; i < l->eh.e_shnum; i++) {
    Elf64_Shdr r, t;
    bool yes;
    TN_TRY(is_reloc(l, i, &r, &t, &yes));
    for (uint64_t k = 0; yes && k < r.sh_size / sizeof(Elf64_Rela); k++) {
      uint32_t type = (uint32_t)ELF64_R_TYPE(rela_at(l, &r, k).r_info);
      l->n_got += via_got(type);
      l->low |= type == R_X86_64_32 || type == R_X86_64_32S;
    }
  }
  return TN_OK;
}

static tn_status value_of(loader *l, uint64_t index, uint64_t *out) {
  *out = 0;
  if (index == 0) return TN_OK;
  if (index >= l->n_sym) return fail(l, TN_E_PARSE, "a relocation names symbol %llu of %llu", (unsigned long long)index, (unsigned long long)l->n_sym);
  Elf64_Sym s = symbol_at(l, index);
  int type = ELF64_ST_TYPE(s.st_info);
  if (s.st_shndx == SHN_UNDEF) return fail(l, TN_E_UNSUPPORTED, "kernel code needs the undefined symbol '%.100s'", name_of(l, &s));
  if (type == STT_TLS || type == STT_GNU_IFUNC || type == STT_COMMON) return fail(l, TN_E_UNSUPPORTED, "symbol '%.100s' has type %d", name_of(l, &s), type);
  if (s.st_shndx == SHN_ABS) {
    *out = s.st_value;
    return TN_OK;
  }
  if (s.st_shndx >= l->eh.e_shnum || l->at[s.st_shndx] == NOT_LOADED)
    return fail(l, TN_E_UNSUPPORTED, "symbol '%.100s' is in section %u, which is not loaded", name_of(l, &s), s.st_shndx);
  if (s.st_value > section(l, s.st_shndx).sh_size) return fail(l, TN_E_PARSE, "symbol '%.100s' lies outside its section", name_of(l, &s));
  *out = (uint64_t)(uintptr_t)(l->base + l->at[s.st_shndx]) + s.st_value;
  return TN_OK;
}

static tn_status apply(loader *l, const Elf64_Rela *a, const Elf64_Shdr *target, uint64_t target_at) {
  uint32_t type = (uint32_t)ELF64_R_TYPE(a->r_info);
  if (type == R_X86_64_NONE) return TN_OK;
  uint64_t s, width = type == R_X86_64_64 || type == R_X86_64_PC64 ? 8 : 4;
  if (target->sh_size < width || a->r_offset > target->sh_size - width)
    return fail(l, TN_E_PARSE, "a relocation at %llu leaves its section of %llu bytes", (unsigned long long)a->r_offset, (unsigned long long)target->sh_size);
  TN_TRY(value_of(l, ELF64_R_SYM(a->r_info), &s));
  unsigned char *where = l->base + target_at + a->r_offset;
  if (via_got(type)) {
    unsigned char *slot = l->base + l->got + 8 * l->n_got_used++;
    memcpy(slot, &s, 8);
    s = (uint64_t)(uintptr_t)slot;
  }
  uint64_t v = s + (uint64_t)a->r_addend;
  bool fits = true;
  switch (type) {
  case R_X86_64_64: break;
  case R_X86_64_PC64: v -= (uint64_t)(uintptr_t)where; break;
  case R_X86_64_32: fits = v <= UINT32_MAX; break;
  case R_X86_64_32S: fits = (int64_t)v == (int32_t)v; break;
  case R_X86_64_PC32:
  case R_X86_64_PLT32:
  case R_X86_64_GOTPCREL:
  case R_X86_64_GOTPCRELX:
  case R_X86_64_REX_GOTPCRELX:
    v -= (uint64_t)(uintptr_t)where;
    fits = (int64_t)v == (int32_t)v;
    break;
  default: return fail(l, TN_E_UNSUPPORTED, "relocation type %u is not supported", type);
  }
  if (!fits) return fail(l, TN_E_UNSUPPORTED, "a relocation of type %u does not reach its symbol", type);
  memcpy(where, &v, width); /* little endian: the low bytes */
  return TN_OK;
}

static tn_status relocate(loader *l) {
  for (uint32_t i = 1; i < l->eh.e_shnum; i++) {
    Elf64_Shdr r, t;
    bool yes;
    TN_TRY(is_reloc(l, i, &r, &t, &yes));
    for (uint64_t k = 0; yes && k < r.sh_size / sizeof(Elf64_Rela); k++) {
      Elf64_Rela a = rela_at(l, &r, k);
      TN_TRY(apply(l, &a, &t, l->at[r.sh_info]));
    }
  }
  return TN_OK;
}

static tn_status find_entry(loader *l, const char *want, void **out) {
  for (uint64_t i = 1; i < l->n_sym; i++) {
    Elf64_Sym s = symbol_at(l, i);
    if (s.st_shndx == SHN_UNDEF || strcmp(name_of(l, &s), want) != 0) continue;
    if (s.st_shndx >= l->eh.e_shnum || l->at[s.st_shndx] == NOT_LOADED) break;
    Elf64_Shdr t = section(l, s.st_shndx);
    if (zone_of(&t) != X || s.st_value >= t.sh_size) break;
    *out = l->base + l->at[s.st_shndx] + s.st_value;
    return TN_OK;
  }
  return fail(l, TN_E_PARSE, "object has no function '%.200s'", want);
}

static tn_status image(loader *l, const char *symbol, tn_elf *out) {
  TN_TRY(count(l));
  TN_TRY(place(l));
  int flags = MAP_PRIVATE | MAP_ANONYMOUS;
#ifdef MAP_32BIT
  if (l->low) flags |= MAP_32BIT;
#endif
  out->bytes = l->zone_lo[N_ZONES];
  out->base = mmap(NULL, out->bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (out->base == MAP_FAILED) {
    out->base = NULL;
    return fail(l, TN_E_NOMEM, "no memory for %zu bytes of kernel code", out->bytes);
  }
  l->base = out->base;
  for (uint32_t i = 1; i < l->eh.e_shnum; i++) {
    if (l->at[i] == NOT_LOADED) continue;
    Elf64_Shdr s = section(l, i);
    if (s.sh_type == SHT_PROGBITS) memcpy(l->base + l->at[i], l->obj + s.sh_offset, s.sh_size);
  }
  TN_TRY(relocate(l));
  TN_TRY(find_entry(l, symbol, &out->entry));
  static const int prot[N_ZONES] = {PROT_READ | PROT_EXEC, PROT_READ, PROT_READ | PROT_WRITE};
  for (int z = 0; z < N_ZONES; z++) {
    uint64_t lo = l->zone_lo[z], hi = l->zone_lo[z + 1];
    if (hi > lo && mprotect(l->base + lo, hi - lo, prot[z]) != 0) return fail(l, TN_E_DEVICE, "the system refuses executable memory");
  }
  __builtin___clear_cache((char *)l->base, (char *)l->base + l->zone_lo[R]);
  return TN_OK;
}

tn_status tn_elf_load(const void *object, size_t n, const char *symbol, tn_elf *out, char *why, size_t why_n) {
  *out = (tn_elf){0};
  loader l = {.obj = object, .n = n, .why = why, .why_n = why_n};
  if (why_n) why[0] = 0;
  TN_TRY(headers(&l));
  l.at = tn_malloc(l.eh.e_shnum * sizeof *l.at);
  if (!l.at) return fail(&l, TN_E_NOMEM, "table of %u sections", l.eh.e_shnum);
  l.at[0] = NOT_LOADED;
  tn_status st = image(&l, symbol, out);
  tn_free(l.at);
  if (st != TN_OK) tn_elf_unload(out);
  return st;
}

void tn_elf_unload(tn_elf *e) {
  if (e->base) munmap(e->base, e->bytes);
  *e = (tn_elf){0};
}

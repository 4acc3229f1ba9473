/* package: a model in one file (.tnp). Little-endian, versioned, mapped; weights are used where they lie in the file.
 *
 * Header (64 bytes), section table, sections in the order of the table, each aligned, padding zero, nothing behind the last. docs/package.md
 * has the layout byte by byte. Schedules depend on the vector width, so a package holds one module (functions and plans) and one section of
 * objects per feature level; weights are shared by all of them.
 *
 * Reading trusts nothing: hashes over header, table, and every section (weights may be left out on request), zero padding, every offset and count
 * in range, then the verifiers of plan and module. What it cannot check is machine code: objects do what they like. */
#ifndef TN_PLAN_PACKAGE_H
#define TN_PLAN_PACKAGE_H
#include "base/pool.h"
#include "plan/module.h"

#define TN_PACKAGE_VERSION 1
#define TN_PACKAGE_LEVEL 16     /* bytes of a level's name, with its NUL */

typedef enum tn_package_kind {
  TN_PK_MODULE = 1,             /* functions and plans of a level: package_code.c */
  TN_PK_OBJECTS = 2,            /* machine code of a level, one relocatable object after another */
  TN_PK_WEIGHTS = 3,            /* constants, each 64-byte aligned; page-aligned as a whole */
  TN_PK_PORTABLE = 4,           /* the model itself, for machines that no level fits; level: its form, "onnx" */
  TN_PK_REPORT = 5,             /* provenance and fates, JSON */
  TN_PK_SIGNATURE = 6           /* last section, empty when unsigned: driver/sign.c */
} tn_package_kind;

/* ---- writing ---- */
/* level: a name for people and for tn_package_module, "x86-64-v3"; flags: the tn_target_flag bits that the machine must have to run it. */
typedef struct tn_package_part { const char *level; uint32_t flags; const tn_module *module; } tn_package_part;
typedef struct tn_package_extra { tn_package_kind kind; const char *level; const void *p; size_t n; } tn_package_extra; /* PORTABLE, REPORT; level "" = all */
/* Writes to a temporary name beside `path` and renames. Modules must verify; their plans need objects and constants. */
tn_status tn_package_write(tn_diag *d, const char *path, const tn_package_part *part, uint32_t n_part, const tn_package_extra *extra, uint32_t n_extra);

/* ---- reading ---- */
typedef struct tn_package tn_package;
typedef struct tn_package_section { tn_package_kind kind; uint32_t flags; char level[TN_PACKAGE_LEVEL]; uint64_t offset, bytes, hash; const void *p; } tn_package_section;
/* Maps and checks. no_verify: hashes of weights are not looked at. pool: shares hashing out, may be NULL.
 * TN_E_IO; TN_E_PARSE: no package, truncated, hash, offset; TN_E_UNSUPPORTED: another version. */
tn_status tn_package_open(tn_diag *d, const char *path, bool no_verify, tn_pool *pool, tn_package **out);
/* The same over memory, which stays the caller's; copied when it is not 64-byte aligned. */
tn_status tn_package_open_memory(tn_diag *d, const void *p, size_t n, bool no_verify, tn_pool *pool, tn_package **out);
void tn_package_close(tn_package *k);
uint32_t tn_package_n_sections(const tn_package *k);
const tn_package_section *tn_package_get(const tn_package *k, uint32_t i);
const tn_package_section *tn_package_find(const tn_package *k, tn_package_kind kind, const char *level); /* NULL = none */
const void *tn_package_bytes(const tn_package *k, size_t *n);                                            /* the whole file */
/* The verified module of a level. Its constants and objects lie in the package, which must outlive it. */
tn_status tn_package_module(tn_diag *d, const tn_package *k, const char *level, tn_module **out);

/* ---- both sides (package_code.c, package_file.c) ---- */
/* A module as bytes. Where a constant and an object went, or lie, is asked from these. */
typedef struct tn_package_io {
  void *ctx;
  tn_status (*weight)(void *ctx, tn_diag *d, const void **data, int64_t bytes, uint64_t *offset);    /* writing: data -> offset; reading: offset -> data */
  tn_status (*object)(void *ctx, tn_diag *d, const void **data, size_t *bytes, uint64_t *offset);    /* writing: both -> offset; reading: offset, bytes -> data */
} tn_package_io;
tn_status tn_package_encode(tn_diag *d, const tn_module *m, const tn_package_io *io, tn_str *out);
tn_status tn_package_decode(tn_diag *d, const void *p, size_t n, const tn_package_io *io, tn_module **out); /* not verified */
/* Hash of a section: of the hashes of its pieces of 1 MiB, so that it can be shared out. */
#define TN_PACKAGE_PIECE ((size_t)1 << 20)
tn_status tn_package_hash(const void *p, size_t n, tn_pool *pool, uint64_t *out);
/* Header and table of these sections as bytes; NULL = out of memory. tn_free. */
#define TN_PACKAGE_HEADER 64
#define TN_PACKAGE_ENTRY 48
void *tn_package_head(const tn_package_section *s, uint32_t n, uint64_t file_bytes, size_t *out_n);
static inline uint64_t tn_package_align(tn_package_kind kind) { return kind == TN_PK_WEIGHTS ? 4096 : 64; }
#endif

/* base: what every room stands on. Memory in arenas, diagnostics, dtypes, interned names, logs, clocks.
 * Nothing here knows what a tensor program is. */
#ifndef TN_BASE_H
#define TN_BASE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdarg.h>
#include "tenon/status.h"
#include "tenon/tensor.h"

/* ---- diagnostics: lowest frame says what is wrong with numbers; upper frames add what they were doing. ---- */
#define TN_DIAG_MAX 2048
typedef struct tn_diag {
  tn_status code;
  const char *file; int line;        /* where it was raised (our source) */
  char text[TN_DIAG_MAX];            /* "what: numbers; while ...; while ..." */
} tn_diag;
void tn_diag_clear(tn_diag *d);
/* Records and returns `code`. d may be NULL. */
tn_status tn_diag_fail(tn_diag *d, tn_status code, const char *file, int line, const char *fmt, ...) TN_PRINTF(5, 6);
/* Appends "; while <fmt>" to the text; returns d->code. */
tn_status tn_diag_while(tn_diag *d, tn_status code, const char *fmt, ...) TN_PRINTF(3, 4);
/* `code` is named twice so that the compiler sees which status comes back. */
static inline tn_status tn_status_known(tn_status recorded, tn_status code) { (void)recorded; return code; }
#define tn_fail(d, code, ...) tn_status_known(tn_diag_fail((d), (code), __FILE__, __LINE__, __VA_ARGS__), (code))
#define TN_TRY(expr) do { tn_status tn_s_ = (expr); if (tn_s_ != TN_OK) return tn_s_; } while (0)
#define TN_TRY_WHILE(d, expr, ...) do { tn_status tn_s_ = (expr); if (tn_s_ != TN_OK) { tn_diag_while((d), tn_s_, __VA_ARGS__); return tn_s_; } } while (0)

/* ---- allocation: every heap byte of Tenon passes here, so tests can make the n-th allocation fail. ---- */
void *tn_malloc(size_t bytes);                 /* NULL on failure */
void *tn_calloc(size_t n, size_t bytes);
void *tn_realloc(void *p, size_t bytes);
void tn_free(void *p);
void *tn_aligned_alloc(size_t align, size_t bytes); /* free with tn_free_aligned */
void tn_free_aligned(void *p);
/* Test hook: the n-th allocation from now (1 = next) and all after it fail; 0 = never. Per process. */
void tn_malloc_fail_after(int64_t n);
int64_t tn_malloc_count(void);                 /* allocations since start, for "no allocation in steady state" tests */

/* ---- arena: bump allocation, freed as a whole. Not thread-safe: one arena per owner. ---- */
typedef struct tn_arena_block tn_arena_block;
typedef struct tn_arena { tn_arena_block *head; size_t total; } tn_arena;
typedef struct tn_mark { tn_arena_block *block; size_t used; } tn_mark;
void tn_arena_init(tn_arena *a);
void tn_arena_deinit(tn_arena *a);
void *tn_arena_alloc(tn_arena *a, size_t bytes);   /* zeroed, 16-byte aligned, NULL on failure */
tn_mark tn_arena_mark(const tn_arena *a);
void tn_arena_rewind(tn_arena *a, tn_mark m);
char *tn_arena_strdup(tn_arena *a, const char *s);
char *tn_arena_strndup(tn_arena *a, const char *s, size_t n);
char *tn_arena_printf(tn_arena *a, const char *fmt, ...) TN_PRINTF(2, 3);
void *tn_arena_grow(tn_arena *a, void *old, size_t old_bytes, size_t new_bytes); /* copy into a new, larger chunk */
#define TN_NEW(a, T, n) ((T *)tn_arena_alloc((a), sizeof(T) * (size_t)(n)))
/* Makes room for one more element in an arena-held array; false = out of memory. cap doubles from 8. */
#define TN_PUSH_ROOM(a, arr, n, cap) \
  ((n) < (cap) ? true : tn_push_room((a), (void **)&(arr), (n), &(cap), sizeof *(arr)))
bool tn_push_room(tn_arena *a, void **arr, uint32_t n, uint32_t *cap, size_t elem);

/* ---- growable text on the heap ---- */
typedef struct tn_str { char *s; size_t n, cap; bool oom; } tn_str;
void tn_str_init(tn_str *b);
void tn_str_deinit(tn_str *b);
void tn_str_add(tn_str *b, const char *fmt, ...) TN_PRINTF(2, 3);
void tn_str_put(tn_str *b, const char *s, size_t n);
/* Shortest decimal text that reads back as the same double; always holds '.', 'e', "inf" or "nan". */
void tn_str_add_double(tn_str *b, double v);

/* ---- open-addressing map from a 64-bit key or a byte string to a uint32 ---- */
typedef struct tn_map { struct tn_map_slot *slot; uint32_t cap, n; } tn_map;
void tn_map_init(tn_map *m);
void tn_map_deinit(tn_map *m);
bool tn_map_put_str(tn_map *m, const char *key, uint32_t v);   /* key is borrowed: it must outlive the map. false = out of memory */
bool tn_map_get_str(const tn_map *m, const char *key, uint32_t *out_v);
bool tn_map_put_u64(tn_map *m, uint64_t key, uint32_t v);
bool tn_map_get_u64(const tn_map *m, uint64_t key, uint32_t *out_v);

/* ---- dtypes ---- */
size_t tn_dtype_size(tn_dtype t);
const char *tn_dtype_name(tn_dtype t);                     /* "f32" ... "bool" */
bool tn_dtype_parse(const char *s, size_t n, tn_dtype *out);
static inline bool tn_dtype_is_float(tn_dtype t) { return t == TN_F32 || t == TN_F64 || t == TN_F16 || t == TN_BF16; }
static inline bool tn_dtype_is_int(tn_dtype t) { return (t >= TN_I64 && t <= TN_U8) || (t >= TN_U16 && t <= TN_U64); }
static inline bool tn_dtype_is_unsigned(tn_dtype t) { return t == TN_U8 || (t >= TN_U16 && t <= TN_U64); }
/* What memory can hold: every dtype but TN_OBJ. */
static inline bool tn_dtype_is_value(unsigned t) { return t < TN_N_DTYPES && t != TN_OBJ; }
float tn_f16_to_f32(uint16_t h);
uint16_t tn_f32_to_f16(float f);       /* round to nearest even */
float tn_bf16_to_f32(uint16_t h);
uint16_t tn_f32_to_bf16(float f);      /* round to nearest even, NaN kept */

/* ---- hashing, clock ---- */
uint64_t tn_hash(const void *p, size_t n, uint64_t seed);   /* XXH3-like quality, stable within a build */
uint64_t tn_now_ns(void);                                   /* monotonic */

/* ---- environment and log: rows in env.def ---- */
typedef enum tn_env {
#define TN_ENV(id, name, def, doc) TN_ENV_##id,
#include "env.def"
#undef TN_ENV
  TN_N_ENVS
} tn_env;
const char *tn_env_get(tn_env e);       /* value or the row's default (may be "") */
const char *tn_env_name(tn_env e);
const char *tn_env_doc(tn_env e);
typedef void (*tn_log_fn)(void *user, const char *channel, const char *line);
void tn_log_set(tn_log_fn fn, void *user);          /* default: none; the CLI and Python install one (stderr). */
bool tn_log_on(const char *channel);                /* channel listed in TENON_LOG ("stages,kernels" or "all") */
void tn_log(const char *channel, const char *fmt, ...) TN_PRINTF(2, 3);

/* ---- files ---- */
tn_status tn_file_read(tn_diag *d, const char *path, size_t max_bytes, char **out, size_t *out_n); /* tn_free(*out); NUL after the end */
tn_status tn_file_write(tn_diag *d, const char *path, const void *p, size_t n);                    /* temporary name + rename */
tn_status tn_dir_make(tn_diag *d, const char *path);                                               /* like mkdir -p */
#endif

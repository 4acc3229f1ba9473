/* Machine descriptions: what the compiler may assume and the cost model reads. Data only: device/cpu fills one in from the
 * machine, tests write theirs by hand, packages name levels. One line of text, printable and parseable. */
#ifndef TN_TARGET_H
#define TN_TARGET_H
#include "base/base.h"

typedef enum tn_target_flag { /* TN_TF_FMA, TN_TF_AVX512, ...: rows of target.def */
#define TN_TARGET_FLAG(id, bit, text, llvm, doc) TN_TF_##id = 1 << (bit),
#include "target/target.def"
  TN_TF_NONE = 0
} tn_target_flag;

typedef enum tn_level { /* TN_LEVEL_V3, TN_LEVEL_V4, TN_LEVEL_AMX, TN_LEVEL_AARCH64 */
#define TN_LEVEL(id, text, aliases, triple, cpu, features, bits, regs, flags) TN_LEVEL_##id,
#include "target/target.def"
  TN_N_LEVELS
} tn_level;

typedef struct tn_target {
  char triple[48];           /* LLVM triple */
  char cpu[32];              /* LLVM cpu name */
  char features[192];        /* LLVM feature string, may be empty */
  uint32_t level;            /* tn_level: the highest one this machine runs */
  uint32_t flags;            /* tn_target_flag bits */
  uint32_t vector_bits;      /* 128, 256 or 512 */
  uint32_t n_vector_regs;    /* 16 or 32 */
  uint32_t l1d_bytes, l2_bytes; /* per core */
  uint64_t l3_bytes;         /* shared, 0 = none or unknown */
  uint32_t cores;            /* usable ones: affinity and cgroup quota respected */
} tn_target;

static inline bool tn_target_has(const tn_target *t, uint32_t flags) { return (t->flags & flags) == flags; }
static inline uint32_t tn_target_lanes(const tn_target *t, tn_dtype d) { return t->vector_bits / 8 / (uint32_t)tn_dtype_size(d); }

/* Fills in a level's row with typical caches (32 KiB or 48 KiB, 1 MiB, none) and one core. */
void tn_target_init(tn_target *t, tn_level level);
/* Sets the flags, the highest level they reach (of t's architecture), and LLVM's names to match. False: below every level. */
bool tn_target_set_flags(tn_target *t, uint32_t flags);
/* Lowers `t` to at most `level` of the same architecture: flags, vectors and LLVM names; caches and cores stay. */
void tn_target_limit(tn_target *t, tn_level level);
/* True when objects made for `level` run on `t`. */
bool tn_target_runs(const tn_target *t, tn_level level);
const char *tn_target_level_name(tn_level level);
/* Takes names and aliases: "avx2", "avx512", "amx", "x86-64-v3", "v4", ... */
bool tn_target_level_parse(const char *s, size_t n, tn_level *out);
/* target x86-64-v4 { vector 512, regs 32, flags fma+f16c+avx2+avx512, l1d 49152, l2 2097152, l3 0, cores 2,
 *                    triple "...", cpu "x86-64-v4", features "..." }      (on one line) */
void tn_target_print(const tn_target *t, tn_str *out);
/* Starts from the named level's row; every field is optional and overrides it. */
tn_status tn_target_parse(tn_diag *d, const char *s, size_t n, tn_target *out);
/* The flag's word in the text form; NULL when `bit` is no single flag. */
const char *tn_target_flag_name(uint32_t bit);
#endif

/* Reads the running machine into a tn_target: cpuid and xgetbv for features, cpuid leaves for caches, the scheduler's mask
 * and the cgroup quota for cores. A feature counts only if the system saves its registers (xgetbv) and, for AMX, grants
 * the tile permission. It knows no model names: kernels are chosen by features. */
#define _GNU_SOURCE
#include "cpuid.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- cores ---- */

/* Whole cores that "quota period" of a cgroup allows; 0 = no limit or no such file. */
static uint32_t quota_cores(const char *path, const char *second_path) {
  char *text = NULL;
  size_t n;
  long long quota = -1, period = 0;
  if (tn_file_read(NULL, path, 4096, &text, &n) != TN_OK) return 0;
  int got = sscanf(text, "%lld %lld", &quota, &period);
  tn_free(text);
  if (got == 1 && second_path && tn_file_read(NULL, second_path, 4096, &text, &n) == TN_OK) {
    if (sscanf(text, "%lld", &period) != 1) period = 0;
    tn_free(text);
  }
  if (got < 1 || quota <= 0 || period <= 0) return 0;
  return (uint32_t)((quota + period - 1) / period);
}

/* The tightest quota of the process's cgroup and the groups above it. */
static uint32_t cgroup_cores(void) {
  uint32_t best = 0, q;
  char *text;
  size_t n;
  if (tn_file_read(NULL, "/proc/self/cgroup", 1 << 16, &text, &n) == TN_OK) {
    char *line = strstr(text, "0::"), path[4096];
    if (line && (line == text || line[-1] == '\n')) {
      line += 3;
      line[strcspn(line, "\n")] = 0;
      for (;;) {
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", strcmp(line, "/") ? line : "");
        if ((q = quota_cores(path, NULL)) && (!best || q < best)) best = q;
        char *slash = strrchr(line, '/');
        if (!slash || slash == line) break;
        *slash = 0;
      }
    }
    tn_free(text);
  }
  if ((q = quota_cores("/sys/fs/cgroup/cpu.max", NULL)) && (!best || q < best)) best = q;
  if ((q = quota_cores("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu/cpu.cfs_period_us")) && (!best || q < best)) best = q;
  return best;
}

static uint32_t usable_cores(void) {
  long cores = 0;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) cores = CPU_COUNT(&set);
  if (cores < 1) cores = sysconf(_SC_NPROCESSORS_ONLN);
  uint32_t quota = cgroup_cores();
  if (quota && quota < cores) cores = (long)quota;
  return cores < 1 ? 1 : (uint32_t)cores;
}

/* ---- features and caches ---- */
#if defined(__x86_64__)
#include <cpuid.h>

typedef struct regs {
  uint32_t a, b, c, d;
} regs;

static regs leaf(uint32_t n, uint32_t sub) {
  regs r = {0};
  if (!__get_cpuid_count(n, sub, &r.a, &r.b, &r.c, &r.d)) r = (regs){0};
  return r;
}

static uint64_t saved_state(void) {
  uint32_t lo, hi;
  __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
  return (uint64_t)hi << 32 | lo;
}

static bool bit(uint32_t word, int i) { return word >> i & 1; }

/* Tile registers are large, so the kernel keeps them off until a process asks (once; threads inherit it). */
static bool grant_tiles(void) {
  enum { REQ_XCOMP_PERM = 0x1023, XTILEDATA = 18 };
  return syscall(SYS_arch_prctl, REQ_XCOMP_PERM, XTILEDATA) == 0;
}

static uint32_t detect_flags(void) {
  regs l1 = leaf(1, 0), l7 = leaf(7, 0), l7b = leaf(7, 1);
  if (!bit(l1.c, 27)) return 0; /* osxsave */
  uint64_t xcr0 = saved_state();
  uint32_t f = 0;
  if ((xcr0 & 6) != 6) return 0;
  if (bit(l1.c, 12)) f |= TN_TF_FMA;
  if (bit(l1.c, 29)) f |= TN_TF_F16C;
  if (bit(l1.c, 28) && bit(l7.b, 5) && bit(l7.b, 3) && bit(l7.b, 8)) f |= TN_TF_AVX2; /* with bmi1 and bmi2, as x86-64-v3 has */
  if (bit(l7b.a, 4)) f |= TN_TF_AVX_VNNI;
  if ((xcr0 & 0xe6) != 0xe6 || !(f & TN_TF_AVX2)) return f;
  if (bit(l7.b, 16) && bit(l7.b, 17) && bit(l7.b, 28) && bit(l7.b, 30) && bit(l7.b, 31)) f |= TN_TF_AVX512;
  if (!(f & TN_TF_AVX512)) return f;
  if (bit(l7.c, 11)) f |= TN_TF_VNNI;
  if (bit(l7b.a, 5)) f |= TN_TF_BF16;
  if (bit(l7.d, 23)) f |= TN_TF_FP16;
  bool tiles = bit(l7.d, 22) && bit(l7.d, 24) && bit(l7.d, 25) && (xcr0 >> 17 & 3) == 3;
  if (tiles && grant_tiles()) f |= TN_TF_AMX;
  return f;
}

static void detect_caches(tn_target *t) {
  regs vendor = leaf(0, 0);
  bool amd = vendor.b == 0x68747541; /* "Auth" */
  for (uint32_t i = 0; i < 16; i++) {
    regs r = leaf(amd ? 0x8000001d : 4, i);
    uint32_t type = r.a & 31, level = r.a >> 5 & 7;
    if (type == 0) break;
    uint64_t bytes = (uint64_t)((r.b >> 22) + 1) * ((r.b >> 12 & 1023) + 1) * ((r.b & 4095) + 1) * ((uint64_t)r.c + 1);
    if (level == 1 && type == 1) t->l1d_bytes = (uint32_t)bytes;
    if (level == 2 && type != 2) t->l2_bytes = (uint32_t)bytes;
    if (level == 3) t->l3_bytes = bytes;
  }
}

enum { OWN_LEVEL = TN_LEVEL_V3 };
#else
enum { OWN_LEVEL = TN_LEVEL_AARCH64 };

static uint32_t detect_flags(void) {
#if defined(__aarch64__)
  return TN_TF_FMA | TN_TF_NEON;
#else
  return 0;
#endif
}

static void detect_caches(tn_target *t) {
  long l1 = sysconf(_SC_LEVEL1_DCACHE_SIZE), l2 = sysconf(_SC_LEVEL2_CACHE_SIZE), l3 = sysconf(_SC_LEVEL3_CACHE_SIZE);
  if (l1 > 0) t->l1d_bytes = (uint32_t)l1;
  if (l2 > 0) t->l2_bytes = (uint32_t)l2;
  if (l3 > 0) t->l3_bytes = (uint64_t)l3;
}
#endif

tn_status tn_cpu_detect(tn_target *out) {
  tn_target t;
  tn_target_init(&t, (tn_level)OWN_LEVEL);
  detect_caches(&t);
  t.cores = usable_cores();
  if (!tn_target_set_flags(&t, detect_flags())) return TN_E_UNSUPPORTED;
  const char *isa = tn_env_get(TN_ENV_ISA);
  tn_level limit;
  if (*isa) {
    if (!tn_target_level_parse(isa, strlen(isa), &limit)) return TN_E_ARG;
    tn_target_limit(&t, limit);
  }
  *out = t;
  return TN_OK;
}

/* Which instruction set the kernels of this room use: the best the machine has, no better than TENON_ISA allows. The processor is asked once, as asking is slow
 * (in a virtual machine a trap), and directly: the compiler's own table of processors would be a tenth of the small run time. */
#include "kernels/kernels_int.h"
#include <stdatomic.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>

enum { KNOWN = 1, HAS_AVX2 = 2, HAS_AVX512 = 4, HAS_VNNI = 8 };

static bool all(uint32_t word, uint32_t bits) { return (word & bits) == bits; }

static int ask(void) {
  uint32_t a, b, c, d, l1c, xcr0, high;
  if (!__get_cpuid_count(1, 0, &a, &b, &l1c, &d) || !all(l1c, bit_OSXSAVE | bit_AVX | bit_FMA)) return KNOWN;
  __asm__ volatile("xgetbv" : "=a"(xcr0), "=d"(high) : "c"(0)); /* what the system saves: 6 = vectors of 256 bits, 0xe6 = of 512 */
  if (!all(xcr0, 6) || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !all(b, bit_AVX2)) return KNOWN;
  if (!all(xcr0, 0xe6) || !all(b, bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL)) return KNOWN | HAS_AVX2;
  return KNOWN | HAS_AVX2 | HAS_AVX512 | (all(c, bit_AVX512VNNI) ? HAS_VNNI : 0);
}

static int machine(void) {
  static atomic_int known; /* threads that ask at one time find the same */
  int m = atomic_load_explicit(&known, memory_order_relaxed);
  if (!m) atomic_store_explicit(&known, m = ask(), memory_order_relaxed);
  return m;
}

tn_k_isa tn_k_best_isa(void) {
  int m = machine();
  if ((m & HAS_AVX512) && strcmp(tn_env_get(TN_ENV_ISA), "avx2") != 0) return TN_K_AVX512;
  return m & HAS_AVX2 ? TN_K_AVX2 : TN_K_BASE;
}

bool tn_k_vnni(void) { return tn_k_best_isa() == TN_K_AVX512 && (machine() & HAS_VNNI); }
#else
tn_k_isa tn_k_best_isa(void) { return TN_K_BASE; }
bool tn_k_vnni(void) { return false; }
#endif

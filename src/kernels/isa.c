/* Which instruction set the kernels of this room use: the best the machine has, no better than TENON_ISA allows. */
#include "kernels/kernels_int.h"
#include <string.h>

tn_k_isa tn_k_best_isa(void) {
#if defined(__x86_64__)
  bool only_avx2 = strcmp(tn_env_get(TN_ENV_ISA), "avx2") == 0;
  if (!only_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    return TN_K_AVX512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return TN_K_AVX2;
#endif
  return TN_K_BASE;
}

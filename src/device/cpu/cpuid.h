/* What this machine is. */
#ifndef TN_DEVICE_CPU_CPUID_H
#define TN_DEVICE_CPU_CPUID_H
#include "target/target.h"

/* Fills in the running machine: features the system lets programs use, caches, usable cores (affinity and cgroup quota).
 * TENON_ISA is an upper limit. Asks the kernel for the use of AMX tiles, which later threads inherit.
 * TN_E_ARG: TENON_ISA names no level; TN_E_UNSUPPORTED: below every level (x86-64 needs AVX2, FMA, F16C). */
tn_status tn_cpu_detect(tn_target *out);
#endif

/* device: the registry of devices as the run time sees it. The plug-in ABI itself is include/tenon/device.h; plug-ins are
 * leaves that include this header and are known to nobody but devices.def. */
#ifndef TN_DEVICE_H
#define TN_DEVICE_H
#include "base/base.h"
#include "base/kernel_abi.h"
#include "base/pool.h"
#include "target/target.h"
#include "tenon/device.h"

/* Built-in devices by number or name; NULL when there is none. Static storage. */
const tn_device_api *tn_device_get(uint32_t i);
const tn_device_api *tn_device_find(const char *name);

/* The process-wide pool of so many threads (the caller counts), made at first use and kept. NULL: out of memory, or
 * n_threads < 2: run in the caller. Safe from any thread and in forked children. */
tn_pool *tn_device_pool(int n_threads);
enum { TN_DEVICE_MAX_THREADS = 512 };

/* TN_ZEROS_BYTES zero bytes, 64-byte aligned, for tn_kernel_args.zeros. */
const void *tn_device_zeros(void);

/* Usable cores (affinity, cgroup quota), at least 1; found out once. The first call also gets this process the use of AMX
 * tiles, which only threads started later inherit: opening the cpu makes it. */
int tn_device_cores(void);

/* What this machine is: tn_cpu_detect of device/cpu/cpuid.h, with its errors. */
tn_status tn_device_target(tn_target *out);
#endif

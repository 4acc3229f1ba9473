/* The list of built-in devices, and what all of them share in one process: thread pools by size and the page of zeros.
 * Pools are published with compare-and-swap instead of a lock, so a fork in another thread's middle leaves nothing locked. */
#include <stdatomic.h>
#include <string.h>
#include "device/device.h"

#define TN_DEVICE(name) extern const tn_device_api tn_device_##name;
#include "devices.def"
#undef TN_DEVICE

static const tn_device_api *const devices[] = {
#define TN_DEVICE(name) &tn_device_##name,
#include "devices.def"
#undef TN_DEVICE
};
enum { N_DEVICES = sizeof devices / sizeof *devices };

const tn_device_api *tn_device_get(uint32_t i) { return i < N_DEVICES ? devices[i] : NULL; }

const tn_device_api *tn_device_find(const char *name) {
  for (uint32_t i = 0; i < N_DEVICES; i++)
    if (strcmp(devices[i]->name, name) == 0) return devices[i];
  return NULL;
}

tn_pool *tn_device_pool(int n_threads) {
  static _Atomic(tn_pool *) pools[TN_DEVICE_MAX_THREADS + 1];
  if (n_threads < 2) return NULL;
  if (n_threads > TN_DEVICE_MAX_THREADS) n_threads = TN_DEVICE_MAX_THREADS;
  tn_pool *p = atomic_load(&pools[n_threads]);
  if (p) return p;
  tn_pool *mine = tn_pool_create(n_threads);
  if (!mine) return NULL;
  if (atomic_compare_exchange_strong(&pools[n_threads], &p, mine)) return mine;
  tn_pool_destroy(mine);
  return p;
}

const void *tn_device_zeros(void) {
  static _Alignas(64) unsigned char zeros[TN_ZEROS_BYTES]; /* not const: .bss instead of 64 KiB of file */
  return zeros;
}

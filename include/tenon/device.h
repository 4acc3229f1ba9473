/* Device plug-in ABI, version 1: a struct of functions. Stand-alone with status.h; C11 and C++. */
#ifndef TENON_DEVICE_H
#define TENON_DEVICE_H
#include <stddef.h>
#include <stdint.h>
#include "tenon/status.h"

#ifdef __cplusplus
extern "C" {
#endif
#define TN_DEVICE_ABI 1
typedef struct tn_device tn_device;
typedef struct tn_code tn_code;       /**< loaded machine code */
/** Facts and functions of one device kind. Optional members may be NULL where marked. All functions are thread-safe. */
typedef struct tn_device_api {
  uint32_t abi;                        /**< TN_DEVICE_ABI */
  const char *name;                    /**< "cpu", "null" */
  tn_status (*open)(tn_device **out, char *why, size_t why_n);         /**< TN_E_DEVICE with the reason when absent */
  void (*close)(tn_device *d);
  tn_status (*load)(tn_device *d, const void *object, size_t n, const char *symbol, tn_code **out, char *why, size_t why_n);
  void (*unload)(tn_device *d, tn_code *c);
  void *(*entry)(tn_code *c);          /**< cpu: address of the kernel function (tn_kernel_fn of the kernel ABI) */
  void *(*alloc)(tn_device *d, size_t bytes);                          /**< 64-byte aligned */
  void (*free)(tn_device *d, void *p);
  /** Runs blocks [0, n_blocks) and waits. args: the kernel ABI's argument struct; scratch_bytes per worker. */
  tn_status (*launch)(tn_device *d, tn_code *c, const void *args, int64_t n_blocks, int64_t grain, size_t scratch_bytes, int threads);
} tn_device_api;
#ifdef __cplusplus
}
#endif
#endif

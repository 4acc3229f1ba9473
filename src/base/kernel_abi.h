/* Kernel ABI: what generated machine code and the run time agree on. Append only; a change of meaning is a new entry name.
 * One call runs blocks [block_lo, block_hi) of a kernel. Calls of one launch run on several threads at once, each with its own scratch. */
#ifndef TN_KERNEL_ABI_H
#define TN_KERNEL_ABI_H
#include <stdint.h>

#define TN_ZEROS_BYTES 65536

typedef struct tn_kernel_args {
  void *const *ptr;        /* [n_param] element 0 of each operand, offset applied */
  const int64_t *size;     /* [n_size] symbolic sizes and strides, in elements */
  const void *zeros;       /* TN_ZEROS_BYTES zero bytes, 64-aligned */
  int32_t *status;         /* [1]: set to 1 by a kernel that met an index out of range */
} tn_kernel_args;
typedef void (*tn_kernel_fn)(const tn_kernel_args *a, int64_t block_lo, int64_t block_hi, void *scratch);
#endif

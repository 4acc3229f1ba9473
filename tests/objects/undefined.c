/* A kernel that is not self-contained: the loader must refuse it by the name of what is missing. */
#include "base/kernel_abi.h"

void tn_test_missing(void *p);
void k_undefined(const tn_kernel_args *a, int64_t lo, int64_t hi, void *scratch);

void k_undefined(const tn_kernel_args *a, int64_t lo, int64_t hi, void *scratch) {
  (void)lo, (void)hi, (void)scratch;
  tn_test_missing(a->ptr[0]);
}

/* What the tests of room kernels share: tensors over literals and comparison of results. */
#ifndef TN_KERNELS_TEST_H
#define TN_KERNELS_TEST_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "kernels/kernels.h"

#define DIMS(...) ((const int64_t[]){__VA_ARGS__}), (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
static inline tn_tensor tensor(tn_dtype t, const void *data, const int64_t *shape, int rank) {
  return (tn_tensor){(void *)(uintptr_t)data, shape, NULL, rank, (int32_t)t};
}
#define F32(data, ...) tensor(TN_F32, (data), DIMS(__VA_ARGS__))
#define F64(data, ...) tensor(TN_F64, (data), DIMS(__VA_ARGS__))
#define I64(data, ...) tensor(TN_I64, (data), DIMS(__VA_ARGS__))
#define I8(data, ...) tensor(TN_I8, (data), DIMS(__VA_ARGS__))
#define SCALAR(t, data) tensor((t), (data), (const int64_t[]){0}, 0)

/* n floats are equal; NaN equals NaN. */
static inline void same_floats(const float *got, const float *want, int n) {
  for (int i = 0; i < n; i++)
    if (!(got[i] == want[i] || (isnan(got[i]) && isnan(want[i])))) {
      print_error("[%d]: got %g, want %g\n", i, (double)got[i], (double)want[i]);
      fail();
    }
}
#define SAME(got, ...) same_floats((got), (const float[]){__VA_ARGS__}, (int)(sizeof((const float[]){__VA_ARGS__}) / sizeof(float)))
#define SAME_I64(got, ...) assert_memory_equal((got), ((const int64_t[]){__VA_ARGS__}), sizeof((const int64_t[]){__VA_ARGS__}))
#define SAME_I8(got, ...) assert_memory_equal((got), ((const int8_t[]){__VA_ARGS__}), sizeof((const int8_t[]){__VA_ARGS__}))
#endif

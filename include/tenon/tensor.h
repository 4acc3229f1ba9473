/* Tensors as callers pass them. Layout-compatible with DLPack 1.x's DLTensor (https://dmlc.github.io/dlpack/latest/c_api.html).
 * Stand-alone header, C11 and C++. */
#ifndef TENON_TENSOR_H
#define TENON_TENSOR_H
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Element types. Values are part of text, package and ABI formats: append only. */
typedef enum tn_dtype {
  TN_F32 = 0, TN_F64 = 1, TN_F16 = 2, TN_BF16 = 3,
  TN_I64 = 4, TN_I32 = 5, TN_I16 = 6, TN_I8 = 7, TN_U8 = 8, TN_BOOL = 9,
  TN_U16 = 10, TN_U32 = 11, TN_U64 = 12,
  TN_OBJ = 13, /**< only in graphs: a list, map, optional or string tensor, or a tensor of unknown rank; never a tn_tensor's type */
  TN_N_DTYPES = 14
} tn_dtype;

/** A strided tensor in host memory; strides and shape in elements. Owned by whoever made it. */
typedef struct tn_tensor {
  void *data;              /**< address of element 0 (byte offset already applied) */
  const int64_t *shape;    /**< [rank] */
  const int64_t *strides;  /**< [rank], in elements; NULL = dense row-major */
  int32_t rank;
  int32_t dtype;           /**< tn_dtype */
} tn_tensor;

#ifdef __cplusplus
}
#endif
#endif

/* frontend/onnx: bytes of an ONNX model -> a unit (ir.h): functions of prims and DYN nodes, and the model's door.
 *
 * Life of memory: everything that the unit points to lies in `a`, or in a file mapped by the importer and kept in options' `keep` (external data), with one
 * exception: none of it points into `bytes`, which may go as soon as the call returns. Weights are copied out of `bytes` once, and not again. */
#ifndef TN_FRONTEND_ONNX_H
#define TN_FRONTEND_ONNX_H
#include "ops/onnx.h"

/* A file read for external data: the caller frees each with tn_free after the unit is no longer used. */
typedef struct tn_onnx_file { struct tn_onnx_file *next; char *p; size_t n; uint64_t dev, ino; } tn_onnx_file;

typedef struct tn_onnx_shape { const char *name; int rank; const int64_t *dim; /* [rank]; -1: as the model says */ } tn_onnx_shape;
typedef struct tn_onnx_options {
  const char *folder;                  /* of the model, for external data; NULL = external data is refused */
  const tn_onnx_shape *shape; uint32_t n_shape; /* overridden input dims, by input name */
  bool strict;                         /* a declared shape that contradicts the inferred one is an error everywhere, not only at outputs */
  tn_onnx_file *files;                 /* OUT: files that constants point into; the caller frees the list with tn_onnx_files_free */
} tn_onnx_options;

/* o may be NULL. TN_E_PARSE: no protobuf of a model, nested too deep, or sizes that its bytes can't hold; TN_E_ARG, TN_E_VERIFY: breaks a rule of ONNX (names node
 * and value); TN_E_UNSUPPORTED: an operator, type or form that is not here; TN_E_IO: external data. */
tn_status tn_onnx_import(tn_diag *d, tn_arena *a, tn_dims *dims, const void *bytes, size_t n, tn_onnx_options *o, tn_unit **out);
void tn_onnx_files_free(tn_onnx_options *o);
/* One TensorProto by itself (.pb of test data): contents in `a`. out_name may be NULL. */
tn_status tn_onnx_tensor_read(tn_diag *d, tn_arena *a, const void *bytes, size_t n, tn_ox_const *out, const char **out_name);

/* A value as test data have it (onnx-data.proto): a file holds a tensor, a sequence, a map or an optional, and does not say which. */
typedef enum tn_onnx_data_kind { TN_ONNX_NONE, TN_ONNX_TENSOR, TN_ONNX_LIST, TN_ONNX_MAP } tn_onnx_data_kind;
typedef struct tn_onnx_data {
  tn_onnx_data_kind kind;
  tn_ox_const tensor;                  /* TENSOR; strings have elem 8 */
  struct tn_onnx_data *item; uint32_t n; /* LIST; MAP: keys (a tensor of rank 1), values (a list) */
} tn_onnx_data;
enum { TN_ONNX_FILE_TENSOR, TN_ONNX_FILE_SEQUENCE, TN_ONNX_FILE_OPTIONAL, TN_ONNX_FILE_MAP };
tn_status tn_onnx_data_read(tn_diag *d, tn_arena *a, const void *bytes, size_t n, int file, tn_onnx_data *out);
#endif

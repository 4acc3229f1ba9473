/* onnx_value.c: a value of ONNX test data (.pb) as a value of the run time. */
#include <stdio.h>
#include <string.h>
#include "driver/driver_int.h"
#include "frontend/onnx/onnx.h"
#include "plan/module.h"

static tn_value *value(const tn_onnx_data *x);

static tn_value *tensor(const tn_ox_const *t) {
  tn_dtype dtype;
  int64_t n = 1;
  for (int k = 0; k < t->rank; k++) n *= t->dim[k]; /* checked by the reader */
  if (t->elem == TN_EL_STRING) {
    const char **s = tn_calloc((size_t)n + 1, sizeof *s);
    size_t *bytes = tn_calloc((size_t)n + 1, sizeof *bytes);
    for (int64_t i = 0; s && bytes && i < n; i++) s[i] = t->str[i].s, bytes[i] = t->str[i].n;
    tn_value *v = s && bytes ? tn_value_strings(s, bytes, t->rank, t->dim) : NULL;
    tn_free(s);
    tn_free(bytes);
    return v;
  }
  if (!tn_elem_dtype(t->elem, &dtype)) return NULL;
  tn_tensor x = {(void *)(uintptr_t)t->data, t->dim, NULL, t->rank, (int32_t)dtype};
  return tn_value_copy(&x, t->elem);
}

static tn_value *list(const tn_onnx_data *x) {
  tn_value **item = tn_calloc((size_t)x->n + 1, sizeof *item), *v = NULL;
  uint32_t made = 0;
  while (item && made < x->n && (item[made] = value(&x->item[made]))) made++;
  if (item && made == x->n) v = tn_value_list(item, x->n);
  for (uint32_t i = 0; item && i < made; i++) tn_value_release(item[i]);
  tn_free(item);
  return v;
}

/* Scalars of one type as a tensor of rank 1, which is what maps of numbers hold; NULL: they are no such thing. */
static tn_value *row(const tn_onnx_data *x) {
  tn_dtype dtype;
  if (!x->n || x->item[0].kind != TN_ONNX_TENSOR || !tn_elem_dtype(x->item[0].tensor.elem, &dtype)) return NULL;
  size_t size = tn_dtype_size(dtype);
  for (uint32_t i = 0; i < x->n; i++)
    if (x->item[i].kind != TN_ONNX_TENSOR || x->item[i].tensor.elem != x->item[0].tensor.elem || x->item[i].tensor.bytes != size) return NULL;
  char *p = tn_malloc(x->n * size);
  for (uint32_t i = 0; p && i < x->n; i++) memcpy(p + i * size, x->item[i].tensor.data, size);
  int64_t dim = x->n;
  tn_tensor t = {p, &dim, NULL, 1, (int32_t)dtype};
  tn_value *v = p ? tn_value_copy(&t, x->item[0].tensor.elem) : NULL;
  tn_free(p);
  return v;
}

static tn_value *value(const tn_onnx_data *x) {
  switch (x->kind) {
  case TN_ONNX_TENSOR: return tensor(&x->tensor);
  case TN_ONNX_LIST: return list(x);
  case TN_ONNX_MAP: {
    tn_value *k = value(&x->item[0]), *v = row(&x->item[1]), *m = NULL;
    if (!v) v = value(&x->item[1]);
    if (k && v) m = tn_value_map(k, v);
    tn_value_release(k);
    tn_value_release(v);
    return m;
  }
  default: return tn_value_none();
  }
}

tn_status tn_onnx_value_read(const void *bytes, size_t n, int32_t kind, tn_value **out, char *error, size_t error_n) {
  static const uint8_t file[] = {[TN_PORT_TENSOR] = TN_ONNX_FILE_TENSOR, [TN_PORT_SEQUENCE] = TN_ONNX_FILE_SEQUENCE, [TN_PORT_OPTIONAL] = TN_ONNX_FILE_OPTIONAL,
                                 [TN_PORT_OPTIONAL_SEQUENCE] = TN_ONNX_FILE_OPTIONAL, [TN_PORT_MAP] = TN_ONNX_FILE_MAP, [TN_PORT_SEQUENCE_MAP] = TN_ONNX_FILE_SEQUENCE,
                                 [TN_PORT_ANY] = TN_ONNX_FILE_TENSOR};
  tn_diag d = {0};
  tn_arena a;
  tn_onnx_data x;
  *out = NULL;
  tn_arena_init(&a);
  tn_status s = kind < 0 || kind > TN_PORT_ANY ? tn_fail(&d, TN_E_ARG, "values of kind %d", (int)kind) : tn_onnx_data_read(&d, &a, bytes, n, file[kind], &x);
  if (s == TN_OK && !(*out = value(&x))) s = tn_fail(&d, TN_E_UNSUPPORTED, "a value that cannot be held, or memory is short");
  tn_arena_deinit(&a);
  if (s != TN_OK && error && error_n) snprintf(error, error_n, "%s", d.text);
  return s;
}

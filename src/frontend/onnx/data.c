/* data: values of test data, one a file: sequences, maps and optionals around tensors. Nesting is limited by the parser. */
#include "import.h"

static tn_status sequence(importer *im, const TnOnnx__Sequence *s, tn_onnx_data *out);
static tn_status optional(importer *im, const TnOnnx__OptionalValue *o, tn_onnx_data *out);

static tn_status tensor(importer *im, const pb_tensor *t, tn_onnx_data *out) {
  *out = (tn_onnx_data){.kind = TN_ONNX_TENSOR};
  return tn_onnx_tensor(im, t, &out->tensor);
}

static tn_status room(importer *im, size_t n, tn_onnx_data *out) {
  if (n > UINT32_MAX) return tn_fail(im->d, TN_E_PARSE, "a sequence of %zu values", n);
  out->item = TN_NEW(im->a, tn_onnx_data, n + 1);
  out->n = (uint32_t)n;
  return out->item ? TN_OK : tn_fail(im->d, TN_E_NOMEM, "a sequence of %zu values", n);
}

static tn_status map(importer *im, const TnOnnx__Map *m, tn_onnx_data *out) {
  size_t n = m->n_keys ? m->n_keys : m->n_string_keys;
  *out = (tn_onnx_data){.kind = TN_ONNX_MAP};
  TN_TRY(room(im, 2, out));
  tn_ox_const *k = &out->item[0].tensor;
  int64_t *dim = TN_NEW(im->a, int64_t, 1), *keys = TN_NEW(im->a, int64_t, m->n_keys + 1);
  tn_ox_str *str = TN_NEW(im->a, tn_ox_str, m->n_string_keys + 1);
  if (!dim || !keys || !str) return tn_fail(im->d, TN_E_NOMEM, "a map of %zu keys", n);
  if (m->n_keys && m->n_string_keys) return tn_fail(im->d, TN_E_PARSE, "a map with keys of two kinds");
  *dim = (int64_t)n;
  out->item[0].kind = TN_ONNX_TENSOR;
  *k = (tn_ox_const){.elem = m->n_string_keys ? 8 : 7, .rank = 1, .dim = dim};
  if (m->n_keys) memcpy(keys, m->keys, n * sizeof *keys);
  k->data = keys;
  k->bytes = m->n_keys * sizeof *keys;
  for (size_t i = 0; i < m->n_string_keys; i++) {
    char *own = tn_arena_strndup(im->a, (const char *)m->string_keys[i].data, m->string_keys[i].len);
    if (!own) return tn_fail(im->d, TN_E_NOMEM, "a map of %zu keys", n);
    str[i] = (tn_ox_str){own, m->string_keys[i].len};
  }
  k->str = str;
  if (!m->values) return n ? tn_fail(im->d, TN_E_PARSE, "a map without values") : room(im, 0, (out->item[1].kind = TN_ONNX_LIST, &out->item[1]));
  TN_TRY(sequence(im, m->values, &out->item[1]));
  return out->item[1].n == n ? TN_OK : tn_fail(im->d, TN_E_PARSE, "a map of %zu keys and %u values", n, out->item[1].n);
}

static tn_status sequence(importer *im, const TnOnnx__Sequence *s, tn_onnx_data *out) {
  size_t k = 0;
  *out = (tn_onnx_data){.kind = TN_ONNX_LIST};
  TN_TRY(room(im, s->n_tensor_values + s->n_sequence_values + s->n_map_values + s->n_optional_values, out));
  for (size_t i = 0; i < s->n_tensor_values; i++) TN_TRY(tensor(im, s->tensor_values[i], &out->item[k++]));
  for (size_t i = 0; i < s->n_sequence_values; i++) TN_TRY(sequence(im, s->sequence_values[i], &out->item[k++]));
  for (size_t i = 0; i < s->n_map_values; i++) TN_TRY(map(im, s->map_values[i], &out->item[k++]));
  for (size_t i = 0; i < s->n_optional_values; i++) TN_TRY(optional(im, s->optional_values[i], &out->item[k++]));
  return TN_OK;
}

static tn_status optional(importer *im, const TnOnnx__OptionalValue *o, tn_onnx_data *out) {
  *out = (tn_onnx_data){.kind = TN_ONNX_NONE};
  if (o->tensor_value) return tensor(im, o->tensor_value, out);
  if (o->sequence_value) return sequence(im, o->sequence_value, out);
  if (o->map_value) return map(im, o->map_value, out);
  if (o->optional_value) return optional(im, o->optional_value, out);
  return TN_OK;
}

tn_status tn_onnx_data_read(tn_diag *d, tn_arena *a, const void *bytes, size_t n, int file, tn_onnx_data *out) {
  importer im = {.d = d, .a = a};
  const ProtobufCMessageDescriptor *const want[] = {&tn_onnx__tensor__descriptor, &tn_onnx__sequence__descriptor, &tn_onnx__optional_value__descriptor, &tn_onnx__map__descriptor};
  void *m;
  TN_TRY(tn_onnx_parse(d, a, bytes, n, want[file], &m));
  switch (file) {
  case TN_ONNX_FILE_SEQUENCE: return sequence(&im, m, out);
  case TN_ONNX_FILE_OPTIONAL: return optional(&im, m, out);
  case TN_ONNX_FILE_MAP: return map(&im, m, out);
  default: return tensor(&im, m, out);
  }
}

/* tensor: TensorProto -> row-major elements in host order, one element per byte for types of fewer than 8 bits.
 *
 * A tensor's elements come as raw bytes, as a typed list, or from a file beside the model. Raw and external bytes of whole-byte types are used where they
 * are (the arena that the protobuf was read into, or the file); the rest is unpacked into the arena. A count that the bytes can't hold is refused before
 * anything is allocated. Sparse tensors become dense; only as large as a model may be. */
#include "import.h"

enum { MAX_SPARSE = 1 << 30 };

static const char *name_of(const pb_tensor *t) { return t->name && *t->name ? t->name : "(no name)"; }

static tn_status count_of(importer *im, const char *name, const int64_t *dim, size_t rank, uint64_t *out) {
  *out = 1;
  bool empty = false;
  if (rank > TN_MAX_RANK) return tn_fail(im->d, TN_E_UNSUPPORTED, "tensor '%.80s' has rank %zu, at most %d", name, rank, TN_MAX_RANK);
  for (size_t i = 0; i < rank; i++) {
    if (dim[i] < 0) return tn_fail(im->d, TN_E_ARG, "tensor '%.80s': dim %zu is %lld", name, i, (long long)dim[i]);
    empty |= dim[i] == 0;
  }
  for (size_t i = 0; i < rank && !empty; i++)
    if (__builtin_mul_overflow(*out, (uint64_t)dim[i], out) || *out > INT64_MAX / 16) return tn_fail(im->d, TN_E_ARG, "tensor '%.80s' has too many elements", name);
  if (empty) *out = 0;
  return TN_OK;
}
static int bits_of(int elem) {
  switch (elem) {
  case 21: case 22: case 23: return 4;
  case 25: case 26: return 2;
  default: return (int)tn_dtype_size((tn_dtype)tn_ox_dtype_of(elem)) * 8;
  }
}
static void *room(importer *im, uint64_t n, size_t size) {
  void *p = n > SIZE_MAX / 2 / (size ? size : 1) ? NULL : tn_arena_alloc(im->a, (size_t)n * size);
  if (!p) tn_fail(im->d, TN_E_NOMEM, "a tensor of %llu elements", (unsigned long long)n);
  return p;
}
/* Packed elements of 2 or 4 bits, lowest bits first. */
static void unpack(const uint8_t *p, uint64_t n, int elem, uint8_t *out) {
  int bits = bits_of(elem), per = 8 / bits;
  bool is_signed = elem == 22 || elem == 26;
  for (uint64_t i = 0; i < n; i++) {
    unsigned v = (unsigned)p[i / (unsigned)per] >> (i % (unsigned)per) * (unsigned)bits & ((1u << bits) - 1);
    out[i] = (uint8_t)(is_signed && v >> (bits - 1) ? v | ~((1u << bits) - 1) : v);
  }
}
static tn_status from_raw(importer *im, const pb_tensor *t, const uint8_t *p, size_t n, uint64_t count, tn_ox_const *out) {
  int bits = bits_of(t->data_type);
  uint64_t want = (count * (uint64_t)bits + 7) / 8;
  if (n != want)
    return tn_fail(im->d, TN_E_ARG, "tensor '%.80s': %llu elements of %s take %llu bytes, it holds %zu", name_of(t), (unsigned long long)count,
                   tn_ox_elem_name(t->data_type), (unsigned long long)want, n);
  if (bits < 8) {
    uint8_t *q = room(im, count, 1);
    if (!q) return TN_E_NOMEM;
    unpack(p, count, t->data_type, q);
    out->data = q;
  } else if ((uintptr_t)p % (unsigned)(bits / 8) == 0) {
    out->data = p;
  } else {
    void *q = room(im, n, 1);
    if (!q) return TN_E_NOMEM;
    memcpy(q, p, n);
    out->data = q;
  }
  if (out->elem == 9 && n) {                                 /* a bool is 0 or 1 */
    bool odd = false;
    for (size_t i = 0; i < n; i++) odd |= p[i] > 1;
    if (odd) {
      uint8_t *q = room(im, n, 1);
      if (!q) return TN_E_NOMEM;
      for (size_t i = 0; i < n; i++) q[i] = p[i] != 0;
      out->data = q;
    }
  }
  return TN_OK;
}
/* From the list that the format says holds this type: float_data, int32_data, ... */
static tn_status from_list(importer *im, const pb_tensor *t, uint64_t count, tn_ox_const *out) {
  int elem = t->data_type, bits = bits_of(elem);
  size_t have, want = (size_t)count, size = (size_t)bits / 8;
  const void *p = NULL;
  if (elem == 1) { have = t->n_float_data; p = t->float_data; }
  else if (elem == 11) { have = t->n_double_data; p = t->double_data; }
  else if (elem == 7) { have = t->n_int64_data; p = t->int64_data; }
  else if (elem == 13) { have = t->n_uint64_data; p = t->uint64_data; }
  else if (elem == 12) have = t->n_uint64_data;
  else if (elem == 6) { have = t->n_int32_data; p = t->int32_data; }
  else have = t->n_int32_data;
  if (bits < 8) want = (size_t)((count * (uint64_t)bits + 7) / 8);
  if (have != want)
    return tn_fail(im->d, TN_E_ARG, "tensor '%.80s': %llu elements of %s, its list holds %zu items and not %zu", name_of(t), (unsigned long long)count,
                   tn_ox_elem_name(elem), have, want);
  if (p || !count) { out->data = p ? p : t; return TN_OK; }
  uint8_t *q = room(im, count, size ? size : 1);
  if (!q) return TN_E_NOMEM;
  out->data = q;
  if (bits < 8) {
    uint8_t *packed = room(im, want, 1);
    if (!packed) return TN_E_NOMEM;
    for (size_t i = 0; i < want; i++) packed[i] = (uint8_t)t->int32_data[i];
    unpack(packed, count, elem, q);
    return TN_OK;
  }
  for (size_t i = 0; i < want; i++) {
    uint32_t v = elem == 12 ? (uint32_t)t->uint64_data[i] : (uint32_t)t->int32_data[i];
    if (elem == 9) q[i] = v != 0;
    else if (size == 1) q[i] = (uint8_t)v;
    else if (size == 2) ((uint16_t *)(void *)q)[i] = (uint16_t)v;
    else ((uint32_t *)(void *)q)[i] = v;
  }
  return TN_OK;
}
static tn_status strings(importer *im, const pb_tensor *t, uint64_t count, tn_ox_const *out) {
  if (t->n_string_data != count) return tn_fail(im->d, TN_E_ARG, "tensor '%.80s': %llu strings, it holds %zu", name_of(t), (unsigned long long)count, t->n_string_data);
  tn_ox_str *s = room(im, count + 1, sizeof *s);
  if (!s) return TN_E_NOMEM;
  for (size_t i = 0; i < t->n_string_data; i++) {
    char *c = tn_arena_strndup(im->a, (const char *)t->string_data[i].data, t->string_data[i].len);
    if (!c) return tn_fail(im->d, TN_E_NOMEM, "a tensor of strings");
    s[i] = (tn_ox_str){c, t->string_data[i].len};
  }
  out->str = s;
  return TN_OK;
}

tn_status tn_onnx_tensor(importer *im, const pb_tensor *t, tn_ox_const *out) {
  uint64_t count;
  *out = (tn_ox_const){0};
  if (tn_ox_dtype_of(t->data_type) < 0) return tn_fail(im->d, TN_E_UNSUPPORTED, "tensor '%.80s' has element type %d", name_of(t), t->data_type);
  TN_TRY(count_of(im, name_of(t), t->dims, t->n_dims, &count));
  out->elem = (uint8_t)t->data_type;
  out->rank = (uint8_t)t->n_dims;
  out->dim = t->dims;
  if (t->data_type == 8) return strings(im, t, count, out);
  out->bytes = (size_t)count * tn_dtype_size((tn_dtype)tn_ox_dtype_of(t->data_type));
  if (t->has_data_location && t->data_location == 1) {
    const void *p;
    size_t n, want = (size_t)((count * (uint64_t)bits_of(t->data_type) + 7) / 8);
    TN_TRY_WHILE(im->d, tn_onnx_external(im, t, want, &p, &n), "reading tensor '%.80s'", name_of(t));
    return from_raw(im, t, p, n, count, out);
  }
  if (t->has_raw_data) return from_raw(im, t, t->raw_data.len ? t->raw_data.data : (const uint8_t *)t, t->raw_data.len, count, out);
  return from_list(im, t, count, out);
}

tn_status tn_onnx_sparse(importer *im, const pb_sparse *t, tn_ox_const *out) {
  tn_ox_const v, ix;
  uint64_t count;
  if (!t->values || !t->indices) return tn_fail(im->d, TN_E_ARG, "a sparse tensor without values or indices");
  const char *name = name_of(t->values);
  TN_TRY(tn_onnx_tensor(im, t->values, &v));
  TN_TRY(tn_onnx_tensor(im, t->indices, &ix));
  TN_TRY(count_of(im, name, t->dims, t->n_dims, &count));
  int64_t n = v.rank == 1 ? v.dim[0] : -1;
  bool flat = ix.rank == 1;
  if (v.elem == 8 || n < 0 || ix.elem != 7 || ix.rank < 1 || ix.rank > 2 || ix.dim[0] != n || (!flat && ix.dim[1] != (int64_t)t->n_dims))
    return tn_fail(im->d, TN_E_ARG, "sparse tensor '%.80s': values and indices do not fit each other", name);
  size_t size = tn_dtype_size((tn_dtype)tn_ox_dtype_of(v.elem));
  if (count > MAX_SPARSE / size) return tn_fail(im->d, TN_E_UNSUPPORTED, "sparse tensor '%.80s' would have %llu elements when dense", name, (unsigned long long)count);
  uint8_t *p = room(im, count + 1, size);
  if (!p) return TN_E_NOMEM;
  for (int64_t i = 0; i < n; i++) {
    const int64_t *k = (const int64_t *)ix.data + (flat ? i : i * (int64_t)t->n_dims);
    int64_t at = flat ? k[0] : 0;
    for (size_t j = 0; !flat && j < t->n_dims; j++) {
      if (k[j] < 0 || k[j] >= t->dims[j]) return tn_fail(im->d, TN_E_ARG, "sparse tensor '%.80s': index %lld of dim %lld", name, (long long)k[j], (long long)t->dims[j]);
      at = at * t->dims[j] + k[j];
    }
    if (at < 0 || (uint64_t)at >= count) return tn_fail(im->d, TN_E_ARG, "sparse tensor '%.80s': index %lld of %llu", name, (long long)at, (unsigned long long)count);
    memcpy(p + (size_t)at * size, (const uint8_t *)v.data + (size_t)i * size, size);
  }
  *out = (tn_ox_const){.elem = v.elem, .rank = (uint8_t)t->n_dims, .dim = t->dims, .data = p, .bytes = (size_t)count * size};
  return TN_OK;
}

tn_status tn_onnx_tensor_read(tn_diag *d, tn_arena *a, const void *bytes, size_t n, tn_ox_const *out, const char **out_name) {
  importer im = {.d = d, .a = a};
  void *t;
  TN_TRY(tn_onnx_parse(d, a, bytes, n, &tn_onnx__tensor__descriptor, &t));
  if (out_name) *out_name = ((pb_tensor *)t)->name;
  return tn_onnx_tensor(&im, t, out);
}

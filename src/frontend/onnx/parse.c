/* parse: bytes -> protobuf structures, safely.
 *
 * protobuf-c checks the wire format, but it recurses without a limit and makes a structure of some hundred bytes for every two bytes of an empty message.
 * So the bytes are walked once before, guided by the same descriptors: nesting is limited, every length must lie inside its message, and the memory that
 * the structures will take may not be out of all proportion to the bytes. Structures are then made in the arena, so nothing has to be freed.
 * What fields mean is checked by the files that read them. */
#include "import.h"

typedef struct walk { tn_diag *d; uint64_t made, limit; } walk;

static bool varint(const uint8_t **p, const uint8_t *end, uint64_t *out) {
  uint64_t v = 0;
  for (int shift = 0; shift < 70 && *p < end; shift += 7) {
    uint8_t b = *(*p)++;
    if (shift < 64) v |= (uint64_t)(b & 0x7f) << shift;
    if (!(b & 0x80)) { *out = v; return true; }
  }
  return false;
}

static tn_status message(walk *w, const ProtobufCMessageDescriptor *m, const uint8_t *p, const uint8_t *end, int depth) {
  if (depth > ONNX_MAX_NESTING) return tn_fail(w->d, TN_E_PARSE, "%s: messages are nested deeper than %d", m->short_name, ONNX_MAX_NESTING);
  w->made += m->sizeof_message;
  if (w->made > w->limit) return tn_fail(w->d, TN_E_PARSE, "%s: so many messages in so few bytes are no model", m->short_name);
  while (p < end) {
    uint64_t key, n;
    if (!varint(&p, end, &key)) return tn_fail(w->d, TN_E_PARSE, "%s: a field's key is cut off", m->short_name);
    const ProtobufCFieldDescriptor *f = key >> 3 > UINT32_MAX ? NULL : protobuf_c_message_descriptor_get_field(m, (unsigned)(key >> 3));
    const char *name = f ? f->name : "unknown field";
    if (key >> 3 == 0 || key >> 3 > 0x1fffffff) return tn_fail(w->d, TN_E_PARSE, "%s: field number %llu", m->short_name, (unsigned long long)(key >> 3));
    switch (key & 7) {
    case 0: if (!varint(&p, end, &n)) return tn_fail(w->d, TN_E_PARSE, "%s.%s: a number is cut off", m->short_name, name);
      break;
    case 1: case 5: n = key & 7 ? (key & 7) == 1 ? 8 : 4 : 0;
      if ((uint64_t)(end - p) < n) return tn_fail(w->d, TN_E_PARSE, "%s.%s: a number is cut off", m->short_name, name);
      p += n;
      break;
    case 2:
      if (!varint(&p, end, &n) || n > (uint64_t)(end - p))
        return tn_fail(w->d, TN_E_PARSE, "%s.%s: claims more bytes than the %lld that follow", m->short_name, name, (long long)(end - p));
      if (f && f->type == PROTOBUF_C_TYPE_MESSAGE) TN_TRY(message(w, f->descriptor, p, p + n, depth + 1));
      w->made += 16;
      p += n;
      break;
    default: return tn_fail(w->d, TN_E_PARSE, "%s.%s: wire type %d", m->short_name, name, (int)(key & 7));
    }
  }
  return TN_OK;
}

static void *take(void *a, size_t n) { return tn_arena_alloc(a, n); }
static void leave(void *a, void *p) { (void)a; (void)p; }

tn_status tn_onnx_parse(tn_diag *d, tn_arena *a, const void *bytes, size_t n, const ProtobufCMessageDescriptor *want, void **out) {
  walk w = {.d = d, .limit = (uint64_t)n * 100 + (1 << 16)};
  ProtobufCAllocator in_arena = {.alloc = take, .free = leave, .allocator_data = a};
  *out = NULL;
  if (n > INT32_MAX && n > SIZE_MAX / 128) return tn_fail(d, TN_E_PARSE, "%zu bytes are too many", n);
  TN_TRY(message(&w, want, bytes, (const uint8_t *)bytes + n, 0));
  *out = protobuf_c_message_unpack(want, &in_arena, n, bytes);
  /* the walk found no fault with lengths: what is left is a field of another wire type, or memory */
  return *out ? TN_OK : tn_fail(d, TN_E_PARSE, "%s: fields of the wrong kind, or out of memory for %zu bytes", want->short_name, n);
}

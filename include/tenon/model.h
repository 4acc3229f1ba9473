/* Models: load a package and run it. The run time's main interface; needs libtenon_rt only. Stand-alone with status.h and tensor.h; C11 and C++.
 *
 *   tn_model *m;  tn_session *s;  char why[512];
 *   if (tn_model_open("net.tnp", NULL, &m, why, sizeof why) != TN_OK) ...
 *   tn_session_create(m, NULL, &s);
 *   tn_value *x = tn_value_borrow(&tensor, 0), *y[1];
 *   tn_session_run(s, (tn_value *const[]){x}, y);            // y[0]: tn_value_tensor(y[0])
 *
 * Values are counted: whoever gets one from a call releases it. A model may be used by any number of sessions and threads; a session by one
 * thread at a time. */
#ifndef TENON_MODEL_H
#define TENON_MODEL_H
#include <stddef.h>
#include "tenon/status.h"
#include "tenon/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_model tn_model;      /**< loaded package or compiled model; immutable, shared by sessions and threads */
typedef struct tn_session tn_session;  /**< state of running one model: memory, bound sizes */
typedef struct tn_value tn_value;      /**< tensor, string tensor, list, map, or none; counted, immutable once shared */

/* ---- models ---- */
typedef struct tn_model_options {
  uint32_t struct_size;      /**< set by tn_model_options_init */
  const char *isa;           /**< highest instruction set to use: NULL = the machine's; "avx2", "avx512", "amx" */
  int32_t no_verify;         /**< nonzero: checksums of weights are not read (a trusted file on slow storage) */
  const unsigned char *public_key; /**< NULL, or 32 bytes ed25519: the package must carry a valid signature of this key */
} tn_model_options;
TN_API void tn_model_options_init(tn_model_options *o);
/** Maps and checks a package. Objects in a package are machine code: open only what you trust, or give public_key.
 *  TN_E_IO; TN_E_PARSE: not a package, truncated, checksum; TN_E_VERIFY: broken rule, or signature; TN_E_UNSUPPORTED: version, or no object for this machine. */
TN_API tn_status tn_model_open(const char *path, const tn_model_options *o, tn_model **out, char *error, size_t error_n);
/** The same from memory, which must stay valid and unchanged while the model lives (64-byte alignment spares a copy of weights). */
TN_API tn_status tn_model_open_memory(const void *p, size_t n, const tn_model_options *o, tn_model **out, char *error, size_t error_n);
TN_API void tn_model_retain(tn_model *m);
TN_API void tn_model_release(tn_model *m);
TN_API uint32_t tn_model_n_in(const tn_model *m);
TN_API uint32_t tn_model_n_out(const tn_model *m);
/** One input or output. elem: ONNX's number of the element type (1 = float32, 7 = int64, 8 = string, 16 = bfloat16, 17.. float8, 4-bit). */
typedef struct tn_port {
  const char *name;
  int32_t kind;              /**< 0 tensor, 1 sequence of tensors, 2 optional tensor, 3 optional sequence, 4 map, 5 sequence of maps, 6 anything */
  int32_t elem, key_elem;
  int32_t rank;              /**< -1: not known */
  const int64_t *dim;        /**< [rank]; -1: free */
  const char *const *dim_name; /**< [rank]; NULL: no name */
} tn_port;
TN_API void tn_model_in(const tn_model *m, uint32_t i, tn_port *out);
TN_API void tn_model_out(const tn_model *m, uint32_t i, tn_port *out);
/** Metadata: number of entries; entry i. Strings live as long as the model. */
TN_API uint32_t tn_model_n_meta(const tn_model *m);
TN_API void tn_model_meta(const tn_model *m, uint32_t i, const char **key, const char **value);

/* ---- values ---- */
/** A tensor over the caller's memory, which must stay until the value is released. elem 0: from tensor->dtype, else the ONNX number of a type that is
 *  stored in U8/I8 (float8, 4-bit: one element per byte). NULL: out of memory, or no tensor that can be taken (rank over 16, negative or overflowing dims, a
 *  dtype that elem is not kept in, no memory behind it). */
TN_API tn_value *tn_value_borrow(const tn_tensor *t, int32_t elem);
TN_API tn_value *tn_value_copy(const tn_tensor *t, int32_t elem);                    /**< a dense copy of its own */
TN_API tn_value *tn_value_strings(const char *const *s, const size_t *bytes, int32_t rank, const int64_t *shape); /**< copies; bytes NULL: NUL-terminated */
TN_API tn_value *tn_value_list(tn_value *const *item, size_t n);                     /**< retains the items */
TN_API tn_value *tn_value_map(tn_value *keys, tn_value *values);                     /**< keys: 1-D i64 or strings; values: 1-D tensor or list; both retained. NULL: they do not fit each other, or out of memory */
TN_API tn_value *tn_value_none(void);
TN_API void tn_value_retain(tn_value *v);
TN_API void tn_value_release(tn_value *v);                                           /**< NULL is fine */
typedef enum tn_value_kind { TN_VALUE_NONE, TN_VALUE_TENSOR, TN_VALUE_STRINGS, TN_VALUE_LIST, TN_VALUE_MAP } tn_value_kind;
TN_API tn_value_kind tn_value_get_kind(const tn_value *v);
TN_API int32_t tn_value_elem(const tn_value *v);                                     /**< ONNX number of a tensor's element type; 8 for strings; else 0 */
TN_API const tn_tensor *tn_value_tensor(const tn_value *v);                          /**< TENSOR; shape also of STRINGS (data NULL); lives as long as v */
TN_API const char *tn_value_string(const tn_value *v, size_t i, size_t *out_bytes);  /**< element i of STRINGS, with a NUL after its end */
TN_API size_t tn_value_n(const tn_value *v);                                         /**< items of a LIST, entries of a MAP, elements of a tensor */
TN_API tn_value *tn_value_item(const tn_value *v, size_t i);                         /**< borrowed item of a LIST; MAP: 0 keys, 1 values */

/* ---- running ---- */
typedef struct tn_session_options { uint32_t struct_size; int32_t threads; /**< 0 = usable cores */ } tn_session_options;
TN_API void tn_session_options_init(tn_session_options *o);
TN_API tn_status tn_session_create(tn_model *m, const tn_session_options *o, tn_session **out);
TN_API void tn_session_destroy(tn_session *s);
/** Runs the model. in: [n_in], entry NULL = none. out: [n_out], each a value that the caller releases; untouched when the call fails.
 *  TN_E_ARG names input, dim, wanted and found; TN_E_INDEX; TN_E_ZERO; TN_E_NOMEM; TN_E_UNSUPPORTED. */
TN_API tn_status tn_session_run(tn_session *s, tn_value *const *in, tn_value **out);
/** Writes results into the caller's dense row-major tensors (shape and dtype must be those of the result; not over inputs): no allocation after the first run of a size when
 *  the model is one plan. */
TN_API tn_status tn_session_run_into(tn_session *s, const tn_tensor *in, tn_tensor *out);
TN_API const char *tn_session_error(const tn_session *s);                            /**< text of the last error; never NULL */
typedef struct tn_session_stats { uint64_t calls, plan_calls, dyn_ops, branches, iterations, binds, arena_bytes, packed_bytes; } tn_session_stats;
TN_API void tn_session_get_stats(const tn_session *s, tn_session_stats *out);

#ifdef __cplusplus
}
#endif
#endif

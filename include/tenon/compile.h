/* Compiling: from a captured graph to a program. Needs libtenon (LLVM inside). Stand-alone with status.h, run.h and model.h; C11 and C++. */
#ifndef TENON_COMPILE_H
#define TENON_COMPILE_H
#include <stddef.h>
#include "tenon/status.h"
#include "tenon/run.h"
#include "tenon/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Dims of one input of a model, by its name, in place of what the file says. -1: as the file says. */
typedef struct tn_compile_shape { const char *input; int32_t rank; const int64_t *dim; } tn_compile_shape;

typedef struct tn_compile_options {
  uint32_t struct_size;       /**< set by tn_compile_options_init */
  int32_t threads;            /**< compile threads; 0 = usable cores */
  const char *profile;        /**< gate profile: "default" (NULL) or "dvm" */
  const char *isa;            /**< highest instruction set: NULL = the machine's; "avx2", "avx512", "amx" */
  const char *passes;         /**< NULL, or changes to the default list: "-fuse,-cse" */
  const char *dump_dir;       /**< NULL, or folder for every level as text (also TENON_DUMP) */
  int32_t fail_on_fallback;   /**< nonzero: any fallback is TN_E_UNSUPPORTED */
  int32_t allow_host_calls;   /**< nonzero: unknown ops become host calls; zero: they are TN_E_UNSUPPORTED naming op and node */
  const char *targets;        /**< models: NULL or "native", else levels a package is for: "x86-64-v3,x86-64-v4,amx,aarch64"; with "portable"
                                   among them the package also holds the model itself, which libtenon compiles where none of the levels runs */
  const tn_compile_shape *shape; /**< models: [n_shape] overridden input shapes */
  uint32_t n_shape;
  int32_t strict;             /**< models: a declared shape that contradicts the inferred one is an error everywhere, not only at outputs */
  void (*progress)(void *user, const char *stage, uint32_t done, uint32_t of); /**< NULL, or called now and then from the calling thread */
  void *progress_user;
} tn_compile_options;
TN_API void tn_compile_options_init(tn_compile_options *o);

typedef struct tn_compiled tn_compiled;   /**< result of a compile: program, report, messages; also of a failed one (messages only) */

/** Compiles an FX graph in the JSON form of docs/fx.md. Never NULL in *out unless TN_E_NOMEM; the caller destroys it.
 *  Errors: TN_E_PARSE (JSON), TN_E_UNSUPPORTED (names op and node), TN_E_VERIFY, TN_E_INTERNAL. */
TN_API tn_status tn_compile_fx(const char *json, size_t n, const tn_compile_options *o, tn_compiled **out);
/** Compiles graph text (docs/ir.md) in the same way. */
TN_API tn_status tn_compile_text(const char *text, size_t n, const tn_compile_options *o, tn_compiled **out);
/** Compiles an ONNX model. folder: where external data of the model lie; NULL = external data are refused. `bytes` may go after the call.
 *  Errors: TN_E_PARSE (no model, truncated, claims more than it holds), TN_E_VERIFY and TN_E_ARG (breaks a rule of ONNX), TN_E_UNSUPPORTED, TN_E_IO (external data);
 *  the text names node and value. */
TN_API tn_status tn_compile_onnx(const void *bytes, size_t n, const char *folder, const tn_compile_options *o, tn_compiled **out);
/** The same from a file; its folder is where external data are looked for. */
TN_API tn_status tn_compile_onnx_file(const char *path, const tn_compile_options *o, tn_compiled **out);
/** Compiles an FX graph to a model: input i of the graph becomes a constant where constant[i].data is not NULL (its bytes are copied), the others are inputs of
 *  the model, in order. n_constant: number of inputs of the graph. */
TN_API tn_status tn_compile_fx_model(const char *json, size_t n, const tn_tensor *constant, uint32_t n_constant, const tn_compile_options *o, tn_compiled **out);
/** The model of tn_compile_onnx and tn_compile_fx_model, retained for the caller; loads its kernels at the first call. NULL: none of the targets runs here, or
 *  nothing was compiled, and tn_compiled_error says so. */
TN_API tn_model *tn_compiled_model(tn_compiled *c);
/** Writes a package (docs/package.md) with kernels for every target. TN_E_IO, TN_E_NOMEM, TN_E_ARG (nothing to save). */
TN_API tn_status tn_compiled_save(tn_compiled *c, const char *path);
/** Writes the package as a relocatable object (path) that a C program links, and beside it a header (path with .h) with its name, size and typed calls. One
 *  target's architecture decides the object's. Errors as tn_compiled_save. */
TN_API tn_status tn_compiled_save_static(tn_compiled *c, const char *path);
typedef enum tn_inspect { TN_INSPECT_JSON = 1, TN_INSPECT_MEMORY = 2, /**< every buffer */ TN_INSPECT_VERIFY = 4 /**< packages: check and say so, no more */ } tn_inspect;
/** What the model is made of: ports, functions, plans, kernels, sizes. what: tn_inspect bits. *out: tn_text_free. */
TN_API tn_status tn_compiled_inspect(tn_compiled *c, int32_t what, char **out);
/** The same of a package, with its sections; every checksum and rule is checked, nothing is loaded. error[] says what is wrong. */
TN_API tn_status tn_package_inspect(const char *path, int32_t what, char **out, char *error, size_t error_n);
/** A line for every source node: what became of it and where; the sums last. *out: tn_text_free. */
TN_API tn_status tn_compiled_explain(tn_compiled *c, char **out);
/** NULL after a failure, and for models; lives as long as c. */
TN_API const tn_program *tn_compiled_program(const tn_compiled *c);
TN_API const char *tn_compiled_error(const tn_compiled *c);             /**< "" when fine */
/** JSON report: {"nodes":[{name,target,where,fate,detail,gates:[..4]}], "stages":[{name,ms,nodes_in,nodes_out}], "kernels":[..], "plan":text,
 *  "host_calls":[{"target","node","args":{..}}]} ; owned by c. */
TN_API const char *tn_compiled_report(const tn_compiled *c);
TN_API void tn_compiled_destroy(tn_compiled *c);

/** A value of ONNX test data (a .pb file): TensorProto, SequenceProto, OptionalProto or MapProto, as the port's kind says (tn_port.kind). The caller releases it.
 *  TN_E_PARSE, TN_E_UNSUPPORTED, TN_E_ARG, TN_E_NOMEM; error[] says what. */
TN_API tn_status tn_onnx_value_read(const void *bytes, size_t n, int32_t kind, tn_value **out, char *error, size_t error_n);

/** Checks a package as far as it can be without running it: hashes, padding, and the modules of all its levels. Nothing is loaded. error[] says what is wrong. */
TN_API tn_status tn_package_whole(const char *path, char *error, size_t error_n);
/* ---- signatures of packages (Ed25519 by libsodium; without it TN_E_UNSUPPORTED). error[] says what is wrong. ---- */
/** A new pair of keys. */
TN_API tn_status tn_key_make(unsigned char secret_key[64], unsigned char public_key[32]);
/** Key files: one line of text. A file is never written over; a secret key's is for its owner alone. secret nonzero: 64 bytes, else 32. */
TN_API tn_status tn_key_write(const char *path, int secret, const unsigned char *key, char *error, size_t error_n);
TN_API tn_status tn_key_read(const char *path, int secret, unsigned char *key, char *error, size_t error_n);
/** Signs the package at `path`, in place (temporary file and rename); an old signature goes. */
TN_API tn_status tn_package_sign(const char *path, const unsigned char secret_key[64], char *error, size_t error_n);
/** Checks a package and its signature. public_key NULL: any key will do, so ask who: signer, if not NULL, receives the key it is signed with. TN_E_VERIFY: not
 *  signed, another key, or wrong. */
TN_API tn_status tn_package_check(const char *path, const unsigned char *public_key, unsigned char signer[32], char *error, size_t error_n);

/** Graph text through named passes ("decompose,fold,fuse" or "default"); result text is malloc'ed with *out_text (free with tn_text_free). */
TN_API tn_status tn_opt_text(const char *text, size_t n, const char *passes, char **out_text, char *error, size_t error_n);
TN_API void tn_text_free(char *s);

/** One kernel from its text (docs/kir.md): definition, and a schedule or NULL for the one that the rules choose.
 *  @param what  "def", "sched", "nest", "ll" (LLVM text) or "obj" (relocatable ELF)
 *  @param isa   NULL = the machine's, or "avx2", "avx512", "amx"
 *  @param out   malloc'ed bytes, a NUL after the end (tn_text_free); *out_n their number
 *  @return TN_E_PARSE, TN_E_VERIFY (illegal schedule), TN_E_ARG (isa, what), TN_E_UNSUPPORTED, TN_E_NOMEM; error[] says what and where. */
TN_API tn_status tn_kernel_build(const char *def, size_t def_n, const char *sched, size_t sched_n, const char *isa, const char *what, char **out, size_t *out_n,
                                 char *error, size_t error_n);
/** What the compiler is made of, as text for people or (json nonzero) a JSON array of objects: "passes", "rules", "ops", "aten", "env", "profiles".
 *  *out_text is malloc'ed (tn_text_free). TN_E_ARG: no such table. */
TN_API tn_status tn_table_text(const char *what, int json, char **out_text);
/** Names of framework ops with a decomposition, one per line; static storage. */
TN_API const char *tn_aten_names(void);

#ifdef __cplusplus
}
#endif
#endif

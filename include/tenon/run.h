/* Running compiled programs: the run time's C interface. Stand-alone header with status.h and tensor.h; C11 and C++. */
#ifndef TENON_RUN_H
#define TENON_RUN_H
#include <stddef.h>
#include "tenon/status.h"
#include "tenon/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_program tn_program;  /**< a loaded plan with its machine code: immutable, shared by any number of runs and threads */
typedef struct tn_run tn_run;          /**< state of one call at a time: arena, bound sizes, packed weights */

/** A host function that the plan calls for work Tenon has no kernel for (a framework op).
 *  @param call    number of the host call in the plan (0-based, in plan order of first appearance)
 *  @param in,out  strided tensors; in read only; out to be filled, shapes and strides as planned
 *  @return TN_OK or an error code, which ends the run. */
typedef tn_status (*tn_host_fn)(void *user, uint32_t call, const tn_tensor *in, uint32_t n_in, tn_tensor *out, uint32_t n_out);

typedef struct tn_run_options {
  uint32_t struct_size;   /**< sizeof(tn_run_options), set by tn_run_options_init */
  int32_t threads;        /**< worker threads; 0 = usable cores */
  tn_host_fn host;        /**< required when the plan has host calls */
  void *host_user;
} tn_run_options;
TN_API void tn_run_options_init(tn_run_options *o);

/** Creates the state for running `p`, which must outlive it. TN_E_ARG: the plan needs a host function and none is given. */
TN_API tn_status tn_run_create(const tn_program *p, const tn_run_options *o, tn_run **out);
TN_API void tn_run_destroy(tn_run *r);

/** Checks inputs against the plan's guards and fixes the symbolic sizes of this call.
 *  @param in     [n_in] inputs: dtype, rank and dims as planned, any strides the guards allow; not kept after the call that follows.
 *  @param key    NULL or [n_in]: version counters of parameters; a packed copy of a parameter is renewed when its data pointer or key changes.
 *                NULL: parameters are taken as unchanged while their pointer is.
 *  @return TN_E_ARG: message names input, dim, wanted and found; TN_E_NOMEM. */
TN_API tn_status tn_run_bind(tn_run *r, const tn_tensor *in, const uint64_t *key);
/** Shape and strides of output i for the bound sizes (pointers valid until the next bind). data is NULL, except for an output that is a view of
 *  an input, where it is the address inside that input and tn_run_out_alias gives the input's number; exec does not touch it.
 *  An output that is a size is a scalar TN_I64 whose data holds the value already (tn_run_out_alias: -1). One that is nothing has dtype -1. */
TN_API tn_status tn_run_out(tn_run *r, uint32_t i, tn_tensor *out);
TN_API int32_t tn_run_out_alias(const tn_run *r, uint32_t i);   /**< input number, or -1 */
/** Runs the plan. out: [n_out] caller-owned memory with the shapes and strides of tn_run_out (64-byte alignment is best, not needed).
 *  Entries of outputs that are views of inputs, sizes or nothing are not looked at (a size is also stored where data points, if not NULL).
 *  out must not overlap inputs. Mutated inputs are written in place. TN_E_INDEX: an index tensor pointed outside its table; TN_E_ZERO: an integer was divided by zero; outputs undefined. No allocation after the first run of a size. */
TN_API tn_status tn_run_exec(tn_run *r, tn_tensor *out);
/** Text of the last error of this run; never NULL; valid until the next call on it. */
TN_API const char *tn_run_error(const tn_run *r);

TN_API uint32_t tn_program_n_in(const tn_program *p);
TN_API uint32_t tn_program_n_out(const tn_program *p);
/** Nonzero when input i has packed copies, so that its key matters to tn_run_bind. O(buffers). */
TN_API int32_t tn_program_in_packed(const tn_program *p, uint32_t i);
TN_API void tn_program_destroy(tn_program *p);

/** Where log lines go (channels named in TENON_LOG); NULL: nowhere, as at start. One call a line, from any thread, for the whole process. */
typedef void (*tn_log_sink)(void *user, const char *channel, const char *line);
TN_API void tn_set_log(tn_log_sink fn, void *user);

/** Counters since start, for tests and reports. */
typedef struct tn_run_stats { uint64_t calls, launches, host_calls, lib_calls, views, packs, binds, arena_bytes; } tn_run_stats;
TN_API void tn_run_get_stats(const tn_run *r, tn_run_stats *out);

#ifdef __cplusplus
}
#endif
#endif

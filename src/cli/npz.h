/* npz: NumPy's .npy and .npz files to values and back. The readers trust nothing: every size is checked against the bytes that are there. */
#ifndef TN_CLI_NPZ_H
#define TN_CLI_NPZ_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tenon/model.h"

/* Named values; names and values are owned. */
typedef struct cli_named { char *name; tn_value *value; } cli_named;
typedef struct cli_names { cli_named *at; size_t n, cap; } cli_names;
void cli_names_free(cli_names *x);
/* Takes the value over, also when it fails. 0 = out of memory. */
int cli_names_add(cli_names *x, const char *name, size_t name_n, tn_value *v);
tn_value *cli_names_find(const cli_names *x, const char *name);   /* borrowed; NULL = none */

/* Bytes of one .npy array as a value with memory of its own; NULL: why[] says what is wrong. */
tn_value *cli_npy_read(const void *p, size_t n, char *why, size_t why_n);
/* All arrays of a .npz, under their names without ".npy". 0: why[]. */
int cli_npz_read(const void *p, size_t n, cli_names *out, char *why, size_t why_n);

/* Growing bytes; bad: out of memory, or (npz) a value that has no .npy form. */
typedef struct cli_bytes { unsigned char *p; size_t n, cap; int bad; } cli_bytes;
void cli_bytes_put(cli_bytes *b, const void *p, size_t n);
void cli_npy_write(cli_bytes *b, const tn_value *v);              /* a tensor or strings; types NumPy lacks: bfloat16 as float32, smaller ones as bytes */
/* Lists go as "name/0", "name/1", ...; maps as "name/keys", "name/values"; none is left out. */
void cli_npz_write(cli_bytes *b, const cli_names *x);
#endif

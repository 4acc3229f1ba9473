/* model: what commands on models share: loading one (ONNX or package), and its inputs and outputs as files. */
#ifndef TN_CLI_MODEL_H
#define TN_CLI_MODEL_H
#include "cli.h"
#include "npz.h"
#include "tenon/compile.h"
#include "tenon/model.h"

typedef struct cli_common { const char *isa; long threads; cli_list shape; const char *dump; int strict; } cli_common;
#define CLI_COMMON(c) \
  {"--threads", CLI_O_INT, &(c).threads}, {"--isa", CLI_O_TEXT, &(c).isa}, {"--shape", CLI_O_LIST, &(c).shape}, {"--dump", CLI_O_TEXT, &(c).dump}, \
      {"--strict", CLI_O_FLAG, &(c).strict}

typedef struct cli_model {
  tn_model *m;
  tn_compiled *c;      /* NULL for packages */
  double ms;           /* compiling and loading */
} cli_model;
/* Compile options of the common ones; the shapes lie in *room. CLI_USAGE after a message. */
typedef struct cli_shapes { tn_compile_shape at[CLI_MAX_LIST]; int64_t dim[CLI_MAX_LIST][16]; char name[CLI_MAX_LIST][256]; } cli_shapes;
int cli_compile_options(const char *command, const cli_common *c, cli_shapes *room, tn_compile_options *o);
/* Is this file a package (by its first bytes)? -1: it can't be read, said on stderr. */
int cli_is_package(const char *command, const char *path);
/* Compiles an ONNX file with progress on stderr; *out also after a failure (messages said). */
int cli_compile_file(const char *command, const char *path, const tn_compile_options *o, tn_compiled **out);
/* CLI_OK, or what to exit with after a message on stderr. */
int cli_model_load(const char *command, const char *path, const cli_common *c, cli_model *out);
void cli_model_free(cli_model *m);

/* ---- inputs.c ---- */
typedef struct cli_inputs { cli_list files; int random; long seed; } cli_inputs;
/* One value for each input of the model: from files, then (random) made up. CLI_OK or what to exit with. shapes: for free dims of made-up inputs. */
int cli_inputs_get(const char *command, const tn_model *m, const cli_inputs *x, const cli_common *c, tn_value **in);
void cli_values_free(tn_value **v, size_t n);
/* A file as bytes, malloc'ed; NULL after a message. */
char *cli_file(const char *command, const char *path, size_t *out_n);
/* Reads .npz, .npy, .pb or a folder; into values by name, "" for a file that has none. kind: of a .pb. */
int cli_read_named(const char *command, const char *path, int kind, cli_names *out);
/* Writes results: .npz, .npy (one result) or a folder of .npy. */
int cli_outputs_put(const char *command, const tn_model *m, tn_value *const *out, const char *path);
/* "f32[2,3]" of a value or a port. */
void cli_value_text(const tn_value *v, char *text, size_t n);
void cli_port_text(const tn_port *p, char *text, size_t n);
const char *cli_elem_name(int elem);
double cli_now_ms(void);
#endif

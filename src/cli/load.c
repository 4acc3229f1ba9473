/* load: from a path to a model. Packages are told by their first bytes; anything else is compiled as ONNX. Progress is shown on a terminal once work takes
 * longer than a second. */
#define _GNU_SOURCE
#include "model.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

double cli_now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* ---- progress ---- */

typedef struct shown { double start; int lines; } shown;

static void progress(void *user, const char *stage, uint32_t done, uint32_t of) {
  shown *s = user;
  if (cli_now_ms() - s->start < 1000) return;
  fprintf(stderr, "\r\033[K%s %u of %u", stage, done + 1, of);
  fflush(stderr);
  s->lines = 1;
}

/* ---- options ---- */

/* "name=1,3,224,224"; '?' or -1 leaves a dim as it is. */
static int shape_of(const char *text, tn_compile_shape *s, int64_t *dim, char *name) {
  const char *eq = strrchr(text, '=');
  if (!eq || eq == text || eq - text > 255) return 0;
  memcpy(name, text, (size_t)(eq - text));
  name[eq - text] = 0;
  *s = (tn_compile_shape){.input = name, .dim = dim};
  for (const char *p = eq + 1; *p;) {
    char *end = (char *)(uintptr_t)p + 1;
    if (s->rank == 16) return 0;
    dim[s->rank++] = *p == '?' ? -1 : strtoll(p, &end, 10);
    if (end == p || (*end && *end != ',' && *end != 'x') || dim[s->rank - 1] < -1) return 0;
    p = *end ? end + 1 : end;
  }
  return 1;
}

int cli_compile_options(const char *command, const cli_common *c, cli_shapes *room, tn_compile_options *o) {
  tn_compile_options_init(o);
  o->isa = c->isa;
  o->dump_dir = c->dump;
  o->strict = c->strict;
  o->shape = room->at;
  for (int i = 0; i < c->shape.n; i++)
    if (!shape_of(c->shape.at[i], &room->at[o->n_shape++], room->dim[i], room->name[i])) return cli_usage(command, "--shape wants NAME=1,3,224,224");
  return CLI_OK;
}

/* ---- loading ---- */

int cli_is_package(const char *command, const char *path) {
  unsigned char head[4] = {0};
  FILE *f = fopen(path, "rb");
  size_t n = f ? fread(head, 1, sizeof head, f) : 0;
  if (!f || (n == 0 && ferror(f))) {
    fprintf(stderr, "tenon %s: can't read '%s'\n", command, path);
    if (f) fclose(f);
    return -1;
  }
  fclose(f);
  return n == 4 && memcmp(head, CLI_PACKAGE_MAGIC, 4) == 0;
}

int cli_compile_file(const char *command, const char *path, const tn_compile_options *given, tn_compiled **out) {
  tn_compile_options o = *given;
  shown s = {.start = cli_now_ms()};
  if (isatty(2)) o.progress = progress, o.progress_user = &s;
  tn_status st = tn_compile_onnx_file(path, &o, out);
  if (s.lines) fprintf(stderr, "\r\033[K");
  if (st == TN_OK) return CLI_OK;
  fprintf(stderr, "tenon %s: %s: %s: %s\n", command, path, tn_status_name(st), *out ? tn_compiled_error(*out) : "out of memory");
  return st == TN_E_ARG && o.targets ? CLI_USAGE : CLI_FAILED;
}

int cli_model_load(const char *command, const char *path, const cli_common *c, cli_model *out) {
  static cli_shapes room;
  tn_compile_options o;
  double t = cli_now_ms();
  *out = (cli_model){0};
  int package = cli_is_package(command, path), r;
  if (package < 0) return CLI_FAILED;
  if (package) {
    tn_model_options mo;
    char why[2048] = "";
    tn_model_options_init(&mo);
    mo.isa = c->isa;
    tn_status st = tn_model_open(path, &mo, &out->m, why, sizeof why);
    if (st != TN_OK) {
      fprintf(stderr, "tenon %s: %s: %s: %s\n", command, path, tn_status_name(st), why);
      return CLI_FAILED;
    }
  } else {
    if ((r = cli_compile_options(command, c, &room, &o)) != CLI_OK) return r;
    if ((r = cli_compile_file(command, path, &o, &out->c)) != CLI_OK) {
      cli_model_free(out);
      return r;
    }
    out->m = tn_compiled_model(out->c);
    if (!out->m) {
      fprintf(stderr, "tenon %s: %s: %s\n", command, path, tn_compiled_error(out->c));
      cli_model_free(out);
      return CLI_FAILED;
    }
  }
  out->ms = cli_now_ms() - t;
  return CLI_OK;
}

void cli_model_free(cli_model *m) {
  tn_model_release(m->m);
  tn_compiled_destroy(m->c);
  *m = (cli_model){0};
}

/* compile: an ONNX model to a package, or to an object and a header that a C program links. */
#include "model.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static long long size_of(const char *path) {
  struct stat s;
  return stat(path, &s) == 0 ? (long long)s.st_size : -1;
}

int cli_compile(int argc, char **argv) {
  static cli_shapes room;
  cli_common c = {0};
  const char *out = NULL, *targets = NULL, *emit = "package", *pos[1];
  int json = 0, n_pos, r;
  const cli_option opts[] = {CLI_COMMON(c), {"-o", CLI_O_TEXT, &out}, {"--output", CLI_O_TEXT, &out}, {"--targets", CLI_O_TEXT, &targets}, {"--emit", CLI_O_TEXT, &emit}, {"--json", CLI_O_FLAG, &json}};
  if ((r = cli_args(argc, argv, opts, sizeof opts / sizeof *opts, pos, 1, &n_pos)) != CLI_OK) return r;
  if (n_pos != 1) return cli_usage("compile", "one MODEL is wanted");
  if (!out) return cli_usage("compile", "-o FILE is wanted");
  if (strcmp(emit, "package") != 0 && strcmp(emit, "static") != 0) return cli_usage("compile", "--emit knows package and static");
  tn_compile_options o;
  tn_compiled *k = NULL;
  if ((r = cli_compile_options("compile", &c, &room, &o)) != CLI_OK) return r;
  o.targets = targets ? targets : "native";
  o.threads = (int32_t)c.threads;
  int package = cli_is_package("compile", pos[0]);
  if (package < 0) return CLI_FAILED;
  if (package) return cli_failed("compile", "this file is a package already");
  double t = cli_now_ms();
  r = cli_compile_file("compile", pos[0], &o, &k);
  double compile_ms = cli_now_ms() - t;
  if (r == CLI_OK) {
    t = cli_now_ms();
    tn_status st = strcmp(emit, "static") ? tn_compiled_save(k, out) : tn_compiled_save_static(k, out);
    if (st != TN_OK) {
      fprintf(stderr, "tenon compile: %s: %s: %s\n", out, tn_status_name(st), tn_compiled_error(k));
      r = CLI_FAILED;
    }
  }
  if (r == CLI_OK && json) {
    printf("{\"model\": ");
    cli_json_text(stdout, pos[0]);
    printf(", \"out\": ");
    cli_json_text(stdout, out);
    printf(", \"targets\": ");
    cli_json_text(stdout, o.targets);
    printf(", \"bytes\": %lld, \"compile_ms\": %.1f, \"write_ms\": %.1f}\n", size_of(out), compile_ms, cli_now_ms() - t);
  } else if (r == CLI_OK) {
    printf("%s: %lld bytes, compiled in %.2f s\n", out, size_of(out), compile_ms / 1e3);
  }
  tn_compiled_destroy(k);
  return r;
}

/* kernel: one kernel's definition text in, any later form out. */
#include "cli.h"
#include "tenon/compile.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *read_file(const char *path, size_t *n) {
  FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
  char *text = f ? cli_slurp(f, n) : NULL;
  if (f && f != stdin) fclose(f);
  if (!text) fprintf(stderr, "tenon kernel: can't read '%s'\n", path);
  return text;
}

int cli_kernel(int argc, char **argv) {
  const char *path = NULL, *sched = NULL, *emit = "nest", *isa = NULL, *to = NULL;
  for (int i = 1; i < argc; i++) {
    const char **want = !strcmp(argv[i], "--sched")  ? &sched
                        : !strcmp(argv[i], "--emit") ? &emit
                        : !strcmp(argv[i], "--isa")  ? &isa
                        : !strcmp(argv[i], "-o")     ? &to
                                                     : NULL;
    if (want && i + 1 < argc)
      *want = argv[++i];
    else if (want)
      return cli_usage("kernel", "an option lacks its value");
    else if (argv[i][0] == '-' && argv[i][1])
      return cli_usage("kernel", "unknown option");
    else if (path)
      return cli_usage("kernel", "more than one file");
    else
      path = argv[i];
  }
  if (!path) return cli_usage("kernel", "no file given; '-' reads standard input");
  if (!strcmp(emit, "obj") && !to) return cli_usage("kernel", "--emit obj wants -o FILE");
  size_t n = 0, sn = 0, out_n = 0;
  char error[2048], *out = NULL, *text = read_file(path, &n), *stext = sched && text ? read_file(sched, &sn) : NULL;
  if (!text || (sched && !stext)) {
    free(text);
    return CLI_FAILED;
  }
  tn_status s = tn_kernel_build(text, n, stext, sn, isa, emit, &out, &out_n, error, sizeof error);
  free(text);
  free(stext);
  if (s != TN_OK) {
    fprintf(stderr, "tenon kernel: %s: %s: %s\n", path, tn_status_name(s), error);
    return s == TN_E_ARG ? CLI_USAGE : CLI_FAILED;
  }
  FILE *f = to ? fopen(to, "wb") : stdout;
  int bad = !f || fwrite(out, 1, out_n, f) != out_n || fflush(f) != 0;
  if (f && to) bad |= fclose(f) != 0;
  tn_text_free(out);
  return bad ? cli_failed("kernel", "can't write the result") : CLI_OK;
}

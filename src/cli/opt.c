/* opt: graph text in, passes, graph text out. */
#include "cli.h"
#include "tenon/compile.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *cli_slurp(FILE *f, size_t *out_n) {
  size_t n = 0, cap = 1 << 16;
  char *s = malloc(cap);
  while (s) {
    size_t got = fread(s + n, 1, cap - n, f);
    n += got;
    if (n < cap) break;
    char *more = realloc(s, cap *= 2);
    if (!more) free(s);
    s = more;
  }
  if (s && ferror(f)) {
    free(s);
    return NULL;
  }
  *out_n = n;
  return s;
}

int cli_opt(int argc, char **argv) {
  const char *passes = "default", *path = NULL;
  char error[2048], *out = NULL;
  size_t n = 0;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--pass") == 0 && i + 1 < argc) passes = argv[++i];
    else if (strncmp(argv[i], "--pass=", 7) == 0) passes = argv[i] + 7;
    else if (argv[i][0] == '-' && argv[i][1]) return cli_usage("opt", argv[i][1] == '-' && strcmp(argv[i], "--pass") == 0 ? "--pass wants a list" : "unknown option");
    else if (path) return cli_usage("opt", "more than one file");
    else path = argv[i];
  }
  if (!path) return cli_usage("opt", "no file given; '-' reads standard input");
  FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
  char *text = f ? cli_slurp(f, &n) : NULL;
  if (f && f != stdin) fclose(f);
  if (!text) {
    fprintf(stderr, "tenon opt: can't read '%s'\n", path);
    return CLI_FAILED;
  }
  tn_status s = tn_opt_text(text, n, passes, &out, error, sizeof error);
  free(text);
  if (s != TN_OK) {
    fprintf(stderr, "tenon opt: %s: %s: %s\n", strcmp(path, "-") == 0 ? "standard input" : path, tn_status_name(s), error);
    return CLI_FAILED;
  }
  int bad = fputs(out, stdout) < 0 || fflush(stdout) != 0;
  tn_text_free(out);
  return bad ? cli_failed("opt", "can't write the result") : CLI_OK;
}

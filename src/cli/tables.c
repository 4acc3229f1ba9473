/* tables: passes, ops and config print the compiler's own tables, for people or as JSON. */
#include "cli.h"
#include "tenon/compile.h"
#include <stdio.h>
#include <string.h>

/* other: the option that shows table `second` instead of `first`. */
static int show(int argc, char **argv, const char *first, const char *other, const char *second) {
  const char *what = first;
  int json = 0;
  char *text = NULL;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--json") == 0) json = 1;
    else if (strcmp(argv[i], other) == 0) what = second;
    else return cli_usage(argv[0], argv[i][0] == '-' ? "unknown option" : "takes no file");
  }
  if (tn_table_text(what, json, &text) != TN_OK) return cli_failed(argv[0], "out of memory");
  int bad = fputs(text, stdout) < 0 || fflush(stdout) != 0;
  tn_text_free(text);
  return bad ? cli_failed(argv[0], "can't write the result") : CLI_OK;
}
int cli_passes(int argc, char **argv) { return show(argc, argv, "passes", "--rules", "rules"); }
int cli_ops(int argc, char **argv) { return show(argc, argv, "ops", "--aten", "aten"); }
int cli_config(int argc, char **argv) { return show(argc, argv, "env", "--profiles", "profiles"); }

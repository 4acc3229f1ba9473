/* cli: argument parsing only; the work is behind the public headers. Exit codes: 0 fine, 1 failed, 2 wrong usage.
 * A subcommand is one row of commands.def and one function. */
#ifndef TN_CLI_H
#define TN_CLI_H
#include <stdio.h>

typedef enum tn_cli_exit { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 } tn_cli_exit;
#define TN_CMD(name, fn, usage, doc) int fn(int argc, char **argv);
#include "commands.def"
#undef TN_CMD

/* argv[0] is the subcommand. Prints "tenon <command>: <text>" and the usage line; returns CLI_USAGE. */
int cli_usage(const char *command, const char *text);
int cli_failed(const char *command, const char *text);
/* True when one of the arguments is --help or -h: the help is printed. */
int cli_help_wanted(int argc, char **argv);
/* The whole stream, malloc'ed; NULL when memory or reading fails. */
char *cli_slurp(FILE *f, size_t *out_n);
#endif

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
#define CLI_PACKAGE_MAGIC "\x89TNP"

/* ---- args.c ---- */
enum { CLI_MAX_LIST = 64 };
typedef struct cli_list { const char *at[CLI_MAX_LIST]; int n; } cli_list;
typedef enum cli_option_kind { CLI_O_FLAG /* int */, CLI_O_TEXT /* const char * */, CLI_O_INT /* long */, CLI_O_LIST /* cli_list: may be repeated */ } cli_option_kind;
typedef struct cli_option { const char *name; cli_option_kind kind; void *to; } cli_option;
/* Options by the table, anything else into pos[]. CLI_OK, or CLI_USAGE after a message. */
int cli_args(int argc, char **argv, const cli_option *o, int n, const char **pos, int max_pos, int *out_n_pos);
void cli_json_text(FILE *f, const char *s);   /* quoted; "" for NULL */
/* The whole stream, malloc'ed; NULL when memory or reading fails. */
char *cli_slurp(FILE *f, size_t *out_n);
#endif

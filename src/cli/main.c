/* tenon: the command line. Finds the subcommand; each does its own arguments. */
#include "cli.h"
#include "tenon/compile.h"
#include <stdio.h>
#include <string.h>

static const struct { const char *name; int (*fn)(int, char **); const char *usage, *doc; } commands[] = {
#define TN_CMD(name, fn, usage, doc) {name, fn, usage, doc},
#include "commands.def"
#undef TN_CMD
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

int cli_usage(const char *command, const char *text) {
  fprintf(stderr, "tenon %s: %s\n", command, text);
  for (int i = 0; i < N_COMMANDS; i++)
    if (strcmp(commands[i].name, command) == 0) fprintf(stderr, "usage: tenon %s\n", commands[i].usage);
  return CLI_USAGE;
}
int cli_failed(const char *command, const char *text) {
  fprintf(stderr, "tenon %s: %s\n", command, text);
  return CLI_FAILED;
}
static const struct { const char *command, *text; } notes[] = {
#define TN_NOTE(command, text) {command, text},
#include "notes.def"
#undef TN_NOTE
};

/* Text in lines of at most 100 characters. */
static void wrapped(const char *s) {
  while (*s) {
    size_t n = strlen(s), cut = n;
    if (n > 100)
      for (cut = 100; cut > 0 && s[cut] != ' ';) cut--;
    if (cut == 0) cut = n;
    printf("%.*s\n", (int)cut, s);
    s += cut + (s[cut] == ' ');
  }
}

int cli_help_wanted(int argc, char **argv) {
  for (int k = 1; k < argc; k++) {
    if (strcmp(argv[k], "--help") != 0 && strcmp(argv[k], "-h") != 0) continue;
    for (int i = 0; i < N_COMMANDS; i++)
      if (strcmp(commands[i].name, argv[0]) == 0) printf("usage: tenon %s\n\n%s\n", commands[i].usage, commands[i].doc);
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++)
      if (strcmp(notes[i].command, argv[0]) == 0) {
        printf("\n");
        wrapped(notes[i].text);
      }
    return 1;
  }
  return 0;
}

static void overview(FILE *to) {
  fprintf(to, "usage: tenon COMMAND ...\n\n");
  for (int i = 0; i < N_COMMANDS; i++) fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].doc);
  fprintf(to, "\ntenon COMMAND --help says more. Exit status: 0 fine, 1 failed, 2 wrong usage.\n");
}

static void log_line(void *user, const char *channel, const char *line) {
  (void)user;
  fprintf(stderr, "[%s] %s\n", channel, line);
}

int main(int argc, char **argv) {
  tn_set_log(log_line, NULL);
  if (argc < 2) {
    overview(stderr);
    return CLI_USAGE;
  }
  if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
    overview(stdout);
    return CLI_OK;
  }
  for (int i = 0; i < N_COMMANDS; i++)
    if (strcmp(commands[i].name, argv[1]) == 0) return cli_help_wanted(argc - 1, argv + 1) ? CLI_OK : commands[i].fn(argc - 1, argv + 1);
  fprintf(stderr, "tenon: no command '%s'\n\n", argv[1]);
  overview(stderr);
  return CLI_USAGE;
}

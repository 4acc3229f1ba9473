/* args: options as a table, for commands that have many. "--name value" and "--name=value" are the same. */
#include "cli.h"
#include <stdlib.h>
#include <string.h>

static const cli_option *find(const cli_option *o, int n, const char *arg, const char **value) {
  for (int i = 0; i < n; i++) {
    size_t len = strlen(o[i].name);
    if (strncmp(arg, o[i].name, len) != 0 || (arg[len] && arg[len] != '=')) continue;
    *value = arg[len] == '=' ? arg + len + 1 : NULL;
    return &o[i];
  }
  return NULL;
}

static int take(const char *command, const cli_option *o, const char *value) {
  char text[160], *end;
  cli_list *list = o->to;
  switch (o->kind) {
  case CLI_O_FLAG: *(int *)o->to = 1; return CLI_OK;
  case CLI_O_TEXT: *(const char **)o->to = value; return CLI_OK;
  case CLI_O_INT:
    *(long *)o->to = strtol(value, &end, 10);
    if (*value && !*end) return CLI_OK;
    snprintf(text, sizeof text, "%s wants a number, not '%.60s'", o->name, value);
    return cli_usage(command, text);
  case CLI_O_LIST:
    if (list->n < CLI_MAX_LIST) {
      list->at[list->n++] = value;
      return CLI_OK;
    }
    snprintf(text, sizeof text, "%s is there more than %d times", o->name, CLI_MAX_LIST);
    return cli_usage(command, text);
  }
  return CLI_USAGE;
}

int cli_args(int argc, char **argv, const cli_option *o, int n, const char **pos, int max_pos, int *out_n_pos) {
  char text[160];
  *out_n_pos = 0;
  for (int i = 1; i < argc; i++) {
    const char *a = argv[i], *value = NULL;
    if (a[0] != '-' || !a[1]) {
      if (*out_n_pos == max_pos) return cli_usage(argv[0], "too many files");
      pos[(*out_n_pos)++] = a;
      continue;
    }
    const cli_option *opt = find(o, n, a, &value);
    if (!opt) {
      snprintf(text, sizeof text, "unknown option '%.80s'", a);
      return cli_usage(argv[0], text);
    }
    if (opt->kind == CLI_O_FLAG && value) {
      snprintf(text, sizeof text, "%s takes no value", opt->name);
      return cli_usage(argv[0], text);
    }
    if (opt->kind != CLI_O_FLAG && !value) {
      if (i + 1 == argc) {
        snprintf(text, sizeof text, "%s wants a value", opt->name);
        return cli_usage(argv[0], text);
      }
      value = argv[++i];
    }
    int r = take(argv[0], opt, value);
    if (r != CLI_OK) return r;
  }
  return CLI_OK;
}

void cli_json_text(FILE *f, const char *s) {
  fputc('"', f);
  for (; s && *s; s++) {
    unsigned char c = (unsigned char)*s;
    if (c == '"' || c == '\\') fprintf(f, "\\%c", c);
    else if (c < 32) fprintf(f, "\\u%04x", c);
    else fputc(c, f);
  }
  fputc('"', f);
}

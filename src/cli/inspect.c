/* inspect and explain: what is in a model or package, and what became of every node. */
#include "model.h"
#include <string.h>

static int print(const char *command, char *text) {
  int bad = !text || fputs(text, stdout) < 0 || fflush(stdout) != 0;
  tn_text_free(text);
  return bad ? cli_failed(command, "can't write the result") : CLI_OK;
}

int cli_inspect(int argc, char **argv) {
  static cli_shapes room;
  cli_common c = {0};
  const char *pos[1];
  int json = 0, memory = 0, verify = 0, n_pos, r;
  const cli_option opts[] = {CLI_COMMON(c), {"--json", CLI_O_FLAG, &json}, {"--memory", CLI_O_FLAG, &memory}, {"--verify-only", CLI_O_FLAG, &verify}};
  if ((r = cli_args(argc, argv, opts, sizeof opts / sizeof *opts, pos, 1, &n_pos)) != CLI_OK) return r;
  if (n_pos != 1) return cli_usage("inspect", "one MODEL or PACKAGE is wanted");
  int32_t what = (json ? TN_INSPECT_JSON : 0) | (memory ? TN_INSPECT_MEMORY : 0) | (verify ? TN_INSPECT_VERIFY : 0);
  int package = cli_is_package("inspect", pos[0]);
  char *text = NULL, why[2048] = "";
  if (package < 0) return CLI_FAILED;
  if (package || verify) {
    tn_status st = tn_package_inspect(pos[0], what, &text, why, sizeof why);
    if (st == TN_OK) return print("inspect", text);
    fprintf(stderr, "tenon inspect: %s: %s: %s\n", pos[0], tn_status_name(st), why);
    return CLI_FAILED;
  }
  tn_compile_options o;
  tn_compiled *k = NULL;
  if ((r = cli_compile_options("inspect", &c, &room, &o)) == CLI_OK && (r = cli_compile_file("inspect", pos[0], &o, &k)) == CLI_OK)
    r = tn_compiled_inspect(k, what, &text) == TN_OK ? print("inspect", text) : cli_failed("inspect", tn_compiled_error(k));
  tn_compiled_destroy(k);
  return r;
}

int cli_explain(int argc, char **argv) {
  static cli_shapes room;
  cli_common c = {0};
  const char *pos[1];
  int json = 0, n_pos, r;
  const cli_option opts[] = {CLI_COMMON(c), {"--json", CLI_O_FLAG, &json}};
  if ((r = cli_args(argc, argv, opts, sizeof opts / sizeof *opts, pos, 1, &n_pos)) != CLI_OK) return r;
  if (n_pos != 1) return cli_usage("explain", "one MODEL is wanted");
  tn_compile_options o;
  tn_compiled *k = NULL;
  char *text = NULL;
  if ((r = cli_compile_options("explain", &c, &room, &o)) == CLI_OK && (r = cli_compile_file("explain", pos[0], &o, &k)) == CLI_OK) {
    if (json) r = printf("%s\n", tn_compiled_report(k)) < 0 ? cli_failed("explain", "can't write the result") : CLI_OK;
    else r = tn_compiled_explain(k, &text) == TN_OK ? print("explain", text) : cli_failed("explain", tn_compiled_error(k));
  }
  tn_compiled_destroy(k);
  return r;
}

/* keys, sign, verify: signatures of packages. */
#include <stdio.h>
#include <string.h>
#include "cli.h"
#include "tenon/compile.h"
#include "tenon/model.h"

int cli_keys(int argc, char **argv) {
  const char *pos[1];
  unsigned char secret[64], public[32];
  char path[4096], why[1024];
  int n, r;
  if ((r = cli_args(argc, argv, NULL, 0, pos, 1, &n)) != CLI_OK) return r;
  if (n != 1) return cli_usage("keys", "one NAME is wanted");
  if (tn_key_make(secret, public) != TN_OK) return cli_failed("keys", "this build of Tenon has no libsodium");
  for (int k = 0; k < 2; k++) {
    if (snprintf(path, sizeof path, "%s.%s", pos[0], k ? "public" : "secret") >= (int)sizeof path) return cli_failed("keys", "the name is too long");
    if (tn_key_write(path, !k, k ? public : secret, why, sizeof why) != TN_OK) return cli_failed("keys", why);
    printf("%s%s", k ? "" : "keep this one to yourself: ", path);
    putchar('\n');
  }
  memset(secret, 0, sizeof secret);
  return CLI_OK;
}

int cli_sign(int argc, char **argv) {
  const char *pos[1], *key = NULL;
  const cli_option o[] = {{"--key", CLI_O_TEXT, &key}};
  unsigned char secret[64];
  char why[1024];
  int n, r;
  if ((r = cli_args(argc, argv, o, 1, pos, 1, &n)) != CLI_OK) return r;
  if (n != 1 || !key) return cli_usage("sign", "a PACKAGE and --key FILE are wanted");
  if (tn_key_read(key, 1, secret, why, sizeof why) != TN_OK || tn_package_sign(pos[0], secret, why, sizeof why) != TN_OK) return cli_failed("sign", why);
  memset(secret, 0, sizeof secret);
  printf("%s: signed\n", pos[0]);
  return CLI_OK;
}

int cli_verify(int argc, char **argv) {
  const char *pos[1], *key = NULL;
  unsigned char public[32], signer[32];
  char why[1024];
  int n, r, whole = 0;
  const cli_option o[] = {{"--key", CLI_O_TEXT, &key}, {"--whole", CLI_O_FLAG, &whole}};
  if ((r = cli_args(argc, argv, o, 2, pos, 1, &n)) != CLI_OK) return r;
  if (n != 1 || (key && whole)) return cli_usage("verify", "one PACKAGE is wanted, and --key or --whole");
  if (tn_package_whole(pos[0], why, sizeof why) != TN_OK) return cli_failed("verify", why);
  if (whole) {
    printf("%s: whole\n", pos[0]);
    return CLI_OK;
  }
  if (key && tn_key_read(key, 0, public, why, sizeof why) != TN_OK) return cli_failed("verify", why);
  if (tn_package_check(pos[0], key ? public : NULL, signer, why, sizeof why) != TN_OK) return cli_failed("verify", why);
  printf("%s: whole, and signed with ", pos[0]);
  for (int i = 0; i < 32; i++) printf("%02x", signer[i]);
  puts(key ? ", the given key" : "; --key FILE would have checked who that is");
  return CLI_OK;
}

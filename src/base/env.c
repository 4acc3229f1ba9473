/* Environment variables, all of them rows of env.def. Read on every call, so a test or Python may change them between
 * compiles. No other file calls getenv. */
#include <stdlib.h>
#include "base.h"

static const struct {
  const char *name, *def, *doc;
} rows[TN_N_ENVS] = {
#define TN_ENV(id, name, def, doc) {name, def, doc},
#include "env.def"
#undef TN_ENV
};

const char *tn_env_get(tn_env e) {
  if ((unsigned)e >= TN_N_ENVS) return "";
  const char *v = getenv(rows[e].name);
  return v && *v ? v : rows[e].def;
}

const char *tn_env_name(tn_env e) { return (unsigned)e < TN_N_ENVS ? rows[e].name : ""; }

const char *tn_env_doc(tn_env e) { return (unsigned)e < TN_N_ENVS ? rows[e].doc : ""; }

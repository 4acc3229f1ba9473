/* op.c: the op table as data. Rows of base/scalar.def come first, so a scalar function has one number in both enums and
 * converting between them is a cast; the static asserts below keep it so. Then the rows of ops.def.
 * What an op means (shapes, evaluation, decomposition) is not here: see room ops. */
#include <string.h>
#include "ir/ir_int.h"

#define TN_SCALAR(id, text, arity, result, domain) _Static_assert((int)TN_OP_##id == (int)TN_S_##id, "scalar " text " has two numbers");
#include "base/scalar.def"
#undef TN_SCALAR
_Static_assert((int)TN_OP_INPUT == (int)TN_N_SCALARS, "ops.def must follow the scalars");

typedef struct op_row {
  const char *text, *attrs;
  tn_op_class cls;
  int lo, hi, out;
} op_row;

static const op_row rows[TN_N_OPS] = {
#define TN_SCALAR(id, text, arity, result, domain) {text, "", TN_CLS_ELTWISE, arity, arity, 1},
#include "base/scalar.def"
#undef TN_SCALAR
#define TN_OP(id, text, cls, lo, hi, out, attrs) {text, attrs, TN_CLS_##cls, lo, hi, out},
#include "ir/ops.def"
#undef TN_OP
};

static bool known(tn_op op) { return (unsigned)op < TN_N_OPS; }

const char *tn_op_name(tn_op op) { return known(op) ? rows[op].text : "?"; }
tn_op_class tn_op_cls(tn_op op) { return known(op) ? rows[op].cls : TN_CLS_STRUCT; }
int tn_op_in_min(tn_op op) { return known(op) ? rows[op].lo : 0; }
int tn_op_in_max(tn_op op) { return known(op) ? rows[op].hi : 0; }
int tn_op_n_out(tn_op op) { return known(op) ? rows[op].out : 0; }
const char *tn_op_attrs(tn_op op) { return known(op) ? rows[op].attrs : ""; }

bool tn_op_find(const char *s, size_t n, tn_op *out) {
  /* About a hundred short names: a linear look with a first-letter test is as fast as a hash here. */
  for (int i = 0; n > 0 && i < TN_N_OPS; i++)
    if (rows[i].text[0] == s[0] && strlen(rows[i].text) == n && memcmp(rows[i].text, s, n) == 0) {
      *out = (tn_op)i;
      return true;
    }
  return false;
}

bool tn_op_attr_next(const char **at, const char **out_name, size_t *out_n, char *out_kind) {
  const char *p = *at;
  while (*p == ' ') p++;
  if (!*p) return false;
  const char *colon = strchr(p, ':');
  if (!colon || !colon[1]) return false; /* a malformed row: op_test checks that there is none */
  *out_name = p;
  *out_n = (size_t)(colon - p);
  *out_kind = colon[1];
  *at = colon + 2;
  return true;
}

char tn_op_attr_kind(tn_op op, const char *name) {
  const char *at = tn_op_attrs(op), *s;
  size_t n, len = strlen(name);
  char kind;
  while (tn_op_attr_next(&at, &s, &n, &kind))
    if (n == len && memcmp(s, name, n) == 0) return kind;
  return 0;
}

/* type.c: tensor types and the small name tables of the graph level. Types are values; only their dims live in the arena.
 * Whether a type fits an op is decided in room ops. */
#include <string.h>
#include "ir/ir_int.h"

tn_type tn_type_make(tn_graph *g, tn_dtype t, uint32_t rank, const tn_dim *dim) {
  tn_type ty = {(uint8_t)t, (uint8_t)(rank > 255 ? 255 : rank), NULL};
  if (rank == 0 || rank > 255) return ty; /* as if out of memory */
  tn_dim *copy = TN_NEW(g->arena, tn_dim, rank);
  if (copy) memcpy(copy, dim, rank * sizeof *dim);
  ty.dim = copy;
  return ty;
}

bool tn_type_equal(const tn_type *a, const tn_type *b) {
  if (a->dtype != b->dtype || a->rank != b->rank) return false;
  for (int i = 0; i < a->rank; i++)
    if (a->dim[i] != b->dim[i]) return false;
  return true;
}

int64_t tn_type_numel(const tn_type *t) {
  int64_t n = 1;
  bool over = false;
  for (int i = 0; i < t->rank; i++) {
    int64_t d = t->dim[i];
    if (!tn_dim_is_const(d)) return -1;
    if (d == 0) return 0; /* even when the rest is too large: nothing is stored */
    if (n > INT64_MAX / d)
      over = true;
    else
      n *= d;
  }
  return over ? -1 : n;
}

void tn_type_print(const tn_dims *dims, const tn_type *t, tn_str *out) {
  const char *name = t->dtype < TN_N_DTYPES ? tn_dtype_name((tn_dtype)t->dtype) : "?";
  tn_str_add(out, "%s[", name);
  for (int i = 0; i < t->rank; i++) {
    if (i) tn_str_put(out, ",", 1);
    if (!t->dim || t->dim[i] == TN_DIM_BAD)
      tn_str_put(out, "?", 1);
    else if (tn_dim_is_const(t->dim[i]))
      tn_str_add(out, "%lld", (long long)t->dim[i]);
    else
      tn_dim_print(dims, t->dim[i], out);
  }
  tn_str_put(out, "]", 1);
}

const char *tn_fate_name(tn_fate f) {
  static const char *const name[TN_N_FATES] = {
      [TN_FATE_NONE] = "none", [TN_FATE_FUSED] = "fused",       [TN_FATE_REWRITTEN] = "rewritten", [TN_FATE_DECOMPOSED] = "decomposed",
      [TN_FATE_VIEW] = "view", [TN_FATE_FALLBACK] = "fallback", [TN_FATE_LIBRARY] = "library",     [TN_FATE_FOLDED] = "folded",
      [TN_FATE_DEAD] = "dead"};
  return (unsigned)f < TN_N_FATES ? name[f] : "?";
}

const char *tn_origin_name(tn_origin o) {
  static const char *const name[] = {[TN_ORIGIN_INPUT] = "input",
                                     [TN_ORIGIN_PARAM] = "param",
                                     [TN_ORIGIN_BUFFER] = "buffer",
                                     [TN_ORIGIN_CONST] = "const",
                                     [TN_ORIGIN_SYM] = "sym"};
  return (unsigned)o < sizeof name / sizeof *name ? name[o] : "?";
}

bool tn_ir_plain_name(const char *s, const char *more) {
  if (!((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || *s == '_')) return false;
  for (; *s; s++)
    if (!((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9') || strchr(more, *s))) return false;
  return true;
}

bool tn_ir_reserved_word(const char *s, size_t n) {
  static const char *const word[] = {"none", "true", "false", "inf", "-inf", "nan", "-nan", "None", "True", "False"};
  tn_dtype t;
  for (size_t i = 0; i < sizeof word / sizeof *word; i++)
    if (strlen(word[i]) == n && memcmp(word[i], s, n) == 0) return true;
  return tn_dtype_parse(s, n, &t);
}

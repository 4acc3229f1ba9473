/* Equalities between sizes that nobody can prove and an operator needs: kept as a list of pairs, each with the node that asked first.
 *
 * Idea. ONNX models name dims freely, so two operands of an Add may have sizes "n" and "m". The importer goes on as if they were equal
 * and writes that down here; whoever binds sizes to a plan evaluates both sides of each pair and refuses the call when they differ.
 * Nothing is concluded from a pair: no expression changes its spelling. A pair whose sides can't be equal is an error at once. */
#include "dim_int.h"

void tn_dims_collect(tn_dims *t, const char *where, uint32_t owner) {
  t->collect = where;
  t->owner = owner;
}
bool tn_dims_collecting(const tn_dims *t) { return t->collect != NULL; }

bool tn_dims_assumed(const tn_dims *t, tn_dim a, tn_dim b) {
  for (uint32_t i = 0; i < t->n_pairs; i++)
    if (t->pair[i].owner == t->owner && ((t->pair[i].a == a && t->pair[i].b == b) || (t->pair[i].a == b && t->pair[i].b == a))) return true;
  return false;
}

tn_status tn_dims_assume(tn_dims *t, tn_dim a, tn_dim b, const char *where) {
  int64_t lo, hi;
  if (a == TN_DIM_BAD || b == TN_DIM_BAD) return TN_E_ARG;
  if (a == b || tn_dims_assumed(t, a, b)) return TN_OK;
  tn_dim diff = tn_dim_sub(t, a, b);
  if (diff == TN_DIM_BAD) return TN_E_ARG;
  tn_dim_bounds(t, diff, &lo, &hi);
  if (lo > 0 || hi < 0) return TN_E_ARG;
  char *own = tn_arena_strdup(&t->keep, where ? where : t->collect ? t->collect : "");
  if (!own || !TN_PUSH_ROOM(&t->keep, t->pair, t->n_pairs, t->cap_pairs)) return TN_E_NOMEM;
  t->pair[t->n_pairs++] = (struct tn_dim_pair){a, b, own, t->owner};
  return TN_OK;
}

uint32_t tn_dims_n_assumed(const tn_dims *t) { return t->n_pairs; }

void tn_dims_forget_assumed(tn_dims *t, uint32_t n) {
  if (n < t->n_pairs) t->n_pairs = n;
}

void tn_dims_get_assumed(const tn_dims *t, uint32_t i, tn_dim *out_a, tn_dim *out_b, const char **out_where, uint32_t *out_owner) {
  bool ok = i < t->n_pairs;
  *out_a = ok ? t->pair[i].a : 0;
  *out_b = ok ? t->pair[i].b : 0;
  *out_where = ok ? t->pair[i].where : "";
  if (out_owner) *out_owner = ok ? t->pair[i].owner : 0;
}

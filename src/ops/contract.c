/* contract: an einsum of two operands, "bik,bkj->bij". It is every matmul, batched or not, every outer product and dot.
 *
 * A letter is a dim; the same letter in both operands must be the same dim (no stretching of size 1: decompositions write a
 * broadcast where they mean one). Letters missing from the result are summed. No letter twice in one operand or in the
 * result. Both operands and the result have one dtype, float or integer. */
#include "ops/ops_int.h"

/* Reads one operand's letters from *s up to `stop`; where[letter] = its position or -1. */
static tn_status take_letters(tn_infer_ctx *c, const char **s, char stop, int8_t where[128], uint32_t *out_n) {
  uint32_t n = 0;
  for (int i = 0; i < 128; i++) where[i] = -1;
  for (; **s && **s != stop; (*s)++) {
    unsigned char ch = (unsigned char)**s;
    bool letter = (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z');
    if (!letter) return tn_rule_fail(c, "labels hold '%c'", ch);
    if (where[ch] >= 0) return tn_rule_fail(c, "label %c twice in one place", ch);
    if (n == TN_MAX_RANK) return tn_rule_fail(c, "over %d labels in one place", TN_MAX_RANK);
    where[ch] = (int8_t)n++;
  }
  *out_n = n;
  return TN_OK;
}

tn_status tn_infer_CONTRACT(tn_infer_ctx *c) {
  const tn_type *a = tn_rule_in(c, 0), *b = tn_rule_in(c, 1);
  const char *s = tn_attr_str(&c->attrs, "labels", NULL);
  int8_t in_a[128], in_b[128], in_out[128];
  uint32_t na, nb, no;
  tn_dim dim[TN_MAX_RANK];
  if (!s) return tn_rule_fail(c, "attribute '%s' is missing", "labels");
  TN_TRY(tn_rule_same_dtype(c, 0, 1));
  if (a->dtype == TN_BOOL) return tn_rule_fail(c, "does not take %s", "bool");
  TN_TRY(take_letters(c, &s, ',', in_a, &na));
  if (*s++ != ',') return tn_rule_fail(c, "labels want the form '%s'", "ik,kj->ij");
  TN_TRY(take_letters(c, &s, '-', in_b, &nb));
  if (s[0] != '-' || s[1] != '>') return tn_rule_fail(c, "labels want the form '%s'", "ik,kj->ij");
  s += 2;
  TN_TRY(take_letters(c, &s, '\0', in_out, &no));
  if (na != a->rank || nb != b->rank) return tn_rule_fail(c, "%u and %u labels for operands of rank %u and %u", na, nb, a->rank, b->rank);
  for (int ch = 'A'; ch <= 'z'; ch++) {
    if (in_a[ch] >= 0 && in_b[ch] >= 0 && a->dim[in_a[ch]] != b->dim[in_b[ch]])
      return tn_rule_fail(c, "dim %c is %s and %s", ch, tn_dim_text(c->g->dims, a->dim[in_a[ch]]).s,
                          tn_dim_text(c->g->dims, b->dim[in_b[ch]]).s);
    if (in_out[ch] < 0) continue;
    if (in_a[ch] < 0 && in_b[ch] < 0) return tn_rule_fail(c, "label %c is in the result only", ch);
    dim[in_out[ch]] = in_a[ch] >= 0 ? a->dim[in_a[ch]] : b->dim[in_b[ch]];
  }
  return tn_rule_result(c, a->dtype, no, dim);
}

tn_status tn_eval_CONTRACT(tn_eval_ctx *c) {
  tn_k_contract_ref(tn_attr_str(c->n, "labels", ""), &c->in[0], &c->in[1], c->out);
  return TN_OK;
}

/* dyn_bits: values as bits: BitCast, and random keys. */
#include "runtime/dyn.h"

/* A view of the same memory, so nothing is copied unless the operand has gaps. */
tn_status tn_dyn_BIT_CAST(tn_dyn_ctx *c) {
  tn_value *v;
  int64_t elem = tn_dyn_attr_int(c, "elem", 0), n;
  size_t bytes = 0, want = 1;
  TN_TRY(tn_dyn_dense(c, 0, 0, -1, &v));
  if (elem <= 0 || elem > UINT8_MAX || !tn_value_size((uint32_t)elem, v->t.rank, v->shape, &n, &bytes) || !tn_value_size(v->elem, v->t.rank, v->shape, &n, &want) || bytes != want) {
    tn_value_release(v);
    return tn_fail(c->d, TN_E_ARG, "%s: %zu bytes as element type %lld", c->name, want, (long long)elem);
  }
  tn_value *y = tn_value_view(c->values, v, (uint32_t)elem, v->t.data, v->t.rank, v->shape, NULL);
  tn_value_release(v);
  return tn_dyn_give(c, 0, y);
}

tn_status tn_dyn_ENTROPY(tn_dyn_ctx *c) {            /* splitmix64 */
  uint64_t z = *c->seed += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return tn_dyn_give(c, 0, tn_value_new_i64(c->values, (int64_t)(z ^ (z >> 31))));
}

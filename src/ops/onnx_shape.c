/* onnx_shape: operators that make values out of attributes and sizes. */
#include "onnx_int.h"

tn_status tn_ox_identity(tn_ox *c) {
  if (!tn_ox_has(c, 0)) return tn_ox_bad(c, "operand 0 is missing");
  return tn_ox_ret(c, 0, c->in[0]);
}

tn_status tn_ox_constant(tn_ox *c) {
  tn_ox_const k = {0};
  tn_ref r;
  int64_t dim[1];
  const tn_ox_attr *a = c->n_attr ? &c->attr[0] : NULL;
  if (!a || c->n_attr != 1) return tn_ox_bad(c, "wants one attribute, has %u", c->n_attr);
  dim[0] = a->n;
  k = (tn_ox_const){.dim = dim, .rank = a->kind == TN_OX_INTS || a->kind == TN_OX_FLOATS || a->kind == TN_OX_STRS};
  switch (a->kind) {
  case TN_OX_TENSOR: k = a->u.t[0]; break;
  case TN_OX_FLOAT: case TN_OX_FLOATS: k.elem = 1; k.data = a->u.f; k.bytes = a->n * sizeof *a->u.f; break;
  case TN_OX_INT: case TN_OX_INTS: k.elem = 7; k.data = a->u.i; k.bytes = a->n * sizeof *a->u.i; break;
  case TN_OX_STR: case TN_OX_STRS: k.elem = 8; k.str = a->u.s; break;
  default: return tn_ox_bad(c, "attribute %.60s is of no kind that makes a constant", a->name);
  }
  if (tn_ox_add_const(c->e, c->b.d, &k, c->b.prov, &r) != TN_OK) return c->b.st = c->b.d->code;
  return tn_ox_ret(c, 0, r);
}

/* onnx_cast: Cast, CastLike, BitCast: the rows over the conversions of onnx_lowp.c and onnx_text.c. */
#include "ops/onnx_math_int.h"

/* Opsets before 6 name the type: "FLOAT". */
static int named(const char *s) {
  static const struct { const char *name; int elem; } types[] = {{"FLOAT", 1}, {"UINT8", 2}, {"INT8", 3}, {"UINT16", 4}, {"INT16", 5}, {"INT32", 6}, {"INT64", 7},
    {"STRING", 8}, {"BOOL", 9}, {"FLOAT16", 10}, {"DOUBLE", 11}, {"UINT32", 12}, {"UINT64", 13}};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (!strcmp(types[i].name, s)) return types[i].elem;
  return 0;
}
static int target(tn_ox *c) {
  const tn_ox_attr *a = tn_ox_attr_get(c, "to");
  int64_t v = a && a->kind == TN_OX_STR ? named(a->u.s[0].s) : tn_ox_int(c, "to", 0);
  if (mx_ok(c) && (v <= 0 || v > 28 || tn_ox_dtype_of((int)v) < 0)) tn_ox_unsup(c, "to is %lld", (long long)v);
  return mx_ok(c) ? (int)v : 0;
}
static tn_status cast_to(tn_ox *c, int to) {
  const char *mode = tn_ox_str_attr(c, "round_mode", "up");
  bool saturate = tn_ox_int(c, "saturate", 1) != 0, text = tn_ox_has(c, 0) && tn_ox_elem(c, c->in[0]) == 8;
  tn_ref x = text ? c->in[0] : tn_ox_in(c, 0);
  return tn_ox_ret(c, 0, tn_ox_cast(c, x, to, saturate, mode));
}
tn_status tn_ox_cast_row(tn_ox *c) {
  int to = target(c);
  return mx_ok(c) ? cast_to(c, to) : c->b.st;
}
tn_status tn_ox_cast_like(tn_ox *c) {
  int to = tn_ox_has(c, 1) ? tn_ox_elem(c, c->in[1]) : 0;
  if (mx_ok(c) && !to) return tn_ox_unsup(c, "the element type of operand 1 is not known");
  return cast_to(c, to);
}
tn_status tn_ox_bit_cast(tn_ox *c) {                 /* the bytes as they are: the run time gives them another type */
  tn_ref x = tn_ox_in(c, 0);
  int to = target(c);
  tn_dim d[TN_MAX_RANK];
  if (!mx_ok(c)) return c->b.st;
  tn_dtype t = (tn_dtype)tn_ox_dtype_of(to);
  if (to == 8 || tn_dtype_size(t) != tn_dtype_size(mx_dtype(c, x))) return tn_ox_bad(c, "%s as %s", tn_ox_elem_name(tn_ox_elem(c, x)), tn_ox_elem_name(to));
  if (t == mx_dtype(c, x)) {
    x = mx_1(c, TN_OP_COPY, x);
  } else {
    int n = tn_b_shape(&c->b, x, d);
    tn_type ty = tn_ox_type(c, t, n, d);
    tn_attr at = tn_mk_int("elem", tn_ox_elem_of(t));
    x = tn_ox_dyn(c, "bit_cast", &x, 1, &at, 1, &ty, 1);
  }
  if (mx_ok(c) && tn_ox_elem_of(t) != to) tn_ox_set_elem(c, x, to);
  return tn_ox_ret(c, 0, x);
}

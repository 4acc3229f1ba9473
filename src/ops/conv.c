/* Convolution and transposed convolution over any number of spatial dims, channels first
 * (https://docs.pytorch.org/docs/stable/generated/torch.nn.Conv2d.html, ...ConvTranspose2d.html).
 *
 * Output dims, with i, k, s, d for input, kernel, stride, dilation and lo, hi for the padding on both sides:
 *   conv:  floordiv(i + lo + hi - d*(k-1) - 1, s) + 1        convt: (i-1)*s - lo - hi + d*(k-1) + output_padding + 1
 * Bias, "same" padding and dims without batch are the decomposition's work. Padding may be symbolic; the rest is constant. */
#include "ops/ops_int.h"

typedef struct conv_attrs {
  int64_t stride[TN_MAX_RANK], dilation[TN_MAX_RANK], groups;
  tn_dim pad[2 * TN_MAX_RANK];
  uint32_t n; /* spatial dims */
} conv_attrs;

static tn_status read_attrs(tn_infer_ctx *c, conv_attrs *a) {
  const tn_type *x = tn_rule_in(c, 0), *w = tn_rule_in(c, 1);
  TN_TRY(tn_rule_same_dtype(c, 0, 1));
  if (x->dtype == TN_BOOL) return tn_rule_fail(c, "does not take %s", "bool");
  if (x->rank < 3 || x->rank != w->rank) return tn_rule_fail(c, "ranks %u and %u, wants two equal ones of at least 3", x->rank, w->rank);
  a->n = x->rank - 2u;
  TN_TRY(tn_rule_int(c, "groups", &a->groups));
  if (a->groups < 1) return tn_rule_fail(c, "groups is %lld", (long long)a->groups);
  TN_TRY(tn_rule_ints(c, "stride", (int)a->n, 1, a->stride, NULL));
  TN_TRY(tn_rule_ints(c, "dilation", (int)a->n, 1, a->dilation, NULL));
  return tn_rule_dims(c, "padding", 2 * (int)a->n, a->pad, NULL);
}

/* dilation * (k - 1) + 1: how far one window reaches. */
static tn_dim reach(tn_dims *t, tn_dim k, int64_t dilation) { return tn_dim_add(t, tn_dim_mul(t, tn_dim_sub(t, k, 1), dilation), 1); }

tn_status tn_infer_CONV(tn_infer_ctx *c) {
  const tn_type *x = tn_rule_in(c, 0), *w = tn_rule_in(c, 1);
  tn_dims *t = c->g->dims;
  conv_attrs a;
  tn_dim dim[TN_MAX_RANK];
  TN_TRY(read_attrs(c, &a));
  TN_TRY(tn_rule_equal(c, x->dim[1], tn_dim_mul(t, w->dim[1], a.groups), "channels of x and of w times groups"));
  if (tn_dim_is_const(w->dim[0]) && w->dim[0] % a.groups)
    return tn_rule_fail(c, "%lld output channels in %lld groups", (long long)w->dim[0], (long long)a.groups);
  dim[0] = x->dim[0];
  dim[1] = w->dim[0];
  for (uint32_t i = 0; i < a.n; i++) {
    tn_dim room = tn_dim_add(t, tn_dim_add(t, x->dim[i + 2], a.pad[2 * i]), a.pad[2 * i + 1]);
    tn_dim far = reach(t, w->dim[i + 2], a.dilation[i]);
    if (tn_rule_exceeds(c, far, room))
      return tn_rule_fail(c, "a window of %s over %s padded elements of spatial dim %u", tn_dim_text(t, far).s, tn_dim_text(t, room).s, i);
    dim[i + 2] = tn_dim_add(t, tn_dim_floordiv(t, tn_dim_sub(t, room, far), a.stride[i]), 1);
  }
  return tn_rule_result(c, x->dtype, x->rank, dim);
}

tn_status tn_infer_CONVT(tn_infer_ctx *c) {
  const tn_type *x = tn_rule_in(c, 0), *w = tn_rule_in(c, 1);
  tn_dims *t = c->g->dims;
  conv_attrs a;
  int64_t extra[TN_MAX_RANK];
  tn_dim dim[TN_MAX_RANK];
  TN_TRY(read_attrs(c, &a));
  TN_TRY(tn_rule_ints(c, "output_padding", (int)a.n, 0, extra, NULL));
  TN_TRY(tn_rule_equal(c, x->dim[1], w->dim[0], "channels of x and of w"));
  if (tn_dim_is_const(w->dim[0]) && w->dim[0] % a.groups)
    return tn_rule_fail(c, "%lld input channels in %lld groups", (long long)w->dim[0], (long long)a.groups);
  dim[0] = x->dim[0];
  dim[1] = tn_dim_mul(t, w->dim[1], a.groups);
  for (uint32_t i = 0; i < a.n; i++) {
    tn_dim d = tn_dim_mul(t, tn_dim_sub(t, x->dim[i + 2], 1), a.stride[i]);
    d = tn_dim_add(t, d, reach(t, w->dim[i + 2], a.dilation[i]));
    d = tn_dim_sub(t, tn_dim_sub(t, d, a.pad[2 * i]), a.pad[2 * i + 1]);
    dim[i + 2] = tn_dim_add(t, d, extra[i]);
  }
  return tn_rule_result(c, x->dtype, x->rank, dim);
}

typedef struct conv_nums {
  int64_t stride[TN_MAX_RANK], dilation[TN_MAX_RANK], lo[TN_MAX_RANK], groups;
} conv_nums;
static tn_status read_nums(tn_eval_ctx *c, conv_nums *a) {
  int64_t pad[2 * TN_MAX_RANK];
  int n = c->in[0].rank - 2;
  a->groups = tn_attr_int(c->n, "groups", 1);
  TN_TRY(tn_eval_dims(c, "stride", a->stride, NULL));
  TN_TRY(tn_eval_dims(c, "dilation", a->dilation, NULL));
  TN_TRY(tn_eval_dims(c, "padding", pad, NULL));
  for (int i = 0; i < n; i++) a->lo[i] = pad[2 * i];
  return TN_OK;
}
tn_status tn_eval_CONV(tn_eval_ctx *c) {
  conv_nums a;
  TN_TRY(read_nums(c, &a));
  tn_k_conv_ref(&c->in[0], &c->in[1], a.stride, a.lo, a.dilation, a.groups, c->out);
  return TN_OK;
}
tn_status tn_eval_CONVT(tn_eval_ctx *c) {
  conv_nums a;
  TN_TRY(read_nums(c, &a));
  tn_k_convt_ref(&c->in[0], &c->in[1], a.stride, a.lo, a.dilation, a.groups, c->out);
  return TN_OK;
}

/* aten_int: what the decompositions (aten_*.c) are written with. Private to room ops.
 *
 * Two families, both sticky: the first failure is kept in c->st, later calls do nothing and hand out ref 0, so a decomposition reads
 * like the formula and ends with `return tn_at_ret(c, 0, y)`.
 *   tn_at_*: arguments of the CALL by schema name.     tn_b_*: builders of prims (types inferred by tn_ops_add, no-ops dropped). */
#ifndef TN_ATEN_INT_H
#define TN_ATEN_INT_H
#include "ops/ops.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define TN_ATEN(name, fn, fate, own) tn_status tn_d_##fn(tn_decomp_ctx *c);
#include "ops/aten.def"
#undef TN_ATEN

/* ---- failures ---- */
tn_status tn_at_unsup(tn_decomp_ctx *c, const char *fmt, ...) TN_PRINTF(2, 3); /* this form has no decomposition; returns c->st */

/* ---- arguments. "None" and "not there" are the same. ---- */
const tn_attr_val *tn_at_val(const tn_decomp_ctx *c, const char *name);       /* NULL = None */
tn_ref tn_at_t(tn_decomp_ctx *c, const char *name);                           /* a tensor that must be there */
tn_ref tn_at_opt(tn_decomp_ctx *c, const char *name);                         /* tensor or id 0 */
int64_t tn_at_i(tn_decomp_ctx *c, const char *name, int64_t def);             /* symbolic or over 31 bits: unsupported */
double tn_at_f(tn_decomp_ctx *c, const char *name, double def);
bool tn_at_b(tn_decomp_ctx *c, const char *name, bool def);
const char *tn_at_s(tn_decomp_ctx *c, const char *name, const char *def);
tn_dim tn_at_dim(tn_decomp_ctx *c, const char *name, tn_dim def);             /* integer or symbolic */
int tn_at_dims(tn_decomp_ctx *c, const char *name, tn_dim *out, int max);     /* list (or one) of them; -1 = None */
int tn_at_ints(tn_decomp_ctx *c, const char *name, int64_t *out, int max);    /* list (or one) of constants; -1 = None */
void tn_at_spread(tn_decomp_ctx *c, const char *name, int64_t *out, int n, int64_t def); /* n values from a list of n, of 1, or none */
int tn_at_axis(tn_decomp_ctx *c, const char *name, int rank);                 /* one dim number, negatives wrapped; rank 0 counts as 1 */
int tn_at_axes(tn_decomp_ctx *c, const char *name, int rank, int *out);       /* dim list, wrapped, ascending; None or [] = all */
uint32_t tn_at_ts(tn_decomp_ctx *c, const char *name, tn_ref **out);          /* list of tensors in the arena; None = id 0 */
int tn_wrap_axis(tn_decomp_ctx *c, int64_t d, int rank);

/* An operand that may be a tensor or a number, and torch's rule for the dtype several of them are computed in. */
typedef struct tn_opd { tn_ref ref; const tn_attr_val *num; } tn_opd;
tn_opd tn_at_opd(tn_decomp_ctx *c, const char *name);
tn_opd tn_opd_of(tn_ref r);
tn_dtype tn_at_promote(tn_decomp_ctx *c, const tn_opd *o, int n);
tn_ref tn_at_as(tn_decomp_ctx *c, tn_opd o, tn_dtype t);
bool tn_at_wider(tn_decomp_ctx *c, tn_opd o, tn_dtype t);                     /* t is f16/bf16 and casting o to it would lose bits: compute in f32 */

/* ---- results ---- */
const tn_type *tn_at_type(const tn_decomp_ctx *c, uint32_t k);                /* recorded type of result k */
tn_dtype tn_at_dtype(const tn_decomp_ctx *c, uint32_t k);
tn_dim tn_at_odim(tn_decomp_ctx *c, uint32_t k, int i);                       /* its dim i; out of range: unsupported */
bool tn_at_used(const tn_decomp_ctx *c, uint32_t k);                          /* somebody reads result k */
tn_status tn_at_ret(tn_decomp_ctx *c, uint32_t k, tn_ref r);                  /* casts to the recorded dtype; returns c->st */

/* ---- facts ---- */
static inline int tn_b_rank(const tn_decomp_ctx *c, tn_ref a) { return tn_typeof(c->g, a)->rank; }
static inline tn_dtype tn_b_dtype(const tn_decomp_ctx *c, tn_ref a) { return (tn_dtype)tn_typeof(c->g, a)->dtype; }
static inline tn_dim tn_b_dim(const tn_decomp_ctx *c, tn_ref a, int k) { const tn_type *t = tn_typeof(c->g, a); return k >= 0 && k < t->rank ? t->dim[k] : 1; }
static inline tn_dtype tn_b_wide(tn_dtype t) { return t == TN_F16 || t == TN_BF16 ? TN_F32 : t; }      /* the dtype composite functions compute in */
int tn_b_shape(const tn_decomp_ctx *c, tn_ref a, tn_dim *out);                /* copies the dims; returns the rank */
tn_dim tn_b_numel(const tn_decomp_ctx *c, const tn_dim *d, int n);

/* ---- builders ---- */
/* Two dims that torch's guards make equal though the table cannot tell: symbolic, not the same, neither 1. One that both may be written as. */
bool tn_b_agree(tn_dim a, tn_dim b, tn_dim *out);
tn_ref tn_b_op(tn_decomp_ctx *c, tn_op op, const tn_ref *in, uint32_t n_in, const tn_attr *attr, uint32_t n_attr);
tn_ref tn_b_1(tn_decomp_ctx *c, tn_op op, tn_ref a);
tn_ref tn_b_2(tn_decomp_ctx *c, tn_op op, tn_ref a, tn_ref b);
tn_ref tn_b_sel(tn_decomp_ctx *c, tn_ref cond, tn_ref a, tn_ref b);
tn_ref tn_b_cast(tn_decomp_ctx *c, tn_ref a, tn_dtype t);
tn_ref tn_b_up(tn_decomp_ctx *c, tn_ref a);                                   /* f16, bf16 -> f32, others as they are */
tn_ref tn_b_bool(tn_decomp_ctx *c, tn_ref a);                                 /* a != 0 */
tn_ref tn_b_divisor(tn_decomp_ctx *c, tn_ref a);                              /* a, an error of the call where it is 0; floats and known divisors as they are */
/* Scalars: FULL of shape [], they broadcast. */
tn_ref tn_b_num(tn_decomp_ctx *c, double v, tn_dtype t);
tn_ref tn_b_int(tn_decomp_ctx *c, int64_t v, tn_dtype t);
tn_ref tn_b_val(tn_decomp_ctx *c, const tn_attr_val *v, tn_dtype t);
tn_ref tn_b_dimval(tn_decomp_ctx *c, tn_dim d, tn_dtype t);                   /* the value of a dim expression */
tn_ref tn_b_full(tn_decomp_ctx *c, const tn_dim *shape, int n, const tn_attr_val *v, tn_dtype t);
tn_ref tn_b_zeros(tn_decomp_ctx *c, const tn_dim *shape, int n, tn_dtype t);
tn_ref tn_b_iota(tn_decomp_ctx *c, tn_dim size, tn_dtype t);                  /* 0, 1, 2, ... */
/* With a number at the right: computed in a's dtype. */
tn_ref tn_b_addn(tn_decomp_ctx *c, tn_ref a, double v);
tn_ref tn_b_muln(tn_decomp_ctx *c, tn_ref a, double v);
/* Layout. */
tn_ref tn_b_reshape(tn_decomp_ctx *c, tn_ref a, const tn_dim *shape, int n);
tn_ref tn_b_unsq(tn_decomp_ctx *c, tn_ref a, int at);                         /* new dim of size 1 at `at` */
tn_ref tn_b_sq(tn_decomp_ctx *c, tn_ref a, int at);                           /* drops dim `at`, which has size 1 */
tn_ref tn_b_permute(tn_decomp_ctx *c, tn_ref a, const int *perm);
tn_ref tn_b_swap(tn_decomp_ctx *c, tn_ref a, int x, int y);
tn_ref tn_b_broadcast(tn_decomp_ctx *c, tn_ref a, const tn_dim *shape, int n);
tn_ref tn_b_slice(tn_decomp_ctx *c, tn_ref a, int dim, tn_dim start, tn_dim size, int64_t step);
tn_ref tn_b_pad(tn_decomp_ctx *c, tn_ref a, const tn_dim *lo, const tn_dim *hi, const tn_attr_val *v);
tn_ref tn_b_concat(tn_decomp_ctx *c, const tn_ref *in, uint32_t n, int dim);
tn_ref tn_b_along(tn_decomp_ctx *c, tn_ref v, int dim, int rank);             /* 1-D vector as [1,..,n,..,1] with n at `dim` of `rank` */
/* Reductions, products, indices. */
tn_ref tn_b_reduce(tn_decomp_ctx *c, tn_combiner k, tn_ref a, const int *axes, int n, bool keepdim);
tn_ref tn_b_reduce1(tn_decomp_ctx *c, tn_combiner k, tn_ref a, int axis, bool keepdim);
tn_ref tn_b_mean(tn_decomp_ctx *c, tn_ref a, const int *axes, int n, bool keepdim);   /* in a's dtype */
tn_ref tn_b_scan(tn_decomp_ctx *c, tn_combiner k, tn_ref a, int dim);
tn_ref tn_b_contract(tn_decomp_ctx *c, const char *labels, tn_ref a, tn_ref b);
/* Contract whose last dims carry labels la, lb and give lo; dims before them are batch dims, broadcast. f16/bf16 are widened to f32, and so is the result. */
tn_ref tn_b_product(tn_decomp_ctx *c, tn_ref a, tn_ref b, const char *la, const char *lb, const char *lo);
tn_ref tn_b_take(tn_decomp_ctx *c, tn_ref x, tn_ref idx, int dim);
tn_ref tn_b_untake(tn_decomp_ctx *c, tn_ref g, tn_ref idx, int dim, tn_dim size);     /* take's gradient: g's pieces along dim (idx: 1-D) added into zeros of `size` there */
tn_ref tn_b_window(tn_decomp_ctx *c, tn_combiner k, tn_ref x, int n, const int64_t *kernel, const int64_t *stride, const int64_t *pad_lo,
                   const int64_t *pad_hi, const int64_t *dilation, const tn_dim *size);
/* Convolutions and pools (aten_conv.c). Paddings may be symbolic; f16 and bf16 operands are widened. */
typedef struct tn_conv_form { int n; int64_t stride[TN_MAX_RANK], dilation[TN_MAX_RANK], out_pad[TN_MAX_RANK], groups; tn_dim lo[TN_MAX_RANK], hi[TN_MAX_RANK]; bool transposed; } tn_conv_form;
tn_ref tn_b_conv(tn_decomp_ctx *c, tn_ref x, tn_ref w, const tn_conv_form *p);
typedef struct tn_pool_form { int n, rank; int64_t kernel[TN_MAX_RANK], stride[TN_MAX_RANK], dilation[TN_MAX_RANK]; tn_dim lo[TN_MAX_RANK], hi[TN_MAX_RANK], size[TN_MAX_RANK], in[TN_MAX_RANK]; } tn_pool_form;
void tn_b_max_places(tn_decomp_ctx *c, tn_ref x, const tn_pool_form *p, tn_ref *pos);
tn_ref tn_b_pool_count(tn_decomp_ctx *c, const tn_pool_form *p, bool include, bool ceil, tn_dtype t);
/* Normalisation (aten_norm.c): x - mean and 1 / sqrt(var + eps) over axes kept at size 1; batch norm with given statistics, one multiply and one add. */
void tn_b_centre(tn_decomp_ctx *c, tn_ref x, const int *ax, int n, double eps, tn_ref *mean, tn_ref *diff, tn_ref *rstd);
tn_ref tn_b_bn_fixed(tn_decomp_ctx *c, tn_ref x, tn_ref mean, tn_ref var, tn_ref w, tn_ref b, double eps);   /* w, b: id 0 = none */
tn_ref tn_b_softmax(tn_decomp_ctx *c, tn_ref x, int axis, bool safe);         /* in x's dtype; safe: a row of -inf gives 0 */
#endif

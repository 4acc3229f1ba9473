/* onnx_slice: Slice and Pad.
 *
 * Slice. Positions are clamped as the standard says, with known numbers or expressions where the sign is known; a position that only a value tells is clamped
 * by prims, and start and length become fresh sizes. A negative step is a slice with a positive one, flipped. Axes and steps that are not known are left to
 * the run time as a whole (DYN "slice").
 * Pad. A constant border is the prim; borders made of the operand's own elements are index vectors per axis. Negative borders are slices first. */
#include "onnx_int.h"

/* ---- slice ---- */
typedef struct cut { tn_dim start, size; } cut;

static void bounds(tn_ox *c, tn_dim d, int64_t *lo, int64_t *hi) { tn_dim_bounds(c->b.g->dims, d, lo, hi); }
static tn_dim least(tn_ox *c, tn_dim a, tn_dim b) {
  int64_t lo, hi;
  tn_dim diff = tn_dim_sub(c->b.g->dims, a, b);
  if (diff != TN_DIM_BAD) {
    bounds(c, diff, &lo, &hi);
    if (hi <= 0) return a;
    if (lo >= 0) return b;
  }
  return tn_dim_min(c->b.g->dims, a, b);
}
static tn_dim most(tn_ox *c, tn_dim a, tn_dim b) {
  int64_t lo, hi;
  tn_dim diff = tn_dim_sub(c->b.g->dims, a, b);
  if (diff != TN_DIM_BAD) {
    bounds(c, diff, &lo, &hi);
    if (lo >= 0) return a;
    if (hi <= 0) return b;
  }
  return tn_dim_max(c->b.g->dims, a, b);
}
/* Position v (counted from the end when negative) clamped to [lo, hi], where hi is n or n - 1 and lo 0 or -1. False: the sign is not known. */
static bool position(tn_ox *c, tn_dim v, tn_dim n, tn_dim lo, tn_dim hi, tn_dim *out) {
  tn_dims *t = c->b.g->dims;
  int64_t a, z, k;
  if (tn_dim_as_int(t, v, &k)) {
    if (k >= INT32_MAX) { *out = hi; return true; }          /* "to the end", as exporters write it */
    if (k <= -INT32_MAX) { *out = lo; return true; }
  }
  bounds(c, v, &a, &z);
  if (z < 0) v = tn_dim_add(t, n, v);
  else if (a < 0) return false;
  if (v == TN_DIM_BAD) return false;
  *out = most(c, least(c, v, hi), lo);
  return *out != TN_DIM_BAD;
}
/* What a slice of a dim of size n with known ends takes. */
static bool known_cut(tn_ox *c, tn_dim n, tn_dim start, tn_dim end, int64_t step, cut *out) {
  tn_dims *t = c->b.g->dims;
  tn_dim a, z, last = tn_dim_sub(t, n, 1), minus = tn_dim_int(t, -1);
  if (step > 0 ? !position(c, start, n, 0, n, &a) || !position(c, end, n, 0, n, &z) : !position(c, start, n, 0, last, &a) || !position(c, end, n, minus, last, &z)) return false;
  tn_dim span = step > 0 ? tn_dim_sub(t, z, a) : tn_dim_sub(t, a, z);
  if (span == TN_DIM_BAD) return false;
  int64_t by = step > 0 ? step : -step;
  out->size = most(c, tn_dim_ceildiv(t, span, by), 0);
  out->start = step > 0 ? a : most(c, tn_dim_sub(t, a, tn_dim_mul(t, tn_dim_sub(t, out->size, 1), by)), 0);
  return out->size != TN_DIM_BAD && out->start != TN_DIM_BAD;
}
/* The same by prims: v is the tensor of positions, item k of it. */
static tn_ref clamped(tn_ox *c, tn_ref v, int k, tn_ref n, tn_ref lo, tn_ref hi) {
  tn_decomp_ctx *b = &c->b;
  tn_ref p = tn_b_reshape(b, tn_b_slice(b, tn_b_cast(b, v, TN_I64), 0, k, 1, 1), NULL, 0);
  p = tn_b_sel(b, tn_b_2(b, TN_OP_LT, p, tn_b_int(b, 0, TN_I64)), tn_b_2(b, TN_OP_ADD, p, n), p);
  return tn_b_2(b, TN_OP_MAX, tn_b_2(b, TN_OP_MIN, p, hi), lo);
}
static bool computed_cut(tn_ox *c, tn_dim dim, tn_ref starts, tn_ref ends, int k, int64_t step, cut *out) {
  tn_decomp_ctx *b = &c->b;
  int64_t by = step > 0 ? step : -step;
  tn_ref n = tn_b_dimval(b, dim, TN_I64), zero = tn_b_int(b, 0, TN_I64), last = tn_b_addn(b, n, -1);
  tn_ref a = clamped(c, starts, k, n, zero, step > 0 ? n : last), z = clamped(c, ends, k, n, step > 0 ? zero : tn_b_int(b, -1, TN_I64), step > 0 ? n : last);
  tn_ref span = step > 0 ? tn_b_2(b, TN_OP_SUB, z, a) : tn_b_2(b, TN_OP_SUB, a, z);
  tn_ref size = tn_b_2(b, TN_OP_MAX, tn_b_2(b, TN_OP_FLOORDIV, tn_b_addn(b, span, (double)(by - 1)), tn_b_int(b, by, TN_I64)), zero);
  if (step < 0) a = tn_b_2(b, TN_OP_MAX, tn_b_2(b, TN_OP_SUB, a, tn_b_muln(b, tn_b_addn(b, size, -1), (double)by)), zero);
  return tn_ox_sizes(c, a, &out->start, 1, 0) == 1 && tn_ox_sizes(c, size, &out->size, 1, 0) == 1;
}
static tn_ref cut_one(tn_ox *c, tn_ref x, int axis, cut k, int64_t step) {
  x = tn_b_slice(&c->b, x, axis, k.start, k.size, step > 0 ? step : -step);
  if (step > 0) return x;
  tn_dim d[1] = {axis};
  tn_attr at = tn_mk_dims(c->b.g, "dims", d, 1);
  return tn_b_op(&c->b, TN_OP_FLIP, &x, 1, &at, 1);
}
/* Axes or steps are not known: the whole operator at run time. */
static tn_status whole_slice(tn_ox *c, tn_ref x) {
  tn_ref in[5] = {x};
  tn_dim d[TN_MAX_RANK];
  uint32_t n = 1;
  int rank = tn_b_rank(&c->b, x);
  for (uint32_t k = 1; k < c->n_in && k < 5; k++) in[n++] = tn_ox_has(c, k) ? c->in[k] : tn_ox_none(c);
  for (int i = 0; i < rank; i++) d[i] = tn_ox_fresh(c, 0, INT64_MAX);
  tn_type ty = tn_ox_type(c, tn_b_dtype(&c->b, x), rank, d);
  return tn_ox_keep(c, 0, tn_ox_dyn(c, "slice", in, n, NULL, 0, &ty, 1), x);
}
static int positions(tn_ox *c, const char *attr, uint32_t k, tn_dim *out, tn_ref *tensor) {
  int64_t v[TN_MAX_RANK];
  tensor->id = 0;
  if (c->opset < 10) {
    int n = tn_ox_ints_attr(c, attr, v, TN_MAX_RANK);
    for (int i = 0; i < n; i++) out[i] = v[i] == INT64_MIN ? tn_dim_int(c->b.g->dims, -INT64_MAX) : tn_dim_int(c->b.g->dims, v[i]);
    if (n < 0) tn_ox_bad(c, "attribute %s is missing", attr);
    return n;
  }
  *tensor = tn_ox_in(c, k);
  if (c->b.st != TN_OK) return -1;
  tn_dim count = tn_b_rank(&c->b, *tensor) == 1 ? tn_b_dim(&c->b, *tensor, 0) : TN_MAX_RANK + 1;
  if (!tn_dim_is_const(count) || count > TN_MAX_RANK) { tn_ox_unsup(c, "the number of %s is not known while compiling, or over %d", attr, TN_MAX_RANK); return -1; }
  tn_tensor t;
  bool known = tn_ox_data(c, *tensor, &t);                   /* INT64_MIN is no dim */
  for (int i = 0; known && i < count; i++) {
    int64_t x = tn_num_load((tn_dtype)t.dtype, (const char *)t.data + (size_t)i * tn_dtype_size((tn_dtype)t.dtype)).i;
    out[i] = tn_dim_int(c->b.g->dims, x == INT64_MIN ? -INT64_MAX : x);
  }
  tn_dim v1[TN_MAX_RANK];
  for (int i = 0; !known && i < count; i++) {                /* one by one: some may be known */
    tn_ref item = tn_b_slice(&c->b, *tensor, 0, i, 1, 1);
    out[i] = tn_ox_items(c, item, v1, 1) == 1 ? v1[0] : TN_DIM_BAD;
  }
  return (int)count;
}
tn_status tn_ox_slice(tn_ox *c) {
  tn_dim start[TN_MAX_RANK], end[TN_MAX_RANK];
  int64_t step[TN_MAX_RANK];
  int axes[TN_MAX_RANK];
  tn_ref x = tn_ox_in(c, 0), starts, ends;
  int n = positions(c, "starts", 1, start, &starts), m = positions(c, "ends", 2, end, &ends), k;
  if (c->b.st != TN_OK) return c->b.st;
  int rank = tn_b_rank(&c->b, x);
  if (n != m) return tn_ox_bad(c, "%d starts, %d ends", n, m);
  if (c->opset >= 10) {
    int64_t probe[TN_MAX_RANK];
    if ((tn_ox_has(c, 3) && tn_ox_consts(c, tn_ox_in(c, 3), probe, TN_MAX_RANK) < 0) || (tn_ox_has(c, 4) && tn_ox_consts(c, tn_ox_in(c, 4), probe, TN_MAX_RANK) < 0))
      return c->b.st == TN_OK ? whole_slice(c, x) : c->b.st;
  }
  k = tn_ox_axes(c, "axes", 10, 3, rank, axes);
  if (c->b.st != TN_OK) return c->b.st;
  if (k < 0)
    for (k = 0; k < n && k < rank; k++) axes[k] = k;
  if (k != n) return tn_ox_bad(c, "%d axes, %d starts", k, n);
  if (c->opset < 10 || !tn_ox_has(c, 4)) {
    for (int i = 0; i < n; i++) step[i] = 1;
  } else if (tn_ox_consts(c, tn_ox_in(c, 4), step, TN_MAX_RANK) != n) return tn_ox_bad(c, "another number of steps than of starts");
  tn_ref y = x;
  for (int i = 0; i < n; i++) {
    cut q;
    tn_dim d = tn_b_dim(&c->b, y, axes[i]);
    if (step[i] == 0) return tn_ox_bad(c, "a step of 0");
    step[i] = step[i] > INT32_MAX ? INT32_MAX : step[i] < -INT32_MAX ? -INT32_MAX : step[i];
    bool known = start[i] != TN_DIM_BAD && end[i] != TN_DIM_BAD && known_cut(c, d, start[i], end[i], step[i], &q);
    if (!known && !starts.id) return tn_ox_unsup(c, "positions of axis %d", axes[i]);
    if (!known && !computed_cut(c, d, starts, ends, i, step[i], &q)) return c->b.st;
    y = cut_one(c, y, axes[i], q, step[i]);
    if (c->b.st != TN_OK) return c->b.st;
  }
  return tn_ox_keep(c, 0, y, x);
}

/* ---- pad ---- */
/* Index vector of one axis of size n with lo elements before and hi behind it. */
static tn_ref border_index(tn_ox *c, const char *mode, tn_dim n, tn_dim lo, tn_dim hi) {
  tn_decomp_ctx *b = &c->b;
  tn_dims *t = b->g->dims;
  tn_dim all = tn_dim_add(t, n, tn_dim_add(t, lo, hi));
  tn_ref i = tn_b_2(b, TN_OP_SUB, tn_b_iota(b, all, TN_I64), tn_b_dimval(b, lo, TN_I64)), size = tn_b_dimval(b, n, TN_I64), zero = tn_b_int(b, 0, TN_I64);
  if (!strcmp(mode, "edge")) return tn_b_2(b, TN_OP_MIN, tn_b_2(b, TN_OP_MAX, i, zero), tn_b_addn(b, size, -1));
  if (!strcmp(mode, "wrap")) return tn_b_2(b, TN_OP_REMAINDER, i, size);
  tn_dim period = most(c, tn_dim_mul(t, tn_dim_sub(t, n, 1), 2), 1);             /* reflect: 0 1 .. n-1 .. 1, again and again */
  tn_ref p = tn_b_dimval(b, period, TN_I64), m = tn_b_2(b, TN_OP_REMAINDER, i, p);
  return tn_b_sel(b, tn_b_2(b, TN_OP_LT, m, size), m, tn_b_2(b, TN_OP_SUB, p, m));
}
/* A border of a value that only the run knows: zeros, and the value where nothing of x is. */
static tn_ref pad_with(tn_ox *c, tn_ref x, const tn_dim *lo, const tn_dim *hi, tn_ref v) {
  tn_decomp_ctx *b = &c->b;
  tn_dim d[TN_MAX_RANK];
  int n = tn_b_shape(b, x, d);
  tn_attr_val zero = {.kind = TN_AT_INT}, one = {.kind = TN_AT_BOOL, .u.b = true}, no = {.kind = TN_AT_BOOL};
  tn_ref in = tn_b_pad(b, tn_b_full(b, d, n, &one, TN_BOOL), lo, hi, &no);
  return tn_b_sel(b, in, tn_b_pad(b, x, lo, hi, &zero), tn_b_reshape(b, v, NULL, 0));
}
static tn_ref constant_border(tn_ox *c, tn_ref x, const tn_dim *lo, const tn_dim *hi) {
  tn_dtype t = tn_b_dtype(&c->b, x);
  tn_attr_val v = {.kind = TN_AT_INT};
  tn_tensor k;
  if (c->opset < 11) v = (tn_attr_val){.kind = TN_AT_FLOAT, .u.f = tn_ox_float(c, "value", 0)};
  else if (tn_ox_has(c, 2)) {
    tn_ref r = tn_ox_in(c, 2);
    if (c->b.st != TN_OK) return x;
    if (tn_b_dtype(&c->b, r) != t || tn_type_numel(tn_typeof(c->b.g, r)) != 1) { tn_ox_bad(c, "the value is no single %s", tn_dtype_name(t)); return x; }
    if (!tn_ox_data(c, r, &k)) return pad_with(c, x, lo, hi, r);
    tn_num q = tn_num_load(t, k.data);
    if (tn_dtype_is_float(t)) v = (tn_attr_val){.kind = TN_AT_FLOAT, .u.f = q.f};
    else v.u.i = q.i;
  }
  return tn_b_pad(&c->b, x, lo, hi, &v);
}
/* Axes are not known: each axis gets what is listed for it, computed by prims. Such borders may not be negative. */
static bool run_time_pads(tn_ox *c, tn_ref pads, int rank, tn_dim *lo, tn_dim *hi) {
  tn_decomp_ctx *b = &c->b;
  tn_ref axes = tn_ox_in(c, 3), part[2];
  int m = tn_ox_axes_count(c, axes);
  if (m < 0) return false;
  tn_ref a = tn_b_cast(b, tn_b_reshape(b, axes, (tn_dim[]){m}, 1), TN_I64);
  a = tn_b_sel(b, tn_b_2(b, TN_OP_LT, a, tn_b_int(b, 0, TN_I64)), tn_b_addn(b, a, rank), a);
  tn_ref hit = tn_b_cast(b, tn_b_2(b, TN_OP_EQ, tn_b_along(b, a, 1, 2), tn_b_along(b, tn_b_iota(b, rank, TN_I64), 0, 2)), TN_I64);
  for (int i = 0; i < 2; i++) part[i] = tn_b_reduce1(b, TN_C_SUM, tn_b_2(b, TN_OP_MUL, hit, tn_b_along(b, tn_b_slice(b, tn_b_cast(b, pads, TN_I64), 0, i * m, m, 1), 1, 2)), 1, false);
  return tn_ox_sizes(c, part[0], lo, TN_MAX_RANK, 0) == rank && tn_ox_sizes(c, part[1], hi, TN_MAX_RANK, 0) == rank;
}
/* lo[rank], hi[rank] from the operator's forms; false: failed. */
static bool pads(tn_ox *c, int rank, tn_dim *lo, tn_dim *hi) {
  tn_dim v[2 * TN_MAX_RANK];
  int64_t k[2 * TN_MAX_RANK];
  int axes[TN_MAX_RANK], n, m = -1;
  if (c->opset < 11) {
    n = tn_ox_ints_attr(c, tn_ox_attr_get(c, "paddings") ? "paddings" : "pads", k, 2 * TN_MAX_RANK);
    for (int i = 0; i < n; i++) v[i] = tn_dim_int(c->b.g->dims, k[i]);
  } else {
    tn_ref p = tn_ox_in(c, 1);
    if (c->b.st == TN_OK && tn_ox_has(c, 3) && tn_ox_consts(c, tn_ox_in(c, 3), k, TN_MAX_RANK) < 0) return run_time_pads(c, p, rank, lo, hi);
    n = tn_ox_items(c, p, v, 2 * TN_MAX_RANK);
    if (n < 0) n = tn_ox_sizes(c, p, v, 2 * TN_MAX_RANK, 0);
    if (tn_ox_has(c, 3)) m = tn_ox_axes(c, "axes", 0, 3, rank, axes);
  }
  if (c->b.st != TN_OK) return false;
  if (m < 0)
    for (m = 0; m < rank; m++) axes[m] = m;
  if (n != 2 * m) { tn_ox_bad(c, "%d pads for %d axes", n, m); return false; }
  for (int i = 0; i < rank; i++) lo[i] = hi[i] = 0;
  for (int i = 0; i < m; i++) { lo[axes[i]] = v[i]; hi[axes[i]] = v[m + i]; }
  return true;
}
/* What a negative border takes away is taken away first. */
static tn_ref trim(tn_ox *c, tn_ref x, int axis, tn_dim *lo, tn_dim *hi) {
  tn_dims *t = c->b.g->dims;
  int64_t a = 0, z = 0;
  bool cut_lo = tn_dim_as_int(t, *lo, &a) && a < 0, cut_hi = tn_dim_as_int(t, *hi, &z) && z < 0;
  int64_t l;
  if (!cut_lo) tn_ox_same_size(c, most(c, *lo, 0), *lo, "a border that only the run knows must not be negative");
  if (!cut_hi) tn_ox_same_size(c, most(c, *hi, 0), *hi, "a border that only the run knows must not be negative");
  if (!cut_lo && !cut_hi) return x;
  if (cut_lo) *lo = 0;
  if (cut_hi) *hi = 0;
  tn_dim size = tn_dim_add(t, tn_b_dim(&c->b, x, axis), tn_dim_int(t, (cut_lo ? a : 0) + (cut_hi ? z : 0)));
  if (tn_dim_as_int(t, size, &l) && l < 0) { tn_ox_bad(c, "borders of axis %d take away more than there is", axis); return x; }
  return tn_b_slice(&c->b, x, axis, cut_lo ? -a : 0, size, 1);
}
tn_status tn_ox_pad(tn_ox *c) {
  tn_dim lo[TN_MAX_RANK], hi[TN_MAX_RANK];
  tn_ref x = tn_ox_in(c, 0), y = x;
  const char *mode = tn_ox_str_attr(c, "mode", "constant");
  if (c->b.st != TN_OK || !pads(c, tn_b_rank(&c->b, x), lo, hi)) return c->b.st;
  int n = tn_b_rank(&c->b, x);
  for (int i = 0; i < n && c->b.st == TN_OK; i++) y = trim(c, y, i, &lo[i], &hi[i]);
  if (c->b.st != TN_OK) return c->b.st;
  if (!strcmp(mode, "constant")) return tn_ox_keep(c, 0, constant_border(c, y, lo, hi), x);
  if (strcmp(mode, "edge") && strcmp(mode, "wrap") && strcmp(mode, "reflect")) return tn_ox_bad(c, "mode is '%.40s'", mode);
  for (int i = 0; i < n && c->b.st == TN_OK; i++) {
    if (lo[i] == 0 && hi[i] == 0) continue;
    if (tn_b_dim(&c->b, y, i) == 0) return tn_ox_bad(c, "axis %d has no elements to fill a border with", i);
    y = tn_b_take(&c->b, y, border_index(c, mode, tn_b_dim(&c->b, y, i), lo[i], hi[i]), i);
  }
  return tn_ox_keep(c, 0, y, x);
}

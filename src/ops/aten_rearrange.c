/* aten_rearrange: pads, flips, rolls, repeats, shuffles, triangles, and writing a piece into a tensor. Reflection, replication and
 * circular padding are index arithmetic (iota, abs, min, max) and a take. */
#include "aten_int.h"

/* ---- padding ---- */

/* torch's order: (lo, hi) pairs from the last dim backwards; negative amounts cut */
static tn_status pad_constant(tn_decomp_ctx *c, const char *list, const tn_attr_val *v) {
  tn_ref x = tn_at_t(c, "self");
  tn_dim p[2 * TN_MAX_RANK], lo[TN_MAX_RANK] = {0}, hi[TN_MAX_RANK] = {0};
  int rank = tn_b_rank(c, x), n = tn_at_dims(c, list, p, 2 * TN_MAX_RANK);
  if (c->st != TN_OK) return c->st;
  if (n % 2 || n > 2 * rank) return tn_at_unsup(c, "%d pad amounts for rank %d", n, rank);
  for (int i = 0; i < n / 2; i++) {
    int d = rank - 1 - i;
    int64_t a, b;
    tn_dims *t = c->g->dims;
    lo[d] = p[2 * i]; hi[d] = p[2 * i + 1];
    bool cl = tn_dim_as_int(t, lo[d], &a) && a < 0, ch = tn_dim_as_int(t, hi[d], &b) && b < 0;
    if (!cl && !ch) continue;
    tn_dim size = tn_b_dim(c, x, d), start = cl ? tn_dim_int(t, -a) : 0;
    if (cl) { size = tn_dim_add(t, size, lo[d]); lo[d] = 0; }
    if (ch) { size = tn_dim_add(t, size, hi[d]); hi[d] = 0; }
    x = tn_b_slice(c, x, d, start, size, 1);
  }
  tn_attr_val zero = {.kind = TN_AT_INT};
  return tn_at_ret(c, 0, tn_b_pad(c, x, lo, hi, v ? v : &zero));
}
tn_status tn_d_constant_pad_nd(tn_decomp_ctx *c) { return pad_constant(c, "pad", tn_at_val(c, "value")); }

/* Positions k - lo for k = 0 .. out-1, mapped into [0, size) by `mode`: r reflect, e edge, c circular. */
static tn_ref pad_places(tn_decomp_ctx *c, tn_dim size, int64_t lo, tn_dim out, char mode) {
  tn_ref k = tn_b_iota(c, out, TN_I64), zero = tn_b_int(c, 0, TN_I64);
  tn_ref n = tn_b_dimval(c, size, TN_I64), last = tn_b_dimval(c, tn_dim_sub(c->g->dims, size, 1), TN_I64);
  k = tn_b_2(c, TN_OP_ADD, k, tn_b_int(c, -lo, TN_I64));
  if (mode == 'e') k = tn_b_2(c, TN_OP_MIN, tn_b_2(c, TN_OP_MAX, k, zero), last);
  else if (mode == 'c') k = tn_b_2(c, TN_OP_REMAINDER, k, n);
  else k = tn_b_2(c, TN_OP_SUB, last, tn_b_1(c, TN_OP_ABS, tn_b_2(c, TN_OP_SUB, last, tn_b_1(c, TN_OP_ABS, k))));
  return k;
}
static tn_status pad_index(tn_decomp_ctx *c, const char *list, char mode) {
  tn_ref x = tn_at_t(c, "self");
  int64_t p[2 * TN_MAX_RANK];
  int rank = tn_b_rank(c, x), n = tn_at_ints(c, list, p, 2 * TN_MAX_RANK);
  if (c->st == TN_OK && (n % 2 || n > 2 * rank)) return tn_at_unsup(c, "%d pad amounts for rank %d", n, rank);
  for (int i = 0; i < n / 2 && c->st == TN_OK; i++) {
    int d = rank - 1 - i;
    if (p[2 * i] || p[2 * i + 1]) x = tn_b_take(c, x, pad_places(c, tn_b_dim(c, x, d), p[2 * i], tn_at_odim(c, 0, d), mode), d);
  }
  return tn_at_ret(c, 0, x);
}
tn_status tn_d_reflection_pad(tn_decomp_ctx *c) { return pad_index(c, "padding", 'r'); }
tn_status tn_d_replication_pad(tn_decomp_ctx *c) { return pad_index(c, "padding", 'e'); }
tn_status tn_d_pad_circular(tn_decomp_ctx *c) { return pad_index(c, "pad", 'c'); }
static tn_status pad_backward(tn_decomp_ctx *c, char mode) {
  tn_ref g = tn_b_up(c, tn_at_t(c, "grad_output"));
  int64_t p[2 * TN_MAX_RANK];
  int rank = tn_b_rank(c, g), n = tn_at_ints(c, "padding", p, 2 * TN_MAX_RANK);
  if (c->st == TN_OK && (n % 2 || n > 2 * rank)) return tn_at_unsup(c, "%d pad amounts for rank %d", n, rank);
  for (int i = 0; i < n / 2 && c->st == TN_OK; i++) {
    int d = rank - 1 - i;
    tn_dim size = tn_at_odim(c, 0, d);
    g = tn_b_untake(c, g, pad_places(c, size, p[2 * i], tn_b_dim(c, g, d), mode), d, size);
  }
  return tn_at_ret(c, 0, g);
}
tn_status tn_d_reflection_pad_backward(tn_decomp_ctx *c) { return pad_backward(c, 'r'); }
tn_status tn_d_replication_pad_backward(tn_decomp_ctx *c) { return pad_backward(c, 'e'); }
tn_status tn_d_pad(tn_decomp_ctx *c) {
  const char *m = tn_at_s(c, "mode", "constant");
  if (!strcmp(m, "constant")) return pad_constant(c, "pad", tn_at_val(c, "value"));
  if (!strcmp(m, "reflect")) return pad_index(c, "pad", 'r');
  if (!strcmp(m, "replicate")) return pad_index(c, "pad", 'e');
  if (!strcmp(m, "circular")) return pad_index(c, "pad", 'c');
  return tn_at_unsup(c, "mode=%s", m);
}

/* ---- flips, rolls, repeats ---- */

static tn_ref flipped(tn_decomp_ctx *c, tn_ref x, const int *ax, int n) {
  if (n == 0) return x;
  tn_dim d[TN_MAX_RANK];
  for (int i = 0; i < n; i++) d[i] = ax[i];
  tn_attr at = tn_mk_dims(c->g, "dims", d, (uint32_t)n);
  return tn_b_op(c, TN_OP_FLIP, &x, 1, &at, 1);
}
static int listed_axes(tn_decomp_ctx *c, const char *name, int rank, int *ax) {   /* as written; [] = none */
  int64_t v[TN_MAX_RANK];
  int n = tn_at_ints(c, name, v, TN_MAX_RANK);
  for (int i = 0; i < n; i++) ax[i] = tn_wrap_axis(c, v[i], rank);
  return n < 0 ? 0 : n;
}
tn_status tn_d_flip(tn_decomp_ctx *c) {
  tn_ref x = tn_at_t(c, "self");
  int ax[TN_MAX_RANK], n = listed_axes(c, "dims", tn_b_rank(c, x), ax);
  return tn_at_ret(c, 0, tn_b_rank(c, x) ? flipped(c, x, ax, n) : x);
}
tn_status tn_d_rot90(tn_decomp_ctx *c) {
  tn_ref x = tn_at_t(c, "self");
  int ax[TN_MAX_RANK], rank = tn_b_rank(c, x), n = listed_axes(c, "dims", rank, ax);
  int64_t k = ((tn_at_i(c, "k", 1) % 4) + 4) % 4;
  if (c->st != TN_OK) return c->st;
  if (n != 2) return tn_at_unsup(c, "%d dims", n);
  if (k == 1) x = tn_b_swap(c, flipped(c, x, &ax[1], 1), ax[0], ax[1]);
  else if (k == 2) x = flipped(c, x, ax, 2);
  else if (k == 3) x = flipped(c, tn_b_swap(c, x, ax[0], ax[1]), &ax[1], 1);
  return tn_at_ret(c, 0, x);
}

static tn_ref rolled(tn_decomp_ctx *c, tn_ref x, int d, tn_dim shift) {   /* out[k] = in[(k - shift) mod n] */
  tn_dims *t = c->g->dims;
  tn_dim n = tn_b_dim(c, x, d);
  if (n == 0) return x;
  tn_dim s = tn_dim_mod(t, shift, n);                  /* floor mod: in [0, n) */
  if (s == 0) return x;
  if (s == TN_DIM_BAD) { tn_at_unsup(c, "shift has no expression"); return x; }
  tn_dim head = tn_dim_sub(t, n, s);
  tn_ref p[2] = {tn_b_slice(c, x, d, head, s, 1), tn_b_slice(c, x, d, 0, head, 1)};
  return tn_b_concat(c, p, 2, d);
}
tn_status tn_d_roll(tn_decomp_ctx *c) {
  tn_ref x = tn_at_t(c, "self");
  tn_dim shift[TN_MAX_RANK], shape[TN_MAX_RANK];
  int rank = tn_b_shape(c, x, shape), ax[TN_MAX_RANK], n = tn_at_dims(c, "shifts", shift, TN_MAX_RANK), m = listed_axes(c, "dims", rank, ax);
  if (c->st != TN_OK) return c->st;
  if (m == 0 && n == 1) {                              /* over the flattened tensor */
    tn_dim total = tn_b_numel(c, shape, rank);
    if (rank) x = tn_b_reshape(c, rolled(c, tn_b_reshape(c, x, &total, 1), 0, shift[0]), shape, rank);
    return tn_at_ret(c, 0, x);
  }
  if (m != n) return tn_at_unsup(c, "%d shifts, %d dims", n, m);
  for (int i = 0; i < n && rank; i++) x = rolled(c, x, ax[i], shift[i]);
  return tn_at_ret(c, 0, x);
}

/* repeat, tile: [1, d0, 1, d1, ...] stretched to [r0, d0, r1, d1, ...], then merged */
static tn_status repeated(tn_decomp_ctx *c, const char *list) {
  tn_ref x = tn_at_t(c, "self");
  tn_dim r[TN_MAX_RANK], d[TN_MAX_RANK], small[TN_MAX_RANK * 2], big[TN_MAX_RANK * 2];
  const tn_type *o = tn_at_type(c, 0);
  int rank = tn_b_shape(c, x, d), n = tn_at_dims(c, list, r, TN_MAX_RANK), m = 0;
  if (c->st != TN_OK) return c->st;
  for (int i = 0, out = n > rank ? n : rank; i < out; i++) {
    tn_dim k = i - (out - n) >= 0 ? r[i - (out - n)] : 1, size = i - (out - rank) >= 0 ? d[i - (out - rank)] : 1;
    if (k != 1) { small[m] = 1; big[m++] = k; }
    small[m] = size; big[m++] = size;
    if (m > TN_MAX_RANK) return tn_at_unsup(c, "needs rank %d", m);
  }
  return tn_at_ret(c, 0, tn_b_reshape(c, tn_b_broadcast(c, tn_b_reshape(c, x, small, m), big, m), o->dim, o->rank));
}
tn_status tn_d_repeat(tn_decomp_ctx *c) { return repeated(c, "repeats"); }
tn_status tn_d_tile(tn_decomp_ctx *c) { return repeated(c, "dims"); }

tn_status tn_d_repeat_interleave(tn_decomp_ctx *c) {
  tn_ref x = tn_at_t(c, "self");
  const tn_type *o = tn_at_type(c, 0);
  tn_dim d[TN_MAX_RANK + 1], k = tn_at_dim(c, "repeats", 1);
  int rank = tn_b_shape(c, x, d), at = 0;
  if (tn_at_val(c, "dim")) at = tn_at_axis(c, "dim", rank);
  else { d[0] = tn_b_numel(c, d, rank); rank = 1; x = tn_b_reshape(c, x, d, 1); }
  if (c->st != TN_OK) return c->st;
  x = tn_b_unsq(c, x, at + 1);
  for (int i = rank; i > at + 1; i--) d[i] = d[i - 1];
  d[at + 1] = k;
  return tn_at_ret(c, 0, tn_b_reshape(c, tn_b_broadcast(c, x, d, rank + 1), o->dim, o->rank));
}

/* ---- shuffles: [.., C*r*r, H, W] <-> [.., C, H*r, W*r] ---- */

static tn_status shuffle(tn_decomp_ctx *c, bool up) {
  tn_ref x = tn_at_t(c, "self");
  int64_t r = tn_at_i(c, up ? "upscale_factor" : "downscale_factor", 1);
  tn_dim d[TN_MAX_RANK];
  const tn_type *o = tn_at_type(c, 0);
  int rank = tn_b_shape(c, x, d);
  if (c->st != TN_OK) return c->st;
  if (rank < 3 || o->rank != rank || rank + 2 > TN_MAX_RANK || r < 1) return tn_at_unsup(c, "rank %d, factor %lld", rank, (long long)r);
  int b = rank - 3, perm[TN_MAX_RANK];
  tn_dim s[TN_MAX_RANK];
  for (int i = 0; i < b; i++) { s[i] = d[i]; perm[i] = i; }
  if (up) {                                            /* C r r H W -> C H r W r */
    tn_dim v[5] = {o->dim[b], r, r, d[b + 1], d[b + 2]};
    static const int p[5] = {0, 3, 1, 4, 2};
    for (int i = 0; i < 5; i++) { s[b + i] = v[i]; perm[b + i] = b + p[i]; }
  } else {                                             /* C H r W r -> C r r H W */
    tn_dim v[5] = {d[b], o->dim[b + 1], r, o->dim[b + 2], r};
    static const int p[5] = {0, 2, 4, 1, 3};
    for (int i = 0; i < 5; i++) { s[b + i] = v[i]; perm[b + i] = b + p[i]; }
  }
  return tn_at_ret(c, 0, tn_b_reshape(c, tn_b_permute(c, tn_b_reshape(c, x, s, rank + 2), perm), o->dim, o->rank));
}
tn_status tn_d_pixel_shuffle(tn_decomp_ctx *c) { return shuffle(c, true); }
tn_status tn_d_pixel_unshuffle(tn_decomp_ctx *c) { return shuffle(c, false); }

tn_status tn_d_channel_shuffle(tn_decomp_ctx *c) {
  tn_ref x = tn_at_t(c, "self");
  tn_dim d[TN_MAX_RANK], s[TN_MAX_RANK + 1], g = tn_at_dim(c, "groups", 1);
  int rank = tn_b_shape(c, x, d);
  if (c->st != TN_OK) return c->st;
  if (rank < 2 || rank >= TN_MAX_RANK) return tn_at_unsup(c, "rank %d", rank);
  s[0] = d[0]; s[1] = g; s[2] = tn_dim_floordiv(c->g->dims, d[1], g);
  for (int i = 2; i < rank; i++) s[i + 1] = d[i];
  return tn_at_ret(c, 0, tn_b_reshape(c, tn_b_swap(c, tn_b_reshape(c, x, s, rank + 1), 1, 2), d, rank));
}

/* ---- triangles ---- */

static tn_ref col_minus_row(tn_decomp_ctx *c, tn_dim rows, tn_dim cols, int rank) {
  tn_ref r = tn_b_along(c, tn_b_iota(c, rows, TN_I64), rank - 2, rank), q = tn_b_along(c, tn_b_iota(c, cols, TN_I64), rank - 1, rank);
  return tn_b_2(c, TN_OP_SUB, q, r);
}
static tn_status triangle(tn_decomp_ctx *c, tn_op keep) {
  tn_ref x = tn_at_t(c, "self");
  int rank = tn_b_rank(c, x);
  if (c->st == TN_OK && rank < 2) return tn_at_unsup(c, "rank %d", rank);
  tn_ref k = col_minus_row(c, tn_b_dim(c, x, rank - 2), tn_b_dim(c, x, rank - 1), rank);
  tn_ref m = tn_b_2(c, keep, k, tn_b_dimval(c, tn_at_dim(c, "diagonal", 0), TN_I64));
  return tn_at_ret(c, 0, tn_b_sel(c, m, x, tn_b_num(c, 0, tn_b_dtype(c, x))));
}
tn_status tn_d_tril(tn_decomp_ctx *c) { return triangle(c, TN_OP_LE); }
tn_status tn_d_triu(tn_decomp_ctx *c) { return triangle(c, TN_OP_GE); }

tn_status tn_d_diag_embed(tn_decomp_ctx *c) {          /* row r of the matrix holds x[r + min(off, 0)] at column r + off */
  tn_ref x = tn_at_t(c, "self");
  int64_t off = tn_at_i(c, "offset", 0), k = off < 0 ? -off : off;
  int rank = tn_b_rank(c, x) + 1, a = tn_at_axis(c, "dim1", rank), b = tn_at_axis(c, "dim2", rank), perm[TN_MAX_RANK];
  tn_dim lo[TN_MAX_RANK] = {0}, hi[TN_MAX_RANK] = {0};
  tn_attr_val zero = {.kind = TN_AT_INT};
  if (c->st != TN_OK) return c->st;
  if (a == b || rank < 2 || rank > TN_MAX_RANK) return tn_at_unsup(c, "dims of rank %d", rank);
  if (off < 0) lo[rank - 2] = k; else hi[rank - 2] = k;
  x = tn_b_pad(c, x, lo, hi, &zero);
  tn_dim n = tn_b_dim(c, x, rank - 2);
  tn_ref m = tn_b_2(c, TN_OP_EQ, col_minus_row(c, n, n, rank), tn_b_int(c, off, TN_I64));
  tn_ref y = tn_b_sel(c, m, tn_b_unsq(c, x, rank - 1), tn_b_num(c, 0, tn_b_dtype(c, x)));
  for (int i = 0, p = 0; i < rank; i++) perm[i] = i == a ? rank - 2 : i == b ? rank - 1 : p++;
  return tn_at_ret(c, 0, tn_b_permute(c, y, perm));
}

/* ---- writing a piece ---- */

tn_status tn_d_select_scatter(tn_decomp_ctx *c) {      /* where(position == index, src, self) */
  tn_ref x = tn_at_t(c, "self"), s = tn_b_cast(c, tn_at_t(c, "src"), tn_b_dtype(c, x));
  int rank = tn_b_rank(c, x), d = tn_at_axis(c, "dim", rank);
  tn_dim i = tn_at_dim(c, "index", 0);
  int64_t k, lo, hi;
  if (c->st != TN_OK) return c->st;
  if (rank == 0) return tn_at_unsup(c, "0-d tensor");
  if (tn_dim_as_int(c->g->dims, i, &k) ? k < 0 : (tn_dim_bounds(c->g->dims, i, &lo, &hi), hi < 0)) i = tn_dim_add(c->g->dims, i, tn_b_dim(c, x, d));
  tn_ref m = tn_b_2(c, TN_OP_EQ, tn_b_along(c, tn_b_iota(c, tn_b_dim(c, x, d), TN_I64), d, rank), tn_b_dimval(c, i, TN_I64));
  return tn_at_ret(c, 0, tn_b_sel(c, m, tn_b_unsq(c, s, d), x));
}

/* dst with src written at start, start + step, ... along d; src's size there is the number of places */
static tn_ref written(tn_decomp_ctx *c, tn_ref x, tn_ref s, int d, tn_dim start, int64_t step) {
  tn_dims *t = c->g->dims;
  int rank = tn_b_rank(c, x);
  tn_dim size = tn_b_dim(c, x, d), n = tn_b_dim(c, s, d);
  if (c->st != TN_OK || n == 0) return x;
  if (step == 1) {
    tn_dim end = tn_dim_add(t, start, n), rest = tn_dim_sub(t, size, end);
    tn_ref p[3];
    uint32_t k = 0;
    if (start != 0) p[k++] = tn_b_slice(c, x, d, 0, start, 1);
    p[k++] = s;
    if (rest != 0) p[k++] = tn_b_slice(c, x, d, end, rest, 1);
    return tn_b_concat(c, p, k, d);
  }
  tn_ref i = tn_b_2(c, TN_OP_SUB, tn_b_iota(c, size, TN_I64), tn_b_dimval(c, start, TN_I64)), st = tn_b_int(c, step, TN_I64), zero = tn_b_int(c, 0, TN_I64);
  tn_ref last = tn_b_dimval(c, tn_dim_sub(t, n, 1), TN_I64), q = tn_b_2(c, TN_OP_FLOORDIV, i, st);
  tn_ref hit = tn_b_2(c, TN_OP_AND, tn_b_2(c, TN_OP_EQ, tn_b_2(c, TN_OP_REMAINDER, i, st), zero), tn_b_2(c, TN_OP_AND, tn_b_2(c, TN_OP_GE, q, zero), tn_b_2(c, TN_OP_LE, q, last)));
  tn_ref src = tn_b_take(c, s, tn_b_2(c, TN_OP_MIN, tn_b_2(c, TN_OP_MAX, q, zero), last), d);
  return tn_b_sel(c, tn_b_along(c, hit, d, rank), src, x);
}

static tn_dim piece_start(tn_decomp_ctx *c, tn_dim start, tn_dim size) {
  int64_t s, lo, hi;
  tn_dims *t = c->g->dims;
  if (tn_dim_as_int(t, start, &s)) {
    if (s < 0) start = tn_dim_max(t, 0, tn_dim_add(t, size, start));
    return tn_dim_is_const(size) ? tn_dim_min(t, start, size) : start;
  }
  tn_dim_bounds(t, start, &lo, &hi);
  if (hi < 0) return tn_dim_add(t, size, start);
  if (lo < 0) tn_at_unsup(c, "a start that may be negative or not");
  return start;
}
tn_status tn_d_slice_scatter(tn_decomp_ctx *c) {
  tn_ref x = tn_at_t(c, "self"), s = tn_b_cast(c, tn_at_t(c, "src"), tn_b_dtype(c, x));
  int rank = tn_b_rank(c, x), d = tn_at_axis(c, "dim", rank);
  if (c->st == TN_OK && (rank == 0 || tn_b_rank(c, s) != rank)) return tn_at_unsup(c, "source of rank %d", tn_b_rank(c, s));
  return tn_at_ret(c, 0, written(c, x, s, d, piece_start(c, tn_at_dim(c, "start", 0), tn_b_dim(c, x, d)), tn_at_i(c, "step", 1)));
}

tn_status tn_d_slice_backward(tn_decomp_ctx *c) {
  const tn_type *o = tn_at_type(c, 0);
  tn_ref g = tn_at_t(c, "grad_output"), z = tn_b_zeros(c, o->dim, o->rank, tn_b_dtype(c, g));
  int d = tn_at_axis(c, "dim", o->rank);
  if (c->st == TN_OK && tn_b_rank(c, g) != o->rank) return tn_at_unsup(c, "gradient of rank %d", tn_b_rank(c, g));
  return tn_at_ret(c, 0, written(c, z, g, d, piece_start(c, tn_at_dim(c, "start", 0), tn_b_dim(c, z, d)), tn_at_i(c, "step", 1)));
}
tn_status tn_d_select_backward(tn_decomp_ctx *c) {
  const tn_type *o = tn_at_type(c, 0);
  tn_ref g = tn_at_t(c, "grad_output"), z = tn_b_zeros(c, o->dim, o->rank, tn_b_dtype(c, g));
  int d = tn_at_axis(c, "dim", o->rank);
  if (c->st == TN_OK && tn_b_rank(c, g) + 1 != o->rank) return tn_at_unsup(c, "gradient of rank %d", tn_b_rank(c, g));
  return tn_at_ret(c, 0, written(c, z, tn_b_unsq(c, g, d), d, piece_start(c, tn_at_dim(c, "index", 0), tn_b_dim(c, z, d)), 1));
}

/* onnx_contract: MatMul, Gemm, Einsum, Det. Products are contractions (einsums of two operands); f16 and bf16 are multiplied exactly and summed in f32.
 *
 * Einsum of any number of operands contracts from left to right; a letter is summed as soon as no operand to come and no result dim needs it. A letter
 * twice in a term keeps the diagonal (a masked sum). Dims under an ellipsis, and letters that have size 1 in one operand, broadcast: they are
 * dropped from that operand. Det eliminates column by column with row exchange, unrolled; so the matrix size must be constant. */
#include "ops/onnx_math_int.h"

/* ---- MatMul, Gemm ---- */

tn_ref tn_ox_matmul_of(tn_ox *c, tn_ref a, tn_ref b) {
  if (!mx_ok(c)) return a;
  int ra = mx_rank(c, a), rb = mx_rank(c, b);
  if (ra == 0 || rb == 0) { tn_ox_bad(c, "an operand of rank 0"); return a; }
  const char *lo = ra == 1 && rb == 1 ? "" : ra == 1 ? "j" : rb == 1 ? "i" : "ij";
  return tn_b_product(&c->b, a, b, ra == 1 ? "k" : "ik", rb == 1 ? "k" : "kj", lo);
}
tn_status tn_ox_matmul(tn_ox *c) {
  tn_ref a = tn_ox_in(c, 0), b = tn_ox_in(c, 1), y;
  if (tn_ox_dequantised_matmul(c, a, b, &y)) return tn_ox_ret(c, 0, y);
  return mx_ret_as(c, 0, tn_ox_matmul_of(c, a, b), mx_dtype(c, a));
}

static tn_ref scaled(tn_ox *c, tn_ref x, double k) {
  if (!mx_ok(c) || k == 1) return x;
  tn_dtype t = mx_dtype(c, x);
  if (tn_dtype_is_float(t) || k == floor(k)) return tn_b_muln(&c->b, x, k);
  return mx_cast(c, tn_b_muln(&c->b, mx_cast(c, x, TN_F64), k), t);
}
tn_status tn_ox_gemm(tn_ox *c) {                     /* the broadcast attribute of opsets before 7 says what C's shape says anyway */
  tn_ref a = tn_ox_in(c, 0), b = tn_ox_in(c, 1), bias = tn_ox_opt(c, 2);
  double alpha = tn_ox_float(c, "alpha", 1), beta = tn_ox_float(c, "beta", 1);
  bool ta = tn_ox_int(c, "transA", 0) != 0, tb = tn_ox_int(c, "transB", 0) != 0;
  if (!mx_ok(c)) return c->b.st;
  if (mx_rank(c, a) != 2 || mx_rank(c, b) != 2) return tn_ox_bad(c, "operands of rank %d and %d, wants 2 and 2", mx_rank(c, a), mx_rank(c, b));
  tn_ref y = scaled(c, tn_b_product(&c->b, a, b, ta ? "ki" : "ik", tb ? "jk" : "kj", "ij"), alpha);
  if (bias.id && beta != 0) y = mx_add(c, y, scaled(c, mx_cast(c, bias, mx_dtype(c, y)), beta));
  if (mx_ok(c) && mx_rank(c, y) != 2) return tn_ox_bad(c, "C of rank %d", mx_rank(c, bias));
  return mx_ret_as(c, 0, y, mx_dtype(c, a));
}

/* ---- Einsum ---- */

#define MAX_TERMS 64
typedef struct term { tn_ref x; char label[TN_MAX_RANK + 1]; int n; } term; /* operand and the letter of each of its dims */
typedef struct einsum {
  term in[MAX_TERMS], out;
  int n, n_dots;             /* operands; dims under an ellipsis */
  char dots[TN_MAX_RANK];    /* letters made up for them, from the left */
  tn_dim size[128];          /* of each letter; 0 is a size too, so: */
  bool known[128];
} einsum;

static bool is_letter(char ch) { return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z'); }

/* Reads one term up to a ',' or '-' or the end. rank < 0: the result, whose ellipsis has all the dims. */
static const char *read_term(tn_ox *c, einsum *e, const char *s, term *t, int rank) {
  int letters = 0, dots = 0;
  bool seen = false;
  for (const char *p = s; *p && *p != ',' && *p != '-'; p++) letters += is_letter(*p);
  dots = rank < 0 ? e->n_dots : rank - letters;
  t->n = 0;
  for (; *s && *s != ',' && *s != '-'; s++) {
    if (*s == ' ') continue;
    if (is_letter(*s)) {
      if (t->n == TN_MAX_RANK) { tn_ox_unsup(c, "a term of over %d letters", TN_MAX_RANK); return s; }
      t->label[t->n++] = *s;
    } else if (!strncmp(s, "...", 3) && !seen) {
      seen = true;
      s += 2;
      if (dots < 0 || dots > e->n_dots || t->n + dots > TN_MAX_RANK) { tn_ox_bad(c, "equation does not fit operand ranks"); return s; }
      for (int i = e->n_dots - dots; i < e->n_dots; i++) t->label[t->n++] = e->dots[i];
    } else {
      tn_ox_bad(c, "equation holds '%c'", *s);
      return s;
    }
  }
  if (rank >= 0 && t->n != rank) tn_ox_bad(c, "a term has %d dims, its operand %d", t->n, rank);
  return s;
}

/* How many dims ellipses stand for (the most of all operands), and letters for them that the equation does not use. */
static void read_dots(tn_ox *c, einsum *e, const char *s) {
  uint32_t k = 0;
  int letters = 0;
  bool dots = false, used[128] = {false};
  for (const char *p = s;; p++) {
    if (is_letter(*p)) { letters++; used[(int)*p] = true; }
    if (*p == '.') dots = true;
    if (*p && *p != ',' && *p != '-') continue;
    if (k >= c->n_in) break;
    int more = dots ? mx_rank(c, c->in[k]) - letters : 0;
    if (more > e->n_dots) e->n_dots = more;
    letters = dots = 0;
    k++;
    if (*p != ',') break;
  }
  for (const char *p = s; *p; p++) used[(unsigned char)*p & 127] = true;
  int n = 0;
  for (char ch = 'A'; ch <= 'z' && n < e->n_dots; ch++)
    if (is_letter(ch) && !used[(int)ch]) e->dots[n++] = ch;
  if (n < e->n_dots) tn_ox_unsup(c, "the equation uses too many letters");
}

/* x[.., i, .., i, ..]: keeps the diagonal of two dims at the first of them. */
static tn_ref diagonal(tn_ox *c, tn_ref x, int first, int second) {
  int rank = mx_rank(c, x);
  tn_ref i = tn_b_along(&c->b, tn_b_iota(&c->b, tn_b_dim(&c->b, x, first), TN_I64), first, rank);
  tn_ref j = tn_b_along(&c->b, tn_b_iota(&c->b, tn_b_dim(&c->b, x, second), TN_I64), second, rank);
  return tn_b_reduce1(&c->b, TN_C_SUM, mx_sel(c, mx_2(c, TN_OP_EQ, i, j), x, mx_num(c, x, 0)), second, false);
}

static void prepare(tn_ox *c, einsum *e, term *t) {  /* diagonals, and the letters' sizes */
  for (int i = 0; i < t->n; i++)
    for (int j = t->n - 1; j > i && mx_ok(c); j--)
      if (t->label[i] == t->label[j]) {
        t->x = diagonal(c, t->x, i, j);
        memmove(t->label + j, t->label + j + 1, (size_t)(t->n - j - 1));
        t->n--;
      }
  for (int i = 0; i < t->n && mx_ok(c); i++) {
    int ch = t->label[i];
    tn_dim d = tn_b_dim(&c->b, t->x, i), both;
    if (!e->known[ch] || e->size[ch] == 1) e->size[ch] = d;
    else if (tn_b_agree(e->size[ch], d, &both)) e->size[ch] = both;
    else if (d != 1 && d != e->size[ch]) tn_ox_bad(c, "letter %c stands for two sizes", ch);
    e->known[ch] = true;
  }
}

static void drop_ones(tn_ox *c, const einsum *e, term *t) {   /* a dim of 1 where the letter is larger; and one spelling for each size */
  tn_dim d[TN_MAX_RANK];
  int n = 0;
  for (int i = 0; i < t->n; i++) {
    int ch = t->label[i];
    if (tn_b_dim(&c->b, t->x, i) == 1 && e->size[ch] != 1) continue;
    d[n] = e->size[ch];
    t->label[n++] = (char)ch;
  }
  t->n = n;
  t->x = tn_b_reshape(&c->b, t->x, d, n);
}

static bool has(const term *t, char ch) { return memchr(t->label, ch, (size_t)t->n) != NULL; }
static bool needed(const einsum *e, int from, char ch) {
  for (int k = from; k < e->n; k++)
    if (has(&e->in[k], ch)) return true;
  return has(&e->out, ch);
}
static void implicit_result(einsum *e) {             /* ellipsis, then letters that appear once, in ASCII order */
  int count[128] = {0};
  for (int i = 0; i < e->n_dots; i++) e->out.label[e->out.n++] = e->dots[i];
  for (int k = 0; k < e->n; k++)
    for (int i = 0; i < e->in[k].n; i++) count[(int)e->in[k].label[i]]++;
  for (char ch = 'A'; ch <= 'z'; ch++)
    if (is_letter(ch) && count[(int)ch] == 1 && !memchr(e->dots, ch, (size_t)e->n_dots) && e->out.n < TN_MAX_RANK) e->out.label[e->out.n++] = ch;
}

static void contract_with(tn_ox *c, const einsum *e, term *acc, const term *t, int next) {
  char labels[3 * TN_MAX_RANK + 8];
  term r = {.n = 0};
  for (int pass = 0; pass < 2; pass++) {
    const term *s = pass ? t : acc;
    for (int i = 0; i < s->n; i++)
      if (needed(e, next, s->label[i]) && !has(&r, s->label[i])) {
        if (r.n == TN_MAX_RANK) { tn_ox_unsup(c, "an intermediate result of over %d dims", TN_MAX_RANK); return; }
        r.label[r.n++] = s->label[i];
      }
  }
  snprintf(labels, sizeof labels, "%.*s,%.*s->%.*s", acc->n, acc->label, t->n, t->label, r.n, r.label);
  r.x = tn_b_contract(&c->b, labels, acc->x, t->x);
  *acc = r;
}

static tn_ref finish(tn_ox *c, const einsum *e, term *acc) {  /* sums what is left over, orders dims */
  int ax[TN_MAX_RANK], n = 0, perm[TN_MAX_RANK], m = 0;
  for (int i = 0; i < acc->n; i++)
    if (!has(&e->out, acc->label[i])) ax[n++] = i;
    else acc->label[m++] = acc->label[i];
  tn_ref y = tn_b_reduce(&c->b, TN_C_SUM, acc->x, ax, n, false);
  acc->n = m;
  for (int i = 0; i < e->out.n; i++) {
    const char *p = memchr(acc->label, e->out.label[i], (size_t)acc->n);
    if (!p) { tn_ox_bad(c, "letter %c is in the result only", e->out.label[i]); return y; }
    perm[i] = (int)(p - acc->label);
  }
  return mx_ok(c) && e->out.n ? tn_b_permute(&c->b, y, perm) : y;
}

tn_status tn_ox_einsum(tn_ox *c) {
  const char *s = tn_ox_str_attr(c, "equation", NULL);
  if (!mx_ok(c)) return c->b.st;
  if (!s) return tn_ox_bad(c, "attribute equation is missing");
  if (c->n_in < 1 || c->n_in > MAX_TERMS) return tn_ox_unsup(c, "%u operands", c->n_in);
  einsum *e = TN_NEW(c->b.g->arena, einsum, 1);
  if (!e) return c->b.st = tn_fail(c->b.d, TN_E_NOMEM, "Einsum: working memory");
  e->n = (int)c->n_in;
  for (int k = 0; k < e->n; k++) e->in[k].x = tn_b_up(&c->b, tn_ox_in(c, (uint32_t)k));
  if (mx_ok(c)) read_dots(c, e, s);
  for (int k = 0; k < e->n && mx_ok(c); k++) {
    s = read_term(c, e, s, &e->in[k], mx_rank(c, e->in[k].x));
    if (mx_ok(c) && k + 1 < e->n && *s++ != ',') return tn_ox_bad(c, "%u operands, fewer terms", c->n_in);
  }
  if (!mx_ok(c)) return c->b.st;
  if (*s == ',') return tn_ox_bad(c, "%u operands, more terms", c->n_in);
  if (*s == '-') {
    if (s[1] != '>') return tn_ox_bad(c, "equation holds a lone '-'");
    s = read_term(c, e, s + 2, &e->out, -1);
    if (mx_ok(c) && *s) return tn_ox_bad(c, "text after the result term");
  } else {
    implicit_result(e);
  }
  for (int k = 0; k < e->n; k++) prepare(c, e, &e->in[k]);
  for (int k = 0; k < e->n && mx_ok(c); k++) drop_ones(c, e, &e->in[k]);
  term acc = e->in[0];
  for (int k = 1; k < e->n && mx_ok(c); k++) contract_with(c, e, &acc, &e->in[k], k + 1);
  if (!mx_ok(c)) return c->b.st;
  return mx_ret_as(c, 0, finish(c, e, &acc), mx_dtype(c, c->in[0]));
}

/* ---- Det ---- */

/* One step of elimination on a[B, m, m]: multiplies *det[B] by the pivot, returns [B, m-1, m-1]. */
static tn_ref eliminate(tn_ox *c, tn_ref a, int m, tn_ref *det) {
  tn_decomp_ctx *b = &c->b;
  tn_ref zero = mx_num(c, a, 0), col = mx_1(c, TN_OP_ABS, tn_b_sq(b, tn_b_slice(b, a, 2, 0, 1, 1), 2));
  tn_ref at = tn_b_reduce1(b, TN_C_ARGMAX, col, 1, true);                                  /* [B, 1] */
  tn_ref is = tn_b_unsq(b, mx_2(c, TN_OP_EQ, tn_b_along(b, tn_b_iota(b, m, TN_I64), 1, 2), at), 2);   /* [B, m, 1] */
  tn_ref top = tn_b_slice(b, a, 1, 0, 1, 1), row = tn_b_reduce1(b, TN_C_SUM, mx_sel(c, is, a, zero), 1, true);
  tn_ref pivot = tn_b_slice(b, row, 2, 0, 1, 1);                                           /* [B, 1, 1] */
  tn_ref moved = mx_2(c, TN_OP_NE, tn_b_sq(b, at, 1), tn_b_int(b, 0, TN_I64)), p = tn_b_sq(b, tn_b_sq(b, pivot, 2), 1);
  *det = mx_mul(c, *det, mx_sel(c, moved, mx_1(c, TN_OP_NEG, p), p));
  tn_ref rest = tn_b_slice(b, mx_sel(c, is, top, a), 1, 1, m - 1, 1);                      /* the top row moved to the pivot's place */
  tn_ref k = mx_sel(c, mx_2(c, TN_OP_EQ, pivot, zero), zero, mx_div(c, tn_b_slice(b, rest, 2, 0, 1, 1), pivot));
  tn_ref next = mx_sub(c, rest, mx_mul(c, k, row));
  return tn_b_slice(b, next, 2, 1, m - 1, 1);
}
tn_status tn_ox_det(tn_ox *c) {
  tn_ref x = tn_b_up(&c->b, tn_ox_in(c, 0));
  tn_dim d[TN_MAX_RANK], f[3];
  if (!mx_ok(c)) return c->b.st;
  int rank = tn_b_shape(&c->b, x, d);
  if (rank < 2) return tn_ox_bad(c, "operand of rank %d", rank);
  tn_dim n = d[rank - 1];
  if (!tn_dim_is_const(n) || !tn_dim_is_const(d[rank - 2]) || n > 64) return tn_ox_unsup(c, "a matrix size that is symbolic or over 64");
  if (n != d[rank - 2]) return tn_ox_bad(c, "matrices of %lld by %lld", (long long)d[rank - 2], (long long)n);
  f[0] = tn_b_numel(&c->b, d, rank - 2);
  f[1] = f[2] = n;
  tn_ref a = tn_b_reshape(&c->b, x, f, 3), det = tn_b_broadcast(&c->b, mx_num(c, x, 1), f, 1);
  for (int m = (int)n; m > 1 && mx_ok(c); m--) a = eliminate(c, a, m, &det);
  if (n > 0) det = mx_mul(c, det, tn_b_reshape(&c->b, a, f, 1));
  return mx_ret_as(c, 0, tn_b_reshape(&c->b, det, d, rank - 2), mx_dtype(c, c->in[0]));
}

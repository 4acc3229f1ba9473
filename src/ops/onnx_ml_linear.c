/* onnx_ml_linear: linear models and support vector machines, as products and elementwise arithmetic.
 *
 * A one-against-one machine's decision for a pair of classes is a fixed combination of the kernel values, so all of them are one product with a
 * constant matrix, votes another; only the coupling of pairwise probabilities iterates (DYN svm_probability). Labels and the forms that scores take
 * follow onnx.reference where the text of the standard is silent. */
#include "onnx_ml.h"

/* [N, E] times a constant: [E, M] given row by row. */
static tn_ref times(tn_ox *c, tn_ref x, const double *w, int64_t rows, int64_t cols) {
  tn_ox_list l = {.f = w, .n = (uint32_t)(rows * cols), .elem = 11};
  tn_dim dim[2] = {rows, cols};
  if (c->b.st != TN_OK) return x;
  tn_ref m = tn_b_reshape(&c->b, tn_ox_const_list(c, &l, tn_ox_elem_of(tn_b_dtype(&c->b, x))), dim, 2);
  return tn_b_contract(&c->b, "ne,em->nm", x, m);
}

static double *numbers(tn_ox *c, int64_t n) {
  double *p = n >= 0 && n < INT32_MAX ? TN_NEW(c->b.g->arena, double, n + 1) : NULL;
  if (!p && c->b.st == TN_OK) c->b.st = tn_fail(c->b.d, TN_E_NOMEM, "%lld coefficients", (long long)n);
  return p;
}

/* Operand 0 as [N, F], its F, which coefficients make known: n numbers in rows of F. */
static tn_ref matrix(tn_ox *c) {
  tn_ref x = tn_ox_features(c, 0);
  if (c->b.st == TN_OK && tn_b_rank(&c->b, x) == 1) x = tn_b_unsq(&c->b, x, 0);
  if (c->b.st == TN_OK && tn_b_rank(&c->b, x) != 2) tn_ox_bad(c, "wanted [N, F], found rank %d", tn_b_rank(&c->b, x));
  return x;
}
static bool divides(tn_ox *c, tn_ref x, int64_t n, int64_t by, const char *what) {
  if (c->b.st != TN_OK) return false;
  tn_dim f = tn_b_dim(&c->b, x, 1);
  if (by > 0 && n > 0 && n % by == 0 && (!tn_dim_is_const(f) || f == n / by)) return true;
  tn_ox_bad(c, "%lld %s for %lld rows of %lld features", (long long)n, what, (long long)by, tn_dim_is_const(f) ? (long long)f : -1);
  return false;
}

/* x W^T for `rows` rows of coefficients standing one after the other. */
static tn_ref rows_times(tn_ox *c, tn_ref x, const double *w, int64_t n, int64_t rows) {
  double *t = numbers(c, n);
  if (!t || !divides(c, x, n, rows, "coefficients")) return x;
  int64_t f = n / rows;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t k = 0; k < f; k++) t[k * rows + r] = w[r * f + k];
  return times(c, x, t, f, rows);
}

static tn_ref add_list(tn_ox *c, tn_ref y, const double *v, uint32_t n) {
  if (!n || c->b.st != TN_OK) return y;
  tn_dim m = tn_b_dim(&c->b, y, 1);
  if (n > 1 && tn_dim_is_const(m) && m != n) { tn_ox_bad(c, "%u constants for %lld columns", n, (long long)m); return y; }
  tn_ox_list l = {.f = v, .n = n, .elem = 11};
  return tn_b_2(&c->b, TN_OP_ADD, y, tn_ox_const_list(c, &l, tn_ox_elem_of(tn_b_dtype(&c->b, y))));
}

/* -s and s side by side from [N, 1]. */
static tn_ref both_signs(tn_ox *c, tn_ref s) {
  tn_ref two[2] = {tn_b_1(&c->b, TN_OP_NEG, s), s};
  return tn_b_concat(&c->b, two, 2, 1);
}

tn_status tn_ox_ml_linear_regressor(tn_ox *c) {
  tn_ref x = matrix(c);
  uint32_t n, n_b;
  int64_t targets = tn_ox_int(c, "targets", 1);
  const double *w = tn_ox_floats(c, "coefficients", &n), *b = tn_ox_floats(c, "intercepts", &n_b);
  tn_ref y = add_list(c, rows_times(c, x, w, n, targets), b, n_b);
  return tn_ox_ret(c, 0, tn_b_cast(&c->b, tn_ox_post(c, y, tn_ox_str_attr(c, "post_transform", "NONE")), TN_F32));
}

/* Best column of each row as a label. */
static tn_ref label_of(tn_ox *c, tn_ref scores, const tn_ox_list *labels) {
  tn_ref at = tn_b_reduce1(&c->b, TN_C_ARGMAX, scores, 1, false);
  return labels->n ? tn_ox_pick(c, labels, NULL, at) : at;
}

tn_status tn_ox_ml_linear_classifier(tn_ox *c) {
  tn_ref x = matrix(c);
  uint32_t n, n_b;
  tn_ox_list labels = tn_ox_list_get(c, "classlabels");
  const double *w = tn_ox_floats(c, "coefficients", &n), *b = tn_ox_floats(c, "intercepts", &n_b);
  const char *post = tn_ox_str_attr(c, "post_transform", "NONE");
  if (c->b.st != TN_OK) return c->b.st;
  tn_dim f = tn_b_dim(&c->b, x, 1);
  int64_t rows = n_b ? n_b : tn_dim_is_const(f) && f > 0 ? n / f : labels.n;
  tn_ref s = add_list(c, rows_times(c, x, w, n, rows), b, n_b);
  if (rows == 1 && labels.n == 2) s = both_signs(c, s);
  s = tn_ox_post(c, s, post);
  tn_ox_ret(c, 1, tn_b_cast(&c->b, s, TN_F32));
  if (rows != 1 || labels.n == 2) return tn_ox_ret(c, 0, label_of(c, s, &labels));
  tn_ref yes = tn_b_2(&c->b, TN_OP_GE, s, tn_b_num(&c->b, strcmp(post, "NONE") ? 0.5 : 0, tn_b_dtype(&c->b, s)));
  tn_ref at = tn_b_sq(&c->b, tn_b_cast(&c->b, yes, TN_I64), 1);
  if (!labels.n) return tn_ox_ret(c, 0, at);
  tn_ox_str pair[2] = {{"", 0}, labels.s ? labels.s[0] : (tn_ox_str){"", 0}};
  int64_t ints[2] = {0, labels.i ? labels.i[0] : 0};
  tn_ox_list two = {.s = labels.s ? pair : NULL, .i = labels.s ? NULL : ints, .n = 2, .elem = labels.elem};
  return tn_ox_ret(c, 0, tn_ox_pick(c, &two, NULL, at));
}

/* ---- support vector machines ---- */

typedef struct svm { const double *sv, *coef, *rho; uint32_t n_sv, n_coef, n_rho; double gamma, coef0, degree; const char *kernel, *post; } svm;

static tn_status read_svm(tn_ox *c, svm *m) {
  uint32_t n;
  const double *p = tn_ox_floats(c, "kernel_params", &n);
  m->sv = tn_ox_floats(c, "support_vectors", &m->n_sv);
  m->coef = tn_ox_floats(c, "coefficients", &m->n_coef);
  m->rho = tn_ox_floats(c, "rho", &m->n_rho);
  m->kernel = tn_ox_str_attr(c, "kernel_type", "LINEAR");
  m->post = tn_ox_str_attr(c, "post_transform", "NONE");
  if (c->b.st != TN_OK) return c->b.st;
  if (n && n < 3) return tn_ox_bad(c, "kernel_params has %u numbers", n);
  if (!m->n_coef || !m->n_rho) return tn_ox_bad(c, "%u coefficients, %u of rho", m->n_coef, m->n_rho);
  if (n) { m->gamma = p[0]; m->coef0 = p[1]; m->degree = trunc(p[2]); }
  return TN_OK;
}

/* k(x, v) for n support vectors: [N, n]. */
static tn_ref kernel(tn_ox *c, const svm *m, tn_ref x, int64_t n) {
  tn_decomp_ctx *b = &c->b;
  if (!divides(c, x, m->n_sv, n, "numbers of support vectors")) return x;
  if (!strcmp(m->kernel, "RBF")) {
    tn_ox_list l = {.f = m->sv, .n = m->n_sv, .elem = 11};
    tn_dim dim[2] = {n, m->n_sv / n};
    tn_ref v = tn_b_reshape(b, tn_ox_const_list(c, &l, tn_ox_elem_of(tn_b_dtype(b, x))), dim, 2);
    tn_ref d = tn_b_2(b, TN_OP_SUB, tn_b_unsq(b, x, 1), tn_b_unsq(b, v, 0));
    return tn_b_1(b, TN_OP_EXP, tn_b_muln(b, tn_b_reduce1(b, TN_C_SUM, tn_b_2(b, TN_OP_MUL, d, d), 2, false), -m->gamma));
  }
  tn_ref k = rows_times(c, x, m->sv, m->n_sv, n);
  if (!strcmp(m->kernel, "LINEAR")) return k;
  k = tn_b_addn(b, tn_b_muln(b, k, m->gamma), m->coef0);
  if (!strcmp(m->kernel, "SIGMOID")) return tn_b_1(b, TN_OP_TANH, k);
  if (!strcmp(m->kernel, "POLY")) return tn_b_2(b, TN_OP_POW, k, tn_b_num(b, m->degree, tn_b_dtype(b, k)));
  tn_ox_bad(c, "kernel_type '%.40s'", m->kernel);
  return k;
}

tn_status tn_ox_ml_svm_regressor(tn_ox *c) {
  tn_ref x = matrix(c);
  svm m = {0};
  int64_t n = tn_ox_int(c, "n_supports", 0);
  TN_TRY(read_svm(c, &m));
  if (n > 0 && n != m.n_coef) return tn_ox_bad(c, "%u coefficients for %lld support vectors", m.n_coef, (long long)n);
  tn_ref y = n > 0 ? times(c, kernel(c, &m, x, n), m.coef, n, 1) : rows_times(c, x, m.coef, m.n_coef, 1);
  y = tn_b_addn(&c->b, y, m.rho[0]);
  if (tn_ox_int(c, "one_class", 0)) {
    tn_dtype t = tn_b_dtype(&c->b, y);
    y = tn_b_sel(&c->b, tn_b_2(&c->b, TN_OP_GT, y, tn_b_num(&c->b, 0, t)), tn_b_num(&c->b, 1, t), tn_b_num(&c->b, -1, t));
  }
  return tn_ox_ret(c, 0, tn_b_cast(&c->b, tn_ox_post(c, y, m.post), TN_F32));
}

/* Decisions of all pairs [N, pairs] (first class wins above 0) and votes [N, classes]. */
static tn_ref pairs_of(tn_ox *c, const svm *m, tn_ref k, const int64_t *per, int64_t classes, int64_t n, tn_ref *votes) {
  int64_t pairs = classes * (classes - 1) / 2, p = 0, si = 0;
  double *w = numbers(c, n * pairs), *won = numbers(c, pairs * classes), *lost = numbers(c, pairs * classes);
  if (!w || !won || !lost) return k;
  for (int64_t i = 0; i < classes; si += per[i++]) {
    int64_t sj = si + per[i];
    for (int64_t j = i + 1; j < classes; sj += per[j++], p++) {
      for (int64_t q = si; q < si + per[i]; q++) w[q * pairs + p] = m->coef[(j - 1) * n + q];
      for (int64_t q = sj; q < sj + per[j]; q++) w[q * pairs + p] = m->coef[i * n + q];
      won[p * classes + i] = 1;
      lost[p * classes + j] = 1;
    }
  }
  tn_ref d = add_list(c, times(c, k, w, n, pairs), m->rho, m->n_rho);
  if (c->b.st != TN_OK) return d;
  tn_dtype t = tn_b_dtype(&c->b, d);
  tn_ref first = tn_b_2(&c->b, TN_OP_GT, d, tn_b_num(&c->b, 0, t)), one = tn_b_cast(&c->b, first, t);
  tn_ref other = tn_b_2(&c->b, TN_OP_SUB, tn_b_num(&c->b, 1, t), one);
  *votes = tn_b_2(&c->b, TN_OP_ADD, times(c, one, won, pairs, classes), times(c, other, lost, pairs, classes));
  return d;
}

/* Pairwise probabilities 1 - logistic(a d + b), coupled. */
static tn_ref probabilities(tn_ox *c, tn_ref d, const double *pa, const double *pb, uint32_t n, int64_t classes) {
  if (c->b.st != TN_OK) return d;
  int elem = tn_ox_elem_of(tn_b_dtype(&c->b, d));
  tn_ox_list a = {.f = pa, .n = n, .elem = 11}, b = {.f = pb, .n = n, .elem = 11};
  tn_ref z = tn_b_2(&c->b, TN_OP_ADD, tn_b_2(&c->b, TN_OP_MUL, d, tn_ox_const_list(c, &a, elem)), tn_ox_const_list(c, &b, elem));
  z = tn_b_1(&c->b, TN_OP_SIGMOID, tn_b_1(&c->b, TN_OP_NEG, z));
  if (c->b.st != TN_OK) return d;
  tn_attr at = tn_mk_int("classes", classes);
  tn_dim dim[2] = {tn_b_dim(&c->b, z, 0), classes};
  tn_type t = tn_ox_type(c, tn_b_dtype(&c->b, z), 2, dim);
  return tn_ox_dyn(c, "svm_probability", &z, 1, &at, 1, &t, 1);
}

/* Label and form of the scores. best: what the label is chosen by, [N, classes]. */
static tn_status svm_results(tn_ox *c, const svm *m, tn_ref best, tn_ref scores, const tn_ox_list *labels, int64_t n_scores, bool has_p) {
  tn_decomp_ctx *b = &c->b;
  if (c->b.st != TN_OK) return c->b.st;
  bool positive = true;
  for (uint32_t i = 0; i < m->n_coef; i++) positive &= m->coef[i] >= 0;
  tn_ref at = tn_b_reduce1(b, TN_C_ARGMAX, best, 1, false), top = tn_b_reduce1(b, TN_C_MAX, best, 1, false);
  bool binary = m->n_rho == 1 && labels->n == 2;
  if (binary && !has_p && positive) at = tn_b_sel(b, tn_b_2(b, TN_OP_GE, top, tn_b_num(b, 0.5, tn_b_dtype(b, top))), tn_b_int(b, 1, TN_I64), at);
  tn_ox_list use = *labels, none = {0};
  if (m->n_rho == 1 && labels->n != 2) {                     /* one decision, no pair of labels: 1 or 0 */
    at = tn_b_cast(b, tn_b_2(b, TN_OP_GT, top, tn_b_num(b, 0, tn_b_dtype(b, top))), TN_I64);
    use = labels->s && labels->n > 1 ? *labels : none;
    if (labels->s && labels->n <= 1) return tn_ox_unsup(c, "%u string labels for one decision", labels->n);
  }
  tn_ox_ret(c, 0, use.n ? tn_ox_pick(c, &use, NULL, at) : at);
  if (n_scores == 1 && binary && strcmp(m->post, "PROBIT")) scores = both_signs(c, scores);
  if (n_scores == 1 && !binary && strcmp(m->post, "PROBIT")) return tn_ox_ret(c, 1, tn_b_cast(b, scores, TN_F32));
  return tn_ox_ret(c, 1, tn_b_cast(b, tn_ox_post(c, scores, m->post), TN_F32));
}

tn_status tn_ox_ml_svm_classifier(tn_ox *c) {
  tn_ref x = matrix(c), votes = {0};
  svm m = {0};
  uint32_t n_per, n_a, n_b;
  tn_ox_list labels = tn_ox_list_get(c, "classlabels");
  const int64_t *per = tn_ox_ints(c, "vectors_per_class", &n_per);
  const double *pa = tn_ox_floats(c, "prob_a", &n_a), *pb = tn_ox_floats(c, "prob_b", &n_b);
  TN_TRY(read_svm(c, &m));
  int64_t classes = labels.n ? labels.n : 1, n = 0, pairs = classes * (classes - 1) / 2;
  for (uint32_t i = 0; i < n_per; i++) {
    if (per[i] < 0 || per[i] > INT32_MAX || n > INT32_MAX) return tn_ox_bad(c, "vectors_per_class holds %lld", (long long)per[i]);
    n += per[i];
  }
  if (n == 0) {                                             /* one line per class */
    tn_ref s = tn_b_addn(&c->b, rows_times(c, x, m.coef, m.n_coef, classes), m.rho[0]);
    return svm_results(c, &m, s, s, &labels, classes, false);
  }
  if (n_per != classes || classes < 2 || classes > 4096 || m.n_coef != (classes - 1) * n || (m.n_rho != pairs && m.n_rho != 1))
    return tn_ox_bad(c, "%lld classes with vectors of %u, %u coefficients for %lld vectors, %u of rho", (long long)classes, n_per, m.n_coef, (long long)n, m.n_rho);
  if (n_a != n_b || (n_a && n_a != pairs)) return tn_ox_bad(c, "%u of prob_a, %u of prob_b for %lld pairs", n_a, n_b, (long long)pairs);
  tn_ref d = pairs_of(c, &m, kernel(c, &m, x, n), per, classes, n, &votes);
  tn_ref scores = n_a ? probabilities(c, d, pa, pb, n_a, classes) : d;
  return svm_results(c, &m, votes, scores, &labels, n_a ? classes : pairs, n_a > 0);
}

/* dyn_nms: ONNX NonMaxSuppression. Per batch and class: boxes in falling order of score (equal scores: lower number first); one is taken
 * unless it overlaps one already taken by more than the threshold. A NaN score is below every threshold and after every other score. */
#include "dyn_int.h"

typedef struct box { double x0, y0, x1, y1, area; } box;

static box box_at(const tn_view *b, int64_t at, bool center) {
  double v[4];
  for (int i = 0; i < 4; i++) v[i] = tn_view_f64(b, at * 4 + i);
  box r;
  if (center) r = (box){v[0] - v[2] / 2, v[1] - v[3] / 2, v[0] + v[2] / 2, v[1] + v[3] / 2, 0};
  else r = (box){v[1] < v[3] ? v[1] : v[3], v[0] < v[2] ? v[0] : v[2], v[1] < v[3] ? v[3] : v[1], v[0] < v[2] ? v[2] : v[0], 0};
  r.area = (r.x1 - r.x0) * (r.y1 - r.y0);
  return r;
}

static bool overlaps(const box *a, const box *b, float limit) {
  double w = (a->x1 < b->x1 ? a->x1 : b->x1) - (a->x0 > b->x0 ? a->x0 : b->x0), h = (a->y1 < b->y1 ? a->y1 : b->y1) - (a->y0 > b->y0 ? a->y0 : b->y0);
  if (!(w > 0 && h > 0) || !(a->area > 0 && b->area > 0)) return false;
  return (float)(w * h / (a->area + b->area - w * h)) > limit;
}

static bool better(const void *user, int64_t a, int64_t b) {
  const double *s = user;
  return s[a] > s[b] || (s[a] == s[a] && s[b] != s[b]);
}

typedef struct found { int64_t *p; size_t n, cap; } found;

static tn_status keep(tn_dyn_call *c, found *f, int64_t batch, int64_t cls, int64_t at) {
  if (f->n + 3 > f->cap) {
    size_t cap = f->cap ? f->cap * 2 : 192;
    int64_t *p = tn_arena_grow(c->tmp, f->p, f->n * 8, cap * 8);
    if (!p) return tn_dv_fail(c, TN_E_NOMEM, "%zu selected boxes", f->n / 3);
    f->p = p;
    f->cap = cap;
  }
  f->p[f->n++] = batch; f->p[f->n++] = cls; f->p[f->n++] = at;
  return TN_OK;
}

typedef struct nms { tn_view boxes, scores; int64_t most, n; float iou, least; bool has_least, center; double *s; int64_t *idx, *tmp; box *all, *taken; } nms;

static tn_status one_class(tn_dyn_call *c, nms *a, int64_t b, int64_t cls, int64_t n_cls, found *f) {
  int64_t n = 0, n_taken = 0;
  for (int64_t i = 0; i < a->n; i++) {
    a->s[i] = tn_view_f64(&a->scores, (b * n_cls + cls) * a->n + i);
    if (!a->has_least || a->s[i] > (double)a->least) a->idx[n++] = i;
  }
  tn_sort_idx(a->idx, a->tmp, n, better, a->s);
  for (int64_t i = 0; i < n && n_taken < a->most; i++) {
    const box *x = &a->all[a->idx[i]];
    bool ok = true;
    for (int64_t k = 0; ok && k < n_taken; k++) ok = !overlaps(x, &a->taken[k], a->iou);
    if (!ok) continue;
    a->taken[n_taken++] = *x;
    TN_TRY(keep(c, f, b, cls, a->idx[i]));
  }
  return TN_OK;
}

static tn_status threshold(tn_dyn_call *c, uint32_t k, float *out, bool *has) {
  *has = tn_dv_has(c, k);
  *out = 0;
  if (!*has) return TN_OK;
  tn_view v;
  TN_TRY(tn_dv_num(c, k, &v));
  *has = v.n > 0;
  if (*has) *out = (float)tn_view_f64(&v, 0);
  return TN_OK;
}

TN_DYN_OP(NMS) {
  nms a = {0};
  bool has;
  found f = {0};
  TN_TRY(tn_dv_num(c, 0, &a.boxes));
  TN_TRY(tn_dv_num(c, 1, &a.scores));
  const int64_t *bd = a.boxes.dim, *sd = a.scores.dim;
  if (a.boxes.rank != 3 || a.scores.rank != 3 || bd[2] != 4 || bd[0] != sd[0] || bd[1] != sd[2])
    return tn_dv_fail(c, TN_E_ARG, "boxes must be [batches, boxes, 4] and scores [batches, classes, boxes]; ranks are %d and %d", a.boxes.rank, a.scores.rank);
  if (tn_dv_has(c, 2)) TN_TRY(tn_dv_int1(c, 2, &a.most));
  TN_TRY(threshold(c, 3, &a.iou, &has));
  TN_TRY(threshold(c, 4, &a.least, &a.has_least));
  a.center = tn_da_int(c, "center_point_box", 0) != 0;
  a.n = a.boxes.n ? bd[1] : 0;
  a.s = TN_NEW(c->tmp, double, a.n + 1);
  a.idx = TN_NEW(c->tmp, int64_t, 2 * a.n + 2);
  a.all = TN_NEW(c->tmp, box, 2 * a.n + 2);
  if (!a.s || !a.idx || !a.all) return tn_dv_fail(c, TN_E_NOMEM, "%lld boxes", (long long)a.n);
  a.tmp = a.idx + a.n;
  a.taken = a.all + a.n;
  for (int64_t b = 0; a.n && a.most > 0 && b < bd[0]; b++) {
    for (int64_t i = 0; i < a.n; i++) a.all[i] = box_at(&a.boxes, b * a.n + i, a.center);
    for (int64_t k = 0; k < sd[1]; k++) TN_TRY(one_class(c, &a, b, k, sd[1], &f));
  }
  tn_made m;
  TN_TRY(tn_dv_new(c, TN_EL_I64, 2, (int64_t[]){(int64_t)(f.n / 3), 3}, &m, 0));
  if (f.n) memcpy(m.p, f.p, f.n * 8);
  return tn_dv_done(c, &m, 0);
}

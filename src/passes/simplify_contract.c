/* simplify_contract: rules on contractions and reductions. A contract names its dims by letters, so most views of its operands are other
 * letters: a permute reorders them, a stretched dim has none, a dim of size 1 goes away. Batch dims that a framework merged for its
 * batched matmul are taken apart again, so that the transposes around it become strides. */
#include "passes/simplify_int.h"
#include <math.h>
#include <string.h>

static tn_ref in(tn_sx *s, uint32_t id, uint32_t k) { return tn_sx_in(s, id, k); }
static uint32_t def(tn_sx *s, tn_ref r) { return tn_px_def(s->g, r); }
static bool made_by(tn_sx *s, tn_ref r, tn_op op) { return tn_px_op(s->g, r) == op; }
static tn_ref src(tn_sx *s, tn_ref r) { return tn_px_in(s->g, def(s, r), 0); }

typedef struct labels { char side[2][TN_MAX_RANK + 1], out[TN_MAX_RANK + 1]; } labels;
static bool read_labels(tn_sx *s, uint32_t id, labels *l) {
  const char *t = tn_attr_str(&s->g->node[id], "labels", NULL), *comma = t ? strchr(t, ',') : NULL, *arrow = comma ? strstr(comma, "->") : NULL;
  if (!arrow || comma - t > TN_MAX_RANK || arrow - comma - 1 > TN_MAX_RANK || strlen(arrow + 2) > TN_MAX_RANK) return false;
  memset(l, 0, sizeof *l);
  memcpy(l->side[0], t, (size_t)(comma - t));
  memcpy(l->side[1], comma + 1, (size_t)(arrow - comma - 1));
  strcpy(l->out, arrow + 2);
  return true;
}
static tn_ref build(tn_sx *s, const labels *l, tn_ref a, tn_ref b) {
  char text[3 * TN_MAX_RANK + 8];
  size_t n = 0;
  const char *const parts[5] = {l->side[0], ",", l->side[1], "->", l->out};
  for (int i = 0; i < 5; i++) {
    size_t k = strlen(parts[i]);
    memcpy(text + n, parts[i], k);
    n += k;
  }
  text[n] = 0;
  return tn_px_contract(&s->b, text, a, b);
}
static bool twice(const char *t) { /* a diagonal: some letter occurs twice in one operand */
  for (; *t; t++)
    if (strchr(t + 1, *t)) return true;
  return false;
}

tn_ref tn_rule_contract_permute(tn_sx *s, uint32_t id) {
  labels l;
  tn_ref r[2];
  bool any = false;
  if (!read_labels(s, id, &l)) return tn_sx_none();
  for (int k = 0; k < 2; k++) {
    tn_dim perm[TN_MAX_RANK];
    char old[TN_MAX_RANK + 1];
    r[k] = in(s, id, (uint32_t)k);
    if (!made_by(s, r[k], TN_OP_PERMUTE)) continue;
    int n = tn_attr_dims(&s->g->node[def(s, r[k])], "perm", perm, TN_MAX_RANK);
    memcpy(old, l.side[k], sizeof old);
    for (int i = 0; i < n; i++) l.side[k][perm[i]] = old[i];
    r[k] = src(s, r[k]);
    any = true;
  }
  return any ? build(s, &l, r[0], r[1]) : tn_sx_none();
}

/* Drops letters of operand k in `drop`; the value is reshaped to the rest. */
static tn_ref squeeze(tn_sx *s, labels *l, int k, tn_ref x, const bool *drop) {
  tn_dim dim[TN_MAX_RANK];
  const tn_type *t = tn_typeof(s->g, x);
  uint32_t n = 0;
  char *text = l->side[k];
  for (uint32_t i = 0; i < t->rank; i++) {
    if (drop[i]) continue;
    text[n] = text[i];
    dim[n++] = t->dim[i];
  }
  text[n] = 0;
  return tn_px_reshape(&s->b, x, n, dim);
}

tn_ref tn_rule_contract_bcast(tn_sx *s, uint32_t id) {
  labels l;
  if (!read_labels(s, id, &l) || twice(l.side[0]) || twice(l.side[1])) return tn_sx_none();
  for (int k = 0; k < 2; k++) {
    tn_ref r[2] = {in(s, id, 0), in(s, id, 1)};
    if (!made_by(s, r[k], TN_OP_BROADCAST)) continue;
    tn_ref x = src(s, r[k]);
    const tn_type *from = tn_typeof(s->g, x), *to = tn_typeof(s->g, r[k]);
    uint32_t lead = to->rank - from->rank;
    bool drop[TN_MAX_RANK] = {false};
    for (uint32_t i = 0; i < to->rank; i++) {
      bool stretched = i < lead || from->dim[i - lead] != to->dim[i];
      if (!stretched) continue;
      if (!strchr(l.side[1 - k], l.side[k][i])) return tn_sx_none(); /* its size is known from this operand only */
      if (i >= lead) drop[i - lead] = true;
    }
    memmove(l.side[k], l.side[k] + lead, from->rank + 1u);
    r[k] = squeeze(s, &l, k, x, drop);
    return r[k].id ? build(s, &l, r[0], r[1]) : r[k];
  }
  return tn_sx_none();
}

/* Letters for dims of size 1 go away: in both operands, or summed, or beside another letter that only this operand gives to the result. One
 * row or column letter stays on each side, and one summed letter, so that a product keeps the form that kernels know. */
static bool spare(const labels *l, int k, char c) {
  bool there = strchr(l->side[1 - k], c) != NULL, out = strchr(l->out, c) != NULL;
  if (there && out) return true;
  if (!there && !out) return true;
  for (const char *o = l->side[k]; *o; o++) {
    bool o_there = strchr(l->side[1 - k], *o) != NULL, o_out = strchr(l->out, *o) != NULL;
    if (*o != c && o_there == there && o_out == out) return true;
  }
  return false;
}
tn_ref tn_rule_contract_unit(tn_sx *s, uint32_t id) {
  labels l;
  if (!read_labels(s, id, &l) || twice(l.side[0]) || twice(l.side[1])) return tn_sx_none();
  const tn_type out = *tn_sx_out(s, id);
  for (int k = 0; k < 2; k++) {
    tn_ref r[2] = {in(s, id, 0), in(s, id, 1)};
    uint32_t rank = tn_typeof(s->g, r[k])->rank;
    for (uint32_t i = 0; i < rank; i++) {
      char c = l.side[k][i], *o;
      if (tn_typeof(s->g, r[k])->dim[i] != 1 || !spare(&l, k, c)) continue;
      for (int j = 0; j < 2; j++) {
        bool drop[TN_MAX_RANK] = {false};
        char *at = strchr(l.side[j], c);
        if (!at) continue;
        drop[at - l.side[j]] = true;
        r[j] = squeeze(s, &l, j, r[j], drop);
        if (!r[j].id) return r[j];
      }
      if ((o = strchr(l.out, c))) memmove(o, o + 1, strlen(o));
      tn_ref y = build(s, &l, r[0], r[1]);
      return y.id ? tn_px_reshape(&s->b, y, out.rank, out.dim) : y;
    }
  }
  return tn_sx_none();
}

static uint32_t without_ones(const tn_type *t, tn_dim *out) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < t->rank; i++)
    if (t->dim[i] != 1) out[n++] = t->dim[i];
  return n;
}
bool tn_sx_merges(tn_sx *s, const tn_type *from, const tn_type *to, uint32_t *start) {
  uint32_t k = 0;
  for (uint32_t i = 0; i < to->rank; i++) {
    start[i] = k;
    tn_dim p = 1;
    if (to->dim[i] == 1) continue;
    do {
      if (k == from->rank) return false;
      p = tn_dim_mul(s->g->dims, p, from->dim[k++]);
      if (p == TN_DIM_BAD) return false;
    } while (p != to->dim[i]);
  }
  start[to->rank] = k;
  return k == from->rank;
}
static char fresh(const labels *l, char after) {
  for (char c = after; c <= 'z'; c++)
    if (!strchr(l->side[0], c) && !strchr(l->side[1], c) && !strchr(l->out, c)) return c;
  return 0;
}
/* Splits letter c of operand text into `with`, dims of the type into `dims`. */
static bool expand(char *text, tn_dim *dim, char c, const char *with, const tn_dim *dims) {
  char *at = strchr(text, c);
  size_t n = strlen(with), len = strlen(text), pos;
  if (!at) return true;
  if (len + n - 1 > TN_MAX_RANK) return false;
  pos = (size_t)(at - text);
  memmove(text + pos + n, text + pos + 1, len - pos);
  memcpy(text + pos, with, n);
  memmove(dim + pos + n, dim + pos + 1, (len - pos - 1) * sizeof *dim);
  memcpy(dim + pos, dims, n * sizeof *dim);
  return true;
}
/* Worth it for a letter that both operands have, merged on both sides or read through strides that a merge can't say. */
static bool worth(tn_sx *s, tn_ref x, tn_ref other, bool shared) {
  bool moved = made_by(s, src(s, x), TN_OP_BROADCAST);
  if (moved) return true;
  return shared && (made_by(s, other, TN_OP_RESHAPE) || made_by(s, src(s, x), TN_OP_PERMUTE));
}
tn_ref tn_rule_contract_batch(tn_sx *s, uint32_t id) {
  labels l;
  if (!read_labels(s, id, &l) || twice(l.side[0]) || twice(l.side[1])) return tn_sx_none();
  for (int k = 0; k < 2; k++) {
    tn_ref r[2] = {in(s, id, 0), in(s, id, 1)};
    uint32_t start[TN_MAX_RANK + 1];
    if (!made_by(s, r[k], TN_OP_RESHAPE)) continue;
    const tn_type whole = *tn_typeof(s->g, src(s, r[k])), to = *tn_typeof(s->g, r[k]), out = *tn_sx_out(s, id);
    tn_dim kept[TN_MAX_RANK];
    const tn_type from = {.dtype = whole.dtype, .rank = (uint8_t)without_ones(&whole, kept), .dim = kept}; /* dims of 1 need no letter */
    if (!tn_sx_merges(s, &from, &to, start)) continue;
    for (uint32_t i = 0; i < to.rank; i++) {
      uint32_t n = start[i + 1] - start[i];
      char c = l.side[k][i], with[TN_MAX_RANK + 1] = {0};
      bool shared = strchr(l.side[1 - k], c) != NULL;
      if (n < 2 || !strchr(l.out, c) || !worth(s, r[k], r[1 - k], shared)) continue;
      labels m = l;
      tn_dim dim[3][TN_MAX_RANK];
      with[0] = c;
      for (uint32_t j = 1; j < n; j++)
        if (!(with[j] = fresh(&m, j == 1 ? 'a' : (char)(with[j - 1] + 1)))) return tn_sx_none();
      tn_sx_shape(s, r[0], dim[0]);
      tn_sx_shape(s, r[1], dim[1]);
      for (uint32_t j = 0; j < out.rank; j++) dim[2][j] = out.dim[j];
      if (!expand(m.side[0], dim[0], c, with, from.dim + start[i]) || !expand(m.side[1], dim[1], c, with, from.dim + start[i]) ||
          !expand(m.out, dim[2], c, with, from.dim + start[i])) return tn_sx_none();
      r[0] = tn_px_reshape(&s->b, r[0], (uint32_t)strlen(m.side[0]), dim[0]);
      r[1] = tn_px_reshape(&s->b, r[1], (uint32_t)strlen(m.side[1]), dim[1]);
      tn_ref y = s->b.st == TN_OK ? build(s, &m, r[0], r[1]) : tn_sx_none();
      return y.id ? tn_px_reshape(&s->b, y, out.rank, out.dim) : y;
    }
  }
  return tn_sx_none();
}

/* Operand k in the order of the result, 1 where it has no dim. */
static tn_ref laid_out(tn_sx *s, const labels *l, int k, tn_ref x) {
  int perm[TN_MAX_RANK] = {0}, n = 0;
  uint32_t rank = tn_typeof(s->g, x)->rank, n_out = (uint32_t)strlen(l->out);
  tn_dim dim[TN_MAX_RANK];
  for (uint32_t i = 0; i < n_out; i++) {
    const char *at = strchr(l->side[k], l->out[i]);
    if (at) perm[n++] = (int)(at - l->side[k]);
  }
  for (uint32_t i = 0; i < rank; i++) /* letters that are summed: size 1, at the end */
    if (!strchr(l->out, l->side[k][i])) perm[n++] = (int)i;
  if (n != (int)rank) return tn_sx_none();
  x = tn_px_permute(&s->b, x, perm);
  if (!x.id) return x;
  const tn_type *t = tn_typeof(s->g, x);
  uint32_t j = 0;
  for (uint32_t i = 0; i < n_out; i++) dim[i] = strchr(l->side[k], l->out[i]) ? t->dim[j++] : 1;
  return tn_px_reshape(&s->b, x, n_out, dim);
}
tn_ref tn_rule_contract_outer(tn_sx *s, uint32_t id) {
  labels l;
  if (!read_labels(s, id, &l) || twice(l.side[0]) || twice(l.side[1]) || twice(l.out)) return tn_sx_none();
  if (tn_sx_out(s, id)->dtype == TN_BOOL) return tn_sx_none();
  for (int k = 0; k < 2; k++) {
    const tn_type *t = tn_typeof(s->g, in(s, id, (uint32_t)k));
    for (uint32_t i = 0; i < t->rank; i++)
      if (!strchr(l.out, l.side[k][i]) && t->dim[i] != 1) return tn_sx_none();
  }
  tn_ref a = laid_out(s, &l, 0, in(s, id, 0)), b = a.id ? laid_out(s, &l, 1, in(s, id, 1)) : a;
  return a.id && b.id ? tn_sx_as_out(s, id, tn_px_2(&s->b, TN_OP_MUL, a, b)) : tn_sx_none();
}

/* ---- reductions ---- */
static bool combiner_of(tn_sx *s, uint32_t id, tn_combiner *c) {
  const char *t = tn_attr_str(&s->g->node[id], "combiner", "");
  return tn_combiner_find(t, strlen(t), c);
}
static tn_ref reduce(tn_sx *s, tn_ref x, const char *combiner, const tn_dim *dims, uint32_t n, bool keep) {
  tn_attr at[3] = {tn_mk_str("combiner", combiner), tn_mk_dims(s->g, "dims", dims, n), tn_mk_bool("keepdim", keep)};
  return tn_px_add(&s->b, TN_OP_REDUCE, &x, 1, at, 3);
}
tn_ref tn_rule_reduce_ones(tn_sx *s, uint32_t id) {
  tn_combiner c;
  tn_dim d[TN_MAX_RANK];
  tn_ref x = in(s, id, 0);
  const tn_type t = *tn_sx_out(s, id);
  int n = tn_attr_dims(&s->g->node[id], "dims", d, TN_MAX_RANK);
  if (n < 0 || !combiner_of(s, id, &c) || c == TN_C_ARGMAX || c == TN_C_ARGMIN || tn_typeof(s->g, x)->dtype != t.dtype) return tn_sx_none();
  for (int i = 0; i < n; i++)
    if (tn_typeof(s->g, x)->dim[d[i]] != 1) return tn_sx_none();
  return tn_px_reshape(&s->b, x, t.rank, t.dim);
}
tn_ref tn_rule_reduce_permute(tn_sx *s, uint32_t id) {
  tn_dim d[TN_MAX_RANK], perm[TN_MAX_RANK];
  tn_ref x = in(s, id, 0);
  tn_combiner c;
  if (!made_by(s, x, TN_OP_PERMUTE) || tn_sx_uses(s, x) > 1 || !combiner_of(s, id, &c) || c == TN_C_ARGMAX || c == TN_C_ARGMIN) return tn_sx_none();
  int n = tn_attr_dims(&s->g->node[id], "dims", d, TN_MAX_RANK), rank = tn_attr_dims(&s->g->node[def(s, x)], "perm", perm, TN_MAX_RANK);
  bool keep = tn_attr_bool(&s->g->node[id], "keepdim", false), cut[TN_MAX_RANK] = {false};
  int at[TN_MAX_RANK], order[TN_MAX_RANK], n_order = 0, k = 0;
  if (n < 0 || rank < 0) return tn_sx_none();
  for (int i = 0; i < n; i++) cut[d[i] = perm[d[i]]] = true;
  for (int i = 0; i < rank; i++) at[i] = cut[i] && !keep ? -1 : k++; /* where dim i of the source lands in its reduction */
  for (int i = 0; i < rank; i++)
    if (at[perm[i]] >= 0) order[n_order++] = at[perm[i]];
  tn_ref y = reduce(s, src(s, x), tn_attr_str(&s->g->node[id], "combiner", "sum"), d, (uint32_t)n, keep);
  return y.id ? tn_px_permute(&s->b, y, order) : y;
}
tn_ref tn_rule_reduce_unit(tn_sx *s, uint32_t id) {
  tn_combiner c;
  tn_dim d[TN_MAX_RANK], e[TN_MAX_RANK];
  int at[TN_MAX_RANK];
  uint32_t m = 0;
  tn_ref x = in(s, id, 0);
  if (!made_by(s, x, TN_OP_RESHAPE) || !combiner_of(s, id, &c)) return tn_sx_none();
  if (tn_typeof(s->g, src(s, x))->rank >= tn_typeof(s->g, x)->rank || !tn_px_unit_map(tn_typeof(s->g, src(s, x)), tn_typeof(s->g, x), at)) return tn_sx_none();
  const tn_type out = *tn_sx_out(s, id);
  int n = tn_attr_dims(&s->g->node[id], "dims", d, TN_MAX_RANK);
  for (int i = 0; i < n; i++)
    if (at[d[i]] >= 0) e[m++] = at[d[i]];
  if (m == 0) return tn_sx_none(); /* reduce-ones does this */
  tn_ref y = reduce(s, src(s, x), tn_attr_str(&s->g->node[id], "combiner", "sum"), e, m, tn_attr_bool(&s->g->node[id], "keepdim", false));
  return y.id ? tn_px_reshape(&s->b, y, out.rank, out.dim) : y;
}
/* A row max of -inf says that every element is; NaN makes both sides true for any, false for all; no elements give -inf. */
tn_ref tn_rule_any_finite(tn_sx *s, uint32_t id) {
  tn_combiner c;
  tn_dim d[TN_MAX_RANK];
  tn_ref x = in(s, id, 0);
  if (!combiner_of(s, id, &c) || !(c == TN_C_ANY ? made_by(s, x, TN_OP_NE) : c == TN_C_ALL && made_by(s, x, TN_OP_EQ))) return tn_sx_none();
  tn_ref v = tn_px_in(s->g, def(s, x), 0), bound = tn_px_in(s->g, def(s, x), 1);
  if (!tn_sx_float(s, v) || !tn_px_fill_is(s->g, bound, -INFINITY) || !tn_px_same_shape(tn_typeof(s->g, v), tn_typeof(s->g, x))) return tn_sx_none();
  int n = tn_attr_dims(&s->g->node[id], "dims", d, TN_MAX_RANK);
  if (n < 0) return tn_sx_none();
  tn_dtype t = (tn_dtype)tn_typeof(s->g, v)->dtype;
  tn_num inf = {.f = -INFINITY};
  tn_ref m = reduce(s, v, "max", d, (uint32_t)n, tn_attr_bool(&s->g->node[id], "keepdim", false));
  return m.id ? tn_px_2(&s->b, c == TN_C_ANY ? TN_OP_NE : TN_OP_EQ, m, tn_px_fill_of(&s->b, t, 0, NULL, inf)) : m;
}

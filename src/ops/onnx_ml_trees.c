/* onnx_ml_trees: TreeEnsemble and its two predecessors, all brought into the one form of DYN tree_ensemble (runtime/dyn_ml.c): nodes of all trees
 * in one array, children by number, leaves as ranges of (target, weight). What is done with the sums is arithmetic around it.
 *
 * The binary case of the classifier (all weights go to one class) follows onnx.reference. */
#include "onnx_ml.h"

typedef struct forest {
  int64_t *feature, *mode, *yes, *no, *missing, *member_lo, *root, *leaf_lo, *target;
  double *split, *member, *weight;
  uint32_t n_node, n_root, n_leaf, n_pair, n_member;
  bool sets;
} forest;

static void *room(tn_ox *c, size_t n, size_t size) {
  void *p = n < INT32_MAX ? tn_arena_alloc(c->b.g->arena, (n + 2) * size) : NULL;
  if (!p && c->b.st == TN_OK) c->b.st = tn_fail(c->b.d, TN_E_NOMEM, "%zu nodes of trees", n);
  return p;
}

static tn_status forest_room(tn_ox *c, forest *f, uint32_t nodes, uint32_t roots, uint32_t leaves, uint32_t pairs) {
  int64_t **ints[] = {&f->feature, &f->mode, &f->yes, &f->no, &f->missing, &f->member_lo};
  for (int i = 0; i < 6; i++) *ints[i] = room(c, nodes, sizeof(int64_t));
  f->split = room(c, nodes, sizeof(double));
  f->root = room(c, roots, sizeof(int64_t));
  f->leaf_lo = room(c, leaves, sizeof(int64_t));
  f->target = room(c, pairs, sizeof(int64_t));
  f->weight = room(c, pairs, sizeof(double));
  return c->b.st;
}

/* targets columns of f32 (or of x's type when it is double or half) from operand 0. */
static tn_ref ensemble(tn_ox *c, const forest *f, int64_t targets, int aggregate, int elem) {
  tn_ref x = tn_ox_in(c, 0);
  if (c->b.st != TN_OK) return x;
  if (tn_b_rank(&c->b, x) == 1) x = tn_b_unsq(&c->b, x, 0);
  if (tn_b_rank(&c->b, x) != 2) { tn_ox_bad(c, "wanted [N, F], found rank %d", tn_b_rank(&c->b, x)); return x; }
  if (targets < 1 || targets > INT32_MAX) { tn_ox_bad(c, "%lld targets", (long long)targets); return x; }
  tn_dim dim[2] = {tn_b_dim(&c->b, x, 0), targets};
  uint32_t n = 0;
  tn_attr a[16];
  int64_t *node = room(c, 4 * (size_t)f->n_node, sizeof *node);
  if (!node) return x;
  for (uint32_t i = 0; i < f->n_node; i++) {
    node[4 * i] = f->feature[i] * 16 + (f->missing[i] != 0) * 8 + f->mode[i];
    node[4 * i + 1] = f->yes[i];
    node[4 * i + 2] = f->no[i];
    memcpy(&node[4 * i + 3], &f->split[i], 8);
  }
  a[n++] = tn_mk_int("n_targets", targets);
  a[n++] = tn_mk_int("aggregate", aggregate);
  a[n++] = tn_mk_int("elem", elem);
  a[n++] = tn_ox_mk_ints(c, "roots", f->root, f->n_root);
  a[n++] = tn_ox_mk_ints(c, "node", node, 4 * f->n_node);
  a[n++] = tn_ox_mk_ints(c, "leaf_lo", f->leaf_lo, f->n_leaf + 1);
  a[n++] = tn_ox_mk_ints(c, "leaf_target", f->target, f->n_pair);
  a[n++] = tn_ox_mk_floats(c, "leaf_weight", f->weight, f->n_pair);
  if (f->sets) {
    a[n++] = tn_ox_mk_ints(c, "member_lo", f->member_lo, f->n_node + 1);
    a[n++] = tn_ox_mk_floats(c, "member", f->member, f->n_member);
  }
  tn_type t = tn_ox_type(c, (tn_dtype)tn_ox_dtype_of(elem), 2, dim);
  return tn_ox_dyn(c, "tree_ensemble", &x, 1, a, n, &t, 1);
}

/* Every way down ends: from each root, walked without recursion; a node met twice on the way in is a circle (or shared, which no tree has). */
static tn_status check_forest(tn_ox *c, const forest *f, int64_t targets) {
  int64_t *stack = room(c, f->n_node + f->n_root, sizeof *stack), n = 0;
  uint8_t *seen = room(c, f->n_node, 1);
  if (!stack || !seen) return c->b.st;
  for (uint32_t r = 0; r < f->n_root; r++) {
    if (f->root[r] >= 0) stack[n++] = f->root[r];
    while (n) {
      int64_t at = stack[--n];
      if (seen[at]++) return tn_ox_bad(c, "node %lld of the trees is reached twice", (long long)at);
      if (f->feature[at] < 0 || f->feature[at] > INT32_MAX) return tn_ox_bad(c, "node %lld looks at feature %lld", (long long)at, (long long)f->feature[at]);
      if (f->yes[at] >= 0) stack[n++] = f->yes[at];
      if (f->no[at] >= 0) stack[n++] = f->no[at];
    }
  }
  for (uint32_t k = 0; k < f->n_pair; k++)
    if (f->target[k] < 0 || f->target[k] >= targets) return tn_ox_bad(c, "a leaf adds to target %lld of %lld", (long long)f->target[k], (long long)targets);
  return TN_OK;
}

/* ---- TreeEnsemble (opset 5): nodes and leaves apart ---- */

static tn_status ints_of(tn_ox *c, const char *name, uint32_t want, const int64_t **out) {
  uint32_t n;
  *out = tn_ox_ints(c, name, &n);
  if (c->b.st == TN_OK && n != want) return tn_ox_bad(c, "%u of %s for %u nodes or leaves", n, name, want);
  return c->b.st;
}

static tn_status child(tn_ox *c, int64_t id, int64_t leaf, uint32_t nodes, uint32_t leaves, int64_t *out) {
  if (id < 0 || id >= (leaf ? leaves : nodes)) return tn_ox_bad(c, "a branch to %s %lld", leaf ? "leaf" : "node", (long long)id);
  *out = leaf ? -1 - id : id;
  return TN_OK;
}

/* Members of set nodes stand in the order of the nodes, each set ended by a NaN. */
static tn_status read_sets(tn_ox *c, forest *f) {
  const double *m = tn_ox_floats(c, "membership_values", &f->n_member);
  uint32_t at = 0;
  f->member = room(c, f->n_member, sizeof(double));
  if (c->b.st != TN_OK) return c->b.st;
  uint32_t n = 0;
  for (uint32_t i = 0; i < f->n_node; i++) {
    f->member_lo[i] = n;
    if (f->mode[i] != 6) continue;
    f->sets = true;
    while (at < f->n_member && !isnan(m[at])) f->member[n++] = m[at++];
    if (at++ >= f->n_member) return tn_ox_bad(c, "membership_values end before the set of node %u does", i);
  }
  f->member_lo[f->n_node] = f->n_member = n;
  return TN_OK;
}

static tn_status read_v5(tn_ox *c, forest *f) {
  tn_ox_list mode = tn_ox_list_attr(c, "nodes_modes");
  uint32_t n_split, n_leaf, n_root;
  const int64_t *feature, *yes, *no, *yes_leaf, *no_leaf, *target, *missing, *root = tn_ox_ints(c, "tree_roots", &n_root);
  const double *split = tn_ox_floats(c, "nodes_splits", &n_split), *weight = tn_ox_floats(c, "leaf_weights", &n_leaf);
  TN_TRY(ints_of(c, "nodes_featureids", n_split, &feature));
  TN_TRY(ints_of(c, "nodes_truenodeids", n_split, &yes));
  TN_TRY(ints_of(c, "nodes_falsenodeids", n_split, &no));
  TN_TRY(ints_of(c, "nodes_trueleafs", n_split, &yes_leaf));
  TN_TRY(ints_of(c, "nodes_falseleafs", n_split, &no_leaf));
  TN_TRY(ints_of(c, "leaf_targetids", n_leaf, &target));
  if (tn_ox_attr_get(c, "nodes_missing_value_tracks_true")) TN_TRY(ints_of(c, "nodes_missing_value_tracks_true", n_split, &missing));
  else missing = NULL;
  if (!mode.i || mode.n != n_split) return tn_ox_bad(c, "%u of nodes_modes for %u nodes", mode.n, n_split);
  TN_TRY(forest_room(c, f, n_split, n_root, n_leaf, n_leaf));
  f->n_node = n_split;
  f->n_root = n_root;
  f->n_leaf = f->n_pair = n_leaf;
  for (uint32_t i = 0; i < n_leaf; i++) { f->leaf_lo[i + 1] = i + 1; f->target[i] = target[i]; f->weight[i] = weight[i]; }
  for (uint32_t i = 0; i < n_split; i++) {
    if (mode.i[i] < 0 || mode.i[i] > 6) return tn_ox_bad(c, "node %u has mode %lld", i, (long long)mode.i[i]);
    f->feature[i] = feature[i];
    f->mode[i] = mode.i[i];
    f->split[i] = split[i];
    f->missing[i] = missing && missing[i];
    TN_TRY(child(c, yes[i], yes_leaf[i], n_split, n_leaf, &f->yes[i]));
    TN_TRY(child(c, no[i], no_leaf[i], n_split, n_leaf, &f->no[i]));
  }
  for (uint32_t r = 0; r < n_root; r++) {
    TN_TRY(child(c, root[r], 0, n_split, n_leaf, &f->root[r]));
    int64_t at = f->root[r];
    if (f->yes[at] < 0 && f->yes[at] == f->no[at]) f->root[r] = f->yes[at];       /* a tree that is one leaf is written like this */
  }
  return read_sets(c, f);
}

tn_status tn_ox_ml_tree_ensemble(tn_ox *c) {
  static const char *const post[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  forest f = {0};
  int64_t targets = tn_ox_int(c, "n_targets", 1), how = tn_ox_int(c, "aggregate_function", 1), after = tn_ox_int(c, "post_transform", 0);
  TN_TRY(read_v5(c, &f));
  if (how < 0 || how > 3 || after < 0 || after > 4) return tn_ox_bad(c, "aggregate_function %lld, post_transform %lld", (long long)how, (long long)after);
  TN_TRY(check_forest(c, &f, targets));
  tn_ref x = tn_ox_in(c, 0);
  if (c->b.st != TN_OK) return c->b.st;
  int elem = tn_ox_elem(c, x);
  tn_ref y = ensemble(c, &f, targets, (int)how, elem == 10 || elem == 11 ? elem : 1);
  return tn_ox_ret(c, 0, tn_ox_post(c, y, post[after]));
}

/* ---- opset 1 to 3: nodes named by (tree, node), leaves among them, weights by name in lists of their own ---- */

typedef struct named { const int64_t *tree, *node; } named;
static int name_cmp(const named *n, int64_t a, int64_t tree, int64_t node) {
  return n->tree[a] != tree ? (n->tree[a] < tree ? -1 : 1) : (n->node[a] > node) - (n->node[a] < node);
}
/* Numbers of all names in rising order; equal ones in theirs. */
static int64_t *by_name(tn_ox *c, const named *n, uint32_t count) {
  int64_t *idx = room(c, count, sizeof *idx), *tmp = room(c, count, sizeof *tmp);
  if (!idx || !tmp) return NULL;
  for (uint32_t i = 0; i < count; i++) idx[i] = i;
  for (int64_t w = 1; w < count; w *= 2) {
    for (int64_t lo = 0; lo < count; lo += 2 * w) {
      int64_t mid = lo + w < count ? lo + w : count, hi = lo + 2 * w < count ? lo + 2 * w : count, a = lo, b = mid;
      for (int64_t k = lo; k < hi; k++) tmp[k] = a < mid && (b >= hi || name_cmp(n, idx[a], n->tree[idx[b]], n->node[idx[b]]) <= 0) ? idx[a++] : idx[b++];
    }
    memcpy(idx, tmp, count * sizeof *idx);
  }
  return idx;
}
/* First place in idx whose name is not below (tree, node). */
static uint32_t place(const named *n, const int64_t *idx, uint32_t count, int64_t tree, int64_t node) {
  uint32_t lo = 0, hi = count;
  while (lo < hi) {
    uint32_t mid = lo + (hi - lo) / 2;
    if (name_cmp(n, idx[mid], tree, node) < 0) lo = mid + 1;
    else hi = mid;
  }
  return lo;
}

typedef struct old {
  named node, leaf;
  const int64_t *feature, *yes, *no, *missing, *target;
  const double *split, *weight;
  const tn_ox_str *mode;
  uint32_t n, n_leaf;
} old;

static tn_status read_old(tn_ox *c, const char *leaf, old *o) {
  char name[5][40];
  uint32_t n_split, n_w;
  static const char *const part[] = {"treeids", "nodeids", "ids", "weights"};
  for (int i = 0; i < 4; i++) snprintf(name[i], sizeof name[i], "%s_%s", leaf, part[i]);
  tn_ox_list mode = tn_ox_list_attr(c, "nodes_modes");
  o->node.tree = tn_ox_ints(c, "nodes_treeids", &o->n);
  TN_TRY(ints_of(c, "nodes_nodeids", o->n, &o->node.node));
  TN_TRY(ints_of(c, "nodes_featureids", o->n, &o->feature));
  TN_TRY(ints_of(c, "nodes_truenodeids", o->n, &o->yes));
  TN_TRY(ints_of(c, "nodes_falsenodeids", o->n, &o->no));
  if (tn_ox_attr_get(c, "nodes_missing_value_tracks_true")) TN_TRY(ints_of(c, "nodes_missing_value_tracks_true", o->n, &o->missing));
  o->split = tn_ox_floats(c, "nodes_values", &n_split);
  o->mode = mode.s;
  o->leaf.tree = tn_ox_ints(c, name[0], &o->n_leaf);
  TN_TRY(ints_of(c, name[1], o->n_leaf, &o->leaf.node));
  TN_TRY(ints_of(c, name[2], o->n_leaf, &o->target));
  o->weight = tn_ox_floats(c, name[3], &n_w);
  if (c->b.st != TN_OK) return c->b.st;
  if (!o->n || n_split != o->n || mode.n != o->n || !mode.s || n_w != o->n_leaf)
    return tn_ox_bad(c, "%u nodes, %u values, %u modes; %u leaf targets, %u weights", o->n, n_split, mode.n, o->n_leaf, n_w);
  return TN_OK;
}

static int mode_of(tn_ox_str s) {
  static const char *const mode[] = {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"};
  for (int i = 0; i < 6; i++)
    if (strlen(mode[i]) == s.n && !memcmp(mode[i], s.s, s.n)) return i;
  return s.n == 4 && !memcmp(s.s, "LEAF", 4) ? -1 : -2;
}

/* number[i]: number of node i in the forest, or -1 - leaf. */
static tn_status number_old(tn_ox *c, const old *o, int64_t *number, forest *f) {
  for (uint32_t i = 0; i < o->n; i++) {
    int m = mode_of(o->mode[i]);
    if (m < -1) return tn_ox_bad(c, "node %u has mode '%.20s'", i, o->mode[i].s);
    number[i] = m < 0 ? -1 - (int64_t)f->n_leaf++ : f->n_node++;
  }
  return TN_OK;
}

static tn_status old_child(tn_ox *c, const old *o, const int64_t *order, const int64_t *number, uint32_t i, int64_t id, int64_t *out) {
  uint32_t at = place(&o->node, order, o->n, o->node.tree[i], id);
  if (at >= o->n || name_cmp(&o->node, order[at], o->node.tree[i], id)) return tn_ox_bad(c, "tree %lld has no node %lld", (long long)o->node.tree[i], (long long)id);
  while (at + 1 < o->n && !name_cmp(&o->node, order[at + 1], o->node.tree[i], id)) at++;   /* of equal names the last */
  *out = number[order[at]];
  return TN_OK;
}

static tn_status convert_old(tn_ox *c, const old *o, forest *f) {
  int64_t *number = room(c, o->n, sizeof *number), *order = by_name(c, &o->node, o->n), *leaves = by_name(c, &o->leaf, o->n_leaf), *root_of = room(c, o->n, sizeof *root_of);
  uint32_t pair = 0, leaf = 0;
  if (c->b.st != TN_OK) return c->b.st;
  TN_TRY(forest_room(c, f, o->n, o->n, o->n, o->n_leaf));
  TN_TRY(number_old(c, o, number, f));
  for (uint32_t i = 0; i < o->n; i++) {
    if (number[i] >= 0) {
      int64_t k = number[i];
      f->feature[k] = o->feature[i];
      f->mode[k] = mode_of(o->mode[i]);
      f->split[k] = o->split[i];
      f->missing[k] = o->missing && o->missing[i] >= 1;
      TN_TRY(old_child(c, o, order, number, i, o->yes[i], &f->yes[k]));
      TN_TRY(old_child(c, o, order, number, i, o->no[i], &f->no[k]));
      continue;
    }
    for (uint32_t at = place(&o->leaf, leaves, o->n_leaf, o->node.tree[i], o->node.node[i]); at < o->n_leaf && !name_cmp(&o->leaf, leaves[at], o->node.tree[i], o->node.node[i]); at++) {
      if (pair >= o->n_leaf) return tn_ox_bad(c, "node %lld of tree %lld stands twice", (long long)o->node.node[i], (long long)o->node.tree[i]);
      f->target[pair] = o->target[leaves[at]];
      f->weight[pair++] = o->weight[leaves[at]];
    }
    f->leaf_lo[++leaf] = pair;
  }
  f->n_pair = pair;
  for (uint32_t k = 0; k < o->n; k++) {                       /* the root of a tree is its node that stands first */
    int64_t i = order[k], t = o->node.tree[i];
    bool starts = k == 0 || o->node.tree[order[k - 1]] != t;
    if (starts) root_of[f->n_root++] = i;
    else if (i < root_of[f->n_root - 1]) root_of[f->n_root - 1] = i;
  }
  for (uint32_t r = 0; r < f->n_root; r++) f->root[r] = number[root_of[r]];
  return TN_OK;
}

/* base_values: one per column, or one for all; only >= 0: y is that column alone. */
static tn_ref add_base(tn_ox *c, tn_ref y, int64_t columns, int64_t only) {
  uint32_t n;
  const double *b = tn_ox_floats(c, "base_values", &n);
  int64_t dim = n;
  if (!n || c->b.st != TN_OK) return y;
  if (n != 1 && n != columns) { tn_ox_bad(c, "%u base_values for %lld columns", n, (long long)columns); return y; }
  if (only >= 0) return tn_b_addn(&c->b, y, b[n == 1 ? 0 : only]);
  return tn_b_2(&c->b, TN_OP_ADD, y, tn_ox_const_f32(c, b, 1, &dim));
}

tn_status tn_ox_ml_tree_regressor(tn_ox *c) {
  static const char *const how[] = {"AVERAGE", "SUM", "MIN", "MAX"};
  const char *name = tn_ox_str_attr(c, "aggregate_function", "SUM");
  int64_t targets = tn_ox_int(c, "n_targets", 1);
  old o = {0};
  forest f = {0};
  int k = 0;
  TN_TRY(read_old(c, "target", &o));
  TN_TRY(convert_old(c, &o, &f));
  TN_TRY(check_forest(c, &f, targets));
  while (k < 4 && strcmp(how[k], name)) k++;
  if (k == 4) return tn_ox_bad(c, "aggregate_function '%.40s'", name);
  tn_ref y = add_base(c, ensemble(c, &f, targets, k, 1), targets, -1);
  return tn_ox_ret(c, 0, tn_ox_post(c, y, tn_ox_str_attr(c, "post_transform", "NONE")));
}

/* Two columns from the one that all weights go to. */
static tn_ref second_class(tn_ox *c, tn_ref s, const char *post) {
  bool complement = !strcmp(post, "NONE") || !strcmp(post, "PROBIT");
  tn_ref p = tn_b_slice(&c->b, s, 1, 0, 1, 1);
  tn_ref two[2] = {complement ? tn_b_2(&c->b, TN_OP_SUB, tn_b_num(&c->b, 1, TN_F32), p) : tn_b_1(&c->b, TN_OP_NEG, p), p};
  return tn_b_concat(&c->b, two, 2, 1);
}

tn_status tn_ox_ml_tree_classifier(tn_ox *c) {
  tn_ox_list labels = tn_ox_list_get(c, "classlabels");
  const char *post = tn_ox_str_attr(c, "post_transform", "NONE");
  old o = {0};
  forest f = {0};
  TN_TRY(read_old(c, "class", &o));
  TN_TRY(convert_old(c, &o, &f));
  if (!labels.n) return tn_ox_bad(c, "no class labels");
  TN_TRY(check_forest(c, &f, labels.n));
  bool binary = o.n_leaf > 0 && labels.n <= 2;
  for (uint32_t i = 1; i < o.n_leaf; i++) binary &= o.target[i] == o.target[0];
  if (labels.n == 1 && (!labels.i || labels.i[0] != 1)) return tn_ox_unsup(c, "a single class label other than 1");
  tn_ref s = ensemble(c, &f, labels.n, 1, 1);
  if (binary) s = tn_b_slice(&c->b, s, 1, o.target[0], 1, 1);
  s = add_base(c, s, labels.n, binary ? o.target[0] : -1);
  if (binary) s = second_class(c, s, post);
  s = tn_ox_post(c, s, post);
  tn_ref at = tn_b_reduce1(&c->b, TN_C_ARGMAX, s, 1, false);
  tn_ox_ret(c, 0, labels.n == 1 ? at : tn_ox_pick(c, &labels, NULL, at));
  return tn_ox_ret(c, 1, s);
}

/* What the tests of ONNX rows share: one node on given tensors, run by the reference kernels.
 *
 *   node n;
 *   node_open(&n, "Add", 14);
 *   node_in(&n, TN_F32, (int64_t[]){2}, 1, (float[]){1, 2});     operands, in order; node_const: known while compiling; node_skip: left out
 *   node_int(&n, "axis", 1);                                      attributes
 *   node_run(&n);                                                 builds, verifies, evaluates; results in n.out[]
 *   node_close(&n); */
#ifndef TN_ONNX_TEST_H
#define TN_ONNX_TEST_H
#include "ops_test.h"
#include "ops/onnx_int.h"

enum { NODE_MAX = 8 };
typedef struct node {
  tn_arena a;
  tn_dims *dims;
  tn_diag d;
  tn_unit unit;
  tn_ox_env env;
  tn_ox ox;
  uint32_t n_fresh, n_in, n_attr, n_given, n_out;
  tn_ref in[NODE_MAX], res[NODE_MAX];
  bool wanted[NODE_MAX];
  tn_ox_attr attr[NODE_MAX];
  int64_t shape[NODE_MAX][TN_MAX_RANK], out_shape[NODE_MAX][TN_MAX_RANK];
  tn_tensor given[NODE_MAX], out[NODE_MAX];
} node;

static inline void node_open(node *n, const char *op, int opset) {
  memset(n, 0, sizeof *n);
  tn_arena_init(&n->a);
  tn_diag_clear(&n->d);
  n->dims = tn_dims_create();
  n->unit.arena = &n->a;
  n->unit.dims = n->dims;
  assert_non_null(n->dims);
  assert_int_equal(tn_graph_create(&n->a, n->dims, "t", &n->env.g), TN_OK);
  n->env.unit = &n->unit;
  n->env.n_fresh = &n->n_fresh;
  n->ox.b.d = &n->d;
  n->ox.b.g = n->env.g;
  n->ox.e = &n->env;
  n->ox.op = op;
  n->ox.domain = "";
  n->ox.opset = opset;
  n->ox.name = "n";
  n->n_out = 1;
}
static inline void node_in(node *n, tn_dtype t, const int64_t *shape, int rank, const void *data) {
  uint32_t k = n->n_given++;
  tn_dim d[TN_MAX_RANK];
  char name[8];
  assert_true(n->n_in < NODE_MAX);
  for (int i = 0; i < rank; i++) d[i] = n->shape[k][i] = shape[i];
  snprintf(name, sizeof name, "x%u", k);
  n->given[k] = (tn_tensor){.data = (void *)(uintptr_t)data, .shape = n->shape[k], .rank = rank, .dtype = t};
  assert_int_equal(tn_graph_add_input(n->env.g, name, tn_type_make(n->env.g, t, (uint32_t)rank, d), TN_ORIGIN_INPUT, &n->in[n->n_in++]), TN_OK);
}
/* elem: ONNX number. */
static inline void node_const(node *n, int elem, const int64_t *shape, int rank, const void *data) {
  int64_t count = 1;
  for (int i = 0; i < rank; i++) count *= shape[i];
  tn_ox_const k = {.elem = (uint8_t)elem, .rank = (uint8_t)rank, .dim = shape, .data = data, .bytes = (size_t)count * tn_dtype_size((tn_dtype)tn_ox_dtype_of(elem))};
  assert_int_equal(tn_ox_add_const(&n->env, &n->d, &k, 0, &n->in[n->n_in++]), TN_OK);
}
static inline void node_skip(node *n) { n->n_in++; }
static inline void node_int(node *n, const char *name, int64_t v) {
  int64_t *p = TN_NEW(&n->a, int64_t, 1);
  *p = v;
  n->attr[n->n_attr++] = (tn_ox_attr){.name = name, .kind = TN_OX_INT, .n = 1, .u.i = p};
}
static inline void node_ints(node *n, const char *name, const int64_t *v, uint32_t count) {
  n->attr[n->n_attr++] = (tn_ox_attr){.name = name, .kind = TN_OX_INTS, .n = count, .u.i = v};
}
static inline void node_float(node *n, const char *name, float v) {
  float *p = TN_NEW(&n->a, float, 1);
  *p = v;
  n->attr[n->n_attr++] = (tn_ox_attr){.name = name, .kind = TN_OX_FLOAT, .n = 1, .u.f = p};
}
static inline void node_str(node *n, const char *name, const char *v) {
  tn_ox_str *p = TN_NEW(&n->a, tn_ox_str, 1);
  *p = (tn_ox_str){v, strlen(v)};
  n->attr[n->n_attr++] = (tn_ox_attr){.name = name, .kind = TN_OX_STR, .n = 1, .u.s = p};
}
/* Builds only. */
static inline tn_status node_build(node *n) {
  tn_ox *c = &n->ox;
  for (uint32_t k = 0; k < n->n_out; k++) n->wanted[k] = true;
  c->in = n->in;
  c->n_in = n->n_in;
  c->out = n->res;
  c->n_out = n->n_out;
  c->wanted = n->wanted;
  c->attr = n->attr;
  c->n_attr = n->n_attr;
  return tn_onnx_apply(c);
}
static inline void node_run(node *n) {
  if (node_build(n) != TN_OK) {
    print_error("%s: %s\n", n->ox.op, n->d.text);
    fail();
  }
  for (uint32_t k = 0; k < n->n_out; k++) {
    assert_int_equal(tn_graph_add_output(n->env.g, n->res[k]), TN_OK);
    n->out[k].shape = n->out_shape[k];
  }
  if (tn_ops_verify(&n->d, n->env.g) != TN_OK || tn_ops_eval_graph(&n->d, &n->a, n->env.g, n->given, n->out) != TN_OK) {
    print_error("%s: %s\n", n->ox.op, n->d.text);
    fail();
  }
}
static inline void node_close(node *n) {
  tn_arena_deinit(&n->a);
  tn_dims_destroy(n->dims);
}
static inline void node_refused(node *n, tn_status want, const char *piece) {
  tn_status s = node_build(n);
  assert_int_equal(s, want);
  HOLDS(n->d.text, piece);
  node_close(n);
}
/* Result k: shape and elements. */
static inline void node_shape(const node *n, uint32_t k, const int64_t *shape, int rank) {
  assert_int_equal(n->out[k].rank, rank);
  for (int i = 0; i < rank; i++) assert_int_equal(n->out[k].shape[i], shape[i]);
}
static inline void node_floats(const node *n, uint32_t k, const double *want, int count, double tol) {
  tn_dtype t = (tn_dtype)n->out[k].dtype;
  assert_true(tn_dtype_is_float(t));
  for (int i = 0; i < count; i++) {
    double v = tn_num_load(t, (const char *)n->out[k].data + (size_t)i * tn_dtype_size(t)).f;
    bool same = isnan(want[i]) ? isnan(v) : isinf(want[i]) ? v == want[i] : fabs(v - want[i]) <= tol * (1 + fabs(want[i]));
    if (!same) print_error("%s[%d] is %.9g, wants %.9g\n", n->ox.op, i, v, want[i]);
    assert_true(same);
  }
}
static inline void node_whole(const node *n, uint32_t k, const int64_t *want, int count) {
  tn_dtype t = (tn_dtype)n->out[k].dtype;
  assert_false(tn_dtype_is_float(t));
  for (int i = 0; i < count; i++) {
    int64_t v = tn_num_load(t, (const char *)n->out[k].data + (size_t)i * tn_dtype_size(t)).i;
    if (v != want[i]) print_error("%s[%d] is %lld, wants %lld\n", n->ox.op, i, (long long)v, (long long)want[i]);
    assert_true(v == want[i]);
  }
}
#define D(...) (const int64_t[]){__VA_ARGS__}
#define F(...) (const float[]){__VA_ARGS__}
#endif

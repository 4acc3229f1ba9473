/* Evaluation of graphs: values by hand, inputs with strides, symbols bound from shapes, and what must fail at run time.
 * The kernels themselves are compared with PyTorch in tests/kernels. */
#include "ops_test.h"

/* A float input of up to 3 dims. */
typedef struct arg {
  tn_dtype t;
  int rank;
  int64_t shape[3], strides[3];
  bool strided;
  const void *data;
} arg;

static tn_status eval(world *w, const char *text, const arg *a, int n, tn_tensor *out, tn_tensor *mutated) {
  tn_tensor in[4];
  world_open(w, text);
  for (int i = 0; i < n; i++)
    in[i] = (tn_tensor){(void *)(uintptr_t)a[i].data, a[i].shape, a[i].strided ? a[i].strides : NULL, a[i].rank, (int32_t)a[i].t};
  tn_status s = tn_ops_verify(&w->d, w->g);
  if (s == TN_OK) s = tn_ops_eval_mutating(&w->d, &w->a, w->g, in, out, mutated);
  return s;
}
static void good(world *w, const char *text, const arg *a, int n, tn_tensor *out, tn_tensor *mutated) {
  tn_status s = eval(w, text, a, n, out, mutated);
  if (s != TN_OK) print_error("%s: %s\n", tn_status_name(s), w->d.text);
  assert_int_equal(s, TN_OK);
}
static void bad(const char *text, const arg *a, int n, tn_status want, const char *piece) {
  world w;
  tn_tensor out[4];
  tn_status s = eval(&w, text, a, n, out, NULL);
  if (s != want) print_error("%s: %s\n%s\n", tn_status_name(s), w.d.text, text);
  assert_int_equal(s, want);
  HOLDS(w.d.text, piece);
  world_close(&w);
}
static const float six[] = {1, 2, 3, 4, 5, 6};
static const arg x23 = {TN_F32, 2, {2, 3}, {0}, false, six}, x6 = {TN_F32, 1, {6}, {0}, false, six};
static void floats(const tn_tensor *t, const float *want, int n) {
  assert_int_equal(tn_dtype_size((tn_dtype)t->dtype), 4);
  for (int i = 0; i < n; i++) assert_true(((const float *)t->data)[i] == want[i]);
}

static void test_values(void **state) {
  world w;
  tn_tensor out[8];
  (void)state;
  /* every kind of output; a value used twice, an input and a constant handed out as they are */
  good(&w,
       "graph @t(%x: f32[s0,3]) -> (f32[s0,1], f32[s0,1], f32[s0,3], f32[2], dim, none) {\n"
       "  %c: f32[2] = const {data=\"0000803f00000040\"}\n"
       "  %0: f32[s0,1] = reduce %x {combiner=\"sum\", dims=[1], keepdim=true}\n"
       "  return %0, %0, %x, %c, dim s0*3, none\n}\n",
       &x23, 1, out, NULL);
  floats(&out[0], (float[]){6, 15}, 2);
  floats(&out[1], (float[]){6, 15}, 2);
  assert_ptr_not_equal(out[0].data, out[1].data);
  floats(&out[2], six, 6);
  assert_ptr_not_equal(out[2].data, six);
  floats(&out[3], (float[]){1, 2}, 2);
  assert_int_equal(out[0].shape[0], 2);
  assert_int_equal(out[0].shape[1], 1);
  assert_int_equal(*(int64_t *)out[4].data, 6);
  assert_int_equal(out[4].rank, 0);
  assert_null(out[5].data);
  world_close(&w);
}
static void test_strides(void **state) {
  const arg transposed = {TN_F32, 2, {3, 2}, {1, 3}, true, six}, reversed = {TN_F32, 1, {6}, {-1}, true, six + 5},
            stretched = {TN_F32, 2, {2, 2}, {0, 1}, true, six}, dense = {TN_F32, 2, {1, 6}, {77, 1}, true, six};
  const float a[] = {1, 4, 2, 5, 3, 6}, b[] = {6, 5, 4, 3, 2, 1}, c[] = {1, 2, 1, 2};
  world w;
  tn_tensor out[1];
  (void)state;
  const char *text = "graph @t(%x: f32[s0,s1]) -> (f32[s0,s1]) {\n %0: f32[s0,s1] = copy %x\n return %0\n}\n";
  good(&w, text, &transposed, 1, out, NULL);
  floats(out, a, 6);
  world_close(&w);
  good(&w, text, &stretched, 1, out, NULL);
  floats(out, c, 4);
  world_close(&w);
  good(&w, text, &dense, 1, out, NULL);
  floats(out, six, 6);
  world_close(&w);
  good(&w, "graph @t(%x: f32[s0]) -> (f32[s0]) {\n %0: f32[s0] = copy %x\n return %0\n}\n", &reversed, 1, out, NULL);
  floats(out, b, 6);
  world_close(&w);
}
static void test_mutation(void **state) {
  world w;
  tn_tensor out[1], now[1];
  float mine[6];
  (void)state;
  memcpy(mine, six, sizeof mine);
  arg x = x6;
  x.data = mine;
  const char *text = "graph @t(%x: f32[6] input mutated) -> (f32[6]) {\n %0: f32[6] = neg %x\n mutate %x = %0\n return %x\n}\n";
  good(&w, text, &x, 1, out, now);
  floats(&now[0], (float[]){-1, -2, -3, -4, -5, -6}, 6);
  floats(&out[0], six, 6);
  assert_memory_equal(mine, six, sizeof mine); /* inputs are never written */
  world_close(&w);
  good(&w, text, &x, 1, out, NULL);
  world_close(&w);
}
/* Bodies in bodies, two results, dims shared with the graph around. */
static void test_fused(void **state) {
  world w;
  tn_tensor out[2];
  (void)state;
  good(&w,
       "graph @t(%x: f32[s0,3]) -> (f32[s0,3], f32[s0]) {\n"
       "  %0: f32[s0,3], %1: f32[s0] = fused %x {kind=\"k\"} {\n    (%a: f32[s0,3])\n"
       "    %b: f32[s0,3] = fused %a {kind=\"k\"} {\n      (%p: f32[s0,3])\n      %q: f32[s0,3] = mul %p, %p\n      yield %q\n    }\n"
       "    %c: f32[s0] = reduce %b {combiner=\"max\", dims=[1]}\n    yield %b, %c\n  }\n  return %0, %1\n}\n",
       &x23, 1, out, NULL);
  floats(&out[0], (float[]){1, 4, 9, 16, 25, 36}, 6);
  floats(&out[1], (float[]){9, 36}, 2);
  world_close(&w);
}
static void test_symbolic_attributes(void **state) {
  world w;
  tn_tensor out[2];
  (void)state;
  good(&w,
       "graph @t(%x: f32[s0]) -> (f32[s0 + 1], i64[s0 - 1]) {\n"
       "  %p: f32[s0 + 2] = pad %x {lo=[1], hi=[1], value=-1}\n"
       "  %0: f32[s0 + 1] = slice %p {dim=0, start=[1], size=[s0 + 1], step=1}\n"
       "  %1: i64[s0 - 1] = iota {size=[s0 - 1], start=s0, step=1 - s0, dtype=i64}\n  return %0, %1\n}\n",
       &x6, 1, out, NULL);
  floats(&out[0], (float[]){1, 2, 3, 4, 5, 6, -1}, 7);
  assert_int_equal(((int64_t *)out[1].data)[0], 6);
  assert_int_equal(((int64_t *)out[1].data)[4], -14);
  world_close(&w);
}

/* What shape rules had to leave open. */
static void test_runtime_checks(void **state) {
  static const int64_t two[] = {0, 0}, far[] = {7};
  const arg i2 = {TN_I64, 1, {2}, {0}, false, two}, i1 = {TN_I64, 1, {1}, {0}, false, far};
  (void)state;
  bad("graph @t(%x: f32[s0]) -> (f32[floordiv(s0, 4),4]) {\n %0: f32[floordiv(s0, 4),4] = reshape %x {shape=[floordiv(s0, 4), 4]}\n return "
      "%0\n}\n",
      &x6, 1, TN_E_ARG, "reshape: 6 elements into 4; while evaluating %2 (reshape); while evaluating graph 't'");
  bad("graph @t(%x: f32[s0], %y: f32[s1,s2]) {\n %0: f32[s1] = slice %x {dim=0, start=[s2], size=[s1], step=2}\n return\n}\n",
      (arg[]){x6, x23}, 2, TN_OK, "");
  bad("graph @t(%x: f32[s0], %y: f32[s1,s2]) {\n %0: f32[s2] = slice %x {dim=0, start=[s1], size=[s2], step=2}\n return\n}\n",
      (arg[]){x6, x23}, 2, TN_E_ARG, "slice: start 2, size 3, step 2 of 6 elements");
  bad("graph @t(%x: f32[s0,s1], %y: f32[s2]) {\n %0: f32[s2,s1], %1: i64[s2,s1] = topk %x {k=[s2], dim=0}\n return\n}\n", (arg[]){x23, x6},
      2, TN_E_ARG, "topk: k is 6, dim 0 has 2");
  bad("graph @t(%x: f32[s0,s1], %i: i64[s2]) {\n %0: f32[s2,s1] = take %x, %i {dim=0}\n return\n}\n", (arg[]){x23, i1}, 2, TN_E_INDEX,
      "take: index out of range");
  bad("graph @t(%x: f32[s0], %i: i64[s1]) {\n %0: f32[s1] = gather %x, %i {dim=0}\n return\n}\n", (arg[]){x6, i1}, 2, TN_E_INDEX,
      "gather: index out of range");
  bad("graph @t(%x: f32[s0,3], %i: i64[s1]) {\n %0: i64[s1,1] = reshape %i {shape=[s1, 1]}\n %1: i64[s1,4] = broadcast %0 {shape=[s1, 4]}\n"
      " %2: i64[4,s1] = permute %1 {perm=[1, 0]}\n %3: f32[4,s1] = gather %x, %2 {dim=1}\n return\n}\n",
      (arg[]){x23, i2}, 2, TN_E_ARG, "gather: index dim 0 is 4, operand has 2");
  bad("graph @t(%x: f32[s0,3], %i: i64[s1]) {\n %0: i64[s1,1] = reshape %i {shape=[s1, 1]}\n %1: i64[s1,4] = broadcast %0 {shape=[s1, 4]}\n"
      " %2: i64[4,s1] = permute %1 {perm=[1, 0]}\n %3: f32[s0,3] = scatter %x, %2, %x {dim=1, combiner=\"set\"}\n return\n}\n",
      (arg[]){x23, i2}, 2, TN_E_ARG, "scatter: index dim 0 is 4, source has 2, operand 2");
  bad("graph @t(%x: f32[s0]) {\n %0: f32[s0 - 7] = full {shape=[s0 - 7], value=0, dtype=f32}\n return\n}\n", &x6, 1, TN_E_ARG,
      "dim s0 - 7 has no value or a negative one");
  bad("graph @t(%x: f32[s0]) {\n %0: f32[s9] = full {shape=[s9], value=0, dtype=f32}\n return\n}\n", &x6, 1, TN_E_ARG,
      "dim s9 has no value");
  bad("graph @t(%x: f32[6]) {\n %0: f64[4611686018427387904,2] = full {shape=[4611686018427387904, 2], value=0, dtype=f64}\n return\n}\n",
      &x6, 1, TN_E_ARG, "does not fit memory");
  bad("graph @t(%x: f32[6]) {\n %0: f32[6] = call aten.relu.default %x\n return\n}\n", &x6, 1, TN_E_UNSUPPORTED,
      "aten.relu.default has no reference kernel");
  bad("graph @t(%x: f32[6]) {\n %0: f32[6] = opaque my.op %x {reason=\"r\"}\n return\n}\n", &x6, 1, TN_E_UNSUPPORTED,
      "my.op belongs to the framework");
}

static void test_binding(void **state) {
  static const int64_t five[] = {5};
  const arg n5 = {TN_I64, 0, {0}, {0}, false, five}, h6 = {TN_F16, 1, {6}, {0}, false, six};
  world w;
  tn_tensor out[2];
  (void)state;
#define ON(inputs) "graph @t(" inputs ") {\n return\n}\n"
#define RANGED(inputs, range) "graph @t(" inputs ") {\n sym " range "\n return\n}\n"
  bad(ON("%x: f32[s0,3]"), &x23, 1, TN_OK, "");
  bad(ON("%x: f32[s0,4]"), &x23, 1, TN_E_ARG, "input 0 (%x): got 3 where the graph has 4; while evaluating graph 't'");
  bad(ON("%x: f32[s0,s0]"), &x23, 1, TN_E_ARG, "got 3 where the graph has s0, which another dim has set otherwise");
  bad(RANGED("%x: f32[s0,3]", "s0 in [3, 9]"), &x23, 1, TN_E_ARG, "got 2 where the graph has s0, out of its range");
  bad(RANGED("%x: f32[s0,3]", "s0 in [2, 9]"), &x23, 1, TN_OK, "");
  bad(ON("%x: f32[s0]"), &x23, 1, TN_E_ARG, "input 0 (%x) is f32 of rank 2, wants f32 of rank 1");
  bad(ON("%x: f32[s0]"), &h6, 1, TN_E_ARG, "is f16 of rank 1, wants f32 of rank 1");
  bad(ON("%x: f32[2*s0]"), &x6, 1, TN_OK, "");
  bad(ON("%x: f32[4*s0]"), &x6, 1, TN_E_ARG, "got 6 where the graph has 4*s0, which can't be solved for its symbol");
  bad(ON("%x: f32[s0*s1]"), &x6, 1, TN_E_ARG, "which has no value yet");
  bad(ON("%x: f32[floordiv(s0, 2)]"), &x6, 1, TN_E_ARG, "can't be solved");
  bad(ON("%x: f32[s0 + 1], %y: f32[s0,3]"), (arg[]){x6, x23}, 2, TN_E_ARG, "got 6 where the graph has s0 + 1");
  bad(RANGED("%x: f32[s0 + 1]", "s0 in [2, 4]"), &x6, 1, TN_E_ARG, "got 5 where the graph has s0, out of its range");
  bad(ON("%x: f32[s0], %n: i64[] sym(s0)"), (arg[]){x6, n5}, 2, TN_E_ARG, "input 1 (%n): got 5 where the graph has s0");
  good(&w,
       "graph @t(%y: f32[2*s1 + 2], %n: i64[] sym(s0)) -> (i64[s0,s1], dim) {\n %0: i64[s0,s1] = full {shape=[s0, s1], value=s0, "
       "dtype=i64}\n return %0, dim s1\n}\n",
       (arg[]){x6, n5}, 2, out, NULL);
  assert_int_equal(out[0].shape[0], 5);
  assert_int_equal(out[0].shape[1], 2);
  assert_int_equal(((int64_t *)out[0].data)[9], 5);
  assert_int_equal(*(int64_t *)out[1].data, 2);
  world_close(&w);
}

/* One node with values of symbols at hand. */
static void test_eval_node(void **state) {
  world w;
  int32_t got[3];
  const int64_t sym[1] = {3}, shape[1] = {3};
  (void)state;
  world_open(&w, "graph @t() {\n %0: i32[s0] = iota {size=[s0], start=4, step=-2, dtype=i32}\n return\n}\n");
  tn_tensor out = {got, shape, NULL, 1, TN_I32};
  assert_int_equal(tn_ops_eval_node(&w.d, w.g, first_node(w.g), sym, NULL, &out), TN_OK);
  assert_int_equal(got[0], 4);
  assert_int_equal(got[2], 0);
  world_close(&w);
  world_open(&w, "graph @t() {\n %0: i32[2] = const {data=\"0100000002000000\"}\n return\n}\n");
  out.shape = (const int64_t[]){2};
  assert_int_equal(tn_ops_eval_node(&w.d, w.g, first_node(w.g), NULL, NULL, &out), TN_OK);
  assert_int_equal(got[1], 2);
  out.shape = shape;
  assert_int_equal(tn_ops_eval_node(&w.d, w.g, first_node(w.g), NULL, NULL, &out), TN_E_ARG);
  world_close(&w);
  world_open(&w, "graph @t(%x: f32[]) {\n return\n}\n");
  assert_int_equal(tn_ops_eval_node(&w.d, w.g, &w.g->node[1], NULL, NULL, &out), TN_E_INTERNAL);
  world_close(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_values),
                                     cmocka_unit_test(test_strides),
                                     cmocka_unit_test(test_mutation),
                                     cmocka_unit_test(test_fused),
                                     cmocka_unit_test(test_symbolic_attributes),
                                     cmocka_unit_test(test_runtime_checks),
                                     cmocka_unit_test(test_binding),
                                     cmocka_unit_test(test_eval_node)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

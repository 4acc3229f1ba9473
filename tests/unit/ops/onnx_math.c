/* Rows of onnx_math.c, onnx_reduce.c, onnx_contract.c: what differs between opsets, empty reductions, types. Values by hand or from NumPy. */
#include "onnx_test.h"

static void test_old_broadcast(void **state) {
  (void)state;
  node n;
  node_open(&n, "Add", 6);                           /* b along axis 0 of a */
  node_in(&n, TN_F32, D(2, 3), 2, F(1, 2, 3, 4, 5, 6));
  node_in(&n, TN_F32, D(2), 1, F(10, 20));
  node_int(&n, "broadcast", 1);
  node_int(&n, "axis", 0);
  node_run(&n);
  node_floats(&n, 0, (double[]){11, 12, 13, 24, 25, 26}, 6, 0);
  node_close(&n);
  node_open(&n, "Mul", 14);
  node_in(&n, TN_I32, D(2, 2), 2, (int32_t[]){1, 2, 3, 4});
  node_in(&n, TN_I32, D(2), 1, (int32_t[]){10, 20});
  node_run(&n);
  node_whole(&n, 0, (int64_t[]){10, 40, 30, 80}, 4);
  node_close(&n);
  node_open(&n, "Add", 14);
  node_in(&n, TN_I32, D(1), 1, (int32_t[]){1});
  node_in(&n, TN_F32, D(1), 1, F(1));
  node_refused(&n, TN_E_ARG, "operands are i32 and f32");
}

static void test_integers(void **state) {
  (void)state;
  node n;
  node_open(&n, "Div", 14);                          /* towards zero */
  node_in(&n, TN_I32, D(4), 1, (int32_t[]){7, -7, 7, -7});
  node_in(&n, TN_I32, D(4), 1, (int32_t[]){2, 2, -2, -2});
  node_run(&n);
  node_whole(&n, 0, (int64_t[]){3, -3, -3, 3}, 4);
  node_close(&n);
  for (int fmod = 0; fmod < 2; fmod++) {
    node_open(&n, "Mod", 13);
    node_in(&n, TN_I64, D(3), 1, (int64_t[]){-4, 7, 5});
    node_in(&n, TN_I64, D(3), 1, (int64_t[]){2, -3, 8});
    node_int(&n, "fmod", fmod);
    node_run(&n);
    node_whole(&n, 0, fmod ? (int64_t[]){0, 1, 5} : (int64_t[]){0, -2, 5}, 3);
    node_close(&n);
  }
  static const char *const dividing[] = {"Div", "Mod"};
  for (int k = 0; k < 2; k++) {
    node_open(&n, dividing[k], 14);
    node_in(&n, TN_I64, D(3), 1, (int64_t[]){-4, 7, 5});
    node_in(&n, TN_I64, D(3), 1, (int64_t[]){2, 0, 8});
    assert_int_equal(node_build(&n), TN_OK);
    assert_int_equal(tn_graph_add_output(n.env.g, n.res[0]), TN_OK);
    n.out[0].shape = n.out_shape[0];
    assert_int_equal(tn_ops_eval_graph(&n.d, &n.a, n.env.g, n.given, n.out), TN_E_ZERO);
    node_close(&n);
  }
  node_open(&n, "Pow", 15);                          /* the base's type, an exponent of another */
  node_in(&n, TN_I32, D(3), 1, (int32_t[]){1, 2, 3});
  node_in(&n, TN_F32, D(3), 1, F(4, 5, 0.5f));
  node_run(&n);
  node_whole(&n, 0, (int64_t[]){1, 32, 1}, 3);
  node_close(&n);
  node_open(&n, "BitShift", 11);
  node_in(&n, TN_U8, D(3), 1, (uint8_t[]){16, 255, 1});
  node_in(&n, TN_U8, D(3), 1, (uint8_t[]){1, 9, 0});
  node_str(&n, "direction", "RIGHT");
  node_run(&n);
  node_whole(&n, 0, (int64_t[]){8, 0, 1}, 3);
  node_close(&n);
}

static void test_activations(void **state) {
  (void)state;
  node n;
  node_open(&n, "Clip", 6);
  node_in(&n, TN_F32, D(3), 1, F(-3, 0, 3));
  node_float(&n, "max", 1);
  node_run(&n);
  node_floats(&n, 0, (double[]){-3, 0, 1}, 3, 0);
  node_close(&n);
  node_open(&n, "Clip", 13);                         /* crossed bounds: the upper one; no lower bound left out */
  node_in(&n, TN_I8, D(3), 1, (int8_t[]){-3, 0, 3});
  node_in(&n, TN_I8, NULL, 0, (int8_t[]){2});
  node_in(&n, TN_I8, NULL, 0, (int8_t[]){1});
  node_run(&n);
  node_whole(&n, 0, (int64_t[]){1, 1, 1}, 3);
  node_close(&n);
  node_open(&n, "PRelu", 6);                         /* one slope per channel */
  node_in(&n, TN_F32, D(1, 2, 2), 3, F(-1, 1, -1, -2));
  node_in(&n, TN_F32, D(2), 1, F(0.5f, 10));
  node_run(&n);
  node_floats(&n, 0, (double[]){-0.5, 1, -10, -20}, 4, 1e-6);
  node_close(&n);
  node_open(&n, "PRelu", 9);                         /* broadcast like numpy */
  node_in(&n, TN_F32, D(1, 2, 2), 3, F(-1, 1, -1, -2));
  node_in(&n, TN_F32, D(2), 1, F(0.5f, 10));
  node_run(&n);
  node_floats(&n, 0, (double[]){-0.5, 1, -0.5, -20}, 4, 1e-6);
  node_close(&n);
  node_open(&n, "IsInf", 20);
  node_in(&n, TN_F32, D(3), 1, F(INFINITY, -INFINITY, NAN));
  node_int(&n, "detect_negative", 0);
  node_run(&n);
  node_whole(&n, 0, (int64_t[]){1, 0, 0}, 3);
  node_close(&n);
  node_open(&n, "Gelu", 20);
  node_in(&n, TN_F32, D(2), 1, F(-1, 2));
  node_run(&n);
  node_floats(&n, 0, (double[]){-0.15865525, 1.95449974}, 2, 1e-6);
  node_close(&n);
  node_open(&n, "Shrink", 9);
  node_in(&n, TN_I32, D(3), 1, (int32_t[]){-3, 1, 3});
  node_float(&n, "lambd", 1.5f);
  node_float(&n, "bias", 1.5f);
  node_run(&n);
  node_whole(&n, 0, (int64_t[]){-1, 0, 1}, 3);
  node_close(&n);
}

static void test_softmax(void **state) {
  (void)state;
  static const float x[4] = {0, 0.69314718f, 0, 1.09861229f};        /* exp: 1 2 | 1 3 */
  node n;
  node_open(&n, "Softmax", 13);
  node_in(&n, TN_F32, D(1, 2, 2), 3, x);
  node_run(&n);
  node_floats(&n, 0, (double[]){1. / 3, 2. / 3, 0.25, 0.75}, 4, 1e-6);
  node_close(&n);
  node_open(&n, "Softmax", 11);                      /* over dims 1 and 2 together */
  node_in(&n, TN_F32, D(1, 2, 2), 3, x);
  node_run(&n);
  node_floats(&n, 0, (double[]){1. / 7, 2. / 7, 1. / 7, 3. / 7}, 4, 1e-6);
  node_close(&n);
  node_open(&n, "Hardmax", 11);
  node_in(&n, TN_F32, D(1, 2, 2), 3, F(0, 5, 5, 1));
  node_run(&n);
  node_floats(&n, 0, (double[]){0, 1, 0, 0}, 4, 0);
  node_close(&n);
}

static void reduce_empty(const char *op, double want) {
  node n;
  node_open(&n, op, 20);
  node_in(&n, TN_F32, D(2, 0, 2), 3, F(0));
  node_const(&n, 7, D(1), 1, (int64_t[]){1});
  node_run(&n);
  node_shape(&n, 0, D(2, 1, 2), 3);
  node_floats(&n, 0, (double[]){want, want, want, want}, 4, 0);
  node_close(&n);
}
static void test_reduce(void **state) {
  (void)state;
  node n;
  reduce_empty("ReduceSum", 0);
  reduce_empty("ReduceProd", 1);
  reduce_empty("ReduceMax", -INFINITY);
  reduce_empty("ReduceMin", INFINITY);
  reduce_empty("ReduceL2", 0);
  reduce_empty("ReduceLogSum", -INFINITY);
  reduce_empty("ReduceLogSumExp", -INFINITY);
  node_open(&n, "ReduceMean", 13);                   /* axes are an attribute until 17 */
  node_in(&n, TN_F32, D(2, 2), 2, F(1, 2, 3, 4));
  node_ints(&n, "axes", (int64_t[]){-1}, 1);
  node_int(&n, "keepdims", 0);
  node_run(&n);
  node_shape(&n, 0, D(2), 1);
  node_floats(&n, 0, (double[]){1.5, 3.5}, 2, 0);
  node_close(&n);
  node_open(&n, "ReduceSumSquare", 18);              /* no axes: nothing is reduced, but each element is squared */
  node_in(&n, TN_I32, D(2), 1, (int32_t[]){3, -4});
  node_int(&n, "noop_with_empty_axes", 1);
  node_run(&n);
  node_whole(&n, 0, (int64_t[]){9, 16}, 2);
  node_close(&n);
  node_open(&n, "ReduceMax", 20);
  node_in(&n, TN_BOOL, D(2, 2), 2, (bool[]){true, false, false, false});
  node_const(&n, 7, D(1), 1, (int64_t[]){1});
  node_run(&n);
  node_whole(&n, 0, (int64_t[]){1, 0}, 2);
  node_close(&n);
  node_open(&n, "ReduceMean", 18);                   /* int8: summed in its type, divided towards zero */
  node_in(&n, TN_I8, D(3), 1, (int8_t[]){-1, -2, -2});
  node_run(&n);
  node_whole(&n, 0, (int64_t[]){-1}, 1);
  node_close(&n);
  node_open(&n, "ReduceSum", 13);
  node_in(&n, TN_F32, D(2), 1, F(0, 0));
  node_const(&n, 7, D(1), 1, (int64_t[]){4});
  node_refused(&n, TN_E_ARG, "axis 4 of rank 1");
}

static void einsum(const char *eq, int n_in, const int64_t (*shape)[3], const int *rank, const float *const *data, int out_rank, const int64_t *out_shape, const double *want) {
  node n;
  int64_t count = 1;
  node_open(&n, "Einsum", 12);
  for (int k = 0; k < n_in; k++) node_in(&n, TN_F32, shape[k], rank[k], data[k]);
  node_str(&n, "equation", eq);
  node_run(&n);
  node_shape(&n, 0, out_shape, out_rank);
  for (int i = 0; i < out_rank; i++) count *= out_shape[i];
  node_floats(&n, 0, want, (int)count, 1e-6);
  node_close(&n);
}
static void test_einsum(void **state) {
  (void)state;
  static const float a[4] = {1, 2, 3, 4}, b[4] = {5, 6, 7, 8}, v[2] = {10, 100};
  const float *ab[3] = {a, b, v};
  einsum("ii", 1, (int64_t[][3]){{2, 2}}, (int[]){2}, ab, 0, NULL, (double[]){5});
  einsum("...ii->...i", 1, (int64_t[][3]){{2, 2}}, (int[]){2}, ab, 1, D(2), (double[]){1, 4});
  einsum("ij->ji", 1, (int64_t[][3]){{2, 2}}, (int[]){2}, ab, 2, D(2, 2), (double[]){1, 3, 2, 4});
  einsum("ij , jk", 2, (int64_t[][3]){{2, 2}, {2, 2}}, (int[]){2, 2}, ab, 2, D(2, 2), (double[]){19, 22, 43, 50});
  einsum("ij,jk,k->i", 3, (int64_t[][3]){{2, 2}, {2, 2}, {2}}, (int[]){2, 2, 1}, ab, 1, D(2), (double[]){2390, 5430});
  einsum("b...,...->b", 2, (int64_t[][3]){{1, 2, 2}, {2, 2}}, (int[]){3, 2}, ab, 1, D(1), (double[]){70});
  einsum("bij,bij->b", 2, (int64_t[][3]){{2, 2, 1}, {1, 2, 1}}, (int[]){3, 3}, (const float *[]){a, v}, 1, D(2), (double[]){210, 430});
  node n;
  node_open(&n, "Einsum", 12);
  node_in(&n, TN_F32, D(2), 1, v);
  node_str(&n, "equation", "i->j");
  node_refused(&n, TN_E_ARG, "letter j");
}

static void test_products(void **state) {
  (void)state;
  node n;
  node_open(&n, "Gemm", 13);
  node_in(&n, TN_F32, D(2, 1), 2, F(1, 2));
  node_in(&n, TN_F32, D(2, 2), 2, F(1, 2, 3, 4));
  node_in(&n, TN_F32, D(1), 1, F(100));
  node_int(&n, "transA", 1);
  node_int(&n, "transB", 1);
  node_float(&n, "alpha", 2);
  node_float(&n, "beta", 0.5f);
  node_run(&n);
  node_floats(&n, 0, (double[]){60, 72}, 2, 1e-6);
  node_close(&n);
  node_open(&n, "Det", 22);                          /* a zero pivot in the corner; a singular matrix */
  node_in(&n, TN_F32, D(2, 3, 3), 3, F(0, 1, 2, 1, 0, 3, 4, -3, 8, 1, 2, 3, 2, 4, 6, 1, 1, 1));
  node_run(&n);
  node_shape(&n, 0, D(2), 1);
  node_floats(&n, 0, (double[]){-2, 0}, 2, 1e-5);
  node_close(&n);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_old_broadcast), cmocka_unit_test(test_integers), cmocka_unit_test(test_activations), cmocka_unit_test(test_softmax),
                                     cmocka_unit_test(test_reduce),        cmocka_unit_test(test_einsum),   cmocka_unit_test(test_products)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Rows of onnx_lowp.c, onnx_quant.c, onnx_loss.c, onnx_random.c, onnx_training.c. Codes of small floats from ml_dtypes and onnx.numpy_helper.saturate_cast; the rest by
 * hand or from NumPy. */
#include "onnx_test.h"

static const float hard[20] = {0.47892547f, 464, 465, 480, 1e6f, 1e-7f, NAN, INFINITY, -INFINITY, -0.f, -1e-7f, 0x1p-10f, 0x1.8p-9f, 0.0625f, -0.3f, 17, 1.0625f, 57344, 61440, 61439};

static void cast_codes(int elem, bool saturate, const float *x, int count, const int64_t *want) {
  node n;
  int64_t shape = count;
  node_open(&n, "Identity", 21);                     /* the builder alone, under another row's name */
  node_in(&n, TN_F32, &shape, 1, x);
  n.ox.in = n.in;
  n.ox.n_in = 1;
  n.res[0] = tn_ox_cast(&n.ox, n.in[0], elem, saturate, "up");
  assert_int_equal(n.ox.b.st, TN_OK);
  assert_int_equal(tn_ox_elem(&n.ox, n.res[0]), elem);
  assert_int_equal(tn_graph_add_output(n.env.g, n.res[0]), TN_OK);
  n.out[0].shape = n.out_shape[0];
  assert_int_equal(tn_ops_eval_graph(&n.d, &n.a, n.env.g, n.given, n.out), TN_OK);
  node_whole(&n, 0, want, count);
  node_close(&n);
}
static void test_to_small_floats(void **state) {
  (void)state;
  cast_codes(17, true, hard, 20, (int64_t[]){47, 126, 126, 126, 126, 0, 127, 126, 254, 128, 128, 0, 2, 24, 170, 88, 56, 126, 126, 126});
  cast_codes(17, false, hard, 20, (int64_t[]){47, 126, 127, 127, 127, 0, 127, 127, 255, 128, 128, 0, 2, 24, 170, 88, 56, 127, 127, 127});
  cast_codes(18, true, hard, 20, (int64_t[]){55, 127, 127, 127, 127, 0, 128, 127, 255, 0, 0, 1, 3, 32, 178, 96, 64, 127, 127, 127});
  cast_codes(18, false, hard, 20, (int64_t[]){55, 128, 128, 128, 128, 0, 128, 128, 128, 0, 0, 1, 3, 32, 178, 96, 64, 128, 128, 128});
  cast_codes(19, true, hard, 20, (int64_t[]){56, 95, 95, 96, 123, 0, 126, 123, 251, 128, 128, 20, 26, 44, 181, 76, 60, 123, 123, 123});
  cast_codes(19, false, hard, 20, (int64_t[]){56, 95, 95, 96, 124, 0, 126, 124, 252, 128, 128, 20, 26, 44, 181, 76, 60, 123, 124, 123});
  cast_codes(20, true, hard, 20, (int64_t[]){60, 99, 99, 100, 127, 0, 128, 127, 255, 0, 0, 24, 30, 48, 185, 80, 64, 127, 127, 127});
  cast_codes(20, false, hard, 20, (int64_t[]){60, 99, 99, 100, 128, 0, 128, 128, 128, 0, 0, 24, 30, 48, 185, 80, 64, 127, 128, 127});
  cast_codes(23, true, F(0.48f, 0.25f, 1.05f, -3.5f, -8, 9, 1e6f, 1e-7f, INFINITY, -INFINITY, -4, 0.01f, -0.f, 0.75f, 1.25f, 2.5f, 5, -0.25f), 18,
             (int64_t[]){1, 0, 2, 14, 15, 7, 7, 0, 7, 15, 14, 0, 8, 2, 2, 4, 6, 8});
  cast_codes(24, true, F(0, .124f, .25f, .5f, 1.1f, 2, 4, 8, 1.5f, 1.25f, 3e38f, NAN), 12, (int64_t[]){0, 124, 125, 126, 128, 128, 129, 130, 128, 128, 254, 255});
  cast_codes(22, true, F(-9, -8.7f, -2.5f, 1.5f, 7, 8, 15, 16, 300), 9, (int64_t[]){7, -8, -2, 1, 7, -8, -1, 0, -4});
  cast_codes(21, true, F(-9, -2.5f, 1.5f, 15, 16, 300), 6, (int64_t[]){7, 14, 1, 15, 0, 12});
  cast_codes(26, true, F(-3, -2, -1, 0, 1, 2, 3), 7, (int64_t[]){1, -2, -1, 0, 1, -2, -1});
}

/* All codes of a type, there and back: the same codes, and the sum of magnitudes that ml_dtypes has. */
static void round_trip(int elem, int count, double magnitude, int n_nan) {
  uint8_t codes[256];
  node n;
  int64_t shape = count;
  int nans = 0;
  double sum = 0;
  for (int i = 0; i < count; i++) codes[i] = (uint8_t)i;
  node_open(&n, "Identity", 21);
  node_in(&n, TN_U8, &shape, 1, codes);
  tn_ox_set_elem(&n.ox, n.in[0], elem);
  n.res[0] = tn_ox_cast(&n.ox, n.in[0], 1, true, "up");
  n.res[1] = tn_ox_cast(&n.ox, n.res[0], elem, false, "up");
  assert_int_equal(n.ox.b.st, TN_OK);
  for (int k = 0; k < 2; k++) {
    assert_int_equal(tn_graph_add_output(n.env.g, n.res[k]), TN_OK);
    n.out[k].shape = n.out_shape[k];
  }
  assert_int_equal(tn_ops_eval_graph(&n.d, &n.a, n.env.g, n.given, n.out), TN_OK);
  const float *v = n.out[0].data;
  const uint8_t *again = n.out[1].data;
  for (int i = 0; i < count; i++) {
    if (isnan(v[i])) { nans++; continue; }
    assert_int_equal(again[i], codes[i]);
    if (!isinf(v[i])) sum += fabs((double)v[i]);
  }
  assert_int_equal(nans, n_nan);
  assert_true(fabs(sum - magnitude) <= 1e-6 * magnitude);
  node_close(&n);
}
static void test_round_trip(void **state) {
  (void)state;
  round_trip(17, 256, 10815.75, 2);
  round_trip(18, 256, 5887.875, 1);
  round_trip(19, 256, 720895.9995117188, 6);
  round_trip(20, 256, 720895.9997558594, 1);
  round_trip(23, 16, 36, 0);
}

static void test_quantize(void **state) {
  (void)state;
  node n;
  node_open(&n, "QuantizeLinear", 13);               /* half to even, saturated, one scale per column */
  node_in(&n, TN_F32, D(2, 2), 2, F(1, 5, -1000, 10));
  node_in(&n, TN_F32, D(2), 1, F(2, 4));
  node_in(&n, TN_I8, D(2), 1, (int8_t[]){0, 10});
  node_run(&n);
  node_whole(&n, 0, (int64_t[]){0, 11, -128, 12}, 4);
  node_close(&n);
  node_open(&n, "QuantizeLinear", 21);               /* blocks of 2 along dim 0, the last one cut; 4 bits by output_dtype */
  node_in(&n, TN_F32, D(3, 1), 2, F(1, 20, 6));
  node_in(&n, TN_F32, D(2, 1), 2, F(1, 2));
  node_int(&n, "axis", 0);
  node_int(&n, "block_size", 2);
  node_int(&n, "output_dtype", 22);
  node_run(&n);
  node_whole(&n, 0, (int64_t[]){1, 7, 3}, 3);
  node_close(&n);
  node_open(&n, "DequantizeLinear", 19);
  node_in(&n, TN_U8, D(1, 2, 2), 3, (uint8_t[]){3, 89, 34, 200});
  node_in(&n, TN_F32, D(2), 1, F(2, 4));
  node_in(&n, TN_U8, D(2), 1, (uint8_t[]){84, 24});
  node_run(&n);
  node_floats(&n, 0, (double[]){-162, 10, 40, 704}, 4, 0);
  node_close(&n);
  node_open(&n, "DynamicQuantizeLinear", 11);
  n.n_out = 3;
  node_in(&n, TN_F32, D(6), 1, F(0, 2, -3, -2.5f, 1.34f, 0.5f));
  node_run(&n);
  node_whole(&n, 0, (int64_t[]){153, 255, 0, 26, 221, 179}, 6);
  node_floats(&n, 1, (double[]){0.01960784}, 1, 1e-6);
  node_whole(&n, 2, (int64_t[]){153}, 1);
  node_close(&n);
}

static void test_integer_products(void **state) {
  (void)state;
  node n;
  node_open(&n, "MatMulInteger", 10);                /* one zero point for each row of A */
  node_in(&n, TN_U8, D(2, 2), 2, (uint8_t[]){11, 7, 3, 10});
  node_in(&n, TN_U8, D(2, 2), 2, (uint8_t[]){1, 4, 2, 5});
  node_in(&n, TN_U8, D(2), 1, (uint8_t[]){12, 3});
  node_in(&n, TN_U8, D(1), 1, (uint8_t[]){0});
  node_run(&n);
  node_whole(&n, 0, (int64_t[]){-11, -29, 14, 35}, 4);
  node_close(&n);
  node_open(&n, "QLinearMatMul", 10);
  node_in(&n, TN_U8, D(1, 2), 2, (uint8_t[]){210, 10});
  node_in(&n, TN_F32, NULL, 0, F(0.5f));
  node_in(&n, TN_U8, NULL, 0, (uint8_t[]){10});
  node_in(&n, TN_I8, D(2, 2), 2, (int8_t[]){1, -128, 3, 4});
  node_in(&n, TN_F32, NULL, 0, F(0.25f));
  node_in(&n, TN_I8, NULL, 0, (int8_t[]){0});
  node_in(&n, TN_F32, NULL, 0, F(1));
  node_in(&n, TN_U8, NULL, 0, (uint8_t[]){100});
  node_run(&n);
  node_whole(&n, 0, (int64_t[]){125, 0}, 2);         /* 200/8 + 100; -3200 + 100 saturates */
  node_close(&n);
}

static void loss(const char *how, bool ignore, const double *want, int count) {
  node n;
  node_open(&n, "NegativeLogLikelihoodLoss", 13);
  node_in(&n, TN_F32, D(2, 3), 2, F(1, 2, 3, 4, 5, 6));
  node_in(&n, TN_I64, D(2), 1, (int64_t[]){2, 0});
  node_in(&n, TN_F32, D(3), 1, F(0.5f, 10, 2));
  node_str(&n, "reduction", how);
  if (ignore) node_int(&n, "ignore_index", 0);
  node_run(&n);
  node_floats(&n, 0, want, count, 1e-6);
  node_close(&n);
}
static void test_losses(void **state) {
  (void)state;
  loss("none", false, (double[]){-6, -2}, 2);
  loss("sum", false, (double[]){-8}, 1);
  loss("mean", false, (double[]){-3.2}, 1);
  loss("mean", true, (double[]){-3}, 1);
  node n;
  node_open(&n, "SoftmaxCrossEntropyLoss", 13);
  n.n_out = 2;
  node_in(&n, TN_F32, D(1, 2), 2, F(0, 1.09861229f));
  node_in(&n, TN_I32, D(1), 1, (int32_t[]){1});
  node_run(&n);
  node_floats(&n, 0, (double[]){0.28768207}, 1, 1e-6);
  node_floats(&n, 1, (double[]){-1.38629436, -0.28768207}, 2, 1e-6);
  node_close(&n);
}

/* Moments of seeded numbers: mean and variance within five standard errors; equal seeds, equal numbers. */
static void moments(const char *op, double mean, double var) {
  enum { N = 20000 };
  double s = 0, q = 0;
  float first[4] = {0};
  for (int round = 0; round < 2; round++) {
    node n;
    node_open(&n, op, 1);
    node_ints(&n, "shape", D(N / 2, 2), 2);
    node_float(&n, "seed", 7);
    node_run(&n);
    const float *x = n.out[0].data;
    if (round == 0) memcpy(first, x, sizeof first);
    else assert_memory_equal(first, x, sizeof first);
    for (int i = 0; i < N && round == 0; i++) { s += x[i]; q += (double)x[i] * x[i]; }
    node_close(&n);
  }
  double m = s / N, v = q / N - m * m;
  assert_true(fabs(m - mean) < 5 * sqrt(var / N));
  assert_true(fabs(v - var) < 5 * var * sqrt(2.0 / N));
}
static void test_random(void **state) {
  (void)state;
  moments("RandomUniform", 0.5, 1. / 12);
  moments("RandomNormal", 0, 1);
  node n;
  node_open(&n, "Multinomial", 7);                   /* log-probabilities of 0, 1, 0: always class 1 */
  node_in(&n, TN_F32, D(1, 3), 2, F(-INFINITY, 0, -INFINITY));
  node_float(&n, "seed", 1);
  node_int(&n, "sample_size", 4);
  node_run(&n);
  node_whole(&n, 0, (int64_t[]){1, 1, 1, 1}, 4);
  node_close(&n);
  node_open(&n, "Dropout", 13);                      /* training at ratio 0.5: kept elements are doubled, and the mask says which */
  n.n_out = 2;
  node_in(&n, TN_F32, D(8), 1, F(1, 1, 1, 1, 1, 1, 1, 1));
  node_const(&n, 1, NULL, 0, F(0.5f));
  node_const(&n, 9, NULL, 0, (bool[]){true});
  node_int(&n, "seed", 3);
  node_run(&n);
  for (int i = 0; i < 8; i++) assert_true(((float *)n.out[0].data)[i] == (((bool *)n.out[1].data)[i] ? 2 : 0));
  node_close(&n);
  node_open(&n, "Dropout", 7);                       /* the mask has the operand's type until opset 9 */
  n.n_out = 2;
  node_in(&n, TN_F32, D(2), 1, F(3, 4));
  node_run(&n);
  node_floats(&n, 0, (double[]){3, 4}, 2, 0);
  node_floats(&n, 1, (double[]){1, 1}, 2, 0);
  node_close(&n);
}

static void test_signal(void **state) {
  (void)state;
  node n;
  node_open(&n, "DFT", 17);
  node_in(&n, TN_F32, D(1, 4, 1), 3, F(1, 2, 3, 4));
  node_int(&n, "onesided", 1);
  node_run(&n);
  node_shape(&n, 0, D(1, 3, 2), 3);
  node_floats(&n, 0, (double[]){10, 0, -2, 2, -2, 0}, 6, 1e-6);
  node_close(&n);
  node_open(&n, "DFT", 20);                          /* half a spectrum back to 4 real numbers */
  node_in(&n, TN_F32, D(1, 3, 2), 3, F(10, 0, -2, 2, -2, 0));
  node_int(&n, "onesided", 1);
  node_int(&n, "inverse", 1);
  node_run(&n);
  node_shape(&n, 0, D(1, 4, 1), 3);
  node_floats(&n, 0, (double[]){1, 2, 3, 4}, 4, 1e-6);
  node_close(&n);
  node_open(&n, "HannWindow", 17);
  node_const(&n, 6, NULL, 0, (int32_t[]){4});
  node_run(&n);
  node_floats(&n, 0, (double[]){0, 0.5, 1, 0.5}, 4, 1e-6);
  node_close(&n);
}

static void test_training(void **state) {
  (void)state;
  node n;
  node_open(&n, "Momentum", 1);
  n.ox.domain = "ai.onnx.preview.training";
  n.n_out = 2;
  node_in(&n, TN_F32, NULL, 0, F(0.5f));
  node_in(&n, TN_I64, NULL, 0, (int64_t[]){0});
  node_in(&n, TN_F32, D(1), 1, F(4));
  node_in(&n, TN_F32, D(1), 1, F(2));
  node_in(&n, TN_F32, D(1), 1, F(10));
  node_float(&n, "alpha", 0.5f);
  node_float(&n, "beta", 100);                       /* does not count at the first update */
  node_float(&n, "norm_coefficient", 1);
  node_str(&n, "mode", "nesterov");
  node_run(&n);
  node_floats(&n, 1, (double[]){11}, 1, 1e-6);       /* 0.5 * 10 + (2 + 1 * 4) */
  node_floats(&n, 0, (double[]){-1.75}, 1, 1e-6);    /* 4 - 0.5 * (6 + 0.5 * 11) */
  node_close(&n);
}

static tn_ref target;
static tn_status by_name(tn_ox_env *e, tn_diag *d, const char *name, tn_ref *out) {
  (void)d;
  *out = !strcmp(name, "y") ? target : e->g->input[name[1] - '0'];
  return TN_OK;
}
/* y = tanh(A B), A = [1 2], B = [0.1 0.2]': 1 - tanh(0.5)^2 is 0.7864477 */
static void test_gradient(void **state) {
  (void)state;
  static const tn_ox_str names[2] = {{"x0", 2}, {"x1", 2}};
  node n;
  node_open(&n, "Gradient", 1);
  n.ox.domain = "ai.onnx.preview.training";
  n.env.named = by_name;
  n.n_out = 2;
  node_in(&n, TN_F32, D(1, 2), 2, F(1, 2));
  node_in(&n, TN_F32, D(2, 1), 2, F(0.1f, 0.2f));
  target = tn_b_1(&n.ox.b, TN_OP_TANH, tn_b_contract(&n.ox.b, "ik,kj->ij", n.in[0], n.in[1]));
  n.attr[n.n_attr++] = (tn_ox_attr){.name = "xs", .kind = TN_OX_STRS, .n = 2, .u.s = names};
  node_str(&n, "y", "y");
  node_run(&n);
  node_shape(&n, 0, D(1, 2), 2);
  node_floats(&n, 0, (double[]){0.07864477, 0.15728955}, 2, 1e-6);
  node_floats(&n, 1, (double[]){0.7864477, 1.5728955}, 2, 1e-6);
  node_close(&n);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_to_small_floats), cmocka_unit_test(test_round_trip), cmocka_unit_test(test_quantize),
                                     cmocka_unit_test(test_integer_products), cmocka_unit_test(test_losses),    cmocka_unit_test(test_random),
                                     cmocka_unit_test(test_signal),          cmocka_unit_test(test_training),
                                     cmocka_unit_test(test_gradient)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Rows of onnx_conv.c, onnx_pool.c, onnx_norm.c, onnx_resize.c, onnx_sample.c, onnx_rnn.c, onnx_attention.c, onnx_ms*.c: values by hand, and forms that are refused.
 * Forms against onnxruntime and PyTorch: tests/e2e/test_onnx_nn.py. */
#include "onnx_test.h"

static void ramp(float *x, int n) {
  for (int i = 0; i < n; i++) x[i] = (float)i;
}

static void test_conv(void **state) {
  (void)state;
  node n;
  float x[16], ones[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  ramp(x, 16);
  node_open(&n, "Conv", 11);                         /* 2 x 2 of ones over 0..8 with one row and column of padding in front */
  node_in(&n, TN_F32, D(1, 1, 3, 3), 4, x);
  node_in(&n, TN_F32, D(1, 1, 2, 2), 4, ones);
  node_str(&n, "auto_pad", "SAME_LOWER");
  node_run(&n);
  node_floats(&n, 0, (double[]){0, 1, 3, 3, 8, 12, 9, 20, 24}, 9, 0);
  node_close(&n);
  node_open(&n, "ConvTranspose", 11);                /* asked for more than there is: zeros behind */
  node_in(&n, TN_F32, D(1, 1, 2), 3, F(1, 2));
  node_in(&n, TN_F32, D(1, 1, 1), 3, F(3));
  node_ints(&n, "strides", D(2), 1);
  node_ints(&n, "output_shape", D(4), 1);
  node_run(&n);
  node_floats(&n, 0, (double[]){3, 0, 6, 0}, 4, 0);
  node_close(&n);
  node_open(&n, "Conv", 11);
  node_in(&n, TN_F32, D(1, 1, 3, 3), 4, x);
  node_in(&n, TN_F32, D(1, 1, 2, 2), 4, ones);
  node_ints(&n, "pads", D(0, 0, -1, 0), 4);
  node_refused(&n, TN_E_UNSUPPORTED, "negative padding -1");
  node_open(&n, "Conv", 11);
  node_in(&n, TN_F32, D(1, 1, 3, 3), 4, x);
  node_in(&n, TN_F32, D(1, 1, 2, 2), 4, ones);
  node_ints(&n, "kernel_shape", D(3, 2), 2);
  node_refused(&n, TN_E_ARG, "kernel_shape[0] is 3, the weight has 2");
  node_open(&n, "Conv", 11);
  node_in(&n, TN_F32, D(1, 1, 3, 3), 4, x);
  node_in(&n, TN_F32, D(1, 1, 2, 2), 4, ones);
  node_ints(&n, "dilations", D(3, 1), 2);
  node_refused(&n, TN_E_ARG, "a window of 4 over less");
  node_open(&n, "Conv", 11);
  node_in(&n, TN_F32, D(1, 1, 3, 3), 4, x);
  node_in(&n, TN_F32, D(1, 1, 2, 2), 4, ones);
  node_int(&n, "group", 0);
  node_refused(&n, TN_E_ARG, "group is 0");
}

static void test_pool(void **state) {
  (void)state;
  node n;
  float x[25];
  ramp(x, 25);
  node_open(&n, "AveragePool", 19);                  /* ceil_mode: a last window that hangs over counts what it has, of 5 + 1 */
  node_in(&n, TN_F32, D(1, 1, 5), 3, x);
  node_ints(&n, "kernel_shape", D(3), 1);
  node_ints(&n, "strides", D(2), 1);
  node_ints(&n, "pads", D(0, 1), 2);
  node_int(&n, "ceil_mode", 1);
  node_int(&n, "count_include_pad", 1);
  node_run(&n);
  node_floats(&n, 0, (double[]){1, 3, 2}, 3, 1e-6);
  node_close(&n);
  node_open(&n, "MaxPool", 12);                      /* a window that would start in the padding behind is none */
  node_in(&n, TN_F32, D(1, 1, 2), 3, x);
  node_ints(&n, "kernel_shape", D(1), 1);
  node_ints(&n, "strides", D(2), 1);
  node_ints(&n, "pads", D(0, 0), 2);
  node_int(&n, "ceil_mode", 1);
  node_run(&n);
  node_floats(&n, 0, (double[]){0}, 1, 0);
  node_close(&n);
  for (int order = 0; order < 2; order++) {          /* places count through the whole tensor; column by column: x + 5 * y */
    node_open(&n, "MaxPool", 12);
    node_in(&n, TN_F32, D(1, 1, 5, 5), 4, x);
    node_ints(&n, "kernel_shape", D(2, 3), 2);
    node_ints(&n, "strides", D(3, 2), 2);
    node_int(&n, "storage_order", order);
    n.n_out = 2;
    node_run(&n);
    node_floats(&n, 0, (double[]){7, 9, 22, 24}, 4, 0);
    node_whole(&n, 1, order ? (int64_t[]){11, 21, 14, 24} : (int64_t[]){7, 9, 22, 24}, 4);
    node_close(&n);
  }
  node_open(&n, "LpPool", 18);                       /* 3-norm of (1, 2) and (3, 4) */
  node_in(&n, TN_F32, D(1, 1, 4), 3, F(1, -2, 3, 4));
  node_ints(&n, "kernel_shape", D(2), 1);
  node_ints(&n, "strides", D(2), 1);
  node_int(&n, "p", 3);
  node_run(&n);
  node_floats(&n, 0, (double[]){2.0800838, 4.4979414}, 2, 1e-5);
  node_close(&n);
  node_open(&n, "MaxPool", 12);
  node_in(&n, TN_F32, D(1, 1, 5, 5), 4, x);
  node_refused(&n, TN_E_ARG, "kernel_shape is missing");
  node_open(&n, "MaxPool", 12);
  node_in(&n, TN_F32, D(1, 1, 64, 64), 4, NULL);
  node_ints(&n, "kernel_shape", D(12, 12), 2);
  n.n_out = 2;
  node_refused(&n, TN_E_UNSUPPORTED, "places of a window of 144");
}

static void test_norm(void **state) {
  (void)state;
  node n;
  node_open(&n, "LRN", 13);                          /* size 2: the channel and the one behind; x / (1 + sum / 2) */
  node_in(&n, TN_F32, D(1, 3, 1), 3, F(1, 2, 3));
  node_int(&n, "size", 2);
  node_float(&n, "alpha", 1);
  node_float(&n, "beta", 1);
  node_run(&n);
  node_floats(&n, 0, (double[]){1 / 3.5, 2 / 7.5, 3 / 5.5}, 3, 1e-6);
  node_close(&n);
  node_open(&n, "LayerNormalization", 17);
  node_in(&n, TN_F32, D(2, 2), 2, F(1, 3, 0, 8));
  node_in(&n, TN_F32, D(2), 1, F(1, 2));
  node_float(&n, "epsilon", 0);
  n.n_out = 3;
  node_run(&n);
  node_floats(&n, 0, (double[]){-1, 2, -1, 2}, 4, 1e-6);
  node_floats(&n, 1, (double[]){2, 4}, 2, 1e-6);
  node_floats(&n, 2, (double[]){1, 0.25}, 2, 1e-6);
  node_close(&n);
  for (int opset = 9; opset < 15; opset += 6) {      /* running statistics asked for: only where there is a training mode */
    node_open(&n, "BatchNormalization", opset);
    node_in(&n, TN_F32, D(1, 1, 2), 3, F(1, 2));
    for (int i = 0; i < 4; i++) node_in(&n, TN_F32, D(1), 1, F(1));
    n.n_out = 3;
    node_refused(&n, opset < 14 ? TN_E_UNSUPPORTED : TN_E_ARG, opset < 14 ? "training form" : "without training_mode");
  }
  node_open(&n, "GroupNormalization", 21);
  node_in(&n, TN_F32, D(1, 3, 2), 3, F(1, 2, 3, 4, 5, 6));
  node_in(&n, TN_F32, D(3), 1, F(1, 1, 1));
  node_in(&n, TN_F32, D(3), 1, F(0, 0, 0));
  node_int(&n, "num_groups", 2);
  node_refused(&n, TN_E_ARG, "num_groups is 2");
}

static void test_resize(void **state) {
  (void)state;
  node n;
  node_open(&n, "Resize", 10);                       /* before opset 11: up when shrinking (places 0, 1.67, 3.33), down when growing */
  node_in(&n, TN_F32, D(1, 1, 5), 3, F(0, 1, 2, 3, 4));
  node_const(&n, 1, D(3), 1, F(1, 1, 0.6f));
  node_run(&n);
  node_floats(&n, 0, (double[]){0, 2, 4}, 3, 0);
  node_close(&n);
  node_open(&n, "Resize", 18);                       /* half_pixel, places -0.25, 0.25, 0.75, 1.25 */
  node_in(&n, TN_F32, D(2), 1, F(0, 4));
  node_skip(&n);
  node_const(&n, 1, D(1), 1, F(2));
  node_str(&n, "mode", "linear");
  node_run(&n);
  node_floats(&n, 0, (double[]){0, 1, 3, 4}, 4, 1e-6);
  node_close(&n);
  node_open(&n, "Resize", 18);                       /* halved by a triangle of width 4: 1/8, 3/8, 3/8, 1/8 inside, edges repeated */
  node_in(&n, TN_F32, D(4), 1, F(0, 8, 16, 24));
  node_skip(&n);
  node_const(&n, 1, D(1), 1, F(0.5f));
  node_str(&n, "mode", "linear");
  node_int(&n, "antialias", 1);
  node_run(&n);
  node_floats(&n, 0, (double[]){5, 19}, 2, 1e-5);
  node_close(&n);
  node_open(&n, "Resize", 18);                       /* not_larger: both by the smaller of 3 and 2 */
  node_in(&n, TN_F32, D(1, 2), 2, F(1, 2));
  node_skip(&n);
  node_skip(&n);
  node_const(&n, 7, D(2), 1, (int64_t[]){3, 4});
  node_str(&n, "keep_aspect_ratio_policy", "not_larger");
  node_str(&n, "nearest_mode", "floor");
  node_str(&n, "coordinate_transformation_mode", "asymmetric");
  node_run(&n);
  node_floats(&n, 0, (double[]){1, 1, 2, 2, 1, 1, 2, 2}, 8, 0);
  node_close(&n);
  node_open(&n, "Resize", 13);
  node_in(&n, TN_F32, D(2), 1, F(0, 4));
  node_skip(&n);
  node_const(&n, 1, D(1), 1, F(2));
  node_const(&n, 7, D(1), 1, (int64_t[]){4});
  node_refused(&n, TN_E_ARG, "both of scales and sizes");
  node_open(&n, "Resize", 13);
  node_in(&n, TN_F32, D(2), 1, F(0, 4));
  node_skip(&n);
  node_const(&n, 1, D(1), 1, F(-2));
  node_refused(&n, TN_E_ARG, "scales[0] is -2");
  node_open(&n, "CenterCropPad", 18);
  node_in(&n, TN_F32, D(3, 2), 2, F(1, 2, 3, 4, 5, 6));
  node_const(&n, 7, D(2), 1, (int64_t[]){2, 3});
  node_run(&n);
  node_floats(&n, 0, (double[]){1, 2, 0, 3, 4, 0}, 6, 0);
  node_close(&n);
}

/* One step of each cell with weights that leave little to compute: x = 1, W = (1, ..), R = 0, h0 = 0.5. */
static void test_recurrent(void **state) {
  (void)state;
  node n;
  double g = 1 / (1 + exp(-1.0)), t = tanh(1.0);
  node_open(&n, "GRU", 14);                          /* h = (1 - z) * tanh(1) + z * 0.5 */
  node_in(&n, TN_F32, D(1, 1, 1), 3, F(1));
  node_in(&n, TN_F32, D(1, 3, 1), 3, F(1, 1, 1));
  node_in(&n, TN_F32, D(1, 3, 1), 3, F(0, 0, 0));
  node_skip(&n);
  node_skip(&n);
  node_in(&n, TN_F32, D(1, 1, 1), 3, F(0.5f));
  node_int(&n, "linear_before_reset", 1);
  n.n_out = 2;
  node_run(&n);
  node_floats(&n, 0, (double[]){(1 - g) * t + g * 0.5}, 1, 1e-6);
  node_floats(&n, 1, (double[]){(1 - g) * t + g * 0.5}, 1, 1e-6);
  node_close(&n);
  for (int plain = 0; plain < 2; plain++) {          /* a sequence of length 0 of one step, one of length 1: the library prim and the steps written out */
    node_open(&n, "LSTM", 14);
    node_in(&n, TN_F32, D(1, 2, 1), 3, F(1, 1));
    node_in(&n, TN_F32, D(1, 4, 1), 3, F(1, 1, 1, 1));
    node_in(&n, TN_F32, D(1, 4, 1), 3, F(0, 0, 0, 0));
    node_skip(&n);
    node_in(&n, TN_I32, D(2), 1, (int32_t[]){0, 1});
    node_in(&n, TN_F32, D(1, 2, 1), 3, F(0.5f, 0.5f));
    node_in(&n, TN_F32, D(1, 2, 1), 3, F(0.25f, 0.25f));
    if (!plain) node_float(&n, "clip", 100);
    n.n_out = 3;
    double c = g * 0.25 + g * t, h = g * tanh(c);
    node_run(&n);
    node_floats(&n, 0, (double[]){0, h}, 2, 1e-6);
    node_floats(&n, 1, (double[]){0.5, h}, 2, 1e-6);
    node_floats(&n, 2, (double[]){0.25, c}, 2, 1e-6);
    node_close(&n);
  }
  node_open(&n, "RNN", 14);
  node_in(&n, TN_F32, D(1, 1, 1), 3, F(1));
  node_in(&n, TN_F32, D(1, 1, 1), 3, F(1));
  node_in(&n, TN_F32, D(1, 1, 1), 3, F(0));
  node_str(&n, "direction", "bidirectional");
  node_refused(&n, TN_E_ARG, "not for 2 directions");
}

static void test_attention(void **state) {
  (void)state;
  node n;
  node_open(&n, "Attention", 23);                    /* a row that may attend nobody gives 0, one that may attend one gives its value */
  node_in(&n, TN_F32, D(1, 1, 2, 1), 4, F(1, 2));
  node_in(&n, TN_F32, D(1, 1, 2, 1), 4, F(3, 4));
  node_in(&n, TN_F32, D(1, 1, 2, 1), 4, F(5, 6));
  node_in(&n, TN_BOOL, D(2, 2), 2, (bool[]){false, false, false, true});
  node_run(&n);
  node_floats(&n, 0, (double[]){0, 6}, 2, 1e-6);
  node_close(&n);
  node_open(&n, "Attention", 23);
  node_in(&n, TN_F32, D(1, 1, 2, 1), 4, F(1, 2));
  node_in(&n, TN_F32, D(1, 1, 2, 1), 4, F(3, 4));
  node_in(&n, TN_F32, D(1, 1, 2, 1), 4, F(5, 6));
  node_skip(&n);
  node_in(&n, TN_F32, D(1, 1, 2, 1), 4, F(5, 6));
  node_refused(&n, TN_E_ARG, "come together");
  node_open(&n, "Attention", 23);
  node_in(&n, TN_F32, D(1, 2, 3), 3, NULL);
  node_in(&n, TN_F32, D(1, 2, 3), 3, NULL);
  node_in(&n, TN_F32, D(1, 2, 3), 3, NULL);
  node_int(&n, "q_num_heads", 2);
  node_int(&n, "kv_num_heads", 1);
  node_refused(&n, TN_E_ARG, "2 heads in a last dim of 3");
}

static void test_microsoft(void **state) {
  (void)state;
  node n;
  node_open(&n, "QLinearAdd", 1);                    /* (2 * (7 - 5) + 3 * (4 - 1)) / 0.5 + 10 = 36; the other saturates */
  n.ox.domain = "com.microsoft";
  node_in(&n, TN_U8, D(2), 1, (uint8_t[]){7, 250});
  node_in(&n, TN_F32, NULL, 0, F(2));
  node_in(&n, TN_U8, NULL, 0, (uint8_t[]){5});
  node_in(&n, TN_U8, D(2), 1, (uint8_t[]){4, 200});
  node_in(&n, TN_F32, NULL, 0, F(3));
  node_in(&n, TN_U8, NULL, 0, (uint8_t[]){1});
  node_in(&n, TN_F32, NULL, 0, F(0.5f));
  node_in(&n, TN_U8, NULL, 0, (uint8_t[]){10});
  node_run(&n);
  node_whole(&n, 0, (int64_t[]){36, 255}, 2);
  node_close(&n);
  uint8_t b[8] = {0x21, 0x43, 0, 0, 0, 0, 0, 0};     /* weights 1, 2, 3, 4, then 0, less 8, halved: 16 of 4 bits */
  float x[16] = {1, 1, 1, 1}, s = 0.5f;
  node_open(&n, "MatMulNBits", 1);
  n.ox.domain = "com.microsoft";
  node_in(&n, TN_F32, D(1, 16), 2, x);
  node_in(&n, TN_U8, D(1, 1, 8), 3, b);
  node_in(&n, TN_F32, D(1, 1), 2, &s);
  node_int(&n, "K", 16);
  node_int(&n, "N", 1);
  node_int(&n, "block_size", 16);
  node_run(&n);
  node_floats(&n, 0, (double[]){(1 + 2 + 3 + 4 - 32) * 0.5}, 1, 1e-6);
  node_close(&n);
  node_open(&n, "MatMulNBits", 1);
  n.ox.domain = "com.microsoft";
  node_in(&n, TN_F32, D(1, 16), 2, x);
  node_in(&n, TN_U8, D(1, 1, 8), 3, b);
  node_in(&n, TN_F32, D(1, 1), 2, &s);
  node_int(&n, "K", 16);
  node_int(&n, "N", 1);
  node_int(&n, "bits", 3);
  node_int(&n, "block_size", 16);
  node_refused(&n, TN_E_UNSUPPORTED, "3 bits");
  node_open(&n, "FusedConv", 1);
  n.ox.domain = "com.microsoft";
  node_in(&n, TN_F32, D(1, 1, 1), 3, x);
  node_in(&n, TN_F32, D(1, 1, 1), 3, x);
  node_str(&n, "activation", "Softplus");
  node_refused(&n, TN_E_UNSUPPORTED, "activation 'Softplus'");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_conv),   cmocka_unit_test(test_pool),      cmocka_unit_test(test_norm),     cmocka_unit_test(test_resize),
                                     cmocka_unit_test(test_recurrent), cmocka_unit_test(test_attention), cmocka_unit_test(test_microsoft)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

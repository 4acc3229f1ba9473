/* Errors of vector maths, measured: every scalar function of floats is compiled by the LLVM emitter for AVX2 and AVX-512 and run
 * over every 1009th float32 (and random float64), plus edge values; results are compared with the C library in double (long
 * double for f64) and the largest error, in units in the last place, is held against a bound.
 *
 * Run with a path as argument it also writes the table there: docs/numerics.md is made so. Results below the least normal
 * number may be flushed to zero; NaN, infinities and the sign of zero must be right. Levels that the machine lacks are skipped. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/kernel_abi.h"
#include "codegen/codegen.h"
#include "device/cpu/cpuid.h"
#include "device/device.h"
#include "tenon/device.h"

enum { CHUNK = 1 << 14, LANES = 16 };

typedef struct row {
  tn_scalar_op op;
  double bound32, bound64; /* ULP */
} row;

static const row rows[] = {
    {TN_S_EXP, 2, 4},     {TN_S_EXP2, 4, 4},   {TN_S_EXPM1, 4, 4}, {TN_S_LOG, 2, 4},    {TN_S_LOG2, 4, 4},  {TN_S_LOG10, 4, 4}, {TN_S_LOG1P, 4, 4},
    {TN_S_SIN, 2, 4},     {TN_S_COS, 2, 4},    {TN_S_TAN, 4, 4},   {TN_S_ASIN, 4, 4},   {TN_S_ACOS, 4, 4},  {TN_S_ATAN, 4, 4},  {TN_S_SINH, 4, 4},
    {TN_S_COSH, 4, 4},    {TN_S_TANH, 2, 4},   {TN_S_ASINH, 4, 4}, {TN_S_ACOSH, 4, 4},  {TN_S_ATANH, 4, 4}, {TN_S_ERF, 2, 4},   {TN_S_ERFC, 4, 4},
    {TN_S_SIGMOID, 2, 4}, {TN_S_RSQRT, 2, 2},  {TN_S_SQRT, 0.5, 0.5}, {TN_S_RECIPROCAL, 0.5, 0.5},
    {TN_S_POW, 4, 4},     {TN_S_ATAN2, 4, 4},  {TN_S_FMOD, 0.5, 0.5}, {TN_S_REMAINDER, 0.5, 0.5},
};
enum { N_ROWS = sizeof rows / sizeof *rows };

static const tn_level levels[] = {TN_LEVEL_V3, TN_LEVEL_V4};
enum { N_LEVELS = 2 };
static double worst[N_ROWS][2][N_LEVELS]; /* -1: not run */
static double worst_at[N_ROWS][2][N_LEVELS][2];

/* ---- references ---- */

#define REFERENCE(T, name, F)                                                        \
  static T name(tn_scalar_op op, T a, T b) {                                         \
    switch (op) {                                                                    \
      case TN_S_EXP: return F(exp)(a);                                               \
      case TN_S_EXP2: return F(exp2)(a);                                             \
      case TN_S_EXPM1: return F(expm1)(a);                                           \
      case TN_S_LOG: return F(log)(a);                                               \
      case TN_S_LOG2: return F(log2)(a);                                             \
      case TN_S_LOG10: return F(log10)(a);                                           \
      case TN_S_LOG1P: return F(log1p)(a);                                           \
      case TN_S_SIN: return F(sin)(a);                                               \
      case TN_S_COS: return F(cos)(a);                                               \
      case TN_S_TAN: return F(tan)(a);                                               \
      case TN_S_ASIN: return F(asin)(a);                                             \
      case TN_S_ACOS: return F(acos)(a);                                             \
      case TN_S_ATAN: return F(atan)(a);                                             \
      case TN_S_SINH: return F(sinh)(a);                                             \
      case TN_S_COSH: return F(cosh)(a);                                             \
      case TN_S_TANH: return F(tanh)(a);                                             \
      case TN_S_ASINH: return F(asinh)(a);                                           \
      case TN_S_ACOSH: return F(acosh)(a);                                           \
      case TN_S_ATANH: return F(atanh)(a);                                           \
      case TN_S_ERF: return F(erf)(a);                                               \
      case TN_S_ERFC: return F(erfc)(a);                                             \
      case TN_S_SIGMOID: return 1 / (1 + F(exp)(-a));                                \
      case TN_S_RSQRT: return 1 / F(sqrt)(a);                                        \
      case TN_S_SQRT: return F(sqrt)(a);                                             \
      case TN_S_RECIPROCAL: return 1 / a;                                            \
      case TN_S_POW: return F(pow)(a, b);                                            \
      case TN_S_ATAN2: return F(atan2)(a, b);                                        \
      case TN_S_FMOD: return F(fmod)(a, b);                                          \
      case TN_S_REMAINDER: {                                                         \
        T m = F(fmod)(a, b);                                                         \
        return m != 0 && (b < 0) != (m < 0) ? m + b : m;                             \
      }                                                                              \
      default: return 0;                                                             \
    }                                                                                \
  }
#define PLAIN(f) f
#define LONG(f) f##l
REFERENCE(double, reference, PLAIN)
REFERENCE(long double, reference_long, LONG)

/* Distance of r from e in units of the last place of e's format; huge when the kind of value is wrong. */
static double ulps(long double e, double r, bool is_double) {
  int digits = is_double ? 52 : 23, least = is_double ? -1022 : -126;
  long double max = is_double ? (long double)DBL_MAX : (long double)FLT_MAX;
  if (isnan(e) || isnan(r)) return isnan(e) && isnan(r) ? 0 : 1e30;
  if (e == 0) return r == 0 && !signbit(r) == !signbit(e) ? 0 : 1e30;
  if (fabsl(e) > max) { /* rounds to infinity, or just not */
    if (isinf(r)) return !signbit(r) == !signbit(e) ? 0 : 1e30;
    return fabsl(e) > max * (1 + ldexpl(1, -digits)) ? 1e30 : (double)((fabsl(e) - fabs(r)) / ldexpl(1, (is_double ? 1023 : 127) - digits));
  }
  if (isinf(r)) return fabsl(e) > max * (1 - ldexpl(1, 1 - digits)) ? 1 : 1e30;
  if (fabsl(e) < ldexpl(1, least)) return fabs(r) <= ldexp(1, least) ? 0 : 1e30; /* may be flushed */
  int x;
  frexpl(e, &x);
  return (double)(fabsl(r - e) / ldexpl(1, x - 1 - digits));
}

/* ---- kernels ---- */

static tn_kernel_fn make(const tn_device_api *cpu, tn_device *dev, tn_scalar_op op, tn_dtype t, tn_level level, tn_code **code) {
  tn_arena a;
  tn_arena_init(&a);
  tn_nest *n = NULL;
  assert_int_equal(tn_nest_create(&a, "k", &n), TN_OK);
  tn_nparam params[3] = {{"x", (uint8_t)t, false}, {"y", (uint8_t)t, false}, {"out", (uint8_t)t, true}};
  n->param = params;
  n->n_param = 3;
  tn_vt vt = {(uint8_t)t, LANES}, i64 = {TN_I64, 1};
  tn_nv lo = tn_n_add(n, (tn_ninst){.op = TN_N_BLOCK_LO, .vt = i64}), hi = tn_n_add(n, (tn_ninst){.op = TN_N_BLOCK_HI, .vt = i64});
  tn_nv at = tn_n_op2(n, TN_S_MUL, tn_n_for(n, lo, hi, tn_n_i64(n, 1)), tn_n_i64(n, LANES));
  tn_nv x = tn_n_load(n, 0, vt, at, 0), y = tn_scalar_arity(op) == 2 ? tn_n_load(n, 1, vt, at, 0) : 0;
  tn_n_store(n, 2, at, tn_n_scalar(n, op, x, y, 0), 0);
  tn_n_end(n);
  tn_target target;
  tn_target_init(&target, level);
  tn_diag d;
  tn_diag_clear(&d);
  void *bytes;
  size_t size;
  char why[256];
  if (tn_codegen_object(&d, n, &target, &bytes, &size, NULL) != TN_OK) fail_msg("%s: %s", tn_scalar_name(op), d.text);
  if (cpu->load(dev, bytes, size, "k", code, why, sizeof why) != TN_OK) fail_msg("%s: %s", tn_scalar_name(op), why);
  tn_free(bytes);
  tn_arena_deinit(&a);
  return (tn_kernel_fn)(uintptr_t)cpu->entry(*code);
}

/* ---- inputs ---- */

static uint64_t rng_state = 88172645463325252u;
static uint64_t rng(void) {
  rng_state ^= rng_state << 13;
  rng_state ^= rng_state >> 7;
  return rng_state ^= rng_state << 17;
}

static const double edges[] = {0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, INFINITY, -INFINITY, NAN, 1e-40, -1e-40, 1.2e-38, FLT_MIN, FLT_MAX, -FLT_MAX,
                               88.7, 88.72283, 88.8, -87.3, -87.4, -103.9, -104.5, 0.25, 1.25, 3.9, 4.0, 9.0, 10.0, 1e5, 131072.0, 131073.0, 1e9, -1e9, 1e15, 3e38, 0.66666667,
                               1.3333333, 0.785398, 1.570796, 3.141593, 1e-10, -1e-10, 1e-4, 0.9999999, 1.0000001, -0.9999999, 16777216.0, 127.9999, 128.0, -126.0, -149.0, 0.6, 0.7};
enum { N_EDGES = sizeof edges / sizeof *edges };

/* Fills chunk number k of a sweep; false after the last. f32: every 1009th bit pattern of the first operand. */
static bool fill(bool is_double, bool two, long k, double *x, double *y) {
  const uint32_t step = 1009;
  long n_chunks = is_double ? 8 : two ? 24 : (long)((((uint64_t)1 << 32) / step + CHUNK - 1) / CHUNK);
  if (k > n_chunks) return false;
  for (int j = 0; j < CHUNK; j++) {
    if (k == n_chunks) { /* edges, every pair of them */
      x[j] = edges[j % N_EDGES];
      y[j] = edges[j / N_EDGES % N_EDGES];
    } else if (is_double) {
      uint64_t u = rng(), v = rng(); /* half of them of ordinary size */
      if (j & 1) u = (u & ~(0x7ffull << 52)) | (1023 - 12 + u % 24) << 52;
      if (j & 2) v = (v & ~(0x7ffull << 52)) | (1023 - 6 + v % 12) << 52;
      memcpy(&x[j], &u, 8);
      memcpy(&y[j], &v, 8);
    } else {
      uint32_t u = two ? (uint32_t)rng() : (uint32_t)((uint64_t)(k * CHUNK + j) * step), v = (uint32_t)rng();
      if (two && (j & 1)) u = (u & ~(0xffu << 23)) | (127 - 8 + u % 16) << 23;
      if (j & 2) v = (v & ~(0xffu << 23)) | (127 - 5 + v % 10) << 23;
      float f, g;
      memcpy(&f, &u, 4);
      memcpy(&g, &v, 4);
      x[j] = f;
      y[j] = g;
    }
  }
  return true;
}

static void sweep(const row *r, bool is_double) {
  const tn_device_api *cpu = tn_device_find("cpu");
  tn_device *dev;
  char why[256];
  assert_non_null(cpu);
  assert_int_equal(cpu->open(&dev, why, sizeof why), TN_OK);
  tn_target here;
  assert_int_equal(tn_cpu_detect(&here), TN_OK);
  tn_dtype t = is_double ? TN_F64 : TN_F32;
  size_t size = tn_dtype_size(t);
  tn_kernel_fn fn[N_LEVELS] = {0};
  tn_code *code[N_LEVELS] = {0};
  long at = r - rows;
  for (int l = 0; l < N_LEVELS; l++) {
    worst[at][is_double][l] = -1;
    if (!tn_target_runs(&here, levels[l])) continue;
    fn[l] = make(cpu, dev, r->op, t, levels[l], &code[l]);
    worst[at][is_double][l] = 0;
  }
  bool two = tn_scalar_arity(r->op) == 2;
  double *x = malloc(CHUNK * 8), *y = malloc(CHUNK * 8);
  void *in[2] = {cpu->alloc(dev, CHUNK * 8), cpu->alloc(dev, CHUNK * 8)}, *out[N_LEVELS];
  for (int l = 0; l < N_LEVELS; l++) out[l] = cpu->alloc(dev, CHUNK * 8);
  for (long k = 0; fill(is_double, two, k, x, y); k++) {
    for (int j = 0; j < CHUNK; j++) {
      tn_num_store(t, (char *)in[0] + (size_t)j * size, (tn_num){.f = x[j]});
      tn_num_store(t, (char *)in[1] + (size_t)j * size, (tn_num){.f = y[j]});
      x[j] = tn_num_load(t, (char *)in[0] + (size_t)j * size).f;
      y[j] = tn_num_load(t, (char *)in[1] + (size_t)j * size).f;
    }
    for (int l = 0; l < N_LEVELS; l++) {
      void *ptr[3] = {in[0], in[1], out[l]};
      tn_kernel_args args = {.ptr = ptr, .zeros = tn_device_zeros()};
      if (fn[l]) fn[l](&args, 0, CHUNK / LANES, NULL);
    }
    for (int j = 0; j < CHUNK; j++) {
      long double want = is_double ? reference_long(r->op, x[j], y[j]) : (long double)reference(r->op, x[j], y[j]);
      for (int l = 0; l < N_LEVELS; l++) {
        if (!fn[l]) continue;
        double err = ulps(want, tn_num_load(t, (char *)out[l] + (size_t)j * size).f, is_double);
        if (err > worst[at][is_double][l]) {
          worst[at][is_double][l] = err;
          worst_at[at][is_double][l][0] = x[j];
          worst_at[at][is_double][l][1] = y[j];
        }
      }
    }
  }
  for (int l = 0; l < N_LEVELS; l++) {
    cpu->free(dev, out[l]);
    if (code[l]) cpu->unload(dev, code[l]);
  }
  cpu->free(dev, in[0]);
  cpu->free(dev, in[1]);
  free(x);
  free(y);
  cpu->close(dev);
}

static void test_all(void **state) {
  (void)state;
  int bad = 0;
  const char *only = getenv("TN_VMATH_ONLY");
  for (int k = 0; k < N_ROWS; k++) {
    if (only && strcmp(only, tn_scalar_name(rows[k].op)) != 0) continue;
    for (int d = 0; d < 2; d++) {
      sweep(&rows[k], d);
      double bound = d ? rows[k].bound64 : rows[k].bound32;
      for (int l = 0; l < N_LEVELS; l++) {
        double w = worst[k][d][l];
        if (w < 0) continue;
        bool over = w > bound;
        bad += over;
        print_message("%-10s %s %-10s max %8.3g ULP at %.9g %.9g%s\n", tn_scalar_name(rows[k].op), d ? "f64" : "f32", tn_target_level_name(levels[l]), w,
                      worst_at[k][d][l][0], worst_at[k][d][l][1], over ? "  OVER THE BOUND" : "");
      }
    }
  }
  assert_int_equal(bad, 0);
}

/* Where a function has reached its limit it must be the limit itself: GELU multiplies 1 - erf by anything. */
static void test_limits(void **state) {
  (void)state;
  static const struct { tn_scalar_op op; double from, limit; } limits[] = {
      {TN_S_ERF, 3.93, 1}, {TN_S_ERF, -3.93, -1}, {TN_S_TANH, 9.02, 1}, {TN_S_TANH, -9.02, -1}, {TN_S_SIGMOID, 17, 1}, {TN_S_SIGMOID, -89, 0},
      {TN_S_EXP, -105, 0}, {TN_S_EXP, 89, INFINITY}, {TN_S_ERFC, 10.1, 0}, {TN_S_ERFC, -4, 2}, {TN_S_EXPM1, -18, -1}, {TN_S_ATAN, 3e8, 1.57079637f}};
  const tn_device_api *cpu = tn_device_find("cpu");
  tn_device *dev;
  char why[256];
  tn_target here;
  assert_int_equal(cpu->open(&dev, why, sizeof why), TN_OK);
  assert_int_equal(tn_cpu_detect(&here), TN_OK);
  for (size_t k = 0; k < sizeof limits / sizeof *limits; k++) {
    for (int l = 0; l < N_LEVELS; l++) {
      if (!tn_target_runs(&here, levels[l])) continue;
      tn_code *code;
      tn_kernel_fn fn = make(cpu, dev, limits[k].op, TN_F32, levels[l], &code);
      float x[LANES * 16], out[LANES * 16];
      for (int j = 0; j < LANES * 16; j++) x[j] = (float)(limits[k].from * pow(1.4, j * (j < 200)));
      x[LANES * 16 - 1] = limits[k].from > 0 ? INFINITY : -INFINITY;
      void *ptr[3] = {x, x, out};
      tn_kernel_args args = {.ptr = ptr, .zeros = tn_device_zeros()};
      fn(&args, 0, 16, NULL);
      for (int j = 0; j < LANES * 16; j++)
        if (out[j] != (float)limits[k].limit) fail_msg("%s(%.9g) is %.9g", tn_scalar_name(limits[k].op), (double)x[j], (double)out[j]);
      cpu->unload(dev, code);
    }
  }
  cpu->close(dev);
}

static double larger(const double *w) { return w[0] > w[1] ? w[0] : w[1]; }

static int write_table(const char *path) {
  FILE *f = fopen(path, "w");
  if (!f) return 1;
  fprintf(f, "# Accuracy of vector maths\n\nLargest error found, in units in the last place, by `tests/kernels/test_vmath.c` (which wrote this page): f32 over every\n"
             "1009th bit pattern and edge values against the C library in double, f64 over random and edge values against long double.\n"
             "Both AVX2 and AVX-512 code; the larger counts. Results below the least normal number may be flushed to zero. NaN,\n"
             "infinities and the sign of zero are checked. sin, cos and tan are reduced exactly for every argument.\n\n"
             "| function | f32 | bound | f64 | bound |\n|---|---|---|---|---|\n");
  for (int k = 0; k < N_ROWS; k++)
    fprintf(f, "| %s | %.2f | %g | %.2f | %g |\n", tn_scalar_name(rows[k].op), larger(worst[k][0]), rows[k].bound32, larger(worst[k][1]), rows[k].bound64);
  fprintf(f, "\nf16 and bf16 are computed in f32 and rounded once. Sources of the methods: heads of `src/kir/vmath_*.c`.\n");
  return fclose(f) != 0;
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_limits), cmocka_unit_test(test_all)};
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return argc > 1 && !failed ? write_table(argv[1]) : failed;
}

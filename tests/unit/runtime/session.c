/* Sessions on hand-built modules: calls, dynamic sizes, branches, loops, lists, what comes back to the caller, words of errors, memory that
 * comes to rest, every allocation failing once, many threads on one model. Results are known numbers. */
#include <math.h>
#include <pthread.h>
#include "runtime/model_int.h"
#include "runtime_test.h"

/* y = 2 x; any length, any strides */
#define PLAN_DOUBLE \
  "plan \"double\" {\n  sym s0, range 0..max, input 0 dim 0\n  in 0 f32[s0], strides [1], \"x\"\n  buf 0 input 0\n  buf 1 output 0\n" \
  "  view 0 buf 0, f32[s0], strides [1]\n  view 1 buf 1, f32[s0], strides [1]\n" \
  "  kernel 0 \"k_scale\", params 2, sizes 1, object 1, hash 0000000000000000\n  step 0 launch 0 (0, 1), sizes [s0], blocks s0, grain 64, \"k_scale(x)\"\n  out 0 view 1\n}\n"
/* z = x + y */
#define PLAN_ADD \
  "plan \"add\" {\n  sym s0, range 0..max, input 0 dim 0\n  in 0 f32[s0], strides [1], \"x\"\n  in 1 f32[s0], strides [1], \"y\"\n  buf 0 input 0\n  buf 1 input 1\n  buf 2 output 0\n" \
  "  view 0 buf 0, f32[s0], strides [1]\n  view 1 buf 1, f32[s0], strides [1]\n  view 2 buf 2, f32[s0], strides [1]\n" \
  "  kernel 0 \"k_add\", params 3, sizes 1, object 1, hash 0000000000000000\n  step 0 launch 0 (0, 1, 2), sizes [s0], blocks floordiv(s0 + 63, 64), grain 4, \"k_add(x, y)\"\n  out 0 view 2\n}\n"
/* out: n as a size, none, the reversed transpose of x, the second row of x (a view of it) */
#define PLAN_ODD \
  "plan \"odd\" {\n  sym s0, range 2..max, input 0 dim 0\n  sym n, range 0..9, input 1 value\n  in 0 f32[s0, 3], strides any, \"x\"\n  in 1 i64[], strides [], \"n\"\n  buf 0 input 0\n  buf 1 output 2\n" \
  "  view 0 buf 0, f32[s0, 3], strides any\n  view 1 buf 1, f32[s0, 3], strides [1, s0]\n" \
  "  step 0 lib copy (0) -> (1)\n  out 0 dim n\n  out 1 none\n  out 2 view 1\n  out 3 view 0, alias 0\n}\n"

static tn_model *model_of(const char *text) {
  tn_diag d = {0};
  tn_module *m;
  tn_model *o;
  if (tn_module_parse(&d, text, strlen(text), &m) != TN_OK) fail_msg("%s", d.text);
  for (uint32_t i = 0; i < m->n_plan; i++)
    for (uint32_t k = 0; k < m->plan[i]->n_kernel; k++) {
      m->plan[i]->kernel[k].object = test_object;
      m->plan[i]->kernel[k].object_bytes = test_object_n;
    }
  if (tn_model_create(&d, m, &o) != TN_OK) fail_msg("%s", d.text);
  return o;
}
static tn_session *session_of(tn_model *m, int threads) {
  tn_session_options o;
  tn_session *s;
  tn_session_options_init(&o);
  o.threads = threads;
  assert_int_equal(tn_session_create(m, &o, &s), TN_OK);
  return s;
}
static tn_value *f32s(const float *x, int64_t n) {
  tn_tensor t = {(void *)(uintptr_t)x, &n, NULL, 1, TN_F32};
  return tn_value_borrow(&t, 0);
}
static tn_value *i64(int64_t v) {
  tn_tensor t = {&v, NULL, NULL, 0, TN_I64};
  return tn_value_copy(&t, 0);
}
static void run_ok(tn_session *s, tn_value *const *in, tn_value **out) {
  if (tn_session_run(s, in, out) != TN_OK) fail_msg("%s", tn_session_error(s));
}
static void expect_f32(const tn_value *v, const float *want, int64_t n) {
  assert_int_equal(tn_value_get_kind(v), TN_VALUE_TENSOR);
  assert_int_equal(tn_value_tensor(v)->rank, 1);
  assert_int_equal(tn_value_tensor(v)->shape[0], n);
  assert_int_equal(tn_value_tensor(v)->dtype, TN_F32);
  for (int64_t i = 0; i < n; i++) assert_true(((const float *)tn_value_tensor(v)->data)[i] == want[i]);
}

static const char single[] =
    "module \"single\" {\n  meta \"producer\" \"hand\"\n  in 0 tensor f32 [\"N\"], \"x\"\n  out 0 tensor f32 [\"N\"], \"y\"\n"
    "  func 0 \"main\" (1) -> (2), slots 2 {\n    call 0 (1) -> (2), \"node 'double'\"\n  }\n}\n" PLAN_DOUBLE;

static void test_single(void **state) {
  (void)state;
  tn_model *m = model_of(single);
  tn_session *s = session_of(m, 2);
  tn_port p;
  const char *key, *value;
  float x[200], y[200];
  int64_t before = 0;
  assert_true(m->single);
  tn_model_in(m, 0, &p);
  assert_string_equal(p.name, "x");
  assert_int_equal(p.rank, 1);
  assert_int_equal(p.dim[0], -1);
  assert_string_equal(p.dim_name[0], "N");
  tn_model_meta(m, 0, &key, &value);
  assert_string_equal(value, "hand");
  tn_model_release(m); /* the session holds it */
  for (int i = 0; i < 200; i++) x[i] = (float)i;
  for (int round = 0; round < 4; round++)
    for (int64_t n = 0; n <= 200; n += 100) {
      if (round == 1 && n == 0) before = tn_malloc_count();
      tn_tensor in = {x, &n, NULL, 1, TN_F32}, out = {y, &n, NULL, 1, TN_F32};
      memset(y, 0xff, sizeof y);
      if (tn_session_run_into(s, &in, &out) != TN_OK) fail_msg("%s", tn_session_error(s));
      for (int64_t i = 0; i < n; i++) assert_true(y[i] == 2 * x[i]);
    }
  assert_int_equal(tn_malloc_count(), before); /* nothing is allocated once sizes were seen */
  for (int round = 0; round < 4; round++) { /* values: only the caller's own header */
    tn_value *v = f32s(x, 150), *o[1];
    before = tn_malloc_count();
    run_ok(s, &v, o);
    assert_int_equal(tn_value_n(o[0]), 150);
    for (int i = 0; i < 150; i++) assert_true(((const float *)tn_value_tensor(o[0])->data)[i] == 2 * x[i]);
    tn_value_release(o[0]);
    if (round) assert_int_equal(tn_malloc_count(), before);
    tn_value_release(v);
  }
  tn_session_destroy(s);
}

/* Inputs of any strides, in place or copied when the plan wants others; results of every kind of output. */
static const char odd_text[] =
    "module \"odd\" {\n  in 0 tensor f32 [\"N\", 3], \"x\"\n  in 1 tensor i64 [], \"n\"\n"
    "  out 0 tensor i64 [], \"size\"\n  out 1 any undefined any, \"nothing\"\n  out 2 tensor f32 [\"N\", 3], \"copy\"\n  out 3 tensor f32 [\"N\", 3], \"same\"\n"
    "  func 0 \"main\" (1, 2) -> (3, 4, 5, 6), slots 6 {\n    call 0 (1, 2) -> (3, 4, 5, 6)\n  }\n}\n" PLAN_ODD;

static void test_outputs(void **state) {
  (void)state;
  tn_model *m = model_of(odd_text);
  tn_session *s = session_of(m, 1);
  float x[6] = {0, 1, 2, 3, 4, 5};
  tn_tensor t = {x, DIMS(2, 3), DIMS(1, 2), 2, TN_F32}; /* transposed */
  tn_value *in[2] = {tn_value_borrow(&t, 0), i64(7)}, *out[4];
  run_ok(s, in, out);
  assert_int_equal(*(int64_t *)tn_value_tensor(out[0])->data, 7);
  assert_int_equal(tn_value_get_kind(out[1]), TN_VALUE_NONE);
  for (int k = 2; k < 4; k++) {
    const tn_tensor *o = tn_value_tensor(out[k]);
    assert_ptr_not_equal(o->data, x); /* never the caller's memory */
    for (int i = 0; i < 2; i++)
      for (int j = 0; j < 3; j++) assert_true(((float *)o->data)[i * o->strides[0] + j * o->strides[1]] == (float)(i + 2 * j));
  }
  for (int k = 0; k < 4; k++) tn_value_release(out[k]);
  tn_value_release(in[0]);
  tn_value_release(in[1]);
  /* the same into the caller's tensors */
  float a[6], b[6];
  int64_t n = 4, size = -1;
  tn_tensor ti[2] = {t, {&n, NULL, NULL, 0, TN_I64}}, to[4] = {{&size, NULL, NULL, 0, TN_I64}, {0}, {a, DIMS(2, 3), NULL, 2, TN_F32}, {b, DIMS(2, 3), NULL, 2, TN_F32}};
  for (int general = 0; general < 2; general++) {
    m->single = !general;
    memset(a, 0, sizeof a);
    memset(b, 0, sizeof b);
    if (tn_session_run_into(s, ti, to) != TN_OK) fail_msg("%s", tn_session_error(s));
    assert_int_equal(size, 4);
    for (int i = 0; i < 6; i++) assert_true(a[i] == (float)(i / 3 + i % 3 * 2) && b[i] == a[i]);
    to[2].shape = DIMS(3, 2);
    assert_int_equal(tn_session_run_into(s, ti, to), TN_E_ARG);
    expect_says(tn_session_error(s), "output 2 'copy': dim 1 is 2, wanted 3");
    to[2].shape = DIMS(2, 3);
    to[0].dtype = TN_F32;
    assert_int_equal(tn_session_run_into(s, ti, to), TN_E_ARG);
    expect_says(tn_session_error(s), "output 0 'size': dtype is 0, wanted 4");
    to[0].dtype = TN_I64;
  }
  tn_session_destroy(s);
  tn_model_release(m);
}

static void test_strides(void **state) {
  (void)state;
  tn_model *m = model_of(single);
  tn_session *s = session_of(m, 1);
  float x[8] = {0, 1, 2, 3, 4, 5, 6, 7}, y[4] = {0};
  tn_tensor in = {x + 6, DIMS(4), DIMS(-2), 1, TN_F32}, out = {y, DIMS(4), NULL, 1, TN_F32};
  if (tn_session_run_into(s, &in, &out) != TN_OK) fail_msg("%s", tn_session_error(s));
  for (int i = 0; i < 4; i++) assert_true(y[i] == (float)(12 - 4 * i));
  tn_value *v = tn_value_borrow(&in, 0), *o;
  run_ok(s, &v, &o);
  expect_f32(o, (float[]){12, 8, 4, 0}, 4);
  tn_value_release(o);
  tn_value_release(v);
  tn_session_destroy(s);
  tn_model_release(m);
}

static void test_errors(void **state) {
  (void)state;
  tn_model *m = model_of(odd_text);
  tn_session *s = session_of(m, 1);
  float x[6] = {0};
  const struct { tn_tensor t; int64_t n; const char *say; } bad[] = {
      {{x, DIMS(2, 3), NULL, 2, TN_I32}, 1, "input 0 'x': element type is i32, wanted f32"},
      {{x, DIMS(2), NULL, 1, TN_F32}, 1, "input 0 'x': rank is 1, wanted 2"},
      {{x, DIMS(3, 2), NULL, 2, TN_F32}, 1, "input 0 'x': dim 1 is 2, wanted 3"},
      {{x, DIMS(1, 3), NULL, 2, TN_F32}, 1, "input 0 'x': dim 0 is 1, wanted s0 >= 2; while running step 0 of 'main'"},
      {{x, DIMS(2, 3), NULL, 2, TN_F32}, 10, "input 1 'n': value is 10, wanted n in 0..9; while running step 0 of 'main'"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    tn_value *in[2] = {tn_value_borrow(&bad[i].t, 0), i64(bad[i].n)}, *out[4] = {in[0], in[0], in[0], in[0]};
    assert_int_equal(tn_session_run(s, in, out), TN_E_ARG);
    expect_says(tn_session_error(s), bad[i].say);
    for (int k = 0; k < 4; k++) assert_ptr_equal(out[k], in[0]); /* untouched */
    tn_value_release(in[0]);
    tn_value_release(in[1]);
  }
  tn_value *none = tn_value_none(), *list = tn_value_list(&none, 1), *in[2] = {NULL, none}, *out[4];
  assert_int_equal(tn_session_run(s, in, out), TN_E_ARG);
  expect_says(tn_session_error(s), "input 0 'x' is none, wanted a tensor");
  in[0] = list;
  assert_int_equal(tn_session_run(s, in, out), TN_E_ARG);
  expect_says(tn_session_error(s), "input 0 'x' is a list of 1, wanted a tensor");
  tn_value_release(list);
  tn_value_release(none);
  tn_session_destroy(s);
  tn_model_release(m);
}

/* ---- control flow ---- */

/* if c: 2x else x + x + x; c's item 1 decides; also gives back x and none */
static const char branches[] =
    "module \"branches\" {\n  in 0 tensor i32 any, \"c\"\n  in 1 tensor f32 any, \"x\"\n  out 0 tensor f32 any, \"y\"\n  out 1 tensor f32 any, \"x\"\n  out 2 tensor f32 any, \"y again\"\n"
    "  func 0 \"main\" (1, 2) -> (3, 4, 3), slots 4 {\n    branch 1 2 (1 item 1, 2) -> (3, 4), \"If 'choose'\"\n  }\n"
    "  func 1 \"then\" (1) -> (2, 1), slots 2 {\n    call 0 (1) -> (2)\n  }\n"
    "  func 2 \"else\" (1) -> (3, 1), slots 3 {\n    call 1 (1, 1) -> (2)\n    call 1 (2, 1) -> (3)\n  }\n}\n" PLAN_DOUBLE PLAN_ADD;

static void test_branch(void **state) {
  (void)state;
  tn_model *m = model_of(branches);
  tn_session *s = session_of(m, 2);
  float x[3] = {1, 2, 3};
  for (int own = 0; own < 2; own++)
    for (int32_t c = 0; c < 3; c++) {
      int32_t cs[2] = {0, c - 1};
      tn_tensor t = {cs, DIMS(2), NULL, 1, TN_I32}, tx = {x, DIMS(3), NULL, 1, TN_F32};
      tn_value *in[2] = {tn_value_borrow(&t, 0), own ? tn_value_copy(&tx, 0) : tn_value_borrow(&tx, 0)}, *out[3];
      run_ok(s, in, out);
      float k = c == 1 ? 3 : 2;
      expect_f32(out[0], (float[]){k, 2 * k, 3 * k}, 3);
      expect_f32(out[1], x, 3);
      assert_ptr_equal(out[2], out[0]);
      if (own) assert_ptr_equal(out[1], in[1]);
      else assert_ptr_not_equal(tn_value_tensor(out[1])->data, x);
      for (int i = 0; i < 3; i++) tn_value_release(out[i]);
      for (int i = 0; i < 2; i++) tn_value_release(in[i]);
    }
  int32_t one = 1;
  tn_tensor t = {&one, DIMS(1), NULL, 1, TN_I32};
  tn_value *in[2] = {tn_value_borrow(&t, 0), f32s(x, 3)}, *out[3];
  assert_int_equal(tn_session_run(s, in, out), TN_E_ARG);
  expect_says(tn_session_error(s), "operand 0 is item 1 of tensor i32[1]; while running step 0 of 'main': If 'choose'");
  tn_value_release(in[0]);
  tn_value_release(in[1]);
  tn_session_destroy(s);
  tn_model_release(m);
}

/* x doubles n times while the condition holds; scans collect it before each doubling */
static const char loops[] =
    "module \"loops\" {\n  in 0 optional i64 any, \"n\"\n  in 1 optional bool any, \"go\"\n  in 2 tensor f32 any, \"x\"\n  in 3 tensor bool any, \"next\"\n"
    "  out 0 tensor f32 any, \"last\"\n  out 1 tensor f32 any, \"all\"\n  out 2 tensor i64 any, \"count\"\n"
    "  func 0 \"main\" (1, 2, 3, 4) -> (5, 6, 7), slots 7 {\n"
    "    loop 1 (1, 2, 3, 4) -> (5, 6, 7), carried 1, scans 2, attr \"scan_elem\" ints [1, 7], attr \"scan_shape\" ints [1, 3, 0], \"Loop 'l'\"\n  }\n"
    "  func 1 \"body\" (1, 2, 3, 4) -> (4, 5, 3, 1), slots 5 {\n    call 0 (3) -> (5)\n  }\n}\n" PLAN_DOUBLE;

static void check_loop(tn_session *s, tn_value *n, tn_value *go, bool next, int64_t times) {
  float x[3] = {1, 2, 3};
  uint8_t b = next;
  tn_tensor t = {&b, NULL, NULL, 0, TN_BOOL};
  tn_value *in[4] = {n, go, f32s(x, 3), tn_value_borrow(&t, 0)}, *out[3];
  run_ok(s, in, out);
  float f = ldexpf(1, (int)times);
  expect_f32(out[0], (float[]){f, 2 * f, 3 * f}, 3);
  const tn_tensor *all = tn_value_tensor(out[1]), *count = tn_value_tensor(out[2]);
  assert_int_equal(all->rank, 2);
  assert_int_equal(all->shape[0], times);
  assert_int_equal(all->shape[1], 3);
  assert_int_equal(count->rank, 1);
  assert_int_equal(count->shape[0], times);
  assert_int_equal(count->dtype, TN_I64);
  for (int64_t i = 0; i < times; i++) {
    for (int k = 0; k < 3; k++) assert_true(((float *)all->data)[3 * i + k] == ldexpf((float)(k + 1), (int)i));
    assert_int_equal(((int64_t *)count->data)[i], i);
  }
  for (int i = 0; i < 3; i++) tn_value_release(out[i]);
  tn_value_release(in[2]);
  tn_value_release(in[3]);
}

static void test_loop(void **state) {
  (void)state;
  tn_model *m = model_of(loops);
  tn_session *s = session_of(m, 1);
  uint8_t no = 0;
  tn_tensor t = {&no, NULL, NULL, 0, TN_BOOL};
  tn_value *stop = tn_value_copy(&t, 0), *none = tn_value_none();
  for (int64_t n = 0; n < 70; n += 1 + n / 3) {
    tn_value *v = i64(n);
    check_loop(s, v, NULL, true, n);
    check_loop(s, v, none, true, n);
    check_loop(s, v, stop, true, 0);
    check_loop(s, v, NULL, false, n ? 1 : 0);
    tn_value_release(v);
  }
  check_loop(s, NULL, NULL, false, 1); /* no limit: the condition ends it */
  tn_value *v = i64(INT64_MAX), *w = i64(-5); /* a huge claim allocates nothing ahead */
  check_loop(s, v, NULL, false, 1);
  check_loop(s, w, NULL, true, 0);
  tn_session_stats st;
  tn_session_get_stats(s, &st);
  assert_true(st.iterations > 100 && st.plan_calls == st.iterations);
  tn_value_release(v);
  tn_value_release(w);
  float x[3] = {1, 2, 3};
  tn_value *in[4] = {stop, NULL, f32s(x, 3), stop}, *out[3];
  assert_int_equal(tn_session_run(s, in, out), TN_E_ARG);
  expect_says(tn_session_error(s), "input 0 'n': element type is bool, wanted i64");
  tn_value_release(in[2]);
  in[0] = NULL;
  in[2] = tn_value_list(NULL, 0);
  assert_int_equal(tn_session_run(s, in, out), TN_E_ARG);
  tn_value_release(in[2]);
  in[2] = f32s(x, 3);
  in[1] = f32s(x, 1);
  assert_int_equal(tn_session_run(s, in, out), TN_E_ARG);
  tn_value_release(in[1]);
  tn_value_release(in[2]);
  tn_value_release(stop);
  tn_value_release(none);
  tn_session_destroy(s);
  tn_model_release(m);
}

/* A loop in a loop in a branch: x is added to itself by 3 times 2 doublings, the captured y once per inner turn. */
static const char nested[] =
    "module \"nested\" {\n  in 0 tensor i64 any, \"n\"\n  in 1 tensor f32 any, \"x\"\n  out 0 tensor f32 any, \"y\"\n"
    "  func 0 \"main\" (1, 2) -> (3), slots 3 {\n    branch 1 4 (1, 1, 2) -> (3)\n  }\n"
    "  func 1 \"then\" (1, 2) -> (4), slots 4 {\n    op none () -> (3)\n    loop 2 (1, 3, 2, 1, 2) -> (4), carried 1, scans 0\n  }\n"
    "  func 2 \"outer\" (1, 2, 3, 4, 5) -> (2, 6), slots 6 {\n    loop 3 (4, 2, 3, 5) -> (6), carried 1, scans 0\n  }\n"
    "  func 3 \"inner\" (1, 2, 3, 4) -> (2, 5), slots 5 {\n    call 0 (3, 4) -> (5)\n  }\n"
    "  func 4 \"else\" (1, 2) -> (2), slots 2 {\n  }\n}\n" PLAN_ADD;

static void test_nested(void **state) {
  (void)state;
  tn_model *m = model_of(nested);
  tn_session *s = session_of(m, 1);
  float x[2] = {1, -2};
  for (int64_t n = 0; n < 5; n++) {
    tn_value *in[2] = {i64(n), f32s(x, 2)}, *out[1];
    run_ok(s, in, out);
    expect_f32(out[0], (float[]){(float)(1 + n * n), (float)(-2 - 2 * n * n)}, 2);
    tn_value_release(out[0]);
    tn_value_release(in[0]);
    tn_value_release(in[1]);
  }
  tn_session_destroy(s);
  tn_model_release(m);
}

/* What an iteration gives must fit what the others gave. */
static void test_ragged(void **state) {
  (void)state;
  tn_model *m = model_of("module \"ragged\" {\n  in 0 tensor i64 any, \"n\"\n  in 1 tensor f32 any, \"x\"\n  in 2 tensor f32 any, \"y\"\n  out 0 tensor f32 any, \"all\"\n"
                         "  func 0 \"main\" (1, 2, 3) -> (7), slots 7 {\n    op none () -> (4)\n    loop 1 (1, 4, 2, 3) -> (5, 6, 7), carried 2, scans 1, \"Loop 'r'\"\n  }\n"
                         "  func 1 \"swap\" (1, 2, 3, 4) -> (2, 4, 3, 3), slots 4 {\n  }\n}\n");
  tn_session *s = session_of(m, 1);
  float x[4] = {1, 2, 3, 4};
  tn_value *in[3] = {i64(3), f32s(x, 2), f32s(x + 2, 2)}, *out[1];
  run_ok(s, in, out);
  assert_int_equal(tn_value_tensor(out[0])->shape[0], 3);
  assert_true(((float *)tn_value_tensor(out[0])->data)[2] == 3);
  tn_value_release(out[0]);
  tn_value_release(in[2]);
  in[2] = f32s(x, 3);
  assert_int_equal(tn_session_run(s, in, out), TN_E_ARG);
  expect_says(tn_session_error(s), "scan result 0 is tensor f32[3], after tensor f32[");
  expect_says(tn_session_error(s), "in iteration 1; while running step 1 of 'main': Loop 'r'");
  for (int i = 0; i < 3; i++) tn_value_release(in[i]);
  tn_session_destroy(s);
  tn_model_release(m);
}

/* Lists pass through, as do element types that are kept in others; the caller's memory does not come back. */
static void test_lists(void **state) {
  (void)state;
  tn_model *m = model_of("module \"lists\" {\n  in 0 sequence f8e5m2 any, \"l\"\n  in 1 any undefined any, \"a\"\n  in 2 tensor f8e5m2 any, \"t\"\n"
                         "  out 0 sequence f8e5m2 any, \"l\"\n  out 1 any undefined any, \"a\"\n  out 2 tensor f8e5m2 any, \"t\"\n"
                         "  func 0 \"main\" (1, 2, 3) -> (4, 2, 3), slots 4 {\n    op identity (1) -> (4)\n  }\n}\n");
  tn_session *s = session_of(m, 1);
  uint8_t x[2] = {1, 2};
  tn_tensor t = {x, DIMS(2), NULL, 1, TN_U8};
  const char *const words[] = {"a", "b"};
  tn_value *f8 = tn_value_borrow(&t, TN_EL_F8E5M2), *u8 = tn_value_borrow(&t, 0), *keys = tn_value_strings(words, NULL, 1, DIMS(2));
  tn_value *in[3] = {tn_value_list((tn_value *[]){f8, f8}, 2), tn_value_map(keys, u8), f8}, *out[3];
  run_ok(s, in, out);
  assert_int_equal(tn_value_n(out[0]), 2);
  const tn_value *item = tn_value_item(out[0], 1);
  assert_int_equal(tn_value_elem(item), TN_EL_F8E5M2);
  assert_ptr_not_equal(tn_value_tensor(item)->data, x);
  assert_memory_equal(tn_value_tensor(item)->data, x, 2);
  assert_int_equal(tn_value_get_kind(out[1]), TN_VALUE_MAP);
  assert_string_equal(tn_value_string(tn_value_item(out[1], 0), 1, NULL), "b");
  assert_ptr_not_equal(tn_value_tensor(tn_value_item(out[1], 1))->data, x);
  assert_int_equal(tn_value_elem(out[2]), TN_EL_F8E5M2);
  for (int i = 0; i < 3; i++) tn_value_release(out[i]);
  in[2] = u8;
  assert_int_equal(tn_session_run(s, in, out), TN_E_ARG);
  expect_says(tn_session_error(s), "input 2 't': element type is u8, wanted f8e5m2");
  tn_value_release(in[0]);
  in[0] = tn_value_list(&u8, 1);
  in[2] = f8;
  assert_int_equal(tn_session_run(s, in, out), TN_E_ARG);
  expect_says(tn_session_error(s), "input 0 'l': item 0 is tensor u8[2]");
  tn_value_release(in[0]);
  tn_value_release(in[1]);
  tn_value_release(f8);
  tn_value_release(u8);
  tn_value_release(keys);
  tn_session_destroy(s);
  tn_model_release(m);
}

/* Plans of a session share one arena: what one computes there is gone when the next runs, and an arena that grows under another's feet is
 * noticed. Both plans go through the arena: 4x by doubling twice. */
#define PLAN_FOUR(name) \
  "plan \"" name "\" {\n  sym s0, range 0..max, input 0 dim 0\n  in 0 f32[s0], strides [1]\n  buf 0 input 0\n  buf 1 output 0\n  buf 2 arena, bytes 4*s0, steps 0..1\n" \
  "  view 0 buf 0, f32[s0], strides [1]\n  view 1 buf 1, f32[s0], strides [1]\n  view 2 buf 2, f32[s0], strides [1]\n" \
  "  kernel 0 \"k_scale\", params 2, sizes 1, object 1, hash 0000000000000000\n  step 0 launch 0 (0, 2), sizes [s0], blocks s0, grain 64\n" \
  "  step 1 launch 0 (2, 1), sizes [s0], blocks s0, grain 64\n  out 0 view 1\n}\n"
static void test_shared_arena(void **state) {
  (void)state;
  tn_model *m = model_of("module \"two\" {\n  in 0 tensor f32 any, \"x\"\n  in 1 tensor f32 any, \"y\"\n  out 0 tensor f32 any, \"a\"\n  out 1 tensor f32 any, \"b\"\n"
                         "  func 0 \"main\" (1, 2) -> (3, 4), slots 4 {\n    call 0 (1) -> (3)\n    call 1 (2) -> (4)\n  }\n}\n" PLAN_FOUR("a") PLAN_FOUR("b"));
  tn_session *s = session_of(m, 2);
  static float x[100000];
  for (int i = 0; i < 100000; i++) x[i] = (float)i;
  static const int64_t sizes[][2] = {{8, 8}, {8, 3000}, {8, 3000}, {8, 90000}, {100000, 5}, {8, 90000}};
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
    tn_value *in[2] = {f32s(x, sizes[k][0]), f32s(x, sizes[k][1])}, *out[2];
    run_ok(s, in, out);
    for (int j = 0; j < 2; j++) {
      assert_int_equal(tn_value_n(out[j]), sizes[k][j]);
      for (int64_t i = 0; i < sizes[k][j]; i++) assert_true(((const float *)tn_value_tensor(out[j])->data)[i] == 4 * x[i]);
      tn_value_release(out[j]);
      tn_value_release(in[j]);
    }
  }
  tn_session_stats st;
  tn_session_get_stats(s, &st);
  assert_true(st.arena_bytes >= 400000 && st.arena_bytes < 600000);
  tn_session_destroy(s);
  tn_model_release(m);
}

/* ---- wear ---- */

static tn_status try_all(tn_module *m) {
  tn_diag d = {0};
  tn_model *o = NULL;
  tn_session *s = NULL;
  float x[3] = {1, 2, 3};
  uint8_t yes = 1;
  int64_t three = 3;
  tn_tensor t = {&yes, NULL, NULL, 0, TN_BOOL}, tn = {&three, NULL, NULL, 0, TN_I64};
  tn_session_options so;
  tn_session_options_init(&so);
  so.threads = 1;
  tn_value *in[4] = {tn_value_copy(&tn, 0), NULL, f32s(x, 3), tn_value_borrow(&t, 0)}, *out[3] = {0};
  tn_status st = tn_model_create(&d, m, &o);
  if (st == TN_OK) st = tn_session_create(o, &so, &s);
  if (st == TN_OK && (!in[0] || !in[2] || !in[3])) st = TN_E_NOMEM;
  if (st == TN_OK) st = tn_session_run(s, in, out);
  tn_malloc_fail_after(0);
  if (st == TN_E_NOMEM && s && in[0] && in[2] && in[3]) { /* it works afterwards */
    for (int i = 0; i < 3; i++) assert_null(out[i]);
    run_ok(s, in, out);
  }
  if (out[0]) expect_f32(out[0], (float[]){8, 16, 24}, 3);
  for (int i = 0; i < 3; i++) tn_value_release(out[i]);
  for (int i = 0; i < 4; i++) tn_value_release(in[i]);
  tn_session_destroy(s);
  tn_model_release(o);
  return st;
}

static void test_nomem(void **state) {
  (void)state;
  tn_status st = TN_E_NOMEM;
  for (int64_t n = 1; st != TN_OK; n++) {
    tn_diag d;
    tn_module *m;
    assert_int_equal(tn_module_parse(&d, loops, strlen(loops), &m), TN_OK);
    m->plan[0]->kernel[0].object = test_object;
    m->plan[0]->kernel[0].object_bytes = test_object_n;
    tn_malloc_fail_after(n);
    st = try_all(m);
    assert_true(st == TN_OK || st == TN_E_NOMEM);
    assert_true(n < 2000);
  }
}

enum { THREADS = 4, CALLS = 500 };
typedef struct job { tn_model *m; uint64_t seed; int bad; int64_t allocs; } job;

static void *soak(void *ctx) {
  job *j = ctx;
  tn_session *s = session_of(j->m, 1 + (int)j->seed % 2);
  float *x = malloc(5000 * sizeof *x);
  for (int i = 0; i < 5000; i++) x[i] = (float)i;
  for (int c = 0; c < CALLS; c++) {
    j->seed = j->seed * 6364136223846793005u + 1442695040888963407u;
    int64_t n = (int64_t)(j->seed >> 40) % 4, len = (int64_t)(j->seed >> 33) % 5000;
    tn_value *in[2] = {i64(n), f32s(x, len)}, *out[1];
    if (tn_session_run(s, in, out) != TN_OK) return j->bad++, NULL;
    const float *y = tn_value_tensor(out[0])->data;
    for (int64_t i = 0; i < len; i++) j->bad += y[i] != x[i] * (float)(1 + n * n);
    tn_value_release(out[0]);
    tn_value_release(in[0]);
    tn_value_release(in[1]);
  }
  tn_session_stats st;
  tn_session_get_stats(s, &st);
  j->bad += st.calls != CALLS;
  free(x);
  tn_session_destroy(s);
  return NULL;
}

static void test_soak(void **state) {
  (void)state;
  tn_model *m = model_of(nested);
  pthread_t t[THREADS];
  job j[THREADS];
  for (int i = 0; i < THREADS; i++) {
    j[i] = (job){.m = m, .seed = (uint64_t)i + 1};
    assert_int_equal(pthread_create(&t[i], NULL, soak, &j[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(t[i], NULL);
    assert_int_equal(j[i].bad, 0);
  }
  tn_model_release(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_single), cmocka_unit_test(test_outputs), cmocka_unit_test(test_strides), cmocka_unit_test(test_errors),
                                     cmocka_unit_test(test_branch), cmocka_unit_test(test_loop),    cmocka_unit_test(test_nested),  cmocka_unit_test(test_ragged),
                                     cmocka_unit_test(test_lists),  cmocka_unit_test(test_shared_arena),  cmocka_unit_test(test_nomem),   cmocka_unit_test(test_soak)};
  return cmocka_run_group_tests(tests, load_object, free_object);
}

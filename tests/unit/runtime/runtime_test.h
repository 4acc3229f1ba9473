/* What the run time's tests share: programs from plan text with the kernels of tests/objects, short tensors. */
#ifndef RUNTIME_TEST_H
#define RUNTIME_TEST_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "runtime/runtime.h"

static char *test_object;
static size_t test_object_n;

static int load_object(void **state) {
  (void)state;
  tn_diag d;
  if (tn_file_read(&d, TN_OBJECTS_DIR "/kernels.pic.o", 1 << 20, &test_object, &test_object_n) != TN_OK) fail_msg("%s", d.text);
  return 0;
}
static inline int free_object(void **state) {
  (void)state;
  tn_free(test_object);
  return 0;
}

/* The plan of a text, its kernels given the test object. */
static tn_status read_plan(tn_diag *d, const char *text, tn_plan **out) {
  tn_diag_clear(d);
  TN_TRY(tn_plan_parse(d, text, strlen(text), out));
  for (uint32_t i = 0; i < (*out)->n_kernel; i++) {
    (*out)->kernel[i].object = test_object;
    (*out)->kernel[i].object_bytes = test_object_n;
  }
  return TN_OK;
}

static inline tn_program *program_of(const char *text) {
  tn_diag d;
  tn_plan *p;
  tn_program *g;
  if (read_plan(&d, text, &p) != TN_OK || tn_program_create(&d, p, &g) != TN_OK) fail_msg("%s", d.text);
  return g;
}

static inline tn_run *run_of(const tn_program *g, int threads) {
  tn_run_options o;
  tn_run *r;
  tn_run_options_init(&o);
  o.threads = threads;
  assert_int_equal(tn_run_create(g, &o, &r), TN_OK);
  return r;
}

static inline void bind_ok(tn_run *r, const tn_tensor *in, const uint64_t *key) {
  if (tn_run_bind(r, in, key) != TN_OK) fail_msg("%s", tn_run_error(r));
}
static inline void exec_ok(tn_run *r, tn_tensor *out) {
  if (tn_run_exec(r, out) != TN_OK) fail_msg("%s", tn_run_error(r));
}
static inline void expect_says(const char *text, const char *say) {
  if (!strstr(text, say)) fail_msg("'%s' does not say '%s'", text, say);
}

/* Numbers that stay valid for a good while: a ring of lists, since tensors only point to their shapes. */
static inline const int64_t *keep_dims(const int64_t *v, size_t n) {
  static int64_t ring[256][4];
  static size_t at;
  int64_t *to = ring[at++ % 256];
  assert_true(n <= 4);
  memcpy(to, v, n * sizeof *v);
  return to;
}
#define DIMS(...) keep_dims((const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

/* Under the address sanitizer too, an impossible allocation is NULL. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "allocator_may_return_null=1"; }
#endif

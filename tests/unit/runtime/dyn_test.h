/* What the tests of dynamic operators share: one operator called by hand, values in and out in one line each. */
#ifndef DYN_TEST_H
#define DYN_TEST_H
#include <setjmp.h>
#include <stdarg.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "runtime/dyn.h"

#define DIMS(...) ((int64_t[]){__VA_ARGS__})
#define I64(...) ((int64_t[]){__VA_ARGS__})
#define F32(...) ((float[]){__VA_ARGS__})
#define F64(...) ((double[]){__VA_ARGS__})
#define STRS(...) ((const char *[]){__VA_ARGS__})

/* One call: attributes and operands are added, then run; results stay until the next start. */
typedef struct call {
  tn_diag d;
  tn_mstep step;
  tn_mattr attr[20];
  tn_mstr str[64];
  uint32_t n_str;
  int64_t one[20];
  tn_value *in[8], *out[4];
  uint32_t slot[4], n_in;
  uint64_t seed;
  tn_pool *pool;
} call;

static inline void finish(call *c) {
  for (int i = 0; i < 8; i++) tn_value_release(c->in[i]);
  for (int i = 0; i < 4; i++) tn_value_release(c->out[i]);
  memset(c, 0, sizeof *c);
}

static inline tn_mattr *attr(call *c, const char *name, tn_mattr_kind kind, uint32_t n) {
  tn_mattr *a = &c->attr[c->step.n_attr++];
  *a = (tn_mattr){.name = name, .kind = kind, .n = n};
  return a;
}
static inline void a_int(call *c, const char *name, int64_t v) {
  int64_t *p = &c->one[c->step.n_attr];
  *p = v;
  attr(c, name, TN_MA_INT, 1)->u.i = p;
}
static inline void a_ints(call *c, const char *name, const int64_t *v, uint32_t n) { attr(c, name, TN_MA_INTS, n)->u.i = v; }
static inline void a_floats(call *c, const char *name, const double *v, uint32_t n) { attr(c, name, TN_MA_FLOATS, n)->u.f = v; }
static inline void a_strs(call *c, const char *name, const char *const *v, uint32_t n) {
  tn_mstr *s = &c->str[c->n_str];
  for (uint32_t i = 0; i < n; i++) c->str[c->n_str++] = (tn_mstr){v[i], strlen(v[i])};
  attr(c, name, TN_MA_STRS, n)->u.s = s;
}
static inline void a_str(call *c, const char *name, const char *v) {
  a_strs(c, name, &v, 1);
  c->attr[c->step.n_attr - 1].kind = TN_MA_STR;
}

static inline void put(call *c, tn_value *v) {
  assert_non_null(v);
  c->in[c->n_in++] = v;
}
static inline tn_value *tensor(tn_dtype t, int rank, const int64_t *dim, const void *p) {
  tn_tensor x = {.data = (void *)(uintptr_t)p, .shape = dim, .rank = rank, .dtype = t};
  return tn_value_copy(&x, 0);
}
static inline tn_value *strings(int rank, const int64_t *dim, const char *const *s) { return tn_value_strings(s, NULL, rank, dim); }
static inline tn_value *i64(int64_t v) { return tensor(TN_I64, 0, NULL, &v); }

static inline tn_status run(call *c, tn_dyn_fn fn) {
  c->step.attr = c->attr;
  for (int i = 0; i < 4; i++) { c->slot[i] = (uint32_t)i + 1; tn_value_release(c->out[i]); c->out[i] = NULL; }
  c->step.out = c->slot;
  c->step.n_out = 4;
  tn_diag_clear(&c->d);
  tn_dyn_ctx x = {.d = &c->d, .step = &c->step, .name = "op", .in = c->in, .out = c->out, .n_in = c->n_in, .n_out = 4, .pool = c->pool, .seed = &c->seed};
  return fn(&x);
}
static inline void ok(call *c, tn_dyn_fn fn) {
  if (run(c, fn) != TN_OK) fail_msg("%s", c->d.text);
}

static inline void shape_is(const tn_value *v, int rank, const int64_t *dim) {
  assert_non_null(v);
  const tn_tensor *t = tn_value_tensor(v);
  assert_non_null(t);
  assert_int_equal(t->rank, rank);
  for (int i = 0; i < rank; i++) assert_int_equal(t->shape[i], dim[i]);
}
static inline void ints_are(const tn_value *v, int rank, const int64_t *dim, const int64_t *want) {
  shape_is(v, rank, dim);
  for (int64_t i = 0; i < v->n; i++) assert_int_equal(tn_value_int(v, i), want[i]);
}
static inline void floats_are(const tn_value *v, int rank, const int64_t *dim, const float *want, float tol) {
  shape_is(v, rank, dim);
  assert_int_equal(v->elem, TN_EL_F32);
  for (int64_t i = 0; i < v->n; i++) assert_float_equal(((const float *)v->t.data)[i], want[i], tol);
}
static inline void strings_are(const tn_value *v, int rank, const int64_t *dim, const char *const *want) {
  shape_is(v, rank, dim);
  assert_int_equal(v->kind, TN_VALUE_STRINGS);
  for (int64_t i = 0; i < v->n; i++) assert_string_equal(tn_value_string(v, (size_t)i, NULL), want[i]);
}
/* The same call with the n-th allocation failing, for every n: no memory, or the result. */
static inline void survives_nomem(call *c, tn_dyn_fn fn) {
  for (int64_t n = 1; n < 200; n++) {
    tn_malloc_fail_after(n);
    tn_status st = run(c, fn);
    tn_malloc_fail_after(0);
    if (st == TN_OK) return;
    assert_int_equal(st, TN_E_NOMEM);
  }
  fail_msg("still no memory");
}
#endif

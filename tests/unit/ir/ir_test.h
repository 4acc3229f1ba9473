/* ir_test.h: what the unit tests of room ir share: a session, parsing, printing, a seeded random generator. */
#ifndef TN_IR_TEST_H
#define TN_IR_TEST_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "ir/ir.h"

typedef struct session {
  tn_arena arena;
  tn_dims *dims;
  tn_diag diag;
  tn_str text;
} session;

static inline void session_init(session *s) {
  tn_arena_init(&s->arena);
  tn_diag_clear(&s->diag);
  tn_str_init(&s->text);
  s->dims = tn_dims_create();
}

static inline void session_deinit(session *s) {
  tn_arena_deinit(&s->arena);
  tn_str_deinit(&s->text);
  tn_dims_destroy(s->dims);
}

static inline int setup(void **state) {
  session *s = calloc(1, sizeof *s);
  if (!s) return -1;
  session_init(s);
  *state = s;
  return s->dims ? 0 : -1;
}

static inline int teardown(void **state) {
  session_deinit(*state);
  free(*state);
  return 0;
}

static inline tn_status parse(session *s, const char *text, tn_graph **out) {
  tn_diag_clear(&s->diag);
  return tn_graph_parse(&s->diag, &s->arena, s->dims, text, strlen(text), out);
}

static inline tn_graph *must_parse(session *s, const char *text) {
  tn_graph *g;
  tn_status st = parse(s, text, &g);
  if (st != TN_OK) print_error("%s\n%s\n", s->diag.text, text);
  assert_int_equal(st, TN_OK);
  return g;
}

static inline void must(session *s, tn_status st) {
  if (st != TN_OK) print_error("%s\n", s->diag.text);
  assert_int_equal(st, TN_OK);
}

/* Valid until the next call. */
static inline const char *show(session *s, const tn_graph *g, unsigned flags) {
  s->text.n = 0;
  tn_graph_print(g, flags, &s->text);
  assert_false(s->text.oom);
  return s->text.s;
}

static inline char *copy_text(const char *s) {
  char *t = malloc(strlen(s) + 1);
  assert_non_null(t);
  return strcpy(t, s);
}

/* In a session of its own: nothing but the text may carry over. */
static inline void same_after_reading(const char *text, unsigned flags) {
  session s;
  session_init(&s);
  tn_graph *g = must_parse(&s, text);
  assert_string_equal(show(&s, g, flags), text);
  session_deinit(&s);
}

static inline uint64_t next_random(uint64_t *seed) { /* splitmix64 */
  uint64_t z = (*seed += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}
static inline uint32_t below(uint64_t *seed, uint32_t n) { return (uint32_t)(next_random(seed) % n); }
#endif

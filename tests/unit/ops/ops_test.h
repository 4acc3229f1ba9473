/* What the tests of room ops share: a graph from text in a world that one call makes and one frees. */
#ifndef TN_OPS_TEST_H
#define TN_OPS_TEST_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "ops/ops.h"

typedef struct world { tn_arena a; tn_dims *dims; tn_diag d; tn_graph *g; } world;

static inline void world_open(world *w, const char *text) {
  memset(w, 0, sizeof *w);
  tn_arena_init(&w->a);
  tn_diag_clear(&w->d);
  w->dims = tn_dims_create();
  assert_non_null(w->dims);
  if (tn_graph_parse(&w->d, &w->a, w->dims, text, strlen(text), &w->g) != TN_OK) {
    print_error("%s\n%s\n", w->d.text, text);
    fail();
  }
}
static inline void world_close(world *w) {
  tn_arena_deinit(&w->a);
  tn_dims_destroy(w->dims);
}
/* The first node of the graph that is not an input. */
static inline const tn_node *first_node(const tn_graph *g) {
  for (uint32_t id = 1; id < g->n_nodes; id++)
    if (g->node[id].op != TN_OP_INPUT) return &g->node[id];
  return NULL;
}
#define HOLDS(text, piece) do { if (!strstr((text), (piece))) { print_error("'%s' is not in '%s'\n", (piece), (text)); fail(); } } while (0)
#endif

/* Graph text through all passes: whatever verifies must come out verified, and nothing may crash, hang or leak, whichever allocation
 * fails. Seeds are the golden tests: lines of '#' are dropped and the text ends at "# expect:". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "passes/passes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { MAX_NODES = 400 };
static size_t graph_text(const uint8_t *data, size_t n, char *out) {
  size_t m = 0;
  for (size_t i = 0; i < n;) {
    const uint8_t *end = memchr(data + i, '\n', n - i);
    size_t len = end ? (size_t)(end - (data + i)) + 1 : n - i;
    if (len > 8 && memcmp(data + i, "# expect", 8) == 0) break;
    if (data[i] != '#') {
      memcpy(out + m, data + i, len);
      m += len;
    }
    i += len;
  }
  return m;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static const char *const lists[] = {"default", "decompose,fuse", "decompose,settle,settle,fuse", "decompose,cse,simplify,fold,fuse"};
  tn_arena a, scratch;
  tn_graph *g = NULL;
  tn_diag d;
  tn_dims *dims = tn_dims_create();
  char *text = malloc(n + 1);
  tn_arena_init(&a);
  tn_arena_init(&scratch);
  tn_diag_clear(&d);
  size_t m = text ? graph_text(data, n, text) : 0;
  bool ok = text && dims && tn_graph_parse(&d, &a, dims, text, m, &g) == TN_OK && g->n_nodes < MAX_NODES;
  ok = ok && tn_graph_verify(&d, g) == TN_OK && tn_ops_verify(&d, g) == TN_OK;
  if (ok) {
    tn_pass_ctx p = {.d = &d, .scratch = &scratch, .profile = tn_profile_find(n % 5 ? "default" : "dvm"), .allow_host_calls = true, .verify = true};
    tn_status s = tn_passes_run(&p, g, lists[n % 4]);
    void *probe = tn_malloc(1); /* memory is failing: anything that says so is fine, also a dim that could not be made */
    bool failing = !probe;
    tn_free(probe);
    if (s != TN_OK && s != TN_E_NOMEM && !failing) {
      fprintf(stderr, "fuzz_passes: %s: %s\n%.*s\n", tn_status_name(s), d.text, (int)m, text);
      abort();
    }
  }
  free(text);
  tn_arena_deinit(&a);
  tn_arena_deinit(&scratch);
  tn_dims_destroy(dims);
  return 0;
}

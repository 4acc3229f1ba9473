/* Graph text: parse -> verify -> print -> parse -> print must be the identity, and what verifies must compact to something that
 * verifies. Whatever the bytes are, and whichever allocation fails, nothing may crash, hang or leak. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ir/ir.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check(bool ok, const char *what, const tn_diag *d, const char *text) {
  if (ok) return;
  fprintf(stderr, "fuzz_graph: %s\n%s\n%s\n", what, d->text, text ? text : "");
  abort();
}

/* Text of g must read back, in a fresh table, to the same text. */
static void check_text(const tn_graph *g) {
  tn_str first, second;
  tn_arena a;
  tn_graph *h;
  tn_diag d;
  tn_dims *dims = tn_dims_create();
  tn_str_init(&first);
  tn_str_init(&second);
  tn_arena_init(&a);
  tn_diag_clear(&d);
  tn_graph_print(g, TN_PRINT_PROV, &first);
  tn_malloc_fail_after(0);
  if (dims && !first.oom && !strstr(first.s, "data=#")) { /* a constant without its bytes is refused, and rightly */
    check(tn_graph_parse(&d, &a, dims, first.s, first.n, &h) == TN_OK, "printed text does not parse", &d, first.s);
    tn_graph_print(h, TN_PRINT_PROV, &second);
    check(first.n == second.n && memcmp(first.s, second.s, first.n) == 0, "text changes when it is read and printed", &d, first.s);
  }
  tn_str_deinit(&first);
  tn_str_deinit(&second);
  tn_arena_deinit(&a);
  tn_dims_destroy(dims);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  tn_arena a;
  tn_graph *g;
  tn_diag d;
  tn_dims *dims = tn_dims_create();
  tn_arena_init(&a);
  tn_diag_clear(&d);
  if (dims && tn_graph_parse(&d, &a, dims, (const char *)data, n, &g) == TN_OK) {
    if (n % 2) check_text(g); /* half of the inputs before compaction; that ends failing allocations */
    tn_status verified = tn_graph_verify(&d, g);
    check(verified == TN_OK || verified == TN_E_VERIFY || verified == TN_E_NOMEM, "verify gives another code", &d, NULL);
    tn_status compacted = verified == TN_OK ? tn_graph_compact(&d, g) : TN_OK;
    check(compacted == TN_OK || compacted == TN_E_NOMEM, "a verified graph does not compact", &d, NULL);
    check_text(g);
    if (verified == TN_OK) check(tn_graph_verify(&d, g) == TN_OK, "a compacted graph does not verify", &d, NULL);
  } else if (dims) {
    check(d.code == TN_E_PARSE || d.code == TN_E_NOMEM, "refused with another code", &d, NULL);
  }
  tn_arena_deinit(&a);
  tn_dims_destroy(dims);
  return 0;
}

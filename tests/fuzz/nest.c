/* Nest text: parse -> print -> parse -> print must be the identity, the verifier must take or refuse, and a small nest that
 * verifies must become an object or be refused by name. Whatever the bytes are, and whichever allocation fails, nothing may
 * crash, hang or leak. Nothing is run: addresses in a nest are on trust. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "codegen/codegen.h"
#include "kir/nest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check(bool ok, const char *what, const tn_diag *d, const char *text) {
  if (ok) return;
  fprintf(stderr, "fuzz_nest: %s\n%s\n%s\n", what, d->text, text ? text : "");
  abort();
}

static void check_text(const tn_nest *n) {
  tn_str first, second;
  tn_arena a;
  tn_nest *m;
  tn_diag d;
  tn_str_init(&first);
  tn_str_init(&second);
  tn_arena_init(&a);
  tn_diag_clear(&d);
  tn_nest_print(n, &first);
  tn_malloc_fail_after(0);
  if (!first.oom) {
    check(tn_nest_parse(&d, &a, first.s, first.n, &m) == TN_OK, "printed text does not parse", &d, first.s);
    tn_nest_print(m, &second);
    check(first.n == second.n && memcmp(first.s, second.s, first.n) == 0, "text changes when it is read and printed", &d, first.s);
  }
  tn_str_deinit(&first);
  tn_str_deinit(&second);
  tn_arena_deinit(&a);
}

/* LLVM takes milliseconds: only every so often, and only small nests of narrow vectors. */
static void check_object(const tn_nest *n) {
  static unsigned turn;
  uint64_t lanes = 0;
  for (uint32_t k = 1; k < n->n; k++) lanes += n->inst[k].vt.lanes;
  if (turn++ % 16 || n->n > 60 || lanes > 600) return;
  tn_target t;
  tn_diag d;
  void *bytes = NULL;
  size_t size = 0;
  tn_target_init(&t, turn % 32 < 16 ? TN_LEVEL_V4 : TN_LEVEL_V3);
  tn_diag_clear(&d);
  tn_status s = tn_codegen_object(&d, n, &t, &bytes, &size, NULL);
  check(s == TN_OK || s == TN_E_NOMEM || (s == TN_E_INTERNAL && strstr(d.text, "reached the emitter")), "a verified nest yields no object", &d, NULL);
  tn_free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  tn_arena a;
  tn_nest *nest;
  tn_diag d;
  tn_arena_init(&a);
  tn_diag_clear(&d);
  if (tn_nest_parse(&d, &a, (const char *)data, n, &nest) == TN_OK) {
    if (n % 2) check_text(nest); /* half of the inputs; that ends failing allocations */
    tn_status verified = tn_nest_verify(&d, nest);
    check(verified == TN_OK || verified == TN_E_VERIFY || verified == TN_E_NOMEM, "verify gives another code", &d, NULL);
    if (verified == TN_OK) check_object(nest);
  } else {
    check(d.code == TN_E_PARSE || d.code == TN_E_NOMEM, "refused with another code", &d, NULL);
  }
  tn_arena_deinit(&a);
  return 0;
}

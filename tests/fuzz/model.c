/* ONNX bytes through the compiler up to machine code: what imports is split, goes through the passes and is lowered; each plan and the module must verify. Models
 * that would take long for their size are left alone. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "frontend/onnx/onnx.h"
#include "lower/lower.h"
#include "passes/passes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "allocator_may_return_null=1"; }

static tn_status one(tn_diag *d, tn_arena *a, tn_graph *g, const tn_target *t, tn_kernel_pool *pool, tn_lowered *low) {
  tn_arena scratch;
  tn_arena_init(&scratch);
  tn_pass_ctx p = {.d = d, .scratch = &scratch, .profile = tn_profile_find("default"), .target = t, .allow_host_calls = true};
  tn_status s = tn_passes_run(&p, g, "default");
  tn_arena_deinit(&scratch);
  tn_lower_options o = {.target = t, .threads = 4, .pool = pool};
  return s == TN_OK ? tn_lower(d, a, g, &o, low) : s;
}

/* False: a plan or the module breaks a rule. */
static bool whole(tn_diag *d, tn_arena *a, const tn_unit *u) {
  tn_split sp;
  tn_target t;
  tn_kernel_pool pool = {0};
  tn_target_init(&t, TN_LEVEL_V4);
  if (tn_split_unit(d, a, u, &sp) != TN_OK) return true;
  tn_status s = TN_OK;
  for (uint32_t i = 0; i < sp.n_graph && s == TN_OK; i++) {
    tn_lowered low;
    s = one(d, a, sp.graph[i], &t, &pool, &low);
    if (s == TN_OK) sp.module->plan[sp.module->n_plan++] = low.plan;
  }
  if (s == TN_OK) s = tn_module_verify(d, sp.module);
  tn_kernel_pool_deinit(&pool);
  tn_module_destroy(sp.module);
  return s != TN_E_VERIFY && s != TN_E_INTERNAL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  enum { MOST_NODES = 400 };
  tn_dims *dims = tn_dims_create();
  tn_arena a;
  tn_diag d;
  tn_unit *u;
  uint32_t nodes = 0;
  tn_arena_init(&a);
  tn_diag_clear(&d);
  if (dims && tn_onnx_import(&d, &a, dims, data, n, NULL, &u) == TN_OK) {
    for (uint32_t k = 0; k < u->n_func; k++) nodes += u->func[k]->n_nodes;
    if (nodes < MOST_NODES && !whole(&d, &a, u)) {
      tn_malloc_fail_after(0); /* not for want of memory, which shows as sizes that have no expression, too */
      tn_diag_clear(&d);
      if (!whole(&d, &a, u)) {
        fprintf(stderr, "%s\n", d.text);
        abort();
      }
    }
  }
  tn_arena_deinit(&a);
  tn_dims_destroy(dims);
  return 0;
}

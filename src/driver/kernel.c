/* kernel.c: one kernel from its text, to any later form. What dumps print is what this reads: a kernel can be looked at, changed and
 * rebuilt alone. */
#include <stdio.h>
#include <string.h>
#include "codegen/codegen.h"
#include "device/cpu/cpuid.h"
#include "driver/driver_int.h"
#include "kir/def.h"
#include "kir/nest.h"
#include "kir/sched.h"

typedef struct work {
  tn_arena a;
  tn_dims *dims;
  tn_diag d;
  tn_target target;
  tn_str text;
  void *object;
  size_t object_n;
} work;

static tn_status build(work *w, const char *def, size_t def_n, const char *sched, size_t sched_n, const char *isa, const char *what) {
  tn_level level;
  tn_kdef *k;
  tn_ksched *s;
  tn_nest *n;
  tn_nest_info info;
  static const char *const known[] = {"def", "sched", "nest", "ll", "obj"};
  bool ok = false;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) ok |= !strcmp(what, known[i]);
  if (!ok) return tn_fail(&w->d, TN_E_ARG, "'%s' is no form of a kernel; known: def, sched, nest, ll, obj", what);
  TN_TRY(tn_cpu_detect(&w->target));
  if (isa && *isa) {
    if (!tn_target_level_parse(isa, strlen(isa), &level))
      return tn_fail(&w->d, TN_E_ARG, "'%s' is no instruction set; known: avx2, avx512, amx", isa);
    tn_target_limit(&w->target, level);
  }
  w->dims = tn_dims_create();
  if (!w->dims) return tn_fail(&w->d, TN_E_NOMEM, "dims of a kernel");
  TN_TRY_WHILE(&w->d, tn_kdef_parse(&w->d, &w->a, w->dims, def, def_n, &k), "reading the definition");
  TN_TRY_WHILE(&w->d, tn_kdef_verify(&w->d, k), "checking the definition");
  if (!strcmp(what, "def")) {
    tn_kdef_print(k, &w->text);
    return TN_OK;
  }
  if (sched) {
    TN_TRY_WHILE(&w->d, tn_ksched_parse(&w->d, &w->a, k, sched, sched_n, &s), "reading the schedule");
  } else
    TN_TRY_WHILE(&w->d, tn_sched_choose(&w->d, &w->a, k, &w->target, (int)w->target.cores, &s), "choosing a schedule");
  TN_TRY_WHILE(&w->d, tn_ksched_verify(&w->d, k, s), "checking the schedule");
  if (!strcmp(what, "sched")) {
    tn_ksched_print(s, k, &w->text);
    tn_str_add(&w->text, "\n");
    return TN_OK;
  }
  TN_TRY(tn_nest_build(&w->d, &w->a, k, s, &w->target, &n, &info));
  TN_TRY_WHILE(&w->d, tn_nest_verify(&w->d, n), "checking the loops");
  if (!strcmp(what, "nest")) {
    tn_nest_print(n, &w->text);
    return TN_OK;
  }
  bool ll = !strcmp(what, "ll");
  return tn_codegen_object(&w->d, n, &w->target, &w->object, &w->object_n, ll ? &w->text : NULL);
}

tn_status tn_kernel_build(const char *def, size_t def_n, const char *sched, size_t sched_n, const char *isa, const char *what, char **out,
                          size_t *out_n, char *error, size_t error_n) {
  work *w = tn_calloc(1, sizeof *w);
  *out = NULL;
  *out_n = 0;
  if (error && error_n) error[0] = 0;
  if (!w) return TN_E_NOMEM;
  tn_arena_init(&w->a);
  tn_str_init(&w->text);
  tn_status s = build(w, def, def_n, sched, sched_n, isa, what);
  if (s == TN_OK) {
    bool obj = !strcmp(what, "obj");
    const void *from = obj ? w->object : w->text.s;
    size_t n = obj ? w->object_n : w->text.n;
    *out = w->text.oom ? NULL : tn_malloc(n + 1);
    if (*out) {
      if (n) memcpy(*out, from, n);
      (*out)[n] = 0;
      *out_n = n;
    } else
      s = tn_fail(&w->d, TN_E_NOMEM, "result of %zu bytes", n);
  }
  if (s != TN_OK && error && error_n) snprintf(error, error_n, "%s", w->d.text);
  tn_free(w->object);
  tn_str_deinit(&w->text);
  if (w->dims) tn_dims_destroy(w->dims);
  tn_arena_deinit(&w->a);
  tn_free(w);
  return s;
}

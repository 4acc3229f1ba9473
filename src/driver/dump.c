/* dump.c: every level of a compile as numbered text files (TENON_DUMP, options.dump_dir). Printed forms are inputs again. */
#include <stdio.h>
#include <string.h>
#include "driver/driver_int.h"
#include "kir/def.h"
#include "kir/nest.h"
#include "kir/sched.h"

void tn_dump(tn_compiled *c, const char *name, const char *text, size_t n) {
  if (!c->dump || !*c->dump || !text) return;
  tn_diag d = {0};
  char *path = tn_arena_printf(&c->keep, "%s/%02u.%s", c->dump, c->dump_no++, name);
  if (!path || tn_dir_make(&d, c->dump) != TN_OK || tn_file_write(&d, path, text, n) != TN_OK)
    tn_log("stages", "dump %s not written: %s", name, d.text);
}

void tn_dump_graph(tn_compiled *c, const char *name, const tn_graph *g) {
  if (!c->dump || !*c->dump) return;
  tn_str s;
  tn_str_init(&s);
  tn_graph_print(g, TN_PRINT_PROV, &s);
  if (!s.oom) tn_dump(c, name, s.s, s.n);
  tn_str_deinit(&s);
}

void tn_dump_plan(tn_compiled *c, const tn_plan *p) {
  if (!c->dump || !*c->dump) return;
  tn_str s;
  tn_str_init(&s);
  tn_plan_print(p, &s);
  if (!s.oom) tn_dump(c, "plan.tnplan", s.s, s.n);
  tn_str_deinit(&s);
}

void tn_dump_kernels(tn_compiled *c) {
  if (!c->dump || !*c->dump) return;
  for (uint32_t i = 0; i < c->pool.n_kernel; i++) {
    const tn_lowered_kernel *k = &c->pool.kernel[i];
    char name[160];
    tn_str s;
    tn_str_init(&s);
    tn_kdef_print(k->def, &s);
    snprintf(name, sizeof name, "%s.def", k->def->name);
    if (!s.oom) tn_dump(c, name, s.s, s.n);
    tn_str_deinit(&s);
    tn_str_init(&s);
    tn_ksched_print(k->sched, k->def, &s);
    tn_str_add(&s, "\n");
    snprintf(name, sizeof name, "%s.sched", k->def->name);
    if (!s.oom) tn_dump(c, name, s.s, s.n);
    tn_str_deinit(&s);
    tn_str_init(&s);
    tn_nest_print(k->nest, &s);
    snprintf(name, sizeof name, "%s.nest", k->def->name);
    if (!s.oom) tn_dump(c, name, s.s, s.n);
    tn_str_deinit(&s);
  }
}

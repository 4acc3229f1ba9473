/* compile.c: the whole pipeline as one readable list. The seven stages of docs/tour.md:
 *   1 capture (text to graph)   2 decompose   3 post-grad hook (empty by default)   4 graph passes and fusion
 *   5 kernels: definitions, schedules, loops, plan   6 machine code   7 load
 * TENON_LOG=stages prints one line a stage; TENON_DUMP=dir writes every level. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "device/cpu/cpuid.h"
#include "device/device.h"
#include "driver/driver_int.h"
#include "frontend/fx/fx.h"
#include "passes/passes.h"
#include "runtime/runtime.h"

static const char *stage_name[TN_N_STAGES] = {"capture", "decompose", "post-grad", "passes", "kernels", "codegen", "load"};

void tn_compile_options_init(tn_compile_options *o) {
  memset(o, 0, sizeof *o);
  o->struct_size = sizeof *o;
}

void tn_compiled_stage(tn_compiled *c, int i, uint32_t n_in, uint32_t n_out, uint64_t ns, bool skipped) {
  c->stage[i] = (tn_stage){stage_name[i], n_in, n_out, ns, skipped};
  if (skipped)
    tn_log("stages", "stage %d %-9s skipped", i + 1, stage_name[i]);
  else
    tn_log("stages", "stage %d %-9s %6u -> %-6u %8.2f ms", i + 1, stage_name[i], n_in, n_out, (double)ns / 1e6);
}

static void after_pass(void *user, const char *pass, const tn_graph *g, uint64_t ns, uint32_t nodes_before) {
  tn_compiled *c = user;
  tn_log("passes", "%-10s %6u -> %-6u %8.2f ms", pass, nodes_before - 1, g->n_nodes - 1, (double)ns / 1e6);
  c->pass_ns += ns;
  if (!strcmp(pass, "decompose")) {
    c->decompose_ns = ns;
    c->decomposed_nodes = g->n_nodes - 1;
  }
  if (c->dump && *c->dump) {
    char name[64];
    snprintf(name, sizeof name, "pass.%s.tn", pass);
    tn_dump_graph(c, name, g);
  }
}

static tn_status target_of(tn_compiled *c, const tn_compile_options *o) {
  tn_level level;
  TN_TRY(tn_cpu_detect(&c->target));
  if (!o->isa || !*o->isa) return TN_OK;
  if (!tn_target_level_parse(o->isa, strlen(o->isa), &level))
    return tn_fail(&c->diag, TN_E_ARG, "option isa: '%s' is no instruction set; known: avx2, avx512, amx", o->isa);
  if (!tn_target_runs(&c->target, level))
    return tn_fail(&c->diag, TN_E_ARG, "option isa: %s is above what this machine, or TENON_ISA, allows", tn_target_level_name(level));
  tn_target_limit(&c->target, level);
  return TN_OK;
}

static tn_status check_fallbacks(tn_compiled *c, const tn_compile_options *o) {
  bool fail = o->fail_on_fallback || !strcmp(tn_env_get(TN_ENV_FAIL_ON_FALLBACK), "1");
  for (uint32_t i = 1; i < c->graph->n_nodes; i++) {
    const tn_node *n = &c->graph->node[i];
    if (n->op != TN_OP_OPAQUE) continue;
    const tn_prov *p = n->prov ? &c->graph->prov[n->prov] : NULL;
    if (fail || !o->allow_host_calls)
      return tn_fail(&c->diag, TN_E_UNSUPPORTED, "%s falls back (%s)%s%s at node %s%s%s", n->target ? n->target : "op",
                     tn_attr_str(n, "reason", "no reason"), fail ? "; fallbacks are errors here" : "; no host function is allowed", "",
                     p ? p->name : "?", p && p->where ? ", " : "", p && p->where ? p->where : "");
  }
  return TN_OK;
}

tn_status tn_compiled_setup(tn_compiled *c, const tn_compile_options *o) {
  if (o->struct_size != sizeof *o)
    return tn_fail(&c->diag, TN_E_ARG, "tn_compile_options of %u bytes, wanted %zu: call tn_compile_options_init", o->struct_size, sizeof *o);
  c->dump = o->dump_dir && *o->dump_dir ? o->dump_dir : tn_env_get(TN_ENV_DUMP);
  if (c->dump && *c->dump) { /* one folder per compile of this process, in order */
    static int next;
    c->dump = tn_arena_printf(&c->keep, "%s/graph%02d", c->dump, __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED));
  }
  c->profile = o->profile && *o->profile ? tn_arena_strdup(&c->keep, o->profile) : tn_env_get(TN_ENV_PROFILE);
  c->prof = tn_profile_find(c->profile);
  if (!c->prof) return tn_fail(&c->diag, TN_E_ARG, "option profile: '%s' is no profile; known: default, dvm", c->profile);
  return target_of(c, o);
}

tn_status tn_compiled_passes(tn_compiled *c, tn_graph *g, const tn_target *t, const char *list) {
  tn_arena scratch;
  tn_arena_init(&scratch);
  tn_pass_ctx pc = {.d = &c->diag,
                    .scratch = &scratch,
                    .profile = c->prof,
                    .target = t,
                    .allow_host_calls = true,
                    .verify = !strcmp(tn_env_get(TN_ENV_CHECK), "1"),
                    .after = after_pass,
                    .user = c};
  tn_status s = tn_passes_run(&pc, g, list && *list ? list : "default");
  tn_arena_deinit(&scratch);
  return s;
}

tn_status tn_compiled_codegen(tn_compiled *c, const tn_target *t, const tn_compile_options *o, tn_arena *keep, tn_object **out) {
  int threads = o->threads;
  if (threads <= 0) threads = atoi(tn_env_get(TN_ENV_COMPILE_THREADS));
  if (threads <= 0) threads = tn_device_cores();
  uint32_t n = c->pool.n_kernel;
  tn_str *ir = NULL;
  *out = TN_NEW(&c->keep, tn_object, n + 1);
  if (c->dump && *c->dump && n) ir = TN_NEW(&c->keep, tn_str, n);
  if (!*out || (c->dump && *c->dump && n && !ir)) return tn_fail(&c->diag, TN_E_NOMEM, "%u kernels", n);
  for (uint32_t i = 0; ir && i < n; i++) tn_str_init(&ir[i]);
  tn_status s = tn_objects(&c->diag, &c->pool, t, threads, o, keep, *out, ir);
  for (uint32_t i = 0; ir && i < n; i++) {
    char name[160];
    snprintf(name, sizeof name, "%s.ll", c->pool.kernel[i].def->name);
    if (ir[i].s && !ir[i].oom) tn_dump(c, name, ir[i].s, ir[i].n);
    tn_str_deinit(&ir[i]);
  }
  return s;
}

void tn_compiled_attach(const tn_object *object, const tn_lowered *low) {
  for (uint32_t i = 0; i < low->plan->n_kernel; i++) {
    low->plan->kernel[i].object = object[low->kernel[i]].p;
    low->plan->kernel[i].object_bytes = object[low->kernel[i]].n;
  }
}

static tn_status pipeline(tn_compiled *c, const char *text, size_t n, bool json, const tn_compile_options *o) {
  uint64_t t0 = tn_now_ns(), t1;
  TN_TRY(tn_compiled_setup(c, o));
  /* 1 */
  TN_TRY(json ? tn_fx_import(&c->diag, &c->keep, c->dims, text, n, &c->graph)
              : tn_graph_parse(&c->diag, &c->keep, c->dims, text, n, &c->graph));
  TN_TRY(tn_graph_verify(&c->diag, c->graph));
  uint32_t captured = c->graph->n_nodes - 1;
  tn_dump_graph(c, "capture.tn", c->graph);
  t1 = tn_now_ns();
  tn_compiled_stage(c, 0, captured, captured, t1 - t0, false);
  /* 2, 3, 4 */
  TN_TRY(tn_compiled_passes(c, c->graph, &c->target, o->passes));
  t0 = tn_now_ns();
  tn_compiled_stage(c, 1, captured, c->decomposed_nodes, c->decompose_ns, false);
  tn_compiled_stage(c, 2, c->decomposed_nodes, c->decomposed_nodes, 0, true);
  tn_compiled_stage(c, 3, c->decomposed_nodes, c->graph->n_nodes - 1, t0 - t1 - c->decompose_ns, false);
  TN_TRY(check_fallbacks(c, o));
  /* 5 */
  tn_lower_options lo = {.target = &c->target, .threads = (int)c->target.cores, .pool = &c->pool};
  TN_TRY(tn_lower(&c->diag, &c->keep, c->graph, &lo, &c->low));
  t1 = tn_now_ns();
  tn_compiled_stage(c, 4, c->graph->n_nodes - 1, c->low.plan->n_step, t1 - t0, false);
  tn_dump_graph(c, "lowered.tn", c->graph);
  tn_dump_kernels(c);
  t1 = tn_now_ns();
  /* 6 */
  tn_object *object;
  tn_status s = tn_compiled_codegen(c, &c->target, o, c->low.plan->arena, &object);
  if (s != TN_OK) {
    tn_plan_destroy(c->low.plan);
    c->low.plan = NULL;
    return s;
  }
  tn_compiled_attach(object, &c->low);
  tn_dump_plan(c, c->low.plan);
  t0 = tn_now_ns();
  tn_compiled_stage(c, 5, c->pool.n_kernel, c->pool.n_kernel, t0 - t1, false);
  /* 7 */
  tn_plan *plan = c->low.plan;
  c->low.plan = NULL;
  TN_TRY(tn_program_create(&c->diag, plan, &c->program));
  c->plan = tn_program_plan(c->program);
  tn_compiled_stage(c, 6, c->plan->n_step, c->plan->n_step, tn_now_ns() - t0, false);
  return TN_OK;
}

tn_status tn_compiled_create(tn_compiled **out) {
  *out = NULL;
  tn_compiled *c = tn_calloc(1, sizeof *c);
  if (!c) return TN_E_NOMEM;
  tn_arena_init(&c->keep);
  c->dims = tn_dims_create();
  if (!c->dims) {
    tn_free(c);
    return TN_E_NOMEM;
  }
  *out = c;
  return TN_OK;
}

tn_status tn_compiled_end(tn_compiled *c, tn_status s) {
  if (s != TN_OK && !c->diag.text[0]) snprintf(c->diag.text, sizeof c->diag.text, "%s", s == TN_E_NOMEM ? "out of memory" : tn_status_name(s));
  return s;
}

static tn_status compile(const char *text, size_t n, bool json, const tn_compile_options *o, tn_compiled **out) {
  tn_compile_options def;
  tn_compile_options_init(&def);
  TN_TRY(tn_compiled_create(out));
  return tn_compiled_end(*out, pipeline(*out, text, n, json, o ? o : &def));
}

tn_status tn_compile_fx(const char *json, size_t n, const tn_compile_options *o, tn_compiled **out) {
  return compile(json, n, true, o, out);
}
tn_status tn_compile_text(const char *text, size_t n, const tn_compile_options *o, tn_compiled **out) {
  return compile(text, n, false, o, out);
}
const tn_program *tn_compiled_program(const tn_compiled *c) { return c->program; }
const char *tn_compiled_error(const tn_compiled *c) { return c->diag.text; }

const char *tn_compiled_report(const tn_compiled *cc) {
  tn_compiled *c = (tn_compiled *)(uintptr_t)cc;
  if (!c->report) c->report = tn_report_json(c);
  return c->report ? c->report : "{}";
}

void tn_compiled_destroy(tn_compiled *c) {
  if (!c) return;
  if (c->program) tn_program_destroy(c->program);
  tn_compiled_free_sets(c);
  tn_kernel_pool_deinit(&c->pool);
  free(c->report);
  tn_dims_destroy(c->dims);
  tn_arena_deinit(&c->keep);
  tn_free(c);
}

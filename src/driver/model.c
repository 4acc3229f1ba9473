/* model.c: from a unit to modules, one for each target asked for: split into plans, passes and lowering for each, machine code for all kernels together, and
 * the module put in order. The unit is only read, so targets do not disturb each other. Front ends make the unit; what is done with the modules (run here, saved
 * as a package) comes after. */
#include <stdio.h>
#include <string.h>
#include "device/cpu/cpuid.h"
#include "driver/driver_int.h"
#include "frontend/fx/fx.h"
#include "frontend/onnx/onnx.h"
#include "runtime/runtime.h"

/* Programs that are linked with the compiler can do more with a package: libraries of objects would leave these files out if nobody asked for them. */
__attribute__((constructor)) static void introduce(void) {
  tn_model_set_rebuilder(tn_rebuild);
  tn_sign_introduce();
}

/* ---- targets ---- */

enum { MAX_CORES = 8 };

static tn_status targets(tn_compiled *c, const tn_compile_options *o) {
  const char *s = o->targets && *o->targets ? o->targets : "native";
  while (*s) {
    size_t n = strcspn(s, ",");
    tn_level level;
    if (c->n_set == TN_MAX_TARGETS) return tn_fail(&c->diag, TN_E_ARG, "more than %d targets", TN_MAX_TARGETS);
    tn_target_set *t = &c->set[c->n_set];
    if (n == 8 && !strncmp(s, "portable", 8)) {
      if (!c->portable) return tn_fail(&c->diag, TN_E_UNSUPPORTED, "the portable form is made of ONNX models only");
      s += n + (s[n] == ',');
      continue;
    }
    if (n == 6 && !strncmp(s, "native", 6)) t->target = c->target; /* with all it has: a package says what it needs */
    else if (tn_target_level_parse(s, n, &level)) {
      tn_target_init(&t->target, level);
      t->target.cores = MAX_CORES; /* of a machine nobody knows yet: blocks are cut for up to so many */
    }
    else return tn_fail(&c->diag, TN_E_ARG, "target '%.*s' is not known: native, x86-64-v3, x86-64-v4, amx, aarch64, portable", (int)n, s);
    for (uint32_t i = 0; i < c->n_set; i++)
      if (c->set[i].target.level == t->target.level) return tn_fail(&c->diag, TN_E_ARG, "target '%.*s' is there twice", (int)n, s);
    c->n_set++;
    s += n + (s[n] == ',');
  }
  return c->n_set ? TN_OK : tn_fail(&c->diag, TN_E_ARG, "the portable form goes with at least one target");
}

bool tn_wants_portable(const char *s) {
  for (; s && *s; s += strcspn(s, ",") + (s[strcspn(s, ",")] == ','))
    if (strcspn(s, ",") == 8 && !strncmp(s, "portable", 8)) return true;
  return false;
}

/* ---- one target ---- */

typedef struct totals { uint64_t pass_ns, lower_ns, code_ns; uint32_t n_graph, nodes_in, nodes_out, steps; } totals;

static tn_status lower_graph(tn_compiled *c, tn_graph *g, const tn_target *t, const tn_compile_options *o, tn_lowered *low, totals *sum) {
  uint64_t t0 = tn_now_ns();
  sum->nodes_in += g->n_nodes - 1;
  tn_dump_graph(c, "capture.tn", g);
  TN_TRY(tn_compiled_passes(c, g, t, o->passes));
  for (uint32_t i = 1; i < g->n_nodes; i++)
    if (g->node[i].op == TN_OP_OPAQUE) {
      const tn_prov *p = tn_graph_prov(g, g->node[i].prov);
      return tn_fail(&c->diag, TN_E_UNSUPPORTED, "%s at node %s: %s", g->node[i].target ? g->node[i].target : "op", p && p->name ? p->name : "?",
                     tn_attr_str(&g->node[i], "reason", "it has no kernel"));
    }
  uint64_t t1 = tn_now_ns();
  tn_lower_options lo = {.target = t, .threads = (int)t->cores, .pool = &c->pool, .keep = tn_const_store_keep, .user = c->store};
  TN_TRY(tn_lower(&c->diag, &c->keep, g, &lo, low));
  tn_dump_graph(c, "lowered.tn", g);
  sum->pass_ns += t1 - t0;
  sum->lower_ns += tn_now_ns() - t1;
  sum->nodes_out += g->n_nodes - 1;
  sum->steps += low->plan->n_step;
  return TN_OK;
}

static void dump_module(tn_compiled *c, const tn_module *m) {
  if (!c->dump || !*c->dump) return;
  tn_str s;
  tn_str_init(&s);
  tn_module_print(m, &s);
  if (!s.oom) tn_dump(c, "module.tnmod", s.s, s.n);
  tn_str_deinit(&s);
}

static tn_status fill(tn_compiled *c, tn_target_set *set, const tn_split *sp, const tn_compile_options *o, totals *sum) {
  tn_module *m = sp->module;
  tn_lowered *low = TN_NEW(&c->keep, tn_lowered, sp->n_graph + 1);
  if (!low) return tn_fail(&c->diag, TN_E_NOMEM, "%u plans", sp->n_graph);
  for (uint32_t i = 0; i < sp->n_graph; i++) {
    if (o->progress) o->progress(o->progress_user, "plans", i, sp->n_graph);
    TN_TRY_WHILE(&c->diag, lower_graph(c, sp->graph[i], &set->target, o, &low[i], sum), "compiling plan '%s'", sp->graph[i]->name);
    m->plan[m->n_plan++] = low[i].plan; /* the module's from here on */
  }
  tn_dump_kernels(c);
  uint64_t t0 = tn_now_ns();
  tn_object *object;
  TN_TRY(tn_compiled_codegen(c, &set->target, o, m->arena, &object));
  for (uint32_t i = 0; i < sp->n_graph; i++) tn_compiled_attach(object, &low[i]);
  sum->code_ns += tn_now_ns() - t0;
  dump_module(c, m);
  return tn_module_verify(&c->diag, m);
}

static tn_status compile_target(tn_compiled *c, tn_target_set *set, const tn_compile_options *o, totals *sum) {
  tn_split sp;
  tn_kernel_pool_deinit(&c->pool);
  c->pool = (tn_kernel_pool){0};
  TN_TRY(tn_split_unit(&c->diag, &c->keep, c->unit, &sp));
  set->module = sp.module;
  sum->n_graph += sp.n_graph;
  return fill(c, set, &sp, o, sum);
}

tn_status tn_compile_unit(tn_compiled *c, tn_unit *u, const tn_compile_options *o) {
  totals sum = {0};
  c->unit = u;
  c->store = tn_const_store_create();
  if (!c->store) return tn_fail(&c->diag, TN_E_NOMEM, "constants");
  TN_TRY(targets(c, o));
  for (uint32_t i = 0; i < c->n_set; i++)
    TN_TRY_WHILE(&c->diag, compile_target(c, &c->set[i], o, &sum), "compiling for %s", tn_target_level_name(c->set[i].target.level));
  c->n_plan = c->set[0].module->n_plan;
  tn_compiled_stage(c, 1, sum.nodes_in, sum.nodes_in, 0, true);
  tn_compiled_stage(c, 2, sum.nodes_in, sum.nodes_in, 0, true);
  tn_compiled_stage(c, 3, sum.nodes_in, sum.nodes_out, sum.pass_ns, false);
  tn_compiled_stage(c, 4, sum.nodes_out, sum.steps, sum.lower_ns, false);
  tn_compiled_stage(c, 5, c->pool.n_kernel, c->pool.n_kernel, sum.code_ns, false);
  return TN_OK;
}

void tn_compiled_free_sets(tn_compiled *c) {
  for (uint32_t i = 0; i < c->n_set; i++) {
    if (c->set[i].model) tn_model_release(c->set[i].model);
    else tn_module_destroy(c->set[i].module);
  }
  tn_const_store_release(c->store);
}

/* ---- front ends ---- */

/* What a machine that no target fits can compile again: the model as it was read. */
static tn_status keep_portable(tn_compiled *c, const void *bytes, size_t n, const tn_onnx_options *io) {
  if (io->files) return tn_fail(&c->diag, TN_E_UNSUPPORTED, "the portable form cannot hold external data");
  if (io->n_shape) return tn_fail(&c->diag, TN_E_UNSUPPORTED, "the portable form keeps the model's own shapes: compile without overriding them");
  void *p = tn_arena_alloc(&c->keep, n + 1);
  if (!p) return tn_fail(&c->diag, TN_E_NOMEM, "portable form of %zu bytes", n);
  memcpy(p, bytes, n);
  c->portable = p;
  c->portable_n = n;
  return TN_OK;
}

/* own: NULL, or bytes that are freed as soon as they are read: weights are not kept twice while kernels are made. */
static tn_status from_onnx(tn_compiled *c, const void *bytes, size_t n, char **own, const char *folder, const tn_compile_options *o) {
  uint64_t t0 = tn_now_ns();
  TN_TRY(tn_compiled_setup(c, o));
  tn_onnx_shape *shape = TN_NEW(&c->keep, tn_onnx_shape, o->n_shape + 1);
  if (!shape) return tn_fail(&c->diag, TN_E_NOMEM, "shapes");
  for (uint32_t i = 0; i < o->n_shape; i++) shape[i] = (tn_onnx_shape){o->shape[i].input, o->shape[i].rank, o->shape[i].dim};
  tn_onnx_options io = {.folder = folder, .shape = shape, .n_shape = o->n_shape, .strict = o->strict != 0};
  tn_unit *u;
  if (o->progress) o->progress(o->progress_user, "reading", 0, 1);
  tn_status s = tn_onnx_import(&c->diag, &c->keep, c->dims, bytes, n, &io, &u);
  if (s == TN_OK && tn_wants_portable(o->targets)) s = keep_portable(c, bytes, n, &io);
  if (own) {
    tn_free(*own);
    *own = NULL;
  }
  if (s == TN_OK) {
    uint32_t nodes = 0;
    for (uint32_t i = 0; i < u->n_func; i++) nodes += u->func[i]->n_nodes - 1;
    tn_compiled_stage(c, 0, nodes, nodes, tn_now_ns() - t0, false);
    s = tn_compile_unit(c, u, o);
  }
  tn_onnx_files_free(&io); /* what plans read of them was copied */
  return s;
}

tn_status tn_compile_onnx(const void *bytes, size_t n, const char *folder, const tn_compile_options *o, tn_compiled **out) {
  tn_compile_options def;
  tn_compile_options_init(&def);
  TN_TRY(tn_compiled_create(out));
  return tn_compiled_end(*out, from_onnx(*out, bytes, n, NULL, folder, o ? o : &def));
}

enum { MAX_MODEL = INT32_MAX }; /* protobuf's own limit; weights beyond it are external data */

tn_status tn_compile_onnx_file(const char *path, const tn_compile_options *o, tn_compiled **out) {
  tn_compile_options def;
  tn_compile_options_init(&def);
  TN_TRY(tn_compiled_create(out));
  tn_compiled *c = *out;
  char *bytes = NULL;
  size_t n = 0;
  const char *slash = strrchr(path, '/');
  const char *folder = !slash ? "." : slash == path ? "/" : tn_arena_strndup(&c->keep, path, (size_t)(slash - path));
  tn_status s = folder ? tn_file_read(&c->diag, path, MAX_MODEL, &bytes, &n) : tn_fail(&c->diag, TN_E_NOMEM, "path");
  if (s == TN_OK) s = from_onnx(c, bytes, n, &bytes, folder, o ? o : &def);
  tn_free(bytes);
  return tn_compiled_end(c, s);
}

/* ---- results ---- */

tn_model *tn_compiled_model(tn_compiled *c) {
  tn_target here;
  tn_target_set *best = NULL;
  if (tn_cpu_detect(&here) != TN_OK) return NULL;
  for (uint32_t i = 0; i < c->n_set; i++) {
    tn_target_set *t = &c->set[i];
    if ((t->module || t->model) && tn_target_runs(&here, t->target.level) && (!best || t->target.level > best->target.level)) best = t;
  }
  if (!best) {
    if (!c->diag.text[0]) tn_fail(&c->diag, TN_E_UNSUPPORTED, "none of the targets runs on this machine");
    return NULL;
  }
  if (!best->model) {
    uint64_t t0 = tn_now_ns();
    tn_module *m = best->module;
    best->module = NULL;
    tn_const_store_retain(c->store);
    if (tn_model_create_over(&c->diag, m, c->store, tn_const_store_release, &best->model) != TN_OK) return NULL;
    tn_compiled_stage(c, 6, c->n_plan, c->n_plan, tn_now_ns() - t0, false);
  }
  tn_model_retain(best->model);
  return best->model;
}

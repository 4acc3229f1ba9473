/* inspect.c: what is in a model or package, as text for people or JSON: ports, functions and steps, plans with their kernels and memory, sections. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "driver/driver_int.h"
#include "plan/package.h"
#include "runtime/runtime.h"

/* ---- figures of a plan ---- */

typedef struct figures { int64_t weights, packed, arena; uint32_t launches, libs; size_t code; bool symbolic; } figures;

static figures figures_of(const tn_plan *p) {
  figures f = {0};
  for (uint32_t i = 0; i < p->n_buf; i++) {
    const tn_pbuf *b = &p->buf[i];
    if (b->kind == TN_PB_CONST) f.weights += b->bytes;
    if (b->kind == TN_PB_PACKED && b->bytes > 0) f.packed += b->bytes;
    f.symbolic |= b->kind == TN_PB_ARENA && b->bytes < 0;
  }
  if (!f.symbolic) { /* layout needs values of expressions: none */
    tn_arena a;
    tn_arena_init(&a);
    int64_t *offset = tn_calloc(p->n_buf + 1, sizeof *offset), *expr = tn_calloc(p->n_expr + 1, sizeof *expr), *sym = tn_calloc(p->n_sym + 1, sizeof *sym);
    tn_diag d = {0};
    if (!offset || !expr || !sym || tn_plan_layout(&d, p, expr, offset, &f.arena, &a) != TN_OK) f.symbolic = true;
    tn_free(offset);
    tn_free(expr);
    tn_free(sym);
    tn_arena_deinit(&a);
  }
  for (uint32_t i = 0; i < p->n_step; i++) {
    f.launches += p->step[i].kind == TN_PS_LAUNCH;
    f.libs += p->step[i].kind == TN_PS_LIB;
  }
  for (uint32_t i = 0; i < p->n_kernel; i++) f.code += p->kernel[i].object_bytes;
  return f;
}

/* Constants of a module, each place once. */
static int64_t weights_of(const tn_module *m) {
  int64_t sum = 0;
  tn_map seen;
  tn_map_init(&seen);
  for (uint32_t i = 0; i < m->n_plan; i++)
    for (uint32_t k = 0; k < m->plan[i]->n_buf; k++) {
      const tn_pbuf *b = &m->plan[i]->buf[k];
      uint32_t v;
      if (b->kind != TN_PB_CONST || (b->data && tn_map_get_u64(&seen, (uintptr_t)b->data, &v))) continue;
      sum += b->bytes;
      if (b->data) (void)!tn_map_put_u64(&seen, (uintptr_t)b->data, 1);
    }
  tn_map_deinit(&seen);
  return sum;
}

/* ---- JSON ---- */

static json_t *text(const char *s) {
  json_t *r = json_string(s ? s : "");
  return r ? r : json_string("?");
}

static json_t *ports(const tn_mport *p, uint32_t n) {
  json_t *a = json_array();
  for (uint32_t i = 0; i < n; i++) {
    json_t *shape = p[i].rank < 0 ? json_null() : json_array();
    for (int k = 0; k < p[i].rank; k++) {
      const char *name = p[i].dim_name ? p[i].dim_name[k] : NULL;
      json_array_append_new(shape, p[i].dim[k] >= 0 ? json_integer(p[i].dim[k]) : name ? text(name) : json_null());
    }
    json_array_append_new(a, json_pack("{s:o,s:s,s:s,s:o}", "name", text(p[i].name), "kind", tn_port_kind_name(p[i].kind), "type", tn_elem_name(p[i].elem), "shape", shape));
  }
  return a;
}

static json_t *kernels(const tn_plan *p) {
  json_t *a = json_array();
  for (uint32_t i = 0; i < p->n_kernel; i++) {
    uint32_t uses = 0;
    for (uint32_t k = 0; k < p->n_step; k++) uses += p->step[k].kind == TN_PS_LAUNCH && p->step[k].kernel == i;
    json_array_append_new(a, json_pack("{s:o,s:I,s:i}", "name", text(p->kernel[i].name), "bytes", (json_int_t)p->kernel[i].object_bytes, "uses", (int)uses));
  }
  return a;
}

static json_t *module_json(const tn_module *m, const char *level) {
  json_t *fs = json_array(), *ps = json_array(), *meta = json_object();
  for (uint32_t i = 0; i < m->n_func; i++) {
    static const char *const kind[] = {"call", "op", "branch", "loop"};
    json_t *steps = json_array();
    for (uint32_t k = 0; k < m->func[i].n_step; k++) {
      const tn_mstep *s = &m->func[i].step[k];
      const char *what = s->kind == TN_MS_CALL ? m->plan[s->target]->name : s->kind == TN_MS_OP ? tn_dyn_get(s->target)->text : "";
      json_array_append_new(steps, json_pack("{s:s,s:o,s:o}", "kind", kind[s->kind], "what", text(what), "node", text(s->text)));
    }
    json_array_append_new(fs, json_pack("{s:o,s:i,s:i,s:o}", "name", text(m->func[i].name), "inputs", (int)m->func[i].n_in, "outputs", (int)m->func[i].n_out, "steps", steps));
  }
  for (uint32_t i = 0; i < m->n_plan; i++) {
    figures f = figures_of(m->plan[i]);
    json_array_append_new(ps, json_pack("{s:o,s:i,s:i,s:i,s:I,s:o,s:I,s:I,s:o}", "name", text(m->plan[i]->name), "launches", (int)f.launches, "library_calls", (int)f.libs, "symbols",
                                        (int)m->plan[i]->n_sym, "weight_bytes", (json_int_t)f.weights, "arena_bytes", f.symbolic ? json_null() : json_integer(f.arena), "packed_bytes",
                                        (json_int_t)f.packed, "code_bytes", (json_int_t)f.code, "kernels", kernels(m->plan[i])));
  }
  for (uint32_t i = 0; i < m->n_meta; i++) json_object_set_new(meta, m->meta[i].key, text(m->meta[i].value));
  return json_pack("{s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:I}", "level", level, "name", text(m->name), "inputs", ports(m->in, m->n_in), "outputs", ports(m->out, m->n_out), "functions", fs, "plans", ps,
                   "metadata", meta, "weight_bytes", (json_int_t)weights_of(m));
}

/* ---- text ---- */

static void bytes(tn_str *o, int64_t n) {
  if (n < 10000) tn_str_add(o, "%lld bytes", (long long)n);
  else if (n < 10000000) tn_str_add(o, "%.1f KiB", (double)n / 1024);
  else tn_str_add(o, "%.1f MiB", (double)n / 1048576);
}

static void port_lines(tn_str *o, const char *side, const tn_mport *p, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    tn_str_add(o, "  %s %-24s %s%s%s", side, p[i].name, p[i].kind ? tn_port_kind_name(p[i].kind) : "", p[i].kind ? " " : "", tn_elem_name(p[i].elem));
    tn_str_add(o, p[i].rank < 0 ? " of any rank" : "[");
    for (int k = 0; k < p[i].rank; k++) {
      const char *name = p[i].dim_name ? p[i].dim_name[k] : NULL;
      if (p[i].dim[k] >= 0) tn_str_add(o, k ? ", %lld" : "%lld", (long long)p[i].dim[k]);
      else tn_str_add(o, k ? ", %s" : "%s", name ? name : "?");
    }
    tn_str_add(o, p[i].rank < 0 ? "\n" : "]\n");
  }
}

static void memory_lines(tn_str *o, const tn_module *m) {
  tn_str_add(o, "\n  memory          weights     made once       arena         code   plan\n");
  for (uint32_t i = 0; i < m->n_plan; i++) {
    figures f = figures_of(m->plan[i]);
    tn_str_add(o, "           %12lld  %12lld", (long long)f.weights, (long long)f.packed);
    if (f.symbolic) tn_str_add(o, "   by sizes");
    else tn_str_add(o, "%12lld", (long long)f.arena);
    tn_str_add(o, " %12zu   %s\n", f.code, m->plan[i]->name);
    for (uint32_t k = 0; k < m->plan[i]->n_buf; k++) {
      const tn_pbuf *b = &m->plan[i]->buf[k];
      static const char *const kind[] = {"input", "output", "arena", "const", "packed"};
      char t[24];
      if (b->kind == TN_PB_INPUT || b->kind == TN_PB_OUTPUT) continue;
      tn_str_add(o, "      %-6s %16s bytes", kind[b->kind], tn_plan_dim_text(m->plan[i], b->bytes, t));
      if (b->kind == TN_PB_ARENA) tn_str_add(o, "   steps %u..%u", b->first, b->last);
      tn_str_add(o, "\n");
    }
  }
}

static void module_text(tn_str *o, const tn_module *m, const char *level, bool memory) {
  uint32_t n_kernel = 0;
  size_t code = 0;
  tn_str_add(o, "model '%s' for %s\n", m->name, level);
  for (uint32_t i = 0; i < m->n_meta; i++) tn_str_add(o, "  %s: %s\n", m->meta[i].key, m->meta[i].value);
  port_lines(o, "in ", m->in, m->n_in);
  port_lines(o, "out", m->out, m->n_out);
  for (uint32_t i = 0; i < m->n_plan; i++) n_kernel += m->plan[i]->n_kernel, code += figures_of(m->plan[i]).code;
  tn_str_add(o, "  %u functions, %u plans, %u kernels of ", m->n_func, m->n_plan, n_kernel);
  bytes(o, (int64_t)code);
  tn_str_add(o, ", weights ");
  bytes(o, weights_of(m));
  tn_str_add(o, "\n");
  for (uint32_t i = 0; i < m->n_func; i++) {
    const tn_mfunc *f = &m->func[i];
    tn_str_add(o, "\n  function %u '%s': %u inputs, %u outputs\n", i, f->name, f->n_in, f->n_out);
    for (uint32_t k = 0; k < f->n_step; k++) {
      const tn_mstep *s = &f->step[k];
      if (s->kind == TN_MS_CALL) {
        figures g = figures_of(m->plan[s->target]);
        tn_str_add(o, "    call    plan %u '%s': %u kernel launches, %u library calls\n", s->target, m->plan[s->target]->name, g.launches, g.libs);
      } else if (s->kind == TN_MS_OP) tn_str_add(o, "    op      %s (%s)\n", tn_dyn_get(s->target)->text, s->text ? s->text : "");
      else if (s->kind == TN_MS_BRANCH) tn_str_add(o, "    branch  function %u or %u (%s)\n", s->func[0], s->func[1], s->text ? s->text : "");
      else tn_str_add(o, "    loop    function %u, %u carried, %u scanned (%s)\n", s->func[0], s->n_carried, s->n_scan, s->text ? s->text : "");
    }
  }
  if (memory) memory_lines(o, m);
}

/* ---- doors ---- */

static const char *kind_name(tn_package_kind k) {
  static const char *const name[] = {"?", "module", "objects", "weights", "portable", "report", "signature"};
  return k < sizeof name / sizeof *name ? name[k] : "?";
}

static tn_status give(tn_diag *d, tn_str *o, json_t *j, char **out) {
  char *s = NULL;
  if (j) s = json_dumps(j, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
  const char *from = j ? s : o->oom ? NULL : o->s;
  *out = from ? tn_malloc(strlen(from) + 2) : NULL;
  if (*out) {
    strcpy(*out, from);
    if (j) strcat(*out, "\n");
  }
  if (s) free(s);
  return *out ? TN_OK : tn_fail(d, TN_E_NOMEM, "description of a model");
}

tn_status tn_compiled_inspect(tn_compiled *c, int32_t what, char **out) {
  json_t *j = what & TN_INSPECT_JSON ? json_pack("{s:[]}", "models") : NULL;
  tn_str o;
  tn_str_init(&o);
  for (uint32_t i = 0; i < c->n_set; i++) {
    const tn_target_set *t = &c->set[i];
    const tn_module *m = t->model ? tn_model_module(t->model) : t->module;
    const char *level = tn_target_level_name((tn_level)t->target.level);
    if (!m) continue;
    if (j) json_array_append_new(json_object_get(j, "models"), module_json(m, level));
    else module_text(&o, m, level, what & TN_INSPECT_MEMORY);
  }
  tn_status s = give(&c->diag, &o, j, out);
  if (j) json_decref(j);
  tn_str_deinit(&o);
  return s;
}

static tn_status package(tn_diag *d, const char *path, int32_t what, tn_str *o, json_t *j) {
  tn_package *k;
  size_t n;
  tn_status s = tn_package_open(d, path, false, NULL, &k);
  if (s != TN_OK) return s;
  (void)tn_package_bytes(k, &n);
  if (j) json_object_set_new(j, "bytes", json_integer((json_int_t)n));
  else tn_str_add(o, "package of %zu bytes, format %d, checksums fine\n", n, TN_PACKAGE_VERSION);
  for (uint32_t i = 0; i < tn_package_n_sections(k); i++) {
    const tn_package_section *x = tn_package_get(k, i);
    if (j) json_array_append_new(json_object_get(j, "sections"), json_pack("{s:s,s:s,s:I,s:I}", "kind", kind_name(x->kind), "level", x->level, "offset", (json_int_t)x->offset, "bytes", (json_int_t)x->bytes));
    else tn_str_add(o, "  %-10s %-12s %12llu bytes at %llu\n", kind_name(x->kind), x->level, (unsigned long long)x->bytes, (unsigned long long)x->offset);
  }
  for (uint32_t i = 0; i < tn_package_n_sections(k) && s == TN_OK; i++) {
    const tn_package_section *x = tn_package_get(k, i);
    tn_module *m;
    if (x->kind != TN_PK_MODULE) continue;
    s = tn_package_module(d, k, x->level, &m);
    if (s != TN_OK) break;
    if (what & TN_INSPECT_VERIFY) {
      if (!j) tn_str_add(o, "  %s: verified\n", x->level);
    } else if (j) json_array_append_new(json_object_get(j, "models"), module_json(m, x->level));
    else {
      tn_str_add(o, "\n");
      module_text(o, m, x->level, what & TN_INSPECT_MEMORY);
    }
    tn_module_destroy(m);
  }
  tn_package_close(k);
  return s;
}

tn_status tn_package_inspect(const char *path, int32_t what, char **out, char *error, size_t error_n) {
  tn_diag d = {0};
  json_t *j = what & TN_INSPECT_JSON ? json_pack("{s:[],s:[]}", "sections", "models") : NULL;
  tn_str o;
  *out = NULL;
  tn_str_init(&o);
  tn_status s = package(&d, path, what, &o, j);
  if (s == TN_OK) s = give(&d, &o, j, out);
  if (j) json_decref(j);
  tn_str_deinit(&o);
  if (s != TN_OK && error && error_n) snprintf(error, error_n, "%s", d.text);
  return s;
}

/* ---- fates ---- */

static void fate_lines(tn_str *o, const tn_graph *g, uint32_t *count) {
  for (uint32_t i = 1; i < g->n_prov; i++) {
    const tn_prov *p = &g->prov[i];
    uint8_t fate = p->fate == TN_FATE_NONE ? TN_FATE_FOLDED : p->fate;
    tn_str_add(o, "%-10s %-22s %-32s %s\n", tn_fate_name((tn_fate)fate), p->target ? p->target : "", p->name && *p->name ? p->name : "-", p->detail ? p->detail : "");
    count[fate]++;
  }
}

tn_status tn_compiled_explain(tn_compiled *c, char **out) {
  uint32_t count[TN_N_FATES] = {0};
  tn_str o;
  tn_str_init(&o);
  tn_str_add(&o, "%-10s %-22s %-32s %s\n", "fate", "operator", "node", "where it went");
  if (c->graph) fate_lines(&o, c->graph, count);
  for (uint32_t i = 0; c->unit && i < c->unit->n_func; i++) fate_lines(&o, c->unit->func[i], count);
  for (int i = 1, first = 1; i < TN_N_FATES; i++)
    if (count[i]) {
      tn_str_add(&o, first ? "\n%u %s" : ", %u %s", count[i], tn_fate_name((tn_fate)i));
      first = 0;
    }
  tn_str_add(&o, "\n");
  tn_status s = give(&c->diag, &o, NULL, out);
  tn_str_deinit(&o);
  return s;
}

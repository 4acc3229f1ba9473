/* report_json.c: what became of a model, as JSON: fates and gates of source nodes, stages, kernels, plan, host calls. */
#include <jansson.h>
#include <string.h>
#include "driver/driver_int.h"
#include "kir/sched.h"
#include "plan/plan.h"

static json_t *value(tn_compiled *c, const tn_attr_val *v) {
  switch (v->kind) {
    case TN_AT_INT: return json_integer(v->u.i);
    case TN_AT_BOOL: return json_boolean(v->u.b);
    case TN_AT_FLOAT: {
      tn_str s;
      tn_str_init(&s);
      tn_str_add_double(&s, v->u.f);
      json_t *r = s.oom ? NULL : json_pack("{s:s}", "float", s.s);
      tn_str_deinit(&s);
      return r;
    }
    case TN_AT_STR: return json_string(v->u.s);
    case TN_AT_DTYPE: return json_pack("{s:s}", "dtype", tn_dtype_name(v->u.t));
    case TN_AT_DIM: {
      int64_t k;
      if (tn_dim_as_int(c->dims, v->u.d, &k)) return json_integer(k);
      tn_str s;
      tn_str_init(&s);
      tn_dim_print(c->dims, v->u.d, &s);
      json_t *r = s.oom ? NULL : json_pack("{s:s}", "sym", s.s);
      tn_str_deinit(&s);
      return r;
    }
    case TN_AT_REF: return json_pack("{s:i}", "input", (int)v->u.ref);
    case TN_AT_LIST: {
      json_t *a = json_array();
      for (uint32_t i = 0; i < v->u.list.n; i++) json_array_append_new(a, value(c, &v->u.list.item[i]));
      return a;
    }
    default: return json_null();
  }
}

static json_t *text(const char *s) {
  json_t *r = json_string(s ? s : "");
  return r ? r : json_string("?");
}

static void nodes(json_t *a, const tn_graph *graph) {
  static const char *gate[] = {"n/a", "pass", "fail"};
  for (uint32_t i = 1; i < graph->n_prov; i++) {
    const tn_prov *p = &graph->prov[i];
    json_t *g = json_array();
    for (int k = 0; k < 4; k++) json_array_append_new(g, json_string(gate[p->gate[k] < 3 ? p->gate[k] : 0]));
    const char *fate = tn_fate_name((tn_fate)(p->fate == TN_FATE_NONE ? TN_FATE_DEAD : p->fate));
    json_array_append_new(a, json_pack("{s:o,s:o,s:o,s:o,s:o,s:s,s:o}", "name", text(p->name), "target", text(p->target), "where",
                                       text(p->where), "fate", text(fate), "detail", text(p->detail), "dtype", tn_dtype_name(p->dtype),
                                       "gates", g));
  }
}

char *tn_report_json(tn_compiled *c) {
  json_t *r = json_object(), *st = json_array(), *ks = json_array(), *hs = json_array();
  json_t *all = json_array();
  if (c->graph) nodes(all, c->graph);
  for (uint32_t i = 0; c->unit && i < c->unit->n_func; i++) nodes(all, c->unit->func[i]);
  json_object_set_new(r, "nodes", all);
  for (int i = 0; i < TN_N_STAGES; i++) {
    const tn_stage *s = &c->stage[i];
    json_array_append_new(st, json_pack("{s:s,s:f,s:i,s:i,s:b}", "name", s->name ? s->name : "", "ms", (double)s->ns / 1e6, "nodes_in",
                                        (int)s->n_in, "nodes_out", (int)s->n_out, "skipped", s->skipped));
  }
  json_object_set_new(r, "stages", st);
  for (uint32_t i = 0; i < c->pool.n_kernel; i++) {
    const tn_lowered_kernel *k = &c->pool.kernel[i];
    tn_str s;
    tn_str_init(&s);
    tn_ksched_print(k->sched, k->def, &s);
    json_array_append_new(ks,
                          json_pack("{s:o,s:i,s:o}", "name", text(k->def->name), "uses", (int)k->uses, "schedule", text(s.oom ? "" : s.s)));
    tn_str_deinit(&s);
  }
  json_object_set_new(r, "kernels", ks);
  for (uint32_t i = 0; i < c->low.n_host; i++) {
    const tn_node *n = &c->graph->node[c->low.host_node[i]];
    json_t *args = json_object();
    for (uint32_t k = 0; k < n->n_attr; k++) json_object_set_new(args, n->attr[k].name, value(c, &n->attr[k].val));
    json_array_append_new(
        hs, json_pack("{s:o,s:o,s:o}", "target", text(n->target), "node", text(n->prov ? c->graph->prov[n->prov].name : ""), "args", args));
  }
  json_object_set_new(r, "host_calls", hs);
  json_object_set_new(r, "profile", text(c->profile));
  json_object_set_new(r, "target", text(c->target.cpu));
  if (c->plan) {
    tn_str s;
    tn_str_init(&s);
    tn_plan_print(c->plan, &s);
    json_object_set_new(r, "plan", text(s.oom ? "" : s.s));
    tn_str_deinit(&s);
  }
  char *out = json_dumps(r, JSON_COMPACT);
  json_decref(r);
  return out;
}

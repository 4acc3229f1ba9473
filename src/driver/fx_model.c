/* fx_model.c: a captured FX graph as a model: parameters become constants, the other inputs and the results the model's door. Calls are decomposed first, as a
 * unit holds primitive nodes only; one that has no decomposition cannot be in a model, because no framework is there to run it. */
#include <string.h>
#include "driver/driver_int.h"
#include "frontend/fx/fx.h"
#include "plan/module.h"

/* Row-major bytes of a strided tensor. */
static void densify(const tn_tensor *t, size_t size, char *out) {
  int64_t at[TN_MAX_RANK] = {0}, stride[TN_MAX_RANK], run = 1;
  for (int k = t->rank; k-- > 0;) {
    stride[k] = t->strides ? t->strides[k] : run;
    run *= t->shape[k];
  }
  const char *p = t->data;
  for (int64_t i = 0; i < run; i++, out += size) {
    memcpy(out, p, size);
    for (int k = t->rank; k-- > 0;) {
      p += stride[k] * (int64_t)size;
      if (++at[k] < t->shape[k]) break;
      p -= stride[k] * t->shape[k] * (int64_t)size;
      at[k] = 0;
    }
  }
}

static tn_status constant(tn_compiled *c, tn_graph *g, uint32_t i, const tn_tensor *t) {
  tn_ref old = g->input[i], r;
  const tn_type ty = *tn_typeof(g, old);
  const char *name = g->value[old.id].name ? g->value[old.id].name : "?";
  size_t bytes = tn_dtype_size((tn_dtype)ty.dtype);
  bool fits = t->dtype == ty.dtype && t->rank == ty.rank;
  for (int k = 0; fits && k < t->rank; k++) {
    fits = t->shape[k] == ty.dim[k];
    if (fits && __builtin_mul_overflow(bytes, (size_t)t->shape[k], &bytes)) fits = false;
  }
  if (!fits) return tn_fail(&c->diag, TN_E_ARG, "constant for input %u '%s' has not its dtype and shape", i, name);
  char *data = tn_arena_alloc(g->arena, bytes ? bytes : 1);
  if (!data || tn_graph_add_const(g, ty, NULL, 0, 0, &r) != TN_OK) return tn_fail(&c->diag, TN_E_NOMEM, "constant '%s' of %zu bytes", name, bytes);
  densify(t, tn_dtype_size((tn_dtype)ty.dtype), data);
  *tn_def(g, r)->data = (tn_const_data){data, bytes};
  tn_graph_replace(g, old, r);
  return TN_OK;
}

static tn_status constants(tn_compiled *c, tn_graph *g, const tn_tensor *t, uint32_t n) {
  uint32_t kept = 0;
  if (n != g->n_inputs) return tn_fail(&c->diag, TN_E_ARG, "%u constants given for a graph of %u inputs", n, g->n_inputs);
  if (g->n_mutations) return tn_fail(&c->diag, TN_E_UNSUPPORTED, "the graph writes its inputs: not in a model");
  for (uint32_t i = 0; i < n; i++) {
    if (t[i].data) TN_TRY(constant(c, g, i, &t[i]));
    else g->input[kept++] = g->input[i];
  }
  g->n_inputs = kept;
  return tn_graph_compact(&c->diag, g);
}

static tn_status door(tn_compiled *c, tn_graph *g, tn_unit *u) {
  u->n_in = g->n_inputs;
  u->n_out = g->n_outputs;
  u->in = TN_NEW(&c->keep, tn_uport, u->n_in + 1);
  u->out = TN_NEW(&c->keep, tn_uport, u->n_out + 1);
  if (!u->in || !u->out) return tn_fail(&c->diag, TN_E_NOMEM, "ports");
  for (uint32_t i = 0; i < u->n_in; i++) {
    const tn_type *t = tn_typeof(g, g->input[i]);
    tn_input_info *info = tn_def(g, g->input[i])->input;
    info->origin = info->origin == TN_ORIGIN_SYM ? TN_ORIGIN_SYM : TN_ORIGIN_INPUT;
    info->stride = NULL; /* models take dense tensors; what comes otherwise is copied at the door */
    u->in[i] = (tn_uport){.name = g->value[g->input[i].id].name, .elem = (uint8_t)tn_elem_of_dtype((tn_dtype)t->dtype), .ranked = true, .rank = t->rank, .dim = t->dim};
  }
  for (uint32_t i = 0; i < u->n_out; i++) {
    const tn_output *o = &g->output[i];
    const tn_type *t = o->is_dim || o->is_none ? NULL : tn_typeof(g, o->ref);
    const char *name = tn_arena_printf(&c->keep, "out_%u", i);
    if (!name) return tn_fail(&c->diag, TN_E_NOMEM, "ports");
    u->out[i] = (tn_uport){.name = name, .elem = TN_EL_I64, .ranked = true};
    if (o->is_none) u->out[i].kind = TN_PORT_ANY;
    if (t) u->out[i].elem = (uint8_t)tn_elem_of_dtype((tn_dtype)t->dtype), u->out[i].rank = t->rank, u->out[i].dim = t->dim;
  }
  return TN_OK;
}

static tn_status no_opaque(tn_compiled *c, const tn_graph *g) {
  for (uint32_t i = 1; i < g->n_nodes; i++) {
    const tn_node *n = &g->node[i];
    const tn_prov *p = tn_graph_prov(g, n->prov);
    if (n->op == TN_OP_OPAQUE)
      return tn_fail(&c->diag, TN_E_UNSUPPORTED, "%s at node %s%s%s cannot be in a model: %s", n->target ? n->target : "op", p && p->name ? p->name : "?",
                     p && p->where ? ", " : "", p && p->where ? p->where : "", tn_attr_str(n, "reason", "it has no kernel"));
  }
  return TN_OK;
}

static tn_status from_fx(tn_compiled *c, const char *json, size_t n, const tn_tensor *t, uint32_t n_t, const tn_compile_options *o) {
  uint64_t t0 = tn_now_ns();
  tn_graph *g;
  tn_unit *u = TN_NEW(&c->keep, tn_unit, 1);
  if (!u) return tn_fail(&c->diag, TN_E_NOMEM, "model");
  TN_TRY(tn_compiled_setup(c, o));
  TN_TRY(tn_fx_import(&c->diag, &c->keep, c->dims, json, n, &g));
  TN_TRY(tn_graph_verify(&c->diag, g));
  TN_TRY(constants(c, g, t, n_t));
  TN_TRY(tn_compiled_passes(c, g, &c->target, "decompose"));
  TN_TRY(no_opaque(c, g));
  *u = (tn_unit){.arena = &c->keep, .dims = c->dims, .name = g->name, .n_func = 1};
  u->func = TN_NEW(&c->keep, tn_graph *, 1);
  if (!u->func) return tn_fail(&c->diag, TN_E_NOMEM, "model");
  u->func[0] = g;
  TN_TRY(door(c, g, u));
  tn_compiled_stage(c, 0, g->n_nodes - 1, g->n_nodes - 1, tn_now_ns() - t0, false);
  return tn_compile_unit(c, u, o);
}

tn_status tn_compile_fx_model(const char *json, size_t n, const tn_tensor *constant, uint32_t n_constant, const tn_compile_options *o, tn_compiled **out) {
  tn_compile_options def;
  tn_compile_options_init(&def);
  TN_TRY(tn_compiled_create(out));
  return tn_compiled_end(*out, from_fx(*out, json, n, constant, n_constant, o ? o : &def));
}

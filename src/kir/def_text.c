/* def_text.c: printing a definition. One stage a line, one statement per stage; expressions are written out in full, so the text shows what is
 * computed without names for parts. Parsing is in def_parse.c. */
#include <math.h>
#include "def.h"

static void num(tn_str *o, tn_dtype t, tn_num v) {
  if (tn_dtype_is_float(t)) tn_str_add_double(o, v.f);
  else if (t == TN_BOOL) tn_str_add(o, "%s", v.i ? "true" : "false");
  else tn_str_add(o, "%lld", (long long)v.i);
}

static void expr(const tn_kdef *k, tn_kx_id id, tn_str *o, int depth) {
  const tn_kx *x = &k->x[id];
  if (depth > 4000) { tn_str_add(o, "..."); return; }
  switch ((tn_kx_op)x->op) {
  case TN_KX_CONST:
    num(o, (tn_dtype)x->dtype, x->imm);
    if (x->dtype != TN_I64) tn_str_add(o, ":%s", tn_dtype_name((tn_dtype)x->dtype));
    break;
  case TN_KX_AXIS: tn_str_add(o, "%s", k->axis[x->ref].name); break;
  case TN_KX_SIZE: tn_str_add(o, "size("); tn_dim_print(k->dims, x->dim, o); tn_str_add(o, ")"); break;
  case TN_KX_STAGE: tn_str_add(o, "%%%u", x->ref); break;
  case TN_KX_LOAD:
    tn_str_add(o, x->guard ? "guard(%%%s[" : "%%%s[", k->param[x->ref].name);
    for (uint32_t i = 0; i < x->n_idx; i++) { if (i) tn_str_add(o, ", "); expr(k, x->idx[i], o, depth + 1); }
    tn_str_add(o, "]");
    if (x->guard) { tn_str_add(o, ", "); expr(k, x->guard, o, depth + 1); tn_str_add(o, ", "); num(o, (tn_dtype)x->dtype, x->imm); tn_str_add(o, ")"); }
    break;
  case TN_KX_SCALAR:
    tn_str_add(o, "%s(", tn_scalar_name((tn_scalar_op)x->sop));
    for (int i = 0; i < tn_scalar_arity((tn_scalar_op)x->sop); i++) { if (i) tn_str_add(o, ", "); expr(k, x->arg[i], o, depth + 1); }
    tn_str_add(o, ")");
    break;
  case TN_KX_CAST: tn_str_add(o, "cast.%s(", tn_dtype_name((tn_dtype)x->dtype)); expr(k, x->arg[0], o, depth + 1); tn_str_add(o, ")"); break;
  case TN_KX_INDEX: tn_str_add(o, "index("); expr(k, x->arg[0], o, depth + 1); tn_str_add(o, ", "); tn_dim_print(k->dims, x->dim, o); tn_str_add(o, ")"); break;
  default: tn_str_add(o, "?");
  }
}

static void params(const tn_kdef *k, bool written, tn_str *o) {
  bool first = true;
  for (uint32_t i = 0; i < k->n_param; i++) {
    const tn_kparam *p = &k->param[i];
    if (p->written != written) continue;
    tn_str_add(o, "%s%%%s: %s[", first ? "" : ", ", p->name, tn_dtype_name((tn_dtype)p->dtype));
    first = false;
    tn_dim run = 1;
    bool dense = true;
    for (uint32_t d = p->rank; d-- > 0;) { dense &= p->stride[d] == run || p->dim[d] == 1; run = tn_dim_mul(k->dims, run, p->dim[d]); }
    for (uint32_t d = 0; d < p->rank; d++) { if (d) tn_str_add(o, ","); tn_dim_print(k->dims, p->dim[d], o); }
    tn_str_add(o, "]");
    if (!dense) {
      tn_str_add(o, "{");
      for (uint32_t d = 0; d < p->rank; d++) { if (d) tn_str_add(o, ","); tn_dim_print(k->dims, p->stride[d], o); }
      tn_str_add(o, "}");
    }
    if (p->frozen) tn_str_add(o, " frozen");
  }
}

void tn_kdef_print(const tn_kdef *k, tn_str *o) {
  tn_str_add(o, "kernel @%s(", k->name);
  params(k, false, o);
  tn_str_add(o, ") -> (");
  params(k, true, o);
  tn_str_add(o, ") {\n  axis ");
  for (uint32_t i = 0; i < k->n_axis; i++) { tn_str_add(o, "%s%s: ", i ? ", " : "", k->axis[i].name); tn_dim_print(k->dims, k->axis[i].extent, o); }
  tn_str_add(o, "\n");
  for (uint32_t i = 0; i < k->n_stage; i++) {
    const tn_kstage *s = &k->stage[i];
    tn_str_add(o, "  %%%u %s: %s[", i, s->name, tn_dtype_name((tn_dtype)s->dtype));
    for (uint32_t j = 0; j < s->n_axis; j++) tn_str_add(o, "%s%s", j ? "," : "", k->axis[s->axis[j]].name);
    tn_str_add(o, "] = ");
    if (s->n_red) {
      tn_str_add(o, "%s(", tn_combiner_name((tn_combiner)s->combiner));
      for (uint32_t j = 0; j < s->n_red; j++) tn_str_add(o, "%s%s", j ? "," : "", k->axis[s->red[j]].name);
      tn_str_add(o, ") ");
    }
    expr(k, s->root, o, 0);
    if (s->out >= 0) {
      tn_str_add(o, " -> %%%s[", k->param[s->out].name);
      for (uint32_t j = 0; j < k->param[s->out].rank; j++) { if (j) tn_str_add(o, ", "); expr(k, s->out_idx[j], o, 0); }
      tn_str_add(o, "]");
    }
    tn_str_add(o, "\n");
  }
  tn_str_add(o, "}\n");
}

/* sched.c: the text of a schedule. Words as in sched.h; axes by name, stages by number, parameters by name. */
#include "sched.h"

static const char *keep_name[] = {"inline", "reg", "scratch", "out"};

void tn_ksched_print(const tn_ksched *s, const tn_kdef *k, tn_str *o) {
  const char *sep = "";
  for (uint32_t i = 0; i < s->n_merge; i++) tn_str_add(o, "%s%s*%s", i ? " " : "merge ", k->axis[s->merge_from[i]].name, k->axis[s->merge_to[i]].name), sep = "; ";
  for (uint32_t i = 0; i < s->n_par; i++) tn_str_add(o, "%s%s/%lld", i ? " " : (*sep ? "; par " : "par "), k->axis[s->par[i].axis].name, (long long)s->par[i].block), sep = "; ";
  for (uint32_t i = 0; i < s->n_share; i++) tn_str_add(o, "%s%s/%lld", i ? " " : (*sep ? "; share " : "share "), k->axis[s->share[i].axis].name, (long long)s->share[i].block), sep = "; ";
  bool first = true;
  for (uint32_t i = 0; i < s->n_pack; i++)
    if (s->pack[i]) { tn_str_add(o, "%s%s", first ? (*sep ? "; pack " : "pack ") : " ", k->param[i].name); first = false; sep = "; "; }
  first = true;
  for (uint32_t i = 0; i < s->n_keep; i++)
    if (s->keep[i] == TN_KEEP_REG || s->keep[i] == TN_KEEP_SCRATCH) { tn_str_add(o, "%s%u:%s", first ? (*sep ? "; keep " : "keep ") : " ", i, keep_name[s->keep[i]]); first = false; sep = "; "; }
  for (uint32_t i = 0; i < s->n_loop; i++) {
    const tn_kloop *L = &s->loop[i];
    tn_str_add(o, "%sloop", sep);
    sep = "; ";
    for (uint32_t j = 0; j < L->n_stage; j++) tn_str_add(o, " %u", L->stage[j]);
    if (L->outer) tn_str_add(o, " outer");
    if (L->n_order) tn_str_add(o, " order");
    for (uint32_t j = 0; j < L->n_order; j++) tn_str_add(o, " %s", k->axis[L->order[j]].name);
    if (L->v_axis >= 0) tn_str_add(o, " v %s:%ux%u", k->axis[L->v_axis].name, L->lanes, L->nv);
    if (L->r_axis >= 0) tn_str_add(o, " r %s:%u", k->axis[L->r_axis].name, L->rows);
    if (L->n_red) tn_str_add(o, " red");
    for (uint32_t j = 0; j < L->n_red; j++) tn_str_add(o, " %s", k->axis[L->red[j]].name);
  }
  if (s->grain > 1) tn_str_add(o, "%sgrain %lld", sep, (long long)s->grain);
}

/* sched.c: printing a schedule. Words as in sched.h; axes and parameters by name, stages by number. sched_parse.c reads it back. */
#include "kir/scan_int.h"
#include "kir/sched.h"

typedef struct printer {
  tn_str *o;
  const tn_kdef *k;
  bool any;
} printer;

static void part(printer *p, const char *word) { /* a new part of the line */
  tn_str_add(p->o, "%s%s", p->any ? "; " : "", word);
  p->any = true;
}
static void axis(printer *p, uint32_t a) { tn_ks_put_name(p->o, p->k->axis[a].name); }

static void axes(printer *p, const char *word, const uint8_t *a, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    tn_str_add(p->o, "%s", i ? "," : word);
    axis(p, a[i]);
  }
}

static void cuts(printer *p, const char *word, const tn_kpar *c, uint32_t n) {
  if (n) part(p, word);
  for (uint32_t i = 0; i < n; i++) {
    tn_str_add(p->o, " ");
    axis(p, c[i].axis);
    tn_str_add(p->o, "/%lld", (long long)c[i].block);
  }
}

static void loop(printer *p, const tn_kloop *L) {
  part(p, "loop");
  for (uint32_t i = 0; i < L->n_stage; i++) tn_str_add(p->o, "%s%u", i ? "," : " ", L->stage[i]);
  if (L->outer) tn_str_add(p->o, " outer");
  axes(p, " order=", L->order, L->n_order);
  if (L->v_axis >= 0) {
    tn_str_add(p->o, " v=");
    axis(p, (uint32_t)L->v_axis);
    tn_str_add(p->o, ":%ux%u", L->lanes, L->nv);
  }
  if (L->r_axis >= 0) {
    tn_str_add(p->o, " r=");
    axis(p, (uint32_t)L->r_axis);
    tn_str_add(p->o, ":%u", L->rows);
  }
  axes(p, " red=", L->red, L->n_red);
  if (L->piece) tn_str_add(p->o, " piece=%lld", (long long)L->piece);
}

void tn_ksched_print(const tn_ksched *s, const tn_kdef *k, tn_str *o) {
  printer p = {o, k, false};
  bool first = true;
  if (s->n_merge) part(&p, "merge");
  for (uint32_t i = 0; i < s->n_merge; i++) {
    tn_str_add(o, " ");
    axis(&p, s->merge_from[i]);
    tn_str_add(o, "*");
    axis(&p, s->merge_to[i]);
  }
  cuts(&p, "par", s->par, s->n_par);
  cuts(&p, "share", s->share, s->n_share);
  for (uint32_t i = 0; i < s->n_pack; i++) {
    if (!s->pack[i]) continue;
    if (first) part(&p, "pack");
    first = false;
    tn_str_add(o, " ");
    tn_ks_put_name(o, k->param[i].name);
  }
  first = true;
  for (uint32_t i = 0; i < s->n_keep; i++) {
    if (s->keep[i] != TN_KEEP_REG && s->keep[i] != TN_KEEP_SCRATCH) continue;
    if (first) part(&p, "keep");
    first = false;
    tn_str_add(o, " %u:%s", i, s->keep[i] == TN_KEEP_REG ? "reg" : "scratch");
  }
  for (uint32_t i = 0; i < s->n_loop; i++) loop(&p, &s->loop[i]);
  if (s->grain > 1) {
    part(&p, "grain");
    tn_str_add(o, " %lld", (long long)s->grain);
  }
}

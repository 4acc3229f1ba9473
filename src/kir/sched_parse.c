/* sched_parse.c: reads the text of a schedule; the exact inverse of sched.c. Parts stand in the order they are printed in. Names and counts
 * come from the definition; whether the schedule is legal is sched_verify.c's business. */
#include <string.h>
#include "kir/scan_int.h"
#include "kir/sched.h"

typedef struct parser {
  tn_kscan s;
  const tn_kdef *k;
  tn_ksched *r;
} parser;

static tn_status find_axis(parser *p, uint8_t *out) {
  const char *name;
  size_t at = (tn_ks_skip(&p->s), p->s.at);
  TN_TRY(tn_ks_name(&p->s, "an axis", &name));
  for (uint32_t i = 0; i < p->k->n_axis; i++)
    if (strcmp(p->k->axis[i].name, name) == 0) {
      *out = (uint8_t)i;
      return TN_OK;
    }
  return tn_ks_fail(&p->s, at, "no axis '%.40s'", name);
}

static tn_status axes(parser *p, uint8_t *out, uint32_t *n) {
  size_t at = p->s.at;
  do {
    if (*n == TN_DEF_MAX_AXES) return tn_ks_fail(&p->s, at, "more than %d axes", TN_DEF_MAX_AXES);
    TN_TRY(find_axis(p, &out[(*n)++]));
  } while (tn_ks_take(&p->s, ','));
  return TN_OK;
}

static bool at_end(parser *p) { return tn_ks_peek(&p->s) < 0 || tn_ks_peek(&p->s) == ';'; }

static tn_status merges(parser *p) {
  tn_ksched *r = p->r;
  do {
    if (r->n_merge == TN_DEF_MAX_AXES) return tn_ks_fail(&p->s, p->s.at, "more than %d merges", TN_DEF_MAX_AXES);
    TN_TRY(find_axis(p, &r->merge_from[r->n_merge]));
    TN_TRY(tn_ks_want(&p->s, '*'));
    TN_TRY(find_axis(p, &r->merge_to[r->n_merge++]));
  } while (!at_end(p));
  return TN_OK;
}

static tn_status cuts(parser *p, tn_kpar *out, uint32_t *n) {
  do {
    if (*n == TN_DEF_MAX_AXES) return tn_ks_fail(&p->s, p->s.at, "more than %d axes", TN_DEF_MAX_AXES);
    tn_kpar *c = &out[(*n)++];
    TN_TRY(find_axis(p, &c->axis));
    TN_TRY(tn_ks_want(&p->s, '/'));
    TN_TRY(tn_ks_i64(&p->s, "the length of a block", &c->block));
  } while (!at_end(p));
  return TN_OK;
}

static tn_status packs(parser *p) {
  do {
    const char *name;
    size_t at = (tn_ks_skip(&p->s), p->s.at);
    TN_TRY(tn_ks_name(&p->s, "a parameter", &name));
    uint32_t i = 0;
    while (i < p->k->n_param && strcmp(p->k->param[i].name, name)) i++;
    if (i == p->k->n_param) return tn_ks_fail(&p->s, at, "no parameter '%.40s'", name);
    p->r->pack[i] = true;
  } while (!at_end(p));
  return TN_OK;
}

static tn_status stage(parser *p, uint32_t *out) {
  size_t at = (tn_ks_skip(&p->s), p->s.at);
  TN_TRY(tn_ks_u32(&p->s, "stage", UINT32_MAX - 1, out));
  return *out < p->k->n_stage ? TN_OK : tn_ks_fail(&p->s, at, "stage %u of %u", *out, p->k->n_stage);
}

static tn_status keeps(parser *p) {
  do {
    uint32_t v;
    TN_TRY(stage(p, &v));
    TN_TRY(tn_ks_want(&p->s, ':'));
    if (tn_ks_take_word(&p->s, "reg"))
      p->r->keep[v] = TN_KEEP_REG;
    else if (tn_ks_take_word(&p->s, "scratch"))
      p->r->keep[v] = TN_KEEP_SCRATCH;
    else
      return tn_ks_fail(&p->s, p->s.at, "expected 'reg' or 'scratch'");
  } while (!at_end(p));
  return TN_OK;
}

/* key "=" */
static bool field(parser *p, const char *key) {
  size_t keep = p->s.at;
  if (tn_ks_take_word(&p->s, key) && tn_ks_take(&p->s, '=')) return true;
  p->s.at = keep;
  return false;
}

static tn_status vector(parser *p, tn_kloop *L) { /* axis:LxN */
  uint8_t a;
  size_t at = p->s.at;
  TN_TRY(find_axis(p, &a));
  TN_TRY(tn_ks_want(&p->s, ':'));
  tn_kword w = tn_ks_word(&p->s);
  const char *x = w.n ? memchr(w.s, 'x', w.n) : NULL;
  tn_num lanes, nv;
  if (!x) return tn_ks_fail(&p->s, at, "expected lanes x vectors, such as 16x2");
  TN_TRY(tn_ks_num_of(&p->s, (tn_kword){w.s, (size_t)(x - w.s)}, TN_I64, &lanes));
  TN_TRY(tn_ks_num_of(&p->s, (tn_kword){x + 1, w.n - 1 - (size_t)(x - w.s)}, TN_I64, &nv));
  if (lanes.i < 1 || lanes.i > 64 || nv.i < 1 || nv.i > TN_LOOP_MAX_TILE)
    return tn_ks_fail(&p->s, at, "%lld lanes x %lld vectors", (long long)lanes.i, (long long)nv.i);
  L->v_axis = (int8_t)a;
  L->lanes = (uint8_t)lanes.i;
  L->nv = (uint8_t)nv.i;
  return TN_OK;
}

static tn_status rows(parser *p, tn_kloop *L) { /* axis:R */
  uint8_t a;
  uint32_t v;
  TN_TRY(find_axis(p, &a));
  TN_TRY(tn_ks_want(&p->s, ':'));
  TN_TRY(tn_ks_u32(&p->s, "rows", TN_LOOP_MAX_TILE, &v));
  L->r_axis = (int8_t)a;
  L->rows = (uint8_t)v;
  return TN_OK;
}

static tn_status loop(parser *p) {
  tn_ksched *r = p->r;
  if (r->n_loop > p->k->n_stage) return tn_ks_fail(&p->s, p->s.at, "more loops than stages");
  tn_kloop *L = &r->loop[r->n_loop++];
  *L = (tn_kloop){.v_axis = -1, .lanes = 1, .nv = 1, .r_axis = -1, .rows = 1};
  do {
    uint32_t v;
    if (L->n_stage == TN_LOOP_MAX_STAGES) return tn_ks_fail(&p->s, p->s.at, "more than %d stages in a loop", TN_LOOP_MAX_STAGES);
    TN_TRY(stage(p, &v));
    L->stage[L->n_stage++] = (uint8_t)v;
  } while (tn_ks_take(&p->s, ','));
  L->outer = tn_ks_take_word(&p->s, "outer");
  if (field(p, "order")) TN_TRY(axes(p, L->order, &L->n_order));
  if (field(p, "v")) TN_TRY(vector(p, L));
  if (field(p, "r")) TN_TRY(rows(p, L));
  if (field(p, "red")) TN_TRY(axes(p, L->red, &L->n_red));
  if (field(p, "piece")) {
    size_t at = (tn_ks_skip(&p->s), p->s.at);
    TN_TRY(tn_ks_i64(&p->s, "the piece", &L->piece));
    if (L->piece < 1) return tn_ks_fail(&p->s, at, "a piece of %lld", (long long)L->piece);
  }
  for (uint32_t i = 0; i < L->n_red; i++) L->v_red |= L->v_axis == (int)L->red[i];
  return TN_OK;
}

static tn_status grain(parser *p) {
  size_t at = (tn_ks_skip(&p->s), p->s.at);
  TN_TRY(tn_ks_i64(&p->s, "the grain", &p->r->grain));
  return p->r->grain > 0 ? TN_OK : tn_ks_fail(&p->s, at, "grain %lld", (long long)p->r->grain);
}

static tn_status schedule(parser *p) {
  enum { MERGE, PAR, SHARE, PACK, KEEP, LOOP, GRAIN, N };
  static const char *const words[N] = {"merge", "par", "share", "pack", "keep", "loop", "grain"};
  int last = -1;
  if (tn_ks_peek(&p->s) < 0) return TN_OK;
  do {
    int w = 0;
    size_t at = (tn_ks_skip(&p->s), p->s.at);
    while (w < N && !tn_ks_take_word(&p->s, words[w])) w++;
    if (w == N) return tn_ks_fail(&p->s, at, "expected merge, par, share, pack, keep, loop or grain");
    if (w < last || (w == last && w != LOOP)) return tn_ks_fail(&p->s, at, "'%s' after '%s'", words[w], words[last]);
    last = w;
    switch (w) {
      case MERGE: TN_TRY(merges(p)); break;
      case PAR: TN_TRY(cuts(p, p->r->par, &p->r->n_par)); break;
      case SHARE: TN_TRY(cuts(p, p->r->share, &p->r->n_share)); break;
      case PACK: TN_TRY(packs(p)); break;
      case KEEP: TN_TRY(keeps(p)); break;
      case LOOP: TN_TRY(loop(p)); break;
      default: TN_TRY(grain(p)); break;
    }
  } while (tn_ks_take(&p->s, ';'));
  return tn_ks_peek(&p->s) < 0 ? TN_OK : tn_ks_fail(&p->s, p->s.at, "expected ';' or the end");
}

tn_status tn_ksched_parse(tn_diag *d, tn_arena *a, const tn_kdef *k, const char *text, size_t n, tn_ksched **out) {
  parser p = {.s = {text, n, 0, d, a, "schedule"}, .k = k, .r = TN_NEW(a, tn_ksched, 1)};
  *out = NULL;
  if (!p.r) return tn_ks_nomem(&p.s);
  p.r->n_keep = k->n_stage;
  p.r->n_pack = k->n_param;
  p.r->grain = 1;
  p.r->keep = TN_NEW(a, uint8_t, k->n_stage + 1);
  p.r->pack = TN_NEW(a, bool, k->n_param + 1);
  p.r->loop = TN_NEW(a, tn_kloop, k->n_stage + 1);
  if (!p.r->keep || !p.r->pack || !p.r->loop) return tn_ks_nomem(&p.s);
  for (uint32_t i = 0; i < k->n_stage; i++) p.r->keep[i] = k->stage[i].out >= 0 ? TN_KEEP_OUT : TN_KEEP_INLINE;
  TN_TRY(schedule(&p));
  *out = p.r;
  return TN_OK;
}

/* Buffers made of constants alone (packed buffers without sources): computed once for a program, in the first call of whichever run comes first, and read by
 * all runs and threads after. Packed copies of parameters stay with their run, since a run is told about other parameters.
 *
 * A step makes such buffers when it is a pack, nothing about it depends on symbols, and all it touches are constants and such buffers. One pack that touches
 * more, and whatever it writes, belongs to each run again, and so does what is made from that. */
#include <string.h>
#include "runtime/runtime_int.h"

static bool may_keep(const tn_plan *p, const bool *is, const tn_pstep *s) {
  bool fine = s->kind != TN_PS_HOST && !tn_step_is_symbolic(p, s) && s->scratch >= 0;
  for (uint32_t k = 0; fine && k < s->n_arg; k++) {
    uint32_t b = p->view[s->arg[k]].buf;
    fine = p->buf[b].kind == TN_PB_CONST || (p->buf[b].kind == TN_PB_PACKED && is[b]);
  }
  return fine;
}

tn_status tn_keep_create(const tn_plan *p, tn_kept **out) {
  uint32_t n = 0;
  *out = NULL;
  for (uint32_t i = 0; i < p->n_buf; i++) n += p->buf[i].kind == TN_PB_PACKED && !p->buf[i].n_source && p->buf[i].bytes >= 0;
  if (!n) return TN_OK;
  tn_kept *k = tn_calloc(1, sizeof *k);
  if (!k) return TN_E_NOMEM;
  pthread_mutex_init(&k->lock, NULL);
  atomic_init(&k->made, false);
  k->n_buf = p->n_buf;
  *out = k;
  k->is = tn_calloc(p->n_buf, sizeof *k->is);
  k->room = tn_calloc(p->n_buf, sizeof *k->room);
  if (!k->is || !k->room) return TN_E_NOMEM;
  for (uint32_t i = 0; i < p->n_buf; i++) k->is[i] = p->buf[i].kind == TN_PB_PACKED && !p->buf[i].n_source && p->buf[i].bytes >= 0;
  for (bool again = true; again;) { /* each round takes out one buffer at least */
    again = false;
    for (uint32_t i = 0; i < p->n_step; i++) {
      const tn_pstep *s = &p->step[i];
      if (!s->pack || may_keep(p, k->is, s)) continue;
      for (uint32_t j = 0; j < s->n_arg; j++) {
        bool *is = &k->is[p->view[s->arg[j]].buf];
        again |= *is;
        *is = false;
      }
    }
  }
  return TN_OK;
}

void tn_keep_destroy(tn_kept *k) {
  if (!k) return;
  for (uint32_t i = 0; k->room && i < k->n_buf; i++) tn_room_deinit(&k->room[i]);
  tn_free(k->room);
  tn_free(k->is);
  pthread_mutex_destroy(&k->lock);
  tn_free(k);
}

tn_status tn_keep_reserve(tn_run *r) {
  tn_kept *k = r->p->kept;
  const tn_plan *p = r->p->plan;
  tn_status st = TN_OK;
  if (!k) return st;
  pthread_mutex_lock(&k->lock);
  for (uint32_t i = 0; st == TN_OK && i < p->n_buf; i++) {
    if (!k->is[i] || k->room[i].p || !p->buf[i].bytes) continue;
    st = tn_room_reserve(&k->room[i], (size_t)p->buf[i].bytes);
    if (st == TN_OK) memset(k->room[i].p, 0, k->room[i].cap); /* padding that packs leave out */
    else tn_fail(&r->diag, st, "buffer %u of constants, %lld bytes", i, (long long)p->buf[i].bytes);
  }
  pthread_mutex_unlock(&k->lock);
  return st;
}

tn_status tn_keep_make(tn_run *r, tn_status (*run_step)(tn_run *r, tn_rstep *s)) {
  tn_kept *k = r->p->kept;
  tn_status st = TN_OK;
  pthread_mutex_lock(&k->lock); /* others wait here until it is made */
  for (uint32_t i = 0; st == TN_OK && !atomic_load(&k->made) && i < r->n_step; i++) {
    tn_rstep *s = &r->step[i];
    if (!s->keeps || s->skip) continue;
    r->stats.packs++;
    st = run_step(r, s);
  }
  if (st == TN_OK) atomic_store(&k->made, true);
  pthread_mutex_unlock(&k->lock);
  return st;
}

uint64_t tn_keep_bytes(const tn_program *p) {
  uint64_t n = 0;
  for (uint32_t i = 0; p->kept && i < p->kept->n_buf; i++) n += p->kept->is[i] && p->plan->buf[i].bytes > 0 ? (uint64_t)p->plan->buf[i].bytes : 0;
  return n;
}

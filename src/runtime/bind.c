/* Binding: everything of a call that depends on shapes. Checks the guards, gives symbols and expressions their values, lays
 * out the arena, and fills in sizes, block counts, tensors and addresses of all steps; what depends on input and output
 * pointers is left as a list of places to patch (run.c). Runs only when shapes, strides or symbol values change; all
 * arrays were allocated with the run, so it allocates only when arena or scratch must grow.
 *
 * It also checks what the verifier cannot: that symbolic sizes are not negative, do not overflow, and that no view leaves
 * its buffer. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O2") /* the room is built for size; this is in every call */
#endif
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "runtime/runtime_int.h"

#define PLAN(r) ((r)->p->plan)

/* "input 2 'x'" */
static const char *who(const tn_run *r, uint32_t i, char buf[96]) {
  const char *name = PLAN(r)->in[i].name;
  snprintf(buf, 96, name && *name ? "input %u '%.60s'" : "input %u", i, name ? name : "");
  return buf;
}

static const char *dtype_text(int t) { return t >= 0 && t < TN_N_DTYPES ? tn_dtype_name((tn_dtype)t) : "unknown"; }

/* "8", or "4*s0 = 8" when the plan has an expression there. */
static const char *wanted(const tn_run *r, tn_pdim d, int64_t v, char buf[96]) {
  if (d >= 0) snprintf(buf, 96, "%" PRId64, v);
  else snprintf(buf, 96, "%.60s = %" PRId64, PLAN(r)->expr[~d].text, v);
  return buf;
}

static int64_t scalar_value(const tn_tensor *t) {
  switch (t->dtype) {
  case TN_I64: return *(const int64_t *)t->data;
  case TN_I32: return *(const int32_t *)t->data;
  case TN_I16: return *(const int16_t *)t->data;
  case TN_I8: return *(const int8_t *)t->data;
  case TN_U64: return *(const int64_t *)t->data; /* beyond 2^63 a negative number, which no range holds */
  case TN_U32: return *(const uint32_t *)t->data;
  case TN_U16: return *(const uint16_t *)t->data;
  default: return *(const uint8_t *)t->data;
  }
}

bool tn_bind_same_values(const tn_run *r, const tn_tensor *in) {
  const tn_plan *p = PLAN(r);
  for (uint32_t i = 0; i < p->n_sym; i++)
    if (p->sym[i].dim < 0 && in[p->sym[i].input].data && scalar_value(&in[p->sym[i].input]) != r->sym[i]) return false;
  return true;
}

/* Types and shapes as given; effective strides; the range of bytes an input covers. */
static tn_status take_input(tn_run *r, uint32_t i, const tn_tensor *t) {
  const tn_pguard_in *g = &PLAN(r)->in[i];
  tn_rin *s = &r->in[i];
  char b[96];
  if (t->dtype != g->dtype) return tn_fail(&r->diag, TN_E_ARG, "%s: dtype is %s, wanted %s", who(r, i, b), dtype_text(t->dtype), tn_dtype_name((tn_dtype)g->dtype));
  if (t->rank != g->rank) return tn_fail(&r->diag, TN_E_ARG, "%s: rank is %d, wanted %u", who(r, i, b), t->rank, g->rank);
  s->empty = false;
  for (int k = 0; k < t->rank; k++) {
    s->changed |= s->shape[k] != t->shape[k];
    s->shape[k] = t->shape[k];
    if (s->shape[k] < 0) return tn_fail(&r->diag, TN_E_ARG, "%s: dim %d is %" PRId64, who(r, i, b), k, s->shape[k]);
    s->empty |= s->shape[k] == 0;
  }
  int64_t dense = 1, lo = 0, hi = 0, size = (int64_t)tn_dtype_size((tn_dtype)t->dtype);
  bool over = false;
  s->dense = true;
  for (int k = t->rank; k-- > 0;) {
    int64_t reach;
    int64_t stride = t->strides ? t->strides[k] : dense;
    s->changed |= s->stride[k] != stride;
    s->stride[k] = stride;
    s->dense &= stride == dense;
    if (s->empty) continue;
    over |= __builtin_mul_overflow(s->shape[k] - 1, s->stride[k], &reach);
    if (reach < 0) over |= __builtin_add_overflow(lo, reach, &lo);
    else over |= __builtin_add_overflow(hi, reach, &hi);
    if (__builtin_mul_overflow(dense, s->shape[k], &dense)) over |= !t->strides, dense = 0;
  }
  over |= __builtin_mul_overflow(lo, size, &lo) || __builtin_add_overflow(hi, 1, &hi) || __builtin_mul_overflow(hi, size, &hi);
  if (over) return tn_fail(&r->diag, TN_E_ARG, "%s: its size overflows", who(r, i, b));
  s->lo = s->empty ? 0 : lo;
  s->hi = s->empty ? 0 : hi;
  if (!t->data && !s->empty) return tn_fail(&r->diag, TN_E_ARG, "%s: has no memory", who(r, i, b));
  return TN_OK;
}

static tn_status bind_symbols(tn_run *r, const tn_tensor *in) {
  const tn_plan *p = PLAN(r);
  for (uint32_t i = 0; i < p->n_sym; i++) {
    const tn_psym *s = &p->sym[i];
    char b[96], where[32];
    int64_t v = s->dim < 0 ? scalar_value(&in[s->input]) : r->in[s->input].shape[s->dim];
    if (v < s->lo || v > s->hi) {
      snprintf(where, sizeof where, s->dim < 0 ? "value" : "dim %d", s->dim);
      if (s->hi == INT64_MAX) return tn_fail(&r->diag, TN_E_ARG, "%s: %s is %" PRId64 ", wanted %s >= %" PRId64, who(r, (uint32_t)s->input, b), where, v, s->name, s->lo);
      return tn_fail(&r->diag, TN_E_ARG, "%s: %s is %" PRId64 ", wanted %s in %" PRId64 "..%" PRId64, who(r, (uint32_t)s->input, b), where, v, s->name, s->lo, s->hi);
    }
    r->new_sym[i] = v;
  }
  return tn_plan_eval(&r->diag, p, r->new_sym, r->new_expr);
}

static tn_status check_guard(tn_run *r, uint32_t i) {
  const tn_pguard_in *g = &PLAN(r)->in[i];
  const tn_rin *s = &r->in[i];
  char b[96], w[96];
  for (int k = 0; k < g->rank; k++) {
    int64_t want = tn_pd(r->new_expr, g->dim[k]);
    if (s->shape[k] != want) return tn_fail(&r->diag, TN_E_ARG, "%s: dim %d is %" PRId64 ", wanted %s", who(r, i, b), k, s->shape[k], wanted(r, g->dim[k], want, w));
  }
  for (int k = 0; g->stride && !s->empty && k < g->rank; k++) {
    int64_t want = tn_pd(r->new_expr, g->stride[k]);
    if (s->shape[k] != 1 && s->stride[k] != want)
      return tn_fail(&r->diag, TN_E_ARG, "%s: stride %d is %" PRId64 ", wanted %s", who(r, i, b), k, s->stride[k], wanted(r, g->stride[k], want, w));
  }
  return TN_OK;
}

static tn_status check_assumptions(tn_run *r) {
  const tn_plan *p = PLAN(r);
  for (uint32_t i = 0; i < p->n_assume; i++) {
    const tn_passume *s = &p->assume[i];
    int64_t a = tn_pd(r->new_expr, s->a), b = tn_pd(r->new_expr, s->b);
    char x[96], y[96];
    if (a != b)
      return tn_fail(&r->diag, TN_E_ARG, "sizes that must be equal are not: %s and %s%s%s", wanted(r, s->a, a, x), wanted(r, s->b, b, y), s->where ? ", at " : "", s->where ? s->where : "");
  }
  return TN_OK;
}

/* Numbers of a view and the bytes it covers. */
static tn_status eval_view(tn_run *r, uint32_t i) {
  const tn_plan *p = PLAN(r);
  const tn_pview *v = &p->view[i];
  tn_rview *s = &r->view[i];
  char w[96];
  int64_t size = (int64_t)tn_dtype_size((tn_dtype)v->dtype), lo = tn_pd(r->expr, v->offset), hi = lo, all = 1;
  bool over = false;
  s->empty = false;
  for (int k = 0; k < v->rank; k++) {
    s->shape[k] = tn_pd(r->expr, v->dim[k]);
    s->stride[k] = v->stride ? tn_pd(r->expr, v->stride[k]) : r->in[p->buf[v->buf].index].stride[k];
    if (s->shape[k] < 0) return tn_fail(&r->diag, TN_E_ARG, "dim %d of view %u is %s", k, i, wanted(r, v->dim[k], s->shape[k], w));
    s->empty |= s->shape[k] == 0;
  }
  for (int k = 0; k < v->rank && !s->empty; k++) {
    int64_t reach;
    over |= __builtin_mul_overflow(s->shape[k] - 1, s->stride[k], &reach);
    over |= __builtin_mul_overflow(all, s->shape[k], &all);
    if (reach < 0) over |= __builtin_add_overflow(lo, reach, &lo);
    else over |= __builtin_add_overflow(hi, reach, &hi);
  }
  over |= __builtin_add_overflow(hi, 1, &hi) || __builtin_mul_overflow(hi, size, &hi) || __builtin_mul_overflow(lo, size, &lo) || __builtin_mul_overflow(all, size, &all);
  if (__builtin_mul_overflow(tn_pd(r->expr, v->offset), size, &s->offset)) over = true;
  if (over) return tn_fail(&r->diag, TN_E_ARG, "the size of view %u overflows", i);
  s->lo = s->empty ? 0 : lo;
  s->hi = s->empty ? 0 : hi;
  if (s->empty) s->offset = 0;
  return TN_OK;
}

static tn_status check_view(tn_run *r, uint32_t i) {
  const tn_plan *p = PLAN(r);
  const tn_pbuf *b = &p->buf[p->view[i].buf];
  const tn_rview *s = &r->view[i];
  int64_t lo = 0, hi = r->buf_bytes[p->view[i].buf];
  if (b->kind == TN_PB_INPUT) lo = r->in[b->index].lo, hi = r->in[b->index].hi;
  if (b->kind == TN_PB_OUTPUT) lo = r->view[p->out[b->index].view].lo, hi = r->view[p->out[b->index].view].hi;
  if (s->empty || (s->lo >= lo && s->hi <= hi)) return TN_OK;
  return tn_fail(&r->diag, TN_E_VERIFY, "view %u covers bytes %" PRId64 "..%" PRId64 " of buffer %u, which has %" PRId64 "..%" PRId64, i, s->lo, s->hi, p->view[i].buf, lo, hi);
}

static tn_status bind_memory(tn_run *r) {
  const tn_plan *p = PLAN(r);
  int64_t total;
  for (uint32_t i = 0; i < p->n_buf; i++) {
    const tn_pbuf *b = &p->buf[i];
    r->buf_bytes[i] = b->kind == TN_PB_INPUT || b->kind == TN_PB_OUTPUT ? 0 : tn_pd(r->expr, b->bytes);
    if (r->buf_bytes[i] < 0) return tn_fail(&r->diag, TN_E_ARG, "buffer %u wants %" PRId64 " bytes", i, r->buf_bytes[i]);
  }
  TN_TRY(tn_plan_layout(&r->diag, p, r->expr, r->buf_offset, &total, &r->scratch_arena));
  const void *before = r->work->arena.p;
  if (tn_room_reserve(&r->work->arena, (size_t)total) != TN_OK) return tn_fail(&r->diag, TN_E_NOMEM, "arena of %" PRId64 " bytes", total);
  r->work->moves += r->work->arena.p != before;
  r->stats.arena_bytes = (uint64_t)total;
  for (uint32_t i = 0; i < r->n_pack; i++) {
    tn_rpack *k = &r->pack[i];
    size_t before = k->room.cap;
    if (k->kept) continue;
    if (tn_room_reserve(&k->room, (size_t)r->buf_bytes[k->buf]) != TN_OK)
      return tn_fail(&r->diag, TN_E_NOMEM, "packed buffer %u, %" PRId64 " bytes", k->buf, r->buf_bytes[k->buf]);
    /* Padding that packs leave out is read by full vectors: zeros, not the slow denormals of old memory. */
    if (k->room.cap != before) memset(k->room.p, 0, k->room.cap);
  }
  return tn_keep_reserve(r);
}

static tn_status bind_step(tn_run *r, tn_rstep *s, size_t *scratch) {
  const tn_pstep *ps = s->plan;
  char w[96];
  if (s->kind == TN_PS_LIB) {
    for (uint32_t k = 0; k < ps->n_param; k++) s->value[k] = tn_pd(r->expr, ps->param[k]);
    s->skip = true; /* nothing to compute when all results are empty */
    for (uint32_t k = ps->n_in; k < ps->n_arg; k++) s->skip &= r->view[ps->arg[k]].empty;
    return TN_OK;
  }
  if (s->kind != TN_PS_LAUNCH) return TN_OK;
  for (uint32_t k = 0; k < ps->n_size; k++) s->value[k] = tn_pd(r->expr, ps->size[k]);
  int64_t scratch_bytes = tn_pd(r->expr, ps->scratch);
  s->blocks = tn_pd(r->expr, ps->blocks);
  s->grain = tn_pd(r->expr, ps->grain);
  if (s->blocks < 0) return tn_fail(&r->diag, TN_E_ARG, "number of blocks is %s", wanted(r, ps->blocks, s->blocks, w));
  if (scratch_bytes < 0 || scratch_bytes > INT64_MAX / 2 / TN_DEVICE_MAX_THREADS) return tn_fail(&r->diag, TN_E_ARG, "scratch is %s bytes", wanted(r, ps->scratch, scratch_bytes, w));
  if (s->grain < 1) s->grain = 1;
  s->skip = s->blocks == 0;
  s->alone = r->n_threads == 1 || s->blocks <= s->grain;
  s->stride = ((size_t)scratch_bytes + 63) & ~(size_t)63;
  size_t need = s->stride * (s->alone ? 1 : (size_t)r->n_threads);
  if (need > *scratch) *scratch = need;
  return TN_OK;
}

static void bind_out(tn_run *r, uint32_t i) {
  const tn_pout *po = &PLAN(r)->out[i];
  tn_rout *o = &r->out[i];
  if (o->kind == TN_RO_DIM) o->value = tn_pd(r->expr, po->dim);
  if (o->kind < TN_RO_ALIAS) return;
  o->empty = r->view[po->view].empty;
  if (o->kind != TN_RO_COPY) return;
  int64_t *dense = (int64_t *)(uintptr_t)o->t.strides, all = 1; /* ours: only COPY outputs have strides apart from their view's */
  for (int k = o->t.rank; k-- > 0;) {
    dense[k] = all;
    all *= o->t.shape[k] ? o->t.shape[k] : 1;
  }
}

/* Addresses that stay until the next bind, and byte offsets of those that come with inputs and outputs. */
void tn_bind_addresses(tn_run *r) {
  const tn_plan *p = PLAN(r);
  r->moves = r->work->moves;
  for (uint32_t i = 0; i < r->at_in[p->n_in]; i++) r->patch_in[i].bytes = r->view[r->patch_in[i].view].offset;
  for (uint32_t i = 0; i < r->at_out[p->n_out]; i++) r->patch_out[i].bytes = r->view[r->patch_out[i].view].offset;
  for (uint32_t i = 0; i < r->n_fixed; i++) {
    const tn_patch *f = &r->patch_fixed[i];
    const tn_pbuf *b = &p->buf[f->from];
    unsigned char *base = NULL;
    if (b->kind == TN_PB_ARENA) base = r->work->arena.p ? (unsigned char *)r->work->arena.p + r->buf_offset[f->from] : NULL;
    else if (b->kind == TN_PB_CONST) base = (unsigned char *)(uintptr_t)b->data;
    else base = r->pack[r->pack_of[f->from]].kept ? r->p->kept->room[f->from].p : r->pack[r->pack_of[f->from]].room.p;
    *f->slot = base ? base + r->view[f->view].offset : NULL;
  }
}

static bool source_changed(const tn_run *r, const tn_pbuf *b) {
  for (uint32_t k = 0; k < b->n_source; k++)
    if (r->in[b->source[k]].changed) return true;
  return false;
}

tn_status tn_bind_shapes(tn_run *r, const tn_tensor *in) {
  const tn_plan *p = PLAN(r);
  size_t scratch = 0;
  bool first = r->stats.binds == 0;
  for (uint32_t i = 0; i < p->n_in; i++) TN_TRY(take_input(r, i, &in[i]));
  TN_TRY(bind_symbols(r, in));
  for (uint32_t i = 0; i < p->n_in; i++) TN_TRY(check_guard(r, i));
  TN_TRY(check_assumptions(r));
  bool sizes_changed = first || memcmp(r->expr, r->new_expr, p->n_expr * sizeof *r->expr) != 0;
  memcpy(r->sym, r->new_sym, p->n_sym * sizeof *r->sym);
  memcpy(r->expr, r->new_expr, p->n_expr * sizeof *r->expr);
  /* Packed copies whose form depends on sizes, or whose source looks different, are made anew, whatever happens below. */
  for (uint32_t i = 0; i < r->n_pack; i++)
    if (!r->pack[i].kept && ((sizes_changed && r->pack[i].symbolic) || source_changed(r, &p->buf[r->pack[i].buf]))) r->pack[i].stale = r->any_stale = true;
  for (uint32_t i = 0; i < p->n_in; i++) r->in[i].changed = false;
  for (uint32_t i = 0; i < p->n_view; i++) TN_TRY(eval_view(r, i));
  TN_TRY(bind_memory(r));
  for (uint32_t i = 0; i < p->n_view; i++) TN_TRY(check_view(r, i));
  for (uint32_t i = 0; i < r->n_step; i++) TN_TRY_WHILE(&r->diag, bind_step(r, &r->step[i], &scratch), "binding step %u %s", i, r->step[i].plan->text ? r->step[i].plan->text : "");
  if (tn_room_reserve(&r->work->scratch, scratch) != TN_OK) return tn_fail(&r->diag, TN_E_NOMEM, "scratch of %zu bytes for %d threads", scratch, r->n_threads);
  for (uint32_t i = 0; i < p->n_out; i++) bind_out(r, i);
  tn_bind_addresses(r);
  r->stats.binds++;
  return TN_OK;
}

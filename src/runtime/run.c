/* A run: the state of one call at a time, and the calls of run.h.
 *
 * The work of a call is split so that the common one, the same shapes again, costs well below a microsecond: everything
 * that depends on shapes is done by bind.c and kept; a bind then only compares the caller's numbers with those of the last
 * one and patches input addresses that moved. All arrays have a size known from the plan and live in one arena made at
 * creation; arena, scratch and packed copies only grow.
 *
 * Packed copies belong to the run. They follow the data pointer and version of the input they come from, both looked at
 * in every bind; a copy counts as fresh only after a run that made it succeeded. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O2") /* the room is built for size; this is in every call */
#endif
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "runtime/runtime_int.h"

#define PLAN(r) ((r)->p->plan)
enum { HUGE_PAGE = 2 << 20 };

tn_status tn_room_reserve(tn_room *m, size_t bytes) {
  if (bytes <= m->cap) return TN_OK;
  /* Room to grow: sizes that creep up, such as a growing sequence, must not allocate each time. */
  size_t cap = m->cap ? bytes + bytes / 4 : bytes, align = 64;
#ifdef MADV_HUGEPAGE
  if (cap >= 2 * HUGE_PAGE) align = HUGE_PAGE;
#endif
  if (cap < bytes || cap > SIZE_MAX - align) return TN_E_NOMEM;
  cap = (cap + align - 1) & ~(align - 1);
  void *p = tn_aligned_alloc(align, cap);
  if (!p) return TN_E_NOMEM;
#ifdef MADV_HUGEPAGE
  if (align == HUGE_PAGE) (void)madvise(p, cap, MADV_HUGEPAGE); /* a hint: fewer TLB misses */
#endif
  tn_free_aligned(m->p);
  *m = (tn_room){p, cap};
  return TN_OK;
}

void tn_room_deinit(tn_room *m) {
  tn_free_aligned(m->p);
  *m = (tn_room){0};
}

void tn_run_options_init(tn_run_options *o) { *o = (tn_run_options){.struct_size = sizeof *o}; }

static int default_threads(void) {
  int n = atoi(tn_env_get(TN_ENV_THREADS));
  return n > 0 ? n : tn_device_cores();
}

/* ---- creation: arrays, and who points where ---- */

static bool symbolic_view(const tn_pview *v) {
  bool yes = v->offset < 0 || !v->stride;
  for (int k = 0; k < v->rank; k++) yes |= v->dim[k] < 0 || (v->stride && v->stride[k] < 0);
  return yes;
}
bool tn_step_is_symbolic(const tn_plan *p, const tn_pstep *s) {
  bool yes = s->blocks < 0;
  for (uint32_t k = 0; k < s->n_size; k++) yes |= s->size[k] < 0;
  for (uint32_t k = 0; k < s->n_param; k++) yes |= s->param[k] < 0;
  for (uint32_t k = 0; k < s->n_arg; k++) yes |= symbolic_view(&p->view[s->arg[k]]);
  return yes;
}

/* Packed buffers, and whether what fills them depends on symbols: a pack step belongs to every packed buffer among its operands. */
static bool make_packs(tn_run *r) {
  const tn_plan *p = PLAN(r);
  for (uint32_t i = 0; i < p->n_buf; i++) r->n_pack += p->buf[i].kind == TN_PB_PACKED;
  r->pack = TN_NEW(&r->fixed, tn_rpack, r->n_pack);
  r->pack_of = TN_NEW(&r->fixed, uint32_t, p->n_buf);
  if (!r->pack || !r->pack_of) return r->n_pack = 0, false;
  uint32_t n = 0;
  for (uint32_t i = 0; i < p->n_buf; i++) {
    if (p->buf[i].kind != TN_PB_PACKED) continue;
    r->pack_of[i] = n;
    bool kept = r->p->kept && r->p->kept->is[i];
    r->pack[n++] = (tn_rpack){.buf = i, .kept = kept, .stale = !kept, .symbolic = p->buf[i].bytes < 0};
    r->any_stale |= !kept;
  }
  for (uint32_t i = 0; i < p->n_step; i++)
    for (uint32_t k = 0; p->step[i].pack && k < p->step[i].n_arg; k++) {
      uint32_t b = p->view[p->step[i].arg[k]].buf;
      if (p->buf[b].kind == TN_PB_PACKED) r->pack[r->pack_of[b]].symbolic |= tn_step_is_symbolic(p, &p->step[i]);
    }
  return true;
}

static bool make_inputs_and_views(tn_run *r) {
  const tn_plan *p = PLAN(r);
  r->in = TN_NEW(&r->fixed, tn_rin, p->n_in);
  r->view = TN_NEW(&r->fixed, tn_rview, p->n_view);
  r->out = TN_NEW(&r->fixed, tn_rout, p->n_out);
  if (!r->in || !r->view || !r->out) return false;
  for (uint32_t i = 0; i < p->n_in; i++) {
    r->in[i].shape = TN_NEW(&r->fixed, int64_t, 2 * p->in[i].rank);
    if (!r->in[i].shape) return false;
    r->in[i].stride = r->in[i].shape + p->in[i].rank;
  }
  for (uint32_t i = 0; i < p->n_view; i++) {
    r->view[i].shape = TN_NEW(&r->fixed, int64_t, 2 * p->view[i].rank);
    if (!r->view[i].shape) return false;
    r->view[i].stride = r->view[i].shape + p->view[i].rank;
  }
  for (uint32_t i = 0; i < p->n_out; i++) {
    const tn_pout *po = &p->out[i];
    tn_rout *o = &r->out[i];
    if (po->is_none) {
      o->t.dtype = -1;
    } else if (po->is_dim) {
      o->kind = TN_RO_DIM;
      o->t = (tn_tensor){.data = &o->value, .dtype = TN_I64};
    } else {
      const tn_pview *v = &p->view[po->view];
      const tn_pbuf *b = &p->buf[v->buf];
      o->kind = po->alias_input >= 0 ? TN_RO_ALIAS : b->kind == TN_PB_OUTPUT && b->index == i ? TN_RO_OWN : TN_RO_COPY;
      o->t = (tn_tensor){NULL, r->view[po->view].shape, r->view[po->view].stride, v->rank, v->dtype};
      o->src = o->t;
      if (o->kind == TN_RO_COPY && !(o->t.strides = TN_NEW(&r->fixed, int64_t, v->rank))) return false;
    }
  }
  return true;
}

static bool make_steps(tn_run *r) {
  const tn_plan *p = PLAN(r);
  r->step = TN_NEW(&r->fixed, tn_rstep, p->n_step);
  if (!r->step) return false;
  for (uint32_t i = 0; i < p->n_step; i++) {
    const tn_pstep *ps = &p->step[i];
    if (ps->kind == TN_PS_VIEW) {
      r->n_views++;
      continue;
    }
    tn_rstep *s = &r->step[r->n_step++];
    s->kind = ps->kind;
    s->pack = ps->pack;
    for (uint32_t k = 0; ps->pack && r->p->kept && k < ps->n_arg; k++) s->keeps |= r->p->kept->is[p->view[ps->arg[k]].buf];
    s->plan = ps;
    s->value = TN_NEW(&r->fixed, int64_t, ps->kind == TN_PS_LAUNCH ? ps->n_size : ps->n_param);
    if (!s->value) return false;
    if (ps->kind == TN_PS_LAUNCH) {
      void **ptr = TN_NEW(&r->fixed, void *, ps->n_arg);
      if (!ptr) return false;
      s->fn = r->p->fn[ps->kernel];
      s->args = (tn_kernel_args){ptr, s->value, tn_device_zeros(), &r->status};
      continue;
    }
    s->tensor = TN_NEW(&r->fixed, tn_tensor, ps->n_arg);
    if (!s->tensor) return false;
    for (uint32_t k = 0; k < ps->n_arg; k++) {
      const tn_pview *v = &p->view[ps->arg[k]];
      s->tensor[k] = (tn_tensor){NULL, r->view[ps->arg[k]].shape, r->view[ps->arg[k]].stride, v->rank, v->dtype};
    }
    if (ps->kind == TN_PS_LIB && ps->n_arg > r->n_lib) r->n_lib = ps->n_arg;
  }
  r->lib = TN_NEW(&r->fixed, tn_room, r->n_lib);
  if (!r->lib) return r->n_lib = 0, false;
  return true;
}

static int by_from(const void *pa, const void *pb) {
  const tn_patch *a = pa, *b = pb;
  if (a->from != b->from) return a->from < b->from ? -1 : 1;
  return (a->slot > b->slot) - (a->slot < b->slot);
}

typedef struct patches { tn_patch *at[3]; uint32_t n[3]; } patches; /* by inputs, outputs, fixed */

static void add_patch(const tn_plan *p, patches *q, void **slot, uint32_t view) {
  uint32_t buf = p->view[view].buf;
  const tn_pbuf *b = &p->buf[buf];
  int kind = b->kind == TN_PB_INPUT ? 0 : b->kind == TN_PB_OUTPUT ? 1 : 2;
  if (q->at[kind]) q->at[kind][q->n[kind]] = (tn_patch){slot, view, kind == 2 ? buf : b->index, 0};
  q->n[kind]++;
}

static void walk_slots(tn_run *r, patches *q) {
  const tn_plan *p = PLAN(r);
  for (uint32_t i = 0; i < r->n_step; i++) {
    tn_rstep *s = &r->step[i];
    for (uint32_t k = 0; k < s->plan->n_arg; k++)
      add_patch(p, q, s->kind == TN_PS_LAUNCH ? (void **)(uintptr_t)&s->args.ptr[k] : &s->tensor[k].data, s->plan->arg[k]);
  }
  for (uint32_t i = 0; i < p->n_out; i++)
    if (r->out[i].kind == TN_RO_COPY) add_patch(p, q, &r->out[i].src.data, p->out[i].view);
}

/* Two walks: one counts, one fills. */
static bool make_patches(tn_run *r) {
  const tn_plan *p = PLAN(r);
  patches q = {0};
  walk_slots(r, &q);
  for (int k = 0; k < 3; k++) {
    q.at[k] = TN_NEW(&r->fixed, tn_patch, q.n[k]);
    if (!q.at[k]) return false;
    q.n[k] = 0;
  }
  r->at_in = TN_NEW(&r->fixed, uint32_t, p->n_in + 1);
  r->at_out = TN_NEW(&r->fixed, uint32_t, p->n_out + 1);
  if (!r->at_in || !r->at_out) return false;
  walk_slots(r, &q);
  r->patch_in = q.at[0], r->patch_out = q.at[1], r->patch_fixed = q.at[2];
  r->n_fixed = q.n[2];
  qsort(r->patch_in, q.n[0], sizeof *r->patch_in, by_from);
  qsort(r->patch_out, q.n[1], sizeof *r->patch_out, by_from);
  for (uint32_t i = 0; i < q.n[0]; i++) r->at_in[r->patch_in[i].from + 1]++;
  for (uint32_t i = 0; i < q.n[1]; i++) r->at_out[r->patch_out[i].from + 1]++;
  for (uint32_t i = 0; i < p->n_in; i++) r->at_in[i + 1] += r->at_in[i];
  for (uint32_t i = 0; i < p->n_out; i++) r->at_out[i + 1] += r->at_out[i];
  return true;
}

static bool make_numbers(tn_run *r) {
  const tn_plan *p = PLAN(r);
  r->sym = TN_NEW(&r->fixed, int64_t, p->n_sym);
  r->new_sym = TN_NEW(&r->fixed, int64_t, p->n_sym);
  r->expr = TN_NEW(&r->fixed, int64_t, p->n_expr);
  r->new_expr = TN_NEW(&r->fixed, int64_t, p->n_expr);
  r->buf_offset = TN_NEW(&r->fixed, int64_t, p->n_buf);
  r->buf_bytes = TN_NEW(&r->fixed, int64_t, p->n_buf);
  if (!r->sym || !r->new_sym || !r->expr || !r->new_expr || !r->buf_offset || !r->buf_bytes) return false;
  /* One block that layouts rewind to, so that later ones allocate nothing. */
  if (!tn_arena_alloc(&r->scratch_arena, tn_plan_layout_scratch(p))) return false;
  tn_mark m = tn_arena_mark(&r->scratch_arena);
  tn_arena_rewind(&r->scratch_arena, (tn_mark){m.block, 0});
  for (uint32_t i = 0; i < p->n_sym; i++) r->has_value_syms |= p->sym[i].dim < 0;
  return true;
}

tn_status tn_run_create(const tn_program *p, const tn_run_options *o, tn_run **out) { return tn_run_create_on(p, o, NULL, out); }

tn_status tn_run_create_on(const tn_program *p, const tn_run_options *o, tn_workspace *work, tn_run **out) {
  *out = NULL;
  tn_run_options opt;
  tn_run_options_init(&opt);
  if (o) memcpy(&opt, o, o->struct_size < sizeof opt ? o->struct_size : sizeof opt);
  for (uint32_t i = 0; i < p->plan->n_step; i++)
    if (p->plan->step[i].kind == TN_PS_HOST && !opt.host) return TN_E_ARG;
  tn_run *r = tn_calloc(1, sizeof *r);
  if (!r) return TN_E_NOMEM;
  r->p = p;
  r->opt = opt;
  r->work = work ? work : &r->own;
  r->logged = tn_log_on("run");
  tn_arena_init(&r->fixed);
  tn_arena_init(&r->scratch_arena);
  int n = opt.threads > 0 ? opt.threads : default_threads();
  r->pool = tn_device_pool(n);
  r->n_threads = r->pool ? tn_pool_n_threads(r->pool) : 1;
  if ((n > 1 && !r->pool) || !make_numbers(r) || !make_packs(r) || !make_inputs_and_views(r) || !make_steps(r) || !make_patches(r)) {
    tn_run_destroy(r);
    return TN_E_NOMEM;
  }
  *out = r;
  return TN_OK;
}

void tn_run_destroy(tn_run *r) {
  if (!r) return;
  for (uint32_t i = 0; i < r->n_pack; i++) tn_room_deinit(&r->pack[i].room);
  for (uint32_t i = 0; i < r->n_lib; i++) tn_room_deinit(&r->lib[i]);
  for (uint32_t i = 0; i < r->n_step; i++) tn_k_kept_free(&r->step[i].kept);
  tn_room_deinit(&r->own.arena);
  tn_room_deinit(&r->own.scratch);
  tn_arena_deinit(&r->fixed);
  tn_arena_deinit(&r->scratch_arena);
  tn_free(r);
}

/* ---- calls ---- */

static bool same_shapes(const tn_run *r, const tn_tensor *in) {
  const tn_pguard_in *g = PLAN(r)->in;
  for (uint32_t i = 0, n = PLAN(r)->n_in; i < n; i++) {
    const tn_tensor *t = &in[i];
    const tn_rin *s = &r->in[i];
    if (t->dtype != g[i].dtype || t->rank != g[i].rank || (!t->data && !s->empty)) return false;
    for (int k = 0; k < t->rank; k++)
      if (t->shape[k] != s->shape[k]) return false;
    if (!t->strides) {
      if (!s->dense) return false;
    } else {
      for (int k = 0; k < t->rank; k++)
        if (t->strides[k] != s->stride[k]) return false;
    }
  }
  return !r->has_value_syms || tn_bind_same_values(r, in);
}

static void look_at_packs(tn_run *r, const uint64_t *key) {
  for (uint32_t i = 0; i < r->n_pack; i++) {
    tn_rpack *k = &r->pack[i];
    const tn_pbuf *b = &PLAN(r)->buf[k->buf];
    if (k->kept) continue;
    k->now_has_key = key != NULL;
    k->now_key = 0;
    k->now_data = 0;
    for (uint32_t j = 0; j < b->n_source; j++) { /* several sources: their keys and addresses mixed, in order */
      k->now_key = k->now_key * 0x9e3779b97f4a7c15u + (key ? key[b->source[j]] : 0);
      k->now_data = k->now_data * 0x9e3779b97f4a7c15u + (uintptr_t)r->in[b->source[j]].data;
    }
    if (k->now_data != k->data || (key && (!k->has_key || k->key != k->now_key))) k->stale = r->any_stale = true;
  }
}

tn_status tn_run_bind(tn_run *r, const tn_tensor *in, const uint64_t *key) {
  const tn_plan *p = PLAN(r);
  bool anew = !r->bound || !same_shapes(r, in);
  if (anew) {
    r->bound = false;
    TN_TRY(tn_bind_shapes(r, in));
  }
  for (uint32_t i = 0; i < p->n_in; i++) {
    if (in[i].data == r->in[i].data && !anew) continue;
    unsigned char *base = r->in[i].data = in[i].data;
    for (uint32_t k = r->at_in[i], end = r->at_in[i + 1]; k < end; k++) *r->patch_in[k].slot = base ? base + r->patch_in[k].bytes : NULL;
  }
  if (anew)
    for (uint32_t i = 0; i < p->n_out; i++) r->out[i].data = NULL; /* offsets may have changed: exec patches again */
  if (r->moves != r->work->moves) tn_bind_addresses(r); /* another run made the shared arena grow */
  if (r->n_pack) look_at_packs(r, key);
  r->bound = true;
  return TN_OK;
}

tn_status tn_run_out(tn_run *r, uint32_t i, tn_tensor *out) {
  if (i >= PLAN(r)->n_out) return tn_fail(&r->diag, TN_E_ARG, "output %u of %u", i, PLAN(r)->n_out);
  if (!r->bound) return tn_fail(&r->diag, TN_E_ARG, "output %u has no shape before inputs are bound", i);
  const tn_rout *o = &r->out[i];
  *out = o->t;
  if (o->kind == TN_RO_ALIAS) {
    unsigned char *base = r->in[PLAN(r)->out[i].alias_input].data;
    out->data = base ? base + r->view[PLAN(r)->out[i].view].offset : NULL;
  }
  return TN_OK;
}

int32_t tn_run_out_alias(const tn_run *r, uint32_t i) {
  return i < PLAN(r)->n_out && r->out[i].kind == TN_RO_ALIAS ? PLAN(r)->out[i].alias_input : -1;
}

static bool as_told(const tn_rout *o, const tn_tensor *t) {
  if (t->dtype != o->t.dtype || t->rank != o->t.rank) return false;
  if (t->shape == o->t.shape && t->strides == o->t.strides) return true;
  int64_t dense = 1;
  for (int k = t->rank; k-- > 0;) {
    int64_t stride = t->strides ? t->strides[k] : dense;
    if (t->shape[k] != o->t.shape[k] || (stride != o->t.strides[k] && t->shape[k] != 1 && !o->empty)) return false;
    dense *= t->shape[k];
  }
  return true;
}

static tn_status take_outputs(tn_run *r, const tn_tensor *out) {
  for (uint32_t i = 0, n = PLAN(r)->n_out; i < n; i++) {
    tn_rout *o = &r->out[i];
    if (o->kind < TN_RO_OWN) continue;
    if (!as_told(o, &out[i])) return tn_fail(&r->diag, TN_E_ARG, "output %u: dtype, shape or strides differ from tn_run_out", i);
    if (!out[i].data && !o->empty) return tn_fail(&r->diag, TN_E_ARG, "output %u: has no memory", i);
    if (out[i].data == o->data) continue;
    unsigned char *base = o->data = out[i].data;
    for (uint32_t k = r->at_out[i], end = r->at_out[i + 1]; k < end; k++) *r->patch_out[k].slot = base ? base + r->patch_out[k].bytes : NULL;
  }
  return TN_OK;
}

static void give_outputs(tn_run *r, tn_tensor *out) {
  for (uint32_t i = 0, n = PLAN(r)->n_out; i < n; i++) {
    const tn_rout *o = &r->out[i];
    if (o->kind == TN_RO_DIM && out[i].data && out[i].data != &o->value) memcpy(out[i].data, &o->value, sizeof o->value);
    if (o->kind != TN_RO_COPY) continue;
    tn_tensor dst = o->t;
    dst.data = o->data;
    tn_copy_strided(r->pool, &o->src, &dst);
  }
}

tn_status tn_run_exec(tn_run *r, tn_tensor *out) {
  if (!r->bound) return tn_fail(&r->diag, TN_E_ARG, "inputs are not bound");
  r->stats.calls++;
  TN_TRY(take_outputs(r, out));
  TN_TRY(tn_exec_steps(r));
  give_outputs(r, out);
  if (r->any_stale) {
    for (uint32_t i = 0; i < r->n_pack; i++) {
      tn_rpack *k = &r->pack[i];
      k->stale = false;
      k->data = k->now_data;
      k->has_key = k->now_has_key;
      k->key = k->now_key;
    }
    r->any_stale = false;
  }
  return TN_OK;
}

const char *tn_run_error(const tn_run *r) { return r->diag.text; }
void tn_run_get_stats(const tn_run *r, tn_run_stats *out) { *out = r->stats; }

void tn_set_log(tn_log_sink fn, void *user) { tn_log_set(fn, user); }

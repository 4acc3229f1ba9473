/* The rules of a plan: every number points at something, expressions are well-formed programs over declared symbols, and
 * where sizes are constants no view leaves its buffer (the run time checks the symbolic ones at bind). A plan that
 * passes can be loaded and bound without further checks of its structure; that is why packages run this too. */
#include <inttypes.h>
#include <string.h>
#include "plan/plan.h"

typedef struct check { tn_diag *d; const tn_plan *p; } check;
#define BAD(c, ...) return tn_fail((c)->d, TN_E_VERIFY, __VA_ARGS__)

static tn_status dim_ok(const check *c, tn_pdim d, const char *what, uint32_t i) {
  if (d < 0 && ~d >= (int64_t)c->p->n_expr) BAD(c, "%s %u names expression %" PRId64 " of %u", what, i, ~d, c->p->n_expr);
  return TN_OK;
}
static tn_status dims_ok(const check *c, const tn_pdim *d, uint32_t n, const char *what, uint32_t i) {
  if (n && !d) BAD(c, "%s %u has %u sizes but no list", what, i, n);
  for (uint32_t k = 0; k < n; k++) TN_TRY(dim_ok(c, d[k], what, i));
  return TN_OK;
}

static tn_status exprs(const check *c) {
  for (uint32_t i = 0; i < c->p->n_expr; i++) {
    const tn_pexpr *e = &c->p->expr[i];
    if (!e->text || !e->code) BAD(c, "expression %u has no text or no program", i);
    int depth = 0;
    for (uint32_t k = 0; k < e->n; k++) {
      uint8_t op = e->code[k].op;
      if (op == 'c' || op == 's') {
        if (op == 's' && (e->code[k].v < 0 || e->code[k].v >= (int64_t)c->p->n_sym))
          BAD(c, "expression %u (%s) reads symbol %" PRId64 " of %u", i, e->text, e->code[k].v, c->p->n_sym);
        if (++depth > TN_DIM_STACK) BAD(c, "expression %u (%s) is nested too deep", i, e->text);
      } else if (op && strchr("+*/%mM", op)) {
        if (--depth < 1) BAD(c, "expression %u (%s) misses an operand", i, e->text);
      } else {
        BAD(c, "expression %u (%s) has an unknown operation %u", i, e->text, op);
      }
    }
    if (depth != 1) BAD(c, "expression %u (%s) leaves %d values", i, e->text, depth);
  }
  return TN_OK;
}

static tn_status interface(const check *c) {
  const tn_plan *p = c->p;
  if (p->n_assume && !p->assume) BAD(c, "%u assumptions but no list", p->n_assume);
  for (uint32_t i = 0; i < p->n_assume; i++) {
    TN_TRY(dim_ok(c, p->assume[i].a, "assumption", i));
    TN_TRY(dim_ok(c, p->assume[i].b, "assumption", i));
  }
  for (uint32_t i = 0; i < p->n_in; i++) {
    const tn_pguard_in *g = &p->in[i];
    if (!tn_dtype_is_value(g->dtype) || g->rank > TN_PLAN_MAX_RANK) BAD(c, "input %u has dtype %u, rank %u", i, g->dtype, g->rank);
    TN_TRY(dims_ok(c, g->dim, g->rank, "input", i));
    if (g->stride) TN_TRY(dims_ok(c, g->stride, g->rank, "strides of input", i));
  }
  for (uint32_t i = 0; i < p->n_sym; i++) {
    const tn_psym *s = &p->sym[i];
    if (!s->name || s->lo > s->hi) BAD(c, "symbol %u has no name or an empty range", i);
    if (s->input < 0 || s->input >= (int64_t)p->n_in) BAD(c, "symbol %s is bound from input %d of %u", s->name, s->input, p->n_in);
    const tn_pguard_in *g = &p->in[s->input];
    if (s->dim >= (int)g->rank) BAD(c, "symbol %s is bound from dim %d of input %d, which has rank %u", s->name, s->dim, s->input, g->rank);
    if (s->dim < 0 && (g->rank != 0 || !tn_dtype_is_int((tn_dtype)g->dtype)))
      BAD(c, "symbol %s is the value of input %d, which is no integer scalar", s->name, s->input);
  }
  for (uint32_t i = 0; i < p->n_out; i++) {
    const tn_pout *o = &p->out[i];
    if (o->is_none) continue;
    if (o->is_dim) {
      TN_TRY(dim_ok(c, o->dim, "output", i));
      continue;
    }
    if (o->view >= p->n_view) BAD(c, "output %u is view %u of %u", i, o->view, p->n_view);
    const tn_pview *v = &p->view[o->view];
    const tn_pbuf *b = &p->buf[v->buf];
    if (o->alias_input >= 0 && (b->kind != TN_PB_INPUT || b->index != (uint32_t)o->alias_input))
      BAD(c, "output %u is said to alias input %d, but its view %u is of another buffer", i, o->alias_input, o->view);
    if (b->kind == TN_PB_OUTPUT && b->index == i && v->offset != 0) BAD(c, "output %u starts inside its own buffer (view %u)", i, o->view);
  }
  for (uint32_t i = 0; i < p->n_buf; i++) {
    const tn_pbuf *b = &p->buf[i];
    if (b->kind != TN_PB_OUTPUT) continue;
    const tn_pout *o = &p->out[b->index]; /* the caller's memory is as big as this view */
    const tn_pbuf *own = o->is_none || o->is_dim ? NULL : &p->buf[p->view[o->view].buf];
    if (!own || own->kind != TN_PB_OUTPUT || own->index != b->index) BAD(c, "buffer %u is output %u, whose own view is elsewhere", i, b->index);
  }
  return TN_OK;
}

/* Bytes of a buffer when they are constant, else negative. Inputs and outputs take their size from guard and output view. */
static int64_t static_bytes(const tn_pbuf *b) {
  return b->kind == TN_PB_INPUT || b->kind == TN_PB_OUTPUT ? -1 : b->bytes;
}

static tn_status buffers(const check *c) {
  const tn_plan *p = c->p;
  for (uint32_t i = 0; i < p->n_buf; i++) {
    const tn_pbuf *b = &p->buf[i];
    switch (b->kind) {
    case TN_PB_INPUT:
      if (b->index >= p->n_in) BAD(c, "buffer %u is input %u of %u", i, b->index, p->n_in);
      break;
    case TN_PB_OUTPUT:
      if (b->index >= p->n_out) BAD(c, "buffer %u is output %u of %u", i, b->index, p->n_out);
      break;
    case TN_PB_ARENA:
      TN_TRY(dim_ok(c, b->bytes, "buffer", i));
      if (b->first > b->last || b->last >= p->n_step) BAD(c, "buffer %u lives in steps %u..%u of %u", i, b->first, b->last, p->n_step);
      break;
    case TN_PB_CONST:
      if (b->bytes < 0) BAD(c, "constant buffer %u has a symbolic size", i);
      if ((uintptr_t)b->data & 63) BAD(c, "constant buffer %u is not 64-byte aligned", i);
      break;
    case TN_PB_PACKED:
      TN_TRY(dim_ok(c, b->bytes, "buffer", i));
      for (uint32_t k = 0; k < b->n_source; k++) {
        if (b->source[k] >= p->n_in) BAD(c, "packed buffer %u comes from input %u of %u", i, b->source[k], p->n_in);
        if (k && b->source[k] <= b->source[k - 1]) BAD(c, "sources of packed buffer %u are out of order", i);
      }
      break;
    default: BAD(c, "buffer %u has kind %u", i, (unsigned)b->kind);
    }
  }
  return TN_OK;
}

/* A view's reach when all its numbers are constants: false when symbolic. Overflow counts as reaching too far. */
static bool static_reach(const tn_pview *v, int64_t *hi) {
  if (v->offset < 0 || !v->stride) return false;
  int64_t at = v->offset;
  bool empty = false, over = false;
  for (int k = 0; k < v->rank; k++) {
    int64_t t;
    if (v->dim[k] < 0 || v->stride[k] < 0) return false;
    if (v->dim[k] == 0) empty = true;
    else over |= __builtin_mul_overflow(v->dim[k] - 1, v->stride[k], &t) || __builtin_add_overflow(at, t, &at);
  }
  *hi = empty ? 0 : over ? INT64_MAX / 16 : at + 1;
  return true;
}

static tn_status views(const check *c) {
  const tn_plan *p = c->p;
  for (uint32_t i = 0; i < p->n_view; i++) {
    const tn_pview *v = &p->view[i];
    if (v->buf >= p->n_buf) BAD(c, "view %u is of buffer %u of %u", i, v->buf, p->n_buf);
    if (!tn_dtype_is_value(v->dtype) || v->rank > TN_PLAN_MAX_RANK) BAD(c, "view %u has dtype %u, rank %u", i, v->dtype, v->rank);
    TN_TRY(dims_ok(c, v->dim, v->rank, "view", i));
    TN_TRY(dim_ok(c, v->offset, "view", i));
    const tn_pbuf *b = &p->buf[v->buf];
    if (v->stride) {
      TN_TRY(dims_ok(c, v->stride, v->rank, "strides of view", i));
    } else if (v->rank && (b->kind != TN_PB_INPUT || v->rank != p->in[b->index].rank || v->dtype != p->in[b->index].dtype || v->offset != 0)) {
      BAD(c, "view %u takes its caller's strides, but is not an input as a whole", i);
    }
    int64_t hi, bytes = static_bytes(b), size = (int64_t)tn_dtype_size((tn_dtype)v->dtype);
    if (bytes >= 0 && static_reach(v, &hi) && (hi > INT64_MAX / size || hi * size > bytes))
      BAD(c, "view %u reaches element %" PRId64 " of %" PRId64 " bytes in buffer %u, which has %" PRId64 " bytes", i, hi, size, v->buf, bytes);
  }
  return TN_OK;
}

static tn_status step(const check *c, uint32_t i) {
  const tn_plan *p = c->p;
  const tn_pstep *s = &p->step[i];
  if (s->n_arg && !s->arg) BAD(c, "step %u has %u operands but no list", i, s->n_arg);
  if (s->n_in > s->n_arg) BAD(c, "step %u has %u inputs in %u operands", i, s->n_in, s->n_arg);
  bool packs = false;
  for (uint32_t k = 0; k < s->n_arg; k++) {
    if (s->arg[k] >= p->n_view) BAD(c, "step %u uses view %u of %u", i, s->arg[k], p->n_view);
    const tn_pview *v = &p->view[s->arg[k]];
    const tn_pbuf *b = &p->buf[v->buf];
    packs |= b->kind == TN_PB_PACKED;
    if (b->kind == TN_PB_ARENA && s->kind != TN_PS_VIEW && (i < b->first || i > b->last))
      BAD(c, "step %u uses buffer %u, which lives in steps %u..%u", i, v->buf, b->first, b->last);
    if (s->kind == TN_PS_LAUNCH && !v->stride && v->rank) BAD(c, "step %u launches on view %u, which has no planned strides", i, s->arg[k]);
  }
  if (s->pack && !packs) BAD(c, "step %u is a pack, but has no packed buffer", i);
  switch (s->kind) {
  case TN_PS_LAUNCH: {
    if (s->kernel >= p->n_kernel) BAD(c, "step %u launches kernel %u of %u", i, s->kernel, p->n_kernel);
    const tn_pkernel *k = &p->kernel[s->kernel];
    if (s->n_arg != k->n_param || s->n_size != k->n_size)
      BAD(c, "step %u gives %u operands and %u sizes to kernel '%s', which has %u and %u", i, s->n_arg, s->n_size, k->name, k->n_param, k->n_size);
    TN_TRY(dims_ok(c, s->size, s->n_size, "step", i));
    TN_TRY(dim_ok(c, s->blocks, "step", i));
    TN_TRY(dim_ok(c, s->grain, "step", i));
    TN_TRY(dim_ok(c, s->work, "step", i));
    return dim_ok(c, s->scratch, "step", i);
  }
  case TN_PS_LIB: {
    const tn_plib_row *r = tn_plib_get(s->kernel);
    if (!r) BAD(c, "step %u calls library row %u of %d", i, s->kernel, TN_N_LIBS);
    if ((r->n_in >= 0 && s->n_in != (uint32_t)r->n_in) || s->n_arg - s->n_in != (uint32_t)r->n_out)
      BAD(c, "step %u calls %s with %u inputs and %u results", i, r->text, s->n_in, s->n_arg - s->n_in);
    return dims_ok(c, s->param, s->n_param, "step", i);
  }
  case TN_PS_HOST:
    if (s->kernel >= p->n_host) BAD(c, "step %u makes host call %u of %u", i, s->kernel, p->n_host);
    return TN_OK;
  case TN_PS_VIEW: return TN_OK;
  }
  BAD(c, "step %u has kind %u", i, (unsigned)s->kind);
}

tn_status tn_plan_verify(tn_diag *d, const tn_plan *p) {
  const check c = {d, p};
  for (uint32_t i = 0; i < p->n_kernel; i++)
    if (!p->kernel[i].name) return tn_fail(d, TN_E_VERIFY, "kernel %u has no name", i);
  tn_status st = exprs(&c);
  if (st == TN_OK) st = buffers(&c);
  if (st == TN_OK) st = views(&c);
  if (st == TN_OK) st = interface(&c);
  for (uint32_t i = 0; st == TN_OK && i < p->n_step; i++) st = step(&c, i);
  if (st != TN_OK) tn_diag_while(d, st, "verifying plan '%s'", p->name);
  return st;
}

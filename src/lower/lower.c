/* lower.c: the plan of a graph. Every value gets a place: inputs theirs, views a view, results a buffer; pieces of a concat and returned
 * values are made where they are wanted. Then steps in graph order. Buffers live from the first to the last step that touches them. Kernels
 * are lower_kernel.c's; arena offsets are computed by plan/layout.c when sizes are known. */
#include <stdio.h>
#include <string.h>
#include "lower/lower_plan.h"

uint32_t tn_pb_buf(tn_pb *b, tn_pbuf_kind kind, tn_dim bytes) {
  tn_plan *p = b->p;
  if (!TN_PUSH_ROOM(p->arena, p->buf, p->n_buf, b->cap_buf)) return UINT32_MAX;
  tn_pbuf *f = &p->buf[p->n_buf];
  memset(f, 0, sizeof *f);
  f->kind = kind;
  f->first = UINT32_MAX;
  if (tn_plan_dim(b->d, p, b->dims, bytes, &f->bytes) != TN_OK) return UINT32_MAX;
  return p->n_buf++;
}

uint32_t tn_pb_view(tn_pb *b, uint32_t buf, const tn_lview *v, const char *name) {
  tn_plan *p = b->p;
  if (!TN_PUSH_ROOM(p->arena, p->view, p->n_view, b->cap_view)) return UINT32_MAX;
  tn_pview *w = &p->view[p->n_view];
  *w = (tn_pview){.buf = buf, .dtype = (uint8_t)v->dtype, .rank = (uint8_t)v->rank, .name = tn_arena_strdup(p->arena, name ? name : "v")};
  w->dim = TN_NEW(p->arena, tn_pdim, v->rank + 1);
  w->stride = TN_NEW(p->arena, tn_pdim, v->rank + 1);
  if (!w->dim || !w->stride || !w->name) return UINT32_MAX;
  for (uint32_t i = 0; i < v->rank; i++)
    if (tn_plan_dim(b->d, p, b->dims, v->dim[i], &w->dim[i]) != TN_OK ||
        tn_plan_dim(b->d, p, b->dims, v->stride[i], &w->stride[i]) != TN_OK)
      return UINT32_MAX;
  if (tn_plan_dim(b->d, p, b->dims, v->offset, &w->offset) != TN_OK) return UINT32_MAX;
  return p->n_view++;
}

tn_status tn_pb_view_of(tn_pb *b, tn_ref r, uint32_t *out) {
  tn_loc *l = &b->loc[r.id];
  if (!l->set) return tn_fail(b->d, TN_E_INTERNAL, "value %u has no place", r.id);
  if (!l->plan_view) {
    char nm[24];
    snprintf(nm, sizeof nm, "t%u", r.id);
    uint32_t v = tn_pb_view(b, l->buf, &l->v, b->g->value[r.id].name ? b->g->value[r.id].name : nm);
    if (v == UINT32_MAX) return tn_fail(b->d, TN_E_NOMEM, "view of value %u", r.id);
    l->plan_view = v + 1;
  }
  *out = l->plan_view - 1;
  return TN_OK;
}

tn_status tn_pb_step(tn_pb *b, tn_pstep s) {
  tn_plan *p = b->p;
  if (!TN_PUSH_ROOM(p->arena, p->step, p->n_step, b->cap_step)) return tn_fail(b->d, TN_E_NOMEM, "steps");
  for (uint32_t i = 0; i < s.n_arg; i++) {
    tn_pbuf *f = &p->buf[p->view[s.arg[i]].buf];
    if (f->first == UINT32_MAX) f->first = p->n_step;
    f->last = p->n_step;
  }
  p->step[p->n_step++] = s;
  return TN_OK;
}

static tn_status lib_step(tn_pb *b, uint32_t lib, const uint32_t *arg, uint32_t n_arg, uint32_t n_in, const tn_pdim *param,
                          uint32_t n_param, bool pack, uint32_t prov) {
  tn_pstep s = {.kind = TN_PS_LIB, .kernel = lib, .n_arg = n_arg, .n_in = n_in, .n_param = n_param, .pack = pack, .prov = prov};
  s.arg = TN_NEW(b->p->arena, uint32_t, n_arg + 1);
  s.param = TN_NEW(b->p->arena, tn_pdim, n_param + 1);
  s.text = tn_arena_printf(b->p->arena, "%s(...)", tn_plib_get(lib)->text);
  if (!s.arg || !s.param || !s.text) return tn_fail(b->d, TN_E_NOMEM, "library step");
  memcpy(s.arg, arg, n_arg * sizeof *arg);
  if (n_param) memcpy(s.param, param, n_param * sizeof *param);
  return tn_pb_step(b, s);
}
tn_status tn_pb_copy(tn_pb *b, uint32_t src, uint32_t dst, bool pack) {
  return lib_step(b, TN_LIB_COPY, (uint32_t[]){src, dst}, 2, 1, NULL, 0, pack, 0);
}

static tn_dim view_bytes(tn_pb *b, const tn_lview *v) { /* of a freshly made buffer: any permutation of a dense one */
  tn_dim n = (tn_dim)tn_dtype_size(v->dtype);
  for (uint32_t i = 0; i < v->rank; i++) n = tn_dim_mul(b->dims, n, v->dim[i]);
  return n;
}

static tn_status no_buf(tn_pb *b, tn_dim bytes, const char *what) {
  return bytes == TN_DIM_BAD ? tn_fail(b->d, TN_E_UNSUPPORTED, "%s: more bytes than 63 bits count", what) : tn_fail(b->d, TN_E_NOMEM, "%s", what);
}

static bool place(tn_pb *b, uint32_t value, uint32_t buf, const tn_lview *v) {
  b->loc[value] = (tn_loc){.set = true, .claimed = b->loc[value].claimed, .buf = buf, .v = *v};
  return true;
}

static bool made(const tn_node *n) { /* results that steps write, so their place is ours to choose */
  return n->op == TN_OP_FUSED || n->op == TN_OP_CONCAT || tn_op_cls(n->op) == TN_CLS_LIBRARY || n->op == TN_OP_OPAQUE ||
         n->op == TN_OP_SCAN;
}

static void dense_in_order(tn_pb *b, const tn_type *t, const tn_dim *order, tn_lview *v) {
  tn_lview_dense(b->dims, t, v);
  tn_dim run = 1;
  for (uint32_t i = t->rank; i-- > 0;) {
    v->stride[order[i]] = run;
    run = tn_dim_mul(b->dims, run, t->dim[order[i]]);
  }
}

static bool channels_last_like(tn_pb *b, const tn_lview *v) {
  if (v->rank < 4 || v->dim[1] == 1) return false;
  if (v->stride[1] != 1) return false;
  for (uint32_t i = 2; i < v->rank; i++)
    if (v->dim[i] != 1) return !tn_lview_is_dense(b->dims, v);
  return false;
}

/* Stored order of dims for result `value` of node n. */
static void stored(tn_pb *b, uint32_t node, uint32_t value, tn_lview *v) {
  const tn_node *n = &b->g->node[node];
  const tn_type *t = &b->g->value[value].type;
  tn_dim order[TN_MAX_RANK];
  tn_lview_dense(b->dims, t, v);
  if (n->op != TN_OP_FUSED) return;
  /* a permute that is then reshaped across its dims: store permuted, so that both are views */
  for (uint32_t i = node + 1; i < b->g->n_nodes; i++) {
    const tn_node *c = &b->g->node[i];
    if (c->op != TN_OP_PERMUTE || c->in[0].id != value) continue;
    tn_lview pv, rv;
    if (!tn_lview_apply(b->g, b->dims, c, v, &pv)) continue;
    for (uint32_t j = i + 1; j < b->g->n_nodes; j++) {
      const tn_node *e = &b->g->node[j];
      if (e->op != TN_OP_RESHAPE || e->in[0].id != c->out || tn_lview_apply(b->g, b->dims, e, &pv, &rv)) continue;
      tn_attr_dims(c, "perm", order, TN_MAX_RANK);
      dense_in_order(b, t, order, v);
      return;
    }
  }
  bool cl = false;
  if (t->rank >= 4) {
    for (uint32_t i = 1; i < n->body->n_nodes; i++) {
      tn_op op = n->body->node[i].op;
      cl |= op == TN_OP_CONV || op == TN_OP_CONVT;
    }
    for (uint32_t i = 0; i < n->n_in && !cl; i++) {
      const tn_loc *l = &b->loc[n->in[i].id];
      if (l->set && l->v.rank == t->rank) cl = channels_last_like(b, &l->v);
    }
  }
  if (cl) {
    order[0] = 0;
    for (uint32_t i = 2; i < t->rank; i++) order[i - 1] = i;
    order[t->rank - 1] = 1;
    dense_in_order(b, t, order, v);
  }
}

static tn_status new_place(tn_pb *b, uint32_t node, uint32_t value) {
  if (b->loc[value].set) return TN_OK;
  tn_lview v;
  stored(b, node, value, &v);
  bool frozen = b->frozen[node] && made(&b->g->node[node]);
  uint32_t buf = tn_pb_buf(b, frozen ? TN_PB_PACKED : TN_PB_ARENA, view_bytes(b, &v));
  if (buf == UINT32_MAX) return no_buf(b, view_bytes(b, &v), "a value");
  if (frozen) TN_TRY(tn_pb_sources(b, node, buf));
  place(b, value, buf, &v);
  return TN_OK;
}

/* A kernel that copies value x through layout node n (a reshape that is no view, ...). */
static tn_status copy_kernel(tn_pb *b, uint32_t node) {
  tn_node n = b->g->node[node];
  tn_graph *body;
  tn_ref x, y;
  TN_TRY(tn_graph_body(b->g, "copy", &body));
  TN_TRY(tn_graph_add_input(body, "x", *tn_typeof(b->g, n.in[0]), TN_ORIGIN_INPUT, &x));
  TN_TRY(tn_ops_add(b->d, body, n.op, &x, 1, n.attr, n.n_attr, n.prov, &y));
  TN_TRY(tn_graph_add_output(body, y));
  TN_TRY(new_place(b, node, n.out));
  /* the node itself turns into the fused one: same operand, same result */
  tn_node *m = &b->g->node[node];
  tn_attr *kind = TN_NEW(b->g->arena, tn_attr, 1);
  if (!kind) return tn_fail(b->d, TN_E_NOMEM, "copy kernel");
  *kind = tn_mk_str("kind", "pointwise");
  m->op = TN_OP_FUSED;
  m->body = body;
  m->attr = kind;
  m->n_attr = 1;
  return tn_pb_kernel(b, node);
}

static tn_status inputs(tn_pb *b) {
  tn_plan *p = b->p;
  tn_graph *g = b->g;
  p->in = TN_NEW(p->arena, tn_pguard_in, g->n_inputs + 1);
  p->n_in = g->n_inputs;
  p->sym = TN_NEW(p->arena, tn_psym, tn_dims_n_syms(b->dims) + 1);
  if (!p->in || !p->sym) return tn_fail(b->d, TN_E_NOMEM, "inputs");
  uint32_t n_sym = tn_dims_n_syms(b->dims);
  p->n_sym = n_sym;
  for (uint32_t i = 0; i < n_sym; i++) {
    tn_psym *s = &p->sym[i];
    *s = (tn_psym){.name = tn_arena_strdup(p->arena, tn_dims_sym_name(b->dims, i)), .input = -1};
    tn_dims_sym_range(b->dims, i, &s->lo, &s->hi);
    for (uint32_t k = 0; k < g->n_inputs && s->input < 0; k++) {
      const tn_node *n = tn_def(g, g->input[k]);
      const tn_type *t = tn_typeof(g, g->input[k]);
      if (n->input->origin == TN_ORIGIN_SYM) {
        if (tn_dim_sym_ordinal(b->dims, n->input->sym) == (int)i) {
          s->input = (int32_t)k;
          s->dim = -1;
        }
        continue;
      }
      for (uint32_t q = 0; q < t->rank && s->input < 0; q++)
        if (tn_dim_sym_ordinal(b->dims, t->dim[q]) == (int)i) {
          s->input = (int32_t)k;
          s->dim = (int32_t)q;
        }
    }
    if (!s->name) return tn_fail(b->d, TN_E_NOMEM, "symbols");
  }
  for (uint32_t i = 0; i < g->n_inputs; i++) {
    const tn_node *n = tn_def(g, g->input[i]);
    const tn_type *t = tn_typeof(g, g->input[i]);
    tn_pguard_in *in = &p->in[i];
    tn_lview v;
    tn_lview_dense(b->dims, t, &v);
    if (n->input->stride)
      for (uint32_t k = 0; k < t->rank; k++) v.stride[k] = n->input->stride[k];
    *in = (tn_pguard_in){.dtype = t->dtype,
                         .rank = t->rank,
                         .name = tn_arena_strdup(p->arena, g->value[g->input[i].id].name ? g->value[g->input[i].id].name : "x")};
    in->dim = TN_NEW(p->arena, tn_pdim, t->rank + 1);
    in->stride = TN_NEW(p->arena, tn_pdim, t->rank + 1);
    if (!in->dim || !in->stride || !in->name) return tn_fail(b->d, TN_E_NOMEM, "inputs");
    for (uint32_t k = 0; k < t->rank; k++) {
      TN_TRY(tn_plan_dim(b->d, p, b->dims, v.dim[k], &in->dim[k]));
      TN_TRY(tn_plan_dim(b->d, p, b->dims, v.stride[k], &in->stride[k]));
    }
    uint32_t buf = tn_pb_buf(b, TN_PB_INPUT, 0);
    if (buf == UINT32_MAX) return tn_fail(b->d, TN_E_NOMEM, "inputs");
    p->buf[buf].index = i;
    place(b, g->input[i].id, buf, &v);
  }
  return TN_OK;
}

/* Walks from a returned value through views to what is made; false when it ends at an input or constant. */
static tn_ref base_of(tn_pb *b, tn_ref r) {
  for (;;) {
    const tn_node *n = tn_def(b->g, r);
    if (tn_op_cls(n->op) != TN_CLS_LAYOUT || n->op == TN_OP_CONCAT || n->op == TN_OP_PAD || n->op == TN_OP_FLIP) return r;
    r = n->in[0];
  }
}

static bool same_numel(tn_pb *b, const tn_type *x, const tn_type *y) {
  tn_dim p = 1, q = 1;
  for (uint32_t i = 0; i < x->rank; i++) p = tn_dim_mul(b->dims, p, x->dim[i]);
  for (uint32_t i = 0; i < y->rank; i++) q = tn_dim_mul(b->dims, q, y->dim[i]);
  return p == q;
}

static tn_status outputs_first(tn_pb *b) { /* returned values are made in the caller's memory */
  tn_graph *g = b->g;
  b->p->out = TN_NEW(b->p->arena, tn_pout, g->n_outputs + 1);
  b->p->n_out = g->n_outputs;
  if (!b->p->out) return tn_fail(b->d, TN_E_NOMEM, "outputs");
  for (uint32_t i = 0; i < g->n_outputs; i++) {
    const tn_output *o = &g->output[i];
    tn_pout *po = &b->p->out[i];
    *po = (tn_pout){.is_none = o->is_none, .is_dim = o->is_dim, .alias_input = -1};
    if (o->is_dim) {
      TN_TRY(tn_plan_dim(b->d, b->p, b->dims, o->dim, &po->dim));
      continue;
    }
    if (o->is_none) continue;
    tn_ref r = base_of(b, o->ref);
    const tn_node *n = tn_def(g, r);
    if (!made(n) || b->loc[r.id].claimed || !same_numel(b, tn_typeof(g, r), tn_typeof(g, o->ref))) continue;
    /* every view on the way must be one of a dense buffer */
    tn_lview v;
    tn_lview_dense(b->dims, tn_typeof(g, r), &v);
    bool ok = true;
    tn_ref chain[64];
    uint32_t len = 0;
    for (tn_ref q = o->ref; q.id != r.id && ok; q = tn_def(g, q)->in[0]) {
      if (len == 64)
        ok = false;
      else
        chain[len++] = q;
    }
    for (uint32_t j = len; j-- > 0 && ok;) {
      tn_lview w;
      ok = tn_lview_apply(g, b->dims, tn_def(g, chain[j]), &v, &w);
      v = w;
    }
    if (!ok || v.offset != 0) continue; /* a cut of nothing has as many elements as the whole, but may start elsewhere */
    tn_lview_dense(b->dims, tn_typeof(g, r), &v);
    uint32_t buf = tn_pb_buf(b, TN_PB_OUTPUT, view_bytes(b, &v));
    if (buf == UINT32_MAX) return no_buf(b, view_bytes(b, &v), "outputs");
    b->p->buf[buf].index = i;
    b->loc[r.id].claimed = true;
    place(b, r.id, buf, &v);
    b->loc[r.id].claimed = true;
  }
  return TN_OK;
}

static tn_status concats_first(tn_pb *b) { /* later concats first: a piece may be a concat itself */
  tn_graph *g = b->g;
  for (uint32_t i = g->n_nodes; i-- > 1;) {
    const tn_node *n = &g->node[i];
    if (n->op != TN_OP_CONCAT) continue;
    TN_TRY(new_place(b, i, n->out));
    tn_loc whole = b->loc[n->out];
    int64_t dim = tn_attr_int(n, "dim", 0);
    tn_dim at = 0;
    for (uint32_t k = 0; k < n->n_in; k++) {
      const tn_type *t = tn_typeof(g, n->in[k]);
      tn_lview v = whole.v;
      v.offset = tn_dim_add(b->dims, whole.v.offset, tn_dim_mul(b->dims, at, whole.v.stride[dim]));
      for (uint32_t q = 0; q < t->rank; q++) v.dim[q] = t->dim[q];
      at = tn_dim_add(b->dims, at, t->dim[dim]);
      tn_ref r = n->in[k];
      const tn_node *src = tn_def(g, r);
      if (made(src) && !b->loc[r.id].set && b->uses[r.id] == 1) {
        place(b, r.id, whole.buf, &v);
        b->loc[r.id].claimed = true;
      }
    }
  }
  return TN_OK;
}

static tn_status concat(tn_pb *b, uint32_t node) { /* copies the pieces that could not be made in place */
  const tn_node *n = &b->g->node[node];
  tn_loc whole = b->loc[n->out];
  int64_t dim = tn_attr_int(n, "dim", 0);
  tn_dim at = 0;
  for (uint32_t k = 0; k < n->n_in; k++) {
    const tn_type *t = tn_typeof(b->g, n->in[k]);
    tn_lview v = whole.v;
    v.offset = tn_dim_add(b->dims, whole.v.offset, tn_dim_mul(b->dims, at, whole.v.stride[dim]));
    for (uint32_t q = 0; q < t->rank; q++) v.dim[q] = t->dim[q];
    at = tn_dim_add(b->dims, at, t->dim[dim]);
    const tn_loc *l = &b->loc[n->in[k].id];
    if (l->buf == whole.buf && l->v.offset == v.offset && b->loc[n->in[k].id].claimed) continue;
    uint32_t src, dst = tn_pb_view(b, whole.buf, &v, "piece");
    TN_TRY(tn_pb_view_of(b, n->in[k], &src));
    if (dst == UINT32_MAX) return tn_fail(b->d, TN_E_NOMEM, "concat");
    TN_TRY(tn_pb_copy(b, src, dst, b->p->buf[whole.buf].kind == TN_PB_PACKED));
  }
  return TN_OK;
}

static tn_status library(tn_pb *b, uint32_t node) {
  const tn_node *n = &b->g->node[node];
  uint32_t arg[64], na = 0;
  tn_pdim param[2 + TN_MAX_RANK];
  uint32_t np = 0, lib;
  tn_dim dims[TN_MAX_RANK];
  if ((uint32_t)n->n_in + n->n_out > 64) return tn_fail(b->d, TN_E_UNSUPPORTED, "%s with %u operands", tn_op_name(n->op), n->n_in);
  for (uint32_t k = 0; k < n->n_out; k++) TN_TRY(new_place(b, node, n->out + k));
  for (uint32_t k = 0; k < n->n_in; k++) TN_TRY(tn_pb_view_of(b, n->in[k], &arg[na++]));
  for (uint32_t k = 0; k < n->n_out; k++) TN_TRY(tn_pb_view_of(b, tn_out(n, k), &arg[na++]));
  switch (n->op) {
    case TN_OP_SORT:
      lib = TN_LIB_SORT;
      param[np++] = tn_attr_int(n, "dim", 0);
      param[np++] = tn_attr_bool(n, "descending", false);
      break;
    case TN_OP_TOPK:
      lib = TN_LIB_TOPK;
      if (tn_attr_dims(n, "k", dims, 1) != 1) return tn_fail(b->d, TN_E_VERIFY, "topk without k");
      TN_TRY(tn_plan_dim(b->d, b->p, b->dims, dims[0], &param[np++]));
      param[np++] = tn_attr_int(n, "dim", 0);
      param[np++] = tn_attr_bool(n, "largest", true);
      break;
    case TN_OP_LSTM:
    case TN_OP_GRU:
      lib = n->op == TN_OP_GRU ? TN_LIB_GRU : TN_LIB_LSTM;
      param[np++] = tn_attr_bool(n, "reverse", false);
      break;
    case TN_OP_QDOT: lib = TN_LIB_QDOT; break;
    case TN_OP_INDEX_PUT: {
      lib = TN_LIB_INDEX_PUT;
      int nd = tn_attr_dims(n, "dims", dims, TN_MAX_RANK);
      param[np++] = tn_attr_bool(n, "accumulate", false);
      param[np++] = nd;
      for (int i = 0; i < nd; i++) param[np++] = dims[i];
      break;
    }
    case TN_OP_SCATTER: {
      static const char *const how[] = {"set", "sum", "prod", "max", "min"};
      const char *c = tn_attr_str(n, "combiner", "set");
      lib = TN_LIB_SCATTER;
      param[np++] = tn_attr_int(n, "dim", 0);
      int h = 0;
      while (h < 5 && strcmp(how[h], c)) h++;
      if (h == 5) return tn_fail(b->d, TN_E_VERIFY, "scatter combiner '%s'", c);
      param[np++] = h;
      break;
    }
    case TN_OP_SCAN: {
      tn_combiner c;
      const char *cs = tn_attr_str(n, "combiner", "sum");
      lib = TN_LIB_SCAN;
      if (!tn_combiner_find(cs, strlen(cs), &c)) return tn_fail(b->d, TN_E_VERIFY, "scan combiner '%s'", cs);
      param[np++] = c;
      param[np++] = tn_attr_int(n, "dim", 0);
      break;
    }
    default: return tn_fail(b->d, TN_E_UNSUPPORTED, "library op %s has no plan step", tn_op_name(n->op));
  }
  if (n->prov) {
    b->g->prov[n->prov].fate = TN_FATE_LIBRARY;
    b->g->prov[n->prov].detail = tn_op_name(n->op);
  }
  return lib_step(b, lib, arg, na, n->n_in, param, np, false, n->prov);
}

static tn_status host(tn_pb *b, uint32_t node) {
  const tn_node *n = &b->g->node[node];
  for (uint32_t k = 0; k < n->n_out; k++) TN_TRY(new_place(b, node, n->out + k));
  tn_pstep s = {.kind = TN_PS_HOST, .kernel = b->p->n_host++, .n_arg = (uint32_t)n->n_in + n->n_out, .n_in = n->n_in, .prov = n->prov};
  s.arg = TN_NEW(b->p->arena, uint32_t, s.n_arg + 1);
  s.text = tn_arena_printf(b->p->arena, "fallback %s(...)", n->target ? n->target : "?");
  if (!s.arg || !s.text) return tn_fail(b->d, TN_E_NOMEM, "host call");
  for (uint32_t k = 0; k < s.n_arg; k++) TN_TRY(tn_pb_view_of(b, k < n->n_in ? n->in[k] : tn_out(n, k - n->n_in), &s.arg[k]));
  uint32_t cap = b->out->n_host;
  if (!TN_PUSH_ROOM(b->a, b->out->host_node, b->out->n_host, cap)) return tn_fail(b->d, TN_E_NOMEM, "host call");
  b->out->host_node[b->out->n_host++] = node;
  return tn_pb_step(b, s);
}

static tn_status constant(tn_pb *b, uint32_t node) {
  const tn_node *n = &b->g->node[node];
  uint32_t buf = tn_pb_buf(b, TN_PB_CONST, (tn_dim)n->data->bytes);
  if (buf == UINT32_MAX) return tn_fail(b->d, TN_E_NOMEM, "constant");
  b->p->buf[buf].data = n->data->p; /* for packing; sweep() gives it its place when steps still read it then */
  tn_lview v;
  tn_lview_dense(b->dims, &b->g->value[n->out].type, &v);
  place(b, n->out, buf, &v);
  return TN_OK;
}

static tn_status node(tn_pb *b, uint32_t i) {
  tn_node *n = &b->g->node[i];
  switch (n->op) {
    case TN_OP_INPUT: return TN_OK;
    case TN_OP_CONST: return constant(b, i);
    case TN_OP_FUSED:
      for (uint32_t k = 0; k < n->n_out; k++)   /* a result that the caller gets is made in every call, and so are its siblings */
        if (b->loc[n->out + k].set && b->p->buf[b->loc[n->out + k].buf].kind != TN_PB_PACKED) b->frozen[i] = false;
      for (uint32_t k = 0; k < n->n_out; k++) TN_TRY(new_place(b, i, n->out + k));
      return tn_pb_kernel(b, i);
    case TN_OP_CONCAT: return concat(b, i);
    case TN_OP_OPAQUE: return host(b, i);
    case TN_OP_PERMUTE:
    case TN_OP_RESHAPE:
    case TN_OP_BROADCAST:
    case TN_OP_SLICE: {
      tn_lview v;
      const tn_loc *x = &b->loc[n->in[0].id];
      if (!x->set) return tn_fail(b->d, TN_E_INTERNAL, "operand of node %u has no place", i);
      if (!tn_lview_apply(b->g, b->dims, n, &x->v, &v)) return copy_kernel(b, i);
      place(b, n->out, x->buf, &v);
      if (n->prov && b->g->prov[n->prov].fate == TN_FATE_NONE) b->g->prov[n->prov].fate = TN_FATE_VIEW;
      return TN_OK;
    }
    default:
      if (tn_op_cls(n->op) == TN_CLS_LIBRARY || n->op == TN_OP_SCAN) return library(b, i);
      return tn_fail(b->d, TN_E_INTERNAL, "%s reached lowering outside a kernel", tn_op_name(n->op));
  }
}

static tn_status finish(tn_pb *b) {
  tn_graph *g = b->g;
  for (uint32_t i = 0; i < g->n_mutations; i++) { /* the new value of a mutated input */
    uint32_t src, dst;
    TN_TRY(tn_pb_view_of(b, g->mutation[i].value, &src));
    TN_TRY(tn_pb_view_of(b, g->input[g->mutation[i].input], &dst));
    TN_TRY(tn_pb_copy(b, src, dst, false));
  }
  for (uint32_t i = 0; i < g->n_outputs; i++) {
    tn_pout *po = &b->p->out[i];
    if (po->is_none || po->is_dim) continue;
    tn_ref r = g->output[i].ref;
    tn_loc *l = &b->loc[r.id];
    if (!l->set) return tn_fail(b->d, TN_E_INTERNAL, "output %u has no place", i);
    tn_pbuf *pb = &b->p->buf[l->buf];
    if (pb->kind == TN_PB_INPUT) {
      po->alias_input = (int32_t)pb->index;
      TN_TRY(tn_pb_view_of(b, r, &po->view));
      continue;
    }
    if (pb->kind == TN_PB_OUTPUT && pb->index == i) {
      TN_TRY(tn_pb_view_of(b, r, &po->view));
      continue;
    }
    tn_lview v;
    tn_lview_dense(b->dims, tn_typeof(g, r), &v);
    uint32_t buf = tn_pb_buf(b, TN_PB_OUTPUT, view_bytes(b, &v)), src;
    if (buf == UINT32_MAX) return no_buf(b, view_bytes(b, &v), "outputs");
    b->p->buf[buf].index = i;
    TN_TRY(tn_pb_view_of(b, r, &src));
    po->view = tn_pb_view(b, buf, &v, "out");
    if (po->view == UINT32_MAX) return tn_fail(b->d, TN_E_NOMEM, "outputs");
    TN_TRY(tn_pb_copy(b, src, po->view, false));
  }
  for (uint32_t i = 0; i < b->p->n_buf; i++)
    if (b->p->buf[i].first == UINT32_MAX) b->p->buf[i].first = b->p->buf[i].last = 0;
  return TN_OK;
}

static bool packed_here(const tn_pb *b, uint32_t buf) {
  for (uint32_t i = 0; i < b->n_packed; i++)
    if (b->packed[i].buf == buf) return true;
  return false;
}

/* Constants that only packing read are dropped, with views of them; the others get an aligned place that lives as long as the plan. */
static tn_status sweep(tn_pb *b) {
  tn_plan *p = b->p;
  bool *live = TN_NEW(b->a, bool, p->n_view + 1);
  uint32_t *vnew = TN_NEW(b->a, uint32_t, p->n_view + 1), *bnew = TN_NEW(b->a, uint32_t, p->n_buf + 1), nb = 0, nv = 0;
  bool *kept = TN_NEW(b->a, bool, p->n_buf + 1);
  if (!live || !vnew || !bnew || !kept) return tn_fail(b->d, TN_E_NOMEM, "constants");
  for (uint32_t i = 0; i < p->n_step; i++)
    for (uint32_t k = 0; k < p->step[i].n_arg; k++) live[p->step[i].arg[k]] = true;
  for (uint32_t i = 0; i < p->n_out; i++)
    if (!p->out[i].is_none && !p->out[i].is_dim) live[p->out[i].view] = true;
  for (uint32_t i = 0; i < p->n_view; i++) kept[p->view[i].buf] |= live[i];
  for (uint32_t i = 0; i < p->n_buf; i++) {
    tn_pbuf f = p->buf[i];
    if (f.kind == TN_PB_CONST && !kept[i]) continue;
    kept[i] = true;
    bool mine = f.kind != TN_PB_CONST || packed_here(b, i);
    if (!mine && b->o->keep) f.data = b->o->keep(b->o->user, f.data, (size_t)f.bytes);
    if (!mine && !b->o->keep) {
      void *own = tn_plan_data(p, (size_t)f.bytes);
      if (own && f.bytes) memcpy(own, f.data, (size_t)f.bytes);
      f.data = own;
    }
    if (f.kind == TN_PB_CONST && !f.data) return tn_fail(b->d, TN_E_NOMEM, "constant of %lld bytes", (long long)f.bytes);
    bnew[i] = nb;
    p->buf[nb++] = f;
  }
  for (uint32_t i = 0; i < p->n_view; i++) {
    if (!kept[p->view[i].buf]) continue;
    vnew[i] = nv;
    p->view[nv] = p->view[i];
    p->view[nv++].buf = bnew[p->view[i].buf];
  }
  p->n_buf = nb;
  p->n_view = nv;
  for (uint32_t i = 0; i < p->n_step; i++)
    for (uint32_t k = 0; k < p->step[i].n_arg; k++) p->step[i].arg[k] = vnew[p->step[i].arg[k]];
  for (uint32_t i = 0; i < p->n_out; i++)
    if (!p->out[i].is_none && !p->out[i].is_dim) p->out[i].view = vnew[p->out[i].view];
  return TN_OK;
}

/* Only symbols that this graph's inputs define belong to the plan; expressions are renumbered. A plan that needs another one is an error. */
static tn_status trim_symbols(tn_pb *b) {
  tn_plan *p = b->p;
  uint32_t *now = TN_NEW(b->a, uint32_t, p->n_sym + 1), n = 0;
  if (!now) return tn_fail(b->d, TN_E_NOMEM, "symbols");
  for (uint32_t i = 0; i < p->n_sym; i++) {
    if (p->sym[i].input < 0) {
      now[i] = UINT32_MAX;
      continue;
    }
    now[i] = n;
    p->sym[n++] = p->sym[i];
  }
  for (uint32_t i = 0; i < p->n_expr; i++)
    for (uint32_t k = 0; k < p->expr[i].n; k++) {
      tn_dim_code *c = &p->expr[i].code[k];
      if (c->op != 's') continue;
      if (now[c->v] == UINT32_MAX)
        return tn_fail(b->d, TN_E_UNSUPPORTED, "the size %s needs %s, which no input defines", p->expr[i].text, tn_dims_sym_name(b->dims, (uint32_t)c->v));
      c->v = now[c->v];
    }
  p->n_sym = n;
  return TN_OK;
}

/* What was taken for granted while building, where the plan knows all symbols of it. */
static tn_status assumptions(tn_pb *b) {
  tn_plan *p = b->p;
  uint32_t n = tn_dims_n_assumed(b->dims), n_sym = tn_dims_n_syms(b->dims);
  bool *used = TN_NEW(b->a, bool, n_sym + 1);
  p->assume = TN_NEW(p->arena, tn_passume, n + 1);
  if (!used || !p->assume) return tn_fail(b->d, TN_E_NOMEM, "assumptions");
  for (uint32_t i = 0; i < n; i++) {
    tn_dim x, y;
    const char *where;
    uint32_t owner;
    tn_dims_get_assumed(b->dims, i, &x, &y, &where, &owner);
    bool known = owner == b->g->func;
    memset(used, 0, n_sym);
    tn_dim_mark_syms(b->dims, x, used);
    tn_dim_mark_syms(b->dims, y, used);
    for (uint32_t k = 0; k < n_sym; k++) known &= !used[k] || p->sym[k].input >= 0;
    if (!known) continue;
    tn_passume *s = &p->assume[p->n_assume++];
    TN_TRY(tn_plan_dim(b->d, p, b->dims, x, &s->a));
    TN_TRY(tn_plan_dim(b->d, p, b->dims, y, &s->b));
    s->where = where ? tn_arena_strdup(p->arena, where) : NULL;
    if (where && !s->where) return tn_fail(b->d, TN_E_NOMEM, "assumptions");
  }
  return TN_OK;
}

void tn_kernel_pool_deinit(tn_kernel_pool *p) { tn_map_deinit(&p->keys); }

tn_status tn_lower(tn_diag *d, tn_arena *arena, tn_graph *g, const tn_lower_options *o, tn_lowered *out) {
  memset(out, 0, sizeof *out);
  tn_pb *b = TN_NEW(arena, tn_pb, 1);
  if (!b) return tn_fail(d, TN_E_NOMEM, "lowering");
  *b = (tn_pb){.d = d, .a = arena, .g = g, .dims = g->dims, .o = o, .out = out};
  TN_TRY(tn_plan_create(g->name, &b->p));
  out->plan = b->p;
  b->pool = o->pool ? o->pool : &out->pool;
  tn_map_init(&b->of_pool);
  b->loc = TN_NEW(arena, tn_loc, g->n_values + 1);
  b->n_loc = g->n_values;
  b->uses = tn_graph_uses(arena, g);
  tn_status s = b->loc && b->uses ? TN_OK : tn_fail(d, TN_E_NOMEM, "lowering");
  if (s == TN_OK) s = inputs(b);
  if (s == TN_OK) s = tn_pb_freeze(b);
  if (s == TN_OK) s = outputs_first(b);
  if (s == TN_OK) s = concats_first(b);
  uint32_t n = g->n_nodes;
  for (uint32_t i = 1; i < n && s == TN_OK; i++) {
    s = node(b, i);
    if (s != TN_OK)
      tn_diag_while(d, s, "lowering node %u (%s)", i, g->node[i].prov ? g->prov[g->node[i].prov].name : tn_op_name(g->node[i].op));
  }
  if (s == TN_OK) s = finish(b);
  if (s == TN_OK) s = sweep(b);
  if (s == TN_OK) s = assumptions(b);
  if (s == TN_OK) s = trim_symbols(b);
  tn_map_deinit(&b->of_pool);
  if (s != TN_OK) {
    tn_plan_destroy(b->p);
    tn_kernel_pool_deinit(&out->pool);
    memset(out, 0, sizeof *out);
  }
  return s;
}

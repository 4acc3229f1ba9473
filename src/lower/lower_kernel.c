/* lower_kernel.c: one FUSED node becomes a launch: definition, schedule, nest; equal kernels are made once, over all plans of a module. Weights a schedule wants
 * packed: parameters get a PACKED buffer and copies that run when the parameter changes, constants are packed here. */
#include <stdio.h>
#include <string.h>
#include "lower/lower_plan.h"

static const char *kernel_name(tn_pb *b, const tn_node *fn) {
  const char *kind = tn_attr_str(fn, "kind", "pointwise");
  char buf[96];
  int n = snprintf(buf, sizeof buf, "tn_%s_fused",
                   !strcmp(kind, "reduction")   ? "red"
                   : !strcmp(kind, "contract")  ? "mm"
                   : !strcmp(kind, "attention") ? "attn"
                                                : "poi");
  const char *last = "";
  for (uint32_t i = 1; i < fn->body->n_nodes && n < 60; i++) {
    const tn_node *m = &fn->body->node[i];
    if (m->op == TN_OP_INPUT || m->op == TN_OP_FULL || tn_op_cls(m->op) == TN_CLS_LAYOUT || !strcmp(tn_op_name(m->op), last)) continue;
    last = tn_op_name(m->op);
    n += snprintf(buf + n, sizeof buf - (size_t)n, "_%s", last);
  }
  snprintf(buf + n, sizeof buf - (size_t)n, "_%u", b->pool->n_kernel);
  return tn_arena_strdup(b->a, buf);
}

static tn_status scratch_dim(tn_pb *b, const tn_nest *n, const tn_nest_info *info, tn_dim *out) {
  tn_dim sum = 0;
  for (uint32_t i = 0; i < n->n_scratch; i++) {
    int64_t unit = n->scratch[i].elems * (int64_t)tn_dtype_size((tn_dtype)n->scratch[i].dtype);
    tn_dim bytes = n->scratch[i].size_slot < 0 ? unit : tn_dim_mul(b->dims, unit, info->size[n->scratch[i].size_slot]);
    sum = tn_dim_add(b->dims, sum, tn_dim_mul(b->dims, tn_dim_ceildiv(b->dims, bytes, 64), 64));
  }
  if (sum == TN_DIM_BAD) return tn_fail(b->d, TN_E_ARG, "scratch of %s overflows", n->name);
  *out = sum;
  return TN_OK;
}

/* Arithmetic operations of a whole launch: for each stage, its elements times the scalar functions and combiner steps of one. 0: too large to say. */
static tn_dim work_of(tn_pb *b, const tn_kdef *k, bool *seen) {
  tn_dim sum = 0;
  for (uint32_t i = 0; i < k->n_stage && sum != TN_DIM_BAD; i++) {
    const tn_kstage *s = &k->stage[i];
    int64_t ops = s->n_red > 0;
    memset(seen, 0, k->n_x * sizeof *seen);
    seen[s->root] = true;
    for (uint32_t x = k->n_x; x-- > 1;) { /* operands come before readers; index arithmetic hangs on loads, not on operands */
      if (!seen[x]) continue;
      for (int a = 0; a < 3; a++) seen[k->x[x].arg[a]] = true;
      ops += k->x[x].op == TN_KX_SCALAR && k->x[x].sop != TN_S_SELECT;
    }
    tn_dim n = ops;
    for (uint32_t a = 0; a < s->n_axis; a++) n = tn_dim_mul(b->dims, n, k->axis[s->axis[a]].extent);
    for (uint32_t a = 0; a < s->n_red; a++) n = tn_dim_mul(b->dims, n, k->axis[s->red[a]].extent);
    sum = tn_dim_add(b->dims, sum, n);
  }
  return sum == TN_DIM_BAD ? 0 : sum;
}

/* Does a loop's own value, not that of an earlier stage, read `x`? Operands come before their users. */
static bool loop_reads(const tn_kdef *k, const tn_kloop *l, tn_kx_id x, bool *seen) {
  memset(seen, 0, k->n_x * sizeof *seen);
  for (uint32_t i = 0; i < l->n_stage; i++) seen[k->stage[l->stage[i]].root] = true;
  for (uint32_t i = k->n_x; i-- > 1;)
    for (int a = 0; seen[i] && a < 3; a++) seen[k->x[i].arg[a]] = true;
  return seen[x];
}

/* The loop whose reduction reads packed parameter `p` through load `x`. Stages share axes: that an axis of the load is a loop's vector axis
 * does not make it the loop that reads it. */
static const tn_kloop *pack_loop(const tn_kdef *k, tn_kan *an, const tn_ksched *s, uint32_t p, tn_kx_id *x, bool *seen) {
  for (tn_kx_id i = 1; i < k->n_x; i++)
    if (k->x[i].op == TN_KX_LOAD && k->x[i].ref == p) *x = i;
  uint32_t deps = tn_kan_deps(an, *x);
  for (uint32_t i = 0; i < s->n_loop; i++) {
    const tn_kloop *l = &s->loop[i];
    if (l->n_red && l->v_axis >= 0 && (deps >> l->v_axis & 1) && loop_reads(k, l, *x, seen)) return l;
  }
  return NULL;
}

/* A strided copy of constants, done now. Both views have the same constant dims. */
static tn_status pack_now(tn_pb *b, const tn_lview *sv, const char *src, const tn_lview *dv, char *dst) {
  int64_t at[TN_MAX_RANK] = {0}, dim[TN_MAX_RANK], ss[TN_MAX_RANK], ds[TN_MAX_RANK], so, dof;
  uint32_t r = sv->rank;
  size_t size = tn_dtype_size(sv->dtype);
  bool ok = tn_dim_as_int(b->dims, sv->offset, &so) && tn_dim_as_int(b->dims, dv->offset, &dof);
  for (uint32_t i = 0; i < r; i++) {
    ok &= tn_dim_as_int(b->dims, sv->dim[i], &dim[i]) && tn_dim_as_int(b->dims, sv->stride[i], &ss[i]) && tn_dim_as_int(b->dims, dv->stride[i], &ds[i]);
    if (ok && dim[i] == 0) return TN_OK;
  }
  if (!ok || r == 0) return tn_fail(b->d, TN_E_INTERNAL, "a constant is packed by a size that is not constant");
  src += so * (int64_t)size;
  dst += dof * (int64_t)size;
  for (;;) {
    int64_t n = dim[r - 1], x = ss[r - 1] * (int64_t)size, y = ds[r - 1] * (int64_t)size;
    switch (size) {
      case 1: for (int64_t i = 0; i < n; i++) dst[i * y] = src[i * x]; break;
      case 2: for (int64_t i = 0; i < n; i++) memcpy(dst + i * y, src + i * x, 2); break;
      case 4: for (int64_t i = 0; i < n; i++) memcpy(dst + i * y, src + i * x, 4); break;
      default: for (int64_t i = 0; i < n; i++) memcpy(dst + i * y, src + i * x, 8); break;
    }
    uint32_t k = r - 1;
    while (k-- > 0) {
      src += ss[k] * (int64_t)size;
      dst += ds[k] * (int64_t)size;
      if (++at[k] < dim[k]) break;
      src -= ss[k] * dim[k] * (int64_t)size;
      dst -= ds[k] * dim[k] * (int64_t)size;
      at[k] = 0;
    }
    if (k == UINT32_MAX) return TN_OK;
  }
}

/* Memory of packed constants: of the plan, found again like any other constant. */
static tn_status packed_const(tn_pb *b, tn_dim bytes, uint32_t *out_buf, char **out) {
  int64_t n;
  if (!tn_dim_as_int(b->dims, bytes, &n)) return tn_fail(b->d, TN_E_INTERNAL, "a packed constant has no constant size");
  *out_buf = tn_pb_buf(b, TN_PB_CONST, n);
  *out = tn_plan_data(b->p, (size_t)n);
  if (*out_buf == UINT32_MAX || !*out) return tn_fail(b->d, TN_E_NOMEM, "packed constant of %lld bytes", (long long)n);
  b->p->buf[*out_buf].data = *out;
  return TN_OK;
}

/* Packed layout (must agree with packed_lin in nest_build.c): [outer axes][panel][reduction axes in loop order][T lanes]. */
static tn_status pack(tn_pb *b, const tn_kdef *k, const tn_ksched *s, uint32_t p, tn_ref src, uint32_t *out_view) {
  tn_kan *an;
  tn_dims *ds = b->dims;
  tn_kx_id x = 0;
  TN_TRY(tn_kan_make(b->d, b->a, k, &an));
  for (uint32_t i = 0; i < s->n_merge; i++) tn_kan_merge(an, s->merge_from[i], s->merge_to[i]);
  bool *seen = TN_NEW(b->a, bool, k->n_x);
  if (!seen) return tn_fail(b->d, TN_E_NOMEM, "packed weight");
  const tn_kloop *L = pack_loop(k, an, s, p, &x, seen);
  if (!L) return tn_fail(b->d, TN_E_INTERNAL, "no loop reads packed %s", k->param[p].name);
  const tn_lin *l = &an->load[x];
  int64_t T = (int64_t)L->lanes * L->nv, N;
  bool known = tn_dim_as_int(ds, an->extent[L->v_axis], &N);
  if (known && L->v_red) T = N > 0 ? N : 1; /* lanes along the reduction: one panel, as wide as the axis */
  if (!known) return tn_fail(b->d, TN_E_INTERNAL, "packed axis is symbolic");
  /* innermost first */
  tn_lview sv = {.dtype = (tn_dtype)k->param[p].dtype}, dv = sv;
  tn_dim dim[TN_MAX_RANK], ss[TN_MAX_RANK], dd[TN_MAX_RANK];
  uint32_t r = 0, lanes_at, panel_at;
  uint32_t used = 1u << L->v_axis;
  tn_dim run = T;
  lanes_at = r;
  dim[r] = T;
  ss[r] = l->coef[L->v_axis];
  dd[r++] = 1;
  for (uint32_t i = L->n_red; i-- > 0;) {
    uint32_t a = L->red[i];
    used |= 1u << a;
    if (l->coef[a] == 0 || (int)a == L->v_axis) continue;
    if (r >= TN_MAX_RANK - 2) return tn_fail(b->d, TN_E_UNSUPPORTED, "packing of rank over %d", TN_MAX_RANK);
    dim[r] = an->extent[a];
    ss[r] = l->coef[a];
    dd[r++] = run;
    run = tn_dim_mul(ds, run, an->extent[a]);
  }
  panel_at = r;
  dim[r] = N / T;
  ss[r] = tn_dim_mul(ds, T, l->coef[L->v_axis]);
  dd[r++] = run;
  tn_dim panel = run;
  run = tn_dim_mul(ds, run, (N + T - 1) / T);
  for (uint32_t a = k->n_axis; a-- > 0;) {
    if ((used >> a & 1) || l->coef[a] == 0) continue;
    if (r >= TN_MAX_RANK) return tn_fail(b->d, TN_E_UNSUPPORTED, "packing of rank over %d", TN_MAX_RANK);
    dim[r] = an->extent[a];
    ss[r] = l->coef[a];
    dd[r++] = run;
    run = tn_dim_mul(ds, run, an->extent[a]);
  }
  /* one packed copy per source view and layout */
  tn_str key;
  tn_str_init(&key);
  tn_loc *sl = &b->loc[src.id];
  tn_str_add(&key, "%u %lld", sl->buf, (long long)sl->v.offset);
  for (uint32_t i = 0; i < r; i++) tn_str_add(&key, " %lld/%lld/%lld", (long long)dim[i], (long long)ss[i], (long long)dd[i]);
  for (uint32_t i = 0; i < b->n_packed; i++)
    if (key.s && !strcmp(b->packed[i].key, key.s)) {
      tn_str_deinit(&key);
      *out_view = b->packed[i].view;
      return TN_OK;
    }
  const char *kept = key.s ? tn_arena_strdup(b->a, key.s) : NULL;
  tn_str_deinit(&key);
  tn_dim bytes = tn_dim_mul(ds, run, (tn_dim)tn_dtype_size(sv.dtype));
  bool now = b->p->buf[sl->buf].kind == TN_PB_CONST;
  char *data = NULL;
  uint32_t buf;
  if (now) TN_TRY(packed_const(b, bytes, &buf, &data));
  else buf = tn_pb_buf(b, TN_PB_PACKED, bytes);
  if (!kept || buf == UINT32_MAX || !TN_PUSH_ROOM(b->a, b->packed, b->n_packed, b->cap_packed))
    return tn_fail(b->d, TN_E_NOMEM, "packed weight");
  if (!now) TN_TRY(tn_pb_sources(b, b->g->value[src.id].node, buf));
  for (int part = 0; part < 2; part++) { /* whole panels, then the last, narrower one */
    if (part == 0 && N / T == 0) continue;
    if (part == 1 && N % T == 0) continue;
    sv.rank = dv.rank = r;
    sv.offset = sl->v.offset;
    dv.offset = 0;
    for (uint32_t i = 0; i < r; i++) {
      uint32_t o = r - 1 - i;
      sv.dim[o] = dv.dim[o] = dim[i];
      sv.stride[o] = ss[i];
      dv.stride[o] = dd[i];
      if (part == 1 && i == lanes_at) sv.dim[o] = dv.dim[o] = N % T;
      if (part == 1 && i == panel_at) sv.dim[o] = dv.dim[o] = 1;
    }
    if (part == 1) {
      sv.offset = tn_dim_add(ds, sv.offset, tn_dim_mul(ds, N / T, tn_dim_mul(ds, T, l->coef[L->v_axis])));
      dv.offset = tn_dim_mul(ds, N / T, panel);
    }
    if (now) {
      TN_TRY(pack_now(b, &sv, b->p->buf[sl->buf].data, &dv, data));
      continue;
    }
    uint32_t a = tn_pb_view(b, sl->buf, &sv, k->param[p].name), c = tn_pb_view(b, buf, &dv, "packed");
    if (a == UINT32_MAX || c == UINT32_MAX) return tn_fail(b->d, TN_E_NOMEM, "packed weight");
    TN_TRY(tn_pb_copy(b, a, c, true));
  }
  tn_lview whole = {.dtype = sv.dtype, .rank = 1, .dim = {run}, .stride = {1}};
  *out_view = tn_pb_view(b, buf, &whole, "packed");
  if (*out_view == UINT32_MAX) return tn_fail(b->d, TN_E_NOMEM, "packed weight");
  b->packed[b->n_packed++] = (struct tn_packed){*out_view, buf, kept};
  return TN_OK;
}

static void fates(tn_pb *b, const tn_node *fn, const char *name) {
  for (uint32_t i = 1; i < fn->body->n_nodes; i++) {
    uint32_t pr = fn->body->node[i].prov;
    if (!pr) continue;
    tn_prov *p = &b->g->prov[pr];
    if (p->fate == TN_FATE_NONE || p->fate == TN_FATE_FUSED) {
      p->fate = TN_FATE_FUSED;
      p->detail = name;
    }
  }
}

tn_status tn_pb_kernel(tn_pb *b, uint32_t fused_node) {
  tn_node *fn = &b->g->node[fused_node];
  tn_graph *body = fn->body;
  uint32_t n_in = body->n_inputs, n_out = body->n_outputs;
  tn_lview *in = TN_NEW(b->a, tn_lview, n_in + 1), *out = TN_NEW(b->a, tn_lview, n_out + 1);
  bool *frozen = TN_NEW(b->a, bool, n_in + 1);
  const char *name = kernel_name(b, fn);
  if (!in || !out || !frozen || !name) return tn_fail(b->d, TN_E_NOMEM, "lowering node %u", fused_node);
  for (uint32_t i = 0; i < n_in; i++) {
    tn_loc *l = &b->loc[fn->in[i].id];
    if (!l->set) return tn_fail(b->d, TN_E_INTERNAL, "operand %u of %s has no place", i, name);
    in[i] = l->v;
    const tn_pbuf *pb = &b->p->buf[l->buf];
    frozen[i] = pb->kind == TN_PB_CONST;
    if (pb->kind == TN_PB_INPUT) {
      const tn_node *src = &b->g->node[b->g->value[b->g->input[pb->index].id].node];
      frozen[i] = (src->input->origin == TN_ORIGIN_PARAM || src->input->origin == TN_ORIGIN_BUFFER) && !src->input->mutated;
    }
    frozen[i] |= pb->kind == TN_PB_PACKED;
  }
  for (uint32_t i = 0; i < n_out; i++) {
    tn_loc *l = &b->loc[fn->out + i];
    if (!l->set) return tn_fail(b->d, TN_E_INTERNAL, "result %u of %s has no place", i, name);
    out[i] = l->v;
  }
  tn_kdef *k;
  tn_ksched *s;
  TN_TRY_WHILE(b->d, tn_lower_def(b->d, b->a, b->g, fused_node, in, out, frozen, "k", &k), "lowering %s", name);
  TN_TRY_WHILE(b->d, tn_sched_choose(b->d, b->a, k, b->o->target, b->o->threads, &s), "scheduling %s", name);
  tn_str key;
  tn_str_init(&key);
  tn_kdef_print(k, &key);
  tn_ksched_print(s, k, &key);
  uint32_t id;
  char *kept = key.oom ? NULL : tn_arena_strdup(b->a, key.s);
  tn_str_deinit(&key);
  if (!kept) return tn_fail(b->d, TN_E_NOMEM, "key of %s", name);
  tn_nest_info info;
  tn_nest *nest;
  k->name = name;
  uint32_t shared;
  bool known = tn_map_get_str(&b->pool->keys, kept, &shared);
  TN_TRY_WHILE(b->d, tn_nest_build(b->d, b->a, k, s, b->o->target, &nest, &info), "loops of %s", name);
  if (!known) {
    if (!TN_PUSH_ROOM(b->a, b->pool->kernel, b->pool->n_kernel, b->pool->cap_kernel)) return tn_fail(b->d, TN_E_NOMEM, "kernel table");
    shared = b->pool->n_kernel++;
    b->pool->kernel[shared] = (tn_lowered_kernel){k, s, nest, 0};
    if (!tn_map_put_str(&b->pool->keys, kept, shared)) return tn_fail(b->d, TN_E_NOMEM, "kernel table");
  }
  b->pool->kernel[shared].uses++;
  name = b->pool->kernel[shared].def->name;
  if (!tn_map_get_u64(&b->of_pool, shared, &id)) {
    id = b->p->n_kernel;
    if (!TN_PUSH_ROOM(b->p->arena, b->p->kernel, b->p->n_kernel, b->cap_kernel) || !TN_PUSH_ROOM(b->a, b->out->kernel, id, b->cap_out_kernel) ||
        !tn_map_put_u64(&b->of_pool, shared, id))
      return tn_fail(b->d, TN_E_NOMEM, "kernel table");
    b->out->kernel[id] = shared;
    b->p->kernel[b->p->n_kernel++] = (tn_pkernel){.name = tn_arena_strdup(b->p->arena, name), .n_param = k->n_param, .n_size = info.n_size};
    if (!b->p->kernel[id].name) return tn_fail(b->d, TN_E_NOMEM, "kernel table");
  }
  fates(b, fn, name);
  tn_pstep st = {.kind = TN_PS_LAUNCH, .kernel = id, .n_arg = k->n_param, .n_size = info.n_size, .grain = s->grain, .prov = fn->prov};
  st.arg = TN_NEW(b->p->arena, uint32_t, k->n_param + 1);
  st.size = TN_NEW(b->p->arena, tn_pdim, info.n_size + 1);
  if (!st.arg || !st.size) return tn_fail(b->d, TN_E_NOMEM, "step of %s", name);
  for (uint32_t i = 0; i < k->n_param; i++) {
    if (i < n_in && s->pack[i])
      TN_TRY_WHILE(b->d, pack(b, k, s, i, fn->in[i], &st.arg[i]), "packing for %s", name);
    else
      TN_TRY(tn_pb_view_of(b, i < n_in ? fn->in[i] : tn_out(fn, i - n_in), &st.arg[i]));
  }
  for (uint32_t i = 0; i < info.n_size; i++) TN_TRY(tn_plan_dim(b->d, b->p, b->dims, info.size[i], &st.size[i]));
  TN_TRY(tn_plan_dim(b->d, b->p, b->dims, info.blocks, &st.blocks));
  bool *seen = TN_NEW(b->a, bool, k->n_x + 1);
  if (!seen) return tn_fail(b->d, TN_E_NOMEM, "step of %s", name);
  TN_TRY(tn_plan_dim(b->d, b->p, b->dims, work_of(b, k, seen), &st.work));
  tn_dim sb;
  TN_TRY(scratch_dim(b, nest, &info, &sb));
  TN_TRY(tn_plan_dim(b->d, b->p, b->dims, sb, &st.scratch));
  st.text = tn_arena_printf(b->p->arena, "%s.run()", name);
  if (!st.text) return tn_fail(b->d, TN_E_NOMEM, "step of %s", name);
  bool once = n_out > 0; /* all results are kept: see freeze.c */
  for (uint32_t i = 0; i < n_out; i++) once &= b->p->buf[b->loc[fn->out + i].buf].kind == TN_PB_PACKED;
  st.pack = once;
  return tn_pb_step(b, st);
}

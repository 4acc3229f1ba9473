/* def_text.c: printing a definition; def_parse.c reads it back. One statement per stage; expressions are written out, so the text shows
 * what is computed. A part that is read several times and is not small, or that is nested deeply, is written once as `$n = ...` before the
 * first stage that needs it: text stays linear in the number of nodes, and its nesting is bounded, whatever the sharing. */
#include "kir/def.h"
#include "kir/scan_int.h"

enum { SMALL = 6, DEEP = 40 }; /* written again rather than named; named although read once */

typedef struct printer {
  const tn_kdef *k;
  tn_str *o;
  uint32_t *uses; /* [n_x] readers among reachable nodes and stages */
  uint32_t *name; /* [n_x] 0: written out; 1: named later; 2 + n: is $n */
  uint32_t n_names;
  bool *mark; /* [n_x] scratch of one stage */
} printer;

static void put(printer *p, const char *s) { tn_str_add(p->o, "%s", s); }
static void dim(printer *p, tn_dim d) { tn_dim_print(p->k->dims, d, p->o); }
static void axis(printer *p, uint32_t a) { tn_ks_put_name(p->o, p->k->axis[a].name); }

static void num(printer *p, tn_dtype t, tn_num v) {
  if (tn_dtype_is_float(t))
    tn_str_add_double(p->o, v.f);
  else if (t == TN_BOOL)
    put(p, v.i ? "true" : "false");
  else
    tn_str_add(p->o, t == TN_U64 ? "%llu" : "%lld", (long long)v.i);
}

static void expr(printer *p, tn_kx_id id);

static void list(printer *p, const tn_kx_id *x, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    if (i) put(p, ", ");
    expr(p, x[i]);
  }
}

static void node(printer *p, tn_kx_id id) {
  const tn_kx *x = &p->k->x[id];
  switch ((tn_kx_op)x->op) {
    case TN_KX_CONST:
      num(p, (tn_dtype)x->dtype, x->imm);
      if (x->dtype != TN_I64) tn_str_add(p->o, ":%s", tn_dtype_name((tn_dtype)x->dtype));
      break;
    case TN_KX_AXIS: axis(p, x->ref); break;
    case TN_KX_SIZE:
      put(p, "size(");
      dim(p, x->dim);
      put(p, ")");
      break;
    case TN_KX_STAGE: tn_str_add(p->o, "%%%u", x->ref); break;
    case TN_KX_LOAD:
      put(p, x->guard ? "guard(%" : "%");
      tn_ks_put_name(p->o, p->k->param[x->ref].name);
      put(p, "[");
      list(p, x->idx, x->n_idx);
      put(p, "]");
      if (!x->guard) break;
      put(p, ", ");
      expr(p, x->guard);
      put(p, ", ");
      num(p, (tn_dtype)x->dtype, x->imm);
      put(p, ")");
      break;
    case TN_KX_SCALAR:
      tn_str_add(p->o, "%s(", tn_scalar_name((tn_scalar_op)x->sop));
      list(p, x->arg, (uint32_t)tn_scalar_arity((tn_scalar_op)x->sop));
      put(p, ")");
      break;
    case TN_KX_CAST:
      tn_str_add(p->o, "cast.%s(", tn_dtype_name((tn_dtype)x->dtype));
      expr(p, x->arg[0]);
      put(p, ")");
      break;
    case TN_KX_INDEX:
      put(p, "index(");
      expr(p, x->arg[0]);
      put(p, ", ");
      dim(p, x->dim);
      put(p, ")");
      break;
    case TN_KX_NONE: put(p, "none"); break;
  }
}

static void expr(printer *p, tn_kx_id id) {
  if (p->name[id] >= 2)
    tn_str_add(p->o, "$%u", p->name[id] - 2);
  else
    node(p, id);
}

/* ---- sharing ---- */

static void each_arg(const tn_kx *x, void (*f)(void *u, tn_kx_id arg), void *u) {
  for (int j = 0; j < 3; j++)
    if (x->arg[j]) f(u, x->arg[j]);
  for (uint32_t j = 0; j < x->n_idx; j++) f(u, x->idx[j]);
  if (x->guard) f(u, x->guard);
}

static void count_use(void *u, tn_kx_id x) { ((printer *)u)->uses[x]++; }

typedef struct sizes {
  const printer *p;
  uint32_t *size, *height, s, h;
} sizes;
static void add_size(void *u, tn_kx_id x) {
  sizes *z = u;
  bool named = z->p->name[x] != 0;
  z->s += named ? 1 : z->size[x];
  if (!named && z->height[x] > z->h) z->h = z->height[x];
}

/* Operands have smaller numbers than readers: uses run down, sizes up. */
static bool find_names(printer *p, tn_arena *a) {
  const tn_kdef *k = p->k;
  sizes z = {.p = p};
  p->uses = TN_NEW(a, uint32_t, k->n_x);
  p->name = TN_NEW(a, uint32_t, k->n_x);
  p->mark = TN_NEW(a, bool, k->n_x);
  z.size = TN_NEW(a, uint32_t, k->n_x);
  z.height = TN_NEW(a, uint32_t, k->n_x);
  if (!p->uses || !p->name || !p->mark || !z.size || !z.height) return false;
  for (uint32_t s = 0; s < k->n_stage; s++) {
    p->uses[k->stage[s].root]++;
    if (k->stage[s].out >= 0)
      for (uint32_t j = 0; j < k->param[k->stage[s].out].rank; j++) p->uses[k->stage[s].out_idx[j]]++;
  }
  for (uint32_t i = k->n_x; i-- > 1;)
    if (p->uses[i]) each_arg(&k->x[i], count_use, p);
  for (uint32_t i = 1; i < k->n_x; i++) {
    z.s = 1;
    z.h = 0;
    each_arg(&k->x[i], add_size, &z);
    z.size[i] = z.s;
    z.height[i] = z.h + 1;
    p->name[i] = (p->uses[i] > 1 && z.s >= SMALL) || z.h + 1 >= DEEP;
  }
  return true;
}

static void set_mark(void *u, tn_kx_id x) { ((printer *)u)->mark[x] = true; }

/* Writes the parts that this stage is the first to need. */
static void new_names(printer *p, const tn_kstage *s) {
  const tn_kdef *k = p->k;
  for (uint32_t i = 0; i < k->n_x; i++) p->mark[i] = false;
  p->mark[s->root] = true;
  if (s->out >= 0)
    for (uint32_t j = 0; j < k->param[s->out].rank; j++) p->mark[s->out_idx[j]] = true;
  for (uint32_t i = k->n_x; i-- > 1;)
    if (p->mark[i] && p->name[i] < 2) each_arg(&k->x[i], set_mark, p);
  for (uint32_t i = 1; i < k->n_x; i++) {
    if (!p->mark[i] || p->name[i] != 1) continue;
    tn_str_add(p->o, "  $%u = ", p->n_names);
    node(p, i);
    put(p, "\n");
    p->name[i] = 2 + p->n_names++;
  }
}

/* ---- kernel ---- */

static void dims(printer *p, char open, const tn_dim *d, uint32_t n, char close) {
  tn_str_put(p->o, &open, 1);
  for (uint32_t i = 0; i < n; i++) {
    if (i) put(p, ",");
    dim(p, d[i]);
  }
  tn_str_put(p->o, &close, 1);
}

static void params(printer *p, bool written) {
  const tn_kdef *k = p->k;
  bool first = true;
  for (uint32_t i = 0; i < k->n_param; i++) {
    const tn_kparam *q = &k->param[i];
    if (q->written != written) continue;
    put(p, first ? "%" : ", %");
    first = false;
    tn_ks_put_name(p->o, q->name);
    tn_str_add(p->o, ": %s", tn_dtype_name((tn_dtype)q->dtype));
    dims(p, '[', q->dim, q->rank, ']');
    tn_dim run = 1;
    bool dense = true;
    for (uint32_t d = q->rank; d-- > 0;) {
      dense &= q->stride[d] == run || q->dim[d] == 1;
      run = tn_dim_mul(k->dims, run, q->dim[d]);
    }
    if (!dense) dims(p, '{', q->stride, q->rank, '}');
    if (q->frozen) put(p, " frozen");
  }
}

static void symbols(printer *p, tn_arena *a) {
  const tn_kdef *k = p->k;
  uint32_t n = tn_dims_n_syms(k->dims);
  bool *used = TN_NEW(a, bool, n + 1);
  if (!used) {
    p->o->oom = true;
    return;
  }
  for (uint32_t i = 0; i < k->n_axis; i++) tn_dim_mark_syms(k->dims, k->axis[i].extent, used);
  for (uint32_t i = 0; i < k->n_param; i++)
    for (uint32_t j = 0; j < k->param[i].rank; j++) {
      tn_dim_mark_syms(k->dims, k->param[i].dim[j], used);
      tn_dim_mark_syms(k->dims, k->param[i].stride[j], used);
    }
  for (uint32_t i = 1; i < k->n_x; i++)
    if (p->uses[i]) tn_dim_mark_syms(k->dims, k->x[i].dim, used);
  for (uint32_t i = 0; i < n; i++) {
    int64_t lo, hi;
    tn_dims_sym_range(k->dims, i, &lo, &hi);
    if (!used[i] || (lo == 0 && hi == INT64_MAX)) continue;
    tn_str_add(p->o, "  sym %s in [%lld, ", tn_dims_sym_name(k->dims, i), (long long)lo);
    if (hi == INT64_MAX)
      put(p, "inf]\n");
    else
      tn_str_add(p->o, "%lld]\n", (long long)hi);
  }
}

static void axes(printer *p, const uint8_t *a, uint32_t n) {
  put(p, "[");
  for (uint32_t i = 0; i < n; i++) {
    if (i) put(p, ",");
    axis(p, a[i]);
  }
  put(p, "]");
}

static void stage(printer *p, uint32_t number) {
  const tn_kstage *s = &p->k->stage[number];
  new_names(p, s);
  tn_str_add(p->o, "  %%%u ", number);
  tn_ks_put_name(p->o, s->name);
  tn_str_add(p->o, ": %s", tn_dtype_name((tn_dtype)s->dtype));
  axes(p, s->axis, s->n_axis);
  put(p, " = ");
  if (s->n_red) {
    put(p, tn_combiner_name((tn_combiner)s->combiner));
    axes(p, s->red, s->n_red);
    put(p, " ");
  }
  expr(p, s->root);
  if (s->out >= 0) {
    put(p, " -> %");
    tn_ks_put_name(p->o, p->k->param[s->out].name);
    put(p, "[");
    list(p, s->out_idx, p->k->param[s->out].rank);
    put(p, "]");
  }
  put(p, "\n");
}

void tn_kdef_print(const tn_kdef *k, tn_str *o) {
  tn_arena a;
  tn_arena_init(&a);
  printer p = {.k = k, .o = o};
  if (!find_names(&p, &a)) {
    o->oom = true;
    tn_arena_deinit(&a);
    return;
  }
  put(&p, "kernel @");
  tn_ks_put_name(o, k->name);
  put(&p, "(");
  params(&p, false);
  put(&p, ") -> (");
  params(&p, true);
  put(&p, ") {\n");
  symbols(&p, &a);
  for (uint32_t i = 0; i < k->n_axis; i++) {
    put(&p, i ? ", " : "  axis ");
    axis(&p, i);
    put(&p, ": ");
    dim(&p, k->axis[i].extent);
  }
  if (k->n_axis) put(&p, "\n");
  for (uint32_t i = 0; i < k->n_stage; i++) stage(&p, i);
  put(&p, "}\n");
  tn_arena_deinit(&a);
}

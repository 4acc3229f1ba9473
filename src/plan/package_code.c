/* Modules and plans as bytes. One walk serves both directions: every field passes through a function that appends it or fills it in, so
 * writer and reader cannot disagree. Numbers are variable-length (7 bits a byte, signed ones zigzag); a list is its count and its items.
 *
 * Reading: a count is refused when the bytes that are left could not hold that many items, so memory grows in proportion to the file;
 * numbers that would not fit their field are refused; everything else is left to the verifiers. The first error sticks, and what is read
 * after it is zeros, so the walk needs no checks. */
#include <inttypes.h>
#include <string.h>
#include "plan/package.h"

typedef struct coder {
  bool writing;
  tn_diag *d;
  tn_status st;
  tn_str *out;
  const uint8_t *p, *end, *begin;
  tn_arena *a;
  const tn_package_io *io;
} coder;

static void fail(coder *c, const char *what) {
  if (c->st != TN_OK) return;
  c->st = tn_fail(c->d, TN_E_PARSE, "%s at byte %zu of a module of %zu bytes", what, (size_t)(c->p - c->begin), (size_t)(c->end - c->begin));
  c->p = c->end;
}
static void short_of_memory(coder *c) {
  if (c->st == TN_OK) c->st = tn_fail(c->d, TN_E_NOMEM, "module of a package");
  c->p = c->end;
}

/* ---- numbers and text ---- */

static void u64(coder *c, uint64_t *v) {
  if (c->writing) {
    uint64_t x = *v;
    char b[10];
    size_t n = 0;
    do {
      b[n++] = (char)((x & 127) | (x > 127 ? 128 : 0));
      x >>= 7;
    } while (x);
    tn_str_put(c->out, b, n);
    return;
  }
  *v = 0;
  for (int shift = 0;; shift += 7) {
    if (c->p == c->end) return *v = 0, fail(c, "a number is cut off");
    uint8_t b = *c->p++;
    if (shift == 63 && b > 1) return *v = 0, fail(c, "a number has too many bits");
    *v |= (uint64_t)(b & 127) << shift;
    if (b < 128) return;
    if (shift == 63) return *v = 0, fail(c, "a number has too many bits");
  }
}
static void i64(coder *c, int64_t *v) {
  uint64_t u = (uint64_t)*v << 1 ^ (uint64_t)(*v >> 63);
  u64(c, &u);
  if (!c->writing) *v = (int64_t)(u >> 1) ^ -(int64_t)(u & 1);
}
static void below(coder *c, uint64_t *v, uint64_t most) {
  u64(c, v);
  if (!c->writing && *v > most) *v = 0, fail(c, "a number is out of range");
}
static void u32(coder *c, uint32_t *v) {
  uint64_t u = *v;
  below(c, &u, UINT32_MAX);
  *v = (uint32_t)u;
}
static void i32(coder *c, int32_t *v) {
  int64_t i = *v;
  i64(c, &i);
  if (!c->writing && (i < INT32_MIN || i > INT32_MAX)) i = 0, fail(c, "a number is out of range");
  *v = (int32_t)i;
}
static void u8(coder *c, uint8_t *v) {
  uint64_t u = *v;
  below(c, &u, UINT8_MAX);
  *v = (uint8_t)u;
}
static void flag(coder *c, bool *v) {
  uint64_t u = *v;
  below(c, &u, 1);
  *v = u != 0;
}
static void dbl(coder *c, double *v) {
  uint64_t u;
  uint8_t b[8];
  memcpy(&u, v, 8);
  for (int i = 0; c->writing && i < 8; i++) b[i] = (uint8_t)(u >> 8 * i);
  if (c->writing) {
    tn_str_put(c->out, (const char *)b, 8);
    return;
  }
  u = 0;
  if (c->end - c->p < 8) fail(c, "a number is cut off");
  else
    for (int i = 0; i < 8; i++) u |= (uint64_t)*c->p++ << 8 * i;
  memcpy(v, &u, 8);
}
/* Bytes with a NUL after their end. */
static void bytes(coder *c, const char **s, size_t *n) {
  uint64_t u = *n;
  u64(c, &u);
  if (c->writing) {
    tn_str_put(c->out, *s, *n);
    return;
  }
  *s = "";
  *n = 0;
  if (u > (size_t)(c->end - c->p)) return fail(c, "text is longer than what is left");
  char *t = tn_arena_strndup(c->a, (const char *)c->p, (size_t)u);
  if (!t) return short_of_memory(c);
  memcpy(t, c->p, (size_t)u); /* also behind zero bytes */
  c->p += u;
  *s = t;
  *n = (size_t)u;
}
/* Text without zero bytes, or NULL. */
static void text(coder *c, const char **s) {
  bool there = *s != NULL;
  size_t n = *s ? strlen(*s) : 0;
  flag(c, &there);
  if (!there) {
    *s = NULL;
    return;
  }
  bytes(c, s, &n);
  if (!c->writing && strlen(*s) != n) *s = "", fail(c, "text has a zero byte");
}

/* ---- lists ---- */

/* The count of a list whose items take at least `least` bytes each, and room for it. */
static void *list(coder *c, void *v, uint32_t *n, size_t item, size_t least) {
  u32(c, n);
  if (c->writing) return v;
  if (*n > (size_t)(c->end - c->p) / least) *n = 0, fail(c, "a list is longer than what is left");
  void *p = tn_arena_alloc(c->a, *n * item + 1);
  if (!p) *n = 0, short_of_memory(c);
  return p;
}
#define LIST(c, T, v, n, least) ((v) = (T *)list((c), (void *)(uintptr_t)(v), &(n), sizeof(T), (least)))
#define EACH(n) for (uint32_t i = 0; i < (n); i++)

static void numbers(coder *c, uint32_t **v, uint32_t *n) {
  LIST(c, uint32_t, *v, *n, 1);
  EACH(*n) u32(c, &(*v)[i]);
}
static void pdims(coder *c, tn_pdim **v, uint32_t *n) {
  LIST(c, tn_pdim, *v, *n, 1);
  EACH(*n) i64(c, &(*v)[i]);
}
/* Sizes and maybe strides of a shape. */
static void shape(coder *c, uint8_t *dtype, uint8_t *rank, tn_pdim **dim, tn_pdim **stride) {
  bool strided = *stride != NULL;
  uint32_t n = *rank, m = *rank;
  u8(c, dtype);
  pdims(c, dim, &n);
  flag(c, &strided);
  if (strided) pdims(c, stride, &m);
  else *stride = NULL;
  if (!c->writing && (n > TN_PLAN_MAX_RANK || (strided && m != n))) n = 0, fail(c, "a shape has too many dims or other strides");
  *rank = (uint8_t)n;
}

/* ---- plans ---- */

static void buffer(coder *c, tn_pbuf *b) {
  uint64_t kind = b->kind, at = 0;
  bool there = b->kind == TN_PB_CONST && b->data && b->bytes > 0;
  below(c, &kind, TN_PB_PACKED);
  b->kind = (tn_pbuf_kind)kind;
  u32(c, &b->index);
  i64(c, &b->bytes);
  u32(c, &b->first);
  u32(c, &b->last);
  numbers(c, &b->source, &b->n_source);
  flag(c, &there);
  static const _Alignas(64) char nothing[64];
  if (!c->writing && b->kind == TN_PB_CONST && b->bytes == 0) b->data = nothing;
  if (!there || c->st != TN_OK) return;
  if (c->writing) c->st = c->io->weight(c->io->ctx, c->d, &b->data, b->bytes, &at);
  u64(c, &at);
  if (c->writing || c->st != TN_OK) return;
  if (b->kind != TN_PB_CONST || b->bytes <= 0) return fail(c, "a buffer that is no constant has data");
  c->st = c->io->weight(c->io->ctx, c->d, &b->data, b->bytes, &at);
}

static void kernel(coder *c, tn_pkernel *k) {
  uint64_t at = 0, n = k->object_bytes;
  text(c, &k->name);
  u32(c, &k->n_param);
  u32(c, &k->n_size);
  if (c->writing && c->st == TN_OK) {
    if (!k->object) c->st = tn_fail(c->d, TN_E_VERIFY, "kernel '%s' has no object", k->name);
    else c->st = c->io->object(c->io->ctx, c->d, &k->object, &k->object_bytes, &at);
  }
  u64(c, &at);
  u64(c, &n);
  if (c->writing || c->st != TN_OK) return;
  k->object_bytes = (size_t)n;
  c->st = c->io->object(c->io->ctx, c->d, &k->object, &k->object_bytes, &at);
}

static void pstep(coder *c, tn_pstep *s) {
  uint64_t kind = s->kind;
  below(c, &kind, TN_PS_VIEW);
  s->kind = (tn_pstep_kind)kind;
  if (s->kind == TN_PS_LIB) { /* by name: rows may move */
    const char *name = c->writing ? tn_plib_get(s->kernel)->text : NULL;
    text(c, &name);
    if (!c->writing && c->st == TN_OK && (!name || !tn_plib_find(name, strlen(name), &s->kernel)))
      c->st = tn_fail(c->d, TN_E_UNSUPPORTED, "this run time has no library call '%s'", name ? name : "");
  } else {
    u32(c, &s->kernel);
  }
  numbers(c, &s->arg, &s->n_arg);
  u32(c, &s->n_in);
  pdims(c, &s->size, &s->n_size);
  i64(c, &s->scratch);
  i64(c, &s->blocks);
  i64(c, &s->grain);
  i64(c, &s->work);
  pdims(c, &s->param, &s->n_param);
  flag(c, &s->pack);
  text(c, &s->text);
  u32(c, &s->prov);
}

static void out(coder *c, tn_pout *o) {
  u32(c, &o->view);
  flag(c, &o->is_none);
  flag(c, &o->is_dim);
  i64(c, &o->dim);
  i32(c, &o->alias_input);
}

static void plan(coder *c, tn_plan *p) {
  LIST(c, tn_psym, p->sym, p->n_sym, 5);
  EACH(p->n_sym) {
    tn_psym *s = &p->sym[i];
    text(c, &s->name);
    i64(c, &s->lo);
    i64(c, &s->hi);
    i32(c, &s->input);
    i32(c, &s->dim);
  }
  LIST(c, tn_pexpr, p->expr, p->n_expr, 2);
  EACH(p->n_expr) {
    tn_pexpr *e = &p->expr[i];
    text(c, &e->text);
    LIST(c, tn_dim_code, e->code, e->n, 2);
    for (uint32_t k = 0; k < e->n; k++) u8(c, &e->code[k].op), i64(c, &e->code[k].v);
  }
  LIST(c, tn_pguard_in, p->in, p->n_in, 4);
  EACH(p->n_in) {
    shape(c, &p->in[i].dtype, &p->in[i].rank, &p->in[i].dim, &p->in[i].stride);
    text(c, &p->in[i].name);
  }
  LIST(c, tn_pbuf, p->buf, p->n_buf, 7);
  EACH(p->n_buf) buffer(c, &p->buf[i]);
  LIST(c, tn_pview, p->view, p->n_view, 6);
  EACH(p->n_view) {
    tn_pview *v = &p->view[i];
    u32(c, &v->buf);
    shape(c, &v->dtype, &v->rank, &v->dim, &v->stride);
    i64(c, &v->offset);
    text(c, &v->name);
  }
  LIST(c, tn_pkernel, p->kernel, p->n_kernel, 5);
  EACH(p->n_kernel) kernel(c, &p->kernel[i]);
  LIST(c, tn_pstep, p->step, p->n_step, 12);
  EACH(p->n_step) pstep(c, &p->step[i]);
  LIST(c, tn_pout, p->out, p->n_out, 5);
  EACH(p->n_out) out(c, &p->out[i]);
  u32(c, &p->n_host);
}

/* ---- modules ---- */

static void port(coder *c, tn_mport *p) {
  int32_t rank = p->rank;
  uint32_t n = rank > 0 ? (uint32_t)rank : 0;
  int64_t *dim = (int64_t *)(uintptr_t)p->dim;
  const char **name = NULL;
  text(c, &p->name);
  u8(c, &p->kind);
  u8(c, &p->elem);
  u8(c, &p->key_elem);
  i32(c, &rank);
  pdims(c, &dim, &n);
  if (!c->writing) {
    if (rank < -1 || rank > TN_PLAN_MAX_RANK || n != (rank > 0 ? (uint32_t)rank : 0)) rank = -1, n = 0, fail(c, "a port has a strange rank");
    name = TN_NEW(c->a, const char *, n + 1);
    if (!name) n = 0, short_of_memory(c);
    p->rank = (int8_t)rank;
    p->dim = dim;
    p->dim_name = name;
  }
  EACH(n) {
    const char *s = c->writing && p->dim_name ? p->dim_name[i] : NULL;
    text(c, &s);
    if (name) name[i] = s;
  }
}

static void attr(coder *c, tn_mattr *a) {
  uint64_t kind = a->kind;
  text(c, &a->name);
  below(c, &kind, TN_MA_STRS);
  a->kind = (tn_mattr_kind)kind;
  if (kind == TN_MA_STR || kind == TN_MA_STRS) {
    tn_mstr *s = (tn_mstr *)(uintptr_t)a->u.s;
    LIST(c, tn_mstr, s, a->n, 1);
    a->u.s = s;
    EACH(a->n) bytes(c, &s[i].s, &s[i].n);
  } else if (kind == TN_MA_FLOAT || kind == TN_MA_FLOATS) {
    double *f = (double *)(uintptr_t)a->u.f;
    LIST(c, double, f, a->n, 8);
    a->u.f = f;
    EACH(a->n) dbl(c, &f[i]);
  } else {
    int64_t *v = (int64_t *)(uintptr_t)a->u.i;
    LIST(c, int64_t, v, a->n, 1);
    a->u.i = v;
    EACH(a->n) i64(c, &v[i]);
  }
}

static void mstep(coder *c, tn_mstep *s) {
  uint64_t kind = s->kind;
  below(c, &kind, TN_N_MSTEPS - 1);
  s->kind = (tn_mstep_kind)kind;
  if (s->kind == TN_MS_OP) { /* by name: rows may move */
    const char *name = c->writing ? tn_dyn_get(s->target)->text : NULL;
    text(c, &name);
    if (!c->writing && c->st == TN_OK && (!name || !tn_dyn_find(name, strlen(name), &s->target)))
      c->st = tn_fail(c->d, TN_E_UNSUPPORTED, "this run time has no dynamic operator '%s'", name ? name : "");
  } else {
    u32(c, &s->target);
  }
  u32(c, &s->func[0]);
  u32(c, &s->func[1]);
  u32(c, &s->n_carried);
  u32(c, &s->n_scan);
  LIST(c, tn_marg, s->in, s->n_in, 3);
  EACH(s->n_in) {
    u32(c, &s->in[i].slot);
    u8(c, &s->in[i].pick);
    u32(c, &s->in[i].index);
  }
  numbers(c, &s->out, &s->n_out);
  LIST(c, tn_mattr, s->attr, s->n_attr, 3);
  EACH(s->n_attr) attr(c, &s->attr[i]);
  text(c, &s->text);
}

static void function(coder *c, tn_mfunc *f) {
  text(c, &f->name);
  u32(c, &f->n_slot);
  numbers(c, &f->in, &f->n_in);
  numbers(c, &f->out, &f->n_out);
  LIST(c, tn_mstep, f->step, f->n_step, 11);
  EACH(f->n_step) mstep(c, &f->step[i]);
}

static void plans(coder *c, tn_module *m) {
  LIST(c, tn_plan *, m->plan, m->n_plan, 2);
  tn_arena *keep = c->a;
  EACH(m->n_plan) {
    const char *name = c->writing ? m->plan[i]->name : NULL;
    text(c, &name); /* of a plan that is read, it moves into the plan's own arena */
    if (c->st != TN_OK) return;
    if (!c->writing && tn_plan_create(name ? name : "", &m->plan[i]) != TN_OK) return short_of_memory(c);
    c->a = m->plan[i]->arena;
    plan(c, m->plan[i]);
    c->a = keep;
  }
}

static void module(coder *c, tn_module *m) {
  text(c, &m->name);
  if (!m->name) m->name = "";
  LIST(c, tn_mmeta, m->meta, m->n_meta, 2);
  EACH(m->n_meta) text(c, &m->meta[i].key), text(c, &m->meta[i].value);
  LIST(c, tn_mport, m->in, m->n_in, 6);
  EACH(m->n_in) port(c, &m->in[i]);
  LIST(c, tn_mport, m->out, m->n_out, 6);
  EACH(m->n_out) port(c, &m->out[i]);
  LIST(c, tn_mfunc, m->func, m->n_func, 5);
  EACH(m->n_func) function(c, &m->func[i]);
  plans(c, m);
}

tn_status tn_package_encode(tn_diag *d, const tn_module *m, const tn_package_io *io, tn_str *to) {
  coder c = {.writing = true, .d = d, .out = to, .io = io};
  module(&c, (tn_module *)(uintptr_t)m); /* not changed when writing */
  if (c.st == TN_OK && to->oom) c.st = tn_fail(d, TN_E_NOMEM, "module '%s' as bytes", m->name);
  return c.st;
}

tn_status tn_package_decode(tn_diag *d, const void *p, size_t n, const tn_package_io *io, tn_module **out_module) {
  tn_module *m;
  *out_module = NULL;
  if (tn_module_create("", &m) != TN_OK) return tn_fail(d, TN_E_NOMEM, "module of a package");
  coder c = {.d = d, .p = p, .begin = p, .end = (const uint8_t *)p + n, .a = m->arena, .io = io};
  module(&c, m);
  if (c.st == TN_OK && c.p != c.end) fail(&c, "there is more behind the end");
  if (c.st == TN_OK) *out_module = m;
  else tn_module_destroy(m);
  return c.st;
}

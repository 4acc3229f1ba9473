/* Runs a nest in plain C, one instruction and one lane at a time: the oracle that every emitter's object is compared with.
 * Lanes are tn_num (double or int64), and arithmetic is tn_scalar_eval, the specification of scalar functions; f32 results
 * are therefore the correctly rounded ones (double holds the exact product, sum or quotient closely enough that rounding
 * twice is innocuous), and FMA uses the C library's. Slow on purpose; needs a verified nest. */
#include <math.h>
#include <string.h>
#include "kir/nest_int.h"

typedef struct machine {
  const tn_nest *n;
  const tn_kernel_args *args;
  int64_t lo, hi;
  char *scratch;
  tn_num *val;        /* all lanes of all values */
  uint32_t *off;      /* [n->n] first lane in val */
  uint32_t *match;    /* [n->n] opener <-> its END */
  int64_t *slot_byte; /* [n->n_scratch] */
} machine;

static tn_num *lanes(const machine *m, tn_nv v) { return m->val + m->off[v]; }
static int64_t index_of(const machine *m, tn_nv v) { return lanes(m, v)->i; }

static char *address(const machine *m, int base, int64_t index, tn_dtype t) {
  char *p = base == TN_BASE_ZEROS ? (char *)(uintptr_t)m->args->zeros : base >= 0 ? m->args->ptr[base] : m->scratch + m->slot_byte[-1 - base];
  return p + index * (int64_t)tn_dtype_size(t);
}

static bool lane_on(const machine *m, const tn_ninst *i, int k) { return !i->c || lanes(m, i->c)[k].i; }

/* Element index of lane k of a load or store. */
static int64_t lane_index(const machine *m, const tn_ninst *i, int k) {
  if (i->op == TN_N_GATHER || i->op == TN_N_SCATTER) return lanes(m, i->a)[k].i;
  bool strided = i->op == TN_N_LOAD_STRIDED || i->op == TN_N_STORE_STRIDED;
  return index_of(m, i->a) + k * (strided ? index_of(m, i->b) : 1);
}

static void run_load(const machine *m, const tn_ninst *i, tn_num *out) {
  tn_dtype t = (tn_dtype)i->vt.dtype;
  bool to_zeros = i->op == TN_N_LOAD && (i->flags & TN_NF_GUARD) && !index_of(m, i->d);
  for (int k = 0; k < i->vt.lanes; k++) {
    const void *p = to_zeros ? address(m, TN_BASE_ZEROS, index_of(m, i->b) + k, t) : address(m, i->base, lane_index(m, i, k), t);
    out[k] = lane_on(m, i, k) ? tn_num_load(t, p) : (tn_num){.i = 0};
  }
}

static void run_store(const machine *m, const tn_ninst *i) {
  const tn_num *v = lanes(m, i->op == TN_N_STORE_STRIDED ? i->d : i->b);
  for (int k = 0; k < i->vt.lanes; k++)
    if (lane_on(m, i, k)) tn_num_store((tn_dtype)i->vt.dtype, address(m, i->base, lane_index(m, i, k), (tn_dtype)i->vt.dtype), v[k]);
}

static tn_num run_fma(tn_dtype t, double a, double b, double c) {
  return (tn_num){.f = t == TN_F32 ? (double)fmaf((float)a, (float)b, (float)c) : fma(a, b, c)};
}

/* Upper half onto lower half until one lane is left: the order every emitter uses. */
static tn_num run_hreduce(const machine *m, const tn_ninst *i) {
  tn_vt vt = tn_n_type(m->n, i->a);
  tn_num v[64];
  memcpy(v, lanes(m, i->a), sizeof(tn_num) * vt.lanes);
  for (int half = vt.lanes / 2; half >= 1; half /= 2)
    for (int k = 0; k < half; k++) v[k] = tn_combiner_step((tn_combiner)i->imm.i, (tn_dtype)vt.dtype, v[k], v[k + half]);
  return v[0];
}

static tn_num run_bitcast(tn_num v, tn_dtype to) {
  uint32_t u;
  float f;
  switch (to) {
    case TN_I32:
      f = (float)v.f;
      memcpy(&u, &f, sizeof u);
      return (tn_num){.i = (int32_t)u};
    case TN_F32:
      u = (uint32_t)v.i;
      memcpy(&f, &u, sizeof f);
      return (tn_num){.f = (double)f};
    default: return v; /* f64 and i64 share the union */
  }
}

static void run_scalar(const machine *m, const tn_ninst *i, tn_num *out) {
  tn_dtype t = (tn_dtype)(i->sop == TN_S_SELECT ? i->vt.dtype : tn_n_type(m->n, i->a).dtype);
  int arity = tn_scalar_arity(i->sop);
  for (int k = 0; k < i->vt.lanes; k++) {
    tn_num arg[3] = {lanes(m, i->a)[k]};
    if (arity > 1) arg[1] = lanes(m, i->b)[k];
    if (arity > 2) arg[2] = lanes(m, i->c)[k];
    out[k] = tn_scalar_eval(i->sop, t, arg);
  }
}

static void run_error(const machine *m, const tn_ninst *i) {
  for (int k = 0; k < tn_n_type(m->n, i->a).lanes; k++)
    if (lanes(m, i->a)[k].i && lane_on(m, i, k)) *m->args->status = i->op == TN_N_INDEX_ERROR ? 1 : 2;
}

/* Executes one instruction and returns the number of the next. */
static uint32_t step(const machine *m, uint32_t at) {
  const tn_ninst *i = &m->n->inst[at];
  tn_num *out = lanes(m, at);
  tn_dtype t = (tn_dtype)i->vt.dtype;
  int n = i->vt.lanes;
  switch ((tn_nop)i->op) {
    case TN_N_CONST: for (int k = 0; k < n; k++) out[k] = i->imm; break;
    case TN_N_SIZE: out->i = m->args->size[i->imm.i]; break;
    case TN_N_BLOCK_LO: out->i = m->lo; break;
    case TN_N_BLOCK_HI: out->i = m->hi; break;
    case TN_N_SCALAR: run_scalar(m, i, out); break;
    case TN_N_FMA: for (int k = 0; k < n; k++) out[k] = run_fma(t, lanes(m, i->a)[k].f, lanes(m, i->b)[k].f, lanes(m, i->c)[k].f); break;
    case TN_N_CAST: {
      tn_dtype from = (tn_dtype)tn_n_type(m->n, i->a).dtype;
      for (int k = 0; k < n; k++) out[k] = tn_num_cast(lanes(m, i->a)[k], from, t);
      break;
    }
    case TN_N_BITCAST: for (int k = 0; k < n; k++) out[k] = run_bitcast(lanes(m, i->a)[k], t); break;
    case TN_N_SPLAT: for (int k = 0; k < n; k++) out[k] = *lanes(m, i->a); break;
    case TN_N_LANES: for (int k = 0; k < n; k++) out[k].i = k; break;
    case TN_N_MASK: for (int k = 0; k < n; k++) out[k].i = k < index_of(m, i->a); break;
    case TN_N_HREDUCE: *out = run_hreduce(m, i); break;
    case TN_N_EXTRACT: *out = lanes(m, i->a)[i->imm.i]; break;
    case TN_N_LOAD: case TN_N_LOAD_STRIDED: case TN_N_GATHER: run_load(m, i, out); break;
    case TN_N_STORE: case TN_N_STORE_STRIDED: case TN_N_SCATTER: run_store(m, i); break;
    case TN_N_VAR: case TN_N_GET: memcpy(out, lanes(m, i->a), sizeof(tn_num) * (size_t)n); break;
    case TN_N_SET: memcpy(lanes(m, i->a), lanes(m, i->b), sizeof(tn_num) * (size_t)n); break;
    case TN_N_FOR:
      out->i = index_of(m, i->a);
      if (out->i >= index_of(m, i->b)) return m->match[at] + 1;
      break;
    case TN_N_IF:
      if (!index_of(m, i->a)) return m->match[at] + 1;
      break;
    case TN_N_END: {
      uint32_t opener = m->match[at];
      const tn_ninst *f = &m->n->inst[opener];
      if (f->op != TN_N_FOR) break;
      tn_num *iv = lanes(m, opener);
      iv->i += index_of(m, f->c);
      if (iv->i < index_of(m, f->b)) return opener + 1;
      break;
    }
    case TN_N_INDEX_ERROR: case TN_N_ZERO_ERROR: run_error(m, i); break;
    case TN_N_PREFETCH: case TN_N_TRANSPOSE: case TN_N_NOPS: break;
  }
  return at + 1;
}

/* Pairs openers with ENDs. stack: [n->n] room. */
static void match_regions(machine *m, uint32_t *stack) {
  uint32_t depth = 0;
  for (uint32_t k = 1; k < m->n->n; k++) {
    if (m->n->inst[k].op == TN_N_FOR || m->n->inst[k].op == TN_N_IF) stack[depth++] = k;
    if (m->n->inst[k].op == TN_N_END) {
      uint32_t opener = stack[--depth];
      m->match[opener] = k;
      m->match[k] = opener;
    }
  }
}

tn_status tn_nest_interpret(tn_diag *d, const tn_nest *n, const tn_kernel_args *args, int64_t lo, int64_t hi, void *scratch) {
  TN_TRY(tn_nest_verify(d, n));
  machine m = {.n = n, .args = args, .lo = lo, .hi = hi, .scratch = scratch};
  size_t total = 1;
  for (uint32_t k = 1; k < n->n; k++) total += (tn_nop_infos[n->inst[k].op].what & TN_NW_VALUE) ? n->inst[k].vt.lanes : 0;
  tn_arena a;
  tn_arena_init(&a);
  m.val = TN_NEW(&a, tn_num, total);
  m.off = TN_NEW(&a, uint32_t, n->n);
  m.match = TN_NEW(&a, uint32_t, n->n);
  uint32_t *stack = TN_NEW(&a, uint32_t, n->n);
  m.slot_byte = TN_NEW(&a, int64_t, n->n_scratch + 1);
  tn_status s = TN_OK;
  if (!m.val || !m.off || !m.match || !stack || !m.slot_byte || total > UINT32_MAX) {
    s = tn_fail(d, TN_E_NOMEM, "%zu lanes to interpret nest @%s", total, n->name);
  } else {
    uint32_t next = 1;
    for (uint32_t k = 1; k < n->n; k++) {
      m.off[k] = next;
      next += (tn_nop_infos[n->inst[k].op].what & TN_NW_VALUE) ? n->inst[k].vt.lanes : 0;
    }
    tn_nest part = *n; /* the first k slots: where slot k starts */
    for (uint32_t k = 0; k < n->n_scratch; k++) {
      part.n_scratch = k;
      m.slot_byte[k] = tn_nest_scratch_bytes(&part, args->size);
    }
    match_regions(&m, stack);
    for (uint32_t at = 1; at < n->n;) at = step(&m, at);
  }
  tn_arena_deinit(&a);
  return s;
}

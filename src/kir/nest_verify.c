/* The verifier of nests: structure (operands exist and are visible, regions balance), types of every instruction, constants
 * and memory names in range. A nest that passes can be interpreted and emitted without further checks; only addresses are
 * on trust, because nobody here knows how big the operands will be.
 *
 * Visibility: a value belongs to the region it was made in and dies with it. `region[v]` names that region by its opener
 * (0 = the whole nest; a FOR's induction value belongs to the FOR), `open[]` says which openers are still open. */
#include <math.h>
#include <stdio.h>
#include "kir/nest_int.h"

typedef struct checker {
  tn_diag *d;
  const tn_nest *n;
  uint32_t *region; /* [n->n] opener of the region an instruction's value belongs to */
  bool *open;       /* [n->n] by opener */
  uint32_t *stack;  /* openers, outermost first */
  uint32_t depth;
  uint32_t at;
} checker;

static tn_status TN_PRINTF(2, 3) bad(checker *k, const char *fmt, ...) {
  char text[200];
  va_list ap;
  va_start(ap, fmt);
  if (vsnprintf(text, sizeof text, fmt, ap) < 0) text[0] = 0;
  va_end(ap);
  const tn_ninst *i = &k->n->inst[k->at];
  const char *op = i->op == TN_N_SCALAR && i->sop < TN_N_SCALARS ? tn_scalar_name(i->sop) : i->op < TN_N_NOPS ? tn_nop_infos[i->op].text : "?";
  return tn_fail(k->d, TN_E_VERIFY, "nest @%s, %%%u %s: %s", k->n->name, k->at, op, text);
}

static bool type_ok(tn_vt vt) { return tn_dtype_is_value(vt.dtype) && vt.lanes >= 1 && vt.lanes <= 64 && (vt.lanes & (vt.lanes - 1)) == 0; }
static bool same(tn_vt x, tn_vt y) { return x.dtype == y.dtype && x.lanes == y.lanes; }
static bool is(tn_vt vt, tn_dtype t, int lanes) { return vt.dtype == t && vt.lanes == lanes; }

static tn_status check_ref(checker *k, tn_nv v, char letter) {
  if (v == 0 || v >= k->at) return bad(k, "operand %c is %%%u, which is not an earlier value", letter, v);
  const tn_ninst *t = &k->n->inst[v];
  if (!(tn_nop_infos[t->op].what & TN_NW_VALUE)) return bad(k, "operand %c is %%%u, which yields no value", letter, v);
  if (!k->open[k->region[v]]) return bad(k, "operand %c is %%%u, whose region is closed", letter, v);
  uint8_t op = k->n->inst[k->at].op;
  bool names_var = (op == TN_N_GET || op == TN_N_SET) && letter == 'a';
  if (names_var != (t->op == TN_N_VAR)) return bad(k, names_var ? "operand %c is %%%u, not a var" : "operand %c is %%%u, a var: read it with get", letter, v);
  return TN_OK;
}

static tn_status want(checker *k, tn_nv v, char letter, tn_vt vt) {
  tn_vt have = tn_n_type(k->n, v);
  if (same(have, vt)) return TN_OK;
  return bad(k, "operand %c is %sx%d, wants %sx%d", letter, tn_dtype_name(have.dtype), have.lanes, tn_dtype_name(vt.dtype), vt.lanes);
}

static tn_status check_const(checker *k, const tn_ninst *i) {
  tn_dtype t = (tn_dtype)i->vt.dtype;
  tn_num back = tn_num_cast(i->imm, tn_dtype_is_float(t) ? TN_F64 : TN_I64, t);
  bool fits = tn_dtype_is_float(t) ? back.f == i->imm.f || isnan(i->imm.f) : back.i == i->imm.i;
  return fits ? TN_OK : bad(k, "constant is no value of %s", tn_dtype_name(t));
}

static tn_status check_scalar(checker *k, const tn_ninst *i) {
  tn_vt a = tn_n_type(k->n, i->a);
  if (i->sop == TN_S_SELECT) {
    TN_TRY(want(k, i->a, 'a', (tn_vt){TN_BOOL, i->vt.lanes}));
    TN_TRY(want(k, i->b, 'b', i->vt));
    return want(k, i->c, 'c', i->vt);
  }
  bool small_float = a.dtype == TN_F16 || a.dtype == TN_BF16;
  if (!tn_scalar_accepts(i->sop, a.dtype) || small_float) return bad(k, "is not for %s", tn_dtype_name(a.dtype));
  if (tn_scalar_arity(i->sop) == 2) TN_TRY(want(k, i->b, 'b', a));
  if (tn_scalar_is_bool(i->sop)) a.dtype = TN_BOOL;
  return same(a, i->vt) ? TN_OK : bad(k, "yields %sx%d, is declared %sx%d", tn_dtype_name(a.dtype), a.lanes, tn_dtype_name(i->vt.dtype), i->vt.lanes);
}

static tn_status check_bitcast(checker *k, const tn_ninst *i) {
  tn_vt a = tn_n_type(k->n, i->a);
  tn_dtype x = (tn_dtype)a.dtype, y = (tn_dtype)i->vt.dtype;
  bool ok = (x == TN_F32 && y == TN_I32) || (x == TN_I32 && y == TN_F32) || (x == TN_F64 && y == TN_I64) || (x == TN_I64 && y == TN_F64);
  return ok && a.lanes == i->vt.lanes ? TN_OK : bad(k, "from %sx%d to %sx%d", tn_dtype_name(x), a.lanes, tn_dtype_name(y), i->vt.lanes);
}

static tn_status check_hreduce(checker *k, const tn_ninst *i) {
  tn_vt a = tn_n_type(k->n, i->a);
  bool is_bool = a.dtype == TN_BOOL, small_float = a.dtype == TN_F16 || a.dtype == TN_BF16;
  if (i->imm.i < 0 || i->imm.i > TN_C_ALL || small_float || is_bool != (i->imm.i == TN_C_ANY || i->imm.i == TN_C_ALL))
    return bad(k, "combiner %lld does not fit %s", (long long)i->imm.i, tn_dtype_name(a.dtype));
  return is(i->vt, (tn_dtype)a.dtype, 1) ? TN_OK : bad(k, "yields a scalar %s", tn_dtype_name(a.dtype));
}

static tn_status check_memory(checker *k, const tn_ninst *i) {
  const tn_nest *n = k->n;
  const tn_nop_info *info = &tn_nop_infos[i->op];
  tn_vt i64 = {TN_I64, 1};
  tn_dtype t = (tn_dtype)i->vt.dtype;
  if (!tn_nest_base_dtype(n, i->base, &t)) return bad(k, "names memory %d; there are %u parameters and %u scratch slots", i->base, n->n_param, n->n_scratch);
  bool indexed = i->op == TN_N_GATHER || i->op == TN_N_SCATTER;
  TN_TRY(want(k, i->a, 'a', indexed ? (tn_vt){TN_I64, i->vt.lanes} : i64));
  if (i->op == TN_N_PREFETCH) return TN_OK;
  if (t != (tn_dtype)i->vt.dtype) return bad(k, "type %s, memory holds %s", tn_dtype_name(i->vt.dtype), tn_dtype_name(t));
  if (info->what & TN_NW_WRITES) {
    if (i->base == TN_BASE_ZEROS || (i->base >= 0 && !n->param[i->base].written)) return bad(k, "writes to memory that is read only");
    tn_nv stored = i->op == TN_N_STORE_STRIDED ? i->d : i->b;
    TN_TRY(want(k, stored, i->op == TN_N_STORE_STRIDED ? 'd' : 'b', i->vt));
  }
  if (i->op == TN_N_LOAD_STRIDED || i->op == TN_N_STORE_STRIDED) TN_TRY(want(k, i->b, 'b', i64));
  if (i->op == TN_N_LOAD && (i->flags & TN_NF_GUARD)) {
    TN_TRY(want(k, i->b, 'b', i64));
    TN_TRY(want(k, i->d, 'd', (tn_vt){TN_BOOL, 1}));
  }
  return i->c ? want(k, i->c, 'c', (tn_vt){TN_BOOL, i->vt.lanes}) : TN_OK;
}

static tn_status check_types(checker *k, const tn_ninst *i) {
  const tn_nest *n = k->n;
  tn_vt i64 = {TN_I64, 1};
  switch ((tn_nop)i->op) {
    case TN_N_CONST: return check_const(k, i);
    case TN_N_SIZE:
      if (i->imm.i < 0 || i->imm.i >= (int64_t)n->n_size) return bad(k, "size %lld of %u", (long long)i->imm.i, n->n_size);
      return same(i->vt, i64) ? TN_OK : bad(k, "yields i64");
    case TN_N_BLOCK_LO: case TN_N_BLOCK_HI: return same(i->vt, i64) ? TN_OK : bad(k, "yields i64");
    case TN_N_SCALAR: return check_scalar(k, i);
    case TN_N_FMA:
      if (i->vt.dtype != TN_F32 && i->vt.dtype != TN_F64) return bad(k, "is for f32 and f64");
      TN_TRY(want(k, i->a, 'a', i->vt));
      TN_TRY(want(k, i->b, 'b', i->vt));
      return want(k, i->c, 'c', i->vt);
    case TN_N_CAST: return tn_n_type(n, i->a).lanes == i->vt.lanes ? TN_OK : bad(k, "from %d to %d lanes", tn_n_type(n, i->a).lanes, i->vt.lanes);
    case TN_N_BITCAST: return check_bitcast(k, i);
    case TN_N_SPLAT: return want(k, i->a, 'a', (tn_vt){i->vt.dtype, 1});
    case TN_N_LANES: return tn_dtype_is_int(i->vt.dtype) ? TN_OK : bad(k, "is for integers");
    case TN_N_MASK: TN_TRY(want(k, i->a, 'a', i64)); return i->vt.dtype == TN_BOOL ? TN_OK : bad(k, "yields bool lanes");
    case TN_N_HREDUCE: return check_hreduce(k, i);
    case TN_N_EXTRACT:
      if (i->imm.i < 0 || i->imm.i >= tn_n_type(n, i->a).lanes) return bad(k, "lane %lld of %d", (long long)i->imm.i, tn_n_type(n, i->a).lanes);
      return is(i->vt, (tn_dtype)tn_n_type(n, i->a).dtype, 1) ? TN_OK : bad(k, "yields a scalar of the operand's dtype");
    case TN_N_LOAD: case TN_N_LOAD_STRIDED: case TN_N_GATHER: case TN_N_STORE: case TN_N_STORE_STRIDED: case TN_N_SCATTER: case TN_N_PREFETCH:
      return check_memory(k, i);
    case TN_N_VAR: case TN_N_GET: return want(k, i->a, 'a', i->vt);
    case TN_N_SET: TN_TRY(want(k, i->a, 'a', i->vt)); return want(k, i->b, 'b', i->vt);
    case TN_N_FOR: {
      int64_t step;
      TN_TRY(want(k, i->a, 'a', i64));
      TN_TRY(want(k, i->b, 'b', i64));
      TN_TRY(want(k, i->c, 'c', i64));
      if (tn_n_is_const(n, i->c, &step) && step <= 0) return bad(k, "step %lld is not positive", (long long)step);
      if ((i->flags & TN_NF_UNROLL) && (i->imm.i < 1 || i->imm.i > 64)) return bad(k, "unroll factor %lld is outside 1..64", (long long)i->imm.i);
      return same(i->vt, i64) ? TN_OK : bad(k, "yields i64");
    }
    case TN_N_IF: return want(k, i->a, 'a', (tn_vt){TN_BOOL, 1});
    case TN_N_INDEX_ERROR: case TN_N_ZERO_ERROR: {
      tn_vt a = tn_n_type(n, i->a);
      if (a.dtype != TN_BOOL) return bad(k, "operand a is not bool");
      return i->c ? want(k, i->c, 'c', a) : TN_OK;
    }
    case TN_N_END: return TN_OK;
    case TN_N_TRANSPOSE: case TN_N_NOPS: break;
  }
  return bad(k, "is no instruction");
}

static tn_status check_inst(checker *k) {
  tn_ninst i = k->n->inst[k->at];
  if (i.op >= TN_N_NOPS || i.op == TN_N_TRANSPOSE || (i.op == TN_N_SCALAR && i.sop >= TN_N_SCALARS)) return bad(k, "is no instruction");
  const tn_nop_info *info = &tn_nop_infos[i.op];
  if ((info->what & TN_NW_TYPE) && !type_ok(i.vt)) return bad(k, "type %d x %d", i.vt.dtype, i.vt.lanes);
  if (i.flags & ~info->flags) return bad(k, "flags %d", i.flags);
  for (const char *p = tn_ninst_args(&i); *p; p++) TN_TRY(check_ref(k, *tn_ninst_arg(&i, *p), *p));
  if ((info->what & TN_NW_MASK) && i.c) TN_TRY(check_ref(k, i.c, 'c'));
  TN_TRY(check_types(k, &i));
  k->region[k->at] = k->depth ? k->stack[k->depth - 1] : 0;
  if (i.op == TN_N_FOR || i.op == TN_N_IF) {
    k->region[k->at] = k->at;
    k->open[k->at] = true;
    k->stack[k->depth++] = k->at;
  } else if (i.op == TN_N_END) {
    if (k->depth == 0) return bad(k, "closes no region");
    k->open[k->stack[--k->depth]] = false;
  }
  return TN_OK;
}

static tn_status check_head(tn_diag *d, const tn_nest *n) {
  if (n->oom) return tn_fail(d, TN_E_NOMEM, "nest @%s ran out of memory while it was built, or was given a missing value", n->name);
  if (n->n_param > INT16_MAX) return tn_fail(d, TN_E_VERIFY, "nest @%s: %u parameters", n->name, n->n_param);
  for (uint32_t k = 0; k < n->n_param; k++)
    if (!tn_dtype_is_value(n->param[k].dtype) || !n->param[k].name) return tn_fail(d, TN_E_VERIFY, "nest @%s: parameter %u has no type or name", n->name, k);
  for (uint32_t k = 0; k < n->n_scratch; k++) {
    const tn_nscratch *s = &n->scratch[k];
    if (!tn_dtype_is_value(s->dtype) || !s->name || s->elems < 0 || s->size_slot < -1 || s->size_slot >= (int64_t)n->n_size)
      return tn_fail(d, TN_E_VERIFY, "nest @%s: scratch slot %u is malformed (%lld elements, size %d)", n->name, k, (long long)s->elems, s->size_slot);
  }
  return TN_OK;
}

tn_status tn_nest_verify(tn_diag *d, const tn_nest *n) {
  TN_TRY(check_head(d, n));
  checker k = {.d = d, .n = n};
  size_t count = n->n ? n->n : 1;
  char *mem = tn_calloc(count, 2 * sizeof(uint32_t) + sizeof(bool));
  if (!mem) return tn_fail(d, TN_E_NOMEM, "tables to verify %u instructions", n->n);
  k.region = (uint32_t *)(void *)mem;
  k.stack = k.region + count;
  k.open = (bool *)(void *)(k.stack + count);
  k.open[0] = true;
  tn_status s = TN_OK;
  for (k.at = 1; k.at < n->n && s == TN_OK; k.at++) s = check_inst(&k);
  if (s == TN_OK && k.depth) s = tn_fail(d, TN_E_VERIFY, "nest @%s: the region of %%%u is not closed", n->name, k.stack[k.depth - 1]);
  tn_free(mem);
  return s;
}

/* Building nests: appending instructions, folding integers, numbering pure values.
 *
 * Schedulers compute the same index again and again (every unrolled row asks for base + i * stride); the builder makes that
 * free. Each pure instruction is looked up in a hash table keyed by its whole content before it is appended. The table is
 * scoped like the regions: END forgets what its region added, because those values are not visible after it. Entries leave
 * in the reverse order of their coming, so with linear probing clearing the slot is a correct deletion.
 *
 * Folding is for integers and bools (index arithmetic, guards) plus the few float rules that are exact for every input
 * (x*1, x-0, constant operands). It never reassociates floats. Everything else is LLVM's business. */
#include <string.h>
#include "kir/nest_int.h"

typedef struct region {
  tn_nv opener;
  uint32_t n_log; /* log length when the region opened */
} region;

struct tn_nest_build {
  tn_nv *slot; /* open addressing, 0 = empty */
  uint32_t n_slots;
  tn_nv *log; /* entries of the table, oldest first */
  uint32_t n_log, cap_log;
  region *open;
  uint32_t n_open, cap_open;
};

tn_status tn_nest_create(tn_arena *a, const char *name, tn_nest **out) {
  tn_nest *n = TN_NEW(a, tn_nest, 1);
  if (!n) return TN_E_NOMEM;
  n->arena = a;
  n->name = tn_arena_strdup(a, name);
  n->build = TN_NEW(a, struct tn_nest_build, 1);
  n->cap = 64;
  n->inst = TN_NEW(a, tn_ninst, n->cap);
  if (!n->name || !n->build || !n->inst) return TN_E_NOMEM;
  n->n = 1; /* value 0 is "none" */
  n->noalias = true;
  *out = n;
  return TN_OK;
}

tn_nv tn_nest_append(tn_nest *n, tn_ninst i) {
  if (n->oom) return 0;
  if (!TN_PUSH_ROOM(n->arena, n->inst, n->n, n->cap)) {
    n->oom = true;
    return 0;
  }
  n->inst[n->n] = i;
  return n->n++;
}

/* ---- value numbering ---- */

static bool is_pure(uint8_t op) {
  switch (op) {
    case TN_N_CONST: case TN_N_SIZE: case TN_N_BLOCK_LO: case TN_N_BLOCK_HI: case TN_N_SCALAR: case TN_N_FMA: case TN_N_CAST:
    case TN_N_BITCAST: case TN_N_SPLAT: case TN_N_LANES: case TN_N_MASK: case TN_N_HREDUCE: case TN_N_EXTRACT: return true;
    default: return false;
  }
}

static uint32_t hash_inst(const tn_ninst *i) {
  uint64_t h = (uint64_t)i->op | (uint64_t)i->sop << 8 | (uint64_t)i->vt.dtype << 16 | (uint64_t)i->vt.lanes << 24 | (uint64_t)i->a << 32;
  h = (h ^ (uint64_t)i->imm.i * 0x9e3779b97f4a7c15u) * 0xff51afd7ed558ccdu;
  h ^= h >> 29;
  h = (h ^ ((uint64_t)i->b | (uint64_t)i->c << 32)) * 0xc4ceb9fe1a85ec53u;
  return (uint32_t)(h >> 32);
}

static bool same_inst(const tn_ninst *x, const tn_ninst *y) {
  return x->op == y->op && x->sop == y->sop && x->vt.dtype == y->vt.dtype && x->vt.lanes == y->vt.lanes && x->flags == y->flags && x->a == y->a &&
         x->b == y->b && x->c == y->c && x->d == y->d && x->imm.i == y->imm.i;
}

/* The slot that holds an instruction like `i`, or the empty one where it belongs. */
static uint32_t find_slot(const tn_nest *n, const tn_ninst *i) {
  const struct tn_nest_build *b = n->build;
  uint32_t s = hash_inst(i) & (b->n_slots - 1);
  while (b->slot[s] && !same_inst(&n->inst[b->slot[s]], i)) s = (s + 1) & (b->n_slots - 1);
  return s;
}

static bool reserve_slots(tn_nest *n) {
  struct tn_nest_build *b = n->build;
  if (b->n_log * 2 < b->n_slots) return true;
  uint32_t want = b->n_slots ? b->n_slots * 2 : 128;
  tn_nv *slot = TN_NEW(n->arena, tn_nv, want);
  if (!slot) return false;
  b->slot = slot;
  b->n_slots = want;
  for (uint32_t k = 0; k < b->n_log; k++) slot[find_slot(n, &n->inst[b->log[k]])] = b->log[k]; /* oldest first: keeps deletion exact */
  return true;
}

static tn_nv add_pure(tn_nest *n, tn_ninst i) {
  struct tn_nest_build *b = n->build;
  if (!reserve_slots(n) || !TN_PUSH_ROOM(n->arena, b->log, b->n_log, b->cap_log)) {
    n->oom = true;
    return 0;
  }
  uint32_t s = find_slot(n, &i);
  if (b->slot[s]) return b->slot[s];
  tn_nv v = tn_nest_append(n, i);
  if (!v) return 0;
  b->slot[s] = v;
  b->log[b->n_log++] = v;
  return v;
}

static bool open_region(tn_nest *n, tn_nv opener) {
  struct tn_nest_build *b = n->build;
  if (!TN_PUSH_ROOM(n->arena, b->open, b->n_open, b->cap_open)) return !(n->oom = true);
  b->open[b->n_open++] = (region){opener, b->n_log};
  return true;
}

static void close_region(tn_nest *n) {
  struct tn_nest_build *b = n->build;
  if (b->n_open == 0) return; /* one END too many: the verifier says so */
  uint32_t keep = b->open[--b->n_open].n_log;
  while (b->n_log > keep) b->slot[find_slot(n, &n->inst[b->log[--b->n_log]])] = 0;
}

tn_nv tn_n_add(tn_nest *n, tn_ninst i) {
  if (n->oom) return 0;
  if (!n->build) return tn_nest_append(n, i);
  if (is_pure(i.op)) {
    i.base = 0;
    return add_pure(n, i);
  }
  tn_nv v = tn_nest_append(n, i);
  if (v && (i.op == TN_N_FOR || i.op == TN_N_IF) && !open_region(n, v)) return 0;
  if (v && i.op == TN_N_END) close_region(n);
  return v;
}

/* ---- constants and folding ---- */

static tn_nv poison(tn_nest *n) {
  n->oom = true;
  return 0;
}

tn_nv tn_n_const(tn_nest *n, tn_vt vt, tn_num v) { return tn_n_add(n, (tn_ninst){.op = TN_N_CONST, .vt = vt, .imm = v}); }

tn_nv tn_n_i64(tn_nest *n, int64_t v) { return tn_n_const(n, (tn_vt){TN_I64, 1}, (tn_num){.i = v}); }

tn_nv tn_n_f(tn_nest *n, tn_dtype t, int lanes, double v) {
  return tn_n_const(n, (tn_vt){(uint8_t)t, (uint8_t)lanes}, tn_num_cast((tn_num){.f = v}, TN_F64, t));
}

bool tn_n_is_const(const tn_nest *n, tn_nv v, int64_t *out) {
  const tn_ninst *i = &n->inst[v];
  if (v == 0 || i->op != TN_N_CONST || tn_dtype_is_float(i->vt.dtype)) return false;
  *out = i->imm.i;
  return true;
}

static bool is_float_const(const tn_nest *n, tn_nv v, double want) {
  const tn_ninst *i = &n->inst[v];
  return i->op == TN_N_CONST && tn_dtype_is_float(i->vt.dtype) && i->imm.f == want;
}

static tn_vt result_type(const tn_nest *n, tn_scalar_op op, tn_nv a) {
  tn_vt vt = tn_n_type(n, a);
  if (tn_scalar_is_bool(op)) vt.dtype = TN_BOOL;
  return vt;
}

/* Makes two operands equally wide. */
static bool widen(tn_nest *n, tn_nv *a, tn_nv *b) {
  if (!*a || !*b) return false;
  uint8_t la = tn_n_type(n, *a).lanes, lb = tn_n_type(n, *b).lanes;
  if (la == lb) return true;
  if (la == 1) *a = tn_n_splat(n, *a, lb);
  if (lb == 1) *b = tn_n_splat(n, *b, la);
  return *a && *b;
}

static bool commutes(tn_scalar_op op) {
  switch (op) {
    case TN_S_ADD: case TN_S_MUL: case TN_S_AND: case TN_S_OR: case TN_S_XOR: case TN_S_EQ: case TN_S_NE: return true;
    case TN_S_MAX: case TN_S_MIN: return false; /* NaN payloads and signed zeros: keep the order */
    default: return false;
  }
}

static bool foldable(const tn_nest *n, tn_scalar_op op, tn_nv a) {
  tn_dtype t = tn_n_type(n, a).dtype;
  return n->inst[a].op == TN_N_CONST && tn_scalar_accepts(op, t) && (!tn_dtype_is_float(t) || t == TN_F32 || t == TN_F64) &&
         (!tn_dtype_is_float(t) || tn_n_is_basic(op));
}

tn_nv tn_n_op1(tn_nest *n, tn_scalar_op op, tn_nv a) {
  if (!a) return poison(n);
  tn_vt vt = result_type(n, op, a);
  if (foldable(n, op, a)) return tn_n_const(n, vt, tn_scalar_eval(op, tn_n_type(n, a).dtype, &n->inst[a].imm));
  return tn_n_add(n, (tn_ninst){.op = TN_N_SCALAR, .sop = (uint8_t)op, .vt = vt, .a = a});
}

static tn_nv int_const(tn_nest *n, tn_vt vt, int64_t v) { return tn_n_const(n, vt, tn_num_cast((tn_num){.i = v}, TN_I64, vt.dtype)); }

/* k with c == 1 << k, or -1. */
static int log2_exact(int64_t c) {
  if (c <= 0 || (c & (c - 1))) return -1;
  int k = 0;
  while (c >> k != 1) k++;
  return k;
}

/* x op x on integers and bools; 0 = no rule. */
static tn_nv fold_same(tn_nest *n, tn_scalar_op op, tn_nv a) {
  tn_vt vt = tn_n_type(n, a), bt = {TN_BOOL, vt.lanes};
  switch (op) {
    case TN_S_SUB: case TN_S_XOR: return int_const(n, vt, 0);
    case TN_S_AND: case TN_S_OR: case TN_S_MAX: case TN_S_MIN: return a;
    case TN_S_EQ: case TN_S_LE: case TN_S_GE: return int_const(n, bt, 1);
    case TN_S_NE: case TN_S_LT: case TN_S_GT: return int_const(n, bt, 0);
    default: return 0;
  }
}

/* x op c on integers and bools, c a constant; 0 = no rule. */
static tn_nv fold_right(tn_nest *n, tn_scalar_op op, tn_nv a, int64_t c) {
  tn_vt vt = tn_n_type(n, a);
  bool is_bool = vt.dtype == TN_BOOL;
  const tn_ninst *i = &n->inst[a];
  int64_t inner;
  int k = log2_exact(c);
  switch (op) {
    case TN_S_ADD: case TN_S_MUL:
      if (c == (op == TN_S_MUL)) return a;
      if (op == TN_S_MUL && c == 0) return int_const(n, vt, 0);
      if (i->op == TN_N_SCALAR && i->sop == op && tn_n_is_const(n, i->b, &inner)) { /* wraps, so it reassociates */
        tn_num arg[2] = {{.i = inner}, {.i = c}};
        return tn_n_op2(n, op, i->a, tn_n_const(n, vt, tn_scalar_eval(op, vt.dtype, arg)));
      }
      return 0;
    case TN_S_SUB: return c == 0 ? a : vt.dtype == TN_I64 && c != INT64_MIN ? tn_n_op2(n, TN_S_ADD, a, int_const(n, vt, -c)) : 0;
    case TN_S_FLOORDIV: return c == 1 ? a : k > 0 ? tn_n_op2(n, TN_S_SHR, a, int_const(n, vt, k)) : 0;
    case TN_S_TRUNCDIV: return c == 1 ? a : 0;
    case TN_S_REMAINDER: return c == 1 ? int_const(n, vt, 0) : k > 0 ? tn_n_op2(n, TN_S_AND, a, int_const(n, vt, c - 1)) : 0;
    case TN_S_FMOD: return c == 1 ? int_const(n, vt, 0) : 0;
    case TN_S_SHL: case TN_S_SHR: return c == 0 ? a : 0;
    case TN_S_AND: return c == 0 ? int_const(n, vt, 0) : (is_bool && c == 1) || (!is_bool && c == -1) ? a : 0;
    case TN_S_OR: return c == 0 ? a : is_bool && c == 1 ? int_const(n, vt, 1) : 0;
    case TN_S_XOR: return c == 0 ? a : 0;
    default: return 0;
  }
}

/* Float rules that hold for every bit pattern (up to the payload of a NaN). */
static tn_nv fold_float(const tn_nest *n, tn_scalar_op op, tn_nv a, tn_nv b) {
  if (op == TN_S_MUL && is_float_const(n, b, 1)) return a;
  if (op == TN_S_MUL && is_float_const(n, a, 1)) return b;
  if (op == TN_S_DIV && is_float_const(n, b, 1)) return a;
  if (op == TN_S_SUB && is_float_const(n, b, 0) && (uint64_t)n->inst[b].imm.i == 0) return a;
  return 0;
}

tn_nv tn_n_op2(tn_nest *n, tn_scalar_op op, tn_nv a, tn_nv b) {
  if (!widen(n, &a, &b)) return poison(n);
  tn_dtype t = tn_n_type(n, a).dtype;
  if (tn_n_type(n, b).dtype == t) {
    if (foldable(n, op, a) && foldable(n, op, b)) {
      tn_num arg[2] = {n->inst[a].imm, n->inst[b].imm};
      return tn_n_const(n, result_type(n, op, a), tn_scalar_eval(op, t, arg));
    }
    tn_nv v = 0;
    int64_t c;
    if (commutes(op) && n->inst[a].op == TN_N_CONST) { tn_nv s = a; a = b; b = s; }
    if (tn_dtype_is_float(t)) v = fold_float(n, op, a, b);
    else if (tn_n_is_const(n, b, &c)) v = fold_right(n, op, a, c);
    else if (a == b) v = fold_same(n, op, a);
    if (v || n->oom) return v;
    if (commutes(op) && n->inst[b].op != TN_N_CONST && b < a) { tn_nv s = a; a = b; b = s; }
  }
  return tn_n_add(n, (tn_ninst){.op = TN_N_SCALAR, .sop = (uint8_t)op, .vt = result_type(n, op, a), .a = a, .b = b});
}

tn_nv tn_n_select(tn_nest *n, tn_nv cond, tn_nv a, tn_nv b) {
  if (!cond || !widen(n, &a, &b)) return poison(n);
  uint8_t lanes = tn_n_type(n, a).lanes, lc = tn_n_type(n, cond).lanes;
  if (lc == 1 && lanes > 1) cond = tn_n_splat(n, cond, lanes);
  if (lanes == 1 && lc > 1) {
    a = tn_n_splat(n, a, lc);
    b = tn_n_splat(n, b, lc);
  }
  int64_t c;
  if (!cond || !a || !b) return poison(n);
  if (tn_n_is_const(n, cond, &c)) return c ? a : b;
  if (a == b) return a;
  return tn_n_add(n, (tn_ninst){.op = TN_N_SCALAR, .sop = TN_S_SELECT, .vt = tn_n_type(n, a), .a = cond, .b = a, .c = b});
}

tn_nv tn_n_fma(tn_nest *n, tn_nv a, tn_nv b, tn_nv c) {
  if (!widen(n, &a, &b) || !widen(n, &a, &c) || !widen(n, &a, &b)) return poison(n);
  return tn_n_add(n, (tn_ninst){.op = TN_N_FMA, .vt = tn_n_type(n, a), .a = a, .b = b, .c = c});
}

tn_nv tn_n_cast(tn_nest *n, tn_nv a, tn_dtype t) {
  if (!a) return poison(n);
  tn_vt from = tn_n_type(n, a), to = {(uint8_t)t, from.lanes};
  if (from.dtype == t) return a;
  if (n->inst[a].op == TN_N_CONST) return tn_n_const(n, to, tn_num_cast(n->inst[a].imm, from.dtype, t));
  return tn_n_add(n, (tn_ninst){.op = TN_N_CAST, .vt = to, .a = a});
}

tn_nv tn_n_splat(tn_nest *n, tn_nv a, int lanes) {
  if (!a) return poison(n);
  tn_vt vt = {tn_n_type(n, a).dtype, (uint8_t)lanes};
  if (tn_n_type(n, a).lanes == lanes) return a;
  if (n->inst[a].op == TN_N_CONST) return tn_n_const(n, vt, n->inst[a].imm);
  return tn_n_add(n, (tn_ninst){.op = TN_N_SPLAT, .vt = vt, .a = a});
}

tn_nv tn_n_lanes(tn_nest *n, tn_vt vt) { return tn_n_add(n, (tn_ninst){.op = TN_N_LANES, .vt = vt}); }

tn_nv tn_n_mask(tn_nest *n, int lanes, tn_nv count) {
  if (!count) return poison(n);
  return tn_n_add(n, (tn_ninst){.op = TN_N_MASK, .vt = {TN_BOOL, (uint8_t)lanes}, .a = count});
}

tn_nv tn_n_hreduce(tn_nest *n, tn_combiner c, tn_nv a) {
  if (!a) return poison(n);
  tn_vt vt = tn_n_type(n, a);
  if (vt.lanes == 1) return a;
  return tn_n_add(n, (tn_ninst){.op = TN_N_HREDUCE, .vt = {vt.dtype, 1}, .a = a, .imm = {.i = c}});
}

/* ---- memory, registers, regions ---- */

tn_nv tn_n_load(tn_nest *n, int base, tn_vt vt, tn_nv index, tn_nv mask) {
  if (!index) return poison(n);
  return tn_n_add(n, (tn_ninst){.op = TN_N_LOAD, .vt = vt, .base = (int16_t)base, .a = index, .c = mask});
}

tn_nv tn_n_load_guarded(tn_nest *n, int base, tn_vt vt, tn_nv index, tn_nv mask, tn_nv ok) {
  int64_t c;
  if (!index || !ok) return poison(n);
  if (tn_n_is_const(n, ok, &c)) return c ? tn_n_load(n, base, vt, index, mask) : tn_n_const(n, vt, (tn_num){.i = 0});
  tn_nv zero = tn_n_i64(n, 0);
  if (!zero) return 0;
  return tn_n_add(n, (tn_ninst){.op = TN_N_LOAD, .vt = vt, .flags = TN_NF_GUARD, .base = (int16_t)base, .a = index, .b = zero, .c = mask, .d = ok});
}

void tn_n_store(tn_nest *n, int base, tn_nv index, tn_nv value, tn_nv mask) {
  if (!index || !value) {
    poison(n);
    return;
  }
  tn_n_add(n, (tn_ninst){.op = TN_N_STORE, .vt = tn_n_type(n, value), .base = (int16_t)base, .a = index, .b = value, .c = mask});
}

tn_nv tn_n_for(tn_nest *n, tn_nv lo, tn_nv hi, tn_nv step) {
  if (!lo || !hi || !step) return poison(n);
  return tn_n_add(n, (tn_ninst){.op = TN_N_FOR, .vt = {TN_I64, 1}, .a = lo, .b = hi, .c = step});
}

void tn_n_if(tn_nest *n, tn_nv cond) {
  if (cond) tn_n_add(n, (tn_ninst){.op = TN_N_IF, .a = cond});
  else poison(n);
}

void tn_n_end(tn_nest *n) { tn_n_add(n, (tn_ninst){.op = TN_N_END}); }

tn_nv tn_n_var(tn_nest *n, tn_nv init) {
  if (!init) return poison(n);
  return tn_n_add(n, (tn_ninst){.op = TN_N_VAR, .vt = tn_n_type(n, init), .a = init});
}

tn_nv tn_n_get(tn_nest *n, tn_nv var) {
  if (!var) return poison(n);
  return tn_n_add(n, (tn_ninst){.op = TN_N_GET, .vt = tn_n_type(n, var), .a = var});
}

void tn_n_set(tn_nest *n, tn_nv var, tn_nv v) {
  if (var && v) tn_n_add(n, (tn_ninst){.op = TN_N_SET, .vt = tn_n_type(n, var), .a = var, .b = v});
  else poison(n);
}

int tn_n_scratch(tn_nest *n, const char *name, tn_dtype t, int64_t elems, int32_t size_slot) {
  if (n->oom) return -1;
  /* scratch arrays are few: a new copy per slot keeps tn_nest free of another capacity field */
  tn_nscratch *s = n->n_scratch < 32000 && elems >= 0 ? tn_arena_grow(n->arena, n->scratch, sizeof *s * n->n_scratch, sizeof *s * (n->n_scratch + 1)) : NULL;
  char *copy = s ? tn_arena_strdup(n->arena, name) : NULL;
  if (!copy) {
    n->oom = true;
    return -1;
  }
  n->scratch = s;
  s[n->n_scratch] = (tn_nscratch){copy, (uint8_t)t, elems, size_slot};
  return -1 - (int)n->n_scratch++;
}

int64_t tn_nest_scratch_bytes(const tn_nest *n, const int64_t *size) {
  int64_t total = 0;
  for (uint32_t k = 0; k < n->n_scratch; k++) {
    const tn_nscratch *s = &n->scratch[k];
    int64_t bytes = s->elems;
    if (s->size_slot >= 0 && __builtin_mul_overflow(bytes, size[s->size_slot], &bytes)) return -1;
    if (bytes < 0 || __builtin_mul_overflow(bytes, (int64_t)tn_dtype_size(s->dtype), &bytes) || __builtin_add_overflow(bytes, 63, &bytes) ||
        __builtin_add_overflow(total, bytes & ~(int64_t)63, &total))
      return -1;
  }
  return total;
}

/* Emitter against interpreter: random nests (every instruction, type and lane count; nested regions, masks, strides, padding) are
 * run by the interpreter and, compiled for AVX2 and AVX-512, by the machine. Outputs must agree bit for bit; any NaN equals any
 * NaN. The generator keeps away from what is not specified: which zero max and min yield, and the bits of a NaN.
 *
 * TN_NESTS_SEED=n runs one nest and prints it; TN_NESTS_COUNT=n changes how many run. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/kernel_abi.h"
#include "codegen/codegen.h"
#include "device/cpu/cpuid.h"
#include "device/device.h"

enum { N_IN = 13, N_OUT = 13, ELEMS = 4096, HALF = ELEMS / 2, MAX_VALUES = 4000, N_SIZES = 3 };

typedef struct gen {
  tn_nest *n;
  uint64_t rng;
  tn_nv pool[MAX_VALUES]; /* visible values */
  int n_pool;
  tn_nv var[64];
  int n_var, depth, budget, n_shown;
  int out_base[N_OUT + 1];
} gen;

static const tn_dtype types[] = {TN_F32, TN_F64, TN_F16, TN_BF16, TN_I64, TN_I32, TN_I16, TN_I8, TN_U8, TN_BOOL, TN_U16, TN_U32, TN_U64};

static uint32_t rnd(gen *g, uint32_t n) {
  g->rng ^= g->rng << 13;
  g->rng ^= g->rng >> 7;
  g->rng ^= g->rng << 17;
  return (uint32_t)(g->rng >> 20) % n;
}

/* Offers a value to later instructions, and shows it: each dtype has an output, each value a place of its own there. */
static void keep(gen *g, tn_nv v) {
  if (!v || g->n_pool >= MAX_VALUES) return;
  g->pool[g->n_pool++] = v;
  if (rnd(g, 4) == 0) return;
  tn_vt vt = tn_n_type(g->n, v);
  int k = 0;
  while (types[k] != (tn_dtype)vt.dtype) k++;
  tn_n_store(g->n, N_IN + k, tn_n_i64(g->n, g->n_shown++ % (ELEMS / 64) * 64), v, 0);
}

static tn_vt type_of(const gen *g, tn_nv v) { return tn_n_type(g->n, v); }

static tn_nv constant(gen *g, tn_vt vt) {
  static const double fs[] = {0, 1, -1, 0.5, 2, -3.25, 100, 1e-3, 70000, 3e9, -3e9, 1e20};
  static const int64_t is[] = {0, 1, -1, 2, 3, 7, -8, 100, 127, -128, 255, 32767, -32768, 65536, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN};
  tn_dtype t = (tn_dtype)vt.dtype;
  tn_num v = {0};
  if (tn_dtype_is_float(t)) v = tn_num_cast((tn_num){.f = fs[rnd(g, sizeof fs / sizeof *fs)]}, TN_F64, t);
  else v = tn_num_cast((tn_num){.i = is[rnd(g, sizeof is / sizeof *is)]}, TN_I64, t);
  return tn_n_const(g->n, vt, v);
}

/* A value of that type: one at hand, or made from one. */
static tn_nv value(gen *g, tn_vt vt) {
  for (int tries = 0; tries < 12 && g->n_pool; tries++) {
    tn_nv v = g->pool[rnd(g, (uint32_t)g->n_pool)];
    tn_vt have = type_of(g, v);
    if (have.lanes != vt.lanes && have.lanes != 1) continue;
    if (have.dtype != vt.dtype && tries < 6) continue;
    return tn_n_splat(g->n, tn_n_cast(g->n, v, (tn_dtype)vt.dtype), vt.lanes);
  }
  return constant(g, vt);
}

static tn_vt random_type(gen *g) {
  static const uint8_t lanes[] = {1, 1, 2, 4, 8, 8, 16, 16, 32, 64};
  return (tn_vt){(uint8_t)types[rnd(g, N_IN)], lanes[rnd(g, 10)]};
}

/* x + 0 makes -0 into 0 */
static tn_nv plus_zero(gen *g, tn_nv v) {
  tn_vt vt = type_of(g, v);
  return tn_dtype_is_float(vt.dtype) && vt.dtype != TN_F16 && vt.dtype != TN_BF16 ? tn_n_op2(g->n, TN_S_ADD, v, tn_n_f(g->n, (tn_dtype)vt.dtype, vt.lanes, 0)) : v;
}

/* An element index such that `span` elements on either side are inside an operand. */
static tn_nv index_value(gen *g) {
  tn_nv v = value(g, (tn_vt){TN_I64, 1});
  v = tn_n_op2(g->n, TN_S_AND, v, tn_n_i64(g->n, 1023));
  return tn_n_op2(g->n, TN_S_ADD, v, tn_n_i64(g->n, HALF - 512));
}

static tn_nv index_lanes(gen *g, uint8_t lanes) {
  tn_nv v = value(g, (tn_vt){TN_I64, lanes});
  v = tn_n_op2(g->n, TN_S_AND, v, tn_n_const(g->n, (tn_vt){TN_I64, lanes}, (tn_num){.i = 2047}));
  return tn_n_op2(g->n, TN_S_ADD, v, tn_n_const(g->n, (tn_vt){TN_I64, lanes}, (tn_num){.i = HALF - 1024}));
}

static tn_nv stride(gen *g) {
  static const int64_t s[] = {0, 1, 2, 3, 4, -1, 5, 7, -2};
  if (rnd(g, 4) == 0) return tn_n_op2(g->n, TN_S_AND, value(g, (tn_vt){TN_I64, 1}), tn_n_i64(g->n, 7));
  return tn_n_i64(g->n, s[rnd(g, 9)]);
}

static tn_nv maybe_mask(gen *g, uint8_t lanes) {
  if (rnd(g, 3)) return 0;
  if (rnd(g, 2)) return value(g, (tn_vt){TN_BOOL, lanes});
  tn_nv count = tn_n_op2(g->n, TN_S_SUB, tn_n_op2(g->n, TN_S_AND, value(g, (tn_vt){TN_I64, 1}), tn_n_i64(g->n, 127)), tn_n_i64(g->n, 20));
  return tn_n_mask(g->n, lanes, count);
}

static void make_load(gen *g) {
  tn_vt vt = random_type(g);
  int base = 0;
  while (types[base] != (tn_dtype)vt.dtype) base++;
  tn_ninst i = {.op = TN_N_LOAD, .vt = vt, .base = (int16_t)base};
  uint32_t kind = rnd(g, 5);
  if (kind == 0) {
    i.op = TN_N_GATHER;
    i.a = index_lanes(g, vt.lanes);
  } else {
    i.a = index_value(g);
    if (kind == 1) {
      i.op = TN_N_LOAD_STRIDED;
      i.b = stride(g);
    } else if (kind == 2) {
      i.flags = TN_NF_GUARD;
      i.b = tn_n_i64(g->n, rnd(g, 100));
      i.d = value(g, (tn_vt){TN_BOOL, 1});
    } else if (kind == 3 && rnd(g, 4) == 0) {
      i.base = TN_BASE_ZEROS;
    }
  }
  i.c = maybe_mask(g, vt.lanes);
  keep(g, tn_n_add(g->n, i));
}

static void make_store(gen *g) {
  int k = (int)rnd(g, N_OUT + 1), base = g->out_base[k];
  tn_dtype t = (tn_dtype)(base >= 0 ? g->n->param[base].dtype : g->n->scratch[-1 - base].dtype);
  tn_vt vt = random_type(g);
  vt.dtype = (uint8_t)t;
  tn_nv v = value(g, vt);
  tn_ninst i = {.op = TN_N_STORE, .vt = vt, .base = (int16_t)base, .b = v};
  uint32_t kind = rnd(g, 4);
  if (kind == 0) {
    i.op = TN_N_SCATTER; /* distinct lanes: the order of equal ones is not specified */
    tn_nv lanes = tn_n_lanes(g->n, (tn_vt){TN_I64, vt.lanes});
    i.a = tn_n_op2(g->n, TN_S_ADD, tn_n_splat(g->n, index_value(g), vt.lanes), tn_n_op2(g->n, TN_S_MUL, lanes, constant(g, (tn_vt){TN_I64, vt.lanes})));
    i.a = tn_n_op2(g->n, TN_S_AND, i.a, tn_n_const(g->n, (tn_vt){TN_I64, vt.lanes}, (tn_num){.i = ELEMS / 64 - 1}));
    i.a = tn_n_op2(g->n, TN_S_ADD, tn_n_op2(g->n, TN_S_MUL, i.a, tn_n_const(g->n, (tn_vt){TN_I64, vt.lanes}, (tn_num){.i = 64})), lanes);
  } else {
    i.a = index_value(g);
    if (kind == 1) {
      int64_t c;
      i.op = TN_N_STORE_STRIDED;
      i.b = stride(g);
      if (!tn_n_is_const(g->n, i.b, &c) || c == 0) i.b = tn_n_i64(g->n, 3);
      i.d = v;
    }
  }
  i.c = maybe_mask(g, vt.lanes);
  tn_n_add(g->n, i);
}

static void make_scalar(gen *g) {
  tn_scalar_op op = (tn_scalar_op)rnd(g, TN_N_SCALARS);
  tn_vt vt = random_type(g);
  if (op != TN_S_SELECT && !tn_scalar_accepts(op, (tn_dtype)vt.dtype)) return;
  if (op == TN_S_SELECT) {
    keep(g, tn_n_select(g->n, value(g, (tn_vt){TN_BOOL, vt.lanes}), value(g, vt), value(g, vt)));
    return;
  }
  if (!tn_n_is_basic(op)) g->budget -= 8;
  tn_nv v = tn_n_scalar(g->n, op, value(g, vt), value(g, vt), 0);
  bool extreme = op == TN_S_MAX || op == TN_S_MIN || op == TN_S_FMAX || op == TN_S_FMIN;
  keep(g, extreme && (vt.dtype == TN_F16 || vt.dtype == TN_BF16) ? 0 : extreme ? plus_zero(g, v) : v);
}

static tn_nv no_nan(gen *g, tn_nv v) {
  return tn_n_select(g->n, tn_n_op2(g->n, TN_S_EQ, v, v), v, tn_n_f(g->n, (tn_dtype)type_of(g, v).dtype, type_of(g, v).lanes, 1));
}

static void make_other(gen *g) {
  tn_vt vt = random_type(g);
  tn_nest *n = g->n;
  switch (rnd(g, 8)) {
    case 0: {
      vt.dtype = rnd(g, 2) ? TN_F32 : TN_F64;
      keep(g, tn_n_fma(n, value(g, vt), value(g, vt), value(g, vt)));
      break;
    }
    case 1: keep(g, tn_n_cast(n, value(g, vt), types[rnd(g, 10)])); break;
    case 2: {
      static const tn_dtype from[4] = {TN_F32, TN_I32, TN_F64, TN_I64}, to[4] = {TN_I32, TN_F32, TN_I64, TN_F64};
      uint32_t k = rnd(g, 4);
      vt.dtype = (uint8_t)from[k];
      tn_nv v = value(g, vt);
      if (tn_dtype_is_float(vt.dtype)) v = no_nan(g, v);
      v = tn_n_add(n, (tn_ninst){.op = TN_N_BITCAST, .vt = {(uint8_t)to[k], vt.lanes}, .a = v});
      keep(g, tn_dtype_is_float(to[k]) ? no_nan(g, v) : v);
      break;
    }
    case 3:
      if (tn_dtype_is_int(vt.dtype)) keep(g, tn_n_lanes(n, vt));
      break;
    case 4: {
      if (vt.dtype == TN_F16 || vt.dtype == TN_BF16) break;
      tn_combiner c = vt.dtype == TN_BOOL ? (rnd(g, 2) ? TN_C_ANY : TN_C_ALL) : (tn_combiner)rnd(g, 4);
      keep(g, plus_zero(g, tn_n_hreduce(n, c, plus_zero(g, value(g, vt)))));
      break;
    }
    case 5: keep(g, tn_n_add(n, (tn_ninst){.op = TN_N_EXTRACT, .vt = {vt.dtype, 1}, .a = value(g, vt), .imm.i = rnd(g, vt.lanes)})); break;
    case 6: keep(g, constant(g, vt)); break;
    default: tn_n_add(n, (tn_ninst){.op = TN_N_PREFETCH, .base = (int16_t)rnd(g, N_IN), .a = index_value(g)}); break;
  }
}

static void make_block(gen *g);

static void make_var(gen *g) {
  if (g->n_var == 0 || (rnd(g, 3) == 0 && g->n_var < 60)) g->var[g->n_var++] = tn_n_var(g->n, value(g, random_type(g)));
  tn_nv v = g->var[rnd(g, (uint32_t)g->n_var)];
  if (rnd(g, 2)) tn_n_set(g->n, v, value(g, type_of(g, v)));
  else keep(g, tn_n_get(g->n, v));
}

static void make_region(gen *g) {
  if (g->depth > 3) return;
  int n_pool = g->n_pool, n_var = g->n_var;
  if (rnd(g, 3)) {
    static const int64_t trips[] = {0, 1, 2, 3, 5};
    tn_nv lo = tn_n_i64(g->n, rnd(g, 4)), trip = tn_n_i64(g->n, trips[rnd(g, 5)]), step = tn_n_i64(g->n, 1 + rnd(g, 3));
    if (rnd(g, 3) == 0) trip = tn_n_op2(g->n, TN_S_AND, value(g, (tn_vt){TN_I64, 1}), tn_n_i64(g->n, 3));
    tn_nv iv = tn_n_for(g->n, lo, tn_n_op2(g->n, TN_S_ADD, lo, trip), step);
    if (iv && rnd(g, 6) == 0) {
      g->n->inst[iv].flags = TN_NF_UNROLL;
      g->n->inst[iv].imm.i = 2;
    }
    keep(g, iv);
  } else {
    tn_n_if(g->n, value(g, (tn_vt){TN_BOOL, 1}));
  }
  g->depth++;
  make_block(g);
  g->depth--;
  tn_n_end(g->n);
  g->n_pool = n_pool;
  g->n_var = n_var;
}

static void make_block(gen *g) {
  for (int k = 2 + (int)rnd(g, 8); k > 0 && g->budget > 0 && !g->n->oom; k--) {
    g->budget--;
    switch (rnd(g, 10)) {
      case 0: case 1: make_load(g); break;
      case 2: make_store(g); break;
      case 3: case 4: case 5: make_scalar(g); break;
      case 6: make_var(g); break;
      case 7: make_region(g); break;
      default: make_other(g); break;
    }
  }
}

static tn_nest *generate(tn_arena *a, uint64_t seed) {
  static const char *const in_names[N_IN] = {"f32", "f64", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "bool", "u16", "u32", "u64"};
  gen *g = calloc(1, sizeof *g);
  assert_non_null(g);
  g->rng = seed * 0x9e3779b97f4a7c15u + 1;
  for (int k = 0; k < 5; k++) rnd(g, 2);
  assert_int_equal(tn_nest_create(a, "k", &g->n), TN_OK);
  tn_nest *n = g->n;
  n->param = TN_NEW(a, tn_nparam, N_IN + N_OUT);
  n->n_param = N_IN + N_OUT;
  n->n_size = N_SIZES;
  for (int k = 0; k < N_IN; k++) n->param[k] = (tn_nparam){in_names[k], (uint8_t)types[k], false};
  for (int k = 0; k < N_OUT; k++) {
    n->param[N_IN + k] = (tn_nparam){"out", (uint8_t)types[k], true};
    g->out_base[k] = N_IN + k;
  }
  tn_n_scratch(n, "pad", TN_F32, 5, 0);
  g->out_base[N_OUT] = tn_n_scratch(n, "work", types[rnd(g, N_IN)], ELEMS, -1);
  g->budget = 20 + (int)rnd(g, 60);
  tn_vt i64 = {TN_I64, 1};
  for (int k = 0; k < N_SIZES; k++) keep(g, tn_n_add(n, (tn_ninst){.op = TN_N_SIZE, .vt = i64, .imm.i = k}));
  tn_nv lo = tn_n_add(n, (tn_ninst){.op = TN_N_BLOCK_LO, .vt = i64}), hi = tn_n_add(n, (tn_ninst){.op = TN_N_BLOCK_HI, .vt = i64});
  keep(g, tn_n_for(n, lo, hi, tn_n_i64(n, 1)));
  while (g->budget > 0 && !n->oom) make_block(g);
  tn_n_end(n);
  if (rnd(g, 4) == 0) tn_n_add(n, (tn_ninst){.op = TN_N_INDEX_ERROR, .a = tn_n_op2(n, TN_S_GT, hi, tn_n_i64(n, rnd(g, 6)))});
  free(g);
  assert_false(n->oom);
  return n;
}

/* ---- running ---- */

typedef struct memory {
  void *ptr[N_IN + N_OUT];
  int64_t size[N_SIZES];
  int32_t status;
  void *scratch;
  int64_t scratch_bytes;
} memory;

static void fill(const tn_nest *n, memory *m, uint64_t seed) {
  gen g = {.rng = seed + 77};
  for (int k = 0; k < N_IN + N_OUT; k++) {
    tn_dtype t = (tn_dtype)n->param[k].dtype;
    m->ptr[k] = malloc(ELEMS * tn_dtype_size(t));
    assert_non_null(m->ptr[k]);
    for (int j = 0; j < ELEMS; j++) {
      uint64_t raw = ((uint64_t)rnd(&g, 1u << 31) << 33) ^ rnd(&g, 1u << 31);
      double small = (double)((int64_t)rnd(&g, 2001) - 1000) / 16;
      tn_num v = tn_dtype_is_float(t) ? tn_num_cast((tn_num){.f = rnd(&g, 30) ? small : rnd(&g, 2) ? NAN : INFINITY}, TN_F64, t)
                                      : tn_num_cast((tn_num){.i = rnd(&g, 3) == 0 ? (int64_t)raw : (int64_t)rnd(&g, 21) - 10}, TN_I64, t);
      if (t == TN_BOOL) v.i = rnd(&g, 2);
      tn_num_store(t, (char *)m->ptr[k] + (size_t)j * tn_dtype_size(t), v);
    }
  }
  for (int k = 0; k < N_SIZES; k++) m->size[k] = (int64_t)rnd(&g, 40) + k;
  m->scratch_bytes = tn_nest_scratch_bytes(n, m->size);
  assert_true(m->scratch_bytes >= 0);
  m->scratch = aligned_alloc(64, (size_t)m->scratch_bytes + 64);
  assert_non_null(m->scratch);
  memset(m->scratch, 0, (size_t)m->scratch_bytes);
}

static void drop(memory *m) {
  for (int k = 0; k < N_IN + N_OUT; k++) free(m->ptr[k]);
  free(m->scratch);
}

static bool equal(tn_dtype t, const void *a, const void *b) {
  tn_num x = tn_num_load(t, a), y = tn_num_load(t, b);
  if (tn_dtype_is_float(t)) return (isnan(x.f) && isnan(y.f)) || (x.f == y.f && !signbit(x.f) == !signbit(y.f));
  return x.i == y.i;
}

static bool same_outputs(const tn_nest *n, const memory *a, const memory *b, char *what, size_t what_n) {
  for (uint32_t k = N_IN; k < n->n_param; k++) {
    tn_dtype t = (tn_dtype)n->param[k].dtype;
    for (size_t j = 0; j < ELEMS; j++) {
      const char *x = (const char *)a->ptr[k] + j * tn_dtype_size(t), *y = (const char *)b->ptr[k] + j * tn_dtype_size(t);
      if (equal(t, x, y)) continue;
      tn_num u = tn_num_load(t, x), v = tn_num_load(t, y);
      bool f = tn_dtype_is_float(t);
      snprintf(what, what_n, "output %u (%s) element %zu: interpreter %.17g, machine %.17g", k - N_IN, tn_dtype_name(t), j, f ? u.f : (double)u.i, f ? v.f : (double)v.i);
      return false;
    }
  }
  if (a->status == b->status) return true;
  snprintf(what, what_n, "status %d, machine %d", a->status, b->status);
  return false;
}

static void run_nest(const tn_nest *n, tn_kernel_fn fn, memory *m) {
  tn_kernel_args args = {.ptr = m->ptr, .size = m->size, .zeros = tn_device_zeros(), .status = &m->status};
  tn_diag d;
  tn_diag_clear(&d);
  if (fn) fn(&args, 1, 4, m->scratch);
  else if (tn_nest_interpret(&d, n, &args, 1, 4, m->scratch) != TN_OK) fail_msg("%s", d.text);
}

static void one_seed(const tn_device_api *cpu, tn_device *dev, const tn_target *here, uint64_t seed, bool show) {
  tn_arena a;
  tn_arena_init(&a);
  tn_nest *n = generate(&a, seed);
  tn_str text, ir;
  tn_str_init(&text);
  tn_str_init(&ir);
  tn_nest_print(n, &text);
  if (show) fputs(text.s, stdout);
  memory want = {0};
  fill(n, &want, seed);
  run_nest(n, NULL, &want);
  static const tn_level levels[] = {TN_LEVEL_V3, TN_LEVEL_V4};
  for (int l = 0; l < 2; l++) {
    if (!tn_target_runs(here, levels[l])) continue;
    tn_target t;
    tn_target_init(&t, levels[l]);
    tn_diag d;
    tn_diag_clear(&d);
    void *bytes;
    size_t size;
    if (tn_codegen_object(&d, n, &t, &bytes, &size, show ? &ir : NULL) != TN_OK) fail_msg("seed %llu: %s", (unsigned long long)seed, d.text);
    if (show) fputs(ir.s, stdout);
    tn_code *code;
    char why[256];
    if (cpu->load(dev, bytes, size, "k", &code, why, sizeof why) != TN_OK) fail_msg("seed %llu: %s", (unsigned long long)seed, why);
    memory got = {0};
    fill(n, &got, seed);
    run_nest(n, (tn_kernel_fn)(uintptr_t)cpu->entry(code), &got);
    char what[200];
    if (!same_outputs(n, &want, &got, what, sizeof what)) fail_msg("TN_NESTS_SEED=%llu, %s: %s", (unsigned long long)seed, tn_target_level_name(levels[l]), what);
    drop(&got);
    cpu->unload(dev, code);
    tn_free(bytes);
  }
  drop(&want);
  tn_str_deinit(&text);
  tn_str_deinit(&ir);
  tn_arena_deinit(&a);
}

static void test_random_nests(void **state) {
  (void)state;
  const tn_device_api *cpu = tn_device_find("cpu");
  tn_device *dev;
  char why[256];
  tn_target here;
  assert_non_null(cpu);
  assert_int_equal(cpu->open(&dev, why, sizeof why), TN_OK);
  assert_int_equal(tn_cpu_detect(&here), TN_OK);
  const char *one = getenv("TN_NESTS_SEED"), *many = getenv("TN_NESTS_COUNT"), *first = getenv("TN_NESTS_FIRST");
  long from = first ? atol(first) : 1, count = many ? atol(many) : 100;
  if (one) one_seed(cpu, dev, &here, (uint64_t)atoll(one), true);
  else for (long s = from; s < from + count; s++) one_seed(cpu, dev, &here, (uint64_t)s, false);
  cpu->close(dev);
}

/* ---- every basic function, cast and reduction on every pair of edge values ---- */

enum { N_EDGE = 40, N_PAIRS = N_EDGE * N_EDGE };

static tn_num edge(tn_dtype t, int k) {
  static const double fs[N_EDGE] = {0, 1, -1, 0.5, 1.5, 2.5, -2.5, -0.5, 127, 128, -128, -129, 255, 256, 32767, 32768, -32769, 65504, 65520, 2147483520.0, 2147483648.0,
                                    -2147483648.0, -2147483904.0, 9.2233715e18, 9.2233720368547758e18, -9.2233720368547758e18, 1e30, -1e30, NAN, INFINITY, -INFINITY, 1e-39,
                                    65535, 65536, 4294967040.0, 4294967295.0, 4294967296.0, 18446742974197923840.0, 18446744073709549568.0, 18446744073709551616.0};
  static const int64_t is[N_EDGE] = {0, 1, -1, 2, -2, 3, 7, 8, -8, 15, 16, 31, 32, 63, 64, 65, 127, 128, -128, 255, 256, 32767, -32768, 65535, INT32_MAX, INT32_MIN, INT64_MAX,
                                     INT64_MIN, 1000003, -77, 5, 9, 4294967295, 2147483649, INT64_MIN + 1, 0x123456789abcdef, -3, 1000000007, -1000000007, 65521};
  if (tn_dtype_is_float(t)) return tn_num_cast((tn_num){.f = fs[k]}, TN_F64, t);
  return tn_num_cast((tn_num){.i = is[k]}, TN_I64, t);
}

typedef struct edges { tn_nest *n; tn_nv at, x, y; int slot[TN_OBJ]; } edges;

/* Stores v at the next slot of its dtype's output. */
static void show(edges *g, tn_nv v) {
  if (!v) return;
  int t = tn_n_type(g->n, v).dtype;
  tn_n_store(g->n, 2 + t, tn_n_op2(g->n, TN_S_ADD, g->at, tn_n_i64(g->n, (int64_t)N_PAIRS * g->slot[t]++)), v, 0);
}

enum { N_SLOTS = 128 };

static tn_nest *edge_nest(tn_arena *a, tn_dtype t, uint8_t lanes) {
  edges g = {0};
  assert_int_equal(tn_nest_create(a, "k", &g.n), TN_OK);
  tn_nest *n = g.n;
  n->n_param = 2 + TN_OBJ;
  n->param = TN_NEW(a, tn_nparam, n->n_param);
  for (uint32_t k = 0; k < n->n_param; k++) n->param[k] = (tn_nparam){"p", (uint8_t)(k < 2 ? t : (tn_dtype)(k - 2)), k >= 2};
  tn_vt vt = {(uint8_t)t, lanes};
  bool small = t == TN_F16 || t == TN_BF16;
  g.at = tn_n_for(n, tn_n_i64(n, 0), tn_n_i64(n, N_PAIRS), tn_n_i64(n, lanes));
  g.x = tn_n_load(n, 0, vt, g.at, 0);
  g.y = tn_n_load(n, 1, vt, g.at, 0);
  for (int o = 0; o < TN_N_SCALARS; o++) {
    tn_scalar_op op = (tn_scalar_op)o;
    if (op == TN_S_SELECT || !tn_scalar_accepts(op, t) || !tn_n_is_basic(op) || (op == TN_S_TRUNCDIV && tn_dtype_is_float(t))) continue;
    show(&g, tn_n_scalar(n, op, g.x, g.y, 0));
    if (tn_scalar_arity(op) == 2 && !small)
      for (int k = 0; k < 8; k++) show(&g, tn_n_scalar(n, op, g.x, tn_n_const(n, vt, edge(t, k)), 0)); /* constants take other ways */
  }
  for (int to = 0; to < TN_OBJ; to++) show(&g, tn_n_cast(n, g.x, (tn_dtype)to));
  tn_nv less = small ? tn_n_op2(n, TN_S_LT, tn_n_cast(n, g.x, TN_F32), tn_n_cast(n, g.y, TN_F32)) : tn_n_op2(n, TN_S_LT, g.x, g.y);
  show(&g, tn_n_select(n, less, g.x, g.y));
  show(&g, tn_n_splat(n, tn_n_hreduce(n, TN_C_ANY, less), lanes));
  show(&g, tn_n_splat(n, tn_n_hreduce(n, TN_C_ALL, less), lanes));
  if (!small && t != TN_BOOL)
    for (int c = TN_C_SUM; c <= TN_C_MIN; c++) show(&g, tn_n_splat(n, tn_n_hreduce(n, (tn_combiner)c, g.x), lanes));
  if (t == TN_F32 || t == TN_F64) show(&g, tn_n_fma(n, g.x, g.y, g.x));
  if (t == TN_I64) show(&g, tn_n_mask(n, lanes, tn_n_add(n, (tn_ninst){.op = TN_N_EXTRACT, .vt = {TN_I64, 1}, .a = g.x})));
  tn_n_end(n);
  assert_false(n->oom);
  for (int k = 0; k < TN_OBJ; k++) assert_true(g.slot[k] <= N_SLOTS);
  return n;
}

static void run_edges(const tn_nest *n, tn_dtype t, tn_kernel_fn fn, void **out) {
  size_t size = tn_dtype_size(t);
  void *ptr[2 + TN_OBJ];
  for (int k = 0; k < 2; k++) {
    ptr[k] = malloc(N_PAIRS * size);
    assert_non_null(ptr[k]);
    for (int j = 0; j < N_PAIRS; j++) tn_num_store(t, (char *)ptr[k] + (size_t)j * size, edge(t, k ? j % N_EDGE : (j / N_EDGE + j) % N_EDGE));
  }
  for (int k = 0; k < TN_OBJ; k++) {
    ptr[2 + k] = out[k] = calloc((size_t)N_PAIRS * N_SLOTS, tn_dtype_size((tn_dtype)k));
    assert_non_null(out[k]);
  }
  tn_kernel_args args = {.ptr = ptr, .zeros = tn_device_zeros()};
  tn_diag d;
  tn_diag_clear(&d);
  if (fn) fn(&args, 0, 1, NULL);
  else if (tn_nest_interpret(&d, n, &args, 0, 1, NULL) != TN_OK) fail_msg("%s", d.text);
  free(ptr[0]);
  free(ptr[1]);
}

static void test_edges(void **state) {
  (void)state;
  static const uint8_t widths[] = {1, 8, 32};
  const tn_device_api *cpu = tn_device_find("cpu");
  tn_device *dev;
  char why[256];
  tn_target here;
  assert_int_equal(cpu->open(&dev, why, sizeof why), TN_OK);
  assert_int_equal(tn_cpu_detect(&here), TN_OK);
  for (int t = 0; t < TN_OBJ; t++) {
    for (int w = 0; w < 3; w++) {
      tn_arena a;
      tn_arena_init(&a);
      tn_nest *n = edge_nest(&a, (tn_dtype)t, widths[w]);
      void *want[TN_OBJ], *got[TN_OBJ];
      run_edges(n, (tn_dtype)t, NULL, want);
      for (int l = TN_LEVEL_V3; l <= TN_LEVEL_V4; l++) {
        if (!tn_target_runs(&here, (tn_level)l)) continue;
        tn_target target;
        tn_target_init(&target, (tn_level)l);
        tn_diag d;
        tn_diag_clear(&d);
        void *bytes;
        size_t size;
        tn_code *code;
        if (tn_codegen_object(&d, n, &target, &bytes, &size, NULL) != TN_OK) fail_msg("%s", d.text);
        if (cpu->load(dev, bytes, size, "k", &code, why, sizeof why) != TN_OK) fail_msg("%s", why);
        run_edges(n, (tn_dtype)t, (tn_kernel_fn)(uintptr_t)cpu->entry(code), got);
        for (int k = 0; k < TN_OBJ; k++) {
          size_t bytes_each = tn_dtype_size((tn_dtype)k);
          for (size_t j = 0; j < (size_t)N_PAIRS * N_SLOTS; j++) {
            const char *x = (const char *)want[k] + j * bytes_each, *y = (const char *)got[k] + j * bytes_each;
            tn_num u = tn_num_load((tn_dtype)k, x), v = tn_num_load((tn_dtype)k, y);
            bool zeros = tn_dtype_is_float((tn_dtype)k) && u.f == 0 && v.f == 0; /* max and min may yield either */
            if (!zeros && !equal((tn_dtype)k, x, y))
              fail_msg("%s x%d, %s: %s result %zu of pair %zu: interpreter %g (%lld), machine %g (%lld)", tn_dtype_name((tn_dtype)t), widths[w], tn_target_level_name((tn_level)l),
                       tn_dtype_name((tn_dtype)k), j / N_PAIRS, j % N_PAIRS, u.f, (long long)u.i, v.f, (long long)v.i);
          }
          free(got[k]);
        }
        cpu->unload(dev, code);
        tn_free(bytes);
      }
      for (int k = 0; k < TN_OBJ; k++) free(want[k]);
      tn_arena_deinit(&a);
    }
  }
  cpu->close(dev);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_edges), cmocka_unit_test(test_random_nests)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

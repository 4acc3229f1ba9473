/* The table of fused bodies: every kind of body that passes.h allows, at sizes where vectors, tiles and blocks end badly, constant and
 * symbolic, in several memory layouts. Bodies are written with the builders of the decompositions; a failing case prints its graph as text.
 */
#include "generated.h"
#include "ops/aten_int.h"

/* ---- a body under construction ---- */
typedef struct world {
  tn_arena a;
  tn_dims *dims;
  tn_diag d;
  tn_decomp_ctx c;
  const char *filter;
  uint32_t part, parts, *n_cases;
  int failures;
} world;
typedef void (*body_fn)(world *w, const int64_t *p);
#define C (&w->c)
enum { S0 = -1, S1 = -2 }; /* symbols among sizes */

static tn_dim D(world *w, int64_t v) { return v >= 0 ? v : tn_dim_sym(w->dims, v == S0 ? "s0" : "s1"); }

static tn_ref input(world *w, tn_dtype t, tn_origin o, const int64_t *dim, uint32_t rank) {
  tn_dim d[TN_MAX_RANK];
  tn_ref r = {0};
  for (uint32_t i = 0; i < rank; i++) d[i] = D(w, dim[i]);
  if (w->c.st == TN_OK) w->c.st = tn_graph_add_input(w->c.g, NULL, tn_type_make(w->c.g, t, rank, d), o, &r);
  return r;
}
#define DIMS(...) (const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)
#define IN(t, ...) input(w, t, TN_ORIGIN_INPUT, DIMS(__VA_ARGS__))
#define WEIGHT(t, ...) input(w, t, TN_ORIGIN_PARAM, DIMS(__VA_ARGS__))
static void RET(world *w, tn_ref r) {
  if (w->c.st == TN_OK) w->c.st = r.id ? tn_graph_add_output(w->c.g, r) : TN_E_ARG;
}
static tn_ref o1(world *w, tn_op op, tn_ref a) { return tn_b_1(C, op, a); }
static tn_ref o2(world *w, tn_op op, tn_ref a, tn_ref b) { return tn_b_2(C, op, a, b); }
static tn_ref add(world *w, tn_ref a, tn_ref b) { return o2(w, TN_OP_ADD, a, b); }
static tn_ref mul(world *w, tn_ref a, tn_ref b) { return o2(w, TN_OP_MUL, a, b); }
static tn_ref relu(world *w, tn_ref a) { return o1(w, TN_OP_RELU, a); }
static tn_ref gelu(world *w, tn_ref a) {
  return mul(w, tn_b_muln(C, a, 0.5), tn_b_addn(C, o1(w, TN_OP_ERF, tn_b_muln(C, a, 0.70710678)), 1));
}
static tn_ref red(world *w, tn_combiner k, tn_ref a, int axis, bool keep) { return tn_b_reduce1(C, k, a, axis, keep); }
static tn_ref shape(world *w, tn_ref a, const int64_t *dim, uint32_t n) {
  tn_dim d[TN_MAX_RANK];
  for (uint32_t i = 0; i < n; i++) d[i] = D(w, dim[i]);
  return tn_b_reshape(C, a, d, (int)n);
}

/* ---- running ---- */
typedef struct options {
  gen_layout in, out;
  int64_t index_max;
  bool positive, special, outside;
  double loose;
} options;

static const int64_t one_symbol[] = {1, 7, 16, 33, 130, 0};
static const int64_t two_symbols[] = {1, 1, 7, 17, 33, 8, 40, 96};

static uint32_t mutations(void) {
  const char *s = getenv("TENON_TEST_MUTATIONS");
  return s ? (uint32_t)atoi(s) : 2;
}

static void run_with(world *w, const char *name, body_fn f, const int64_t *p, uint32_t n_p, options o) {
  char full[160];
  int at = snprintf(full, sizeof full, "%s", name);
  for (uint32_t i = 0; i < n_p && at < 120; i++)
    at += snprintf(full + at, sizeof full - (size_t)at, "%c%lld", i ? ',' : ' ', (long long)p[i]);
  if (o.in || o.out) snprintf(full + at, sizeof full - (size_t)at, " layout %d-%d", o.in, o.out);
  if (w->filter && !strstr(full, w->filter)) return;
  if ((*w->n_cases)++ % w->parts != w->part) return;
  tn_arena_init(&w->a);
  tn_diag_clear(&w->d);
  w->dims = tn_dims_create();
  w->c = (tn_decomp_ctx){.d = &w->d};
  if (!w->dims || tn_graph_create(&w->a, w->dims, "body", &w->c.g) != TN_OK) exit(2);
  f(w, p);
  uint32_t n_sym = tn_dims_n_syms(w->dims);
  gen_case g = {.a = &w->a,
                .dims = w->dims,
                .d = &w->d,
                .g = w->c.g,
                .name = full,
                .in = o.in,
                .out = o.out,
                .n_sym = n_sym,
                .index_max = o.index_max,
                .positive = o.positive,
                .special = o.special,
                .outside = o.outside,
                .loose = o.loose,
                .mutations = mutations()};
  g.sym = n_sym == 2 ? two_symbols : one_symbol;
  g.n_rounds = n_sym == 2 ? 4 : n_sym == 1 ? 6 : 0;
  bool ok = w->c.st == TN_OK;
  if (!ok) fprintf(stderr, "%s: the body could not be built: %s\n", full, w->d.text);
  ok = ok && gen_run(&g);
  if (!ok) w->failures++;
  printf("[  %s ] %s\n", ok ? "     OK" : "FAILED ", full);
  fflush(stdout);
  tn_arena_deinit(&w->a);
  tn_dims_destroy(w->dims);
}
#define RUN(f, opts, ...) run_with(w, #f, f, DIMS(__VA_ARGS__), opts)
#define PLAIN                                                                                                                              \
  (options) { 0 }

/* ---- pointwise ---- */
static void chain(world *w, const int64_t *p) {
  tn_ref x = IN(TN_F32, p[0]), y = IN(TN_F32, p[0]);
  RET(w, relu(w, add(w, mul(w, x, y), x)));
}
static void broadcasts(world *w, const int64_t *p) {
  tn_ref x = IN(TN_F32, p[0], p[1]), row = IN(TN_F32, p[1]), col = IN(TN_F32, p[0], 1), s = IN(TN_F32, 1);
  RET(w, add(w, mul(w, add(w, x, row), col), s));
}
static void turned(world *w, const int64_t *p) {
  tn_ref x = IN(TN_F32, p[0], p[1]), y = IN(TN_F32, p[1], p[0]);
  RET(w, add(w, x, tn_b_swap(C, y, 0, 1)));
}
static void deep(world *w, const int64_t *p) { /* five dims, middle ones broadcast, two results */
  tn_ref x = IN(TN_F32, p[0], p[1], 3, p[2], 2), y = IN(TN_F32, p[1], 1, 1, 2), z = add(w, x, y);
  RET(w, z);
  RET(w, mul(w, z, z));
}
static void maths(world *w, const int64_t *p) {
  static const tn_op ops[] = {TN_OP_EXP, TN_OP_LOG,  TN_OP_TANH,  TN_OP_ERF,   TN_OP_SIGMOID, TN_OP_SIN,
                              TN_OP_COS, TN_OP_SQRT, TN_OP_RSQRT, TN_OP_FLOOR, TN_OP_ROUND};
  tn_ref x = IN((tn_dtype)p[1], p[0]);
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) RET(w, o1(w, ops[i], x));
}
static void geluy(world *w, const int64_t *p) {
  tn_ref x = IN((tn_dtype)p[1], p[0]);
  RET(w, gelu(w, x));
}
static void choices(world *w, const int64_t *p) {
  tn_dtype t = (tn_dtype)p[1];
  tn_ref x = IN(t, p[0]), y = IN(t, p[0]), c = o2(w, TN_OP_LT, x, y);
  RET(w, tn_b_sel(C, c, add(w, x, y), o2(w, TN_OP_MAX, x, y)));
  RET(w, o1(w, TN_OP_NOT, c));
}
static void casts(world *w, const int64_t *p) {
  tn_ref x = IN(TN_F32, p[0]), b = IN(TN_BOOL, p[0]), i = IN(TN_I32, p[0]);
  RET(w, add(w, tn_b_cast(C, x, TN_BF16), tn_b_cast(C, b, TN_BF16)));
  RET(w, add(w, tn_b_cast(C, i, TN_F32), x));
  RET(w, tn_b_cast(C, tn_b_muln(C, x, 10), TN_I32));
  RET(w, add(w, tn_b_cast(C, tn_b_muln(C, x, 300), TN_I64), tn_b_cast(C, i, TN_I64)));
  RET(w, tn_b_cast(C, i, TN_U8));
}
static void integers(world *w, const int64_t *p) {
  tn_dtype t = (tn_dtype)p[1];
  tn_ref x = IN(t, p[0]), y = IN(t, p[0]);
  RET(w, o2(w, TN_OP_FLOORDIV, x, y));
  RET(w, o2(w, TN_OP_REMAINDER, x, y));
  RET(w, o2(w, TN_OP_XOR, mul(w, x, y), o2(w, TN_OP_SUB, x, y)));
}
static void divided(world *w, const int64_t *p) { /* p[2]: 1 makes every divisor positive; some quotients are looked at through a pad */
  tn_dtype t = (tn_dtype)p[1];
  tn_ref x = IN(t, p[0], 5), y = IN(t, p[0], 5), one = tn_b_int(C, 1, t);
  if (p[2]) y = o2(w, TN_OP_MAX, y, one);
  tn_ref q = o2(w, TN_OP_FLOORDIV, x, tn_b_divisor(C, y));
  RET(w, q);
  RET(w, tn_b_pad(C, o2(w, TN_OP_REMAINDER, x, tn_b_divisor(C, y)), (tn_dim[]){1, 0}, (tn_dim[]){0, 3}, &(tn_attr_val){.kind = TN_AT_INT}));
}
static void divided_sum(world *w, const int64_t *p) {
  tn_dtype t = (tn_dtype)p[1];
  tn_ref x = IN(t, 3, p[0]), y = IN(t, p[0]);
  if (p[2]) y = o2(w, TN_OP_MAX, y, tn_b_int(C, 1, t));
  RET(w, tn_b_reduce1(C, TN_C_SUM, o2(w, TN_OP_TRUNCDIV, x, tn_b_divisor(C, y)), 1, false));
}
static void unsigned_casts(world *w, const int64_t *p) {
  tn_dtype t = (tn_dtype)p[1];
  tn_ref x = IN(t, p[0]), f = IN(TN_F32, p[0]);
  RET(w, tn_b_cast(C, x, TN_F32));
  RET(w, tn_b_cast(C, x, TN_F64));
  RET(w, tn_b_cast(C, x, TN_I32));
  RET(w, tn_b_cast(C, x, TN_U64));
  RET(w, tn_b_cast(C, x, TN_BOOL));
  RET(w, tn_b_cast(C, tn_b_muln(C, f, 1e6), t));
  RET(w, tn_b_cast(C, tn_b_cast(C, f, TN_I16), t));
}
static void positions(world *w, const int64_t *p) { /* a causal mask */
  tn_ref x = IN(TN_F32, p[0], p[1]), i = tn_b_unsq(C, tn_b_iota(C, D(w, p[0]), TN_I64), 1), j = tn_b_iota(C, D(w, p[1]), TN_I64);
  RET(w, tn_b_sel(C, o2(w, TN_OP_GE, i, j), x, tn_b_num(C, -INFINITY, TN_F32)));
  RET(w, add(w, tn_b_cast(C, j, TN_F32), tn_b_num(C, 0.5, TN_F32)));
}

static void scalars(world *w, const int64_t *p) { /* no dims at all, and dims of 1 */
  (void)p;
  tn_ref x = input(w, TN_F32, TN_ORIGIN_INPUT, NULL, 0), y = input(w, TN_F32, TN_ORIGIN_INPUT, NULL, 0), z = IN(TN_F32, 1, 1, 1);
  RET(w, relu(w, add(w, x, y)));
  RET(w, add(w, z, x));
}
static void fills(world *w, const int64_t *p) { /* no operand, or none that is read */
  tn_dim d[2] = {D(w, p[0]), 5};
  tn_attr_val v = {.kind = TN_AT_FLOAT, .u.f = 1.5};
  if (p[0] < 0) (void)IN(TN_F32, p[0]);
  RET(w, tn_b_full(C, d, 2, &v, TN_F32));
  RET(w, tn_b_iota(C, d[0], TN_I64));
}
static void many_stages(world *w, const int64_t *p) { /* each tanh is read twice: a stage of its own; more than one word of bits */
  tn_ref x = IN(TN_F32, p[0], p[1]);
  for (int i = 0; i < 80; i++) {
    tn_ref y = o1(w, TN_OP_TANH, x);
    x = add(w, y, tn_b_muln(C, y, 0.25));
    if (i == 70) x = o2(w, TN_OP_SUB, x, red(w, TN_C_MAX, x, 1, true));
  }
  RET(w, x);
  RET(w, red(w, TN_C_SUM, x, 1, false));
}
static void many_dims(world *w, const int64_t *p) {
  (void)p;
  static const int perm[10] = {3, 0, 9, 1, 2, 5, 4, 8, 7, 6};
  tn_ref x = IN(TN_F32, 2, 3, 1, 2, 2, 2, 3, 1, 2, 5);
  RET(w, relu(w, tn_b_permute(C, x, perm)));
  RET(w, red(w, TN_C_SUM, x, 6, true));
}
static void twice(world *w, const int64_t *p) { /* a result that is another's view, and one that is an operand */
  tn_ref x = IN(TN_F32, p[0], p[1]), y = relu(w, x);
  RET(w, y);
  RET(w, tn_b_swap(C, y, 0, 1));
  RET(w, y);
  RET(w, x);
}

/* ---- layout ops inside ---- */
static void padded(world *w, const int64_t *p) {
  tn_ref x = IN(TN_F32, p[0], p[1]);
  tn_dim lo[2] = {1, 3}, hi[2] = {2, 0};
  tn_attr_val v = {.kind = TN_AT_FLOAT, .u.f = 0.25};
  RET(w, relu(w, tn_b_pad(C, tn_b_muln(C, x, 2), lo, hi, &v)));
}
static void flipped(world *w, const int64_t *p) {
  tn_ref x = IN(TN_F32, p[0], p[1]);
  tn_dim both[2] = {0, 1};
  tn_attr at = tn_mk_dims(w->c.g, "dims", both, 2);
  RET(w, add(w, x, tn_b_op(C, TN_OP_FLIP, &x, 1, &at, 1)));
}
static void sliced(world *w, const int64_t *p) { /* p0 rows of 2*p1+1 */
  tn_ref x = IN(TN_F32, p[0], 2 * p[1] + 1);
  RET(w, add(w, tn_b_slice(C, x, 1, 0, p[1], 2), tn_b_slice(C, x, 1, 1, p[1], 1)));
}
static void rotary(world *w, const int64_t *p) { /* halves of the last dim turn against each other */
  tn_ref x = IN(TN_F32, p[0], 3, 2 * p[1]), c = IN(TN_F32, 3, p[1]), s = IN(TN_F32, 3, p[1]);
  tn_ref a = tn_b_slice(C, x, 2, 0, p[1], 1), b = tn_b_slice(C, x, 2, p[1], p[1], 1);
  RET(w, o2(w, TN_OP_SUB, mul(w, a, c), mul(w, b, s)));
  RET(w, add(w, mul(w, a, s), mul(w, b, c)));
}
static void reshaped(world *w, const int64_t *p) { /* a permute that no strides can flatten */
  tn_ref x = IN(TN_F32, p[0], p[1], 4), y = IN(TN_F32, p[1], p[0] * 4);
  RET(w, add(w, y, shape(w, tn_b_swap(C, x, 0, 1), DIMS(p[1], p[0] * 4))));
}
static void split(world *w, const int64_t *p) {
  tn_ref x = IN(TN_F32, p[0] * 3), y = IN(TN_F32, p[0], 3);
  RET(w, mul(w, shape(w, relu(w, x), DIMS(p[0], 3)), y));
}
static void copied(world *w, const int64_t *p) { RET(w, o1(w, TN_OP_COPY, tn_b_swap(C, IN((tn_dtype)p[2], p[0], p[1]), 0, 1))); }
static void scrambled(world *w, const int64_t *p) { /* [6, n] -> [n, 6] by reshape, not by permute */
  tn_ref x = IN(TN_F32, 6, p[0]);
  RET(w, o1(w, TN_OP_NEG, shape(w, tn_b_swap(C, shape(w, x, DIMS(2, 3, p[0])), 1, 2), DIMS(2 * p[0], 3))));
}

/* ---- index ---- */
static void embedding(world *w, const int64_t *p) {
  tn_ref table = IN(TN_F32, p[2], p[1]), idx = IN(TN_I64, 2, p[0]), pos = IN(TN_F32, p[0], p[1]);
  RET(w, add(w, tn_b_take(C, table, idx, 0), pos));
}
static void columns(world *w, const int64_t *p) { /* indices along the vector axis */
  tn_ref x = IN(TN_F32, p[0], p[2]), idx = IN(TN_I64, p[1]);
  RET(w, tn_b_muln(C, tn_b_take(C, x, idx, 1), 3));
}
static void gathered(world *w, const int64_t *p) {
  tn_ref in[2] = {IN(TN_F32, p[0], p[2]), IN(TN_I64, p[0], p[1])};
  tn_attr at = tn_mk_int("dim", 1);
  RET(w, o1(w, TN_OP_NEG, tn_b_op(C, TN_OP_GATHER, in, 2, &at, 1)));
}
static void indexed(world *w, const int64_t *p) { /* x[i, :, j] with i[n,1], j[m]: the result's index dims come first */
  tn_ref in[3] = {IN(TN_F32, p[2], 3, p[2]), IN(TN_I64, p[0], 1), IN(TN_I64, p[1])};
  tn_dim dims[2] = {0, 2};
  tn_attr at = tn_mk_dims(w->c.g, "dims", dims, 2);
  RET(w, tn_b_addn(C, tn_b_op(C, TN_OP_INDEX, in, 3, &at, 1), 1));
}

/* ---- reductions ---- */
static void reduced(world *w, const int64_t *p) { /* p: combiner, axes as bits, dtype, three sizes */
  tn_dtype t = (tn_dtype)p[2];
  tn_ref x = IN(t, p[3], p[4], p[5]);
  int axes[3], n = 0;
  for (int i = 0; i < 3; i++)
    if (p[1] >> i & 1) axes[n++] = i;
  if (t == TN_F32 && p[0] != TN_C_ARGMAX && p[0] != TN_C_ARGMIN) x = tn_b_addn(C, x, 0.25);
  RET(w, tn_b_reduce(C, (tn_combiner)p[0], x, axes, n, false));
}
static void two_reductions(world *w, const int64_t *p) { /* of one domain, with an epilogue */
  tn_ref x = IN(TN_F32, p[0], p[1]);
  tn_ref m = red(w, TN_C_MAX, x, 1, false), s = red(w, TN_C_SUM, mul(w, x, x), 1, false);
  RET(w, add(w, m, o1(w, TN_OP_SQRT, s)));
  RET(w, red(w, TN_C_MIN, x, 1, true));
}
static void softmax(world *w, const int64_t *p) { RET(w, tn_b_softmax(C, IN((tn_dtype)p[3], p[0], p[1]), (int)p[2], false)); }
static void softmax_two(world *w, const int64_t *p) { /* over the last two dims */
  tn_ref x = IN(TN_F32, p[0], p[1], p[2]);
  int axes[2] = {1, 2};
  tn_ref e = o1(w, TN_OP_EXP, o2(w, TN_OP_SUB, x, tn_b_reduce(C, TN_C_MAX, x, axes, 2, true)));
  RET(w, o2(w, TN_OP_DIV, e, tn_b_reduce(C, TN_C_SUM, e, axes, 2, true)));
}
static void expanded(world *w, const int64_t *p) { /* an operand whose rows are one row, and one whose columns are one column */
  tn_ref x = IN(TN_F32, p[0], p[1]), y = IN(TN_F32, p[0], p[1]), z = IN(TN_F32, p[0], p[1]);
  tn_dim *s = TN_NEW(&w->a, tn_dim, 4);
  s[0] = 0, s[1] = 1, s[2] = 1, s[3] = 0;
  tn_def(w->c.g, y)->input->stride = s;
  tn_def(w->c.g, z)->input->stride = s + 2;
  RET(w, red(w, TN_C_SUM, mul(w, add(w, x, y), z), 1, false));
  RET(w, red(w, TN_C_MAX, z, 1, false));
}
static void softmax_mid(world *w, const int64_t *p) { RET(w, tn_b_softmax(C, IN(TN_F32, p[0], p[1], p[2]), 1, false)); }
static void log_softmax(world *w, const int64_t *p) {
  tn_ref x = IN(TN_F32, p[0], p[1]), s = o2(w, TN_OP_SUB, x, red(w, TN_C_MAX, x, 1, true));
  RET(w, o2(w, TN_OP_SUB, s, o1(w, TN_OP_LOG, red(w, TN_C_SUM, o1(w, TN_OP_EXP, s), 1, true))));
}
static void masked_softmax(world *w, const int64_t *p) {
  tn_ref x = IN(TN_F32, p[0], 2, p[1]), m = IN(TN_BOOL, p[0], 1, p[1]);
  tn_ref s = tn_b_sel(C, m, tn_b_muln(C, x, 0.125), tn_b_num(C, -1e9, TN_F32));
  RET(w, tn_b_softmax(C, s, 2, false));
}
static void layer_norm(world *w, const int64_t *p) {
  tn_ref x = IN(TN_F32, p[0], p[1]), g = WEIGHT(TN_F32, p[1]), b = WEIGHT(TN_F32, p[1]);
  int last = 1;
  tn_ref mean = tn_b_mean(C, x, &last, 1, true), d = o2(w, TN_OP_SUB, x, mean), var = tn_b_mean(C, mul(w, d, d), &last, 1, true);
  tn_ref r = o1(w, TN_OP_RSQRT, tn_b_addn(C, var, 1e-5));
  RET(w, add(w, mul(w, mul(w, d, r), g), b));
  RET(w, mean);
  RET(w, r);
}
static void rms_norm(world *w, const int64_t *p) { /* of a sum, in f32 over bf16 */
  tn_ref x = IN(TN_BF16, p[0], p[1]), y = IN(TN_BF16, p[0], p[1]), g = WEIGHT(TN_F32, p[1]), h = add(w, x, y), f = tn_b_cast(C, h, TN_F32);
  int last = 1;
  tn_ref r = o1(w, TN_OP_RSQRT, tn_b_addn(C, tn_b_mean(C, mul(w, f, f), &last, 1, true), 1e-6));
  RET(w, tn_b_cast(C, mul(w, mul(w, f, r), g), TN_BF16));
  RET(w, h);
}
static void group_norm(world *w, const int64_t *p) { /* [N, C, L] in groups of 2 channels, through a reshape */
  tn_ref x = IN(TN_F32, p[0], 2 * p[1], p[2]), y = shape(w, x, DIMS(p[0], p[1], 2 * p[2]));
  int last = 2;
  tn_ref mean = tn_b_mean(C, y, &last, 1, true), d = o2(w, TN_OP_SUB, y, mean), var = tn_b_mean(C, mul(w, d, d), &last, 1, true);
  tn_ref n = mul(w, d, o1(w, TN_OP_RSQRT, tn_b_addn(C, var, 1e-5)));
  RET(w, mul(w, shape(w, n, DIMS(p[0], 2 * p[1], p[2])), tn_b_along(C, IN(TN_F32, 2 * p[1]), 1, 3)));
}
static void column_stats(world *w, const int64_t *p) { /* batch statistics: everything but dim 1 */
  tn_ref x = IN(TN_F32, p[0], p[1], p[2]);
  int axes[2] = {0, 2};
  RET(w, tn_b_mean(C, x, axes, 2, false));
  RET(w, tn_b_mean(C, mul(w, x, x), axes, 2, false));
}
static void variance(world *w, const int64_t *p) { /* whole tensor */
  tn_ref x = IN(TN_F32, p[0], p[1]);
  int axes[2] = {0, 1};
  tn_ref d = o2(w, TN_OP_SUB, x, tn_b_mean(C, x, axes, 2, true));
  RET(w, tn_b_mean(C, mul(w, d, d), axes, 2, false));
}

/* ---- contractions ---- */
static void matmul(world *w, const int64_t *p) { /* p: M N K, transposed left, right */
  tn_ref a = p[3] ? IN(TN_F32, p[2], p[0]) : IN(TN_F32, p[0], p[2]), b = p[4] ? IN(TN_F32, p[1], p[2]) : IN(TN_F32, p[2], p[1]);
  char l[16];
  snprintf(l, sizeof l, "%s,%s->ij", p[3] ? "ki" : "ik", p[4] ? "jk" : "kj");
  RET(w, tn_b_contract(C, l, a, b));
}
static void batched(world *w, const int64_t *p) {
  RET(w, tn_b_contract(C, "bik,bjk->bij", IN(TN_F32, p[0], p[1], p[3]), IN(TN_F32, p[0], p[2], p[3])));
}
static void batched_turned(world *w, const int64_t *p) { /* heads in the middle on both sides */
  tn_ref a = tn_b_swap(C, IN(TN_F32, p[0], p[1], 3, p[3]), 1, 2), b = tn_b_swap(C, IN(TN_F32, p[0], p[2], 3, p[3]), 1, 2);
  RET(w, tn_b_muln(C, tn_b_contract(C, "bhik,bhjk->bhij", a, b), 0.125));
}
static void linear(world *w, const int64_t *p) { /* p: M N K, weight stored [N, K], frozen */
  tn_ref x = IN(TN_F32, p[0], p[2]), k = p[3] ? WEIGHT(TN_F32, p[1], p[2]) : IN(TN_F32, p[1], p[2]), b = WEIGHT(TN_F32, p[1]);
  RET(w, gelu(w, add(w, tn_b_contract(C, "ik,jk->ij", x, k), b)));
}
static void linear_kn(world *w, const int64_t *p) {
  RET(w, relu(w, tn_b_contract(C, "ik,kj->ij", IN(TN_F32, p[0], p[2]), WEIGHT(TN_F32, p[2], p[1]))));
}
static void linear3(world *w, const int64_t *p) { /* [B, S, K], residual, heads split and turned behind it */
  tn_ref x = IN(TN_F32, 2, p[0], p[2]), k = WEIGHT(TN_F32, 4 * p[1], p[2]), b = WEIGHT(TN_F32, 4 * p[1]), r = IN(TN_F32, 2, p[0], 4 * p[1]);
  tn_ref y = add(w, add(w, tn_b_contract(C, "bik,jk->bij", x, k), b), r);
  RET(w, tn_b_swap(C, shape(w, y, DIMS(2, p[0], 4, p[1])), 1, 2));
}
static void linear_bf16(world *w, const int64_t *p) {
  tn_ref x = IN(TN_BF16, p[0], p[2]), k = WEIGHT(TN_BF16, p[1], p[2]), b = WEIGHT(TN_BF16, p[1]);
  RET(w, relu(w, add(w, tn_b_contract(C, "ik,jk->ij", x, k), b)));
}
static void dot(world *w, const int64_t *p) { RET(w, tn_b_contract(C, "i,i->", IN(TN_F32, p[0]), IN(TN_F32, p[0]))); }
static void matvec(world *w, const int64_t *p) { RET(w, tn_b_contract(C, "ij,j->i", IN(TN_F32, p[0], p[1]), IN(TN_F32, p[1]))); }
static void vecmat(world *w, const int64_t *p) { RET(w, tn_b_contract(C, "j,ji->i", IN(TN_F32, p[1]), IN(TN_F32, p[1], p[0]))); }
static void outer(world *w, const int64_t *p) { RET(w, tn_b_contract(C, "i,j->ij", IN(TN_F32, p[0]), IN(TN_F32, p[1]))); }
static void two_sums(world *w, const int64_t *p) {
  RET(w, tn_b_contract(C, "aibk,jbk->iaj", IN(TN_F32, p[0], p[1], 3, p[2]), IN(TN_F32, 5, 3, p[2])));
}
static void int_matmul(world *w, const int64_t *p) {
  RET(w, tn_b_contract(C, "ik,kj->ij", IN(TN_I32, p[0], p[2]), IN(TN_I32, p[2], p[1])));
}
static void f64_matmul(world *w, const int64_t *p) {
  RET(w, tn_b_contract(C, "ik,kj->ij", IN(TN_F64, p[0], p[2]), IN(TN_F64, p[2], p[1])));
}

/* ---- convolutions and windows ---- */
typedef struct geometry {
  int64_t n, stride[3], pad[6], dilation[3], groups, extra[3];
} geometry;
static tn_ref conv(world *w, tn_op op, tn_ref x, tn_ref k, geometry g) {
  tn_ref in[2] = {x, k};
  tn_attr at[5] = {tn_mk_dims(w->c.g, "stride", g.stride, (uint32_t)g.n), tn_mk_dims(w->c.g, "padding", g.pad, 2 * (uint32_t)g.n),
                   tn_mk_dims(w->c.g, "dilation", g.dilation, (uint32_t)g.n), tn_mk_int("groups", g.groups),
                   tn_mk_dims(w->c.g, "output_padding", g.extra, (uint32_t)g.n)};
  return tn_b_op(C, op, in, 2, at, op == TN_OP_CONVT ? 5 : 4);
}
/* p: N C H W, O, kernel, stride, pad, dilation, groups, frozen */
static void conv2d(world *w, const int64_t *p) {
  tn_ref x = IN(TN_F32, p[0], p[1], p[2], p[3]),
         k = input(w, TN_F32, p[10] ? TN_ORIGIN_PARAM : TN_ORIGIN_INPUT, DIMS(p[4], p[1] / p[9], p[5], p[5]));
  tn_ref y = conv(w, TN_OP_CONV, x, k, (geometry){2, {p[6], p[6]}, {p[7], p[7], p[7], p[7]}, {p[8], p[8]}, p[9], {0}});
  RET(w, relu(w, add(w, y, tn_b_along(C, IN(TN_F32, p[4]), 1, 4))));
}
static void conv2d_add(world *w, const int64_t *p) { /* batch norm's scale and shift, residual */
  tn_ref x = IN(TN_F32, p[0], p[1], p[2], p[2]), k = WEIGHT(TN_F32, p[3], p[1], 3, 3), r = IN(TN_F32, p[0], p[3], p[2], p[2]);
  tn_ref y = conv(w, TN_OP_CONV, x, k, (geometry){2, {1, 1}, {1, 1, 1, 1}, {1, 1}, 1, {0}});
  tn_ref s = tn_b_along(C, IN(TN_F32, p[3]), 1, 4), b = tn_b_along(C, IN(TN_F32, p[3]), 1, 4);
  RET(w, relu(w, add(w, add(w, mul(w, y, s), b), r)));
}
static void conv1d(world *w, const int64_t *p) { /* uneven padding */
  tn_ref y = conv(w, TN_OP_CONV, IN(TN_F32, p[0], p[1], p[2]), WEIGHT(TN_F32, p[3], p[1], p[4]),
                  (geometry){1, {p[5]}, {p[4] - 1, 0}, {1}, 1, {0}});
  RET(w, gelu(w, y));
}
static void conv3d(world *w, const int64_t *p) {
  RET(w, conv(w, TN_OP_CONV, IN(TN_F32, 1, p[0], 3, p[1], p[2]), IN(TN_F32, 5, p[0], 2, 3, 3),
              (geometry){3, {1, 1, 2}, {0, 1, 1, 1, 0, 0}, {1, 1, 1}, 1, {0}}));
}
/* p: C H, O per group, kernel, stride, pad, extra, groups */
static void convt(world *w, const int64_t *p) {
  tn_ref x = IN(TN_F32, 2, p[0], p[1], p[1] + 1), k = WEIGHT(TN_F32, p[0], p[2], p[3], p[3]);
  RET(w, relu(w, conv(w, TN_OP_CONVT, x, k, (geometry){2, {p[4], p[4]}, {p[5], p[5], p[5], p[5]}, {1, 1}, p[7], {p[6], p[6]}})));
}
/* p: combiner, C H W, kernel, stride, pad, dilation */
static void pool(world *w, const int64_t *p) {
  int64_t k[2] = {p[4], p[4]}, s[2] = {p[5], p[5]}, pad[2] = {p[6], p[6]}, dil[2] = {p[7], p[7]};
  tn_ref x = IN(TN_F32, 2, p[1], p[2], p[3]);
  tn_dim size[2];
  for (int i = 0; i < 2; i++) {
    tn_dim room = tn_dim_sub(w->dims, tn_dim_add(w->dims, D(w, p[2 + i]), 2 * p[6]), (p[4] - 1) * p[7] + 1);
    size[i] = tn_dim_add(w->dims, tn_dim_floordiv(w->dims, room, p[5]), 1);
  }
  RET(w, tn_b_muln(C, tn_b_window(C, (tn_combiner)p[0], x, 2, k, s, pad, pad, dil, size), 0.5));
}

static void conv_bf16(world *w, const int64_t *p) { /* p: C H O */
  tn_ref x = IN(TN_BF16, 1, p[0], p[1], p[1]), k = WEIGHT(TN_BF16, p[2], p[0], 3, 3);
  RET(w, relu(w, conv(w, TN_OP_CONV, x, k, (geometry){2, {1, 1}, {1, 1, 1, 1}, {1, 1}, 1, {0}})));
}

/* ---- attention ---- */
static void attention(world *w, const int64_t *p) { /* p: heads, queries, keys, width, masked */
  tn_ref q = IN(TN_F32, p[0], p[1], p[3]), k = IN(TN_F32, p[0], p[2], p[3]), v = IN(TN_F32, p[0], p[2], p[3]);
  tn_ref s = tn_b_muln(C, tn_b_contract(C, "hid,hjd->hij", q, k), 0.25);
  if (p[4]) s = add(w, s, IN(TN_F32, p[1], p[2]));
  RET(w, tn_b_contract(C, "hij,hjd->hid", tn_b_softmax(C, s, 2, p[4] == 2), v));
}
static void attention_turned(world *w, const int64_t *p) { /* [B, S, H, D] views, causal */
  tn_ref q = tn_b_swap(C, IN(TN_F32, 2, p[0], 3, p[1]), 1, 2), k = tn_b_swap(C, IN(TN_F32, 2, p[0], 3, p[1]), 1, 2),
         v = tn_b_swap(C, IN(TN_F32, 2, p[0], 3, p[1]), 1, 2);
  tn_ref i = tn_b_unsq(C, tn_b_iota(C, D(w, p[0]), TN_I64), 1), j = tn_b_iota(C, D(w, p[0]), TN_I64);
  tn_ref s =
      tn_b_sel(C, o2(w, TN_OP_GE, i, j), tn_b_muln(C, tn_b_contract(C, "bhid,bhjd->bhij", q, k), 0.3), tn_b_num(C, -INFINITY, TN_F32));
  RET(w, tn_b_swap(C, tn_b_contract(C, "bhij,bhjd->bhid", tn_b_softmax(C, s, 3, false), v), 1, 2));
}

static void attention_shared(world *w, const int64_t *p) { /* two query heads share each key head; key mask; p: queries, keys, width */
  tn_ref q = IN(TN_F32, 2, 3, 2, p[0], p[2]), k = IN(TN_F32, 2, 3, p[1], p[2]), v = IN(TN_F32, 2, 3, p[1], p[2]),
         m = IN(TN_BOOL, 2, 1, 1, 1, p[1]);
  tn_ref s = tn_b_sel(C, m, tn_b_contract(C, "bhgid,bhjd->bhgij", q, k), tn_b_num(C, -1e9, TN_F32));
  RET(w, tn_b_contract(C, "bhgij,bhjd->bhgid", tn_b_softmax(C, s, 4, false), v));
}
static void attention_bf16(world *w, const int64_t *p) {
  tn_ref q = IN(TN_BF16, 2, p[0], p[2]), k = IN(TN_BF16, 2, p[1], p[2]), v = IN(TN_BF16, 2, p[1], p[2]);
  tn_ref s = tn_b_softmax(C, tn_b_cast(C, tn_b_contract(C, "hid,hjd->hij", q, k), TN_F32), 2, false);
  RET(w, tn_b_contract(C, "hij,hjd->hid", tn_b_cast(C, s, TN_BF16), v));
}

/* ---- the table ---- */
static options lay(gen_layout in, gen_layout out) { return (options){.in = in, .out = out}; }
static options idx(int64_t n) { return (options){.index_max = n}; }

static void table_pointwise(world *w) {
  static const int64_t sizes[] = {0, 1, 7, 8, 15, 16, 17, 33, 65, 1000, 100003, S0};
  static const int64_t pairs[][2] = {{1, 17}, {17, 1}, {3, 5}, {8, 16}, {5, 0}, {64, 130}, {300, 333}, {S0, 7}, {5, S0}, {S0, S1}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) RUN(chain, PLAIN, sizes[i]);
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    const int64_t *q = pairs[i];
    RUN(broadcasts, PLAIN, q[0], q[1]);
    RUN(turned, PLAIN, q[0], q[1]);
    RUN(copied, PLAIN, q[0], q[1], i % 2 ? TN_F32 : TN_BF16);
    if (i == 3 || i == 5 || i == 9)
      for (int l = 1; l < N_LAYOUTS * N_LAYOUTS; l++)
        RUN(broadcasts, lay((gen_layout)(l % N_LAYOUTS), (gen_layout)(l / N_LAYOUTS)), q[0], q[1]);
    RUN(positions, PLAIN, q[0], q[1]);
    RUN(flipped, PLAIN, q[0], q[1]);
    RUN(padded, PLAIN, q[0], q[1]);
  }
  RUN(scalars, PLAIN, 0);
  RUN(fills, PLAIN, 7);
  RUN(fills, PLAIN, S0);
  RUN(many_stages, ((options){.loose = 64}), 3, 20);
  RUN(many_stages, ((options){.loose = 64}), 40, S0);
  RUN(many_dims, PLAIN, 0);
  RUN(twice, PLAIN, 5, 17);
  RUN(twice, lay(LAY_PADDED, LAY_TURNED), S0, 33);
  RUN(deep, PLAIN, 2, 3, 5);
  RUN(deep, lay(LAY_LAST, LAY_DENSE), 3, 2, 17);
  RUN(deep, lay(LAY_PADDED, LAY_TURNED), 2, S0, 4);
  RUN(deep, PLAIN, S0, 2, S1);
  RUN(maths, ((options){.positive = true}), 133, TN_F32);
  RUN(maths, ((options){.positive = true}), S0, TN_F64);
  RUN(maths, ((options){.positive = true}), 37, TN_BF16);
  RUN(geluy, ((options){.special = true}), 1000, TN_F32);
  RUN(geluy, PLAIN, S0, TN_F16);
  RUN(choices, ((options){.special = true}), 100, TN_F32);
  RUN(choices, PLAIN, 77, TN_I32);
  RUN(choices, PLAIN, 33, TN_I8);
  RUN(choices, PLAIN, S0, TN_F64);
  RUN(casts, PLAIN, 70);
  RUN(casts, PLAIN, S0);
  RUN(integers, ((options){.index_max = 100}), 65, TN_I32);
  RUN(integers, ((options){.index_max = 100}), 20, TN_I64);
  RUN(integers, ((options){.index_max = 100}), 50, TN_U8);
  static const int64_t divided_of[] = {TN_I64, TN_I32, TN_I8, TN_U8, TN_U16, TN_U64};
  for (size_t i = 0; i < sizeof divided_of / sizeof *divided_of; i++)
    for (int64_t safe = 0; safe < 2; safe++) {
      RUN(divided, PLAIN, i % 2 ? 13 : S0, divided_of[i], safe);
      RUN(divided_sum, PLAIN, i % 2 ? S0 : 37, divided_of[i], safe);
    }
  for (int64_t t = TN_U16; t <= TN_U64; t++) {
    RUN(integers, ((options){.index_max = 100}), 45, t);
    RUN(choices, ((options){.index_max = 100}), S0, t);
    RUN(unsigned_casts, ((options){.index_max = 100}), 39, t);
  }
  static const int64_t small[][2] = {{2, 1}, {3, 8}, {5, 16}, {4, 33}, {40, 100}};
  for (size_t i = 0; i < 5; i++) {
    RUN(sliced, PLAIN, small[i][0], small[i][1]);
    RUN(rotary, PLAIN, small[i][0], small[i][1]);
    RUN(reshaped, PLAIN, small[i][0], small[i][1]);
    RUN(split, PLAIN, small[i][1]);
    RUN(scrambled, PLAIN, small[i][1]);
  }
  RUN(embedding, idx(50), 7, 33, 50);
  RUN(embedding, idx(50), S0, 64, 50);
  RUN(embedding, ((options){.index_max = 50, .outside = true}), 9, 17, 50);
  RUN(embedding, idx(1), 3, 5, 0);
  RUN(embedding, idx(1), 3, 5, S0);
  RUN(columns, idx(20), 3, 40, 20);
  RUN(columns, idx(20), S0, S1, 20);
  RUN(columns, ((options){.index_max = 20, .outside = true}), 3, 19, 20);
  RUN(gathered, idx(9), 6, 35, 9);
  RUN(gathered, idx(9), S0, 5, 9);
  RUN(indexed, idx(4), 5, 6, 4);
  RUN(indexed, idx(4), S0, 18, 4);
}

static void table_reductions(world *w) {
  static const int64_t shapes[][3] = {{1, 1, 1},     {3, 5, 7}, {2, 17, 16}, {9, 1, 33}, {4, 64, 65},
                                      {20, 30, 130}, {3, 0, 5}, {S0, 3, 17}, {2, 5, S0}, {3, S0, S1}};
  static const int64_t axes[] = {4, 1, 2, 7, 6, 3, 5};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    const int64_t *q = shapes[i];
    for (size_t j = 0; j < 7; j++) RUN(reduced, PLAIN, TN_C_SUM, axes[j], TN_F32, q[0], q[1], q[2]);
    RUN(reduced, ((options){.special = i % 2}), TN_C_MAX, 4, TN_F32, q[0], q[1], q[2]);
    RUN(reduced, PLAIN, TN_C_MIN, 1, TN_I64, q[0], q[1], q[2]);
    RUN(reduced, PLAIN, TN_C_PROD, 2, TN_F64, q[0], q[1], q[2]);
    RUN(reduced, PLAIN, TN_C_ANY, 4, TN_BOOL, q[0], q[1], q[2]);
    RUN(reduced, PLAIN, TN_C_ALL, 2, TN_BOOL, q[0], q[1], q[2]);
    RUN(reduced, PLAIN, TN_C_SUM, 4, TN_BF16, q[0], q[1], q[2]);
    if (i == 6) continue;
    RUN(reduced, ((options){.special = i % 2}), TN_C_ARGMAX, 4, TN_F32, q[0], q[1], q[2]);
    RUN(reduced, PLAIN, TN_C_ARGMIN, 2, TN_I32, q[0], q[1], q[2]);
    RUN(reduced, PLAIN, TN_C_ARGMAX, 1, TN_F64, q[0], q[1], q[2]);
  }
  RUN(reduced, lay(LAY_TURNED, LAY_DENSE), TN_C_SUM, 4, TN_F32, 20, 30, 40);
  RUN(reduced, lay(LAY_PADDED, LAY_PADDED), TN_C_SUM, 6, TN_F32, 20, 30, 40);
  RUN(reduced, lay(LAY_LAST, LAY_DENSE), TN_C_SUM, 2, TN_F32, 8, 30, 40);
  RUN(reduced, PLAIN, TN_C_SUM, 7, TN_F32, 30, 100, 101);
  static const int64_t rows[][2] = {{1, 1},     {3, 5}, {2, 16}, {5, 33},  {17, 64}, {1, 1000}, {100, 77},
                                    {300, 512}, {4, 0}, {0, 4},  {S0, 40}, {6, S0},  {S0, S1}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const int64_t *q = rows[i];
    RUN(two_reductions, PLAIN, q[0], q[1]);
    RUN(softmax, ((options){.loose = 4}), q[0], q[1], 1, TN_F32);
    RUN(softmax, ((options){.loose = 4}), q[0], q[1], 0, TN_F32);
    RUN(log_softmax, ((options){.loose = 8}), q[0], q[1]);
    RUN(masked_softmax, ((options){.loose = 4}), q[0], q[1]);
    RUN(layer_norm, ((options){.loose = 16}), q[0], q[1]);
    RUN(rms_norm, ((options){.loose = 2}), q[0], q[1]);
    RUN(variance, ((options){.loose = 4}), q[0], q[1]);
  }
  RUN(softmax, ((options){.loose = 4, .in = LAY_TURNED}), 40, 50, 1, TN_F32);
  RUN(softmax, ((options){.loose = 4, .in = LAY_PADDED, .out = LAY_TURNED}), 40, 50, 1, TN_F64);
  RUN(softmax, ((options){.loose = 4}), 33, 65, 1, TN_BF16);
  RUN(softmax_mid, ((options){.loose = 4}), 3, 17, 5);
  RUN(softmax_mid, ((options){.loose = 4}), 2, S0, 33);
  RUN(softmax_mid, ((options){.loose = 4}), 10, 30, 64);
  RUN(softmax_two, ((options){.loose = 4}), 3, 5, 7);
  RUN(softmax_two, ((options){.loose = 4}), 40, 9, S0);
  RUN(expanded, PLAIN, 5, 33);
  RUN(expanded, PLAIN, S0, S1);
  RUN(group_norm, ((options){.loose = 16}), 2, 3, 8);
  RUN(group_norm, ((options){.loose = 16}), 3, 4, 100);
  RUN(group_norm, ((options){.loose = 16, .in = LAY_LAST, .out = LAY_LAST}), 2, 4, 19);
  RUN(column_stats, PLAIN, 3, 5, 7);
  RUN(column_stats, PLAIN, 8, 16, 100);
  RUN(column_stats, lay(LAY_LAST, LAY_DENSE), 8, 16, 100);
  RUN(column_stats, PLAIN, S0, 16, S1);
}

static void table_contractions(world *w) {
  static const int64_t mnk[][3] = {{1, 1, 1},    {3, 5, 7},    {6, 64, 16},  {7, 17, 1},     {13, 33, 9},
                                   {1, 100, 30}, {100, 1, 30}, {29, 65, 31}, {120, 200, 64}, {4, 5, 0},
                                   {0, 5, 4},    {S0, 40, 20}, {30, S0, 17}, {5, 40, S0},    {S0, S1, 12}};
  for (size_t i = 0; i < sizeof mnk / sizeof *mnk; i++) {
    const int64_t *q = mnk[i];
    for (int t = 0; t < 4; t++) RUN(matmul, PLAIN, q[0], q[1], q[2], t & 1, t >> 1);
    RUN(linear, PLAIN, q[0], q[1], q[2], 1);
    RUN(linear, PLAIN, q[0], q[1], q[2], 0);
    RUN(linear_kn, PLAIN, q[0], q[1], q[2]);
    RUN(batched, PLAIN, 3, q[0], q[1], q[2]);
    RUN(matvec, PLAIN, q[0], q[1]);
    RUN(vecmat, PLAIN, q[0], q[1]);
    RUN(outer, PLAIN, q[0], q[1]);
    if (q[1] >= 0) RUN(linear3, PLAIN, q[0], q[1], q[2]);
    RUN(dot, PLAIN, q[0] * (q[0] > 0 ? 7 : 1));
  }
  RUN(matmul, lay(LAY_TURNED, LAY_DENSE), 20, 40, 30, 0, 0);
  RUN(matmul, lay(LAY_PADDED, LAY_TURNED), 20, 40, 30, 0, 1);
  RUN(matmul, PLAIN, 200, 300, 70, 0, 0);
  RUN(matmul, PLAIN, 70, 80, 900, 0, 0);
  RUN(matmul, PLAIN, 37, 70, S0, 0, 0);
  RUN(linear, PLAIN, 66, 96, 500, 1);
  RUN(linear_kn, PLAIN, S0, 64, 500);
  RUN(linear, PLAIN, 150, 200, 130, 1);
  RUN(linear_kn, PLAIN, 64, 96, 64);
  RUN(linear_kn, PLAIN, S0, 96, 64);
  RUN(batched_turned, PLAIN, 2, 17, 33, 16);
  RUN(batched_turned, PLAIN, 2, S0, S1, 16);
  RUN(batched_turned, PLAIN, 1, 64, 64, 32);
  RUN(two_sums, PLAIN, 2, 9, 5);
  RUN(two_sums, PLAIN, 3, S0, 16);
  RUN(int_matmul, PLAIN, 5, 37, 11);
  RUN(f64_matmul, PLAIN, 13, 21, 34);
  RUN(linear_bf16, PLAIN, 7, 33, 20);
  RUN(linear_bf16, PLAIN, 33, 64, 65);
}

static void table_convolutions(world *w) {
  /*                                  N  C   H   W   O  k  s  p  d  g  frozen */
  static const int64_t shapes[][11] = {
      {1, 3, 8, 8, 4, 1, 1, 0, 1, 1, 1},      {2, 4, 7, 9, 8, 3, 1, 0, 1, 1, 1},      {1, 3, 13, 17, 16, 3, 1, 1, 1, 1, 1},
      {1, 8, 11, 11, 17, 3, 2, 1, 1, 1, 1},   {2, 5, 12, 10, 7, 3, 1, 2, 2, 1, 0},    {1, 6, 9, 9, 12, 3, 1, 1, 1, 3, 1},
      {2, 16, 10, 20, 16, 3, 1, 1, 1, 16, 1}, {1, 16, 10, 10, 32, 3, 2, 1, 1, 16, 1}, {1, 3, 20, 20, 8, 7, 2, 3, 1, 1, 1},
      {1, 1, 5, 5, 1, 3, 1, 1, 1, 1, 0},      {1, 4, 1, 1, 8, 3, 1, 1, 1, 1, 1},      {1, 32, 14, 14, 64, 1, 1, 0, 1, 1, 1},
      {1, 16, 28, 28, 32, 3, 1, 1, 1, 1, 1},  {S0, 3, 6, 6, 4, 3, 1, 1, 1, 1, 1},     {1, 3, S0, 9, 5, 3, 1, 1, 1, 1, 1},
      {1, 4, 6, S0, 16, 3, 2, 1, 1, 1, 1}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (int l = 0; l < 2; l++) run_with(w, "conv2d", conv2d, shapes[i], 11, lay(l ? LAY_LAST : LAY_DENSE, l ? LAY_LAST : LAY_DENSE));
  run_with(w, "conv2d", conv2d, shapes[3], 11, lay(LAY_DENSE, LAY_LAST));
  run_with(w, "conv2d", conv2d, shapes[6], 11, lay(LAY_LAST, LAY_DENSE));
  RUN(conv_bf16, PLAIN, 5, 9, 17);
  RUN(conv_bf16, lay(LAY_LAST, LAY_LAST), 8, 10, 16);
  RUN(conv2d_add, PLAIN, 1, 8, 9, 16);
  RUN(conv2d_add, lay(LAY_LAST, LAY_LAST), 2, 16, 14, 24);
  RUN(conv1d, PLAIN, 2, 3, 20, 8, 5, 1);
  RUN(conv1d, PLAIN, 1, 16, S0, 16, 3, 2);
  RUN(conv3d, PLAIN, 3, 5, 9);
  RUN(conv3d, lay(LAY_LAST, LAY_LAST), 4, 6, 7);
  RUN(convt, PLAIN, 4, 5, 3, 3, 1, 0, 0, 1);
  RUN(convt, PLAIN, 6, 7, 8, 4, 2, 1, 0, 1);
  RUN(convt, PLAIN, 4, 6, 5, 3, 2, 1, 1, 2);
  RUN(convt, lay(LAY_LAST, LAY_LAST), 8, 6, 16, 2, 2, 0, 0, 1);
  for (int l = 0; l < 2; l++) {
    options o = lay(l ? LAY_LAST : LAY_DENSE, l ? LAY_LAST : LAY_DENSE);
    RUN(pool, o, TN_C_MAX, 3, 8, 9, 2, 2, 0, 1);
    RUN(pool, o, TN_C_MAX, 16, 13, 17, 3, 2, 1, 1);
    RUN(pool, o, TN_C_SUM, 5, 12, 33, 3, 1, 1, 1);
    RUN(pool, o, TN_C_MAX, 4, 9, 9, 2, 1, 1, 2);
    RUN(pool, o, TN_C_MIN, 3, S0, 20, 1, 1, 0, 1);
  }
}

static void table_attention(world *w) {
  static const int64_t shapes[][4] = {{1, 1, 1, 4},    {2, 5, 7, 8},     {3, 16, 16, 16}, {2, 33, 17, 12},
                                      {2, 64, 64, 32}, {4, 100, 96, 64}, {2, S0, S0, 16}, {1, S0, S1, 32}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (int m = 0; m < 3; m++) RUN(attention, ((options){.loose = 8}), shapes[i][0], shapes[i][1], shapes[i][2], shapes[i][3], m);
  RUN(attention_turned, ((options){.loose = 8}), 17, 16);
  RUN(attention_turned, ((options){.loose = 8}), 40, 32);
  RUN(attention_turned, ((options){.loose = 8}), S0, 8);
  RUN(attention_shared, ((options){.loose = 8}), 5, 33, 16);
  RUN(attention_shared, ((options){.loose = 8}), S0, S1, 8);
  RUN(attention_bf16, ((options){.loose = 4}), 17, 20, 32);
  RUN(attention_bf16, ((options){.loose = 4}), S0, S1, 16);
}

int gen_table(const char *filter, uint32_t part, uint32_t parts, uint32_t *n_cases) {
  world world = {.filter = filter, .part = part, .parts = parts, .n_cases = n_cases}, *w = &world;
  table_pointwise(w);
  table_reductions(w);
  table_contractions(w);
  table_convolutions(w);
  table_attention(w);
  return w->failures;
}

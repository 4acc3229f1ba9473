/* Values of symbolic dims from the shapes of actual inputs, and the check that these shapes fit.
 *
 * Two passes: plain symbols first (and integer inputs that carry one), then every other expression, which must agree. An
 * expression with a single symbol nobody has bound yet is solved for it when it is affine, as in a cache of s0 + 1 rows.
 * Symbols that no input determines get TN_UNBOUND, which no dim evaluates with. */
#include "ops/ops_int.h"
#include <string.h>

#define TN_UNBOUND INT64_MIN

typedef struct binding {
  tn_diag *d;
  const tn_graph *g;
  int64_t *sym;
  uint32_t input;
} binding;

static const char *input_name(const binding *b) {
  const char *s = b->g->value[b->g->input[b->input].id].name;
  return s ? s : "";
}
static tn_status mismatch(const binding *b, tn_dim want, int64_t got, const char *why) {
  return tn_fail(b->d, TN_E_ARG, "input %u (%%%s): got %lld where the graph has %s%s", b->input, input_name(b), (long long)got,
                 tn_dim_text(b->g->dims, want).s, why);
}
static tn_status set_sym(const binding *b, int ordinal, int64_t v) {
  tn_dim dim = tn_dim_sym(b->g->dims, tn_dims_sym_name(b->g->dims, (uint32_t)ordinal)); /* for messages */
  int64_t lo, hi, *s = &b->sym[ordinal];
  tn_dims_sym_range(b->g->dims, (uint32_t)ordinal, &lo, &hi);
  if (v < lo || v > hi) return mismatch(b, dim, v, ", out of its range");
  if (*s != TN_UNBOUND && *s != v) return mismatch(b, dim, v, ", which another dim has set otherwise");
  *s = v;
  return TN_OK;
}
static tn_status bind_plain(const binding *b, tn_dim dim, int64_t v) {
  int64_t want;
  if (tn_dim_as_int(b->g->dims, dim, &want)) return want == v ? TN_OK : mismatch(b, dim, v, "");
  int ordinal = tn_dim_sym_ordinal(b->g->dims, dim);
  return ordinal < 0 ? TN_OK : set_sym(b, ordinal, v);
}

/* Ordinal of the only symbol of `dim` without a value; -1 when there is none, -2 when there are several or memory is out. */
static int only_unbound(const binding *b, tn_dim dim) {
  tn_arena a;
  tn_dim_code *code;
  uint32_t n;
  int found = -1;
  tn_arena_init(&a);
  if (tn_dim_compile(&a, b->g->dims, dim, &code, &n) != TN_OK) found = -2;
  for (uint32_t i = 0; found != -2 && i < n; i++)
    if (code[i].op == 's' && b->sym[code[i].v] == TN_UNBOUND) found = found == -1 || found == (int)code[i].v ? (int)code[i].v : -2;
  tn_arena_deinit(&a);
  return found;
}
static bool value_with(const binding *b, tn_dim dim, int ordinal, int64_t v, int64_t *out) {
  b->sym[ordinal] = v;
  bool ok = tn_dim_eval(b->g->dims, dim, b->sym, out) == TN_OK;
  b->sym[ordinal] = TN_UNBOUND;
  return ok;
}
/* Solves dim = v for its only unbound symbol, from two points of the line. */
static tn_status solve(const binding *b, tn_dim dim, int ordinal, int64_t v) {
  int64_t lo, hi, f0, f1, rest, slope, x;
  tn_dims_sym_range(b->g->dims, (uint32_t)ordinal, &lo, &hi);
  if (!value_with(b, dim, ordinal, lo, &f0) || !value_with(b, dim, ordinal, lo + 1, &f1) || __builtin_sub_overflow(f1, f0, &slope) ||
      __builtin_sub_overflow(v, f0, &rest) || slope == 0 || slope == -1 || rest % slope || __builtin_add_overflow(lo, rest / slope, &x))
    return mismatch(b, dim, v, ", which can't be solved for its symbol");
  return set_sym(b, ordinal, x);
}
static tn_status bind_rest(const binding *b, tn_dim dim, int64_t v) {
  int64_t got;
  if (tn_dim_is_const(dim) || tn_dim_sym_ordinal(b->g->dims, dim) >= 0) return TN_OK;
  int unbound = only_unbound(b, dim);
  if (unbound >= 0) TN_TRY(solve(b, dim, unbound, v));
  if (unbound == -2 || tn_dim_eval(b->g->dims, dim, b->sym, &got) != TN_OK) return mismatch(b, dim, v, ", which has no value yet");
  return got == v ? TN_OK : mismatch(b, dim, v, "");
}

static tn_status bind_input(const binding *b, const tn_tensor *t, tn_status (*one)(const binding *, tn_dim, int64_t)) {
  tn_ref r = b->g->input[b->input];
  const tn_type *want = tn_typeof(b->g, r);
  const tn_input_info *info = b->g->node[b->g->value[r.id].node].input;
  if (t->dtype != want->dtype || t->rank != want->rank)
    return tn_fail(b->d, TN_E_ARG, "input %u (%%%s) is %s of rank %d, wants %s of rank %u", b->input, input_name(b),
                   t->dtype >= 0 && t->dtype < TN_N_DTYPES ? tn_dtype_name((tn_dtype)t->dtype) : "?", (int)t->rank,
                   tn_dtype_name((tn_dtype)want->dtype), want->rank);
  for (int i = 0; i < t->rank; i++) TN_TRY(one(b, want->dim[i], t->shape[i]));
  if (!info || info->origin != TN_ORIGIN_SYM || t->rank != 0 || t->dtype != TN_I64) return TN_OK;
  return one(b, info->sym, tn_num_load(TN_I64, t->data).i);
}
tn_status tn_ops_bind_syms(tn_diag *d, const tn_graph *g, const tn_tensor *in, int64_t *sym_values) {
  binding b = {.d = d, .g = g, .sym = sym_values};
  uint32_t n = tn_dims_n_syms(g->dims);
  for (uint32_t i = 0; i < n; i++) sym_values[i] = TN_UNBOUND;
  for (b.input = 0; b.input < g->n_inputs; b.input++) TN_TRY(bind_input(&b, &in[b.input], bind_plain));
  for (b.input = 0; b.input < g->n_inputs; b.input++) TN_TRY(bind_input(&b, &in[b.input], bind_rest));
  return TN_OK;
}

/* Kernel text, and behind a line that starts with "sched " the text of a schedule for it.
 *
 * Definition: parse -> print -> parse -> print is the identity; what verifies can be interpreted. Schedule: the same for its text; what
 * verifies becomes a nest that verifies, and the nest's values are the definition's. Whatever the bytes are, and whichever allocation
 * fails, nothing may crash, hang or leak. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "kir/nest.h"
#include "lower/lower.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check(bool ok, const char *what, const tn_diag *d, const char *text) {
  if (ok) return;
  fprintf(stderr, "fuzz_kdef: %s\n%s\n%s\n", what, d->text, text ? text : "");
  abort();
}

/* Text of k must read back, in a fresh table, to the same text. Ends failing allocations. */
static void check_text(const tn_kdef *k) {
  tn_str first, second;
  tn_arena a;
  tn_kdef *h;
  tn_diag d;
  tn_malloc_fail_after(0);
  tn_dims *dims = tn_dims_create();
  tn_str_init(&first);
  tn_str_init(&second);
  tn_arena_init(&a);
  tn_diag_clear(&d);
  tn_kdef_print(k, &first);
  check(tn_kdef_parse(&d, &a, dims, first.s, first.n, &h) == TN_OK, "printed text does not parse", &d, first.s);
  tn_kdef_print(h, &second);
  check(first.n == second.n && memcmp(first.s, second.s, first.n) == 0, "text changes when it is read and printed", &d, first.s);
  tn_str_deinit(&first);
  tn_str_deinit(&second);
  tn_arena_deinit(&a);
  tn_dims_destroy(dims);
}

/* ---- values ---- */
enum { MAX_PARAMS = 16, MAX_ELEMS = 1 << 14, MAX_SYMS = 8 };
typedef struct values {
  int64_t sym[MAX_SYMS], elems[MAX_PARAMS];
  void *ptr[MAX_PARAMS];
  double *mem;
} values;

static bool value_of(const tn_kdef *k, tn_dim d, const values *v, int64_t *out) { return tn_dim_eval(k->dims, d, v->sym, out) == TN_OK; }

/* Small enough to run: all sizes have values, few positions, no stride that goes back or repeats. */
static bool small(const tn_kdef *k, values *v) {
  double points = 1;
  if (k->n_param > MAX_PARAMS || tn_dims_n_syms(k->dims) > MAX_SYMS || k->n_x > 300) return false;
  for (int i = 0; i < MAX_SYMS; i++) v->sym[i] = 3 + i % 2;
  for (uint32_t i = 0; i < k->n_axis; i++) {
    int64_t e;
    if (!value_of(k, k->axis[i].extent, v, &e) || e < 0) return false;
    points *= (double)(e ? e : 1);
  }
  for (uint32_t p = 0; p < k->n_param; p++) {
    int64_t n = 1, last = 0;
    for (uint32_t j = 0; j < k->param[p].rank; j++) {
      int64_t d, s;
      if (!value_of(k, k->param[p].dim[j], v, &d) || !value_of(k, k->param[p].stride[j], v, &s) || d < 0 || d > MAX_ELEMS || s < 0 ||
          s > MAX_ELEMS)
        return false;
      n = d ? n : 0;
      last += d ? (d - 1) * s : 0;
    }
    v->elems[p] = n ? last + 1 : 0;
    if (last >= MAX_ELEMS) return false;
  }
  return points < 20000;
}

static bool make_memory(const tn_kdef *k, values *v) {
  v->mem = calloc((size_t)k->n_param + 1, sizeof(double) * (MAX_ELEMS + 64));
  if (!v->mem) return false;
  for (uint32_t p = 0; p < k->n_param; p++) {
    v->ptr[p] = v->mem + (size_t)p * (MAX_ELEMS + 64);
    tn_dtype t = (tn_dtype)k->param[p].dtype;
    for (int64_t i = 0; i < v->elems[p] && !k->param[p].written; i++) {
      tn_num x =
          tn_dtype_is_float(t) ? (tn_num){.f = (double)((i * 37 + p * 11) % 23) / 8 - 1} : (tn_num){.i = t == TN_BOOL ? i & 1 : i % 3};
      tn_num_store(t, (char *)v->ptr[p] + i * (int64_t)tn_dtype_size(t), x);
    }
  }
  return true;
}

/* Every stored stage writes each of its elements once, so that order does not matter; no values that rounding turns over. */
static bool orderly(const tn_kdef *k) {
  for (uint32_t s = 0; s < k->n_stage; s++) {
    const tn_kstage *st = &k->stage[s];
    if (st->out < 0) continue;
    uint32_t seen = 0;
    tn_dim run = 1;
    for (uint32_t j = k->param[st->out].rank; j-- > 0;) {
      const tn_kx *x = &k->x[st->out_idx[j]];
      if (k->param[st->out].stride[j] != run) return false;
      run = tn_dim_mul(k->dims, run, k->param[st->out].dim[j]);
      if (x->op == TN_KX_AXIS) seen |= 1u << x->ref;
    }
    for (uint32_t j = 0; j < st->n_axis; j++)
      if (!(seen >> st->axis[j] & 1) && k->axis[st->axis[j]].extent != 1) return false;
    for (uint32_t q = 0; q < s; q++)
      if (k->stage[q].out == st->out) return false;
  }
  for (uint32_t i = 1; i < k->n_x; i++) {
    const tn_kx *x = &k->x[i];
    if (x->op == TN_KX_CAST && tn_dtype_is_float((tn_dtype)k->x[x->arg[0]].dtype) && !tn_dtype_is_float((tn_dtype)x->dtype)) return false;
    if (x->dtype == TN_F16 || x->dtype == TN_BF16) return false;
    if (x->op != TN_KX_SCALAR) continue;
    tn_dtype t = (tn_dtype)k->x[x->arg[x->sop == TN_S_SELECT]].dtype;
    bool steps = x->sop == TN_S_FLOOR || x->sop == TN_S_CEIL || x->sop == TN_S_ROUND || x->sop == TN_S_TRUNC || x->sop == TN_S_SIGN ||
                 x->sop == TN_S_FLOORDIV || x->sop == TN_S_REMAINDER || x->sop == TN_S_FMOD || x->sop == TN_S_TRUNCDIV ||
                 tn_scalar_is_bool((tn_scalar_op)x->sop);
    if (tn_dtype_is_float(t) && steps) return false;
  }
  return true;
}

static void compare(const tn_kdef *k, const values *a, const values *b, const char *text) {
  tn_diag d;
  for (uint32_t p = 0; p < k->n_param; p++) {
    tn_dtype t = (tn_dtype)k->param[p].dtype;
    if (!k->param[p].written) continue;
    for (int64_t i = 0; i < a->elems[p]; i++) {
      tn_num x = tn_num_load(t, (char *)a->ptr[p] + i * (int64_t)tn_dtype_size(t)),
             y = tn_num_load(t, (char *)b->ptr[p] + i * (int64_t)tn_dtype_size(t));
      bool same = tn_dtype_is_float(t)
                      ? (isnan(x.f) && isnan(y.f)) || x.f == y.f || fabs(x.f - y.f) <= 1e-3 * (1 + fabs(x.f)) || fabs(x.f) > 1e6
                      : x.i == y.i;
      snprintf(d.text, sizeof d.text, "%s[%lld] is %g, wanted %g", k->param[p].name, (long long)i, tn_dtype_is_float(t) ? y.f : (double)y.i,
               tn_dtype_is_float(t) ? x.f : (double)x.i);
      check(same, "nest and definition differ", &d, text);
    }
  }
}

static void run_nest(const tn_kdef *k, const tn_nest *n, const tn_nest_info *info, const values *want, bool orderly, const char *text) {
  static const double zeros[TN_ZEROS_BYTES / sizeof(double)];
  values v = *want;
  tn_diag d;
  int64_t size[64], blocks;
  int32_t status = 0;
  for (uint32_t i = 0; i < info->n_size; i++)
    if (!value_of(k, info->size[i], &v, &size[i])) return;
  if (!value_of(k, info->blocks, &v, &blocks) || blocks > 100000 || n->n > 20000) return;
  int64_t bytes = tn_nest_scratch_bytes(n, size);
  check(bytes >= 0, "scratch has no size", &d, text);
  if (bytes > 1 << 24) return;
  void *scratch = calloc(1, (size_t)bytes + 1);
  tn_kernel_args args = {v.ptr, size, zeros, &status};
  if (scratch && make_memory(k, &v)) {
    check(tn_nest_interpret(&d, n, &args, 0, blocks, scratch) == TN_OK, "a verified nest does not run", &d, text);
    if (orderly) compare(k, want, &v, text);
    free(v.mem);
  }
  free(scratch);
}

/* ---- schedules ---- */
static void check_sched(tn_arena *a, tn_kdef *k, const char *text, size_t n, const values *want) {
  tn_diag d;
  tn_ksched *s, *again;
  tn_str first, second;
  tn_diag_clear(&d);
  tn_status st = tn_ksched_parse(&d, a, k, text, n, &s);
  check(st == TN_OK || st == TN_E_PARSE || st == TN_E_NOMEM, "schedule refused with another code", &d, NULL);
  if (st != TN_OK) return;
  tn_malloc_fail_after(0);
  tn_str_init(&first);
  tn_str_init(&second);
  tn_ksched_print(s, k, &first);
  const char *t = first.s ? first.s : "";
  check(tn_ksched_parse(&d, a, k, t, first.n, &again) == TN_OK, "printed schedule does not parse", &d, t);
  tn_ksched_print(again, k, &second);
  check(first.n == second.n && (!first.n || memcmp(t, second.s, first.n) == 0), "schedule changes when it is read and printed", &d, t);
  st = tn_ksched_verify(&d, k, s);
  check(st == TN_OK || st == TN_E_VERIFY || st == TN_E_ARG || st == TN_E_UNSUPPORTED, "schedule verifier gives another code", &d, t);
  bool packs = false;
  for (uint32_t i = 0; i < s->n_pack; i++) packs |= s->pack[i];
  if (st == TN_OK && want) {
    tn_target target;
    tn_nest *nest;
    tn_nest_info info;
    tn_target_init(&target, TN_LEVEL_V3);
    st = tn_nest_build(&d, a, k, s, &target, &nest, &info);
    check(st == TN_OK || st == TN_E_UNSUPPORTED || st == TN_E_ARG, "a verified schedule makes no nest", &d, t);
    if (st == TN_OK) check(tn_nest_verify(&d, nest) == TN_OK, "the nest of a verified schedule does not verify", &d, t);
    if (st == TN_OK && !packs) run_nest(k, nest, &info, want, orderly(k), t);
  }
  tn_str_deinit(&first);
  tn_str_deinit(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  tn_arena a;
  tn_kdef *k;
  tn_diag d;
  tn_dims *dims = tn_dims_create();
  const char *text = (const char *)data;
  size_t split = 0;
  static const char mark[] = "\nsched ";
  while (split + sizeof mark - 1 <= n && memcmp(text + split, mark, sizeof mark - 1) != 0) split++;
  bool has_sched = split + sizeof mark - 1 <= n;
  tn_arena_init(&a);
  tn_diag_clear(&d);
  tn_status st = dims ? tn_kdef_parse(&d, &a, dims, text, has_sched ? split : n, &k) : TN_E_NOMEM;
  if (dims && st == TN_OK) {
    st = tn_kdef_verify(&d, k);
    check(st == TN_OK || st == TN_E_VERIFY || st == TN_E_NOMEM, "verify gives another code", &d, NULL);
    if (n % 2 || st != TN_OK) check_text(k); /* else failing allocations go on into the schedule */
    values v = {.mem = NULL};
    bool ran = false;
    if (st == TN_OK && n % 2 && small(k, &v) && make_memory(k, &v)) {
      tn_status r = tn_kdef_interpret(&d, k, v.sym, v.ptr, v.elems);
      check(r == TN_OK || r == TN_E_ARG || r == TN_E_INDEX || r == TN_E_NOMEM, "interpreter gives another code", &d, NULL);
      ran = r == TN_OK;
    }
    if (st == TN_OK && has_sched) check_sched(&a, k, text + split + sizeof mark - 1, n - split - (sizeof mark - 1), ran ? &v : NULL);
    free(v.mem);
  } else {
    check(st == TN_E_PARSE || st == TN_E_NOMEM, "refused with another code", &d, NULL);
  }
  tn_arena_deinit(&a);
  tn_dims_destroy(dims);
  return 0;
}

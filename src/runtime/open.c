/* Models from packages: checks the file, picks the part that uses most of what this machine has and the caller allows, and loads it. The package stays
 * mapped while the model lives: its weights are used where they lie. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include "runtime/model_int.h"

static _Atomic(tn_model_checker) checker;

static _Atomic(tn_model_rebuilder) rebuilder;

void tn_model_set_checker(tn_model_checker fn) { atomic_store(&checker, fn); }
void tn_model_set_rebuilder(tn_model_rebuilder fn) { atomic_store(&rebuilder, fn); }

void tn_model_options_init(tn_model_options *o) { *o = (tn_model_options){.struct_size = sizeof *o}; }

static tn_status machine(tn_diag *d, const char *isa, tn_target *t) {
  tn_level level;
  tn_status st = tn_device_target(t);
  if (st != TN_OK) return tn_fail(d, st, st == TN_E_ARG ? "%s names no level" : "this machine is below every level (%s)", tn_env_name(TN_ENV_ISA));
  if (!isa || !*isa) return TN_OK;
  if (!tn_target_level_parse(isa, strlen(isa), &level)) return tn_fail(d, TN_E_ARG, "no level is called '%s'", isa);
  tn_target_limit(t, level);
  return TN_OK;
}

/* The part that uses most of what this machine has; NULL when none runs here. levels: those there are, for the message. */
static const char *pick(const tn_package *k, const tn_target *t, char *levels, size_t n) {
  const char *best = NULL;
  int high = -1;
  size_t at = 0;
  levels[0] = 0;
  for (uint32_t i = 0; i < tn_package_n_sections(k); i++) {
    const tn_package_section *s = tn_package_get(k, i);
    if (s->kind != TN_PK_MODULE) continue;
    if (at < n) at += (size_t)snprintf(levels + at, n - at, "%s%s", at ? ", " : "", s->level);
    if (!tn_target_has(t, s->flags) || __builtin_popcount(s->flags) <= high) continue;
    best = s->level;
    high = __builtin_popcount(s->flags);
  }
  return best;
}

static const tn_package_section *portable(const tn_package *k) {
  for (uint32_t i = 0; i < tn_package_n_sections(k); i++)
    if (tn_package_get(k, i)->kind == TN_PK_PORTABLE) return tn_package_get(k, i);
  return NULL;
}

static void close_package(void *k) { tn_package_close(k); }

static tn_status load(tn_diag *d, tn_package *k, const tn_model_options *o, tn_model **out) {
  tn_target t;
  char levels[256];
  tn_module *m;
  tn_status st = TN_OK;
  if (o->public_key) {
    tn_model_checker fn = atomic_load(&checker);
    st = fn ? fn(d, k, o->public_key) : tn_fail(d, TN_E_UNSUPPORTED, "this run time cannot check signatures: link libtenon, or check the file with 'tenon verify' before");
  }
  if (st == TN_OK) st = machine(d, o->isa, &t);
  const char *level = st == TN_OK ? pick(k, &t, levels, sizeof levels) : NULL;
  const tn_package_section *form = st == TN_OK && !level ? portable(k) : NULL;
  tn_model_rebuilder build = atomic_load(&rebuilder);
  if (form && build) {
    st = build(d, form, o->isa, out);
    tn_package_close(k);
    return st;
  }
  if (st == TN_OK && !level)
    st = tn_fail(d, TN_E_UNSUPPORTED, "the package has nothing for this machine (%s%s); it has: %s%s", tn_target_level_name((tn_level)t.level), o->isa ? ", as limited" : "",
                 *levels ? levels : "no level", form ? ", and a portable form that only libtenon can use" : "");
  if (st == TN_OK) st = tn_package_module(d, k, level, &m);
  if (st != TN_OK) {
    tn_package_close(k);
    return st;
  }
  TN_TRY(tn_model_create_over(d, m, k, close_package, out));
  (*out)->package = k;
  return TN_OK;
}

static tn_model_options options(const tn_model_options *o) {
  tn_model_options opt;
  tn_model_options_init(&opt);
  if (o) memcpy(&opt, o, o->struct_size < sizeof opt ? o->struct_size : sizeof opt);
  return opt;
}

/* The words go to the caller; cut off when its room is small. */
static tn_status finish(tn_status st, const tn_diag *d, char *error, size_t error_n) {
  if (error_n) snprintf(error, error_n, "%s", st == TN_OK ? "" : d->text);
  return st;
}

static tn_pool *helpers(void) { return tn_device_pool(tn_device_cores()); }

tn_status tn_model_open(const char *path, const tn_model_options *o, tn_model **out, char *error, size_t error_n) {
  tn_model_options opt = options(o);
  tn_package *k;
  tn_diag d = {0};
  *out = NULL;
  tn_status st = tn_package_open(&d, path, opt.no_verify != 0, helpers(), &k);
  if (st == TN_OK && (st = load(&d, k, &opt, out)) != TN_OK) tn_diag_while(&d, st, "opening %s", path);
  return finish(st, &d, error, error_n);
}

tn_status tn_model_open_memory(const void *p, size_t n, const tn_model_options *o, tn_model **out, char *error, size_t error_n) {
  tn_model_options opt = options(o);
  tn_package *k;
  tn_diag d = {0};
  *out = NULL;
  tn_status st = tn_package_open_memory(&d, p, n, opt.no_verify != 0, helpers(), &k);
  if (st == TN_OK) st = load(&d, k, &opt, out);
  return finish(st, &d, error, error_n);
}

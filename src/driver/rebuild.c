/* rebuild.c: a package's portable form, compiled for this machine when none of its parts runs here. With TENON_CACHE_DIR set, the result is a package there, named
 * by what it was made of: the model's bytes, the machine, and this build of the compiler. A cached package is checked like any other; one that does not open
 * is made again. Whoever can write to that folder can run code here: it should be the user's own. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "device/cpu/cpuid.h"
#include "driver/driver_int.h"
#include "plan/package.h"
#include <sys/stat.h>

/* What tells one build of the compiler from another: the file that holds this code, by its size and time. */
static void this_build(tn_str *out) {
  Dl_info info;
  struct stat st;
  static const char here = 0;
  if (dladdr(&here, &info) && info.dli_fname && stat(info.dli_fname, &st) == 0)
    tn_str_add(out, " %lld %lld.%09ld", (long long)st.st_size, (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
  else
    tn_str_add(out, " %s %s", __DATE__, __TIME__);
}

static tn_status cache_path(tn_diag *d, const tn_package_section *s, const char *isa, char *out, size_t n) {
  const char *folder = tn_env_get(TN_ENV_CACHE_DIR);
  tn_target t;
  tn_level level;
  out[0] = 0;
  if (!*folder) return TN_OK;
  TN_TRY(tn_cpu_detect(&t));
  if (isa && *isa && tn_target_level_parse(isa, strlen(isa), &level)) tn_target_limit(&t, level);
  tn_str machine;
  tn_str_init(&machine);
  tn_target_print(&t, &machine);
  this_build(&machine);
  uint64_t a = tn_hash(s->p, (size_t)s->bytes, 11), b = machine.oom ? 0 : tn_hash(machine.s, machine.n, a);
  bool fine = !machine.oom && snprintf(out, n, "%s/%016" PRIx64 "%016" PRIx64 ".tnp", folder, a, b) < (int)n;
  tn_str_deinit(&machine);
  if (!fine) return tn_fail(d, TN_E_ARG, "the path of the cache is too long");
  return tn_dir_make(d, folder);
}

tn_status tn_rebuild(tn_diag *d, const tn_package_section *s, const char *isa, tn_model **out) {
  char path[4096], why[512];
  tn_compile_options o;
  tn_compiled *c = NULL;
  tn_model_options mo;
  *out = NULL;
  if (strcmp(s->level, "onnx") != 0) return tn_fail(d, TN_E_UNSUPPORTED, "the package's portable form is '%s', which this version does not know", s->level);
  TN_TRY(cache_path(d, s, isa, path, sizeof path));
  tn_model_options_init(&mo);
  mo.isa = isa;
  if (*path && tn_model_open(path, &mo, out, why, sizeof why) == TN_OK) return TN_OK;
  uint64_t t0 = tn_now_ns();
  tn_compile_options_init(&o);
  o.isa = isa;
  tn_status st = tn_compile_onnx(s->p, (size_t)s->bytes, NULL, &o, &c);
  if (st == TN_OK && !(*out = tn_compiled_model(c))) st = TN_E_UNSUPPORTED;
  if (st != TN_OK) tn_fail(d, st, "%s; while compiling the package's portable form for this machine", c ? tn_compiled_error(c) : "out of memory");
  else tn_log("package", "no part of the package runs here: its portable form was compiled in %.1f ms%s%s", (double)(tn_now_ns() - t0) / 1e6, *path ? ", cached as " : "", path);
  if (st == TN_OK && *path && tn_compiled_save(c, path) != TN_OK) tn_log("package", "the cache cannot be written: %s", tn_compiled_error(c)); /* it runs all the same */
  tn_compiled_destroy(c);
  return st;
}

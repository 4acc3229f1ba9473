/* test: folders of the ONNX standard's form: model.onnx and test_data_set_*, each with input_K.pb and output_K.pb. Results must agree within tolerances: numbers
 * |got - want| <= atol + rtol * |want|, where NaN equals NaN; everything else exactly. */
#define _GNU_SOURCE
#include "model.h"
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- one element as a double ---- */

static double half(uint16_t h) {
  int e = h >> 10 & 31, m = h & 1023;
  double v = e == 31 ? (m ? NAN : INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
  return h & 0x8000 ? -v : v;
}
static double small(int elem, uint8_t b) { /* one byte of a type narrower than 16 bits */
  int s = b >> 7;
  double v;
  switch (elem) {
  case 17: v = (b & 127) == 127 ? NAN : b >> 3 & 15 ? ldexp(8 + (b & 7), (b >> 3 & 15) - 10) : ldexp(b & 7, -9); break;
  case 18: if (b == 128) return NAN;
    v = b >> 3 & 15 ? ldexp(8 + (b & 7), (b >> 3 & 15) - 11) : ldexp(b & 7, -10);
    break;
  case 19: v = (b >> 2 & 31) == 31 ? (b & 3 ? NAN : INFINITY) : b >> 2 & 31 ? ldexp(4 + (b & 3), (b >> 2 & 31) - 17) : ldexp(b & 3, -16); break;
  case 20: if (b == 128) return NAN;
    v = b >> 2 & 31 ? ldexp(4 + (b & 3), (b >> 2 & 31) - 18) : ldexp(b & 3, -17);
    break;
  case 23: s = b >> 3 & 1, v = (const double[]){0, .5, 1, 1.5, 2, 3, 4, 6}[b & 7]; break;
  case 27: s = b >> 5 & 1, v = b >> 3 & 3 ? ldexp(8 + (b & 7), (b >> 3 & 3) - 4) : ldexp(b & 7, -3); break;
  case 28: s = b >> 5 & 1, v = b >> 2 & 7 ? ldexp(4 + (b & 3), (b >> 2 & 7) - 5) : ldexp(b & 3, -4); break;
  case 24: return b == 255 ? NAN : ldexp(1, b - 127);
  default: return b;
  }
  return s ? -v : v;
}
static double number(const tn_tensor *t, int elem, const char *p) {
  uint32_t f;
  float x;
  switch (t->dtype) {
  case TN_F32: return (double)*(const float *)p;
  case TN_F64: return *(const double *)p;
  case TN_F16: return half(*(const uint16_t *)p);
  case TN_BF16: f = (uint32_t)*(const uint16_t *)p << 16; memcpy(&x, &f, 4); return (double)x;
  case TN_U8: return small(elem, *(const uint8_t *)p);
  case TN_I8: return *(const int8_t *)p;
  default: return 0;
  }
}

static size_t size_of(int dtype) {
  switch (dtype) {
  case TN_F64: case TN_I64: case TN_U64: return 8;
  case TN_F32: case TN_I32: case TN_U32: return 4;
  case TN_F16: case TN_BF16: case TN_I16: case TN_U16: return 2;
  default: return 1;
  }
}

/* ---- comparing ---- */

typedef struct tolerance { double rtol, atol; char why[300]; } tolerance;

static int same(const tn_value *got, const tn_value *want, tolerance *tol);

/* Byte offset of element i in row-major order. */
static int64_t offset(const tn_tensor *t, size_t i) {
  int64_t at = 0;
  for (int k = t->rank; k-- > 0;) {
    at += (int64_t)(i % (size_t)t->shape[k]) * t->strides[k];
    i /= (size_t)t->shape[k];
  }
  return at * (int64_t)size_of(t->dtype);
}

static int same_tensor(const tn_value *got, const tn_value *want, tolerance *tol) {
  const tn_tensor *g = tn_value_tensor(got), *w = tn_value_tensor(want);
  int elem = tn_value_elem(want), exact = elem != 1 && elem != 10 && elem != 11 && elem != 16 && !(elem >= 17 && elem <= 20) && elem != 23 && elem != 24;
  size_t size = size_of(w->dtype);
  for (size_t i = 0; i < tn_value_n(want); i++) {
    const char *p = (const char *)g->data + offset(g, i), *q = (const char *)w->data + offset(w, i);
    if (memcmp(p, q, size) == 0) continue;
    double a = exact ? 1 : number(g, tn_value_elem(got), p), b = exact ? 0 : number(w, elem, q);
    if (!exact && ((isnan(a) && isnan(b)) || a == b || fabs(a - b) <= tol->atol + tol->rtol * fabs(b))) continue;
    if (exact) snprintf(tol->why, sizeof tol->why, "element %zu differs", i);
    else snprintf(tol->why, sizeof tol->why, "element %zu is %.9g, wanted %.9g", i, a, b);
    return 0;
  }
  return 1;
}

static int same(const tn_value *got, const tn_value *want, tolerance *tol) {
  char a[300], b[300];
  cli_value_text(got, a, sizeof a);
  cli_value_text(want, b, sizeof b);
  if (strcmp(a, b) != 0) {
    snprintf(tol->why, sizeof tol->why, "%.140s, wanted %.140s", a, b);
    return 0;
  }
  switch (tn_value_get_kind(want)) {
  case TN_VALUE_TENSOR: return same_tensor(got, want, tol);
  case TN_VALUE_STRINGS:
    for (size_t i = 0; i < tn_value_n(want); i++) {
      size_t n, m;
      const char *x = tn_value_string(got, i, &n), *y = tn_value_string(want, i, &m);
      if (n == m && memcmp(x, y, n) == 0) continue;
      snprintf(tol->why, sizeof tol->why, "string %zu is \"%.60s\", wanted \"%.60s\"", i, x, y);
      return 0;
    }
    return 1;
  case TN_VALUE_LIST:
  case TN_VALUE_MAP:
    for (size_t i = 0, n = tn_value_get_kind(want) == TN_VALUE_MAP ? 2 : tn_value_n(want); i < n; i++)
      if (!same(tn_value_item(got, i), tn_value_item(want, i), tol)) return 0;
    return 1;
  default: return 1;
  }
}

/* ---- one folder ---- */

/* Reads PREFIX_K.pb for port k; NULL: not there or broken (said in why). */
static tn_value *datum(const char *dir, const char *prefix, size_t k, int kind, char *why, size_t why_n) {
  char path[1400];
  tn_value *v = NULL;
  size_t n;
  snprintf(path, sizeof path, "%s/%s_%zu.pb", dir, prefix, k);
  FILE *f = fopen(path, "rb");
  char *p = f ? cli_slurp(f, &n) : NULL;
  if (f) fclose(f);
  if (!p) {
    snprintf(why, why_n, "%s_%zu.pb can't be read", prefix, k);
    return NULL;
  }
  (void)!(tn_onnx_value_read(p, n, kind, &v, why, why_n) == TN_OK);
  free(p);
  return v;
}

static int data_set(const tn_model *m, tn_session *s, const char *dir, tolerance *tol) {
  size_t n_in = tn_model_n_in(m), n_out = tn_model_n_out(m);
  tn_value **v = calloc(n_in + 2 * n_out + 1, sizeof *v), **got = v + n_in, **want = got + n_out;
  tn_port p;
  int ok = v != NULL;
  tol->why[0] = 0;
  for (size_t i = 0; i < n_in && ok; i++) {
    tn_model_in(m, (uint32_t)i, &p);
    v[i] = datum(dir, "input", i, p.kind, tol->why, sizeof tol->why);
    ok = v[i] || p.kind == 2 || p.kind == 3;
  }
  for (size_t i = 0; i < n_out && ok; i++) {
    tn_model_out(m, (uint32_t)i, &p);
    ok = (want[i] = datum(dir, "output", i, p.kind, tol->why, sizeof tol->why)) != NULL;
  }
  if (ok) {
    tn_status st = tn_session_run(s, v, got);
    if (st != TN_OK) {
      snprintf(tol->why, sizeof tol->why, "%s: %.250s", tn_status_name(st), tn_session_error(s));
      memset(got, 0, n_out * sizeof *got);
      ok = 0;
    }
  }
  for (size_t i = 0; i < n_out && ok; i++) {
    ok = same(got[i], want[i], tol);
    if (ok) continue;
    char text[300];
    tn_model_out(m, (uint32_t)i, &p);
    snprintf(text, sizeof text, "output '%.50s': %.220s", p.name, tol->why);
    memcpy(tol->why, text, sizeof text);
  }
  if (v) cli_values_free(v, n_in + 2 * n_out);
  free(v);
  return ok;
}

static int is_set(const struct dirent *e) { return strncmp(e->d_name, "test_data_set_", 14) == 0; }

/* Compiles and runs all sets of one folder; why: of the first failure. */
static int one(const char *dir, const cli_common *c, tolerance *tol) {
  static cli_shapes room;
  char path[1200];
  struct dirent **set;
  tn_compile_options o;
  tn_compiled *k = NULL;
  tn_model *m = NULL;
  tn_session *s = NULL;
  snprintf(path, sizeof path, "%.1000s/model.onnx", dir);
  if (cli_compile_options("test", c, &room, &o) != CLI_OK) return 0;
  int ok = tn_compile_onnx_file(path, &o, &k) == TN_OK && (m = tn_compiled_model(k)) != NULL;
  if (!ok) snprintf(tol->why, sizeof tol->why, "%.290s", k ? tn_compiled_error(k) : "out of memory");
  tn_session_options so;
  tn_session_options_init(&so);
  so.threads = (int32_t)c->threads;
  if (ok && tn_session_create(m, &so, &s) != TN_OK) ok = 0, snprintf(tol->why, sizeof tol->why, "a session can't be made");
  int n = ok ? scandir(dir, &set, is_set, alphasort) : 0;
  if (ok && n <= 0) ok = 0, snprintf(tol->why, sizeof tol->why, "no test_data_set_* in it");
  for (int i = 0; i < n; i++) {
    snprintf(path, sizeof path, "%.1000s/%.100s", dir, set[i]->d_name);
    if (ok) ok = data_set(m, s, path, tol);
    free(set[i]);
  }
  if (n > 0) free(set);
  tn_session_destroy(s);
  tn_model_release(m);
  tn_compiled_destroy(k);
  return ok;
}

static int visible(const struct dirent *e) { return e->d_name[0] != '.'; }

typedef struct tally { int passed, failed, json; const cli_common *c; tolerance tol; } tally;

/* A test folder, or a folder of them. */
static void walk(const char *dir, tally *t, int depth) {
  char path[1200];
  struct stat s;
  snprintf(path, sizeof path, "%.1000s/model.onnx", dir);
  if (stat(path, &s) == 0) {
    int ok = one(dir, t->c, &t->tol);
    t->passed += ok;
    t->failed += !ok;
    if (t->json) {
      printf("{\"test\": ");
      cli_json_text(stdout, dir);
      printf(", \"ok\": %s, \"why\": ", ok ? "true" : "false");
      cli_json_text(stdout, ok ? "" : t->tol.why);
      printf("}\n");
    } else if (!ok) printf("FAIL %s: %s\n", dir, t->tol.why);
    fflush(stdout);
    return;
  }
  struct dirent **e;
  int n = depth < 4 ? scandir(dir, &e, visible, alphasort) : -1;
  for (int i = 0; i < n; i++) {
    snprintf(path, sizeof path, "%.1000s/%.190s", dir, e[i]->d_name);
    if (stat(path, &s) == 0 && S_ISDIR(s.st_mode)) walk(path, t, depth + 1);
    free(e[i]);
  }
  if (n >= 0) free(e);
}

int cli_test(int argc, char **argv) {
  cli_common c = {.threads = 1};
  const char *pos[64], *rtol = "1e-3", *atol = "1e-7";
  char *end1, *end2;
  int json = 0, n_pos, r;
  const cli_option opts[] = {CLI_COMMON(c), {"--rtol", CLI_O_TEXT, &rtol}, {"--atol", CLI_O_TEXT, &atol}, {"--json", CLI_O_FLAG, &json}};
  if ((r = cli_args(argc, argv, opts, sizeof opts / sizeof *opts, pos, 64, &n_pos)) != CLI_OK) return r;
  if (!n_pos) return cli_usage("test", "at least one folder is wanted");
  tally t = {.json = json, .c = &c};
  t.tol.rtol = strtod(rtol, &end1);
  t.tol.atol = strtod(atol, &end2);
  if (*end1 || *end2) return cli_usage("test", "--rtol and --atol want numbers");
  for (int i = 0; i < n_pos; i++) walk(pos[i], &t, 0);
  if (!t.passed && !t.failed) return cli_failed("test", "no model.onnx in there");
  if (json) printf("{\"passed\": %d, \"failed\": %d}\n", t.passed, t.failed);
  else printf("%d passed, %d failed\n", t.passed, t.failed);
  return t.failed ? CLI_FAILED : CLI_OK;
}

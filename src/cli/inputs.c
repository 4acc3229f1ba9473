/* inputs: values for the inputs of a model, from .npz, .npy, ONNX .pb, a folder of these, or made up; and results to files.
 *
 * A .npz gives arrays by input name. Lists stand in it as "name/0", "name/1", ..., maps as "name/keys" and "name/values", as results are written. A file
 * alone goes to the next input that has none, "name=file" to that input. A folder holds NAME.npy, NAME.pb or input_K.pb. Types that NumPy lacks come as bytes
 * of their size, bfloat16 also as float32. */
#define _GNU_SOURCE
#include "model.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- names of types ---- */

const char *cli_elem_name(int elem) {
  static const char *const name[] = {"undefined", "f32", "u8", "i8", "u16", "i16", "i32", "i64", "string", "bool", "f16", "f64", "u32", "u64", "complex64", "complex128", "bf16", "f8e4m3fn",
                                     "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "u4", "i4", "f4e2m1", "f8e8m0", "u2", "i2", "f6e2m3", "f6e3m2"};
  return elem >= 0 && elem < (int)(sizeof name / sizeof *name) ? name[elem] : "?";
}

void cli_value_text(const tn_value *v, char *text, size_t n) {
  static const char *const kind[] = {"none", "tensor", "strings", "list", "map"};
  tn_value_kind k = v ? tn_value_get_kind(v) : TN_VALUE_NONE;
  if (k != TN_VALUE_TENSOR && k != TN_VALUE_STRINGS) {
    snprintf(text, n, k == TN_VALUE_NONE ? "none" : "%s of %zu", kind[k], v ? tn_value_n(v) : 0);
    return;
  }
  const tn_tensor *t = tn_value_tensor(v);
  size_t at = (size_t)snprintf(text, n, "%s[", cli_elem_name(tn_value_elem(v)));
  for (int i = 0; i < t->rank && at < n; i++) at += (size_t)snprintf(text + at, n - at, i ? ",%lld" : "%lld", (long long)t->shape[i]);
  if (at < n) snprintf(text + at, n - at, "]");
}

void cli_port_text(const tn_port *p, char *text, size_t n) {
  static const char *const kind[] = {"", "sequence of ", "optional ", "optional sequence of ", "map to ", "sequence of maps to ", "any of "};
  size_t at = (size_t)snprintf(text, n, "%s%s", p->kind >= 0 && p->kind < 7 ? kind[p->kind] : "", cli_elem_name(p->elem));
  if (at < n) at += (size_t)snprintf(text + at, n - at, p->rank < 0 ? "[...]" : "[");
  for (int i = 0; i < p->rank && at < n; i++) {
    if (p->dim[i] >= 0) at += (size_t)snprintf(text + at, n - at, i ? ",%lld" : "%lld", (long long)p->dim[i]);
    else at += (size_t)snprintf(text + at, n - at, i ? ",%s" : "%s", p->dim_name && p->dim_name[i] ? p->dim_name[i] : "?");
  }
  if (p->rank >= 0 && at < n) snprintf(text + at, n - at, "]");
}

/* ---- files ---- */

char *cli_file(const char *command, const char *path, size_t *out_n) {
  FILE *f = fopen(path, "rb");
  char *s = f ? cli_slurp(f, out_n) : NULL;
  if (!s) fprintf(stderr, "tenon %s: can't read '%s'%s%s\n", command, path, f ? "" : ": ", f ? "" : strerror(errno));
  if (f) fclose(f);
  return s;
}

static int ends(const char *s, const char *tail) {
  size_t n = strlen(s), m = strlen(tail);
  return n >= m && strcmp(s + n - m, tail) == 0;
}

int cli_read_named(const char *command, const char *path, int kind, cli_names *out) {
  char why[512] = "";
  size_t n;
  char *p = cli_file(command, path, &n);
  tn_value *v = NULL;
  int ok = 0;
  if (!p) return CLI_FAILED;
  if (ends(path, ".npz")) {
    ok = cli_npz_read(p, n, out, why, sizeof why);
  } else {
    if (ends(path, ".pb")) (void)!(tn_onnx_value_read(p, n, kind, &v, why, sizeof why) == TN_OK);
    else v = cli_npy_read(p, n, why, sizeof why);
    ok = v && cli_names_add(out, "", 0, v);
  }
  free(p);
  if (!ok) fprintf(stderr, "tenon %s: %s: %s\n", command, path, *why ? why : "out of memory");
  return ok ? CLI_OK : CLI_FAILED;
}

/* ---- values as ports want them ---- */

/* The value with the port's element type where only bits or float32 for bfloat16 came; takes v over. */
static tn_value *as_port(tn_value *v, const tn_port *p) {
  if (!v || tn_value_get_kind(v) != TN_VALUE_TENSOR || tn_value_elem(v) == p->elem) return v;
  tn_tensor t = *tn_value_tensor(v);
  tn_value *w = NULL;
  if (p->elem == 16 && t.dtype == TN_F32) {
    size_t n = tn_value_n(v);
    uint16_t *h = malloc(n * 2 + 2);
    for (size_t i = 0; h && i < n; i++) { /* values are read dense and in order */
      uint32_t f;
      memcpy(&f, (const char *)t.data + 4 * i, 4);
      h[i] = (f & 0x7fffffff) > 0x7f800000 ? (uint16_t)(f >> 16 | 64) : (uint16_t)((f + 0x7fff + (f >> 16 & 1)) >> 16);
    }
    tn_tensor b = {h, t.shape, NULL, t.rank, TN_BF16};
    w = h ? tn_value_copy(&b, 16) : NULL;
    free(h);
  } else if (p->elem == 16 && t.dtype == TN_U16) {
    t.dtype = TN_BF16;
    w = tn_value_copy(&t, 16);
  } else if (p->elem >= 17 && (t.dtype == TN_U8 || t.dtype == TN_I8)) {
    t.dtype = p->elem == 22 || p->elem == 26 ? TN_I8 : TN_U8;
    w = tn_value_copy(&t, p->elem);
  }
  if (!w) return v;
  tn_value_release(v);
  return w;
}

/* "name", or the list "name/0".., or the map "name/keys" and "name/values"; retained. NULL: nothing of it there. */
static tn_value *named(const cli_names *x, const char *name) {
  char sub[600];
  tn_value *v = cli_names_find(x, name), *item[4096];
  if (v) {
    tn_value_retain(v);
    return v;
  }
  snprintf(sub, sizeof sub, "%s/keys", name);
  tn_value *k = cli_names_find(x, sub);
  snprintf(sub, sizeof sub, "%s/values", name);
  v = cli_names_find(x, sub);
  if (k && v) return tn_value_map(k, v);
  size_t n = 0;
  for (; n < 4096; n++) {
    snprintf(sub, sizeof sub, "%s/%zu", name, n);
    if (!(item[n] = cli_names_find(x, sub))) break;
  }
  return n ? tn_value_list(item, n) : NULL;
}

typedef struct filler { const char *command; const tn_model *m; tn_value **in; size_t n; } filler;

static int set(filler *f, size_t i, tn_value *v) {
  tn_port p;
  tn_model_in(f->m, (uint32_t)i, &p);
  if (!v) return cli_failed(f->command, "out of memory");
  tn_value_release(f->in[i]);
  f->in[i] = as_port(v, &p);
  return CLI_OK;
}

static int file(filler *f, size_t i, const char *path) {
  cli_names x = {0};
  tn_port p;
  tn_model_in(f->m, (uint32_t)i, &p);
  int r = cli_read_named(f->command, path, p.kind, &x);
  if (r == CLI_OK) {
    tn_value_retain(x.at[0].value);
    r = set(f, i, x.at[0].value);
  }
  cli_names_free(&x);
  return r;
}

static int npz(filler *f, const char *path) {
  cli_names x = {0};
  int r = cli_read_named(f->command, path, 0, &x);
  size_t taken = 0;
  for (size_t i = 0; r == CLI_OK && i < f->n; i++) {
    tn_port p;
    tn_model_in(f->m, (uint32_t)i, &p);
    tn_value *v = named(&x, p.name);
    if (!v) continue;
    taken++;
    r = set(f, i, v);
  }
  if (r == CLI_OK && !taken && x.n) {
    fprintf(stderr, "tenon %s: %s has no array named like an input; it has '%s'%s, the first input is ", f->command, path, x.at[0].name, x.n > 1 ? ", ..." : "");
    tn_port p = {.name = "none"};
    if (f->n) tn_model_in(f->m, 0, &p);
    fprintf(stderr, "'%s'\n", p.name);
    r = CLI_FAILED;
  }
  cli_names_free(&x);
  return r;
}

static int folder(filler *f, const char *path) {
  char name[1200];
  struct stat s;
  for (size_t i = 0; i < f->n; i++) {
    tn_port p;
    tn_model_in(f->m, (uint32_t)i, &p);
    for (int form = 0; form < 3; form++) {
      if (form < 2) snprintf(name, sizeof name, form ? "%s/%s.pb" : "%s/%s.npy", path, p.name);
      else snprintf(name, sizeof name, "%s/input_%zu.pb", path, i);
      if (stat(name, &s) != 0) continue;
      int r = file(f, i, name);
      if (r != CLI_OK) return r;
      break;
    }
  }
  return CLI_OK;
}

static int one(filler *f, const char *arg) {
  struct stat s;
  if (stat(arg, &s) == 0 && S_ISDIR(s.st_mode)) return folder(f, arg);
  const char *eq = strchr(arg, '=');
  if (stat(arg, &s) != 0 && eq) {
    for (size_t i = 0; i < f->n; i++) {
      tn_port p;
      tn_model_in(f->m, (uint32_t)i, &p);
      if (strlen(p.name) == (size_t)(eq - arg) && strncmp(p.name, arg, (size_t)(eq - arg)) == 0) return file(f, i, eq + 1);
    }
    fprintf(stderr, "tenon %s: no input is named '%.*s'\n", f->command, (int)(eq - arg), arg);
    return CLI_FAILED;
  }
  if (ends(arg, ".npz")) return npz(f, arg);
  for (size_t i = 0; i < f->n; i++)
    if (!f->in[i]) return file(f, i, arg);
  fprintf(stderr, "tenon %s: %s: every input has a value already\n", f->command, arg);
  return CLI_FAILED;
}

/* ---- made up ---- */

static uint64_t next(uint64_t *s) { /* splitmix64 */
  uint64_t z = *s += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

static void element(int dtype, void *to, uint64_t r) {
  float f = (float)((double)(r >> 40) / (1 << 23) - 1); /* in [-1, 1) */
  double d = f;
  uint16_t half = (uint16_t)((r & 0x8000) | 0x3800 | (r >> 16 & 0x3ff)), bf = (uint16_t)((r & 0x8000) | 0x3f00 | (r >> 16 & 0x7f)); /* +-[0.5, 1) */
  int64_t i = (int64_t)(r >> 63);                                                                                                  /* 0 or 1: valid as index and flag */
  switch (dtype) {
  case TN_F32: memcpy(to, &f, 4); break;
  case TN_F64: memcpy(to, &d, 8); break;
  case TN_F16: memcpy(to, &half, 2); break;
  case TN_BF16: memcpy(to, &bf, 2); break;
  case TN_I64: case TN_U64: memcpy(to, &i, 8); break;
  case TN_I32: case TN_U32: memcpy(to, &(int32_t){(int32_t)i}, 4); break;
  case TN_I16: case TN_U16: memcpy(to, &(int16_t){(int16_t)i}, 2); break;
  default: memcpy(to, &(int8_t){(int8_t)i}, 1); break;
  }
}

static const struct { int8_t dtype, size; } store[] = {[1] = {TN_F32, 4}, [2] = {TN_U8, 1}, [3] = {TN_I8, 1}, [4] = {TN_U16, 2}, [5] = {TN_I16, 2}, [6] = {TN_I32, 4}, [7] = {TN_I64, 8}, [9] = {TN_BOOL, 1},
                                                       [10] = {TN_F16, 2}, [11] = {TN_F64, 8}, [12] = {TN_U32, 4}, [13] = {TN_U64, 8}, [16] = {TN_BF16, 2}, [17] = {TN_U8, 1}, [18] = {TN_U8, 1},
                                                       [19] = {TN_U8, 1}, [20] = {TN_U8, 1}, [21] = {TN_U8, 1}, [22] = {TN_I8, 1}, [23] = {TN_U8, 1}, [24] = {TN_U8, 1}, [25] = {TN_U8, 1}, [26] = {TN_I8, 1}, [27] = {TN_U8, 1}, [28] = {TN_U8, 1}};

/* Free dims: what --shape says for this input, else 1. */
static int made_up(filler *f, size_t i, const tn_compile_options *o, uint64_t *seed) {
  tn_port p;
  tn_model_in(f->m, (uint32_t)i, &p);
  if (p.kind != 0 || p.rank < 0 || p.elem <= 0 || p.elem >= (int)(sizeof store / sizeof *store) || !store[p.elem].size) {
    fprintf(stderr, "tenon %s: input '%s' can't be made up: it is no tensor of known rank and type\n", f->command, p.name);
    return CLI_FAILED;
  }
  int64_t dim[32], n = 1;
  const tn_compile_shape *given = NULL;
  for (uint32_t k = 0; k < o->n_shape; k++)
    if (strcmp(o->shape[k].input, p.name) == 0 && o->shape[k].rank == p.rank) given = &o->shape[k];
  for (int k = 0; k < p.rank && k < 32; k++) {
    dim[k] = p.dim[k] >= 0 ? p.dim[k] : given && given->dim[k] >= 0 ? given->dim[k] : 1;
    if (__builtin_mul_overflow(n, dim[k], &n) || n > INT64_MAX / 8) return cli_failed(f->command, "an input too large to make up");
  }
  size_t size = (size_t)store[p.elem].size;
  char *data = malloc((size_t)n * size + 8);
  if (!data) return cli_failed(f->command, "out of memory");
  for (int64_t k = 0; k < n; k++) element(store[p.elem].dtype, data + (size_t)k * size, next(seed));
  tn_tensor t = {data, dim, NULL, p.rank, store[p.elem].dtype};
  tn_value *v = tn_value_copy(&t, p.elem);
  free(data);
  return set(f, i, v);
}

int cli_inputs_get(const char *command, const tn_model *m, const cli_inputs *x, const cli_common *c, tn_value **in) {
  static cli_shapes room;
  filler f = {command, m, in, tn_model_n_in(m)};
  tn_compile_options o;
  uint64_t seed = (uint64_t)x->seed;
  for (size_t i = 0; i < f.n; i++) in[i] = NULL;
  int r = cli_compile_options(command, c, &room, &o);
  for (int i = 0; i < x->files.n && r == CLI_OK; i++) r = one(&f, x->files.at[i]);
  for (size_t i = 0; i < f.n && r == CLI_OK; i++) {
    tn_port p;
    tn_model_in(m, (uint32_t)i, &p);
    if (in[i]) continue;
    if (x->random) r = made_up(&f, i, &o, &seed);
    else if (p.kind != 2 && p.kind != 3) {
      char text[300];
      cli_port_text(&p, text, sizeof text);
      fprintf(stderr, "tenon %s: input '%s' (%s) has no value: give --inputs, or --random\n", command, p.name, text);
      r = CLI_FAILED;
    }
  }
  return r;
}

void cli_values_free(tn_value **v, size_t n) {
  for (size_t i = 0; i < n; i++) tn_value_release(v[i]);
}

/* ---- results ---- */

static int write_file(const char *command, const char *path, cli_bytes *b) {
  FILE *f = b->bad ? NULL : fopen(path, "wb");
  int ok = f && fwrite(b->p, 1, b->n, f) == b->n;
  if (f) ok &= fclose(f) == 0;
  if (!ok) fprintf(stderr, "tenon %s: can't write '%s': %s\n", command, path, b->bad ? "out of memory, or a value that has no array form" : strerror(errno));
  free(b->p);
  return ok ? CLI_OK : CLI_FAILED;
}

int cli_outputs_put(const char *command, const tn_model *m, tn_value *const *out, const char *path) {
  size_t n = tn_model_n_out(m);
  cli_names x = {0};
  cli_bytes b = {0};
  int r = CLI_OK;
  tn_port p;
  if (ends(path, ".npy")) {
    if (n != 1) return cli_usage(command, "--out FILE.npy is for models with one output; FILE.npz or a folder takes any number");
    cli_npy_write(&b, out[0]);
    return write_file(command, path, &b);
  }
  for (size_t i = 0; i < n && r == CLI_OK; i++) {
    tn_model_out(m, (uint32_t)i, &p);
    tn_value_retain(out[i]);
    if (!cli_names_add(&x, p.name, strlen(p.name), out[i])) r = cli_failed(command, "out of memory");
  }
  if (r == CLI_OK && ends(path, ".npz")) {
    cli_npz_write(&b, &x);
    r = write_file(command, path, &b);
  } else if (r == CLI_OK) {
    if (mkdir(path, 0777) != 0 && errno != EEXIST) {
      fprintf(stderr, "tenon %s: can't make the folder '%s': %s\n", command, path, strerror(errno));
      r = CLI_FAILED;
    }
    for (size_t i = 0; i < x.n && r == CLI_OK; i++) {
      char name[1200];
      tn_value_kind k = tn_value_get_kind(x.at[i].value);
      if (k != TN_VALUE_TENSOR && k != TN_VALUE_STRINGS) continue;
      snprintf(name, sizeof name, "%s/%s.npy", path, strchr(x.at[i].name, '/') ? "output" : x.at[i].name);
      b = (cli_bytes){0};
      cli_npy_write(&b, x.at[i].value);
      r = write_file(command, name, &b);
    }
  }
  cli_names_free(&x);
  return r;
}

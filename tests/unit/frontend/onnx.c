/* The ONNX importer on models written byte by byte here: what good ones become, and that hostile ones are refused with words that name the place.
 * Allocation failures are survived at every place: each is made to fail in turn. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include "frontend/onnx/onnx.h"

/* ---- a protobuf writer ---- */
typedef struct pb { uint8_t b[1 << 14]; size_t n; } pb;
static void vint(pb *p, uint64_t v) {
  do { p->b[p->n++] = (uint8_t)((v & 127) | (v > 127 ? 128 : 0)); v >>= 7; } while (v);
}
static void num(pb *p, unsigned field, int64_t v) { vint(p, field << 3); vint(p, (uint64_t)v); }
static void bytes(pb *p, unsigned field, const void *s, size_t n) {
  vint(p, field << 3 | 2);
  vint(p, n);
  if (n) memcpy(p->b + p->n, s, n);
  p->n += n;
}
static void str(pb *p, unsigned field, const char *s) { bytes(p, field, s, strlen(s)); }
static void msg(pb *p, unsigned field, const pb *m) { bytes(p, field, m->b, m->n); }

/* ---- pieces of models; each adds to what it is given ---- */
static void shape_of(pb *t, int elem, const char *dims) {       /* "N,4": names and numbers */
  pb tt = {.n = 0}, ty = {.n = 0}, sh = {.n = 0};
  char text[64];
  num(&tt, 1, elem);
  if (dims) {
    snprintf(text, sizeof text, "%s", dims);
    for (char *s = strtok(text, ","); s; s = strtok(NULL, ",")) {
      pb d = {.n = 0};
      if (*s == '-' || (*s >= '0' && *s <= '9')) num(&d, 1, atoll(s));
      else if (*s != '?') str(&d, 2, s);
      msg(&sh, 1, &d);
    }
    msg(&tt, 2, &sh);
  }
  msg(&ty, 1, &tt);
  msg(t, 2, &ty);
}
static void value(pb *g, unsigned field, const char *name, int elem, const char *dims) {
  pb v = {.n = 0};
  str(&v, 1, name);
  shape_of(&v, elem, dims);
  msg(g, field, &v);
}
static void input(pb *g, const char *name, int elem, const char *dims) { value(g, 11, name, elem, dims); }
static void output(pb *g, const char *name, int elem, const char *dims) { value(g, 12, name, elem, dims); }
static void tensor(pb *t, const char *name, int elem, const int64_t *dim, int rank, const void *raw, size_t n) {
  for (int i = 0; i < rank; i++) num(t, 1, dim[i]);
  num(t, 2, elem);
  str(t, 8, name);
  if (raw) bytes(t, 9, raw, n);
}
static void constant(pb *g, const char *name, int elem, int64_t count, const void *raw, size_t n) {
  pb t = {.n = 0};
  tensor(&t, name, elem, &count, 1, raw, n);
  msg(g, 5, &t);
}
/* "a b" -> "y z"; attributes: a message of them, or NULL. */
static void node(pb *g, const char *op, const char *in, const char *out, const pb *attrs) {
  pb n = {.n = 0};
  char text[128];
  snprintf(text, sizeof text, "%s", in);
  for (char *s = strtok(text, " "); s; s = strtok(NULL, " ")) str(&n, 1, strcmp(s, "_") ? s : "");
  snprintf(text, sizeof text, "%s", out);
  for (char *s = strtok(text, " "); s; s = strtok(NULL, " ")) str(&n, 2, s);
  str(&n, 3, "the_node");
  str(&n, 4, op);
  if (attrs) { memcpy(n.b + n.n, attrs->b, attrs->n); n.n += attrs->n; }
  msg(g, 1, &n);
}
static void attr_int(pb *a, const char *name, int64_t v) {
  pb m = {.n = 0};
  str(&m, 1, name);
  num(&m, 3, v);
  num(&m, 20, 2);
  msg(a, 5, &m);
}
static void attr_graph(pb *a, const char *name, const pb *g) {
  pb m = {.n = 0};
  str(&m, 1, name);
  msg(&m, 6, g);
  num(&m, 20, 5);
  msg(a, 5, &m);
}
static void model(pb *m, const pb *g, int opset) {
  pb o = {.n = 0};
  num(m, 1, 10);
  msg(m, 7, g);
  str(&o, 1, "");
  num(&o, 2, opset);
  msg(m, 8, &o);
}

/* ---- the importer on one ---- */
typedef struct world { tn_arena a; tn_dims *dims; tn_diag d; tn_unit *u; tn_onnx_options o; } world;
static tn_status import_bytes(world *w, const void *p, size_t n, const char *folder) {
  memset(w, 0, sizeof *w);
  tn_arena_init(&w->a);
  tn_diag_clear(&w->d);
  w->o.folder = folder;
  w->dims = tn_dims_create();
  if (!w->dims) return TN_E_NOMEM;
  tn_status s = tn_onnx_import(&w->d, &w->a, w->dims, p, n, &w->o, &w->u);
  for (uint32_t k = 0; s == TN_OK && k < w->u->n_func; k++) {
    s = tn_graph_verify(&w->d, w->u->func[k]);
    if (s == TN_OK) s = tn_ops_verify(&w->d, w->u->func[k]);
  }
  return s;
}
static tn_status import(world *w, const pb *g) {
  static pb m;
  m.n = 0;
  model(&m, g, 18);
  return import_bytes(w, m.b, m.n, NULL);
}
static void leave(world *w) {
  tn_onnx_files_free(&w->o);
  tn_dims_destroy(w->dims);
  tn_arena_deinit(&w->a);
}
#define refused(g, code, words) refused_((g), (code), (words), __LINE__)
static void refused_(const pb *g, tn_status code, const char *words, int line) {
  world w;
  tn_status s = import(&w, g);
  if (s != code || !strstr(w.d.text, words)) print_error("line %d: %s: %s; wanted \"%s\"\n", line, tn_status_name(s), w.d.text, words);
  assert_int_equal(s, code);
  assert_non_null(strstr(w.d.text, words));
  leave(&w);
}
static void accepted(world *w, const pb *g) {
  tn_status s = import(w, g);
  if (s != TN_OK) print_error("%s\n", w->d.text);
  assert_int_equal(s, TN_OK);
}
static tn_dim out_dim(const world *w, uint32_t k, int i) { return tn_typeof(w->u->func[0], w->u->func[0]->output[k].ref)->dim[i]; }

/* x[N,4]: the flattened shape is computed from x's. */
static void flat_graph(pb *g) {
  int64_t zero = 0, minus = -1;
  pb gather = {.n = 0}, cat = {.n = 0};
  str(g, 2, "flat");
  input(g, "x", 1, "N,4");
  constant(g, "zero", 7, 1, &zero, 8);
  constant(g, "minus", 7, 1, &minus, 8);
  node(g, "Shape", "x", "s", NULL);
  attr_int(&gather, "axis", 0);
  node(g, "Gather", "s zero", "n", &gather);
  attr_int(&cat, "axis", 0);
  node(g, "Concat", "minus n", "shape", &cat);
  node(g, "Reshape", "x shape", "y", NULL);
  output(g, "y", 1, NULL);
}
static void test_sizes_are_followed(void **state) {
  (void)state;
  pb g = {.n = 0};
  world w;
  flat_graph(&g);
  accepted(&w, &g);
  assert_int_equal(w.u->n_in, 1);
  assert_int_equal(w.u->n_out, 1);
  assert_string_equal(w.u->in[0].name, "x");
  assert_int_equal(w.u->in[0].elem, 1);
  assert_int_equal(out_dim(&w, 0, 0), 4);                        /* 4 * N / N */
  assert_int_equal(out_dim(&w, 0, 1), tn_dim_sym(w.dims, "N"));
  for (uint32_t i = 1; i < w.u->func[0]->n_nodes; i++) assert_int_not_equal(w.u->func[0]->node[i].op, TN_OP_DYN);
  leave(&w);
}
static void test_every_prefix(void **state) {
  (void)state;
  pb g = {.n = 0}, m = {.n = 0};
  flat_graph(&g);
  model(&m, &g, 18);
  for (size_t n = 0; n < m.n; n++) {
    world w;
    uint8_t *p = malloc(n ? n : 1);                              /* its own size, for the sanitizers */
    memcpy(p, m.b, n);
    tn_status s = import_bytes(&w, p, n, NULL);
    assert_int_not_equal(s, TN_E_INTERNAL);
    leave(&w);
    free(p);
  }
}
static void test_no_memory(void **state) {
  (void)state;
  pb g = {.n = 0}, m = {.n = 0};
  flat_graph(&g);
  model(&m, &g, 18);
  tn_status s = TN_E_NOMEM;
  for (int64_t n = 1; s != TN_OK && n < 3000; n++) {
    world w;
    tn_malloc_fail_after(n);
    s = import_bytes(&w, m.b, m.n, NULL);
    tn_malloc_fail_after(0);
    assert_int_not_equal(s, TN_E_INTERNAL);                       /* a size that could not be made is named as such */
    leave(&w);
  }
  assert_int_equal(s, TN_OK);
}

/* ---- hostile ---- */
static void test_bad_graphs(void **state) {
  (void)state;
  pb g = {.n = 0};
  input(&g, "x", 1, "4");
  node(&g, "Neg", "nowhere", "y", NULL);
  output(&g, "y", 1, NULL);
  refused(&g, TN_E_VERIFY, "it reads 'nowhere'");
  g.n = 0;                                                       /* a cycle */
  node(&g, "Neg", "b", "a", NULL);
  node(&g, "Neg", "a", "b", NULL);
  output(&g, "b", 1, NULL);
  refused(&g, TN_E_VERIFY, "only a later node makes");
  g.n = 0;
  node(&g, "Neg", "a", "a", NULL);
  output(&g, "a", 1, NULL);
  refused(&g, TN_E_VERIFY, "its own result");
  g.n = 0;
  input(&g, "x", 1, "4");
  node(&g, "Neg", "x", "x", NULL);
  output(&g, "x", 1, NULL);
  refused(&g, TN_E_VERIFY, "made twice");
  g.n = 0;
  input(&g, "x", 1, "4");
  output(&g, "y", 1, NULL);
  refused(&g, TN_E_VERIFY, "output 'y'");
  g.n = 0;
  input(&g, "x", 1, "4");
  node(&g, "NoSuchOp", "x", "y", NULL);
  output(&g, "y", 1, NULL);
  refused(&g, TN_E_UNSUPPORTED, "NoSuchOp");
  g.n = 0;
  input(&g, "x", 1, "4");
  node(&g, "Neg", "x", "y", NULL);
  output(&g, "y", 7, "4");
  refused(&g, TN_E_VERIFY, "declared as int64");
  g.n = 0;
  input(&g, "x", 14, "4");
  refused(&g, TN_E_UNSUPPORTED, "element type 14");
  g.n = 0;
  input(&g, "x", 1, "2,3");
  input(&g, "z", 1, "4");
  node(&g, "Add", "x z", "y", NULL);
  output(&g, "y", 1, NULL);
  refused(&g, TN_E_ARG, "the_node");
}
static void test_huge_claims(void **state) {
  (void)state;
  pb g = {.n = 0}, t = {.n = 0};
  int64_t dim[3] = {1ll << 40, 1ll << 40, 1ll << 40}, four = 4, neg = -4;
  tensor(&t, "k", 1, dim, 3, "abcd", 4);
  msg(&g, 5, &t);
  refused(&g, TN_E_ARG, "'k' has too many elements");
  g.n = t.n = 0;
  tensor(&t, "k", 1, dim, 1, "abcd", 4);
  msg(&g, 5, &t);
  refused(&g, TN_E_ARG, "'k': 1099511627776 elements");
  g.n = t.n = 0;
  tensor(&t, "k", 1, &neg, 1, "abcd", 4);
  msg(&g, 5, &t);
  refused(&g, TN_E_ARG, "dim 0 is -4");
  g.n = t.n = 0;
  tensor(&t, "k", 1, &four, 1, NULL, 0);                         /* no elements at all */
  msg(&g, 5, &t);
  refused(&g, TN_E_ARG, "holds 0 items and not 4");
  pb m = {.n = 0};                                               /* a length beyond the end, for every field */
  for (unsigned field = 1; field < 26; field++) {
    world w;
    m.n = 0;
    vint(&m, field << 3 | 2);
    vint(&m, UINT64_MAX);
    assert_int_equal(import_bytes(&w, m.b, m.n, NULL), TN_E_PARSE);
    leave(&w);
  }
}
static void test_nested_too_deep(void **state) {
  (void)state;
  static pb g[2];
  g[0].n = 0;
  for (int i = 0; i < 60; i++) {                                 /* graph in attribute of node of graph ... */
    pb *in = &g[i % 2], *out = &g[(i + 1) % 2], a = {.n = 0};
    attr_graph(&a, "then_branch", in);
    out->n = 0;
    node(out, "If", "c", "y", &a);
  }
  refused(&g[0], TN_E_PARSE, "nested deeper");
}
static void test_message_bomb(void **state) {
  (void)state;
  enum { N = 1 << 20 };
  uint8_t *p = malloc(2 * N + 5);
  size_t n = 0;
  p[n++] = 7 << 3 | 2;
  for (uint64_t v = 2 * N; v; v >>= 7) p[n++] = (uint8_t)((v & 127) | (v > 127 ? 128 : 0));
  for (int i = 0; i < N; i++) { p[n++] = 5 << 3 | 2; p[n++] = 0; } /* initializers of no bytes */
  world w;
  assert_int_equal(import_bytes(&w, p, n, NULL), TN_E_PARSE);
  leave(&w);
  free(p);
}
static void test_recursive_function(void **state) {
  (void)state;
  pb g = {.n = 0}, f = {.n = 0}, m = {.n = 0}, n = {.n = 0};
  world w;
  input(&g, "x", 1, "4");
  node(&g, "Again", "x", "y", NULL);
  output(&g, "y", 1, NULL);
  model(&m, &g, 18);
  str(&f, 1, "Again");
  str(&f, 4, "a");
  str(&f, 5, "b");
  str(&n, 1, "a");
  str(&n, 2, "b");
  str(&n, 4, "Again");
  msg(&f, 7, &n);
  msg(&m, 25, &f);
  assert_int_equal(import_bytes(&w, m.b, m.n, NULL), TN_E_UNSUPPORTED);
  assert_non_null(strstr(w.d.text, "does it call itself"));
  leave(&w);
}

/* ---- external data ---- */
static void external(pb *g, const char *location, const char *offset, const char *length) {
  pb t = {.n = 0}, e = {.n = 0};
  const char *kv[3][2] = {{"location", location}, {"offset", offset}, {"length", length}};
  int64_t two = 2;
  g->n = 0;
  tensor(&t, "k", 1, &two, 1, NULL, 0);
  for (int i = 0; i < 3; i++) {
    if (!kv[i][1]) continue;
    e.n = 0;
    str(&e, 1, kv[i][0]);
    str(&e, 2, kv[i][1]);
    msg(&t, 13, &e);
  }
  num(&t, 14, 1);
  msg(g, 5, &t);
  node(g, "Identity", "k", "y", NULL);
  output(g, "y", 1, "2");
}
static tn_status import_in(world *w, const pb *g, const char *folder) {
  static pb m;
  m.n = 0;
  model(&m, g, 18);
  return import_bytes(w, m.b, m.n, folder);
}
static void test_external_data(void **state) {
  (void)state;
  char dir[] = "/tmp/tenon-onnx-XXXXXX", path[128], link_path[128], outside[128];
  float v[4] = {1, 2, 3, 4};
  pb g = {.n = 0};
  world w;
  assert_non_null(mkdtemp(dir));
  snprintf(path, sizeof path, "%s/model", dir);
  assert_int_equal(mkdir(path, 0700), 0);
  snprintf(outside, sizeof outside, "%s/secret", dir);
  assert_int_equal(tn_file_write(NULL, outside, v, sizeof v), TN_OK);
  snprintf(link_path, sizeof link_path, "%s/model/link", dir);
  assert_int_equal(symlink(outside, link_path), 0);
  char inside[128];
  snprintf(inside, sizeof inside, "%s/model/w.bin", dir);
  assert_int_equal(tn_file_write(NULL, inside, v, sizeof v), TN_OK);
  external(&g, "w.bin", "8", "8");
  assert_int_equal(import_in(&w, &g, path), TN_OK);
  const tn_node *k = tn_def(w.u->func[0], w.u->func[0]->output[0].ref);
  assert_int_equal(k->op, TN_OP_CONST);
  assert_memory_equal(k->data->p, v + 2, 8);
  leave(&w);
  static const struct { const char *location, *offset, *length; tn_status code; } bad[] = {
    {"../secret", NULL, NULL, TN_E_ARG}, {"a/../../secret", NULL, NULL, TN_E_ARG}, {"/etc/passwd", NULL, NULL, TN_E_ARG}, {"link", NULL, NULL, TN_E_ARG},
    {"", NULL, NULL, TN_E_ARG}, {"nothing.bin", NULL, NULL, TN_E_IO}, {".", NULL, NULL, TN_E_ARG}, {"w.bin", "16", "8", TN_E_ARG}, {"w.bin", "-8", "8", TN_E_ARG},
    {"w.bin", "9", NULL, TN_E_ARG}, {"w.bin", "0", "4", TN_E_ARG}, {"w.bin", "18446744073709551615", "8", TN_E_ARG}, {NULL, NULL, NULL, TN_E_ARG}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    external(&g, bad[i].location, bad[i].offset, bad[i].length);
    tn_status s = import_in(&w, &g, path);
    if (s != bad[i].code) print_error("%s: %s: %s\n", bad[i].location ? bad[i].location : "-", tn_status_name(s), w.d.text);
    assert_int_equal(s, bad[i].code);
    leave(&w);
  }
  external(&g, "w.bin", NULL, NULL);
  assert_int_equal(import_in(&w, &g, NULL), TN_E_IO);            /* bytes without a folder */
  leave(&w);
  unlink(inside);
  unlink(link_path);
  unlink(outside);
  rmdir(path);
  rmdir(dir);
}

/* ---- tensors ---- */
static void read_tensor(int elem, int64_t count, const void *raw, size_t n, const void *want, size_t want_n) {
  pb t = {.n = 0};
  tn_arena a;
  tn_ox_const c;
  tn_arena_init(&a);
  tensor(&t, "k", elem, &count, 1, raw, n);
  assert_int_equal(tn_onnx_tensor_read(NULL, &a, t.b, t.n, &c, NULL), TN_OK);
  assert_int_equal(c.bytes, want_n);
  assert_memory_equal(c.data, want, want_n);
  tn_arena_deinit(&a);
}
static void test_small_elements(void **state) {
  (void)state;
  static const uint8_t nibbles[] = {0x21, 0xf3, 0x08};           /* low half first: 1 2 3 15 8 */
  read_tensor(21, 5, nibbles, 3, (uint8_t[]){1, 2, 3, 15, 8}, 5);
  read_tensor(22, 5, nibbles, 3, (int8_t[]){1, 2, 3, -1, -8}, 5);
  read_tensor(23, 5, nibbles, 3, (uint8_t[]){1, 2, 3, 15, 8}, 5);
  static const uint8_t pairs[] = {0xe4, 0x02};                   /* 0 1 2 3, 2 */
  read_tensor(25, 5, pairs, 2, (uint8_t[]){0, 1, 2, 3, 2}, 5);
  read_tensor(26, 5, pairs, 2, (int8_t[]){0, 1, -2, -1, -2}, 5);
  read_tensor(9, 3, (uint8_t[]){0, 1, 7}, 3, (uint8_t[]){0, 1, 1}, 3);
}
static void test_typed_lists(void **state) {
  (void)state;
  pb t = {.n = 0};
  tn_arena a;
  tn_ox_const c;
  tn_arena_init(&a);
  num(&t, 1, 2);
  num(&t, 2, 10);                                                /* float16 1.5 and -2 as int32_data, not packed */
  num(&t, 5, 0x3e00);
  num(&t, 5, 0xc000);
  assert_int_equal(tn_onnx_tensor_read(NULL, &a, t.b, t.n, &c, NULL), TN_OK);
  assert_memory_equal(c.data, ((uint16_t[]){0x3e00, 0xc000}), 4);
  t.n = 0;
  num(&t, 1, 2);
  num(&t, 2, 8);
  bytes(&t, 6, "a\0b", 3);
  bytes(&t, 6, "", 0);
  assert_int_equal(tn_onnx_tensor_read(NULL, &a, t.b, t.n, &c, NULL), TN_OK);
  assert_int_equal(c.str[0].n, 3);
  assert_memory_equal(c.str[0].s, "a\0b", 4);
  assert_int_equal(c.str[1].n, 0);
  tn_arena_deinit(&a);
}

/* ---- sizes, branches ---- */
static void test_assumed_equal(void **state) {
  (void)state;
  pb g = {.n = 0};
  world w;
  tn_dim a, b;
  const char *where;
  input(&g, "x", 1, "N,3");
  input(&g, "z", 1, "M,3");
  node(&g, "Add", "x z", "y", NULL);
  output(&g, "y", 1, NULL);
  accepted(&w, &g);
  assert_int_equal(tn_dims_n_assumed(w.dims), 1);
  tn_dims_get_assumed(w.dims, 0, &a, &b, &where, NULL);
  tn_dim n = tn_dim_sym(w.dims, "N"), m = tn_dim_sym(w.dims, "M");
  assert_true((a == n && b == m) || (a == m && b == n));
  assert_non_null(strstr(where, "the_node"));
  leave(&w);
}
static void test_dim_names(void **state) {
  (void)state;
  pb g = {.n = 0};
  world w;
  input(&g, "x", 1, "batch size,max,?,f32,s0 + 1");
  node(&g, "Neg", "x", "y", NULL);
  output(&g, "y", 1, NULL);
  accepted(&w, &g);
  tn_str s;                                                      /* what is printed can be read again */
  tn_str_init(&s);
  tn_graph_print(w.u->func[0], 0, &s);
  tn_graph *again;
  assert_int_equal(tn_graph_parse(&w.d, &w.a, w.dims, s.s, s.n, &again), TN_OK);
  for (int i = 0; i < 5; i++) {
    assert_true(tn_dim_sym_ordinal(w.dims, out_dim(&w, 0, i)) >= 0);
    for (int k = 0; k < i; k++) assert_int_not_equal(out_dim(&w, 0, i), out_dim(&w, 0, k));
  }
  tn_str_deinit(&s);
  leave(&w);
}
static void branch(pb *g, const char *op) {
  g->n = 0;
  str(g, 2, op);
  node(g, op, "x", "r", NULL);
  output(g, "r", 1, NULL);
}
static void if_graph(pb *g, bool known) {
  pb a = {.n = 0}, b = {.n = 0};
  g->n = 0;
  input(g, "x", 1, "N");
  if (known) constant(g, "c", 9, 1, "\1", 1);
  else input(g, "c", 9, "1");
  branch(&b, "Neg");
  attr_graph(&a, "then_branch", &b);
  branch(&b, "Abs");
  attr_graph(&a, "else_branch", &b);
  node(g, "If", "c", "y", &a);
  output(g, "y", 1, NULL);
}
static void test_branches(void **state) {
  (void)state;
  static pb g;
  world w;
  if_graph(&g, true);
  accepted(&w, &g);                                              /* taken while importing */
  assert_int_equal(tn_def(w.u->func[0], w.u->func[0]->output[0].ref)->op, TN_OP_NEG);
  leave(&w);
  if_graph(&g, false);
  accepted(&w, &g);
  const tn_node *n = tn_def(w.u->func[0], w.u->func[0]->output[0].ref);
  assert_int_equal(n->op, TN_OP_DYN);
  assert_string_equal(n->target, "if");
  assert_int_equal(n->n_in, 2);                                  /* the condition, and x */
  assert_int_equal(out_dim(&w, 0, 0), tn_dim_sym(w.dims, "N"));
  tn_graph *then = w.u->func[tn_attr_int(n, "then", -1)], *other = w.u->func[tn_attr_int(n, "else", -1)];
  assert_int_equal(tn_def(then, then->output[0].ref)->op, TN_OP_NEG);
  assert_int_equal(tn_def(other, other->output[0].ref)->op, TN_OP_ABS);
  leave(&w);
}
/* A loop that carries v = Concat(v, x): its size grows, so the body is imported again with a size of its own. */
static void test_loop_widens(void **state) {
  (void)state;
  static pb g, b;
  pb a = {.n = 0}, cat = {.n = 0};
  world w;
  g.n = b.n = 0;
  str(&b, 2, "body");
  input(&b, "i", 7, NULL);
  input(&b, "on", 9, NULL);
  input(&b, "v", 1, NULL);
  attr_int(&cat, "axis", 0);
  node(&b, "Concat", "v x", "grown", &cat);
  node(&b, "Identity", "on", "still", NULL);
  output(&b, "still", 9, NULL);
  output(&b, "grown", 1, NULL);
  output(&b, "x", 1, NULL);
  input(&g, "x", 1, "3");
  input(&g, "m", 7, "1");
  attr_graph(&a, "body", &b);
  node(&g, "Loop", "m _ x", "y all", &a);
  output(&g, "y", 1, NULL);
  output(&g, "all", 1, NULL);
  accepted(&w, &g);
  assert_int_equal(w.u->n_func, 2);                              /* the first body is taken back */
  assert_true(tn_dim_sym_ordinal(w.dims, out_dim(&w, 0, 0)) >= 0);
  assert_int_equal(out_dim(&w, 1, 1), 3);
  leave(&w);
}
static void test_overridden_shape(void **state) {
  (void)state;
  pb g = {.n = 0}, m = {.n = 0};
  world w = {.u = NULL};
  int64_t dim[2] = {5, -1}, bad[2] = {5, 7};
  tn_onnx_shape over = {"x", 2, dim};
  flat_graph(&g);
  model(&m, &g, 18);
  tn_arena_init(&w.a);
  w.dims = tn_dims_create();
  w.o = (tn_onnx_options){.shape = &over, .n_shape = 1};
  assert_int_equal(tn_onnx_import(&w.d, &w.a, w.dims, m.b, m.n, &w.o, &w.u), TN_OK);
  assert_int_equal(out_dim(&w, 0, 1), 5);
  over.dim = bad;                                                /* the model says 4 */
  assert_int_equal(tn_onnx_import(&w.d, &w.a, w.dims, m.b, m.n, &w.o, &w.u), TN_E_ARG);
  over.name = "nothing";
  assert_int_equal(tn_onnx_import(&w.d, &w.a, w.dims, m.b, m.n, &w.o, &w.u), TN_E_ARG);
  leave(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_sizes_are_followed), cmocka_unit_test(test_every_prefix), cmocka_unit_test(test_no_memory), cmocka_unit_test(test_bad_graphs),
    cmocka_unit_test(test_huge_claims), cmocka_unit_test(test_nested_too_deep), cmocka_unit_test(test_message_bomb), cmocka_unit_test(test_recursive_function),
    cmocka_unit_test(test_external_data), cmocka_unit_test(test_small_elements), cmocka_unit_test(test_typed_lists), cmocka_unit_test(test_assumed_equal),
    cmocka_unit_test(test_dim_names), cmocka_unit_test(test_branches), cmocka_unit_test(test_loop_widens), cmocka_unit_test(test_overridden_shape)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Packages: what is written reads back to the same modules; every single flipped bit, every truncation, and every hostile number behind good
 * hashes is refused or harmless; every allocation failing once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "plan/package.h"

static const char text[] =
    "module \"net\" {\n"
    "  meta \"producer\" \"hand\"\n"
    "  in 0 tensor f32 [\"N\", ?, 7], \"x\"\n"
    "  in 1 map f32 any key string, \"m\"\n"
    "  out 0 sequence f8e4m3fn any, \"y\"\n"
    "  func 0 \"main\" (1, 2) -> (4), slots 8 {\n"
    "    op none () -> (3)\n"
    "    call 0 (1 dim 0, 2) -> (4), \"node 'mul'\"\n"
    "    op sizes (1) -> (5), attr \"lo\" 1, attr \"f\" 1.5, attr \"g\" floats [-1.0, inf], attr \"s\" \"a\\x00b\", attr \"t\" strs [\"a\", \"\"], attr \"none\" ints []\n"
    "    branch 1 1 (1 item 0, 1) -> (6)\n"
    "    loop 2 (1 dim 0, 1, 1, 4) -> (7, 8), carried 1, scans 1, attr \"scan_elem\" ints [1, -9223372036854775808]\n"
    "  }\n"
    "  func 1 \"then\" (1) -> (1), slots 1 {\n"
    "  }\n"
    "  func 2 \"body\" (1, 2, 3, 4) -> (2, 3, 4), slots 4 {\n"
    "  }\n"
    "}\n"
    "plan \"p\" {\n"
    "  sym s0, range 2..max, input 0 dim 0\n"
    "  sym n, range -5..1024, input 1 value\n"
    "  in 0 f32[s0, 4*s0 + 1], strides any, \"x\"\n"
    "  in 1 i64[], strides []\n"
    "  buf 0 input 0\n"
    "  buf 1 output 0\n"
    "  buf 2 arena, bytes 64*s0, steps 0..1\n"
    "  buf 3 const, bytes 8, data x0102030405060708\n"
    "  buf 4 const, bytes 0, data x\n"
    "  buf 5 const, bytes 64, data "
    "xffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff\n"
    "  buf 6 const, bytes 8, data x0102030405060708\n"
    "  buf 7 arena, bytes 64, steps 2..2\n"
    "  view 0 buf 0, f32[s0, 4*s0 + 1], strides any\n"
    "  view 1 buf 1, f32[s0], strides [1]\n"
    "  view 2 buf 2, f32[max(s0, 3)], strides [1], offset 1, \"named\"\n"
    "  view 3 buf 7, f32[16], strides [1]\n"
    "  kernel 0 \"k_a\", params 2, sizes 1, object 100, hash 0123456789abcdef\n"
    "  kernel 1 \"k_b\", params 1, sizes 0, object 100, hash 0123456789abcdef\n"
    "  step 0 launch 0 (2, 2), sizes [s0], blocks floordiv(s0 + 15, 16), grain 2, scratch 4096, prov 7, \"k_a(x)\"\n"
    "  step 1 lib sort (2) -> (2, 1), params [0, 1]\n"
    "  step 2 launch 1 (3), blocks 1, grain 1\n"
    "  step 3 view (1)\n"
    "  out 0 view 1\n"
    "}\n";

static char path[64];
static const char object_a[] = "object a, which is no ELF file but bytes all the same", object_b[] = "b";

static int make_path(void **state) {
  (void)state;
  snprintf(path, sizeof path, "/tmp/tenon_package_%ld.tnp", (long)getpid());
  return 0;
}
static int drop_path(void **state) {
  (void)state;
  unlink(path);
  return 0;
}

static tn_module *module_of(const char *s) {
  tn_diag d;
  tn_module *m;
  if (tn_module_parse(&d, s, strlen(s), &m) != TN_OK) fail_msg("%s", d.text);
  for (uint32_t i = 0; i < m->n_plan; i++)
    for (uint32_t k = 0; k < m->plan[i]->n_kernel; k++) {
      m->plan[i]->kernel[k].object = k ? object_b : object_a;
      m->plan[i]->kernel[k].object_bytes = k ? sizeof object_b : sizeof object_a;
    }
  return m;
}

static void write_ok(const tn_package_part *part, uint32_t n, const tn_package_extra *extra, uint32_t n_extra) {
  tn_diag d;
  if (tn_package_write(&d, path, part, n, extra, n_extra) != TN_OK) fail_msg("%s", d.text);
}

static char *printed(const tn_module *m) {
  tn_str s;
  tn_str_init(&s);
  tn_module_print(m, &s);
  assert_false(s.oom);
  return s.s;
}

/* A package of two levels, as bytes at a 64-byte boundary. */
static unsigned char *small(size_t *n) {
  static const char report[] = "{\"fates\": []}";
  tn_module *m = module_of(text);
  const tn_package_part part[] = {{"x86-64-v3", 7, m}, {"x86-64-v4", 15, m}};
  const tn_package_extra extra[] = {{TN_PK_REPORT, "", report, sizeof report - 1}};
  write_ok(part, 2, extra, 1);
  tn_module_destroy(m);
  tn_diag d;
  char *p;
  assert_int_equal(tn_file_read(&d, path, 1 << 20, &p, n), TN_OK);
  unsigned char *q = tn_aligned_alloc(64, *n);
  memcpy(q, p, *n);
  tn_free(p);
  return q;
}

static void test_round(void **state) {
  (void)state;
  tn_diag d;
  tn_package *k;
  tn_module *m = module_of(text), *back;
  const tn_package_part part[] = {{"v3", 7, m}, {"v4", 15, m}};
  const tn_package_extra extra[] = {{TN_PK_REPORT, "", "{}", 2}, {TN_PK_PORTABLE, "", "", 0}};
  char *want = printed(m);
  write_ok(part, 2, extra, 2);
  if (tn_package_open(&d, path, false, NULL, &k) != TN_OK) fail_msg("%s", d.text);
  assert_int_equal(tn_package_n_sections(k), 8);
  for (int i = 0; i < 2; i++) {
    if (tn_package_module(&d, k, part[i].level, &back) != TN_OK) fail_msg("%s", d.text);
    char *got = printed(back);
    assert_string_equal(got, want);
    const tn_plan *p = back->plan[0];
    assert_memory_equal(p->buf[3].data, "\1\2\3\4\5\6\7\10", 8);
    assert_ptr_equal(p->buf[3].data, p->buf[6].data); /* equal constants are one */
    assert_int_equal((uintptr_t)p->buf[5].data % 64, 0);
    assert_memory_equal(p->kernel[0].object, object_a, sizeof object_a);
    assert_memory_equal(p->kernel[1].object, object_b, sizeof object_b);
    const tn_mattr *a = tn_mattr_get(&back->func[0].step[2], "s");
    assert_memory_equal(a->u.s[0].s, "a\0b", 4);
    assert_int_equal(tn_package_find(k, TN_PK_MODULE, part[i].level)->flags, part[i].flags);
    tn_free(got);
    tn_module_destroy(back);
  }
  const tn_package_section *s = tn_package_find(k, TN_PK_REPORT, "");
  assert_int_equal(s->bytes, 2);
  assert_memory_equal(s->p, "{}", 2);
  assert_int_equal(tn_package_find(k, TN_PK_WEIGHTS, "")->bytes, 128);
  assert_int_equal(tn_package_find(k, TN_PK_WEIGHTS, "")->offset % 4096, 0);
  assert_int_equal(tn_package_module(&d, k, "v9", &back), TN_E_UNSUPPORTED);
  assert_null(tn_package_find(k, TN_PK_REPORT, "v3"));
  tn_package_close(k);
  tn_free(want);
  tn_module_destroy(m);
}

/* Pieces: a constant of 3 MiB and a bit, hashed with and without helpers. */
static void test_big(void **state) {
  (void)state;
  enum { N = (3 << 20) + 260 };
  char plan[512];
  snprintf(plan, sizeof plan, "module \"m\" { func 0 \"f\" () -> (), slots 0 { } }\nplan \"p\" {\n  buf 0 const, bytes %d, hash 0000000000000000\n}\n", N);
  tn_module *m = module_of(plan), *back;
  unsigned char *w = tn_plan_data(m->plan[0], N);
  for (int i = 0; i < N; i++) w[i] = (unsigned char)(i * 7 + (i >> 9));
  m->plan[0]->buf[0].data = w;
  const tn_package_part part = {"v3", 0, m};
  write_ok(&part, 1, NULL, 0);
  tn_pool *pool = tn_pool_create(3);
  for (int shared = 0; shared < 2; shared++) {
    tn_diag d;
    tn_package *k;
    if (tn_package_open(&d, path, false, shared ? pool : NULL, &k) != TN_OK) fail_msg("%s", d.text);
    assert_int_equal(tn_package_module(&d, k, "v3", &back), TN_OK);
    assert_memory_equal(back->plan[0]->buf[0].data, w, N);
    tn_module_destroy(back);
    tn_package_close(k);
  }
  tn_pool_destroy(pool);
  tn_module_destroy(m);
}

static void test_flipped(void **state) {
  (void)state;
  size_t n;
  unsigned char *p = small(&n);
  tn_diag d;
  tn_package *k;
  const tn_package_section *s;
  if (tn_package_open_memory(&d, p, n, false, NULL, &k) != TN_OK) fail_msg("%s", d.text);
  uint64_t weights = 0, weights_end = 0;
  for (uint32_t i = 0; (s = tn_package_get(k, i)); i++)
    if (s->kind == TN_PK_WEIGHTS) weights = s->offset, weights_end = s->offset + s->bytes;
  tn_package_close(k);
  for (size_t i = 0; i < n; i++)
    for (int bit = 0; bit < 8; bit++) {
      p[i] ^= (unsigned char)(1 << bit);
      if (tn_package_open_memory(&d, p, n, false, NULL, &k) == TN_OK) fail_msg("bit %d of byte %zu of %zu makes no difference", bit, i, n);
      assert_null(k);
      assert_int_equal(d.code, TN_E_PARSE);
      if (bit == 0) { /* unverified weights are the one exception */
        tn_status st = tn_package_open_memory(&d, p, n, true, NULL, &k);
        assert_int_equal(st == TN_OK, i >= weights && i < weights_end);
        tn_package_close(k);
      }
      p[i] ^= (unsigned char)(1 << bit);
    }
  tn_free_aligned(p);
}

static void test_cut(void **state) {
  (void)state;
  size_t n;
  unsigned char *p = small(&n), *q = tn_aligned_alloc(64, n + 64);
  tn_diag d;
  tn_package *k;
  for (size_t i = 0; i < n; i += i < 1024 ? 1 : 37) {
    assert_int_equal(tn_package_open_memory(&d, p, i, false, NULL, &k), TN_E_PARSE);
    assert_null(k);
  }
  memcpy(q, p, n);
  memset(q + n, 0, 64);
  assert_int_equal(tn_package_open_memory(&d, q, n + 1, false, NULL, &k), TN_E_PARSE);
  memmove(q + 1, q, n); /* not aligned: copied */
  if (tn_package_open_memory(&d, q + 1, n, false, NULL, &k) != TN_OK) fail_msg("%s", d.text);
  tn_package_close(k);
  tn_free_aligned(p);
  tn_free_aligned(q);
}

/* What a hostile writer with the hash function at hand can say in header and table. */
static void seal(unsigned char *p, size_t n) {
  uint32_t sections = p[12] | (uint32_t)p[13] << 8;
  uint64_t h = TN_PACKAGE_HEADER + (size_t)sections * TN_PACKAGE_ENTRY <= n ? tn_hash(p + TN_PACKAGE_HEADER, (size_t)sections * TN_PACKAGE_ENTRY, 2) : 0;
  for (int i = 0; i < 8; i++) p[24 + i] = (unsigned char)(h >> 8 * i);
  h = tn_hash(p, 56, 3);
  for (int i = 0; i < 8; i++) p[56 + i] = (unsigned char)(h >> 8 * i);
}
static void test_hostile_table(void **state) {
  (void)state;
  size_t n;
  unsigned char *p = small(&n), *q = tn_aligned_alloc(64, n);
  static const unsigned char values[] = {0, 1, 2, 7, 63, 127, 128, 255};
  tn_diag d;
  tn_package *k;
  unsigned opened = 0;
  uint32_t sections = p[12];
  for (size_t i = 8; i < TN_PACKAGE_HEADER + (size_t)sections * TN_PACKAGE_ENTRY; i++)
    for (size_t v = 0; v < sizeof values; v++) {
      memcpy(q, p, n);
      q[i] = values[v];
      seal(q, n);
      tn_status st = tn_package_open_memory(&d, q, n, true, NULL, &k);
      assert_true(st == TN_OK || st == TN_E_PARSE || st == TN_E_UNSUPPORTED);
      if (st != TN_OK) continue;
      opened++;
      for (int l = 0; l < 2; l++) {
        tn_module *m;
        if (tn_package_module(&d, k, l ? "x86-64-v4" : "x86-64-v3", &m) == TN_OK) tn_module_destroy(m);
      }
      tn_package_close(k);
    }
  assert_true(opened > 8); /* flags and names may be anything */
  tn_free_aligned(p);
  tn_free_aligned(q);
}

/* And in the bytes of a module: every byte takes every value that matters; what still reads must verify or be refused, and print. */
static tn_status any_weight(void *ctx, tn_diag *d, const void **data, int64_t bytes, uint64_t *at) {
  static _Alignas(64) unsigned char room[64];
  (void)ctx;
  if (bytes > 64 || *at > 1 << 20) return tn_fail(d, TN_E_PARSE, "a constant too far");
  *data = room;
  return TN_OK;
}
static tn_status any_object(void *ctx, tn_diag *d, const void **data, size_t *n, uint64_t *at) {
  (void)ctx;
  if (*n > sizeof object_a || *at > 1 << 20) return tn_fail(d, TN_E_PARSE, "an object too far");
  *data = object_a;
  return TN_OK;
}
static void test_hostile_module(void **state) {
  (void)state;
  const tn_package_io io = {NULL, any_weight, any_object};
  tn_diag d;
  tn_str code;
  tn_str_init(&code);
  tn_module *m = module_of(text), *back;
  if (tn_package_encode(&d, m, &io, &code) != TN_OK) fail_msg("%s", d.text);
  tn_module_destroy(m);
  unsigned whole = 0;
  for (size_t i = 0; i < code.n; i++) {
    unsigned char keep = (unsigned char)code.s[i];
    for (int v = 0; v < 256; v += v < 8 ? 1 : 31) {
      code.s[i] = (char)v;
      if (tn_package_decode(&d, code.s, code.n, &io, &back) != TN_OK) continue;
      if (tn_module_verify(&d, back) == TN_OK) {
        whole++;
        tn_free(printed(back));
      }
      tn_module_destroy(back);
    }
    code.s[i] = (char)keep;
    assert_int_not_equal(tn_package_decode(&d, code.s, i, &io, &back), TN_OK); /* every truncation */
    assert_null(back);
  }
  assert_true(whole > code.n / 10);
  tn_str_deinit(&code);
}

static void test_refused(void **state) {
  (void)state;
  tn_diag d;
  tn_package *k;
  tn_module *m = module_of(text);
  tn_package_part part = {"a level with a long name", 0, m};
  assert_int_equal(tn_package_write(&d, path, &part, 1, NULL, 0), TN_E_ARG);
  part.level = "v3";
  m->plan[0]->kernel[1].object = NULL;
  assert_int_equal(tn_package_write(&d, path, &part, 1, NULL, 0), TN_E_VERIFY);
  assert_non_null(strstr(d.text, "kernel 'k_b' has no object; while writing level v3"));
  assert_int_equal(tn_package_write(&d, "/nonexistent/x.tnp", &part, 1, NULL, 0), TN_E_IO);
  tn_module_destroy(m);
  assert_int_equal(tn_package_open(&d, "/nonexistent/x.tnp", false, NULL, &k), TN_E_IO);
  assert_int_equal(tn_package_open(&d, "/tmp", false, NULL, &k), TN_E_IO);
  assert_int_equal(tn_package_open(&d, "/dev/null", false, NULL, &k), TN_E_IO);
  assert_int_equal(tn_file_write(&d, path, "short", 5), TN_OK);
  assert_int_equal(tn_package_open(&d, path, false, NULL, &k), TN_E_PARSE);
  assert_int_equal(tn_package_open_memory(&d, "short", 5, false, NULL, &k), TN_E_PARSE);
}

static void test_nomem(void **state) {
  (void)state;
  tn_diag d;
  tn_module *m = module_of(text), *back = NULL;
  const tn_package_part part = {"v3", 7, m};
  for (int64_t n = 1;; n++) {
    tn_malloc_fail_after(n);
    tn_status st = tn_package_write(&d, path, &part, 1, NULL, 0);
    tn_malloc_fail_after(0);
    if (st == TN_OK) break;
    assert_int_equal(st, TN_E_NOMEM);
    assert_true(n < 1000);
  }
  for (int64_t n = 1;; n++) {
    tn_package *k = NULL;
    tn_malloc_fail_after(n);
    tn_status st = tn_package_open(&d, path, false, NULL, &k);
    if (st == TN_OK) st = tn_package_module(&d, k, "v3", &back);
    tn_malloc_fail_after(0);
    assert_true(st == TN_OK || (st == TN_E_NOMEM && !back));
    tn_module_destroy(back);
    back = NULL;
    tn_package_close(k);
    if (st == TN_OK) break;
    assert_true(n < 1000);
  }
  tn_module_destroy(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_round),          cmocka_unit_test(test_big),     cmocka_unit_test(test_flipped), cmocka_unit_test(test_cut), cmocka_unit_test(test_hostile_table),
                                     cmocka_unit_test(test_hostile_module), cmocka_unit_test(test_refused), cmocka_unit_test(test_nomem)};
  return cmocka_run_group_tests(tests, make_path, drop_path);
}

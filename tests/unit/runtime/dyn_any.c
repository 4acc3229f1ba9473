/* Every dynamic operator on operands and attributes of any kind: it answers or refuses, and what it answers is whole. Run with a sanitizer this
 * shows that nothing is read or written outside; random numbers of a fixed seed, so a failure comes again. */
#include "dyn_test.h"

static const tn_dyn_fn fns[] = {
#define TN_DYN(id, text, lo, hi, out, doc) tn_dyn_##id,
#include "plan/dyn.def"
#undef TN_DYN
};

static uint64_t seed = 1;
static uint32_t any(uint32_t n) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(seed >> 33) % n;
}
static int64_t number(void) {
  static const int64_t odd[] = {INT64_MIN, INT64_MAX, -1000, 1000, 1ll << 40, -2, 100};
  return any(6) ? (int64_t)any(5) - 1 : odd[any(7)];
}
static const char *text(void) {
  static const char *const words[] = {"", "a", "b c", "\xc3\xa9", "\xff\x80", "1.5", "nan", "(", "[a-c]+", "UPPER", "x{2}|", "-"};
  return words[any(12)];
}

static tn_value *value(int depth) {
  int64_t dim[3], n = 1, buf[64];
  int rank = (int)any(4);
  const char *s[27];
  for (int i = 0; i < rank; i++) n *= dim[i] = any(5) ? 1 + any(3) : 0;
  for (int i = 0; i < 64; i++) buf[i] = any(3) ? (int64_t)any(5) - 1 : (int64_t)(((uint64_t)any(1u << 31) << 32) | any(1u << 31));
  uint32_t kind = any(depth ? 9 : 7);
  if (kind < 5) {
    static const tn_dtype types[] = {TN_I64, TN_F32, TN_BOOL, TN_F64, TN_I32, TN_U8, TN_F16, TN_U64};
    tn_dtype t = types[any(8)];
    for (int i = 0; t == TN_BOOL && i < 64; i++) buf[i] &= 0x0101010101010101;
    for (int i = 0; t == TN_F32 && any(4) && i < 64; i++) ((float *)(void *)buf)[i] = (float)any(5) / 2;
    return tensor(t, rank, dim, buf);
  }
  if (kind == 5) {
    for (int i = 0; i < 27; i++) s[i] = text();
    return strings(rank, dim, s);
  }
  if (kind == 6) return tn_value_none();
  tn_value *item[3] = {value(depth - 1), value(depth - 1), value(depth - 1)}, *v = tn_value_list(item, any(4));
  if (kind == 8) {
    tn_value *key = strings(1, DIMS(1), STRS("k")), *one = tensor(TN_F32, 1, DIMS(1), F32(2)), *m = tn_value_map(key, one);
    tn_value_release(key);
    tn_value_release(one);
    if (m) { tn_value_release(v); v = m; }
  }
  for (int i = 0; i < 3; i++) tn_value_release(item[i]);
  return v;
}

static void attributes(call *c, int64_t *ints, double *floats) {
  static const char *const names[] = {"axis", "keepdims", "new_axis", "sorted", "rank", "elem", "values", "dims", "pattern", "delimiter", "maxsplit", "stopwords", "case", "keys", "classes",
                                      "counts", "grams", "column", "min", "max", "skip", "size", "n_targets", "aggregate", "roots", "node", "member_lo", "member", "leaf_lo", "leaf_target",
                                      "leaf_weight", "center_point_box", "lo"};
  static const char *words[8];
  for (int i = 0; i < 8; i++) words[i] = text();
  for (int i = 0; i < 16; i++) { ints[i] = number(); floats[i] = (double)number() / 2; }
  for (uint32_t k = any(12); k > 0; k--) {
    const char *name = names[any(33)];
    bool there = false;
    for (uint32_t i = 0; i < c->step.n_attr; i++) there |= !strcmp(c->attr[i].name, name);
    if (there) continue;
    switch (any(5)) {
      case 0: case 1: a_int(c, name, number()); break;
      case 2: a_ints(c, name, ints, any(17)); break;
      case 3: a_floats(c, name, floats, any(17)); break;
      default: if (any(2)) a_str(c, name, text()); else a_strs(c, name, words, any(4));
    }
  }
}

static void whole(const tn_value *v) {
  if (!v) return;
  size_t n = tn_value_n(v), bytes;
  switch (tn_value_get_kind(v)) {
    case TN_VALUE_STRINGS:
      for (size_t i = 0; i < n; i++) { const char *s = tn_value_string(v, i, &bytes); assert_true(s && s[bytes] == 0); }
      break;
    case TN_VALUE_LIST:
      for (size_t i = 0; i < n; i++) whole(tn_value_item(v, i));
      break;
    case TN_VALUE_TENSOR:
      for (int i = 0; i < v->t.rank; i++) assert_true(v->t.shape[i] >= 0);
      break;
    default: break;
  }
}

static void anything(void **state) {
  (void)state;
  int64_t ints[16];
  double floats[16];
  uint32_t fine = 0;
  for (int i = 0; i < 60000; i++) {
    call c = {0};
    uint32_t op = any(sizeof fns / sizeof *fns);
    const tn_dyn_row *row = tn_dyn_get(op);
    int hi = row->n_in_max < 0 ? row->n_in_min + 3 : row->n_in_max, n = row->n_in_min + (int)any((uint32_t)(hi - row->n_in_min) + 1);
    for (int k = 0; k < n; k++) put(&c, value(2));
    attributes(&c, ints, floats);
    if (i % 8 == 7) tn_malloc_fail_after(1 + any(12));
    tn_status st = run(&c, fns[op]);
    tn_malloc_fail_after(0);
    if (st == TN_OK) {
      fine++;
      for (int k = 0; k < 4; k++) whole(c.out[k]);
    } else if (!c.d.text[0]) fail_msg("%s fails without a word", row->text);
    finish(&c);
  }
  assert_true(fine > 5000);                            /* not all of it is nonsense */
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(anything)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

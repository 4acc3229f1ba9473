/* The nest builder: folding, value numbering and its scopes, widening, scratch, lack of memory. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>
#include "kir/nest.h"

typedef struct fixture { tn_arena a; tn_nest *n; tn_nv x, y, f, g, b; } fixture;

static const tn_vt i64x1 = {TN_I64, 1};

static void begin(fixture *t) {
  tn_arena_init(&t->a);
  assert_int_equal(tn_nest_create(&t->a, "t", &t->n), TN_OK);
  static tn_nparam p[2] = {{"p", TN_F32, false}, {"q", TN_F32, true}};
  t->n->param = p;
  t->n->n_param = 2;
  t->n->n_size = 4;
  t->x = tn_n_add(t->n, (tn_ninst){.op = TN_N_SIZE, .vt = i64x1, .imm.i = 0});
  t->y = tn_n_add(t->n, (tn_ninst){.op = TN_N_SIZE, .vt = i64x1, .imm.i = 1});
  t->f = tn_n_load(t->n, 0, (tn_vt){TN_F32, 1}, t->x, 0);
  t->g = tn_n_load(t->n, 0, (tn_vt){TN_F32, 8}, t->x, 0);
  t->b = tn_n_op2(t->n, TN_S_LT, t->x, t->y);
}

static void end(fixture *t) {
  tn_diag d;
  tn_diag_clear(&d);
  if (tn_nest_verify(&d, t->n) != TN_OK) fail_msg("%s", d.text);
  tn_arena_deinit(&t->a);
}

static tn_nv c(fixture *t, int64_t v) { return tn_n_i64(t->n, v); }
static tn_nv op(fixture *t, tn_scalar_op o, tn_nv a, tn_nv b) { return tn_n_op2(t->n, o, a, b); }

static void test_identities(void **state) {
  (void)state;
  fixture t;
  begin(&t);
  tn_nv x = t.x;
  assert_int_equal(op(&t, TN_S_ADD, x, c(&t, 0)), x);
  assert_int_equal(op(&t, TN_S_ADD, c(&t, 0), x), x);
  assert_int_equal(op(&t, TN_S_SUB, x, c(&t, 0)), x);
  assert_int_equal(op(&t, TN_S_MUL, x, c(&t, 1)), x);
  assert_int_equal(op(&t, TN_S_MUL, c(&t, 0), x), c(&t, 0));
  assert_int_equal(op(&t, TN_S_FLOORDIV, x, c(&t, 1)), x);
  assert_int_equal(op(&t, TN_S_REMAINDER, x, c(&t, 1)), c(&t, 0));
  assert_int_equal(op(&t, TN_S_SHL, x, c(&t, 0)), x);
  assert_int_equal(op(&t, TN_S_AND, x, c(&t, -1)), x);
  assert_int_equal(op(&t, TN_S_AND, x, c(&t, 0)), c(&t, 0));
  assert_int_equal(op(&t, TN_S_OR, x, c(&t, 0)), x);
  assert_int_equal(op(&t, TN_S_SUB, x, x), c(&t, 0));
  assert_int_equal(op(&t, TN_S_MAX, x, x), x);
  int64_t v;
  assert_true(tn_n_is_const(t.n, op(&t, TN_S_LE, x, x), &v) && v == 1);
  assert_true(tn_n_is_const(t.n, op(&t, TN_S_LT, x, x), &v) && v == 0);
  assert_true(tn_n_is_const(t.n, op(&t, TN_S_ADD, c(&t, 40), c(&t, 2)), &v) && v == 42);
  assert_true(tn_n_is_const(t.n, op(&t, TN_S_FLOORDIV, c(&t, -7), c(&t, 2)), &v) && v == -4);
  assert_true(tn_n_is_const(t.n, op(&t, TN_S_FLOORDIV, c(&t, 7), c(&t, 0)), &v) && v == 0);
  assert_int_equal(tn_n_select(t.n, tn_n_const(t.n, (tn_vt){TN_BOOL, 1}, (tn_num){.i = 1}), x, t.y), x);
  assert_int_equal(tn_n_select(t.n, t.b, x, x), x);
  assert_int_equal(tn_n_cast(t.n, x, TN_I64), x);
  end(&t);
}

static void test_reassociation(void **state) {
  (void)state;
  fixture t;
  begin(&t);
  tn_nv v = op(&t, TN_S_ADD, op(&t, TN_S_ADD, t.x, c(&t, 5)), c(&t, 7));
  assert_int_equal(v, op(&t, TN_S_ADD, t.x, c(&t, 12)));
  assert_int_equal(op(&t, TN_S_SUB, op(&t, TN_S_ADD, t.x, c(&t, 5)), c(&t, 5)), t.x);
  assert_int_equal(op(&t, TN_S_MUL, op(&t, TN_S_MUL, t.x, c(&t, 3)), c(&t, 4)), op(&t, TN_S_MUL, t.x, c(&t, 12)));
  tn_nv q = op(&t, TN_S_FLOORDIV, t.x, c(&t, 16)), r = op(&t, TN_S_REMAINDER, t.x, c(&t, 16));
  assert_int_equal(t.n->inst[q].sop, TN_S_SHR);
  assert_int_equal(t.n->inst[r].sop, TN_S_AND);
  end(&t);
}

static void test_floats_stay(void **state) {
  (void)state;
  fixture t;
  begin(&t);
  tn_nv zero = tn_n_f(t.n, TN_F32, 1, 0), one = tn_n_f(t.n, TN_F32, 1, 1), nzero = tn_n_f(t.n, TN_F32, 1, -0.0);
  assert_int_not_equal(op(&t, TN_S_ADD, t.f, zero), t.f); /* -0 + 0 is 0 */
  assert_int_not_equal(op(&t, TN_S_MUL, t.f, zero), zero);
  assert_int_not_equal(op(&t, TN_S_SUB, t.f, t.f), zero);
  assert_int_not_equal(op(&t, TN_S_SUB, t.f, nzero), t.f);
  assert_int_equal(op(&t, TN_S_SUB, t.f, zero), t.f);
  assert_int_equal(op(&t, TN_S_MUL, t.f, one), t.f);
  assert_int_equal(op(&t, TN_S_MUL, one, t.f), t.f);
  assert_int_equal(op(&t, TN_S_DIV, t.f, one), t.f);
  assert_int_not_equal(zero, nzero);
  tn_nv three = op(&t, TN_S_ADD, one, tn_n_f(t.n, TN_F32, 1, 2));
  assert_int_equal(t.n->inst[three].op, TN_N_CONST);
  assert_true(t.n->inst[three].imm.f == 3);
  tn_nv tenth = tn_n_f(t.n, TN_F32, 1, 0.1);
  assert_true(t.n->inst[tenth].imm.f == (double)0.1f);
  end(&t);
}

static void test_numbering(void **state) {
  (void)state;
  fixture t;
  begin(&t);
  assert_int_equal(op(&t, TN_S_ADD, t.x, t.y), op(&t, TN_S_ADD, t.y, t.x));
  assert_int_not_equal(op(&t, TN_S_SUB, t.x, t.y), op(&t, TN_S_SUB, t.y, t.x));
  tn_nv outer = op(&t, TN_S_MUL, t.x, t.y);
  tn_nv iv = tn_n_for(t.n, c(&t, 0), t.x, c(&t, 1));
  assert_int_equal(op(&t, TN_S_MUL, t.x, t.y), outer);
  tn_nv inner = op(&t, TN_S_MUL, iv, t.y);
  assert_int_equal(op(&t, TN_S_MUL, iv, t.y), inner);
  tn_nv only_here = op(&t, TN_S_SUB, t.x, c(&t, 1234567));
  tn_n_end(t.n);
  tn_nv after = op(&t, TN_S_SUB, t.x, c(&t, 1234567)); /* the region's value is gone */
  assert_int_not_equal(after, only_here);
  assert_int_equal(op(&t, TN_S_MUL, t.x, t.y), outer);
  tn_nv l1 = tn_n_load(t.n, 0, (tn_vt){TN_F32, 1}, t.x, 0), l2 = tn_n_load(t.n, 0, (tn_vt){TN_F32, 1}, t.x, 0);
  assert_int_not_equal(l1, l2); /* memory is never numbered */
  tn_nv var = tn_n_var(t.n, t.x);
  assert_int_not_equal(tn_n_get(t.n, var), tn_n_get(t.n, var));
  end(&t);
}

/* Many values in nested regions: the table grows inside a region and forgets the right ones. */
static void test_numbering_scopes(void **state) {
  (void)state;
  fixture t;
  begin(&t);
  tn_nv outer[300];
  for (int k = 0; k < 300; k++) outer[k] = op(&t, TN_S_MUL, t.x, c(&t, 1000 + k));
  for (int round = 0; round < 3; round++) {
    tn_n_if(t.n, t.b);
    tn_nv a[400];
    for (int k = 0; k < 400; k++) a[k] = op(&t, TN_S_MUL, t.y, c(&t, 2000 + k));
    tn_n_if(t.n, t.b);
    for (int k = 0; k < 400; k++) assert_int_equal(op(&t, TN_S_MUL, t.y, c(&t, 2000 + k)), a[k]);
    for (int k = 0; k < 900; k++) op(&t, TN_S_XOR, t.y, c(&t, 3000 + k));
    tn_n_end(t.n);
    for (int k = 0; k < 400; k++) assert_int_equal(op(&t, TN_S_MUL, t.y, c(&t, 2000 + k)), a[k]);
    tn_n_end(t.n);
    for (int k = 0; k < 300; k++) assert_int_equal(op(&t, TN_S_MUL, t.x, c(&t, 1000 + k)), outer[k]);
  }
  end(&t);
}

static void test_widening(void **state) {
  (void)state;
  fixture t;
  begin(&t);
  tn_nv v = op(&t, TN_S_ADD, t.g, t.f);
  assert_int_equal(tn_n_type(t.n, v).lanes, 8);
  v = tn_n_fma(t.n, t.f, t.g, tn_n_f(t.n, TN_F32, 1, 2));
  assert_int_equal(tn_n_type(t.n, v).lanes, 8);
  v = tn_n_select(t.n, t.b, t.g, t.f);
  assert_int_equal(tn_n_type(t.n, v).lanes, 8);
  v = tn_n_scalar(t.n, TN_S_POW, t.f, t.g, 0);
  assert_int_equal(tn_n_type(t.n, v).lanes, 8);
  v = tn_n_splat(t.n, tn_n_f(t.n, TN_F32, 1, 2), 8);
  assert_int_equal(t.n->inst[v].op, TN_N_CONST);
  assert_int_equal(op(&t, TN_S_MUL, t.g, tn_n_f(t.n, TN_F32, 8, 1)), t.g);
  v = tn_n_load_guarded(t.n, 0, (tn_vt){TN_F32, 8}, t.x, 0, tn_n_const(t.n, (tn_vt){TN_BOOL, 1}, (tn_num){.i = 1}));
  assert_int_equal(t.n->inst[v].flags, 0);
  end(&t);
}

static void test_scratch(void **state) {
  (void)state;
  fixture t;
  begin(&t);
  assert_int_equal(tn_n_scratch(t.n, "a", TN_F32, 1, -1), -1);
  assert_int_equal(tn_n_scratch(t.n, "b", TN_U8, 65, -1), -2);
  assert_int_equal(tn_n_scratch(t.n, "c", TN_F64, 2, 3), -3);
  int64_t size[4] = {0, 0, 0, 9};
  assert_int_equal(tn_nest_scratch_bytes(t.n, size), 64 + 128 + 192);
  size[3] = INT64_MAX / 2;
  assert_int_equal(tn_nest_scratch_bytes(t.n, size), -1);
  size[3] = -1;
  assert_int_equal(tn_nest_scratch_bytes(t.n, size), -1);
  end(&t);
}

/* Every expansion is basic, verifies, and yields the right type, for every function, dtype and a few widths. */
static void test_expansions(void **state) {
  (void)state;
  for (int o = 0; o < TN_N_SCALARS; o++) {
    for (int t = 0; t < TN_OBJ; t++) {
      if (o == TN_S_SELECT || !tn_scalar_accepts((tn_scalar_op)o, (tn_dtype)t)) continue;
      for (int lanes = 1; lanes <= 64; lanes *= 8) {
        tn_arena a;
        tn_arena_init(&a);
        tn_nest *n;
        assert_int_equal(tn_nest_create(&a, "t", &n), TN_OK);
        tn_nparam p = {"p", (uint8_t)t, false};
        n->param = &p;
        n->n_param = 1;
        tn_vt vt = {(uint8_t)t, (uint8_t)lanes};
        tn_nv x = tn_n_load(n, 0, vt, tn_n_i64(n, 0), 0), y = tn_n_load(n, 0, vt, tn_n_i64(n, 64), 0);
        tn_nv v = tn_n_scalar(n, (tn_scalar_op)o, x, y, 0);
        assert_int_not_equal(v, 0);
        assert_int_equal(tn_n_type(n, v).lanes, lanes);
        assert_int_equal(tn_n_type(n, v).dtype, tn_scalar_is_bool((tn_scalar_op)o) ? TN_BOOL : t);
        for (uint32_t k = 1; k < n->n; k++) assert_true(n->inst[k].op != TN_N_SCALAR || tn_n_is_basic((tn_scalar_op)n->inst[k].sop));
        tn_diag d;
        tn_diag_clear(&d);
        if (tn_nest_verify(&d, n) != TN_OK) fail_msg("%s of %s: %s", tn_scalar_name((tn_scalar_op)o), tn_dtype_name((tn_dtype)t), d.text);
        tn_arena_deinit(&a);
      }
    }
  }
}

static void test_constant_operands(void **state) {
  (void)state;
  fixture t;
  begin(&t);
  tn_nv v = tn_n_scalar(t.n, TN_S_EXP, tn_n_f(t.n, TN_F64, 1, 1), 0, 0);
  assert_int_equal(t.n->inst[v].op, TN_N_CONST);
  assert_true(fabs(t.n->inst[v].imm.f - 2.718281828459045) < 1e-15);
  uint32_t before = t.n->n;
  v = tn_n_scalar(t.n, TN_S_POW, t.f, tn_n_f(t.n, TN_F32, 1, 2), 0);
  assert_int_equal(t.n->inst[v].sop, TN_S_MUL);
  assert_true(t.n->n <= before + 3);
  end(&t);
}

static void test_missing_operands(void **state) {
  (void)state;
  for (int k = 0; k < 10; k++) {
    fixture t;
    begin(&t);
    tn_nv v = 1;
    switch (k) {
      case 0: v = tn_n_op2(t.n, TN_S_ADD, t.x, 0); break;
      case 1: v = tn_n_op1(t.n, TN_S_NEG, 0); break;
      case 2: v = tn_n_scalar(t.n, TN_S_EXP, 0, 0, 0); break;
      case 3: v = tn_n_scalar(t.n, TN_S_POW, t.f, 0, 0); break;
      case 4: v = tn_n_load(t.n, 0, (tn_vt){TN_F32, 1}, 0, 0); break;
      case 5: v = tn_n_fma(t.n, t.f, 0, t.f); break;
      case 6: v = tn_n_for(t.n, 0, t.x, t.x); break;
      case 7: v = tn_n_get(t.n, 0); break;
      case 8: v = tn_n_select(t.n, 0, t.x, t.x); break;
      default: v = tn_n_cast(t.n, 0, TN_F32); break;
    }
    assert_int_equal(v, 0);
    assert_true(t.n->oom);
    assert_int_equal(tn_nest_verify(NULL, t.n), TN_E_NOMEM);
    tn_arena_deinit(&t.a);
  }
}

static void build_something(tn_nest *n) {
  tn_nv x = tn_n_add(n, (tn_ninst){.op = TN_N_SIZE, .vt = i64x1});
  tn_n_scratch(n, "s", TN_F32, 64, -1);
  tn_nv iv = tn_n_for(n, tn_n_i64(n, 0), x, tn_n_i64(n, 1));
  tn_nv v = tn_n_load(n, -1, (tn_vt){TN_F32, 16}, iv, 0);
  v = tn_n_scalar(n, TN_S_TANH, v, 0, 0);
  v = tn_n_scalar(n, TN_S_SIN, v, 0, 0);
  for (int k = 0; k < 200; k++) v = tn_n_op2(n, TN_S_ADD, v, tn_n_f(n, TN_F32, 16, k));
  tn_n_store(n, -1, iv, v, 0);
  tn_n_end(n);
}

static void test_no_memory(void **state) {
  (void)state;
  int64_t total = 0;
  for (int64_t k = 0; k == 0 || k <= total; k++) {
    tn_arena a;
    tn_arena_init(&a);
    tn_nest *n = NULL;
    int64_t from = tn_malloc_count();
    tn_malloc_fail_after(k);
    tn_status s = tn_nest_create(&a, "t", &n);
    if (s == TN_OK) {
      n->n_size = 1;
      build_something(n);
      assert_int_equal(tn_nest_verify(NULL, n), k ? TN_E_NOMEM : TN_OK);
    }
    tn_malloc_fail_after(0);
    if (k == 0) total = tn_malloc_count() - from;
    tn_arena_deinit(&a);
  }
  assert_true(total > 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_identities), cmocka_unit_test(test_reassociation), cmocka_unit_test(test_floats_stay), cmocka_unit_test(test_numbering),
      cmocka_unit_test(test_numbering_scopes), cmocka_unit_test(test_widening), cmocka_unit_test(test_scratch), cmocka_unit_test(test_expansions),
      cmocka_unit_test(test_constant_operands), cmocka_unit_test(test_missing_operands), cmocka_unit_test(test_no_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Layouts of random plans: buffers alive together never overlap, offsets are multiples of 64, the arena is never bigger
 * than the sum of its buffers and never smaller than the largest sum alive at one step; plus cases with a known answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "plan/plan.h"

static uint64_t rng = 88172645463325252u;
static uint32_t rnd(uint32_t n) {
  rng ^= rng << 13, rng ^= rng >> 7, rng ^= rng << 17;
  return (uint32_t)(rng >> 20) % n;
}

static int64_t up(int64_t v) { return (v + 63) / 64 * 64; }

static void check(const tn_plan *p, const int64_t *v, const int64_t *offset, int64_t total) {
  int64_t sum = 0;
  for (uint32_t i = 0; i < p->n_buf; i++) {
    const tn_pbuf *a = &p->buf[i];
    int64_t a_bytes = tn_pd(v, a->bytes);
    if (a->kind != TN_PB_ARENA) {
      assert_int_equal(offset[i], 0);
      continue;
    }
    sum += up(a_bytes);
    assert_true(offset[i] >= 0 && offset[i] % 64 == 0 && offset[i] + a_bytes <= total);
    for (uint32_t k = 0; k < i; k++) {
      const tn_pbuf *b = &p->buf[k];
      int64_t b_bytes = tn_pd(v, b->bytes);
      if (b->kind != TN_PB_ARENA || a->last < b->first || b->last < a->first || !a_bytes || !b_bytes) continue;
      if (offset[i] < offset[k] + b_bytes && offset[k] < offset[i] + a_bytes) fail_msg("buffers %u and %u overlap", i, k);
    }
  }
  assert_true(total <= sum);
  for (uint32_t step = 0; step < p->n_step; step++) {
    int64_t alive = 0;
    for (uint32_t i = 0; i < p->n_buf; i++)
      if (p->buf[i].kind == TN_PB_ARENA && p->buf[i].first <= step && step <= p->buf[i].last) alive += up(tn_pd(v, p->buf[i].bytes));
    assert_true(total >= alive);
  }
}

static void test_random(void **state) {
  (void)state;
  for (int round = 0; round < 300; round++) {
    tn_pbuf buf[80];
    int64_t offset[80], expr[2] = {(int64_t)rnd(5000), 0}, total, before = 0;
    tn_plan p = {.buf = buf, .n_buf = rnd(80), .n_step = 1 + rnd(40)};
    tn_arena scratch;
    tn_arena_init(&scratch);
    for (uint32_t i = 0; i < p.n_buf; i++) {
      uint32_t first = rnd(p.n_step), last = first + rnd(p.n_step - first);
      buf[i] = (tn_pbuf){.kind = rnd(8) ? TN_PB_ARENA : TN_PB_PACKED, .bytes = rnd(6) ? (int64_t)rnd(10000) : ~(tn_pdim)rnd(2), .first = first, .last = last};
    }
    /* As the run time does: one block in advance, then no more allocations. */
    assert_non_null(tn_arena_alloc(&scratch, tn_plan_layout_scratch(&p)));
    tn_mark m = tn_arena_mark(&scratch);
    tn_arena_rewind(&scratch, (tn_mark){m.block, 0});
    for (int twice = 0; twice < 2; twice++) {
      before = tn_malloc_count();
      assert_int_equal(tn_plan_layout(NULL, &p, expr, offset, &total, &scratch), TN_OK);
      assert_int_equal(tn_malloc_count(), before);
      check(&p, expr, offset, total);
      expr[0] = (int64_t)rnd(100000);
    }
    tn_arena_deinit(&scratch);
  }
}

static void test_known(void **state) {
  (void)state;
  /* A chain: two buffers alive at any time, so the two largest neighbours decide. */
  tn_pbuf chain[4] = {{.kind = TN_PB_ARENA, .bytes = 1000, .first = 0, .last = 1}, {.kind = TN_PB_ARENA, .bytes = 5000, .first = 1, .last = 2},
                      {.kind = TN_PB_ARENA, .bytes = 1000, .first = 2, .last = 3}, {.kind = TN_PB_ARENA, .bytes = 200, .first = 3, .last = 4}};
  tn_plan p = {.buf = chain, .n_buf = 4, .n_step = 5};
  int64_t offset[4], total;
  tn_arena scratch;
  tn_diag d;
  tn_arena_init(&scratch);
  assert_int_equal(tn_plan_layout(&d, &p, NULL, offset, &total, &scratch), TN_OK);
  assert_int_equal(total, 5056 + 1024);
  p.n_buf = 0;
  assert_int_equal(tn_plan_layout(&d, &p, NULL, offset, &total, &scratch), TN_OK);
  assert_int_equal(total, 0);
  p.n_buf = 4;
  chain[1].bytes = chain[2].bytes = INT64_MAX / 2 + 100;
  assert_int_equal(tn_plan_layout(&d, &p, NULL, offset, &total, &scratch), TN_E_ARG);
  assert_non_null(strstr(d.text, "overflows"));
  int64_t negative = -8;
  chain[2].bytes = -1;
  assert_int_equal(tn_plan_layout(&d, &p, &negative, offset, &total, &scratch), TN_E_ARG);
  assert_non_null(strstr(d.text, "-8 bytes"));
  tn_arena_deinit(&scratch);
}

/* A deep model: many buffers, each alive for a few steps. */
static void test_cost(void **state) {
  (void)state;
  enum { N = 500 };
  tn_pbuf buf[N];
  int64_t offset[N], total;
  tn_plan p = {.buf = buf, .n_buf = N, .n_step = N};
  tn_arena scratch;
  tn_arena_init(&scratch);
  for (uint32_t i = 0; i < N; i++) {
    uint32_t last = i + 1 + rnd(4);
    buf[i] = (tn_pbuf){.kind = TN_PB_ARENA, .bytes = 1000 + (int64_t)rnd(100000), .first = i, .last = last < N ? last : N - 1};
  }
  uint64_t best = UINT64_MAX;
  for (int i = 0; i < 5; i++) {
    uint64_t t = tn_now_ns();
    assert_int_equal(tn_plan_layout(NULL, &p, NULL, offset, &total, &scratch), TN_OK);
    t = tn_now_ns() - t;
    if (t < best) best = t;
  }
  check(&p, NULL, offset, total);
  print_message("layout of %d buffers: %.0f us\n", N, (double)best / 1e3);
  tn_arena_deinit(&scratch);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_random), cmocka_unit_test(test_known), cmocka_unit_test(test_cost)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

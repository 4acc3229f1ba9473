/* Random graphs: text reads back to itself, compaction keeps what every output computes. The oracle of the second is a hash of the
 * whole expression behind a value, which looks through forwarding and knows nothing of ids or order. */
#include "ir_test.h"

typedef struct gen {
  session *s;
  tn_graph *g;
  uint64_t seed;
  uint32_t n_src;
} gen;

static tn_dim random_dim(gen *r, int depth) {
  tn_dims *d = r->s->dims;
  if (depth == 0 || below(&r->seed, 3) == 0) {
    static const char *const syms[] = {"s0", "s1", "u7", "bool", "inf"};
    return below(&r->seed, 2) ? tn_dim_sym(d, syms[below(&r->seed, 5)]) : (tn_dim)below(&r->seed, 100);
  }
  tn_dim a = random_dim(r, depth - 1), b = random_dim(r, depth - 1), v;
  switch (below(&r->seed, 6)) {
    case 0: v = tn_dim_add(d, a, b); break;
    case 1: v = tn_dim_mul(d, a, b); break;
    case 2: v = tn_dim_floordiv(d, a, b); break;
    case 3: v = tn_dim_mod(d, a, b); break;
    case 4: v = tn_dim_max(d, a, b); break;
    default: v = tn_dim_min(d, a, b); break;
  }
  int64_t c;
  return v == TN_DIM_BAD || (tn_dim_as_int(d, v, &c) && c < 0) ? 5 : v;
}

static tn_type random_type(gen *r) {
  tn_dim d[4];
  uint32_t rank = below(&r->seed, 4);
  for (uint32_t i = 0; i < rank; i++) d[i] = random_dim(r, (int)below(&r->seed, 3));
  return tn_type_make(r->g, (tn_dtype)below(&r->seed, TN_N_DTYPES), rank, d);
}

static tn_attr_val random_val(gen *r, uint32_t n_in, int depth) {
  static const char *const strings[] = {"", "a", "\"q\\\n\t\x01", "\xe2\x82\xac", "a longer string with spaces {}[]()#;%$!"};
  tn_attr_val v = {(tn_attr_kind)below(&r->seed, depth ? TN_AT_LIST + 1 : TN_AT_LIST), {0}};
  uint64_t bits = next_random(&r->seed);
  switch (v.kind) {
    case TN_AT_INT: v.u.i = (int64_t)bits >> below(&r->seed, 64); break;
    case TN_AT_FLOAT: memcpy(&v.u.f, &bits, sizeof bits); break;
    case TN_AT_BOOL: v.u.b = bits & 1; break;
    case TN_AT_STR: v.u.s = strings[bits % 5]; break;
    case TN_AT_DTYPE: v.u.t = (tn_dtype)(bits % TN_N_DTYPES); break;
    case TN_AT_DIM: v.u.d = random_dim(r, 2); break;
    case TN_AT_REF:
      if (n_in)
        v.u.ref = (uint32_t)(bits % n_in);
      else
        v.kind = TN_AT_NONE;
      break;
    case TN_AT_LIST:
      v.u.list.n = (uint32_t)(bits % 4);
      v.u.list.item = TN_NEW(&r->s->arena, tn_attr_val, 4);
      for (uint32_t i = 0; i < v.u.list.n; i++) v.u.list.item[i] = random_val(r, n_in, depth - 1);
      break;
    default: break;
  }
  return v;
}

static tn_ref random_ref(gen *r) { return (tn_ref){1 + below(&r->seed, r->g->n_values - 1)}; }

static void random_name(gen *r, tn_ref v) {
  static const char *const names[] = {"x", "y", "add_1", "7", "odd name", "a.b/c", "graph", "return"};
  if (below(&r->seed, 2)) must(r->s, tn_value_set_name(r->g, v, names[below(&r->seed, 8)]));
}

static void random_graph(gen *r, uint32_t n_nodes, int depth);

static void random_node(gen *r, int depth) {
  tn_graph *g = r->g;
  session *s = r->s;
  uint32_t id, prov = below(&r->seed, r->n_src + 1), n_in;
  tn_ref in[4];
  tn_type t[3];
  for (int i = 0; i < 3; i++) t[i] = random_type(r);
  for (int i = 0; i < 4; i++) in[i] = random_ref(r);
  switch (below(&r->seed, depth ? 5 : 4)) {
    case 0: {
      tn_op op = (tn_op)below(&r->seed, TN_N_SCALARS);
      must(s, tn_graph_add(g, op, in, (uint32_t)tn_op_in_min(op), NULL, 0, t, 1, prov, &id));
      break;
    }
    case 1: {
      static const char *const names[] = {"k", "other", "odd key"};
      tn_attr a[3];
      n_in = below(&r->seed, 5);
      for (int i = 0; i < 3; i++) a[i] = (tn_attr){names[i], random_val(r, n_in, 3)};
      must(s, tn_graph_add(g, TN_OP_CALL, in, n_in, a, below(&r->seed, 4), t, below(&r->seed, 4), prov, &id));
      must(s, tn_node_set_target(g, id, below(&r->seed, 4) ? "aten.some_op.default" : "com.vendor::Op-1"));
      break;
    }
    case 2: {
      uint8_t data[64];
      tn_dim n = below(&r->seed, 9);
      tn_ref c;
      for (int i = 0; i < 64; i++) data[i] = (uint8_t)next_random(&r->seed);
      must(s, tn_graph_add_const(g, tn_type_make(g, TN_F64, 1, &n), data, (size_t)n * 8, prov, &c));
      id = g->value[c.id].node;
      break;
    }
    case 3: {
      tn_attr a[] = {tn_mk_int("dim", -1), tn_mk_bool("descending", below(&r->seed, 2))};
      must(s, tn_graph_add(g, TN_OP_SORT, in, 1, a, 2, t, 2, prov, &id));
      break;
    }
    default: {
      tn_graph *body;
      tn_attr a = tn_mk_str("kind", "pointwise");
      must(s, tn_graph_body(g, below(&r->seed, 2) ? "kernel" : "", &body));
      n_in = below(&r->seed, 4);
      for (uint32_t i = 0; i < n_in; i++) {
        tn_ref p;
        must(s, tn_graph_add_input(body, NULL, *tn_typeof(g, in[i]), TN_ORIGIN_INPUT, &p));
        r->g = body;
        random_name(r, p);
      }
      r->g = body;
      random_graph(r, 1 + below(&r->seed, 5), depth - 1);
      r->g = g;
      uint32_t n_out = 0;
      for (uint32_t i = 0; i < body->n_outputs && n_out < 3; i++) t[n_out++] = *tn_typeof(body, body->output[i].ref);
      must(s, tn_graph_add(g, TN_OP_FUSED, in, n_in, &a, 1, t, n_out, prov, &id));
      g->node[id].body = body;
    }
  }
  for (uint32_t k = 0; k < g->node[id].n_out; k++) random_name(r, tn_out(&g->node[id], k));
}

static void random_graph(gen *r, uint32_t n_nodes, int depth) {
  if (r->g->n_values == 1) { /* something to read */
    uint32_t id;
    tn_type t = random_type(r);
    tn_attr a[] = {tn_mk_dims(r->g, "shape", t.dim, t.rank), tn_mk_float("value", 0.5), tn_mk_dtype("dtype", (tn_dtype)t.dtype)};
    must(r->s, tn_graph_add(r->g, TN_OP_FULL, NULL, 0, a, 3, &t, 1, 0, &id));
  }
  for (uint32_t i = 0; i < n_nodes; i++) random_node(r, depth);
  for (uint32_t i = 1 + below(&r->seed, 3); i > 0; i--) must(r->s, tn_graph_add_output(r->g, random_ref(r)));
}

static tn_graph *random_top(gen *r, uint32_t n_nodes) {
  session *s = r->s;
  must(s, tn_graph_create(&s->arena, s->dims, "random", &r->g));
  r->n_src = below(&r->seed, 4);
  for (uint32_t i = 1; i <= r->n_src; i++) {
    assert_int_equal(tn_graph_add_prov(r->g, "src", i % 2 ? "aten.add.Tensor" : NULL, NULL, (tn_dtype)i), i);
    tn_prov *p = tn_graph_prov(r->g, i);
    for (int k = 0; k < 4; k++) p->gate[k] = (uint8_t)below(&r->seed, 3);
    p->fate = (uint8_t)below(&r->seed, TN_N_FATES);
    if (p->fate) p->detail = "detail \"x\"";
  }
  for (uint32_t i = 0, n = below(&r->seed, 4); i < n; i++) {
    tn_ref x;
    tn_origin o = (tn_origin)below(&r->seed, TN_ORIGIN_SYM + 1);
    tn_type t = o == TN_ORIGIN_SYM ? tn_type_make(r->g, TN_I64, 0, NULL) : random_type(r);
    must(s, tn_graph_add_input(r->g, NULL, t, o, &x));
    random_name(r, x);
    tn_node *node = tn_def(r->g, x);
    if (o == TN_ORIGIN_SYM) node->input->sym = random_dim(r, 1);
    if (t.rank && below(&r->seed, 2))
      node->input->stride = random_type(r).rank == t.rank ? tn_type_make(r->g, TN_F32, t.rank, t.dim).dim : NULL;
    node->prov = below(&r->seed, r->n_src + 1);
  }
  random_graph(r, n_nodes, 2);
  for (uint32_t i = 0; i < r->g->n_inputs; i++)
    if (below(&r->seed, 3) == 0) must(s, tn_graph_add_mutation(r->g, i, r->g->input[i]));
  if (below(&r->seed, 2)) must(s, tn_graph_add_output_none(r->g));
  if (below(&r->seed, 2)) must(s, tn_graph_add_output_dim(r->g, random_dim(r, 3)));
  tn_dim_set_range(s->dims, tn_dim_sym(s->dims, "s1"), 2, 4096);
  return r->g;
}

static void test_text(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 400; seed++) {
    session s;
    session_init(&s);
    gen r = {&s, NULL, seed, 0};
    tn_graph *g = random_top(&r, 1 + below(&r.seed, 30));
    must(&s, tn_graph_verify(&s.diag, g));
    for (unsigned flags = 0; flags <= TN_PRINT_PROV; flags++) {
      char *text = copy_text(show(&s, g, flags));
      session other;
      session_init(&other);
      tn_graph *h = must_parse(&other, text);
      must(&other, tn_graph_verify(&other.diag, h));
      assert_string_equal(show(&other, h, flags), text);
      session_deinit(&other);
      free(text);
    }
    session_deinit(&s);
  }
}

/* ---- compaction ---- */

static uint64_t mix(uint64_t h, uint64_t v) { return tn_hash(&v, sizeof v, h); }

/* memo: 0 unknown, 1 being computed. A cycle gives 2. */
static uint64_t meaning(const tn_graph *g, tn_ref v, uint64_t *memo) {
  v = tn_graph_resolve(g, v);
  if (memo[v.id] == 1) return memo[v.id] = 2;
  if (memo[v.id]) return memo[v.id];
  memo[v.id] = 1;
  const tn_node *n = &g->node[g->value[v.id].node];
  uint64_t h = mix(mix(mix(77, n->op), g->value[v.id].index), n->n_attr);
  for (uint32_t i = 0; n->op == TN_OP_INPUT && i < g->n_inputs; i++)
    if (g->input[i].id == v.id) h = mix(h, i + 1);
  if (n->data) h = tn_hash(n->data->p, n->data->bytes, h);
  if (n->target) h = tn_hash(n->target, strlen(n->target), h);
  for (uint32_t i = 0; i < n->n_in; i++) {
    uint64_t m = meaning(g, n->in[i], memo);
    if (m == 2) return memo[v.id] = 2;
    h = mix(h, m);
  }
  if (n->body) {
    uint64_t *inner = calloc(n->body->n_values, sizeof *inner);
    assert_non_null(inner);
    for (uint32_t i = 0; i < n->body->n_outputs; i++) h = mix(h, meaning(n->body, n->body->output[i].ref, inner));
    free(inner);
  }
  return memo[v.id] = h | 4;
}

static void meanings(const tn_graph *g, uint64_t *out) {
  uint64_t *memo = calloc(g->n_values, sizeof *memo);
  assert_non_null(memo);
  for (uint32_t i = 0; i < g->n_outputs; i++)
    *out++ = g->output[i].is_dim ? (uint64_t)g->output[i].dim : g->output[i].is_none ? 3 : meaning(g, g->output[i].ref, memo);
  for (uint32_t i = 0; i < g->n_mutations; i++) *out++ = meaning(g, g->mutation[i].value, memo);
  free(memo);
}

static void test_compact(void **state) {
  (void)state;
  uint32_t cycles = 0;
  for (uint64_t seed = 1; seed <= 600; seed++) {
    session s;
    session_init(&s);
    gen r = {&s, NULL, seed * 7919, 0};
    tn_graph *g = random_top(&r, 1 + below(&r.seed, 40));
    for (uint32_t i = below(&r.seed, 8); i > 0; i--) { /* as a pass does: a new node, an old value forwarded to it */
      tn_ref old = random_ref(&r);
      if (below(&r.seed, 2)) random_node(&r, 1);
      tn_ref with = below(&r.seed, 4) ? (tn_ref){g->n_values - 1} : random_ref(&r);
      tn_type t = *tn_typeof(g, old);
      if (!tn_def(g, with)->data) g->value[with.id].type = t; /* a constant keeps its own: types that do not fit are not noticed here */
      tn_graph_replace(g, old, with);
    }
    uint64_t before[64], after[64];
    memset(before, 0, sizeof before);
    memset(after, 0, sizeof after);
    meanings(g, before);
    uint32_t n_nodes = g->n_nodes;
    tn_status st = tn_graph_compact(&s.diag, g);
    if (st == TN_OK) {
      meanings(g, after);
      assert_memory_equal(before, after, sizeof before);
      assert_true(g->n_nodes <= n_nodes);
      for (uint32_t i = 1; i < g->n_nodes; i++) {
        assert_int_equal(g->node[i].op == TN_OP_INPUT, i <= g->n_inputs);
        for (uint32_t k = 0; k < g->node[i].n_in; k++) assert_true(g->value[g->node[i].in[k].id].node < i);
      }
      uint32_t *use = tn_graph_uses(&s.arena, g);
      for (uint32_t i = g->n_inputs + 1; i < g->n_nodes; i++) { /* nobody is left without a reader */
        uint32_t sum = 0;
        for (uint32_t k = 0; k < g->node[i].n_out; k++) sum += use[g->node[i].out + k];
        assert_true(sum > 0);
      }
      char *text = copy_text(show(&s, g, TN_PRINT_PROV));
      must(&s, tn_graph_compact(&s.diag, g));
      assert_string_equal(show(&s, g, TN_PRINT_PROV), text);
      same_after_reading(text, TN_PRINT_PROV);
      free(text);
    } else {
      assert_int_equal(st, TN_E_VERIFY);
      assert_non_null(strstr(s.diag.text, "cycle"));
      cycles++;
    }
    session_deinit(&s);
  }
  assert_true(cycles > 0 && cycles < 300);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_text), cmocka_unit_test(test_compact)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

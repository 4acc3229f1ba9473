/* onnx_rnn: RNN, GRU, LSTM in all directions. The plain forms (usual activations, no clipping, no peepholes) are library prims, one per direction, for any
 * number of steps; the rest is written out step by step for a constant number of at most 64 steps, and is a loop that the run repeats otherwise.
 *
 * Sequence lengths: behind a sequence's end the state must stay. A library prim is told so through the data: x gets one more feature that is 1 there, and
 * its weight is a huge number, so that the gates which keep the state are exactly 1 and those which change it exactly 0. A reverse direction with lengths
 * turns every sequence round by itself, runs forward and turns the result round again. (https://onnx.ai/onnx/operators/onnx__LSTM.html and so on) */
#include "onnx_nn.h"

#define N TN_MAX_RANK
enum { MAX_STEPS = 64, GATES = 4 };

typedef enum kind { RNN, GRU, LSTM } kind;
static const int n_gates[] = {1, 3, 4}, n_acts[] = {1, 2, 3};

/* ---- activations ---- */

typedef enum act_id { RELU, TANH, SIGMOID, AFFINE, LEAKY, THRESHOLDED, SCALED_TANH, HARD_SIGMOID, ELU, SOFTSIGN, SOFTPLUS, N_ACTS } act_id;
typedef struct act { act_id id; double alpha, beta; } act;
static const struct { const char *name; bool alpha, beta; double a, b; } act_row[N_ACTS] = {
    {"relu", 0, 0, 0, 0}, {"tanh", 0, 0, 0, 0}, {"sigmoid", 0, 0, 0, 0}, {"affine", 1, 1, 1, 0}, {"leakyrelu", 1, 0, 0.01, 0}, {"thresholdedrelu", 1, 0, 1, 0},
    {"scaledtanh", 1, 1, 1, 1}, {"hardsigmoid", 1, 1, 0.2, 0.5}, {"elu", 1, 0, 1, 0}, {"softsign", 0, 0, 0, 0}, {"softplus", 0, 0, 0, 0}};

static bool same_word(const char *a, const char *low) {
  for (; *a && *low; a++, low++)
    if ((*a >= 'A' && *a <= 'Z' ? *a + 32 : *a) != *low) return false;
  return !*a && !*low;
}
static tn_ref activate(tn_decomp_ctx *b, const act *f, tn_ref x) {
  tn_dtype t = tn_b_dtype(b, x);
  tn_ref nil = tn_b_num(b, 0, t), one = tn_b_num(b, 1, t);
  switch (f->id) {
  case RELU: return tn_b_1(b, TN_OP_RELU, x);
  case TANH: return tn_b_1(b, TN_OP_TANH, x);
  case SIGMOID: return tn_b_1(b, TN_OP_SIGMOID, x);
  case AFFINE: return tn_b_addn(b, tn_b_muln(b, x, f->alpha), f->beta);
  case LEAKY: return tn_b_sel(b, tn_b_2(b, TN_OP_GE, x, nil), x, tn_b_muln(b, x, f->alpha));
  case THRESHOLDED: return tn_b_sel(b, tn_b_2(b, TN_OP_GE, x, tn_b_num(b, f->alpha, t)), x, nil);
  case SCALED_TANH: return tn_b_muln(b, tn_b_1(b, TN_OP_TANH, tn_b_muln(b, x, f->beta)), f->alpha);
  case HARD_SIGMOID: return tn_nn_min(b, tn_nn_max(b, tn_b_addn(b, tn_b_muln(b, x, f->alpha), f->beta), nil), one);
  case ELU: return tn_b_sel(b, tn_b_2(b, TN_OP_GE, x, nil), x, tn_b_muln(b, tn_b_1(b, TN_OP_EXPM1, x), f->alpha));
  case SOFTSIGN: return tn_nn_div(b, x, tn_nn_add(b, one, tn_b_1(b, TN_OP_ABS, x)));
  case SOFTPLUS: return tn_nn_add(b, tn_nn_max(b, x, nil), tn_b_1(b, TN_OP_LOG1P, tn_b_1(b, TN_OP_EXP, tn_b_1(b, TN_OP_NEG, tn_b_1(b, TN_OP_ABS, x)))));
  case N_ACTS: break;
  }
  return x;
}

/* ---- the node ---- */

typedef struct layer {
  kind kind;
  int dirs;
  bool reverse0, batch_first, linear, coupled; /* reverse0: the only direction runs backwards */
  double clip;                 /* 0 = none */
  act act[2][3];
  tn_dim T, B, I, H;
  tn_dtype t;                  /* computed in */
  tn_ref x, len;               /* x[T, B, I]; len[B] i64 or id 0 */
} layer;
/* one direction: w[G*H, I], r[G*H, H], wb, rb [G*H] or id 0, p[3H] or id 0, h0, c0 [B, H]; results y[T, B, H], h, c */
typedef struct direction { bool reverse; const act *act; tn_ref w, r, wb, rb, p, h0, c0, y, h, c; } direction;

static void read_acts(tn_ox *c, layer *l) {
  static const act_id usual[3][3] = {{TANH}, {SIGMOID, TANH}, {SIGMOID, TANH, TANH}};
  int n = n_acts[l->kind], total = n * l->dirs;
  const tn_ox_attr *names = tn_ox_attr_get(c, "activations"), *v[2] = {tn_ox_attr_get(c, "activation_alpha"), tn_ox_attr_get(c, "activation_beta")};
  uint32_t used[2] = {0, 0};
  if (names && (names->kind != TN_OX_STRS || (int)names->n != total)) { tn_ox_bad(c, "activations are not %d names", total); return; }
  for (int k = 0; k < 2; k++)
    if (v[k] && v[k]->kind != TN_OX_FLOATS) { tn_ox_bad(c, "activation_%s is no list of numbers", k ? "beta" : "alpha"); return; }
  for (int i = 0; i < total; i++) {
    act *a = &l->act[i / n][i % n];
    int id = usual[l->kind][i % n];
    if (names)
      for (id = 0; id < N_ACTS && !same_word(names->u.s[i].s, act_row[id].name); id++) {}
    if (id == N_ACTS) { tn_ox_unsup(c, "activation '%s'", names->u.s[i].s); return; }
    *a = (act){(act_id)id, act_row[id].a, act_row[id].b};
    if (act_row[id].alpha && v[0] && used[0] < v[0]->n) a->alpha = v[0]->u.f[used[0]++];
    if (act_row[id].beta && v[1] && used[1] < v[1]->n) a->beta = v[1]->u.f[used[1]++];
  }
}

/* Lengths that say nothing: all of them T. */
static bool full_lengths(tn_ox *c, tn_ref r, tn_dim T) {
  int64_t v[256];
  int n = tn_ox_consts(c, r, v, 256);
  if (n < 0 || !tn_dim_is_const(T)) return false;
  for (int i = 0; i < n; i++)
    if (v[i] != T) return false;
  return true;
}

static bool read_layer(tn_ox *c, layer *l) {
  tn_decomp_ctx *b = &c->b;
  tn_dim d[N], dw[N], dr[N];
  tn_ref x = tn_ox_in(c, 0), w = tn_ox_in(c, 1), r = tn_ox_in(c, 2), len = tn_ox_opt(c, 4);
  const char *dir = tn_ox_str_attr(c, "direction", "forward");
  tn_nn_shape(c, x, 3, 3, "X", d);
  tn_nn_shape(c, w, 3, 3, "W", dw);
  tn_nn_shape(c, r, 3, 3, "R", dr);
  if (!tn_nn_float(c, x, "X")) return false;
  bool two = !strcmp(dir, "bidirectional");
  l->reverse0 = !strcmp(dir, "reverse");
  if (!two && !l->reverse0 && strcmp(dir, "forward")) { tn_ox_bad(c, "direction is '%s'", dir); return false; }
  l->dirs = two ? 2 : 1;
  if (dw[0] != l->dirs || dr[0] != l->dirs) { tn_ox_bad(c, "W and R are not for %d directions", l->dirs); return false; }
  l->batch_first = c->opset >= 14 && tn_ox_int(c, "layout", 0);
  l->linear = tn_ox_int(c, "linear_before_reset", 0) != 0;
  l->coupled = tn_ox_int(c, "input_forget", 0) != 0;
  l->clip = tn_ox_attr_get(c, "clip") ? tn_ox_float(c, "clip", 0) : 0;
  if (l->clip < 0) { tn_ox_bad(c, "clip is %g", l->clip); return false; }
  read_acts(c, l);
  l->t = tn_b_wide(tn_b_dtype(b, x));
  l->T = d[l->batch_first];
  l->B = d[!l->batch_first];
  l->I = dw[2];
  l->H = dr[2];
  tn_dim s[3] = {l->T, l->B, l->I};
  l->x = tn_b_cast(b, tn_b_reshape(b, l->batch_first ? tn_b_swap(b, x, 0, 1) : x, s, 3), l->t);
  int64_t H = tn_ox_int(c, "hidden_size", 0);
  if (b->st == TN_OK && H > 0 && tn_dim_is_const(l->H) && H != l->H) tn_ox_bad(c, "hidden_size is %lld, R has %lld", (long long)H, (long long)l->H);
  if (len.id && !full_lengths(c, len, l->T)) l->len = tn_b_reshape(b, tn_b_cast(b, len, TN_I64), &l->B, 1);
  return b->st == TN_OK;
}

/* row `d` of operand k in dtype t, without that dim; along dim `at`. id 0 when left out */
static tn_ref of_direction(tn_ox *c, const layer *l, uint32_t k, int d, int at) {
  tn_ref r = tn_ox_opt(c, k);
  if (!r.id || c->b.st != TN_OK) return (tn_ref){0};
  if (tn_b_rank(&c->b, r) <= at) { tn_ox_bad(c, "operand %u has rank %d", k, tn_b_rank(&c->b, r)); return (tn_ref){0}; }
  return tn_b_cast(&c->b, tn_b_sq(&c->b, tn_b_slice(&c->b, r, at, d, 1, 1), at), l->t);
}
static void read_direction(tn_ox *c, const layer *l, int d, direction *o) {
  tn_decomp_ctx *b = &c->b;
  tn_dim state[2] = {l->B, l->H}, rows = tn_dim_mul(b->g->dims, l->H, n_gates[l->kind]);
  o->reverse = d == 1 || l->reverse0;
  o->act = l->act[d];
  o->w = of_direction(c, l, 1, d, 0);
  o->r = of_direction(c, l, 2, d, 0);
  tn_ref bias = of_direction(c, l, 3, d, 0);
  if (bias.id) {
    o->wb = tn_b_slice(b, bias, 0, 0, rows, 1);
    o->rb = tn_b_slice(b, bias, 0, rows, rows, 1);
  }
  o->h0 = of_direction(c, l, 5, d, l->batch_first);
  o->h0 = o->h0.id ? tn_b_reshape(b, o->h0, state, 2) : tn_b_zeros(b, state, 2, l->t);   /* sizes spelled in two ways get one */
  if (l->kind != LSTM) return;
  o->c0 = of_direction(c, l, 6, d, l->batch_first);
  o->c0 = o->c0.id ? tn_b_reshape(b, o->c0, state, 2) : tn_b_zeros(b, state, 2, l->t);
  o->p = of_direction(c, l, 7, d, 0);
}

/* ---- lengths ---- */

/* [T, B] of bool: step t belongs to the sequence */
static tn_ref alive(tn_decomp_ctx *b, const layer *l) { return tn_b_2(b, TN_OP_LT, tn_b_along(b, tn_b_iota(b, l->T, TN_I64), 0, 2), tn_b_along(b, l->len, 1, 2)); }
/* Every sequence of x[T, B, n] turned round by itself */
static tn_ref turned(tn_decomp_ctx *b, const layer *l, tn_ref x) {
  tn_dim d[N];
  int rank = tn_b_shape(b, x, d);
  tn_ref t = tn_b_along(b, tn_b_iota(b, l->T, TN_I64), 0, 2), back = tn_nn_sub(b, tn_nn_sub(b, tn_b_along(b, l->len, 1, 2), tn_b_int(b, 1, TN_I64)), t);
  tn_ref at = tn_b_sel(b, alive(b, l), back, tn_b_broadcast(b, t, d, 2)), in[2] = {x, tn_b_broadcast(b, tn_b_unsq(b, at, 2), d, rank)};
  tn_attr a = tn_mk_int("dim", 0);
  return tn_b_op(b, TN_OP_GATHER, in, 2, &a, 1);
}

/* ---- library prims ---- */

static bool is(const act *a, act_id x, act_id y, act_id z, int n) { return a[0].id == x && (n < 2 || a[1].id == y) && (n < 3 || a[2].id == z); }
static bool plain(const layer *l, const direction *o) {
  if (l->clip != 0 || l->t != TN_F32) return false;
  if (l->kind == GRU) return l->linear && is(o->act, SIGMOID, TANH, TANH, 2);
  return l->kind == LSTM && !o->p.id && !l->coupled && is(o->act, SIGMOID, TANH, TANH, 3);
}
/* gates of w[G*H, ..] in another order */
static tn_ref reorder(tn_decomp_ctx *b, const layer *l, tn_ref w, const int *order, int n) {
  tn_ref part[GATES];
  for (int i = 0; i < n; i++) part[i] = tn_b_slice(b, w, 0, tn_dim_mul(b->g->dims, l->H, order[i]), l->H, 1);
  return tn_b_concat(b, part, (uint32_t)n, 0);
}
/* y at each sequence's last step; the initial state where a sequence is empty */
static tn_ref last_state(tn_decomp_ctx *b, const layer *l, tn_ref y, tn_ref h0) {
  tn_dim d[3] = {1, l->B, l->H};
  tn_ref nil = tn_b_int(b, 0, TN_I64), at = tn_nn_max(b, tn_b_addn(b, l->len, -1), nil);
  tn_ref in[2] = {y, tn_b_broadcast(b, tn_b_along(b, at, 1, 3), d, 3)};
  tn_attr a = tn_mk_int("dim", 0);
  tn_ref h = tn_b_sq(b, tn_b_op(b, TN_OP_GATHER, in, 2, &a, 1), 0);
  return tn_b_sel(b, tn_b_along(b, tn_b_2(b, TN_OP_GT, l->len, nil), 0, 2), h, h0);
}
static void library(tn_ox *c, const layer *l, direction *o) {
  static const int lstm_order[] = {0, 2, 3, 1}, gru_order[] = {1, 0, 2};    /* ONNX: i o f c, z r h; the prims: i f g o, r z n */
  static const double lstm_keep[] = {-1e9, 1e9, 0, 0}, gru_keep[] = {0, 1e9, 0};
  tn_decomp_ctx *b = &c->b;
  bool lstm = l->kind == LSTM, lengths = l->len.id != 0;
  int n = n_gates[l->kind];
  const int *order = lstm ? lstm_order : gru_order;
  tn_dim rows = tn_dim_mul(b->g->dims, l->H, n);
  tn_ref x = l->x, w = reorder(b, l, o->w, order, n), none = tn_b_zeros(b, &rows, 1, l->t);
  if (lengths) {
    tn_ref col[GATES], xs[2], ws[2];
    tn_dim one[2] = {l->H, 1};
    for (int g = 0; g < n; g++) {
      tn_attr_val v = {.kind = TN_AT_FLOAT};
      v.u.f = lstm ? lstm_keep[g] : gru_keep[g];
      col[g] = tn_b_full(b, one, 2, &v, l->t);
    }
    if (o->reverse) x = turned(b, l, x);
    tn_ref off = tn_b_unsq(b, tn_b_cast(b, tn_b_1(b, TN_OP_NOT, alive(b, l)), l->t), 2);
    xs[0] = x; xs[1] = off;
    ws[0] = w; ws[1] = tn_b_concat(b, col, (uint32_t)n, 0);
    x = tn_b_concat(b, xs, 2, 2);
    w = tn_b_concat(b, ws, 2, 1);
  }
  tn_ref in[7] = {x, w, reorder(b, l, o->r, order, n), o->wb.id ? reorder(b, l, o->wb, order, n) : none, o->rb.id ? reorder(b, l, o->rb, order, n) : none, o->h0, o->c0};
  tn_attr at[2] = {tn_mk_bool("reverse", o->reverse && !lengths), tn_mk_dims(b->g, "hidden", &l->H, 1)};
  o->y = tn_b_op(b, lstm ? TN_OP_LSTM : TN_OP_GRU, in, lstm ? 7 : 6, at, 2);
  o->h = tn_ox_nth(o->y, 1);
  if (lstm) o->c = tn_ox_nth(o->y, 2);
  if (!lengths || b->st != TN_OK) return;
  o->h = lstm ? last_state(b, l, o->y, o->h0) : o->h;
  o->y = tn_b_sel(b, tn_b_unsq(b, alive(b, l), 2), o->y, tn_b_num(b, 0, l->t));
  if (o->reverse) o->y = turned(b, l, o->y);
}

/* ---- step by step ---- */

static tn_ref bound(tn_decomp_ctx *b, const layer *l, tn_ref x) {
  if (l->clip == 0) return x;
  return tn_nn_min(b, tn_nn_max(b, x, tn_b_num(b, -l->clip, l->t)), tn_b_num(b, l->clip, l->t));
}
static tn_ref gate(tn_decomp_ctx *b, const layer *l, tn_ref v, int k) { return v.id ? tn_nn_last(b, v, tn_dim_mul(b->g->dims, l->H, k), l->H) : v; }

/* gx: this step's x W' + biases [B, G*H] (GRU: of the hidden gate only those that the reset gate does not meet) */
static void lstm_step(tn_decomp_ctx *b, const layer *l, const direction *o, tn_ref gx, tn_ref *h, tn_ref *s) {
  tn_ref g = tn_nn_add(b, gx, tn_b_contract(b, "bh,gh->bg", *h, o->r)), i = gate(b, l, g, 0), out = gate(b, l, g, 1), f = gate(b, l, g, 2), n = gate(b, l, g, 3);
  if (o->p.id) {
    i = tn_nn_add(b, i, tn_nn_mul(b, gate(b, l, o->p, 0), *s));
    f = tn_nn_add(b, f, tn_nn_mul(b, gate(b, l, o->p, 2), *s));
  }
  i = activate(b, &o->act[0], bound(b, l, i));
  f = l->coupled ? tn_nn_sub(b, tn_b_num(b, 1, l->t), i) : activate(b, &o->act[0], bound(b, l, f));
  n = activate(b, &o->act[1], bound(b, l, n));
  *s = tn_nn_add(b, tn_nn_mul(b, f, *s), tn_nn_mul(b, i, n));
  if (o->p.id) out = tn_nn_add(b, out, tn_nn_mul(b, gate(b, l, o->p, 1), *s));
  *h = tn_nn_mul(b, activate(b, &o->act[0], bound(b, l, out)), activate(b, &o->act[2], bound(b, l, *s)));
}
static void gru_step(tn_decomp_ctx *b, const layer *l, const direction *o, tn_ref gx, tn_ref *h) {
  tn_dim H = l->H, two = tn_dim_mul(b->g->dims, H, 2);
  tn_ref rzr = tn_b_slice(b, o->r, 0, 0, two, 1), rh = tn_b_slice(b, o->r, 0, two, H, 1), zr = tn_b_contract(b, "bh,gh->bg", *h, rzr), n;
  tn_ref z = activate(b, &o->act[0], bound(b, l, tn_nn_add(b, gate(b, l, gx, 0), gate(b, l, zr, 0))));
  tn_ref r = activate(b, &o->act[0], bound(b, l, tn_nn_add(b, gate(b, l, gx, 1), gate(b, l, zr, 1))));
  if (l->linear) {
    n = tn_b_contract(b, "bh,gh->bg", *h, rh);
    if (o->rb.id) n = tn_nn_add(b, n, gate(b, l, o->rb, 2));
    n = tn_nn_mul(b, r, n);
  } else n = tn_b_contract(b, "bh,gh->bg", tn_nn_mul(b, r, *h), rh);
  n = activate(b, &o->act[1], bound(b, l, tn_nn_add(b, gate(b, l, gx, 2), n)));
  *h = tn_nn_add(b, tn_nn_mul(b, tn_nn_sub(b, tn_b_num(b, 1, l->t), z), n), tn_nn_mul(b, z, *h));
}

/* Step number k (a number, or an i64 scalar in a body): h and s move on where the sequence goes on; the result is the step's output. */
static tn_ref move(tn_decomp_ctx *b, const layer *l, const direction *o, tn_ref g, tn_ref k, tn_ref *h, tn_ref *s) {
  tn_ref h1 = *h, s1 = *s, out;
  if (l->kind == LSTM) lstm_step(b, l, o, g, &h1, &s1);
  else if (l->kind == GRU) gru_step(b, l, o, g, &h1);
  else h1 = activate(b, &o->act[0], bound(b, l, tn_nn_add(b, g, tn_b_contract(b, "bh,gh->bg", *h, o->r))));
  out = h1;
  if (l->len.id) {
    tn_ref on = tn_b_along(b, tn_b_2(b, TN_OP_GT, l->len, k), 0, 2);
    out = tn_b_sel(b, on, h1, tn_b_num(b, 0, l->t));
    h1 = tn_b_sel(b, on, h1, *h);
    if (s1.id) s1 = tn_b_sel(b, on, s1, *s);
  }
  *h = h1;
  *s = s1;
  return out;
}

/* What a body reads besides its state: gx and what the steps need of the direction, in this order. */
typedef struct body { tn_ox *c; const layer *l; const direction *o; bool back; } body;
static uint32_t extras(const body *x, tn_ref gx, tn_ref *out) {
  const tn_ref all[5] = {gx, x->o->r, x->o->rb, x->o->p, x->l->len};
  uint32_t n = 0;
  for (int i = 0; i < 5; i++)
    if (all[i].id) out[n++] = all[i];
  return n;
}
static tn_status body_fill(void *ctx, tn_ox_env *env, const tn_ref *in, uint32_t n_in) {
  const body *x = ctx;
  tn_ox own = tn_ox_inside(x->c, env);
  tn_decomp_ctx *b = &own.b;
  layer l = *x->l;
  direction o = *x->o;
  uint32_t k = 2, n = 1;
  tn_ref h = in[k++], s = l.kind == LSTM ? in[k++] : (tn_ref){0}, gx = in[k++], at = in[0], out[4];
  (void)n_in;
  o.r = in[k++];
  if (o.rb.id) o.rb = in[k++];
  if (o.p.id) o.p = in[k++];
  if (l.len.id) l.len = in[k++];
  if (x->back) at = tn_nn_sub(b, tn_b_dimval(b, tn_dim_sub(b->g->dims, l.T, 1), TN_I64), at);
  tn_ref y = move(b, &l, &o, tn_b_take(b, gx, at, 0), in[0], &h, &s);
  out[0] = tn_b_int(b, 1, TN_BOOL);
  out[n++] = h;
  if (l.kind == LSTM) out[n++] = s;
  out[n++] = y;
  return b->st != TN_OK ? b->st : tn_ox_body_outputs(&own, out, n);
}
static void looped(tn_ox *c, const layer *l, direction *o, tn_ref gx, bool backwards) {
  body x = {c, l, o, backwards};
  tn_ref state[2] = {o->h0, o->c0}, more[5], out[3];
  uint32_t n = l->kind == LSTM ? 2 : 1, n_more = extras(&x, gx, more);
  if (tn_ox_repeat(c, l->T, body_fill, &x, state, n, more, n_more, 1, out) != TN_OK) return;
  o->h = out[0];
  if (n == 2) o->c = out[1];
  o->y = out[n];
  if (backwards) {
    tn_dim dim = 0;
    tn_attr a = tn_mk_dims(c->b.g, "dims", &dim, 1);
    o->y = tn_b_op(&c->b, TN_OP_FLIP, &o->y, 1, &a, 1);
  }
}

static void unrolled(tn_ox *c, const layer *l, direction *o, tn_ref gx, bool backwards) {
  tn_decomp_ctx *b = &c->b;
  tn_ref y[MAX_STEPS], h = o->h0, s = o->c0;
  for (int64_t k = 0; k < l->T && b->st == TN_OK; k++) {
    int64_t t = backwards ? l->T - 1 - k : k;
    tn_ref g = tn_b_sq(b, tn_b_slice(b, gx, 0, t, 1, 1), 0);
    y[t] = tn_b_unsq(b, move(b, l, o, g, tn_b_int(b, k, TN_I64), &h, &s), 0);
  }
  if (b->st != TN_OK) return;
  o->y = tn_b_concat(b, y, (uint32_t)l->T, 0);
  o->h = h;
  o->c = s;
}

static void by_steps(tn_ox *c, const layer *l, direction *o) {
  tn_decomp_ctx *b = &c->b;
  tn_ref x = l->x;
  bool turns = l->len.id && o->reverse;
  if (turns) x = turned(b, l, x);
  tn_ref gx = tn_b_contract(b, "tbi,gi->tbg", x, o->w), rb = o->rb;
  if (o->wb.id) gx = tn_nn_add(b, gx, o->wb);
  if (rb.id && l->kind == GRU && l->linear) {          /* the hidden gate's goes under the reset gate */
    tn_ref part[2] = {tn_b_slice(b, rb, 0, 0, tn_dim_mul(b->g->dims, l->H, 2), 1), tn_b_zeros(b, &l->H, 1, l->t)};
    rb = tn_b_concat(b, part, 2, 0);
  } else o->rb = (tn_ref){0};                          /* is in gx */
  if (rb.id) gx = tn_nn_add(b, gx, rb);
  if (b->st != TN_OK) return;
  if (tn_dim_is_const(l->T) && l->T > 0 && l->T <= MAX_STEPS) unrolled(c, l, o, gx, o->reverse && !turns);
  else looped(c, l, o, gx, o->reverse && !turns);
  if (turns && b->st == TN_OK) o->y = turned(b, l, o->y);
}

static tn_status recurrent(tn_ox *c, kind k) {
  tn_decomp_ctx *b = &c->b;
  layer l = {.kind = k};
  direction o[2] = {{0}};
  tn_ref y[2], h[2], s[2];
  if (!read_layer(c, &l)) return b->st;
  tn_dtype t = tn_b_dtype(b, tn_ox_in(c, 0));
  for (int d = 0; d < l.dirs; d++) {
    read_direction(c, &l, d, &o[d]);
    if (b->st != TN_OK) return b->st;
    if (plain(&l, &o[d])) library(c, &l, &o[d]);
    else by_steps(c, &l, &o[d]);
    if (b->st != TN_OK) return b->st;
    y[d] = tn_b_unsq(b, o[d].y, 1);
    h[d] = tn_b_unsq(b, o[d].h, 0);
    if (k == LSTM) s[d] = tn_b_unsq(b, o[d].c, 0);
  }
  tn_ref all[3] = {tn_b_concat(b, y, (uint32_t)l.dirs, 1), tn_b_concat(b, h, (uint32_t)l.dirs, 0)};
  if (k == LSTM) all[2] = tn_b_concat(b, s, (uint32_t)l.dirs, 0);
  static const int first[4] = {2, 0, 1, 3};
  if (l.batch_first && b->st == TN_OK) {
    all[0] = tn_b_permute(b, all[0], first);
    for (int i = 1; i < (k == LSTM ? 3 : 2); i++) all[i] = tn_b_swap(b, all[i], 0, 1);
  }
  for (uint32_t i = 0; i < c->n_out && i < (k == LSTM ? 3u : 2u); i++) tn_ox_ret(c, i, tn_b_cast(b, all[i], t));
  return b->st;
}
tn_status tn_ox_rnn(tn_ox *c) { return recurrent(c, RNN); }
tn_status tn_ox_gru(tn_ox *c) { return recurrent(c, GRU); }
tn_status tn_ox_lstm(tn_ox *c) { return recurrent(c, LSTM); }

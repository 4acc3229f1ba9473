/* winograd: 3x3 convolutions of stride 1 by Winograd's minimal filtering F(4x4, 3x3).
 *
 * Idea (A. Lavin, S. Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016): an output tile Y of 4x4 is A^T [U . V] A with
 * V = B^T d B of a 6x6 input tile d and U = G g G^T of the filter g. Summed over channels, the products U . V are 36 matrix products over all
 * tiles: 36 multiplications do the work of 144. After fuse a conv kernel with its epilogue becomes
 *   input transform (one kernel, 36 results in one concat) -> contract -> output transform with the epilogue (16 results in two concats),
 * and the filter transform: folded when the filter is a constant, else a kernel that depends on a parameter alone, which lowering makes
 * once. Both ends are stored channels-last.
 *
 * Rounding: the transforms multiply by up to 5 and 8, so the error is some ten times that of the direct form; docs/winograd.md has it
 * measured against float64. It stays below 2e-5 of a layer's largest output for the sizes taken here; "-winograd" in the list of passes
 * switches it off. Taken where a simple count of arithmetic and bytes says that it pays; not taken for symbolic channels or images
 * (a symbolic batch is fine). */
#include <string.h>
#include "passes/passes_int.h"

enum { TILE = 4, IN = TILE + 2, N_IN = IN * IN, N_OUT = TILE * TILE, MAX_TAIL = 2, MAX_CHANNELS = 512 }; /* more channels: the sum of rounding errors nears the budget */

/* ---- the transforms. Rows that come in pairs e + o, e - o share their halves. ---- */
static const double BT[IN][IN] = {{4, 0, -5, 0, 1, 0}, {0, -4, -4, 1, 1, 0}, {0, 4, -4, -1, 1, 0}, {0, -2, -1, 2, 1, 0}, {0, 2, -1, -2, 1, 0}, {0, 4, 0, -5, 0, 1}};
static const double AT[TILE][IN] = {{1, 1, 1, 1, 1, 0}, {0, 1, -1, 2, -2, 0}, {0, 1, 1, 4, 4, 0}, {0, 1, -1, 8, -8, 1}};
static const double G[IN][3] = {{1. / 4, 0, 0}, {-1. / 6, -1. / 6, -1. / 6}, {-1. / 6, 1. / 6, -1. / 6}, {1. / 24, 1. / 12, 1. / 6}, {1. / 24, -1. / 12, 1. / 6}, {0, 0, 1}};

typedef struct wg {
  tn_pass_ctx *p;
  tn_graph *g;
  uint32_t fused, conv;        /* FUSED node; CONV inside its body */
  uint32_t prov;
  tn_dim n, c, k, h, w, oh, ow, th, tw, pad_h, pad_w; /* sizes; tiles down and across; padding above and left */
  tn_dim lanes;                /* channels of the result in one panel of the transformed filter */
} wg;

static tn_ref scaled(tn_px *b, tn_ref x, double f) {
  tn_num v = {.f = f < 0 ? -f : f};
  return v.f == 1 ? x : tn_px_2(b, TN_OP_MUL, x, tn_px_fill_of(b, TN_F32, 0, NULL, v));
}

/* Sum of coef[i] * x[i * step], small to large index; a leading minus is taken out by starting from a positive term. */
static tn_ref combine(tn_px *b, const double *coef, const tn_ref *x, int n, int step) {
  tn_ref sum = {0};
  int first = 0;
  while (first < n && coef[first] <= 0) first++;
  if (first == n)                                             /* all negative: 0 - sum */
    for (first = 0; coef[first] == 0;) first++;
  sum = scaled(b, x[first * step], coef[first]);
  if (coef[first] < 0) sum = tn_px_1(b, TN_OP_NEG, sum);
  for (int i = 0; i < n; i++)
    if (i != first && coef[i] != 0) sum = tn_px_2(b, coef[i] < 0 ? TN_OP_SUB : TN_OP_ADD, sum, scaled(b, x[i * step], coef[i]));
  return sum;
}

/* out[r * out_step] = sum of m[r][i] * x[i * step]. Two rows with the same size of coefficients, half of them with the other sign, are made
 * from the sum of what they share and the sum of what differs. */
static void transform(tn_px *b, const double *m, int rows, int n, const tn_ref *x, int step, tn_ref *out, int out_step) {
  for (int r = 0; r < rows; r++) {
    const double *p = m + r * n, *q = p + n;
    bool pair = r + 1 < rows;
    int same = 0, other = 0;
    for (int i = 0; pair && i < n; i++) {
      pair = p[i] == q[i] || p[i] == -q[i];
      same += p[i] != 0 && p[i] == q[i];
      other += p[i] != 0 && p[i] == -q[i];
    }
    if (!pair || !same || !other) {
      out[r * out_step] = combine(b, p, x, n, step);
      continue;
    }
    double e[IN], o[IN];
    for (int i = 0; i < n; i++) {
      e[i] = p[i] == q[i] ? p[i] : 0;
      o[i] = p[i] == q[i] ? 0 : p[i];
    }
    tn_ref even = combine(b, e, x, n, step), odd = combine(b, o, x, n, step);
    out[r * out_step] = tn_px_2(b, TN_OP_ADD, even, odd);
    out[(r + 1) * out_step] = tn_px_2(b, TN_OP_SUB, even, odd);
    r++;
  }
}

static tn_ref cut(tn_px *b, tn_ref x, int dim, tn_dim start, tn_dim size, int64_t step) {
  tn_attr at[4] = {tn_mk_int("dim", dim), tn_mk_dims(b->g, "start", &start, 1), tn_mk_dims(b->g, "size", &size, 1), tn_mk_int("step", step)};
  return tn_px_add(b, TN_OP_SLICE, &x, 1, at, 4);
}
static tn_ref padded(tn_px *b, tn_ref x, const tn_dim *lo, const tn_dim *hi, int rank) {
  bool any = false;
  for (int i = 0; i < rank; i++) any |= lo[i] != 0 || hi[i] != 0;
  if (!any) return x;
  tn_attr at[3] = {tn_mk_dims(b->g, "lo", lo, (uint32_t)rank), tn_mk_dims(b->g, "hi", hi, (uint32_t)rank), tn_mk_float("value", 0)};
  return tn_px_add(b, TN_OP_PAD, &x, 1, at, 3);
}
static tn_ref joined(tn_px *b, const tn_ref *x, uint32_t n, int dim) {
  tn_attr at = tn_mk_int("dim", dim);
  return tn_px_add(b, TN_OP_CONCAT, x, n, &at, 1);
}

/* ---- FUSED nodes ---- */

/* Adds the FUSED node of a finished body; result k is its k-th yield. */
static tn_ref fused(wg *s, tn_px *b, const tn_ref *in, uint32_t n_in, const tn_ref *yield, uint32_t n, const char *kind) {
  tn_type type[N_IN];
  uint32_t node;
  tn_attr at = tn_mk_str("kind", kind);
  for (uint32_t i = 0; i < n && b->st == TN_OK; i++) {
    type[i] = *tn_typeof(b->g, yield[i]);
    b->st = tn_graph_add_output(b->g, yield[i]);
  }
  if (b->st == TN_OK) b->st = tn_graph_add(s->g, TN_OP_FUSED, in, n_in, &at, 1, type, n, s->prov, &node);
  if (b->st != TN_OK) return (tn_ref){0};
  s->g->node[node].body = b->g;
  return tn_out(&s->g->node[node], 0);
}
static tn_ref body_input(tn_px *b, tn_type t) {
  tn_ref r = {0};
  if (b->st == TN_OK) b->st = tn_graph_add_input(b->g, NULL, t, TN_ORIGIN_INPUT, &r);
  return r;
}
static tn_px body_of(wg *s, const char *name) {
  tn_px b = {.d = s->p->d, .prov = s->prov};
  b.st = tn_graph_body(s->g, name, &b.g);
  return b;
}

static const int nhwc[4] = {0, 2, 3, 1}, nchw[4] = {0, 3, 1, 2};

/* x [N,C,H,W] -> [36, N*TH*TW, C] */
static tn_ref input_transform(wg *s, tn_px *top, tn_ref x) {
  tn_dims *ds = s->g->dims;
  tn_px b = body_of(s, "winograd_in");
  tn_ref d = body_input(&b, *tn_typeof(s->g, x)), tile[N_IN], part[N_IN], v[N_IN];
  tn_dim lo[4] = {0, s->pad_h, s->pad_w, 0}, hi[4] = {0}, ph = tn_dim_add(ds, tn_dim_mul(ds, s->th, TILE), 2), pw = tn_dim_add(ds, tn_dim_mul(ds, s->tw, TILE), 2);
  hi[1] = tn_dim_sub(ds, ph, tn_dim_add(ds, s->h, s->pad_h));
  hi[2] = tn_dim_sub(ds, pw, tn_dim_add(ds, s->w, s->pad_w));
  d = padded(&b, tn_px_permute(&b, d, nhwc), lo, hi, 4);
  for (int i = 0; i < IN; i++) {
    tn_ref row = cut(&b, d, 1, i, s->th, TILE);
    for (int j = 0; j < IN; j++) tile[i * IN + j] = cut(&b, row, 2, j, s->tw, TILE);
  }
  for (int j = 0; j < IN; j++) transform(&b, &BT[0][0], IN, IN, tile + j, IN, part + j, IN);
  for (int i = 0; i < IN; i++) transform(&b, &BT[0][0], IN, IN, part + i * IN, 1, v + i * IN, 1);
  tn_dim shape[5] = {1, s->n, s->th, s->tw, s->c}, flat[3] = {N_IN, tn_dim_mul(ds, s->n, tn_dim_mul(ds, s->th, s->tw)), s->c};
  for (int i = 0; i < N_IN; i++) v[i] = tn_px_reshape(&b, v[i], 5, shape);
  tn_ref r = fused(s, &b, &x, 1, v, N_IN, "pointwise"), all[N_IN];
  if (b.st != TN_OK) top->st = b.st;
  for (uint32_t i = 0; i < N_IN; i++) all[i] = (tn_ref){r.id + i};
  return tn_px_reshape(top, joined(top, all, N_IN, 0), 3, flat);
}

/* w [K,C,3,3] -> [36, K/T, C, T] */
static tn_ref filter_kernel(wg *s, tn_px *top, tn_ref w) {
  tn_px b = body_of(s, "winograd_filter");
  tn_ref f = body_input(&b, *tn_typeof(s->g, w)), tap[9], part[IN * 3], u[N_IN];
  tn_dim kc[2] = {s->k, s->c}, split[3] = {s->k / s->lanes, s->lanes, s->c}, shape[4] = {1, s->k / s->lanes, s->c, s->lanes};
  for (int i = 0; i < 9; i++) tap[i] = tn_px_reshape(&b, cut(&b, cut(&b, f, 2, i / 3, 1, 1), 3, i % 3, 1, 1), 2, kc);
  for (int j = 0; j < 3; j++) transform(&b, &G[0][0], IN, 3, tap + j, 3, part + j, 3);
  for (int i = 0; i < IN; i++) transform(&b, &G[0][0], IN, 3, part + i * 3, 1, u + i * IN, 1);
  static const int last[3] = {0, 2, 1};
  for (int i = 0; i < N_IN; i++) u[i] = tn_px_reshape(&b, tn_px_permute(&b, tn_px_reshape(&b, u[i], 3, split), last), 4, shape);
  tn_ref r = fused(s, &b, &w, 1, u, N_IN, "pointwise"), all[N_IN];
  if (b.st != TN_OK) top->st = b.st;
  for (uint32_t i = 0; i < N_IN; i++) all[i] = (tn_ref){r.id + i};
  return joined(top, all, N_IN, 0);
}

/* The same of a constant, in double precision. */
static tn_ref filter_constant(wg *s, tn_px *top, const float *w) {
  int64_t K = s->k, C = s->c, T = s->lanes;
  tn_dim shape[4] = {N_IN, K / T, C, T};
  size_t bytes = (size_t)(N_IN * K * C) * sizeof(float);
  tn_mark m = tn_arena_mark(s->p->scratch);
  float *u = tn_arena_alloc(s->p->scratch, bytes);
  tn_ref r = {0};
  if (!u) return top->st = tn_fail(s->p->d, TN_E_NOMEM, "transformed filter of %zu bytes", bytes), r;
  for (int64_t k = 0; k < K; k++)
    for (int64_t c = 0; c < C; c++) {
      const float *f = w + (k * C + c) * 9;
      double part[IN][3];
      for (int i = 0; i < IN; i++)
        for (int j = 0; j < 3; j++) part[i][j] = G[i][0] * f[j] + G[i][1] * f[3 + j] + G[i][2] * f[6 + j];
      for (int i = 0; i < IN; i++)
        for (int j = 0; j < IN; j++)
          u[(((i * IN + j) * (K / T) + k / T) * C + c) * T + k % T] = (float)(part[i][0] * G[j][0] + part[i][1] * G[j][1] + part[i][2] * G[j][2]);
    }
  top->st = tn_graph_add_const(s->g, tn_type_make(s->g, TN_F32, 4, shape), u, bytes, s->prov, &r);
  tn_arena_rewind(s->p->scratch, m);
  return r;
}

static tn_ref product(wg *s, tn_px *top, tn_ref v, tn_ref u) {
  tn_px b = body_of(s, "winograd_mm");
  tn_ref in[2] = {v, u}, x = body_input(&b, *tn_typeof(s->g, v)), y = body_input(&b, *tn_typeof(s->g, u));
  tn_ref m = tn_px_contract(&b, "apc,agct->apgt", x, y);
  tn_ref r = fused(s, &b, in, 2, &m, 1, "contract");
  if (b.st != TN_OK) top->st = b.st;
  return r;
}

/* ---- the epilogue, for one of the 16 places in a tile ---- */


/* A result may be the tail's value with its channels moved last, copied: that is how it lies here anyway. The value; *out_last tells. */
static tn_ref before_turn(const tn_graph *b, tn_ref r, bool *out_last) {
  const tn_node *n = &b->node[b->value[r.id].node];
  tn_dim perm[TN_MAX_RANK];
  *out_last = false;
  if (n->op != TN_OP_COPY) return r;
  const tn_node *p = &b->node[b->value[n->in[0].id].node];
  if (p->op != TN_OP_PERMUTE || tn_attr_dims(p, "perm", perm, TN_MAX_RANK) != 4 || perm[0] != 0 || perm[1] != 2 || perm[2] != 3) return r;
  *out_last = true;
  return p->in[0];
}
/* Is node i of the body such a copy, or the permute of one, read by nothing else? */
static bool turns(const tn_graph *b, uint32_t i) {
  uint32_t copies = 0, readers = 0;
  bool last, copy = b->node[i].op == TN_OP_COPY;
  for (uint32_t k = 1; k < b->n_nodes; k++)
    for (uint32_t q = 0; q < b->node[k].n_in; q++)
      if (b->node[k].in[q].id == b->node[i].out) readers++, copies += b->node[k].op == TN_OP_COPY && turns(b, k);
  if (!copy) return b->node[i].op == TN_OP_PERMUTE && copies == 1 && readers == 1;
  for (uint32_t k = 0; k < b->n_outputs; k++)
    if (b->output[k].ref.id == b->node[i].out) return readers == 0 && (before_turn(b, b->output[k].ref, &last), last);
  return false;
}

static bool is_image(const tn_type *t, tn_dim h, tn_dim w) { return t->rank == 4 && t->dim[2] == h && t->dim[3] == w; }

/* Operand of the epilogue at place (i, j): what has the result's height and width is cut to every fourth row and column. */
static tn_ref piece_of(wg *s, tn_px *b, tn_ref x, int i, int j) {
  tn_dims *ds = s->g->dims;
  if (!is_image(tn_typeof(b->g, x), s->oh, s->ow)) return x;
  tn_dim lo[4] = {0}, hi[4] = {0};
  hi[2] = tn_dim_sub(ds, tn_dim_mul(ds, s->th, TILE), s->oh);
  hi[3] = tn_dim_sub(ds, tn_dim_mul(ds, s->tw, TILE), s->ow);
  return cut(b, cut(b, padded(b, x, lo, hi, 4), 2, i, s->th, TILE), 3, j, s->tw, TILE);
}

/* Copies the epilogue's nodes into b with the conv's result at one place given as [N,K,TH,TW]. map: body value -> value in b. */
static void epilogue(wg *s, tn_px *b, const tn_graph *body, const tn_ref *port, tn_ref conv, int i, int j, uint32_t *map) {
  for (uint32_t k = 0; k < body->n_inputs; k++)
    map[body->input[k].id] = port[k].id ? piece_of(s, b, port[k], i, j).id : 0;
  map[body->node[s->conv].out] = conv.id;
  for (uint32_t k = 1; k < body->n_nodes && b->st == TN_OK; k++) {
    const tn_node *n = &body->node[k];
    if (n->op == TN_OP_INPUT || k == s->conv || n->op == TN_OP_PERMUTE) continue; /* and so no copies of permutes: their operands are not known */
    tn_ref in[3] = {{0}};
    bool whole = n->n_in > 0;   /* every operand known: nodes before the conv have none to know */
    for (uint32_t q = 0; q < n->n_in && q < 3; q++) whole &= (in[q].id = map[n->in[q].id]) != 0;
    if (!whole && n->n_in) continue;
    b->prov = n->prov;
    map[n->out] = tn_px_add(b, n->op, in, n->n_in, n->attr, n->n_attr).id;
  }
  b->prov = s->prov;
}

/* x in memory of its own, by one more kernel. */
static tn_ref copied(wg *s, tn_px *top, tn_ref x) {
  tn_px b = body_of(s, "copied");
  tn_ref y = tn_px_1(&b, TN_OP_COPY, body_input(&b, *tn_typeof(s->g, x))), r = fused(s, &b, &x, 1, &y, 1, "pointwise");
  if (b.st != TN_OK) top->st = b.st;
  return r;
}

/* m [36, P, K/T, T] -> the FUSED node's results, each [N,K,OH,OW] */
static void output_transform(wg *s, tn_px *top, tn_ref m, tn_ref *out) {
  tn_dims *ds = s->g->dims;
  tn_node fn = s->g->node[s->fused];
  const tn_graph *body = fn.body;
  tn_px b = body_of(s, "winograd_out");
  tn_mark mark = tn_arena_mark(s->p->scratch);
  tn_ref *in = TN_NEW(s->p->scratch, tn_ref, fn.n_in + 1), *port = TN_NEW(s->p->scratch, tn_ref, fn.n_in + 1), tile[N_IN], part[TILE * IN], y[N_OUT], piece[MAX_TAIL * N_OUT];
  uint32_t *map = TN_NEW(s->p->scratch, uint32_t, body->n_values + 1), n_in = 1;
  if (!in || !port || !map) { top->st = tn_fail(s->p->d, TN_E_NOMEM, "winograd"); return; }
  in[0] = m;
  tn_ref x = body_input(&b, *tn_typeof(s->g, m));
  for (uint32_t i = 0; i < fn.n_in; i++) {       /* what the epilogue reads */
    bool read = false;
    for (uint32_t k = 1; k < body->n_nodes; k++)
      for (uint32_t q = 0; k != s->conv && q < body->node[k].n_in; q++) read |= body->node[k].in[q].id == body->input[i].id;
    if (!read) continue;
    in[n_in] = tn_px_in(s->g, s->fused, i);
    port[i] = body_input(&b, *tn_typeof(s->g, in[n_in++]));
  }
  tn_dim at[4] = {s->n, s->th, s->tw, s->k};
  for (int i = 0; i < N_IN; i++) tile[i] = tn_px_permute(&b, tn_px_reshape(&b, cut(&b, x, 0, i, 1, 1), 4, at), nchw);
  for (int j = 0; j < IN; j++) transform(&b, &AT[0][0], TILE, IN, tile + j, IN, part + j, IN);
  for (int i = 0; i < TILE; i++) transform(&b, &AT[0][0], TILE, IN, part + i * IN, 1, y + i * TILE, 1);
  tn_dim place[6] = {s->n, s->th, 1, s->tw, 1, s->k};
  uint32_t n_out = body->n_outputs;
  for (int i = 0; i < N_OUT; i++) {
    memset(map, 0, (body->n_values + 1) * sizeof *map);
    epilogue(s, &b, body, port, y[i], i / TILE, i % TILE, map);
    for (uint32_t k = 0; k < n_out; k++) {
      bool last;
      tn_ref r = {map[before_turn(body, body->output[k].ref, &last).id]};
      piece[k * N_OUT + (uint32_t)i] = tn_px_reshape(&b, tn_px_permute(&b, r, nhwc), 6, place);
    }
  }
  tn_ref r = fused(s, &b, in, n_in, piece, n_out * N_OUT, "pointwise");
  if (b.st != TN_OK) top->st = b.st;
  tn_arena_rewind(s->p->scratch, mark);
  tn_dim image[4] = {s->n, tn_dim_mul(ds, s->th, TILE), tn_dim_mul(ds, s->tw, TILE), s->k};
  for (uint32_t k = 0; k < n_out && top->st == TN_OK; k++) {
    tn_ref row[TILE], col[TILE];
    for (uint32_t i = 0; i < TILE; i++) {
      for (uint32_t j = 0; j < TILE; j++) col[j] = (tn_ref){r.id + k * N_OUT + i * TILE + j};
      row[i] = joined(top, col, TILE, 4);
    }
    tn_ref v = tn_px_reshape(top, joined(top, row, TILE, 2), 4, image);
    if (image[1] != s->oh) v = cut(top, v, 1, 0, s->oh, 1);
    if (image[2] != s->ow) v = cut(top, v, 2, 0, s->ow, 1);
    bool last;
    before_turn(body, body->output[k].ref, &last);
    bool cut_off = image[1] != s->oh || image[2] != s->ow; /* a result of its own has no gaps */
    out[k] = !last ? tn_px_permute(top, v, nchw) : cut_off ? copied(s, top, v) : v;
  }
}

/* ---- which ones ---- */

/* Epilogue: pointwise nodes, fills, and reshapes of what has no height and width; results of the conv's shape. */
static bool plain_tail(const tn_graph *b, uint32_t conv) {
  const tn_type *y = &b->value[b->node[conv].out].type;
  for (uint32_t i = 1; i < b->n_nodes; i++) {
    const tn_node *n = &b->node[i];
    if (n->op == TN_OP_INPUT || n->op == TN_OP_FULL || i == conv || ((n->op == TN_OP_PERMUTE || n->op == TN_OP_COPY) && turns(b, i))) continue;
    const tn_type *t = &b->value[n->out].type;
    bool flat = t->rank < 3 || (t->dim[t->rank - 1] == 1 && t->dim[t->rank - 2] == 1);
    if (n->n_out != 1 || n->n_in > 3 || !((tn_px_is_pw(n->op)) || ((n->op == TN_OP_RESHAPE || n->op == TN_OP_BROADCAST) && flat))) return false;
    for (uint32_t k = 0; k < n->n_in; k++) { /* a vector along the width would have to be cut too: left to the direct form */
      const tn_type *x = &b->value[n->in[k].id].type;
      bool small = x->rank == 0 || (x->rank >= 2 && x->dim[x->rank - 1] == 1 && x->dim[x->rank - 2] == 1);
      if (flat ? !small && x->rank >= 3 : !small && !is_image(x, y->dim[2], y->dim[3])) return false;
    }
  }
  for (uint32_t i = 0; i < b->n_outputs; i++) {
    bool last;
    if (b->output[i].is_dim || b->output[i].is_none || !tn_px_same_shape(&b->value[before_turn(b, b->output[i].ref, &last).id].type, y)) return false;
  }
  return b->n_outputs >= 1 && b->n_outputs <= MAX_TAIL;
}

static bool cast_to_int(const tn_graph *g, tn_ref v) {
  for (uint32_t i = 1; i < g->n_nodes; i++)
    if (g->node[i].op == TN_OP_CAST && g->node[i].in[0].id == v.id && !tn_dtype_is_float((tn_dtype)g->value[g->node[i].out].type.dtype)) return true;
  return false;
}
/* The sum is cast to integers, here or by a reader: products of whole numbers that are meant exactly (quantised models). */
static bool wants_whole(const wg *s) {
  const tn_node *fn = &s->g->node[s->fused];
  tn_ref y = {fn->body->node[s->conv].out};
  if (cast_to_int(fn->body, y)) return true;
  for (uint32_t k = 0; k < fn->n_out; k++) {
    if (fn->body->output[k].ref.id != y.id) continue;
    tn_ref v = {fn->out + k};
    if (cast_to_int(s->g, v)) return true;
    for (uint32_t i = 1; i < s->g->n_nodes; i++)
      for (uint32_t j = 0; s->g->node[i].op == TN_OP_FUSED && j < s->g->node[i].n_in; j++)
        if (s->g->node[i].in[j].id == v.id && cast_to_int(s->g->node[i].body, s->g->node[i].body->input[j])) return true;
  }
  return false;
}

/* Seconds of one core, roughly: products at 150 GFLOP/s (direct form: 130), transforms and filters by the bytes they move. */
static bool pays(const wg *s) {
  double n = tn_dim_is_const(s->n) ? (double)s->n : 1, tiles = n * (double)s->th * (double)s->tw, pixels = n * (double)s->oh * (double)s->ow, ck = (double)s->c * (double)s->k;
  double direct = 18 * ck * pixels / 130e9;
  double moved = tiles * N_IN * 4 * (double)(s->c + s->k); /* transformed tiles, written and read: from memory when no cache holds them */
  double wino = 2 * N_IN * ck * tiles / 150e9 + 2 * moved / (moved > 16e6 ? 4e9 : 40e9) + N_IN * 4 * ck / 30e9 + 2e-6;
  return wino < 0.85 * direct;
}

static bool fits(wg *s) {
  const tn_node *fn = &s->g->node[s->fused];
  const tn_graph *b = fn->body;
  for (s->conv = 1; s->conv < b->n_nodes && b->node[s->conv].op != TN_OP_CONV; s->conv++) {}
  if (s->conv == b->n_nodes) return false;
  const tn_node *c = &b->node[s->conv];
  const tn_type *x = tn_typeof(b, c->in[0]), *w = tn_typeof(b, c->in[1]), *y = &b->value[c->out].type;
  tn_dim stride[2], pad[4], dil[2];
  if (x->rank != 4 || x->dtype != TN_F32 || w->dtype != TN_F32 || w->dim[2] != 3 || w->dim[3] != 3 || tn_attr_int(c, "groups", 1) != 1) return false;
  if (b->node[b->value[c->in[0].id].node].op != TN_OP_INPUT || b->node[b->value[c->in[1].id].node].op != TN_OP_INPUT) return false;
  if (tn_attr_dims(c, "stride", stride, 2) != 2 || tn_attr_dims(c, "padding", pad, 4) != 4 || tn_attr_dims(c, "dilation", dil, 2) != 2) return false;
  if (stride[0] != 1 || stride[1] != 1 || dil[0] != 1 || dil[1] != 1) return false;
  for (int i = 0; i < 4; i++)   /* any batch, also a symbolic one */
    if ((i > 0 && (!tn_dim_is_const(x->dim[i]) || !tn_dim_is_const(y->dim[i]))) || !tn_dim_is_const(pad[i])) return false;
  s->n = x->dim[0]; s->c = x->dim[1]; s->h = x->dim[2]; s->w = x->dim[3];
  s->k = y->dim[1]; s->oh = y->dim[2]; s->ow = y->dim[3];
  s->th = (s->oh + TILE - 1) / TILE; s->tw = (s->ow + TILE - 1) / TILE;
  s->pad_h = pad[0]; s->pad_w = pad[2];
  if (s->n == 0 || s->c < 16 || s->c > MAX_CHANNELS || s->k < 16 || s->k % 16 || s->oh < TILE || s->ow < TILE || s->h + pad[0] > TILE * s->th + 2 || s->w + pad[2] > TILE * s->tw + 2) return false;
  for (s->lanes = 64; s->k % s->lanes; s->lanes -= 16) {}
  return plain_tail(b, s->conv) && pays(s) && !wants_whole(s);
}

static const float *constant_filter(const wg *s, tn_ref w) {
  const tn_node *n = &s->g->node[s->g->value[w.id].node];
  return n->op == TN_OP_CONST && n->data && n->data->p ? n->data->p : NULL;
}

/* The image as the transform wants to read it, channels together: made so by kernels of convolutions and what follows them, else copied once. */
static bool channels_together(const tn_graph *g, tn_ref x, int depth) {
  const tn_node *n = &g->node[g->value[x.id].node];
  if (depth > 32 || n->op == TN_OP_CONST) return false;
  if (n->op == TN_OP_INPUT) return n->input->stride && g->value[x.id].type.rank == 4 && n->input->stride[1] == 1;
  if (n->op == TN_OP_PERMUTE) {
    tn_dim perm[TN_MAX_RANK];
    return tn_attr_dims(n, "perm", perm, TN_MAX_RANK) == 4 && perm[1] == 3;
  }
  if (n->op == TN_OP_SLICE) return channels_together(g, n->in[0], depth + 1);
  if (n->op != TN_OP_FUSED) return false;
  for (uint32_t i = 1; i < n->body->n_nodes; i++)
    if (n->body->node[i].op == TN_OP_CONV || n->body->node[i].op == TN_OP_CONVT) return true;
  for (uint32_t k = 0; k < n->n_in; k++)
    if (g->value[n->in[k].id].type.rank == 4 && channels_together(g, n->in[k], depth + 1)) return true;
  return false;
}
static tn_ref together(wg *s, tn_px *top, tn_ref x) {
  if (channels_together(s->g, x, 0)) return x;
  tn_px b = body_of(s, "channels_last");
  tn_ref in = body_input(&b, *tn_typeof(s->g, x)), y = tn_px_1(&b, TN_OP_COPY, tn_px_permute(&b, in, nhwc));
  tn_ref r = fused(s, &b, &x, 1, &y, 1, "pointwise");
  if (b.st != TN_OK) top->st = b.st;
  return tn_px_permute(top, r, nchw);
}

static tn_status rewrite(wg *s) {
  tn_px top = {.d = s->p->d, .g = s->g, .prov = s->prov};
  const tn_graph *body = s->g->node[s->fused].body;
  tn_ref x = {0}, w = {0}, out[MAX_TAIL];
  for (uint32_t i = 0; i < body->n_inputs; i++) {
    if (body->input[i].id == body->node[s->conv].in[0].id) x = tn_px_in(s->g, s->fused, i);
    if (body->input[i].id == body->node[s->conv].in[1].id) w = tn_px_in(s->g, s->fused, i);
  }
  uint32_t n_out = body->n_outputs;
  const float *fixed = constant_filter(s, w);
  tn_ref v = input_transform(s, &top, together(s, &top, x));
  tn_ref u = fixed ? filter_constant(s, &top, fixed) : filter_kernel(s, &top, w);
  tn_ref m = product(s, &top, v, u);
  if (top.st == TN_OK) output_transform(s, &top, m, out);
  for (uint32_t k = 0; k < n_out && top.st == TN_OK; k++) tn_graph_replace(s->g, tn_out(&s->g->node[s->fused], k), out[k]);
  return top.st;
}

tn_status tn_pass_winograd(tn_pass_ctx *p, tn_graph *g) {
  uint32_t n = g->n_nodes, made = 0;
  for (uint32_t i = 1; i < n; i++) {
    if (g->node[i].op != TN_OP_FUSED) continue;
    wg s = {.p = p, .g = g, .fused = i, .prov = g->node[i].prov};
    if (!fits(&s)) continue;
    TN_TRY_WHILE(p->d, rewrite(&s), "winograd at node %u", i);
    made++;
  }
  return made ? tn_graph_compact(p->d, g) : TN_OK;
}

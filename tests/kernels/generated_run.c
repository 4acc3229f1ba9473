/* One case through all forms of a kernel. For each target and thread count:
 *
 *   graph --tn_lower_def--> definition --tn_sched_choose--> schedule --tn_nest_build--> nest --tn_codegen_object--> machine code
 *
 * Every form is verified and must read back from its text; the forms that are used are the ones that were read back. Values: reference
 * kernels (tn_ops_eval_graph), definition interpreter, nest interpreter and machine code must agree. The code runs as one block range and
 * as random pieces in random order, which must give the same bits.
 *
 * Memory: every operand lies at the end of its own pages with an unmapped page behind, in a second run at the start with one before;
 * outputs are filled with a pattern first and every byte that is no element must keep it; scratch is exactly as big as the nest says,
 * between unmapped pages, and filled with NaNs. A fault is caught and reported with the case. TENON_TEST_DUMP=folder writes definition and
 * schedule of each case: seeds for tests/fuzz/kdef.c. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include "generated_int.h"
#include "codegen/codegen.h"
#include "device/cpu/cpuid.h"
#include "device/device.h"
#include "kir/analyze.h"

uint32_t gen_n_kernels, gen_n_runs, gen_n_nests, gen_n_legal, gen_n_illegal;
enum { MAX_PORTS = 64 };

/* ---- faults ---- */
static sigjmp_buf fault_jump;
static volatile sig_atomic_t fault_armed;
static void on_fault(int sig) {
  if (fault_armed) siglongjmp(fault_jump, sig);
  signal(sig, SIG_DFL);
  raise(sig);
}
static void catch_faults(void) {
  static bool done;
  if (done) return;
  done = true;
  struct sigaction sa = {.sa_handler = on_fault, .sa_flags = SA_NODEFER};
  int sigs[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
  for (size_t i = 0; i < 4; i++) sigaction(sigs[i], &sa, NULL);
}
/* ---- state of one case ---- */
typedef struct bench {
  gen_case *c;
  tn_graph *outer;
  uint32_t node;
  gen_port in[MAX_PORTS], out[MAX_PORTS];
  uint32_t n_in, n_out;
  const int64_t *sym;
  tn_status error; /* the reference met one: TN_E_INDEX, TN_E_ZERO */
  const char *phase;
  const tn_target *target;
  int threads;
  tn_kdef *k;
  tn_ksched *s;
  tn_nest *nest;
  tn_nest_info info;
  double tol_terms; /* terms of the longest reduction */
} bench;

static void say(const bench *b, const char *what) {
  gen_case *c = b->c;
  tn_str o;
  tn_str_init(&o);
  tn_graph_print(c->g, 0, &o);
  if (b->k) tn_kdef_print(b->k, &o);
  if (b->k && b->s) tn_ksched_print(b->s, b->k, &o);
  if (b->nest && getenv("SHOW_NEST")) {
    tn_str_add(&o, "\n");
    tn_nest_print(b->nest, &o);
  }
  fprintf(stderr, "%s: %s: %s\n  layouts %d %d, vector %u, threads %d, symbols", c->name, b->phase, what, c->in, c->out,
          b->target ? b->target->vector_bits : 0, b->threads);
  for (uint32_t i = 0; i < c->n_sym; i++) fprintf(stderr, " %lld", (long long)b->sym[i]);
  fprintf(stderr, "\n%s\n", o.s ? o.s : "");
  tn_str_deinit(&o);
}
static bool bad(const bench *b) {
  say(b, b->c->d->text);
  return false;
}
#define OK_OR_SAY(b, expr)                                                                                                                 \
  do {                                                                                                                                     \
    tn_diag_clear((b)->c->d);                                                                                                              \
    if ((expr) != TN_OK) return bad(b);                                                                                                    \
  } while (0)
static bool compare(bench *b, const gen_port *p, const char *got, const char *want, double terms, const char *what) {
  char why[200], text[260];
  if (gen_same(p, got, want, terms, b->c->loose, why, sizeof why)) return true;
  snprintf(text, sizeof text, "%s: %s", what, why);
  b->phase = "compare";
  say(b, text);
  return false;
}

/* ---- packed weights: panels of the vector tile; written down again here, from the words of sched.h ---- */
static bool pack_weight(bench *b, uint32_t param, const char *src, gen_mem *out, bool at_end) {
  tn_kan *an;
  const tn_kloop *L = NULL;
  tn_kx_id x = 0;
  OK_OR_SAY(b, tn_kan_make(b->c->d, b->c->a, b->k, &an));
  for (uint32_t i = 0; i < b->s->n_merge; i++) tn_kan_merge(an, b->s->merge_from[i], b->s->merge_to[i]);
  for (tn_kx_id i = 1; i < b->k->n_x; i++)
    if (b->k->x[i].op == TN_KX_LOAD && b->k->x[i].ref == param) x = i;
  uint32_t deps = tn_kan_deps(an, x);
  for (uint32_t i = 0; i < b->s->n_loop && !L; i++) {
    const tn_kloop *q = &b->s->loop[i];
    if (!q->n_red || q->v_axis < 0 || !(deps >> q->v_axis & 1)) continue;
    L = q;
  }
  if (!L) {
    say(b, "no loop reads the packed weight");
    return false;
  }
  int64_t ext[TN_DEF_MAX_AXES], coef[TN_DEF_MAX_AXES], to[TN_DEF_MAX_AXES] = {0}, T = (int64_t)L->lanes * L->nv, run = T;
  for (uint32_t a = 0; a < b->k->n_axis; a++)
    if (tn_dim_eval(b->c->dims, an->extent[a], b->sym, &ext[a]) != TN_OK ||
        tn_dim_eval(b->c->dims, an->load[x].coef[a], b->sym, &coef[a]) != TN_OK)
      return false;
  if (L->v_red) run = T = ext[L->v_axis] > 0 ? ext[L->v_axis] : 1; /* no panels: the axis lies innermost */
  uint32_t used = 1u << L->v_axis;
  for (uint32_t i = L->n_red; i-- > 0;) {
    uint32_t a = L->red[i];
    used |= 1u << a;
    if (!coef[a] || (int)a == L->v_axis) continue;
    to[a] = run;
    run *= ext[a];
  }
  int64_t panel = run;
  run = (ext[L->v_axis] + T - 1) / T * panel;
  for (uint32_t a = b->k->n_axis; a-- > 0;) {
    if ((used >> a & 1) || !coef[a]) continue;
    to[a] = run;
    run *= ext[a];
  }
  size_t z = tn_dtype_size((tn_dtype)b->k->param[param].dtype);
  if (!gen_mem_make(out, (size_t)run * z, at_end)) return false;
  int64_t pos[TN_DEF_MAX_AXES] = {0};
  for (uint32_t a = 0; a < b->k->n_axis; a++)
    if (ext[a] == 0) return true;
  for (;;) {
    int64_t from = 0, at = 0;
    for (uint32_t a = 0; a < b->k->n_axis; a++) {
      if (!coef[a]) continue;
      from += pos[a] * coef[a];
      at += (int)a == L->v_axis ? pos[a] / T * panel + pos[a] % T : pos[a] * to[a];
    }
    memcpy(out->p + (size_t)at * z, src + (size_t)from * z, z);
    uint32_t a = 0;
    while (a < b->k->n_axis && (!coef[a] || ++pos[a] == ext[a])) pos[a++] = 0;
    if (a == b->k->n_axis) return true;
  }
}
/* ---- running one form ---- */
typedef struct memory {
  gen_mem port[2 * MAX_PORTS], scratch;
  void *ptr[2 * MAX_PORTS];
  int64_t elems[2 * MAX_PORTS];
} memory;

static void memory_free(bench *b, memory *m) {
  for (uint32_t i = 0; i < b->n_in + b->n_out; i++) gen_mem_free(&m->port[i]);
  gen_mem_free(&m->scratch);
}

static bool memory_make(bench *b, memory *m, bool at_end, bool packed) {
  memset(m, 0, sizeof *m);
  for (uint32_t i = 0; i < b->n_in + b->n_out; i++) {
    gen_port *p = i < b->n_in ? &b->in[i] : &b->out[i - b->n_in];
    if (!gen_mem_make(&m->port[i], (size_t)p->elems * tn_dtype_size(p->t), at_end)) return false;
    if (i < b->n_in) gen_move(p, m->port[i].p, p->dense, NULL, true);
    if (packed && i < b->n_in && b->s->pack[i]) {
      gen_mem source = m->port[i];
      bool ok = pack_weight(b, i, source.p, &m->port[i], at_end);
      gen_mem_free(&source);
      if (!ok) return false;
    }
    m->ptr[i] = m->port[i].p;
    m->elems[i] = p->elems;
  }
  return true;
}

/* Outputs of a run: bytes that are no element must be as before, values go to got[i]. */
static bool collect(bench *b, memory *m, char **got) {
  size_t pg = gen_page();
  for (uint32_t i = 0; i < b->n_out; i++) {
    gen_port *p = &b->out[i];
    gen_mem *o = &m->port[b->n_in + i];
    size_t z = tn_dtype_size(p->t), body = o->n_map - 2 * pg;
    bool *covered = calloc((size_t)p->elems + 1, sizeof *covered), ok = true;
    if (!covered) return false;
    got[i] = TN_NEW(b->c->a, char, (size_t)p->n *z + 1);
    gen_move(p, o->p, got[i], covered, false);
    for (size_t k = 0; k < body && ok; k++) {
      const char *q = o->map + pg + k;
      bool element = q >= o->p && q < o->p + o->bytes && covered[(size_t)(q - o->p) / z];
      ok = element || (unsigned char)*q == GEN_FILL;
    }
    free(covered);
    if (!ok) {
      say(b, "wrote outside the elements of a result");
      return false;
    }
  }
  return true;
}

static bool compare_all(bench *b, char **got, char *const *want, const char *what) {
  for (uint32_t i = 0; i < b->n_out; i++)
    if (!compare(b, &b->out[i], got[i], want ? want[i] : b->out[i].dense, b->tol_terms, what)) return false;
  return true;
}

static bool run_def(bench *b, char **got) {
  memory m;
  b->phase = "interpret definition";
  bool ok = memory_make(b, &m, true, false);
  if (ok) {
    tn_diag_clear(b->c->d);
    tn_status s = tn_kdef_interpret(b->c->d, b->k, b->sym, m.ptr, m.elems);
    if (s != b->error)
      ok = bad(b);
    else
      ok = collect(b, &m, got);
  }
  memory_free(b, &m);
  return ok;
}

/* Runs the ranges between cuts, last first; scratch is spoilt before each. A fault ends it. */
static bool call(bench *b, tn_kernel_fn fn, const tn_kernel_args *args, const int64_t *cut, int64_t n_cut, char *scratch,
                 size_t n_scratch) {
  int sig = sigsetjmp(fault_jump, 1);
  if (sig) {
    fault_armed = 0;
    say(b, sig == SIGSEGV || sig == SIGBUS ? "touched memory it does not own" : "illegal instruction or division");
    return false;
  }
  tn_status s = TN_OK;
  fault_armed = 1;
  for (int64_t i = n_cut; i-- > 0 && s == TN_OK;) {
    memset(scratch, 0xFF, n_scratch);
    if (fn)
      fn(args, cut[i], cut[i + 1], scratch);
    else
      s = tn_nest_interpret(b->c->d, b->nest, args, cut[i], cut[i + 1], scratch);
  }
  fault_armed = 0;
  return s == TN_OK || bad(b);
}

/* fn NULL: the nest interpreter. cuts: block ranges in random order instead of one. */
static bool run_code(bench *b, tn_kernel_fn fn, bool at_end, bool cuts, char **got) {
  memory m;
  int64_t size[64], blocks;
  int32_t status = 0;
  bool ok = memory_make(b, &m, at_end, true);
  for (uint32_t i = 0; i < b->info.n_size && ok; i++) ok = tn_dim_eval(b->c->dims, b->info.size[i], b->sym, &size[i]) == TN_OK;
  ok = ok && tn_dim_eval(b->c->dims, b->info.blocks, b->sym, &blocks) == TN_OK;
  int64_t scratch = ok ? tn_nest_scratch_bytes(b->nest, size) : -1;
  if (!ok || scratch < 0 || !gen_mem_make(&m.scratch, (size_t)scratch, at_end)) {
    say(b, "no memory, or sizes without a value");
    memory_free(b, &m);
    return false;
  }
  tn_kernel_args args = {m.ptr, size, tn_device_zeros(), &status};
  int64_t cut[16] = {0}, n_cut = 1;
  cut[1] = blocks;
  if (cuts && blocks > 1) {
    n_cut = blocks < 5 ? blocks : 5;
    for (int64_t i = 1; i < n_cut; i++) cut[i] = cut[i - 1] + 1 + (int64_t)(gen_rnd() % (uint64_t)(blocks - cut[i - 1] - (n_cut - i)));
    cut[n_cut] = blocks;
  }
  ok = call(b, fn, &args, cut, n_cut, m.scratch.p, (size_t)scratch);
  if (ok && status != (b->error == TN_OK ? 0 : b->error == TN_E_INDEX ? 1 : 2)) {
    say(b, status ? "an error that is none" : "no error");
    ok = false;
  }
  ok = ok && collect(b, &m, got);
  memory_free(b, &m);
  gen_n_runs++;
  return ok;
}
/* ---- text of each form ---- */
static bool text_of_def(bench *b) {
  tn_str x, y;
  tn_arena a;
  tn_dims *dims = tn_dims_create();
  tn_kdef *k;
  b->phase = "definition";
  OK_OR_SAY(b, tn_kdef_verify(b->c->d, b->k));
  b->phase = "text of the definition";
  tn_arena_init(&a);
  tn_str_init(&x);
  tn_str_init(&y);
  tn_kdef_print(b->k, &x);
  tn_diag_clear(b->c->d);
  bool ok = tn_kdef_parse(b->c->d, &a, dims, x.s, x.n, &k) == TN_OK && tn_kdef_verify(b->c->d, k) == TN_OK;
  if (!ok) bad(b);
  if (ok) {
    tn_kdef_print(k, &y);
    ok = strcmp(x.s, y.s) == 0;
    if (!ok) say(b, y.s);
  }
  tn_str_deinit(&x);
  tn_str_deinit(&y);
  tn_arena_deinit(&a);
  tn_dims_destroy(dims);
  return ok;
}

static bool text_of_sched(bench *b) { /* and goes on with what was read */
  tn_str x, y;
  tn_ksched *s;
  b->phase = "schedule";
  OK_OR_SAY(b, tn_ksched_verify(b->c->d, b->k, b->s));
  b->phase = "text of the schedule";
  tn_str_init(&x);
  tn_str_init(&y);
  tn_ksched_print(b->s, b->k, &x);
  OK_OR_SAY(b, tn_ksched_parse(b->c->d, b->c->a, b->k, x.s ? x.s : "", x.n, &s));
  tn_ksched_print(s, b->k, &y);
  bool ok = strcmp(x.s ? x.s : "", y.s ? y.s : "") == 0;
  if (!ok) say(b, y.s);
  b->s = s;
  tn_str_deinit(&x);
  tn_str_deinit(&y);
  return ok;
}

static bool text_of_nest(bench *b) {
  tn_str x, y;
  tn_nest *n;
  b->phase = "nest";
  OK_OR_SAY(b, tn_nest_verify(b->c->d, b->nest));
  b->phase = "text of the nest";
  tn_str_init(&x);
  tn_str_init(&y);
  tn_nest_print(b->nest, &x);
  OK_OR_SAY(b, tn_nest_parse(b->c->d, b->c->a, x.s, x.n, &n));
  tn_nest_print(n, &y);
  bool ok = strcmp(x.s, y.s) == 0;
  if (!ok) say(b, y.s);
  tn_str_deinit(&x);
  tn_str_deinit(&y);
  return ok;
}

static void dump(const bench *b) {
  const char *dir = getenv("TENON_TEST_DUMP");
  char path[512];
  tn_str o;
  if (!dir) return;
  snprintf(path, sizeof path, "%s/%s.kdef", dir, b->c->name);
  for (char *p = path + strlen(dir) + 1; *p; p++)
    if (*p == ' ' || *p == ',') *p = '_';
  tn_str_init(&o);
  tn_kdef_print(b->k, &o);
  tn_str_add(&o, "sched ");
  tn_ksched_print(b->s, b->k, &o);
  tn_str_add(&o, "\n");
  (void)tn_file_write(b->c->d, path, o.s, o.n);
  tn_str_deinit(&o);
}
/* ---- one case ---- */

static bool lower(bench *b) {
  tn_lview in[MAX_PORTS], out[MAX_PORTS];
  bool frozen[MAX_PORTS];
  for (uint32_t i = 0; i < b->n_in; i++) in[i] = b->in[i].view, frozen[i] = b->in[i].frozen;
  for (uint32_t i = 0; i < b->n_out; i++) out[i] = b->out[i].view;
  b->k = NULL;
  b->s = NULL;
  b->nest = NULL;
  b->phase = "lower";
  OK_OR_SAY(b, tn_lower_def(b->c->d, b->c->a, b->outer, b->node, in, out, frozen, "k", &b->k));
  return text_of_def(b);
}

/* Values computed by the definition: its cost in evaluations, roughly. */
static double work_of(bench *b, double *terms) {
  double sum = 0, nodes = 1 + (double)b->k->n_x / 4;
  *terms = 1;
  for (uint32_t s = 0; s < b->k->n_stage; s++) {
    double v = 1, red = 1;
    for (uint32_t j = 0; j < (uint32_t)b->k->stage[s].n_axis + b->k->stage[s].n_red; j++) {
      bool r = j >= b->k->stage[s].n_axis;
      int64_t e = 1;
      (void)tn_dim_eval(b->c->dims, b->k->axis[r ? b->k->stage[s].red[j - b->k->stage[s].n_axis] : b->k->stage[s].axis[j]].extent, b->sym,
                        &e);
      v *= (double)e;
      if (r) red *= (double)e;
    }
    if (red > *terms) *terms = red;
    sum += v;
  }
  return sum * nodes;
}

static bool set_round(bench *b, uint32_t round) {
  gen_case *c = b->c;
  tn_tensor in[MAX_PORTS], out[MAX_PORTS];
  b->sym = c->sym + (size_t)round * c->n_sym;
  b->phase = "inputs";
  for (uint32_t i = 0; i < b->n_in + b->n_out; i++) {
    gen_port *p = i < b->n_in ? &b->in[i] : &b->out[i - b->n_in];
    const tn_type *t = tn_typeof(c->g, i < b->n_in ? c->g->input[i] : c->g->output[i - b->n_in].ref);
    if (!gen_port_set(c, t, b->sym, p)) {
      say(b, "a shape without a value");
      return false;
    }
    p->dense = TN_NEW(c->a, char, (size_t)p->n *tn_dtype_size(p->t) + 1);
    if (i >= b->n_in) continue;
    gen_fill(c, p);
    char *memory = TN_NEW(c->a, char, (size_t)p->elems *tn_dtype_size(p->t) + 1); /* there and back: strides of 0 make elements equal */
    gen_move(p, memory, p->dense, NULL, true);
    gen_move(p, memory, p->dense, NULL, false);
    in[i] = (tn_tensor){.data = p->dense, .shape = p->dim, .rank = (int32_t)p->rank, .dtype = p->t};
  }
  b->phase = "reference";
  tn_diag_clear(c->d);
  tn_status s = tn_ops_eval_graph(c->d, c->a, c->g, in, out);
  b->error = s;
  if (s != TN_OK && s != TN_E_INDEX && s != TN_E_ZERO) return bad(b);
  for (uint32_t i = 0; i < b->n_out && s == TN_OK; i++)
    memcpy(b->out[i].dense, out[i].data, (size_t)b->out[i].n * tn_dtype_size(b->out[i].t));
  return true;
}

static tn_ksched *copy_sched(tn_arena *a, const tn_kdef *k, const tn_ksched *s) {
  tn_ksched *c = TN_NEW(a, tn_ksched, 1);
  *c = *s;
  c->keep = TN_NEW(a, uint8_t, k->n_stage + 1);
  c->pack = TN_NEW(a, bool, k->n_param + 1);
  c->loop = TN_NEW(a, tn_kloop, s->n_loop + 1);
  memcpy(c->keep, s->keep, k->n_stage);
  memcpy(c->pack, s->pack, k->n_param * sizeof *s->pack);
  memcpy(c->loop, s->loop, s->n_loop * sizeof *s->loop);
  return c;
}

/* Changed schedules: the verifier refuses them, or their nests have the definition's values. */
static bool run_mutations(bench *b, char **want) {
  gen_case *c = b->c;
  tn_ksched *chosen = b->s;
  tn_nest *nest = b->nest;
  tn_nest_info info = b->info;
  char *got[MAX_PORTS];
  bool ok = true;
  for (uint32_t m = 0; m < c->mutations && ok; m++) {
    b->phase = "changed schedule";
    b->s = copy_sched(c->a, b->k, chosen);
    gen_mutate(b->k, b->s, m + 1000 * (uint64_t)b->threads + b->target->vector_bits);
    tn_diag_clear(c->d);
    if (tn_ksched_verify(c->d, b->k, b->s) != TN_OK) {
      gen_n_illegal++;
      continue;
    }
    if (!text_of_sched(b)) return false;
    gen_n_legal++;
    b->phase = "loops of a changed schedule";
    tn_status st = tn_nest_build(c->d, c->a, b->k, b->s, b->target, &b->nest, &b->info);
    if (st == TN_E_UNSUPPORTED) continue;
    if (st != TN_OK || tn_nest_verify(c->d, b->nest) != TN_OK) return bad(b);
    ok = run_code(b, NULL, true, true, got) && compare_all(b, got, want, "nest of a changed schedule");
  }
  b->s = chosen;
  b->nest = nest;
  b->info = info;
  return ok;
}

/* All rounds of one target and thread count. */
static bool run_target(bench *b, const tn_device_api *cpu, tn_device *dev) {
  gen_case *c = b->c;
  char *def_got[MAX_PORTS], *got[MAX_PORTS], *again[MAX_PORTS], why[256];
  void *object = NULL;
  size_t n_object = 0;
  tn_code *code = NULL;
  double terms;
  if (!lower(b)) return false;
  b->phase = "schedule";
  OK_OR_SAY(b, tn_sched_choose(c->d, c->a, b->k, b->target, b->threads, &b->s));
  if (!text_of_def(b) || !text_of_sched(b)) return false;
  dump(b);
  b->phase = "loops";
  OK_OR_SAY(b, tn_nest_build(c->d, c->a, b->k, b->s, b->target, &b->nest, &b->info));
  if (!text_of_nest(b)) return false;
  b->phase = "codegen";
  OK_OR_SAY(b, tn_codegen_object(c->d, b->nest, b->target, &object, &n_object, NULL));
  gen_n_kernels++;
  b->phase = "load";
  bool ok = cpu->load(dev, object, n_object, b->nest->name, &code, why, sizeof why) == TN_OK;
  tn_free(object);
  if (!ok) {
    say(b, why);
    return false;
  }
  tn_kernel_fn fn = NULL;
  *(void **)&fn = cpu->entry(code);
  for (uint32_t r = 0; r < c->n_rounds && ok; r++) {
    gen_seed = 12345 + r;
    ok = set_round(b, r);
    if (!ok) break;
    double work = work_of(b, &terms);
    b->tol_terms = terms;
    bool interpret = work < 4e6, wanted = b->error == TN_OK;
    if (interpret) {
      ok = run_def(b, def_got);
      if (ok && wanted) ok = compare_all(b, def_got, NULL, "definition");
    }
    if (ok && work < 3e5) {
      b->phase = "interpret nest";
      gen_n_nests++;
      ok = run_code(b, NULL, true, true, got);
      if (ok && (wanted || interpret)) ok = compare_all(b, got, interpret ? def_got : NULL, "nest");
      if (ok && c->mutations && r == 0) ok = run_mutations(b, def_got);
    }
    b->phase = "run";
    if (ok) ok = run_code(b, fn, true, false, got);
    if (ok && (wanted || interpret)) ok = compare_all(b, got, interpret ? def_got : NULL, "code");
    b->phase = "run in pieces";
    if (ok) ok = run_code(b, fn, false, true, again);
    for (uint32_t i = 0; i < b->n_out && ok; i++)
      if (memcmp(got[i], again[i], (size_t)b->out[i].n * tn_dtype_size(b->out[i].t))) {
        say(b, "pieces give other bits");
        ok = false;
      }
  }
  cpu->unload(dev, code);
  return ok;
}

static bool make_outer(bench *b) {
  gen_case *c = b->c;
  tn_ref in[MAX_PORTS];
  tn_type out[MAX_PORTS];
  tn_attr kind = tn_mk_str("kind", "pointwise");
  b->phase = "graph";
  OK_OR_SAY(b, tn_graph_create(c->a, c->dims, "outer", &b->outer));
  for (uint32_t i = 0; i < b->n_in; i++)
    OK_OR_SAY(b, tn_graph_add_input(b->outer, NULL, *tn_typeof(c->g, c->g->input[i]), TN_ORIGIN_INPUT, &in[i]));
  for (uint32_t i = 0; i < b->n_out; i++) out[i] = *tn_typeof(c->g, c->g->output[i].ref);
  OK_OR_SAY(b, tn_graph_add(b->outer, TN_OP_FUSED, in, b->n_in, &kind, 1, out, b->n_out, 0, &b->node));
  b->outer->node[b->node].body = c->g;
  return true;
}

bool gen_run(gen_case *c) {
  static const tn_device_api *cpu;
  static tn_device *dev;
  static const int64_t none[1];
  bench b = {.c = c, .n_in = c->g->n_inputs, .n_out = c->g->n_outputs, .sym = c->sym};
  char why[256] = "";
  catch_faults();
  if (!c->n_rounds) c->sym = none, c->n_rounds = 1, c->n_sym = 0;
  b.sym = c->sym;
  if (!dev) {
    cpu = tn_device_find("cpu");
    if (!cpu || cpu->open(&dev, why, sizeof why) != TN_OK) {
      fprintf(stderr, "no cpu device: %s\n", why);
      return false;
    }
  }
  b.phase = "graph";
  OK_OR_SAY(&b, tn_graph_verify(c->d, c->g));
  OK_OR_SAY(&b, tn_ops_verify(c->d, c->g));
  if (b.n_in > MAX_PORTS || b.n_out > MAX_PORTS || !make_outer(&b)) return false;
  for (uint32_t i = 0; i < b.n_in; i++) {
    const tn_node *n = tn_def(c->g, c->g->input[i]);
    gen_view(c, tn_typeof(c->g, c->g->input[i]), c->in, n->input->stride, &b.in[i].view);
    b.in[i].frozen = n->input->origin == TN_ORIGIN_PARAM;
  }
  for (uint32_t i = 0; i < b.n_out; i++) gen_view(c, tn_typeof(c->g, c->g->output[i].ref), c->out, NULL, &b.out[i].view);
  static const tn_level levels[] = {TN_LEVEL_V3, TN_LEVEL_V4};
  tn_target host;
  OK_OR_SAY(&b, tn_cpu_detect(&host));
  for (int l = 0; l < 2; l++) {
    tn_target t;
    tn_target_init(&t, levels[l]);
    if (!tn_target_runs(&host, levels[l])) continue;
    for (int threads = 1; threads <= 64; threads *= 64) {
      b.target = &t;
      b.threads = threads;
      if (!run_target(&b, cpu, dev)) return false;
    }
  }
  return true;
}

/* manager: runs a list of passes and keeps them honest.
 *
 * The list is data ("default", "a,b,c", "-fuse,-cse"), checked as a whole before anything runs: names must exist and each pass's
 * needs must hold by then, either of the graph as given or from an earlier pass. After each pass scratch is emptied, and with p->verify
 * both verifiers run, so that the pass that broke a rule is the one that is named.
 * It does not choose an order by itself: the default order is the row order of passes.def. */
#include "passes/passes_int.h"
#include <string.h>

static const tn_pass_row rows[] = {
#define TN_PASS(fn, text, needs, gives, breaks, doc) {text, tn_pass_##fn, needs, gives, breaks, doc},
#include "passes/passes.def"
#undef TN_PASS
};
enum { N_ROWS = sizeof rows / sizeof *rows, MAX_LIST = 64 };

const tn_pass_row *tn_pass_rows(uint32_t *out_n) {
  *out_n = N_ROWS;
  return rows;
}

static int find_row(const char *s, size_t n) {
  for (int i = 0; i < N_ROWS; i++)
    if (strlen(rows[i].text) == n && memcmp(rows[i].text, s, n) == 0) return i;
  return -1;
}

typedef struct plan { int row[MAX_LIST]; uint32_t n; } plan;

static void take_default(plan *l) {
  l->n = N_ROWS;
  for (int i = 0; i < N_ROWS; i++) l->row[i] = i;
}
static void take_out(plan *l, int row) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < l->n; i++)
    if (l->row[i] != row) l->row[n++] = l->row[i];
  l->n = n;
}

static tn_status read_list(tn_diag *d, const char *list, plan *l) {
  const char *s = list ? list : "default";
  l->n = 0;
  if (strcmp(s, "default") == 0 || *s == '-') take_default(l);
  if (strcmp(s, "default") == 0 || *s == 0) return TN_OK;
  bool change = *s == '-';
  while (true) {
    size_t n = strcspn(s, ",");
    const char *name = s;
    size_t len = n;
    bool drop = n > 0 && *s == '-';
    if (drop) name++, len--;
    int row = find_row(name, len);
    if (row < 0) return tn_fail(d, TN_E_ARG, "no pass named '%.*s' in '%s'", (int)len, name, list);
    if (drop != change) return tn_fail(d, TN_E_ARG, "'%s' mixes passes to run with changes to the default list", list);
    if (drop) take_out(l, row);
    else if (l->n == MAX_LIST) return tn_fail(d, TN_E_ARG, "more than %d passes in one list", MAX_LIST);
    else l->row[l->n++] = row;
    s += n;
    if (*s == 0) return TN_OK;
    s++;
  }
}

static const char *fact_name(unsigned f) { return f & TN_FACT_DECOMPOSED ? "decomposed" : f & TN_FACT_FUSED ? "fused" : "?"; }

/* Facts that hold of the graph as it comes. */
static unsigned facts_of(const tn_graph *g) {
  unsigned f = TN_FACT_DECOMPOSED;
  for (uint32_t i = 1; i < g->n_nodes; i++) {
    if (g->node[i].dead) continue;
    if (g->node[i].op == TN_OP_CALL) f &= ~(unsigned)TN_FACT_DECOMPOSED;
    if (g->node[i].op == TN_OP_FUSED) f |= TN_FACT_FUSED;
  }
  return f;
}

static tn_status check_order(tn_diag *d, const plan *l, unsigned have) {
  for (uint32_t i = 0; i < l->n; i++) {
    const tn_pass_row *r = &rows[l->row[i]];
    unsigned lack = r->needs & ~have;
    if (lack) return tn_fail(d, TN_E_ARG, "pass %s needs a graph that is %s, which no pass before it gives", r->text, fact_name(lack));
    have = (have & ~r->breaks) | r->gives;
  }
  return TN_OK;
}

static tn_status run_one(tn_pass_ctx *p, tn_graph *g, const tn_pass_row *r) {
  uint32_t before = g->n_nodes - 1;
  uint64_t t0 = tn_now_ns();
  tn_mark m = tn_arena_mark(p->scratch);
  tn_status s = r->fn(p, g);
  tn_arena_rewind(p->scratch, m);
  if (s != TN_OK) return tn_diag_while(p->d, s, "in pass %s", r->text);
  uint64_t ns = tn_now_ns() - t0;
  if (p->verify) {
    TN_TRY_WHILE(p->d, tn_graph_verify(p->d, g), "checking the graph after pass %s", r->text);
    TN_TRY_WHILE(p->d, tn_ops_verify(p->d, g), "checking the graph after pass %s", r->text);
  }
  if (tn_log_on("passes")) tn_log("passes", "%s: %u -> %u nodes, %.3f ms", r->text, before, g->n_nodes - 1, (double)ns * 1e-6);
  if (p->after) p->after(p->user, r->text, g, ns, before);
  return TN_OK;
}

tn_status tn_passes_run(tn_pass_ctx *p, tn_graph *g, const char *list) {
  plan l;
  TN_TRY(read_list(p->d, list, &l));
  TN_TRY(check_order(p->d, &l, facts_of(g)));
  for (uint32_t i = 0; i < l.n; i++) TN_TRY(run_one(p, g, &rows[l.row[i]]));
  return TN_OK;
}

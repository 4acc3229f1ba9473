/* gates: what a profile says about a framework call. Four gates in order: dtype, generate list, registry and rule, graph-fusion list; the
 * first that fails names the one reason of the fallback. A registered op is judged by its rule, an unregistered one by the common rule,
 * so both get a dtype verdict; the list and the registry are asked about what the call is lowered to (unsqueeze -> reshape).
 *
 * The profile "default" refuses nothing: there the registry gate says only whether a decomposition exists. "dvm" reproduces the pinned
 * rules as data (profiles.def), to compare censuses. Gate 4 belongs to graph fusion, which is off: it always reads "not asked". */
#include "passes/passes_int.h"
#include <string.h>

enum {
#define TN_PROFILE(id, name, doc) PROFILE_##id,
#include "passes/profiles.def"
  N_PROFILES
};
struct tn_profile { const char *name, *doc; int id; };
static const tn_profile profiles[] = {
#define TN_PROFILE(id, name, doc) {name, doc, PROFILE_##id},
#include "passes/profiles.def"
};
const tn_profile *tn_profile_find(const char *name) {
  for (int i = 0; i < N_PROFILES; i++)
    if (strcmp(profiles[i].name, name ? name : "default") == 0) return &profiles[i];
  return NULL;
}
const tn_profile *tn_profile_get(uint32_t i) { return i < N_PROFILES ? &profiles[i] : NULL; }
const char *tn_profile_name(const tn_profile *p) { return p->name; }

/* ---- the tables of profile dvm ---- */
typedef enum rule_id { RULE_NONE, RULE_COMMON, RULE_MM, RULE_WHERE, RULE_FULL, RULE_CAST } rule_id;
static const char *const rule_name[] = {"none", "common_rule", "mm_rule", "where_rule", "full_rule", "cast_rule"};
static const char *const generate[] = {
#define TN_DVM_GENERATE(packet) packet,
#include "passes/profiles.def"
};
static const struct { const char *packet; rule_id rule; } registry[] = {
#define TN_DVM_OP(packet, rule) {packet, RULE_##rule},
#include "passes/profiles.def"
};
static const struct { const char *target, *products; } lowered[] = {
#define TN_DVM_LOWER(target, products) {target, products},
#include "passes/profiles.def"
};
static const char *const views[] = {
#define TN_DVM_VIEW(packet) packet,
#include "passes/profiles.def"
};
#define COUNT(a) (sizeof (a) / sizeof *(a))

/* "aten.add" covers "aten.add.Tensor"; a full name covers itself. */
static bool covers(const char *key, const char *target) {
  size_t n = strlen(key);
  return strncmp(key, target, n) == 0 && (target[n] == 0 || target[n] == '.');
}
static bool on_list(const char *target) {
  for (size_t i = 0; i < COUNT(generate); i++)
    if (covers(generate[i], target)) return true;
  return false;
}
static rule_id rule_of(const char *target) {
  for (size_t i = 0; i < COUNT(registry); i++)
    if (covers(registry[i].packet, target)) return registry[i].rule;
  return RULE_NONE;
}
static const char *lowered_to(const char *target) {
  for (size_t i = 0; i < COUNT(lowered); i++)
    if (covers(lowered[i].target, target)) return lowered[i].products;
  return NULL;
}
static bool is_free_view(const char *target) {
  for (size_t i = 0; i < COUNT(views); i++)
    if (covers(views[i], target)) return true;
  return false;
}

/* ---- judging ---- */
typedef struct judge { tn_graph *g; const tn_node *n; tn_verdict *v; bool oom; } judge;

static bool is_float3(tn_dtype t) { return t == TN_F16 || t == TN_BF16 || t == TN_F32; }
static bool is_wide(tn_dtype t) { return is_float3(t) || t == TN_I32 || t == TN_BOOL; }
static tn_dtype in_dtype(const judge *j, uint32_t k) { return (tn_dtype)tn_typeof(j->g, j->n->in[k])->dtype; }

static void refuse(judge *j, int gate, const char *code, const char *text) {
  j->v->gate[gate] = TN_GATE_FAIL;
  j->v->code = code;
  j->v->text = text;
  j->oom = j->oom || !text;
}
#define say(j, ...) tn_arena_printf((j)->g->arena, __VA_ARGS__)

static void common_rule(judge *j, rule_id r, uint32_t first_in, bool cast) {
  for (uint32_t k = first_in; k < j->n->n_in && !j->v->code; k++) {
    tn_dtype t = in_dtype(j, k);
    if (cast ? is_wide(t) || t == TN_I64 : is_float3(t)) continue;
    refuse(j, 0, "dtype", say(j, "%s: operand %u is %s, wants f16, bf16 or f32", rule_name[r], k, tn_dtype_name(t)));
  }
  for (uint32_t k = 0; k < j->n->n_out && !j->v->code; k++) {
    tn_dtype t = (tn_dtype)tn_typeof(j->g, tn_out(j->n, k))->dtype;
    if (is_wide(t) || (cast && t == TN_I64)) continue;
    if (k > 0) continue; /* secondary results, such as empty statistics */
    refuse(j, 0, "dtype", say(j, "%s: result is %s, wants f16, bf16, f32, i32 or bool", rule_name[r], tn_dtype_name(t)));
  }
}

static const tn_type *operand(const judge *j, const char *a, const char *b, const char *c) {
  const char *const names[3] = {a, b, c};
  for (int i = 0; i < 3; i++) {
    const tn_attr_val *v = names[i] ? tn_attr_get(j->n, names[i]) : NULL;
    if (v && v->kind == TN_AT_REF && v->u.ref < j->n->n_in) return tn_typeof(j->g, j->n->in[v->u.ref]);
  }
  return NULL;
}

enum { MM_INNER_MAX = 65280, MM_OUT_MIN = 256 };
static void mm_rule(judge *j) {
  const tn_type *a = operand(j, "mat1", "batch1", "self"), *b = operand(j, "mat2", "batch2", "other");
  if (!a || !b) { refuse(j, 2, "rule", say(j, "mm_rule: operands not found")); return; }
  const tn_type *both[2] = {a, b};
  for (int k = 0; k < 2 && !j->v->code; k++) {
    tn_dtype t = (tn_dtype)both[k]->dtype;
    if (t != TN_F16 && t != TN_BF16) refuse(j, 2, "rule", say(j, "mm_rule: dtype %s, wants f16 or bf16", tn_dtype_name(t)));
    else if (both[k]->rank < 2 || both[k]->rank > 4) refuse(j, 2, "rule", say(j, "mm_rule: rank %u, wants 2 to 4", both[k]->rank));
  }
  if (j->v->code) return;
  tn_dim inner = a->dim[a->rank - 1], rows = a->dim[a->rank - 2], cols = b->dim[b->rank - 1];
  if (!tn_dim_is_const(inner)) refuse(j, 2, "rule", say(j, "mm_rule: inner axis is symbolic"));
  else if (inner > MM_INNER_MAX) refuse(j, 2, "rule", say(j, "mm_rule: inner axis is %lld, at most %d", (long long)inner, MM_INNER_MAX));
  else if (tn_dim_is_const(rows) && tn_dim_is_const(cols) && rows <= MM_OUT_MIN && cols <= MM_OUT_MIN)
    refuse(j, 2, "rule", say(j, "mm_rule: result is %lld x %lld, wants a dimension over %d", (long long)rows, (long long)cols, MM_OUT_MIN));
}

static void apply_rule(judge *j, rule_id r) {
  switch (r) {
  case RULE_MM: common_rule(j, r, 0, false); if (!j->v->code) mm_rule(j); break;
  case RULE_WHERE: common_rule(j, r, 1, false); break;
  case RULE_FULL: common_rule(j, r, j->n->n_in, false); break;
  case RULE_CAST: common_rule(j, r, 0, true); break;
  case RULE_COMMON: case RULE_NONE: common_rule(j, RULE_COMMON, 0, false); break;
  }
}

/* Copies product k of "a,b,c"; false after the last. */
static bool product(const char *list, int k, char *out, size_t cap) {
  for (; k > 0 && list; k--) {
    list = strchr(list, ',');
    if (list) list++;
  }
  if (!list) return false;
  size_t n = strcspn(list, ",");
  if (n >= cap) return false;
  memcpy(out, list, n);
  out[n] = 0;
  return true;
}

static void judge_dvm(judge *j) {
  const char *target = j->n->target, *products = lowered_to(target);
  char name[96];
  if (is_free_view(target)) return;
  const char *list = products ? products : target;
  /* Gate 1: each product's rule, as far as it is about dtypes. */
  uint8_t later = TN_GATE_NA;
  const char *late_code = NULL, *late_text = NULL;
  bool is_mm = false;
  for (int k = 0; product(list, k, name, sizeof name); k++) {
    rule_id r = rule_of(name);
    if (r == RULE_MM) is_mm = true;
    apply_rule(j, r);
    if (!j->v->code) continue;
    if (j->v->gate[0] == TN_GATE_FAIL) return;
    later = TN_GATE_FAIL; /* a rule about something else speaks at gate 3 */
    late_code = j->v->code;
    late_text = j->v->text;
    j->v->code = NULL;
  }
  j->v->gate[0] = TN_GATE_PASS;
  j->v->gate[2] = TN_GATE_NA;
  /* Gate 2: the call itself or everything it becomes. */
  bool listed = on_list(target);
  for (int k = 0; !listed && product(list, k, name, sizeof name); k++) {
    if (on_list(name)) { listed = !product(list, k + 1, name, sizeof name); continue; }
    refuse(j, 1, "not-in-list", products ? say(j, "%s -> %s: %s is not in the generate list", target, products, name)
                                         : say(j, "%s is not in the generate list", target));
    return;
  }
  j->v->gate[1] = TN_GATE_PASS;
  /* Gate 3: an emitter for every product, and its rule. */
  for (int k = 0; product(list, k, name, sizeof name); k++) {
    if (rule_of(name) != RULE_NONE) continue;
    refuse(j, 2, "no-emitter", products ? say(j, "%s -> %s: %s has no emitter", target, products, name) : say(j, "%s has no emitter", target));
    return;
  }
  j->v->gate[2] = later == TN_GATE_FAIL ? TN_GATE_FAIL : TN_GATE_PASS;
  j->v->code = late_code;
  j->v->text = late_text;
  j->v->split = late_code && is_mm && products && covers("aten.addmm", target);
}

tn_status tn_gates_judge(const tn_profile *p, tn_graph *g, uint32_t node, tn_verdict *out) {
  memset(out, 0, sizeof *out);
  judge j = {.g = g, .n = &g->node[node], .v = out};
  if (p && p->id == PROFILE_DVM) judge_dvm(&j);
  else {
    out->gate[0] = out->gate[1] = TN_GATE_PASS;
    out->gate[2] = tn_aten_find(j.n->target) ? TN_GATE_PASS : TN_GATE_FAIL;
  }
  return j.oom ? TN_E_NOMEM : TN_OK;
}

void tn_profile_print(const tn_profile *p, tn_str *out) {
  tn_str_add(out, "profile %s: %s\n", p->name, p->doc);
  if (p->id != PROFILE_DVM) return;
  tn_str_add(out, "inputs: f16 bf16 f32\nresults: bf16 f16 f32 i32 bool\n");
  tn_str_add(out, "mm_rule: f16 or bf16, rank 2 to 4, constant inner axis of at most %d, a result dimension over %d\n", MM_INNER_MAX, MM_OUT_MIN);
  tn_str_add(out, "generate list:");
  for (size_t i = 0; i < COUNT(generate); i++) tn_str_add(out, " %s", generate[i]);
  tn_str_add(out, "\nregistry:\n");
  for (size_t i = 0; i < COUNT(registry); i++) tn_str_add(out, "  %-48s %s\n", registry[i].packet, rule_name[registry[i].rule]);
  tn_str_add(out, "lowered before the gates look:\n");
  for (size_t i = 0; i < COUNT(lowered); i++) tn_str_add(out, "  %-48s %s\n", lowered[i].target, lowered[i].products);
}

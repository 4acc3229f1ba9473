/* Machine descriptions: the rows of target.def as data, their text form, and the small arithmetic on them (limit, does it
 * run). Detection of the real machine is device/cpu's; nothing here looks at one. */
#include "target.h"
#include <stdio.h>
#include <string.h>

typedef struct level_row {
  const char *text, *aliases, *triple, *cpu, *features;
  uint32_t vector_bits, n_vector_regs, flags;
} level_row;

static const level_row levels[TN_N_LEVELS] = {
#define TN_LEVEL(id, text, aliases, triple, cpu, features, bits, regs, flags) {text, aliases, triple, cpu, features, bits, regs, flags},
#include "target/target.def"
};

static const struct {
  uint32_t bit;
  const char *text, *llvm;
} flag_rows[] = {
#define TN_TARGET_FLAG(id, bit, text, llvm, doc) {1u << (bit), text, llvm},
#include "target/target.def"
};
enum { N_FLAGS = sizeof flag_rows / sizeof *flag_rows };

const char *tn_target_flag_name(uint32_t bit) {
  for (int i = 0; i < N_FLAGS; i++)
    if (flag_rows[i].bit == bit) return flag_rows[i].text;
  return NULL;
}

const char *tn_target_level_name(tn_level level) { return (unsigned)level < TN_N_LEVELS ? levels[level].text : "?"; }

static bool word_in(const char *list, const char *s, size_t n) {
  while (*list) {
    size_t word = strcspn(list, ",");
    if (word == n && memcmp(list, s, n) == 0) return true;
    list += word + (list[word] == ',');
  }
  return false;
}

bool tn_target_level_parse(const char *s, size_t n, tn_level *out) {
  for (int i = 0; n && i < TN_N_LEVELS; i++) {
    if (word_in(levels[i].text, s, n) || word_in(levels[i].aliases, s, n)) {
      *out = (tn_level)i;
      return true;
    }
  }
  return false;
}

void tn_target_init(tn_target *t, tn_level level) {
  const level_row *r = &levels[level];
  *t = (tn_target){.level = level,
                   .flags = r->flags,
                   .vector_bits = r->vector_bits,
                   .n_vector_regs = r->n_vector_regs,
                   .l1d_bytes = r->vector_bits == 512 ? 48 << 10 : 32 << 10,
                   .l2_bytes = 1 << 20,
                   .cores = 1};
  snprintf(t->triple, sizeof t->triple, "%s", r->triple);
  snprintf(t->cpu, sizeof t->cpu, "%s", r->cpu);
  snprintf(t->features, sizeof t->features, "%s", r->features);
}

bool tn_target_runs(const tn_target *t, tn_level level) {
  const level_row *r = &levels[level];
  return strcmp(r->triple, levels[t->level].triple) == 0 && tn_target_has(t, r->flags);
}

bool tn_target_set_flags(tn_target *t, uint32_t flags) {
  const char *triple = levels[t->level].triple;
  int best = -1;
  for (int i = 0; i < TN_N_LEVELS; i++)
    if (strcmp(levels[i].triple, triple) == 0 && (flags & levels[i].flags) == levels[i].flags) best = i;
  if (best < 0) return false;
  tn_target row;
  tn_target_init(&row, (tn_level)best);
  row.l1d_bytes = t->l1d_bytes;
  row.l2_bytes = t->l2_bytes;
  row.l3_bytes = t->l3_bytes;
  row.cores = t->cores;
  for (int i = 0; i < N_FLAGS; i++) { /* what the machine has beyond its level */
    if (!(flags & ~row.flags & flag_rows[i].bit) || !flag_rows[i].llvm[0]) continue;
    size_t n = strlen(row.features);
    snprintf(row.features + n, sizeof row.features - n, "%s%s", n ? "," : "", flag_rows[i].llvm);
  }
  row.flags = flags;
  *t = row;
  return true;
}

void tn_target_limit(tn_target *t, tn_level level) {
  if (strcmp(levels[level].triple, levels[t->level].triple) != 0 || level >= (tn_level)t->level) return;
  tn_target_set_flags(t, t->flags & levels[level].flags);
}

/* ---- text ---- */
void tn_target_print(const tn_target *t, tn_str *out) {
  tn_str_add(out, "target %s { vector %u, regs %u, flags ", tn_target_level_name((tn_level)t->level), t->vector_bits, t->n_vector_regs);
  const char *sep = "";
  for (int i = 0; i < N_FLAGS; i++) {
    if (!(t->flags & flag_rows[i].bit)) continue;
    tn_str_add(out, "%s%s", sep, flag_rows[i].text);
    sep = "+";
  }
  if (!*sep) tn_str_add(out, "none");
  tn_str_add(out, ", l1d %u, l2 %u, l3 %llu, cores %u, triple \"%s\", cpu \"%s\", features \"%s\" }", t->l1d_bytes, t->l2_bytes,
             (unsigned long long)t->l3_bytes, t->cores, t->triple, t->cpu, t->features);
}

typedef struct scanner {
  tn_diag *d;
  const char *s;
  size_t n, pos;
} scanner;

static tn_status bad(scanner *p, const char *what) {
  return tn_fail(p->d, TN_E_PARSE, "target text: %s at offset %zu of \"%.*s\"", what, p->pos, (int)(p->n < 300 ? p->n : 300), p->s);
}

/* The next word: a run of letters, digits and "-+_.", or a quoted text (without the quotes), or one other character. */
static tn_status next(scanner *p, const char **w, size_t *n) {
  while (p->pos < p->n && strchr(" \t\r\n", p->s[p->pos])) p->pos++;
  *w = p->s + p->pos;
  *n = 0;
  if (p->pos == p->n) return TN_OK;
  if (p->s[p->pos] == '"') {
    ++*w;
    while (++p->pos < p->n && p->s[p->pos] != '"') ++*n;
    if (p->pos == p->n) return bad(p, "text without its closing quote");
    p->pos++;
    return TN_OK;
  }
  while (p->pos < p->n && !strchr(" \t\r\n{},\"", p->s[p->pos])) p->pos++, ++*n;
  if (*n == 0) p->pos++, *n = 1;
  return TN_OK;
}

static bool is(const char *w, size_t n, const char *text) { return strlen(text) == n && memcmp(w, text, n) == 0; }

static tn_status parse_number(scanner *p, const char *w, size_t n, uint64_t max, uint64_t *out) {
  uint64_t v = 0;
  for (size_t i = 0; i < n; i++) {
    if (w[i] < '0' || w[i] > '9') return bad(p, "expected a number before");
    if (v > (max - (uint64_t)(w[i] - '0')) / 10) return bad(p, "number too large before");
    v = v * 10 + (uint64_t)(w[i] - '0');
  }
  if (n == 0) return bad(p, "expected a number");
  *out = v;
  return TN_OK;
}

static tn_status parse_flags(scanner *p, const char *w, size_t n, uint32_t *out) {
  *out = 0;
  if (is(w, n, "none")) return TN_OK;
  for (size_t from = 0; from <= n;) {
    size_t len = 0;
    while (from + len < n && w[from + len] != '+') len++;
    int i = 0;
    while (i < N_FLAGS && !is(w + from, len, flag_rows[i].text)) i++;
    if (i == N_FLAGS) return bad(p, "unknown flag before");
    *out |= flag_rows[i].bit;
    from += len + 1;
  }
  return TN_OK;
}

static tn_status parse_text(scanner *p, const char *w, size_t n, char *out, size_t cap) {
  if (n >= cap) return bad(p, "text too long before");
  memcpy(out, w, n);
  out[n] = 0;
  return TN_OK;
}

static tn_status parse_field(scanner *p, const char *key, size_t key_n, tn_target *t) {
  const char *w;
  size_t n;
  TN_TRY(next(p, &w, &n));
  if (is(key, key_n, "flags")) return parse_flags(p, w, n, &t->flags);
  if (is(key, key_n, "triple")) return parse_text(p, w, n, t->triple, sizeof t->triple);
  if (is(key, key_n, "cpu")) return parse_text(p, w, n, t->cpu, sizeof t->cpu);
  if (is(key, key_n, "features")) return parse_text(p, w, n, t->features, sizeof t->features);
  uint64_t v = 0;
  if (is(key, key_n, "l3")) return parse_number(p, w, n, INT64_MAX, &t->l3_bytes);
  TN_TRY(parse_number(p, w, n, INT32_MAX, &v));
  if (is(key, key_n, "vector")) {
    if (v != 128 && v != 256 && v != 512) return bad(p, "vector must be 128, 256 or 512 before");
    t->vector_bits = (uint32_t)v;
  } else if (is(key, key_n, "regs")) {
    if (v < 8 || v > 64) return bad(p, "regs must lie in 8..64 before");
    t->n_vector_regs = (uint32_t)v;
  } else if (is(key, key_n, "cores")) {
    if (v < 1) return bad(p, "cores must be at least 1 before");
    t->cores = (uint32_t)v;
  } else if (is(key, key_n, "l1d")) {
    t->l1d_bytes = (uint32_t)v;
  } else if (is(key, key_n, "l2")) {
    t->l2_bytes = (uint32_t)v;
  } else {
    return bad(p, "unknown field before");
  }
  return TN_OK;
}

tn_status tn_target_parse(tn_diag *d, const char *s, size_t n, tn_target *out) {
  scanner p = {d, s, n, 0};
  const char *w;
  size_t len;
  tn_level level = TN_LEVEL_V3;
  TN_TRY(next(&p, &w, &len));
  if (!is(w, len, "target")) return bad(&p, "expected 'target' before");
  TN_TRY(next(&p, &w, &len));
  if (!tn_target_level_parse(w, len, &level)) return bad(&p, "unknown level before");
  tn_target t;
  tn_target_init(&t, level);
  TN_TRY(next(&p, &w, &len));
  if (is(w, len, "{")) {
    do {
      TN_TRY(next(&p, &w, &len));
      if (is(w, len, "}")) break;
      TN_TRY(parse_field(&p, w, len, &t));
      TN_TRY(next(&p, &w, &len));
    } while (is(w, len, ","));
    if (!is(w, len, "}")) return bad(&p, "expected '}' before");
    TN_TRY(next(&p, &w, &len));
  }
  if (len) return bad(&p, "unexpected text before");
  *out = t;
  return TN_OK;
}

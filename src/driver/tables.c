/* tables: what the compiler is made of, printed from the tables it runs by, so that lists can't drift from code. */
#include "tenon/compile.h"
#include "passes/passes.h"
#include <string.h>

typedef struct table {
  tn_str s;
  bool json;
  uint32_t rows;
} table;

static void quoted(tn_str *b, const char *s) {
  tn_str_add(b, "\"");
  for (; *s; s++) {
    if (*s == '"' || *s == '\\')
      tn_str_add(b, "\\%c", *s);
    else if ((unsigned char)*s < 32)
      tn_str_add(b, "\\u%04x", *s);
    else
      tn_str_put(b, s, 1);
  }
  tn_str_add(b, "\"");
}
/* One row: keys and values alternate, NULL ends. The first column is padded for people. */
static void row(table *t, const char *const *kv, int width) {
  if (t->json) tn_str_add(&t->s, "%s{", t->rows ? ",\n " : "");
  for (int i = 0; kv[i]; i += 2) {
    if (t->json) {
      tn_str_add(&t->s, "%s", i ? ", " : "");
      quoted(&t->s, kv[i]);
      tn_str_add(&t->s, ": ");
      quoted(&t->s, kv[i + 1]);
    } else if (i == 0 && kv[2])
      tn_str_add(&t->s, "%-*s", width, kv[1]);
    else if (kv[i + 1][0])
      tn_str_add(&t->s, "%s%s", i ? "  " : "", kv[i + 1]);
  }
  tn_str_add(&t->s, t->json ? "}" : "\n");
  t->rows++;
}

static const char *facts(unsigned f) {
  return f & TN_FACT_DECOMPOSED ? f & TN_FACT_FUSED ? "decomposed fused" : "decomposed" : f & TN_FACT_FUSED ? "fused" : "";
}
static void passes(table *t) {
  uint32_t n;
  const tn_pass_row *r = tn_pass_rows(&n);
  for (uint32_t i = 0; i < n; i++) {
    if (t->json)
      row(t,
          (const char *const[]){"pass", r[i].text, "needs", facts(r[i].needs), "gives", facts(r[i].gives), "breaks", facts(r[i].breaks),
                                "doc", r[i].doc, NULL},
          0);
    else
      row(t, (const char *const[]){"pass", r[i].text, "doc", r[i].doc, NULL}, 10);
  }
}
static void rules(table *t) {
  uint32_t n;
  const tn_rule_row *r = tn_rule_rows(&n);
  for (uint32_t i = 0; i < n; i++) row(t, (const char *const[]){"rule", r[i].text, "doc", r[i].doc, NULL}, 20);
}
static void ops(table *t) {
  static const char *const cls[] = {"struct", "create", "eltwise", "layout", "reduce", "scan", "contract", "index", "library"};
  for (int i = 0; i < TN_N_OPS; i++) {
    const char *attrs = tn_op_attrs((tn_op)i);
    row(t, (const char *const[]){"op", tn_op_name((tn_op)i), "class", cls[tn_op_cls((tn_op)i)], "attributes", attrs ? attrs : "", NULL},
        12);
  }
}
static void aten(table *t) {
  uint32_t n;
  const tn_aten_row *r = tn_aten_rows(&n);
  for (uint32_t i = 0; i < n; i++)
    row(t, (const char *const[]){"target", r[i].name, "fate", tn_fate_name((tn_fate)r[i].fate), "own", r[i].own ? "own form" : "", NULL},
        56);
}
static void env(table *t) {
  for (int i = 0; i < TN_N_ENVS; i++)
    row(t, (const char *const[]){"name", tn_env_name((tn_env)i), "value", tn_env_get((tn_env)i), "doc", tn_env_doc((tn_env)i), NULL}, 24);
}
static void profiles(table *t) {
  const tn_profile *p;
  for (uint32_t i = 0; (p = tn_profile_get(i)); i++) {
    tn_str text;
    tn_str_init(&text);
    tn_profile_print(p, &text);
    if (text.oom)
      t->s.oom = true;
    else if (t->json)
      row(t, (const char *const[]){"profile", tn_profile_name(p), "text", text.s, NULL}, 0);
    else
      tn_str_put(&t->s, text.s, text.n);
    tn_str_deinit(&text);
  }
}

tn_status tn_table_text(const char *what, int json, char **out_text) {
  static const struct {
    const char *name;
    void (*fn)(table *);
  } tables[] = {{"passes", passes}, {"rules", rules}, {"ops", ops}, {"aten", aten}, {"env", env}, {"profiles", profiles}};
  table t = {.json = json != 0};
  *out_text = NULL;
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
    if (strcmp(tables[i].name, what) != 0) continue;
    tn_str_init(&t.s);
    if (json) tn_str_add(&t.s, "[");
    tables[i].fn(&t);
    if (json) tn_str_add(&t.s, "]\n");
    if (!t.s.oom && (*out_text = tn_malloc(t.s.n + 1))) {
      memcpy(*out_text, t.s.s, t.s.n);
      (*out_text)[t.s.n] = 0;
    }
    tn_str_deinit(&t.s);
    return *out_text ? TN_OK : TN_E_NOMEM;
  }
  return TN_E_ARG;
}

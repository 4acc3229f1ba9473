/* print.c: a graph as text, in the form ir.h shows and parse.c reads.
 *
 * Names: a value keeps its own name when it is the first of its graph to have it; all others are numbered 0, 1, ... in print order.
 * Reading numbers back gives values without a name, so the second printing numbers them the same: that is what makes
 * print -> parse -> print the identity.
 * Forwarding is resolved and dead nodes are left out, so a graph may be printed in the middle of a pass; only a compacted one is sure
 * to read back. Broken refs print as %?id: a dump of a graph that fails to verify is when one needs it most. */
#include <math.h>
#include <string.h>
#include "ir/ir_int.h"

typedef struct printer {
  const tn_graph *g;
  tn_str *o;
  uint32_t *label; /* [n_values] number in text, or NAMED */
  unsigned flags;
  int indent, depth;
} printer;
#define NAMED UINT32_MAX

static void graph_rest(printer *p, const char *last);
static void graph_inputs(printer *p);

static void put(tn_str *o, const char *s) { tn_str_put(o, s, strlen(s)); }

static void quoted(tn_str *o, const char *s) {
  static const char hex[] = "0123456789abcdef";
  tn_str_put(o, "\"", 1);
  for (const char *run = s;; s++) {
    unsigned char c = (unsigned char)*s;
    if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f) continue;
    tn_str_put(o, run, (size_t)(s - run));
    run = s + 1;
    if (c == 0) break;
    char esc[4] = {'\\', (char)c, 0, 0};
    size_t n = 2;
    if (c == '\n')
      esc[1] = 'n';
    else if (c == '\t')
      esc[1] = 't';
    else if (c == '\r')
      esc[1] = 'r';
    else if (c < 0x20 || c == 0x7f)
      esc[1] = 'x', esc[2] = hex[c >> 4], esc[3] = hex[c & 15], n = 4;
    tn_str_put(o, esc, n);
  }
  tn_str_put(o, "\"", 1);
}

static void name(tn_str *o, const char *s, const char *more) {
  if (tn_ir_plain_name(s, more))
    put(o, s);
  else
    quoted(o, s);
}

/* The value itself, whatever it is forwarded to. */
static void label(printer *p, tn_ref r) {
  if (r.id == 0 || r.id >= p->g->n_values) {
    tn_str_add(p->o, "%%?%u", r.id);
  } else if (p->label[r.id] == NAMED) {
    put(p->o, "%");
    name(p->o, p->g->value[r.id].name, TN_IR_NAME_MORE);
  } else {
    tn_str_add(p->o, "%%%u", p->label[r.id]);
  }
}

static void ref(printer *p, tn_ref r) { label(p, tn_graph_resolve(p->g, r)); }

static void dim(printer *p, tn_dim d) {
  if (d == TN_DIM_BAD)
    put(p->o, "?");
  else if (tn_dim_is_const(d))
    tn_str_add(p->o, "%lld", (long long)d);
  else
    tn_dim_print(p->g->dims, d, p->o);
}

static void val(printer *p, const tn_attr_val *v, int depth) {
  tn_str *o = p->o;
  switch (v->kind) {
    case TN_AT_NONE: put(o, "none"); break;
    case TN_AT_INT: tn_str_add(o, "%lld", (long long)v->u.i); break;
    case TN_AT_FLOAT:
      if (isnan(v->u.f))
        put(o, "nan"); /* one NaN: sign and payload are not kept */
      else
        tn_str_add_double(o, v->u.f);
      break;
    case TN_AT_BOOL: put(o, v->u.b ? "true" : "false"); break;
    case TN_AT_STR: quoted(o, v->u.s ? v->u.s : ""); break;
    case TN_AT_DTYPE: put(o, (unsigned)v->u.t < TN_N_DTYPES ? tn_dtype_name(v->u.t) : "?"); break;
    case TN_AT_REF: tn_str_add(o, "$%u", v->u.ref); break;
    case TN_AT_DIM: {
      size_t at = o->n;
      dim(p, v->u.d);
      if (o->oom || !tn_ir_reserved_word(o->s + at, o->n - at)) break;
      o->n = at; /* a symbol called "f32" or "inf" */
      put(o, "dim(");
      dim(p, v->u.d);
      put(o, ")");
      break;
    }
    case TN_AT_LIST:
      put(o, "[");
      for (uint32_t i = 0; i < v->u.list.n; i++) {
        if (i) put(o, ", ");
        if (depth < TN_IR_MAX_LIST_DEPTH && v->u.list.item)
          val(p, &v->u.list.item[i], depth + 1);
        else
          put(o, "?");
      }
      put(o, "]");
      break;
    default: put(o, "?"); break;
  }
}

static void const_data(printer *p, const tn_node *n) {
  static const char hex[] = "0123456789abcdef";
  const tn_type *t = &p->g->value[n->out].type;
  const uint8_t *b = n->data->p;
  int64_t numel = tn_type_numel(t);
  size_t size = t->dtype < TN_N_DTYPES ? tn_dtype_size((tn_dtype)t->dtype) : 1;
  uint64_t elements = numel >= 0 ? (uint64_t)numel : n->data->bytes / size;
  bool shown = elements <= TN_IR_CONST_SHOWN && n->data->bytes <= TN_IR_CONST_SHOWN * 16; /* the second for broken ones */
  if (!shown || !b) {
    tn_str_add(p->o, "data=#%016llx", (unsigned long long)(b ? tn_hash(b, n->data->bytes, 0) : 0));
    return;
  }
  put(p->o, "data=\"");
  for (size_t i = 0; i < n->data->bytes; i++) {
    char two[2] = {hex[b[i] >> 4], hex[b[i] & 15]};
    tn_str_put(p->o, two, 2);
  }
  put(p->o, "\"");
}

static void attrs(printer *p, const tn_node *n) {
  bool data = n->data && n->n_out > 0;
  if (n->n_attr == 0 && !data) return;
  put(p->o, " {");
  if (data) const_data(p, n);
  for (uint32_t i = 0; i < n->n_attr; i++) {
    if (i || data) put(p->o, ", ");
    name(p->o, n->attr[i].name, TN_IR_ATTR_MORE);
    put(p->o, "=");
    val(p, &n->attr[i].val, 0);
  }
  put(p->o, "}");
}

static void prov(printer *p, const tn_node *n) {
  if ((p->flags & TN_PRINT_PROV) && n->prov) tn_str_add(p->o, " !%u", n->prov);
}

static void indent(printer *p) {
  for (int i = 0; i < p->indent; i++) put(p->o, "  ");
}

/* Numbers the values of p->g; false = out of memory. */
static bool label_all(printer *p) {
  const tn_graph *g = p->g;
  tn_map seen;
  uint32_t next = 0, other;
  bool ok = true;
  tn_map_init(&seen);
  p->label = tn_calloc(g->n_values, sizeof *p->label);
  if (!p->label) return false;
  for (uint32_t pass = 0; ok && pass < 2; pass++)
    for (uint32_t i = pass; ok && i < (pass ? g->n_nodes : g->n_inputs); i++) {
      uint32_t first, n;
      if (pass) {
        const tn_node *x = &g->node[i];
        if (x->dead || x->op == TN_OP_INPUT) continue;
        first = x->out, n = x->n_out;
      } else {
        first = g->input[i].id, n = 1;
      }
      for (uint32_t v = first; ok && v < first + n && v < g->n_values; v++) {
        const char *s = g->value[v].name;
        if (!s || !*s || tn_map_get_str(&seen, s, &other)) {
          p->label[v] = next++;
        } else {
          ok = tn_map_put_str(&seen, s, v);
          p->label[v] = NAMED;
        }
      }
    }
  tn_map_deinit(&seen);
  return ok;
}

static void node(printer *p, uint32_t id) {
  const tn_node *n = &p->g->node[id];
  indent(p);
  for (uint32_t k = 0; k < n->n_out; k++) {
    if (k) put(p->o, ", ");
    label(p, tn_out(n, k));
    put(p->o, ": ");
    tn_type_print(p->g->dims, &p->g->value[n->out + k].type, p->o);
  }
  if (n->n_out) put(p->o, " = ");
  put(p->o, tn_op_name(n->op));
  if (n->op == TN_OP_CALL || n->op == TN_OP_OPAQUE || n->op == TN_OP_DYN) {
    put(p->o, " ");
    name(p->o, n->target ? n->target : "", TN_IR_TARGET_MORE);
  }
  for (uint32_t k = 0; k < n->n_in; k++) {
    put(p->o, k ? ", " : " ");
    ref(p, n->in[k]);
  }
  attrs(p, n);
  prov(p, n);
  if (n->body && p->depth < TN_IR_MAX_BODY_DEPTH) {
    printer b = {n->body, p->o, NULL, p->flags, p->indent + 1, p->depth + 1};
    if (n->body->name && *n->body->name) {
      put(p->o, " @");
      name(p->o, n->body->name, TN_IR_NAME_MORE);
    }
    put(p->o, " {\n");
    if (label_all(&b)) {
      indent(&b);
      graph_inputs(&b);
      put(p->o, "\n");
      graph_rest(&b, "yield");
    } else {
      p->o->oom = true;
    }
    tn_free(b.label);
    indent(p);
    put(p->o, "}");
  }
  put(p->o, "\n");
}

static void graph_inputs(printer *p) {
  const tn_graph *g = p->g;
  put(p->o, "(");
  for (uint32_t i = 0; i < g->n_inputs; i++) {
    if (i) put(p->o, ", ");
    uint32_t v = g->input[i].id;
    const tn_node *n = v > 0 && v < g->n_values ? &g->node[g->value[v].node] : NULL;
    if (!n || !n->input) {
      put(p->o, "%?");
      continue;
    }
    const tn_type *t = &g->value[v].type;
    label(p, g->input[i]);
    put(p->o, ": ");
    tn_type_print(g->dims, t, p->o);
    if (n->input->stride) {
      put(p->o, "{");
      for (int k = 0; k < t->rank; k++) {
        if (k) put(p->o, ",");
        dim(p, n->input->stride[k]);
      }
      put(p->o, "}");
    }
    if (n->input->origin != TN_ORIGIN_INPUT || p->depth == 0) tn_str_add(p->o, " %s", tn_origin_name(n->input->origin));
    if (n->input->origin == TN_ORIGIN_SYM) {
      put(p->o, "(");
      dim(p, n->input->sym);
      put(p->o, ")");
    }
    if (n->input->mutated) put(p->o, " mutated");
    prov(p, n);
  }
  put(p->o, ")");
}

static void syms(printer *p) {
  const tn_dims *d = p->g->dims;
  for (uint32_t i = 0; i < tn_dims_n_syms(d); i++) {
    int64_t lo, hi;
    tn_dims_sym_range(d, i, &lo, &hi);
    if (lo == 0 && hi == INT64_MAX) continue;
    tn_str_add(p->o, "  sym %s in [%lld, ", tn_dims_sym_name(d, i), (long long)lo);
    if (hi == INT64_MAX)
      put(p->o, "inf]\n");
    else
      tn_str_add(p->o, "%lld]\n", (long long)hi);
  }
}

static void text_or_none(tn_str *o, const char *s) {
  put(o, " ");
  if (s)
    quoted(o, s);
  else
    put(o, "none");
}

static void sources(printer *p) {
  for (uint32_t i = 1; i < p->g->n_prov; i++) {
    const tn_prov *r = &p->g->prov[i];
    tn_str_add(p->o, "  src %u", i);
    text_or_none(p->o, r->name);
    text_or_none(p->o, r->target);
    text_or_none(p->o, r->where);
    tn_str_add(p->o, " %s", (unsigned)r->dtype < TN_N_DTYPES ? tn_dtype_name(r->dtype) : "?");
    if (r->gate[0] | r->gate[1] | r->gate[2] | r->gate[3]) {
      put(p->o, " gates=");
      for (int k = 0; k < 4; k++) put(p->o, r->gate[k] == TN_GATE_PASS ? "p" : r->gate[k] == TN_GATE_FAIL ? "f" : "-");
    }
    if (r->fate != TN_FATE_NONE) tn_str_add(p->o, " fate=%s", tn_fate_name((tn_fate)r->fate));
    if (r->detail) {
      put(p->o, " detail=");
      quoted(p->o, r->detail);
    }
    put(p->o, "\n");
  }
}

static void graph_rest(printer *p, const char *last) {
  const tn_graph *g = p->g;
  for (uint32_t i = 1; i < g->n_nodes; i++)
    if (!g->node[i].dead && g->node[i].op != TN_OP_INPUT) node(p, i);
  for (uint32_t i = 0; i < g->n_mutations; i++) {
    indent(p);
    put(p->o, "mutate ");
    const tn_mutation *m = &g->mutation[i];
    if (m->input < g->n_inputs)
      label(p, g->input[m->input]);
    else
      tn_str_add(p->o, "%%?%u", m->input);
    put(p->o, " = ");
    ref(p, m->value);
    put(p->o, "\n");
  }
  indent(p);
  put(p->o, last);
  for (uint32_t i = 0; i < g->n_outputs; i++) {
    put(p->o, i ? ", " : " ");
    if (g->output[i].is_none) {
      put(p->o, "none");
    } else if (g->output[i].is_dim) {
      put(p->o, "dim ");
      dim(p, g->output[i].dim);
    } else {
      ref(p, g->output[i].ref);
    }
  }
  put(p->o, "\n");
}

void tn_graph_print(const tn_graph *g, unsigned flags, tn_str *out) {
  printer p = {g, out, NULL, flags, 1, 0};
  if (!label_all(&p)) {
    tn_free(p.label);
    out->oom = true;
    return;
  }
  put(out, "graph @");
  name(out, g->name && *g->name ? g->name : "", TN_IR_NAME_MORE);
  graph_inputs(&p);
  put(out, " -> (");
  for (uint32_t i = 0; i < g->n_outputs; i++) {
    if (i) put(out, ", ");
    tn_ref r = tn_graph_resolve(g, g->output[i].ref);
    if (g->output[i].is_none)
      put(out, "none");
    else if (g->output[i].is_dim)
      put(out, "dim");
    else if (r.id == 0 || r.id >= g->n_values)
      put(out, "?");
    else
      tn_type_print(g->dims, &g->value[r.id].type, out);
  }
  put(out, ") {\n");
  syms(&p);
  if (flags & TN_PRINT_PROV && !g->outer) sources(&p);
  graph_rest(&p, "return");
  put(out, "}\n");
  tn_free(p.label);
}

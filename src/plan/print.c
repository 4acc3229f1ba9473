/* Plan to text, one line per thing, in the order parse.c reads it. Clauses are split by commas, so a size expression
 * needs no quotes. Left out: offsets of 0, empty lists, missing names. Objects and big constants appear as size and hash. */
#include <inttypes.h>
#include "plan/plan.h"

static void quoted(tn_str *o, const char *s) {
  tn_str_put(o, "\"", 1);
  for (; *s; s++) {
    unsigned char c = (unsigned char)*s;
    if (c == '"' || c == '\\') tn_str_add(o, "\\%c", c);
    else if (c < 32 || c == 127) tn_str_add(o, "\\x%02x", c);
    else tn_str_put(o, s, 1);
  }
  tn_str_put(o, "\"", 1);
}

static void note(tn_str *o, uint32_t prov, const char *text) {
  if (prov) tn_str_add(o, ", prov %u", prov);
  if (text) {
    tn_str_add(o, ", ");
    quoted(o, text);
  }
}

static void dim(tn_str *o, const tn_plan *p, tn_pdim d) {
  char b[24];
  tn_str_add(o, "%s", tn_plan_dim_text(p, d, b));
}

static void dims(tn_str *o, const tn_plan *p, const tn_pdim *d, uint32_t n) {
  tn_str_add(o, "[");
  for (uint32_t i = 0; i < n; i++) {
    if (i) tn_str_add(o, ", ");
    dim(o, p, d[i]);
  }
  tn_str_add(o, "]");
}

static void shape(tn_str *o, const tn_plan *p, int dtype, uint32_t rank, const tn_pdim *d, const tn_pdim *stride) {
  tn_str_add(o, "%s", tn_dtype_name((tn_dtype)dtype));
  dims(o, p, d, rank);
  if (stride) {
    tn_str_add(o, ", strides ");
    dims(o, p, stride, rank);
  } else {
    tn_str_add(o, ", strides any");
  }
}

static void buffer(tn_str *o, const tn_plan *p, uint32_t i) {
  const tn_pbuf *b = &p->buf[i];
  tn_str_add(o, "  buf %u ", i);
  switch (b->kind) {
  case TN_PB_INPUT: tn_str_add(o, "input %u", b->index); break;
  case TN_PB_OUTPUT: tn_str_add(o, "output %u", b->index); break;
  case TN_PB_ARENA:
    tn_str_add(o, "arena, bytes ");
    dim(o, p, b->bytes);
    tn_str_add(o, ", steps %u..%u", b->first, b->last);
    break;
  case TN_PB_CONST:
    tn_str_add(o, "const, bytes ");
    dim(o, p, b->bytes);
    if (b->data && b->bytes >= 0 && b->bytes <= 64) {
      tn_str_add(o, ", data x");
      for (int64_t k = 0; k < b->bytes; k++) tn_str_add(o, "%02x", ((const unsigned char *)b->data)[k]);
    } else {
      tn_str_add(o, ", hash %016" PRIx64, b->data && b->bytes >= 0 ? tn_hash(b->data, (size_t)b->bytes, 0) : b->hash);
    }
    break;
  case TN_PB_PACKED:
    tn_str_add(o, "packed, bytes ");
    dim(o, p, b->bytes);
    tn_str_add(o, ", from");
    for (uint32_t k = 0; k < b->n_source; k++) tn_str_add(o, " %u", b->source[k]);
    if (!b->n_source) tn_str_add(o, " constants");
    break;
  }
  tn_str_add(o, "\n");
}

static void args(tn_str *o, const uint32_t *a, uint32_t n) {
  tn_str_add(o, "(");
  for (uint32_t i = 0; i < n; i++) tn_str_add(o, i ? ", %u" : "%u", a[i]);
  tn_str_add(o, ")");
}

static void step(tn_str *o, const tn_plan *p, uint32_t i) {
  const tn_pstep *s = &p->step[i];
  uint32_t n_in = s->n_in <= s->n_arg ? s->n_in : s->n_arg;
  tn_str_add(o, "  step %u ", i);
  switch (s->kind) {
  case TN_PS_LAUNCH:
    tn_str_add(o, "launch %u ", s->kernel);
    args(o, s->arg, s->n_arg);
    if (s->n_size) {
      tn_str_add(o, ", sizes ");
      dims(o, p, s->size, s->n_size);
    }
    tn_str_add(o, ", blocks ");
    dim(o, p, s->blocks);
    tn_str_add(o, ", grain ");
    dim(o, p, s->grain);
    if (s->scratch) {
      tn_str_add(o, ", scratch ");
      dim(o, p, s->scratch);
    }
    if (s->work) {
      tn_str_add(o, ", work ");
      dim(o, p, s->work);
    }
    break;
  case TN_PS_LIB:
  case TN_PS_HOST:
    if (s->kind == TN_PS_LIB) tn_str_add(o, "lib %s ", tn_plib_get(s->kernel) ? tn_plib_get(s->kernel)->text : "?");
    else tn_str_add(o, "host %u ", s->kernel);
    args(o, s->arg, n_in);
    tn_str_add(o, " -> ");
    args(o, s->arg + n_in, s->n_arg - n_in);
    if (s->n_param) {
      tn_str_add(o, ", params ");
      dims(o, p, s->param, s->n_param);
    }
    break;
  case TN_PS_VIEW:
    tn_str_add(o, "view ");
    args(o, s->arg, s->n_arg);
    break;
  }
  if (s->pack) tn_str_add(o, ", pack");
  note(o, s->prov, s->text);
  tn_str_add(o, "\n");
}

static void bound(tn_str *o, int64_t v) {
  if (v == INT64_MAX) tn_str_add(o, "max");
  else tn_str_add(o, "%" PRId64, v);
}

void tn_plan_print(const tn_plan *p, tn_str *o) {
  tn_str_add(o, "plan ");
  quoted(o, p->name);
  tn_str_add(o, " {\n");
  for (uint32_t i = 0; i < p->n_sym; i++) {
    const tn_psym *s = &p->sym[i];
    tn_str_add(o, "  sym %s, range ", s->name);
    bound(o, s->lo);
    tn_str_add(o, "..");
    bound(o, s->hi);
    if (s->dim >= 0) tn_str_add(o, ", input %d dim %d\n", s->input, s->dim);
    else tn_str_add(o, ", input %d value\n", s->input);
  }
  for (uint32_t i = 0; i < p->n_assume; i++) {
    tn_str_add(o, "  assume ");
    dim(o, p, p->assume[i].a);
    tn_str_add(o, ", equals ");
    dim(o, p, p->assume[i].b);
    note(o, 0, p->assume[i].where);
    tn_str_add(o, "\n");
  }
  for (uint32_t i = 0; i < p->n_in; i++) {
    tn_str_add(o, "  in %u ", i);
    shape(o, p, p->in[i].dtype, p->in[i].rank, p->in[i].dim, p->in[i].stride);
    note(o, 0, p->in[i].name);
    tn_str_add(o, "\n");
  }
  for (uint32_t i = 0; i < p->n_buf; i++) buffer(o, p, i);
  for (uint32_t i = 0; i < p->n_view; i++) {
    const tn_pview *v = &p->view[i];
    tn_str_add(o, "  view %u buf %u, ", i, v->buf);
    shape(o, p, v->dtype, v->rank, v->dim, v->stride);
    if (v->offset) {
      tn_str_add(o, ", offset ");
      dim(o, p, v->offset);
    }
    note(o, 0, v->name);
    tn_str_add(o, "\n");
  }
  for (uint32_t i = 0; i < p->n_kernel; i++) {
    const tn_pkernel *k = &p->kernel[i];
    tn_str_add(o, "  kernel %u ", i);
    quoted(o, k->name);
    tn_str_add(o, ", params %u, sizes %u, object %zu, hash %016" PRIx64 "\n", k->n_param, k->n_size, k->object_bytes,
               k->object ? tn_hash(k->object, k->object_bytes, 0) : k->hash);
  }
  if (p->n_host) tn_str_add(o, "  hosts %u\n", p->n_host);
  for (uint32_t i = 0; i < p->n_step; i++) step(o, p, i);
  for (uint32_t i = 0; i < p->n_out; i++) {
    const tn_pout *u = &p->out[i];
    tn_str_add(o, "  out %u ", i);
    if (u->is_none) tn_str_add(o, "none");
    else if (u->is_dim) tn_str_add(o, "dim "), dim(o, p, u->dim);
    else tn_str_add(o, "view %u", u->view);
    if (u->alias_input >= 0 && !u->is_none && !u->is_dim) tn_str_add(o, ", alias %d", u->alias_input);
    tn_str_add(o, "\n");
  }
  tn_str_add(o, "}\n");
}

/* attr: attributes of a node, each of the one kind that it says it is; references to attributes of the enclosing function are replaced by their values. */
#include "import.h"

/* Files older than IR version 3 do not say the kind: the one field that is there tells. */
static int kind_of(const pb_attr *a) {
  if (a->has_type && a->type) return a->type;
  if (a->has_f) return 1;
  if (a->has_i) return 2;
  if (a->has_s) return 3;
  if (a->t) return 4;
  if (a->g) return 5;
  if (a->n_floats) return 6;
  if (a->n_ints) return 7;
  if (a->n_strings) return 8;
  if (a->n_tensors) return 9;
  if (a->n_graphs) return 10;
  return 0;
}
static tn_status strings(importer *im, const ProtobufCBinaryData *s, size_t n, tn_ox_attr *out) {
  tn_ox_str *v = TN_NEW(im->a, tn_ox_str, n + 1);
  if (!v) return tn_fail(im->d, TN_E_NOMEM, "attribute %.60s", out->name);
  for (size_t i = 0; i < n; i++) {
    char *c = tn_arena_strndup(im->a, s[i].len ? (const char *)s[i].data : "", s[i].len);
    if (!c) return tn_fail(im->d, TN_E_NOMEM, "attribute %.60s", out->name);
    v[i] = (tn_ox_str){c, s[i].len};
  }
  out->n = (uint32_t)n;
  out->u.s = v;
  return TN_OK;
}
static tn_status tensors(importer *im, pb_tensor *const *t, size_t n, tn_ox_attr *out) {
  tn_ox_const *v = TN_NEW(im->a, tn_ox_const, n + 1);
  if (!v) return tn_fail(im->d, TN_E_NOMEM, "attribute %.60s", out->name);
  for (size_t i = 0; i < n; i++) TN_TRY_WHILE(im->d, tn_onnx_tensor(im, t[i], &v[i]), "reading attribute %.60s", out->name);
  out->n = (uint32_t)n;
  out->u.t = v;
  return TN_OK;
}
static tn_status convert(importer *im, const pb_attr *a, tn_ox_attr *out) {
  tn_ox_const *sparse;
  size_t n = 1;
  out->n = 1;
  switch (kind_of(a)) {
  case 1: out->kind = TN_OX_FLOAT; out->u.f = &a->f; return TN_OK;
  case 2: out->kind = TN_OX_INT; out->u.i = &a->i; return TN_OK;
  case 3: out->kind = TN_OX_STR; return strings(im, &a->s, 1, out);
  case 4:
    out->kind = TN_OX_TENSOR;
    if (!a->t) break;
    return tensors(im, (pb_tensor *const *)&a->t, 1, out);
  case 5:
    out->kind = TN_OX_GRAPH;
    if (!a->g) break;
    out->u.graph = a->g;
    return TN_OK;
  case 6: out->kind = TN_OX_FLOATS; n = a->n_floats; out->u.f = a->floats; break;
  case 7: out->kind = TN_OX_INTS; n = a->n_ints; out->u.i = a->ints; break;
  case 8: out->kind = TN_OX_STRS; return strings(im, a->strings, a->n_strings, out);
  case 9: out->kind = TN_OX_TENSORS; return tensors(im, a->tensors, a->n_tensors, out);
  case 11:
    out->kind = TN_OX_TENSOR;
    if (!a->sparse_tensor) break;
    if (!(sparse = TN_NEW(im->a, tn_ox_const, 1))) return tn_fail(im->d, TN_E_NOMEM, "attribute %.60s", out->name);
    out->u.t = sparse;
    return tn_onnx_sparse(im, a->sparse_tensor, sparse);
  case 13: out->kind = TN_OX_TYPE; out->u.graph = a->tp; return TN_OK;
  default: return tn_fail(im->d, TN_E_UNSUPPORTED, "attribute %.60s has kind %d", out->name, kind_of(a));
  }
  if (out->kind == TN_OX_TENSOR || out->kind == TN_OX_GRAPH) return tn_fail(im->d, TN_E_ARG, "attribute %.60s has no value", out->name);
  if (n > UINT32_MAX) return tn_fail(im->d, TN_E_ARG, "attribute %.60s has %zu items", out->name, n);
  out->n = (uint32_t)n;
  return TN_OK;
}
/* The value of the function's attribute `name`: what the call gave, else its default. False: neither. */
static tn_status referred(importer *im, const scope *s, const char *name, tn_ox_attr *out, bool *out_found) {
  *out_found = true;
  for (uint32_t i = 0; i < s->n_call_attr; i++)
    if (!strcmp(s->call_attr[i].name, name)) {
      const char *own = out->name;
      *out = s->call_attr[i];
      out->name = own;
      return TN_OK;
    }
  for (size_t i = 0; s->function && i < s->function->n_attribute_proto; i++)
    if (s->function->attribute_proto[i]->name && !strcmp(s->function->attribute_proto[i]->name, name)) return convert(im, s->function->attribute_proto[i], out);
  *out_found = false;
  return TN_OK;
}

tn_status tn_onnx_attrs(importer *im, const scope *s, const pb_node *n, tn_ox_attr **out, uint32_t *out_n) {
  tn_ox_attr *v = TN_NEW(im->a, tn_ox_attr, n->n_attribute + 1);
  if (!v || n->n_attribute > 10000) return tn_fail(im->d, TN_E_NOMEM, "%zu attributes", n->n_attribute);
  *out = v;
  *out_n = 0;
  for (size_t i = 0; i < n->n_attribute; i++) {
    const pb_attr *a = n->attribute[i];
    tn_ox_attr *o = &v[*out_n];
    bool found = true;
    if (!a->name || !*a->name) return tn_fail(im->d, TN_E_ARG, "attribute %zu has no name", i);
    for (uint32_t k = 0; k < *out_n; k++)
      if (!strcmp(v[k].name, a->name)) return tn_fail(im->d, TN_E_ARG, "attribute %.60s is given twice", a->name);
    *o = (tn_ox_attr){.name = a->name};
    if (a->ref_attr_name && *a->ref_attr_name) TN_TRY(referred(im, s, a->ref_attr_name, o, &found));
    else TN_TRY(convert(im, a, o));
    *out_n += found;
  }
  return TN_OK;
}

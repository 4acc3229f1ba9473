/* function: functions that a model brings along are inlined at each call, in a namespace of their own, with the opsets they name.
 * Their attributes are looked up by attr.c when a node of the body refers to them. A function that calls itself is found by the depth of calls. */
#include "import.h"

static bool same(const char *a, const char *b) {
  a = a && strcmp(a, "ai.onnx") ? a : "";
  b = b && strcmp(b, "ai.onnx") ? b : "";
  return !strcmp(a, b);
}
const pb_function *tn_onnx_function(const importer *im, const pb_node *n) {
  uint32_t first;
  if (!tn_map_get_str(&im->functions, n->op_type, &first)) return NULL;
  for (size_t i = first; i < im->model->n_functions; i++) {
    const pb_function *f = im->model->functions[i];
    if (f->name && !strcmp(f->name, n->op_type) && same(f->domain, n->domain) && same(f->overload, n->overload)) return f;
  }
  return NULL;
}

static tn_status body(scope *s, const pb_function *f, const pb_node *n, const tn_ref *in, tn_ref *out) {
  importer *im = s->fn->im;
  for (size_t i = 0; i < f->n_input; i++) TN_TRY(tn_onnx_bind(s, f->input[i], i < n->n_input ? in[i] : (tn_ref){0}));
  s->info = f->value_info;
  s->n_info = f->n_value_info;
  s->out_name = f->output;
  s->n_out = f->n_output;
  for (size_t i = 0; i < f->n_value_info; i++)
    if (f->value_info[i]->name && !tn_map_put_str(&s->types, f->value_info[i]->name, (uint32_t)i)) return tn_fail(im->d, TN_E_NOMEM, "value_info");
  TN_TRY(tn_onnx_nodes(s, f->node, f->n_node));
  for (size_t k = 0; k < n->n_output; k++) {
    bool found = false;
    if (!*n->output[k]) continue;
    TN_TRY(tn_onnx_lookup(s, f->output[k], &out[k], &found));
    if (!found || !out[k].id) return tn_fail(im->d, TN_E_VERIFY, "output '%.80s' of function '%.80s' is made by nothing", f->output[k], f->name);
  }
  return TN_OK;
}
tn_status tn_onnx_call(scope *s, const pb_function *f, const pb_node *n, const tn_ref *in, const tn_ox_attr *attr, uint32_t n_attr, tn_ref *out) {
  importer *im = s->fn->im;
  scope own;
  if (n->n_input > f->n_input || n->n_output > f->n_output)
    return tn_fail(im->d, TN_E_ARG, "function '%.80s' takes %zu values and gives %zu, the node has %zu and %zu", f->name, f->n_input, f->n_output, n->n_input, n->n_output);
  if (im->depth >= ONNX_MAX_DEPTH) return tn_fail(im->d, TN_E_UNSUPPORTED, "function '%.80s': calls are nested deeper than %d; does it call itself?", f->name, ONNX_MAX_DEPTH);
  TN_TRY(tn_onnx_scope_init(&own, NULL, s->fn, f->name));
  own.opset = f->opset_import;
  own.n_opset = f->n_opset_import;
  own.function = f;
  own.call_attr = attr;
  own.n_call_attr = n_attr;
  im->depth++;
  tn_status st = body(&own, f, n, in, out);
  im->depth--;
  tn_onnx_scope_deinit(&own);
  return st;
}

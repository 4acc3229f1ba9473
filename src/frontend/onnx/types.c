/* types: declared types of values -> ours, declared against inferred, and the model's ports.
 *
 * A named dim becomes a symbol of that name (letters, digits and '_'; other names get a spelling of their own), an unnamed one a fresh symbol. Values
 * that are no ranked tensors (lists, optionals, maps, strings, tensors of unknown rank) have dtype OBJ; what is known of them goes into a tn_ox_obj. */
#include "import.h"

/* ---- dims ---- */
static bool plain(const char *s) {
  static const char *const taken[] = {"none", "true", "false", "inf", "nan", "None", "True", "False", "floordiv", "mod", "min", "max", "FloorDiv", "Mod", "PythonMod", "CleanDiv", "Max", "Min", "sym", "dim"};
  tn_dtype t;
  size_t n = strlen(s);
  if (n == 0 || n > 60 || !(*s == '_' || (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z'))) return false;
  for (const char *p = s; *p; p++)
    if (!(*p == '_' || (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9'))) return false;
  for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
    if (!strcmp(s, taken[i])) return false;
  return !tn_dtype_parse(s, n, &t);
}
static tn_dim named(importer *im, const char *name) {
  char own[64];
  if (!plain(name)) {
    char text[25];
    size_t n = 0;
    for (; name[n] && n < sizeof text - 1; n++) {
      char c = name[n];
      text[n] = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ? c : '_';
    }
    text[n] = 0;
    snprintf(own, sizeof own, "d_%s_%08x", text, (unsigned)tn_hash(name, strlen(name), 7));
    name = own;
  }
  return tn_dim_sym(im->dims, name);
}
static tn_dim fresh(importer *im) {
  char name[24];
  uint32_t before = tn_dims_n_syms(im->dims);
  tn_dim d;
  do {
    snprintf(name, sizeof name, "u%u", im->n_fresh++);
    d = tn_dim_sym(im->dims, name);
  } while (d != TN_DIM_BAD && tn_dims_n_syms(im->dims) == before);
  return d;
}
/* "?" and the like stand for sizes that have nothing to do with each other. */
static bool is_name(const char *s) {
  for (; s && *s; s++)
    if ((*s >= '0' && *s <= '9') || (*s >= 'A' && *s <= 'Z') || (*s >= 'a' && *s <= 'z') || (*s & 0x80)) return true;
  return false;
}
/* Dims of a declared shape; make: symbols for what is not constant, else TN_DIM_BAD. */
static tn_status dims_of(importer *im, const char *what, const TnOnnx__Shape *s, const tn_onnx_shape *over, bool make, tn_dim *out) {
  if (s->n_dim > TN_MAX_RANK) return tn_fail(im->d, TN_E_UNSUPPORTED, "'%.80s' has rank %zu, at most %d", what, s->n_dim, TN_MAX_RANK);
  if (over && over->rank != (int)s->n_dim) return tn_fail(im->d, TN_E_ARG, "'%.80s' has rank %zu, the shape given has %d", what, s->n_dim, over->rank);
  for (size_t i = 0; i < s->n_dim; i++) {
    const TnOnnx__Dim *m = s->dim[i];
    bool fixed = m->has_dim_value && m->dim_value >= 0;
    if (over && over->dim[i] >= 0) {
      if (fixed && m->dim_value != over->dim[i])
        return tn_fail(im->d, TN_E_ARG, "dim %zu of '%.80s' is %lld, the shape given says %lld", i, what, (long long)m->dim_value, (long long)over->dim[i]);
      out[i] = over->dim[i];
    } else if (fixed) out[i] = m->dim_value;
    else if (!make) out[i] = TN_DIM_BAD;
    else out[i] = is_name(m->dim_param) ? named(im, m->dim_param) : fresh(im);
    if (make && out[i] == TN_DIM_BAD) return tn_fail(im->d, TN_E_NOMEM, "dim %zu of '%.80s'", i, what);
    if (out[i] > INT32_MAX * (int64_t)64) return tn_fail(im->d, TN_E_ARG, "dim %zu of '%.80s' is %lld", i, what, (long long)out[i]);
  }
  return TN_OK;
}

/* ---- types ---- */
static tn_status item_type(importer *im, const char *what, const TnOnnx__TensorType *t, tn_ox_obj *o) {
  tn_dim *dim = NULL;
  o->elem = tn_ox_dtype_of(t->elem_type) < 0 ? 0 : (uint8_t)t->elem_type;
  o->rank = -1;
  if (!t->shape) return TN_OK;
  if (!(dim = TN_NEW(im->a, tn_dim, TN_MAX_RANK))) return tn_fail(im->d, TN_E_NOMEM, "type of '%.80s'", what);
  TN_TRY(dims_of(im, what, t->shape, NULL, false, dim));
  o->rank = (int8_t)t->shape->n_dim;
  o->dim = dim;
  return TN_OK;
}
static tn_status other_type(importer *im, const char *what, const pb_type *t, tn_ox_obj *o) {
  *o = (tn_ox_obj){.kind = TN_OX_K_ANY, .rank = -1};
  if (!t) return TN_OK;
  const pb_type *in = t->sequence_type ? t->sequence_type->elem_type : t->optional_type ? t->optional_type->elem_type : NULL;
  bool sequence = t->sequence_type != NULL;
  if (t->map_type) {
    *o = (tn_ox_obj){.kind = TN_OX_K_MAP, .key_elem = (uint8_t)t->map_type->key_type, .rank = -1};
    if (t->map_type->value_type && t->map_type->value_type->tensor_type) o->elem = (uint8_t)t->map_type->value_type->tensor_type->elem_type;
    return TN_OK;
  }
  if (!in) return TN_OK;
  if (in->tensor_type) {
    o->kind = sequence ? TN_OX_K_SEQUENCE : TN_OX_K_OPTIONAL;
    return item_type(im, what, in->tensor_type, o);
  }
  if (sequence && in->map_type) {
    TN_TRY(other_type(im, what, in, o));
    o->kind = TN_OX_K_SEQUENCE_MAP;
  } else if (!sequence && in->sequence_type && in->sequence_type->elem_type && in->sequence_type->elem_type->tensor_type) {
    o->kind = TN_OX_K_OPTIONAL_SEQUENCE;
    return item_type(im, what, in->sequence_type->elem_type->tensor_type, o);
  }
  return TN_OK;
}
tn_status tn_onnx_value_type(importer *im, const char *what, const pb_type *t, const tn_onnx_shape *over, bool make, tn_type *out, tn_ox_obj *out_obj) {
  *out = (tn_type){TN_OBJ, 0, NULL};
  if (t && t->sparse_tensor_type) return tn_fail(im->d, TN_E_UNSUPPORTED, "'%.80s' is a sparse tensor", what);
  if (!t || !t->tensor_type) return other_type(im, what, t, out_obj);
  const TnOnnx__TensorType *tt = t->tensor_type;
  int dtype = tn_ox_dtype_of(tt->elem_type);
  if (dtype < 0) return tn_fail(im->d, TN_E_UNSUPPORTED, "'%.80s' has element type %d", what, tt->elem_type);
  *out_obj = (tn_ox_obj){.kind = TN_OX_K_TENSOR, .rank = -1};
  TN_TRY(item_type(im, what, tt, out_obj));
  if (dtype == TN_OBJ) return TN_OK;
  tn_dim dim[TN_MAX_RANK];
  if (!tt->shape && !over) return TN_OK;
  if (tt->shape) TN_TRY(dims_of(im, what, tt->shape, over, make, dim));
  else {
    if (over->rank > TN_MAX_RANK) return tn_fail(im->d, TN_E_ARG, "the shape given for '%.80s' has rank %d", what, over->rank);
    for (int i = 0; i < over->rank; i++)
      if ((dim[i] = over->dim[i] >= 0 ? over->dim[i] : fresh(im)) == TN_DIM_BAD) return tn_fail(im->d, TN_E_NOMEM, "type of '%.80s'", what);
  }
  uint32_t rank = tt->shape ? (uint32_t)tt->shape->n_dim : (uint32_t)over->rank;
  tn_dim *keep = TN_NEW(im->a, tn_dim, rank + 1);
  if (!keep) return tn_fail(im->d, TN_E_NOMEM, "type of '%.80s'", what);
  memcpy(keep, dim, rank * sizeof *dim);
  *out = (tn_type){(uint8_t)dtype, (uint8_t)rank, keep};
  return TN_OK;
}

/* ---- declared against inferred ---- */
static tn_status differs(scope *s, bool strict, const char *name, const char *what, long long declared, long long found) {
  importer *im = s->fn->im;
  if (strict) return tn_fail(im->d, TN_E_VERIFY, "'%.80s' is declared with %s %lld, its nodes give %lld", name, what, declared, found);
  tn_log("stages", "onnx: '%.80s' is declared with %s %lld, its nodes give %lld", name, what, declared, found);
  return TN_OK;
}
/* A tensor of unknown rank whose rank the model states: made a ranked one, checked when it runs. */
static tn_status ranked(scope *s, const char *name, const tn_ox_obj *want, tn_ref *r) {
  func *f = s->fn;
  tn_dim dim[TN_MAX_RANK];
  uint32_t node;
  for (int i = 0; i < want->rank; i++)
    if ((dim[i] = fresh(f->im)) == TN_DIM_BAD) return tn_fail(f->im->d, TN_E_NOMEM, "dims of '%.80s'", name);
  tn_type t = tn_type_make(f->env.g, (tn_dtype)tn_ox_dtype_of(want->elem), (uint32_t)want->rank, dim);
  tn_attr at[3] = {tn_mk_int("rank", want->rank), tn_mk_int("elem", want->elem), tn_mk_bool("effect", true)};
  tn_status st = tn_graph_add(f->env.g, TN_OP_DYN, r, 1, at, 3, &t, 1, f->prov, &node);
  if (st == TN_OK) st = tn_node_set_target(f->env.g, node, "to_tensor");
  if (st != TN_OK) return tn_fail(f->im->d, st, "making '%.80s' a tensor", name);
  *r = tn_out(&f->env.g->node[node], 0);
  return tn_ox_elem_set(&f->env, *r, want->elem) == TN_OK ? TN_OK : tn_fail(f->im->d, TN_E_NOMEM, "type of '%.80s'", name);
}
tn_status tn_onnx_declared(scope *s, const char *name, const pb_type *type, tn_ref *r, bool output) {
  func *f = s->fn;
  importer *im = f->im;
  bool strict = output || (im->o && im->o->strict);
  tn_ox_obj want = {0};
  tn_type t;
  if (!type || !type->tensor_type || tn_ox_dtype_of(type->tensor_type->elem_type) < 0) return TN_OK;
  TN_TRY(item_type(im, name, type->tensor_type, &want));
  t = *tn_typeof(f->env.g, *r);
  int elem = tn_ox_elem_get(&f->env, *r);
  if (elem && elem != want.elem) {
    if (strict) return tn_fail(im->d, TN_E_VERIFY, "'%.80s' is declared as %s, its nodes give %s", name, tn_ox_elem_name(want.elem), tn_ox_elem_name(elem));
    tn_log("stages", "onnx: '%.80s' is declared as %s, its nodes give %s", name, tn_ox_elem_name(want.elem), tn_ox_elem_name(elem));
    return TN_OK;
  }
  if (t.dtype == TN_OBJ) {
    tn_ox_obj o = tn_ox_obj_of(&f->env, *r);
    if (want.rank < 0 || want.elem == 8 || (o.kind != TN_OX_K_TENSOR && o.kind != TN_OX_K_ANY)) return TN_OK;
    return output ? TN_OK : ranked(s, name, &want, r);
  }
  if (want.rank < 0) return TN_OK;
  strict = im->o && im->o->strict;                     /* exporters state wrong shapes even for results: what the nodes give stands */
  if (want.rank != t.rank) return differs(s, strict, name, "rank", want.rank, t.rank);
  for (int i = 0; i < t.rank; i++) {
    int64_t lo, hi;
    if (want.dim[i] == TN_DIM_BAD) continue;
    tn_dim_bounds(im->dims, t.dim[i], &lo, &hi);
    if (want.dim[i] < lo || want.dim[i] > hi) {
      char what[32];
      snprintf(what, sizeof what, "dim %d as", i);
      TN_TRY(differs(s, strict, name, what, want.dim[i], lo));
    }
  }
  return TN_OK;
}

/* ---- ports ---- */
static void port(tn_uport *p, const char *name, const tn_type *t, const tn_ox_obj *o) {
  *p = (tn_uport){.name = name, .kind = o->kind, .elem = o->elem, .key_elem = o->key_elem};
  if (t->dtype != TN_OBJ) {
    p->ranked = true;
    p->rank = t->rank;
    p->dim = t->dim;
  }
}
/* Ports of function 0, whose graph has its inputs and outputs; inputs that are constants are none. */
tn_status tn_onnx_ports(importer *im, func *f, const pb_graph *g) {
  tn_unit *u = im->unit;
  const tn_graph *gr = f->env.g;
  u->out = TN_NEW(im->a, tn_uport, g->n_output + 1);
  if (!u->out) return tn_fail(im->d, TN_E_NOMEM, "ports");
  u->n_out = (uint32_t)g->n_output;
  for (uint32_t i = 0; i < u->n_out; i++) {
    tn_ref r = gr->output[i].ref;
    tn_ox_obj o = tn_ox_obj_of(&f->env, r), declared;
    tn_type t = *tn_typeof(gr, r), ignored;
    TN_TRY(tn_onnx_value_type(im, g->output[i]->name, g->output[i]->type, NULL, false, &ignored, &declared));
    if (g->output[i]->type && t.dtype == TN_OBJ && declared.kind != TN_OX_K_ANY) o = declared;
    port(&u->out[i], g->output[i]->name, &t, &o);
  }
  u->in = TN_NEW(im->a, tn_uport, gr->n_inputs + 1u);
  if (!u->in) return tn_fail(im->d, TN_E_NOMEM, "ports");
  u->n_in = 0;
  for (size_t i = 0; i < g->n_input && u->n_in < gr->n_inputs; i++) {
    uint32_t id;
    const char *name = g->input[i]->name ? g->input[i]->name : "";
    if (!tn_map_get_str(&f->cur->names, name, &id) || id != gr->input[u->n_in].id) continue;
    tn_ox_obj o = tn_ox_obj_of(&f->env, gr->input[u->n_in]);
    port(&u->in[u->n_in], name, tn_typeof(gr, gr->input[u->n_in]), &o);
    u->n_in++;
  }
  return TN_OK;
}

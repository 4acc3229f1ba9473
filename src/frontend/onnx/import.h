/* import: what the files of the ONNX importer share. */
#ifndef TN_ONNX_IMPORT_H
#define TN_ONNX_IMPORT_H
#include "onnx.h"
#include "onnx.pb-c.h"
#include <stdio.h>
#include <string.h>

typedef TnOnnx__Model pb_model;
typedef TnOnnx__Graph pb_graph;
typedef TnOnnx__Node pb_node;
typedef TnOnnx__Attribute pb_attr;
typedef TnOnnx__Tensor pb_tensor;
typedef TnOnnx__SparseTensor pb_sparse;
typedef TnOnnx__ValueInfo pb_value;
typedef TnOnnx__Type pb_type;
typedef TnOnnx__Function pb_function;
typedef TnOnnx__OperatorSetId pb_opset;

/* Longest chain of graphs in attributes and of function calls. */
enum { ONNX_MAX_DEPTH = 24, ONNX_MAX_NESTING = 64 };

/* One model being imported. */
typedef struct importer {
  tn_diag *d;
  tn_arena *a;
  tn_dims *dims;
  tn_onnx_options *o;
  const pb_model *model;
  tn_unit *unit;
  uint32_t n_fresh;
  bool rank_missing;
  int depth, forks;
  uint32_t owner;                      /* function of the node being imported */
  const char *where;                   /* the node being imported, for sizes assumed equal; NULL = none */
  tn_map functions;                    /* name -> the first of that name */
  uint64_t nodes;                      /* imported so far: functions and bodies can multiply them */
} importer;

/* A graph of the unit that is being filled. outer: the function whose values it may capture. */
typedef struct func {
  tn_ox_env env;                       /* first: env.user == this */
  importer *im;
  struct func *outer;
  struct captures *cap;                /* of the node that this graph belongs to; NULL at top */
  uint32_t n_cap;                      /* captures that are inputs here so far, in order */
  tn_ref *cap_in; uint32_t cap_cap_in; /* [n_cap] the inputs */
  tn_map copied;                       /* constants of `outer` that were copied: its value id -> ours */
  struct scope *cur;                   /* being imported */
  uint32_t prov;
} func;
/* Values of `owner` that the graphs of one node read. */
typedef struct captures { func *owner; tn_ref *r; uint32_t n, cap; } captures;
/* Names. up: where to look next; NULL for a model-local function. */
typedef struct scope {
  struct scope *up;
  func *fn;
  const char *where;                   /* graph or function name, for provenance */
  tn_map names;                        /* name -> value id in fn's graph */
  tn_map types;                        /* name -> index of value_info */
  tn_map late;                         /* outputs that a fork made (fork.c): they hide those of `names` */
  pb_value *const *info; size_t n_info;
  char **out_name; size_t n_out;       /* what the graph is imported for */
  pb_opset *const *opset; size_t n_opset;
  const pb_function *function;         /* its attributes: ref_attr_name */
  const tn_ox_attr *call_attr; uint32_t n_call_attr;
  pb_node *const *node; size_t n_node; /* for messages about values that are made later, and forks */
  uint32_t *n_pairs;                   /* [n_node] sizes assumed equal when the node was done */
} scope;

tn_status tn_onnx_parse(tn_diag *d, tn_arena *a, const void *bytes, size_t n, const ProtobufCMessageDescriptor *want, void **out);

/* tensor.c */
tn_status tn_onnx_tensor(importer *im, const pb_tensor *t, tn_ox_const *out);
tn_status tn_onnx_sparse(importer *im, const pb_sparse *t, tn_ox_const *out);
tn_status tn_onnx_external(importer *im, const pb_tensor *t, size_t bytes, const void **out, size_t *out_n); /* external.c */

/* attr.c: attributes of a node; references to the function's are resolved */
tn_status tn_onnx_attrs(importer *im, const scope *s, const pb_node *n, tn_ox_attr **out, uint32_t *out_n);

/* graph.c */
tn_status tn_onnx_scope_init(scope *s, scope *up, func *fn, const char *where);
void tn_onnx_scope_deinit(scope *s);
int tn_onnx_opset(const scope *s, const char *domain);
tn_status tn_onnx_bind(scope *s, const char *name, tn_ref r);
tn_status tn_onnx_nodes(scope *s, pb_node *const *node, size_t n);
tn_status tn_onnx_graph_body(scope *s, const pb_graph *g);               /* initializers (bound already at top), then nodes; the formal inputs are bound */
tn_status tn_onnx_lookup(scope *s, const char *name, tn_ref *out, bool *out_found); /* id 0: a function's operand that was left out */
tn_status tn_onnx_outputs(scope *s, const pb_graph *g, tn_ref *out);      /* [n_output] */

/* fork.c: after node `failed` of the scope could not be imported because of `why`; TN_OK: the scope's outputs are there all the same */
tn_status tn_onnx_fork(scope *s, size_t failed, tn_status why);

/* types.c */
tn_status tn_onnx_value_type(importer *im, const char *what, const pb_type *t, const tn_onnx_shape *over, bool fresh, tn_type *out, tn_ox_obj *out_obj);
tn_status tn_onnx_declared(scope *s, const char *name, const pb_type *t, tn_ref *r, bool output);
tn_status tn_onnx_ports(importer *im, func *f, const pb_graph *g);

/* subgraph.c: the environment's callbacks */
tn_status tn_onnx_subgraphs(tn_ox_env *e, tn_diag *d, const tn_ox_attr *const *graph, uint32_t n_graph, const tn_type *in_type, const tn_ox_obj *in_obj, uint32_t n_in,
                            uint32_t *out_func, tn_ox_env **out_env, tn_ref **capture, uint32_t *n_capture);
tn_status tn_onnx_enclose(tn_ox_env *e, tn_diag *d, const char *name, tn_status (*fill)(void *ctx, tn_ox_env *env, const tn_ref *in, uint32_t n_in), void *ctx, const tn_type *in_type,
                          const tn_ox_obj *in_obj, uint32_t n_in, uint32_t *out_func, tn_ox_env **out_env, tn_ref **capture, uint32_t *n_capture);
tn_status tn_onnx_inlined(tn_ox_env *e, tn_diag *d, const tn_ox_attr *graph, const tn_ref *in, uint32_t n_in, tn_ref *out, uint32_t n_out);
void tn_onnx_arity(const tn_ox_attr *graph, uint32_t *n_in, uint32_t *n_out);
tn_status tn_onnx_named(tn_ox_env *e, tn_diag *d, const char *name, tn_ref *out);
tn_status tn_onnx_func_create(importer *im, func *outer, const char *name, func **out);
tn_status tn_onnx_capture(func *f, func *owner, tn_ref r, tn_ref *out);

/* function.c */
const pb_function *tn_onnx_function(const importer *im, const pb_node *n);
tn_status tn_onnx_call(scope *s, const pb_function *f, const pb_node *n, const tn_ref *in, const tn_ox_attr *attr, uint32_t n_attr, tn_ref *out);
#endif

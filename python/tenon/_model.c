/* _model: models and packages for Python, over include/tenon/{model,compile}.h and the buffer protocol alone: no NumPy, no torch. python/tenon/model.py turns
 * arrays into what is said here and back.
 *
 * A value is None; (elem, buffer) for a tensor, where elem is ONNX's number of the element type and types that Python has no format for travel as unsigned
 * integers of their size; (8, shape, [bytes, ...]) for strings; [value, ...] for a list; (-1, keys, values) for a map.
 * Tensors of results are Buffer objects, which keep the value alive. Sessions are taken from a list of idle ones, so a model may be called from several threads;
 * the interpreter lock is released while compiling and running. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <string.h>
#include "tenon/compile.h"
#include "tenon/model.h"

static PyObject *error_type;

/* Raises ModelError(text) with attribute code. */
static PyObject *raise(tn_status s, const char *text) {
  if (s == TN_E_NOMEM) return PyErr_NoMemory();
  PyObject *e = PyObject_CallFunction(error_type, "s", text && *text ? text : tn_status_name(s));
  PyObject *code = PyUnicode_FromString(tn_status_name(s));
  if (e && code && PyObject_SetAttrString(e, "code", code) == 0) PyErr_SetObject(error_type, e);
  Py_XDECREF(code);
  Py_XDECREF(e);
  return NULL;
}

/* ---- Buffer: a tensor of a result ---- */

enum { MAX_RANK = 32 };
typedef struct buffer { PyObject_HEAD tn_value *v; Py_ssize_t shape[MAX_RANK], stride[MAX_RANK]; } buffer;

static const struct { const char *format; Py_ssize_t size; } formats[TN_N_DTYPES] = {
    [TN_F32] = {"f", 4}, [TN_F64] = {"d", 8}, [TN_F16] = {"e", 2}, [TN_BF16] = {"H", 2}, [TN_I64] = {"q", 8}, [TN_I32] = {"i", 4}, [TN_I16] = {"h", 2},
    [TN_I8] = {"b", 1},  [TN_U8] = {"B", 1},  [TN_BOOL] = {"?", 1}, [TN_U16] = {"H", 2}, [TN_U32] = {"I", 4}, [TN_U64] = {"Q", 8}};

static void buffer_dealloc(PyObject *self) {
  tn_value_release(((buffer *)self)->v);
  Py_TYPE(self)->tp_free(self);
}

static int buffer_get(PyObject *self, Py_buffer *view, int flags) {
  buffer *b = (buffer *)self;
  const tn_tensor *t = tn_value_tensor(b->v);
  static char nothing[8];
  Py_ssize_t run = formats[t->dtype].size, all = run;
  for (int i = t->rank; i-- > 0;) {
    b->shape[i] = (Py_ssize_t)t->shape[i];
    b->stride[i] = t->strides ? (Py_ssize_t)t->strides[i] * formats[t->dtype].size : run;
    run *= b->shape[i];
    all *= b->shape[i];
  }
  *view = (Py_buffer){.buf = t->data ? t->data : nothing, .obj = self, .len = all, .itemsize = formats[t->dtype].size, .readonly = 0, .ndim = t->rank,
                      .format = flags & PyBUF_FORMAT ? (char *)(uintptr_t)formats[t->dtype].format : NULL, .shape = b->shape, .strides = b->stride};
  Py_INCREF(self);
  return 0;
}

static PyBufferProcs buffer_procs = {.bf_getbuffer = buffer_get};
static PyTypeObject buffer_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tenon._model.Buffer", .tp_basicsize = sizeof(buffer), .tp_dealloc = buffer_dealloc,
                                   .tp_flags = Py_TPFLAGS_DEFAULT, .tp_as_buffer = &buffer_procs, .tp_doc = "A tensor that a model made."};

/* ---- values from Python ---- */

/* Buffers that values of one call borrow. */
typedef struct views { Py_buffer *at; size_t n, cap; } views;

static void views_release(views *v) {
  for (size_t i = 0; i < v->n; i++) PyBuffer_Release(&v->at[i]);
  PyMem_Free(v->at);
  *v = (views){0};
}

static int dtype_of_elem(long elem) {
  static const signed char of[] = {[1] = TN_F32 + 1, [2] = TN_U8 + 1, [3] = TN_I8 + 1, [4] = TN_U16 + 1, [5] = TN_I16 + 1, [6] = TN_I32 + 1, [7] = TN_I64 + 1, [9] = TN_BOOL + 1,
                                   [10] = TN_F16 + 1, [11] = TN_F64 + 1, [12] = TN_U32 + 1, [13] = TN_U64 + 1, [16] = TN_BF16 + 1, [17] = TN_U8 + 1, [18] = TN_U8 + 1,
                                   [19] = TN_U8 + 1, [20] = TN_U8 + 1, [21] = TN_U8 + 1, [22] = TN_I8 + 1, [23] = TN_U8 + 1, [24] = TN_U8 + 1, [25] = TN_U8 + 1, [26] = TN_I8 + 1, [27] = TN_U8 + 1, [28] = TN_U8 + 1};
  return elem > 0 && elem < (long)sizeof of ? of[elem] - 1 : -1;
}

static tn_value *tensor_from(PyObject *o, long elem, views *v) {
  int dtype = dtype_of_elem(elem);
  if (dtype < 0) {
    PyErr_Format(PyExc_TypeError, "element type %ld is no tensor's", elem);
    return NULL;
  }
  if (v->n == v->cap) {
    size_t cap = v->cap ? 2 * v->cap : 8;
    Py_buffer *at = PyMem_Realloc(v->at, cap * sizeof *at);
    if (!at) return (tn_value *)PyErr_NoMemory();
    v->at = at;
    v->cap = cap;
  }
  Py_buffer *b = &v->at[v->n];
  if (PyObject_GetBuffer(o, b, PyBUF_STRIDES) != 0) return NULL;
  v->n++;
  if (b->itemsize != formats[dtype].size || b->ndim > MAX_RANK) {
    PyErr_Format(PyExc_TypeError, "array of %zd-byte elements and rank %d for element type %ld", b->itemsize, b->ndim, elem);
    return NULL;
  }
  int64_t shape[MAX_RANK], stride[MAX_RANK];
  int odd = (uintptr_t)b->buf % (uintptr_t)b->itemsize != 0;
  for (int i = 0; i < b->ndim; i++) {
    shape[i] = b->shape[i];
    stride[i] = b->strides[i] / b->itemsize;
    odd |= b->strides[i] % b->itemsize != 0;
  }
  if (odd) {
    PyErr_SetString(PyExc_TypeError, "an array whose elements are not aligned");
    return NULL;
  }
  tn_tensor t = {b->buf, shape, stride, b->ndim, dtype};
  tn_value *r = tn_value_borrow(&t, (int32_t)elem);
  return r ? r : (tn_value *)PyErr_NoMemory();
}

static tn_value *strings_from(PyObject *shape, PyObject *list) {
  int64_t dim[MAX_RANK];
  Py_ssize_t rank = PyTuple_Check(shape) ? PyTuple_GET_SIZE(shape) : MAX_RANK + 1, n = PyList_Check(list) ? PyList_GET_SIZE(list) : -1, all = 1;
  int empty = 0;
  for (Py_ssize_t i = 0; i < rank && rank <= MAX_RANK; i++) {
    dim[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, i));
    if (dim[i] == 0) empty = 1;
    else if (dim[i] < 0 || all < 0 || dim[i] > PTRDIFF_MAX / all) all = -2;
    else all *= (Py_ssize_t)dim[i];
  }
  if (empty && all > 0) all = 0;
  if (PyErr_Occurred()) return NULL;
  if (rank > MAX_RANK || n != all) {
    PyErr_SetString(PyExc_TypeError, "strings are (8, shape, list of bytes) with as many bytes objects as the shape says");
    return NULL;
  }
  const char **s = PyMem_Calloc((size_t)n + 1, sizeof *s);
  size_t *bytes = PyMem_Calloc((size_t)n + 1, sizeof *bytes);
  tn_value *r = NULL;
  int bad = !s || !bytes;
  for (Py_ssize_t i = 0; i < n && !bad; i++) {
    char *p = NULL;
    Py_ssize_t len = 0;
    bad = PyBytes_AsStringAndSize(PyList_GET_ITEM(list, i), &p, &len) != 0;
    s[i] = p;
    bytes[i] = (size_t)len;
  }
  if (!bad) r = tn_value_strings(s, bytes, (int32_t)rank, dim);
  PyMem_Free(s);
  PyMem_Free(bytes);
  return r || PyErr_Occurred() ? r : (tn_value *)PyErr_NoMemory();
}

static tn_value *value_from(PyObject *o, views *v, int depth);

static tn_value *list_from(PyObject *o, views *v, int depth) {
  size_t n = (size_t)PyList_GET_SIZE(o), made = 0;
  tn_value **item = PyMem_Calloc(n + 1, sizeof *item), *r = NULL;
  if (!item) return (tn_value *)PyErr_NoMemory();
  while (made < n && (item[made] = value_from(PyList_GET_ITEM(o, (Py_ssize_t)made), v, depth + 1))) made++;
  if (made == n && !(r = tn_value_list(item, n))) PyErr_NoMemory();
  for (size_t i = 0; i < made; i++) tn_value_release(item[i]);
  PyMem_Free(item);
  return r;
}

static tn_value *map_from(PyObject *keys, PyObject *values, views *v, int depth) {
  tn_value *k = value_from(keys, v, depth + 1), *x = k ? value_from(values, v, depth + 1) : NULL, *r = NULL;
  if (x && !(r = tn_value_map(k, x))) PyErr_SetString(PyExc_TypeError, "a map wants as many keys as values; keys are integers or strings");
  tn_value_release(k);
  tn_value_release(x);
  return r;
}

static tn_value *value_from(PyObject *o, views *v, int depth) {
  if (depth > 8) {
    PyErr_SetString(PyExc_TypeError, "lists are nested too deep");
    return NULL;
  }
  if (o == Py_None) {
    tn_value *r = tn_value_none();
    return r ? r : (tn_value *)PyErr_NoMemory();
  }
  if (PyList_Check(o)) return list_from(o, v, depth);
  if (PyTuple_Check(o) && PyTuple_GET_SIZE(o) >= 2) {
    long elem = PyLong_AsLong(PyTuple_GET_ITEM(o, 0));
    if (elem == -1 && PyErr_Occurred()) return NULL;
    if (elem == -1 && PyTuple_GET_SIZE(o) == 3) return map_from(PyTuple_GET_ITEM(o, 1), PyTuple_GET_ITEM(o, 2), v, depth);
    if (elem == 8 && PyTuple_GET_SIZE(o) == 3) return strings_from(PyTuple_GET_ITEM(o, 1), PyTuple_GET_ITEM(o, 2));
    if (elem > 0 && PyTuple_GET_SIZE(o) == 2) return tensor_from(PyTuple_GET_ITEM(o, 1), elem, v);
  }
  PyErr_SetString(PyExc_TypeError, "a value is None, (elem, buffer), (8, shape, [bytes]), [values] or (-1, keys, values)");
  return NULL;
}

/* ---- values to Python ---- */

static PyObject *value_to(tn_value *v);

static PyObject *tensor_to(tn_value *v) {
  const tn_tensor *t = tn_value_tensor(v);
  if (t->rank > MAX_RANK || t->dtype < 0 || t->dtype >= TN_OBJ) return raise(TN_E_INTERNAL, "a result of odd rank or type");
  buffer *b = PyObject_New(buffer, &buffer_type);
  if (!b) return NULL;
  b->v = v;
  tn_value_retain(v);
  return Py_BuildValue("(iN)", (int)tn_value_elem(v), b);
}

static PyObject *strings_to(const tn_value *v) {
  const tn_tensor *t = tn_value_tensor(v);
  size_t n = tn_value_n(v), len;
  PyObject *shape = PyTuple_New(t->rank), *list = PyList_New((Py_ssize_t)n);
  for (int i = 0; shape && i < t->rank; i++) PyTuple_SET_ITEM(shape, i, PyLong_FromLongLong(t->shape[i]));
  for (size_t i = 0; list && i < n; i++) {
    const char *s = tn_value_string(v, i, &len);
    PyList_SET_ITEM(list, (Py_ssize_t)i, PyBytes_FromStringAndSize(s, (Py_ssize_t)len));
  }
  if (!shape || !list) {
    Py_XDECREF(shape);
    Py_XDECREF(list);
    return NULL;
  }
  return Py_BuildValue("(iNN)", 8, shape, list);
}

static PyObject *list_to(const tn_value *v) {
  size_t n = tn_value_n(v);
  PyObject *list = PyList_New((Py_ssize_t)n);
  for (size_t i = 0; list && i < n; i++) {
    PyObject *x = value_to(tn_value_item(v, i));
    if (!x) {
      Py_DECREF(list);
      return NULL;
    }
    PyList_SET_ITEM(list, (Py_ssize_t)i, x);
  }
  return list;
}

static PyObject *value_to(tn_value *v) {
  switch (tn_value_get_kind(v)) {
  case TN_VALUE_TENSOR: return tensor_to(v);
  case TN_VALUE_STRINGS: return strings_to(v);
  case TN_VALUE_LIST: return list_to(v);
  case TN_VALUE_MAP: {
    PyObject *k = value_to(tn_value_item(v, 0)), *x = k ? value_to(tn_value_item(v, 1)) : NULL;
    if (x) return Py_BuildValue("(iNN)", -1, k, x);
    Py_XDECREF(k);
    return NULL;
  }
  default: Py_RETURN_NONE;
  }
}

/* ---- Model ---- */

typedef struct model { PyObject_HEAD tn_model *m; int threads; tn_session **idle; size_t n_idle, cap_idle; Py_buffer data; /* of a package in memory */ } model;

static void model_dealloc(PyObject *self) {
  model *o = (model *)self;
  for (size_t i = 0; i < o->n_idle; i++) tn_session_destroy(o->idle[i]);
  PyMem_Free(o->idle);
  tn_model_release(o->m);
  if (o->data.obj) PyBuffer_Release(&o->data);
  Py_TYPE(self)->tp_free(self);
}

static tn_session *take_session(model *o) {
  if (o->n_idle) return o->idle[--o->n_idle];
  tn_session_options so;
  tn_session *s;
  tn_session_options_init(&so);
  so.threads = o->threads;
  tn_status st = tn_session_create(o->m, &so, &s);
  if (st == TN_OK) return s;
  raise(st, "a session cannot be made");
  return NULL;
}

static void give_session(model *o, tn_session *s) {
  if (o->n_idle == o->cap_idle) {
    size_t cap = o->cap_idle ? 2 * o->cap_idle : 4;
    tn_session **idle = PyMem_Realloc(o->idle, cap * sizeof *idle);
    if (!idle) {
      tn_session_destroy(s);
      return;
    }
    o->idle = idle;
    o->cap_idle = cap;
  }
  o->idle[o->n_idle++] = s;
}

static PyObject *results(tn_value **out, size_t n) {
  PyObject *list = PyList_New((Py_ssize_t)n);
  for (size_t i = 0; list && i < n; i++) {
    tn_value *v = out[i], *own = NULL;
    for (size_t k = 0; k < i && !own; k++) /* one value given out twice: each caller may write into his */
      if (out[k] == v && tn_value_get_kind(v) == TN_VALUE_TENSOR && !(own = tn_value_copy(tn_value_tensor(v), tn_value_elem(v)))) {
        PyErr_NoMemory();
        Py_CLEAR(list);
        break;
      }
    if (!list) break;
    PyObject *x = value_to(own ? own : v);
    tn_value_release(own);
    if (x) PyList_SET_ITEM(list, (Py_ssize_t)i, x);
    else Py_CLEAR(list);
  }
  return list;
}

static PyObject *model_run(PyObject *self, PyObject *arg) {
  model *o = (model *)self;
  size_t n_in = tn_model_n_in(o->m), n_out = tn_model_n_out(o->m), made = 0;
  if (!PyList_Check(arg) || (size_t)PyList_GET_SIZE(arg) != n_in) {
    PyErr_Format(PyExc_TypeError, "a list of %zu values is wanted", n_in);
    return NULL;
  }
  tn_value **v = PyMem_Calloc(n_in + n_out + 1, sizeof *v), **out = v ? v + n_in : NULL;
  views views = {0};
  PyObject *r = NULL;
  tn_session *s = NULL;
  if (!v) return PyErr_NoMemory();
  while (made < n_in && (v[made] = value_from(PyList_GET_ITEM(arg, (Py_ssize_t)made), &views, 0))) made++;
  if (made == n_in && (s = take_session(o))) {
    tn_status st;
    Py_BEGIN_ALLOW_THREADS
    st = tn_session_run(s, v, out);
    Py_END_ALLOW_THREADS
    if (st != TN_OK) raise(st, tn_session_error(s));
    else r = results(out, n_out);
    give_session(o, s);
  }
  for (size_t i = 0; i < n_in + n_out; i++) tn_value_release(v[i]);
  PyMem_Free(v);
  views_release(&views);
  return r;
}

static PyObject *ports(const tn_model *m, int side) {
  size_t n = side ? tn_model_n_out(m) : tn_model_n_in(m);
  PyObject *list = PyList_New((Py_ssize_t)n);
  for (size_t i = 0; list && i < n; i++) {
    tn_port p;
    if (side) tn_model_out(m, (uint32_t)i, &p);
    else tn_model_in(m, (uint32_t)i, &p);
    PyObject *shape = NULL;
    if (p.rank >= 0) shape = PyTuple_New(p.rank);
    else shape = Py_NewRef(Py_None);
    for (int k = 0; shape && k < p.rank; k++) {
      PyObject *d = p.dim[k] >= 0 ? PyLong_FromLongLong(p.dim[k]) : p.dim_name && p.dim_name[k] ? PyUnicode_FromString(p.dim_name[k]) : Py_NewRef(Py_None);
      if (d) PyTuple_SET_ITEM(shape, k, d);
      else Py_CLEAR(shape);
    }
    PyObject *x = shape ? Py_BuildValue("(siiiN)", p.name, (int)p.kind, (int)p.elem, (int)p.key_elem, shape) : NULL;
    if (x) PyList_SET_ITEM(list, (Py_ssize_t)i, x);
    else Py_CLEAR(list);
  }
  return list;
}

static PyObject *model_inputs(PyObject *self, PyObject *no) { (void)no; return ports(((model *)self)->m, 0); }
static PyObject *model_outputs(PyObject *self, PyObject *no) { (void)no; return ports(((model *)self)->m, 1); }

static PyObject *model_meta(PyObject *self, PyObject *no) {
  (void)no;
  const tn_model *m = ((model *)self)->m;
  PyObject *d = PyDict_New();
  for (uint32_t i = 0; d && i < tn_model_n_meta(m); i++) {
    const char *key, *value;
    tn_model_meta(m, i, &key, &value);
    PyObject *v = PyUnicode_DecodeUTF8(value, (Py_ssize_t)strlen(value), "replace");
    if (!v || PyDict_SetItemString(d, key, v) != 0) Py_CLEAR(d);
    Py_XDECREF(v);
  }
  return d;
}

static PyMethodDef model_methods[] = {{"run", model_run, METH_O, "run([value, ...]) -> [value, ...]"},
                                      {"inputs", model_inputs, METH_NOARGS, "[(name, kind, elem, key_elem, shape or None), ...]"},
                                      {"outputs", model_outputs, METH_NOARGS, "as inputs()"},
                                      {"meta", model_meta, METH_NOARGS, "{key: value}"},
                                      {0}};
static PyTypeObject model_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tenon._model.Model", .tp_basicsize = sizeof(model), .tp_dealloc = model_dealloc,
                                  .tp_flags = Py_TPFLAGS_DEFAULT, .tp_methods = model_methods, .tp_doc = "A loaded model."};

static PyObject *wrap(tn_model *m, int threads) {
  model *o = PyObject_New(model, &model_type);
  if (!o) {
    tn_model_release(m);
    return NULL;
  }
  o->m = m;
  o->threads = threads;
  o->idle = NULL;
  o->n_idle = o->cap_idle = 0;
  memset(&o->data, 0, sizeof o->data);
  return (PyObject *)o;
}

/* ---- options ---- */

enum { MAX_SHAPES = 64 };
typedef struct options { tn_compile_options o; tn_compile_shape shape[MAX_SHAPES]; int64_t dim[MAX_SHAPES][MAX_RANK]; } options;

static int read_shapes(PyObject *d, options *x) {
  Py_ssize_t at = 0;
  PyObject *k, *v;
  if (!PyDict_Check(d)) return PyErr_SetString(PyExc_TypeError, "shapes is a dict: input name -> sequence of sizes"), -1;
  while (PyDict_Next(d, &at, &k, &v)) {
    tn_compile_shape *s = &x->shape[x->o.n_shape];
    Py_ssize_t n = PySequence_Size(v);
    if (n < 0) return -1;
    if (n > MAX_RANK || x->o.n_shape == MAX_SHAPES) return PyErr_SetString(PyExc_ValueError, "too many shapes or dims"), -1;
    if (!(s->input = PyUnicode_AsUTF8(k))) return -1;
    for (Py_ssize_t i = 0; i < n; i++) {
      PyObject *e = PySequence_GetItem(v, i);
      x->dim[x->o.n_shape][i] = !e || e == Py_None ? -1 : PyLong_AsLongLong(e);
      Py_XDECREF(e);
      if (PyErr_Occurred()) return -1;
    }
    s->rank = (int32_t)n;
    s->dim = x->dim[x->o.n_shape++];
  }
  x->o.shape = x->shape;
  return 0;
}

static int read_options(PyObject *d, options *x) {
  Py_ssize_t at = 0;
  PyObject *k, *v;
  memset(x, 0, sizeof *x);
  tn_compile_options_init(&x->o);
  while (d && d != Py_None && PyDict_Next(d, &at, &k, &v)) {
    const char *name = PyUnicode_AsUTF8(k);
    if (!name) return -1;
    if (v == Py_None) continue;
    const char **text = !strcmp(name, "isa") ? &x->o.isa : !strcmp(name, "targets") ? &x->o.targets : !strcmp(name, "passes") ? &x->o.passes : !strcmp(name, "dump_dir") ? &x->o.dump_dir : NULL;
    if (text) {
      if (!(*text = PyUnicode_AsUTF8(v))) return -1;
    } else if (!strcmp(name, "compile_threads")) {
      x->o.threads = (int32_t)PyLong_AsLong(v);
    } else if (!strcmp(name, "strict")) {
      x->o.strict = PyObject_IsTrue(v);
    } else if (!strcmp(name, "shapes")) {
      if (read_shapes(v, x) != 0) return -1;
    } else {
      PyErr_Format(PyExc_ValueError, "unknown option '%s'", name);
    }
    if (PyErr_Occurred()) return -1;
  }
  return 0;
}

/* ---- module functions ---- */

static PyObject *finish(tn_status st, tn_compiled *c, const char *save, int threads) {
  PyObject *r = NULL;
  if (!c) return PyErr_NoMemory();
  if (st != TN_OK) {
    raise(st, tn_compiled_error(c));
  } else if (save) {
    Py_BEGIN_ALLOW_THREADS
    st = tn_compiled_save(c, save);
    Py_END_ALLOW_THREADS
    if (st != TN_OK) raise(st, tn_compiled_error(c));
    else r = Py_NewRef(Py_None);
  } else {
    tn_model *m;
    Py_BEGIN_ALLOW_THREADS
    m = tn_compiled_model(c);
    Py_END_ALLOW_THREADS
    if (m) r = wrap(m, threads);
    else raise(TN_E_UNSUPPORTED, tn_compiled_error(c));
  }
  Py_BEGIN_ALLOW_THREADS
  tn_compiled_destroy(c);
  Py_END_ALLOW_THREADS
  return r;
}

/* onnx(path, bytes, folder, options, save, threads) */
static PyObject *py_onnx(PyObject *self, PyObject *args) {
  const char *path, *folder, *save;
  Py_buffer data = {0};
  PyObject *opt;
  int threads;
  options x;
  (void)self;
  if (!PyArg_ParseTuple(args, "zz*zOzi", &path, &data, &folder, &opt, &save, &threads)) return NULL;
  if (read_options(opt, &x) != 0) {
    if (data.obj) PyBuffer_Release(&data);
    return NULL;
  }
  tn_compiled *c = NULL;
  tn_status st;
  Py_BEGIN_ALLOW_THREADS
  st = path ? tn_compile_onnx_file(path, &x.o, &c) : tn_compile_onnx(data.buf, (size_t)data.len, folder, &x.o, &c);
  Py_END_ALLOW_THREADS
  if (data.obj) PyBuffer_Release(&data);
  return finish(st, c, save, threads);
}

/* package(path, bytes, isa, threads): bytes must outlive the model, and belong to it from here on. */
static PyObject *py_package(PyObject *self, PyObject *args) {
  const char *path, *isa;
  int threads;
  Py_buffer data = {0};
  char why[2048] = "";
  tn_model *m = NULL;
  tn_model_options o;
  (void)self;
  if (!PyArg_ParseTuple(args, "zz*zi", &path, &data, &isa, &threads)) return NULL;
  tn_model_options_init(&o);
  o.isa = isa;
  tn_status st;
  Py_BEGIN_ALLOW_THREADS
  st = path ? tn_model_open(path, &o, &m, why, sizeof why) : tn_model_open_memory(data.buf, (size_t)data.len, &o, &m, why, sizeof why);
  Py_END_ALLOW_THREADS
  PyObject *r = st == TN_OK ? wrap(m, threads) : raise(st, why);
  if (r) ((model *)r)->data = data;
  else if (data.obj) PyBuffer_Release(&data);
  return r;
}

/* fx(json, [None or (elem, buffer)], options, save, threads) */
static PyObject *py_fx(PyObject *self, PyObject *args) {
  const char *json, *save;
  Py_ssize_t n;
  PyObject *list, *opt, *r = NULL;
  int threads, bad = 0;
  options x;
  (void)self;
  if (!PyArg_ParseTuple(args, "s#O!Ozi", &json, &n, &PyList_Type, &list, &opt, &save, &threads) || read_options(opt, &x) != 0) return NULL;
  size_t k = (size_t)PyList_GET_SIZE(list);
  tn_tensor *t = PyMem_Calloc(k + 1, sizeof *t);
  tn_value **v = PyMem_Calloc(k + 1, sizeof *v);
  views views = {0};
  for (size_t i = 0; t && v && i < k && !bad; i++) {
    PyObject *e = PyList_GET_ITEM(list, (Py_ssize_t)i);
    if (e == Py_None) continue;
    bad = !(v[i] = value_from(e, &views, 0));
    if (!bad && tn_value_get_kind(v[i]) == TN_VALUE_TENSOR) t[i] = *tn_value_tensor(v[i]);
  }
  if (!t || !v) PyErr_NoMemory();
  else if (!bad) {
    tn_compiled *c = NULL;
    tn_status st;
    Py_BEGIN_ALLOW_THREADS
    st = tn_compile_fx_model(json, (size_t)n, t, (uint32_t)k, &x.o, &c);
    Py_END_ALLOW_THREADS
    r = finish(st, c, save, threads);
  }
  for (size_t i = 0; v && i < k; i++) tn_value_release(v[i]);
  PyMem_Free(v);
  PyMem_Free(t);
  views_release(&views);
  return r;
}

static PyMethodDef functions[] = {{"onnx", py_onnx, METH_VARARGS, "onnx(path, bytes, folder, options, save, threads): a Model, or None after saving a package"},
                                  {"package", py_package, METH_VARARGS, "package(path, bytes, isa, threads) -> Model"},
                                  {"fx", py_fx, METH_VARARGS, "fx(json, constants, options, save, threads): as onnx()"},
                                  {0}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_model", .m_doc = "Models and packages.", .m_size = -1, .m_methods = functions};

static void log_line(void *user, const char *channel, const char *line) {
  (void)user;
  fprintf(stderr, "tenon %s: %s\n", channel, line);
}

PyMODINIT_FUNC PyInit__model(void);
PyMODINIT_FUNC PyInit__model(void) {
  const char *log = getenv("TENON_LOG");
  if (log && *log) tn_set_log(log_line, NULL);
  if (PyType_Ready(&buffer_type) != 0 || PyType_Ready(&model_type) != 0) return NULL;
  PyObject *m = PyModule_Create(&definition);
  if (!m) return NULL;
  error_type = PyErr_NewExceptionWithDoc("tenon.ModelError", "A model could not be compiled, loaded or run; code is the status (\"TN_E_ARG\").", PyExc_RuntimeError, NULL);
  if (!error_type || PyModule_AddObjectRef(m, "ModelError", error_type) != 0) {
    Py_DECREF(m);
    return NULL;
  }
  return m;
}

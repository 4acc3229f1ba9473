/* The Python side's only C: programs as callables that take and give torch tensors.
 *
 * Tensors cross through DLPack's C exchange API, which torch.Tensor carries as a capsule; nothing here links against torch. A call
 * reads each argument's sizes in place (no copies), binds and runs, and returns fresh tensors. Calls are re-entrant: each takes
 * a `call` (a tn_run and its argument arrays) from the program's idle list, which the GIL guards, or makes one.
 *
 * Packed parameters must never be stale. A parameter's key changes with (1) its version counter, (2) the life of its storage: a
 * weak reference to the storage object tells when it died, so an address that the allocator hands out again counts as new, and
 * (3) a few words sampled from its memory, because writes through `.data` leave no other trace. When a storage dies, idle runs go
 * with it: packed copies do not outlive the module.
 *
 * It deliberately knows nothing of operators; host calls go to one Python function that the program was given. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include "tenon/compile.h"

#define MAX_RANK 16
#define SAMPLES 8
#define LONG_CALL_NS 15000 /* below this a run keeps the GIL: giving it away and back costs more than it gives others */

/* ---- DLPack 1.x, as much as is used (https://dmlc.github.io/dlpack/latest/c_api.html) ---- */
typedef struct { int32_t device_type, device_id; } dl_device;
typedef struct { uint8_t code, bits; uint16_t lanes; } dl_dtype;
typedef struct { void *data; dl_device device; int32_t ndim; dl_dtype dtype; int64_t *shape, *strides; uint64_t byte_offset; } dl_tensor;
typedef struct { uint32_t major, minor; } dl_version;
typedef struct dl_managed {
  dl_version version;
  void *ctx;
  void (*deleter)(struct dl_managed *);
  uint64_t flags;
  dl_tensor t;
} dl_managed;
typedef struct dl_api {
  dl_version version;
  struct dl_api *prev;
  int (*allocate)(dl_tensor *, dl_managed **, void *, void (*)(void *, const char *, const char *));
  int (*from_py)(void *, dl_managed **);
  int (*to_py)(dl_managed *, void **);
  int (*view)(void *, dl_tensor *);
  int (*stream)(int32_t, int32_t, void **);
} dl_api;
enum { DL_CPU = 1, DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_BOOL = 6 };

static const dl_dtype dl_of[TN_N_DTYPES] = {
  [TN_F32] = {DL_FLOAT, 32, 1}, [TN_F64] = {DL_FLOAT, 64, 1}, [TN_F16] = {DL_FLOAT, 16, 1}, [TN_BF16] = {DL_BFLOAT, 16, 1},
  [TN_I64] = {DL_INT, 64, 1}, [TN_I32] = {DL_INT, 32, 1}, [TN_I16] = {DL_INT, 16, 1}, [TN_I8] = {DL_INT, 8, 1},
  [TN_U8] = {DL_UINT, 8, 1}, [TN_BOOL] = {DL_BOOL, 8, 1}, [TN_U16] = {DL_UINT, 16, 1}, [TN_U32] = {DL_UINT, 32, 1},
  [TN_U64] = {DL_UINT, 64, 1}};

/* What is looked up in torch once, on the first program. */
static struct {
  const dl_api *dl;
  PyTypeObject *tensor, *parameter;
  getter version, requires_grad;      /* C functions behind two attributes of torch.Tensor */
  void *version_closure, *requires_grad_closure;
  PyObject *untyped_storage, *is_neg, *contiguous, *clone, *storage_offset, *as_strided, *increment_version, *grad_enabled;
  PyObject *empty_strided;            /* (size, stride, dtype): torch's own short way to a fresh CPU tensor */
  PyObject *dtype[TN_N_DTYPES];
  PyObject *compile_error;
} torch_;

static void raise_status(tn_status s, const char *what) {
  if (s == TN_E_ZERO) { /* torch's words */
    PyErr_SetString(PyExc_RuntimeError, "ZeroDivisionError");
    return;
  }
  PyObject *kind = s == TN_E_ARG ? PyExc_ValueError : s == TN_E_INDEX ? PyExc_IndexError : s == TN_E_NOMEM ? PyExc_MemoryError : PyExc_RuntimeError;
  PyErr_Format(kind, "%s: %s", tn_status_name(s), what && *what ? what : "no message");
}

/* ---- looking torch up ---- */
static bool find_getter(PyObject *type, const char *name, getter *fn, void **closure) {
  PyObject *d = PyObject_GetAttrString(type, name);
  if (!d) return false;
  if (!PyObject_TypeCheck(d, &PyGetSetDescr_Type)) {
    PyErr_Format(PyExc_ImportError, "torch.Tensor.%s is no C attribute in this torch", name);
    Py_DECREF(d);
    return false;
  }
  PyGetSetDef *def = ((PyGetSetDescrObject *)d)->d_getset; /* static in torch: outlives the descriptor */
  *fn = def->get;
  *closure = def->closure;
  Py_DECREF(d);
  return true;
}

/* The object at a dotted path below `from`, as a new reference. */
static PyObject *dig(PyObject *from, const char *path) {
  char name[64];
  PyObject *at = Py_NewRef(from);
  while (at && *path) {
    size_t n = strcspn(path, ".");
    memcpy(name, path, n);
    name[n] = 0;
    PyObject *next = PyObject_GetAttrString(at, name);
    Py_DECREF(at);
    at = next;
    path += n + (path[n] == '.');
  }
  return at;
}

static bool find_torch(void) {
  static const char *const dtype_names[TN_N_DTYPES] = {"float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool",
    "uint16", "uint32", "uint64", NULL};
  if (torch_.dl) return true;
  PyObject *torch = PyImport_ImportModule("torch"), *guards = PyImport_ImportModule("torch._C._dynamo.guards"), *capsule = NULL;
  bool fine = false;
  if (!torch) goto done;
  PyErr_Clear();
  if (!(torch_.tensor = (PyTypeObject *)dig(torch, "Tensor")) || !(torch_.parameter = (PyTypeObject *)dig(torch, "nn.Parameter")) ||
      !(torch_.untyped_storage = dig(torch, "Tensor.untyped_storage")) || !(torch_.is_neg = dig(torch, "Tensor.is_neg")) ||
      !(torch_.contiguous = dig(torch, "Tensor.contiguous")) || !(torch_.clone = dig(torch, "Tensor.clone")) ||
      !(torch_.storage_offset = dig(torch, "Tensor.storage_offset")) || !(torch_.as_strided = dig(torch, "as_strided")) ||
      !(torch_.increment_version = dig(torch, "autograd.graph.increment_version")) || !(torch_.grad_enabled = dig(torch, "is_grad_enabled")))
    goto done;
  torch_.empty_strided = guards ? PyObject_GetAttrString(guards, "_empty_strided_cpu") : NULL;
  if (!torch_.empty_strided && (PyErr_Clear(), !(torch_.empty_strided = dig(torch, "empty_strided")))) goto done;
  for (int i = 0; i < TN_N_DTYPES; i++)
    if (dtype_names[i] && !(torch_.dtype[i] = PyObject_GetAttrString(torch, dtype_names[i]))) goto done;
  PyObject *base = dig(torch, "_C.TensorBase");
  if (!base) goto done;
  fine = find_getter(base, "_version", &torch_.version, &torch_.version_closure) &&
         find_getter(base, "requires_grad", &torch_.requires_grad, &torch_.requires_grad_closure);
  Py_DECREF(base);
  if (!fine) goto done;
  fine = false;
  if (!(capsule = PyObject_GetAttrString((PyObject *)torch_.tensor, "__dlpack_c_exchange_api__"))) goto done;
  const dl_api *api = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
  while (api && api->version.major > 1) api = api->prev;
  if (!api || !api->view) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ImportError, "this torch has no DLPack C exchange API of version 1");
    goto done;
  }
  torch_.dl = api;
  fine = true;
done:
  Py_XDECREF(torch);
  Py_XDECREF(guards);
  Py_XDECREF(capsule);
  return fine;
}

/* ---- the program object ---- */
typedef struct program program;

/* Told by a weak reference that a parameter's storage died. Outlives the program, hence the borrowed pointer that its end clears. */
typedef struct { PyObject_HEAD program *p; uint32_t input; } watcher;
typedef struct { void *data; uint64_t generation; PyObject *ref; watcher *w; } watch;
typedef struct { uint8_t rank, dtype; int64_t dim[2 * MAX_RANK]; PyObject *args; } made; /* arguments that made the last tensor of an output */

/* One call at a time: a run and the arrays it reads. */
typedef struct call {
  tn_run *run;
  program *p;
  tn_tensor *in, *out;
  uint64_t *key;
  int64_t *number; /* values of scalar inputs */
  PyObject *const *args;
  PyObject **held;  /* copies of arguments, while the call lasts */
  PyObject *exc[3]; /* what a host call raised */
} call;

/* Where input k comes from when parameters are lifted: dict[key], or the next argument of the call. */
typedef struct { PyObject *dict, *key, *same; } lift;

struct program {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  tn_compiled *compiled;
  uint32_t n_in, n_out, n_user;
  char *origin;           /* per input: 'i' input, 'c' one that must be row-major, 's' scalar, 'p' parameter or buffer with packed copies, 'b' one without */
  int32_t *ret;           /* per returned value: output number, ~input number, or INT32_MIN for None */
  Py_ssize_t n_ret;
  bool single, alone; /* alone: no Dynamo guards stand before the call */
  int32_t threads;
  lift *from;             /* NULL, or [n_in] */
  lift *same;             /* [n_same] dict entries that must still be the same objects */
  Py_ssize_t n_same;
  watch *watch;           /* [n_in] */
  made *made;             /* [n_out] */
  call **idle;
  uint32_t n_idle, cap_idle;
  uint64_t epoch;         /* storages that died so far: calls from before are not kept */
  uint64_t run_ns;        /* of the last call that was timed */
  uint64_t n_calls;
  PyObject *host, *keep, *mutated, *dict, *weak;
};

static tn_status host_call(void *user, uint32_t number, const tn_tensor *in, uint32_t n_in, tn_tensor *out, uint32_t n_out);

static void call_free(call *c) {
  if (!c) return;
  tn_run_destroy(c->run);
  for (int i = 0; i < 3; i++) Py_XDECREF(c->exc[i]);
  PyMem_Free(c->in);
  PyMem_Free(c->out);
  PyMem_Free(c->key);
  PyMem_Free(c->number);
  PyMem_Free(c->held);
  PyMem_Free(c);
}

static call *call_new(program *p) {
  call *c = PyMem_Calloc(1, sizeof *c);
  if (!c) return PyErr_NoMemory(), NULL;
  c->p = p;
  c->in = PyMem_Calloc(p->n_in + 1, sizeof *c->in);
  c->out = PyMem_Calloc(p->n_out + 1, sizeof *c->out);
  c->key = PyMem_Calloc(p->n_in + 1, sizeof *c->key);
  c->number = PyMem_Calloc(p->n_in + 1, sizeof *c->number);
  c->held = PyMem_Calloc(p->n_in + 1, sizeof *c->held);
  if (!c->in || !c->out || !c->key || !c->number || !c->held) return call_free(c), PyErr_NoMemory(), NULL;
  tn_run_options o;
  tn_run_options_init(&o);
  o.threads = p->threads;
  o.host = p->host ? host_call : NULL;
  o.host_user = c;
  tn_status s = tn_run_create(tn_compiled_program(p->compiled), &o, &c->run);
  if (s) return call_free(c), raise_status(s, "no run for this program"), NULL;
  return c;
}

static call *call_take(program *p) {
  return p->n_idle ? p->idle[--p->n_idle] : call_new(p);
}

static void call_give(program *p, call *c, uint64_t epoch) {
  if (epoch == p->epoch && p->n_idle == p->cap_idle) {
    call **more = PyMem_Realloc(p->idle, (p->cap_idle + 4) * sizeof *more);
    if (more) p->idle = more, p->cap_idle += 4;
  }
  if (epoch == p->epoch && p->n_idle < p->cap_idle) p->idle[p->n_idle++] = c;
  else call_free(c);
}

/* A packed copy may have outlived its parameter: idle runs go, and the next call makes new ones. */
static PyObject *watcher_call(watcher *w, PyObject *args, PyObject *kwargs) {
  (void)args;
  (void)kwargs;
  if (w->p) {
    program *p = w->p;
    watch *at = &p->watch[w->input];
    at->data = NULL;
    at->generation++;
    p->epoch++;
    while (p->n_idle) call_free(p->idle[--p->n_idle]);
  }
  Py_RETURN_NONE;
}
static PyTypeObject watcher_type = {
  PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tenon._native.Watcher", .tp_basicsize = sizeof(watcher),
  .tp_flags = Py_TPFLAGS_DEFAULT, .tp_call = (ternaryfunc)watcher_call, .tp_dealloc = (destructor)PyObject_Free};

/* Begins to watch the storage behind input k. */
static bool watch_storage(program *p, uint32_t k, PyObject *tensor, void *data) {
  watch *at = &p->watch[k];
  PyObject *storage = PyObject_CallOneArg(torch_.untyped_storage, tensor);
  if (!storage) return false;
  if (!at->w) {
    at->w = PyObject_New(watcher, &watcher_type);
    if (!at->w) return Py_DECREF(storage), false;
    at->w->p = p;
    at->w->input = k;
  }
  PyObject *ref = PyWeakref_NewRef(storage, (PyObject *)at->w);
  Py_DECREF(storage);
  if (!ref) return false;
  Py_XSETREF(at->ref, ref);
  at->data = data;
  at->generation++;
  return true;
}

static inline uint64_t mix(uint64_t h, uint64_t v) {
  h = (h ^ v) * 0x9E3779B97F4A7C15u;
  return h ^ (h >> 29);
}

/* A few words, evenly spread over the memory that a tensor covers. */
static uint64_t sample(const dl_tensor *t) {
  int64_t last = 0;
  for (int i = 0; i < t->ndim; i++) {
    if (t->shape[i] == 0 || t->strides[i] < 0) return 0;
    last += (t->shape[i] - 1) * t->strides[i];
  }
  int64_t bytes = (last + 1) * (t->dtype.bits / 8);
  const char *at = (const char *)t->data + t->byte_offset;
  uint64_t h = (uint64_t)bytes, word = 0;
  if (bytes < 8) return memcpy(&word, at, (size_t)bytes), mix(h, word);
  int64_t step = (bytes - 8) / (SAMPLES - 1);
  for (int64_t i = 0, k = 0; i < SAMPLES; i++, k += step) memcpy(&word, at + k, 8), h = mix(h, word);
  return h;
}

static bool parameter_key(program *p, uint32_t k, PyObject *tensor, const dl_tensor *t, uint64_t *out) {
  static uint64_t never; /* tensors without a version counter: always renewed */
  watch *at = &p->watch[k];
  if (at->data != t->data && t->data && !watch_storage(p, k, tensor, t->data)) return false;
  PyObject *v = torch_.version(tensor, torch_.version_closure);
  uint64_t version;
  if (v) version = (uint64_t)PyLong_AsUnsignedLongLongMask(v), Py_DECREF(v);
  else PyErr_Clear(), version = ++never;
  *out = mix(mix(version, at->generation), sample(t));
  return true;
}

static int32_t dtype_from(dl_dtype d) {
  for (int32_t i = 0; i < TN_N_DTYPES; i++)
    if (d.bits && dl_of[i].code == d.code && dl_of[i].bits == d.bits && d.lanes == 1) return i;
  return -1;
}

static inline bool getter_true(getter fn, void *closure, PyObject *o) {
  PyObject *v = fn(o, closure);
  bool yes = v == Py_True;
  Py_XDECREF(v);
  return yes;
}

static bool has_elements(const dl_tensor *t) {
  for (int i = 0; i < t->ndim; i++)
    if (t->shape[i] == 0) return false;
  return true;
}

static bool row_major(const dl_tensor *t) {
  int64_t dense = 1;
  for (int i = t->ndim; i-- > 0; dense *= t->shape[i]) {
    if (t->shape[i] == 0) return true;
    if (t->shape[i] != 1 && t->strides[i] != dense) return false;
  }
  return true;
}

/* torch's refusal under our code: the first line of what it said. */
static bool no_view(uint32_t k) {
  PyObject *type, *value, *trace;
  char line[256] = "";
  PyErr_Fetch(&type, &value, &trace);
  PyObject *text = value ? PyObject_Str(value) : NULL;
  const char *said = text ? PyUnicode_AsUTF8(text) : NULL;
  if (said) snprintf(line, sizeof line, ": %.*s", (int)strcspn(said, "\n"), said);
  Py_XDECREF(text);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
  PyErr_Clear();
  return PyErr_Format(PyExc_TypeError, "TN_E_ARG: input %u gives no DLPack view%s", k, line), false;
}

/* Reads one tensor argument without owning it: sizes stay where torch keeps them. */
static bool read_tensor(program *p, call *c, uint32_t k, PyObject *a, bool grad_on) {
  PyTypeObject *type = Py_TYPE(a);
  if (type != torch_.tensor && type != torch_.parameter && !PyObject_TypeCheck(a, torch_.parameter))
    return PyErr_Format(PyExc_TypeError, "TN_E_ARG: input %u is a %s, not a plain torch.Tensor", k, type->tp_name), false;
  dl_tensor t;
  if (torch_.dl->view(a, &t)) return no_view(k);
  if (t.device.device_type != DL_CPU)
    return PyErr_Format(PyExc_ValueError, "TN_E_ARG: input %u is on device type %d; this program runs on the CPU", k, (int)t.device.device_type), false;
  int32_t dtype = dtype_from(t.dtype);
  if (dtype < 0)
    return PyErr_Format(PyExc_TypeError, "TN_E_ARG: input %u has a dtype that Tenon does not know (DLPack code %d, %d bits)", k, t.dtype.code, t.dtype.bits), false;
  bool absent = !t.data && has_elements(&t); /* torch's zero tensors have no memory until they are copied */
  if (absent || (p->origin[k] == 'c' && !row_major(&t))) {
    c->held[k] = PyObject_CallOneArg(absent ? torch_.clone : torch_.contiguous, a);
    if (!c->held[k] || torch_.dl->view(c->held[k], &t)) return false;
  } else if (p->origin[k] == 'p') {
    if (!parameter_key(p, k, a, &t, &c->key[k])) return false;
  } else if (p->origin[k] == 'i' && p->alone) {
    PyObject *neg = PyObject_CallOneArg(torch_.is_neg, a);
    if (!neg) return false;
    Py_DECREF(neg);
    if (neg == Py_True) return PyErr_Format(PyExc_ValueError, "TN_E_ARG: input %u has its negative bit set; call resolve_neg() first", k), false;
    if (grad_on && getter_true(torch_.requires_grad, torch_.requires_grad_closure, a))
      return PyErr_Format(PyExc_RuntimeError, "TN_E_ARG: input %u requires grad, but this program only infers; use torch.no_grad() or torch.compile(backend=\"tenon\")", k), false;
  }
  c->in[k] = (tn_tensor){(char *)t.data + t.byte_offset, t.shape, t.strides, t.ndim, dtype};
  return true;
}

static bool read_number(call *c, uint32_t k, PyObject *a) {
  static const int64_t none;
  c->number[k] = PyLong_AsLongLong(a);
  if (c->number[k] == -1 && PyErr_Occurred()) return false;
  c->in[k] = (tn_tensor){&c->number[k], &none, &none, 0, TN_I64};
  return true;
}

static PyObject *longs(const int64_t *v, int32_t n) {
  PyObject *t = PyTuple_New(n);
  for (int32_t i = 0; t && i < n; i++) {
    PyObject *o = PyLong_FromLongLong(v[i]);
    if (!o) return Py_DECREF(t), NULL;
    PyTuple_SET_ITEM(t, i, o);
  }
  return t;
}

/* A fresh tensor for output i; the call's arguments are kept for the next time, as sizes seldom change. */
static PyObject *make_output(program *p, uint32_t i, tn_tensor *t) {
  made *m = &p->made[i];
  size_t n = (size_t)t->rank * sizeof(int64_t);
  if (!m->args || m->rank != t->rank || m->dtype != t->dtype || memcmp(m->dim, t->shape, n) || memcmp(m->dim + MAX_RANK, t->strides, n)) {
    PyObject *size = longs(t->shape, t->rank), *stride = longs(t->strides, t->rank);
    PyObject *args = size && stride ? PyTuple_Pack(3, size, stride, torch_.dtype[t->dtype]) : NULL;
    Py_XDECREF(size);
    Py_XDECREF(stride);
    if (!args) return NULL;
    Py_XSETREF(m->args, args);
    m->rank = (uint8_t)t->rank;
    m->dtype = (uint8_t)t->dtype;
    memcpy(m->dim, t->shape, n);
    memcpy(m->dim + MAX_RANK, t->strides, n);
  }
  PyObject *o, *args = Py_NewRef(m->args); /* another thread may replace m->args while this one makes objects */
  if (PyCFunction_CheckExact(torch_.empty_strided) && PyCFunction_GET_FLAGS(torch_.empty_strided) == METH_VARARGS)
    o = PyCFunction_GET_FUNCTION(torch_.empty_strided)(PyCFunction_GET_SELF(torch_.empty_strided), args);
  else {
    PyObject *kw = Py_BuildValue("{sO}", "dtype", torch_.dtype[t->dtype]), *two = PyTuple_GetSlice(args, 0, 2);
    o = kw && two ? PyObject_Call(torch_.empty_strided, two, kw) : NULL;
    Py_XDECREF(kw);
    Py_XDECREF(two);
  }
  Py_DECREF(args);
  dl_tensor d;
  if (!o || torch_.dl->view(o, &d)) {
    Py_XDECREF(o);
    return NULL;
  }
  t->data = d.data;
  return o;
}

/* An output that lies inside an input: a view of that input. */
static PyObject *view_of(PyObject *base, const tn_tensor *in, const tn_tensor *t) {
  PyObject *at = PyObject_CallOneArg(torch_.storage_offset, base);
  if (!at) return NULL;
  long long offset = PyLong_AsLongLong(at) + ((char *)t->data - (char *)in->data) / (dl_of[t->dtype].bits / 8);
  Py_DECREF(at);
  PyObject *size = longs(t->shape, t->rank), *stride = longs(t->strides, t->rank);
  PyObject *o = size && stride ? PyObject_CallFunction(torch_.as_strided, "OOOL", base, size, stride, offset) : NULL;
  Py_XDECREF(size);
  Py_XDECREF(stride);
  return o;
}

static bool make_outputs(program *p, call *c, PyObject *const *args, PyObject **made_out) {
  for (uint32_t i = 0; i < p->n_out; i++) {
    tn_tensor *t = &c->out[i];
    tn_status s = tn_run_out(c->run, i, t);
    if (s) return raise_status(s, tn_run_error(c->run)), false;
    int32_t alias = tn_run_out_alias(c->run, i);
    if (t->data && alias < 0) made_out[i] = PyLong_FromLongLong(*(const int64_t *)t->data); /* a size */
    else made_out[i] = alias >= 0 ? view_of(args[alias], &c->in[alias], t) : make_output(p, i, t);
    if (!made_out[i]) return false;
  }
  return true;
}

static inline uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool execute(program *p, call *c) {
  tn_status s;
  bool timed = p->n_calls < 8 || p->n_calls % 64 == 0;
  uint64_t t0 = timed ? now_ns() : 0;
  if (p->run_ns >= LONG_CALL_NS || !p->n_calls) {
    Py_BEGIN_ALLOW_THREADS
    s = tn_run_exec(c->run, c->out);
    Py_END_ALLOW_THREADS
  } else s = tn_run_exec(c->run, c->out);
  if (timed) p->run_ns = now_ns() - t0;
  p->n_calls++;
  if (!s) return true;
  if (c->exc[0]) {
    PyErr_Restore(c->exc[0], c->exc[1], c->exc[2]);
    memset(c->exc, 0, sizeof c->exc);
  } else raise_status(s, tn_run_error(c->run));
  return false;
}

/* Tensors written in place get a new version, as after any in-place operator. */
static bool bump_versions(program *p, PyObject *const *args) {
  Py_ssize_t n = PyTuple_GET_SIZE(p->mutated);
  PyObject *changed = PyTuple_New(n);
  for (Py_ssize_t i = 0; changed && i < n; i++) {
    PyObject *a = args[PyLong_AsLong(PyTuple_GET_ITEM(p->mutated, i))];
    PyTuple_SET_ITEM(changed, i, Py_NewRef(a));
  }
  PyObject *done = changed ? PyObject_CallOneArg(torch_.increment_version, changed) : NULL;
  Py_XDECREF(changed);
  Py_XDECREF(done);
  return done != NULL;
}

/* The returned values by the template; takes what `made_out` holds. */
static PyObject *give_back(program *p, PyObject *const *args, PyObject **made_out) {
  PyObject *r = p->single ? NULL : PyTuple_New(p->n_ret);
  if (!r && !p->single) return NULL;
  for (Py_ssize_t i = 0; i < p->n_ret; i++) {
    int32_t from = p->ret[i];
    PyObject *o = from == INT32_MIN ? Py_None : from < 0 ? args[~from] : made_out[from];
    Py_INCREF(o);
    if (p->single) return o;
    PyTuple_SET_ITEM(r, i, o);
  }
  return r;
}

static PyObject *run_call(program *p, call *c, PyObject *const *args) {
  PyObject *few[16] = {0}, **out = p->n_out <= 16 ? few : PyMem_Calloc(p->n_out, sizeof *out), *result = NULL;
  if (!out) return PyErr_NoMemory();
  bool grad_on = false;
  if (p->alone) {
    PyObject *v = PyObject_CallNoArgs(torch_.grad_enabled);
    grad_on = v == Py_True;
    Py_XDECREF(v);
  }
  bool fine = true;
  for (uint32_t k = 0; fine && k < p->n_in; k++)
    fine = p->origin[k] == 's' ? read_number(c, k, args[k]) : read_tensor(p, c, k, args[k], grad_on);
  if (fine) {
    tn_status s = tn_run_bind(c->run, c->in, c->key);
    if (s) raise_status(s, tn_run_error(c->run)), fine = false;
  }
  c->args = args;
  if (fine && make_outputs(p, c, args, out) && execute(p, c) && (!p->mutated || bump_versions(p, args))) result = give_back(p, args, out);
  for (uint32_t i = 0; i < p->n_out; i++) Py_XDECREF(out[i]);
  for (uint32_t k = 0; k < p->n_in; k++) Py_CLEAR(c->held[k]);
  if (out != few) PyMem_Free(out);
  return result;
}

/* Arguments with the lifted parameters in their places; NULL with an exception when the module is no longer the one compiled. */
static bool lift_args(program *p, PyObject *const *user, PyObject **all) {
  for (Py_ssize_t i = 0; i < p->n_same; i++)
    if (PyDict_GetItemWithError(p->same[i].dict, p->same[i].key) != p->same[i].same)
      return PyErr_Format(PyExc_RuntimeError, "TN_E_ARG: the module changed since it was compiled (%R is another object)", p->same[i].key), false;
  for (uint32_t k = 0, u = 0; k < p->n_in; k++) {
    all[k] = p->from[k].dict ? PyDict_GetItemWithError(p->from[k].dict, p->from[k].key) : user[u++];
    if (!all[k]) return PyErr_Format(PyExc_RuntimeError, "TN_E_ARG: the module changed since it was compiled (%R is gone)", p->from[k].key), false;
  }
  return true;
}

static PyObject *program_call(program *p, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
  Py_ssize_t n = PyVectorcall_NARGS(nargsf);
  PyObject *boxed = NULL, *few[64], **all = NULL, *result = NULL;
  if (kwnames && PyTuple_GET_SIZE(kwnames)) return PyErr_SetString(PyExc_TypeError, "TN_E_ARG: a program takes no keyword arguments"), NULL;
  if (n == 1 && PyList_CheckExact(args[0])) { /* torch's boxed convention: the list is ours to empty */
    boxed = PyList_AsTuple(args[0]);
    if (!boxed || PyList_SetSlice(args[0], 0, PY_SSIZE_T_MAX, NULL)) return Py_XDECREF(boxed), NULL;
    args = ((PyTupleObject *)boxed)->ob_item;
    n = PyTuple_GET_SIZE(boxed);
  }
  if (n != (Py_ssize_t)p->n_user) {
    PyErr_Format(PyExc_TypeError, "TN_E_ARG: the program takes %u arguments, got %zd", p->n_user, n);
    goto done;
  }
  if (p->from) {
    all = p->n_in <= 64 ? few : PyMem_Malloc(p->n_in * sizeof *all);
    if (!all) { PyErr_NoMemory(); goto done; }
    if (!lift_args(p, args, all)) goto done;
    for (uint32_t k = 0; k < p->n_in; k++) Py_INCREF(all[k]);
    args = all;
  }
  uint64_t epoch = p->epoch;
  call *c = call_take(p);
  if (c) {
    Py_INCREF(p);
    result = run_call(p, c, args);
    c->args = NULL;
    /* A parameter seen for the first time, or again at another address, is no reason to drop the run: only deaths are. */
    call_give(p, c, epoch);
    Py_DECREF(p);
  }
  if (p->from) for (uint32_t k = 0; k < p->n_in; k++) Py_DECREF(all[k]);
done:
  if (all && all != few) PyMem_Free(all);
  Py_XDECREF(boxed);
  return result;
}

/* ---- host calls ---- */
static void borrowed_free(dl_managed *m) { free(m); }

/* A torch tensor over memory that is not its own: lives no longer than the host call. */
static PyObject *borrow(const tn_tensor *t) {
  size_t n = (size_t)t->rank;
  dl_managed *m = calloc(1, sizeof *m + 2 * (n + 1) * sizeof(int64_t));
  if (!m) return PyErr_NoMemory();
  int64_t *dim = (int64_t *)(m + 1), *stride = dim + n + 1, dense = 1;
  for (size_t i = n; i-- > 0; dense *= t->shape[i]) dim[i] = t->shape[i], stride[i] = t->strides ? t->strides[i] : dense;
  m->version = (dl_version){1, 1};
  m->deleter = borrowed_free;
  m->t = (dl_tensor){t->data, {DL_CPU, 0}, t->rank, dl_of[t->dtype], dim, stride, 0};
  void *o = NULL;
  if (torch_.dl->to_py(m, &o)) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "torch took no DLPack tensor");
    return NULL;
  }
  return o;
}

static PyObject *borrow_all(const tn_tensor *t, uint32_t n) {
  PyObject *list = PyList_New(n);
  for (uint32_t i = 0; list && i < n; i++) {
    PyObject *o = borrow(&t[i]);
    if (!o) return Py_DECREF(list), NULL;
    PyList_SET_ITEM(list, i, o);
  }
  return list;
}

static tn_status host_call(void *user, uint32_t number, const tn_tensor *in, uint32_t n_in, tn_tensor *out, uint32_t n_out) {
  call *c = user;
  PyGILState_STATE gil = PyGILState_Ensure();
  PyObject *ins = borrow_all(in, n_in), *outs = ins ? borrow_all(out, n_out) : NULL, *args = outs ? PyTuple_New(c->p->n_in) : NULL, *r = NULL;
  if (args) {
    for (uint32_t k = 0; k < c->p->n_in; k++) PyTuple_SET_ITEM(args, k, Py_NewRef(c->args[k]));
    r = PyObject_CallFunction(c->p->host, "IOOO", number, ins, outs, args);
  }
  if (!r) PyErr_Fetch(&c->exc[0], &c->exc[1], &c->exc[2]);
  Py_XDECREF(ins);
  Py_XDECREF(outs);
  Py_XDECREF(args);
  tn_status s = r ? TN_OK : TN_E_DEVICE;
  Py_XDECREF(r);
  PyGILState_Release(gil);
  return s;
}

/* ---- making and ending programs ---- */
static bool copy_ints(PyObject *seq, int32_t **out, Py_ssize_t *n) {
  *n = PyTuple_GET_SIZE(seq);
  *out = PyMem_Calloc((size_t)*n + 1, sizeof **out);
  for (Py_ssize_t i = 0; *out && i < *n; i++) {
    PyObject *v = PyTuple_GET_ITEM(seq, i);
    (*out)[i] = v == Py_None ? INT32_MIN : (int32_t)PyLong_AsLong(v);
  }
  return *out != NULL && !PyErr_Occurred();
}

/* Keeps the strings of the options alive through `options`, which the caller holds. */
static bool read_options(PyObject *options, tn_compile_options *o) {
  const struct { const char *name; const char **text; int32_t *number; } row[] = {
    {"profile", &o->profile, NULL}, {"isa", &o->isa, NULL}, {"passes", &o->passes, NULL}, {"dump_dir", &o->dump_dir, NULL},
    {"threads", NULL, &o->threads}, {"fail_on_fallback", NULL, &o->fail_on_fallback}, {"allow_host_calls", NULL, &o->allow_host_calls}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    PyObject *v = PyDict_GetItemString(options, row[i].name);
    if (!v || v == Py_None) continue;
    if (row[i].text && !(*row[i].text = PyUnicode_AsUTF8(v))) return false;
    if (row[i].number && (*row[i].number = (int32_t)PyLong_AsLong(v)) == -1 && PyErr_Occurred()) return false;
  }
  return true;
}

static bool compile_json(program *p, const char *json, Py_ssize_t n, PyObject *options) {
  tn_compile_options o;
  tn_compile_options_init(&o);
  o.allow_host_calls = 1;
  if (!read_options(options, &o)) return false;
  tn_status s;
  Py_BEGIN_ALLOW_THREADS
  s = tn_compile_fx(json, (size_t)n, &o, &p->compiled);
  Py_END_ALLOW_THREADS
  if (!s) return true;
  PyObject *what = Py_BuildValue("(ss)", tn_status_name(s), p->compiled ? tn_compiled_error(p->compiled) : "out of memory");
  if (what) PyErr_SetObject(torch_.compile_error, what);
  Py_XDECREF(what);
  return false;
}

static PyObject *program_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"json", "origin", "ret", "mutated", "options", "threads", "host", "keep", "alone", NULL};
  const char *json, *origin;
  Py_ssize_t n_json, n_origin;
  PyObject *ret, *mutated, *options, *host, *keep;
  int threads, alone;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s#s#O!O!O!iOOp", names, &json, &n_json, &origin, &n_origin, &PyTuple_Type, &ret,
                                   &PyTuple_Type, &mutated, &PyDict_Type, &options, &threads, &host, &keep, &alone) || !find_torch())
    return NULL;
  program *p = (program *)type->tp_alloc(type, 0);
  if (!p) return NULL;
  p->vectorcall = (vectorcallfunc)program_call;
  p->keep = Py_NewRef(keep);
  p->host = host == Py_None ? NULL : Py_NewRef(host);
  p->mutated = PyTuple_GET_SIZE(mutated) ? Py_NewRef(mutated) : NULL;
  p->threads = threads;
  p->alone = alone;
  if (!compile_json(p, json, n_json, options)) goto fail;
  const tn_program *c = tn_compiled_program(p->compiled);
  p->n_in = p->n_user = tn_program_n_in(c);
  p->n_out = tn_program_n_out(c);
  if ((Py_ssize_t)p->n_in != n_origin) {
    PyErr_Format(PyExc_RuntimeError, "TN_E_INTERNAL: the graph has %zd inputs, its program %u", n_origin, p->n_in);
    goto fail;
  }
  p->origin = PyMem_Malloc(p->n_in + 1u);
  p->watch = PyMem_Calloc(p->n_in + 1u, sizeof *p->watch);
  p->made = PyMem_Calloc(p->n_out + 1u, sizeof *p->made);
  if (!p->origin || !p->watch || !p->made || !copy_ints(ret, &p->ret, &p->n_ret)) goto fail;
  for (uint32_t k = 0; k < p->n_in; k++) p->origin[k] = origin[k] == 'p' && !tn_program_in_packed(c, k) ? 'b' : origin[k];
  for (Py_ssize_t i = 0; i < p->n_ret; i++)
    if (p->ret[i] != INT32_MIN && (p->ret[i] < 0 ? (uint32_t)~p->ret[i] >= p->n_in : (uint32_t)p->ret[i] >= p->n_out)) {
      PyErr_Format(PyExc_RuntimeError, "TN_E_INTERNAL: returned value %zd names output %d of %u", i, (int)p->ret[i], p->n_out);
      goto fail;
    }
  return (PyObject *)p;
fail:
  if (!PyErr_Occurred()) PyErr_NoMemory();
  Py_DECREF(p);
  return NULL;
}

/* Takes parameters out of module dictionaries: entries[k] = (dict, key) or None for an argument of the call; same = (dict, key, object)... */
static PyObject *program_lift(program *p, PyObject *args) {
  PyObject *entries, *same;
  int single;
  if (!PyArg_ParseTuple(args, "O!O!p", &PyTuple_Type, &entries, &PyTuple_Type, &same, &single)) return NULL;
  if (PyTuple_GET_SIZE(entries) != (Py_ssize_t)p->n_in || p->from || (single && p->n_ret != 1)) return PyErr_SetString(PyExc_ValueError, "one entry for each input, once"), NULL;
  p->from = PyMem_Calloc(p->n_in + 1u, sizeof *p->from);
  p->same = PyMem_Calloc((size_t)PyTuple_GET_SIZE(same) + 1, sizeof *p->same);
  if (!p->from || !p->same) return PyErr_NoMemory();
  for (uint32_t k = 0; k < p->n_in; k++) {
    PyObject *e = PyTuple_GET_ITEM(entries, k);
    if (e == Py_None) continue;
    if (!PyArg_ParseTuple(e, "O!O", &PyDict_Type, &p->from[k].dict, &p->from[k].key)) return NULL;
    Py_INCREF(p->from[k].dict);
    Py_INCREF(p->from[k].key);
    p->n_user--;
  }
  for (; p->n_same < PyTuple_GET_SIZE(same); p->n_same++) {
    lift *s = &p->same[p->n_same];
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(same, p->n_same), "O!OO", &PyDict_Type, &s->dict, &s->key, &s->same)) return NULL;
    Py_INCREF(s->dict);
    Py_INCREF(s->key);
    Py_INCREF(s->same);
  }
  p->single = single;
  Py_RETURN_NONE;
}

static PyObject *program_report(program *p, void *unused) {
  (void)unused;
  return PyUnicode_FromString(tn_compiled_report(p->compiled));
}

/* Counters summed over the idle runs (a run in use is not read). */
static PyObject *program_stats(program *p, PyObject *unused) {
  (void)unused;
  tn_run_stats all = {0}, s;
  for (uint32_t i = 0; i < p->n_idle; i++) {
    tn_run_get_stats(p->idle[i]->run, &s);
    all.calls += s.calls, all.launches += s.launches, all.host_calls += s.host_calls, all.lib_calls += s.lib_calls;
    all.views += s.views, all.packs += s.packs, all.binds += s.binds, all.arena_bytes += s.arena_bytes;
  }
  return Py_BuildValue("{sKsKsKsKsKsKsKsKsI}", "calls", all.calls, "launches", all.launches, "host_calls", all.host_calls, "lib_calls", all.lib_calls,
                       "views", all.views, "packs", all.packs, "binds", all.binds, "arena_bytes", all.arena_bytes, "idle_runs", p->n_idle);
}

/* For each output the number of the input it is a view of, or -1. */
static PyObject *program_aliases(program *p, PyObject *unused) {
  (void)unused;
  call *c = call_take(p);
  PyObject *t = c ? PyTuple_New(p->n_out) : NULL;
  for (uint32_t i = 0; t && i < p->n_out; i++) PyTuple_SET_ITEM(t, i, PyLong_FromLong(tn_run_out_alias(c->run, i)));
  if (c) call_give(p, c, p->epoch);
  return t;
}

static int program_traverse(program *p, visitproc visit, void *arg) {
  Py_VISIT(p->host);
  Py_VISIT(p->keep);
  Py_VISIT(p->dict);
  for (uint32_t k = 0; p->from && k < p->n_in; k++) Py_VISIT(p->from[k].dict);
  for (Py_ssize_t i = 0; i < p->n_same; i++) {
    Py_VISIT(p->same[i].dict);
    Py_VISIT(p->same[i].same);
  }
  return 0;
}

static int program_clear(program *p) {
  Py_CLEAR(p->host);
  Py_CLEAR(p->dict);
  for (Py_ssize_t i = 0; i < p->n_same; i++) Py_CLEAR(p->same[i].same);
  for (uint32_t k = 0; p->from && k < p->n_in; k++) {
    Py_CLEAR(p->from[k].dict);
    Py_CLEAR(p->from[k].key);
  }
  return 0;
}

static void program_dealloc(program *p) {
  PyObject_GC_UnTrack(p);
  if (p->weak) PyObject_ClearWeakRefs((PyObject *)p);
  for (uint32_t k = 0; p->watch && k < p->n_in; k++) {
    if (p->watch[k].w) p->watch[k].w->p = NULL;
    Py_XDECREF(p->watch[k].ref);
    Py_XDECREF(p->watch[k].w);
  }
  while (p->n_idle) call_free(p->idle[--p->n_idle]);
  for (uint32_t i = 0; p->made && i < p->n_out; i++) Py_XDECREF(p->made[i].args);
  program_clear(p);
  for (Py_ssize_t i = 0; i < p->n_same; i++) Py_XDECREF(p->same[i].dict), Py_XDECREF(p->same[i].key);
  if (p->compiled) tn_compiled_destroy(p->compiled);
  Py_XDECREF(p->keep);
  Py_XDECREF(p->mutated);
  void *memory[] = {p->idle, p->origin, p->ret, p->from, p->same, p->watch, p->made};
  for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) PyMem_Free(memory[i]);
  Py_TYPE(p)->tp_free((PyObject *)p);
}

static PyMethodDef program_methods[] = {
  {"lift", (PyCFunction)program_lift, METH_VARARGS, "lift(entries, same, single): parameters come from module dictionaries from now on"},
  {"aliases", (PyCFunction)program_aliases, METH_NOARGS, "for each output the number of the input it is a view of, or -1"},
  {"stats", (PyCFunction)program_stats, METH_NOARGS, "counters of the idle runs since their start"},
  {0}};
static PyGetSetDef program_getset[] = {
  {"report", (getter)program_report, NULL, "JSON report of the compile", NULL},
  {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
  {0}};
static PyMemberDef program_members[] = {
  {"n_in", T_UINT, offsetof(program, n_in), READONLY, NULL}, {"n_out", T_UINT, offsetof(program, n_out), READONLY, NULL}, {0}};
static PyTypeObject program_type = {
  PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tenon._native.Program", .tp_basicsize = sizeof(program),
  .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC, .tp_new = program_new,
  .tp_dealloc = (destructor)program_dealloc, .tp_traverse = (traverseproc)program_traverse, .tp_clear = (inquiry)program_clear,
  .tp_call = PyVectorcall_Call, .tp_vectorcall_offset = offsetof(program, vectorcall), .tp_dictoffset = offsetof(program, dict),
  .tp_weaklistoffset = offsetof(program, weak), .tp_methods = program_methods, .tp_getset = program_getset, .tp_members = program_members,
  .tp_doc = "Program(json, origin, ret, mutated, options, threads, host, keep, alone): a compiled graph as a callable"};

static PyObject *aten_names(PyObject *self, PyObject *unused) {
  (void)self;
  (void)unused;
  return PyUnicode_FromString(tn_aten_names());
}
static PyMethodDef module_methods[] = {{"aten_names", aten_names, METH_NOARGS, "names of the framework ops that Tenon has a row for, one a line"}, {0}};
static struct PyModuleDef module_def = {PyModuleDef_HEAD_INIT, "_native", NULL, -1, module_methods, NULL, NULL, NULL, NULL};

static void log_line(void *user, const char *channel, const char *line) {
  (void)user;
  fprintf(stderr, "tenon %s: %s\n", channel, line);
}

PyMODINIT_FUNC PyInit__native(void);
PyMODINIT_FUNC PyInit__native(void) {
  if (PyType_Ready(&program_type) || PyType_Ready(&watcher_type)) return NULL;
  const char *log = getenv("TENON_LOG");
  if (log && *log) tn_set_log(log_line, NULL);
  PyObject *m = PyModule_Create(&module_def), *boxed = Py_NewRef(Py_True);
  torch_.compile_error = PyErr_NewExceptionWithDoc("tenon.CompileError", "A compile failed: args are the status name and the message.", PyExc_RuntimeError, NULL);
  if (!m || !torch_.compile_error || PyDict_SetItemString(program_type.tp_dict, "_boxed_call", boxed) ||
      PyModule_AddObjectRef(m, "Program", (PyObject *)&program_type) || PyModule_AddObjectRef(m, "CompileError", torch_.compile_error)) {
    Py_XDECREF(m);
    m = NULL;
  }
  Py_DECREF(boxed);
  return m;
}

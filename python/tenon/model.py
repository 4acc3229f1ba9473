"""Models and packages: load() gives something to call with arrays. Needs NumPy, never torch.

Element types that NumPy does not have (bfloat16, float8, 4-bit) are those of ml_dtypes; they cross into C as unsigned integers of
their size with ONNX's number of the type. Nothing here knows an operator."""

import os

import numpy as np

from tenon import _model
from tenon._model import ModelError

__all__ = ["Model", "ModelError", "Port", "load"]

STRING = 8
_PLAIN = {1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16", 11: "float64", 12: "uint32", 13: "uint64"}
_MORE = {16: "bfloat16", 17: "float8_e4m3fn", 18: "float8_e4m3fnuz", 19: "float8_e5m2", 20: "float8_e5m2fnuz", 21: "uint4", 22: "int4", 23: "float4_e2m1fn",
         24: "float8_e8m0fnu", 25: "uint2", 26: "int2", 27: "float6_e2m3fn", 28: "float6_e3m2fn"}  # fmt: skip
_NARROW = {21: "uint8", 22: "int8", 25: "uint8", 26: "int8"}
_ELEM = {name: elem for elem, name in (_PLAIN | _MORE).items()}
_KINDS = ("tensor", "sequence", "optional", "optional sequence", "map", "sequence of maps", "any")


def _dtype(elem):
    if elem in _PLAIN:
        return np.dtype(_PLAIN[elem])
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, _MORE[elem]))


class Port:
    """An input or output: name, kind ("tensor", "sequence", ...), dtype (as text; "string"), shape (sizes, names or None; None: any rank)."""

    def __init__(self, name, kind, elem, key_elem, shape):
        self.name, self.kind, self.elem, self.shape = name, _KINDS[kind], elem, shape
        self.dtype = "string" if elem == STRING else (_PLAIN | _MORE).get(elem)

    def value(self, x):
        """What C takes for this port. A list or a number given for a tensor becomes an array of the port's type."""
        if self.kind == "tensor" and (isinstance(x, (list, tuple)) or isinstance(x, (bool, int, float))):
            x = np.asarray(x, dtype=object if self.elem == STRING else _dtype(self.elem) if self.dtype else None)
        return _in(x, self.elem)

    def __repr__(self):
        return f"Port({self.name!r}, {self.kind}, {self.dtype}, {self.shape})"


def _strings(a):
    return (STRING, a.shape, [x if isinstance(x, bytes) else str(x).encode() for x in a.ravel().tolist()])


def _array(a, want):
    """(elem, buffer) of an array; want: the port's element type, for raw bytes of types NumPy lacks and for Python numbers."""
    name = a.dtype.name
    elem = _ELEM.get(name, 0)
    if a.dtype.kind in "OUS":
        return _strings(a)
    if want in _MORE and elem != want and a.dtype.itemsize == _dtype(want).itemsize and a.dtype.kind in "uV":
        elem = want  # bits
    if not elem:
        raise TypeError(f"arrays of {a.dtype} cannot be passed")
    if not a.dtype.isnative:
        a = a.astype(a.dtype.newbyteorder("="))
    if elem in _NARROW and a.dtype.name in _ELEM and _ELEM[a.dtype.name] == elem:
        a = a.astype(_NARROW[elem])  # by value: what the upper bits of a byte hold is nobody's business
    elif elem in _MORE or a.dtype.kind == "V":
        a = np.ascontiguousarray(a).view(np.int8 if elem in (22, 26) else np.uint16 if elem == 16 else np.uint8).reshape(a.shape)
    if not a.flags.aligned or any(s % a.itemsize for s in a.strides):
        a = a.copy()
    return (elem, a)


def _in(x, want):
    if x is None:
        return None
    if isinstance(x, (list, tuple)):
        return [_in(e, want) for e in x]
    if isinstance(x, dict):
        keys, values = list(x), list(x.values())
        if values and all(np.ndim(v) == 0 for v in values):
            values = np.asarray(values, dtype=_PLAIN.get(want) if not isinstance(values[0], str) else object)
        keys = np.asarray(keys, dtype=object if keys and isinstance(keys[0], str) else np.int64)
        return (-1, _in(keys, 0), _in(values, want))
    if isinstance(x, (str, bytes)):
        return _strings(np.asarray(x, dtype=object))
    if isinstance(x, np.ndarray) or isinstance(x, np.generic):
        return _array(np.asarray(x), want)
    if hasattr(x, "__dlpack__") and hasattr(x, "detach"):  # a torch tensor, without importing torch
        return _in(_from_torch(x), want)
    if hasattr(x, "__dlpack__"):
        return _array(np.from_dlpack(x), want)
    if isinstance(x, (bool, int, float)):
        return _array(np.asarray(x, dtype=_PLAIN.get(want)), want)
    return _array(np.asarray(x), want)


def _from_torch(t):
    t = t.detach()
    name = str(t.dtype).removeprefix("torch.")
    if name in _ELEM and _ELEM[name] in _MORE:
        import torch

        return t.contiguous().view(torch.uint8 if t.element_size() == 1 else torch.uint16).numpy().view(_dtype(_ELEM[name]))
    return t.resolve_conj().resolve_neg().numpy()


def _out(x):
    if x is None:
        return None
    if isinstance(x, list):
        return [_out(e) for e in x]
    if x[0] == -1:
        keys, values = _out(x[1]), _out(x[2])
        return dict(zip(keys.tolist(), values if isinstance(values, list) else values.tolist() if values.ndim == 1 else list(values)))
    if x[0] == STRING:
        a = np.empty(len(x[2]), dtype=object)
        a[:] = [s.decode("utf-8", "surrogateescape") for s in x[2]]
        return a.reshape(x[1])
    a = np.asarray(x[1])
    if x[0] in _NARROW:
        return a.astype(_dtype(x[0]))
    return a.view(_dtype(x[0])) if x[0] in _MORE else a


class Model:
    """A model to call: model({"x": array}) or model(a, b) or model([a, b]) -> list of results. Safe to call from several threads."""

    def __init__(self, native):
        self._native = native
        self.inputs = [Port(*p) for p in native.inputs()]
        self.outputs = [Port(*p) for p in native.outputs()]
        self.metadata = native.meta()

    def __call__(self, *args):
        if len(args) == 1 and isinstance(args[0], dict) and not (len(self.inputs) == 1 and self.inputs[0].kind == "map"):
            named = args[0]
            missing = [p.name for p in self.inputs if p.name not in named and "optional" not in p.kind]
            if missing:                              # other names are passed over: one set of arrays may feed several models
                unknown = sorted(set(named) - {p.name for p in self.inputs})
                raise ValueError(f"inputs {missing} are missing; no input is named {unknown}; inputs: {[p.name for p in self.inputs]}")
            args = [named.get(p.name) for p in self.inputs]
        elif len(args) == 1 and isinstance(args[0], (list, tuple)) and not (len(self.inputs) == 1 and self.inputs[0].kind != "tensor"):
            args = args[0]
        if len(args) != len(self.inputs):
            raise ValueError(f"{len(args)} inputs given, {len(self.inputs)} wanted: {[p.name for p in self.inputs]}")
        return [_out(x) for x in self._native.run([p.value(x) for x, p in zip(args, self.inputs)])]

    def __repr__(self):
        return f"<tenon.Model {self.inputs} -> {self.outputs}>"


_PACKAGE = b"\x89TNP"


def load(model, threads=0, *, shapes=None, isa=None, dump_dir=None, strict=False, folder=None):
    """Loads an ONNX model (compiled now) or a package (.tnp), from a path or bytes.

    threads: of a run; 0 = usable cores. shapes: {input: sizes}, in place of what an ONNX file says (None: leave a size free).
    isa: highest instruction set. folder: where bytes of an ONNX model find external data."""
    if isinstance(model, (str, os.PathLike)):
        path = os.fspath(model)
        with open(path, "rb") as f:
            head = f.read(len(_PACKAGE))
        where = (path, None, None)  # path, bytes, folder
    else:
        model = model.SerializeToString() if hasattr(model, "SerializeToString") else model
        model = bytes(model)
        head = model[: len(_PACKAGE)]
        where = (None, model, folder)
    if head == _PACKAGE:
        return Model(_model.package(where[0], where[1], isa, threads))
    return Model(_model.onnx(*where, {"shapes": shapes, "isa": isa, "dump_dir": dump_dir, "strict": strict or None}, None, threads))

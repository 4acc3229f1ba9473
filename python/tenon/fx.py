"""Writes an ATen FX GraphModule as the JSON text of docs/fx.md, mechanically.

Nothing here knows what an operator means: a node becomes its full overload name, its schema arguments by name (defaults
filled in) and the shapes, strides and dtypes that tracing found. Sizes that may vary are written as sympy prints them.
"""

import functools
import json
import operator
import os
import re

import torch
from torch._prims_common import make_contiguous_strides_for
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import guard_scalar
from torch.utils._python_dispatch import _disable_current_modes

DTYPES = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.uint16: "u16",
    torch.uint32: "u32",
    torch.uint64: "u64",
    torch.bool: "bool",
    torch.complex64: "c64",
    torch.complex128: "c128",
}
DTYPE_OF = {name: dtype for dtype, name in DTYPES.items()}
_SYMS = (torch.SymInt, torch.SymFloat, torch.SymBool)
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')
_TORCH_DIR = os.path.dirname(torch.__file__) + os.sep
_COPY = torch.ops.aten.copy_.default
_INT64_MAX = 2**63 - 1


class Unsupported(RuntimeError):
    """A graph holds something that the JSON form cannot say; the text is the reason."""


def dtype_name(dtype: torch.dtype) -> str:
    """Short name of a dtype ("f32"); dtypes without one keep torch's spelling."""
    return DTYPES.get(dtype) or str(dtype).removeprefix("torch.")


def dim(value) -> int | str:
    """A size or stride: an int, or the text of its expression."""
    if type(value) is int:
        return value
    node = value.node
    known = node.maybe_as_int()
    return known if known is not None else str(node.expr)


def tensor_type(t: torch.Tensor) -> dict:
    """dtype, shape and stride (both in elements) of a (fake) tensor."""
    if t.layout is not torch.strided:
        raise Unsupported(f"layout {t.layout}")
    if t.device.type != "cpu":
        raise Unsupported(f"device {t.device}")
    return {
        "dtype": DTYPES.get(t.dtype) or dtype_name(t.dtype),
        "shape": [s if type(s) is int else dim(s) for s in t.shape],
        "stride": [s if type(s) is int else dim(s) for s in t.stride()],
    }


@functools.lru_cache(maxsize=4096)
def where(stack_trace: str | None) -> str:
    """'file.py:12 in forward' of the innermost frame outside torch, or ''."""
    frames = _FRAME.findall(stack_trace or "")
    user = [f for f in frames if not f[0].startswith(_TORCH_DIR)] or frames
    return f"{os.path.basename(user[-1][0])}:{user[-1][1]} in {user[-1][2]}" if user else ""


def _default(argument) -> object:
    """A schema default as JSON; enums arrive as their number there."""
    value = argument.default_value
    if type(value) is int and str(argument.type) != "int":
        kind = str(argument.real_type)
        if "MemoryFormat" in kind:
            return {0: "contiguous_format", 1: "preserve_format", 2: "channels_last"}.get(value, value)
    return _plain(value)


def _plain(value) -> object:
    """A number, string, enum or list without graph values, as JSON."""
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if value - value == 0 else {"float": str(value)}
    if isinstance(value, torch.dtype):
        return {"dtype": dtype_name(value)}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, (torch.memory_format, torch.layout)):
        return str(value).removeprefix("torch.")
    if isinstance(value, torch.device):
        return str(value)
    raise Unsupported(f"argument of type {type(value).__name__}")


def target_name(op) -> str:
    """Full name of an operator overload: "aten.add.Tensor"."""
    return f"{op.namespace}.{op._schema.name.split('::')[1]}.{op._overloadname}"


@functools.cache
def _schema(op) -> tuple[str, tuple[str, ...], dict]:
    """Target text, argument names in order, and defaults as JSON, of an operator overload."""
    schema, target = op._schema, target_name(op)
    defaults = {a.name: _default(a) for a in schema.arguments if a.has_default_value()}
    return target, tuple(a.name for a in schema.arguments), defaults


def _range(shape_env, symbol) -> dict:
    """lo and hi of a symbol, both within int64."""
    known = shape_env.var_to_range.get(symbol)
    if known is None:
        return {"lo": 0, "hi": _INT64_MAX}
    lo, hi = known.lower, known.upper
    return {"lo": int(lo) if lo.is_Integer else 0, "hi": min(int(hi), _INT64_MAX) if hi.is_Integer else _INT64_MAX}


class Encoder:
    """What both ways of capture share: rows of the JSON text, the symbols they use, and the constants they keep alive."""

    def __init__(self, name: str = "fwd"):
        self.name = name
        self.refs: dict[object, object] = {}
        self.constants: dict[str, torch.Tensor] = {}
        self.symbols: dict[str, object] = {}
        self.inputs: list[dict] = []
        self.nodes: list[dict] = []
        self.outputs: list[object] = []
        self.mutations: list[dict] = []
        self.shape_env = None

    def text(self) -> str:
        """The JSON text of what was added so far. `ptr` of a constant is valid while `constants` lives."""
        graph = {
            "version": 1,
            "name": self.name,
            "symbols": [{"name": n, **_range(self.shape_env, s)} for n, s in self.symbols.items()],
            "inputs": self.inputs,
            "constants": [{"name": n, **tensor_type(t), "ptr": t.data_ptr()} for n, t in self.constants.items()],
            "nodes": self.nodes,
            "outputs": self.outputs,
            "mutations": self.mutations,
        }
        return json.dumps(graph, separators=(",", ":"))

    def add_input(self, name: str, value, origin: str) -> None:
        """An input row from its (fake) value; ints and SymInts have origin "sym"."""
        if isinstance(value, torch.Tensor):
            if value.is_neg() or value.is_conj():  # its memory holds other values than it has
                raise Unsupported(f"input {name} with its negative or conjugate bit set")
            row = {"name": name, "origin": origin, **self.type(value)}
        elif isinstance(value, (torch.SymInt, int)) and not isinstance(value, bool):
            self._note(value)
            row = {"name": name, "origin": "sym", "dtype": "i64", "shape": [], "stride": [], "sym": str(dim(value))}
        else:
            raise Unsupported(f"input {name} of type {type(value).__name__}")
        self.inputs.append(row)

    def add_constant(self, name: str, value: torch.Tensor) -> dict:
        """Keeps a real tensor as a constant and gives its reference."""
        if type(value) is not torch.Tensor and not isinstance(value, torch.nn.Parameter):
            raise Unsupported(f"constant {name} of type {type(value).__name__}")
        with _disable_current_modes():
            self.constants[name] = value.detach().contiguous()
        return {"ref": name}

    def add_node(self, name: str, op, args, kwargs, value, stack_trace: str | None) -> None:
        """A node row: every schema argument by name. `value` is the result or the list of results."""
        target, names, defaults = _schema(op)
        named = dict(defaults)
        for key, arg in zip(names, args):
            named[key] = self.arg(arg)
        for key, arg in kwargs.items():
            named[key] = self.arg(arg)
        outs = value if isinstance(value, (list, tuple)) else (value,)
        row = {"name": name, "target": target, "where": where(stack_trace), "args": named}
        row["out"] = [self._out(v) for v in outs]
        self.nodes.append(row)

    def arg(self, value) -> object:
        """An argument as JSON: references, numbers, expressions, lists."""
        kind = type(value)
        if value is None or kind in (int, bool, str):
            return value
        if isinstance(value, (list, tuple)):
            return [self.arg(v) for v in value]
        if kind is Node:
            ref = self.refs[value]
            return self.sym(ref) if isinstance(ref, _SYMS) else ref
        if isinstance(value, torch.Tensor):
            return self.tensor(value)
        if isinstance(value, _SYMS):
            return self.sym(value)
        return _plain(value)

    def result(self, value) -> dict | None:
        """A returned value: a reference, {"sym": text} for a size, or None."""
        v = self.arg(value)
        return {"sym": str(v)} if type(v) is int else v

    def tensor(self, value: torch.Tensor) -> dict:
        """Reference of a tensor that was seen before."""
        raise Unsupported("a tensor among a node's arguments")

    def sym(self, value) -> object:
        """A symbolic int as its number or {"sym": text}. Floats and truth values get a guard that fixes them."""
        if not isinstance(value, torch.SymInt):
            return _plain(guard_scalar(value))
        self._note(value)
        text = dim(value)
        return text if type(text) is int else {"sym": text}

    def type(self, t: torch.Tensor) -> dict:
        """tensor_type that also notes the symbols."""
        if t._has_symbolic_sizes_strides:
            for s in (*t.shape, *t.stride()):
                self._note(s)
        return tensor_type(t)

    def _out(self, value) -> dict | None:
        if value is None or isinstance(value, torch.Tensor):
            return None if value is None else self.type(value)
        raise Unsupported(f"result of type {type(value).__name__}")

    def _note(self, value) -> None:
        if type(value) is not int:
            self.shape_env = value.node.shape_env
            for symbol in value.node.expr.free_symbols:
                self.symbols.setdefault(str(symbol), symbol)


class Writer(Encoder):
    """Walks an ATen graph. `origin` maps a placeholder's number to "param" or "buffer"; the others are "input" or "sym".

    Placeholders in `dense` are row-major, whatever strides tracing gave them.
    """

    def __init__(self, gm: GraphModule, origin: dict[int, str] | None = None, name: str = "fwd", dense: set[str] = frozenset()):
        super().__init__(name)
        self.gm, self.origin, self.dense = gm, origin or {}, dense
        for node in gm.graph.nodes:
            getattr(self, "_" + node.op, self._unknown)(node)

    def _unknown(self, node: Node) -> None:
        raise Unsupported(f"{node.op} {node.target}")

    def _placeholder(self, node: Node) -> None:
        value = node.meta.get("val")
        self.add_input(node.name, value, self.origin.get(len(self.inputs), "input"))
        if node.name in self.dense and isinstance(value, torch.Tensor):
            self.inputs[-1]["stride"] = [dim(s) for s in make_contiguous_strides_for(value.shape)]
            self.inputs[-1]["dense"] = True
        self.refs[node] = {"ref": node.name}

    def _get_attr(self, node: Node) -> None:
        value = functools.reduce(getattr, node.target.split("."), self.gm)
        if not isinstance(value, torch.Tensor):
            raise Unsupported(f"attribute {node.target} of type {type(value).__name__}")
        self.refs[node] = self.add_constant(node.name, value)

    def _call_function(self, node: Node) -> None:
        op, value = node.target, node.meta.get("val")
        if isinstance(value, (*_SYMS, int, float)):  # sizes: every use carries its expression
            self.refs[node] = value
        elif op is operator.getitem:
            self.refs[node] = {**self.refs[node.args[0]], "index": node.args[1]}
        elif not isinstance(op, torch._ops.OpOverload):
            raise Unsupported(f"target {op}")
        elif op is _COPY and node.args[0].op == "placeholder":
            self._mutation(node)
        else:
            self.add_node(node.name, op, node.args, node.kwargs, value, node.meta.get("stack_trace"))
            self.refs[node] = {"ref": node.name}

    def _mutation(self, node: Node) -> None:
        target, source = self.refs[node.args[0]]["ref"], self.refs[node.args[1]]
        k = next(i for i, row in enumerate(self.inputs) if row["name"] == target)
        self.mutations.append({"input": k, **source})
        self.refs[node] = source

    def _output(self, node: Node) -> None:
        self.outputs = [self.result(v) for v in node.args[0]]

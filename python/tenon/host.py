"""Host calls: the operators of a plan that torch itself has to run."""

import json
from collections.abc import Callable

import torch

from tenon.fx import DTYPE_OF


class Host:
    """Called by a running program as host(number, inputs, outputs, call arguments); fills the outputs.

    The rows of the report's "host_calls" say what to do; they are read, and operators looked up, on first use. `program` gives
    the program that calls, without keeping it alive. Values of dtypes that Tenon lacks arrive in carriers of the same size.
    """

    def __init__(self, inputs: list[dict]):
        self.program: Callable = lambda: None
        self.rows: list[dict] = []
        self.ready: dict[int, tuple] = {}
        self.syms = _sym_places(inputs)

    def __call__(self, number: int, ins: list, outs: list, args: tuple) -> None:
        self.rows = self.rows or json.loads(self.program().report)["host_calls"]
        row = self.rows[number]
        if number not in self.ready:
            self.ready[number] = _resolve(row)
        op, positional, named = self.ready[number]
        ins = _uncarried(ins, row["args"].get("carried_in"))
        outs = _uncarried(outs, row["args"].get("carried_out"))
        env = (ins, args, self.syms)
        with torch.no_grad():
            result = op(*[_value(v, env) for v in positional], **{k: _value(v, env) for k, v in named.items()})
            results = [r for r in (result if isinstance(result, (list, tuple)) else [result]) if r is not None]
            if len(results) < len(outs):
                raise RuntimeError(f"TN_E_INTERNAL: {op} gave {len(results)} results, the plan wants {len(outs)}")
            for out, value in zip(outs, results):
                out.copy_(value)


def _uncarried(tensors: list, dtypes: list[str] | None) -> list:
    return [t.view(_dtype(name)) if name else t for t, name in zip(tensors, dtypes)] if dtypes else tensors


def _dtype(name: str) -> torch.dtype:
    return DTYPE_OF.get(name) or getattr(torch, name)


def _resolve(row: dict) -> tuple:
    """Operator, positional and named arguments (still encoded) of a row."""
    space, *name, overload = row["target"].split(".")
    op = getattr(getattr(getattr(torch.ops, space), ".".join(name)), overload)
    positional, named = [], {}
    for a in op._schema.arguments:
        value = row["args"].get(a.name)
        if isinstance(value, str) and ("MemoryFormat" in str(a.real_type) or "Layout" in str(a.real_type)):
            value = getattr(torch, value)
        if a.kwarg_only:
            named[a.name] = value
        else:
            positional.append(value)
    return op, positional, named


def _sym_places(inputs: list[dict]) -> dict[str, tuple[int, int | None]]:
    """Where a call's arguments show a symbol: input and dim, or a scalar input."""
    places: dict[str, tuple[int, int | None]] = {}
    for k, row in enumerate(inputs):
        if row["origin"] == "sym":
            places.setdefault(row["sym"], (k, None))
        for d, size in enumerate(row["shape"]):
            if isinstance(size, str):
                places.setdefault(size, (k, d))
    return places


def _value(v, env) -> object:
    """An encoded argument as what torch takes."""
    if isinstance(v, list):
        return [_value(x, env) for x in v]
    if not isinstance(v, dict):
        return v
    if "input" in v:
        return env[0][v["input"]]
    if "dtype" in v:
        return _dtype(v["dtype"])
    if "float" in v:
        return float(v["float"])
    if "sym" in v:
        return _size(v["sym"], env[1], env[2])
    raise RuntimeError(f"TN_E_INTERNAL: argument {v} of a host call")


_FUNCTIONS = {
    "FloorDiv": lambda a, b: a // b,
    "floordiv": lambda a, b: a // b,
    "CleanDiv": lambda a, b: a // b,
    "Mod": lambda a, b: a % b,
    "mod": lambda a, b: a % b,
    "PythonMod": lambda a, b: a % b,
    "Max": max,
    "max": max,
    "Min": min,
    "min": min,
    "__builtins__": {},
}


def _size(text: str, args: tuple, places: dict) -> int:
    """The value of a size expression for this call's arguments."""
    names = {n: (args[k] if d is None else args[k].shape[d]) for n, (k, d) in places.items() if n.isidentifier()}
    return int(eval(text, _FUNCTIONS, names))  # the text is our own: fx.py wrote it

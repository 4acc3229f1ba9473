"""Records what a captured torch graph does to fake tensors, straight as rows of the JSON text: the short way for inference.

One run of the graph does it: C++ functionalization turns in-place work into values, and a dispatch mode writes down every
operator that comes out below. AOTAutograd needs two runs and a graph between for the same rows; it stays the way for
gradients, for inputs that change size or share written memory, and for operators that hold graphs. Those raise NeedsAot with the reason.
"""

import contextlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._dynamo.source import FloatTensorSource
from torch._guards import TracingContext
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg
from torch.utils._python_dispatch import TorchDispatchMode

from tenon.fx import Encoder, Unsupported

_LIFT = {"lift_fresh", "lift_fresh_copy", "lift"}


class NeedsAot(Exception):
    """This graph has to go through AOTAutograd; the text says why."""


@dataclass
class Captured:
    """A graph as JSON, and how a call's arguments and results map on it."""

    json: str
    origin: str  # a letter an input: i input, c input that must be row-major, p parameter or buffer, s scalar
    ret: tuple[int | None, ...]  # returned values: output number, ~input number, or None
    mutated: tuple[int, ...]  # inputs written in place
    inputs: list[dict]
    constants: dict[str, torch.Tensor] = field(default_factory=dict)
    views: tuple | None = None  # the returned values, when some are views: see with_views


def origins(inputs: list[dict]) -> str:
    """The origin letters of input rows."""
    return "".join("c" if row.get("dense") else {"input": "i", "sym": "s"}.get(row["origin"], "p") for row in inputs)


class Recorder(TorchDispatchMode):
    """Writes every operator that reaches it. `decompose` gives a decomposition of an operator, or None to keep it whole."""

    def __init__(self, decompose: Callable):
        super().__init__()
        self.rows = _Rows()
        self.decompose = decompose
        self.counts: Counter = Counter()
        self.stack_trace: str | None = None

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func._schema.is_mutable:
            raise NeedsAot(f"{func} writes in place")
        base = func._schema.name.split("::")[1]
        if base in _LIFT and not isinstance(args[0], FakeTensor):
            return self._constant(func, args[0])
        rule = self.decompose(func)
        if rule is not None:
            with self:
                out = rule(*args, **kwargs)
            if out is not NotImplemented:
                return out
        out = func(*args, **kwargs)
        self._add(func, base, args, kwargs, out)
        return out

    def _add(self, func, base: str, args, kwargs, out) -> None:
        if not isinstance(out, (torch.Tensor, list, tuple)):
            return  # a size or a number: its uses carry it
        k = self.counts[base]
        self.counts[base] += 1
        name = f"{base}_{k}" if k else base
        self.rows.begin(name, keep=torch.Tag.nondeterministic_seeded in func.tags)
        self.rows.add_node(name, func, args, kwargs, out, self.stack_trace)
        if isinstance(out, torch.Tensor):
            self.rows.bind(out, {"ref": name})
            return
        for i, value in enumerate(out):
            if isinstance(value, torch.Tensor):
                self.rows.bind(value, {"ref": name, "index": i})

    def _constant(self, func, value: torch.Tensor) -> torch.Tensor:
        fake = func(value)
        self.rows.bind(fake, self.rows.add_constant(f"_tensor_constant{len(self.rows.constants)}", value))
        return fake


class _Rows(Encoder):
    """Rows whose references are found by the identity of the fake tensors, which stay alive with it."""

    def __init__(self) -> None:
        super().__init__()
        self.alive: list[torch.Tensor] = []
        self.uses: dict[str, set[str]] = {}  # names that a node reads; results and mutations read for ""
        self.kept = {""}
        self.begin("", keep=True)

    def begin(self, name: str, keep: bool) -> None:
        """References from now on are of node `name`; `keep`: it matters even when nothing reads it."""
        self.reading = self.uses[name] = set()
        if keep:
            self.kept.add(name)

    def end(self) -> None:
        """References from now on are of the results."""
        self.reading = self.uses[""]

    def text(self) -> str:
        """The JSON text without nodes that nothing reads."""
        live, todo = set(self.kept), list(self.kept)
        while todo:
            for name in self.uses.get(todo.pop(), ()):
                if name not in live:
                    live.add(name)
                    todo.append(name)
        self.nodes = [row for row in self.nodes if row["name"] in live]
        return super().text()

    def bind(self, value: torch.Tensor, ref: dict) -> None:
        self.refs[id(value)] = ref
        self.alive.append(value)

    def tensor(self, value: torch.Tensor) -> dict:
        ref = self.refs.get(id(value))
        if ref is None:
            raise NeedsAot("a tensor that no recorded operator made")
        self.reading.add(ref["ref"])
        return ref


class _Run:
    """One run of a graph on functional tensors."""

    def __init__(self, gm: GraphModule, recorder: Recorder, inputs: dict[Node, tuple[object, str | None]], fake_mode):
        self.gm, self.recorder, self.described, self.fake_mode = gm, recorder, inputs, fake_mode
        self.inputs: list[tuple[Node, object, object]] = []  # node, fake value, functional value

    def outputs(self) -> list:
        """Runs all nodes and gives the functional outputs."""
        env: dict[Node, object] = {}
        for node in self.gm.graph.nodes:
            self.recorder.stack_trace = node.meta.get("stack_trace")
            if node.op == "output":
                return list(map_arg(node.args[0], env.__getitem__))
            env[node] = getattr(self, "_" + node.op)(node, env)
        raise NeedsAot("a graph without output")

    def _placeholder(self, node: Node, env) -> object:
        value, origin = self.described[node]
        wrapped = value
        if origin is None:
            return value
        if isinstance(value, torch.Tensor):
            self.recorder.rows.bind(value, {"ref": node.name})
            wrapped = torch._to_functional_tensor(value)
        self.recorder.rows.add_input(node.name, value, origin)
        self.inputs.append((node, value, wrapped))
        return wrapped

    def _get_attr(self, node: Node, env) -> object:
        value = self.gm
        for part in node.target.split("."):
            value = getattr(value, part)
        if not isinstance(value, torch.Tensor):
            raise NeedsAot(f"attribute {node.target} is a {type(value).__name__}")
        if value.requires_grad:
            value = value.detach()
        fake = self.fake_mode.from_tensor(value)
        self.recorder.rows.bind(fake, self.recorder.rows.add_constant(node.name, value))
        return torch._to_functional_tensor(fake)

    def _call_function(self, node: Node, env) -> object:
        if isinstance(node.target, torch._ops.HigherOrderOperator):
            raise NeedsAot(f"operator {node.target} holds graphs")
        if (
            node.target is torch._C._set_grad_enabled
            and node.args[0]
            and any(isinstance(v, torch.Tensor) and v.requires_grad for _, v, _ in self.inputs)
        ):
            raise NeedsAot("gradients are enabled inside")
        return node.target(*map_arg(node.args, env.__getitem__), **map_arg(node.kwargs, env.__getitem__))

    def _call_method(self, node: Node, env) -> object:
        me, *args = map_arg(node.args, env.__getitem__)
        return getattr(me, node.target)(*args, **map_arg(node.kwargs, env.__getitem__))

    def _call_module(self, node: Node, env) -> object:
        raise NeedsAot("modules that were not inlined")


def dynamo_inputs(gm: GraphModule) -> dict[Node, tuple[object, str | None]]:
    """Fake value and origin of every placeholder of a Dynamo graph. NeedsAot: AOTAutograd makes tensors of varying floats."""
    if any(isinstance(n._dynamo_source, FloatTensorSource) for n in gm.graph.find_nodes(op="placeholder")):
        raise NeedsAot("a float may vary")
    return {n: (n.meta.get("example_value"), _origin(n)) for n in gm.graph.find_nodes(op="placeholder")}


def _origin(node: Node) -> str:
    if isinstance(node.meta.get("example_value"), torch.nn.Parameter):
        return "param"
    static = (node.meta.get("tensor_dict") or {}).get("_dynamo_static_input_type")
    return "buffer" if static else "input"


def record(gm: GraphModule, inputs: dict[Node, tuple[object, str | None]], decompose: Callable) -> Captured:
    """Records a graph for inference. `inputs` gives each placeholder's fake value and origin; origin None: a fixed value.

    NeedsAot: another way must be taken; Unsupported: no way is known.
    """
    examples = [value for value, origin in inputs.values() if origin]
    tensors = [e for e in examples if isinstance(e, torch.Tensor)]
    _check(tensors)
    fake_mode = tensors[0].fake_mode
    recorder = Recorder(decompose)
    run = _Run(gm, recorder, inputs, fake_mode)
    with contextlib.ExitStack() as stack:
        if TracingContext.try_get():
            stack.enter_context(TracingContext.patch(fake_mode=fake_mode))
        stack.enter_context(torch.no_grad())
        stack.enter_context(fake_mode)
        stack.enter_context(enable_python_dispatcher())  # its Python forms keep batch norm and others functional
        stack.enter_context(recorder)
        torch._enable_functionalization(reapply_views=True)
        stack.callback(torch._disable_functionalization)
        outputs = run.outputs()
        if torch.is_grad_enabled():
            raise NeedsAot("gradients stay enabled")
        return _finish(run, outputs)


def _check(tensors: list) -> None:
    if not tensors:
        raise NeedsAot("no tensor input tells the fake mode")
    if len({id(getattr(t, "fake_mode", None)) for t in tensors}) > 1:
        raise NeedsAot("inputs of different fake modes")
    for t in tensors:
        if type(t) is not FakeTensor and not isinstance(t, torch.nn.Parameter):
            raise NeedsAot(f"input of type {type(t).__name__}")
        if t.device.type != "cpu":
            raise Unsupported(f"input on device {t.device}")
        if t.is_neg() or t.is_conj():
            raise Unsupported("input with its negative or conjugate bit set")
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        raise NeedsAot("gradients are wanted")


def _finish(run: _Run, outputs: list) -> Captured:
    rows = run.recorder.rows
    rows.end()
    mutated = _mutations(run)
    places = _Outputs(run, outputs)
    ret = tuple(places.place(value) for value in outputs)
    if any(isinstance(at, View) for at in ret):
        return Captured(rows.text(), origins(rows.inputs), tuple(range(len(rows.outputs))), mutated, rows.inputs, rows.constants, ret)
    return Captured(rows.text(), origins(rows.inputs), ret, mutated, rows.inputs, rows.constants)


@dataclass
class View:
    """A result that shares memory with `base`, an output number or ~input number; sizes and offset in elements.

    Symbolic sizes are given as (output number,).
    """

    base: int
    size: list
    stride: list
    offset: object


def with_views(program: Callable, ret: tuple, inputs: Callable = lambda args: args) -> Callable:
    """A callable that gives `program`'s outputs by `ret`, some of them as views. `inputs` gives a call's program inputs."""

    def number(v, outs):
        return outs[v[0]] if isinstance(v, tuple) else v

    def result(at, args, outs):
        if not isinstance(at, View):
            return None if at is None else outs[at] if at >= 0 else args[~at]
        base = outs[at.base] if at.base >= 0 else args[~at.base]
        size, stride = [number(v, outs) for v in at.size], [number(v, outs) for v in at.stride]
        return torch.as_strided(base, size, stride, base.storage_offset() + number(at.offset, outs))

    def call(*args):
        outs, ins = program(*args), inputs(args)
        return tuple(result(at, ins, outs) for at in ret)

    return call


class _Outputs:
    """Places of returned values, each program output once; results that share memory become views of its owner."""

    def __init__(self, run: _Run, outputs: list):
        self.rows = run.recorder.rows
        tensors = [(k, v, w) for k, (_, v, w) in enumerate(run.inputs) if isinstance(w, torch.Tensor)]
        self.inputs = {id(w): k for k, _, w in tensors}
        self.owner = {_storage(w): (~k, v) for k, v, w in reversed(tensors)}  # memory -> place and fake value
        self.users = Counter(_storage(w) for w in {id(w): w for w in outputs if isinstance(w, torch.Tensor)}.values())
        self.number: dict[str, int] = {}

    def place(self, value) -> int | View | None:
        if value is None:
            return None
        if id(value) in self.inputs:
            return ~self.inputs[id(value)]
        if not isinstance(value, torch.Tensor):
            return self._sym(value)
        torch._sync(value)
        inner, memory = torch._from_functional_tensor(value), _storage(value)
        if memory not in self.owner and self.users[memory] > 1:
            self._find_owner(memory, inner)
        at, base = self.owner.get(memory, (None, None))
        if at is None or base is inner:
            return self._add(self.rows.tensor(inner) | (self._order(inner) if at is None else {}))
        size, stride = [self._size(v) for v in inner.shape], [self._size(v) for v in inner.stride()]
        return View(at, size, stride, self._size(inner.storage_offset() - base.storage_offset()))

    def _order(self, inner: torch.Tensor) -> dict:
        """How dims lie in memory where eager does not make a result row-major: channels last, most often. Views of row-major values find
        their strides by themselves, and symbolic strides are not looked at."""
        whole = next(t for t in self.rows.alive if _storage(t) == _storage(inner))
        if whole.is_contiguous() or not all(type(s) is int for s in (*inner.shape, *inner.stride())):
            return {}
        order = sorted(range(inner.dim()), key=lambda k: -inner.stride(k))
        dense = 1
        for k in reversed(order):
            if inner.shape[k] != 1 and inner.stride(k) != dense:
                return {}
            dense *= inner.shape[k]
        return {"order": order}

    def _find_owner(self, memory: int, inner: torch.Tensor) -> None:
        """The operator result that made this memory becomes an output. Unless it is dense: then its results are copies."""
        whole = next(t for t in self.rows.alive if _storage(t) == _storage(inner))
        if whole.is_contiguous():
            self.owner[memory] = (self._add(self.rows.tensor(whole)), whole)

    def _sym(self, value) -> int:
        if not isinstance(value, (int, torch.SymInt)) or isinstance(value, bool):
            raise NeedsAot(f"output of type {type(value).__name__}")
        return self._add(self.rows.result(value))

    def _size(self, value) -> int | tuple[int]:
        return value if type(value) is int else (self._sym(value),)

    def _add(self, ref: dict) -> int:
        key = repr(ref)
        if key not in self.number:
            self.number[key] = len(self.rows.outputs)
            self.rows.outputs.append(ref)
        return self.number[key]


def _storage(t: torch.Tensor) -> int:
    return t.untyped_storage()._cdata


def _mutations(run: _Run) -> tuple[int, ...]:
    """Notes the new values of inputs that were written in place."""
    rows, mutated = run.recorder.rows, []
    for k, (_, value, wrapped) in enumerate(run.inputs):
        if not isinstance(wrapped, torch.Tensor):
            continue
        torch._sync(wrapped)
        if torch._functionalize_has_metadata_mutation(wrapped) or torch._functionalize_was_storage_changed(wrapped):
            raise NeedsAot("an input's sizes or storage change")
        if torch._functionalize_has_data_mutation(wrapped):
            rows.mutations.append({"input": k, **rows.tensor(torch._from_functional_tensor(wrapped))})
            mutated.append(k)
    storages = [_storage(v) for _, v, _ in run.inputs if isinstance(v, torch.Tensor)]
    if mutated and len(set(storages)) < len(storages):
        raise NeedsAot("inputs share memory and some are written")
    return tuple(mutated)

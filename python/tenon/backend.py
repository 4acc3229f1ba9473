"""torch.compile(backend="tenon"): from a Dynamo graph to a program, with gradients through AOTAutograd.

Plain inference takes the short way of capture.py, and its program is what Dynamo calls: no wrapper between. Everything else
goes through AOTAutograd with the library's min-cut partitioner. A graph that Tenon cannot compile runs eagerly as a whole:
logged, counted in `fallbacks`, an error with fail_on_fallback.
"""

import contextlib
import functools
import json
import logging
import os
import pathlib
import tempfile
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import torch
from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func
from torch._guards import TracingContext

from tenon import _native, fx
from tenon.capture import Captured, NeedsAot, dynamo_inputs, origins, record, with_views
from tenon.host import Host
from tenon.options import parse_options, run_threads

log = logging.getLogger("tenon")
fallbacks: Counter = Counter()  # whole graphs that ran eagerly, by reason, since the process began


@functools.cache
def _own_rows() -> frozenset[str]:
    """Names of the operators that Tenon has a row for."""
    return frozenset(_native.aten_names().split())


@functools.cache
def decomposition(op) -> Callable | None:
    """torch's core decomposition of an operator that Tenon has no row for; None keeps the operator whole."""
    if fx.target_name(op) in _own_rows():
        return None
    return _core_table().get(op)


@functools.cache
def _core_table() -> dict:
    """Costs about 0.1 s when it is first made, so nothing makes it before an operator without a row turns up."""
    from torch._decomp import core_aten_decompositions

    return dict(core_aten_decompositions())


@functools.cache
def decomposition_table() -> dict:
    """The table that AOTAutograd and export take: torch's core decompositions without Tenon's rows."""
    own = _own_rows()
    return {op: rule for op, rule in _core_table().items() if fx.target_name(op) not in own}


def build(captured: Captured, options: dict, alone: bool = False) -> _native.Program:
    """Compiles a captured graph. `alone`: no Dynamo guards stand before its calls, so they check more.

    _native.CompileError carries the status name and the message.
    """
    host = Host(captured.inputs)
    with _shown(options) as options:
        program = _native.Program(
            captured.json,
            captured.origin,
            captured.ret,
            captured.mutated,
            options,
            run_threads(options),
            host,
            captured.constants,
            alone,
        )
    host.program = weakref.ref(program)
    program.ret = captured.ret
    if log.isEnabledFor(logging.DEBUG):
        log.debug("stages: %s", json.loads(program.report).get("stages"))
    return program


@contextlib.contextmanager
def _shown(options: dict) -> Iterator[dict]:
    """The options of one compile. Under TORCH_LOGS="output_code" what it generates goes to torch's log: loops of each kernel, then the plan
    that calls them, as the compiler dumps them. The logger stands below torch's own, which is the one that has a handler."""
    code = torch._logging.getArtifactLogger("torch.tenon", "output_code")
    if not code.isEnabledFor(logging.DEBUG):
        yield options
        return
    with tempfile.TemporaryDirectory(prefix="tenon") as folder:
        root = pathlib.Path(options.get("dump_dir") or os.environ.get("TENON_DUMP") or folder)
        before = set(root.glob("graph*"))
        yield options | {"dump_dir": str(root)}
        for path in sorted(p for new in set(root.glob("graph*")) - before for p in new.iterdir()):
            if path.suffix in (".nest", ".tnplan"):
                code.debug("%s\n%s", path.name, path.read_text())


def from_graph(
    gm: torch.fx.GraphModule, origin: dict[int, str], name: str = "fwd", writes: Sequence[int] = (), dense: set[str] = frozenset()
) -> Captured:
    """An ATen graph of AOTAutograd or export as a Captured. Unsupported gives the reason.

    `writes` names inputs whose new values are the graph's first outputs; inputs of `dense` are made row-major on every call.
    """
    rows = fx.Writer(gm, origin, name, dense)
    rows.mutations += [{"input": k, **v} for k, v in zip(writes, rows.outputs)]
    rows.outputs = rows.outputs[len(writes) :]
    number: dict[str, int] = {}
    ret = [None if v is None else number.setdefault(json.dumps(v), len(number)) for v in rows.outputs]
    rows.outputs = [json.loads(v) for v in number]
    mutated = tuple(m["input"] for m in rows.mutations)
    return Captured(rows.text(), origins(rows.inputs), tuple(ret), mutated, rows.inputs, rows.constants)


class Backend:
    """One way of compiling: options, and optionally a function that is told every report and whole-graph fallback."""

    __name__ = "tenon"

    def __init__(self, options: dict, listener: Callable | None = None):
        self.options, self.listener = options, listener
        self.dense: set[str] = set()  # results of the forward program whose strides need not be those that tracing saw

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: list) -> Callable:
        """A callable over the graph's inputs, as Dynamo wants it."""
        try:
            captured = record(gm, dynamo_inputs(gm), decomposition)
        except NeedsAot as why:
            log.debug("through AOTAutograd: %s", why)
            return self._aot(gm, example_inputs)
        except Exception as why:  # tracing failed: the long way says it better, or succeeds
            log.debug("short capture failed, through AOTAutograd: %s: %s", type(why).__name__, why)
            return self._aot(gm, example_inputs)
        return self._compile(lambda: captured, gm.forward)

    def _aot(self, gm, example_inputs) -> Callable:
        from torch._functorch.partitioners import min_cut_rematerialization_partition

        return aot_module_simplified(
            gm,
            example_inputs,
            fw_compiler=functools.partial(self._aten, "fwd"),
            bw_compiler=torch._dynamo.disable(functools.partial(self._aten, "bwd")),
            inference_compiler=functools.partial(self._aten, "infer"),
            decompositions=decomposition_table(),
            keep_inference_input_mutations=True,
            partition_fn=min_cut_rematerialization_partition,
        )

    def _aten(self, name: str, gm: torch.fx.GraphModule, example_inputs: list) -> Callable:
        def captured():
            return from_graph(gm, _static_origins(gm, name), "bwd" if name == "bwd" else "fwd", dense=self.dense)

        program = self._compile(captured, make_boxed_func(gm.forward))
        if name == "fwd" and isinstance(program, _native.Program):
            self._note_dense(gm, program)
        return program

    def _note_dense(self, gm: torch.fx.GraphModule, program) -> None:
        """Views of inputs have the strides that tracing saw; the backward graph takes everything else row-major."""
        aliases = program.aliases()
        for node, at in zip(gm.graph.output_node().args[0], program.ret):
            if isinstance(node, torch.fx.Node) and at is not None and aliases[at] < 0:
                self.dense.add(node.name)

    def _compile(self, captured: Callable[[], Captured], eager: Callable) -> Callable:
        try:
            graph = captured()
            program = build(graph, self.options)
        except fx.Unsupported as why:
            return self._fall_back("TN_E_UNSUPPORTED", str(why), eager)
        except _native.CompileError as why:
            return self._fall_back(*why.args, eager)
        if self.listener:
            self.listener(json.loads(program.report))
        return with_views(program, graph.views) if graph.views else program

    def _fall_back(self, code: str, message: str, eager: Callable) -> Callable:
        text = f"{code}: {message}"
        if self.options.get("fail_on_fallback") or os.environ.get("TENON_FAIL_ON_FALLBACK", "0") not in ("", "0"):
            raise _native.CompileError(code, message)
        fallbacks[text] += 1
        log.warning("this graph runs eagerly: %s", text)
        if self.listener:
            self.listener({"error": text})
        return eager


def _static_origins(gm: torch.fx.GraphModule, name: str) -> dict[int, str]:
    """Which placeholders are parameters or buffers, by AOTAutograd's own metadata."""
    context = TracingContext.try_get()
    meta = context.fw_metadata if context else None
    if meta is None:
        return {}
    static = set(meta.static_input_indices)
    if name != "bwd":
        return {k: "param" for k in static}
    names = {f"primals_{k + 1}" for k in static}
    places = gm.graph.find_nodes(op="placeholder")
    return {k: "param" for k, node in enumerate(places) if node.name in names}


def compile_fx_entry(gm: torch.fx.GraphModule, example_inputs: list, *, options: dict | None = None, mode: str | None = None) -> Callable:
    """The entry point that torch finds by name. ValueError: an option or mode that Tenon does not know."""
    return Backend(parse_options(options, mode))(gm, example_inputs)

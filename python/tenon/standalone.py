"""tenon.compile: own capture through torch.export, and a call without Dynamo.

The result looks parameters up in their modules on every call, so in-place changes, replaced parameters and moved data are all
seen; guards on sizes and dtypes are the program's. A module that changed shape (a replaced submodule, train() instead of
eval()) is an error that says so.
"""

import functools
from collections.abc import Callable

import torch
from torch.export import graph_signature as sig
from torch.utils import _pytree as pytree

from tenon import backend
from tenon._native import CompileError
from tenon.capture import Captured, NeedsAot, record, with_views
from tenon.fx import Unsupported
from tenon.options import parse_options


def compile(module: torch.nn.Module, example_args: tuple, dynamic_shapes=None, options: dict | None = None) -> Callable:
    """Compiles `module` for inference with positional arguments like `example_args`; results carry no gradients.

    `dynamic_shapes` is torch.export's. Errors: what torch.export raises for code it cannot trace; tenon.CompileError.
    Calls raise ValueError when sizes, strides or values differ from what was compiled, TypeError for other types.
    """
    opts = parse_options(options)
    with torch.no_grad():
        ep = torch.export.export(module, tuple(example_args), dynamic_shapes=dynamic_shapes, strict=False)
        try:
            captured = _capture(ep)
        except Unsupported as why:
            raise CompileError("TN_E_UNSUPPORTED", str(why)) from why
        program = backend.build(captured, opts, alone=True)
    fixed = _fixed_values(ep)
    single = _is_leaf(ep.call_spec.out_spec) and len(captured.ret) == 1 and not captured.views
    entries = tuple(_entries(module, ep))
    program.lift(entries, tuple(_unchanged(module, ep)), single)
    plain = not captured.views and not fixed and _is_flat(ep.call_spec.in_spec) and (single or _is_tuple(ep.call_spec.out_spec))
    if plain:
        return program
    call = with_views(program, captured.views, functools.partial(_inputs, entries)) if captured.views else program
    return _Structured(call, ep.call_spec, fixed)


def _inputs(entries: tuple, args: tuple) -> list:
    """The program's inputs of a call, as its lift finds them."""
    rest = iter(args)
    return [e[0][e[1]] if e else next(rest) for e in entries]


def _capture(ep) -> Captured:
    places = ep.graph.find_nodes(op="placeholder")
    inputs = {n: (_value(n, spec), _origin(spec)) for n, spec in zip(places, ep.graph_signature.input_specs)}
    try:
        return record(ep.graph_module, inputs, backend.decomposition)
    except NeedsAot as why:
        backend.log.debug("through torch.export's decompositions: %s", why)
    return _decomposed(ep.run_decompositions(backend.decomposition_table()))


def _decomposed(ep) -> Captured:
    """A functional export: its first outputs are the new values of what it writes in place."""
    origin = {k: _origin(s) for k, s in enumerate(ep.graph_signature.input_specs)}
    names = [s.arg.name for s in ep.graph_signature.input_specs]
    targets = {s.target: s.arg.name for s in ep.graph_signature.input_specs if s.target}
    writes = []
    for spec in ep.graph_signature.output_specs:
        if spec.kind in (sig.OutputKind.BUFFER_MUTATION, sig.OutputKind.USER_INPUT_MUTATION):
            writes.append(names.index(targets.get(spec.target, spec.target)))
    return backend.from_graph(ep.graph_module, origin, writes=writes)


def _origin(spec) -> str | None:
    kind = spec.kind
    if kind == sig.InputKind.USER_INPUT:
        return "input" if isinstance(spec.arg, (sig.TensorArgument, sig.SymIntArgument)) else None
    if kind in (sig.InputKind.PARAMETER, sig.InputKind.BUFFER, sig.InputKind.CONSTANT_TENSOR):
        return "param" if kind == sig.InputKind.PARAMETER else "buffer"
    raise backend.fx.Unsupported(f"export input of kind {kind.name}")


def _value(node, spec) -> object:
    return node.meta["val"] if _origin(spec) else spec.arg.value


def _entries(module, ep):
    """Where each program input comes from: (dict, key), or None for an argument of the call."""
    for spec in ep.graph_signature.input_specs:
        if _origin(spec) is None:
            continue
        if spec.kind == sig.InputKind.USER_INPUT:
            yield None
        elif spec.target in ep.constants and spec.kind == sig.InputKind.CONSTANT_TENSOR:
            yield ep.constants, spec.target
        else:
            path, _, name = spec.target.rpartition(".")
            owner = module.get_submodule(path)
            yield (owner._parameters if spec.kind == sig.InputKind.PARAMETER else owner._buffers), name


def _unchanged(module, ep):
    """Dictionary entries that must stay the same objects: the modules on the way to parameters, and the training flag."""
    yield module.__dict__, "training", module.training
    seen = set()
    for spec in ep.graph_signature.input_specs:
        parts = spec.target.split(".")[:-1] if spec.target and spec.kind != sig.InputKind.USER_INPUT else []
        owner = module
        for k, part in enumerate(parts):
            if part not in owner._modules:
                break
            if tuple(parts[: k + 1]) not in seen:
                yield owner._modules, part, owner._modules[part]
                seen.add(tuple(parts[: k + 1]))
            owner = owner._modules[part]


def _fixed_values(ep) -> dict[int, object]:
    """Flat arguments that are no tensors: number -> the value that was compiled in."""
    users = [s for s in ep.graph_signature.input_specs if s.kind == sig.InputKind.USER_INPUT]
    return {k: s.arg.value for k, s in enumerate(users) if _origin(s) is None}


def _is_leaf(spec) -> bool:
    return spec.num_nodes == 1 and spec.num_leaves == 1


def _is_tuple(spec) -> bool:
    return spec.type is tuple and all(_is_leaf(spec.child(k)) for k in range(spec.num_children))


def _is_flat(spec) -> bool:
    return _is_tuple(spec.child(0)) and spec.child(1).num_leaves == 0


class _Structured:
    """A program behind torch's pytrees: for arguments or results that are no plain tensors."""

    def __init__(self, program, call_spec, fixed: dict[int, object]):
        self.program, self.spec, self.fixed = program, call_spec, fixed

    def __call__(self, *args, **kwargs):
        flat, spec = pytree.tree_flatten((args, kwargs))
        if spec != self.spec.in_spec:
            raise ValueError(f"TN_E_ARG: arguments of structure {spec}, compiled for {self.spec.in_spec}")
        for k, want in self.fixed.items():
            if flat[k] != want:
                raise ValueError(f"TN_E_ARG: argument {k} was compiled in as {want!r}, got {flat[k]!r}")
        out = self.program(*[v for k, v in enumerate(flat) if k not in self.fixed])
        return pytree.tree_unflatten(out if isinstance(out, tuple) else [out], self.spec.out_spec)

"""tenon.export: a PyTorch module or exported program as a package, to be run without PyTorch.

The program is captured by torch.export and made functional; parameters, buffers and constants become constants of the package. An operator that Tenon
cannot take apart is an error that names it: no framework is there when a package runs."""

import os

import torch
from torch.export import ExportedProgram
from torch.export import graph_signature as sig

from tenon import backend, fx, standalone
from tenon._model import ModelError
from tenon._model import fx as compile_fx
from tenon.model import Model, _array, _from_torch


def _constants(ep, rows: list[dict]) -> list:
    """For each input of the graph: its value as (elem, buffer), or None for an argument of the call."""
    values = {}
    for spec in ep.graph_signature.input_specs:
        if spec.kind == sig.InputKind.USER_INPUT:
            continue
        value = ep.constants[spec.target] if spec.target in ep.constants else ep.state_dict[spec.target]
        values[spec.arg.name] = _array(_from_torch(value.detach().cpu()), 0)
    return [values.get(row["name"]) for row in rows]


def _graph(ep) -> tuple[str, list, dict]:
    written = [s for s in ep.graph_signature.output_specs if s.kind != sig.OutputKind.USER_OUTPUT]
    if written:
        raise fx.Unsupported(f"the program gives out more than results ({written[0].kind.name}): call eval() and torch.no_grad() first")
    origin = {k: standalone._origin(s) for k, s in enumerate(ep.graph_signature.input_specs)}
    rows = fx.Writer(ep.graph_module, {k: v for k, v in origin.items() if v}, "model")
    return rows.text(), _constants(ep, rows.inputs), rows.constants


def _compile(model, args, dynamic_shapes, options, path, threads):
    with torch.no_grad():
        ep = model if isinstance(model, ExportedProgram) else torch.export.export(model, tuple(args or ()), dynamic_shapes=dynamic_shapes, strict=False)
        ep = ep.run_decompositions(backend.decomposition_table())
        try:
            text, constants, kept = _graph(ep)
        except fx.Unsupported as why:
            error = ModelError(str(why))
            error.code = "TN_E_UNSUPPORTED"
            raise error from why
        native = compile_fx(text, constants, options, path, threads)
        del kept  # the text holds addresses of these
    return native


def export(model, args=None, path=None, *, dynamic_shapes=None, targets="native", dump_dir=None, threads=0):
    """Writes `model` (a module with example arguments, or a torch.export program) to the package `path`; without a path it gives a tenon.Model.

    targets: "native", or levels: "x86-64-v3,x86-64-v4,amx,aarch64". dynamic_shapes: torch.export's. The model's inputs are named as the program's."""
    options = {"targets": targets if path else None, "dump_dir": dump_dir}
    native = _compile(model, args, dynamic_shapes, options, os.fspath(path) if path else None, threads)
    return None if path else Model(native)

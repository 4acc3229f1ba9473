"""tenon.explain: every node's fate, with the four gates that decided it."""

import json
from collections import Counter
from collections.abc import Callable

import torch

from tenon.backend import Backend
from tenon.options import parse_options

_GATES = ("dtype", "list", "rule", "group")


class Report:
    """What became of a model: `graphs` are the compile reports, `break_reasons` where capture was cut."""

    def __init__(self, graphs: list[dict], break_reasons: list[str]):
        self.graphs, self.break_reasons = graphs, break_reasons

    @property
    def break_count(self) -> int:
        """Graph breaks: graphs beyond the first."""
        return max(0, len(self.graphs) - 1)

    @property
    def nodes(self) -> list[dict]:
        """Rows of all graphs: name, target, where, fate, detail, gates."""
        return [node for graph in self.graphs for node in graph.get("nodes", [])]

    @property
    def fallbacks(self) -> list[tuple[str, str]]:
        """(operator, reason) of every node that torch runs; ("graph", message) for a graph that runs eagerly as a whole."""
        rows = [(n["target"], n.get("detail") or "") for n in self.nodes if _kind(n) == "fallback"]
        return rows + [("graph", g["error"]) for g in self.graphs if "error" in g]

    def counts(self) -> dict[str, int]:
        """How many nodes met each fate."""
        return dict(Counter(_kind(n) for n in self.nodes))

    def __str__(self) -> str:
        lines = [f"{len(self.graphs)} graphs, {self.break_count} breaks: {_totals(self.counts())}"]
        lines += [f"  break: {reason}" for reason in self.break_reasons]
        for k, graph in enumerate(self.graphs):
            lines += ["", f"graph {k}" + (f" runs eagerly: {graph['error']}" if "error" in graph else "")]
            lines += _table(graph.get("nodes", []))
        return "\n".join(lines)

    __repr__ = __str__

    def to_json(self) -> str:
        """The reports as JSON text."""
        return json.dumps({"graphs": self.graphs, "break_reasons": self.break_reasons})


def _kind(node: dict) -> str:
    return node["fate"].split("(")[0].split(":")[0]


def _totals(counts: dict[str, int]) -> str:
    return ", ".join(f"{fate} {n}" for fate, n in sorted(counts.items())) or "no nodes"


def _table(nodes: list[dict]) -> list[str]:
    rows = [["node", "operator", *_GATES, "fate", "where"]]
    for n in nodes:
        gates = [_gate(g) for g in (n.get("gates") or [None] * 4)]
        fate = n["fate"] + (f": {n['detail']}" if n.get("detail") else "")
        rows.append([n["name"], n["target"], *gates, fate, n.get("where") or ""])
    widths = [max(len(r[c]) for r in rows) for c in range(len(rows[0]))]
    return ["  ".join(cell.ljust(w) for cell, w in zip(row, widths)).rstrip() for row in rows]


def _gate(value) -> str:
    return {None: "-", True: "pass", False: "fail"}.get(value, value) if not isinstance(value, str) else value


def explain(model: Callable, options: dict | None = None) -> Callable[..., Report]:
    """explain(model)(*args, **kwargs) runs `model` once, compiled for the purpose, and gives its Report.

    A module in eval mode is explained for inference, whatever the caller's grad mode. Compiled code that the model already has
    is neither used nor dropped. Errors: those of the options, and what the model itself raises.
    """
    checked = parse_options(options)

    def run(*args, **kwargs) -> Report:
        reports: list[dict] = []
        reasons: list[str] = []
        programs: list[Callable] = []

        def compiler(gm, example_inputs):
            reason = getattr(gm, "compile_subgraph_reason", None)
            if reason is not None and reason.graph_break:
                reasons.append(str(reason.reason).splitlines()[0])
            programs.append(Backend(checked, reports.append)(gm, example_inputs))
            k = len(programs) - 1
            return lambda *a: programs[k](*a)

        training = isinstance(model, torch.nn.Module) and model.training
        with torch.set_grad_enabled(training and torch.is_grad_enabled()):
            torch.compile(model, backend=compiler, isolate_recompiles=True)(*args, **kwargs)
        programs.clear()  # Dynamo keeps the callables, not what they held
        return Report(reports, reasons)

    return run

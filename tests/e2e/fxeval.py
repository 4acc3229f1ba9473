"""Drives evalfx: FX graphs of small functions through the importer, the decompositions and the reference kernels, against eager torch."""

import importlib.util
import json
import operator
import os
import pathlib
import subprocess

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, GraphModule

ROOT = pathlib.Path(__file__).resolve().parents[2]
EVALFX = pathlib.Path(os.environ.get("TENON_EVALFX", ROOT / os.environ.get("BUILD", "build") / "tests" / "kernels" / "evalfx"))
_spec = importlib.util.spec_from_file_location("tenon_fx", ROOT / "python" / "tenon" / "fx.py")
fx = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(fx)

TOLERANCE = {  # rtol, atol: the reference kernels round like the dtype; sums of f16/bf16 differ in the last place
    torch.float64: (1e-9, 1e-11),
    torch.float32: (1e-5, 2e-6),
    torch.float16: (2e-3, 1e-3),
    torch.bfloat16: (1.6e-2, 1e-2),
}


class TenonError(Exception):
    """evalfx refused; args: code, words."""


class Server:
    """One evalfx process; asked again and again."""

    process = None
    last_graph = ""

    def ask(self, json_text: str, inputs: list) -> list:
        if not EVALFX.exists():
            pytest.skip(f"no {EVALFX.name}: build first")
        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen([EVALFX], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        tensors = [t if isinstance(t, torch.Tensor) else torch.tensor(t) for t in inputs]
        data = [_bytes(t) for t in tensors]
        text = json_text.encode()
        head = [f"{len(text)} {len(data)}"] + [" ".join(map(str, (len(b), *t.shape))) for b, t in zip(data, tensors)]
        self.process.stdin.write("\n".join(head).encode() + b"\n" + text + b"".join(data))
        self.process.stdin.flush()
        line = self.process.stdout.readline().decode().split()
        if not line:
            raise RuntimeError(f"evalfx died: {self.process.wait()}")
        if line[0] == "error":
            raise TenonError(line[1], self.process.stdout.read(int(line[2])).decode())
        results = []
        for _ in range(int(line[1])):
            name, size, *shape = self.process.stdout.readline().decode().split()
            raw = self.process.stdout.read(int(size))
            dtype = fx.DTYPE_OF[name]
            t = torch.frombuffer(bytearray(raw), dtype=dtype) if raw else torch.empty(0, dtype=dtype)
            results.append(t.reshape([int(s) for s in shape]))
        n = int(self.process.stdout.readline().decode().split()[1])
        self.last_graph = self.process.stdout.read(n).decode()
        return results


def _bytes(t: torch.Tensor) -> bytes:
    t = t.detach().contiguous()
    return bytes(t.reshape(-1).view(torch.uint8).numpy()) if t.numel() else b""


server = Server()


def single(op, args, kwargs):
    """A graph of one operator call on the tensors in args and kwargs; returns the module and the tensors in order."""
    graph, tensors = Graph(), []
    mode = FakeTensorMode(allow_non_fake_inputs=True)

    def lower(v, fake):
        if isinstance(v, torch.Tensor):
            tensors.append(v)
            node = graph.placeholder(f"x{len(tensors)}")
            node.meta["val"] = mode.from_tensor(v)
            return (node, node.meta["val"])
        if isinstance(v, (list, tuple)):
            pairs = [lower(x, fake) for x in v]
            return ([p[0] for p in pairs], [p[1] for p in pairs])
        return (v, v)

    low = [lower(a, mode) for a in args]
    low_kw = {k: lower(v, mode) for k, v in kwargs.items()}
    with mode:
        val = op(*[a[1] for a in low], **{k: v[1] for k, v in low_kw.items()})
    node = graph.call_function(op, tuple(a[0] for a in low), {k: v[0] for k, v in low_kw.items()})
    node.meta["val"] = val
    if isinstance(val, (list, tuple)):
        outs = []
        for i, v in enumerate(val):
            item = graph.call_function(operator.getitem, (node, i))
            item.meta["val"] = v
            outs.append(item)
    else:
        outs = [node]
    graph.output(outs)
    return GraphModule(torch.nn.Module(), graph), tensors


def portable(writer) -> str:
    """The writer's text with constants as bytes: evalfx is another process."""
    graph = json.loads(writer.text())
    for row in graph["constants"]:
        del row["ptr"]
        row["hex"] = _bytes(writer.constants[row["name"]]).hex()
    return json.dumps(graph)


def flat(value) -> list:
    if isinstance(value, (list, tuple)):
        return [x for v in value for x in flat(v)]
    return [value]


def compare(got: torch.Tensor, want: torch.Tensor, tol=None):
    assert got.dtype == want.dtype and got.shape == want.shape, (got.dtype, got.shape, want.dtype, want.shape)
    rtol, atol = tol or TOLERANCE.get(want.dtype, (0, 0))
    torch.testing.assert_close(got, want, rtol=rtol, atol=atol, equal_nan=True)


def check_op(op, args, kwargs=None, results=None, tol=None):
    """op on args through evalfx equals eager. results: numbers of the results to compare (default all)."""
    kwargs = kwargs or {}
    gm, tensors = single(op, args, kwargs)
    want = flat(op(*args, **kwargs))
    if results is not None:
        out = next(n for n in gm.graph.nodes if n.op == "output")
        out.args = ([out.args[0][k] for k in results],)
        want = [want[k] for k in results]
        gm.graph.eliminate_dead_code()
    got = server.ask(portable(fx.Writer(gm)), tensors)
    assert len(got) == len(want)
    for g, w in zip(got, want):
        compare(g, w, tol)


def check_fn(fn, args, dynamic=False, tol=None, decompositions=None):
    """fn traced by make_fx through evalfx equals eager; dynamic: traced with symbolic sizes, then also run on `args` doubled by the caller."""
    from torch.fx.experimental.proxy_tensor import make_fx

    gm = make_fx(lambda *a: flat(fn(*a)), tracing_mode="symbolic" if dynamic else "fake", decomposition_table=decompositions, _allow_non_fake_inputs=True)(*args)
    text = portable(fx.Writer(gm))

    def run(values):
        want = flat(fn(*values))
        got = server.ask(text, list(values))
        assert len(got) == len(want)
        for g, w in zip(got, want):
            compare(g, w, tol)

    run(args)
    return run

"""Drives evalref: writes a graph as text, runs it, gives the results back as torch tensors."""
import os
import pathlib
import subprocess
import tempfile

import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
EVALREF = pathlib.Path(os.environ.get("TENON_EVALREF", ROOT / os.environ.get("BUILD", "build") / "tests" / "kernels" / "evalref"))
NAME = {torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16", torch.int64: "i64",
        torch.int32: "i32", torch.int16: "i16", torch.int8: "i8", torch.uint8: "u8", torch.bool: "bool",
        torch.uint16: "u16", torch.uint32: "u32", torch.uint64: "u64"}
DTYPE = {v: k for k, v in NAME.items()}
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]


class TenonError(Exception):
    pass


def ty(dtype, shape):
    return f"{NAME[dtype]}[{','.join(str(d) for d in shape)}]"


def to_bytes(t):
    return t.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if t.numel() else b""


def from_bytes(data, dtype, shape):
    n = torch.Size(shape).numel() * dtype.itemsize
    if n == 0:
        return torch.empty(shape, dtype=dtype), data
    return torch.frombuffer(bytearray(data[:n]), dtype=dtype).reshape(shape), data[n:]


def run_text(text, inputs, outs, syms=()):
    """Runs graph text on tensors; outs: (dtype, shape) of each result in the file."""
    if not EVALREF.exists():
        pytest.skip(f"no {EVALREF.name}: build first")
    with tempfile.TemporaryDirectory() as d:
        d = pathlib.Path(d)
        (d / "g.tn").write_text(text)
        (d / "in.bin").write_bytes(b"".join(to_bytes(t) for t in inputs))
        r = subprocess.run([EVALREF, d / "g.tn", d / "in.bin", d / "out.bin", *syms], capture_output=True, text=True)
        if r.returncode == 1:
            raise TenonError(r.stderr.strip() + "\n" + text)
        assert r.returncode == 0, r.stderr
        data = (d / "out.bin").read_bytes()
    res = []
    for dtype, shape in outs:
        t, data = from_bytes(data, dtype, shape)
        res.append(t)
    assert not data, "more bytes than results"
    return res


def attr_text(v):
    if isinstance(v, bool):
        return "true" if v else "false"
    if isinstance(v, torch.dtype):
        return NAME[v]
    if isinstance(v, (list, tuple)):
        return "[" + ", ".join(attr_text(x) for x in v) + "]"
    if isinstance(v, str):
        return f'"{v}"'
    return repr(v)


def run_op(op, inputs, outs, **attrs):
    """One node; outs: (dtype, shape) list. Returns the list of results."""
    names = [f"%a{i}" for i in range(len(inputs))]
    args = ", ".join(f"{n}: {ty(t.dtype, t.shape)} input" for n, t in zip(names, inputs))
    types = [ty(*o) for o in outs]
    results = [f"%r{i}" for i in range(len(outs))]
    left = ", ".join(f"{r}: {t}" for r, t in zip(results, types))
    alist = ", ".join(f"{k}={attr_text(v)}" for k, v in attrs.items())
    body = f"  {left} = {op} {', '.join(names)}" + (f" {{{alist}}}" if alist else "")
    text = f"graph @t({args}) -> ({', '.join(types)}) {{\n{body}\n  return {', '.join(results)}\n}}\n"
    return run_text(text, inputs, outs)


def same(got, want, ulp=0, atol=0.0):
    """Equal bit values up to `ulp` steps of the dtype (NaN equals NaN, zeros by sign only when ulp is 0)."""
    assert got.shape == want.shape and got.dtype == want.dtype, (got.shape, want.shape, got.dtype, want.dtype)
    if not got.dtype.is_floating_point:
        bits = torch.int64 if got.dtype == torch.uint64 else torch.int32 if got.dtype == torch.uint32 else torch.int16 if got.dtype == torch.uint16 else got.dtype
        assert torch.equal(got.contiguous().view(bits), want.contiguous().view(bits)), (got, want)  # torch compares no wide unsigned ones
        return
    g, w = got.double(), want.double()
    ok = (g == w) | (g.isnan() & w.isnan())
    if ulp or atol:
        fin = torch.finfo(got.dtype)
        step = torch.maximum(w.abs() * fin.eps, torch.tensor(fin.smallest_normal * fin.eps, dtype=torch.float64))
        ok |= (g - w).abs() <= ulp * step + atol
    assert ok.all(), f"{(~ok).sum().item()} differ, first: got {g[~ok][:4].tolist()}, want {w[~ok][:4].tolist()}"

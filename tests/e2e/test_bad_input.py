"""Odd and wrong inputs: the answer is eager's, or an error with a code. Never a crash, and never silence about a graph that runs eagerly."""

import copy
import ctypes
import json
import math
import os
import pathlib
import subprocess
import sys

import pytest
import tenon
import torch
import torch.nn.functional as F
from tenon import backend
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("BUILD", "build")
NAN, INF = math.nan, math.inf
r = torch.randn


def flat(value):
    return [x for v in value for x in flat(v)] if isinstance(value, (tuple, list)) else [value]


def same(f, *args, dynamic=None, eager=0):
    """f compiled equals f; `eager`: graphs that ran eagerly because Tenon has no place for them."""
    torch._dynamo.reset()
    backend.fallbacks.clear()
    with torch.no_grad():
        want = flat(f(*args))
        got = flat(torch.compile(f, backend="tenon", dynamic=dynamic)(*args))
    for a, b in zip(got, want, strict=True):
        assert (a.dtype, a.shape, a.device) == (b.dtype, b.shape, b.device)
        if b.device.type == "cpu":
            bits = b.dtype.is_floating_point and b.dtype.itemsize == 1
            torch.testing.assert_close(a.float() if bits else a, b.float() if bits else b, rtol=1e-4, atol=1e-5, equal_nan=True)
    assert sum(backend.fallbacks.values()) == eager, backend.fallbacks
    assert all(text.startswith("TN_E_UNSUPPORTED: ") for text in backend.fallbacks)
    return got


def refused(f, *args, match=None):
    """Eager refuses, and so does the compiled function, with an exception of torch's or ours."""
    torch._dynamo.reset()
    with torch.no_grad():
        with pytest.raises(Exception):
            f(*args)
        with pytest.raises(Exception, match=match):
            torch.compile(f, backend="tenon")(*args)


class Twice(nn.Module):
    def forward(self, x):
        return x * 2


# ---- dtypes and devices without a place ----

OTHERS = [torch.complex64, torch.complex128, torch.float8_e4m3fn, torch.float8_e5m2]


@pytest.mark.parametrize("dtype", OTHERS, ids=str)
def test_dtype_of_an_input(dtype):
    same(lambda x: x.to(torch.float64 if not dtype.is_complex else torch.complex128) + 1, torch.ones(3, 4).to(dtype), eager=1)


@pytest.mark.parametrize("dtype", OTHERS, ids=str)
def test_dtype_of_a_result(dtype):
    same(lambda x: ((x * 2).to(dtype), x + 1), torch.ones(3, 4), eager=1)


def test_dtype_between():
    """A graph whose inputs and results have a place keeps what is complex inside to torch."""
    same(lambda x: torch.fft.fft(x).abs().softmax(-1) * 2, r(4, 8))
    same(lambda x: torch.view_as_complex(x).abs() + 1, r(4, 8, 2))


def test_dtype_of_a_parameter():
    same(nn.Linear(5, 3, dtype=torch.complex64), r(4, 5, dtype=torch.complex64), eager=1)


@pytest.mark.parametrize("make", [lambda: torch.ones(3, dtype=torch.complex64), lambda: torch.ones(3).to(torch.float8_e5m2), lambda: torch.ones(3, device="meta")])
def test_no_place_can_be_an_error(make):
    with torch.no_grad(), pytest.raises(Exception, match="TN_E_UNSUPPORTED"):
        torch.compile(lambda x: x * 2, backend="tenon", options={"fail_on_fallback": True})(make())
    with pytest.raises(tenon.CompileError) as refusal:
        tenon.compile(Twice(), (make(),))
    assert refusal.value.args[0] == "TN_E_UNSUPPORTED"


def test_other_devices():
    same(lambda x: x * 2 + 1, r(3, 3, device="meta"), eager=1)
    same(lambda x: (x * 2).to("meta"), r(3, 3), eager=1)
    refused(lambda x, y: x * 2 + y, r(3, 3, device="meta"), r(3, 3))


def test_other_layouts():
    same(lambda x: x.to_dense() + 1, r(3, 3).to_sparse())
    same(lambda x: x.dequantize() + 1, torch.quantize_per_tensor(r(3), 0.1, 0, torch.qint8))
    same(lambda x: x.real * 2, r(3, dtype=torch.complex64).conj(), eager=1)


def test_lazily_negated_tensors():
    """Their memory holds the negative of what they are."""
    negated, plain = r(3, dtype=torch.complex64).conj().imag, r(3)
    assert negated.is_neg() and not same(lambda x: x * 2, negated, eager=1)[0].is_neg()
    f = torch.compile(lambda x: x * 2, backend="tenon")
    for x in (plain, negated, plain, negated.clone().requires_grad_(), negated.detach().requires_grad_()):
        torch.testing.assert_close(f(x).detach(), x.detach() * 2)
    with torch.no_grad(), pytest.raises(ValueError, match="TN_E_ARG: input . has its negative bit set"):
        tenon.compile(Twice(), (plain,))(negated)


# ---- shapes ----

def test_wrong_shapes_and_indices():
    refused(torch.matmul, r(3, 4), r(5, 6))
    refused(torch.add, r(3, 4), r(5))
    refused(torch.matmul, r(3, 4), r(4, 5).double())
    refused(nn.Conv2d(3, 4, 3), r(1, 2, 8, 8))
    refused(lambda x: x.view(5), r(6))
    refused(lambda x: x.amax(0), r(0, 4))
    refused(lambda x: x.max(), r(0, 4))
    refused(lambda x: x.argmin(), r(0))
    refused(lambda x, i: x[i], r(3, 4), torch.tensor([3]), match="TN_E_INDEX")
    refused(lambda x, i: x[i], r(3, 4), torch.tensor([-4]), match="TN_E_INDEX")
    refused(lambda x, i: x.gather(1, i), r(3, 4), torch.full((3, 4), 9), match="TN_E_INDEX")
    refused(lambda x: x.expand(2**45, 3) + 1, r(3))  # no machine has this much memory


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8])
def test_integers_divided_by_zero(dtype):
    x, y, zero = torch.arange(1, 41).to(dtype), torch.ones(40, dtype=dtype), torch.zeros((), dtype=dtype)
    y[33] = 0
    for f in (torch.floor_divide, torch.remainder, torch.fmod, lambda x, y: torch.div(x, y, rounding_mode="trunc")):
        refused(f, x, y, match="^ZeroDivisionError$")
        refused(f, x, zero, match="^ZeroDivisionError$")
        refused(lambda x: f(x, 0), x, match="^ZeroDivisionError$")
        same(f, x, y + (y == 0))
        same(lambda x: f(x, 3), x)
        same(f, x[:0], zero)
    same(lambda x, y: x / y, x, y)
    same(lambda x, y: x.float() % y, x, y)


def test_a_compiled_function_outlives_a_wrong_call():
    f = torch.compile(lambda x, i: x[i] * 2, backend="tenon")
    x = r(4, 3)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(f(x, torch.tensor([1, -1])), x[[1, -1]] * 2)
            with pytest.raises(IndexError):
                f(x, torch.tensor([1, 7]))


EMPTY = {
    "linear": (nn.Linear(4, 3), (0, 4)),
    "conv": (nn.Conv2d(3, 4, 3), (0, 3, 8, 8)),
    "batch norm": (nn.BatchNorm2d(3).eval(), (0, 3, 4, 4)),
    "max pool": (nn.MaxPool2d(2), (0, 3, 8, 8)),
    "adaptive pool": (nn.AdaptiveAvgPool2d(2), (0, 3, 8, 8)),
    "interpolation": (lambda x: F.interpolate(x, scale_factor=2), (0, 3, 4, 4)),
    "layer norm": (nn.LayerNorm(4), (0, 4)),
    "layer norm of nothing": (lambda x: F.layer_norm(x, [0]), (4, 0)),
    "softmax": (lambda x: (x.softmax(0), x.softmax(1), x.log_softmax(-1)), (0, 4)),
    "sums": (lambda x: (x.sum(), x.sum(0), x.mean(0), x.prod(0), x.any(), x.all(), x.amax(1), x.argmax(1), x.std(0)), (0, 4)),
    "order": (lambda x: (x.sort(0), x.cumsum(0), x.flip(0), x.topk(2, 1)), (0, 4)),
    "views": (lambda x: (x.t() + 1, x.reshape(2, 0, 2) * 2, x.split([0, 4], 1), torch.cat([x, x]), torch.stack([x, x]), x.new_zeros(0, 2) + 1), (0, 4)),
    "attention": (lambda x: F.scaled_dot_product_attention(x, x, x), (1, 2, 0, 8)),
    "products": (lambda x: (x @ x.mT, x.mT @ x, torch.bmm(x, x.mT), torch.einsum("bij,bij->b", x, x)), (2, 0, 4)),
    "no batch": (lambda x: (x @ x.mT, torch.bmm(x, x.mT)), (0, 3, 4)),
    "data-dependent": (lambda x: x.nonzero() + 1, (0, 4)),
    "picks": (lambda x: (x[:, torch.tensor([1, 1])], x[torch.zeros(0, dtype=torch.int64)], x.index_select(1, torch.tensor([3]))), (0, 4)),
}


@pytest.mark.parametrize("name", EMPTY)
def test_zero_sizes(name):
    f, shape = EMPTY[name]
    same(f, r(shape))


def test_zero_sizes_among_others():
    same(torch.matmul, r(3, 0), r(0, 5))
    same(lambda a, b, c: torch.addmm(a, b, c), r(5), r(3, 0), r(0, 5))
    same(lambda a, b: torch.cat([a, b, a]), r(0, 4), r(2, 4))
    same(nn.Embedding(5, 3), torch.zeros(0, 2, dtype=torch.int64))
    same(lambda q, k: F.scaled_dot_product_attention(q, k, k), r(1, 2, 5, 8), r(1, 2, 0, 8))
    same(nn.LSTM(3, 4), r(2, 0, 3))
    same(lambda x: (x * 2 + 1).sum(0), r(0, 4), dynamic=True)
    torch._dynamo.reset()
    f = torch.compile(lambda x: (x * 2).softmax(-1).sum(0), backend="tenon", dynamic=True)
    with torch.no_grad():
        for n in (7, 0, 3, 1):
            x = r(n, 5)
            torch.testing.assert_close(f(x), (x * 2).softmax(-1).sum(0))


def test_no_dims():
    same(lambda x: (x + 1, x * x, x.sum(), x.exp(), x.softmax(0), x.sort()[0], x.max(), x.argmax(), x.cumsum(0), x.view(1, 1), x.expand(2, 2), x.clone()), torch.tensor(2.5))
    same(lambda x: (x + 1, x // 2, x % 2, x.float() / 3, x << 1), torch.tensor(7))
    same(lambda x: (~x, x & x, x.any(), x.int()), torch.tensor(True))
    same(lambda x, y: (x * y, torch.where(y > 0, x, y), y + x.item() if not torch.compiler.is_compiling() else y + x), torch.tensor(0.5), r(3, 4))
    same(torch.dot, r(4), r(4))
    same(lambda x: x.sum() * 2 + x.mean(), r(3, 4))
    same(lambda x, i: x[i], r(5, 3), torch.tensor(-2))


def test_many_dims():
    same(lambda x: x * 2 + x.sum(0), torch.ones(*[2] * 12))
    same(lambda x: x * 2, torch.ones(*[1] * 17), eager=1)


# ---- memory ----

def test_strides():
    same(lambda a, b: (a @ b, a + b.t(), F.linear(a, a), a.softmax(0), a.sum(1)), r(6, 5).t(), r(6, 5))
    same(lambda x: (x.sum(0), x.softmax(-1), x @ x.t(), x * 2), r(1, 5).expand(4, 5))
    same(lambda x: (x * 2, x.sum(1), x.softmax(0), x @ x.t()), r(8, 12)[::2, 1::3])
    same(lambda x: (x * 2, x.sum()), torch.arange(10.0).as_strided((4, 4), (1, 1)))
    same(lambda x: x * 2 + 1, r(100)[3:90])
    same(lambda x: (x * 2, x.view(-1)[0]), torch.tensor(3.0).expand(1, 1))
    images = r(2, 4, 8, 8).to(memory_format=torch.channels_last)
    same(nn.Sequential(nn.Conv2d(4, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 1)).eval(), images)
    same(nn.LSTM(5, 4), r(3, 7, 5).transpose(0, 1))


def test_results_lie_as_eagers_do():
    images, plain = r(2, 4, 8, 8).to(memory_format=torch.channels_last), r(2, 4, 8, 8)
    conv = nn.Conv2d(4, 8, 3)
    for f, *args in [
        (conv, images),
        (nn.Sequential(nn.Conv2d(4, 16, 1), nn.BatchNorm2d(16), nn.ReLU()).eval(), images),
        (nn.Conv2d(4, 4, 3, groups=4), images),
        (conv.to(memory_format=torch.channels_last), plain),
        (lambda x: (x.relu(), F.max_pool2d(x, 2), F.avg_pool2d(x, 2), torch.cat([x, x], 1), F.interpolate(x, scale_factor=2), x.sum((2, 3))), images),
        (lambda x, y: x.permute(2, 0, 1) + y, r(3, 4, 5), r(5, 3, 4)),
        (lambda x: (x.t() * 2, torch.relu(x.t()), (x @ x.t()).t(), x.t().clone(), x * 2), r(3, 5)),
    ]:
        with torch.no_grad():
            want = flat(f(*args))
        assert [t.stride() for t in same(f, *args)] == [t.stride() for t in want], f


def test_addresses_off_the_grain_of_their_type():
    for dtype in (torch.float32, torch.float64, torch.int16, torch.bfloat16):
        x = torch.frombuffer(bytearray(1000), dtype=dtype, count=64, offset=1)
        x.copy_(torch.arange(64))
        same(lambda v: (v * 2 + 1, v.view(8, 8).sum(1), v.flip(0), torch.cat([v, v])), x)
        if dtype.is_floating_point:
            same(lambda v: (v.view(8, 8) @ v.view(8, 8).t(), v.view(8, 8).softmax(1)), x)


def test_inputs_that_overlap():
    base = r(20)
    same(lambda x, y: (x + y, x @ y), base[:12], base[4:16])

    def write(x, y):
        x.add_(y)
        return x * 2

    ours, eager = torch.arange(20.0), torch.arange(20.0)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(write, backend="tenon")(ours[:10], ours[10:]), write(eager[:10], eager[10:]))
    torch.testing.assert_close(ours, eager)


def test_tensors_of_other_modes():
    with torch.inference_mode():
        x = torch.ones(3)
    same(lambda v: v * 2, x)
    same(lambda v: v * 2, nn.Parameter(r(3)))
    same(lambda vs: [v * 2 for v in vs], [r(3), r(4)])


# ---- values ----

ODD = torch.tensor([[NAN, 1, -1, INF], [-INF, 0.0, -0.0, 2], [NAN] * 4, [INF] * 4, [-INF] * 4, [1e38, -1e38, 1e-45, 3e38]])


def test_values_through_functions():
    same(lambda x: (x.relu(), x.exp(), x.tanh(), x.sigmoid(), x.clamp(-1, 1), x.sqrt(), x.abs(), x.sign(), x.log(), x.erf(), x.round(), F.silu(x), F.softplus(x), F.leaky_relu(x), x.nan_to_num(), x.clamp(-1e4, 1e4).sin()), ODD)
    same(lambda x: (x.isnan(), x.isinf(), x == x, x < 0, torch.where(x > 0, x, -x), torch.maximum(x, x.flip(1)), torch.minimum(x, x.flip(0)), x.isfinite().logical_not()), ODD)
    same(lambda x: torch.where(x.isfinite(), x, 0).clamp(-9, 9).int(), ODD)


def test_values_through_reductions():
    same(lambda x: (x.sum(1), x.mean(1), x.amax(1), x.amin(1), x.argmax(1), x.prod(1), x.any(1), x.softmax(1), x.log_softmax(1), x.logsumexp(1), x.cumsum(1), x.sort(1)[0]), ODD)
    same(lambda x: (F.layer_norm(x, [4]), F.rms_norm(x, [4]), F.normalize(x)), ODD[:5])


def test_values_through_products():
    same(lambda x: (x @ x.t(), F.linear(x, x)), ODD[:5])
    same(lambda x, w: (F.max_pool2d(x[None, None], 2), F.conv2d(x[None, None], w)), ODD[:5], r(2, 1, 3, 3))
    same(lambda x: F.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None]), ODD[:5])
    same(lambda q, m: F.scaled_dot_product_attention(q, q, q, attn_mask=m), r(1, 1, 4, 8), torch.zeros(4, 4, dtype=torch.bool))


def test_whole_numbers_at_their_ends():
    for dtype in (torch.int64, torch.int32, torch.int8, torch.uint8):
        top = torch.iinfo(dtype)
        x = torch.tensor([top.max, top.min, 0, 5], dtype=dtype)
        same(lambda v: (v + 1, v * v, -v, v - 7, v // 3, v % 3, v.abs(), v.sum(), v.max(), v.float()), x)


@pytest.mark.parametrize("cut", [lambda x: torch.relu(x)[:, 2:], lambda x: (torch.relu(x)[:, 1:3], torch.relu(x) + 1)])
def test_a_cut_of_nothing(cut):
    x = torch.empty(0, 4)
    with torch.no_grad():
        for want, got in zip(torch.utils._pytree.tree_leaves(cut(x)), torch.utils._pytree.tree_leaves(torch.compile(cut, backend="tenon")(x))):
            assert got.shape == want.shape and got.dtype == want.dtype
    from tenon import backend

    assert not backend.fallbacks


def test_division_by_zero_is_an_error_as_in_eager():
    x, zero = torch.tensor([7, -7, torch.iinfo(torch.int64).min]), torch.tensor([0, 0, -1])
    with torch.no_grad():
        for f in (torch.floor_divide, torch.remainder, torch.fmod, lambda a, b: torch.div(a, b, rounding_mode="trunc")):
            torch._dynamo.reset()
            compiled = torch.compile(f, backend="tenon")
            for run in (f, compiled):
                with pytest.raises(RuntimeError, match="(?i)zero"):
                    run(x, zero)
            assert torch.equal(compiled(x[2:], zero[2:]), x[2:] * 0) or torch.equal(compiled(x[2:], zero[2:]), x[2:])  # -2^63 / -1 wraps


# ---- texts, through the C interface and the command line ----

WRONG = [None, True, -1, 2**62, 2**63 - 1, 1e300, "", "x", "s0", "f32", [], [[]], {}, {"ref": "nowhere"}, [1] * 40]


def spoilt(graph):
    """The JSON of a graph with one place after another removed or replaced: as bytes, with a repeatable choice of the values."""
    places = []

    def walk(value, path):
        places.append(path)
        if isinstance(value, dict):
            for k, v in value.items():
                walk(v, (*path, k))
        elif isinstance(value, list):
            for k, v in enumerate(value):
                walk(v, (*path, k))

    walk(graph, ())
    step = max(1, len(places) // 150)
    for n, path in enumerate(places[1::step]):
        for value in (WRONG[n % len(WRONG)], WRONG[(n * 7 + 3) % len(WRONG)], spoilt):
            new = copy.deepcopy(graph)
            at = new
            for k in path[:-1]:
                at = at[k]
            if value is spoilt:
                del at[path[-1]]
            else:
                at[path[-1]] = value
            yield json.dumps(new).encode()


def texts(folder, suffix=""):
    """Every seed whole, cut short, with bytes that no text has, and doubled."""
    for path in sorted((ROOT / folder).rglob("*" + suffix)):
        data = path.read_bytes() if path.is_file() else b""
        yield data
        for k in range(1, 40):
            yield data[: len(data) * k // 40]
        for k in range(20):
            at = len(data) * k // 20
            yield data[:at] + bytes([k * 13 % 256, 0, 255]) + data[at + 1 :]
        yield data + data
    for odd in (b"", b"\0", b"\xff\xfe", b"{" * 100000, b"[" * 100000, b"(" * 100000, b'{"a":' * 50000, b"graph @g(" + b"%x: f32[" * 20000, b'"' + b"x" * 10**6, b"9" * 10**6, b"\n" * 10**6):
        yield odd


def feed_the_library():
    """Runs as a process of its own: counts answers by code."""
    lib = ctypes.CDLL(str(BUILD / "libtenon.so"))
    lib.tn_compiled_error.restype = lib.tn_status_name.restype = ctypes.c_char_p
    lib.tn_compiled_program.restype = ctypes.c_void_p
    for f in (lib.tn_compiled_error, lib.tn_compiled_program, lib.tn_compiled_destroy):
        f.argtypes = [ctypes.c_void_p]
    counts = {}

    def ask(compile_, text):
        out = ctypes.c_void_p()
        code = compile_(text, ctypes.c_size_t(len(text)), None, ctypes.byref(out))
        said, program = lib.tn_compiled_error(out), lib.tn_compiled_program(out)
        assert bool(said) == (code != 0) and (program is not None) == (code == 0), (code, said, text)
        lib.tn_compiled_destroy(out)
        name = lib.tn_status_name(code).decode()
        counts[name] = counts.get(name, 0) + 1

    for text in texts("tests/fuzz/seeds/fx"):
        ask(lib.tn_compile_fx, text)
    for path in sorted((ROOT / "tests/fuzz/seeds/fx").iterdir()):
        for text in spoilt(json.loads(path.read_bytes())):
            ask(lib.tn_compile_fx, text)
    for folder in ("tests/fuzz/seeds/graph", "examples"):
        for text in texts(folder, ".tn"):
            ask(lib.tn_compile_text, text)
    print(json.dumps(counts))


def test_texts_through_the_library():
    if not (BUILD / "libtenon.so").exists():
        pytest.skip("no library: build first")
    done = subprocess.run([sys.executable, "-W", "ignore", __file__], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    counts = json.loads(done.stdout)
    assert counts["TN_OK"] > 20 and counts["TN_E_PARSE"] > 1000 and set(counts) <= {"TN_OK", "TN_E_PARSE", "TN_E_VERIFY", "TN_E_UNSUPPORTED", "TN_E_ARG"}, counts


@pytest.mark.parametrize("text", [b"", b"graph", b"\0\xff", b"graph @g() -> () { return }}", b"graph @g(%x: f32[3] input) -> (f32[4]) {\n  return %x\n}\n",
                                  b"graph @g(%x: f33[3] input) -> (f33[3]) {\n  return %x\n}\n", b"graph @g(%x: f32[-3] input) -> (f32[-3]) {\n  return %x\n}\n",
                                  b"graph @g(%x: f32[3] input) -> (f32[3]) {\n  %0: f32[3] = nothing %x\n  return %0\n}\n",
                                  b"graph @g(%x: f32[3] input) -> (f32[3]) {\n  %0: f32[3] = add %0, %x\n  return %0\n}\n"])
def test_texts_through_the_command_line(text):
    program = BUILD / "tenon"
    if not program.exists():
        pytest.skip("no program: build first")
    done = subprocess.run([program, "opt", "-"], input=text, capture_output=True)
    assert done.returncode == 1 and not done.stdout
    assert b"tenon opt: standard input: TN_E_" in done.stderr


def test_files_that_are_none(tmp_path):
    program = BUILD / "tenon"
    if not program.exists():
        pytest.skip("no program: build first")
    for command in ("opt", "kernel"):
        for path in (tmp_path, tmp_path / "none", pathlib.Path("/dev/null")):
            done = subprocess.run([program, command, path], capture_output=True, text=True)
            assert done.returncode == 1 and done.stderr.startswith(f"tenon {command}: ")
    for words in (["opt"], ["opt", "--pass"], ["opt", "-x", "-"], ["nothing"], []):
        assert subprocess.run([program, *words], capture_output=True).returncode == 2


if __name__ == "__main__":
    feed_the_library()

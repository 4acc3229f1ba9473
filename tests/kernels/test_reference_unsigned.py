"""Reference kernels on u16, u32 and u64 against NumPy, with values on both sides of the sign bit. torch has these dtypes as
storage only, so test_reference.py leaves them out."""
import itertools

import numpy as np
import pytest
import torch
from tenonref import DTYPE, run_op, run_text, same

UNSIGNED = [np.uint16, np.uint32, np.uint64]
I64 = torch.int64


def T(a):
    return torch.from_numpy(np.ascontiguousarray(a))


def run(op, arrays, want, **attrs):
    """One result, equal to `want`."""
    want = T(want)
    (got,) = run_op(op, [T(a) for a in arrays], [(want.dtype, want.shape)], **attrs)
    same(got, want)


def edges(dtype):
    top = int(np.iinfo(dtype).max)
    return np.array([0, 1, 2, 3, 7, 10, 100, top // 2 - 1, top // 2, top // 2 + 1, top // 2 + 2, top - 1, top, top // 3, top // 7 * 5], dtype)


def rnd(shape, dtype, seed=3):
    return np.random.default_rng(seed).integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)


def power(a, b):
    m = int(np.iinfo(a.dtype).max) + 1
    return np.array([pow(int(x), int(y), m) for x, y in zip(*(v.ravel() for v in np.broadcast_arrays(a, b)))], a.dtype).reshape(np.broadcast_shapes(a.shape, b.shape))


UNARY = {"neg": lambda a: (0 - a).astype(a.dtype), "abs": lambda a: a, "relu": lambda a: a, "sign": np.sign, "not": np.invert}
BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.maximum, "min": np.minimum, "and": np.bitwise_and, "or": np.bitwise_or,
          "xor": np.bitwise_xor, "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "pow": power}
DIVISION = {"floordiv": np.floor_divide, "truncdiv": np.floor_divide, "remainder": np.remainder, "fmod": np.fmod}


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_scalars(dtype):
    v = edges(dtype)
    with np.errstate(over="ignore"):
        for name, f in UNARY.items():
            run(name, [v], f(v))
        for name, f in BINARY.items():
            run(name, [v[:, None], v[None]], f(v[:, None], v[None]))
        for name, f in DIVISION.items():
            run(name, [v[:, None], v[None, 1:]], f(v[:, None], v[None, 1:]))
            run(name, [v, v * dtype(0)], v * dtype(0))  # by zero: 0, as scalar.def says
    bits = np.arange(np.dtype(dtype).itemsize * 8).astype(dtype)
    run("shl", [v[:, None], bits[None]], np.left_shift(v[:, None], bits[None]))
    run("shr", [v[:, None], bits[None]], np.right_shift(v[:, None], bits[None]))
    run("shr", [v, np.full_like(v, np.iinfo(dtype).max)], np.zeros_like(v))
    c = np.arange(v.size) % 2 == 0
    run("select", [c, v, v[::-1]], np.where(c, v, v[::-1]))


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_casts(dtype):
    v = edges(dtype)
    for to in [np.int64, np.int32, np.int16, np.int8, np.uint8, np.bool_, np.float64, np.float32, *UNSIGNED]:
        run("cast", [v], v.astype(to), dtype=T(np.zeros(1, to)).dtype)
    s = np.array([-1, -2, -128, 127, 5, 0], np.int8)
    run("cast", [s], s.astype(dtype), dtype=T(v).dtype)
    top = float(np.iinfo(dtype).max)
    f = np.array([0.0, -0.0, 0.99, -0.99, 1.5, 1234.75, -5, -1e30, np.nan, top * 4, np.inf, -np.inf, 2.0 ** (np.iinfo(dtype).bits - 1)])
    m = int(np.iinfo(dtype).max)
    for wide in (np.float64, np.float32):  # out of range: to the nearest end
        run("cast", [f.astype(wide)], np.array([0, 0, 0, 0, 1, 1234, 0, 0, 0, m, m, 0, m // 2 + 1], dtype), dtype=T(v).dtype)


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_reduce_and_scan(dtype):
    x = rnd((3, 4, 5), dtype)
    fns = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}
    for (name, f), d in itertools.product(fns.items(), range(3)):
        run("reduce", [x], f.reduce(x, axis=d, dtype=dtype), combiner=name, dims=[d], keepdim=False)
        run("scan", [x], f.accumulate(x, axis=d, dtype=dtype), combiner=name, dim=d)
    for name, d in itertools.product(("argmax", "argmin"), range(3)):
        run("reduce", [x], getattr(x, name)(axis=d), combiner=name, dims=[d], keepdim=False)
    y = x[0]
    want = np.lib.stride_tricks.sliding_window_view(y, 2, 1)[:, ::2].max(-1)
    run("window", [y], want, combiner="max", kernel=[2], stride=[2], padding=[0, 0], dilation=[1], size=[want.shape[1]])
    empty = np.zeros((0, 3), dtype)
    run("reduce", [empty], np.zeros(3, dtype), combiner="max", dims=[0], keepdim=False)
    run("reduce", [empty], np.full(3, np.iinfo(dtype).max, dtype), combiner="min", dims=[0], keepdim=False)


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_order(dtype):
    for n in (5, 300):
        x = rnd((2, n, 3), dtype, n)
        x[0, 3] = x[0, 1]
        for desc in (False, True):
            key = np.iinfo(dtype).max - x if desc else x
            order = np.argsort(key, axis=1, kind="stable")
            want = np.take_along_axis(x, order, 1)
            v, i = run_op("sort", [T(x)], [(T(x).dtype, x.shape), (I64, x.shape)], dim=1, descending=desc, stable=True)
            same(v, T(want))
            same(i, T(order))
            v, _ = run_op("topk", [T(x)], [(T(x).dtype, (2, 4, 3)), (I64, (2, 4, 3))], k=[4], dim=1, largest=desc)
            same(v, T(want[:, :4]))


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_places(dtype):
    x = rnd((4, 5), dtype)
    run("take", [x, np.array([3, -1, 0])], x[[3, -1, 0]], dim=0)
    idx = np.random.default_rng(1).integers(-5, 5, (4, 6))
    run("gather", [x, idx], np.take_along_axis(x, idx % 5, 1), dim=1)
    run("index", [x, np.array([1, 2]), np.array([0, -1])], x[[1, 2], [0, -1]], dims=[0, 1])
    src = rnd((4, 6), dtype, 9)
    for name, f in {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}.items():
        want = x.copy()
        f.at(want, (np.arange(4)[:, None], idx % 5), src)
        run("scatter", [x, idx, src], want, dim=1, combiner=name)
    want = x.copy()
    np.add.at(want, [1, 1, 2], src[:3, :5])
    run("index_put", [x, src[:3, :5], np.array([1, 1, 2])], want, dims=[0], accumulate=True)
    want[[3, 0]] = 7
    run("index_put", [want, np.array(7, dtype), np.array([3, 0])], want, dims=[0], accumulate=False)


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_products_and_layout(dtype):
    a, b = rnd((3, 5), dtype), rnd((5, 4), dtype, 8)
    run("contract", [a, b], (a[:, :, None] * b[None]).sum(1, dtype=dtype), labels="ik,kj->ij")
    x, w = rnd((1, 1, 6), dtype), rnd((1, 1, 3), dtype, 2)
    want = (np.lib.stride_tricks.sliding_window_view(x[0, 0], 3) * w[0, 0]).sum(1, dtype=dtype)
    run("conv", [x, w], want[None, None], stride=[1], padding=[0, 0], dilation=[1], groups=1)
    run("permute", [a], a.T, perm=[1, 0])
    run("concat", [a, a], np.concatenate([a, a], 1), dim=1)
    run("pad", [a], np.pad(a, ((1, 0), (0, 2)), constant_values=9), lo=[1, 0], hi=[0, 2], value=9)
    t = T(a).dtype
    run("iota", [], np.arange(5).astype(dtype) * dtype(3) + dtype(2), size=[5], start=2, step=3, dtype=t)
    run("full", [], np.full((2, 2), np.iinfo(dtype).max, dtype), shape=[2, 2], value=-1, dtype=t)  # an integer attribute wraps


def test_constant_text():
    """Data of a constant and a fill beyond 2^63 are what the text says."""
    text = ('graph @t() -> (u64[2], u64[]) {\n  %c: u64[2] = const {data="ffffffffffffffff0000000000000080"}\n'
            '  %f: u64[] = full {shape=[], value=-9223372036854775807, dtype=u64}\n  return %c, %f\n}\n')
    c, f = run_text(text, [], [(DTYPE["u64"], (2,)), (DTYPE["u64"], ())])
    assert c.numpy().tolist() == [2**64 - 1, 2**63] and f.numpy().item() == 2**63 + 1

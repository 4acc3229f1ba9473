"""Reference kernels against PyTorch: float64 (rounded once) for floats, exact for the rest. The reference of scalar functions
expands over src/base/scalar.def, so a new row without a line in TORCH fails."""
import itertools
import math
import re

import numpy
import pytest
import torch
import torch.nn.functional as F
from tenonref import DTYPE, FLOATS, INTS, ROOT, TenonError, run_op, run_text, same, ty

B = torch.bool
ALL = FLOATS + INTS + [B]


@pytest.fixture(autouse=True)
def seeded():
    """The same values whatever other tests run."""
    torch.manual_seed(7)


# ---- scalar functions ----
def exact(fn, np_fn):
    """numpy's for doubles: torch's vectorised fmod gives NaN for large quotients."""
    def run(a, b):
        if not a.is_floating_point():
            return fn(a, b)
        with numpy.errstate(all="ignore"):
            return torch.from_numpy(np_fn(a.numpy(), b.numpy()))
    return run


TORCH = {
    "neg": torch.neg, "abs": torch.abs, "sign": torch.sign,
    "ceil": torch.ceil, "floor": torch.floor, "round": torch.round, "trunc": torch.trunc, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt,
    "reciprocal": torch.reciprocal, "exp": torch.exp, "exp2": torch.exp2, "expm1": torch.expm1, "log": torch.log, "log2": torch.log2,
    "log10": torch.log10, "log1p": torch.log1p, "sin": torch.sin, "cos": torch.cos, "tan": torch.tan, "asin": torch.asin,
    "acos": torch.acos, "atan": torch.atan, "sinh": torch.sinh, "cosh": torch.cosh, "tanh": torch.tanh, "asinh": torch.asinh,
    "acosh": torch.acosh, "atanh": torch.atanh, "erf": torch.erf, "erfc": torch.erfc, "sigmoid": torch.sigmoid, "relu": torch.relu,
    "isnan": torch.isnan, "isinf": torch.isinf, "not": torch.bitwise_not, "divisor": torch.clone, "add": torch.add, "sub": torch.sub, "mul": torch.mul,
    "div": torch.div, "floordiv": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "truncdiv": lambda a, b: torch.div(a, b, rounding_mode="trunc"), "remainder": exact(torch.remainder, numpy.remainder),
    "fmod": exact(torch.fmod, numpy.fmod),
    "pow": torch.pow, "atan2": torch.atan2, "max": torch.maximum, "min": torch.minimum, "fmax": torch.fmax, "fmin": torch.fmin,
    "and": torch.bitwise_and, "or": torch.bitwise_or, "xor": torch.bitwise_xor, "shl": torch.bitwise_left_shift,
    "shr": torch.bitwise_right_shift, "eq": torch.eq, "ne": torch.ne, "lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge,
    "select": torch.where,
}
ROWS = re.findall(r'^TN_SCALAR\(\w+, "(\w+)", (\d), (\w), "(\w+)"\)', (ROOT / "src/base/scalar.def").read_text(), re.M)


def values(dtype):
    if dtype == B:
        return torch.tensor([False, True])
    if dtype.is_floating_point:
        f = torch.finfo(dtype)
        edge = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 3.0, -7.25, 1e-3, -1e-3, 20.0, -20.0, math.inf, -math.inf, math.nan,
                f.max, f.min, f.tiny, f.smallest_normal / 2]
        return torch.cat([torch.tensor(edge, dtype=torch.float64), torch.randn(40, dtype=torch.float64) * 3]).to(dtype)
    i = torch.iinfo(dtype)
    return torch.tensor([i.min, i.max, i.min + 1, 0, 1, 2, 3, 7, 100] + ([-1, -2, -3, -7, -100] if i.min else []), dtype=dtype)


@pytest.mark.parametrize("name,arity,result,domain", ROWS)
def test_scalar(name, arity, result, domain):
    fn = TORCH[name]
    for dtype in ALL:
        kind = "f" if dtype.is_floating_point else "b" if dtype == B else "i"
        if kind not in domain:
            continue
        v = values(dtype)
        args = [v[v != 0] if name == "divisor" else v]
        if arity == "2":
            w = v
            if kind == "i" and name in ("floordiv", "truncdiv", "remainder", "fmod"):
                w = w[(w != 0) & (w != (-1 if dtype != torch.uint8 else 0))]  # by zero: C unit test; MIN / -1 traps in torch
            elif name in ("shl", "shr"):
                w = torch.arange(dtype.itemsize * 8).to(dtype)
            elif kind == "i" and name == "pow":
                w = torch.tensor([0, 1, 2, 3, 5, 9], dtype=dtype)
            args = [v[:, None], w[None, :]]
        elif name == "select":
            args = [torch.tensor([True, False, True])[:, None, None], v[:, None], v[None, :]]
        wide = [a.double() if a.is_floating_point() else a for a in args]
        want = fn(*wide)
        if want.is_floating_point() and dtype != torch.float64:
            want = want.float().to(dtype)
        (got,) = run_op(name, args, [(want.dtype, want.shape)])
        same(got, want, ulp=0 if kind != "f" else 2 if dtype == torch.float64 else 1)  # f64: two libraries, each within one
        if kind == "f" and name in ("neg", "abs", "floor", "ceil", "round", "trunc", "select", "max", "relu"):  # exact ones: bits
            z = (got == 0) & (want == 0)
            if name not in ("max", "relu"):
                assert torch.equal(torch.signbit(got[z]), torch.signbit(want[z]))


def test_scalar_broadcast_and_empty():
    a, b = torch.randn(3, 1, 4), torch.randn(2, 1)
    same(run_op("add", [a, b], [(a.dtype, (3, 2, 4))])[0], a + b)
    s = torch.tensor(2.0)
    same(run_op("mul", [s, a], [(a.dtype, a.shape)])[0], a * 2)
    same(run_op("mul", [s, s], [(a.dtype, ())])[0], s * s)
    e = torch.empty(0, 4)
    same(run_op("add", [e, torch.randn(1, 4)], [(e.dtype, (0, 4))])[0], e)


@pytest.mark.parametrize("src,dst", list(itertools.product(ALL, ALL)))
def test_cast(src, dst):
    v = values(src)
    if src.is_floating_point and not dst.is_floating_point and dst != B:  # out of range: ours saturates, torch's is undefined
        v = v[v.isfinite() & (v.abs() < 100)]
        v = v.abs() if dst == torch.uint8 else v
    (got,) = run_op("cast", [v], [(dst, v.shape)], dtype=dst)
    same(got, v.to(dst))


def test_cast_saturates():
    v = torch.tensor([math.nan, math.inf, -math.inf, 1e30, -1e30])
    i = torch.iinfo(torch.int32)
    same(run_op("cast", [v], [(torch.int32, v.shape)], dtype=torch.int32)[0], torch.tensor([0, i.max, i.min, i.max, i.min], dtype=torch.int32))


# ---- create and layout ----
@pytest.mark.parametrize("dtype", ALL)
def test_create(dtype):
    same(run_op("full", [], [(dtype, (2, 3))], shape=[2, 3], value=1, dtype=dtype)[0], torch.full((2, 3), 1, dtype=dtype))
    same(run_op("full", [], [(dtype, (0,))], shape=[0], value=1, dtype=dtype)[0], torch.empty(0, dtype=dtype))
    if dtype != B:
        same(run_op("iota", [], [(dtype, (7,))], size=[7], start=3, step=2, dtype=dtype)[0], torch.arange(3, 17, 2).to(dtype))
    if dtype.is_floating_point:
        want = (torch.arange(9).double() * 0.1 - 0.5).to(dtype)
        same(run_op("iota", [], [(dtype, (9,))], size=[9], start=-0.5, step=0.1, dtype=dtype)[0], want)


def rnd(shape, dtype=torch.float32):
    if dtype == B:
        return torch.randint(0, 2, shape).bool()
    if dtype.is_floating_point:
        return torch.randn(shape).to(dtype)
    return torch.randint(-9 if torch.iinfo(dtype).min else 0, 10, shape).to(dtype)


@pytest.mark.parametrize("dtype", ALL)
def test_layout(dtype):
    x = rnd((2, 3, 4), dtype)
    one = lambda op, want, **k: same(run_op(op, [x], [(dtype, want.shape)], **k)[0], want.contiguous())
    one("copy", x)
    one("reshape", x.reshape(6, 2, 2), shape=[6, 2, 2])
    one("permute", x.permute(2, 0, 1), perm=[2, 0, 1])
    one("broadcast", x.expand(5, 2, 3, 4), shape=[5, 2, 3, 4])
    one("slice", x[:, :, 1:4:2], dim=2, start=[1], size=[2], step=2)
    one("slice", x[:, 2:2], dim=1, start=[2], size=[0], step=1)
    one("flip", x.flip(0, 2), dims=[0, 2])
    one("pad", F.pad(x, (1, 2, 0, 1, 0, 0), value=1), lo=[0, 0, 1], hi=[0, 1, 2], value=1)
    y = rnd((2, 1, 4), dtype)
    e = rnd((2, 0, 4), dtype)
    same(run_op("concat", [x, e, y, x], [(dtype, (2, 7, 4))], dim=1)[0], torch.cat([x, e, y, x], 1))
    same(run_op("concat", [x], [(dtype, x.shape)], dim=2)[0], x)
    same(run_op("broadcast", [y], [(dtype, (3, 2, 5, 4))], shape=[3, 2, 5, 4])[0], y.expand(3, 2, 5, 4).contiguous())
    s = rnd((), dtype)
    same(run_op("broadcast", [s], [(dtype, (2, 2))], shape=[2, 2])[0], s.expand(2, 2).contiguous())
    same(run_op("reshape", [s], [(dtype, (1, 1))], shape=[1, 1])[0], s.reshape(1, 1))
    same(run_op("permute", [s], [(dtype, ())], perm=[])[0], s)
    same(run_op("reshape", [e], [(dtype, (0, 9))], shape=[0, 9])[0], torch.empty((0, 9), dtype=dtype))
    same(run_op("flip", [e], [(dtype, e.shape)], dims=[1])[0], e)
    same(run_op("pad", [e], [(dtype, (2, 2, 4))], lo=[0, 1, 0], hi=[0, 1, 0], value=0)[0], torch.zeros((2, 2, 4), dtype=dtype))


# ---- reductions ----
def reduce_torch(c, x, dims, keep):
    w = x.double() if x.is_floating_point() else x
    if not dims:
        return x
    if c in ("sum", "prod"):
        if c == "sum":
            return w.sum(dims, keepdim=keep, dtype=None if x.is_floating_point() else torch.int64).to(x.dtype)
        for d in sorted(dims, reverse=True):
            w = w.prod(d, keepdim=keep, dtype=None if x.is_floating_point() else torch.int64)
        return w.to(x.dtype)
    if c in ("max", "min"):
        return getattr(w, "a" + c)(dims, keepdim=keep).to(x.dtype)
    return getattr(w, c)(dims, keepdim=keep)


@pytest.mark.parametrize("dtype", ALL)
def test_reduce(dtype):
    x = rnd((3, 4, 5), dtype)
    for c, dims, keep in itertools.product(["sum", "prod", "max", "min", "any", "all"], [[0], [1], [2], [0, 2], [2, 1], [0, 1, 2], []], [False, True]):
        if (c in ("any", "all")) != (dtype == B) and (c in ("any", "all") or c in ("sum", "prod")):
            continue
        want = reduce_torch(c, x, dims, keep)
        (got,) = run_op("reduce", [x], [(dtype, want.shape)], combiner=c, dims=dims, keepdim=keep)
        same(got, want, ulp=4 if c in ("sum", "prod") else 0, atol=1e-14 if c == "sum" else 0)
    for c, d, keep in itertools.product(["argmax", "argmin"], [0, 1, 2], [False, True]):
        a = x.to(torch.uint8) if dtype == B else x
        best = a.amax(d, keepdim=True) if c == "argmax" else a.amin(d, keepdim=True)
        want = (a == best).to(torch.uint8).argmax(d, keepdim=keep)  # the first of equals
        same(run_op("reduce", [x], [(torch.int64, want.shape)], combiner=c, dims=[d], keepdim=keep)[0], want)


def test_reduce_edges():
    e = torch.empty(0, 3)
    for c, v in {"sum": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}.items():
        same(run_op("reduce", [e], [(e.dtype, (3,))], combiner=c, dims=[0], keepdim=False)[0], torch.full((3,), v))
        same(run_op("reduce", [e], [(e.dtype, (0,))], combiner=c, dims=[1], keepdim=False)[0], torch.empty(0))
    x = torch.tensor([[1.0, math.nan, 3.0, math.nan], [-math.inf, 2.0, math.inf, math.inf]])
    for c, f in {"max": torch.amax, "min": torch.amin, "argmax": torch.argmax, "argmin": torch.argmin}.items():
        want = f(x, 1)
        same(run_op("reduce", [x], [(want.dtype, (2,))], combiner=c, dims=[1], keepdim=False)[0], want)
    big = torch.full((100000,), 0.1)  # double inside: no drift
    same(run_op("reduce", [big], [(big.dtype, ())], combiner="sum", dims=[0], keepdim=False)[0], big.double().sum().float())
    i8 = torch.full((300,), 100, dtype=torch.int8)
    same(run_op("reduce", [i8], [(torch.int8, ())], combiner="sum", dims=[0], keepdim=False)[0], torch.tensor(30000).to(torch.int8))
    with pytest.raises(TenonError, match="TN_E_VERIFY"):
        run_op("reduce", [e], [(torch.int64, (3,))], combiner="argmax", dims=[0], keepdim=False)


@pytest.mark.parametrize("dtype", FLOATS + INTS)
def test_scan(dtype):
    x = rnd((3, 4, 5), dtype)
    w = x.double() if dtype.is_floating_point else x
    for c, d in itertools.product(["sum", "prod", "max", "min"], [0, 1, 2]):
        want = {"sum": lambda: w.cumsum(d), "prod": lambda: w.cumprod(d), "max": lambda: w.cummax(d)[0], "min": lambda: w.cummin(d)[0]}[c]()
        same(run_op("scan", [x], [(dtype, x.shape)], combiner=c, dim=d)[0], want.to(dtype), ulp=1)
    e = rnd((2, 0), dtype)
    same(run_op("scan", [e], [(dtype, e.shape)], combiner="sum", dim=1)[0], e)


# ---- contractions ----
@pytest.mark.parametrize("labels,sizes", [
    ("ik,kj->ij", dict(i=3, k=5, j=4)), ("bik,bkj->bij", dict(b=2, i=3, k=5, j=4)), ("i,j->ij", dict(i=3, j=4)), ("i,i->", dict(i=6)),
    ("bhid,bhjd->bhij", dict(b=2, h=2, i=3, j=4, d=5)), ("ik,kj->ji", dict(i=3, k=5, j=4)), ("ij,kl->ik", dict(i=2, j=3, k=4, l=5)),
    ("ik,k->i", dict(i=3, k=4)), ("bij,b->ij", dict(b=2, i=3, j=4)), (",i->i", dict(i=4)), ("ikl,klj->ij", dict(i=2, k=3, l=4, j=5)),
    ("ik,kj->ij", dict(i=3, k=0, j=4)), ("ik,kj->ij", dict(i=0, k=3, j=4)), ("ik,kj->ij", dict(i=1, k=1, j=1)), ("ij,ij->ij", dict(i=3, j=4))])
def test_contract(labels, sizes):
    a, b = labels.split("->")[0].split(",")
    for dtype in FLOATS + INTS:
        x, y = rnd([sizes[c] for c in a], dtype), rnd([sizes[c] for c in b], dtype)
        wide = torch.float64 if dtype.is_floating_point else torch.int64
        want = torch.einsum(labels, x.to(wide), y.to(wide)).to(dtype)
        same(run_op("contract", [x, y], [(dtype, want.shape)], labels=labels)[0], want, ulp=1, atol=1e-15)


CONVS = [
    dict(x=(2, 3, 8), w=(4, 3, 3), stride=[1], pad=[1, 1], dil=[1], groups=1), dict(x=(1, 4, 9), w=(6, 2, 3), stride=[2], pad=[2, 0], dil=[2], groups=2),
    dict(x=(2, 3, 7, 6), w=(4, 3, 3, 2), stride=[2, 1], pad=[1, 1, 0, 2], dil=[1, 2], groups=1),
    dict(x=(1, 4, 5, 5), w=(4, 1, 3, 3), stride=[1, 1], pad=[1, 1, 1, 1], dil=[1, 1], groups=4), dict(x=(1, 2, 4, 4), w=(3, 2, 1, 1), stride=[1, 1], pad=[0] * 4, dil=[1, 1], groups=1),
    dict(x=(1, 2, 4, 5, 3), w=(3, 2, 2, 2, 3), stride=[1, 2, 1], pad=[0, 1, 1, 0, 1, 1], dil=[1, 1, 1], groups=1),
    dict(x=(0, 2, 4), w=(3, 2, 2), stride=[1], pad=[0, 0], dil=[1], groups=1), dict(x=(1, 2, 3), w=(3, 2, 1), stride=[5], pad=[9, 9], dil=[1], groups=1)]


@pytest.mark.parametrize("c", CONVS)
def test_conv(c):
    for dtype in FLOATS + [torch.int32]:
        x, w = rnd(c["x"], dtype), rnd(c["w"], dtype)
        wide = torch.float64
        flat = [v for i in reversed(range(len(c["stride"]))) for v in c["pad"][2 * i:2 * i + 2]]
        conv = [F.conv1d, F.conv2d, F.conv3d][len(c["stride"]) - 1]
        want = conv(F.pad(x.to(wide), flat), w.to(wide), None, c["stride"], 0, c["dil"], c["groups"]).to(dtype)
        (got,) = run_op("conv", [x, w], [(dtype, want.shape)], stride=c["stride"], padding=c["pad"], dilation=c["dil"], groups=c["groups"])
        same(got, want, ulp=1, atol=1e-14)


@pytest.mark.parametrize("c", [
    dict(x=(2, 3, 5), w=(3, 4, 3), stride=[2], pad=[1], dil=[1], groups=1, extra=[1]), dict(x=(1, 4, 5), w=(4, 2, 3), stride=[1], pad=[0], dil=[2], groups=2, extra=[0]),
    dict(x=(2, 3, 4, 5), w=(3, 2, 3, 2), stride=[2, 3], pad=[1, 0], dil=[1, 2], groups=1, extra=[1, 2]),
    dict(x=(1, 4, 3, 3), w=(4, 1, 2, 2), stride=[2, 2], pad=[0, 0], dil=[1, 1], groups=4, extra=[0, 0]),
    dict(x=(1, 2, 2, 3, 2), w=(2, 3, 2, 2, 2), stride=[2, 1, 2], pad=[0, 1, 0], dil=[1, 1, 1], groups=1, extra=[0, 0, 1])])
def test_convt(c):
    for dtype in FLOATS:
        x, w = rnd(c["x"], dtype), rnd(c["w"], dtype)
        conv = [F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d][len(c["stride"]) - 1]
        want = conv(x.double(), w.double(), None, c["stride"], c["pad"], c["extra"], c["groups"], c["dil"]).to(dtype)
        (got,) = run_op("convt", [x, w], [(dtype, want.shape)], stride=c["stride"], padding=[p for p in c["pad"] for _ in "lh"], dilation=c["dil"],
                        groups=c["groups"], output_padding=c["extra"])
        same(got, want, ulp=1, atol=1e-14)


def test_window():
    x = rnd((2, 3, 7, 9))
    for k, s, p, d, ceil in [((3, 3), (2, 2), (1, 1), (1, 1), False), ((2, 3), (1, 2), (0, 1), (1, 2), True), ((7, 9), (1, 1), (0, 0), (1, 1), False), ((3, 3), (2, 2), (0, 0), (1, 1), True)]:
        want = F.max_pool2d(x, k, s, p, d, ceil)
        pad = [p[0], p[0], p[1], p[1]]
        (got,) = run_op("window", [x], [(x.dtype, want.shape)], combiner="max", kernel=list(k), stride=list(s), padding=pad, dilation=list(d), size=list(want.shape[2:]))
        same(got, want)
        if d == (1, 1):
            want = F.avg_pool2d(x.double(), k, s, p, ceil, True, 1).float()
            (got,) = run_op("window", [x], [(x.dtype, want.shape)], combiner="sum", kernel=list(k), stride=list(s), padding=pad, dilation=list(d), size=list(want.shape[2:]))
            same(got, want, ulp=1, atol=1e-9)
    i = rnd((4, 10), torch.int64)
    want = F.max_pool1d(i.double(), 3, 3).to(torch.int64)
    same(run_op("window", [i], [(i.dtype, want.shape)], combiner="max", kernel=[3], stride=[3], padding=[0, 0], dilation=[1], size=[3])[0], want)


# ---- indices ----
@pytest.mark.parametrize("it", [torch.int64, torch.int32])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8, torch.float64, B])
def test_take_gather(dtype, it):
    x = rnd((4, 5, 6), dtype)
    for d in range(3):
        n = x.shape[d]
        for idx in (torch.randint(-n, n, (3,)), torch.randint(-n, n, (2, 2)), torch.tensor(-1), torch.empty(0, dtype=torch.int64)):
            want = x.index_select(d, (idx % n).reshape(-1)).reshape(*x.shape[:d], *idx.shape, *x.shape[d + 1:])
            same(run_op("take", [x, idx.to(it)], [(dtype, want.shape)], dim=d)[0], want)
        shape = [2, 3, 4]
        shape[d] = 8
        idx = torch.randint(-n, n, shape)
        want = x.gather(d, idx % n)
        same(run_op("gather", [x, idx.to(it)], [(dtype, want.shape)], dim=d)[0], want)


INDEXED = [([0], [(3,)]), ([1], [(2, 2)]), ([0, 1], [(3,), (3,)]), ([1, 2], [(2, 1), (1, 3)]), ([0, 2], [(4,), (4,)]),
           ([0, 1, 2], [(2,), (1,), ()]), ([0, 3], [(2, 2), (2,)]), ([3], [()]), ([2], [(0,)])]


@pytest.mark.parametrize("dims,shapes", INDEXED)
def test_index_and_put(dims, shapes):
    for dtype in (torch.float32, torch.float16, torch.int32, B):
        x = rnd((4, 3, 5, 2), dtype)
        idx = [torch.randint(-x.shape[d], x.shape[d], s) for d, s in zip(dims, shapes)]
        full = tuple(idx[dims.index(d)] if d in dims else slice(None) for d in range(4))
        want = x[full]
        same(run_op("index", [x, *idx], [(dtype, want.shape)], dims=dims)[0], want.contiguous())
        places = torch.arange(x.numel()).reshape(x.shape)[full].reshape(-1)
        twice = places.unique().numel() != places.numel()
        for acc, v in itertools.product((False, True), (rnd(want.shape, dtype), rnd((), dtype), rnd(want.shape[-1:], dtype))):
            if twice and not acc:
                v = rnd((), dtype)  # a place written twice: only one value has a defined result
            tol = dict(ulp=4, atol=1e-2 if dtype == torch.float16 else 1e-6) if acc else {}
            same(run_op("index_put", [x, v, *idx], [(dtype, x.shape)], dims=dims, accumulate=acc)[0], put(x, full, v, acc), **tol)


def put(x, full, v, acc):
    y = x.clone()
    if not acc:
        y[full] = v
    else:  # through flat places: bool adds are "or"
        places = torch.arange(x.numel()).reshape(x.shape)[full]
        flat, vals = y.reshape(-1), v.expand(places.shape).reshape(-1)
        for p, q in zip(places.reshape(-1).tolist(), vals):
            flat[p] = (flat[p] | q) if x.dtype == B else flat[p] + q
    return y


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int16, torch.float64])
def test_scatter(dtype):
    x = rnd((4, 5, 3), dtype)
    for d in range(3):
        shape = [3, 4, 2]
        idx = torch.stack([torch.randperm(x.shape[d])[:2] for _ in range(12)]).reshape(3, 4, 2) if d == 2 else torch.randint(0, x.shape[d], shape)
        src = rnd((4, 5, 3), dtype)
        for c in ("sum", "prod", "max", "min"):
            name = {"sum": "sum", "prod": "prod", "max": "amax", "min": "amin"}[c]
            want = x.scatter_reduce(d, idx, src, name, include_self=True)
            same(run_op("scatter", [x, idx - x.shape[d] * (idx % 2), src], [(dtype, x.shape)], dim=d, combiner=c)[0], want, ulp=4, atol=1e-1 if dtype == torch.bfloat16 else 1e-6)
        if d == 2:
            same(run_op("scatter", [x, idx, src], [(dtype, x.shape)], dim=d, combiner="set")[0], x.scatter(d, idx, src))


def test_index_errors():
    x = rnd((4, 5))
    for bad in (4, -5):
        i = torch.tensor([bad])
        for op, ins, outs, attrs in [("take", [x, i], [(x.dtype, (1, 5))], dict(dim=0)), ("gather", [x, i[:, None]], [(x.dtype, (1, 1))], dict(dim=0)),
                                     ("index", [x, i], [(x.dtype, (1, 5))], dict(dims=[0])), ("index_put", [x, x[:1], i], [(x.dtype, x.shape)], dict(dims=[0], accumulate=False)),
                                     ("scatter", [x, i[:, None], x], [(x.dtype, x.shape)], dict(dim=0, combiner="set"))]:
            with pytest.raises(TenonError, match="TN_E_INDEX"):
                run_op(op, ins, outs, **attrs)


# ---- library ----
@pytest.mark.parametrize("dtype", ALL)
def test_sort_topk(dtype):
    for n in (1, 2, 5, 48, 49, 300):
        x = rnd((2, n, 3), dtype)
        if dtype.is_floating_point and n > 4:
            x[0, 1, 0], x[0, 3, 0], x[1, 0, 1], x[1, 2, 1], x[1, 4, 1] = math.nan, math.nan, math.inf, -math.inf, -0.0
        for desc in (False, True):
            v, i = torch.sort(x, dim=1, descending=desc, stable=True)
            got_v, got_i = run_op("sort", [x], [(dtype, x.shape), (torch.int64, x.shape)], dim=1, descending=desc, stable=True)
            same(got_v, v)
            same(got_i, i)
            k = min(n, 7)
            got_v, got_i = run_op("topk", [x], [(dtype, (2, k, 3)), (torch.int64, (2, k, 3))], k=[k], dim=1, largest=desc)
            same(got_v, v[:, :k])
            same(x.gather(1, got_i), got_v)
    e = rnd((2, 0), dtype)
    run_op("sort", [e], [(dtype, e.shape), (torch.int64, e.shape)], dim=1, descending=False, stable=True)
    x = rnd((2, 3), dtype)
    run_op("topk", [x], [(dtype, (2, 0)), (torch.int64, (2, 0))], k=[0], dim=1, largest=True)


@pytest.mark.parametrize("t,b,i,h", [(1, 1, 1, 1), (5, 3, 4, 7), (3, 1, 16, 8), (40, 7, 5, 33), (0, 2, 3, 4), (2, 200, 3, 4), (7, 2, 0, 5)])
def test_lstm(t, b, i, h):
    x, w_ih, w_hh, b_ih, b_hh = torch.randn(t, b, i), torch.randn(4 * h, i), torch.randn(4 * h, h), torch.randn(4 * h), torch.randn(4 * h)
    w_hh /= h ** 0.5  # larger weights make a chaotic system, where rounding grows from step to step
    h0, c0 = torch.randn(b, h), torch.randn(b, h)
    outs = [(x.dtype, (t, b, h)), (x.dtype, (b, h)), (x.dtype, (b, h))]
    for rev in (False, True):
        hs, cs, y = h0.double(), c0.double(), torch.zeros(t, b, h, dtype=torch.float64)
        for s in (range(t - 1, -1, -1) if rev else range(t)):
            g = x[s].double() @ w_ih.double().T + b_ih.double() + hs @ w_hh.double().T + b_hh.double()
            gi, gf, gg, go = g.chunk(4, 1)
            cs = gf.sigmoid() * cs + gi.sigmoid() * gg.tanh()
            hs = go.sigmoid() * cs.tanh()
            y[s] = hs
        got = run_op("lstm", [x, w_ih, w_hh, b_ih, b_hh, h0, c0], outs, reverse=rev, hidden=[h])
        for g, w in zip(got, (y, hs, cs)):
            same(g, w.float(), atol=1e-5)


def test_lstm_is_torchs():
    m = torch.nn.LSTM(6, 9)
    x, h0, c0 = torch.randn(11, 4, 6), torch.randn(1, 4, 9), torch.randn(1, 4, 9)
    y, (hn, cn) = m(x, (h0, c0))
    got = run_op("lstm", [x, m.weight_ih_l0, m.weight_hh_l0, m.bias_ih_l0, m.bias_hh_l0, h0[0], c0[0]],
                 [(x.dtype, y.shape), (x.dtype, (4, 9)), (x.dtype, (4, 9))], reverse=False, hidden=[9])
    for g, w in zip(got, (y, hn[0], cn[0])):
        same(g, w.detach(), atol=2e-6)


@pytest.mark.parametrize("scale", [1e-4, 1.0, 30.0, 1e4])
def test_lstm_saturates(scale):
    """The cell's own exp and tanh over the whole range: one step with weights 0, so that gates are the biases."""
    h = 300
    b = torch.randn(4 * h) * scale
    z = torch.zeros
    x, h0, c0 = z(1, 1, 1), z(1, h), torch.randn(1, h) * scale
    _, hn, cn = run_op("lstm", [x, z(4 * h, 1), z(4 * h, h), b, z(4 * h), h0, c0], [(x.dtype, (1, 1, h)), (x.dtype, (1, h)), (x.dtype, (1, h))], reverse=False, hidden=[h])
    gi, gf, gg, go = b.double().chunk(4)
    kept, new = gf.sigmoid() * c0[0].double(), gi.sigmoid() * gg.tanh()
    tol = 1e-6 * (kept.abs() + new.abs()) + 1e-37 * scale  # the two may cancel
    assert ((cn[0].double() - kept - new).abs() <= tol).all()
    h_want = go.sigmoid() * (kept + new).tanh()
    assert ((hn[0].double() - h_want).abs() <= tol + 1e-6 * h_want.abs() + 1e-37).all()


# ---- graphs ----
def test_graph_fused_const_symbols_mutation():
    text = """graph @m(%x: f32[s0,3] input mutated, %y: f32[s0 + 1,3] input) -> (f32[s0,3], dim) {
  %c: f32[3] = const {data="0000803f0000004000004040"}
  %s: f32[s0,3] = slice %y {dim=0, start=[1], size=[s0], step=1}
  %f: f32[s0,3] = fused %x, %c, %s {kind="pointwise"} {
    (%a: f32[s0,3], %b: f32[3], %d: f32[s0,3])
    %e: f32[s0,3] = mul %a, %b
    %g: f32[s0,3] = add %e, %d
    yield %g
  }
  mutate %x = %s
  return %f, dim 2*s0
}
"""
    for n in (0, 1, 4):
        x, y = torch.randn(n, 3), torch.randn(n + 1, 3)
        out = run_text(text, [x, y], [(x.dtype, (n, 3)), (torch.int64, ()), (x.dtype, (n, 3))], [f"s0={n}"])
        same(out[0], x * torch.tensor([1.0, 2.0, 3.0]) + y[1:], ulp=2, atol=1e-6)
        assert out[1].item() == 2 * n
        same(out[2], y[1:])


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_rounding_ties(name):
    """Sums that fall half way between two 16-bit floats go to the even one."""
    dt = DTYPE[name]
    eps = torch.finfo(dt).eps
    a = torch.tensor([1.0, 1.0 + eps, 1.0, 2048.0], dtype=dt)
    b = torch.tensor([eps / 2, eps / 2, eps / 2 * 1.01, 1.0], dtype=dt)
    same(run_op("add", [a, b], [(dt, (4,))])[0], (a.double() + b.double()).to(dt))


def test_types_are_checked():
    x = torch.randn(2, 3)
    text = f"graph @t(%x: {ty(x.dtype, x.shape)} input) -> (f32[3,2]) {{\n  %0: f32[3,2] = relu %x\n  return %0\n}}\n"
    with pytest.raises(TenonError, match="TN_E_VERIFY.*wants f32.2,3."):
        run_text(text, [x], [])

"""uint16, uint32 and uint64 through torch.compile: equal to eager where eager has a kernel, nothing left to it."""
import pytest
import torch

import tenon

FUNCTIONS = {
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "eq": lambda x, y: x == y,
    "xor": lambda x, y: x ^ y,
    "sum": lambda x, y: x.sum(),
    "sort": lambda x, y: (x * y).sort(),
    "cumsum": lambda x, y: x.cumsum(0),
    "to float": lambda x, y: x.float() * 2 + y.double(),
    "to signed": lambda x, y: (x.to(torch.int64), y.to(torch.int32), x.to(torch.uint8)),
    "from float": lambda x, y: (x.double() * 0.5).to(x.dtype),
    "where": lambda x, y: torch.where(x == y, x, y),
    "cat": lambda x, y: torch.cat([x, y]),
    "index": lambda x, y: x[torch.tensor([1, -1])],
}


def bits(t):
    return t.contiguous().view(torch.uint8) if t.dtype in (torch.uint16, torch.uint32, torch.uint64) else t


def everything(x, y):
    return [v for f in FUNCTIONS.values() for r in [f(x, y)] for v in (r if isinstance(r, tuple) else (r,))]


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64], ids=str)
def test_like_eager(dtype):
    top = torch.iinfo(dtype).max
    x, y = torch.tensor([0, 1, 5, top // 2 + 1, top], dtype=dtype), torch.tensor([3, 1, top, 7, top], dtype=dtype)
    for k, (w, g) in enumerate(zip(everything(x, y), torch.compile(everything, backend="tenon")(x, y), strict=True)):
        assert w.dtype == g.dtype and torch.equal(bits(w), bits(g)), (k, w, g)
    torch._dynamo.reset()
    assert not tenon.explain(everything)(x, y).fallbacks

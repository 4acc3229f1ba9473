"""torch.compile(backend="tenon"): right values, few compiles, nothing stale, clear errors, nothing left behind."""

import ctypes
import gc
import logging
import os
import subprocess
import sys
import threading
import weakref

import pytest
import torch
import torch.nn.functional as F
from tenon import backend
from torch import nn


def mlp(*sizes):
    layers = [m for a, b in zip(sizes, sizes[1:]) for m in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers[:-1]).eval()


def check(model, *args, **kw):
    """One call against eager; gives the compiled model."""
    with torch.no_grad():
        want, compiled = model(*args), torch.compile(model, backend="tenon", **kw)
        torch.testing.assert_close(compiled(*args), want, rtol=1e-4, atol=1e-5)
    assert not backend.fallbacks
    return compiled


def test_by_name_without_an_import():
    code = """
import sys, torch
m = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh()).eval()
x = torch.randn(3, 8)
assert not any(n.split(".")[0] == "tenon" for n in sys.modules)
with torch.no_grad():
    torch.testing.assert_close(torch.compile(m, backend="tenon")(x), m(x))
import tenon.backend
assert not tenon.backend.fallbacks
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_tenon_does_not_import_torch():
    subprocess.run([sys.executable, "-c", "import sys, tenon; tenon.config_table(); assert 'torch' not in sys.modules"], check=True)


class Attention(nn.Module):
    def __init__(self, d=32, heads=4):
        super().__init__()
        self.heads, self.qkv, self.out, self.norm = heads, nn.Linear(d, 3 * d), nn.Linear(d, d), nn.LayerNorm(d)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).view(*x.shape[:2], 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).flatten(2))


@pytest.mark.parametrize(
    "model, shape",
    [
        (mlp(16, 32, 4), (5, 16)),
        (nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 8)).eval(), (4, 8)),
        (Attention().eval(), (2, 7, 32)),
        (
            nn.Sequential(
                nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 5)
            ).eval(),
            (2, 3, 8, 8),
        ),
        (nn.Sequential(nn.LayerNorm(12), nn.GELU(), nn.Softmax(-1)).eval(), (3, 12)),
    ],
    ids=["mlp", "norm between", "attention", "conv", "norm"],
)
def test_numerics(model, shape):
    check(model, torch.randn(shape))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.uint8, torch.bool])
def test_dtypes(dtype):
    x = torch.randint(0, 2, (4, 5)).to(dtype)
    check(lambda a: (a.float().sum(0), a * a, a == a.flip(0)), x)


def test_strides_empty_and_scalars():
    f = check(lambda a, b: (a + b.t(), a.sum(), a[:0]), torch.randn(3, 4), torch.randn(4, 3))
    assert f(torch.randn(3, 4), torch.randn(4, 3))[2].shape == (0, 4)
    check(lambda a: a.mul(2), torch.randn(6, 8)[::2, 1:5])
    check(lambda a: (a * 2, a.shape[0] * 3), torch.randn(5, 2), dynamic=True)


@pytest.mark.parametrize("dynamic, compiles", [(True, 1), (False, 3)])
def test_batch_sizes(counted, dynamic, compiles):
    compiler, graphs = counted
    model = mlp(8, 16, 2)
    with torch.no_grad():
        f = torch.compile(model, backend=compiler, dynamic=dynamic)
        for n in (4, 8, 16):
            x = torch.randn(n, 8)
            torch.testing.assert_close(f(x), model(x), rtol=1e-4, atol=1e-5)
    assert len(graphs) == compiles and not backend.fallbacks


def test_many_sizes_one_compile(counted):
    compiler, graphs = counted
    model = Attention().eval()
    with torch.no_grad():
        f = torch.compile(model, backend=compiler, dynamic=True)
        for n, t in torch.randint(2, 20, (40, 2)).tolist():
            x = torch.randn(n, t, 32)
            torch.testing.assert_close(f(x), model(x), rtol=1e-4, atol=1e-5)
    assert len(graphs) == 1


def test_graph_breaks(counted):
    compiler, graphs = counted

    def f(x):
        y = x + 1
        torch._dynamo.graph_break()
        if y.sum() > 0:
            return y * 2
        return y - 1

    with torch.no_grad():
        compiled = torch.compile(f, backend=compiler)
        for x in (torch.ones(3), -5 * torch.ones(3)):
            torch.testing.assert_close(compiled(x), f(x))
    assert len(graphs) >= 3


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(2, 3))

    def forward(self, x):
        self.seen.mul_(0.5).add_(x)
        return self.seen * 2


def test_buffer_is_written():
    ours, eager = Counter(), Counter()
    f = torch.compile(ours, backend="tenon")
    for _ in range(3):
        x = torch.randn(2, 3)
        version = ours.seen._version
        with torch.no_grad():
            torch.testing.assert_close(f(x), eager(x))
        torch.testing.assert_close(ours.seen, eager.seen)
        assert ours.seen._version > version


def test_aliases_of_inputs_and_results():
    def f(x):
        x.add_(1)
        y = x.exp()
        return x.view(-1), y[1:], y[:2].t(), y

    x = torch.randn(3, 4)
    other = x.clone()
    with torch.no_grad():
        want, got = f(other), torch.compile(f, backend="tenon", dynamic=True)(x)
    for a, b in zip(got, want):
        torch.testing.assert_close(a, b)
    assert got[0].data_ptr() == x.data_ptr()
    got[3].zero_()
    assert not got[1].any() and not got[2].any()


def changes(weight):
    """Ways in which users change parameters behind our back."""

    def swap_twice():  # the allocator may give the second tensor the first one's address
        weight.data = weight.data * 2
        weight.data = weight.data * 2

    return {
        "in place": lambda: weight.add_(1),
        "through data": lambda: weight.data.mul_(3),
        "new data": lambda: setattr(weight, "data", torch.randn_like(weight)),
        "new data twice": swap_twice,
        "to half and back": lambda: (model_of(weight).half(), model_of(weight).float()),
        "optimizer": lambda: step(weight),
    }


def model_of(weight):
    m = nn.Module()
    m.weight = weight
    return m


def step(weight):
    weight.grad = torch.ones_like(weight)
    torch.optim.SGD([weight], lr=0.5).step()


@pytest.mark.parametrize("way", list(changes(None)))
@pytest.mark.parametrize("how", ["torch.compile", "tenon.compile"])
def test_parameters_are_never_stale(way, how):
    import tenon

    model, x = mlp(64, 96, 80), torch.randn(32, 64)
    with torch.no_grad():
        f = torch.compile(model, backend="tenon") if how == "torch.compile" else tenon.compile(model, (x,))
        for _ in range(3):
            torch.testing.assert_close(f(x), model(x), rtol=1e-4, atol=1e-4)
            changes(model[0].weight)[way]()
        torch.testing.assert_close(f(x), model(x), rtol=1e-4, atol=1e-4)


def test_replaced_parameter():
    model, x = mlp(64, 96, 80), torch.randn(32, 64)
    f = check(model, x)
    model[2].weight = nn.Parameter(torch.randn(80, 96))
    with torch.no_grad():
        torch.testing.assert_close(f(x), model(x), rtol=1e-4, atol=1e-4)


class Mallinfo(ctypes.Structure):
    _fields_ = [(n, ctypes.c_size_t) for n in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]


def allocated():
    """Bytes that are allocated now, by the C library's own books: exact where resident pages are not."""
    gc.collect()
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = Mallinfo
    info = mallinfo()
    return info.uordblks + info.hblkhd


def test_dead_module_gives_its_memory_back():
    """Parameters and packed copies of a model of 64 MiB go when it does; Dynamo still has the compiled code."""
    for _ in range(2):  # the first one also leaves what torch keeps for good
        before = allocated()
        model = mlp(2048, 2048, 2048, 2048, 2048)
        f = torch.compile(model, backend="tenon")
        with torch.no_grad():
            f(torch.randn(64, 2048))
        used, died = allocated() - before, weakref.ref(model)
        assert used > 64 * 2**20
        del model, f
        kept = allocated() - before
        assert died() is None
    assert kept < 2**20, f"{used} bytes used, {kept} kept"


def test_calls_do_not_leak():
    model, x = mlp(16, 16, 4), torch.randn(2, 16)
    f = check(model, x)
    grown = []
    with torch.no_grad():
        for _ in range(4):  # something else in the process may grow once; a leak grows every time
            before, blocks = allocated(), sys.getallocatedblocks()
            for _ in range(5000):
                f(x)
            grown.append((allocated() - before, sys.getallocatedblocks() - blocks))
    assert min(n for n, _ in grown) < 5000 and min(n for _, n in grown) < 500, grown


def test_two_threads():
    model = Attention().eval()
    xs = [torch.randn(2, 9, 32) for _ in range(4)]
    f = check(model, xs[0])
    wants = [model(x).detach() for x in xs]
    bad = []

    def work(k):
        with torch.no_grad():
            for _ in range(100):
                if not torch.allclose(f(xs[k]), wants[k], rtol=1e-4, atol=1e-5):
                    bad.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not bad


def test_training_equals_eager():
    torch.manual_seed(1)
    ours = nn.Sequential(nn.Linear(8, 32, bias=False), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 1))
    eager = nn.Sequential(nn.Linear(8, 32, bias=False), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 1))
    eager.load_state_dict(ours.state_dict())
    compiled = torch.compile(ours, backend="tenon")
    optimizers = [torch.optim.Adam(m.parameters(), lr=1e-2) for m in (ours, eager)]
    for _ in range(20):
        x = torch.randn(16, 8)
        losses = []
        for model, optimizer in zip((compiled, eager), optimizers):
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), x.sum(1, keepdim=True))
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert losses[0] == pytest.approx(losses[1], rel=1e-3, abs=1e-5)
    torch.testing.assert_close(ours.state_dict(), eager.state_dict(), rtol=1e-2, atol=1e-4)
    assert not backend.fallbacks


def test_gradients_of_attention():
    """Results saved for the backward graph have strides of their own."""
    model, x = Attention(), torch.randn(2, 5, 32, requires_grad=True)
    model(x).square().sum().backward()
    want = [x.grad.clone(), *(p.grad.clone() for p in model.parameters())]
    model.zero_grad()
    x.grad = None
    torch.compile(model, backend="tenon")(x).square().sum().backward()
    for got, grad in zip([x.grad, *(p.grad for p in model.parameters())], want):
        torch.testing.assert_close(got, grad, rtol=1e-3, atol=1e-4)
    assert not backend.fallbacks


def test_input_without_memory():
    check(lambda a, b: a + b, torch._efficientzerotensor(3), torch.ones(3))


def test_options():
    model, x = mlp(8, 8, 4), torch.randn(2, 8)
    check(model, x, options={"threads": 1, "isa": "avx2"})
    for bad, error in (({"speed": 11}, "no option"), ({"threads": "two"}, "wants int"), ({"isa": "z80"}, "isa")):
        torch._dynamo.reset()
        backend.fallbacks.clear()
        with torch.no_grad(), pytest.raises(Exception, match=error):
            torch.compile(model, backend="tenon", options={**bad, "fail_on_fallback": True})(x)


def test_unknown_mode():
    with torch.no_grad(), pytest.raises(Exception, match="no mode"):
        torch.compile(mlp(4, 4), backend="tenon", mode="max-autotune")(torch.randn(2, 4))


def test_unknown_operator_runs_in_torch():
    @torch.library.custom_op("tenon_test::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice.register_fake(lambda x: torch.empty_like(x))
    check(lambda x: twice(x + 1) - 1, torch.randn(3, 4))

    @torch.library.custom_op("tenon_test::angry", mutates_args=())
    def angry(x: torch.Tensor) -> torch.Tensor:
        raise ArithmeticError("not today")

    angry.register_fake(lambda x: torch.empty_like(x))
    with torch.no_grad(), pytest.raises(ArithmeticError, match="not today"):
        torch.compile(lambda x: angry(x) + 1, backend="tenon")(torch.randn(3))


@pytest.mark.parametrize(
    "fn",
    [
        lambda x, i: (x.cumsum(0), x.cumsum(-1), x.cummax(1).values, x[0].cumprod(0)),
        lambda x, i: (x > 0).cumsum(1),
        lambda x, i: x.sort(1, descending=True),
        lambda x, i: x.topk(5, 0),
        lambda x, i: x.scatter_add(0, i, x),
        lambda x, i: x.index_put((i[0, :7],), x[:7], accumulate=True),
        lambda x, i: F.embedding_bag(i[:, :6], x, mode="sum"),
    ],
)
def test_library_kernels_on_threads(fn):
    x, i = torch.randn(300, 500), torch.randint(0, 300, (300, 500))

    class Model(nn.Module):
        def forward(self, x, i):
            return fn(x, i)

    check(Model(), x, i, options={"threads": 2})


def test_index_outside_its_table():
    model = nn.Embedding(10, 4)
    f = check(model, torch.tensor([1, 2, 3]))
    with torch.no_grad(), pytest.raises(IndexError, match="TN_E_INDEX"):
        f(torch.tensor([1, 2, 10]))


def test_nothing_in_torch_is_changed():
    """A run in the same process with another backend is what it was before."""
    code = """
import torch
from torch._functorch import config as functorch_config
import torch._decomp
def state():
    return (len(torch._decomp.decomposition_table), dict(functorch_config.get_config_copy()), dict(torch._dynamo.config.get_config_copy()),
            torch.is_grad_enabled(), torch.get_num_threads(), torch.compile, torch.Tensor.__torch_function__)
m = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()).eval()
x = torch.randn(3, 8)
eager = m(x)
torch.compile(m, backend="aot_eager")(x)
before = state()
with torch.no_grad():
    torch.compile(m, backend="tenon")(x)
torch.compile(m, backend="tenon")(x).sum().backward()
assert state() == before
assert torch.equal(m(x), eager)
torch._dynamo.reset()
torch.testing.assert_close(torch.compile(m, backend="aot_eager")(x), eager)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_logs_follow_torch_logs(caplog):
    with caplog.at_level(logging.DEBUG, "tenon"):
        check(mlp(4, 4), torch.randn(2, 4))
    assert "stages" in caplog.text


def test_output_code_is_printed(tmp_path):
    """TORCH_LOGS is read when torch is imported, so in a process of its own: kernels as loops, then the plan that launches them."""
    script = tmp_path / "run.py"
    script.write_text("import torch\ntorch.compile(lambda x: torch.softmax(x * 2, -1), backend='tenon')(torch.randn(4, 8))\n")

    def err(**env):
        r = subprocess.run([sys.executable, script], env=os.environ | env, capture_output=True, text=True, timeout=120)
        assert r.returncode == 0, r.stderr
        return r.stderr

    said = err(TORCH_LOGS="output_code")
    nest, plan = said.index("nest @tn_red_fused"), said.index("launch")
    assert "[__output_code]" in said and nest < plan and "nest" not in err(TORCH_LOGS="recompiles")

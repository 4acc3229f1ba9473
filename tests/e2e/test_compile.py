"""tenon.compile and tenon.explain."""

import pytest
import tenon
import torch
from torch import nn
from torch.export import Dim


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.drop = nn.Linear(8, 8), nn.Dropout()
        self.register_buffer("scale", torch.full((8,), 2.0))

    def forward(self, x, k=1, extra=None):
        y = self.drop(torch.relu(self.fc(x))) * self.scale * k
        return {"y": y, "parts": [y.sum(), x]} if extra else y


def close(a, b):
    torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.fixture
def net():
    return Net().eval()


@torch.no_grad()
def test_tensor_in_tensor_out(net):
    x = torch.randn(4, 8)
    f = tenon.compile(net, (x,))
    assert type(f).__name__ == "Program"
    close(f(x), net(x))
    net.scale.mul_(3)
    net.fc.bias = nn.Parameter(torch.randn(8))
    close(f(x), net(x))


@torch.no_grad()
def test_structured_results_and_fixed_values(net):
    x = torch.randn(4, 8)
    f = tenon.compile(net, (x, 3, True))
    got, want = f(x, 3, True), net(x, 3, True)
    close(got["y"], want["y"])
    assert list(got) == ["y", "parts"] and got["parts"][1] is x
    with pytest.raises(ValueError, match="compiled in as 3"):
        f(x, 4, True)
    with pytest.raises(ValueError, match="structure"):
        f(x)


@torch.no_grad()
def test_dynamic_sizes(net):
    f = tenon.compile(net, (torch.randn(4, 8),), dynamic_shapes=({0: Dim("n", min=2, max=100)},))
    for n in (2, 7, 100):
        x = torch.randn(n, 8)
        close(f(x), net(x))
    with pytest.raises(ValueError, match="TN_E_ARG.*2..100"):
        f(torch.randn(101, 8))


@torch.no_grad()
def test_buffers_are_written():
    bn = nn.BatchNorm1d(3).train()
    x = torch.randn(5, 3)
    f = tenon.compile(bn, (x,))
    other = nn.BatchNorm1d(3).train()
    close(f(x), other(x))
    close(bn.running_mean, other.running_mean)
    assert bn.num_batches_tracked.item() == 1


@torch.no_grad()
@pytest.mark.parametrize(
    "make, error, text",
    [
        (lambda: torch.randn(4, 9), ValueError, "dim 1 is 9, wanted 8"),
        (lambda: torch.randn(4, 8, 1), ValueError, "rank"),
        (lambda: torch.randn(4, 8).double(), ValueError, "dtype is f64, wanted f32"),
        (lambda: torch.randn(4, 8).to(torch.complex64), TypeError, "dtype"),
        (lambda: torch.randn(4, 8, device="meta"), TypeError, "TN_E_ARG: input [0-9] gives no DLPack view: .*meta"),
        (lambda: torch.randn(4, 8).to_sparse(), TypeError, "TN_E_ARG: input [0-9]"),
        (lambda: [1.0], TypeError, "not a plain torch.Tensor"),
        (lambda: torch.randn(4, 8).numpy(), TypeError, "not a plain torch.Tensor"),
        (lambda: torch.randn(4, 8, dtype=torch.complex64).conj().imag, ValueError, "negative bit"),
    ],
)
def test_wrong_inputs(net, make, error, text):
    f = tenon.compile(net, (torch.randn(4, 8),))
    with pytest.raises(error, match=text):
        f(make())
    close(f(torch.ones(4, 8)), net(torch.ones(4, 8)))  # still usable


@torch.no_grad()
def test_wrong_number_of_arguments(net):
    f = tenon.compile(net, (torch.randn(4, 8),))
    for args, kw in (((), {}), ((torch.randn(4, 8),) * 2, {}), ((), {"x": torch.randn(4, 8)})):
        with pytest.raises(TypeError, match="TN_E_ARG"):
            f(*args, **kw)


def test_gradients_are_refused(net):
    f = tenon.compile(net, (torch.randn(4, 8),))
    with pytest.raises(RuntimeError, match="requires grad"):
        f(torch.randn(4, 8, requires_grad=True))
    assert not f(torch.randn(4, 8)).requires_grad


@torch.no_grad()
def test_changed_module_is_noticed(net):
    x = torch.randn(4, 8)
    f = tenon.compile(net, (x,))
    net.train()
    with pytest.raises(RuntimeError, match="changed"):
        f(x)
    net.eval()
    close(f(x), net(x))
    net.fc = nn.Linear(8, 8)
    with pytest.raises(RuntimeError, match="changed"):
        f(x)


def test_explain_counts_and_breaks():
    class Broken(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(8, 8)

        def forward(self, x):
            y = self.fc(x).relu()
            torch._dynamo.graph_break()
            return y.softmax(-1)

    model, x = Broken().eval(), torch.randn(2, 8)
    report = tenon.explain(model)(x)
    assert report.break_count == 1 and len(report.graphs) == 2 and report.break_reasons
    assert sum(report.counts().values()) == len(report.nodes) and not report.fallbacks
    text = str(report)
    assert "dtype" in text and "aten.addmm.default" in text and "test_compile.py:" in text


def test_explain_profile_dvm_names_reasons():
    report = tenon.explain(nn.Linear(8, 8).eval(), {"profile": "dvm"})(torch.randn(2, 8))
    assert report.fallbacks and all(reason for _, reason in report.fallbacks)
    assert any(op == "aten.addmm.default" or op == "aten.mm.default" for op, _ in report.fallbacks)


def test_explain_leaves_compiled_code_alone(counted):
    compiler, graphs = counted
    model, x = nn.Linear(8, 8).eval(), torch.randn(2, 8)
    with torch.no_grad():
        f = torch.compile(model, backend=compiler)
        f(x)
        tenon.explain(model)(x)
        f(x)
    assert len(graphs) == 1


def test_options_are_listed():
    assert set(tenon.config_table()) >= {"profile", "isa", "passes", "dump_dir", "threads", "fail_on_fallback"}
    with pytest.raises(ValueError, match="no option"):
        tenon.compile(nn.Linear(2, 2), (torch.randn(1, 2),), options={"nope": 1})


def test_version():
    from importlib.metadata import version

    assert tenon.__version__ == version("tenonc")

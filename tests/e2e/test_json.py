"""What Python writes for a graph is complete and right: evaluated by torch itself, without any compiler."""

import logging
import time

import pytest
import torch
from json_eval import EvalProgram
from tenon import backend, fx
from torch import nn


@pytest.fixture(autouse=True)
def programs(monkeypatch):
    monkeypatch.setattr(backend._native, "Program", EvalProgram)
    EvalProgram.made.clear()
    return EvalProgram.made


def compiled(f, **kw):
    return torch.compile(f, backend=backend.compile_fx_entry, **kw)


class Mixed(nn.Module):
    """In-place work, a buffer that is written, a constant, a split, a size among the results, an input given back."""

    def __init__(self):
        super().__init__()
        self.fc, self.bn = nn.Linear(8, 8), nn.BatchNorm1d(8)
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x):
        y = self.bn(torch.relu_(self.fc(x)))
        self.count.add_(1)
        y += torch.tensor([1.0, 2, 3, 4, 5, 6, 7, 8])
        a, b = y.split(4, 1)
        return a.sigmoid() * b, y.shape[0] * 2, x


@pytest.mark.parametrize("dynamic, graphs", [(False, 3), (True, 1)])
def test_inference(programs, dynamic, graphs):
    model = Mixed().eval()
    with torch.no_grad():
        f = compiled(model, dynamic=dynamic)
        for n in (4, 8, 16):
            x = torch.randn(n, 8)
            want, got = model(x), f(x)
            torch.testing.assert_close(got[0], want[0])
            assert got[1] == want[1] and got[2] is x
    assert len(programs) == graphs and model.count.item() == 6
    assert not backend.fallbacks


def test_rows_say_what_a_reader_needs(programs):
    with torch.no_grad():
        compiled(Mixed().eval(), dynamic=True)(torch.randn(4, 8))
    graph = programs[0].graph
    origins = {row["origin"] for row in graph["inputs"]}
    assert origins == {"param", "buffer", "input", "sym"}
    assert graph["symbols"][0]["lo"] == 2
    add = next(n for n in graph["nodes"] if n["target"] == "aten.add.Tensor")
    assert set(add["args"]) == {"self", "other", "alpha"} and add["where"].startswith("test_json.py:")
    assert {"input": [r["name"] for r in graph["inputs"]].index("l_self_buffers_count_")}.items() <= graph["mutations"][0].items()


def test_training_goes_through_autograd(programs):
    model, x = Mixed().train(), torch.randn(4, 8, requires_grad=True)
    compiled(model)(x)[0].sum().backward()
    got, x.grad = x.grad.clone(), None
    model(x)[0].sum().backward()
    torch.testing.assert_close(got, x.grad)
    assert [p.graph["name"] for p in programs] == ["fwd", "bwd"]


def test_aliased_outputs_stay_aliased(programs):
    def f(x):
        y = x + 1
        return y, y.view(-1), x.t()

    x = torch.randn(2, 3)
    with torch.no_grad():
        y, flat, t = compiled(f)(x)
    flat.zero_()
    assert not y.any() and t.data_ptr() == x.data_ptr()


def test_aliased_inputs_that_are_written(programs):
    def f(x, y):
        x.add_(1)
        return x * y

    ours, eager = torch.arange(6.0), torch.arange(6.0)
    with torch.no_grad():
        torch.testing.assert_close(compiled(f)(ours[:4], ours[2:]), f(eager[:4], eager[2:]))
    assert torch.equal(ours, eager)


def test_input_resized_in_the_graph(programs):
    x = torch.randn(2, 3)
    with torch.no_grad():
        compiled(lambda a: a.t_().mul_(2))(x)
    assert x.shape == (3, 2)


def test_numbers_without_a_json_form(programs):
    with torch.no_grad():
        got = compiled(lambda x: torch.where(x > 0, x, float("-inf")).clamp(max=float("inf")))(torch.tensor([1.0, -1.0]))
    assert got.tolist() == [1.0, float("-inf")]


def test_complex_is_said(programs):
    x = torch.randn(4, 2)
    with torch.no_grad():
        torch.testing.assert_close(compiled(lambda a: torch.view_as_complex(a).abs())(x), torch.view_as_complex(x).abs())
    assert any(o["dtype"] == "c64" for n in programs[0].graph["nodes"] for o in n["out"])


def test_higher_order_operators_fall_back_with_reason(programs, caplog):
    def f(p, x):
        return torch.cond(p, torch.sin, torch.cos, (x,))

    x = torch.randn(3)
    with torch.no_grad(), caplog.at_level(logging.WARNING, "tenon"):
        torch.testing.assert_close(compiled(f)(torch.tensor(True), x), x.sin())
    assert "runs eagerly" in caplog.text and sum(backend.fallbacks.values()) == 1


def test_fallback_can_be_an_error(programs, monkeypatch):
    monkeypatch.setenv("TENON_FAIL_ON_FALLBACK", "1")
    with torch.no_grad(), pytest.raises(Exception, match="TN_E_UNSUPPORTED"):
        compiled(lambda p, x: torch.cond(p, torch.sin, torch.cos, (x,)))(torch.tensor(True), torch.randn(3))


def test_writing_takes_time_in_proportion():
    """Ten times the nodes take about ten times as long, and less than tracing them took."""

    def graph(n):
        def f(x):
            for _ in range(n // 2):
                x = (x + 1) * 2
            return x

        gm = torch.fx.experimental.proxy_tensor.make_fx(f, tracing_mode="fake")(torch.randn(4, 4))
        gm.graph.output_node().args = ([gm.graph.output_node().args[0]],)
        return gm

    small, tracing = graph(150), _cpu_time(lambda: graph(1500))
    large = graph(1500)
    once = min(_cpu_time(lambda: fx.Writer(small).text()) for _ in range(5))
    ten = min(_cpu_time(lambda: fx.Writer(large).text()) for _ in range(5))
    assert ten < 30 * once and ten < tracing, f"{once * 1e3:.1f} ms, {ten * 1e3:.1f} ms, tracing {tracing * 1e3:.0f} ms"


def _cpu_time(f):
    start = time.thread_time()
    f()
    return time.thread_time() - start

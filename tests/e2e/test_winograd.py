"""3x3 convolutions taken by Winograd's filtering: against float64, over the shapes and epilogues that decide how tiles are cut."""

import pytest
import torch
from torch import nn



BUDGET = 2e-5  # of the layer's largest output: the promise of docs/winograd.md




class Block(nn.Module):
    def __init__(self, cin, cout, padding=1, residual=False, both=False):
        super().__init__()
        self.conv, self.bn = nn.Conv2d(cin, cout, 3, padding=padding, bias=True), nn.BatchNorm2d(cout)
        self.residual, self.both = residual, both
        with torch.no_grad():
            self.bn.running_mean.uniform_(-0.2, 0.2)
            self.bn.running_var.uniform_(0.5, 2)

    def forward(self, x):
        y = self.bn(self.conv(x))
        z = torch.relu(y + x) if self.residual else torch.relu(y)
        return (y, z) if self.both else z


def check(model, x):
    model = model.eval()
    with torch.no_grad():
        wants = torch.utils._pytree.tree_leaves(model.double()(x.double()))
        model = model.float()
        gots = torch.utils._pytree.tree_leaves(torch.compile(model, backend="tenon")(x))
    assert len(wants) == len(gots)
    for want, got in zip(wants, gots):
        assert got.shape == want.shape
        assert x.is_contiguous() or got.stride() == want.stride()
        assert (got.double() - want).abs().max() <= BUDGET * want.abs().max()


@pytest.mark.parametrize("size", [(32, 32), (33, 34), (35, 29), (64, 5)])
@pytest.mark.parametrize("padding", [0, 1])
def test_sizes(size, padding):
    check(Block(32, 48, padding), torch.randn(1, 32, *size))


@pytest.mark.parametrize("kind", ["plain", "residual", "both"])
@pytest.mark.parametrize("last", [False, True])
def test_epilogues(kind, last):
    x = torch.randn(2, 64, 30, 31)
    check(Block(64, 64, residual=kind == "residual", both=kind == "both"), x.contiguous(memory_format=torch.channels_last) if last else x)


def test_symbolic_batch():
    model = Block(32, 32, residual=True).eval()
    compiled = torch.compile(model, backend="tenon", dynamic=True)
    with torch.no_grad():
        for n in (2, 3, 5):
            x = torch.randn(n, 32, 30, 30)
            torch._dynamo.mark_static(x, 1)
            torch._dynamo.mark_static(x, 2)
            torch._dynamo.mark_static(x, 3)
            want = model(x)
            assert (compiled(x) - want).abs().max() <= BUDGET * want.abs().max()


def test_chain():
    check(nn.Sequential(Block(16, 32), Block(32, 64), nn.MaxPool2d(2), Block(64, 64, residual=True), Block(64, 16)), torch.randn(1, 16, 40, 40))


def test_new_weights_are_seen():
    model = Block(32, 32).eval()
    x = torch.randn(1, 32, 48, 48)
    compiled = torch.compile(model, backend="tenon")
    with torch.no_grad():
        compiled(x)
        for p in model.parameters():
            p.mul_(-1.5)
        want = model(x)
        assert (compiled(x) - want).abs().max() <= BUDGET * want.abs().max()
        model.conv.weight[3, 5, 1, 1] = 40.0
        want = model(x)
        assert (compiled(x) - want).abs().max() <= BUDGET * want.abs().max()


def test_the_pass_can_be_left_out():
    model, x = Block(64, 64).eval(), torch.randn(1, 64, 56, 56)
    with torch.no_grad():
        with_it = torch.compile(model, backend="tenon")(x)
        torch._dynamo.reset()
        direct = torch.compile(model, backend="tenon", options={"passes": "-winograd"})(x)
        want = model.double()(x.double())
    assert not torch.equal(with_it, direct)
    assert (direct.double() - want).abs().max() < (with_it.double() - want).abs().max()


def test_what_hangs_on_parameters_alone_is_made_once():
    a, b = nn.Parameter(torch.randn(64, 64)), nn.Parameter(torch.randn(64, 64))

    class Product(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = a, b

        def forward(self, x):
            return x @ torch.tanh(self.a @ self.b)

    model, x = Product(), torch.randn(8, 64)
    compiled = torch.compile(model, backend="tenon")
    with torch.no_grad():
        for change in (lambda: None, lambda: a.add_(0.1), lambda: b.mul_(2), lambda: None):
            change()
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-4)

"""Every test starts and ends without compiled code in torch, and counts whole-graph fallbacks from zero."""

import pytest
import torch

torch.manual_seed(0)  # modules made while tests are collected


@pytest.fixture(autouse=True)
def fresh():
    from tenon import backend

    torch.manual_seed(0)
    torch._dynamo.reset()
    backend.fallbacks.clear()
    yield
    torch._dynamo.reset()


@pytest.fixture
def counted():
    """A backend that counts its compiles: (function, list that grows by one each time)."""
    from tenon.backend import compile_fx_entry

    graphs = []

    def compiler(gm, example_inputs):
        graphs.append(gm)
        return compile_fx_entry(gm, example_inputs)

    return compiler, graphs

"""One model through every door, and blocks that people fuse by hand: how many kernels they are."""

import numpy as np
import onnx
import pytest
import torch
import torch.nn.functional as F
from onnx import TensorProto as T
from onnx import helper as h
from torch import nn

import tenon


def as_onnx(net):
    """The same Linear, ReLU, Linear as an ONNX model with a free batch."""
    weights = [onnx.numpy_helper.from_array(p.detach().numpy(), name) for name, p in net.named_parameters()]
    nodes = [
        h.make_node("Gemm", ["x", "0.weight", "0.bias"], ["a"], transB=1),
        h.make_node("Relu", ["a"], ["b"]),
        h.make_node("Gemm", ["b", "2.weight", "2.bias"], ["y"], transB=1),
    ]
    ports = [h.make_tensor_value_info("x", T.FLOAT, ["n", 24])], [h.make_tensor_value_info("y", T.FLOAT, ["n", 10])]
    return h.make_model(h.make_graph(nodes, "net", *ports, weights), opset_imports=[h.make_opsetid("", 20)], ir_version=9)


def test_dynamo_export_and_onnx_agree(tmp_path):
    net = nn.Sequential(nn.Linear(24, 40), nn.ReLU(), nn.Linear(40, 10)).eval()
    batch = torch.export.Dim("batch")
    x = torch.randn(3, 24)
    with torch.no_grad():
        dynamo = torch.compile(net, backend="tenon", dynamic=True)
        own = tenon.compile(net, (x,), dynamic_shapes=({0: batch},))
        tenon.export(net, (x,), tmp_path / "net.tnp", dynamic_shapes=({0: batch},))
        package, model = tenon.load(tmp_path / "net.tnp"), tenon.load(as_onnx(net).SerializeToString())
        for n in (3, 7):
            x = torch.randn(n, 24)
            want = net(x).numpy()
            for got in (dynamo(x), own(x), package(x)[0], model(x)[0]):
                np.testing.assert_allclose(np.asarray(got), want, rtol=1e-5, atol=1e-6)


def adaln(x, scale, shift):
    return F.layer_norm(x, x.shape[-1:]) * (1 + scale) + shift


BLOCKS = {
    "adaln_b1d": (adaln, [(2, 9, 64), (2, 1, 64), (2, 1, 64)]),
    "adaln_bd": (lambda x, s, t: adaln(x, s[:, None], t[:, None]), [(2, 9, 64), (2, 64), (2, 64)]),
    "rms_norm": (lambda x, w: F.rms_norm(x, (64,), w, 1e-6), [(2, 9, 64), (64,)]),
    "rms_norm_by_hand": (lambda x, w: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w, [(2, 9, 64), (64,)]),
    "gelu": (F.gelu, [(9, 64)]),
    "gelu_tanh": (lambda x: F.gelu(x, approximate="tanh"), [(9, 64)]),
}


class Block(nn.Module):
    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, *args):
        return self.fn(*args)


@pytest.mark.parametrize("dtype, tol", [(torch.float32, 1e-5), (torch.float16, 1e-2), (torch.bfloat16, 5e-2)], ids=str)
@pytest.mark.parametrize("name", BLOCKS)
def test_one_kernel(name, dtype, tol):
    fn, shapes = BLOCKS[name]
    args = [torch.randn(s).to(dtype) for s in shapes]
    compiled = tenon.compile(Block(fn), args)
    torch.testing.assert_close(compiled(*args).double(), fn(*(a.double() for a in args)), rtol=tol, atol=tol)
    s = compiled.stats()
    assert s["calls"] == 1 and s["launches"] == 1

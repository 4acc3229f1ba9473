"""tenon.load, tenon.export and the onnx package's own backend suite (a share of it) through tenon.onnx_backend."""

import subprocess
import sys
import threading

import ml_dtypes
import numpy as np
import onnx
import onnx.backend.test
import pytest
import torch
from onnx import TensorProto as T
from onnx import helper as h

import tenon
import tenon.onnx_backend


def build(nodes, inputs, outputs, inits=None, opset=21):
    inits = [onnx.numpy_helper.from_array(a, n) for n, a in (inits or {}).items()]
    graph = h.make_graph(nodes, "net", inputs, outputs, inits)
    return h.make_model(graph, opset_imports=[h.make_opsetid("", opset)], ir_version=10).SerializeToString()


def tensor(name, elem, shape):
    return h.make_tensor_value_info(name, elem, shape)


ADD = build([h.make_node("Add", ["a", "b"], ["c"])], [tensor("a", T.FLOAT, ["n", 3]), tensor("b", T.FLOAT, [3])], [tensor("c", T.FLOAT, ["n", 3])])


def test_ways_to_call():
    m = tenon.load(ADD)
    a, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.float32([1, 2, 3])
    want = (a + b).tolist()
    strided = np.arange(12, dtype=np.float32).reshape(2, 6)[:, ::2] / 2
    for got in (m({"a": a, "b": b}), m(a, b), m([a, b]), m(a.tolist(), b.tolist()), m(torch.from_numpy(a), torch.from_numpy(b)), m(strided, b)):
        assert isinstance(got, list) and got[0].tolist() == want
    assert [(p.name, p.kind, p.dtype, p.shape) for p in m.inputs] == [("a", "tensor", "float32", ("n", 3)), ("b", "tensor", "float32", (3,))]
    for n in (0, 1, 2, 1000):
        assert m(np.ones((n, 3), np.float32), b)[0].shape == (n, 3)


def test_results_are_the_callers():
    m = tenon.load(build([h.make_node("Identity", ["a"], ["b"]), h.make_node("Identity", ["a"], ["c"])], [tensor("a", T.FLOAT, [2])], [tensor("b", T.FLOAT, [2]), tensor("c", T.FLOAT, [2])]))
    a = np.float32([1, 2])
    b, c = m(a)
    b[0], a[1] = 7, 8
    assert a.tolist() == [1, 8] and b.tolist() == [7, 2] and c.tolist() == [1, 2]


@pytest.mark.parametrize("elem, dtype", [(T.BFLOAT16, ml_dtypes.bfloat16), (T.FLOAT8E4M3FN, ml_dtypes.float8_e4m3fn), (T.INT4, ml_dtypes.int4), (T.UINT4, ml_dtypes.uint4)])
def test_small_types(elem, dtype):
    m = tenon.load(build([h.make_node("Cast", ["x"], ["f"], to=T.FLOAT), h.make_node("Cast", ["f"], ["y"], to=elem)], [tensor("x", elem, [4])], [tensor("f", T.FLOAT, [4]), tensor("y", elem, [4])]))
    values = [0, 1, -2 if elem != T.UINT4 else 15, 3]
    x = np.array(values).astype(dtype)
    f, y = m(x)
    assert f.tolist() == values and y.dtype == x.dtype and y.tobytes() == x.tobytes()


def test_strings():
    m = tenon.load(build([h.make_node("StringConcat", ["a", "b"], ["c"])], [tensor("a", T.STRING, ["n"]), tensor("b", T.STRING, [1])], [tensor("c", T.STRING, ["n"])]))
    assert m(np.array(["x", "é\0"], dtype=object), ["!"])[0].tolist() == ["x!", "é\0!"]


def test_words_of_errors():
    m = tenon.load(ADD)
    one = np.ones((2, 3), np.float32)
    for args, kind, says in [
        ((one,), ValueError, "1 inputs given, 2 wanted"),
        (({"a": one},), ValueError, "['b'] are missing"),
        ((one, np.ones(4, np.float32)), tenon.ModelError, "dim 0 is 4, wanted 3"),
        ((one.astype(np.float64), one[0]), tenon.ModelError, "input 0 'a'"),
        ((one.astype(complex), one[0]), TypeError, "complex128"),
    ]:
        with pytest.raises(kind) as e:
            m(*args)
        assert says in str(e.value)
    with pytest.raises(tenon.ModelError) as e:
        tenon.load(b"no model at all")
    assert e.value.code == "TN_E_PARSE"
    with pytest.raises(FileNotFoundError):
        tenon.load("/nowhere/model.onnx")


def test_threads():
    m, bad = tenon.load(ADD), []

    def work(k):
        for n in range(1, 60):
            a = np.full((n, 3), k, np.float32)
            if not (m(a, np.float32([1, 2, 3]))[0] == a + np.float32([1, 2, 3])).all():
                bad.append((k, n))

    ts = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    [t.start() for t in ts]
    [t.join() for t in ts]
    assert not bad


def test_torch_is_not_imported():
    code = f"import sys, tenon, numpy as np; m = tenon.load({ADD!r}); m(np.ones((1, 3), np.float32), np.ones(3, np.float32)); assert 'torch' not in sys.modules"
    r = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert r.returncode == 0, r.stderr


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.out = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.Linear(8, 5)

    def forward(self, x):
        h = torch.relu(self.norm(self.conv(x))).mean((2, 3))
        return self.out(h), x


def test_export(tmp_path):
    net, x = Net().eval(), torch.randn(2, 3, 9, 9)
    batch = torch.export.Dim("batch")
    tenon.export(net, (x,), tmp_path / "net.tnp", dynamic_shapes=({0: batch},))
    tenon.export(torch.export.export(net, (x,)), path=tmp_path / "fixed.tnp")
    for source in (tmp_path / "net.tnp", (tmp_path / "net.tnp").read_bytes()):
        m = tenon.load(source)
        for n in (2, 5):
            x = torch.randn(n, 3, 9, 9)
            y, same = m(x)
            np.testing.assert_allclose(y, net(x)[0].detach(), rtol=1e-4, atol=1e-5)
            assert (same == x.numpy()).all()
    with pytest.raises(tenon.ModelError):
        tenon.load(tmp_path / "fixed.tnp")(x)


def test_export_refuses_what_it_cannot_take():
    with pytest.raises(tenon.ModelError) as e:
        tenon.export(Odd(), (torch.eye(3),), "/nowhere/x.tnp")
    assert e.value.code == "TN_E_UNSUPPORTED" and "svd" in str(e.value)


class Odd(torch.nn.Module):
    def forward(self, x):
        return torch.linalg.svdvals(x)


def test_run_node():
    got = tenon.onnx_backend.run_node(h.make_node("Sub", ["a", "b"], ["c"]), [np.float32([5, 7]), np.float32([1, 2])])
    assert got.c.tolist() == [4, 5]


# The official way to run ONNX's own suite; all of it takes minutes, so a share is run here. docs/onnx.md has the counts of a whole run.
suite = onnx.backend.test.BackendTest(tenon.onnx_backend, __name__)
suite.include(
    r"test_(abs|add|and|argmax_d|averagepool_2d_(default|pads|same)|batchnorm|clip|concat_2d|constant_pad|conv_with|cumsum|dequantizelinear|div|einsum|erf|expand|gather_[01]|gemm_(all|def)"
    r"|identity_sequence|if|layer_normalization_2d|log_soft|loop11|loop13_seq|lstm_(def|with)|matmul_|max_(f|e)|maxpool_2d_(c|d|p)|mean_|nonzero|not|onehot|optional_get|pow|quantizelinear_a"
    r"|range|reduce_sum_(d|k|e)|reshape|resize_up|scan|scatter_el|scatternd|sequence_(ins|map_add)|shape|slice|softmax|split_(eq|var|zero)|squeeze|string_(con|split)|tile|top_k|transpose|trilu"
    r"|triu|unique_|unsqueeze|upsample|where|xor).*_cpu"
)
suite.exclude("_expanded")
globals().update(suite.enable_report().test_cases)

"""Arithmetic rows against onnx.reference, all element types an operator takes, through the compiler: one model for each type, an output for
each operator, so that a type costs one compile. What the suite of the onnx package looks at in float32 only is what this is for."""

import warnings

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import TensorProto as T  # noqa: E402
from onnx import helper as h  # noqa: E402
from onnx import numpy_helper as nh  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

import tenon  # noqa: E402

OPSET = 24
FLOATS = {T.FLOAT: 1e-5, T.DOUBLE: 1e-7, T.FLOAT16: 4e-3, T.BFLOAT16: 3e-2}  # the reference takes some constants of functions in float32
INTS = [T.INT8, T.INT16, T.INT32, T.INT64, T.UINT8, T.UINT16, T.UINT32, T.UINT64]
UNARY = """Abs Neg Sign Ceil Floor Round Exp Sin Cos Tan Atan Sinh Cosh Tanh Asinh Sigmoid Relu LeakyRelu ThresholdedRelu Elu Celu Selu HardSigmoid HardSwish Mish
Softplus Softsign Swish Shrink IsNaN IsInf Not BitwiseNot Softmax LogSoftmax Hardmax""".split()
POSITIVE = "Sqrt Log Reciprocal".split()
BINARY = "Add Sub Mul Div Mod Pow Equal Less Greater LessOrEqual GreaterOrEqual And Or Xor BitwiseAnd BitwiseOr BitwiseXor BitShift PRelu Max Min".split()
REDUCE = "ReduceSum ReduceProd ReduceMax ReduceMin ReduceL1 ReduceSumSquare ArgMax ArgMin".split()
REDUCE_FLOAT = "ReduceMean ReduceL2 ReduceLogSumExp".split()


def takes(op, elem):
    s = onnx.defs.get_schema(op, OPSET)
    names = {c.type_param_str: c.allowed_type_strs for c in s.type_constraints}
    kind = {T.FLOAT16: "float16", T.DOUBLE: "double"}.get(elem, T.DataType.Name(elem).lower())
    return f"tensor({kind})" in names.get(s.inputs[0].type_str, [s.inputs[0].type_str])


def operands(elem):
    """x, a positive y, a row of it to broadcast, small whole numbers"""
    g = np.random.default_rng(3)
    t = h.tensor_dtype_to_np_dtype(elem)
    if elem == T.BOOL:
        x, y = g.random((3, 4, 5)) < 0.5, g.random((3, 4, 5)) < 0.5
        return x, y, y[0, :1], y
    if elem in FLOATS:
        x = g.standard_normal((3, 4, 5)) * 2
        return x.astype(t), (np.abs(x) + 0.25).astype(t), (g.random((1, 5)) + 0.5).astype(t), np.floor(np.abs(x)).astype(t)
    x = g.integers(0 if np.dtype(t).kind == "u" else -9, 9, (3, 4, 5))
    return x.astype(t), (np.abs(x) % 4 + 1).astype(t), g.integers(1, 5, (1, 5)).astype(t), (np.abs(x) % 3).astype(t)


def cases(elem):
    """(operator, operand names, attributes)"""
    out = [(op, ["x"], {}) for op in UNARY if takes(op, elem)]
    out += [(op, ["y"], {}) for op in POSITIVE if takes(op, elem)]
    for op in BINARY:
        if not takes(op, elem):
            continue
        at = {"fmod": 1} if op == "Mod" and elem in FLOATS else {"direction": "RIGHT"} if op == "BitShift" else {}
        out.append((op, ["y" if op == "Pow" else "x", "k" if op in ("Pow", "BitShift") else "row"], at))
    for op in REDUCE + (REDUCE_FLOAT if elem in FLOATS else []):
        if not takes(op, elem):
            continue
        if op.startswith("Arg"):
            out += [(op, ["x"], {"axis": 1, "keepdims": k, "select_last_index": k}) for k in (0, 1)]
        else:  # axes: a constant, and an operand that only the run knows
            out += [(op, ["y" if op == "ReduceProd" and elem in FLOATS else "k" if op == "ReduceProd" else "x", a], {"keepdims": k}) for a in ("axes", "axis") for k in (0, 1)]
    return out


@pytest.mark.parametrize("elem", [*FLOATS, *INTS, T.BOOL], ids=lambda e: T.DataType.Name(e).lower())
def test_types(elem):
    x, y, row, k = operands(elem)
    feeds = {"x": x, "y": y, "row": row, "k": k, "axis": np.array([-1], np.int64)}
    todo = cases(elem)
    nodes = [h.make_node(op, ins, [f"o{i}"], **at) for i, (op, ins, at) in enumerate(todo)]
    inputs = [h.make_tensor_value_info(n, h.np_dtype_to_tensor_dtype(v.dtype), v.shape) for n, v in feeds.items()]
    outputs = [h.make_value_info(f"o{i}", onnx.TypeProto()) for i in range(len(todo))]
    graph = h.make_graph(nodes, "g", inputs, outputs, [nh.from_array(np.array([0, 2], np.int64), "axes")])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", OPSET)], ir_version=10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = ReferenceEvaluator(model).run(None, feeds)
    want = [np.asarray(w).astype(x.dtype) if op.startswith("Reduce") else np.asarray(w) for (op, _, _), w in zip(todo, want, strict=True)]  # numpy promotes sums
    del model.graph.output[:]
    model.graph.output.extend(h.make_tensor_value_info(f"o{i}", h.np_dtype_to_tensor_dtype(w.dtype), None) for i, w in enumerate(want))
    got = tenon.load(model.SerializeToString())(feeds)
    for (op, _, at), w, r in zip(todo, want, got, strict=True):
        r = np.asarray(r)
        assert r.dtype == w.dtype and r.shape == w.shape, (op, at)
        if elem in FLOATS and w.dtype == x.dtype:
            tol = FLOATS[elem]
            np.testing.assert_allclose(r.astype(np.float64), w.astype(np.float64), rtol=tol, atol=tol, err_msg=f"{op} {at}")
        else:
            np.testing.assert_array_equal(r, w, err_msg=f"{op} {at}")


@pytest.mark.parametrize("zero", [0, 7])
@pytest.mark.parametrize("xt, wt", [("uint8", "int8"), ("int8", "int8"), ("uint8", "uint8"), ("int8", "uint8")])
def test_byte_products(xt, wt, zero):
    """Constant weights: extreme bytes are summed exactly, in any form, and so is what QDQ models say with floats."""
    g = np.random.default_rng(5)
    info = np.iinfo(xt)
    x = g.integers(info.min, info.max + 1, (3, 7, 130)).astype(xt)
    w = np.where(g.random((130, 50)) < 0.5, np.iinfo(wt).min, g.integers(np.iinfo(wt).min, np.iinfo(wt).max + 1, (130, 50))).astype(wt)
    zw = 128 if wt == "uint8" else 0
    zx, zw = np.array(zero, xt), np.array(zw, wt)
    sx, sw = np.float32(0.5), (g.random(50) + 0.5).astype(np.float32)
    nodes = [
        h.make_node("MatMulInteger", ["x", "w", "zx", "zw"], ["i"]),
        h.make_node("DequantizeLinear", ["x", "sx", "zx"], ["a"]),
        h.make_node("DequantizeLinear", ["w", "sw", "zws"], ["b"], axis=1),
        h.make_node("MatMul", ["a", "b"], ["f"]),
    ]
    init = {"w": w, "zx": zx, "zw": zw, "zws": np.full(50, zw), "sx": sx, "sw": sw}
    outs = [h.make_tensor_value_info("i", T.INT32, None), h.make_tensor_value_info("f", T.FLOAT, None)]
    graph = h.make_graph(nodes, "g", [h.make_tensor_value_info("x", h.np_dtype_to_tensor_dtype(x.dtype), ["n", 7, "k"])], outs, [nh.from_array(np.asarray(v), k) for k, v in init.items()])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 21)], ir_version=10)
    want = (x.astype(np.int64) - int(zx)) @ (w.astype(np.int64) - int(zw))
    i, f = tenon.load(model.SerializeToString())({"x": x})
    np.testing.assert_array_equal(i, want)
    np.testing.assert_allclose(f, want * (np.float64(sx) * sw), rtol=1e-6)


def test_random():
    """Without a seed every node and every call draws anew; with one they repeat. Moments within five standard errors."""
    n = 100000
    nodes = [h.make_node("RandomNormal", [], ["a"], shape=[n]), h.make_node("RandomNormal", [], ["b"], shape=[n]), h.make_node("RandomUniform", [], ["c"], shape=[n], seed=2.0)]
    graph = h.make_graph(nodes, "g", [], [h.make_tensor_value_info(k, T.FLOAT, [n]) for k in "abc"])
    run = tenon.load(h.make_model(graph, opset_imports=[h.make_opsetid("", 22)], ir_version=10).SerializeToString())
    (a, b, c), (a2, _, c2) = run({}), run({})
    np.testing.assert_array_equal(c, c2)
    for x, y in ((a, b), (a, a2), (a[1:], a[:-1])):
        assert abs(np.corrcoef(x, y)[0, 1]) < 5 / n**0.5
    assert abs(a.mean()) < 5 / n**0.5 and abs(a.var() - 1) < 5 * (2 / n) ** 0.5
    assert 0 <= c.min() and c.max() < 1 and abs(c.mean() - 0.5) < 5 * (1 / 12 / n) ** 0.5

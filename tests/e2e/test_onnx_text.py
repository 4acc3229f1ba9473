"""ONNX operators on strings and ai.onnx.ml, whole models against onnxruntime or onnx.reference (named per case), sizes fixed and free."""

import numpy as np
import onnx
import onnx.helper as h
import onnx.numpy_helper as nh
import pytest
from onnx.reference import ReferenceEvaluator

import tenon

ort = pytest.importorskip("onnxruntime")
RNG = np.random.RandomState(0)


def strs(*v):
    return np.array(v, dtype=object)


def elem(x):
    return onnx.TensorProto.STRING if x.dtype == object else h.np_dtype_to_tensor_dtype(x.dtype)


def model(nodes, inputs, n_out, free, initializer=()):
    """inputs: name -> array; outputs y0 .. are of any type. free: every dim has a name of its own."""
    ins = [h.make_tensor_value_info(k, elem(v), [f"{k}_{i}" if free else d for i, d in enumerate(v.shape)]) for k, v in inputs.items()]
    outs = [onnx.ValueInfoProto(name=f"y{i}") for i in range(n_out)]
    g = h.make_graph(nodes, "g", ins, outs, initializer=list(initializer))
    m = h.make_model(g, opset_imports=[h.make_opsetid("", 21), h.make_opsetid("ai.onnx.ml", 3)])
    m.ir_version = 10
    return m


def same(got, want, tol=1e-5):
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        if isinstance(b, list):
            assert isinstance(a, list) and len(a) == len(b)
            for x, y in zip(a, b, strict=True):
                assert list(x) == list(y)
                np.testing.assert_allclose(list(x.values()), list(y.values()), rtol=tol, atol=tol)
            continue
        a, b = np.asarray(a), np.asarray(b)
        assert a.shape == b.shape
        if b.dtype == object or b.dtype.kind in "US":
            assert a.astype(str).tolist() == b.astype(str).tolist()
        else:
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=tol, atol=tol)


def check(nodes, inputs, n_out=1, oracle="ort", free=(False, True), want=None, initializer=(), tol=1e-5):
    for f in free:
        m = model(nodes, inputs, n_out, f, initializer)
        expected = want
        if expected is None and oracle == "ort":
            for i in range(n_out):  # onnxruntime infers the types
                m.graph.output[i].CopyFrom(onnx.ValueInfoProto(name=f"y{i}"))
            expected = ort.InferenceSession(m.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, inputs)
        elif expected is None:
            expected = ReferenceEvaluator(m).run(None, inputs)
        same(tenon.load(m.SerializeToString())(inputs), expected, tol)


S = strs("b", "", "a", "\u00e9", "b", "zz").reshape(2, 3)


def ints(*v, name="i"):
    return nh.from_array(np.array(v, np.int64), name)


MOVES = {
    "reshape": (h.make_node("Reshape", ["s", "i"], ["y0"]), [ints(3, -1)]),
    "transpose": (h.make_node("Transpose", ["s"], ["y0"], perm=[1, 0]), []),
    "gather": (h.make_node("Gather", ["s", "i"], ["y0"], axis=1), [ints(2, 0, -1)]),
    "slice": (h.make_node("Slice", ["s", "i", "j", "k"], ["y0"]), [ints(-1), ints(0, name="j"), ints(1, name="k")]),
    "expand": (h.make_node("Expand", ["s", "i"], ["y0"]), [ints(2, 2, 3)]),
    "tile": (h.make_node("Tile", ["s", "i"], ["y0"]), [ints(1, 2)]),
    "unsqueeze": (h.make_node("Unsqueeze", ["s", "i"], ["y0"]), [ints(0)]),
    "flatten": (h.make_node("Flatten", ["s"], ["y0"], axis=0), []),
    "concat": (h.make_node("Concat", ["s", "s"], ["y0"], axis=0), []),
    "shape": (h.make_node("Shape", ["s"], ["y0"]), []),
    "size": (h.make_node("Size", ["s"], ["y0"]), []),
    "identity": (h.make_node("Identity", ["s"], ["y0"]), []),
    "gather_nd": (h.make_node("GatherND", ["s", "i"], ["y0"]), [nh.from_array(np.array([[1, 2], [0, 0]]), "i")]),
}


@pytest.mark.parametrize("name", MOVES)
def test_strings_move(name):
    node, init = MOVES[name]
    check([node], {"s": S}, initializer=init, oracle="ref" if name in ("expand", "gather_nd", "tile") else "ort")


def test_strings_meet():
    rows = {"c": np.array([[True], [False]]), "s": S, "t": strs("x", "y", "z")}
    check([h.make_node("Where", ["c", "s", "t"], ["y0"])], rows, oracle="ref", free=(False,))
    check([h.make_node("Equal", ["s", "t"], ["y0"])], {"s": S, "t": strs("b", "b", "a")}, oracle="ref")
    check([h.make_node("StringConcat", ["s", "t"], ["y0"])], {"s": S, "t": strs("-")}, oracle="ref", free=(False,))
    check([h.make_node("Split", ["s"], ["y0", "y1"], axis=0, num_outputs=2)], {"s": S}, 2, oracle="ref")
    check([h.make_node("Compress", ["s", "c"], ["y0"], axis=1)], {"s": S, "c": np.array([True, False, True])}, oracle="ref")
    check([h.make_node("Unique", ["s"], ["y0", "y1", "y2", "y3"])], {"s": S.ravel()}, 4, oracle="ref")
    chain = [
        h.make_node("StringSplit", ["t"], ["p", "n"], delimiter=","),
        h.make_node("Gather", ["p", "zero"], ["f"], axis=1),
        h.make_node("StringConcat", ["f", "f"], ["y0"]),
        h.make_node("ReduceMax", ["n"], ["y1"], keepdims=0),
    ]
    want = [strs("aa", "cc", "dd"), np.array(3)]
    check(chain, {"t": strs("a,b", "c", "d,e,f")}, 2, want=want, initializer=[nh.from_array(np.array(0), "zero")])


def test_casts():
    f = np.array([0.5, -1, 1e20, 3.1415927, np.inf, np.nan], np.float32)
    check([h.make_node("Cast", ["x"], ["y0"], to=8)], {"x": f}, want=[strs("0.5", "-1.0", "1e+20", "3.1415927", "inf", "nan")])
    check([h.make_node("Cast", ["x"], ["y0"], to=8)], {"x": np.array([-5, 7])})
    text = strs("1.5", "-2e3", "inf", " 7 ", "NaN")
    for to, dtype in ((1, np.float32), (11, np.float64), (10, np.float16)):
        check([h.make_node("Cast", ["x"], ["y0"], to=to)], {"x": text}, want=[np.array([1.5, -2000, np.inf, 7, np.nan], dtype)])
    check([h.make_node("Cast", ["x"], ["y0"], to=6)], {"x": strs("12", "-3")}, want=[np.array([12, -3], np.int32)])
    with pytest.raises(Exception, match="no number"):
        tenon.load(model([h.make_node("Cast", ["x"], ["y0"], to=1)], {"x": text}, 1, True).SerializeToString())({"x": strs("seven")})


def ml(op, ins=("x",), outs=("y0",), **kw):
    return h.make_node(op, list(ins), list(outs), domain="ai.onnx.ml", **kw)


X = RNG.randn(9, 4).astype(np.float32)


def test_encoders():
    s, i = strs("b", "a", "q", "b").reshape(2, 2), np.array([[3, 1], [7, 3]])
    check([ml("LabelEncoder", keys_strings=["a", "b", "a"], values_int64s=[5, 6, 7], default_int64=-2)], {"x": s}, oracle="ref")
    named = strs("three", "one", "_Unused", "three").reshape(2, 2)
    check([ml("LabelEncoder", keys_int64s=[3, 1], values_strings=["three", "one"])], {"x": i}, want=[named])
    floats = ml("LabelEncoder", keys_floats=[0.5, float("nan")], values_floats=[1.0, 2.0], default_float=9.0)
    check([floats], {"x": np.array([np.nan, 0.5, 1], np.float32)}, want=[np.array([2, 1, 9], np.float32)])
    check([ml("CategoryMapper", cats_strings=["a", "b"], cats_int64s=[10, 20])], {"x": s})
    check([ml("CategoryMapper", cats_strings=["a", "b"], cats_int64s=[3, 1], default_string="?")], {"x": i})
    check([ml("OneHotEncoder", cats_strings=["q", "a", "b"])], {"x": s})
    check([ml("OneHotEncoder", cats_int64s=[7, 1])], {"x": i})
    hot = np.array([[0, 1], [0, 0], [1, 0]], np.float32)
    check([ml("OneHotEncoder", cats_int64s=[0, 1])], {"x": np.array([1, 0.5, 0], np.float32)}, want=[hot])
    with pytest.raises(Exception):
        tenon.load(model([ml("OneHotEncoder", cats_int64s=[7, 1], zeros=0)], {"x": i}, 1, True).SerializeToString())({"x": i})


def test_arithmetic():
    check([ml("Binarizer", threshold=0.3)], {"x": X})
    check([ml("Scaler", offset=[0.5, 1, 2, 3], scale=[2.0, 3, 4, 5])], {"x": X})
    check([ml("Scaler", offset=[0.5], scale=[2.0])], {"x": X.astype(np.int64)})
    for norm in ("MAX", "L1", "L2"):
        check([ml("Normalizer", norm=norm)], {"x": X}, oracle="ref")
    y = X.copy()
    y[1, 2] = np.nan
    check([ml("Imputer", imputed_value_floats=[1.0, 2, 3, 4], replaced_value_float=float("nan"))], {"x": y})
    check([ml("Imputer", imputed_value_int64s=[9], replaced_value_int64=0)], {"x": X.astype(np.int64)})
    check([ml("ArrayFeatureExtractor", ["x", "i"])], {"x": X, "i": np.array([2, 0])})
    check([ml("ArrayFeatureExtractor", ["x", "i"])], {"x": S, "i": np.array([2, 0])})
    check([ml("FeatureVectorizer", ["x", "z"], inputdimensions=[4, 2])], {"x": X, "z": X[:, :2].copy()}, free=(False,))


POSTS = ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"]


@pytest.mark.parametrize("post", POSTS)
def test_linear(post):
    w, b = RNG.randn(3, 4).ravel().tolist(), [0.1, -0.2, 0.3]
    three = dict(coefficients=w, intercepts=b, classlabels_strings=["u", "v", "w"], post_transform=post)
    check([ml("LinearClassifier", outs=("y0", "y1"), **three)], {"x": X}, 2)
    two = dict(coefficients=w[:4], intercepts=b[:1], classlabels_ints=[4, 7], post_transform=post)
    check([ml("LinearClassifier", outs=("y0", "y1"), **two)], {"x": X}, 2, oracle="ref")
    check([ml("LinearRegressor", coefficients=w, intercepts=b, targets=3)], {"x": X})


@pytest.mark.parametrize("kernel", ["LINEAR", "POLY", "RBF", "SIGMOID"])
def test_svm(kernel):
    sv, per = RNG.randn(7, 4), [2, 3, 2]
    kw = dict(kernel_type=kernel, kernel_params=[0.3, 0.1, 2.0], support_vectors=sv.ravel().tolist())
    check([ml("SVMRegressor", coefficients=RNG.randn(7).tolist(), rho=[0.2], n_supports=7, **kw)], {"x": X})
    kw.update(coefficients=RNG.randn(2, 7).ravel().tolist(), rho=[0.1, -0.1, 0.05], vectors_per_class=per, classlabels_ints=[3, 5, 9])
    check([ml("SVMClassifier", outs=("y0", "y1"), **kw)], {"x": X}, 2)
    kw.update(prob_a=[-1.0, -0.8, -1.2], prob_b=[0.1, 0.0, -0.1])
    check([ml("SVMClassifier", outs=("y0", "y1"), **kw)], {"x": X}, 2, tol=1e-4)
    two = dict(kw, coefficients=RNG.randn(7).tolist(), rho=[0.1], vectors_per_class=[3, 4], classlabels_ints=[0, 1])
    two.update(prob_a=[-1.0], prob_b=[0.2])
    check([ml("SVMClassifier", outs=("y0", "y1"), **two)], {"x": X}, 2, tol=1e-4)


def forest(n_trees, depth, leaf_ids, prefix):
    """Random full trees in the form of opset 1; the last level has the leaves."""
    a = {k: [] for k in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids", "missing_value_tracks_true")}
    b = {k: [] for k in ("treeids", "nodeids", "ids", "weights")}
    for t in range(n_trees):
        for n in range(2 ** (depth + 1) - 1):
            leaf = n >= 2**depth - 1
            mode = "LEAF" if leaf else str(RNG.choice(["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT"]))
            row = (t, n, int(RNG.randint(4)), float(RNG.randn()), mode)
            row += (0, 0) if leaf else (2 * n + 1, 2 * n + 2)
            for k, v in zip(a, (*row, int(RNG.randint(2))), strict=True):
                a[k].append(v)
            for i in leaf_ids if leaf else ():
                for k, v in zip(b, (t, n, i, float(RNG.randn())), strict=True):
                    b[k].append(v)
    return {f"nodes_{k}": v for k, v in a.items()} | {f"{prefix}_{k}": v for k, v in b.items()}


@pytest.mark.parametrize("post", POSTS)
def test_trees(post):
    x = X.copy()
    x[2, 1] = np.nan
    for how in ("SUM", "AVERAGE", "MIN", "MAX"):
        f = forest(5, 3, [0, 1], "target")
        check([ml("TreeEnsembleRegressor", n_targets=2, aggregate_function=how, base_values=[0.5, -0.5], **f)], {"x": x})
    f = forest(6, 3, [0, 1, 2], "class")
    f.update(classlabels_strings=["a", "b", "c"], base_values=[0.1, 0.2, 0.3], post_transform=post)
    check([ml("TreeEnsembleClassifier", outs=("y0", "y1"), **f)], {"x": x}, 2, tol=1e-4)
    f = forest(6, 3, [0], "class")
    f.update(classlabels_int64s=[0, 1], post_transform=post)
    check([ml("TreeEnsembleClassifier", outs=("y0", "y1"), **f)], {"x": x}, 2, oracle="ref", tol=1e-4)


def test_maps():
    m = model([ml("ZipMap", classlabels_strings=["u", "v", "w", "x"])], {"x": X}, 1, True)
    same(tenon.load(m.SerializeToString())({"x": X}), [[dict(zip("uvwx", r, strict=True)) for r in X.tolist()]])
    vec = ml("DictVectorizer", string_vocabulary=["b", "zz", "a"])
    for node, key, value, x, want in (
        (vec, 8, 1, {"a": 1.5, "b": 2.0, "?": 7.0}, np.array([2, 0, 1.5], np.float32)),
        (ml("CastMap"), 7, 1, {5: 1.0, -2: 3.0}, np.array([[3, 1]], np.float32)),
        (ml("CastMap", map_form="SPARSE", max_map=4, cast_to="TO_INT64"), 7, 1, {3: 1.0, 1: 3.0}, np.array([[0, 3, 0, 1]])),
        (ml("CastMap", cast_to="TO_STRING"), 7, 8, {3: "x", 1: "y"}, strs("y", "x").reshape(1, 2)),
    ):
        t = onnx.TypeProto()
        t.map_type.key_type = key
        t.map_type.value_type.tensor_type.elem_type = value
        g = h.make_graph([node], "g", [onnx.ValueInfoProto(name="x", type=t)], [onnx.ValueInfoProto(name="y0")])
        m = h.make_model(g, opset_imports=[h.make_opsetid("", 21), h.make_opsetid("ai.onnx.ml", 3)])
        same(tenon.load(m.SerializeToString())(x), [want])


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
def test_tfidf(mode):
    pool = dict(ngram_counts=[0, 4], ngram_indexes=[0, 1, 2, 3, 4, 5, 6], mode=mode, weights=[0.5, 1, 2, 3, 4, 5, 6], max_skip_count=2)
    x = np.array([[1, 1, 3, 3, 3, 7], [8, 6, 7, 5, 6, 8]])
    numbers = dict(pool, pool_int64s=[2, 3, 5, 4, 5, 6, 7, 8, 6, 7])
    words = dict(pool, pool_strings=[str(v) for v in numbers["pool_int64s"]])
    for lo, hi in ((1, 1), (1, 2), (2, 2)):
        for kind, v in ((numbers, x), (numbers, x[0].astype(np.int32)), (words, x.astype(str).astype(object))):
            check([h.make_node("TfIdfVectorizer", ["x"], ["y0"], min_gram_length=lo, max_gram_length=hi, **kind)], {"x": v})

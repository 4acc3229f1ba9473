"""ONNX operators of networks (convolution, pooling, normalisation, resampling, recurrent, attention), and com.microsoft, as one-node models against onnxruntime,
torch, NumPy or onnx.reference (named per case), with sizes fixed and free. The standard's own cases are run elsewhere; here stand forms they leave out."""

import numpy as np
import onnx.helper as h
import onnx.numpy_helper as nh
import pytest
from onnx.reference import ReferenceEvaluator

import tenon

ort = pytest.importorskip("onnxruntime")
RNG = np.random.default_rng(0)
MS = "com.microsoft"
LISTS = ("Resize", "Upsample", "CenterCropPad", "Col2Im", "MaxUnpool", "AffineGrid")


def r(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def u8(*shape):
    return RNG.integers(0, 256, shape).astype(np.uint8)


def i8(*shape):
    return RNG.integers(-127, 128, shape).astype(np.int8)


def s(v, t=np.float32):
    return np.array(v, t)


def model(op, ins, n_out, consts, free, domain, opset, attrs):
    """consts: operands that are initializers. free: every dim of an input but of lists of sizes and scales has a name of its own."""
    names, inputs, inits, feeds = [], [], [], {}
    for k, x in enumerate(ins):
        names.append("" if x is None else f"x{k}")
        if x is None:
            continue
        if k in consts:
            inits.append(nh.from_array(x, f"x{k}"))
        else:
            inputs.append(h.make_tensor_value_info(f"x{k}", h.np_dtype_to_tensor_dtype(x.dtype), [f"d{k}_{i}" if free and not (k and x.ndim == 1 and op in LISTS) else d for i, d in enumerate(x.shape)]))
            feeds[f"x{k}"] = x
    outs = [f"y{i}" if w else "" for i, w in enumerate([1] * n_out if isinstance(n_out, int) else n_out)]
    node = h.make_node(op, names, outs, domain=domain, **attrs)
    g = h.make_graph([node], "g", inputs, [h.make_empty_tensor_value_info(o) for o in outs if o], inits)
    m = h.make_model(g, opset_imports=[h.make_opsetid("", opset), h.make_opsetid(MS, 1)])
    m.ir_version = 10
    return m, feeds


def check(op, ins, n_out=1, consts=(), domain="", opset=17, tol=2e-5, want=None, oracle="ort", free=(False, True), **attrs):
    m, feeds = model(op, ins, n_out, consts, False, domain, opset, attrs)
    if want is None and oracle == "ort":
        o = ort.SessionOptions()
        o.log_severity_level = 4
        o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        want = ort.InferenceSession(m.SerializeToString(), o, providers=["CPUExecutionProvider"]).run(None, feeds)
    elif want is None:
        want = ReferenceEvaluator(m).run(None, feeds)
    for f in free:
        got = tenon.load(model(op, ins, n_out, consts, f, domain, opset, attrs)[0])(feeds)
        assert len(got) == len(want)
        for a, b in zip(got, want, strict=True):
            assert a.shape == b.shape and a.dtype == b.dtype
            if a.dtype.kind in "iu" and not isinstance(tol, int):
                np.testing.assert_array_equal(a, b)
            else:
                np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), rtol=0 if isinstance(tol, int) else tol, atol=tol)


# ---- convolution ----


@pytest.mark.parametrize("pad", ["SAME_UPPER", "SAME_LOWER", "VALID"])
def test_conv_auto_pad(pad):
    check("Conv", consts=(1, 2), ins=[r(2, 4, 9, 8), r(6, 2, 3, 2), r(6)], auto_pad=pad, strides=[2, 3], group=2)
    if pad != "VALID":
        check("ConvTranspose", consts=(1, 2), ins=[r(1, 2, 5, 4), r(2, 3, 3, 3)], auto_pad=pad, strides=[2, 2])


def test_conv_dims():
    check("Conv", consts=(1, 2), ins=[r(1, 2, 10), r(3, 2, 4)], dilations=[2], pads=[1, 3])
    check("Conv", consts=(1, 2), ins=[r(1, 2, 5, 6, 7), r(3, 2, 2, 3, 2), r(3)], strides=[1, 2, 3], pads=[0, 1, 2, 1, 0, 1])
    check("ConvTranspose", consts=(1, 2), ins=[r(1, 4, 6), r(4, 2, 3), r(4)], group=2, strides=[3], output_padding=[1], pads=[1, 0], dilations=[2])
    check("ConvTranspose", consts=(1, 2), ins=[r(1, 2, 3, 3), r(2, 2, 3, 3)], strides=[3, 2], output_shape=[10, 8], free=(False,))


def test_conv_f16():
    x, w = r(1, 3, 6, 6).astype(np.float16), r(4, 3, 3, 3).astype(np.float16)
    check("Conv", consts=(1, 2), ins=[x, w], tol=2e-2)


# ---- pools ----


@pytest.mark.parametrize("ceil", [0, 1])
@pytest.mark.parametrize("include", [0, 1])
def test_average_pool(ceil, include):
    check("AveragePool", [r(1, 2, 7, 8)], kernel_shape=[3, 2], strides=[2, 3], pads=[1, 0, 1, 1], ceil_mode=ceil, count_include_pad=include)
    check("AveragePool", [r(1, 2, 7)], kernel_shape=[2], strides=[2], dilations=[2], opset=19, ceil_mode=ceil, count_include_pad=include, oracle="reference", pads=[0, 0])


def test_max_pool_indices():
    for order in (0, 1):
        check("MaxPool", [r(2, 3, 6, 7)], 2, kernel_shape=[2, 3], strides=[2, 2], pads=[0, 1, 1, 1], storage_order=order)
    check("MaxPool", [u8(1, 2, 6, 6)], kernel_shape=[3, 3], pads=[1, 1, 1, 1], auto_pad="NOTSET")
    check("MaxPool", [r(1, 1, 5, 5, 5)], 2, kernel_shape=[2, 2, 2], dilations=[2, 1, 2])


def test_lp_and_unpool():
    check("LpPool", [r(1, 2, 6, 6)], kernel_shape=[2, 3], p=3, strides=[2, 1], opset=11)
    check("GlobalLpPool", [r(1, 2, 4, 5)], p=3)
    x = np.arange(1, 5, dtype=np.float32).reshape(1, 1, 2, 2)
    at = np.array([5, 7, 13, 15], np.int64).reshape(1, 1, 2, 2)
    want = np.zeros((1, 1, 5, 6), np.float32)
    want[0, 0, 1, 1], want[0, 0, 1, 3], want[0, 0, 3, 1], want[0, 0, 3, 3] = 1, 2, 3, 4
    check("MaxUnpool", [x, at, np.array([1, 1, 5, 6], np.int64)], kernel_shape=[2, 2], strides=[2, 2], want=[want])


def test_rois():
    rois = np.array([[0, 1, 1, 5, 6], [1, 0, 0, 7, 7], [0, 6, 6, 6, 6]], np.float32)
    check("MaxRoiPool", [r(2, 3, 8, 8), rois], pooled_shape=[2, 3], spatial_scale=0.7)
    boxes, image = np.array([[0.5, 1, 6.2, 7], [-3, 2, 12, 4], [2, 2, 2.2, 2.1]], np.float32), np.array([0, 1, 0], np.int64)
    for ratio in (2, 0):
        for how in ("half_pixel", "output_half_pixel"):
            check("RoiAlign", [r(2, 3, 8, 9), boxes, image], output_height=2, output_width=3, sampling_ratio=ratio, spatial_scale=0.8, opset=16, coordinate_transformation_mode=how)
    for ratio in (2, 0):
        check("RoiAlign", [r(2, 3, 8, 9), boxes, image], output_height=2, output_width=3, sampling_ratio=ratio, mode="max", opset=16)


# ---- norms ----


def test_norms():
    x = r(3, 4, 5)
    check("BatchNormalization", [x, r(4), r(4), r(4), np.abs(r(4))], epsilon=1e-3)
    mean, var = x.mean((0, 2)), x.var((0, 2))
    w, b, rm, rv = r(4), r(4), r(4), np.abs(r(4))
    y = (x - mean[:, None]) / np.sqrt(var[:, None] + 1e-3) * w[:, None] + b[:, None]
    check("BatchNormalization", [x, w, b, rm, rv], 3, training_mode=1, momentum=0.8, epsilon=1e-3, want=[y, rm * 0.8 + mean * np.float32(0.2), rv * 0.8 + var * np.float32(0.2)])
    check("InstanceNormalization", [x, r(4), r(4)])
    check("LayerNormalization", [x, r(4, 5), r(4, 5)], 3, axis=1)
    v = r(1, 6, 3, 2)
    squares = np.stack([(v[:, max(0, c - 1) : c + 3] ** 2).sum(1) for c in range(6)], 1)  # an even size: one channel before, two behind
    check("LRN", [v], size=4, alpha=0.3, beta=0.6, bias=2.0, want=[v / (2 + np.float32(0.3 / 4) * squares) ** np.float32(0.6)])
    g = x.reshape(3, 2, 2, 5)
    n = (g - g.mean((2, 3), keepdims=True)) / np.sqrt(g.var((2, 3), keepdims=True) + 1e-5)
    w2, w4 = r(2), r(4)
    check("GroupNormalization", [x, w2, np.zeros(2, np.float32)], num_groups=2, opset=18, want=[(n * w2[:, None, None]).reshape(3, 4, 5)])
    check("GroupNormalization", [x, w4, np.ones(4, np.float32)], num_groups=2, opset=21, want=[n.reshape(3, 4, 5) * w4[:, None] + 1])


def test_old_batch_norm():  # a statistic per activation
    x, p = r(3, 2, 2), [r(2, 2) for _ in range(3)]
    v = np.abs(r(2, 2))
    check("BatchNormalization", [x, *p, v], opset=7, spatial=0, want=[(x - p[2]) / np.sqrt(v + 1e-5) * p[0] + p[1]])


# ---- resampling ----


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("how", ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"])
def test_resize_sizes(mode, how):
    x, e = r(1, 2, 5, 7), np.array([], np.float32)
    for size in ([1, 2, 8, 4], [1, 2, 3, 15]):
        check("Resize", [x, e, e, np.array(size, np.int64)], mode=mode, coordinate_transformation_mode=how, nearest_mode="floor" if mode == "nearest" else "round_prefer_floor", consts=(1, 2), opset=18)
    check("Resize", [x, e, np.array([1, 1, 2, 3], np.float32)], mode=mode, coordinate_transformation_mode=how, consts=(1, 2), opset=13)


def test_resize_rest():
    x, e = r(1, 2, 6, 8), np.array([], np.float32)
    check("Resize", [x, np.array([1, 1, 2, 2.5], np.float32)], consts=(1,), opset=10, mode="linear")
    check("Resize", [x, np.array([1, 1, 0.5, 2.5], np.float32)], opset=10, mode="nearest")
    check("Resize", [x, None, None, np.array([3, 4], np.int64)], axes=[2, 3], mode="linear", antialias=1, opset=18, oracle="reference")
    check("Resize", [x, None, np.array([0.4, 0.6], np.float32)], axes=[3, 2], mode="cubic", antialias=1, exclude_outside=1, opset=19, oracle="reference")
    check("Resize", [(x * 50 + 128).clip(0, 255).astype(np.uint8), e, np.array([1, 1, 2, 0.5], np.float32)], mode="linear", opset=18, oracle="reference", tol=1)
    check("Upsample", [x], opset=7, scales=[1.0, 1.0, 2.0, 3.0], mode="nearest")
    check("Upsample", [x, np.array([1, 1, 2, 3], np.float32)], opset=9, mode="linear")
    check("CenterCropPad", [r(3, 6, 5), np.array([4, 3, 8], np.int64)], opset=18, oracle="reference")


@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
@pytest.mark.parametrize("pad", ["zeros", "border", "reflection"])
def test_grid_sample(mode, pad):
    for corners in (0, 1):
        g = (RNG.random((2, 4, 3, 2)) * 3 - 1.5).astype(np.float32)
        check("GridSample", [r(2, 3, 5, 6), g], mode=mode, padding_mode=pad, align_corners=corners, opset=20, tol=1e-4)


def test_deform_and_col2im():
    torch = pytest.importorskip("torch")
    x, c = r(2, 4, 7, 8), r(1, 2 * 6, 20)
    check("Col2Im", [c, np.array([5, 7], np.int64), np.array([2, 3], np.int64)], opset=18, want=[torch.nn.functional.fold(torch.tensor(c), (5, 7), (2, 3)).numpy()])
    off, w = r(2, 2 * 6 * 2, 6, 6), r(6, 2, 2, 3)
    check("DeformConv", consts=(1,), ins=[x, w, off], opset=19, group=2, offset_group=2, oracle="reference", tol=1e-4)


# ---- recurrent ----


def rnn(op, gates, T=5, B=3, I=4, H=3, dirs=1, lens=None, state=True, peep=False, **attrs):
    k = np.float32(0.3)
    ins = [r(T, B, I), k * r(dirs, gates * H, I), k * r(dirs, gates * H, H), r(dirs, 2 * gates * H), None if lens is None else np.array(lens, np.int32)]
    if state:
        ins += [r(dirs, B, H)] * (2 if op == "LSTM" else 1)
    if peep:
        ins += [None] * (7 - len(ins)) + [r(dirs, 3 * H)]
    while ins[-1] is None:
        ins.pop()
    direction = {1: attrs.pop("direction", "forward"), 2: "bidirectional"}[dirs]
    check(op, ins, 3 if op == "LSTM" else 2, consts=attrs.pop("consts", (1, 2, 3)), hidden_size=H, direction=direction, opset=14, tol=1e-4, **attrs)


@pytest.mark.parametrize("op,gates,more", [("LSTM", 4, {}), ("GRU", 3, {"linear_before_reset": 1}), ("GRU", 3, {}), ("RNN", 1, {})], ids=["lstm", "gru", "gru0", "rnn"])
def test_recurrent(op, gates, more):
    rnn(op, gates, **more)  # fixed and free: prims, or steps written out, or a loop
    rnn(op, gates, dirs=2, state=False, **more)
    rnn(op, gates, direction="reverse", **more)
    for direction in ("forward", "reverse"):
        rnn(op, gates, lens=[5, 2, 4], direction=direction, **more)
    rnn(op, gates, dirs=2, lens=[1, 5, 3], **more)


def test_recurrent_forms():
    rnn("LSTM", 4, peep=True)
    rnn("GRU", 3, clip=0.4)
    rnn("LSTM", 4, free=(False,), input_forget=1)
    rnn("LSTM", 4, free=(False,), activations=["HardSigmoid", "Softsign", "LeakyRelu"], activation_alpha=[0.3, 0.1], activation_beta=[0.4])
    rnn("GRU", 3, free=(False,), activations=["Sigmoid", "ScaledTanh"], activation_alpha=[0.8], activation_beta=[0.7], linear_before_reset=1)
    rnn("RNN", 1, free=(False,), activations=["Relu"], lens=[2, 5, 1])
    rnn("RNN", 1, free=(False,), dirs=2, activations=["Affine", "Tanh"], activation_alpha=[0.5], activation_beta=[0.1])


def test_recurrent_long():
    rnn("GRU", 3, T=150, B=2, I=20, H=33, dirs=2, linear_before_reset=1, lens=[150, 77])
    rnn("GRU", 3, T=100, B=2, I=20, H=33, direction="reverse")
    rnn("LSTM", 4, T=150, B=2, I=20, H=33, dirs=2, lens=[150, 77])


def test_linear_attention():
    for rule in ("linear", "gated", "delta", "gated_delta"):
        more = [r(2, 3, 8) * np.float32(0.1) if "gated" in rule else None, np.abs(r(2, 3, 2)) if "delta" in rule else None]
        check("LinearAttention", [r(2, 3, 16), r(2, 3, 8), r(2, 3, 6), r(2, 2, 4, 3), *more], 2, opset=27, oracle="reference", q_num_heads=4, kv_num_heads=2, update_rule=rule, scale=0.5)


# ---- com.microsoft ----


def ms(op, ins, n_out=1, **kw):
    check(op, ins, n_out, domain=kw.pop("domain", MS), **kw)


def test_ms_norms():
    ms("SkipLayerNormalization", [r(2, 3, 8), r(2, 3, 8), r(8), r(8), r(8)], (1, 0, 0, 1), epsilon=1e-5)
    ms("SkipSimplifiedLayerNormalization", [r(2, 3, 8), r(2, 3, 8), r(8), r(8)], (1, 0, 0, 1), epsilon=1e-5)
    ms("SimplifiedLayerNormalization", [r(2, 3, 8), r(8)], domain="", epsilon=1e-6, axis=-1)
    ids, seg = RNG.integers(0, 10, (2, 5)).astype(np.int32), RNG.integers(0, 2, (2, 5)).astype(np.int32)
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    ms("EmbedLayerNormalization", [ids, seg, r(10, 8), r(6, 8), r(2, 8), r(8), r(8), mask], 3)
    x, w, b = r(2, 3, 4, 8), r(8), r(8)
    g = x.reshape(2, 12, 4, 2)
    n = ((g - g.mean((1, 3), keepdims=True)) / np.sqrt(g.var((1, 3), keepdims=True) + 1e-5)).reshape(x.shape) * w + b
    ms("GroupNorm", [x, w, b], groups=4, activation=1, want=[n / (1 + np.exp(-n))])


def test_ms_gelus():
    for op, ins in (("BiasGelu", [r(2, 3, 8), r(8)]), ("Gelu", [r(2, 3, 8)]), ("FastGelu", [r(2, 3, 8), r(8)]), ("QuickGelu", [r(2, 3, 8)])):
        ms(op, ins, tol=1e-4)
    a, b, c = r(2, 3, 8), r(8), r(2, 3, 8)
    ms("BiasAdd", [a, b, c], want=[a + b + c])


def test_ms_products():
    for ta in (0, 1):
        for tb in (0, 1):
            ms("FusedMatMul", [r(2, 5, 4) if ta else r(2, 4, 5), r(2, 6, 5) if tb else r(2, 5, 6)], transA=ta, transB=tb, alpha=0.5)
    ms("FusedMatMul", [r(4, 2, 5), r(2, 5, 6)], transBatchA=1)
    ms("FusedGemm", [r(3, 4), r(4, 5), r(5)], activation="LeakyRelu", activation_alpha=0.3)
    ms("FusedConv", consts=(1,), ins=[r(1, 3, 6, 6), r(4, 3, 3, 3), r(4), r(1, 4, 6, 6)], activation="Relu", pads=[1, 1, 1, 1])
    ms("FusedConv", consts=(1,), ins=[r(1, 3, 6, 6), r(4, 3, 3, 3), r(4)], activation="Clip", activation_params=[-0.5, 0.5])
    for bits, n, k, block in ((4, 6, 40, 16), (8, 5, 32, 16), (2, 5, 64, 32)):
        nb = -(-k // block)
        ms("MatMulNBits", [r(3, k), u8(n, nb, block * bits // 8), np.abs(r(n, nb)) * np.float32(0.1), u8(n, (nb * bits + 7) // 8)], K=k, N=n, bits=bits, block_size=block, consts=(1, 2, 3), tol=1e-3)


def test_ms_quantised():
    q = [s(0.1), s(3, np.uint8), u8(8), s(0.2), s(100, np.uint8), s(0.25), s(128, np.uint8)]
    ms("QLinearAdd", [u8(2, 3, 8), *q])
    ms("QLinearMul", [u8(2, 3, 8), *q[:5], s(2.5), s(128, np.uint8)], tol=1)
    one = [s(0.1), s(128, np.uint8), s(0.1), s(100, np.uint8)]
    ms("QLinearSigmoid", [u8(2, 3, 8), s(0.1), s(128, np.uint8), s(1 / 256), s(0, np.uint8)], tol=1)
    ms("QLinearLeakyRelu", [u8(2, 3, 8), *one], alpha=0.2, tol=1)
    ms("QLinearAveragePool", [u8(1, 6, 6, 3), *one], kernel_shape=[3, 3], pads=[1, 1, 1, 1], channels_last=1, tol=1)
    ms("QLinearGlobalAveragePool", [u8(1, 3, 6, 6), *one], tol=1)
    ms("QLinearConcat", [s(0.2), s(120, np.uint8), u8(2, 3), s(0.1), s(3, np.uint8), u8(2, 4), s(0.3), s(100, np.uint8)], axis=1, consts=(0, 1, 3, 4, 6, 7))
    ms("QGemm", [u8(3, 5), s(0.1), s(7, np.uint8), i8(5, 4), np.abs(r(4)) * np.float32(0.02), np.zeros(4, np.int8), RNG.integers(-99, 99, 4).astype(np.int32), s(0.3), s(100, np.uint8)], tol=1)
    ms("DynamicQuantizeMatMul", [r(3, 5), u8(5, 4), s(0.02), s(120, np.uint8), r(4)], tol=1e-4)
    ms("MatMulIntegerToFloat", [u8(3, 5), i8(5, 4), s(0.1), np.abs(r(4)) * np.float32(0.02), s(7, np.uint8), np.zeros(4, np.int8), r(4)])


def test_ms_dynamic_quantize_lstm():  # the state is not quantised here: nearer to the float layer than the quantised one is
    i, n = 5, 6
    ins = [r(7, 2, i), i8(1, i, 4 * n), i8(1, n, 4 * n), r(1, 8 * n), None, None, None, None, s([0.01]), s([0], np.int8), s([0.01]), s([0], np.int8)]
    m, feeds = model("DynamicQuantizeLSTM", ins, 3, (1, 2, 8, 9, 10, 11), False, MS, 17, {"hidden_size": n})
    want = ort.InferenceSession(m.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)
    for a, b in zip(tenon.load(m)(feeds), want, strict=True):
        assert np.abs(a - b).max() < 0.03


def test_ms_attention():
    mask = np.array([[1, 1, 0], [1, 1, 1]], np.int32)
    for more in ([], [mask], [np.array([2, 3], np.int32)], [np.array([3, 2, 1, 0], np.int32)], [RNG.integers(0, 2, (2, 3, 3)).astype(np.int32)]):
        ms("Attention", [r(2, 3, 8), r(8, 24), r(24), *more], num_heads=2, free=(False,))
    ms("Attention", [r(2, 3, 8), r(8, 24), r(24), None, r(2, 2, 2, 4, 4)], 2, num_heads=2, unidirectional=1, free=(False,))
    ms("Attention", [r(2, 3, 8), r(8, 28), r(28)], num_heads=2, qkv_hidden_sizes=[8, 8, 12], free=(False,))
    ms("MultiHeadAttention", [r(2, 3, 8), r(2, 5, 8), r(2, 5, 12), r(28)], num_heads=2, free=(False,))
    ms("MultiHeadAttention", [r(2, 3, 8), r(2, 5, 8), r(2, 5, 8), None, np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)], num_heads=2, free=(False,))
    ms("MultiHeadAttention", [r(2, 3, 8), r(2, 3, 8), r(2, 3, 8), r(24), None, None, r(2, 2, 4, 4), r(2, 2, 4, 4)], 3, num_heads=2, free=(False,))


@pytest.mark.parametrize("more", [{}, {"do_rotary": 1}, {"local_window_size": 3}, {"softcap": 2.0}, {"smooth_softmax": 1}], ids=lambda m: next(iter(m), "plain"))
def test_ms_group_query_attention(more):
    for batch, steps, past, lens in ((1, 6, 0, [5]), (2, 1, 6, [3, 6]), (1, 3, 4, [6])):
        total = past + steps
        cache = [r(batch, 2, past, 16), r(batch, 2, past, 16)] if past else [None, None]
        ins = [r(batch, steps, 64), r(batch, steps, 32), r(batch, steps, 32), *cache, np.array(lens, np.int32), np.array([total], np.int32)]
        if "do_rotary" in more:
            ins += [r(32, 8), r(32, 8)]
        ms("GroupQueryAttention", ins, 3, num_heads=4, kv_num_heads=2, consts=(6,), tol=1e-4, free=(False,), **more)

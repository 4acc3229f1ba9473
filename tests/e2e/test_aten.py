"""ATen decompositions against eager torch: every operator of the models' census and the pointwise, reduction, layout, index, convolution
and attention families, over dtypes and edge shapes. Runs on evalfx (importer + decompositions + reference kernels): no code generation."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from fxeval import TenonError, check_fn, check_op, portable, server, single

aten = torch.ops.aten
f32, f64, f16, bf16, i64, i32, u8, boo = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool)
ALL = [f32, f64, f16, bf16, i64, i32, u8, boo]
FLOATS = [f32, f64, f16, bf16]
INF, NAN = math.inf, math.nan


def rnd(*shape, dtype=f32, lo=-2.0, hi=2.0):
    g = torch.Generator().manual_seed(sum(shape) * 7 + len(shape))
    if dtype is boo:
        return torch.rand(shape, generator=g) > 0.5
    if dtype.is_floating_point:
        return (torch.rand(shape, generator=g, dtype=f64) * (hi - lo) + lo).to(dtype)
    return torch.randint(0 if dtype is u8 else -5, 6, shape, generator=g).to(dtype)


SPECIAL = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5, INF, -INF, NAN, 1e-30, 1e30, -88.0, 88.0])


def runs(op, *args) -> bool:
    """Whether torch has a kernel for this: what it lacks is no case."""
    try:
        op(*args)
    except (RuntimeError, NotImplementedError):
        return False
    return True


def cases(names, *axes, make):
    """Parametrisation over the combinations that torch has kernels for; make(name, *values) gives an operator and arguments."""
    rows = [row for row in itertools.product(names, *axes) if runs(*make(*row))]
    return [pytest.param(*row, id="-".join(map(str, row))) for row in rows]


# ---- pointwise ----

UNARY = """neg abs sign ceil floor round trunc sqrt rsqrt reciprocal exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan
sinh cosh tanh asinh acosh atanh erf erfc sigmoid relu silu mish gelu hardswish hardsigmoid relu6 selu elu celu softplus leaky_relu
isnan isinf isfinite isposinf isneginf signbit square frac deg2rad nan_to_num logical_not sinc log_sigmoid hardtanh softshrink hardshrink
hardtanh positive sgn special_expit""".split()


@pytest.mark.parametrize("name, dtype", cases(UNARY, ALL, make=lambda name, dtype: (getattr(aten, name).default, rnd(3, 5, dtype=dtype))))
def test_unary(name, dtype):
    op = getattr(aten, name).default
    check_op(op, (rnd(3, 5, dtype=dtype),))
    check_op(op, (rnd(dtype=dtype),))
    check_op(op, (rnd(0, 2, dtype=dtype),))
    if dtype.is_floating_point:
        special = SPECIAL.to(dtype)
        if name == "gelu":  # eager's vector and scalar kernels disagree on infinities
            special = special[special.isfinite()]
        if name == "signbit":  # the sign of a NaN is not kept
            special = special[~special.isnan()]
        check_op(op, (special,))


BINARY = [aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor, aten.maximum.default, aten.minimum.default, aten.fmax.default,
          aten.fmin.default, aten.remainder.Tensor, aten.fmod.Tensor, aten.floor_divide.default, aten.pow.Tensor_Tensor, aten.atan2.default,
          aten.eq.Tensor, aten.ne.Tensor, aten.lt.Tensor, aten.le.Tensor, aten.gt.Tensor, aten.ge.Tensor, aten.logical_and.default,
          aten.logical_or.default, aten.logical_xor.default, aten.bitwise_and.Tensor, aten.bitwise_or.Tensor, aten.bitwise_xor.Tensor,
          aten.copysign.Tensor, aten.hypot.default, aten.heaviside.default, aten.logaddexp.default, aten.xlogy.Tensor]
DIVIDES = {aten.remainder.Tensor, aten.fmod.Tensor, aten.floor_divide.default}
PAIRS = [(f32, f32), (f32, i64), (i64, f32), (f64, f32), (f16, f32), (bf16, bf16), (f16, bf16), (i64, i64), (i32, i64), (u8, i32), (boo, boo),
         (boo, i64), (bf16, i64)]


def operands(op, da, db, sa, sb):
    a, b = rnd(*sa, dtype=da), rnd(*sb, dtype=db)
    if op in DIVIDES and not b.is_floating_point():
        b = torch.where(b == 0, torch.ones_like(b), b)
    if op is aten.pow.Tensor_Tensor and not b.is_floating_point():
        b = b.abs() if b.dtype is not boo else b
    return a, b


@pytest.mark.parametrize("op, pair", cases(BINARY, PAIRS, make=lambda op, pair: (op, *operands(op, *pair, (3, 4), (3, 4)))))
def test_binary(op, pair):
    if op is aten.pow.Tensor_Tensor and pair[0] is boo:
        return
    for sa, sb in [((3, 4), (3, 4)), ((3, 1), (4,)), ((), (2, 3)), ((2, 3), ()), ((), ())]:
        check_op(op, operands(op, *pair, sa, sb))


SCALAR_OPS = "add sub mul div eq ne lt le gt ge remainder fmod floor_divide".split()


@pytest.mark.parametrize("name, k, dtype", cases(SCALAR_OPS, [2, 0.1, -1.5, True, 3], [f32, f16, bf16, i64, boo],
                                                 make=lambda name, k, dtype: (getattr(aten, name).Scalar, rnd(4, 3, dtype=dtype), k)))
def test_scalar_operand(name, k, dtype):
    check_op(getattr(aten, name).Scalar, (rnd(4, 3, dtype=dtype), k))


@pytest.mark.parametrize("dtype", FLOATS + [i64], ids=str)
def test_alpha_beta_and_modes(dtype):
    a, b = rnd(3, 4, dtype=dtype), rnd(4, dtype=dtype)
    b = torch.where(b == 0, torch.ones_like(b), b)
    k = 3 if dtype is i64 else 0.3
    check_op(aten.add.Tensor, (a, b), {"alpha": k})
    check_op(aten.sub.Tensor, (a, b), {"alpha": k})
    check_op(aten.rsub.Scalar, (a, 2, k))
    check_op(aten.rsub.Tensor, (a, b), {"alpha": k})
    for mode in (None, "floor", "trunc"):
        check_op(aten.div.Tensor_mode, (a, b), {"rounding_mode": mode})
        check_op(aten.div.Scalar_mode, (a, 3), {"rounding_mode": mode})
    check_op(aten.clamp.default, (a, None, 1))
    check_op(aten.clamp.default, (a, -1, None))
    check_op(aten.clamp.Tensor, (a, b, None))
    check_op(aten.clamp.Tensor, (a, None, b))
    check_op(aten.clamp_min.default, (a, 0.5))
    check_op(aten.where.self, (a > 0, a, b))
    check_op(aten.where.ScalarOther, (a > 0, a, 1))
    check_op(aten.where.ScalarSelf, (a > 0, 2.5, a))
    check_op(aten.masked_fill.Scalar, (a, b > 0, 7))
    check_op(aten.masked_fill.Tensor, (a, b > 0, torch.tensor(2, dtype=dtype)))
    if dtype.is_floating_point:
        check_op(aten.addcmul.default, (a, a, b), {"value": 0.7})
        check_op(aten.addcdiv.default, (a, a, b), {"value": -2})
        for w in (0.25, 0.75):
            check_op(aten.lerp.Scalar, (a, b, w))
        check_op(aten.lerp.Tensor, (a, b, rnd(3, 1, dtype=dtype)))


@pytest.mark.parametrize("dtype, e", cases([f32, f64, bf16, i64], [0, 1, 2, 3, -1, 0.5, -0.5, -2, 2.5, 4],
                                           make=lambda dtype, e: (aten.pow.Tensor_Scalar, rnd(3, 4, dtype=dtype), e)))
def test_pow(dtype, e):
    x = rnd(3, 4, dtype=dtype)
    check_op(aten.pow.Tensor_Scalar, (x, e))
    if not (dtype is i64 and isinstance(e, float)):
        check_op(aten.pow.Scalar, (2, x.abs()))


def test_clamp_promotes_and_nan_wins():
    check_op(aten.clamp.default, (torch.tensor([1, 5, 9]), 1.5, 7.5))
    check_op(aten.clamp.default, (torch.tensor([NAN, -3.0, 3.0]), -1, 1))
    check_op(aten.clamp.default, (torch.tensor([0.0]), 2, 1))
    check_op(aten.maximum.default, (torch.tensor([NAN, 1.0]), torch.tensor([0.0, NAN])))


def test_shifts():
    a, b = torch.tensor([1, 5, -8, 7]), torch.tensor([2, 0, 1, 3])
    check_op(aten.bitwise_left_shift.Tensor, (a, b))
    check_op(aten.bitwise_right_shift.Tensor, (a, b))
    check_op(aten.bitwise_not.default, (a,))
    check_op(aten.bitwise_not.default, (a > 2,))


@pytest.mark.parametrize("dtype", [f32, f16, bf16], ids=str)
@pytest.mark.parametrize("name", ["gelu", "sigmoid", "tanh", "silu", "softplus", "mish"])
def test_own_forms_stay_finite(name, dtype):
    """D8: no NaN from -1e4 to 1e4, and infinite inputs as eager."""
    x = torch.cat([torch.linspace(-1e4, 1e4, 401), torch.tensor([INF, -INF, 65504.0, -65504.0])]).to(dtype)
    if name in ("gelu", "silu", "mish"):
        x = x[~torch.isinf(x)]
    check_op(getattr(aten, name).default, (x,))
    if name == "gelu":
        check_op(aten.gelu.default, (x,), {"approximate": "tanh"})


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_activations_with_arguments(dtype):
    x = rnd(2, 6, 3, dtype=dtype, lo=-4, hi=4)
    check_op(aten.gelu.default, (x,), {"approximate": "tanh"})
    check_op(aten.leaky_relu.default, (x, 0.2))
    check_op(aten.elu.default, (x, 0.7))
    check_op(aten.celu.default, (x, 1.3))
    check_op(aten.softplus.default, (x, 2.0, 3.0))
    check_op(aten.hardtanh.default, (x, -0.3, 1.7))
    check_op(aten.threshold.default, (x, 0.5, -3.0))
    check_op(aten.glu.default, (x, 1))
    check_op(aten.prelu.default, (x, rnd(6, dtype=dtype)))
    check_op(aten.prelu.default, (x, rnd(1, dtype=dtype)))
    check_op(aten.logit.default, (rnd(3, 3, dtype=dtype, lo=0.1, hi=0.9), 1e-6))


# ---- reductions ----

REDUCE_ARGS = [((), {}), ((1,), {}), (([0, 2],), {"keepdim": True}), (([],), {}), ((-1, True), {})]


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("op", [aten.sum.dim_IntList, aten.mean.dim, aten.amax.default, aten.amin.default, aten.any.dims, aten.all.dims], ids=str)
def test_reductions(op, dtype):
    for shape in [(3, 4, 5), (1, 1, 1)]:
        x = rnd(*shape, dtype=dtype)
        for args, kwargs in REDUCE_ARGS:
            if not args and op in (aten.sum.dim_IntList, aten.mean.dim):
                args = (None,)
            args = tuple([a] if i == 0 and type(a) is int else a for i, a in enumerate(args))
            try:
                op(x, *args, **kwargs)
            except (RuntimeError, NotImplementedError):
                continue
            check_op(op, (x, *args), kwargs)


@pytest.mark.parametrize("dtype", [f32, bf16, i64], ids=str)
def test_full_reductions(dtype):
    x, s = rnd(3, 4, dtype=dtype), rnd(dtype=dtype)
    for op in (aten.sum.default, aten.prod.default, aten.max.default, aten.min.default, aten.any.default, aten.all.default, aten.argmax.default,
               aten.argmin.default):
        check_op(op, (x,))
        check_op(op, (s,))
    for op in (aten.max.dim, aten.min.dim):
        check_op(op, (x, 1))
        check_op(op, (x, 0, True))
        check_op(op, (s, 0))
    check_op(aten.argmax.default, (x, 1, True))
    check_op(aten.sum.default, (x,), {"dtype": f64})
    check_op(aten.sum.dim_IntList, (x, [0]), {"dtype": f32})
    check_op(aten.prod.dim_int, (x, 1))
    check_op(aten.mean.dim, (x.to(f32), [1]), {"dtype": f64})
    check_op(aten.count_nonzero.default, (x,))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_spread_and_norms(dtype):
    x = rnd(3, 4, 5, dtype=dtype)
    for c in (0, 1, 2):
        check_op(aten.var.correction, (x, [1]), {"correction": c})
        check_op(aten.var_mean.correction, (x, [0, 2]), {"correction": c, "keepdim": True})
        check_op(aten.std.correction, (x, None), {"correction": c})
    check_op(aten.var.correction, (x, [1]), {})
    check_op(aten.var.dim, (x, [1], False))
    check_op(aten.logsumexp.default, (x, [1]))
    check_op(aten.logsumexp.default, (torch.tensor([[-INF, -INF], [INF, 1.0]], dtype=dtype), [1]))
    for p in (1, 2, INF, -INF, 0, 3):
        check_op(aten.linalg_vector_norm.default, (x, p, [1]))
    check_op(aten.norm.ScalarOpt_dim, (x, 2, [2], True))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_softmax(dtype):
    x = rnd(3, 4, 5, dtype=dtype)
    for d in (1, -1):
        check_op(aten._softmax.default, (x, d, False))
        check_op(aten._log_softmax.default, (x, d, False))
        check_op(aten._safe_softmax.default, (x, d))
    check_op(aten._softmax.default, (rnd(dtype=dtype), 0, False))
    check_op(aten.softmax.int, (x, 1, f32))
    masked = x.clone()
    masked[0, 1] = -INF
    masked[1, 2, 3] = -INF
    check_op(aten._softmax.default, (masked, 2, False))
    check_op(aten._safe_softmax.default, (masked, 2))
    check_op(aten._softmax.default, (x * 1000, 2, False))


@pytest.mark.parametrize("dtype", [f32, i64, bf16], ids=str)
def test_scans_and_order(dtype):
    x = rnd(3, 6, dtype=dtype)
    check_op(aten.cumsum.default, (x, 1))
    check_op(aten.cumprod.default, (x, 0))
    check_op(aten.cummax.default, (x, 1))
    check_op(aten.cummin.default, (x, 1))
    check_op(aten.sort.stable, (x,), {"stable": True, "dim": 1})
    check_op(aten.sort.default, (x, 0, True), results=[0])
    check_op(aten.topk.default, (x, 3), results=[0])
    check_op(aten.topk.default, (x, 2, 0, False), results=[0])
    check_op(aten.cumsum.default, (rnd(dtype=dtype), 0))


# ---- normalisation ----

@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_norms(dtype):
    x, w, b = rnd(2, 6, 4, 3, dtype=dtype), rnd(6, dtype=dtype), rnd(6, dtype=dtype)
    lw = rnd(4, 3, dtype=dtype)
    check_op(aten.native_layer_norm.default, (x, [4, 3], lw, lw, 1e-5))
    check_op(aten.native_layer_norm.default, (x, [3], None, None, 1e-5))
    check_op(aten.layer_norm.default, (x, [3], rnd(3, dtype=dtype), None))
    check_op(aten.native_group_norm.default, (x, w, b, 2, 6, 12, 3, 1e-5))
    check_op(aten.group_norm.default, (x, 2, None, None))
    check_op(aten.rms_norm.default, (x, [3], rnd(3, dtype=dtype), 1e-6))
    check_op(aten.rms_norm.default, (x, [3]))
    mean, var = rnd(6), rnd(6).abs() + 0.1
    check_op(aten._native_batch_norm_legit_no_training.default, (x, w, b, mean.to(dtype), var.to(dtype), 0.1, 1e-5), results=[0])
    check_op(aten._native_batch_norm_legit_no_training.default, (x, None, None, mean.to(dtype), var.to(dtype), 0.1, 1e-5), results=[0])
    if dtype in (f32, f64):
        check_op(aten._native_batch_norm_legit_functional.default, (x, w, b, mean.to(dtype), var.to(dtype), True, 0.1, 1e-5))
        check_op(aten._native_batch_norm_legit.no_stats, (x, w, b, True, 0.1, 1e-5))
        check_op(aten.native_batch_norm.default, (x, w, b, mean.to(dtype), var.to(dtype), False, 0.1, 1e-5), results=[0])


# ---- layout ----

@pytest.mark.parametrize("dtype", [f32, i64, boo, bf16], ids=str)
def test_views(dtype):
    x = rnd(2, 3, 4, dtype=dtype)
    cases = [
        (aten.view.default, (x, [6, -1])), (aten._unsafe_view.default, (x, [24])), (aten.reshape.default, (x, [4, 6])),
        (aten.unsqueeze.default, (x, -1)), (aten.unsqueeze.default, (x, 0)), (aten.squeeze.default, (rnd(1, 3, 1, dtype=dtype),)),
        (aten.squeeze.dim, (rnd(1, 3, 1, dtype=dtype), -1)), (aten.squeeze.dims, (rnd(1, 3, 1, dtype=dtype), [0, 2])),
        (aten.flatten.using_ints, (x, 1, 2)), (aten.permute.default, (x, [2, -3, 1])), (aten.t.default, (x[0],)), (aten.t.default, (x[0, 0],)),
        (aten.transpose.int, (x, 0, -1)), (aten.expand.default, (rnd(3, 1, dtype=dtype), [2, -1, 4])), (aten.slice.Tensor, (x, 1, -2)),
        (aten.slice.Tensor, (x, 2, 0, 100, 2)), (aten.slice.Tensor, (x, 2, 3, 1)), (aten.slice.Tensor, (x, 2, 1, -1)),
        (aten.select.int, (x, 1, -1)), (aten.select.int, (x, 0, 1)), (aten.narrow.default, (x, 2, 1, 2)), (aten.split.Tensor, (x, 2, 1)),
        (aten.split_with_sizes.default, (x, [1, 0, 3], 2)), (aten.chunk.default, (x, 3, 2)), (aten.unbind.int, (x, 1)),
        (aten.clone.default, (x,)), (aten.detach.default, (x,)), (aten.alias.default, (x,)), (aten.lift_fresh_copy.default, (x,)),
        (aten.cat.default, ([x, x[:, :1]], 1)), (aten.cat.default, ([torch.zeros(0, dtype=dtype), x], -1)), (aten.stack.default, ([x, x], -1)),
        (aten.movedim.int, (x, 0, 2)), (aten.flip.default, (x, [0, -1])), (aten.roll.default, (x, [1, -2], [0, 2])), (aten.roll.default, (x, [5])),
        (aten.repeat.default, (x, [2, 1, 1, 3])), (aten.repeat.default, (rnd(dtype=dtype), [2])), (aten.tile.default, (x, [2, 1])),
        (aten.repeat_interleave.self_int, (x, 2, 1)), (aten.repeat_interleave.self_int, (x, 3)), (aten.diagonal.default, (x, 1, 0, 2)),
        (aten.diagonal.default, (x, -1, 1, 2)), (aten.unfold.default, (x, 2, 2, 1)), (aten.tril.default, (x, 1)), (aten.triu.default, (x, -1)),
        (aten.rot90.default, (x, 3, [0, 2])), (aten.diag_embed.default, (x, -1)), (aten.select_scatter.default, (x, x[:, 0], 1, -2)),
        (aten.slice_scatter.default, (x, x[:, :2], 1, 1)), (aten.slice_scatter.default, (x, x[:, :, :2], 2, 0, 4, 2)),
        (aten.pixel_shuffle.default, (rnd(1, 8, 2, 3, dtype=dtype), 2)), (aten.pixel_unshuffle.default, (rnd(1, 2, 4, 6, dtype=dtype), 2)),
        (aten.constant_pad_nd.default, (x, [1, 2, -1, 1], 1)), (aten.constant_pad_nd.default, (x, [-1, -1], 0)),
    ]
    for op, args in cases:
        check_op(op, args)


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("to", ALL, ids=str)
def test_casts(dtype, to):
    x = rnd(3, 4, dtype=dtype).abs() if to is u8 and dtype is not boo else rnd(3, 4, dtype=dtype)
    check_op(aten._to_copy.default, (x,), {"dtype": to})


def test_as_strided():
    x = rnd(2, 3, 4)
    check_op(aten.as_strided.default, (x, [2, 3, 4], [12, 4, 1]))
    check_op(aten.as_strided.default, (x, [4, 2, 3], [1, 12, 4]))
    check_op(aten.as_strided.default, (x, [2, 2], [4, 2], 3))
    check_op(aten.as_strided.default, (x, [3, 2], [0, 1]))
    y = rnd(1, 4, 2, 3).to(memory_format=torch.channels_last)
    check_op(aten.as_strided.default, (y, [1, 4, 2, 3], y.stride()))
    check_op(aten.as_strided.default, (y, [6, 4], [4, 1]))
    check_op(aten.as_strided_scatter.default, (x, rnd(3, 2), [3, 2], [5, 2], 1))
    check_op(aten.as_strided_scatter.default, (y, rnd(6, 4), [6, 4], [4, 1]))


def test_small_ones():
    a, b = rnd(3, 4), rnd(2, 3, 4)
    for op in (aten.special_entr, aten.special_ndtr, aten.angle, aten.trace, aten.median):
        check_op(op.default, (a,))
    check_op(aten.median.dim, (b, 1, True))
    check_op(aten.median.default, (torch.tensor([1.0, NAN, 3.0]),))
    check_op(aten.special_xlog1py.default, (a, a.abs()))
    check_op(aten.ldexp.Tensor, (a, torch.tensor([1, -2, 3, 0])))
    check_op(aten.linalg_cross.default, (rnd(2, 3), rnd(1, 3, lo=-1)))
    for p in (0.0, 1.0, 2.0, 3.0, INF):
        check_op(aten.dist.default, (a, b, p))
        check_op(aten._cdist_forward.default, (b, rnd(2, 5, 4), p, 2))
    check_op(aten._weight_norm_interface.default, (b, rnd(1, 1, 4), 2))
    check_op(aten.isin.Tensor_Tensor, (torch.arange(6), torch.tensor([1, 4])), {"invert": True})
    check_op(aten.masked_scatter.default, (a, a > 0, rnd(12)))
    check_op(aten.im2col.default, (rnd(2, 3, 5, 6), [2, 3], [1, 2], [1, 0], [2, 1]))
    check_op(aten.native_dropout.default, (a, 0.5, False))
    for mode in (0, 1):
        for pad in (0, 1, 2):
            for corners in (False, True):
                check_op(aten.grid_sampler_2d.default, (rnd(2, 3, 4, 5), rnd(2, 6, 3, 2, lo=-1.4, hi=1.4), mode, pad, corners), tol=(1e-4, 1e-4))


def test_padding():
    x = rnd(2, 3, 4, 5)
    check_op(aten.reflection_pad2d.default, (x, [2, 1, 1, 3]))
    check_op(aten.reflection_pad1d.default, (x[0], [4, 2]))
    check_op(aten.replication_pad2d.default, (x, [2, 3, 0, 5]))
    for mode in ("constant", "reflect", "replicate", "circular"):
        check_op(aten.pad.default, (x, [1, 2, 2, 1], mode))
    check_op(aten.constant_pad_nd.default, (x, [1, 1], -INF))


# ---- creation ----

def test_creation():
    x = rnd(2, 3)
    for dtype in (f32, bf16, i64, i32):
        check_op(aten.arange.start_step, (1, 10, 3), {"dtype": dtype})
        check_op(aten.full.default, ([2, 3], 2), {"dtype": dtype})
        check_op(aten.eye.m, (3, 4), {"dtype": dtype})
    check_op(aten.arange.default, (5,))
    check_op(aten.arange.start, (2.5, 6))
    check_op(aten.arange.start_step, (10, 0, -3))
    check_op(aten.linspace.default, (-1, 2.5, 7))
    check_op(aten.linspace.default, (0, 10, 4), {"dtype": i64})
    check_op(aten.full.default, ([], 1.5))
    check_op(aten.full.default, ([2], True))
    check_op(aten.full_like.default, (x, -INF))
    check_op(aten.zeros_like.default, (x,))
    check_op(aten.ones_like.default, (x,), {"dtype": boo})
    check_op(aten.new_full.default, (x, [3], 7))
    check_op(aten.new_zeros.default, (x, [0, 2]))
    check_op(aten.scalar_tensor.default, (0.1,))
    check_op(aten.scalar_tensor.default, (3,), {"dtype": f32})
    check_op(aten.fill.Scalar, (x, 4))
    check_op(aten.copy.default, (x, torch.arange(3)))


# ---- products ----

@pytest.mark.parametrize("dtype", [f32, f64, bf16, f16, i64], ids=str)
def test_products(dtype):
    a, b, v = rnd(3, 4, dtype=dtype), rnd(4, 5, dtype=dtype), rnd(4, dtype=dtype)
    check_op(aten.mm.default, (a, b))
    check_op(aten.mm.default, (rnd(3, 0, dtype=dtype), rnd(0, 5, dtype=dtype)))
    check_op(aten.bmm.default, (rnd(2, 3, 4, dtype=dtype), rnd(2, 4, 5, dtype=dtype)))
    k = {"beta": 2, "alpha": 3} if dtype is i64 else {"beta": 0.5, "alpha": 1.5}
    check_op(aten.addmm.default, (rnd(5, dtype=dtype), a, b))
    check_op(aten.addmm.default, (rnd(3, 5, dtype=dtype), a, b), k)
    check_op(aten.baddbmm.default, (rnd(2, 1, 5, dtype=dtype), rnd(2, 3, 4, dtype=dtype), rnd(2, 4, 5, dtype=dtype)), k)
    check_op(aten.mv.default, (a, v))
    check_op(aten.dot.default, (v, v))
    check_op(aten.addmv.default, (rnd(3, dtype=dtype), a, v), k)
    check_op(aten.outer.default, (v, rnd(3, dtype=dtype)))
    check_op(aten.linear.default, (rnd(2, 3, 4, dtype=dtype), rnd(5, 4, dtype=dtype), rnd(5, dtype=dtype)))
    check_op(aten.linear.default, (v, rnd(5, 4, dtype=dtype)))
    for sa, sb in [((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 1, 3, 4), (6, 4, 5)), ((3, 4), (2, 4, 5)), ((4,), (2, 4, 5))]:
        check_op(aten.matmul.default, (rnd(*sa, dtype=dtype), rnd(*sb, dtype=dtype)))


def test_addmm_with_beta_zero_ignores_nan():
    check_op(aten.addmm.default, (torch.full((3, 5), NAN), rnd(3, 4), rnd(4, 5)), {"beta": 0})


@pytest.mark.parametrize("dtype", [f32, f64, bf16], ids=str)
def test_attention(dtype):
    q, k, v = rnd(2, 4, 5, 8, dtype=dtype), rnd(2, 4, 7, 8, dtype=dtype), rnd(2, 4, 7, 8, dtype=dtype, lo=-1, hi=3)
    flash = aten._scaled_dot_product_flash_attention_for_cpu.default
    low = dtype is bf16
    tol = (2e-2, 2e-2) if low else None
    out = [0] if low else None
    check_op(flash, (q, k, v), results=out, tol=tol)
    check_op(flash, (q, k, v, 0.0, True), results=out, tol=tol)
    check_op(flash, (q, k, v), {"scale": 0.3}, results=out, tol=tol)
    check_op(flash, (q, k, v), {"attn_mask": rnd(2, 1, 5, 7, dtype=dtype)}, results=out, tol=tol)
    mask = rnd(5, 7) > -0.5
    check_op(aten._scaled_dot_product_attention_math.default, (q, k, v, mask), tol=tol)
    check_op(aten.scaled_dot_product_attention.default, (q, k, v, mask), tol=tol)
    mask[2] = False
    check_op(aten.scaled_dot_product_attention.default, (q, k, v, mask), tol=tol)
    check_op(aten.scaled_dot_product_attention.default, (q[0], k[0], v[0]), tol=tol)
    gk, gv = rnd(2, 2, 7, 8, dtype=dtype), rnd(2, 2, 7, 8, dtype=dtype)
    check_op(aten.scaled_dot_product_attention.default, (q, gk, gv), {"enable_gqa": True}, tol=tol)
    check_op(aten.scaled_dot_product_attention.default, (q, gk, gv, rnd(2, 4, 5, 7) > 0), {"enable_gqa": True}, tol=tol)


# ---- convolution and pools ----

@pytest.mark.parametrize("dtype", [f32, bf16], ids=str)
def test_convolution(dtype):
    def r(*s):
        return rnd(*s, dtype=dtype, lo=-1, hi=1)

    conv = aten.convolution.default
    tol = (2e-2, 3e-2) if dtype is bf16 else None
    x = r(2, 4, 7, 6)
    cases = [
        (x, r(6, 4, 3, 3), r(6), [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
        (x, r(6, 4, 3, 2), None, [2, 1], [0, 1], [1, 2], False, [0, 0], 1),
        (x, r(4, 1, 3, 3), r(4), [1, 1], [1, 1], [1, 1], False, [0, 0], 4),
        (x, r(6, 2, 1, 1), r(6), [1, 1], [0, 0], [1, 1], False, [0, 0], 2),
        (x, r(4, 3, 3, 3), r(3), [2, 2], [1, 1], [1, 1], True, [1, 0], 1),
        (x, r(4, 3, 2, 3), r(6), [2, 1], [0, 0], [1, 2], True, [0, 0], 2),
        (r(2, 4, 9), r(6, 4, 3), r(6), [2], [1], [1], False, [0], 1),
        (r(1, 2, 4, 5, 3), r(3, 2, 2, 2, 2), r(3), [1, 1, 1], [0, 1, 0], [1, 1, 1], False, [0, 0, 0], 1),
    ]
    for case in cases:
        check_op(conv, case, tol=tol)
    check_op(aten.conv2d.padding, (x, r(6, 4, 3, 2), r(6), [1, 1], "same"), tol=tol)
    check_op(aten.conv2d.default, (x[0], r(6, 4, 3, 3)), tol=tol)


@pytest.mark.parametrize("dtype", [f32, bf16], ids=str)
def test_pools(dtype):
    x = rnd(2, 3, 7, 9, dtype=dtype)
    check_op(aten.max_pool2d_with_indices.default, (x, [3, 3], [2, 2], [1, 1]), results=[0])
    if dtype is f32:
        check_op(aten.max_pool2d_with_indices.default, (x, [3, 2], [2, 2], [1, 1], [1, 2]))
        check_op(aten.max_pool2d_with_indices.default, (x, [2, 3], [2, 2], [0, 1], [1, 1], True))
    check_op(aten.max_pool2d_with_indices.default, (x[0], [2, 2]), results=[0])
    check_op(aten.max_pool2d.default, (x, [2, 2], [2, 2], [0, 0], [1, 1], True))
    check_op(aten.max_pool3d.default, (rnd(1, 2, 4, 5, 6, dtype=dtype), [2, 2, 2]))
    check_op(aten.max_pool1d.default, (x[0], [3], [2], [1]))
    for ceil in (False, True):
        for count in (False, True):
            check_op(aten.avg_pool2d.default, (x, [3, 2], [2, 2], [1, 1], ceil, count))
            check_op(aten.avg_pool2d.default, (x, [2, 2], [2, 2], [0, 0], ceil, count))
    check_op(aten.avg_pool2d.default, (x, [3, 2], [2, 2], [1, 1], False, True, 5))
    check_op(aten.avg_pool1d.default, (x[0], [2]))
    if dtype is f32:
        check_op(aten.avg_pool3d.default, (rnd(1, 2, 4, 5, 6), [2, 2, 2]))
    check_op(aten._adaptive_avg_pool2d.default, (x, [1, 1]))
    check_op(aten._adaptive_avg_pool2d.default, (x, [7, 3]))
    check_op(aten._adaptive_avg_pool2d.default, (x, [3, 4]))
    check_op(aten.adaptive_avg_pool1d.default, (x[0], [5]))


def test_upsampling():
    x = rnd(2, 3, 4, 5)
    check_op(aten.upsample_nearest2d.default, (x, [8, 10]))
    check_op(aten.upsample_nearest2d.default, (x, [7, 3]))
    check_op(aten.upsample_nearest2d.vec, (x, None, [2.0, 1.5]))
    check_op(aten._upsample_nearest_exact2d.default, (x, [7, 3]))
    check_op(aten.upsample_nearest1d.default, (x[0], [9]))
    for corners in (False, True):
        check_op(aten.upsample_bilinear2d.default, (x, [8, 7], corners))
        check_op(aten.upsample_bilinear2d.default, (x, [1, 3], corners))
        check_op(aten.upsample_bilinear2d.vec, (x, None, corners, [2.0, 2.0]))
        check_op(aten.upsample_linear1d.default, (x[0], [9], corners))
        check_op(aten.upsample_bicubic2d.default, (x, [8, 7], corners))


# ---- indices ----

@pytest.mark.parametrize("dtype", [f32, i64, boo, bf16], ids=str)
def test_index(dtype):
    x, i, j = rnd(4, 5, 3, dtype=dtype), torch.tensor([[0, 3], [-1, 2]]), torch.tensor([1, -2])
    check_op(aten.embedding.default, (rnd(6, 3, dtype=dtype), i.abs()))
    check_op(aten.index.Tensor, (x, [i]))
    check_op(aten.index.Tensor, (x, [None, j]))
    check_op(aten.index.Tensor, (x, [i, j]))
    check_op(aten.index.Tensor, (x, [j, None, torch.tensor([0, 2])]))
    check_op(aten.index.Tensor, (x, [None, i, j]))
    check_op(aten.index_select.default, (x, 1, torch.tensor([4, 0, 0])))
    check_op(aten.index_select.default, (x, -1, torch.tensor(2)))
    check_op(aten.gather.default, (x, 1, torch.tensor([[[0, 4, 1]], [[2, 2, 2]]])))
    check_op(aten.gather.default, (rnd(dtype=dtype), 0, torch.tensor(0)))
    check_op(aten.take.default, (x, i + 7))
    v = rnd(2, 5, 3, dtype=dtype)
    check_op(aten.index_put.default, (x, [j], v))
    check_op(aten.index_put.default, (x, [None, torch.tensor([0, 3])], rnd(2, 3, dtype=dtype)))
    check_op(aten.index_put.default, (x, [x != 0], torch.ones((), dtype=dtype)))
    check_op(aten.index_put.default, (x, [x[:, 0, 0] != 0], rnd(5, 3, dtype=dtype)))
    check_op(aten.scatter.src, (x, 1, torch.tensor([[[0, 4, 1]], [[2, 2, 2]]]), x))
    check_op(aten.scatter.value, (x, 0, torch.tensor([[[0, 3, 1]]]), 1))
    check_op(aten.index_copy.default, (x, 0, j + 2, v))
    check_op(aten.index_fill.int_Scalar, (x, 1, torch.tensor([0, 4]), 1))
    if dtype is boo:
        return
    check_op(aten.index_put.default, (x, [j, torch.tensor([0, 0])], rnd(2, 3, dtype=dtype), True))
    check_op(aten.scatter_add.default, (x, 0, torch.tensor([[[0, 3, 1]], [[0, 3, 0]]]), x))
    check_op(aten.index_add.default, (x, 0, torch.tensor([1, 1]), v), {"alpha": 2})
    for reduce in ("sum", "prod", "amax", "amin", "mean"):
        for include in (True, False):
            check_op(aten.scatter_reduce.two, (x, 0, torch.tensor([[[0, 3, 1]], [[0, 3, 0]]]), x, reduce), {"include_self": include})


def test_boolean_index_is_refused():
    x = rnd(4, 3)
    gm, tensors = single(aten.masked_fill.Scalar, (x, x > 0, 1), {})
    text = portable(__import__("fxeval").fx.Writer(gm)).replace("aten.masked_fill.Scalar", "aten.index.Tensor").replace('"mask": {"ref": "x2"}', '"indices": [{"ref": "x2"}]')
    with pytest.raises(TenonError, match="depends on data"):
        server.ask(text, tensors)


def test_embedding_bag():
    w, i = rnd(10, 4), torch.tensor([1, 2, 4, 5, 4, 3, 2, 9])
    for mode in (0, 1, 2):
        for off in (torch.tensor([0, 4]), torch.tensor([0, 0, 3, 8])):
            check_op(aten._embedding_bag_forward_only.default, (w, i, off, False, mode), results=[0])
    check_op(aten._embedding_bag_forward_only.default, (w, i, torch.tensor([0, 3]), False, 0, False, rnd(8)), results=[0])
    even = torch.tensor([[1, 2, 3], [4, 5, 6]])  # bags of one length: no scatter
    for mode in ("sum", "mean", "max"):
        for padding_idx in (None, 2):
            m = torch.nn.EmbeddingBag(10, 4, mode=mode, padding_idx=padding_idx).requires_grad_(False)
            check_fn(lambda t, m=m: m(t), (even,))
            if mode == "sum":
                check_fn(lambda t, p, m=m: m(t, per_sample_weights=p), (even, rnd(2, 3)))


def test_search():
    b = torch.tensor([1.0, 3.0, 5.0])
    for right in (False, True):
        check_op(aten.bucketize.Tensor, (rnd(2, 3, lo=0, hi=6), b), {"right": right})
        check_op(aten.searchsorted.Tensor, (b, torch.tensor([0.0, 1.0, 3.0, 9.0])), {"right": right})


# ---- recurrent ----

@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_lstm(bidirectional, bias):
    m = torch.nn.LSTM(5, 4, num_layers=2, bias=bias, bidirectional=bidirectional, batch_first=True).requires_grad_(False)
    x = rnd(3, 6, 5)
    with torch.no_grad():
        check_fn(lambda v: m(v), (x,))
    n = 4 if bidirectional else 2
    params = [p.detach() for p in m.parameters()]
    check_op(aten.lstm.input, (x, [rnd(n, 3, 4), rnd(n, 3, 4)], params, bias, 2, 0.0, False, bidirectional, True))


@pytest.mark.parametrize("reverse", [False, True])
def test_mkldnn_rnn_layer(reverse):
    h = 4
    args = (rnd(6, 3, 5), rnd(4 * h, 5), rnd(4 * h, h), rnd(4 * h), rnd(4 * h, lo=-1), rnd(3, h), rnd(3, h, lo=-1), reverse, [], 2, h, 1, True, False, False, False)
    check_op(aten.mkldnn_rnn_layer.default, args, results=[0, 1, 2])


# ---- losses and gradients ----

@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_losses(reduction):
    x, t = rnd(4, 5), rnd(4, 5, lo=-1)
    p = x.sigmoid()
    check_op(aten.mse_loss.default, (x, t, reduction))
    check_op(aten.smooth_l1_loss.default, (x, t, reduction, 0.5))
    check_op(aten.huber_loss.default, (x, t, reduction, 0.7))
    check_op(aten.binary_cross_entropy.default, (p, t.sigmoid(), None, reduction))
    check_op(aten.binary_cross_entropy_with_logits.default, (x, t.sigmoid(), None, rnd(5).abs(), reduction))
    y = torch.tensor([0, 4, -100, 2])
    for w in (None, rnd(5).abs()):
        check_op(aten.nll_loss_forward.default, (x.log_softmax(1), y, w, reduction, -100))
        out, tw = aten.nll_loss_forward(x, y, w, reduction, -100)
        check_op(aten.nll_loss_backward.default, (torch.ones_like(out), x, y, w, reduction, -100, tw))
    check_op(aten.nll_loss2d_forward.default, (rnd(2, 5, 3, 4), torch.randint(0, 5, (2, 3, 4)), None, reduction, -100))


def test_gradients():
    """The backward operators, through autograd's own graphs."""

    def grads(fn, *xs):
        def run(*vs):
            vs = [v.detach().requires_grad_() for v in vs]
            return torch.autograd.grad(fn(*vs).sum(), vs)

        check_fn(run, xs, tol=(2e-4, 2e-5))

    x = rnd(2, 6, 5, 7)
    for f in (F.gelu, F.silu, F.mish, F.relu, F.hardswish, F.hardsigmoid, F.elu, F.softplus, F.logsigmoid, torch.sigmoid, torch.tanh, F.leaky_relu,
              lambda v: F.gelu(v, approximate="tanh"), lambda v: F.hardtanh(v, -0.5, 0.7), lambda v: F.glu(v, 1),
              lambda v: F.softmax(v, 1).square(), lambda v: F.log_softmax(v, -1).square(),
              lambda v: F.avg_pool2d(v, 3, 2, 1).square(), lambda v: F.adaptive_avg_pool2d(v, (5, 1)).square(),
              lambda v: F.max_pool2d(v, 3, 2, 1).square(), lambda v: F.interpolate(v, scale_factor=2).square(),
              lambda v: F.interpolate(v, (9, 3), mode="bilinear").square(), lambda v: F.interpolate(v, (7, 9), mode="bicubic").square(),
              lambda v: F.pad(v, (2, 1, 1, 3), "reflect").square(), lambda v: F.pad(v, (2, 1, 1, 3), "replicate").square(),
              lambda v: v[:, 1:4, ::2].square(), lambda v: v[:, 2].square()):
        grads(f, x)
    grads(lambda v, w, b: F.layer_norm(v, [7], w, b).square(), x, rnd(7), rnd(7))
    grads(lambda v, w, b: F.group_norm(v, 3, w, b).square(), x, rnd(6), rnd(6))
    grads(lambda v, w, b: F.batch_norm(v, None, None, w, b, training=True).square(), x, rnd(6), rnd(6))
    grads(lambda v, w, b: F.conv2d(v, w, b, stride=2, padding=1).square(), x, rnd(4, 6, 3, 3), rnd(4))
    grads(lambda v, w: F.conv2d(v, w, groups=3, dilation=2).square(), x, rnd(6, 2, 2, 3))
    grads(lambda v, w: F.conv_transpose2d(v, w, stride=2, padding=1, output_padding=1).square(), x, rnd(6, 4, 3, 3))
    grads(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True).square(), rnd(2, 2, 5, 8), rnd(2, 2, 5, 8, lo=-1), rnd(2, 2, 5, 8, hi=1))
    grads(lambda w: F.embedding(torch.tensor([[1, 2], [2, 0]]), w, padding_idx=0).square(), rnd(5, 3))


# ---- whole modules, also with symbolic sizes ----

def _mlp():
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.GELU(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 3), torch.nn.Softmax(-1))


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, activation="gelu")
        self.embed = torch.nn.Embedding(11, 16)

    def forward(self, ids):
        x = self.embed(ids) + torch.arange(ids.shape[1]).unsqueeze(-1)
        mask = torch.ones(ids.shape[1], ids.shape[1]).tril()[None].log()
        x = self.layer(x, src_mask=mask[0])
        return x.mean(1), x[:, -1], torch.cat([x, x[:, :1]], 1)


def test_dynamic_sizes():
    with torch.no_grad():
        m = _mlp().eval()
        run = check_fn(m, (rnd(3, 6),), dynamic=True)
        run((rnd(9, 6),))
        e = Encoder().eval()
        run = check_fn(e, (torch.randint(0, 11, (2, 5)),), dynamic=True, tol=(1e-4, 1e-5))
        run((torch.randint(0, 11, (4, 7)),))

        def sizes(x):
            b, t, c = x.shape
            y = x.reshape(b * t, c).roll(1, 0).view(b, t, c)
            z = torch.arange(t, t + b).to(x.dtype)[:, None, None] * y / (t + 1)
            return z, F.pad(z, (1, t - 1)), x.var(dim=(0, 1)), x.flip(1)[:, : t // 2], x.repeat(1, 2, 1).sum(1), torch.full((b,), float(2)), F.avg_pool1d(x, 2)

        run = check_fn(sizes, (rnd(3, 4, 6),), dynamic=True)
        run((rnd(5, 8, 6),))


def test_convolutional_block():
    m = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, 2, 1, bias=False), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(3, 2, 1),
                            torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(8, 4)).eval()
    with torch.no_grad():
        check_fn(m, (rnd(2, 3, 16, 16),))


def test_every_census_operator_has_a_row():
    """Every operator of the captured models (the census kept with the acceptance scripts) is known."""
    census = """permute.default view.default add.Tensor mul.Tensor bmm.default expand.default addmm.default unsqueeze.default clone.default
    where.self _softmax.default embedding.default mul.Scalar logical_not.default full_like.default eq.Scalar any.dim cat.default
    arange.start_step slice.Tensor mm.default native_layer_norm.default select.int mean.dim sigmoid.default convolution.default
    pow.Tensor_Scalar scalar_tensor.default gelu.default _to_copy.default full.default alias.default split_with_sizes.default tanh.default
    rsqrt.default relu.default neg.default index.Tensor bitwise_and.Tensor le.Tensor _native_batch_norm_legit_no_training.default squeeze.dims
    sub.Tensor cos.default sin.default div.Tensor ne.Scalar cumsum.default eq.Tensor clamp.default lift_fresh_copy.default index_put.default
    exp.default gt.Scalar log1p.default gather.default ge.Scalar ge.Tensor mkldnn_rnn_layer.default minimum.default lt.Scalar log.default
    abs.default repeat.default max_pool2d_with_indices.default as_strided.default sum.dim_IntList""".split()
    rows = (__import__("pathlib").Path(__file__).resolve().parents[2] / "src/ops/aten.def").read_text()
    names = [line.split('"')[1] for line in rows.splitlines() if line.startswith("TN_ATEN(")]
    assert names == sorted(names) and len(set(names)) == len(names)
    assert not [c for c in census if f"aten.{c}" not in names]
    for n in names:  # every name is a real overload
        space, op, overload = n.split(".")
        assert overload in getattr(getattr(torch.ops, space), op).overloads() or space == "prims", n

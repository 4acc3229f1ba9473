"""One kernel class a model, for bench/side.py: what part of the machine does each class reach?

Sizes are those that models have. WORK says what a class does at least: floating-point operations where arithmetic bounds it, bytes that
must cross memory (each input read once, each result written once) where memory does. bench/table.py turns them into shares of the
peaks that bench/peaks.c measures."""
import torch
from torch import nn
from torch.nn import functional as F


class Call(nn.Module):
    """A function as a module. Keyword tensors become buffers, as weights are, so an engine may pack them."""

    def __init__(self, function, **weights):
        super().__init__()
        self.function, self.weights = function, tuple(weights)
        for name, value in weights.items():
            self.register_buffer(name, value)

    def forward(self, *inputs):
        return self.function(*inputs, *(getattr(self, name) for name in self.weights))


def x(*shape):
    return torch.randn(shape)


MODELS, WORK = {}, {}


def add(name, make, flops=None, values=None):
    """Registers a class. `values`: floats that cross memory."""
    MODELS[name] = make
    if flops:
        WORK[name] = {"flops": flops}
    elif values:
        WORK[name] = {"bytes": 4 * values}


# ---- contraction ----
def matmul(m, k, n, weight=True):
    if weight:
        return lambda: (Call(torch.matmul, w=x(k, n)), (x(m, k),))
    return lambda: (Call(torch.matmul), (x(m, k), x(k, n)))


for m, k, n in ((256, 256, 256), (512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048), (197, 768, 768), (127, 131, 137)):
    add(f"matmul_{m}x{k}x{n}", matmul(m, k, n), flops=2 * m * k * n)
add("matmul_free_512", matmul(512, 512, 512, weight=False), flops=2 * 512**3)
add("matvec_4096", matmul(1, 4096, 4096), values=4096 * 4096)
add("matmul_8x4096x4096", matmul(8, 4096, 4096), values=4096 * 4096)
add("bmm_16x256x64x256", lambda: (Call(torch.bmm), (x(16, 256, 64), x(16, 64, 256))), flops=2 * 16 * 256 * 64 * 256)
add("linear_relu_128x768x3072", lambda: (nn.Sequential(nn.Linear(768, 3072), nn.ReLU()), (x(128, 768),)), flops=2 * 128 * 768 * 3072)
add("linear_gelu_128x768x3072", lambda: (nn.Sequential(nn.Linear(768, 3072), nn.GELU()), (x(128, 768),)), flops=2 * 128 * 768 * 3072)
add("linear_add_128x3072x768", lambda: (Call(lambda a, r, w: a @ w + r, w=x(3072, 768)), (x(128, 3072), x(128, 768))), flops=2 * 128 * 768 * 3072)


# ---- convolution ----
def conv(c_in, c_out, kernel, size, stride=1, groups=1):
    def make():
        layers = nn.Conv2d(c_in, c_out, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(c_out), nn.ReLU()
        return nn.Sequential(*layers), (x(1, c_in, size, size),)

    out = size // stride
    return make, 2 * out * out * c_out * (c_in // groups) * kernel * kernel


for label, shape in {
    "conv1x1_64_256_56": (64, 256, 1, 56),
    "conv3x3_64_64_56": (64, 64, 3, 56),
    "conv3x3_128_128_28": (128, 128, 3, 28),
    "conv3x3_512_512_7": (512, 512, 3, 7),
    "conv7x7s2_3_64_224": (3, 64, 7, 224, 2),
    "depthwise3x3_128_56": (128, 128, 3, 56, 1, 128),
    "depthwise7x7_96_56": (96, 96, 7, 56, 1, 96),
}.items():
    make, flops = conv(*shape)
    add(label, make, flops=flops)
add("maxpool3x3s2_64_112", lambda: (nn.MaxPool2d(3, 2, 1), (x(1, 64, 112, 112),)), values=64 * (112 * 112 + 56 * 56))


# ---- attention ----
def attention(heads, queries, keys, width, causal=False):
    make = lambda: (Call(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal)), (x(1, heads, queries, width), x(1, heads, keys, width), x(1, heads, keys, width)))
    return make, 4 * heads * queries * keys * width // (2 if causal else 1)


for label, shape in {"attention_12x256x64": (12, 256, 256, 64), "attention_12x1024x64": (12, 1024, 1024, 64), "attention_causal_12x1024x64": (12, 1024, 1024, 64, True)}.items():
    make, flops = attention(*shape)
    add(label, make, flops=flops)
add("attention_decode_16x4096x64", attention(16, 1, 4096, 64)[0], values=2 * 16 * 4096 * 64)


# ---- bound by memory ----
M = 1 << 20
add("add_8m", lambda: (Call(torch.add), (x(8 * M), x(8 * M))), values=24 * M)
add("chain_8m", lambda: (Call(lambda a, b: torch.sigmoid(b) * F.gelu(a * 0.5 + b)), (x(8 * M), x(8 * M))), values=24 * M)
add("relu_256k", lambda: (nn.ReLU(), (x(256, 1024),)))  # fits the caches
add("bias_gelu_4096x3072", lambda: (Call(lambda a, b: F.gelu(a + b), b=x(3072)), (x(4096, 3072),)), values=2 * 4096 * 3072)
add("softmax_8192x512", lambda: (nn.Softmax(-1), (x(8192, 512),)), values=2 * 8192 * 512)
add("layer_norm_8192x768", lambda: (nn.LayerNorm(768), (x(8192, 768),)), values=2 * 8192 * 768)
add("rms_norm_8192x1024", lambda: (nn.RMSNorm(1024), (x(8192, 1024),)), values=2 * 8192 * 1024)
add("group_norm_8x64x56x56", lambda: (nn.GroupNorm(8, 64), (x(8, 64, 56, 56),)), values=2 * 8 * 64 * 56 * 56)
add("sum_rows_4096x2048", lambda: (Call(lambda a: a.sum(1)), (x(4096, 2048),)), values=4096 * 2048)
add("sum_columns_4096x2048", lambda: (Call(lambda a: a.sum(0)), (x(4096, 2048),)), values=4096 * 2048)
add("mean_all_8m", lambda: (Call(torch.mean), (x(8 * M),)), values=8 * M)
add("argmax_4096x2048", lambda: (Call(lambda a: a.argmax(1)), (x(4096, 2048),)), values=4096 * 2048)
add("transpose_add_2048", lambda: (Call(lambda a, b: a.t() + b), (x(2048, 2048), x(2048, 2048))), values=3 * 2048 * 2048)
add("concat_4x1024x1024", lambda: (Call(lambda *a: torch.cat(a, 1)), tuple(x(1024, 1024) for _ in range(4))), values=8 * M)
add("cumsum_2048x1024", lambda: (Call(lambda a: a.cumsum(1)), (x(2048, 1024),)), values=2 * 2048 * 1024)
add("embedding_4096x512", lambda: (nn.Embedding(50000, 512), (torch.randint(0, 50000, (4096,)),)), values=2 * 4096 * 512)


def rotate(a, cos, sin):
    lo, hi = a.chunk(2, -1)
    return a * cos + torch.cat((-hi, lo), -1) * sin


add("rotary_16x1024x64", lambda: (Call(rotate), (x(1, 16, 1024, 64), x(1024, 64), x(1024, 64))), values=2 * 16 * 1024 * 64)
add("lstm_64x256", lambda: (nn.LSTM(256, 256, batch_first=True), (x(1, 64, 256),)))
add("mlp_small", lambda: (nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8)), (x(2, 32),)))

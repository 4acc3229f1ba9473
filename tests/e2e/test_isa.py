"""Every instruction set that this machine has, from the option and from TENON_ISA: right values, and no instruction above the level."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from tenon.backend import Backend
from tenon.options import parse_options
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / os.environ.get("BUILD", "build") / "tenon"
LEVELS = {"avx2": "x86-64-v3", "avx512": "x86-64-v4"}
ABOVE = re.compile(r"%zmm|%tmm|\{%k[0-7]\}|%[xy]mm(1[6-9]|2\d|3[01])\b")  # what AVX2 has no registers for


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(40, 120), nn.Linear(40, 40)

    def forward(self, x, mask):
        q, k, v = self.qkv(x).view(*x.shape[:2], 3, 5, 8).permute(2, 0, 3, 1, 4)
        return self.out(F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2)), F.scaled_dot_product_attention(q, k, v, is_causal=True)


def whole_numbers(a, b, small):
    return a + b, a * b - 3, a // 7, a % 5, a >> 2, (a & b) ^ 0xFF, a.to(torch.float32) / 3, torch.where(a > b, a, b), a.sum(1), a.amax(0), a.clamp(-9, 9), small + small, small.to(torch.int64).sum()


def casts(x):
    return x.half() * 2, x.bfloat16() + 1, (x * 50).to(torch.int32), (x * 50).clamp(-128, 127).to(torch.int8), x.double().exp(), x > 0, x.half().float(), x.bfloat16().float().sum(1)


def functions(x):
    return x.exp(), x.tanh(), x.erf(), x.sin(), x.cos(), (x.abs() + 0.1).log(), x.sigmoid(), x.abs().sqrt(), (x.abs() + 0.1).rsqrt(), x.round(), x.floor(), F.gelu(x), F.silu(x), x.pow(3)


def indices(x, i):
    return x[i], x.gather(1, i[:, None].expand(-1, 3)), x.flip(1), x.t().contiguous(), torch.cat([x, x[:, :3]], 1), F.pad(x, (1, 2)), x.cumsum(1), x.sort(1)[0], x[:, ::3]


def work():
    """(name, module or function, inputs): sizes that leave tails at 8 and at 16 lanes."""
    torch.manual_seed(3)
    r = torch.randn
    conv = nn.Sequential(nn.Conv2d(3, 20, 3, 2, 1), nn.BatchNorm2d(20), nn.ReLU(), nn.Conv2d(20, 20, 3, 1, 1, groups=20), nn.Hardswish(), nn.Conv2d(20, 17, 1), nn.MaxPool2d(3, 2, 1), nn.AdaptiveAvgPool2d(1))
    return [
        ("mlp", nn.Sequential(nn.Linear(37, 61), nn.GELU(), nn.Linear(61, 70), nn.ReLU(), nn.Linear(70, 5)), (r(19, 37),)),
        ("conv", conv, (r(2, 3, 21, 19),)),
        ("attention", Attention(), (r(2, 13, 40), r(2, 1, 13, 13) > -1)),
        ("layer norm", nn.Sequential(nn.LayerNorm(77), nn.Linear(77, 9), nn.Dropout(), nn.RMSNorm(9)), (r(6, 77),)),
        ("softmax", lambda x: (x.softmax(-1), x.softmax(0), x.log_softmax(1), x.logsumexp(1)), (r(23, 45) * 9,)),
        ("reductions", lambda x: (x.sum(), x.mean(0), x.mean((1, 2)), x.var(1), x.amax(2), x.argmax(1), x.prod(2), (x > 0).any(1)), (r(5, 18, 33),)),
        ("lstm", nn.LSTM(11, 13, 2), (r(7, 3, 11),)),
        ("integers", whole_numbers, (torch.randint(-900, 900, (9, 43)), torch.randint(-900, 900, (9, 43)), torch.randint(0, 255, (50,), dtype=torch.uint8))),
        ("casts", casts, (r(7, 29),)),
        ("functions", functions, (r(9, 51) * 4,)),
        ("indices", indices, (r(12, 21), torch.randint(0, 12, (5,)))),
        ("double", nn.Sequential(nn.Linear(9, 21), nn.Tanh(), nn.Softmax(-1)).double(), (r(7, 9, dtype=torch.float64),)),
        ("bfloat16", nn.Sequential(nn.Linear(24, 40), nn.SiLU(), nn.Linear(40, 8)).bfloat16(), (r(7, 24, dtype=torch.bfloat16),)),
    ]


def flat(value):
    return [x for v in value for x in flat(v)] if isinstance(value, (tuple, list)) else [value]


def close(got, want, name):
    for a, b in zip(flat(got), flat(want), strict=True):
        tol = {torch.float16: 2e-3, torch.bfloat16: 2e-2, torch.float64: 1e-9}.get(b.dtype, 1e-4)
        torch.testing.assert_close(a, b, rtol=tol, atol=tol / 10, msg=lambda text: f"{name}: {text}")


def check_all(level, options, dynamic=(None,)):
    """Every piece of work; each graph says that it was built for the level."""
    for name, f, args in work():
        model = f.eval() if isinstance(f, nn.Module) else f
        for free in dynamic:
            torch._dynamo.reset()
            reports = []
            with torch.no_grad(), torch._dynamo.config.patch(allow_rnn=True):
                compiled = torch.compile(model, backend=Backend(parse_options(options, None), reports.append), dynamic=free)
                close(compiled(*args), model(*args), f"{name}, dynamic={free}")
            assert [r.get("target") for r in reports] == [LEVELS[level]], name


def has(level):
    with torch.no_grad():
        try:
            torch.compile(lambda x: x + 1, backend="tenon", options={"isa": level, "fail_on_fallback": True})(torch.ones(3))
        except Exception as why:
            assert "option isa" in str(why), why
            return False
    return True


@pytest.mark.parametrize("level", LEVELS)
def test_option(level):
    if not has(level):
        pytest.skip(f"this machine has no {level}")
    check_all(level, {"isa": level}, dynamic=(None, True))


def test_variable():
    """A whole process below the machine's level: also what is not generated, such as library kernels."""
    done = subprocess.run([sys.executable, "-W", "ignore", __file__], env={**os.environ, "TENON_ISA": "avx2"}, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.split() == ["right"], done.stdout + done.stderr


def test_no_instruction_above_the_level(tmp_path):
    if not PROGRAM.exists() or not shutil.which("objdump"):
        pytest.skip("needs build/tenon and objdump")
    for name, f, args in work():
        torch._dynamo.reset()
        model = f.eval() if isinstance(f, nn.Module) else f
        with torch.no_grad(), torch._dynamo.config.patch(allow_rnn=True):
            torch.compile(model, backend="tenon", options={"isa": "avx2", "dump_dir": str(tmp_path)})(*args)
    kernels = sorted(tmp_path.rglob("*.def"))
    assert len(kernels) > 40
    for path in kernels:
        schedule = next(path.parent.glob(f"*.{path.name.split('.')[1]}.sched"))
        object_file = path.with_suffix(".o")
        subprocess.run([PROGRAM, "kernel", path, "--sched", schedule, "--isa", "avx2", "--emit", "obj", "-o", object_file], check=True)
        code = subprocess.run(["objdump", "-d", "--no-show-raw-insn", object_file], capture_output=True, text=True, check=True).stdout
        assert "ymm" in code or "xmm" in code or "ret" in code
        assert not ABOVE.search(code), f"{path.name}: {ABOVE.search(code)[0]}"


if __name__ == "__main__":
    check_all("avx2", {})
    print("right")

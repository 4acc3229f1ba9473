"""TinyMLP: two linear layers with relu(x) * sigmoid(x) between, summed. Ten calls to warm up, fifty timed."""

import time

import tenon
import torch
from torch import nn


class TinyMLP(nn.Module):
    """(512, 2048) -> scalar."""

    def __init__(self, width: int = 2048):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        x = self.fc1(x)
        return self.fc2(torch.relu(x) * torch.sigmoid(x)).sum()


def milliseconds(f, x, warm: int = 10, calls: int = 50) -> float:
    """Mean time of a call."""
    for _ in range(warm):
        f(x)
    start = time.perf_counter()
    for _ in range(calls):
        f(x)
    return (time.perf_counter() - start) / calls * 1e3


@torch.no_grad()
def main() -> None:
    torch.manual_seed(0)
    model, x = TinyMLP().eval(), torch.randn(512, 2048)
    compiled = torch.compile(model, backend="tenon")
    exact = model.double()(x.double()).item()
    model.float()
    print(f"relative error: {'below 1e-4' if (e := abs(compiled(x).item() / exact - 1)) < 1e-4 else f'{e:.1e}'}")
    print("[device] cpu")
    eager, ours = milliseconds(model, x), milliseconds(compiled, x)
    print(f"[eager] {eager:.2f} ms/iter\n[compiled] {ours:.2f} ms/iter\n[speedup] {eager / ours:.2f}x")
    report = tenon.explain(model)(x)
    print("fates:", ", ".join(f"{fate} {n}" for fate, n in sorted(report.counts().items())))
    for kernel in report.graphs[0]["kernels"]:
        print("kernel:", kernel["name"])


if __name__ == "__main__":
    main()

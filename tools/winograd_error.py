"""Writes docs/winograd.md: error of 3x3 convolutions by Winograd's filtering and by the direct form, against float64, on random layers.

winograd_error.py [--check]. Error: largest difference over the largest output of the layer. Inputs are normal; weights normal, scaled by
1/sqrt(9 C) as initialisers do; one image. --check writes nothing and fails when a figure is over the budget."""
import pathlib
import sys

import torch

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "winograd.md"
BUDGET = 2e-5
LAYERS = [(16, 16, 112), (32, 32, 112), (64, 64, 56), (128, 128, 28), (256, 256, 14), (512, 512, 14), (64, 256, 56), (256, 64, 56)]
HEAD = f"""# Error of Winograd convolutions

<!-- Made by tools/winograd_error.py. -->

3x3 convolutions of stride 1 run as F(4x4, 3x3) (`src/passes/winograd.c`) where that pays. Largest error over the largest output of the layer,
against float64; the worst of three random draws; the budget is {BUDGET:.0e}. `options={{"passes": "-winograd"}}` switches the form off.

| C -> K, image | Winograd | direct | ratio |
| --- | ---: | ---: | ---: |
"""


def error(conv, x, passes):
    torch._dynamo.reset()
    want = torch.nn.functional.conv2d(x.double(), conv.weight.double(), padding=1)
    got = torch.compile(conv, backend="tenon", options={"passes": passes} if passes else {})(x)
    return ((got.double() - want).abs().max() / want.abs().max()).item()


def main():
    text, worst = HEAD, 0.0
    torch.manual_seed(0)
    with torch.no_grad():
        for c, k, size in LAYERS:
            pairs = []
            for _ in range(3):
                conv, x = torch.nn.Conv2d(c, k, 3, padding=1, bias=False), torch.randn(1, c, size, size)
                conv.weight.normal_(std=(9 * c) ** -0.5)
                pairs.append((error(conv, x, ""), error(conv, x, "-winograd")))
            fast, direct = (max(p[i] for p in pairs) for i in (0, 1))
            worst = max(worst, fast)
            text += f"| {c} -> {k}, {size}x{size} | {fast:.1e} | {direct:.1e} | {fast / direct:.0f} |\n"
    if "--check" not in sys.argv:
        PAGE.write_text(text)
    print(text)
    return int(worst > BUDGET)


if __name__ == "__main__":
    sys.exit(main())

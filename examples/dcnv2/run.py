"""DCNv2 compiled by Tenon: error against eager, every node's fate, and the census that the profile dvm gives."""

import re
from collections import Counter

import tenon
import torch
from model import build


def judged(node: dict) -> str:
    """The operator that the gates looked at: what the node is lowered to, when that is one operator."""
    lowered = re.search(r" -> ([\w.]+):", node["detail"])
    return (lowered[1] if lowered else node["target"]).removeprefix("aten.").removesuffix(".default").removesuffix(".Tensor")


def census(report) -> list[str]:
    """'count operator dtype' of everything that falls back."""
    rows = Counter((judged(n), n["dtype"]) for n in report.nodes if n["fate"] == "fallback")
    return [f"  {n:2} {op} {dtype}" for (op, dtype), n in sorted(rows.items())] + [f"  {sum(rows.values()):2} in all"]


@torch.no_grad()
def main() -> None:
    model, fields = build()
    got = torch.compile(model, backend="tenon")(fields)
    error = (got - model(fields)).abs().max().item()
    print("largest error against eager:", "below 1e-5" if error < 1e-5 else f"{error:.1e}")
    for profile in ("default", "dvm"):
        report = tenon.explain(model, {"profile": profile})(fields)
        print(f"\nprofile {profile}, fallbacks:")
        print("\n".join(census(report)))
        print("fates:", ", ".join(f"{fate} {n}" for fate, n in sorted(report.counts().items())))
    print("\nreasons under profile dvm:")
    for op, reason in sorted(set(report.fallbacks)):
        print(f"  {op:24} {reason}")


if __name__ == "__main__":
    main()

"""A chain of elementwise operators becomes one kernel: what one line of torch.compile does to it."""

import tenon
import torch


def chain(x, y):
    """relu((x * 2 + y) * 0.5) - y, elementwise."""
    return torch.relu((x * 2.0 + y) * 0.5) - y


@torch.no_grad()
def main() -> None:
    torch.manual_seed(0)
    x, y = torch.randn(2, 64, 1000)
    got = torch.compile(chain, backend="tenon")(x, y)
    print("equal to eager:", torch.allclose(got, chain(x, y), rtol=1e-6, atol=1e-6))
    report = tenon.explain(chain)(x, y)
    print(f"operators: {len(report.nodes)}, kernels: {len(report.graphs[0]['kernels'])}")
    for node in report.nodes:
        print(f"  {node['target']:20} {node['fate']}: {node['detail']}")


if __name__ == "__main__":
    main()

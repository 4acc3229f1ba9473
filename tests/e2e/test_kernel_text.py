"""A kernel rebuilt from its dumped text has the same loops, and its text survives `tenon kernel`."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import kir_examples  # noqa: E402


@pytest.mark.parametrize("title", ["Softmax", "Linear and GELU", "Attention"])
def test_rebuilt_from_text(title):
    texts = kir_examples.largest(kir_examples.dump(kir_examples.MODELS[title]))
    assert texts["nest"].startswith("nest @tn_")


def run(*args: str, text: str) -> subprocess.CompletedProcess:
    return subprocess.run([ROOT / "build" / "tenon", "kernel", "-", *args], input=text, capture_output=True, text=True)


GOOD = "kernel @double(%x0: f32[8]) -> (%y0: f32[8]) {\n  axis i0: 8\n  %0 y0: f32[i0] = add(%x0[i0], %x0[i0]) -> %y0[i0]\n}\n"


def test_definition_prints_as_read():
    assert run("--emit", "def", text=GOOD).stdout == GOOD


@pytest.mark.parametrize(
    "text, says", [("kernel", "TN_E_PARSE"), (GOOD.replace("%x0[i0], ", "%x9[i0], "), "TN_E_PARSE"), (GOOD.replace("axis i0: 8", "axis i0: 9999999999999999999"), "TN_E_PARSE")]
)
def test_bad_text_is_refused_with_its_place(text, says):
    r = run("--emit", "nest", text=text)
    assert r.returncode == 1 and says in r.stderr

"""ONNX's own node tests through importer, rows and reference kernels (build/tests/kernels/evalonnx), without the compiler: once as they are, once with every
size of the inputs left open, which is another way through every shape rule. Expected values are the suite's."""
import collections
import os
import pathlib
import re
import subprocess

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
EXE = pathlib.Path(__file__).resolve().parents[2] / os.environ.get("BUILD", "build") / "tests/kernels/evalonnx"
pytestmark = pytest.mark.skipif(not EXE.exists(), reason="evalonnx is not built")

# Values that can't agree: random streams of NumPy; results rounded to 16 bits in another place; numbers near 0 under a relative tolerance.
OTHER_VALUES = r"test_(bernoulli|training_dropout|dropout_random|.*attention.*(fp16|bf16)|dft_inverse)"
ABSENT = r"test_image_decoder|_vgg|_gradient"                     # no row: decoders of picture files
INT32, INT64, FLOAT = 6, 7, 1


def write(folder, cases, open_sizes):
    """One folder a case; a list of (name, evalonnx's request)."""
    from onnx import numpy_helper as nh
    out = []
    for c in cases:
        d = folder / c.name
        d.mkdir()
        m = onnx.ModelProto.FromString(c.model.SerializeToString())
        types = [v.type for v in m.graph.input] + [v.type for v in m.graph.output]
        if open_sizes:
            for a, i in enumerate(m.graph.input):                 # lists of sizes and axes keep their length: it is a rank elsewhere
                t = i.type.tensor_type
                if not i.type.HasField("tensor_type") or (a and len(t.shape.dim) < 2 and t.elem_type in (INT32, INT64, FLOAT)):
                    continue
                for b, dim in enumerate(t.shape.dim):
                    dim.Clear()
                    dim.dim_param = f"x{a}_{b}"
            for o in m.graph.output:
                if o.type.HasField("tensor_type"):
                    o.type.tensor_type.ClearField("shape")
            del m.graph.value_info[:]
        (d / "model.onnx").write_bytes(m.SerializeToString())
        if all(t.HasField("tensor_type") for t in types):
            for kind, values, infos in (("input", c.data_sets[0][0], m.graph.input), ("output", c.data_sets[0][1], m.graph.output)):
                for j, v in enumerate(values):
                    p = v if isinstance(v, onnx.TensorProto) else nh.from_array(np.asarray(v), infos[j].name)
                    (d / f"{kind}_{j}.pb").write_bytes(p.SerializeToString())
        out.append((c.name, f"{d}/model.onnx {d} {c.rtol} {c.atol}\n"))
    return out


def run(requests):
    answer = {}
    while requests:
        p = subprocess.run([EXE, "-l"], input="".join(r for _, r in requests), capture_output=True, text=True, errors="replace", timeout=600)
        lines = p.stdout.splitlines()
        answer |= {name: line for (name, _), line in zip(requests, lines)}
        if len(lines) < len(requests):
            answer[requests[len(lines)][0]] = f"FAIL: crash, exit {p.returncode}"
        requests = requests[len(lines) + 1:]
    return answer


@pytest.fixture(scope="module")
def cases():
    import warnings
    warnings.filterwarnings("ignore")
    from onnx.backend.test.loader import load_model_tests
    return list(load_model_tests(kind="node"))


def test_as_they_are(cases, tmp_path):
    answer = run(write(tmp_path, cases, False))
    bad = {n: a for n, a in answer.items() if a.startswith("FAIL") and not re.search(OTHER_VALUES + "|" + ABSENT, n)}
    assert not bad
    counts = collections.Counter(a.split(":")[0] for a in answer.values())
    assert counts["ok"] > 1400 and counts["ok"] + counts["imported"] > 1850, counts


def test_open_sizes(cases, tmp_path):
    """A form may ask for a size that is not known then, and say so; a value may not differ, nothing may break."""
    answer = run(write(tmp_path, cases, True))
    bad = {n: a for n, a in answer.items() if re.match(r"FAIL: (crash|TN_E_(VERIFY|INTERNAL|PARSE|INDEX))", a) and not re.search(OTHER_VALUES, n)}
    assert not bad
    counts = collections.Counter(a.split(":")[0] for a in answer.values())
    assert counts["ok"] > 1050 and counts["ok"] + counts["imported"] > 1450, counts

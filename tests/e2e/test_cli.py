"""The command line on models: files in, files out, exit codes, words."""

import json
import os
import pathlib
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper as h

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENON = ROOT / os.environ.get("BUILD", "build") / "tenon"
pytestmark = pytest.mark.skipif(not TENON.exists(), reason="no program: build first")


def tenon(*words, ok=True):
    r = subprocess.run([str(TENON), *map(str, words)], capture_output=True, text=True, timeout=120)
    assert r.returncode >= 0, f"killed by signal {-r.returncode}: {r.stderr}"
    if ok:
        assert r.returncode == 0, r.stderr
    return r


def model(path, nodes, inputs, outputs, inits=(), opset=21):
    graph = h.make_graph(nodes, "net", [h.make_tensor_value_info(*i) for i in inputs], [h.make_tensor_value_info(*o) for o in outputs], list(inits))
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", opset)], ir_version=10), path)


@pytest.fixture
def net(tmp_path):
    """y = relu(x @ w) + b with a free batch; n = the number of rows."""
    w, b = np.random.default_rng(0).standard_normal((6, 40)).astype(np.float32), np.arange(40, dtype=np.float32)
    nodes = [h.make_node("MatMul", ["x", "w"], ["m"]), h.make_node("Relu", ["m"], ["r"]), h.make_node("Add", ["r", "b"], ["y"]), h.make_node("Size", ["x"], ["n"])]
    model(tmp_path / "net.onnx", nodes, [("x", T.FLOAT, ["batch", 6])], [("y", T.FLOAT, ["batch", 40]), ("n", T.INT64, [])], [onnx.numpy_helper.from_array(a, n) for a, n in ((w, "w"), (b, "b"))])
    x = np.random.default_rng(1).standard_normal((5, 6)).astype(np.float32)
    np.savez(tmp_path / "in.npz", x=x)
    return tmp_path, x, np.maximum(x @ w, 0) + b


def test_model_and_package_agree(net):
    folder, x, want = net
    tenon("compile", folder / "net.onnx", "-o", folder / "net.tnp", "--targets", "native,x86-64-v3" if "x86-64-v3" not in native_level() else "native")
    for source in ("net.onnx", "net.tnp"):
        tenon("run", folder / source, "--inputs", folder / "in.npz", "--out", folder / "out.npz")
        with np.load(folder / "out.npz") as out:
            assert sorted(out) == ["n", "y"]
            np.testing.assert_allclose(out["y"], want, rtol=1e-5, atol=1e-5)
            assert out["n"].dtype == np.int64 and out["n"].shape == () and out["n"] == x.size


def test_one_package_on_two_instruction_sets(net):
    folder, _, want = net
    tenon("compile", folder / "net.onnx", "-o", folder / "net.tnp", "--targets", "x86-64-v3,x86-64-v4")
    results = []
    for isa in ("avx2", "avx512") if native_level() == "x86-64-v4" else ("avx2",):
        tenon("run", folder / "net.tnp", "--isa", isa, "--inputs", folder / "in.npz", "--out", folder / f"{isa}.npz")
        results.append(np.load(folder / f"{isa}.npz")["y"])
    from_python = tenon_load(folder / "net.tnp")
    for y in (*results, from_python):
        np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(y, results[0], rtol=1e-6, atol=1e-6)


def tenon_load(path):
    import tenon as package

    with np.load(path.parent / "in.npz") as z:
        return package.load(path)(dict(z))[0]


def native_level():
    return "x86-64-v3" if "avx512f" not in pathlib.Path("/proc/cpuinfo").read_text() else "x86-64-v4"


@pytest.mark.parametrize("order", ["C", "F", "big", "compressed"])
def test_arrays_of_every_make(net, order):
    folder, x, want = net
    given = {"C": x, "F": np.asfortranarray(x), "big": x.astype(">f4"), "compressed": x}[order]
    (np.savez_compressed if order == "compressed" else np.savez)(folder / "in.npz", x=given)
    np.save(folder / "x.npy", given)
    for words in (["--inputs", folder / "in.npz"], ["--inputs", folder / "x.npy"], ["--inputs", f"x={folder / 'x.npy'}"], ["--inputs", folder]):
        tenon("run", folder / "net.onnx", *words, "--out", folder / "results")
        np.testing.assert_allclose(np.load(folder / "results" / "y.npy"), want, rtol=1e-5, atol=1e-5)


def test_strings_and_lists(tmp_path):
    seq = h.make_tensor_sequence_value_info
    graph = h.make_graph(
        [h.make_node("SequenceConstruct", ["a", "b"], ["s"]), h.make_node("StringConcat", ["t", "t"], ["u"])],
        "g",
        [h.make_tensor_value_info("a", T.FLOAT, [2]), h.make_tensor_value_info("b", T.FLOAT, [3]), h.make_tensor_value_info("t", T.STRING, [2])],
        [seq("s", T.FLOAT, None), h.make_tensor_value_info("u", T.STRING, [2])],
    )
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 20)], ir_version=9), tmp_path / "m.onnx")
    np.savez(tmp_path / "in.npz", a=np.float32([1, 2]), b=np.float32([3, 4, 5]), t=np.array(["ä", "bc"]))
    tenon("run", tmp_path / "m.onnx", "--inputs", tmp_path / "in.npz", "--out", tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as out:
        assert out["s/0"].tolist() == [1, 2] and out["s/1"].tolist() == [3, 4, 5] and out["u"].tolist() == ["ää", "bcbc"]


def test_onnx_test_folders(net):
    folder, x, want = net
    data = folder / "test_data_set_0"
    data.mkdir()
    os.rename(folder / "net.onnx", folder / "model.onnx")
    for name, a in (("input_0", x), ("output_0", want.astype(np.float32)), ("output_1", np.array(x.size))):
        (data / f"{name}.pb").write_bytes(onnx.numpy_helper.from_array(a).SerializeToString())
    r = tenon("test", folder, "--atol", "1e-5")
    assert r.stdout.splitlines()[-1] == "1 passed, 0 failed"
    want[1, 2] += 1
    (data / "output_0.pb").write_bytes(onnx.numpy_helper.from_array(want).SerializeToString())
    r = tenon("test", folder, "--atol", "1e-5", ok=False)
    assert r.returncode == 1 and "output 'y': element 42 is" in r.stdout and r.stdout.splitlines()[-1] == "0 passed, 1 failed"


def test_json_everywhere(net):
    folder, x, _ = net
    made = json.loads(tenon("compile", folder / "net.onnx", "-o", folder / "net.tnp", "--json").stdout)
    assert made["bytes"] == (folder / "net.tnp").stat().st_size
    ran = json.loads(tenon("run", folder / "net.tnp", "--random", "--seed", "3", "--json").stdout)
    assert [o["type"] for o in ran["outputs"]] == ["f32[1,40]", "i64[]"]
    timed = json.loads(tenon("bench", folder / "net.tnp", "--runs", "5", "--kernels", "--json").stdout)
    assert timed["runs"] == 5 and timed["p50_ms"] > 0 and timed["kernels"] and timed["peak_gflops"] > 0
    for file in ("net.onnx", "net.tnp"):
        (seen,) = json.loads(tenon("inspect", folder / file, "--json").stdout)["models"]
        assert seen["inputs"] == [{"name": "x", "kind": "tensor", "type": "f32", "shape": ["batch", 6]}]
        assert seen["weight_bytes"] >= 6 * 40 * 4 and seen["plans"][0]["kernels"]
    nodes = json.loads(tenon("explain", folder / "net.onnx", "--json").stdout)["nodes"]
    assert {n["fate"] for n in nodes if n["target"].endswith(("MatMul", "Relu", "Add"))} == {"fused"}
    assert "fused" in tenon("explain", folder / "net.onnx").stdout


def test_shapes_are_fixed_on_request(net):
    folder, x, want = net
    tenon("compile", folder / "net.onnx", "-o", folder / "net.tnp", "--shape", "x=5,6")
    assert "f32[5, 6]" in tenon("inspect", folder / "net.tnp").stdout
    r = tenon("compile", folder / "net.onnx", "-o", folder / "no.tnp", "--shape", "x=5,7", ok=False)
    assert r.returncode != 0 and not (folder / "no.tnp").exists()


def test_cross_compiling(net):
    folder, _, _ = net
    tenon("compile", folder / "net.onnx", "-o", folder / "arm.tnp", "--targets", "aarch64")
    r = tenon("run", folder / "arm.tnp", "--random", ok=False)
    assert r.returncode == 1 and "TN_E_UNSUPPORTED" in r.stderr and "aarch64" in r.stderr
    tenon("compile", folder / "net.onnx", "-o", folder / "arm.o", "--emit", "static", "--targets", "aarch64")
    assert (folder / "arm.o").read_bytes()[:20] == b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x01\x00\xb7\x00"  # ET_REL, EM_AARCH64
    machines = {(folder / "arm.tnp").read_bytes()[i + 18 : i + 20] for i in finds((folder / "arm.tnp").read_bytes(), b"\x7fELF\x02\x01\x01")}
    assert machines == {b"\xb7\x00"}


def finds(data, what):
    at = data.find(what)
    while at >= 0:
        yield at
        at = data.find(what, at + 1)


def test_one_changed_byte_is_seen(net):
    folder, _, _ = net
    tenon("compile", folder / "net.onnx", "-o", folder / "net.tnp")
    assert "verified" in tenon("inspect", "--verify-only", folder / "net.tnp").stdout
    good = (folder / "net.tnp").read_bytes()
    for at in (9, 100, len(good) // 2, len(good) - 1):
        (folder / "bad.tnp").write_bytes(good[:at] + bytes([good[at] ^ 4]) + good[at + 1 :])
        for command in (["inspect", "--verify-only"], ["run", "--random"]):
            r = tenon(command[0], folder / "bad.tnp", *command[1:], ok=False)
            assert r.returncode == 1 and "TN_E_" in r.stderr


@pytest.mark.parametrize(
    "words, status, says",
    [
        (["run"], 2, "one MODEL or PACKAGE is wanted"),
        (["run", "nowhere.onnx"], 1, "can't read 'nowhere.onnx'"),
        (["run", "{net}"], 1, "input 'x' (f32[batch,6]) has no value"),
        (["run", "{net}", "--inputs", "{wrong}"], 1, "no array named like an input"),
        (["run", "{net}", "--inputs", "{short}"], 1, "input 0 'x'"),
        (["run", "{junk}"], 1, "TN_E_PARSE"),
        (["run", "{net}", "--threads", "many"], 2, "--threads wants a number"),
        (["compile", "{net}"], 2, "-o FILE is wanted"),
        (["compile", "{net}", "-o", "{out}", "--targets", "vax"], 2, "target 'vax' is not known"),
        (["compile", "{net}", "-o", "/nowhere/x.tnp"], 1, "TN_E_IO"),
        (["bench", "{net}", "--seconds", "x"], 2, "want numbers"),
        (["test", "{folder}"], 1, "no model.onnx"),
        (["explain", "{net}", "--what"], 2, "unknown option '--what'"),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, list) else None,
)
def test_errors(net, words, status, says):
    folder, x, _ = net
    np.savez(folder / "wrong.npz", z=x)
    np.savez(folder / "short.npz", x=x[:, :5])
    (folder / "junk.onnx").write_bytes(b"\x08\x07junk that is no protobuf")
    (folder / "empty").mkdir()
    names = {"net": folder / "net.onnx", "wrong": folder / "wrong.npz", "short": folder / "short.npz", "junk": folder / "junk.onnx", "out": folder / "o.tnp", "folder": folder / "empty"}
    r = tenon(*[w.format(**names) for w in words], ok=False)
    assert r.returncode == status and says in r.stderr and not r.stdout, (r.returncode, r.stderr, r.stdout)


def test_hostile_archives(net):
    folder, x, _ = net
    good = (folder / "in.npz").read_bytes()
    for bad in (good[:-30], good[: len(good) // 2], good.replace(b"(5, 6)", b"(9, 9)"), b"PK\5\6" + b"\xff" * 18, bytes(100)):
        (folder / "bad.npz").write_bytes(bad)
        r = tenon("run", folder / "net.onnx", "--inputs", folder / "bad.npz", ok=False)
        assert r.returncode == 1 and "bad.npz" in r.stderr


def test_help():
    for command in ("compile", "run", "bench", "inspect", "explain", "test"):
        assert tenon(command, "--help").stdout.startswith(f"usage: tenon {command} ")

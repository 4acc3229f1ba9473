"""A package from the command line, run from C, C++, Python and the program, under every instruction set, alone, signed, and damaged. Values are NumPy's."""

import os
import pathlib
import shutil
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("BUILD", "build")
PROGRAM = BUILD / "tenon"


def run(*args, fine=True, **env):
    r = subprocess.run([str(a) for a in args], capture_output=True, text=True, env={**os.environ, **env}, timeout=120)
    assert (r.returncode == 0) == fine, r.stdout + r.stderr
    return r.stdout + r.stderr


def levels():
    flags = next((s for s in open("/proc/cpuinfo") if s.startswith("flags")), "") if os.path.exists("/proc/cpuinfo") else ""
    return ["avx2"] + (["avx512"] if "avx512dq" in flags else [])


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    """y = softmax(relu(x W + b) V), rows free; the package for two levels; a function that says what y should be."""
    folder = tmp_path_factory.mktemp("package")
    rng = np.random.default_rng(3)
    w, b, v = (rng.standard_normal(s).astype(np.float32) for s in ((40, 70), (70,), (70, 9)))
    nodes = [helper.make_node(*n) for n in (("MatMul", ["x", "w"], ["h"]), ("Add", ["h", "b"], ["k"]), ("Relu", ["k"], ["r"]), ("MatMul", ["r", "v"], ["s"]), ("Softmax", ["s"], ["y"]))]
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, d) for n, d in (("x", ["N", 40]), ("y", ["N", 9]))]
    graph = helper.make_graph(nodes, "net", values[:1], values[1:], [numpy_helper.from_array(a, n) for a, n in ((w, "w"), (b, "b"), (v, "v"))])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), folder / "net.onnx")
    run(PROGRAM, "compile", folder / "net.onnx", "-o", folder / "net.tnp", "--targets", "x86-64-v3,x86-64-v4")

    def want(x):
        s = np.maximum(x.astype(np.float64) @ w + b, 0) @ v
        e = np.exp(s - s.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    return folder / "net.tnp", want


def example_input(rows):
    return (np.arange(rows * 40) % 7 / 8 - 0.25).astype(np.float32).reshape(rows, 40)


@pytest.mark.parametrize("isa", levels())
def test_program_and_python(net, tmp_path, isa):
    import tenon

    package, want = net
    for rows in (1, 5, 64):
        x = np.random.default_rng(rows).standard_normal((rows, 40)).astype(np.float32)
        np.savez(tmp_path / "in.npz", x=x)
        run(PROGRAM, "run", package, "--inputs", tmp_path / "in.npz", "--out", tmp_path / "out.npz", TENON_ISA=isa)
        np.testing.assert_allclose(np.load(tmp_path / "out.npz")["y"], want(x), rtol=1e-4, atol=1e-6)
        (y,) = tenon.load(str(package))({"x": x})
        np.testing.assert_allclose(y, want(x), rtol=1e-4, atol=1e-6)


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    """examples/embed from C and from C++, against the shared and the static run time."""
    folder, out = tmp_path_factory.mktemp("embed"), []
    library = folder / "libtenon_rt.so"
    shutil.copy(BUILD / "libtenon_rt.so", library)
    for source, compiler, std in (("run.c", os.environ.get("CC", "cc"), "c11"), ("run.cc", os.environ.get("CXX", "c++"), "c++17")):
        for link in ([library, f"-Wl,-rpath,{folder}"], [BUILD / "libtenon_rt.a", "-lm", "-lpthread"]):
            program = folder / f"{source}.{len(out)}"
            run(*compiler.split(), f"-std={std}", "-Wall", "-Wextra", "-Werror", ROOT / "examples" / "embed" / source, "-I", ROOT / "include", *link, "-o", program)
            out.append(program)
    return out


@pytest.mark.parametrize("isa", levels())
def test_embedded(net, examples, isa):
    package, want = net
    first = want(example_input(3))[0, :4]
    for program in examples:
        lines = run(program, package, "3", TENON_ISA=isa).splitlines()
        assert lines[0].split() == ["in", "x", "3x40"]
        assert lines[1].split()[:3] == ["out", "y", "3x9"]
        np.testing.assert_allclose([float(v) for v in lines[1].split()[3:]], first, rtol=1e-4, atol=1e-6)
    assert "cannot open" in run(examples[0], "/nonexistent.tnp", fine=False)


def test_linked(tmp_path):
    """examples/embed/linked.c: the model is in the program. What it prints is what the reference says of the model."""
    from onnx.reference import ReferenceEvaluator

    source, model = ROOT / "examples" / "embed" / "linked.c", ROOT / "examples" / "mlp.onnx"
    run(PROGRAM, "compile", model, "-o", tmp_path / "mlp.o", "--emit", "static")
    if "_asan" in run("nm", BUILD / "libtenon_rt.a"):
        pytest.skip("built with sanitizers")
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-I", tmp_path, "-I", ROOT / "include"]
    library = [BUILD / "libtenon_rt.a", "-lm", "-lpthread"]
    run(*os.environ.get("CC", "cc").split(), *flags, source, tmp_path / "mlp.o", *library, "-o", tmp_path / "linked")
    (tmp_path / "mlp.o").unlink()
    got = [[float(v) for v in line.split()] for line in run(tmp_path / "linked").splitlines()]
    x = (np.arange(24) % 7 / 8 - 0.25).astype(np.float32).reshape(3, 8)
    reference = ReferenceEvaluator(str(model))
    (want,) = reference.run(None, {reference.input_names[0]: x})
    np.testing.assert_allclose(got, np.concatenate([want[:1], want]), rtol=1e-4)


def test_alone(net, examples, tmp_path):
    """The run time needs libc and libm, and a root with those, the program and the package is enough."""
    package, _ = net
    needed = {}
    for line in run("ldd", examples[0]).splitlines():
        words = line.split()
        path = words[2] if "=>" in words else words[0]
        if path.startswith("/"):
            needed[words[0] if "=>" in words else path] = path
    names = {os.path.basename(n).split(".")[0] for n in needed}
    if any(n.startswith("lib") and "san" in n for n in names):
        pytest.skip("built with sanitizers")
    assert names <= {"libc", "libm", "libpthread", "libtenon_rt", "ld-linux-x86-64", "ld-linux-aarch64"}
    root = tmp_path / "root"
    for name, path in needed.items():
        to = root / (path.lstrip("/") if name.startswith("/") else "lib/" + name)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, to)
    shutil.copy(examples[0], root / "run")
    shutil.copy(package, root / "net.tnp")
    chroot = shutil.which("chroot") or "/usr/sbin/chroot"
    if os.geteuid() != 0 or not os.path.exists(chroot):
        pytest.skip("only root can enter another root")
    assert run(chroot, root, "/run", "/net.tnp", "3") == run(examples[0], package, "3")


def test_portable(net, tmp_path):
    """No part of the package runs here: the model in it is compiled, and what came of it kept."""
    folder, want = pathlib.Path(net[0]).parent, net[1]
    package, cache = tmp_path / "net.tnp", tmp_path / "cache"
    run(PROGRAM, "compile", folder / "net.onnx", "-o", package, "--targets", "portable" + (",aarch64" if os.uname().machine == "x86_64" else ",x86-64-v3"))
    np.save(tmp_path / "x.npy", example_input(4))
    for turn in range(2):
        text = run(PROGRAM, "run", package, "--inputs", f"x={tmp_path / 'x.npy'}", "--out", tmp_path / "y.npy", TENON_CACHE_DIR=str(cache), TENON_LOG="package")
        assert ("its portable form was compiled" in text) == (turn == 0)
        np.testing.assert_allclose(np.load(tmp_path / "y.npy"), want(example_input(4)), rtol=1e-4, atol=1e-6)
    (kept,) = cache.iterdir()
    kept.write_bytes(kept.read_bytes()[:-1])  # damaged: made again
    assert "its portable form was compiled" in run(PROGRAM, "run", package, "--random", TENON_CACHE_DIR=str(cache), TENON_LOG="package")
    assert "at least one target" in run(PROGRAM, "compile", folder / "net.onnx", "-o", tmp_path / "a.tnp", "--targets", "portable", fine=False)


def test_portable_alone(net, examples, tmp_path):
    """The small run time says what it lacks."""
    package = tmp_path / "net.tnp"
    run(PROGRAM, "compile", pathlib.Path(net[0]).parent / "net.onnx", "-o", package, "--targets", "portable" + (",aarch64" if os.uname().machine == "x86_64" else ",x86-64-v3"))
    assert "a portable form that only libtenon can use" in run(examples[0], package, fine=False)


def test_small(tmp_path):
    """What the run time weighs. When this fails, `nm -S --size-sort build/libtenon_rt.so | tail` says who put it on."""
    if not shutil.which("strip") or "_asan" in run("nm", "-D", BUILD / "libtenon_rt.so"):
        pytest.skip("no strip, or built with sanitizers")
    run("strip", "-o", tmp_path / "rt.so", BUILD / "libtenon_rt.so")
    assert (tmp_path / "rt.so").stat().st_size < 300_000


def test_signed(net, tmp_path):
    package = shutil.copy(net[0], tmp_path / "net.tnp")
    if "no libsodium" in (subprocess.run([PROGRAM, "keys", tmp_path / "a"], capture_output=True, text=True).stderr):
        pytest.skip("built without libsodium")
    run(PROGRAM, "keys", tmp_path / "b")
    assert oct((tmp_path / "a.secret").stat().st_mode & 0o777) == "0o600"
    assert "not signed" in run(PROGRAM, "verify", package, fine=False)
    assert "whole" in run(PROGRAM, "verify", "--whole", package)
    run(PROGRAM, "sign", package, "--key", tmp_path / "a.secret")
    assert "the given key" in run(PROGRAM, "verify", package, "--key", tmp_path / "a.public")
    assert "another key" in run(PROGRAM, "verify", package, "--key", tmp_path / "b.public", fine=False)
    np.save(tmp_path / "x.npy", example_input(2))
    run(PROGRAM, "run", package, "--inputs", f"x={tmp_path / 'x.npy'}", "--out", tmp_path / "y.npy")  # a signed one runs like any other
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), net[1](example_input(2)), rtol=1e-4, atol=1e-6)


def test_damaged(net, tmp_path):
    package = tmp_path / "net.tnp"
    whole = pathlib.Path(net[0]).read_bytes()
    for at in np.random.default_rng(5).integers(0, len(whole), 40):
        package.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        text = run(PROGRAM, "verify", package, fine=False)
        assert any(w in text for w in ("damaged", "not a package", "is not zero")), text
    for n in (0, 1, 63, 64, 1000, len(whole) - 1):
        package.write_bytes(whole[:n])
        assert any(w in run(PROGRAM, "verify", package, fine=False) for w in ("not a package", "truncated"))
        run(PROGRAM, "run", package, "--random", fine=False)

"""What shipping a package takes: size and needs of the run time, a run where nothing else is, the time to open.

    .venv/bin/python bench/package.py [model.onnx ...]

Without models it makes three: a small perceptron, a deep one of 64 MiB, a convolutional one with free sizes. For each: compiles it, runs it by
examples/embed/run.c in an empty root that holds only libc, the run time, the program and the package, compares with the run outside, and times opening a
cached file. The last line says whether the bounds hold: stripped run time < 300 KB, nothing but libc and libm, opening < 5 ms without the hashes of weights
(a constant 0.1 ms a MiB on top, printed beside it).
"""
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("BUILD", os.path.join(ROOT, "build"))
MOST_BYTES, MOST_MS = 300_000, 5.0


def sh(*args, **kw):
    return subprocess.run(args, check=True, text=True, stdout=subprocess.PIPE, **kw).stdout


def made_models(folder):
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)

    def perceptron(name, width, layers):
        nodes, weights, x = [], [], "x"
        for i in range(layers):
            weights.append(numpy_helper.from_array((rng.standard_normal((width, width)) / width**0.5).astype(np.float32), f"w{i}"))
            nodes += [helper.make_node("MatMul", [x, f"w{i}"], [f"m{i}"]), helper.make_node("Relu", [f"m{i}"], [f"r{i}"])]
            x = f"r{i}"
        return save(name, nodes, weights, ["N", width], x, ["N", width])

    def convolutions(name, layers):
        nodes, weights, x, c = [], [], "x", 3
        for i in range(layers):
            d = 16 * 2 ** (i // 3)
            weights.append(numpy_helper.from_array((rng.standard_normal((d, c, 3, 3)) / (9 * c) ** 0.5).astype(np.float32), f"w{i}"))
            nodes += [helper.make_node("Conv", [x, f"w{i}"], [f"c{i}"], pads=[1] * 4), helper.make_node("Relu", [f"c{i}"], [f"r{i}"])]
            x, c = f"r{i}", d
        nodes.append(helper.make_node("GlobalAveragePool", [x], ["y"]))
        return save(name, nodes, weights, ["N", 3, "H", "W"], "y", ["N", c, 1, 1])

    def save(name, nodes, weights, dims, out, out_dims):
        ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, d) for n, d in (("x", dims), (out, out_dims))]
        graph = helper.make_graph(nodes, name, ends[:1], ends[1:], weights)
        path = os.path.join(folder, name + ".onnx")
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
        return path

    return [perceptron("small", 64, 4), perceptron("deep", 1024, 16), convolutions("conv", 9)]


def libraries(path):
    """Resolved libraries of a program or library, by name; the loader last."""
    out = {}
    for line in sh("ldd", path).splitlines():
        words = line.split()
        if "=>" in words and words[2].startswith("/"):
            out[words[0]] = words[2]
        elif words[0].startswith("/"):
            out[os.path.basename(words[0])] = words[0]
    return out


def jail(folder, program, library, package):
    """An empty root with libc, the run time, the program and the package; what one calls to run in it, or None."""
    root = os.path.join(folder, "root")
    os.makedirs(root)
    for name, path in libraries(program).items():
        where = path if name.startswith("ld-") else os.path.join("/lib", name)
        to = root + where
        os.makedirs(os.path.dirname(to), exist_ok=True)
        shutil.copy(library if name == "libtenon_rt.so" else path, to)
    shutil.copy(program, os.path.join(root, "run"))
    shutil.copy(package, os.path.join(root, "model.tnp"))
    chroot = shutil.which("chroot") or "/usr/sbin/chroot"
    enter = [chroot, root] if os.geteuid() == 0 else [shutil.which("unshare") or "unshare", "--user", "--map-root-user", chroot, root]
    files = sorted(os.path.join(d, f)[len(root):] for d, _, fs in os.walk(root) for f in fs)
    return enter + ["/run", "/model.tnp"], files


def main():
    rt = os.path.join(BUILD, "libtenon_rt.so")
    fine = True
    with tempfile.TemporaryDirectory() as folder:
        small = os.path.join(folder, "libtenon_rt.so")
        sh("strip", "-o", small, rt)
        size, needs = os.path.getsize(small), sorted(libraries(small))
        alien = [n for n in needs if not n.startswith(("libc.", "libm.", "libpthread.", "ld-"))]
        fine &= size < MOST_BYTES and not alien
        print(f"run time: {size} bytes stripped; needs {', '.join(needs)}")
        programs = {}
        for name, source in (("run", "examples/embed/run.c"), ("open", "bench/package.c")):
            programs[name] = os.path.join(folder, name)
            sh(os.environ.get("CC", "cc"), "-O2", os.path.join(ROOT, source), "-I", os.path.join(ROOT, "include"), small, "-Wl,-rpath," + folder, "-o", programs[name])
        for i, model in enumerate(sys.argv[1:] or made_models(folder)):
            package = os.path.join(folder, f"{i}.tnp")
            sh(os.path.join(BUILD, "tenon"), "compile", model, "-o", package, "--targets", "x86-64-v3,x86-64-v4,amx" if os.uname().machine == "x86_64" else "native")
            outside = sh(programs["run"], package, "8")
            command, files = jail(os.path.join(folder, str(i)), programs["run"], small, package)
            try:
                inside = sh(*command, "8", env={})
            except (OSError, subprocess.CalledProcessError) as e:
                inside = None
                print(f"  cannot enter an empty root here: {e}")
            same = inside == outside
            fine &= same
            times = {w[0]: [float(x) for x in w[1:]] for w in map(str.split, sh(programs["open"], package).splitlines())}
            verified, plain = times["verified"], times["unverified"]
            fine &= plain[0] < MOST_MS
            mib = os.path.getsize(package) / 2**20
            print(f"{os.path.basename(model):24} {mib:8.2f} MiB   opens in {plain[0]:6.3f} ms ({plain[2]:.0f} page faults), with hashes of weights {verified[0]:7.3f} ms ({verified[2]:.0f})"
                  f"   alone with {len(files)} files: {'the same result' if same else 'DIFFERS'}")
        print("in the empty root: " + " ".join(files))
    print("all bounds hold" if fine else "a bound is broken")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())

"""A day of service in small: many runs with sizes that change from call to call, from several threads, on one loaded package.

  .venv/bin/python bench/soak.py [runs=100000] [threads=4] [--out FILE]

One model with free batch and length (matmul, softmax, layer norm, a gather, a NonZero whose size only the values tell, an If) is compiled to a package once; the
package is what runs. Every 97th result is compared with NumPy. Memory is the process's resident set: measured after a tenth of the runs, when every session has
met the largest sizes, and at the end. Exit status 1: a wrong result, an error, more than 2 MiB of growth, or a package that changed.
"""

import json
import pathlib
import sys
import tempfile
import threading
import time

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

import tenon

WIDTH, TABLE, MOST_BATCH, MOST_LENGTH, GROWTH = 32, 50, 6, 40, 2 << 20


def build(path):
    g = np.random.default_rng(0)
    weights = {"table": g.standard_normal((TABLE, WIDTH)), "wq": g.standard_normal((WIDTH, WIDTH)) / 6, "wk": g.standard_normal((WIDTH, WIDTH)) / 6, "scale": g.random(WIDTH) + 0.5, "shift": g.random(WIDTH)}
    weights = {k: v.astype(np.float32) for k, v in weights.items()}
    branch = lambda op: h.make_graph([h.make_node(op, ["n"], [op])], op, [], [h.make_tensor_value_info(op, T.FLOAT, None)])  # noqa: E731
    nodes = [
        h.make_node("Gather", ["table", "ids"], ["e"]),
        h.make_node("MatMul", ["e", "wq"], ["q"]),
        h.make_node("MatMul", ["e", "wk"], ["k"]),
        h.make_node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
        h.make_node("MatMul", ["q", "kt"], ["s"]),
        h.make_node("Softmax", ["s"], ["p"]),
        h.make_node("MatMul", ["p", "e"], ["a"]),
        h.make_node("LayerNormalization", ["a", "scale", "shift"], ["n"]),
        h.make_node("If", ["flag"], ["y"], then_branch=branch("Relu"), else_branch=branch("Neg")),
        h.make_node("NonZero", ["ids"], ["where"]),
    ]
    graph = h.make_graph(
        nodes,
        "soak",
        [h.make_tensor_value_info("ids", T.INT64, ["batch", "length"]), h.make_tensor_value_info("flag", T.BOOL, [])],
        [h.make_tensor_value_info("y", T.FLOAT, ["batch", "length", WIDTH]), h.make_tensor_value_info("where", T.INT64, [2, None])],
        [nh.from_array(v, k) for k, v in weights.items()],
    )
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 20)], ir_version=9), path)
    return weights


def right(w, ids, flag):
    e = w["table"][ids].astype(np.float64)
    s = (e @ w["wq"]) @ (e @ w["wk"]).transpose(0, 2, 1)
    p = np.exp(s - s.max(-1, keepdims=True))
    a = p / p.sum(-1, keepdims=True) @ e
    n = (a - a.mean(-1, keepdims=True)) / np.sqrt(a.var(-1, keepdims=True) + 1e-5) * w["scale"] + w["shift"]
    return np.maximum(n, 0) if flag else -n, np.array(np.nonzero(ids))


def resident():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096


class Worker(threading.Thread):
    def __init__(self, number, runs, model, weights):
        super().__init__()
        self.number, self.runs, self.model, self.weights = number, runs, model, weights
        self.errors, self.checked, self.done = [], 0, 0

    def run(self):
        g = np.random.default_rng(self.number)
        for k in range(self.runs):
            batch, length = (MOST_BATCH, MOST_LENGTH) if k == 0 else (g.integers(0, MOST_BATCH + 1), g.integers(0, MOST_LENGTH + 1))
            ids, flag = g.integers(0, TABLE, (batch, length)), np.bool_(g.integers(2))
            try:
                y, where = self.model({"ids": ids, "flag": flag})
                if k % 97 == 0:
                    want, there = right(self.weights, ids, flag) if ids.size else (np.zeros((batch, length, WIDTH)), np.array(np.nonzero(ids)))
                    self.checked += 1
                    np.testing.assert_allclose(y, want, rtol=1e-3, atol=1e-4)
                    np.testing.assert_array_equal(where, there)
            except Exception as e:
                self.errors.append(f"run {k}, sizes {batch} x {length}: {type(e).__name__}: {e}")
                if len(self.errors) > 5:
                    return
            self.done = k + 1


def main(args):
    out = args.pop(args.index("--out") + 1) if "--out" in args else None
    args = [a for a in args if a != "--out"]
    runs, threads = int(args[0]) if args else 100_000, int(args[1]) if len(args) > 1 else 4
    with tempfile.TemporaryDirectory() as folder:
        weights = build(folder + "/soak.onnx")
        from tenon import _model

        _model.onnx(folder + "/soak.onnx", None, None, {"targets": "native"}, folder + "/soak.tnp", 0)
        before = pathlib.Path(folder + "/soak.tnp").read_bytes()
        model = tenon.load(folder + "/soak.tnp", threads=1)
        workers = [Worker(k, runs // threads, model, weights) for k in range(threads)]
        t0 = time.monotonic()
        [w.start() for w in workers]
        while any(w.is_alive() for w in workers) and min(w.done for w in workers) < runs // threads // 10:
            time.sleep(0.05)
        early = resident()
        [w.join() for w in workers]
        seconds, late = time.monotonic() - t0, resident()
        changed = pathlib.Path(folder + "/soak.tnp").read_bytes() != before
    errors = [e for w in workers for e in w.errors]
    result = {"runs": sum(w.done for w in workers), "threads": threads, "seconds": round(seconds, 1), "checked": sum(w.checked for w in workers), "errors": len(errors),
              "resident_early": early, "resident_late": late, "grown": late - early}  # fmt: skip
    print(json.dumps(result))
    for e in errors[:5]:
        print(e)
    if out:
        pathlib.Path(out).write_text(json.dumps(result, indent=1) + "\n")
    return 1 if errors or changed or late - early > GROWTH else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

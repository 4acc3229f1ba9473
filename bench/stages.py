"""Where the seconds of a cold build go: torch's capture, Tenon's own share, the first run. stages.py --models FILE [--names a,b]

Each model is built in a process of its own. Tenon's own share is the wall time of everything after capture, from the graph's JSON text
to a program that can run; the seven stages inside it are those of docs/tour.md and of TENON_LOG=stages. "Capture and rest" is what the
first call spends beside that and one ordinary run: Dynamo, tracing, AOTAutograd where a graph needs it, guards. Importing torch and
making the model come before and do not count. FILE is as for bench/side.py."""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import side


def worker(a):
    """Prints one JSON line: seconds of the first call, of Tenon's builds inside it and of a later call; graphs, and ms by stage."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is not the answer
    import torch

    torch.set_num_threads(a.threads)
    torch._dynamo.config.allow_rnn = True
    module, inputs = side.make(side.load(a.models), a.name, a.size)
    builds = side.watch_builds()

    def call():
        begin = time.perf_counter()
        compiled(*inputs)
        return time.perf_counter() - begin

    with torch.no_grad():
        compiled = torch.compile(module, backend="tenon")
        first, later = call(), call()
    own = sum(secs for secs, _ in builds)
    row = {"first_s": first, "own_s": own, "run_s": later, "capture_s": first - own - later, "graphs": len(builds)}
    row |= {"eager_graphs": sum(program is None for _, program in builds), "stages": {}}
    for program in (p for _, p in builds if p):
        for number, stage in enumerate(json.loads(program.report)["stages"], 1):
            key = f"{number} {stage['name']}"
            row["stages"][key] = row["stages"].get(key, 0) + stage["ms"]
    answers.write(json.dumps(row) + "\n")


def measure(a, name):
    """One model's row; {"fail": words} when it did not work."""
    with tempfile.TemporaryDirectory(prefix="tenon-stages-") as folder:
        env = dict(os.environ, OMP_NUM_THREADS=str(a.threads), TENON_THREADS=str(a.threads), TENON_CACHE_DIR=folder)
        command = [sys.executable, __file__, "--worker", "--models", a.models, "--name", name, "--threads", str(a.threads), "--size", a.size]
        try:
            r = subprocess.run(command, env=env, capture_output=True, text=True, timeout=a.limit)
        except subprocess.TimeoutExpired:
            return {"fail": f"no answer in {a.limit:g} s"}
    if r.returncode or not r.stdout.strip():
        return {"fail": (r.stderr.strip().splitlines() or [f"exit {r.returncode}"])[-1]}
    return json.loads(r.stdout.splitlines()[-1])


def line(name, row):
    if "fail" in row:
        return f"{name:24} FAILED: {row['fail'][:100]}"
    parts = ", ".join(f"{k} {v:.1f}" for k, v in row["stages"].items())
    graphs = f"{row['graphs']} graphs" + f" ({row['eager_graphs']} run eagerly)" * bool(row["eager_graphs"])
    return (f"{name:24} first call {row['first_s']:.2f} s: Tenon's own {row['own_s']:.3f} s in {graphs}, capture and rest "
            f"{row['capture_s']:.2f} s, one run {row['run_s'] * 1e3:.1f} ms; stages in ms: {parts}")


def parse():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--models", required=True, help="Python file with MODELS")
    p.add_argument("--names", default="", help="comma-separated; default all")
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--size", default="normal", help="for files with build(name, size)")
    p.add_argument("--limit", type=float, default=400, help="seconds a model")
    p.add_argument("--out", help="JSON file; default bench/results/stages.json")
    p.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    p.add_argument("--name", help=argparse.SUPPRESS)
    return p.parse_args()


def main():
    a = parse()
    if a.worker:
        return worker(a)
    names = [n for n in a.names.split(",") if n] or list(side.load(a.models).MODELS)
    command = f"bench/stages.py --models {pathlib.Path(a.models).name} --threads {a.threads}"
    command += f" --names {a.names}" * bool(a.names) + f" --size {a.size}" * (a.size != "normal")
    result = {"run": {"command": command, "date": time.strftime("%Y-%m-%d"), "threads": a.threads, **side.machine(), **side.versions()}, "stages": {}}
    out = pathlib.Path(a.out or side.HERE / "results" / "stages.json")
    out.parent.mkdir(parents=True, exist_ok=True)
    for n in names:
        result["stages"][n] = measure(a, n)
        print(line(n, result["stages"][n]), flush=True)
        out.write_text(json.dumps(result, indent=1) + "\n")
    return int(any("fail" in row for row in result["stages"].values()))


if __name__ == "__main__":
    sys.exit(main())

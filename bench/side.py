"""Engines side by side on the same models, in turns. side.py --models FILE [options]; results go to bench/results/.

FILE is Python with MODELS: a dict from name to a function that gives (module in eval mode, tuple of inputs). When FILE also has
build(name, size), that makes them instead. bench/micro_models.py is one; any path will do. FILE may have WORK: name -> {"flops": n} or
{"bytes": n}, which bench/table.py sets against the machine's peaks (bench/peaks.c).

Every engine gets a process of its own, which waits between its turns, so that whatever else the machine does hits all alike. A turn
runs the model for --secs and notes the smallest latency; an engine's figure is the median over its turns. Only ratios inside one run
mean something: machines share caches, memory and power with what else they do.

Engines: eager (PyTorch as it is), inductor (torch.compile's default), tenon. Per engine also: seconds of the cold build (fresh caches, up
to the first result), largest error against eager relative to eager's largest value, and resident MiB. For tenon, own_s is the part of
the build that follows capture."""
import argparse
import importlib.util
import json
import math
import os
import pathlib
import platform
import re
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ENGINES = ("eager", "inductor", "tenon")
FLAGS = ("avx2", "fma", "avx512f", "avx512bw", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16", "amx_int8")


def load(path):
    """The module of models at `path`."""
    spec = importlib.util.spec_from_file_location("bench_models", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make(models, name, size):
    """(module, inputs), the same weights in every process."""
    import torch

    torch.manual_seed(0)
    module, inputs = models.build(name, size) if hasattr(models, "build") else models.MODELS[name]()
    return module.eval(), tuple(inputs)


def leaves(value):
    """The tensors in a result, in order."""
    import torch

    return [t for t in torch.utils._pytree.tree_leaves(value) if isinstance(t, torch.Tensor)]


def watch_builds():
    """A list that gets (seconds, program) of every graph Tenon compiles from now on; None for a program that did not come about."""
    from tenon import backend

    builds, build = [], backend.build

    def timed(*args, **kwargs):
        begin, program = time.perf_counter(), None
        try:
            program = build(*args, **kwargs)
            return program
        finally:
            builds.append((time.perf_counter() - begin, program))

    backend.build = timed
    return builds


def machine():
    """What a reader needs to know about where figures come from."""
    text = pathlib.Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*: (.*)$", text, re.M)
    flags = set((re.search(r"^flags\s*: (.*)$", text, re.M) or [None, ""])[1].split())
    memory = re.search(r"^MemTotal:\s+(\d+) kB", pathlib.Path("/proc/meminfo").read_text(), re.M)
    return {
        "cpu": model[1] if model else platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "features": [f for f in FLAGS if f in flags],
        "memory_gib": round(int(memory[1]) / 2**20) if memory else None,
    }


def versions():
    """Versions of what is compared; the commit is that of the tree, with + when files differ from it."""
    import torch

    found = {"python": platform.python_version(), "torch": torch.__version__}
    git = subprocess.run(["git", "-C", HERE, "describe", "--always", "--dirty=+"], capture_output=True, text=True)
    if git.returncode == 0:
        found["tenon"] = git.stdout.strip()
    return found


def rss_mib():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


# ---- one engine on one model, in a process of its own ----
def worker(a):
    """Builds, reports {build_s, err, rss_mib, own_s of tenon}, then answers each "secs" line with {min, median, n}."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print goes to the log

    def say(row):
        answers.write(json.dumps(row) + "\n")
        answers.flush()

    import torch

    torch.set_num_threads(a.threads)
    torch._dynamo.config.allow_rnn = True
    module, inputs = make(load(a.models), a.name, a.size)
    with torch.no_grad():
        want = [t.float().clone() for t in leaves(module(*inputs))]
        if a.dtype == "bf16":
            module = module.bfloat16()
            inputs = torch.utils._pytree.tree_map(lambda t: t.bfloat16() if isinstance(t, torch.Tensor) and t.is_floating_point() else t, inputs)
        start = time.perf_counter()
        builds = watch_builds() if a.engine == "tenon" else []
        run = module if a.engine == "eager" else torch.compile(module, backend=a.engine)
        got = leaves(run(*inputs))
        row = {"build_s": time.perf_counter() - start}
        for _ in range(3):
            got = leaves(run(*inputs))
        row |= {"err": error(got, want), "rss_mib": rss_mib()}
        if builds:
            row["own_s"] = sum(secs for secs, _ in builds)
        say(row)
        for line in sys.stdin:
            say(turn(run, inputs, float(line)))


def error(got, want):
    """Largest difference over all results, relative to the largest value wanted; inf for a result that is missing or misshapen."""
    if [g.shape for g in got] != [w.shape for w in want]:
        return math.inf
    worst = 0.0
    for g, w in zip(got, want):
        if w.numel():
            worst = max(worst, ((g.float() - w).abs().max() / (w.abs().max() + 1e-6)).item())
    return worst


def turn(run, inputs, secs):
    times, end = [], time.perf_counter() + secs
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        run(*inputs)
        times.append(time.perf_counter() - start)
    return {"min": min(times) * 1e3, "median": statistics.median(times) * 1e3, "n": len(times)}


# ---- the parent ----
class Engine:
    """A worker process and what is known of it."""

    def __init__(self, a, name, engine):
        self.row, self.folder = {}, pathlib.Path(tempfile.mkdtemp(prefix="tenon-bench-"))
        self.log = self.folder / "log"
        env = dict(os.environ, OMP_NUM_THREADS=str(a.threads), TENON_THREADS=str(a.threads))
        env |= {"TORCHINDUCTOR_CACHE_DIR": str(self.folder / "inductor"), "TENON_CACHE_DIR": str(self.folder / "tenon")}
        command = [sys.executable, __file__, "--worker", engine, "--name", name, "--models", a.models]
        command += ["--threads", str(a.threads), "--size", a.size, "--dtype", a.dtype]
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=env, text=True)
        self.answer(a.build_limit)

    def answer(self, limit):
        """The next line as a dict, merged into the row for the first; None and a "fail" text when there is none in time."""
        ready, _, _ = select.select([self.process.stdout], [], [], limit)
        line = self.process.stdout.readline() if ready else ""
        if not line:
            self.process.kill()
            words = self.log.read_text(errors="replace").strip().splitlines()
            self.row["fail"] = f"no answer in {limit:g} s" if not ready else (words[-1] if words else "ended without a word")
            return None
        row = json.loads(line)
        if not self.row:
            self.row = row
        return row

    def turn(self, secs):
        self.process.stdin.write(f"{secs}\n")
        self.process.stdin.flush()
        return self.answer(secs * 20 + 120)

    def close(self):
        if self.process.poll() is None:
            self.process.stdin.close()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def measure(a, name, engines):
    """{engine: row} of one model."""
    running = {}
    try:
        for e in engines:
            running[e] = Engine(a, name, e)
        for _ in range(a.rounds):
            for engine in running.values():
                if "fail" in engine.row:
                    continue
                row = engine.turn(a.secs)
                if row:
                    engine.row.setdefault("turns", []).append(round(row["min"], 5))
                time.sleep(0.05)  # the engine's threads go to sleep before the next one's turn
    finally:
        for engine in running.values():
            engine.close()
    for engine in running.values():
        if engine.row.get("turns"):
            engine.row["ms"] = statistics.median(engine.row["turns"])
    return {e: engine.row for e, engine in running.items()}


def ratio(rows, of="tenon"):
    """Best other engine's latency over tenon's, above 1 when tenon is faster; None when either has none."""
    others = [r["ms"] for e, r in rows.items() if e != of and "ms" in r]
    return min(others) / rows[of]["ms"] if others and "ms" in rows.get(of, {}) else None


def geomean(values):
    values = [v for v in values if v]
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def line(name, rows):
    cells = [f"{e} FAILED: {r['fail'][:80]}" if "ms" not in r else f"{e} {r['ms']:.3f} ms (build {r['build_s']:.1f} s, err {r['err']:.1e})" for e, r in rows.items()]
    r = ratio(rows)
    return f"{name:24} " + "; ".join(cells) + (f"; ratio {r:.2f}" if r else "")


def parse():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--models", required=True, help="Python file with MODELS")
    p.add_argument("--names", default="", help="comma-separated; default all")
    p.add_argument("--engines", default=",".join(ENGINES))
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--secs", type=float, default=0.5)
    p.add_argument("--size", default="normal", help="for files with build(name, size)")
    p.add_argument("--dtype", default="f32", choices=("f32", "bf16"))
    p.add_argument("--build-limit", type=float, default=400, help="seconds")
    p.add_argument("--out", help="JSON file; default bench/results/<models file>.json")
    p.add_argument("--worker", dest="engine", help=argparse.SUPPRESS)
    p.add_argument("--name", help=argparse.SUPPRESS)
    return p.parse_args()


def main():
    a = parse()
    if a.engine:
        return worker(a)
    engines = a.engines.split(",")
    unknown = [e for e in engines if e not in ENGINES]
    if unknown:
        print(f"no engine {unknown[0]}; there are {', '.join(ENGINES)}", file=sys.stderr)
        return 2
    models = load(a.models)
    names = [n for n in a.names.split(",") if n] or list(models.MODELS)
    stem = pathlib.Path(a.models).stem
    out = pathlib.Path(a.out or HERE / "results" / f"{stem}{'' if a.dtype == 'f32' else '-' + a.dtype}.json")
    command = f"bench/side.py --models {pathlib.Path(a.models).name} --engines {a.engines} --threads {a.threads} --rounds {a.rounds} --secs {a.secs:g}"
    command += f" --names {a.names}" * bool(a.names) + f" --dtype {a.dtype}" * (a.dtype != "f32") + f" --size {a.size}" * (a.size != "normal")
    work = getattr(models, "WORK", {})
    result = {"run": {"command": command, "date": time.strftime("%Y-%m-%d"), "threads": a.threads, **machine(), **versions()}, "models": {}}
    result["work"] = {n: work[n] for n in names if n in work}
    out.parent.mkdir(parents=True, exist_ok=True)
    for n in names:
        result["models"][n] = measure(a, n, engines)
        print(line(n, result["models"][n]), flush=True)
        out.write_text(json.dumps(result, indent=1) + "\n")
    ratios = [ratio(rows) for rows in result["models"].values()]
    if any(ratios):
        print(f"geometric mean of best other / tenon: {geomean(ratios):.3f} over {sum(map(bool, ratios))} of {len(names)}")
    print(f"written: {out.name}; bench/table.py makes the tables")
    return int(any("ms" not in r for rows in result["models"].values() for r in rows.values()))


if __name__ == "__main__":
    sys.exit(main())

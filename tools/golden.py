"""Golden tests: tests/golden/<room>/<stem>/*.tn. Each file says what to run and what must come out:

  # run: opt --pass simplify              the tool's words; the graph goes in on stdin
  # env: TENON_PROFILE=dvm                optional
  # eval: seed=7 rtol=0 s0=4              optional: both sides are evaluated by the reference kernels on seeded inputs;
                                          top=2e-5 allows that much of a result's largest value
  graph @g(...) ...
  # expect:
  graph @g(...) ...                       canonical text

A file passes when the text is as expected, the expected text re-parses to itself, and (with eval) both sides give equal results. "# fails:"
in place of "# expect:" wants exit 1 and the lines that follow in the message. Usage: golden.py [--update] [--build DIR] [path ...]"""
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def read(path):
    case = {"run": None, "env": {}, "eval": None, "kind": "expect", "input": "", "want": ""}
    part = "input"
    for line in path.read_text().splitlines(keepends=True):
        key, _, rest = line[1:].strip().partition(":")
        if line.startswith("#") and key == "run":
            case["run"] = shlex.split(rest)
        elif line.startswith("#") and key == "env":
            case["env"].update(w.split("=", 1) for w in rest.split())
        elif line.startswith("#") and key == "eval":
            case["eval"] = dict(w.split("=", 1) for w in rest.split())
        elif line.startswith("#") and key in ("expect", "fails"):
            part, case["kind"] = "want", key
        elif part == "want" or not line.startswith("#"):
            case[part] += line
    return case


class Runner:
    def __init__(self, build):
        self.tool = build / "tenon"
        self.evalgraph = build / "tests" / "evalgraph"

    def run(self, words, text, env=()):
        return subprocess.run([self.tool, *words, "-"], input=text, capture_output=True, text=True, env={**os.environ, **dict(env)})

    def evaluate(self, a, b, opts):
        with tempfile.TemporaryDirectory() as d:
            pa, pb = pathlib.Path(d, "a.tn"), pathlib.Path(d, "b.tn")
            pa.write_text(a)
            pb.write_text(b)
            more = [f"{k}={v}" for k, v in opts.items() if k not in ("seed", "rtol")]
            return subprocess.run([self.evalgraph, opts.get("seed", "1"), opts.get("rtol", "0"), pa, pb, *more], capture_output=True, text=True)

    def check(self, path, update):
        """None when fine, else what is wrong."""
        case = read(path)
        if not case["run"]:
            return "no '# run:' line"
        r = self.run(case["run"], case["input"], case["env"].items())
        if case["kind"] == "fails":
            if r.returncode != 1:
                return f"exit {r.returncode}, wanted 1: {r.stderr.strip()}"
            missing = [w for w in case["want"].splitlines() if w.strip() and w.strip() not in r.stderr]
            return f"'{missing[0].strip()}' is not in: {r.stderr.strip()}" if missing else None
        if r.returncode != 0:
            return f"exit {r.returncode}: {r.stderr.strip()}"
        if r.stdout.strip() != case["want"].strip():
            if not update:
                return "text differs; got:\n" + r.stdout
            head = path.read_text().partition("# expect:")[0]
            path.write_text(head.rstrip("\n") + "\n# expect:\n" + r.stdout.rstrip("\n") + "\n")
            print(f"updated {path.relative_to(ROOT)}")
        again = self.run(["opt", "--pass", ""], r.stdout)
        if again.returncode != 0 or again.stdout != r.stdout:
            return "the expected text does not re-parse to itself: " + again.stderr.strip()
        if case["eval"] is not None:
            e = self.evaluate(case["input"], r.stdout, case["eval"])
            if e.returncode != 0:
                return "results differ: " + e.stderr.strip()
        return None


def main(args):
    update = "--update" in args
    build = ROOT / os.environ.get("BUILD", "build")
    paths = []
    words = iter(a for a in args if a != "--update")
    for w in words:
        if w == "--build":
            build = pathlib.Path(next(words, "")).resolve()
        elif w.startswith("-"):
            print(__doc__)
            return 2
        else:
            paths.append(pathlib.Path(w).resolve())
    files = sorted(f for p in paths or [ROOT / "tests/golden"] for f in ([p] if p.is_file() else p.rglob("*.tn")))
    runner = Runner(build)
    if not runner.tool.exists() or not runner.evalgraph.exists():
        print(f"{build.name}/tenon or {build.name}/tests/evalgraph is missing: build first")
        print(f"0 passed, 0 failed, {len(files)} skipped")
        return 0
    failed = 0
    for f in files:
        wrong = runner.check(f, update)
        if wrong:
            failed += 1
            print(f"FAIL {f.relative_to(ROOT) if f.is_relative_to(ROOT) else f}: {wrong}")
    print(f"{len(files) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

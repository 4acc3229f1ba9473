"""Makes docs/performance.md and the figures of README.md from bench/results/*.json. table.py [--check | --ingest FILE --name N --command C]

Figures in documents come from here alone, so each has its command beside it. --check writes nothing and fails when the pages are not
what the results say. --ingest takes the JSON of another runner, {model: {engine: {"ms", "build_s", "err", "rss_mib"}}}, measured on
this machine, into bench/results/N.json; --command is what made it."""
import argparse
import json
import pathlib
import sys
import time

import side

ROOT = side.HERE.parent
RESULTS = side.HERE / "results"
PAGE = ROOT / "docs" / "performance.md"
README = ROOT / "README.md"
BEGIN, END = "<!-- figures: begin (written by bench/table.py) -->", "<!-- figures: end -->"
NONE_YET = "No figures are recorded yet: `bench/side.py` measures, `bench/table.py` writes them here.\n"


def results():
    """{stem: JSON} of everything recorded, models before kernel classes before the rest."""
    found = {p.stem: json.loads(p.read_text()) for p in sorted(RESULTS.glob("*.json"))}
    return dict(sorted(found.items(), key=lambda kv: ("models" not in kv[1], "work" in kv[1] and bool(kv[1]["work"]), kv[0])))


def table(head, lines):
    cells = [head, ["---"] + ["---:"] * (len(head) - 1), *lines]
    return "\n".join("| " + " | ".join(str(c) for c in row) + " |" for row in cells) + "\n"


def ms(v):
    return "" if v is None else f"{v:.0f}" if v >= 100 else f"{v:.3g}"


def conditions(run):
    """One sentence about machine and versions."""
    parts = [run["cpu"], f"{run['cores']} cores", f"{run['memory_gib']} GiB", "features " + ", ".join(run["features"])]
    parts += [f"{k} {run[k]}" for k in ("threads", "torch", "python", "tenon") if k in run]
    return f"Measured {run['date']} by `{run['command']}` on {'; '.join(parts)}.\n"


def share(work, latency_ms, peaks):
    """Part of the machine's peak, in per cent, or ""."""
    if not work or not peaks or latency_ms is None:
        return ""
    best = peaks["all"]
    if "flops" in work:
        return f"{100 * work['flops'] / (latency_ms * 1e-3) / (best['fma_f32_gflops'] * 1e9):.0f} % of FMA"
    memory = max(best["copy_gbs"], best.get("copy_stream_gbs", 0), best["read_gbs"])
    return f"{100 * work['bytes'] / (latency_ms * 1e-3) / (memory * 1e9):.0f} % of memory"


def model_rows(data, engines, peaks):
    work = data.get("work", {})
    for name, rows in data["models"].items():
        cells = [name]
        for e in engines:
            r = rows.get(e, {})
            cells.append(ms(r["ms"]) if "ms" in r else "fails" if r else "")
        ratio, tenon = side.ratio(rows), rows.get("tenon", {})
        cells.append(f"{ratio:.2f}" if ratio else "")
        if work:
            cells.append(share(work.get(name), tenon.get("ms"), peaks))
        cells += [f"{rows[e]['build_s']:.1f}" if "build_s" in rows.get(e, {}) else "" for e in engines if e != "eager"]
        cells += [f"{tenon['own_s']:.2f}" if tenon.get("own_s") is not None else "", f"{tenon['err']:.1e}" if "err" in tenon else ""]
        cells.append(" / ".join(f"{rows[e]['rss_mib']:.0f}" if "rss_mib" in rows.get(e, {}) else "-" for e in engines))
        yield cells


def summary(data):
    """What one result file says in a line."""
    ratios = {n: side.ratio(rows) for n, rows in data["models"].items()}
    known = {n: r for n, r in ratios.items() if r}
    if not known:
        return f"{len(ratios)} models, none with a figure for tenon and another engine"
    worst = min(known, key=known.get)
    builds = [(rows["inductor"]["build_s"], rows["tenon"]["build_s"]) for rows in data["models"].values() if "build_s" in rows.get("inductor", {}) and "build_s" in rows.get("tenon", {})]
    text = f"latency of the best other engine over Tenon's: geometric mean {side.geomean(known.values()):.2f}, lowest {known[worst]:.2f} ({worst}), {len(known)} of {len(ratios)} models"
    if builds:
        text += f"; cold build of Inductor over Tenon's: geometric mean {side.geomean(i / t for i, t in builds):.1f}"
    return text


def stage_rows(data):
    for name, row in data["stages"].items():
        if "fail" in row:
            yield [name, "fails", "", "", "", "", ""]
            continue
        parts = "; ".join(f"{k} {ms(v)}" for k, v in row["stages"].items())
        yield [name, f"{row['first_s']:.2f}", f"{row['own_s']:.3f}", f"{row['capture_s']:.2f}", f"{row['run_s'] * 1e3:.1f}", row["graphs"], parts]


def page(found):
    peaks = found.get("peaks")
    out = ["# Performance\n", "<!-- Made by bench/table.py from bench/results/*.json: measure again, then run it again. -->\n"]
    out.append("Only ratios inside one run mean something: engines took turns in it, each in a process of its own, and a figure is the median over turns\n"
               "of the smallest latency in a turn. Another machine, or this one on another day, gives other milliseconds. How: `bench/side.py`,\n"
               "`bench/stages.py`, `bench/peaks.c`, each with its method at its head.\n")
    if not any("models" in d or "stages" in d for d in found.values()):
        out.append(NONE_YET)
    if peaks:
        rows = [[k, peaks[k]["threads"], peaks[k]["fma_f32_gflops"], peaks[k]["read_gbs"], peaks[k]["copy_gbs"], peaks[k].get("copy_stream_gbs", "")] for k in ("one", "all")]
        out += ["## The machine\n", f"By `bench/peaks.c` ({peaks['vector']} vectors, arrays of {peaks['array_mib']} MiB).\n",
                table(["", "threads", "float32 multiply-add GFLOP/s", "read GB/s", "copy GB/s", "copy past the caches GB/s"], rows)]
    for stem, data in found.items():
        if "models" in data:
            engines = list(dict.fromkeys(e for rows in data["models"].values() for e in rows))
            head = ["model", *(f"{e} ms" for e in engines), "best other / tenon"] + ["tenon's share of peak"] * bool(data.get("work"))
            head += [f"{e} cold build s" for e in engines if e != "eager"] + ["of it Tenon's own s", "tenon's error", "MiB " + " / ".join(engines)]
            out += [f"## {stem}\n", conditions(data["run"]), f"In short: {summary(data)}.\n", table(head, model_rows(data, engines, peaks))]
        elif "stages" in data:
            head = ["model", "first call s", "Tenon's own s", "capture and rest s", "one run ms", "graphs", "own, by stage, ms"]
            out += [f"## {stem}: cold builds\n", conditions(data["run"]), table(head, stage_rows(data))]
    return "\n".join(out)


def block(found):
    """The figures of README.md."""
    lines = [f"- **{stem}**: {summary(data)} (`{data['run']['command']}`).\n" for stem, data in found.items() if "models" in data]
    return "".join(lines) + "\nAll rows: [docs/performance.md](docs/performance.md).\n" if lines else NONE_YET


def readme(found):
    text = README.read_text()
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise SystemExit(f"README.md wants one block from {BEGIN} to {END}")
    head, rest = text.split(BEGIN)
    return head + BEGIN + "\n" + block(found) + END + rest.split(END)[1]


def ingest(a):
    models = json.loads(pathlib.Path(a.ingest).read_text())
    if not isinstance(models, dict) or not all(isinstance(r, dict) and all(isinstance(v, dict) for v in r.values()) for r in models.values()):
        raise SystemExit(f"{a.ingest}: not {{model: {{engine: {{...}}}}}}")
    keep = ("ms", "build_s", "err", "rss_mib", "own_s", "fail")
    models = {n: {e: {k: v for k, v in r.items() if k in keep} for e, r in rows.items()} for n, rows in models.items()}
    run = {"command": a.command, "date": time.strftime("%Y-%m-%d"), **side.machine(), **side.versions()}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{a.name}.json").write_text(json.dumps({"run": run, "models": models}, indent=1) + "\n")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--check", action="store_true")
    p.add_argument("--ingest", metavar="FILE")
    p.add_argument("--name")
    p.add_argument("--command")
    a = p.parse_args()
    if a.ingest:
        if not a.name or not a.command:
            p.error("--ingest wants --name and --command")
        ingest(a)
    found = results()
    stale = [path.name for path, text in ((PAGE, page(found)), (README, readme(found))) if not path.exists() or path.read_text() != text]
    if a.check:
        print("\n".join(f"stale: {s} - run bench/table.py" for s in stale))
        return bool(stale)
    PAGE.write_text(page(found))
    README.write_text(readme(found))
    print("wrote", ", ".join(stale) or "nothing new")
    return 0


if __name__ == "__main__":
    sys.exit(main())

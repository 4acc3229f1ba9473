"""Checks docs/requirements.md, and writes its sum: requirements.py [--check]

Every id is there once and in order; a state is done, part or open; what is done or part says how to see it; the tests and files it names
exist ("tests/x.py::test_y" and "tests/x.c::test_y" are looked up). --check writes nothing and fails on a stale sum too."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "requirements.md"
IDS = [f"{letter}{k}" for letter, n in (("D", 81), ("P", 63), ("T", 90), ("O", 49), ("C", 55), ("X", 15)) for k in range(1, n + 1)]
ROW = re.compile(r"^\| ([A-Z]\d+) \| (.+?) \| (\w+) \| (.*?) ?\|$")
SUM = re.compile(r"^\d+ items: .*$", re.M)


def missing(how):
    """Files and tests named in a cell that do not exist."""
    for name, test in re.findall(r"\b((?:tests|src|docs|examples|tools|bench|include|python)/[\w./-]*\w)(?:::(\w+))?", how):
        path = ROOT / name
        if not path.exists():
            yield name
        elif test and not re.search(rf"\b{test}\(", path.read_text()):
            yield f"{name}::{test}"


def main(args):
    if args not in ([], ["--check"]):
        print(__doc__)
        return 2
    text, bad = PAGE.read_text(), []
    rows = [ROW.match(line).groups() for line in text.splitlines() if ROW.match(line)]
    if [r[0] for r in rows] != IDS:
        odd = next((f"{want} where {got} stands" for want, got in zip(IDS, [r[0] for r in rows] + ["nothing"]) if want != got), "rows beyond the last")
        bad.append(f"rows are not every id in order: {odd}")
    count = dict.fromkeys(("done", "part", "open"), 0)
    for name, _, state, how in rows:
        if state not in count:
            bad.append(f"{name}: state '{state}' is not done, part or open")
            continue
        count[state] += 1
        if state != "open" and not how:
            bad.append(f"{name}: {state}, but not how to see it")
        bad += [f"{name}: no {what}" for what in missing(how)]
    line = f"{len(rows)} items: {count['done']} done, {count['part']} in part, {count['open']} open."
    fresh = SUM.sub(line, text, count=1)
    if fresh != text:
        if args:
            bad.append("the sum is stale: run tools/requirements.py")
        else:
            PAGE.write_text(fresh)
    print("".join(f"docs/requirements.md: {b}\n" for b in bad) + line)
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

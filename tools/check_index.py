"""Checks docs/tour.md against the tree: files of the code map exist, symbols of the concept index are in their files.

  check_index.py [--lines]      --lines prints "concept  file:line" for every row of the index"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "tour.md"
DECLARES = re.compile(r"(static |typedef |struct |enum |const |void |bool |tn_|fx_|TN_|class |\s*def )")


def section(title):
    """Rows of the table under a heading, as lists of cells."""
    text = PAGE.read_text().split(f"\n## {title}\n")
    if len(text) != 2:
        raise SystemExit(f"{PAGE.name}: no section '{title}'")
    lines = [line for line in text[1].split("\n## ")[0].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def find(path, symbol):
    """Line of the symbol: where it stands at the start of a declaration, else where it is first named. 0: nowhere."""
    word = re.compile(rf"\b{re.escape(symbol)}\b")
    hits = [(n, line) for n, line in enumerate(path.read_text().splitlines(), 1) if word.search(line)]
    own = [n for n, line in hits if DECLARES.match(line) and (line.startswith("typedef") or not line.rstrip().endswith(";"))]
    return (own or [n for n, _ in hits] or [0])[0]


def main(args):
    bad, n = [], 0
    for role, files in section("Code map"):
        for name in re.findall(r"`([^`]+)`", files):
            n += 1
            if not list(ROOT.glob(name)):
                bad.append(f"code map, {role}: no {name}")
    for concept, place in section("Concept index"):
        n += 1
        name, _, symbol = place.strip("`").partition(":")
        path = ROOT / name
        line = find(path, symbol) if path.is_file() else 0
        if not line:
            bad.append(f"concept index, {concept}: no {symbol} in {name}")
        elif args == ["--lines"]:
            print(f"{concept:40} {name}:{line}")
    print("".join(f"{b}\n" for b in bad) + f"docs/tour.md: {n} places checked, {len(bad)} missing")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

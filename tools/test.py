"""Runs every test and ends with one line: N passed, N failed, N skipped. Exit 1 when anything failed.

  test.py [--quick] [part ...]      parts: rooms unit golden sanitize threads e2e (default all; --quick: the first three)

Each part counts its own cases: unit tests by cmocka's lines, golden tests by the runner's last line, pytest by its report."""
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ET

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / os.environ.get("BUILD", "build")
PYTHON = sys.executable
SUM = re.compile(r"(\d+) passed, (\d+) failed, (\d+) skipped")


def say(text):
    print(text, flush=True)


def rooms():
    r = subprocess.run([PYTHON, ROOT / "tools/check_rooms.py"], cwd=ROOT, capture_output=True, text=True)
    say(r.stdout.strip() + r.stderr.strip())
    return (1, 0, 0) if r.returncode == 0 else (0, 1, 0)


def meson_counts(build, command):
    """Runs `command`, which ends in `meson test`, and adds up what the programs say; exit 77 is one skip."""
    log = build / "meson-logs/testlog.json"
    log.unlink(missing_ok=True)
    r = subprocess.run(command, cwd=ROOT)
    if r.returncode == 77 and not log.exists():
        return 0, 0, 1
    if not log.exists():
        say("no log of meson test")
        return 0, 1, 0
    passed = failed = skipped = 0
    for line in log.read_text().splitlines():
        test = json.loads(line)
        text = test.get("stdout", "") + test.get("stderr", "")
        ok = len(re.findall(r"^\[ +OK +\]", text, re.M))
        lost = len(set(re.findall(r"^\[ +(?:FAILED|ERROR) +\] (\w+)$", text, re.M)))
        skip = len(set(re.findall(r"^\[ +SKIPPED +\] (\w+)$", text, re.M)))
        good = test["result"] in ("OK", "SKIP")
        passed += ok if ok or lost or skip else good
        failed += lost or not good
        skipped += skip
    if r.returncode and not failed:
        failed = 1
    return passed, failed, skipped


def unit():
    return meson_counts(BUILD, ["meson", "test", "-C", BUILD, "--no-rebuild", "--timeout-multiplier", "10", "--print-errorlogs"])


def sanitize():
    return meson_counts(ROOT / f"{BUILD}-sanitize", [ROOT / "tools/sanitize.sh", "address"])


def threads():
    return meson_counts(ROOT / f"{BUILD}-threads", [ROOT / "tools/sanitize.sh", "threads"])


def golden():
    script = ROOT / "tools/golden.py"
    if not script.exists():
        return 0, 0, 0
    r = subprocess.Popen([PYTHON, "-u", script], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    last = ""
    for line in r.stdout:
        print(line, end="", flush=True)
        last = line.strip() or last
    found = SUM.search(last)
    counts = tuple(map(int, found.groups())) if found else (0, 0, 0)
    if r.wait() and not counts[1]:
        counts = (counts[0], 1, counts[2])
    return counts


def e2e():
    folders = [d for d in ("tests/kernels", "tests/e2e") if any((ROOT / d).glob("test_*.py"))]
    if not folders:
        return 0, 0, 0
    report = BUILD / "pytest.xml"
    report.unlink(missing_ok=True)
    r = subprocess.run([PYTHON, "-m", "pytest", "-q", "--show-capture=stdout", "-p", "no:cacheprovider", f"--junitxml={report}", *folders], cwd=ROOT)
    if not report.exists():
        return 0, 1, 0
    n = bad = skipped = 0
    for suite in ET.parse(report).getroot().iter("testsuite"):
        n += int(suite.get("tests"))
        bad += int(suite.get("failures")) + int(suite.get("errors"))
        skipped += int(suite.get("skipped"))
    if r.returncode not in (0, 5) and not bad:
        bad = 1
    return max(n - bad - skipped, 0), bad, skipped


PARTS = {"rooms": rooms, "unit": unit, "golden": golden, "sanitize": sanitize, "threads": threads, "e2e": e2e}


def main(args):
    quick = "--quick" in args
    chosen = [a for a in args if a != "--quick"] or list(PARTS)[: 3 if quick else None]
    unknown = [p for p in chosen if p not in PARTS]
    if unknown:
        say(__doc__)
        return 2
    total = [0, 0, 0]
    for i, part in enumerate(chosen):
        say(f"== {part} ({i + 1} of {len(chosen)})")
        start = time.monotonic()
        counts = PARTS[part]()
        total = [a + b for a, b in zip(total, counts)]
        say(f"   {part}: {counts[0]} passed, {counts[1]} failed, {counts[2]} skipped in {time.monotonic() - start:.1f} s")
    say(f"{total[0]} passed, {total[1]} failed, {total[2]} skipped")
    return 1 if total[1] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

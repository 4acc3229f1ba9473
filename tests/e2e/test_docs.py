"""The documents say what is: commands exist, examples run, links lead somewhere, generated pages are fresh."""

import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys

import pytest
import torch
from fxeval import TenonError, server

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("BUILD", "build")
PAGES = [ROOT / n for n in ("README.md", "NEWS.md", "CONTRIBUTING.md")] + sorted((ROOT / "docs").rglob("*.md"))
README = (ROOT / "README.md").read_text()


def run(*words, **kwargs):
    return subprocess.run([str(w) for w in words], cwd=ROOT, capture_output=True, text=True, **kwargs)


def fenced(page: pathlib.Path, kind: str) -> list[str]:
    """The code blocks of one kind."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", page.read_text(), re.M | re.S)


@pytest.mark.parametrize("words", [["tools/gen_docs.py", "--check"], ["bench/table.py", "--check"], ["tools/check_index.py"], ["tools/requirements.py", "--check"]], ids=lambda w: w[0])
def test_generated_pages_are_fresh(words):
    r = run(sys.executable, *words)
    assert r.returncode == 0, r.stdout + r.stderr


def test_make_targets_exist():
    known = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
    for page in PAGES:
        used = set(re.findall(r"(?:`|^    )make ([a-z]+)\b", page.read_text(), re.M))
        assert used <= known, f"{page.name}: no target {used - known}"


def test_subcommands_exist():
    known = set(re.findall(r'^TN_CMD\("([a-z-]+)"', (ROOT / "src/cli/commands.def").read_text(), re.M))
    for page in PAGES:
        used = set(re.findall(r"build/tenon ([a-z-]+)", page.read_text()))
        assert used <= known, f"{page.name}: no command {used - known}"


def test_shell_examples_run():
    program = BUILD / "tenon"
    if not program.exists():
        pytest.skip("no program: build first")
    lines = re.findall(r"^    build/tenon (.*)$", README, re.M)
    assert len(lines) >= 4
    for line in lines:
        r = run(program, *line.split())
        assert r.returncode == 0 and r.stdout, f"tenon {line}: {r.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_and_paths_lead_somewhere(page):
    text = page.read_text()
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name}: no {target}"
    for path in re.findall(r"`((?:src|python|tools|tests|bench|docs|include|examples)/[\w./*-]+)`", text):
        assert list(ROOT.glob(path.rstrip("/"))), f"{page.name}: no {path}"


def test_every_page_is_on_the_map():
    for page in (ROOT / "docs").glob("*.md"):
        assert f"(docs/{page.name})" in README, f"README.md does not list docs/{page.name}"


def test_python_example_runs():
    codes = fenced(ROOT / "README.md", "python")
    results = [run(sys.executable, "-c", code) for code in codes]
    for r in results:
        assert r.returncode == 0, r.stderr
    assert "aten.gelu.default" in results[0].stdout and "float32" in results[1].stdout


def test_c_example_runs(tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler or not (BUILD / "libtenon.so").exists():
        pytest.skip("no C compiler, or no library: build first")
    (code,) = fenced(ROOT / "README.md", "c")
    (tmp_path / "example.c").write_text(code)
    r = run(compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", "-Iinclude", tmp_path / "example.c", f"-L{BUILD}", "-ltenon", f"-Wl,-rpath,{BUILD}", "-o", tmp_path / "example")
    assert r.returncode == 0, r.stderr
    r = run(tmp_path / "example")
    assert (r.returncode, r.stdout) == (0, "2 12\n"), r.stderr


def test_fx_example_means_what_it_says():
    (text,) = fenced(ROOT / "docs/fx.md", "json")
    x, w = torch.randn(4, 3), torch.randn(2, 3).t()
    bias = torch.tensor(struct.unpack("<2f", bytes.fromhex(json.loads(text)["constants"][0]["hex"])))
    got = server.ask(text, [x, w])
    torch.testing.assert_close(got[0], x @ w + bias)


def test_fx_errors_name_node_and_key():
    (text,) = fenced(ROOT / "docs/fx.md", "json")
    with pytest.raises(TenonError) as refused:
        server.ask(text.replace('"ref": "mm"', '"ref": "nowhere"'), [torch.randn(4, 3), torch.randn(3, 2)])
    assert refused.value.args[0] == "TN_E_ARG" and "add: self: refers to 'nowhere'" in refused.value.args[1]


def test_environment_variables_are_in_the_table():
    known = set(re.findall(r'^TN_ENV\(\w+, "(\w+)"', (ROOT / "src/base/env.def").read_text(), re.M)) | {"TENON_NATIVE_DIR"}
    for path in [*(ROOT / "src").rglob("*.[ch]"), *(ROOT / "python").rglob("*.py"), *(ROOT / "python").rglob("*.c")]:
        used = {name for name in re.findall(r'"(TENON_[A-Z_]+)"', path.read_text())}
        assert used <= known, f"{path.relative_to(ROOT)}: {used - known} not in src/base/env.def"

"""Writes the pages that tables make: docs/env.md, docs/ops.md, docs/onnx-ops.md and docs/cli.md. gen_docs.py [--check]

The tables are the only list of their facts; these pages repeat them for readers. --check writes nothing and fails when a
page differs from what it would write (tests/e2e/test_docs.py runs it)."""
import ast
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROW = re.compile(r"^(TN_[A-Z]+)\((.*)\)\s*(?:/\*(.*)\*/)?\s*$")
PIECE = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[^,]+)\s*(?:,|$)')


def rows(path, macro):
    """Arguments of every row of a table, as text, with the comment behind the row last ("" when there is none)."""
    found = []
    for number, line in enumerate((ROOT / path).read_text().splitlines(), 1):
        match = ROW.match(line.strip())
        if match and match[1] == macro:
            args = [p.strip() for p in PIECE.findall(match[2])]
            found.append([ast.literal_eval(a) if a.startswith('"') else a for a in args] + [(match[3] or "").strip()])
        elif line.startswith(macro + "("):
            raise SystemExit(f"{path}:{number}: a row of {macro} that is not one line")
    return found


def table(head, lines):
    cells = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(str(c).replace("|", "\\|") for c in row) + " |" for row in cells) + "\n"


def code(text):
    return f"`{text}`" if text else ""


def note(*sources):
    return f"<!-- Made by tools/gen_docs.py from {' and '.join(sources)}: edit those, then run it again. -->\n"


def options():
    """The option table of python/tenon/options.py, read without importing it."""
    path = "python/tenon/options.py"
    for node in ast.parse((ROOT / path).read_text()).body:
        if isinstance(node, ast.Assign) and any(getattr(t, "id", "") == "TABLE" for t in node.targets):
            return [(ast.literal_eval(k), v.elts[0].id, ast.literal_eval(v.elts[1])) for k, v in zip(node.value.keys, node.value.values)]
    raise SystemExit(f"{path}: no TABLE")


def env_page():
    env = [[code(name), code(default), doc] for _, name, default, doc, _ in rows("src/base/env.def", "TN_ENV")]
    opts = [[code(name), kind, doc] for name, kind, doc in options()]
    return f"""# Settings

{note("src/base/env.def", "python/tenon/options.py")}
Tenon has two kinds of settings: environment variables, which hold for a process, and options, which hold for one compile. Where both
name the same thing the option wins.

## Environment variables

Read when they are needed, through `tn_env_get`; the table `src/base/env.def` is the only list of them.

{table(["name", "default", "meaning"], env)}
One more belongs to Python alone, since it is needed before the library is found: `TENON_NATIVE_DIR` names the folder of the
extension module; the default is the build folder of the source tree.

## Options

`torch.compile(model, backend="tenon", options={{...}})` and `tenon.compile(model, args, options={{...}})` take the same ones;
`tenon.options` holds this table. An unknown name is a `ValueError`, a value of another type a `TypeError`. The C interface has them as
members of `tn_compile_options` (`include/tenon/compile.h`).

{table(["name", "type", "meaning"], opts)}"""


RESULT = {"S": "as the operands", "B": "bool", "F": "as the operands"}
DOMAIN = {"f": "float", "i": "integer", "b": "bool"}


def scalar_rows():
    for _, text, arity, result, domain, _ in rows("src/base/scalar.def", "TN_SCALAR"):
        yield [code(text), arity, ", ".join(DOMAIN[c] for c in domain), RESULT[result]]


def arity(lo, hi):
    return lo if lo == hi else f"{lo} or more" if hi == "-1" else f"{lo} to {hi}"


def op_rows():
    for _, text, cls, lo, hi, outs, attrs, comment in rows("src/ir/ops.def", "TN_OP"):
        yield [code(text), cls.lower(), arity(lo, hi), "any" if outs == "-1" else outs, code(attrs), comment]


def aten_rows():
    """One line for all overloads of a packet that go the same way."""
    groups = {}
    for name, fn, fate, own, _ in rows("src/ops/aten.def", "TN_ATEN"):
        packet, _, overload = name.rpartition(".")
        groups.setdefault((packet, fn, fate, own), []).append(overload)
    for (packet, fn, fate, own), overloads in groups.items():
        yield [code(packet), ", ".join(overloads), fate.lower(), code("tn_d_" + fn), "yes" if own == "1" else ""]


def ops_page():
    aten = rows("src/ops/aten.def", "TN_ATEN")
    return f"""# Operators

{note("src/base/scalar.def", "src/ir/ops.def", "src/ops/aten.def")}
Three tables say what Tenon knows. A framework operator (third table) becomes ops of the graph level (second table) by its
decomposition; the elementwise ones among those are the scalar functions (first table). A row without its shape rule, evaluator or
decomposition does not link.

## Scalar functions

Elementwise meaning, shared by graph, kernels, reference and code generation. Operands of one application have one dtype; casts are
explicit; `select` takes (bool, T, T). Integer addition, subtraction and multiplication wrap. Integer division by zero gives 0. `max` and
`min` hand NaN on, `fmax` and `fmin` ignore it. `round` rounds halves to even.

{table(["name", "operands", "dtypes", "result"], scalar_rows())}
## Ops of the graph level

[ir.md](ir.md) explains the form. Kinds of attributes: d list of sizes, i integer, f float, b bool, s string, t dtype, n number,
c combiner. The text form leaves out booleans that are false.

{table(["name", "class", "operands", "results", "attributes", "notes"], op_rows())}
## Framework operators

{len(aten)} overloads have a row. The fate is what a node that goes this way meets: *fused* one op inside a generated kernel, *decomposed*
several, *rewritten* another op, *view* no data moves, *library* a kernel of `src/kernels`. A row's decomposition may still refuse a form
(an unusual argument, a dtype): then the node stays opaque and torch runs it, with a reason in the report. An operator without a row goes
through torch's own core decomposition first, and stays opaque when there is none. "Own" marks forms of Tenon's in place of the
framework's. The functions are in `src/ops/aten_*.c`.

{table(["operator", "overloads", "fate", "decomposition", "own"], aten_rows())}"""


SUITE = "bench/results/onnx_node.json"


def onnx_rows(counts):
    seen = set()
    for domain, op, _, doc, _ in rows("src/ops/onnx.def", "TN_ONNX"):
        name = f"{domain}::{op}" if domain else op
        seen.add(name)
        ran, passed = counts.get(name, (0, 0))
        yield [domain or "ai.onnx", code(op), f"{passed} of {ran}" if ran else "", doc]
    for name in sorted(set(counts) - seen):
        domain, _, op = name.rpartition("::")
        yield [domain or "ai.onnx", code(op), f"{counts[name][1]} of {counts[name][0]}", "not there"]


def onnx_page():
    suite = json.loads((ROOT / SUITE).read_text())
    lines = sorted(onnx_rows(suite["per_op"]), key=lambda r: (r[0] != "ai.onnx", r[0], r[1].lower()))
    dyn = [[code(text), arity(lo, hi), "any" if outs == "-1" else outs, doc] for _, text, lo, hi, outs, doc, _ in rows("src/plan/dyn.def", "TN_DYN")]
    return f"""# ONNX operators

{note("src/ops/onnx.def", "src/plan/dyn.def", SUITE)}
[onnx.md](onnx.md) says how a model is read. All opsets of an operator are one row, up to the newest in the `onnx` package
{suite["onnx"]}; the notes name what a form can't do. The third column counts the node cases of the package's own test suite, an operator's own and
those of its function body, that gave the suite's values. The whole suite: {suite["passed"]} of {suite["cases"]}.

{table(["domain", "operator", "suite", "notes"], lines)}
## Dynamic operators

What only a module can do on whole values, between plans: sizes that values tell, lists, optionals, strings. An ONNX row becomes prims where
it can, and these where it must.

{table(["name", "operands", "results", "meaning"], dyn)}"""


def cli_page():
    commands = rows("src/cli/commands.def", "TN_CMD")
    notes = {name: text for name, text, _ in rows("src/cli/notes.def", "TN_NOTE")}
    parts = []
    for name, _, usage, doc, _ in commands:
        parts.append(f"## {name}\n\n    tenon {usage}\n\n{doc[0].upper()}{doc[1:]}.\n" + (f"\n{notes[name]}\n" if name in notes else ""))
    return f"""# Command line

{note("src/cli/commands.def", "src/cli/notes.def")}
`build/tenon COMMAND --help` prints a command's usage. Results go to standard output, words and progress (on a terminal, after a second) to standard
error. `--json` prints for machines. Exit status: 0 fine, 1 failed, 2 wrong usage. An error names the file, a status code, and what, where and with which
numbers. Environment variables are in [env.md](env.md); `TENON_LOG` lines go to standard error.

Options of every command on models: `--threads N` (0: usable cores), `--isa LEVEL` (highest instruction set: avx2, avx512, amx), `--shape NAME=1,3,224,224`,
`--dump DIR` (every level of the compile as text), `--strict`.

""" + "\n".join(parts)


PAGES = {"docs/cli.md": cli_page, "docs/env.md": env_page, "docs/ops.md": ops_page, "docs/onnx-ops.md": onnx_page}


def main(args):
    if args not in ([], ["--check"]):
        print(__doc__)
        return 2
    stale = []
    for name, make in PAGES.items():
        path, text = ROOT / name, make()
        if path.exists() and path.read_text() == text:
            continue
        stale.append(name)
        if not args:
            path.write_text(text)
            print("wrote", name)
    if args and stale:
        print("stale:", ", ".join(stale), "- run tools/gen_docs.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Fails on every #include that tools/rooms.txt does not allow: check_rooms.py [root].

Rules: a room includes itself, the rooms of its row and the public headers; "room/x.h" names another room, "x.h" or
"room/x.h" the own one; llvm-c/ only in codegen; plug-in folders of device are leaves that nobody but themselves and
driver includes; the public headers include only each other; a verb never includes a verb."""
import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]', re.M)
PLUGINS = ("null", "cpu", "opencl", "cuda")


def rooms(root):
    table = {}
    for line in (root / "tools/rooms.txt").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            name, level, kind, product, *allowed = line.split()
            table[name] = (int(level), kind, list(table) if allowed == ["*"] else allowed)
    for name, (level, kind, allowed) in table.items():
        for other in allowed:
            if other not in table or table[other][0] >= level or (kind == "verb" and table[other][1] == "verb"):
                sys.exit(f"tools/rooms.txt: {name} may not include {other}")
    return table


def check_file(root, path, room, table):
    for quote, name in INCLUDE.findall(path.read_text(errors="replace")):
        where = f"{path.relative_to(root)}: includes {name}"
        if name.startswith("llvm-c/"):
            if room != "codegen":
                yield f"{where}: only codegen sees LLVM"
            continue
        if quote == "<":
            if name.startswith("tenon/") or name.split("/")[0] in table:
                yield f"{where}: own headers go in quotes"
            continue
        first = name.split("/")[0]
        if first == "tenon":
            if not (root / "include" / name).exists():
                yield f"{where}: no such public header"
        elif first in table and "/" in name:
            if first != room and first not in table[room][2]:
                yield f"{where}: {room} may not include {first} (tools/rooms.txt)"
            part = name.split("/")[1]
            if first == "device" and part in PLUGINS and room != "driver" and part not in path.parts:
                yield f"{where}: device plug-ins are leaves"
            if not (root / "src" / name).exists():
                yield f"{where}: no such file"
        elif ".." in name.split("/"):
            yield f"{where}: no '..' in includes"
        elif not (path.parent / name).exists() and not name.endswith(".pb-c.h"):
            yield f"{where}: not beside this file; other rooms are written \"room/header.h\""


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
    root = root if root.is_dir() else root.parent.parent
    table = rooms(root)
    bad, n = [], 0
    for path in sorted((root / "src").rglob("*")):
        if path.suffix not in (".c", ".h", ".def"):
            continue
        room = path.relative_to(root / "src").parts[0]
        n += 1
        bad += check_file(root, path, room, table) if room in table else [f"{path.relative_to(root)}: no room {room} in tools/rooms.txt"]
    for path in sorted((root / "include/tenon").glob("*.h")):
        n += 1
        for quote, name in INCLUDE.findall(path.read_text()):
            if quote == '"' and not name.startswith("tenon/"):
                bad.append(f"{path.relative_to(root)}: includes {name}: public headers include only tenon/ and the C library")
    print("".join(b + "\n" for b in bad) + f"{n} files checked, {len(bad)} bad includes")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())

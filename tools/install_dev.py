"""Makes `import tenon` work in the interpreter that runs this, from the tree: install_dev.py <build folder>.

build/python/ gets a package of links to python/tenon and the built extension, and the metadata that announces the
torch.compile backend; a .pth file in site-packages points there. Repeating it costs milliseconds."""
import pathlib
import sys
import sysconfig

VERSION = "0.1.0"


def write(path, text):
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    build = (root / sys.argv[1]).resolve()
    home = build / "python"
    package = home / "tenon"
    package.mkdir(parents=True, exist_ok=True)
    want = {p.name: p for p in (root / "python" / "tenon").glob("*") if p.suffix != ".c" and p.name != "__pycache__"}
    want |= {p.name: p for stem in ("_native", "_model") for p in build.glob(stem + "*.so")}
    for old in package.iterdir():
        if old.is_symlink() and want.get(old.name) != old.resolve():
            old.unlink()
    for name, target in want.items():
        if not (package / name).is_symlink():
            (package / name).symlink_to(target)
    info = home / f"tenonc-{VERSION}.dist-info"
    info.mkdir(exist_ok=True)
    write(info / "METADATA", f"Metadata-Version: 2.1\nName: tenonc\nVersion: {VERSION}\nSummary: Tenon, a deep-learning compiler\nLicense: Apache-2.0\n")
    write(info / "entry_points.txt", "[torch_dynamo_backends]\ntenon = tenon.backend:compile_fx_entry\n")
    write(info / "INSTALLER", "tenon-dev\n")
    write(info / "RECORD", "".join(f"{info.name}/{n},,\n" for n in ("METADATA", "entry_points.txt", "INSTALLER", "RECORD")))
    write(pathlib.Path(sysconfig.get_paths()["purelib"]) / "tenonc-dev.pth", f"{home}\n")


if __name__ == "__main__":
    main()

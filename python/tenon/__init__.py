"""Tenon: torch.compile(backend="tenon"), tenon.compile and tenon.explain for PyTorch; tenon.load for ONNX models and packages.

Importing this package does not import torch; its functions do when they are first used.
"""

import os as _os

__version__ = "0.1.0"
__all__ = ["CompileError", "ModelError", "compile", "config_table", "explain", "export", "load", "options"]


def _find_extension() -> None:
    """In a source tree the extension lies in the build folder (TENON_NATIVE_DIR names another), not beside this file."""
    here = _os.path.dirname(__file__)
    if not any(name.startswith("_native.") and name.endswith(".so") for name in _os.listdir(here)):
        __path__.append(_os.environ.get("TENON_NATIVE_DIR") or _os.path.join(here, "..", "..", "build"))


_find_extension()


def compile(module, example_args, dynamic_shapes=None, options=None):
    """Captures `module` for inference on its own, without Dynamo. See tenon.standalone.compile."""
    from tenon.standalone import compile as compile_

    return compile_(module, example_args, dynamic_shapes, options)


def explain(model, options=None):
    """explain(model)(*args) compiles and runs `model` once and gives a Report. See tenon.report.explain."""
    from tenon.report import explain as explain_

    return explain_(model, options)


def load(model, threads=0, **options):
    """An ONNX model or a package, from a path or bytes, as something to call. See tenon.model.load."""
    from tenon.model import load as load_

    return load_(model, threads, **options)


def export(model, args=None, path=None, **options):
    """A PyTorch module or exported program as a package. See tenon.package.export."""
    from tenon.package import export as export_

    return export_(model, args, path, **options)


def config_table() -> dict[str, tuple[str, str]]:
    """Options that torch.compile and tenon.compile take: name -> (type, meaning)."""
    from tenon.options import TABLE

    return {name: (kind.__name__, text) for name, (kind, text) in TABLE.items()}


def __getattr__(name):
    if name == "CompileError":
        from tenon._native import CompileError

        return CompileError
    if name == "ModelError":
        from tenon._model import ModelError

        return ModelError
    if name == "options":
        return config_table()
    raise AttributeError(f"module 'tenon' has no attribute '{name}'")

"""Options as users write them: torch.compile(..., options={...}) and tenon.compile(..., options={...})."""

import os

# name: (type, what it does); what reaches C keeps its name there.
TABLE = {
    "profile": (str, 'gate profile: "default" or "dvm"'),
    "isa": (str, 'highest instruction set: "avx2", "avx512" or "amx"; default: the machine\'s'),
    "passes": (str, 'changes to the default passes: "-fuse,-cse"'),
    "dump_dir": (str, "folder for every level as text (also TENON_DUMP)"),
    "fail_on_fallback": (bool, "any fallback is an error (also TENON_FAIL_ON_FALLBACK=1)"),
    "threads": (int, "worker threads of a call; default: TENON_THREADS, else torch.get_num_threads()"),
    "compile_threads": (int, "threads that compile; 0 = usable cores"),
}


def parse_options(options: dict | None, mode: str | None = None) -> dict:
    """Checked copy of `options`. ValueError names an unknown key or mode, TypeError a value of the wrong type."""
    if mode not in (None, "default"):
        raise ValueError(f'tenon knows no mode "{mode}"; it has "default"')
    for key, value in (options or {}).items():
        if key not in TABLE:
            raise ValueError(f'tenon knows no option "{key}"; it has {", ".join(TABLE)}')
        want = TABLE[key][0]
        if not isinstance(value, want) or (want is int and isinstance(value, bool)):
            raise TypeError(f"tenon option {key} wants {want.__name__}, got {type(value).__name__}")
    return dict(options or {})


def run_threads(options: dict) -> int:
    """Worker threads of a call: the option, TENON_THREADS, or torch's number."""
    if "threads" in options:
        return options["threads"]
    text = os.environ.get("TENON_THREADS", "")
    if text:
        return int(text)
    import torch

    return torch.get_num_threads()

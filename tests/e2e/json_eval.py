"""Evaluates the JSON form of a graph with torch's own operators: checks what Python writes without any compiler behind it."""

import json

import torch
from tenon.host import Host, _resolve, _value


class EvalProgram:
    """Same calling convention as tenon._native.Program, node by node in eager torch."""

    _boxed_call = True
    made: list["EvalProgram"] = []

    def __init__(self, text, origin, ret, mutated, options, threads, host, keep, alone):
        self.graph, self.ret, self.keep, self.origin = json.loads(text), ret, keep, origin
        self.report = json.dumps({"nodes": [dict(n, fate="fallback", detail="eval") for n in self.graph["nodes"]]})
        self.places = Host(self.graph["inputs"]).syms
        self.n_in = len(self.graph["inputs"])
        assert len(origin) == self.n_in and [m["input"] for m in self.graph["mutations"]] == list(mutated)
        EvalProgram.made.append(self)

    def aliases(self):
        return (-1,) * len(self.graph["outputs"])

    def __call__(self, *args):
        if len(args) == 1 and isinstance(args[0], list):
            boxed = args[0]
            args = tuple(boxed)
            boxed.clear()
        assert len(args) == self.n_in, (len(args), self.n_in)
        with torch.no_grad():
            return self._run(args)

    def _run(self, args):
        env = dict(zip([row["name"] for row in self.graph["inputs"]], args))
        env.update(self.keep)
        for node in self.graph["nodes"]:
            op, positional, named = _resolve(node)
            value = op(*[self._arg(v, env, args) for v in positional], **{k: self._arg(v, env, args) for k, v in named.items()})
            self._check(node, value, args)
            env[node["name"]] = value
        outs = [self._arg(v, env, args) for v in self.graph["outputs"]]
        outs = [o.clone() if isinstance(o, torch.Tensor) else o for o in outs]
        for m in self.graph["mutations"]:
            args[m["input"]].copy_(self._arg(m, env, args))
        return tuple(None if r is None else outs[r] if r >= 0 else args[~r] for r in self.ret)

    def _arg(self, v, env, args):
        if isinstance(v, list):
            return [self._arg(x, env, args) for x in v]
        if isinstance(v, dict) and "ref" in v:
            return env[v["ref"]][v["index"]] if "index" in v else env[v["ref"]]
        return _value(v, ([], args, self.places))

    def _check(self, node, value, args):
        values = value if isinstance(value, (list, tuple)) else [value]
        for row, got in zip(node["out"], values):
            if row is None or got is None:  # a workspace that only fake tensors have
                continue
            shape = [self._arg(s if isinstance(s, int) else {"sym": s}, {}, args) for s in row["shape"]]
            assert list(got.shape) == shape, (node, got.shape)
            assert _value({"dtype": row["dtype"]}, None) == got.dtype, (node, got.dtype)

"""The standard backend interface of the onnx package: onnx.backend.test.BackendTest(tenon.onnx_backend, __name__) runs ONNX's own suite.

Models are compiled in memory; nothing here knows an operator."""

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep, namedtupledict

from tenon import model as _model


class TenonRep(BackendRep):
    """A prepared model."""

    def __init__(self, loaded):
        self.model = loaded

    def run(self, inputs, **kwargs):
        """inputs: a dict, a sequence in the model's order, or one array. Results as a tuple with the outputs' names."""
        if not isinstance(inputs, (dict, list, tuple)):
            inputs = [inputs]
        if not isinstance(inputs, dict):
            inputs = {p.name: x for p, x in zip(self.model.inputs, inputs, strict=True)}
        names = [p.name for p in self.model.outputs]
        return namedtupledict("Outputs", names)(*self.model(inputs))


class TenonBackend(Backend):
    """onnx.backend.base.Backend on the CPU."""

    @classmethod
    def is_compatible(cls, model, device="CPU", **kwargs):
        return cls.supports_device(device)

    @classmethod
    def supports_device(cls, device):
        return device.split(":")[0] == "CPU"

    @classmethod
    def prepare(cls, model, device="CPU", **kwargs):
        if not cls.supports_device(device):
            raise ValueError(f"device {device}: there is only CPU")
        data = model if isinstance(model, (bytes, str)) else model.SerializeToString()
        return TenonRep(_model.load(data, **kwargs))

    @classmethod
    def run_model(cls, model, inputs, device="CPU", **kwargs):
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(cls, node, inputs, device="CPU", outputs_info=None, opset_version=None, **kwargs):
        """One node on arrays; an input that is left out (an empty name) takes no array."""
        names = [n for n in node.input if n]
        values = [np.asarray(x) for x in (inputs.values() if isinstance(inputs, dict) else inputs)]
        ins = [onnx.helper.make_tensor_value_info(n, onnx.helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for n, x in zip(names, values, strict=True)]
        outs = [onnx.helper.make_empty_tensor_value_info(n) for n in node.output if n]
        for out, (dtype, shape) in zip(outs, outputs_info or ()):
            out.CopyFrom(onnx.helper.make_tensor_value_info(out.name, onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape))
        opset = onnx.helper.make_opsetid(node.domain, opset_version or onnx.defs.onnx_opset_version())
        graph = onnx.helper.make_graph([node], "node", ins, outs)
        return cls.run_model(onnx.helper.make_model(graph, opset_imports=[opset]), dict(zip(names, values)), device, **kwargs)


is_compatible = TenonBackend.is_compatible
prepare = TenonBackend.prepare
run_model = TenonBackend.run_model
run_node = TenonBackend.run_node
supports_device = TenonBackend.supports_device

"""Emitted kernels on an OpenCL device, called with NumPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from catgrad.backends.host.functions import PureFunction, compiled_model
from catgrad.backends.kernels.signatures import is_separate

from catgrad.artifact import Artifact
from catgrad.programs.program import Function
from catgrad.types import Array, substitute, symbols


class DeviceFunction(PureFunction):
    """A function whose arrays are copied to the device and back."""

    def __init__(self, function: Function, host: dict[str, Any], device: Any) -> None:
        super().__init__(function)
        self.call, self.device = host[function.name], device

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """Call the function, on one buffer for a table's array and the new one."""
        sizes, ports = self.expected.sizes(arrays), (*self.function.inputs, *self.function.outputs)
        types = [port.type for port in self.function.outputs]
        results = [np.empty(substitute(type.shape, sizes), type.dtype.numpy) for type in types]
        keys: list[Any] = [i if is_separate(p) else (p.role, p.name) for i, p in enumerate(ports)]
        buffers: dict[Any, Any] = {}
        for key, array in zip(keys, (*arrays, *results), strict=True):
            buffers.setdefault(key, self.device.copied(array))
        own = [buffers[key] for key in keys if isinstance(key, int)]
        self.call(self.device, buffers, *(sizes[s] for s in symbols(self.function.argument_types)), *own)
        for key, result in zip(keys[len(arrays) :], results, strict=True):
            self.device.read(buffers[key], result)
        return results


def load(artifact: Artifact) -> type:
    """Build the kernels; returns the class `CompiledModel`."""
    program, host = artifact.program, dict[str, Any]()
    exec(artifact.text(f"{program.name}.py"), host)
    device = host["Device"](artifact.source)
    return compiled_model(program, {f.name: DeviceFunction(f, host, device) for f in program.functions})

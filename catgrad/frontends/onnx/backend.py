"""The interface by which ONNX tests a backend, of imported models evaluated by the reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx.backend.base import Backend, BackendRep

from catgrad.frontends.imported import Imported
from catgrad.frontends.onnx.conversion import inputs_that_fix, prepared
from catgrad.frontends.onnx.files import load
from catgrad.frontends.onnx.graph import constants
from catgrad.frontends.onnx.imported import from_onnx
from catgrad.frontends.onnx.types import Model
from catgrad.functors import factor_buffers
from catgrad.programs.program import evaluate
from catgrad.types import Array


class Representation(BackendRep):
    """A model, imported when inputs that fix sizes have values."""

    def __init__(self, model: Model) -> None:
        self.model = model
        graph = prepared(load(model)).graph
        given = constants(graph)
        self.names = [each.name for each in graph.input if each.name not in given]
        self.fixing = inputs_that_fix(graph)

    def run(self, inputs: Any, **options: Any) -> tuple[Array, ...]:
        """Evaluate the model. Raises: as from_onnx"""
        arrays = dict(zip(self.names, inputs, strict=False))
        fixed = {name: np.asarray(array) for name, array in arrays.items() if name in self.fixing}
        imported = from_onnx(self.model, trainable=(), constants=fixed)
        return tuple(evaluated(imported, [np.asarray(arrays[name]) for name in imported.inputs]))


def evaluated(imported: Imported, inputs: Sequence[Array]) -> list[Array]:
    """Evaluate a model without parameters, by the reference of its operations."""
    slots, term = factor_buffers(imported.model)
    stored: Mapping[str, Array] = imported.buffers
    results = evaluate(term, *(stored[slot.name] for slot in slots), *inputs)
    return results[len(slots) :]


class CatgradBackend(Backend):
    """Models of ONNX as terms."""

    @classmethod
    def prepare(cls, model: Model, device: str = "CPU", **options: Any) -> Representation:
        """Check a model, and convert it to operators that have rules. Raises: as from_onnx"""
        return Representation(model)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Return whether models run on a device."""
        return device == "CPU"

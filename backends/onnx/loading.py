"""Loading of emitted models in ONNX Runtime, with checks of arguments and a learner."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from catgrad.artifact import Artifact
from catgrad.errors import ToolError, not_emitted
from catgrad.files import write_atomically
from catgrad.programs.ports import Kind
from catgrad.programs.program import Function, operations
from catgrad.types import Array

from ..host.functions import PureFunction, compiled_model
from ..host.learner import PureLearner
from ..host.process import Home
from .models import input_names, model, output_names
from .tools import ONNX, ONNXRUNTIME


class ModelFunction(PureFunction):
    """A function in a session of ONNX Runtime, on arrays of tables and its own."""

    def __init__(self, function: Function, data: bytes, threads: int) -> None:
        super().__init__(function)
        self.home = Home()  # a fork has none of the threads of a session
        self.session = _session(function.name, data, threads) if function.outputs else None
        self.inputs, self.outputs = input_names(function), output_names(function)
        self.has_indices = any(op.may_fail for op in operations(function))

    def on(self, tables: Sequence[Array], own: Sequence[object]) -> list[Array]:
        """Call the function where its session is. Raises: ToolError in a fork; else as for any function"""
        self.home.require(self.__name__)
        return super().on(tables, own)

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """Call the function on checked arrays.

        Raises: IndexError for an index out of range; ToolError where ONNX Runtime fails though there is none
        """
        if self.session is None:  # the runtime refuses graphs without outputs
            return []
        try:
            results = self.session.run(self.outputs, dict(zip(self.inputs, arrays, strict=True)))
        except Exception as error:  # shapes are checked, so only indices may be wrong, if it has any
            said = str(error).strip().splitlines()[0]
            if not self.has_indices:
                raise ToolError(
                    f"ONNX Runtime must run {self.__name__}", f"it says: {said}", "report this with the model"
                ) from error
            raise IndexError(
                f"{self.__name__}: an index must lie in its axis, but ONNX Runtime says: {said}; "
                "correct the indices"
            ) from error
        return [np.asarray(result) for result in results]


def _session(name: str, data: bytes, threads: int) -> Any:
    import onnxruntime  # type: ignore[import-untyped]

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors alone: it warns of initialisers that callers may replace
    options.intra_op_num_threads = threads
    try:
        return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the classes of its errors are not public
        raise ToolError(
            f"ONNX Runtime must have the operators of {name}",
            f"it says: {str(error).strip().splitlines()[0]}",
            "choose another dtype, or another runtime",
        ) from error


class Learner(PureLearner):
    """Tables of the model, and its functions on them in ONNX Runtime."""

    def save(self, path: str | Path) -> None:
        """Write `predict` with the arrays as they are as a model of ONNX.

        Raises: NotEmitted if it was not; ArtifactError if it cannot be written
        """
        if Kind.PREDICT in self.lacks:
            raise not_emitted(Kind.PREDICT, self._emitted)
        predict = self._program.kinds[Kind.PREDICT]
        arrays = {name: np.asarray(array) for table in self._tables.values() for name, array in table.items()}
        proto = model(self._program, predict, arrays, are_inputs=False)
        write_atomically(Path(path), [proto.SerializeToString()])


def load(artifact: Artifact, threads: int = 0) -> type:
    """Return the class `CompiledModel` with the emitted functions; 0 threads are as many as there are cores.

    Raises: ToolError without ONNX Runtime, or if that lacks an operator at a dtype
    """
    for tool in (ONNX, ONNXRUNTIME):
        tool.require(artifact.program.name)
    program = artifact.program
    entries = {f.name: ModelFunction(f, _data(artifact, f), threads) for f in program.functions}
    return compiled_model(program, entries, Learner)


def _data(artifact: Artifact, function: Function) -> bytes:
    content = artifact.files[f"{function.name}.onnx"]
    return content.encode() if isinstance(content, str) else content

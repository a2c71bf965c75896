"""Functions of an emitted CUDA library, called with addresses of PyTorch's tensors.

No adapter comes between: a call is one foreign function with its arguments bound, as C would call it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from ctypes import c_int, c_size_t, c_ssize_t, c_void_p
from dataclasses import replace
from typing import Any, Self

import torch
from catgrad.backends.host.learner import STEP_MANY
from catgrad.backends.kernels.signatures import CallConvention

from catgrad import Task
from catgrad.errors import ToolError
from catgrad.learn.entries import program
from catgrad.programs.ports import Kind, Role
from catgrad.programs.program import Program
from catgrad.targets import get_backend

Tables = Mapping[Role, Sequence[torch.Tensor]]


class Emitted:
    """An emitted library, loaded on the GPU or in the simulator, and the stream that it runs on.

    On a GPU, that stream becomes PyTorch's current one, so that the work of both is in one order.
    """

    def __init__(self, emitted: Program, simulate: bool, **options: Any) -> None:
        backend = get_backend("cuda").configured(**options)
        self.library = backend.emit(emitted).load(simulate=simulate).library
        self.program, self.device = emitted, "cpu" if simulate else "cuda"
        self.stream: int = self.library.stream
        if not simulate:
            torch.cuda.set_stream(torch.cuda.ExternalStream(self.stream))
        self._kept: list[torch.Tensor] = []  # graphs refer to addresses of tensors
        self._message = self.library.function("error_string", [c_int], ctypes.c_char_p)

    @classmethod
    def of_task(cls, task: Task, kinds: Sequence[Kind], simulate: bool, **options: Any) -> Self:
        """Emit and load only some functions of a task: compilers take long for those of large models."""
        return cls(emitted_task(task, kinds), simulate, **options)

    def checked(self, name: str, *arguments: object) -> Callable[[], None]:
        """Bind arguments to a function. The result raises ToolError if the function fails."""
        values = [c_void_p(a) if isinstance(a, int) else a for a in arguments]
        function = self.library.function(name, [])
        function.argtypes = None  # each argument has its own type

        def call() -> None:
            code = function(*values)
            if code:
                found = f"{name} returns: {self._message(code).decode()}"
                raise ToolError("an emitted function must run", found, "report this as a defect of catgrad")

        return call

    def bound(
        self,
        function: str,
        tables: Tables,
        inputs: Sequence[torch.Tensor],
        outputs: Sequence[torch.Tensor],
        name: str = "",
        *,
        first: Sequence[Any] = (),
        steps: int = 0,
    ) -> Callable[[], None]:
        """Bind tensors to a function of the program: its tables, its own inputs, and its results.

        `name` is that of an entry point with the same arguments, but for the `first` ones and `steps`.
        """
        convention = CallConvention.of(self.program[function])
        kept = [*inputs, *outputs, self._workspace(function)]
        structs = [table_of(tables[role]) for role, _ in convention.tables]
        gradients = [table_of(tables[Role.GRADIENT])] if convention.gradients else []
        places = [tensor.data_ptr() for tensor in kept]
        own, results = places[: len(inputs)], places[len(inputs) :]
        middle = [*gradients, *own] if convention.gradients == "read" else [*own, *gradients]
        count = [c_ssize_t(steps)] if steps else []
        self._kept += [*kept, *(tensor for table in tables.values() for tensor in table)]
        return self.checked(name or function, *first, *structs, *count, *middle, *results, *self.library.last)

    def _workspace(self, function: str) -> torch.Tensor:
        """Allocate the workspace of a function, with a clear status."""
        bytes = self.library.function(f"{function}_workspace_bytes", [], c_size_t)()
        return torch.zeros(max(bytes, 64), dtype=torch.uint8, device=self.device)

    def forget(self) -> None:
        """Release the tensors of functions that will not be called again."""
        self._kept.clear()

    def wait(self) -> None:
        """Wait for all that has been launched."""
        self.library.call("synchronise", self.stream)


def emitted_task(task: Task, kinds: Sequence[Kind]) -> Program:
    """Return the program of some functions of a task, and a step of many."""
    whole = program(replace(task, runtime_learning_rate=True), get_backend("cuda").has, kinds)
    return replace(whole, variants=frozenset({STEP_MANY} if Kind.STEP in kinds else ()))


def table_of(tensors: Sequence[torch.Tensor]) -> Any:
    """Return the struct of a table whose members point to these tensors."""
    return (c_void_p * max(len(tensors), 1))(*(tensor.data_ptr() for tensor in tensors))

"""Functions of a program as recordings of calls of WGSL kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

from catgrad.backend import Backend
from catgrad.loops.ir.bounds import size_bound
from catgrad.loops.ir.index import Index
from catgrad.loops.ir.scalar import Buffer
from catgrad.loops.memory_plan import largest
from catgrad.loops.printing.calls import KernelText
from catgrad.loops.printing.expressions import Expressions
from catgrad.loops.printing.lines import Line, LocalArray
from catgrad.ops.control import Cond
from catgrad.printing.dialect import Dialect
from catgrad.programs.program import Function, Program, operations

from ..javascript import BACKEND as JAVASCRIPT
from ..javascript.functions import ModuleFunctions
from ..kernels.functions import PrintedFunction
from ..kernels.signatures import ArrayArgument
from .machine import MACHINE


@dataclass(frozen=True)
class WebGpuFunction(PrintedFunction):
    """A function as data for templates; no size or index in its kernels exceeds `reach`."""

    reach: str


class Places(Expressions):
    """The text of what is given to kernels, to which an element is its place."""

    def __init__(self, dialect: Dialect, name_of: Callable[[Buffer], str]) -> None:
        super().__init__(JAVASCRIPT.dialect, name_of)
        self.place = dialect.macros["place"]

    def element(self, array: Buffer, indices: tuple[Index, ...]) -> str:
        """Print the place of an element."""
        return str(self.place(self.name_of(array), self.index(array.flat(indices))))


class WebGpuFunctions(ModuleFunctions):
    """The functions of one program: kernels in WGSL, and calls of them in JavaScript."""

    signature = WebGpuFunction
    machine = MACHINE
    expressions = Places

    def __init__(self, backend: Backend, program: Program) -> None:
        super().__init__(backend, program)
        has_branches = any(isinstance(op, Cond) for f in program.functions for op in operations(f))
        self.macros |= {"shared": shared, "has_branches": has_branches}

    def fields(
        self, function: Function, inputs: Sequence[ArrayArgument], outputs: Sequence[ArrayArgument]
    ) -> dict[str, object]:
        """Print a function; returns the fields of WebGpuFunction that a signature lacks."""
        printer, fields = self.printers[function.name], super().fields(function, inputs, outputs)
        reach = reduce(largest, (size_bound(text.reach) for text in printer.texts), printer.expressions.reach)
        return {**fields, "reach": printer.expressions.size(reach)}

    def context(self) -> dict[str, object]:
        """Print all functions; returns the variables that templates read."""
        return {**super().context(), "has_branches": self.macros["has_branches"]}


def shared(text: KernelText) -> list[LocalArray]:
    """List the arrays that the threads of a block share, which WGSL declares outside of functions."""
    return list(_shared(text.lines))


def _shared(lines: Sequence[Line]) -> Iterator[LocalArray]:
    for line in lines:
        if isinstance(line, LocalArray) and line.is_shared:
            yield line
        yield from _shared(getattr(line, "lines", ()))

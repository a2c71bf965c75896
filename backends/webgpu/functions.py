"""Functions of a program as recordings of calls of WGSL kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from catgrad.backend import Backend
from catgrad.loops.printing.expressions import Expressions
from catgrad.loops.printing.lines import KernelText, Line, LocalArray
from catgrad.programs.program import Program

from ..javascript import BACKEND as JAVASCRIPT
from ..javascript import functions as javascript
from .machine import MACHINE


class Library(javascript.Library):
    """The functions of one program: kernels in WGSL, and calls of them in JavaScript."""

    machine = MACHINE

    def __init__(self, backend: Backend, program: Program) -> None:
        super().__init__(backend, program)
        self.macros["shared"] = shared
        for printer in self.printers.values():
            printer.expressions = Expressions(JAVASCRIPT.dialect, printer.name)


def shared(text: KernelText) -> list[LocalArray]:
    """List the arrays that the threads of a block share, which WGSL declares outside of functions."""
    return list(_shared(text.lines))


def _shared(lines: Sequence[Line]) -> Iterator[LocalArray]:
    for line in lines:
        if isinstance(line, LocalArray) and line.is_shared:
            yield line
        yield from _shared(getattr(line, "lines", ()))


def template_context(backend: Backend, program: Program) -> Mapping[str, Any]:
    """Return the variables that the templates of the target webgpu read."""
    return Library(backend, program).context()

"""CUDA functions of a program: launches of kernels, which words in memory tell to skip their work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from catgrad.backend import Backend
from catgrad.dims import Size
from catgrad.loops.lowering.rules import CHECKED
from catgrad.loops.machine import BLOCK, WARP
from catgrad.loops.passes.gpu import LIBRARY_PASSES
from catgrad.loops.passes.gpu.grids.one_block import is_repeated
from catgrad.loops.printing.calls import (
    Call,
    CallBranch,
    CallGroup,
    CallLine,
    CallLoop,
    CallProduct,
    LayerParameter,
)
from catgrad.loops.printing.functions import FunctionPrinter
from catgrad.loops.printing.kernels import none
from catgrad.ops.control import Cond
from catgrad.programs.ports import Kind
from catgrad.programs.program import Function, Program, operations

from ..c.functions import CFunction, CFunctions
from ..c.layouts import ALIGNMENT, aligned
from ..c.workspace import workspace_of
from ..host.learner import STEP_MANY
from ..kernels.signatures import ArrayArgument
from .machine import GPU, MACHINE, ONE_BLOCK

MAX_ELEMENTS = 2**20
"""Elements of all values of a step that may run in one block."""

WORD = 4
"""Bytes of a word that tells kernels to skip their work."""


@dataclass(frozen=True)
class GuardedCall(Call, kind="Call"):
    """A launch, and the number of the word that tells it to skip its work."""

    guard: int = 0


@dataclass(frozen=True)
class GuardedGroup(CallGroup, kind="CallGroup"):
    """A grouped launch, and the number of the word that tells it to skip its work."""

    guard: int = 0


@dataclass(frozen=True)
class GuardedBranch(CallBranch, kind="CallBranch"):
    """Parts that are both launched; a kernel sets the word of one of them, the `first` or the next."""

    guard: int = 0
    first: int = 0


@dataclass(frozen=True)
class CudaFunction(CFunction):
    """A function as data for templates.

    `many` are the launches for many steps at once, if they are fewer, and `many_limit` lines like `limit`.
    """

    many: str = ""
    many_limit: str = ""


class CudaFunctions(CFunctions):
    """The functions of one program as CUDA functions."""

    signature = CudaFunction
    companion = staticmethod(none)

    def __init__(self, backend: Backend, program: Program) -> None:
        self.machine = replace(
            MACHINE,
            gpu=replace(GPU, tensor_floats=backend.options.tensor_floats),
            passes=LIBRARY_PASSES if backend.options.calls_library else MACHINE.passes,
        )
        super().__init__(backend, program)
        used = [op for function in program.functions for op in operations(function)]
        self.is_guarded = any(isinstance(op, (*CHECKED, Cond)) for op in used)
        self.words = 1 + 2 * max(
            (sum(isinstance(op, Cond) for op in operations(f)) for f in program.functions), default=0
        )
        self.head = max(ALIGNMENT, aligned(WORD * self.words))
        own = {"is_guarded": self.is_guarded, "head": str(self.head), "warp": WARP, "warps": BLOCK // WARP}
        self.macros |= own | {"float_parts": backend.options.parts}
        words = (LayerParameter("words", "skips"),) if self.is_guarded else ()
        self.layer_parameters = (*words, LayerParameter("stream", "stream"))

    def context(self) -> dict[str, Any]:
        """Print all functions; returns the variables that templates read."""
        own = {"is_guarded": self.is_guarded, "words": self.words, "head": self.head, "warp": WARP}
        return {**super().context(), **own}

    def fields(
        self, function: Function, inputs: Sequence[ArrayArgument], outputs: Sequence[ArrayArgument]
    ) -> dict[str, Any]:
        """Print a function; a small step also as a kernel that takes one step after another."""
        fields, macros = super().fields(function, inputs, outputs), self.macros
        is_step = function.kind is Kind.STEP and STEP_MANY in self.program.variants
        if not (is_step and self._is_small(function)):
            return fields
        one = FunctionPrinter(replace(self.kernels, machine=ONE_BLOCK), function)
        if not is_repeated(one.lowered) or one.plan.size != 0:
            return fields
        self.passed(one, function)
        calls, memory = self.calls(one), workspace_of(one)
        kernels = fields["kernels"] + macros["kernels"](macros, one.new_literals, one.new)
        arena = self.arena(f"{function.name}_many", one, memory)
        many = macros["body"](macros, calls, one.arena, arena, memory)
        return fields | {"kernels": kernels, "many": many, "many_limit": macros["limit"](macros, memory)}

    def _is_small(self, function: Function) -> bool:
        sizes: list[Size] = [type.size for type in function.types if type]
        total = sum(sizes, 0)
        return isinstance(total, int) and total <= MAX_ELEMENTS

    def calls(self, printer: FunctionPrinter) -> tuple[CallLine, ...]:
        """The launches of kernels, each with the word that guards it."""
        return tuple(_Guards().lines(super().calls(printer), 0))


class _Guards:
    """Words for the parts of branches, in the order in which these occur."""

    def __init__(self) -> None:
        self.words = 1

    def lines(self, lines: Sequence[CallLine], guard: int) -> list[CallLine]:
        """Number the words of lines, which a word guards."""
        return [self._line(line, guard) for line in lines]

    def _line(self, line: CallLine, guard: int) -> CallLine:
        if isinstance(line, CallLoop):
            return replace(line, lines=tuple(self.lines(line.lines, guard)))
        if isinstance(line, CallProduct):
            return line  # it runs even if kernels skip their work, and writes what no other part reads
        if isinstance(line, CallGroup):
            return GuardedGroup(**vars(line), guard=guard)
        if isinstance(line, Call):
            return GuardedCall(**vars(line), guard=guard)
        assert isinstance(line, CallBranch)  # functions of layers are outlined later
        first, self.words = self.words, self.words + 2
        parts = tuple(tuple(self.lines(part, first + k)) for k, part in enumerate(line.parts))
        return GuardedBranch(line.condition, parts, guard=guard, first=first)  # type: ignore[arg-type]

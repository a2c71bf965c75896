"""Random numbers of a part of the batch: a functor that draws by the index of the row in the whole batch.

Positions in an array are counted row by row, and the rows of a process follow one another. So a draw r of the
type T[n, …] for the batch n becomes

    r(seed, counter, first_row · size(…))

with a run number `first_row`, the number of rows that other processes have before these. The functor is the
identity on draws that have no axis of the batch, which are the same on all processes, and on all other
operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from catgrad.dims import Dim, Size, product
from catgrad.errors import ShapeError, UnsupportedOp
from catgrad.functors.expand import Expand
from catgrad.functors.factor import factor_run_numbers
from catgrad.functors.local import LocalFunctor
from catgrad.ops.random import KEY, Draw, Dropout
from catgrad.ops.reduce import number_of
from catgrad.ops.shape import Shape
from catgrad.terms.block import Block, HigherOrder, any_operation, blocks
from catgrad.terms.build import build
from catgrad.terms.op import Op
from catgrad.terms.state import FIRST_ROW, RunNumber
from catgrad.terms.term import Term, singleton
from catgrad.types import Dtype, NdArrayType, symbols


class DrawsByRow(LocalFunctor):
    """The functor that draws by the row of the whole batch, also in loops, branches and checkpoints.

    Raises: ShapeError if a draw has the batch, but not as its first axis alone; UnsupportedOp for another
            definition that draws in its body
    """

    def __init__(self, batch: Dim) -> None:
        super().__init__()
        self.batch = batch

    def map_op(self, op: Op, inputs: tuple[NdArrayType, ...]) -> Term:
        size = self._elements_of_row(op, _drawn(op, inputs))
        if size is not None:
            return build(partial(_draw_from_row, op, inputs.index(KEY) + 2, size), inputs)
        _check_body(op, inputs)
        inside = {name: factor_run_numbers(self(block.term)) for name, block in blocks(op).items()}
        if not any(numbers for numbers, _ in inside.values()):
            return singleton(op, *inputs)
        changed = {name: Block(_with_first_row(*each)) for name, each in inside.items()}
        return build(lambda *x: list(replace(op, **changed).apply(*x, FIRST_ROW())), inputs)  # type: ignore[type-var]

    def _elements_of_row(self, op: Op, shape: Shape) -> Size | None:
        """Return the number of elements of a row, or None if an array has no rows of the batch."""
        [symbol] = self.batch.symbols
        if symbol not in symbols((NdArrayType(shape),)):
            return None
        outermost = next(axis for axis, size in enumerate(shape) if size != 1)
        inner = shape[outermost + 1 :]
        if shape[outermost] != self.batch or symbol in symbols((NdArrayType(inner),)):
            raise ShapeError(
                f"random numbers of shared rows must have the batch, {symbol}, as their first axis alone",
                f"{op} draws {NdArrayType(shape)}",
                "apply it before axes are permuted or joined",
            )
        return product(inner)


def _draw_from_row(op: Op, place: int, size: Size, *x: Any) -> Any:
    """Draw from the first row on, whose operand has this place, before that of the stream."""
    return op.apply(*x[:place], FIRST_ROW() * number_of(size, Dtype.int64), *x[place:])


def _drawn(op: Op, inputs: Sequence[NdArrayType]) -> Shape:
    """Return the shape that an operation draws from the beginning of a sequence, if it does."""
    if not isinstance(op, (Draw, Dropout)) or inputs.count(KEY) > 2:
        return ()
    return op.shape if isinstance(op, Draw) else inputs[0].shape


def _check_body(op: Op, inputs: Sequence[NdArrayType]) -> None:
    """Raise UnsupportedOp for a definition that draws: expanded, it would have no evaluation mode."""
    if op.body is None or isinstance(op, (Draw, Dropout, HigherOrder)) or KEY not in inputs:
        return
    if any_operation(Expand()(singleton(op, *inputs)), lambda inner: isinstance(inner, Draw)):
        raise UnsupportedOp(
            "random numbers of shared rows must be drawn by dropout, or by operations of the model",
            f"{op.macro} draws in its body",
            "apply the operations of its body in the model",
        )


def _with_first_row(numbers: Sequence[RunNumber], body: Term) -> Term:
    """Take the first row as the last argument; a branch may not read it."""
    own = list(body.source.table)[len(numbers) :]

    def function(*x: Any) -> list[Any]:
        return list(body.apply(*x[len(own) :][: len(numbers)], *x[: len(own)]))

    return build(function, [*own, FIRST_ROW.array_type])

"""Print scalars as expressions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from catgrad.loops.ir.index import Index
from catgrad.loops.ir.scalar import Bounds, Buffer, Compute, IndexValue, Load, Masked, Number, Scalar, is_zero
from catgrad.printing.dialect import ATOM, Dialect, Literal
from catgrad.terms.op import Op
from catgrad.types import Dtype, NdArrayType

from .inductions import Inductions
from .spelling import of_operation, of_product
from .texts import Expression, reporters

ARITHMETIC = frozenset(
    {"Add", "Subtract", "Multiply", "Divide", "Negate", "Abs", "Floor", "Sqrt", "Exp", "Log"}
)
"""Operations of blocks that read NaN as 0."""

CHOICES = {"Select": ("chosen", "not_chosen"), "Maximum": ("positive", "positive")}
"""Macros of operations that are one product if the last operand is 0, or the one before."""


class Expressions:
    """Print the scalars of one kernel; some registers are `bound` to expressions."""

    def __init__(
        self,
        dialect: Dialect,
        inductions: Inductions,
        name_of: Callable[[Buffer], str],
        scaled: Collection[Buffer] = (),
    ) -> None:
        self.dialect, self.inductions, self.name_of, self.scaled = dialect, inductions, name_of, scaled
        self.bound: dict[Buffer, str] = {}
        inductions.text_of = self.text

    def text(self, scalar: Scalar, reader: str = "") -> str:
        """Print a scalar for the operation that reads it."""
        return self._text(scalar, reader)[0]

    def stored(self, scalar: Scalar, array: Buffer | None = None, reader: str = "") -> str:
        """Print a scalar as an item of the list of an array: truth values are stored as numbers."""
        text = self.text(scalar, reader=reader)
        if array in self.scaled:
            return self._reporter("as_scaled", text)
        return self._reporter("as_number", text) if scalar.dtype is Dtype.bool else text

    def element(self, array: Buffer, indices: Sequence[Index]) -> str:
        """Print an element of an array."""
        if array in self.bound:
            return self.bound[array]
        if not array.order:
            return self._call("variable", self.name_of(array))
        return self._reporter("item", self.name_of(array), self.inductions.at(array.flat(tuple(indices))))

    def _text(self, scalar: Scalar, reader: str = "") -> tuple[str, int]:
        text, strength = self._spelled(scalar)
        if _is_choice_or_zero(scalar) and reader not in ARITHMETIC:
            return self._reporter("or_zero", text), self.dialect.binding["Add"][0]
        return text, strength

    def _spelled(self, scalar: Scalar) -> tuple[str, int]:
        if isinstance(scalar, Load):
            return self._loaded(self.element(scalar.buffer, scalar.indices), scalar)
        if isinstance(scalar, Number):
            return self._macro(Literal(scalar.constant, weak=True), scalar.dtype, ())
        if isinstance(scalar, IndexValue):
            return self.inductions.at(scalar.index, 0), self.dialect.binding["Add"][0]
        if isinstance(scalar, Masked):
            return self._guarded(scalar), self.dialect.binding["Add"][0]
        assert isinstance(scalar, Compute)  # the last kind there is
        return self._macro(scalar.op, scalar.dtype, scalar.operands)

    def _loaded(self, text: str, load: Load) -> tuple[str, int]:
        if load.dtype is Dtype.bool:
            return self._reporter("as_truth", text), self.dialect.binding["Equal"][0]
        if load.buffer in self.scaled:
            return self._reporter("from_scaled", text), self.dialect.binding["Divide"][0]
        return text, ATOM

    def _guarded(self, scalar: Masked) -> str:
        conditions = [self._within(c) for c in scalar.conditions]
        inside, outside = self._operand(scalar.inside, "Multiply", 1), ""
        decided = len(conditions) - 1 + sum(map(reporters, conditions))
        count = decided + 1 + reporters(inside)
        if not _is_number_0(scalar.outside):
            outside = self._operand(scalar.outside, "Multiply", 1)
            count += decided + 3 + reporters(outside)
        return Expression(self._call("guarded", conditions, inside, outside), count)

    def _within(self, c: Bounds) -> str:
        index, sides = self.inductions.at(c.index, 1), c.below + c.above
        text = self._call("within", index, c.size, c.below, c.above)
        return Expression(text, sides * (1 + reporters(index)) + sides - 1)

    def _macro(self, op: Op, dtype: Dtype, operands: Sequence[Scalar]) -> tuple[str, int]:
        texts = [self._operand(operand, op.macro, position) for position, operand in enumerate(operands)]
        strength = self.dialect.strength(op)
        if op.macro in CHOICES and any(map(_is_number_0, operands[-2:])):
            at = -1 if _is_number_0(operands[-1]) else -2
            macro = CHOICES[op.macro][-1 - at]
            del texts[at]
            return Expression(self._call(macro, *texts), of_product(macro, texts)), strength
        text = self.dialect.macros[op.macro](self, op, NdArrayType((), dtype), *texts)
        return Expression(text, of_operation(op, dtype, texts)), strength

    def _operand(self, scalar: Scalar, name: str, position: int) -> str:
        text, strength = self._text(scalar, reader=name)
        needs = self.dialect.binding.get(name, (ATOM,))[1:]
        needed = needs[min(position, len(needs) - 1)] if needs else 0
        if strength >= needed:
            return text
        return Expression(self._call("parenthesised", text), reporters(text))

    def _reporter(self, macro: str, *arguments: str) -> str:
        """Call a macro that prints one reporter."""
        return Expression(self._call(macro, *arguments), 1 + sum(map(reporters, arguments)))

    def _call(self, macro: str, *arguments: object) -> str:
        return self.dialect.macros[macro](*arguments)


def _is_number_0(scalar: Scalar) -> bool:
    """Tell whether it is printed as 0; a truth value is not."""
    return is_zero(scalar) and scalar.dtype is not Dtype.bool


def _is_choice_or_zero(scalar: Scalar) -> bool:
    """Tell whether it is printed as the product of a truth value and a number that may be infinite."""
    if not scalar.dtype.is_floating:
        return False
    if isinstance(scalar, Masked):
        return is_zero(scalar.outside)
    return isinstance(scalar, Compute) and scalar.op.macro in CHOICES and any(map(is_zero, scalar.operands))

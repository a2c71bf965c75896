"""Print scalars and indices as expressions, with parentheses by operator precedence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from catgrad.dims import Dim, Size
from catgrad.loops.ir.bounds import index_bound, size_bound
from catgrad.loops.ir.index import Index, Modulo, Quotient, Read, Variable
from catgrad.loops.ir.scalar import Buffer, Compute, IndexValue, Load, Masked, Number, Scalar
from catgrad.loops.memory_plan import largest
from catgrad.ops.compare import Comparison
from catgrad.printing.dialect import ATOM, Dialect, Literal
from catgrad.terms.structural import Constant
from catgrad.types import Dtype, NdArrayType


class Expressions:
    """The text of scalars within one kernel.

    No size, index or intermediate value of one in the text exceeds `reach`.
    """

    def __init__(self, dialect: Dialect, name_of: Callable[[Buffer], str]) -> None:
        self.dialect, self.name_of = dialect, name_of
        self.variables: dict[Variable, str] = {}
        self.symbols: set[str] = set()
        self.helpers: set[str] = set()
        self.reach: Size = 0
        self._reached: set[Index] = set()

    def helper(self, name: str) -> str:
        """Record that the text calls a function of the runtime; returns its name."""
        self.helpers.add(name)
        return name

    def text(self, scalar: Scalar) -> str:
        """The scalar as an expression."""
        return self._text(scalar)[0]

    def _text(self, scalar: Scalar) -> tuple[str, int]:
        if isinstance(scalar, Load):
            return self._load(scalar)
        if isinstance(scalar, Number):
            literal = Literal(_widened(scalar.constant), weak=False)
            return self._macro(literal, scalar.dtype, ())
        if isinstance(scalar, IndexValue):
            text = self.dialect.macros["as_number"](self.index(scalar.index), scalar.dtype)
            return text, ATOM
        if isinstance(scalar, Masked):
            conditions = [self.condition(c) for c in scalar.conditions]
            inside, outside = self._text(scalar.inside), self._text(scalar.outside)
            return self.dialect.macros["guarded"](conditions, inside[0], outside[0]), ATOM
        assert isinstance(scalar, Compute)  # the last kind there is
        return self._comparison(scalar) or self._macro(scalar.op, scalar.dtype, scalar.operands)

    def _comparison(self, scalar: Compute) -> tuple[str, int] | None:
        """Compare two indices as integers: converted to 64 bits, they would take twice as many lanes."""
        x, y = scalar.operands if len(scalar.operands) == 2 else (scalar, scalar)
        if not (
            isinstance(x, IndexValue) and isinstance(y, IndexValue) and isinstance(scalar.op, Comparison)
        ):
            return None
        if not all(isinstance(p.index.greatest, int) and p.index.greatest < 2**31 for p in (x, y)):
            return None
        texts = [self.dialect.macros["as_number"](self.index(p.index), Dtype.int32) for p in (x, y)]
        bool_type = NdArrayType((), Dtype.bool)
        text = self.dialect.macros[scalar.op.macro](self, scalar.op, bool_type, *texts)
        return text, self.dialect.strength(scalar.op)

    def _macro(self, op: Any, dtype: Dtype, operands: Sequence[Scalar]) -> tuple[str, int]:
        texts = []
        for position, operand in enumerate(operands):
            text, strength = self._text(operand)
            if strength < self.dialect.required(op, position, dtype):
                text = self.dialect.macros["parenthesised"](text)
            texts.append(text)
        text = self.dialect.macros[op.macro](self, op, NdArrayType((), dtype), *texts)
        rounded = self.dialect.macros["rounded"](self, dtype, text) if dtype.wide is not dtype else ""
        if rounded and not isinstance(op, Literal):
            return rounded, ATOM
        return text, self.dialect.strength(op, dtype)

    def _load(self, load: Load) -> tuple[str, int]:
        array = load.buffer
        if array.is_register:
            return self.name_of(array), ATOM
        element = self.element(array, load.indices)
        return self.dialect.macros["loaded"](self, element, array.type.dtype), ATOM

    def element(self, array: Buffer, indices: tuple[Index, ...]) -> str:
        """Print the access of an element."""
        return self.dialect.macros["element"](self.name_of(array), self.index(array.flat(indices)))

    def condition(self, condition: Any) -> tuple[str, str, bool, bool]:
        """Print the parts of a condition: index, size, and which sides are tested."""
        return self.index(condition.index), self.size(condition.size), condition.below, condition.above

    def index(self, i: Index) -> str:
        """An index as an expression."""
        if i not in self._reached:
            self._reached.add(i)
            self.reach = largest(self.reach, index_bound(i))
        terms = [(self._atom(atom), self.size(c), c) for atom, c in i.terms]
        constant = "" if i.constant == 0 and terms else self.size(i.constant)
        return self.dialect.macros["index"](terms, constant)

    def _atom(self, atom: Any) -> str:
        if isinstance(atom, Variable):
            return self.variables[atom]
        if isinstance(atom, Read):
            return self.dialect.macros["as_index"](self.text(atom.scalar), atom.scalar.dtype)
        sign = "divided" if isinstance(atom, Quotient) else "remainder"
        assert isinstance(atom, (Quotient, Modulo))
        return self.dialect.macros[sign](self.index(atom.index), self.size(atom.divisor))

    def size(self, size: Size) -> str:
        """A size as an expression."""
        if not isinstance(size, Dim):
            return str(size)
        self.symbols |= size.symbols
        self.reach = largest(self.reach, size_bound(size))
        return self.dialect.macros["polynomial"]([(c, list(m)) for m, c in size.terms])

    def shape(self, shape: Sequence[Size]) -> str:
        """A shape for a comment."""
        return ", ".join(map(str, shape))


def _widened(constant: Constant) -> Constant:
    """Convert a number to the dtype that it is computed with: there it takes more digits to be exact."""
    type = constant.array_type
    return Constant(NdArrayType(type.shape, type.dtype.wide), constant.value)

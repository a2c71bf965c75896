"""Dialects: a set of macros, one for each operation a target has, and a table of their precedences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from catgrad.ops.scan import Scan
from catgrad.programs.program import Function
from catgrad.terms.op import Op
from catgrad.terms.structural import Constant
from catgrad.types import Dtype

ATOM = 100
"""Precedence of names, calls and literals, the highest: as operands they need no parentheses."""

LARGEST_WHOLE = {Dtype.float16: 100, Dtype.bfloat16: 100}
"""Limits of floating-point numbers that are written like integers, by dtype; 1000 for others. NumPy 1 widens
float32 for an integer of more than 16 bits, and float16 for one of more than 8.
"""


class Text(str):
    """The text of an expression: how tightly it binds, and the number that a size or element is, if any."""

    strength: int
    number: int | None
    value: float | None

    def __new__(
        cls, text: str, strength: int = ATOM, number: int | None = None, value: float | None = None
    ) -> Text:
        """Make one, of a text that needs no parentheses."""
        made = super().__new__(cls, text)
        made.strength, made.number, made.value = strength, number, value
        return made


class Literal(Op, register=False):
    """A number written where it is used, a `weak` one without a conversion to its dtype."""

    constant: Constant
    weak: bool

    @property
    def is_negation(self) -> bool:
        """Tell whether its text is a minus sign before a number, which binds less tightly than the number."""
        return self.weak and self.constant.digits.startswith("-")

    @property
    def digits(self) -> str:
        """The shortest digits that give the number back; small whole ones without a fraction."""
        digits = self.constant.digits
        largest = LARGEST_WHOLE.get(self.constant.array_type.dtype, 1000)
        small = abs(self.constant.value) <= largest and digits != "-0.0"
        return digits.removesuffix(".0") if small else digits


class Layers(Scan, register=False):
    """A loop over tables: what it reads and fills row by row are lists of arrays, or of rows of arrays."""


class Unpack(Op, register=False):
    """The arrays of a row, a list that is cleared if this `last` reader shall release them one by one."""

    last: bool = False


class Pack(Op, register=False):
    """A row of arrays."""


class Call(Op, register=False):
    """A call of another emitted function, perhaps for its first result `only`."""

    function: Function
    only: bool = False


@dataclass(frozen=True)
class Dialect:
    """The macros of a target; `binding[name]` is how tightly a macro's text binds, then how
    tightly each operand must. A macro without an entry spells a call. An entry such as `Add_f32` is for
    one dtype of the result, where languages spell that otherwise.
    """

    macros: Mapping[str, Callable[..., str]]
    binding: Mapping[str, Sequence[int]]
    reserved: frozenset[str]

    def has(self, op: Op) -> bool:
        """Tell whether there is a macro for this operation."""
        return op.macro in self.macros

    def strength(self, op: Op, dtype: Dtype | None = None) -> int:
        """Return the precedence of the text of an operation, perhaps one whose result has this dtype."""
        return self.binds("Negate" if isinstance(op, Literal) and op.is_negation else op.macro, dtype)

    def binds(self, name: str, dtype: Dtype | None = None) -> int:
        """Return the precedence of the text of a macro."""
        return self._binding(name, dtype)[0]

    def operand(self, name: str, position: int, text: Text, dtype: Dtype | None = None) -> Text:
        """Put an operand of a macro in parentheses, if it binds less tightly than its position needs."""
        if text.strength >= self.required(name, position, dtype):
            return text
        return Text(self.macros["parenthesised"](text))

    def required(self, name: str, position: int, dtype: Dtype | None = None) -> int:
        """Return the precedence that an operand of a macro needs to go without parentheses."""
        needs = self._binding(name, dtype)[1:]
        return needs[min(position, len(needs) - 1)] if needs else 0

    def _binding(self, name: str, dtype: Dtype | None) -> Sequence[int]:
        usual = self.binding.get(name, (ATOM,))
        return self.binding.get(f"{name}_{dtype.value}", usual) if dtype else usual

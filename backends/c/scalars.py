"""Expressions: scalars and indices as text, what is equal computed once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any

from catgrad.dialect import ATOM, Dialect, Literal
from catgrad.dims import Dim, Size
from catgrad.loops.index import Index, Modulo, Quotient, Read, Variable
from catgrad.loops.scalar import Compute, Guarded, Load, Number, Place, Scalar, Stored
from catgrad.ops.compare import Comparison
from catgrad.types import Dtype, NdArrayType

from .halves import widened

LONGEST = 100
"""Characters of an expression, beyond which parts of it get names."""


class Expressions:
    """The text of scalars within one kernel, and the names of those that are computed already."""

    def __init__(
        self, dialect: Dialect, name_of: Callable[[Stored], str], changing: Collection[Stored] = ()
    ) -> None:
        self.dialect, self.name_of, self.changing = dialect, name_of, changing
        self.variables: dict[Variable, str] = {}
        self.symbols: set[str] = set()
        self.versions: dict[Stored, int] = {}
        self.known: list[dict[int, str]] = [{}]
        self._keys: dict[tuple[int, int], int] = {}
        self._numbers: dict[Hashable, int] = {}
        self._steady: dict[int, bool] = {}
        self.epoch = 1

    def written(self, array: Stored) -> None:
        """What was read from the array before is not what is there now."""
        self.versions[array] = self.versions.get(array, 0) + 1
        self.epoch += 1

    def key(self, scalar: Scalar) -> int:
        """Equal for scalars that are equal here."""
        at = scalar.number, 0 if self._is_steady(scalar) else self.epoch
        if at not in self._keys:
            self._keys[at] = self._number(self._new_key(scalar))
        return self._keys[at]

    def _is_steady(self, scalar: Scalar) -> bool:
        """Whether nothing it reads is changed in the kernel."""
        if scalar.number not in self._steady:
            own = not (isinstance(scalar, Load) and scalar.array in self.changing)
            self._steady[scalar.number] = own and all(map(self._is_steady, scalar.operands))
        return self._steady[scalar.number]

    def _number(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def _new_key(self, scalar: Scalar) -> Hashable:
        if isinstance(scalar, Load):
            places = tuple(self._index_key(i) for i in scalar.indices)
            return "load", scalar.array, self.versions.get(scalar.array, 0), places
        operands = tuple(self.key(o) for o in scalar.operands)
        if isinstance(scalar, Compute):
            return scalar.op, scalar.dtype, operands
        if isinstance(scalar, Number):
            return scalar.constant
        if isinstance(scalar, Place):
            return "place", self._index_key(scalar.index), scalar.dtype
        conditions = scalar.conditions if isinstance(scalar, Guarded) else ()
        return (
            "guarded",
            tuple((self._index_key(c.index), c.size, c.below, c.above) for c in conditions),
            operands,
        )

    def _index_key(self, i: Index) -> int:
        atoms = ((self.key(a.scalar) if isinstance(a, Read) else a, c) for a, c in i.terms)
        return self._number((i.constant, *atoms))

    def name(self, scalar: Scalar) -> str | None:
        """The name of what is computed already."""
        key = self.key(scalar)
        return next((names[key] for names in reversed(self.known) if key in names), None)

    def give(self, scalar: Scalar, name: str) -> None:
        """From here to the end of the block, the scalar has this name."""
        self.known[-1][self.key(scalar)] = name

    def text(self, scalar: Scalar, fresh: bool = False) -> str:
        """The scalar as an expression; a `fresh` one is not taken by its name."""
        return self._text(scalar, fresh)[0]

    def _text(self, scalar: Scalar, fresh: bool = False) -> tuple[str, int]:
        name = None if fresh else self.name(scalar)
        if name is not None:
            return name, ATOM
        if isinstance(scalar, Load):
            return self._load(scalar)
        if isinstance(scalar, Number):
            literal = Literal(widened(scalar.constant), weak=False)
            return self._macro(literal, scalar.dtype, ())
        if isinstance(scalar, Place):
            text = self.dialect.macros["as_number"](self.index(scalar.index), scalar.dtype)
            return text, ATOM
        if isinstance(scalar, Guarded):
            conditions = [self.condition(c) for c in scalar.conditions]
            inside, outside = self._text(scalar.inside), self._text(scalar.outside)
            return self.dialect.macros["guarded"](conditions, inside[0], outside[0]), ATOM
        assert isinstance(scalar, Compute)  # the last kind there is
        return self._comparison(scalar) or self._macro(scalar.op, scalar.dtype, scalar.operands)

    def _comparison(self, scalar: Compute) -> tuple[str, int] | None:
        """Two indices compared as they are, for whole numbers of 64 bits take twice the room of others."""
        x, y = scalar.operands if len(scalar.operands) == 2 else (scalar, scalar)
        if not (isinstance(x, Place) and isinstance(y, Place) and isinstance(scalar.op, Comparison)):
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
            if strength < self.dialect.required(op, position):
                text = self.dialect.macros["parenthesised"](text)
            texts.append(text)
        text = self.dialect.macros[op.macro](self, op, NdArrayType((), dtype), *texts)
        rounded = self.dialect.macros["rounded"](dtype, text) if dtype.wide is not dtype else ""
        if rounded and not isinstance(op, Literal):
            return rounded, ATOM
        return text, self.dialect.strength(op)

    def _load(self, load: Load) -> tuple[str, int]:
        array = load.array
        if not array.order and array.place == "turn":
            return self.name_of(array), ATOM
        element = self.element(array, load.indices)
        return self.dialect.macros["loaded"](element, array.type.dtype), ATOM

    def element(self, array: Stored, indices: tuple[Index, ...]) -> str:
        """An element where it lies."""
        return self.dialect.macros["element"](self.name_of(array), self.index(array.flat(indices)))

    def condition(self, condition: Any) -> tuple[str, str, bool, bool]:
        """A condition on an index in words: what, below what, and which sides are asked."""
        return self.index(condition.index), self.size(condition.size), condition.below, condition.above

    def index(self, i: Index) -> str:
        """An index as an expression."""
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
        return self.dialect.macros["polynomial"]([(c, list(m)) for m, c in size.terms])

    def shape(self, shape: Sequence[Size]) -> str:
        """A shape for a comment."""
        return ", ".join(map(str, shape))

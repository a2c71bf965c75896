"""Print scalars and indices as expressions, with parentheses by operator precedence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from math import prod
from typing import Any

from catgrad.dims import Dim, Size, coefficients
from catgrad.loops.ir.bounds import index_bound, size_bound
from catgrad.loops.ir.index import Atom, Either, Index, Quotient, Read, Variable
from catgrad.loops.ir.scalar import Buffer, Compute, IndexValue, Load, Masked, Number, Scalar, is_zero
from catgrad.loops.memory_plan import largest
from catgrad.ops.compare import Comparison
from catgrad.ops.random import Draw
from catgrad.printing.dialect import Dialect, Literal, Text
from catgrad.terms.structural import Constant
from catgrad.types import Dtype, NdArrayType

Term = tuple[bool, Sequence[Text]]
"""A term of a sum: whether it is negative, and its factors."""


class Expressions:
    """The text of scalars within one kernel.

    No size, index or intermediate value of one in the text exceeds `reach`. Strides are `factored` out of the
    terms of an index, or multiply each.
    """

    def __init__(self, dialect: Dialect, name_of: Callable[[Buffer], str], factored: bool = False) -> None:
        self.dialect, self.name_of, self.factored = dialect, name_of, factored
        self.variables: dict[Variable, str] = {}
        self.streams: dict[int, str] = {}
        self.symbols: set[str] = set()
        self.helpers: set[str] = set()
        self.reach: Size = 0
        self._reached: set[Index] = set()

    def helper(self, name: str) -> str:
        """Record that the text calls a function of the runtime; returns its name."""
        self.helpers.add(name)
        return name

    def stream(self, number: int) -> str:
        """The parameter that a random stream is, or else its number."""
        return self.streams.get(number) or self.number(number, Dtype.uint32)

    def number(self, value: int, dtype: Dtype) -> Text:
        """A number as an expression."""
        return self._operation(Literal(Constant(NdArrayType((), dtype), value), weak=True), dtype, ())

    def text(self, scalar: Scalar) -> Text:
        """The scalar as an expression."""
        if isinstance(scalar, Load):
            return self._load(scalar)
        if isinstance(scalar, Number):
            literal = Literal(_widened(scalar.constant), weak=True)
            text = self._operation(literal, scalar.dtype, ())
            return Text(text, text.strength, value=scalar.constant.value)
        if isinstance(scalar, IndexValue):
            return self._macro("as_number", scalar.dtype, self.index(scalar.index))
        if isinstance(scalar, Masked):
            conditions = [self.condition(c) for c in scalar.conditions]
            inside, outside = self.text(scalar.inside), self.text(scalar.outside)
            return Text(self.dialect.macros["guarded"](conditions, inside, outside))
        assert isinstance(scalar, Compute)  # the last kind there is
        return self._computed(scalar)

    def _computed(self, scalar: Compute, rounds: bool = True) -> Text:
        compared = self._comparison(scalar)
        of = scalar.operands[0].dtype if isinstance(scalar.op, Comparison) else None
        operands = [*map(self.text, scalar.operands)]
        if isinstance(scalar.op, Draw) and scalar.op.stream is not None:
            operands.append(Text(self.stream(scalar.op.stream)))
        return compared or self._operation(scalar.op, scalar.dtype, operands, of, rounds)

    def stored(self, scalar: Scalar) -> tuple[Text, bool]:
        """The scalar as an expression, and whether this has the form of an element in memory.

        Of a short dtype, elements move as they are, and what is computed is rounded when it is stored only.
        """
        if scalar.dtype.wide is scalar.dtype:
            return self.text(scalar), False
        if isinstance(scalar, Load) and not scalar.buffer.is_register:
            return Text(self.element(scalar.buffer, scalar.indices)), True
        if isinstance(scalar, Masked) and is_zero(scalar.outside):
            text, is_element = self.stored(scalar.inside)
            if is_element:
                conditions = [self.condition(c) for c in scalar.conditions]
                return Text(self.dialect.macros["guarded"](conditions, text, self.size(0))), True
        if isinstance(scalar, Compute):
            return self._computed(scalar, rounds=False), False
        return self.text(scalar), False

    def _comparison(self, scalar: Compute) -> Text | None:
        """Compare two indices as integers: converted to 64 bits, they would take twice as many lanes."""
        x, y = scalar.operands if len(scalar.operands) == 2 else (scalar, scalar)
        if not (
            isinstance(x, IndexValue) and isinstance(y, IndexValue) and isinstance(scalar.op, Comparison)
        ):
            return None
        if not all(isinstance(p.index.greatest, int) and p.index.greatest < 2**31 for p in (x, y)):
            return None
        operands = (self._macro("as_number", Dtype.int32, self.index(p.index)) for p in (x, y))
        return self._operation(scalar.op, Dtype.bool, operands, Dtype.int32)

    def _operation(
        self, op: Any, dtype: Dtype, operands: Iterable[Text], of: Dtype | None = None, rounds: bool = True
    ) -> Text:
        """Print an operation by its macro, which is told the dtype `of` the operands of a comparison."""
        told = of or dtype
        texts = [self.dialect.operand(op.macro, k, text, told) for k, text in enumerate(operands)]
        text = self.dialect.macros[op.macro](self, op, NdArrayType((), told), *texts)
        if rounds and dtype.wide is not dtype and not isinstance(op, Literal):
            return Text(self.dialect.macros["rounded"](self, dtype, text))
        return Text(text, self.dialect.strength(op, told))

    def _macro(self, name: str, dtype: Dtype | None, *operands: Text) -> Text:
        """Print operands by a macro, which may depend on a dtype."""
        texts = [self.dialect.operand(name, k, text, dtype) for k, text in enumerate(operands)]
        text = self.dialect.macros[name](*texts, *([dtype] if dtype else []))
        return Text(text, self.dialect.binds(name, dtype))

    def _load(self, load: Load) -> Text:
        array = load.buffer
        if array.is_register:
            return Text(self.name_of(array))
        element = self.element(array, load.indices)
        return Text(self.dialect.macros["loaded"](self, element, array.type.dtype))

    def target(self, array: Buffer, indices: tuple[Index, ...]) -> str:
        """Print what a statement writes: a register or an element."""
        return self.name_of(array) if array.is_register else self.element(array, indices)

    def element(self, array: Buffer, indices: tuple[Index, ...]) -> str:
        """Print the access of an element."""
        return self.dialect.macros["element"](self.name_of(array), self.index(array.flat(indices)), array)

    def address(self, buffer: Buffer, offset: Index, own: Collection[Variable] = ()) -> str:
        """Print the address of the first element that a statement traverses by its own variables."""
        rest = Index(tuple(term for term in offset.terms if term[0] not in own), offset.constant)
        at = self.index(rest)
        return self.dialect.macros["pointer"](self.name_of(buffer), at, rest == Index())

    def condition(self, condition: Any) -> tuple[Text, Text, bool, bool]:
        """Print the parts of a condition: index, size, and which sides are tested."""
        return self._bounded(condition.index), self.size(condition.size), condition.below, condition.above

    def _bounded(self, i: Index) -> Text:
        """Print an index that is compared with bounds: an integer as it is, which a conversion may narrow."""
        match i:
            case Index(((Read(scalar), 1),), 0) if scalar.dtype in (Dtype.int32, Dtype.int64):
                return self.text(scalar)
        return self.index(i)

    def index(self, i: Index) -> Text:
        """An index as an expression."""
        if i not in self._reached:
            self._reached.add(i)
            self.reach = largest(self.reach, index_bound(i))
        runs = _runs(_wide_first(i.terms)) if self.factored else [[term] for term in i.terms]
        return self._sum([*(term for run in runs for term in self._run(run)), *self._terms(i.constant)])

    def _run(self, terms: Sequence[tuple[Atom, Size]]) -> Iterator[Term]:
        """Terms of an index; those of an axis of several variables as the product of a sum and a stride."""
        strides = [c for _, c in terms]
        stride = strides[0] if strides.count(strides[0]) > 1 else 1
        if stride == 1:
            yield from (self._product(atom, c) for atom, c in terms)
        else:
            place = self._sum([self._product(atom, c // stride) for atom, c in terms])
            yield (
                False,
                [self.dialect.operand("Multiply", k, x) for k, x in enumerate((place, self.size(stride)))],
            )

    def size(self, size: Size) -> Text:
        """A size as an expression."""
        text = self._sum([*self._terms(size)])
        return text if isinstance(size, Dim) else Text(text, text.strength, size)

    def product(self, sizes: Sequence[Text]) -> Text:
        """Multiply sizes, the numbers among them as one."""
        number = prod(size.number for size in sizes if size.number is not None)
        factors = [size for size in sizes if size.number is None]
        if not factors:
            return self.size(number)
        factors += [self.size(number)] if number != 1 else []
        return self._multiplied(factors)

    def digit(self, number: Text, weight: Text, count: Text | None, step: int) -> Text:
        """Print a digit: ⌊number / weight⌋ mod count, times a step; the first digit needs no count."""
        place = self._macro("divided", None, number, weight) if weight.number != 1 else number
        place = self._macro("remainder", None, place, count) if count is not None else place
        return self._multiplied([place, self.size(step)]) if step > 1 else place

    def _multiplied(self, factors: Sequence[Text]) -> Text:
        return self._sum([(False, [self.dialect.operand("Multiply", k, x) for k, x in enumerate(factors)])])

    def _product(self, atom: Atom, size: Size) -> Term:
        """A multiple of an atom, with the sign of the first term of the size."""
        is_negative = next(iter(coefficients(size).values())) < 0
        factors = [
            self._atom(atom),
            *([] if size in (1, -1) else [self.size(-size if is_negative else size)]),
        ]
        return is_negative, [self.dialect.operand("Multiply", k, text) for k, text in enumerate(factors)]

    def _terms(self, size: Size) -> Iterator[Term]:
        if isinstance(size, Dim):
            self.symbols |= size.symbols
            self.reach = largest(self.reach, size_bound(size))
        for monomial, c in coefficients(size).items():
            number = [] if monomial and abs(c) == 1 else [str(abs(c))]
            yield c < 0, [*map(Text, number), *map(Text, monomial)]

    def _sum(self, terms: Sequence[Term]) -> Text:
        """Print a sum, which binds like what it consists of."""
        (is_negative, factors), *more = terms = terms or [(False, [Text("0")])]
        name = "Add" if more else "Negate" if is_negative else "Multiply" if len(factors) > 1 else ""
        strength = self.dialect.binds(name) if name else factors[0].strength
        return Text(self.dialect.macros["sum"](terms), strength)

    def _atom(self, atom: Atom) -> Text:
        if isinstance(atom, Variable):
            return Text(self.variables[atom])
        if isinstance(atom, Read):
            return self._macro("as_index", atom.scalar.dtype, self.text(atom.scalar))
        if isinstance(atom, Either):
            return self._macro("either", None, self.index(atom.first), self.index(atom.second))
        name = "divided" if isinstance(atom, Quotient) else "remainder"
        return self._macro(name, None, self.index(atom.index), self.size(atom.divisor))

    def shape(self, shape: Sequence[Size]) -> str:
        """A shape for a comment."""
        return ", ".join(map(str, shape))


def _wide_first(terms: Sequence[tuple[Atom, Size]]) -> list[tuple[Atom, Size]]:
    """Put integers that are read first, so that the whole sum has their 64 bits.

    A sum of 32 bits that is extended hides from nvcc that elements lie side by side.
    """
    return sorted(terms, key=lambda term: not isinstance(term[0], Read))


def _runs(terms: Sequence[tuple[Atom, Size]]) -> list[list[tuple[Atom, Size]]]:
    """Split the terms of an index where a coefficient is no multiple of the first since the last split.

    Terms with the same coefficient are together, unless it is 1.
    """
    runs: list[list[tuple[Atom, Size]]] = []
    count = Counter[Size](c for _, c in terms if isinstance(c, int) and c > 1)
    for atom, c in terms:
        stride = runs[-1][0][1] if runs else 1
        is_multiple = isinstance(stride, int) and isinstance(c, int) and 1 < stride < c and c % stride == 0
        alike = next((run for run in runs if count[c] > 1 and run[0][1] == c), None)
        if alike:
            alike.append((atom, c))
        elif is_multiple and count[c] == 1:
            runs[-1].append((atom, c))
        else:
            runs.append([(atom, c)])
    return runs


def _widened(constant: Constant) -> Constant:
    """Convert a number to the dtype that it is computed with: there it takes more digits to be exact."""
    type = constant.array_type
    return Constant(NdArrayType(type.shape, type.dtype.wide), constant.value)

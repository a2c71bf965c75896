"""Indices: integer expressions of loop variables, in canonical form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from math import gcd
from typing import Any

from catgrad.dims import Dim, Size, product, upper_bound
from catgrad.errors import ShapeError

_NUMBERS = count()


@dataclass(eq=False, frozen=True)
class Variable:
    """A variable that counts from 0 up to `extent`, without it, by `step`."""

    extent: Size
    name: str = "i"
    step: int = 1
    number: int = field(init=False, repr=False, default_factory=lambda: next(_NUMBERS))
    """Rank among the terms of an index: variables are ordered by creation."""


@dataclass(frozen=True)
class Quotient:
    """⌊index / divisor⌋."""

    index: Index
    divisor: Size


@dataclass(frozen=True)
class Modulo:
    """The remainder index mod divisor."""

    index: Index
    divisor: Size


@dataclass(frozen=True)
class Read:
    """An integer that is computed or read from an array, and lies in 0 … extent - 1."""

    scalar: Any
    extent: Size


@dataclass(frozen=True)
class Either:
    """One of two indices: the first where warp groups multiply (`Axis.EITHER`), elsewhere the second."""

    first: Index
    second: Index


Atom = Variable | Quotient | Modulo | Read | Either


@dataclass(frozen=True)
class Index:
    """constant + Σ coefficient · atom, of atoms that are not negative.

    Terms that a divisor divides are taken out of `Quotient` and `Modulo`, if the rest is proved not negative.
    """

    terms: tuple[tuple[Atom, Size], ...] = ()
    constant: Size = 0

    def __add__(self, other: Index | Size) -> Index:
        if not isinstance(other, Index):
            return Index(self.terms, self.constant + other)
        return combined(((self, 1), (other, 1)))

    def __mul__(self, factor: Size) -> Index:
        if factor == 0:
            return ZERO
        return Index(tuple((a, c * factor) for a, c in self.terms), self.constant * factor)

    def __sub__(self, other: Index | Size) -> Index:
        return self + other * -1

    @property
    def variable(self) -> Variable | None:
        """The variable, if the index is one and nothing else."""
        if len(self.terms) == 1 and self.constant == 0:
            (atom, coefficient), *_ = self.terms
            if coefficient == 1 and isinstance(atom, Variable):
                return atom
        return None

    def coefficient(self, atom: Atom) -> Size:
        """Return the factor of an atom; 0 if the index does not contain it."""
        return next((c for a, c in self.terms if a is atom), 0)

    @property
    def greatest(self) -> Size | None:
        """Upper bound of its values, if all coefficients are positive."""
        total = self.constant
        for atom, coefficient in self.terms:
            if coefficient != _positive(coefficient):
                return None
            total = total + coefficient * (extent(atom) - 1)
        return total

    def variables(self) -> Iterator[Variable]:
        """Every variable within, also those of scalars that the index reads."""
        for atom, _ in self.terms:
            if isinstance(atom, Variable):
                yield atom
            elif isinstance(atom, (Quotient, Modulo)):
                yield from atom.index.variables()
            elif isinstance(atom, Either):
                yield from (*atom.first.variables(), *atom.second.variables())
            else:
                yield from atom.scalar.variables

    def replaced(self, replace: Callable[[Atom], Index | None]) -> Index:
        """Replace some atoms by indices."""
        parts, is_new = list[tuple[Index, Size]](), False
        for atom, coefficient in self.terms:
            new = replace(atom)
            if new is None and isinstance(atom, Quotient):
                new = quotient(atom.index.replaced(replace), atom.divisor)
            elif new is None and isinstance(atom, Modulo):
                new = modulo(atom.index.replaced(replace), atom.divisor)
            elif new is None and isinstance(atom, Either):
                new = index(Either(atom.first.replaced(replace), atom.second.replaced(replace)))
            is_new |= new is not None
            parts.append((index(atom) if new is None else new, coefficient))
        return combined([*parts, (Index((), self.constant), 1)]) if is_new else self

    def substitute(self, values: Mapping[Variable, Index]) -> Index:
        """Substitute indices for variables; scalars that are read stay as they are."""
        return self.replaced(lambda atom: values.get(atom) if isinstance(atom, Variable) else None)


ZERO = Index()


def nested_axes(place: Index, variables: Sequence[Variable]) -> list[tuple[Size, Size]]:
    """Return sizes and strides of the fewest nested axes that variables traverse an array along."""
    axes: list[tuple[Size, Size]] = []
    for variable in variables:
        size, stride = variable.extent, place.coefficient(variable)
        if axes and axes[-1][1] == stride * size:
            size = axes.pop()[0] * size
        axes.append((size, stride))
    return axes


def combined(parts: Iterable[tuple[Index, Size]]) -> Index:
    """Sum multiples of indices: Σ factor · index."""
    terms = dict[Atom, Size]()
    constant: Size = 0
    for part, factor in parts:
        for atom, coefficient in part.terms:
            terms[atom] = terms.get(atom, 0) + coefficient * factor
        constant = constant + part.constant * factor
    return _joined(terms, constant)


def extent(atom: Atom) -> Size:
    """Bound the values of an atom, whatever the symbols are: each is less than this size."""
    if isinstance(atom, Modulo):
        return atom.divisor
    if isinstance(atom, Either):
        return upper_bound(*(_end(each) for each in (atom.first, atom.second)))
    if isinstance(atom, Quotient):
        count = _end(atom.index)
        if isinstance(count, int) and isinstance(atom.divisor, int) and atom.divisor:
            return -(-count // atom.divisor)
        whole = _exactly(count, atom.divisor)
        return count if whole is None else whole
    return atom.extent


def _end(index: Index) -> Size:
    """Bound the values of an index: each is less than this size."""
    count = index.constant + 1
    for atom, coefficient in index.terms:
        count = count + _positive(coefficient) * (extent(atom) - 1)
    return count


def index(atom: Atom) -> Index:
    """An atom as an index; one with a single value is 0."""
    return ZERO if isinstance(atom, Variable | Read) and atom.extent == 1 else Index(((atom, 1),))


def quotient(dividend: Index, divisor: Size) -> Index:
    """⌊dividend / divisor⌋, for a dividend that is not negative."""
    whole, rest = _divided(dividend, divisor)
    if _is_remainder(rest, divisor):
        return whole
    return whole + Index(((Quotient(rest, divisor), 1),))


def modulo(dividend: Index, divisor: Size) -> Index:
    """Dividend mod divisor, for a dividend that is not negative."""
    _, rest = _divided(dividend, divisor)
    if _is_remainder(rest, divisor):
        return rest
    return Index(((Modulo(rest, divisor), 1),))


def _is_remainder(rest: Index, divisor: Size) -> bool:
    """Prove that the rest of a division is less than the divisor: what is subtracted is 0 at least."""
    return is_below(Index(tuple((atom, _positive(c)) for atom, c in rest.terms), rest.constant), divisor)


def stride(place: Index, variable: Variable) -> Size:
    """The stride of an index along a variable; 0 if it depends on it otherwise too."""
    for atom, _ in place.terms:
        if not isinstance(atom, Variable) and variable in Index(((atom, 1),)).variables():
            return 0
    return place.coefficient(variable)


def is_below(index: Index, size: Size) -> bool:
    """Prove that an index is less than a size, whatever the symbols are."""
    greatest = index.greatest
    room = None if greatest is None else size - greatest
    return isinstance(room, int) and room >= 1


def is_natural(index: Index) -> bool:
    """Prove that 0 ≤ index, whatever the symbols are."""
    least = index.constant
    for atom, coefficient in index.terms:
        least = least + (coefficient - _positive(coefficient)) * (extent(atom) - 1)
    return least == _positive(least)


def is_within(index: Index, size: Size) -> bool:
    """Prove that 0 ≤ index < size, whatever the symbols are."""
    return is_below(index, size) and index.constant == _positive(index.constant)


def _divided(dividend: Index, divisor: Size) -> tuple[Index, Index]:
    """Euclidean division: whole · divisor + rest = dividend, with a rest that is not negative.

    Languages round the quotient of a negative number in different ways.
    """
    whole, rest, least = ZERO, Index((), dividend.constant), dividend.constant
    for atom, coefficient in dividend.terms:
        exact = _exactly(coefficient, divisor)
        if exact is None:
            rest += Index(((atom, coefficient),))
            least = least + (coefficient - _positive(coefficient)) * (extent(atom) - 1)
        else:
            whole += Index(((atom, exact),))
    if isinstance(least, int) and isinstance(divisor, int) and divisor:
        out: Size | None = least // divisor
    else:
        out = _exactly(least, divisor)
    if out is not None:
        return whole + out, rest - divisor * out
    return (whole, rest) if least == _positive(least) else (ZERO, dividend)


def split_below(dividend: Index, divisor: Size) -> tuple[Index, Index]:
    """Split off the terms that do not decide a quotient: a multiple of more than they divides all others.

    near + rest = dividend, with ⌊dividend / divisor⌋ = ⌊rest / divisor⌋ and 0 ≤ near < divisor.
    """
    steps = {atom: c * (atom.step if isinstance(atom, Variable) else 1) for atom, c in dividend.terms}
    numbers = [divisor, dividend.constant, *steps.values()]
    near = ZERO
    if all(isinstance(n, int) and n >= 0 for n in numbers) and divisor:
        terms = sorted(dividend.terms, key=lambda term: steps[term[0]])
        for k in range(1, len(terms)):
            low = Index(tuple(term for term in dividend.terms if term in terms[:k]))
            rest = (steps[atom] for atom, _ in terms[k:])
            if is_below(low, gcd(divisor, dividend.constant, *rest)):
                near = low
    return near, dividend - near


def _exactly(dividend: Size, divisor: Size) -> Size | None:
    if isinstance(dividend, int) and isinstance(divisor, int):
        return None if divisor == 0 or dividend % divisor else dividend // divisor
    try:
        return (dividend + Dim("_") * 0) // divisor
    except ShapeError:
        return None


def _joined(terms: Mapping[Atom, Size], constant: Size) -> Index:
    """Order the terms, and simplify n · ⌊e / n⌋ + (e mod n) to e."""
    kept = {atom: c for atom, c in terms.items() if c != 0}
    for atom, c in kept.items():
        if isinstance(atom, Modulo):
            other = Quotient(atom.index, atom.divisor)
            if kept.get(other) == c * atom.divisor:
                del kept[atom], kept[other]
                return _joined(kept, constant) + atom.index * c
    return Index(tuple(sorted(kept.items(), key=_rank)), constant)


def _rank(term: tuple[Atom, Size]) -> tuple[int, ...]:
    atom = term[0]
    if isinstance(atom, Variable):
        return 0, atom.number
    if isinstance(atom, Read):
        return 2, atom.scalar.number
    if isinstance(atom, Either):
        return 3, *(n for i in (atom.first, atom.second) for term in i.terms for n in _rank(term))
    inside = [_rank(each) for each in atom.index.terms]
    return 1, isinstance(atom, Modulo), *(n for rank in inside for n in rank)


def _positive(size: Size) -> Size:
    """Sum the terms of a size with positive coefficients: an upper bound, whatever the symbols are."""
    if not isinstance(size, Dim):
        return max(size, 0)
    total: Size = 0
    for monomial, coefficient in size.terms:
        if coefficient > 0:
            total = total + coefficient * product(tuple(map(Dim, monomial)))
    return total

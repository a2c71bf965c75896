"""Symbolic dimensions: exact polynomials with integer coefficients over named symbols.

`Dim("batch")` stands for a size known only at run time. Arithmetic is exact and the form is
canonical, so two sizes are equal exactly when they are equal as polynomials: `2·n` is not `n`,
and `[n,28,28]` is not `[n,783]`. A polynomial without symbols is an ordinary `int`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Any, Union, cast

from catgrad.errors import OptionError, ShapeError

Size = Union[int, "Dim"]
Monomial = tuple[str, ...]
"""A product of symbols, sorted, each repeated by its power: `n²·t` is `("n", "n", "t")`."""


class Dim:
    """A polynomial Σ cᵢ·mᵢ, with cᵢ a non-zero integer and mᵢ a product of symbols.

    Units: a number of array elements along an axis; symbols stand for integers ≥ 0.
    Raises: OptionError if the name is not an identifier; ShapeError on inexact division, and wherever the
            result is no polynomial, or depends on the symbols, as that of a comparison may.
    """

    __slots__ = ("_hash", "terms")
    terms: tuple[tuple[Monomial, int], ...]

    def __init__(self, name: str) -> None:
        if not (name.isascii() and name.isidentifier()):
            raise OptionError(
                "the name of a dimension must be an identifier",
                f"it is {name!r}",
                "use ASCII letters, digits and underscores, as in Dim('batch')",
            )
        self._set({(name,): 1})

    def _set(self, terms: Mapping[Monomial, int]) -> None:
        # Highest degree first, then by name: the order in which a person writes a polynomial.
        self.terms = tuple(sorted(terms.items(), key=lambda term: (-len(term[0]), term[0])))
        self._hash = hash(self.terms)

    def __reduce__(self) -> tuple[Callable[..., Size], tuple[dict[Monomial, int]]]:
        return polynomial, (dict(self.terms),)  # the hash of a string differs between processes

    @property
    def symbols(self) -> frozenset[str]:
        """The names of its symbols."""
        return frozenset(name for monomial, _ in self.terms for name in monomial)

    def substitute(self, sizes: Mapping[str, Size]) -> Size:
        """Substitute `sizes[name]` for each of its symbols."""
        total: Size = 0
        for monomial, coefficient in self.terms:
            product: Size = coefficient
            for name in monomial:
                product = product * sizes.get(name, polynomial({(name,): 1}))
            total = total + product
        return total

    def __add__(self, other: Size) -> Size:
        if not isinstance(other, (int, Dim)):
            return _without_numbers(self, other)
        total = dict(self.terms)
        for monomial, coefficient in _terms(other):
            total[monomial] = total.get(monomial, 0) + coefficient
        return polynomial(total)

    def __mul__(self, other: Size) -> Size:
        if not isinstance(other, (int, Dim)):
            return _without_numbers(self, other)
        if isinstance(other, int):
            return polynomial({monomial: coefficient * other for monomial, coefficient in self.terms})
        total: dict[Monomial, int] = {}
        for m, c in self.terms:
            for n, d in other.terms:
                monomial = tuple(sorted(m + n))
                total[monomial] = total.get(monomial, 0) + c * d
        return polynomial(total)

    def __neg__(self) -> Size:
        return self * -1

    def __sub__(self, other: Size) -> Size:
        return self + -other if isinstance(other, (int, Dim)) else _without_numbers(self, other)

    def __rsub__(self, other: int) -> Size:
        return -self + other

    __radd__ = __add__
    __rmul__ = __mul__

    def __floordiv__(self, other: Size) -> Size:
        return exact_quotient(self, other) if isinstance(other, (int, Dim)) else _without_numbers(self, other)

    def __rfloordiv__(self, other: int) -> Size:
        return exact_quotient(other, self)

    def __truediv__(self, other: object) -> Any:
        return _without_numbers(self, other)

    __rtruediv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __truediv__

    def __int__(self) -> int:
        raise _unknown(self)

    __index__ = __float__ = __int__

    def __ge__(self, other: Size) -> bool:
        return _holds(self, other, 1, 0)

    def __gt__(self, other: Size) -> bool:
        return _holds(self, other, 1, 1)

    def __le__(self, other: Size) -> bool:
        return _holds(self, other, -1, 0)

    def __lt__(self, other: Size) -> bool:
        return _holds(self, other, -1, 1)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dim) and self.terms == other.terms

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        text = ""
        for monomial, coefficient in self.terms:
            sign = "-" if coefficient < 0 else "+"
            text += f" {sign} {_term_text(monomial, abs(coefficient))}"
        return "-" * (text[1] == "-") + text[3:]


def exact_quotient(dividend: Size, divisor: Size) -> Size:
    """Return the polynomial q with q · divisor = dividend.

    Raises: ShapeError if there is none (so no size is ever rounded), or if the divisor is 0.
    """
    if divisor == 0:
        raise ShapeError("a size must not be divided by 0", f"{dividend} is", "check the other sizes")
    quotient: Size = 0
    rest = dividend
    while rest != 0:
        (m, c), (n, d) = _terms(rest)[0], _terms(divisor)[0]
        surplus = Counter(m)
        surplus.subtract(n)
        if c % d or min(surplus.values(), default=0) < 0:
            raise ShapeError(
                "a size must divide exactly",
                f"{dividend} is not a multiple of {divisor}",
                "choose sizes whose products agree",
            )
        leading = polynomial({tuple(sorted(surplus.elements())): c // d})
        quotient = quotient + leading
        rest = rest - leading * divisor
    return quotient


def numbers(sizes: tuple[Size, ...]) -> tuple[int, ...]:
    """Return the sizes as integers. Raises: ShapeError if one is symbolic."""
    return tuple(map(int, sizes))


def product(sizes: tuple[Size, ...]) -> Size:
    """Return the product of sizes."""
    total: Size = 1
    for size in sizes:
        total = total * size
    return total


def coefficients(size: Size) -> dict[Monomial, int]:
    """Return the coefficient of each monomial of a size that has one."""
    return dict(_terms(size))


def polynomial(terms: Mapping[Monomial, int]) -> Size:
    """Return the size with these coefficients: the inverse of `coefficients`."""
    terms = {monomial: coefficient for monomial, coefficient in terms.items() if coefficient}
    if not terms:
        return 0
    if terms.keys() == {()}:
        return terms[()]
    dim = object.__new__(Dim)
    dim._set(terms)
    return dim


def divided(size: Size, divisor: int) -> Size | None:
    """Divide a size, if it is a multiple whatever the symbols are."""
    terms = coefficients(size)
    if any(c % divisor for c in terms.values()):
        return None
    return polynomial({monomial: c // divisor for monomial, c in terms.items()})


def greatest_coefficient(size: Size) -> int:
    """Return the greatest absolute value of a coefficient; of a number, its own."""
    return max((abs(coefficient) for _, coefficient in _terms(size)), default=0)


def upper_bound(*sizes: Size) -> Size:
    """Return the polynomial with the greatest of the coefficients of each monomial: of numbers, the greatest.

    Where all symbols are at least 0, so is its difference from each of the sizes.
    """
    every = [coefficients(size) for size in sizes]
    monomials = dict.fromkeys(monomial for each in every for monomial in each)
    return polynomial({m: max(each.get(m, 0) for each in every) for m in monomials})


def _holds(size: Dim, other: Size, sign: int, least: int) -> bool:
    """Return whether ± (size - other) is at least a number.

    Raises: ShapeError if that depends on the values of the symbols
    """
    if not isinstance(other, (int, Dim)):
        return cast(bool, _without_numbers(size, other))
    surplus = coefficients((size - other) * sign - least)
    if all(coefficient >= 0 for coefficient in surplus.values()):
        return True
    if surplus.get((), 0) < 0 and all(coefficient <= 0 for coefficient in surplus.values()):
        return False
    raise _unknown(size)


def _without_numbers(size: Size, other: object) -> Any:
    """Leave an operator to a variable of a term. Raises: ShapeError for a number"""
    if isinstance(other, (int, float, Dim)):
        raise _unknown(size)
    return NotImplemented


def _unknown(size: Size) -> ShapeError:
    return ShapeError(
        "a size must be known to compute with it", f"{size} is symbolic", "substitute numbers for its symbols"
    )


def _term_text(monomial: Monomial, coefficient: int) -> str:
    powers = [(name, len(list(run))) for name, run in groupby(monomial)]
    factors = [name if power == 1 else f"{name}^{power}" for name, power in powers]
    return "*".join(factors if coefficient == 1 and factors else [str(coefficient), *factors])


def _terms(size: Size) -> tuple[tuple[Monomial, int], ...]:
    return size.terms if isinstance(size, Dim) else (((), size),) if size else ()

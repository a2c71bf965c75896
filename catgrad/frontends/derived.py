"""Derivatives of imported models, of any order, as functions by name.

Source: Cockett et al. 2019, Reverse derivative categories (arXiv:1910.07065), section 3
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from catgrad.errors import DtypeError, OptionError
from catgrad.functors import evaluation, factor_parameters
from catgrad.learn.functions import Functions
from catgrad.naming import numbered
from catgrad.ops.derivatives import vjp
from catgrad.terms.build import build
from catgrad.terms.structural import Constant
from catgrad.terms.term import Term
from catgrad.terms.var import Var
from catgrad.types import NdArrayType

Arrays = Sequence[Var]


def derived(
    name: str,
    model: Term,
    inputs: Sequence[str],
    outputs: Sequence[str] = (),
    order: int = 1,
    parameters: bool = False,
) -> Functions:
    """Return a model y = f(x) and its derivatives up to an order, as functions with named arguments.

    value                        x ↦ y
    jvp, jvp_2, …, jvp_n         x, v₁, …, vₙ ↦ Dⁿf(x)[v₁, …, vₙ], the n-th directional derivative
    vjp, vjp_2, …, vjp_n         x, u, v₁, …, vₙ₋₁ ↦ u Dⁿf(x)[v₁, …, vₙ₋₁, ·], its gradient by x
    gradient, hvp, …, hvp_n      the same in place of vjp, for one number y, with u = 1

    u and v₁ of an array x are named `v_x`, others `v2_x`, `v3_x`, …, and derivatives `d_x`. Integers and
    booleans have none. The parameters are constants of f, or with `parameters` its first inputs.

    Raises: OptionError for an order below 1; DtypeError if no input, or no output, is floating-point
    """
    if order < 1:
        raise OptionError("the order of a derivative must be at least 1", f"it is {order}", "write 1 or 2")
    term, names = evaluation(model), list(inputs)
    if parameters:
        slots, term = factor_parameters(term)
        names = [*(slot.name for slot in slots), *names]
    return _Family(term, names, list(outputs) or numbered("y_hat", len(term.target))).functions(name, order)


class _Family:
    """The derivatives of a term, whose arguments and results have these names."""

    def __init__(self, term: Term, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        self.term, self.inputs, self.outputs = term, inputs, outputs
        self.types, self.results = list(term.source.table), list(term.target.table)
        self.x, self.y = _floating("input", self.types), _floating("output", self.results)
        self.is_number = len(self.y) == 1 and all(size == 1 for size in self.results[self.y[0]].shape)

    def functions(self, name: str, order: int) -> Functions:
        """Return the value and its derivatives up to an order."""
        terms, names = {"value": self.term}, {"value": (self.inputs, self.outputs)}
        x, y = [self.inputs[k] for k in self.x], [self.outputs[k] for k in self.y]
        for n in range(1, order + 1):
            v = [f"v{k if k > 1 else ''}_{array}" for k in range(1, n + 1) for array in x]
            terms[forward := _numbered("jvp", n)] = self.forward(n)
            names[forward] = [*self.inputs, *v], [f"d_{array}" for array in y]
            u = [] if self.is_number else [f"v_{array}" for array in y]
            terms[reverse := self.reverse_name(n)] = self.reverse(n)
            names[reverse] = [*self.inputs, *u, *v[: len(x) * (n - 1)]], [f"d_{array}" for array in x]
        return Functions(terms, name, names)

    def reverse_name(self, n: int) -> str:
        """Return the name of the n-th reverse derivative."""
        if not self.is_number:
            return _numbered("vjp", n)
        return "gradient" if n == 1 else "hvp" if n == 2 else _numbered("hvp", n)

    def forward(self, n: int) -> Term:
        """Build x, v₁, …, vₙ ↦ Dⁿf(x)[v₁, …, vₙ]: the reverse derivative is linear in u, transpose it."""

        def function(*arguments: Var) -> list[Var]:
            f, x, rest = self._opened(arguments)
            *before, last = self._directions(rest)
            zeros = tuple(Constant(self.results[k], 0)() for k in self.y)
            return list(vjp(lambda *u: _reverse(f, x, u, before))(zeros, last))

        return build(function, [*self.types, *self._of_x() * n])

    def reverse(self, n: int) -> Term:
        """Build x, u, v₁, …, vₙ₋₁ ↦ u Dⁿf(x)[v₁, …, vₙ₋₁, ·]."""
        cotangents = [self.results[k] for k in self.y]

        def function(*arguments: Var) -> list[Var]:
            f, x, rest = self._opened(arguments)
            if self.is_number:
                rest = [Constant(cotangents[0], 1)(), *rest]
            count = len(cotangents)
            return list(_reverse(f, x, rest[:count], self._directions(rest[count:])))

        u = [] if self.is_number else cotangents
        return build(function, [*self.types, *u, *self._of_x() * (n - 1)])

    def _of_x(self) -> list[NdArrayType]:
        return [self.types[k] for k in self.x]

    def _opened(self, arguments: Arrays) -> tuple[Callable[..., Arrays], Arrays, Arrays]:
        """Return f as a function of the floating-point inputs alone, these, and the other arguments."""
        given, rest = arguments[: len(self.types)], arguments[len(self.types) :]

        def f(*x: Var) -> Arrays:
            values = {**dict(enumerate(given)), **dict(zip(self.x, x, strict=True))}
            results = self.term.apply(*values.values())
            return tuple(results[k] for k in self.y)

        return f, [given[k] for k in self.x], rest

    def _directions(self, arrays: Arrays) -> list[Arrays]:
        """Split directions, each of which has an array for each floating-point input."""
        count = len(self.x)
        return [arrays[k : k + count] for k in range(0, len(arrays), count)]


def _reverse(f: Callable[..., Arrays], x: Arrays, u: Arrays, directions: Sequence[Arrays]) -> Any:
    """Return u Dⁿf(x)[v₁, …, vₙ₋₁, ·], each the reverse of the last, as derivatives of u f are symmetric."""
    if not directions:
        return vjp(f)(tuple(x), tuple(u))
    *before, last = directions
    return vjp(lambda *point: _reverse(f, point, u, before))(tuple(x), tuple(last))


def _numbered(name: str, n: int) -> str:
    return name if n == 1 else f"{name}_{n}"


def _floating(what: str, types: Sequence[NdArrayType]) -> list[int]:
    """Return the positions of floating-point arrays. Raises: DtypeError if there are none"""
    found = [k for k, type in enumerate(types) if type.dtype.is_floating]
    if not found:
        raise DtypeError(
            f"a model with derivatives must have a floating-point {what}",
            f"it has {', '.join(map(str, types)) or 'none'}",
            "differentiate by its parameters, with parameters=True" if what == "input" else "cast one",
        )
    return found

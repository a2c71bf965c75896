"""Cost of straight-line code: operations and bytes, a homomorphism from programs to a commutative monoid."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass
from functools import reduce
from operator import add

from catgrad.dims import Size, upper_bound
from catgrad.ops.control import Cond
from catgrad.ops.scan import Scan
from catgrad.ops.window import Window
from catgrad.programs.program import Apply, Function, Nested
from catgrad.terms.op import Op


@dataclass(frozen=True)
class Cost:
    """Floating-point operations and bytes moved, symbolic where sizes are.

    `products` are those of contractions, two for each multiplication with its addition; `others` are one for
    each element of any other arithmetic operation, comparison or selection. Elements of integers do not
    count. `bytes` are read and written by operations one after the other, as NumPy does: views are free, and
    a value behind a view is read once, however often it is repeated.
    """

    products: Size = 0
    others: Size = 0
    bytes: Size = 0

    @property
    def flops(self) -> Size:
        """All floating-point operations."""
        return self.products + self.others

    def __add__(self, other: Cost) -> Cost:
        return Cost(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def times(self, count: Size) -> Cost:
        """Return the cost of `count` runs."""
        return Cost(*(count * each for each in astuple(self)))


def total(costs: Iterable[Cost]) -> Cost:
    """Return the sum of costs."""
    return reduce(add, costs, Cost())


def costs(function: Function) -> list[Cost]:
    """Return the cost of each operation of a function of primitives, whose loops and branches are nested.

    A loop costs its body times its length, and a branch at most what the costlier side does.
    """
    read = _bytes_behind(function)
    return [_cost(apply, function, read) for apply in function.body]


def _cost(apply: Apply, function: Function, read: dict[int, Size]) -> Cost:
    op, inputs, outputs = apply
    if isinstance(op, Nested):
        return _nested(op)
    if op.structural or not inputs or _is_view(op):
        return Cost()
    written = reduce(add, (function.types[value].bytes for value in outputs), 0)
    types = [function.types[value] for value in inputs]
    count = op.flops(*types)
    if count == 0:
        return Cost(bytes=2 * written)  # data movement reads no more than it writes
    moved = reduce(add, (read[value] for value in dict.fromkeys(inputs)), written)
    if not any(type.dtype.is_floating for type in types):
        count = 0
    return Cost(count, 0, moved) if op.contracts else Cost(0, count, moved)


def _nested(nested: Nested) -> Cost:
    inside = [total(costs(function)) for function in nested.functions]
    if isinstance(nested.op, Scan):
        return inside[0].times(nested.op.length)
    assert isinstance(nested.op, Cond)
    return Cost(*(upper_bound(*each) for each in zip(*map(astuple, inside), strict=True)))


def _bytes_behind(function: Function) -> dict[int, Size]:
    """Return for each value the bytes that reading it touches: those of the array that it is a view of.

    Values without operands are constants of the code.
    """
    types = function.types
    read: dict[int, Size] = {value: types[value].bytes for value in function.arguments}
    for op, inputs, outputs in function.body:
        for value in outputs:
            own = types[value].bytes if inputs else 0
            read[value] = (
                read[inputs[0]] if _is_view(op) and not _selects(op, function, inputs[0], value) else own
            )
    return read


def _is_view(op: Op) -> bool:
    return op.rearranges or isinstance(op, Window)


def _selects(op: Op, function: Function, source: int, result: int) -> bool:
    """Tell whether a view has some elements of its array only, such as a slice."""
    before, after = function.types[source], function.types[result]
    return before.rank == after.rank and before.size != after.size

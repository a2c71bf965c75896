"""Random programs under construction: values, and the selection of operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from catgrad import ops
from catgrad.dims import Dim, Size
from catgrad.errors import CatgradError
from catgrad.ops.control import Variables
from catgrad.terms.structural import Constant
from catgrad.terms.var import Var
from catgrad.types import Dtype, NdArrayType

FLOATING = (Dtype.float32, Dtype.float64, Dtype.float16, Dtype.bfloat16)
WHOLE = (Dtype.int32, Dtype.int64, Dtype.uint32)
NUMERIC = (*FLOATING, *WHOLE)
BYTES = (Dtype.uint8, Dtype.int8)
DTYPES = (*NUMERIC, *BYTES, Dtype.bool)
SIZES = (2, 1, 3, 0, 4, 1, 5)
"""Sizes of axes: loops have zero, one, or a few iterations."""
LARGE = (17, 33, 64)
"""A large size, at which there are vectors, blocks and matrix products."""
MOST_ELEMENTS = 1 << 12
TYPICAL = 7
"""The assumed value of a symbol when elements are counted."""


T = TypeVar("T")
Rule = Callable[["Maker"], Variables]
RULES: list[Rule] = []


def rule(function: Rule) -> Rule:
    """Register a rule for steps of programs."""
    RULES.append(function)
    return function


class Maker:
    """The values of a program under construction."""

    def __init__(
        self, draw: DrawFn, pool: list[Var], symbols: Sequence[Dim], dtypes: Sequence[Dtype], depth: int = 0
    ) -> None:
        self.draw, self.pool, self.symbols, self.dtypes, self.depth = draw, pool, symbols, dtypes, depth

    def steps(self, count: int) -> None:
        """Apply this number of operations, except those that do not fit."""
        for _ in range(count):
            rule = self.one_of(RULES)
            try:
                result = rule(self)
            except CatgradError:
                continue
            for x in result if isinstance(result, (tuple, list)) else (result,):
                if _elements(x.shape) <= MOST_ELEMENTS:
                    self.pool.append(x)

    def inside(self, *inputs: Var) -> Maker:
        """Return the maker of a block inside the program, which may capture values."""
        return Maker(self.draw, [*self.pool, *inputs], self.symbols, self.dtypes, self.depth + 1)

    def one_of(self, choices: Sequence[T]) -> T:
        """Draw one of several values; shrinks to the first."""
        return choices[self.number(len(choices) - 1)]

    def number(self, most: int) -> int:
        """Draw a number from 0 to `most`."""
        return int(self.draw(st.integers(0, most)))

    def flag(self) -> bool:
        """Draw a boolean."""
        return bool(self.number(1))

    def value(self) -> Var:
        """Draw an existing value."""
        return self.one_of(self.pool[::-1])

    def of(self, dtypes: Sequence[Dtype] = DTYPES, least: int = 0, most: int = 4) -> Var:
        """Draw a value of one of these dtypes, with `least` to `most` axes."""
        x = self.value()
        if x.dtype not in dtypes:
            x = ops.cast(x, self.one_of([d for d in dtypes if d in self.dtypes] or dtypes))
        while x.type.rank < least:
            x = ops.expand_dims(x, self.number(x.type.rank))
        while x.type.rank > most:
            x = _total(x, 0)
        return x

    def like(self, type: NdArrayType) -> Var:
        """Draw a value of this type: an existing one, or a converted one."""
        same = [v for v in self.pool if v.type is type]
        return self.one_of(same) if same and not self.flag() else fitted(self.value(), type)

    def constant(self, type: NdArrayType) -> Var:
        """Draw a constant array."""
        number = self.number(1 if type.dtype is Dtype.bool else 3)
        extreme = self.one_of((0.5, -1.0, -0.0, float("inf"), float("nan"), 1e4))
        return Constant(type, extreme if type.dtype.is_floating and self.flag() else number)()

    def size(self) -> Size:
        """Draw the size of an axis."""
        if self.symbols and self.number(3) == 3:
            return self.one_of(self.symbols)
        return self.one_of(LARGE) if self.number(19) == 19 else self.one_of(SIZES)

    def shape(self, most: int = 3) -> tuple[Size, ...]:
        """Draw a shape with a limited number of elements."""
        sizes = [self.size() for _ in range(self.number(most))]
        while _elements(sizes) > MOST_ELEMENTS:
            sizes.pop()
        return tuple(sizes)

    def type(self) -> NdArrayType:
        """Draw an array type."""
        return NdArrayType(self.shape(), self.one_of((self.dtypes[0], *self.dtypes)))

    def axis(self, x: Var) -> int:
        """Draw an axis of an array."""
        return self.number(x.type.rank - 1)

    def axes(self, x: Var) -> tuple[int, ...]:
        """Draw some axes of an array."""
        return tuple(a for a in range(x.type.rank) if self.flag())

    def order(self, rank: int) -> tuple[int, ...]:
        """Draw a permutation of axes."""
        return tuple(self.draw(st.permutations(range(rank))))

    def indices(self, shape: Sequence[Size], size: Size) -> Var:
        """Draw indices below a size; rarely ones out of range, which every target must detect."""
        dtype = self.one_of((Dtype.int64, Dtype.int32))
        x = self.like(NdArrayType(tuple(shape), dtype))
        within = x % ops.broadcast(ops.number_of(size, dtype), x.shape)
        return x if self.number(19) == 19 else within


def fitted(x: Var, type: NdArrayType) -> Var:
    """Convert a value to another dtype and shape: repeat its elements, or broadcast their sum."""
    x = ops.cast(x, type.dtype)
    if x.shape == type.shape:
        return x
    have, want = x.type.size, type.size
    if not isinstance(have, int) or not isinstance(want, int) or not 0 < have <= 64:
        return ops.broadcast(_total(x, None), type.shape)
    times = -(-want // have)
    flat = ops.reshape(ops.broadcast(ops.reshape(x, have), (times, have)), times * have)
    return ops.reshape(ops.slice(flat, (0,), (want,)), *type.shape)


def _total(x: Var, axes: int | Sequence[int] | None) -> Var:
    if x.dtype in BYTES:
        return ops.cast(ops.sum(ops.cast(x, Dtype.int32), axes), x.dtype)
    return ops.any(x, axes) if x.dtype is Dtype.bool else ops.sum(x, axes)


def _elements(shape: Sequence[Size]) -> int:
    return prod(s if isinstance(s, int) else int(s.substitute({"n": TYPICAL, "m": TYPICAL})) for s in shape)

"""Rotary position embedding: pairs of features turned by angles in proportion to the position."""

from __future__ import annotations

from math import log

import numpy as np

from catgrad.errors import OptionError, ShapeError
from catgrad.ops.cast import cast
from catgrad.ops.extrema import iota
from catgrad.ops.gather import require_integer
from catgrad.ops.reduce import broadcast
from catgrad.ops.shape import reshape
from catgrad.ops.slices import concat, split
from catgrad.ops.transcendental import cos, exp, sin
from catgrad.terms.op import Examples, Op, Saves, Types, floating
from catgrad.terms.structural import zeros_like
from catgrad.terms.var import Var
from catgrad.types import Array, Dtype, NdArrayType

__all__ = ["rotary"]


class Rotary(Op):
    """Rotation of the pair i of features at position p by the angle p · base^(-2i / d), for floating T.

    (a, b) becomes (a cos θ - b sin θ, b cos θ + a sin θ). A pair is features i and i + d/2, or with
    `interleaved` features 2i and 2i + 1. With `backward`, the angles are negative.

    Type:     (T[…, t, d], I[t]) -> T[…, t, d] for even d, and integers I: the t positions
    Raises:   ShapeError for other d, or another number of positions; DtypeError unless positions are whole;
              OptionError unless base > 0
    Gradient: dx = dy rotated by the negative angles
    Source:   Su et al. 2021 (arXiv:2104.09864), equation 34
    """

    base: float = 10000.0
    interleaved: bool = False
    backward: bool = False
    saves = Saves(inputs=(1,))
    result = "turned"

    def __post_init__(self) -> None:
        if not self.base > 0:
            raise OptionError("the base of rotary must be positive", f"it is {self.base}", "try 10000.0")

    def type(self, x: NdArrayType, positions: NdArrayType) -> Types:
        require_integer(positions)
        if x.rank < 2 or not isinstance(x.shape[-1], int) or x.shape[-1] % 2:
            raise ShapeError(
                "the array must be […, t, d] with an even number d", f"it is {x}", "choose another width"
            )
        if positions.shape != x.shape[-2:-1]:
            raise ShapeError(
                f"there must be one position for each of the {x.shape[-2]} rows",
                f"they are {positions}",
                "pass as many",
            )
        return floating(x)

    def ref(self, x: Array, positions: Array) -> Array:
        d = x.shape[-1]
        frequencies = np.exp(np.arange(d // 2) * (-2 * log(self.base) / max(d, 1)))
        angles = np.outer(positions, -frequencies if self.backward else frequencies)
        c, s = np.cos(angles).astype(x.dtype), np.sin(angles).astype(x.dtype)
        first, second = self._places(d)
        y = np.empty_like(x)
        y[..., first] = x[..., first] * c - x[..., second] * s
        y[..., second] = x[..., second] * c + x[..., first] * s
        return y

    def body(self, x: Var, positions: Var) -> Var:
        *lead, t, d = x.shape
        a, b = self._pairs(x)
        frequencies = exp(iota(d // 2, x.dtype) * (-2 * log(self.base) / max(d, 1)))
        angles = broadcast(cast(positions, x.dtype), (t, d // 2), (1,)) * broadcast(frequencies, (t, d // 2))
        c, s = (broadcast(f(angles), (*lead, t, d // 2)) for f in (cos, sin))
        if self.backward:
            s = -s
        return self._joined(a * c - b * s, b * c + a * s)

    def rev(self, positions: Var, dy: Var) -> tuple[Var, Var]:
        back = Rotary(self.base, self.interleaved, not self.backward)
        return back(dy, positions), zeros_like(positions)

    @classmethod
    def examples(cls) -> Examples:
        x = NdArrayType((3, 4)), NdArrayType((3,), Dtype.int64)
        y = NdArrayType((2, 1, 5, 6)), NdArrayType((5,), Dtype.int32)
        return [(cls(), x), (cls(interleaved=True), x), (cls(100.0), y), (cls(100.0, True, True), y)]

    def _places(self, d: int) -> tuple[slice, slice]:
        if self.interleaved:
            return slice(0, d, 2), slice(1, d, 2)
        return slice(0, d // 2), slice(d // 2, d)

    def _pairs(self, x: Var) -> tuple[Var, ...]:
        """Return the first and the second features of all pairs."""
        *lead, d = x.shape
        if not self.interleaved:
            return split(x, (d // 2, d // 2), -1)
        parts = split(reshape(x, *lead, d // 2, 2), (1, 1), -1)
        return tuple(reshape(part, *lead, d // 2) for part in parts)

    def _joined(self, a: Var, b: Var) -> Var:
        if not self.interleaved:
            return concat([a, b], -1)
        *lead, half = a.shape
        return reshape(concat([reshape(y, *lead, half, 1) for y in (a, b)], -1), *lead, 2 * half)


def rotary(x: Var, base: float = 10000.0, interleaved: bool = False, positions: Var | None = None) -> Var:
    """x : […, t, d] with pairs of features turned by position · base^(-2i / d).

    The positions are 0, 1, …, t - 1, or given as integers [t].
    """
    if positions is None:
        positions = iota(x.shape[-2])
    return Rotary(base, interleaved)(x, positions)

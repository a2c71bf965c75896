"""Normalisation over the last axes: definitions that save what their reverse needs."""

from __future__ import annotations

from math import inf, prod

import numpy as np

from catgrad.dims import exact_quotient, product
from catgrad.errors import ShapeError
from catgrad.ops.arithmetic import absolute
from catgrad.ops.compare import select
from catgrad.ops.reduce import broadcast, mean, mean_of, sum
from catgrad.ops.shape import Axes, normalised, reshape
from catgrad.ops.transcendental import rsqrt
from catgrad.terms.op import Examples, Op, Types, floating
from catgrad.terms.structural import part, zeros_like
from catgrad.terms.var import Var
from catgrad.types import Array, Dtype, NdArrayType

__all__ = ["affine_layer_norm", "group_norm", "layer_norm", "rms_norm"]

SCALES = {Dtype.float64: (2.0**-560, 2.0**-500)}
"""Factors by dtype that make numbers small enough to square, and addends that make their squares normal."""

FLOAT32_SCALES = (2.0**-72, 2.0**-60)


class Normalisation(Op, register=False):
    """T -> T for floating T, over the last `rank` axes, with ε under the root."""

    rank: int = 1
    epsilon: float = 1e-5

    def type(self, x: NdArrayType) -> Types:
        normalised(-self.rank, x.rank)
        return floating(x)

    @classmethod
    def examples(cls) -> Examples:
        return [(cls(), (NdArrayType((2, 3)),)), (cls(2, 1e-3), (NdArrayType((4, 3, 2)),))]

    def axes(self, x: Var) -> Axes:
        """Return the axes normalised over."""
        return tuple(range(x.type.rank - self.rank, x.type.rank))

    def average(self, x: Var, name: str) -> Var:
        """Return the mean of x over these axes, broadcast to the shape of x."""
        return self.copies(part(name, mean(x, self.axes(x))), x)

    def copies(self, y: Var, x: Var) -> Var:
        """Broadcast a number for each row to the shape of x."""
        return broadcast(y, x.shape, self.axes(x))

    def inverse(self, x: Var) -> Var:
        """1 / √(mean x² + ε) for the elements of each row, from scaled squares where squares overflow.

        Source: Blue 1978, A portable Fortran program to find the Euclidean norm of a vector
        """
        scale, least = SCALES.get(x.dtype, FLOAT32_SCALES)
        scaled = part("scaled", absolute(x) * scale + least)  # most squares would be subnormal, and slow
        square = part("mean_square", mean(x * x, self.axes(x)))
        scaled_square = part("scaled_mean_square", mean(scaled * scaled, self.axes(x)))
        fits = part("is_finite", square < inf)
        # The branch that is not selected must have a finite derivative too.
        large = rsqrt(select(fits, zeros_like(scaled_square) + 1, scaled_square)) * scale
        return self.copies(part("rstd", select(fits, rsqrt(square + self.epsilon), large)), x)

    def normalised_ref(self, x: Array) -> Array:
        """x / √(mean x² + ε), of numbers that are at most 1."""
        axes = tuple(range(-self.rank, 0))
        greatest = np.max(np.abs(x), axis=axes, keepdims=True, initial=1)
        greatest = np.where(np.isfinite(greatest), greatest, np.ones_like(greatest))
        x, epsilon = x / greatest, self.epsilon / greatest / greatest
        normal: Array = x / np.sqrt(mean_of(x * x, axes) + epsilon)
        return normal


class LayerNorm(Normalisation):
    """Layer normalisation: y = (x - μ) / √(σ² + ε), with mean μ and variance σ² over the last axes.

    Type:     (T) -> T for floating T
    Gradient: dx = (dy - mean dy - y · mean(dy · y)) / √(σ² + ε)
    Source:   Ba et al. 2016 (arXiv:1607.06450), equation 4
    """

    def ref(self, x: Array) -> Array:
        return self.normalised_ref(x - mean_of(x, tuple(range(-self.rank, 0))))

    def body(self, x: Var) -> Var:
        centred = part("centred", x - self.average(x, "mean"))
        return centred * self.inverse(centred)

    def rev(self, x: Var, dy: Var) -> Var:
        centred = part("centred", x - self.average(x, "mean"))
        inverse = self.inverse(centred)
        y = centred * inverse
        return (dy - self.average(dy, "mean_dy") - y * self.average(dy * y, "mean_y_dy")) * inverse


class AffineLayerNorm(Normalisation):
    """Layer normalisation with a weight and a shift: y = n · w + b, for n = (x - μ) / √(σ² + ε).

    Type:     (T[b…, s…], T[s…], T[s…]) -> T[b…, s…] for floating T
    Raises:   ShapeError if weight or shift has not the type of the last axes
    Gradient: dw = Σ dy · n and db = Σ dy over the other axes; dx is that of n for dy · w
    Source:   Ba et al. 2016 (arXiv:1607.06450), equation 4
    """

    def type(self, x: NdArrayType, w: NdArrayType, b: NdArrayType) -> Types:  # type: ignore[override]
        super().type(x)
        if not w is b is x.with_shape(x.shape[x.rank - self.rank :]):
            raise ShapeError(
                f"weight and shift must have the last {self.rank} axes of x",
                f"they are {w} and {b} for {x}",
                "check their sizes",
            )
        return x

    def ref(self, x: Array, w: Array, b: Array) -> Array:
        return LayerNorm(self.rank, self.epsilon).ref(x) * w + b

    def body(self, x: Var, w: Var, b: Var) -> Var:
        normal = LayerNorm(self.rank, self.epsilon)(x)
        return normal * broadcast(w, x.shape) + broadcast(b, x.shape)

    def rev(self, x: Var, w: Var, b: Var, dy: Var) -> tuple[Var, Var, Var]:
        norm = LayerNorm(self.rank, self.epsilon)
        others = range(x.type.rank - self.rank)
        dx = norm.rev(x, dy * broadcast(w, x.shape))
        return dx, sum(dy * norm(x), others), sum(dy, others)

    @classmethod
    def examples(cls) -> Examples:
        return [
            (cls(*vars(op).values()), (x, *[x.with_shape(x.shape[x.rank - op.rank :])] * 2))
            for op, (x,) in LayerNorm.examples()
            if isinstance(op, LayerNorm)
        ]


class RmsNorm(Normalisation):
    """Root-mean-square normalisation: y = x / √(mean x² + ε) over the last axes.

    Type:     (T) -> T for floating T
    Gradient: dx = (dy - y · mean(dy · y)) / √(mean x² + ε)
    Source:   Zhang and Sennrich 2019 (arXiv:1910.07467), equation 4
    """

    def ref(self, x: Array) -> Array:
        return self.normalised_ref(x)

    def body(self, x: Var) -> Var:
        return x * self.inverse(x)

    def rev(self, x: Var, dy: Var) -> Var:
        inverse = self.inverse(x)
        y = x * inverse
        return (dy - y * self.average(dy * y, "mean_y_dy")) * inverse


class GroupNorm(Op):
    """Group normalisation: y = (x - μ) / √(σ² + ε), over each of `groups` groups of channels and all places.

    Type:     T[N, C, …] -> T[N, C, …] for floating T
    Raises:   ShapeError unless the groups divide the channels
    Gradient: that of layer normalisation of each group
    Source:   Wu and He 2018 (arXiv:1803.08494), equations 1 to 3
    """

    groups: int
    epsilon: float = 1e-5

    def type(self, x: NdArrayType) -> Types:
        channels = x.shape[1] if x.rank > 1 else 0
        if x.rank < 2 or not isinstance(channels, int) or self.groups < 1 or channels % self.groups:
            raise ShapeError(
                f"the array must be [N, C, …] with a multiple of {self.groups} channels",
                f"it is {x}",
                "choose another number of groups",
            )
        return floating(x)

    def ref(self, x: Array) -> Array:
        grouped = x.reshape(len(x), self.groups, prod(x.shape[1:]) // self.groups)
        return LayerNorm(1, self.epsilon).ref(grouped).reshape(x.shape)

    def body(self, x: Var) -> Var:
        size = exact_quotient(product(x.shape[1:]), self.groups)
        grouped = reshape(x, x.shape[0], self.groups, size)
        return reshape(layer_norm(grouped, 1, self.epsilon), *x.shape)

    @classmethod
    def examples(cls) -> Examples:
        return [
            (cls(2), (NdArrayType((3, 6)),)),
            (cls(3, 1e-3), (NdArrayType((2, 6, 2, 3)),)),
            (cls(1), (NdArrayType((0, 2, 3)),)),
        ]


def layer_norm(x: Var, rank: int = 1, epsilon: float = 1e-5) -> Var:
    """(x - μ) / √(σ² + ε) over the last `rank` axes."""
    return LayerNorm(rank, epsilon)(x)


def affine_layer_norm(x: Var, weight: Var, shift: Var, epsilon: float = 1e-5) -> Var:
    """(x - μ) / √(σ² + ε) · weight + shift, over the axes that weight and shift have."""
    return AffineLayerNorm(weight.type.rank, epsilon)(x, weight, shift)


def rms_norm(x: Var, rank: int = 1, epsilon: float = 1e-5) -> Var:
    """x / √(mean x² + ε) over the last `rank` axes."""
    return RmsNorm(rank, epsilon)(x)


def group_norm(x: Var, groups: int, epsilon: float = 1e-5) -> Var:
    """Group normalisation: (x - μ) / √(σ² + ε) over each of `groups` groups of channels of x : [N, C, …]."""
    return GroupNorm(groups, epsilon)(x)

"""Batch normalisation: by statistics of the batch in training, by running statistics in evaluation."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from catgrad.dims import Dim, Size
from catgrad.errors import ShapeError
from catgrad.ops.cast import cast
from catgrad.ops.reduce import broadcast, mean, mean_of, number_of
from catgrad.ops.shape import Axes
from catgrad.ops.transcendental import rsqrt
from catgrad.terms.build import build
from catgrad.terms.op import Examples, Op, Types, floating
from catgrad.terms.structural import Assume, Constant, part
from catgrad.terms.term import Term
from catgrad.terms.var import Var
from catgrad.types import Array, NdArrayType

__all__ = ["batch_norm"]


class BatchNorm(Op):
    """Batch normalisation: y = (x - μ) / √(σ² + ε), with mean and variance of each channel in the batch.

    In evaluation, μ and σ² are the running mean and variance.

    Type:     (T[N, C, …], T[C], T[C]) -> T[N, C, …] for floating T: x, running mean, running variance
    Raises:   ShapeError if the statistics are not one number for each channel, or each channel has one number
              only, whose variance says nothing
    Gradient: dx = (dy - mean dy - y · mean(dy · y)) / √(σ² + ε), and 0 for the running statistics
    Source:   Ioffe and Szegedy 2015 (arXiv:1502.03167), algorithm 1
    """

    epsilon: float = 1e-5

    def type(self, x: NdArrayType, running_mean: NdArrayType, running_variance: NdArrayType) -> Types:
        if x.rank < 2 or not x.with_shape((x.shape[1],)) is running_mean is running_variance:
            raise ShapeError(
                "x must be [N, C, …], and the running statistics [C] of its dtype",
                f"they are {x}, {running_mean} and {running_variance}",
                "put the channels second",
            )
        return floating(x)

    def minimum_sizes(
        self, x: NdArrayType, running_mean: NdArrayType, running_variance: NdArrayType
    ) -> tuple[tuple[Size, int], ...]:
        """Return the numbers that a variance needs: two for each channel, as PyTorch requires."""
        return several(x)

    def ref(self, x: Array, running_mean: Array, running_variance: Array) -> Any:
        axes = (0, *range(2, x.ndim))
        centred = x - mean_of(x, axes)
        return centred / np.sqrt(mean_of(centred * centred, axes) + self.epsilon)

    def body(self, x: Var, running_mean: Var, running_variance: Var) -> Var:
        centred, variance = moments(x)
        return centred * copied(self._rstd(variance), x)

    def _rstd(self, variance: Var) -> Var:
        return part("rstd", rsqrt(variance + self.epsilon))

    def optic(self, _: object, x: NdArrayType, *statistics: NdArrayType) -> tuple[Term, Term]:
        """Return the body with x, μ and 1 / √(σ² + ε) as residual, and the reverse, which has y of these."""
        wide = NdArrayType(statistics[0].shape, x.dtype.wide)

        def forward(x: Var, *_: Var) -> tuple[Var, Var, Var, Var]:
            given = cast(x, wide.dtype)
            centred, variance = moments(given)
            rstd = self._rstd(variance)
            y = cast(centred * copied(rstd, x), x.dtype)
            return y, x, part("mean", mean(given, others(x))), rstd

        def backward(x: Var, centre: Var, rstd: Var, dy: Var) -> tuple[Var, ...]:
            given, dy, inverse = cast(x, wide.dtype), cast(dy, wide.dtype), copied(rstd, x)
            y = part("centred", given - copied(centre, x)) * inverse
            mean_dy = copied(part("mean_dy", mean(dy, others(x))), x)
            mean_y_dy = copied(part("mean_y_dy", mean(dy * y, others(x))), x)
            dx = cast((dy - mean_dy - y * mean_y_dy) * inverse, x.dtype)
            return dx, *(Constant(each, 0)() for each in statistics)

        return build(forward, [x, *statistics]), build(backward, [x, wide, wide, x])

    def evaluated(self, x: Var, running_mean: Var, running_variance: Var) -> Var:
        return (x - copied(running_mean, x)) * copied(self._rstd(running_variance), x)

    @classmethod
    def examples(cls) -> Examples:
        channels = NdArrayType((3,))
        return [(cls(), (NdArrayType(shape), channels, channels)) for shape in ((4, 3), (2, 3, 2, 3))]


batch_norm = BatchNorm()


def others(x: Var) -> Axes:
    """Return all axes but the channels."""
    return (0, *range(2, x.type.rank))


def copied(channels: Var, x: Var) -> Var:
    """Broadcast a number for each channel to the shape of x."""
    return broadcast(channels, x.shape, others(x))


def tracked(x: Var, mean_so_far: Var, variance_so_far: Var, momentum: float) -> tuple[Var, Var]:
    """Move running statistics towards those of a batch by `momentum`, the variance as n / (n - 1) · σ²."""
    _, variance = moments(x)
    wide = x.dtype.wide  # float16 cannot represent the size of a batch
    count = number_of(x.type.size, wide) / number_of(x.shape[1], wide)
    if isinstance(x.type.size, Dim):  # fixed sizes are checked when the layer is built
        [count] = Assume(1, several(x.type)).apply(count)
    unbiased = variance * broadcast(cast(count / (count - 1), x.dtype), variance.shape)
    return (
        (1 - momentum) * mean_so_far + momentum * mean(x, others(x)),
        (1 - momentum) * variance_so_far + momentum * unbiased,
    )


def several(x: NdArrayType) -> tuple[tuple[Size, int], ...]:
    """Return the requirement that each channel has two numbers or more."""
    return ((prod(size for axis, size in enumerate(x.shape) if axis != 1), 2),)


def moments(x: Var) -> tuple[Var, Var]:
    """Return x minus the mean of its channel, and the variance of each channel."""
    centred = part("centred", x - copied(part("mean", mean(x, others(x))), x))
    return centred, part("variance", mean(centred * centred, others(x)))

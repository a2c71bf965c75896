"""Convolution in any number of spatial axes: definitions over windows, closed under reverse.

Σ x[n, c, p · stride + k · dilation] · w[o, c, k] · y[n, o, p] is linear in each of x, w and y. Conv,
ConvTranspose and ConvWeight are its derivatives in y, x and w, so each is reversed by the other two.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from catgrad.dims import numbers
from catgrad.errors import OptionError
from catgrad.ops.contract import Contract
from catgrad.ops.convolution import Convolution, for_each_axis
from catgrad.ops.shape import Axes, permute, reshape
from catgrad.ops.slices import flip, slice
from catgrad.ops.window import Fold
from catgrad.terms.op import Examples, Types, floating
from catgrad.terms.var import Var
from catgrad.types import Array, NdArrayType

__all__ = ["conv", "conv_transpose"]

MOST_WORK = 1.25
"""The most multiplications of a transposed convolution as a convolution, relative to its own."""


class Conv(Convolution):
    """Cross-correlation: y[n, o, p] = Σ x[n, c, p · stride + k · dilation] · w[o, c, k].

    p and k range over positions and offsets in as many axes as `strides` has; x is padded with
    zeros on both sides; in `groups`, each part of the outputs sees its part of the inputs.

    Type:     (T[N, C, …], T[O, C / groups, …]) -> T[N, O, …] for floating T
    Raises:   ShapeError, OptionError
    Gradient: dx is the transposed convolution of dy with w, dw correlates x with dy
    """

    def type(self, x: NdArrayType, w: NdArrayType) -> Types:
        fits = x.rank == w.rank == self.rank and self.divides(x.shape[1], w.shape[0])
        fits = fits and x.shape[1] == w.shape[1] * self.groups
        self.require(fits, x, w, "[N, C, …] and [O, C / groups, …]")
        return floating(x).with_shape((x.shape[0], w.shape[0], *self.places(x.shape[2:], w.shape[2:])))

    def ref(self, x: Array, w: Array) -> Any:
        windows = self.windows_ref(x, w.shape[2:])
        kernels = w.reshape(self.groups, w.shape[0] // self.groups, w.shape[1], prod(w.shape[2:]))
        y = np.einsum("ngcpk,gock->ngop", windows, kernels, optimize=True)
        return y.reshape(x.shape[0], w.shape[0], *self.places(x.shape[2:], w.shape[2:]))

    def body(self, x: Var, w: Any) -> Var:
        windows = self.windows(x, w.shape[2:])
        of_windows, of_weights, of_outputs = self.labels
        y = Contract(of_windows, of_weights, of_outputs)(self.grouped(windows, 1), self.grouped(w, 0))
        return self.joined(y, 1)

    def rev(self, x: Any, w: Any, dy: Var) -> tuple[Var, Var]:
        dw = ConvWeight(self.strides, self.padding, self.dilations, self.groups, w.shape[2:])
        return _transpose(self, dy, w, x.shape[2:]), dw(x, dy)

    @classmethod
    def examples(cls) -> Examples:
        cases: list[tuple[Conv, Axes, Axes]] = [
            (Conv((1,), (0,), (1,), 1), (2, 3, 5), (4, 3, 2)),
            (Conv((2, 1), (1, 0), (1, 2), 1), (2, 3, 5, 6), (4, 3, 3, 2)),
            (Conv((1, 1), (1, 1), (1, 1), 2), (2, 4, 4, 3), (6, 2, 3, 3)),
            (Conv((2, 2), (0, 0), (1, 1), 1), (2, 3, 4, 6), (4, 3, 2, 2)),  # patches
        ]
        return [(op, (NdArrayType(x), NdArrayType(w))) for op, x, w in cases]


class ConvTranspose(Convolution):
    """Transposed convolution: y[n, c, i] = Σ x[n, o, p] · w[o, c, k] over p · stride + k · dilation = i.

    It takes what Conv gives to what Conv takes. `padding` is cut from both sides of y, and
    `output_padding` says by how much y is longer than the shortest image of as many positions.

    Type:     (T[N, O, …], T[O, C / groups, …]) -> T[N, C, …] for floating T
    Raises:   ShapeError; OptionError unless 0 ≤ output_padding < stride
    Gradient: dx is the convolution of dy with w, dw correlates dy with x
    Source:   Dumoulin and Visin 2016 (arXiv:1603.07285), section 4
    """

    output_padding: Axes
    result = "transposed"

    def __post_init__(self) -> None:
        super().__post_init__()
        same = len(self.output_padding) == len(self.strides)
        if not same or any(not 0 <= n < s for n, s in zip(self.output_padding, self.strides, strict=True)):
            raise OptionError(
                "each spatial axis must have an output padding of at least 0 and less than its stride",
                f"they are {self.output_padding} with strides {self.strides}",
                "choose others",
            )

    def type(self, x: NdArrayType, w: NdArrayType) -> Types:
        fits = x.rank == w.rank == self.rank and self.divides(x.shape[1]) and x.shape[1] == w.shape[0]
        self.require(fits and 0 not in x.shape[2:], x, w, "[N, O, …] and [O, C / groups, …]")
        sizes = self.image(x, w)
        self.require(min(sizes, default=0) >= 0, x, w, "large enough for the padding")
        return floating(x).with_shape((x.shape[0], w.shape[1] * self.groups, *sizes))

    def image(self, x: Array | Var | NdArrayType, w: Array | Var | NdArrayType) -> Axes:
        """Return the sizes of y."""
        shortest = self.shortest(x.shape[2:], w.shape[2:])
        return tuple(n + rest for n, rest in zip(shortest, self.output_padding, strict=True))

    def fold(self, x: Any, w: Any) -> Fold:
        """The Fold of windows to the padded image."""
        padded = tuple(n + 2 * p for n, p in zip(self.image(x, w), self.padding, strict=True))
        shape = (x.shape[0], w.shape[1] * self.groups, *padded)
        return Fold(shape, self.spatial, tuple(w.shape[2:]), self.strides, self.dilations)

    def ref(self, x: Array, w: Array) -> Any:
        fold = self.fold(x, w)
        n, o = x.shape[:2]
        outputs = x.reshape(n, self.groups, o // self.groups, int(np.prod(x.shape[2:])))
        kernels = w.reshape(self.groups, o // self.groups, w.shape[1], prod(w.shape[2:]))
        windows = np.einsum("ngop,gock->ngcpk", outputs, kernels, optimize=True)
        padded = fold.ref(windows.reshape(fold.windowed))
        inner: Any = [np.s_[p : p + size] for p, size in zip(self.padding, self.image(x, w), strict=True)]
        return padded[(..., *inner)]

    def body(self, x: Var, w: Var) -> Var:
        if self.is_convolution(x, w):
            padding = self.full_padding(w)
            return Conv(self.strides, padding, self.dilations, self.groups)(x, self.flipped(w))
        return self.scattered(x, w)

    def scattered(self, x: Var, w: Var) -> Var:
        """Return the sums of windows of products."""
        of_windows, of_weights, of_outputs = self.labels
        windows = Contract(of_outputs, of_weights, of_windows)(self.grouped(x, 1), self.grouped(w, 0))
        padded = self.fold(x, w)(self.joined(windows, 1))
        return slice(padded, (0, 0, *self.padding), (*padded.shape[:2], *self.image(x, w)))

    def full_padding(self, w: Any) -> Axes:
        """Return the padding of x with which its convolution by flipped weights is y: (k - 1) d - padding."""
        return tuple(
            (k - 1) * d - p for k, d, p in zip(w.shape[2:], self.dilations, self.padding, strict=True)
        )

    def is_convolution(self, x: Var, w: Var) -> bool:
        """Tell whether a convolution gives y with few multiplications more."""
        if (
            any(n != 1 for n in self.strides)
            or any(self.output_padding)
            or min(self.full_padding(w), default=0) < 0
        ):
            return False
        return prod(self.image(x, w)) <= MOST_WORK * prod(numbers(x.shape[2:]))

    def flipped(self, w: Var) -> Var:
        """Return the weights [C, O / groups, …], reversed along the spatial axes."""
        o, c, *sizes = w.shape
        split = reshape(w, self.groups, o // self.groups, c, *sizes)
        swapped = permute(split, 0, 2, 1, *range(3, 3 + len(sizes)))
        return flip(reshape(swapped, self.groups * c, o // self.groups, *sizes), self.spatial)

    def rev(self, x: Any, w: Any, dy: Var) -> tuple[Var, Var]:
        attributes = self.strides, self.padding, self.dilations, self.groups
        return Conv(*attributes)(dy, w), ConvWeight(*attributes, w.shape[2:])(dy, x)

    @classmethod
    def examples(cls) -> Examples:
        cases: list[tuple[ConvTranspose, Axes, Axes]] = [
            (ConvTranspose((1,), (0,), (1,), 1, (0,)), (2, 4, 4), (4, 3, 2)),
            (ConvTranspose((2, 1), (1, 0), (1, 2), 1, (1, 0)), (2, 4, 3, 4), (4, 3, 3, 2)),
            (ConvTranspose((1, 2), (1, 1), (1, 1), 2, (0, 1)), (2, 6, 4, 3), (6, 2, 3, 3)),
        ]
        return [(op, (NdArrayType(x), NdArrayType(w))) for op, x, w in cases]


class ConvWeight(Convolution):
    """Weights from an image and its convolution: w[o, c, k] = Σ x[n, c, p · s + k · d] · y[n, o, p].

    It is the gradient of Conv in its weights, whose spatial axes have these sizes; s are the strides, d
    the dilations.

    Type:     (T[N, C, …], T[N, O, …]) -> T[O, C / groups, sizes] for floating T
    Raises:   ShapeError, OptionError
    Gradient: dx is the transposed convolution of y with dw, dy the convolution of x with dw
    """

    sizes: Axes
    result = "weights"

    def type(self, x: NdArrayType, y: NdArrayType) -> Types:
        fits = x.rank == y.rank == self.rank == len(self.sizes) + 2 and x.shape[0] == y.shape[0]
        fits = fits and self.divides(x.shape[1], y.shape[1])
        fits = fits and self.places(x.shape[2:], self.sizes) == y.shape[2:]
        self.require(fits, x, y, "[N, C, …] and its convolution [N, O, …]")
        return floating(x).with_shape((y.shape[1], x.shape[1] // self.groups, *self.sizes))

    def ref(self, x: Array, y: Array) -> Any:
        n, o = y.shape[:2]
        outputs = y.reshape(n, self.groups, o // self.groups, int(np.prod(y.shape[2:])))
        w = np.einsum("ngcpk,ngop->gock", self.windows_ref(x, self.sizes), outputs, optimize=True)
        return w.reshape(o, x.shape[1] // self.groups, *self.sizes)

    def body(self, x: Var, y: Var) -> Var:
        windows = self.windows(x, self.sizes)
        of_windows, of_weights, of_outputs = self.labels
        w = Contract(of_outputs, of_windows, of_weights)(self.grouped(y, 1), self.grouped(windows, 1))
        return self.joined(w, 0)

    def rev(self, x: Any, y: Var, dw: Var) -> tuple[Var, Var]:
        conv = Conv(self.strides, self.padding, self.dilations, self.groups)
        return _transpose(self, y, dw, x.shape[2:]), conv(x, dw)

    @classmethod
    def examples(cls) -> Examples:
        return [
            (
                ConvWeight(op.strides, op.padding, op.dilations, op.groups, numbers(w.shape[2:])),
                (x, op.outputs(x, w)[0]),
            )
            for op, (x, w) in Conv.examples()
            if isinstance(op, Conv)
        ]


def conv(
    x: Var, w: Var, stride: int | Axes = 1, padding: int | Axes = 0, dilation: int | Axes = 1, groups: int = 1
) -> Var:
    """y[n, o, p] = Σ x[n, c, p · stride + k · dilation] · w[o, c, k], in as many axes as x has beyond two."""
    s, p, d = (for_each_axis(each, x.type.rank - 2) for each in (stride, padding, dilation))
    return Conv(s, p, d, groups)(x, w)


def conv_transpose(
    x: Var,
    w: Var,
    stride: int | Axes = 1,
    padding: int | Axes = 0,
    output_padding: int | Axes = 0,
    groups: int = 1,
    dilation: int | Axes = 1,
) -> Var:
    """y[n, c, i] = Σ x[n, o, p] · w[o, c, k] over p · stride + k · dilation = i, the transpose of conv."""
    spatial = x.type.rank - 2
    s, p, d = (for_each_axis(each, spatial) for each in (stride, padding, dilation))
    return ConvTranspose(s, p, d, groups, for_each_axis(output_padding, spatial))(x, w)


def _transpose(op: Convolution, y: Var, w: Var, image: Axes) -> Var:
    """Return the transposed convolution of y that gives an image of these sizes."""
    shortest = op.shortest(y.shape[2:], w.shape[2:])
    rest = tuple(n - size for n, size in zip(image, shortest, strict=True))
    return ConvTranspose(op.strides, op.padding, op.dilations, op.groups, rest)(y, w)

"""Common parts of convolution, its transpose and the gradient of its weights: padded windows in groups."""

from __future__ import annotations

import numpy as np

from catgrad.dims import Size, numbers
from catgrad.errors import OptionError, ShapeError
from catgrad.ops.shape import Axes, Shape, reshape
from catgrad.ops.slices import pad
from catgrad.ops.window import Window, positions, window
from catgrad.terms.op import Op
from catgrad.terms.var import Var
from catgrad.types import Array, NdArrayType


class Convolution(Op, register=False):
    """Windows of an image that is padded with zeros on both sides, and channels in groups."""

    strides: Axes
    padding: Axes
    dilations: Axes
    groups: int
    multilinear = True
    contracts = True

    def __post_init__(self) -> None:
        lengths = {len(self.strides), len(self.padding), len(self.dilations)}
        positive = min((*self.strides, *self.dilations, self.groups)) > 0 <= min(self.padding, default=0)
        if len(lengths) > 1 or not positive:
            raise OptionError(
                "strides, dilations and groups must be at least 1, padding at least 0, for each spatial axis",
                f"they are {self}",
                "choose others",
            )

    @property
    def spatial(self) -> Axes:
        """The axes that windows move along."""
        return tuple(range(2, 2 + len(self.strides)))

    @property
    def labels(self) -> tuple[Axes, Axes, Axes]:
        """The labels of windows, weights and outputs: batch, group, channel, output, positions, offsets."""
        n, g, c, o, *rest = range(4 + 2 * len(self.strides))
        p, k = rest[: len(self.strides)], rest[len(self.strides) :]
        group = (g,) if self.groups > 1 else ()
        return (n, *group, c, *p, *k), (*group, o, c, *k), (n, *group, o, *p)

    @property
    def rank(self) -> int:
        """The number of axes of every array."""
        return 2 + len(self.strides)

    def divides(self, *channels: Size) -> bool:
        """Return whether each group gets as many of these channels."""
        return all(isinstance(count, int) and count % self.groups == 0 for count in channels)

    def require(self, fits: bool, x: NdArrayType, y: NdArrayType, shapes: str) -> None:
        """Raise ShapeError unless the arrays fit, and have one dtype."""
        if not fits or x.dtype is not y.dtype:
            raise ShapeError(
                f"the arrays must be {shapes} of one dtype, in {len(self.strides)} spatial axes"
                f" and {self.groups} groups",
                f"they are {x} and {y}",
                "choose other channels, sizes or groups",
            )

    def places(self, image: Shape, sizes: Shape) -> Axes:
        """Return the number of windows along each spatial axis of the image. Raises: ShapeError."""
        each = zip(numbers(image), numbers(sizes), self.strides, self.padding, self.dilations, strict=True)
        return tuple(positions(n + 2 * p, k, s, d) for n, k, s, p, d in each)

    def windows(self, x: Var, sizes: Axes) -> Var:
        """Return the windows of the padded image."""
        padded = pad(x, [(0, 0), (0, 0), *((p, p) for p in self.padding)])
        return window(padded, self.spatial, sizes, self.strides, self.dilations)

    def windows_ref(self, x: Array, sizes: Axes) -> Array:
        """Return the same on arrays: [n, group, c, position, offset]."""
        padded = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in self.padding)])
        windows = Window(padded.shape, self.spatial, sizes, self.strides, self.dilations).ref(padded)
        n, c = x.shape[:2]
        count = int(np.prod(windows.shape[2 : 2 + len(sizes)]))
        split: Array = windows.reshape(n, self.groups, c // self.groups, count, int(np.prod(sizes)))
        return split

    def grouped(self, x: Var, axis: int) -> Var:
        """Split the channels of x into groups, if there are several."""
        if self.groups == 1:
            return x
        shape = x.shape
        return reshape(x, *shape[:axis], self.groups, shape[axis] // self.groups, *shape[axis + 1 :])

    def joined(self, x: Var, axis: int) -> Var:
        """Join the channels of all groups of x."""
        if self.groups == 1:
            return x
        shape = x.shape
        return reshape(x, *shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :])

    def shortest(self, places: Shape, sizes: Shape) -> Axes:
        """Return the least size of an image with n windows: (n - 1) s + (k - 1) d + 1 - 2 p."""
        each = zip(numbers(places), numbers(sizes), self.strides, self.padding, self.dilations, strict=True)
        return tuple((n - 1) * s + (k - 1) * d + 1 - 2 * p for n, k, s, p, d in each)


def for_each_axis(value: int | Axes, count: int) -> Axes:
    """Return a value for each spatial axis; one value stands for all. Raises: OptionError."""
    values = (value,) * count if isinstance(value, int) else tuple(value)
    if len(values) != count:
        raise OptionError(
            f"there must be one value, or one for each of {count} spatial axes",
            f"there are {values}",
            "pass one for each axis",
        )
    return values

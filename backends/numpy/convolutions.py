"""Memory-efficient convolution: windows are copied along all spatial axes but the first.

The pixels under one row of all windows are a stretch of that copy. Thus a convolution is a sum of matrix
products, one for each row of the windows, of a copy that is as many times smaller than all windows.

Source: Cho and Brand 2017 (arXiv:1706.06873)
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from catgrad.dims import exact_quotient, numbers
from catgrad.ops.conv import Conv, ConvTranspose, ConvWeight
from catgrad.ops.convolution import Convolution
from catgrad.ops.shape import Axes, Permute, Reshape, Shape
from catgrad.ops.window import positions
from catgrad.programs.passes.prune import prune
from catgrad.programs.passes.rewrite import Rewriter, Values
from catgrad.programs.program import Apply, Function
from catgrad.terms.op import Op

CONVOLUTIONS = frozenset({"Conv", "ConvTranspose", "ConvWeight"})
"""The operations that the pass replaces."""


class Lowered(Op, register=False):
    """Copy of the windows along all spatial axes but the first: [N, C, offsets, phases · rows · places].

    With stride s along the first axis, the rows 0, s, 2 s, … come first, then 1, s + 1, ….
    """

    sizes: Axes
    strides: Axes
    padding: Axes
    dilations: Axes
    result = "lowered"


class SumOfProducts(Op, register=False):
    """Convolution of a lowered image, in which the rows of each offset begin at `starts`."""

    starts: Axes
    result = "convolved"


class WeightsOfProducts(Op, register=False):
    """Gradient of the weights of a SumOfProducts."""

    starts: Axes
    result = "weights"


class Raised(Op, register=False):
    """Transposed convolution, in which the rows of each offset begin at `starts`."""

    strides: Axes
    padding: Axes
    dilations: Axes
    starts: Axes
    result = "transposed"


def lowered_convolutions(function: Function) -> Function:
    """Print convolutions, their transposes, and gradients of weights as matrix products of lowered images."""
    if not any(isinstance(step.op, Convolution) for step in function.body):
        return function
    return prune(Rewriter(function).sweep(_lower))


@dataclass(frozen=True)
class Geometry:
    """Windows of a padded image in at least two spatial axes; a sequence is an image of one row."""

    image: Axes
    sizes: Axes
    strides: Axes
    padding: Axes
    dilations: Axes

    @classmethod
    def of(cls, op: Convolution, image: Shape, sizes: Shape) -> Geometry:
        """Return the windows of these sizes in such an image."""
        more = 2 - min(len(sizes), 2)
        ones, zeros = (1,) * more, (0,) * more
        return cls(
            ones + numbers(image),
            ones + numbers(sizes),
            ones + op.strides,
            zeros + op.padding,
            ones + op.dilations,
        )

    @property
    def places(self) -> Axes:
        """The number of windows along each axis."""
        each = zip(self.image, self.sizes, self.strides, self.padding, self.dilations, strict=True)
        return tuple(positions(n + 2 * p, k, s, d) for n, k, s, p, d in each)

    @property
    def rows(self) -> int:
        """The number of rows of each phase."""
        return -(-(self.image[0] + 2 * self.padding[0]) // self.strides[0])

    def starts(self, pixels: Axes) -> Axes:
        """Return the place of the first row under each offset, for rows of as many pixels."""
        offsets = (k * self.dilations[0] for k in range(self.sizes[0]))
        each = (divmod(offset, self.strides[0]) for offset in offsets)
        return tuple((phase * self.rows + row) * prod(pixels[1:]) for row, phase in each)

    @property
    def is_trivial(self) -> bool:
        """Tell whether the lowered image is the image."""
        return {*self.sizes[1:], *self.strides} == {1} and not any(self.padding)


def _lower(rewriter: Rewriter, apply: Apply) -> Values | None:
    if not isinstance(apply.op, Convolution):
        return None
    (x, y), (output,) = apply.inputs, apply.outputs
    spell = {Conv: _conv, ConvTranspose: _transpose, ConvWeight: _weight}[type(apply.op)]
    return (spell(rewriter, apply.op, x, y, rewriter.types[output].shape),)


def _conv(rewriter: Rewriter, conv: Convolution, x: int, w: int, shape: Shape) -> int:
    type, weights = rewriter.types[x], rewriter.types[w].shape
    geometry = Geometry.of(conv, type.shape[2:], weights[2:])
    lowered = _lowered(rewriter, geometry, x)
    w = _reshaped(rewriter, w, (*weights[:2], *geometry.sizes))
    op = SumOfProducts(geometry.starts(geometry.places))
    return rewriter.apply_as(type.with_shape(shape), op, lowered, w)


def _weight(rewriter: Rewriter, op: Convolution, x: int, dy: int, shape: Shape) -> int:
    geometry = Geometry.of(op, rewriter.types[x].shape[2:], shape[2:])
    lowered = _lowered(rewriter, geometry, x)
    whole = rewriter.types[x].with_shape((*shape[:2], *geometry.sizes))
    starts = geometry.starts(geometry.places)
    return _reshaped(rewriter, rewriter.apply_as(whole, WeightsOfProducts(starts), lowered, dy), shape)


def _transpose(rewriter: Rewriter, op: Convolution, x: int, w: int, shape: Shape) -> int:
    type, weights = rewriter.types[x], rewriter.types[w].shape
    geometry = Geometry.of(op, shape[2:], weights[2:])
    if geometry.is_trivial and geometry.sizes[0] == 1:
        return _conv(rewriter, op, x, _swapped(rewriter, w, op.groups), shape)
    x = _reshaped(rewriter, x, (*type.shape[:2], *geometry.places))
    w = _reshaped(rewriter, w, (*weights[:2], *geometry.sizes))
    fields = geometry.strides, geometry.padding, geometry.dilations, geometry.starts(geometry.image)
    raised = rewriter.apply_as(type.with_shape((*shape[:2], *geometry.image)), Raised(*fields), x, w)
    return _reshaped(rewriter, raised, shape)


def _swapped(rewriter: Rewriter, w: int, groups: int) -> int:
    """Exchange inputs and outputs in each group of weights."""
    outputs, inputs, *sizes = rewriter.types[w].shape
    parts = _reshaped(rewriter, w, (groups, exact_quotient(outputs, groups), inputs, *sizes))
    swapped = rewriter.apply(Permute((0, 2, 1, *range(3, 3 + len(sizes)))), parts)
    return _reshaped(rewriter, swapped, (groups * inputs, exact_quotient(outputs, groups), *sizes))


def _lowered(rewriter: Rewriter, geometry: Geometry, x: int) -> int:
    type = rewriter.types[x]
    places = geometry.strides[0] * geometry.rows * prod(geometry.places[1:])
    shape = (*type.shape[:2], prod(geometry.sizes[1:]), places)
    if geometry.is_trivial:
        return _reshaped(rewriter, x, shape)
    image = _reshaped(rewriter, x, (*type.shape[:2], *geometry.image))
    op = Lowered(geometry.sizes, geometry.strides, geometry.padding, geometry.dilations)
    return rewriter.apply_as(type.with_shape(shape), op, image)


def _reshaped(rewriter: Rewriter, value: int, shape: Shape) -> int:
    before = rewriter.types[value].shape
    return value if before == shape else rewriter.apply(Reshape(before, shape), value)

"""Convolution and pooling along symbolic axes: windows are gathered, as their number is no number."""

from __future__ import annotations

from typing import Any

from catgrad import ops
from catgrad.dims import Dim, Size, divided, product
from catgrad.frontends.torch.aten.parts import pad
from catgrad.frontends.torch.registry import require
from catgrad.ops.contract import Contract
from catgrad.ops.conv import Conv, ConvTranspose
from catgrad.ops.shape import Axes
from catgrad.terms.structural import Assume, Constant
from catgrad.terms.var import Var


def is_symbolic(x: Var, spatial: int) -> bool:
    """Return whether one of the last axes has a symbolic size."""
    return any(isinstance(size, Dim) for size in x.shape[x.type.rank - spatial :])


def convolved(x: Var, w: Any, op: Conv) -> Var:
    """Convolution of x : [N, C, …], as the definition of `op` but with gathered windows."""
    every = windows(x, 0, w.shape[2:], op.strides, op.padding, op.dilations)
    of_windows, of_weights, of_outputs = op.labels
    y = Contract(of_windows, of_weights, of_outputs)(op.grouped(every, 1), op.grouped(w, 0))
    return op.joined(y, 1)


def transposed(x: Var, w: Var, op: ConvTranspose) -> Var:
    """Transposed convolution of x : [N, O, …]: convolution, by reversed weights, of x with zeros between."""
    margins = []
    for k, (stride, padding, rest) in enumerate(zip(op.strides, op.padding, op.output_padding, strict=True)):
        x = _spread(x, 2 + k, stride)
        edge = (w.shape[2 + k] - 1) * op.dilations[k] - padding
        margins.append((edge, edge + rest))
    padded = pad(x, [margin for pair in reversed(margins) for margin in pair])
    ones, zeros = (1,) * len(op.strides), (0,) * len(op.strides)
    return convolved(padded, op.flipped(w), Conv(ones, zeros, op.dilations, op.groups))


def averages(x: Var, sizes: Axes, strides: Axes, padding: Axes, counts_padding: bool) -> Var:
    """Means of windows, of which the padding counts or not."""
    geometry = (sizes, strides, padding, (1,) * len(sizes))
    mean = _mean(windows(x, 0, *geometry), len(sizes))
    return mean if counts_padding else mean / _mean(windows(Constant(x.type, 1)(), 0, *geometry), len(sizes))


def greatest(every: Var, spatial: int) -> Var:
    """Return the greatest element of each window, of which the first gets the gradient, as in PyTorch."""
    flat = _flat(every, spatial)
    place = ops.expand_dims(ops.argmax(ops.stop_gradient(flat)), flat.type.rank - 1)
    return ops.squeeze(ops.take_along_axis(flat, place, -1), -1)


def over_all(x: Var, sizes: Axes, is_greatest: bool) -> Var:
    """Return the greatest element, or the mean, of each image, in axes of size 1."""
    spatial = len(sizes)
    require(
        set(sizes) == {1},
        "adaptive pooling along a symbolic axis must have one bin along each axis",
        f"it has {sizes}",
        "leave the axis out of `dynamic`",
    )
    y = greatest(x, spatial) if is_greatest else _mean(x, spatial)
    return ops.expand_dims(y, range(y.type.rank, x.type.rank))


def windows(x: Var, filler: float, sizes: Axes, strides: Axes, padding: Axes, dilations: Axes) -> Var:
    """Return the windows of the padded last axes of x, with the axes within a window last, by `gather`."""
    x = pad(x, [margin for p in reversed(padding) for margin in (p, p)], filler)
    lead = x.type.rank - len(sizes)
    for k, (size, stride, dilation) in reversed(list(enumerate(zip(sizes, strides, dilations, strict=True)))):
        axis, count = lead + k, _count(x.shape[lead + k], size, stride, dilation)
        if isinstance(count, Dim):
            x = Assume(1, ((count, 1),))(x)
        table = (count, size)
        starts, offsets = ops.iota(count) * stride, ops.iota(size) * dilation
        places = ops.broadcast(starts, table, [1]) + ops.broadcast(offsets, table, [0])
        rows = ops.take(x, ops.reshape(places, count * size), axis)
        x = ops.reshape(rows, *x.shape[:axis], count, size, *x.shape[axis + 1 :])
    order = (*range(lead), *range(lead, x.type.rank, 2), *range(lead + 1, x.type.rank, 2))
    return ops.permute(x, *order)


def _flat(every: Var, spatial: int) -> Var:
    """Return windows with their elements along one axis."""
    rank = every.type.rank - spatial
    return ops.reshape(every, *every.shape[:rank], product(every.shape[rank:]))


def _mean(every: Var, spatial: int) -> Var:
    return ops.mean(_flat(every, spatial), -1)


def _count(length: Size, size: int, stride: int, dilation: int) -> Size:
    """Return the number of windows along an axis."""
    free = length - (size - 1) * dilation - 1
    steps = divided(free, stride) if isinstance(free, Dim) else free // stride
    require(
        steps is not None,
        "the number of windows along a symbolic axis must be a polynomial in its size, as with stride 1",
        f"the stride is {stride} along {length} elements",
        "leave the axis out of `dynamic`",
    )
    return steps + 1  # type: ignore[operator]


def _spread(x: Var, axis: int, stride: int) -> Var:
    """Insert zeros between the elements along an axis: stride - 1 after each but the last."""
    if stride == 1:
        return x
    whole = ops.expand_dims(x, axis + 1)
    zeros = Constant(whole.type.with_shape((*x.shape[: axis + 1], stride - 1, *x.shape[axis + 1 :])), 0)()
    joined = ops.concat([whole, zeros], axis + 1)
    flat = ops.reshape(joined, *x.shape[:axis], x.shape[axis] * stride, *x.shape[axis + 1 :])
    margins = [0, 0] * (x.type.rank - axis)
    margins[-1] = 1 - stride
    return pad(flat, margins)

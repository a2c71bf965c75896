"""Rearrangements: rolls, rotations, shuffles, sliding windows, and padding with elements of x."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from catgrad import ops
from catgrad.dims import Dim, Size
from catgrad.frontends.torch.aten.images import Numbers, each
from catgrad.frontends.torch.aten.operands import at, axes_of
from catgrad.frontends.torch.aten.parts import along, place_of
from catgrad.frontends.torch.registry import aten
from catgrad.ops.window import Fold
from catgrad.terms.var import Var


@aten("roll.default")
def roll(x: Var, shifts: Numbers, dims: Numbers = ()) -> Var:
    """Shift the elements along axes; those that leave at the end come in at the start."""
    axes, counts = axes_of(x, dims) if dims or dims == 0 else (), each(shifts, 1)
    if not axes:
        return ops.reshape(roll(ops.reshape(x, -1), counts, [0]), *x.shape)
    for axis, shift in zip(axes, counts, strict=True):
        size = x.shape[axis]
        cut = -shift % size if size and isinstance(size, int) else 0
        if isinstance(size, Dim):
            x = ops.take(x, _shifted(size, shift), axis)
        elif cut:
            x = ops.concat([along(x, axis, cut, size - cut), along(x, axis, 0, cut)], axis)
    return x


def _shifted(size: Dim, shift: int) -> Var:
    """Return the places that the elements of a symbolic axis are read from: (i - shift) mod size."""
    places = ops.iota(size)
    return (places - shift) % at(size, places.shape, places.dtype)


@aten("rot90.default")
def rotate(x: Var, k: int = 1, dims: tuple[int, int] = (0, 1)) -> Var:
    """Rotate by k quarter turns from the first towards the second axis."""
    first, second = axes_of(x, list(dims))
    flipped = {0: [], 1: [second], 2: [first, second], 3: [first]}[k % 4]
    x = ops.flip(x, flipped) if flipped else x
    order = list(range(x.type.rank))
    order[first], order[second] = second, first
    return ops.permute(x, *order) if k % 2 else x


@aten("transpose.int")
def transpose(x: Var, dim0: int, dim1: int) -> Var:
    """Exchange two axes."""
    order = list(range(x.type.rank))
    if order:
        order[dim0], order[dim1] = order[dim1], order[dim0]
    return ops.permute(x, *order)


aten("t.default")(lambda x: transpose(x, 0, -1))


@aten("pixel_shuffle.default")
def pixel_shuffle(x: Var, r: int) -> Var:
    """Rearrange channels to pixels: [*, C r², H, W] → [*, C, H r, W r]."""
    *lead, c, h, w = x.shape
    n = len(lead)
    blocks = ops.reshape(x, *lead, c // r**2, r, r, h, w)
    return ops.reshape(
        ops.permute(blocks, *range(n + 1), n + 3, n + 1, n + 4, n + 2), *lead, c // r**2, h * r, w * r
    )


@aten("pixel_unshuffle.default")
def pixel_unshuffle(x: Var, r: int) -> Var:
    """Rearrange pixels to channels: [*, C, H r, W r] → [*, C r², H, W]."""
    *lead, c, h, w = x.shape
    n = len(lead)
    blocks = ops.reshape(x, *lead, c, h // r, r, w // r, r)
    return ops.reshape(
        ops.permute(blocks, *range(n + 1), n + 2, n + 4, n + 1, n + 3), *lead, c * r**2, h // r, w // r
    )


@aten("channel_shuffle.default", "native_channel_shuffle.default")
def channel_shuffle(x: Var, groups: int) -> Var:
    """Interleave the channels of groups: channel k of group g becomes channel k · groups + g."""
    batch, channels, *rest = x.shape
    grouped = ops.reshape(x, batch, groups, channels // groups, *rest)
    return ops.reshape(ops.permute(grouped, 0, 2, 1, *range(3, 3 + len(rest))), *x.shape)


@aten("unfold.default")
def unfold(x: Var, dimension: int, size: int, step: int) -> Var:
    """Windows along one axis, with the places within a window as last axis."""
    return ops.window(x, axes_of(x, dimension), (size,), (step,), (1,))


@aten("unfold_backward.default")
def overlapped(x: Var, input_sizes: list[int], dim: int, size: int, step: int) -> Var:
    """Add up windows along one axis where they overlap: the transpose of unfold."""
    fold = Fold(tuple(input_sizes), (dim % len(input_sizes),), (size,), (step,), (1,))
    return fold(ops.broadcast_to(x, fold.windowed))


@aten("im2col.default")
def columns(x: Var, kernel_size: Numbers, dilation: Numbers, padding: Numbers, stride: Numbers) -> Var:
    """Windows of images as columns: [N, C, H, W] → [N, C · kh · kw, windows]."""
    if x.type.rank == 3:
        one = columns(ops.expand_dims(x, 0), kernel_size, dilation, padding, stride)
        return ops.squeeze(one, 0)
    k, d, p, s = (each(n, 2) for n in (kernel_size, dilation, padding, stride))
    padded = ops.pad(x, [(0, 0), (0, 0), *((n, n) for n in p)])
    windows = ops.permute(ops.window(padded, (2, 3), k, s, d), 0, 1, 4, 5, 2, 3)
    n, c, *_, h, w = windows.shape
    return ops.reshape(windows, n, c * prod(k), h * w)


@aten("col2im.default")
def image(
    x: Var, output_size: Numbers, kernel_size: Numbers, dilation: Numbers, padding: Numbers, stride: Numbers
) -> Var:
    """Add up columns where their windows overlap: the transpose of im2col."""
    if x.type.rank == 2:
        one = image(ops.expand_dims(x, 0), output_size, kernel_size, dilation, padding, stride)
        return ops.squeeze(one, 0)
    size, k, d, p, s = (each(n, 2) for n in (output_size, kernel_size, dilation, padding, stride))
    batch, channels = x.shape[0], x.shape[1] // prod(k)
    whole = tuple(n + 2 * m for n, m in zip(size, p, strict=True))
    fold = Fold((batch, channels, *whole), (2, 3), k, s, d)
    places = fold.windowed[2:4]
    windows = ops.permute(ops.reshape(x, batch, channels, *k, *places), 0, 1, 4, 5, 2, 3)
    return ops.slice(fold(windows), (0, 0, *p), (batch, channels, *size))


Ends = Callable[[Var, int, int, int], tuple[Var, ...]]
"""A function that returns the parts before and after an axis, by their sizes."""


def _padded(x: Var, margins: list[int], ends: Ends) -> Var:
    """Pad the last axes with their `ends`; the last axis has the first margins."""
    for k, (before, after) in enumerate(zip(margins[::2], margins[1::2], strict=True)):
        axis = x.type.rank - 1 - k
        cut = [max(0, -before), max(0, -after)]
        x = along(x, axis, cut[0], x.shape[axis] - sum(cut)) if any(cut) else x
        first, last = ends(x, axis, max(0, before), max(0, after))
        x = ops.concat([*([first] if before > 0 else []), x, *([last] if after > 0 else [])], axis)
    return x


@aten("reflection_pad1d.default", "reflection_pad2d.default", "reflection_pad3d.default")
def reflection_pad(x: Var, padding: list[int]) -> Var:
    """Pad with the elements next to the ends, in reversed order."""

    def ends(x: Var, axis: int, before: int, after: int) -> tuple[Var, ...]:
        first = along(x, axis, 1, before)
        last = along(x, axis, x.shape[axis] - 1 - after, after)
        return ops.flip(first, axis), ops.flip(last, axis)

    return _padded(x, padding, ends)


@aten("replication_pad1d.default", "replication_pad2d.default", "replication_pad3d.default")
def replication_pad(x: Var, padding: list[int]) -> Var:
    """Pad with copies of the elements at the ends."""

    def ends(x: Var, axis: int, before: int, after: int) -> tuple[Var, ...]:
        return tuple(
            _copies(along(x, axis, start, 1), axis, count)
            for start, count in ((0, before), (x.shape[axis] - 1, after))
        )

    return _padded(x, padding, ends)


def _copies(x: Var, axis: int, count: int) -> Var:
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    return ops.broadcast(ops.squeeze(x, axis), shape, [axis])


@aten("narrow_copy.default")
def narrow(x: Var, dim: int, start: Size, length: Size) -> Var:
    """Slice a block along one axis."""
    (axis,) = axes_of(x, dim)
    return along(x, axis, place_of(x.shape[axis], start), length)


@aten("repeat_interleave.self_int")
def repeat_each(x: Var, repeats: int, dim: int | None = None, output_size: int | None = None) -> Var:
    """Repeat each element along an axis."""
    x, axis = (ops.reshape(x, -1), 0) if dim is None or not x.type.rank else (x, axes_of(x, dim)[0])
    copies = ops.broadcast(x, (*x.shape[: axis + 1], repeats, *x.shape[axis + 1 :]), [axis + 1])
    return ops.reshape(copies, *x.shape[:axis], x.shape[axis] * repeats, *x.shape[axis + 1 :])


@aten("stack.default")
def stack(tensors: list[Var], dim: int = 0) -> Var:
    """Stack arrays along a new axis."""
    return ops.stack(tensors, dim % (tensors[0].type.rank + 1))

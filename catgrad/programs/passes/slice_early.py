"""Slicing before computing: a slice moves to the operands of an operation, which then computes less.

A slice of a product is the product of slices, so the gradient of a slice of a weight costs no more than that.
"""

from __future__ import annotations

from catgrad.dims import Size
from catgrad.ops.contract import Contract
from catgrad.ops.reduce import Broadcast, Sum
from catgrad.ops.shape import Permute, Reshape
from catgrad.ops.slices import Slice
from catgrad.programs.passes.rewrite import Rewriter, Values
from catgrad.programs.program import Apply, Function
from catgrad.terms.op import Op

Block = tuple[tuple[int, Size], ...]
"""The start and the size of a slice along each axis."""


def slice_early(function: Function) -> Function:
    """Move each slice that is the only reader of a value before the operation that computes it."""
    uses = function.uses()

    def move(rewriter: Rewriter, apply: Apply) -> Values | None:
        op, inputs, _ = apply
        if not isinstance(op, Slice) or inputs[0] >= len(uses) or uses[inputs[0]] != 1:
            return None
        inner = rewriter.producer.get(inputs[0])
        if inner is None or (moved := _moved(rewriter, op, inner)) is None:
            return None
        instead, blocks = moved
        operands = (_sliced(rewriter, v, b) for v, b in zip(inner.inputs, blocks, strict=True))
        result = rewriter.apply(instead, *operands)
        if inputs[0] in rewriter.names:
            rewriter.name(result, rewriter.names[inputs[0]])
        return (result,)

    return Rewriter(function).sweep(move)


def _moved(rewriter: Rewriter, op: Slice, inner: Apply) -> tuple[Op, list[Block]] | None:
    """Return the operation that computes only the slice, and the slices of operands that it reads."""
    block, instead = tuple(zip(op.starts, op.sizes, strict=True)), inner.op
    whole = [_whole(rewriter.types[value].shape) for value in inner.inputs]
    match instead:
        case Contract():
            by_label = dict(zip(instead.out, block, strict=True))
            return instead, [
                tuple(by_label.get(label, place) for label, place in zip(labels, each, strict=True))
                for labels, each in zip((instead.left, instead.right), whole, strict=True)
            ]
        case Permute():
            return instead, [tuple(block[instead.order.index(axis)] for axis in range(len(block)))]
        case Broadcast():
            kept = tuple(place for axis, place in enumerate(block) if axis not in instead.axes)
            return Broadcast(op.sizes, instead.axes), [kept]
        case Reshape() if (read := _before(instead, block)) is not None:
            return Reshape(tuple(size for _, size in read), op.sizes), [read]
        case Sum():
            left = iter(block)
            read = tuple(w if axis in instead.axes else next(left) for axis, w in enumerate(whole[0]))
            return Sum(tuple(size for _, size in read), instead.axes), [read]
    if instead.elementwise and inner.inputs and not instead.may_fail:
        return instead, [block] * len(inner.inputs)
    return None


def _before(reshape: Reshape, block: Block) -> Block | None:
    """Return a slice before a reshape that adds or removes axes of size 1; None for others."""
    lengths = [[size for size in shape if size != 1] for shape in (reshape.before, reshape.after)]
    added = [place for place, size in zip(block, reshape.after, strict=True) if size == 1]
    if lengths[0] != lengths[1] or any(place != (0, 1) for place in added):
        return None
    left = iter(place for place, size in zip(block, reshape.after, strict=True) if size != 1)
    return tuple((0, 1) if size == 1 else next(left) for size in reshape.before)


def _sliced(rewriter: Rewriter, value: int, block: Block) -> int:
    """Return a slice of a value; the value itself, if the slice is all of it."""
    shape = rewriter.types[value].shape
    if block == _whole(shape):
        return value
    starts, sizes = (tuple(parts) for parts in zip(*block, strict=True))
    return rewriter.apply(Slice(shape, starts, sizes), value)


def _whole(shape: tuple[Size, ...]) -> Block:
    return tuple((0, size) for size in shape)

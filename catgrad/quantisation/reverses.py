"""Images of operations that reverse derivatives consist of: cotangents with weights, activations and masks.

A cotangent is symmetric, so 0 is its level 0. Where it is summed with weights over their outputs, it has been
divided by the scales of these, so that one scale is that of the sum, and weights have one array of levels.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf, prod
from typing import TYPE_CHECKING

import numpy as np

from catgrad import ops
from catgrad.dims import Size, product
from catgrad.ops.compare import Select
from catgrad.ops.contract import Contract
from catgrad.ops.conv import Conv, ConvTranspose, ConvWeight
from catgrad.ops.quantised import LEAST
from catgrad.ops.reduce import Broadcast, Sum
from catgrad.ops.window import Fold
from catgrad.programs.program import Apply
from catgrad.quantisation.affine import LEVELS
from catgrad.quantisation.backward import divisor
from catgrad.quantisation.totals import Place, centred, is_within_int32, scaled
from catgrad.quantisation.values import Eight, Known, Map, Plain, Sums, Trained, Value
from catgrad.terms.op import Op
from catgrad.terms.structural import Constant
from catgrad.terms.var import Var
from catgrad.types import Array, Dtype

if TYPE_CHECKING:
    from catgrad.quantisation.functor import Quantiser

BIAS_GROWTH = 2
"""The ratio of the greatest bias that is not clamped in training to that before."""


def contract_arrays(q: Quantiser, op: Contract, x: int, y: int, count: Size) -> Sums | None:
    """Sum products of two int8 arrays, as the gradient of a weight does, with both zero points subtracted."""
    dtype, bound = _accumulator(count)
    if dtype is Dtype.int64 and q.backward.wires.isdisjoint((x, y)):
        return None
    left, right = (_keeping(q, wire, axes, op) for wire, axes in ((x, op.left), (y, op.right)))
    of_left, of_right = (Place.within(axes, op.out) for axes in (op.left, op.right))
    if left.affine.zero and right.affine.zero:
        total = op(centred(left, dtype), centred(right, dtype))
    else:
        total = op(ops.cast(left.q, dtype), ops.cast(right.q, dtype))
        if right.affine.zero:
            total = total - of_left.summed_over(left.q, total) * right.affine.zero
        if left.affine.zero:
            total = total - of_right.summed_over(right.q, total) * left.affine.zero
    factors = (
        each.scales if each.divisor is None else place.of(each.scales)
        for each, place in ((left, of_left), (right, of_right))
    )
    return scaled(total, prod(factors), bound)


def conv_weight(q: Quantiser, op: ConvWeight, x: int, dy: int) -> Sums | None:
    """Sum products of an image with the cotangent of its convolution."""
    if not (q.can_round(x) and q.is_integral(dy) and dy in q.backward.wires):
        return None
    shape = q.function.types[dy].shape
    dtype, bound = _accumulator(product((shape[0], *shape[2:])))
    image, cotangent = q.eight(x), q.folded(dy)
    if cotangent.divisor is not None and cotangent.divisor.size != shape[1]:
        cotangent = q.eight(dy)
    # The padded image is that of the convolution, and the sums of cotangents are those of a bias.
    padded, dy_q = q.padded(x, op.padding), ops.cast(cotangent.q, dtype)
    whole = replace(op, padding=(0,) * len(op.padding))
    total = whole.body(ops.cast(padded, dtype), dy_q)
    if image.affine.zero:
        sums = Sum(shape, (0, *range(2, op.rank)))(dy_q)
        total = total - Broadcast(total.shape, tuple(range(1, op.rank)))(sums) * image.affine.zero
    scales = np.reshape(cotangent.scales, (-1, *(1,) * (op.rank - 1)))
    return scaled(total, image.affine.scale * scales, bound)


def conv_transpose(q: Quantiser, op: ConvTranspose, dy: int, w: int) -> Sums | None:
    """Sum products of a cotangent with the weights of its convolution."""
    scales = divisor(q, Apply(op, (dy, w), ()), dy) if dy in q.backward.wires else None
    weights, shape = q.first_weights(w), q.function.types[w].shape
    count = product((shape[0], *shape[2:]))
    if scales is None or weights is None or not is_within_int32(count):
        return None
    image = q.divided(dy, scales)
    x, levels = (ops.cast(each, Dtype.int32) for each in (image.q, weights.q))
    if op.is_convolution(x, levels):
        padding = op.full_padding(levels)
        conv = Conv(op.strides, padding, op.dilations, op.groups)
        total = conv.body(x, op.flipped(levels))
    else:
        total = op.scattered(x, levels)
    return scaled(total, image.affine.scale, count * LEVELS**2)


def fold(q: Quantiser, op: Fold, x: int) -> Value | None:
    """Add levels where windows overlap."""
    if not q.is_integral(x) or (image := q.eight(x)).affine.zero:
        return None
    total = op(ops.cast(image.q, Dtype.int32))
    if op.is_tiled:
        return Eight(ops.cast(total, Dtype.int8), image.affine)
    return scaled(total, image.affine.scale, int(np.prod(op.sizes)) * LEVELS)


def select(q: Quantiser, op: Select, condition: int, x: int, y: int) -> Value | None:
    """Set a cotangent to 0 by a condition, when it is rounded."""
    zeros = [_is_zero(q.values[wire]) for wire in (x, y)]
    if zeros.count(True) != 1:
        return None
    wire = y if zeros[0] else x
    if wire not in q.backward.wires:
        return None
    value, mask = q.values[wire], _condition(q, condition, zeros[0])
    if mask is None or not q.is_integral(wire):
        return None
    if isinstance(value, Sums) and not value.is_bounded:
        return Sums(value.summands, value.offset, layer=value.layer, mask=mask)
    image = q.folded(wire)
    levels = ops.cast(image.q, Dtype.int32)
    masked = ops.select(mask, levels, Constant(levels.type, image.affine.zero)())
    return Eight(ops.cast(masked, Dtype.int8), image.affine, image.divisor)


def biased(q: Quantiser, x: int, bias: int) -> Sums | None:
    """Add a bias that trains, rounded to the scale of sums of products, if it is some of these in int32."""
    sums, value = q.values[x], q.values[bias]
    assert isinstance(value, Trained)
    if not isinstance(sums, Sums) or sums.is_bounded or len(sums.summands) != 1:
        return None
    [summand] = sums.summands
    differs = any(n > 1 and m == 1 for n, m in zip(summand.factor.shape, value.array.shape, strict=True))
    if differs or not np.all(summand.factor):
        return None
    most = int(summand.bound.max())
    rest = 2**31 - 1 - most
    grown = BIAS_GROWTH * np.max(np.abs(value.array / summand.factor), initial=0)
    if grown > 2 ** (rest.bit_length() - 1):
        return None
    # At least as great as all products may be, for a bias that is 0 at first; a power of two is a float32.
    bound = 2 ** max(min(most, rest).bit_length() - 1, int(np.ceil(grown)).bit_length())
    levels = ops.cast(q.nearest(q.trained(value), summand.factor, value.name, bound), Dtype.int32)
    total = summand.total + ops.broadcast_to(levels, q.function.types[x].shape)
    return replace(sums, summands=(replace(summand, total=total, bound=summand.bound + bound),))


def sum_cotangents(op: Sum, image: Eight, count: Size) -> Sums:
    """Sum levels, as the gradient of a bias does."""
    dtype, _ = _accumulator(count)
    total = op(ops.cast(image.q, dtype))
    scales = np.broadcast_to(image.scales, (1,) * len(op.shape)) if image.divisor is None else image.scales
    bound = count * LEVELS if isinstance(count, int) else inf
    return scaled(total, np.squeeze(scales, op.axes), bound)


def learned(q: Quantiser, op: Op, x: int) -> list[Value] | None:
    """Move the elements of a parameter that trains."""
    value, type = q.values[x], q.function.types[x]
    assert isinstance(value, Trained)
    if isinstance(op, Broadcast):
        array = np.expand_dims(value.array, op.axes)
        scales = None if value.scales is None else np.expand_dims(value.scales, op.axes)
        return [Trained(ops.reshape(value.var, *array.shape), array, value.name, scales)]
    if value.array.shape != type.shape:
        return None
    parts, arrays = op.apply(value.var), _results(op, value.array)
    each = (None,) * len(parts) if value.scales is None else _results(op, value.scales)
    return [Trained(y, a, value.name, s) for y, a, s in zip(parts, arrays, each, strict=True)]


def _results(op: Op, array: Array) -> tuple[Array, ...]:
    results = op.compute(array)
    return results if isinstance(results, tuple) else (results,)


def _accumulator(count: Size) -> tuple[Dtype, float]:
    """Return the dtype in which as many products are summed, and a bound: int64 for any number."""
    if is_within_int32(count):
        return Dtype.int32, count * LEVELS**2
    return Dtype.int64, inf


def _keeping(q: Quantiser, wire: int, axes: tuple[int, ...], op: Contract) -> Eight:
    """Return an int8 array whose scales differ along axes that are not summed only."""
    image = q.folded(wire) if wire in q.backward.wires else q.eight(wire)
    if image.divisor is None:
        return image
    differing = (label for label, size in zip(axes, image.divisor.shape, strict=True) if size > 1)
    return image if all(label in op.out for label in differing) else q.eight(wire)


def _is_zero(value: Value) -> bool:
    return isinstance(value, Known) and value.is_uniform and not np.any(value.array)


def _condition(q: Quantiser, wire: int, negated: bool) -> Var | None:
    """Return a condition as a variable; one on levels that holds in an interval compares with its ends."""
    value = q.values[wire]
    if isinstance(value, Plain):
        return ops.logical_not(value.var) if negated else value.var
    if not isinstance(value, Map):
        return None
    holds: Array = np.logical_not(value.values) if negated else np.asarray(value.values, bool)
    true = np.flatnonzero(holds)
    if not true.size or true[-1] - true[0] + 1 != true.size:
        return None
    levels = ops.cast(value.source.q, Dtype.int32)
    first, last = int(true[0]) + LEAST, int(true[-1]) + LEAST
    above, below = (levels >= first if true[0] else None), (levels <= last if true[-1] < LEVELS - 1 else None)
    if above is None:
        return levels <= last
    return above if below is None else ops.logical_and(above, below)

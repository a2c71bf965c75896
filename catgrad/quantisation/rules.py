"""Images of operations on int8 arrays: products, sums, pooling, data movement.

A rule returns None where there is no such image, and the operation then stays one on floats.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf, prod
from typing import TYPE_CHECKING

import numpy as np

from catgrad import ops
from catgrad.dims import product
from catgrad.ops.activations import Relu
from catgrad.ops.arithmetic import Add, Divide, Multiply, Negate, Subtract
from catgrad.ops.bounds import Clamp
from catgrad.ops.compare import Select
from catgrad.ops.contract import Contract
from catgrad.ops.conv import Conv, ConvTranspose, ConvWeight
from catgrad.ops.extrema import ArgMax, ArgMin, Extremum, Max, Min
from catgrad.ops.fake_quantisation import FakeQuantise
from catgrad.ops.gather import Gather
from catgrad.ops.pool import AvgPool, MaxPool
from catgrad.ops.quantised import LEAST
from catgrad.ops.reduce import Mean, Sum
from catgrad.ops.slices import Concat, Pad, Split
from catgrad.ops.window import Fold, Window
from catgrad.programs.program import Apply
from catgrad.quantisation.affine import LEVELS, Affine, affine_of, rounded
from catgrad.quantisation.backward import divisor
from catgrad.quantisation.reverses import (
    biased,
    contract_arrays,
    conv_transpose,
    conv_weight,
    fold,
    learned,
    select,
    sum_cotangents,
)
from catgrad.quantisation.totals import Place, centred, fenced, is_within_int32, scaled, weighed
from catgrad.quantisation.values import Eight, Known, Map, Plain, Sums, Trained, Value
from catgrad.terms.op import Op
from catgrad.types import Array, Dtype

if TYPE_CHECKING:
    from catgrad.quantisation.functor import Quantiser

Image = Value | list[Value] | None
Rule = Callable[..., Image]


def contract(q: Quantiser, op: Contract, x: int, y: int) -> Image:
    """Σ x · w is a sum of products in int32, with a scale for each index of w that is not summed."""
    if isinstance(q.values[x], (Known, Trained)):
        op, x, y = Contract(op.right, op.left, op.out), y, x
    is_float = isinstance(q.values[y], Plain) and q.backward.wires.isdisjoint((x, y))
    if not (q.can_round(x) and q.can_round(y)) or is_float:
        return None
    sizes = dict(zip(op.left, q.function.types[x].shape, strict=True))
    count = product(tuple(sizes[label] for label in op.left if label not in op.out))
    if not isinstance(q.values[y], (Known, Trained)):
        return contract_arrays(q, op, x, y, count)
    if not is_within_int32(count):
        return None
    folded = divisor(q, Apply(op, (x, y), ()), x) if x in q.backward.wires else None
    place = Place.within(op.right, op.out)
    w = q.weights(y, place.summed) if folded is None else q.first_weights(y)
    if w is None:
        return None
    left = q.eight(x) if folded is None else q.divided(x, folded)
    total = op(ops.cast(left.q, Dtype.int32), ops.cast(w.q, Dtype.int32))
    scales = np.ones((1,) * total.type.rank) if folded is not None else place.of(w.scales)
    return weighed(total, scales, left.affine, w, place, q.layer(y), count)


def _product(q: Quantiser, op: Op, x: int, y: int) -> Sums:
    """Multiply two int8 arrays, with both zero points subtracted."""
    left, right = q.eight(x), q.eight(y)
    total = op(centred(left), centred(right))
    return scaled(total, left.affine.scale * right.affine.scale, LEVELS**2)


def conv(q: Quantiser, op: Conv, x: int, w: int) -> Image:
    """Convolve in int32, where the image is padded with its zero point, and each output has a scale."""
    rank, shape = q.function.types[w].rank, q.function.types[w].shape
    axes = tuple(range(1, rank))
    weights, count = q.weights(w, axes) if q.can_round(x) else None, product(shape[1:])
    if weights is None or not is_within_int32(count):
        return None
    image = q.eight(x)
    whole = replace(op, padding=(0,) * len(op.padding))
    padded = q.padded(x, op.padding, isinstance(q.values[w], Trained))
    total = whole.body(ops.cast(padded, Dtype.int32), ops.cast(weights.q, Dtype.int32))
    place = Place(axes, (0,), (0, *range(2, rank)))
    return weighed(total, place.of(weights.scales), image.affine, weights, place, q.layer(w), count)


def add(q: Quantiser, op: Add | Subtract, x: int, y: int) -> Image:
    """Add two arrays, each with a multiplier, or numbers of each channel."""
    sign = -1.0 if isinstance(op, Subtract) else 1.0
    if isinstance(q.values[y], Trained) and sign > 0:
        return biased(q, x, y)
    if q.is_integral(x) and q.is_integral(y):
        if _have_one_source(q, x, y):
            return None
        left, right = _light(q, x), _light(q, y).scaled(sign)
        return Sums((*left.summands, *right.summands), left.offset + right.offset)
    if isinstance(q.values[x], Known):
        known = _addends(q, y, x)
        return None if known is None else q.sums(y).scaled(sign).shifted(known)
    known = _addends(q, x, y)
    return None if known is None else q.sums(x).shifted(sign * known)


def multiply(q: Quantiser, op: Op, x: int, y: int) -> Image:
    """Multiply two arrays in int32, or by numbers of each channel."""
    if q.is_integral(x) and q.is_integral(y):
        return None if _have_one_source(q, x, y) else _product(q, op, x, y)
    if isinstance(q.values[x], Known):
        x, y = y, x
    known = _channels(q, x, y)
    return _rescaled(q, x, y, False) if known is None else q.sums(x).scaled(known)


def divide(q: Quantiser, op: Op, x: int, y: int) -> Image:
    """Divide by numbers of each channel."""
    known = _channels(q, x, y)
    if known is None:
        return _rescaled(q, x, y, True)
    return q.sums(x).scaled(1 / known) if np.all(known) else None


def _rescaled(q: Quantiser, x: int, y: int, divides: bool) -> Eight | None:
    """Multiply or divide the scale of an int8 array by one number."""
    value, known = q.values[x], q.values[y]
    if not (isinstance(value, Eight) and isinstance(known, Known) and known.is_uniform):
        return None
    number = float(known.array.item())
    if not 0 < number < inf:
        return None
    scale = value.affine.scale / number if divides else value.affine.scale * number
    return replace(value, affine=value.affine._replace(scale=rounded(scale)))


def negate(q: Quantiser, op: Op, x: int) -> Image:
    """Negate the factors of a sum."""
    return q.sums(x).scaled(-1.0) if isinstance(q.values[x], Sums) else None


def relu(q: Quantiser, op: Op, x: int) -> Image:
    """Bound a sum below, which its rounding does at no cost."""
    value = q.values[x]
    return value.clamped(0.0, inf) if isinstance(value, Sums) and value.mask is None else None


def clamp(q: Quantiser, op: Clamp, x: int) -> Image:
    """Bound a sum."""
    value = q.values[x]
    low, high = (-inf if op.low is None else op.low), (inf if op.high is None else op.high)
    return value.clamped(low, high) if isinstance(value, Sums) and value.mask is None else None


def mean(q: Quantiser, op: Mean | Sum, x: int) -> Image:
    """Sum in int32; the factor of a mean has the number of elements."""
    count = product(tuple(op.shape[axis] for axis in op.axes))
    if not q.is_integral(x):
        return None
    image = q.folded(x)
    if isinstance(op, Sum) and x in q.backward.wires and _keeps(image, op.axes):
        return sum_cotangents(op, image, count)
    if not (isinstance(count, int) and 0 < count < 2**23):
        return None
    image = q.eight(x)
    total = Sum(op.shape, op.axes)(ops.cast(image.q, Dtype.int32))
    number = count if isinstance(op, Mean) else 1
    return scaled(total, image.affine.scale / number, count * LEVELS, count * image.affine.zero)


def avg_pool(q: Quantiser, op: AvgPool, x: int) -> Image:
    """Sum windows in int32; the factor has the number of elements, which may differ at the margins."""
    if not q.can_round(x):
        return None
    image = q.eight(x)
    total = ops.sum(op.windows(ops.pad(centred(image), op.margins)), -1)
    if op.counts_padding or not any(op.padding):
        return scaled(total, image.affine.scale / prod(op.sizes), prod(op.sizes) * LEVELS)
    sizes = q.function.types[x].shape[2:]
    counts = op.windows_ref(np.pad(np.ones((1, 1, *sizes)), op.margins)).sum(-1)
    sums = scaled(total, image.affine.scale, prod(op.sizes) * LEVELS)
    return sums.scaled(1 / counts)


def max_pool(q: Quantiser, op: MaxPool, x: int) -> Image:
    """Take the greatest level of each window; levels keep their scale."""
    if not q.can_round(x):
        return None
    image = q.eight(x)
    windows = op.windows(fenced(image.q, op.margins, LEAST))
    greatest = ops.max(ops.cast(windows, Dtype.int32))
    return Eight(ops.cast(greatest, Dtype.int8), image.affine)


def extremum(q: Quantiser, op: Extremum, x: int) -> Image:
    """Take the greatest or the least level along an axis."""
    if not q.is_integral(x):
        return None
    image = q.eight(x)
    return Eight(ops.cast(op(ops.cast(image.q, Dtype.int32)), Dtype.int8), image.affine)


def place(q: Quantiser, op: ArgMax | ArgMin, x: int) -> Image:
    """Find the place of the greatest or the least level, the first of equal ones."""
    return Plain(op(ops.cast(q.eight(x).q, Dtype.int32))) if q.is_integral(x) else None


def moved(q: Quantiser, op: Op, x: int) -> Image:
    """Move elements of 8 bits as those of 32."""
    if isinstance(q.values[x], Trained):
        return learned(q, op, x)
    if not q.is_integral(x):
        return None
    image = q.eight(x)
    return [Eight(y, image.affine) for y in op.apply(image.q)]


def pad(q: Quantiser, op: Pad, x: int) -> Image:
    """Pad with the zero point, which stands for 0."""
    if not q.is_integral(x):
        return None
    image = q.eight(x)
    return Eight(fenced(image.q, op.margins, image.affine.zero), image.affine)


def gather(q: Quantiser, op: Gather, x: int, index: int) -> Image:
    """Read rows of 8 bits, of an array or of a known table."""
    if isinstance(q.values[x], Known):
        weights = q.weights(x, tuple(range(q.function.types[x].rank)))
        if weights is None:
            return None
        return Eight(op(weights.q, q.real(index)), Affine(rounded(float(weights.scales.item())), 0))
    if not q.is_integral(x):
        return None
    image = q.eight(x)
    return Eight(op(image.q, q.real(index)), image.affine)


def concat(q: Quantiser, op: Concat, *x: int) -> Image:
    """Join arrays, each rounded to one scale, which may be that of all of them."""
    if not (any(map(q.is_integral, x)) and all(map(q.can_round, x))):
        return None
    affine = _joined(q, x)
    return Eight(op(*(q.rounded(wire, affine).q for wire in x)), affine)


def _joined(q: Quantiser, x: Sequence[int]) -> Affine:
    """Return the map of several arrays together: the learned one, that of all, or the widest."""
    values = [q.values[wire] for wire in x]
    common = {value.affine if isinstance(value, Eight) else None for value in values}
    if (grid := q.grids.get(q.result)) is not None:
        return grid.affine
    if (one := common.pop()) is not None and not common:
        return one
    cotangents = [q.affine(wire) for wire in x if wire in q.backward.wires]
    if cotangents:
        return max(cotangents, key=lambda affine: affine.scale)
    lows, highs = zip(*map(q.interval, x), strict=True)
    return affine_of(min(lows), max(highs))


def fake_quantise(q: Quantiser, op: FakeQuantise, x: int, *numbers: int) -> Image:
    """Round to the levels of the grid that was learned."""
    grid, value = q.grids.get(q.result), q.values[x]
    is_masked = isinstance(value, Sums) and value.mask is not None
    return None if grid is None or is_masked else q.on_grid(x, grid)


RULES: dict[type[Op], Rule] = {
    Add: add, ArgMax: place, ArgMin: place, AvgPool: avg_pool, Clamp: clamp, Concat: concat,
    Contract: contract, Conv: conv, ConvTranspose: conv_transpose, ConvWeight: conv_weight, Divide: divide,
    FakeQuantise: fake_quantise,
    Fold: fold, Gather: gather, Max: extremum, MaxPool: max_pool, Mean: mean, Min: extremum,
    Multiply: multiply, Negate: negate, Pad: pad, Relu: relu, Select: select, Split: moved, Subtract: add,
    Sum: mean, Window: moved,
}  # fmt: skip


def _keeps(image: Eight, axes: Sequence[int]) -> bool:
    """Tell whether a symmetric array has equal scales along axes."""
    return not image.affine.zero and (
        image.divisor is None or all(image.divisor.shape[axis] == 1 for axis in axes)
    )


def _have_one_source(q: Quantiser, x: int, y: int) -> bool:
    """Tell whether two arrays are functions of one, so that both together are a table."""
    first, second = (v.source if isinstance(v, Map) else v for v in (q.values[x], q.values[y]))
    return isinstance(first, Eight) and isinstance(second, Eight) and first.q is second.q


def _light(q: Quantiser, x: int) -> Sums:
    """Return a sum of int8 arrays: no product in int32 is stored for another sum."""
    value = q.values[x]
    if isinstance(value, Sums) and len(value.summands) == 1:
        q.values[x] = q.eight(x)
    return q.sums(x)


def _addends(q: Quantiser, x: int, y: int) -> Array | None:
    """Return known numbers y to add to x; None if they are a mask, in whose scale x is less than a level."""
    known, ends = _channels(q, x, y), q.extrema.get(x, (0.0, 0.0))
    if known is None:
        return None
    greatest, most = np.max(np.abs(known), initial=0), LEVELS * max(map(abs, ends))
    return known if greatest < inf and (greatest <= most or not most) else None


def _channels(q: Quantiser, x: int, y: int) -> Array | None:
    """Return the known numbers y beside an int8 array x; None where both are a table."""
    value, known = q.values[x], q.values[y]
    if not q.is_integral(x) or not isinstance(known, Known):
        return None
    is_sum = isinstance(value, Sums) and not value.is_bounded
    return None if known.is_uniform and not is_sum else known.array.astype(np.float64)

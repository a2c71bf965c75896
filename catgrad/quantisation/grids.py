"""Grids of fake quantisation: the scales and zero points that training chose are those of the int8 model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple

import numpy as np

from catgrad.ops.bounds import Clamp
from catgrad.ops.fake_quantisation import FakeQuantise
from catgrad.ops.quantised import LEAST, MOST
from catgrad.programs.program import Apply
from catgrad.quantisation.affine import LEVELS, Affine
from catgrad.quantisation.code import Code
from catgrad.quantisation.known import computed
from catgrad.quantisation.values import Known
from catgrad.types import Array


class Grid(NamedTuple):
    """The numbers s · (q - z) for levels q of int8 between two bounds."""

    affine: Affine
    low: int
    high: int

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the greatest number."""
        low, high = self.affine.dequantise(np.array([self.low, self.high]))
        return float(low), float(high)

    def quantise(self, x: Array) -> Array:
        """Return the nearest levels, by the arithmetic of fake quantisation in float32."""
        levels: Array = np.rint(x.astype(np.float32) * (np.float32(1) / np.float32(self.affine.scale)))
        return np.clip(np.nan_to_num(levels) + self.affine.zero, self.low, self.high).astype(np.int8)


def learned_grids(code: Code, arguments: Mapping[int, Known]) -> dict[int, Grid]:
    """Return the grids of values that are rounded to one, and of those that only such operations read.

    `arguments` are the arrays of the function. A grid of more than 256 levels, or with a scale for each
    channel, is that of no int8 array.
    """
    makers = {wire: apply for apply in code.body for wire in apply.outputs}
    found = dict[int, Grid]()
    for op, (_, *numbers), (y,) in filter(_is_fake, code.body):
        scale, zero = (_known(wire, code, makers, arguments) for wire in numbers)
        assert isinstance(op, FakeQuantise)
        grid = None if scale is None or zero is None else _grid(op, scale.array, zero.array)
        if grid is not None:
            found[y] = grid
    for x in {apply.inputs[0] for apply in filter(_is_fake, code.body)}:
        readers = [found.get(apply.outputs[0]) if _is_fake(apply) else None for apply in code.readers[x]]
        if readers[0] is not None and len(set(readers)) == 1 and x not in code.results:
            found.setdefault(x, readers[0])
    return found


def without_rounding(code: Code, trained: Set[int], inputs: Sequence[int], grids: Mapping[int, Grid]) -> None:
    """Remove fake quantisation of what trains, and leave its bounds to what depends on inputs.

    Training in int8 rounds both itself, and their straight-through gradients are those of bounds.
    """
    dependent, changed = code.dependents(inputs), code.dependents(trained)
    body, copies = list[Apply](), dict[int, int]()
    for apply in code.body:
        x, y = (next(iter(wires), -1) for wires in (apply.inputs, apply.outputs))
        if not _is_fake(apply) or not (y in dependent or y in changed):
            body.append(apply)
        elif y in dependent and y in grids:
            body.append(Apply(Clamp(*grids[y].ends), (x,), apply.outputs))
        else:
            copies[y] = copies.get(x, x)
    code.rewrite(body, copies)


def levels_on(grid: Array, weights: Array, axes: Sequence[int]) -> tuple[Array, Array] | None:
    """Return the levels of int8 of weights on a grid, and its scales, with `axes` of size 1.

    Return None if scales differ along these axes, or if weights are further than 127 levels from 0.
    """
    first = grid[tuple(slice(1) if axis in axes else slice(None) for axis in range(grid.ndim))]
    scales = first.astype(np.float64)
    levels = np.rint(weights / scales)
    is_fit = np.all(grid == first) and (not levels.size or (levels.min() >= LEAST and levels.max() <= MOST))
    return (levels.astype(np.int8), scales) if is_fit else None


def _is_fake(apply: Apply) -> bool:
    return isinstance(apply.op, FakeQuantise)


def _known(
    wire: int, code: Code, makers: Mapping[int, Apply], arguments: Mapping[int, Known]
) -> Known | None:
    """Return a value that depends on the arrays alone."""
    if wire in arguments or wire not in makers:
        return arguments.get(wire)
    op, inputs, outputs = makers[wire]
    values = [_known(each, code, makers, arguments) for each in inputs]
    given = [value for value in values if value is not None]
    types = code.function.types
    images = computed(op, given, [types[w] for w in inputs], [types[w] for w in outputs])
    return None if images is None or len(given) < len(values) else images[outputs.index(wire)]


def _grid(op: FakeQuantise, scale: Array, zero: Array) -> Grid | None:
    """Return the grid of one scale; levels such as those of uint8 are moved to those of int8."""
    if scale.size != 1 or zero.size != 1 or op.high - op.low >= LEVELS or not scale.item() > 0:
        return None
    move = 0 if op.low >= LEAST and op.high <= MOST else op.low - LEAST
    point = int(zero.item())
    affine = Affine(float(np.float32(scale.item())), point - move)
    return Grid(affine, op.low - move, op.high - move) if op.low <= point <= op.high else None

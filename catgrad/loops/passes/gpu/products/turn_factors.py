"""Transposed copies of factors: float32 that warp groups multiply has terms side by side.

Instructions take TF32 by terms alone, so warp groups turn other tiles in shared memory, each once for each
tile of the result. A factor of few elements, as a weight that many rows are multiplied by, is copied before:

    y[m, n] = Σ over k    x[m, k] · w[k, n]   =   Σ over k    x[m, k] · w_by_terms[n, k]
"""

from __future__ import annotations

from dataclasses import replace

from catgrad.loops.ir.index import nested_axes
from catgrad.loops.ir.nest import Kernel, Replaced, rewritten, size_hint
from catgrad.loops.ir.scalar import Buffer, Load, Scalar, Space, unmasked
from catgrad.loops.ir.steps import Lowered, Step
from catgrad.loops.machine import Machine
from catgrad.loops.passes.gpu.products.channels_last import copied_array
from catgrad.loops.passes.gpu.products.roles import MatrixProduct, count, product_nest
from catgrad.loops.passes.gpu.products.tilings import Tiling


def turn_factors(lowered: Lowered, machine: Machine) -> Lowered:
    """Copy factors before products of warp groups, where that is faster than to turn tiles."""
    return lowered.map(lambda steps: [each for step in steps for each in _turned(step, machine)])


def _turned(step: Step, machine: Machine) -> list[Step]:
    if not isinstance(step, Kernel) or len(step.body) != 1 or (found := product_nest(step.body[0])) is None:
        return [step]
    tiling = Tiling.of(found, machine)
    arrays = [_array(factor, found) for factor in (found.left, found.right)] if any(tiling.turned) else []
    if None in arrays or any(buffer in arrays for buffer, _ in step.writes):
        return [step]
    copies = dict[Buffer, Buffer]()
    for side, buffer in enumerate(arrays):
        if buffer and tiling.turned[side] and buffer not in copies:
            rest = tiling.without_turning(side)
            cycles = rest.fastest + tiling.cycles_of_copying(size_hint(buffer.size))
            if cycles < machine.gpu.costs.split_gain * tiling.fastest:
                copies[buffer], tiling = _by_terms(buffer, found), rest
    kernel = Kernel(rewritten(step.body, Replaced(copies))) if copies else step
    return [*(copied_array(*pair) for pair in copies.items()), kernel]


def _array(factor: Scalar, found: MatrixProduct) -> Buffer | None:
    """Return the array of which a factor is all elements, as a matrix; None if there is none."""
    _, load = unmasked(factor)
    if not isinstance(load, Load) or load.buffer.space not in (Space.ARGUMENT, Space.WORKSPACE):
        return None
    buffer, own = load.buffer, load.variables
    sizes = [v.extent for v in own] + [*buffer.type.shape]
    if not all(isinstance(size, int) for size in sizes) or count([*own]) != size_hint(buffer.size):
        return None
    places = [v for v in (*found.rows, *found.columns) if v in own]
    axes = [nested_axes(buffer.flat(load.indices), group) for group in (places, found.sums)]
    return buffer if all(len(each) == 1 for each in axes) else None


def _by_terms(buffer: Buffer, found: MatrixProduct) -> Buffer:
    """Return an array with the axes of terms innermost."""
    loads = (*found.left.loads(), *found.right.loads())
    [indices] = {load.indices for load in loads if load.buffer is buffer}
    have_terms = {a: any(v in found.sums for v in indices[a].variables()) for a in buffer.order}
    order = tuple(sorted(buffer.order, key=lambda axis: have_terms[axis]))
    name = f"{buffer.name}_by_terms"
    return replace(buffer, name=name, order=order, space=Space.WORKSPACE, alias=None, is_aligned=True)

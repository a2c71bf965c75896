"""Loop fusion for GPUs: nests become one where the loops they share occupy enough threads."""

from __future__ import annotations

from collections.abc import Sequence

from catgrad.loops.ir.dependence import is_parallel
from catgrad.loops.ir.index import Variable, index
from catgrad.loops.ir.nest import Axis, Indices, Item, Kernel, Loop, Reduce, Store, size_hint, statements
from catgrad.loops.ir.scalar import Buffer
from catgrad.loops.ir.steps import Lowered, Step
from catgrad.loops.machine import Machine
from catgrad.loops.passes.fuse import fused_steps
from catgrad.loops.passes.gpu.products import product_nest

MIN_TEAMS = 64
"""Iterations of shared loops that are worth a team of threads each."""

SMALL = 2**13
"""Iterations of nests that are faster as one launch than as several."""


def fuse_rows(lowered: Lowered, machine: Machine) -> Lowered:
    """Fuse kernels where this does not cost parallelism, and make a kernel of each nest."""
    return lowered.map(lambda steps: _separated(fused_steps(steps, _fits)))


def _separated(steps: Sequence[Step]) -> list[Step]:
    """Split kernels between nests: threads of different blocks do not wait for each other within a kernel."""
    done: list[Step] = []
    for step in steps:
        straight: list[Item] = []
        for item in step.body if isinstance(step, Kernel) else ():
            if isinstance(item, Loop):
                done += [Kernel(straight)] if straight else []
                done.append(Kernel([item]))
                straight = []
            else:
                straight.append(item)
        done += [Kernel(straight)] if straight else []
        done += [] if isinstance(step, Kernel) else [step]
    return done


def _fits(nest: Loop, item: Loop) -> bool:
    """Tell whether a nest gains from an item within it."""
    if is_parallel(nest) != is_parallel(item) or Axis.BLOCK in (nest.axis, item.axis):
        return False
    if product_nest(item) is not None:
        return False
    if product_nest(nest) is not None:
        return _is_epilogue(nest, item)
    shared = 1
    for a, b in zip(_perfect(nest), _perfect(item), strict=False):
        if a.extent != b.extent:
            break
        shared *= size_hint(a.extent)
    return shared >= MIN_TEAMS or max(_iterations(nest), _iterations(item)) <= SMALL


def _perfect(loop: Loop) -> list[Variable]:
    """List the variables of a perfect nest."""
    variables, item = [], loop
    while isinstance(item, Loop):
        variables.append(item.variable)
        item = item.body[0]  # type: ignore[assignment]
    return variables


def _is_epilogue(nest: Loop, item: Loop) -> bool:
    """Tell whether a nest only stores scalars of the same elements that a product has just computed."""
    outer, inner = _perfect(nest), _perfect(item)
    if [v.extent for v in outer] != [v.extent for v in inner]:
        return False
    if not all(isinstance(s, Store) for s in statements([item])) or len([*statements([item])]) > 1:
        return False
    written = {buffer: indices for buffer, indices in nest.writes}
    same = dict(zip(inner, map(index, outer), strict=True))
    read = [access for access in item.reads if access[0] in written]
    return all(_moved(indices, same) == written[buffer] for buffer, indices in read)


def _moved(indices: Indices, values: dict[Variable, Indices]) -> Indices:
    return tuple(i.substitute(values) for i in indices)  # type: ignore[arg-type]


def _iterations(item: Item) -> int:
    if isinstance(item, Loop):
        return size_hint(item.variable.extent) * sum(map(_iterations, item.body))
    if isinstance(item, Reduce):
        total = 1
        for v in item.axes:
            total *= size_hint(v.extent)
        return total
    return 1


def touched(items: Sequence[Item]) -> set[Buffer]:
    """Find the buffers that items read or write."""
    return {buffer for item in items for buffer, _ in (*item.reads, *item.writes)}

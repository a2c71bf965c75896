"""Loop fusion for GPUs: nests become one where the loops they share occupy enough threads."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from math import inf, prod

from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.dependence import is_parallel
from catgrad.loops.ir.index import Variable, index
from catgrad.loops.ir.nest import Item, Kernel, Loop, Store, size_hint, statements
from catgrad.loops.ir.steps import Lowered, Step
from catgrad.loops.machine import Machine
from catgrad.loops.passes.gpu.products.roles import product_nest
from catgrad.loops.passes.schedule.fuse import fused_steps, iterations


def fuse_rows(lowered: Lowered, machine: Machine) -> Lowered:
    """Fuse kernels where this does not cost parallelism, and make a kernel of each nest."""
    costs = machine.gpu.costs

    def fits(nest: Loop, item: Loop) -> bool:
        return _may_share_threads(nest, item) and (
            _shared(nest, item) >= costs.busy_teams
            or max(iterations(nest), iterations(item)) <= costs.lone_launch_iterations
        )

    return lowered.map(lambda steps: _separated(fused_steps(steps, fits)))


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


def _may_share_threads(nest: Loop, item: Loop) -> bool:
    """Tell whether threads for a nest also suit an item within it."""
    if is_parallel(nest) != is_parallel(item) or Axis.BLOCK in (nest.axis, item.axis):
        return False
    if product_nest(item) is not None:
        return False
    return product_nest(nest) is None or _is_epilogue(nest, item)


def _shared(nest: Loop, item: Loop) -> float:
    """Estimate the iterations of the loops that two nests would share; infinitely many, if they share all."""
    first, second = _first_loops(nest), _first_loops(item)
    extents = [(a.extent, b.extent) for a, b in zip(first, second, strict=False)]
    equal = [a for a, b in takewhile(lambda pair: pair[0] == pair[1], extents)]
    if len(equal) == len(first) == len(second):
        return inf
    return prod(map(size_hint, equal))


def _first_loops(loop: Loop) -> list[Variable]:
    """List the variables of nested loops, each the first item of the one around it."""
    variables, item = [], loop
    while isinstance(item, Loop):
        variables.append(item.variable)
        item = item.body[0]  # type: ignore[assignment]
    return variables


def _is_epilogue(nest: Loop, item: Loop) -> bool:
    """Tell whether a nest only stores scalars of the same elements that a product has just computed."""
    outer, inner = _first_loops(nest), _first_loops(item)
    if [v.extent for v in outer] != [v.extent for v in inner]:
        return False
    if not all(isinstance(s, Store) for s in statements([item])) or len([*statements([item])]) > 1:
        return False
    written = dict(nest.writes)
    same = dict(zip(inner, map(index, outer), strict=True))
    read = [access for access in item.reads if access[0] in written]
    return all(tuple(i.substitute(same) for i in indices) == written[buffer] for buffer, indices in read)

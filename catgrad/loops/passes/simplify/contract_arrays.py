"""Array contraction: leave out the axes of a temporary along which it lives within one iteration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from catgrad.dims import Size
from catgrad.loops.ir.index import Index, Variable
from catgrad.loops.ir.nest import Indices, Kernel, MatMul, Replaced, Sort, rewritten, statements
from catgrad.loops.ir.scalar import Buffer, Space
from catgrad.loops.ir.steps import Attend, Lowered, Product, conditions, every_step, in_rows
from catgrad.loops.machine import Machine

TEMPORARY = (Space.WORKSPACE, Space.LOCAL, Space.REGISTER)


def contract_arrays(lowered: Lowered, machine: Machine) -> Lowered:
    """Contract the temporaries that one kernel alone touches; without axes, they are registers.

    Matrix products and sorts take addresses: their operands do not become registers.
    """
    shared, last = conditions(lowered.steps) | in_rows(lowered.steps), dict[Buffer, object]()
    for step in every_step(lowered.steps):
        if isinstance(step, Kernel | Product | Attend):
            for buffer in {buffer for buffer, _ in (*step.reads, *step.writes)}:
                if last.setdefault(buffer, step) is not step:
                    shared.add(buffer)
    return lowered.map_kernels(lambda kernel: _contracted(kernel, shared))


def _contracted(kernel: Kernel, shared: set[Buffer]) -> Kernel:
    accesses: dict[Buffer, list[Indices]] = {}
    for buffer, indices in (*kernel.reads, *kernel.writes):
        if buffer not in shared and buffer.space in TEMPORARY:
            accesses.setdefault(buffer, []).append(indices)
    addressed = {
        buffer
        for s in statements(kernel.body)
        if isinstance(s, (MatMul, Sort))
        for buffer, _ in (*s.reads, *s.writes)
    }
    new = {}
    for buffer, every in accesses.items():
        one = {a for a, n in enumerate(buffer.type.shape) if n == 1 or _is_one_iteration(every, a)}
        order = tuple(axis for axis in buffer.order if axis not in one)
        if (one or not order) and (order or buffer not in addressed):
            space = Space.LOCAL if order else Space.REGISTER
            if (space, order) != (buffer.space, buffer.order):
                new[buffer] = replace(buffer, order=order, space=space)
    return Kernel(rewritten(kernel.body, Replaced(new))) if new else kernel


def _is_one_iteration(accesses: Sequence[Indices], axis: int) -> bool:
    places = {indices[axis] for indices in accesses}
    return len(places) == 1 and _is_counter(places.pop())


def _is_counter(place: Index) -> bool:
    """Prove that no two iterations have this index: it is a number, whose digits are variables."""
    if place.variable is not None:
        return True
    reach: Size = 1
    for atom, coefficient in reversed(place.terms):
        if not isinstance(atom, Variable) or coefficient != reach or atom.step != 1:
            return False
        reach = reach * atom.extent
    return bool(place.terms)

"""Loop fusion: a loop without carries runs within the one whose rows it reads, which are not stored then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush
from typing import Any

from catgrad.ops.scan import Scan
from catgrad.programs.program import Apply, Function
from catgrad.terms.block import Block
from catgrad.terms.build import build


def fuse_loops(function: Function) -> Function:
    """Fuse the first pair of loops that allows it; the pipeline repeats this."""
    loops = {value: each for each in function.body if isinstance(each.op, Scan) for value in each.outputs}
    for second in dict.fromkeys(loops.values()):
        for first in dict.fromkeys(loops[value] for value in second.inputs if value in loops):
            if _may_fuse(function, first, second):
                others = [each for each in function.body if each is not first and each is not second]
                return replace(function, body=_sorted([*others, _fused(first, second, function)]))
    return function


def _may_fuse(function: Function, first: Apply, second: Apply) -> bool:
    """Tell whether the second loop depends on the first through rows of the same iteration only."""
    a, b = first.op, second.op
    assert isinstance(a, Scan) and isinstance(b, Scan)
    if b.carried or a.length != b.length:
        return False
    stacks, dependent = set(first.outputs[a.carried :]), set(first.outputs)
    for each in function.body:
        if each is not second and not dependent.isdisjoint(each.inputs):
            dependent.update(each.outputs)
    _, rows, constants = b.parts(second.inputs)
    return dependent.isdisjoint({*rows, *constants} - stacks) and stacks.isdisjoint(constants)


def _fused(first: Apply, second: Apply, function: Function) -> Apply:
    """Return the loop that runs both bodies in each iteration."""
    a, b = first.op, second.op
    assert isinstance(a, Scan) and isinstance(b, Scan)
    carries, own_rows, own_constants = a.parts(first.inputs)
    _, more_rows, more_constants = b.parts(second.inputs)
    rows = dict.fromkeys([*own_rows, *(v for v in more_rows if v not in first.outputs)])
    constants = dict.fromkeys([*own_constants, *more_constants])

    def iteration(*arguments: Any) -> Any:
        carried, rest = arguments[: a.carried], arguments[a.carried :]
        row = dict(zip(rows, rest, strict=False))
        constant = dict(zip(constants, rest[len(rows) :], strict=True))
        results = a.block.term.apply(
            *carried, *(row[v] for v in own_rows), *(constant[v] for v in own_constants)
        )
        row |= dict(zip(first.outputs[a.carried :], results[a.carried :], strict=True))
        given = [*(row[v] for v in more_rows), *(constant[v] for v in more_constants)]
        return [*results, *b.block.term.apply(*given)]

    inputs = (*carries, *rows, *constants)
    types = [function.types[v] for v in inputs]
    inside = [t.with_shape(t.shape[1:]) if v in rows else t for v, t in zip(inputs, types, strict=True)]
    body = Block(build(iteration, [*types[: a.carried], *inside[a.carried :]]))
    op = Scan(body, a.length, a.carried, len(rows), a.backwards)
    return Apply(op, inputs, (*first.outputs, *second.outputs))


def _sorted(body: Sequence[Apply]) -> tuple[Apply, ...]:
    """Return operations in a topological order, ties broken by the numbers of their outputs."""
    made = {value: k for k, each in enumerate(body) for value in each.outputs}
    needs = [{made[value] for value in each.inputs if value in made} for each in body]
    readers: dict[int, list[int]] = {}
    for k, before in enumerate(needs):
        for other in before:
            readers.setdefault(other, []).append(k)
    ready = [k for k, before in enumerate(needs) if not before]
    heapify(ready)
    order = []
    while ready:
        k = heappop(ready)
        order.append(body[k])
        for reader in readers.get(k, ()):
            needs[reader].discard(k)
            if not needs[reader]:
                heappush(ready, reader)
    return tuple(order)

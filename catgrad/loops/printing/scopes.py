"""Scopes: the innermost loop whose iterations have an array of a kernel to themselves declares it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from catgrad.loops.ir.nest import Item, Kernel, Loop, Statement, loops
from catgrad.loops.ir.scalar import Buffer, Space

Scopes = dict[Loop | None, list[Buffer]]
"""The arrays that each loop declares; those of the kernel under None."""


def own_arrays(kernel: Kernel, order: Sequence[Buffer], once: bool) -> Scopes:
    """Find the arrays that loops declare, in this order, or all `once` at the beginning of the kernel."""
    if any(loop.axis.is_concurrent for loop in loops(kernel.body)):
        return _by_accesses(kernel)
    every = [*loops(kernel.body)]
    depth = {loop.variable: number for number, loop in enumerate(every)}
    scopes: Scopes = {}
    for buffer, indices in dict((*reversed(kernel.reads), *reversed(kernel.writes))).items():
        if buffer.space is Space.LOCAL:
            dropped = [v for a, i in enumerate(indices) if a not in buffer.order for v in i.variables()]
            around = [] if once else [depth[v] for v in dropped if v in depth]
            scopes.setdefault(every[max(around)] if around else None, []).append(buffer)
    rank = {buffer: number for number, buffer in enumerate(order)}
    return {loop: sorted(buffers, key=lambda b: rank[b]) for loop, buffers in scopes.items()}


def _by_accesses(kernel: Kernel) -> Scopes:
    """Group arrays by the innermost loop around all accesses."""
    found: dict[Buffer, list[Loop]] = {}
    for s, around in _statements(kernel.body, []):
        for buffer in dict.fromkeys(buffer for buffer, _ in (*s.writes, *s.reads)):
            if buffer.space in (Space.LOCAL, Space.SHARED):
                old = found.get(buffer, around)
                found[buffer] = [a for a, b in zip(old, around, strict=False) if a is b]
    scopes: Scopes = {}
    for buffer, around in found.items():
        scopes.setdefault(around[-1] if around else None, []).append(buffer)
    return scopes


def _statements(items: Sequence[Item], around: list[Loop]) -> Iterator[tuple[Statement, list[Loop]]]:
    """Yield the statements, each with the loops around it."""
    for item in items:
        if isinstance(item, Loop):
            yield from _statements(item.body, [*around, item])
        else:
            yield item, around

"""Loops made fit to run: short ones written out, and those that move on where the next one ends made one."""

from __future__ import annotations

from collections.abc import Sequence

from catgrad.loops.ir.index import ZERO, Index, Modulo, Quotient, Variable
from catgrad.loops.ir.nest import Item, Kernel, Loop, MatMul, Sort, Statement, statements, substituted
from catgrad.loops.ir.scalar import IndexValue, Load, Masked, Scalar, reads

FEW, MOST = 4, 16
"""Turns of a loop that are written out, so that loops around it can be taken at once, and statements."""


def tidied(kernel: Kernel) -> None:
    """Collapse and unroll the loops of a kernel."""
    kernel.body = [_tidied(item, depth=0) for item in kernel.body]


def _tidied(item: Item, depth: int) -> Item:
    if not isinstance(item, Loop):
        return item
    body = [new for each in item.body for new in _unrolled(_tidied(each, depth + 1))]
    loop = Loop(item.variable, body)
    return _collapsed(loop) if depth else loop


def _unrolled(item: Item) -> list[Item]:
    """The turns of a short loop that has none within, one after the other."""
    if not isinstance(item, Loop) or any(isinstance(each, Loop) for each in item.body):
        return [item]
    count = item.variable.extent
    if not isinstance(count, int) or not 0 < count <= FEW or count * len(item.body) > MOST:
        return [item]  # what stands around one without turns may be of use to it alone
    if _has_products(item):
        return [item]
    return [
        substituted(each, {item.variable: Index((), turn)}) for turn in range(count) for each in item.body
    ]


def _has_products(item: Item) -> bool:
    return any(isinstance(s, (MatMul, Sort)) for s in statements([item]))


def _collapsed(loop: Loop) -> Loop:
    """A loop with nothing but a loop in it as one, if every index moves on as if it were one."""
    if len(loop.body) != 1 or not isinstance(loop.body[0], Loop):
        return loop
    inner = loop.body[0]
    u, v = loop.variable, inner.variable
    if not all(_moves_on(place, u, v) for s in statements(inner.body) for place in _places(s)):
        return loop
    whole = Variable(u.extent * v.extent)
    values = {u: ZERO, v: Index(((whole, 1),))}
    return Loop(whole, [substituted(each, values) for each in inner.body])


def _moves_on(place: Index, u: Variable, v: Variable) -> bool:
    for atom, _ in place.terms:
        if isinstance(atom, (Quotient, Modulo)) and not {u, v}.isdisjoint(atom.index.variables()):
            return False
    return bool(place.coefficient(u) == place.coefficient(v) * v.extent)


def _places(s: Statement) -> list[Index]:
    """Where a statement reads and writes, and the indices it asks or makes numbers of."""
    places = [array.flat(indices) for array, indices in (*s.reads, *s.writes)]
    if isinstance(s, (MatMul, Sort)):
        return places
    stack: list[Scalar] = [s.scalar]
    stack += reads(tuple(i for _, indices in s.writes for i in indices))
    while stack:
        node = stack.pop()
        if isinstance(node, IndexValue):
            places.append(node.index)
        elif isinstance(node, Masked):
            places += [condition.index for condition in node.conditions]
        elif isinstance(node, Load):
            places.append(node.buffer.flat(node.indices))
        stack.extend(node.operands)
    return places


def tidy(kernels: Sequence[Kernel]) -> None:
    """Tidy every kernel."""
    for kernel in kernels:
        tidied(kernel)

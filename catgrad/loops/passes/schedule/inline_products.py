"""Inline matrix products: put products that are steps into loops, in which a function is called for each."""

from __future__ import annotations

from catgrad.loops.ir.index import Index, Variable, index
from catgrad.loops.ir.nest import Item, Kernel, Store, nested
from catgrad.loops.ir.scalar import number
from catgrad.loops.ir.steps import Lowered, Product, Step
from catgrad.loops.machine import Machine


def inline_products(lowered: Lowered, machine: Machine) -> Lowered:
    """Replace each product by a kernel of loops around it, with zeros before those that are summed."""
    return lowered.map(lambda steps: [new for step in steps for new in _inlined(step)])


def _inlined(step: Step) -> list[Step]:
    if not isinstance(step, Product):
        return [step]
    body: list[Item] = nested(step.sums, [step.matmul])
    if step.sums:
        body = [*_zeros(step), *body]
    return [Kernel([item]) for item in nested(step.batch, body)]


def _zeros(step: Product) -> list[Item]:
    product, fresh, at = step.matmul, dict[int, Variable](), list[Index]()
    for axis, i in enumerate(product.indices):
        if {*product.rows, *product.columns}.isdisjoint(i.variables()):
            at.append(i)
        else:
            fresh[axis] = Variable(product.buffer.type.shape[axis])
            at.append(index(fresh[axis]))
    zero = Store(product.buffer, tuple(at), number(0, product.buffer.type.dtype))
    return nested([fresh[axis] for axis in product.buffer.order if axis in fresh], [zero])

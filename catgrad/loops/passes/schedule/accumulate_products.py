"""Accumulate products in place: p = x · y and w = w + p are w += x · y, if nothing else reads p."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from catgrad.loops.ir.index import Index, index
from catgrad.loops.ir.nest import Item, Kernel, Loop, MatMul, Store, Substituted, perfect_nest, statements
from catgrad.loops.ir.scalar import Buffer, Compute, Load, Space
from catgrad.loops.ir.steps import For, Lowered, Step, every_step, kernels
from catgrad.loops.machine import Machine
from catgrad.ops.arithmetic import Add

Uses = Mapping[Buffer, int]
"""Counts of what writes or reads an array: statements, and results of functions and loops."""


def accumulate_products(lowered: Lowered, machine: Machine) -> Lowered:
    """Add products to arrays in place of storing them, where nothing else reads them."""
    every = (s for kernel in kernels(lowered.steps) for s in statements(kernel.body))
    uses = Counter(buffer.home for s in every for buffer in {b for b, _ in (*s.reads, *s.writes)})
    rows = (row for step in every_step(lowered.steps) if isinstance(step, For) for row in step.rows)
    uses.update(buffer.home for buffer in (*lowered.results, *rows))
    return lowered.map(lambda steps: _with_sums(steps, uses))


def _with_sums(steps: Sequence[Step], uses: Uses) -> list[Step]:
    done: list[Step] = []
    for step in steps:
        if isinstance(step, Kernel):
            step = Kernel(_accumulated(step.body, uses))
            for place, before in enumerate(done):
                product = _product(before, step, uses)
                if product and not _changes(done[place + 1 :], product):
                    del done[place]
                    step = Kernel([product])
                    break
        done.append(step)
    return done


def _product(before: Step, step: Kernel, uses: Uses) -> MatMul | None:
    """Return the product that adds, in place of a kernel of a product and one that adds it."""
    match before, step:
        case Kernel(body=[MatMul() as product]), Kernel(body=[nest]):
            return _sum(product, nest, uses)
    return None


def _changes(steps: Sequence[Step], product: MatMul) -> bool:
    """Tell whether one of these steps writes a factor of a product."""
    factors = (product.left.buffer.home, product.right.buffer.home)
    return any(buffer.home in factors for step in steps for buffer, _ in step.writes)


def _accumulated(items: Sequence[Item], uses: Uses) -> list[Item]:
    done: list[Item] = []
    for item in items:
        product = _sum(done[-1], item, uses) if done else None
        if product is not None:
            done[-1] = product
        else:
            done.append(replace(item, body=_accumulated(item.body, uses)) if isinstance(item, Loop) else item)
    return done


def _sum(product: Item, nest: Item, uses: Uses) -> MatMul | None:
    """Return the product that adds, if a nest adds a product to an array and is its only use."""
    variables, body = perfect_nest([nest], lambda loop: not loop.conditions)
    match product, _stored(body, uses):
        case (
            MatMul(buffer=array, rows=(row,), columns=(column,), add=False, packed=None),
            Store(scalar=Compute(op=Add(), operands=(Load() as x, Load() as y))) as store,
        ) if _is_private(array, uses):
            old, term = (x, y) if y.buffer is array else (y, x)
            change = Substituted({v: index(own) for v, own in zip(variables, (row, column), strict=False)})
            is_whole = [v.extent for v in variables] == [row.extent, column.extent]
            is_term = term.buffer is array and change.indices(term.indices) == product.indices
            if is_whole and is_term and old.buffer.home is store.buffer.home and old.indices == store.indices:
                return _added(product, store.buffer, change.indices(store.indices))
    return None


def _stored(items: Sequence[Item], uses: Uses) -> Item | None:
    """Return the only store, or one of what is stored elsewhere before, but not read there otherwise."""
    match items:
        case [Store() as store]:
            return store
        case [Store(scalar=Compute()) as first, Store(scalar=Load() as load) as last]:
            is_same = load.buffer is first.buffer and load.indices == first.indices
            if is_same and _is_private(first.buffer, uses):
                return replace(last, scalar=first.scalar)
    return None


def _is_private(array: Buffer, uses: Uses) -> bool:
    """Tell whether an array is only written once and read once."""
    return array.space is Space.WORKSPACE and uses[array.home] == 2


def _added(product: MatMul, array: Buffer, indices: tuple[Index, ...]) -> MatMul | None:
    """Return the product, added to an array that it does not read, if its columns lie side by side there."""
    [column], factors = product.columns, (product.left.buffer, product.right.buffer)
    is_fit = array.stride(indices, column) == 1 and array.type.dtype is product.left.dtype
    if not is_fit or any(factor.home is array.home for factor in factors):
        return None
    return replace(product, buffer=array, indices=indices, add=True)

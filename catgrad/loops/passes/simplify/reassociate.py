"""Reassociation of products: invariant factors come first, so that code motion hoists their product.

(x[i] * rate) * d   becomes   (rate * d) * x[i]   where only x[i] changes in the innermost loop
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from catgrad.loops.ir.index import Variable
from catgrad.loops.ir.nest import Accumulate, Item, Loop, Rewriter, Store
from catgrad.loops.ir.scalar import Buffer, Compute, Scalar, operands_of
from catgrad.ops.arithmetic import Multiply

Depths = Mapping[Variable | Buffer, int]
"""Number of loops around the definition, for loop variables and registers."""


def reassociate_products(items: Sequence[Item], depths: Depths | None = None, depth: int = 0) -> list[Item]:
    """Order the factors of each floating product by the depth of the loop that changes them."""
    known = dict(depths or {})
    result: list[Item] = []
    for item in items:
        if isinstance(item, Loop):
            inside = {**known, item.variable: depth + 1}
            result.append(replace(item, body=reassociate_products(item.body, inside, depth + 1)))
            continue
        if isinstance(item, (Store, Accumulate)) and not item.buffer.order:
            known[item.buffer] = depth
        result.append(item.map(_Reassociated(known)))
    return result


class _Reassociated(Rewriter):
    def __init__(self, depths: Depths) -> None:
        super().__init__()
        self.depths = depths

    def _changed(self, old: Scalar) -> Scalar:
        if not (isinstance(old, Compute) and isinstance(old.op, Multiply) and old.dtype.is_floating):
            return super()._changed(old)
        product, *others = sorted(map(self.scalar, operands_of(Multiply, old)), key=self._depth)
        for factor in others:
            product = Compute(Multiply(), old.dtype, (product, factor))
        return product

    def _depth(self, factor: Scalar) -> int:
        """The depth of the innermost loop that changes a factor; -1 for a constant."""
        loads = list(factor.loads())
        if not loads and not factor.variables:
            return -1
        changing: list[Variable | Buffer] = [
            *factor.variables,
            *(load.buffer for load in loads if not load.buffer.order),
        ]
        return max((self.depths.get(each, 0) for each in changing), default=0)

"""Products of a mixture of experts: rows in groups, with a matrix for each group."""

from __future__ import annotations

from catgrad import ops
from catgrad.frontends.torch.registry import register
from catgrad.ops.contract import Contract
from catgrad.terms.structural import Constant
from catgrad.terms.var import Var


def grouped_product(x: Var, weights: Var, ends: Var) -> Var:
    """Multiply the rows of x before the first end by the first matrix, those before the second by the next.

    Each row is multiplied by all matrices, as the sizes of groups depend on data; rows after the last end
    are 0.
    """
    products = Contract((0, 1), (2, 1, 3), (0, 2, 3))(x, weights)
    rows, groups, _ = products.shape
    row = ops.broadcast(ops.iota(rows, ends.dtype), (rows, groups), [1])
    is_before = row < ops.broadcast(ends, (rows, groups), [0])
    earlier = ops.concat([Constant(ends.type.with_shape((1,)), 0)(), ops.slice(ends, [0], (groups - 1,))], 0)
    is_own = is_before & (row >= ops.broadcast(earlier, (rows, groups), [0]))
    own = ops.broadcast(is_own, products.shape, [2])
    return ops.sum(ops.select(own, products, Constant(products.type, 0)()), 1)


register("transformers.grouped_mm_fallback.default", real=grouped_product)

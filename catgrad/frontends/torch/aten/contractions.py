"""Matrix products, with broadcasting."""

from __future__ import annotations

from catgrad import ops
from catgrad.frontends.torch.aten.operands import common_shape
from catgrad.frontends.torch.registry import aten
from catgrad.ops.contract import Contract
from catgrad.terms.var import Var


@aten("linear.default")
def linear(x: Var, weight: Var, bias: Var | None = None) -> Var:
    """Linear map: x · Wᵀ + b."""
    k = x.type.rank - 1
    free = tuple(range(k))
    out = (k + 1,)[: weight.type.rank - 1]  # a weight without output features is a vector
    y = Contract((*free, k), (*out, k), (*free, *out))(x, weight)
    return y if bias is None else y + ops.broadcast_to(bias, y.shape)


@aten("mm.default", "bmm.default", "matmul.default", "mv.default", "dot.default")
def matmul(x: Var, y: Var) -> Var:
    """Matrix product: x · y over the last axis of x and the last but one of y; leading axes broadcast."""
    if x.type.rank < 3 or y.type.rank < 3:
        return _without_batch(x, y)
    batch = common_shape(x.shape[:-2], y.shape[:-2])
    b, (m, k, n) = tuple(range(len(batch))), range(len(batch), len(batch) + 3)
    x, y = ops.broadcast_to(x, (*batch, *x.shape[-2:])), ops.broadcast_to(y, (*batch, *y.shape[-2:]))
    return Contract((*b, m, k), (*b, k, n), (*b, m, n))(x, y)


def _without_batch(x: Var, y: Var) -> Var:
    """Multiply where one operand has no leading axes, as those of the other are free."""
    m, n = x.type.rank, y.type.rank
    left = tuple(range(m))
    k = left[-1]
    right = tuple(range(m, m + n))
    right = (*right[:-2], k, right[-1]) if n > 1 else (k,)
    rows, columns = left[:-1], right[-1:] if n > 1 else ()
    return Contract(left, right, (*right[:-2], *rows, *columns))(x, y)


@aten("addmm.default", "baddbmm.default", "addmv.default")
def add_matmul(bias: Var, x: Var, y: Var, beta: float = 1, alpha: float = 1) -> Var:
    """Product and sum: β · b + α · x · y."""
    return added(bias, matmul(x, y), beta, alpha)


def added(bias: Var, product: Var, beta: float, alpha: float) -> Var:
    """Add a product to an array that broadcasts: β · b + α · p, also where b is NaN and β = 0."""
    product = product if alpha == 1 else product * alpha
    if beta == 0:
        return product
    bias = ops.broadcast_to(bias, product.shape)
    return (bias if beta == 1 else bias * beta) + product


@aten("bilinear.default")
def bilinear(x: Var, z: Var, weight: Var, bias: Var | None = None) -> Var:
    """Bilinear map: x · W · z + b, for W : [out, in₁, in₂]."""
    m = x.type.rank - 1
    free, (o, i, j) = tuple(range(m)), range(m, m + 3)
    maps = Contract((*free, i), (o, i, j), (*free, o, j))(x, weight)
    y = Contract((*free, o, j), (*free, j), (*free, o))(maps, z)
    return y if bias is None else y + ops.broadcast_to(bias, y.shape)

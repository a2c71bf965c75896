"""Products of vectors and of matrices, with sums."""

from __future__ import annotations

from catgrad import ops
from catgrad.frontends.torch.aten.contractions import added
from catgrad.frontends.torch.aten.operands import axes_of, common_shape, together
from catgrad.frontends.torch.aten.statistics import norm
from catgrad.frontends.torch.registry import aten
from catgrad.ops.contract import Contract
from catgrad.terms.var import Var


@aten("addr.default")
def add_outer(bias: Var, x: Var, y: Var, beta: float = 1, alpha: float = 1) -> Var:
    """Outer product and sum: β · b + α · x ⊗ y."""
    return added(bias, Contract((0,), (1,), (0, 1))(x, y), beta, alpha)


@aten("addbmm.default")
def add_sum_of_products(bias: Var, x: Var, y: Var, beta: float = 1, alpha: float = 1) -> Var:
    """Sum of matrix products and sum: β · b + α · Σ xᵢ · yᵢ."""
    return added(bias, Contract((0, 1, 2), (0, 2, 3), (1, 3))(x, y), beta, alpha)


aten("vdot.default")(Contract((0,), (0,), ()))


@aten("linalg_cross.default")
def cross(x: Var, y: Var, dim: int = -1) -> Var:
    """Cross product along an axis of size 3."""
    x, y = together(x, y)
    (axis,) = axes_of(x, dim)
    a, b = ops.split(x, [1, 1, 1], axis), ops.split(y, [1, 1, 1], axis)
    pairs = ((1, 2), (2, 0), (0, 1))
    return ops.concat([a[j] * b[k] - a[k] * b[j] for j, k in pairs], axis)


@aten("_cdist_forward.default")
def distances(x: Var, y: Var, p: float, compute_mode: int | None = None) -> Var:
    """Distances of all pairs of rows by the norm of order p: [*, P, M], [*, R, M] → [*, P, R]."""
    lead = common_shape(x.shape[:-2], y.shape[:-2])
    table = (*lead, x.shape[-2], y.shape[-2], x.shape[-1])
    rows = ops.broadcast_to(ops.expand_dims(x, x.type.rank - 1), table)
    columns = ops.broadcast_to(ops.expand_dims(y, y.type.rank - 2), table)
    return norm(rows - columns, p, -1)


aten("_euclidean_dist.default")(lambda x, y: distances(x, y, 2))


@aten("_pdist_forward.default")
def distances_within(x: Var, p: float = 2) -> Var:
    """Distances of the pairs of rows i < j by the norm of order p."""
    count = x.shape[0]
    parts = []
    for k in range(1, count):
        rest = ops.slice(x, (k, 0), (count - k, x.shape[1]))
        row = ops.slice(x, (k - 1, 0), (1, x.shape[1]))
        parts.append(norm(ops.broadcast_to(row, rest.shape) - rest, p, -1))
    return ops.concat(parts)


@aten("renorm.default")
def renormalise(x: Var, p: float, dim: int, maxnorm: float) -> Var:
    """Scale the slices along an axis whose norm of order p is more than a maximum down to it."""
    (axis,) = axes_of(x, dim)
    others = [k for k in range(x.type.rank) if k != axis]
    size = norm(x, p, others)
    scale = ops.select(size > maxnorm, maxnorm / (size + 1e-7), size * 0 + 1)
    return x * ops.broadcast(scale, x.shape, others)

"""Losses that PyTorch has as one operation."""

from __future__ import annotations

from catgrad import ops
from catgrad.frontends.torch.aten.operands import at, common_shape, together
from catgrad.frontends.torch.aten.scalars import takes_scalars
from catgrad.frontends.torch.registry import aten
from catgrad.terms.structural import Constant, zeros_like
from catgrad.terms.var import Var


def reduced(loss: Var, reduction: int) -> Var:
    """Reduce a loss by the number of PyTorch's enumeration: 0 for none, 1 for the mean, 2 for the sum."""
    return loss if reduction == 0 else ops.mean(loss) if reduction == 1 else ops.sum(loss)


@aten("mse_loss.default")
def mse(x: Var, y: Var, reduction: int = 1) -> Var:
    """Squared error: (x - y)²."""
    x, y = together(x, y)
    return reduced(ops.square(x - y), reduction)


@aten("smooth_l1_loss.default")
def smooth_l1(x: Var, y: Var, reduction: int = 1, beta: float = 1.0) -> Var:
    """Smooth absolute error: d² / 2β for d = |x - y| < β, d - β/2 elsewhere."""
    x, y = together(x, y)
    d = ops.absolute(x - y)
    if beta == 0:
        return reduced(d, reduction)
    return reduced(ops.select(d < beta, 0.5 * (d * d) / beta, d - 0.5 * beta), reduction)


@aten("huber_loss.default")
def huber(x: Var, y: Var, reduction: int = 1, delta: float = 1.0) -> Var:
    """Huber loss: d² / 2 for d = |x - y| ≤ δ, δ (d - δ/2) elsewhere."""
    x, y = together(x, y)
    d = ops.absolute(x - y)
    return reduced(ops.select(d <= delta, 0.5 * (d * d), delta * (d - 0.5 * delta)), reduction)


@aten("soft_margin_loss.default")
def soft_margin(x: Var, y: Var, reduction: int = 1) -> Var:
    """Logistic loss: ln(1 + e^(-x y))."""
    x, y = together(x, y)
    return reduced(ops.softplus(-(x * y)), reduction)


@aten("binary_cross_entropy.default")
def binary_cross_entropy(x: Var, y: Var, weight: Var | None = None, reduction: int = 1) -> Var:
    """Cross entropy of probabilities x: -y ln x - (1 - y) ln(1 - x), with logarithms of at least -100."""
    loss = ops.binary_cross_entropy(x, y)
    return reduced(loss if weight is None else loss * ops.broadcast_to(weight, loss.shape), reduction)


@aten("binary_cross_entropy_with_logits.default")
def logistic_cross_entropy(
    x: Var, y: Var, weight: Var | None = None, pos_weight: Var | None = None, reduction: int = 1
) -> Var:
    """Cross entropy of logits x: (1 - y) x + w ln(1 + e⁻ˣ), with w = 1 + (pos_weight - 1) y."""
    if pos_weight is None:
        loss = ops.softplus(x) - x * y
    else:
        shape = common_shape(x.shape, pos_weight.shape)
        loss = (1 - y) * x + (1 + (ops.broadcast_to(pos_weight, shape) - 1) * y) * ops.softplus(-x)
    return reduced(loss if weight is None else loss * ops.broadcast_to(weight, loss.shape), reduction)


@aten("nll_loss_forward.default", "nll_loss2d_forward.default")
def negative_log_likelihood(
    x: Var, target: Var, weight: Var | None, reduction: int, ignore_index: int
) -> tuple[Var, Var]:
    """Negative log-likelihood: -w[t] x[t], without the targets `ignore_index`; and the sum of weights."""
    axis = 1 if x.type.rank > 1 else 0
    chosen = target != ignore_index
    index = ops.select(chosen, target, zeros_like(target))
    picked = ops.squeeze(ops.take_along_axis(x, ops.expand_dims(index, axis), axis), axis)
    zero = zeros_like(picked)
    weights = Constant(picked.type, 1)() if weight is None else ops.gather(weight, index)
    weights = ops.select(chosen, weights, zero)
    loss = -(weights * ops.select(chosen, picked, zero))
    total = ops.sum(weights)
    if reduction == 0:
        return loss, zeros_like(total)
    return (ops.sum(loss) / total if reduction == 1 else ops.sum(loss)), total


@aten("multilabel_margin_loss_forward.default")
@takes_scalars(like=1)
def multilabel_margin(x: Var, target: Var, reduction: int) -> tuple[Var, Var]:
    """Multilabel margin: Σⱼ Σᵢ max(0, 1 - x[tⱼ] + x[i]) / C, for labels tⱼ and classes i that are none.

    The labels of a row are those before the first -1. The second result is 1 for each class that is a label.
    """
    if x.type.rank == 1:
        loss, is_label = multilabel_margin(ops.expand_dims(x, 0), ops.expand_dims(target, 0), reduction)
        return ops.reshape(loss), ops.squeeze(is_label, 0)
    n, classes = x.shape
    shape, integer = (n, classes, classes), target.dtype
    is_listed = ops.cumsum(ops.cast(target < 0, integer), 1) == 0
    labels = ops.select(is_listed, target, zeros_like(target))
    own = ops.broadcast(ops.take_along_axis(x, labels, 1), shape, [2])
    listed = ops.broadcast(is_listed, shape, [2])
    same = ops.broadcast(labels, shape, [2]) == ops.broadcast(ops.iota(classes, integer), shape, [0, 1])
    is_label = ops.any(listed & same, 1)
    counts = listed & ~ops.broadcast(is_label, shape, [1])
    margins = ops.relu(1 - own + ops.broadcast(x, shape, [1])) / at(classes, shape, x.dtype)
    loss = ops.sum(ops.select(counts, margins, zeros_like(margins)), [1, 2])
    return reduced(loss, reduction), ops.cast(is_label, x.dtype)

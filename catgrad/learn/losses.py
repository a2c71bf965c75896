"""Losses: functions of a prediction and its target, whose value is one number.

Values and gradients are those of `torch.nn.functional`. Options are keyword arguments:
`functools.partial(cross_entropy, label_smoothing=0.1)` is a loss too. With `reduction="sum"` each is
the sum in place of the mean, without the division by n. Raises: OptionError for another reduction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from catgrad import ops
from catgrad.errors import OptionError, ShapeError, no_attribute
from catgrad.learn.labels import check_classes, check_like_predictions
from catgrad.ops import broadcast, select, zeros_like
from catgrad.terms.structural import Constant, part
from catgrad.terms.var import Var

__all__ = ["bce_with_logits", "cross_entropy", "huber", "kl_div", "l1", "mse", "nll"]

Weight = Sequence[float] | Var | None
"""The weight of each class."""

Reduction = Literal["mean", "sum"]


def mse(y_hat: Var, y: Var, *, reduction: Reduction = "mean") -> Var:
    """Mean squared error: Σ (ŷ − y)² / n, over all n elements.

    Type:     (T, T) -> T[] for floating T
    Raises:   ShapeError if ŷ and y differ in type
    Gradient: dŷ = 2 (ŷ − y) / n, as in torch.nn.functional.mse_loss; Python catgrad's `mse`
              leaves out the factor 2 / n, so its learning rates are larger by n / 2
    """
    check_like_predictions("mse", y_hat, y)
    return _reduced(ops.square(ops.subtract(y_hat, y)), reduction)


def l1(y_hat: Var, y: Var, *, reduction: Reduction = "mean") -> Var:
    """Mean absolute error: Σ |ŷ − y| / n.

    Type:     (T, T) -> T[] for floating T
    Gradient: dŷ = sign(ŷ − y) / n
    """
    check_like_predictions("l1", y_hat, y)
    return _reduced(ops.absolute(ops.subtract(y_hat, y)), reduction)


def huber(y_hat: Var, y: Var, delta: float = 1.0, *, reduction: Reduction = "mean") -> Var:
    """Huber loss: the mean of e²/2 where |e| ≤ δ and δ (|e| − δ/2) elsewhere, with e = ŷ − y.

    Type:     (T, T) -> T[] for floating T
    Raises:   OptionError unless δ > 0
    Gradient: dŷ = e / n where |e| ≤ δ, δ sign(e) / n elsewhere
    Source:   Huber 1964, Robust estimation of a location parameter
    """
    if not delta > 0:
        raise OptionError("the δ of huber must be positive", f"it is {delta}", "try 1.0")
    check_like_predictions("huber", y_hat, y)
    error = ops.subtract(y_hat, y)
    size = ops.absolute(error)
    return _reduced(select(size <= delta, 0.5 * ops.square(error), delta * (size - delta / 2)), reduction)


def bce_with_logits(y_hat: Var, y: Var, *, reduction: Reduction = "mean") -> Var:
    """Binary cross entropy of σ(ŷ): the mean of ln(1 + e^ŷ) − y ŷ.

    Type:     (T, T) -> T[] for floating T; y in [0, 1]
    Gradient: dŷ = (σ(ŷ) − y) / n
    """
    check_like_predictions("bce_with_logits", y_hat, y)
    return _reduced(ops.softplus(y_hat) - ops.multiply(y_hat, y), reduction)


def kl_div(log_q: Var, p: Var, *, reduction: Reduction = "mean") -> Var:
    """Kullback-Leibler divergence of q from p: Σ p (ln p − ln q) / n, over a batch of n distributions.

    The batch is the first axis, and the mean is over it: reduction="batchmean" in PyTorch.

    Type:     (T, T) -> T[] for floating T; p ≥ 0, and the term is 0 where p is 0
    Gradient: d ln q = −p / n
    """
    positive = p > 0
    entropy = select(positive, p * ops.log(select(positive, p, zeros_like(p) + 1)), zeros_like(p))
    total = ops.sum(ops.cast(entropy - p * log_q, p.dtype.wide))
    # float16 cannot represent the number of distributions in a batch.
    loss = total if _is_sum(reduction) else total / ops.number_of(p.shape[0], total.dtype)
    return ops.cast(loss, p.dtype)


def nll(
    log_p: Var,
    labels: Var,
    ignore_index: int = -100,
    *,
    weight: Weight = None,
    reduction: Reduction = "mean",
) -> Var:
    """Negative log likelihood: Σ −w ln p[label] / Σ w over the labels not ignored, w = weight[label].

    Without weights, w = 1. They are numbers, or an array of the term, one for each class.

    Type:     (T[…, classes], I[…]) -> T[] for floating T and whole I
    Raises:   ShapeError if the shapes do not agree, or the weights with the classes; at run time,
              IndexError for a label that is not a class, or NaN on a target that cannot raise
    Gradient: d ln p = −w / Σ w at the labels
    """
    return _negative_likelihood(log_p, labels, ignore_index, 0.0, weight, reduction)


def cross_entropy(
    y_hat: Var,
    labels: Var,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    *,
    weight: Weight = None,
    reduction: Reduction = "mean",
) -> Var:
    """Cross entropy of softmax(ŷ) over the last axis: `nll` of log_softmax(ŷ).

    With label smoothing ε, a share ε of each label is spread over all classes, by their weights.

    Type:     (T[…, classes], I[…]) -> T[] for floating T and whole I
    Raises:   ShapeError and IndexError as `nll`; OptionError unless 0 ≤ ε ≤ 1
    Gradient: dŷ = (softmax(ŷ) − onehot(label)) w / Σ w
    Source:   label smoothing: Szegedy et al. 2016 (arXiv:1512.00567), section 7
    """
    if not 0 <= label_smoothing <= 1:
        raise OptionError("label smoothing must lie in [0, 1]", f"it is {label_smoothing}", "try 0.1")
    log_p = ops.log_softmax(y_hat)
    return _negative_likelihood(log_p, labels, ignore_index, label_smoothing, weight, reduction)


def _negative_likelihood(
    log_p: Var, labels: Var, ignore_index: int, smoothing: float, weight: Weight, reduction: Reduction
) -> Var:
    check_classes(log_p.type, labels.type)
    dtype = log_p.dtype
    log_p = ops.cast(log_p, dtype.wide)  # float16 cannot represent the number of labels in a batch
    zero, last = zeros_like(log_p), log_p.type.rank - 1
    ones = Constant(log_p.type.with_shape(log_p.shape[-1:]), 1)
    weights = ones() if weight is None else _as_array(weight, log_p)
    classes = broadcast(ops.iota(log_p.shape[-1], labels.dtype), log_p.shape)
    hit = broadcast(labels, log_p.shape, (last,)) == classes
    ignored = part("ignored", labels == ignore_index)

    def counted(x: Var) -> Var:
        return select(ignored, zeros_like(x), x)

    # Weights are read at the labels, so all labels must be classes here.
    share = part("weight", counted(ops.gather(weights, counted(labels))))
    likelihood = part("log_likelihood", ops.sum(select(hit, log_p, zero), last))
    total = ops.sum(share * counted(likelihood))
    if smoothing:
        spread = ops.sum(counted(ops.mean(log_p * broadcast(weights, log_p.shape), last)))
        total = (1 - smoothing) * total + smoothing * spread
    return ops.cast(-total if _is_sum(reduction) else -(total / part("weights_sum", ops.sum(share))), dtype)


def _as_array(weight: Sequence[float] | Var, log_p: Var) -> Var:
    """Return the weights of the classes as an array of the term."""
    array = ops.cast(weight, log_p.dtype) if isinstance(weight, Var) else _array(weight, log_p)
    if array.shape != log_p.shape[-1:]:
        raise ShapeError(
            f"there must be one weight for each of {log_p.shape[-1]} classes",
            f"they are {array.type}",
            "give a number for each",
        )
    return array


def _array(numbers: Sequence[float], like: Var) -> Var:
    if len(numbers) == 0:
        return Constant(like.type.with_shape((0,)), 0)()
    return ops.concat([Constant(like.type.with_shape((1,)), number)() for number in numbers])


def _reduced(x: Var, reduction: Reduction) -> Var:
    return ops.sum(x) if _is_sum(reduction) else ops.mean(x)


def _is_sum(reduction: Reduction) -> bool:
    if reduction not in ("mean", "sum"):
        raise OptionError("the reduction must be mean or sum", f"it is {reduction!r}", "choose one of them")
    return reduction == "sum"


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:  # or it would take every name for one of the module
    __getattr__ = no_attribute("catgrad.losses", __all__)

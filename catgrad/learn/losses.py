"""Losses: functions of a prediction and what it should have been, with one number as value.

Each has the numbers of `torch.nn.functional`, gradients included. Options are keyword arguments:
`functools.partial(cross_entropy, label_smoothing=0.1)` is a loss too.
"""

from __future__ import annotations

from typing import Any

from catgrad import ops
from catgrad.errors import OptionError, ShapeError
from catgrad.ops import broadcast, select, zeros_like


def mse(y_hat: Any, y: Any) -> Any:
    """Mean squared error: Σ (ŷ − y)² / n, over all n elements.

    Type:     (T, T) -> T[] for floating T
    Raises:   ShapeError if ŷ and y differ in type
    Gradient: dŷ = 2 (ŷ − y) / n, as in torch.nn.functional.mse_loss; Python catgrad's `mse`
              leaves out the factor 2 / n, so its learning rates are larger by n / 2
    """
    return ops.mean(ops.square(ops.subtract(y_hat, y)))


def l1(y_hat: Any, y: Any) -> Any:
    """Mean absolute error: Σ |ŷ − y| / n.

    Type:     (T, T) -> T[] for floating T
    Gradient: dŷ = sign(ŷ − y) / n
    """
    return ops.mean(ops.absolute(ops.subtract(y_hat, y)))


def huber(y_hat: Any, y: Any, delta: float = 1.0) -> Any:
    """Mean of e²/2 where |e| ≤ δ and δ (|e| − δ/2) elsewhere, with e = ŷ − y.

    Type:     (T, T) -> T[] for floating T
    Raises:   OptionError unless δ > 0
    Gradient: dŷ = e / n where |e| ≤ δ, δ sign(e) / n elsewhere
    Source:   Huber 1964, Robust estimation of a location parameter
    """
    if not delta > 0:
        raise OptionError("the δ of huber must be positive", f"it is {delta}", "try 1.0")
    error = ops.subtract(y_hat, y)
    size = ops.absolute(error)
    return ops.mean(select(size <= delta, 0.5 * ops.square(error), delta * (size - delta / 2)))


def bce_with_logits(y_hat: Any, y: Any) -> Any:
    """Binary cross entropy of σ(ŷ): the mean of ln(1 + e^ŷ) − y ŷ.

    Type:     (T, T) -> T[] for floating T; y in [0, 1]
    Gradient: dŷ = (σ(ŷ) − y) / n
    """
    return ops.mean(ops.softplus(y_hat) - ops.multiply(y_hat, y))


def kl_div(log_q: Any, p: Any) -> Any:
    """Kullback-Leibler divergence of q from p: Σ p (ln p − ln q) / n, over a batch of n distributions.

    The batch is the first axis, as with reduction="batchmean" in PyTorch.

    Type:     (T, T) -> T[] for floating T; p ≥ 0, and the term is 0 where p is 0
    Gradient: d ln q = −p / n
    """
    positive = p > 0
    entropy = select(positive, p * ops.log(select(positive, p, zeros_like(p) + 1)), zeros_like(p))
    return ops.sum(entropy - p * log_q) / ops.number_of(p.shape[0], p.dtype)


def nll(log_p: Any, labels: Any, ignore_index: int = -100) -> Any:
    """Negative log likelihood: the mean of −ln p[label], over the labels that are not ignored.

    Type:     (T[…, classes], I[…]) -> T[] for floating T and whole I
    Raises:   ShapeError if the shapes do not agree
    Gradient: d ln p = −1 / n at the labels; NaN, like the loss, for a label that is no class
    """
    return _negative_likelihood(log_p, labels, ignore_index, 0.0)


def cross_entropy(y_hat: Any, labels: Any, ignore_index: int = -100, label_smoothing: float = 0.0) -> Any:
    """Cross entropy of softmax(ŷ) over the last axis, the mean over the labels not ignored.

    With label smoothing ε, a share ε of each label is spread over all classes.

    Type:     (T[…, classes], I[…]) -> T[] for floating T and whole I
    Raises:   ShapeError if the shapes do not agree; OptionError unless 0 ≤ ε ≤ 1
    Gradient: dŷ = (softmax(ŷ) − onehot(label)) / n; NaN, like the loss, for a label that is no class
    Source:   label smoothing: Szegedy et al. 2016 (arXiv:1512.00567), section 7
    """
    if not 0 <= label_smoothing <= 1:
        raise OptionError("label smoothing must lie in [0, 1]", f"it is {label_smoothing}", "try 0.1")
    return _negative_likelihood(ops.log_softmax(y_hat), labels, ignore_index, label_smoothing)


def _negative_likelihood(log_p: Any, labels: Any, ignore_index: int, smoothing: float) -> Any:
    if labels.shape != log_p.shape[:-1]:
        raise ShapeError(
            "there must be one label for each distribution over the last axis",
            f"the predictions are {log_p.type} and the labels {labels.type}",
            "give labels of whole numbers, without the axis of classes",
        )
    zero, last = zeros_like(log_p), log_p.type.rank - 1
    classes = broadcast(ops.iota(log_p.shape[-1], labels.dtype), log_p.shape)
    hit = broadcast(labels, log_p.shape, (last,)) == classes
    likelihood = ops.sum(select(hit, log_p, zero), last)
    if smoothing:
        likelihood = (1 - smoothing) * likelihood + smoothing * ops.mean(log_p, last)
    ignored = labels == ignore_index
    # A label that is no class is hit nowhere, and 0 / 0 says so.
    hits = select(ignored, zeros_like(likelihood) + 1, ops.sum(select(hit, zero + 1, zero), last))
    counted = select(ignored, zeros_like(likelihood), zeros_like(likelihood) + 1)
    return -(ops.sum(counted * (likelihood / hits)) / ops.sum(counted))

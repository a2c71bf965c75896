"""Evaluation: the loss and metrics of a model on data, as means over the examples."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import SupportsFloat

import numpy as np
from numpy.typing import ArrayLike

from catgrad.errors import DivergenceError, OptionError, ShapeError
from catgrad.learn.fit.batches import Batch, Data, Source, batches, examples_in
from catgrad.learn.fit.parallel import ALONE, Parallel, summed
from catgrad.learn.learner import Learner, require_functions
from catgrad.programs.ports import Kind
from catgrad.types import as_numpy

Metric = Callable[..., SupportsFloat]
"""A function (ŷ, y) -> number on NumPy arrays; with several, all outputs, then all labels."""

Metrics = Metric | Mapping[str, Metric] | None
"""One metric, named after its function, or several by name."""


def accuracy(y_hat: ArrayLike, y: ArrayLike) -> float:
    """Accuracy: the proportion of labels with the greatest score, mean of [argmax ŷ = y].

    Labels are indices of classes, or one-hot.

    Type:   (T[…, classes], I[…]) or (T[…, classes], T[…, classes]) -> number, for 2 classes or more
    Raises: ShapeError if the shapes are not these
    """
    scores, labels = np.asarray(y_hat), np.asarray(y)
    one_hot = labels.shape == scores.shape
    if scores.ndim < 2 or scores.shape[-1] < 2 or not (one_hot or labels.shape == scores.shape[:-1]):
        raise ShapeError(
            "scores must have an axis of at least two classes, and labels must be integers or one-hot",
            f"the scores have shape {scores.shape} and the labels {labels.shape}",
            "reshape them, or write a metric (y_hat, y) of your own",
            subject="accuracy",
        )
    return float(np.mean(scores.argmax(axis=-1) == (labels.argmax(axis=-1) if one_hot else labels)))


def evaluate(
    learner: Learner, data: Data, *, batch_size: int = 64, inputs: int = 1, metric: Metrics = None
) -> dict[str, float]:
    """Evaluate the loss on data, as "loss", and each metric by its name, without training.

    Each is the mean over the batches, weighted by their sizes; so a metric is exact where it is a mean
    over examples, as `accuracy` is. The first `inputs` arrays of a batch are the model's.

    Raises: ShapeError and OptionError as `batches`; DivergenceError if the loss is not finite; NotEmitted if
            the loss was not emitted, or for a metric `predict`
    """
    metrics = named(metric)
    check_evaluates(learner, metrics)
    return evaluate_batches(learner, batches(data, batch_size, None), metrics, inputs)


def check_evaluates(learner: object, metrics: Mapping[str, Metric]) -> None:
    """Raise NotEmitted if evaluation needs a function that was not emitted."""
    require_functions(learner, Kind.LOSS, *([Kind.PREDICT] if metrics else []))


def evaluate_batches(
    learner: Learner, source: Source, metrics: Mapping[str, Metric], inputs: int, parallel: Parallel = ALONE
) -> dict[str, float]:
    """Evaluate, with data and metrics that have been checked, over the batches of all processes."""
    names = ("loss", *metrics)
    totals, examples = [0.0] * len(names), 0
    for batch in source(0):
        size = examples_in(batch)
        if size:
            values = _values(learner, parallel.place(batch), metrics, inputs)
            totals = [total + value * size for total, value in zip(totals, values, strict=True)]
        examples += size
    *sums, count = summed(parallel, [*totals, examples])
    finite(sums[0], "evaluation")
    return {name: total / max(count, 1) for name, total in zip(names, sums, strict=True)}


def _values(learner: Learner, batch: Batch, metrics: Mapping[str, Metric], inputs: int) -> list[float]:
    """Compute the loss and the metrics of one batch."""
    values = [float(learner.loss(*batch))]
    if metrics:
        outputs = learner.predict(*batch[:inputs])
        outputs = outputs if isinstance(outputs, (tuple, list)) else [outputs]
        arrays = [as_numpy(array) for array in (*outputs, *batch[inputs:])]
        values += [float(metric(*arrays)) for metric in metrics.values()]
    return values


def finite(loss: SupportsFloat, where: str) -> float:
    """Return the loss as a number. Raises: DivergenceError if it is NaN or infinite."""
    value = float(loss)
    if not math.isfinite(value):
        raise DivergenceError(
            "the loss must be a finite number",
            f"it is {value}",
            "lower the learning rate, check the data for infinity and wrong labels, or trace the first NaN",
            where=where,
        )
    return value


def named(metric: Metrics) -> dict[str, Metric]:
    """Return metrics by name. Raises: OptionError if one is not a function, or is called loss."""
    if metric is None:
        return {}
    table = dict(metric) if isinstance(metric, Mapping) else {getattr(metric, "__name__", "metric"): metric}
    for name, function in table.items():
        if not callable(function) or name == "loss":
            raise OptionError(
                "a metric must be a function (y_hat, y), or several by names other than loss",
                f"{name!r} is {function!r}",
                "write metric=accuracy or metric={'error': lambda y_hat, y: ...}",
            )
    return table

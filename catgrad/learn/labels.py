"""Checks of the labels of a loss: integers for classes, or arrays like the predictions."""

from __future__ import annotations

from catgrad.dims import Dim
from catgrad.errors import DtypeError, ShapeError
from catgrad.terms.var import Var
from catgrad.types import Dtype, NdArrayType

INTEGERS = (Dtype.int32, Dtype.int64)


def check_classes(predictions: NdArrayType, labels: NdArrayType) -> None:
    """Raise ShapeError or DtypeError unless there is an integer label for each row of predictions."""
    expected = NdArrayType(predictions.shape[:-1], Dtype.int64)
    must = f"labels must be integers, one for each distribution over the last axis of {predictions}"
    if labels.shape == predictions.shape and labels.rank:
        raise ShapeError(
            must,
            f"they are {labels}, one-hot like the predictions",
            f"give {_argument(expected)} and integer labels, or choose a loss of one-hot labels such as mse",
        )
    if labels.shape != expected.shape:
        raise ShapeError(must, f"they are {labels}", f"give {_argument(expected)}")
    if labels.dtype not in INTEGERS:
        raise DtypeError(must, f"they are {labels}", f"give {_argument(expected)}")


def check_like_predictions(loss: str, predictions: object, labels: object) -> None:
    """Raise ShapeError or DtypeError unless the labels of a loss have the type of the predictions."""
    if not (isinstance(predictions, Var) and isinstance(labels, Var)):
        return  # operations refuse it
    y_hat, y = predictions.type, labels.type
    if y is y_hat:
        return
    are_classes = y.shape == y_hat.shape[:-1] and y_hat.rank
    raise (ShapeError if y.shape != y_hat.shape else DtypeError)(
        f"the labels of {loss} must have the type of the predictions, {y_hat}",
        f"they are {y}",
        f"make labels of classes one-hot and give {_argument(y_hat)}, or choose cross_entropy"
        if are_classes
        else f"give {_argument(y_hat)}, which is the default",
    )


def _argument(type: NdArrayType) -> str:
    """Spell the argument `labels` with one type as code."""
    sizes = [f"Dim({str(size)!r})" if isinstance(size, Dim) else str(size) for size in type.shape]
    shape = f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"
    return f"labels=(NdArrayType({shape}, Dtype.{type.dtype.name}),)"
